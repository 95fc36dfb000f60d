"""Trees for readers: text and pictures that show the reliance of every node."""

from sklearn.utils.validation import check_is_fitted

from skml.utils._optional import import_optional

__all__ = ["RelianceExport"]


class RelianceExport:
    """``node_label``, ``export_text`` and ``plot_tree`` of a fitted tree."""

    def node_label(self, node_id, feature_names=None, decimals=3):
        """Describe one node in a line: its test or prediction, and its reliance.

        Parameters
        ----------
        node_id : int
            Number of the node in ``tree_``.
        feature_names : array-like of shape (n_features,), default=None
            Names; by default ``feature_names_in_``, or ``feature_0``, ``feature_1`` and so on.
        decimals : int, default=3
            Digits of thresholds, values and rho.

        Returns
        -------
        label : str
            Ends with ``rho = …``, the share of the training rows in this node that have read a
            missing value by then, the node's own test included.
        """
        check_is_fitted(self)
        tree = self.tree_
        if not 0 <= node_id < tree.node_count:
            raise ValueError(
                f"node_id must lie in [0, {tree.node_count}), the nodes of this tree, got {node_id}"
            )
        if tree.children_left[node_id] == -1:
            text = self._leaf_text(node_id, decimals)
        else:
            name = self._names(feature_names)[tree.feature[node_id]]
            text = f"{name} <= {tree.threshold[node_id]:.{decimals}f}"
        return f"{text}, rho = {self.node_missingness_reliance_[node_id]:.{decimals}f}"

    def export_text(self, feature_names=None, max_depth=10, decimals=2):
        """Return the tree as text, every node with its missingness reliance.

        Parameters
        ----------
        feature_names : array-like of shape (n_features,), default=None
            Names; by default ``feature_names_in_``, or ``feature_0``, ``feature_1`` and so on.
        max_depth : int, default=10
            Deeper branches are left out and counted.
        decimals : int, default=2
            Digits of thresholds, values and rho.

        Returns
        -------
        text : str
            One line per node, the left branch (test holds) first.
        """
        check_is_fitted(self)
        lines = []
        waiting = [(0, 0, "")]
        tree = self.tree_
        while waiting:
            node, depth, prefix = waiting.pop()
            if depth > max_depth:
                lines.append("|   " * depth + f"{prefix}... truncated")
                continue
            label = self.node_label(node, feature_names, decimals)
            lines.append("|   " * depth + prefix + label)
            if tree.children_left[node] != -1:
                waiting.append((int(tree.children_right[node]), depth + 1, "no:  "))
                waiting.append((int(tree.children_left[node]), depth + 1, "yes: "))
        return "\n".join(lines) + "\n"

    def _names(self, feature_names):
        if feature_names is None:
            feature_names = getattr(self, "feature_names_in_", None)
        if feature_names is None:
            return [f"feature_{j}" for j in range(self.n_features_in_)]
        if len(feature_names) != self.n_features_in_:
            raise ValueError(
                f"feature_names must name the {self.n_features_in_} features of X, "
                f"got {len(feature_names)} names"
            )
        return feature_names

    def plot_tree(self, ax=None, **options):
        """Draw the tree with ``sklearn.tree.plot_tree``, rho added to every box.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: the current axes.
        **options : dict
            Passed on to ``sklearn.tree.plot_tree`` (`feature_names`, `max_depth`, `filled`, …).

        Returns
        -------
        annotations : list of matplotlib artists
            One box per node.
        """
        check_is_fitted(self)
        import_optional("matplotlib", extra="plot", needed_by="plot_tree")
        from sklearn.tree import plot_tree

        options = {"feature_names": getattr(self, "feature_names_in_", None), **options}
        show_numbers = options.pop("node_ids", False)
        annotations = plot_tree(self, ax=ax, node_ids=True, **options)
        for annotation in annotations:
            number, _, rest = annotation.get_text().partition("\n")
            if not number.startswith("node #"):
                continue
            rho = self.node_missingness_reliance_[int(number.removeprefix("node #"))]
            lines = [number] if show_numbers else []
            annotation.set_text("\n".join([*lines, rest, f"rho = {rho:.3f}"]))
        return annotations
