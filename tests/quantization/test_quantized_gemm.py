"""Packed weights and their products as a user meets them: input, files, layers, messages."""

import copy
import dataclasses
import io
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

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
from skml.quantization._packing import from_planes, to_planes
from tests.quantization._kernel_cases import (
    BACKENDS,
    COMPILED,
    WIDTHS,
    exact,
    inputs,
    lut_weight,
    uniform_weight,
)

torch = pytest.importorskip("torch")


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(0, 70), n=st.integers(1, 400), n_samples=st.integers(0, 40),
    bits=st.integers(1, 8), group=st.sampled_from([None, 1, 7, 16, 32, 100, 128, 1000]),
    backend=st.sampled_from(COMPILED), seed=st.integers(0, 99),
)  # fmt: skip
def test_any_shape_equals_the_dense_product(m, n, n_samples, bits, group, backend, seed):
    X = inputs(n_samples, n, seed=seed)
    for weight, matmul in (
        (lut_weight(m, n, bits, seed=seed), lut_matmul),
        (uniform_weight(m, n, bits, group, seed=seed), uniform_matmul),
    ):
        Y = matmul(X, weight, backend=backend)
        assert Y.shape == (n_samples, m)
        assert np.abs(Y - exact(X, weight)).max(initial=0) <= 2e-5 * 2**bits * n**0.5


