"""The sampler of a trained network; this module imports torch."""

import numpy as np
import torch
from sklearn.utils import check_random_state

from skml.utils._torch import draw_seed, local_seed, resolve_device
from skml.utils._training import fit_loop

from ._exact import visit_probabilities
from ._paths import log_path_sums
from ._policy_learners import LEARNERS
from ._rewards import RewardMemory, log_unit
from ._rollouts import choose, join, roll_out
from ._row_keys import RowKeys
from ._state_table import blocks, make_table
from ._value_learner import ValueLearner

# Batches that are rolled out at once, if so many entries of states can be held.
_ROLLED_OUT_AT_ONCE = 64
_MOST_ENTRIES = 2**25
_RELATIVE_FLOOR = 1e-6


class NetworkSolution:
    """A trained learner, and what follows from its policy.

    Parameters
    ----------
    process : Process
        The process.
    learner : ValueLearner or PolicyLearner
        Trained.
    reward_model : RewardModel
        Rewards of all objects, to compare the policy with.
    max_states : int
        Up to so many states the distribution is computed exactly.
    """

    def __init__(self, process, learner, reward_model, max_states):
        self.process, self.learner = process, learner
        self.reward_model, self.max_states = reward_model, max_states
        self.keys = RowKeys(process.state_sizes)
        self.log_partition = learner.log_partition()

    @property
    def network(self):
        """The torch module."""
        return self.learner.network

    def policy(self, states):
        """Probabilities of the actions, shape (n, n_actions); zeros for objects."""
        return self.learner.policy(states)

    def state_values(self, states):
        """V(s) for rpe by path, else F(s)."""
        return self.learner.state_values(states)

    def log_probability(self, objects):
        """Sum over all paths."""
        states = self.process.terminals(objects)
        return log_path_sums(self.process, states, self.learner.policy, self.keys)

    def sample(self, n_samples, rng):
        """Let all paths advance together, with one look at each state that any of them is in."""
        at = np.repeat(self.process.initial_state()[None], n_samples, axis=0)
        going = np.arange(n_samples)
        while len(going):
            first, inverse = self.keys.unique(at[going])
            states = at[going][first]
            policy = np.concatenate([self.policy(states[block]) for block in _slices(len(states))])
            actions = choose(policy, rng, inverse)
            at[going] = self.process.step(at[going], actions)
            going = going[self.process.actions(at[going]).any(axis=1)]
        return self.process.objects(at)

    def distribution(self):
        """All objects, the probabilities that the policy gives them, and R(x) / Z."""
        table = make_table(self.process, self.max_states)

        def probabilities(block):
            return table.children(block), self.policy(table.states(block))

        p = visit_probabilities(table, probabilities)[table.terminal]
        objects = self.process.objects(table.states(table.terminal))
        model = self.reward_model
        scores = np.concatenate([model.scores(objects[block]) for block in _slices(len(p))])
        rewards = model.rewards(scores, log_unit(float(model.log_rewards(scores.max()))))
        return objects, p, rewards / rewards.sum()


def _slices(n):
    return blocks(np.arange(n))


def train(process, reward_model, *, objective, by_edge, options, random_state):
    """Train a network on a process.

    Parameters
    ----------
    process : Process
        The process.
    reward_model : RewardModel
        Rewards.
    objective : {"rpe", "tb", "db", "fm", "subtb", "soft_q"}
        What is learnt.
    by_edge : bool
        How rpe is rectified.
    options : dict
        Parameters of the sampler.
    random_state : int, RandomState instance or None
        As in scikit-learn.

    Returns
    -------
    solution : NetworkSolution
        The sampler.
    record : FitRecord
        The losses.
    memory : RewardMemory
        Visited objects.
    n_calls : list of int
        Number of rewards that had been asked for after each step.
    """
    random_state = check_random_state(random_state)
    rng = np.random.default_rng(draw_seed(random_state))
    memory = RewardMemory(process, reward_model, _RELATIVE_FLOOR)
    with local_seed(random_state):
        learner = _make_learner(process, memory, objective, by_edge, options)
    learner.prepare(rng)
    n_calls = []
    step = _make_step(learner, process, memory, rng, objective, options, n_calls)
    record = fit_loop(
        step,
        max_iter=options["max_iter"],
        tol=options["tol"],
        n_iter_no_change=options["n_iter_no_change"],
        verbose=options["verbose"],
        desc=objective,
    )
    learner.network.eval()
    if not memory.has_rewards:
        raise ValueError(
            "All rewards that training has seen are zero; at least one must be positive."
        )
    solution = NetworkSolution(process, learner, reward_model, options["max_states"])
    return solution, record, memory, n_calls


