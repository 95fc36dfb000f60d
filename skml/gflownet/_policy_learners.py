"""The other objectives of the field, with one network over states; this module imports torch."""

import copy

import numpy as np
import torch

from ._networks import NetworkHolder
from ._objectives import (
    detailed_balance_loss,
    flow_matching_loss,
    soft_q_targets,
    soft_values,
    subtrajectory_balance_loss,
    trajectory_balance_loss,
)


class PolicyLearner(NetworkHolder):
    """What the objectives share: a network with one output per action, and P_B.

    Parameters
    ----------
    process : Process
        The process.
    memory : RewardMemory
        Rewards of visited objects.
    hidden_layer_sizes : tuple of int
        Widths of the network.
    keys : RowKeys
        Keys of states.
    backward_policy : {"uniform", "learned"}
        P_B.
    module : callable or None
        ``module(state_sizes, n_outputs)`` makes the network; None: a StateNetwork.
    device : str
        Where the network is.
    """

    has_policy = True
    has_flow = False

    def __init__(
        self,
        process,
        *,
        memory,
        hidden_layer_sizes,
        keys,
        backward_policy="uniform",
        module=None,
        device="cpu",
    ):
        self.module = module
        self.process, self.memory, self.keys = process, memory, keys
        self.hidden_layer_sizes = tuple(hidden_layer_sizes)
        self.backward_policy = backward_policy
        self.device = torch.device(device)
        self.network = self._build().to(self.device)

    def _build(self):
        n_actions = self.process.n_actions
        n_outputs = n_actions * (2 if self.backward_policy == "learned" else 1) + self.has_flow
        return self._make_network(n_outputs)

    def parameter_groups(self, learning_rate):
        """What the optimiser updates."""
        return [{"params": list(self.network.parameters()), "lr": learning_rate}]

    def prepare(self, rng):
        """Nothing to do before the first step."""

    @property
    def _dtype(self):
        """Type of the numbers of the network, which a user's own may have chosen."""
        return next(self.network.parameters()).dtype

    def _tensor(self, array, dtype=None):
        return torch.from_numpy(np.asarray(array)).to(self.device, dtype)

    def _outputs(self, states):
        """Network outputs of states; equal rows are computed once."""
        first, inverse = self.keys.unique(states)
        return self.network(self._tensor(states[first]))[self._tensor(inverse)]

    def _logits(self, outputs, states):
        available = self._tensor(self.process.actions(states))
        return torch.where(available, outputs[:, : self.process.n_actions], -torch.inf)

    def _log_pb(self, outputs, paths):
        """log P_B of each edge; `outputs` are those of the states where the edges end."""
        if self.backward_policy == "uniform":
            n_parents = self.process.n_parents(paths.next_states)
            return -self._tensor(n_parents, self._dtype).log()
        n_actions = self.process.n_actions
        rows, _, actions = self.process.parents(paths.next_states)
        counts = np.zeros((len(paths.next_states), n_actions))
        np.add.at(counts, (rows, actions), 1.0)
        logits = outputs[:, n_actions : 2 * n_actions]
        total = (logits + self._tensor(counts, self._dtype).log()).logsumexp(dim=1)
        return logits.gather(1, self._tensor(paths.actions)[:, None])[:, 0] - total

    def _log_rewards(self, paths):
        """In the unit of the memory, so that the network need not learn a large constant."""
        if not self.memory.has_rewards:
            raise ValueError(
                "This objective needs logarithms of rewards, but all objects of the first paths "
                "score zero; give a positive reward_floor, or a larger batch_size."
            )
        logs = self.memory.recall_logs(paths.objects_states) - self.memory.log_unit
        return self._tensor(logs, self._dtype)

    def _edges(self, paths):
        """Outputs of the states that edges begin and end in, log P_F and log P_B."""
        outputs = self._outputs(np.concatenate([paths.states, paths.next_states]))
        here, there = outputs.split(len(paths.states))
        log_policy = self._logits(here, paths.states).log_softmax(dim=1)
        log_pf = log_policy.gather(1, self._tensor(paths.actions)[:, None])[:, 0]
        return here, there, log_pf, self._log_pb(there, paths)

    def policy(self, states, available=None):
        """P_F(a | s) in float64; zero where there is no action."""
        available = self.process.actions(states) if available is None else available
        with torch.no_grad():
            logits = self._policy_logits(states).cpu().numpy().astype(np.float64)
        logits = np.where(available, logits, -np.inf)
        top = logits.max(axis=1, keepdims=True)
        weights = np.exp(logits - np.where(np.isfinite(top), top, 0.0))
        total = weights.sum(axis=1, keepdims=True)
        return weights / np.where(total > 0, total, 1.0)

    def _policy_logits(self, states):
        return self._outputs(states)[:, : self.process.n_actions]

    def log_partition(self):
        """log F(s0)."""
        return self._log_root_flow() + self.memory.log_unit

    def state_values(self, states):
        """F(s) where the objective learns it."""
        raise ValueError("This objective learns no state values; use 'rpe', 'db', 'subtb' or 'fm'.")

    def _flows(self, states, log_flows):
        """F(s) from logarithms by the network; of objects their rewards."""
        log_flows = log_flows.cpu().numpy().astype(np.float64) + self.memory.log_unit
        is_object = ~self.process.actions(states).any(axis=1)
        if is_object.any():
            self.memory.visit(states[is_object], count="new")
            log_flows[is_object] = self.memory.recall_logs(states[is_object])
        with np.errstate(over="ignore"):
            return np.exp(log_flows)


