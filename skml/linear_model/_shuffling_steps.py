"""Rules for the step of each epoch."""

from math import inf, isfinite, log, sqrt

import numpy as np

from ._shuffling_orders import is_drawn_anew
from ._shuffling_theory import Certificate

__all__ = ["LEARNING_RATES", "AutoStep", "TheoryStep", "find_first_step", "make_rule"]

LEARNING_RATES = ("auto", "theory", "cbrt", "log", "constant", "invscaling")
_NEED_ETA0 = ("cbrt", "constant", "invscaling")
_NEED_HORIZON = ("log", "theory")

# Trials go down from this multiple of the step that the curvature at the start allows.
_TRIAL_START = 16.0
_TRIAL_FACTOR = 4.0
_TRIALS = 8
# Beyond the usual number, only while no step has lowered the objective.
_MOST_TRIALS = 60


def make_rule(params, problem, theta, first_order, *, streaming):
    """Make the rule that `learning_rate` names.

    Parameters
    ----------
    params : estimator
        Holds `learning_rate`, `eta0`, `power_t`, `offset`, `mu`, `horizon`, `max_iter`, `order`,
        `variance` and `delta`.
    problem : Problem
        The data, of the first chunk when streaming.
    theta : ndarray of shape (d + 1,)
        The start.
    first_order : callable
        Draws the permutation for the trial epochs; called by "auto" alone.
    streaming : bool
        Whether the epochs are chunks of a stream (`partial_fit`).

    Returns
    -------
    object
        With ``gamma(t, n_batches)``, the step of epoch t = 1, 2, ... per row.
    """
    name = params.learning_rate
    if name in _NEED_ETA0 and params.eta0 is None:
        raise ValueError(f"eta0 must be a positive number with learning_rate={name!r}, got None")
    horizon = params.horizon
    if name in _NEED_HORIZON:
        if streaming and horizon is None:
            raise ValueError(
                f"learning_rate={name!r} needs horizon, the number of calls, in partial_fit, got "
                "horizon=None"
            )
        horizon = params.max_iter if horizon is None else horizon
    random_order = is_drawn_anew(params.order)
    if name == "constant":
        return ConstantStep(params.eta0)
    if name == "invscaling":
        return PowerStep(params.eta0, params.power_t)
    if name == "cbrt":
        return CubeRootStep(params.eta0, params.offset, random_order)
    if name == "log":
        mu = params.alpha if params.mu is None else params.mu
        if mu <= 0:
            raise ValueError(
                f"learning_rate='log' needs strong convexity: alpha or mu must be positive, got "
                f"alpha={params.alpha!r} and mu={params.mu!r}"
            )
        ceiling = 1 / _curvature(problem, theta) if params.eta0 is None else params.eta0
        return LogStep(ceiling, mu, horizon)
    if name == "theory":
        return TheoryStep(params, problem, theta, horizon, random_order)
    gamma = params.eta0
    if gamma is None:
        gamma = find_first_step(problem, theta, first_order())
    return AutoStep(gamma, None if streaming else params.max_iter)


class ConstantStep:
    """gamma_t = gamma."""

    def __init__(self, gamma):
        self.step = gamma

    def gamma(self, t, n_batches):
        return self.step


class PowerStep:
    """gamma_t = gamma / t^power; t counts epochs."""

    def __init__(self, gamma, power):
        self.step, self.power = gamma, power

    def gamma(self, t, n_batches):
        return self.step / t**self.power


class CubeRootStep:
    """gamma_t = eta m^(1/3) (t + offset)^(-1/3) / m, without m^(1/3) unless reshuffled."""

    def __init__(self, eta, offset, random_order):
        self.eta, self.offset, self.random_order = eta, offset, random_order

    def gamma(self, t, n_batches):
        gain = n_batches ** (1 / 3) if self.random_order else 1.0
        return self.eta * gain * (t + self.offset) ** (-1 / 3) / n_batches


