"""Missingness-avoiding forests beside scikit-learn's, and what the penalty itself costs.

Both sides may use two threads wherever a forest is grown or asked.
"""

import time

import numpy as np
import pytest
from _timing import compare, compare_memory, memory_rate
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from skml.ensemble import MARandomForestClassifier, MARandomForestRegressor
from skml.tree import MADecisionTreeClassifier

N, D = 50_000, 20
THREADS = 2
# Order, value, target and weight of each cell are read once per level of a tree.
BYTES_PER_CELL_AND_LEVEL = 16
# A penalised fit may take 1.6 times as long as one with alpha = 0.
PENALTY = 1 / 1.6
NO_COST = 0.95


def make_data(n=N, d=D, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    signal = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + rng.normal(size=n)
    return X, (signal > 0).astype(int), signal


def with_gaps(X, seed=1):
    # 30 % of the cells of every column.
    return np.where(np.random.default_rng(seed).random(X.shape) < 0.3, np.nan, X)


@pytest.fixture(scope="module")
def data():
    return make_data()


@pytest.fixture(scope="module")
def rate():
    return memory_rate()


def classifier(n_estimators, **params):
    params = {"n_jobs": THREADS, "random_state": 0, **params}
    return MARandomForestClassifier(n_estimators, **params)


@pytest.mark.parametrize(("depth", "goal"), [(10, 3), (None, None)], ids=["depth10", "unlimited"])
def test_fit_of_100_trees(benchmark, record, data, rate, depth, goal):
    """The peer takes most of a minute, so each side runs once."""
    X, y, _ = data
    limit = None if depth is None else 100 / THREADS * depth * BYTES_PER_CELL_AND_LEVEL * N * D
    row = compare(
        benchmark,
        f"fit, 100 trees, gini, {'unlimited depth' if depth is None else f'depth {depth}'}, "
        f"n = {N}, d = {D}, two threads",
        lambda: classifier(100, max_depth=depth, alpha=0).fit(X, y),
        "RandomForestClassifier(max_features=1.0)",
        lambda: RandomForestClassifier(
            100, max_features=1.0, max_depth=depth, n_jobs=THREADS, random_state=0
        ).fit(X, y),
        goal=goal,
        rounds=1,
        warm_up=False,
        threads=THREADS,
        limit_s=None if limit is None else limit / rate,
    )
    record.add(row)


def test_fit_of_a_regressor(benchmark, record, data):
    X, _, signal = data
    params = {"n_estimators": 20, "max_depth": 10, "n_jobs": THREADS, "random_state": 0}
    row = compare(
        benchmark,
        f"fit, 20 trees, squared_error, depth 10, n = {N}, d = {D}, two threads",
        lambda: MARandomForestRegressor(alpha=0, **params).fit(X, signal),
        "RandomForestRegressor",
        lambda: RandomForestRegressor(**params).fit(X, signal),
        goal=3,
        rounds=2,
        warm_up=False,
        threads=THREADS,
    )
    record.add(row)


@pytest.mark.parametrize("gaps", [False, True], ids=["complete", "gaps"])
def test_predict_proba(benchmark, record, data, gaps):
    """The peer has no way to impute by itself; it answers on the complete rows in both rows."""
    X, y, _ = data
    part = slice(0, 10_000)
    given = with_gaps(X) if gaps else X
    ours = classifier(50, max_depth=10, alpha=0).fit(given[part], y[part])
    theirs = RandomForestClassifier(
        50, max_features=1.0, max_depth=10, n_jobs=THREADS, random_state=0
    )
    theirs.fit(X[part], y[part])
    row = compare(
        benchmark,
        f"predict_proba, 50 trees, depth 10, n = {N}, d = {D}, two threads"
        + (", 30 % of the cells missing" if gaps else ""),
        lambda: ours.predict_proba(given),
        "RandomForestClassifier(max_features=1.0)" + (" on complete rows" if gaps else ""),
        lambda: theirs.predict_proba(X),
        threads=THREADS,
    )
    record.add(row)


@pytest.mark.parametrize("gaps", [False, True], ids=["complete", "gaps"])
@pytest.mark.parametrize("learner", ["tree", "forest"])
def test_cost_of_the_penalty(benchmark, record, data, learner, gaps):
    """alpha = 0.1 beside alpha = 0 on the same data; a column without gaps costs nothing.

    In processor time: without gaps both sides run the same instructions.
    """
    X, y, _ = data
    X = with_gaps(X) if gaps else X

    def fit(alpha):
        if learner == "tree":
            return MADecisionTreeClassifier(max_depth=10, alpha=alpha, random_state=0).fit(X, y)
        return classifier(20, max_depth=10, alpha=alpha).fit(X, y)

    row = compare(
        benchmark,
        f"penalty (processor time), {'one tree' if learner == 'tree' else '20 trees'}, depth 10, "
        f"n = {N}, d = {D}, " + ("30 % of the cells missing" if gaps else "nothing missing"),
        lambda: fit(0.1),
        "alpha = 0",
        lambda: fit(0.0),
        goal=PENALTY if gaps else NO_COST,
        rounds=20 if learner == "tree" else 4,
        clock=time.process_time,
        threads=THREADS,
    )
    record.add(row)


@pytest.mark.parametrize(
    ("n", "d"), [(10_000, 20), (100_000, 20), (1_000_000, 20), (50_000, 5), (50_000, 80)]
)
def test_cost_curve(benchmark, record, rate, n, d):
    """Over n and d: the penalised fit, beside the fit with alpha = 0."""
    X, y, _ = make_data(n, d)
    X = with_gaps(X)
    row = compare(
        benchmark,
        f"cost curve, 4 trees, depth 10, n = {n}, d = {d}, 30 % of the cells missing, two threads",
        lambda: classifier(4, max_depth=10, alpha=0.1).fit(X, y),
        "alpha = 0",
        lambda: classifier(4, max_depth=10, alpha=0).fit(X, y),
        goal=PENALTY,
        rounds=2 if n * d > 2_000_000 else 5,
        warm_up=n * d <= 2_000_000,
        threads=THREADS,
        limit_s=4 / THREADS * 10 * BYTES_PER_CELL_AND_LEVEL * n * d / rate,
    )
    record.add(row)


def test_peak_memory_of_fit(record, data):
    X, y, _ = data
    row = compare_memory(
        f"peak memory, 20 trees, depth 10, n = {N}, d = {D}, 30 % of the cells missing, "
        "two threads",
        lambda: classifier(20, max_depth=10, alpha=0.1).fit(with_gaps(X), y),
        # The mask, its packed copy and the gaps that this row makes itself come to 8 + 1 + 1
        # and 2 x 8 bytes.
        allowed=(4 + 4 + THREADS * 4 + 26) * N * D,
        what="X and its order, an order for each thread, the mask, and the gaps made here",
    )
    record.add(row)
