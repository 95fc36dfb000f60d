"""Which missing cells the paths of rows read, from leaf numbers and parents.

Everything is told from the leaf (or the node where a row stopped) by climbing to the root, so
that training rows, whose leaves are known from the growing, cost no further descent.
"""
import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t


def mark_relied_rows(
    const int64_t[::1] leaf,
    const int64_t[::1] parent,
    const int64_t[::1] feature,
    const uint8_t[:, ::1] mask,
    const int32_t[::1] mask_row,
    uint8_t[::1] relied,
):
    """Set relied[i] = 1 where the path of row i reads a missing value.

    Rows that are marked already, by an earlier tree, are passed over.
    """
    cdef int64_t n = leaf.shape[0], i, node, row
    with nogil:
        for i in range(n):
            if relied[i] or leaf[i] < 0:
                continue
            node = parent[leaf[i]]
            while node >= 0:
                row = mask_row[feature[node]]
                if row >= 0 and mask[row, i]:
                    relied[i] = 1
                    break
                node = parent[node]


def mark_relied_cells(
    const int64_t[::1] leaf,
    const int64_t[::1] parent,
    const int64_t[::1] feature,
    const uint8_t[:, ::1] mask,
    const int32_t[::1] mask_row,
    uint8_t[:, ::1] cells,
):
    """Set cells[row of the feature, i] = 1 where the path of row i reads that missing value."""
    cdef int64_t n = leaf.shape[0], i, node, row
    with nogil:
        for i in range(n):
            node = -1 if leaf[i] < 0 else parent[leaf[i]]
            while node >= 0:
                row = mask_row[feature[node]]
                if row >= 0 and mask[row, i]:
                    cells[row, i] = 1
                node = parent[node]


def release_cells(
    const int64_t[::1] leaf,
    const int64_t[::1] parent,
    const int64_t[::1] feature,
    const uint8_t[:, ::1] mask,
    const int32_t[::1] mask_row,
    uint8_t[:, ::1] priced,
    bint whole_row,
):
    """Make every missing cell that a path reads free of charge (sigma = 0) for later trees.

    With `whole_row` one such cell makes all cells of its row free.
    """
    cdef int64_t n = leaf.shape[0], i, node, row, k
    with nogil:
        for i in range(n):
            node = -1 if leaf[i] < 0 else parent[leaf[i]]
            while node >= 0:
                row = mask_row[feature[node]]
                if row >= 0 and mask[row, i]:
                    if whole_row:
                        for k in range(priced.shape[0]):
                            priced[k, i] = 0
                        break
                    priced[row, i] = 0
                node = parent[node]


def stopping_nodes(
    const int64_t[::1] leaf,
    const int64_t[::1] parent,
    const int64_t[::1] feature,
    const uint8_t[:, ::1] mask,
    const int32_t[::1] mask_row,
):
    """First node on each row's path whose feature the row misses, else its leaf."""
    cdef int64_t n = leaf.shape[0], i, node, row
    out = np.array(leaf, dtype=np.int64)
    cdef int64_t[::1] stop = out
    with nogil:
        for i in range(n):
            node = parent[leaf[i]]
            while node >= 0:
                row = mask_row[feature[node]]
                if row >= 0 and mask[row, i]:
                    stop[i] = node
                node = parent[node]
    return out


def reliance_mass(
    const int64_t[::1] leaf,
    const int64_t[::1] parent,
    const int64_t[::1] feature,
    const uint8_t[:, ::1] mask,
    const int32_t[::1] mask_row,
    const double[::1] sample_weight,
):
    """Weight of the rows in each node whose path so far, its own split included, relied.

    Returns
    -------
    relied, total : float64 arrays (n_nodes,)
    """
    cdef int64_t n = leaf.shape[0], i, node, first, row
    relied_mass = np.zeros(parent.shape[0])
    total_mass = np.zeros(parent.shape[0])
    cdef double[::1] relied = relied_mass
    cdef double[::1] total = total_mass
    with nogil:
        for i in range(n):
            if leaf[i] < 0:
                continue
            # From the first node that reads a missing value downwards all count; climbing
            # meets it last, so a second climb stops there.
            first = -1
            node = leaf[i]
            while node >= 0:
                total[node] += sample_weight[i]
                row = -1 if feature[node] < 0 else mask_row[feature[node]]
                if row >= 0 and mask[row, i]:
                    first = node
                node = parent[node]
            if first < 0:
                continue
            node = leaf[i]
            while node != first:
                relied[node] += sample_weight[i]
                node = parent[node]
            relied[first] += sample_weight[i]
    return relied_mass, total_mass
