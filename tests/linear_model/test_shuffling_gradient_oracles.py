"""What the mathematics of shuffling gradient methods says must come out."""

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import (
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    SGDClassifier,
    SGDRegressor,
)

from skml.linear_model import ShufflingSGDClassifier, ShufflingSGDRegressor
from skml.linear_model._shuffling_losses import make_loss
from skml.linear_model._shuffling_orders import Orders
from skml.linear_model._shuffling_problem import Problem
from skml.linear_model._shuffling_theory import LocalSmoothness, gradient_bound

LOSSES = [
    "squared_error",
    "huber",
    "log_loss",
    "squared_hinge",
    "modified_huber",
    "poisson",
    "gamma",
    "exponential",
    "power",
]


def make_rows(n, d, loss="squared_error", seed=0):
    """Features and targets that suit the loss."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    z = X @ rng.normal(size=d) / np.sqrt(d)
    if loss in ("log_loss", "squared_hinge", "modified_huber", "exponential"):
        return X, np.where(z + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    if loss in ("poisson", "gamma"):
        return X, rng.poisson(np.exp(z)) + (loss == "gamma") * 0.5
    return X, z + 0.3 * rng.normal(size=n)


def poisson_problem():
    """The generator of the reproduction: counts whose Lipschitz step overflows."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(1000, 9)), np.ones(1000)])
    w = 0.5 * rng.normal(size=10)
    w[-1] = 1.5
    return X, rng.poisson(np.exp(X @ w)).astype(float)


def numpy_loss(loss, z, y, parameter):
    """Value and slope, written apart from the kernel."""
    r, m = z - y, y * z
    if loss == "squared_error":
        return r**2 / 2, r
    if loss == "huber":
        inside = np.abs(r) <= parameter
        value = np.where(inside, r**2 / 2, parameter * np.abs(r) - parameter**2 / 2)
        return value, np.clip(r, -parameter, parameter)
    if loss == "log_loss":
        return np.logaddexp(0, -m), -y / (1 + np.exp(m))
    if loss == "squared_hinge":
        return np.maximum(0, 1 - m) ** 2, -2 * y * np.maximum(0, 1 - m)
    if loss == "modified_huber":
        value = np.where(m >= -1, np.maximum(0, 1 - m) ** 2, -4 * m)
        return value, np.where(m >= -1, -2 * y * np.maximum(0, 1 - m), -4 * y)
    if loss == "poisson":
        return np.exp(z) - y * z, np.exp(z) - y
    if loss == "gamma":
        return z + y * np.exp(-z), 1 - y * np.exp(-z)
    if loss == "exponential":
        return np.exp(-m), -y * np.exp(-m)
    return np.abs(r) ** parameter / parameter, np.sign(r) * np.abs(r) ** (parameter - 1)


def gradients(problem, theta):
    """The gradient of every f_i, penalty included; one row for each."""
    X = np.column_stack([problem.X, np.ones(len(problem.X))])
    loss = problem.loss
    slope = numpy_loss(loss.name, X @ theta, problem.y, loss.parameter)[1]
    if problem.weight is not None:
        slope = slope * problem.weight
    every = slope[:, None] * X
    every[:, :-1] += problem.alpha * theta[:-1]
    if not problem.fit_intercept:
        every[:, -1] = 0
    return every


def coefficients(model):
    return np.append(np.ravel(model.coef_), np.ravel(model.intercept_))


def estimator(loss, **params):
    """Classifier or regressor for a loss, with the constant step unless told otherwise."""
    params = {"learning_rate": "constant", "loss": loss, **params}
    is_class = loss in ("log_loss", "squared_hinge", "modified_huber", "exponential")
    return (ShufflingSGDClassifier if is_class else ShufflingSGDRegressor)(**params)


