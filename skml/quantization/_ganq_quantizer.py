"""GANQ: learnt tables per row, fitted to the layer's outputs."""

from numbers import Integral, Real

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ._alternation import alternate, tile_factor
from ._base import BaseWeightQuantizer, resolve_threads
from ._codebooks import initial_codebook, order_statistics
from ._factor import PRECONDITIONERS, factorize
from ._outliers import combine_masks, outlier_mask
from ._weights import LUTWeight

# Rows that are prepared together; a multiple of the panels of the alternation.
_PART = 1024


class GANQQuantizer(BaseWeightQuantizer):
    """Non-uniform weight quantisation by alternating back-substitution and least squares.

    Every row of a weight matrix gets a table of 2^bits values of its own, chosen so that the
    outputs of the layer on the calibration inputs change least. No gradient is needed.

    Parameters
    ----------
    bits : int, default=4
        Bits per weight, from 1 to 8.
    max_iter : int, default=10
        Largest number of alternations of the two steps. Rows whose codes no longer change stop
        before.
    init : {"auto", "paper", "kmeans", "uniform"} or array-like of shape (n_outputs, 2^bits), \
default="auto"
        Tables to start from: "paper" (3 and 4 bits only) spreads the entries over the range or
        over the quantiles of the row as the authors' code does; "kmeans" is the exact k-means
        of the row; "uniform" is evenly spaced. "auto" is "paper" for 3 and 4 bits, else
        "kmeans".
    preconditioner : {"damping", "diagonal_dominance", "plain_first", "none"}, default="damping"
        What is added to the diagonal of the Gram matrix so that its Cholesky factor exists.
        "damping": `damping` times the mean of the diagonal, doubled until it suffices.
        "diagonal_dominance": the smallest additions that make the matrix diagonally dominant.
        "plain_first": nothing where that works, else as before. "none": nothing; a singular
        matrix is an error.
    damping : float, default=0.01
        See `preconditioner`.
    column_order : {"activation", "original"}, default="activation"
        Order in which the columns are rounded: those with the largest inputs first, or from
        the last to the first as in the paper.
    outlier_ratio : float, default=0.0
        Share of every row that is kept exactly, half of it from either tail; in [0, 1). Any
        ratio above 0 takes at least one weight from each tail.
    full_rows : int, default=0
        Number of rows, those of largest variance, that are kept whole. Such rows depend on
        the other rows.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the alternation. Factorisation and table systems are always float64.
    n_jobs : int or None, default=None
        Number of OpenMP threads of the row loops; None means 1 and -1 all cores. BLAS has its own.

    Attributes
    ----------
    gram_ : ndarray of shape (n_features, n_features), dtype float64
        X^T diag(sample_weight) X.
    cholesky_ : ndarray of shape (n_features, n_features), dtype float64
        Lower factor L of the preconditioned Gram matrix, in processing order.
    column_order_ : ndarray of shape (n_features,), dtype intp
        ``column_order_[k]`` is the column at place k of that order; the last place is rounded
        first.
    damping_ : float
        Mean of what was added to the diagonal, in units of the mean of the diagonal.
    n_iter_ : int
        Largest number of alternations that :meth:`quantize` makes; how many a matrix took is in the
        ``info`` of its packed weight.
    n_samples_seen_ : int
        Number of rows of X.
    n_features_in_ : int
        Number of features seen during `fit`: the inputs of the layer.
    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    See Also
    --------
    GPTQQuantizer : Error feedback on a uniform grid.
    quantize_module : Quantise the layers of a torch module one after the other.
    QuantizedEstimator : Quantise a fitted scikit-learn or skorch estimator.

    Notes
    -----
    With the calibration inputs as rows of X, H = X^T X and :math:`H + D = L L^T` (D is what the
    preconditioner adds), each row w of W is approximated by T S, where T holds 2^bits numbers
    and the columns of S are one-hot. Two steps alternate:

    - S-step: for j = n - 1, ..., 0

      .. math:: q_j = \\arg\\min_k \\Big| w_j + \\frac{1}{L_{jj}} \\sum_{u > j} e_u L_{uj} - T_k
                \\Big|, \\qquad e_j = w_j - T_{q_j};

    - T-step: T minimises :math:`\\|(w - T S) L\\|^2`, that is, :math:`T = b A^+` with
      :math:`A = S L L^T S^T` and :math:`b = w L L^T S^T`. A code that no column uses keeps its
      value.

    Both steps see the same preconditioned matrix. The iterate of each row with the smallest
    :math:`(w - T S) H (w - T S)^T`, with the raw H, is returned. Rows are shifted by their
    median and scaled by their interquartile range before, which changes nothing but the
    conditioning. Inputs that were always zero get a unit on the diagonal, and their weights
    are replaced by the mean of the row's other weights. Outliers are rounded without error in
    the S-step, are left out of the T-step, and are stored as a sparse correction of the table
    value.

    Rows are processed in panels of a fixed size, so that memory does not grow with their
    number, and a row comes out the same whatever stands beside it.

    References
    ----------
    .. [1] P. Zhao, X. Yuan. "GANQ: GPU-Adaptive Non-Uniform Quantization for Large Language
       Models." ICML 2025. https://arxiv.org/abs/2501.12956

    Examples
    --------
    >>> import numpy as np
    >>> from skml.quantization import GANQQuantizer, RTNQuantizer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 32)) @ rng.normal(size=(32, 32))
    >>> W = rng.normal(size=(16, 32))
    >>> ganq, rtn = GANQQuantizer(bits=3).fit(X), RTNQuantizer(bits=3).fit(X)
    >>> ganq.quantize(W).codebook.shape
    (16, 8)
    >>> bool(ganq.error(W, ganq.transform(W)) < 0.3 * rtn.error(W, rtn.transform(W)))
    True
    """

    _parameter_constraints: dict = {
        **BaseWeightQuantizer._parameter_constraints,
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"auto", "paper", "kmeans", "uniform"}), "array-like"],
        "preconditioner": [StrOptions(set(PRECONDITIONERS))],
        "damping": [Interval(Real, 0, None, closed="left")],
        "column_order": [StrOptions({"activation", "original"})],
        "outlier_ratio": [Interval(Real, 0, 1, closed="left")],
        "full_rows": [Interval(Integral, 0, None, closed="left")],
        "dtype": [StrOptions({"float32", "float64"})],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        bits=4,
        *,
        max_iter=10,
        init="auto",
        preconditioner="damping",
        damping=0.01,
        column_order="activation",
        outlier_ratio=0.0,
        full_rows=0,
        dtype="float32",
        n_jobs=None,
    ):
        self.bits = bits
        self.max_iter = max_iter
        self.init = init
        self.preconditioner = preconditioner
        self.damping = damping
        self.column_order = column_order
        self.outlier_ratio = outlier_ratio
        self.full_rows = full_rows
        self.dtype = dtype
        self.n_jobs = n_jobs

    @property
    def cholesky_(self):
        """Lower Cholesky factor of the preconditioned Gram matrix, in processing order."""
        return self._prepare_once().lower

    @property
    def column_order_(self):
        """Column at each place of the processing order, whose last place is rounded first."""
        return self._prepare_once().order

    @property
    def damping_(self):
        """Mean addition to the diagonal, in units of the mean of the diagonal."""
        return self._prepare_once().damping

    @property
    def n_iter_(self):
        """Largest number of alternations of `quantize`; it does not change the quantizer."""
        check_is_fitted(self)
        return self.max_iter

    def quantize(self, W, *, outlier_mask=None):
        """Quantise weights.

        Parameters
        ----------
        W : array-like of shape (n_outputs, n_features)
            Weights, one row per output of the layer.
        outlier_mask : array-like of shape (n_outputs, n_features), dtype bool, default=None
            Weights to keep exactly, besides those that `outlier_ratio` and `full_rows` choose.

        Returns
        -------
        LUTWeight
            Packed codes, one ascending table per row, and the outliers. Its ``info`` holds
            ``n_iter``, the largest number of alternations that a panel of rows ran, and
            ``objective``, the squared output error of each row on the calibration inputs.
        """
        W = self._weights_to_quantize(W)
        if outlier_mask is not None:
            outlier_mask = np.asarray(outlier_mask)
            if outlier_mask.shape != W.shape or outlier_mask.dtype != bool:
                raise ValueError(
                    f"outlier_mask must be a boolean array of the shape of W, {W.shape}, got "
                    f"{outlier_mask.dtype} of shape {outlier_mask.shape}."
                )
        return self._quantize(W, outlier_mask=outlier_mask)

    def _prepare(self, gram):
        # Sums of products of the factor's rows must stay finite, with room for their number.
        largest, limit = np.diagonal(gram).max(initial=0.0), np.finfo(self.dtype).max ** 0.9
        if largest > limit:
            raise ValueError(
                f"X is too large for dtype={self.dtype!r}: the sum of squares of a column is "
                f"{largest:.3g}, and must be at most {limit:.3g}. Scale X; the codes do not change."
            )
        return factorize(
            gram,
            preconditioner=self.preconditioner,
            damping=self.damping,
            column_order=self.column_order,
        )

    def _quantize(self, W, *, outlier_mask=None):
        factor = self._prepare_once()
        self._check_init(len(W))
        kept = self._kept_weights(W, factor, outlier_mask)
        tiles = tile_factor(factor.lower, dtype=self.dtype)
        stored = W.dtype if self.dtype == "float64" else np.float32
        codes = np.empty(W.shape, dtype=np.uint8)
        codebook = np.empty((len(W), 2**self.bits), dtype=stored)
        objective = np.empty(len(W))
        n_iter = 0
        # In parts, so that the float64 copies of the rows stay small.
        for start in range(0, len(W), _PART):
            part = slice(start, start + _PART)
            n_iter_part, codes[part], codebook[part], objective[part] = self._quantize_rows(
                W[part], factor, tiles, None if kept is None else kept[part], part
            )
            n_iter = max(n_iter, n_iter_part)
        outliers = None if kept is None else _corrections(W, factor.dead, kept, codes, codebook)
        info = {"n_iter": n_iter, "objective": objective}
        return LUTWeight.from_codes(codes, codebook, outliers=outliers, info=info)

    def _quantize_rows(self, W, factor, tiles, kept, part):
        W = fill_dead_inputs(W.astype(np.float64), factor.dead)
        normalised, centre, spread = normalise_rows(W if kept is None else _hide(W, kept))
        table = self._first_table(normalised, centre, spread, kept is not None, part)
        if kept is not None:
            normalised = (W - centre) / spread
        order = factor.order
        found = alternate(
            np.ascontiguousarray(normalised[:, order], dtype=self.dtype),
            table.astype(self.dtype),
            tiles,
            factor.added,
            kept=None if kept is None else kept[:, order].astype(np.uint8),
            max_iter=self.max_iter,
            n_threads=resolve_threads(self.n_jobs),
        )
        codes = np.empty(W.shape, dtype=np.uint8)
        codes[:, order] = found.codes
        codebook = found.table.astype(np.float64) * spread + centre
        return found.n_iter, codes, codebook, found.objective * spread[:, 0] ** 2

    def _kept_weights(self, W, factor, mask):
        n_full = self.full_rows
        if n_full > len(W):
            raise ValueError(f"full_rows must be at most the {len(W)} rows of W, got {n_full}.")
        if self.outlier_ratio > 0 or n_full > 0:
            W = fill_dead_inputs(W.astype(np.float64), factor.dead)
        chosen = outlier_mask(W, ratio=self.outlier_ratio, full_rows=n_full)
        return combine_masks(chosen, mask)

    def _check_init(self, n_rows):
        if isinstance(self.init, str):
            if self.init == "paper" and self.bits not in (3, 4):
                raise ValueError(
                    f"init='paper' is defined for bits=3 and bits=4, got bits={self.bits}; use "
                    "'auto', 'kmeans' or 'uniform'."
                )
            return
        table = np.asarray(self.init, dtype=np.float64)
        expected = (n_rows, 2**self.bits)
        if table.shape != expected or not np.isfinite(table).all():
            raise ValueError(
                f"init must be a finite array of shape (n_outputs, 2^bits) = {expected}, got shape "
                f"{table.shape}."
            )

    def _first_table(self, normalised, centre, spread, has_outliers, part):
        if isinstance(self.init, str):
            n_threads = resolve_threads(self.n_jobs)
            return initial_codebook(
                normalised, self.bits, self.init, has_outliers=has_outliers, n_threads=n_threads
            )
        return (np.asarray(self.init, dtype=np.float64)[part] - centre) / spread


