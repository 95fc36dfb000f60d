"""The numbered oracles of missingness-avoiding linear models: answers known beforehand."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skml.linear_model import MALasso, MALassoCV, MALogisticRegression, ma_lasso_path
from skml.metrics import missingness_reliance, missingness_reliance_scorer
from skml.model_selection import TradeoffRefit
from tests.linear_model._missingness_problems import EXACT, random_problem, standardised


@pytest.mark.parametrize("imputer", ["mean", "median", "zero"])
@pytest.mark.parametrize(
    ("Model", "params"),
    [
        (MALasso, {"alpha": 0.5}),
        (MALogisticRegression, {"alpha": 0.05}),
        (MALogisticRegression, {"alpha": 0.05, "multi_class": "ovr"}),
    ],
)
def test_oracle_05_integer_weights_are_repeated_rows(Model, params, imputer):
    n_classes = 3 if Model is MALogisticRegression else None
    X, mask, y, _ = random_problem(5, n=150, n_classes=n_classes)
    imputed = SimpleImputer().fit_transform(X)
    weight = np.random.default_rng(5).integers(0, 4, size=len(X))
    rows = np.repeat(np.arange(len(X)), weight)
    for data, hidden in [(X, None), (imputed, mask)]:
        model = Model(imputer=imputer, tol=1e-13, **params)
        weighted = clone(model).fit(data, y, sample_weight=weight, missing_mask=hidden)
        repeated = clone(model).fit(
            data[rows], y[rows], missing_mask=None if hidden is None else hidden[rows]
        )
        assert_allclose(weighted.penalty_weights_, repeated.penalty_weights_, rtol=1e-12)
        assert_allclose(weighted.scale_, repeated.scale_, rtol=1e-12)
        assert_allclose(weighted.coef_, repeated.coef_, atol=1e-7)
        assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-6)
        assert weighted.missingness_reliance_ == pytest.approx(repeated.missingness_reliance_)


@pytest.mark.parametrize("alpha", [0.01, 0.3, 2.0, 50.0])
@pytest.mark.parametrize("beta", [0.0, 1.0, 30.0])
def test_oracle_08_conditions_of_a_minimum(alpha, beta):
    X, mask, y, weight = random_problem(80)
    model = MALasso(alpha, beta=beta, **EXACT).fit(X, y, sample_weight=weight)
    penalty = weight @ mask / weight.sum() + beta / weight.sum()
    assert_allclose(model.penalty_weights_, penalty, rtol=1e-12)
    Z = standardised(X, mask, weight)
    theta = model.coef_ * model.scale_
    residual = y - np.average(y, weights=weight) - Z @ theta
    gradient = Z.T @ (weight * residual) / weight.sum()
    assert np.all(np.abs(gradient) <= alpha * penalty + 1e-6)
    used = theta != 0
    assert_allclose(gradient[used], alpha * penalty[used] * np.sign(theta[used]), atol=1e-6)
    if beta == 0:
        assert used[-1]  # the column without gaps is free


@pytest.mark.parametrize("shape", [(200, 8), (50, 120)])
def test_oracle_08_equals_the_lasso_on_scaled_columns(shape):
    X, mask, y, _ = random_problem(81, *shape)
    Z = standardised(X, mask)
    for alpha in (0.2, 1.0, 5.0):
        model = MALasso(alpha, beta=3.0, **EXACT).fit(X, y)
        penalty = mask.mean(axis=0) + 3.0 / len(X)
        peer = Lasso(alpha, **EXACT).fit(Z / penalty, y)
        assert_allclose(model.coef_ * model.scale_, peer.coef_ / penalty, atol=1e-7)
        assert_allclose(model.predict(X), peer.predict(Z / penalty), atol=1e-7)


@pytest.mark.parametrize("shape", [(200, 8), (50, 120)])
def test_oracle_08_equal_missing_rates_give_the_plain_lasso(shape):
    X, _, y, _ = random_problem(82, *shape, missing=0.0)
    rng = np.random.default_rng(82)
    mask = np.zeros(X.shape, dtype=bool)
    for j in range(X.shape[1]):
        mask[rng.permutation(len(X))[: len(X) // 5], j] = True
    X = np.where(mask, np.nan, X)
    Z = standardised(X, mask)
    for alpha in (0.5, 2.0):
        model = MALasso(alpha, beta=0.0, **EXACT).fit(X, y)
        peer = Lasso(alpha * 0.2, **EXACT).fit(Z, y)
        assert_allclose(model.coef_ * model.scale_, peer.coef_, atol=1e-8)
        assert_allclose(model.predict(X), peer.predict(Z), atol=1e-8)


def test_oracle_08_free_columns_are_fitted_by_least_squares():
    X, mask, y, _ = random_problem(83)
    mask[:, :3] = False
    X = np.where(mask, np.nan, np.nan_to_num(X, nan=1.0))
    complete = ~mask.any(axis=0)
    assert complete.sum() == 4
    model = MALasso(1e6, beta=0.0, **EXACT).fit(X, y)
    plain = LinearRegression().fit(X[:, complete], y)
    assert_array_equal(model.coef_ != 0, complete)
    assert_allclose(model.coef_[complete], plain.coef_, rtol=1e-7)
    assert_allclose(model.predict(X), plain.predict(X[:, complete]), rtol=1e-7)
    assert model.missingness_reliance_ == 0.0


@pytest.mark.parametrize("imputer", ["mean", "median", "zero"])
@pytest.mark.parametrize("Model", [MALasso, MALogisticRegression])
def test_oracle_08_coefficients_are_those_of_raw_columns(Model, imputer):
    n_classes = 3 if Model is MALogisticRegression else None
    X, _, y, _ = random_problem(84, n_classes=n_classes)
    model = Model(0.05, imputer=imputer).fit(X, y)
    strategy = {"strategy": "constant", "fill_value": 0.0} if imputer == "zero" else {}
    strategy = strategy or {"strategy": imputer}
    raw = SimpleImputer(**strategy).fit_transform(X)
    values = raw @ model.coef_.T + model.intercept_
    if Model is MALasso:
        assert_allclose(model.predict(X), values, rtol=1e-10)
    else:
        assert_allclose(model.decision_function(X), values, rtol=1e-10, atol=1e-12)
        assert_array_equal(model.predict(X), values.argmax(axis=1))


@pytest.mark.parametrize("Model", [MALasso, MALogisticRegression])
def test_oracle_12_in_a_pipeline_and_a_search(Model):
    n_classes = 2 if Model is MALogisticRegression else None
    X, _, y, _ = random_problem(12, n_classes=n_classes)
    search = GridSearchCV(
        Pipeline([("scale", StandardScaler()), ("model", Model())]),
        {"model__alpha": [0.001, 0.1, 1.0, 1000.0]},
        scoring={
            "score": "r2" if Model is MALasso else "roc_auc",
            "reliance": missingness_reliance_scorer,
        },
        refit=TradeoffRefit("score", "reliance", gamma=0.8),
        cv=3,
    ).fit(X, y)
    results = search.cv_results_
    assert np.all(np.diff(results["mean_test_reliance"]) >= 0)
    chosen = search.best_index_
    eligible = results["mean_test_score"] >= 0.8 * results["mean_test_score"].max()
    assert eligible[chosen]
    assert results["mean_test_reliance"][chosen] == results["mean_test_reliance"][eligible].max()
    best = search.best_estimator_
    assert missingness_reliance(best, X) == best[-1].missingness_reliance_
    again = clone(best).fit(X, y)
    assert_array_equal(again.predict(X), best.predict(X))
    assert_array_equal(pickle.loads(pickle.dumps(best)).predict(X), best.predict(X))


def test_oracle_12_lasso_cv_chooses_as_a_search_does():
    X, _, y, _ = random_problem(13)
    alphas = [0.01, 0.1, 1.0, 10.0]
    search = GridSearchCV(
        MALasso(),
        {"alpha": alphas[::-1], "beta": [1.0]},
        scoring={"score": "r2", "reliance": missingness_reliance_scorer},
        refit=TradeoffRefit("score", "reliance", gamma=0.8),
        cv=4,
    ).fit(X, y)
    model = MALassoCV(alphas=alphas, gamma=0.8, cv=4).fit(X, y)
    assert model.alpha_ == search.best_params_["alpha"]
    assert_allclose(model.predict(X), search.predict(X), rtol=1e-2, atol=0.05)
    results = search.cv_results_
    assert_allclose(model.score_path_[0].mean(axis=1), results["mean_test_score"], atol=1e-3)
    assert_allclose(model.reliance_path_[0].mean(axis=1), -results["mean_test_reliance"])


@pytest.mark.parametrize("to_matrix", [np.asarray, sparse.csc_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("Model", [MALasso, MALassoCV, MALogisticRegression])
def test_oracle_12_a_routed_mask_is_as_good_as_nan(Model, to_matrix):
    n_classes = 3 if Model is MALogisticRegression else None
    X, mask, y, _ = random_problem(14, n_classes=n_classes)
    imputed = SimpleImputer().fit_transform(X)
    params = {"tol": 1e-12} if Model is MALassoCV else {"alpha": 0.1, "tol": 1e-12}
    of_nan = Model(**params).fit(to_matrix(X), y)
    with config_context(enable_metadata_routing=True):
        model = Model(**params).set_fit_request(missing_mask=True)
        model.set_score_request(missing_mask=True)
        pipeline = make_pipeline("passthrough", model)
        pipeline.fit(to_matrix(imputed), y, missing_mask=to_matrix(mask))
        score = pipeline.score(to_matrix(imputed), y, missing_mask=to_matrix(mask))
    of_mask = pipeline[-1]
    assert_allclose(of_mask.penalty_weights_, of_nan.penalty_weights_, rtol=1e-12)
    assert_allclose(of_mask.coef_, of_nan.coef_, atol=1e-7)
    assert_allclose(of_mask.intercept_, of_nan.intercept_, atol=1e-6)
    assert of_mask.missingness_reliance_ == pytest.approx(of_nan.missingness_reliance_)
    assert score == pytest.approx(of_nan.score(X, y))
    unaware = clone(of_nan).fit(imputed, y)
    assert np.all(unaware.feature_missing_rate_ == 0)


def test_oracle_12_path_takes_the_mask_too():
    X, mask, y, _ = random_problem(15)
    imputed = SimpleImputer().fit_transform(X)
    of_nan = ma_lasso_path(X, y, alphas=[3.0, 0.3], tol=1e-12)
    of_mask = ma_lasso_path(imputed, y, missing_mask=mask, alphas=[0.3, 3.0], tol=1e-12)
    for ours, theirs in zip(of_nan[:3], of_mask[:3], strict=True):
        assert_allclose(ours, theirs, atol=1e-7)
