"""Sharp bounds for a binary outcome, treatment and instrument."""

import numpy as np

# Each line is one linear expression in p_ya.z = P(Y = y, A = a | Z = z).
_LOWER = """
p11.1 + p00.0 - 1
p11.0 + p00.1 - 1
p11.0 - p11.1 - p10.1 - p01.0 - p10.0
p11.1 - p11.0 - p10.0 - p01.1 - p10.1
- p01.1 - p10.1
- p01.0 - p10.0
p00.1 - p01.1 - p10.1 - p01.0 - p00.0
p00.0 - p01.0 - p10.0 - p01.1 - p00.1
"""
_UPPER = """
1 - p01.1 - p10.0
1 - p01.0 - p10.1
- p01.0 + p01.1 + p00.1 + p11.0 + p00.0
- p01.1 + p11.1 + p00.1 + p01.0 + p00.0
p11.1 + p00.1
p11.0 + p00.0
- p10.1 + p11.1 + p00.1 + p11.0 + p10.0
- p10.0 + p11.0 + p00.0 + p11.1 + p10.1
"""


def _coefficients(text):
    """Constants (8,) and coefficients (8, 2, 2, 2), indexed [z, y, a], of the expressions."""
    lines = text.strip().splitlines()
    constants, coefficients = np.zeros(len(lines)), np.zeros((len(lines), 2, 2, 2))
    for k, line in enumerate(lines):
        sign = 1.0
        for word in line.split():
            if word in "+-":
                sign = 1.0 if word == "+" else -1.0
            elif word == "1":
                constants[k] += sign
            else:
                y, a, z = int(word[1]), int(word[2]), int(word[4])
                coefficients[k, z, y, a] += sign
    return constants, coefficients


LOWER, UPPER = _coefficients(_LOWER), _coefficients(_UPPER)


def balke_pearl_bounds(p):
    r"""Bound an average effect sharply, for a binary outcome and a binary instrument.

    Parameters
    ----------
    p : array-like of shape (..., 2, 2, 2)
        Probabilities P(Y = y, A = a | Z = z) at ``p[..., z, y, a]``; they sum to 1 over y and a.

    Returns
    -------
    ndarray of shape (..., 2)
        Lower and upper bound of P(Y(1) = 1) - P(Y(0) = 1).

    Raises
    ------
    ValueError
        If the shape is wrong, or the entries are no probabilities.

    See Also
    --------
    manski_iv_bounds : Bounds for any outcome range and any number of cells.

    Notes
    -----
    The instrument must be independent of both potential outcomes and both potential treatments
    together. Then the extremes of the effect over all laws that agree with p are a linear
    program over the 16 types of response and compliance; its vertices give the lower bound as
    the greatest of eight linear expressions in p, and the upper one as the least of eight. The
    bounds are never wider than those of :func:`manski_iv_bounds`.

    References
    ----------
    .. [1] A. Balke, J. Pearl. "Bounds on treatment effects from studies with imperfect
       compliance." Journal of the American Statistical Association, 92(439), 1997, 1171-1176.

    Examples
    --------
    A trial of cholestyramine, by assignment: nobody without the offer takes the drug.

    >>> from skml.causal import balke_pearl_bounds
    >>> control, offered = [[0.919, 0], [0.081, 0]], [[0.315, 0.139], [0.073, 0.473]]
    >>> balke_pearl_bounds([control, offered]).round(3)
    array([0.392, 0.78 ])
    """
    p = np.asarray(p, dtype=np.float64)
    if p.shape[-3:] != (2, 2, 2):
        raise ValueError(f"p must have the shape (..., 2, 2, 2) for [z, y, a], got {p.shape}")
    totals = p.sum(axis=(-2, -1))
    if not (np.all(p >= -1e-9) and np.allclose(totals, 1, atol=1e-6)):
        raise ValueError(
            "p must hold probabilities that sum to 1 over [y, a] for each z, got entries from "
            f"{p.min():.6g} to {p.max():.6g} and sums from {totals.min():.6g} to "
            f"{totals.max():.6g}"
        )
    lower = evaluate(LOWER, p).max(axis=-1)
    upper = evaluate(UPPER, p).min(axis=-1)
    return np.stack([lower, upper], axis=-1)


def evaluate(expressions, p):
    """Values (..., 8) of the expressions at the laws p (..., 2, 2, 2)."""
    constants, coefficients = expressions
    return constants + np.einsum("...zya,kzya->...k", p, coefficients)


def law_of_cells(pi, m1, m0):
    """Laws p[..., z, y, a] from pi, E[AY], E[(1-A)Y] (..., 2) of a binary outcome."""
    treated = np.stack([pi - m1, m1], axis=-1)
    untreated = np.stack([1 - pi - m0, m0], axis=-1)
    return np.stack([untreated, treated], axis=-1)
