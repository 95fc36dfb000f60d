"""Checks of the arrays that the bound estimators take besides X."""

import warnings
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import check_array, column_or_1d

from skml.utils._weights import validated_weight

from ._manski import check_outcome_bounds


@dataclass(frozen=True)
class Data:
    """Validated rows, with the outcome in the unit where it lies in [0, 1]."""

    X: np.ndarray
    instrument: np.ndarray
    treatment: np.ndarray
    y: np.ndarray
    weight: np.ndarray

    def __len__(self):
        return len(self.X)

    def __eq__(self, other):
        return isinstance(other, Data) and all(
            np.array_equal(ours, theirs)
            for ours, theirs in zip(vars(self).values(), vars(other).values(), strict=True)
        )

    __hash__ = None

    def take(self, rows):
        """The same for some of the rows."""
        return Data(
            self.X[rows],
            self.instrument[rows],
            self.treatment[rows],
            self.y[rows],
            self.weight[rows],
        )


def require_arrays(method, **arrays):
    """Say what to do when treatment or instrument did not arrive."""
    missing = [name for name, value in arrays.items() if value is None]
    if not missing:
        return
    names = " and ".join(missing)
    advice = f"pass {', '.join(f'{name}=...' for name in missing)}"
    request = ", ".join(f"{name}=True" for name in arrays)
    raise ValueError(
        f"{method} needs the {names} of each row: {advice}. Inside a Pipeline or a "
        "cross-validation, switch routing on by "
        "sklearn.set_config(enable_metadata_routing=True) and ask for the arrays by "
        f"set_fit_request({request}) and set_score_request({request})."
    )


def require_instance(name, estimator):
    """Refuse a class where an estimator is expected."""
    if isinstance(estimator, type):
        raise TypeError(
            f"{name} must be an instance, got the class {estimator.__name__}; "
            f"write {estimator.__name__}()."
        )


def require_regressor(estimator):
    """Refuse a classifier where conditional means are needed."""
    if estimator is not None and is_classifier(estimator):
        raise TypeError(
            f"outcome_estimator must be a regressor, got the classifier {estimator!r}; the mean "
            "of a binary outcome is its probability, which a regressor estimates."
        )


def check_layer_sizes(sizes):
    """At least one hidden layer, each of a positive width."""
    if len(sizes) == 0 or not all(isinstance(s, (Integral, np.integer)) and s > 0 for s in sizes):
        raise ValueError(
            f"hidden_layer_sizes must hold at least one positive integer, got {sizes!r}"
        )


def check_treatment(treatment, classes=None):
    """Return the sorted classes and the treatment as 0 and 1."""
    treatment = column_or_1d(treatment)
    if treatment.dtype.kind == "f" and not np.isfinite(treatment).all():
        raise ValueError("treatment contains NaN or infinity")
    found, codes = np.unique(treatment, return_inverse=True)
    if classes is None:
        if len(found) != 2:
            shown = f"{found[:5].tolist()}" + (" and more" if len(found) > 5 else "")
            raise ValueError(
                f"treatment must have two classes, got {len(found)} "
                f"{'class' if len(found) == 1 else 'classes'}: {shown}. Where rows are split "
                "into folds, every fold needs treated and untreated rows."
            )
        return found, codes.astype(np.intp)
    if not np.isin(found, classes).all():
        raise ValueError(
            f"treatment must hold the classes {classes.tolist()} seen in fit, got "
            f"{found[:5].tolist()}"
        )
    return classes, np.searchsorted(classes, treatment).astype(np.intp)


def check_instrument(instrument, n_features=None):
    """Return a finite float instrument of shape (n, p)."""
    instrument = check_array(instrument, dtype=np.float64, ensure_2d=False, input_name="instrument")
    if instrument.ndim == 1:
        instrument = instrument[:, None]
    if n_features is not None and instrument.shape[1] != n_features:
        raise ValueError(
            f"instrument has {instrument.shape[1]} features, but it had {n_features} in fit"
        )
    return instrument


def check_lengths(X, **arrays):
    """All arrays have as many rows as X."""
    for name, array in arrays.items():
        if len(array) != len(X):
            raise ValueError(
                f"X and {name} have inconsistent lengths: {len(X)} and {len(array)} rows"
            )


def check_weight(sample_weight, X):
    """Weights of the rows, checked as all learners do; ones if there are none."""
    weight = validated_weight(sample_weight, X)
    return np.ones(len(X)) if weight is None else weight


def resolve_outcome_bounds(outcome_bounds, y, estimator_name):
    """The known range of the outcome, or with a warning that of the training rows."""
    if outcome_bounds is None:
        s1, s2 = float(y.min()), float(y.max())
        warnings.warn(
            f"{estimator_name}(outcome_bounds=None) takes the range of the training outcomes, "
            f"({s1:g}, {s2:g}). Bounds are valid for the true range only: give "
            "outcome_bounds=(s1, s2).",
            UserWarning,
        )
        # A constant outcome leaves nothing to scale by; any width serves.
        return (s1, s2) if s1 < s2 else (s1, s1 + 1.0)
    s1, s2 = check_outcome_bounds(outcome_bounds)
    outside = (y < s1) | (y > s2)
    if outside.any():
        raise ValueError(
            f"y must lie within outcome_bounds=({s1:g}, {s2:g}); {outside.sum()} of {len(y)} "
            f"values do not, such as {y[outside][0]:g}"
        )
    return s1, s2
