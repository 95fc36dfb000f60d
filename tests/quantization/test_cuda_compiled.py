"""The CUDA kernels compile for every architecture, to the instructions that they are made of."""

import pytest

from skml.quantization.kernels._cuda import _gemv
from skml.quantization.kernels._cuda._epilogue import add_splits
from skml.quantization.kernels._cuda._gemv import (
    WARPS,
    lut_gemv,
    rows_per_warp,
    uniform_gemv,
    uniform_rows_per_warp,
)
from skml.quantization.kernels._cuda._grouped import grouped
from skml.quantization.kernels._cuda._rounding import round_inputs
from skml.quantization.kernels._cuda._small_batch import small_batch
from skml.quantization.kernels._cuda._tiles import LUT, UNIFORM
from tests.quantization._cuda_compiled import (
    ARCHITECTURES,
    GROUPED,
    LUT_GEMV,
    ROUNDING,
    SMALL_BATCH,
    SPLITS,
    UNIFORM_GEMV,
    compiled,
)

# What two blocks of 256 threads may use of the 65536 registers of a processor.
TWO_BLOCKS = 128
names = "{0[0]}.{0[1]}".format


def check_clean(result):
    """Nothing in slow local memory, and no more shared memory than a kernel has unasked."""
    assert result.spilled == 0
    assert result.stack == 0
    assert result.count("ld.local") == result.count("st.local") == 0
    assert result.shared <= 48 * 1024


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=names)
@pytest.mark.parametrize("columns", [1, 4])
def test_oracle_10_table_lookup_of_four_bits(tmp_path, architecture, columns):
    """Per code of each row: one shared load, one multiply-add per row of X, no conversion."""
    result = compiled(lut_gemv(4, columns), LUT_GEMV, architecture, tmp_path)
    check_clean(result)
    rows = rows_per_warp(4, columns)
    assert result.registers <= TWO_BLOCKS
    # Four words a row and lane, once before the loop and once in it to be ahead.
    assert result.count("ld.global.nc.L1::no_allocate.v4.u32") == 2 * rows
    # In the loop over the codes of a word: inputs sixteen bytes at a time, one level per word.
    assert result.count("ld.shared.v4.f32") == columns
    assert result.count("ld.shared.f32") == 4 * rows
    assert result.count("fma.rn.f32") == 4 * rows * columns
    # A sum of 32 lanes takes five steps; there is one version with a bias and one without.
    assert result.count("shfl.sync.down") == 2 * 5 * rows * columns
    assert result.count("bar.sync") >= 2


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=names)
def test_oracle_10_decoded_tiles(tmp_path, architecture):
    result = compiled(small_batch(4, LUT, 16), SMALL_BATCH, architecture, tmp_path)
    check_clean(result)
    assert result.registers <= TWO_BLOCKS
    # Each thread: 8 rows by 4 columns, of three reads of sixteen bytes.
    assert result.count("ld.shared.v4.f32") == 3
    assert result.count("fma.rn.f32") == 32


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=names)
def test_oracle_10_grouped(tmp_path, architecture):
    """Both branches are there: float tiles, and four products of bytes per instruction."""
    result = compiled(grouped(), GROUPED, architecture, tmp_path)
    check_clean(result)
    assert result.registers <= 2 * TWO_BLOCKS - 1
    # Four rows and the sum of the inputs, as often as the compiler unrolls.
    unrolled, rest = divmod(result.count("dp4a.u32.s32"), 5)
    assert rest == 0
    assert unrolled >= 1
    assert result.count("ld.shared.v4.f32") == 3
    assert result.count("fma.rn.f32") >= 32


@pytest.mark.parametrize(
    ("bits", "pairs"), [(2, "float"), (3, None), (3, "half"), (4, "half"), (8, None)]
)
def test_oracle_10_other_tables(tmp_path, bits, pairs):
    """A table of pairs is read once for two codes, in one load of eight or four bytes."""
    result = compiled(lut_gemv(bits, 1, pairs), LUT_GEMV, (9, 0), tmp_path)
    check_clean(result)
    lookups = 4 * rows_per_warp(bits, 1, pairs)
    load = {None: "ld.shared.f32", "float": "ld.shared.u64", "half": "ld.shared.u32"}[pairs]
    # The compiler may unroll the loop over the codes of a word.
    unrolled, rest = divmod(result.count(load), lookups)
    assert rest == 0
    assert unrolled >= 1
    per_lookup = 1 if pairs is None else 2
    assert result.count("fma.rn.f32") == lookups * per_lookup * unrolled
    assert result.count("ld.shared.v4.f32") == per_lookup * unrolled


@pytest.mark.parametrize("aligned", [True, False])
def test_oracle_10_groups_of_inputs(tmp_path, aligned):
    result = compiled(uniform_gemv(4, 1, aligned), UNIFORM_GEMV, (8, 0), tmp_path)
    check_clean(result)
    rows = uniform_rows_per_warp(4, 1)
    assert result.count("fma.rn.f32") >= 4 * rows
    assert result.count("shfl.sync.down") == 2 * 5 * rows


@pytest.mark.parametrize(
    ("kernel", "signature"),
    [
        (small_batch(8, UNIFORM, 64), SMALL_BATCH),
        (small_batch(3, LUT, 32), SMALL_BATCH),
        (lut_gemv(4, 8), LUT_GEMV),
        (round_inputs(), ROUNDING),
        (add_splits(), SPLITS),
    ],
    ids=["uniform tiles", "wide tiles", "eight columns", "rounding", "splits"],
)
def test_oracle_10_further_kernels(tmp_path, kernel, signature):
    check_clean(compiled(kernel, signature, (8, 6), tmp_path))


def pairs_of(bits):
    return (None, "float") if bits <= 2 else (None, "half") if bits <= 4 else (None,)


def test_a_block_fits_in_shared_memory_at_every_width():
    """The plan of shared memory, by the numbers that the kernels allocate."""
    for bits in range(1, 9):
        for columns in [c for c in (1, 2, 4, 8) if c <= _gemv.widest(bits)]:
            for pairs in pairs_of(bits) if columns <= 4 else (None,):
                staged = _gemv.staged_blocks(bits, columns, pairs)
                rows = rows_per_warp(bits, columns, pairs)
                table = (WARPS * rows + 1) * _gemv._table_floats(bits, pairs)
                inputs = columns * staged * _gemv._block_stride(bits) + 4
                assert 4 * (table + inputs) <= 48 * 1024, (bits, columns, pairs)
                assert staged % 8 == 0
