"""Losses of boosting: start, negative gradient, value, the value of a leaf, and the link.

Raw predictions and gradients have shape (n_outputs, n_samples). Values are means over the weights
and follow scikit-learn's ``train_score_``: the squared error and the binary log-loss without their
factor of a half.
"""

import numpy as np
from scipy.special import expit, log_softmax, softmax

from . import _stages

__all__ = ["LOSSES", "AbsoluteError", "BinaryLogLoss", "MultinomialLogLoss", "SquaredError"]


class SquaredError:
    """(y - F)²; a leaf gets the mean residual."""

    n_outputs = 1
    half_curvature = False

    def start(self, y, weight):
        """Return the constant that minimises the loss."""
        return np.array([np.average(y, weights=weight)])

    def start_from(self, predictions):
        """Turn what the initial estimator predicts into raw predictions."""
        return np.asarray(predictions, dtype=np.float64).reshape(1, -1)

    def step(self, y, raw, weight, gradient, n_threads):
        """Write the negative gradient, and return the loss at `raw`."""
        total = _stages.squared_error(y, raw[0], weight, gradient[0], n_threads)
        return total / _total(y, weight)

    def value(self, y, raw, weight):
        """Return the mean loss."""
        return np.average((y - raw[0]) ** 2, weights=weight)

    def leaf_values(self, leaf, n_nodes, y, raw, gradient, weight, n_threads):
        """Return the value of each leaf that lowers the loss; 0 in inner nodes."""
        sums, norm = _stages.leaf_sums(
            leaf, gradient, weight, n_nodes, self.half_curvature, n_threads
        )
        return np.divide(sums, norm, out=np.zeros(n_nodes), where=norm > 0)


class BinaryLogLoss(SquaredError):
    """Twice log(1 + exp F) - y F, y in {0, 1}; a leaf gets one Newton step."""

    half_curvature = True

    def start(self, y, weight):
        """Return the log-odds of the weighted shares."""
        share = np.average(y, weights=weight)
        return self.start_from(np.array([[1 - share, share]]))[:, 0]

    def start_from(self, predictions):
        """Turn probabilities of shape (n_samples, 2) into log-odds."""
        p = _clipped(predictions)[:, 1]
        return np.log(p / (1 - p)).reshape(1, -1)

    def step(self, y, raw, weight, gradient, n_threads):
        """Write the negative gradient, and return the loss at `raw`."""
        total = _stages.binary_log_loss(y, raw[0], weight, gradient[0], n_threads)
        return total / _total(y, weight)

    def value(self, y, raw, weight):
        """Return the mean loss."""
        return 2 * np.average(np.logaddexp(0, raw[0]) - y * raw[0], weights=weight)

    def target(self, codes):
        """Turn class numbers into the y that the other methods take."""
        return codes.astype(np.float64)

    def decision(self, raw):
        """Turn raw predictions into decision values, (n_samples,)."""
        return raw[0]

    def probabilities(self, raw):
        """Turn raw predictions into probabilities, (n_samples, 2)."""
        p = expit(raw[0])
        return np.column_stack([1 - p, p])

    def most_probable(self, raw):
        """Turn raw predictions into class numbers; the second class wins a tie."""
        return (raw[0] >= 0).astype(np.intp)


