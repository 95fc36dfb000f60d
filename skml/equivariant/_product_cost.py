"""Which of two ways to multiply is expected to be faster.

The times below are in nanoseconds, fitted to some five hundred random products of all groups on
one core in double precision. What matters are their ratios, which differ little between machines:
a call of an operator against a number moved through memory, and that against a multiplication.
"""

from typing import NamedTuple

_CALL = 7200.0  # one operator of the factorised product
_STAGE = 5300.0  # what comes with each number of blocks that go through
_CONTRACTED = 0.65  # a number read
_SPREAD = 0.51  # a number added
_CLEARED = 0.65  # a number set to zero before
_MOVED = 0.42  # a number through the mixing of channels
_MIXED = 0.075  # a floating point operation there; its matrices are small
_GATHERED = 2.7  # a weight put into its place

_DENSE_CALL = 8400.0
_DENSE_OPERATION = 0.0114
_DENSE_WEIGHT = 0.4  # an entry of the matrix read
_DENSE_MOVED = 0.08  # a number of input or output
_DENSE_BUILT = 10.0  # an entry of the matrix formed, and its gradient taken
_DENSE_PLACED = 50.0  # the same for all channels of a pair of indices

# The matrix is kept between calls; a larger one is not formed unasked.
_LARGEST_MATRIX = 2**24


class ProductCounts(NamedTuple):
    """What a factorised product does; all but the first three per sample and channel.

    Attributes
    ----------
    n_stages, n_calls, n_pairs : int
        Stages, operators, pairs of an upper and a lower half.
    read, added, cleared : int
        Numbers of the input read, and of the output added and cleared.
    moved_in, moved_out : int
        Numbers that go into and come out of the mixing of channels.
    mixed : int
        Products of a number and a weight, per pair of channels.
    """

    n_stages: int
    n_calls: int
    n_pairs: int
    read: int
    added: int
    cleared: int
    moved_in: int
    moved_out: int
    mixed: int


def count_operations(stages, n, order_out):
    """Count what a factorised product over stages does.

    Parameters
    ----------
    stages : list of Stage
        The stages.
    n, order_out : int
        Dimension of the base space, order of the output.

    Returns
    -------
    ProductCounts
        The counts.
    """
    n_calls = n_pairs = read = added = moved_in = moved_out = mixed = 0
    for stage in stages:
        size, n_upper, n_lower = n**stage.n_through, len(stage.above), len(stage.below)
        n_tables = len(stage.tables)
        if n_upper > 1 or not stage.above[0].is_identity:
            n_calls += n_upper
            read += sum(size * n ** len(half.ending) for half in stage.above)
        n_calls += 2 * n_tables + n_lower
        n_pairs += n_tables * n_upper * n_lower
        moved_in += n_tables * n_upper * size
        moved_out += n_tables * n_lower * size
        mixed += n_tables * n_upper * n_lower * size
        added += sum(size * n ** len(half.ending) for half in stage.below)
    first_fills = bool(stages) and stages[0].below[0].is_identity
    cleared = 0 if first_fills else n**order_out
    return ProductCounts(
        len(stages), n_calls, n_pairs, read, added, cleared, moved_in, moved_out, mixed
    )


def prefers_dense(product, n_samples, channels_out, channels_in, *, training):
    """Whether multiplying by the matrix is expected to be faster.

    Parameters
    ----------
    product : DiagramProduct
        The factorised product.
    n_samples, channels_out, channels_in : int
        Size of the batch, and of the weights of a diagram.
    training : bool
        Whether gradients are taken; the matrix is then formed anew each time.

    Returns
    -------
    bool
        Depends on nothing else, so that results can be repeated.
    """
    size_in = channels_in * product.n**product.order_in
    size_out = channels_out * product.n**product.order_out
    if size_in * size_out > _LARGEST_MATRIX:
        return False
    counts = product.counts
    factorised = counts.n_stages * _STAGE + counts.n_calls * _CALL
    factorised += counts.n_pairs * channels_in * channels_out * _GATHERED
    factorised += n_samples * (
        channels_in * (counts.read * _CONTRACTED + counts.moved_in * _MOVED)
        + channels_out * (counts.added * _SPREAD + counts.cleared * _CLEARED)
        + channels_out * counts.moved_out * _MOVED
        + 2 * channels_in * channels_out * counts.mixed * _MIXED
    )
    dense = _DENSE_CALL + size_in * size_out * _DENSE_WEIGHT
    dense += 2 * n_samples * size_in * size_out * _DENSE_OPERATION
    dense += n_samples * (size_in + size_out) * _DENSE_MOVED
    if training:  # a backward pass costs about twice a forward pass in both
        dense = 3 * dense + size_in * size_out * _DENSE_BUILT + 6 * _DENSE_CALL
        dense += product.n ** (product.order_in + product.order_out) * _DENSE_PLACED
        factorised *= 3
    return dense < factorised
