"""Drawings of the diagrams behind equivariant maps."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skml.equivariant import equivariant_basis, format_partition

from ._display import AxesMixin, optional_floats

_GAP = 1.4


class PartitionDisplay(AxesMixin):
    """Diagrams of the partitions that span a space of equivariant maps.

    Make it by :meth:`from_group` or :meth:`from_estimator`; the constructor takes what is drawn.

    Parameters
    ----------
    partitions : sequence of tuple
        Partitions, each a tuple of blocks of points: the inputs 0, ..., k - 1, then the outputs.
    order_in, order_out : int
        Numbers k and l of inputs (drawn above) and outputs (below).
    weights : array-like of shape (n_partitions,), default=None
        Weight of each diagram, which sets its opacity; None: all alike.

    Attributes
    ----------
    partitions : list of tuple
        Partitions.
    order_in, order_out : int
        Numbers of inputs and outputs.
    weights : ndarray of shape (n_partitions,) or None
        Weights.
    ax_ : matplotlib Axes
        The axes, after :meth:`plot`.
    figure_ : matplotlib Figure
        The figure, after :meth:`plot`.
    lines_ : list of matplotlib Line2D
        The blocks, after :meth:`plot`.

    See Also
    --------
    skml.equivariant.equivariant_basis : The maps themselves.
    skml.equivariant.format_basis : The maps in letters.

    Notes
    -----
    The map of a diagram has a one where all indices that a block joins are equal. The maps of a
    free quantum group are those of diagrams that can be drawn without crossings.

    References
    ----------
    .. [1] E. Pearce-Crump. "Compact matrix quantum group equivariant neural networks." ICML 2025.
       https://arxiv.org/abs/2311.06358

    Examples
    --------
    >>> from skml.inspection import PartitionDisplay
    >>> display = PartitionDisplay.from_group("S+", 4, 2, 2)
    >>> len(display.partitions)
    14
    """

    def __init__(self, partitions, *, order_in, order_out, weights=None):
        self.partitions = [tuple(tuple(block) for block in blocks) for blocks in partitions]
        self.order_in, self.order_out = order_in, order_out
        self.weights = optional_floats(weights)
        points = list(range(order_in + order_out))
        for blocks in self.partitions:
            if sorted(point for block in blocks for point in block) != points:
                raise ValueError(
                    f"each of the partitions must hold the points {points} once, got {blocks!r}"
                )
        if self.weights is not None and self.weights.shape != (len(self.partitions),):
            raise ValueError(
                f"weights must have the shape ({len(self.partitions)},) of partitions, got "
                f"{self.weights.shape}"
            )

    @classmethod
    def from_group(cls, group, n, order_in, order_out, *, independent=True, ax=None, **plot_params):
        """Draw the diagrams of a group.

        Parameters
        ----------
        group : str
            Name of the group, as in :func:`skml.equivariant.equivariant_basis`.
        n : int
            Dimension of the base space.
        order_in, order_out : int
            Numbers of inputs and outputs.
        independent : bool, default=True
            Whether to draw a basis only.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        PartitionDisplay
            The display, drawn.
        """
        partitions = equivariant_basis(
            group, n, order_in, order_out, independent=independent, form="partitions"
        )
        display = cls(partitions, order_in=order_in, order_out=order_out)
        return display.plot(ax=ax, **plot_params)

    @classmethod
    def from_estimator(cls, estimator, *, layer=0, orders=None, ax=None, **plot_params):
        """Draw the diagrams of a layer of a fitted model, by the size of their weights.

        Parameters
        ----------
        estimator : QuantumGroupEquivariantRegressor or QuantumGroupEquivariantClassifier
            A fitted model.
        layer : int, default=0
            Number of the linear layer.
        orders : tuple of (int, int) or None, default=None
            Orders of the input and the output of the layer between which the maps are; None: the
            first pair that there is.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        PartitionDisplay
            The display, drawn; a weight is the root mean square over the channels.

        Raises
        ------
        ValueError
            If there is no such layer, or no maps between the orders.
        """
        check_is_fitted(estimator)
        layers = estimator.module_.layers
        if not 0 <= layer < len(layers):
            raise ValueError(f"layer must be from 0 to {len(layers) - 1}, got {layer}")
        linear = layers[layer]
        available = {}
        for name, path in linear.paths.items():
            available.setdefault((path.order_in, path.order_out), name)
        orders = next(iter(available)) if orders is None else tuple(orders)
        if orders not in available:
            raise ValueError(f"orders must be one of {list(available)}, got {orders}")
        name = available[orders]
        weight = linear.paths[name].weight.detach().double().cpu().numpy()
        display = cls(
            linear.partitions(*map(int, name.split("_"))),
            order_in=orders[0],
            order_out=orders[1],
            weights=np.sqrt(np.mean(weight**2, axis=(1, 2))),
        )
        return display.plot(ax=ax, **plot_params)

    def plot(self, ax=None, *, n_columns=None, labels=True, **line_params):
        """Draw the diagrams in a grid.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        n_columns : int or None, default=None
            Diagrams in a row; None: about as many as there are rows.
        labels : bool, default=True
            Whether to write the partition below each.
        **line_params : dict
            Passed to `Axes.plot` for the blocks.

        Returns
        -------
        PartitionDisplay
            The display itself.
        """
        number, width = len(self.partitions), max(self.order_in, self.order_out, 1)
        if n_columns is None:
            n_columns = max(1, int(np.ceil(np.sqrt(number))))
        n_rows = max(1, -(-number // n_columns))
        size = (1 + n_columns * (0.5 + 0.45 * width), 0.6 + 1.1 * n_rows)
        ax = self._open_axes(ax, figsize=size)
        self.lines_ = []
        opacity = self._opacities()
        for i, blocks in enumerate(self.partitions):
            x = (i % n_columns) * (width + _GAP)
            y = -(i // n_columns) * 2.6
            params = {"color": "C0", "linewidth": 2, "alpha": opacity[i], **line_params}
            self._plot_diagram(blocks, x, y, width, params)
            if labels:
                name = format_partition(blocks, self.order_in)
                ax.text(x + (width - 1) / 2, y - 0.55, name, ha="center", va="top", fontsize=7)
        ax.set_aspect("equal")
        ax.margins(0.08)
        ax.set_axis_off()
        return self

    def _opacities(self):
        if self.weights is None or not np.any(self.weights):
            return np.ones(len(self.partitions))
        share = np.abs(self.weights) / np.abs(self.weights).max()
        return np.clip(0.08 + 0.92 * share, 0, 1)

    def _plot_diagram(self, blocks, x, y, width, params):
        """Draw the rows of points, then each block as lines to its middle."""
        where = {}
        for row, start, order in [(1.0, 0, self.order_in), (0.0, self.order_in, self.order_out)]:
            shift = (width - order) / 2
            where |= {start + p: (x + shift + p, y + row) for p in range(order)}
        for block in blocks:
            spots = np.array([where[point] for point in block])
            middle = spots.mean(axis=0)
            is_cap = len({spot[1] for spot in spots}) == 1
            if is_cap and len(block) > 1:  # bend towards the other row, deeper the wider
                depth = 0.25 + 0.06 * np.ptp(spots[:, 0])
                middle[1] += depth if spots[0, 1] == y else -depth
            for spot in spots if len(block) > 1 else ():
                self.lines_ += self.ax_.plot(*np.array([spot, middle]).T, **params)
            if len(block) > 2:  # tells one block from two that cross
                marker = {"color": params.get("color"), "alpha": params.get("alpha")}
                self.ax_.plot(*middle, "s", markersize=5, **marker)
            if len(block) == 1:  # a dot with a short tail
                tail = spots[0] + [0, -0.2 if spots[0, 1] > y else 0.2]
                self.lines_ += self.ax_.plot(*np.array([spots[0], tail]).T, **params)
        if where:
            dots = np.array(list(where.values()))
            self.ax_.plot(*dots.T, "o", color="black", markersize=4)
