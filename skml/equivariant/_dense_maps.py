"""The matrix of a weighted sum of diagrams, made entry by entry from few different values."""

import numpy as np
import torch
from torch.nn import functional

from ._partitions import canonical

_CHUNK = 2**16


class KernelTable:
    """How the entries of all diagrams of a space depend on the multi-index.

    Entry (J, I) of every diagram depends only on which of the indices are equal. So the matrix of
    a weighted sum holds at most as many different values as there are partitions of the points:
    they are computed first and then put in their places.

    Parameters
    ----------
    labels : ndarray of shape (n_diagrams, order_in + order_out)
        Labels of the partitions.
    n : int
        Dimension of the base space.
    order_in : int
        Number of upper points.
    """

    def __init__(self, labels, n, order_in):
        self._labels, self._n, self._order_in = labels, n, order_in
        self._places = self._values = None

    def __getstate__(self):
        return {**self.__dict__, "_places": None, "_values": None}  # they can be made again

    def matrix(self, weight):
        """Form the matrix.

        Parameters
        ----------
        weight : torch.Tensor of shape (n_diagrams, channels_out, channels_in)
            The weights.

        Returns
        -------
        torch.Tensor of shape (channels_out, n**l, channels_in, n**k)
            The matrix.
        """
        places, values = self._tables()
        places = places.to(weight.device)
        values = values.to(device=weight.device, dtype=weight.dtype)
        n_diagrams, c_out, c_in = weight.shape
        different = values @ weight.reshape(n_diagrams, c_out * c_in)
        order_out = self._labels.shape[1] - self._order_in
        # A look-up of rows has the faster gradient, but only for real numbers.
        if different.is_complex():
            entries = different.index_select(0, places)
        else:
            entries = functional.embedding(places, different)
        entries = entries.view(self._n**order_out, self._n**self._order_in, c_out, c_in)
        return entries.permute(2, 0, 3, 1).contiguous()

    def _tables(self):
        """Places of the different values (n**l * n**k,), and each diagram's value there."""
        if self._places is None:
            kernels, places = _kernels_of_indices(self._labels.shape[1], self._n, self._order_in)
            values = np.ones((len(kernels), len(self._labels)))
            for number, row in enumerate(self._labels.tolist()):
                for point, label in enumerate(row):
                    first = row.index(label)
                    values[:, number] *= kernels[:, point] == kernels[:, first]
            self._values = torch.from_numpy(values)
            self._places = torch.from_numpy(places)
        return self._places, self._values


def _kernels_of_indices(n_points, n, order_in):
    """Which indices are equal, for all multi-indices in C order of the matrix (outputs first)."""
    size = n**n_points
    codes = np.empty(size, dtype=np.int64)
    points = [*range(order_in, n_points), *range(order_in)]
    # There are no more labels than this, and so a code is less than the size of the matrix.
    base = max(min(n, n_points), 1)
    powers = np.array([base**point for point in range(n_points)], dtype=np.int64)
    for start in range(0, size, _CHUNK):
        numbers = np.arange(start, min(start + _CHUNK, size))
        indices = np.empty((len(numbers), n_points), dtype=np.int64)
        for axis, point in enumerate(points):
            indices[:, point] = numbers // n ** (n_points - 1 - axis) % n
        kernels = canonical(indices).astype(np.int64)
        codes[start : start + len(numbers)] = kernels @ powers
    different, places = np.unique(codes, return_inverse=True)
    return different[:, None] // powers % base, places.ravel()
