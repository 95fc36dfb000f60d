"""Grow one tree on presorted columns, depth first or best first.

Node numbers follow scikit-learn's: depth first in preorder, best first in the order in which
nodes are created, so that a tree without a penalty is the same array of nodes.
"""
import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy

from _criterion cimport by_variance, node_statistics, x_log_x
from _growth cimport (
    append_leaf, DONE, is_worth_it, NO_MEMORY, plant, pop, push, Status, TOO_MANY_NODES
)
from _partition cimport divide, divide_columns, mark_sides
from _penalty cimport mark_readers
from _split cimport find_split, mix
from _types cimport (
    Candidate, Criterion, ENTROPY, Frame, Grower, Node, ROW_SCOPE, Scope, Split
)

NODE_FIELDS = np.dtype(
    [
        ("left_child", np.int64),
        ("right_child", np.int64),
        ("feature", np.int64),
        ("threshold", np.float64),
        ("impurity", np.float64),
        ("n_node_samples", np.int64),
        ("weighted_n_node_samples", np.float64),
        ("missing_go_to_left", np.int64),
        ("parent", np.int64),
        ("value", np.float64),
    ]
)


def grow(
    const float[:, ::1] columns,
    order,
    const double[::1] y,
    const int32_t[::1] codes,
    const double[::1] sample_weight,
    const uint8_t[:, ::1] mask,
    const uint8_t[:, ::1] priced,
    const int32_t[::1] mask_row,
    const uint8_t[::1] has_nan,
    *,
    int criterion,
    int64_t n_classes,
    double alpha,
    int scope,
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
    bint overwrite,
):
    """Grow one tree; releases the GIL.

    Parameters
    ----------
    columns : float32 array (n_features, n_samples)
    order : int32 array (n_features, n_samples)
        From ``presort_columns``.  Shared by all trees; divided in place if `overwrite`.
    y : float64 array (n_samples,) or None
        Target of the squared error.
    codes : int32 array (n_samples,) or None
        Class numbers, for Gini and entropy.
    sample_weight : float64 array (n_samples,) or None
        None stands for ones.  Rows of weight 0 take no part.
    mask, priced : uint8 arrays (n_missing_columns, n_samples) or None
        Missing cells m, and cells that cost something s·m, of the columns that miss a value.
    mask_row : int32 array (n_features,)
        The row of `mask` that belongs to a feature, or -1.
    has_nan : uint8 array (n_features,)
        Which columns contain NaN, sorted last; the better side is learnt for them.

    Returns
    -------
    nodes : structured array (n_nodes,) of NODE_FIELDS
    leaf : int64 array (n_samples,)
        Leaf of every row that took part, -1 for the others.
    depth : int
    """
    cdef Grower g
    cdef int64_t n = columns.shape[1]
    cdef int32_t[:, ::1] working
    cdef const int32_t[:, ::1] shared = order
    cdef int64_t[::1] leaf
    cdef Status status
    if n == 0 or columns.shape[0] == 0:
        raise ValueError(f"columns must not be empty, got {columns.shape[0]} x {n}")
    if shared.shape[0] != columns.shape[0] or shared.shape[1] != n:
        raise ValueError("order must have the shape of columns")
    leaf_ids = np.full(n, -1, dtype=np.int64)
    leaf = leaf_ids
    if overwrite:
        working = order
    else:
        working = np.empty((columns.shape[0], n), dtype=np.int32)

    g.X = &columns[0, 0]
    g.n = n
    g.d = columns.shape[0]
    g.mask = NULL
    g.priced = NULL
    if mask is not None and mask.shape[0] > 0:
        g.mask = &mask[0, 0]
        g.priced = &priced[0, 0]
    g.mask_row = &mask_row[0]
    g.has_nan = &has_nan[0]
    g.y = NULL
    g.code = NULL
    g.w = NULL
    if y is not None:
        g.y = &y[0]
    if codes is not None:
        g.code = &codes[0]
    if sample_weight is not None:
        g.w = &sample_weight[0]
    g.order = &working[0, 0]
    g.stride = n
    g.leaf = &leaf[0]
    g.criterion = <Criterion> criterion
    g.n_classes = n_classes
    g.alpha = alpha
    g.scope = <Scope> scope
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
                _take_rows(&g, &shared[0, 0])
                if max_leaf_nodes < 0:
                    status = _depth_first(&g, seed)
                else:
                    status = _best_first(&g, seed, max_leaf_nodes)
        if status == NO_MEMORY:
            raise MemoryError(f"no memory left while growing a tree on {n} rows")
        if status == TOO_MANY_NODES:
            raise MemoryError(
                f"the tree needs more than {max_nodes} nodes, and the values of so many nodes "
                f"with {n_classes} classes take {8e-9 * max_nodes * n_classes:.1f} GB; "
                "set max_depth or max_leaf_nodes"
            )
        nodes = np.empty(g.tree.n_nodes, dtype=NODE_FIELDS)
        _copy_nodes(nodes.view(np.uint8), &g)
        return nodes, leaf_ids, g.tree.depth
    finally:
        _release(&g)


