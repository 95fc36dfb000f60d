"""Steps up the gradient of a loss with respect to the input."""

import math

import torch
from torch import nn

from ._arguments import check_logits


def ascend(module, x, y, ball, objective, step_size, n_steps):
    """Climb from x, and return where the last step leads.

    Parameters
    ----------
    module : torch.nn.Module
        The classifier, in evaluation mode.
    x : torch.Tensor of shape (n, ...)
        Where to start.
    y : torch.Tensor of shape (n,), dtype int64
        Columns that the objective knows.
    ball : Ball
        The points that may be reached.
    objective : callable
        ``objective(logits, y)`` is what ascends, one value per sample.
    step_size : float
        Length of a step, as a fraction of each feature's range.
    n_steps : int
        Number of steps.

    Returns
    -------
    torch.Tensor of shape (n, ...)
        The last points.
    """
    for _ in range(n_steps):
        x, _ = step(module, x, y, ball, objective, step_size)
    return x


def step(module, x, y, ball, objective, step_size):
    """The next points, and the logits at the present ones."""
    with torch.enable_grad():
        x = x.detach().requires_grad_(True)
        logits = module(x)
        (gradient,) = torch.autograd.grad(objective(logits, y).sum(), x)
    return ball.move(x.detach(), gradient, step_size), logits.detach()


def make_objective(loss, targeted, greatest):
    """What an attack ascends: a loss, or minus it if `targeted`.

    Logits without the column `greatest` are refused.
    """

    function = _loss_function(loss)

    def objective(logits, y):
        check_logits(logits, greatest)
        return -function(logits, y) if targeted else function(logits, y)

    return objective


def _loss_function(loss):
    if loss == "margin":
        function = _margin
    elif loss == "cross_entropy":

        def function(logits, y):
            return nn.functional.cross_entropy(logits, y, reduction="none")

    elif callable(loss):
        function = loss
    else:
        raise ValueError(f"loss must be 'margin', 'cross_entropy' or a callable, got {loss!r}.")
    return function


def _margin(logits, y):
    """The greatest other logit minus that of y."""
    others = logits.scatter(1, y[:, None], -math.inf)
    return others.amax(dim=1) - pick(logits, y)


def pick(logits, y):
    """The logit of column y in each row."""
    return logits.gather(1, y[:, None]).squeeze(1)
