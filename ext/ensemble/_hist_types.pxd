# The records that the parts of the histogram engine share.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from _types cimport GrowingTree, Rank


# Bins up to `bin` of the observed values go left, and the bin of NaN too if nan_left.
cdef struct BinSplit:
    int64_t feature
    int64_t bin
    int64_t n_left
    int64_t n_nan
    double left_weight
    double left_total
    double gain
    double net
    bint nan_left


# A leaf that may still be split: rows[start:end] are its rows.
cdef struct Leaf:
    Rank rank
    int64_t start
    int64_t end
    int64_t depth
    double weight
    double total                 # sum of w g
    double impurity
    uint64_t key
    double* hist                 # NULL where it was given up to save memory
    BinSplit split


cdef struct HistGrower:
    # Shared, read only: bin numbers (d, n), the price bits (n_bytes, n), the gradient.
    const uint8_t* codes
    int64_t n
    int64_t d
    const int32_t* n_bins        # bins of observed values; NaN has number n_bins[j]
    const uint8_t* has_nan
    const double* edges          # (d, slots): greatest value of each bin
    int64_t slots
    const uint8_t* priced        # NULL: nothing is priced
    int64_t n_bytes
    const int32_t* mask_row
    const float* g
    const double* w              # NULL: unit weights
    int n_threads
    # Rows of this tree, divided leaf by leaf.
    int32_t* rows
    int64_t n_rows
    int32_t* buffer
    float* ordered               # gradients of one leaf in the order of its rows
    double* partial              # sums by chunk of rows
    int64_t* counts
    # Histograms: d x slots bins of `stride` doubles, then 8 n_bytes penalty masses.
    int64_t stride
    int64_t block
    int64_t n_blocks
    int64_t max_blocks
    double** spare
    int64_t n_spare
    BinSplit* splits
    int64_t* features
    # Settings.
    double alpha
    bint stop_on_net_loss
    int64_t max_depth
    int64_t min_samples_split
    int64_t min_samples_leaf
    double min_weight_leaf
    double min_impurity_decrease
    int64_t max_features
    double root_weight
    double root_impurity
    # Result.
    GrowingTree tree
    int64_t* bins                # the bin of each node's split, in room for as many
