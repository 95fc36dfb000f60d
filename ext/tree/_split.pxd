# The best split of one node: best threshold per feature, minus the price of the feature.
#
# No scan divides or looks at x unless the candidate would win: the comparison gain > best is
# multiplied out, and equal neighbours are looked for only then.
from libc.math cimport INFINITY, isnan
from libc.stdint cimport int32_t, int64_t, uint64_t

from _criterion cimport by_variance, clear_classes, count_classes, x_log_x
from _penalty cimport mark_path, penalty_mass
from _types cimport ENTROPY, Frame, Grower, Split


cdef extern from *:
    """
    /* Values closer than this count as equal, as in scikit-learn. */
    #define SKML_SAME_VALUE 1e-7f
    /* Gains closer than this share of the node's impurity count as tied. */
    #define SKML_TIE 1e-10
    """
    const float SAME_VALUE "SKML_SAME_VALUE"
    const double TIE "SKML_TIE"


cdef struct Scan:
    const float* x
    const int32_t* column
    int64_t n            # rows of the node
    int64_t observed     # the last n - observed rows of the column are NaN
    int64_t first        # least and greatest number of rows on the left
    int64_t last
    double weight
    double min_weight
    double tie           # in the unit of the scan's score


cdef inline bint is_constant(const float* x, const int32_t* column, int64_t n) noexcept nogil:
    cdef float low = x[column[0]]
    cdef float high = x[column[n - 1]]
    if isnan(high):
        return isnan(low)
    return high <= low + SAME_VALUE


cdef inline uint64_t mix(uint64_t z) noexcept nogil:
    z += 0x9E3779B97F4A7C15u
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu
    return z ^ (z >> 31)


# Puts one of the features from place `at` on there, by the next number of the node's own sequence.
cdef inline void draw_feature(
    int64_t* features, int64_t at, int64_t n, uint64_t* state
) noexcept nogil:
    cdef int64_t drawn
    state[0] = mix(state[0])
    drawn = at + <int64_t> (state[0] % <uint64_t> (n - at))
    features[at], features[drawn] = features[drawn], features[at]


# Fills `best`; its feature is -1 when no feature separates two rows.
cdef inline void find_split(Grower* g, Frame* frame, Split* best) noexcept nogil:
    cdef int64_t visited, j, found = 0
    cdef uint64_t state = frame.key
    best.feature = -1
    _prepare(g, frame)
    mark_path(g, frame)
    for j in range(g.d):
        g.features[j] = j
    for visited in range(g.d):
        # As in scikit-learn, the search goes on past max_features until something separates.
        if visited >= g.max_features and found > 0:
            break
        if g.max_features < g.d:
            draw_feature(g.features, visited, g.d, &state)
        if _search_feature(g, frame, g.features[visited], &g.splits[found]):
            found += 1
    _choose(g, frame, found, best)
    if not by_variance(g):
        clear_classes(g, frame, g.counts)


# Ties between features go to the least hash of (node, feature): it depends on the seed and on
# the node's place in the tree, never on the rows, so weights and repeated rows agree.
cdef inline void _choose(Grower* g, Frame* frame, int64_t found, Split* best) noexcept nogil:
    cdef int64_t k
    cdef double top = -INFINITY
    cdef uint64_t rank, least = 0
    cdef Split* split
    cdef float low, high
    cdef const float* x
    cdef const int32_t* column
    for k in range(found):
        top = max(top, g.splits[k].net)
    for k in range(found):
        split = &g.splits[k]
        if split.net < top - TIE * frame.impurity:
            continue
        rank = mix(frame.key ^ mix(<uint64_t> split.feature))
        if best.feature < 0 or rank < least:
            least = rank
            best[0] = split[0]
    if best.feature < 0 or best.threshold == INFINITY:
        return
    x = g.X + best.feature * g.n
    column = g.order + best.feature * g.stride + frame.start
    low = x[column[best.position - 1]]
    high = x[column[best.position]]
    best.threshold = <double> low / 2.0 + <double> high / 2.0
    if best.threshold == high or best.threshold == INFINITY or best.threshold == -INFINITY:
        best.threshold = low


cdef inline void _prepare(Grower* g, Frame* frame) noexcept nogil:
    cdef int64_t k
    cdef int32_t i
    cdef double value, mean = frame.mean
    if not by_variance(g):
        count_classes(g, frame)
        return
    for k in range(frame.start, frame.end):
        i = g.rows[k]
        value = g.y[i] if g.y != NULL else <double> g.code[i]
        if g.w == NULL:
            g.target[i] = value - mean
        else:
            g.target[2 * i] = g.w[i] * (value - mean)
            g.target[2 * i + 1] = g.w[i]


