"""Exact weighted k-means in one dimension.

Clusters of the line are intervals of the sorted values, so the best clustering of a prefix into
k clusters follows from those into k - 1.  The best last boundary never moves left as the prefix
grows, so that divide and conquer finds all of them in O(n log n) for each k.
"""
from cython.parallel cimport prange

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc


def cluster_rows(
    const double[:, ::1] values,
    const double[:, ::1] weights,
    const int32_t[::1] lengths,
    double[:, ::1] centres,
    int n_threads=1,
):
    """Find the centres of the best clustering of every row.

    Parameters
    ----------
    values : float64 array (n_rows, n)
        Distinct values of each row in ascending order; the first `lengths` of them count.
    weights : float64 array (n_rows, n)
        Their weights, at least 0.
    lengths : int32 array (n_rows,)
    centres : float64 array (n_rows, n_clusters)
        Results, ascending; where a row has fewer values than clusters the last one is repeated.
    """
    cdef ptrdiff_t n_rows = values.shape[0], i
    cdef int n_clusters = <int> centres.shape[1]
    cdef int failed = 0
    if n_rows == 0 or n_clusters == 0:
        return
    for i in prange(n_rows, nogil=True, schedule="dynamic", num_threads=n_threads):
        if lengths[i] > 0:
            failed += _cluster(
                &values[i, 0], &weights[i, 0], lengths[i], n_clusters, &centres[i, 0])
    if failed:
        raise MemoryError("no memory for the tables of the exact k-means")


cdef int _cluster(
    const double* x, const double* w, int n, int k, double* centres
) noexcept nogil:
    cdef int i, j, end, start
    if n <= k:
        for i in range(k):
            centres[i] = x[i if i < n else n - 1]
        return 0
    # Prefix sums of weight, first and second moment, about the middle value.
    cdef double* sums = <double*> malloc(3 * <size_t> (n + 1) * sizeof(double))
    cdef double* cost = <double*> malloc(2 * <size_t> (n + 1) * sizeof(double))
    cdef int32_t* cut = <int32_t*> malloc(<size_t> k * (n + 1) * sizeof(int32_t))
    cdef double* before
    cdef double* after
    cdef double d
    if sums == NULL or cost == NULL or cut == NULL:
        free(sums)
        free(cost)
        free(cut)
        return 1
    sums[0] = sums[1] = sums[2] = 0
    for i in range(n):
        d = x[i] - x[n // 2]
        sums[3 * i + 3] = sums[3 * i] + w[i]
        sums[3 * i + 4] = sums[3 * i + 1] + w[i] * d
        sums[3 * i + 5] = sums[3 * i + 2] + w[i] * d * d
    before = cost
    after = cost + n + 1
    for i in range(n + 1):
        before[i] = _spread(sums, 0, i)
        cut[i] = 0
    for j in range(1, k):
        # At least one value for each cluster: prefixes of j + 1 values and more.
        for i in range(j + 1):
            after[i] = INFINITY
        _solve(sums, before, after, &cut[j * (n + 1)], j + 1, n, j, n - 1)
        before, after = after, before
    end = n
    for j in range(k - 1, -1, -1):
        start = cut[j * (n + 1) + end]
        centres[j] = _centre(x, w, start, end)
        end = start
    free(sums)
    free(cost)
    free(cut)
    return 0


cdef inline double _spread(const double* sums, int start, int end) noexcept nogil:
    """Weighted sum of squares about the mean of the values in [start, end)."""
    cdef const double* a = sums + 3 * start
    cdef const double* b = sums + 3 * end
    cdef double weight = b[0] - a[0]
    cdef double moment = b[1] - a[1]
    cdef double spread
    if weight <= 0:
        return 0
    spread = (b[2] - a[2]) - moment * moment / weight
    return spread if spread > 0 else 0


cdef void _solve(
    const double* sums, const double* before, double* after, int32_t* cut,
    int low, int high, int cut_low, int cut_high
) noexcept nogil:
    """Best last boundary of every prefix in [low, high], sought in [cut_low, cut_high]."""
    cdef int middle, start, best, last
    cdef double cost, least
    while low <= high:
        middle = (low + high) // 2
        least = INFINITY
        best = cut_low
        last = cut_high if cut_high < middle - 1 else middle - 1
        for start in range(cut_low, last + 1):
            cost = before[start] + _spread(sums, start, middle)
            if cost < least:
                least = cost
                best = start
        after[middle] = least
        cut[middle] = best
        _solve(sums, before, after, cut, low, middle - 1, cut_low, best)
        low = middle + 1
        cut_low = best


cdef double _centre(const double* x, const double* w, int start, int end) noexcept nogil:
    # Sums of differences: equal values give that value, without rounding.
    cdef double total = 0, weight = 0
    cdef int i
    for i in range(start, end):
        weight += w[i]
        total += w[i] * (x[i] - x[start])
    if weight > 0:
        return x[start] + total / weight
    return x[start] + (x[end - 1] - x[start]) / 2
