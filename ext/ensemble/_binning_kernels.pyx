"""Bins of every cell, and missing cells packed as bits."""
import numpy as np

from cython.parallel cimport prange

from libc.math cimport isinf, isnan
from libc.stdint cimport int32_t, int64_t, uint8_t

ctypedef fused number:
    float
    double

cdef enum:
    ROWS = 512


def bin_columns(
    const number[:, :] X,
    const double[:, ::1] edges,
    const int32_t[::1] nan_code,
    int n_threads,
):
    """Number of the bin of every cell, whose value is rounded to float32 first.

    Parameters
    ----------
    X : float array (n_samples, n_features)
    edges : float64 array (n_features, slots)
        Greatest value of each bin, padded with infinity; slots <= 256.
    nan_code : int32 array (n_features,)
        Number that NaN gets.

    Returns
    -------
    codes : uint8 array (n_features, n_samples)
    finite : bool
        Whether no value is infinite as a float32.
    """
    cdef int64_t n = X.shape[0], d = X.shape[1], blocks = (n + ROWS - 1) // ROWS, t, bad = 0
    codes = np.empty((d, n), dtype=np.uint8)
    cdef uint8_t[:, ::1] out = codes
    cdef double[:, ::1] padded = np.full((d, 256), np.inf)
    cdef int64_t slots = edges.shape[1]
    if slots > 256:
        raise ValueError(f"at most 256 bins fit into a byte, got {slots}")
    padded[:, :slots] = edges
    if n == 0 or d == 0:
        return codes, True
    with nogil:
        for t in prange(blocks, num_threads=n_threads, schedule="static"):
            bad += _bin_rows(
                X, &padded[0, 0], &nan_code[0], t * ROWS, min(n, (t + 1) * ROWS), out
            )
    return codes, bad == 0


cdef int64_t _bin_rows(
    const number[:, :] X,
    const double* edges,
    const int32_t* nan_code,
    int64_t begin,
    int64_t end,
    uint8_t[:, ::1] out,
) noexcept nogil:
    cdef int64_t i, j, bad = 0
    cdef float value
    for j in range(X.shape[1]):
        for i in range(begin, end):
            value = <float> X[i, j]
            if isnan(value):
                out[j, i] = <uint8_t> nan_code[j]
            else:
                bad += isinf(value)
                out[j, i] = _bin_of(edges + 256 * j, value)
    return bad


# How many edges are below the value; eight steps whatever the number of edges.
cdef inline uint8_t _bin_of(const double* edges, double value) noexcept nogil:
    cdef int64_t at = 0
    at += 128 if edges[at + 127] < value else 0
    at += 64 if edges[at + 63] < value else 0
    at += 32 if edges[at + 31] < value else 0
    at += 16 if edges[at + 15] < value else 0
    at += 8 if edges[at + 7] < value else 0
    at += 4 if edges[at + 3] < value else 0
    at += 2 if edges[at + 1] < value else 0
    at += 1 if edges[at] < value else 0
    return <uint8_t> at


def pack_bits(const uint8_t[:, :] mask, const int32_t[::1] columns, int n_threads):
    """Bits of the mask's columns that miss something, eight columns to a byte.

    Parameters
    ----------
    mask : uint8 array (n_samples, n_features)
    columns : int32 array (n_missing_columns,)

    Returns
    -------
    bits : uint8 array (ceil(n_missing_columns / 8), n_samples)
    """
    cdef int64_t n = mask.shape[0], m = columns.shape[0], blocks = (n + ROWS - 1) // ROWS, t
    bits = np.zeros(((m + 7) // 8, n), dtype=np.uint8)
    cdef uint8_t[:, ::1] out = bits
    if m == 0:
        return bits
    with nogil:
        for t in prange(blocks, num_threads=n_threads, schedule="static"):
            _pack_rows(mask, &columns[0], m, t * ROWS, min(n, (t + 1) * ROWS), out)
    return bits


cdef void _pack_rows(
    const uint8_t[:, :] mask,
    const int32_t* columns,
    int64_t m,
    int64_t begin,
    int64_t end,
    uint8_t[:, ::1] out,
) noexcept nogil:
    cdef int64_t i, r
    for r in range(m):
        for i in range(begin, end):
            out[r // 8, i] |= <uint8_t> (mask[i, columns[r]] << (r % 8))


def release_bits(
    const int32_t[::1] leaf,
    const int64_t[::1] parent,
    const int64_t[::1] feature,
    const int32_t[::1] mask_row,
    const uint8_t[:, ::1] mask,
    uint8_t[:, ::1] priced,
    uint8_t[::1] relied,
    bint release,
    bint whole_row,
    int n_threads,
):
    """Mark the rows whose path reads a missing value, and make what they read free of charge.

    Parameters
    ----------
    leaf : int32 array (n_samples,)
    parent, feature : int64 arrays (n_nodes,)
        A parent's number is less than its children's.
    mask_row : int32 array (n_features,)
    mask, priced : uint8 arrays (n_bytes, n_samples)
        Bits as from `pack_bits`; `priced` is changed in place if `release`.
    relied : uint8 array (n_samples,)
        Set to 1 for the rows that rely.
    whole_row : bool
        One cell that was read makes all cells of its row free.
    """
    cdef int64_t n = leaf.shape[0], n_bytes = mask.shape[0], n_nodes = parent.shape[0]
    cdef int64_t i, c, node, row
    cdef uint8_t[:, ::1] path = np.zeros((n_nodes, max(n_bytes, 1)), dtype=np.uint8)
    if n_bytes == 0:
        return
    with nogil:
        for node in range(1, n_nodes):
            for c in range(n_bytes):
                path[node, c] = path[parent[node], c]
            row = mask_row[feature[parent[node]]]
            if row >= 0:
                path[node, row // 8] |= <uint8_t> (1 << (row % 8))
        for i in prange(n, num_threads=n_threads, schedule="static"):
            _release_row(
                &path[leaf[i], 0], &mask[0, i], &priced[0, i], n, n_bytes, &relied[i],
                release, whole_row,
            )


cdef inline void _release_row(
    const uint8_t* path,
    const uint8_t* mask,
    uint8_t* priced,
    int64_t n,
    int64_t n_bytes,
    uint8_t* relied,
    bint release,
    bint whole_row,
) noexcept nogil:
    cdef int64_t c
    cdef uint8_t read = 0
    for c in range(n_bytes):
        read |= path[c] & mask[c * n]
        if release and not whole_row:
            priced[c * n] &= ~path[c]
    if not read:
        return
    relied[0] = 1
    if release and whole_row:
        for c in range(n_bytes):
            priced[c * n] = 0
