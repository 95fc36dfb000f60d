"""Products of one to eight rows of X: each warp reads whole rows of codes.

A warp takes a few rows of the weight. In each step, lane t reads the words 4 t to 4 t + 3 of 128 of
every row, sixteen bytes at once, so the warp reads 512 neighbouring bytes; and the inputs that
belong to the codes of four words in one place of their word are four neighbours as well. Each row's
table lies in shared memory. Sixteen entries lie in sixteen banks, so 32 lanes look up what they
like in one clock. An input that has been read serves all rows of the warp: with one row, reading
inputs would cost as much as looking levels up.

Two codes of 1 or 2 bits are looked up at once in a table of pairs, 16 entries of eight bytes that
again fill all banks once. Pairs of 3 or 4 bits need 64 or 256 entries; as halves they are four
bytes each, and random entries then collide in about three of 32 banks, which about undoes what the
pair saves. Which is faster is for a device to say, so both are here (`pairs`).
"""

from functools import cache

import numpy as np
from numba import cuda
from numba.cuda import types

from ._intrinsics import (
    SCRATCH,
    WARP,
    aligned_address,
    code_of,
    device_function,
    load_four,
    load_words,
    lookup,
    pack_floats,
    pack_halves,
    rotate_right,
    store_at,
    unpack_floats,
    unpack_halves,
    warp_sum,
)

WARPS = 8
# Of 48 KiB that a kernel has without asking for more, tables take up to 32, inputs the rest.
_SHARED_FLOATS = 11 * 1024


def widest(bits):
    """Rows of X that one launch column multiplies at most: inputs must fit beside the tables."""
    return {1: 2, 2: 4}.get(bits, 8)


def rows_per_warp(bits, columns, pairs=None):
    """Rows of the weight that one warp multiplies: as many as registers and tables allow."""
    if bits == 8 or columns == 8:
        return 2
    if bits == 7 or (pairs == "half" and bits == 4):
        return 4 if columns <= 2 else 2
    return 4


