"""All trees of an ensemble as one array of nodes, for fast prediction."""

from dataclasses import dataclass

import numpy as np

from ._flat_trees import FLAT_NODE, add_predictions

__all__ = ["FlatTrees"]


@dataclass(frozen=True, eq=False)
class FlatTrees:
    """Nodes of many trees one after the other.

    Parameters
    ----------
    nodes : structured ndarray of shape (n_nodes,)
    roots : int64 ndarray of shape (n_trees,)
    outputs : int32 ndarray of shape (n_trees,)
        Which output each tree adds to.
    """

    nodes: np.ndarray
    roots: np.ndarray
    outputs: np.ndarray

    @classmethod
    def from_trees(cls, trees, outputs):
        """Copy ``sklearn.tree._tree.Tree`` objects."""
        sizes = [tree.node_count for tree in trees]
        roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        if not sizes:
            roots = roots[:0]
        nodes = np.zeros(sum(sizes), dtype=FLAT_NODE)
        for tree, root, size in zip(trees, roots, sizes, strict=True):
            part, states = nodes[root : root + size], tree.__getstate__()["nodes"]
            for name, child in (("left", "left_child"), ("right", "right_child")):
                part[name] = np.where(states[child] >= 0, states[child] + root, -1)
            part["threshold"] = states["threshold"]
            part["feature"] = states["feature"]
            part["nan_left"] = states["missing_go_to_left"]
            part["value"] = tree.value[:, 0, 0]
        return cls(nodes, roots, np.asarray(outputs, dtype=np.int32))

    def add_to(self, raw, X, rate, n_threads, trees=slice(None)):
        """Add `rate` times the leaf values to `raw` (n_outputs, n_samples), in place."""
        add_predictions(X, self.nodes, self.roots[trees], self.outputs[trees], rate, raw, n_threads)
