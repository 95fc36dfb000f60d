"""Weights and inputs for the tests of the kernels, and the exact product to compare with."""

import numpy as np
from scipy import sparse

from skml.quantization import LUTWeight, UniformWeight, kernel_info

BACKENDS = kernel_info()["available"]
COMPILED = [name for name in BACKENDS if name != "numpy"]
WIDTHS = range(1, 9)


def lut_weight(m, n, bits, seed=0, outliers=0.0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2**bits, (m, n), dtype=np.uint8)
    codebook = rng.normal(size=(m, 2**bits)).astype(np.float32)
    return LUTWeight.from_codes(codes, codebook, outliers=sparse_part(m, n, outliers, rng))


def uniform_weight(m, n, bits, group_size=None, seed=0, outliers=0.0, **settings):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2**bits, (m, n), dtype=np.uint8)
    n_groups = 1 if group_size is None else -(-n // group_size)
    scale = rng.uniform(0.5, 1.5, (m, n_groups)).astype(np.float32)
    zero = rng.uniform(0, 2**bits - 1, (m, n_groups)).astype(np.float32)
    return UniformWeight.from_codes(
        codes, bits, scale, zero, group_size=group_size,
        outliers=sparse_part(m, n, outliers, rng), **settings,
    )  # fmt: skip


def sparse_part(m, n, density, rng):
    if not density:
        return None
    return sparse.random_array((m, n), density=density, rng=rng, dtype=np.float32).tocsr()


def inputs(n_samples, n, kind="gaussian", seed=1):
    X = np.random.default_rng(seed).normal(size=(n_samples, n))
    if kind == "relu":
        X = np.maximum(X, 0)
    elif kind == "shifted":
        X += 3
    return X.astype(np.float32)


def exact(X, weight, bias=None):
    """The product in float64, from the dequantised float32 weight."""
    Y = X.astype(np.float64) @ weight.dequantize().astype(np.float64).T
    return Y if bias is None else Y + bias


def relative_error(Y, expected):
    scale = np.abs(expected).max(initial=0.0)
    return np.abs(Y - expected).max(initial=0.0) / scale if scale else np.abs(Y).max(initial=0.0)
