"""What the torch layers that encode time share: scaling in full precision, and any shape."""

import torch
from torch import nn


class ScaledTimeModule(nn.Module):
    """Base of layers that map each time to a vector.

    A subclass defines ``encode``, from scaled times of shape (n,) to vectors of shape
    (n, n_components), and ``omega``, the frequencies of its components in radians per scaled
    unit of time.

    Parameters
    ----------
    n_components : int
        Size of the vectors.
    time_origin, time_unit : float
        The scaled time is (t - time_origin) / time_unit.
    """

    def __init__(self, n_components, time_origin, time_unit):
        super().__init__()
        if time_unit == 0:
            raise ValueError("time_unit must not be 0")
        self.n_components = n_components
        # Python numbers, so that they keep double precision whatever the layer is cast to.
        self.time_origin = float(time_origin)
        self.time_unit = float(time_unit)

    def forward(self, t):
        """Encode times.

        Parameters
        ----------
        t : torch.Tensor of shape (...)
            Times. The origin is subtracted in the precision that they have (whole numbers: in
            float64), before they are cast to the precision of the weights.

        Returns
        -------
        torch.Tensor of shape (..., n_components)
            The vectors.
        """
        if not torch.is_floating_point(t):
            t = t.double()
        tau = (t - self.time_origin) / self.time_unit
        weight = next(self.parameters())
        vectors = self.encode(tau.reshape(-1).to(weight.dtype))
        return vectors.reshape(*t.shape, self.n_components)


def initial_omega(omega_range, n_components, **factory):
    """Frequencies in geometric progression from the first of `omega_range` to the last."""
    first, last = omega_range
    # In float64, as a power: 10**-linspace(0, 9, d) for the paper's range from 1 to 1e-9.
    exponents = torch.linspace(0, 1, n_components, dtype=torch.float64)
    return (first * (last / first) ** exponents).to(**factory)
