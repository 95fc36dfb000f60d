"""What a sceptic asks of the shuffling estimators."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import d2_tweedie_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skml.linear_model import (
    ShufflingSGDClassifier,
    ShufflingSGDRegressor,
    _shuffling,
    shuffling_gradient,
)
from skml.linear_model._shuffling_losses import CLASSIFICATION_LOSSES, make_loss
from skml.linear_model._shuffling_problem import Problem

LOSSES = list(_shuffling.LOSS_CODES)


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    return X, rng.poisson(np.exp(X @ [0.5, -0.3, 0.2, 0.0] + 0.5)).astype(float)


@pytest.fixture(scope="module")
def labels():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=200) > 0, "yes", "no")


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def theta_of(model):
    return np.append(np.ravel(model.coef_), np.ravel(model.intercept_))


def target_for(loss, rng, n):
    if loss in CLASSIFICATION_LOSSES:
        return rng.choice([-1.0, 1.0], n)
    return rng.integers(1, 5, n).astype(float)


# ----- kernel ------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_derivatives_match_differences(loss):
    rng = np.random.default_rng(0)
    made = make_loss(loss)
    z, y = rng.uniform(-2, 2, 200), target_for(loss, rng, 200)
    h = 1e-6
    value, slope, curvature = made.derivatives(z, y)
    up, down = made.derivatives(z + h, y), made.derivatives(z - h, y)
    np.testing.assert_allclose(slope, (up[0] - down[0]) / (2 * h), atol=1e-6)
    kinks = np.isclose(up[2], down[2], atol=0.5)
    np.testing.assert_allclose(curvature[kinks], ((up[1] - down[1]) / (2 * h))[kinks], atol=1e-4)
    assert np.all(curvature >= 0)
    assert np.all(np.isfinite(value))


@pytest.mark.parametrize("z", [-800.0, -40.0, 40.0, 800.0])
def test_log_loss_does_not_overflow(z):
    for y in (-1.0, 1.0):
        value, slope, _ = (a[0] for a in make_loss("log_loss").derivatives([z], [y]))
        assert value == pytest.approx(np.logaddexp(0, -y * z), rel=1e-14)
        assert abs(slope) <= 1


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 40),
    d=st.integers(1, 35),
    batch=st.integers(1, 40),
    loss=st.sampled_from(LOSSES),
    weighted=st.booleans(),
    fit_intercept=st.booleans(),
    dtype=st.sampled_from([np.float64, np.float32]),
    instructions=st.sampled_from(_shuffling.INSTRUCTION_SETS),
    seed=st.integers(0, 100),
)
def test_kernel_equals_plain_steps(
    n, d, batch, loss, weighted, fit_intercept, dtype, instructions, seed
):
    if _shuffling.INSTRUCTION_SETS.index(instructions) > _shuffling.INSTRUCTION_SETS.index(
        _shuffling.best_instructions
    ):
        instructions = "portable"
    batch = min(batch, n)
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7) / np.sqrt(d)).astype(dtype)
    y, order = target_for(loss, rng, n), rng.permutation(n)
    weight = rng.uniform(0.5, 1.5, n) if weighted else None
    made, gamma, alpha = make_loss(loss), 0.01, 0.1
    rows = _shuffling.Rows(
        y, weight, made.code, made.parameter, alpha, batch, fit_intercept, instructions
    )
    start = 0.3 * rng.normal(size=d + 1)
    dense, of_sparse, plain = start.copy(), start.copy(), start.copy()
    rows.dense_epoch(X, dense, order, gamma)
    csr = sparse.csr_array(X)
    parts = csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int32)
    rows.sparse_epoch(*parts, of_sparse, order, gamma)

    # The losses at the start, taken on the way, are those of a pass of their own.
    other, other_sparse = start.copy(), start.copy()
    losses = rows.dense_epoch(X, other, order, gamma, start)
    assert losses == pytest.approx(rows.dense_loss(X, start), rel=1e-12, abs=1e-12)
    losses = rows.sparse_epoch(*parts, other_sparse, order, gamma, start)
    assert losses == pytest.approx(rows.sparse_loss(*parts, start), rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(other, dense, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(other_sparse, of_sparse)

    m, wide = -(-n // batch), X.astype(np.float64)
    for first in range(0, n, batch):
        chosen = order[first : first + batch]
        slope = made.derivatives(wide[chosen] @ plain[:-1] + plain[-1], y[chosen])[1]
        if weighted:
            slope = slope * weight[chosen]
        step_w = wide[chosen].T @ slope + len(chosen) * alpha * plain[:-1]
        plain[-1] -= fit_intercept * gamma * m / n * slope.sum()
        plain[:-1] -= gamma * m / n * step_w
    np.testing.assert_allclose(dense, plain, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(of_sparse, plain, rtol=1e-9, atol=1e-9)

    z = wide @ plain[:-1] + plain[-1]
    total = np.sum(made.derivatives(z, y)[0] * (weight if weighted else 1.0))
    assert rows.dense_loss(X, plain) == pytest.approx(total, rel=1e-9, abs=1e-9)
    assert rows.sparse_loss(*parts, plain) == pytest.approx(total, rel=1e-9, abs=1e-9)


def test_objective_does_not_depend_on_the_order_of_the_rows():
    """Plain sums of these losses differ from order to order."""
    rng = np.random.default_rng(0)
    X = np.ones((20_000, 1))
    y = 10.0 ** rng.uniform(-6, 6, size=20_000)
    rows = _shuffling.Rows(y, None, _shuffling.LOSS_CODES["squared_error"], 0.0, 0.0)
    values = {
        rows.dense_epoch(X, np.zeros(2), rng.permutation(20_000), 0.0, np.zeros(2))
        for _ in range(5)
    }
    assert values == {rows.dense_loss(X, np.zeros(2))} == {math.fsum(y**2 / 2)}


def test_losses_that_overflow_are_infinite():
    y = np.array([1.0, 2.0, 3.0])
    rows = _shuffling.Rows(y, None, _shuffling.LOSS_CODES["poisson"], 0.0, 0.0)
    X = np.array([[1.0], [1e4], [1.0]])
    start = np.array([1.0, 0.0])
    assert rows.dense_loss(X, start) == np.inf
    assert rows.dense_epoch(X, start.copy(), np.arange(3), 1e-3, start) == np.inf
    assert np.isnan(rows.dense_loss(X, np.array([np.nan, 0.0])))


def test_sparse_shrinkage_may_vanish_or_turn_negative():
    """1 - gamma alpha of 0, of -0.5 and of 1e-9 leave the scaled representation in order."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3)), rng.normal(size=12)
    csr = sparse.csr_array(X)
    for alpha in (100.0, 150.0, 100 - 1e-7):
        rows = _shuffling.Rows(y, None, 0, 0.0, alpha)
        dense, of_sparse = np.ones(4), np.ones(4)
        rows.dense_epoch(X, dense, np.arange(12), 0.01)
        parts = csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int32)
        rows.sparse_epoch(*parts, of_sparse, np.arange(12), 0.01)
        np.testing.assert_allclose(dense, of_sparse, rtol=1e-9)


