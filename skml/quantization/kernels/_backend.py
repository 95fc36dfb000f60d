"""The choice of kernels and threads."""

import os

import numpy as np

from skml.quantization import _gemm

COMPILED = ("avx512", "avx2", "scalar")
BACKENDS = ("auto", *COMPILED, "numpy", "cuda")


def best_backend():
    """The fastest compiled kernels that this machine runs."""
    return next(name for name in COMPILED if _gemm.supported(name))


def resolve_backend(backend):
    """Name of the kernels to use for a ``backend`` argument.

    Raises
    ------
    ValueError
        If there is no such backend.
    RuntimeError
        If this machine does not run it.
    """
    if not isinstance(backend, str) or backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}.")
    if backend == "auto":
        return best_backend()
    if backend == "cuda":
        raise RuntimeError(
            "backend='cuda' needs CUDA kernels, which this build does not have: use backend='auto'."
        )
    if backend in COMPILED and not _gemm.supported(backend):
        raise RuntimeError(
            f"backend={backend!r} needs a processor with {backend.upper()}, which this one does "
            f"not offer; it runs {', '.join(b for b in COMPILED if _gemm.supported(b))}."
        )
    return backend


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
