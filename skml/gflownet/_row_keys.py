"""Hashable keys of integer rows."""

from math import prod

import numpy as np

from ._process import mixed_radix


class RowKeys:
    """Gives rows of bounded integers a key each: one integer where it fits, else their bytes.

    Parameters
    ----------
    sizes : tuple of int or None
        Number of values of each entry; None: not known, and entries may be negative.
    """

    def __init__(self, sizes):
        self.sizes = None if sizes is None else tuple(int(size) for size in sizes)
        self.fits = self.sizes is not None and prod(self.sizes) < 2**62

    def keys(self, rows):
        """List of keys."""
        if self.fits:
            return mixed_radix(rows, self.sizes).tolist()
        return [row.tobytes() for row in np.ascontiguousarray(rows, dtype=np.int64)]

    def unique(self, rows):
        """Positions of the first of each kind, and for every row the number of its kind."""
        if self.fits:
            numbers = mixed_radix(rows, self.sizes)
            _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
        else:
            _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return first, inverse.reshape(-1)