cdef inline bint _search_feature(
    Grower* g, Frame* frame, int64_t feature, Split* split
) noexcept nogil:
    cdef Scan scan
    cdef int64_t n = frame.end - frame.start
    scan.x = g.X + feature * g.n
    scan.column = g.order + feature * g.stride + frame.start
    if is_constant(scan.x, scan.column, n):
        return False
    scan.n = n
    scan.observed = n
    if g.has_nan[feature]:
        while isnan(scan.x[scan.column[scan.observed - 1]]):
            scan.observed -= 1
    scan.first = g.min_samples_leaf
    scan.last = n - g.min_samples_leaf
    scan.weight = frame.weight
    scan.min_weight = g.min_weight_leaf
    split.feature = feature
    split.gain = -1.0
    split.threshold = 0.0
    if by_variance(g):
        _search_variance(g, frame, &scan, split)
    else:
        _search_classes(g, frame, &scan, split)
    if split.gain < 0.0:
        return False
    split.net = split.gain
    split.n_left = split.position
    split.n_nan = n - scan.observed
    if split.nan_left:
        split.n_left += split.n_nan
    if g.alpha > 0.0:
        split.net -= g.alpha * penalty_mass(g, frame, feature) / frame.weight
    return True


# Decrease of the variance = S^2 / (W_left W_right), S the sum of w (y - mean) on the left.
cdef inline void _search_variance(
    Grower* g, Frame* frame, Scan* scan, Split* split
) noexcept nogil:
    cdef double factor = 1.0 if g.y != NULL else 2.0
    cdef double nan_sum = 0.0, nan_weight = 0.0
    cdef int64_t k
    cdef int32_t i
    scan.tie = TIE * frame.impurity / factor
    for k in range(scan.observed, scan.n):
        i = scan.column[k]
        if g.w == NULL:
            nan_sum += g.target[i]
            nan_weight += 1.0
        else:
            nan_sum += g.target[2 * i]
            nan_weight += g.target[2 * i + 1]
    if g.w == NULL:
        _scan_unit(scan, g.target, False, 0.0, split)
    else:
        _scan_weighted(scan, g.target, False, 0.0, 0.0, split)
    if scan.observed < scan.n:
        _try_apart(scan, -nan_sum, frame.weight - nan_weight, split)
        if g.w == NULL:
            _scan_unit(scan, g.target, True, nan_sum, split)
        else:
            _scan_weighted(scan, g.target, True, nan_sum, nan_weight, split)
    if split.gain >= 0.0:
        split.gain *= factor


# All observed values left, all NaN right.
cdef inline void _try_apart(
    Scan* scan, double total, double weight, Split* split
) noexcept nogil:
    cdef double gain
    if scan.observed < scan.first or scan.observed > scan.last:
        return
    if weight < scan.min_weight or scan.weight - weight < scan.min_weight:
        return
    gain = total * total / (weight * (scan.weight - weight))
    if gain > split.gain + scan.tie:
        split.gain = gain
        split.position = scan.observed
        split.threshold = INFINITY
        split.nan_left = False


cdef inline bint _apart(Scan* scan, int64_t k) noexcept nogil:
    return scan.x[scan.column[k + 1]] > scan.x[scan.column[k]] + SAME_VALUE


cdef inline void _take(
    Scan* scan, Split* split, double gain, int64_t k, bint nan_left
) noexcept nogil:
    split.gain = gain
    split.position = k + 1
    split.threshold = 0.0
    split.nan_left = nan_left


cdef inline void _scan_unit(
    Scan* scan, const double* target, bint nan_left, double total, Split* split
) noexcept nogil:
    cdef const int32_t* column = scan.column
    cdef int64_t extra = scan.n - scan.observed if nan_left else 0
    cdef int64_t begin = max(scan.first - extra - 1, 0)
    cdef int64_t end = min(scan.observed - 1, scan.last - extra)
    cdef int64_t k
    cdef double n = <double> scan.n
    cdef double left, gain
    cdef double bar = split.gain + scan.tie if split.gain >= 0.0 else -1.0
    for k in range(begin):
        total += target[column[k]]
    left = <double> (begin + extra)
    for k in range(begin, end):
        total += target[column[k]]
        left += 1.0
        if total * total > bar * (left * (n - left)):
            if not _apart(scan, k):
                continue
            if left < scan.min_weight or n - left < scan.min_weight:
                continue
            gain = total * total / (left * (n - left))
            bar = gain + scan.tie
            _take(scan, split, gain, k, nan_left)


cdef inline void _scan_weighted(
    Scan* scan, const double* target, bint nan_left, double total, double left, Split* split
) noexcept nogil:
    cdef const int32_t* column = scan.column
    cdef int64_t extra = scan.n - scan.observed if nan_left else 0
    cdef int64_t begin = max(scan.first - extra - 1, 0)
    cdef int64_t end = min(scan.observed - 1, scan.last - extra)
    cdef int64_t k, i
    cdef double gain, right
    cdef double bar = split.gain + scan.tie if split.gain >= 0.0 else -1.0
    for k in range(begin):
        i = column[k]
        total += target[2 * i]
        left += target[2 * i + 1]
    for k in range(begin, end):
        i = column[k]
        total += target[2 * i]
        left += target[2 * i + 1]
        right = scan.weight - left
        if total * total > bar * (left * right):
            if not _apart(scan, k):
                continue
            if left < scan.min_weight or right < scan.min_weight:
                continue
            if right <= 0.0:
                continue
            gain = total * total / (left * right)
            bar = gain + scan.tie
            _take(scan, split, gain, k, nan_left)


