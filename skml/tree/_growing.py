"""From presorted data to a genuine scikit-learn ``Tree``."""

import os
from dataclasses import dataclass

import numpy as np
from sklearn.tree._tree import NODE_DTYPE, Tree

from ._builder import grow

__all__ = ["CRITERIA", "SCOPES", "GrownTree", "TreeSettings", "as_sklearn_tree", "grow_tree"]

CRITERIA = {"squared_error": 0, "gini": 1, "entropy": 2, "log_loss": 2}
SCOPES = {"node": 0, "feature": 1, "row": 2}
UNLIMITED = np.iinfo(np.int32).max


@dataclass(frozen=True)
class TreeSettings:
    """What decides the shape of a tree; numbers are absolute, never shares.

    Parameters
    ----------
    criterion : {"squared_error", "gini", "entropy", "log_loss"}
    max_features : int
        Features that each node looks at.
    alpha : float
        Price of one relied-on share of the node's weight, in units of the impurity.
    penalty_scope : {"node", "feature", "row"}
        Which missing cells stop costing once the path has read one.
    stop_on_net_loss : bool
        Whether a split must gain more than it costs.
    max_depth, max_leaf_nodes : int or None
        None is no limit.
    min_samples_split, min_samples_leaf : int
    min_weight_leaf : float
    min_impurity_decrease : float
        Least decrease of the impurity, weighted by the node's share, penalty left out.
    """

    criterion: str
    max_features: int
    alpha: float = 0.0
    penalty_scope: str = "node"
    stop_on_net_loss: bool = False
    max_depth: int | None = None
    max_leaf_nodes: int | None = None
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    min_weight_leaf: float = 0.0
    min_impurity_decrease: float = 0.0


@dataclass(frozen=True, eq=False)
class GrownTree:
    """Nodes as a structured array, the leaf of each training row (-1: weight 0), and the depth."""

    nodes: np.ndarray
    leaf: np.ndarray
    depth: int


def grow_tree(
    data,
    settings,
    *,
    y=None,
    codes=None,
    n_classes=1,
    sample_weight=None,
    priced=None,
    seed=0,
    overwrite_order=False,
):
    """Grow one tree on `data`; releases the GIL while it grows.

    Parameters
    ----------
    data : PresortedData
    settings : TreeSettings
    y : float64 array of shape (n_samples,), optional
        Target, for the squared error.
    codes : int32 array of shape (n_samples,), optional
        Class numbers, for the other criteria.
    n_classes : int
    sample_weight : float64 array of shape (n_samples,), optional
        Rows of weight 0 (not drawn, not in the subsample) take no part.
    priced : uint8 array like `data.mask`, optional
        Missing cells that cost something, sigma times m; by default every missing cell.
    seed : int
        Decides between tied features and draws the candidates under `max_features`.
    overwrite_order : bool
        Divide `data.order` in place, which spares its copy when no other tree needs it.

    Returns
    -------
    GrownTree
    """
    if sample_weight is not None and np.all(sample_weight == 1.0):
        sample_weight = None
    nodes, leaf, depth = grow(
        data.columns,
        data.order,
        y,
        codes,
        sample_weight,
        data.mask,
        data.mask if priced is None else priced,
        data.mask_row,
        data.has_nan,
        criterion=CRITERIA[settings.criterion],
        n_classes=n_classes,
        alpha=settings.alpha,
        scope=SCOPES[settings.penalty_scope],
        stop_on_net_loss=settings.stop_on_net_loss,
        max_depth=UNLIMITED if settings.max_depth is None else settings.max_depth,
        min_samples_split=settings.min_samples_split,
        min_samples_leaf=settings.min_samples_leaf,
        min_weight_leaf=settings.min_weight_leaf,
        min_impurity_decrease=settings.min_impurity_decrease,
        max_features=settings.max_features,
        max_leaf_nodes=-1 if settings.max_leaf_nodes is None else settings.max_leaf_nodes,
        max_nodes=most_nodes(n_classes),
        seed=seed,
        overwrite=overwrite_order,
    )
    return GrownTree(nodes, leaf, depth)


def as_sklearn_tree(grown, values, n_features):
    """Hand the nodes over as ``sklearn.tree._tree.Tree``.

    Parameters
    ----------
    grown : GrownTree
    values : float64 array of shape (n_nodes, n_classes) or (n_nodes, 1)
        Class shares or means.
    n_features : int
    """
    n_nodes, n_values = values.shape
    nodes = np.zeros(n_nodes, dtype=NODE_DTYPE)
    for name in NODE_DTYPE.names:
        nodes[name] = grown.nodes[name]
    tree = Tree(n_features, np.array([n_values], dtype=np.intp), 1)
    tree.__setstate__(
        {
            "max_depth": int(grown.depth),
            "node_count": n_nodes,
            "nodes": nodes,
            "values": np.ascontiguousarray(values.reshape(n_nodes, 1, n_values)),
        }
    )
    return tree


def most_nodes(n_classes):
    """How many nodes' values fit into memory."""
    # The values exist twice for a moment: here, and copied into scikit-learn's tree.
    return max(1, memory_limit() // (16 * n_classes))


def memory_limit():
    """Bytes that the values of one tree may take: the machine's memory, 64 GiB at most."""
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        physical = 2**36
    return min(physical, 2**36)
