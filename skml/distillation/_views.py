"""Random views of samples, by which contrastive inversion tells them apart."""

import torch
from torch import nn

_SHIFT = 0.125
_LEAST_AREA = 0.25
_SHARE_REPLACED = 0.25


def global_view(x, rng):
    """The samples, images shifted by up to an eighth of their size."""
    if x.ndim == 2:
        return x
    shift = 2 * _SHIFT * (2 * torch.rand(len(x), 2, generator=rng) - 1)
    return _window(x, torch.ones(len(x)), shift)


def local_view(x, rng):
    """Parts of the samples.

    Of an image a square window of a quarter to all of its area, enlarged. Of a vector all
    features but a random quarter, which are taken from other samples.
    """
    if x.ndim == 2:
        other = x[torch.randperm(len(x), generator=rng).to(x.device)]
        replaced = torch.rand(x.shape, generator=rng) < _SHARE_REPLACED
        return torch.where(replaced.to(x.device), other, x)
    area = _LEAST_AREA + (1 - _LEAST_AREA) * torch.rand(len(x), generator=rng)
    side = area.sqrt()
    shift = (1 - side[:, None]) * (2 * torch.rand(len(x), 2, generator=rng) - 1)
    return _window(x, side, shift)


def _window(x, side, shift):
    theta = torch.zeros(len(x), 2, 3)
    theta[:, 0, 0] = theta[:, 1, 1] = side
    theta[:, :, 2] = shift
    grid = nn.functional.affine_grid(theta.to(x), list(x.shape), align_corners=False)
    return nn.functional.grid_sample(x, grid, padding_mode="border", align_corners=False)
