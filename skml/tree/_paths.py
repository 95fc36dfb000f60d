"""Where rows end in fitted trees, and which missing values they read on the way.

One definition for a single tree, a forest and boosting: an ensemble reads what any of its trees
reads.
"""

import numpy as np
from scipy import sparse

from skml.utils._missing import pack_mask

from . import _reliance

__all__ = ["ancestors", "end_nodes", "links", "relied_cells", "relied_rows"]


def links(tree):
    """Parent (-1 for the root) and feature (-2 for a leaf) of every node, as int64.

    Parameters
    ----------
    tree : sklearn.tree._tree.Tree

    Returns
    -------
    parent, feature : int64 ndarrays of shape (n_nodes,)
    """
    parent = np.full(tree.node_count, -1, dtype=np.int64)
    inner = np.flatnonzero(tree.children_left != -1)
    parent[tree.children_left[inner]] = inner
    parent[tree.children_right[inner]] = inner
    return parent, tree.feature.astype(np.int64)


def ancestors(tree):
    """CSR matrix (n_nodes, n_nodes): row k has ones at the nodes from the root to k."""
    parent, _ = links(tree)
    below = above = np.arange(tree.node_count)
    pairs = []
    while len(below):
        pairs.append((below, above))
        has_parent = parent[above] >= 0
        below, above = below[has_parent], parent[above[has_parent]]
    rows, columns = np.concatenate(pairs, axis=1)
    ones = np.ones(len(rows), dtype=np.intp)
    return sparse.csr_matrix((ones, (rows, columns)), shape=(tree.node_count, tree.node_count))


def end_nodes(trees, X, mask=None):
    """Yield, tree by tree, the node in which each row ends.

    Parameters
    ----------
    trees : iterable of sklearn.tree._tree.Tree
    X : float32 ndarray of shape (n_samples, n_features)
        Imputed rows; NaN only under native treatment of missing values.
    mask : ndarray of shape (n_samples, n_features), dtype bool, optional
        If given, a row stops at the first node whose feature it misses, instead of in a leaf.
    """
    if mask is None:
        for tree in trees:
            yield tree.apply(X)
        return
    packed, mask_row = pack_mask(mask, X.shape[1], X.shape[0])
    for tree in trees:
        leaf = tree.apply(X).astype(np.int64)
        yield _reliance.stopping_nodes(leaf, *links(tree), packed, mask_row)


def relied_cells(trees, X, mask):
    """Mark the missing cells that any of the trees reads to predict their row.

    Parameters
    ----------
    trees : iterable of sklearn.tree._tree.Tree
    X : float32 ndarray of shape (n_samples, n_features)
        Imputed rows; NaN only under native treatment of missing values.
    mask : ndarray of shape (n_samples, n_features), dtype bool, or None

    Returns
    -------
    cells : ndarray of shape (n_samples, n_features), dtype bool
    """
    cells = np.zeros(X.shape, dtype=bool)
    if mask is None:
        return cells
    packed, mask_row = pack_mask(mask, X.shape[1], X.shape[0])
    relied = np.zeros_like(packed)
    for tree in trees:
        leaf = tree.apply(X).astype(np.int64)
        _reliance.mark_relied_cells(leaf, *links(tree), packed, mask_row, relied)
    cells[:, mask_row >= 0] = relied.T
    return cells


def relied_rows(trees, X, mask):
    """Mark the rows for which any of the trees reads a missing value.

    Parameters
    ----------
    trees : iterable of sklearn.tree._tree.Tree
    X : float32 ndarray of shape (n_samples, n_features)
        Imputed rows; NaN only under native treatment of missing values.
    mask : ndarray of shape (n_samples, n_features), dtype bool, or None

    Returns
    -------
    rows : ndarray of shape (n_samples,), dtype bool
    """
    rows = np.zeros(len(X), dtype=bool)
    if mask is None:
        return rows
    # Later trees cannot change the answer for a row that relies already: such rows, and those
    # that miss nothing, are left behind whenever they have become the greater part.
    open_rows = np.flatnonzero(mask.any(axis=1))
    relied = None
    for tree in trees:
        if relied is None:
            X_open = X[open_rows]
            packed, mask_row = pack_mask(mask[open_rows], X.shape[1], len(open_rows))
            relied = np.zeros(len(open_rows), dtype=np.uint8)
        leaf = tree.apply(X_open).astype(np.int64)
        _reliance.mark_relied_rows(leaf, *links(tree), packed, mask_row, relied)
        if relied.sum() > len(relied) // 2:
            rows[open_rows[relied == 1]] = True
            open_rows = open_rows[relied == 0]
            relied = None
            if not len(open_rows):
                return rows
    if relied is not None:
        rows[open_rows[relied == 1]] = True
    return rows
