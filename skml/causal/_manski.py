"""Closed-form effect bounds from the partial moments of the cells of an instrument."""

import numpy as np


def manski_iv_bounds(pi, m1, m0, outcome_bounds):
    r"""Bound a treatment effect by a discrete instrument, under mean independence.

    Parameters
    ----------
    pi : array-like of shape (..., n_cells)
        Share of the treated in each cell of the instrument, P(A = 1 | cell). NaN in all three
        arrays marks an empty cell, which bounds nothing.
    m1 : array-like of shape (..., n_cells)
        E[A Y | cell], in the unit of the outcome.
    m0 : array-like of shape (..., n_cells)
        E[(1 - A) Y | cell].
    outcome_bounds : tuple of (float, float)
        Least and greatest value that the outcome can take, (s1, s2).

    Returns
    -------
    ndarray of shape (..., 2)
        Lower and upper bound of E[Y(1) - Y(0)]. A lower bound above the upper one is evidence
        against the instrument or the estimates; it is returned as it is. NaN if all cells are
        empty.

    Raises
    ------
    ValueError
        If the shapes differ or the outcome bounds are not increasing.

    See Also
    --------
    balke_pearl_bounds : Sharp bounds for a binary outcome and a binary instrument.

    Notes
    -----
    In each cell l the unseen potential outcomes lie between s1 and s2, hence

    .. math::

        l^1_l = m^1_l + (1 - \pi_l) s_1 \le &E[Y(1)] \le u^1_l = m^1_l + (1 - \pi_l) s_2 \\
        l^0_l = m^0_l + \pi_l s_1 \le &E[Y(0)] \le u^0_l = m^0_l + \pi_l s_2

    for every l, because the potential outcomes do not depend on the instrument. The bounds are
    :math:`b^- = \max_l l^1_l - \min_m u^0_m` and :math:`b^+ = \min_l u^1_l - \max_m l^0_m`,
    which equal the extremes over all pairs of cells.

    References
    ----------
    .. [1] J. Schweisthal, D. Frauen, M. Schröder, K. Hess, N. Kilbertus, S. Feuerriegel.
       "Learning Representations of Instruments for Partial Identification of Treatment
       Effects." ICML 2025. https://arxiv.org/abs/2410.08976
    .. [2] C. F. Manski. "Nonparametric bounds on treatment effects." American Economic Review,
       80(2), 1990, 319-323.

    Examples
    --------
    >>> from skml.causal import manski_iv_bounds
    >>> manski_iv_bounds([0.2, 0.8], [0.15, 0.5], [0.3, 0.1], (0, 1)).round(12)
    array([0. , 0.4])
    """
    s1, s2 = check_outcome_bounds(outcome_bounds)
    pi, m1, m0 = (np.asarray(values, dtype=np.float64) for values in (pi, m1, m0))
    if not pi.shape == m1.shape == m0.shape or pi.ndim == 0 or pi.shape[-1] == 0:
        raise ValueError(
            "pi, m1 and m0 must have one common shape (..., n_cells) with at least one cell, "
            f"got {pi.shape}, {m1.shape} and {m0.shape}"
        )
    empty = np.isnan(pi) | np.isnan(m1) | np.isnan(m0)
    lower1 = _largest(m1 + (1 - pi) * s1, empty)
    upper1 = _smallest(m1 + (1 - pi) * s2, empty)
    lower0 = _largest(m0 + pi * s1, empty)
    upper0 = _smallest(m0 + pi * s2, empty)
    bounds = np.stack([lower1 - upper0, upper1 - lower0], axis=-1)
    bounds[empty.all(axis=-1)] = np.nan
    return bounds


def check_outcome_bounds(outcome_bounds):
    """Return (s1, s2) as floats, or say what is wrong with them."""
    bounds = np.asarray(outcome_bounds, dtype=np.float64)
    if bounds.shape != (2,) or not np.isfinite(bounds).all() or not bounds[0] < bounds[1]:
        raise ValueError(
            "outcome_bounds must be two finite numbers (s1, s2) with s1 < s2, "
            f"got {outcome_bounds!r}"
        )
    return float(bounds[0]), float(bounds[1])


def _largest(values, empty):
    return np.where(empty, -np.inf, values).max(axis=-1)


def _smallest(values, empty):
    return np.where(empty, np.inf, values).min(axis=-1)
