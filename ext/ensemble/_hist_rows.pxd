# Stable division of a leaf's rows between its two children, by chunks that do not wait for each
# other.
from cython.parallel cimport prange

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from _hist_build cimport CHUNK, threads_for
from _hist_types cimport HistGrower, Leaf


cdef inline void divide_rows(HistGrower* g, Leaf* leaf) noexcept nogil:
    cdef int64_t n = leaf.end - leaf.start, n_chunks = (n + CHUNK - 1) // CHUNK, c, k
    cdef int64_t n_left = 0, n_right = leaf.split.n_left
    cdef int threads = threads_for(g, n)
    cdef uint8_t[256] side
    cdef uint8_t* goes_left = &side[0]
    for k in range(256):
        side[k] = k <= leaf.split.bin
    if g.has_nan[leaf.split.feature]:
        side[g.n_bins[leaf.split.feature]] = leaf.split.nan_left
    for c in prange(n_chunks, num_threads=threads, schedule="static"):
        _divide_chunk(g, leaf, goes_left, c * CHUNK, min(n, (c + 1) * CHUNK), &g.counts[3 * c])
    for c in range(n_chunks):
        g.counts[3 * c + 1] = n_left
        g.counts[3 * c + 2] = n_right
        n_left += g.counts[3 * c]
        n_right += min(n, (c + 1) * CHUNK) - c * CHUNK - g.counts[3 * c]
    for c in prange(n_chunks, num_threads=threads, schedule="static"):
        _place_chunk(g, leaf, c * CHUNK, min(n, (c + 1) * CHUNK), &g.counts[3 * c])


# Left rows from the front of the chunk's buffer, right rows from its back; written to both places
# every time, since a branch here would be mispredicted half the time.
cdef inline void _divide_chunk(
    HistGrower* g, Leaf* leaf, const uint8_t* side, int64_t begin, int64_t end, int64_t* count
) noexcept nogil:
    cdef const uint8_t* codes = g.codes + leaf.split.feature * g.n
    cdef const int32_t* rows = g.rows + leaf.start
    cdef int32_t* buffer = g.buffer + leaf.start
    cdef int64_t k, left = begin, right = end - 1
    cdef int32_t i
    cdef uint8_t to_left
    for k in range(begin, end):
        i = rows[k]
        to_left = side[codes[i]]
        buffer[left] = i
        buffer[right] = i
        left += to_left
        right -= 1 - to_left
    count[0] = left - begin


cdef inline void _place_chunk(
    HistGrower* g, Leaf* leaf, int64_t begin, int64_t end, const int64_t* count
) noexcept nogil:
    cdef int32_t* rows = g.rows + leaf.start
    cdef const int32_t* buffer = g.buffer + leaf.start
    cdef int64_t k, n_right = end - begin - count[0]
    memcpy(rows + count[1], buffer + begin, count[0] * sizeof(int32_t))
    for k in range(n_right):
        rows[count[2] + k] = buffer[end - 1 - k]


cdef inline void mark_leaf(HistGrower* g, Leaf* leaf, int32_t* leaf_of) noexcept nogil:
    cdef int64_t k
    cdef int32_t node = <int32_t> leaf.rank.node
    for k in prange(
        leaf.start, leaf.end, num_threads=threads_for(g, leaf.end - leaf.start), schedule="static"
    ):
        leaf_of[g.rows[k]] = node