class MultinomialLogLoss(SquaredError):
    """-log softmax(F)_y, y as class numbers; (K - 1) / K of a Newton step per tree."""

    half_curvature = True

    def __init__(self, n_classes):
        self.n_outputs = n_classes

    def start(self, y, weight):
        """Return the logarithms of the weighted shares, with mean 0."""
        counts = np.bincount(y, weights=weight, minlength=self.n_outputs)
        return self.start_from(counts[None] / counts.sum())[:, 0]

    def start_from(self, predictions):
        """Turn probabilities of shape (n_samples, n_classes) into centred logarithms."""
        logs = np.log(_clipped(predictions)).T
        return np.ascontiguousarray(logs - logs.mean(axis=0))

    def step(self, y, raw, weight, gradient, n_threads):
        """Write the negative gradients, and return the loss at `raw`."""
        total = _stages.multinomial_log_loss(y, raw, weight, gradient, n_threads)
        return total / _total(y, weight)

    def value(self, y, raw, weight):
        """Return the mean loss."""
        return np.average(-log_softmax(raw, axis=0)[y, np.arange(len(y))], weights=weight)

    def leaf_values(self, leaf, n_nodes, y, raw, gradient, weight, n_threads):
        """Return the value of each leaf that lowers the loss; 0 in inner nodes."""
        step = super().leaf_values(leaf, n_nodes, y, raw, gradient, weight, n_threads)
        return step * ((self.n_outputs - 1) / self.n_outputs)

    def target(self, codes):
        """Turn class numbers into the y that the other methods take."""
        return codes

    def decision(self, raw):
        """Turn raw predictions into decision values, (n_samples, n_classes)."""
        return np.ascontiguousarray(raw.T)

    def probabilities(self, raw):
        """Turn raw predictions into probabilities, (n_samples, n_classes)."""
        return np.ascontiguousarray(softmax(raw, axis=0).T)

    def most_probable(self, raw):
        """Turn raw predictions into class numbers; the first class wins a tie."""
        return raw.argmax(axis=0)


class Pinball(SquaredError):
    """q max(y - F, 0) + (1 - q) max(F - y, 0); a leaf gets the q-quantile of the residuals."""

    def __init__(self, quantile):
        self.quantile = quantile

    def start(self, y, weight):
        """Return the weighted quantile of y."""
        return np.array([_quantiles(y, np.zeros(len(y), np.int32), 1, self.quantile, weight)[0]])

    def step(self, y, raw, weight, gradient, n_threads):
        """Write the negative gradient, and return the loss at `raw`."""
        gap = y - raw[0]
        gradient[0] = np.where(gap > 0, self.quantile, self.quantile - 1.0)
        gradient[0][gap == 0] = 0.0
        return self.value(y, raw, weight)

    def value(self, y, raw, weight):
        """Return the mean loss."""
        gap = y - raw[0]
        return np.average(
            np.maximum(self.quantile * gap, (self.quantile - 1) * gap), weights=weight
        )

    def leaf_values(self, leaf, n_nodes, y, raw, gradient, weight, n_threads):
        """Return the quantile of the residuals in each leaf; 0 in inner nodes."""
        return _quantiles(y - raw[0], leaf, n_nodes, self.quantile, weight)


class AbsoluteError(Pinball):
    """|y - F|; a leaf gets the median residual."""

    def __init__(self, quantile=0.5):
        super().__init__(0.5)

    def step(self, y, raw, weight, gradient, n_threads):
        """Write the sign of the residuals, and return the loss at `raw`."""
        np.sign(y - raw[0], out=gradient[0])
        return self.value(y, raw, weight)

    def value(self, y, raw, weight):
        """Return the mean loss."""
        return np.average(np.abs(y - raw[0]), weights=weight)


LOSSES = {
    "squared_error": lambda quantile: SquaredError(),
    "absolute_error": AbsoluteError,
    "quantile": Pinball,
}


def _total(y, weight):
    return len(y) if weight is None else weight.sum()


def _clipped(probabilities):
    eps = np.finfo(np.float64).eps
    return np.clip(np.asarray(probabilities, dtype=np.float64), eps, 1 - eps)


def _quantiles(values, group, n_groups, q, weight):
    """Weighted q-quantile of the values of each group; 0 for a group without weight.

    The least value up to which the weights reach the share q, or the middle between it and the
    next one if they meet q exactly; so a row of weight 3 counts as three rows.
    """
    result = np.zeros(n_groups)
    weight = np.ones(len(values)) if weight is None else weight
    rows = np.flatnonzero(weight > 0)
    rows = rows[np.lexsort((values[rows], group[rows]))]
    ordered = group[rows]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        part = rows[start:end]
        cumulated = np.cumsum(weight[part])
        goal = q * cumulated[-1]
        # Rounding in the sums must not decide between one value and two.
        slack = 1e-12 * cumulated[-1]
        low = min(np.searchsorted(cumulated, goal - slack), len(part) - 1)
        high = min(np.searchsorted(cumulated, goal + slack, side="right"), len(part) - 1)
        result[ordered[start]] = values[part[low]] / 2 + values[part[high]] / 2
    return result
