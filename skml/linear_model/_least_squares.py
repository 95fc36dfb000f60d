"""Least squares with one L1 threshold per column, along a path of thresholds."""

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from ._gram_descent import descend, duality_gap

__all__ = ["LeastSquaresPath", "are_collinear", "minimise_quadratic"]

# Up to this many columns the products of all of them are computed at once.
_ALL_AT_ONCE = 1024


class LeastSquaresPath:
    r"""Solutions of a Lasso with thresholds, each started at the one before.

    .. math:: \min_\theta \frac12 \sum_i p_i (y_i - z_i \theta)^2 + \sum_j t_j |\theta_j|

    Coordinate descent runs on the products of a working set of columns. After each solution
    on the set, the gradient of all columns says which others have to enter.

    Parameters
    ----------
    design : DenseDesign or SparseDesign
        Z and p.
    y : ndarray of shape (n_samples,)
        Target, centred if there is an intercept.
    coef : ndarray of shape (n_features,) or None
        Where to start.

    Attributes
    ----------
    coef : ndarray of shape (n_features,)
        The last solution.
    correlation, gradient : ndarray of shape (n_features,)
        Products of the columns with y, and with what the last solution leaves of y.
    norm : float
        Weighted mean square of y.
    """

    def __init__(self, design, y, coef=None):
        self.design = design
        self.y = y
        weight = design.weight
        self.norm = float(y @ y / len(y) if weight is None else weight @ y**2)
        d = design.n_features
        self.coef = np.zeros(d) if coef is None else np.array(coef, dtype=np.float64)
        self._previous_threshold = None
        everything = d <= min(_ALL_AT_ONCE, design.n_samples)
        self._work = np.arange(d) if everything else np.empty(0, dtype=np.intp)
        self._is_in = np.full(d, everything)
        self._columns = design if everything else None
        if everything:
            gram, self.correlation = design.gram_and_correlation(y)
            self._gram = np.ascontiguousarray(gram)
        else:
            self._gram, self.correlation = np.empty((0, 0)), design.correlate(y)
        self.gradient = np.array(self.correlation)
        if coef is not None and self.coef.any():
            if everything:
                self.gradient -= self._gram @ self.coef
            else:
                self._enter(np.flatnonzero(self.coef))
                self._residual_products()

    def solve(self, threshold, tol, max_iter):
        """Move to the solution for these thresholds.

        Parameters
        ----------
        threshold : ndarray of shape (n_features,)
            t, not negative.
        tol : float
            Bound on the duality gap.
        max_iter : int
            Most sweeps.

        Returns
        -------
        gap : float
            Duality gap that was reached.
        n_iter : int
            Sweeps made.
        """
        self._enter(self._candidates(threshold))
        gap, n_iter = self._solve_on_work(threshold, tol, max_iter)
        while len(self._work) < self.design.n_features:
            gap = self._gap_of_all(threshold)
            if gap <= tol or n_iter >= max_iter:
                break
            excess = np.abs(self.gradient) - threshold
            excess[self._is_in] = 0.0
            violators = np.flatnonzero(excess > 0)
            if not len(violators):
                break
            self._enter(self._worst(violators, threshold))
            gap, more = self._solve_on_work(threshold, tol, max_iter - n_iter)
            n_iter += more
        self._previous_threshold = threshold
        return gap, n_iter

    def _candidates(self, threshold):
        """Columns that are likely to enter: those that the strong rule cannot discard."""
        if len(self._work) == self.design.n_features:
            return np.empty(0, dtype=np.intp)
        bound = threshold
        if self._previous_threshold is not None:
            bound = 2 * threshold - self._previous_threshold
        likely = np.flatnonzero((np.abs(self.gradient) > bound) & ~self._is_in)
        free = np.flatnonzero((threshold == 0) & ~self._is_in)
        return np.union1d(free, self._worst(likely, threshold))

    def _worst(self, features, threshold):
        """At most as many as there are in the working set, so that it grows geometrically."""
        most = max(50, len(self._work))
        if len(features) <= most:
            return features
        with np.errstate(divide="ignore"):
            ratio = np.abs(self.gradient[features]) / threshold[features]
        return features[np.argpartition(-ratio, most)[:most]]

    def _enter(self, features):
        if not len(features):
            return
        old, k = self._work, len(self._work)
        size = k + len(features)
        if size > len(self._gram):
            gram = np.zeros((max(size, 2 * k), max(size, 2 * k)))
            gram[:k, :k] = self._gram[:k, :k]
            self._gram = gram
        entering = self.design.part(features)
        if k:
            cross = self._columns.products(entering)
            self._gram[:k, k:size] = cross
            self._gram[k:size, :k] = cross.T
            self._columns = self._columns.joined(entering)
        else:
            self._columns = entering
        self._gram[k:size, k:size] = entering.gram()
        self._work = np.concatenate([old, features])
        self._is_in[features] = True

    def _solve_on_work(self, threshold, tol, max_iter):
        work = self._work
        coef, gradient = self.coef[work], self.gradient[work]
        measure, n_iter = minimise_quadratic(
            self._gram,
            self.correlation[work],
            threshold[work],
            coef,
            gradient,
            norm=self.norm,
            tol=tol,
            max_iter=max_iter,
        )
        self.coef[work], self.gradient[work] = coef, gradient
        return measure, n_iter

    def _residual_products(self):
        """Renew the gradient of all columns; return the residual."""
        residual = self.y
        if len(self._work):
            residual = self.y - self._columns.predict(self.coef[self._work])
        self.gradient = self.design.correlate(residual)
        return residual

    def _gap_of_all(self, threshold):
        residual = self._residual_products()
        weight = self.design.weight
        p_residual = residual / len(residual) if weight is None else weight * residual
        priced = threshold > 0
        ratio = np.max(np.abs(self.gradient[priced]) / threshold[priced], initial=0.0)
        gap = duality_gap(
            self.norm,
            float(self.y @ p_residual),
            float(residual @ p_residual),
            float(threshold @ np.abs(self.coef)),
            float(ratio),
        )
        free = np.flatnonzero(~priced)
        return gap + float(np.abs(self.coef[free] * self.gradient[free]).sum())


