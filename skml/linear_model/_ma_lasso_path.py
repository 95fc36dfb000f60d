"""Solutions of the missingness-avoiding Lasso along a path of prices."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, validate_params
from sklearn.utils.validation import check_X_y

from skml.utils._weights import validated_weight

from ._least_squares import LeastSquaresPath
from ._ma_base import LINEAR_CONSTRAINTS, warn_if_not_unique
from ._ma_lasso import LassoProblem
from ._ma_training_data import VALID_ROWS, cells_summed, prepare

__all__ = ["ALPHA_GRID_CONSTRAINTS", "alpha_grid", "ma_lasso_path", "path_of"]

ALPHA_GRID_CONSTRAINTS = {
    "alphas": [Interval(Integral, 1, None, closed="left"), "array-like"],
    "eps": [Interval(Real, 0.0, 1.0, closed="neither")],
}


@validate_params(
    {
        "X": ["array-like", "sparse matrix"],
        "y": ["array-like"],
        "sample_weight": ["array-like", None],
        "missing_mask": ["array-like", "sparse matrix", None],
        **ALPHA_GRID_CONSTRAINTS,
        **{
            name: LINEAR_CONSTRAINTS[name]
            for name in ("beta", "fit_intercept", "imputer", "max_iter", "tol")
        },
    },
    prefer_skip_nested_validation=False,
)
def ma_lasso_path(
    X,
    y,
    sample_weight=None,
    *,
    missing_mask=None,
    alphas=100,
    eps=1e-3,
    beta=1.0,
    fit_intercept=True,
    imputer="mean",
    max_iter=1000,
    tol=1e-4,
):
    r"""Compute the solutions of :class:`MALasso` for many prices of reliance.

    Each solution starts at the one before, from the largest price to the smallest.

    Read more in the :ref:`User Guide <missingness_avoiding_linear>`.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows, NaN where a value was not observed.
    y : array-like of shape (n_samples,)
        Target values.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows.
    missing_mask : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
        Cells that count as missing although X holds a value.
    alphas : int or array-like of shape (n_alphas,), default=100
        Number of prices, or the prices themselves in any order.
    eps : float, default=1e-3
        Length of the path if `alphas` is a number. It starts at the smallest price at which
        all penalised coefficients are zero and ends at `eps` times the largest product of a
        column with the target over the largest penalty weight.
    beta : float, default=1.0
        Price of a feature that is never missing, counted in rows.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    imputer : {"mean", "median", "zero"} or transformer, default="mean"
        What stands for a missing value.
    max_iter : int, default=1000
        Largest number of sweeps over the coefficients, for each price.
    tol : float, default=1e-4
        Bound on the duality gap, as a share of the mean square of the centred target.

    Returns
    -------
    alphas : ndarray of shape (n_alphas,)
        The prices, from the largest to the smallest.
    coefs : ndarray of shape (n_features, n_alphas)
        Coefficients in the original units of the features.
    intercepts : ndarray of shape (n_alphas,)
        Intercepts.
    dual_gaps : ndarray of shape (n_alphas,)
        Duality gaps, in the units of the objective.

    See Also
    --------
    MALasso : The estimator, with the objective.
    MALassoCV : Chooses a price by cross-validation.
    sklearn.linear_model.lasso_path : The path of the plain Lasso.

    Notes
    -----
    The objective is that of :class:`MALasso`. Where all features have the same missing rate
    :math:`\lambda_j = \lambda`, the path is that of the Lasso on the standardised columns at
    :math:`\alpha\lambda`.

    References
    ----------
    .. [1] L. Stempfle, A. Matsson, N. Mwai, F. D. Johansson. "Prediction models that learn to
           avoid missing values". ICML 2025, PMLR 267:56899-56919. arXiv:2505.03393.

    Examples
    --------
    >>> import numpy as np
    >>> from skml.linear_model import ma_lasso_path
    >>> X = np.array([[0.0, 1.0], [1.0, np.nan], [2.0, 0.0], [3.0, 2.0]])
    >>> alphas, coefs, intercepts, _ = ma_lasso_path(X, [0.0, 1.0, 2.0, 3.0], alphas=[0.5, 2.0])
    >>> alphas
    array([2. , 0.5])
    >>> coefs.round(2)
    array([[0.55, 0.89],
           [0.  , 0.  ]])
    """
    X, y = check_X_y(X, y, y_numeric=True, **VALID_ROWS)
    X = cells_summed(X)
    data = prepare(
        X,
        y.astype(np.float64, copy=False),
        sample_weight=validated_weight(sample_weight, X),
        missing_mask=missing_mask,
        imputer=imputer,
        beta=beta,
        fit_intercept=fit_intercept,
    )
    problem = LassoProblem(data, fit_intercept)
    alphas = checked_alphas(alphas)
    if isinstance(alphas, Integral):
        alphas = alpha_grid(problem, alphas, eps)
    coefs, intercepts, gaps = path_of(problem, alphas, tol, max_iter)
    return alphas, coefs, intercepts, gaps


def path_of(problem, alphas, tol, max_iter):
    """Solve a LassoProblem for the alphas in their order."""
    warn_if_not_unique(problem.data, min(alphas))
    coefs = np.empty((len(problem.data.scale), len(alphas)), order="F")
    gaps = np.empty(len(alphas))
    for k, alpha in enumerate(alphas):
        gaps[k], _ = problem.solve(alpha, tol, max_iter)
        coefs[:, k] = problem.path.coef
    coefs, intercepts = problem.data.original_units(coefs, problem.y_mean)
    return coefs, intercepts, gaps


def checked_alphas(alphas):
    """Return a number of alphas as it is, and an array of them from the largest down."""
    if isinstance(alphas, Integral):
        return alphas
    alphas = check_array(alphas, ensure_2d=False, dtype=np.float64, input_name="alphas")
    if alphas.ndim != 1:
        raise ValueError(f"alphas must be a number or a 1-D array, got shape {alphas.shape}")
    if alphas.min() < 0:
        raise ValueError(f"alphas must be >= 0, got {alphas.min()}")
    return np.sort(alphas)[::-1]


def alpha_grid(problem, n_alphas, eps):
    """Prices on a logarithmic scale, from the one at which no penalised column is left.

    The largest is decided by the column with the best ratio of product to penalty weight. What
    is worth looking at below depends on the most penalised columns: with equal penalty weights
    the smallest price is `eps` times the largest.
    """
    priced = problem.data.penalty_weights
    path = problem.path
    correlation = np.abs(path.correlation)
    free = np.flatnonzero(priced == 0)
    if len(free) and len(free) < len(priced):
        # Free columns are fitted first, whatever the price is.
        fitted = LeastSquaresPath(path.design, path.y)
        fitted.solve(np.where(priced == 0, 0.0, 1e300), 1e-8 * path.norm, 1000)
        correlation = np.abs(fitted.gradient)
    used = (priced > 0) & (correlation > 0)
    if not used.any():
        # Nothing will ever enter, whatever the price is.
        return np.full(n_alphas, np.finfo(np.float64).resolution)
    # A hair more, so that rounding lets no coefficient through at the largest.
    largest = np.max(correlation[used] / priced[used]) * (1 + 1e-12)
    smallest = eps * correlation[used].max() / priced[used].max()
    return np.geomspace(largest, min(smallest, largest), n_alphas)
