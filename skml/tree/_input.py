"""Weights and columns in the form that the core takes, checked."""

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from skml.utils._missing import ColumnImputer, impute

__all__ = ["as_float32", "float32_columns", "total_weight", "validated_weights"]


def validated_weights(sample_weight, X):
    """Weights as float64, none negative and not all zero; None stays None."""
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if weight.min() < 0:
        raise ValueError(
            f"Negative values in data passed to `sample_weight`: weights must be >= 0, "
            f"got {weight.min()}"
        )
    if not weight.sum() > 0:
        raise ValueError("sample_weight must have a positive sum, got only zeros")
    return weight


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