def test_kernel_refuses_what_would_leave_its_arrays():
    X, y = np.ones((3, 2)), np.ones(3)
    rows = _shuffling.Rows(y, None, 0, 0.0, 0.1)
    for order in ([0, 1, 3], [0, 1, -1]):
        with pytest.raises(ValueError, match="order must hold row numbers"):
            rows.dense_epoch(X, np.zeros(3), np.array(order), 0.1)
    with pytest.raises(ValueError, match="order must have 3 entries, got 2"):
        rows.dense_epoch(X, np.zeros(3), np.array([0, 1]), 0.1)
    with pytest.raises(ValueError, match="theta must have 3 entries, got 2"):
        rows.dense_epoch(X, np.zeros(2), np.arange(3), 0.1)
    with pytest.raises(ValueError, match="start must have 3 entries, got 2"):
        rows.dense_epoch(X, np.zeros(3), np.arange(3), 0.1, np.zeros(2))


def test_csr_with_repeated_columns_and_float32():
    y = np.array([1.0, 2.0, 3.0])
    repeated = sparse.csr_array(
        (np.array([1.0, 2.0, 1.0, 1.0]), np.array([0, 0, 1, 0]), np.array([0, 2, 3, 4])),
        shape=(3, 2),
    )
    params = {"max_iter": 5, "random_state": 0}
    ours = ShufflingSGDRegressor(**params).fit(repeated, y)
    dense = ShufflingSGDRegressor(**params).fit(repeated.toarray(), y)
    np.testing.assert_allclose(theta_of(ours), theta_of(dense), rtol=1e-12)
    single = ShufflingSGDRegressor(**params).fit(repeated.toarray().astype(np.float32), y)
    assert single.coef_.dtype == np.float32
    np.testing.assert_allclose(theta_of(single), theta_of(dense), rtol=1e-6)


