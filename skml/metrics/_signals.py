"""How well a signal or a shape is reconstructed."""

import math

import numpy as np


def peak_signal_noise_ratio(y_true, y_pred, *, data_range=None):
    """Peak signal-to-noise ratio of a reconstruction.

    Parameters
    ----------
    y_true : array-like of any shape
        The signal: an image, a volume, rows of values.
    y_pred : array-like of the same shape
        The reconstruction.
    data_range : float or None, default=None
        Distance between the smallest and the largest possible value. None, as in scikit-image:
        that of the integer type of `y_true`; for floats 1 if all of `y_true` lies in [0, 1], and
        2 if it lies in [-1, 1].

    Returns
    -------
    float
        In dB; infinite for a perfect reconstruction.

    Raises
    ------
    ValueError
        If the shapes differ, a value is not finite, or `data_range` is None and `y_true` is a
        float array beyond [-1, 1].

    See Also
    --------
    intersection_over_union : For shapes.

    Notes
    -----
    10 log10(R² / MSE), with R the range and MSE the mean squared error over all values.

    Examples
    --------
    >>> from skml.metrics import peak_signal_noise_ratio
    >>> peak_signal_noise_ratio([0.0, 1.0], [0.1, 0.9])
    20.0
    """
    y_true, y_pred = _checked_pair(y_true, y_pred)
    if data_range is None:
        data_range = _range_of_type(y_true)
    elif not data_range > 0:
        raise ValueError(f"data_range must be positive, got {data_range!r}")
    mean_squared_error = np.mean((y_true.astype(np.float64) - y_pred.astype(np.float64)) ** 2)
    if mean_squared_error == 0:
        return math.inf
    return float(10 * np.log10(data_range**2 / mean_squared_error))


def intersection_over_union(y_true, y_pred, *, threshold=0.5):
    """Overlap of two shapes that are given by their occupancy.

    Parameters
    ----------
    y_true : array-like of any shape
        Occupancy of the true shape: booleans, or numbers that are at least `threshold` inside.
    y_pred : array-like of the same shape
        Occupancy of the other shape.
    threshold : float, default=0.5
        Where the inside begins.

    Returns
    -------
    float
        Points inside both over points inside either, from 0 to 1; 1 if both are empty.

    Raises
    ------
    ValueError
        If the shapes of the arrays differ, or a value is not finite.

    See Also
    --------
    peak_signal_noise_ratio : For signals.
    sklearn.metrics.jaccard_score : The same ratio for labels.

    Examples
    --------
    >>> from skml.metrics import intersection_over_union
    >>> intersection_over_union([1, 1, 1, 0], [0.9, 0.6, 0.2, 0.1])
    0.6666666666666666
    """
    y_true, y_pred = _checked_pair(y_true, y_pred)
    inside_true, inside_pred = y_true >= threshold, y_pred >= threshold
    union = np.count_nonzero(inside_true | inside_pred)
    return float(np.count_nonzero(inside_true & inside_pred) / union) if union else 1.0


def _checked_pair(y_true, y_pred):
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    if y_true.shape != y_pred.shape or y_true.size == 0:
        raise ValueError(
            "y_true and y_pred must have one shape and hold values, got the shapes "
            f"{y_true.shape} and {y_pred.shape}"
        )
    for name, values in (("y_true", y_true), ("y_pred", y_pred)):
        if values.dtype.kind not in "biuf":
            raise ValueError(f"{name} must hold numbers or booleans, got dtype {values.dtype}")
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise ValueError(f"{name} must be finite, but it holds NaN or infinity")
    return y_true, y_pred


def _range_of_type(y_true):
    if y_true.dtype.kind == "b":
        return 1.0
    if y_true.dtype.kind in "iu":
        limits = np.iinfo(y_true.dtype)
        return float(limits.max) - float(limits.min)
    low, high = y_true.min(), y_true.max()
    if low < -1 or high > 1:
        raise ValueError(
            f"data_range must be given for values from {low:.4g} to {high:.4g}; only within "
            "[-1, 1] is it taken for granted"
        )
    return 1.0 if low >= 0 else 2.0
