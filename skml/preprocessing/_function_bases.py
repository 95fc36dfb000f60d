"""The bases of the Fourier functions and of the spline functions.

Each is made of two groups, which have weights of their own. Both bases have the members

- ``n_functions``, the number of functions of each linear map;
- ``functions(x)``, their values (n_dims, n_functions, n) at points x of shape (n_dims, n);
- ``join(first_weight, second_weight)``, the weights (..., n_functions) of all functions;
- ``kernel``, which sums the functions in compiled code, or None;
- ``start(phase, omega, tau)``, two arrays (n_dims, n): what the kernel needs of the linear maps.
"""

import functools

import torch

from ._sum_kernel import MAX_DEGREE, FunctionSum
from ._time_bases import bspline_basis, bspline_polynomials, harmonics


class HarmonicBasis:
    """cos(x), cos(2 x), ... and sin(x), sin(2 x), ...

    Parameters
    ----------
    n_harmonics : int
        Number of multiples.
    """

    def __init__(self, n_harmonics):
        self.n_harmonics = n_harmonics
        self.n_functions = 2 * n_harmonics

    def functions(self, x):
        return harmonics(x, self.n_harmonics)

    def join(self, cos_weight, sin_weight):
        return torch.cat((cos_weight, sin_weight), dim=-1)

    @property
    def kernel(self):
        return _harmonic_kernel(self.n_harmonics)

    def start(self, phase, omega, tau):
        x = torch.addcmul(phase.unsqueeze(-1), omega.unsqueeze(-1), tau)
        return x.cos(), x.sin_()


class SplineBasis:
    """tanh(x) and uniform B-splines.

    Parameters
    ----------
    n_intervals, degree, grid_range :
        The grid and the degree, as `bspline_basis` takes them.
    """

    def __init__(self, n_intervals, degree, grid_range):
        self.grid = n_intervals, degree, grid_range
        self.n_functions = 1 + n_intervals + degree

    def functions(self, x):
        return torch.cat((x.tanh().unsqueeze(1), bspline_basis(x, *self.grid)), dim=1)

    def join(self, base_weight, spline_weight):
        return torch.cat((base_weight.unsqueeze(-1), spline_weight), dim=-1)

    @property
    def kernel(self):
        return _spline_kernel(*self.grid) if self.grid[1] <= MAX_DEGREE else None

    def start(self, phase, omega, tau):
        x = torch.addcmul(phase.unsqueeze(-1), omega.unsqueeze(-1), tau)
        return x, x.tanh()


@functools.lru_cache(maxsize=64)
def _harmonic_kernel(n_harmonics):
    return FunctionSum(n_harmonics, n_harmonics)


@functools.lru_cache(maxsize=64)
def _spline_kernel(n_intervals, degree, grid_range):
    low, high = grid_range
    return FunctionSum(
        1,
        n_intervals + degree,
        n_intervals,
        low,
        n_intervals / (high - low),
        bspline_polynomials(degree),
    )
