"""Stage 1: whose models the nuisances are, and which rows they see."""

from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import StratifiedKFold

from skml.utils._optional import import_optional

from ._nuisances import AveragedNuisances, Nuisances, fit_outcomes, fit_propensity

_WHY_TORCH = "a neural partition, or a network in place of propensity_estimator=None"


def import_torch_side(module):
    """Import a module of this sub-package that needs torch, or say which extra is missing."""
    for package in ("torch", "skorch", "safetensors"):
        import_optional(package, extra="torch", needed_by=f"CATEBounder ({_WHY_TORCH})")
    return import_optional(f"skml.causal.{module}", extra="torch", needed_by="CATEBounder")


@dataclass(frozen=True)
class NuisanceFits:
    """How the nuisances are fitted.

    Attributes
    ----------
    propensity_estimator, outcome_estimator : estimator or None
        Cloned on the columns [x, z]; None: a network.
    net_params : dict
        Parameters of the networks.
    cv : int or None
        Number of folds of a cross-fitting.
    validation_fraction : float
        Share of the rows that stops the networks.
    withholds_validation : bool
        Whether these rows choose a partition, so that estimators of the user must not see them.
    seed : int
        Seed of the split and of the folds.
    """

    propensity_estimator: object
    outcome_estimator: object
    net_params: dict
    cv: int | None
    validation_fraction: float
    withholds_validation: bool
    seed: int

    @property
    def has_net(self):
        """Whether one of the nuisances is a network."""
        return self.propensity_estimator is None or self.outcome_estimator is None

    def fit(self, data):
        """Fit the nuisances.

        Parameters
        ----------
        data : Data
            The rows, the outcome in [0, 1].

        Returns
        -------
        nuisances : Nuisances or AveragedNuisances
            With `cv`, one member for each fold.
        fold : ndarray of shape (n,), dtype int, or None
            Index of the member that has not seen a row.
        """
        if self.cv is None:
            train, valid = self.split(data)
            keeps = self.withholds_validation
            everything = train if keeps else np.sort(np.append(train, valid))
            return self._fit_member(data, train, valid, everything), None
        fold = self._draw_folds(data)
        members = []
        for k in range(self.cv):
            rest = np.flatnonzero(fold != k)
            train, valid = (rest[rows] for rows in self.split(data.take(rest)))
            members.append(self._fit_member(data, train, valid, rest))
        return AveragedNuisances(members), fold

    def split(self, data):
        """Draw training and validation rows; each arm keeps a training row."""
        rng = np.random.RandomState(self.seed)
        train, valid = [], []
        for arm in (0, 1):
            rows = rng.permutation(np.flatnonzero(data.treatment == arm))
            n_valid = min(round(self.validation_fraction * len(rows)), len(rows) - 1)
            valid.append(rows[:n_valid])
            train.append(rows[n_valid:])
        return np.sort(np.concatenate(train)), np.sort(np.concatenate(valid))

    def cell_estimators(self):
        """Classifier and regressor of the covariates alone, unfitted, for regressions in cells."""
        classifier, regressor = self.propensity_estimator, self.outcome_estimator
        if self.has_net:
            nets = import_torch_side("_nuisance_nets")
            if classifier is None:
                classifier = nets.CovariateNet("classes", **self.net_params)
            if regressor is None:
                regressor = nets.CovariateNet("moments", **self.net_params)
        return classifier, regressor

    def _fit_member(self, data, train, valid, everything):
        """Networks learn from the training rows; estimators of the user from `everything`."""
        train, valid, everything = (data.take(rows) for rows in (train, valid, everything))
        nets = import_torch_side("_nuisance_nets") if self.has_net else None
        if self.propensity_estimator is None:
            propensity = nets.fit_propensity_net(train, valid, **self.net_params)
        else:
            propensity = fit_propensity(self.propensity_estimator, everything)
        if self.outcome_estimator is None:
            outcomes = nets.fit_outcome_net(train, valid, **self.net_params)
        else:
            outcomes = fit_outcomes(self.outcome_estimator, everything)
        return Nuisances(propensity, outcomes)

    def _draw_folds(self, data):
        least = np.bincount(data.treatment, minlength=2).min()
        if least < self.cv:
            raise ValueError(
                f"cv={self.cv} folds need at least {self.cv} rows of each treatment class; the "
                f"smaller one has {least}"
            )
        fold = np.empty(len(data), dtype=np.intp)
        folds = StratifiedKFold(self.cv, shuffle=True, random_state=self.seed)
        for k, (_, rows) in enumerate(folds.split(data.X, data.treatment)):
            fold[rows] = k
        return fold
