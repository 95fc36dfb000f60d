"""Gradient attacks: projected gradient, its single step, and the minimum-margin attack."""

import math
from numbers import Integral, Real

import numpy as np
import torch
from torch import nn

from skml.utils._torch_classifiers import evaluation_mode


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
    X : Tensor or array-like of shape (n, ...)
        Samples, inside `clip_values`.
    y : Tensor or array-like of shape (n,), dtype int
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
    random_start : bool or Tensor of shape (n, ...), default=True
        Whether to start at a random point of the ball. A tensor is the start itself, as a point
        of the unit ball, so that attacks of several radii can share it.
    clip_values : tuple of (float or Tensor, float or Tensor) or None, default=(0, 1)
        Least and greatest value of a feature, for all or of shape ``X.shape[1:]``. None: no
        bounds, and a range of 1.
    generator : torch.Generator or None, default=None
        Source of the random start; None is torch's global generator.
    stop_at_success : bool, default=False
        Whether a sample rests at the first point, its start included, that the classifier takes
        for another class (for the class y if `targeted`). It then costs no further pass.

    Returns
    -------
    Tensor of shape (n, ...)
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
    x, y = _check_samples(module, X, y)
    eps, step_size = _check_steps(eps, step_size, n_steps)
    ball = _Ball(x, eps, _check_norm(norm), clip_values)
    objective = _objective(loss, targeted, _greatest(y))
    current = ball.start(random_start, generator)
    with evaluation_mode(module):
        if not stop_at_success:
            return _ascend(module, current, y, ball, objective, step_size, n_steps)
        rows = torch.arange(len(x), device=x.device)  # of the samples that are still attacked
        for _ in range(n_steps):
            moved, logits = _step(module, current[rows], y[rows], ball[rows], objective, step_size)
            hit = logits.argmax(dim=1) == y[rows]
            active = ~hit if targeted else hit
            rows = rows[active]
            if len(rows) == 0:
                break
            current[rows] = moved[active]
    return current


def fgsm_attack(
    module, X, y, *, eps, norm="inf", loss="margin", targeted=False, clip_values=(0, 1)
):
    """Attack a classifier by one gradient step of length `eps`.

    Parameters
    ----------
    module : torch.nn.Module
        The classifier; it maps (n, ...) to logits (n, n_classes). It is attacked in evaluation
        mode and left in the mode in which it was, with ``.grad`` of its parameters untouched.
    X : Tensor or array-like of shape (n, ...)
        Samples, inside `clip_values`.
    y : Tensor or array-like of shape (n,), dtype int
        Column of the class to lead away from, or to lead to if `targeted`.
    eps : float
        Length of the step, as a fraction of the range of `clip_values`.
    norm : {"inf", "l2"}, default="inf"
        Norm in which the step has that length.
    loss : {"margin", "cross_entropy"} or callable, default="margin"
        As in :func:`pgd_attack`.
    targeted : bool, default=False
        Whether y is where to go.
    clip_values : tuple of (float or Tensor, float or Tensor) or None, default=(0, 1)
        As in :func:`pgd_attack`.

    Returns
    -------
    Tensor of shape (n, ...)
        The attacked samples.

    See Also
    --------
    pgd_attack : Several steps.

    References
    ----------
    .. [1] I. J. Goodfellow, J. Shlens, C. Szegedy. "Explaining and harnessing adversarial
       examples." ICLR 2015. https://arxiv.org/abs/1412.6572

    Examples
    --------
    >>> import torch
    >>> from skml.adversarial import fgsm_attack
    >>> module = torch.nn.Linear(2, 2, bias=False)
    >>> _ = module.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 1.0]])})
    >>> fgsm_attack(module, torch.tensor([[0.6, 0.4]]), [0], eps=0.25)
    tensor([[0.3500, 0.6500]])
    """
    return pgd_attack(
        module,
        X,
        y,
        eps=eps,
        step_size=eps,
        n_steps=1,
        norm=norm,
        loss=loss,
        targeted=targeted,
        random_start=False,
        clip_values=clip_values,
    )


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
    X : Tensor or array-like of shape (n, ...)
        Samples, inside `clip_values`.
    y : Tensor or array-like of shape (n,), dtype int
        Column of the true class.
    eps : float
        Radius of the ball, as a fraction of the range of `clip_values`.
    step_size : float or None, default=None
        Length of a step in the same unit; None: ``2.5 * eps / n_steps``.
    n_steps : int, default=10
        Number of steps of each run.
    norm : {"inf", "l2"}, default="inf"
        Norm of the ball.
    random_start : bool or Tensor of shape (n, ...), default=True
        As in :func:`pgd_attack`; the runs share one start.
    clip_values : tuple of (float or Tensor, float or Tensor) or None, default=(0, 1)
        As in :func:`pgd_attack`.
    generator : torch.Generator or None, default=None
        Source of the random start.
    n_targets : int, default=3
        Number of runs; at most the number of classes less one take place.

    Returns
    -------
    Tensor of shape (n, ...)
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
    x, y = _check_samples(module, X, y)
    eps, step_size = _check_steps(eps, step_size, n_steps)
    if not isinstance(n_targets, Integral) or n_targets < 1:
        raise ValueError(f"n_targets must be an int of at least 1, got {n_targets!r}.")
    ball = _Ball(x, eps, _check_norm(norm), clip_values)
    start = ball.start(random_start, generator)
    with evaluation_mode(module):
        with torch.no_grad():
            logits = module(x)
            _check_logits(logits, _greatest(y))
        others = logits.scatter(1, y[:, None], -math.inf)
        n_targets = min(int(n_targets), logits.shape[1] - 1)
        best, best_margin = start, torch.full((len(x),), -math.inf).to(logits)
        for target in others.topk(n_targets, dim=1).indices.T:

            def gain(logits, y, target=target):
                return _pick(logits, target) - _pick(logits, y)

            end = _ascend(module, start.clone(), y, ball, gain, step_size, n_steps)
            with torch.no_grad():
                margin = gain(module(end), y)
            better = margin > best_margin
            best_margin = torch.where(better, margin, best_margin)
            best = torch.where(_per_row(better, x), end, best)
    return best