cdef inline void _search_classes(
    Grower* g, Frame* frame, Scan* scan, Split* split
) noexcept nogil:
    scan.tie = TIE * frame.impurity
    _scan_classes(g, frame, scan, False, split)
    if scan.observed < scan.n:
        _scan_classes(g, frame, scan, True, split)


# Moving one row changes the sums of the two sides by the terms of its class only, so a row costs
# the same for 3 classes and for 3000.
cdef inline void _scan_classes(
    Grower* g, Frame* frame, Scan* scan, bint nan_left, Split* split
) noexcept nogil:
    cdef int64_t k, extra = 0
    cdef int64_t begin, end
    cdef double left = 0.0, right, left_sum = 0.0, right_sum = 0.0, node_sum, gain
    cdef double bar = split.gain + scan.tie if split.gain >= 0.0 else -1.0
    cdef bint entropy = g.criterion == ENTROPY
    _start_sides(g, frame)
    # Sum of squares, or of x log x, over the classes of the node, from its impurity.
    if entropy:
        node_sum = x_log_x(scan.weight) - scan.weight * frame.impurity
    else:
        node_sum = (1.0 - frame.impurity) * scan.weight * scan.weight
    right_sum = node_sum
    if nan_left:
        extra = scan.n - scan.observed
        for k in range(scan.observed, scan.n):
            _move(g, scan.column[k], entropy, &left, &left_sum, &right_sum)
    begin = max(scan.first - extra - 1, 0)
    end = min(scan.observed - 1, scan.last - extra)
    if not nan_left and scan.observed < scan.n and scan.observed <= scan.last:
        end = scan.observed
    for k in range(begin):
        _move(g, scan.column[k], entropy, &left, &left_sum, &right_sum)
    for k in range(begin, end):
        _move(g, scan.column[k], entropy, &left, &left_sum, &right_sum)
        right = scan.weight - left
        if entropy:
            gain = (
                left_sum - _term(g, left, True) + right_sum - _term(g, right, True)
            ) / scan.weight + frame.impurity
            if gain <= bar:
                continue
        else:
            # (left_sum / left + right_sum / right - node_sum / W) / W > bar, multiplied out.
            gain = left_sum * right + right_sum * left
            if gain <= (bar * scan.weight + node_sum / scan.weight) * (left * right):
                continue
        if k + 1 < scan.observed and not _apart(scan, k):
            continue
        if left < scan.min_weight or right < scan.min_weight or right <= 0.0:
            continue
        if not entropy:
            gain = (gain / (left * right) - node_sum / scan.weight) / scan.weight
        gain = max(gain, 0.0)
        bar = gain + scan.tie
        _take(scan, split, gain, k, nan_left)
        if k + 1 == scan.observed:
            split.threshold = INFINITY
    _clear_sides(g, frame)


cdef inline double _term(Grower* g, double x, bint entropy) noexcept nogil:
    if not entropy:
        return x * x
    if g.xlogx != NULL:
        return g.xlogx[<int64_t> x]
    return x_log_x(x)


cdef inline void _move(
    Grower* g, int32_t i, bint entropy, double* left, double* left_sum, double* right_sum
) noexcept nogil:
    cdef int32_t c = g.code[i]
    cdef double w = 1.0 if g.w == NULL else g.w[i]
    cdef double term
    left[0] += w
    if not entropy:
        left_sum[0] += w * (2.0 * g.left_counts[c] + w)
        right_sum[0] += w * (w - 2.0 * g.right_counts[c])
        g.left_counts[c] += w
        g.right_counts[c] -= w
        return
    g.left_counts[c] += w
    g.right_counts[c] -= w
    term = _term(g, g.left_counts[c], True)
    left_sum[0] += term - g.left_terms[c]
    g.left_terms[c] = term
    term = _term(g, g.right_counts[c], True)
    right_sum[0] += term - g.right_terms[c]
    g.right_terms[c] = term


cdef inline void _start_sides(Grower* g, Frame* frame) noexcept nogil:
    cdef int64_t k, c
    cdef bint few = g.n_classes <= frame.end - frame.start
    for k in range(g.n_classes if few else frame.end - frame.start):
        c = k if few else g.code[g.rows[frame.start + k]]
        g.right_counts[c] = g.counts[c]
        if g.criterion == ENTROPY:
            g.right_terms[c] = _term(g, g.counts[c], True)


cdef inline void _clear_sides(Grower* g, Frame* frame) noexcept nogil:
    clear_classes(g, frame, g.left_counts)
    clear_classes(g, frame, g.right_counts)
    if g.criterion == ENTROPY:
        clear_classes(g, frame, g.left_terms)
        clear_classes(g, frame, g.right_terms)
