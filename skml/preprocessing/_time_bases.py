"""Basis functions of the learnable time functions: harmonics and uniform B-splines, in torch.

Both are written so that no transcendental function and no recursion over knots is evaluated per
basis function: harmonics follow from one sine and one cosine, spline values from one polynomial
in the position inside a grid interval. Points run along the last axis, so that every step works
on long contiguous rows.

These serve every device, type and transformation of torch; `_compiled_bases` has the same for
plain arrays in the memory of the CPU.
"""

import functools

import numpy as np
import torch


def harmonics(x, n_harmonics):
    """Cosines and sines of the first multiples of an angle.

    Each multiple follows from the last by angle addition: cos((m + 1) x) = cos(m x) cos(x) -
    sin(m x) sin(x), and likewise for the sine. Rounding errors grow with m, but do not depend
    on x: to start afresh from cos(m x) would round m x, and lose more for angles above some
    radians.

    Parameters
    ----------
    x : torch.Tensor of shape (n_dims, n_points)
        Angles in radians.
    n_harmonics : int
        Number of multiples K.

    Returns
    -------
    torch.Tensor of shape (n_dims, 2 * K, n_points)
        cos(x), cos(2 x), ..., sin(x), sin(2 x), ...
    """
    cos_1, sin_1 = x.cos(), x.sin()
    cosines, sines = [cos_1], [sin_1]
    for _ in range(n_harmonics - 1):
        cos_m, sin_m = cosines[-1], sines[-1]
        cosines.append(torch.addcmul(cos_m * cos_1, sin_m, sin_1, value=-1))
        sines.append(torch.addcmul(sin_m * cos_1, cos_m, sin_1))
    return torch.stack(cosines + sines, dim=1)


def bspline_basis(x, n_intervals, degree, grid_range):
    """Uniform B-splines.

    The grid of `n_intervals` equal intervals over `grid_range` is extended by `degree` knots on
    each side, which makes M = n_intervals + degree functions. At most degree + 1 of them differ
    from zero at a point; they are polynomials in its position inside its interval, and are
    written to their rows. Those that are no part of the basis share two outer rows, which are
    cut off.

    Parameters
    ----------
    x : torch.Tensor of shape (n_dims, n_points)
        Where to evaluate. Intervals are half-open, as in the Cox-de Boor recursion.
    n_intervals : int
        Number of grid intervals G.
    degree : int
        Degree k of the splines.
    grid_range : tuple of (float, float)
        Ends of the grid.

    Returns
    -------
    torch.Tensor of shape (n_dims, M, n_points)
        B_1, ..., B_M.
    """
    low, high = grid_range
    # The position in units of an interval, from the first knot of the extended grid. Outside the
    # extended grid it is held where only the outer rows are reached.
    position = ((x - low) * (n_intervals / (high - low)) + degree).clamp(
        -1, n_intervals + 2 * degree
    )
    interval = position.detach().floor()
    u = position - interval
    powers = [torch.ones_like(u)]
    for _ in range(degree):
        powers.append(powers[-1] * u)
    coefficients = torch.tensor(bspline_polynomials(degree), dtype=x.dtype, device=x.device)
    values = coefficients.T @ torch.stack(powers, dim=1)
    # NaN has no interval, but stays NaN in the values; the bounds put it into some row.
    offsets = torch.arange(1 - degree, 2, device=x.device).unsqueeze(-1)
    rows = (interval.long().unsqueeze(1) + offsets).clamp(0, n_intervals + degree + 1)
    n_dims, n_points = x.shape
    basis = x.new_zeros(n_dims, n_intervals + degree + 2, n_points).scatter(1, rows, values)
    return basis[:, 1:-1]


@functools.cache
def bspline_polynomials(degree):
    """Polynomials that uniform B-splines of a degree are, inside one grid interval.

    Parameters
    ----------
    degree : int
        Degree k.

    Returns
    -------
    ndarray of shape (k + 1, k + 1)
        Entry (p, r) is the coefficient of u**p in the value of the r-th of the functions that
        are not zero on the interval, in the order of their supports; u from 0 to 1 is the
        position inside it. For k = 3 the columns are those of (1 - u)**3 / 6,
        (3 u**3 - 6 u**2 + 4) / 6, (-3 u**3 + 3 u**2 + 3 u + 1) / 6 and u**3 / 6.
    """
    u = np.polynomial.Polynomial([0.0, 1.0])
    values = [np.polynomial.Polynomial([1.0])]
    for k in range(1, degree + 1):
        lower = [0.0 * u, *values, 0.0 * u]
        values = [
            ((u + (k - r)) * lower[r] + ((1 + r) - u) * lower[r + 1]) / k for r in range(k + 1)
        ]
    coefficients = np.zeros((degree + 1, degree + 1))
    for r, polynomial in enumerate(values):
        coefficients[: len(polynomial.coef), r] = polynomial.coef[: degree + 1]
    coefficients.flags.writeable = False
    return coefficients
