"""Many products in one launch, each with a weight and a precision of its own.

The grid stays: each block takes tile after tile, in steps of the number of blocks, until none is
left, and branches on the format of the tile's weight. Which tile belongs to which problem follows
from the running sum of the problems' tiles. It is formed on the device from the offsets, which may
therefore be the result of a router that has not run yet when the kernel is launched.
"""

from functools import cache

from numba import cuda
from numba.cuda import types

from ._tiles import (
    DECODED_FLOATS,
    INT_CODES,
    INT_COLUMNS,
    INT_INPUTS,
    INT_ROWS,
    TABLE_FLOATS,
    TILE_ROWS,
    float_tile,
    input_floats,
    integer_tile,
    piece_position,
)

# Columns of the table of problems.
FIRST_WORD, FIRST_LEVEL, BITS, KIND, GROUP_SIZE, N_GROUPS, N_WORDS, ACT_BITS, ACT_GROUP = range(9)
TILE_COLUMNS = 16
_N_SUMS = 32
_N_TOTALS = INT_ROWS + 1


@cache
def grouped():
    """Kernel for any number of problems in any formats.

    Returns
    -------
    kernel
        Called on any number of blocks of 256 threads as ``kernel(problems, offsets, words, levels,
        zeros, x, rounded, act_scales, bias, out)``: ``problems`` (n_problems, 9) and ``offsets``
        (n_problems + 1) of int64, the weights of all problems one after the other in ``words``,
        ``levels`` and ``zeros``, ``x`` (B, n), ``rounded`` (B, ceil(n / 4)) words of four bytes,
        ``act_scales`` (B, groups), ``bias`` (m or none) and ``out`` (B, m).
    """
    multiply, combine = float_tile(TILE_COLUMNS)
    position = piece_position(TILE_COLUMNS)
    all_inputs = input_floats(TILE_COLUMNS)

    @cuda.jit
    def kernel(
        problems, offsets, words, levels, zeros, x, rounded, act_scales, bias, out
    ):  # fmt: skip
        decoded = cuda.shared.array(DECODED_FLOATS, types.float32)
        inputs = cuda.shared.array(all_inputs, types.float32)
        table = cuda.shared.array(TABLE_FLOATS, types.float32)
        codes = cuda.shared.array(INT_CODES, types.uint32)
        quads = cuda.shared.array(INT_INPUTS, types.uint32)
        sums = cuda.local.array(_N_SUMS, types.float32)
        totals = cuda.local.array(_N_TOTALS, types.int32)
        m, n = out.shape[1], x.shape[1]
        row_tiles = (m + TILE_ROWS - 1) // TILE_ROWS
        problem, first_tile, tile = 0, 0, cuda.blockIdx.x
        while problem < problems.shape[0]:
            # Offsets that come from the device are nobody's to check: they lead nowhere else.
            x_first = min(max(offsets[problem], 0), x.shape[0])
            x_last = min(max(offsets[problem + 1], x_first), x.shape[0])
            # Tiles of the same rows of the weight follow each other: they share what is cached.
            token_tiles = (x_last - x_first + TILE_COLUMNS - 1) // TILE_COLUMNS
            if tile >= first_tile + token_tiles * row_tiles:
                first_tile += token_tiles * row_tiles
                problem += 1
                continue
            inside = tile - first_tile
            row0 = inside // token_tiles * TILE_ROWS
            x_row0 = x_first + inside % token_tiles * TILE_COLUMNS
            bits, n_words = problems[problem, BITS], problems[problem, N_WORDS]
            first_word, first_level = problems[problem, FIRST_WORD], problems[problem, FIRST_LEVEL]
            group_size, n_groups = problems[problem, GROUP_SIZE], problems[problem, N_GROUPS]
            for i in range(_N_SUMS):
                sums[i] = 0
            if problems[problem, ACT_BITS]:
                integer_tile(
                    words, first_word, levels, first_level, zeros, bits, group_size, n_groups,
                    problems[problem, ACT_GROUP], rounded, act_scales, x_row0, x_last, m, n,
                    n_words, row0, codes, quads, totals, sums,
                )  # fmt: skip
                column = x_row0 + cuda.threadIdx.x // INT_COLUMNS
                for i in range(INT_ROWS):
                    row = row0 + cuda.threadIdx.x % INT_COLUMNS + INT_COLUMNS * i
                    if row < m and column < x_last:
                        out[column, row] = sums[i] + (bias[row] if bias.size else 0)
            else:
                multiply(
                    words, first_word, levels, first_level, zeros, problems[problem, KIND], bits,
                    group_size, n_groups, x, x_row0, x_last, m, n, n_words, row0, 0, n_words // 16,
                    table, decoded, inputs, sums,
                )  # fmt: skip
                if combine(sums, decoded):
                    for i in range(_N_SUMS):
                        r, c = position(i)
                        if row0 + r < m and x_row0 + c < x_last:
                            out[x_row0 + c, row0 + r] = sums[i] + (
                                bias[row0 + r] if bias.size else 0
                            )
            tile += cuda.gridDim.x

    return kernel
