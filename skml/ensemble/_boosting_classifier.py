"""Gradient boosting classifier that learns to avoid missing values."""

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.metrics import accuracy_score
from sklearn.utils._param_validation import HasMethods, StrOptions

from skml.tree._targets import encoded_classes

from ._boosting_base import BOOSTING_CONSTRAINTS, BaseMAGradientBoosting
from ._boosting_losses import BinaryLogLoss, MultinomialLogLoss

__all__ = ["MAGradientBoostingClassifier"]


class MAGradientBoostingClassifier(ClassifierMixin, BaseMAGradientBoosting):
    r"""Gradient boosting classifier that learns to avoid reading missing values.

    It grows stages of trees on the gradient of the log-loss, like scikit-learn's
    ``GradientBoostingClassifier`` on imputed data, but a test that would read missing values pays
    for those that no earlier tree has read.

    Read more in the :ref:`User Guide <missingness_avoiding_boosting>`.

    Parameters
    ----------
    loss : {"log_loss"}, default="log_loss"
        Binary log-loss, or multinomial with one tree per class and stage.

    learning_rate : float, default=0.1
        Learning rate: the factor of every tree's contribution.

    n_estimators : int, default=100
        Number of stages.

    subsample : float, default=1.0
        Share of the rows, in (0, 1], that each stage fits on, drawn without replacement. What a
        tree reads becomes free of charge on all rows, as every row passes every tree when it is
        predicted.

    max_depth : int or None, default=3
        Greatest depth of a tree. None sets no limit.

    min_samples_split : int or float, default=2
        Least number of rows of a node that is split; a float is a share of the rows.

    min_samples_leaf : int or float, default=1
        Least number of rows in each child; a float is a share of the rows.

    min_weight_fraction_leaf : float, default=0.0
        Least share of the total weight in each child.

    max_features : int, float, {"sqrt", "log2"} or None, default=1.0
        Features that a node looks at. With few of them the trees are forced onto features that
        are missing, so all are looked at by default.

    max_leaf_nodes : int or None, default=None
        Grow best first, by penalised gain, up to this number of leaves.

    min_impurity_decrease : float, default=0.0
        A split must decrease the impurity, weighted by the node's share of the total weight and
        without the penalty, by this much.

    ccp_alpha : non-negative float, default=0.0
        Price of a leaf in minimal cost-complexity pruning; it uses the impurity alone.

    alpha : non-negative float, default=0.1
        Price of missingness reliance: what it costs, in units of the variance of the gradient, if
        every row of a node reads a missing value. 0 gives gradient boosting on the imputed data.

    penalty_scope : {"node", "feature", "row"}, default="feature"
        What is free of charge for later trees: nothing, a cell that an earlier tree has read, or
        all cells of a row of which one has been read (this matches the maximum in the reliance).

    alpha_scale : {"absolute", "relative"}, default="absolute"
        Whether `alpha` is multiplied by the variance of the first stage's negative gradient
        (the mean over the classes), which then stays fixed.

    stop_on_net_loss : bool, default=False
        Whether a node becomes a leaf if its best split costs at least what it gains.

    imputer : {"mean", "median", "zero", "native"} or transformer, default="mean"
        What rows that miss a value are routed by: a weighted statistic of the observed values of
        the column, a transformer that keeps the columns, or (native) the side that lowers the
        impurity most. The price is the same for all.

    missing_policy : {"impute"}, default="impute"
        Accepted as the trees have it; "stop" is refused.

    max_bins : int or None, default=None
        None searches all thresholds on presorted columns. A number from 2 to 255 bins each column
        into so many parts of about equal weight, with edges between observed values, and grows on
        histograms with OpenMP, which is much faster from about 10 000 rows on.

    init : estimator, "zero" or None, default=None
        Start: a constant that minimises the loss, 0, or an estimator, which is fitted on the
        imputed rows. What the estimator reads counts towards the reliance.

    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; they multiply `sample_weight`, hence the penalty too.

    n_iter_no_change : int or None, default=None
        Stop after so many stages without improvement by `tol` of the loss of the held-out rows;
        None: never.

    validation_fraction : float, default=0.1
        Share of the rows held out, if `n_iter_no_change` is given.

    tol : float, default=1e-4
        Least improvement of the loss that counts, with `n_iter_no_change`.

    warm_start : bool, default=False
        Whether `fit` keeps the stages there are and adds to them up to `n_estimators`. What the
        kept trees read is free of charge for the new ones, as if all had been fitted at once.

    random_state : int, RandomState instance or None, default=None
        Source of the subsamples, the held-out rows, the candidates and the choice between tied
        features.

    verbose : int, default=0
        0 is silent, 1 shows the progress over the stages.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.

    n_classes_ : int
        Number of classes.

    estimators_ : ndarray of shape (n_stages, n_trees_per_stage), dtype object
        The trees, each a `DecisionTreeRegressor` on imputed float32 rows. Leaves hold the value
        that is added, times `learning_rate`, to the raw prediction.

    n_estimators_ : int
        Number of stages; less than `n_estimators` if early stopping took effect.

    init_ : estimator or None
        The fitted initial estimator; None if the start is a constant.

    baseline_ : ndarray of shape (n_trees_per_stage,)
        Raw prediction before the first tree, if the start is a constant.

    train_score_ : ndarray of shape (n_stages,)
        Loss after each stage on the rows that it was fitted on.

    validation_score_ : ndarray of shape (n_stages,)
        Loss after each stage on the held-out rows; empty without `n_iter_no_change`.

    oob_scores_ : ndarray of shape (n_stages,)
        Loss after each stage on the rows outside its subsample; empty if ``subsample=1``.

    oob_improvement_ : ndarray of shape (n_stages,)
        By how much each stage lowers the loss of those rows; empty if ``subsample=1``.

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
        Weighted share of training rows for which any tree reads a missing value, in [0, 1].

    See Also
    --------
    MAGradientBoostingRegressor : The same for values.
    skml.tree.MADecisionTreeClassifier : A single tree.
    skml.metrics.missingness_reliance : Reliance of any fitted estimator.

    Notes
    -----
    Stage :math:`t` fits a regression tree to the negative gradient :math:`g` of the loss at the
    raw predictions :math:`F`. A node with rows :math:`S` is split on the feature :math:`j` and the
    threshold :math:`\tau` that minimise

    .. math:: C(j, \tau) + \alpha\,
        \frac{\sum_{i \in S} w_i \sigma_{ij} m_{ij}}{\sum_{i \in S} w_i},

    :math:`C` being the weighted mean variance of :math:`g` in the two children, :math:`w` the
    weights and :math:`m_{ij} = 1` where a cell is missing. A leaf then gets one Newton
    step, :math:`\sum w g / \sum w p (1 - p)`, for :math:`K > 2` classes times
    :math:`(K - 1) / K`.

    At first :math:`\sigma_{ij} = 1`. After every tree, :math:`\sigma_{ij}` becomes 0 for the
    missing cells that the path of row :math:`i` has read: relying on a value twice costs no more
    than once. Without this step (``penalty_scope="node"``) the ensemble relies on fewer values
    than it pays for.

    References
    ----------
    .. [1] L. Stempfle, A. Matsson, N. Mwai, F. D. Johansson. "Prediction models that learn to
           avoid missing values". ICML 2025, PMLR 267:56899-56919. arXiv:2505.03393.
    .. [2] J. H. Friedman. "Greedy function approximation: a gradient boosting machine". Annals
           of Statistics 29 (2001), 1189-1232.

    Examples
    --------
    >>> from skml.datasets import make_contextual_missingness
    >>> from skml.ensemble import MAGradientBoostingClassifier
    >>> from skml.metrics import missingness_reliance
    >>> X, y = make_contextual_missingness(1000, random_state=0)
    >>> for alpha in (0, 1):
    ...     model = MAGradientBoostingClassifier(n_estimators=20, alpha=alpha, random_state=0)
    ...     print(alpha, missingness_reliance(model.fit(X, y), X) > 0.01)
    0 True
    1 False
    """

    _numeric_target = False
    _parameter_constraints: dict = {
        **BOOSTING_CONSTRAINTS,
        "loss": [StrOptions({"log_loss"})],
        "init": [StrOptions({"zero"}), None, HasMethods(["fit", "predict_proba"])],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        *,
        loss="log_loss",
        learning_rate=0.1,
        n_estimators=100,
        subsample=1.0,
        max_depth=3,
        min_samples_split=2,
        min_samples_leaf=1,
        min_weight_fraction_leaf=0.0,
        max_features=1.0,
        max_leaf_nodes=None,
        min_impurity_decrease=0.0,
        ccp_alpha=0.0,
        alpha=0.1,
        penalty_scope="feature",
        alpha_scale="absolute",
        stop_on_net_loss=False,
        imputer="mean",
        missing_policy="impute",
        max_bins=None,
        init=None,
        class_weight=None,
        n_iter_no_change=None,
        validation_fraction=0.1,
        tol=1e-4,
        warm_start=False,
        random_state=None,
        verbose=0,
    ):
        self.loss = loss
        self.learning_rate = learning_rate
        self.n_estimators = n_estimators
        self.subsample = subsample
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
        self.max_bins = max_bins
        self.init = init
        self.class_weight = class_weight
        self.n_iter_no_change = n_iter_no_change
        self.validation_fraction = validation_fraction
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, *, missing_mask=None):
        """Fit the stages.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows, NaN where a value was not observed. Used as float32 after imputation.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0; they weigh the loss, the penalty and the imputed
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

    def decision_function(self, X):
        """Compute the raw predictions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.

        Returns
        -------
        decision : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Log-odds of the second class, or centred logarithms for several classes.
        """
        X, _ = self._imputed_and_mask(X)
        return self._make_loss().decision(self._raw(X))

    def staged_decision_function(self, X):
        """Compute the raw predictions after each stage.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.

        Yields
        ------
        raw : ndarray of shape (n_samples,) or (n_samples, n_classes)
            As from `decision_function`.
        """
        loss = self._make_loss()
        for raw in self._staged_raw(X):
            yield loss.decision(raw.copy())

    def predict_proba(self, X):
        """Predict the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`.
        """
        X, _ = self._imputed_and_mask(X)
        return self._make_loss().probabilities(self._raw(X))

    def staged_predict_proba(self, X):
        """Predict the probability of each class after each stage.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.

        Yields
        ------
        p : ndarray of shape (n_samples, n_classes)
            As from `predict_proba`.
        """
        loss = self._make_loss()
        for raw in self._staged_raw(X):
            yield loss.probabilities(raw)

    def predict_log_proba(self, X):
        """Predict the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Logarithms in the order of `classes_`.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X):
        """Predict the class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            The most probable class.
        """
        X, _ = self._imputed_and_mask(X)
        return self._classes_of(self._raw(X))

    def staged_predict(self, X):
        """Predict the class of each row after each stage.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.

        Yields
        ------
        y : ndarray of shape (n_samples,)
            As from `predict`.
        """
        for raw in self._staged_raw(X):
            yield self._classes_of(raw)

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
            Cells that count as missing although X holds a value; they are checked, without effect
            on the score, which goes by the values in X.

        Returns
        -------
        score : float
            Weighted share of rows whose class is right.
        """
        X, _ = self._imputed_and_mask(X, missing_mask)
        return accuracy_score(y, self._classes_of(self._raw(X)), sample_weight=sample_weight)

    def _classes_of(self, raw):
        return self.classes_.take(self._make_loss().most_probable(raw))

    def _encode_target(self, y, going_on):
        earlier = self.classes_ if going_on else None
        self.classes_, codes, class_weight = encoded_classes(y, self.class_weight, earlier)
        self.n_classes_ = len(self.classes_)
        return self._make_loss().target(codes), class_weight

    def _check_target(self, y):
        seen = len(np.unique(y))
        if seen < 2:
            raise ValueError(
                f"y contains {seen} class among the rows of positive weight: a classifier needs "
                "at least 2 classes"
            )

    def _strata(self, y):
        return y

    def _check_split(self, y, train):
        # Not n_classes_: a class may have no row of positive weight at all.
        seen, present = len(np.unique(y[train])), len(np.unique(y))
        if seen < present:
            raise ValueError(
                f"the training part of the early-stopping split has {seen} of "
                f"{present} classes: raise the number of rows of the rare classes, or set "
                "n_iter_no_change=None"
            )

    def _make_loss(self):
        return BinaryLogLoss() if self.n_classes_ <= 2 else MultinomialLogLoss(self.n_classes_)

    def _predict_init(self, X):
        p = self.init_.predict_proba(X)
        if p.shape[1] == self.n_classes_:
            return p
        # It has not seen the classes without a row of positive weight.
        of_all = np.zeros((len(p), self.n_classes_))
        of_all[:, self.init_.classes_.astype(np.intp)] = p
        return of_all