cdef void _copy_nodes(uint8_t[::1] out, Grower* g):
    memcpy(&out[0], g.tree.nodes, g.tree.n_nodes * sizeof(Node))


cdef Status _allocate(Grower* g, int64_t max_nodes) noexcept nogil:
    cdef int64_t k, classes = 0 if by_variance(g) and g.n_classes != 2 else g.n_classes
    cdef Status planted = plant(&g.tree, max_nodes)
    g.n_rows = 0
    g.stamp = 0
    g.rows = <int32_t*> malloc(g.n * sizeof(int32_t))
    g.buffer = <int32_t*> malloc(g.n * sizeof(int32_t))
    g.side = <uint8_t*> malloc(g.n)
    g.relied = NULL
    if g.scope == ROW_SCOPE:
        g.relied = <uint8_t*> calloc(g.n, 1)
    g.target = NULL
    if by_variance(g):
        g.target = <double*> malloc(g.n * sizeof(double) * (1 if g.w == NULL else 2))
    # Five arrays over the classes in one block.
    g.counts = <double*> calloc(5 * classes + 1, sizeof(double))
    g.left_counts = g.counts + classes
    g.right_counts = g.counts + 2 * classes
    g.left_terms = g.counts + 3 * classes
    g.right_terms = g.counts + 4 * classes
    g.xlogx = NULL
    if g.criterion == ENTROPY and g.w == NULL:
        g.xlogx = <double*> malloc((g.n + 1) * sizeof(double))
    g.features = <int64_t*> malloc(g.d * sizeof(int64_t))
    g.used_at = <int64_t*> calloc(g.d, sizeof(int64_t))
    g.splits = <Split*> malloc(g.d * sizeof(Split))
    if (
        planted != DONE
        or g.rows == NULL or g.buffer == NULL or g.side == NULL or g.counts == NULL
        or g.features == NULL or g.used_at == NULL or g.splits == NULL
        or (g.scope == ROW_SCOPE and g.relied == NULL)
        or (by_variance(g) and g.target == NULL)
        or (g.criterion == ENTROPY and g.w == NULL and g.xlogx == NULL)
    ):
        return NO_MEMORY
    if g.xlogx != NULL:
        for k in range(g.n + 1):
            g.xlogx[k] = x_log_x(<double> k)
    return DONE


cdef void _release(Grower* g) noexcept nogil:
    free(g.rows)
    free(g.buffer)
    free(g.side)
    free(g.relied)
    free(g.target)
    free(g.counts)
    free(g.xlogx)
    free(g.features)
    free(g.used_at)
    free(g.splits)
    free(g.tree.nodes)


# Rows of positive weight, in row order and in the order of every column.
cdef void _take_rows(Grower* g, const int32_t* shared) noexcept nogil:
    cdef int64_t j, k, taken
    cdef int32_t i
    cdef const int32_t* source
    cdef int32_t* sink
    for k in range(g.n):
        if g.w == NULL or g.w[k] > 0.0:
            g.rows[g.n_rows] = <int32_t> k
            g.n_rows += 1
    for j in range(g.d):
        source = shared + j * g.n
        sink = g.order + j * g.stride
        if g.n_rows == g.n:
            if source != sink:
                memcpy(sink, source, g.n * sizeof(int32_t))
            continue
        taken = 0
        for k in range(g.n):
            i = source[k]
            if g.w[i] > 0.0:
                sink[taken] = i
                taken += 1


cdef Status _depth_first(Grower* g, uint64_t seed) noexcept nogil:
    cdef int64_t capacity = 64, waiting = 1
    cdef Frame* stack = <Frame*> malloc(capacity * sizeof(Frame))
    cdef Frame* larger
    cdef Frame frame
    cdef Split split
    cdef Status status = DONE
    if stack == NULL:
        return NO_MEMORY
    _start(g, seed, &stack[0])
    while waiting > 0:
        waiting -= 1
        frame = stack[waiting]
        status = _add_node(g, &frame)
        if status != DONE:
            break
        if not _search(g, &frame, &split):
            _make_leaf(g, &frame)
            continue
        if waiting + 2 > capacity:
            capacity *= 2
            larger = <Frame*> realloc(stack, capacity * sizeof(Frame))
            if larger == NULL:
                status = NO_MEMORY
                break
            stack = larger
        # The left child comes off the stack first.
        _split_node(g, &frame, &split, &stack[waiting + 1], &stack[waiting])
        waiting += 2
    free(stack)
    return status


