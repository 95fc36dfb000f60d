"""Exact sampling of sequences whose scores are a table, in a space of any size.

A prefix that no row of the table begins with leads to unseen objects only, all with the smallest
reward, so its flow is that reward times their number. The prefixes that do occur form a trie.
"""

import numpy as np

from ._rewards import log_unit, out_of_unit
from ._state_table import TooManyStates

_ENUMERABLE = 10_000_000


class TrieSolution:
    """Flows of all prefixes of a table of sequences.

    Parameters
    ----------
    process : AutoregressiveProcess
        The process.
    model : RewardModel
        Its table holds distinct sequences, -1 after their end, and their scores. All others score
        zero.
    max_states : int
        Largest number of prefixes.
    by_edge : bool
        Whether state values are flows.
    """

    def __init__(self, process, model, max_states, by_edge=False):
        self.process, self.by_edge = process, by_edge
        objects, scores = model.table
        order = np.lexsort(objects.T[::-1])
        self.objects, scores = objects[order], np.maximum(scores[order], model.floor)
        self._log_rewards = model.log_rewards(scores)
        self._log_unseen = float(model.log_rewards(model.floor))
        self.n_below = _count_below(process)
        if model.floor > 0 and not np.isfinite(self.n_below[0]):
            raise ValueError(
                "reward_floor must be 0 where there are more than 1e308 objects, since most of "
                "the probability is theirs."
            )
        # All that follows is in a unit in which the sum of all rewards is a number.
        log_total = float(self._log_rewards.max())
        if model.floor > 0:
            log_total = max(log_total, self._log_unseen + np.log(self.n_below[0]))
        self._log_unit = log_unit(log_total)
        self.rewards = model.rewards(scores, self._log_unit)
        self.unseen = float(model.rewards(model.floor, self._log_unit))
        self._sums = np.concatenate([[0.0], np.cumsum(self.rewards)])
        self._build(max_states)
        self.total = float(self.flows[0][0])
        if not self.total > 0:
            raise ValueError("All rewards are zero; at least one must be positive.")
        self.log_partition = float(np.log(self.total)) + self._log_unit

    def _build(self, max_states):
        n_rows, length = self.objects.shape
        sizes = self.process.n_categories
        differs = self.objects[1:] != self.objects[:-1]
        # First column in which a row differs from the one before.
        change = np.concatenate([[-1], np.argmax(differs, axis=1)]).astype(np.int64)
        lengths = self.lengths = np.count_nonzero(self.objects >= 0, axis=1)
        self.starts, self.keys, self.flows = [], [], []
        node_of_row = np.zeros(n_rows, dtype=np.int64)
        self.n_nodes = 0
        for depth in range(length + 1):
            bounds = np.flatnonzero(change < depth) if depth else np.array([0])
            ends = np.append(bounds[1:], n_rows)
            exists = lengths[bounds] >= depth
            starts, ends = bounds[exists], ends[exists]
            if depth:
                letters = self.objects[starts, depth - 1]
                self.keys.append(node_of_row[starts] * sizes[depth - 1] + letters)
            self.starts.append(starts)
            self.flows.append(self._sum_flows(depth, starts, ends))
            node_of_row = np.repeat(np.arange(len(bounds)), np.diff(np.append(bounds, n_rows)))
            # Rows that have ended are numbered too, but no key is made of them.
            node_of_row = (np.cumsum(exists) - 1)[node_of_row]
            self.n_nodes += len(starts)
            if self.n_nodes > max_states:
                raise TooManyStates(f"more than max_states = {max_states} prefixes")

    def _sum_flows(self, depth, starts, ends):
        # Sums within a node, not differences of global sums, which would cancel.
        sums = np.add.reduceat(np.append(self.rewards, 0.0), np.stack([starts, ends], 1).ravel())
        if self.unseen == 0:
            return sums[::2]
        return sums[::2] + self.unseen * (self.n_below[depth] - (ends - starts))

    def _nodes(self, states, depth):
        """Number of each prefix among those of its depth, -1 where no row begins with it."""
        node = np.zeros(len(states), dtype=np.int64)
        for level in range(depth):
            keys = self.keys[level]
            if not len(keys):
                return np.full(len(states), -1)
            wanted = node * self.process.n_categories[level] + states[:, level] - 1
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            node = np.where((node >= 0) & (keys[place] == wanted), place, -1)
        return node

    def _groups(self, states):
        """Rows of states that are not over, by their number of letters."""
        lengths = self.process._sizes_of(states)
        over = (
            states[:, -1] == 1 if self.process.stop else lengths == len(self.process.n_categories)
        )
        for depth in np.unique(lengths[~over]):
            rows = np.flatnonzero(~over & (lengths == depth))
            yield int(depth), rows, self._nodes(states[rows], int(depth))

    def policy(self, states):
        """Probabilities of the actions, shape (n, n_actions); zeros for objects."""
        probabilities = np.zeros((len(states), self.process.n_actions))
        for depth, rows, nodes in self._groups(states):
            weights = self._weights(depth, states[rows], nodes)
            total = weights.sum(axis=1, keepdims=True)
            # Where all is unseen and worth nothing, any action does.
            available = self.process.actions(states[rows])
            weights = np.where(total > 0, weights, available)
            probabilities[rows] = weights / weights.sum(axis=1, keepdims=True)
        return probabilities

    def _weights(self, depth, states, nodes):
        process, sizes = self.process, self.process.n_categories
        weights = np.zeros((len(states), process.n_actions))
        if depth < len(sizes):
            n_letters = sizes[depth]
            if self.unseen > 0:
                weights[:, :n_letters] = self.unseen * self.n_below[depth + 1]
            keys = self.keys[depth]
            first, last = np.searchsorted(keys, [nodes * n_letters, (nodes + 1) * n_letters])
            counts = np.where(nodes >= 0, last - first, 0)
            rows = np.repeat(np.arange(len(states)), counts)
            child = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(len(rows))
            weights[rows, keys[child] - nodes[rows] * n_letters] = self.flows[depth + 1][child]
        if process.stop:
            first = _of_nodes(self.starts[depth], nodes)
            ends_here = (nodes >= 0) & (self.lengths[first] == depth)
            weights[:, -1] = np.where(ends_here, self.rewards[first], self.unseen)
        return weights

    def state_values(self, states):
        """V(s) = F(s) g(s); F(s) if rectified by edge."""
        flows = np.empty(len(states))
        is_object = ~self.process.actions(states).any(axis=1)
        objects = self.process.objects(states[is_object])
        flows[is_object] = np.exp(self._log_rewards_of(objects) - self._log_unit)
        for depth, rows, nodes in self._groups(states):
            unseen = self.unseen * self.n_below[depth] if self.unseen else 0.0
            flows[rows] = np.where(nodes >= 0, _of_nodes(self.flows[depth], nodes), unseen)
        if self.by_edge:
            return out_of_unit(flows, self._log_unit)
        return out_of_unit(flows, self._log_unit + self.process._log_branching(states))

    def _log_rewards_of(self, objects):
        """Logarithms of the rewards of sequences."""
        rows = self._rows_of(objects)
        return np.where(rows >= 0, self._log_rewards[rows], self._log_unseen)

    def _rows_of(self, objects):
        """Row of the table that holds each sequence, -1 for those that are not in it."""
        found = np.full(len(objects), -1)
        lengths = np.count_nonzero(objects >= 0, axis=1)
        for length in np.unique(lengths):
            rows = np.flatnonzero(lengths == length)
            nodes = self._nodes(objects[rows] + 1, int(length))
            first = _of_nodes(self.starts[length], nodes)
            # The sequence that ends where a prefix does stands first among those that go on.
            seen = (nodes >= 0) & (self.lengths[first] == length)
            found[rows] = np.where(seen, first, -1)
        return found

    def log_probability(self, objects):
        """log R(x) - log Z."""
        return self._log_rewards_of(objects) - self.log_partition

    @property
    def probability_of_unseen(self):
        """Probability of each sequence that is not in the table."""
        return float(np.exp(self._log_unseen - self.log_partition))

    def sample(self, n_samples, rng):
        """Draw sequences.

        A walk that inverts the cumulative flow of the children at every node narrows an interval of
        rows; with one uniform number for all steps it is one search over the rows.
        """
        threshold = rng.random(n_samples) * self.total
        is_unseen = threshold >= self._sums[-1]
        if self.unseen == 0:
            threshold = np.minimum(threshold, np.nextafter(self._sums[-1], 0.0))
            is_unseen[:] = False
        rows = np.searchsorted(self._sums, threshold, side="right") - 1
        drawn = self.objects[np.minimum(rows, len(self.objects) - 1)]
        if is_unseen.any():
            drawn[is_unseen] = self._sample_unseen(int(is_unseen.sum()), rng)
        return drawn

    def _sample_unseen(self, n_samples, rng):
        """Draw uniformly from the sequences that are not in the table."""
        n_objects = self.n_below[0]
        if n_objects <= _ENUMERABLE and n_objects < 2 * len(self.objects):
            unseen = self._all_unseen()
            return unseen[rng.integers(len(unseen), size=n_samples)]
        kept = []
        while n_samples > 0:  # at least every second one is accepted
            drawn = self._sample_uniformly(n_samples, rng)
            kept.append(drawn[self._rows_of(drawn) < 0])
            n_samples -= len(kept[-1])
        return np.concatenate(kept)

    def _sample_uniformly(self, n_samples, rng):
        sizes = self.process.n_categories
        drawn = np.column_stack([rng.integers(size, size=n_samples) for size in sizes])
        if self.process.stop:
            # Below a prefix of depth t there are n_below[t] objects, one of which is the prefix.
            going = np.ones(n_samples, dtype=bool)
            for depth in range(len(sizes)):
                going &= rng.random(n_samples) * self.n_below[depth] >= 1.0
                drawn[~going, depth] = -1
        return drawn

    def _all_unseen(self):
        process = self.process
        n_prefixes = sum(process._level_sizes)
        if process.stop:
            states = process._states_at(np.arange(n_prefixes, 2 * n_prefixes))
        else:
            states = process._states_at(
                np.arange(n_prefixes - process._level_sizes[-1], n_prefixes)
            )
        objects = process.objects(states)
        return objects[self._rows_of(objects) < 0]

    def distribution(self):
        """Sequences of the table, their probabilities along the trie, and R(x) / Z."""
        probabilities = np.zeros(len(self.rewards))
        visits = np.ones(1)
        for depth, (starts, flows) in enumerate(zip(self.starts, self.flows, strict=True)):
            if depth:
                parent = self.keys[depth - 1] // self.process.n_categories[depth - 1]
                visits = visits[parent] * _ratio(flows, self.flows[depth - 1][parent])
            leaf = self.lengths[starts] == depth
            share = _ratio(self.rewards[starts], flows)
            probabilities[starts[leaf]] = (visits * share)[leaf]
        return self.objects, probabilities, self.rewards / self.total


def _of_nodes(values, nodes):
    """Values of nodes; anything where a node is -1."""
    return values[nodes] if len(values) else np.zeros(len(nodes), dtype=values.dtype)


def _ratio(part, whole):
    """Zero where the whole is zero."""
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)


def _count_below(process):
    """Number of objects that begin with a prefix, by the length of the prefix."""
    counts = [1.0]
    for size in reversed(process.n_categories):
        counts.append(size * counts[-1] + bool(process.stop))
    return np.array(counts[::-1])
