"""The weight quantizers as a sceptic would test them."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import LinAlgError
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

from skml.quantization import (
    GANQQuantizer,
    GPTQQuantizer,
    KMeansQuantizer,
    LUTWeight,
    RTNQuantizer,
    UniformWeight,
)
from skml.quantization._alternation import _Panel, solve_least_norm, tile_factor
from skml.quantization._codebooks import (
    initial_codebook,
    kmeans_codebook,
    nearest_codes,
    thresholds,
)
from skml.quantization._factor import damped_cholesky, factorize, try_cholesky
from skml.quantization._grid import uniform_grid
from tests.quantization._problems import make_layer, one_hot, reference_gptq, reference_s_step

QUANTIZERS = [GANQQuantizer, GPTQQuantizer, KMeansQuantizer, RTNQuantizer]


# --- exact k-means ---------------------------------------------------------------------------


def cost_of(row, weights, centres):
    return np.sum(weights * ((row[:, None] - centres) ** 2).min(axis=1))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n_codes", [1, 2, 3, 4])
def test_kmeans_is_the_best_partition(n_codes, seed):
    rng = np.random.default_rng(seed)
    row = np.sort(rng.normal(size=9))
    weights = rng.random(9) * (rng.random(9) < 0.8)
    best = np.inf
    for cuts in itertools.combinations(range(1, 9), n_codes - 1):
        parts = np.split(np.arange(9), cuts)
        means = [
            np.average(row[p], weights=weights[p]) if weights[p].sum() else row[p].mean()
            for p in parts
        ]
        cost = sum(np.sum(weights[p] * (row[p] - m) ** 2) for p, m in zip(parts, means))  # noqa: B905
        best = min(best, cost)
    centres = kmeans_codebook(row[None], n_codes, weights[None])
    assert_allclose(cost_of(row, weights, centres[0]), best, atol=1e-14)


def test_kmeans_is_never_worse_than_restarted_lloyd():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(5, 300)), rng.standard_cauchy(size=(5, 300))])
    for n_codes in (4, 16):
        exact = kmeans_codebook(rows, n_codes)
        for row, centres in zip(rows, exact, strict=True):
            lloyd = KMeans(n_codes, n_init=5, random_state=0).fit(row[:, None])
            ones = np.ones(300)
            assert cost_of(row, ones, centres) <= lloyd.inertia_ * (1 + 1e-12)


def test_kmeans_weights_of_zero_stand_for_ones():
    row = np.array([[0.0, 1.0, 5.0, 6.0]])
    assert_array_equal(kmeans_codebook(row, 2, np.zeros(4)), [[0.5, 5.5]])
    X = np.eye(4)
    found = KMeansQuantizer(1).fit(X).quantize(row, sensitivity=np.array([1.0, 3.0, 0.0, 1.0]))
    assert_array_equal(found.codebook, [[0.75, 6.0]])


def test_kmeans_uses_the_diagonal_of_the_gram_matrix():
    X, W = make_layer()
    diagonal = (X**2).sum(axis=0)
    quantizer = KMeansQuantizer(2).fit(X)
    by_hand = quantizer.quantize(W, sensitivity=diagonal)
    assert_allclose(quantizer.quantize(W).codebook, by_hand.codebook, rtol=1e-12)
    plain = KMeansQuantizer(2, weighting="uniform").fit(X).quantize(W)
    ones = quantizer.quantize(W, sensitivity=np.ones_like(W))
    assert_array_equal(plain.codebook, ones.codebook)
    assert np.abs(plain.codebook - by_hand.codebook).max() > 0.01


# --- tables


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 2.0]), min_size=4, max_size=4),
       st.lists(st.integers(-24, 24), min_size=1, max_size=20))  # fmt: skip
def test_nearest_codes_take_the_lower_of_equals(entries, eighths):
    # Eighths, so that distances are exact: rounding them would make up equals.
    table = np.sort(np.array([entries]), axis=1)
    values = np.array([eighths]) / 8
    expected = np.abs(values[:, :, None] - table[:, None]).argmin(axis=2)
    assert_array_equal(nearest_codes(table, values), expected)


def test_a_value_on_a_threshold_goes_down():
    limits, first = thresholds(np.array([[0.0, 1.0, 1.0, 3.0]]))
    assert_array_equal(limits, [[0.5, 2.0, np.inf, np.inf]])
    assert_array_equal(first[:, :3], [[0, 1, 3]])


def test_first_tables_are_those_of_the_authors_code():
    row = np.linspace(0, 15, 61)[None]
    quarters = [0, 1.875, 3.75, 3.75, 4.6875, 5.625, 6.5625, 7.5]
    table = initial_codebook(row, 4, "paper")
    assert_allclose(table[0, :8], quarters)
    assert_allclose(table[0] + table[0, ::-1], 15)
    split = initial_codebook(row, 4, "paper", has_outliers=True)
    assert_allclose(split[0, :3], [0, 3.75, 3.75])
    assert_allclose(split[0] + split[0, ::-1], 15)
    quantiles = initial_codebook(row, 3, "paper")
    assert_allclose(quantiles[0] / 15, [0, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1])
    assert_allclose(initial_codebook(row, 2, "uniform")[0], [0, 5, 10, 15])
    # Values that are left out do not count.
    gaps = np.where(row > 10, np.nan, row)
    assert_allclose(initial_codebook(gaps, 2, "uniform")[0], [0, 10 / 3, 20 / 3, 10])
    assert_array_equal(initial_codebook(np.full((1, 5), np.nan), 3, "paper"), np.zeros((1, 8)))


def test_least_norm_solution_leaves_unused_codes_alone():
    rng = np.random.default_rng(0)
    P = rng.normal(size=(6, 5, 8))
    P[:, 2] = 0
    A, b = P @ P.transpose(0, 2, 1), np.einsum("ikl,l->ik", P, rng.normal(size=8))
    A[1], b[1] = 0, 0
    A[2, 0] = A[2, :, 0] = A[2, 1] = A[2, :, 1] = 1.0  # singular: two equal codes
    b[2, :2] = 1.0
    expected = np.einsum("ikl,il->ik", np.linalg.pinv(A, hermitian=True), b)
    found = solve_least_norm(A.copy(), b.copy(), 1e-14)
    assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    assert_array_equal(found[[0, 3], 2], 0)


# --- GANQ


def reference_ganq(W, H, table, offset, max_iter):
    """One row after the other, with dense S, lstsq and the raw objective."""
    lower = np.linalg.cholesky(H + offset * np.eye(len(H)))
    best, best_W = np.full(len(W), np.inf), np.empty_like(W)
    table = table.copy()
    for _ in range(max_iter):
        table = np.sort(table, axis=1)
        codes, _ = reference_s_step(W, table, lower)
        for i in range(len(W)):
            S = one_hot(codes[i], table.shape[1])
            used = S.any(axis=1)
            solution = np.linalg.lstsq((S[used] @ lower).T, W[i] @ lower, rcond=None)[0]
            table[i, used] = solution
            R = W[i] - table[i] @ S
            if R @ H @ R < best[i]:
                best[i], best_W[i] = R @ H @ R, table[i] @ S
    return best_W, best


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_ganq_is_the_plain_algorithm(bits):
    X, W = make_layer(3, n_rows=8, n=30)
    H = X.T @ X
    table = np.sort(np.random.default_rng(0).normal(size=(8, 2**bits)), axis=1)
    quantizer = GANQQuantizer(
        bits, init=table, dtype="float64", column_order="original", max_iter=6
    )
    weight = quantizer.fit(X).quantize(W)
    expected, objective = reference_ganq(W, H, table, 0.01 * np.diag(H).mean(), 6)
    assert_allclose(weight.dequantize(), expected, rtol=1e-8)
    assert_allclose(weight.info["objective"], objective, rtol=1e-8)


@pytest.mark.parametrize("bits", [2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_ganq_beats_its_rivals(bits, seed):
    X, W = make_layer(seed, n_rows=64, n=96, n_samples=800)
    rivals = [
        RTNQuantizer(bits),
        KMeansQuantizer(bits),
        KMeansQuantizer(bits, weighting="uniform"),
        GPTQQuantizer(bits),
        GPTQQuantizer(bits, act_order=True),
    ]
    errors = [rival.error(W, rival.fit(X).transform(W)) for rival in rivals]
    for order in ("original", "activation"):
        ganq = GANQQuantizer(bits, column_order=order).fit(X)
        assert ganq.error(W, ganq.quantize(W)) < 0.85 * min(errors)


def test_activation_order_helps_where_inputs_differ_in_size():
    X, W = make_layer(n_rows=50, n=80, n_samples=500)
    X = X * np.exp(np.random.default_rng(0).normal(size=80))
    errors = []
    for order in ("original", "activation"):
        quantizer = GANQQuantizer(3, column_order=order).fit(X)
        errors.append(quantizer.error(W, quantizer.quantize(W)))
        sizes = np.diag(quantizer.gram_)[quantizer.column_order_]
        assert (np.diff(sizes) >= 0).all() == (order == "activation")
    assert errors[1] < 0.95 * errors[0]


def test_more_iterations_are_never_worse():
    X, W = make_layer()
    objective = np.inf
    for max_iter in (1, 2, 4, 8, 16):
        weight = GANQQuantizer(3, max_iter=max_iter, dtype="float64").fit(X).quantize(W)
        assert (weight.info["objective"] <= objective).all()
        assert weight.info["n_iter"] <= max_iter
        objective = weight.info["objective"]


def test_objective_is_the_raw_layer_error():
    X, W = make_layer()
    for preconditioner in ("damping", "diagonal_dominance", "none"):
        quantizer = GANQQuantizer(3, preconditioner=preconditioner).fit(X)
        weight = quantizer.quantize(W)
        R = W - weight.dequantize()
        expected = np.einsum("ij,jk,ik->i", R, quantizer.gram_, R)
        assert_allclose(weight.info["objective"], expected, rtol=1e-3)
        assert_allclose(
            quantizer.error(W, weight),
            np.sum((X @ R.T) ** 2) / np.sum((X @ W.T) ** 2),
            rtol=1e-9,
        )


def test_both_steps_see_the_same_preconditioned_matrix():
    # With the raw Gram matrix in the T-step the tables of rank-deficient inputs blow up.
    X, W = make_layer(n_samples=10, n=60)
    quantizer = GANQQuantizer(3).fit(X)
    W_q = quantizer.transform(W)
    assert np.linalg.norm(W - W_q) < 0.5 * np.linalg.norm(W)


def test_user_outliers_and_full_rows_are_exact():
    X, W = make_layer(n=50)
    quantizer = GANQQuantizer(2, dtype="float64").fit(X)
    mask = np.random.default_rng(0).random(W.shape) < 0.1
    mask[3] = True
    weight = quantizer.quantize(W, outlier_mask=mask)
    assert weight.outliers.nnz == mask.sum()
    assert_allclose(weight.dequantize()[mask], W[mask], rtol=1e-14)
    assert quantizer.error(W, weight) < quantizer.error(W, quantizer.quantize(W))
    scaled = W * np.r_[1.0, 9.0, np.ones(18)][:, None]
    kept = GANQQuantizer(2, full_rows=1).fit(X).quantize(scaled).dequantize()
    assert_allclose(kept[1], scaled[1], rtol=1e-6)
    assert np.abs(kept[0] - scaled[0]).max() > 0.01


def test_kept_weights_carry_no_error_into_the_s_step():
    X, W = make_layer(n=30, n_rows=6)
    kept = np.random.default_rng(1).random(W.shape) < 0.2
    lower = factorize(X.T @ X, column_order="original").lower
    table = np.sort(np.random.default_rng(0).normal(size=(6, 4)), axis=1)
    tiles = tile_factor(lower, 8, np.float64)
    panel = _Panel(W, tiles, np.zeros(30), kept.astype(np.uint8), 9, 1)
    panel.choose_codes(table)
    codes, errors = reference_s_step(W, table, lower, kept)
    assert_array_equal(panel.codes, codes)
    assert_allclose(panel.errors[:6], errors)
    fitted, _ = panel.fit_table(table)
    for i in range(6):
        S = one_hot(codes[i], 4) * ~kept[i]
        target = (np.where(kept[i], 0, W[i])) @ lower
        solution = np.linalg.lstsq((S @ lower).T, target, rcond=None)[0]
        used = S.any(axis=1)
        assert_allclose(fitted[i][used], solution[used], rtol=1e-9)
        assert_array_equal(fitted[i][~used], table[i][~used])


def test_dead_inputs_are_filled_with_the_mean_of_the_live_ones():
    X, W = make_layer(n=20)
    X[:, 4] = 0
    W[:, 4] = 1e6
    quantizer = GANQQuantizer(4).fit(X)
    assert_allclose(quantizer.transform(W)[:, 4], np.delete(W, 4, 1).mean(1), atol=0.5)
    W[:, 4] = -3
    first = quantizer.transform(W)
    W[:, 4] = 7
    assert_array_equal(quantizer.transform(W), first)


# --- the other quantizers


@pytest.mark.parametrize("act_order", [False, True])
def test_gptq_is_the_plain_algorithm(act_order):
    X, W = make_layer(n=150, n_samples=500)
    X = X * np.exp(0.5 * np.random.default_rng(0).normal(size=150))
    H = X.T @ X
    H += 0.01 * np.diag(H).mean() * np.eye(150)
    order = np.argsort(-np.diag(X.T @ X), kind="stable") if act_order else np.arange(150)
    expected = np.empty(W.shape, int)
    scale, zero = uniform_grid(W, 3)
    expected[:, order] = reference_gptq(W[:, order], H[np.ix_(order, order)], scale, zero, 3)
    for block_size in (1, 7, 128, 200):
        quantizer = GPTQQuantizer(3, act_order=act_order, block_size=block_size).fit(X)
        assert_array_equal(quantizer.quantize(W).unpack(), expected)
    U = quantizer.cholesky_
    assert_allclose(U.T @ U, np.linalg.inv(H[np.ix_(order, order)]), rtol=1e-7, atol=1e-9)
    assert quantizer.damping_ == pytest.approx(0.01)


@pytest.mark.parametrize("group_size", [1, 5, 16, 40, 64])
def test_groups(group_size):
    X, W = make_layer(n=40)
    X = X * np.exp(0.5 * np.random.default_rng(0).normal(size=40))
    for quantizer in (
        RTNQuantizer(3, group_size=group_size),
        GPTQQuantizer(3, group_size=group_size, act_order=True),
        GPTQQuantizer(3, group_size=group_size, block_size=3),
    ):
        weight = quantizer.fit(X).quantize(W)
        assert weight.scale.shape == (len(W), -(-40 // min(group_size, 40)))
        assert weight.bits == 3
    rtn = RTNQuantizer(3, group_size=group_size).fit(X).transform(W)
    for start in range(0, 40, group_size):
        part = slice(start, start + group_size)
        width = W[:, part].shape[1]
        alone = RTNQuantizer(3).fit(np.eye(width)).transform(W[:, part])
        assert_array_equal(rtn[:, part], alone)


def test_groups_fitted_on_the_way_see_corrected_weights():
    X, W = make_layer(n=64, mixing=1.5)
    static = GPTQQuantizer(2, group_size=16, act_order=True).fit(X)
    on_the_way = GPTQQuantizer(2, group_size=16).fit(X).quantize(W)
    assert_array_equal(on_the_way.scale[:, 0], static.quantize(W).scale[:, 0])
    assert (on_the_way.scale[:, 1:] != static.quantize(W).scale[:, 1:]).all()


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("zero_point", ["integer", "real"])
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_rtn_grids(bits, zero_point, symmetric):
    rng = np.random.default_rng(0)
    W = rng.normal(size=(20, 30)) + rng.normal(size=(20, 1))
    W[3] = 0.7
    W[4] = 0.0
    W[5] = -1e-30
    quantizer = RTNQuantizer(bits, zero_point=zero_point, symmetric=symmetric).fit(np.eye(30))
    weight = quantizer.quantize(W)
    W_q = weight.dequantize()
    assert_array_equal(W_q[3:6], W[3:6])
    assert_array_equal(weight.scale[3:6], 1)
    others = [i for i in range(20) if i not in (3, 4, 5)]
    low, high = W.min(axis=1), W.max(axis=1)
    if zero_point == "integer":
        assert_array_equal(weight.zero[others], np.rint(weight.zero[others]))
        low, high = np.minimum(low, 0), np.maximum(high, 0)
        assert (weight.zero[others] >= 0).all()
        assert (weight.zero[others] <= 2**bits).all()
    elif not symmetric:
        ends = W_q.min(axis=1), W_q.max(axis=1)
        assert_allclose(ends, (low, high), atol=1e-12)
    if symmetric:
        high = np.maximum(-low, high)
        low = -high
    step = (high - low) / (2**bits - 1)
    assert_allclose(weight.scale[others, 0], step[others])
    bound = 1.0 if zero_point == "integer" else 0.5
    assert (np.abs(W - W_q)[others] <= bound * step[others, None] * (1 + 1e-12)).all()


# --- statistics


@pytest.mark.parametrize("Quantizer", QUANTIZERS)
def test_batches_weights_sparse_and_dask_give_the_same_statistics(Quantizer):
    da = pytest.importorskip("dask.array")
    X, W = make_layer(n_samples=100)
    weights = np.random.default_rng(0).integers(0, 3, size=100).astype(float)
    whole = Quantizer(3).fit(X, sample_weight=weights)
    assert_allclose(whole.gram_, X.T @ (weights[:, None] * X))
    repeated = Quantizer(3).fit(np.repeat(X, weights.astype(int), axis=0))
    assert_allclose(repeated.gram_, whole.gram_)
    batched = Quantizer(3)
    for part in (slice(0, 1), slice(1, 60), slice(60, 100)):
        assert batched.partial_fit(X[part], sample_weight=weights[part]) is batched
    sparse = Quantizer(3).fit(sp.csr_array(X), sample_weight=weights)
    chunked = da.from_array(X, chunks=(30, 16))
    dask = Quantizer(3).fit(chunked, sample_weight=weights)
    for other in (batched, sparse, dask):
        assert_allclose(other.gram_, whole.gram_, rtol=1e-12, atol=1e-12)
        assert other.n_samples_seen_ == 100
        assert other.n_features_in_ == 40
        assert_allclose(other.transform(W), whole.transform(W), rtol=1e-4, atol=1e-6)
    # Chunks whose length is known only when they are computed.
    unknown = Quantizer(3).fit(chunked[da.from_array(weights > 0, chunks=30)])
    assert_allclose(unknown.gram_, X[weights > 0].T @ X[weights > 0])


def test_dask_input_is_checked():
    da = pytest.importorskip("dask.array")
    X = np.ones((10, 3))
    X[4, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        RTNQuantizer().fit(da.from_array(X, chunks=(4, 3)))
    with pytest.raises(ValueError, match="2 dimensions"):
        RTNQuantizer().fit(da.ones(3))
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(10,\)"):
        RTNQuantizer().fit(da.ones((10, 3), chunks=(4, 3)), sample_weight=np.ones(9))
    quantizer = RTNQuantizer().fit(np.ones((2, 4)))
    with pytest.raises(ValueError, match="X has 3 features, but RTNQuantizer is expecting 4"):
        quantizer.partial_fit(da.ones((10, 3), chunks=(4, 3)))


def test_factorisation_is_renewed_after_partial_fit():
    X, W = make_layer()
    quantizer = GANQQuantizer(3).partial_fit(X[:5])
    first = quantizer.cholesky_
    quantizer.partial_fit(X[5:])
    assert (quantizer.cholesky_ != first).any()
    assert_array_equal(quantizer.transform(W), GANQQuantizer(3).fit(X).transform(W))


def test_bits_can_be_changed_after_fit():
    X, W = make_layer()
    quantizer = GANQQuantizer(4).fit(X).set_params(bits=2)
    assert_array_equal(quantizer.transform(W), GANQQuantizer(2).fit(X).transform(W))


def test_cholesky_and_damping_are_those_of_the_preconditioned_matrix():
    X, _ = make_layer()
    for params in ({}, {"damping": 0.3}, {"preconditioner": "diagonal_dominance"}):
        quantizer = GANQQuantizer(**params).fit(X)
        H, order = quantizer.gram_, quantizer.column_order_
        added = quantizer.cholesky_ @ quantizer.cholesky_.T - H[np.ix_(order, order)]
        assert_allclose(added, np.diag(np.diag(added)), atol=1e-9 * np.abs(H).max())
        assert_allclose(quantizer.damping_, np.diag(added).mean() / np.diag(H).mean(), rtol=1e-6)


def test_damping_is_doubled_until_it_suffices():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 50))
    H = x.T @ x
    lower, offset = damped_cholesky(H, 0.0)
    assert 0 < offset[0] < 1e-6 * np.diag(H).mean()
    assert_allclose(lower @ lower.T, H + np.diag(offset), atol=1e-10)
    assert try_cholesky(H) is None
    # A pivot that is rounding error passes LAPACK, and must not pass here.
    nearly = np.diag([1.0, 1e-18])
    assert np.isfinite(np.linalg.cholesky(nearly)).all()
    assert try_cholesky(nearly) is None
    assert GANQQuantizer(damping=0.0).fit(x).damping_ < 1e-6


def test_plain_first_adds_nothing_where_nothing_is_needed():
    X, _ = make_layer()
    assert GANQQuantizer(preconditioner="plain_first").fit(X).damping_ == 0
    assert GANQQuantizer(preconditioner="plain_first").fit(X[:3]).damping_ > 0


def test_n_threads_do_not_change_the_result():
    X, W = make_layer(n_rows=70)
    for Quantizer in (GANQQuantizer, GPTQQuantizer, KMeansQuantizer):
        one, two = (Quantizer(3, n_jobs=n).fit(X).quantize(W) for n in (1, 2))
        assert_array_equal(one.dequantize(), two.dequantize())


# --- inputs and messages


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("Quantizer", QUANTIZERS)
def test_all_bits_and_odd_shapes(Quantizer, bits):
    for m, n in [(1, 1), (1, 2), (3, 1), (2, 65), (5, 63)]:
        rng = np.random.default_rng(m * n)
        quantizer = Quantizer(bits).fit(rng.normal(size=(7, n)))
        W = rng.normal(size=(m, n)).astype(np.float32)
        weight = quantizer.quantize(W)
        assert weight.shape == (m, n)
        assert weight.bits == bits
        assert isinstance(weight, (LUTWeight, UniformWeight))
        W_q = quantizer.transform(W)
        assert W_q.dtype == np.float32
        assert_array_equal(quantizer.inverse_transform(weight), W_q)
        assert np.isfinite(W_q).all()


@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1e8, 1e15])
@pytest.mark.parametrize("Quantizer", QUANTIZERS)
def test_extreme_scales(Quantizer, scale):
    X, W = make_layer()
    expected = Quantizer(3).fit(X).transform(W)
    moderate = min(max(scale, 1e-8), 1e8)
    found = Quantizer(3).fit(X * moderate).transform(W * scale)
    assert_allclose(found / scale, expected, rtol=1e-3, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 12), st.integers(1, 4), st.integers(0, 10**6))
def test_ganq_on_any_small_integers(m, n, bits, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(rng.integers(1, 9), n)).astype(float)
    W = rng.integers(-2, 3, size=(m, n)).astype(float)
    quantizer = GANQQuantizer(bits, outlier_ratio=rng.choice([0.0, 0.3])).fit(X)
    weight = quantizer.quantize(W)
    W_q = weight.dequantize()
    assert np.isfinite(W_q).all()
    assert (np.diff(weight.codebook, axis=1) >= 0).all()
    assert_array_equal(quantizer.quantize(W[::-1]).dequantize(), W_q[::-1])


def test_weights_that_cannot_be_quantised():
    X, W = make_layer()
    for quantizer in (Q().fit(X) for Q in QUANTIZERS):
        name = type(quantizer).__name__
        with pytest.raises(ValueError, match=f"X has 39 features, but {name} is expecting 40"):
            quantizer.quantize(W[:, 1:])
        with pytest.raises(ValueError, match="NaN"):
            quantizer.transform(np.full_like(W, np.nan))
        with pytest.raises(ValueError, match="infinity"):
            quantizer.transform(np.full_like(W, np.inf))
        with pytest.raises(TypeError, match="quantises dense weights"):
            quantizer.transform(sp.csr_array(W))
        with pytest.raises(ValueError, match="W_q has shape"):
            quantizer.error(W, W[:3])
        assert_array_equal(quantizer.transform((10 * W).astype(int)).dtype, np.float64)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"bits": 9}, "'bits' parameter of GANQQuantizer"),
        ({"bits": 3.0}, "'bits' parameter"),
        ({"outlier_ratio": 1.0}, "'outlier_ratio' parameter"),
        ({"preconditioner": "magic"}, "'preconditioner' parameter"),
        ({"bits": 5, "init": "paper"}, "init='paper' is defined for bits=3 and bits=4"),
        ({"init": np.ones((3, 3))}, r"init must be a finite array .* = \(20, 16\), got .*\(3, 3\)"),
        ({"full_rows": 21}, "full_rows must be at most the 20 rows of W, got 21"),
    ],
)
def test_bad_parameters(params, message):
    X, W = make_layer()
    with pytest.raises(ValueError, match=message):
        GANQQuantizer(**params).fit(X).quantize(W)


def test_bad_masks_and_sensitivities():
    X, W = make_layer()
    with pytest.raises(ValueError, match=r"outlier_mask must be a boolean array .* \(20, 40\)"):
        GANQQuantizer().fit(X).quantize(W, outlier_mask=np.ones(W.shape))
    quantizer = KMeansQuantizer().fit(X)
    with pytest.raises(ValueError, match=r"sensitivity must have the shape \(20, 40\) or \(40,\)"):
        quantizer.quantize(W, sensitivity=np.ones(3))
    with pytest.raises(ValueError, match="finite and at least 0"):
        quantizer.quantize(W, sensitivity=-np.ones(40))


def test_a_singular_gram_matrix_without_preconditioner_says_what_to_change():
    X, _ = make_layer(n_samples=10)
    quantizer = GANQQuantizer(preconditioner="none")
    with pytest.raises(LinAlgError, match="set preconditioner='damping'"):
        quantizer.fit(X)
    assert not hasattr(quantizer, "gram_")


def test_error_of_zero_weights():
    quantizer = RTNQuantizer().fit(np.eye(3))
    assert quantizer.error(np.zeros((1, 3)), np.zeros((1, 3))) == 0
    assert quantizer.error(np.zeros((1, 3)), np.ones((1, 3))) == np.inf
    assert quantizer.error(np.ones((1, 3)), np.zeros((1, 3))) == 1


def test_in_a_pipeline_with_dataframes():
    pd = pytest.importorskip("pandas")
    X, _ = make_layer(n=6)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    quantizer = GANQQuantizer(2).set_output(transform="pandas").fit(frame)
    assert list(quantizer.transform(frame).columns) == list("abcdef")
    embedded = make_pipeline(GANQQuantizer(4), PCA(2)).fit_transform(X)
    assert embedded.shape == (len(X), 2)


def test_dask_gram_needs_no_more_than_the_matrices():
    da = pytest.importorskip("dask.array")
    rng = da.random.default_rng(0)
    X = rng.normal(size=(20_000, 30), chunks=(1000, 30))
    quantizer = GANQQuantizer(3).fit(X)
    assert quantizer.n_samples_seen_ == 20_000
    assert_allclose(quantizer.gram_ / 20_000, np.eye(30), atol=0.06)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 1e20), ("float64", 1e140)])
def test_inputs_whose_products_overflow_are_refused(dtype, size):
    X = np.random.default_rng(0).normal(size=(50, 4))
    with pytest.raises(ValueError, match=f"X is too large for dtype='{dtype}'"):
        GANQQuantizer(dtype=dtype).fit(size * X)
    GANQQuantizer(dtype=dtype).fit(np.sqrt(size) * X).quantize(X)