@pytest.mark.parametrize("backend", BACKENDS)
def test_types_layouts_and_tensors(backend):
    weight, bias = lut_weight(9, 50, 4), np.arange(9)
    X = inputs(6, 50)
    expected = lut_matmul(X, weight, bias, backend=backend)
    double = lut_matmul(X.astype(np.float64), weight, bias, backend=backend)
    assert double.dtype == np.float64
    np.testing.assert_array_equal(double, expected)
    for other in (
        np.asfortranarray(X),
        np.repeat(X, 2, axis=0)[::2],
        np.repeat(X, 2, axis=1)[:, ::2],
        X[::-1][::-1],
        torch.from_numpy(X),
        torch.from_numpy(X).requires_grad_(),
        X.tolist(),
    ):
        Y = lut_matmul(other, weight, bias, backend=backend)
        np.testing.assert_array_equal(Y, expected)
    whole = lut_matmul(np.ones((2, 50), dtype=int), weight, backend=backend)
    assert whole.dtype == np.float32
    before = X.copy()
    out = np.empty((6, 9), dtype=np.float32)
    assert lut_matmul(X, weight, bias, out, backend=backend) is out
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(X, before)
    tensor = torch.zeros(6, 9)
    lut_matmul(torch.from_numpy(X), weight, bias, tensor, backend=backend)
    np.testing.assert_array_equal(tensor.numpy(), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_infinite_inputs_stay_in_their_row(backend):
    weight = uniform_weight(5, 40, 4)
    X = inputs(7, 40)
    X[2, 3], X[5, 0] = np.inf, np.nan
    clean = [0, 1, 3, 4, 6]
    for matmul in (uniform_matmul, int8_matmul):
        with np.errstate(invalid="ignore"):
            Y = matmul(X, weight, backend=backend)
        assert np.isfinite(Y[clean]).all()
        assert not np.isfinite(Y[[2, 5]]).any()


def test_int8_is_close_to_the_float_product():
    """With an outlier, 8 bits lose 6 %, 4 bits nine times as much; groups contain the damage."""
    weight = uniform_weight(60, 1024, 4, 128)
    X = inputs(9, 1024)
    X[:, 0] *= 30  # an outlier spoils the scale of its group
    expected = exact(X, weight)

    def error(**arguments):
        Y = int8_matmul(X, weight, **arguments)
        return np.linalg.norm(Y - expected) / np.linalg.norm(expected)

    assert error() < 0.1
    assert error(act_group=128) < error() / 2
    assert error(act_bits=4, act_group=128) < error(act_bits=4) / 2
    assert error(act_bits=4) > 3 * error()


def test_products_run_in_several_python_threads():
    weight = lut_weight(130, 300, 3)
    X = inputs(5, 300)
    expected = lut_matmul(X, weight)
    with ThreadPoolExecutor(4) as pool:
        for Y in pool.map(lambda _: lut_matmul(X, weight, n_threads=2), range(40)):
            np.testing.assert_array_equal(Y, expected)


@pytest.mark.parametrize("bits", WIDTHS)
def test_planes_hold_every_bit_and_no_more(bits):
    rng = np.random.default_rng(bits)
    for shape in ((1, 1), (3, 5), (7, 128), (0, 4)):
        codes = rng.integers(0, 2**bits, shape, dtype=np.uint8)
        planes = to_planes(codes, bits)
        np.testing.assert_array_equal(from_planes(planes, bits, shape), codes)
    codes = rng.integers(0, 2**bits, (8, 16), dtype=np.uint8)
    assert sum(plane.nbytes for plane in to_planes(codes, bits).values()) == 8 * 16 * bits // 8


def test_three_bits_are_stored_as_a_plane_of_two_and_a_plane_of_one():
    planes = to_planes(np.array([[5, 2, 7, 0, 1, 4, 6, 3]], dtype=np.uint8), 3)
    low = [1, 2, 3, 0, 1, 0, 2, 3]
    assert planes["plane2"].tolist() == [
        sum(code << 2 * i for i, code in enumerate(low[start : start + 4])) for start in (0, 4)
    ]
    assert planes["plane1"].tolist() == [0b01100101]


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("bits", WIDTHS)
def test_files_bring_the_weight_back(tmp_path, bits, suffix):
    for weight in (
        lut_weight(6, 77, bits, outliers=0.05),
        LUTWeight.from_codes(
            lut_weight(6, 77, bits).unpack(), lut_weight(6, 77, bits).codebook.astype(np.float16)
        ),
        uniform_weight(6, 77, bits, 32, act_bits=8, act_group=64),
    ):
        path = tmp_path / f"weight{suffix}"
        weight.save(path)
        assert_same_weight(type(weight).load(path), weight)
        other = UniformWeight if isinstance(weight, LUTWeight) else LUTWeight
        with pytest.raises(ValueError, match=f"does not hold a {other.__name__}"):
            other.load(path)


def test_files_have_a_known_suffix(tmp_path):
    with pytest.raises(ValueError, match=r"path must end in \.npz or \.safetensors"):
        lut_weight(2, 3, 2).save(tmp_path / "weight.pt")
    np.savez(tmp_path / "foreign.npz", codes=np.arange(3))
    with pytest.raises(ValueError, match="was not written by"):
        LUTWeight.load(tmp_path / "foreign.npz")


def assert_same_weight(loaded, weight):
    assert type(loaded) is type(weight)
    for field in dataclasses.fields(weight):
        ours, theirs = getattr(weight, field.name), getattr(loaded, field.name)
        if sparse.issparse(ours):
            np.testing.assert_array_equal(theirs.toarray(), ours.toarray())
        elif isinstance(ours, np.ndarray):
            np.testing.assert_array_equal(theirs, ours)
            assert theirs.dtype == ours.dtype
        elif field.name != "info":
            assert theirs == ours


def test_pickle_and_copy_keep_the_weight_and_leave_the_handle():
    weight = lut_weight(6, 77, 3, outliers=0.05)
    X = inputs(2, 77)
    expected = lut_matmul(X, weight)
    size = len(pickle.dumps(lut_weight(6, 77, 3, outliers=0.05)))
    assert len(pickle.dumps(weight)) == size
    for other in (pickle.loads(pickle.dumps(weight)), copy.deepcopy(weight)):
        assert_same_weight(other, weight)
        assert other.codes.ctypes.data % 64 == 0
        np.testing.assert_array_equal(lut_matmul(X, other), expected)


def test_sizes():
    weight = lut_weight(10, 256, 4)
    assert weight.nbytes == 10 * 256 // 2 + 10 * 16 * 4
    assert weight.bits_per_weight == 4 + 16 * 32 / 256
    three = lut_weight(10, 320, 3)
    assert three.codes.nbytes == 10 * 320 * 3.2 / 8
    assert three.bits_per_weight == 3 + 8 * 32 / 320
    grouped = uniform_weight(10, 256, 4, 128)
    assert grouped.bits_per_weight == 4 + 2 * 32 / 128
    assert grouped.n_groups == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pack_codes([[0, 16]], 4), r"codes must lie between 0 and 15 for bits=4"),
        (lambda: pack_codes([[-1]], 4), r"codes must lie between 0 and 15.*from -1 to -1"),
        (lambda: pack_codes([[0.5]], 4), r"codes must be a 2-D array of integers.*float64"),
        (lambda: pack_codes([0], 4), r"codes must be a 2-D array of integers.*1-D"),
        (lambda: pack_codes([[0]], 9), r"bits must be an integer from 1 to 8, got 9"),
        (lambda: pack_codes([[0]], True), r"bits must be an integer from 1 to 8, got True"),
        (lambda: unpack_codes(np.zeros((1, 16), np.uint32), 4, 129), r"shape \(n_rows, 32\)"),
        (lambda: LUTWeight.from_codes([[0]], np.ones((1, 3))), r"codebook must have shape"),
        (lambda: LUTWeight.from_codes([[0]], np.ones((2, 2))), r"codebook must be.*\(1, 2\)"),
        (lambda: LUTWeight.from_codes([[0]], np.array([[1, np.inf]])), "codebook contains NaN"),
        (
            lambda: dataclasses.replace(uniform_weight(2, 8, 4), group_size=0),
            "group_size must be a positive integer",
        ),
        (lambda: uniform_weight(2, 8, 4, act_bits=5), "act_bits must be None, 4 or 8, got 5"),
        (lambda: uniform_weight(2, 8, 4, act_group=8), "act_group must be -1.*multiple of 16"),
        (lambda: lut_matmul(np.ones((2, 4)), lut_weight(3, 5, 2)), "X has 4 columns.* 5 inputs"),
        (lambda: lut_matmul(np.ones(5), lut_weight(3, 5, 2)), r"X must be a real 2-D array"),
        (lambda: lut_matmul(np.ones((1, 5), complex), lut_weight(3, 5, 2)), "got 2-D complex128"),
        (lambda: lut_matmul(np.ones((1, 5)), uniform_weight(3, 5, 2)), "must be a LUTWeight"),
        (lambda: lut_matmul(np.ones((1, 5)), lut_weight(3, 5, 2), np.ones(2)), r"shape \(3,\)"),
        (lambda: lut_matmul(np.ones((1, 5)), lut_weight(3, 5, 2), n_threads=0), "got 0"),
        (lambda: int8_matmul(np.ones((1, 5)), uniform_weight(3, 5, 2), act_bits=3), "8 or 4"),
        (lambda: int8_matmul(np.ones((1, 5)), lut_weight(3, 5, 2)), "must be a UniformWeight"),
        (lambda: grouped_matmul(np.ones((1, 5)), [], [0]), "at least one weight"),
        (
            lambda: grouped_matmul(np.ones((1, 5)), [lut_weight(3, 5, 2)], [0, 2]),
            r"ascend from 0 to the 1 rows of X, got \[0, 2\]",
        ),
        (
            lambda: grouped_matmul(
                np.ones((1, 5)), [lut_weight(3, 5, 2), lut_weight(2, 5, 2)], [0, 1, 1]
            ),
            r"one shape, got \(3, 5\) and \(2, 5\)",
        ),
    ],
)
def test_messages(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_output_is_checked():
    weight, X = lut_weight(3, 5, 2), inputs(2, 5)
    with pytest.raises(
        ValueError, match=r"out must be a C-ordered float32 array of shape \(2, 3\)"
    ):
        lut_matmul(X, weight, out=np.empty((2, 3)))
    frozen = np.empty((2, 3), dtype=np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="writeable"):
        lut_matmul(X, weight, out=frozen)
    shared = np.ones((2, 5), dtype=np.float32)
    with pytest.raises(ValueError, match="must not overlap"):
        lut_matmul(shared, lut_weight(5, 5, 2), out=shared)


def test_kernel_info_tells_what_runs():
    info = kernel_info()
    assert info["backend"] == info["available"][0]
    assert info["available"][-2:] == ("scalar", "numpy")
    assert info["n_threads"] >= 1
    assert set(info["dense_from"]) == set(COMPILED)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_layer_equals_a_dense_layer(bits):
    weight = lut_weight(12, 50, bits, outliers=0.02)
    bias = np.linspace(-1, 1, 12)
    layer = LUTLinear.from_weight(weight, bias)
    X = torch.from_numpy(inputs(6, 50)).reshape(2, 3, 50)
    dense = torch.nn.functional.linear(X, layer.dequantize(), layer.bias)
    torch.testing.assert_close(layer(X), dense, rtol=1e-5, atol=1e-5)
    assert layer(X[0, 0]).shape == (12,)
    assert layer(X[:0]).shape == (0, 3, 12)
    assert layer(X.double()).dtype == torch.float64
    assert layer(X.bfloat16()).dtype == torch.bfloat16
    assert_same_weight(layer.weight, weight)


@pytest.mark.parametrize("bits", [2, 4])
def test_layer_state_round_trips(bits):
    weight = lut_weight(12, 50, bits, outliers=0.02)
    layer = LUTLinear.from_weight(weight, np.ones(12))
    X = torch.from_numpy(inputs(3, 50))
    expected = layer(X)
    empty = LUTLinear(50, 12, bits=bits, n_outliers=weight.outliers.nnz)
    assert not empty(X).any()
    empty.load_state_dict(layer.state_dict())
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    again = LUTLinear(50, 12, bits=bits, n_outliers=weight.outliers.nnz)
    again.load_state_dict(torch.load(buffer, weights_only=True))
    for other in (empty, again, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other(X), expected)


@pytest.mark.parametrize("bits", [2, 4])
def test_layer_sees_every_change_of_its_codebook(bits):
    layer = LUTLinear.from_weight(lut_weight(5, 40, bits))
    X = torch.from_numpy(inputs(2, 40))
    before = layer(X)
    with torch.no_grad():
        layer.codebook.mul_(2)
    assert torch.equal(layer(X), 2 * before)
    layer.codebook.data.mul_(2)
    assert torch.equal(layer(X), 4 * before)
    layer.codebook.data = layer.codebook.data / 4
    assert torch.equal(layer(X), before)


def test_codebook_can_be_trained():
    target = lut_weight(8, 64, 3)
    start = LUTWeight.from_codes(target.unpack(), np.zeros_like(target.codebook))
    layer = LUTLinear.from_weight(start)
    X = torch.from_numpy(inputs(400, 64))
    Y = torch.from_numpy(lut_matmul(X, target))
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=60)

    def closure():
        optimizer.zero_grad()
        loss = ((layer(X) - Y) ** 2).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(layer.codebook.detach(), target.codebook, atol=1e-3)


def test_layer_refuses_what_it_cannot_compute():
    layer = LUTLinear.from_weight(lut_weight(5, 40, 4))
    with pytest.raises(ValueError, match="input must have 40 features in its last dimension"):
        layer(torch.ones(2, 39))
    with pytest.raises(RuntimeError, match="computes on the CPU or a CUDA device.*input on meta"):
        layer(torch.ones(2, 40, device="meta"))
    X = torch.ones(2, 40, requires_grad=True)
    Y = layer(X)
    with torch.no_grad():
        layer.codebook.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        Y.sum().backward()


def test_layer_quantises_a_linear_layer():
    class Sign:
        def quantize(self, W):
            size = np.abs(W).mean(axis=1, keepdims=True)
            return LUTWeight.from_codes((W > 0).astype(int), np.hstack([-size, size]))

    linear = torch.nn.Linear(20, 6)
    layer = LUTLinear.from_linear(linear, Sign())
    assert layer.bits == 1
    assert torch.equal(layer.bias, linear.bias)
    assert layer.bias is not linear.bias
    assert torch.equal(layer.dequantize() > 0, linear.weight > 0)
