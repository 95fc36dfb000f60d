"""Sampled against target probabilities."""

import numpy as np

from ._display import AxesMixin


class SampleDistributionDisplay(AxesMixin):
    """Probabilities with which a sampler draws objects, against those it should have.

    Make it by :meth:`from_estimator`; the constructor takes the probabilities.

    Parameters
    ----------
    probabilities : array-like of shape (n_objects,)
        Probability of each object under the sampler.
    target : array-like of shape (n_objects,)
        Its reward over the sum of all rewards.
    name : str or None, default=None
        Name of the sampler, for the legend.

    Attributes
    ----------
    probabilities, target : ndarray of shape (n_objects,)
        As given.
    name : str or None
        As given.
    l1_distance : float
        Sum of the absolute differences.
    ax_ : matplotlib Axes
        The axes, after :meth:`plot`.
    figure_ : matplotlib Figure
        The figure, after :meth:`plot`.
    points_ : matplotlib Line2D
        The objects, after :meth:`plot`.

    See Also
    --------
    skml.gflownet.RewardProportionalSampler : The sampler.

    References
    ----------
    .. [1] H. He, E. Bengio, Q. Cai, L. Pan. "Random policy evaluation uncovers policies of
       generative flow networks." ICML 2025. https://arxiv.org/abs/2406.02213

    Examples
    --------
    >>> from skml.gflownet import RewardProportionalSampler
    >>> from skml.inspection import SampleDistributionDisplay
    >>> sampler = RewardProportionalSampler().fit([["a"], ["b"], ["c"]], [1.0, 2.0, 5.0])
    >>> display = SampleDistributionDisplay.from_estimator(sampler)
    >>> display.target
    array([0.125, 0.25 , 0.625])
    """

    def __init__(self, *, probabilities, target, name=None):
        self.probabilities = np.asarray(probabilities, dtype=np.float64)
        self.target = np.asarray(target, dtype=np.float64)
        self.name = name
        if self.probabilities.shape != self.target.shape or self.target.ndim != 1:
            raise ValueError(
                "probabilities and target must have the same shape (n_objects,), got "
                f"{self.probabilities.shape} and {self.target.shape}"
            )
        self.l1_distance = float(np.abs(self.probabilities - self.target).sum())

    @classmethod
    def from_estimator(cls, estimator, *, name=None, ax=None, **plot_params):
        """Draw all objects of a fitted sampler.

        Parameters
        ----------
        estimator : RewardProportionalSampler
            A fitted sampler whose objects can be enumerated.
        name : str or None, default=None
            Its name; None: its objective.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        SampleDistributionDisplay
            The display, drawn.
        """
        _, probabilities, target = estimator.distribution()
        name = estimator.objective if name is None else name
        display = cls(probabilities=probabilities, target=target, name=name)
        return display.plot(ax=ax, **plot_params)

    def plot(self, ax=None, **line_params):
        """Draw one point per object.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **line_params : dict
            Passed to `Axes.plot`.

        Returns
        -------
        SampleDistributionDisplay
            The display itself.
        """
        ax = self._open_axes(ax)
        label = f"L1 distance {self.l1_distance:.3g}"
        label = label if self.name is None else f"{self.name}: {label}"
        style = {"marker": ".", "linestyle": "none", "alpha": 0.5, "label": label, **line_params}
        (self.points_,) = ax.plot(self.target, self.probabilities, **style)
        positive = self.target[self.target > 0]
        ends = [positive.min(), positive.max()]
        ax.plot(ends, ends, color="black", linewidth=1)
        ax.set(xscale="log", yscale="log")
        ax.set(xlabel="Target probability", ylabel="Probability under the sampler")
        ax.legend()
        return self
