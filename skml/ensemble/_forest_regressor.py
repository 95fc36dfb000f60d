"""Random forest regressor that learns to avoid missing values."""

import numpy as np
from sklearn.base import _fit_context
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import r2_score

from skml.tree import MADecisionTreeRegressor
from skml.tree._targets import Target

from ._forest import FOREST_CONSTRAINTS, BaseMAForest

__all__ = ["MARandomForestRegressor"]


class MARandomForestRegressor(BaseMAForest, RandomForestRegressor):
    r"""Random forest regressor that learns to avoid reading missing values.

    It averages trees that pay, at every node, for the missing values that a test would read.

    Read more in the :ref:`User Guide <missingness_avoiding_forest>`.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.

    criterion : {"squared_error"}, default="squared_error"
        The impurity is the variance. Other criteria of scikit-learn are refused.

    max_depth : int or None, default=None
        Greatest depth of a tree. None grows until the leaves are pure or too small.

    min_samples_split : int or float, default=2
        Least number of distinct rows of a node that is split; a float is a share of the rows.

    min_samples_leaf : int or float, default=1
        Least number of distinct rows in each child; a float is a share of the rows.

    min_weight_fraction_leaf : float, default=0.0
        Least share of the tree's total weight in each child.

    max_features : int, float, {"sqrt", "log2"} or None, default=1.0
        Features that a node looks at. With few of them the trees are forced onto features that
        are missing, so all are looked at by default.

    max_leaf_nodes : int or None, default=None
        Grow best first, by penalised gain, up to this number of leaves.

    min_impurity_decrease : float, default=0.0
        A split must decrease the impurity, weighted by the node's share of the total weight and
        without the penalty, by this much.

    bootstrap : bool, default=True
        Whether each tree sees a sample of the rows, drawn with replacement; otherwise all rows.

    oob_score : bool or callable, default=False
        Whether to predict each row by the trees that have not seen it. A callable
        ``metric(y_true, y_pred)`` takes the place of the R².

    n_jobs : int or None, default=None
        Number of threads that grow trees and predict. It does not change any result.

    random_state : int, RandomState instance or None, default=None
        Source of the samples, of the choice between tied features, and of the candidates if
        `max_features` leaves some out.

    verbose : int, default=0
        0 is silent, 1 shows the progress over the trees, as joblib does.

    warm_start : bool, default=False
        Whether a further call of `fit` adds trees up to `n_estimators` to those it has grown;
        the imputer of the first call stays.

    ccp_alpha : non-negative float, default=0.0
        Price of a leaf in minimal cost-complexity pruning; it uses the impurity alone.

    max_samples : int, float or None, default=None
        Size of each bootstrap sample: a number of rows, or a share of the rows of positive
        weight. None draws as many as there are.

    monotonic_cst : None, default=None
        Accepted so that the class can take the place of scikit-learn's; only None is supported.

    alpha : non-negative float, default=0.1
        Price of missingness reliance: what it costs, in units of the impurity, if every row of a
        node reads a missing value. 0 gives scikit-learn's forest on the imputed data.

    penalty_scope : {"node", "feature", "row"}, default="node"
        What is free of charge further down in a tree: nothing, a cell that the path has read
        already, or all cells of a row that has read one.

    alpha_scale : {"absolute", "relative"}, default="relative"
        Whether `alpha` is multiplied by the impurity of the root of each tree, the variance of
        y in its sample, so that the choice does not depend on the unit of y.

    stop_on_net_loss : bool, default=False
        Whether a node becomes a leaf if its best split costs at least what it gains.

    imputer : {"mean", "median", "zero", "native"} or transformer, default="mean"
        What rows that miss a value are routed by: a weighted statistic of the observed values of
        the column, a transformer that keeps the columns, or (native) the side that lowers the
        impurity most. It is fitted once, on all training rows. The price is the same for all.

    missing_policy : {"impute", "stop"}, default="impute"
        Prediction of a tree for a row that misses the feature of a node: go on with the imputed
        value, or stop and predict the value of that node.

    Attributes
    ----------
    estimators_ : list of MADecisionTreeRegressor
        The trees, each a fitted estimator on the same input as the forest.

    estimator_ : MADecisionTreeRegressor
        Unfitted template of the trees.

    n_outputs_ : int
        Always 1.

    max_features_ : int
        Number of features that a node looks at.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    feature_importances_ : ndarray of shape (n_features,)
        Share of each feature in the decrease of the impurity, the penalty left out; the mean
        over the trees.

    feature_missing_rate_ : ndarray of shape (n_features,)
        Weighted share of training rows that miss the feature.

    imputer_ : transformer or None
        The fitted imputer, None under "native".

    missingness_reliance_ : float
        Weighted share of training rows for which some tree reads a missing value, in [0, 1].

    estimators_samples_ : list of ndarray of int
        Rows of the sample of each tree, repeated as often as they were drawn.

    oob_score_ : float
        Weighted R² of the out-of-bag predictions, or the value of the callable. Only with
        `oob_score`.

    oob_prediction_ : ndarray of shape (n_samples,)
        Mean prediction by the trees that have not seen the row, NaN if there is none. Only with
        `oob_score`.

    See Also
    --------
    skml.metrics.missingness_reliance : Reliance of any fitted estimator.
    skml.tree.MADecisionTreeRegressor : A single tree.

    Notes
    -----
    Every tree is grown on a bootstrap sample by the rule of
    :class:`~skml.tree.MADecisionTreeRegressor`: at a node with rows :math:`S` it minimises

    .. math:: C(j, \tau) + \alpha\,
        \frac{\sum_{i \in S} w_i s_{ij} m_{ij}}{\sum_{i \in S} w_i},

    where :math:`w_i` counts how often row i was drawn, :math:`m_{ij}` is 1 where its feature j is
    missing, and :math:`s_{ij}` is 1 unless `penalty_scope` makes the cell free. Predictions are
    averaged over the trees :math:`h_t`, and the forest reads what any of them reads:

    .. math:: \hat\rho = \frac{1}{n} \sum_i \max_t \max_j m_{ij}\, a_{h_t}(i, j).

    So its reliance is at least that of its worst tree, and grows with `n_estimators`.

    Rows are drawn with a probability proportional to `sample_weight`, as
    in scikit-learn 1.9, so a weight of 2 is as good as a second copy of the row in the mean, not
    in a single forest. A row of weight 0 is as good as absent.

    References
    ----------
    .. [1] L. Stempfle, A. Matsson, N. Mwai, F. D. Johansson. "Prediction models that learn to
           avoid missing values". ICML 2025, PMLR 267:56899-56919. arXiv:2505.03393.
    .. [2] L. Breiman. "Random forests". Machine Learning 45, 5-32, 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from skml.ensemble import MARandomForestRegressor
    >>> x = np.arange(40.0)
    >>> X = np.column_stack([x, np.where(x % 2 == 0, np.nan, x)])
    >>> forest = MARandomForestRegressor(20, max_depth=3, random_state=0).fit(X, x)
    >>> forest.missingness_reliance_
    0.0
    >>> bool(forest.score(X, x) > 0.95)
    True
    """

    _tree_class = MADecisionTreeRegressor
    _numeric_target = True
    _parameter_constraints: dict = {**FOREST_CONSTRAINTS, "criterion": [str]}

    def __init__(
        self,
        n_estimators=100,
        *,
        criterion="squared_error",
        max_depth=None,
        min_samples_split=2,
        min_samples_leaf=1,
        min_weight_fraction_leaf=0.0,
        max_features=1.0,
        max_leaf_nodes=None,
        min_impurity_decrease=0.0,
        bootstrap=True,
        oob_score=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
        warm_start=False,
        ccp_alpha=0.0,
        max_samples=None,
        monotonic_cst=None,
        alpha=0.1,
        penalty_scope="node",
        alpha_scale="relative",
        stop_on_net_loss=False,
        imputer="mean",
        missing_policy="impute",
    ):
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.bootstrap = bootstrap
        self.oob_score = oob_score
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.ccp_alpha = ccp_alpha
        self.max_samples = max_samples
        self.monotonic_cst = monotonic_cst
        self.alpha = alpha
        self.penalty_scope = penalty_scope
        self.alpha_scale = alpha_scale
        self.stop_on_net_loss = stop_on_net_loss
        self.imputer = imputer
        self.missing_policy = missing_policy

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, *, missing_mask=None):
        """Grow the trees.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows, NaN where a value was not observed. Used as float32 after imputation.
        y : array-like of shape (n_samples,)
            Target values.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0; rows are drawn in proportion to them (without a
            bootstrap they weigh the impurity and the penalty), and they weigh the imputed
            statistic.
        missing_mask : array-like of shape (n_samples, n_features), default=None
            Cells that count as missing although X holds a value (imputed beforehand), marked by
            True or 1. NaN cells count as missing in any case.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        return self._fit(X, y, sample_weight, missing_mask)

    def predict(self, X):
        """Predict the value of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Mean of the predictions of the trees.
        """
        return self._answer(self._average(X))

    def score(self, X, y, sample_weight=None, *, missing_mask=None):
        """Return the R² of the prediction.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.
        y : array-like of shape (n_samples,)
            Target values.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        missing_mask : array-like of shape (n_samples, n_features), default=None
            Cells that count as missing although X holds a value; they matter to the score only
            under ``missing_policy="stop"``.

        Returns
        -------
        score : float
            Coefficient of determination; 1 is perfect, 0 is the mean of y.
        """
        return self._score(y, self._answer(self._average(X, missing_mask)), sample_weight)

    def _score(self, y, answer, sample_weight):
        return r2_score(y, answer, sample_weight=sample_weight)

    def _answer(self, average):
        return average[:, 0]

    def _n_values(self):
        return 1

    def _encode_target(self, y, *, refit):
        return Target(y=np.ascontiguousarray(y, dtype=np.float64)), None

    def _set_oob(self, average, score):
        self.oob_prediction_, self.oob_score_ = average[:, 0], score