class _Ball:
    """The points that an attack may reach: the ball around each sample, inside the bounds."""

    def __init__(self, x, eps, norm, clip_values):
        self.center, self.eps, self.norm = x, eps, norm
        low, high, self.range = _bounds(x, clip_values)
        if norm == "inf":  # a box, and its intersection with the bounds is one too
            radius = eps * self.range
            low, high = torch.maximum(x - radius, low), torch.minimum(x + radius, high)
        self.low, self.high = low, high

    def __getitem__(self, rows):
        part = object.__new__(_Ball)
        part.center, part.eps, part.norm = self.center[rows], self.eps, self.norm
        part.low, part.high, part.range = self.low, self.high, self.range
        if self.norm == "inf":
            part.low, part.high = self.low[rows], self.high[rows]
        return part

    def start(self, random_start, generator):
        if isinstance(random_start, torch.Tensor):
            if random_start.shape != self.center.shape:
                raise ValueError(
                    f"random_start must have the shape {tuple(self.center.shape)} of X, got "
                    f"{tuple(random_start.shape)}."
                )
            direction = random_start.to(self.center)
        elif not isinstance(random_start, (bool, np.bool_)):
            raise TypeError(f"random_start must be a bool or a torch.Tensor, got {random_start!r}.")
        elif random_start:
            if not (generator is None or isinstance(generator, torch.Generator)):
                raise TypeError(f"generator must be a torch.Generator or None, got {generator!r}.")
            direction = self._draw(generator)
        else:
            return self.center.clone()
        return self.project(self.center + self.eps * self.range * direction)

    def _draw(self, generator):
        device = self.center.device if generator is None else generator.device
        shape = self.center.shape
        if self.norm == "inf":
            draw = torch.rand(shape, generator=generator, device=device)
            return (2 * draw - 1).to(self.center)
        draw = torch.randn(shape, generator=generator, device=device)
        radius = torch.rand(len(self.center), generator=generator, device=device)
        n_features = max(self.center[0].numel(), 1) if len(self.center) else 1
        radius = radius ** (1 / n_features)
        draw = draw / _row_norms(draw).clamp_min(1e-12) * _per_row(radius, draw)
        return draw.to(self.center)

    def move(self, x, gradient, step_size):
        if self.norm == "inf":
            direction = gradient.sign()
        else:  # steepest ascent in units of the range
            scaled = gradient * self.range
            direction = scaled / _row_norms(scaled).clamp_min(1e-12)
        return self.project(x + step_size * self.range * direction)

    def project(self, x):
        if self.norm == "l2":
            safe = torch.where(self.range > 0, self.range, torch.ones_like(self.range))
            offset = (x - self.center) / safe
            shrink = (self.eps / _row_norms(offset).clamp_min(1e-12)).clamp_max(1.0)
            x = self.center + offset * shrink * self.range
        # The sample lies inside the bounds, so clipping leaves no ball.
        return torch.clamp(x, self.low, self.high)


def _ascend(module, x, y, ball, objective, step_size, n_steps):
    for _ in range(n_steps):
        x, _ = _step(module, x, y, ball, objective, step_size)
    return x


def _step(module, x, y, ball, objective, step_size):
    """The next points, and the logits at the present ones."""
    with torch.enable_grad():
        x = x.detach().requires_grad_(True)
        logits = module(x)
        (gradient,) = torch.autograd.grad(objective(logits, y).sum(), x)
    return ball.move(x.detach(), gradient, step_size), logits.detach()


def _objective(loss, targeted, greatest):
    function = _loss_function(loss)

    def objective(logits, y):
        _check_logits(logits, greatest)
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


def _greatest(y):
    return int(y.max()) if len(y) else 0


