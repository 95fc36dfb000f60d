"""Products of up to 64 rows of X in half precision, on tensor cores.

Numba has no word for the instruction. The tile is therefore computed by a function in CUDA C++
(``lut_mma.cu``), which numba has NVRTC compile and links into the kernel below: the kernel says
which tile, and brings the result to where it belongs, in its type.

Levels must be of 16 bits already: nothing is rounded here that was not before.
"""

from functools import cache
from pathlib import Path

import numpy as np
from numba import cuda
from numba.cuda import types

from ._epilogue import writer
from ._intrinsics import (
    SIMULATED,
    WARP,
    address_of,
)

WARPS = 8
THREADS = WARPS * WARP
WARP_ROWS = 32
TILE_STRIDE = WARP_ROWS + 1
BITS = (1, 2, 3, 4)
HALF_TYPES = ("float16", "bfloat16")
# Eight rows of X a tile of the instruction; so many tiles are held at once.
TILES = (1, 2, 4, 8)
ARRANGE_THREADS = 128


def steps_of(bits):
    """Steps of four codes that a word takes."""
    return -(-(32 // bits) // 4)


def code_order(bits):
    """Which code of its word each slot of four belongs to, step by step; -1 is none.

    Codes of 1 and 2 bits are decoded in pairs that lie 8 and 4 codes apart, since the instruction
    that picks bytes takes its selectors in half-bytes.
    """
    per_word, apart = 32 // bits, {1: 8, 2: 4}.get(bits)
    if apart:
        first = [code for code in range(per_word) if code // apart % 2 == 0]
        return [code for pair in first for code in (pair, pair + apart)]
    return [code if code < per_word else -1 for code in range(4 * steps_of(bits))]


def function_name(bits, tiles, half_type):
    """Name of the linked function for a kind of tile."""
    return f"skml_lut_mma_{bits}_{tiles}_{half_type}"


def source(bits, tiles, half_type):
    """Source of the linked function for a kind of tile.

    Parameters
    ----------
    bits : {1, 2, 3, 4}
        Bits of a code.
    tiles : {1, 2, 4, 8}
        Tiles of eight rows of X.
    half_type : {"float16", "bfloat16"}
        Type of levels and inputs.

    Returns
    -------
    str
        CUDA C++.
    """
    settings = {
        "BITS": bits,
        "TILES": tiles,
        "BFLOAT16": int(half_type == "bfloat16"),
        "NAME": function_name(bits, tiles, half_type),
    }
    lines = [f"#define SKML_{name} {value}" for name, value in settings.items()]
    text = (Path(__file__).parent / "lut_mma.cu").read_text(encoding="utf-8")
    return "\n".join([*lines, text])


def arranged_size(bits, tiles, n_words):
    """Numbers of 16 bits that X takes in the order of the threads."""
    return n_words // 4 * steps_of(bits) * tiles * WARP * 4


@cache
def arrange_inputs(bits, tiles):
    """Kernel ``(x, arranged, n)`` that puts X in the order in which the threads take it.

    ``x`` (B, n) and ``arranged``, flat, are seen as uint16. Each thread writes the four slots of
    one lane; the grid is ceil(arranged.size / 4 / ARRANGE_THREADS).
    """
    per_word, n_steps = 32 // bits, steps_of(bits)
    order = np.array(code_order(bits), dtype=np.int32)

    @cuda.jit
    def kernel(x, arranged, n):
        codes = cuda.const.array_like(order)
        item = cuda.blockIdx.x * ARRANGE_THREADS + cuda.threadIdx.x
        if 4 * item >= arranged.size:
            return
        lane, rest = item % WARP, item // WARP
        tile, rest = rest % tiles, rest // tiles
        step, rest = rest % n_steps, rest // n_steps
        column = 8 * tile + lane // 4
        word, block = 4 * (lane % 4) + rest % 4, rest // 4
        for slot in range(4):
            code = codes[4 * step + slot]
            k = 16 * (block * per_word + code) + word
            value = np.uint16(0)
            if code >= 0 and k < n and column < x.shape[0]:
                value = x[column, k]
            arranged[4 * item + slot] = value

    return kernel


@cache
def tensor_core(bits, tiles, half_type, k_parts, out_type):
    """Kernel for tables of 16 bits.

    Parameters
    ----------
    bits, tiles, half_type
        See :func:`source`.
    k_parts : {1, 2, 4, 8}
        Warps that share the inputs of 32 rows of the weight among them; the others of the eight
        take further rows.
    out_type : {"float32", "float16", "bfloat16"}
        Type of the result; bfloat16 is written as uint16.

    Returns
    -------
    kernel
        Called on blocks of eight warps as ``kernel(words, halves, arranged, bias, out, n_words,
        split_blocks)`` with ``halves`` (m, 2**bits) and ``arranged`` of uint16 and ``out``
        (splits, B, m). The grid is (m / rows of a block, splits).
    """
    multiply = _linked_function(bits, tiles, half_type)
    rows, columns = WARP_ROWS * WARPS // k_parts, 8 * tiles
    tile_floats = WARPS // k_parts * columns * TILE_STRIDE
    write = writer(out_type)
    # Two blocks on a processor where the sums leave room for it. A linked function does not know
    # its caller and would take whatever there is.
    options = {"max_registers": 128} if tiles <= 2 and not SIMULATED else {}

    @cuda.jit(**options)
    def kernel(words, halves, arranged, bias, out, n_words, split_blocks):
        tile = cuda.shared.array(tile_floats, types.float32)
        m, row0 = out.shape[2], cuda.blockIdx.x * rows
        block0 = cuda.blockIdx.y * split_blocks
        block1 = min(n_words // 16, block0 + split_blocks)
        multiply(
            address_of(words), address_of(halves), address_of(arranged), address_of(tile),
            m, n_words, row0, block0, block1, k_parts,
        )  # fmt: skip
        for e in range(cuda.threadIdx.x, rows * columns, THREADS):
            row, column = e % rows, e // rows
            if row0 + row < m and column < out.shape[1]:
                group = row // WARP_ROWS
                total = tile[(group * columns + column) * TILE_STRIDE + row % WARP_ROWS]
                if bias.size:
                    total += bias[row0 + row]
                write(out, cuda.blockIdx.y, column, row0 + row, total)

    return kernel


@cache
def _linked_function(bits, tiles, half_type):
    if SIMULATED:
        return _simulated_function(bits, tiles, half_type)
    address, number = types.uint64, types.int32
    signature = number(address, address, address, address, *6 * [number])
    code = cuda.CUSource(source(bits, tiles, half_type), name="lut_mma.cu")
    name = function_name(bits, tiles, half_type)
    return cuda.declare_device(name, signature, link=code, abi="c")


def _simulated_function(bits, tiles, half_type):
    """What the linked function computes, by one thread for its block."""
    order, mask = code_order(bits), 2**bits - 1

    def floats(array):
        if half_type == "float16":
            return array.view(np.float16).astype(np.float32)
        return (array.astype(np.uint32) << 16).view(np.float32)

    def multiply(words, table, arranged, tile, m, n_words, row0, block0, block1, k_parts):
        if cuda.threadIdx.x == 0:
            words, table, arranged = (np.array(part[:]) for part in (words, table, arranged))
            x = floats(arranged).reshape(-1, 4, steps_of(bits), tiles, 8, 4, 4)
            for r in range(WARP_ROWS * WARPS // k_parts):
                row = min(row0 + r, m - 1)
                levels = floats(table[row])
                held = words[row * n_words : (row + 1) * n_words].reshape(-1, 16)
                for c in range(8 * tiles):
                    total = np.float32(0)
                    for block in range(block0, block1):
                        for word in range(16):
                            slots = x[block, word % 4, :, c // 8, c % 8, word // 4].reshape(-1)
                            codes = [
                                (int(held[block, word]) >> bits * max(code, 0)) & mask
                                for code in order
                            ]
                            total += levels[codes] @ slots
                    group = r // WARP_ROWS
                    tile[(group * 8 * tiles + c) * TILE_STRIDE + r % WARP_ROWS] = total
        cuda.syncthreads()
        return 0

    return cuda.jit(multiply, device=True)
