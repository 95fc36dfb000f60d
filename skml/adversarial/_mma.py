"""The minimum-margin attack: the strongest of several targeted ones."""

import math
from numbers import Integral

import torch

from skml.utils._torch_classifiers import evaluation_mode

from ._arguments import check_logits, check_norm, check_samples, check_steps, greatest_column
from ._ascent import ascend, pick
from ._ball import Ball, per_row


def mma_attack(
    module,
    X,
    y,
    *,
    eps,
    step_size=None,
    n_steps=10,
    norm="inf",
    random_start=True,
    clip_values=(0, 1),
    generator=None,
    n_targets=3,
):
    """Attack a classifier towards each of the likeliest other classes, and keep the best.

    Parameters
    ----------
    module : torch.nn.Module
        The classifier; it maps (n, ...) to logits (n, n_classes). It is attacked in evaluation
        mode and left in the mode in which it was, with ``.grad`` of its parameters untouched.
    X : array-like or torch.Tensor of shape (n, ...)
        Samples, inside `clip_values`.
    y : array-like or torch.Tensor of shape (n,), dtype int
        Column of the true class.
    eps : float
        Radius of the ball, as a fraction of the range of `clip_values`.
    step_size : float or None, default=None
        Length of a step in the same unit; None: ``2.5 * eps / n_steps``.
    n_steps : int, default=10
        Number of steps of each run.
    norm : {"inf", "l2"}, default="inf"
        Norm of the ball.
    random_start : bool or torch.Tensor of shape (n, ...), default=True
        As in :func:`pgd_attack`; the runs share one start.
    clip_values : tuple of (float or torch.Tensor, float or torch.Tensor) or None, default=(0, 1)
        As in :func:`pgd_attack`.
    generator : torch.Generator or None, default=None
        Source of the random start.
    n_targets : int, default=3
        Number of runs; at most the number of classes less one take place.

    Returns
    -------
    torch.Tensor of shape (n, ...)
        The attacked samples.

    See Also
    --------
    pgd_attack : One run, away from y.

    Notes
    -----
    The targets t of a sample are the classes other than y with the greatest logits at the
    sample. Each run ascends :math:`z_t - z_y`; of the runs' last points the one with the
    greatest :math:`z_t - z_y` is kept.

    References
    ----------
    .. [1] R. Gao, J. Wang, K. Zhou, F. Liu, B. Xie, G. Niu, B. Han, J. Cheng. "Fast and reliable
       evaluation of adversarial robustness with minimum-margin attack." ICML 2022.
       https://arxiv.org/abs/2206.07314

    Examples
    --------
    >>> import torch
    >>> from skml.adversarial import mma_attack
    >>> module = torch.nn.Linear(2, 3, bias=False)
    >>> _ = module.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.9]])})
    >>> mma_attack(module, torch.tensor([[0.6, 0.4]]), [0], eps=0.15, random_start=False)
    tensor([[0.4500, 0.5500]])
    """
    x, y = check_samples(module, X, y)
    eps, step_size = check_steps(eps, step_size, n_steps)
    if not isinstance(n_targets, Integral) or n_targets < 1:
        raise ValueError(f"n_targets must be an int of at least 1, got {n_targets!r}.")
    ball = Ball(x, eps, check_norm(norm), clip_values)
    start = ball.start(random_start, generator)
    with evaluation_mode(module):
        with torch.no_grad():
            logits = module(x)
            check_logits(logits, greatest_column(y))
        others = logits.scatter(1, y[:, None], -math.inf)
        n_targets = min(int(n_targets), logits.shape[1] - 1)
        best, best_margin = start, torch.full((len(x),), -math.inf).to(logits)
        for target in others.topk(n_targets, dim=1).indices.T:

            def gain(logits, y, target=target):
                return pick(logits, target) - pick(logits, y)

            end = ascend(module, start.clone(), y, ball, gain, step_size, n_steps)
            with torch.no_grad():
                margin = gain(module(end), y)
            better = margin > best_margin
            best_margin = torch.where(better, margin, best_margin)
            best = torch.where(per_row(better, x), end, best)
    return best
