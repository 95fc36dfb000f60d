"""Weights written out, and gradients of their levels."""

from functools import cache

import numpy as np
from numba import cuda
from numba.cuda import types

from ._intrinsics import WARP, code_of
from ._tiles import LUT

THREADS = 256


@cache
def dequantize(bits, kind):
    """Kernel ``(words, levels, zeros, dense, n_words, group_size, n_groups)`` that writes a weight.

    ``dense`` (m, n) takes the type of its own; ``levels`` and ``zeros`` are flat. The grid is
    (ceil(n / THREADS), m).
    """
    per_word, mask = 32 // bits, 2**bits - 1

    @cuda.jit
    def kernel(words, levels, zeros, dense, n_words, group_size, n_groups):
        k, row = cuda.blockIdx.x * THREADS + cuda.threadIdx.x, cuda.blockIdx.y
        if k >= dense.shape[1]:
            return
        slice_ = k >> 4
        word = words[row * n_words + slice_ // per_word * 16 + (k & 15)]
        code = code_of(word, bits * (slice_ % per_word), mask)
        if kind == LUT:
            dense[row, k] = levels[(row << bits) + code]
        else:
            group = row * n_groups + k // group_size
            dense[row, k] = levels[group] * (np.float32(code) - zeros[group])

    return kernel


@cache
def scatter_outliers():
    """Kernel ``(indptr, indices, values, dense)``: dense += outliers, one row per block."""

    @cuda.jit
    def kernel(indptr, indices, values, dense):
        row = cuda.blockIdx.x
        for p in range(indptr[row] + cuda.threadIdx.x, indptr[row + 1], THREADS):
            dense[row, indices[p]] += values[p]

    return kernel


@cache
def level_gradient(bits):
    """Kernel ``(words, products, gradient, n_words)``: sums of products by code, in fixed order.

    ``products`` (m, n) is dY.T @ X and ``gradient`` (m, 2**bits); the grid is (m) blocks of one
    warp. Each lane has its own sums, so nothing depends on which lane comes first.
    """
    per_word, n_levels = 32 // bits, 2**bits
    mask, n_sums = n_levels - 1, n_levels * WARP

    @cuda.jit
    def kernel(words, products, gradient, n_words):
        sums = cuda.shared.array(n_sums, types.float32)
        row, lane = cuda.blockIdx.x, cuda.threadIdx.x
        for level in range(n_levels):
            sums[level * WARP + lane] = 0
        for k in range(lane, products.shape[1], WARP):
            slice_ = k >> 4
            word = words[row * n_words + slice_ // per_word * 16 + (k & 15)]
            code = code_of(word, bits * (slice_ % per_word), mask)
            sums[code * WARP + lane] += products[row, k]
        cuda.syncthreads()
        for level in range(lane, n_levels, WARP):
            total = np.float32(0)
            for other in range(WARP):
                total += sums[level * WARP + other]
            gradient[row, level] = total

    return kernel
