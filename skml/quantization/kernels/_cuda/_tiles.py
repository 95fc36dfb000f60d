"""Tiles of 64 rows of the weight and some rows of X, for products that repay decoding to memory.

From about nine rows of X on, a decoded level serves so many of them that it is worth a place in
shared memory. A block of 256 threads decodes 64 inputs of 64 rows, lets each thread multiply 8 x 4
of the tile, and goes on to the next inputs. Groups of threads share the 64 inputs out among them
where the tile has less than 256 pieces of 8 x 4, and add up at the end in a fixed order.

The functions here run in the kernels for one weight and in that for many; the bits and the format
are arguments, which are constants in the former.
"""

import numpy as np
from numba import cuda
from numba.cuda import types

from ._intrinsics import (
    aligned_address,
    code_of,
    device_function,
    dot_bytes,
    load_four,
    load_words,
    round_even,
    store_at,
)

THREADS = 256
TILE_ROWS = 64
STEP_SLICES = 4
STEP_INPUTS = 16 * STEP_SLICES
LUT, UNIFORM = 0, 1
# Rows of shared memory are four floats longer than they must be, against bank conflicts.
W_STRIDE = TILE_ROWS + 4
DECODED_FLOATS = STEP_INPUTS * W_STRIDE + 4
# Tables of up to 16 levels lie in shared memory, an odd number of floats apart.
TABLE_STRIDE = 17
TABLE_FLOATS = TILE_ROWS * TABLE_STRIDE
_PIECE_ROWS, _PIECE_COLUMNS = 8, 4


def input_floats(columns):
    """Floats of shared memory for the inputs of one step."""
    return STEP_INPUTS * (columns + 4) + 4


