"""Constants of the step sizes for losses that are smooth only locally.

A loss is ell-smooth if ``||hess f(w)|| <= ell(||grad f(w)||)``. From ell, the gap of the start and
the variance of the gradients follow a bound G of the gradient on the sublevel set, a bound G' of
every individual gradient there, a local Lipschitz constant L, and from these a step.
"""

from dataclasses import dataclass, replace
from math import inf, sqrt

from scipy.optimize import brentq

__all__ = ["Certificate", "LocalSmoothness", "gradient_bound", "theory_step"]


@dataclass(frozen=True)
class LocalSmoothness:
    """The function ell(u) = L0 + L1 (u + shift)^p.

    Attributes
    ----------
    L0, L1 : float
        Constants; `L1` is 0 for a Lipschitz continuous gradient.
    p : float
        Degree, 0 <= p < 2.
    shift : float
        Largest norm of the gradient of the penalty, which the gradient of the data term may
        exceed that of the whole by.
    """

    L0: float
    L1: float = 0.0
    p: float = 0.0
    shift: float = 0.0

    def __call__(self, u):
        """Return the bound of the curvature where the gradient has norm u."""
        return self.L0 + (self.L1 * (u + self.shift) ** self.p if self.L1 else 0.0)


def gradient_bound(ell, height):
    """Bound the gradient on a sublevel set: sup{u >= 0 : u^2 <= 2 ell(2u) height}.

    Parameters
    ----------
    ell : LocalSmoothness
        The smoothness.
    height : float
        H: the sublevel set is where the objective exceeds its infimum by at most H.

    Returns
    -------
    float
        The bound; infinite if the height is.
    """
    if not height > 0 or height == inf:
        return 0.0 if height <= 0 else inf
    if ell.L1 == 0:
        return sqrt(2 * ell.L0 * height)
    if ell.p == 1:
        L0 = ell.L0 + ell.L1 * ell.shift
        return 2 * ell.L1 * height + sqrt(4 * ell.L1**2 * height**2 + 2 * L0 * height)

    # Divided by u, the excess u - 2 ell(2u) H / u grows with u, so it has one root.
    def excess(u):
        return u - 2 * ell(2 * u) * height / u

    high = 1.0
    while excess(high) <= 0:
        high *= 2
    low = high
    while excess(low) > 0:
        low /= 2
    return brentq(excess, low, high, xtol=1e-300, rtol=1e-14, maxiter=500)


def theory_step(L, A, sigma, delta_0, n, horizon, random_order):
    """Constant epoch step that the guarantee holds for.

    Parameters
    ----------
    L : float
        Local Lipschitz constant.
    A, sigma : float
        Variance of the individual gradients is at most A ||grad F||^2 + sigma^2.
    delta_0 : float
        Gap of the start, F(w_0) - F*, or a bound of it.
    n : int
        Steps of an epoch.
    horizon : int
        Epochs.
    random_order : bool
        Whether the order is drawn anew each epoch, which the variance averages over.

    Returns
    -------
    float
        eta, the sum of the steps of an epoch.
    """
    if L <= 0:
        return 0.0
    terms = n if random_order else 1
    eta = 1 / (2 * L * sqrt(1 + A / terms))
    if sigma > 0:
        factor = 9 * n / 4 if random_order else 3 / 2
        eta = min(eta, (factor * delta_0 / (L**2 * sigma**2 * horizon)) ** (1 / 3))
    return eta


@dataclass(frozen=True)
class Certificate:
    """What the step of ``learning_rate="theory"`` rests on.

    Attributes
    ----------
    ell : LocalSmoothness
        Smoothness of the objective and of each of its terms.
    delta_0 : float
        Bound of F(w_0) - F*.
    height : float
        H: 2 Delta, or 4 Delta / delta if the order is drawn anew each epoch.
    A, sigma : float
        Variance of the individual gradients.
    gradient_bound : float
        G.
    n_samples, n_batches : int
        Terms of the objective, and steps of an epoch.
    horizon : int
        Epochs that the step is made for.
    random_order : bool
        Whether the order is drawn anew each epoch.
    eta : float
        Epoch step; it only ever shrinks.
    """

    ell: LocalSmoothness
    delta_0: float
    height: float
    A: float
    sigma: float
    gradient_bound: float
    n_samples: int
    n_batches: int
    batch_excess: float
    horizon: int
    random_order: bool
    eta: float = inf

    @classmethod
    def build(cls, ell, delta_0, A, sigma, *, alpha, problem, horizon, random_order, delta):
        """Compute the constants for a problem at its start."""
        height = 4 * delta_0 / delta if random_order else 2 * delta_0
        if alpha > 0 and ell.L1:
            # (alpha / 2) ||w||^2 <= F(w) - F_low <= height + delta_0 on the sublevel set
            ell = replace(ell, shift=sqrt(2 * alpha * (height + delta_0)))
        certificate = cls(
            ell,
            delta_0,
            height,
            A,
            sigma,
            gradient_bound(ell, height),
            problem.n_samples,
            problem.n_batches,
            problem.n_batches * problem.batch_size / problem.n_samples,
            horizon,
            random_order,
        )
        return certificate.with_step()

    @property
    def individual_gradient_bound(self):
        """G' = sqrt(2 (1 + n A)) G + sqrt(2 n) sigma."""
        n = self.n_samples
        return sqrt(2 * (1 + n * self.A)) * self.gradient_bound + sqrt(2 * n) * self.sigma

    @property
    def smoothness(self):
        """L = ell(2 G'), local Lipschitz constant of the terms, or of the sum of a batch."""
        return self.batch_excess * self.ell(2 * self.individual_gradient_bound)

    def with_step(self):
        """Compute the step anew; it never grows."""
        eta = theory_step(
            self.smoothness,
            self.A,
            self.sigma,
            self.delta_0,
            self.n_batches,
            self.horizon,
            self.random_order,
        )
        return replace(self, eta=min(self.eta, eta))

    def updated(self, squared_norm, variance):
        """Return a certificate that allows for the gradients seen at an iterate.

        Parameters
        ----------
        squared_norm : float
            ||grad F||^2 at the iterate.
        variance : float
            Mean of ||grad f_i - grad F||^2 there.

        Returns
        -------
        Certificate
            This one if it holds at the iterate, else one with a greater sigma or G.
        """
        changes = {}
        if variance > (self.A * squared_norm + self.sigma**2) * (1 + 1e-12):
            changes["sigma"] = sqrt(variance)
        if squared_norm > self.gradient_bound**2 * (1 + 1e-12):
            changes["gradient_bound"] = sqrt(squared_norm)
        return replace(self, **changes).with_step() if changes else self
