"""Stage 1: probability of treatment and outcome means, evaluated on grids of (x, z) pairs."""

import inspect

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

_PAIRS_AT_ONCE = 2**19


class Nuisances:
    """Fitted nuisances of one set of training rows.

    Parameters
    ----------
    propensity : classifier
        Fitted on [x, z] for the treatment.
    outcomes : tuple of two regressors, or estimator with ``predict_grid``
        Fitted on [x, z] for the outcome in [0, 1] of the untreated and of the treated rows.
    """

    def __init__(self, propensity, outcomes):
        self.propensity = propensity
        self.outcomes = outcomes

    def tables(self, X, Z, dtype=np.float64):
        """Evaluate all pairs of a covariate row and an instrument row.

        Parameters
        ----------
        X : ndarray of shape (n_x, n_features)
            Covariates.
        Z : ndarray of shape (n_z, n_instruments)
            Instruments.
        dtype : dtype
            Precision of the tables.

        Returns
        -------
        ndarray of shape (3, n_x, n_z)
            pi(x, z), then the partial moments pi mu_1 and (1 - pi) mu_0.
        """
        pi = self._grid(self.propensity, X, Z, dtype, _treated_probability)
        if hasattr(self.outcomes, "predict_grid"):
            mu = np.moveaxis(self.outcomes.predict_grid(X, Z, dtype=dtype), -1, 0)
        else:
            mu = [self._grid(model, X, Z, dtype, _mean) for model in self.outcomes]
        # No division by pi follows, so pi needs no distance from 0 and 1. The moments are exact
        # cell quantities after averaging over z, which products of averages would not be.
        mu0, mu1 = (np.clip(values, 0, 1) for values in mu)
        return np.stack([pi, pi * mu1, (1 - pi) * mu0])

    def _grid(self, model, X, Z, dtype, evaluate):
        if hasattr(model, "predict_grid"):
            return model.predict_grid(X, Z, dtype=dtype)[..., 1]
        grid = np.empty((len(X), len(Z)), dtype=dtype)
        step = max(1, _PAIRS_AT_ONCE // len(Z))
        for start in range(0, len(X), step):
            part = X[start : start + step]
            pairs = np.hstack([np.repeat(part, len(Z), axis=0), np.tile(Z, (len(part), 1))])
            grid[start : start + step] = evaluate(model, pairs).reshape(len(part), len(Z))
        return grid


class AveragedNuisances:
    """Mean of the tables of several fits, one for each fold of a cross-fitting.

    Parameters
    ----------
    members : list of Nuisances
        The fits.
    """

    def __init__(self, members):
        self.members = members

    @property
    def propensity(self):
        """The members' models of the treatment."""
        return [member.propensity for member in self.members]

    @property
    def outcomes(self):
        """The members' models of the outcome."""
        return [member.outcomes for member in self.members]

    def tables(self, X, Z, dtype=np.float64):
        """Mean of the members' tables (3, n_x, n_z)."""
        total = self.members[0].tables(X, Z, dtype)
        for member in self.members[1:]:
            total += member.tables(X, Z, dtype)
        return total / len(self.members)


def tables_of_unique(nuisances, X, Z, dtype=np.float64):
    """``nuisances.tables(X, Z)`` that evaluates equal rows of Z once."""
    unique, where = np.unique(Z, axis=0, return_inverse=True)
    if 2 * len(unique) > len(Z):
        return nuisances.tables(X, Z, dtype)
    return nuisances.tables(X, unique, dtype)[:, :, where.ravel()]


def fit_propensity(estimator, data):
    """Fit a clone of a classifier for the treatment, on [x, z]."""
    pairs = np.hstack([data.X, data.instrument])
    return fit_weighted(
        clone(estimator), pairs, data.treatment, data.weight, "propensity_estimator"
    )


def fit_outcomes(estimator, data):
    """Fit a clone of a regressor for the outcome of each arm, on [x, z]."""
    pairs = np.hstack([data.X, data.instrument])
    arms = [data.treatment == arm for arm in (0, 1)]
    return tuple(
        fit_weighted(
            clone(estimator), pairs[rows], data.y[rows], data.weight[rows], "outcome_estimator"
        )
        for rows in arms
    )


def fit_weighted(estimator, X, y, weight, name):
    """Fit an estimator, with weights if there are any.

    The weights keep their scale: a weight of 2 counts as much against a penalty as two rows do.
    """
    if np.all(weight == 1):
        return estimator.fit(X, y)
    if not has_fit_parameter(estimator, "sample_weight"):
        raise ValueError(
            f"sample_weight was given, but the fit of {name}={estimator!r} does not take it"
        )
    return estimator.fit(X, y, sample_weight=weight)


def accepts_weights(estimator):
    """Whether the `fit` of an object that may be no scikit-learn estimator takes weights."""
    return "sample_weight" in inspect.signature(estimator.fit).parameters


def _treated_probability(model, pairs):
    return model.predict_proba(pairs)[:, 1]


def _mean(model, pairs):
    return np.asarray(model.predict(pairs), dtype=np.float64)
