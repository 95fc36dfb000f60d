"""What the attacks take, and the messages to those who give something else."""

import math
from numbers import Integral, Real

import numpy as np
import torch
from torch import nn


def check_samples(module, X, y):
    """Samples and columns as tensors on the device of the module."""
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
            f"y must be {len(x)} whole numbers, one for each sample, got the shape "
            f"{tuple(y.shape)} and {y.dtype}."
        )
    y = y.to(device=x.device, dtype=torch.int64)
    if len(y) and y.min() < 0:
        raise ValueError(f"y must hold columns of the logits, from 0, got {int(y.min())}.")
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


def check_steps(eps, step_size, n_steps):
    """Radius and length of a step as floats; the latter is 2.5 eps / n_steps by default."""
    if not isinstance(n_steps, Integral) or n_steps < 0:
        raise ValueError(f"n_steps must be an int of at least 0, got {n_steps!r}.")
    if step_size is None:
        step_size = 2.5 * eps / max(n_steps, 1) if isinstance(eps, Real) else 0.0
    for name, value in (("eps", eps), ("step_size", step_size)):
        if not isinstance(value, Real) or not 0 <= value < math.inf:
            raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}.")
    return float(eps), float(step_size)


def check_norm(norm):
    """The name of a norm."""
    known = {"inf": "inf", "l2": "l2", np.inf: "inf", 2: "l2"}
    if not isinstance(norm, (str, Real)) or norm not in known:
        raise ValueError(f"norm must be 'inf' or 'l2', got {norm!r}.")
    return known[norm]


def check_logits(logits, greatest):
    """Refuse what are no logits, or logits that lack the column `greatest`."""
    if not isinstance(logits, torch.Tensor) or logits.ndim != 2 or logits.shape[1] < 2:
        seen = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise ValueError(
            "module must return logits of the shape (n, n_classes) with at least 2 classes, got "
            f"{seen}."
        )
    if greatest >= logits.shape[1]:
        raise ValueError(
            f"y must hold columns of the logits, 0 to {logits.shape[1] - 1}, got {greatest}."
        )


def greatest_column(y):
    """The greatest column that y asks for; 0 if y is empty."""
    return int(y.max()) if len(y) else 0