# ----- steps -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"learning_rate": "constant"}, lambda t: 0.01 * np.ones_like(t)),
        ({"learning_rate": "invscaling", "power_t": 0.7}, lambda t: 0.01 / t**0.7),
        ({"learning_rate": "cbrt"}, lambda t: 0.01 * 20 ** (1 / 3) * t ** (-1 / 3) / 20),
        (
            {"learning_rate": "cbrt", "order": "shuffle_once", "offset": 3.0},
            lambda t: 0.01 * (t + 3) ** (-1 / 3) / 20,
        ),
        (
            {"learning_rate": "cbrt", "batch_size": 7},
            lambda t: 0.01 * 3 ** (1 / 3) * t ** (-1 / 3) / 3,
        ),
        (
            {"learning_rate": "log", "mu": 50.0},
            lambda t: np.minimum(0.01, 6 * np.log(8) / (50 * 8 * 20)) * np.ones_like(t),
        ),
        ({"learning_rate": "auto"}, lambda t: 0.01 * (1 - (t - 1) / 8)),
    ],
)
def test_step_rules(params, expected):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    model = ShufflingSGDRegressor(eta0=0.01, max_iter=8, random_state=0, **params).fit(X, y)
    np.testing.assert_allclose(model.step_sizes_, expected(np.arange(1.0, 9.0)), rtol=1e-12)


def test_auto_undoes_epochs_that_end_above_the_start():
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = ShufflingSGDRegressor(eta0=10.0, max_iter=30, random_state=0)
    model.fit(X, y)
    start = np.mean(y**2) / 2
    assert model.n_rejected_ > 3
    assert max(model.objective_curve_) <= start
    # Each rejection halves the steps that follow.
    assert model.step_sizes_[-1] < 10.0 * 2.0 ** -(model.n_rejected_ - 1)


