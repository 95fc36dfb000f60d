"""Learnt functions and frequencies of a time encoding."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skml.utils._optional import import_optional

from ._display import AxesMixin, optional_floats

_KINDS = ("functions", "frequencies", "encoding")


class TimeEncodingDisplay(AxesMixin):
    """What a time encoder has learnt: its functions, its frequencies, its components over time.

    Make it by :meth:`from_estimator`; the constructor takes what is drawn.

    Parameters
    ----------
    times : array-like of shape (n_points,)
        Times at which the encoding is drawn.
    encoding : array-like of shape (n_points, n_components)
        The encoding of these times.
    omega, omega_init : array-like of shape (n_components,)
        Frequencies after and before training, in radians per unit of time.
    inputs : array-like of shape (n_points,), default=None
        Values of a linear map at which the functions are drawn; None: there are no learnt
        functions.
    functions : array-like of shape (n_functions, n_points), default=None
        Values of the learnt functions.
    function_names : sequence of str of length n_functions or None, default=None
        Labels of the functions.
    column : str, default="time"
        Name of the column of times.

    Attributes
    ----------
    times : ndarray of shape (n_points,)
        Times.
    encoding : ndarray of shape (n_points, n_components)
        The encoding.
    omega, omega_init : ndarray of shape (n_components,)
        Frequencies after and before training.
    inputs : ndarray of shape (n_points,) or None
        Values of a linear map.
    functions : ndarray of shape (n_functions, n_points) or None
        Values of the learnt functions.
    function_names : list of str
        Labels of the functions.
    column : str
        Name of the column.
    ax_ : matplotlib Axes
        The axes, after :meth:`plot`.
    figure_ : matplotlib Figure
        The figure, after :meth:`plot`.
    lines_ : list of matplotlib Line2D
        The curves, after :meth:`plot`.

    See Also
    --------
    skml.preprocessing.LeTETimeEncoder : The encoder with learnt functions.
    skml.preprocessing.FunctionalTimeEncoder : Sines of learnt frequencies.

    Notes
    -----
    A function is the contribution of linear map i to component j, before normalisation: the
    Fourier series or the spline with its tanh term. Frequencies are drawn on logarithmic axes,
    so that a point above the diagonal has become faster in training.

    References
    ----------
    .. [1] X. Chen, Y. Tang, J. Xu, J. Zhang, S. Zhang, S. Peng, X. Zheng, Y. Xiong. "Rethinking
       time encoding via learnable transformation functions." ICML 2025.
       https://arxiv.org/abs/2505.00887

    Examples
    --------
    >>> from skml.inspection import TimeEncodingDisplay
    >>> display = TimeEncodingDisplay(
    ...     times=[0, 1, 2], encoding=[[0, 1], [1, 0], [0, 1]], omega=[2, 1], omega_init=[1, 1]
    ... )
    >>> _ = display.plot(kind="frequencies")
    >>> display.ax_.get_ylabel()
    'Learnt frequency'
    """

    def __init__(
        self,
        *,
        times,
        encoding,
        omega,
        omega_init,
        inputs=None,
        functions=None,
        function_names=None,
        column="time",
    ):
        self.times = np.asarray(times)
        self.encoding = np.asarray(encoding, dtype=np.float64)
        self.omega = np.asarray(omega, dtype=np.float64)
        self.omega_init = np.asarray(omega_init, dtype=np.float64)
        self.inputs, self.functions = optional_floats(inputs), optional_floats(functions)
        self.function_names = list(function_names or ())
        self.column = column
        if self.encoding.shape != (len(self.times), len(self.omega)):
            raise ValueError(
                f"encoding must have the shape (n_points, n_components) = ({len(self.times)}, "
                f"{len(self.omega)}) of times and omega, got {self.encoding.shape}"
            )

    @classmethod
    def from_estimator(
        cls,
        estimator,
        *,
        column=0,
        components=None,
        input_range=(-3.0, 3.0),
        n_points=400,
        ax=None,
        **plot_params,
    ):
        """Draw what a fitted encoder has learnt.

        Parameters
        ----------
        estimator : LeTETimeEncoder or FunctionalTimeEncoder
            A fitted encoder.
        column : int, default=0
            Column of times.
        components : array-like of int, default=None
            Components j whose functions of their own linear map (i = j) are drawn; None: the
            first two Fourier functions and the first two splines.
        input_range : tuple of (float, float), default=(-3.0, 3.0)
            Range of the linear maps' values over which functions are drawn.
        n_points : int, default=400
            Number of points of a curve.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        TimeEncodingDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If there is no such column.
        """
        check_is_fitted(estimator)
        if not 0 <= column < estimator.n_features_in_:
            last = estimator.n_features_in_ - 1
            raise ValueError(f"column must be from 0 to {last}, got {column}")
        d = estimator.n_components
        times = np.linspace(*estimator.time_range_[column], n_points)
        names = getattr(estimator, "feature_names_in_", None)
        content = {
            "times": times,
            "encoding": _encode(estimator, times, column),
            "omega": estimator.omega_[column],
            "omega_init": estimator.omega_init_[column],
            "column": f"x{column}" if names is None else names[column],
        }
        if hasattr(estimator, "transformation"):
            n_fourier = int(np.floor(estimator.fourier_fraction * d))
            if components is None:
                components = [*range(min(2, n_fourier)), *range(n_fourier, min(n_fourier + 2, d))]
            inputs = np.linspace(*input_range, n_points)
            content["inputs"] = inputs
            content["functions"] = [
                estimator.transformation(j, j, inputs, column=column) for j in components
            ]
            content["function_names"] = [
                f"{'Fourier' if j < n_fourier else 'spline'} {j}" for j in components
            ]
        return cls(**content).plot(ax=ax, **plot_params)

    def plot(self, ax=None, *, kind=None, **line_params):
        """Draw one view.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        kind : {"functions", "frequencies", "encoding"} or None, default=None
            "functions": learnt functions over the values of their linear map. "frequencies":
            after training over before it. "encoding": the components over time. None: functions
            where there are any, else frequencies.
        **line_params : dict
            Passed to `Axes.plot`.

        Returns
        -------
        TimeEncodingDisplay
            The display itself.
        """
        if kind is None:
            kind = "frequencies" if self.functions is None else "functions"
        if kind not in _KINDS:
            raise ValueError(f"kind must be one of {_KINDS} or None, got {kind!r}")
        if kind == "functions" and self.functions is None:
            raise ValueError("kind='functions' needs an encoder with learnt functions")
        ax = self._open_axes(ax)
        self.lines_ = getattr(self, f"_plot_{kind}")(ax, line_params)
        return self

    def _plot_functions(self, ax, line_params):
        lines = []
        for name, values in zip(self.function_names, self.functions, strict=True):
            lines += ax.plot(self.inputs, values, **{"label": name, **line_params})
        ax.set(xlabel="Linear map of time", ylabel="Learnt function")
        ax.legend()
        return lines

    def _plot_frequencies(self, ax, line_params):
        omega, omega_init = np.abs(self.omega), np.abs(self.omega_init)
        lines = ax.plot(omega_init, omega, **{"marker": "o", "linestyle": "none", **line_params})
        ends = [omega_init.min(), omega_init.max()]
        ax.plot(ends, ends, color="grey", linestyle="--", linewidth=1, label="unchanged")
        ax.set(xscale="log", yscale="log")
        ax.set(xlabel="Initial frequency", ylabel="Learnt frequency")
        ax.legend()
        return lines

    def _plot_encoding(self, ax, line_params):
        lines = ax.plot(self.times, self.encoding, **{"linewidth": 1, **line_params})
        ax.set(xlabel=self.column, ylabel="Component")
        return lines


def _encode(estimator, times, column):
    """Encode times that are in the unit of one column."""
    torch = import_optional("torch", extra="torch", needed_by="TimeEncodingDisplay.from_estimator")
    layer = estimator.modules_[column]
    device = next(layer.parameters()).device
    return layer(torch.from_numpy(times).to(device)).detach().cpu().numpy()
