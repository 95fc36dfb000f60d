"""Estimators and transformers: what they learn, exact solutions, bad input."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skml.equivariant import (
    EquivariantLinear,
    EquivariantNetwork,
    EquivariantPolynomialFeatures,
    EquivariantScaler,
    QuantumGroupEquivariantClassifier,
    QuantumGroupEquivariantRegressor,
    count_partitions,
    equivariance_error,
    equivariant_basis,
    sample_group,
)


def invariant_data(n_samples=150, n=5, seed=0):
    X = np.random.default_rng(seed).normal(size=(n_samples, n))
    return X, np.sin(X).sum(axis=1) + 0.3 * X.sum(axis=1) ** 2


def test_regressor_learns_an_invariant_target():
    X, y = invariant_data(400)
    model = QuantumGroupEquivariantRegressor(learning_rate=0.01, random_state=0)
    assert model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.9


def test_regressor_learns_an_equivariant_target():
    X = np.random.default_rng(0).normal(size=(200, 16))
    A = X.reshape(-1, 4, 4)
    y = (A @ A + A.transpose(0, 2, 1)).reshape(len(X), -1)
    model = QuantumGroupEquivariantRegressor(
        "S", order_in=2, order_out=2, hidden_layer_sizes=([(2, 6)],), learning_rate=0.02,
        max_epochs=300, random_state=0,
    )  # fmt: skip
    assert model.fit(X[:150], y[:150]).score(X[150:], y[150:]) > 0.9


def test_classifier_learns_an_invariant_target():
    X, y = invariant_data(500)
    labels = np.where(y > np.median(y), "high", "low")
    model = QuantumGroupEquivariantClassifier(learning_rate=0.01, random_state=0)
    model.fit(X[:300], labels[:300])
    assert model.score(X[300:], labels[300:]) > 0.9
    proba = model.predict_proba(X[300:])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X[300:]))


def test_linear_regressor_is_ridge_on_the_diagrams():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 9)), rng.normal(size=(40, 9))
    weight = rng.uniform(0.5, 2, size=40)
    model = QuantumGroupEquivariantRegressor(
        "S+", order_in=2, order_out=2, hidden_layer_sizes=(), alpha=2.0
    ).fit(X, y, sample_weight=weight)
    maps = equivariant_basis("S+", 3, 2, 2)
    scales = model.module_.layers[0].paths["0_0"].scales.numpy()
    design = np.einsum("dji,zi->zjd", maps * scales[:, None, None], X).reshape(-1, len(maps))
    bias = np.tile(equivariant_basis("S+", 3, 0, 2)[:, :, 0].T, (40, 1))
    rows = np.sqrt(np.repeat(weight, 9))[:, None]
    full = np.hstack([design, bias])
    penalty = np.diag([2.0] * len(maps) + [0.0] * bias.shape[1])
    solution = np.linalg.solve((full * rows**2).T @ full + penalty, (full * rows**2).T @ y.ravel())
    np.testing.assert_allclose(model.predict(X).ravel(), full @ solution, atol=1e-8)
    assert model.loss_curve_[0] > 0


def test_linear_regressor_recovers_an_exact_map_and_agrees_with_ridge():
    rng = np.random.default_rng(0)
    maps = equivariant_basis("S+", 5, 2, 2)
    target = np.einsum("d,dji->ji", rng.normal(size=14), maps)
    X = rng.normal(size=(3, 25))
    linear = {"order_in": 2, "order_out": 2, "hidden_layer_sizes": (), "alpha": 0.0}
    model = QuantumGroupEquivariantRegressor("S+", **linear).fit(X, X @ target.T)
    fresh = rng.normal(size=(10, 25))
    np.testing.assert_allclose(model.predict(fresh), fresh @ target.T, atol=1e-6)
    X, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    ours = QuantumGroupEquivariantRegressor("S", hidden_layer_sizes=(), alpha=3.0).fit(X, y)
    sums = X.sum(axis=1, keepdims=True) / 2  # scaled by n**(-1/2)
    np.testing.assert_allclose(ours.predict(X), Ridge(3.0).fit(sums, y).predict(sums), atol=1e-10)


def test_linear_classifier_is_logistic_regression_on_the_invariants():
    X = np.random.default_rng(0).normal(size=(80, 4))
    y = (X.sum(axis=1) + 0.7 * np.random.default_rng(1).normal(size=80) > 0).astype(int)
    model = QuantumGroupEquivariantClassifier("S", hidden_layer_sizes=(), alpha=1.0).fit(X, y)
    # Two channels share the difference, so each carries half and the penalty counts half.
    peer = LogisticRegression(C=2.0, tol=1e-10).fit(X.sum(axis=1, keepdims=True) / 2, y)
    expected = peer.predict_proba(X.sum(axis=1, keepdims=True) / 2)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-4)


def test_method_changes_nothing_but_time():
    X, y = invariant_data(40)
    predictions = [
        QuantumGroupEquivariantRegressor(method=method, max_epochs=5, random_state=0)
        .fit(X, y)
        .predict(X)
        for method in ("auto", "dense", "factorized")
    ]
    np.testing.assert_allclose(predictions[0], predictions[1], atol=1e-9)
    np.testing.assert_allclose(predictions[0], predictions[2], atol=1e-9)


def test_channels_lie_side_by_side():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2 * 3))
    y = (X[:, :3] * X[:, 3:]).sum(axis=1)
    model = QuantumGroupEquivariantRegressor(
        "O", n_channels_in=2, hidden_layer_sizes=(), alpha=1e-8
    ).fit(X, y)
    assert model.module_.input_power == 2  # "O" has no linear invariants
    assert model.score(X, y) > 0.999999
    both = rng.normal(size=(4, 6))
    rotated = (both.reshape(4, 2, 3) @ sample_group("O", 3, 0).T).reshape(4, 6)
    np.testing.assert_allclose(model.predict(rotated), model.predict(both), atol=1e-10)


def test_several_channels_come_out():
    X, y = invariant_data(30)
    many = QuantumGroupEquivariantRegressor(max_epochs=3, random_state=0).fit(X, np.c_[y, -y, y])
    assert many.predict(X).shape == (30, 3)
    tensors = np.random.default_rng(0).normal(size=(30, 2 * 5))
    model = QuantumGroupEquivariantRegressor(order_out=1, max_epochs=3).fit(X, tensors)
    assert model.predict(X).shape == (30, 10)
    assert equivariance_error(model, X) < 1e-12


def test_single_precision_stays_single():
    X, y = invariant_data(30)
    model = QuantumGroupEquivariantRegressor(max_epochs=3).fit(X.astype(np.float32), y)
    assert model.predict(X.astype(np.float32)).dtype == np.float32
    assert next(model.module_.parameters()).dtype == torch.float32
    for transformer in (EquivariantScaler(), EquivariantPolynomialFeatures(order_out=1)):
        assert transformer.fit_transform(X.astype(np.float32)).dtype == np.float32


def test_hidden_orders_of_an_int_and_of_lists():
    network = EquivariantNetwork("O", 3, 1, 0, hidden_layer_sizes=(4,))
    assert network.hidden == [[(0, 4, "any")]]  # vectors cannot lead to numbers
    network = EquivariantNetwork("H", 3, 1, 0, hidden_layer_sizes=(4,), nonlinearity="matmul")
    assert network.hidden == [[(0, 4, "any"), (2, 4, "matmul")]]
    with pytest.raises(ValueError, match=r"order 1 to order 2 for group 'O', so that \(2, 4\)"):
        EquivariantNetwork("O", 3, 1, 1, hidden_layer_sizes=([(2, 4)],))
    with pytest.raises(ValueError, match="positive int or a list of pairs .*got -3"):
        EquivariantNetwork("S", 3, 1, 0, hidden_layer_sizes=(-3,))


@pytest.mark.parametrize(
    ("params", "shape_y", "n_features", "message"),
    [
        ({"order_in": 2}, (10,), 10, r"X has 10 features.*order_in=2.* 9 \(n=3\) and 16 \(n=4\)"),
        ({"n_channels_in": 4}, (10,), 6, r"nearest valid numbers are 4 \(n=1\) and 8 \(n=2\)"),
        ({"order_out": 2}, (10, 5), 3, r"y has 5 columns.*order_out=2 and n=3 .*multiple of .*9"),
        ({"group": "O", "order_out": 1, "order_in": 2}, (10, 3), 9, "given input_power='auto'"),
        ({"group": "X"}, (10,), 3, "The 'group' parameter .* must be a str among"),
        ({"group": "U"}, (10,), 3, "The 'group' parameter"),
        ({"group": "B", "nonlinearity": "pointwise"}, (10,), 3, "not equivariant under group 'B'"),
        ({"input_power": 0}, (10,), 3, "'input_power' parameter"),
        ({"order_in": 0}, (10,), 3, "'order_in' parameter"),
        ({"hidden_layer_sizes": (3, "x")}, (10,), 3, "hidden_layer_sizes must hold .*got 'x'"),
        ({"device": "abacus"}, (10,), 3, "device must be"),
    ],
)  # fmt: skip
def test_regressor_refuses_bad_input(params, shape_y, n_features, message):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(10, n_features)), rng.normal(size=shape_y)
    model = QuantumGroupEquivariantRegressor(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "n_features_in_")


def test_weights_must_not_be_negative_or_all_zero():
    X, y = invariant_data(10)
    for weight in (-np.ones(10), np.zeros(10)):
        with pytest.raises(ValueError, match=r"[Ww]eight"):
            QuantumGroupEquivariantRegressor().fit(X, y, sample_weight=weight)
        with pytest.raises(ValueError, match=r"[Ww]eight"):
            EquivariantScaler().fit(X, sample_weight=weight)


def test_zero_weight_equals_absence_in_small_batches():
    X, y = invariant_data(20)
    y_bad = y.copy()
    y_bad[10:] += 100
    weight = np.r_[np.ones(10), np.zeros(10)]
    model = QuantumGroupEquivariantRegressor(batch_size=3, max_epochs=4, random_state=0)
    kept = clone(model).fit(X, y_bad, sample_weight=weight)
    same = clone(model).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(kept.predict(X), same.predict(X))


def test_pickle_after_parameters_have_changed():
    X, y = invariant_data(20)
    model = QuantumGroupEquivariantRegressor(max_epochs=2, random_state=0).fit(X, y)
    expected = model.predict(X)
    model.set_params(hidden_layer_sizes=(5, 5), group="O")
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.predict(X), expected)


def test_grid_search_in_a_pipeline_with_weights_routed():
    from sklearn import config_context

    X, y = invariant_data(60)
    with config_context(enable_metadata_routing=True):
        model = QuantumGroupEquivariantRegressor(hidden_layer_sizes=(), input_power=2)
        model = model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scaler = EquivariantScaler().set_fit_request(sample_weight=True)
        search = GridSearchCV(
            make_pipeline(scaler, model), {"quantumgroupequivariantregressor__alpha": [0.1, 10.0]}
        )
        search.fit(X, y, sample_weight=np.ones(60))
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


# Transformers.


def test_polynomials_of_small_degree_are_power_sums():
    X = np.random.default_rng(0).normal(size=(5, 4))
    features = EquivariantPolynomialFeatures("S", degree=2).fit(X)
    named = dict(zip(features.get_feature_names_out(), features.transform(X).T, strict=True))
    np.testing.assert_allclose(named["1"], 1.0)
    np.testing.assert_allclose(named["{1}"], X.sum(axis=1))
    np.testing.assert_allclose(named["{1,2}"], (X**2).sum(axis=1))
    np.testing.assert_allclose(named["{1}{2}"], X.sum(axis=1) ** 2)
    assert list(named) == ["1", "{1}", "{1,2}", "{1}{2}"]


@pytest.mark.parametrize("group", ["S", "S+", "H", "O+", "B", "B#+"])
@pytest.mark.parametrize(("order_in", "order_out", "degree"), [(1, 1, 3), (2, 0, 2), (2, 2, 2)])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_polynomials_span_those_of_all_diagrams_without_repetition(
    group, order_in, order_out, degree, n
):
    if not any(count_partitions(group, d * order_in + order_out) for d in range(degree + 1)):
        return
    X = np.random.default_rng(0).normal(size=(150, n**order_in))
    features = EquivariantPolynomialFeatures(
        group, order_in=order_in, order_out=order_out, degree=degree
    ).fit(X)
    n_maps = len(features.partitions_)
    ours = features.transform(X).reshape(len(X), n_maps, -1).transpose(0, 2, 1).reshape(-1, n_maps)
    spanning, power = [], np.ones((len(X), 1))
    for d in range(degree + 1):
        maps = equivariant_basis(group, n, d * order_in, order_out, independent=False)
        if len(maps):
            spanning.append(np.einsum("dji,zi->zjd", maps, power).reshape(-1, len(maps)))
        power = np.einsum("za,zb->zab", power, X).reshape(len(X), -1)
    everything = np.hstack(spanning)
    ranks = [
        np.linalg.matrix_rank(matrix / np.linalg.norm(matrix, axis=0), tol=1e-8)
        for matrix in (ours, everything, np.hstack([ours, everything]))
    ]
    assert ranks == [n_maps] * 3
    assert equivariance_error(features, X[:20], random_state=0) < 1e-10


def test_polynomials_that_do_not_exist():
    with pytest.raises(ValueError, match="order 1 to order 0 for group 'O' .*degree=1"):
        EquivariantPolynomialFeatures("O", degree=1, include_bias=False).fit(np.ones((2, 3)))
    constant = EquivariantPolynomialFeatures("O", degree=0).fit_transform(np.ones((2, 3)))
    np.testing.assert_array_equal(constant, [[1.0], [1.0]])
    names = EquivariantPolynomialFeatures("S", order_out=1, degree=1).fit(np.ones((2, 2)))
    assert names.get_feature_names_out().tolist() == [
        "{1'}[0]", "{1'}[1]", "{1,1'}[0]", "{1,1'}[1]", "{1}{1'}[0]", "{1}{1'}[1]",
    ]  # fmt: skip


@pytest.mark.parametrize("group", ["S", "O", "H", "B", "S'"])
@pytest.mark.parametrize("order", [1, 2])
def test_scaler_commutes_with_the_group(group, order):
    rng = np.random.default_rng(0)
    X = 3 + 2 * rng.normal(size=(30, 2 * 4**order))
    scaler = EquivariantScaler(group, order=order, n_channels=2).fit(X)
    assert equivariance_error(scaler, X, random_state=0) < 1e-12
    np.testing.assert_allclose(scaler.inverse_transform(scaler.transform(X)), X)
    if group == "S" and order == 1:
        scaled = scaler.transform(X).reshape(30, 2, 4)
        np.testing.assert_allclose(scaled.mean(axis=(0, 2)), 0, atol=1e-12)
        np.testing.assert_allclose((scaled**2).mean(axis=(0, 2)), 1)
    if group in {"O", "H", "S'"} and order == 1:
        assert not scaler.mean_.any()


def test_scaler_options_and_constant_data():
    X = np.full((4, 3), 7.0)
    np.testing.assert_allclose(EquivariantScaler().fit_transform(X), 0.0, atol=1e-13)
    plain = EquivariantScaler(with_mean=False, with_scale=False).fit(X)
    assert (plain.mean_, plain.scale_) == (None, None)
    np.testing.assert_array_equal(plain.transform(X), X)
    with pytest.raises(ValueError, match=r"X has 3 features; with order=2 and n_channels=1"):
        EquivariantScaler(order=2).fit(X)


# The helper that measures.


def test_equivariance_error_sees_a_broken_layer():
    layer = EquivariantLinear("S+", 4, [(2, 1)], [(2, 1)]).double()
    X = np.random.default_rng(0).normal(size=(5, 16))
    assert equivariance_error(layer, X, random_state=0) < 1e-13
    classical = EquivariantLinear("S", 4, [(2, 1)], [(2, 1)]).double()
    classical.group = "S+"  # the transposition commutes with permutations, not with S+
    assert equivariance_error(classical, X, random_state=0) > 0.01
    layer.group = "O+"
    assert equivariance_error(layer, X, random_state=0) > 0.01


def test_equivariance_error_of_whole_models_and_bad_input():
    X, y = invariant_data(20)
    model = QuantumGroupEquivariantClassifier(max_epochs=3).fit(X, y > 0)
    assert equivariance_error(model, X) < 1e-12
    with pytest.raises(TypeError, match="of skml.equivariant, got Ridge"):
        equivariance_error(Ridge(), X)
    with pytest.raises(ValueError, match="n_samples must be an int"):
        equivariance_error(model, X, n_samples=0)
    with pytest.raises(ValueError, match="X has 4 features, which is no multiple"):
        equivariance_error(EquivariantLinear("S", 3, [(1, 1)], [(0, 1)]), X[:, :4])
    with pytest.raises(ValueError, match="one input and one output"):
        equivariance_error(EquivariantLinear("S", 3, [(1, 1), (2, 1)], [(0, 1)]), X)


@pytest.mark.parametrize("factor", [1e-300, 1e-170, 1e170, 1e300])
def test_scale_of_the_data_does_not_matter(factor):
    X, y = invariant_data(40)
    options = {"max_epochs": 3, "random_state": 0}
    labels = y > np.median(y)
    unit = QuantumGroupEquivariantRegressor(**options).fit(X, y).predict(X)
    scaled = QuantumGroupEquivariantRegressor(**options).fit(X * factor, y * factor)
    np.testing.assert_allclose(scaled.predict(X * factor) / factor, unit, rtol=1e-9)
    unit = QuantumGroupEquivariantClassifier(**options).fit(X, labels).predict_proba(X)
    scaled = QuantumGroupEquivariantClassifier(**options).fit(X * factor, labels)
    np.testing.assert_allclose(scaled.predict_proba(X * factor), unit, rtol=1e-9)
    unit = EquivariantScaler().fit_transform(X)
    np.testing.assert_allclose(EquivariantScaler().fit_transform(X * factor), unit, rtol=1e-9)


def test_linear_fit_takes_targets_of_any_scale():
    X, y = invariant_data(40)
    model = QuantumGroupEquivariantRegressor(hidden_layer_sizes=(), input_power=2)
    unit = model.fit(X, y).predict(X)
    for factor in (1e-300, 1e200, 1e306):
        np.testing.assert_allclose(model.fit(X, y * factor).predict(X) / factor, unit, rtol=1e-9)
        assert not np.isnan(model.loss_curve_[0])


@pytest.mark.parametrize(
    "model", [QuantumGroupEquivariantRegressor, QuantumGroupEquivariantClassifier]
)
@pytest.mark.parametrize(("dtype", "factor"), [(np.float64, 1e200), (np.float32, 1e30)])
def test_linear_fit_refuses_powers_that_overflow(model, dtype, factor):
    X, y = invariant_data(40)
    with pytest.raises(ValueError, match=r"largest entry of X is .*e\+.* Scale X down"):
        model(hidden_layer_sizes=(), input_power=2).fit((X * factor).astype(dtype), y > 0.5)


@pytest.mark.parametrize("name", ["order_in", "n_channels_in", "input_power"])
def test_true_stands_for_one(name):
    X, y = invariant_data(20)
    model = QuantumGroupEquivariantRegressor(max_epochs=2, random_state=0)
    expected = model.set_params(**{name: 1}).fit(X, y).predict(X)
    np.testing.assert_array_equal(model.set_params(**{name: True}).fit(X, y).predict(X), expected)


@pytest.mark.parametrize("hidden_layer_sizes", [(), (4,)])
@pytest.mark.parametrize(
    "estimator", [QuantumGroupEquivariantRegressor, QuantumGroupEquivariantClassifier]
)
def test_high_orders_over_one_point(estimator, hidden_layer_sizes):
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    y = np.array([0, 0, 1, 1])
    model = estimator(
        order_in=14, hidden_layer_sizes=hidden_layer_sizes, max_epochs=5, random_state=0
    ).fit(X, y)
    assert model.n_ == 1
    assert np.isfinite(model.predict(X)).all()


def test_orders_whose_diagrams_cannot_be_listed_are_refused():
    with pytest.raises(ValueError, match="from order 12 to order 12 of group 'O' are sums of 3162"):
        QuantumGroupEquivariantRegressor("O", order_in=12).fit([[1.0], [2.0]], [1.0, 2.0])


def test_polynomials_of_high_degree():
    X = np.random.default_rng(0).normal(size=(3, 8))
    features = EquivariantPolynomialFeatures(degree=8).fit(X)
    # One for each partition of a number up to 8.
    assert len(features.partitions_) == 1 + 1 + 2 + 3 + 5 + 7 + 11 + 15 + 22
    sums = np.stack([(X**power).sum(axis=1) for power in range(9)])
    for number, (degree, partition) in enumerate(features.partitions_):
        expected = np.prod([sums[len(block)] for block in partition], axis=0)
        np.testing.assert_allclose(features.transform(X)[:, number], expected, rtol=1e-10)
        assert degree == sum(map(len, partition))
    assert len(EquivariantPolynomialFeatures(degree=20).fit([[1.0]]).partitions_) == 21
    with pytest.raises(ValueError, match="degree=8 are dependent at n=3; .* 40320 permutations"):
        EquivariantPolynomialFeatures(degree=8).fit(X[:, :3])


@pytest.mark.parametrize(
    "estimator", [QuantumGroupEquivariantRegressor, QuantumGroupEquivariantClassifier]
)
def test_a_device_without_numbers_is_refused(estimator):
    with pytest.raises(ValueError, match="device='meta' holds shapes without numbers"):
        estimator(device="meta").fit([[0.0, 1.0], [2.0, 3.0]], [0, 1])
