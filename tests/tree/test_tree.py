"""Estimator-level behaviour of the missingness-avoiding trees."""

import re

import numpy as np
import pytest
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, export_text
from sklearn.utils.estimator_checks import parametrize_with_checks

from skml.tree import MADecisionTreeClassifier, MADecisionTreeRegressor

BOTH = [MADecisionTreeClassifier, MADecisionTreeRegressor]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    y = (X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + rng.normal(scale=0.3, size=400) > 0).astype(int)
    X[rng.random(X.shape) < [0.4, 0.2, 0.0, 0.1, 0.3]] = np.nan
    return X, y


def walked_reliance(tree, X, mask):
    """(n, d) cells by definition: follow every row through scikit-learn's decision_path."""
    path = tree.decision_path(X).toarray().astype(bool)
    cells = np.zeros(mask.shape, dtype=bool)
    for node in np.flatnonzero(tree.tree_.children_left >= 0):
        feature = tree.tree_.feature[node]
        cells[path[:, node], feature] |= mask[path[:, node], feature]
    return cells


@parametrize_with_checks(
    [
        MADecisionTreeClassifier(),
        MADecisionTreeRegressor(),
        MADecisionTreeClassifier(
            criterion="entropy", penalty_scope="row", imputer="native", max_leaf_nodes=12
        ),
        MADecisionTreeRegressor(
            penalty_scope="feature", missing_policy="stop", max_features="sqrt"
        ),
    ]
)
def test_every_check_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("imputer", ["mean", "median", "zero", "native", SimpleImputer()])
def test_reliance_is_that_of_the_path(cls, imputer, data):
    X, y = data
    tree = cls(alpha=0.02, imputer=imputer, max_depth=5, random_state=0).fit(X, y)
    expected = walked_reliance(tree, X, np.isnan(X))
    np.testing.assert_array_equal(tree.missingness_reliance(X), expected)
    rows = expected.any(axis=1)
    np.testing.assert_array_equal(tree.missingness_reliance(X, reduce=True), rows)
    assert tree.missingness_reliance_ == pytest.approx(rows.mean())
    # A leaf's reliance is that of the rows in it.
    leaf = tree.apply(X)
    for node in np.unique(leaf):
        assert tree.node_missingness_reliance_[node] == pytest.approx(rows[leaf == node].mean())


def test_pruned_tree_forgets_the_splits_it_lost(data):
    X, y = data
    full = MADecisionTreeClassifier(alpha=0, random_state=0).fit(X, y)
    pruned = MADecisionTreeClassifier(alpha=0, ccp_alpha=0.01, random_state=0).fit(X, y)
    assert pruned.tree_.node_count < full.tree_.node_count
    assert len(pruned.node_missingness_reliance_) == pruned.tree_.node_count
    rows = walked_reliance(pruned, X, np.isnan(X)).any(axis=1)
    assert pruned.missingness_reliance_ == pytest.approx(rows.mean())
    assert pruned.missingness_reliance_ <= full.missingness_reliance_


def test_pruning_that_only_renumbers_the_nodes_keeps_reliance(data):
    """scikit-learn's pruning renumbers a tree grown best first even if it removes nothing."""
    X, y = data
    for seed in range(10):
        tree = MADecisionTreeClassifier(
            alpha=0.02, max_leaf_nodes=6, ccp_alpha=1e-9, random_state=seed
        ).fit(X[seed * 40 :], y[seed * 40 :])
        rows = tree.missingness_reliance(X[seed * 40 :], reduce=True)
        assert tree.missingness_reliance_ == pytest.approx(rows.mean())


@pytest.mark.parametrize("cls", BOTH)
def test_rows_stop_at_the_first_feature_they_miss(cls, data):
    X, y = data
    walk = cls(alpha=0, max_depth=4, random_state=0).fit(X, y)
    stop = cls(alpha=0, max_depth=4, random_state=0, missing_policy="stop").fit(X, y)
    full, cut = walk.decision_path(X).toarray(), stop.decision_path(X).toarray()
    assert np.all(cut <= full)
    ends = stop.apply(X)
    for i, end in enumerate(ends):
        path = np.flatnonzero(cut[i])
        assert path[-1] == end
        assert not np.isnan(X[i, walk.tree_.feature[path[:-1]]]).any()
        feature = walk.tree_.feature[end]
        assert feature < 0 or np.isnan(X[i, feature])
    stopped = walk.tree_.feature[ends] >= 0
    assert 0 < stopped.mean() < 1
    assert stop.stopped_fraction(X) == pytest.approx(stopped.mean())
    assert walk.stopped_fraction(X) == 0
    assert not stop.missingness_reliance(X).any()
    assert stop.missingness_reliance_ == 0
    if cls is MADecisionTreeRegressor:
        np.testing.assert_array_equal(stop.predict(X), stop.tree_.value[ends, 0, 0])
    else:
        np.testing.assert_array_equal(stop.predict_proba(X), stop.tree_.value[ends, 0])


