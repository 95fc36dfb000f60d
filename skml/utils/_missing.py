"""Missing cells and their imputation, shared by all missingness-avoiding learners."""

from numbers import Number

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_array, has_fit_parameter

__all__ = [
    "ColumnImputer",
    "check_missing_mask",
    "effective_mask",
    "fit_imputer",
    "impute",
    "missing_rate",
    "pack_mask",
]


class ColumnImputer(TransformerMixin, BaseEstimator):
    """Fill NaN by a weighted statistic of the observed values of the column.

    Unlike scikit-learn's ``SimpleImputer`` it takes weights, keeps every column (one without an
    observed value is filled with 0) and can leave out cells that a mask calls missing although
    they hold a value.

    Parameters
    ----------
    strategy : {"mean", "median", "zero"}, default="mean"
        The statistic.  The weighted median is the middle of the repeated values, as if a row
        of weight 3 stood there three times.

    Attributes
    ----------
    statistics_ : ndarray of shape (n_features,)
        What NaN is replaced by, in the units of the columns.
    """

    def __init__(self, strategy="mean"):
        self.strategy = strategy

    def fit(self, X, y=None, sample_weight=None, *, missing_mask=None):
        """Compute the statistics of the columns of X."""
        self.n_features_in_ = X.shape[1]
        if self.strategy == "zero":
            self.statistics_ = np.zeros(X.shape[1])
        elif self.strategy == "mean":
            self.statistics_ = _weighted_means(X, missing_mask, sample_weight)
        else:
            self.statistics_ = np.array(
                [
                    _weighted_median(*_observed(X, j, missing_mask, sample_weight))
                    for j in range(X.shape[1])
                ]
            )
        return self

    def transform(self, X):
        """Return X with its NaN replaced; X itself if there is none."""
        if not _any_nan(X):
            return X
        return np.where(np.isnan(X), self.statistics_.astype(X.dtype), X)


def check_missing_mask(missing_mask, X):
    """Validate a mask against X and return it as a bool array."""
    mask = np.asarray(missing_mask)
    if mask.shape != X.shape:
        raise ValueError(
            f"missing_mask must have the shape of X, {X.shape}, got an array of shape {mask.shape}"
        )
    if mask.dtype == bool:
        return mask
    values = mask.ravel()
    if mask.dtype == object and not all(isinstance(v, (Number, np.bool_)) for v in values):
        raise ValueError("missing_mask must hold booleans, or 0 and 1, got other objects")
    if mask.dtype.kind not in "iufO":
        raise ValueError(f"missing_mask must hold booleans, or 0 and 1, got dtype {mask.dtype}")
    wrong = ~((values == 0) | (values == 1))
    if wrong.any():
        raise ValueError(
            f"missing_mask must hold booleans, or 0 and 1, got the value {values[wrong][0]}"
        )
    return mask.astype(bool)


def effective_mask(X, missing_mask=None):
    """Cells that are NaN or marked as missing; None if there is none.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    missing_mask : array-like of shape (n_samples, n_features), optional

    Returns
    -------
    mask : ndarray of shape (n_samples, n_features), dtype bool, or None
    """
    mask = None
    if missing_mask is not None:
        mask = check_missing_mask(missing_mask, X)
    if _any_nan(X):
        nan = np.isnan(X)
        mask = nan if mask is None else mask | nan
    if mask is None or not mask.any():
        return None
    return mask


def pack_mask(mask, n_features, n_samples):
    """Keep only the columns that miss something, one after the other.

    Returns
    -------
    packed : uint8 ndarray of shape (n_missing_columns, n_samples)
    mask_row : int32 ndarray of shape (n_features,)
        The row of `packed` that belongs to a feature, -1 if it misses nothing.
    """
    mask_row = np.full(n_features, -1, dtype=np.int32)
    if mask is None:
        return np.zeros((0, n_samples), dtype=np.uint8), mask_row
    missing = np.flatnonzero(mask.any(axis=0))
    mask_row[missing] = np.arange(len(missing), dtype=np.int32)
    return np.ascontiguousarray(mask[:, missing].T).view(np.uint8), mask_row


