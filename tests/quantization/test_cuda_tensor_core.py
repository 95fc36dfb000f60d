"""The linked tensor-core function: run on the host, compiled for devices, linked to its kernel.

No device is needed. ``lut_mma.cu`` is C as well as C++, so gcc compiles it with the instructions
emulated (``cuda_on_host.h``), and it multiplies; and the machine code for a device is made and
linked by the same tools that a device's driver would use.
"""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numba import cuda
from numba.cuda import types

from skml.quantization import pack_codes, unpack_codes
from skml.quantization.kernels import _cuda
from skml.quantization.kernels._cuda._tensor_core import (
    TILE_STRIDE,
    WARP_ROWS,
    WARPS,
    arrange_inputs,
    arranged_size,
    code_order,
    function_name,
    source,
    steps_of,
    tensor_core,
)
from tests.quantization._cuda_compiled import (
    FLOAT,
    INT,
    WORD,
    array,
    assemble,
    compiled,
    nvrtc,
    tool,
)

HERE = Path(__file__).parent
KINDS = [
    (bits, tiles, half_type)
    for bits, tiles, half_type in [
        (1, 1, "float16"), (2, 2, "bfloat16"), (3, 1, "float16"), (3, 4, "bfloat16"),
        (4, 1, "float16"), (4, 2, "bfloat16"), (4, 8, "float16"),
    ]
]  # fmt: skip