class TrajectoryBalance(PolicyLearner):
    """(log Z + sum log P_F - log R(x) - sum log P_B)²; log Z has its own learning rate."""

    def __init__(self, process, *, partition_learning_rate=0.1, **options):
        super().__init__(process, **options)
        self.partition_learning_rate = partition_learning_rate
        self.log_z = torch.nn.Parameter(torch.zeros((), device=self.device))

    def parameter_groups(self, learning_rate):
        own = {"params": [self.log_z], "lr": self.partition_learning_rate}
        return [*super().parameter_groups(learning_rate), own]

    def loss(self, paths):
        _, _, log_pf, log_pb = self._edges(paths)
        path = self._tensor(paths.path)
        return trajectory_balance_loss(log_pf, log_pb, self._log_rewards(paths), self.log_z, path)

    def _log_root_flow(self):
        return float(self.log_z.detach())

    def __getstate__(self):
        return {**super().__getstate__(), "log_z": float(self.log_z.detach())}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.log_z = torch.nn.Parameter(torch.tensor(state["log_z"], device=self.device))


class _FlowLearner(PolicyLearner):
    """An objective whose network has one more output, log F(s)."""

    has_flow = True

    def _log_root_flow(self):
        root = self.process.initial_state()[None]
        with torch.no_grad():
            return float(self._outputs(root)[0, -1])

    def state_values(self, states):
        with torch.no_grad():
            log_flows = self._outputs(states)[:, -1]
        return self._flows(states, log_flows)


class DetailedBalance(_FlowLearner):
    """(log F(s) + log P_F - log F(s') - log P_B)² on every edge."""

    def loss(self, paths):
        here, there, log_pf, log_pb = self._edges(paths)
        log_rewards = self._log_rewards(paths)[self._tensor(paths.path)]
        log_next = torch.where(self._tensor(paths.is_last), log_rewards, there[:, -1])
        return detailed_balance_loss(log_pf, log_pb, here[:, -1], log_next)


class SubtrajectoryBalance(_FlowLearner):
    """The balance of all parts of a path, weighted by trace_decay to the power of their length."""

    def __init__(self, process, *, trace_decay=0.9, **options):
        super().__init__(process, **options)
        self.trace_decay = trace_decay

    def loss(self, paths):
        here, _, log_pf, log_pb = self._edges(paths)
        path, step = self._tensor(paths.path), self._tensor(paths.step)
        log_rewards = self._log_rewards(paths)
        return subtrajectory_balance_loss(
            log_pf, log_pb, here[:, -1], log_rewards, path, step, self.trace_decay
        )


