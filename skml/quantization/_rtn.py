"""Round to nearest on a uniform grid."""

from ._base import BaseWeightQuantizer
from ._grid import (
    GRID_CONSTRAINTS,
    grid_codes,
    group_grids,
    group_of_columns,
    pack_uniform,
)


class RTNQuantizer(BaseWeightQuantizer):
    """Round every weight to the nearest level of a uniform grid.

    The baseline of all weight quantizers: the calibration inputs play no part in it, they only
    serve :meth:`error`.

    Parameters
    ----------
    bits : int, default=4
        Bits per weight, from 1 to 8.
    symmetric : bool, default=False
        Whether the range of the grid is symmetric about 0.
    zero_point : {"integer", "real"}, default="integer"
        "integer": the range includes 0, which is a level (the grid of GPTQ). "real": the range
        is that of the group of weights, and both ends are levels.
    group_size : int or None, default=None
        Number of neighbouring inputs that share scale and zero point; None: the whole row.

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
    GPTQQuantizer : The same grid, with error feedback.
    KMeansQuantizer : Rounding to learnt tables.

    Notes
    -----
    For a group of weights w with ends :math:`l = \\min(w, 0), h = \\max(w, 0)`,

    .. math:: s = \\frac{h - l}{2^N - 1}, \\quad z = \\mathrm{round}(-l / s), \\quad
              q = \\mathrm{clip}(\\mathrm{round}(w / s) + z, 0, 2^N - 1), \\quad
              \\tilde w = s (q - z).

    With ``zero_point="real"`` the ends are those of w, and z is not rounded. A constant group
    has scale 1 and is exact.

    References
    ----------
    .. [1] E. Frantar, S. Ashkboos, T. Hoefler, D. Alistarh. "GPTQ: Accurate post-training
       quantization for generative pre-trained transformers." ICLR 2023.
       https://arxiv.org/abs/2210.17323

    Examples
    --------
    >>> import numpy as np
    >>> from skml.quantization import RTNQuantizer
    >>> quantizer = RTNQuantizer(bits=2).fit(np.eye(4))
    >>> quantizer.transform([[-1.0, 0.1, 0.9, 2.0]])
    array([[-1.,  0.,  1.,  2.]])
    """

    _parameter_constraints: dict = {
        **BaseWeightQuantizer._parameter_constraints,
        **GRID_CONSTRAINTS,
    }

    def __init__(self, bits=4, *, symmetric=False, zero_point="integer", group_size=None):
        self.bits = bits
        self.symmetric = symmetric
        self.zero_point = zero_point
        self.group_size = group_size

    def _quantize(self, W):
        scale, zero = group_grids(
            W,
            self.bits,
            group_size=self.group_size,
            symmetric=self.symmetric,
            zero_point=self.zero_point,
        )
        group = group_of_columns(W.shape[1], self.group_size)
        codes = grid_codes(W, scale[:, group], zero[:, group], self.bits)
        return pack_uniform(codes, self.bits, scale, zero, self.group_size)
