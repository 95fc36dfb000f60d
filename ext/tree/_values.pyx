"""Class shares of every node, from the leaves of the training rows."""
import numpy as np

from libc.stdint cimport int32_t, int64_t


def class_shares(
    const int64_t[::1] leaf,
    const int32_t[::1] codes,
    const double[::1] sample_weight,
    const int64_t[::1] parent,
    int64_t n_classes,
):
    """Weighted share of every class in every node; float64 array (n_nodes, n_classes).

    `sample_weight` None stands for ones; rows whose leaf is negative take no part.
    """
    shares = np.zeros((parent.shape[0], n_classes))
    cdef double[:, ::1] value = shares
    cdef int64_t i, c, node
    cdef double total
    with nogil:
        for i in range(leaf.shape[0]):
            if leaf[i] >= 0:
                value[leaf[i], codes[i]] += 1.0 if sample_weight is None else sample_weight[i]
        # A child's number is greater than its parent's, whichever way the tree grew.
        for node in range(parent.shape[0] - 1, 0, -1):
            for c in range(n_classes):
                value[parent[node], c] += value[node, c]
        for node in range(parent.shape[0]):
            total = 0.0
            for c in range(n_classes):
                total += value[node, c]
            for c in range(n_classes):
                value[node, c] /= total
    return shares
