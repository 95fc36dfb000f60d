"""The matrix of a weighted sum of diagrams, made entry by entry from few different values."""

import numpy as np
import torch
from torch.nn import functional

from ._basis import block_offsets, point_strides, sums_by_label
from ._partitions import canonical, n_blocks

_CHUNK = 2**16
# To find a one takes about as long as so many comparisons of indices.
_ONE_AGAINST_COMPARISONS = 16


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
        n_diagrams, c_out, c_in = weight.shape
        different = values.of_sums(weight.reshape(n_diagrams, c_out * c_in))
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
            labels, n = self._labels, self._n
            kernels, places = _kernels_of_indices(labels.shape[1], n, self._order_in)
            n_ones = int((float(n) ** n_blocks(labels)).sum())
            if _ONE_AGAINST_COMPARISONS * n_ones < len(kernels) * labels.size:
                self._values = _OnesAt(labels, n, self._order_in, places, len(kernels))
            else:
                self._values = _ValuesAt(labels, kernels)
            self._places = torch.from_numpy(places)
        return self._places, self._values


class _ValuesAt:
    """Value of each diagram for each kernel, 0 or 1, as a matrix."""

    def __init__(self, labels, kernels):
        values = np.ones((len(kernels), len(labels)))
        for number, row in enumerate(labels.tolist()):
            for point, label in enumerate(row):
                first = row.index(label)
                values[:, number] *= kernels[:, point] == kernels[:, first]
        self._values = torch.from_numpy(values)

    def of_sums(self, weight):
        """Values of weighted sums of diagrams; weights of shape (n_diagrams, n_sums)."""
        return self._values.to(weight) @ weight


class _OnesAt:
    """The same, by the places of the ones, where nearly all values of many diagrams are zero."""

    def __init__(self, labels, n, order_in, places, n_kernels):
        strides = point_strides(n, order_in, labels.shape[1] - order_in)
        kernels = [
            np.unique(places[block_offsets(sums_by_label(row, strides), n)])
            for row in labels.tolist()
        ]
        diagrams = np.repeat(np.arange(len(labels)), [len(part) for part in kernels])
        self._kernels = torch.from_numpy(np.concatenate(kernels))
        self._diagrams = torch.from_numpy(diagrams)
        self._n_kernels = n_kernels

    def of_sums(self, weight):
        """Values of weighted sums of diagrams; weights of shape (n_diagrams, n_sums)."""
        total = weight.new_zeros(self._n_kernels, weight.shape[1])
        parts = weight.index_select(0, self._diagrams.to(weight.device))
        return total.index_add(0, self._kernels.to(weight.device), parts)


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
