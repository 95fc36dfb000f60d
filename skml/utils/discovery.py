"""Find the public estimators of skml."""

import importlib
import importlib.util
import inspect
import pkgutil
import warnings

from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClusterMixin,
    RegressorMixin,
    TransformerMixin,
)

__all__ = ["EstimatorList", "all_estimators"]

_MIXINS = {
    "classifier": ClassifierMixin,
    "regressor": RegressorMixin,
    "transformer": TransformerMixin,
    "cluster": ClusterMixin,
}
_TYPE_FILTERS = (*_MIXINS, "other")


class EstimatorList(list):
    """List of ``(name, class)`` pairs that remembers what could not be loaded.

    Parameters
    ----------
    pairs : iterable of (str, type), default=()
        The estimators that were found.
    skipped : dict of str to str or None, default=None
        For each public module or name that needs an optional package which is not installed,
        the message of the ImportError.

    Attributes
    ----------
    skipped : dict of str to str
        As given; ``len(estimators.skipped)`` is the number of names left out.
    """

    def __init__(self, pairs=(), skipped=None):
        super().__init__(pairs)
        self.skipped = dict(skipped or {})


def all_estimators(type_filter=None):
    """Get all public estimators of skml.

    A class is public when it is named in the ``__all__`` of a public module of skml. Abstract
    classes are left out, and an alias of a class is not counted twice. Names that need an
    optional package that is not installed are skipped: their number is told by a UserWarning,
    and the names with the reasons are in the `skipped` attribute of the result.

    Parameters
    ----------
    type_filter : {"classifier", "regressor", "transformer", "cluster", "other"}, list of these \
or None, default=None
        Which kinds to return; "other" means none of the four before it. None returns all.

    Returns
    -------
    EstimatorList
        List of ``(name, class)``, sorted by name, with the attribute `skipped`.

    Examples
    --------
    >>> from skml.utils.discovery import all_estimators
    >>> classifiers = all_estimators("classifier")
    >>> all(hasattr(estimator, "fit") for _, estimator in classifiers)
    True
    """
    wanted = _check_type_filter(type_filter)
    found, skipped = public_objects()
    pairs = {
        (value.__name__, value)
        for value in found.values()
        if inspect.isclass(value)
        and issubclass(value, BaseEstimator)
        and not inspect.isabstract(value)
    }
    if skipped:
        warnings.warn(
            f"{len(skipped)} public names of skml were skipped, because an optional package is "
            f"not installed: {', '.join(sorted(skipped))}",
            UserWarning,
            stacklevel=2,
        )
    chosen = [pair for pair in pairs if wanted is None or wanted & _kinds(pair[1])]
    chosen.sort(key=lambda pair: (pair[0], pair[1].__module__))
    return EstimatorList(chosen, skipped)


def public_objects():
    """Load every name in the ``__all__`` of every public module of skml.

    Returns
    -------
    found : dict of str to object
        The objects by qualified name, such as ``"skml.tree.MADecisionTreeClassifier"``.
    skipped : dict of str to str
        The messages for what lacks its optional package.
    """
    found, skipped = {}, {}
    for module_name in public_modules():
        try:
            module = importlib.import_module(module_name)
        except ImportError as error:
            skipped[module_name] = _missing_extra(error)
            continue
        for name in getattr(module, "__all__", ()):
            try:
                found[f"{module_name}.{name}"] = getattr(module, name)
            except ImportError as error:
                skipped[f"{module_name}.{name}"] = _missing_extra(error)
    return found, skipped


def public_modules():
    """Names of the public modules below skml.

    Returns
    -------
    list of str
        Sorted; modules and packages whose name starts with an underscore, or is "tests", are
        left out with all that is below them.
    """
    names, packages = [], ["skml"]
    while packages:
        package = packages.pop()
        for _, name, is_package in pkgutil.iter_modules(_search_path(package)):
            if name.startswith("_") or name in {"tests", "conftest"}:
                continue
            names.append(f"{package}.{name}")
            if is_package:
                packages.append(names[-1])
    return sorted(names)


def _search_path(package):
    try:
        return importlib.util.find_spec(package).submodule_search_locations
    except ImportError:  # the parent lacks its extra, and is counted as skipped itself
        return []


def _missing_extra(error):
    """Message of an ImportError that a missing package explains; any other is raised again."""
    missing = (error.name or "").partition(".")[0]
    is_foreign = isinstance(error, ModuleNotFoundError) and missing not in {"", "skml"}
    if is_foreign or "pip install" in str(error):
        return str(error)
    raise error


def _check_type_filter(type_filter):
    if type_filter is None:
        return None
    wanted = {type_filter} if isinstance(type_filter, str) else set(type_filter)
    if unknown := wanted - set(_TYPE_FILTERS):
        raise ValueError(
            f"type_filter must be None or made of {list(_TYPE_FILTERS)}, got {sorted(unknown)!r}."
        )
    return wanted


def _kinds(estimator_class):
    kinds = {kind for kind, mixin in _MIXINS.items() if issubclass(estimator_class, mixin)}
    return kinds or {"other"}