class LogStep:
    """gamma_t = min(gamma, 6 log(T) / (mu T m)) for a strongly convex objective."""

    def __init__(self, gamma, mu, horizon):
        self.step, self.mu, self.horizon = gamma, mu, horizon

    def gamma(self, t, n_batches):
        _check_within_horizon("log", t, self.horizon)
        # One epoch would have log(1) = 0.
        T = max(self.horizon, 2)
        return min(self.step, 6 * log(T) / (self.mu * T * n_batches))


class TheoryStep:
    """The constant step of the certificate, which each epoch's start may shrink.

    Attributes
    ----------
    certificate : Certificate
        Constants in force.
    n_updates : int
        How often an iterate had gradients that the certificate did not allow for.
    """

    def __init__(self, params, problem, theta, horizon, random_order):
        if params.variance is None:
            A, sigma = 0.0, sqrt(problem.gradient_statistics(theta)[1])
        else:
            A, sigma = (float(value) for value in params.variance)
        lower = problem.loss.lower_bound(problem.y, problem.weight)
        ell = problem.loss.smoothness(problem.y, problem.weight, problem.row_norms(), problem.alpha)
        start = problem.objective(theta)
        if not isfinite(start):
            raise ValueError(
                "learning_rate='theory' needs a finite objective at the start: the loss overflows "
                "at coef_init and intercept_init, or on unscaled features or targets"
            )
        self.certificate = Certificate.build(
            ell,
            max(start - lower, 0.0),
            A,
            sigma,
            alpha=problem.alpha,
            problem=problem,
            horizon=horizon,
            random_order=random_order,
            delta=params.delta,
        )
        self.n_updates = 0

    def observe(self, problem, theta):
        """Check the certificate at the start of an epoch, one pass over the data."""
        updated = self.certificate.updated(*problem.gradient_statistics(theta))
        self.n_updates += updated is not self.certificate
        self.certificate = updated

    def gamma(self, t, n_batches):
        _check_within_horizon("theory", t, self.certificate.horizon)
        return self.certificate.eta / n_batches


class AutoStep:
    """A step found by trial, that decays and that a rejected epoch halves.

    Parameters
    ----------
    gamma : float
        First step.
    horizon : int or None
        gamma_t = gamma (1 - (t - 1) / horizon), or gamma / sqrt(t) for a stream of unknown length.
    """

    def __init__(self, gamma, horizon):
        self.step, self.horizon = gamma, horizon

    def gamma(self, t, n_batches):
        if self.horizon is None:
            return self.step / sqrt(t)
        return self.step * (1 - (t - 1) / self.horizon)

    def reject(self):
        """Answer to an epoch that made the objective worse than at the start."""
        self.step /= 2


def find_first_step(problem, theta, order):
    """Find the step whose first epoch from theta lowers the objective most.

    Trials go down from 16 / max_i(curvature_i ||x_i||^2 + alpha) by factors of 4, and end at the
    first one that does worse than the best, provided that this one is no worse than the start.
    """
    gamma = _TRIAL_START / _curvature(problem, theta)
    best, chosen = inf, gamma
    for trial in range(_MOST_TRIALS):
        reached = theta.copy()
        if trial == 0:
            start = problem.measured_epoch(reached, order, gamma)
        else:
            problem.epoch(reached, order, gamma)
        value = problem.objective(reached)
        if isfinite(value) and value < best and np.all(np.isfinite(reached)):
            best, chosen = value, gamma
        elif best <= start:
            break
        if trial >= _TRIALS - 1 and best <= start:
            break
        gamma /= _TRIAL_FACTOR
    return chosen if best < inf else gamma


def _curvature(problem, theta):
    """Greatest curvature at theta; 1 where it says nothing (no slope, or an overflow)."""
    value = problem.greatest_curvature(theta)
    return value if isfinite(value) and value > 0 else 1.0


def _check_within_horizon(name, t, horizon):
    if t > horizon:
        raise ValueError(
            f"learning_rate={name!r} was made for {horizon} epochs (horizon), epoch {t} is beyond "
            "it"
        )
