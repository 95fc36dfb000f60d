"""Which weights are stored exactly beside the codes."""

import numpy as np


def outlier_mask(W, *, ratio=0.0, full_rows=0):
    """Mark the tails of every row, and the rows that are kept whole.

    Parameters
    ----------
    W : ndarray of shape (n_rows, n)
        Weights.
    ratio : float
        Share of each row: ``max(1, round(n ratio / 2))`` weights from each tail, none for 0.
    full_rows : int
        Number of rows, those of largest variance, that are kept whole.

    Returns
    -------
    ndarray of shape (n_rows, n), dtype bool, or None
        True where the weight is stored exactly; None where nothing is.
    """
    if ratio == 0 and full_rows == 0:
        return None
    n = W.shape[1]
    mask = np.zeros(W.shape, dtype=bool)
    if ratio > 0:
        tail = max(1, round(n * ratio / 2))
        if 2 * tail >= n:
            mask[:] = True
        else:
            order = np.argsort(W, axis=1, kind="stable")
            np.put_along_axis(mask, order[:, :tail], True, axis=1)
            np.put_along_axis(mask, order[:, n - tail :], True, axis=1)
    if full_rows > 0:
        mask[np.argsort(-W.var(axis=1), kind="stable")[:full_rows]] = True
    return mask


def combine_masks(first, second):
    """Mark what either mask marks; None stands for an empty mask."""
    if first is None or second is None:
        return second if first is None else first
    return first | second
