"""Which features a fitted model reads to predict each row.

A tree tests, for all rows that end in one leaf, the same features: those on the way to the
leaf. So the answer for a tree is one table (nodes, features), and for the rows a look-up by the
leaf that the model's own `apply` reports; the route of NaN and of categories is the model's.
"""

import copy

import numpy as np
from scipy import sparse
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.ensemble._forest import BaseForest
from sklearn.tree import BaseDecisionTree
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads


def read_features(estimator, X):
    """Mark the features that a fitted model reads to predict each row.

    Parameters
    ----------
    estimator : estimator or LightGBM Booster
        The fitted model.
    X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
        Input of the model.

    Returns
    -------
    ndarray of shape (n_samples, n_features), dtype bool, or None
        True where the prediction of a row reads a feature; None if the model is of a kind for
        which this is not known.
    """
    if isinstance(estimator, BaseDecisionTree):
        return _features_on_paths(estimator.tree_)[estimator.apply(X)]
    if isinstance(estimator, BaseForest):
        return _read_by_forest(estimator, X)
    if isinstance(estimator, GradientBoostingClassifier | GradientBoostingRegressor):
        return _read_by_gradient_boosting(estimator, X)
    if isinstance(estimator, HistGradientBoostingClassifier | HistGradientBoostingRegressor):
        return _read_by_hist_gradient_boosting(estimator, X)
    if type(estimator).__module__.partition(".")[0] == "lightgbm":
        return _read_by_lightgbm(estimator, X)
    return _read_by_linear_model(estimator, X)


def _read_by_forest(forest, X):
    leaves = forest.apply(X)
    read = np.zeros((len(leaves), forest.n_features_in_), dtype=bool)
    for t, tree in enumerate(forest.estimators_):
        read |= _features_on_paths(tree.tree_)[leaves[:, t]]
    return read


def _read_by_gradient_boosting(model, X):
    leaves = model.apply(X)
    leaves = leaves.reshape(len(leaves), -1).astype(np.intp)
    read = np.zeros((len(leaves), model.n_features_in_), dtype=bool)
    for t, tree in enumerate(model.estimators_.ravel()):
        read |= _features_on_paths(tree.tree_)[leaves[:, t]]
    init = model.init_
    if isinstance(init, str) or isinstance(init, DummyClassifier | DummyRegressor):
        return read  # a constant
    read_by_init = read_features(init, X)
    return None if read_by_init is None else read | read_by_init


def _read_by_hist_gradient_boosting(model, X):
    X = model._preprocess_X(X, reset=False)
    bitsets, positions = model._bin_mapper.make_known_categories_bitsets()
    n_threads = _openmp_effective_n_threads()
    read = np.zeros((len(X), model.n_features_in_), dtype=bool)
    for predictor in (tree for stage in model._predictors for tree in stage):
        # A twin whose leaves hold their own number makes `predict` an `apply`.
        twin = copy.copy(predictor)
        twin.nodes = predictor.nodes.copy()
        twin.nodes["value"] = np.arange(len(twin.nodes))
        leaves = twin.predict(X, bitsets, positions, n_threads).astype(np.intp)
        nodes = predictor.nodes
        read |= _propagate(
            np.where(nodes["is_leaf"], -1, nodes["left"].astype(np.intp)),
            np.where(nodes["is_leaf"], -1, nodes["right"].astype(np.intp)),
            nodes["feature_idx"],
            model.n_features_in_,
        )[leaves]
    if model._preprocessor is None:
        return read
    # The encoder in front puts the categorical features first.
    is_categorical = model.is_categorical_
    order = np.concatenate([np.flatnonzero(is_categorical), np.flatnonzero(~is_categorical)])
    in_place = np.empty_like(read)
    in_place[:, order] = read
    return in_place


def _read_by_lightgbm(model, X):
    booster = getattr(model, "booster_", model)
    if not hasattr(booster, "dump_model"):
        return None
    leaves = np.asarray(model.predict(X, pred_leaf=True), dtype=np.intp)
    leaves = leaves.reshape(leaves.shape[0], -1)
    n_features = booster.num_feature()
    read = np.zeros((len(leaves), n_features), dtype=bool)
    for t, tree in enumerate(booster.dump_model()["tree_info"]):
        read |= _features_above_lightgbm_leaves(tree, n_features)[leaves[:, t]]
    return read


def _features_above_lightgbm_leaves(tree, n_features):
    """Table (leaves, features) of a dumped tree."""
    table = np.zeros((max(tree["num_leaves"], 1), n_features), dtype=bool)
    stack = [(tree["tree_structure"], ())]
    while stack:
        node, above = stack.pop()
        if "split_feature" in node:
            above = (*above, node["split_feature"])
            stack += [(node["left_child"], above), (node["right_child"], above)]
        else:
            # Linear trees read further features in the leaf.
            read = [*above, *node.get("leaf_features", ())]
            table[node.get("leaf_index", 0), read] = True
    return table


def _read_by_linear_model(estimator, X):
    coef = getattr(estimator, "coef_", None)
    n_features = getattr(estimator, "n_features_in_", None)
    if coef is None or not hasattr(estimator, "predict"):
        return None
    coef = coef.toarray() if sparse.issparse(coef) else np.asarray(coef)
    if coef.ndim not in (1, 2) or coef.shape[-1] != n_features:
        return None
    is_read = (coef.reshape(-1, n_features) != 0).any(axis=0)
    n_samples = X.shape[0] if hasattr(X, "shape") else len(X)
    return np.broadcast_to(is_read, (n_samples, n_features))


def _features_on_paths(tree):
    """Table (nodes, features) of a scikit-learn Tree."""
    return _propagate(tree.children_left, tree.children_right, tree.feature, tree.n_features)


def _propagate(left, right, feature, n_features):
    """Mark for each node the features that are tested above it, one level at a time.

    Parameters
    ----------
    left, right : ndarray of shape (n_nodes,), dtype int
        Children; negative in a leaf.
    feature : ndarray of shape (n_nodes,), dtype int
        Feature that an inner node tests.
    n_features : int
        Number of features.

    Returns
    -------
    ndarray of shape (n_nodes, n_features), dtype bool
        True where a feature is tested on the way from the root to a node.
    """
    above = np.zeros((len(left), n_features), dtype=bool)
    level = np.array([0])
    while len(level):
        level = level[left[level] >= 0]
        for children in (left[level], right[level]):
            above[children] = above[level]
            above[children, feature[level]] = True
        level = np.concatenate([left[level], right[level]])
    return above