cdef Status _best_first(Grower* g, uint64_t seed, int64_t max_leaf_nodes) noexcept nogil:
    cdef int64_t size = 0, k, left = max_leaf_nodes - 1
    # At most one candidate per leaf.
    cdef int64_t capacity = min(max_leaf_nodes, g.n_rows) + 2
    cdef Candidate* heap = <Candidate*> malloc(capacity * sizeof(Candidate))
    cdef Candidate best
    cdef Frame[2] children
    cdef Status status
    if heap == NULL:
        return NO_MEMORY
    _start(g, seed, &children[0])
    status = _offer(g, &children[0], heap, &size)
    while status == DONE and size > 0 and left > 0:
        left -= 1
        best = heap[0]
        pop(heap, &size, sizeof(Candidate))
        _split_node(g, &best.frame, &best.split, &children[0], &children[1])
        for k in range(2):
            if status == DONE:
                status = _offer(g, &children[k], heap, &size)
    for k in range(size):
        _make_leaf(g, &heap[k].frame)
    free(heap)
    return status


# A new node becomes a leaf or waits on the heap by its penalised gain.
cdef Status _offer(
    Grower* g, Frame* frame, Candidate* heap, int64_t* size
) noexcept nogil:
    cdef Candidate candidate
    cdef Status status = _add_node(g, frame)
    if status != DONE:
        return status
    if not _search(g, frame, &candidate.split):
        _make_leaf(g, frame)
        return DONE
    candidate.frame = frame[0]
    candidate.rank.node = frame.node
    candidate.rank.priority = candidate.split.net * frame.weight / g.total_weight
    push(heap, size, &candidate, sizeof(Candidate))
    return DONE


cdef void _start(Grower* g, uint64_t seed, Frame* root) noexcept nogil:
    root.start = 0
    root.end = g.n_rows
    root.depth = 0
    root.parent = -1
    root.is_left = False
    root.key = mix(seed)
    _describe(g, root)
    g.total_weight = root.weight


cdef void _describe(Grower* g, Frame* frame) noexcept nogil:
    cdef int64_t n = frame.end - frame.start
    cdef bint differ = node_statistics(g, frame)
    frame.splittable = (
        differ
        and frame.depth < g.max_depth
        and n >= g.min_samples_split
        and frame.weight >= 2.0 * g.min_weight_leaf
    )


cdef Status _add_node(Grower* g, Frame* frame) noexcept nogil:
    cdef Node leaf
    frame.node = g.tree.n_nodes
    leaf.parent = frame.parent
    leaf.n_samples = frame.end - frame.start
    leaf.weight = frame.weight
    leaf.impurity = frame.impurity
    leaf.value = frame.mean
    return append_leaf(&g.tree, &leaf, frame.is_left, frame.depth)


cdef bint _search(Grower* g, Frame* frame, Split* split) noexcept nogil:
    if not frame.splittable:
        return False
    find_split(g, frame, split)
    if split.feature < 0:
        return False
    return is_worth_it(
        split.gain, split.net, frame.impurity, frame.weight, g.total_weight,
        g.min_impurity_decrease, g.stop_on_net_loss,
    )


cdef void _make_leaf(Grower* g, Frame* frame) noexcept nogil:
    cdef int64_t k
    for k in range(frame.start, frame.end):
        g.leaf[g.rows[k]] = frame.node


cdef void _split_node(
    Grower* g, Frame* frame, Split* split, Frame* left, Frame* right
) noexcept nogil:
    cdef int64_t n = frame.end - frame.start
    cdef Frame parent = frame[0]
    cdef Node* node = &g.tree.nodes[parent.node]
    node.feature = split.feature
    node.threshold = split.threshold
    # Where no NaN was seen, those met at prediction follow the larger child.
    node.missing_go_to_left = split.nan_left
    if split.n_nan == 0:
        node.missing_go_to_left = split.n_left > n - split.n_left
    mark_readers(g, &parent, split.feature)
    mark_sides(g, &parent, split)
    divide(g.rows + parent.start, n, g.side, g.buffer)

    left.start = parent.start
    left.end = parent.start + split.n_left
    left.is_left = True
    left.key = mix(parent.key + 1)
    right.start = left.end
    right.end = parent.end
    right.is_left = False
    right.key = mix(parent.key + 2)
    left.depth = parent.depth + 1
    right.depth = parent.depth + 1
    left.parent = parent.node
    right.parent = parent.node
    _describe(g, left)
    _describe(g, right)
    divide_columns(g, &parent, split, left.splittable, right.splittable)
