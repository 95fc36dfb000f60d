"""Contract checks of fitting: what it leaves alone, what it leaves behind, what it repeats.

Each check is called as ``check(name, estimator, make_inputs=...)`` and raises AssertionError.
"""

import copy
import dataclasses
import pickle
import random
import sys

import numpy as np

from ._contract_compare import (
    assert_same,
    assert_same_process_state,
    digest,
    outputs_or_none,
    process_state,
    raises,
    read_only,
)
from ._contract_inputs import fitted, fresh
from ._tags import takes_two_d_array

_DATA_FIELDS = ("X", "y", "fit_params", "predict_X", "predict_params")


def check_fit_returns_self(name, estimator_orig, *, make_inputs):
    """``fit`` returns the estimator."""
    estimator = fresh(estimator_orig)
    assert make_inputs("small").fit(estimator) is estimator, f"{name}.fit must return self."


def check_parameters_untouched(name, estimator_orig, *, make_inputs):
    """Neither ``fit`` nor the output methods change a parameter, or what it refers to."""
    estimator, inputs = fresh(estimator_orig), make_inputs("small")
    before = estimator.get_params(deep=False)
    digests = {key: digest(value) for key, value in before.items()}
    inputs.fit(estimator)
    inputs.outputs(estimator)
    for key, value in estimator.get_params(deep=False).items():
        assert value is before[key], f"{name} replaces its parameter {key!r}."
        assert digest(value) == digests[key], f"{name} changes its parameter {key!r} in place."


def check_inputs_untouched(name, estimator_orig, *, make_inputs):
    """Neither ``fit`` nor the output methods change their arguments."""
    estimator, inputs = fresh(estimator_orig), make_inputs("small")
    before = {field: digest(getattr(inputs, field)) for field in _DATA_FIELDS}
    inputs.fit(estimator)
    inputs.outputs(estimator)
    for field, value in before.items():
        assert digest(getattr(inputs, field)) == value, f"{name} changes {field} in place."


def check_read_only_inputs(name, estimator_orig, *, make_inputs):
    """Arrays that cannot be written to (memory maps, for one) give the same outputs."""
    estimator, inputs = fitted(estimator_orig, make_inputs)
    expected = inputs.outputs(estimator)
    frozen = {field: read_only(getattr(inputs, field)) for field in _DATA_FIELDS}
    inputs = dataclasses.replace(inputs, **frozen)
    estimator = fresh(estimator_orig)
    inputs.fit(estimator)
    assert_same(expected, inputs.outputs(estimator), f"{name} on read-only arrays")


def check_fitted_attribute_names(name, estimator_orig, *, make_inputs):
    """What ``fit`` adds ends in an underscore, or is private; output methods add nothing."""
    estimator, inputs = fresh(estimator_orig), make_inputs("small")
    before = set(vars(estimator))
    inputs.fit(estimator)
    added = set(vars(estimator)) - before
    wrong = {key for key in added if not (key.startswith("_") or key.endswith("_"))}
    assert not wrong, f"{name}.fit adds the public attributes {sorted(wrong)} without underscore."
    public = {key for key in added if not key.startswith("_")}
    assert public, f"{name}.fit leaves no public fitted attribute."
    after_fit = set(vars(estimator))
    inputs.outputs(estimator)
    added = {key for key in set(vars(estimator)) - after_fit if not key.startswith("_")}
    assert not added, f"The output methods of {name} add the attributes {sorted(added)}."


def check_not_fitted_error(name, estimator_orig, *, make_inputs):
    """Before ``fit`` every output method raises NotFittedError."""
    estimator, inputs = fresh(estimator_orig), make_inputs("small")
    results = outputs_or_none(inputs, estimator, f"{name} before fit")
    assert not results, f"{name}: {sorted(results)} work before fit."


def check_fit_repeated(name, estimator_orig, *, make_inputs):
    """Fitting again on the same data gives the same outputs."""
    estimator, inputs = fitted(estimator_orig, make_inputs)
    expected = inputs.outputs(estimator)
    inputs.fit(estimator)
    assert_same(expected, inputs.outputs(estimator), f"{name} fitted twice")


def check_fit_forgets(name, estimator_orig, *, make_inputs):
    """A fit on other data in between leaves no trace."""
    estimator, inputs = fitted(estimator_orig, make_inputs)
    if getattr(estimator, "warm_start", False):
        estimator.set_params(warm_start=False)
    expected = inputs.outputs(estimator)
    attributes = set(vars(estimator))
    other, _ = fitted(estimator_orig, make_inputs, size="large")
    inputs.fit(other)
    what = f"{name} fitted on other data before"
    assert_same(expected, inputs.outputs(other), what)
    left = set(vars(other)) - attributes
    assert not left, f"{what} keeps the attributes {sorted(left)}."


