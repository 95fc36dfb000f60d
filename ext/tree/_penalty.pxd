# Price of a feature at a node: the weight of the rows that would read a missing value.
from libc.stdint cimport int32_t, int64_t, uint8_t

from _types cimport FEATURE_SCOPE, Frame, Grower, ROW_SCOPE


# Stamp the features that the path to this node tests: under the feature scope they are free.
cdef inline void mark_path(Grower* g, Frame* frame) noexcept nogil:
    cdef int64_t node = frame.parent
    if g.scope != FEATURE_SCOPE or g.alpha == 0.0:
        return
    g.stamp += 1
    while node >= 0:
        g.used_at[g.tree.nodes[node].feature] = g.stamp
        node = g.tree.nodes[node].parent


# Sum of w s m over the rows of the node; columns without a missing value cost nothing.
cdef inline double penalty_mass(Grower* g, Frame* frame, int64_t feature) noexcept nogil:
    cdef int64_t k, row = g.mask_row[feature], count = 0
    cdef double mass = 0.0
    cdef int32_t i
    cdef const uint8_t* priced
    if row < 0 or g.alpha == 0.0:
        return 0.0
    if g.scope == FEATURE_SCOPE and g.used_at[feature] == g.stamp:
        return 0.0
    priced = g.priced + row * g.n
    if g.scope == ROW_SCOPE:
        for k in range(frame.start, frame.end):
            i = g.rows[k]
            if priced[i] and not g.relied[i]:
                mass += 1.0 if g.w == NULL else g.w[i]
        return mass
    if g.w == NULL:
        for k in range(frame.start, frame.end):
            count += priced[g.rows[k]]
        return <double> count
    for k in range(frame.start, frame.end):
        i = g.rows[k]
        mass += priced[i] * g.w[i]
    return mass


# Under the row scope a row pays once: remember who reads a missing value at this split.
cdef inline void mark_readers(Grower* g, Frame* frame, int64_t feature) noexcept nogil:
    cdef int64_t k, row = g.mask_row[feature]
    cdef int32_t i
    if g.scope != ROW_SCOPE or row < 0:
        return
    for k in range(frame.start, frame.end):
        i = g.rows[k]
        g.relied[i] |= g.mask[row * g.n + i]
