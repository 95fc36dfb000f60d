"""What the kernels run on."""

from skml.quantization import _gemm

from ._backend import COMPILED, best_backend, cuda_device, resolve_threads


def kernel_info():
    """Tell which kernels this machine runs.

    Returns
    -------
    dict
        ``"backend"`` is what ``backend="auto"`` takes, ``"available"`` all that can be asked for,
        ``"openmp"`` whether the kernels can use threads, ``"n_threads"`` how many they take by
        default, ``"dense_from"`` the rows of X from which weights are decoded in panels for BLAS,
        ``"cuda"`` the name of the CUDA device that ``backend="cuda"`` would use, or None.

    Examples
    --------
    >>> from skml.quantization import kernel_info
    >>> kernel_info()["backend"] in kernel_info()["available"]
    True
    """
    available = [name for name in COMPILED if _gemm.supported(name)]
    return {
        "backend": best_backend(),
        "available": (*available, "numpy"),
        "openmp": _gemm.built_with_openmp(),
        "n_threads": resolve_threads(None),
        "dense_from": {name: _gemm.dense_rows(name) for name in available},
        "cuda": cuda_device(),
    }
