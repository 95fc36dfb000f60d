"""The compiled tree core against plain numpy references."""

import itertools

import numpy as np
import pytest

from skml.tree import _growing, _reliance
from skml.tree._growing import TreeSettings, as_sklearn_tree, grow_tree
from skml.tree._presort import presort_columns
from skml.tree._presorted import PresortedData
from skml.tree._values import class_shares
from skml.utils._missing import ColumnImputer, pack_mask


def impurity(criterion, target, weight):
    if criterion == "squared_error":
        mean = np.average(target, weights=weight)
        return np.average((target - mean) ** 2, weights=weight)
    shares = np.bincount(target, weights=weight) / weight.sum()
    shares = shares[shares > 0]
    if criterion == "gini":
        return 1 - np.sum(shares**2)
    return -np.sum(shares * np.log2(shares))


def reference_splits(X, target, weight, mask, criterion, alpha):
    """C + alpha P of every feature and every way to separate two values, by definition."""
    found = {}
    total = weight.sum()
    for j in range(X.shape[1]):
        price = weight @ mask[:, j] / total
        values = np.unique(X[:, j])
        for a, b in itertools.pairwise(values):
            left = X[:, j] <= a
            cost = sum(
                weight[side].sum() * impurity(criterion, target[side], weight[side])
                for side in (left, ~left)
            )
            found[j, a / 2 + b / 2] = cost / total + alpha * price
    return found


def grow_one(X, target, *, weight=None, mask=None, criterion="gini", **settings):
    data = PresortedData.from_columns(np.ascontiguousarray(X.T, dtype=np.float32), mask)
    kind = {"max_features": X.shape[1], **settings}
    if criterion == "squared_error":
        given = {"y": target.astype(float)}
    else:
        given = {"codes": target.astype(np.int32), "n_classes": int(target.max()) + 1}
    grown = grow_tree(
        data, TreeSettings(criterion=criterion, **kind), sample_weight=weight, **given
    )
    return data, grown


@pytest.mark.parametrize("n", [1, 2, 3, 97, 2047, 2048, 2049, 5003])
def test_presort_equals_stable_argsort(n):
    rng = np.random.default_rng(n)
    columns = np.vstack(
        [
            rng.normal(size=n),
            rng.integers(-3, 3, n) * 1e-30,
            np.zeros(n),
            np.arange(n),
            -np.arange(n) * 1e30,
            rng.normal(size=n) * 10.0 ** rng.integers(-40, 38, n),
        ]
    ).astype(np.float32)
    expected = np.argsort(columns, axis=1, kind="stable")
    np.testing.assert_array_equal(presort_columns(columns), expected)


def test_presort_puts_nan_last_and_treats_both_zeros_alike():
    column = np.array([[0.0, np.nan, -0.0, -np.inf, 1.0, -np.nan, 0.0, np.inf]], dtype=np.float32)
    np.testing.assert_array_equal(presort_columns(column), [[3, 0, 2, 6, 4, 7, 1, 5]])


@pytest.mark.parametrize("criterion", ["gini", "entropy", "squared_error"])
@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_root_split_attains_the_least_penalised_impurity(criterion, n_classes, weighted):
    rng = np.random.default_rng(n_classes)
    for _ in range(30):
        n, d = int(rng.integers(2, 31)), int(rng.integers(1, 6))
        # Few distinct values, so that equal neighbours must be stepped over.
        X = rng.integers(0, 6, size=(n, d)).astype(np.float32)
        target = rng.integers(0, n_classes, n)
        target[0], target[-1] = 0, n_classes - 1
        mask = rng.random((n, d)) < 0.3
        weight = rng.integers(1, 5, n).astype(float) if weighted else np.ones(n)
        alpha = rng.choice([0.0, 0.1, 1.0])
        _, grown = grow_one(
            X,
            target,
            weight=weight if weighted else None,
            mask=mask,
            criterion=criterion,
            alpha=alpha,
            max_depth=1,
        )
        splits = reference_splits(X, target, weight, mask, criterion, alpha)
        root = grown.nodes[0]
        if not splits:
            assert len(grown.nodes) == 1
            continue
        chosen = splits[root["feature"], root["threshold"]]
        assert chosen == pytest.approx(min(splits.values()), abs=1e-9)
        assert root["impurity"] == pytest.approx(impurity(criterion, target, weight), abs=1e-12)


