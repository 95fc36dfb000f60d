"""Instrumental-variable data with unobserved confounding, known effects and exact nuisances."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from scipy.special import expit
from sklearn.utils import Bunch, check_random_state

_CONFOUNDING = 0.5
_NOISE = 0.1
_N_SNPS = 50
_N_CAUSAL_SNPS = 10
_DATASETS = (1, 2, 3, "polygenic")


def make_iv_cate(dataset=1, n_samples=2000, *, noise_columns=True, random_state=None):
    r"""Generate data with an instrument, an unobserved confounder and a known effect.

    Parameters
    ----------
    dataset : {1, 2, 3, "polygenic"}, default=1
        1 and 2 have one continuous instrument, 3 has twenty binary ones of which five matter,
        "polygenic" has fifty genotypes of which ten matter and a binary outcome.
    n_samples : int, default=2000
        Number of rows.
    noise_columns : bool, default=True
        Data set 3 only: whether the fifteen instruments without effect hold their values, or
        zeros.
    random_state : int, RandomState instance or None, default=None
        Source of the draw. Pass an int for the same data at each call.

    Returns
    -------
    :class:`~sklearn.utils.Bunch`
        With the attributes

        X : ndarray of shape (n_samples, n_features)
            Covariates, uniform on [-1, 1]: one, or two in "polygenic".
        instrument : ndarray of shape (n_samples, n_instruments)
            The instruments Z.
        treatment : ndarray of int of shape (n_samples,)
            The treatment A, 0 or 1.
        y : ndarray of shape (n_samples,)
            The outcome.
        tau : ndarray of shape (n_samples,)
            E[Y(1) - Y(0) | X] of each row.
        outcome_bounds : tuple of (float, float)
            The known range, (0, 1) in "polygenic", else that of the drawn outcomes.
        nuisances : ExactNuisances
            ``nuisances.tables(X, Z)`` gives P(A=1|x,z), E[AY|x,z] and E[(1-A)Y|x,z] exactly for
            all pairs of rows, ``nuisances.effect(X)`` the true effect.

    Raises
    ------
    ValueError
        If `dataset` or `n_samples` is not one of the valid values.

    Notes
    -----
    Data sets 1 to 3: U is normal with mean -1 and standard deviation 1, the treatment a coin with
    probability p(X, Z, U), and :math:`Y = (X + U / 2 + \epsilon / 10) / 4 + \tau(X) A`, where
    :math:`\epsilon` is a Laplace variable.

    - 1: :math:`p = 1/2 + 0.9 (\sigma(3 (2|Z| - \max Z) + X + U/2) - 1/2)`, with Z uniform on
      [-1, 1] for one half of the rows, Beta(2, 2) for a quarter and its negative for the rest.
    - 2: the same Z, :math:`p = 0.48 \sin(2.5 Z + X + U) + 0.48 + 0.04 \sigma(3 |Z|)`.
    - 3: Z is twenty fair coins, k = (S - 10) / 5 with the sum S of the first five, and
      :math:`p = 0.48 \sin(10 k + X + U) + 0.48 + 0.04 \sigma(15 |k|)`.
    - "polygenic": genotypes 0, 1, 2 with fixed allele frequencies, s their standardised sum over
      the first ten, U standard normal; A has the log odds :math:`1.2 s + X_1/2 + U`, and Y the log
      odds :math:`-1/2 + 0.8 X_1 + U + A (1 + X_2)`.

    The exact nuisances integrate U by a Gauss-Hermite rule with forty points.

    References
    ----------
    .. [1] J. Schweisthal, D. Frauen, M. Schröder, K. Hess, N. Kilbertus, S. Feuerriegel.
       "Learning Representations of Instruments for Partial Identification of Treatment
       Effects." ICML 2025. https://arxiv.org/abs/2410.08976

    Examples
    --------
    >>> from skml.datasets import make_iv_cate
    >>> data = make_iv_cate(dataset="polygenic", n_samples=100, random_state=0)
    >>> data.X.shape, data.instrument.shape, data.outcome_bounds
    ((100, 2), (100, 50), (0.0, 1.0))
    >>> data.nuisances.tables(data.X[:3], data.instrument[:5]).shape
    (3, 3, 5)
    """
    if dataset not in _DATASETS:
        raise ValueError(f"dataset must be one of {_DATASETS}, got {dataset!r}")
    if not isinstance(n_samples, Integral) or n_samples < 1:
        raise ValueError(f"n_samples must be a positive integer, got {n_samples!r}")
    rng = check_random_state(random_state)
    if dataset == "polygenic":
        return _make_polygenic(n_samples, rng)
    return _make_synthetic(dataset, n_samples, noise_columns, rng)


def _make_synthetic(dataset, n_samples, noise_columns, rng):
    # The published generator draws X twice and keeps the second draw; so does this one, so that
    # a seed gives the published data.
    rng.uniform(-1, 1, n_samples)
    X = rng.uniform(-1, 1, n_samples)
    if dataset == 3:
        Z = rng.binomial(1, 0.5, (n_samples, 20)).astype(np.float64)
    else:
        Z = _draw_mixture(n_samples, rng)[:, None]
    U = rng.normal(-1, 1, n_samples)
    nuisances = ExactNuisances(dataset, largest_instrument=float(Z.max()))
    treatment = rng.binomial(1, nuisances._propensity(X, nuisances._summary(Z), U))
    tau = nuisances.effect(X[:, None])
    y = 0.25 * (X + _CONFOUNDING * U + _NOISE * rng.laplace(0, 1, n_samples)) + tau * treatment
    if dataset == 3 and not noise_columns:
        Z[:, 5:] = 0
    return Bunch(
        X=X[:, None],
        instrument=Z,
        treatment=treatment,
        y=y,
        tau=tau,
        outcome_bounds=(float(y.min()), float(y.max())),
        nuisances=nuisances,
    )


def _draw_mixture(n_samples, rng):
    part = rng.choice(3, size=n_samples, p=[0.5, 0.25, 0.25])
    uniform = rng.uniform(-1, 1, n_samples)
    beta = rng.beta(2, 2, n_samples)
    return np.choose(part, [uniform, beta, -beta])


def _make_polygenic(n_samples, rng):
    nuisances = ExactNuisances("polygenic")
    Z = rng.binomial(2, _allele_frequencies(), (n_samples, _N_SNPS)).astype(np.float64)
    X = rng.uniform(-1, 1, (n_samples, 2))
    U = rng.normal(0, 1, n_samples)
    treatment = rng.binomial(1, expit(1.2 * nuisances._summary(Z) + 0.5 * X[:, 0] + U))
    log_odds = -0.5 + 0.8 * X[:, 0] + U + treatment * (1 + X[:, 1])
    return Bunch(
        X=X,
        instrument=Z,
        treatment=treatment,
        y=rng.binomial(1, expit(log_odds)).astype(np.float64),
        tau=nuisances.effect(X),
        outcome_bounds=(0.0, 1.0),
        nuisances=nuisances,
    )


def _allele_frequencies():
    return np.random.RandomState(0).uniform(0.1, 0.5, _N_SNPS)


@dataclass(frozen=True)
class ExactNuisances:
    """What stage 1 of a bound estimator has to learn, in closed form.

    Attributes
    ----------
    dataset : {1, 2, 3, "polygenic"}
        The generator.
    largest_instrument : float
        The greatest instrument of the drawn sample, which data set 1 refers to.
    n_nodes : int
        Points of the quadrature over the confounder.
    """

    dataset: int | str
    largest_instrument: float = 1.0
    n_nodes: int = 40

    def tables(self, X, Z):
        """Evaluate all pairs of a covariate row and an instrument row.

        Parameters
        ----------
        X : ndarray of shape (n_x, n_features)
            Covariates.
        Z : ndarray of shape (n_z, n_instruments)
            Instruments.

        Returns
        -------
        ndarray of shape (3, n_x, n_z)
            P(A=1|x,z), E[AY|x,z] and E[(1-A)Y|x,z].
        """
        # Only the sum of the informative columns enters, so equal sums are evaluated once.
        values, where = np.unique(self._summary(Z), return_inverse=True)
        tables = np.zeros((3, len(X), len(values)))
        x = X[:, :1]
        for u, weight in self._nodes():
            p = self._propensity(x, values, u)
            y0, y1 = self._outcomes(X, u)
            tables += weight * np.stack([p, p * y1[:, None], (1 - p) * y0[:, None]])
        return tables[:, :, where.ravel()]

    def effect(self, X):
        """Conditional effect E[Y(1) - Y(0) | X] of each row.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Covariates.

        Returns
        -------
        ndarray of shape (n_samples,)
            The effects.
        """
        x = X[:, 0]
        if self.dataset == "polygenic":
            parts = ((weight, self._outcomes(X, u)) for u, weight in self._nodes())
            return sum(weight * (y1 - y0) for weight, (y0, y1) in parts)
        if self.dataset == 3:
            shape = -((1.6 * x + 0.5) ** 4) + 12 * np.sin(4 * x + 1.5) + np.cos(x)
        else:
            shape = (2.5 * x) ** 4 + 12 * np.sin(6 * x) + 0.5 * np.cos(x)
        return 0.5 - shape / 80

    def _nodes(self):
        points, weights = np.polynomial.hermite_e.hermegauss(self.n_nodes)
        mean = 0.0 if self.dataset == "polygenic" else -1.0
        return list(zip(mean + points, weights / weights.sum(), strict=True))

    def _summary(self, Z):
        """The one number by which the instrument enters the treatment."""
        if self.dataset == "polygenic":
            f = _allele_frequencies()[:_N_CAUSAL_SNPS]
            total = Z[:, :_N_CAUSAL_SNPS].sum(axis=1)
            return (total - 2 * f.sum()) / np.sqrt(2 * (f * (1 - f)).sum())
        return (Z[:, :5].sum(axis=1) - 10) / 5 if self.dataset == 3 else Z[:, 0]

    def _propensity(self, x, z, u):
        if self.dataset == "polygenic":
            return expit(1.2 * z + 0.5 * x + u)
        if self.dataset == 1:
            distance = 2 * np.abs(z) - self.largest_instrument
            return 0.5 + 0.9 * (expit(3 * distance + x + _CONFOUNDING * u) - 0.5)
        speed, steepness = (2.5, 3) if self.dataset == 2 else (10, 15)
        p = 0.48 * np.sin(speed * z + x + u) + 0.48 + 0.04 * expit(steepness * np.abs(z))
        # Rounding may leave the unit interval at the crests of the sine.
        return np.clip(p, 0.0, 1.0)

    def _outcomes(self, X, u):
        """E[Y(0) | x, u] and E[Y(1) | x, u]."""
        if self.dataset == "polygenic":
            base = -0.5 + 0.8 * X[:, 0] + u
            return expit(base), expit(base + 1 + X[:, 1])
        base = 0.25 * (X[:, 0] + _CONFOUNDING * u)
        return base, base + self.effect(X)
