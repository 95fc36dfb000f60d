"""The points that an attack may reach, and how it moves among them."""

import math

import numpy as np
import torch


class Ball:
    """The ball around each sample, inside the bounds.

    Parameters
    ----------
    x : torch.Tensor of shape (n, ...)
        Samples.
    eps : float
        Radius, as a fraction of each feature's range.
    norm : {"inf", "l2"}
        Norm of the radius.
    clip_values : tuple of (float or torch.Tensor, float or torch.Tensor) or None
        Bounds of the features; None: none, and a range of 1.
    """

    def __init__(self, x, eps, norm, clip_values):
        self.center, self.eps, self.norm = x, eps, norm
        low, high, self.range = feature_bounds(x, clip_values)
        if norm == "inf":  # a box, and its intersection with the bounds is one too
            radius = eps * self.range
            low, high = torch.maximum(x - radius, low), torch.minimum(x + radius, high)
        self.low, self.high = low, high

    def __getitem__(self, rows):
        """The balls of some of the samples."""
        part = object.__new__(Ball)
        part.center, part.eps, part.norm = self.center[rows], self.eps, self.norm
        part.low, part.high, part.range = self.low, self.high, self.range
        if self.norm == "inf":
            part.low, part.high = self.low[rows], self.high[rows]
        return part

    def start(self, random_start, generator):
        """The samples themselves, random points, or points given in the unit ball."""
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
        draw = draw / row_norms(draw).clamp_min(1e-12) * per_row(radius, draw)
        return draw.to(self.center)

    def move(self, x, gradient, step_size):
        """The points a step further up a gradient."""
        if self.norm == "inf":
            direction = gradient.sign()
        else:  # steepest ascent in units of the range
            scaled = gradient * self.range
            direction = scaled / row_norms(scaled).clamp_min(1e-12)
        return self.project(x + step_size * self.range * direction)

    def project(self, x):
        """The points of the ball next to x."""
        if self.norm == "l2":
            safe = torch.where(self.range > 0, self.range, torch.ones_like(self.range))
            offset = (x - self.center) / safe
            shrink = (self.eps / row_norms(offset).clamp_min(1e-12)).clamp_max(1.0)
            x = self.center + offset * shrink * self.range
        # The sample lies inside the bounds, so clipping leaves no ball.
        return torch.clamp(x, self.low, self.high)


def per_row(values, like):
    """One value per sample, in a shape that broadcasts with the samples."""
    return values.reshape(-1, *[1] * (like.ndim - 1))


def row_norms(x):
    """Euclidean norm of each sample, in a shape that broadcasts with the samples."""
    return per_row(x.flatten(1).norm(dim=1), x)


def feature_bounds(x, clip_values):
    """Least and greatest value of each feature, and its range, of samples that lie between."""
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
