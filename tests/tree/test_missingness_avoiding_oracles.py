"""The numbered oracles of missingness-avoiding trees: cases whose answer is known beforehand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skml.metrics import missingness_reliance
from skml.tree import MADecisionTreeClassifier, MADecisionTreeRegressor
from tests.tree._problems import TREES, table_with_gaps
from tests.tree._reference_tree import cells_read_by, children_impurity
from tests.tree._workflows import (
    assert_same_nodes,
    assert_search_picks_the_least_reliant_good_price,
    fit_with_routed_mask,
)


def random_problem(seed, n=300, d=5, missing=0.3, task="classification"):
    """X with NaN, whose rate differs by column, its mask, y and positive weights."""
    X, mask, signal, rng = table_with_gaps(seed, n, d, missing)
    X[mask] = np.nan
    y = np.digitize(signal, [-0.6, 0.7]) if task == "classification" else signal
    return X, mask, y, rng.uniform(0.5, 2.0, size=n)


def task_of(Tree):
    return "classification" if Tree is MADecisionTreeClassifier else "regression"


@pytest.mark.parametrize(
    ("Tree", "params", "flip"),
    [
        (MADecisionTreeClassifier, {}, 0.4),
        (MADecisionTreeClassifier, {"penalty_scope": "feature"}, 0.4),
        (MADecisionTreeClassifier, {"penalty_scope": "row"}, 0.4),
        # 5/8 of the rows carry the entropy of (4/5, 1/5); half the rows miss x0.
        (
            MADecisionTreeClassifier,
            {"criterion": "entropy"},
            2 * 5 / 8 * -(0.8 * np.log2(0.8) + 0.2 * np.log2(0.2)),
        ),
        # The variance of a 0/1 target is half its Gini impurity.
        (MADecisionTreeRegressor, {"alpha_scale": "absolute"}, 0.2),
        # Relative: alpha counts in units of the root's variance, 1/4.
        (MADecisionTreeRegressor, {}, 0.8),
    ],
)
def test_oracle_01_flip_point(Tree, params, flip):
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    X = np.column_stack([y, [0, 0, 0, 0, 0, 1, 1, 1]]).astype(float)
    mask = np.zeros((8, 2), dtype=bool)
    mask[[0, 1, 4, 5], 0] = True
    for alpha, feature, rho in [(flip - 0.01, 0, 0.5), (flip + 0.01, 1, 0.0)]:
        tree = Tree(max_depth=1, alpha=alpha, **params).fit(X, y, missing_mask=mask)
        assert tree.tree_.feature[0] == feature
        assert tree.missingness_reliance_ == pytest.approx(rho)
        assert missingness_reliance(tree, X, missing_mask=mask) == pytest.approx(rho)


@pytest.mark.parametrize("scope", ["node", "feature", "row"])
def test_oracle_02_context(scope):
    a = np.repeat([0.0, 1.0], 200)
    b = np.tile([0.0, 1.0], 200)
    y = (a * b).astype(int)
    X = np.column_stack([a, np.where(a == 0, np.nan, b)])

    cheap = MADecisionTreeClassifier(alpha=0.49, penalty_scope=scope).fit(X, y)
    assert cheap.tree_.feature[0] == 1
    assert cheap.missingness_reliance_ == pytest.approx(0.5)

    dear = MADecisionTreeClassifier(alpha=0.51, penalty_scope=scope).fit(X, y)
    assert_array_equal(dear.tree_.feature, [0, -2, 1, -2, -2])
    assert dear.missingness_reliance_ == 0.0
    assert missingness_reliance(dear, X) == 0.0
    assert cheap.score(X, y) == dear.score(X, y) == 1.0
    # Leaving the column out, which is what a global missing rate amounts to, costs a quarter.
    dropped = MADecisionTreeClassifier(alpha=0.51).fit(X[:, :1], y)
    assert dropped.score(X[:, :1], y) == 0.75


@pytest.mark.parametrize("scope", ["node", "feature", "row"])
@pytest.mark.parametrize("Tree", TREES)
def test_oracle_03_alpha_zero_is_a_plain_tree(Tree, scope):
    Plain = DecisionTreeClassifier if Tree is MADecisionTreeClassifier else DecisionTreeRegressor
    X, mask, y, weight = random_problem(0, n=600, task=task_of(Tree))
    imputed = SimpleImputer().fit_transform(X)
    limits = {"max_depth": 5, "min_samples_leaf": 10, "random_state": 0}
    plain = Plain(**limits).fit(imputed, y, sample_weight=weight)
    zero = Tree(alpha=0, penalty_scope=scope, **limits)
    zero.fit(imputed, y, sample_weight=weight, missing_mask=mask)
    assert_array_equal(zero.apply(imputed), plain.apply(imputed))
    assert_allclose(zero.predict(imputed), plain.predict(imputed), rtol=1e-12)
    assert_array_equal(zero.tree_.feature, plain.tree_.feature)

    for alpha in (0.1, 3.0):
        observed = Tree(alpha=alpha, penalty_scope=scope, **limits)
        observed.fit(imputed, y, sample_weight=weight)
        assert_array_equal(observed.apply(imputed), plain.apply(imputed))
        assert_array_equal(observed.predict(imputed), zero.predict(imputed))
        assert observed.missingness_reliance_ == 0.0


@pytest.mark.parametrize("alpha", [0.1, 3.0])
@pytest.mark.parametrize("Tree", TREES)
def test_oracle_03_all_cells_missing_makes_every_feature_equally_dear(Tree, alpha):
    X, _, y, weight = random_problem(1, n=600, missing=0, task=task_of(Tree))
    everything = np.ones(X.shape, dtype=bool)
    limits = {"max_depth": 5, "min_samples_leaf": 10, "random_state": 0}
    zero = Tree(alpha=0, **limits).fit(X, y, sample_weight=weight)
    dear = Tree(alpha=alpha, **limits)
    dear.fit(X, y, sample_weight=weight, missing_mask=everything)
    assert_array_equal(dear.predict(X), zero.predict(X))
    assert dear.missingness_reliance_ == 1.0


def test_oracle_04_root_split_is_the_brute_force_minimum():
    rng = np.random.default_rng(4)
    for _ in range(200):
        X = rng.normal(size=(30, 4)).astype(np.float32).astype(np.float64)
        mask = rng.random((30, 4)) < rng.random(4)
        y = rng.integers(0, 3, size=30)
        w = rng.integers(1, 5, size=30).astype(float)
        alpha = rng.choice([0.0, 0.05, 0.2, 0.5, 2.0])
        price = alpha * (w @ mask) / w.sum()
        best = min(
            children_impurity("gini", y, w, X[:, j] <= tau) + price[j]
            for j in range(4)
            for tau in np.sort(X[:, j])[:-1]
        )
        tree = MADecisionTreeClassifier(max_depth=1, alpha=alpha, random_state=0)
        tree.fit(X, y, sample_weight=w, missing_mask=mask)
        j, tau = tree.tree_.feature[0], tree.tree_.threshold[0]
        got = children_impurity("gini", y, w, X[:, j] <= tau) + price[j]
        assert got == pytest.approx(best, abs=1e-9)
        below, above = X[X[:, j] <= tau, j].max(), X[X[:, j] > tau, j].min()
        assert tau == pytest.approx((below + above) / 2)


@pytest.mark.parametrize("imputer", ["mean", "median", "zero", "native"])
@pytest.mark.parametrize("Tree", TREES)
def test_oracle_05_integer_weights_are_repeated_rows(Tree, imputer):
    X, _, y, _ = random_problem(5, n=200, task=task_of(Tree))
    times = np.random.default_rng(5).integers(0, 4, size=200)
    params = {"max_depth": 3, "alpha": 0.1, "imputer": imputer, "random_state": 0}
    weighted = Tree(**params).fit(X, y, sample_weight=times)
    repeated = Tree(**params).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_array_equal(weighted.tree_.feature, repeated.tree_.feature)
    assert_allclose(weighted.tree_.threshold, repeated.tree_.threshold, rtol=1e-6)
    assert_allclose(weighted.tree_.value, repeated.tree_.value, atol=1e-12)
    assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-12)
    assert weighted.missingness_reliance_ == pytest.approx(repeated.missingness_reliance_)
    assert_allclose(
        weighted.node_missingness_reliance_, repeated.node_missingness_reliance_, atol=1e-12
    )
    assert_allclose(weighted.feature_missing_rate_, repeated.feature_missing_rate_, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("Tree", TREES)
def test_oracle_06_reliance_follows_the_path(Tree, alpha):
    X, mask, y, _ = random_problem(6, task=task_of(Tree))
    imputed = SimpleImputer().fit_transform(X)
    full = Tree(max_depth=6, alpha=alpha, random_state=0).fit(X, y)
    cells = cells_read_by(full.tree_, imputed, mask)
    assert_array_equal(full.missingness_reliance(X), cells)
    assert_array_equal(full.missingness_reliance(X, reduce=True), cells.any(axis=1))
    rho = cells.any(axis=1).mean()
    assert missingness_reliance(full, X) == pytest.approx(rho)
    assert full.missingness_reliance_ == pytest.approx(rho)
    assert rho <= mask.any(axis=1).mean()

    visited = full.decision_path(X).toarray().astype(bool)
    tested = np.zeros(X.shape, dtype=bool)
    for node in np.flatnonzero(full.tree_.feature >= 0):
        tested[visited[:, node], full.tree_.feature[node]] = True
    assert_array_equal(tested & mask, cells)

    path = full.cost_complexity_pruning_path(X, y)
    assert len(path.ccp_alphas) > 3
    last = rho
    for ccp_alpha in path.ccp_alphas:
        pruned = clone(full).set_params(ccp_alpha=max(ccp_alpha, 0)).fit(X, y)
        assert_array_equal(pruned.missingness_reliance(X) & ~cells, False)
        assert pruned.missingness_reliance_ <= last + 1e-12
        last = pruned.missingness_reliance_
    assert last == 0.0


@pytest.mark.parametrize("Tree", TREES)
def test_oracle_07_stop_on_net_loss(Tree):
    X, _, y, _ = random_problem(7, missing=0, task=task_of(Tree))
    everything = np.ones(X.shape, dtype=bool)
    params = {"max_depth": 4, "random_state": 0}
    stopped = Tree(alpha=5, stop_on_net_loss=True, **params).fit(X, y, missing_mask=everything)
    assert stopped.tree_.node_count == 1
    assert stopped.missingness_reliance_ == 0.0
    grown = Tree(alpha=5, **params).fit(X, y, missing_mask=everything)
    plain = Tree(alpha=0, **params).fit(X, y)
    assert_array_equal(grown.tree_.feature, plain.tree_.feature)
    assert_array_equal(grown.predict(X), plain.predict(X))


@pytest.mark.parametrize("c", [4.0, 3.0, 1e-3])
def test_oracle_11_scale_of_the_target(c):
    X, _, y, _ = random_problem(11, task="regression")
    params = {"max_depth": 4, "random_state": 0}
    relative = MADecisionTreeRegressor(alpha=0.2, **params).fit(X, y)
    rescaled = MADecisionTreeRegressor(alpha=0.2, **params).fit(X, c * y)
    absolute = MADecisionTreeRegressor(alpha=0.2, alpha_scale="absolute", **params).fit(X, y)
    squared = MADecisionTreeRegressor(alpha=0.2 * c**2, alpha_scale="absolute", **params)
    squared.fit(X, c * y)
    for one, other in [(relative, rescaled), (absolute, squared)]:
        assert_array_equal(one.tree_.feature, other.tree_.feature)
        assert_array_equal(one.tree_.threshold, other.tree_.threshold)
        assert_allclose(c * one.predict(X), other.predict(X), rtol=1e-9, atol=1e-12)
    # The same alpha in absolute units is another price once the target is in other units.
    fixed = MADecisionTreeRegressor(alpha=0.2, alpha_scale="absolute", **params).fit(X, c * y)
    assert not np.array_equal(fixed.tree_.feature, absolute.tree_.feature)


@pytest.mark.parametrize("Tree", TREES)
def test_oracle_11_column_order_does_not_matter(Tree):
    X, _, y, weight = random_problem(12, n=600, task=task_of(Tree))
    order = np.array([3, 0, 4, 2, 1])
    params = {"max_depth": 4, "min_samples_leaf": 10, "alpha": 0.05, "random_state": 0}
    straight = Tree(**params).fit(X, y, sample_weight=weight)
    permuted = Tree(**params).fit(X[:, order], y, sample_weight=weight)
    assert permuted.missingness_reliance_ == pytest.approx(straight.missingness_reliance_)
    cells = straight.missingness_reliance(X)
    assert cells.any()
    assert_array_equal(permuted.missingness_reliance(X[:, order]), cells[:, order])


@pytest.mark.parametrize("Tree", TREES)
def test_oracle_12_pipeline_search_clone_and_pickle(Tree):
    X, _, y, _ = random_problem(13, n=400, task=task_of(Tree))
    y = (y > 0).astype(int) if task_of(Tree) == "classification" else y
    tree = Tree(max_depth=4, random_state=0)
    assert_search_picks_the_least_reliant_good_price(tree, X, y, [0.0, 0.02, 0.1, 1.0])


@pytest.mark.parametrize("Tree", TREES)
def test_oracle_12_routed_mask_equals_nan_in_X(Tree):
    X, mask, y, _ = random_problem(14, task=task_of(Tree))
    tree = Tree(max_depth=4, alpha=0.1, random_state=0)
    routed, by_nan = fit_with_routed_mask(tree, X, mask, y)
    assert_same_nodes(routed[-1].tree_, by_nan.tree_)
    assert_array_equal(routed[-1].node_missingness_reliance_, by_nan.node_missingness_reliance_)
