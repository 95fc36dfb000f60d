# The records that the parts of the tree core share.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t


cdef enum Criterion:
    SQUARED_ERROR = 0
    GINI = 1
    ENTROPY = 2


cdef enum Scope:
    NODE_SCOPE = 0
    FEATURE_SCOPE = 1
    ROW_SCOPE = 2


# Every field has eight bytes, so that the array of records is a numpy structured array as it is.
cdef struct Node:
    int64_t left
    int64_t right
    int64_t feature
    double threshold
    double impurity
    int64_t n_samples
    double weight
    int64_t missing_go_to_left
    int64_t parent
    double value                 # mean target, or share of class 1 of two


# The nodes there are, in room for `capacity` of them.
cdef struct GrowingTree:
    Node* nodes
    int64_t n_nodes
    int64_t capacity
    int64_t max_nodes
    int64_t depth


# When a record that waits on a heap has its turn.
cdef struct Rank:
    double priority
    int64_t node


# A node that waits to be searched or divided: rows[start:end] are its rows.
cdef struct Frame:
    int64_t start
    int64_t end
    int64_t depth
    int64_t parent
    int64_t node
    double weight
    double impurity
    double mean
    uint64_t key
    bint is_left
    bint splittable


# `position` observed rows of the sorted column go left, and the NaN rows too if nan_left.
cdef struct Split:
    int64_t feature
    int64_t position
    int64_t n_left
    int64_t n_nan
    double threshold
    double gain
    double net
    bint nan_left


cdef struct Candidate:
    Rank rank
    Frame frame
    Split split


cdef struct Grower:
    # Shared, read only: columns (d, n) and the masks of the columns that miss something.
    const float* X
    int64_t n
    int64_t d
    const uint8_t* mask
    const uint8_t* priced
    const int32_t* mask_row
    const uint8_t* has_nan
    const double* y
    const int32_t* code
    const double* w              # NULL: unit weights
    # This tree's own order (d, stride) and rows, both divided node by node.
    int32_t* order
    int64_t stride
    int32_t* rows
    int64_t n_rows
    int32_t* buffer
    uint8_t* side
    uint8_t* relied              # ROW_SCOPE: the row has read a missing value already
    int64_t* leaf
    # Scratch of the split search.
    double* target               # w (y - mean) per row; with weights interleaved with w
    double* counts
    double* left_counts
    double* right_counts
    double* left_terms
    double* right_terms
    double* xlogx                # x log2 x at 0..n, for unit weights
    int64_t* features
    int64_t* used_at             # FEATURE_SCOPE: stamp of the last node whose path uses it
    int64_t stamp
    Split* splits
    # Settings.
    Criterion criterion
    int64_t n_classes
    double alpha
    Scope scope
    bint stop_on_net_loss
    int64_t max_depth
    int64_t min_samples_split
    int64_t min_samples_leaf
    double min_weight_leaf
    double min_impurity_decrease
    int64_t max_features
    double total_weight
    # Result.
    GrowingTree tree