def missing_rate(mask, n_features, sample_weight=None):
    """Weighted share of missing cells per column, shape (n_features,)."""
    if mask is None:
        return np.zeros(n_features)
    if sample_weight is None:
        return mask.mean(axis=0)
    return sample_weight @ mask / sample_weight.sum()


def fit_imputer(imputer, X, mask=None, sample_weight=None, y=None):
    """Fit what the parameter `imputer` names on the rows of positive weight.

    Parameters
    ----------
    imputer : {"mean", "median", "zero", "native"} or transformer
    X : float ndarray of shape (n_samples, n_features), with NaN
    mask : ndarray of shape (n_samples, n_features), dtype bool, or None
        Effective mask: masked cells take no part in the built-in statistics.
    sample_weight : ndarray of shape (n_samples,), optional
    y : ndarray of shape (n_samples,), optional

    Returns
    -------
    fitted : transformer, or None for "native"
    """
    if isinstance(imputer, str) and imputer == "native":
        return None
    if sample_weight is not None and not np.all(sample_weight > 0):
        kept = sample_weight > 0
        X, sample_weight = X[kept], sample_weight[kept]
        mask = None if mask is None else mask[kept]
        y = None if y is None else y[kept]
    if isinstance(imputer, str):
        return ColumnImputer(imputer).fit(X, sample_weight=sample_weight, missing_mask=mask)
    fitted = clone(imputer)
    weights = {}
    if sample_weight is not None and has_fit_parameter(fitted, "sample_weight"):
        weights = {"sample_weight": sample_weight}
    return fitted.fit(X, y, **weights)


def impute(fitted, X):
    """Replace the NaN of X by a fitted imputer and check what it returns."""
    if fitted is None:
        return X
    if isinstance(fitted, ColumnImputer):
        return fitted.transform(X)
    filled = fitted.transform(X)
    name = type(fitted).__name__
    if filled.shape != X.shape:
        raise ValueError(
            f"imputer={name} must keep the columns of X: it got shape {X.shape} and returned "
            f"{filled.shape} (SimpleImputer needs keep_empty_features=True for an empty column)"
        )
    return check_array(filled, dtype=np.float64, input_name=f"X imputed by {name}")


def _any_nan(X):
    # One pass without a temporary: x·x is NaN only if an x is, infinities being refused before.
    if X.flags.c_contiguous or X.flags.f_contiguous:
        flat = X.ravel(order="K")
        with np.errstate(over="ignore"):
            return bool(np.isnan(np.dot(flat, flat)))
    return bool(np.isnan(X).any())


def _weighted_means(X, mask, sample_weight):
    if mask is None:
        if sample_weight is None:
            return X.mean(axis=0, dtype=np.float64)
        return sample_weight @ X / sample_weight.sum()
    means = np.zeros(X.shape[1])
    for j in range(X.shape[1]):
        values, weights = _observed(X, j, mask, sample_weight)
        if len(values):
            means[j] = np.average(values.astype(np.float64), weights=weights)
    return means


def _observed(X, j, mask, sample_weight):
    if mask is None:
        return X[:, j], sample_weight
    seen = ~mask[:, j]
    return X[seen, j], None if sample_weight is None else sample_weight[seen]


def _weighted_median(values, weights):
    if len(values) == 0:
        return 0.0
    if weights is None:
        return float(np.median(values))
    order = np.argsort(values, kind="stable")
    values, cumulated = values[order].astype(np.float64), np.cumsum(weights[order])
    half = cumulated[-1] / 2
    # Rounding in the sums must not decide between one middle value and two.
    slack = 1e-12 * cumulated[-1]
    low = values[np.searchsorted(cumulated, half - slack)]
    high = values[min(np.searchsorted(cumulated, half + slack, side="right"), len(values) - 1)]
    return float(low / 2 + high / 2)
