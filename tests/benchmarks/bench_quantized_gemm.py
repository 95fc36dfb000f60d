"""Products with packed weights beside dense ones, and beside the 4-bit kernel of torch.

Weights are multiplied in turn from several buffers where one alone would stay in a cache; the
peers get as many. The physical limit of a row is the time in which one core copies as many bytes as
the product must move.
"""

import itertools

import numpy as np
import pytest
import torch
from _timing import compare, memory_rate

from skml.quantization import (
    LUTWeight,
    UniformWeight,
    grouped_matmul,
    int8_matmul,
    kernel_info,
    lut_matmul,
)

PACKAGES = ("torch",)
pytestmark = pytest.mark.usefixtures("one_torch_thread")

AVAILABLE = kernel_info()["available"]
needs_avx2 = pytest.mark.skipif("avx2" not in AVAILABLE, reason="speed is promised from AVX2 on")
needs_avx512 = pytest.mark.skipif("avx512" not in AVAILABLE, reason="needs AVX-512")
# One 4-bit matrix of 4096 x 4096 is 8 MiB: with this many, no level of the cache holds them.
ROTATED = 4


@pytest.fixture(scope="module")
def rate():
    return memory_rate()


@pytest.fixture(scope="module")
def dense():
    """float32 weights by size, made once."""
    known = {}

    def get(n, number=0):
        if (n, number) not in known:
            rng = np.random.default_rng(number)
            known[n, number] = rng.standard_normal((n, n), dtype=np.float32)
        return known[n, number]

    return get


def lut_weight(n, bits, number=0):
    rng = np.random.default_rng(number)
    codes = rng.integers(0, 2**bits, (n, n), dtype=np.uint8)
    codebook = rng.normal(size=(n, 2**bits)).astype(np.float32)
    return LUTWeight.from_codes(codes, codebook)


def inputs(n_samples, n):
    return np.random.default_rng(9).standard_normal((n_samples, n), dtype=np.float32)


def ours(X, weights, backend="auto", threads=1):
    turn = itertools.cycle(weights)
    return lambda: lut_matmul(X, next(turn), n_threads=threads, backend=backend)


def float32_peers(X, matrices):
    tensor = torch.from_numpy(X)
    turns = itertools.cycle(matrices), itertools.cycle([torch.from_numpy(W) for W in matrices])
    return {
        "numpy float32": lambda: X @ next(turns[0]).T,
        "torch float32": lambda: torch.nn.functional.linear(tensor, next(turns[1])),
    }


def often(function, calls):
    """Several calls as one: the collection of garbage before each timing leaves the caches and the
    threads cold, which the first calls of half a millisecond would mostly measure.
    """

    def run():
        for _ in range(calls):
            function()

    return run


def bytes_moved(weight, n_samples):
    m, n = weight.shape
    return weight.nbytes + 4 * n_samples * (m + n)


def run(benchmark, record, rate, dense, n, n_samples, bits, goal, backend="auto"):
    X, weight = inputs(n_samples, n), lut_weight(n, bits)
    row = compare(
        benchmark,
        f"{bits}-bit table, {backend}, n = {n}, B = {n_samples}",
        ours(X, [weight], backend),
        None,
        float32_peers(X, [dense(n)]),
        goal=goal,
        rounds=15,
        limit_s=bytes_moved(weight, n_samples) / rate,
    )
    record.add(row)


@needs_avx512
@pytest.mark.parametrize(
    ("n", "n_samples", "goal"),
    [(4096, 1, 3.5), (4096, 4, 2), (4096, 8, 2), (4096, 16, 2), (4096, 32, 1), (4096, 64, None),
     (8192, 1, 5), (8192, 4, 2), (8192, 16, 2), (8192, 32, 1)],
)  # fmt: skip
def test_four_bits(benchmark, record, rate, dense, n, n_samples, goal):
    run(benchmark, record, rate, dense, n, n_samples, 4, goal)


@needs_avx2
@pytest.mark.parametrize(
    ("n", "n_samples", "goal"), [(4096, 1, 1.5), (8192, 1, 2), (4096, 4, None)]
)
def test_four_bits_avx2(benchmark, record, rate, dense, n, n_samples, goal):
    run(benchmark, record, rate, dense, n, n_samples, 4, goal, backend="avx2")


