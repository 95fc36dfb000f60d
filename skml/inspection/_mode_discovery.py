"""Good objects that training has found, over the rewards that it asked for."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._display import AxesMixin


class ModeDiscoveryDisplay(AxesMixin):
    """Number of distinct good objects visited in training, over reward calls.

    Make it by :meth:`from_estimator`; the constructor takes the curve.

    Parameters
    ----------
    reward_calls : array-like of shape (n_modes,)
        Number of rewards that had been asked for when each good object was first met, ascending.
    n_calls : int
        Number of rewards asked for in all.
    threshold : float
        Rewards from here on are good.
    name : str or None, default=None
        Name of the sampler, for the legend.

    Attributes
    ----------
    reward_calls : ndarray of shape (n_modes,)
        As given.
    n_calls : int
        As given.
    threshold : float
        As given.
    name : str or None
        As given.
    ax_ : matplotlib Axes
        The axes, after :meth:`plot`.
    figure_ : matplotlib Figure
        The figure, after :meth:`plot`.
    line_ : matplotlib Line2D
        The curve, after :meth:`plot`.

    See Also
    --------
    skml.gflownet.RewardProportionalSampler : The sampler.

    References
    ----------
    .. [1] H. He, E. Bengio, Q. Cai, L. Pan. "Random policy evaluation uncovers policies of
       generative flow networks." ICML 2025. https://arxiv.org/abs/2406.02213

    Examples
    --------
    >>> from skml.inspection import ModeDiscoveryDisplay
    >>> display = ModeDiscoveryDisplay(reward_calls=[3, 5, 9], n_calls=10, threshold=0.5).plot()
    >>> display.line_.get_ydata()
    array([0, 1, 2, 3, 3])
    """

    def __init__(self, *, reward_calls, n_calls, threshold, name=None):
        self.reward_calls = np.asarray(reward_calls)
        self.n_calls = n_calls
        self.threshold = threshold
        self.name = name
        if self.reward_calls.ndim != 1 or (np.diff(self.reward_calls) < 0).any():
            raise ValueError("reward_calls must be an ascending list of numbers")

    @classmethod
    def from_estimator(
        cls, estimator, *, threshold=None, quantile=0.995, name=None, ax=None, **plot_params
    ):
        """Draw the curve of a sampler that was trained.

        Parameters
        ----------
        estimator : RewardProportionalSampler
            A fitted sampler with ``solver_ == "mlp"``.
        threshold : float or None, default=None
            Rewards from here on are good. None: the quantile of the visited objects' rewards;
            give a number to compare samplers.
        quantile : float, default=0.995
            Which quantile.
        name : str or None, default=None
            Its name; None: its objective.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        ModeDiscoveryDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If the sampler is exact, so that nothing was visited.
        """
        check_is_fitted(estimator)
        history = estimator.history_
        if not history:
            raise ValueError("estimator must have been trained, with solver_='mlp'; it is exact")
        rewards = history["rewards"]
        if threshold is None:
            threshold = float(np.quantile(rewards, quantile))
        good = rewards >= threshold
        display = cls(
            reward_calls=np.sort(history["reward_calls"][good]),
            n_calls=estimator.n_reward_calls_,
            threshold=threshold,
            name=estimator.objective if name is None else name,
        )
        return display.plot(ax=ax, **plot_params)

    def plot(self, ax=None, **line_params):
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **line_params : dict
            Passed to `Axes.plot`.

        Returns
        -------
        ModeDiscoveryDisplay
            The display itself.
        """
        ax = self._open_axes(ax)
        n_modes = len(self.reward_calls)
        calls = np.concatenate([[0], self.reward_calls, [self.n_calls]])
        found = np.concatenate([np.arange(n_modes + 1), [n_modes]])
        style = {"drawstyle": "steps-post", "label": self.name, **line_params}
        (self.line_,) = ax.plot(calls, found, **style)
        ax.set(
            xlabel="Reward calls",
            ylabel=f"Distinct objects with a reward of at least {self.threshold:.3g}",
        )
        if self.name is not None:
            ax.legend()
        return self