def minimise_quadratic(gram, target, threshold, coef, gradient, *, norm, tol, max_iter):
    """Coordinate descent, helped by a linear system where the signs have settled.

    Almost collinear columns, and columns with next to no threshold, make coordinate descent
    crawl; for known signs the solution is that of one linear system.

    Parameters
    ----------
    gram : ndarray of shape (capacity, capacity)
        Products in the upper left corner.
    target, threshold : ndarray of shape (k,)
        Linear term and thresholds.
    coef, gradient : ndarray of shape (k,)
        Changed in place.
    norm, tol : float
        See `descend`.
    max_iter : int
        Most sweeps.

    Returns
    -------
    measure : float
        Duality gap, or violation of the conditions of a solution.
    n_iter : int
        Sweeps made.
    """
    if not len(coef):
        return 0.0, 0
    free = np.flatnonzero((threshold == 0) & (gram.diagonal()[: len(coef)] > 0))
    _refit_free(gram, free, coef, gradient)
    n_iter, patience = 0, 5 + np.count_nonzero(coef) // 10
    while True:
        converged, sweeps, measure = descend(
            gram, target, threshold, coef, gradient, norm, tol, max_iter - n_iter, patience
        )
        n_iter += sweeps
        if converged or n_iter >= max_iter:
            if _refit_free(gram, free, coef, gradient) <= 0.1 * tol or n_iter >= max_iter:
                return measure, n_iter
            continue
        _solve_for_signs(gram[: len(coef), : len(coef)], target, threshold, coef, gradient)
        patience = min(2 * patience, 100)


def are_collinear(gram):
    """Whether columns with these products depend on each other but for rounding."""
    if not len(gram):
        return False
    diagonal = np.diag(gram)
    size = np.sqrt(diagonal[diagonal > 0])
    gram = gram[np.ix_(diagonal > 0, diagonal > 0)] / size / size[:, np.newaxis]
    if not len(gram):
        return False
    return np.linalg.eigvalsh(gram)[0] <= 10 * len(gram) * np.finfo(np.float64).eps


def _solve_for_signs(gram, target, threshold, coef, gradient):
    """Go to the solution of the present signs; a coefficient that meets zero stays there.

    Within one pattern of signs the objective is a convex quadratic, so each step descends.
    """
    moving = np.flatnonzero((coef != 0) | ((threshold == 0) & (gram.diagonal() > 0)))
    # One factor of a large system costs as much as many sweeps.
    for _ in range(30 if len(moving) <= 100 else 3):
        if not len(moving):
            return
        old = coef[moving]
        slope = gradient[moving] - threshold[moving] * np.sign(old)
        step = _descent_step(gram[np.ix_(moving, moving)], slope)
        if step is None:
            return
        ahead = old + step
        crossing = np.flatnonzero((threshold[moving] > 0) & (ahead * old <= 0))
        share = 1.0
        if len(crossing):
            shares = old[crossing] / (old[crossing] - ahead[crossing])
            share = min(shares.min(), 1.0)
            ahead = old + share * step
            ahead[crossing[shares == share]] = 0.0
        coef[moving] = ahead
        gradient[:] = target - gram @ coef
        if not len(crossing):
            return
        moving = moving[(ahead != 0) | (threshold[moving] == 0)]


def _refit_free(gram, free, coef, gradient):
    """Fit the coefficients without a price exactly, the others being held; return the gain.

    Only then is the residual a point of the dual, where it must not meet a free column.
    """
    if not len(free) or not gradient[free].any():
        return 0.0
    block = gram[np.ix_(free, free)]
    factor = _factor(block)
    if factor is not None:
        step = dpotrs(factor, gradient[free], lower=1)[0]
    else:
        step = np.linalg.lstsq(block, gradient[free], rcond=1e-12)[0]
    gain = 0.5 * (step @ gradient[free])
    coef[free] += step
    gradient -= gram[: len(coef), free] @ step
    return gain


def _descent_step(block, slope):
    """Newton step, of the best length where the block is singular; None if there is none."""
    factor = _factor(block)
    if factor is not None:
        return dpotrs(factor, slope, lower=1)[0]
    # Dependent columns: a tiny ridge turns the step towards the direction in which their
    # prediction stays and their price falls, which ends where a coefficient meets zero.
    factor = _factor(block + 1e-9 * block.diagonal().max() * np.eye(len(block)))
    if factor is None:
        return None
    step = dpotrs(factor, slope, lower=1)[0]
    bend = step @ block @ step
    length = (slope @ step) / bend if bend > 0 else np.inf
    return step * length if length < 1e12 else step


def _factor(block):
    """Cholesky factor, None if the block is singular or nearly so."""
    factor, info = dpotrf(block.T, lower=1, clean=0)
    if info != 0:
        return None
    pivots = factor.diagonal()
    return None if pivots.min() < 1e-7 * pivots.max() else factor