def _make_learner(process, memory, objective, by_edge, options):
    shared = {
        "memory": memory,
        "hidden_layer_sizes": options["hidden_layer_sizes"],
        "keys": RowKeys(process.state_sizes),
        "module": options["module"],
        "device": resolve_device(options["device"]),
    }
    if objective == "rpe":
        target = options["target"]
        return ValueLearner(
            process,
            by_edge=by_edge,
            terminal=options["terminal"],
            trace_decay=options["trace_decay"] if target == "td_lambda" else 0.0,
            monte_carlo=target == "mc",
            **shared,
        )
    own = {
        "tb": ("backward_policy", "partition_learning_rate"),
        "db": ("backward_policy",),
        "subtb": ("backward_policy", "trace_decay"),
        "fm": (),
        "soft_q": ("munchausen",),
    }
    shared.update({name: options[name] for name in own[objective]})
    return LEARNERS[objective](process, **shared)


def _make_step(learner, process, memory, rng, objective, options, n_calls):
    """One update: new paths, their rewards, old paths beside them, a step of Adam."""
    optimizer = torch.optim.Adam(learner.parameter_groups(options["learning_rate"]))
    schedule = _schedule(optimizer, options["learning_rate_schedule"], options["max_iter"])
    batches = _new_paths(learner, process, rng, objective, options)
    kept = []
    dtype = np.min_scalar_type(max(process.state_sizes))

    def step(iteration):
        paths = next(batches)
        memory.visit(paths.objects_states)
        if options["replay_ratio"]:
            n_old = min(options["replay_ratio"], len(kept))
            old = [kept[k] for k in rng.integers(len(kept), size=n_old)] if n_old else []
            kept.append(paths.compact(dtype))
            paths = join([paths, *old])
        optimizer.zero_grad()
        loss = learner.loss(paths)
        loss.backward()
        optimizer.step()
        schedule.step()
        n_calls.append(memory.n_calls)
        return loss.detach()

    return step


def _schedule(optimizer, kind, max_iter):
    factors = {
        "constant": lambda step: 1.0,
        "linear": lambda step: 1.0 - step / max_iter,
        "cosine": lambda step: 0.5 * (1.0 + np.cos(np.pi * step / max_iter)),
    }
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factors[kind])


def _new_paths(learner, process, rng, objective, options):
    """Yield batches of new paths of the behaviour policy."""
    size, exploration = options["batch_size"], options["exploration"]
    if exploration is None:
        exploration = _usual_exploration(learner, objective, options)

    def behaviour(states, available):
        uniform = available / np.count_nonzero(available, axis=1)[:, None]
        return exploration * uniform + (1 - exploration) * learner.policy(states, available)

    n_batches = _batches_at_once(process, size)
    while True:
        if exploration == 1:  # does not depend on what is learnt: many batches at once
            yield from roll_out(process, size * n_batches, rng).split(size)
        else:
            yield roll_out(process, size, rng, behaviour if learner.has_policy else None)


def _batches_at_once(process, size):
    probe = roll_out(process, 4, np.random.default_rng(0))
    entries = size * (1 + probe.states.size // 4)
    return int(np.clip(_MOST_ENTRIES // entries, 1, _ROLLED_OUT_AT_ONCE))


def _usual_exploration(learner, objective, options):
    if objective != "rpe":
        return 0.05
    if options["target"] != "td":
        return 1.0
    # Where g depends on the path, there is an action to stop, and uniform paths seldom go far.
    return 0.1 if learner.by_edge else 1.0
