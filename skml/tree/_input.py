"""Training data, weights and rows to predict, checked and in the form that the core takes."""

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from skml.utils._missing import ColumnImputer, check_missing_mask, effective_mask, impute

__all__ = [
    "as_float32",
    "float32_columns",
    "imputed_and_mask",
    "total_weight",
    "validated_training_data",
]


def validated_training_data(estimator, X, y, *, numeric_target, reset=True):
    """X with NaN and one column y of a tree learner, checked; sets ``n_features_in_``.

    Parameters
    ----------
    estimator : estimator
    X, y : array-like
    numeric_target : bool
        Whether y holds numbers, and not class labels.
    reset : bool
        False refuses an X with other features than those of the fit before.

    Returns
    -------
    X, y : ndarrays
    """
    shape = np.shape(y) if hasattr(y, "shape") or isinstance(y, list | tuple) else ()
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"y must have one output, got shape {shape}: multi-output is not supported, fit "
            "one model per output (sklearn.multioutput)"
        )
    return validate_data(
        estimator,
        X,
        y,
        dtype=[np.float64, np.float32],
        ensure_all_finite="allow-nan",
        y_numeric=numeric_target,
        reset=reset,
    )


def imputed_and_mask(estimator, X, missing_mask=None, *, check_input=True, need_mask=False):
    """Rows to predict: float32 X, imputed by the fitted estimator, and their missing cells.

    Parameters
    ----------
    estimator : fitted estimator with an attribute ``imputer_``
    X : array-like of shape (n_samples, n_features)
    missing_mask : array-like of shape (n_samples, n_features), optional
    check_input : bool
        False skips the validation of X, which must then be a float32 array.
    need_mask : bool
        Whether the missing cells are looked for; without it the mask is only checked.

    Returns
    -------
    X : float32 ndarray of shape (n_samples, n_features)
        NaN are left in it only if ``imputer_`` is None (native treatment).
    mask : ndarray of shape (n_samples, n_features), dtype bool, or None
        None if no cell is missing or the mask is not needed.
    """
    check_is_fitted(estimator)
    imputer = estimator.imputer_
    built_in = imputer is None or isinstance(imputer, ColumnImputer)
    if check_input:
        X = validate_data(
            estimator,
            X,
            reset=False,
            # The built-in statistics are kept in float64; a cast before filling gives the
            # same float32 values as a cast afterwards and saves a copy.
            dtype=np.float32 if built_in else np.float64,
            ensure_all_finite="allow-nan",
        )
    mask = None
    if need_mask:
        mask = effective_mask(X, missing_mask)
    elif missing_mask is not None:
        check_missing_mask(missing_mask, X)
    X = impute(imputer, X)
    if not built_in:
        X = as_float32(X)
    return X, mask


def total_weight(sample_weight, class_weight):
    """Product of the weights of the rows and of their classes; None stands for ones."""
    if class_weight is None:
        return sample_weight
    weight = class_weight if sample_weight is None else sample_weight * class_weight
    if weight.min() < 0 or not weight.sum() > 0:
        raise ValueError(
            "class_weight times sample_weight must be >= 0 with a positive sum, "
            f"got a minimum of {weight.min()} and a sum of {weight.sum()}"
        )
    return weight


def float32_columns(X, mask, imputer):
    """Imputed X as float32, one column after the other: (n_features, n_samples)."""
    if imputer is not None and not isinstance(imputer, ColumnImputer):
        X, mask = impute(imputer, X), None
    columns = np.empty(X.shape[::-1], dtype=np.float32)
    step = 1024
    with np.errstate(over="ignore"):
        for start in range(0, len(X), step):
            columns[:, start : start + step] = X[start : start + step].T
    if mask is not None and imputer is not None:
        for j in np.flatnonzero(mask.any(axis=0)):
            column = columns[j]
            column[np.isnan(column)] = imputer.statistics_[j]
    _refuse_infinite(columns)
    return columns


def as_float32(X):
    """X as float32, which must not overflow."""
    with np.errstate(over="ignore"):
        X = X.astype(np.float32)
    _refuse_infinite(X)
    return X


def _refuse_infinite(X):
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):
            return
    if np.isinf(X).any():
        raise ValueError("Input X contains infinity or a value too large for dtype('float32').")
