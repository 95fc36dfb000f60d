"""Flows and values of every state of a table, by one pass from the objects to the root."""

import numpy as np

from ._process import keeps_structure
from ._sequences import AutoregressiveProcess, PrependAppendProcess
from ._state_table import blocks

_TOLERANCE = 1e-9


def evaluate_flows(table, rewards):
    """State flows under the uniform backward policy, F(s) = sum over edges of F(s') / B(s').

    Parameters
    ----------
    table : StateTable
        All states.
    rewards : ndarray of shape (n_terminals,)
        R(x), in the order of ``table.terminal``.

    Returns
    -------
    ndarray of shape (n_states,)
        F(s). It equals the value of the uniform policy when each step is weighted by A(s) / B(s').
    """
    flows = np.zeros(table.n_states)
    # What a state hands to each of its incoming edges.
    shares = np.zeros(table.n_states + 1)
    flows[table.terminal] = rewards
    shares[table.terminal] = rewards / table.n_parents[table.terminal]
    for block in table.inner_blocks(reverse=True):
        flows[block] = shares[table.children(block)].sum(axis=1)
        shares[block] = flows[block] / np.maximum(table.n_parents[block], 1)
    return flows


def evaluate_values(table, rewards):
    """Values of the uniform policy, V(s) = sum over edges of V(s') / A(s).

    Parameters
    ----------
    table : StateTable
        All states.
    rewards : ndarray of shape (n_terminals,)
        What ends a path, in the order of ``table.terminal``: R(x) g(x) to make V(s) = F(s) g(s).

    Returns
    -------
    ndarray of shape (n_states,)
        V(s).
    """
    process = table.process
    if keeps_structure(process) and isinstance(process, PrependAppendProcess):
        return _string_values(process.n_letters, process.length, rewards)
    if keeps_structure(process) and isinstance(process, AutoregressiveProcess) and not process.stop:
        return _sequence_values(process.n_categories, rewards)
    values = np.zeros(table.n_states + 1)
    values[table.terminal] = rewards
    for block in table.inner_blocks(reverse=True):
        values[block] = values[table.children(block)].sum(axis=1) / table.n_children[block]
    return values[:-1]


def _sequence_values(sizes, rewards):
    """Means over the last letter, one depth after the other."""
    levels = [rewards]
    for size in reversed(sizes):
        levels.append(levels[-1].reshape(-1, size).mean(axis=1))
    return np.concatenate(levels[::-1])


def _string_values(n_letters, length, rewards):
    """Means over the last and over the first letter, which prepending and appending choose."""
    levels = [rewards]
    for depth in range(length - 1, -1, -1):
        longer = levels[-1]
        value = longer.reshape(-1, n_letters).mean(axis=1)
        if depth > 0:
            value = (value + longer.reshape(n_letters, -1).mean(axis=0)) / 2
        levels.append(value)
    return np.concatenate(levels[::-1])


def branching_ratios(table):
    """Logarithms of g(s), the product of A / B along a path.

    Returns
    -------
    log_g : ndarray of shape (n_states,)
        Along one of the paths.
    conflict : tuple or None
        If two paths differ: the state and two values of g.
    """
    low = np.full(table.n_states, np.inf)
    high = np.full(table.n_states, -np.inf)
    low[table.root] = high[table.root] = 0.0
    with np.errstate(divide="ignore"):
        log_a, log_b = np.log(table.n_children), np.log(table.n_parents)
    for block in table.inner_blocks():
        children = table.children(block)
        rows, actions = np.nonzero(children >= 0)
        to, at = children[rows, actions], block[rows]
        np.minimum.at(low, to, low[at] + log_a[at] - log_b[to])
        np.maximum.at(high, to, high[at] + log_a[at] - log_b[to])
    differs = np.flatnonzero(high - low > _TOLERANCE)
    if not len(differs):
        return low, None
    state = table.states(differs[:1])[0].tolist()
    return low, (state, float(np.exp(low[differs[0]])), float(np.exp(high[differs[0]])))


def edge_weights(table, block, scores, *, share):
    """Relative probabilities of the edges from a block of states.

    Parameters
    ----------
    table : StateTable
        All states.
    block : ndarray of int
        States.
    scores : ndarray of shape (n_states,)
        V(s) or F(s).
    share : bool
        Whether a state's score is divided among its incoming edges, as flows are: the edges from
        s have the probabilities V(s') / sum V, or F(s') / B(s') / F(s).

    Returns
    -------
    children : ndarray of shape (n, n_actions)
        Where the edges lead; -1 where there is none.
    weights : ndarray of shape (n, n_actions)
        Weights; zero where there is no edge.
    """
    children = table.children(block)
    weights = np.where(children >= 0, scores[children], 0.0)
    if share:
        weights /= np.maximum(table.n_parents[children], 1)
    return children, weights


def normalised(weights, available):
    """Rows that sum to one; uniform over what is available where nothing has a weight."""
    total = weights.sum(axis=1, keepdims=True)
    empty = total[:, 0] <= 0
    if empty.any():
        weights = np.where(empty[:, None], available, weights)
        total = weights.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(weights / total)


def visit_probabilities(table, probabilities):
    """Probability that a path passes through each state.

    Parameters
    ----------
    table : StateTable
        All states.
    probabilities : callable
        ``probabilities(block)`` gives children and edge probabilities of a block of states.

    Returns
    -------
    ndarray of shape (n_states,)
        For objects, the probability to sample them.
    """
    visits = np.zeros(table.n_states)
    visits[table.root] = 1.0
    for block in table.inner_blocks():
        for part in blocks(block[visits[block] > 0]):
            children, p = probabilities(part)
            there = children >= 0
            np.add.at(visits, children[there], (visits[part, None] * p)[there])
    return visits
