"""Several products in one call, each with a weight and a precision of its own."""

import itertools

from skml.quantization import _gemm
from skml.quantization._weights import LUTWeight, UniformWeight

from ._arguments import check_offsets, run_on_host
from ._backend import cuda_products, resolve_backend, resolve_threads
from ._integer import int8_matmul
from ._matmul import lut_matmul, uniform_matmul


def grouped_matmul(X, weights, offsets, out=None, *, n_threads=None, backend="auto"):
    """Multiply each range of rows with the weight that belongs to it.

    In a mixture of experts, each expert sees the tokens that were routed to it. With the tokens
    sorted by expert, this is the product of all experts in one call, whatever their precisions.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_inputs)
        Inputs, sorted by problem; float64 is returned as float64.
    weights : sequence of LUTWeight or UniformWeight
        One weight per problem, all of the same shape. A :class:`UniformWeight` with ``act_bits``
        has its inputs rounded as :func:`int8_matmul` does.
    offsets : array-like of shape (n_problems + 1,), dtype int
        Problem ``i`` takes the rows from ``offsets[i]`` to ``offsets[i + 1]``; the first offset is
        0 and the last ``n_samples``. A problem may have no rows.
    out : ndarray of shape (n_samples, n_rows), dtype float32, or None, default=None
        C-ordered array for the result.
    n_threads : int or None, default=None
        Threads; None takes what OpenMP is set to.
    backend : {"auto", "avx512", "avx2", "scalar", "numpy", "cuda"}, default="auto"
        Kernels to use; "auto" takes "cuda" for an X on a CUDA device,
        else the fastest that the machine runs.

    Returns
    -------
    ndarray of shape (n_samples, n_rows)
        The rows of all products.

    Raises
    ------
    ValueError
        If shapes or offsets do not fit, or an argument has no meaning.
    RuntimeError
        If the machine does not run the backend.

    See Also
    --------
    lut_matmul, uniform_matmul, int8_matmul : The product with one weight.

    Notes
    -----
    Tiles of 64 weight rows and up to 16 rows of X of all problems form one list, sorted by
    estimated cost; a thread that is free takes the next. The result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from skml.quantization import LUTWeight, UniformWeight, grouped_matmul
    >>> lut = LUTWeight.from_codes([[0, 1]], np.float32([[-1, 2]]))
    >>> uniform = UniformWeight.from_codes([[3, 1]], 2, np.float32([[1]]), np.float32([[0]]))
    >>> grouped_matmul(np.ones((3, 2)), [lut, uniform], [0, 1, 3])
    array([[1.],
           [4.],
           [4.]])
    """
    backend, n_threads = resolve_backend(backend, X), resolve_threads(n_threads)
    weights = list(weights)
    shape = _common_shape(weights)
    if backend == "cuda":
        return cuda_products().grouped_matmul(X, weights, offsets, out)

    def compute(X, bias, target):
        bounds = check_offsets(offsets, len(weights), len(X))
        if backend == "numpy":
            for weight, (first, last) in zip(weights, itertools.pairwise(bounds), strict=True):
                _one(X[first:last], weight, target[first:last])
            return
        rounding = [
            (w.act_bits, w.act_group) if getattr(w, "act_bits", None) else (0, -1) for w in weights
        ]
        matrices = [weight.packed_matrix for weight in weights]
        _gemm.grouped_matmul(X, matrices, rounding, bounds, target, backend, n_threads)

    return run_on_host(X, shape, None, out, compute)


def _one(X, weight, target):
    if isinstance(weight, LUTWeight):
        lut_matmul(X, weight, out=target, backend="numpy")
    elif weight.act_bits is None:
        uniform_matmul(X, weight, out=target, backend="numpy")
    else:
        settings = {"act_bits": weight.act_bits, "act_group": weight.act_group}
        int8_matmul(X, weight, out=target, backend="numpy", **settings)


def _common_shape(weights):
    if not weights:
        raise ValueError("weights must hold at least one weight.")
    for weight in weights:
        if not isinstance(weight, (LUTWeight, UniformWeight)):
            raise ValueError(
                f"weights must be LUTWeight or UniformWeight, got {type(weight).__name__}."
            )
        if weight.shape != weights[0].shape:
            raise ValueError(
                f"weights must have one shape, got {weights[0].shape} and {weight.shape}."
            )
    return weights[0].shape
