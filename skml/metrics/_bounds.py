"""Coverage and width of interval predictions."""

import numpy as np
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import _check_sample_weight


def bounds_coverage(tau, bounds, *, sample_weight=None):
    """Share of rows whose interval contains the true value.

    Parameters
    ----------
    tau : array-like of shape (n_samples,)
        True values, such as conditional treatment effects; in the unit of `bounds`.
    bounds : array-like of shape (n_samples, 2)
        Lower and upper bound of each row. The ends belong to the interval; a row whose lower
        bound exceeds its upper one covers nothing.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows.

    Returns
    -------
    float
        Weighted share of covered rows, from 0 to 1.

    Raises
    ------
    ValueError
        If `bounds` does not have two columns, or the lengths differ.

    See Also
    --------
    mean_bounds_width : How tight the intervals are.

    Examples
    --------
    >>> from skml.metrics import bounds_coverage
    >>> bounds_coverage([0.1, 0.5], [[0.0, 0.4], [0.0, 0.4]])
    0.5
    """
    bounds = _check_bounds(bounds)
    tau = column_or_1d(tau, dtype=np.float64)
    check_consistent_length(tau, bounds)
    covered = (bounds[:, 0] <= tau) & (tau <= bounds[:, 1])
    return float(np.average(covered, weights=_check_sample_weight(sample_weight, bounds)))


def mean_bounds_width(bounds, *, sample_weight=None):
    """Mean width of the intervals.

    Parameters
    ----------
    bounds : array-like of shape (n_samples, 2)
        Lower and upper bound of each row. A row whose lower bound exceeds its upper one has a
        negative width.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows.

    Returns
    -------
    float
        Weighted mean of upper minus lower bound, in the unit of `bounds`.

    Raises
    ------
    ValueError
        If `bounds` does not have two columns.

    See Also
    --------
    bounds_coverage : Whether the intervals are valid; a narrow interval alone is no merit.

    Examples
    --------
    >>> from skml.metrics import mean_bounds_width
    >>> mean_bounds_width([[0.0, 0.5], [0.0, 1.0]])
    0.75
    """
    bounds = _check_bounds(bounds)
    weight = _check_sample_weight(sample_weight, bounds)
    return float(np.average(bounds[:, 1] - bounds[:, 0], weights=weight))


def _check_bounds(bounds):
    bounds = check_array(bounds, dtype=np.float64, input_name="bounds")
    if bounds.shape[1] != 2:
        raise ValueError(
            f"bounds must have the two columns lower and upper, got shape {bounds.shape}"
        )
    return bounds
