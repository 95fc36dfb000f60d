"""Shuffling solvers beside scikit-learn's stochastic ones."""

import time

import numpy as np
import pytest
from _timing import compare, memory_rate
from scipy import sparse
from sklearn.linear_model import LogisticRegression, SGDClassifier, SGDRegressor

from skml.linear_model import ShufflingSGDClassifier, ShufflingSGDRegressor

EPOCHS = 5
# Enough of them that the validation of X, which is not repeated, does not count.
OVERHEAD_EPOCHS = 20
SIZES = [(200_000, 20), (100_000, 100)]
ALPHA = 1e-4


@pytest.fixture(scope="module")
def rate():
    return memory_rate()


def make_dense(n, d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) / np.sqrt(d) + rng.normal(size=n)


def make_text(n=20_000, d=50_000, density=0.002):
    """Rows of tf-idf like weights; words of a class have higher weights in its rows."""
    rng = np.random.default_rng(0)
    # A Generator draws the places without a permutation of all n d of them.
    X = sparse.random(n, d, density, format="csr", random_state=rng)
    score = X @ rng.normal(size=d)
    return X, np.where(score + 0.3 * rng.normal(size=n) > 0, 1, -1)


def run_epochs(model, epochs):
    """Epochs alone: permutations and steps, without the objective after each."""
    problem, theta, rng = model
    for _ in range(epochs):
        problem.epoch(theta, rng.permutation(problem.n_samples), 1e-3)


def bare_problem(X, y, loss):
    from skml.linear_model._shuffling_losses import make_loss
    from skml.linear_model._shuffling_problem import Problem

    problem = Problem(X, y, None, make_loss(loss), alpha=ALPHA)
    return problem, np.zeros(X.shape[1] + 1), np.random.RandomState(0)


@pytest.mark.parametrize(("n", "d"), SIZES)
def test_dense_epoch(benchmark, record, rate, n, d):
    """Whole fits, validation and the objective after each epoch included."""
    X, y = make_dense(n, d)
    shared = {"alpha": ALPHA, "max_iter": EPOCHS, "tol": None, "random_state": 0, "eta0": 1e-3}
    row = compare(
        benchmark,
        f"{EPOCHS} epochs, squared error, n = {n}, d = {d}",
        lambda: ShufflingSGDRegressor(learning_rate="constant", **shared).fit(X, y),
        "SGDRegressor(shuffle=True)",
        lambda: SGDRegressor(learning_rate="constant", **shared).fit(X, y),
        goal=2,
        limit_s=EPOCHS * X.nbytes / rate,
    )
    record.add(row)


@pytest.mark.parametrize(("n", "d"), SIZES)
def test_dense_overhead_of_auto(benchmark, record, n, d):
    """Per epoch, trial epochs apart: what the objective adds to the bare epochs.

    In processor time: both sides run the same loop, and other work on the machine hides the rest.
    """
    X, y = make_dense(n, d)
    bare = bare_problem(X, y, "squared_error")
    row = compare(
        benchmark,
        f"{OVERHEAD_EPOCHS} epochs of auto after its trials, n = {n}, d = {d}",
        lambda: ShufflingSGDRegressor(
            alpha=ALPHA, max_iter=OVERHEAD_EPOCHS, random_state=0, eta0=1e-3
        ).fit(X, y),
        "the epochs alone",
        lambda: run_epochs(bare, OVERHEAD_EPOCHS),
        goal=1 / 1.3,
        rounds=7,
        clock=time.process_time,
    )
    record.add(row)


def test_sparse_epoch(benchmark, record):
    """Epochs alone; the next benchmark has whole fits."""
    X, y = make_text()
    bare = bare_problem(X, y.astype(float), "log_loss")
    shared = {"loss": "log_loss", "alpha": ALPHA, "tol": None, "random_state": 0}
    row = compare(
        benchmark,
        f"{EPOCHS} epochs alone, log-loss, sparse 20 000 x 50 000",
        lambda: run_epochs(bare, EPOCHS),
        "SGDClassifier(shuffle=True)",
        lambda: SGDClassifier(learning_rate="constant", eta0=1e-3, max_iter=EPOCHS, **shared).fit(
            X, y
        ),
        goal=1.3,
        rounds=7,
    )
    record.add(row)