def judged_at_once(X, y, loss, *, eta0, max_iter, tol=None, patience=5, rejects=True, alpha=1e-4):
    """The epochs of a fit, with a pass of its own for the objective after each."""
    problem = Problem(X, y, None, make_loss(loss), alpha=alpha)
    rng = np.random.RandomState(0)
    theta = np.zeros(X.shape[1] + 1)
    start = value = problem.objective(theta)
    curve, steps, least, waited, n_rejected = [], [], np.inf, 0, 0
    for t in range(1, max_iter + 1):
        gamma = eta0 * (1 - (t - 1) / max_iter) if rejects else eta0
        moved = theta.copy()
        problem.epoch(moved, rng.permutation(len(y)), gamma)
        reached = problem.objective(moved)
        if rejects and not reached <= start:
            eta0 /= 2
            n_rejected += 1
        elif not np.isfinite(reached):
            break
        else:
            theta, value = moved, reached
        curve.append(value)
        steps.append(gamma)
        waited = waited + 1 if not value < least - (tol or 0.0) else 0
        least = min(least, value)
        if tol is not None and waited >= patience:
            break
    return theta, curve, steps, n_rejected


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("loss", "eta0", "rule", "tol"),
    [
        ("squared_error", 1.0, "auto", None),
        ("poisson", 0.05, "auto", None),
        ("poisson", 1e-3, "auto", 1e-3),
        ("poisson", 0.1, "auto", 1e-2),
        ("poisson", 0.03, "constant", None),
        ("poisson", 1e-3, "constant", 1e-4),
    ],
)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_epochs_that_are_judged_late_are_judged_the_same(counts, loss, eta0, rule, tol, form):
    """Each epoch is judged during the next one, which must not be seen in anything."""
    X, y = form(counts[0]), counts[1]
    model = ShufflingSGDRegressor(
        loss, learning_rate=rule, eta0=eta0, tol=tol, max_iter=25, random_state=0
    ).fit(X, y)
    theta, curve, steps, n_rejected = judged_at_once(
        X, y, loss, eta0=eta0, max_iter=25, tol=tol, rejects=rule == "auto"
    )
    np.testing.assert_allclose(theta_of(model), theta, rtol=1e-11)
    np.testing.assert_allclose(model.objective_curve_, curve, rtol=1e-11)
    np.testing.assert_allclose(model.step_sizes_, steps, rtol=1e-15)
    assert model.n_rejected_ == n_rejected
    assert (n_rejected > 0) == (rule == "auto" and eta0 > 1e-3)


def test_auto_warns_when_most_epochs_are_undone():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    with pytest.warns(ConvergenceWarning, match="of 4 epochs were undone"):
        model = ShufflingSGDRegressor(eta0=1e9, max_iter=4, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.coef_, 0)


def test_auto_in_a_stream_of_five_hundred_chunks(counts):
    X, y = counts
    model = ShufflingSGDRegressor("poisson", random_state=0, max_iter=3)
    rng = np.random.default_rng(0)
    steps = []
    for _ in range(500):
        rows = rng.integers(len(y), size=60)
        model.partial_fit(X[rows], y[rows])
        steps += model.step_sizes_
    assert model.t_ == 500
    assert min(steps) > 0
    if model.n_rejected_ == 0:
        np.testing.assert_allclose(steps, steps[0] / np.sqrt(np.arange(1, 501)))
    whole = ShufflingSGDRegressor("poisson", random_state=0).fit(X, y)
    assert np.linalg.norm(theta_of(model) - theta_of(whole)) < 0.1


@pytest.mark.parametrize("rule", ["theory", "log"])
def test_streams_with_a_horizon(counts, rule):
    X, y = counts
    model = ShufflingSGDRegressor("poisson", learning_rate=rule, random_state=0)
    with pytest.raises(ValueError, match=f"learning_rate='{rule}' needs horizon"):
        model.partial_fit(X, y)
    model.set_params(horizon=2)
    model.partial_fit(X, y).partial_fit(X, y)
    before = theta_of(model)
    with pytest.raises(ValueError, match="epoch 3 is beyond it"):
        model.partial_fit(X, y)
    np.testing.assert_array_equal(theta_of(model), before)
    assert model.t_ == 2


def test_theory_counts_what_breaks_its_constants(counts):
    X, y = counts
    params = {"learning_rate": "theory", "max_iter": 3, "order": "incremental"}
    sound = ShufflingSGDRegressor("poisson", **params).fit(X, y)
    assert sound.variance_[0] == 0
    doubtful = ShufflingSGDRegressor("poisson", variance=(0.0, 1e-6), **params).fit(X, y)
    assert doubtful.n_certificate_updates_ >= 1
    assert doubtful.variance_[1] == pytest.approx(sound.variance_[1], rel=0.1)
    given = ShufflingSGDRegressor("poisson", variance=(2.0, 50.0), **params).fit(X, y)
    assert given.n_certificate_updates_ == 0
    n, G = len(y), given.gradient_bound_
    assert given.individual_gradient_bound_ == pytest.approx(
        np.sqrt(2 * (1 + 2 * n)) * G + np.sqrt(2 * n) * 50
    )
    plain = ShufflingSGDRegressor("poisson", max_iter=3).fit(X, y)
    assert not hasattr(plain, "gradient_bound_")
    given.set_params(learning_rate="auto").fit(X, y)
    assert not hasattr(given, "gradient_bound_")


