"""Tables by exact one-dimensional k-means, each weight rounded by itself."""

from numbers import Integral

import numpy as np
from sklearn.utils._param_validation import StrOptions

from ._base import BaseWeightQuantizer, resolve_threads
from ._codebooks import kmeans_codebook, nearest_codes
from ._weights import LUTWeight


class KMeansQuantizer(BaseWeightQuantizer):
    """Tables per row by exact weighted k-means, and rounding to the nearest entry.

    Parameters
    ----------
    bits : int, default=4
        Bits per weight, from 1 to 8.
    weighting : {"gram", "uniform"}, default="gram"
        How much each weight of a row counts where :meth:`quantize` is given no sensitivity:
        the diagonal of the Gram matrix (the mean square of the weight's input), or all alike.
    n_jobs : int or None, default=None
        Number of OpenMP threads; None means 1 and -1 all cores.

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
    GANQQuantizer : Tables fitted to the outputs of the layer, with error feedback.

    Notes
    -----
    Each row w with sensitivities c gets the table that minimises

    .. math:: \\sum_j c_j \\min_k (w_j - T_k)^2.

    In one dimension the clusters are intervals of the sorted values. Dynamic programming over
    their boundaries finds the global minimum in time K n log n, so there is no initialisation
    and no random state. This is the table of SqueezeLLM [1]_ without its outliers, where c is
    the diagonal of the Fisher information.

    References
    ----------
    .. [1] S. Kim, C. Hooper, A. Gholami et al. "SqueezeLLM: Dense-and-sparse quantization."
       ICML 2024. https://arxiv.org/abs/2306.07629

    Examples
    --------
    >>> import numpy as np
    >>> from skml.quantization import KMeansQuantizer
    >>> quantizer = KMeansQuantizer(bits=1).fit(np.eye(4))
    >>> quantizer.transform([[0.0, 1.0, 9.0, 10.0]])
    array([[0.5, 0.5, 9.5, 9.5]])
    """

    _parameter_constraints: dict = {
        **BaseWeightQuantizer._parameter_constraints,
        "weighting": [StrOptions({"gram", "uniform"})],
        "n_jobs": [Integral, None],
    }

    def __init__(self, bits=4, *, weighting="gram", n_jobs=None):
        self.bits = bits
        self.weighting = weighting
        self.n_jobs = n_jobs

    def quantize(self, W, *, sensitivity=None):
        """Quantise weights.

        Parameters
        ----------
        W : array-like of shape (n_outputs, n_features)
            Weights, one row per output of the layer.
        sensitivity : array-like of shape (n_outputs, n_features) or (n_features,), default=None
            How much each weight counts, at least 0; with gradients at hand, the mean of their
            squares. A row of zeros stands for ones. None: see `weighting`.

        Returns
        -------
        LUTWeight
            Packed codes and one ascending table per row.
        """
        W = self._weights_to_quantize(W)
        if sensitivity is not None:
            sensitivity = np.asarray(sensitivity, dtype=np.float64)
            if sensitivity.shape not in (W.shape, W.shape[1:]):
                raise ValueError(
                    f"sensitivity must have the shape {W.shape} or {W.shape[1:]}, got "
                    f"{sensitivity.shape}."
                )
            if not np.isfinite(sensitivity).all() or (sensitivity < 0).any():
                raise ValueError("sensitivity must be finite and at least 0.")
        return self._quantize(W, sensitivity=sensitivity)

    def _quantize(self, W, *, sensitivity=None):
        if sensitivity is None and self.weighting == "gram":
            sensitivity = np.diag(self.gram_).copy()
        n_threads = resolve_threads(self.n_jobs)
        values = W.astype(np.float64)
        table = kmeans_codebook(values, 2**self.bits, sensitivity, n_threads=n_threads)
        codes = nearest_codes(table, values).astype(np.uint8)
        return LUTWeight.from_codes(codes, table.astype(W.dtype))
