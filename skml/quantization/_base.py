"""What all weight quantizers share: input statistics in fit, rows of weights in transform."""

from abc import ABCMeta, abstractmethod
from numbers import Integral

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from skml.utils import restores_on_error

from ._gram import dask_gram_matrix, gram_matrix, is_dask

FLOATS = [np.float64, np.float32]


class BaseWeightQuantizer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator, metaclass=ABCMeta):
    """Base class of the weight quantizers.

    A quantizer is fitted on calibration inputs X of a layer y = W x, one input vector per row;
    it keeps their Gram matrix. It then quantises any weight matrix W of shape (n_outputs,
    n_features), row by row: rows do not influence each other.

    A subclass has the parameter `bits` and defines ``_quantize(W, **options)``, which returns a
    packed weight.

    Parameters
    ----------
    bits : int, default=4
        Bits per weight, from 1 to 8.

    Attributes
    ----------
    gram_ : ndarray of shape (n_features, n_features), dtype float64
        X^T diag(sample_weight) X.
    n_samples_seen_ : int
        Number of rows of X.
    n_features_in_ : int
        Number of features seen during `fit`: the inputs of the layer.
    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    See Also
    --------
    GANQQuantizer : Learnt tables with error feedback.
    GPTQQuantizer : Uniform grid with error feedback.
    KMeansQuantizer : Learnt tables, each weight by itself.
    RTNQuantizer : Uniform grid, each weight by itself.

    Notes
    -----
    The quality of a quantised W~ is the relative layer error

    .. math:: \\frac{\\mathrm{tr}((W - \\tilde W) H (W - \\tilde W)^T)}{\\mathrm{tr}(W H W^T)},

    with the Gram matrix :math:`H = X^T \\mathrm{diag}(w) X`; see :meth:`error`.

    References
    ----------
    .. [1] P. Zhao, X. Yuan. "GANQ: GPU-Adaptive Non-Uniform Quantization for Large Language
       Models." ICML 2025. https://arxiv.org/abs/2501.12956

    Examples
    --------
    >>> import numpy as np
    >>> from skml.quantization import BaseWeightQuantizer, GANQQuantizer
    >>> issubclass(GANQQuantizer, BaseWeightQuantizer)
    True
    """

    _parameter_constraints: dict = {"bits": [Interval(Integral, 1, 8, closed="both")]}

    @abstractmethod
    def __init__(self, bits=4):
        self.bits = bits

    @_fit_context(prefer_skip_nested_validation=True)
    @restores_on_error
    def fit(self, X, y=None, sample_weight=None):
        """Learn the Gram matrix of the calibration inputs.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features)
            Inputs of the layer, such as the activations that the layer before it gives.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        gram, n_samples = self._statistics(X, sample_weight, reset=True)
        return self._fit_gram(gram, n_samples)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, sample_weight=None):
        """Add a batch of calibration inputs.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features)
            Further inputs of the layer.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0.

        Returns
        -------
        self : object
            The quantizer. What follows from the Gram matrix is computed when it is next asked
            for, not after every batch.
        """
        first = not hasattr(self, "gram_")
        gram, n_samples = self._statistics(X, sample_weight, reset=first)
        if not first:
            gram = self.gram_ + gram
            n_samples += self.n_samples_seen_
        self.gram_, self.n_samples_seen_ = gram, n_samples
        self._prepared = None
        return self

    def transform(self, W):
        """Quantise weights and return them as numbers again.

        Parameters
        ----------
        W : array-like of shape (n_outputs, n_features)
            Weights, one row per output of the layer.

        Returns
        -------
        ndarray of shape (n_outputs, n_features)
            The values that the quantised weights stand for, in the dtype of W.
        """
        check_is_fitted(self)
        W = self._check_weights(W)
        return self._quantize(W).dequantize().astype(W.dtype, copy=False)

    def quantize(self, W):
        """Quantise weights.

        Parameters
        ----------
        W : array-like of shape (n_outputs, n_features)
            Weights, one row per output of the layer.

        Returns
        -------
        LUTWeight or UniformWeight
            Packed codes, which the kernels of `skml.quantization.kernels` consume.
        """
        return self._quantize(self._weights_to_quantize(W))

    def inverse_transform(self, W):
        """Return the numbers that a quantised weight stands for.

        Parameters
        ----------
        W : LUTWeight, UniformWeight or array-like of shape (n_outputs, n_features)
            What :meth:`quantize` returned; an array is returned as it is.

        Returns
        -------
        ndarray of shape (n_outputs, n_features)
            Dense weights.
        """
        check_is_fitted(self)
        if hasattr(W, "dequantize"):
            return W.dequantize()
        return self._check_weights(W)

    def error(self, W, W_q):
        """Compute the relative layer error of quantised weights.

        Parameters
        ----------
        W : array-like of shape (n_outputs, n_features)
            The original weights.
        W_q : LUTWeight, UniformWeight or array-like of shape (n_outputs, n_features)
            The quantised weights.

        Returns
        -------
        float
            The ratio tr((W - W_q) H (W - W_q)^T) / tr(W H W^T) on the calibration inputs; 0
            where both traces are 0, infinite where only the second is.
        """
        check_is_fitted(self)
        W = self._check_weights(W).astype(np.float64)
        W_q = np.asarray(self.inverse_transform(W_q), dtype=np.float64)
        if W.shape != W_q.shape:
            raise ValueError(f"W_q has shape {W_q.shape}, W has shape {W.shape}.")
        return relative_error(W, W_q, self.gram_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @abstractmethod
    def _quantize(self, W, **options):
        """Quantise a checked float array and return a packed weight."""

    def _prepare(self, gram):
        """Compute what quantising needs from the Gram matrix; None where nothing is needed."""
        return None

    def _prepare_once(self):
        check_is_fitted(self)
        if self._prepared is None:
            self._prepared = self._prepare(self.gram_)
        return self._prepared

    def _fit_gram(self, gram, n_samples):
        """Take a Gram matrix in place of calibration inputs."""
        prepared = self._prepare(gram)
        self.gram_ = gram
        self.n_samples_seen_ = n_samples
        self.n_features_in_ = gram.shape[0]
        self._prepared = prepared
        return self

    def _statistics(self, X, sample_weight, reset):
        if is_dask(X):
            gram, n_samples = dask_gram_matrix(X, sample_weight)
            if not reset and gram.shape[0] != self.n_features_in_:
                raise ValueError(
                    f"X has {gram.shape[0]} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input."
                )
            if reset:
                vars(self).pop("feature_names_in_", None)
                self.n_features_in_ = gram.shape[0]
            return gram, n_samples
        X = validate_data(self, X, accept_sparse=("csr", "csc"), dtype=FLOATS, reset=reset)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        return gram_matrix(X, sample_weight), X.shape[0]

    def _weights_to_quantize(self, W):
        """Check W, and the parameters, which may have changed since the fit."""
        check_is_fitted(self)
        self._validate_params()
        return self._check_weights(W)

    def _check_weights(self, W):
        if sp.issparse(W):
            raise TypeError(
                f"Sparse data was passed as W to {type(self).__name__}, which quantises dense "
                "weights: use W.toarray()."
            )
        return validate_data(self, W, dtype=FLOATS, order="C", reset=False)


def relative_error(W, W_q, gram):
    """Return tr(R H R^T) / tr(W H W^T) for R = W - W_q."""
    R = W - W_q
    error = float(np.einsum("ij,ij->", R @ gram, R))
    norm = float(np.einsum("ij,ij->", W @ gram, W))
    if norm > 0:
        return max(error, 0.0) / norm
    return 0.0 if error <= 0 else float("inf")


def resolve_threads(n_jobs):
    """Turn `n_jobs` into a number of OpenMP threads for row loops."""
    return effective_n_jobs(n_jobs) if n_jobs is not None else 1
