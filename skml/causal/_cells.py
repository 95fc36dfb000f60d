"""The quantities of the cells: averages over the instruments of each, or regressions inside it.

Averages need an instrument that is independent of the covariates; regressions do not.
"""

import numpy as np
from sklearn.base import clone

from ._nuisances import fit_weighted

_PAIRS_AT_ONCE = 2**19
_LEAST_PROPENSITY = 1e-3


def weights_of_averages(instrument, cell, weight, n_cells):
    """Weights of the instruments in the average of each cell.

    Parameters
    ----------
    instrument : ndarray of shape (n, n_instruments)
        The instruments that are averaged over.
    cell : ndarray of shape (n,), dtype int
        Their cells.
    weight : ndarray of shape (n,)
        Weights of the rows.
    n_cells : int
        Number of cells.

    Returns
    -------
    distinct : ndarray of shape (n_distinct, n_instruments)
        The different instruments.
    averages : ndarray of shape (n_distinct, n_cells)
        Their weights, which sum to 1 in each cell; NaN in the column of an empty cell.
    """
    distinct, where = np.unique(instrument, axis=0, return_inverse=True)
    share = np.zeros((len(distinct), n_cells))
    np.add.at(share, (where.ravel(), cell), weight)
    with np.errstate(invalid="ignore"):
        return distinct, share / share.sum(axis=0)


def averaged_cells(nuisances, X, distinct, averages):
    """Average the nuisances over the instruments of each cell.

    Parameters
    ----------
    nuisances : object with the method ``tables``
        The fitted nuisances.
    X : ndarray of shape (n, n_features)
        Covariates.
    distinct, averages : ndarray
        As `weights_of_averages` returns them.

    Returns
    -------
    pi, m1, m0 : tuple of ndarray of shape (n, n_cells)
        The quantities, NaN for an empty cell.
    """
    filled = ~np.isnan(averages).any(axis=0)
    cells = np.full((3, len(X), len(filled)), np.nan)
    step = max(1, _PAIRS_AT_ONCE // len(distinct))
    for start in range(0, len(X), step):
        part = slice(start, start + step)
        cells[:, part, filled] = nuisances.tables(X[part], distinct) @ averages[:, filled]
    return within_range(*cells)


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
        cell : ndarray of shape (n,), dtype int
            Cell of each row.
        n_cells : int
            Number of cells.

        Returns
        -------
        self : object
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

    def fit(self, data, cell, n_cells):
        """Fit the classifier; a single cell has probability 1."""
        self.n_cells = n_cells
        self.known = np.unique(cell)
        self.model = None
        if len(self.known) > 1:
            self.model = fit_weighted(
                clone(self.estimator), data.X, cell, data.weight, "propensity_estimator"
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