def epoch_map(X, y, order, gamma, alpha):
    """What an epoch of fixed steps does to least squares: theta becomes M theta + c."""
    d = X.shape[1]
    M, c = np.eye(d), np.zeros(d)
    for i in order:
        A = np.eye(d) - gamma * (np.outer(X[i], X[i]) + alpha * np.eye(d))
        M, c = A @ M, A @ c + gamma * X[i] * y[i]
    return M, c


def test_oracle_01_affine_epoch_map():
    X, y = make_rows(30, 4)
    alpha, gamma, order = 0.1, 0.05, np.random.default_rng(1).permutation(30)
    M, c = epoch_map(X, y, order, gamma, alpha)
    start = np.arange(4.0)
    model = ShufflingSGDRegressor(
        alpha=alpha,
        eta0=gamma,
        learning_rate="constant",
        order=order,
        fit_intercept=False,
        max_iter=1,
    ).fit(X, y, coef_init=start)
    np.testing.assert_allclose(model.coef_, M @ start + c, rtol=0, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 1e-2])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_oracle_02_parity_with_scikit_learn(alpha, fit_intercept):
    shared = {
        "alpha": alpha,
        "fit_intercept": fit_intercept,
        "eta0": 0.01,
        "max_iter": 20,
        "tol": None,
    }
    ours = {"order": "incremental", "learning_rate": "constant"}
    theirs = {"shuffle": False, "learning_rate": "constant"}
    X, y = make_rows(150, 6)
    for loss in ("squared_error", "huber"):
        model = ShufflingSGDRegressor(loss, **shared, **ours).fit(X, y)
        peer = SGDRegressor(loss=loss, **shared, **theirs).fit(X, y)
        np.testing.assert_allclose(coefficients(model), coefficients(peer), rtol=0, atol=1e-12)
    X, y = make_rows(150, 6, "log_loss")
    for loss in ("log_loss", "squared_hinge", "modified_huber"):
        model = ShufflingSGDClassifier(loss, **shared, **ours).fit(X, y)
        peer = SGDClassifier(loss=loss, **shared, **theirs).fit(X, y)
        np.testing.assert_allclose(coefficients(model), coefficients(peer), rtol=0, atol=1e-12)


