"""What follows a product: partial sums, outliers, and changes of type."""

from functools import cache

import numpy as np
from numba import cuda
from numba.cuda import types

from ._intrinsics import (
    SCRATCH,
    WARP,
    device_function,
    float_bits,
    warp_sum,
)

THREADS = 128


def writer(out_type):
    """Device function ``(out, split, column, row, total)`` that writes a float.

    Parameters
    ----------
    out_type : {"float32", "float16", "bfloat16"}
        Type of the result; bfloat16 is written as uint16.
    """
    if out_type == "bfloat16":

        @device_function
        def write(out, split, column, row, total):
            bits = float_bits(total)
            # To the nearest, ties to even; what is not a number stays none.
            rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
            out[split, column, row] = rounded if total == total else 0x7FC0

    else:

        @device_function
        def write(out, split, column, row, total):
            out[split, column, row] = total

    return write


@cache
def add_splits(out_type="float32"):
    """Kernel ``(partial, bias, out)``: out = bias + sum of ``partial`` (splits, B, m), in order.

    ``out`` is (1, B, m), in a type of ``writer``; the grid is (ceil(m / THREADS), B). The order of
    the sum is fixed, so that a product is the same every time.
    """
    write = writer(out_type)

    @cuda.jit
    def kernel(partial, bias, out):
        row = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        column = cuda.blockIdx.y
        if row >= out.shape[2]:
            return
        total = np.float32(0)
        for split in range(partial.shape[0]):
            total += partial[split, column, row]
        if bias.size:
            total += bias[row]
        write(out, 0, column, row, total)

    return kernel


@cache
def add_outliers():
    """Kernel ``(indptr, indices, values, x, out)``: out += x @ outliers.T, one row per warp.

    The grid is (ceil(m / (THREADS / 32)), B).
    """
    warps = THREADS // WARP

    @cuda.jit
    def kernel(indptr, indices, values, x, out):
        scratch = cuda.shared.array(SCRATCH, types.float32)
        row = cuda.blockIdx.x * warps + cuda.threadIdx.x // WARP
        lane, column = cuda.threadIdx.x % WARP, cuda.blockIdx.y
        total = np.float32(0)
        if row < out.shape[1]:
            for p in range(indptr[row] + lane, indptr[row + 1], WARP):
                total += values[p] * x[column, indices[p]]
        total = warp_sum(total, scratch)
        if lane == 0 and row < out.shape[1]:
            out[column, row] += total

    return kernel


@cache
def add_grouped_outliers():
    """Kernel ``(offsets, indptr, indices, values, x, out)``, the same for many problems.

    ``indptr`` (n_problems, m + 1) points into the indices and values of all problems.
    """
    warps = THREADS // WARP

    @cuda.jit
    def kernel(offsets, indptr, indices, values, x, out):
        scratch = cuda.shared.array(SCRATCH, types.float32)
        row = cuda.blockIdx.x * warps + cuda.threadIdx.x // WARP
        lane, column = cuda.threadIdx.x % WARP, cuda.blockIdx.y
        problem = 0
        while problem < indptr.shape[0] - 1 and offsets[problem + 1] <= column:
            problem += 1
        total = np.float32(0)
        if row < out.shape[1]:
            for p in range(indptr[problem, row] + lane, indptr[problem, row + 1], WARP):
                total += values[p] * x[column, indices[p]]
        total = warp_sum(total, scratch)
        if lane == 0 and row < out.shape[1]:
            out[column, row] += total

    return kernel


@cache
def convert():
    """Kernel ``(source, target)`` for 2-D arrays: target = source in the type of target.

    The grid is (ceil(n_columns / THREADS), n_rows).
    """

    @cuda.jit
    def kernel(source, target):
        column, row = cuda.blockIdx.x * THREADS + cuda.threadIdx.x, cuda.blockIdx.y
        if column < target.shape[1]:
            target[row, column] = source[row, column]

    return kernel
