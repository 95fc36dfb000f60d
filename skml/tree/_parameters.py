"""Parameters that every missingness-avoiding tree learner shares, and what they mean for data."""

from math import ceil
from numbers import Integral, Real

import numpy as np
from sklearn.utils._param_validation import HasMethods, Interval, RealNotInt, StrOptions

from ._growing import TreeSettings

__all__ = [
    "TREE_CONSTRAINTS",
    "absolute_settings",
    "number_of_features",
    "refuse_unsupported",
    "root_impurity",
]

TREE_CONSTRAINTS = {
    # Any string, so that the message of `refuse_unsupported` can say why one is refused.
    "splitter": [str],
    "max_depth": [Interval(Integral, 1, None, closed="left"), None],
    "min_samples_split": [
        Interval(Integral, 2, None, closed="left"),
        Interval(RealNotInt, 0.0, 1.0, closed="right"),
    ],
    "min_samples_leaf": [
        Interval(Integral, 1, None, closed="left"),
        Interval(RealNotInt, 0.0, 1.0, closed="neither"),
    ],
    "min_weight_fraction_leaf": [Interval(Real, 0.0, 0.5, closed="both")],
    "max_features": [
        Interval(Integral, 1, None, closed="left"),
        Interval(RealNotInt, 0.0, 1.0, closed="right"),
        StrOptions({"sqrt", "log2"}),
        None,
    ],
    "max_leaf_nodes": [Interval(Integral, 2, None, closed="left"), None],
    "min_impurity_decrease": [Interval(Real, 0.0, None, closed="left")],
    "ccp_alpha": [Interval(Real, 0.0, None, closed="left")],
    "alpha": [Interval(Real, 0.0, None, closed="left")],
    "penalty_scope": [StrOptions({"node", "feature", "row"})],
    "alpha_scale": [StrOptions({"absolute", "relative"})],
    "stop_on_net_loss": ["boolean"],
    "imputer": [
        StrOptions({"mean", "median", "zero", "native"}),
        HasMethods(["fit", "transform"]),
    ],
    "missing_policy": [StrOptions({"impute", "stop"})],
    "random_state": ["random_state"],
    "monotonic_cst": ["array-like", None],
}


def refuse_unsupported(estimator):
    """Refuse what scikit-learn's trees have and these do not, with the reason."""
    if estimator._numeric_target and estimator.criterion != "squared_error":
        raise ValueError(
            f"criterion={estimator.criterion!r} is not supported, only 'squared_error': alpha is "
            "a price in units of the variance"
        )
    if estimator.splitter != "best":
        raise ValueError(
            f"splitter={estimator.splitter!r} is not supported, only 'best': the penalty is "
            "weighed against the best threshold of each feature"
        )
    if estimator.monotonic_cst is not None:
        raise ValueError(
            "monotonic_cst is not supported, only None: the price of a missing value would have "
            f"to be weighed against the constraints, got {estimator.monotonic_cst!r}"
        )


def number_of_features(max_features, n_features):
    """How many features a node looks at, from the parameter `max_features`."""
    if max_features is None:
        return n_features
    if max_features == "sqrt":
        return max(1, int(np.sqrt(n_features)))
    if max_features == "log2":
        return max(1, int(np.log2(n_features)))
    if isinstance(max_features, Integral):
        return int(max_features)
    return max(1, int(max_features * n_features))


def absolute_settings(estimator, *, n_samples, total_weight, impurity):
    """Turn the parameters into numbers for data of this size, weight and root impurity."""
    least_leaf = estimator.min_samples_leaf
    if not isinstance(least_leaf, Integral):
        least_leaf = ceil(least_leaf * n_samples)
    least_split = estimator.min_samples_split
    if not isinstance(least_split, Integral):
        least_split = max(2, ceil(least_split * n_samples))
    alpha = float(estimator.alpha)
    if estimator.alpha_scale == "relative":
        alpha *= impurity
    return TreeSettings(
        criterion=estimator.criterion,
        max_features=estimator.max_features_,
        alpha=alpha,
        penalty_scope=estimator.penalty_scope,
        stop_on_net_loss=bool(estimator.stop_on_net_loss),
        max_depth=estimator.max_depth,
        max_leaf_nodes=estimator.max_leaf_nodes,
        min_samples_split=int(least_split),
        min_samples_leaf=int(least_leaf),
        min_weight_leaf=float(estimator.min_weight_fraction_leaf * total_weight),
        min_impurity_decrease=float(estimator.min_impurity_decrease),
    )


def root_impurity(criterion, *, y=None, codes=None, sample_weight=None):
    """Impurity of all rows together: variance of y, Gini index or entropy in bits."""
    if criterion == "squared_error":
        mean = np.average(y, weights=sample_weight)
        return float(np.average((y - mean) ** 2, weights=sample_weight))
    counts = np.bincount(codes, weights=sample_weight)
    shares = counts[counts > 0] / counts.sum()
    if criterion == "gini":
        return float(1.0 - np.sum(shares**2))
    return float(-np.sum(shares * np.log2(shares)))