def _check_logits(logits, greatest):
    if not isinstance(logits, torch.Tensor) or logits.ndim != 2 or logits.shape[1] < 2:
        seen = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise ValueError(
            "module must return logits of the shape (n, n_classes) with at least 2 classes, got "
            f"{seen}."
        )
    if greatest >= logits.shape[1]:
        raise ValueError(
            f"y must hold columns of the logits, 0 to {logits.shape[1] - 1}; got {greatest}."
        )


def _margin(logits, y):
    others = logits.scatter(1, y[:, None], -math.inf)
    return others.amax(dim=1) - _pick(logits, y)


def _pick(logits, y):
    return logits.gather(1, y[:, None]).squeeze(1)


def _per_row(values, like):
    return values.reshape(-1, *[1] * (like.ndim - 1))


def _row_norms(x):
    return _per_row(x.flatten(1).norm(dim=1), x)


def _bounds(x, clip_values):
    if clip_values is None:
        low = torch.full((), -math.inf).to(x)
        return low, -low, torch.ones(()).to(x)
    try:
        low, high = clip_values
    except (TypeError, ValueError):
        raise ValueError(
            f"clip_values must be a pair (least, greatest) or None, got {clip_values!r}."
        ) from None
    try:
        low, high = (
            torch.as_tensor(bound, dtype=x.dtype, device=x.device) for bound in (low, high)
        )
    except (TypeError, ValueError):
        raise ValueError(
            f"clip_values must be a pair of numbers or arrays, got {clip_values!r}."
        ) from None
    for bound in (low, high):
        if bound.ndim and bound.shape != x.shape[1:]:
            raise ValueError(
                f"clip_values must be numbers or of the shape {tuple(x.shape[1:])} of a sample, "
                f"got {tuple(bound.shape)}."
            )
    if not ((low <= high).all() and low.isfinite().all() and high.isfinite().all()):
        raise ValueError(f"clip_values must be finite and ascending, got {clip_values!r}.")
    if not ((x >= low) & (x <= high)).all():
        raise ValueError(
            f"X must lie inside clip_values, got values from {float(x.min()):.4g} to "
            f"{float(x.max()):.4g} with clip_values={clip_values!r}. Scale X, or give its range."
        )
    return low, high, high - low


def _check_samples(module, X, y):
    if not isinstance(module, nn.Module):
        raise TypeError(
            f"module must be a torch.nn.Module that returns logits, got {type(module).__name__}."
        )
    weight = next(module.parameters(), None)
    device = None if weight is None else weight.device
    if isinstance(X, torch.Tensor):
        x = X.detach().to(device=device)
    else:
        x = _from_array(X, weight).to(device=device)
    if not x.is_floating_point():
        raise ValueError(f"X must hold floating-point numbers, got {x.dtype}.")
    if x.ndim < 2:
        raise ValueError(f"X must have the shape (n, ...), got {tuple(x.shape)}.")
    if not x.isfinite().all():
        raise ValueError("X must lie inside clip_values and be finite, got NaN or inf.")
    if not isinstance(y, torch.Tensor):
        codes = np.array(y)
        if codes.dtype.kind not in "biuf":
            raise ValueError(f"y must be {len(x)} whole numbers, got {y!r}.")
        y = torch.as_tensor(codes if codes.size else codes.astype(np.int64))
    if y.is_floating_point() or y.ndim != 1 or len(y) != len(x):
        raise ValueError(
            f"y must be {len(x)} whole numbers, one for each sample; got the shape "
            f"{tuple(y.shape)} and {y.dtype}."
        )
    y = y.to(device=x.device, dtype=torch.int64)
    if len(y) and y.min() < 0:
        raise ValueError(f"y must hold columns of the logits, from 0; got {int(y.min())}.")
    return x, y


def _from_array(X, weight):
    """An array-like as a tensor of the type of the module's weights."""
    is_float = weight is not None and weight.is_floating_point()
    dtype = weight.dtype if is_float else torch.float32
    try:
        X = np.array(X, dtype=np.float64 if dtype == torch.float64 else np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"X must be a Tensor or a dense array of numbers, got {type(X).__name__}: {error}."
        ) from error
    return torch.from_numpy(X).to(dtype)


def _check_steps(eps, step_size, n_steps):
    if not isinstance(n_steps, Integral) or n_steps < 0:
        raise ValueError(f"n_steps must be an int of at least 0, got {n_steps!r}.")
    if step_size is None:
        step_size = 2.5 * eps / max(n_steps, 1) if isinstance(eps, Real) else 0.0
    for name, value in (("eps", eps), ("step_size", step_size)):
        if not isinstance(value, Real) or not 0 <= value < math.inf:
            raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}.")
    return float(eps), float(step_size)


def _check_norm(norm):
    known = {"inf": "inf", "l2": "l2", np.inf: "inf", 2: "l2"}
    if not isinstance(norm, (str, Real)) or norm not in known:
        raise ValueError(f"norm must be 'inf' or 'l2', got {norm!r}.")
    return known[norm]
