"""Tables to start from, one row of ascending values for each row of weights.

Rows come with the weights that stay out of the table (outliers) as NaN.
"""

import numpy as np

from ._kmeans1d import cluster_rows

# Codes per quarter of the range of a row, for 4 bits.
_QUARTERS = {False: (3, 5, 5, 3), True: (2, 6, 6, 2)}
# Quantiles of a row, for 3 bits.
_QUANTILES = np.concatenate(
    [[0.0, 0.2], 0.2 + 0.6 * np.arange(1, 5) / 4, 0.8 + 0.2 * np.arange(1, 3) / 2]
)


def initial_codebook(rows, bits, init, *, has_outliers=False, n_threads=1):
    """Make the table that the alternation starts from.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n)
        Weights; NaN is left out.
    bits : int
        The table has 2^bits entries.
    init : {"auto", "paper", "kmeans", "uniform"}
        "auto" is "paper" for 3 and 4 bits and "kmeans" for others.
    has_outliers : bool
        Whether the tails of the rows were split off.
    n_threads : int
        Threads of the k-means.

    Returns
    -------
    ndarray of shape (n_rows, 2^bits), dtype float64
        Ascending entries; zeros for a row without weights.
    """
    rows = np.asarray(rows, dtype=np.float64)
    if init == "auto":
        init = "paper" if bits in (3, 4) else "kmeans"
    if init == "kmeans":
        return kmeans_codebook(rows, 2**bits, n_threads=n_threads)
    ordered = np.sort(rows, axis=1)  # NaN comes last
    counts = np.count_nonzero(~np.isnan(rows), axis=1)
    if init == "paper" and bits == 3:
        table = order_statistics(ordered, counts, _QUANTILES)
    elif init == "paper":
        table = _quartered_range(ordered, counts, _QUARTERS[has_outliers])
    else:
        ends = order_statistics(ordered, counts, [0.0, 1.0])
        table = ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * np.linspace(0, 1, 2**bits)
    return table


def _quartered_range(ordered, counts, codes_per_quarter):
    ends = order_statistics(ordered, counts, [0.0, 1.0])
    places = np.concatenate(
        [
            np.linspace(quarter / 4, (quarter + 1) / 4, n_codes)
            for quarter, n_codes in enumerate(codes_per_quarter)
        ]
    )
    return ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * places


def order_statistics(ordered, counts, fractions):
    """Quantiles of rows of different length by linear interpolation.

    Parameters
    ----------
    ordered : ndarray of shape (n_rows, n)
        Each row ascending, NaN behind the first `counts` values.
    counts : ndarray of shape (n_rows,), dtype int
        Number of values of each row.
    fractions : array-like of shape (n_fractions,)
        Which quantiles, from 0 to 1.

    Returns
    -------
    ndarray of shape (n_rows, n_fractions)
        The quantiles; 0 for an empty row.
    """
    places = np.maximum(counts[:, None] - 1, 0) * np.asarray(fractions, dtype=np.float64)
    below = np.floor(places).astype(np.intp)
    above = np.minimum(below + 1, np.maximum(counts[:, None] - 1, 0))
    low = np.take_along_axis(ordered, below, axis=1)
    high = np.take_along_axis(ordered, above, axis=1)
    return np.where(counts[:, None] > 0, low + (places - below) * (high - low), 0.0)


def kmeans_codebook(rows, n_codes, weights=None, *, n_threads=1):
    """Centres of the exact weighted k-means of every row.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n), dtype float64
        Values; NaN is left out.
    n_codes : int
        Number of clusters.
    weights : ndarray of shape (n_rows, n) or (n,) or None, default=None
        Weights of the values, at least 0; None, or a row of zeros, means ones.
    n_threads : int
        Threads; each does whole rows.

    Returns
    -------
    ndarray of shape (n_rows, n_codes), dtype float64
        Ascending centres. A row of at most n_codes distinct values gets exactly these.
    """
    values = np.full(rows.shape, np.nan)
    masses = np.zeros(rows.shape)
    lengths = np.zeros(len(rows), dtype=np.int32)
    for i, row in enumerate(rows):
        live = ~np.isnan(row)
        mass = np.ones(live.sum())
        if weights is not None:
            given = (weights if weights.ndim == 1 else weights[i])[live]
            mass = given if given.any() else mass
        distinct, which = np.unique(row[live], return_inverse=True)
        lengths[i] = len(distinct)
        values[i, : len(distinct)] = distinct
        masses[i, : len(distinct)] = np.bincount(which, weights=mass, minlength=len(distinct))
    centres = np.zeros((len(rows), n_codes))
    cluster_rows(values, masses, lengths, centres, n_threads=n_threads)
    return centres


def sort_codebook(table, codes):
    """Put every table into ascending order and rename the codes accordingly.

    Parameters
    ----------
    table : ndarray of shape (n_rows, n_codes)
        Tables in any order.
    codes : ndarray of shape (n_rows, n), dtype uint16
        Codes into them.

    Returns
    -------
    table : ndarray of shape (n_rows, n_codes)
        Ascending tables.
    codes : ndarray of shape (n_rows, n)
        The new codes of the same values.
    """
    order = np.argsort(table, axis=1, kind="stable")
    place = np.argsort(order, axis=1, kind="stable").astype(codes.dtype)
    return np.take_along_axis(table, order, axis=1), np.take_along_axis(place, codes, axis=1)


def thresholds(table):
    """What tells in which entry of an ascending table a value is rounded.

    Parameters
    ----------
    table : ndarray of shape (n_rows, n_codes)
        Ascending entries; some may coincide.

    Returns
    -------
    limits : ndarray of shape (n_rows, n_codes)
        Midpoints between neighbouring distinct entries, ascending, infinity behind them.
    first : ndarray of shape (n_rows, n_codes + 1), dtype uint16
        ``first[i, c]`` is the lowest code of the entry above c of the limits. A value on a
        limit goes to the lower entry, and of equal entries the lowest code is used.
    """
    n_rows, n_codes = table.shape
    rises = np.ones(table.shape, dtype=bool)
    rises[:, 1:] = table[:, 1:] > table[:, :-1]
    # Lowest codes of the distinct entries, moved to the front.
    first = np.argsort(~rises, axis=1, kind="stable")
    n_distinct = rises.sum(axis=1)
    entry = np.take_along_axis(table, first, axis=1)
    limits = np.full(table.shape, np.inf, dtype=table.dtype)
    limits[:, :-1] = entry[:, :-1] + (entry[:, 1:] - entry[:, :-1]) / 2
    limits[np.arange(n_codes) >= n_distinct[:, None] - 1] = np.inf
    first = np.concatenate([first, np.zeros((n_rows, 1), dtype=first.dtype)], axis=1)
    return limits, first.astype(np.uint16)


def nearest_codes(table, values):
    """Code of the nearest entry of an ascending table for each value, row by row."""
    limits, first = thresholds(table)
    codes = np.empty(values.shape, dtype=np.uint16)
    for i, row in enumerate(values):
        codes[i] = first[i, np.searchsorted(limits[i], row, side="left")]
    return codes