def to_bits(array, half_type):
    if half_type == "float16":
        return array.astype(np.float16).view(np.uint16)
    return (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def to_floats(bits, half_type):
    if half_type == "float16":
        return bits.view(np.float16).astype(np.float64)
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def arrange(x, bits, tiles, n_words):
    """X in the order of the threads, by its definition."""
    n_blocks, per_word, order = n_words // 16, 32 // bits, code_order(bits)
    arranged = np.zeros((n_blocks, 4, steps_of(bits), tiles, 8, 4, 4), dtype=np.uint16)
    for index in np.ndindex(arranged.shape):
        block, i, step, tile, column, thread, slot = index
        code, c = order[4 * step + slot], 8 * tile + column
        k = 16 * (block * per_word + code) + 4 * thread + i
        if code >= 0 and c < x.shape[0] and k < x.shape[1]:
            arranged[index] = x[c, k]
    assert arranged.size == arranged_size(bits, tiles, n_words)
    return arranged


def aligned(array):
    """A copy that starts on a line of the cache, as memory on a device does."""
    room = np.empty(array.nbytes + 64, dtype=np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def on_host(folder, bits, tiles, half_type):
    """The function for one kind of tile as a library of the host."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc")
    library = folder / "lut_mma.so"
    settings = {"BITS": bits, "TILES": tiles, "BFLOAT16": int(half_type == "bfloat16")}
    command = [
        compiler, "-std=gnu11", "-O1", "-Wall", "-Wno-unknown-pragmas", "-Werror", "-shared",
        "-fPIC", "-I", HERE, "-I", Path(_cuda.__file__).parent,
        *(f"-DSKML_{name}={value}" for name, value in settings.items()),
        HERE / "lut_mma_host.c", "-o", library,
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


@pytest.mark.parametrize(("bits", "tiles", "half_type"), KINDS)
def test_oracle_10_the_linked_function_multiplies(tmp_path, bits, tiles, half_type):
    """On the host, for rows and inputs that fill no tile, with warps that share in every way."""
    library, rng = on_host(tmp_path, bits, tiles, half_type), np.random.default_rng(bits)
    m, n, n_samples = 45, 300, max(1, 8 * tiles - 3)
    codes = rng.integers(0, 2**bits, (m, n))
    words = pack_codes(codes, bits)
    table = aligned(to_bits(rng.normal(size=(m, 2**bits)), half_type))
    X = to_bits(rng.normal(size=(n_samples, n)), half_type)
    arranged = aligned(arrange(X, bits, tiles, words.shape[1]))
    dense = np.take_along_axis(to_floats(table, half_type), codes, axis=1)
    expected = dense @ to_floats(X, half_type).T
    results = {}
    for k_parts in (8, 4, 1):
        groups = WARPS // k_parts
        got = np.empty((0, 8 * tiles))
        for row0 in range(0, m, WARP_ROWS * groups):
            tile = np.full((groups, 8 * tiles, TILE_STRIDE), np.nan, dtype=np.float32)
            pointers = [ctypes.c_void_p(a.ctypes.data) for a in (words, table, arranged, tile)]
            library.run_tile(
                *pointers, m, words.shape[1], row0, 0, words.shape[1] // 16, k_parts, WARPS
            )
            rows = tile[:, :, :WARP_ROWS].transpose(0, 2, 1).reshape(-1, 8 * tiles)
            got = np.vstack([got, rows])
        # Rows beyond the last repeat it; columns beyond the last are zero.
        np.testing.assert_array_equal(got[m:], np.broadcast_to(got[m - 1], got[m:].shape))
        assert not got[:, n_samples:].any()
        results[k_parts] = got[:m, :n_samples]
        error = np.abs(results[k_parts] - expected).max() / np.abs(expected).max()
        assert error < 1e-6, k_parts


def test_a_part_of_the_inputs_is_a_part_of_the_sum(tmp_path):
    library, rng = on_host(tmp_path, 4, 1, "float16"), np.random.default_rng(0)
    words = pack_codes(rng.integers(0, 16, (32, 1280)), 4)
    table = aligned(to_bits(rng.normal(size=(32, 16)), "float16"))
    X = to_bits(rng.normal(size=(8, 1280)), "float16")
    arranged = aligned(arrange(X, 4, 1, words.shape[1]))

    def part(block0, block1):
        tile = np.full((1, 8, TILE_STRIDE), np.nan, dtype=np.float32)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (words, table, arranged, tile)]
        library.run_tile(*pointers, 32, words.shape[1], 0, block0, block1, 8, WARPS)
        return tile[0, :, :WARP_ROWS]

    whole = part(0, 10)
    np.testing.assert_allclose(part(0, 3) + part(3, 10), whole, rtol=1e-5, atol=1e-4)
    assert not part(4, 4).any()


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_every_code_of_a_word_has_one_slot(bits):
    used = [code for code in code_order(bits) if code >= 0]
    assert sorted(used) == list(range(32 // bits))
    assert len(code_order(bits)) == 4 * steps_of(bits)


def test_the_order_of_inputs_is_the_one_that_kernels_are_given():
    """Two columns of X, spelled out: thread 1 of four decodes words 4 to 7."""
    X = np.arange(2 * 128, dtype=np.uint16).reshape(2, 128)
    arranged = arrange(X, 4, 1, 16)
    # Block 0, word 4 + 2 of thread 1, second step: codes 4 to 7 of word 6.
    assert arranged[0, 2, 1, 0, 0, 1].tolist() == [16 * code + 6 for code in (4, 5, 6, 7)]
    assert arranged[0, 2, 1, 0, 1, 1].tolist() == [128 + 16 * code + 6 for code in (4, 5, 6, 7)]
    assert unpack_codes(pack_codes(X[:1] % 16, 4), 4, 128)[0, 6] == 6


@pytest.mark.parametrize("architecture", ["sm_89", "sm_90"])
@pytest.mark.parametrize(("bits", "tiles", "half_type"), [KINDS[3], KINDS[4], KINDS[6]])
def test_oracle_10_nvrtc_makes_machine_code(architecture, bits, tiles, half_type):
    cubin = nvrtc(source(bits, tiles, half_type), f"--gpu-architecture={architecture}", "-rdc=true")
    assert cubin[:4] == b"\x7fELF"
    assert function_name(bits, tiles, half_type).encode() in cubin


# Bytes are picked 8 times for four codes of 4 bits, 4 times for four of 3 bits, once for two of
# fewer; and for each row's table on the way in.
PICKS = {4: (8 * 2, 8), 3: (4 * 3, 4), 2: (8, 2), 1: (16, 1)}


@pytest.mark.parametrize("architecture", [(8, 0), (8, 6), (8, 9), (9, 0)])
@pytest.mark.parametrize(("bits", "tiles", "half_type"), [KINDS[1], KINDS[2], KINDS[6]])
def test_oracle_10_levels_stay_in_registers(tmp_path, architecture, bits, tiles, half_type):
    """As part of a kernel, the function spills nothing and decodes without memory."""
    number = "".join(map(str, architecture))
    inlined = source(bits, tiles, half_type).replace(
        '#define ENTRY extern "C" __device__', "#define ENTRY static __device__ __forceinline__"
    )
    caller = (
        'extern "C" __global__ void caller(unsigned long long a, unsigned long long b, unsigned '
        "long long c, float *out, int m, int n, int r, int b0, int b1, int k) { extern __shared__ "
        f"float t[]; {function_name(bits, tiles, half_type)}(a, b, c, (unsigned long long)t, m, n, "
        "r, b0, b1, k); out[threadIdx.x] = t[threadIdx.x]; }"
    )
    ptx = nvrtc(inlined + caller, f"--gpu-architecture=compute_{number}")
    per_word, per_table = PICKS[bits]
    # Four rows of a thread, four words of a block.
    assert len(re.findall(r"\bprmt\.b32", ptx)) == 4 * 4 * per_word + 4 * per_table
    kind = {"float16": "f32.f16.f16.f32", "bfloat16": "f32.bf16.bf16.f32"}[half_type]
    n_products = len(re.findall(rf"mma\.sync\.aligned\.m16n8k16\.row\.col\.{kind}", ptx))
    assert n_products == 4 * steps_of(bits) * 2 * tiles
    assert "ld.local" not in ptx
    path = tmp_path / "caller.ptx"
    path.write_text(ptx)
    registers, spilled, stack, _ = assemble(path, architecture)
    assert spilled == stack == 0
    assert registers <= (128 if tiles <= 2 else 255)


@pytest.mark.parametrize(
    ("bits", "tiles", "half_type", "out_type"),
    [(4, 1, "float16", "float16"), (3, 4, "bfloat16", "bfloat16"), (4, 8, "float16", "float32")],
)
def test_oracle_10_kernel_and_function_link(tmp_path, bits, tiles, half_type, out_type):
    """The kernel of numba and the function of NVRTC agree on name and arguments."""
    stored = {"float32": FLOAT, "float16": types.float16, "bfloat16": types.uint16}[out_type]
    signature = (
        array(WORD, 1), array(types.uint16, 2), array(types.uint16, 1), array(FLOAT, 1),
        array(stored, 3), INT, INT,
    )  # fmt: skip
    kernel = tensor_core(bits, tiles, half_type, 4, out_type)
    ptx, _ = cuda.compile_ptx(kernel.py_func, signature, cc=(8, 9))
    name = function_name(bits, tiles, half_type)
    assert len(re.findall(rf"\.extern \.func .*{name}", ptx)) == 1
    (tmp_path / "kernel.ptx").write_text(ptx)
    (tmp_path / "function.cubin").write_bytes(
        nvrtc(source(bits, tiles, half_type), "--gpu-architecture=sm_89", "-rdc=true")
    )
    target = tmp_path / "linked.cubin"
    for command in (
        [tool("ptxas"), "-c", "-arch=sm_89", "kernel.ptx", "-o", "kernel.cubin"],
        [tool("nvlink"), "-arch=sm_89", "kernel.cubin", "function.cubin", "-o", target],
    ):
        finished = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert finished.returncode == 0, finished.stderr
    assert target.stat().st_size > 0


def test_oracle_10_arranging_inputs(tmp_path):
    signature = array(types.uint16, 2), array(types.uint16, 1), INT
    result = compiled(arrange_inputs(4, 2), signature, (8, 0), tmp_path)
    assert result.spilled == result.stack == 0
    assert result.count("st.global.u16") == 4
