"""Random policy evaluation with a network; this module imports torch."""

import numpy as np
import torch
from torch.nn import functional

from ._branching import log_branching_ratios
from ._networks import NetworkHolder
from ._process import keeps_structure
from ._rewards import LARGEST_LOG, log_unit, out_of_unit
from ._rollouts import roll_out

# softplus of this is one.
_UNIT = 0.5413248546129181
# Paths that show how large values are, and how many entries of states are held for them at once.
_N_PROBES = 64
_N_FREE_PATHS = 2048
_FREE_ENTRIES = 2**15
# How many entries the children of states may have that are evaluated at once.
_CHILD_ENTRIES = 2**25


class ValueLearner(NetworkHolder):
    """Learns the values of the uniform policy, from which the sampling policy follows.

    The network gives v(s) = V(s) / scale, V the value of the uniform policy with the rewards
    R(x) g(x). The expectation over actions is exact: all children are evaluated. If g depends on
    the path, flows take the place of values and each step has the weight A(s) / B(s').

    Parameters
    ----------
    process : Process
        The process.
    by_edge : bool
        Whether to rectify by edge.
    memory : RewardMemory
        Rewards of visited objects.
    hidden_layer_sizes : tuple of int
        Widths of the network.
    keys : RowKeys
        Keys of states.
    terminal : {"learned", "exact", "network"}
        Where the value of an object that is a child comes from: the memory, and the network for
        what is not visited; the rewards of all children; the network always.
    trace_decay : float
        0: one-step targets; towards 1 the sampled paths count for more.
    monte_carlo : bool
        Targets are the rewards at the end of the paths; no children are evaluated.
    module : callable or None
        ``module(state_sizes, n_outputs)`` makes the network; None: a StateNetwork.
    device : str
        Where the network is.
    """

    def __init__(
        self,
        process,
        *,
        by_edge,
        memory,
        hidden_layer_sizes,
        keys,
        terminal="learned",
        trace_decay=0.0,
        monte_carlo=False,
        module=None,
        device="cpu",
    ):
        self.process, self.by_edge, self.memory, self.module = process, by_edge, memory, module
        self.hidden_layer_sizes, self.keys = tuple(hidden_layer_sizes), keys
        self.terminal, self.trace_decay, self.monte_carlo = terminal, trace_decay, monte_carlo
        self.device = torch.device(device)
        self.network = self._build().to(self.device)
        self.scale = None
        self.log_flow_sizes = None
        self.log_unit_of_g = 0.0

    @property
    def has_policy(self):
        """Whether rewards were seen, which give the values their scale."""
        return self.scale is not None

    def _build(self):
        return self._make_network(1)

    def parameter_groups(self, learning_rate):
        """What the optimiser updates."""
        return [{"params": list(self.network.parameters()), "lr": learning_rate}]

    def prepare(self, rng):
        """Learn, without rewards, how large values are: g, and how flows shrink along a path."""
        if not self.by_edge:
            # A generator of its own: the paths of training do not depend on this look.
            paths = roll_out(self.process, _N_PROBES, np.random.default_rng(0))
            log_g = log_branching_ratios(self.process, paths.objects_states)
            self.log_unit_of_g = log_unit(float(log_g.max()))
        elif keeps_structure(self.process):
            self._measure_flows(rng)

    def _measure_flows(self, rng):
        """Mean of the product of the later A / B, by the number of steps before."""
        at_once = max(1, min(_N_FREE_PATHS, _FREE_ENTRIES // len(self.process.state_sizes)))
        totals = counts = np.zeros(0)
        for n_paths in _split(_N_FREE_PATHS, at_once):
            paths = roll_out(self.process, n_paths, rng)
            log_sizes = _sums_to_the_end(paths, self._log_steps(paths))
            if log_sizes.max() > LARGEST_LOG:
                raise ValueError(
                    "rectification='edge' learns flows, which are as large as the number of "
                    f"objects, about e**{log_sizes.max():.0f} here: more than float64 holds. Take "
                    "an objective that learns logarithms, such as objective='tb'."
                )
            length = max(len(totals), paths.step.max() + 2)
            totals = _padded(totals, length)
            totals += np.bincount(paths.step, weights=np.exp(log_sizes), minlength=length)
            counts = _padded(counts, length) + np.bincount(paths.step, minlength=length)
        with np.errstate(invalid="ignore"):
            self.log_flow_sizes = np.nan_to_num(np.log(totals / counts))

    def _log_steps(self, paths):
        """log A(s) / B(s') of each edge."""
        return np.log(paths.n_children / self.process.n_parents(paths.next_states))

    def _scale_of(self, states):
        if self.log_flow_sizes is None:
            return np.full(len(states), self.scale)
        depth = np.minimum(self.process._step_counts(states), len(self.log_flow_sizes) - 1)
        return self.scale * np.exp(self.log_flow_sizes[depth])

    def _end_values(self, states, rewards):
        """V(x) or F(x) of objects, in the units of rewards and of g."""
        if self.by_edge:
            return rewards
        log_g = log_branching_ratios(self.process, states) - self.log_unit_of_g
        return rewards * np.exp(log_g)

    def _network_values(self, states):
        """V(s) or F(s) by the network, without gradient, in the units of rewards and of g."""
        with torch.no_grad():
            values = self._forward(states)
        return values.cpu().numpy().astype(np.float64) * self._scale_of(states)

    def _forward(self, states):
        outputs = self.network(torch.from_numpy(states).to(self.device))[:, 0]
        return functional.softplus(outputs + _UNIT)

    def values(self, states):
        """V(s) or F(s) of any states, in units: rewards where they are known, else the network."""
        if self.terminal == "network":
            return self._values_at(states, ~self.process.actions(states).any(axis=1))
        ends, is_object, shares = self._follow_single_actions(states)
        return self._values_at(ends, is_object) * shares

    def _follow_single_actions(self, states):
        """Go on while there is no choice, as to stop at the full length, to where rewards may be.

        Returns
        -------
        states : ndarray of shape (n, n_entries)
            Where the ways end: with a choice, or as objects.
        is_object : ndarray of shape (n,), dtype bool
            Which of the two.
        shares : ndarray of shape (n,)
            What the value there is multiplied by.
        """
        states, shares = np.array(states), np.ones(len(states))
        available = self.process.actions(states)
        n_children = np.count_nonzero(available, axis=1)
        while len(rows := np.flatnonzero(n_children == 1)):
            states[rows] = self.process.step(states[rows], available[rows].argmax(axis=1))
            if self.by_edge:
                shares[rows] /= self.process.n_parents(states[rows])
            available[rows] = self.process.actions(states[rows])
            n_children[rows] = np.count_nonzero(available[rows], axis=1)
        return states, n_children == 0, shares

    def _values_at(self, states, is_object):
        values, rewards = np.empty(len(states)), np.full(len(states), np.nan)
        if is_object.any() and self.terminal != "network":
            objects = states[is_object]
            if self.terminal == "exact":
                rewards[is_object] = self.memory.ask(objects, count="new")
            else:
                rewards[is_object] = self.memory.recall(objects)
        known = ~np.isnan(rewards)
        if known.any():
            values[known] = self._end_values(states[known], rewards[known])
        if not known.all():
            values[~known] = self._network_values(states[~known])
        return values

    def edge_values(self, states, available=None):
        """What each edge contributes: V(s'), or F(s') / B(s'); zero where there is no edge.

        Returns
        -------
        ndarray of shape (n, n_actions)
            Sums over rows are A(s) V(s), or F(s).
        """
        available = self.process.actions(states) if available is None else available
        at_once = max(1, _CHILD_ENTRIES // (available.shape[1] * states.shape[1]))
        if len(states) > at_once:
            parts = range(0, len(states), at_once)
            parts = [slice(start, start + at_once) for start in parts]
            return np.concatenate([self.edge_values(states[k], available[k]) for k in parts])
        rows, actions = np.nonzero(available)
        children = self.process.step(states[rows], actions)
        first, inverse = self.keys.unique(children)
        values = self.values(children[first])
        if self.by_edge:
            values = values / self.process.n_parents(children[first])
        contributions = np.zeros(available.shape)
        contributions[rows, actions] = values[inverse]
        return contributions

    def _backed_up(self, states, available=None):
        """One-step targets: the exact expectation over the actions of the uniform policy."""
        contributions = self.edge_values(states, available)
        if self.by_edge:
            return contributions.sum(axis=1)
        available = self.process.actions(states) if available is None else available
        return contributions.sum(axis=1) / np.count_nonzero(available, axis=1)

    def _targets(self, paths, end_values):
        """A target for the state at the beginning of each edge."""
        if self.monte_carlo:
            log_weights = _sums_to_the_end(paths, self._log_steps(paths)) if self.by_edge else 0.0
            return end_values[paths.path] * np.exp(log_weights)
        first, inverse = self.keys.unique(paths.states)
        one_step = self._backed_up(paths.states[first])[inverse]
        if self.trace_decay == 0:
            return one_step
        values = self.values(paths.next_states)
        weights = np.exp(self._log_steps(paths)) if self.by_edge else np.ones(len(values))
        # The sampled step replaces what was expected of it, so that the children that were not
        # taken keep the variance down.
        targets = one_step.copy()
        following = end_values.copy()
        for step in range(int(paths.step.max()), -1, -1):
            rows = np.flatnonzero(paths.step == step)
            ahead = following[paths.path[rows]]
            targets[rows] += self.trace_decay * weights[rows] * (ahead - values[rows])
            following[paths.path[rows]] = targets[rows]
        return targets

    def loss(self, paths):
        """Mean over visited states of (v(s) - target)².

        Rows of equal states count together: the mean of their targets has the same gradient.
        """
        rewards = self.memory.recall(paths.objects_states)
        objects = paths.objects_states
        end_values = self._end_values(objects, rewards)
        if self.scale is None:
            mean = end_values.mean()
            if self.by_edge:
                mean = rewards.mean()
            self.scale = float(mean) if mean > 0 else 1.0
        states = np.concatenate([paths.states, objects])
        targets = np.concatenate([self._targets(paths, end_values), end_values])
        first, inverse = self.keys.unique(states)
        counts = np.bincount(inverse)
        targets = np.bincount(inverse, weights=targets) / counts / self._scale_of(states[first])
        weights = torch.from_numpy(counts / counts.sum()).float().to(self.device)
        targets = torch.from_numpy(targets).float().to(self.device)
        return (weights * (self._forward(states[first]) - targets).square()).sum()

    def policy(self, states, available=None):
        """P(a | s), in proportion to what the edges contribute."""
        available = self.process.actions(states) if available is None else available
        contributions = self.edge_values(states, available)
        total = contributions.sum(axis=1, keepdims=True)
        contributions = np.where(total > 0, contributions, available)
        total = contributions.sum(axis=1, keepdims=True)
        return contributions / np.where(total > 0, total, 1.0)

    def log_partition(self):
        """log F(s0), by one step from the root."""
        root = self.process.initial_state()[None]
        with np.errstate(divide="ignore"):
            return float(np.log(self._backed_up(root)[0])) + self._log_unit

    def state_values(self, states):
        """V(s), or F(s) by edge."""
        return out_of_unit(self.values(states), self._log_unit)

    @property
    def _log_unit(self):
        return self.memory.log_unit + self.log_unit_of_g


def _sums_to_the_end(paths, per_edge):
    """For each edge the sum over it and all later edges of its path."""
    n_paths, n_steps = int(paths.path.max()) + 1, int(paths.step.max()) + 1
    table = np.zeros((n_paths, n_steps))
    table[paths.path, paths.step] = per_edge
    return np.cumsum(table[:, ::-1], axis=1)[:, ::-1][paths.path, paths.step]


def _split(total, size):
    """Numbers of at most `size` with the given sum."""
    return [size] * (total // size) + ([total % size] if total % size else [])


def _padded(values, length):
    return np.pad(values, (0, length - len(values)))
