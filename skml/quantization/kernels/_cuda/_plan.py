"""Which kernel computes a product, on which grid."""

from dataclasses import dataclass

from ._gemv import (
    WARPS,
    rows_per_warp,
    uniform_rows_per_warp,
    widest,
)
from ._tensor_core import TILES, WARP_ROWS
from ._tensor_core import WARPS as TENSOR_WARPS
from ._tiles import LUT, TILE_ROWS

# Rows of X up to which packed codes are multiplied at all; more are worth a dense weight.
KERNEL_ROWS = 64


@dataclass(frozen=True)
class Plan:
    """A launch: rows of X of a tile, grid, and the part of the inputs that a block sums over."""

    columns: int
    grid: tuple
    splits: int
    split_blocks: int
    pairs: str | None = None
    k_parts: int = 1


def plan_gemv(bits, kind, shape, n_samples, n_words, n_processors, pairs="auto"):
    """Launch of a product of a few rows of X.

    Parameters
    ----------
    bits, kind : int
        Format of the weight.
    shape : tuple of (int, int)
        Rows and inputs of the weight.
    n_samples : int
        Rows of X.
    n_words : int
        Words of a row of the weight.
    n_processors : int
        Processors of the device.
    pairs : {"auto", None, "float", "half"}
        Levels in the tables; "auto" takes pairs where they cost no bank conflicts.

    Returns
    -------
    Plan
    """
    most = min(widest(bits), 4 if pairs == "half" else 8)
    columns = next(c for c in (1, 2, 4, 8) if c >= min(n_samples, most))
    if kind == LUT:
        if pairs == "auto":
            pairs = "float" if bits <= 2 else None
        rows = rows_per_warp(bits, columns, pairs)
    else:
        pairs, rows = None, uniform_rows_per_warp(bits, columns)
    return _plan(columns, WARPS * rows, shape[0], n_samples, n_words, n_processors, pairs)


def plan_small_batch(shape, n_samples, n_words, n_processors):
    """Launch of a product on decoded tiles; parameters as in :func:`plan_gemv`."""
    columns = next(c for c in (16, 32, 64) if c >= n_samples or c == 64)
    return _plan(columns, TILE_ROWS, shape[0], n_samples, n_words, n_processors)


def plan_tensor_core(shape, n_samples, n_words, n_processors):
    """Launch of a product on tensor cores; parameters as in :func:`plan_gemv`.

    ``columns`` is the number of tiles of eight rows of X. The eight warps of a block share the
    inputs of 32 rows of the weight. With many rows of X, whose sums fill the registers of a
    processor with one block, they take 64 rows, so that X is read half as often.
    """
    tiles = next(t for t in TILES if 8 * t >= n_samples)
    k_parts = 4 if tiles >= 4 and shape[0] >= WARP_ROWS * n_processors else 8
    rows = WARP_ROWS * TENSOR_WARPS // k_parts
    row_blocks, n_blocks = -(-shape[0] // rows), n_words // 16
    splits = max(1, min(n_processors // row_blocks, n_blocks // k_parts))
    split_blocks = -(-n_blocks // splits)
    splits = -(-n_blocks // split_blocks)
    return Plan(tiles, (row_blocks, splits), splits, split_blocks, k_parts=k_parts)


def _plan(columns, rows, m, n_samples, n_words, n_processors, pairs=None):
    row_blocks, column_blocks = -(-m // rows), -(-n_samples // columns)
    n_blocks = n_words // 16
    # Parts of the inputs are summed in a second launch: that pays if processors have no block.
    wanted = max(1, n_processors // (row_blocks * column_blocks))
    # A step of a warp takes eight blocks of words: no split takes less, nor part of a step.
    split_blocks = -(-n_blocks // min(wanted, -(-n_blocks // 8)))
    split_blocks = min(n_blocks, -(-split_blocks // 8) * 8)
    splits = -(-n_blocks // split_blocks)
    return Plan(columns, (row_blocks, splits, column_blocks), splits, split_blocks, pairs)
