"""Layer error of quantised weights against bits per weight."""

import numpy as np
from sklearn.base import clone

from skml.quantization import RTNQuantizer

from ._display import AxesMixin, check_one_entry_each, points_by_curve


class QuantizationErrorDisplay(AxesMixin):
    """Relative layer error against bits per weight, one curve for each quantizer.

    Make it by :meth:`from_estimator` or :meth:`from_estimators`; the constructor takes the
    points.

    Parameters
    ----------
    bits : array-like of shape (n_points,)
        Bits per weight of each point.
    errors : array-like of shape (n_points,)
        Relative layer error of each point.
    groups : sequence of str of length n_points or None, default=None
        Label of the curve that each point belongs to; None: one curve.

    Attributes
    ----------
    bits : ndarray of shape (n_points,)
        Bits per weight.
    errors : ndarray of shape (n_points,)
        Relative layer errors.
    groups : ndarray of shape (n_points,), dtype str, or None
        The curve of each point.
    ax_ : matplotlib Axes
        The axes, after :meth:`plot`.
    figure_ : matplotlib Figure
        The figure, after :meth:`plot`.
    lines_ : list of matplotlib Line2D
        The curves, in the order in which they first occur in `groups`, after :meth:`plot`.

    See Also
    --------
    skml.quantization.GANQQuantizer : A quantizer, with the method that computes the error.

    Notes
    -----
    The relative layer error of weights W and their quantised version W~ is

    .. math:: \\frac{\\mathrm{tr}((W - \\tilde W) H (W - \\tilde W)^T)}{\\mathrm{tr}(W H W^T)}

    with the Gram matrix H of the inputs. One bit more divides it by about four.

    References
    ----------
    .. [1] P. Zhao, X. Yuan. "GANQ: GPU-Adaptive Non-Uniform Quantization for Large Language
       Models." ICML 2025. https://arxiv.org/abs/2501.12956

    Examples
    --------
    >>> from skml.inspection import QuantizationErrorDisplay
    >>> display = QuantizationErrorDisplay(bits=[2, 3, 4], errors=[0.08, 0.02, 0.005])
    >>> _ = display.plot()
    >>> display.ax_.get_ylabel()
    'Relative layer error'
    """

    def __init__(self, *, bits, errors, groups=None):
        self.bits = np.asarray(bits)
        self.errors = np.asarray(errors, dtype=np.float64)
        self.groups = None if groups is None else np.asarray(groups, dtype=str)
        check_one_entry_each(self.bits.shape, "bits", errors=self.errors, groups=self.groups)

    @classmethod
    def from_estimator(
        cls, quantizer, X, W, *, bits=(2, 3, 4), X_test=None, ax=None, **plot_params
    ):
        """Quantise weights with several numbers of bits and plot the layer error.

        Parameters
        ----------
        quantizer : BaseWeightQuantizer
            The quantizer; it is cloned.
        X : array-like of shape (n_samples, n_features)
            Calibration inputs of the layer.
        W : array-like of shape (n_outputs, n_features)
            Weights of the layer.
        bits : sequence of int, default=(2, 3, 4)
            Numbers of bits.
        X_test : array-like of shape (n_test_samples, n_features), default=None
            Inputs on which the error is computed; None: `X`.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        QuantizationErrorDisplay
            The display, drawn.
        """
        errors = _measure(quantizer, X, W, bits, X_test)
        return cls(bits=bits, errors=errors).plot(ax=ax, **plot_params)

    @classmethod
    def from_estimators(
        cls, quantizers, X, W, *, bits=(2, 3, 4), X_test=None, ax=None, **plot_params
    ):
        """Plot several quantizers in one picture, a curve for each.

        Parameters
        ----------
        quantizers : dict of str to BaseWeightQuantizer
            The quantizers by the label of their curve; they are cloned.
        X : array-like of shape (n_samples, n_features)
            Calibration inputs of the layer.
        W : array-like of shape (n_outputs, n_features)
            Weights of the layer.
        bits : sequence of int, default=(2, 3, 4)
            Numbers of bits.
        X_test : array-like of shape (n_test_samples, n_features), default=None
            Inputs on which the error is computed; None: `X`.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        QuantizationErrorDisplay
            The display, drawn; `groups` holds the labels.

        Raises
        ------
        ValueError
            If there is no quantizer.
        """
        if not quantizers:
            raise ValueError(f"quantizers must hold at least one quantizer, got {quantizers!r}")
        errors = [_measure(quantizer, X, W, bits, X_test) for quantizer in quantizers.values()]
        display = cls(
            bits=np.tile(bits, len(quantizers)),
            errors=np.concatenate(errors),
            groups=np.repeat([str(label) for label in quantizers], len(bits)),
        )
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
        QuantizationErrorDisplay
            The display itself.
        """
        ax = self._open_axes(ax)
        self.lines_ = []
        for label, points in points_by_curve(self.groups, self.bits):
            style = {"marker": "o", "label": label or None, **line_params}
            self.lines_ += ax.plot(self.bits[points], self.errors[points], **style)
        if self.groups is not None:
            ax.legend()
        ax.set_xticks(np.unique(self.bits))
        ax.set(yscale="log", xlabel="Bits per weight", ylabel="Relative layer error")
        return self


def _measure(quantizer, X, W, bits, X_test):
    fitted = clone(quantizer).fit(X)
    judge = fitted if X_test is None else RTNQuantizer().fit(X_test)
    return [judge.error(W, fitted.set_params(bits=n).quantize(W)) for n in bits]
