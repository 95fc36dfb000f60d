"""The epochs of a fit: steps, rejection, divergence, stopping, averaging."""

import warnings
from dataclasses import dataclass, field
from math import inf, isfinite

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ._shuffling_steps import AutoStep, TheoryStep

__all__ = ["Training", "Watch", "train"]


@dataclass
class Watch:
    """When to stop before the last epoch.

    Attributes
    ----------
    tol : float or None
        Least improvement that counts; None never stops.
    patience : int
        Epochs without one, after which the training ends.
    validation : Problem or None
        Held-out rows whose mean loss is watched in place of the objective.
    """

    tol: float | None
    patience: int
    validation: object = None


@dataclass
class Training:
    """Where a training stands; it can be continued.

    Attributes
    ----------
    theta : ndarray of shape (d + 1,)
        Last epoch iterate.
    epoch : int
        Epochs so far.
    mean, n_averaged : ndarray and int
        Mean of the epoch iterates, and how many there are.
    curve, steps : list of float
        Objective after each epoch, and its step.
    start : float
        Objective at the start.
    n_rejected : int
        Epochs that were undone.
    best : ndarray or None
        Iterate with the lowest loss on held-out rows.
    converged, diverged : bool
        Why the training ended early, if it did.
    """

    theta: np.ndarray
    epoch: int = 0
    mean: np.ndarray | None = None
    n_averaged: int = 0
    curve: list = field(default_factory=list)
    validation_curve: list = field(default_factory=list)
    steps: list = field(default_factory=list)
    start: float = inf
    n_rejected: int = 0
    best: np.ndarray | None = None
    converged: bool = False
    diverged: bool = False

    def add_to_mean(self):
        """Count the epoch iterate into the mean."""
        if self.mean is None:
            self.mean = np.zeros_like(self.theta)
        self.n_averaged += 1
        self.mean += (self.theta - self.mean) / self.n_averaged


def train(state, problem, orders, rule, n_epochs, *, watch=None, verbose=0):
    """Run epochs from where `state` stands.

    Parameters
    ----------
    state : Training
        Changed in place.
    problem : Problem
        The data.
    orders : callable
        ``orders(t)`` is the permutation of epoch t.
    rule : object
        The step rule.
    n_epochs : int
        Epochs to run at most.
    watch : Watch or None
        When to stop early.
    verbose : int
        Whether to print a line for each epoch.
    """
    ledger = _Ledger(state, rule, watch, verbose)
    for t in range(state.epoch + 1, state.epoch + n_epochs + 1):
        certified = isinstance(rule, TheoryStep)
        if certified:
            # The certificate is checked at these weights, so they must be accepted before.
            ledger.judge(problem.objective(state.theta))
            if ledger.is_closed:
                return
            rule.observe(problem, state.theta)
        order, gamma = orders(t), rule.gamma(t, problem.n_batches)
        before, theta = state.theta, state.theta.copy()
        if certified:
            problem.epoch(theta, order, gamma)
        else:
            # F after an epoch would cost a pass over the data of its own; this epoch reads each row
            # anyway, so it finds out whether the one before may stand.
            ledger.judge(problem.measured_epoch(theta, order, gamma))
            if ledger.is_closed:
                return
            if state.theta is not before:
                gamma, theta = rule.gamma(t, problem.n_batches), state.theta.copy()
                problem.epoch(theta, order, gamma)
        state.theta = theta
        ledger.open(t, gamma)
    ledger.judge(problem.objective(state.theta))


class _Ledger:
    """Accepts or undoes the epochs of a training, once the objective after each is known.

    Attributes
    ----------
    is_closed : bool
        Whether the training is over before its last epoch.
    """

    def __init__(self, state, rule, watch, verbose):
        self.state, self.rule, self.watch, self.verbose = state, rule, watch, verbose
        self.is_closed = False
        self._epoch = None
        self._accepted, self._value = state.theta, inf
        self._least, self._waited = inf, 0

    def open(self, t, gamma):
        """Enter epoch t, which led to ``state.theta`` with the step gamma."""
        self._epoch = t, gamma

    def judge(self, reached):
        """Decide about the epoch that led to ``state.theta``, where the objective is `reached`.

        An epoch that is undone leaves the weights before it in ``state.theta``.
        """
        state = self.state
        if self._epoch is None:
            state.start = self._value = reached
            return
        t, gamma = self._epoch
        finite = isfinite(reached) and bool(np.all(np.isfinite(state.theta)))
        rejected = isinstance(self.rule, AutoStep) and not (finite and reached <= state.start)
        state.epoch = t
        if rejected:
            state.theta = self._accepted
            state.n_rejected += 1
            self.rule.reject()
        elif not finite:
            state.theta = self._accepted
            state.diverged = self.is_closed = True
            _warn_of_divergence(t, gamma)
            return
        else:
            self._accepted, self._value = state.theta, reached
            state.add_to_mean()
        state.curve.append(self._value)
        state.steps.append(gamma)
        if self.verbose:
            undone = " rejected" * rejected
            print(f"epoch {t}: objective {self._value:.6g}, step {gamma:.3g}{undone}")
        if self.watch is not None:
            self._look()

    def _look(self):
        """End the training if nothing has improved for long."""
        state, watch = self.state, self.watch
        seen = self._value
        if watch.validation is not None:
            seen = watch.validation.data_loss(state.theta)
            state.validation_curve.append(seen)
            if seen < self._least or state.best is None:
                state.best = state.theta.copy()
        improved = seen < self._least - (watch.tol or 0.0)
        self._waited = 0 if improved else self._waited + 1
        self._least = min(self._least, seen)
        if self._waited >= watch.patience:
            state.converged = self.is_closed = True


def _warn_of_divergence(t, gamma):
    warnings.warn(
        f"The objective overflowed in epoch {t} with a step of eta0={gamma:.3g} per row: the "
        "coefficients of the epoch before are kept. Use a smaller eta0, scale the features, or "
        "use learning_rate='auto'.",
        ConvergenceWarning,
        stacklevel=5,
    )
