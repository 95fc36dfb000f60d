"""Linear classification by shuffling-type stochastic gradient steps."""

from numbers import Integral

import numpy as np
from scipy.special import expit
from sklearn.base import _fit_context
from sklearn.linear_model._base import LinearClassifierMixin, SparseCoefMixin
from sklearn.utils import compute_class_weight
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, unique_labels

from skml.utils._atomic import restores_on_error
from skml.utils._weights import validated_weight

from ._shuffling_base import SHARED_CONSTRAINTS, BaseShufflingSGD, Target
from ._shuffling_losses import CLASSIFICATION_LOSSES

__all__ = ["ShufflingSGDClassifier"]

_PROBABILISTIC = ("log_loss", "modified_huber")


def _has_probabilities(estimator):
    if estimator.loss in _PROBABILISTIC:
        return True
    raise AttributeError(
        f"probabilities need loss to be one of {_PROBABILISTIC}, got loss={estimator.loss!r}"
    )


class ShufflingSGDClassifier(LinearClassifierMixin, SparseCoefMixin, BaseShufflingSGD):
    r"""Linear classification by stochastic gradient steps over shuffled rows.

    Like scikit-learn's ``SGDClassifier``, with the exponential loss, whose gradient is not
    Lipschitz continuous, true reshuffling, and steps that need no tuning. Several classes are
    fitted one against the rest.

    Read more in the :ref:`User Guide <shuffling_gradient>`.

    Parameters
    ----------
    loss : {"log_loss", "squared_hinge", "modified_huber", "exponential"}, default="log_loss"
        Logistic regression; a squared margin; scikit-learn's smooth loss that tolerates outliers;
        or the loss of boosting.

    alpha : float, default=1e-4
        Price of half the squared norm of the coefficients; the intercept is free.

    fit_intercept : bool, default=True
        Whether there is an intercept.

    order : str, array-like or callable, default="reshuffle"
        Order of the rows in an epoch, each row once: "reshuffle" draws it anew each epoch,
        "shuffle_once" draws it once, "incremental" takes the rows as given. An array of shape
        (n,) is used in every epoch, one of shape (n_epochs, n) has a row for each, and a callable
        is called as ``order(epoch, rng, n)`` with epochs counted from 1. Rows of weight 0, and
        held-out rows, are not among the n.

    batch_size : int, default=1
        Rows in a step. With m = ceil(n / batch_size) steps an epoch, a step moves against m / n
        times the sum of its gradients, so that a shorter last batch has its right share.

    learning_rate : {"auto", "theory", "cbrt", "log", "constant", "invscaling"}, default="auto"
        How the step :math:`\gamma_t` of a row in epoch t is chosen; see Notes.

    eta0 : float or None, default=None
        Step of a row, for "constant" and "invscaling"; step of a whole epoch, for "cbrt"; ceiling
        of the step, for "log"; first step in place of the trials, for "auto".

    power_t : float, default=0.5
        Exponent of "invscaling".

    offset : float, default=0.0
        Added to the number of the epoch in "cbrt".

    mu : float or None, default=None
        Strong convexity for "log"; None stands for `alpha`.

    horizon : int or None, default=None
        Number of epochs that "theory" and "log" are made for; None stands for `max_iter`. They
        need it in `partial_fit`, where it is the number of calls.

    max_iter : int, default=100
        Largest number of epochs.

    tol : float or None, default=None
        Stop when the objective of the epoch iterates (with `early_stopping`, the mean loss of
        held-out rows) has not improved by `tol` for `n_iter_no_change` epochs. None runs all
        epochs, or, with `early_stopping`, counts any improvement.

    n_iter_no_change : int, default=5
        Stop after so many epochs without improvement by `tol`.

    early_stopping : bool, default=False
        Whether to hold rows out, watch their mean loss, and return the epoch iterate with the
        lowest.

    validation_fraction : float, default=0.1
        Share of the rows held out, with `early_stopping`.

    average : bool, default=False
        Whether the coefficients are the mean of the epoch iterates (not of the steps).

    variance : tuple of (float, float) or None, default=None
        A and sigma for "theory": the mean of ||grad f_i - grad F||^2 is at most
        A ||grad F||^2 + sigma^2. None measures sigma at the start, with A = 0.

    delta : float, default=0.1
        Probability with which the guarantee of "theory" under "reshuffle" may fail.

    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. With several classes, the weight of a class multiplies its own
        rows in the predictor of this class against the rest.

    n_jobs : int or None, default=None
        Number of threads that train the predictors of classes. It does not change any result.

    warm_start : bool, default=False
        Whether `fit` starts from the coefficients of the last one. "constant", "invscaling" and
        "cbrt" go on counting epochs; "auto", "log" and "theory" begin again. Two fits are one
        long one only if `random_state` is a RandomState, which goes on too.

    random_state : int, RandomState instance or None, default=None
        Source of the permutations.

    verbose : int, default=0
        0 is silent, 1 prints a line for each epoch.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients, of the dtype of X.

    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.

    classes_ : ndarray of shape (n_classes,)
        Class labels.

    t_ : int
        Epochs behind the coefficients, over all calls of `partial_fit`.

    n_iter_ : int
        Number of epochs of the last fit, the largest of any class; 1 after `partial_fit`.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    objective_curve_ : list of float
        Objective after each epoch, in the unit of the loss; one list for each class if there are
        several.

    step_sizes_ : list of float
        Step of a row in each epoch; one list for each class if there are several.

    validation_curve_ : list of float
        Mean loss of the held-out rows after each epoch, with `early_stopping`.

    n_rejected_ : int
        Epochs that "auto" has undone.

    gradient_bound_, individual_gradient_bound_, smoothness_ : float or ndarray
        With "theory": G, bound of ||grad F|| on the sublevel set; G', bound of every
        ||grad f_i|| there; L, local Lipschitz constant of the gradients.

    variance_ : tuple of float or ndarray of shape (n_classes, 2)
        With "theory": A and sigma in force at the end.

    n_certificate_updates_ : int
        With "theory": how often an epoch started where the gradients broke the constants in force,
        so that sigma or G was raised and the step lowered.

    See Also
    --------
    ShufflingSGDRegressor : The same for numbers.
    shuffling_gradient : The method for any sum of functions.
    sklearn.linear_model.SGDClassifier : Steps with other losses and penalties.
    sklearn.linear_model.LogisticRegression : Second-order solvers, for data that fits in memory.

    Notes
    -----
    The objective is :math:`F(w, b) = \sum_i s_i f(x_i^\top w + b, y_i) / \sum_i s_i
    + \frac{\alpha}{2} \|w\|^2`. Epoch t takes a permutation :math:`\pi` of the n rows and goes

    .. math:: w \leftarrow w - \gamma_t \nabla f_{\pi(i)}(w), \qquad i = 1, \dots, n,

    each gradient at the current iterate. With :math:`\eta_t = m \gamma_t` and m steps an epoch:

    - "auto": :math:`\gamma_t = \gamma (1 - (t - 1) / T)`, T = `max_iter`, where
      :math:`\gamma` is found by trial epochs from the start. An epoch that ends above the
      objective of the start is undone and halves :math:`\gamma`. In `partial_fit`,
      :math:`\gamma_t = \gamma / \sqrt{t}`, and a chunk that does not lower its own objective is
      undone.
    - "theory": the constant step for which the descent of every epoch is proved, from ell with
      :math:`\|\nabla^2 f_i\| \le \ell(\|\nabla f_i\|)`, :math:`\Delta \ge F(w_0) - F^*`,
      :math:`H = 4 \Delta / \delta` ("reshuffle") or :math:`2 \Delta`,
      :math:`G = \sup\{u : u^2 \le 2 \ell(2u) H\}`,
      :math:`G' = \sqrt{2 (1 + n A)} G + \sqrt{2n} \sigma` and :math:`L = \ell(2G')`. It is a
      certificate; it is far smaller than the steps that work.
    - "cbrt": :math:`\eta_t = \eta_0 m^{1/3} t^{-1/3}` ("reshuffle") or
      :math:`\eta_0 t^{-1/3}`.
    - "log": :math:`\eta_t = \min\{m \gamma, 6 \log(T) / (\mu T)\}`, for a strongly convex
      objective.
    - "constant": `eta0`; "invscaling": `eta0` :math:`/ t^{p}` with p = `power_t`.

    A fixed step that makes the objective overflow ends the training with a ConvergenceWarning, and
    the coefficients of the last finite epoch stay.

    References
    ----------
    .. [1] Q. He, P. Yu, Z. Chen, H. Huang. "Revisiting Convergence: Shuffling Complexity Beyond
           Lipschitz Smoothness". ICML 2025, PMLR 267:22816-22835. arXiv:2507.08913.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skml.linear_model import ShufflingSGDClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> model = ShufflingSGDClassifier(alpha=1e-3, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.98
    True
    """

    _parameter_constraints: dict = {
        **SHARED_CONSTRAINTS,
        "loss": [StrOptions(set(CLASSIFICATION_LOSSES))],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        loss="log_loss",
        *,
        alpha=1e-4,
        fit_intercept=True,
        order="reshuffle",
        batch_size=1,
        learning_rate="auto",
        eta0=None,
        power_t=0.5,
        offset=0.0,
        mu=None,
        horizon=None,
        max_iter=100,
        tol=None,
        n_iter_no_change=5,
        early_stopping=False,
        validation_fraction=0.1,
        average=False,
        variance=None,
        delta=0.1,
        class_weight=None,
        n_jobs=None,
        warm_start=False,
        random_state=None,
        verbose=0,
    ):
        self.loss = loss
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.order = order
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.offset = offset
        self.mu = mu
        self.horizon = horizon
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.average = average
        self.variance = variance
        self.delta = delta
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    @restores_on_error
    def fit(self, X, y, coef_init=None, intercept_init=None, sample_weight=None):
        """Fit the coefficients.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows. Arrays in C order and CSR matrices, float64 or float32, are used as they
            are.
        y : array-like of shape (n_samples,)
            Class labels.
        coef_init : array-like of the shape of `coef_`, default=None
            Coefficients to start from; None: zeros, or those before with `warm_start`.
        intercept_init : array-like of the shape of `intercept_`, default=None
            Intercepts to start from.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0; they are multiplied by those of the classes and
            rescaled to mean 1. Rows of weight 0 take no part.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        X, y = self._validate(X, y, numeric=False)
        check_classification_targets(y)
        weight = validated_weight(sample_weight, X)
        self.classes_ = np.unique(y)
        targets = self._targets(y, weight)
        return self._fit_targets(X, targets, coef_init, intercept_init)

    @_fit_context(prefer_skip_nested_validation=True)
    @restores_on_error
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Go through a chunk of rows once.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of the chunk.
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like of shape (n_classes,), default=None
            All labels that may occur; needed in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0; they are rescaled to mean 1 within the chunk.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' is not known in partial_fit, where the classes of later "
                "chunks are not: give a dict"
            )
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        X, y = self._validate(X, y, numeric=False, reset=first)
        check_classification_targets(y)
        weight = validated_weight(sample_weight, X)
        if first:
            self.classes_ = unique_labels(classes)
        elif classes is not None and not np.array_equal(self.classes_, unique_labels(classes)):
            raise ValueError(
                f"classes={classes!r} is not what the first call of partial_fit got: "
                f"{self.classes_!r}"
            )
        if len(unknown := np.setdiff1d(y, self.classes_)):
            raise ValueError(f"y has labels that are not in classes: {unknown.tolist()}")
        return self._fit_chunk(X, self._targets(y, weight))

    def _targets(self, y, weight):
        """One target for two classes, one for each class against the rest for more."""
        classes = self.classes_
        if len(classes) < 2:
            raise ValueError(
                f"The number of classes has to be greater than one, got {len(classes)} class"
            )
        of_class = np.ones(len(classes))
        if self.class_weight is not None:
            of_class = compute_class_weight(self.class_weight, classes=classes, y=y)
        targets = []
        for k in [1] if len(classes) == 2 else range(len(classes)):
            positive = y == classes[k]
            total = weight
            if self.class_weight is not None:
                of_rest = of_class[0] if len(classes) == 2 else 1.0
                factor = np.where(positive, of_class[k], of_rest)
                total = factor if weight is None else weight * factor
            targets.append(Target(np.where(positive, 1.0, -1.0), total))
        return targets

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Predict the probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            From the logistic function for "log_loss", from the clipped predictor for
            "modified_huber"; with several classes, rescaled to sum to 1.
        """
        positive = self.decision_function(X)
        if self.loss == "log_loss":
            positive = expit(positive)
        else:
            positive = (np.clip(positive, -1, 1) + 1) / 2
        if positive.ndim == 1:
            return np.column_stack([1 - positive, positive])
        total = positive.sum(axis=1, keepdims=True)
        # Where every class is ruled out, none is preferred.
        undecided = total[:, 0] == 0
        positive[undecided], total[undecided] = 1, positive.shape[1]
        return positive / total

    @available_if(_has_probabilities)
    def predict_log_proba(self, X):
        """Predict the logarithm of the probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Logarithm of `predict_proba`.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