def test_mask_stops_rows_in_score(data):
    X, y = data
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    by_nan = MADecisionTreeClassifier(missing_policy="stop", random_state=0).fit(X, y)
    by_mask = MADecisionTreeClassifier(missing_policy="stop", random_state=0)
    by_mask.fit(filled, y, missing_mask=np.isnan(X))
    assert by_mask.score(filled, y, missing_mask=np.isnan(X)) == by_nan.score(X, y)
    assert by_mask.score(filled, y) != by_nan.score(X, y)


def test_native_tree_is_scikit_learns_own_when_nothing_costs():
    rng = np.random.default_rng(1)
    for _ in range(5):
        X = rng.normal(size=(500, 4))
        z = X[:, 0] + rng.normal(size=500)
        X[rng.random(X.shape) < 0.2] = np.nan
        X[z > 1, 3] = np.nan
        for ours, theirs, y in [
            (MADecisionTreeClassifier, DecisionTreeClassifier, np.digitize(z, [-0.5, 0.5])),
            (MADecisionTreeRegressor, DecisionTreeRegressor, z),
        ]:
            shape = {"max_depth": 4, "min_samples_leaf": 10, "random_state": 0}
            a = ours(alpha=0, imputer="native", **shape).fit(X, y)
            b = theirs(**shape).fit(X, y)
            np.testing.assert_array_equal(a.apply(X), b.apply(X))
            inner = b.tree_.feature >= 0
            np.testing.assert_array_equal(a.tree_.threshold, b.tree_.threshold)
            np.testing.assert_array_equal(
                a.tree_.missing_go_to_left[inner], b.tree_.missing_go_to_left[inner]
            )


def test_constant_values_beside_nan_can_be_split_natively():
    X = np.array([[1.0], [np.nan], [1.0], [np.nan]])
    y = np.array([0, 1, 0, 1])
    tree = MADecisionTreeClassifier(imputer="native").fit(X, y)
    assert tree.tree_.threshold[0] == np.inf
    np.testing.assert_array_equal(tree.predict(X), y)


def test_transformer_imputer_is_cloned_and_must_keep_the_columns(data):
    X, y = data
    imputer = KNNImputer(n_neighbors=3)
    tree = MADecisionTreeClassifier(imputer=imputer, alpha=0, max_depth=3, random_state=0)
    tree.fit(X, y)
    assert not hasattr(imputer, "n_features_in_")
    filled = KNNImputer(n_neighbors=3).fit_transform(X)
    plain = DecisionTreeClassifier(max_depth=3, random_state=0).fit(filled, y)
    np.testing.assert_array_equal(tree.predict(X), plain.predict(filled))
    empty = X.copy()
    empty[:, 1] = np.nan
    with (
        pytest.warns(UserWarning, match="observed values"),
        pytest.raises(ValueError, match="imputer=SimpleImputer must keep the columns of X"),
    ):
        MADecisionTreeClassifier(imputer=SimpleImputer()).fit(empty, y)


def test_every_parameter_changes_the_tree(data):
    X, y = data
    plain = MADecisionTreeClassifier(random_state=0).fit(X, y)
    for change in [
        {"criterion": "entropy"},
        {"max_depth": 3},
        {"min_samples_split": 50},
        {"min_samples_leaf": 0.05},
        {"min_weight_fraction_leaf": 0.05},
        {"max_features": 1},
        {"max_leaf_nodes": 6},
        {"min_impurity_decrease": 0.01},
        {"ccp_alpha": 0.01},
        {"alpha": 0.01},
        {"penalty_scope": "feature"},
        {"penalty_scope": "row"},
        {"alpha_scale": "relative"},
        {"imputer": "native"},
        {"imputer": "zero"},
        {"class_weight": {0: 5.0, 1: 1.0}},
    ]:
        other = MADecisionTreeClassifier(random_state=0, **change).fit(X, y)
        assert not np.array_equal(plain.tree_.threshold, other.tree_.threshold), change


def test_net_loss_stops_only_on_request(data):
    X, y = data
    X = np.delete(X, 2, axis=1)  # no feature is always observed
    settings = {"alpha": 0.2, "random_state": 0}
    grown = MADecisionTreeClassifier(**settings).fit(X, y)
    stopped = MADecisionTreeClassifier(stop_on_net_loss=True, **settings).fit(X, y)
    assert 1 < stopped.tree_.node_count < grown.tree_.node_count


def test_relative_alpha_is_alpha_times_the_root_impurity(data):
    X, y = data
    weight = np.random.default_rng(2).uniform(1, 2, len(y))
    variance = np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)
    relative = MADecisionTreeRegressor(alpha=0.2, random_state=0).fit(X, y, weight)
    absolute = MADecisionTreeRegressor(
        alpha=0.2 * variance, alpha_scale="absolute", random_state=0
    ).fit(X, y, weight)
    np.testing.assert_array_equal(relative.tree_.threshold, absolute.tree_.threshold)


