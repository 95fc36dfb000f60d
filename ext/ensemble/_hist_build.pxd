# Histograms of one leaf: sums of gradient, weight and rows by bin, and the penalty masses.
#
# Every sum is made in an order that does not depend on the number of threads: features and bytes
# of the price bits are independent, and row sums are made by chunks of fixed size.
from cython.parallel cimport prange

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from _hist_types cimport HistGrower, Leaf


cdef extern from "_hist_kernels.h":
    int skml_max_threads() noexcept nogil
    void skml_add_unit(
        const uint8_t*, const uint8_t*, const int32_t*, int64_t, const float*, int64_t,
        double*, double*
    ) noexcept nogil
    void skml_add_unit_one(
        const uint8_t*, const int32_t*, int64_t, const float*, int64_t, double*
    ) noexcept nogil
    void skml_add_weighted(
        const uint8_t*, const int32_t*, int64_t, const float*, int64_t, double*
    ) noexcept nogil


cdef enum:
    CHUNK = 16384        # rows of one partial sum
    BLOCK = 2048         # rows whose gradients stay in the first cache
    GROUP = 4            # features that one thread takes at a time
    FEW = 32768          # work that is not worth waking a second thread


cdef inline int threads_for(HistGrower* g, int64_t work) noexcept nogil:
    return g.n_threads if work > FEW else 1


# Gradients of a leaf in row order; returns the sum of w g^2 and sets the other two sums.
cdef inline double gather(HistGrower* g, Leaf* leaf, double* weight, double* total) noexcept nogil:
    cdef int64_t n = leaf.end - leaf.start
    cdef int64_t n_chunks = (n + CHUNK - 1) // CHUNK, c
    cdef double squares = 0.0
    for c in prange(n_chunks, num_threads=threads_for(g, n), schedule="static"):
        _gather_chunk(g, leaf.start, c * CHUNK, min(n, (c + 1) * CHUNK), g.partial + 3 * c)
    weight[0] = 0.0
    total[0] = 0.0
    for c in range(n_chunks):
        squares += g.partial[3 * c]
        total[0] += g.partial[3 * c + 1]
        weight[0] += g.partial[3 * c + 2]
    return squares


cdef inline void _gather_chunk(
    HistGrower* g, int64_t start, int64_t begin, int64_t end, double* sums
) noexcept nogil:
    cdef const int32_t* rows = g.rows + start
    cdef int64_t k, i
    cdef double value, w, squares = 0.0, total = 0.0, weight = 0.0
    if g.w == NULL:
        for k in range(begin, end):
            value = g.g[rows[k]]
            g.ordered[k] = <float> value
            squares += value * value
            total += value
        weight = <double> (end - begin)
    else:
        for k in range(begin, end):
            i = rows[k]
            w = g.w[i]
            value = g.g[i]
            # Sums are made of the rounded factors, as in the histogram.
            g.ordered[2 * k] = <float> (w * value)
            g.ordered[2 * k + 1] = <float> w
            squares += w * value * value
            total += g.ordered[2 * k]
            weight += g.ordered[2 * k + 1]
    sums[0] = squares
    sums[1] = total
    sums[2] = weight


# Needs `gather` to have been called for this leaf.
cdef inline void build(HistGrower* g, Leaf* leaf, double* hist) noexcept nogil:
    cdef int64_t n = leaf.end - leaf.start, n_groups = (g.d + GROUP - 1) // GROUP, t, c
    cdef double* mass = hist + g.d * g.slots * g.stride
    cdef int threads = threads_for(g, n * g.d)
    for t in prange(n_groups, num_threads=threads, schedule="dynamic", chunksize=1):
        _build_group(g, leaf, hist, GROUP * t, min(g.d, GROUP * (t + 1)))
    if g.priced == NULL:
        return
    for c in prange(g.n_bytes, num_threads=threads, schedule="dynamic", chunksize=1):
        if g.w == NULL:
            _count_priced(g, leaf, c, mass + 8 * c)
        else:
            _weigh_priced(g, leaf, c, mass + 8 * c)


cdef inline void _build_group(
    HistGrower* g, Leaf* leaf, double* hist, int64_t first, int64_t last
) noexcept nogil:
    cdef int64_t n = leaf.end - leaf.start, k, m, j
    cdef int64_t size = g.slots * g.stride
    cdef const int32_t* rows = g.rows + leaf.start
    # All rows of the data: their numbers need not be read.
    cdef const int32_t* listed
    memset(hist + first * size, 0, (last - first) * size * sizeof(double))
    k = 0
    while k < n:
        m = min(<int64_t> BLOCK, n - k)
        listed = rows + k
        if n == g.n:
            listed = NULL
        j = first
        while j < last:
            if g.w != NULL:
                skml_add_weighted(
                    g.codes + j * g.n, listed, k, g.ordered + 2 * k, m, hist + j * size
                )
                j += 1
            elif j + 1 < last:
                skml_add_unit(
                    g.codes + j * g.n, g.codes + (j + 1) * g.n, listed, k, g.ordered + k, m,
                    hist + j * size, hist + (j + 1) * size,
                )
                j += 2
            else:
                skml_add_unit_one(
                    g.codes + j * g.n, listed, k, g.ordered + k, m, hist + j * size
                )
                j += 1
        k += m


# How many rows of the leaf have each of the eight bits of one byte set.
#
# A byte is spread over the eight bytes of a word, and words are added; a byte of the sum would
# overflow after 255 rows, and is emptied before.
cdef inline void _count_priced(
    HistGrower* g, Leaf* leaf, int64_t c, double* mass
) noexcept nogil:
    cdef const uint8_t* plane = g.priced + c * g.n
    cdef const int32_t* rows = g.rows + leaf.start
    cdef int64_t n = leaf.end - leaf.start, k = 0, stop, bit
    cdef uint64_t sums, x
    for bit in range(8):
        mass[bit] = 0.0
    while k < n:
        stop = min(n, k + 255)
        sums = 0
        while k < stop:
            x = plane[rows[k]]
            # Seven bits by one multiplication, whose partial products do not meet; the eighth
            # alone.
            sums += (((x & 0x7F) * 0x0002040810204081u) & 0x0101010101010101u) + (
                (x >> 7) << 56
            )
            k += 1
        for bit in range(8):
            mass[bit] += <double> ((sums >> (8 * bit)) & 0xFF)


cdef inline void _weigh_priced(
    HistGrower* g, Leaf* leaf, int64_t c, double* mass
) noexcept nogil:
    cdef const uint8_t* plane = g.priced + c * g.n
    cdef const int32_t* rows = g.rows + leaf.start
    cdef int64_t n = leaf.end - leaf.start, k, bit
    cdef uint8_t byte
    cdef double w
    for bit in range(8):
        mass[bit] = 0.0
    for k in range(n):
        byte = plane[rows[k]]
        if byte == 0:
            continue
        w = g.ordered[2 * k + 1]
        for bit in range(8):
            mass[bit] += w * ((byte >> bit) & 1)


# The sibling's histogram is what the parent's leaves over; so are its masses, as the prices stay
# as they are while a tree grows.
cdef inline void subtract(HistGrower* g, double* parent, const double* child) noexcept nogil:
    cdef int64_t t, k
    cdef int64_t pieces = (g.block + CHUNK - 1) // CHUNK
    for t in prange(pieces, num_threads=threads_for(g, g.block), schedule="static"):
        for k in range(t * CHUNK, min(g.block, (t + 1) * CHUNK)):
            parent[k] -= child[k]
