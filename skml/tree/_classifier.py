"""Decision tree classifier that learns to avoid missing values."""

import numpy as np
from sklearn.base import _fit_context
from sklearn.metrics import accuracy_score
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils._param_validation import StrOptions

from ._base import BaseMATree
from ._growing import memory_limit
from ._parameters import TREE_CONSTRAINTS
from ._targets import Target, encoded_classes
from ._values import class_shares

__all__ = ["MADecisionTreeClassifier"]


class MADecisionTreeClassifier(BaseMATree, DecisionTreeClassifier):
    r"""Decision tree classifier that learns to avoid reading missing values.

    It grows like a scikit-learn ``DecisionTreeClassifier`` on imputed data, but a test that would
    read a missing value of many rows at its node pays for it.

    Read more in the :ref:`User Guide <missingness_avoiding>`.

    Parameters
    ----------
    criterion : {"gini", "entropy", "log_loss"}, default="gini"
        The impurity; the last two are the entropy in bits.

    splitter : {"best"}, default="best"
        Accepted so that the class can take the place of scikit-learn's; "random" is refused.

    max_depth : int or None, default=None
        Greatest depth. None grows until the leaves are pure or too small.

    min_samples_split : int or float, default=2
        Least number of rows of a node that is split; a float is a share of the rows.

    min_samples_leaf : int or float, default=1
        Least number of rows in each child; a float is a share of the rows.

    min_weight_fraction_leaf : float, default=0.0
        Least share of the total weight in each child.

    max_features : int, float, {"sqrt", "log2"} or None, default=1.0
        Features that a node looks at. With few of them the tree is forced onto features that
        are missing, so all are looked at by default.

    max_leaf_nodes : int or None, default=None
        Grow best first, by penalised gain, up to this number of leaves.

    min_impurity_decrease : float, default=0.0
        A split must decrease the impurity, weighted by the node's share of the total weight and
        without the penalty, by this much.

    ccp_alpha : non-negative float, default=0.0
        Price of a leaf in minimal cost-complexity pruning; it uses the impurity alone.

    alpha : non-negative float, default=0.1
        Price of missingness reliance: what it costs, in units of the impurity, if every row of a
        node reads a missing value. 0 gives scikit-learn's tree on the imputed data.

    penalty_scope : {"node", "feature", "row"}, default="node"
        What is free of charge further down: nothing, a cell that the path has read already, or
        all cells of a row that has read one (this matches the maximum in the reliance).

    alpha_scale : {"absolute", "relative"}, default="absolute"
        Whether `alpha` is multiplied by the impurity of the root.

    stop_on_net_loss : bool, default=False
        Whether a node becomes a leaf if its best split costs at least what it gains.

    imputer : {"mean", "median", "zero", "native"} or transformer, default="mean"
        What rows that miss a value are routed by: a weighted statistic of the observed values of
        the column, a transformer that keeps the columns, or (native) the side that lowers the
        impurity most. The price is the same for all.

    missing_policy : {"impute", "stop"}, default="impute"
        Prediction for a row that misses the feature of a node: go on with the imputed value, or
        stop and predict the value of that node.

    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; they multiply `sample_weight`, hence the penalty too.

    random_state : int, RandomState instance or None, default=None
        Source of the choice between tied features, and of the candidates if `max_features` leaves
        some out.

    monotonic_cst : None, default=None
        Accepted so that the class can take the place of scikit-learn's; only None is supported.

    Attributes
    ----------
    tree_ : sklearn.tree._tree.Tree
        The tree, as scikit-learn stores it.

    classes_ : ndarray of shape (n_classes,)
        Class labels.

    n_classes_ : int
        Number of classes.

    n_outputs_ : int
        Always 1.

    max_features_ : int
        Number of features that a node looks at.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    feature_importances_ : ndarray of shape (n_features,)
        Share of each feature in the decrease of the impurity, the penalty left out.

    feature_missing_rate_ : ndarray of shape (n_features,)
        Weighted share of training rows that miss the feature.

    imputer_ : transformer or None
        The fitted imputer, None under "native".

    missingness_reliance_ : float
        Weighted share of training rows whose path reads a missing value, in [0, 1].

    node_missingness_reliance_ : ndarray of shape (n_nodes,)
        Among the training rows of a node, the weighted share that has read a missing value by
        then, the node's own test included. Class weights take no part in these shares.

    See Also
    --------
    skml.metrics.missingness_reliance : Reliance of any fitted estimator.
    MADecisionTreeRegressor : The same for a numeric target.

    Notes
    -----
    At a node with rows :math:`S`, weights :math:`w` and missing cells :math:`m_{ij}`, the split on
    feature :math:`j` at threshold :math:`\tau` minimises

    .. math:: C(j, \tau) + \alpha\,
        \frac{\sum_{i \in S} w_i s_{ij} m_{ij}}{\sum_{i \in S} w_i},

    where :math:`C` is the weighted mean impurity of the two children, and :math:`s_{ij} = 1`
    unless `penalty_scope` makes the cell free. The price is that of the rows in this node, so
    a feature that is always observed where it matters costs nothing there. A split whose gain is
    less than its price is still made unless `stop_on_net_loss`.

    References
    ----------
    .. [1] L. Stempfle, A. Matsson, N. Mwai, F. D. Johansson. "Prediction models that learn to
           avoid missing values". ICML 2025, PMLR 267:56899-56919. arXiv:2505.03393.

    Examples
    --------
    The second feature decides, but half of its values were never observed.

    >>> import numpy as np
    >>> from skml.tree import MADecisionTreeClassifier
    >>> y = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    >>> X = np.column_stack([[0, 0, 0, 1, 1, 1, 1, 1], y])
    >>> missing = np.zeros(X.shape, dtype=bool)
    >>> missing[[0, 1, 4, 5], 1] = True
    >>> reader = MADecisionTreeClassifier(alpha=0.3, max_depth=1).fit(X, y, missing_mask=missing)
    >>> reader.score(X, y), reader.missingness_reliance_
    (1.0, 0.5)
    >>> avoider = MADecisionTreeClassifier(alpha=0.5, max_depth=1).fit(X, y, missing_mask=missing)
    >>> avoider.score(X, y), avoider.missingness_reliance_
    (0.875, 0.0)
    """

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
    def fit(self, X, y, sample_weight=None, check_input=True, *, missing_mask=None):
        """Grow the tree.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows, NaN where a value was not observed. Used as float32 after imputation.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0; they weigh the impurity, the penalty and the imputed
            statistic.
        check_input : bool, default=True
            Accepted because scikit-learn's trees have it, without effect: X is always validated.
        missing_mask : array-like of shape (n_samples, n_features), default=None
            Cells that count as missing although X holds a value (imputed beforehand), marked by
            True or 1. NaN cells count as missing in any case.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        return self._fit(X, y, sample_weight, missing_mask)

    def predict(self, X, check_input=True):
        """Predict the class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.
        check_input : bool, default=True
            False skips the validation of X, which must then be a float32 array.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Class labels.
        """
        nodes = self._end_nodes(X, check_input=check_input)
        return self._classes_of(nodes)

    def predict_proba(self, X, check_input=True):
        """Predict the share of each class in the node in which each row ends.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.
        check_input : bool, default=True
            False skips the validation of X, which must then be a float32 array.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Shares in the order of ``classes_``.
        """
        nodes = self._end_nodes(X, check_input=check_input)
        return self.tree_.value[:, 0, :].take(nodes, axis=0)

    def predict_log_proba(self, X):
        """Predict the logarithm of the class shares.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Logarithms in the order of ``classes_``, ``-inf`` for a share of 0.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def score(self, X, y, sample_weight=None, *, missing_mask=None):
        """Return the accuracy of the prediction.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        missing_mask : array-like of shape (n_samples, n_features), default=None
            Cells that count as missing although X holds a value; they matter to the score only
            under ``missing_policy="stop"``.

        Returns
        -------
        score : float
            Weighted share of rows whose class is right.
        """
        nodes = self._end_nodes(X, missing_mask)
        return accuracy_score(y, self._classes_of(nodes), sample_weight=sample_weight)

    def _classes_of(self, nodes):
        best = self.tree_.value[:, 0, :].argmax(axis=1)
        return self.classes_.take(best).take(nodes)

    def _encode_target(self, y):
        self.classes_, codes, class_weight = encoded_classes(y, self.class_weight)
        self.n_classes_ = len(self.classes_)
        return Target(codes=codes, n_classes=self.n_classes_), class_weight

    def _check_size(self, settings):
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
        # Every class ends in leaves of its own, unless rows of several classes are equal.
        needed = 8 * self.n_classes_ * (2 * self.n_classes_ - 1)
        if unlimited and needed > memory_limit():
            raise MemoryError(
                f"a tree that separates {self.n_classes_} classes needs {needed / 2**30:.1f} GiB "
                "for the values of its nodes; set max_depth or max_leaf_nodes"
            )

    def _node_values(self, grown, target, weight):
        parent = np.ascontiguousarray(grown.nodes["parent"])
        return class_shares(grown.leaf, target.codes, weight, parent, target.n_classes)

    def _leaf_text(self, node, decimals):
        shares = self.tree_.value[node, 0]
        best = shares.argmax()
        return f"class {self.classes_[best]} ({shares[best]:.{decimals}f})"
