"""Networks that train in other parameters and become a plain `CoordinateMLP` afterwards."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from ._networks import CoordinateMLP


class FourierReparameterizedMLP(CoordinateMLP):
    """Hidden weights W = Lambda B with a fixed Fourier basis B and learnt coefficients Lambda.

    Parameters
    ----------
    n_features, n_outputs : int
        As in `CoordinateMLP`.
    n_low, n_high : int
        Number of frequencies below and of whole frequencies from one.
    n_phases : int
        Number of phases of each frequency.
    alpha : float
        Scale of the basis, which acts as a factor of the step size.
    **settings
        Further arguments of `CoordinateMLP`.
    """

    def __init__(
        self, n_features, n_outputs=1, *, n_low=128, n_high=128, n_phases=32, alpha=0.01, **settings
    ):
        super().__init__(n_features, n_outputs, **settings)
        is_sine = self.architecture in ("siren", "finer")
        for k in range(1, len(self.layers) - 1):
            self.layers[k] = _FourierLinear(
                fourier_basis(self.hidden_width, n_low, n_high, n_phases, alpha),
                self.hidden_width,
                gain=1 / self.hidden_omega_0 if is_sine else 1.0,
            )

    @torch.no_grad()
    def merged(self):
        """The `CoordinateMLP` with the weights Lambda B, which computes the same values."""
        plain = _plain_like(self)
        for layer, source in zip(plain.layers, self.layers, strict=True):
            layer.weight.copy_(source.weight)
            layer.bias.copy_(source.bias)
        return plain


class _FourierLinear(nn.Module):
    def __init__(self, basis, n_outputs, gain):
        super().__init__()
        self.register_buffer("basis", basis)
        bound = gain * math.sqrt(6 / len(basis)) / basis.norm(dim=1)
        self.coefficients = nn.Parameter(bound * (2 * torch.rand(n_outputs, len(basis)) - 1))
        self.bias = nn.Parameter(torch.zeros(n_outputs))

    @property
    def weight(self):
        return self.coefficients @ self.basis


def fourier_basis(n_points, n_low, n_high, n_phases, alpha):
    """Rows alpha cos(f z_k + phase) for all frequencies f and phases, at points of one period.

    Parameters
    ----------
    n_points : int
        Number of points z_k, from -T/2 to T/2, where T = 2 pi n_low is the longest period.
    n_low, n_high : int
        The frequencies are 1/n_low, ..., 1, and 1, ..., n_high.
    n_phases : int
        The phases are multiples of 2 pi / n_phases.
    alpha : float
        Amplitude.

    Returns
    -------
    torch.Tensor of shape ((n_low + n_high) n_phases, n_points), dtype float32
        The basis.
    """
    low = torch.arange(1, n_low + 1, dtype=torch.float64) / max(n_low, 1)
    high = torch.arange(1, n_high + 1, dtype=torch.float64)
    half_period = math.pi * max(n_low, 1)
    z = torch.linspace(-half_period, half_period, n_points, dtype=torch.float64)
    phases = 2 * math.pi * torch.arange(n_phases, dtype=torch.float64) / n_phases
    angles = torch.cat([low, high]).view(-1, 1, 1) * z + phases.view(-1, 1)
    return (alpha * angles.cos()).flatten(0, 1).float()


class BatchNormMLP(CoordinateMLP):
    """Batch normalisation in each layer but the last: after a ReLU, inside a sine.

    With the positional encoding it stands before the ReLU, as published.
    """

    def __init__(self, n_features, n_outputs=1, **settings):
        super().__init__(n_features, n_outputs, **settings)
        self.norms = nn.ModuleList(nn.BatchNorm1d(self.hidden_width) for _ in self.layers[:-1])

    def _activate(self, k, z, exact_derivative=False):
        if self.architecture == "relu":
            return self.norms[k](F.relu(z))
        return super()._activate(k, self.norms[k](z), exact_derivative)

    @torch.no_grad()
    def merged(self, encoded):
        """The `CoordinateMLP` in which the normalisation over given points is part of the weights.

        Parameters
        ----------
        encoded : torch.Tensor of shape (n_points, n_encoded)
            Encoded coordinates of all training points, whose means and variances are taken.
        """
        for norm in self.norms:
            norm.reset_running_stats()
            norm.momentum = None
        self.train()
        self.forward_encoded(encoded)
        self.eval()
        plain = _plain_like(self)
        for k, (layer, source) in enumerate(zip(plain.layers, self.layers, strict=True)):
            layer.weight.copy_(source.weight)
            layer.bias.copy_(source.bias)
            if k < len(self.norms) and self.architecture != "relu":
                scale, shift = _affine(self.norms[k], len(encoded))
                layer.weight.mul_(scale.unsqueeze(1))
                layer.bias.mul_(scale).add_(shift / self.omegas[k])
            if k > 0 and self.architecture == "relu":
                scale, shift = _affine(self.norms[k - 1], len(encoded))
                layer.bias.add_(source.weight @ shift)
                layer.weight.mul_(scale)
        return plain


def _affine(norm, n_points):
    """Normalisation with the variance over all points, as scale and shift."""
    # torch keeps the unbiased variance but normalises a batch by the biased one.
    variance = norm.running_var * (n_points - 1) / n_points
    scale = norm.weight / (variance + norm.eps).sqrt()
    return scale, norm.bias - scale * norm.running_mean


def _plain_like(module):
    plain = CoordinateMLP(**module._settings())
    return plain.to(module.layers[0].weight)