def test_delta_makes_the_certificate_more_careful(counts):
    X, y = counts
    params = {"learning_rate": "theory", "max_iter": 2, "random_state": 0}
    bold, careful = (
        ShufflingSGDRegressor("poisson", delta=delta, **params).fit(X, y) for delta in (0.5, 0.01)
    )
    assert careful.step_sizes_[0] < bold.step_sizes_[0]
    assert careful.gradient_bound_ > bold.gradient_bound_


# ----- options -----------------------------------------------------------------------------


def test_average_is_the_mean_of_epoch_iterates(counts):
    X, y = counts
    params = {"learning_rate": "constant", "eta0": 1e-3, "random_state": 0}
    iterates = [
        theta_of(ShufflingSGDRegressor("poisson", max_iter=t, **params).fit(X, y))
        for t in range(1, 6)
    ]
    mean = ShufflingSGDRegressor("poisson", average=True, max_iter=5, **params).fit(X, y)
    np.testing.assert_allclose(theta_of(mean), np.mean(iterates, axis=0), rtol=1e-12)
    stream = ShufflingSGDRegressor(
        "poisson", average=True, order="incremental", learning_rate="constant", eta0=1e-3
    )
    for _ in range(3):
        stream.partial_fit(X, y)
    whole = clone(stream).set_params(max_iter=3).fit(X, y)
    np.testing.assert_allclose(theta_of(stream), theta_of(whole), rtol=1e-12)


def test_warm_start_goes_on_with_the_same_stream(counts):
    X, y = counts
    params = {"learning_rate": "invscaling", "eta0": 1e-3, "warm_start": True}
    whole = ShufflingSGDRegressor("poisson", max_iter=10, random_state=0, **params).fit(X, y)
    parts = ShufflingSGDRegressor(
        "poisson", max_iter=5, random_state=np.random.RandomState(0), **params
    )
    parts.fit(X, y).fit(X, y)
    np.testing.assert_array_equal(theta_of(parts), theta_of(whole))
    assert (parts.t_, parts.n_iter_) == (10, 5)


def test_initial_coefficients_are_where_it_starts(counts):
    X, y = counts
    best = ShufflingSGDRegressor("poisson", max_iter=300, random_state=0).fit(X, y)
    model = ShufflingSGDRegressor(
        "poisson", learning_rate="constant", eta0=1e-9, max_iter=1, random_state=0
    )
    model.fit(X, y, coef_init=best.coef_, intercept_init=best.intercept_)
    np.testing.assert_allclose(theta_of(model), theta_of(best), atol=1e-5)
    with pytest.raises(ValueError, match=r"coef_init must have shape \(1, 4\), got \(3,\)"):
        model.fit(X, y, coef_init=np.zeros(3))
    with pytest.raises(ValueError, match="intercept_init must be finite"):
        model.fit(X, y, intercept_init=[np.nan])


def test_tol_stops_and_its_lack_warns(counts):
    X, y = counts
    model = ShufflingSGDRegressor("poisson", tol=1e-3, max_iter=200, random_state=0).fit(X, y)
    assert model.n_iter_ < 100
    with pytest.warns(ConvergenceWarning, match="max_iter=3 epochs ended"):
        ShufflingSGDRegressor("poisson", tol=1e-9, max_iter=3, random_state=0).fit(X, y)


def test_early_stopping_returns_the_best_epoch():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 50)), rng.normal(size=60)
    model = ShufflingSGDRegressor(early_stopping=True, alpha=0.0, max_iter=200, random_state=0)
    model.fit(X, y)
    assert model.n_iter_ < 200
    assert len(model.validation_curve_) == model.n_iter_
    best = int(np.argmin(model.validation_curve_))
    assert model.n_iter_ == best + 1 + model.n_iter_no_change
    with pytest.raises(ValueError, match="early_stopping must be False in partial_fit"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="validation_fraction=0.1 of 2 rows cannot be held out"):
        ShufflingSGDClassifier(early_stopping=True).fit(X[:2], [0, 1])


