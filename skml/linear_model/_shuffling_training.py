"""The epochs of a fit: steps, rejection, divergence, stopping, averaging."""

import warnings
from dataclasses import dataclass, field
from math import inf, isfinite

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skml.linear_model._shuffling_steps import AutoStep, TheoryStep

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
    value = reference = state.start = problem.objective(state.theta)
    least, waited = inf, 0
    for _ in range(n_epochs):
        t = state.epoch + 1
        if isinstance(rule, TheoryStep):
            rule.observe(problem, state.theta)
        gamma = rule.gamma(t, problem.n_batches)
        before = state.theta.copy()
        problem.epoch(state.theta, orders(t), gamma)
        reached = problem.objective(state.theta)
        finite = isfinite(reached) and bool(np.all(np.isfinite(state.theta)))
        rejected = isinstance(rule, AutoStep) and not (finite and reached <= reference)
        if rejected:
            state.theta = before
            state.n_rejected += 1
            rule.reject()
        elif not finite:
            state.theta, state.epoch = before, t
            state.diverged = True
            _warn_of_divergence(t, gamma)
            break
        else:
            value = reached
        state.epoch = t
        state.curve.append(value)
        state.steps.append(gamma)
        if not rejected:
            state.add_to_mean()
        if verbose:
            print(f"epoch {t}: objective {value:.6g}, step {gamma:.3g}" + " rejected" * rejected)
        if watch is None:
            continue
        seen = value
        if watch.validation is not None:
            seen = watch.validation.data_loss(state.theta)
            state.validation_curve.append(seen)
            if seen < least or state.best is None:
                state.best = state.theta.copy()
        waited = waited + 1 if not seen < least - (watch.tol or 0.0) else 0
        least = min(least, seen)
        if waited >= watch.patience:
            state.converged = True
            break


def _warn_of_divergence(t, gamma):
    warnings.warn(
        f"The objective overflowed in epoch {t} with a step of eta0={gamma:.3g} per row: the "
        "coefficients of the epoch before are kept. Use a smaller eta0, scale the features, or "
        "use learning_rate='auto'.",
        ConvergenceWarning,
        stacklevel=4,
    )
