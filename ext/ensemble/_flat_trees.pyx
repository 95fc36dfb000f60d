"""Predictions of many trees at once, a block of rows at a time with OpenMP."""
import numpy as np

from cython.parallel cimport prange

from libc.math cimport isnan
from libc.stdint cimport int32_t, int64_t

FLAT_NODE = np.dtype(
    [
        ("threshold", np.float64),
        ("value", np.float64),
        ("left", np.int32),
        ("right", np.int32),
        ("feature", np.int32),
        ("nan_left", np.int32),
    ]
)

cdef struct FlatNode:
    double threshold
    double value
    int32_t left
    int32_t right
    int32_t feature
    int32_t nan_left

cdef enum:
    ROWS = 128


def add_predictions(
    const float[:, ::1] X,
    nodes,
    const int64_t[::1] roots,
    const int32_t[::1] outputs,
    double rate,
    double[:, ::1] raw,
    int n_threads,
):
    """raw[outputs[t]] += rate * value of the leaf, for all trees t in turn.

    Parameters
    ----------
    X : float32 array (n_samples, n_features)
    nodes : structured array (n_nodes,) of FLAT_NODE
        Nodes of all trees; children are numbered over all of them, -1 in a leaf.
    roots : int64 array (n_trees,)
    outputs : int32 array (n_trees,)
        Row of `raw` that each tree adds to.
    raw : float64 array (n_outputs, n_samples)
        Changed in place.
    """
    cdef const unsigned char[::1] memory = nodes.view(np.uint8)
    cdef int64_t n = X.shape[0], blocks = (n + ROWS - 1) // ROWS, t
    cdef const FlatNode* first
    if roots.shape[0] == 0 or n == 0:
        return
    first = <const FlatNode*> &memory[0]
    with nogil:
        for t in prange(blocks, num_threads=n_threads, schedule="static"):
            _predict_block(
                &X[0, 0], X.shape[1], first, &roots[0], &outputs[0], roots.shape[0], rate,
                &raw[0, 0], n, t * ROWS, min(n, (t + 1) * ROWS),
            )


cdef void _predict_block(
    const float* X, int64_t d, const FlatNode* nodes, const int64_t* roots,
    const int32_t* outputs, int64_t n_trees, double rate, double* raw, int64_t n, int64_t begin,
    int64_t end,
) noexcept nogil:
    cdef int64_t t, i
    for t in range(n_trees):
        for i in range(begin, end):
            raw[outputs[t] * n + i] += rate * _leaf(X + i * d, nodes, roots[t]).value


cdef inline const FlatNode* _leaf(
    const float* x, const FlatNode* nodes, int64_t root
) noexcept nogil:
    cdef const FlatNode* node = &nodes[root]
    cdef float value
    while node.left >= 0:
        value = x[node.feature]
        if isnan(value):
            node = &nodes[node.left if node.nan_left else node.right]
        else:
            node = &nodes[node.left if value <= node.threshold else node.right]
    return node