def test_several_classes_and_jobs(iris):
    X, y = iris
    one, two = (ShufflingSGDClassifier(random_state=0, n_jobs=n, max_iter=30) for n in (1, 2))
    np.testing.assert_array_equal(theta_of(one.fit(X, y)), theta_of(two.fit(X, y)))
    assert one.coef_.shape == (3, 4)
    assert one.score(X, y) > 0.9
    assert len(one.objective_curve_) == 3
    of_class = LogisticRegression(C=1 / (1e-4 * len(y)), max_iter=10_000)
    of_class.fit(X, y == 0)
    long = ShufflingSGDClassifier(random_state=0, max_iter=1500).fit(X, y)
    assert np.linalg.norm(long.coef_[0] - of_class.coef_[0]) < 0.1 * np.linalg.norm(of_class.coef_)


@pytest.mark.parametrize("loss", ["log_loss", "modified_huber"])
def test_probabilities_follow_scikit_learn(iris, labels, loss):
    for X, y in (iris, labels):
        ours = ShufflingSGDClassifier(loss, max_iter=20, random_state=0).fit(X, y)
        theirs = SGDClassifier(loss=loss, max_iter=5, tol=None).fit(X, y)
        theirs.coef_, theirs.intercept_ = ours.coef_, ours.intercept_
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-12)
        np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
        np.testing.assert_array_equal(
            ours.predict_log_proba(X), np.log(np.maximum(ours.predict_proba(X), 0))
        )


def test_no_probabilities_from_margins(labels):
    for loss in ("squared_hinge", "exponential"):
        model = ShufflingSGDClassifier(loss, max_iter=3).fit(*labels)
        assert not hasattr(model, "predict_proba")
        with pytest.raises(AttributeError):
            model.predict_proba(labels[0])


def test_class_weights(iris, labels):
    X, y = labels
    params = {"max_iter": 10, "random_state": 0}
    balanced = ShufflingSGDClassifier(class_weight="balanced", **params).fit(X, y)
    count = {label: np.mean(y == label) for label in ("no", "yes")}
    by_hand = ShufflingSGDClassifier(**params).fit(
        X, y, sample_weight=[0.5 / count[label] for label in y]
    )
    np.testing.assert_allclose(theta_of(balanced), theta_of(by_hand), rtol=1e-9)
    with pytest.raises(ValueError, match="class_weight='balanced' is not known in partial_fit"):
        balanced.partial_fit(X, y)
    X, y = iris
    heavy = ShufflingSGDClassifier(class_weight={2: 5.0}, **params).fit(X, y)
    weight = np.where(y == 2, 5.0, 1.0)
    alone = ShufflingSGDClassifier(order="incremental", max_iter=10)
    third = clone(alone).fit(X, y == 2, sample_weight=weight)
    heavy = clone(alone).set_params(class_weight={2: 5.0}).fit(X, y)
    np.testing.assert_allclose(heavy.coef_[2], third.coef_[0], rtol=1e-9)


def test_sparsify_round_trip(labels):
    model = ShufflingSGDClassifier(max_iter=5, random_state=0).fit(*labels)
    before = model.predict(labels[0])
    assert sparse.issparse(model.sparsify().coef_)
    np.testing.assert_array_equal(model.predict(labels[0]), before)
    assert isinstance(model.densify().coef_, np.ndarray)


@pytest.mark.parametrize(("loss", "power"), [("poisson", 1), ("gamma", 2)])
def test_log_link(counts, loss, power):
    X, y = counts
    y = y + 0.5
    model = ShufflingSGDRegressor(loss, max_iter=50, random_state=0).fit(X, y)
    predicted = model.predict(X)
    np.testing.assert_allclose(predicted, np.exp(X @ model.coef_ + model.intercept_))
    assert model.score(X, y) == pytest.approx(d2_tweedie_score(y, predicted, power=power))
    assert model.__sklearn_tags__().target_tags.positive_only
    assert not ShufflingSGDRegressor().__sklearn_tags__().target_tags.positive_only


