"""Which cells of a table are missing, whatever kind of table it is."""

import numpy as np
from scipy import sparse

from ._missing import check_missing_mask


def is_missing(values):
    """Mark the missing values of an array.

    Parameters
    ----------
    values : ndarray
        Array of any shape and dtype. NaN, NaT, None and `pandas.NA` are missing.

    Returns
    -------
    ndarray of bool
        Array of the same shape.
    """
    if values.dtype.kind in "fc":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind == "O":
        return np.frompyfunc(_is_missing_scalar, 1, 1)(values).astype(bool)
    return np.zeros(values.shape, dtype=bool)


def missing_cells(X):
    """Mark the missing cells of a table.

    Parameters
    ----------
    X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
        The table. In a sparse matrix stored NaN are missing and implicit zeros observed.

    Returns
    -------
    ndarray of shape (n_samples, n_features), dtype bool
        True where a cell is missing.
    """
    if sparse.issparse(X):
        stored = X.tocoo()
        cells = np.zeros(X.shape, dtype=bool)
        missing = is_missing(stored.data)
        cells[stored.row[missing], stored.col[missing]] = True
        return cells
    if hasattr(X, "isna") and hasattr(X, "iloc"):
        return X.isna().to_numpy(dtype=bool)
    if not isinstance(X, np.ndarray):
        # Lists that mix numbers, strings and None keep their elements as objects.
        X = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X, dtype=object)
    if X.ndim != 2:
        raise ValueError(f"X must be a 2-D table, got an array with {X.ndim} dimension(s)")
    return is_missing(X)


def combine_missing_mask(X, missing_mask):
    """Mark the cells that are missing in X or said to be missing by a mask.

    Parameters
    ----------
    X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
        The table.
    missing_mask : array-like of shape (n_samples, n_features) or None
        Booleans, or zeros and ones; True: the cell of `X` was filled in.

    Returns
    -------
    ndarray of shape (n_samples, n_features), dtype bool
        True where a cell is missing.

    Raises
    ------
    ValueError
        If `missing_mask` has another shape than `X` or other values than 0 and 1.
    """
    cells = missing_cells(X)
    if missing_mask is None:
        return cells
    return cells | check_missing_mask(missing_mask, cells)


def _is_missing_scalar(value):
    # pandas.NA refuses a comparison with itself; it is known by name to spare the import.
    if value is None or type(value).__name__ == "NAType":
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return False
