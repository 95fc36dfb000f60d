"""What the contract checks feed to an estimator, and the registry of it."""

import dataclasses
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from ._tags import takes_two_d_array

OUTPUT_METHODS = (
    "predict",
    "predict_proba",
    "predict_bounds",
    "decision_function",
    "score_samples",
    "transform",
)
OUTPUT_ATTRIBUTES = ("labels_", "embedding_")

_INPUTS = {}
_INSTANCES = {}
_ADAPTERS = {}


@dataclass
class Malformed:
    """One way to give an estimator data that it must refuse.

    Parameters
    ----------
    changes : dict
        Fields of :class:`ContractInputs` that replace the good ones. With ``predict_X`` or
        ``predict_params`` among them the refusal is expected of the fitted estimator's methods,
        otherwise of ``fit``.
    match : str
        Regular expression that the message must contain, in any case: the name of the argument,
        what was seen, what is valid.
    """

    changes: Mapping[str, Any]
    match: str

    @property
    def at_predict(self):
        """Whether the damage shows when predicting, not when fitting."""
        return bool({"predict_X", "predict_params"} & set(self.changes))


@dataclass
class ContractInputs:
    """Good data for an estimator, and ways to spoil it.

    Parameters
    ----------
    X : object or None, default=None
        First argument of ``fit``. None when ``fit`` takes no positional argument.
    y : object or None, default=None
        Second argument of ``fit``. None leaves it out.
    fit_params : dict
        Keyword arguments of ``fit`` (metadata); in the Pipeline and GridSearchCV checks they are
        routed.
    predict_X : object or None, default=None
        First argument of the output methods; None means `X`.
    predict_params : dict
        Keyword arguments of those output methods that accept them.
    methods : sequence of str or None, default=None
        The methods whose output is compared; None means those of ``predict``,
        ``predict_proba``, ``predict_bounds``, ``decision_function``, ``score_samples`` and
        ``transform`` that the estimator has, and its attributes ``labels_`` and ``embedding_``.
    malformed : sequence of Malformed, default=()
        Data that must be refused.
    scoring : str, callable or None, default=None
        Scorer for the GridSearchCV check, for an estimator without ``score``.
    param_grid : dict
        Parameter grid for the GridSearchCV check.
    cv : int or splitter, default=2
        Cross-validation for the GridSearchCV check.
    """

    X: Any = None
    y: Any = None
    fit_params: Mapping[str, Any] = field(default_factory=dict)
    predict_X: Any = None
    predict_params: Mapping[str, Any] = field(default_factory=dict)
    methods: tuple[str, ...] | None = None
    malformed: tuple[Malformed, ...] = ()
    scoring: str | Callable | None = None
    param_grid: Mapping[str, Any] = field(default_factory=dict)
    cv: Any = 2

    def fit(self, estimator):
        """Fit an estimator on these data.

        Parameters
        ----------
        estimator : estimator
            The estimator; it is changed.

        Returns
        -------
        object
            What its ``fit`` returned.
        """
        if self.X is None:
            return estimator.fit(**self.fit_params)
        if self.y is None:
            return estimator.fit(self.X, **self.fit_params)
        return estimator.fit(self.X, self.y, **self.fit_params)

    def method_names(self, estimator):
        """List the output methods of an estimator.

        Parameters
        ----------
        estimator : estimator
            The estimator, fitted or not.

        Returns
        -------
        list of str
            `methods`, or those of the usual names that the estimator has.
        """
        if self.methods is not None:
            return list(self.methods)
        return [name for name in OUTPUT_METHODS if hasattr(estimator, name)]

    def call(self, estimator, method):
        """Call one output method on these data.

        Parameters
        ----------
        estimator : estimator
            A fitted estimator.
        method : str
            Name of the method, such as ``"predict"``.

        Returns
        -------
        object
            What the method returned.
        """
        bound = getattr(estimator, method)
        X = self.X if self.predict_X is None else self.predict_X
        args = () if X is None else (X,)
        return bound(*args, **accepted(bound, self.predict_params))

    def outputs(self, estimator):
        """Collect all outputs on these data.

        Parameters
        ----------
        estimator : estimator
            A fitted estimator.

        Returns
        -------
        dict of str to object
            The outputs, by the name of the method or attribute.
        """
        results = {name: self.call(estimator, name) for name in self.method_names(estimator)}
        for name in OUTPUT_ATTRIBUTES:
            if name in vars(estimator):
                results[name] = getattr(estimator, name)
        assert results, (
            f"{type(estimator).__name__} has no output that the contract checks know; name its "
            "methods in ContractInputs(methods=...)."
        )
        return results

    def spoiled(self, malformed):
        """Damage a copy of these data.

        Parameters
        ----------
        malformed : Malformed
            The changes to make.

        Returns
        -------
        ContractInputs
            The changed copy.
        """
        return dataclasses.replace(self, **malformed.changes)


