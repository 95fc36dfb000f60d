# Impurity of one node, from its rows.
#
# Squared error, and Gini with two classes (twice the variance of a 0/1 target), need the mean;
# several classes need the counts.
from libc.math cimport log2
from libc.stdint cimport int32_t, int64_t

from _types cimport ENTROPY, Frame, Grower, SQUARED_ERROR


cdef inline bint by_variance(Grower* g) noexcept nogil:
    return g.criterion == SQUARED_ERROR or (g.criterion != ENTROPY and g.n_classes == 2)


cdef inline double x_log_x(double x) noexcept nogil:
    return x * log2(x) if x > 0 else 0.0


# Sets weight, mean and impurity; returns whether the targets differ.
cdef inline bint node_statistics(Grower* g, Frame* frame) noexcept nogil:
    if g.y != NULL:
        return _value_statistics(g, frame)
    if g.n_classes == 2:
        return _binary_statistics(g, frame)
    return _class_statistics(g, frame)


cdef inline bint _value_statistics(Grower* g, Frame* frame) noexcept nogil:
    cdef const int32_t* rows = g.rows
    cdef int64_t k
    cdef int32_t i
    cdef double weight = 0.0, total = 0.0, squares = 0.0, mean, gap, w
    cdef double low = g.y[rows[frame.start]]
    cdef double high = low
    for k in range(frame.start, frame.end):
        i = rows[k]
        w = 1.0 if g.w == NULL else g.w[i]
        weight += w
        total += w * g.y[i]
        low = min(low, g.y[i])
        high = max(high, g.y[i])
    mean = total / weight
    frame.weight = weight
    frame.mean = mean
    if low == high:
        frame.mean = low
        frame.impurity = 0.0
        return False
    # A second pass, since the difference of two large sums would lose a small variance.
    for k in range(frame.start, frame.end):
        i = rows[k]
        gap = g.y[i] - mean
        squares += gap * gap * (1.0 if g.w == NULL else g.w[i])
    frame.impurity = squares / weight
    return True


cdef inline bint _binary_statistics(Grower* g, Frame* frame) noexcept nogil:
    cdef const int32_t* rows = g.rows
    cdef int64_t k, n = frame.end - frame.start, ones = 0
    cdef int32_t i
    cdef double weight = 0.0, total = 0.0, share
    if g.w == NULL:
        for k in range(frame.start, frame.end):
            ones += g.code[rows[k]]
        weight = n
        total = ones
    else:
        for k in range(frame.start, frame.end):
            i = rows[k]
            ones += g.code[i]
            weight += g.w[i]
            total += g.w[i] * g.code[i]
    frame.weight = weight
    if ones == 0 or ones == n:
        frame.mean = 1.0 if ones else 0.0
        frame.impurity = 0.0
        return False
    share = total / weight
    frame.mean = share
    if g.criterion == ENTROPY:
        frame.impurity = -(x_log_x(share) + x_log_x(1.0 - share))
    else:
        frame.impurity = 1.0 - share * share - (1.0 - share) * (1.0 - share)
    return True


cdef inline bint _class_statistics(Grower* g, Frame* frame) noexcept nogil:
    cdef int64_t k
    cdef int32_t i
    cdef double total = 0.0, count
    cdef bint differ = False
    count_classes(g, frame)
    for k in range(frame.start, frame.end):
        if g.code[g.rows[k]] != g.code[g.rows[frame.start]]:
            differ = True
            break
    # Each row adds its class's term in proportion to its weight, so the cost is O(rows) however
    # many classes there are.
    for k in range(frame.start, frame.end):
        i = g.rows[k]
        count = g.counts[g.code[i]]
        if g.criterion == ENTROPY:
            count = log2(count / frame.weight)
        total += count * (1.0 if g.w == NULL else g.w[i])
    frame.mean = 0.0
    if not differ:
        frame.impurity = 0.0
    elif g.criterion == ENTROPY:
        frame.impurity = -total / frame.weight
    else:
        frame.impurity = 1.0 - total / (frame.weight * frame.weight)
    clear_classes(g, frame, g.counts)
    return differ


# counts[c] = weight of class c in the node; everything is zero before and after use.
cdef inline void count_classes(Grower* g, Frame* frame) noexcept nogil:
    cdef int64_t k
    cdef int32_t i
    cdef double weight = 0.0, w
    for k in range(frame.start, frame.end):
        i = g.rows[k]
        w = 1.0 if g.w == NULL else g.w[i]
        g.counts[g.code[i]] += w
        weight += w
    frame.weight = weight


cdef inline void clear_classes(Grower* g, Frame* frame, double* counts) noexcept nogil:
    cdef int64_t k
    if g.n_classes <= frame.end - frame.start:
        for k in range(g.n_classes):
            counts[k] = 0.0
    else:
        for k in range(frame.start, frame.end):
            counts[g.code[g.rows[k]]] = 0.0
