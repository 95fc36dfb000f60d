"""Products of dense inputs with packed weights."""

import numpy as np

from skml.quantization._weights import LUTWeight, UniformWeight

from ._arguments import run_on_host
from ._backend import cuda_products, resolve_backend, resolve_threads
from ._blas import one_blas_thread


def lut_matmul(X, weight, bias=None, out=None, *, n_threads=None, backend="auto"):
    """Multiply inputs with a weight whose rows look their values up in tables.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_inputs)
        Inputs. Anything but float32 is computed in float32; float64 is returned as float64.
        A torch tensor on the CPU shares its memory.
    weight : LUTWeight
        Packed codes and the codebook of each row.
    bias : array-like of shape (n_rows,) or None, default=None
        Added to each row of the result.
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
        ``X @ weight.dequantize().T + bias``.

    Raises
    ------
    ValueError
        If shapes do not fit, or an argument has no meaning.
    RuntimeError
        If the machine does not run the backend.

    See Also
    --------
    uniform_matmul : The same with evenly spaced levels.
    skml.quantization.LUTLinear : The product as a layer of a torch network.

    Notes
    -----
    Codes are decoded in registers. From a number of samples on (:func:`kernel_info`) panels of the
    weight are decoded into the cache and multiplied by BLAS instead, which is faster then.

    Examples
    --------
    >>> import numpy as np
    >>> from skml.quantization import LUTWeight, lut_matmul
    >>> weight = LUTWeight.from_codes([[0, 1, 1]], np.float32([[-1, 2]]))
    >>> lut_matmul(np.float32([[1, 0, 0], [1, 1, 1]]), weight, bias=np.float32([10]))
    array([[ 9.],
           [13.]], dtype=float32)
    """
    check_type(weight, LUTWeight, "lut_matmul")
    return _matmul(X, weight, bias, out, n_threads, backend)


def uniform_matmul(X, weight, bias=None, out=None, *, n_threads=None, backend="auto"):
    """Multiply inputs with a weight on evenly spaced levels.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_inputs)
        Inputs. Anything but float32 is computed in float32; float64 is returned as float64.
        A torch tensor on the CPU shares its memory.
    weight : UniformWeight
        Packed codes, scale and zero of each group.
    bias : array-like of shape (n_rows,) or None, default=None
        Added to each row of the result.
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
        ``X @ weight.dequantize().T + bias``.

    Raises
    ------
    ValueError
        If shapes do not fit, or an argument has no meaning.
    RuntimeError
        If the machine does not run the backend.

    See Also
    --------
    lut_matmul : The same with a table of levels for each row.
    int8_matmul : The same with rounded inputs.

    Notes
    -----
    The zero is subtracted from a code before anything is summed: with inputs of one sign, the
    difference of two large sums would cost two digits. Group sizes that are no multiple of 16 run
    on the portable kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from skml.quantization import UniformWeight, uniform_matmul
    >>> weight = UniformWeight.from_codes([[0, 3, 1]], 2, np.float32([[0.5]]), np.float32([[1]]))
    >>> uniform_matmul(np.float32([[1, 0, 0], [1, 1, 1]]), weight)
    array([[-0.5],
           [ 0.5]], dtype=float32)
    """
    check_type(weight, UniformWeight, "uniform_matmul")
    return _matmul(X, weight, bias, out, n_threads, backend)


def _matmul(X, weight, bias, out, n_threads, backend):
    backend, n_threads = resolve_backend(backend, X), resolve_threads(n_threads)
    if backend == "cuda":
        return cuda_products().matmul(X, weight, bias, out)

    def compute(X, bias, target):
        if backend == "numpy":
            np.matmul(X, weight.dequantize().astype(np.float32, copy=False).T, out=target)
            if bias is not None:
                target += bias
        else:
            multiply_into(X, weight.packed_matrix, bias, target, n_threads, backend)

    return run_on_host(X, weight.shape, bias, out, compute)


def multiply_into(X, matrix, bias, target, n_threads, isa):
    """Write the product to ``target``, by the path that is expected to be faster."""
    if len(X) >= matrix.dense_from(isa):
        with one_blas_thread():
            matrix.matmul(X, target, bias, isa, n_threads, True)
    else:
        matrix.matmul(X, target, bias, isa, n_threads, False)


def check_type(weight, expected, caller):
    """Raise unless the weight has the format that a function takes."""
    if not isinstance(weight, expected):
        raise ValueError(
            f"weight of {caller} must be a {expected.__name__}, got {type(weight).__name__}."
        )
