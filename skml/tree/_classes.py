"""MADecisionTreeClassifier and MADecisionTreeRegressor."""

import numpy as np
from sklearn.base import _fit_context
from sklearn.metrics import accuracy_score, r2_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from skml.tree._base import BaseMATree, _Target
from skml.tree._growing import physical_memory
from skml.tree._parameters import TREE_CONSTRAINTS
from skml.tree._values import class_shares

__all__ = ["MADecisionTreeClassifier", "MADecisionTreeRegressor"]


class MADecisionTreeClassifier(BaseMATree, DecisionTreeClassifier):
    """Classifier."""

    _numeric_target = False
    _parameter_constraints: dict = {
        **TREE_CONSTRAINTS,
        "criterion": [StrOptions({"gini", "entropy", "log_loss"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        *,
        criterion="gini",
        splitter="best",
        max_depth=None,
        min_samples_split=2,
        min_samples_leaf=1,
        min_weight_fraction_leaf=0.0,
        max_features=1.0,
        max_leaf_nodes=None,
        min_impurity_decrease=0.0,
        ccp_alpha=0.0,
        alpha=0.1,
        penalty_scope="node",
        alpha_scale="absolute",
        stop_on_net_loss=False,
        imputer="mean",
        missing_policy="impute",
        class_weight=None,
        random_state=None,
        monotonic_cst=None,
    ):
        self.criterion = criterion
        self.splitter = splitter
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.ccp_alpha = ccp_alpha
        self.alpha = alpha
        self.penalty_scope = penalty_scope
        self.alpha_scale = alpha_scale
        self.stop_on_net_loss = stop_on_net_loss
        self.imputer = imputer
        self.missing_policy = missing_policy
        self.class_weight = class_weight
        self.random_state = random_state
        self.monotonic_cst = monotonic_cst

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, *, missing_mask=None):
        return self._fit(X, y, sample_weight, missing_mask)

    def predict(self, X, check_input=True):
        return self._classes_of(self._end_nodes(X, check_input=check_input))

    def predict_proba(self, X, check_input=True):
        ends = self._end_nodes(X, check_input=check_input)
        return self.tree_.value[:, 0, :].take(ends, axis=0)

    def score(self, X, y, sample_weight=None, *, missing_mask=None):
        predicted = self._classes_of(self._end_nodes(X, missing_mask))
        return accuracy_score(y, predicted, sample_weight=sample_weight)

    def _classes_of(self, nodes):
        best = self.tree_.value[:, 0, :].argmax(axis=1)
        return self.classes_.take(best).take(nodes)

    def _encode_target(self, y):
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.n_classes_ = len(self.classes_)
        class_weight = None
        if self.class_weight is not None:
            class_weight = compute_sample_weight(self.class_weight, y)
        return _Target(codes=codes.astype(np.int32), n_classes=self.n_classes_), class_weight

    def _check_size(self, target, settings, data):
        """Refuse a tree whose values cannot fit into memory before it is grown."""
        unlimited = (
            settings.max_depth is None
            and settings.max_leaf_nodes is None
            and settings.min_samples_leaf == 1
            and settings.min_samples_split == 2
            and settings.min_weight_leaf == 0.0
            and settings.min_impurity_decrease == 0.0
            and not settings.stop_on_net_loss
        )
        if not unlimited:
            return
        # Every class ends in a leaf of its own, unless rows of several classes are equal.
        needed = 8 * self.n_classes_ * (2 * self.n_classes_ - 1)
        if needed > physical_memory():
            raise MemoryError(
                f"a tree that separates {self.n_classes_} classes needs {needed / 2**30:.1f} GiB "
                "for the values of its nodes; set max_depth or max_leaf_nodes"
            )

    def _node_values(self, grown, target, weight):
        return class_shares(
            grown.leaf, target.codes, weight, grown.nodes["parent"].copy(), target.n_classes
        )

    def _leaf_text(self, node, decimals):
        shares = self.tree_.value[node, 0]
        best = shares.argmax()
        return f"class {self.classes_[best]} ({shares[best]:.{decimals}f})"


class MADecisionTreeRegressor(BaseMATree, DecisionTreeRegressor):
    """Regressor."""

    _numeric_target = True
    _parameter_constraints: dict = {**TREE_CONSTRAINTS, "criterion": [str]}

    def __init__(
        self,
        *,
        criterion="squared_error",
        splitter="best",
        max_depth=None,
        min_samples_split=2,
        min_samples_leaf=1,
        min_weight_fraction_leaf=0.0,
        max_features=1.0,
        max_leaf_nodes=None,
        min_impurity_decrease=0.0,
        ccp_alpha=0.0,
        alpha=0.1,
        penalty_scope="node",
        alpha_scale="relative",
        stop_on_net_loss=False,
        imputer="mean",
        missing_policy="impute",
        random_state=None,
        monotonic_cst=None,
    ):
        self.criterion = criterion
        self.splitter = splitter
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.ccp_alpha = ccp_alpha
        self.alpha = alpha
        self.penalty_scope = penalty_scope
        self.alpha_scale = alpha_scale
        self.stop_on_net_loss = stop_on_net_loss
        self.imputer = imputer
        self.missing_policy = missing_policy
        self.random_state = random_state
        self.monotonic_cst = monotonic_cst

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, *, missing_mask=None):
        if self.criterion != "squared_error":
            raise ValueError(
                f"criterion={self.criterion!r} is not supported, only 'squared_error': alpha is "
                "a price in units of the variance"
            )
        return self._fit(X, y, sample_weight, missing_mask)

    def predict(self, X, check_input=True):
        return self.tree_.value[:, 0, 0].take(self._end_nodes(X, check_input=check_input))

    def score(self, X, y, sample_weight=None, *, missing_mask=None):
        check_is_fitted(self)
        predicted = self.tree_.value[:, 0, 0].take(self._end_nodes(X, missing_mask))
        return r2_score(y, predicted, sample_weight=sample_weight)

    def _encode_target(self, y):
        return _Target(y=np.ascontiguousarray(y, dtype=np.float64)), None

    def _check_size(self, target, settings, data):
        pass

    def _node_values(self, grown, target, weight):
        return grown.nodes["value"].reshape(-1, 1)

    def _leaf_text(self, node, decimals):
        return f"value {self.tree_.value[node, 0, 0]:.{decimals}f}"