def fill_dead_inputs(W, dead):
    """Replace the weights of dead inputs by the mean of the row's weights of live ones."""
    if not dead.any() or dead.all():
        return W
    W = W.copy()
    # Summed row by row: a mean over fancy-indexed columns may depend on the number of rows.
    live = np.ascontiguousarray(W[:, ~dead])
    W[:, dead] = live.mean(axis=1, keepdims=True)
    return W


def normalise_rows(W):
    """Shift every row by its median and scale it by its interquartile range, NaN left out.

    Returns
    -------
    normalised : ndarray of shape (n_rows, n)
        (W - centre) / spread.
    centre, spread : ndarray of shape (n_rows, 1)
        Median and interquartile range; where that is 0 the range, where that is 0 too 1.
    """
    ordered = np.sort(W, axis=1)
    counts = np.count_nonzero(~np.isnan(W), axis=1)
    low, first, centre, third, high = order_statistics(ordered, counts, [0, 0.25, 0.5, 0.75, 1]).T
    spread = np.where(third > first, third - first, high - low)
    spread = np.where(spread > 0, spread, 1.0)
    centre, spread = centre[:, None], spread[:, None]
    return (W - centre) / spread, centre, spread


def _hide(W, kept):
    return np.where(kept, np.nan, W)


def _corrections(W, dead, kept, codes, codebook):
    """What is missing from the table values to the weights that are kept exactly."""
    rows, columns = np.nonzero(kept)
    values = fill_dead_inputs(W.astype(np.float64), dead)[rows, columns]
    values -= codebook[rows, codes[rows, columns]].astype(np.float64)
    return csr_array((values.astype(codebook.dtype), (rows, columns)), shape=W.shape)
