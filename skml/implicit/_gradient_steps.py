"""One step of training: residuals of groups, balanced by the kernel of the current network."""

import itertools
from dataclasses import dataclass

import numpy as np
import torch

from skml.utils._training import minibatches

from ._balancing import Balance, balance_kernel
from ._empirical_ntk import evaluating


@dataclass(frozen=True)
class GroupedPoints:
    """Training points in the order of their groups, the leftover points last.

    Attributes
    ----------
    inputs : torch.Tensor of shape (n_points, n_inputs)
        What the network takes, encoded as far as that needs no weights.
    coordinates : torch.Tensor of shape (n_points, n_features)
        Coordinates in [-1, 1].
    targets : torch.Tensor of shape (n_points, n_outputs)
        Values.
    n_groups, group_size : int
        The first n_groups * group_size points are in groups.
    """

    inputs: torch.Tensor
    coordinates: torch.Tensor
    targets: torch.Tensor
    n_groups: int
    group_size: int

    def __len__(self):
        return len(self.targets)

    def batch(self, group_numbers, leftovers):
        """The points of some groups and some of the leftover points (numbered from 0)."""
        members = torch.arange(self.group_size)
        grouped = (group_numbers.unsqueeze(1) * self.group_size + members).flatten()
        rows = torch.cat([grouped, self.n_groups * self.group_size + leftovers])
        rows = rows.to(self.targets.device)
        return GroupedPoints(
            self.inputs[rows],
            self.coordinates[rows],
            self.targets[rows],
            len(group_numbers),
            self.group_size,
        )


class ResidualBalancer:
    """Multiplies residuals by the balancing matrix of the network's kernel.

    Parameters
    ----------
    kernel : callable
        ``kernel(X)`` gives the kernel of the current network at coordinates X.
    n_balanced, start : int
        The eigenvalues from `start` to before `n_balanced` are balanced.
    reference : {"end", "start"}
        The eigenvalue that they become.
    sampling : {"max_residual", "centre"}
        Which point stands for a group.
    update_interval : int
        The matrix is made anew at every so many calls.

    Attributes
    ----------
    balance : Balance or None
        The current matrix; None is the identity.
    last : Balance or None
        The last matrix other than the identity.
    n_failed : int
        How often no matrix could be made, and the identity took its place.
    """

    def __init__(self, kernel, *, n_balanced, start, reference, sampling, update_interval):
        self.kernel = kernel
        self.n_balanced = n_balanced
        self.start = start
        self.reference = reference
        self.sampling = sampling
        self.update_interval = update_interval
        self.balance: Balance | None = None
        self.last: Balance | None = None
        self.n_failed = 0
        self._n_calls = 0

    def adjust(self, residual, points):
        """Replace the residuals of the grouped points by the balanced ones, in place."""
        if self.n_balanced <= self.start:
            return residual
        n_grouped = points.n_groups * points.group_size
        grouped = residual[:n_grouped].view(points.n_groups, points.group_size, -1)
        if self._n_calls % self.update_interval == 0:
            self._update(grouped, points)
        self._n_calls += 1
        if self.balance is not None:
            flat = grouped.view(points.n_groups, -1)
            flat.copy_(self.balance.apply(flat))
        return residual

    def sample(self, grouped):
        """Rows of the points that stand for the groups."""
        n_groups, group_size, _ = grouped.shape
        first = torch.arange(0, n_groups * group_size, group_size, device=grouped.device)
        if self.sampling == "centre":
            return first + group_size // 2
        return first + grouped.abs().sum(dim=2).argmax(dim=1)

    def _update(self, grouped, points):
        sampled = points.coordinates[self.sample(grouped)]
        try:
            self.balance = balance_kernel(
                self.kernel(sampled), self.n_balanced, self.start, self.reference
            )
        except (np.linalg.LinAlgError, torch.linalg.LinAlgError):
            self.balance = None
            self.n_failed += 1
        if self.balance is not None:
            self.last = self.balance


class GradientStep:
    """A callable that makes one optimiser step and returns the loss before it.

    Parameters
    ----------
    module : torch.nn.Module
        The network.
    forward : callable
        Gives the outputs for `GroupedPoints.inputs`.
    points : GroupedPoints
        All training points.
    balancer : ResidualBalancer or None
        None trains by the plain gradient.
    optimizer : torch.optim.Optimizer
        Gets the adjusted gradient, before its own moments.
    schedule : torch.optim.lr_scheduler.LRScheduler
        Steps with the optimiser.
    batch_groups : int or None
        Groups in a batch; None: all.
    generator : torch.Generator
        Draws the batches.
    """

    def __init__(
        self, module, forward, points, *, balancer, optimizer, schedule, batch_groups, generator
    ):
        self.module = module
        self.forward = forward
        self.points = points
        self.balancer = balancer
        self.optimizer = optimizer
        self.schedule = schedule
        full = batch_groups is None or batch_groups >= points.n_groups
        if not full and balancer is not None:
            balancer.update_interval = 1  # a matrix belongs to the groups that it was made from
        self.steps_per_epoch = 1 if full else -(-points.n_groups // batch_groups)
        self._batches = (
            itertools.repeat(points) if full else self._random_batches(batch_groups, generator)
        )

    def __call__(self, iteration):
        points = next(self._batches)
        outputs = self.forward(points.inputs)
        residual = outputs.detach() - points.targets
        loss = residual.square().mean()
        if self.balancer is not None:
            residual = self.balancer.adjust(residual, points)
        self.optimizer.zero_grad()
        outputs.backward(residual.mul_(2 / residual.numel()))
        self.optimizer.step()
        self.schedule.step()
        return loss

    @torch.no_grad()
    def full_loss(self, batch_size=2**15):
        """Mean squared error over all points at the current weights."""
        inputs, targets = (
            self.points.inputs.split(batch_size),
            self.points.targets.split(batch_size),
        )
        with evaluating(self.module):
            total = sum(
                (self.forward(x) - y).square().sum().double()
                for x, y in zip(inputs, targets, strict=True)
            )
        return total / self.points.targets.numel()

    def _random_batches(self, batch_groups, generator):
        n_groups = self.points.n_groups
        n_left = len(self.points) - n_groups * self.points.group_size
        while True:
            # Leftover points are spread over the batches: each counts once in an epoch, too.
            leftovers = torch.randperm(n_left, generator=generator)
            shares = leftovers.tensor_split(self.steps_per_epoch)
            for numbers, share in zip(
                minibatches(n_groups, batch_groups, generator), shares, strict=True
            ):
                yield self.points.batch(numbers, share)
