"""Every learner at the exact flows: its loss vanishes there, moves off when an entry is wrong."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from skml.gflownet import (  # noqa: E402
    AutoregressiveProcess,
    HypergridProcess,
    PrependAppendProcess,
    SetProcess,
)
from skml.gflownet._policy_learners import LEARNERS, _logsumexp_by_group  # noqa: E402
from skml.gflownet._rewards import RewardMemory, RewardModel  # noqa: E402
from skml.gflownet._rollouts import Trajectories, roll_out  # noqa: E402
from skml.gflownet._row_keys import RowKeys  # noqa: E402
from skml.gflownet._state_table import make_table  # noqa: E402
from skml.gflownet._value_learner import ValueLearner  # noqa: E402
from tests.gflownet._problems import DagProcess  # noqa: E402

PROCESSES = [
    AutoregressiveProcess([2, 3, 2], stop=True),
    SetProcess(2, n_items=4, stop=True),
    PrependAppendProcess(2, 3),
    HypergridProcess(3, n_dims=2),
    # Edges of the same action into one state, ways without a choice that meet, unequal lengths.
    DagProcess([[1, 2], [3, 4, 5], [3, 5], [6], [6], [], []]),
]


# Values need a ratio of branchings that is the same for all paths; flows do not.
RECTIFIED = [
    (process, by_edge)
    for process in PROCESSES
    for by_edge in (False, True)
    if by_edge or process.path_invariant is True
]


class Table(torch.nn.Module):
    """A network that looks the outputs of a state up."""

    def __init__(self, table, outputs):
        super().__init__()
        self.table = table
        self.outputs = torch.nn.Parameter(torch.tensor(outputs))

    def forward(self, states):
        return self.outputs[torch.from_numpy(self.table.index(states.numpy()))]


class Problem:
    """A process with random rewards, and flows for any backward policy, by plain loops."""

    def __init__(self, process, seed, backward_policy):
        rng = np.random.default_rng(seed)
        self.process, self.table = process, make_table(process, 1000)
        n_states, n_actions = self.table.n_states, process.n_actions
        self.states = self.table.states(np.arange(n_states))
        self.rewards = rng.random(len(self.table.terminal)) + 0.2
        self.backward_logits = np.zeros((n_states, n_actions))
        if backward_policy == "learned":
            self.backward_logits = rng.normal(size=(n_states, n_actions))
        rows, parents, actions = process.parents(self.states)
        self.edges = list(zip(self.table.index(parents), actions, rows, strict=True))
        into = {s: [(t, a) for t, a, to in self.edges if to == s] for s in range(n_states)}
        total = {s: sum(np.exp(self.backward_logits[s, a]) for _, a in into[s]) for s in into}
        self.log_pb = {
            (t, a): self.backward_logits[s, a] - np.log(total[s]) for t, a, s in self.edges
        }
        self.flows = np.zeros(n_states)
        self.flows[self.table.terminal] = self.rewards
        for level in reversed(self.table.levels):
            for s in level:
                for t, a in into[s]:
                    self.flows[t] += self.flows[s] * np.exp(self.log_pb[t, a])
        self.edge_flows = np.full((n_states, n_actions), -np.inf)
        for t, a, s in self.edges:
            self.edge_flows[t, a] = np.log(self.flows[s]) + self.log_pb[t, a]
        self.log_z = np.log(self.rewards.sum())
        self.paths = roll_out(process, 40, rng)
        objects = process.objects(self.states[self.table.terminal])
        model = RewardModel(None, table=(objects, self.rewards))
        self.memory = RewardMemory(process, model, 1e-6)
        self.memory.visit(self.paths.objects_states)

    def options(self, outputs):
        """Arguments of a learner whose network is a table."""
        return {
            "memory": self.memory,
            "hidden_layer_sizes": (1,),
            "keys": RowKeys(self.process.state_sizes),
            "module": lambda sizes, n_outputs: Table(self.table, outputs),
        }


def learner_at_the_solution(problem, objective, backward_policy="uniform", munchausen=0.0):
    """A learner whose table holds what is right, and the entries that matter in it."""
    edges, log_flows = problem.edge_flows, np.log(problem.flows)
    options = {}
    if objective == "soft_q":
        options["munchausen"] = munchausen
        edges = (edges - munchausen * log_flows[:, None]) / (1 - munchausen)
    columns = [np.where(np.isfinite(edges), edges, 7.0)]  # nothing reads the others
    if objective in ("tb", "db", "subtb"):
        options["backward_policy"] = backward_policy
        if backward_policy == "learned":
            columns.append(problem.backward_logits)
    if objective in ("db", "subtb"):
        columns.append(log_flows[:, None])
    learner = LEARNERS[objective](problem.process, **problem.options(np.hstack(columns)), **options)
    if objective == "tb":
        with torch.no_grad():
            learner.log_z += problem.log_z
    return learner


CASES = [
    *itertools.product(["tb", "db", "subtb"], ["uniform", "learned"], [0.0]),
    ("fm", "uniform", 0.0),
    ("soft_q", "uniform", 0.0),
    ("soft_q", "uniform", 0.4),
]


@pytest.mark.parametrize("process", PROCESSES, ids=str)
@pytest.mark.parametrize(("objective", "backward_policy", "munchausen"), CASES)
def test_losses_of_learners_vanish_at_the_exact_flows_only(
    process, objective, backward_policy, munchausen
):
    problem = Problem(process, 0, backward_policy)
    learner = learner_at_the_solution(problem, objective, backward_policy, munchausen)
    assert float(learner.loss(problem.paths).detach()) < 1e-10
    assert learner.log_partition() == pytest.approx(problem.log_z, abs=1e-5)
    inner = problem.table.n_children > 0
    expected = np.exp(problem.edge_flows - np.log(problem.flows)[:, None])
    policy = learner.policy(problem.states)
    np.testing.assert_allclose(policy[inner], expected[inner], atol=1e-6)
    assert (policy[~inner] == 0).all()
    if objective in ("db", "subtb", "fm"):
        np.testing.assert_allclose(learner.state_values(problem.states), problem.flows, rtol=1e-6)
    # Every output that a path reads matters: those of its actions at its states.
    index = problem.table.index(problem.paths.states)
    for row in (0, len(index) // 2):
        with torch.no_grad():
            learner.network.outputs[index[row], problem.paths.actions[row]] += 0.5
        assert float(learner.loss(problem.paths).detach()) > 1e-4
        with torch.no_grad():
            learner.network.outputs[index[row], problem.paths.actions[row]] -= 0.5


@pytest.mark.parametrize("objective", ["tb", "db", "subtb", "fm"])
def test_gradients_of_learners_by_finite_differences(objective):
    backward_policy = "uniform" if objective == "fm" else "learned"
    problem = Problem(SetProcess(2, n_items=3, stop=True), 1, backward_policy)
    learner = learner_at_the_solution(problem, objective, backward_policy)
    outputs = learner.network.outputs
    rng = np.random.default_rng(0)
    with torch.no_grad():
        outputs += torch.tensor(rng.normal(size=outputs.shape))
    learner.loss(problem.paths).backward()
    gradient, step = outputs.grad.numpy(), 1e-3
    assert np.abs(gradient).max() > 0.01
    for _ in range(3):
        direction = rng.normal(size=outputs.shape)
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                outputs += sign * step * torch.tensor(direction)
                values.append(float(learner.loss(problem.paths)))
                outputs -= sign * step * torch.tensor(direction)
        difference = (values[0] - values[1]) / (2 * step)
        assert difference == pytest.approx((gradient * direction).sum(), rel=1e-3, abs=1e-4)


def test_gradient_of_sums_by_group():
    values = torch.randn(7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    groups = torch.tensor([0, 2, 1, 0, 2, 2, 1])
    expected = [values[groups == group].logsumexp(dim=0) for group in range(3)]
    torch.testing.assert_close(_logsumexp_by_group(values, groups, 3), torch.stack(expected))
    assert torch.autograd.gradcheck(
        lambda v: _logsumexp_by_group(v, groups, 3), values.requires_grad_()
    )


@pytest.mark.parametrize(("process", "by_edge"), RECTIFIED, ids=str)
@pytest.mark.parametrize("settings", [{}, {"trace_decay": 0.6}, {"monte_carlo": True}])
def test_value_learner_at_the_exact_values(process, settings, by_edge):
    """One-step targets reproduce V = F g or F; rewards along single paths only on average."""
    problem = Problem(process, 0, "uniform")
    g = np.ones(problem.table.n_states)
    if not by_edge:  # from the definition, along whichever path
        for block in problem.table.inner_blocks():
            for state, children in zip(block, problem.table.children(block), strict=True):
                for child in children[children >= 0]:
                    ratio = problem.table.n_children[state] / problem.table.n_parents[child]
                    g[child] = g[state] * ratio
    exact = problem.flows * g
    inverse_softplus = exact + np.log(-np.expm1(-exact)) - 0.5413248546129181
    learner = ValueLearner(
        process, by_edge=by_edge, **problem.options(inverse_softplus[:, None]), **settings
    )
    learner.scale = 1.0
    np.testing.assert_allclose(learner.values(problem.states), exact, rtol=1e-6)
    assert learner.log_partition() == pytest.approx(problem.log_z, abs=1e-6)
    inner = problem.table.n_children > 0
    expected = np.exp(problem.edge_flows - np.log(problem.flows)[:, None])
    np.testing.assert_allclose(learner.policy(problem.states)[inner], expected[inner], atol=1e-6)
    loss = float(learner.loss(problem.paths).detach())
    if not settings:
        assert loss < 1e-10
    with torch.no_grad():
        learner.network.outputs[problem.table.root] += 1.0
    assert float(learner.loss(problem.paths).detach()) > loss + 1e-3


def all_paths(process, state=None):
    """Every path as a list of edges (state, action, next state), and its probability."""
    state = process.initial_state() if state is None else state
    actions = np.flatnonzero(process.actions(state[None])[0])
    if not len(actions):
        yield [], 1.0
    for action in actions:
        following = process.step(state[None], np.array([action]))[0]
        for edges, probability in all_paths(process, following):
            yield [(state, action, following), *edges], probability / len(actions)


@pytest.mark.parametrize(("process", "by_edge"), RECTIFIED, ids=str)
@pytest.mark.parametrize("settings", [{"trace_decay": 1.0}, {"monte_carlo": True}], ids=str)
def test_targets_along_paths_are_right_on_average_whatever_the_table(process, settings, by_edge):
    problem = Problem(process, 2, "uniform")
    outputs = np.random.default_rng(0).normal(size=(problem.table.n_states, 1))
    learner = ValueLearner(process, by_edge=by_edge, **problem.options(outputs), **settings)
    learner.scale = 1.0
    found, probabilities = zip(*all_paths(process), strict=True)
    assert sum(probabilities) == pytest.approx(1.0)
    edges = [
        (*edge, number, step, step == len(path) - 1)
        for number, path in enumerate(found)
        for step, edge in enumerate(path)
    ]
    states, actions, following, path, step, is_last = map(np.array, zip(*edges, strict=True))
    n_children = np.count_nonzero(process.actions(states), axis=1)
    paths = Trajectories(states, following, actions, path, step, n_children, is_last)
    ends = learner._end_values(
        paths.objects_states, problem.memory.ask(paths.objects_states, count="new")
    )
    at_root = learner._targets(paths, ends)[step == 0]
    assert (at_root * probabilities).sum() == pytest.approx(problem.rewards.sum())
