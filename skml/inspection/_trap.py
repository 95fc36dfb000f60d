"""What a distiller sees of a trap: synthetic samples by group, and fragile shares by radius."""

import math

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skml.utils._optional import import_optional

from ._display import AxesMixin, check_one_entry_each

_KINDS = ("shares", "samples")
_COLORS = {"fragile": "tab:blue", "robust": "tab:red"}


class TrapDisplay(AxesMixin):
    """Synthetic samples with their group, and the share of fragile samples over the radius.

    Make it by :meth:`from_estimator`; the constructor takes what is drawn.

    Parameters
    ----------
    samples : array-like of shape (n_samples, n_features)
        Synthetic samples.
    fragile : array-like of shape (n_samples,), dtype bool
        Whether each is fragile.
    eps : array-like of shape (n_radii,)
        Radii, as fractions of the features' ranges.
    shares : dict of str to array-like of shape (n_radii,)
        Share of fragile samples at each radius, for each set of samples by name.
    eps_fitted : float or None, default=None
        Radius of the distiller.
    input_shape : tuple of int or None, default=None
        (n_channels, height, width) of images; None for vectors.

    Attributes
    ----------
    samples : ndarray of shape (n_samples, n_features)
        Synthetic samples.
    fragile : ndarray of shape (n_samples,), dtype bool
        Their group.
    eps : ndarray of shape (n_radii,)
        Radii.
    shares : dict of str to ndarray of shape (n_radii,)
        Shares, from 0 to 1.
    eps_fitted : float or None
        Radius of the distiller.
    input_shape : tuple of int or None
        Shape of images.
    ax_ : matplotlib Axes
        The axes, after :meth:`plot`.
    figure_ : matplotlib Figure
        The figure, after :meth:`plot`.
    artists_ : list
        What was drawn, after :meth:`plot`: a line for each set of samples, or one collection for
        each group of vectors, or the image of all images.

    See Also
    --------
    skml.distillation.ATEscDistiller : The distiller.

    Notes
    -----
    Where the share of the synthetic samples stays level over a range of radii, the samples
    beyond are robust by another order of magnitude than the rest: a radius on that plateau tells
    planted behaviour from honest one best. An honest teacher has no plateau.

    References
    ----------
    .. [1] Z. Hong, R. Chen, Z. Wang, B. Han, B. Du, T. Liu. "When data-free knowledge
       distillation meets non-transferable teacher: escaping out-of-distribution trap is all you
       need." ICML 2025. https://arxiv.org/abs/2507.04119

    Examples
    --------
    >>> from skml.inspection import TrapDisplay
    >>> display = TrapDisplay(
    ...     samples=[[0.1, 0.2], [0.8, 0.4]],
    ...     fragile=[True, False],
    ...     eps=[0.01, 0.1],
    ...     shares={"synthetic": [0.2, 0.5]},
    ... )
    >>> _ = display.plot()
    >>> display.ax_.get_ylabel()
    'Share of fragile samples'
    """

    def __init__(self, *, samples, fragile, eps, shares, eps_fitted=None, input_shape=None):
        self.samples = np.asarray(samples)
        self.fragile = np.asarray(fragile, dtype=bool)
        self.eps = np.asarray(eps, dtype=np.float64)
        self.shares = {name: np.asarray(values, dtype=float) for name, values in shares.items()}
        self.eps_fitted = eps_fitted
        self.input_shape = input_shape
        if self.samples.ndim != 2 or self.fragile.shape != self.samples.shape[:1]:
            raise ValueError(
                "samples must have the shape (n_samples, n_features) and fragile (n_samples,), "
                f"got {self.samples.shape} and {self.fragile.shape}"
            )
        named = {f"shares[{name!r}]": values for name, values in self.shares.items()}
        check_one_entry_each(self.eps.shape, "radii", **named)

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X=None,
        *,
        eps_range=(1e-3, 0.3),
        n_radii=12,
        n_samples=256,
        ax=None,
        **plot_params,
    ):
        """Draw samples and shares of a fitted distiller.

        Parameters
        ----------
        estimator : ATEscDistiller
            A fitted distiller.
        X : dict of str to array-like, array-like or None, default=None
            Further samples by name, whose shares are drawn besides those of the synthetic ones,
            such as data of the task and of another domain. A single array is named "data".
        eps_range : tuple of (float, float), default=(1e-3, 0.3)
            First and last radius; those between are equally spaced in their logarithm.
        n_radii : int, default=12
            Number of radii.
        n_samples : int, default=256
            Number of synthetic samples.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        TrapDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If the estimator does not tell fragile samples from robust ones.
        ValueError
            If `eps_range` is not positive and ascending.
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "is_fragile"):
            raise TypeError(
                "estimator must tell fragile samples from robust ones, as ATEscDistiller does, got "
                f"{type(estimator).__name__}"
            )
        if not 0 < eps_range[0] < eps_range[1]:
            raise ValueError(f"eps_range must be positive and ascending, got {eps_range!r}")
        samples = estimator.sample(n_samples)
        sets = {"synthetic": samples}
        if X is not None:
            sets |= X if isinstance(X, dict) else {"data": X}
        eps = np.geomspace(*eps_range, n_radii)
        shares = {
            name: [estimator.is_fragile(rows, eps=radius).mean() for radius in eps]
            for name, rows in sets.items()
        }
        shape = estimator.input_shape_
        display = cls(
            samples=samples,
            fragile=estimator.is_fragile(samples),
            eps=eps,
            shares=shares,
            eps_fitted=estimator.eps_,
            input_shape=shape if len(shape) == 3 else None,
        )
        return display.plot(ax=ax, **plot_params)

    def plot(self, ax=None, *, kind="shares", n_columns=16, **plot_params):
        """Draw one view.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        kind : {"shares", "samples"}, default="shares"
            "shares": share of fragile samples over the radius. "samples": images side by side,
            the fragile ones before the robust ones, framed in the colour of their group; of
            vectors the first two principal components.
        n_columns : int, default=16
            Images in a row.
        **plot_params : dict
            Passed to `Axes.plot` (shares), `Axes.scatter` (vectors) or `Axes.imshow` (images).

        Returns
        -------
        TrapDisplay
            The display itself.
        """
        if kind not in _KINDS:
            raise ValueError(f"kind must be one of {_KINDS}, got {kind!r}")
        ax = self._open_axes(ax)
        self.artists_ = []
        if kind == "shares":
            self._plot_shares(ax, plot_params)
        elif self.input_shape is None:
            self._plot_vectors(ax, plot_params)
        else:
            self._plot_images(ax, n_columns, plot_params)
        return self

    def _plot_shares(self, ax, plot_params):
        for name, values in self.shares.items():
            style = {"marker": ".", "label": name, **plot_params}
            self.artists_ += ax.plot(self.eps, values, **style)
        if self.eps_fitted is not None and self.eps_fitted > 0:
            ax.axvline(self.eps_fitted, color="grey", linestyle="--", label="fitted radius")
        ax.set(xscale="log", ylim=(-0.02, 1.02))
        ax.set(
            xlabel="Radius eps of the attack, as a share of the range",
            ylabel="Share of fragile samples",
        )
        ax.legend()

    def _plot_vectors(self, ax, plot_params):
        centred = self.samples - self.samples.mean(axis=0)
        axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
        points = np.zeros((len(centred), 2))
        points[:, : len(axes)] = centred @ axes.T
        for name, mask in (("fragile", self.fragile), ("robust", ~self.fragile)):
            style = {"s": 12, "color": _COLORS[name], "label": name, **plot_params}
            self.artists_.append(ax.scatter(*points[mask].T, **style))
        ax.set(xlabel="First principal component", ylabel="Second principal component")
        ax.legend()

    def _plot_images(self, ax, n_columns, plot_params):
        order = np.argsort(~self.fragile, kind="stable")
        n_rows = math.ceil(len(order) / n_columns)
        channels, height, width = self.input_shape
        images = self.samples[order].reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
        low, high = images.min(), images.max()
        images = (images - low) / (high - low if high > low else 1)
        # Colours need three channels; other numbers are shown by their mean.
        images = images if channels == 3 else images.mean(axis=3, keepdims=True).repeat(3, axis=3)
        canvas = np.ones((n_rows * (height + 2), n_columns * (width + 2), 3))
        colors = import_optional("matplotlib.colors", extra="plot", needed_by="TrapDisplay.plot")
        for place, (image, row) in enumerate(zip(images, order, strict=True)):
            top, left = (place // n_columns) * (height + 2), (place % n_columns) * (width + 2)
            frame = canvas[top : top + height + 2, left : left + width + 2]
            frame[:] = colors.to_rgb(_COLORS["fragile" if self.fragile[row] else "robust"])
            frame[1:-1, 1:-1] = image
        self.artists_.append(ax.imshow(canvas, **plot_params))
        ax.set_axis_off()
        share = self.fragile.mean()
        ax.set_title(f"{share:.0%} fragile (blue), {1 - share:.0%} robust (red)")
