"""Checks that every estimator of skml must pass, whatever its X is.

Where X is a 2-D array of samples these are scikit-learn's own checks and the contract checks of
skml; where it is not (sequences, trajectories, environments, ...) the contract checks alone, on
data that a registered generator makes. How a class takes part:

- X is a 2-D array and ``fit(X, y)`` suffices: nothing to do.
- X is something else: say so in ``__sklearn_tags__`` by :func:`skml.utils.extend_tags`, and
  register a generator with :func:`register_inputs`.
- It is no X, y estimator at all: ``extend_tags(tags, x_y_estimator=False)``, and a generator. The
  checks inside Pipeline and GridSearchCV are then left out.
- X is 2-D, but ``fit`` needs further arrays: make a test-only subclass by
  :func:`with_extra_arrays`, and register inputs with these arrays in ``fit_params`` to have
  their routing in Pipeline and GridSearchCV checked.
- The constructor has required parameters: :func:`register_instance`.

The registrations for the method NAME of the sub-package SUB stand in
``tests/SUB/_inputs_NAME.py``; :func:`collect_inputs` imports all such modules.
"""

import importlib.util
import sys
import warnings
from functools import partial
from pathlib import Path
from unittest import SkipTest

from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import estimator_checks_generator

from . import _contract_checks_api as api
from . import _contract_checks_fit as fit
from . import _contract_checks_use as use
from ._contract_inputs import (
    ContractInputs,
    Malformed,
    adapt,
    has_registered_inputs,
    inputs_for,
    make_instance,
    register_inputs,
    register_instance,
    with_extra_arrays,
)
from ._tags import follows_x_y, takes_two_d_array

__all__ = [
    "ContractInputs",
    "Malformed",
    "check_name",
    "check_skml_estimator",
    "checks_of",
    "collect_inputs",
    "contract_checks",
    "make_instance",
    "register_inputs",
    "register_instance",
    "with_extra_arrays",
]


def check_skml_estimator(
    estimator, *, expected_failed_checks=None, make_inputs=None, on_fail="raise"
):
    """Check that an estimator keeps scikit-learn's conventions and skml's contract.

    Parameters
    ----------
    estimator : estimator object
        The instance to check. Its clones are fitted; the instance itself is left alone.
    expected_failed_checks : dict of str to str or None, default=None
        Names of checks that may fail, each with the reason. An excuse for a check that passes,
        or that does not exist, is itself a failure.
    make_inputs : callable or None, default=None
        ``make_inputs(size)`` as for :func:`register_inputs`, which it overrides.
    on_fail : {"raise", None}, default="raise"
        Whether the first failure is raised, or all are collected in the result.

    Returns
    -------
    list of dict
        For each check its ``check_name``, its ``status`` ("passed", "failed", "xfail",
        "skipped"), the ``exception`` and ``expected_to_fail``.

    Raises
    ------
    TypeError
        If `estimator` is a class.
    LookupError
        If X is not a 2-D array and there are no inputs for the class.
    AssertionError
        If a check fails.

    Examples
    --------
    >>> import warnings
    >>> from sklearn.preprocessing import Normalizer
    >>> from skml.utils.estimator_checks import check_skml_estimator
    >>> excuses = {"check_docstring": "Normalizer has no paper to refer to"}
    >>> with warnings.catch_warnings(action="ignore"):  # it has no score for GridSearchCV either
    ...     results = check_skml_estimator(Normalizer(), expected_failed_checks=excuses)
    >>> sorted({result["status"] for result in results})
    ['passed', 'skipped', 'xfail']
    """
    excuses = dict(expected_failed_checks or {})
    results = []
    for instance, check in checks_of(estimator, make_inputs=make_inputs):
        result = _run(instance, check, excuses)
        if result["status"] == "failed" and on_fail == "raise":
            raise result["exception"]
        if result["status"] == "skipped":
            message = f"{result['check_name']} was skipped: {result['exception']}"
            warnings.warn(message, SkipTestWarning, stacklevel=2)
        results.append(result)
    # A check may come in several variants; one that fails makes the excuse needed.
    needed = {result["check_name"] for result in results if result["status"] == "xfail"}
    if unneeded := sorted(set(excuses) - needed):
        raise AssertionError(
            f"expected_failed_checks excuses what {type(estimator).__name__} passes or does not "
            f"have: {unneeded}. Remove these excuses."
        )
    return results


