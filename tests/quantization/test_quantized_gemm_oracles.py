"""Facts that the packed layout and the matrix products must satisfy."""

import itertools

import numpy as np
import pytest

from skml.quantization import (
    LUTLinear,
    LUTWeight,
    UniformWeight,
    grouped_matmul,
    int8_matmul,
    kernel_info,
    lut_matmul,
    pack_codes,
    uniform_matmul,
    unpack_codes,
)
from tests.quantization._kernel_cases import (
    BACKENDS,
    COMPILED,
    WIDTHS,
    exact,
    inputs,
    lut_weight,
    relative_error,
    uniform_weight,
)

SHAPES = [(1, 1), (3, 15), (5, 127), (66, 129), (7, 1000), (130, 64)]
BATCHES = [0, 1, 3, 5, 17, 33]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bits", WIDTHS)
def test_oracle_01_backends_equal_the_dense_product(bits, backend):
    for number, (m, n) in enumerate(SHAPES):
        for n_samples in BATCHES:
            for kind in ("gaussian", "relu", "shifted"):
                X = inputs(n_samples, n, kind, seed=number)
                bias = np.linspace(-1, 1, m, dtype=np.float32)
                group = (None, 32, 64, 128)[(number + n_samples) % 4]
                for weight, matmul in (
                    (lut_weight(m, n, bits, outliers=0.02), lut_matmul),
                    (uniform_weight(m, n, bits, group), uniform_matmul),
                ):
                    Y = matmul(X, weight, bias, backend=backend)
                    assert Y.shape == (n_samples, m)
                    assert Y.dtype == np.float32
                    assert relative_error(Y, exact(X, weight, bias)) < 1e-5


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_oracle_01_uniform_codes_lose_no_digits_on_long_shifted_rows(bits, backend):
    """Summing q x and z x apart costs two digits here: 2e-5 and more."""
    weight = uniform_weight(4, 4096, bits)
    for kind in ("gaussian", "relu", "shifted"):
        X = inputs(3, 4096, kind)
        Y = uniform_matmul(X, weight, backend=backend)
        assert relative_error(Y, exact(X, weight)) < 3e-6


