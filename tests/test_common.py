"""Every public estimator passes scikit-learn's checks, where X is 2-D, and skml's contract.

A new class is found by itself. What its method may have to add, one class on a line:

- `CHECK_PARAMS`: parameters that make its fit quick (iterations, ensemble size and widths only);
- `EXPECTED_FAILED_CHECKS`: checks that it may fail, each with a reason that a scikit-learn core
  developer would accept. An excuse that is no longer needed fails the run.

Input generators, adapters for extra arrays and instances of classes with required parameters are
not listed here: they register themselves in `tests/SUB/_inputs_PAGE.py` (see
`skml.utils.estimator_checks`).
"""

from pathlib import Path
from unittest import SkipTest

import pytest

from skml.utils.discovery import all_estimators
from skml.utils.estimator_checks import (
    check_name,
    checks_of,
    collect_inputs,
    make_instance,
)

CHECK_PARAMS = {
    "MARandomForestClassifier": {"n_estimators": 5},
    "MARandomForestRegressor": {"n_estimators": 5},
    "ATEscDistiller": {"max_iter": 1},
    "DataFreeDistiller": {"max_iter": 1},
    "CATEBounder": {"max_iter": 10, "max_epochs": 3, "hidden_layer_sizes": (8,)},
    "FunctionalTimeEncoder": {"max_iter": 20},
    "INRRegressor": {"max_iter": 20},
    "LeTETimeEncoder": {"max_iter": 20},
    "QuantumGroupEquivariantClassifier": {"max_epochs": 20},
    "QuantumGroupEquivariantRegressor": {"max_epochs": 20},
}

_TIME_ENCODER_EXCUSES = {
    "check_sample_weight_equivalence_on_dense_data": "the range and the gaps of the times count "
    "every row, whatever its weight, and they set the initial frequencies",
}
EXPECTED_FAILED_CHECKS = {
    "ShufflingSGDClassifier": {
        "check_sample_weight_equivalence_on_dense_data": "a repeated row is two steps, a "
        "weight of two is one; SGDClassifier fails it too",
        "check_sample_weight_equivalence_on_sparse_data": "a repeated row is two steps, a "
        "weight of two is one; SGDClassifier fails it too",
    },
    "ShufflingSGDRegressor": {
        "check_sample_weight_equivalence_on_dense_data": "a repeated row is two steps, a "
        "weight of two is one; SGDRegressor fails it too",
        "check_sample_weight_equivalence_on_sparse_data": "a repeated row is two steps, a "
        "weight of two is one; SGDRegressor fails it too",
    },
    "CATEBounder": {
        "check_sample_weight_equivalence_on_dense_data": "networks see repeated rows in other "
        "batches than weighted ones",
    },
    "FunctionalTimeEncoder": _TIME_ENCODER_EXCUSES,
    "LeTETimeEncoder": _TIME_ENCODER_EXCUSES,
    # "SomeEstimator": {"check_of_scikit_learn": "why the method cannot pass it"},
    "MARandomForestClassifier": {
        "check_sample_weight_equivalence_on_dense_data": "a bootstrap draws rows at random: a "
        "weight equals repeated rows in the mean only, as in RandomForestClassifier"
    },
    "MARandomForestRegressor": {
        "check_sample_weight_equivalence_on_dense_data": "a bootstrap draws rows at random: a "
        "weight equals repeated rows in the mean only, as in RandomForestRegressor"
    },
}

_MAY_BE_LOWERED = {
    "max_iter",
    "max_epochs",
    "n_estimators",
    # widths
    "d_model",
    "embed_dim",
    "hidden_dim",
    "hidden_layer_sizes",
    "n_channels",
    "n_hidden",
    "width",
}

collect_inputs(Path(__file__).parent)
ESTIMATORS = all_estimators()
_CLASSES = dict(ESTIMATORS)


def _instance(name):
    return make_instance(_CLASSES[name]).set_params(**CHECK_PARAMS.get(name, {}))


def _cases():
    """One pytest parameter for each check of each class; a class that cannot be checked has one."""
    for name in _CLASSES:
        excused = EXPECTED_FAILED_CHECKS.get(name, {})
        try:
            pairs = [
                pair for pair in checks_of(_instance(name)) if check_name(pair[1]) not in excused
            ]
        except (
            Exception
        ) as error:  # told by a failing test of this class, not by a broken collection
            yield pytest.param(error, _cannot_be_checked, id=f"{name}-cannot_be_checked")
            continue
        for estimator, check in pairs:
            if check_name(check) in excused:
                continue
            yield pytest.param(estimator, check, id=f"{name}-{check_name(check)}")


def _cannot_be_checked(error):
    raise error


def _run(check, estimator):
    try:
        check(estimator)
    except SkipTest as error:
        pytest.skip(str(error))


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize(("estimator", "check"), list(_cases()))
def test_contract(estimator, check):
    _run(check, estimator)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "excused"),
    [(name, check) for name, checks in EXPECTED_FAILED_CHECKS.items() for check in checks],
)
def test_excuse_is_needed(name, excused):
    if name not in _CLASSES and ESTIMATORS.skipped:
        pytest.skip(f"{name} is not loaded.")
    variants = [pair for pair in checks_of(_instance(name)) if check_name(pair[1]) == excused]
    assert variants, f"{name} has no check named {excused}."
    for estimator, check in variants:
        try:
            check(estimator)
        except Exception:
            return
    pytest.fail(f"{name} passes {excused}: remove its excuse.")


def test_tables_name_classes_that_exist():
    listed = CHECK_PARAMS.keys() | EXPECTED_FAILED_CHECKS.keys()
    if not ESTIMATORS.skipped:
        assert listed <= _CLASSES.keys()


def test_check_params_lower_only_cost():
    for name, params in CHECK_PARAMS.items():
        assert params.keys() <= _MAY_BE_LOWERED, name
