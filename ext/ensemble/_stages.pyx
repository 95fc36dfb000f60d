"""Gradients, losses, Newton sums and updates of boosting, row by row with OpenMP.

Sums are made by chunks of fixed size, so that they do not depend on the number of threads.
"""
import numpy as np

from cython.parallel cimport prange

from libc.math cimport exp, fabs, fmax, log, log1p
from libc.stdint cimport int32_t, int64_t

cdef enum:
    CHUNK = 8192
    PRODUCT = 512


def squared_error(
    const double[::1] y, const double[::1] raw, const double[::1] w, double[::1] g, int n_threads
):
    """Negative gradient y - raw into `g`; returns the sum of w (y - raw)^2."""
    cdef int64_t n = y.shape[0], chunks = (n + CHUNK - 1) // CHUNK, t, i
    partial = np.zeros(chunks)
    cdef double[::1] sums = partial
    with nogil:
        for t in prange(chunks, num_threads=n_threads, schedule="static"):
            for i in range(t * CHUNK, min(n, (t + 1) * CHUNK)):
                g[i] = y[i] - raw[i]
                sums[t] += g[i] * g[i] * (1.0 if w is None else w[i])
    return partial.sum()


def binary_log_loss(
    const double[::1] y, const double[::1] raw, const double[::1] w, double[::1] g, int n_threads
):
    """Negative gradient y - expit(raw) into `g`; returns twice the sum of w log-loss."""
    cdef int64_t n = y.shape[0], chunks = (n + CHUNK - 1) // CHUNK, t
    cdef const double* weight = NULL
    partial = np.zeros(chunks)
    cdef double[::1] sums = partial
    if w is not None:
        weight = &w[0]
    with nogil:
        for t in prange(chunks, num_threads=n_threads, schedule="static"):
            sums[t] = _binary_chunk(
                &y[0], &raw[0], weight, &g[0], t * CHUNK, min(n, (t + 1) * CHUNK)
            )
    return 2.0 * partial.sum()


cdef double _binary_chunk(
    const double* y, const double* raw, const double* w, double* g, int64_t begin, int64_t end
) noexcept nogil:
    cdef int64_t i
    cdef double e, total = 0.0, product = 1.0
    for i in range(begin, end):
        e = exp(-fabs(raw[i]))
        g[i] = y[i] - (1.0 if raw[i] >= 0.0 else e) / (1.0 + e)
        if w != NULL:
            total += w[i] * (log1p(e) + fmax(raw[i], 0.0) - y[i] * raw[i])
            continue
        # One logarithm for many rows: each factor is at most two.
        product *= 1.0 + e
        if (i - begin) % PRODUCT == PRODUCT - 1:
            total += log(product)
            product = 1.0
        total += fmax(raw[i], 0.0) - y[i] * raw[i]
    return total + log(product)


def multinomial_log_loss(
    const int32_t[::1] codes,
    const double[:, ::1] raw,
    const double[::1] w,
    double[:, ::1] g,
    int n_threads,
):
    """Negative gradients 1[y = k] - softmax_k(raw), arrays (n_classes, n_samples), into `g`.

    Returns the sum of w log-loss.
    """
    cdef int64_t n = codes.shape[0], chunks = (n + CHUNK - 1) // CHUNK, t
    cdef const double* weight = NULL
    partial = np.zeros(chunks)
    cdef double[::1] sums = partial
    if w is not None:
        weight = &w[0]
    with nogil:
        for t in prange(chunks, num_threads=n_threads, schedule="static"):
            sums[t] = _multinomial_chunk(
                &codes[0], &raw[0, 0], weight, &g[0, 0], n, raw.shape[0], t * CHUNK,
                min(n, (t + 1) * CHUNK),
            )
    return partial.sum()


