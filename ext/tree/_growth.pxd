# What every way to grow a tree has in common: the array of nodes, whether a split is worth its
# price, and the order in which leaves are split best first.
from libc.float cimport DBL_EPSILON
from libc.stdint cimport int64_t
from libc.stdlib cimport malloc, realloc
from libc.string cimport memcpy

from _types cimport GrowingTree, Node, Rank


cdef enum Status:
    DONE = 0
    NO_MEMORY = 1
    TOO_MANY_NODES = 2


cdef inline Status plant(GrowingTree* tree, int64_t max_nodes) noexcept nogil:
    tree.n_nodes = 0
    tree.capacity = 64
    tree.max_nodes = max_nodes
    tree.depth = 0
    tree.nodes = <Node*> malloc(tree.capacity * sizeof(Node))
    return NO_MEMORY if tree.nodes == NULL else DONE


# Appends a leaf of which weight, impurity, value, rows and parent are known.
cdef inline Status append_leaf(
    GrowingTree* tree, Node* leaf, bint is_left, int64_t depth
) noexcept nogil:
    cdef Node* larger
    if tree.n_nodes >= tree.max_nodes:
        return TOO_MANY_NODES
    if tree.n_nodes == tree.capacity:
        larger = <Node*> realloc(tree.nodes, 2 * tree.capacity * sizeof(Node))
        if larger == NULL:
            return NO_MEMORY
        tree.nodes = larger
        tree.capacity *= 2
    leaf.left = -1
    leaf.right = -1
    leaf.feature = -2
    leaf.threshold = -2.0
    leaf.missing_go_to_left = 0
    tree.nodes[tree.n_nodes] = leaf[0]
    if leaf.parent >= 0:
        if is_left:
            tree.nodes[leaf.parent].left = tree.n_nodes
        else:
            tree.nodes[leaf.parent].right = tree.n_nodes
    tree.n_nodes += 1
    tree.depth = max(tree.depth, depth)
    return DONE


# `gain` is the decrease of the impurity, `net` what the price leaves of it.
cdef inline bint is_worth_it(
    double gain, double net, double impurity, double weight, double total_weight,
    double min_impurity_decrease, bint stop_on_net_loss,
) noexcept nogil:
    # The limit on the decrease is about the impurity alone, as in scikit-learn.
    if gain * weight / total_weight + DBL_EPSILON < min_impurity_decrease:
        return False
    return not (stop_on_net_loss and net <= 1e-10 * impurity)


# The greater priority comes first, of equal ones the older node.
cdef inline bint _comes_first(const char* record, const char* other) noexcept nogil:
    cdef const Rank* a = <const Rank*> record
    cdef const Rank* b = <const Rank*> other
    if a.priority != b.priority:
        return a.priority > b.priority
    return a.node < b.node


# A heap of records of `width` bytes, each of which starts with its Rank.
cdef inline void push(
    void* heap, int64_t* size, const void* record, int64_t width
) noexcept nogil:
    cdef char* records = <char*> heap
    cdef int64_t at = size[0], above
    size[0] += 1
    while at > 0:
        above = (at - 1) // 2
        if not _comes_first(<const char*> record, records + above * width):
            break
        memcpy(records + at * width, records + above * width, width)
        at = above
    memcpy(records + at * width, record, width)


# Takes the first record off; the last one fills the gap from behind the shortened heap.
cdef inline void pop(void* heap, int64_t* size, int64_t width) noexcept nogil:
    cdef char* records = <char*> heap
    cdef char* last
    cdef int64_t at = 0, below
    size[0] -= 1
    if size[0] == 0:
        return
    last = records + size[0] * width
    while True:
        below = 2 * at + 1
        if below >= size[0]:
            break
        if below + 1 < size[0] and _comes_first(
            records + (below + 1) * width, records + below * width
        ):
            below += 1
        if not _comes_first(records + below * width, last):
            break
        memcpy(records + at * width, records + below * width, width)
        at = below
    memcpy(records + at * width, last, width)
