"""Logistic loss with one L1 threshold per column: proximal Newton on a working set.

The loss of a row with scores f_1..f_K and class y is log sum_k exp(f_k) - f_y; two classes have
one score, that of the second. The quadratic model of the loss on the working set, over all
classes at once, is minimised by the same coordinate descent as least squares.
"""

import numpy as np
from scipy.special import entr

from ._design import weighted
from ._least_squares import minimise_quadratic
from ._logistic_rows import dual_entropy, evaluate_scores

__all__ = ["LogisticProblem", "LogisticSolution"]

# Coefficients in one quadratic model; with more the classes take turns.
_LARGEST_MODEL = 1500


class LogisticProblem:
    r"""L1-penalised logistic regression with thresholds.

    .. math:: \min_{b, \theta} \sum_i p_i \Big(\log \sum_k e^{f_{ik}} - f_{i y_i}\Big)
        + \sum_{jk} t_j |\theta_{jk}|, \qquad f_i = b + z_i \theta

    Parameters
    ----------
    design : DenseDesign or SparseDesign
        Z and p.
    Y : ndarray of shape (n_samples, n_scores)
        One column per class with 1 for its rows; the second class alone if there are two.
    threshold : ndarray of shape (n_features,)
        t, not negative.
    fit_intercept : bool
        Whether b is fitted, without a penalty.
    """

    def __init__(self, design, Y, threshold, fit_intercept):
        self.design = design
        self.Y = np.ascontiguousarray(Y)
        self.threshold = threshold
        self.fit_intercept = fit_intercept
        n = design.n_samples
        self.weight = np.full(n, 1 / n) if design.weight is None else design.weight
        shares = self.weight @ Y
        if Y.shape[1] == 1:
            shares = np.append(shares, 1 - shares)
        self.null_loss = float(entr(shares).sum())

    def solve(self, tol, max_iter, start=None):
        """Minimise from a start (coef, intercept), by default from the prior of the classes.

        Parameters
        ----------
        tol : float
            Bound on the duality gap.
        max_iter : int
            Most Newton steps.
        start : tuple of ndarray of shape (n_features, n_scores) and (n_scores,), or None
            Where to start.

        Returns
        -------
        solution : LogisticSolution
            Coefficients, intercepts, duality gap and number of steps.
        """
        state = _State(self, start)
        n_iter = 0
        work = np.flatnonzero(state.coef.any(axis=1) | (self.threshold == 0))
        while True:
            gradient = self.design.correlate(state.residual)
            gap = self._gap(state, gradient, self.threshold, state.coef)
            if gap <= tol or n_iter >= max_iter:
                break
            work = self._extended(work, gradient)
            n_iter += self._solve_on_work(state, work, gap, tol, max_iter - n_iter)
        state.centre_free(self.threshold == 0)
        return LogisticSolution(state.coef, state.intercept, gap, n_iter)

    def _extended(self, work, gradient):
        """Working set with the worst violators; it grows geometrically."""
        size = np.abs(gradient).max(axis=1)
        size[work] = 0.0
        violators = np.flatnonzero(size > self.threshold)
        most = max(50, len(work))
        if len(violators) > most:
            ratio = size[violators] / self.threshold[violators]
            violators = violators[np.argpartition(-ratio, most)[:most]]
        return np.sort(np.concatenate([work, violators]))

    def _solve_on_work(self, state, work, gap, tol, max_iter):
        """Newton steps until the gap on the set is small beside that of all columns."""
        columns = self.design if len(work) == self.design.n_features else self.design.part(work)
        threshold = self.threshold[work]
        bound = max(0.3 * tol, 0.1 * gap)
        n_iter = 0
        for _ in range(min(max_iter, 10)):
            coef = state.coef[work]
            gap = self._gap(state, columns.correlate(state.residual), threshold, coef)
            if n_iter and gap <= bound:
                break
            moved = False
            for classes in self._groups(len(work)):
                moved |= self._newton_step(state, work, columns, threshold, classes, gap)
            n_iter += 1
            if not moved:
                break
        return n_iter

    def _groups(self, n_work):
        n_scores = self.Y.shape[1]
        if n_scores * (n_work + 1) <= _LARGEST_MODEL:
            return [np.arange(n_scores)]
        return [np.array([k]) for k in range(n_scores)]

    def _newton_step(self, state, work, columns, threshold, classes, gap):
        """Minimise the quadratic model over some classes, then search along the way there."""
        first = int(self.fit_intercept)
        hessian = self._hessian(state, columns, classes, first)
        residual = state.residual[:, classes]
        slope = columns.correlate(residual)
        old = state.coef[np.ix_(work, classes)]
        if first:
            slope = np.vstack([self.weight @ residual, slope])
            old = np.vstack([state.intercept[classes], old])
            threshold = np.append(0.0, threshold)
        # One class after the other, the intercept first.
        slope, start = slope.T.ravel(), old.T.ravel()
        price = np.tile(threshold, len(classes))
        new, left = start.copy(), slope.copy()
        minimise_quadratic(
            hessian,
            hessian @ start + slope,
            price,
            new,
            left,
            norm=-self.null_loss,
            tol=1e-2 * max(gap, 1e-13),
            max_iter=1000,
        )
        change = (new - start).reshape(len(classes), -1).T
        descent = -slope @ (new - start) + price @ (np.abs(new) - np.abs(start))
        return state.search(work, columns, classes, old, change, first, threshold, descent)

    def _hessian(self, state, columns, classes, first):
        """Second derivatives of the loss in the coefficients of the set."""
        size = first + columns.n_features
        hessian = np.empty((len(classes) * size, len(classes) * size))
        for a, k in enumerate(classes):
            for b, other in enumerate(classes[: a + 1]):
                weight = self.weight * state.curvature(k, other)
                block = np.empty((size, size))
                block[first:, first:] = columns.curvature(weight)
                if first:
                    block[0, 0] = weight.sum()
                    block[0, 1:] = block[1:, 0] = columns.total(weight)
                rows, cols = slice(a * size, (a + 1) * size), slice(b * size, (b + 1) * size)
                hessian[rows, cols] = block
                hessian[cols, rows] = block.T
        return hessian

    def _gap(self, state, gradient, threshold, coef):
        """Duality gap; the dual point moves from the probabilities towards the classes."""
        size = np.abs(gradient)
        priced = threshold > 0
        ratio = np.max(size[priced] / threshold[priced, np.newaxis], initial=1.0)
        charge = float(threshold @ np.abs(coef).sum(axis=1))
        dual = dual_entropy(self.Y, state.residual, self.weight, 1 / ratio)
        free = np.abs(coef[~priced]) * size[~priced] + 2 * size[~priced] ** 2
        return max(state.loss + charge - dual, 0.0) + float(free.sum())