cdef double _multinomial_chunk(
    const int32_t* codes, const double* raw, const double* w, double* g, int64_t n,
    int64_t n_classes, int64_t begin, int64_t end,
) noexcept nogil:
    cdef int64_t i, k
    cdef double top, norm, loss, total = 0.0
    for i in range(begin, end):
        top = raw[i]
        for k in range(1, n_classes):
            top = fmax(top, raw[k * n + i])
        norm = 0.0
        for k in range(n_classes):
            g[k * n + i] = exp(raw[k * n + i] - top)
            norm += g[k * n + i]
        for k in range(n_classes):
            g[k * n + i] = (1.0 if codes[i] == k else 0.0) - g[k * n + i] / norm
        loss = log(norm) + top - raw[codes[i] * n + i]
        total += loss * (1.0 if w == NULL else w[i])
    return total


def leaf_sums(
    const int32_t[::1] leaf,
    const double[::1] g,
    const double[::1] w,
    int64_t n_nodes,
    bint curvature,
    int n_threads,
):
    """Sums of w g and of w h by leaf, h = |g| (1 - |g|) if `curvature`, else 1.

    For the log-loss g = y - p with y 0 or 1, so |g| (1 - |g|) is p (1 - p).
    """
    cdef int64_t n = leaf.shape[0]
    # The parts must not outgrow the data.
    cdef int64_t parts = max(1, min(16, n // (8 * n_nodes))), t
    sums = np.zeros((parts, n_nodes, 2))
    cdef double[:, :, ::1] out = sums
    cdef const double* weight = NULL
    if w is not None:
        weight = &w[0]
    with nogil:
        for t in prange(parts, num_threads=n_threads, schedule="static"):
            _leaf_part(
                &leaf[0], &g[0], weight, curvature, n * t // parts, n * (t + 1) // parts,
                &out[t, 0, 0],
            )
    total = sums.sum(axis=0)
    return total[:, 0], total[:, 1]


cdef void _leaf_part(
    const int32_t* leaf, const double* g, const double* w, bint curvature, int64_t begin,
    int64_t end, double* out,
) noexcept nogil:
    cdef int64_t i
    cdef double h, size
    cdef double* sums
    for i in range(begin, end):
        sums = out + 2 * leaf[i]
        size = fabs(g[i])
        h = size * (1.0 - size) if curvature else 1.0
        if w == NULL:
            sums[0] += g[i]
            sums[1] += h
        else:
            sums[0] += w[i] * g[i]
            sums[1] += w[i] * h


def add_leaf_values(
    double[::1] raw, const int32_t[::1] leaf, const double[::1] value, double rate, int n_threads
):
    """raw += rate * value[leaf], in place."""
    cdef int64_t i
    with nogil:
        for i in prange(raw.shape[0], num_threads=n_threads, schedule="static"):
            raw[i] += rate * value[leaf[i]]


def center_and_scale(const double[::1] g, const double[::1] w, int n_threads):
    """The target as float32 with weighted mean 0 and largest size 1, whatever its unit.

    Returns
    -------
    scaled : float32 array (n_samples,)
    mean, scale : float
        ``g = mean + scale * scaled``; scale is 1 if all are equal.
    """
    cdef int64_t n = g.shape[0], chunks = (n + CHUNK - 1) // CHUNK, t, i
    cdef double mean, scale, weight
    cdef double[:, ::1] sums = np.zeros((chunks, 2))
    cdef double[:, ::1] ends = np.empty((chunks, 2))
    scaled = np.empty(n, dtype=np.float32)
    cdef float[::1] out = scaled
    with nogil:
        for t in prange(chunks, num_threads=n_threads, schedule="static"):
            ends[t, 0] = g[t * CHUNK]
            ends[t, 1] = g[t * CHUNK]
            for i in range(t * CHUNK, min(n, (t + 1) * CHUNK)):
                weight = 1.0 if w is None else w[i]
                sums[t, 0] += weight * g[i]
                sums[t, 1] += weight
                ends[t, 0] = min(ends[t, 0], g[i])
                ends[t, 1] = max(ends[t, 1], g[i])
    mean = np.sum(sums[:, 0]) / np.sum(sums[:, 1])
    scale = max(np.max(ends[:, 1]) - mean, mean - np.min(ends[:, 0]))
    if not scale > 0.0:
        scale = 1.0
    with nogil:
        for i in prange(n, num_threads=n_threads, schedule="static"):
            out[i] = <float> ((g[i] - mean) / scale)
    return scaled, mean, scale
