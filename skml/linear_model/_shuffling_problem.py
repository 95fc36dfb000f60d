"""The objective of the shuffling solvers and its passes over the data."""

import numpy as np
from scipy import sparse

from . import _shuffling

__all__ = ["Problem"]


class Problem:
    """F(w, b) = sum_i s_i f_i(x_i.w + b) / sum_i s_i + (alpha / 2) ||w||^2.

    An iterate is one array `theta`, the coefficients and then the intercept.

    Parameters
    ----------
    X : ndarray in C order or CSR matrix, of shape (n, d)
        Features, float32 or float64.
    y : ndarray of shape (n,)
        Targets as float64; -1 and 1 for the losses of classification.
    weight : ndarray of shape (n,) or None
        Positive weights; they are scaled to mean 1.
    loss : Loss
        The loss.
    alpha : float
        Price of half the squared norm of the coefficients.
    fit_intercept : bool
        Whether the intercept moves.
    batch_size : int
        Rows of a step, at most n.
    """

    def __init__(self, X, y, weight, loss, *, alpha, fit_intercept=True, batch_size=1):
        self.X, self.loss = X, loss
        self.y = np.ascontiguousarray(y, dtype=np.float64)
        self.weight = None if weight is None else np.ascontiguousarray(weight / np.mean(weight))
        self.alpha, self.fit_intercept, self.batch_size = alpha, fit_intercept, batch_size
        self.n_samples, self.n_features = X.shape
        self.n_batches = -(-self.n_samples // batch_size)
        self._rows = _shuffling.Rows(
            self.y, self.weight, loss.code, loss.parameter, alpha, batch_size, fit_intercept
        )
        self._storage = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)

    def epoch(self, theta, order, gamma):
        """Move theta through one epoch, in place."""
        self._epoch(theta, order, gamma, None)

    def measured_epoch(self, theta, order, gamma):
        """Move theta through one epoch, in place, and return F where it began.

        The pass over the data is shared, which makes this much cheaper than `objective` and
        `epoch`; the two ways agree to rounding.
        """
        start = theta.copy()
        losses = self._epoch(theta, order, gamma, start)
        return self._with_penalty(losses / self.n_samples, start)

    def _epoch(self, theta, order, gamma, start):
        go = self._rows.sparse_epoch if len(self._storage) == 3 else self._rows.dense_epoch
        return go(*self._storage, theta, order, gamma, start)

    def data_loss(self, theta):
        """Weighted mean loss, without the penalty."""
        add = self._rows.sparse_loss if len(self._storage) == 3 else self._rows.dense_loss
        return add(*self._storage, theta) / self.n_samples

    def objective(self, theta):
        """F; infinite or NaN where the loss overflows."""
        return self._with_penalty(self.data_loss(theta), theta)

    def _with_penalty(self, data_loss, theta):
        w = theta[:-1]
        with np.errstate(over="ignore", invalid="ignore"):
            return float(data_loss + 0.5 * self.alpha * np.dot(w, w))

    def row_norms(self):
        """Norm of (x_i, 1), or of x_i without an intercept."""
        if sparse.issparse(self.X):
            squares = np.asarray(self.X.multiply(self.X).sum(axis=1)).ravel()
        else:
            squares = np.einsum("ij,ij->i", self.X, self.X)
        return np.sqrt(squares.astype(np.float64) + self.fit_intercept)

    def predictor(self, theta):
        """x_i.w + b for each row."""
        return np.asarray(self.X @ theta[:-1]).ravel() + theta[-1]

    def greatest_curvature(self, theta):
        """max_i f''_i ||(x_i, 1)||^2 + alpha: at theta, or anywhere if the loss bounds it."""
        bound = self.loss.greatest_curvature
        if bound is None:
            bound = self.loss.derivatives(self.predictor(theta), self.y)[2]
        if self.weight is not None:
            bound = bound * self.weight
        return float(np.max(bound * self.row_norms() ** 2)) + self.alpha

    def gradient_statistics(self, theta):
        """Return ||grad F||^2 and V, the mean of ||grad f_i - grad F||^2."""
        w = theta[:-1]
        z = self.predictor(theta)
        slope = self.loss.derivatives(z, self.y)[1]
        if self.weight is not None:
            slope = slope * self.weight
        gradient = np.asarray(self.X.T @ slope).ravel() / self.n_samples
        along = np.mean(slope * (z - theta[-1]))
        # grad f_i = slope_i (x_i, 1) + alpha (w, 0); alpha w does not vary.
        squares = np.mean(slope**2 * self.row_norms() ** 2)
        of_mean = np.dot(gradient, gradient)
        squared_norm = of_mean + 2 * self.alpha * along + self.alpha**2 * np.dot(w, w)
        if self.fit_intercept:
            of_mean += np.mean(slope) ** 2
            squared_norm += np.mean(slope) ** 2
        return float(max(squared_norm, 0.0)), float(max(squares - of_mean, 0.0))
