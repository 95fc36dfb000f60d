"""Objective of a stochastic solver over its epochs."""

import numpy as np

from ._display import AxesMixin


class ObjectiveCurveDisplay(AxesMixin):
    """Objective after each epoch of a solver, or its gap to the optimum.

    Make it by :meth:`from_estimator`; the constructor takes the curves.

    Parameters
    ----------
    curves : list of array-like
        Objective after each epoch, one array for each curve.
    labels : sequence of str or None, default=None
        Name of each curve.
    optimum : float or None, default=None
        Least value of the objective. If given, the curves are gaps to it on a logarithmic axis.

    Attributes
    ----------
    curves : list of ndarray
        As given.
    labels : list of str or None
        As given.
    ax_ : matplotlib Axes
        The axes, after :meth:`plot`.
    figure_ : matplotlib Figure
        The figure, after :meth:`plot`.
    lines_ : list of matplotlib Line2D
        The curves, after :meth:`plot`.

    See Also
    --------
    skml.linear_model.ShufflingSGDRegressor : A solver that records its objective.

    References
    ----------
    .. [1] Q. He, P. Yu, Z. Chen, H. Huang. "Revisiting Convergence: Shuffling Complexity Beyond
       Lipschitz Smoothness." ICML 2025. https://arxiv.org/abs/2507.08913

    Examples
    --------
    >>> from skml.inspection import ObjectiveCurveDisplay
    >>> display = ObjectiveCurveDisplay(curves=[[3.0, 1.5, 1.1]], optimum=1.0).plot()
    >>> display.ax_.get_ylabel()
    'Objective above the optimum'
    """

    def __init__(self, *, curves, labels=None, optimum=None):
        self.curves = [np.asarray(curve, dtype=np.float64) for curve in curves]
        self.labels = None if labels is None else list(labels)
        self.optimum = optimum
        if self.labels is not None and len(self.labels) != len(self.curves):
            raise ValueError(
                f"labels must have one entry for each of the {len(self.curves)} curves, got "
                f"{len(self.labels)}"
            )

    @classmethod
    def from_estimator(cls, estimator, *, optimum=None, ax=None, **plot_params):
        """Plot the curve of a fitted estimator, one for each class if there are several.

        Parameters
        ----------
        estimator : estimator
            A fitted model with the attribute `objective_curve_`.
        optimum : float or None, default=None
            Least value of the objective.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        ObjectiveCurveDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If the estimator has no `objective_curve_`.
        """
        curve = getattr(estimator, "objective_curve_", None)
        if curve is None:
            raise TypeError(
                f"estimator must be fitted and have objective_curve_, got {estimator!r}"
            )
        if len(curve) and np.ndim(curve[0]):
            display = cls(curves=curve, labels=map(str, estimator.classes_), optimum=optimum)
        else:
            display = cls(curves=[curve], optimum=optimum)
        return display.plot(ax=ax, **plot_params)

    def plot(self, ax=None, **line_params):
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **line_params : dict
            Passed to `Axes.plot`.

        Returns
        -------
        ObjectiveCurveDisplay
            The display itself.
        """
        ax = self._open_axes(ax)
        self.lines_ = []
        labels = self.labels or [None] * len(self.curves)
        for curve, label in zip(self.curves, labels, strict=True):
            values = curve if self.optimum is None else curve - self.optimum
            style = {"label": label, **line_params}
            self.lines_ += ax.plot(np.arange(1, len(values) + 1), values, **style)
        if self.optimum is not None:
            ax.set_yscale("log")
        name = "Objective" if self.optimum is None else "Objective above the optimum"
        ax.set(xlabel="Epoch", ylabel=name)
        if self.labels is not None:
            ax.legend()
        return self
