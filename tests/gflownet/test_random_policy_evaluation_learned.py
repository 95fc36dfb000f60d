"""Networks: the losses vanish at the exact flows, training comes near them, and options matter."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from skml.gflownet import (  # noqa: E402
    AutoregressiveProcess,
    HypergridProcess,
    PrependAppendProcess,
    RewardProportionalSampler,
    SetProcess,
)
from skml.gflownet import _objectives as objectives  # noqa: E402
from skml.gflownet._exact import (  # noqa: E402  # noqa: E402
    edge_weights,
    evaluate_flows,
    evaluate_values,
    normalised,
    visit_probabilities,
)
from skml.gflownet._networks import StateNetwork  # noqa: E402
from skml.gflownet._rewards import RewardMemory, RewardModel  # noqa: E402
from skml.gflownet._rollouts import join, roll_out  # noqa: E402
from skml.gflownet._state_table import make_table  # noqa: E402
from tests.gflownet._problems import all_rows, all_sets  # noqa: E402

OBJECTIVES = ["rpe", "tb", "db", "subtb", "fm", "soft_q"]
SMALL = SetProcess(2, n_items=4, stop=True)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def small_sets():
    X = all_sets(4, range(3))
    return X, np.random.default_rng(0).random(len(X)) ** 2 + 0.05


def small(objective="rpe", **params):
    defaults = {
        "process": SMALL,
        "solver": "mlp",
        "hidden_layer_sizes": (32,),
        "learning_rate": 0.02,
        "batch_size": 16,
        "max_iter": 200,
        "random_state": 0,
    }
    return RewardProportionalSampler(objective, **(defaults | params))


# Losses at the exact solution.


@pytest.fixture(params=[SMALL, PrependAppendProcess(2, 3), HypergridProcess(3, n_dims=2)], ids=str)
def exact(request):
    """Paths of a process with the exact quantities of every edge, as tensors."""
    process = request.param
    table = make_table(process, 1000)
    rewards = np.random.default_rng(0).random(len(table.terminal)) + 0.2
    flows = evaluate_flows(table, rewards)
    paths = roll_out(process, 30, np.random.default_rng(1))
    here, there = table.index(paths.states), table.index(paths.next_states)
    log_pb = -np.log(table.n_parents[there])
    values = {
        "log_pb": log_pb,
        "log_pf": np.log(flows[there]) + log_pb - np.log(flows[here]),
        "log_flow": np.log(flows[here]),
        "log_flow_next": np.log(flows[there]),
        "log_rewards": np.log(flows[table.index(paths.objects_states)]),
        "path": paths.path,
        "step": paths.step,
        "is_last": paths.is_last,
        "log_z": np.log(rewards.sum()),
    }
    return {key: torch.tensor(value) for key, value in values.items()}, (table, flows, paths)


def losses(e):
    """Each loss that only needs policies and flows."""
    common = e["log_pf"], e["log_pb"]
    yield "tb", objectives.trajectory_balance_loss(*common, e["log_rewards"], e["log_z"], e["path"])
    yield "db", objectives.detailed_balance_loss(*common, e["log_flow"], e["log_flow_next"])
    yield (
        "subtb",
        objectives.subtrajectory_balance_loss(
            *common, e["log_flow"], e["log_rewards"], e["path"], e["step"], 0.9
        ),
    )


def test_losses_vanish_at_the_exact_flows_only(exact):
    e, _ = exact
    for name, loss in losses(e):
        assert loss < 1e-20, name
    for key in ("log_pf", "log_rewards"):
        wrong = e | {key: e[key] + 0.3}
        for name, loss in losses(wrong):
            affected = key == "log_pf" or name != "db"
            assert (loss > 1e-3) == affected, (name, key)


def test_subtrajectory_balance_is_the_weighted_mean_over_all_parts():
    rng = np.random.default_rng(0)
    lengths, decay = [1, 4, 2], 0.7
    path = np.repeat(np.arange(3), lengths)
    step = np.concatenate([np.arange(n) for n in lengths])
    log_pf, log_pb, flow = rng.normal(size=(3, len(path)))
    log_rewards = rng.normal(size=3)
    expected = []
    for number, n in enumerate(lengths):
        rows = np.flatnonzero(path == number)
        phi = np.append(flow[rows], log_rewards[number])
        ratio = (log_pf - log_pb)[rows]
        total = weight = 0.0
        for i in range(n + 1):
            for j in range(i + 1, n + 1):
                w = decay ** (j - i)
                total += w * (phi[i] + ratio[i:j].sum() - phi[j]) ** 2
                weight += w
        expected.append(total / weight)
    order = np.lexsort((path, step))  # in the order of the steps, as paths come
    tensors = [torch.tensor(a[order]) for a in (log_pf, log_pb, flow)]
    loss = objectives.subtrajectory_balance_loss(
        *tensors,
        torch.tensor(log_rewards),
        torch.tensor(path[order]),
        torch.tensor(step[order]),
        decay,
    )
    assert float(loss) == pytest.approx(np.mean(expected))


def test_flow_matching_vanishes_at_the_exact_edge_flows(exact):
    _, (table, flows, _) = exact
    inflow, outflow = np.zeros(table.n_states), np.zeros(table.n_states)
    for block in table.inner_blocks():
        children = table.children(block)
        rows, actions = np.nonzero(children >= 0)
        to = children[rows, actions]
        edge = flows[to] / table.n_parents[to]
        np.add.at(inflow, to, edge)
        np.add.at(outflow, block[rows], edge)
    outflow[table.terminal] = flows[table.terminal]
    inner = np.arange(table.n_states) != table.root
    log_in, log_out = torch.tensor(np.log(inflow[inner])), torch.tensor(np.log(outflow[inner]))
    assert objectives.flow_matching_loss(log_in, log_out) < 1e-20
    assert objectives.flow_matching_loss(log_in + 0.1, log_out) == pytest.approx(0.01)


@pytest.mark.parametrize("munchausen", [0.0, 0.3])
def test_soft_q_targets_are_consistent_at_the_exact_flows(exact, munchausen):
    """Q = log F(s') + log P_B; with a bonus (Q - alpha log F(s)) / (1 - alpha)."""
    e, (table, flows, paths) = exact
    alpha, temperature = munchausen, 1 / (1 - munchausen)
    q = np.full((table.n_states, table.process.n_actions), -np.inf)
    for block in table.inner_blocks():
        children = table.children(block)
        rows, actions = np.nonzero(children >= 0)
        to = children[rows, actions]
        plain = np.log(flows[to]) - np.log(table.n_parents[to])
        q[block[rows], actions] = (plain - alpha * np.log(flows[block[rows]])) / (1 - alpha)
    here, there = table.index(paths.states), table.index(paths.next_states)
    available = torch.tensor(table.process.actions(paths.next_states))
    values = objectives.soft_values(torch.tensor(q[there]), available, temperature)
    values = torch.where(e["is_last"], 0.0, values)
    ends = torch.where(e["is_last"], e["log_flow_next"], 0.0)
    targets = objectives.soft_q_targets(e["log_pb"], ends, values, e["log_pf"], munchausen)
    np.testing.assert_allclose(targets.numpy(), q[here, paths.actions], atol=1e-10)


def test_gradients_of_the_losses(exact):
    e, _ = exact
    names = ("log_pf", "log_pb", "log_flow")
    inputs = [(e[name] + 0.1).requires_grad_() for name in names]

    def all_losses(*values):
        changed = e | dict(zip(names, values, strict=True))
        return torch.stack([loss for _, loss in losses(changed)])

    assert torch.autograd.gradcheck(all_losses, inputs)


# Training.


@pytest.mark.parametrize(
    "params",
    [
        {"objective": "rpe"},
        {"objective": "rpe", "target": "mc"},
        {"objective": "rpe", "target": "td_lambda", "trace_decay": 0.5},
        {"objective": "rpe", "terminal": "exact"},
        {"objective": "rpe", "terminal": "network", "max_iter": 400},
        {"objective": "rpe", "rectification": "edge"},
        {"objective": "rpe", "rectification": "edge", "target": "mc"},
        {"objective": "rpe", "exploration": 0.3},
        {"objective": "rpe", "replay_ratio": 2, "learning_rate_schedule": "cosine"},
        {"objective": "tb"},
        {"objective": "tb", "backward_policy": "learned", "learning_rate_schedule": "constant"},
        {"objective": "db"},
        {"objective": "subtb", "backward_policy": "learned"},
        {"objective": "fm"},
        {"objective": "soft_q"},
        {"objective": "soft_q", "munchausen": 0.15},
    ],
    ids=lambda params: ", ".join(f"{value}" for value in params.values()),
)
def test_training_comes_near_the_target(params, small_sets):
    X, y = small_sets
    sampler = small(**params).fit(X, y)
    untrained = small(**params).set_params(max_iter=1, learning_rate=1e-9).fit(X, y)
    assert sampler.solver_ == "mlp"
    # What is remembered of these few objects helps the untrained one as well.
    assert untrained.l1_distance() > 0.2
    assert sampler.l1_distance() < min(0.16, 0.6 * untrained.l1_distance())
    assert sampler.log_partition_ == pytest.approx(np.log(y.sum()), abs=0.15)
    p = np.exp(sampler.score_samples(X))
    assert p.sum() == pytest.approx(1.0, abs=1e-6)
    _, enumerated, _ = sampler.distribution()
    np.testing.assert_allclose(np.sort(p), np.sort(enumerated), atol=1e-5)  # float32 networks
    assert sampler.n_iter_ == len(sampler.loss_curve_) == sampler.max_iter


def test_leaving_out_the_rectification_is_worse_than_learning_with_it():
    X = all_sets(6, range(4))
    y = np.random.default_rng(0).random(len(X)) ** 2 + 0.05
    process = SetProcess(3, n_items=6, stop=True)
    table = make_table(process, 1000)
    rewards = np.empty(table.n_states)
    rewards[table.index(process.terminals(X))] = y
    plain = evaluate_values(table, rewards[table.terminal])

    def probabilities(block):
        children, weights = edge_weights(table, block, plain, share=False)
        return children, normalised(weights, children >= 0)

    p = visit_probabilities(table, probabilities)[table.terminal]
    unrectified = np.abs(p - rewards[table.terminal] / y.sum()).sum()
    assert unrectified > 0.3
    assert small(process=process).fit(X, y).l1_distance() < 0.5 * unrectified


def test_grids_are_rectified_by_edge_and_paths_refused():
    X = np.zeros((1, 2), dtype=int)
    process = HypergridProcess(4, n_dims=2)
    sampler = small(process=process, max_iter=150).fit(X)
    assert sampler.rectification_ == "edge"
    assert sampler.l1_distance() < 0.25
    with pytest.raises(ValueError, match="HypergridProcess has g = .* for the state"):
        small(process=process, rectification="path").fit(X)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_pickled_networks_are_the_same(objective, small_sets):
    X, y = small_sets
    sampler = small(objective, max_iter=5).fit(X, y)
    loaded = pickle.loads(pickle.dumps(sampler))
    np.testing.assert_array_equal(loaded.score_samples(X), sampler.score_samples(X))
    np.testing.assert_array_equal(loaded.sample(20, 0), sampler.sample(20, 0))
    assert loaded.log_partition_ == sampler.log_partition_
    inner = SMALL.initial_state()[None]
    if objective in ("tb", "soft_q"):
        with pytest.raises(ValueError, match="This objective learns no state values"):
            loaded.state_values(inner)
    else:
        np.testing.assert_array_equal(loaded.state_values(inner), sampler.state_values(inner))
    assert isinstance(loaded.value_net_, torch.nn.Module)


def test_skops_brings_a_network_back(small_sets):
    skops_io = pytest.importorskip("skops.io")
    X, y = small_sets
    sampler = small(max_iter=5).fit(X, y)
    data = skops_io.dumps(sampler)
    untrusted = skops_io.get_untrusted_types(data=data)
    assert all(name.startswith(("skml.", "sklearn.", "numpy.")) for name in untrusted), untrusted
    loaded = skops_io.loads(data, trusted=untrusted)
    np.testing.assert_array_equal(loaded.score_samples(X), sampler.score_samples(X))


@pytest.mark.parametrize("objective", ["rpe", "tb"])
def test_the_seed_decides_everything_and_the_global_one_is_left_alone(objective, small_sets):
    X, y = small_sets
    torch.manual_seed(3)
    state = torch.random.get_rng_state()
    first = small(objective, max_iter=4).fit(X, y)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.rand(7)
    second = small(objective, max_iter=4).fit(X, y)
    np.testing.assert_array_equal(first.score_samples(X), second.score_samples(X))
    other = small(objective, max_iter=4, random_state=1).fit(X, y)
    assert (other.score_samples(X) != first.score_samples(X)).any()


def test_rewards_are_asked_in_batches_once_each_and_counted():
    asked = []

    def reward(X):
        asked.append(np.array(X))
        return 1.0 + X.sum(axis=1)

    sampler = small(reward=reward, max_iter=20, batch_size=10)
    sampler.fit(np.zeros((1, 4), dtype=int))
    everything = np.concatenate(asked)
    assert len(np.unique(everything, axis=0)) == len(everything)
    assert sampler.n_reward_calls_ == 200
    assert sampler.n_reward_evaluations_ == len(everything) == 11
    history = sampler.history_
    np.testing.assert_array_equal(np.sort(history["objects"], axis=0), np.sort(everything, axis=0))
    np.testing.assert_allclose(history["rewards"], 1.0 + history["objects"].sum(axis=1))
    assert (np.diff(history["reward_calls"]) > 0).all()
    assert history["reward_calls"][0] == 1
    assert history["step_reward_calls"].tolist() == list(range(10, 201, 10))


def test_exact_terminals_ask_for_the_children_too():
    X = np.zeros((1, 4), dtype=int)
    calls = []
    for terminal in ("learned", "exact"):
        sampler = small(
            reward=lambda X: 1.0 + X.sum(axis=1), terminal=terminal, max_iter=1, batch_size=2
        ).fit(X)
        calls.append(sampler.n_reward_calls_)
    assert calls[0] == 2 < calls[1]


def test_memory_finds_and_clips():
    process = AutoregressiveProcess([3, 3])
    X = all_rows([3, 3])
    model = RewardModel([3, 3], table=(X, np.arange(9.0)))
    memory = RewardMemory(process, model, 0.5)
    states = process.terminals(X)
    np.testing.assert_allclose(memory.ask(states[[8, 1, 8]]), [8, 4, 8])  # 1 is raised to 8 / 2
    assert (memory.n_calls, memory.n_evaluations) == (3, 2)
    found = memory.recall(states[[0, 8]])
    assert np.isnan(found[0])
    assert found[1] == 8
    memory.ask(states[[0, 8]], count="new")
    assert memory.n_calls == 4
    assert memory.first_calls.tolist() == [1, 2, 4]
    loaded = pickle.loads(pickle.dumps(memory))
    np.testing.assert_array_equal(loaded.recall(states), memory.recall(states))


def test_training_without_any_reward_is_an_error():
    with pytest.raises(ValueError, match="All rewards that training has seen are zero"):
        small(reward=lambda X: np.zeros(len(X)), max_iter=2).fit(np.zeros((1, 4), dtype=int))


def test_spaces_that_cannot_be_enumerated():
    X = np.array([list("ACGU")]).T.repeat(30, axis=1)
    sampler = RewardProportionalSampler(
        process="prepend_append",
        reward=lambda X: 1.0 + (X == "G").mean(axis=1),
        hidden_layer_sizes=(16,),
        max_iter=3,
        batch_size=4,
        random_state=0,
    ).fit(X)
    assert sampler.solver_ == "mlp"
    drawn = sampler.sample(6, random_state=0)
    assert drawn.shape == (6, 30)
    assert set(drawn.ravel()) <= set("ACGU")
    log_p = sampler.score_samples(drawn)
    # About uniform over 4 ** 30 strings: sums over 2 ** 29 paths, not the chance of one path.
    assert np.abs(log_p + 30 * np.log(4)).max() < 10
    with pytest.raises(ValueError, match="The distribution cannot be enumerated"):
        sampler.l1_distance()


def test_a_network_of_the_users(small_sets):
    class Table(torch.nn.Module):
        def __init__(self, state_sizes, n_outputs):
            super().__init__()
            self.embedding = torch.nn.Embedding(int(np.prod(state_sizes)), n_outputs)
            self.strides = torch.tensor(np.cumprod([1, *state_sizes[:-1]]).copy())

        def forward(self, states):
            return self.embedding((states * self.strides).sum(dim=1))

    X, y = small_sets
    sampler = small(module=Table, learning_rate=0.1).fit(X, y)
    assert isinstance(sampler.value_net_, Table)
    assert sampler.l1_distance() < 0.1


def test_gathered_and_multiplied_inputs_are_the_same():
    network = StateNetwork((3, 4, 2), (8, 5), 2)
    states = torch.tensor(all_rows([3, 4, 2]))
    with torch.no_grad():
        gathered = network(states)
    torch.testing.assert_close(network(states), gathered)


def test_old_paths_are_numbered_on_when_joined():
    process = SMALL
    parts = [roll_out(process, n, np.random.default_rng(n)) for n in (3, 2)]
    joined = join([parts[0], parts[1].compact(np.int8)])
    assert joined.n_paths == 5
    ends = np.concatenate([part.objects_states for part in parts])
    np.testing.assert_array_equal(joined.objects_states, ends)
    assert joined.states.dtype == np.int64


def test_early_stopping(small_sets):
    X, y = small_sets
    sampler = small(n_iter_no_change=3, tol=1e3).fit(X, y)
    assert sampler.n_iter_ == 4


def test_without_torch_the_exact_solver_works_and_training_names_the_command():
    code = (
        "import sys\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'torch':\n"
        "            raise ModuleNotFoundError(name, name='torch')\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        "from skml.gflownet import RewardProportionalSampler as S\n"
        "print(S().fit([[0], [1]]).score_samples([[0]]))\n"
        "S(solver='mlp').fit([[0], [1]])\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "-0.69" in result.stdout
    assert "ImportError: solver='mlp' needs torch: pip install 'skml[torch]'" in result.stderr


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_training_does_not_depend_on_the_unit_of_rewards(objective, small_sets):
    """Rewards that float64 cannot hold train as well as the same in another unit."""
    X, y = small_sets
    plain = small(objective, max_iter=60, reward_exponent=2.0).fit(X, y)
    tiny = small(objective, max_iter=60, reward_exponent=2.0).fit(X, y * 1e-200)
    shift = 2 * np.log(1e-200)
    if objective in ("rpe", "soft_q", "fm", "db", "subtb"):
        assert tiny.l1_distance() < plain.l1_distance() + 0.1
    assert tiny.l1_distance() < 0.6
    exact = np.log((y**2).sum()) + shift
    assert tiny.log_partition_ == pytest.approx(exact, abs=0.8)


@pytest.mark.parametrize("target", ["td", "mc"])
def test_values_beyond_the_range_of_float64(target):
    """There are 20 ** 240 sequences; one in twenty counts twice."""
    sampler = small(
        process=AutoregressiveProcess([20] * 240),
        reward=lambda X: 1.0 + (X[:, 0] == 0),
        target=target,
        hidden_layer_sizes=(4,),
        max_iter=4,
        batch_size=4,
    ).fit(np.zeros((1, 240), dtype=int))
    assert sampler.rectification_ == "path"
    exact = 240 * np.log(20) + np.log(21 / 20)
    assert sampler.log_partition_ == pytest.approx(exact, abs=0.5)
    root = sampler.process_.initial_state()[None]
    assert sampler.state_values(root)[0] == np.inf
    assert np.isfinite(sampler.loss_curve_).all()
    assert sampler.policy(root).sum() == pytest.approx(1.0)


def test_flows_that_float64_cannot_hold_are_refused():
    process = AutoregressiveProcess([20] * 240)
    with pytest.raises(ValueError, match=r"rectification='edge' learns flows.*e\*\*719"):
        small(
            process=process, reward=lambda X: np.ones(len(X)), rectification="edge", max_iter=1
        ).fit(np.zeros((1, 240), dtype=int))


def test_rewards_that_outgrow_the_first_ones_are_refused():
    seen = []

    def reward(X):
        seen.extend(X)
        return np.where(len(seen) > len(X), 1.0, np.full(len(X), 1e-3))

    sampler = small(reward=reward, reward_exponent=1000, batch_size=1)
    with pytest.raises(ValueError, match="With reward_exponent=1000 the scores up to 1 have"):
        sampler.fit(np.zeros((1, 4), dtype=int))


@pytest.mark.parametrize("objective", ["tb", "db", "subtb", "fm", "soft_q"])
def test_objectives_of_logarithms_need_a_reward(objective):
    with pytest.raises(ValueError, match="all objects of the first paths score zero.*reward_floor"):
        small(objective, reward=lambda X: np.zeros(len(X))).fit(np.zeros((1, 4), dtype=int))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            lambda sizes, n_outputs: None,
            "must make a torch.nn.Module with parameters, got NoneType",
        ),
        (lambda sizes, n_outputs: torch.nn.Flatten(), "with parameters, got Flatten"),
        (
            lambda sizes, n_outputs: StateNetwork(sizes, (3,), n_outputs + 1),
            r"outputs of shape \(1, \d\); it returned shape \(1, \d\)",
        ),
    ],
)
@pytest.mark.parametrize("objective", ["rpe", "tb"])
def test_modules_that_do_not_fit_are_named(objective, module, message, small_sets):
    with pytest.raises(ValueError, match=message):
        small(objective, module=module).fit(*small_sets)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_networks_in_double_precision(objective, small_sets):
    X, y = small_sets

    def module(sizes, n_outputs):
        return StateNetwork(sizes, (8,), n_outputs).double()

    sampler = small(objective, module=module, max_iter=3).fit(X, y)
    assert np.isfinite(sampler.score_samples(X)).all()


