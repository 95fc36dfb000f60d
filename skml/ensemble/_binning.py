"""Edges of the bins of the histogram engine, from observed values only."""

import numpy as np
from joblib import Parallel, delayed

__all__ = ["bin_edges"]

# More rows move a quantile by less than the width of a bin.
ROWS_FOR_EDGES = 200_000
# Values closer than this count as equal, as in the presorted engine and in scikit-learn.
SAME_VALUE = np.float32(1e-7)


def bin_edges(X, mask, sample_weight, max_bins, *, seed, n_threads=1):
    """Cut each column between observed values, into bins of about equal weight.

    A column with at most `max_bins` distinct observed values gets a bin for each of them, with
    the thresholds that the presorted engine would try at the root.

    Parameters
    ----------
    X : float ndarray of shape (n_samples, n_features)
        Values before imputation.
    mask : ndarray of shape (n_samples, n_features), dtype bool, or None
        Missing cells; they take no part.
    sample_weight : float64 ndarray of shape (n_samples,) or None
    max_bins : int
        Greatest number of bins, at most 255.
    seed : int
        Draws the rows if there are more than 200 000.
    n_threads : int
        Columns are sorted by so many threads.

    Returns
    -------
    edges : list of n_features float64 ndarrays
        Ascending cuts; a value x is in the bin whose number is that of the cuts below x.
    """
    if len(X) > ROWS_FOR_EDGES:
        rng = np.random.default_rng(seed)
        rows = np.sort(rng.choice(len(X), ROWS_FOR_EDGES, replace=False, shuffle=False))
        X = X[rows]
        mask = None if mask is None else mask[rows]
        sample_weight = None if sample_weight is None else sample_weight[rows]
    # Sorting releases the GIL.
    return Parallel(n_jobs=n_threads, require="sharedmem")(
        delayed(_edges_of_column)(
            X[:, j], None if mask is None else mask[:, j], sample_weight, max_bins
        )
        for j in range(X.shape[1])
    )


def _edges_of_column(values, missing, weight, max_bins):
    if missing is not None:
        values = values[~missing]
        weight = None if weight is None else weight[~missing]
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
    if weight is None:
        values.sort()
        cumulated = None
    else:
        order = np.argsort(values, kind="stable")
        values, cumulated = values[order], np.cumsum(weight[order])
    # Position of the last row of each distinct value, except the greatest.
    last = np.flatnonzero(values[1:] > values[:-1] + SAME_VALUE)
    if len(last) >= max_bins:
        cut = np.arange(1, max_bins)
        if cumulated is None:
            # In whole numbers: a share that is rounded up would move a cut past a row.
            at = (cut * len(values) - 1) // max_bins
        else:
            # Rounding in the sums must not do so either.
            at = np.searchsorted(cumulated, cut / max_bins * cumulated[-1] * (1 - 1e-12))
        # The value that holds the quantile goes to the left of the cut.
        last = last[np.unique(np.minimum(np.searchsorted(last, at), len(last) - 1))]
    low, high = values[last].astype(np.float64), values[last + 1].astype(np.float64)
    middle = low / 2 + high / 2
    return np.where(middle == high, low, middle)
