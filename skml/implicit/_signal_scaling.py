"""Coordinates mapped to [-1, 1] and values mapped to [0, 1], as the networks are made for."""

import numpy as np


def coordinate_map(X):
    """Find the map of each coordinate to [-1, 1].

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Coordinates.

    Returns
    -------
    smallest, scale : ndarray of shape (n_features,)
        Smallest coordinates, and the factors by which the distance from them is multiplied: 0
        where all are equal.

    Raises
    ------
    ValueError
        If float64 does not hold the range of a coordinate.
    """
    X = np.asarray(X, dtype=np.float64)
    smallest = X.min(axis=0)
    with np.errstate(over="ignore"):
        span = X.max(axis=0) - smallest
    if not np.isfinite(span).all():
        raise ValueError(f"X must have a range that float64 holds in each column, got {span}")
    is_constant = span < np.finfo(np.float64).tiny
    return smallest, np.where(is_constant, 0.0, 2 / np.where(is_constant, 1.0, span))


def map_coordinates(X, smallest, scale):
    """Apply the map of :func:`coordinate_map`; constant coordinates become 0."""
    X = np.asarray(X, dtype=np.float64)
    return (X - smallest) * scale - (scale > 0)


def coordinate_spans(scale):
    """Largest less smallest coordinate, from the factors of the map."""
    varies = scale > 0
    return np.where(varies, 2 / np.where(varies, scale, 1.0), 0.0)


def target_map(y):
    """Find the map of values to [0, 1], by the range over all channels.

    Parameters
    ----------
    y : ndarray
        Values, float64.

    Returns
    -------
    smallest, scale : float
        Values are smallest + scale × mapped; the scale is 1 where all are equal.

    Raises
    ------
    ValueError
        If float64 does not hold the range.
    """
    smallest = float(y.min())
    scale = float(y.max()) - smallest or 1.0
    if not np.isfinite(scale):
        raise ValueError(
            f"y must have a range that float64 holds, got values from {smallest} to {y.max()}"
        )
    return smallest, scale
