"""All states of a process in one table, sorted by depth."""

import numpy as np

from ._process import keeps_structure

_BLOCK = 1 << 16


class TooManyStates(ValueError):
    """A process has more states than a table may hold."""


class StateTable:
    """The states of a process, numbered, with the children of each.

    Parameters
    ----------
    process : Process
        The process.
    max_states : int
        Largest number of states.

    Attributes
    ----------
    n_states : int
        Number of states.
    root : int
        Number of the initial state.
    n_children, n_parents : ndarray of shape (n_states,)
        A(s) and B(s).
    levels : list of ndarray of int
        Numbers of the states of each depth; edges lead to greater depths.
    terminal : ndarray of int
        Numbers of the objects' states.
    """

    def __init__(self, process, max_states):
        self.process = process
        self.n_states = self._number_states(max_states)
        self.root = int(self.index(process.initial_state()[None])[0])
        everything = np.arange(self.n_states)
        depths = np.empty(self.n_states, dtype=np.int64)
        self.n_children = np.empty(self.n_states, dtype=np.int64)
        self.n_parents = np.empty(self.n_states, dtype=np.int64)
        for block in blocks(everything):
            depths[block] = self._depths(block)
            self.n_children[block] = np.count_nonzero(self.children(block) >= 0, axis=1)
            self.n_parents[block] = process.n_parents(self.states(block))
        order = np.argsort(depths, kind="stable")
        ends = np.flatnonzero(np.diff(depths[order])) + 1
        self.levels = np.split(order, ends)
        self.terminal = everything[self.n_children == 0]

    def inner_blocks(self, *, reverse=False):
        """Yield states that are no objects, in blocks of one depth each."""
        for level in reversed(self.levels) if reverse else self.levels:
            yield from blocks(level[self.n_children[level] > 0])


class IndexedTable(StateTable):
    """Table of a process that numbers its own states."""

    def _number_states(self, max_states):
        n_states = self.process.n_states
        if n_states > max_states:
            raise TooManyStates(f"{n_states} states, more than max_states = {max_states}")
        return n_states

    def index(self, states):
        return self.process._index(states)

    find = index

    def states(self, indices):
        return self.process._states_at(indices)

    def children(self, indices):
        return self.process._child_indices(indices)

    def _depths(self, indices):
        return self.process._depths(indices)


class ExploredTable(StateTable):
    """Table of any process, found by following all actions."""

    def _number_states(self, max_states):
        states, self._numbers, self._children = explore(self.process, max_states)
        self._states = states
        rows, _ = np.nonzero(self._children >= 0)
        children = self._children[self._children >= 0]
        self._depth = longest_paths(len(states), rows, children)
        return len(states)

    def find(self, states):
        return np.array([self._numbers.get(key, -1) for key in row_keys(states)], dtype=np.int64)

    def index(self, states):
        found = self.find(states)
        if (found < 0).any():
            state = np.asarray(states)[np.argmax(found < 0)]
            raise ValueError(f"{state.tolist()} is no state of {type(self.process).__name__}.")
        return found

    def states(self, indices):
        return self._states[indices]

    def children(self, indices):
        return self._children[indices]

    def _depths(self, indices):
        return self._depth[indices]


def make_table(process, max_states):
    """Number all states of a process.

    Raises
    ------
    TooManyStates
        If there are more than `max_states`.
    """
    kind = IndexedTable if keeps_structure(process) else ExploredTable
    return kind(process, max_states)


def blocks(indices):
    """Yield an array in pieces of bounded size."""
    for start in range(0, len(indices), _BLOCK):
        yield indices[start : start + _BLOCK]


def row_keys(states):
    """One hashable key per row."""
    states = np.ascontiguousarray(states, dtype=np.int64)
    return [row.tobytes() for row in states]


def explore(process, max_states):
    """Follow all actions from the initial state.

    Returns
    -------
    states : ndarray of shape (n_states, n_entries)
        Every state once.
    numbers : dict
        Row of `states` by the key of a state.
    children : ndarray of shape (n_states, n_actions)
        Row of `states` that each action leads to; -1 where there is no such action.
    """
    frontier = process.initial_state()[None]
    numbers = {row_keys(frontier)[0]: 0}
    states, children = [frontier], []
    while len(frontier):
        available = process.actions(frontier)
        rows, actions = np.nonzero(available)
        to = np.full(available.shape, -1)
        reached = process.step(frontier[rows], actions) if len(rows) else frontier[:0]
        fresh, found = [], np.empty(len(rows), dtype=np.int64)
        for position, key in enumerate(row_keys(reached)):
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(numbers)
                fresh.append(position)
            found[position] = number
        to[rows, actions] = found
        children.append(to)
        if len(numbers) > max_states:
            raise TooManyStates(f"more than max_states = {max_states} states")
        frontier = reached[fresh]
        states.append(frontier)
    return np.concatenate(states), numbers, np.concatenate(children)


def longest_paths(n_states, sources, targets):
    """Length of the longest path to each state of a directed acyclic graph.

    Raises
    ------
    ValueError
        If the graph has a cycle.
    """
    order = np.argsort(sources, kind="stable")
    targets = targets[order]
    starts = np.searchsorted(sources[order], np.arange(n_states + 1))
    waiting = np.bincount(targets, minlength=n_states)
    depth = np.zeros(n_states, dtype=np.int64)
    frontier, n_done = np.flatnonzero(waiting == 0), 0
    while len(frontier):
        n_done += len(frontier)
        lengths = starts[frontier + 1] - starts[frontier]
        edges = np.repeat(starts[frontier] - np.cumsum(lengths) + lengths, lengths)
        edges += np.arange(len(edges))
        reached = targets[edges]
        np.maximum.at(depth, reached, np.repeat(depth[frontier] + 1, lengths))
        np.subtract.at(waiting, reached, 1)
        candidates = np.unique(reached)
        frontier = candidates[waiting[candidates] == 0]
    if n_done < n_states:
        raise ValueError("the actions of the process lead in a circle; states must not recur.")
    return depth
