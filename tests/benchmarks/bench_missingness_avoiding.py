"""Missingness-avoiding trees beside scikit-learn's trees, which search the same splits."""

import numpy as np
import pytest
from _timing import compare, compare_memory, memory_rate
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skml.tree import MADecisionTreeClassifier, MADecisionTreeRegressor

N, D = 50_000, 20
# Order, value, target and weight of each cell are read once per level of the tree.
BYTES_PER_CELL_AND_LEVEL = 16


def make_data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    signal = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + rng.normal(size=N)
    gaps = rng.random((N, D)) < 0.3
    return X, np.where(gaps, np.nan, X), (signal > 0).astype(int), signal


@pytest.fixture(scope="module")
def data():
    return make_data()


@pytest.fixture(scope="module")
def rate():
    return memory_rate()


@pytest.mark.parametrize("depth", [5, 10])
@pytest.mark.parametrize(
    ("criterion", "goal"), [("gini", 5), ("squared_error", 4)], ids=["gini", "squared_error"]
)
def test_fit(benchmark, record, data, rate, criterion, goal, depth):
    """One tree, all features, presort included; alpha = 0, so that both grow the same tree."""
    X, _, labels, signal = data
    if criterion == "gini":
        Ours, Theirs, y = MADecisionTreeClassifier, DecisionTreeClassifier, labels
    else:
        Ours, Theirs, y = MADecisionTreeRegressor, DecisionTreeRegressor, signal
    row = compare(
        benchmark,
        f"fit, {criterion}, depth {depth}, n = {N}, d = {D}",
        lambda: Ours(criterion=criterion, max_depth=depth, alpha=0, random_state=0).fit(X, y),
        Theirs.__name__,
        lambda: Theirs(criterion=criterion, max_depth=depth, random_state=0).fit(X, y),
        goal=goal,
        limit_s=depth * BYTES_PER_CELL_AND_LEVEL * N * D / rate,
    )
    record.add(row)


@pytest.mark.parametrize("depth", [5, 10])
def test_fit_with_gaps(benchmark, record, data, depth):
    """What a user would run instead: impute, then a plain tree. Reported without a goal."""
    _, X, y, _ = data
    row = compare(
        benchmark,
        f"fit, gini, depth {depth}, 30 % of the cells missing, alpha = 0.1",
        lambda: MADecisionTreeClassifier(max_depth=depth, alpha=0.1, random_state=0).fit(X, y),
        "SimpleImputer + DecisionTreeClassifier",
        lambda: make_pipeline(
            SimpleImputer(), DecisionTreeClassifier(max_depth=depth, random_state=0)
        ).fit(X, y),
    )
    record.add(row)


@pytest.mark.parametrize("gaps", [False, True], ids=["complete", "gaps"])
@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_predict(benchmark, record, data, method, gaps):
    complete, missing, y, _ = data
    X = missing if gaps else complete
    ours = MADecisionTreeClassifier(max_depth=10, alpha=0, random_state=0).fit(X, y)
    if gaps:
        peer, theirs = (
            "SimpleImputer + DecisionTreeClassifier",
            make_pipeline(SimpleImputer(), DecisionTreeClassifier(max_depth=10, random_state=0)),
        )
    else:
        peer = "DecisionTreeClassifier"
        theirs = DecisionTreeClassifier(max_depth=10, random_state=0)
    theirs.fit(X, y)
    row = compare(
        benchmark,
        f"{method}, depth 10, n = {N}, d = {D}" + (", 30 % of the cells missing" if gaps else ""),
        lambda: getattr(ours, method)(X),
        peer,
        lambda: getattr(theirs, method)(X),
        goal=1.0 if method == "predict" else None,
        rounds=15,
    )
    record.add(row)


@pytest.mark.parametrize("gaps", [False, True], ids=["complete", "gaps"])
@pytest.mark.parametrize("Tree", [MADecisionTreeClassifier, MADecisionTreeRegressor])
def test_peak_memory_of_fit(record, data, Tree, gaps):
    complete, missing, labels, signal = data
    X = missing if gaps else complete
    y = labels if Tree is MADecisionTreeClassifier else signal
    row = compare_memory(
        f"peak memory, {Tree.__name__}.fit, depth 10, n = {N}, d = {D}"
        + (", 30 % of the cells missing" if gaps else ""),
        lambda: Tree(max_depth=10, alpha=0.1, random_state=0).fit(X, y),
        allowed=(3 * 4 + 4) * N * D,
        what="3 x X in float32, and the order in int32",
    )
    record.add(row)
