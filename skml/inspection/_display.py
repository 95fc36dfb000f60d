"""What all displays do alike: open axes, check what they are to draw, tell curves apart."""

import numpy as np

from skml.utils._optional import import_optional


class AxesMixin:
    """Gives a display the attributes `ax_` and `figure_` when it is drawn."""

    def _open_axes(self, ax, **figure_params):
        """Take the given axes, or new ones of a figure with these parameters."""
        pyplot = import_optional(
            "matplotlib.pyplot", extra="plot", needed_by=f"{type(self).__name__}.plot"
        )
        if ax is None:
            _, ax = pyplot.subplots(**figure_params)
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def optional_floats(values):
    """Return the values as an array of float64, or None if there are none."""
    return None if values is None else np.asarray(values, dtype=np.float64)


def check_one_entry_each(shape, of_what, **arrays):
    """Refuse an array, named by its keyword, without one entry for each thing; None passes."""
    for name, values in arrays.items():
        if values is not None and values.shape != shape:
            raise ValueError(
                f"{name} must have one entry for each of the {shape[0]} {of_what}, got shape "
                f"{values.shape}"
            )


def points_by_curve(groups, order):
    """Yield the label of each curve and its points, as positions in ascending order.

    Parameters
    ----------
    groups : ndarray of shape (n_points,), dtype str, or None
        The curve of each point; None: there is one curve, without a label.
    order : ndarray of shape (n_points,)
        What the points of a curve are ordered by.

    Yields
    ------
    label : str or None
        In the order in which the labels first occur.
    points : ndarray of int
        The points of this curve.
    """
    labels = [None] if groups is None else dict.fromkeys(groups.tolist())
    for label in labels:
        points = np.arange(len(order)) if label is None else np.flatnonzero(groups == label)
        yield label, points[np.argsort(order[points], kind="stable")]
