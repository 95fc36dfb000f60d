"""The kernels behind the missingness-avoiding linear models, against plain references."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import entr, log_softmax, softmax

from skml.linear_model import MALasso, MALogisticRegression, _design, _least_squares, _logistic
from skml.linear_model._design import DenseDesign, SparseDesign
from skml.linear_model._gram_descent import descend, duality_gap
from skml.linear_model._least_squares import are_collinear, minimise_quadratic
from skml.linear_model._logistic_rows import dual_entropy, evaluate_scores
from skml.linear_model._standardise import observed_moments, standardised_columns
from tests.linear_model._missingness_problems import EXACT, random_problem


def plain_descent(gram, target, threshold, sweeps):
    coef = np.zeros(len(target))
    for _ in range(sweeps):
        for j in range(len(coef)):
            pull = target[j] - gram[j] @ coef + gram[j, j] * coef[j]
            coef[j] = np.sign(pull) * max(abs(pull) - threshold[j], 0) / gram[j, j]
    return coef


def quadratic(seed, k, rank=None):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rank or 3 * k, k))
    y = rng.normal(size=len(Z))
    threshold = rng.uniform(0, 2, size=k) * (rng.random(k) < 0.7)
    return Z, y, np.ascontiguousarray(Z.T @ Z), Z.T @ y, threshold


@pytest.mark.parametrize("k", [1, 2, 7, 64])
@pytest.mark.parametrize("sweeps", [1, 4])
def test_sweeps_equal_plain_coordinate_descent(k, sweeps):
    _, _, gram, target, threshold = quadratic(k, k)
    coef, gradient = np.zeros(k), target.copy()
    padded = np.zeros((k + 3, k + 3))
    padded[:k, :k] = gram
    converged, made, _ = descend(
        padded, target, threshold, coef, gradient, -1.0, -1.0, sweeps, sweeps + 1
    )
    assert not converged
    assert made == sweeps
    assert_allclose(coef, plain_descent(gram, target, threshold, sweeps), rtol=1e-9, atol=1e-12)
    assert_allclose(gradient, target - gram @ coef, atol=1e-9)


@pytest.mark.parametrize("rank", [None, 3])
@pytest.mark.parametrize("k", [1, 5, 40])
def test_minimum_of_a_quadratic(k, rank):
    Z, y, gram, target, threshold = quadratic(100 + k, k, rank)
    if rank is not None:
        threshold = np.maximum(threshold, 1e-3)
    coef, gradient = np.zeros(k), target.copy()
    gap, _ = minimise_quadratic(
        gram, target, threshold, coef, gradient, norm=float(y @ y), tol=1e-10, max_iter=50_000
    )
    assert 0 <= gap <= 1e-10 or abs(gap) <= 1e-10
    residual = Z.T @ (y - Z @ coef)
    assert_allclose(gradient, residual, atol=1e-8)
    assert np.all(np.abs(residual) <= threshold + 1e-4)
    used = coef != 0
    assert_allclose(residual[used], (threshold * np.sign(coef))[used], atol=1e-4)


def test_duality_gap_is_that_of_the_scaled_residual():
    rng = np.random.default_rng(1)
    Z, y = rng.normal(size=(20, 4)), rng.normal(size=20)
    threshold = rng.uniform(0.5, 3, size=4)
    for coef in rng.normal(scale=0.2, size=(50, 4)):
        r = y - Z @ coef
        ratio = np.max(np.abs(Z.T @ r) / threshold)
        # The best multiple of the residual among the feasible ones, by trying them.
        scales = np.linspace(-1 / ratio, 1 / ratio, 20_001)
        dual = np.max(0.5 * y @ y - 0.5 * ((y - scales[:, np.newaxis] * r) ** 2).sum(axis=1))
        charge = threshold @ np.abs(coef)
        gap = duality_gap(y @ y, y @ r, r @ r, charge, ratio)
        assert gap == pytest.approx(0.5 * r @ r + charge - dual, abs=1e-6)
        assert gap >= 0


def test_linear_systems_take_over_where_descent_crawls():
    rng = np.random.default_rng(2)
    base = rng.normal(size=(300, 1))
    X = base + 1e-3 * rng.normal(size=(300, 12))
    y = X @ rng.normal(size=12) * 100 + rng.normal(size=300)
    model = MALasso(1e-3, tol=1e-10, max_iter=2000).fit(X, y)
    Z = (X - X.mean(axis=0)) / model.scale_
    coef, gram = np.zeros(12), Z.T @ Z / 300
    gradient = Z.T @ (y - y.mean()) / 300
    threshold = 1e-3 * model.penalty_weights_
    _, sweeps, gap = descend(
        gram, gradient.copy(), threshold, coef, gradient, y.var(), 0.0, 2000, 5000
    )
    assert sweeps == 2000
    assert model.dual_gap_ <= 1e-10 * y.var() < gap


@pytest.mark.parametrize("shape", [(120, 40), (40, 90)])
@pytest.mark.parametrize("to_matrix", [np.asarray, sparse.csc_array])
def test_working_set_reaches_the_same_solution(monkeypatch, shape, to_matrix):
    X, _, y, weight = random_problem(3, *shape)
    whole = [MALasso(alpha, **EXACT).fit(to_matrix(X), y, weight) for alpha in (0.05, 1.0)]
    monkeypatch.setattr(_least_squares, "_ALL_AT_ONCE", 0)
    for model in whole:
        part = MALasso(model.alpha, **EXACT).fit(to_matrix(X), y, weight)
        assert_allclose(part.coef_, model.coef_, atol=1e-6)
        warm = MALasso(model.alpha, warm_start=True, **EXACT)
        warm.fit(to_matrix(X), y, weight).fit(to_matrix(X), y, weight)
        assert_allclose(warm.coef_, model.coef_, atol=1e-6)


def test_working_set_holds_all_columns_in_another_order(monkeypatch):
    """With every column inside, the set must not be taken for the columns in their order."""
    monkeypatch.setattr(_least_squares, "_ALL_AT_ONCE", 0)
    X, _, y, _ = random_problem(4, 300, 60, missing=0.1)
    model = MALasso(1e-4, beta=30, **EXACT).fit(X, y)
    assert np.count_nonzero(model.coef_) > 55
    monkeypatch.undo()
    assert_allclose(model.coef_, MALasso(1e-4, beta=30, **EXACT).fit(X, y).coef_, atol=1e-6)


def test_classes_in_turn_reach_the_same_solution(monkeypatch):
    X, _, y, weight = random_problem(5, 120, 30, n_classes=3)
    together = MALogisticRegression(0.1, beta=5, tol=1e-11).fit(X, y, weight)
    monkeypatch.setattr(_logistic, "_LARGEST_MODEL", 0)
    in_turn = MALogisticRegression(0.1, beta=5, tol=1e-11, max_iter=1000).fit(X, y, weight)
    assert_allclose(in_turn.coef_, together.coef_, atol=1e-5)
    assert in_turn.n_iter_ > together.n_iter_


def test_logistic_working_set_finds_the_columns(monkeypatch):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(150, 400))
    y = (X[:, 399] + X[:, 7] - X[:, 200] + 0.3 * rng.normal(size=150) > 0).astype(int)
    model = MALogisticRegression(1.0, beta=0.08 * 150, tol=1e-10).fit(X, y)
    Z = (X - X.mean(axis=0)) / model.scale_
    gradient = Z.T @ (y - model.predict_proba(X)[:, 1]) / 150
    assert np.abs(gradient).max() <= 0.08 + 1e-7
    assert {7, 200, 399} <= set(np.flatnonzero(model.coef_[0]))


@pytest.mark.parametrize("n_scores", [1, 2, 5])
@pytest.mark.parametrize("size", [1.0, 1e3])
def test_loss_probabilities_and_entropy_of_rows(n_scores, size):
    rng = np.random.default_rng(10)
    scores = size * rng.normal(size=(37, n_scores))
    codes = rng.integers(0, max(n_scores, 2), size=37)
    indicator = (codes[:, np.newaxis] == (np.arange(n_scores) if n_scores > 1 else [1])) * 1.0
    weight = rng.uniform(size=37)
    probability, residual = np.empty_like(scores), np.empty_like(scores)
    loss = evaluate_scores(scores, indicator, weight, probability, residual)
    both = scores if n_scores > 1 else np.hstack([np.zeros((37, 1)), scores])
    expected = softmax(both, axis=1)
    log_p = log_softmax(both, axis=1)[np.arange(37), codes]
    assert loss == pytest.approx(-weight @ log_p, rel=1e-12)
    assert_allclose(probability, expected[:, -n_scores:], atol=1e-15)
    assert_allclose(residual, indicator - probability)
    for share in (0.0, 0.4, 1.0):
        moved = (1 - share) * np.eye(both.shape[1])[codes] + share * expected
        entropy = dual_entropy(indicator, residual, weight, share)
        assert entropy == pytest.approx(weight @ entr(moved).sum(axis=1), abs=1e-12)


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (33, 129), (65, 260)])
@pytest.mark.parametrize("with_mask", [False, True])
@pytest.mark.parametrize("with_weight", [False, True])
def test_moments_of_observed_cells(shape, with_mask, with_weight):
    rng = np.random.default_rng(7)
    X = rng.normal(loc=3, size=shape)
    X[rng.random(shape) < 0.3] = np.nan
    hidden = rng.random(shape) < 0.2 if with_mask else np.zeros(shape, dtype=bool)
    weight = rng.uniform(0.1, 2, size=shape[0]) if with_weight else np.ones(shape[0])
    seen = ~np.isnan(X) & ~hidden
    for layout in (np.ascontiguousarray(X), np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]):
        mean, variance, missing = observed_moments(
            layout, hidden.view(np.uint8) if with_mask else None, weight if with_weight else None
        )
        assert_allclose(missing, weight @ ~seen, atol=1e-12)
        for j in range(shape[1]):
            values, w = X[seen[:, j], j], weight[seen[:, j]]
            expected = np.average(values, weights=w) if len(values) else 0.0
            assert mean[j] == pytest.approx(expected)
            spread = np.average((values - expected) ** 2, weights=w) if len(values) else 0.0
            assert variance[j] == pytest.approx(spread, abs=1e-14)
        Z = standardised_columns(layout, mean + 1, mean, np.full(shape[1], 2.0))
        assert Z.flags.f_contiguous
        assert_allclose(Z, (np.where(np.isnan(X), mean + 1, X) - mean) / 2)


def test_sparse_design_answers_as_the_dense_one():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(30, 9)) * (rng.random((30, 9)) < 0.4)
    centre, scale = rng.normal(size=9), rng.uniform(0.5, 2, size=9)
    p = rng.dirichlet(np.ones(30))
    for weight in (None, p):
        dense = DenseDesign(X, centre, centre, scale, weight)
        thin = SparseDesign(sparse.csc_array(X), centre, scale, weight)
        some, values = np.array([4, 0, 7]), rng.normal(size=(30, 2))
        other = rng.normal(size=30)
        for mine, theirs in [(thin, dense), (thin.part(some), dense.part(some))]:
            k = mine.n_features
            assert_allclose(
                mine.predict(values[:k].ravel()[:k]), theirs.predict(values[:k].ravel()[:k])
            )
            assert_allclose(mine.correlate(values), theirs.correlate(values), atol=1e-12)
            assert_allclose(mine.correlate(other), theirs.correlate(other), atol=1e-12)
            assert_allclose(mine.gram(), theirs.gram(), atol=1e-12)
            assert_allclose(mine.curvature(other), theirs.curvature(other), atol=1e-12)
            assert_allclose(mine.curvature(p), theirs.curvature(p), atol=1e-12)
            assert_allclose(mine.total(other), theirs.total(other), atol=1e-12)
            assert_allclose(mine.products(thin), theirs.products(dense), atol=1e-12)
        joined = thin.part(some).joined(thin.part([1]))
        assert_allclose(joined.gram(), dense.part([4, 0, 7, 1]).gram(), atol=1e-12)


@pytest.mark.parametrize("n_samples", [1, 16, 17, 50])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_of_rows_give_the_products_of_all(monkeypatch, n_samples, weighted):
    rng = np.random.default_rng(11)
    X = rng.normal(size=(n_samples, 6))
    X[rng.random(X.shape) < 0.2] = np.nan
    fill, centre, scale = rng.normal(size=6), rng.normal(size=6), rng.uniform(1, 2, size=6)
    y = rng.normal(size=n_samples)
    weight = rng.dirichlet(np.ones(n_samples)) if weighted else None
    whole = DenseDesign(X, fill, centre, scale, weight)
    expected = whole.gram(), whole.correlate(y)
    monkeypatch.setattr(_design, "_BLOCK", 16)
    for design in (whole, DenseDesign(X, fill, centre, scale, weight)):
        for ours, theirs in zip(design.gram_and_correlation(y), expected, strict=True):
            assert_allclose(ours, theirs, atol=1e-13)


def test_collinear_columns_are_told_from_correlated_ones():
    rng = np.random.default_rng(9)
    Z = rng.normal(size=(50, 4))
    near = np.column_stack([Z, Z[:, 0] + 1e-4 * Z[:, 1]])
    assert not are_collinear(Z.T @ Z)
    assert not are_collinear((near.T @ near)[:, [0, 1, 2, 3]][[0, 1, 2, 3]])
    exact = np.column_stack([Z, Z[:, 0] - 2 * Z[:, 3]])
    assert are_collinear(exact.T @ exact)
    constant = np.column_stack([Z, np.zeros(50)])
    assert not are_collinear(constant.T @ constant)  # says nothing, but disturbs nobody
    assert_array_equal(are_collinear(np.empty((0, 0))), False)
