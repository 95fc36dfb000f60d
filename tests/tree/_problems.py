"""Data and class lists that the tests of missingness-avoiding trees share."""

import numpy as np
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skml.tree import MADecisionTreeClassifier, MADecisionTreeRegressor

TREES = [MADecisionTreeClassifier, MADecisionTreeRegressor]
PAIRS = [
    (MADecisionTreeClassifier, DecisionTreeClassifier),
    (MADecisionTreeRegressor, DecisionTreeRegressor),
]
SCOPES = ["node", "feature", "row"]


def is_classifier(Tree):
    return Tree in (MADecisionTreeClassifier, DecisionTreeClassifier)


def random_problem(seed, Tree, n=300, d=5, missing=0.3, n_classes=3):
    """Imputed X, its mask, y and positive weights; continuous, so that only pure cuts tie."""
    X, mask, y, rng = table_with_gaps(seed, n, d, missing)
    y = even_classes(y, n_classes) if is_classifier(Tree) else y
    # Multiples of 2^-10 have exact sums: scikit-learn splits pure nodes whose impurity comes out
    # as 3e-16, which rounded sums of weights give.
    return X, mask, y, rng.integers(512, 2048, size=n) / 1024


def table_with_gaps(seed, n, d, missing, grid=None):
    """Complete X, a mask whose rate falls by column, a noisy signal, and the generator.

    `grid` rounds X to multiples of 1 / grid.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32).astype(np.float64)
    if grid is not None:
        X = np.round(X * grid) / grid
    signal = X[:, 0] + np.sin(2 * X[:, 1 % d]) + X[:, 2 % d] * X[:, 3 % d]
    signal += 0.3 * rng.normal(size=n)
    mask = rng.random((n, d)) < missing * np.linspace(1.6, 0.2, d)
    return X, mask, signal, rng


def even_classes(signal, n_classes):
    """Cut a signal into classes of the same size."""
    return np.digitize(signal, np.quantile(signal, np.linspace(0, 1, n_classes + 1)[1:-1]))


GOOD_X = np.random.default_rng(0).normal(size=(30, 3))
GOOD_Y = np.arange(30) % 3
