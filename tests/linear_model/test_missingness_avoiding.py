"""What a sceptic would ask of the missingness-avoiding linear models."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, lasso_path
from sklearn.model_selection import LeaveOneOut, train_test_split

from skml.datasets import load_card
from skml.linear_model import MALasso, MALassoCV, MALogisticRegression, ma_lasso_path
from skml.metrics import missingness_reliance
from skml.preprocessing import NaNOneHotEncoder
from tests.linear_model._missingness_problems import (
    EXACT,
    lasso_objective,
    log_loss,
    random_problem,
    standardised,
)

MODELS = [MALasso, MALassoCV, MALogisticRegression]


def problem_for(Model, seed, **kwargs):
    return random_problem(seed, n_classes=3 if Model is MALogisticRegression else None, **kwargs)


# ----- the solution ------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(80, 6), (25, 60)])
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_lasso_gap_bounds_the_distance_from_the_minimum(tol, shape):
    X, mask, y, weight = random_problem(1, *shape)
    Z = standardised(X, mask, weight)
    for alpha in (0.05, 0.5):
        best = MALasso(alpha, **EXACT).fit(X, y, sample_weight=weight)
        loose = MALasso(alpha, tol=tol).fit(X, y, sample_weight=weight)
        price = alpha * best.penalty_weights_
        least = lasso_objective(best.coef_ * best.scale_, Z, y, price, weight)
        reached = lasso_objective(loose.coef_ * loose.scale_, Z, y, price, weight)
        assert -1e-9 <= reached - least <= loose.dual_gap_ + 1e-9
        variance = np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)
        assert loose.dual_gap_ <= tol * variance


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_logistic_gap_bounds_the_distance_from_the_minimum(tol, n_classes):
    X, mask, y, weight = random_problem(2, n_classes=n_classes)
    Z = standardised(X, mask, weight)

    def objective(model):
        theta = model.coef_ * model.scale_
        scores = model.decision_function(X).reshape(len(X), -1)
        scores = np.hstack([np.zeros((len(X), 2 - min(2, scores.shape[1]))), scores])
        assert_allclose(scores[:, 1:] - scores[:, :1], _differences(Z, theta, model), atol=1e-8)
        charge = model.alpha * model.penalty_weights_ @ np.abs(theta).sum(axis=0)
        return log_loss(scores, y, weight) + charge

    for alpha in (0.01, 0.1):
        best = MALogisticRegression(alpha, tol=1e-12).fit(X, y, sample_weight=weight)
        loose = MALogisticRegression(alpha, tol=tol).fit(X, y, sample_weight=weight)
        assert -1e-12 <= objective(loose) - objective(best) <= loose.dual_gap_ + 1e-12
        shares = np.bincount(y, weights=weight) / weight.sum()
        assert loose.dual_gap_ <= tol * -(shares @ np.log(shares))


def _differences(Z, theta, model):
    """Scores against the first class, up to the intercepts, from standardised coefficients."""
    scores = Z @ theta.T
    shift = model.intercept_ + model.coef_ @ _centres(Z, model)
    scores = scores + shift
    if scores.shape[1] == 1:
        return scores
    return scores[:, 1:] - scores[:, :1]


def _centres(Z, model):
    # Imputed by means: the mean of a standardised column is zero at the imputed mean.
    return model.imputer_.statistics_


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_logistic_conditions_of_a_minimum(n_classes, beta):
    X, mask, y, weight = random_problem(3, n_classes=n_classes)
    Z = standardised(X, mask, weight)
    p = weight / weight.sum()
    for alpha in (0.003, 0.05, 0.5):
        model = MALogisticRegression(alpha, beta=beta, tol=1e-12)
        model.fit(X, y, sample_weight=weight)
        assert_allclose(model.penalty_weights_, p @ mask + beta / weight.sum(), rtol=1e-12)
        residual = np.eye(n_classes)[y] - model.predict_proba(X)
        gradient = Z.T @ (p[:, np.newaxis] * residual)
        assert np.abs(p @ residual).max() < 1e-10  # the intercept is free
        theta = (model.coef_ * model.scale_).T
        if n_classes == 2:
            gradient = gradient[:, 1:]
        price = np.broadcast_to(alpha * model.penalty_weights_[:, np.newaxis], theta.shape)
        assert np.all(np.abs(gradient) <= price + 1e-7)
        used = theta != 0
        assert_allclose(gradient[used], (price * np.sign(theta))[used], atol=1e-7)


def test_logistic_equals_saga_on_scaled_columns():
    for n_classes in (2, 3):
        X, mask, y, _ = random_problem(4, n_classes=n_classes)
        penalty = mask.mean(axis=0) + 20.0 / len(X)
        Z = standardised(X, mask) / penalty
        for alpha in (0.05, 0.2):
            model = MALogisticRegression(alpha, beta=20.0, tol=1e-12).fit(X, y)
            peer = LogisticRegression(
                l1_ratio=1, C=1 / (alpha * len(X)), solver="saga", tol=1e-9, max_iter=50_000
            ).fit(Z, y)
            assert_allclose(model.predict_proba(X), peer.predict_proba(Z), atol=1e-6)
            if n_classes == 2:
                assert_allclose(model.coef_ * model.scale_, peer.coef_ / penalty, atol=1e-5)


def test_logistic_without_intercept_equals_liblinear():
    X, _, y, _ = random_problem(5, missing=0.0, n_classes=2)
    X = np.abs(X)
    model = MALogisticRegression(0.5, beta=20.0, fit_intercept=False, tol=1e-12).fit(X, y)
    peer = LogisticRegression(
        l1_ratio=1, C=1 / (0.5 * 20), solver="liblinear", fit_intercept=False, tol=1e-10
    ).fit(X / model.scale_, y)
    assert_allclose(model.coef_ * model.scale_, peer.coef_, atol=1e-5)
    assert_array_equal(model.intercept_, [0.0])


def test_one_versus_rest_is_one_problem_per_class():
    X, _, y, weight = random_problem(6, n_classes=3)
    together = MALogisticRegression(0.05, multi_class="ovr", tol=1e-12)
    together.fit(X, y, sample_weight=weight)
    parts = [
        MALogisticRegression(0.05, tol=1e-12).fit(X, y == k, sample_weight=weight) for k in range(3)
    ]
    assert_allclose(together.coef_, np.vstack([part.coef_ for part in parts]), atol=1e-9)
    single = np.column_stack([part.predict_proba(X)[:, 1] for part in parts])
    assert_allclose(together.predict_proba(X), single / single.sum(axis=1, keepdims=True))
    assert_allclose(np.exp(together.predict_log_proba(X)), together.predict_proba(X))
    assert together.n_iter_.shape == (3,)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_alpha_zero_is_the_model_without_penalty(n_classes):
    X, mask, y, _ = random_problem(7, n_classes=n_classes)
    Z = standardised(X, mask)
    model = MALogisticRegression(0.0, tol=1e-13).fit(X, y)
    peer = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(Z, y)
    assert_allclose(model.predict_proba(X), peer.predict_proba(Z), atol=1e-5)
    model = MALasso(0.0, **EXACT).fit(X, y.astype(float))
    peer = LinearRegression().fit(Z, y)
    assert_allclose(model.predict(X), peer.predict(Z), atol=1e-8)


def test_equals_the_weighted_lasso_of_skglm():
    skglm = pytest.importorskip("skglm")
    X, mask, y, _ = random_problem(8)
    Z = standardised(X, mask)
    for beta in (0.0, 1.0):
        model = MALasso(0.3, beta=beta, **EXACT).fit(X, y)
        peer = skglm.WeightedLasso(0.3, weights=model.penalty_weights_, tol=1e-10).fit(Z, y)
        assert_allclose(model.coef_ * model.scale_, peer.coef_, atol=1e-8)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_coefficients_are_better(data):
    """Whatever X is like: low rank, constant, repeated columns, fewer rows than columns."""
    n, d = data.draw(st.integers(2, 8)), data.draw(st.integers(1, 6))
    cells = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0, np.nan])
    X = data.draw(npst.arrays(float, (n, d), elements=cells))
    y = data.draw(npst.arrays(float, n, elements=st.floats(-5, 5, width=16)))
    alpha = data.draw(st.sampled_from([0.01, 0.3, 2.0]))
    model = MALasso(alpha, beta=1.0, tol=1e-9, max_iter=20_000).fit(X, y)
    Z = (model.imputer_.transform(X) - model.imputer_.statistics_) / model.scale_
    theta, price = model.coef_ * model.scale_, alpha * model.penalty_weights_
    reached = lasso_objective(theta, Z, y, price)
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1, 1.0):
        for other in theta + size * rng.normal(size=(20, d)):
            assert reached <= lasso_objective(other, Z, y, price) + 1e-6 * (1 + y.var())
    assert reached <= lasso_objective(np.zeros(d), Z, y, price) + 1e-9


# ----- what must not matter ----------------------------------------------------------------


@pytest.mark.parametrize("Model", MODELS)
def test_units_of_the_columns_do_not_matter(Model):
    X, _, y, _ = problem_for(Model, 10)
    factor, shift = np.array([1e3, 1e-3, 5, 1, 2, 3, 0.1, 7]), np.arange(8) * 100.0
    one = Model(tol=1e-10).fit(X, y)
    other = Model(tol=1e-10).fit(X * factor + shift, y)
    assert_allclose(other.coef_ * factor, one.coef_, atol=1e-5)
    assert_allclose(other.missingness_reliance_, one.missingness_reliance_)


def test_unit_of_y_moves_with_alpha():
    X, _, y, _ = random_problem(11)
    one = MALasso(0.4, **EXACT).fit(X, y)
    other = MALasso(4.0, **EXACT).fit(X, 10 * y + 3)
    assert_allclose(other.coef_, 10 * one.coef_, atol=1e-6)


@pytest.mark.parametrize("Model", [MALasso, MALogisticRegression])
def test_order_of_rows_and_columns_does_not_matter(Model):
    X, _, y, weight = problem_for(Model, 12)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    model = Model(0.05, tol=1e-12)
    one = clone(model).fit(X, y, sample_weight=weight)
    other = clone(model).fit(X[rows][:, columns], y[rows], sample_weight=weight[rows])
    assert_allclose(other.coef_, one.coef_[..., columns], atol=1e-7)


@pytest.mark.parametrize("Model", [MALasso, MALogisticRegression])
def test_only_beta_depends_on_the_sum_of_weights(Model):
    X, _, y, weight = problem_for(Model, 13)
    for beta, same in [(0.0, True), (50.0, False)]:
        model = Model(0.1, beta=beta, tol=1e-12)
        one = clone(model).fit(X, y, sample_weight=weight)
        other = clone(model).fit(X, y, sample_weight=3 * weight)
        assert np.allclose(one.coef_, other.coef_, atol=1e-7) is same


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_layout_of_X_does_not_matter_and_X_is_left_alone(order):
    X, mask, y, weight = random_problem(14)
    expected = MALasso(0.1).fit(X, y, sample_weight=weight)
    other = np.asarray(X, order=order) if order != "strided" else np.repeat(X, 2, axis=1)[:, ::2]
    other.setflags(write=False)
    model = MALasso(0.1).fit(other, y, sample_weight=weight)
    assert_allclose(model.coef_, expected.coef_, rtol=1e-9, atol=1e-12)
    assert_array_equal(np.isnan(other), mask)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("imputer", ["mean", "zero"])
@pytest.mark.parametrize("Model", MODELS)
def test_sparse_equals_dense(Model, imputer, fit_intercept):
    rng = np.random.default_rng(15)
    X, _, y, weight = problem_for(Model, 15)
    X[rng.random(X.shape) < 0.5] = 0.0
    weight[:5] = 0.0
    params = {"tol": 1e-11, "imputer": imputer, "fit_intercept": fit_intercept}
    dense = Model(**params).fit(X, y, sample_weight=weight)
    for container in (sparse.csc_array, sparse.csr_matrix):
        stored = container(X)
        before = stored.copy()
        model = Model(**params).fit(stored, y, sample_weight=weight)
        assert_allclose(model.scale_, dense.scale_, rtol=1e-10)
        assert_allclose(model.penalty_weights_, dense.penalty_weights_, rtol=1e-10)
        assert_allclose(model.coef_, dense.coef_, atol=1e-6)
        assert_allclose(model.intercept_, dense.intercept_, atol=1e-5)
        predicted, expected = model.predict(stored), model.predict(X)
        assert_allclose(predicted, expected, rtol=1e-10, atol=1e-12)
        assert_array_equal(stored.indices, before.indices)
        assert_array_equal(stored.data, before.data)
        cells = dense.missingness_reliance(X)
        assert_array_equal(model.missingness_reliance(stored), cells)
        assert_array_equal(model.missingness_reliance(stored, reduce=True), cells.any(axis=1))


def test_zeros_that_are_not_stored_are_observed():
    X = sparse.csc_array(np.array([[0, 1.0], [np.nan, 0], [2, 0], [0, 3]]))
    model = MALasso(0.1).fit(X, [0.0, 1, 2, 3])
    assert_allclose(model.feature_missing_rate_, [0.25, 0])
    mean = 2 / 3
    assert_allclose(model.imputer_.statistics_, [mean, 1.0])
    assert_allclose(model.scale_[0], np.sqrt((2 * mean**2 + (2 - mean) ** 2) / 3))


def test_without_intercept_the_prediction_of_the_origin_is_zero():
    X, _, y, _ = random_problem(16)
    model = MALasso(0.1, fit_intercept=False).fit(X, y)
    assert model.intercept_ == 0.0
    assert_allclose(model.predict(np.zeros((1, 8))), 0.0)


# ----- weights, classes, imputers ----------------------------------------------------------


def test_class_weights_multiply_the_weights():
    X, _, y, weight = random_problem(20, n_classes=3)
    y[y == 2] = np.where(np.arange((y == 2).sum()) % 3 == 0, 2, 0)
    given = {0: 1.0, 1: 2.0, 2: 5.0}
    by_class = MALogisticRegression(0.1, class_weight=given, tol=1e-12)
    by_class.fit(X, y, sample_weight=weight)
    by_row = MALogisticRegression(0.1, tol=1e-12)
    by_row.fit(X, y, sample_weight=weight * np.array([1.0, 2.0, 5.0])[y])
    assert_allclose(by_class.coef_, by_row.coef_, atol=1e-9)
    assert_allclose(by_class.penalty_weights_, by_row.penalty_weights_)
    balanced = MALogisticRegression(1e6, class_weight="balanced").fit(X, y, sample_weight=weight)
    assert_allclose(balanced.predict_proba(X[:1]), 1 / 3, atol=1e-6)


def test_a_class_without_weight_is_not_seen():
    X, _, y, _ = random_problem(21, n_classes=3)
    for hidden in range(3):
        model = MALogisticRegression(0.1, tol=1e-12).fit(X, y, sample_weight=y != hidden)
        without = MALogisticRegression(0.1, tol=1e-12).fit(X[y != hidden], y[y != hidden])
        assert_array_equal(model.classes_, np.delete(np.arange(3), hidden))
        assert_allclose(model.coef_, without.coef_, atol=1e-9)


@pytest.mark.parametrize("Model", [MALasso, MALogisticRegression])
def test_an_imputer_inside_equals_a_mask_outside(Model):
    X, mask, y, _ = problem_for(Model, 22)
    imputer = IterativeImputer(max_iter=3, random_state=0)
    inside = Model(0.05, imputer=imputer, tol=1e-12).fit(X, y)
    imputed = clone(imputer).fit_transform(X)
    outside = Model(0.05, tol=1e-12).fit(imputed, y, missing_mask=mask)
    assert_allclose(inside.coef_, outside.coef_, atol=1e-8)
    assert_allclose(inside.scale_, outside.scale_)
    assert_array_equal(inside.predict(X), outside.predict(imputed))


def test_columns_of_one_category_share_their_price():
    categories = np.array(["a", "b", "c", None, "a", "b", None, "c"], dtype=object)[:, np.newaxis]
    X = NaNOneHotEncoder(sparse_output=False).fit_transform(categories)
    model = MALasso(0.01).fit(X, np.arange(8.0))
    assert_allclose(model.penalty_weights_, np.full(X.shape[1], 2 / 8 + 1 / 8))


# ----- reliance ----------------------------------------------------------------------------


@pytest.mark.parametrize("Model", [MALasso, MALogisticRegression])
def test_reliance_is_a_missing_cell_of_a_used_feature(Model):
    X, mask, y, weight = problem_for(Model, 30)
    extra = np.random.default_rng(30).random(X.shape) < 0.1
    for alpha in (0.01, 0.1, 1.0, 1e5):
        model = Model(alpha).fit(X, y, sample_weight=weight)
        used = [np.any(np.atleast_2d(model.coef_)[:, j] != 0) for j in range(8)]
        expected = np.array([[m and u for m, u in zip(row, used, strict=True)] for row in mask])
        assert_array_equal(model.missingness_reliance(X), expected)
        rows = expected.any(axis=1)
        assert_array_equal(model.missingness_reliance(X, reduce=True), rows)
        assert model.missingness_reliance_ == pytest.approx(np.average(rows, weights=weight))
        assert missingness_reliance(model, X, sample_weight=weight) == pytest.approx(
            model.missingness_reliance_
        )
        more = model.missingness_reliance(X, missing_mask=extra)
        assert_array_equal(more, (mask | extra) & np.array(used))
    assert model.missingness_reliance_ == 0.0
    assert not model.missingness_reliance(np.nan_to_num(X)).any()


def test_equal_reliance_costs_less_score_than_with_a_plain_penalty():
    """The experiment on wages: at the same reliance the plain Lasso loses .04 of R²."""
    X, y = load_card(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
    model = MALasso(1.0).fit(X_train, y_train)
    assert missingness_reliance(model, X_test) <= 0.0183
    scale = np.nanstd(X_train, axis=0)
    Z = (SimpleImputer().fit_transform(X_train) - np.nanmean(X_train, axis=0)) / scale
    Z_test = np.where(np.isnan(X_test), 0, (X_test - np.nanmean(X_train, axis=0)) / scale)
    _, coefs, _ = lasso_path(Z - Z.mean(axis=0), y_train - y_train.mean(), alphas=[0.05])
    used = coefs[:, 0] != 0
    assert np.isnan(X_test[:, used]).any(axis=1).mean() >= 0.0182
    error = y_test - y_train.mean() - (Z_test - Z.mean(axis=0)) @ coefs[:, 0]
    plain = 1 - np.mean(error**2) / y_test.var()
    assert model.score(X_test, y_test) >= plain + 0.04


# ----- path and search ---------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(200, 8), (30, 80)])
def test_path_is_made_of_single_fits(shape):
    X, _, y, weight = random_problem(40, *shape)
    alphas, coefs, intercepts, gaps = ma_lasso_path(
        X, y, weight, alphas=[0.02, 0.5, 3.0], beta=2.0, tol=1e-12, max_iter=100_000
    )
    assert_array_equal(alphas, [3.0, 0.5, 0.02])
    for k, alpha in enumerate(alphas):
        model = MALasso(alpha, beta=2.0, **EXACT).fit(X, y, sample_weight=weight)
        assert_allclose(coefs[:, k], model.coef_, atol=1e-6)
        assert_allclose(intercepts[k], model.intercept_, atol=1e-5)
    assert np.all(gaps <= 1e-12 * np.var(y) * 2)


def test_default_path_starts_where_nothing_is_left_and_equals_the_grid_of_sklearn():
    X, mask, y, _ = random_problem(41, missing=0.0)
    mask = np.zeros(X.shape, dtype=bool)
    for j in range(8):
        mask[j::10, j] = True
    X = np.where(mask, np.nan, X)
    alphas, coefs, _, _ = ma_lasso_path(X, y, beta=0.0, alphas=50, eps=1e-2)
    assert not coefs[:, 0].any()
    assert coefs[:, 1].any()
    Z = standardised(X, mask)
    theirs, _, _ = lasso_path(Z, y - y.mean(), eps=1e-2, alphas=50)
    assert_allclose(alphas * 0.1, theirs, rtol=1e-8)


def test_default_path_begins_behind_the_free_columns():
    X, mask, y, _ = random_problem(42)
    _, coefs, _, _ = ma_lasso_path(X, y, beta=0.0, alphas=5)
    free = ~mask.any(axis=0)
    assert free.sum() == 1
    assert_array_equal(coefs[:, 0] != 0, free)
    assert np.count_nonzero(coefs[:, 1]) > 1


@pytest.mark.parametrize("Model", [MALasso, MALogisticRegression])
def test_warm_start_saves_iterations_and_changes_nothing(Model):
    X, _, y, _ = problem_for(Model, 43)
    cold = Model(0.05, tol=1e-12).fit(X, y)
    warm = Model(0.05, tol=1e-12, warm_start=True).fit(X, y)
    coef = warm.coef_.copy()
    warm.fit(X, y)
    assert_allclose(warm.coef_, cold.coef_, atol=1e-7)
    assert_allclose(coef, cold.coef_, atol=1e-7)
    assert np.max(warm.n_iter_) <= 1 < np.max(cold.n_iter_)
    warm.set_params(alpha=0.5).fit(X[:, :5], y)  # other columns: a fresh start
    assert_allclose(warm.coef_, Model(0.5, tol=1e-12).fit(X[:, :5], y).coef_, atol=1e-7)


def test_lasso_cv_rule():
    X, _, y, weight = random_problem(44)
    fits = {
        gamma: MALassoCV(alphas=20, beta=[0.5, 20.0], gamma=gamma, cv=3).fit(X, y, weight)
        for gamma in (0.0, 0.7, 1.0)
    }
    score = fits[1.0].score_path_.mean(axis=-1)
    reliance = fits[1.0].reliance_path_.mean(axis=-1)
    assert score.shape == (2, 20)
    for gamma, model in fits.items():
        b = np.flatnonzero(model.betas_ == model.beta_)[0]
        a = np.flatnonzero(model.alphas_[b] == model.alpha_)[0]
        eligible = score >= gamma * score.max() if gamma else np.ones_like(score, dtype=bool)
        assert eligible[b, a]
        assert reliance[b, a] == reliance[eligible].min()
        final = MALasso(model.alpha_, beta=model.beta_).fit(X, y, weight)
        assert_allclose(model.coef_, final.coef_, atol=1e-10)
    assert fits[0.0].missingness_reliance_ <= fits[0.7].missingness_reliance_
    assert fits[0.7].missingness_reliance_ <= fits[1.0].missingness_reliance_


def test_lasso_cv_on_two_jobs_is_the_same():
    X, _, y, weight = random_problem(45)
    one = MALassoCV(alphas=10).fit(X, y, weight)
    two = MALassoCV(alphas=10, n_jobs=2).fit(X, y, weight)
    assert_array_equal(one.score_path_, two.score_path_)
    assert_array_equal(one.reliance_path_, two.reliance_path_)
    assert_array_equal(one.coef_, two.coef_)


def test_lasso_cv_takes_single_rows_with_a_score_that_they_have():
    X, _, y, _ = random_problem(46, n=12)
    model = MALassoCV(alphas=5, cv=LeaveOneOut(), scoring="neg_mean_squared_error").fit(X, y)
    assert model.score_path_.shape == (1, 5, 12)
    assert np.isfinite(model.coef_).all()
    with pytest.raises(ValueError, match="needs at least 2 rows in the test part"):
        MALassoCV(alphas=5, cv=LeaveOneOut()).fit(X, y)