@device_function
def stage_table(levels, first_level, bits, row0, m, table):
    """Copy the levels of the tile's rows to shared memory."""
    n_levels = 1 << bits
    cuda.syncthreads()
    for e in range(cuda.threadIdx.x, TILE_ROWS * n_levels, THREADS):
        row = min(row0 + e // n_levels, m - 1)
        table[e // n_levels * TABLE_STRIDE + e % n_levels] = levels[
            first_level + row * n_levels + e % n_levels
        ]
    cuda.syncthreads()


@device_function
def decode_step(
    words, first_word, levels, first_level, zeros, kind, bits, group_size, n_groups,
    m, n_words, row0, block, slice0, n_slices, table, decoded, w_start,
):  # fmt: skip
    """Decode up to 64 inputs of 64 rows: each thread those of four words."""
    row = cuda.threadIdx.x // 4
    lane = cuda.threadIdx.x % 4 * 4
    weight_row = min(row0 + row, m - 1)
    a, b, c, d = load_words(words, first_word + weight_row * n_words + 16 * block + lane)
    mask = (1 << bits) - 1
    per_word = 32 // bits
    for s in range(n_slices):
        shift = bits * (slice0 + s)
        k = 16 * (block * per_word + slice0 + s) + lane
        for i in range(4):
            word = a if i == 0 else b if i == 1 else c if i == 2 else d
            code = code_of(word, shift, mask)
            level = np.float32(0)
            if kind == LUT:
                if bits <= 4:
                    level = table[row * TABLE_STRIDE + code]
                else:
                    level = levels[first_level + (weight_row << bits) + code]
            else:
                group = (
                    first_level + weight_row * n_groups + min((k + i) // group_size, n_groups - 1)
                )
                level = levels[group] * (np.float32(code) - zeros[group])
            store_at(decoded, w_start, (16 * s + lane + i) * W_STRIDE + row, level)


def float_tile(columns):
    """Device functions for tiles of ``columns`` rows of X: one multiplies, one adds up.

    Parameters
    ----------
    columns : {16, 32, 64}
        Rows of X in a tile.

    Returns
    -------
    tuple of (callable, callable)
        ``multiply(..., sums)`` adds the products of the blocks of words from ``block0`` to
        ``block1`` to the thread's 32 sums. ``combine(sums, decoded)`` adds up what several
        threads have of one piece; it returns whether the thread has the sum.
    """
    x_stride = columns + 4
    row_threads = TILE_ROWS // _PIECE_ROWS
    column_threads = columns // _PIECE_COLUMNS
    sharers = THREADS // (row_threads * column_threads)

    @device_function
    def multiply(
        words, first_word, levels, first_level, zeros, kind, bits, group_size, n_groups,
        x, x_row0, x_row1, m, n, n_words, row0, block0, block1,
        table, decoded, inputs, sums,
    ):  # fmt: skip
        w_start, x_start = aligned_address(decoded, 16), aligned_address(inputs, 16)
        thread = cuda.threadIdx.x
        part = thread // (row_threads * column_threads)
        w_piece = 4 * (thread % row_threads)
        x_piece = 4 * (thread // row_threads % column_threads)
        w_values = cuda.local.array(_PIECE_ROWS, types.float32)
        x_values = cuda.local.array(_PIECE_COLUMNS, types.float32)
        per_word = 32 // bits
        if kind == LUT and bits <= 4:
            stage_table(levels, first_level, bits, row0, m, table)
        for block in range(block0, block1):
            for slice0 in range(0, per_word, STEP_SLICES):
                n_slices = min(STEP_SLICES, per_word - slice0)
                k0 = 16 * (block * per_word + slice0)
                cuda.syncthreads()
                decode_step(
                    words, first_word, levels, first_level, zeros, kind, bits, group_size,
                    n_groups, m, n_words, row0, block, slice0, n_slices, table, decoded, w_start,
                )  # fmt: skip
                for e in range(thread, 16 * n_slices * columns, THREADS):
                    k, column = e % (16 * n_slices), e // (16 * n_slices)
                    value = np.float32(0)
                    if k0 + k < n and x_row0 + column < x_row1:
                        value = x[x_row0 + column, k0 + k]
                    store_at(inputs, x_start, k * x_stride + column, value)
                cuda.syncthreads()
                for k in range(part, 16 * n_slices, sharers):
                    w_at = w_start + 4 * (k * W_STRIDE + w_piece)
                    x_at = x_start + 4 * (k * x_stride + x_piece)
                    w_values[0], w_values[1], w_values[2], w_values[3] = load_four(decoded, w_at)
                    w_values[4], w_values[5], w_values[6], w_values[7] = load_four(
                        decoded, w_at + 4 * (TILE_ROWS // 2)
                    )
                    x_values[0], x_values[1], x_values[2], x_values[3] = load_four(inputs, x_at)
                    for c in range(_PIECE_COLUMNS):
                        for r in range(_PIECE_ROWS):
                            sums[c * _PIECE_ROWS + r] += w_values[r] * x_values[c]

    @device_function
    def combine(sums, decoded):
        thread = cuda.threadIdx.x
        part = thread // (row_threads * column_threads)
        piece = thread % (row_threads * column_threads)
        for other in range(1, sharers):
            cuda.syncthreads()
            if part == other:
                for i in range(_PIECE_ROWS * _PIECE_COLUMNS):
                    decoded[i * (row_threads * column_threads) + piece] = sums[i]
            cuda.syncthreads()
            if part == 0:
                for i in range(_PIECE_ROWS * _PIECE_COLUMNS):
                    sums[i] += decoded[i * (row_threads * column_threads) + piece]
        return part == 0

    return multiply, combine


def piece_position(columns):
    """Device function ``(i) -> (row, column)`` of the thread's i-th sum within the tile."""
    row_threads = TILE_ROWS // _PIECE_ROWS
    column_threads = columns // _PIECE_COLUMNS

    @device_function
    def position(i):
        thread = cuda.threadIdx.x
        r = i % _PIECE_ROWS
        row = 4 * (thread % row_threads) + r % 4 + r // 4 * (TILE_ROWS // 2)
        return row, 4 * (thread // row_threads % column_threads) + i // _PIECE_ROWS

    return position


INT_COLUMNS = 16
INT_ROWS = 4  # rows of a thread
Q_STRIDE = TILE_ROWS + 8
INT_CODES = STEP_INPUTS // 4 * Q_STRIDE
INT_STRIDE = STEP_INPUTS // 4 + 1
INT_INPUTS = INT_COLUMNS * INT_STRIDE
# Sums of 32 bits hold the products of so many codes of 8 bits and inputs of 8.
_LONGEST_SUM = 1 << 15


@device_function
def stage_bytes(
    words, first_word, bits, rounded, x_row0, x_row1, m, n_words, row0, block, slice0, n_slices,
    codes, quads,
):  # fmt: skip
    """Put four codes of neighbouring inputs into a word of shared memory, and four inputs."""
    thread = cuda.threadIdx.x
    row, lane = thread // 4, thread % 4
    weight_row = min(row0 + row, m - 1)
    a, b, c, d = load_words(words, first_word + weight_row * n_words + 16 * block + 4 * lane)
    mask = (1 << bits) - 1
    for s in range(n_slices):
        shift = bits * (slice0 + s)
        packed = code_of(a, shift, mask) | (code_of(b, shift, mask) << 8)
        packed |= (code_of(c, shift, mask) << 16) | (code_of(d, shift, mask) << 24)
        codes[(4 * s + lane) * Q_STRIDE + row] = packed
    first_quad = 4 * (block * (32 // bits) + slice0)
    for e in range(thread, 4 * n_slices * INT_COLUMNS, THREADS):
        quad, column = e % (4 * n_slices), e // (4 * n_slices)
        value = np.uint32(0)
        if x_row0 + column < x_row1 and first_quad + quad < rounded.shape[1]:
            value = rounded[x_row0 + column, first_quad + quad]
        quads[column * INT_STRIDE + quad] = value


@device_function
def add_products(codes, quads, first, last, whole, totals):
    """Add the products of the inputs from ``first`` to ``last`` of a step to integer sums.

    ``totals`` holds the sums of four rows, then the sum of the inputs.
    """
    row, column = cuda.threadIdx.x % 16, cuda.threadIdx.x // 16
    if whole:
        for q in range(first // 4, (last + 3) // 4):
            x = quads[column * INT_STRIDE + q]
            for i in range(INT_ROWS):
                totals[i] = dot_bytes(codes[q * Q_STRIDE + row + 16 * i], x, totals[i])
            totals[INT_ROWS] = dot_bytes(np.uint32(0x01010101), x, totals[INT_ROWS])
    else:
        for k in range(first, last):
            value = code_of(quads[column * INT_STRIDE + k // 4], k % 4 * 8, 255)
            x = np.int32(value) - (np.int32(value) >> 7 << 8)
            for i in range(INT_ROWS):
                code = code_of(codes[k // 4 * Q_STRIDE + row + 16 * i], k % 4 * 8, 255)
                totals[i] += np.int32(code) * x
            totals[INT_ROWS] += x


@device_function
def scale_sums(
    levels, zeros, first_level, group, n_groups, act_scale, row0, m, totals, sums
):  # fmt: skip
    """Scale the integer sums of a group, add them to the float sums, and start anew."""
    for i in range(INT_ROWS):
        at = first_level + min(row0 + cuda.threadIdx.x % 16 + 16 * i, m - 1) * n_groups + group
        zero = zeros[at]
        # The whole part of the zero is subtracted before anything is rounded.
        whole = round_even(zero) if abs(zero) < 1048576 else np.float32(0)
        exact = np.int64(totals[i]) - np.int64(whole) * np.int64(totals[INT_ROWS])
        rest = np.float32(exact) - (zero - whole) * np.float32(totals[INT_ROWS])
        sums[i] += act_scale * levels[at] * rest
        totals[i] = 0
    totals[INT_ROWS] = 0


@device_function
def integer_tile(
    words, first_word, levels, first_level, zeros, bits, group_size, n_groups, act_group,
    rounded, act_scales, x_row0, x_row1, m, n, n_words, row0, codes, quads, totals, sums,
):  # fmt: skip
    """Multiply a tile of 64 rows of the weight and 16 of X in integers."""
    per_word = 32 // bits
    x_row = min(x_row0 + cuda.threadIdx.x // 16, x_row1 - 1)
    for i in range(INT_ROWS + 1):
        totals[i] = 0
    for block in range(n_words // 16):
        for slice0 in range(0, per_word, STEP_SLICES):
            n_slices = min(STEP_SLICES, per_word - slice0)
            k0 = 16 * (block * per_word + slice0)
            cuda.syncthreads()
            stage_bytes(
                words, first_word, bits, rounded, x_row0, x_row1, m, n_words, row0, block, slice0,
                n_slices, codes, quads,
            )  # fmt: skip
            cuda.syncthreads()
            k, last = k0, min(k0 + 16 * n_slices, n)
            while k < last:
                group, act = k // group_size, k // act_group
                bound = min((group + 1) * group_size, (act + 1) * act_group)
                end = min(last, bound)
                whole = k % 4 == 0 and (end % 4 == 0 or end == n)
                add_products(codes, quads, k - k0, end - k0, whole, totals)
                full = k // _LONGEST_SUM != end // _LONGEST_SUM
                if end == bound or end == n or full:
                    scale_sums(
                        levels, zeros, first_level, group, n_groups, act_scales[x_row, act],
                        row0, m, totals, sums,
                    )  # fmt: skip
                k = end
