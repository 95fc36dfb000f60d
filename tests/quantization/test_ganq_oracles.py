"""Facts that follow from the mathematics of GANQ, by the number of the method's page."""

import itertools
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans

from skml.quantization import GANQQuantizer, GPTQQuantizer, KMeansQuantizer, RTNQuantizer
from skml.quantization._alternation import _Panel, tile_factor
from skml.quantization._factor import dominance_offset, factorize
from skml.quantization._grid import uniform_grid
from tests.quantization._problems import make_layer, one_hot, reference_gptq, reference_s_step


def panel_of(W, lower, width=64, kept=None, dtype=np.float64):
    W = np.ascontiguousarray(W, dtype=dtype)
    added = np.zeros(W.shape[1])
    return _Panel(W, tile_factor(lower, width, dtype), added, kept, len(W) + 3, 1)


def float64_quantizer(**params):
    return GANQQuantizer(dtype="float64", **params)


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("preconditioner", ["damping", "diagonal_dominance", "none"])
def test_oracle_01_t_step_is_least_squares(preconditioner, bits):
    X, W = make_layer(bits, n=70)
    lower = factorize(X.T @ X, preconditioner=preconditioner, column_order="original").lower
    table = np.sort(np.random.default_rng(0).normal(size=(len(W), 2**bits)), axis=1)
    panel = panel_of(W, lower)
    panel.choose_codes(table)
    fitted, objective = panel.fit_table(table)
    for i, codes in enumerate(panel.codes):
        S = one_hot(codes, 2**bits)
        factor = X.T if preconditioner == "none" else lower
        expected = np.linalg.lstsq(factor.T @ S.T, factor.T @ W[i], rcond=None)[0] @ S @ factor
        assert_allclose(fitted[i] @ S @ factor, expected, atol=1e-10 * np.abs(expected).max())
        before = np.sum(((W[i] - table[i] @ S) @ lower) ** 2)
        after = np.sum(((W[i] - fitted[i] @ S) @ lower) ** 2)
        assert after <= before
        assert_allclose(objective[i], after, rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bits", [2, 4])
def test_oracle_02_s_step_on_the_rtn_grid_is_gptq_backwards(bits, seed):
    X, W = make_layer(seed, n_rows=30, n=150, n_samples=400)
    H = X.T @ X
    scale, zero = uniform_grid(W, bits)
    table = scale[:, None] * (np.arange(2**bits) - zero[:, None])
    panel = panel_of(W, np.linalg.cholesky(H))
    panel.choose_codes(table)
    backwards = reference_gptq(W[:, ::-1], H[::-1, ::-1], scale, zero, bits)[:, ::-1]
    assert_array_equal(panel.codes, backwards)
    # The same through the public class, which factors the inverse in its own way.
    gptq = GPTQQuantizer(bits, damping=0.0).fit(X[:, ::-1])
    assert_array_equal(gptq.quantize(W[:, ::-1]).unpack()[:, ::-1], panel.codes)


def test_oracle_03_diagonal_gram_gives_weighted_lloyd():
    rng = np.random.default_rng(0)
    W, scale = rng.normal(size=(12, 60)), 0.5 + rng.random(60)
    table = np.quantile(W, [0.1, 0.4, 0.6, 0.9], axis=1).T
    panel = panel_of(W, np.diag(scale))
    panel.choose_codes(table)
    nearest = np.abs(W[:, :, None] - table[:, None]).argmin(axis=2)
    assert_array_equal(panel.codes, nearest)
    fitted, _ = panel.fit_table(table)
    for i in range(len(W)):
        means = [np.average(W[i, nearest[i] == k], weights=scale[nearest[i] == k] ** 2)
                 for k in range(4)]  # fmt: skip
        assert_allclose(fitted[i], means, rtol=1e-12)

    panel.run(table, 300)
    for i, row in enumerate(W):
        lloyd = KMeans(4, init=table[i][:, None], n_init=1, max_iter=300, tol=0)
        lloyd.fit(row[:, None], sample_weight=scale**2)
        assert_allclose(np.sort(panel.best_table[i]), np.sort(lloyd.cluster_centers_[:, 0]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_oracle_04_rows_are_independent(dtype):
    X, W = make_layer(n_rows=300, n=90)
    quantizer = GANQQuantizer(3, dtype=dtype, max_iter=3).fit(X)
    whole = quantizer.quantize(W)
    for rows in ([7], slice(0, 5), np.arange(250, 300), np.random.default_rng(0).permutation(300)):
        part = quantizer.quantize(W[rows])
        assert_array_equal(part.unpack(), whole.unpack()[rows])
        assert_array_equal(part.codebook, whole.codebook[rows])


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_oracle_05_affine_and_scale_equivariance(bits):
    X, W = make_layer(n=50)
    weight = float64_quantizer(bits=bits).fit(X).quantize(W)
    scaled = float64_quantizer(bits=bits).fit(4 * X).quantize(8 * W)
    assert_array_equal(scaled.unpack(), weight.unpack())
    assert_array_equal(scaled.codebook, 8 * weight.codebook)
    moved = float64_quantizer(bits=bits).fit(3 * X).quantize(0.7 * W + 5)
    assert_array_equal(moved.unpack(), weight.unpack())
    assert_allclose(moved.codebook, 0.7 * weight.codebook + 5, rtol=1e-11)


def test_oracle_05_objective_in_float32():
    X, W = make_layer(n=50)
    single, double = GANQQuantizer(3).fit(X), float64_quantizer(bits=3).fit(X)
    moved = GANQQuantizer(3).fit(3 * X)
    error = double.error(W, double.quantize(W))
    assert_allclose(single.error(W, single.quantize(W)), error, rtol=1e-4)
    W_q = (moved.quantize(0.7 * W + 5).dequantize() - 5) / 0.7
    assert_allclose(double.error(W, W_q), error, rtol=1e-4)


def test_oracle_06_block_size_does_not_matter():
    X, W = make_layer(n=150, n_samples=300)
    lower = factorize(X.T @ X).lower
    table = np.sort(np.random.default_rng(0).normal(size=(len(W), 8)), axis=1)
    codes = []
    for width in (1, 8, 64, 100, 150, 256):
        panel = panel_of(W, lower, width)
        panel.choose_codes(table)
        codes.append(panel.codes)
    expected, errors = reference_s_step(W, table, lower)
    for found in codes:
        assert_array_equal(found, expected)
    assert_allclose(panel.errors[: len(W)], errors)
    assert_allclose(panel.g[:, :150], errors @ lower, atol=1e-12)


@pytest.mark.parametrize("bits", [1, 3, 4])
def test_oracle_07_few_distinct_values_are_exact(bits):
    X, _ = make_layer(n=60)
    rng = np.random.default_rng(1)
    values = rng.normal(size=(25, 2**bits))
    W = np.take_along_axis(values, rng.integers(0, 2**bits, size=(25, 60)), axis=1)
    W[0, :] = W[0, 0]
    weight = float64_quantizer(bits=bits, init="kmeans").fit(X).quantize(W)
    assert_allclose(weight.dequantize(), W, rtol=1e-13, atol=1e-13)
    assert_array_equal(KMeansQuantizer(bits).fit(X).transform(W), W)


def test_oracle_08_close_to_the_best_of_all_assignments():
    ratios = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, w = rng.normal(size=(32, 6)), rng.normal(size=(1, 6))
        quantizer = float64_quantizer(bits=1, damping=0.0).fit(X)
        found = quantizer.error(w, quantizer.quantize(w))
        best = np.inf
        for codes in itertools.product([0, 1], repeat=6):
            A = X @ one_hot(np.array(codes), 2).T
            T = np.linalg.lstsq(A, X @ w[0], rcond=None)[0]
            best = min(best, np.sum((X @ w[0] - A @ T) ** 2))
        ratios.append(found / (best / np.sum((X @ w[0]) ** 2)))
    assert np.median(ratios) <= 1.01
    assert max(ratios) < 2
    assert min(ratios) > 1 - 1e-9


@pytest.mark.parametrize("preconditioner", ["damping", "diagonal_dominance", "plain_first"])
@pytest.mark.parametrize("column_order", ["activation", "original"])
@pytest.mark.parametrize("n_samples", [1, 3, 100])
def test_oracle_09_degenerate_input_is_finite(n_samples, column_order, preconditioner):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, 12))
    X[:, [2, 7]] = 0
    W = rng.normal(size=(5, 12))
    W[1] = 3.0
    quantizers = [
        GANQQuantizer(bits, column_order=column_order, preconditioner=preconditioner)
        for bits in (1, 3, 4, 5)
    ]
    quantizers += [GPTQQuantizer(3), RTNQuantizer(3), KMeansQuantizer(3)]
    with warnings.catch_warnings(action="error"):
        for quantizer in quantizers:
            for inputs in (X, np.zeros_like(X)):
                quantizer.fit(inputs)
                for weights in (W, W[:1], W[1:2]):
                    result = quantizer.transform(weights)
                    assert np.isfinite(result).all()
                    assert np.isfinite(quantizer.error(weights, result))


def test_oracle_10_preconditioned_matrix_is_diagonally_dominant():
    X, _ = make_layer(n=40, mixing=3.0)
    H = X.T @ X
    dominant = H + np.diag(dominance_offset(H))
    others = np.abs(dominant).sum(axis=1) - np.diag(dominant)
    assert (np.diag(dominant) >= others * (1 - 1e-14)).all()
    assert (np.diag(H) < np.abs(H).sum(axis=1) - np.diag(H)).any()
    factor = factorize(H, preconditioner="diagonal_dominance", column_order="original")
    assert_allclose(factor.lower @ factor.lower.T, dominant, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("n", "ratio"), [(1000, 0.005), (40, 0.005), (40, 0.1), (7, 0.3)])
def test_oracle_11_outliers_have_exact_counts_and_values(n, ratio):
    X, W = make_layer(n=n, n_rows=6, n_samples=50)
    weight = float64_quantizer(bits=3, outlier_ratio=ratio, max_iter=2).fit(X).quantize(W)
    per_row = max(1, round(n * ratio / 2))
    stored = np.diff(weight.outliers.indptr)
    assert_array_equal(stored, 2 * per_row)
    where = np.zeros(W.shape, bool)
    for i in range(len(W)):
        where[i, np.argsort(W[i])[:per_row]] = where[i, np.argsort(W[i])[-per_row:]] = True
    rows, columns = weight.outliers.tocoo().coords
    assert where[rows, columns].all()
    assert_allclose(weight.dequantize()[where], W[where], rtol=1e-15)
    assert np.abs(weight.dequantize() - W)[~where].max() > 0


@pytest.mark.parametrize("outlier_ratio", [0.0, 0.05])
def test_oracle_12_packed_weight_is_the_gather(outlier_ratio):
    X, W = make_layer(dtype=np.float32)
    quantizer = GANQQuantizer(3, outlier_ratio=outlier_ratio).fit(X)
    weight = quantizer.quantize(W)
    gathered = np.take_along_axis(weight.codebook, weight.unpack().astype(int), axis=1)
    if weight.outliers is not None:
        gathered = gathered + weight.outliers.toarray()
    assert gathered.dtype == np.float32
    assert_array_equal(weight.dequantize(), gathered)
    assert_array_equal(quantizer.transform(W), gathered)
    again = pickle.loads(pickle.dumps(weight))
    assert_array_equal(again.dequantize(), gathered)
    assert_array_equal(pickle.loads(pickle.dumps(quantizer)).transform(W), gathered)
