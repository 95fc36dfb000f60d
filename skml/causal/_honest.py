"""Unbiased estimates of the mean of bounds on rows that did not choose the cells.

The bound of a row is the extreme of several cell quantities. Its plug-in value is too tight where
the cell quantities are estimated, and tighter the more they over-fit. But once the *choice* of the
extreme is fixed, the mean of the chosen quantities can be estimated from new rows alone.

Everything here is in the unit of the outcome, in which it lies in [0, 1].
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from ._balke_pearl import LOWER, UPPER, evaluate, law_of_cells


@dataclass(frozen=True)
class Rows:
    """Held-out rows: the cell, treatment and outcome of each, and its weight.

    Attributes
    ----------
    cell : ndarray of shape (n,), dtype int
        Cell of the instrument.
    treatment : ndarray of shape (n,)
        0 or 1.
    y : ndarray of shape (n,)
        Outcome, in the unit where it lies in [0, 1].
    weight : ndarray of shape (n,)
        Weights, of mean 1.
    propensity : ndarray of shape (n,) or None
        P(cell of the row | its covariates). None: the instrument does not depend on the
        covariates, and the share of the cell among these rows takes its place.
    """

    cell: np.ndarray
    treatment: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    propensity: np.ndarray | None = None


def manski_terms(cells, rows):
    """Terms whose weighted means are the mean lower and upper Manski bound.

    Parameters
    ----------
    cells : tuple of (pi, m1, m0), each of shape (n, n_cells)
        Fitted cell quantities of the rows, NaN for an empty cell.
    rows : Rows
        The held-out rows.

    Returns
    -------
    lower, upper : tuple of ndarray of shape (n,)
        Value of each row, divided by the probability of its cell.
    lower_residual, upper_residual
        The same as influence values, of mean 0.
    """
    pi, m1, m0 = cells
    mass = np.bincount(rows.cell, rows.weight, minlength=pi.shape[1]) / rows.weight.sum()
    # A cell without held-out rows has no estimate, so it cannot be chosen.
    usable = ~np.isnan(pi) if rows.propensity is not None else ~np.isnan(pi) & (mass > 0)

    def in_chosen(values, sign):
        chosen = np.where(usable, sign * values, np.inf).argmin(axis=1)
        return rows.cell == chosen

    y, a = rows.y, rows.treatment
    least_upper1 = in_chosen(m1 + 1 - pi, 1) * (a * y + 1 - a)
    greatest_lower0 = in_chosen(m0, -1) * (1 - a) * y
    greatest_lower1 = in_chosen(m1, -1) * a * y
    least_upper0 = in_chosen(m0 + pi, 1) * ((1 - a) * y + a)
    raw = greatest_lower1 - least_upper0, least_upper1 - greatest_lower0
    return _divided(raw, rows, mass)


def balke_pearl_terms(cells, rows):
    """As :func:`manski_terms`, for the bounds of Balke and Pearl over two cells."""
    law = law_of_cells(*cells)
    values, offsets = [], []
    for expressions, choose in ((LOWER, np.argmax), (UPPER, np.argmin)):
        constants, coefficients = expressions
        chosen = choose(evaluate(expressions, law), axis=1)
        y, a = (part.astype(np.intp) for part in (rows.y, rows.treatment))
        values.append(coefficients[chosen, rows.cell, y, a])
        offsets.append(constants[chosen])
    terms = [v / rows.propensity + c for v, c in zip(values, offsets, strict=True)]
    return (*terms, *(term - np.average(term, weights=rows.weight) for term in terms))


def _divided(raw, rows, mass):
    if rows.propensity is not None:
        terms = [values / rows.propensity for values in raw]
        return (*terms, *(term - np.average(term, weights=rows.weight) for term in terms))
    share = mass[rows.cell]
    terms = [values / share for values in raw]
    residuals = []
    for values in raw:
        totals = np.bincount(rows.cell, rows.weight * values, minlength=len(mass))
        counts = np.bincount(rows.cell, rows.weight, minlength=len(mass))
        means = totals / np.where(counts > 0, counts, 1)
        # The shares are estimated from the same rows; centring within the cell accounts for it.
        residuals.append((values - means[rows.cell]) / share)
    return (*terms, *residuals)


def mean_and_error(term, residual, weight):
    """Weighted mean of a term, and the standard deviation of its influence values."""
    n = len(term)
    spread = np.sqrt(np.sum((weight * residual) ** 2) / n)
    return np.average(term, weights=weight), spread


def imbens_manski_factor(lower, upper, spread, n, confidence_level):
    r"""Number of standard errors by which an interval estimate is widened.

    Parameters
    ----------
    lower, upper : float
        Estimates of the two bounds.
    spread : float
        The greater of the standard deviations of their influence values.
    n : int
        Number of rows.
    confidence_level : float
        Probability with which the parameter, a point between the bounds, is to be covered.

    Returns
    -------
    float
        The solution c of :math:`\Phi(c + \sqrt n (upper - lower) / spread) - \Phi(-c) = level`:
        the two-sided quantile for a point, the one-sided one for a wide interval. Bounds that
        cross are treated as a point.
    """
    if spread == 0:
        return 0.0
    gap = np.sqrt(n) * max(upper - lower, 0.0) / spread

    def excess(c):
        return norm.cdf(c + gap) - norm.cdf(-c) - confidence_level

    return brentq(excess, 0.0, norm.ppf(0.5 + confidence_level / 2) + 1e-9, xtol=1e-12)
