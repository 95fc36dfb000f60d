"""Grow one tree on binned columns, leaf by leaf, with OpenMP.

The criterion and the price are those of the presorted engine; thresholds are the edges of bins.
"""
import numpy as np

from cython.parallel cimport prange

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy

from _growth cimport (
    append_leaf, DONE, is_worth_it, NO_MEMORY, plant, pop, push, Status, TOO_MANY_NODES
)
from _hist_build cimport CHUNK, build, gather, skml_max_threads, subtract
from _hist_rows cimport divide_rows, mark_leaf
from _hist_split cimport find_bin_split
from _hist_types cimport BinSplit, HistGrower, Leaf
from _split cimport mix
from _types cimport Node

cdef enum:
    # Histograms that wait for their leaf to be split may take this many bytes in all.
    HISTOGRAM_BYTES = 268435456

# A leaf whose sum of squares is below this share of the root's holds rounding alone.
cdef double PURE = 1e-12


def max_threads():
    """Threads that OpenMP would use now."""
    return skml_max_threads()


def grow_binned(
    const uint8_t[:, ::1] codes,
    const int32_t[::1] n_bins,
    const uint8_t[::1] has_nan,
    const double[:, ::1] edges,
    const uint8_t[:, ::1] priced,
    const int32_t[::1] mask_row,
    const float[::1] gradient,
    const double[::1] sample_weight,
    const int32_t[::1] rows,
    *,
    double alpha,
    bint stop_on_net_loss,
    int64_t max_depth,
    int64_t min_samples_split,
    int64_t min_samples_leaf,
    double min_weight_leaf,
    double min_impurity_decrease,
    int64_t max_features,
    int64_t max_leaf_nodes,
    int64_t max_nodes,
    uint64_t seed,
    int n_threads,
):
    """Grow one tree; releases the GIL.

    Parameters
    ----------
    codes : uint8 array (n_features, n_samples)
        Bin of every cell; NaN has the number ``n_bins[j]`` where ``has_nan[j]``.
    n_bins : int32 array (n_features,)
    has_nan : uint8 array (n_features,)
    edges : float64 array (n_features, slots)
        Greatest value of each bin, infinite in the last.
    priced : uint8 array (n_bytes, n_samples) or None
        Bit ``r % 8`` of byte ``r // 8`` says whether the cell costs something, for the feature j
        with ``mask_row[j] == r``.
    mask_row : int32 array (n_features,)
        -1 for features that miss nothing.
    gradient : float32 array (n_samples,)
        Target of the tree.
    sample_weight : float64 array (n_samples,) or None
    rows : int32 array or None
        Rows that take part, ascending; None for all.
    max_leaf_nodes : int
        Negative: no limit.
    n_threads : int

    Returns
    -------
    nodes : uint8 array
        Records of the tree core, 80 bytes each.
    leaf : int32 array (n_samples,)
        Leaf of every row, also of those that took no part.
    depth : int
    """
    cdef HistGrower g
    cdef Status status
    cdef int32_t[::1] leaf_of
    cdef const int32_t* taken = NULL
    g.n = codes.shape[1]
    g.d = codes.shape[0]
    if g.n == 0 or g.d == 0:
        raise ValueError(f"codes must not be empty, got {g.d} x {g.n}")
    leaf_ids = np.full(g.n, -1, dtype=np.int32)
    leaf_of = leaf_ids
    g.codes = &codes[0, 0]
    g.n_bins = &n_bins[0]
    g.has_nan = &has_nan[0]
    g.edges = &edges[0, 0]
    g.slots = edges.shape[1]
    g.priced = NULL
    g.n_bytes = 0
    if priced is not None and priced.shape[0] > 0 and alpha > 0.0:
        g.priced = &priced[0, 0]
        g.n_bytes = priced.shape[0]
    g.mask_row = &mask_row[0]
    g.g = &gradient[0]
    g.w = NULL
    if sample_weight is not None:
        g.w = &sample_weight[0]
    g.n_threads = max(1, n_threads)
    g.n_rows = g.n
    if rows is not None:
        g.n_rows = rows.shape[0]
        taken = &rows[0]
    g.stride = 2 if g.w == NULL else 4
    g.block = g.d * g.slots * g.stride + 8 * g.n_bytes
    g.max_blocks = max(64, HISTOGRAM_BYTES // (8 * g.block))
    g.alpha = alpha
    g.stop_on_net_loss = stop_on_net_loss
    g.max_depth = max_depth
    g.min_samples_leaf = min_samples_leaf
    g.min_samples_split = max(min_samples_split, 2 * min_samples_leaf)
    g.min_weight_leaf = min_weight_leaf
    g.min_impurity_decrease = min_impurity_decrease
    g.max_features = max_features
    try:
        with nogil:
            status = _allocate(&g, max_nodes)
            if status == DONE:
                _take(&g, taken)
                status = _grow(&g, seed, max_leaf_nodes, &leaf_of[0])
            if status == DONE and g.n_rows < g.n:
                _route(&g, &leaf_of[0])
        if status == NO_MEMORY:
            raise MemoryError(f"no memory left while growing a tree on {g.n} rows")
        if status == TOO_MANY_NODES:
            raise MemoryError(
                f"the tree needs more than {max_nodes} nodes; set max_depth or max_leaf_nodes"
            )
        nodes = np.empty(g.tree.n_nodes * sizeof(Node), dtype=np.uint8)
        _copy_nodes(nodes, &g)
        return nodes, leaf_ids, g.tree.depth
    finally:
        _release(&g)


cdef void _copy_nodes(uint8_t[::1] out, HistGrower* g):
    memcpy(&out[0], g.tree.nodes, g.tree.n_nodes * sizeof(Node))


cdef Status _allocate(HistGrower* g, int64_t max_nodes) noexcept nogil:
    cdef int64_t n_chunks = g.n_rows // CHUNK + 1
    cdef Status planted = plant(&g.tree, max_nodes)
    g.n_blocks = 0
    g.n_spare = 0
    g.rows = <int32_t*> malloc(g.n_rows * sizeof(int32_t))
    g.buffer = <int32_t*> malloc(g.n_rows * sizeof(int32_t))
    g.ordered = <float*> malloc(g.n_rows * (1 if g.w == NULL else 2) * sizeof(float))
    g.partial = <double*> malloc(3 * n_chunks * sizeof(double))
    g.counts = <int64_t*> malloc(3 * n_chunks * sizeof(int64_t))
    # Two more than wait: those of the leaf that is being split.
    g.spare = <double**> calloc(g.max_blocks + 4, sizeof(double*))
    g.splits = <BinSplit*> malloc(g.d * sizeof(BinSplit))
    g.features = <int64_t*> malloc(g.d * sizeof(int64_t))
    g.bins = <int64_t*> malloc(g.tree.capacity * sizeof(int64_t))
    if (
        planted != DONE
        or g.rows == NULL or g.buffer == NULL or g.ordered == NULL or g.partial == NULL
        or g.counts == NULL or g.spare == NULL or g.splits == NULL or g.features == NULL
        or g.bins == NULL
    ):
        return NO_MEMORY
    return DONE


cdef void _release(HistGrower* g) noexcept nogil:
    cdef int64_t k
    if g.spare != NULL:
        for k in range(g.n_spare):
            free(g.spare[k])
    free(g.rows)
    free(g.buffer)
    free(g.ordered)
    free(g.partial)
    free(g.counts)
    free(g.spare)
    free(g.splits)
    free(g.features)
    free(g.tree.nodes)
    free(g.bins)


cdef void _take(HistGrower* g, const int32_t* rows) noexcept nogil:
    cdef int64_t k
    if rows != NULL:
        memcpy(g.rows, rows, g.n_rows * sizeof(int32_t))
        return
    for k in range(g.n_rows):
        g.rows[k] = <int32_t> k


cdef double* _borrow(HistGrower* g) noexcept nogil:
    g.n_blocks += 1
    if g.n_spare > 0:
        g.n_spare -= 1
        return g.spare[g.n_spare]
    return <double*> malloc(g.block * sizeof(double))


cdef void _give_back(HistGrower* g, Leaf* leaf) noexcept nogil:
    if leaf.hist == NULL:
        return
    g.n_blocks -= 1
    g.spare[g.n_spare] = leaf.hist
    g.n_spare += 1
    leaf.hist = NULL


# `waiting` is a heap by penalised gain under a limit on the leaves, else a stack.
cdef Status _grow(
    HistGrower* g, uint64_t seed, int64_t max_leaf_nodes, int32_t* leaf_of
) noexcept nogil:
    cdef int64_t size = 0, k, capacity = 64
    cdef int64_t left = max_leaf_nodes - 1 if max_leaf_nodes >= 0 else g.tree.max_nodes
    cdef bint best_first = max_leaf_nodes >= 0
    cdef Leaf* waiting = <Leaf*> malloc(capacity * sizeof(Leaf))
    cdef Leaf* larger
    cdef Leaf leaf
    cdef Leaf[2] children
    cdef Status status
    if waiting == NULL:
        return NO_MEMORY
    status = _plant(g, seed, &leaf)
    if status == DONE and leaf.split.feature >= 0:
        waiting[0] = leaf
        size = 1
    elif status == DONE:
        _give_back(g, &leaf)
        mark_leaf(g, &leaf, leaf_of)
    while status == DONE and size > 0 and left > 0:
        left -= 1
        leaf = waiting[0] if best_first else waiting[size - 1]
        if best_first:
            pop(waiting, &size, sizeof(Leaf))
        else:
            size -= 1
        status = _split_leaf(g, &leaf, &children[0], &children[1])
        if status != DONE:
            break
        if size + 2 > capacity:
            larger = <Leaf*> realloc(waiting, 2 * capacity * sizeof(Leaf))
            if larger == NULL:
                status = NO_MEMORY
                break
            waiting = larger
            capacity *= 2
        for k in range(2):
            if children[k].split.feature < 0:
                _give_back(g, &children[k])
                mark_leaf(g, &children[k], leaf_of)
            elif best_first:
                push(waiting, &size, &children[k], sizeof(Leaf))
            else:
                waiting[size] = children[k]
                size += 1
    for k in range(size):
        _give_back(g, &waiting[k])
        mark_leaf(g, &waiting[k], leaf_of)
    free(waiting)
    return status


cdef Status _plant(HistGrower* g, uint64_t seed, Leaf* root) noexcept nogil:
    cdef double squares, mean
    cdef Status status
    root.start = 0
    root.end = g.n_rows
    root.depth = 0
    root.key = mix(seed)
    root.hist = NULL
    squares = gather(g, root, &root.weight, &root.total)
    mean = root.total / root.weight
    root.impurity = max(squares / root.weight - mean * mean, 0.0)
    g.root_weight = root.weight
    g.root_impurity = root.impurity
    status = _add_node(g, root, -1, False)
    root.split.feature = -1
    if status != DONE or not _splittable(g, root):
        return status
    root.hist = _borrow(g)
    if root.hist == NULL:
        return NO_MEMORY
    build(g, root, root.hist)
    _search(g, root)
    return DONE


cdef bint _splittable(HistGrower* g, Leaf* leaf) noexcept nogil:
    return (
        leaf.depth < g.max_depth
        and leaf.end - leaf.start >= g.min_samples_split
        and leaf.weight >= 2.0 * g.min_weight_leaf
        and leaf.impurity * leaf.weight > PURE * g.root_impurity * g.root_weight
    )


cdef void _search(HistGrower* g, Leaf* leaf) noexcept nogil:
    cdef BinSplit* split = &leaf.split
    find_bin_split(g, leaf)
    if split.feature < 0:
        return
    leaf.rank.priority = split.net * leaf.weight / g.root_weight
    if not is_worth_it(
        split.gain, split.net, leaf.impurity, leaf.weight, g.root_weight,
        g.min_impurity_decrease, g.stop_on_net_loss,
    ):
        split.feature = -1


cdef Status _split_leaf(HistGrower* g, Leaf* parent, Leaf* left, Leaf* right) noexcept nogil:
    cdef Node* node = &g.tree.nodes[parent.rank.node]
    cdef BinSplit* split = &parent.split
    cdef Leaf* small = left
    cdef Leaf* large = right
    cdef double squares, weight, total, mean
    cdef bint small_goes_on, large_goes_on
    cdef int64_t n = parent.end - parent.start
    cdef Status status
    node.feature = split.feature
    node.threshold = g.edges[split.feature * g.slots + split.bin]
    node.missing_go_to_left = split.nan_left
    if split.n_nan == 0:
        node.missing_go_to_left = split.n_left > n - split.n_left
    g.bins[parent.rank.node] = split.bin
    if parent.hist == NULL:
        # Given up to save memory: made again before the rows are divided.
        parent.hist = _borrow(g)
        if parent.hist == NULL:
            return NO_MEMORY
        gather(g, parent, &weight, &total)
        build(g, parent, parent.hist)
    divide_rows(g, parent)
    _bear(parent, left, right)
    if split.n_left > n - split.n_left:
        small, large = right, left
    # The parts of the variance within and between the children add up to the parent's.
    squares = gather(g, small, &weight, &total)
    mean = small.total / small.weight
    small.impurity = max(squares / small.weight - mean * mean, 0.0)
    large.impurity = max(
        (
            parent.weight * (parent.impurity - split.gain) - small.weight * small.impurity
        ) / large.weight,
        0.0,
    )
    status = _add_node(g, left, parent.rank.node, True)
    if status == DONE:
        status = _add_node(g, right, parent.rank.node, False)
    small_goes_on = _splittable(g, small)
    large_goes_on = _splittable(g, large)
    if status != DONE or not (small_goes_on or large_goes_on):
        _give_back(g, parent)
        return status
    small.hist = _borrow(g)
    if small.hist == NULL:
        _give_back(g, parent)
        return NO_MEMORY
    build(g, small, small.hist)
    large.hist = parent.hist
    if large_goes_on:
        subtract(g, large.hist, small.hist)
        _search(g, large)
    if small_goes_on:
        _search(g, small)
    if g.n_blocks > g.max_blocks:
        _give_back(g, small)
        _give_back(g, large)
    return DONE


cdef void _bear(Leaf* parent, Leaf* left, Leaf* right) noexcept nogil:
    left.start = parent.start
    left.end = parent.start + parent.split.n_left
    left.key = mix(parent.key + 1)
    left.weight = parent.split.left_weight
    left.total = parent.split.left_total
    right.start = left.end
    right.end = parent.end
    right.key = mix(parent.key + 2)
    right.weight = parent.weight - left.weight
    right.total = parent.total - left.total
    left.depth = parent.depth + 1
    right.depth = parent.depth + 1
    left.hist = NULL
    right.hist = NULL
    left.split.feature = -1
    right.split.feature = -1


cdef Status _add_node(HistGrower* g, Leaf* leaf, int64_t parent, bint is_left) noexcept nogil:
    cdef int64_t capacity = g.tree.capacity
    cdef int64_t* larger
    cdef Node node
    cdef Status status
    leaf.rank.node = g.tree.n_nodes
    node.parent = parent
    node.n_samples = leaf.end - leaf.start
    node.weight = leaf.weight
    node.impurity = leaf.impurity
    node.value = leaf.total / leaf.weight
    status = append_leaf(&g.tree, &node, is_left, leaf.depth)
    if g.tree.capacity > capacity:
        larger = <int64_t*> realloc(g.bins, g.tree.capacity * sizeof(int64_t))
        if larger == NULL:
            return NO_MEMORY
        g.bins = larger
    return status


# Rows that took no part pass the tree all the same: their missing cells are read by it too.
cdef void _route(HistGrower* g, int32_t* leaf_of) noexcept nogil:
    cdef int64_t i
    for i in prange(g.n, num_threads=g.n_threads, schedule="static"):
        if leaf_of[i] < 0:
            leaf_of[i] = _leaf_of_row(g, i)


cdef inline int32_t _leaf_of_row(HistGrower* g, int64_t i) noexcept nogil:
    cdef int64_t at = 0, code
    cdef Node* node = &g.tree.nodes[0]
    while node.left >= 0:
        code = g.codes[node.feature * g.n + i]
        if g.has_nan[node.feature] and code == g.n_bins[node.feature]:
            at = node.left if node.missing_go_to_left else node.right
        else:
            at = node.left if code <= g.bins[at] else node.right
        node = &g.tree.nodes[at]
    return <int32_t> at