def test_ties_depend_on_random_state_only():
    y = np.array([0, 0, 1, 1])
    X = np.column_stack([y] * 8).astype(float)
    chosen = {
        MADecisionTreeClassifier(random_state=seed).fit(X, y).tree_.feature[0] for seed in range(40)
    }
    assert len(chosen) > 3
    again = [MADecisionTreeClassifier(random_state=3).fit(X, y).tree_.feature[0] for _ in range(3)]
    assert len(set(again)) == 1
    repeated = MADecisionTreeClassifier(random_state=3).fit(np.repeat(X, 3, 0), np.repeat(y, 3))
    assert repeated.tree_.feature[0] == again[0]


@pytest.mark.parametrize("cls", BOTH)
def test_large_offset_does_not_hide_the_variance(cls):
    X = np.arange(40.0)[:, None]
    y = (X[:, 0] > 20).astype(float) + (1e9 if cls is MADecisionTreeRegressor else 0)
    tree = cls(max_depth=1).fit(X, y)
    assert tree.tree_.threshold[0] == 20.5
    np.testing.assert_array_equal(tree.predict(X), y)


def test_labels_show_the_reliance_of_each_node(data):
    X, y = data
    tree = MADecisionTreeClassifier(alpha=0, max_depth=2, random_state=0).fit(X, y)
    names = list("abcde")
    text = tree.export_text(feature_names=names)
    shown = [float(rho) for rho in re.findall(r"rho = ([\d.]+)", text)]
    np.testing.assert_allclose(shown, tree.node_missingness_reliance_, atol=0.005)
    assert tree.node_label(0, names).startswith("a <= ")
    assert "feature_0" in export_text(tree)
    assert "truncated" in tree.export_text(max_depth=0)
    with pytest.raises(ValueError, match=r"node_id must lie in \[0, 7\)"):
        tree.node_label(7)
    with pytest.raises(ValueError, match="feature_names must name the 5 features"):
        tree.export_text(feature_names=["a"])


def test_picture_shows_the_reliance_of_each_node(data):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    X, y = data
    tree = MADecisionTreeRegressor(alpha=0, max_depth=2, random_state=0).fit(X, y)
    _, ax = pyplot.subplots()
    boxes = tree.plot_tree(ax=ax)
    pyplot.close()
    rho = [re.search(r"rho = ([\d.]+)", box.get_text()) for box in boxes]
    shown = sorted(float(match[1]) for match in rho if match)
    np.testing.assert_allclose(shown, np.sort(tree.node_missingness_reliance_), atol=5e-4)


def test_many_classes():
    rng = np.random.default_rng(3)
    y = np.arange(100_000)
    X = rng.normal(size=(len(y), 2))
    tree = MADecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    assert tree.tree_.value.shape == (tree.tree_.node_count, 1, len(y))
    with pytest.raises(MemoryError, match=r"100000 classes needs 149\.0 GiB"):
        MADecisionTreeClassifier().fit(X, y)


@pytest.mark.parametrize("cls", BOTH)
def test_what_is_not_supported_is_refused_with_the_reason(cls, data):
    X, y = data
    with pytest.raises(ValueError, match="splitter='random' is not supported.*best threshold"):
        cls(splitter="random").fit(X, y)
    with pytest.raises(ValueError, match="monotonic_cst is not supported"):
        cls(monotonic_cst=[1, 0, 0, 0, 0]).fit(X, y)
    with pytest.raises(ValueError, match="multi-output is not supported"):
        cls().fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        cls().fit(X, y, np.where(y == 1, -1.0, 1.0))
    with pytest.raises(ValueError, match="non-zero number|positive sum"):
        cls().fit(X, y, np.zeros(len(y)))
    with pytest.raises(ValueError, match=r"too large for dtype\('float32'\)"):
        cls().fit(np.where(np.isnan(X), 1e300, X), y)
    with pytest.raises(ValueError, match="missing_mask must have the shape of X"):
        cls().fit(X, y, missing_mask=np.isnan(X)[:, :2])
    with pytest.raises(ValueError, match="0 and 1, got the value 2"):
        cls().fit(X, y, missing_mask=np.full(X.shape, 2))


def test_class_weight_of_zero_removes_the_class(data):
    X, y = data
    tree = MADecisionTreeClassifier(class_weight={0: 0.0, 1: 1.0}).fit(X, y)
    assert tree.tree_.node_count == 1
    assert set(tree.predict(X)) == {1}
    with pytest.raises(ValueError, match="class_weight times sample_weight"):
        MADecisionTreeClassifier(class_weight={0: 0.0, 1: 0.0}).fit(X, y)


@pytest.mark.parametrize("criterion", ["friedman_mse", "absolute_error", "poisson"])
def test_regressor_explains_its_criterion(criterion, data):
    with pytest.raises(ValueError, match=f"criterion='{criterion}' is not supported.*variance"):
        MADecisionTreeRegressor(criterion=criterion).fit(*data)
