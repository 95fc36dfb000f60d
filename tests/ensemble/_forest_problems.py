"""Data and class lists that the tests of missingness-avoiding forests share."""

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from skml.ensemble import MARandomForestClassifier, MARandomForestRegressor
from skml.tree import MADecisionTreeClassifier, MADecisionTreeRegressor
from tests.tree._problems import even_classes, table_with_gaps

FORESTS = [MARandomForestClassifier, MARandomForestRegressor]
PLAIN = {
    MARandomForestClassifier: RandomForestClassifier,
    MARandomForestRegressor: RandomForestRegressor,
}
TREE = {
    MARandomForestClassifier: MADecisionTreeClassifier,
    MARandomForestRegressor: MADecisionTreeRegressor,
}
SCOPES = ["node", "feature", "row"]


def is_classifier(Forest):
    return Forest in (MARandomForestClassifier, RandomForestClassifier)


def random_problem(seed, Forest, n=300, d=5, missing=0.3, n_classes=3):
    """X with NaN, whose rate differs by column, its mask, and y."""
    X, mask, y, _ = table_with_gaps(seed, n, d, missing)
    X[mask] = np.nan
    return X, mask, even_classes(y, n_classes) if is_classifier(Forest) else y


def outputs(forest, X):
    """What a forest predicts, as an array of floats."""
    return forest.predict_proba(X) if hasattr(forest, "predict_proba") else forest.predict(X)
