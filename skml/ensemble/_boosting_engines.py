"""The two ways to grow a boosted tree: presorted columns, exact; and histograms of bins.

Both hold the training rows, the missing cells and what these still cost (sigma), and answer the
same calls, so that boosting itself does not know which of them is at work.
"""

import numpy as np

from skml.tree._builder import NODE_FIELDS
from skml.tree._growing import UNLIMITED, GrownTree, grow_tree, most_nodes
from skml.tree._input import as_float32, float32_columns
from skml.tree._presorted import PresortedData
from skml.tree._reliance import mark_relied_rows, release_cells
from skml.utils._missing import ColumnImputer, impute

from ._binning import bin_edges
from ._binning_kernels import bin_columns, pack_bits, release_bits
from ._hist_builder import grow_binned
from ._stages import center_and_scale

__all__ = ["HistogramEngine", "PresortedEngine"]

ROWS_AT_ONCE = 65536


class PresortedEngine:
    """Exact growth; the sort is made once and shared by all trees.

    Parameters
    ----------
    X : float ndarray of shape (n_samples, n_features)
        Rows before imputation.
    mask : ndarray of shape (n_samples, n_features), dtype bool, or None
    imputer : fitted transformer, or None for native treatment of NaN
    penalty_scope : {"node", "feature", "row"}
        What a tree makes free for the trees after it.
    sample_weight : float64 ndarray of shape (n_samples,) or None

    Attributes
    ----------
    relied : uint8 ndarray of shape (n_samples,)
        1 for the rows that have read a missing value so far.
    """

    def __init__(self, X, mask, imputer, penalty_scope, sample_weight):
        self.data = PresortedData.from_columns(
            float32_columns(X, mask, imputer), mask, native=imputer is None
        )
        self.penalty_scope = penalty_scope
        self.weight = sample_weight
        self.priced = self.data.mask.copy()
        self.relied = np.zeros(len(X), dtype=np.uint8)

    def grow(self, target, settings, bag, seed):
        """Grow a tree on `target` with the rows of `bag` (None: all); see `grow_tree`."""
        weight = self.weight
        if bag is not None:
            weight = bag.astype(np.float64) if weight is None else weight * bag
        return grow_tree(
            self.data,
            settings,
            y=target,
            sample_weight=weight,
            priced=self.priced,
            seed=seed,
        )

    def leaves(self, tree, grown):
        """Leaf of every row, int32, also of those outside the bag."""
        leaf = grown.leaf.astype(np.int32)
        outside = np.flatnonzero(leaf < 0)
        if len(outside):
            leaf[outside] = tree.apply(np.ascontiguousarray(self.data.columns[:, outside].T))
        return leaf

    def read(self, leaf, parent, feature):
        """Take in what a tree reads: who relies, and what is free from now on."""
        if not len(self.data.mask):
            return
        leaf = leaf.astype(np.int64)
        masks = self.data.mask, self.data.mask_row
        mark_relied_rows(leaf, parent, feature, *masks, self.relied)
        if self.penalty_scope != "node":
            release_cells(leaf, parent, feature, *masks, self.priced, self.penalty_scope == "row")

    def read_cells(self, cells):
        """Take in which cells the initial estimator reads; bool (n_samples, n_features)."""
        for j in np.flatnonzero(self.data.mask_row >= 0):
            row = self.data.mask_row[j]
            read = cells[:, j] & (self.data.mask[row] == 1)
            self.relied[read] = 1
            if self.penalty_scope == "feature":
                self.priced[row, read] = 0
            elif self.penalty_scope == "row":
                self.priced[:, read] = 0

    def imputed_rows(self):
        """Yield (slice, float32 rows as predictions see them)."""
        for start in range(0, self.data.n_samples, ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            yield part, np.ascontiguousarray(self.data.columns[:, part].T)


class HistogramEngine:
    """Growth on at most 255 bins per column, with OpenMP; one byte per cell.

    Parameters
    ----------
    X : float ndarray of shape (n_samples, n_features)
        Rows before imputation.
    mask : ndarray of shape (n_samples, n_features), dtype bool, or None
    imputer : fitted transformer, or None for native treatment of NaN
    penalty_scope : {"node", "feature", "row"}
        What a tree makes free for the trees after it.
    sample_weight : float64 ndarray of shape (n_samples,) or None
        Weights of the rows, also in the quantiles that bound the bins.
    max_bins : int
    seed : int
    n_threads : int

    Attributes
    ----------
    relied : uint8 ndarray of shape (n_samples,)
        1 for the rows that have read a missing value so far.
    """

    def __init__(
        self, X, mask, imputer, penalty_scope, sample_weight, *, max_bins, seed, n_threads
    ):
        self.X, self.imputer, self.penalty_scope = X, imputer, penalty_scope
        self.n_threads = n_threads
        # Histograms take weights as float32: in a unit near the greatest, a power of two, so that
        # whole numbers stay exact.
        self.unit = 1.0
        self.weight = None
        if sample_weight is not None:
            self.unit = 2.0 ** np.floor(np.log2(sample_weight.max()))
            self.weight = sample_weight / self.unit
        built_in = imputer is None or isinstance(imputer, ColumnImputer)
        filled = X if built_in else impute(imputer, X)
        cuts = bin_edges(filled, mask, sample_weight, max_bins, seed=seed, n_threads=n_threads)
        self.n_bins = np.array([len(cut) + 1 for cut in cuts], dtype=np.int32)
        self.edges = np.full((len(cuts), self.n_bins.max() + 1), np.inf)
        for row, cut in zip(self.edges, cuts, strict=True):
            row[: len(cut)] = cut
        missing = np.zeros(X.shape[1], dtype=bool) if mask is None else mask.any(axis=0)
        self.has_nan = np.zeros(X.shape[1], dtype=np.uint8)
        nan_code = self.n_bins.copy()
        if imputer is None:
            nan_columns = [j for j in np.flatnonzero(missing) if np.isnan(X[:, j]).any()]
            self.has_nan[nan_columns] = 1
        elif built_in:
            with np.errstate(over="ignore"):
                filling = imputer.statistics_.astype(np.float32)
            for j, cut in enumerate(cuts):
                nan_code[j] = np.searchsorted(cut, filling[j])
        self.codes, finite = bin_columns(filled, self.edges, nan_code, n_threads)
        if not finite:
            raise ValueError("Input X contains infinity or a value too large for dtype('float32').")
        self.mask_row = np.full(X.shape[1], -1, dtype=np.int32)
        self.mask_row[missing] = np.arange(missing.sum())
        columns = np.flatnonzero(missing).astype(np.int32)
        if mask is None:
            self.mask = np.zeros((0, len(X)), dtype=np.uint8)
        else:
            self.mask = pack_bits(mask.view(np.uint8), columns, n_threads)
        self.priced = self.mask if penalty_scope == "node" else self.mask.copy()
        self.relied = np.zeros(len(X), dtype=np.uint8)

    def grow(self, target, settings, bag, seed):
        """Grow a tree on `target` with the rows of `bag` (None: all)."""
        # In units of the target's size: alpha is a price in squared units.
        scaled, mean, scale = center_and_scale(target, self.weight, self.n_threads)
        nodes, leaf, depth = grow_binned(
            self.codes,
            self.n_bins,
            self.has_nan,
            self.edges,
            self.priced,
            self.mask_row,
            scaled,
            self.weight,
            None if bag is None else np.flatnonzero(bag).astype(np.int32),
            alpha=settings.alpha / scale / scale,
            stop_on_net_loss=settings.stop_on_net_loss,
            max_depth=UNLIMITED if settings.max_depth is None else settings.max_depth,
            min_samples_split=settings.min_samples_split,
            min_samples_leaf=settings.min_samples_leaf,
            min_weight_leaf=settings.min_weight_leaf / self.unit,
            min_impurity_decrease=settings.min_impurity_decrease / scale / scale,
            max_features=settings.max_features,
            max_leaf_nodes=-1 if settings.max_leaf_nodes is None else settings.max_leaf_nodes,
            max_nodes=min(most_nodes(1), UNLIMITED),
            seed=seed,
            n_threads=self.n_threads,
        )
        nodes = nodes.view(NODE_FIELDS)
        nodes["impurity"] *= scale * scale
        nodes["value"] *= scale
        nodes["value"] += mean
        nodes["weighted_n_node_samples"] *= self.unit
        return GrownTree(nodes, leaf, depth)

    def leaves(self, tree, grown):
        """Leaf of every row, int32, also of those outside the bag."""
        return grown.leaf

    def read(self, leaf, parent, feature):
        """Take in what a tree reads: who relies, and what is free from now on."""
        release_bits(
            leaf,
            parent,
            feature,
            self.mask_row,
            self.mask,
            self.priced,
            self.relied,
            self.penalty_scope != "node",
            self.penalty_scope == "row",
            self.n_threads,
        )

    def read_cells(self, cells):
        """Take in which cells the initial estimator reads; bool (n_samples, n_features)."""
        columns = np.flatnonzero(self.mask_row >= 0).astype(np.int32)
        cells = np.ascontiguousarray(cells).view(np.uint8)
        read = pack_bits(cells, columns, self.n_threads) & self.mask
        reads_any = read.any(axis=0)
        self.relied[reads_any] = 1
        if self.penalty_scope == "feature":
            self.priced &= ~read
        elif self.penalty_scope == "row":
            self.priced[:, reads_any] = 0

    def imputed_rows(self):
        """Yield (slice, float32 rows as predictions see them)."""
        for start in range(0, len(self.X), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            yield part, np.ascontiguousarray(as_float32(impute(self.imputer, self.X[part])))