def accepted(function, arguments):
    """The part of the dict `arguments` that `function` takes by keyword."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(arguments)
    names = {parameter.name for parameter in parameters}
    return {name: value for name, value in arguments.items() if name in names}


def register_inputs(estimator_class):
    """Decorate the function that makes contract inputs for a class.

    Parameters
    ----------
    estimator_class : type
        The estimator class; its subclasses use the same inputs unless they register their own.

    Returns
    -------
    callable
        Decorator for ``make_inputs(size)``, which returns a fresh and always equal
        :class:`ContractInputs` for ``size="small"`` (the inputs of most checks) and for
        ``size="large"`` (other data, with more samples).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator
    >>> from skml.utils.estimator_checks import ContractInputs, Malformed, register_inputs
    >>> class SequenceModel(BaseEstimator):
    ...     pass
    >>> @register_inputs(SequenceModel)
    ... def make_inputs(size):
    ...     rng = np.random.default_rng(0)
    ...     sequences = [rng.normal(size=(n, 2)) for n in range(3, 9 if size == "small" else 12)]
    ...     ragged = Malformed({"X": [np.ones(3)]}, match=r"X\\[0\\] .* 2-D")
    ...     return ContractInputs(X=sequences, malformed=(ragged,))
    """
    return _registrar(_INPUTS, estimator_class)


def register_instance(estimator_class):
    """Decorate the function that builds an instance of a class with required parameters.

    Parameters
    ----------
    estimator_class : type
        A class that cannot be built without arguments, such as a meta-estimator.

    Returns
    -------
    callable
        Decorator for a function without arguments that returns the instance to check.
    """
    return _registrar(_INSTANCES, estimator_class)


def _registrar(registry, estimator_class):
    def register(function):
        registry[estimator_class] = function
        return function

    return register


def _look_up(registry, estimator_class):
    return next((registry[base] for base in estimator_class.__mro__ if base in registry), None)


def make_instance(estimator_class):
    """Build the instance of a class that is checked.

    Parameters
    ----------
    estimator_class : type
        Class of an estimator.

    Returns
    -------
    estimator
        What its registered factory makes, else an instance with default parameters.
    """
    factory = _INSTANCES.get(estimator_class)
    if factory is not None:
        return factory()
    try:
        return estimator_class()
    except TypeError as error:
        raise TypeError(
            f"{estimator_class.__name__} cannot be built without arguments ({error}); register an "
            "instance with skml.utils.estimator_checks.register_instance."
        ) from error


def adapt(estimator):
    """The estimator itself, or its test-only adapter with the same parameters if it has one."""
    adapter = _ADAPTERS.get(type(estimator))
    return estimator if adapter is None else adapter(**estimator.get_params(deep=False))


def has_registered_inputs(estimator):
    """Whether inputs are registered for the class of the estimator or one of its bases."""
    return _look_up(_INPUTS, type(estimator)) is not None


def inputs_for(estimator):
    """Find ``make_inputs(size)`` for an estimator.

    Raises
    ------
    LookupError
        If X is not a 2-D array and no inputs are registered.
    """
    registered = _look_up(_INPUTS, type(estimator))
    if registered is not None:
        return registered
    if takes_two_d_array(estimator):
        return _DefaultInputs(estimator)
    raise LookupError(
        f"{type(estimator).__name__} says in its tags that its X is not a 2-D array of samples, "
        "so the contract checks need data for it: register a generator with "
        "skml.utils.estimator_checks.register_inputs, in tests/SUB/_inputs_PAGE.py."
    )


class _DefaultInputs:
    """Makes 2-D inputs that suit the tags of an estimator."""

    def __init__(self, estimator):
        self.tags = get_tags(estimator)
        self.is_classifier = is_classifier(estimator)
        self.is_regressor = is_regressor(estimator)
        self.has_score = hasattr(estimator, "score")

    def __call__(self, size):
        rng = np.random.default_rng({"small": 0, "large": 1}[size])
        n_samples, n_features = {"small": (40, 4), "large": (60, 3)}[size]
        y = np.arange(n_samples) % 2
        X = rng.normal(size=(n_samples, n_features)) + 1.5 * y[:, None]
        if self.tags.input_tags.positive_only:
            X = np.abs(X)
        if not (self.is_classifier or self.is_regressor or self.tags.target_tags.required):
            y = None
        elif not self.is_classifier:
            y = X[:, 0] - 2.0 * X[:, 1] + 0.1 * rng.normal(size=n_samples)
            if self.tags.target_tags.positive_only:
                y = np.abs(y) + 0.1
        if y is not None and not self.tags.target_tags.single_output:
            y = np.column_stack([y, y[::-1]])
        return ContractInputs(X=X, y=y, malformed=self._malformed(X, y))

    def _malformed(self, X, y):
        if self.tags.no_validation:
            return ()
        cases = [
            Malformed({"X": X.reshape(*X.shape, 1)}, r"dim|2D|shape"),
            Malformed({"X": X[:0], "y": None if y is None else y[:0]}, r"0 sample|minimum|empty"),
            Malformed({"predict_X": np.column_stack([X, X[:, 0]])}, r"features"),
        ]
        if y is not None:
            cases.append(Malformed({"y": y[:-1]}, r"inconsistent|length|samples|shape"))
        if self.is_classifier and y is not None:
            cases.append(Malformed({"y": y + 0.1 * X[:, :1].reshape(-1)}, r"label|class|target"))
        elif y is not None:
            cases.append(Malformed({"y": np.where(y == y[0], np.nan, y)}, r"nan|finite|infinit"))
        return tuple(cases)


def with_extra_arrays(estimator_class, arrays, *, name=None):
    """Make the test-only subclass that derives an estimator's extra arrays from X.

    The subclass fits the plain ``fit(X, y)`` protocol, so that it runs through all of
    scikit-learn's checks in place of `estimator_class`, for which it is registered. Assign the
    result to a module variable of the same name; pickling needs that.

    Parameters
    ----------
    estimator_class : type
        Estimator whose methods take extra arrays.
    arrays : dict of str to callable
        For each keyword argument, ``f(X, rng)`` that returns one value per row of X. It is
        called with a finite float array (n_samples, n_features) and a generator with always the
        same seed. To stand checks that reorder or repeat rows it must compute every row by
        itself, as ``(X @ rng.normal(size=X.shape[1]) > 0).astype(int)`` does. The argument is
        supplied to every public method that names it.
    name : str or None, default=None
        Name of the subclass; None appends "WithArrays".

    Returns
    -------
    type
        The subclass.
    """
    name = f"{estimator_class.__name__}WithArrays" if name is None else name
    namespace = {"__module__": sys._getframe(1).f_globals["__name__"]}
    for method_name, method in inspect.getmembers(estimator_class, callable):
        if method_name.startswith(("_", "set_")):  # set_fit_request and its kind name them too
            continue
        parameters = inspect.signature(method).parameters
        supplied = {key: make for key, make in arrays.items() if key in parameters}
        if supplied:
            namespace[method_name] = _supplying(method, supplied)
    if not namespace.keys() - {"__module__"}:
        raise ValueError(
            f"No public method of {estimator_class.__name__} takes any of {sorted(arrays)}."
        )
    adapter = type(estimator_class)(name, (estimator_class,), namespace)
    _ADAPTERS[estimator_class] = adapter
    return adapter


def _supplying(method, arrays):
    signature = inspect.signature(method)
    X_name = list(signature.parameters)[1]

    def adapted(self, *args, **kwargs):
        X = args[0] if args else kwargs[X_name]
        missing = [key for key in arrays if kwargs.get(key) is None]
        for key in missing:
            kwargs[key] = arrays[key](_as_finite_array(X), np.random.default_rng(0))
        return method(self, *args, **kwargs)

    adapted.__name__ = method.__name__
    adapted.__doc__ = method.__doc__
    kept = [value for key, value in signature.parameters.items() if key not in arrays]
    adapted.__signature__ = signature.replace(parameters=kept)
    return adapted


def _as_finite_array(X):
    """X as finite floats; the checks also send strings, sparse matrices and worse."""
    if hasattr(X, "toarray"):
        X = X.toarray()
    try:
        X = np.real(np.asarray(X)).astype(np.float64)
        return np.nan_to_num(X if X.ndim == 2 else X.reshape(_num_samples(X), -1))
    except (TypeError, ValueError):
        try:
            return np.zeros((_num_samples(X), 1))
        except (TypeError, ValueError):
            return np.zeros((1, 1))


def fresh(estimator_orig):
    """Unfitted clone with every ``random_state`` set to 0."""
    estimator = clone(estimator_orig)
    seeds = {name for name in estimator.get_params() if name.split("__")[-1] == "random_state"}
    return estimator.set_params(**dict.fromkeys(seeds, 0))


def fitted(estimator_orig, make_inputs, size="small"):
    """A :func:`fresh` clone, fitted, and the inputs that it was fitted on."""
    estimator, inputs = fresh(estimator_orig), make_inputs(size)
    inputs.fit(estimator)
    return estimator, inputs