@pytest.mark.parametrize("criterion", ["gini", "squared_error", "entropy"])
@pytest.mark.parametrize("max_leaf_nodes", [None, 13])
def test_leaf_numbers_follow_the_thresholds(criterion, max_leaf_nodes):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(503, 5)).round(1)
    target = rng.integers(0, 3, 503)
    weight = rng.integers(0, 3, 503).astype(float)
    data, grown = grow_one(
        X, target, weight=weight, criterion=criterion, max_leaf_nodes=max_leaf_nodes, max_depth=6
    )
    assert np.all(grown.leaf[weight == 0] == -1)
    tree = as_sklearn_tree(grown, np.zeros((len(grown.nodes), 1)), 5)
    kept = weight > 0
    np.testing.assert_array_equal(tree.apply(data.columns.T)[kept], grown.leaf[kept])
    # Every node's statistics are those of the rows that reach it.
    reached = tree.decision_path(data.columns.T).toarray().astype(bool)
    for node, row in enumerate(grown.nodes):
        rows = reached[:, node] & kept
        assert row["n_node_samples"] == rows.sum()
        assert row["weighted_n_node_samples"] == weight[rows].sum()
        assert row["impurity"] == pytest.approx(
            impurity(criterion, target[rows], weight[rows]), abs=1e-12
        )


def test_best_first_without_limit_is_depth_first_renumbered():
    rng = np.random.default_rng(4)
    X, target = rng.normal(size=(200, 4)), rng.integers(0, 2, 200)
    _, deep = grow_one(X, target, max_depth=5)
    _, best = grow_one(X, target, max_depth=5, max_leaf_nodes=10**6)
    fields = ["feature", "threshold", "n_node_samples", "impurity"]
    assert sorted(deep.nodes[fields].tolist()) == sorted(best.nodes[fields].tolist())


def test_shared_order_is_left_as_it_was():
    rng = np.random.default_rng(5)
    X, target = rng.normal(size=(300, 3)), rng.integers(0, 2, 300).astype(np.int32)
    data = PresortedData.from_columns(np.ascontiguousarray(X.T, dtype=np.float32))
    before = data.order.copy()
    settings = TreeSettings("gini", 3)
    first = grow_tree(data, settings, codes=target, n_classes=2)
    np.testing.assert_array_equal(data.order, before)
    again = grow_tree(data, settings, codes=target, n_classes=2)
    np.testing.assert_array_equal(first.nodes, again.nodes)
    last = grow_tree(data, settings, codes=target, n_classes=2, overwrite_order=True)
    np.testing.assert_array_equal(first.nodes, last.nodes)


@pytest.mark.parametrize("scope", ["node", "feature", "row"])
def test_every_split_of_a_scope_is_the_best_at_its_price(scope):
    rng = np.random.default_rng(6)
    n, d, alpha = 120, 4, 0.05
    X = rng.integers(0, 8, size=(n, d)).astype(float)
    target = rng.integers(0, 2, n)
    mask = rng.random((n, d)) < 0.4
    _, grown = grow_one(X, target, mask=mask, alpha=alpha, penalty_scope=scope, max_depth=3)
    nodes = grown.nodes
    tree = as_sklearn_tree(grown, np.zeros((len(nodes), 1)), d)
    reached = tree.decision_path(X.astype(np.float32)).toarray().astype(bool)
    for node in np.flatnonzero(nodes["left_child"] >= 0):
        path, above = [], nodes["parent"][node]
        while above >= 0:
            path.append(nodes["feature"][above])
            above = nodes["parent"][above]
        priced = mask.copy()
        if scope == "feature":
            priced[:, path] = False
        if scope == "row":
            priced[mask[:, path].any(axis=1)] = False
        rows = reached[:, node]
        splits = reference_splits(
            X[rows], target[rows], np.ones(rows.sum()), priced[rows], "gini", alpha
        )
        chosen = splits[nodes["feature"][node], nodes["threshold"][node]]
        assert chosen == pytest.approx(min(splits.values()), abs=1e-9)


def test_cells_without_price_are_free():
    """Boosting hands in sigma times m: where it is zero the missing feature costs nothing."""
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    X = np.column_stack([y, [0, 0, 0, 1, 1, 1, 1, 1]])
    mask = np.zeros(X.shape, dtype=bool)
    mask[[0, 1, 4, 5], 0] = True
    data = PresortedData.from_columns(np.ascontiguousarray(X.T, dtype=np.float32), mask)
    settings = TreeSettings("gini", 2, alpha=0.45, max_depth=1)
    codes = y.astype(np.int32)
    priced = data.mask.copy()
    assert grow_tree(data, settings, codes=codes, n_classes=2).nodes[0]["feature"] == 1
    tree = grow_tree(data, TreeSettings("gini", 2, max_depth=1), codes=codes, n_classes=2)
    links = (tree.nodes["parent"].copy(), tree.nodes["feature"].copy())
    _reliance.release_cells(tree.leaf, *links, data.mask, data.mask_row, priced, False)
    assert priced.sum() == 0
    freed = grow_tree(data, settings, codes=codes, n_classes=2, priced=priced)
    assert freed.nodes[0]["feature"] == 0


