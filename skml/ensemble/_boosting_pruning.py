"""Minimal cost-complexity pruning of one boosted tree, with the leaves of its rows."""

import numpy as np
from sklearn.tree._tree import Tree, _build_pruned_tree_ccp

__all__ = ["prune"]


def prune(tree, leaf, ccp_alpha):
    """Prune by the plain impurity, the penalty left out.

    Parameters
    ----------
    tree : sklearn.tree._tree.Tree
    leaf : int32 ndarray of shape (n_samples,)
        Leaf of every row.
    ccp_alpha : float

    Returns
    -------
    pruned : sklearn.tree._tree.Tree
    leaf : int32 ndarray of shape (n_samples,)
        Leaf of every row in the pruned tree.
    """
    pruned = Tree(tree.n_features, np.array([1], dtype=np.intp), 1)
    _build_pruned_tree_ccp(pruned, tree, ccp_alpha)
    # The pruned tree is the top of the whole one: both are walked side by side.
    place = np.zeros(tree.node_count, dtype=np.int32)
    stack = [(0, 0)]
    while stack:
        old, new = stack.pop()
        place[old] = new
        if tree.children_left[old] == -1:
            continue
        goes_on = pruned.children_left[new] != -1
        for children, pruned_children in (
            (tree.children_left, pruned.children_left),
            (tree.children_right, pruned.children_right),
        ):
            stack.append((children[old], pruned_children[new] if goes_on else new))
    return pruned, place[leaf]
