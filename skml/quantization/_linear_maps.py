"""The linear maps inside fitted scikit-learn estimators, taken out so that kernels apply them.

An estimator whose output depends on X through X coef^T alone is the composition of that product
with a head: the same estimator with the identity in place of its coefficients. The head needs no
knowledge of links, classes or decision rules, and keeps no dense weights.
"""

import copy

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.neural_network import MLPClassifier, MLPRegressor

from ._weights import LUTWeight
from .kernels import lut_matmul, uniform_matmul

_ACTIVATIONS = {
    "identity": lambda Z: Z,
    "logistic": expit,
    "tanh": np.tanh,
    "relu": lambda Z: np.maximum(Z, 0),
}
# Rows on which a head is compared with the estimator that it was made from.
_N_PROBES = 50
# Weights of a map up to which dense weights serve better than packed ones.
_SMALL = 4096
_OUTPUTS = ("decision_function", "predict_proba", "predict")


def multiply(X, weight, bias=None):
    """X W^T + bias by the packed kernel of the weight's format.

    The kernels compute in float32, in an order that depends on the number of rows. Where the
    map is so small that the time goes to the call, dense weights in the precision of X are
    used instead: their result for a row does not depend on the other rows.
    """
    if weight.shape[0] * weight.shape[1] <= _SMALL:
        product = X @ weight.dequantize().T.astype(X.dtype)
        return product if bias is None else product + bias
    matmul = lut_matmul if isinstance(weight, LUTWeight) else uniform_matmul
    return matmul(np.ascontiguousarray(X), weight, bias)


def take_out_linear_maps(estimator, X):
    """Split a fitted estimator into weight matrices and a head.

    Parameters
    ----------
    estimator : estimator
        A fitted linear model or scikit-learn MLP; it is not changed.
    X : ndarray of shape (n_samples, n_features)
        Samples on which the split is verified.

    Returns
    -------
    LinearMaps
        The parts.
    """
    if isinstance(estimator, (MLPClassifier, MLPRegressor)):
        return _take_out_of_mlp(estimator)
    name = type(estimator).__name__
    coef = vars(estimator).get("coef_")
    if coef is None:
        raise TypeError(
            f"estimator must be a linear model with coef_, a scikit-learn MLP or a skorch net, got "
            f"{name}, which has no linear map to quantise."
        )
    if sparse.issparse(coef):
        raise TypeError(f"estimator.coef_ is sparse: call {name}.densify() before quantising it.")
    coef = np.asarray(coef)
    if coef.ndim not in (1, 2) or coef.shape[-1] != X.shape[1]:
        raise TypeError(
            f"estimator.coef_ must have shape (n_features,) or (n_outputs, n_features) with "
            f"{X.shape[1]} features, got {coef.shape} from {name}."
        )
    weights = np.atleast_2d(coef)
    head = _copy_for(estimator, len(weights))
    head.coef_ = np.ones(1, coef.dtype) if coef.ndim == 1 else np.eye(len(coef), dtype=coef.dtype)
    _verify(estimator, head, X[:_N_PROBES], weights)
    return LinearMaps([weights], [], None, head)


def _take_out_of_mlp(mlp):
    head = _copy_for(mlp, mlp.coefs_[-1].shape[1])
    head.coefs_ = [np.eye(mlp.coefs_[-1].shape[1], dtype=mlp.coefs_[-1].dtype)]
    head.intercepts_ = [mlp.intercepts_[-1]]
    head.n_layers_ = 2
    # What only training needs would hold the dense weights' company.
    for name in ("_optimizer", "_best_coefs", "_best_intercepts", "_random_state"):
        vars(head).pop(name, None)
    weights = [np.ascontiguousarray(coef.T) for coef in mlp.coefs_]
    return LinearMaps(weights, list(mlp.intercepts_[:-1]), mlp.activation, head)


def _copy_for(estimator, n_outputs):
    head = copy.copy(estimator)
    head.n_features_in_ = n_outputs
    vars(head).pop("feature_names_in_", None)
    return head


def _verify(estimator, head, X, weights):
    Z = X @ weights.T.astype(X.dtype)
    for method in _OUTPUTS:
        if not hasattr(estimator, method):
            continue
        expected = getattr(estimator, method)(X)
        try:
            found = getattr(head, method)(Z)
        except ValueError:  # it does something to X besides the product
            found = None
        if found is None or not _are_close(found, expected):
            raise TypeError(
                f"{type(estimator).__name__}.{method} is no function of X @ coef_.T alone, so its "
                "weights cannot be replaced by quantised ones."
            )


def _are_close(found, expected):
    if expected.dtype.kind != "f":
        # A label may turn over where the decision is a matter of rounding.
        return np.mean(found == expected) > 0.9
    scale = 1 + np.abs(expected).max(initial=0)
    return np.allclose(found, expected, rtol=1e-3, atol=1e-3 * scale)


class LinearMaps:
    """Weight matrices of an estimator, the layers between them and the head behind them.

    Parameters
    ----------
    weights : list of ndarray of shape (n_outputs, n_inputs)
        Dense weights of each map.
    biases : list of ndarray
        Intercepts of all maps but the last, whose intercept is in the head.
    activation : str or None
        Name of the function between the maps.
    head : estimator
        Takes the product of the last map.
    """

    def __init__(self, weights, biases, activation, head):
        self.weights = weights
        self.biases = biases
        self.activation = activation
        self.head = head

    def quantize(self, quantize_layer, X):
        """Quantise map after map, each on inputs that went through the quantised ones before.

        Parameters
        ----------
        quantize_layer : callable
            ``quantize_layer(inputs, W)`` returns a packed weight and its error.
        X : ndarray of shape (n_samples, n_features)
            Calibration samples.

        Returns
        -------
        weights : list of LUTWeight or UniformWeight
            The packed weights.
        errors : list of float
            Their relative layer errors.
        """
        packed, errors = [], []
        for number, W in enumerate(self.weights):
            weight, error = quantize_layer(X, W)
            packed.append(weight)
            errors.append(error)
            if number < len(self.biases):
                X = next_inputs(X, weight, self.biases[number], self.activation)
        return packed, errors


def next_inputs(X, weight, bias, activation):
    """Inputs of the map behind a hidden layer."""
    return _ACTIVATIONS[activation](multiply(X, weight) + bias.astype(X.dtype))