def test_reliance_kernels_equal_a_plain_walk():
    rng = np.random.default_rng(7)
    X, target = rng.normal(size=(150, 4)), rng.integers(0, 2, 150)
    mask = rng.random(X.shape) < [0.5, 0.0, 0.2, 0.1]
    weight = rng.integers(1, 4, 150).astype(float)
    data, grown = grow_one(X, target, mask=mask, max_depth=4)
    nodes = grown.nodes
    read = np.zeros_like(mask)
    stop = np.zeros(150, dtype=int)
    relied, total = np.zeros(len(nodes)), np.zeros(len(nodes))
    for i in range(150):
        node, stopped, seen = 0, None, False
        while True:
            feature = nodes["feature"][node]
            if feature >= 0 and mask[i, feature]:
                read[i, feature] = seen = True
                stopped = node if stopped is None else stopped
            total[node] += weight[i]
            relied[node] += weight[i] * seen
            if feature < 0:
                break
            goes_left = data.columns[feature, i] <= nodes["threshold"][node]
            node = nodes["left_child" if goes_left else "right_child"][node]
        stop[i] = node if stopped is None else stopped
    parent, feature = nodes["parent"].copy(), nodes["feature"].copy()
    given = (grown.leaf, parent, feature, data.mask, data.mask_row)
    # Marks of earlier trees stay.
    rows = (np.arange(len(read)) % 7 == 0).astype(np.uint8)
    expected = read.any(axis=1) | (rows == 1)
    _reliance.mark_relied_rows(*given, rows)
    np.testing.assert_array_equal(rows, expected)
    cells = np.zeros_like(data.mask)
    _reliance.mark_relied_cells(*given, cells)
    np.testing.assert_array_equal(cells.T, read[:, data.mask_row >= 0])
    np.testing.assert_array_equal(_reliance.stopping_nodes(*given), stop)
    masses = _reliance.reliance_mass(*given, weight)
    np.testing.assert_allclose(masses[0], relied)
    np.testing.assert_allclose(masses[1], total)
    for whole_row in (False, True):
        priced = data.mask.copy()
        _reliance.release_cells(*given, priced, whole_row)
        left = mask & ~(read.any(axis=1, keepdims=True) if whole_row else read)
        np.testing.assert_array_equal(priced.T, left[:, data.mask_row >= 0])


def test_class_shares_add_up_from_the_leaves():
    parent = np.array([-1, 0, 1, 1, 0])
    leaf = np.array([2, 2, 3, 4, 4, -1])
    codes = np.array([0, 1, 2, 0, 0, 1], dtype=np.int32)
    shares = class_shares(leaf, codes, None, parent, 3)
    expected = np.array([[3, 1, 1], [1, 1, 1], [1, 1, 0], [0, 0, 1], [2, 0, 0]])
    np.testing.assert_allclose(shares, expected / expected.sum(axis=1, keepdims=True))


def test_weighted_statistics_equal_those_of_repeated_rows():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(31, 3))
    X[rng.random(X.shape) < 0.3] = np.nan
    X[:, 2] = np.nan
    weight = rng.integers(1, 5, 31)
    repeated = np.repeat(X, weight, axis=0)
    for strategy in ("mean", "median", "zero"):
        weighted = ColumnImputer(strategy).fit(
            X, sample_weight=weight.astype(float), missing_mask=np.isnan(X)
        )
        plain = ColumnImputer(strategy).fit(repeated, missing_mask=np.isnan(repeated))
        np.testing.assert_allclose(weighted.statistics_, plain.statistics_)
        assert weighted.statistics_[2] == 0
    median = ColumnImputer("median").fit(repeated, missing_mask=np.isnan(repeated))
    np.testing.assert_allclose(median.statistics_[:2], np.nanmedian(repeated[:, :2], axis=0))


def test_packed_mask_keeps_only_columns_that_miss_something():
    mask = np.array([[0, 1, 0], [0, 0, 0], [0, 1, 1]], dtype=bool)
    packed, row = pack_mask(mask, 3, 3)
    np.testing.assert_array_equal(row, [-1, 0, 1])
    np.testing.assert_array_equal(packed, mask[:, 1:].T)


def test_growing_stops_when_the_values_would_not_fit(monkeypatch):
    rng = np.random.default_rng(9)
    X, codes = rng.normal(size=(400, 2)), rng.integers(0, 3, 400)
    monkeypatch.setattr(_growing, "memory_limit", lambda: 16 * 3 * 20)
    with pytest.raises(MemoryError, match="more than 20 nodes"):
        grow_one(X, codes)