def check_determinism(name, estimator_orig, *, make_inputs):
    """The same ``random_state`` gives the same outputs, whatever the global generators do."""
    for random_state in (lambda: 0, lambda: np.random.RandomState(0)):
        results = []
        for _ in range(2):
            estimator, inputs = fresh(estimator_orig), make_inputs("small")
            if "random_state" in estimator.get_params(deep=False):
                estimator.set_params(random_state=random_state())
            inputs.fit(estimator)
            results.append(inputs.outputs(estimator))
            _advance_global_generators()
        assert_same(*results, f"{name} with the same random_state")


def _advance_global_generators():
    random.random()
    np.random.random()  # noqa: NPY002 - it is the global generator that must not matter
    if (torch := sys.modules.get("torch")) is not None:
        torch.rand(())


def check_n_jobs(name, estimator_orig, *, make_inputs):
    """One job and two jobs give the same model."""
    results = []
    for n_jobs in (1, 2):
        estimator, inputs = fresh(estimator_orig).set_params(n_jobs=n_jobs), make_inputs("small")
        inputs.fit(estimator)
        results.append(inputs.outputs(estimator))
    assert_same(*results, f"{name} with n_jobs=1 and 2")


def check_global_state(name, estimator_orig, *, make_inputs):
    """Global generators, thread counts, environment and warning filters stay as they were."""
    # Modules loaded for the first time may set filters and variables; that is seen on the
    # second round, a thread count that is lowered once and for all only on the first.
    for may_change in ({"warnings.filters", "os.environ"}, set()):
        estimator, inputs = fresh(estimator_orig), make_inputs("small")
        before = {k: v for k, v in process_state().items() if k not in may_change}
        inputs.fit(estimator)
        assert_same_process_state(before, process_state(), f"{name}.fit")
        inputs.outputs(estimator)
        assert_same_process_state(before, process_state(), f"An output method of {name}")


def check_pickle(name, estimator_orig, *, make_inputs):
    """A pickled estimator, fitted or not, comes back with identical outputs."""
    _check_copied(name, estimator_orig, make_inputs, lambda est: pickle.loads(pickle.dumps(est)))


def check_deepcopy(name, estimator_orig, *, make_inputs):
    """A deep copy has identical outputs, and does not share its fitted state."""
    _check_copied(name, estimator_orig, make_inputs, copy.deepcopy)
    estimator, inputs = fitted(estimator_orig, make_inputs)
    expected = inputs.outputs(estimator)
    make_inputs("large").fit(copy.deepcopy(estimator))
    assert_same(expected, inputs.outputs(estimator), f"{name} after its copy was fitted")


def _check_copied(name, estimator_orig, make_inputs, copied):
    inputs = make_inputs("small")
    unfitted = copied(fresh(estimator_orig))
    inputs.fit(unfitted)
    estimator, inputs = fitted(estimator_orig, make_inputs)
    expected = inputs.outputs(estimator)
    assert_same(expected, inputs.outputs(unfitted), f"{name} copied, then fitted")
    assert_same(expected, inputs.outputs(copied(estimator)), f"{name} fitted, then copied")
    assert_same(expected, inputs.outputs(estimator), f"{name} after it was copied")


def check_malformed_input(name, estimator_orig, *, make_inputs):
    """Malformed data are refused with ValueError or TypeError and a message that says why."""
    inputs = make_inputs("small")
    if not inputs.malformed and takes_two_d_array(estimator_orig):
        return  # tags.no_validation
    assert inputs.malformed, f"The registered inputs of {name} hold no malformed data."
    for number, malformed in enumerate(inputs.malformed):
        spoiled = inputs.spoiled(malformed)
        where = "an output method" if malformed.at_predict else "fit"
        what = f"{name}: malformed input {number} ({', '.join(malformed.changes)}) to {where}"
        estimator = fresh(estimator_orig)
        if malformed.at_predict:
            inputs.fit(estimator)
        with raises((ValueError, TypeError), malformed.match, what):
            if malformed.at_predict:
                spoiled.outputs(estimator)
            else:
                spoiled.fit(estimator)


def check_failed_fit_leaves_nothing(name, estimator_orig, *, make_inputs):
    """After a failed ``fit`` the estimator is not fitted, or is the model that it was."""
    inputs = make_inputs("small")
    model, _ = fitted(estimator_orig, make_inputs)
    expected = inputs.outputs(model)
    for number, malformed in enumerate(inputs.malformed):
        if malformed.at_predict:
            continue
        what = f"{name} after the failed fit on malformed input {number}"
        estimator = fresh(estimator_orig)
        for candidate in (estimator, model):
            try:
                inputs.spoiled(malformed).fit(candidate)
            except Exception:  # which error it is, check_malformed_input sees
                continue
            raise AssertionError(f"{name}.fit accepts malformed input {number}.")
        half_fitted = outputs_or_none(inputs, estimator, what)
        assert not half_fitted, f"{what} takes itself for fitted."
        refitted = outputs_or_none(inputs, model, f"{what}, fitted before")
        if refitted is None:
            model, _ = fitted(estimator_orig, make_inputs)
        else:
            names = inputs.method_names(model)
            assert_same({key: expected[key] for key in names}, refitted, f"{what}, fitted before")
