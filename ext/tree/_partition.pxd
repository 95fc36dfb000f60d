# Stable division of a node's rows and sorted columns between its two children.
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from _split cimport is_constant
from _types cimport Frame, Grower, Split


# side[i] = 1 for the rows that go left.
cdef inline void mark_sides(Grower* g, Frame* frame, Split* split) noexcept nogil:
    cdef const int32_t* column = g.order + split.feature * g.stride + frame.start
    cdef int64_t n = frame.end - frame.start, k
    cdef int64_t observed = n - split.n_nan if split.nan_left else n
    for k in range(split.position):
        g.side[column[k]] = 1
    for k in range(split.position, observed):
        g.side[column[k]] = 0
    for k in range(observed, n):
        g.side[column[k]] = 1


# Written to both places every time: a branch here would be mispredicted half the time.
cdef inline void divide(
    int32_t* column, int64_t n, const uint8_t* side, int32_t* buffer
) noexcept nogil:
    cdef int64_t k, left = 0, right = 0
    cdef int32_t i
    cdef uint8_t goes_left
    for k in range(n):
        i = column[k]
        goes_left = side[i]
        column[left] = i
        buffer[right] = i
        left += goes_left
        right += 1 - goes_left
    memcpy(column + left, buffer, right * sizeof(int32_t))


cdef inline void keep_left(int32_t* column, int64_t n, const uint8_t* side) noexcept nogil:
    cdef int64_t k, left = 0
    cdef int32_t i
    for k in range(n):
        i = column[k]
        column[left] = i
        left += side[i]


cdef inline void keep_right(int32_t* column, int64_t n, const uint8_t* side) noexcept nogil:
    cdef int64_t k, at = n - 1
    cdef int32_t i
    for k in range(n - 1, -1, -1):
        i = column[k]
        column[at] = i
        at -= 1 - side[i]


# Only children that will be searched need their columns.  A column that is constant in the node
# stays as it is: whatever part of it a descendant looks at is constant too.
cdef inline void divide_columns(
    Grower* g, Frame* frame, Split* split, bint left, bint right
) noexcept nogil:
    cdef int64_t j, n = frame.end - frame.start
    cdef int32_t* column
    if not (left or right):
        return
    for j in range(g.d):
        column = g.order + j * g.stride + frame.start
        if j == split.feature and not split.nan_left:
            continue
        if is_constant(g.X + j * g.n, column, n):
            continue
        if not right:
            keep_left(column, n, g.side)
        elif not left:
            keep_right(column, n, g.side)
        else:
            divide(column, n, g.side, g.buffer)
