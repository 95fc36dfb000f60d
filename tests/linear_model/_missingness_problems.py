"""Data and plain references for the tests of missingness-avoiding linear models."""

import numpy as np

EXACT = {"tol": 1e-12, "max_iter": 100_000}


def random_problem(seed, n=200, d=8, missing=0.4, n_classes=None):
    """X with NaN, whose rate differs by column (none in the last), its mask, y and weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.uniform(0.5, 20, size=d) + rng.normal(scale=5, size=d)
    X[:, 1] += X[:, 0]
    signal = (X - X.mean(axis=0)) / X.std(axis=0) @ rng.normal(size=d)
    mask = rng.random((n, d)) < missing * np.linspace(1, 0, d)
    y = signal + rng.normal(size=n)
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    return np.where(mask, np.nan, X), mask, y, rng.uniform(0.5, 2, size=n)


def standardised(X, mask, weight=None):
    """Standardise by the observed values and put 0, the mean, for the missing ones."""
    weight = np.ones(len(X)) if weight is None else weight
    Z = np.zeros_like(X)
    for j in range(X.shape[1]):
        seen = ~mask[:, j]
        mean = np.average(X[seen, j], weights=weight[seen])
        scale = np.sqrt(np.average((X[seen, j] - mean) ** 2, weights=weight[seen]))
        Z[seen, j] = (X[seen, j] - mean) / scale
    return Z


def lasso_objective(theta, Z, y, penalty, weight=None):
    """Objective at standardised coefficients, with the intercept that is best for them."""
    weight = np.ones(len(y)) if weight is None else weight
    error = y - Z @ theta
    error = error - np.average(error, weights=weight)
    return np.average(error**2, weights=weight) / 2 + penalty @ np.abs(theta)


def log_loss(scores, codes, weight=None):
    """Mean log-loss of scores (n, K)."""
    top = scores.max(axis=1, keepdims=True)
    total = np.log(np.exp(scores - top).sum(axis=1)) + top[:, 0]
    return np.average(total - scores[np.arange(len(codes)), codes], weights=weight)
