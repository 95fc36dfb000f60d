"""Logistic regression that pays for reading missing values."""

import numpy as np
from scipy.special import expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.metrics import accuracy_score
from sklearn.utils import compute_class_weight
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets

from skml.utils._atomic import restores_on_error
from skml.utils._weights import validated_weight

from ._logistic import LogisticProblem
from ._ma_base import (
    LINEAR_CONSTRAINTS,
    MALinearModel,
    warn_if_not_unique,
    warn_not_converged,
)
from ._ma_training_data import validated_training_rows

__all__ = ["MALogisticRegression"]


class MALogisticRegression(MALinearModel, ClassifierMixin, BaseEstimator):
    r"""Logistic regression that learns to avoid reading missing values.

    An L1-penalised logistic regression in which the price of a coefficient grows with the share
    of rows that miss the feature, so that features with many gaps are left out first.

    Read more in the :ref:`User Guide <missingness_avoiding_linear>`.

    Parameters
    ----------
    alpha : non-negative float, default=0.1
        Price of missingness reliance. 0 gives a logistic regression without penalty.

    beta : float, default=1.0
        Price of a feature that is never missing, counted in rows: it is charged as if this many
        rows more missed every feature. With 0 the features without gaps are not penalised.

    multi_class : {"multinomial", "ovr"}, default="multinomial"
        More than two classes: one softmax over all, or one class against the rest at a time.

    fit_intercept : bool, default=True
        Whether there is an intercept. It is not penalised.

    imputer : {"mean", "median", "zero"} or transformer, default="mean"
        What stands for a missing value: a weighted statistic of the observed values of the
        column, or what a transformer that keeps the columns puts there. A sparse `X` takes
        "mean" and "zero".

    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. They multiply the weights of the rows, hence also count in the
        penalty.

    max_iter : int, default=100
        Largest number of Newton steps.

    tol : float, default=1e-4
        Bound on the duality gap, as a share of the log-loss of the class frequencies.

    warm_start : bool, default=False
        Whether `fit` starts from the coefficients of the last one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.

    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients of the features in their original units; one row for two classes.

    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.

    penalty_weights_ : ndarray of shape (n_features,)
        :math:`\lambda`, the weight of each coefficient in the penalty.

    scale_ : ndarray of shape (n_features,)
        Weighted standard deviation of the observed values; ``coef_ * scale_`` are the
        coefficients that are penalised.

    dual_gap_ : float
        Duality gap of the solution, in the units of the objective; the largest under "ovr".

    n_iter_ : ndarray of shape (1,) or (n_classes,)
        Number of Newton steps of each problem: one, or one per class under "ovr".

    feature_missing_rate_ : ndarray of shape (n_features,)
        Weighted share of training rows that miss the feature.

    imputer_ : transformer
        The fitted imputer.

    missingness_reliance_ : float
        Weighted share of training rows that miss a feature with a coefficient other than zero
        for any class. Class weights take no part in it.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    See Also
    --------
    MALasso : The same for a numeric target.
    skml.preprocessing.NaNOneHotEncoder : Encoder that keeps missing categories missing.
    skml.metrics.missingness_reliance : Reliance of any fitted estimator.

    Notes
    -----
    With weights :math:`w` of sum :math:`W`, imputed and standardised :math:`\tilde x` and
    missing cells :math:`m_{ij}`, the fit minimises

    .. math:: \frac1W \sum_i w_i \Big( \log \sum_k e^{f_k(\tilde x_i)} - f_{y_i}(\tilde x_i) \Big)
        + \alpha \sum_{jk} \lambda_j |\theta_{jk}|, \qquad
        \lambda_j = \frac{1}{W} \Big( \sum_i w_i m_{ij} + \beta \Big),

    with :math:`f_k(x) = b_k + x\theta_k`; two classes have one score, the other being 0. With
    all :math:`\lambda_j = \lambda` it is scikit-learn's L1 penalty with
    :math:`C = 1 / (W \alpha \lambda)` on standardised columns, the intercept left free.

    References
    ----------
    .. [1] L. Stempfle, A. Matsson, N. Mwai, F. D. Johansson. "Prediction models that learn to
           avoid missing values". ICML 2025, PMLR 267:56899-56919. arXiv:2505.03393.

    Examples
    --------
    Two copies of one measurement, of which the second is often missing:

    >>> import numpy as np
    >>> from skml.linear_model import MALogisticRegression
    >>> X = np.array([[0.0, 0.0], [1.0, np.nan], [2.0, 2.0], [3.0, np.nan], [4.0, 4.0]])
    >>> model = MALogisticRegression(alpha=0.1).fit(X, [0, 0, 1, 1, 1])
    >>> bool(model.coef_[0, 0] > 0), float(model.coef_[0, 1])
    (True, 0.0)
    >>> model.missingness_reliance_
    0.0
    """

    _parameter_constraints: dict = {
        **LINEAR_CONSTRAINTS,
        "multi_class": [StrOptions({"multinomial", "ovr"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        alpha=0.1,
        *,
        beta=1.0,
        multi_class="multinomial",
        fit_intercept=True,
        imputer="mean",
        class_weight=None,
        max_iter=100,
        tol=1e-4,
        warm_start=False,
    ):
        self.alpha = alpha
        self.beta = beta
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.imputer = imputer
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start

    @restores_on_error
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None, *, missing_mask=None):
        """Fit the coefficients.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows, NaN where a value was not observed.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0; they weigh the loss, the penalty and the statistics of
            the columns. A class whose rows all have weight 0 is not seen, whether by their own
            weights or by that of the class.
        missing_mask : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Cells that count as missing although X holds a value (imputed beforehand), marked by
            True or 1. NaN cells count as missing in any case.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        X, y = validated_training_rows(self, X, y, numeric_target=False)
        check_classification_targets(y)
        sample_weight = validated_weight(sample_weight, X)
        previous = self._previous_solution() if self.warm_start else None
        codes, weight = self._encode_classes(y, sample_weight)
        data = self._prepare(X, codes, weight, missing_mask, self.beta)
        warn_if_not_unique(data, self.alpha)
        solutions = self._solve(data, previous)
        coef, self.intercept_ = data.original_units(
            np.hstack([s.coef for s in solutions]),
            np.concatenate([s.intercept for s in solutions]),
        )
        self.coef_ = np.ascontiguousarray(coef.T)
        self.dual_gap_ = max(s.gap for s in solutions)
        self.n_iter_ = np.array([s.n_iter for s in solutions], dtype=np.int32)
        self._record_data(data, X, sample_weight, missing_mask)
        return self

    def decision_function(self, X):
        """Return the scores of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, with NaN for what was not observed; it is imputed by the fitted imputer.

        Returns
        -------
        decision : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes the score of the second; it is predicted where that is positive.
        """
        return self._scores(X)

    def predict(self, X):
        """Predict the class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, with NaN for what was not observed; it is imputed by the fitted imputer.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Class labels.
        """
        return self._classes_of(self._scores(X))

    def predict_proba(self, X):
        """Predict the probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, with NaN for what was not observed; it is imputed by the fitted imputer.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Probabilities in the order of ``classes_``. Under "ovr" the probabilities of the
            classes against the rest are divided by their sum.
        """
        scores = self._scores(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        if self.multi_class == "multinomial":
            return softmax(scores, axis=1)
        return softmax(_log_expit(scores), axis=1)

    def predict_log_proba(self, X):
        """Predict the logarithm of the probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, with NaN for what was not observed; it is imputed by the fitted imputer.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Logarithms in the order of ``classes_``.
        """
        scores = self._scores(X)
        if scores.ndim == 1:
            return np.column_stack([_log_expit(-scores), _log_expit(scores)])
        if self.multi_class == "multinomial":
            return log_softmax(scores, axis=1)
        return log_softmax(_log_expit(scores), axis=1)

    def score(self, X, y, sample_weight=None, *, missing_mask=None):
        """Return the accuracy of the prediction.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        missing_mask : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Cells that count as missing although X holds a value; they are checked, without effect
            on the score, which goes by the values in X.

        Returns
        -------
        score : float
            Weighted share of rows whose class is right.
        """
        predicted = self._classes_of(self._scores(X, missing_mask))
        return accuracy_score(y, predicted, sample_weight=sample_weight)

    def _scores(self, X, missing_mask=None):
        scores = self._linear_values(X, missing_mask)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _classes_of(self, scores):
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    def _encode_classes(self, y, sample_weight):
        """Set `classes_`; return class numbers and weights times class weights."""
        seen = y if sample_weight is None else y[sample_weight > 0]
        self.classes_ = np.unique(seen)
        if len(self.classes_) < 2:
            raise ValueError(
                "MALogisticRegression needs rows of at least 2 classes with a positive weight, "
                f"got the one class {self.classes_[0]!r}"
            )
        codes = np.searchsorted(self.classes_, y)
        # Rows of weight 0 may be of other classes; they are dropped.
        codes[codes == len(self.classes_)] = 0
        if self.class_weight is None:
            return codes, sample_weight
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        if self.class_weight == "balanced":
            counts = np.bincount(codes, weights=weight, minlength=len(self.classes_))
            of_class = weight.sum() / (len(self.classes_) * counts)
        else:
            of_class = compute_class_weight(self.class_weight, classes=self.classes_, y=seen)
        if np.min(of_class) < 0 or not np.all(np.isfinite(of_class)):
            raise ValueError(f"class_weight must hold finite weights >= 0, got {of_class}")
        weight = weight * of_class[codes]
        kept = np.bincount(codes, weights=weight, minlength=len(self.classes_)) > 0
        if np.count_nonzero(kept) < 2:
            raise ValueError(
                "class_weight must leave at least 2 classes with a positive weight, "
                f"got {self.class_weight!r}"
            )
        # A class without weight has no log-odds; its rows are dropped, so no code is left over.
        self.classes_ = self.classes_[kept]
        return np.cumsum(kept)[codes] - 1, weight

    def _solve(self, data, previous):
        n_classes = len(self.classes_)
        threshold = self.alpha * data.penalty_weights
        Y = np.zeros((len(data.y), n_classes))
        Y[np.arange(len(data.y)), data.y] = 1.0
        if n_classes == 2:
            targets = [Y[:, 1:]]
        elif self.multi_class == "multinomial":
            targets = [Y]
        else:
            targets = [Y[:, [k]] for k in range(n_classes)]
        starts = self._starts(previous, data, targets)
        solutions = []
        for target, start in zip(targets, starts, strict=True):
            problem = LogisticProblem(data.design, target, threshold, self.fit_intercept)
            bound = self.tol * problem.null_loss
            solution = problem.solve(bound, self.max_iter, start)
            if solution.gap > bound:
                warn_not_converged(solution.gap, bound, "Increase max_iter, alpha, beta or tol.")
            solutions.append(solution)
        return solutions

    def _previous_solution(self):
        if not hasattr(self, "coef_"):
            return None
        return self.classes_, self.coef_, self.intercept_

    def _starts(self, previous, data, targets):
        """Standardised coefficients and intercepts to start each problem at, or None."""
        shape = (sum(Y.shape[1] for Y in targets), data.design.n_features)
        if previous is None or previous[1].shape != shape:
            return [None] * len(targets)
        classes, coef, intercept = previous
        if not np.array_equal(classes, self.classes_):
            return [None] * len(targets)
        intercept = intercept + coef @ data.centre
        coef = (coef * data.scale).T
        if len(targets) == 1:
            return [(coef, intercept)]
        return [(coef[:, [k]], intercept[[k]]) for k in range(len(targets))]


def _log_expit(scores):
    return -np.logaddexp(0.0, -scores)