def staged_blocks(bits, columns, pairs=None, warps=WARPS):
    """Blocks of 16 words whose inputs lie in shared memory at a time, a multiple of 8."""
    table = warps * rows_per_warp(bits, columns, pairs) * _table_floats(bits, pairs)
    per_block = columns * _block_stride(bits)
    return max(8, min(64, (_SHARED_FLOATS - table) // per_block) // 8 * 8)


def _table_floats(bits, pairs):
    return {None: 2**bits, "float": 2 * 4**bits, "half": 4**bits}[pairs]


def _block_stride(bits):
    # Neighbouring blocks lie half the banks apart: lanes of both read inputs at the same time.
    per_block = 16 * (32 // bits)
    return per_block + 16 if per_block % 32 == 0 else per_block


@cache
def lut_gemv(bits, columns, pairs=None, warps=WARPS):
    """Kernel for a lookup table per row.

    Parameters
    ----------
    bits : int
        Bits of a code.
    columns : {1, 2, 4, 8}
        Rows of X that are multiplied at once.
    pairs : {None, "float", "half"}
        Whether the tables hold single levels, or pairs of levels in that precision. Pairs need an
        even number of codes in a word and, in halves, levels that are halves.
    warps : int
        Warps of a block.

    Returns
    -------
    kernel
        Called as ``kernel(words, table, x, bias, out, n, n_words, split_blocks)`` with ``words``
        (m * n_words) of uint32, ``table`` (m, 2**bits), ``x`` (B, n) and ``bias`` (m or none) of
        float32; it writes ``out`` (splits, B, m). Block y of the grid sums over ``split_blocks``
        blocks of 16 words.
    """
    per_word, n_levels, rows = 32 // bits, 2**bits, rows_per_warp(bits, columns, pairs)
    step = 1 if pairs is None else 2
    entry_type = {None: types.float32, "float": types.uint64, "half": types.uint32}[pairs]
    pack = pack_floats if pairs == "float" else pack_halves
    unpack = unpack_floats if pairs == "float" else unpack_halves
    n_entries, entry_bytes = n_levels**step, entry_type.bitwidth // 8
    table_bytes = n_entries * entry_bytes
    # Words are rotated so that the code at their end is the offset of its entry in bytes.
    first_turn, turn = 32 - entry_bytes.bit_length() + 1, bits * step
    mask = (n_entries - 1) * entry_bytes
    stride = _block_stride(bits)
    n_staged = staged_blocks(bits, columns, pairs, warps)
    x_floats = n_staged * stride
    stage = _stage_inputs(bits, columns, n_staged, warps)
    finish = _finish_rows(rows, columns, warps)
    # Shapes of arrays in a kernel must be names of constants. Either array has room to start at
    # a multiple of what is read from it.
    n_sums, n_held, n_xs = rows * columns, rows * 4, columns * 4 * step
    all_inputs, all_entries = columns * x_floats + 4, (warps * rows + 1) * n_entries

    @cuda.jit
    def kernel(words, table, x, bias, out, n, n_words, split_blocks):
        inputs = cuda.shared.array(all_inputs, types.float32)
        entries = cuda.shared.array(all_entries, entry_type)
        x_start = aligned_address(inputs, 16)
        lane, warp = cuda.threadIdx.x % WARP, cuda.threadIdx.x // WARP
        tables = aligned_address(entries, table_bytes) + warp * rows * table_bytes
        m = table.shape[0]
        row0 = (cuda.blockIdx.x * warps + warp) * rows
        for r in range(rows):
            row = min(row0 + r, m - 1)
            for e in range(lane, n_entries, WARP):
                if pairs is None:
                    store_at(entries, tables + r * table_bytes, e, table[row, e])
                else:
                    pair = pack(table[row, e % n_levels], table[row, e // n_levels])
                    store_at(entries, tables + r * table_bytes, e, pair)
        sums = cuda.local.array(n_sums, types.float32)
        for i in range(n_sums):
            sums[i] = 0
        held = cuda.local.array(n_held, types.uint32)
        ahead = cuda.local.array(n_held, types.uint32)
        xs = cuda.local.array(n_xs, types.float32)
        last_block = min(n_words // 16, (cuda.blockIdx.y + 1) * split_blocks)
        for block0 in range(cuda.blockIdx.y * split_blocks, last_block, n_staged):
            last_word = 16 * min(block0 + n_staged, last_block)
            first_word = 16 * block0 + 4 * lane
            # The first codes are on their way while the inputs are copied.
            if first_word < last_word:
                for r in range(rows):
                    row = min(row0 + r, m - 1)
                    a, b, c, d = load_words(words, row * n_words + first_word)
                    held[4 * r], held[4 * r + 1], held[4 * r + 2], held[4 * r + 3] = a, b, c, d
            stage(x, inputs, x_start, n, block0)
            for w in range(first_word, last_word, 128):
                if w + 128 < last_word:
                    for r in range(rows):
                        row = min(row0 + r, m - 1)
                        a, b, c, d = load_words(words, row * n_words + w + 128)
                        ahead[4 * r], ahead[4 * r + 1] = a, b
                        ahead[4 * r + 2], ahead[4 * r + 3] = c, d
                for i in range(n_held):
                    held[i] = rotate_right(held[i], first_turn)
                x_at = x_start + 4 * (((w >> 4) - block0) * stride + (w & 15))
                for _ in range(0, per_word, step):
                    for c in range(columns):
                        for s in range(step):
                            x0, x1, x2, x3 = load_four(inputs, x_at + 4 * (c * x_floats + 16 * s))
                            at = (c * step + s) * 4
                            xs[at], xs[at + 1], xs[at + 2], xs[at + 3] = x0, x1, x2, x3
                    for i in range(n_held):
                        r = i // 4
                        entry = lookup(entries, tables + r * table_bytes, held[i], mask)
                        held[i] = rotate_right(held[i], turn)
                        if pairs is None:
                            for c in range(columns):
                                sums[r * columns + c] += entry * xs[4 * c + i % 4]
                        else:
                            low, high = unpack(entry)
                            for c in range(columns):
                                sums[r * columns + c] += low * xs[8 * c + i % 4]
                                sums[r * columns + c] += high * xs[8 * c + 4 + i % 4]
                    x_at = x_at + 64 * step
                for i in range(n_held):
                    held[i] = ahead[i]
        finish(sums, bias, out, row0, m)

    return kernel


@cache
def uniform_gemv(bits, columns, aligned, warps=WARPS):
    """Kernel for scale and zero per group of inputs.

    Parameters
    ----------
    bits : int
        Bits of a code.
    columns : {1, 2, 4, 8}
        Rows of X that are multiplied at once.
    aligned : bool
        Whether groups are multiples of 16 inputs, so that 16 neighbours share one.
    warps : int
        Warps of a block.

    Returns
    -------
    kernel
        As that of :func:`lut_gemv`, with ``scale`` and ``zero`` (m, n_groups) in place of
        ``table`` and ``group_size`` at the end.
    """
    per_word, rows = 32 // bits, uniform_rows_per_warp(bits, columns)
    mask = 2**bits - 1
    stride = _block_stride(bits)
    n_staged = min(64, _SHARED_FLOATS // (columns * stride)) // 8 * 8 or 8
    x_floats = n_staged * stride
    stage = _stage_inputs(bits, columns, n_staged, warps)
    finish = _finish_rows(rows, columns, warps)
    n_sums, n_held, n_xs, all_inputs = rows * columns, 4 * rows, 4 * columns, columns * x_floats + 4

    @cuda.jit
    def kernel(words, scale, zero, x, bias, out, n, n_words, split_blocks, group_size):
        inputs = cuda.shared.array(all_inputs, types.float32)
        x_start = aligned_address(inputs, 16)
        lane, warp = cuda.threadIdx.x % WARP, cuda.threadIdx.x // WARP
        m, last_group = scale.shape[0], scale.shape[1] - 1
        row0 = (cuda.blockIdx.x * warps + warp) * rows
        sums = cuda.local.array(n_sums, types.float32)
        for i in range(n_sums):
            sums[i] = 0
        held = cuda.local.array(n_held, types.uint32)
        xs = cuda.local.array(n_xs, types.float32)
        last_block = min(n_words // 16, (cuda.blockIdx.y + 1) * split_blocks)
        for block0 in range(cuda.blockIdx.y * split_blocks, last_block, n_staged):
            stage(x, inputs, x_start, n, block0)
            for w in range(16 * block0 + 4 * lane, 16 * min(block0 + n_staged, last_block), 128):
                for r in range(rows):
                    row = min(row0 + r, m - 1)
                    a, b, c, d = load_words(words, row * n_words + w)
                    held[4 * r], held[4 * r + 1], held[4 * r + 2], held[4 * r + 3] = a, b, c, d
                x_at = x_start + 4 * (((w >> 4) - block0) * stride + (w & 15))
                k = (w >> 4) * per_word * 16 + (w & 15)
                for _ in range(per_word):
                    for c in range(columns):
                        x0, x1, x2, x3 = load_four(inputs, x_at + 4 * c * x_floats)
                        at = 4 * c
                        xs[at], xs[at + 1], xs[at + 2], xs[at + 3] = x0, x1, x2, x3
                    # Padding has inputs of zero; its group may not exist.
                    group = min(k // group_size, last_group)
                    for i in range(n_held):
                        row = min(row0 + i // 4, m - 1)
                        if not aligned:
                            group = min((k + i % 4) // group_size, last_group)
                        code = np.float32(code_of(held[i], 0, mask))
                        level = scale[row, group] * (code - zero[row, group])
                        held[i] = rotate_right(held[i], bits)
                        for c in range(columns):
                            sums[i // 4 * columns + c] += level * xs[4 * c + i % 4]
                    x_at = x_at + 64
                    k += 16
        finish(sums, bias, out, row0, m)

    return kernel


def uniform_rows_per_warp(bits, columns):
    """Rows of the weight that a warp of :func:`uniform_gemv` multiplies."""
    return min(rows_per_warp(bits, columns), 2)


def _stage_inputs(bits, columns, n_staged, warps):
    """Device function that copies the inputs of some blocks of words to shared memory."""
    per_block, stride = 16 * (32 // bits), _block_stride(bits)
    x_floats, threads = n_staged * stride, warps * WARP

    @device_function
    def stage(x, inputs, x_start, n, block0):
        first = cuda.blockIdx.z * columns
        cuda.syncthreads()
        for c in range(columns):
            for k in range(cuda.threadIdx.x, n_staged * per_block, threads):
                value = np.float32(0)
                # Zeros stand for inputs beyond the last, and for rows of X beyond the last.
                if block0 * per_block + k < n and first + c < x.shape[0]:
                    value = x[first + c, block0 * per_block + k]
                at = c * x_floats + k // per_block * stride + k % per_block
                store_at(inputs, x_start, at, value)
        cuda.syncthreads()

    return stage


def _finish_rows(rows, columns, warps):
    """Device function that adds the lanes of a warp up and writes its rows."""

    @device_function
    def finish(sums, bias, out, row0, m):
        scratch = cuda.shared.array(SCRATCH, types.float32)
        lane = cuda.threadIdx.x % WARP
        for r in range(rows):
            for c in range(columns):
                total = warp_sum(sums[r * columns + c], scratch)
                row, column = row0 + r, cuda.blockIdx.z * columns + c
                if lane == 0 and row < m and column < out.shape[1]:
                    if bias.size:
                        total += bias[row]
                    out[cuda.blockIdx.y, column, row] = total

    return finish
