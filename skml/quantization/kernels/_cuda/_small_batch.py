"""Products of nine and more rows of X in float32, on decoded tiles."""

from functools import cache

from numba import cuda
from numba.cuda import types

from ._tiles import (
    DECODED_FLOATS,
    TABLE_FLOATS,
    TILE_ROWS,
    float_tile,
    input_floats,
    piece_position,
)

_N_SUMS = 32


@cache
def small_batch(bits, kind, columns):
    """Kernel for one weight of either format.

    Parameters
    ----------
    bits : int
        Bits of a code.
    kind : {LUT, UNIFORM}
        Whether ``levels`` holds a table per row, or scales beside ``zeros``.
    columns : {16, 32, 64}
        Rows of X in a tile.

    Returns
    -------
    kernel
        Called on blocks of 256 threads as ``kernel(words, levels, zeros, x, bias, out, n, n_words,
        split_blocks, group_size, n_groups)`` with ``words``, ``levels``, ``zeros`` and ``bias``
        flat, ``x`` (B, n) and ``out`` (splits, B, m). The grid is (rows / 64, splits, B / columns).
    """
    multiply, combine = float_tile(columns)
    position = piece_position(columns)
    all_inputs = input_floats(columns)

    @cuda.jit
    def kernel(
        words, levels, zeros, x, bias, out, n, n_words, split_blocks, group_size, n_groups
    ):  # fmt: skip
        decoded = cuda.shared.array(DECODED_FLOATS, types.float32)
        inputs = cuda.shared.array(all_inputs, types.float32)
        table = cuda.shared.array(TABLE_FLOATS, types.float32)
        sums = cuda.local.array(_N_SUMS, types.float32)
        for i in range(_N_SUMS):
            sums[i] = 0
        m, row0, column0 = out.shape[2], cuda.blockIdx.x * TILE_ROWS, cuda.blockIdx.z * columns
        block0 = cuda.blockIdx.y * split_blocks
        block1 = min(n_words // 16, block0 + split_blocks)
        multiply(
            words, 0, levels, 0, zeros, kind, bits, group_size, n_groups,
            x, column0, x.shape[0], m, n, n_words, row0, block0, block1,
            table, decoded, inputs, sums,
        )  # fmt: skip
        if combine(sums, decoded):
            for i in range(_N_SUMS):
                r, c = position(i)
                if row0 + r < m and column0 + c < out.shape[1]:
                    total = sums[i]
                    if bias.size:
                        total += bias[row0 + r]
                    out[cuda.blockIdx.y, column0 + c, row0 + r] = total

    return kernel
