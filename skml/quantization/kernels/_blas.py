"""One pool of threads at a time: ours runs, BLAS computes inside it."""

from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_blas_thread():
    """Keep BLAS to the thread that calls it."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller():
    # Looking for the libraries takes milliseconds. scipy's BLAS is loaded with our kernels.
    return ThreadpoolController().select(user_api="blas")
