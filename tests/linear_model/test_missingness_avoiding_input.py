"""Hostile, odd and tiny input of the missingness-avoiding linear models."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.utils._param_validation import InvalidParameterError

from skml.linear_model import MALasso, MALassoCV, MALogisticRegression, ma_lasso_path
from tests.linear_model._missingness_problems import random_problem

MODELS = [MALasso, MALassoCV, MALogisticRegression]


def problem_for(Model, seed, **kwargs):
    return random_problem(seed, n_classes=2 if Model is MALogisticRegression else None, **kwargs)


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize(
    "params",
    [
        {"beta": -0.1},
        {"tol": -1.0},
        {"max_iter": 0},
        {"imputer": "native"},
        {"fit_intercept": "yes"},
        {"beta": "much"},
    ],
)
def test_parameters_out_of_range(Model, params):
    X, _, y, _ = problem_for(Model, 0)
    with pytest.raises((InvalidParameterError, ValueError), match=next(iter(params))):
        Model(**params).fit(X, y)


@pytest.mark.parametrize("Model", [MALasso, MALogisticRegression])
def test_negative_alpha(Model):
    X, _, y, _ = problem_for(Model, 0)
    with pytest.raises(InvalidParameterError, match="'alpha' parameter"):
        Model(-1e-9).fit(X, y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alphas": [1.0, -0.5]}, "alphas must be >= 0, got -0.5"),
        ({"alphas": [[1.0]]}, "alphas must be a number or a 1-D array, got shape"),
        ({"alphas": 0}, "'alphas' parameter"),
        ({"eps": 1.0}, "'eps' parameter"),
    ],
)
def test_paths_that_make_no_sense(params, message):
    X, _, y, _ = random_problem(0)
    with pytest.raises(ValueError, match=message):
        ma_lasso_path(X, y, **params)
    with pytest.raises(ValueError, match=message):
        MALassoCV(**params).fit(X, y)


@pytest.mark.parametrize("beta", [[], [1.0, -1.0], [np.nan], [[1.0]]])
def test_betas_that_make_no_sense(beta):
    X, _, y, _ = random_problem(0)
    with pytest.raises(ValueError, match="beta must"):
        MALassoCV(beta=beta).fit(X, y)


@pytest.mark.parametrize("Model", MODELS)
def test_bad_data_are_refused_and_leave_no_trace(Model):
    X, mask, y, _ = problem_for(Model, 1)
    infinite = X.copy()
    infinite[3, 2] = np.inf
    cases = [
        ((infinite, y), {}, "infinity"),
        ((X, np.where(np.arange(len(y)) == 5, np.nan, y)), {}, "NaN"),
        ((X, y), {"missing_mask": mask[:-1]}, r"missing_mask must have the shape of X, \(200, 8\)"),
        ((X, y), {"missing_mask": mask * 2}, "missing_mask must hold booleans, or 0 and 1"),
        ((X, y), {"missing_mask": mask.astype(str)}, "missing_mask must hold booleans"),
        ((X, y), {"sample_weight": np.zeros(len(y))}, "positive sum|non-zero"),
        ((X, y), {"sample_weight": -np.ones(len(y))}, "sample_weight"),
        ((X, np.column_stack([y, y])), {}, "1d array"),
    ]
    for data, kwargs, message in cases:
        model = Model()
        with pytest.raises(ValueError, match=message):
            model.fit(*data, **kwargs)
        assert not [name for name in vars(model) if name.endswith("_")]
    model = Model().fit(X, y)
    coef = model.coef_.copy()
    with pytest.raises(ValueError, match="missing_mask"):
        model.fit(X, y, missing_mask=mask[:, :2])
    assert_array_equal(model.coef_, coef)
    with pytest.raises(ValueError, match="missing_mask"):
        model.score(X, y, missing_mask=mask[:, :2])
    with pytest.raises(ValueError, match="missing_mask"):
        model.missingness_reliance(X, missing_mask=mask[:3])


def test_sparse_input_says_what_it_cannot_do():
    X, mask, y, _ = random_problem(2)
    X = sparse.csc_array(np.nan_to_num(X))
    for imputer in ("median", SimpleImputer()):
        with pytest.raises(ValueError, match="imputer must be 'mean' or 'zero' for a sparse X"):
            MALasso(imputer=imputer).fit(X, y)
    with pytest.raises(ValueError, match="missing_mask must have the shape of X"):
        MALasso().fit(X, y, missing_mask=sparse.csc_array(mask[:5]))
    with pytest.raises(ValueError, match="missing_mask must hold booleans, or 0 and 1"):
        MALasso().fit(X, y, missing_mask=sparse.csc_array(mask * 3.0))
    holed = X.copy()
    holed.data[:3] = np.nan
    model = MALasso(imputer=SimpleImputer()).fit(X.toarray(), y)
    with pytest.raises(ValueError, match="imputer=SimpleImputer cannot fill a sparse X"):
        model.predict(holed)


def test_one_class_is_refused():
    X, _, y, _ = random_problem(3, n_classes=2)
    with pytest.raises(ValueError, match="at least 2 classes"):
        MALogisticRegression().fit(X, np.zeros(len(y)))
    with pytest.raises(ValueError, match="at least 2 classes"):
        MALogisticRegression().fit(X, y, sample_weight=y == 1)
    with pytest.raises(ValueError, match="class_weight must leave at least 2 classes"):
        MALogisticRegression(class_weight={0: 0.0, 1: 1.0}).fit(X, y)
    with pytest.raises(ValueError, match="class_weight must hold finite weights >= 0"):
        MALogisticRegression(class_weight={0: -1.0, 1: 1.0}).fit(X, y)


@pytest.mark.parametrize("Model", [MALasso, MALogisticRegression])
def test_too_few_iterations_warn(Model):
    X, _, y, _ = problem_for(Model, 4)
    with pytest.warns(ConvergenceWarning, match="duality gap .* bound .*Increase max_iter"):
        model = Model(0.01, max_iter=1, tol=1e-10).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert model.dual_gap_ > 0
    assert np.max(model.n_iter_) == 1


@pytest.mark.parametrize("Model", [MALasso, MALogisticRegression])
def test_free_columns_that_depend_on_each_other_warn(Model):
    X, _, y, _ = problem_for(Model, 5)
    X = np.column_stack([X, X[:, -1], 2 * X[:, -1] + 1])
    with pytest.warns(ConvergenceWarning, match="3 features have no penalty .* not unique"):
        model = Model(0.1, beta=0.0).fit(X, y)
    alone = Model(0.1, beta=0.0).fit(X[:, :8], y)
    assert_allclose(model.predict(X), alone.predict(X[:, :8]), atol=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Model(0.1, beta=0.01).fit(X, y)


def test_more_free_columns_than_rows():
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(10, 25)), rng.normal(size=10)
    with pytest.warns(ConvergenceWarning, match="25 features have no penalty"):
        model = MALasso(1.0, beta=0.0, tol=1e-10, max_iter=100_000).fit(X, y)
    assert_allclose(model.predict(X), y, atol=1e-4)


def test_separable_classes_without_penalty_end_with_a_warning():
    X = np.arange(10.0)[:, np.newaxis]
    with pytest.warns(ConvergenceWarning):
        model = MALogisticRegression(0.0, tol=1e-14, max_iter=30).fit(X, X[:, 0] > 4.5)
    assert np.isfinite(model.coef_).all()
    assert model.score(X, X[:, 0] > 4.5) == 1.0


@pytest.mark.parametrize("Model", MODELS)
def test_columns_without_information(Model):
    X, _, y, _ = problem_for(Model, 7)
    X = np.column_stack([X, np.full(len(X), np.nan), np.full(len(X), 7.3), np.zeros(len(X))])
    X[:, 9][:50] = np.nan
    for matrix in (X, sparse.csc_array(X)):
        model = Model().fit(matrix, y)
        assert_array_equal(np.atleast_2d(model.coef_)[:, 8:], 0.0)
        assert_array_equal(model.scale_[8:], 1.0)
        assert model.feature_missing_rate_[8] == 1.0
        assert model.imputer_.statistics_[8] == 0.0
        assert np.isfinite(model.predict(matrix)).all()


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1e12])
def test_tiny_and_constant_problems(alpha):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        constant = MALasso(alpha).fit(np.arange(6.0).reshape(3, 2), [2.0, 2.0, 2.0])
        assert_allclose(constant.predict([[1.0, 5.0]]), 2.0)
        one_row = MALasso(alpha).fit([[1.0, np.nan]], [3.0])
        assert_allclose(one_row.predict([[9.0, 9.0]]), 3.0)
        empty = MALasso(alpha).fit(np.full((4, 2), np.nan), np.arange(4.0))
        assert_allclose(empty.predict([[5.0, np.nan]]), 1.5)
        two = MALogisticRegression(alpha, max_iter=20).fit([[0.0], [1.0]], ["no", "yes"])
        assert_array_equal(two.classes_, ["no", "yes"])
        alphas, coefs, _, _ = ma_lasso_path(np.arange(6.0).reshape(3, 2), [2.0, 2.0, 2.0], alphas=3)
    assert not coefs.any()
    assert np.all(alphas > 0)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_extreme_units(scale):
    X, _, y, _ = random_problem(8)
    plain = MALasso(0.3, tol=1e-10).fit(X, y)
    assert_allclose(MALasso(0.3, tol=1e-10).fit(X * scale, y).coef_ * scale, plain.coef_, atol=1e-6)
    scaled = MALasso(0.3 * scale, tol=1e-10).fit(X, y * scale)
    assert_allclose(scaled.coef_ / scale, plain.coef_, atol=1e-6)


def test_a_far_origin_costs_no_precision():
    X, _, y, _ = random_problem(9, missing=0.0)
    near = LinearRegression().fit(X, y)
    far = MALasso(0.0, tol=1e-14).fit(X + 1e6, y)
    assert_allclose(far.coef_, near.coef_, rtol=1e-5)


@pytest.mark.parametrize("tol", [0.0, 1e-300])
def test_a_tolerance_out_of_reach_ends(tol):
    for Model in (MALasso, MALogisticRegression):
        X, _, y, _ = problem_for(Model, 10)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = Model(0.1, tol=tol).fit(X, y)
        assert np.isfinite(model.coef_).all()


def test_float32_and_integers_are_taken():
    X, _, y, _ = random_problem(11)
    single = MALasso(0.1).fit(X.astype(np.float32), y.astype(np.float32))
    assert single.coef_.dtype == np.float64
    assert_allclose(single.predict(X), MALasso(0.1).fit(X, y).predict(X), atol=1e-3)
    whole = np.round(np.nan_to_num(X)).astype(int)
    assert_allclose(
        MALasso(0.1).fit(whole, np.round(y).astype(int)).coef_,
        MALasso(0.1).fit(whole.astype(float), np.round(y)).coef_,
    )


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize("kind", ["csc_array", "csr_array", "coo_array"])
def test_a_sparse_cell_may_be_stored_as_several_summands(Model, kind):
    X, _, y, _ = problem_for(Model, 1)
    X[np.abs(X) < 0.5] = 0.0
    row, column = np.nonzero(X)
    value = X[row, column]
    # The summands of a cell lie apart; those of a missing one are 1 and NaN.
    first = np.where(np.isnan(value), 1.0, value / 4)
    parts = sparse.coo_array(
        (np.r_[first, value - first], (np.r_[row, row], np.r_[column, column])), shape=X.shape
    )
    if kind == "csc_array":
        order = np.lexsort((parts.row, parts.col))
        indptr = np.searchsorted(parts.col[order], np.arange(X.shape[1] + 1))
        parts = sparse.csc_array((parts.data[order], parts.row[order], indptr), shape=X.shape)
    elif kind == "csr_array":
        order = np.lexsort((parts.col, parts.row))
        indptr = np.searchsorted(parts.row[order], np.arange(X.shape[0] + 1))
        parts = sparse.csr_array((parts.data[order], parts.col[order], indptr), shape=X.shape)
    stored = parts.nnz
    whole, split = (Model(tol=1e-10).fit(data, y) for data in (X, parts))
    assert parts.nnz == stored  # the caller's matrix is left alone
    assert_allclose(split.coef_, whole.coef_, rtol=1e-6, atol=1e-9)
    assert_allclose(split.predict(parts), whole.predict(X), rtol=1e-6, atol=1e-9)
    assert_array_equal(split.missingness_reliance(parts), whole.missingness_reliance(X))


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("Model", MODELS)
def test_columns_too_large_to_be_squared_are_named(Model, as_sparse):
    X, _, y, _ = problem_for(Model, 0)
    X[:, 2] *= 1e200
    model = Model()
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(ValueError, match="column 2"):
        model.fit(sparse.csc_array(X) if as_sparse else X, y)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("multi_class", ["multinomial", "ovr"])
@pytest.mark.parametrize("dropped", [0, 1, 2])
def test_a_class_of_weight_zero_is_an_absent_class(multi_class, dropped):
    X, _, y, _ = random_problem(4, n_classes=3)
    left = y != dropped
    weighted = MALogisticRegression(
        alpha=0.01, multi_class=multi_class, class_weight={k: float(k != dropped) for k in range(3)}
    ).fit(X, y)
    without = MALogisticRegression(alpha=0.01, multi_class=multi_class).fit(X[left], y[left])
    assert_array_equal(weighted.classes_, without.classes_)
    assert_allclose(weighted.coef_, without.coef_, rtol=1e-10, atol=1e-12)
    assert_allclose(weighted.predict_proba(X), without.predict_proba(X), rtol=1e-10)


def test_splits_that_cannot_be_fitted_or_scored_are_refused():
    X, _, y, _ = random_problem(0)
    third = np.arange(len(y)) < len(y) // 3 + 1  # the first of three parts
    with pytest.raises(ValueError, match=r"sample_weight .* training part of split 0 of cv=3"):
        MALassoCV(cv=3).fit(X, y, third.astype(float))
    with pytest.raises(ValueError, match=r"sample_weight .* test part of split 0 of cv=3"):
        MALassoCV(cv=3).fit(X, y, (~third).astype(float))
    with pytest.raises(ValueError, match="scoring='r2' needs at least 2 rows .* got 1 in split"):
        MALassoCV(cv=4).fit(X[:4], y[:4])
    model = MALassoCV(cv=4, scoring="neg_mean_squared_error").fit(X[:4], y[:4])
    assert np.isfinite(model.score_path_).all()
