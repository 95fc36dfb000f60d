"""Shuffling steps and orders for training with torch and skorch."""

from math import log
from numbers import Integral, Real

from skml.utils._optional import import_optional

__all__ = ["ShuffleOnceSampler", "ShufflingLR"]

torch = import_optional("torch", extra="torch", needed_by=__name__)
LRScheduler = import_optional(
    "torch.optim.lr_scheduler", extra="torch", needed_by=__name__
).LRScheduler
Sampler = import_optional("torch.utils.data", extra="torch", needed_by=__name__).Sampler

_RULES = ("cbrt", "log", "linear")
_ORDERS = ("reshuffle", "shuffle_once", "incremental")


class ShufflingLR(LRScheduler):
    r"""Learning rates of shuffling gradient methods, set once for each epoch.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        The optimizer, plain SGD for the method as published.
    eta0 : float
        Step of a whole epoch, :math:`\eta_0`.
    n_batches : int
        Steps of an epoch.
    horizon : int or None, default=None
        Number of epochs; "log" and "linear" need it. If given, a step beyond it raises.
    rule : {"cbrt", "log", "linear"}, default="cbrt"
        How :math:`\eta_t` falls; see Notes.
    order : {"reshuffle", "shuffle_once", "incremental"}, default="reshuffle"
        Order of the batches, which "cbrt" takes larger steps for if it is drawn anew each epoch.
    mu : float or None, default=None
        Strong convexity, for "log".
    offset : float, default=0.0
        Added to the number of the epoch in "cbrt".
    last_epoch : int, default=-1
        Number of the last epoch when training is resumed, as in torch.

    Raises
    ------
    ValueError
        If an argument is out of its range, or the schedule is stepped more than `horizon` times.

    See Also
    --------
    ShuffleOnceSampler : One random order for all epochs.

    Notes
    -----
    The learning rate of epoch t = 1, 2, ... is :math:`\eta_t / n` with n = `n_batches` and

    - "cbrt": :math:`\eta_t = \eta_0 n^{1/3} (t + \mathrm{offset})^{-1/3}`, without
      :math:`n^{1/3}` unless reshuffled;
    - "log": :math:`\eta_t = \min\{\eta_0, 6 \log(T) / (\mu T)\}` with T = `horizon`;
    - "linear": :math:`\eta_t = \eta_0 (1 - (t - 1) / T)`.

    It depends on t alone, not on the learning rate that the optimizer holds.

    References
    ----------
    .. [1] Q. He, P. Yu, Z. Chen, H. Huang. "Revisiting Convergence: Shuffling Complexity Beyond
           Lipschitz Smoothness". ICML 2025, PMLR 267:22816-22835. arXiv:2507.08913.

    Examples
    --------
    >>> import torch
    >>> from skml.linear_model.torch import ShufflingLR
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=1.0)
    >>> scheduler = ShufflingLR(optimizer, eta0=0.5, n_batches=7)
    >>> round(scheduler.get_last_lr()[0], 5)
    0.13664
    """

    def __init__(
        self,
        optimizer,
        eta0,
        n_batches,
        horizon=None,
        rule="cbrt",
        order="reshuffle",
        *,
        mu=None,
        offset=0.0,
        last_epoch=-1,
    ):
        for name, value, options in (("rule", rule, _RULES), ("order", order, _ORDERS)):
            if value not in options:
                raise ValueError(f"{name} must be one of {options}, got {value!r}")
        for name, value in (("n_batches", n_batches), ("horizon", horizon)):
            is_none = value is None and name == "horizon"
            if not (is_none or (isinstance(value, Integral) and value >= 1)):
                raise ValueError(f"{name} must be a positive integer, got {value!r}")
        if not (isinstance(eta0, Real) and eta0 > 0):
            raise ValueError(f"eta0 must be a positive number, got {eta0!r}")
        if not (isinstance(offset, Real) and offset >= 0):
            raise ValueError(f"offset must be a non-negative number, got {offset!r}")
        if rule != "cbrt" and horizon is None:
            raise ValueError(f"rule={rule!r} needs horizon, the number of epochs, got None")
        if rule == "log" and not (isinstance(mu, Real) and mu > 0):
            raise ValueError(f"rule='log' needs mu to be a positive number, got {mu!r}")
        self.eta0, self.n_batches, self.horizon = eta0, n_batches, horizon
        self.rule, self.order, self.mu, self.offset = rule, order, mu, offset
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """Compute the learning rate of the epoch that begins.

        Returns
        -------
        list of float
            One for each group of parameters, all alike.
        """
        # last_epoch counts the steps of the schedule; the one after the last epoch is allowed.
        if self.horizon is not None and self.last_epoch > self.horizon:
            raise ValueError(
                f"horizon={self.horizon} epochs are over: step {self.last_epoch} of the schedule "
                "is beyond it"
            )
        return [self._epoch_step(self.last_epoch + 1) / self.n_batches] * len(
            self.optimizer.param_groups
        )

    def _epoch_step(self, t):
        if self.rule == "cbrt":
            gain = self.n_batches ** (1 / 3) if self.order == "reshuffle" else 1.0
            return self.eta0 * gain * (t + self.offset) ** (-1 / 3)
        if self.rule == "log":
            T = max(self.horizon, 2)
            return min(self.eta0, 6 * log(T) / (self.mu * T))
        return self.eta0 * (1 - (t - 1) / self.horizon)


class ShuffleOnceSampler(Sampler):
    """Sample in one random order, the same in every epoch.

    Parameters
    ----------
    data_source : sized
        The data set.
    random_state : int, RandomState instance or None, default=None
        Source of the order, which is drawn here and from a generator of its own.

    See Also
    --------
    ShufflingLR : Learning rates for each order.

    References
    ----------
    .. [1] Q. He, P. Yu, Z. Chen, H. Huang. "Revisiting Convergence: Shuffling Complexity Beyond
           Lipschitz Smoothness". ICML 2025, PMLR 267:22816-22835. arXiv:2507.08913.

    Examples
    --------
    >>> from skml.linear_model.torch import ShuffleOnceSampler
    >>> sampler = ShuffleOnceSampler(range(5), random_state=0)
    >>> list(sampler) == list(sampler)
    True
    >>> sorted(sampler)
    [0, 1, 2, 3, 4]
    """

    def __init__(self, data_source, *, random_state=None):
        from skml.utils._torch import make_generator

        self.data_source = data_source
        generator = make_generator(random_state)
        self._order = torch.randperm(len(data_source), generator=generator).tolist()

    def __iter__(self):
        return iter(self._order)

    def __len__(self):
        return len(self._order)
