"""The projected gradient attack."""

import torch

from skml.utils._torch_classifiers import evaluation_mode

from ._arguments import check_norm, check_samples, check_steps, greatest_column
from ._ascent import ascend, make_objective, step
from ._ball import Ball


def pgd_attack(
    module,
    X,
    y,
    *,
    eps,
    step_size=None,
    n_steps=10,
    norm="inf",
    loss="margin",
    targeted=False,
    random_start=True,
    clip_values=(0, 1),
    generator=None,
    stop_at_success=False,
):
    """Attack a classifier by projected gradient ascent on its input.

    Parameters
    ----------
    module : torch.nn.Module
        The classifier; it maps (n, ...) to logits (n, n_classes). It is attacked in evaluation
        mode and left in the mode in which it was, with ``.grad`` of its parameters untouched.
    X : array-like or torch.Tensor of shape (n, ...)
        Samples, inside `clip_values`.
    y : array-like or torch.Tensor of shape (n,), dtype int
        Column of the class to lead away from, or to lead to if `targeted`.
    eps : float
        Radius of the ball around a sample, as a fraction of the range of `clip_values`.
    step_size : float or None, default=None
        Length of a step in the same unit; None: ``2.5 * eps / n_steps``.
    n_steps : int, default=10
        Number of steps.
    norm : {"inf", "l2"}, default="inf"
        Norm of the ball. `numpy.inf` and 2 are understood as well.
    loss : {"margin", "cross_entropy"} or callable, default="margin"
        What ascends. "margin" is the greatest other logit minus that of y; its gradient does
        not vanish however sure the classifier is, which that of the cross-entropy does in
        float32. A callable ``loss(logits, y)`` returns one value per sample, or their sum.
    targeted : bool, default=False
        Whether y is where to go; the loss then descends.
    random_start : bool or torch.Tensor of shape (n, ...), default=True
        Whether to start at a random point of the ball. A tensor is the start itself, as a point
        of the unit ball, so that attacks of several radii can share it.
    clip_values : tuple of (float or torch.Tensor, float or torch.Tensor) or None, default=(0, 1)
        Least and greatest value of a feature, for all or of shape ``X.shape[1:]``. None: no
        bounds, and a range of 1.
    generator : torch.Generator or None, default=None
        Source of the random start; None is torch's global generator.
    stop_at_success : bool, default=False
        Whether a sample rests at the first point, its start included, that the classifier takes
        for another class (for the class y if `targeted`). It then costs no further pass.

    Returns
    -------
    torch.Tensor of shape (n, ...)
        The attacked samples, in the ball and inside `clip_values`; of the type of X.

    Raises
    ------
    ValueError
        If an argument is out of range, or X is outside of `clip_values`.

    See Also
    --------
    fgsm_attack : One step of length `eps` without random start.
    mma_attack : The strongest of several targeted attacks.

    Notes
    -----
    With r the range of each feature, :math:`\\Pi` the projection onto the ball and the bounds,

    .. math:: x_{t+1} = \\Pi\\,[x_t + a\\, r\\, \\mathrm{sign} \\nabla_x L(f(x_t), y)]

    for the maximum norm; for the Euclidean one, in units of r, the gradient is divided by its
    norm in place of taking signs.

    References
    ----------
    .. [1] A. Madry, A. Makelov, L. Schmidt, D. Tsipras, A. Vladu. "Towards deep learning models
       resistant to adversarial attacks." ICLR 2018. https://arxiv.org/abs/1706.06083

    Examples
    --------
    >>> import torch
    >>> from skml.adversarial import pgd_attack
    >>> module = torch.nn.Linear(2, 2, bias=False)
    >>> _ = module.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 1.0]])})
    >>> X = torch.tensor([[0.6, 0.4]])
    >>> pgd_attack(module, X, [0], eps=0.15, random_start=False)
    tensor([[0.4500, 0.5500]])
    """
    x, y = check_samples(module, X, y)
    eps, step_size = check_steps(eps, step_size, n_steps)
    ball = Ball(x, eps, check_norm(norm), clip_values)
    objective = make_objective(loss, targeted, greatest_column(y))
    current = ball.start(random_start, generator)
    with evaluation_mode(module):
        if not stop_at_success:
            return ascend(module, current, y, ball, objective, step_size, n_steps)
        rows = torch.arange(len(x), device=x.device)  # of the samples that are still attacked
        for _ in range(n_steps):
            moved, logits = step(module, current[rows], y[rows], ball[rows], objective, step_size)
            hit = logits.argmax(dim=1) == y[rows]
            active = ~hit if targeted else hit
            rows = rows[active]
            if len(rows) == 0:
                break
            current[rows] = moved[active]
    return current
