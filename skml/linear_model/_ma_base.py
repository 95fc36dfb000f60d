"""What the missingness-avoiding linear models have in common."""

import warnings
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from skml.utils._tags import one_target_with_missing_cells

from ._least_squares import are_collinear
from ._ma_training_data import (
    VALID_ROWS,
    cells_summed,
    impute_rows,
    missing_cells_of,
    prepare,
)

__all__ = [
    "LINEAR_CONSTRAINTS",
    "MALinearModel",
    "relied_share",
    "warn_if_not_unique",
    "warn_not_converged",
]

LINEAR_CONSTRAINTS = {
    "alpha": [Interval(Real, 0.0, None, closed="left")],
    "beta": [Interval(Real, 0.0, None, closed="left")],
    "fit_intercept": ["boolean"],
    "imputer": [StrOptions({"mean", "median", "zero"}), HasMethods(["fit", "transform"])],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0.0, None, closed="left")],
    "warm_start": ["boolean"],
}


class MALinearModel:
    """Validation, prediction and reliance; the sub-class fits `coef_` and `intercept_`."""

    def missingness_reliance(self, X, missing_mask=None, reduce=False):
        """Return which missing values the prediction of each row reads.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.
        missing_mask : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Cells that count as missing although X holds a value (imputed beforehand).
        reduce : bool, default=False
            Whether to return one value per row instead of one per cell.

        Returns
        -------
        relied : ndarray of shape (n_samples, n_features), or (n_samples,) if `reduce`, dtype bool
            Cell (i, j) is True if x_ij is missing and feature j has a coefficient other than 0.
        """
        check_is_fitted(self)
        X = self._validate_rows(X)
        mask = missing_cells_of(X, missing_mask)
        read = self._read_features()
        if reduce:
            return _relied_rows(mask, read, X.shape[0])
        if mask is None:
            return np.zeros(X.shape, dtype=bool)
        if sparse.issparse(mask):
            mask = mask.toarray()
        return mask & read

    def _read_features(self):
        """Whether any coefficient of a feature differs from zero."""
        return (np.atleast_2d(self.coef_) != 0).any(axis=0)

    def _validate_rows(self, X):
        return cells_summed(validate_data(self, X, reset=False, **VALID_ROWS))

    def _linear_values(self, X, missing_mask=None):
        check_is_fitted(self)
        X = self._validate_rows(X)
        if missing_mask is not None:
            # Imputed cells are predicted from as they are; a wrong mask is an error all the same.
            missing_cells_of(X, missing_mask)
        return impute_rows(self.imputer_, X) @ self.coef_.T + self.intercept_

    def _prepare(self, X, y, sample_weight, missing_mask, beta):
        """Standardise training rows by the parameters of the model."""
        return prepare(
            X,
            y,
            sample_weight=sample_weight,
            missing_mask=missing_mask,
            imputer=self.imputer,
            beta=beta,
            fit_intercept=self.fit_intercept,
        )

    def _record_data(self, data, X, sample_weight, missing_mask):
        """Set the attributes that follow from the training data and `coef_`."""
        self.imputer_ = data.imputer
        self.scale_ = data.scale
        self.penalty_weights_ = data.penalty_weights
        self.feature_missing_rate_ = data.missing_rate
        mask = missing_cells_of(X, missing_mask)
        self.missingness_reliance_ = relied_share(
            mask, self._read_features(), X.shape[0], sample_weight
        )

    def __sklearn_tags__(self):
        return one_target_with_missing_cells(super().__sklearn_tags__(), sparse=True)


def relied_share(mask, read, n_samples, sample_weight=None):
    """Weighted share of the rows that miss a value of a feature that is read."""
    return float(np.average(_relied_rows(mask, read, n_samples), weights=sample_weight))


def warn_if_not_unique(data, alpha):
    """Warn if columns without a penalty depend on each other."""
    free = np.flatnonzero(alpha * data.penalty_weights == 0)
    if not len(free):
        return
    design = data.design
    if len(free) <= design.n_samples and not are_collinear(design.part(free).gram()):
        return
    warnings.warn(
        f"{len(free)} features have no penalty (alpha or beta is 0) and depend on each other "
        "linearly: their coefficients are not unique. Set beta > 0, or leave some out.",
        ConvergenceWarning,
        stacklevel=4,
    )


def warn_not_converged(gap, bound, advice):
    """Warn that a solution has a larger duality gap than was asked for."""
    warnings.warn(
        f"The solution is not as exact as asked for: duality gap {gap:.3e}, bound {bound:.3e}. "
        + advice,
        ConvergenceWarning,
        stacklevel=4,
    )


def _relied_rows(mask, read, n_samples):
    if mask is None:
        return np.zeros(n_samples, dtype=bool)
    if sparse.issparse(mask):
        return np.asarray(mask.astype(np.int64) @ read.astype(np.int64)) > 0
    return mask[:, read].any(axis=1)
