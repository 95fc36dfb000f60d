"""Uniform grids: scale and zero point of each group of inputs in each row."""

from numbers import Integral

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ._weights import UniformWeight

GRID_CONSTRAINTS = {
    "group_size": [Interval(Integral, 1, None, closed="left"), None],
    "symmetric": ["boolean"],
    "zero_point": [StrOptions({"integer", "real"})],
}


def uniform_grid(W, bits, *, symmetric=False, zero_point="integer"):
    """Fit a grid to each row.

    Parameters
    ----------
    W : ndarray of shape (n_rows, n)
        Weights.
    bits : int
        The grid has 2^bits levels.
    symmetric : bool
        Whether the range is made symmetric about 0.
    zero_point : {"integer", "real"}
        "integer": 0 lies in the range and is a level. "real": the range is that of the
        weights, and its ends are levels.

    Returns
    -------
    scale, zero : ndarray of shape (n_rows,)
        Level q stands for ``scale * (q - zero)``. A constant row has scale 1 and is a level.
    """
    top = 2**bits - 1
    low, high = W.min(axis=1), W.max(axis=1)
    constant, value = low == high, low
    if zero_point == "integer":
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    if symmetric:
        high = np.maximum(np.abs(low), np.abs(high))
        low = -high
    # Halves first: the difference of two large numbers of opposite sign may overflow.
    scale = (high / 2 - low / 2) / top * 2
    constant |= scale == 0
    scale = np.where(constant, 1, scale).astype(W.dtype)
    if zero_point == "real":
        zero = -low / scale
    elif symmetric:
        zero = np.full_like(scale, 2 ** (bits - 1))
    else:
        zero = np.rint(-low / scale)
    return scale, np.where(constant, -value, zero).astype(W.dtype)


def grid_codes(W, scale, zero, bits):
    """Codes of the nearest levels.

    Parameters
    ----------
    W : ndarray of shape (n_rows, n)
        Weights.
    scale, zero : ndarray broadcastable to the shape of W
        Grids.
    bits : int
        Bits of a code.

    Returns
    -------
    ndarray of shape (n_rows, n), dtype uint8
        The codes.
    """
    return np.clip(np.rint(W / scale + zero), 0, 2**bits - 1).astype(np.uint8)


def group_grids(W, bits, *, group_size, symmetric, zero_point):
    """Fit a grid to each group of neighbouring inputs in each row.

    Returns
    -------
    scale, zero : ndarray of shape (n_rows, n_groups)
        The grids.
    """
    size = W.shape[1] if group_size is None else group_size
    grids = [
        uniform_grid(W[:, start : start + size], bits, symmetric=symmetric, zero_point=zero_point)
        for start in range(0, W.shape[1], size)
    ]
    scale, zero = zip(*grids, strict=True)
    return np.column_stack(scale), np.column_stack(zero)


def group_of_columns(n, group_size):
    """Group of each of n columns."""
    return np.arange(n) // (n if group_size is None else group_size)


def pack_uniform(codes, bits, scale, zero, group_size):
    """Make the packed weight; a group that spans the row is no group."""
    if group_size is not None and group_size >= codes.shape[1]:
        group_size = None
    return UniformWeight.from_codes(codes, bits, scale, zero, group_size=group_size)
