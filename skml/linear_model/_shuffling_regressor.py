"""Linear regression by shuffling-type stochastic gradient steps."""

from numbers import Real

import numpy as np
from sklearn.base import RegressorMixin, _fit_context
from sklearn.metrics import d2_tweedie_score, r2_score
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from skml.utils._atomic import restores_on_error
from skml.utils._weights import validated_weight

from ._shuffling_base import SHARED_CONSTRAINTS, BaseShufflingSGD, Target
from ._shuffling_losses import REGRESSION_LOSSES

__all__ = ["ShufflingSGDRegressor"]

_TWEEDIE_POWER = {"poisson": 1, "gamma": 2}


class ShufflingSGDRegressor(RegressorMixin, BaseShufflingSGD):
    r"""Linear regression by stochastic gradient steps over shuffled rows.

    Like scikit-learn's ``SGDRegressor``, with losses whose gradient is not Lipschitz continuous
    (Poisson, gamma, powers), true reshuffling, and steps that need no tuning.

    Read more in the :ref:`User Guide <shuffling_gradient>`.

    Parameters
    ----------
    loss : {"squared_error", "huber", "poisson", "gamma", "power"}, default="squared_error"
        Half the squared error; Huber's loss; half the deviance of a Poisson or gamma distribution
        with a log link, up to a constant; or \|z - y\|^q / q.

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

    huber_epsilon : float, default=0.1
        Where "huber" turns from squared to linear.

    power : float, default=4.0
        Exponent q > 2 of "power".

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
    coef_ : ndarray of shape (n_features,)
        Coefficients, of the dtype of X.

    intercept_ : ndarray of shape (1,)
        Intercept.

    t_ : int
        Epochs behind the coefficients, over all calls of `partial_fit`.

    n_iter_ : int
        Number of epochs of the last fit; 1 after `partial_fit`.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    objective_curve_ : list of float
        Objective after each epoch, in the unit of the loss.

    step_sizes_ : list of float
        Step of a row in each epoch.

    validation_curve_ : list of float
        Mean loss of the held-out rows after each epoch, with `early_stopping`.

    n_rejected_ : int
        Epochs that "auto" has undone.

    gradient_bound_, individual_gradient_bound_, smoothness_ : float
        With "theory": G, bound of ||grad F|| on the sublevel set; G', bound of every
        ||grad f_i|| there; L, local Lipschitz constant of the gradients.

    variance_ : tuple of float
        With "theory": A and sigma in force at the end.

    n_certificate_updates_ : int
        With "theory": how often an epoch started where the gradients broke the constants in force,
        so that sigma or G was raised and the step lowered.

    See Also
    --------
    ShufflingSGDClassifier : The same for classes.
    shuffling_gradient : The method for any sum of functions.
    sklearn.linear_model.SGDRegressor : Steps without these losses.
    sklearn.linear_model.PoissonRegressor : Second-order solver, for data that fits in memory.

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
    >>> import numpy as np
    >>> from skml.linear_model import ShufflingSGDRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = rng.poisson(np.exp(X @ [0.5, -0.3] + 1))
    >>> model = ShufflingSGDRegressor(loss="poisson", random_state=0).fit(X, y)
    >>> model.coef_.round(1)
    array([ 0.5, -0.3])
    """

    _parameter_constraints: dict = {
        **SHARED_CONSTRAINTS,
        "loss": [StrOptions(set(REGRESSION_LOSSES))],
        "huber_epsilon": [Interval(Real, 0, None, closed="neither")],
        "power": [Interval(Real, 2, None, closed="neither")],
    }

    def __init__(
        self,
        loss="squared_error",
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
        huber_epsilon=0.1,
        power=4.0,
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
        self.huber_epsilon = huber_epsilon
        self.power = power
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
            Target values: non-negative for "poisson", positive for "gamma".
        coef_init : array-like of shape (n_features,), default=None
            Coefficients to start from; None: zeros, or those before with `warm_start`.
        intercept_init : array-like of shape (1,), default=None
            Intercept to start from.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0; they are rescaled to mean 1. Rows of weight 0 take no
            part.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        X, target = self._validate_target(X, y, sample_weight)
        return self._fit_targets(X, [target], coef_init, intercept_init)

    @_fit_context(prefer_skip_nested_validation=True)
    @restores_on_error
    def partial_fit(self, X, y, sample_weight=None):
        """Go through a chunk of rows once.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of the chunk.
        y : array-like of shape (n_samples,)
            Target values.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0; they are rescaled to mean 1 within the chunk.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        X, target = self._validate_target(X, y, sample_weight, reset=not hasattr(self, "coef_"))
        return self._fit_chunk(X, [target])

    def _validate_target(self, X, y, sample_weight, reset=True):
        X, y = self._validate(X, y, reset=reset, numeric=True)
        y = np.asarray(y, dtype=np.float64)
        self._loss().check_target(y)
        return X, Target(y, validated_weight(sample_weight, X))

    def _store(self, X, streams):
        super()._store(X, streams)
        self.coef_ = self.coef_[0]

    def predict(self, X):
        """Predict the value of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            The linear predictor, or its exponential for "poisson" and "gamma".
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        predictor = X @ self.coef_ + self.intercept_
        return np.exp(predictor) if self._loss().has_log_link else predictor

    def score(self, X, y, sample_weight=None):
        """Return the R² of the prediction, or the D² for "poisson" and "gamma".

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Target values.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            Share of the squared error, or of the deviance, of the best constant that is explained;
            1 is perfect.
        """
        predicted = self.predict(X)
        power = _TWEEDIE_POWER.get(self.loss)
        if power is None:
            return r2_score(y, predicted, sample_weight=sample_weight)
        return d2_tweedie_score(y, predicted, sample_weight=sample_weight, power=power)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self._loss().has_log_link
        return tags
