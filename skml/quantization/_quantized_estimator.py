"""A fitted estimator with packed weights in place of its own."""

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, _fit_context, clone
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from skml.utils import restores_on_error

from ._base import FLOATS
from ._ganq_quantizer import GANQQuantizer
from ._linear_maps import multiply, next_inputs, take_out_linear_maps


def _delegates(method):
    """Whether the wrapped estimator has the method, fitted if that matters."""

    def check(self):
        # The AttributeError of the inner estimator says why it lacks the method.
        getattr(getattr(self, "estimator_", self.estimator), method)
        return True

    return available_if(check)


class QuantizedEstimator(MetaEstimatorMixin, BaseEstimator):
    """Fit an estimator, then quantise its weights with the training inputs as calibration.

    Predictions multiply with the packed weights.

    Parameters
    ----------
    estimator : estimator object
        A linear model of scikit-learn (anything with `coef_` whose output depends on X through
        ``X @ coef_.T`` alone), an `MLPClassifier` or `MLPRegressor`, or a skorch net.
    quantizer : weight quantizer or None, default=None
        How weights are quantised; it is cloned for every layer. None means
        ``GANQQuantizer()``. A grid over ``quantizer__bits`` needs the quantizer itself.
    prefit : bool, default=False
        Whether `estimator` is fitted already. `fit` then only calibrates, and ignores y.

    Attributes
    ----------
    estimator_ : estimator object
        The fitted estimator without its weights: its linear maps are identities, which take
        what the packed weights give. For a skorch net, the net whose module holds packed
        layers.
    weights_ : list of LUTWeight or UniformWeight
        Packed weights of each linear map, in order.
    layer_errors_ : list of float
        Relative layer error of each map on its calibration inputs.
    compression_ratio_ : float
        Bytes of the maps in float32 over bytes of the packed weights in memory. Small layers
        gain nothing: a row takes at least 64 bytes, and its table 4 bytes per entry.
    classes_ : ndarray of shape (n_classes,)
        Class labels, for a classifier.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    See Also
    --------
    quantize_module : The same for torch modules.
    GANQQuantizer : The default quantizer.

    Notes
    -----
    The maps of a network are quantised one after the other: the inputs X of layer l that enter
    its Gram matrix :math:`H_l = X_l^T X_l` have gone through the quantised layers before it, and
    are those that it will see.

    The kernels compute in float32, so outputs for float64 and float32 inputs agree to about
    1e-6 of the largest output. Maps of at most 4096 weights, where a kernel has nothing to
    gain, are multiplied out in the precision of X.

    References
    ----------
    .. [1] P. Zhao, X. Yuan. "GANQ: GPU-Adaptive Non-Uniform Quantization for Large Language
       Models." ICML 2025. https://arxiv.org/abs/2501.12956

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skml.quantization import GANQQuantizer, QuantizedEstimator
    >>> X, y = load_digits(return_X_y=True)
    >>> X = X / 16
    >>> model = QuantizedEstimator(LogisticRegression(max_iter=200), GANQQuantizer(bits=3))
    >>> model.fit(X[:1000], y[:1000]).weights_[0].bits
    3
    >>> full = LogisticRegression(max_iter=200).fit(X[:1000], y[:1000])
    >>> bool(model.score(X[1000:], y[1000:]) > full.score(X[1000:], y[1000:]) - 0.02)
    True
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"])],
        "quantizer": [HasMethods(["fit", "quantize", "error"]), None],
        "prefit": ["boolean"],
    }

    def __init__(self, estimator, quantizer=None, *, prefit=False):
        self.estimator = estimator
        self.quantizer = quantizer
        self.prefit = prefit

    # Nested estimators are validated by their own fit.
    @_fit_context(prefer_skip_nested_validation=False)
    @restores_on_error
    def fit(self, X, y=None, sample_weight=None):
        """Fit the estimator and quantise its weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples, which serve as calibration inputs too.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Target values.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, in the fit and in the calibration.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        if _is_skorch(self.estimator):
            return self._fit_skorch(X, y)
        X = validate_data(self, X, dtype=FLOATS)
        estimator = self._fitted_estimator(X, y, sample_weight)
        maps = take_out_linear_maps(estimator, X)
        quantizer = self._quantizer()

        def quantize_layer(inputs, W):
            layer = clone(quantizer).fit(inputs, sample_weight=sample_weight)
            weight = layer.quantize(W)
            return weight, layer.error(W, weight)

        weights, errors = maps.quantize(quantize_layer, X)
        self._set_result(maps.head, weights, errors)
        self._biases, self._activation = maps.biases, maps.activation
        return self

    @_delegates("predict")
    def predict(self, X):
        """Predict with packed weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            What the estimator predicts.
        """
        return self._call("predict", X)

    @_delegates("predict_proba")
    def predict_proba(self, X):
        """Predict class probabilities with packed weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Probabilities.
        """
        return self._call("predict_proba", X)

    @_delegates("predict_log_proba")
    def predict_log_proba(self, X):
        """Predict logarithms of class probabilities with packed weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Log probabilities.
        """
        return self._call("predict_log_proba", X)

    @_delegates("decision_function")
    def decision_function(self, X):
        """Compute decision values with packed weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        decision : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Decision values.
        """
        return self._call("decision_function", X)

    @_delegates("score")
    def score(self, X, y=None, sample_weight=None):
        """Score predictions by the estimator's own measure.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            True values.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            Accuracy, R² or what else the estimator's `score` computes.
        """
        weighting = {} if sample_weight is None else {"sample_weight": sample_weight}
        return self._call("score", X, y, **weighting)

    @property
    def classes_(self):
        """Class labels, for a classifier."""
        return self.estimator_.classes_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        tags.target_tags = inner.target_tags
        tags.non_deterministic = inner.non_deterministic
        tags.input_tags.two_d_array = inner.input_tags.two_d_array
        return tags

    def _call(self, method, X, *args, **kwargs):
        check_is_fitted(self, "estimator_")
        if not _is_skorch(self.estimator_):
            X = validate_data(self, X, dtype=FLOATS, reset=False)
            for weight, bias in zip(self.weights_, self._biases, strict=False):
                X = next_inputs(X, weight, bias, self._activation)
            X = multiply(X, self.weights_[-1])
        return getattr(self.estimator_, method)(X, *args, **kwargs)

    def _fitted_estimator(self, X, y, sample_weight=None):
        if self.prefit:
            check_is_fitted(self.estimator)
            return self.estimator
        weighting = {}
        if sample_weight is not None:
            if not has_fit_parameter(self.estimator, "sample_weight"):
                raise TypeError(
                    f"{type(self.estimator).__name__}.fit takes no sample_weight, but "
                    "sample_weight was given."
                )
            weighting = {"sample_weight": sample_weight}
        estimator = clone(self.estimator)
        # Without y only where there is none, so that the estimator's own message is raised.
        return estimator.fit(X, y, **weighting)

    def _quantizer(self):
        return GANQQuantizer() if self.quantizer is None else self.quantizer

    def _set_result(self, estimator, weights, errors):
        self.estimator_ = estimator
        self.weights_ = weights
        self.layer_errors_ = errors
        dense = sum(4 * int(np.prod(weight.shape)) for weight in weights)
        self.compression_ratio_ = dense / sum(weight.nbytes for weight in weights)

    def _fit_skorch(self, X, y):
        from ._quantize_module import quantize_skorch_net

        net = self.estimator if self.prefit else clone(self.estimator).fit(X, y)
        check_is_fitted(net, "module_")
        net, weights, errors = quantize_skorch_net(net, self._quantizer(), X)
        self._set_result(net, weights, errors)
        return self


def _is_skorch(estimator):
    return hasattr(estimator, "forward_iter") and hasattr(estimator, "initialize_module")
