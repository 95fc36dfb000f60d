"""Plain references for the tests of the bound estimators."""

import itertools

import numpy as np
from scipy.optimize import linprog


def cells_of(tables, labels, n_cells):
    """Cell averages (pi, m1, m0) of tables (3, n_x, n_z), one cell at a time."""
    averages = np.full((3, tables.shape[1], n_cells), np.nan)
    for k in range(n_cells):
        if (labels == k).any():
            averages[:, :, k] = tables[:, :, labels == k].mean(axis=2)
    return averages


def bounds_over_pairs(pi, m1, m0, s1, s2):
    """Manski bounds by the double loop over pairs of cells."""
    lower, upper = -np.inf, np.inf
    for k, m in itertools.product(range(len(pi)), repeat=2):
        lower = max(lower, m1[k] + (1 - pi[k]) * s1 - m0[m] - pi[m] * s2)
        upper = min(upper, m1[k] + (1 - pi[k]) * s2 - m0[m] - pi[m] * s1)
    return np.array([lower, upper])


def bounds_by_program(p):
    """Sharp bounds of the average effect over 16 types, by linear programming."""
    types = list(itertools.product(range(2), repeat=4))  # A(0), A(1), Y(0), Y(1)
    effect = np.array([y1 - y0 for _, _, y0, y1 in types])
    rows, values = [np.ones(16)], [1.0]
    for z, y, a in itertools.product(range(2), repeat=3):
        rows.append([float(t[z] == a and t[2 + a] == y) for t in types])
        values.append(p[z, y, a])
    ends = []
    for sign in (1, -1):
        # Rounding of p may leave the equalities infeasible by a hair.
        result = linprog(sign * effect, A_eq=np.array(rows), b_eq=values, method="highs")
        assert result.status == 0, result.message
        ends.append(sign * result.fun)
    return np.array(ends)


def law_of_types(weights):
    """p[z, y, a] of a distribution over the 16 types."""
    p = np.zeros((2, 2, 2))
    for weight, (a0, a1, y0, y1) in zip(
        weights, itertools.product(range(2), repeat=4), strict=True
    ):
        for z, a in enumerate((a0, a1)):
            p[z, (y0, y1)[a], a] += weight
    return p


def empirical_cells(y, treatment, cell):
    """(pi, m1, m0), each (n_cells,), of rows without covariates."""
    cell = np.unique(cell, axis=0, return_inverse=True)[1].ravel()
    counts = np.bincount(cell)
    return tuple(
        np.bincount(cell, values) / counts
        for values in (treatment, treatment * y, (1 - treatment) * y)
    )