def test_exposure_as_weight(counts):
    """Rates weighted by exposure have the score equations of counts with an offset."""
    X, y = counts
    exposure = np.random.default_rng(0).uniform(0.5, 3.0, len(y))
    model = ShufflingSGDRegressor("poisson", alpha=0.0, max_iter=400, random_state=0)
    model.fit(X, y / exposure, sample_weight=exposure)
    residual = y - exposure * model.predict(X)
    np.testing.assert_allclose(X.T @ residual / len(y), 0, atol=5e-3)


def test_routing_in_a_grid_search(counts):
    from sklearn import config_context

    X, y = counts
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    with config_context(enable_metadata_routing=True):
        model = ShufflingSGDRegressor("poisson", max_iter=20, random_state=0)
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        search = GridSearchCV(pipeline, {"shufflingsgdregressor__alpha": [1e-4, 1e-1]}, cv=3)
        search.fit(X, y, sample_weight=weight)
        plain = clone(search).fit(X, y, sample_weight=np.ones(len(y)))
    assert search.best_score_ != plain.best_score_


# ----- refusals ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"learning_rate": "constant"}, "eta0 must be a positive number with learning_rate='const"),
        ({"learning_rate": "cbrt"}, "eta0 must be a positive number with learning_rate='cbrt'"),
        ({"learning_rate": "log", "alpha": 0.0}, "alpha or mu must be positive"),
        ({"alpha": -1.0}, "'alpha' parameter"),
        ({"eta0": 0.0}, "'eta0' parameter"),
        ({"power": 2.0}, "'power' parameter"),
        ({"order": "random"}, "'order' parameter"),
        ({"order": [0, 1, 1]}, r"order must be a permutation of 300 rows, got shape \(3,\)"),
        ({"order": np.zeros(300, dtype=int)}, "0 occurs 300 times"),
        ({"order": np.arange(300.0)}, "order must hold integers, got dtype float64"),
        ({"order": np.arange(300)[None]}, "permutations for 1 epochs, but max_iter=100"),
        ({"order": lambda t, rng, n: np.arange(n - 1)}, r"got shape \(299,\)"),
        ({"variance": (1.0,), "learning_rate": "theory"}, "variance must be a pair"),
        ({"variance": (-1.0, 2.0), "learning_rate": "theory"}, "variance must be a pair"),
    ],
)
def test_bad_settings(counts, params, message):
    model = ShufflingSGDRegressor("poisson", **params)
    with pytest.raises(ValueError, match=message):
        model.fit(*counts)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        ("poisson", [-1.0, 2.0], "loss='poisson': y must be non-negative, got a minimum of -1"),
        ("gamma", [0.0, 2.0], "loss='gamma': y must be positive, got a minimum of 0"),
        ("squared_error", [np.nan, 2.0], "contains NaN"),
    ],
)
def test_bad_targets(loss, y, message):
    with pytest.raises(ValueError, match=message):
        ShufflingSGDRegressor(loss).fit(np.ones((2, 1)), y)


def test_bad_weights(counts):
    X, y = counts
    with pytest.raises(ValueError, match="sample_weight"):
        ShufflingSGDRegressor().fit(X, y, sample_weight=-np.ones(len(y)))
    with pytest.raises(ValueError, match="positive sum|non-zero"):
        ShufflingSGDRegressor().fit(X, y, sample_weight=np.zeros(len(y)))


def test_bad_labels(labels):
    X, y = labels
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        ShufflingSGDClassifier().partial_fit(X, y)
    model = ShufflingSGDClassifier().partial_fit(X, y, classes=["no", "yes"])
    with pytest.raises(ValueError, match=r"labels that are not in classes: \['maybe'\]"):
        model.partial_fit(X[:2], ["maybe", "no"])
    with pytest.raises(ValueError, match="is not what the first call"):
        model.partial_fit(X, y, classes=["a", "b"])