def _run(instance, check, excuses):
    name = check_name(check)
    result = {"check_name": name, "status": "passed", "exception": None}
    result["expected_to_fail"] = name in excuses
    try:
        check(instance)
    except SkipTest as error:
        result |= {"status": "skipped", "exception": error}
    except Exception as error:
        result |= {"status": "xfail" if name in excuses else "failed", "exception": error}
    return result


def checks_of(estimator, *, make_inputs=None):
    """Yield all checks of an estimator: scikit-learn's where X is 2-D, and the contract's.

    Parameters
    ----------
    estimator : estimator object
        The instance to check. Its test-only adapter, if there is one, takes its place in
        scikit-learn's checks, and in the contract checks too unless inputs are registered.
    make_inputs : callable or None, default=None
        Overrides the registered generator of inputs.

    Yields
    ------
    estimator : estimator object
        The instance to call the check with.
    check : functools.partial
        The check, named :func:`check_name`; ``pytest.mark.parametrize`` takes these pairs.
    """
    if isinstance(estimator, type):
        raise TypeError(
            f"estimator must be an instance, got the class {estimator.__name__}; "
            "make_instance builds one."
        )
    adapter = adapt(estimator)
    if takes_two_d_array(adapter):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SkipTestWarning)
            yield from estimator_checks_generator(adapter)
    # With inputs of its own the class itself shows that its extra arrays are routed.
    has_inputs = make_inputs is not None or has_registered_inputs(estimator)
    yield from contract_checks(estimator if has_inputs else adapter, make_inputs=make_inputs)


def contract_checks(estimator, *, make_inputs=None):
    """Yield the contract checks of skml that apply to an estimator.

    Parameters
    ----------
    estimator : estimator object
        The instance to check.
    make_inputs : callable or None, default=None
        Overrides the registered generator of inputs.

    Yields
    ------
    estimator : estimator object
        As given.
    check : functools.partial
        The check.
    """
    make_inputs = make_inputs or (inputs_for(estimator) if hasattr(estimator, "fit") else None)
    for check in _applicable(estimator):
        yield estimator, partial(check, type(estimator).__name__, make_inputs=make_inputs)


def _applicable(estimator):
    yield api.check_constructor
    yield api.check_clone
    yield api.check_get_set_params
    yield api.check_docstring
    if not hasattr(estimator, "fit"):
        return
    tags = estimator.__sklearn_tags__()
    yield api.check_parameter_validation
    yield fit.check_fit_returns_self
    yield fit.check_parameters_untouched
    yield fit.check_inputs_untouched
    yield fit.check_read_only_inputs
    yield fit.check_fitted_attribute_names
    if tags.requires_fit:
        yield fit.check_not_fitted_error
        yield fit.check_failed_fit_leaves_nothing
    yield fit.check_global_state
    yield fit.check_malformed_input
    if not tags.non_deterministic:
        yield fit.check_fit_repeated
        yield fit.check_fit_forgets
        yield fit.check_determinism
    if "n_jobs" in estimator.get_params(deep=False):
        yield fit.check_n_jobs
    yield fit.check_pickle
    yield fit.check_deepcopy
    yield use.check_threads
    yield use.check_fits_in_threads
    if hasattr(estimator, "transform"):
        yield use.check_transformer_dataframes
    if follows_x_y(estimator):
        yield api.check_extra_arrays_keyword_only
        yield use.check_pipeline
        yield use.check_grid_search


def check_name(check):
    """Give the name of a check.

    Parameters
    ----------
    check : callable
        One that :func:`checks_of` yields.

    Returns
    -------
    str
        Name of the function, also of one wrapped by `functools.partial`.
    """
    return getattr(check, "func", check).__name__


def collect_inputs(directory):
    """Import every ``_inputs_*.py`` below a directory of tests, so that they register.

    Parameters
    ----------
    directory : path-like
        Such as ``tests``. The module ``tests/causal/_inputs_bounds.py`` is imported as
        ``tests.causal._inputs_bounds``, once. A module that needs an optional package which is
        not installed is left out; its estimators cannot be found by ``all_estimators`` either.

    Returns
    -------
    list of module
        The imported modules.
    """
    directory = Path(directory).resolve()
    modules = []
    for path in sorted(directory.rglob("_inputs_*.py")):
        parts = path.relative_to(directory.parent).with_suffix("").parts
        try:
            modules.append(_import_file(".".join(parts), path))
        except ImportError as error:
            is_foreign = error.name and not error.name.startswith(("skml", directory.name))
            if not (is_foreign or "pip install" in str(error)):
                raise
    return modules


def _import_file(name, path):
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
