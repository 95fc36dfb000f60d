"""Products whose inputs are rounded to integers as well."""

import itertools

import numpy as np

from skml.quantization._weights import UniformWeight, check_act_group

from ._arguments import run_on_host
from ._backend import cuda_products, resolve_backend, resolve_threads
from ._matmul import check_type


def int8_matmul(
    X,
    weight,
    bias=None,
    out=None,
    *,
    act_bits=8,
    act_group=-1,
    n_threads=None,
    backend="auto",
):
    """Multiply inputs, rounded to integers per row, with a weight on evenly spaced levels.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_inputs)
        Inputs; float64 is returned as float64. A torch tensor on the CPU shares its memory.
    weight : UniformWeight
        Packed codes of 1 to 8 bits, scale and zero of each group, of any size.
    bias : array-like of shape (n_rows,) or None, default=None
        Added to each row of the result.
    out : ndarray of shape (n_samples, n_rows), dtype float32, or None, default=None
        C-ordered array for the result.
    act_bits : {8, 4}, default=8
        Bits of the rounded inputs, whose values lie within +-127 or +-7.
    act_group : int, default=-1
        Inputs of a row that share a scale, a multiple of 16; -1 is the whole row.
    n_threads : int or None, default=None
        Threads; None takes what OpenMP is set to.
    backend : {"auto", "avx512", "avx2", "scalar", "numpy", "cuda"}, default="auto"
        Kernels to use; "auto" takes "cuda" for an X on a CUDA device,
        else the fastest that the machine runs.

    Returns
    -------
    ndarray of shape (n_samples, n_rows)
        The product.

    Raises
    ------
    ValueError
        If shapes do not fit, or an argument has no meaning.
    RuntimeError
        If the machine does not run the backend.

    See Also
    --------
    uniform_matmul : The same without rounding the inputs.
    grouped_matmul : Several weights in one call.

    Notes
    -----
    For sample t, row i and a group g of inputs that share all scales,

    .. math::

        Y_{ti} = b_i + \\sum_g s_{tg} a_{ig}
                 \\Big(\\sum_{j \\in g} Q_{ij} \\hat x_{tj}
                      - z_{ig} \\sum_{j \\in g} \\hat x_{tj}\\Big), \\qquad
        \\hat x_{tj} = \\mathrm{round}(x_{tj} / s_{tg}), \\quad
        s_{tg} = \\max_{j \\in g} |x_{tj}| / (2^{\\mathrm{act\\_bits} - 1} - 1).

    Sums of integers are exact; the whole part of ``z`` is subtracted within them. Outliers of the
    weight are multiplied with the inputs as they came.

    Examples
    --------
    >>> import numpy as np
    >>> from skml.quantization import UniformWeight, int8_matmul
    >>> weight = UniformWeight.from_codes([[0, 3, 1]], 2, np.float32([[0.5]]), np.float32([[1]]))
    >>> int8_matmul(np.float32([[127, 10, 1.4]]), weight)
    array([[-53.5]], dtype=float32)
    """
    check_type(weight, UniformWeight, "int8_matmul")
    if act_bits not in (4, 8):
        raise ValueError(f"act_bits must be 8 or 4, got {act_bits!r}.")
    check_act_group(act_group)
    backend, n_threads = resolve_backend(backend, X), resolve_threads(n_threads)
    if backend == "cuda":
        return cuda_products().int8_matmul(X, weight, bias, out, act_bits, act_group)

    def compute(X, bias, target):
        if backend == "numpy":
            target[...] = integer_product(X, weight, act_bits, act_group)
            if bias is not None:
                target += bias
        else:
            matrix = weight.packed_matrix
            matrix.integer_matmul(X, target, bias, act_bits, act_group, backend, n_threads)

    return run_on_host(X, weight.shape, bias, out, compute)


def integer_product(X, weight, act_bits, act_group):
    """The product in numpy: integer sums in int64, scaled in float64."""
    m, n = weight.shape
    act_group = n if act_group == -1 else act_group
    group = weight.group_size or n
    rounded, scales = round_inputs(X, act_bits, act_group)
    codes, total = weight.unpack().astype(np.int64), np.zeros((len(X), m))
    bounds = sorted({*range(0, n, act_group), *range(0, n, group), n})
    for first, last in itertools.pairwise(bounds):
        part, g = rounded[:, first:last], first // group
        scale, zero = (
            a[:, g].astype(np.float32).astype(float) for a in (weight.scale, weight.zero)
        )
        dots = part @ codes[:, first:last].T - part.sum(axis=1, keepdims=True) * zero
        total += scales[:, first // act_group, np.newaxis].astype(float) * scale * dots
    if weight.outliers is not None:
        total += X @ weight.outliers.T.astype(np.float32)
    return total


def round_inputs(X, act_bits, act_group):
    """Symmetric rounding of float32 inputs, per row and group of inputs.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_inputs), dtype float32
    act_bits : int
    act_group : int

    Returns
    -------
    tuple of (ndarray of int64 (n_samples, n_inputs), ndarray of float32 (n_samples, n_groups))
        Rounded inputs and scales; a scale is NaN where the group is not finite.
    """
    largest = np.float32(2 ** (act_bits - 1) - 1)
    starts = np.arange(0, X.shape[1], act_group)
    bound = np.maximum.reduceat(np.abs(X), starts, axis=1)
    scales = np.maximum(bound / largest, np.finfo(np.float32).tiny)
    scales[~np.isfinite(bound)] = np.nan
    spread = np.repeat(scales, act_group, axis=1)[:, : X.shape[1]]
    steps = np.clip(np.rint(X / spread), -largest, largest)
    return np.where(np.isnan(spread), 0, steps).astype(np.int64), scales
