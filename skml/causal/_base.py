"""What bound estimators share: prediction, honest score, average bounds, bootstrap."""

import warnings
from abc import ABCMeta, abstractmethod
from numbers import Real

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from ._honest import Rows, imbens_manski_factor, manski_terms, mean_and_error
from ._manski import manski_iv_bounds
from ._validation import (
    Data,
    check_lengths,
    check_treatment,
    check_weight,
    require_arrays,
    resolve_outcome_bounds,
)

_UNIT = (0.0, 1.0)
_TOLERATED_CROSSING = 0.01


class BaseCATEBounder(BaseEstimator, metaclass=ABCMeta):
    """Bounds from cell quantities; a subclass learns the cells and their quantities.

    Inside, the outcome is in the unit in which `outcome_bounds_` is [0, 1]. Bounds are then
    equivariant by construction, and a width of 1 is what is known without data.
    """

    @abstractmethod
    def _unit_cells(self, X):
        """Cell quantities (pi, m1, m0) of the rows of a validated X, each (n, n_cells)."""

    @abstractmethod
    def partition(self, Z):
        """Find the cell of each row of an instrument."""

    @abstractmethod
    def _cell_probability(self, X, cell):
        """P(cell | x) of each row, or None if the instrument does not depend on X."""

    @abstractmethod
    def _resampled(self, rng):
        """A copy that is fitted again on resampled rows, its cells as they are."""

    def predict_bounds(self, X):
        """Bound the conditional effect of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Covariates; no instrument is needed.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lower and upper bound, in the unit of the outcome.
        """
        s1, s2 = self._range()
        return (s2 - s1) * self._unit_bounds(self._checked(X))

    def predict(self, X):
        """Return the middle between the bounds, which need not be near the effect.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Covariates.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Mean of lower and upper bound.
        """
        return self.predict_bounds(X).mean(axis=1)

    def predict_cells(self, X):
        """Return the quantities of each cell that the bounds are made of.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Covariates.

        Returns
        -------
        dict of str to ndarray of shape (n_samples, n_cells)
            "pi", the probability of treatment; "m1" and "m0", the means of A Y and (1 - A) Y.
            NaN in the column of an empty cell.
        """
        s1, s2 = self._range()
        pi, m1, m0 = self._unit_cells(self._checked(X))
        return {
            "pi": pi,
            "m1": s1 * pi + (s2 - s1) * m1,
            "m0": s1 * (1 - pi) + (s2 - s1) * m0,
        }

    def crossing(self, X):
        """Tell for which rows the lower bound exceeds the upper one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Covariates.

        Returns
        -------
        ndarray of shape (n_samples,), dtype bool
            True where the bounds cross: evidence that the instrument is not valid, or that the
            nuisances are not well estimated.
        """
        bounds = self.predict_bounds(X)
        return bounds[:, 0] > bounds[:, 1]

    def score(self, X, y, *, treatment=None, instrument=None, sample_weight=None):
        """Return minus the honest width of the bounds on held-out rows, over the outcome range.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Covariates of rows that were not used in `fit`.
        y : array-like of shape (n_samples,)
            Their outcomes.
        treatment : array-like of shape (n_samples,)
            Their treatments.
        instrument : array-like of shape (n_samples,) or (n_samples, n_instruments)
            Their instruments.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            Higher is better; -1 is what is known without data. The estimate is unbiased for
            the width of valid bounds, so it does not reward bounds that are tight because the
            nuisances over-fit.
        """
        terms, rows = self._honest_terms(X, y, treatment, instrument, sample_weight, "score")
        lower, upper, *_ = terms
        return float(np.average(lower - upper, weights=rows.weight))

    def average_bounds(
        self, X, y, *, treatment=None, instrument=None, confidence_level=0.95, sample_weight=None
    ):
        """Bound the average effect, with a confidence interval for it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Covariates of rows that were not used in `fit`.
        y : array-like of shape (n_samples,)
            Their outcomes.
        treatment : array-like of shape (n_samples,)
            Their treatments.
        instrument : array-like of shape (n_samples,) or (n_samples, n_instruments)
            Their instruments.
        confidence_level : float, default=0.95
            Probability with which the interval covers the average effect.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        :class:`~sklearn.utils.Bunch`
            With the attributes `bounds` (2,), the estimated bounds; `standard_error` (2,);
            `confidence_interval` (2,), after Imbens and Manski; `critical_value`, the number of
            standard errors added at either side.
        """
        _check_level(confidence_level)
        terms, rows = self._honest_terms(
            X, y, treatment, instrument, sample_weight, "average_bounds"
        )
        s1, s2 = self._range()
        n = len(rows.y)
        (low, low_sd), (high, high_sd) = (
            mean_and_error(term, residual, rows.weight)
            for term, residual in zip(terms[:2], terms[2:], strict=True)
        )
        factor = imbens_manski_factor(low, high, max(low_sd, high_sd), n, confidence_level)
        errors = (s2 - s1) * np.array([low_sd, high_sd]) / np.sqrt(n)
        bounds = (s2 - s1) * np.array([low, high])
        return Bunch(
            bounds=bounds,
            standard_error=errors,
            confidence_interval=bounds + factor * errors * [-1, 1],
            critical_value=factor,
        )

    def bootstrap_bounds(self, X, n_resamples=200, confidence_level=0.95, *, n_jobs=None):
        """Compute pointwise confidence intervals: nuisances are fitted again, the cells kept.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Covariates.
        n_resamples : int, default=200
            Number of bootstrap samples of the training rows.
        confidence_level : float, default=0.95
            Each side is left with half of the rest.
        n_jobs : int or None, default=None
            Number of parallel jobs.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Low quantile of the lower bounds and high quantile of the upper ones.
        """
        _check_level(confidence_level)
        if not isinstance(n_resamples, (int, np.integer)) or n_resamples < 2:
            raise ValueError(f"n_resamples must be an integer of at least 2, got {n_resamples!r}")
        X = self._checked(X)
        s1, s2 = self._range()
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=n_resamples)
        bounds = Parallel(n_jobs=n_jobs)(delayed(_bounds_of_resample)(self, X, s) for s in seeds)
        lower, upper = np.moveaxis(np.array(bounds), -1, 0)
        rest = (1 - confidence_level) / 2
        low = np.quantile(lower, rest, axis=0)
        high = np.quantile(upper, 1 - rest, axis=0)
        return (s2 - s1) * np.column_stack([low, high])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = True
        return tags

    def _fit_data(self, X, y, treatment, check_instrument, instrument, sample_weight):
        """Validate the arrays of `fit`; set what is known of them.

        Returns
        -------
        Data
            The rows with a positive weight, the outcome in [0, 1].
        """
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        name = type(self).__name__
        require_arrays(f"{name}.fit", treatment=treatment, instrument=instrument)
        instrument, treatment = check_instrument(instrument), column_or_1d(treatment)
        check_lengths(X, treatment=treatment, instrument=instrument)
        weight = check_weight(sample_weight, X)
        kept = weight > 0
        self.n_instrument_features_in_ = instrument.shape[1]
        self.treatment_classes_, treated = check_treatment(treatment[kept])
        self.outcome_bounds_ = resolve_outcome_bounds(self.outcome_bounds, y[kept], name)
        return Data(X[kept], instrument[kept], treated, self._in_unit(y[kept]), weight[kept])

    def _in_unit(self, y):
        s1, s2 = self.outcome_bounds_
        return (y - s1) / (s2 - s1)

    def _range(self):
        check_is_fitted(self)
        return self.outcome_bounds_

    def _checked(self, X):
        check_is_fitted(self)
        return validate_data(self, X, dtype=np.float64, reset=False)

    def _unit_bounds(self, X):
        return manski_iv_bounds(*self._unit_cells(X), _UNIT)

    def _terms(self, cells, rows):
        return manski_terms(cells, rows)

    def _honest_terms(self, X, y, treatment, instrument, sample_weight, method):
        check_is_fitted(self)
        require_arrays(
            f"{type(self).__name__}.{method}", treatment=treatment, instrument=instrument
        )
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=False)
        _, treatment = check_treatment(treatment, self.treatment_classes_)
        check_lengths(X, y=y, treatment=treatment)
        weight = check_weight(sample_weight, X)
        weight = weight / weight.mean()
        cell = self.partition(instrument)
        check_lengths(X, instrument=cell)
        rows = Rows(cell, treatment, self._in_unit(y), weight, self._cell_probability(X, cell))
        return self._terms(self._unit_cells(X), rows), rows

    def _warn_of_crossing(self, bounds):
        share = np.mean(bounds[:, 0] > bounds[:, 1])
        if share > _TOLERATED_CROSSING:
            warnings.warn(
                f"The bounds of {share:.1%} of the training rows cross: either the instrument is "
                "not valid, or the nuisances are not well estimated; fewer cells, or stronger "
                "regularisation, may help.",
                UserWarning,
            )


def resampled_rows(data, rng):
    """Bootstrap sample of the rows of each treatment arm, so that neither is lost."""
    rows = [np.flatnonzero(data.treatment == arm) for arm in (0, 1)]
    total = rng.multinomial(1, [len(part) / len(data) for part in rows], len(data)).sum(axis=0)
    # Both arms keep at least one row.
    sizes = np.clip(total, 1, len(data) - 1)
    return np.concatenate(
        [part[rng.randint(len(part), size=size)] for part, size in zip(rows, sizes, strict=True)]
    )


def _bounds_of_resample(estimator, X, seed):
    model = estimator._resampled(np.random.RandomState(seed))
    return model._unit_bounds(X)


def _check_level(confidence_level):
    if not isinstance(confidence_level, Real) or not 0 < confidence_level < 1:
        raise ValueError(
            f"confidence_level must be a number between 0 and 1, got {confidence_level!r}"
        )
