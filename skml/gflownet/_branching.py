"""Branching ratios without a table of all states."""

import numpy as np

from ._process import keeps_structure
from ._rollouts import roll_out
from ._row_keys import RowKeys

_TOLERANCE = 1e-9
_N_PATHS = 256


def log_branching_ratios(process, states):
    """Logarithms of g(s), the product of A / B along a path to s.

    Parameters
    ----------
    process : Process
        A process in which g does not depend on the path.
    states : ndarray of shape (n, n_entries)
        States.

    Returns
    -------
    ndarray of shape (n,)
        log g(s); in closed form for our own processes, else along one path back to the root.
    """
    if keeps_structure(process) and process.path_invariant:
        return process._log_branching(states)
    return _walk_back(process, states, np.random.default_rng(0))


def find_path_dependence(process, rng):
    """Look for a state to which two paths have different branching ratios.

    Parameters
    ----------
    process : Process
        Any process.
    rng : numpy.random.Generator
        Draws paths forwards and backwards.

    Returns
    -------
    tuple or None
        State and two values of g; None if no such state was met.
    """
    if keeps_structure(process) and process.path_invariant:
        return None
    paths = roll_out(process, _N_PATHS, rng)
    steps = np.log(paths.n_children / process.n_parents(paths.next_states))
    table = np.zeros((paths.path.max() + 1, paths.step.max() + 1))
    table[paths.path, paths.step] = steps
    forwards = np.cumsum(table, axis=1)[paths.path, paths.step]
    first, inverse = RowKeys(process.state_sizes).unique(paths.next_states)
    states = paths.next_states[first]
    low, high = np.full(len(first), np.inf), np.full(len(first), -np.inf)
    np.minimum.at(low, inverse, forwards)
    np.maximum.at(high, inverse, forwards)
    for _ in range(2):
        backwards = _walk_back(process, states, rng)
        low, high = np.minimum(low, backwards), np.maximum(high, backwards)
    differs = np.flatnonzero(high - low > _TOLERANCE)
    if not len(differs):
        return None
    k = differs[0]
    return states[k].tolist(), float(np.exp(low[k])), float(np.exp(high[k]))


def _walk_back(process, states, rng):
    """log g along one random path back from each state."""
    log_g = np.zeros(len(states))
    at, rows = states, np.arange(len(states))
    while True:
        edge_rows, parents, _ = process.parents(at)
        if not len(edge_rows):
            return log_g
        counts = np.bincount(edge_rows, minlength=len(at))
        order = np.argsort(edge_rows, kind="stable")
        starts = np.cumsum(counts) - counts
        moving = np.flatnonzero(counts)
        picked = order[starts[moving] + rng.integers(counts[moving])]
        at, rows = parents[picked], rows[moving]
        n_children = np.count_nonzero(process.actions(at), axis=1)
        log_g[rows] += np.log(n_children / counts[moving])
