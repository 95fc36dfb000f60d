# The best split of one leaf from its histograms: best bin per feature, minus the price.
from cython.parallel cimport prange

from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint64_t

from _hist_build cimport threads_for
from _hist_types cimport BinSplit, HistGrower, Leaf
from _split cimport draw_feature, mix, TIE


# Fills leaf.split; its feature is -1 when no feature separates two rows.
cdef inline void find_bin_split(HistGrower* g, Leaf* leaf) noexcept nogil:
    cdef int64_t j, visited, found = 0
    cdef uint64_t state = leaf.key
    for j in prange(g.d, num_threads=threads_for(g, g.d * g.slots), schedule="static"):
        _search_bins(g, leaf, j, &g.splits[j])
        g.features[j] = j
    leaf.split.feature = -1
    for visited in range(g.d):
        # As in the presorted engine, the search goes on past max_features until something
        # separates.
        if visited >= g.max_features and found > 0:
            break
        if g.max_features < g.d:
            draw_feature(g.features, visited, g.d, &state)
        if g.splits[g.features[visited]].feature >= 0:
            g.features[found] = g.features[visited]
            found += 1
    _choose_bin_split(g, leaf, found)


# Ties go to the least hash of (node, feature), which depends on the seed alone.
cdef inline void _choose_bin_split(HistGrower* g, Leaf* leaf, int64_t found) noexcept nogil:
    cdef int64_t k
    cdef double top = -INFINITY
    cdef uint64_t rank, least = 0
    cdef BinSplit* split
    for k in range(found):
        top = max(top, g.splits[g.features[k]].net)
    for k in range(found):
        split = &g.splits[g.features[k]]
        if split.net < top - TIE * leaf.impurity:
            continue
        rank = mix(leaf.key ^ mix(<uint64_t> split.feature))
        if leaf.split.feature < 0 or rank < least:
            least = rank
            leaf.split = split[0]


cdef inline void _search_bins(
    HistGrower* g, Leaf* leaf, int64_t feature, BinSplit* split
) noexcept nogil:
    cdef const double* hist = leaf.hist + feature * g.slots * g.stride
    cdef const double* of_nan = hist + g.n_bins[feature] * g.stride
    cdef int64_t row = g.mask_row[feature]
    split.feature = -1
    split.gain = -1.0
    split.n_nan = 0
    if g.has_nan[feature]:
        split.n_nan = <int64_t> of_nan[g.stride // 2]
    _scan_bins(g, leaf, feature, hist, False, split)
    if split.n_nan > 0:
        _scan_bins(g, leaf, feature, hist, True, split)
    if split.gain < 0.0:
        return
    split.feature = feature
    split.net = split.gain
    if g.priced != NULL and row >= 0:
        split.net -= (
            g.alpha * leaf.hist[g.d * g.slots * g.stride + row] / leaf.weight
        )


# Decrease of the variance = S^2 / (W_left W_right), S the sum of w (g - mean) on the left.
cdef inline void _scan_bins(
    HistGrower* g, Leaf* leaf, int64_t feature, const double* hist, bint nan_left, BinSplit* split
) noexcept nogil:
    cdef int64_t n = leaf.end - leaf.start, b, n_left = 0, here, last = g.n_bins[feature] - 1
    cdef double mean = leaf.total / leaf.weight
    cdef double weight = 0.0, total = 0.0, right, gap, gain
    cdef double tie = TIE * leaf.impurity
    cdef int64_t count_at = g.stride // 2
    cdef const double* entry
    if nan_left:
        entry = hist + g.n_bins[feature] * g.stride
        total = entry[0]
        weight = entry[1]
        n_left = <int64_t> entry[count_at]
    elif split.n_nan > 0:
        # All observed values may go left, apart from the NaN.
        last += 1
    for b in range(last):
        entry = hist + b * g.stride
        here = <int64_t> entry[count_at]
        if here == 0:
            continue
        total += entry[0]
        weight += entry[1]
        n_left += here
        if n_left < g.min_samples_leaf:
            continue
        if n - n_left < g.min_samples_leaf:
            return
        right = leaf.weight - weight
        if weight < g.min_weight_leaf or right < g.min_weight_leaf:
            continue
        # Weights that vanish beside the greatest are 0 as float32.
        if weight <= 0.0 or right <= 0.0:
            continue
        gap = total - mean * weight
        gain = gap * gap / (weight * right)
        if gain > split.gain + tie or split.gain < 0.0:
            split.gain = gain
            split.bin = b
            split.n_left = n_left
            split.left_weight = weight
            split.left_total = total
            split.nan_left = nan_left