class FlowMatching(PolicyLearner):
    """Inflow equals outflow at every state; the outputs are logarithms of edge flows."""

    def loss(self, paths):
        first, inverse = self.keys.unique(paths.next_states)
        states = paths.next_states[first]
        rows, parents, actions = self.process.parents(states)
        outputs = self._outputs(np.concatenate([parents, states]))
        edges, here = outputs.split([len(parents), len(states)])
        flows = edges.gather(1, self._tensor(actions)[:, None])[:, 0]
        log_inflow = _logsumexp_by_group(flows, self._tensor(rows), len(states))
        log_outflow = self._logits(here, states).logsumexp(dim=1)
        is_object = self._tensor(paths.is_last[first])
        log_rewards = self._log_rewards(paths)[self._tensor(paths.path[first])]
        log_outflow = torch.where(is_object, log_rewards, log_outflow)
        # A state that was visited twice counts twice.
        visits = self._tensor(inverse)
        return flow_matching_loss(log_inflow[visits], log_outflow[visits])

    def _log_root_flow(self):
        root = self.process.initial_state()[None]
        with torch.no_grad():
            return float(self._logits(self._outputs(root), root).logsumexp(dim=1)[0])

    def state_values(self, states):
        with torch.no_grad():
            log_flows = self._logits(self._outputs(states), states).logsumexp(dim=1)
        return self._flows(states, log_flows)


class SoftQ(PolicyLearner):
    """Entropy-regularised Q learning with the reward log P_B on every step.

    Parameters
    ----------
    munchausen : float
        Share of the entropy that comes as a bonus on the reward; 0 is soft Q-learning.
    target_update : float
        Share of the network that the target network takes over in every step.
    **options : dict
        As for PolicyLearner.
    """

    def __init__(self, process, *, munchausen=0.0, target_update=0.05, **options):
        super().__init__(process, **options)
        self.munchausen, self.target_update = munchausen, target_update
        self.temperature = 1.0 / (1.0 - munchausen)
        self.target_network = copy.deepcopy(self.network).requires_grad_(False)

    def loss(self, paths):
        self._follow()
        actions = self._tensor(paths.actions)[:, None]
        q_values = self._outputs(paths.states).gather(1, actions)[:, 0]
        with torch.no_grad():
            network, self.network = self.network, self.target_network
            outputs = self._outputs(np.concatenate([paths.states, paths.next_states]))
            self.network = network
            here, there = outputs.split(len(paths.states))
            log_policy = (self._logits(here, paths.states) / self.temperature).log_softmax(dim=1)
            log_policy = log_policy.gather(1, actions)[:, 0]
            available = self._tensor(self.process.actions(paths.next_states))
            is_last = self._tensor(paths.is_last)
            values = soft_values(there, available, self.temperature)
            values = torch.where(is_last, 0.0, values)
            log_rewards = self._log_rewards(paths)[self._tensor(paths.path)]
            ends = torch.where(is_last, log_rewards, 0.0)
            log_pb = self._log_pb(there, paths)
            targets = soft_q_targets(log_pb, ends, values, log_policy, self.munchausen)
        return torch.nn.functional.smooth_l1_loss(q_values, targets)

    @torch.no_grad()
    def _follow(self):
        pairs = zip(self.target_network.parameters(), self.network.parameters(), strict=True)
        for target, source in pairs:
            target.lerp_(source, self.target_update)

    def _policy_logits(self, states):
        return super()._policy_logits(states) / self.temperature

    def _log_root_flow(self):
        root = self.process.initial_state()[None]
        with torch.no_grad():
            available = self._tensor(self.process.actions(root))
            return float(soft_values(self._outputs(root), available, self.temperature)[0])


LEARNERS = {
    "tb": TrajectoryBalance,
    "db": DetailedBalance,
    "subtb": SubtrajectoryBalance,
    "fm": FlowMatching,
    "soft_q": SoftQ,
}


def _logsumexp_by_group(values, groups, n_groups):
    top = values.new_full((n_groups,), -torch.inf)
    top = top.scatter_reduce(0, groups, values.detach(), "amax")
    sums = torch.zeros_like(top).index_add(0, groups, (values - top[groups]).exp())
    return top + sums.log()
