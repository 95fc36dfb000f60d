"""From X with missing cells to standardised columns and one penalty weight per column."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from skml.utils._missing import (
    ColumnImputer,
    check_missing_mask,
    effective_mask,
    fit_imputer,
    impute,
)

from ._design import DenseDesign, SparseDesign
from ._standardise import observed_moments

__all__ = [
    "VALID_ROWS",
    "TrainingData",
    "cells_summed",
    "impute_rows",
    "missing_cells_of",
    "prepare",
    "validated_training_rows",
]


# What X may be, for scikit-learn's validation.
VALID_ROWS = {"accept_sparse": "csc", "dtype": np.float64, "ensure_all_finite": "allow-nan"}


@dataclass
class TrainingData:
    """What a solver and the way back to the original units need.

    Attributes
    ----------
    design : DenseDesign or SparseDesign
        Standardised columns.
    y : ndarray of shape (n_samples,)
        Target of the rows of positive weight.
    weight : ndarray of shape (n_samples,) or None
        Weights with sum 1; None if all are equal.
    penalty_weights : ndarray of shape (n_features,)
        lambda.
    missing_rate : ndarray of shape (n_features,)
        Weighted share of missing cells.
    centre, scale : ndarray of shape (n_features,)
        Standardisation: z = (x - centre) / scale.
    imputer : transformer
        The fitted imputer.
    """

    design: DenseDesign | SparseDesign
    y: np.ndarray
    weight: np.ndarray | None
    penalty_weights: np.ndarray
    missing_rate: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    imputer: object

    def original_units(self, coef, intercept):
        """Return coefficients and intercept for X itself; coef is (n_features[, k])."""
        coef = (coef.T / self.scale).T
        return coef, intercept - self.centre @ coef


def prepare(X, y, *, sample_weight, missing_mask, imputer, beta, fit_intercept):
    """Impute and standardise validated X, and weigh its columns by what they miss.

    The scale of a column is the weighted standard deviation of its observed values. Where it
    is centred does not matter to the solution, because the intercept is free; without an
    intercept nothing is centred.
    """
    # NaN are found on the way through a dense X; a mask is made only if one is given.
    mask = None
    if missing_mask is not None or sparse.issparse(X):
        mask = missing_cells_of(X, missing_mask)
    if sample_weight is not None and not np.all(sample_weight > 0):
        # A row of weight 0 must not even decide what a column without observed values is.
        kept = np.flatnonzero(sample_weight > 0)
        X, y, sample_weight = X[kept], y[kept], sample_weight[kept]
        mask = None if mask is None else mask[kept]
    total = len(y) if sample_weight is None else sample_weight.sum()
    weight = None if sample_weight is None else sample_weight / total
    standardise = _standardise_sparse if sparse.issparse(X) else _standardise_dense
    design, rate, centre, scale, fitted = standardise(
        X, y, mask, sample_weight, weight, imputer, fit_intercept
    )
    return TrainingData(
        design=design,
        y=y,
        weight=weight,
        penalty_weights=rate + beta / total,
        missing_rate=rate,
        centre=centre,
        scale=scale,
        imputer=fitted,
    )


def validated_training_rows(estimator, X, y, *, numeric_target):
    """Validate X, which may hold NaN or be sparse, and y, numbers or class labels."""
    X, y = validate_data(estimator, X, y, y_numeric=numeric_target, **VALID_ROWS)
    if numeric_target:
        y = y.astype(np.float64, copy=False)
    return cells_summed(X), y


def cells_summed(X):
    """Return X with every cell stored once; a sparse X may hold a cell as several summands."""
    if not sparse.issparse(X) or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


def missing_cells_of(X, missing_mask=None):
    """Missing cells of validated X: bool array, CSC matrix where X is sparse, None if none."""
    if not sparse.issparse(X):
        return effective_mask(X, missing_mask)
    nan = np.isnan(X.data)
    mask = None
    if nan.any():
        # A copy: the zeros of the mask are taken out, those of X are not.
        mask = sparse.csc_array((nan, X.indices, X.indptr), shape=X.shape, copy=True)
    if missing_mask is not None:
        if sparse.issparse(missing_mask):
            if missing_mask.shape != X.shape:
                raise ValueError(
                    f"missing_mask must have the shape of X, {X.shape}, got a matrix of shape "
                    f"{missing_mask.shape}"
                )
            stored = missing_mask.tocoo()
            marked = check_missing_mask(stored.data, stored.data)
            given = sparse.csc_array((marked, (stored.row, stored.col)), shape=X.shape)
        else:
            given = sparse.csc_array(check_missing_mask(missing_mask, X))
        mask = given if mask is None else mask + given
    if mask is None:
        return None
    mask = sparse.csc_array(mask)
    mask.eliminate_zeros()
    return mask if mask.nnz else None


def impute_rows(imputer, X):
    """Fill the missing cells of validated X, dense or CSC, by a fitted imputer."""
    if not sparse.issparse(X):
        return impute(imputer, X)
    nan = np.isnan(X.data)
    if not nan.any():
        return X
    if not isinstance(imputer, ColumnImputer):
        raise ValueError(
            f"imputer={type(imputer).__name__} cannot fill a sparse X; use 'mean' or 'zero'"
        )
    filled = X.copy()
    filled.data[nan] = imputer.statistics_[_column_of_stored(X)[nan]]
    return filled


def _standardise_dense(X, y, mask, sample_weight, weight, imputer, fit_intercept):
    n_samples, n_features = X.shape
    hidden = None if mask is None else mask.view(np.uint8)
    total = n_samples if sample_weight is None else sample_weight.sum()
    mean, variance, missing = observed_moments(X, hidden, sample_weight)
    rate = _exact_rate(missing / total)
    scale = _scale_of(variance, mean)
    if imputer in ("mean", "zero"):
        fitted = _column_imputer(imputer, mean)
    else:
        cells = np.isnan(X) if mask is None else mask
        fitted = fit_imputer(imputer, X, cells if cells.any() else None, sample_weight, y)
    if isinstance(fitted, ColumnImputer):
        fill = fitted.statistics_
    else:
        X, fill = impute(fitted, X), np.zeros(n_features)
    if not fit_intercept:
        centre = np.zeros(n_features)
    elif mask is None and isinstance(fitted, ColumnImputer):
        centre = mean + rate * (fill - mean)
    else:
        # Values under the mask need not average to the observed mean.
        stored, _, empty = observed_moments(X, None, sample_weight)
        centre = stored + empty / total * (fill - stored)
    return DenseDesign(X, fill, centre, scale, weight), rate, centre, scale, fitted


def _column_imputer(strategy, mean):
    fitted = ColumnImputer(strategy)
    fitted.n_features_in_ = len(mean)
    fitted.statistics_ = mean if strategy == "mean" else np.zeros(len(mean))
    return fitted


def _exact_rate(rate):
    """Rates in which rounding does not pass for an observed cell."""
    return np.where(rate > 1 - 1e-12, 1.0, rate)


def _scale_of(variance, mean):
    """Standard deviation; 1 for a column that is constant but for rounding."""
    if not np.isfinite(variance).all():
        j = np.flatnonzero(~np.isfinite(variance))[0]
        raise ValueError(
            f"Input X contains values too large to be squared as float64 in column {j}, of mean "
            f"{mean[j]:.3g}: divide the column by a constant"
        )
    scale = np.sqrt(variance)
    scale[scale <= 100 * np.finfo(np.float64).eps * np.abs(mean)] = 1.0
    scale[scale == 0] = 1.0
    return scale


def _standardise_sparse(X, y, mask, sample_weight, weight, imputer, fit_intercept):
    if imputer not in ("mean", "zero"):
        raise ValueError(
            "imputer must be 'mean' or 'zero' for a sparse X, because others would have to "
            f"store its zeros, got {imputer!r}"
        )
    X = sparse.csc_array(X)
    n_samples, n_features = X.shape
    p = np.full(n_samples, 1 / n_samples) if weight is None else weight
    rate = np.zeros(n_features)
    hidden = np.zeros(X.nnz, dtype=bool)
    if mask is not None:
        mask = sparse.csc_array(mask)
        rate = _exact_rate(mask.T.astype(np.float64) @ p)
        hidden = _marked(mask, X)
    column = _column_of_stored(X)
    row_weight = np.where(hidden, 0.0, p[X.indices])
    seen = np.where(hidden, 0.0, X.data)
    observed = np.where(rate < 1, 1 - rate, 1.0)
    mean = np.bincount(column, row_weight * seen, minlength=n_features) / observed
    deviation = np.bincount(column, row_weight * (seen - mean[column]) ** 2, minlength=n_features)
    stored = np.bincount(column, row_weight, minlength=n_features)
    # Zeros that are not stored lie at a distance of the mean.
    zeros = np.where((rate < 1) & (np.diff(X.indptr) < n_samples), observed - stored, 0.0)
    scale = _scale_of((deviation + np.clip(zeros, 0.0, None) * mean**2) / observed, mean)
    fitted = _column_imputer(imputer, mean)
    filled = impute_rows(fitted, X)
    centre = filled.T @ p if fit_intercept else np.zeros(n_features)
    return SparseDesign(filled, centre, scale, weight), rate, centre, scale, fitted


def _column_of_stored(X):
    return np.repeat(np.arange(X.shape[1]), np.diff(X.indptr))


def _marked(mask, X):
    """Which stored values of X the mask marks."""
    marked = np.zeros(X.nnz, dtype=bool)
    for j in range(X.shape[1]):
        stored = slice(X.indptr[j], X.indptr[j + 1])
        rows = mask.indices[mask.indptr[j] : mask.indptr[j + 1]]
        if len(rows):
            marked[stored] = np.isin(X.indices[stored], rows)
    return marked
