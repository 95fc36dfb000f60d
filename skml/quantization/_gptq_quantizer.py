"""GPTQ: a uniform grid with error feedback."""

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from scipy.linalg.lapack import dtrtri
from sklearn.utils._param_validation import Interval

from ._base import BaseWeightQuantizer, resolve_threads
from ._factor import damped_cholesky, revive_dead_inputs
from ._gptq import quantize_block
from ._grid import (
    GRID_CONSTRAINTS,
    group_grids,
    group_of_columns,
    pack_uniform,
    uniform_grid,
)

# Rows that are worked on together; fixed, so that no row depends on how many there are.
_PANEL = 256


@dataclass
class _InverseFactor:
    """Upper factor U of the inverse Gram matrix, H'^-1 = U^T U, in processing order."""

    order: np.ndarray
    upper: np.ndarray
    dead: np.ndarray
    damping: float


class GPTQQuantizer(BaseWeightQuantizer):
    """Uniform weight quantisation that corrects later columns for the errors of earlier ones.

    Parameters
    ----------
    bits : int, default=4
        Bits per weight, from 1 to 8.
    act_order : bool, default=False
        Whether the columns with the largest inputs are rounded first. The grids are then those
        of the original weights.
    group_size : int or None, default=None
        Number of neighbouring inputs that share scale and zero point; None: the whole row.
        Without `act_order` the grid of a group is fitted when its first column is reached, to
        the corrected weights.
    symmetric : bool, default=False
        Whether the range of the grid is symmetric about 0.
    zero_point : {"integer", "real"}, default="integer"
        As for :class:`RTNQuantizer`.
    damping : float, default=0.01
        Share of the mean diagonal that is added to the diagonal of the Gram matrix; doubled
        until the Cholesky factor exists.
    block_size : int, default=128
        Columns whose corrections are collected before the columns behind them are updated. It
        changes the speed, not the result.
    n_jobs : int or None, default=None
        Number of OpenMP threads of the row loops; None means 1 and -1 all cores. BLAS has its own.

    Attributes
    ----------
    gram_ : ndarray of shape (n_features, n_features), dtype float64
        X^T diag(sample_weight) X.
    cholesky_ : ndarray of shape (n_features, n_features), dtype float64
        Upper factor U with U^T U the inverse of the damped Gram matrix, in processing order.
    column_order_ : ndarray of shape (n_features,), dtype intp
        ``column_order_[k]`` is the column that is rounded at step k.
    damping_ : float
        The damping that was used.
    n_samples_seen_ : int
        Number of rows of X.
    n_features_in_ : int
        Number of features seen during `fit`: the inputs of the layer.
    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    See Also
    --------
    GANQQuantizer : Learnt tables with error feedback.
    RTNQuantizer : The same grid without feedback.

    Notes
    -----
    With :math:`(H + \\lambda I)^{-1} = U^T U`, for each column j in turn

    .. math:: \\tilde w_j = \\mathrm{grid}(w_j), \\qquad
              w_u \\leftarrow w_u - \\frac{w_j - \\tilde w_j}{U_{jj}} U_{ju}
              \\quad (u > j).

    Inputs that were always zero get a unit on the diagonal of H and weight 0, unless all are.

    References
    ----------
    .. [1] E. Frantar, S. Ashkboos, T. Hoefler, D. Alistarh. "GPTQ: Accurate post-training
       quantization for generative pre-trained transformers." ICLR 2023.
       https://arxiv.org/abs/2210.17323

    Examples
    --------
    >>> import numpy as np
    >>> from skml.quantization import GPTQQuantizer, RTNQuantizer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 32)) @ rng.normal(size=(32, 32))
    >>> W = rng.normal(size=(16, 32))
    >>> gptq, rtn = GPTQQuantizer(bits=3).fit(X), RTNQuantizer(bits=3).fit(X)
    >>> bool(gptq.error(W, gptq.transform(W)) < 0.6 * rtn.error(W, rtn.transform(W)))
    True
    """

    _parameter_constraints: dict = {
        **BaseWeightQuantizer._parameter_constraints,
        **GRID_CONSTRAINTS,
        "act_order": ["boolean"],
        "damping": [Interval(Real, 0, None, closed="left")],
        "block_size": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        bits=4,
        *,
        act_order=False,
        group_size=None,
        symmetric=False,
        zero_point="integer",
        damping=0.01,
        block_size=128,
        n_jobs=None,
    ):
        self.bits = bits
        self.act_order = act_order
        self.group_size = group_size
        self.symmetric = symmetric
        self.zero_point = zero_point
        self.damping = damping
        self.block_size = block_size
        self.n_jobs = n_jobs

    @property
    def cholesky_(self):
        """Upper factor of the inverse of the damped Gram matrix, in processing order."""
        return self._prepare_once().upper

    @property
    def column_order_(self):
        """Column that is rounded at each step."""
        return self._prepare_once().order

    @property
    def damping_(self):
        """Share of the mean diagonal that was added to the diagonal."""
        return self._prepare_once().damping

    def _prepare(self, gram):
        gram, dead = revive_dead_inputs(gram)
        diagonal = np.diag(gram)
        order = np.arange(len(gram))
        if self.act_order:
            order = np.argsort(-diagonal, kind="stable")
        # H' = R R^T with R upper triangular is the Cholesky factorisation from the other end;
        # then U = R^-1, and the inverse of H' itself is never formed.
        backward = order[::-1]
        lower, offset = damped_cholesky(gram[np.ix_(backward, backward)], self.damping)
        upper, _ = dtrtri(np.asfortranarray(lower[::-1, ::-1]), lower=0)
        damping = float(offset.mean()) / float(diagonal.mean())
        return _InverseFactor(order, np.triu(upper), dead, damping)

    def _quantize(self, W):
        factor = self._prepare_once()
        if factor.dead.any() and not factor.dead.all():
            W = np.where(factor.dead, 0, W).astype(W.dtype)
        n = W.shape[1]
        group = group_of_columns(n, self.group_size)
        grid = {"symmetric": self.symmetric, "zero_point": self.zero_point}
        scale, zero = group_grids(W, self.bits, group_size=self.group_size, **grid)
        codes = np.empty(W.shape, dtype=np.uint8)
        upper = factor.upper.astype(W.dtype)
        for start in range(0, len(W), _PANEL):
            part = slice(start, start + _PANEL)
            found = self._quantize_panel(
                W[part][:, factor.order], upper, scale[part], zero[part], group[factor.order]
            )
            codes[part, factor.order] = found
        return pack_uniform(codes, self.bits, scale, zero, self.group_size)

    def _quantize_panel(self, W, upper, scale, zero, group):
        """Codes of a panel in processing order; fills in the grids that are fitted on the way."""
        n_rows, n = W.shape
        remaining = np.zeros((_PANEL, n), dtype=W.dtype)
        remaining[:n_rows] = W
        codes = np.empty((n_rows, n), dtype=np.uint8)
        refit = self.group_size is not None and not self.act_order
        for begin, end in self._blocks(n):
            if refit and (begin == 0 or group[begin] != group[begin - 1]):
                g = group[begin]
                members = remaining[:n_rows, begin : begin + self.group_size]
                scale[:, g], zero[:, g] = uniform_grid(
                    members, self.bits, symmetric=self.symmetric, zero_point=self.zero_point
                )
            errors = np.zeros((_PANEL, end - begin), dtype=W.dtype)
            quantize_block(
                remaining[:n_rows, begin:end],
                np.ascontiguousarray(upper[begin:end, begin:end]),
                scale,
                zero,
                group[begin:end].astype(np.int32),
                2**self.bits - 1,
                codes[:, begin:end],
                errors[:n_rows],
                resolve_threads(self.n_jobs),
            )
            if end < n:
                remaining[:, end:] -= errors @ upper[begin:end, end:]
        return codes

    def _blocks(self, n):
        """Blocks of columns; none reaches over the start of a group that is fitted on the way."""
        stride = n if self.group_size is None or self.act_order else self.group_size
        for start in range(0, n, stride):
            stop = min(start + stride, n)
            for begin in range(start, stop, self.block_size):
                yield begin, min(begin + self.block_size, stop)