@needs_avx512
@pytest.mark.parametrize(("n", "goal"), [(4096, 0.95), (8192, 1)])
@pytest.mark.parametrize("bits", [3, 2])
def test_fewer_bits_than_four(benchmark, record, rate, n, bits, goal):
    """The peer is our own 4-bit product; at 8192 both rotate over several weights."""
    X, count = inputs(1, n), 1 if n == 4096 else ROTATED
    few = [lut_weight(n, bits, number) for number in range(count)]
    four = [lut_weight(n, 4, number) for number in range(count)]
    row = compare(
        benchmark,
        f"{bits}-bit table beside 4-bit, n = {n}, B = 1, {count} weights in turn",
        ours(X, few),
        "4-bit table",
        ours(X, four),
        goal=goal,
        rounds=20,
        limit_s=bytes_moved(few[0], 1) / rate,
    )
    record.add(row)


@needs_avx512
@pytest.mark.parametrize(("n_samples", "goal"), [(1, 1.5), (4, 1.2), (16, 1.5)])
def test_beside_the_four_bits_of_torch(benchmark, record, n_samples, goal):
    """Its faster path: uniform codes in groups of 128 with bfloat16 inputs."""
    n, group = 4096, 128
    codes = torch.randint(0, 16, (n, n), dtype=torch.int32)
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
    scale_and_zero = torch.rand(n // group, n, 2, dtype=torch.bfloat16)
    X = inputs(n_samples, n)
    half = torch.from_numpy(X).bfloat16()
    row = compare(
        benchmark,
        f"4-bit table, float32, n = {n}, B = {n_samples}, 10 calls",
        often(ours(X, [lut_weight(n, 4)]), 10),
        "torch int4, bfloat16",
        often(
            lambda: torch.ops.aten._weight_int4pack_mm_for_cpu(half, packed, group, scale_and_zero),
            10,
        ),
        goal=goal,
        rounds=30,
    )
    record.add(row)


@needs_avx512
@pytest.mark.parametrize(("n_samples", "goal"), [(1, 1.3), (8, 1.5)])
def test_two_threads(benchmark, record, n_samples, goal):
    X, weight = inputs(n_samples, 4096), lut_weight(4096, 4)
    row = compare(
        benchmark,
        f"4-bit table, two threads, n = 4096, B = {n_samples}, 3 calls",
        often(ours(X, [weight], threads=2), 3),
        "one thread",
        often(ours(X, [weight], threads=1), 3),
        goal=goal,
        rounds=100,
        threads=2,
    )
    record.add(row)


@pytest.mark.parametrize("n_samples", [1, 16])
@pytest.mark.parametrize(("bits", "group"), [(8, None), (4, 128)])
def test_integers(benchmark, record, dense, bits, group, n_samples):
    """Rounded inputs; reported without a goal."""
    n = 4096
    rng = np.random.default_rng(0)
    levels = np.ones((n, 1 if group is None else n // group), dtype=np.float32)
    codes = rng.integers(0, 2**bits, (n, n), dtype=np.uint8)
    weight = UniformWeight.from_codes(codes, bits, levels, 7 * levels, group_size=group)
    X = inputs(n_samples, n)
    row = compare(
        benchmark,
        f"w{bits}a8, groups of {group or n}, n = {n}, B = {n_samples}",
        lambda: int8_matmul(X, weight, n_threads=1),
        None,
        float32_peers(X, [dense(n)]),
        rounds=15,
    )
    record.add(row)


def test_grouped(benchmark, record):
    """16 experts with skewed counts against a loop of dense products; reported without a goal."""
    rng = np.random.default_rng(0)
    experts = []
    for _ in range(16):
        codes = rng.integers(0, 16, (1408, 2048), dtype=np.uint8)
        experts.append(LUTWeight.from_codes(codes, rng.normal(size=(1408, 16)).astype(np.float32)))
    tensors = [torch.from_numpy(weight.dequantize()) for weight in experts]
    counts = rng.multinomial(64, rng.dirichlet(np.ones(16)))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    X = inputs(64, 2048)
    parts = torch.from_numpy(X).split(counts.tolist())

    def loop():
        return [torch.nn.functional.linear(x, W) for x, W in zip(parts, tensors, strict=True)]

    row = compare(
        benchmark,
        "16 experts of 1408 x 2048, 64 rows, 4-bit tables",
        lambda: grouped_matmul(X, experts, offsets, n_threads=1),
        "torch float32, one product per expert",
        loop,
        rounds=15,
    )
    record.add(row)
