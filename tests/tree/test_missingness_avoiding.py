"""What a sceptic would ask of missingness-avoiding trees: how they grow, what they count."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.impute import KNNImputer
from sklearn.tree import DecisionTreeClassifier

from skml.metrics import missingness_reliance
from skml.tree import MADecisionTreeClassifier, MADecisionTreeRegressor
from tests.tree._problems import SCOPES, TREES, is_classifier, random_problem
from tests.tree._reference_tree import (
    after_reading,
    assert_greedy,
    best_split,
    children_impurity,
    impurity_of,
)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.5, 20.0])
@pytest.mark.parametrize(
    ("Tree", "criterion"),
    [
        (MADecisionTreeClassifier, "gini"),
        (MADecisionTreeClassifier, "entropy"),
        (MADecisionTreeRegressor, "squared_error"),
    ],
)
def test_every_node_is_the_brute_force_minimum(Tree, criterion, alpha, scope):
    params = {"alpha": alpha, "penalty_scope": scope, "criterion": criterion, "max_depth": 4}
    if not is_classifier(Tree):
        params["alpha_scale"] = "absolute"
    for seed in range(3):
        X, mask, y, w = random_problem(seed, Tree, n=60, d=4)
        tree = Tree(**params, random_state=seed)
        tree.fit(X, y, sample_weight=w, missing_mask=mask)
        assert_greedy(tree, X, mask, y, w, alpha=alpha, criterion=criterion, scope=scope)


@pytest.mark.parametrize("Tree", TREES)
def test_penalty_scopes_grow_different_trees(Tree):
    grown = {scope: [] for scope in SCOPES}
    for seed, scope in itertools.product(range(6), SCOPES):
        X, mask, y, w = random_problem(seed, Tree, n=400, missing=0.6)
        tree = Tree(max_depth=5, alpha=0.1, penalty_scope=scope, random_state=0)
        tree.fit(X, y, sample_weight=w, missing_mask=mask)
        grown[scope].append(tree.tree_.feature.tolist())
    assert grown["node"] != grown["feature"]
    assert grown["feature"] != grown["row"]
    assert grown["row"] != grown["node"]


def test_a_cell_that_was_read_is_free_below():
    """Two splits on one missing column: the second one costs nothing but in scope "node"."""
    steps = np.repeat(np.arange(4.0), 50)
    other = np.tile([0.0, 1.0], 100)
    y = np.array([0, 1, 0, 1])[steps.astype(int)]
    X = np.column_stack([steps, other])
    mask = np.zeros(X.shape, dtype=bool)
    mask[:, 0] = True
    for scope, depth in [("node", 0), ("feature", 2), ("row", 2)]:
        tree = MADecisionTreeClassifier(
            alpha=0.16, penalty_scope=scope, stop_on_net_loss=True, max_depth=3
        ).fit(X, y, missing_mask=mask)
        # The root gains 1/6 whichever class it cuts off: above .16. Its larger child gains
        # less than .16 as long as it has to pay.
        assert tree.get_depth() >= depth
        if scope == "node":
            assert tree.get_depth() == 1
        else:
            assert tree.score(X, y) == 1.0


@pytest.mark.parametrize("Tree", TREES)
def test_weights_enter_the_penalty(Tree):
    """Rows of weight zero that miss a cell make that cell neither dearer nor cheaper."""
    X, mask, y, w = random_problem(8, Tree, n=80, missing=0)
    rng = np.random.default_rng(8)
    mask = rng.random(X.shape) < 0.3
    extra = rng.normal(size=X.shape).astype(np.float32).astype(float)
    X2, y2 = np.vstack([X, extra]), np.concatenate([y, y[::-1]])
    mask2 = np.vstack([mask, rng.random(X.shape) < 0.9])
    w2 = np.concatenate([w, np.zeros(len(w))])
    params = {"max_depth": 3, "alpha": 0.2, "random_state": 0}
    alone = Tree(**params).fit(X, y, sample_weight=w, missing_mask=mask)
    padded = Tree(**params).fit(X2, y2, sample_weight=w2, missing_mask=mask2)
    assert_array_equal(padded.tree_.feature, alone.tree_.feature)
    assert_allclose(padded.tree_.threshold, alone.tree_.threshold)
    assert padded.missingness_reliance_ == pytest.approx(alone.missingness_reliance_)


def test_class_weight_multiplies_gain_and_penalty():
    X, mask, y, w = random_problem(9, MADecisionTreeClassifier, n=60, d=4)
    class_weight = {0: 1.0, 1: 7.0, 2: 0.5}
    total = w * np.array([class_weight[c] for c in y])
    tree = MADecisionTreeClassifier(
        max_depth=3, alpha=0.3, class_weight=class_weight, random_state=0
    )
    tree.fit(X, y, sample_weight=w, missing_mask=mask)
    assert_greedy(tree, X, mask, y, total, alpha=0.3, criterion="gini")
    plain = MADecisionTreeClassifier(max_depth=3, alpha=0.3, random_state=0)
    plain.fit(X, y, sample_weight=total, missing_mask=mask)
    assert_array_equal(plain.tree_.feature, tree.tree_.feature)
    assert_array_equal(plain.tree_.threshold, tree.tree_.threshold)

    names = np.array(["low", "mid", "top"])[np.where(y == 2, 1, y)]
    balanced = MADecisionTreeClassifier(max_depth=2, alpha=0.1, class_weight="balanced")
    balanced.fit(X, names, missing_mask=mask)
    peer = DecisionTreeClassifier(max_depth=2, class_weight="balanced").fit(X, names)
    assert_allclose(balanced.tree_.value[0], peer.tree_.value[0])
    assert_array_equal(balanced.classes_, peer.classes_)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("Tree", TREES)
def test_stop_on_net_loss_stops_where_the_price_eats_the_gain(Tree, scope):
    alpha = 0.5 if is_classifier(Tree) else 4.0
    params = {"alpha": alpha, "penalty_scope": scope, "stop_on_net_loss": True}
    criterion = "gini" if is_classifier(Tree) else "squared_error"
    if not is_classifier(Tree):
        params["alpha_scale"] = "absolute"
    X, _, y, w = random_problem(2, Tree, n=70, d=4)
    mask = np.random.default_rng(2).random(X.shape) < 0.8
    tree = Tree(max_depth=5, random_state=0, **params).fit(X, y, sample_weight=w, missing_mask=mask)
    assert_greedy(tree, X, mask, y, w, alpha=alpha, criterion=criterion, scope=scope)
    free = clone(tree).set_params(stop_on_net_loss=False)
    free.fit(X, y, sample_weight=w, missing_mask=mask)
    assert tree.tree_.node_count < free.tree_.node_count
    # The stopped tree is the free one with branches cut, never another tree.
    stack = [(0, 0)]
    while stack:
        a, b = stack.pop()
        if tree.tree_.children_left[a] >= 0:
            assert tree.tree_.feature[a] == free.tree_.feature[b]
            assert tree.tree_.threshold[a] == free.tree_.threshold[b]
            for side in ("children_left", "children_right"):
                stack.append((getattr(tree.tree_, side)[a], getattr(free.tree_, side)[b]))


def test_a_huge_alpha_reads_the_least_missing_feature_first():
    X, mask, y, _ = random_problem(5, MADecisionTreeClassifier, n=400)
    mask[:, 3] = False
    mask[0, 3] = True
    tree = MADecisionTreeClassifier(alpha=1e6, max_depth=1).fit(X, y, missing_mask=mask)
    assert tree.tree_.node_count == 3
    assert tree.tree_.feature[0] == mask.mean(axis=0).argmin()


@pytest.mark.parametrize("max_leaf_nodes", [2, 3, 5, 9])
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("Tree", TREES)
def test_best_first_follows_the_penalised_gain(Tree, scope, max_leaf_nodes):
    criterion = "gini" if is_classifier(Tree) else "squared_error"
    X, mask, y, w = random_problem(21, Tree, n=90, d=4)
    params = {} if is_classifier(Tree) else {"alpha_scale": "absolute"}
    tree = Tree(
        alpha=0.2, penalty_scope=scope, max_leaf_nodes=max_leaf_nodes, min_samples_leaf=4, **params
    ).fit(X, y, sample_weight=w, missing_mask=mask)

    def open_node(rows, charged):
        split = best_split(
            X, y, w, charged, rows, criterion=criterion, alpha=0.2, min_samples_leaf=4
        )
        impurity = impurity_of(criterion, y[rows], w[rows])
        if split is None or impurity < 1e-9:
            return (-np.inf, rows, charged, None)
        return (w[rows].sum() * (impurity - split[0]), rows, charged, split)

    frontier = [open_node(np.arange(len(X)), mask)]
    expected = []
    while len(frontier) < max_leaf_nodes:
        pick = max(range(len(frontier)), key=lambda k: frontier[k][0])
        gain, rows, charged, split = frontier.pop(pick)
        if gain == -np.inf:
            break
        _, j, tau, left = split
        expected.append((j, round(float(tau), 5)))
        below = after_reading(charged, mask, rows, j, scope)
        frontier += [open_node(rows[left], below), open_node(rows[~left], below)]
    inner = tree.tree_.children_left >= 0
    got = zip(tree.tree_.feature[inner], np.round(tree.tree_.threshold[inner], 5), strict=True)
    assert sorted(expected) == sorted((int(j), float(tau)) for j, tau in got)
    assert tree.get_n_leaves() == max_leaf_nodes


@pytest.mark.parametrize("Tree", TREES)
def test_best_first_without_a_limit_in_reach_is_the_depth_first_tree(Tree):
    X, mask, y, w = random_problem(22, Tree, n=200)
    params = {"alpha": 0.1, "min_samples_leaf": 8, "random_state": 0}
    depth_first = Tree(**params).fit(X, y, sample_weight=w, missing_mask=mask)
    best_first = Tree(max_leaf_nodes=200, **params)
    best_first.fit(X, y, sample_weight=w, missing_mask=mask)
    assert_array_equal(best_first.predict(X), depth_first.predict(X))
    assert best_first.missingness_reliance_ == pytest.approx(depth_first.missingness_reliance_)
    assert_array_equal(
        best_first.missingness_reliance(X, missing_mask=mask),
        depth_first.missingness_reliance(X, missing_mask=mask),
    )


@pytest.mark.parametrize("Tree", TREES)
def test_min_impurity_decrease_counts_the_raw_gain(Tree):
    X, mask, y, w = random_problem(23, Tree, n=300)
    tree = Tree(alpha=0.05, max_depth=6, min_impurity_decrease=0.01)
    tree.fit(X, y, sample_weight=w, missing_mask=mask)
    inner = np.flatnonzero(tree.tree_.children_left >= 0)
    assert len(inner) > 1
    for node in inner:
        sides = [tree.tree_.children_left[node], tree.tree_.children_right[node]]
        W, I = tree.tree_.weighted_n_node_samples, tree.tree_.impurity
        decrease = (W[node] * I[node] - sum(W[s] * I[s] for s in sides)) / W[0]
        assert decrease >= 0.01 - 1e-9
    free = clone(tree).set_params(min_impurity_decrease=0)
    free.fit(X, y, sample_weight=w, missing_mask=mask)
    assert free.tree_.node_count > tree.tree_.node_count


@pytest.mark.parametrize("max_leaf_nodes", [None, 12])
@pytest.mark.parametrize("Tree", TREES)
def test_pruning_weighs_the_plain_impurity(Tree, max_leaf_nodes):
    X, mask, y, w = random_problem(24, Tree, n=300)
    full = Tree(alpha=0.2, max_depth=6, max_leaf_nodes=max_leaf_nodes, random_state=0)
    full.fit(X, y, sample_weight=w, missing_mask=mask)
    path = full.cost_complexity_pruning_path(X, y, sample_weight=w, missing_mask=mask)
    assert np.all(np.diff(path.impurities) >= -1e-12)
    leaves = full.tree_.children_left < 0
    W = full.tree_.weighted_n_node_samples
    assert path.impurities[0] == pytest.approx(
        np.sum((W * full.tree_.impurity)[leaves]) / W[0], abs=1e-9
    )
    assert path.impurities[-1] == pytest.approx(full.tree_.impurity[0])
    sizes = []
    for ccp_alpha in path.ccp_alphas[:: max(1, len(path.ccp_alphas) // 6)]:
        pruned = clone(full).set_params(ccp_alpha=max(0, ccp_alpha) * (1 + 1e-9))
        pruned.fit(X, y, sample_weight=w, missing_mask=mask)
        sizes.append(pruned.tree_.node_count)
        assert pruned.node_missingness_reliance_.shape == (pruned.tree_.node_count,)
        assert pruned.missingness_reliance_ <= full.missingness_reliance_ + 1e-12
        assert pruned.missingness_reliance_ == pytest.approx(
            missingness_reliance(pruned, X, missing_mask=mask, sample_weight=w)
        )
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]


# --------------------------------------------------------------------------------------
# Reliance
# --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ccp_alpha", [0.0, 0.01])
@pytest.mark.parametrize("Tree", TREES)
def test_node_reliance_is_the_share_of_rows_that_read_a_missing_value_so_far(Tree, ccp_alpha):
    X, mask, y, w = random_problem(31, Tree)
    tree = Tree(max_depth=4, alpha=0.02, ccp_alpha=ccp_alpha)
    tree.fit(X, y, sample_weight=w, missing_mask=mask)
    t = tree.tree_
    expected = np.full(t.node_count, np.nan)
    stack = [(0, np.arange(len(X)), np.zeros(len(X), dtype=bool))]
    while stack:
        node, rows, relied = stack.pop()
        if t.children_left[node] >= 0:
            j = t.feature[node]
            relied = relied | mask[:, j]
            left = X[rows, j] <= t.threshold[node]
            stack.append((t.children_left[node], rows[left], relied))
            stack.append((t.children_right[node], rows[~left], relied))
        expected[node] = np.average(relied[rows], weights=w[rows])
    assert_allclose(tree.node_missingness_reliance_, expected, atol=1e-9)
    leaves = t.children_left < 0
    total = np.average(expected[leaves], weights=t.weighted_n_node_samples[leaves])
    assert tree.missingness_reliance_ == pytest.approx(total)


@pytest.mark.parametrize("Tree", TREES)
def test_reliance_is_not_the_share_of_missing_cells(Tree):
    """Contextual: a missing cell counts only on the path of its row."""
    X, mask, y, w = random_problem(32, Tree)
    tree = Tree(max_depth=4, alpha=0.0).fit(X, y, sample_weight=w, missing_mask=mask)
    used = np.unique(tree.tree_.feature[tree.tree_.feature >= 0])
    rho = missingness_reliance(tree, X, missing_mask=mask)
    assert 0 < rho < mask[:, used].any(axis=1).mean()
    assert rho > mask[:, used].mean()


@pytest.mark.parametrize("Tree", TREES)
def test_reliance_falls_with_alpha(Tree):
    X, mask, y, w = random_problem(33, Tree, n=1000)
    rhos = []
    for alpha in [0, 1, 10]:
        tree = Tree(max_depth=4, alpha=alpha).fit(X, y, sample_weight=w, missing_mask=mask)
        rhos.append(tree.missingness_reliance_)
    assert np.all(np.diff(rhos) <= 0.02)
    assert rhos[-1] < 0.5 * rhos[0]


@pytest.mark.parametrize("Tree", TREES)
def test_reliance_of_new_rows(Tree):
    X, mask, y, w = random_problem(34, Tree)
    X[mask] = np.nan
    tree = Tree(max_depth=4, alpha=0.05).fit(X, y)
    assert tree.missingness_reliance(np.zeros((3, 5))).sum() == 0
    blank = tree.missingness_reliance(np.full((3, 5), np.nan))
    assert blank.dtype == bool
    assert blank.shape == (3, 5)
    tested = tree.decision_path(np.full((1, 5), np.nan)).indices
    features = tree.tree_.feature[tested]
    assert_array_equal(np.flatnonzero(blank[0]), np.unique(features[features >= 0]))
    # A mask adds to the NaN, it does not replace them.
    assert_array_equal(
        tree.missingness_reliance(X, missing_mask=np.zeros(X.shape, dtype=bool)),
        tree.missingness_reliance(X),
    )
    assert missingness_reliance(tree, X, sample_weight=w) == pytest.approx(
        np.average(tree.missingness_reliance(X, reduce=True), weights=w)
    )
    rows = missingness_reliance(tree, X, reduce=False)
    assert_array_equal(rows, tree.missingness_reliance(X).any(axis=1))


# --------------------------------------------------------------------------------------
# Imputers and policies
# --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("imputer", "fill"),
    [
        ("mean", lambda v, w: np.average(v, weights=w)),
        ("median", None),
        ("zero", lambda v, w: 0.0),
    ],
)
@pytest.mark.parametrize("Tree", TREES)
def test_imputed_values(Tree, imputer, fill):
    X, mask, y, w = random_problem(41, Tree, n=151)
    w = np.round(w * 3)
    X[:, 4] = np.nan  # nothing observed: filled with zero
    mask[:, 4] = True
    X[mask] = np.nan
    params = {"max_depth": 4, "alpha": 0.01, "random_state": 0}
    tree = Tree(imputer=imputer, **params).fit(X, y, sample_weight=w)
    by_hand = X.copy()
    for j in range(5):
        seen = ~np.isnan(X[:, j])
        if not seen.any():
            value = 0.0
        elif fill is None:
            value = np.median(np.repeat(X[seen, j], w[seen].astype(int)))
        else:
            value = fill(X[seen, j], w[seen])
        by_hand[~seen, j] = value
    other = Tree(imputer="zero", **params)
    other.fit(by_hand, y, sample_weight=w, missing_mask=mask)
    assert_array_equal(tree.tree_.feature, other.tree_.feature)
    assert_allclose(tree.tree_.threshold, other.tree_.threshold, rtol=1e-5)
    assert_array_equal(tree.apply(X), other.apply(by_hand))


@pytest.mark.parametrize("Tree", TREES)
def test_any_transformer_imputes(Tree):
    X, mask, y, _ = random_problem(42, Tree)
    X[mask] = np.nan
    imputer = KNNImputer(n_neighbors=3)
    params = {"max_depth": 4, "alpha": 0.05, "random_state": 0}
    tree = Tree(imputer=imputer, **params).fit(X, y)
    assert not hasattr(imputer, "n_features_in_"), "the parameter itself must stay unfitted"
    filled = KNNImputer(n_neighbors=3).fit_transform(X)
    other = Tree(**params).fit(filled, y, missing_mask=mask)
    assert_array_equal(tree.tree_.feature, other.tree_.feature)
    assert_array_equal(tree.predict(X), other.predict(filled))
    assert tree.missingness_reliance_ == other.missingness_reliance_
    with pytest.raises(ValueError, match="imputer"):
        Tree(imputer="mode").fit(X, y)


@pytest.mark.parametrize("Tree", TREES)
def test_imputer_learns_from_the_training_fold_only(Tree):
    X, mask, y, _ = random_problem(43, Tree)
    X[mask] = np.nan
    tree = Tree(max_depth=4).fit(X[:200], y[:200])
    shifted = X[200:] + np.where(np.isnan(X[200:]), np.nan, 100.0)
    mean = np.nanmean(X[:200], axis=0)
    assert_array_equal(tree.apply(shifted), tree.apply(np.where(np.isnan(shifted), mean, shifted)))


@pytest.mark.parametrize("Tree", TREES)
def test_missing_policy_stop(Tree):
    X, mask, y, _ = random_problem(44, Tree)
    X[mask] = np.nan
    params = {"max_depth": 4, "alpha": 0.02, "random_state": 0}
    through = Tree(**params).fit(X, y)
    stop = Tree(missing_policy="stop", **params).fit(X, y)
    assert_array_equal(stop.tree_.feature, through.tree_.feature)
    assert stop.missingness_reliance_ == 0.0
    assert missingness_reliance(stop, X) == 0.0
    assert not stop.missingness_reliance(X).any()

    t = stop.tree_
    ends, halted = [], 0
    for row in X.astype(np.float32):
        node = 0
        while t.children_left[node] >= 0 and not np.isnan(row[t.feature[node]]):
            goes_left = row[t.feature[node]] <= t.threshold[node]
            node = t.children_left[node] if goes_left else t.children_right[node]
        ends.append(node)
        halted += t.children_left[node] >= 0
    assert 0 < halted < len(X)
    assert_array_equal(stop.apply(X), ends)
    path = stop.decision_path(X)
    assert_array_equal([path.indices[a:b].max() for a, b in _row_bounds(path)], ends)
    assert stop.stopped_fraction(X) == pytest.approx(halted / len(X))
    values = t.value[ends, 0]
    if is_classifier(Tree):
        assert_allclose(stop.predict_proba(X), values)
        assert_array_equal(stop.predict(X), stop.classes_[values.argmax(axis=1)])
    else:
        assert_allclose(stop.predict(X), values[:, 0])
    # Nothing missing: nothing to stop for.
    assert stop.stopped_fraction(np.zeros((2, 5))) == 0.0
    assert_array_equal(stop.predict(np.zeros((2, 5))), through.predict(np.zeros((2, 5))))


def _row_bounds(matrix):
    return zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)


# --------------------------------------------------------------------------------------
# NaN routed by a learnt direction: the bugs that users met in scikit-learn's trees
# --------------------------------------------------------------------------------------


def native(Tree, **params):
    return Tree(imputer="native", alpha=0.0, random_state=0, **params)


def test_native_partitions_missing_rows_into_pure_leaves():
    # scikit-learn issue 28254: one row per leaf must leave no error at all.
    X = np.array([np.nan, np.nan, 3, 4, 5, 6]).reshape(-1, 1)
    y = np.array([0.0, 0.0, 2, 3, 4, 5])
    tree = native(MADecisionTreeRegressor).fit(X, y)
    assert_array_equal(tree.predict(X), y)
    assert tree.tree_.impurity.min() >= 0


def test_native_stops_splitting_pure_nodes():
    # scikit-learn issue 28298: more splits than the data ask for.
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(42)
    X[rng.random(X.shape) < X[:, [2]] / 8] = np.nan
    for seed in range(10):
        rows = np.random.default_rng(seed).integers(0, len(X), len(X))
        tree = MADecisionTreeClassifier(
            imputer="native", alpha=0, max_features="sqrt", random_state=seed
        ).fit(X[rows], y[rows])
        t = tree.tree_
        inner = t.children_left >= 0
        assert np.all(t.impurity[inner] > 0)
        assert np.all(t.n_node_samples[t.children_left[inner]] > 0)
        assert np.all(t.n_node_samples[t.children_right[inner]] > 0)
        counts = np.bincount(tree.apply(X[rows]), minlength=t.node_count)
        assert_array_equal(counts[~inner], t.n_node_samples[~inner])


@pytest.mark.parametrize("Tree", TREES)
@pytest.mark.parametrize("values", [[0, 0, 0, np.nan, np.nan], [np.nan, 2, np.nan, 2, np.nan]])
def test_native_splits_a_constant_column_by_its_gaps(Tree, values):
    # scikit-learn issue 32272.
    X = np.array(values, dtype=float).reshape(-1, 1)
    y = np.isnan(X[:, 0]).astype(int)
    tree = native(Tree).fit(X, y)
    assert tree.get_n_leaves() == 2
    assert_array_equal(tree.predict(X), y)
    decorated = np.hstack([np.ones((5, 1)), X, np.zeros((5, 1))])
    assert_array_equal(native(Tree).fit(decorated, y).predict(decorated), y)


@pytest.mark.parametrize("Tree", TREES)
def test_native_decision_path_ends_where_apply_says(Tree):
    # scikit-learn issue 32284.
    X = np.array([0, np.nan, np.nan, 2, 3]).reshape(-1, 1)
    y = np.array([0, 0, 0, 1, 1])
    tree = native(Tree).fit(X, y)
    path = tree.decision_path(X).toarray()
    assert np.all(path[np.arange(5), tree.apply(X)] == 1)
    assert_array_equal(tree.predict(X), y)

    X, mask, y, w = random_problem(51, Tree)
    X[mask] = np.nan
    tree = native(Tree, max_depth=5).fit(X, y, sample_weight=w)
    path = tree.decision_path(X)
    leaves = tree.apply(X)
    assert_array_equal([path.indices[a:b].max() for a, b in _row_bounds(path)], leaves)
    assert_array_equal(np.bincount(leaves), _leaf_counts(tree.tree_))


def _leaf_counts(tree):
    counts = np.where(tree.children_left < 0, tree.n_node_samples, 0)
    return counts[: np.flatnonzero(counts).max() + 1]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("Tree", TREES)
def test_native_tries_both_sides(Tree, seed):
    """Brute force over (j, tau, side of the missing rows), "only missing" included."""
    X, mask, y, w = random_problem(60 + seed, Tree, n=40, d=3)
    X[mask] = np.nan
    criterion = "gini" if is_classifier(Tree) else "squared_error"
    params = {} if is_classifier(Tree) else {"alpha_scale": "absolute"}
    alpha = 0.1
    tree = Tree(imputer="native", max_depth=1, alpha=alpha, **params)
    tree.fit(X, y, sample_weight=w)
    best = np.inf
    for j in range(3):
        gaps = np.isnan(X[:, j])
        price = alpha * (w @ gaps) / w.sum()
        for tau in np.sort(X[~gaps, j]):
            below = X[:, j] <= tau
            for left in (below, below | gaps):
                if 0 < left.sum() < len(X):
                    best = min(best, children_impurity(criterion, y, w, left) + price)
    t = tree.tree_
    j = t.feature[0]
    gaps = np.isnan(X[:, j])
    left = np.where(gaps, bool(t.missing_go_to_left[0]), X[:, j] <= t.threshold[0])
    got = children_impurity(criterion, y, w, left) + alpha * (w @ gaps) / w.sum()
    assert got == pytest.approx(best, abs=1e-9)
    assert_array_equal(tree.apply(X), np.where(left, 1, 2))


@pytest.mark.parametrize("Tree", TREES)
def test_native_sends_gaps_unseen_in_training_to_the_larger_child(Tree):
    X, _, y, _ = random_problem(70, Tree, missing=0)
    tree = native(Tree, max_depth=4).fit(X, y)
    t = tree.tree_
    for node in np.flatnonzero(t.children_left >= 0):
        sizes = t.n_node_samples[[t.children_left[node], t.children_right[node]]]
        if sizes[0] != sizes[1]:
            assert bool(t.missing_go_to_left[node]) == (sizes[0] > sizes[1])
    assert tree.missingness_reliance(np.full((1, 5), np.nan)).any()


# --------------------------------------------------------------------------------------
# Made-up input
# --------------------------------------------------------------------------------------


@st.composite
def problems(draw):
    """Small coarse data: ties, repeated rows, gaps and zero weights are the rule."""
    n, d = draw(st.integers(1, 14)), draw(st.integers(1, 4))
    cell = st.one_of(st.integers(-2, 2).map(float), st.just(np.nan))
    X = np.array(draw(st.lists(st.lists(cell, min_size=d, max_size=d), min_size=n, max_size=n)))
    y = np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    w = np.array(draw(st.lists(st.integers(1, 3), min_size=n, max_size=n)), dtype=float)
    alpha = draw(st.sampled_from([0.0, 0.1, 0.37, 4.0]))
    return X, y, w, alpha


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("Tree", TREES)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(problem=problems(), net_loss=st.booleans(), least=st.integers(1, 3))
def test_made_up_input(Tree, scope, problem, net_loss, least):
    X, y, w, alpha = problem
    mask = np.isnan(X)
    imputed = np.where(mask, 0.0, X)
    criterion = "gini" if is_classifier(Tree) else "squared_error"
    params = {} if is_classifier(Tree) else {"alpha_scale": "absolute"}
    tree = Tree(
        alpha=alpha,
        penalty_scope=scope,
        stop_on_net_loss=net_loss,
        min_samples_leaf=least,
        imputer="zero",
        max_depth=3,
        **params,
    ).fit(X, y, sample_weight=w)
    assert_greedy(tree, imputed, mask, y, w, alpha=alpha, criterion=criterion, scope=scope)
    rows = tree.missingness_reliance(X, reduce=True)
    assert tree.missingness_reliance_ == pytest.approx(np.average(rows, weights=w))
    assert tree.missingness_reliance_ <= np.average(mask.any(axis=1), weights=w) + 1e-12
    assert not (tree.missingness_reliance(X) & ~mask).any()


@pytest.mark.parametrize("Tree", TREES)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(problem=problems(), leaves=st.integers(2, 6))
def test_made_up_input_native_and_best_first(Tree, problem, leaves):
    X, y, w, alpha = problem
    for imputer in ("native", "median"):
        tree = Tree(alpha=alpha, imputer=imputer, max_leaf_nodes=leaves).fit(X, y, sample_weight=w)
        t = tree.tree_
        assert tree.get_n_leaves() <= leaves
        counts = np.bincount(tree.apply(X), minlength=t.node_count)
        assert_array_equal(counts[t.children_left < 0], t.n_node_samples[t.children_left < 0])
        inner = np.flatnonzero(t.children_left >= 0)
        assert np.all(t.impurity[inner] > 0)
        assert np.all(t.n_node_samples > 0)
        assert np.isfinite(t.threshold[inner]).all() or imputer == "native"
        rows = tree.missingness_reliance(X, reduce=True)
        assert tree.missingness_reliance_ == pytest.approx(np.average(rows, weights=w))
