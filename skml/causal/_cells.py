"""Regressions inside each cell, for an instrument that may depend on the covariates."""

import numpy as np
from sklearn.base import clone

from ._nuisances import fit_weighted

_LEAST_PROPENSITY = 1e-3


class CellRegressions:
    """E[A | x], E[A Y | x] and E[(1 - A) Y | x] among the rows of each cell.

    Parameters
    ----------
    propensity_estimator : classifier
        Cloned for the treatment in each cell.
    outcome_estimator : regressor
        Cloned for the two products in each cell.
    """

    def __init__(self, propensity_estimator, outcome_estimator):
        self.propensity_estimator = propensity_estimator
        self.outcome_estimator = outcome_estimator

    def fit(self, data, cell, n_cells):
        """Fit the models of every cell that has rows.

        Parameters
        ----------
        data : Data
            The rows, the outcome in [0, 1].
        cell : ndarray of int of shape (n,)
            Cell of each row.
        n_cells : int
            Number of cells.

        Returns
        -------
        CellRegressions
            Itself.
        """
        self.models = [self._fit_cell(data.take(cell == k)) for k in range(n_cells)]
        return self

    def _fit_cell(self, rows):
        if len(rows) == 0:
            return None
        targets = [rows.treatment * rows.y, (1 - rows.treatment) * rows.y]
        propensity = _fit_or_constant(
            self.propensity_estimator, "propensity_estimator", rows, rows.treatment
        )
        products = [
            _fit_or_constant(self.outcome_estimator, "outcome_estimator", rows, target)
            for target in targets
        ]
        return propensity, *products

    def predict(self, X):
        """Cell quantities of each row.

        Parameters
        ----------
        X : ndarray of shape (n, n_features)
            Covariates.

        Returns
        -------
        pi, m1, m0 : tuple of ndarray of shape (n, n_cells)
            The quantities, NaN for an empty cell.
        """
        tables = np.full((3, len(X), len(self.models)), np.nan)
        for k, models in enumerate(self.models):
            if models is not None:
                propensity, *products = models
                tables[0, :, k] = _treated(propensity, X)
                tables[1:, :, k] = [_mean(model, X) for model in products]
        return within_range(*tables)


def within_range(pi, m1, m0):
    """Products that an outcome in [0, 1] allows, given the share of the treated."""
    return pi, np.clip(m1, 0, pi), np.clip(m0, 0, 1 - pi)


class CellClassifier:
    """P(cell | x), which takes the place of the share of a cell.

    Parameters
    ----------
    estimator : classifier
        Cloned for the cells.
    """

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, cell, n_cells, weight):
        """Fit the classifier; a single cell has probability 1."""
        self.n_cells = n_cells
        self.known = np.unique(cell)
        self.model = None
        if len(self.known) > 1:
            self.model = fit_weighted(
                clone(self.estimator), X, cell, weight, "propensity_estimator"
            )
        return self

    def predict_proba(self, X):
        """Probabilities (n, n_cells), no smaller than 0.001 in the cells that were seen."""
        proba = np.zeros((len(X), self.n_cells))
        proba[:, self.known] = 1.0 if self.model is None else self.model.predict_proba(X)
        proba[:, self.known] = np.maximum(proba[:, self.known], _LEAST_PROPENSITY)
        return proba


def _fit_or_constant(estimator, name, rows, target):
    # What does not vary in a cell (nobody treated without an offer) is known, not estimated; and
    # a classifier would refuse a single class.
    if np.all(target == target[0]):
        return float(target[0])
    return fit_weighted(clone(estimator), rows.X, target, rows.weight, name)


def _treated(model, X):
    if isinstance(model, float):
        return np.full(len(X), model)
    return model.predict_proba(X)[:, 1]


def _mean(model, X):
    if isinstance(model, float):
        return np.full(len(X), model)
    return np.asarray(model.predict(X), dtype=np.float64).reshape(len(X))
