"""Products with diagrams that never form a matrix of n**(k + l) entries.

A diagram is done in three steps: *contract* sums over the upper blocks that end there and takes
the diagonal of those that go through; the blocks that go through are *permuted*; *spread* writes
onto the diagonals of the lower blocks and broadcasts over those that begin there. With a stride
for each block, the sum of the strides of its axes, contract is one strided sum and spread one
strided addition.

Diagrams share these steps. All with the same upper half are contracted once, all with the same
lower half are spread once, and in between, where tensors have as many indices as blocks go
through, one matrix product mixes channels and halves at the same time.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from ._product_cost import count_operations


@dataclass(frozen=True)
class Half:
    """Upper or lower half of a diagram.

    Attributes
    ----------
    through : tuple of tuple of int
        The axes of each block that goes through, ordered by their first axis.
    ending : tuple of tuple of int
        The axes of each block that does not.
    """

    through: tuple
    ending: tuple

    def geometry(self, n):
        """Where the half lies in a tensor of C order over n points."""
        order = sum(map(len, self.through + self.ending))
        through, ending = (
            tuple(sum(n ** (order - 1 - axis) for axis in block) for block in blocks)
            for blocks in (self.through, self.ending)
        )
        return Geometry(through, ending, not ending and len(through) == order)


class Geometry(NamedTuple):
    """Where a half lies in a tensor over n points.

    Attributes
    ----------
    through, ending : tuple of int
        Strides of the blocks that go through, and of the others.
    is_identity : bool
        Whether each axis is a block that goes through.
    """

    through: tuple
    ending: tuple
    is_identity: bool


@dataclass
class Stage:
    """The diagrams in which t blocks go through.

    Attributes
    ----------
    n_through : int
        The number t.
    upper, lower : dict of Half to int
        The different halves, numbered.
    members : dict of tuple to list of (int, int, int)
        For each order in which the blocks arrive, the triples (lower half, upper half, diagram).
    tables : dict of tuple to torch.Tensor of int64
        The same as a table of shape (n_lower, n_upper) of diagrams, where there is none their
        total number.
    above, below : list of Geometry
        Where the upper and the lower halves lie.
    """

    n_through: int
    upper: dict = field(default_factory=dict)
    lower: dict = field(default_factory=dict)
    members: dict = field(default_factory=dict)
    tables: dict = field(default_factory=dict)
    above: list = field(default_factory=list)
    below: list = field(default_factory=list)


class DiagramProduct:
    """Weighted sum of diagrams, for fixed diagrams and any weights.

    Parameters
    ----------
    labels : ndarray of shape (n_diagrams, order_in + order_out)
        Labels of the partitions.
    n : int
        Dimension of the base space.
    order_in : int
        Number of upper points.
    """

    def __init__(self, labels, n, order_in):
        self.n, self.order_in = n, order_in
        self.n_diagrams, n_points = labels.shape
        self.order_out = n_points - order_in
        stages = {}
        for number, row in enumerate(labels.tolist()):
            upper, lower, arrival = split_diagram(row, order_in)
            stage = stages.setdefault(len(arrival), Stage(len(arrival)))
            triple = (
                stage.lower.setdefault(lower, len(stage.lower)),
                stage.upper.setdefault(upper, len(stage.upper)),
                number,
            )
            stage.members.setdefault(arrival, []).append(triple)
        # The largest tensors first: what they write needs no addition.
        self.stages = [stages[t] for t in sorted(stages, reverse=True)]
        for stage in self.stages:
            stage.above = [half.geometry(n) for half in stage.upper]
            stage.below = [half.geometry(n) for half in stage.lower]
            for arrival, members in stage.members.items():
                table = torch.full(
                    (len(stage.lower), len(stage.upper)), self.n_diagrams, dtype=torch.int64
                )
                for lower, upper, number in members:
                    table[lower, upper] = number
                stage.tables[arrival] = table
        self.counts = count_operations(self.stages, n, self.order_out)

    def __call__(self, x, weight):
        """Apply the sum of diagrams.

        Parameters
        ----------
        x : torch.Tensor of shape (n_samples, channels_in, n**order_in)
            The tensors.
        weight : torch.Tensor of shape (n_diagrams, channels_out, channels_in)
            The weights.

        Returns
        -------
        torch.Tensor of shape (n_samples, channels_out, n**order_out)
            The sum over diagrams and input channels.
        """
        n_samples, channels_in = x.shape[:2]
        channels_out = weight.shape[1]
        padded = torch.cat([weight, weight.new_zeros(1, channels_out, channels_in)])
        mixed = []
        for stage in self.stages:
            contracted = contract(x, stage.above, self.n)
            mixed.append(self._mix(stage, contracted, padded, n_samples))
            del contracted
        below = [stage.below for stage in self.stages]
        return spread(mixed, below, self.n, (n_samples, channels_out, self.n**self.order_out))

    def _mix(self, stage, contracted, padded, n_samples):
        """Combine contracted tensors (upper, channel, sample, index) into (lower, ...)."""
        t, n_upper, n_lower = stage.n_through, len(stage.upper), len(stage.lower)
        channels_out, channels_in = padded.shape[1:]
        total = None
        for arrival, table in stage.tables.items():
            table = table.to(padded.device)
            matrix = padded[table].permute(0, 2, 1, 3)
            matrix = matrix.reshape(n_lower * channels_out, n_upper * channels_in)
            tensors = contracted
            if arrival != tuple(range(t)):
                shaped = contracted.reshape(n_upper * channels_in, n_samples, *[self.n] * t)
                tensors = shaped.permute(0, 1, *[2 + axis for axis in arrival])
            tensors = tensors.reshape(n_upper * channels_in, n_samples * self.n**t)
            total = matrix @ tensors if total is None else _add_product(total, matrix, tensors)
        return total.view(n_lower, channels_out, n_samples, self.n**t)


def split_diagram(row, order_in):
    """Split a diagram into its halves.

    Parameters
    ----------
    row : list of int
        Labels.
    order_in : int
        Number of upper points.

    Returns
    -------
    upper, lower : Half
        The halves.
    arrival : tuple of int
        For each block that goes through, in the order of the lower half, its number in the order
        of the upper half.
    """
    above, below = row[:order_in], row[order_in:]
    both = set(above) & set(below)
    from_above = [label for label in dict.fromkeys(above) if label in both]
    from_below = [label for label in dict.fromkeys(below) if label in both]
    arrival = tuple(from_above.index(label) for label in from_below)
    return _half(above, both), _half(below, both), arrival


def contract(x, halves, n):
    """Contract tensors by several upper halves with equally many blocks that go through.

    Parameters
    ----------
    x : torch.Tensor of shape (n_samples, channels, n**k)
        The tensors.
    halves : list of Geometry
        The halves.
    n : int
        Dimension of the base space.

    Returns
    -------
    torch.Tensor of shape (n_halves, channels, n_samples, n**t)
        The contracted tensors.
    """
    if len(halves) == 1 and halves[0].is_identity:
        return x.transpose(0, 1)[None]
    return _Contract.apply(x, halves, n)


def spread(tensors, halves, n, shape):
    """Add tensors onto the diagonals that lower halves describe.

    Parameters
    ----------
    tensors : list of torch.Tensor of shape (n_halves, channels, n_samples, n**t)
        The tensors of each stage.
    halves : list of list of Geometry
        The halves of each stage.
    n : int
        Dimension of the base space.
    shape : tuple of (int, int, int)
        Number of samples and channels, and n**l.

    Returns
    -------
    torch.Tensor of shape (n_samples, channels, n**l)
        The sum.
    """
    if [len(stage) for stage in halves] == [1] and halves[0][0].is_identity:
        return tensors[0][0].transpose(0, 1)
    return _Spread.apply(halves, n, shape, *tensors)


class _Contract(torch.autograd.Function):
    """Contraction; its adjoint spreads."""

    @staticmethod
    def forward(ctx, x, halves, n):
        ctx.halves, ctx.n, ctx.shape = halves, n, x.shape
        x = x.contiguous()
        n_samples, channels, size = x.shape
        result = x.new_empty(len(halves), channels, n_samples, n ** len(halves[0].through))
        for (through, ending, _), target in zip(halves, result.unbind(), strict=True):
            view = x.as_strided(
                (channels, n_samples, *[n] * (len(through) + len(ending))),
                (size, channels * size, *through, *ending),
                x.storage_offset(),
            )
            target = target.view(channels, n_samples, *[n] * len(through))
            if ending:
                axes = tuple(range(2 + len(through), view.ndim))
                torch.sum(view, dim=axes, out=target)
            else:
                target.copy_(view)
        return result

    @staticmethod
    def backward(ctx, grad):
        return _Spread.apply([ctx.halves], ctx.n, ctx.shape, grad), None, None


class _Spread(torch.autograd.Function):
    """Addition onto diagonals; its adjoint contracts."""

    @staticmethod
    def forward(ctx, halves, n, shape, *tensors):
        ctx.halves, ctx.n = halves, n
        n_samples, channels, size = shape
        result = None
        for stage, stacked in zip(halves, tensors, strict=True):
            for (through, ending, fills), source in zip(stage, stacked.unbind(), strict=True):
                source = source.view(channels, n_samples, *[n] * len(through), *[1] * len(ending))
                if result is None:
                    make = stacked.new_empty if fills else stacked.new_zeros
                    result = make(shape)
                    write = torch.Tensor.copy_ if fills else torch.Tensor.add_
                else:
                    write = torch.Tensor.add_
                view = result.as_strided(
                    (channels, n_samples, *[n] * (len(through) + len(ending))),
                    (size, channels * size, *through, *ending),
                )
                write(view, source)
        return result

    @staticmethod
    def backward(ctx, grad):
        grads = [_Contract.apply(grad, stage, ctx.n) for stage in ctx.halves]
        return None, None, None, *grads


def _add_product(total, matrix, tensors):
    if torch.is_grad_enabled() and (matrix.requires_grad or tensors.requires_grad):
        return torch.addmm(total, matrix, tensors)
    return total.addmm_(matrix, tensors)


def _half(labels, through):
    axes = {}
    for axis, label in enumerate(labels):
        axes.setdefault(label, []).append(axis)
    blocks = {label: tuple(block) for label, block in axes.items()}
    return Half(
        tuple(block for label, block in blocks.items() if label in through),
        tuple(block for label, block in blocks.items() if label not in through),
    )