class LogisticSolution:
    """Result of a fit.

    Parameters
    ----------
    coef : ndarray of shape (n_features, n_scores)
        Coefficients of the standardised columns.
    intercept : ndarray of shape (n_scores,)
        Intercepts.
    gap : float
        Duality gap.
    n_iter : int
        Newton steps.
    """

    def __init__(self, coef, intercept, gap, n_iter):
        self.coef = coef
        self.intercept = intercept
        self.gap = gap
        self.n_iter = n_iter


class _State:
    """Coefficients with the scores, probabilities and loss that follow from them."""

    def __init__(self, problem, start):
        self.problem = problem
        d, n_scores = problem.design.n_features, problem.Y.shape[1]
        if start is not None:
            self.coef, self.intercept = (np.array(part) for part in start)
            scores = problem.design.predict(self.coef) + self.intercept
        else:
            self.coef, self.intercept = np.zeros((d, n_scores)), np.zeros(n_scores)
            if problem.fit_intercept:
                shares = problem.weight @ problem.Y
                other = 1 - shares if n_scores == 1 else 1.0
                self.intercept = np.log(shares) - np.log(other)
            scores = np.tile(self.intercept, (problem.design.n_samples, 1))
        self._take(self._evaluate(scores))
        self._fit_intercepts()

    def _evaluate(self, scores):
        """Return scores, probabilities, residuals and loss."""
        problem = self.problem
        scores = np.ascontiguousarray(scores)
        probability, residual = np.empty_like(scores), np.empty_like(scores)
        loss = evaluate_scores(scores, problem.Y, problem.weight, probability, residual)
        return scores, probability, residual, loss

    def _take(self, evaluated):
        self.scores, self.probability, self.residual, self.loss = evaluated

    def curvature(self, k, other):
        """Second derivative of the loss of each row in two of its scores."""
        if k == other:
            return self.probability[:, k] * (1 - self.probability[:, k])
        return -self.probability[:, k] * self.probability[:, other]

    def search(self, work, columns, classes, old, change, first, threshold, descent):
        """Go along the change as far as the objective falls enough; whether it did."""
        if not descent < 0:
            return False
        direction = columns.predict(change[first:])
        if first:
            direction = direction + change[0]
        charge = float(threshold @ np.abs(old).sum(axis=1))
        step = 1.0
        while step > 1e-10:
            scores = self.scores.copy()
            scores[:, classes] += step * direction
            new = old + step * change
            evaluated = self._evaluate(scores)
            gained = evaluated[-1] - self.loss
            gained += float(threshold @ np.abs(new).sum(axis=1)) - charge
            # Near the solution the gain drowns in the rounding of the loss.
            if gained <= 1e-4 * step * descent + 1e-15 * max(1.0, self.loss):
                self.coef[np.ix_(work, classes)] = new[first:]
                if first:
                    self.intercept[classes] = new[0]
                self._take(evaluated)
                self._fit_intercepts()
                return True
            step /= 2
        return False

    def _fit_intercepts(self):
        """Newton steps in the intercepts alone, which the dual point needs to be exact."""
        if not self.problem.fit_intercept:
            return
        for _ in range(20):
            slope = self.problem.weight @ self.residual
            if np.abs(slope).max() <= 1e-14:
                return
            p = weighted(self.probability, self.problem.weight)
            bend = np.diag(p.sum(axis=0)) - p.T @ self.probability
            # Scores of more than two classes may all be shifted by the same amount.
            step = np.linalg.lstsq(bend, slope, rcond=1e-12)[0]
            step *= min(1.0, 2.0 / max(np.abs(step).max(), 1e-300))
            evaluated = self._evaluate(self.scores + step)
            if evaluated[-1] > self.loss + 1e-15:
                return
            self._take(evaluated)
            self.intercept = self.intercept + step

    def centre_free(self, free):
        """Of all solutions with the same probabilities take the one around zero."""
        if self.coef.shape[1] > 1:
            self.intercept = self.intercept - self.intercept.mean() * self.problem.fit_intercept
            self.coef[free] -= self.coef[free].mean(axis=1, keepdims=True)
