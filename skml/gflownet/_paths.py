"""Probability of objects as the sum over all paths that lead to them."""

import itertools

import numpy as np

from ._state_table import longest_paths

_BLOCK = 4096


def log_path_sums(process, states, policy, keys):
    """Logarithm of the probability that a policy builds each object, over ALL of its paths.

    P(s') is the sum of P(s) pi(a | s) over the edges (s, a) into s'. Going backwards from the
    objects gives the states that matter: substrings for strings that grow at both ends, subsets for
    sets, the box below a point for grids. The policy is asked once for each.

    Parameters
    ----------
    process : Process
        The process.
    states : ndarray of shape (n, n_entries)
        States of objects.
    policy : callable
        ``policy(states)`` gives the probabilities of the actions, shape (n, n_actions).
    keys : RowKeys
        Keys of states.

    Returns
    -------
    ndarray of shape (n,)
        Logarithms; -inf for what cannot be reached.
    """
    if not len(states):
        return np.zeros(0)
    first, inverse = keys.unique(states)
    ancestors, edges = _ancestors(process, states[first], keys)
    sources, targets, actions = edges
    log_p = np.full(len(ancestors), -np.inf)
    root = keys.keys(process.initial_state()[None])[0]
    log_p[[key == root for key in keys.keys(ancestors)]] = 0.0
    if len(sources):
        asked = np.unique(sources)
        probabilities = np.concatenate(
            [policy(ancestors[asked[k : k + _BLOCK]]) for k in range(0, len(asked), _BLOCK)]
        )
        with np.errstate(divide="ignore"):
            log_edges = np.log(probabilities[np.searchsorted(asked, sources), actions])
        _propagate(log_p, sources, targets, log_edges)
    return log_p[inverse]


def _ancestors(process, states, keys):
    """All states from which the given ones can be reached, and the edges between them."""
    numbers = {key: number for number, key in enumerate(keys.keys(states))}
    found, frontier, first_number = [states], states, 0
    sources, targets, actions = [], [], []
    while len(frontier):
        rows, parents, edge_actions = process.parents(frontier)
        first, inverse = keys.unique(parents) if len(parents) else (rows, rows)
        parent_numbers, fresh = np.empty(len(first), dtype=np.int64), []
        for position, key in enumerate(keys.keys(parents[first])):
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(numbers)
                fresh.append(first[position])
            parent_numbers[position] = number
        sources.append(parent_numbers[inverse])
        targets.append(rows + first_number)
        actions.append(edge_actions)
        first_number += len(frontier)
        frontier = parents[np.array(fresh, dtype=np.int64)]
        found.append(frontier)
    edges = tuple(np.concatenate(part).astype(np.int64) for part in (sources, targets, actions))
    return np.concatenate(found), edges


def _propagate(log_p, sources, targets, log_edges):
    """Add up the paths, one depth after the other, in place."""
    depth = longest_paths(len(log_p), sources, targets)
    # A state is complete when all edges into it are added: edges in the order of their targets.
    order = np.lexsort((targets, depth[targets]))
    sources, targets, log_edges = sources[order], targets[order], log_edges[order]
    bounds = np.searchsorted(depth[targets], np.arange(depth.max() + 2))
    for start, end in itertools.pairwise(bounds):
        if start == end:
            continue
        values = log_p[sources[start:end]] + log_edges[start:end]
        at = np.flatnonzero(np.diff(targets[start:end], prepend=-1))
        top = np.maximum.reduceat(values, at)
        shift = np.where(np.isfinite(top), top, 0.0)
        counts = np.diff(np.append(at, end - start))
        sums = np.add.reduceat(np.exp(values - np.repeat(shift, counts)), at)
        with np.errstate(divide="ignore"):
            log_p[targets[start:end][at]] = shift + np.log(sums)