@pytest.mark.parametrize("order", ["reshuffle", "shuffle_once", "incremental"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n", [1, 12])
def test_oracle_03_one_batch_is_gradient_descent(loss, order, n):
    X, y = make_rows(n, 3, loss)
    if n == 1 and loss in ("log_loss", "squared_hinge", "modified_huber", "exponential"):
        # A classifier needs two classes; a row of weight 0 is no row.
        X, y, weight = np.vstack([X, X]), np.append(y, -y), [1.0, 0.0]
    else:
        weight = None
    params = {
        "alpha": 0.05,
        "eta0": 0.01,
        "order": order,
        "batch_size": n,
        "max_iter": 5,
        "random_state": 0,
    }
    model = estimator(loss, **params).fit(X, y, sample_weight=weight)
    problem = Problem(X[:n], y[:n], None, model._loss(), alpha=0.05)
    theta = np.zeros(4)
    for _ in range(5):
        theta = theta - 0.01 * gradients(problem, theta).mean(axis=0)
    np.testing.assert_allclose(coefficients(model), theta, rtol=0, atol=1e-13)


def test_oracle_04_shuffle_once_fixed_point_nears_ridge_as_the_step_halves():
    n, d, alpha = 200, 5, 0.1
    X, y = make_rows(n, d)
    ridge = Ridge(alpha=alpha * n, fit_intercept=False, solver="cholesky").fit(X, y).coef_
    order = np.random.default_rng(0).permutation(n)
    distances = []
    for gamma in (0.2, 0.1, 0.05, 0.025):
        gamma /= np.max(np.sum(X**2, axis=1))
        M, c = epoch_map(X, y, order, gamma, alpha)
        fixed = np.linalg.solve(np.eye(d) - M, c)
        model = ShufflingSGDRegressor(
            alpha=alpha,
            eta0=gamma,
            learning_rate="constant",
            order=order,
            fit_intercept=False,
            max_iter=600,
        ).fit(X, y)
        np.testing.assert_allclose(model.coef_, fixed, rtol=0, atol=1e-9)
        distances.append(np.linalg.norm(fixed - ridge))
    ratios = np.array(distances[:-1]) / distances[1:]
    assert np.all((ratios > 1.7) & (ratios < 2.1)), ratios
    assert np.all(np.diff(ratios) > 0), ratios


def with_replacement(problem, theta, gamma, rng):
    """Stochastic gradient descent, for comparison: rows drawn independently."""
    problem.epoch(theta, rng.integers(problem.n_samples, size=problem.n_samples), gamma)


def stationary_error(problem, optimum, gamma, source, rng, epochs=400):
    theta, total = optimum.copy(), 0.0
    once = rng.permutation(problem.n_samples)
    for t in range(epochs):
        if source == "with replacement":
            with_replacement(problem, theta, gamma, rng)
        else:
            order = once if source == "shuffle_once" else rng.permutation(problem.n_samples)
            problem.epoch(theta, order, gamma)
        if t >= epochs // 2:
            total += np.sum((theta - optimum) ** 2)
    return total / (epochs - epochs // 2)


def ridge_problem(n=200, d=5, alpha=0.1):
    X, y = make_rows(n, d)
    problem = Problem(X, y, None, make_loss("squared_error"), alpha=alpha, fit_intercept=False)
    H = X.T @ X / n + alpha * np.eye(d)
    optimum = np.append(np.linalg.solve(H, X.T @ y / n), 0.0)
    return problem, H, optimum


def test_oracle_05_stationary_error_falls_faster_without_replacement():
    problem, H, optimum = ridge_problem()
    L_max = np.max(np.sum(problem.X**2, axis=1)) + problem.alpha
    mu = np.linalg.eigvalsh(H)[0]
    sigma2 = np.mean(np.sum(gradients(problem, optimum) ** 2, axis=1))
    errors = {}
    for source in ("with replacement", "shuffle_once", "reshuffle"):
        errors[source] = [
            np.mean(
                [
                    stationary_error(
                        problem, optimum, gamma / L_max, source, np.random.default_rng(seed)
                    )
                    for seed in range(6)
                ]
            )
            for gamma in (0.2, 0.1, 0.05)
        ]
    ratios = {source: np.array(e[:-1]) / e[1:] for source, e in errors.items()}
    assert np.all(ratios["with replacement"] < 2.6), ratios
    assert np.all(ratios["with replacement"] > 1.5), ratios
    assert np.all(ratios["shuffle_once"] > 3.0), ratios
    assert np.all(ratios["reshuffle"] > 3.5), ratios
    bounds = [
        (gamma / L_max) ** 2 * L_max * problem.n_samples * sigma2 / (2 * mu)
        for gamma in (0.2, 0.1, 0.05)
    ]
    assert np.all(np.array(errors["reshuffle"]) < bounds)


def test_oracle_06_strongly_convex_rate():
    problem, H, optimum = ridge_problem()
    mu, least = np.linalg.eigvalsh(H)[0], problem.objective(optimum)
    horizons = np.array([100, 200, 400, 800])
    slopes = {}
    for source in ("reshuffle", "with replacement"):
        gaps = []
        for T in horizons:
            found = []
            for seed in range(4):
                rng = np.random.default_rng(seed)
                if source == "reshuffle":
                    model = ShufflingSGDRegressor(
                        alpha=problem.alpha,
                        learning_rate="log",
                        mu=mu,
                        max_iter=int(T),
                        fit_intercept=False,
                        random_state=seed,
                    ).fit(problem.X, problem.y)
                    theta = np.append(model.coef_, 0.0)
                else:
                    theta, gamma = np.zeros(6), 6 * np.log(T) / (mu * T * problem.n_samples)
                    for _ in range(T):
                        with_replacement(problem, theta, gamma, rng)
                found.append(problem.objective(theta) - least)
            gaps.append(np.mean(found))
        slopes[source] = np.polyfit(np.log(horizons), np.log(gaps), 1)[0]
    assert slopes["reshuffle"] <= -1.7, slopes
    assert -1.4 < slopes["with replacement"] < -0.5, slopes


def test_oracle_07_optima_are_those_of_scikit_learn():
    n, alpha = 300, 1e-2
    params = {"alpha": alpha, "max_iter": 500, "random_state": 0}
    X, y = make_rows(n, 5)
    pairs = [(ShufflingSGDRegressor(**params), Ridge(alpha=alpha * n, tol=1e-12), X, y)]
    X, y = make_rows(n, 5, "log_loss")
    logistic = LogisticRegression(C=1 / (alpha * n), tol=1e-10, max_iter=10_000)
    pairs.append((ShufflingSGDClassifier(**params), logistic, X, y))
    X, y = make_rows(n, 5, "poisson")
    poisson = PoissonRegressor(alpha=alpha, tol=1e-10, max_iter=10_000)
    pairs.append((ShufflingSGDRegressor("poisson", **params), poisson, X, y))
    for model, peer, X, y in pairs:
        ours, theirs = coefficients(model.fit(X, y)), coefficients(peer.fit(X, y))
        assert np.linalg.norm(ours - theirs) < 1e-3 * np.linalg.norm(theirs), peer


def test_oracle_08_gradient_bounds():
    H = 3.7
    assert gradient_bound(LocalSmoothness(2.5), H) == pytest.approx(
        math.sqrt(2 * 2.5 * H), rel=1e-10
    )
    for L0, L1 in [(2.5, 0.8), (0.0, 0.8), (1e6, 1e-6)]:
        expected = 2 * L1 * H + math.sqrt(4 * L1**2 * H**2 + 2 * L0 * H)
        assert gradient_bound(LocalSmoothness(L0, L1, 1.0), H) == pytest.approx(expected, rel=1e-10)
    for p, L0, shift in itertools.product([0.5, 2 / 3, 1.5], [0.0, 1e-4], [0.0, 2.0]):
        ell = LocalSmoothness(L0, 7.0, p, shift)
        u = gradient_bound(ell, H)
        assert u**2 == pytest.approx(2 * ell(2 * u) * H, rel=1e-10)
        for beyond in (1.001 * u, 10 * u):
            assert beyond**2 > 2 * ell(2 * beyond) * H
    X, y = make_rows(50, 3, "poisson")
    R = np.sqrt(np.sum(X**2, axis=1) + 1)
    ell = make_loss("poisson").smoothness(y, None, R, 0.3)
    assert (ell.L1, ell.p) == (pytest.approx(R.max()), 1.0)
    assert ell.L0 == pytest.approx(np.max(y * R**2) + 0.3)


@pytest.mark.parametrize("loss", LOSSES)
def test_oracle_08_ell_bounds_the_curvature(loss):
    X, y = make_rows(40, 3, loss)
    made = make_loss(loss)
    weight = np.random.default_rng(1).uniform(0.5, 1.5, 40)
    problem = Problem(X, y, weight, made, alpha=0.0)
    R = problem.row_norms()
    for scale in (0.1, 1.0, 5.0):
        theta = scale * np.random.default_rng(2).normal(size=4)
        slopes, curvatures = made.derivatives(problem.predictor(theta), y)[1:]
        for i in range(40):
            # The ell of a single row, which is the sharpest.
            ell = made.smoothness(y[[i]], problem.weight[[i]], R[[i]], 0.0)
            u = problem.weight[i] * abs(slopes[i]) * R[i]
            assert problem.weight[i] * curvatures[i] * R[i] ** 2 <= ell(u) * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("alpha", [0.0, 1e-2])
@pytest.mark.parametrize("loss", ["poisson", "gamma", "power", "log_loss", "exponential"])
def test_oracle_09_certificate_keeps_the_sublevel_set(loss, alpha):
    X, y = make_rows(40, 3, loss)
    params = {"alpha": alpha, "order": "incremental", "max_iter": 30, "learning_rate": "theory"}
    model = estimator(loss, **params)
    problem = Problem(X, y, None, model._loss(), alpha=alpha)
    low = problem.loss.lower_bound(problem.y, None)
    H = 2 * (problem.objective(np.zeros(4)) - low)
    last = problem.objective(np.zeros(4))
    for T in (1, 10, 30):
        # The first epochs are the same whatever max_iter is, given the horizon.
        model.set_params(max_iter=T, horizon=30).fit(X, y)
        theta = coefficients(model)
        gradient = gradients(problem, theta).mean(axis=0)
        assert np.linalg.norm(gradient) <= model.gradient_bound_
        assert np.all(
            np.linalg.norm(gradients(problem, theta), axis=1) <= model.individual_gradient_bound_
        )
        assert max(model.objective_curve_) - low <= H
        # With so small a step every epoch descends.
        assert np.all(np.diff([last, *model.objective_curve_]) < 0)
    assert np.all(np.diff(model.step_sizes_) <= 0)


@pytest.mark.parametrize("loss", ["poisson", "power"])
def test_oracle_09_descent_of_an_epoch_over_all_permutations(loss):
    n = 5
    X, y = make_rows(n, 2, loss, seed=3)
    problem = Problem(X, y, None, make_loss(loss), alpha=0.0)
    theta = np.array([0.3, -0.2, 0.1])
    every = gradients(problem, theta)
    g = every.mean(axis=0)
    sigma2 = np.mean(np.sum((every - g) ** 2, axis=1))
    # G' for this point itself: the gradient there, and no variance beyond what is measured.
    bound = np.sqrt(2) * np.linalg.norm(g) + np.sqrt(2 * n * sigma2)
    L = problem.loss.smoothness(y, None, problem.row_norms(), 0.0)(2 * bound)
    before = problem.objective(theta)
    for share in (1.0, 0.3):
        eta = share / (2 * L)
        after = []
        for order in itertools.permutations(range(n)):
            reached = theta.copy()
            problem.epoch(reached, np.array(order), eta / n)
            after.append(problem.objective(reached))
        descent = before - eta / 4 * g @ g
        assert max(after) <= descent + 2 / 3 * eta**3 * L**2 * sigma2
        assert np.mean(after) <= descent + 4 / 9 * eta**3 * L**2 * sigma2 / n


def test_oracle_09_identity_of_partial_sums():
    n = 5
    X, y = make_rows(n, 2, "exponential")
    every = gradients(
        Problem(X, y, None, make_loss("exponential"), alpha=0.1), np.array([0.5, -0.4, 0.2])
    )
    g = every.mean(axis=0)
    V = np.mean(np.sum((every - g) ** 2, axis=1))
    for i in range(1, n + 1):
        squares = [
            np.sum(every[list(order[:i])].sum(axis=0) ** 2)
            for order in itertools.permutations(range(n))
        ]
        expected = i**2 * g @ g + i * (n - i) / (n - 1) * V
        assert np.mean(squares) == pytest.approx(expected, rel=1e-12)


def test_oracle_10_epochs_visit_each_row_once():
    rng = np.random.RandomState(0)
    reshuffled = Orders("reshuffle", 3, rng)
    drawn = [tuple(reshuffled(t)) for t in range(1, 3001)]
    assert {tuple(sorted(order)) for order in drawn} == {(0, 1, 2)}
    counts = np.array([drawn.count(order) for order in itertools.permutations(range(3))])
    assert np.sum((counts - 500) ** 2 / 500) < 20.5  # chi^2 with 5 degrees, p = 0.001
    # Consecutive epochs are independent: all 36 pairs occur equally often.
    pairs = {}
    for pair in zip(drawn[::2], drawn[1::2], strict=True):
        pairs[pair] = pairs.get(pair, 0) + 1
    assert len(pairs) == 36
    assert sum((count - 1500 / 36) ** 2 / (1500 / 36) for count in pairs.values()) < 66.6

    once = Orders("shuffle_once", 20, rng)
    assert np.array_equal(once(1), once(7))
    assert sorted(once(1)) == list(range(20))
    assert not np.array_equal(once(1), np.arange(20))
    assert np.array_equal(Orders("incremental", 4, rng)(3), np.arange(4))
    table = np.array([[2, 0, 1], [1, 2, 0]])
    assert np.array_equal(Orders(table, 3, rng)(2), table[1])


def test_oracle_10_order_of_an_estimator_is_respected():
    X, y = make_rows(3, 2)
    table = np.array([[2, 0, 1], [1, 2, 0], [0, 1, 2]])
    params = {"learning_rate": "constant", "eta0": 0.1, "max_iter": 3}
    reached = coefficients(ShufflingSGDRegressor(order=table, **params).fit(X, y))
    asked = coefficients(
        ShufflingSGDRegressor(order=lambda t, rng, n: table[t - 1], **params).fit(X, y)
    )
    np.testing.assert_array_equal(reached, asked)
    other = coefficients(ShufflingSGDRegressor(order=table[::-1], **params).fit(X, y))
    assert np.max(np.abs(reached - other)) > 1e-4
    theta = np.zeros(3)
    for i in table.ravel():
        row = np.append(X[i], 1.0)
        theta = theta - 0.1 * ((row @ theta - y[i]) * row + 1e-4 * theta * [1, 1, 0])
    np.testing.assert_allclose(reached, theta, rtol=0, atol=1e-14)


@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
def test_oracle_11_last_batch_has_its_share(loss):
    n, batch, gamma = 10, 4, 1e-7
    X, y = make_rows(n, 3, loss)
    problem = Problem(X, y, None, make_loss(loss), alpha=0.1, batch_size=batch)
    theta = np.array([0.2, -0.1, 0.3, 0.1])
    full = gradients(problem, theta).mean(axis=0)
    # Each batch alone, from the same iterate: the rows of the others are in the order, with a
    # step so small that theta stands still to the second order.
    moved = theta.copy()
    problem.epoch(moved, np.random.default_rng(0).permutation(n), gamma)
    np.testing.assert_allclose((theta - moved) / (gamma * 3), full, rtol=2e-5, atol=2e-6)
    # Exactly, where the slope does not depend on the iterate.
    slopes = Problem(X, 100 + y, None, make_loss("huber", huber_epsilon=1), alpha=0.0, batch_size=4)
    moved = theta.copy()
    slopes.epoch(moved, np.random.default_rng(1).permutation(n), 0.01)
    full = gradients(slopes, theta).mean(axis=0)
    np.testing.assert_allclose(theta - moved, 0.01 * 3 * full, rtol=0, atol=1e-14)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("batch_size", [1, 7])
def test_oracle_12_dense_equals_sparse(loss, batch_size):
    X, y = make_rows(60, 8, loss)
    X[np.random.default_rng(0).random(X.shape) < 0.6] = 0
    model = estimator(
        loss, eta0=0.01, alpha=0.3, batch_size=batch_size, max_iter=20, random_state=0
    )
    dense = coefficients(model.fit(X, y))
    of_sparse = coefficients(model.fit(sparse.csr_array(X), y))
    np.testing.assert_allclose(dense, of_sparse, rtol=1e-10, atol=1e-10)
    assert np.max(np.abs(dense)) > 1e-3


def test_oracle_12_weight_zero_is_no_row():
    for loss in ("squared_error", "poisson", "log_loss"):
        X, y = make_rows(40, 4, loss)
        weight = np.random.default_rng(0).integers(0, 3, 40).astype(float)
        for params in ({"eta0": 0.01}, {"learning_rate": "auto"}, {"learning_rate": "theory"}):
            model = estimator(loss, order="incremental", max_iter=10, **params)
            with_zeros = coefficients(model.fit(X, y, sample_weight=weight))
            kept = weight > 0
            without = coefficients(model.fit(X[kept], y[kept], sample_weight=weight[kept]))
            np.testing.assert_array_equal(with_zeros, without)


def test_oracle_12_class_weight_is_a_weight():
    X, y = make_rows(60, 4, "log_loss")
    params = {"max_iter": 10, "random_state": 0}
    weighted = ShufflingSGDClassifier(class_weight={-1: 1.0, 1: 3.0}, **params).fit(X, y)
    by_hand = ShufflingSGDClassifier(**params).fit(X, y, sample_weight=np.where(y > 0, 3.0, 1.0))
    np.testing.assert_array_equal(coefficients(weighted), coefficients(by_hand))
    plain = ShufflingSGDClassifier(**params).fit(X, y)
    assert np.max(np.abs(coefficients(weighted) - coefficients(plain))) > 1e-2


@pytest.mark.parametrize(("loss", "degree"), [("squared_error", 2), ("power", 4), ("power", 3)])
def test_oracle_12_scaling_of_the_target(loss, degree):
    """y -> c y with the step over c^(q - 2) moves the coefficients by the factor c."""
    X, y = make_rows(50, 4)
    c = 3.0
    params = {"alpha": 0.0, "order": "incremental", "max_iter": 5, "power": float(max(degree, 2.5))}
    small = estimator(loss, eta0=1e-3, **params).fit(X, y)
    large = estimator(loss, eta0=1e-3 / c ** (degree - 2), **params).fit(X, c * y)
    np.testing.assert_allclose(coefficients(large), c * coefficients(small), rtol=1e-10)


def test_oracle_13_lipschitz_step_diverges_and_auto_does_not():
    X, y = poisson_problem()
    params = {"alpha": 1e-3, "fit_intercept": False, "random_state": 0}
    problem = Problem(X, y, None, make_loss("poisson"), alpha=1e-3, fit_intercept=False)
    lipschitz = 1 / problem.greatest_curvature(np.zeros(11))
    assert lipschitz == pytest.approx(0.037, abs=0.001)
    diverging = ShufflingSGDRegressor(
        "poisson", learning_rate="constant", eta0=lipschitz, max_iter=50, **params
    )
    with pytest.warns(ConvergenceWarning, match=r"overflowed in epoch 1 .*eta0=0.0367"):
        diverging.fit(X, y)
    np.testing.assert_array_equal(diverging.coef_, np.zeros(10))
    later = ShufflingSGDRegressor(
        "poisson", learning_rate="constant", eta0=1e-3, max_iter=50, **params
    )
    with pytest.warns(ConvergenceWarning, match=r"overflowed in epoch \d+ .*eta0=0.001"):
        later.fit(X, y)
    assert 1 <= later.n_iter_ < 50
    assert np.all(np.isfinite(later.coef_))
    assert np.isfinite(later.objective_curve_).all()

    auto = ShufflingSGDRegressor("poisson", max_iter=50, **params).fit(X, y)
    peer = PoissonRegressor(alpha=1e-3, fit_intercept=False, tol=1e-10, max_iter=1000).fit(X, y)
    least = problem.objective(np.append(peer.coef_, 0.0))
    assert auto.objective_curve_[-1] - least < 1e-3


@pytest.mark.parametrize("loss", ["squared_error", "huber", "power"])
def test_oracle_13_unscaled_features_never_make_it_worse_than_the_start(loss):
    X, y = load_diabetes(return_X_y=True, scaled=False)
    X = X * 1000
    model = ShufflingSGDRegressor(loss, max_iter=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    problem = Problem(np.ascontiguousarray(X), y, None, model._loss(), alpha=1e-4)
    assert problem.objective(coefficients(model)) <= problem.objective(np.zeros(11))
