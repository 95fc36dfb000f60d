"""Facts about random policy evaluation that follow from the mathematics, one test each."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from skml.gflownet import (
    AutoregressiveProcess,
    HypergridProcess,
    PrependAppendProcess,
    RewardProportionalSampler,
    SetProcess,
)
from skml.gflownet._exact import (
    branching_ratios,
    edge_weights,
    evaluate_flows,
    evaluate_values,
    normalised,
    visit_probabilities,
)
from skml.gflownet._paths import log_path_sums
from skml.gflownet._row_keys import RowKeys
from skml.gflownet._state_table import ExploredTable, make_table
from skml.gflownet._table_solution import TableSolution
from tests.gflownet._problems import (
    MergedStrings,
    TreeProcess,
    all_rows,
    all_sets,
    brute_force_probability,
    interval_probability,
    random_tree,
)


def sampled(table, values, *, share=False):
    """Probabilities of the objects when children are drawn in proportion to values."""

    def probabilities(block):
        children, weights = edge_weights(table, block, values, share=share)
        return children, normalised(weights, children >= 0)

    return visit_probabilities(table, probabilities)[table.terminal]


def test_oracle_01_tiny_tree():
    process = TreeProcess([[1, 2], [], [3, 4, 5], [], [], []])
    X = np.array([[1], [3], [4], [5]])
    sampler = RewardProportionalSampler(process=process).fit(X, np.ones(4))
    assert sampler.rectification_ == "path"
    values = sampler.state_values([[0], [1], [2], [3]])
    np.testing.assert_allclose(values, [4, 2, 6, 6], rtol=1e-14)
    np.testing.assert_allclose(sampler.policy([[0]])[0, :2], [0.25, 0.75], rtol=1e-14)
    table = make_table(process, 100)
    plain = evaluate_values(table, np.ones(4))
    _, weights = edge_weights(table, np.array([0]), plain, share=False)
    assert weights[0, 1] / weights.sum() == pytest.approx(0.5)


@pytest.mark.parametrize("seed", range(5))
def test_oracle_02_trees_with_unequal_branching(seed):
    rng = np.random.default_rng(seed)
    process = TreeProcess(random_tree(rng, 5))
    table = make_table(process, 10_000)
    rewards = rng.random(len(table.terminal)) ** 2
    flows = evaluate_flows(table, rewards)
    log_g, conflict = branching_ratios(table)
    assert conflict is None
    values = evaluate_values(table, rewards * np.exp(log_g[table.terminal]))
    assert np.abs(values - flows * np.exp(log_g)).max() < 1e-12 * values.max()
    target = rewards / rewards.sum()
    assert np.abs(sampled(table, values) - target).sum() < 1e-12
    # Without rectification the distribution is another one.
    assert np.abs(sampled(table, evaluate_values(table, rewards)) - target).sum() > 0.1


def test_oracle_03_prepend_append_with_multi_edges():
    rng = np.random.default_rng(0)
    X, y = all_rows([4] * 5), rng.random(4**5)
    sampler = RewardProportionalSampler(process=PrependAppendProcess(4, 5)).fit(X, y)
    assert sampler.rectification_ == "path"
    assert np.exp(sampler.log_partition_) == pytest.approx(y.sum(), rel=1e-13)
    assert sampler.l1_distance() < 1e-12
    table = make_table(sampler.process_, 10_000)
    log_g, _ = branching_ratios(table)
    length = np.count_nonzero(table.states(np.arange(table.n_states)), axis=1)
    np.testing.assert_allclose(np.exp(log_g), 4.0**length)

    merged = MergedStrings(4, 5)
    with pytest.raises(ValueError, match=r"MergedStrings has g = .* and g = .* for the state \["):
        RewardProportionalSampler(process=merged, rectification="path").fit(X, y)
    sampler = RewardProportionalSampler(process=merged).fit(X, y)
    assert sampler.rectification_ == "edge"
    assert sampler.l1_distance() < 1e-12


def test_oracle_04_sets_with_stop():
    rng = np.random.default_rng(0)
    X = all_sets(8, range(5))
    y = rng.random(len(X)) ** 2 + 0.01
    process = SetProcess(4, n_items=8, stop=True)
    sampler = RewardProportionalSampler(process=process).fit(X, y)
    assert sampler.rectification_ == "path"
    assert sampler.l1_distance() < 1e-12
    states = sampler.process_.terminals(X)
    g = np.exp(sampler.process_._log_branching(states))
    for size, expected in enumerate([9, 72, 252, 504, 126]):
        np.testing.assert_allclose(g[X.sum(axis=1) == size], expected)
    table = make_table(sampler.process_, 1000)
    rewards = np.empty(table.n_states)
    rewards[table.index(states)] = y
    plain = sampled(table, evaluate_values(table, rewards[table.terminal]))
    assert 0.4 < np.abs(plain - rewards[table.terminal] / y.sum()).sum() < 0.65


def test_oracle_05_hypergrid_needs_rectification_by_edge():
    X = all_rows([8, 8])
    process = HypergridProcess(8, n_dims=2)
    sampler = RewardProportionalSampler(process=process).fit(X)
    assert sampler.rectification_ == "edge"
    assert np.exp(sampler.log_partition_) == pytest.approx(16.64)
    assert sampler.l1_distance() < 1e-12
    with pytest.raises(ValueError, match="HypergridProcess has g ="):
        RewardProportionalSampler(process=process, rectification="path").fit(X)
    # One g for each state, that of one of its paths, in spite of the difference.
    table = make_table(sampler.process_, 1000)
    log_g, conflict = branching_ratios(table)
    assert conflict is not None
    rewards = sampler.process_.rewards(sampler.process_.objects(table.states(table.terminal)))
    forced = sampled(table, evaluate_values(table, rewards * np.exp(log_g[table.terminal])))
    assert np.abs(forced - rewards / rewards.sum()).sum() > 0.5


@pytest.mark.parametrize(
    ("side", "n_dims", "at_one_state", "over_all"), [(8, 2, 37, 65), (6, 3, 114, 152)]
)
def test_oracle_05_numbers_of_branching_ratios(side, n_dims, at_one_state, over_all):
    """Values of g, by carrying all of them along the edges as exact fractions."""
    table = make_table(HypergridProcess(side, n_dims=n_dims), 10_000)
    values = [set() for _ in range(table.n_states)]
    values[table.root].add(Fraction(1))
    for block in table.inner_blocks():
        for state, children in zip(block, table.children(block), strict=True):
            for child in children[children >= 0]:
                ratio = Fraction(int(table.n_children[state]), int(table.n_parents[child]))
                values[child] |= {g * ratio for g in values[state]}
    assert max(len(values[x]) for x in table.terminal) == at_one_state
    assert len(set().union(*(values[x] for x in table.terminal))) == over_all


@pytest.mark.parametrize(
    "process",
    [
        AutoregressiveProcess([2, 3, 4]),
        AutoregressiveProcess([3, 2, 2], stop=True),
        PrependAppendProcess(3, 4),
        SetProcess(3, n_items=6, stop=False),
        SetProcess(4, n_items=6, stop=True),
    ],
)
def test_oracle_06_values_and_flows_give_the_same_policy(process):
    rng = np.random.default_rng(0)
    table = make_table(process, 10_000)
    rewards = rng.random(len(table.terminal))
    flows = TableSolution(table, rewards, None)
    values = TableSolution(table, rewards, branching_ratios(table)[0])
    inner = np.flatnonzero(table.n_children)
    difference = values._probabilities(inner)[1] - flows._probabilities(inner)[1]
    assert np.abs(difference).max() < 1e-14
    # F(s') P_B(s | s') / F(s), edge by edge.
    children, p = flows._probabilities(inner)
    there = children >= 0
    share = flows.values[children] / np.maximum(table.n_parents[children], 1)
    expected = np.where(there, share / flows.values[inner, None], 0.0)
    np.testing.assert_allclose(p, expected, atol=1e-14)


@pytest.mark.parametrize(
    ("process", "X"),
    [
        ("autoregressive", all_rows([2, 3, 2])),
        (PrependAppendProcess(2, 4), all_rows([2] * 4)),
        (SetProcess(3, n_items=5, stop=True), all_sets(5, range(4))),
        (HypergridProcess(4, n_dims=2), all_rows([4, 4])),
    ],
)
def test_oracle_07_constant_scaled_and_indicator_rewards(process, X):
    rng = np.random.default_rng(0)
    sampler = RewardProportionalSampler(process=process)
    constant = sampler.fit(X, np.ones(len(X))).score_samples(X)
    np.testing.assert_allclose(np.exp(constant), 1 / len(X))

    y = rng.random(len(X))
    plain = sampler.fit(X, y).score_samples(X)
    states = sampler.process_.terminals(X[:1])
    _, parents, _ = sampler.process_.parents(states)
    policy, log_z = sampler.policy(parents), sampler.log_partition_
    np.testing.assert_allclose(sampler.fit(X, 7 * y).score_samples(X), plain, atol=1e-12)
    np.testing.assert_allclose(sampler.policy(parents), policy, atol=1e-12)
    assert sampler.log_partition_ - log_z == pytest.approx(np.log(7))

    chosen = len(X) // 3
    sampler.fit(X, np.arange(len(X)) == chosen)
    assert (sampler.sample(200, random_state=0) == X[chosen]).all()
    assert sampler.score_samples(X)[chosen] == pytest.approx(0, abs=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_oracle_08_trajectory_balance_at_its_optimum():
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X = all_rows([3, 2, 3])
    y = rng.random(len(X)) + 0.2
    exact = RewardProportionalSampler().fit(X, y)
    learned = RewardProportionalSampler(
        "tb", hidden_layer_sizes=(32,), learning_rate=0.01, max_iter=600, random_state=0
    ).fit(X, y)
    assert learned.log_partition_ == pytest.approx(exact.log_partition_, abs=1e-2)
    np.testing.assert_allclose(learned.score_samples(X), exact.score_samples(X), atol=1e-2)


def test_oracle_09_interval_recursion_for_any_policy():
    rng = np.random.default_rng(0)
    process = PrependAppendProcess(4, 5)
    table = make_table(process, 10_000)
    weights = rng.random((table.n_states, process.n_actions)) ** 3

    def policy(states):
        available = process.actions(states)
        return normalised(weights[table.index(states)] * available, available)

    X = all_rows([4] * 5)
    states = process.terminals(X)
    p = np.exp(log_path_sums(process, states, policy, RowKeys(process.state_sizes)))
    assert p.sum() == pytest.approx(1.0, rel=1e-12)

    enumerated = visit_probabilities(
        table, lambda block: (table.children(block), policy(table.states(block)))
    )
    np.testing.assert_allclose(p, enumerated[table.index(states)], rtol=1e-11)

    def of(string, action):
        state = np.zeros((1, 5), dtype=int)
        state[0, : len(string)] = np.array(string, dtype=int) + 1
        return policy(state)[0, action]

    for row in rng.choice(len(X), 20, replace=False):
        expected = interval_probability(
            X[row].tolist(), of, lambda string, letter: of(string, 4 + letter)
        )
        assert p[row] == pytest.approx(expected, rel=1e-11)
        assert p[row] == pytest.approx(brute_force_probability(process, states[row], policy))


def test_oracle_10_tensor_means_equal_the_general_solver():
    rng = np.random.default_rng(0)
    process = PrependAppendProcess(4, 8)
    table = make_table(process, 100_000)
    rewards = np.maximum(rng.random(4**8), 1e-3) ** 3
    means = evaluate_values(table, rewards)
    assert means[table.root] == pytest.approx(rewards.mean(), rel=1e-13)
    # The general backup knows nothing of strings; V = F g with g = 4 ** length.
    length = np.count_nonzero(table.states(np.arange(table.n_states)), axis=1)
    general = evaluate_flows(table, rewards) * 4.0**length / 4**8
    np.testing.assert_allclose(means, general, rtol=1e-12)
    assert np.abs(sampled(table, means) - rewards / rewards.sum()).sum() < 1e-12

    small = PrependAppendProcess(3, 4)
    explored = ExploredTable(small, 1000)
    indexed = make_table(small, 1000)
    rewards = rng.random(len(indexed.terminal))
    order = indexed.index(explored.states(explored.terminal)) - indexed.terminal[0]
    found = evaluate_flows(explored, rewards[order])
    expected = evaluate_flows(indexed, rewards)[indexed.index(explored.states(np.arange(121)))]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_oracle_11_targets_converge_to_the_same_values():
    """Averages of tabular Monte-Carlo and one-step targets, within three standard errors."""
    torch = pytest.importorskip("torch")
    from skml.gflownet._rewards import RewardMemory, RewardModel
    from skml.gflownet._rollouts import roll_out
    from skml.gflownet._value_learner import ValueLearner

    class Tabular(torch.nn.Module):
        """The value of each state, whose inverse softplus it gives."""

        def __init__(self, values):
            super().__init__()
            self.values = values

        def forward(self, states):
            v = torch.from_numpy(self.values[table.index(states.numpy())])
            return (v + torch.log(-torch.expm1(-v)) - 0.5413248546129181)[:, None]

    rng = np.random.default_rng(0)
    for process in (SetProcess(3, n_items=5, stop=True), HypergridProcess(4, n_dims=2)):
        table = make_table(process, 1000)
        objects = process.objects(table.states(table.terminal))
        rewards = rng.random(len(objects)) + 0.1
        by_edge = not process.path_invariant
        log_g = branching_ratios(table)[0]
        exact = TableSolution(table, rewards, None if by_edge else log_g).values
        sizes = process.state_sizes[: objects.shape[1]]
        memory = RewardMemory(process, RewardModel(sizes, table=(objects, rewards)), 0.0)
        options = {
            "by_edge": by_edge,
            "memory": memory,
            "hidden_layer_sizes": (1,),
            "keys": RowKeys(process.state_sizes),
        }
        paths = roll_out(process, 20_000, rng)
        end_rewards = memory.ask(paths.objects_states)
        where = table.index(paths.states)
        root = where == table.root
        for settings in ({"monte_carlo": True}, {"trace_decay": 0.7}, {"trace_decay": 0.0}):
            learner = ValueLearner(process, **options, **settings)
            learner.scale, learner.network = 1.0, Tabular(exact)
            ends = learner._end_values(paths.objects_states, end_rewards)
            targets = learner._targets(paths, ends)
            counts = np.bincount(where, minlength=table.n_states)
            enough = counts >= 500
            mean = np.bincount(where, weights=targets, minlength=table.n_states)[enough]
            mean /= counts[enough]
            square = np.bincount(where, weights=targets**2, minlength=table.n_states)[enough]
            spread = np.sqrt(np.maximum(square / counts[enough] - mean**2, 0))
            error = np.abs(mean - exact[enough])
            # Many states are looked at, so the largest of their deviations may be larger.
            assert (error <= 4.5 * spread / np.sqrt(counts[enough]) + 1e-5 * mean).all()
            at_root = targets[root]
            error = abs(at_root.mean() - exact[table.root])
            assert error <= 3 * at_root.std() / np.sqrt(root.sum()) + 1e-5 * exact[table.root]
            if settings == {"trace_decay": 0.0}:
                np.testing.assert_allclose(targets, exact[where], rtol=1e-5)


def test_oracle_12_samples_follow_the_probabilities():
    rng = np.random.default_rng(0)
    cases = [
        (AutoregressiveProcess([3, 2, 4], stop=True), None),
        (SetProcess(3, n_items=7, stop=True), all_sets(7, range(4))),
        (PrependAppendProcess(3, 3), all_rows([3] * 3)),
        (HypergridProcess(6, n_dims=2), all_rows([6, 6])),
        (AutoregressiveProcess([4, 5, 3]), all_rows([4, 5, 3])),
    ]
    for process, X in cases:
        if X is None:
            states = make_table(process, 1000)
            X = process.objects(states.states(states.terminal))
        y = rng.random(len(X)) + 0.1
        sampler = RewardProportionalSampler(process=process).fit(X, y)
        drawn = sampler.sample(20_000, random_state=1)
        keys = RowKeys(tuple(X.max(axis=0) + 2))
        order = {key: row for row, key in enumerate(keys.keys(X + 1))}
        counts = np.bincount([order[key] for key in keys.keys(drawn + 1)], minlength=len(X))
        expected = 20_000 * np.exp(sampler.score_samples(X))
        assert chisquare(counts, expected).pvalue > 1e-4, process


def test_oracle_12_a_million_samples():
    rng = np.random.default_rng(0)
    X, y = all_rows([4] * 4), rng.random(256) + 0.01
    sampler = RewardProportionalSampler(process=PrependAppendProcess(4, 4)).fit(X, y)
    drawn = sampler.sample(1_000_000, random_state=0)
    counts = np.bincount(drawn @ 4 ** np.arange(3, -1, -1), minlength=256)
    assert chisquare(counts, 1e6 * y / y.sum()).pvalue > 1e-4
