"""Inputs rounded to integers, per row of X and group of inputs."""

from functools import cache

import numpy as np
from numba import cuda
from numba.cuda import types

from ._grouped import ACT_BITS, ACT_GROUP
from ._intrinsics import SCRATCH, WARP, round_even, warp_max


@cache
def round_inputs():
    """Kernel that rounds the rows of X of the problems that ask for it.

    Returns
    -------
    kernel
        Called on blocks of one warp as ``kernel(problems, offsets, x, rounded, act_scales)``, see
        ``grouped``, but ``rounded`` (B, 4 * ceil(n / 4)) of int8. The grid is (B, groups).
    """
    tiny, largest_float = np.finfo(np.float32).tiny, np.finfo(np.float32).max

    @cuda.jit
    def kernel(problems, offsets, x, rounded, act_scales):
        scratch = cuda.shared.array(SCRATCH, types.float32)
        row, group, lane = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
        problem = 0
        while problem < problems.shape[0] - 1 and offsets[problem + 1] <= row:
            problem += 1
        act_bits, act_group = problems[problem, ACT_BITS], problems[problem, ACT_GROUP]
        n = x.shape[1]
        first, last = group * act_group, min((group + 1) * act_group, n)
        if act_bits == 0 or first >= n:
            return
        bound = np.float32(0)
        for k in range(first + lane, last, WARP):
            size = abs(x[row, k])
            # A comparison with NaN is false: what is no finite number makes the bound infinite.
            bound = max(bound, size) if size <= largest_float else np.float32(np.inf)
        bound = warp_max(bound, scratch)
        largest = np.float32((1 << (act_bits - 1)) - 1)
        finite = bound <= largest_float
        scale = max(bound / largest, tiny) if finite else np.float32(np.nan)
        if lane == 0:
            act_scales[row, group] = scale
        for k in range(first + lane, last, WARP):
            step = round_even(x[row, k] / scale) if finite else np.float32(0)
            rounded[row, k] = np.int8(min(max(step, -largest), largest))
        if last == n:
            for k in range(n + lane, rounded.shape[1], WARP):
                rounded[row, k] = 0

    return kernel