def test_soft_q_has_a_uniform_backward_policy(small_sets):
    X, y = small_sets
    first = small("soft_q", backward_policy="learned", max_iter=5).fit(X, y)
    second = small("soft_q", max_iter=5).fit(X, y)
    np.testing.assert_array_equal(first.score_samples(X), second.score_samples(X))


def test_subtrajectory_balance_of_single_steps_is_detailed_balance(exact):
    e, _ = exact
    wrong = e | {"log_pf": e["log_pf"] + 0.1 * torch.arange(len(e["log_pf"]))}
    common = wrong["log_pf"], wrong["log_pb"], wrong["log_flow"]
    loss = objectives.subtrajectory_balance_loss(
        *common, wrong["log_rewards"], wrong["path"], wrong["step"], 0.0
    )
    per_edge = [
        objectives.detailed_balance_loss(
            *(part[row : row + 1] for part in (*common, wrong["log_flow_next"]))
        )
        for row in range(len(wrong["path"]))
    ]
    per_edge = torch.stack(per_edge)
    per_path = [per_edge[wrong["path"] == path].mean() for path in range(len(wrong["log_rewards"]))]
    assert float(loss) == pytest.approx(float(torch.stack(per_path).mean()))


def test_children_of_many_states_are_evaluated_in_parts(monkeypatch, small_sets):
    from skml.gflownet import _value_learner

    X, y = small_sets
    whole = small(max_iter=5).fit(X, y)
    monkeypatch.setattr(_value_learner, "_CHILD_ENTRIES", 60)
    parts = small(max_iter=5).fit(X, y)
    np.testing.assert_allclose(parts.loss_curve_, whole.loss_curve_, rtol=1e-5)
    np.testing.assert_allclose(parts.score_samples(X), whole.score_samples(X), rtol=1e-4)
