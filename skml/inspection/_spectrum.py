"""Eigenvalues of a network's kernel, before and after they are balanced."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._display import AxesMixin


class SpectrumDisplay(AxesMixin):
    """Rates at which a network learns the directions of its data, before and after balancing.

    Make it by :meth:`from_estimator`; the constructor takes what is drawn.

    Parameters
    ----------
    eigenvalues : array-like of shape (n_eigenvalues,)
        Eigenvalues of the empirical neural tangent kernel, largest first.
    balanced_eigenvalues : array-like of shape (n_eigenvalues,)
        The same after balancing.

    Attributes
    ----------
    eigenvalues, balanced_eigenvalues : ndarray of shape (n_eigenvalues,)
        Eigenvalues before and after balancing.
    ax_ : matplotlib Axes
        The axes, after :meth:`plot`.
    figure_ : matplotlib Figure
        The figure, after :meth:`plot`.
    lines_ : list of matplotlib Line2D
        The curves before and after balancing, after :meth:`plot`.

    See Also
    --------
    skml.implicit.INRRegressor : The regressor whose kernel is drawn.
    skml.implicit.balancing_matrix : Balances the eigenvalues.

    Notes
    -----
    By gradient descent the part of the error along an eigenvector falls at the rate of its
    eigenvalue. The steeper the spectrum, the longer fine detail takes; the balanced part is flat.
    Eigenvalues that are not positive are rounding errors and are left out of the drawing.

    References
    ----------
    .. [1] K. Shi, H. Chen, L. Zhang, S. Gu. "Inductive gradient adjustment for spectral bias in
       implicit neural representations." ICML 2025. https://arxiv.org/abs/2410.13271

    Examples
    --------
    >>> from skml.inspection import SpectrumDisplay
    >>> display = SpectrumDisplay(
    ...     eigenvalues=[8.0, 4.0, 2.0, 1.0], balanced_eigenvalues=[2.0, 2.0, 2.0, 1.0]
    ... )
    >>> display.plot().ax_.get_ylabel()
    'Eigenvalue over the largest'
    """

    def __init__(self, *, eigenvalues, balanced_eigenvalues):
        self.eigenvalues = np.asarray(eigenvalues, dtype=np.float64)
        self.balanced_eigenvalues = np.asarray(balanced_eigenvalues, dtype=np.float64)
        if self.eigenvalues.ndim != 1 or self.eigenvalues.shape != self.balanced_eigenvalues.shape:
            raise ValueError(
                "eigenvalues and balanced_eigenvalues must be 1-D and of one length, got shapes "
                f"{self.eigenvalues.shape} and {self.balanced_eigenvalues.shape}"
            )

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **plot_params):
        """Draw the spectrum of the last kernel that a fitted regressor has balanced.

        Parameters
        ----------
        estimator : INRRegressor
            Fitted with ``training="iga"``.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        SpectrumDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If the regressor has balanced no kernel.
        """
        check_is_fitted(estimator)
        if estimator.eigenvalues_ is None:
            raise ValueError(
                "estimator has balanced no kernel: fit it with training='iga' and "
                f"n_balanced > 0; it has training={estimator.training!r}, "
                f"n_balanced={estimator.n_balanced}"
            )
        display = cls(
            eigenvalues=estimator.eigenvalues_,
            balanced_eigenvalues=estimator.balanced_eigenvalues_,
        )
        return display.plot(ax=ax, **plot_params)

    def plot(self, ax=None, **line_params):
        """Draw both spectra, relative to the largest eigenvalue before balancing.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **line_params : dict
            Passed to `Axes.plot`.

        Returns
        -------
        SpectrumDisplay
            The display itself.
        """
        ax = self._open_axes(ax)
        self.lines_ = []
        place = np.arange(1, len(self.eigenvalues) + 1)
        styles = {"before balancing": "--", "after balancing": "-"}
        spectra = (self.eigenvalues, self.balanced_eigenvalues)
        for (label, style), values in zip(styles.items(), spectra, strict=True):
            shown = values > 0
            self.lines_ += ax.plot(
                place[shown],
                values[shown] / self.eigenvalues[0],
                **{"label": label, "linestyle": style, **line_params},
            )
        ax.set(xscale="log", yscale="log")
        ax.set(xlabel="Place of the eigenvalue", ylabel="Eigenvalue over the largest")
        ax.legend()
        return self
