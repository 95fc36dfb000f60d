"""Missingness-avoiding linear models beside solvers of the same problem on scaled columns.

Unless a row says otherwise, the peers get their columns imputed, standardised and divided by the
penalty weights beforehand, outside of the measured time. Ours start from X with NaN and do all
this themselves.
"""

import warnings

import numpy as np
import pytest
from _timing import compare
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LassoCV, LogisticRegression, lasso_path
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skml.linear_model import MALasso, MALassoCV, MALogisticRegression, ma_lasso_path

PACKAGES = ("skglm",)

# Base price in rows, as a share of the rows: keeps the columns for the peers within bounds.
BETA_SHARE = 0.02
SHAPES = [(1000, 20), (10_000, 50), (100_000, 50), (2000, 500), (2000, 2000), (500, 2000)]
SHAPES += [(200, 5000)]


def make_problem(n, d, n_classes=None, seed=0):
    """X with gaps in half of the columns, the columns for a peer, and the target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[:, 1:] += 0.5 * X[:, :-1]
    used = min(d, 30)
    if n_classes is None:
        y = X[:, :used] @ rng.normal(size=used) + 2 * rng.normal(size=n)
    else:
        scores = X[:, :used] @ rng.normal(size=(used, n_classes)) / 2
        y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    rate = rng.uniform(0, 0.4, size=d) * (rng.random(d) < 0.5)
    gaps = rng.random((n, d)) < rate
    X[gaps] = np.nan
    mean = np.nanmean(X, axis=0)
    Z = np.where(gaps, 0.0, (X - mean) / np.nanstd(X, axis=0))
    scaled = np.asfortranarray(Z / (gaps.mean(axis=0) + BETA_SHARE))
    return X, scaled, y


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_path(benchmark, record, n, d):
    """A hundred prices, the same grid, the same bound on the duality gap."""
    X, scaled, y = make_problem(n, d)
    centred = y - y.mean()
    alphas = np.geomspace(1, 1e-3, 100) * np.abs(scaled.T @ centred).max() / n
    row = compare(
        benchmark,
        f"path of 100 alphas, n = {n}, d = {d}",
        lambda: ma_lasso_path(X, y, alphas=alphas, beta=BETA_SHARE * n),
        "lasso_path on prepared columns",
        lambda: lasso_path(scaled, centred, alphas=alphas),
        goal=1.0,
        rounds=3 if d > 1000 else 7,
    )
    record.add(row)


@pytest.mark.parametrize(("n", "d"), [(10_000, 50), (100_000, 50)])
def test_path_from_raw_columns(benchmark, record, n, d):
    """Both sides start from X with NaN: what a user of the plain Lasso has to do is timed."""
    X, scaled, y = make_problem(n, d)
    alphas = np.geomspace(1, 1e-3, 100) * np.abs(scaled.T @ (y - y.mean())).max() / n
    weights = np.isnan(X).mean(axis=0) + BETA_SHARE

    def theirs():
        prepare = make_pipeline(StandardScaler(), SimpleImputer())
        return lasso_path(prepare.fit_transform(X) / weights, y - y.mean(), alphas=alphas)

    row = compare(
        benchmark,
        f"path of 100 alphas from raw columns, n = {n}, d = {d}",
        lambda: ma_lasso_path(X, y, alphas=alphas, beta=BETA_SHARE * n),
        "StandardScaler + SimpleImputer + lasso_path",
        theirs,
        goal=1.0,
        rounds=5,
    )
    record.add(row)


@pytest.mark.parametrize(("n", "d"), [(10_000, 50), (200, 1000)])
def test_search(benchmark, record, n, d):
    """Five splits; the search for the price weighs reliance as well."""
    X, scaled, y = make_problem(n, d)
    alphas = np.geomspace(1, 1e-2, 100) * np.abs(scaled.T @ (y - y.mean())).max() / n
    row = compare(
        benchmark,
        f"search over 100 alphas, 5 splits, n = {n}, d = {d}",
        lambda: MALassoCV(alphas=alphas, beta=BETA_SHARE * n, cv=5).fit(X, y),
        "LassoCV on prepared columns",
        lambda: LassoCV(alphas=alphas, cv=5).fit(scaled, y),
        goal=1.0,
        rounds=3,
    )
    record.add(row)


@pytest.mark.parametrize("peer", ["Lasso", "skglm WeightedLasso"])
@pytest.mark.parametrize(("n", "d"), [(10_000, 50), (2000, 500), (500, 2000)])
def test_one_price(benchmark, record, n, d, peer):
    """One fit from a cold start; skglm takes the weights as they are."""
    X, scaled, y = make_problem(n, d)
    alpha = 0.02 * np.abs(scaled.T @ (y - y.mean())).max() / n
    if peer == "Lasso":
        theirs = Lasso(alpha)
        columns = scaled
    else:
        skglm = pytest.importorskip("skglm")
        weights = np.isnan(X).mean(axis=0) + BETA_SHARE
        theirs = skglm.WeightedLasso(alpha, weights=weights)
        columns = np.asfortranarray(scaled * weights)
    row = compare(
        benchmark,
        f"fit, alpha = 0.02 alpha_max, n = {n}, d = {d}",
        lambda: MALasso(alpha, beta=BETA_SHARE * n).fit(X, y),
        f"{peer} on prepared columns",
        lambda: theirs.fit(columns, y),
        rounds=5,
    )
    row["name"] += f" ({peer})"
    record.add(row)


@pytest.mark.parametrize("peer", ["saga", "liblinear", "skglm"])
@pytest.mark.parametrize(
    ("n", "d", "n_classes"),
    [(1000, 20, 2), (10_000, 50, 2), (100_000, 20, 2), (500, 2000, 2), (5000, 50, 5)],
)
def test_logistic(benchmark, record, n, d, n_classes, peer):
    """Each solver at its own stopping rule and its default tolerance.

    liblinear penalises the intercept, and it and skglm know two classes only.
    """
    if n_classes > 2 and peer != "saga":
        pytest.skip(f"{peer} has no softmax")
    if d > n and peer == "saga":
        pytest.skip("takes a quarter of a minute for each fit")
    X, scaled, y = make_problem(n, d, n_classes)
    indicator = y[:, np.newaxis] == np.arange(n_classes)
    largest = np.abs(scaled.T @ (indicator - indicator.mean(axis=0))).max() / n
    alpha = (0.2 if d > n else 0.05) * largest
    if peer == "skglm":
        theirs = pytest.importorskip("skglm").SparseLogisticRegression(alpha=alpha)
    else:
        theirs = LogisticRegression(
            l1_ratio=1, C=1 / (n * alpha), solver=peer, max_iter=1000, random_state=0
        )
    row = compare(
        benchmark,
        f"logistic regression, {n_classes} classes, n = {n}, d = {d} ({peer})",
        lambda: MALogisticRegression(alpha, beta=BETA_SHARE * n).fit(X, y),
        f"{peer} on prepared columns",
        lambda: theirs.fit(scaled, y),
        goal=1.0 if peer == "saga" else None,
        rounds=3,
    )
    record.add(row)