def test_sparse_fit(benchmark, record):
    """Whole fits, the objective after each epoch included. Reported without a goal."""
    X, y = make_text()
    shared = {"alpha": ALPHA, "max_iter": EPOCHS, "tol": None, "random_state": 0, "eta0": 1e-3}
    row = compare(
        benchmark,
        f"{EPOCHS} epochs, log-loss, sparse 20 000 x 50 000",
        lambda: ShufflingSGDClassifier(learning_rate="constant", **shared).fit(X, y),
        "SGDClassifier(shuffle=True)",
        lambda: SGDClassifier(loss="log_loss", learning_rate="constant", **shared).fit(X, y),
    )
    record.add(row)


def test_sparse_overhead_of_auto(benchmark, record):
    X, y = make_text()
    bare = bare_problem(X, y.astype(float), "log_loss")
    row = compare(
        benchmark,
        f"{OVERHEAD_EPOCHS} epochs of auto after its trials, sparse 20 000 x 50 000",
        lambda: ShufflingSGDClassifier(
            alpha=ALPHA, max_iter=OVERHEAD_EPOCHS, random_state=0, eta0=1e-3
        ).fit(X, y),
        "the epochs alone",
        lambda: run_epochs(bare, OVERHEAD_EPOCHS),
        goal=1 / 1.6,
        rounds=7,
        clock=time.process_time,
    )
    record.add(row)


@pytest.fixture(scope="module")
def logistic_data():
    X, score = make_dense(100_000, 100)
    return X, (score > 0).astype(int)


def relative_gap(model, X, y, least, start):
    z = X @ model.coef_[0] + model.intercept_[0]
    value = np.mean(np.logaddexp(0, -(2 * y - 1) * z)) + ALPHA / 2 * np.sum(model.coef_**2)
    return (value - least) / (start - least)


def fewest_epochs(make, X, y, least, start, goal=1e-4):
    """The smallest number of epochs of a list that reaches the gap, None if none does."""
    for epochs in (1, 2, 3, 5, 8, 12, 20, 30, 50):
        if relative_gap(make(epochs).fit(X, y), X, y, least, start) <= goal:
            return epochs
    return None


@pytest.mark.parametrize("peer", ["saga", "SGDClassifier"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_time_to_gap(benchmark, record, logistic_data, peer):
    """Each side with the fewest epochs that reach a relative gap of 1e-4, log-loss."""
    X, y = logistic_data
    C = 1 / (ALPHA * len(y))
    best = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-10).fit(X, y)
    least = relative_gap(best, X, y, 0.0, 1.0)

    def ours(epochs):
        return ShufflingSGDClassifier(alpha=ALPHA, max_iter=epochs, random_state=0)

    def theirs(epochs):
        if peer == "saga":
            return LogisticRegression(
                C=C, solver="saga", max_iter=epochs, tol=1e-12, random_state=0
            )
        return SGDClassifier(
            loss="log_loss", alpha=ALPHA, max_iter=epochs, tol=None, random_state=0
        )

    n_ours = fewest_epochs(ours, X, y, least, np.log(2))
    n_theirs = fewest_epochs(theirs, X, y, least, np.log(2))
    assert n_ours is not None
    never = n_theirs is None
    name = f"log-loss to a relative gap of 1e-4 ({n_ours} epochs), n = 100 000, d = 100"
    row = compare(
        benchmark,
        name,
        lambda: ours(n_ours).fit(X, y),
        f"{peer} ({'50 epochs, not reached' if never else f'{n_theirs} epochs'})",
        lambda: theirs(50 if never else n_theirs).fit(X, y),
        goal=2,
        rounds=3,
    )
    row["name"] = f"{name}, against {peer}"
    record.add(row)
