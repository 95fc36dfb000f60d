"""Processes and references that the tests share, written for clarity."""

import itertools

import numpy as np

from skml.gflownet import PrependAppendProcess, Process


class TreeProcess(Process):
    """A tree given by the children of each node; a state is the number of a node."""

    def __init__(self, children):
        self.children = children

    @property
    def n_actions(self):
        return max(len(c) for c in self.children)

    @property
    def state_sizes(self):
        return (len(self.children),)

    def actions(self, states):
        counts = np.array([len(c) for c in self.children])[states[:, 0]]
        return np.arange(self.n_actions) < counts[:, None]

    def step(self, states, actions):
        pairs = zip(states[:, 0], actions, strict=True)
        return np.array([[self.children[s][a]] for s, a in pairs]).reshape(-1, 1)

    def parents(self, states):
        edges = {c: (s, a) for s, kids in enumerate(self.children) for a, c in enumerate(kids)}
        rows = np.array([row for row, s in enumerate(states[:, 0]) if s in edges], dtype=int)
        found = [edges[s] for s in states[rows, 0]]
        return (
            rows,
            np.array([[s] for s, _ in found]).reshape(-1, 1),
            np.array([a for _, a in found], dtype=int),
        )


class DagProcess(TreeProcess):
    """A graph given by the children of each node, to which several nodes may lead."""

    def parents(self, states):
        edges = [
            (row, s, a)
            for row, state in enumerate(states[:, 0])
            for s, kids in enumerate(self.children)
            for a, child in enumerate(kids)
            if child == state
        ]
        rows, sources, actions = np.array(edges, dtype=int).reshape(-1, 3).T
        return rows, sources[:, None], actions


class MergedStrings(PrependAppendProcess):
    """Strings that grow at both ends, where two actions with one result are one edge."""

    def actions(self, states):
        available = super().actions(states)
        K = self.n_letters
        for row, state in enumerate(states):
            length = np.count_nonzero(state)
            for c in range(K):
                # Prepending c gives what appending c gives if all letters are c.
                if length and (state[:length] == c + 1).all():
                    available[row, K + c] = False
        return available

    def parents(self, states):
        rows, parents, actions = super().parents(states)
        available = self.actions(parents)[np.arange(len(rows)), actions]
        return rows[available], parents[available], actions[available]

    def n_parents(self, states):
        return Process.n_parents(self, states)


def random_tree(rng, depth, low=1, high=4):
    """Children lists of a tree with unequal numbers of children and leaves of several depths."""
    children, frontier = [[]], [0]
    for level in range(depth):
        following = []
        for node in frontier:
            if level and rng.random() < 0.3:
                continue
            for _ in range(rng.integers(low, high + 1)):
                children[node].append(len(children))
                following.append(len(children))
                children.append([])
        frontier = following
    return children


def all_rows(sizes):
    """Every combination of numbers below the sizes."""
    return np.array(list(itertools.product(*(range(size) for size in sizes))))


def all_sets(n_items, sizes):
    """0/1 rows of all sets of the given sizes."""
    members = [c for k in sizes for c in itertools.combinations(range(n_items), k)]
    rows = np.zeros((len(members), n_items), dtype=int)
    for row, chosen in enumerate(members):
        rows[row, list(chosen)] = 1
    return rows


def brute_force_probability(process, state, policy):
    """Probability of an object, by recursion over every edge into every state."""
    state = np.asarray(state)
    if (state == process.initial_state()).all():
        return 1.0
    _, parents, actions = process.parents(state[None])
    return sum(
        brute_force_probability(process, parent, policy) * policy(parent[None])[0, action]
        for parent, action in zip(parents, actions, strict=True)
    )


def interval_probability(text, append, prepend):
    """P[i, j] = P[i+1, j] pi(prepend x_i) + P[i, j-1] pi(append x_j), over substrings."""
    n = len(text)
    P = {(i, i): append((), text[i]) for i in range(n)}
    for size in range(2, n + 1):
        for i in range(n - size + 1):
            j = i + size - 1
            P[i, j] = P[i + 1, j] * prepend(tuple(text[i + 1 : j + 1]), text[i])
            P[i, j] += P[i, j - 1] * append(tuple(text[i:j]), text[j])
    return P[0, n - 1]
