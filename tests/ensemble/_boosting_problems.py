"""Data, class lists and a plain reference for the tests of missingness-avoiding boosting."""

import numpy as np
from scipy.special import expit, softmax
from sklearn.impute import SimpleImputer

from skml.ensemble import MAGradientBoostingClassifier, MAGradientBoostingRegressor
from tests.tree._problems import even_classes, table_with_gaps
from tests.tree._reference_tree import (
    best_split,
    cells_read_by,
    children_impurity,
    impurity_of,
    price_of,
)

BOOSTERS = [MAGradientBoostingClassifier, MAGradientBoostingRegressor]
ENGINES = [None, 255]
SCOPES = ["node", "feature", "row"]


def random_problem(seed, Booster, n=300, d=5, missing=0.3, n_classes=2, grid=None):
    """X with NaN whose rate differs by column, its mask, y and positive weights.

    `grid` rounds the values, so that each has a bin of its own and both engines see the same cuts.
    """
    X, mask, y, rng = table_with_gaps(seed, n, d, missing, grid)
    X[mask] = np.nan
    if Booster is MAGradientBoostingClassifier:
        y = even_classes(y, n_classes)
    return X, mask, y, rng.integers(512, 2048, size=n) / 1024


def imputed(X):
    """What the built-in mean imputation makes of X, in the precision of the trees."""
    return SimpleImputer().fit_transform(X).astype(np.float32)


def gradients(model, y, raw):
    """Negative gradients, one row per tree of a stage."""
    if isinstance(model, MAGradientBoostingRegressor):
        return {
            "squared_error": y - raw,
            "absolute_error": np.sign(y - raw),
            "quantile": np.where(y > raw, model.quantile, model.quantile - 1.0),
        }[model.loss]
    if len(raw) == 1:
        return y - expit(raw)
    return (y == np.arange(len(raw))[:, None]) - softmax(raw, axis=0)


def newton_step(model, g, w):
    """Value of a leaf with these gradients, for the log-loss and the squared error."""
    if isinstance(model, MAGradientBoostingRegressor):
        return np.average(g, weights=w)
    step = w @ g / (w @ (np.abs(g) * (1 - np.abs(g))))
    return step if model.n_classes_ == 2 else step * (1 - 1 / model.n_classes_)


def assert_every_stage_follows_the_definition(model, X, mask, y, w, *, alpha):
    """Every node is a brute-force minimum of C + alpha P under the sigma of its moment."""
    scope = model.penalty_scope
    charged = mask.copy()
    raw = np.repeat(model.baseline_[:, None], len(X), axis=1)
    for stage in model.estimators_:
        for k, (estimator, g) in enumerate(zip(stage, gradients(model, y, raw), strict=True)):
            tree = estimator.tree_
            assert_greedy_tree(tree, X, g, w, charged, alpha=alpha, max_depth=model.max_depth)
            leaf = tree.apply(X)
            for node in np.unique(leaf):
                rows = leaf == node
                expected = newton_step(model, g[rows], w[rows])
                np.testing.assert_allclose(tree.value[node, 0, 0], expected, rtol=1e-5, atol=1e-9)
            read = cells_read_by(tree, X, mask)
            if scope == "feature":
                charged &= ~read
            elif scope == "row":
                charged[read.any(axis=1)] = False
            raw[k] += model.learning_rate * tree.value[leaf, 0, 0]
    return charged


def assert_greedy_tree(tree, X, g, w, charged, *, alpha, max_depth):
    stack = [(0, np.arange(len(X)), 0)]
    while stack:
        node, rows, depth = stack.pop()
        impurity = impurity_of("squared_error", g[rows], w[rows])
        np.testing.assert_allclose(tree.impurity[node], impurity, atol=1e-6)
        best = best_split(X, g, w, charged, rows, criterion="squared_error", alpha=alpha)
        if tree.children_left[node] < 0:
            assert best is None or depth == max_depth or impurity < 1e-9
            continue
        j = tree.feature[node]
        left = X[rows, j] <= tree.threshold[node]
        cost = children_impurity("squared_error", g[rows], w[rows], left)
        cost += price_of(rows, j, w, charged, alpha)
        np.testing.assert_allclose(cost, best[0], rtol=1e-6, atol=1e-7)
        stack.append((tree.children_left[node], rows[left], depth + 1))
        stack.append((tree.children_right[node], rows[~left], depth + 1))
