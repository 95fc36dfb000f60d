"""The choice of kernels and threads."""

import ctypes
import importlib
import os

import numpy as np

from skml.quantization import _gemm
from skml.utils._optional import import_optional

COMPILED = ("avx512", "avx2", "scalar")
BACKENDS = ("auto", *COMPILED, "numpy", "cuda")


def best_backend():
    """The fastest compiled kernels that this machine runs."""
    return next(name for name in COMPILED if _gemm.supported(name))


def resolve_backend(backend, X=None):
    """Name of the kernels to use for a ``backend`` argument.

    Parameters
    ----------
    backend : str
        What the caller was asked for.
    X : object
        The inputs; "auto" is "cuda" where they lie on a device.

    Raises
    ------
    ValueError
        If there is no such backend.
    RuntimeError
        If this machine does not run it.
    """
    if not isinstance(backend, str) or backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}.")
    on_device = _lies_on_device(X)
    if on_device and backend not in ("auto", "cuda"):
        raise ValueError(
            f"backend={backend!r} computes on the host, but X lies on a CUDA device: use "
            "backend='auto', or copy X to the host."
        )
    if backend == "cuda" or on_device:
        _check_cuda()
        return "cuda"
    if backend == "auto":
        return best_backend()
    if backend in COMPILED and not _gemm.supported(backend):
        raise RuntimeError(
            f"backend={backend!r} needs a processor with {backend.upper()}, which this one does "
            f"not offer; it runs {', '.join(b for b in COMPILED if _gemm.supported(b))}."
        )
    return backend


def cuda_products():
    """The module of products on the device, which needs the extra ``cuda``."""
    return importlib.import_module("skml.quantization.kernels._cuda._products")


def cuda_device():
    """Name of the current CUDA device, or None where there is none.

    Nothing is imported unless the machine has a driver.
    """
    try:
        ctypes.CDLL("libcuda.so.1")
        return _check_cuda()
    except (OSError, ImportError, RuntimeError):
        return None


def _lies_on_device(X):
    """Whether X is an array on a CUDA device; asks without importing anything."""
    package = type(X).__module__.partition(".")[0]
    if X is None or package in ("builtins", "numpy", "pandas", "scipy"):
        return False
    if package == "torch":
        return X.is_cuda
    if package == "numba" and hasattr(X, "copy_to_host"):  # the simulator's arrays too
        return True
    if hasattr(X, "__cuda_array_interface__"):
        return True
    return hasattr(X, "__dlpack_device__") and X.__dlpack_device__()[0] == 2


def _check_cuda():
    """Name of the current device; an error that says what is missing."""
    import_optional("numba_cuda", extra="cuda", needed_by="backend='cuda'")
    from numba import cuda

    try:
        device = cuda.get_current_device()
    except Exception as error:  # numba's own, which differ from release to release
        reason = " ".join(str(error).split())
        raise RuntimeError(f"backend='cuda' needs CUDA with a device: {reason}") from error
    name = getattr(device, "name", "simulator")
    return name.decode() if isinstance(name, bytes) else str(name)


def resolve_threads(n_threads):
    """Number of threads for an ``n_threads`` argument.

    None takes what OpenMP is set to (OMP_NUM_THREADS, threadpoolctl), at most one per processor
    that the process may use.
    """
    if n_threads is None:
        return max(1, min(_gemm.default_threads(), _available_processors()))
    if isinstance(n_threads, bool) or not isinstance(n_threads, (int, np.integer)) or n_threads < 1:
        raise ValueError(f"n_threads must be a positive integer or None, got {n_threads!r}.")
    return int(n_threads)


def _available_processors():
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
