"""The shape of tensors that lie in the columns of X and y."""

import numpy as np


def infer_dimension(n_features, order, n_channels, *, order_name, channels_name):
    """Find n such that n_features = n_channels * n**order.

    Parameters
    ----------
    n_features : int
        Number of columns of X.
    order, n_channels : int
        Order of the tensors, at least 1, and number of channels.
    order_name, channels_name : str
        How the parameters are called, for the message; an empty name is left out.

    Returns
    -------
    int
        The dimension n.

    Raises
    ------
    ValueError
        If there is none; the message names the nearest numbers of columns that would do.
    """
    n = max(round((n_features / n_channels) ** (1 / order)), 1)
    if n_channels * n**order == n_features:
        return n
    while n_channels * n**order > n_features and n > 1:
        n -= 1
    nearest = [f"{n_channels * size**order} (n={size})" for size in (n, n + 1)]
    given = f"{order_name}={order}"
    if channels_name:
        given += f" and {channels_name}={n_channels}"
    raise ValueError(
        f"X has {n_features} features; with {given} it must have {n_channels} * n**{order} for an "
        f"int n. The nearest valid numbers are {' and '.join(nearest)}."
    )


def invariant_part(mean, invariants):
    """Project tensors onto the span of the invariant ones.

    Parameters
    ----------
    mean : ndarray of shape (n_channels, n**k)
        The tensors.
    invariants : ndarray of shape (n_invariants, n**k)
        A basis of the invariant tensors; there may be none.

    Returns
    -------
    ndarray of shape (n_channels, n**k)
        The projections.
    """
    if not len(invariants):
        return np.zeros_like(mean)
    # Orthonormal rows, so that the projection is well conditioned whatever n.
    q, _ = np.linalg.qr(invariants.T)
    return (mean @ q) @ q.T


def invariant_location_scale(tensors, invariants, sample_weight=None):
    """Find the offset and the scale by which tensors can be standardised equivariantly.

    Parameters
    ----------
    tensors : ndarray of shape (n_samples, n_channels, n**k)
        The tensors.
    invariants : ndarray of shape (n_invariants, n**k)
        A basis of the invariant tensors.
    sample_weight : ndarray of shape (n_samples,) or None
        Weights.

    Returns
    -------
    offset : ndarray of shape (n_channels, n**k)
        Invariant part of the mean.
    scale : ndarray of shape (n_channels,)
        Root of the mean square of what is left, one number for all entries; 1 where it is zero.
    """
    # In units of the largest entry, whose square neither overflows nor vanishes. The units are
    # powers of two, so that they do not round.
    _, exponent = np.frexp(np.abs(tensors).max(axis=(0, 2)))
    unit = np.ldexp(np.ones(1, dtype=tensors.dtype), exponent - 1)
    tensors = tensors / unit[:, None]
    mean = np.average(tensors, axis=0, weights=sample_weight)
    offset = invariant_part(mean, invariants)
    squares = np.mean((tensors - offset) ** 2, axis=2)
    scale = np.sqrt(np.average(squares, axis=0, weights=sample_weight))
    size = np.abs(offset).max(axis=1, initial=0.0)
    is_constant = scale <= 10 * np.finfo(tensors.dtype).eps * size
    return offset * unit[:, None], np.where(is_constant | (scale == 0), 1.0, scale * unit)
