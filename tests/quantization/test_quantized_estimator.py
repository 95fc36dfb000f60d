"""Fitted estimators with packed weights: linear models, scikit-learn MLPs, skorch nets."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_digits, make_regression
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import (
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from skml.quantization import (
    GANQQuantizer,
    GPTQQuantizer,
    KMeansQuantizer,
    QuantizedEstimator,
    RTNQuantizer,
    UniformWeight,
)
from skml.quantization._linear_maps import _ACTIVATIONS
from skml.utils.estimator_checks import check_skml_estimator

MLP = {"hidden_layer_sizes": (40, 30), "max_iter": 30, "random_state": 0}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


@pytest.fixture(scope="module")
def mlp(digits):
    with pytest.warns(UserWarning, match="converge"):
        return MLPClassifier(**MLP).fit(*digits)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inner", [Ridge(), LinearRegression(), RidgeClassifier()])
def test_checks_with_other_linear_models(inner):
    results = check_skml_estimator(QuantizedEstimator(inner), on_fail=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed


@pytest.mark.parametrize(
    "inner",
    [
        LogisticRegression(max_iter=500),
        LogisticRegressionCV(Cs=2, cv=2, max_iter=500, use_legacy_attributes=False),
        LinearSVC(),
        SGDClassifier(loss="log_loss", random_state=0),
        RidgeClassifier(),
        LinearDiscriminantAnalysis(),
        MLPClassifier(**MLP),
        MLPClassifier(**{**MLP, "hidden_layer_sizes": ()}),
        *(
            MLPClassifier(**{**MLP, "activation": activation, "max_iter": 5})
            for activation in ("identity", "logistic", "tanh")
        ),
    ],
    ids=lambda inner: type(inner).__name__,
)
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_eight_bits_give_the_classifiers_own_outputs(inner, binary, digits):
    X, y = digits
    y = np.array(["no", "yes"])[y % 2] if binary else y
    fitted = clone(inner).fit(X[:400], y[:400])
    model = QuantizedEstimator(fitted, KMeansQuantizer(8), prefit=True).fit(X[:400])
    assert_array_equal(model.classes_, fitted.classes_)
    assert np.mean(model.predict(X) == fitted.predict(X)) > 0.99
    for method in ("predict_proba", "decision_function", "predict_log_proba"):
        assert hasattr(model, method) == hasattr(fitted, method)
        if hasattr(fitted, method):
            expected = getattr(fitted, method)(X)
            found = getattr(model, method)(X)
            assert found.shape == expected.shape
            if method != "predict_log_proba":
                assert_allclose(found, expected, atol=0.02 * np.abs(expected).max())
    assert model.score(X, y) == pytest.approx(np.mean(model.predict(X) == y))


@pytest.mark.parametrize("n_targets", [1, 3])
@pytest.mark.parametrize("inner", [Ridge(), Lasso(0.01), MLPRegressor(**MLP), PoissonRegressor()])
@pytest.mark.filterwarnings("ignore")
def test_eight_bits_give_the_regressors_own_outputs(inner, n_targets):
    X, y = make_regression(200, 30, n_targets=n_targets, random_state=0)
    y = (y - y.min()) / y.std()
    if isinstance(inner, PoissonRegressor):
        y = y if n_targets == 1 else y[:, 0]
    fitted = clone(inner).fit(X, y)
    model = QuantizedEstimator(inner, GANQQuantizer(8, max_iter=3)).fit(X, y)
    expected = fitted.predict(X)
    assert model.predict(X).shape == expected.shape
    assert_allclose(model.predict(X), expected, atol=0.02 * np.abs(expected).max())
    assert model.score(X, y) == pytest.approx(fitted.score(X, y), abs=0.02)


def test_predictions_are_those_of_the_dequantised_weights(digits, mlp):
    X, _ = digits
    model = QuantizedEstimator(mlp, GANQQuantizer(3), prefit=True).fit(X)
    dense = clone(mlp)
    vars(dense).update(vars(mlp))
    dense.coefs_ = [weight.dequantize().T for weight in model.weights_]
    assert_allclose(model.predict_proba(X), dense.predict_proba(X), atol=1e-5)
    assert [weight.shape for weight in model.weights_] == [(40, 64), (30, 40), (10, 30)]
    # The fitted network itself is left alone.
    assert mlp.coefs_[0].shape == (64, 40)
    assert mlp.n_layers_ == 4


def test_later_layers_are_calibrated_on_quantised_ones(digits, mlp):
    X, _ = digits
    model = QuantizedEstimator(mlp, GANQQuantizer(2), prefit=True).fit(X)
    first = X @ model.weights_[0].dequantize().T + mlp.intercepts_[0]
    inputs = np.maximum(first, 0)
    layer = GANQQuantizer(2).fit(inputs)
    expected = layer.error(mlp.coefs_[1].T, layer.quantize(mlp.coefs_[1].T))
    assert model.layer_errors_[1] == pytest.approx(expected, rel=0.02)
    dense = GANQQuantizer(2).fit(np.maximum(X @ mlp.coefs_[0] + mlp.intercepts_[0], 0))
    otherwise = dense.error(mlp.coefs_[1].T, dense.quantize(mlp.coefs_[1].T))
    assert abs(model.layer_errors_[1] - otherwise) > 0.02 * otherwise


def test_ganq_keeps_the_network_better_than_rounding(digits, mlp):
    X, _ = digits
    full = mlp.predict_proba(X)
    distance = {
        type(quantizer).__name__: np.abs(
            QuantizedEstimator(mlp, quantizer, prefit=True).fit(X).predict_proba(X) - full
        ).mean()
        for quantizer in (RTNQuantizer(2), GPTQQuantizer(2), GANQQuantizer(2))
    }
    assert distance["GANQQuantizer"] < 0.7 * distance["GPTQQuantizer"]
    assert distance["GANQQuantizer"] < 0.5 * distance["RTNQuantizer"]


def test_grid_search_over_bits(digits):
    X, y = digits
    search = GridSearchCV(
        QuantizedEstimator(MLPClassifier(max_iter=15, random_state=0), GANQQuantizer()),
        {"quantizer__bits": [2, 3, 4]},
        cv=3,
    )
    with pytest.warns(UserWarning, match="converge"):
        search.fit(X[:600], y[:600])
    scores = search.cv_results_["mean_test_score"]
    assert scores.min() > 0.5
    best = search.best_estimator_
    assert {weight.bits for weight in best.weights_} == {search.best_params_["quantizer__bits"]}


def test_in_a_pipeline_with_routed_weights(digits):
    X, y = digits
    weights = np.random.default_rng(0).random(len(y))
    with config_context(enable_metadata_routing=True):
        model = QuantizedEstimator(LogisticRegression(max_iter=300), GANQQuantizer())
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        pipeline = make_pipeline(scaler, model)
        search = GridSearchCV(pipeline, {"quantizedestimator__quantizer__outlier_ratio": [0, 0.1]})
        search.set_params(error_score="raise", cv=2)
        search.fit(X[:500], y[:500], sample_weight=weights[:500])
    inner = LogisticRegression(max_iter=300).fit(X, y, sample_weight=weights)
    alone = QuantizedEstimator(LogisticRegression(max_iter=300)).fit(X, y, weights)
    prefit = QuantizedEstimator(inner, prefit=True).fit(X, sample_weight=weights)
    assert_array_equal(alone.predict(X), prefit.predict(X))
    unweighted = QuantizedEstimator(inner, prefit=True).fit(X)
    assert unweighted.layer_errors_ != prefit.layer_errors_
    assert prefit.score(X, y, sample_weight=weights) != prefit.score(X, y)


def test_pickle_holds_packed_codes_only():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 400)), rng.integers(0, 30, size=300)
    inner = LogisticRegression(max_iter=20)
    model = QuantizedEstimator(inner, GANQQuantizer(3)).fit(X, y)
    assert model.compression_ratio_ == pytest.approx(4 * 30 * 400 / model.weights_[0].nbytes)
    assert model.compression_ratio_ > 5
    size = len(pickle.dumps(model))
    assert size < model.weights_[0].nbytes + 10_000
    assert size < 0.3 * len(pickle.dumps(inner.fit(X, y)))
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_large_maps_go_through_the_kernel(monkeypatch):
    from skml.quantization import _linear_maps

    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 300))
    model = QuantizedEstimator(Ridge()).fit(X, rng.normal(size=(50, 20)))
    calls = []

    def counting(X, weight, bias):
        calls.append(weight)
        return real(X, weight, bias)

    real = _linear_maps.lut_matmul
    monkeypatch.setattr(_linear_maps, "lut_matmul", counting)
    assert model.predict(X).dtype == np.float64
    assert model.predict(X.astype(np.float32)).shape == (50, 20)
    assert len(calls) == 2


def test_uniform_weights_serve_too(digits):
    X, y = digits
    inner = LogisticRegression(max_iter=300)
    model = QuantizedEstimator(inner, GPTQQuantizer(4, group_size=16)).fit(X, y)
    assert isinstance(model.weights_[0], UniformWeight)
    assert model.score(X, y) > 0.95


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        (RandomForestClassifier(2), "RandomForestClassifier, which has no linear map"),
        (SVC(kernel="linear"), "SVC, which has no linear map"),
        (PLSRegression(1), "PLSRegression.predict is no function of X @ coef_.T alone"),
        (SGDClassifier(random_state=0), "call SGDClassifier.densify()"),
    ],
)
def test_estimators_that_cannot_be_quantised(inner, message, digits):
    X, y = digits
    X, y = X[:100] + 1, y[:100] % 2
    fitted = inner.fit(X, y)
    if isinstance(inner, SGDClassifier):
        fitted.sparsify()
    with pytest.raises(TypeError, match=message.replace("(", r"\(").replace(")", r"\)")):
        QuantizedEstimator(fitted, prefit=True).fit(X)


def test_messages(digits):
    X, y = digits
    with pytest.raises(NotFittedError):
        QuantizedEstimator(Ridge(), prefit=True).fit(X)
    with pytest.raises(NotFittedError):
        QuantizedEstimator(Ridge()).predict(X)
    with pytest.raises(TypeError, match=r"LinearDiscriminantAnalysis\.fit takes no sample_weight"):
        QuantizedEstimator(LinearDiscriminantAnalysis()).fit(X, y, sample_weight=np.ones(len(y)))
    with pytest.raises(AttributeError, match="predict_proba"):
        QuantizedEstimator(LinearSVC()).predict_proba  # noqa: B018 - the access is the test
    with pytest.raises(ValueError, match="expecting 64 features"):
        QuantizedEstimator(Ridge()).fit(X, y).predict(X[:, :5])


def test_activations_are_those_of_scikit_learn():
    assert set(_ACTIVATIONS) == {"identity", "logistic", "tanh", "relu"}