@pytest.mark.parametrize("bits", WIDTHS)
def test_oracle_02_unpack_inverts_pack(bits):
    rng = np.random.default_rng(bits)
    per_word = 32 // bits
    for n in (1, 15, 16, 127, 128, 129, 160, 161, 1000):
        codes = rng.integers(0, 2**bits, (3, n))
        words = pack_codes(codes, bits)
        assert words[0].nbytes == -(-n // (16 * per_word)) * 64
        np.testing.assert_array_equal(unpack_codes(words, bits, n), codes)


def test_oracle_02_layout_of_one_block():
    words = pack_codes(np.arange(128)[np.newaxis] % 16, bits=4)
    # Word l holds the inputs l, 16 + l, ... whose codes are all l.
    np.testing.assert_array_equal(words[0], np.arange(16) * 0x11111111)
    three = np.zeros((1, 160), dtype=int)
    three[0, [5, 16 + 5, 144 + 5]] = 7, 3, 5
    words = pack_codes(three, bits=3)
    assert words[0, 5] == 7 | 3 << 3 | 5 << 27
    assert np.delete(words[0], 5).max() == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bits", WIDTHS)
def test_oracle_03_one_hot_returns_the_column_bit_for_bit(bits, backend):
    n = 150
    bias = np.linspace(1, 2, 9, dtype=np.float32)
    for weight, matmul in (
        (lut_weight(9, n, bits), lut_matmul),
        (uniform_weight(9, n, bits), uniform_matmul),
        (uniform_weight(9, n, bits, group_size=32), uniform_matmul),
    ):
        dense = weight.dequantize()
        for n_samples in (1, 2, 4, 7, 40):
            picked = np.random.default_rng(n_samples).integers(0, n, n_samples)
            X = np.eye(n, dtype=np.float32)[picked]
            np.testing.assert_array_equal(matmul(X, weight, backend=backend), dense[:, picked].T)
            zeros = matmul(np.zeros_like(X), weight, bias, backend=backend)
            np.testing.assert_array_equal(zeros, np.tile(bias, (n_samples, 1)))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bits", WIDTHS)
def test_oracle_04_uniform_grid_as_table_and_permuted_codebook(bits, backend):
    uniform = uniform_weight(10, 300, bits)
    codes = uniform.unpack()
    grid = uniform.scale * (np.arange(2**bits, dtype=np.float32) - uniform.zero)
    lut = LUTWeight.from_codes(codes, grid)
    for n_samples in (1, 4, 40):
        X = inputs(n_samples, 300)
        expected = uniform_matmul(X, uniform, backend=backend)
        Y = lut_matmul(X, lut, backend=backend)
        assert relative_error(Y, expected) < 1e-6
        order = np.random.default_rng(0).permutation(2**bits)
        # Entry e moves to order[e], and so do the codes that point at it.
        moved = LUTWeight.from_codes(order[codes], grid[:, np.argsort(order)])
        np.testing.assert_array_equal(lut_matmul(X, moved, backend=backend), Y)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n_samples", [1, 3, 8, 16, 40])
def test_oracle_05_linear_and_independent_of_rows_and_threads(n_samples, backend):
    m, n = 150, 333
    weight = lut_weight(m, n, 3, outliers=0.01)
    X, Z = inputs(n_samples, n), inputs(n_samples, n, seed=5)
    Y = lut_matmul(X, weight, backend=backend)
    combined = lut_matmul(2 * X - 3 * Z, weight, backend=backend)
    expected = 2 * Y - 3 * lut_matmul(Z, weight, backend=backend)
    assert relative_error(combined, expected) < 3e-6
    for threads in (1, 2, 5):
        again = lut_matmul(X, weight, n_threads=threads, backend=backend)
        np.testing.assert_array_equal(again, Y)
    for first, last in ((0, 1), (3, 70), (64, 150)):
        part = LUTWeight.from_codes(
            weight.unpack()[first:last],
            weight.codebook[first:last],
            outliers=weight.outliers[first:last],
        )
        some = lut_matmul(X, part, backend=backend)
        if backend != "numpy" and n_samples <= 4:
            np.testing.assert_array_equal(some, Y[:, first:last])
        assert relative_error(some, Y[:, first:last]) < 3e-6


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bits", WIDTHS)
def test_oracle_06_nan_behind_the_last_input_never_reaches_the_result(bits, backend):
    for n in (1, 15, 100, 129):
        for n_samples in (1, 2, 5, 40):
            wide = np.full((n_samples + 1, n + 200), np.nan, dtype=np.float32)
            wide[:n_samples, :n] = inputs(n_samples, n)
            X = wide[:n_samples, :n]
            assert not X.flags.c_contiguous or n_samples == 1
            for weight, matmul in (
                (lut_weight(6, n, bits, outliers=0.1), lut_matmul),
                (uniform_weight(6, n, bits, group_size=64), uniform_matmul),
            ):
                out = np.full((n_samples, 6), np.nan, dtype=np.float32)
                matmul(X, weight, out=out, backend=backend)
                assert relative_error(out, exact(X, weight)) < 1e-5


@pytest.mark.parametrize("bits", WIDTHS)
def test_oracle_07_backends_agree(bits):
    for weight, matmul in (
        (lut_weight(70, 777, bits), lut_matmul),
        (uniform_weight(70, 777, bits, group_size=32), uniform_matmul),
        (uniform_weight(70, 777, bits), uniform_matmul),
    ):
        for n_samples in (1, 6, 16, 40):
            X = inputs(n_samples, 777)
            expected = matmul(X, weight, backend="scalar")
            for backend in BACKENDS:
                assert relative_error(matmul(X, weight, backend=backend), expected) < 3e-6


def test_oracle_07_unsupported_backend_raises(monkeypatch):
    weight = lut_weight(2, 20, 4)
    X = inputs(1, 20)
    with pytest.raises(ValueError, match="backend must be one of auto, avx512.*got 'sse'"):
        lut_matmul(X, weight, backend="sse")
    if kernel_info()["cuda"] is None:
        with pytest.raises(RuntimeError, match="backend='cuda' needs CUDA"):
            lut_matmul(X, weight, backend="cuda")
    monkeypatch.setattr("skml.quantization._gemm.supported", lambda name: name == "scalar")
    with pytest.raises(RuntimeError, match=r"needs a processor with AVX512.*it runs scalar"):
        lut_matmul(X, weight, backend="avx512")
    assert COMPILED[-1] == "scalar"


def test_oracle_07_half_precision_codebook_is_used_as_rounded():
    """A float16 codebook is exact in float32; a float32 one is never rounded by itself."""
    full = lut_weight(8, 200, 4)
    half = LUTWeight.from_codes(full.unpack(), full.codebook.astype(np.float16))
    X = np.eye(200, dtype=np.float32)[:3]
    for backend in BACKENDS:
        Y = lut_matmul(X, half, backend=backend)
        np.testing.assert_array_equal(Y, half.dequantize().astype(np.float32).T[:3])
        Y = lut_matmul(X, full, backend=backend)
        np.testing.assert_array_equal(Y, full.dequantize().T[:3])
    assert isinstance(uniform_weight(1, 1, 1), UniformWeight)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bits", WIDTHS)
def test_oracle_08_int8_equals_exact_integer_arithmetic(bits, backend):
    """Bit for bit where scales are powers of two and zeros whole: nothing is ever rounded."""
    rng = np.random.default_rng(bits)
    for act_bits, act_group, group, n, n_samples in itertools.product(
        (8, 4), (-1, 128, 48), (None, 32, 128, 100), (1, 130, 700), (1, 3, 6)
    ):
        m, largest = 6, 2 ** (act_bits - 1) - 1
        n_groups = 1 if group is None else -(-n // group)
        codes = rng.integers(0, 2**bits, (m, n))
        scale = 2.0 ** rng.integers(-2, 3, (m, n_groups))
        zero = rng.integers(-3, 2**bits + 3, (m, n_groups))
        weight = UniformWeight.from_codes(
            codes, bits, scale.astype(np.float32), zero.astype(np.float32), group_size=group
        )
        X = rng.integers(-largest, largest + 1, (n_samples, n))
        X[:, ::16] = largest  # every group has it, so all scales are 1
        spread = np.arange(n) // (group or n)
        expected = X @ (scale[:, spread] * (codes - zero[:, spread])).T
        settings = {"act_bits": act_bits, "act_group": act_group, "backend": backend}
        X = X.astype(np.float32)
        np.testing.assert_array_equal(int8_matmul(X, weight, **settings), expected)
        np.testing.assert_array_equal(int8_matmul(X / 4, weight, **settings), expected / 4)


@pytest.mark.parametrize("backend", COMPILED)
@pytest.mark.parametrize("bits", WIDTHS)
def test_oracle_08_int8_equals_integer_sums_then_scaled(bits, backend):
    """Any scales and real zeros, against int64 sums in numpy."""
    for act_bits, act_group, group, n in itertools.product(
        (8, 4), (-1, 128), (None, 32, 128, 75), (33, 5000)
    ):
        weight = uniform_weight(7, n, bits, group, outliers=0.02)
        for kind in ("gaussian", "shifted"):
            X = inputs(5, n, kind)
            settings = {"act_bits": act_bits, "act_group": act_group}
            Y = int8_matmul(X, weight, backend=backend, **settings)
            expected = int8_matmul(X, weight, backend="numpy", **settings)
            assert relative_error(Y, expected) < 2e-6


@pytest.mark.parametrize("backend", BACKENDS)
def test_oracle_09_grouped_equals_the_loop_over_problems(backend):
    m, n = 70, 300
    weights = [
        lut_weight(m, n, 4, outliers=0.01),
        uniform_weight(m, n, 2, 32, seed=1),
        uniform_weight(m, n, 8, seed=2, act_bits=8),
        lut_weight(m, n, 3, seed=3),
        uniform_weight(m, n, 4, 128, seed=4, act_bits=4, act_group=128, outliers=0.01),
        uniform_weight(m, n, 5, 50, seed=5),
        lut_weight(m, n, 8, seed=6),
    ]
    counts = [3, 0, 17, 1, 40, 0, 5]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    X = inputs(offsets[-1], n)
    Y = grouped_matmul(X, weights, offsets, backend=backend)
    for weight, first, last in zip(weights, offsets[:-1], offsets[1:], strict=True):
        part = X[first:last]
        if isinstance(weight, LUTWeight):
            expected = lut_matmul(part, weight, backend=backend)
        elif weight.act_bits is None:
            expected = uniform_matmul(part, weight, backend=backend)
        else:
            settings = {"act_bits": weight.act_bits, "act_group": weight.act_group}
            expected = int8_matmul(part, weight, backend=backend, **settings)
        assert relative_error(Y[first:last], expected) < 3e-6
    for threads in (1, 2, 3, 2):
        again = grouped_matmul(X, weights, offsets, n_threads=threads, backend=backend)
        np.testing.assert_array_equal(again, Y)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("threads", [1, 2])
def test_oracle_11_gradients(bits, threads):
    """Against autograd through the gathered dense weight, in float64."""
    torch = pytest.importorskip("torch")
    for m, n, n_samples in ((5, 40, 3), (70, 1100, 9), (1, 1, 1)):
        weight = lut_weight(m, n, bits, outliers=0.02)
        layer = LUTLinear.from_weight(weight, np.ones(m), n_threads=threads)
        X = torch.from_numpy(inputs(n_samples, n)).requires_grad_()
        d_output = torch.from_numpy(inputs(n_samples, m, seed=3))
        layer(X).backward(d_output)

        codebook = torch.from_numpy(weight.codebook.astype(np.float64)).requires_grad_()
        dense_X = X.detach().double().requires_grad_()
        W = codebook.gather(1, torch.from_numpy(weight.unpack().astype(np.int64)))
        W = W + torch.from_numpy(0.0 if weight.outliers is None else weight.outliers.toarray())
        (dense_X @ W.T).backward(d_output.double())
        assert relative_error(X.grad.numpy(), dense_X.grad.numpy()) < 3e-6
        assert relative_error(layer.codebook.grad.numpy(), codebook.grad.numpy()) < 3e-6
        np.testing.assert_allclose(layer.bias.grad, d_output.sum(0), rtol=1e-6)
