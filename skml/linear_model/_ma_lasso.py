"""Lasso that pays for reading missing values."""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, _fit_context
from sklearn.metrics import r2_score

from skml.utils._atomic import restores_on_error
from skml.utils._weights import validated_weight

from ._least_squares import LeastSquaresPath
from ._ma_base import (
    LINEAR_CONSTRAINTS,
    MALinearModel,
    warn_if_not_unique,
    warn_not_converged,
)
from ._ma_training_data import validated_training_rows

__all__ = ["LassoProblem", "MALasso"]


class MALasso(MALinearModel, RegressorMixin, BaseEstimator):
    r"""Linear regression that learns to avoid reading missing values.

    A Lasso in which the price of a coefficient grows with the share of rows that miss the
    feature, so that features with many gaps are left out first.

    Read more in the :ref:`User Guide <missingness_avoiding_linear>`.

    Parameters
    ----------
    alpha : non-negative float, default=0.1
        Price of missingness reliance. 0 gives ordinary least squares.

    beta : float, default=1.0
        Price of a feature that is never missing, counted in rows: it is charged as if this many
        rows more missed every feature. With 0 the features without gaps are not penalised.

    fit_intercept : bool, default=True
        Whether there is an intercept. It is not penalised.

    imputer : {"mean", "median", "zero"} or transformer, default="mean"
        What stands for a missing value: a weighted statistic of the observed values of the
        column, or what a transformer that keeps the columns puts there. A sparse `X` takes
        "mean" and "zero".

    max_iter : int, default=1000
        Largest number of sweeps over the coefficients.

    tol : float, default=1e-4
        Bound on the duality gap, as a share of the mean square of the centred target.

    warm_start : bool, default=False
        Whether `fit` starts from the coefficients of the last one.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients of the features in their original units.

    intercept_ : float
        Intercept.

    penalty_weights_ : ndarray of shape (n_features,)
        :math:`\lambda`, the weight of each coefficient in the penalty.

    scale_ : ndarray of shape (n_features,)
        Weighted standard deviation of the observed values; ``coef_ * scale_`` are the
        coefficients that are penalised.

    dual_gap_ : float
        Duality gap of the solution, in the units of the objective.

    n_iter_ : int
        Number of sweeps over the coefficients.

    feature_missing_rate_ : ndarray of shape (n_features,)
        Weighted share of training rows that miss the feature.

    imputer_ : transformer
        The fitted imputer.

    missingness_reliance_ : float
        Weighted share of training rows that miss a feature with a coefficient other than zero.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    See Also
    --------
    MALassoCV : Chooses `alpha` by score and reliance.
    ma_lasso_path : The solutions for many `alpha`.
    MALogisticRegression : The same for classes.
    skml.metrics.missingness_reliance : Reliance of any fitted estimator.

    Notes
    -----
    With weights :math:`w` of sum :math:`W`, imputed and standardised :math:`\tilde x` and
    missing cells :math:`m_{ij}`, the fit minimises

    .. math:: \frac{1}{2W} \sum_i w_i (y_i - b - \tilde x_i \theta)^2
        + \alpha \sum_j \lambda_j |\theta_j|, \qquad
        \lambda_j = \frac{1}{W} \Big( \sum_i w_i m_{ij} + \beta \Big).

    The sum is a bound on the reliance, :math:`\sum_j \bar m_j [\theta_j \ne 0]`, with
    :math:`|\theta_j|` in the place of the bracket. Columns are standardised by their observed
    values. In a sparse `X` stored NaN are missing and zeros that are not stored are observed;
    it is not centred in memory, and the solution is that of the dense `X`.

    If features without penalty depend on each other linearly, the solution is not unique and a
    ConvergenceWarning says so.

    References
    ----------
    .. [1] L. Stempfle, A. Matsson, N. Mwai, F. D. Johansson. "Prediction models that learn to
           avoid missing values". ICML 2025, PMLR 267:56899-56919. arXiv:2505.03393.

    Examples
    --------
    Two copies of one measurement, of which the second is often missing:

    >>> import numpy as np
    >>> from skml.linear_model import MALasso
    >>> X = np.array([[0.0, 0.0], [1.0, np.nan], [2.0, 2.0], [3.0, np.nan], [4.0, 4.0]])
    >>> y = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    >>> model = MALasso(alpha=0.1).fit(X, y)
    >>> model.coef_.round(3)
    array([0.986, 0.   ])
    >>> model.missingness_reliance_
    0.0
    """

    _parameter_constraints: dict = LINEAR_CONSTRAINTS

    def __init__(
        self,
        alpha=0.1,
        *,
        beta=1.0,
        fit_intercept=True,
        imputer="mean",
        max_iter=1000,
        tol=1e-4,
        warm_start=False,
    ):
        self.alpha = alpha
        self.beta = beta
        self.fit_intercept = fit_intercept
        self.imputer = imputer
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start

    @restores_on_error
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None, *, missing_mask=None):
        """Fit the coefficients.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows, NaN where a value was not observed.
        y : array-like of shape (n_samples,)
            Target values.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0; they weigh the loss, the penalty and the statistics of
            the columns.
        missing_mask : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Cells that count as missing although X holds a value (imputed beforehand), marked by
            True or 1. NaN cells count as missing in any case.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        X, y = validated_training_rows(self, X, y, numeric_target=True)
        sample_weight = validated_weight(sample_weight, X)
        data = self._prepare(X, y, sample_weight, missing_mask, self.beta)
        start = None
        if self.warm_start and np.shape(getattr(self, "coef_", None)) == data.scale.shape:
            start = self.coef_ * data.scale
        problem = LassoProblem(data, self.fit_intercept, start)
        warn_if_not_unique(data, self.alpha)
        self.dual_gap_, self.n_iter_ = problem.solve(self.alpha, self.tol, self.max_iter)
        self.coef_, self.intercept_ = problem.solution()
        self._record_data(data, X, sample_weight, missing_mask)
        return self

    def predict(self, X):
        """Predict the value of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, with NaN for what was not observed; it is imputed by the fitted imputer.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Predicted values.
        """
        return self._linear_values(X)

    def score(self, X, y, sample_weight=None, *, missing_mask=None):
        """Return the R² of the prediction.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.
        y : array-like of shape (n_samples,)
            Target values.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        missing_mask : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Cells that count as missing although X holds a value; they are checked, without effect
            on the score, which goes by the values in X.

        Returns
        -------
        score : float
            Coefficient of determination; 1 is perfect, 0 is the mean of y.
        """
        return r2_score(y, self._linear_values(X, missing_mask), sample_weight=sample_weight)


class LassoProblem:
    """The Lasso of prepared data, for one alpha after the other.

    Parameters
    ----------
    data : TrainingData
        What `prepare` made.
    fit_intercept : bool
        Whether there is an intercept.
    start : ndarray of shape (n_features,) or None
        Standardised coefficients to start at.
    """

    def __init__(self, data, fit_intercept, start=None):
        self.data = data
        self.y_mean = np.average(data.y, weights=data.weight) if fit_intercept else 0.0
        self.path = LeastSquaresPath(data.design, data.y - self.y_mean, start)

    def solve(self, alpha, tol, max_iter):
        """Return duality gap and sweeps; warn if the gap is larger than asked for."""
        bound = tol * self.path.norm
        gap, n_iter = self.path.solve(alpha * self.data.penalty_weights, bound, max_iter)
        if gap > bound:
            warn_not_converged(gap, bound, "Increase max_iter, alpha or beta, or tol.")
        return gap, n_iter

    def solution(self):
        """Return coefficients and intercept in the units of X."""
        return self.data.original_units(self.path.coef, self.y_mean)