def test_large_batch_is_clipped_with_a_warning(counts):
    X, y = counts
    with pytest.warns(UserWarning, match="batch_size=500 is more than the 300 rows"):
        ours = ShufflingSGDRegressor(batch_size=500, max_iter=3, random_state=0).fit(X, y)
    full = ShufflingSGDRegressor(batch_size=300, max_iter=3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(theta_of(ours), theta_of(full))


def test_hostile_features_leave_finite_coefficients():
    rng = np.random.default_rng(0)
    for X in (np.zeros((10, 2)), 1e150 * rng.normal(size=(10, 2)), 1e-300 * np.ones((10, 2))):
        for loss in ("squared_error", "poisson"):
            model = ShufflingSGDRegressor(loss, max_iter=5, random_state=0)
            with warnings.catch_warnings(action="ignore"):
                model.fit(X, rng.poisson(2.0, 10))
            assert np.all(np.isfinite(theta_of(model)))


# ----- engine ------------------------------------------------------------------------------


def test_engine_agrees_with_the_estimator(counts):
    X, y = counts
    order = np.random.default_rng(0).permutation(len(y))
    problem = Problem(X, y, None, make_loss("poisson"), alpha=0.0, fit_intercept=False)
    result = shuffling_gradient(
        lambda w: problem.objective(np.append(w, 0.0)),
        lambda w, i: (np.exp(X[i] @ w) - y[i]) * X[i],
        np.zeros(4),
        len(y),
        order=order,
        step=0.3,
        max_iter=4,
    )
    model = ShufflingSGDRegressor(
        "poisson",
        alpha=0.0,
        fit_intercept=False,
        order=order,
        learning_rate="constant",
        eta0=0.3 / len(y),
        max_iter=4,
    ).fit(X, y)
    np.testing.assert_allclose(result.x, model.coef_, rtol=1e-10)
    np.testing.assert_allclose(result.objective_curve, model.objective_curve_, rtol=1e-12)


def test_engine_keeps_the_last_finite_iterate():
    with pytest.warns(ConvergenceWarning, match="overflowed in epoch"):
        result = shuffling_gradient(
            lambda w: float(w**4), lambda w, i: 4 * w**3, 3.0, 2, step=5.0, max_iter=50
        )
    assert not result.success
    assert np.isfinite(result.fun)
    assert result.nit < 50


def test_engine_stops_on_request_and_checks_its_input():
    def quadratic(**params):
        params = {"step": 0.1, "max_iter": 10, **params}
        return shuffling_gradient(
            lambda w: float(w @ w), lambda w, i: 2 * w, [1.0, 2.0], 3, **params
        )

    seen = []
    result = quadratic(callback=lambda t, w, value: seen.append((t, value)) or t == 4)
    assert result.nit == 4
    assert [t for t, _ in seen] == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="step must be a positive number, got 0"):
        quadratic(step=0)
    with pytest.raises(ValueError, match="max_iter must be a positive integer, got 0"):
        quadratic(max_iter=0)
    with pytest.raises(ValueError, match="order must be one of"):
        quadratic(order="backwards")
    with pytest.raises(ValueError, match=r"grad_i must return an array of shape \(1,\)"):
        shuffling_gradient(lambda w: 0.0, lambda w, i: np.zeros(2), [0.0], 1, step=1.0)


# ----- auto against scikit-learn -----------------------------------------------------------


def test_auto_beats_the_default_schedules():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    problem = Problem(X, 2.0 * y - 1, None, make_loss("log_loss"), alpha=1e-3)
    params = {"alpha": 1e-3, "max_iter": 50, "tol": None, "random_state": 0}
    ours = problem.objective(theta_of(ShufflingSGDClassifier(**params).fit(X, y)))
    for rule in ("optimal", "constant", "invscaling", "adaptive"):
        peer = SGDClassifier(loss="log_loss", learning_rate=rule, **params).fit(X, y)
        assert ours < problem.objective(theta_of(peer)), rule
