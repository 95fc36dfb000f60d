"""Choice of the price of reliance by cross-validation."""

from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.parallel import Parallel, delayed

from skml.model_selection import TradeoffRefit
from skml.utils._atomic import restores_on_error
from skml.utils._weights import validated_weight

from ._ma_base import LINEAR_CONSTRAINTS, relied_share, warn_if_not_unique
from ._ma_lasso import LassoProblem, MALasso
from ._ma_lasso_path import (
    ALPHA_GRID_CONSTRAINTS,
    alpha_grid,
    checked_alphas,
    path_of,
)
from ._ma_training_data import (
    impute_rows,
    missing_cells_of,
    validated_training_rows,
)

__all__ = ["MALassoCV"]


class MALassoCV(MALasso):
    r"""Missingness-avoiding Lasso that chooses its price by score and reliance.

    Each split yields one path per `beta`; among all pairs of prices whose mean score is near the
    best, the one of the lowest mean reliance is fitted on all rows.

    Read more in the :ref:`User Guide <missingness_avoiding_linear>`.

    Parameters
    ----------
    alphas : int or array-like of shape (n_alphas,), default=100
        Number of prices on the path, or the prices themselves.

    eps : float, default=1e-3
        Length of the path if `alphas` is a number; see :func:`ma_lasso_path`.

    beta : float or array-like of shape (n_betas,), default=1.0
        Price of a feature that is never missing, counted in rows; several values are searched.

    gamma : float, default=0.95
        Share of the best mean score that a candidate must reach, in [0, 1]. 1 takes the best
        score; 0 takes the lowest reliance.

    scoring : {"r2", "neg_mean_squared_error"}, default="r2"
        The score on the test part of a split. "r2" needs at least two rows there.

    cv : int, cross-validation generator, iterable or None, default=None
        The splits; None means five folds. Grouped splits are passed as an iterable.

    fit_intercept : bool, default=True
        Whether there is an intercept. It is not penalised.

    imputer : {"mean", "median", "zero"} or transformer, default="mean"
        What stands for a missing value; fitted anew on the training part of each split.

    max_iter : int, default=1000
        Largest number of sweeps over the coefficients, for each price.

    tol : float, default=1e-4
        Bound on the duality gap, as a share of the mean square of the centred target.

    n_jobs : int or None, default=None
        Number of jobs over splits and values of `beta`. It does not change any result.

    Attributes
    ----------
    alpha_ : float
        The chosen price.

    beta_ : float
        The chosen `beta`.

    alphas_ : ndarray of shape (n_betas, n_alphas)
        The prices, from the largest to the smallest, for each `beta`.

    betas_ : ndarray of shape (n_betas,)
        The values of `beta`.

    score_path_ : ndarray of shape (n_betas, n_alphas, n_splits)
        Score on the test part of each split.

    reliance_path_ : ndarray of shape (n_betas, n_alphas, n_splits)
        Missingness reliance on the test part of each split, in [0, 1].

    coef_ : ndarray of shape (n_features,)
        Coefficients of the features in their original units.

    intercept_ : float
        Intercept.

    penalty_weights_ : ndarray of shape (n_features,)
        :math:`\lambda`, the weight of each coefficient in the penalty.

    scale_ : ndarray of shape (n_features,)
        Weighted standard deviation of the observed values.

    dual_gap_ : float
        Duality gap of the final solution, in the units of the objective.

    n_iter_ : int
        Number of sweeps over the coefficients for the final solution.

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
    MALasso : The model for one price, with the objective.
    ma_lasso_path : The solutions for many prices.
    skml.model_selection.TradeoffRefit : The same choice in a search over any estimator.

    Notes
    -----
    With the mean score :math:`s_k` and the mean reliance :math:`\rho_k` of candidate k and
    :math:`s^* = \max_k s_k`, the choice is

    .. math:: \arg\min_k \rho_k \text{ subject to } s_k \ge s^* - (1 - \gamma) |s^*|;

    of equally reliant candidates the one of the higher score. Weights count in the fits, the
    scores and the reliances.

    References
    ----------
    .. [1] L. Stempfle, A. Matsson, N. Mwai, F. D. Johansson. "Prediction models that learn to
           avoid missing values". ICML 2025, PMLR 267:56899-56919. arXiv:2505.03393.

    Examples
    --------
    >>> import numpy as np
    >>> from skml.linear_model import MALassoCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = X[:, 0] + 0.1 * X[:, 1] + 0.1 * rng.normal(size=200)
    >>> X[rng.random(200) < 0.4, 1] = np.nan
    >>> model = MALassoCV(gamma=0.95).fit(X, y)
    >>> model.coef_[1], model.missingness_reliance_
    (np.float64(0.0), 0.0)
    """

    _parameter_constraints: dict = {
        **{k: v for k, v in LINEAR_CONSTRAINTS.items() if k not in ("alpha", "warm_start")},
        **ALPHA_GRID_CONSTRAINTS,
        "beta": [*LINEAR_CONSTRAINTS["beta"], "array-like"],
        "gamma": [Interval(Real, 0.0, 1.0, closed="both")],
        "scoring": [StrOptions({"r2", "neg_mean_squared_error"})],
        "cv": ["cv_object"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        *,
        alphas=100,
        eps=1e-3,
        beta=1.0,
        gamma=0.95,
        scoring="r2",
        cv=None,
        fit_intercept=True,
        imputer="mean",
        max_iter=1000,
        tol=1e-4,
        n_jobs=None,
    ):
        self.alphas = alphas
        self.eps = eps
        self.beta = beta
        self.gamma = gamma
        self.scoring = scoring
        self.cv = cv
        self.fit_intercept = fit_intercept
        self.imputer = imputer
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs

    @restores_on_error
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None, *, missing_mask=None):
        """Choose the price and fit the coefficients.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows, NaN where a value was not observed.
        y : array-like of shape (n_samples,)
            Target values.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0.
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
        mask = missing_cells_of(X, missing_mask)
        self.betas_ = _checked_betas(self.beta)
        alphas = checked_alphas(self.alphas)
        problems = [
            LassoProblem(self._prepare(X, y, sample_weight, mask, beta), self.fit_intercept)
            for beta in self.betas_
        ]
        if isinstance(alphas, Integral):
            self.alphas_ = np.array([alpha_grid(p, alphas, self.eps) for p in problems])
        else:
            self.alphas_ = np.tile(alphas, (len(problems), 1))
        self._measure_paths(X, y, sample_weight, mask)
        b, a = np.unravel_index(self._best_candidate(), self.alphas_.shape)
        self.alpha_, self.beta_ = float(self.alphas_[b, a]), float(self.betas_[b])
        problem = problems[b]
        warn_if_not_unique(problem.data, self.alpha_)
        self.dual_gap_, self.n_iter_ = problem.solve(self.alpha_, self.tol, self.max_iter)
        self.coef_, self.intercept_ = problem.solution()
        self._record_data(problem.data, X, sample_weight, mask)
        return self

    def _measure_paths(self, X, y, sample_weight, mask):
        if sparse.issparse(X):
            X = X.tocsr()
            mask = None if mask is None else mask.tocsr()
        splits = list(check_cv(self.cv).split(X, y))
        self._check_splits(splits, sample_weight)
        jobs = [(b, split) for b in range(len(self.betas_)) for split in splits]
        results = Parallel(n_jobs=self.n_jobs)(
            delayed(self._measure_path)(X, y, sample_weight, mask, b, *split) for b, split in jobs
        )
        shape = (len(self.betas_), len(splits), self.alphas_.shape[1])
        self.score_path_, self.reliance_path_ = (
            np.array(values).reshape(shape).swapaxes(1, 2) for values in zip(*results, strict=True)
        )

    def _check_splits(self, splits, sample_weight):
        """Refuse splits of which one can be neither fitted nor scored."""
        for k, split in enumerate(splits):
            for name, rows in zip(("training", "test"), split, strict=True):
                if sample_weight is not None and not sample_weight[rows].sum() > 0:
                    raise ValueError(
                        "sample_weight must have a positive sum in both parts of every split, "
                        f"got only zeros in the {name} part of split {k} of cv={self.cv!r}"
                    )
            if self.scoring == "r2" and len(split[1]) < 2:
                raise ValueError(
                    "scoring='r2' needs at least 2 rows in the test part of every split, "
                    f"got {len(split[1])} in split {k} of cv={self.cv!r}"
                )

    def _measure_path(self, X, y, sample_weight, mask, b, train, test):
        """Scores and reliances on the test part, for each price."""

        def part(values, rows):
            return None if values is None else values[rows]

        def columns(values):
            return values.tocsc() if sparse.issparse(values) else values

        data = self._prepare(
            columns(X[train]),
            y[train],
            part(sample_weight, train),
            columns(part(mask, train)),
            self.betas_[b],
        )
        problem = LassoProblem(data, self.fit_intercept)
        coefs, intercepts, _ = path_of(problem, self.alphas_[b], self.tol, self.max_iter)
        X_test, y_test, mask_test = columns(X[test]), y[test], part(mask, test)
        weight = part(sample_weight, test)
        predicted = impute_rows(data.imputer, X_test) @ coefs + intercepts
        scores = _scores(self.scoring, y_test, predicted, weight)
        reliances = [relied_share(mask_test, read, len(y_test), weight) for read in coefs.T != 0]
        return scores, reliances

    def _best_candidate(self):
        results = {
            "mean_test_score": self.score_path_.mean(axis=-1).ravel(),
            "mean_test_reliance": -self.reliance_path_.mean(axis=-1).ravel(),
        }
        return TradeoffRefit("score", "reliance", gamma=self.gamma)(results)


def _checked_betas(beta):
    betas = np.atleast_1d(np.asarray(beta, dtype=np.float64))
    if betas.ndim != 1 or not len(betas):
        raise ValueError(f"beta must be a number or a 1-D array, got shape {betas.shape}")
    if not np.all(np.isfinite(betas)) or betas.min() < 0:
        raise ValueError(f"beta must hold finite numbers >= 0, got {beta!r}")
    return betas


def _scores(scoring, y, predicted, weight):
    """Score of each column of predictions."""
    error = np.average((y[:, np.newaxis] - predicted) ** 2, axis=0, weights=weight)
    if scoring == "neg_mean_squared_error":
        return -error
    variance = np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)
    if variance == 0:
        # As in scikit-learn.
        return np.where(error == 0, 1.0, 0.0)
    return 1 - error / variance
