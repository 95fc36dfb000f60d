"""Bounds of an effect along a covariate, and the cells of an instrument."""

import numpy as np
from sklearn.utils import check_array

from ._display import AxesMixin, optional_floats


class CATEBoundsDisplay(AxesMixin):
    """Effect bounds along one covariate, or the cells of the instrument behind them.

    Make it by :meth:`from_estimator` or :meth:`from_cells`; the constructor takes the values.

    Parameters
    ----------
    x : array-like of shape (n_points,), default=None
        The covariate.
    bounds : array-like of shape (n_points, 2), default=None
        Lower and upper bound at each point.
    tau : array-like of shape (n_points,), default=None
        True effects, where they are known.
    instrument : array-like of shape (n_instruments, 1) or (n_instruments, 2), default=None
        One or two columns of the instrument.
    cells : array-like of shape (n_instruments,), dtype int, default=None
        Cell of each row of `instrument`.
    feature_name : str, default="x"
        Label of the horizontal axis of the bounds.
    instrument_names : sequence of str, default=("z", "")
        Labels of the axes of the cells.

    Attributes
    ----------
    x, bounds, tau, instrument, cells : ndarray or None
        The values.
    ax_ : matplotlib Axes
        The axes, after :meth:`plot`.
    figure_ : matplotlib Figure
        The figure, after :meth:`plot`.
    artists_ : list
        What was drawn: the band and the line of the truth, or one collection for each cell.

    See Also
    --------
    skml.causal.CATEBounder : The estimator.

    References
    ----------
    .. [1] J. Schweisthal, D. Frauen, M. Schröder, K. Hess, N. Kilbertus, S. Feuerriegel.
       "Learning Representations of Instruments for Partial Identification of Treatment
       Effects." ICML 2025. https://arxiv.org/abs/2410.08976

    Examples
    --------
    >>> from skml.inspection import CATEBoundsDisplay
    >>> display = CATEBoundsDisplay(x=[0, 1, 2], bounds=[[0, 1], [0.2, 0.9], [0.1, 0.5]])
    >>> _ = display.plot()
    >>> display.ax_.get_ylabel()
    'Effect'
    """

    def __init__(
        self,
        *,
        x=None,
        bounds=None,
        tau=None,
        instrument=None,
        cells=None,
        feature_name="x",
        instrument_names=("z", ""),
    ):
        if (x is None) != (bounds is None) or (instrument is None) != (cells is None):
            raise ValueError("x and bounds belong together, and so do instrument and cells")
        if (x is None) == (instrument is None):
            raise ValueError("either x and bounds or instrument and cells must be given")
        self.x, self.bounds = optional_floats(x), optional_floats(bounds)
        self.tau = optional_floats(tau)
        self.instrument = optional_floats(instrument)
        self.cells = None if cells is None else np.asarray(cells)
        self.feature_name = feature_name
        self.instrument_names = instrument_names
        if x is not None and self.bounds.shape != (len(self.x), 2):
            raise ValueError(
                f"bounds must have the shape ({len(self.x)}, 2), got {self.bounds.shape}"
            )
        if self.tau is not None and self.tau.shape != self.x.shape:
            raise ValueError(f"tau must have the shape {self.x.shape}, got {self.tau.shape}")
        if instrument is not None and self.instrument.shape not in {
            (len(self.cells), 1),
            (len(self.cells), 2),
        }:
            raise ValueError(
                f"instrument must have the shape ({len(self.cells)}, 1) or "
                f"({len(self.cells)}, 2), got {self.instrument.shape}"
            )

    @classmethod
    def from_estimator(cls, estimator, X, *, feature=0, tau=None, ax=None, **plot_params):
        """Draw the bounds of the rows of X along one of its columns.

        Parameters
        ----------
        estimator : estimator with `predict_bounds`
            A fitted bound estimator, or a fitted pipeline that ends in one.
        X : array-like of shape (n_samples, n_features)
            Covariates. With several columns that vary, the band of each row is drawn by itself.
        feature : int or str, default=0
            Column for the horizontal axis, by number, or by name if X is a dataframe.
        tau : array-like of shape (n_samples,), default=None
            True effects, where they are known.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        CATEBoundsDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If `feature` is no column of X.
        TypeError
            If the estimator has no `predict_bounds`.
        """
        values, bounds, name = _bounds_along(estimator, X, feature)
        order = np.argsort(values, kind="stable")
        display = cls(
            x=values[order],
            bounds=bounds[order],
            tau=None if tau is None else np.asarray(tau, dtype=np.float64)[order],
            feature_name=name,
        )
        return display.plot(ax=ax, **plot_params)

    @classmethod
    def from_cells(cls, estimator, Z, *, features=None, ax=None, **plot_params):
        """Draw instruments, coloured by their cells.

        Parameters
        ----------
        estimator : estimator with `partition`
            A fitted bound estimator.
        Z : array-like of shape (n_samples,) or (n_samples, n_instruments)
            Instruments.
        features : int, pair of int or None, default=None
            Columns to show; None: the first two, or the only one.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        CATEBoundsDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If `features` names columns that Z does not have.
        """
        Z = check_array(Z, dtype=np.float64, ensure_2d=False, input_name="Z")
        Z = Z[:, None] if Z.ndim == 1 else Z
        chosen = range(min(2, Z.shape[1])) if features is None else np.atleast_1d(features)
        chosen = [int(k) for k in chosen]
        if len(chosen) not in (1, 2) or not all(0 <= k < Z.shape[1] for k in chosen):
            raise ValueError(
                f"features must be one or two of the columns 0 to {Z.shape[1] - 1}, got "
                f"{features!r}"
            )
        display = cls(
            instrument=Z[:, chosen],
            cells=estimator.partition(Z),
            instrument_names=[f"instrument {k}" for k in chosen] + [""],
        )
        return display.plot(ax=ax, **plot_params)

    def plot(self, ax=None, **plot_params):
        """Draw the bounds or the cells.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **plot_params : dict
            Passed to `Axes.fill_between` (bounds), `Axes.scatter` (cells of two columns) or
            `Axes.hist` (cells of one column).

        Returns
        -------
        CATEBoundsDisplay
            The display itself.
        """
        ax = self._open_axes(ax)
        self.artists_ = []
        if self.x is not None:
            self._plot_bounds(plot_params)
        else:
            self._plot_cells(plot_params)
        ax.legend()
        return self

    def _plot_bounds(self, plot_params):
        style = {"alpha": 0.3, "label": "bounds", **plot_params}
        self.artists_.append(self.ax_.fill_between(self.x, *self.bounds.T, **style))
        if self.tau is not None:
            self.artists_ += self.ax_.plot(self.x, self.tau, color="black", label="effect")
        self.ax_.set(xlabel=self.feature_name, ylabel="Effect")

    def _plot_cells(self, plot_params):
        labels = np.unique(self.cells)
        parts = [self.instrument[self.cells == label] for label in labels]
        names = [f"cell {label}" for label in labels]
        if self.instrument.shape[1] == 1:
            style = {"bins": 40, "stacked": True, "label": names, **plot_params}
            _, _, drawn = self.ax_.hist([part[:, 0] for part in parts], **style)
            self.artists_ += [drawn] if len(labels) == 1 else list(drawn)
            self.ax_.set_ylabel("Rows")
        else:
            for part, name in zip(parts, names, strict=True):
                style = {"s": 10, "label": name, **plot_params}
                self.artists_.append(self.ax_.scatter(*part.T, **style))
            self.ax_.set_ylabel(self.instrument_names[1])
        self.ax_.set_xlabel(self.instrument_names[0])


def _bounds_along(estimator, X, feature):
    """Values of the column, bounds of the rows, and the column's name."""
    columns = list(X.columns) if hasattr(X, "columns") else None
    n_columns = np.shape(X)[1] if np.ndim(X) == 2 else 0
    position = columns.index(feature) if columns and feature in columns else feature
    if not isinstance(position, (int, np.integer)) or not -n_columns <= position < n_columns:
        known = columns or f"0 to {n_columns - 1}"
        raise ValueError(f"feature must be one of the columns {known}, got {feature!r}")
    values = np.asarray(X)[:, position].astype(np.float64)
    name = str(columns[position]) if columns else f"x{position}"
    steps = getattr(estimator, "steps", None)
    if steps is not None and not hasattr(estimator, "predict_bounds"):
        # A Pipeline hands on the methods that it knows only.
        X, estimator = estimator[:-1].transform(X), steps[-1][1]
    if not hasattr(estimator, "predict_bounds"):
        raise TypeError(
            f"estimator must have a method predict_bounds, got {type(estimator).__name__}"
        )
    return values, estimator.predict_bounds(X), name
