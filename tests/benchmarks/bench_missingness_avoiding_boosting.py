"""Missingness-avoiding boosting beside scikit-learn's two, and what the penalty itself costs.

The exact engine uses one thread, as its peer does; the histogram engine and its peer use two.
Memory is measured on one thread: it runs in a forked process, which OpenMP threads do not survive.
"""

import numpy as np
import pytest
from _timing import compare, compare_memory, memory_rate, peak_memory
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
)
from threadpoolctl import threadpool_limits

from skml.ensemble import MAGradientBoostingClassifier, MAGradientBoostingRegressor

THREADS = 2
# Order, value, target and weight of each cell are read once per level of a tree.
BYTES_PER_CELL_AND_LEVEL = 16
# A fit under the price may take 1.6 times as long as one with alpha = 0.
PENALTY = 1 / 1.6
NO_COST = 0.95
LEAVES = {"max_leaf_nodes": 31, "min_samples_leaf": 20}


def make_data(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    signal = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + rng.normal(size=n)
    return X, (signal > 0).astype(int), signal


def with_gaps(X, seed=1):
    """A tenth of the cells of every column, in place to spare a copy of large data."""
    rng = np.random.default_rng(seed)
    for j in range(X.shape[1]):
        X[rng.random(len(X)) < 0.1, j] = np.nan
    return X


@pytest.fixture(scope="module")
def large():
    X, y, _ = make_data(1_000_000, 28)
    return with_gaps(X), y


def binned(n_stages, alpha=0.1, **params):
    params = {"max_bins": 255, "max_depth": None, "random_state": 0, **LEAVES, **params}
    return MAGradientBoostingClassifier(n_estimators=n_stages, alpha=alpha, **params)


def peer(n_stages):
    return HistGradientBoostingClassifier(
        max_iter=n_stages, early_stopping=False, random_state=0, **LEAVES
    )


def test_peak_memory_of_the_histogram_engine(record, large):
    """At most half as much again as the peer; a few stages, since more take no more memory."""

    def on_one_thread(model):
        with threadpool_limits(1):
            model.fit(*large)

    theirs = peak_memory(lambda: on_one_thread(peer(2)))
    row = compare_memory(
        "peak memory, histogram fit, n = 1000000, d = 28, 31 leaves, a tenth of the cells missing",
        lambda: on_one_thread(binned(2)),
        allowed=int(1.5 * theirs),
        what="1.5 x that of HistGradientBoostingClassifier.fit",
    )
    record.add(row)


@pytest.mark.parametrize(
    ("Ours", "Theirs"),
    [
        (MAGradientBoostingClassifier, GradientBoostingClassifier),
        (MAGradientBoostingRegressor, GradientBoostingRegressor),
    ],
)
def test_exact_fit(benchmark, record, Ours, Theirs):
    """The same trees; the peer takes so long that each side runs once."""
    n, d, stages, depth = 50_000, 20, 20, 3
    X, labels, signal = make_data(n, d)
    y = labels if Ours is MAGradientBoostingClassifier else signal
    params = {"n_estimators": stages, "max_depth": depth, "random_state": 0}
    row = compare(
        benchmark,
        f"exact fit, {Ours.__name__}, depth {depth}, {stages} stages, n = {n}, d = {d}",
        lambda: Ours(alpha=0, **params).fit(X, y),
        Theirs.__name__,
        lambda: Theirs(**params).fit(X, y),
        goal=5,
        rounds=1,
        warm_up=False,
        limit_s=stages * depth * BYTES_PER_CELL_AND_LEVEL * n * d / memory_rate(),
    )
    record.add(row)


def test_exact_fit_cost_of_the_penalty(benchmark, record):
    X, y, _ = make_data(50_000, 20)
    X = with_gaps(X)
    row = compare(
        benchmark,
        "cost of the penalty, exact fit, depth 3, 10 stages, n = 50000, d = 20, "
        "a tenth of the cells missing",
        lambda: MAGradientBoostingClassifier(n_estimators=10, alpha=0.1).fit(X, y),
        "the same with alpha = 0",
        lambda: MAGradientBoostingClassifier(n_estimators=10, alpha=0).fit(X, y),
        goal=PENALTY,
        rounds=3,
    )
    record.add(row)


def test_histogram_fit(benchmark, record, large):
    row = compare(
        benchmark,
        "histogram fit, 100 stages, 31 leaves, n = 1000000, d = 28, a tenth of the cells missing, "
        "alpha = 0.1, two threads",
        lambda: binned(100).fit(*large),
        "HistGradientBoostingClassifier",
        lambda: peer(100).fit(*large),
        goal=0.5,
        rounds=1,
        warm_up=False,
        threads=THREADS,
    )
    record.add(row)


@pytest.mark.parametrize(
    ("gaps", "goal"), [(True, PENALTY), (False, NO_COST)], ids=["gaps", "complete"]
)
def test_histogram_fit_cost_of_the_penalty(benchmark, record, gaps, goal):
    X, y, _ = make_data(200_000, 28)
    X = with_gaps(X) if gaps else X
    row = compare(
        benchmark,
        "cost of the penalty, histogram fit, 20 stages, 31 leaves, n = 200000, d = 28, "
        f"{'a tenth of the cells' if gaps else 'nothing'} missing, two threads",
        lambda: binned(20).fit(X, y),
        "the same with alpha = 0",
        lambda: binned(20, alpha=0).fit(X, y),
        goal=goal,
        rounds=4,
        threads=THREADS,
    )
    record.add(row)


@pytest.mark.parametrize(("n", "d"), [(10_000, 28), (100_000, 28), (100_000, 7), (100_000, 112)])
def test_histogram_fit_by_size(benchmark, record, n, d):
    """Cost curve; reported without a goal."""
    X, y, _ = make_data(n, d)
    X = with_gaps(X)
    row = compare(
        benchmark,
        f"histogram fit, 20 stages, 31 leaves, n = {n}, d = {d}, a tenth of the cells missing, "
        "alpha = 0.1, two threads",
        lambda: binned(20).fit(X, y),
        "HistGradientBoostingClassifier",
        lambda: peer(20).fit(X, y),
        rounds=2,
        threads=THREADS,
    )
    record.add(row)


def test_predict_proba(benchmark, record):
    X, y, _ = make_data(100_000, 28)
    X = with_gaps(X)
    ours, theirs = binned(50).fit(X[:20_000], y[:20_000]), peer(50).fit(X[:20_000], y[:20_000])
    row = compare(
        benchmark,
        "predict_proba, 50 stages, 31 leaves, n = 100000, d = 28, a tenth of the cells missing, "
        "two threads",
        lambda: ours.predict_proba(X),
        "HistGradientBoostingClassifier",
        lambda: theirs.predict_proba(X),
        threads=THREADS,
    )
    record.add(row)
