"""What a sceptic would test of the sampler and its processes."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from skml.gflownet import (
    AutoregressiveProcess,
    HypergridProcess,
    PrependAppendProcess,
    Process,
    RewardProportionalSampler,
    SetProcess,
)
from skml.gflownet._branching import find_path_dependence, log_branching_ratios
from skml.gflownet._exact import branching_ratios, evaluate_flows, visit_probabilities
from skml.gflownet._paths import log_path_sums
from skml.gflownet._rollouts import choose, roll_out
from skml.gflownet._row_keys import RowKeys
from skml.gflownet._state_table import ExploredTable, make_table
from skml.gflownet._table_solution import TableSolution
from tests.gflownet._problems import MergedStrings, TreeProcess, all_rows, all_sets, random_tree

PROCESSES = [
    AutoregressiveProcess([3]),
    AutoregressiveProcess([2, 3, 1, 4]),
    AutoregressiveProcess([2, 3, 2], stop=True),
    AutoregressiveProcess([1], stop=True),
    PrependAppendProcess(3, 4),
    PrependAppendProcess(1, 3),
    PrependAppendProcess(2, 1),
    SetProcess(4, n_items=8, stop=True),
    SetProcess(3, n_items=6, stop=False),
    SetProcess(5, n_items=5, stop=True),
    SetProcess(1, n_items=1, stop=True),
    HypergridProcess(4, n_dims=3),
    HypergridProcess(5, n_dims=1),
    HypergridProcess(1, n_dims=2),
]


def example(process, seed=0):
    """All objects of a process, and random rewards."""
    table = make_table(process, 10_000)
    X = process.objects(table.states(table.terminal))
    return table, X, np.random.default_rng(seed).random(len(X)) + 0.1


# Processes.


@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_numbers_of_states_agree_with_following_all_actions(process):
    table, explored = make_table(process, 10_000), ExploredTable(process, 10_000)
    assert table.n_states == explored.n_states == process.n_states
    states = explored.states(np.arange(explored.n_states))
    numbers = table.index(states)
    np.testing.assert_array_equal(np.sort(numbers), np.arange(table.n_states))
    np.testing.assert_array_equal(table.states(numbers), states)
    children = explored._children
    expected = np.where(children >= 0, numbers[children], -1)
    np.testing.assert_array_equal(table.children(numbers), expected)
    depth = np.empty(table.n_states, dtype=int)
    for number, level in enumerate(table.levels):
        depth[level] = number
    np.testing.assert_array_equal(depth[numbers], explored._depth)
    np.testing.assert_array_equal(process._step_counts(states), explored._depth)


@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_parents_are_the_inverse_of_steps(process):
    table = ExploredTable(process, 10_000)
    states = table.states(np.arange(table.n_states))
    rows, parents, actions = process.parents(states)
    np.testing.assert_array_equal(process.step(parents, actions), states[rows])
    edges = sorted(zip(rows, table.index(parents), actions, strict=True))
    at, action = np.nonzero(process.actions(states))
    forwards = sorted(zip(table.children(at)[np.arange(len(at)), action], at, action, strict=True))
    assert edges == forwards  # all edges, each with its multiplicity
    np.testing.assert_array_equal(process.n_parents(states), Process.n_parents(process, states))
    ends = states[table.terminal]
    np.testing.assert_array_equal(process.terminals(process.objects(ends)), ends)


@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_closed_form_of_branching_ratios(process):
    table = make_table(process, 10_000)
    log_g, conflict = branching_ratios(table)
    assert (conflict is None) == bool(process.path_invariant)
    states = table.states(np.arange(table.n_states))
    if conflict is None:
        np.testing.assert_allclose(process._log_branching(states), log_g, atol=1e-12)
    else:
        state, low, high = conflict
        assert low < high
        assert len(state) == len(process.state_sizes)


@pytest.mark.parametrize("process", PROCESSES, ids=str)
@pytest.mark.parametrize("rectification", ["auto", "edge"])
def test_every_process_is_sampled_exactly(process, rectification):
    _, X, y = example(process)
    sampler = RewardProportionalSampler(process=process, rectification=rectification).fit(X, y)
    assert sampler.solver_ == "exact"
    assert np.exp(sampler.log_partition_) == pytest.approx(y.sum())
    assert sampler.l1_distance() < 1e-12
    assert sampler.accuracy() == pytest.approx(100)
    np.testing.assert_allclose(np.exp(sampler.score_samples(X)), y / y.sum())
    root = sampler.process_.initial_state()[None]
    assert sampler.state_values(root)[0] == pytest.approx(y.sum())
    expected = "edge" if rectification == "edge" or not process.path_invariant else "path"
    assert sampler.rectification_ == expected


@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_sum_over_paths_equals_enumeration(process):
    table, X, y = example(process)
    solution = TableSolution(table, y, None)
    states = process.terminals(X)
    p = np.exp(log_path_sums(process, states, solution.policy, RowKeys(process.state_sizes)))
    np.testing.assert_allclose(p, y / y.sum(), rtol=1e-10)


def test_a_subclass_with_other_actions_is_not_taken_for_its_base():
    process = MergedStrings(2, 3)
    table = make_table(process, 1000)
    assert isinstance(table, ExploredTable)
    assert find_path_dependence(process, np.random.default_rng(0)) is not None
    assert find_path_dependence(PrependAppendProcess(2, 3), np.random.default_rng(0)) is None


def test_branching_ratios_of_a_process_of_the_users_by_walking_back():
    process = TreeProcess(random_tree(np.random.default_rng(3), 4))
    table = make_table(process, 1000)
    states = table.states(np.arange(table.n_states))
    np.testing.assert_allclose(log_branching_ratios(process, states), branching_ratios(table)[0])


class Circle(TreeProcess):
    """Node 2 leads back to node 1."""

    def __init__(self, children=([1], [2], [1, 3], [])):
        super().__init__(list(children))


def test_circles_are_refused():
    with pytest.raises(ValueError, match="the actions of the process lead in a circle"):
        RewardProportionalSampler(process=Circle()).fit(np.array([[3]]), [1.0])


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    stop=st.booleans(),
    seed=st.integers(0, 100),
    floor=st.sampled_from([0.0, 0.3]),
)
@settings(max_examples=25, deadline=None)
def test_trie_equals_the_table_of_all_states(sizes, stop, seed, floor):
    """Any part of the objects in the table, some of them without reward."""
    rng = np.random.default_rng(seed)
    process = AutoregressiveProcess(sizes, stop=stop)
    table, X, _ = example(process)
    rows = rng.random(len(X)) < 0.5
    rows[rng.integers(len(X))] = True
    y = np.where(rng.random(rows.sum()) < 0.2, 0.0, rng.random(rows.sum()))
    y[0] = 1.0
    sampler = RewardProportionalSampler(process=process, reward_floor=floor).fit(X[rows], y)
    rewards = np.full(len(X), floor)
    rewards[rows] = np.maximum(y, floor)
    solution = TableSolution(table, rewards, branching_ratios(table)[0])
    assert sampler.log_partition_ == pytest.approx(solution.log_partition)
    states = table.states(np.arange(table.n_states))
    np.testing.assert_allclose(sampler.state_values(states), solution.values, atol=1e-12)
    # Where nothing can be reached any policy will do.
    reachable = (solution.values > 0) & (table.n_children > 0)
    np.testing.assert_allclose(
        sampler.policy(states)[reachable], solution.policy(states)[reachable], atol=1e-12
    )
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(
            sampler.score_samples(X), np.log(rewards) - np.log(rewards.sum()), atol=1e-12
        )
    assert sampler.l1_distance() < 1e-12
    drawn = sampler.sample(300, random_state=0)
    assert np.isfinite(sampler.score_samples(drawn)).all()


def test_unseen_sequences_are_drawn_in_their_proportion():
    X = np.array([[0, 0], [1, 1], [2, 2]])
    sampler = RewardProportionalSampler(reward_floor=0.5).fit(X, [3.0, 2.0, 1.0])
    # Six of the nine objects are unseen and worth 0.5 each.
    assert np.exp(sampler.log_partition_) == pytest.approx(9.0)
    drawn = sampler.sample(4000, random_state=0)
    share = (drawn[:, 0] != drawn[:, 1]).mean()
    assert abs(share - 3 / 9) < 4 * np.sqrt(2 / 9 / 4000)


def test_wide_tables_need_prefixes_only():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 12)), rng.random(200)
    sampler = RewardProportionalSampler(reward_floor=1e-12).fit(X, y)
    assert sampler.n_states_ <= 200 * 12 + 1
    p = np.exp(sampler.score_samples(X))
    assert p.sum() < 1e-3  # 200 ** 12 unseen objects outweigh them
    drawn = sampler.sample(5, random_state=0)
    assert drawn.shape == (5, 12)
    sampler.set_params(reward_floor=0.0).fit(X, y)
    np.testing.assert_allclose(np.exp(sampler.score_samples(X)), y / y.sum())
    with pytest.raises(ValueError, match=r"more than max_states = 50 prefixes.*max_states"):
        sampler.set_params(max_states=50, solver="exact").fit(X, y)
    wide = rng.normal(size=(200, 150))
    with pytest.raises(ValueError, match="reward_floor must be 0 where there are more than 1e308"):
        RewardProportionalSampler(reward_floor=0.1).fit(wide, y)


def test_draws_never_take_what_has_no_weight():
    class AlwaysLargest:
        def random(self, n):
            return np.full(n, np.nextafter(1.0, 0.0))

    weights = np.array([[0.1, 0.2, 0.0], [0.0, 0.0, 3.0], [1e-300, 0.0, 0.0], [0.3, 0.3, 0.0]])
    np.testing.assert_array_equal(choose(weights, AlwaysLargest()), [1, 2, 0, 1])
    rng = np.random.default_rng(0)
    rows = rng.integers(4, size=1000)
    assert (weights[rows, choose(weights, rng, rows)] > 0).all()


def test_rollouts_are_paths_of_the_process():
    process = SetProcess(3, n_items=5, stop=True)
    paths = roll_out(process, 40, np.random.default_rng(0))
    assert paths.n_paths == 40
    np.testing.assert_array_equal(process.step(paths.states, paths.actions), paths.next_states)
    for number in range(40):
        rows = np.flatnonzero(paths.path == number)
        np.testing.assert_array_equal(paths.step[rows], np.arange(len(rows)))
        np.testing.assert_array_equal(paths.next_states[rows[:-1]], paths.states[rows[1:]])
        assert paths.is_last[rows].tolist() == [False] * (len(rows) - 1) + [True]
    pieces = list(paths.split(16))
    assert [piece.n_paths for piece in pieces] == [16, 16, 8]
    ends = np.concatenate([piece.objects_states for piece in pieces])
    np.testing.assert_array_equal(ends, paths.objects_states)


# Scores.


def test_equal_rows_are_averaged_with_their_weights():
    X = [["a"], ["a"], ["b"], ["c"]]
    y, weights = [1.0, 4.0, 2.0, 9.0], [2.0, 1.0, 1.0, 0.0]
    sampler = RewardProportionalSampler().fit(X, y, sample_weight=weights)
    assert sampler.categories_[0].tolist() == ["a", "b"]
    np.testing.assert_allclose(np.exp(sampler.score_samples([["a"], ["b"]])), [0.5, 0.5])


def test_floor_comes_before_the_exponent():
    X, y = [[0], [1], [2]], [0.1, 0.5, 1.0]
    sampler = RewardProportionalSampler(reward_floor=0.5, reward_exponent=2).fit(X, y)
    np.testing.assert_allclose(np.exp(sampler.score_samples(X)), np.array([0.25, 0.25, 1]) / 1.5)


@pytest.mark.parametrize("solver", ["exact", "mlp"])
@pytest.mark.parametrize("scored_by", ["table", "function"])
def test_floor_of_objects_that_are_enumerated(solver, scored_by):
    """Of the three objects one scores below the floor, and one is not in the table."""
    if solver == "mlp":
        pytest.importorskip("torch")
    X, y = [[1, 0, 0], [0, 1, 0]], [0.1, 2.0]
    function = None if scored_by == "table" else lambda X: X @ np.array([0.1, 2.0, 0.0])
    sampler = RewardProportionalSampler(
        process="set",
        reward=function,
        reward_floor=0.5,
        reward_exponent=2.0,
        solver=solver,
        hidden_layer_sizes=(4,),
        max_iter=3,
    ).fit(X, None if function else y)
    objects, _, target = sampler.distribution()
    expected = np.where(objects @ np.array([0, 1, 0]) == 1, 4.0, 0.25) / 4.5
    np.testing.assert_allclose(target, expected)


def test_unseen_objects_by_a_regressor():
    X = np.array([["a", "a"], ["a", "b"], ["b", "a"]])
    y = np.array([1.0, 2.0, 4.0])
    regressor = Pipeline([("code", OneHotEncoder()), ("fit", LinearRegression())])
    sampler = RewardProportionalSampler(reward_estimator=regressor, missing_reward="estimator")
    sampler.fit(X, y)
    everything = np.array([["a", "a"], ["a", "b"], ["b", "a"], ["b", "b"]])
    p = np.exp(sampler.score_samples(everything))
    np.testing.assert_allclose(p[:3] / p[0], y)  # what was measured is not predicted
    assert p[3] / p[0] == pytest.approx(5.0)
    assert not hasattr(regressor["fit"], "coef_")
    with pytest.raises(ValueError, match="missing_reward='estimator' needs a reward_estimator"):
        RewardProportionalSampler(missing_reward="estimator").fit(X, y)


def test_predictions_below_zero_are_zero():
    X = np.array([["a", "a"], ["a", "b"], ["b", "a"]])
    regressor = Pipeline([("code", OneHotEncoder()), ("fit", LinearRegression())])
    sampler = RewardProportionalSampler(reward_estimator=regressor, missing_reward="estimator")
    sampler.fit(X, [4.0, 1.0, 1.0])  # b, b would be -2
    assert np.isneginf(sampler.score_samples([["b", "b"]])[0])


def test_a_function_gets_objects_in_the_form_of_X():
    frame = pd.DataFrame({"base": ["A", "C"], "count": [1, 2]})
    seen = []

    def reward(objects):
        seen.append(objects)
        return objects["count"].to_numpy() + (objects["base"] == "C")

    sampler = RewardProportionalSampler(reward=reward).fit(frame)
    assert all(list(X.columns) == ["base", "count"] for X in seen)
    assert sum(map(len, seen)) == sampler.n_reward_calls_ == 4
    p = np.exp(sampler.score_samples(pd.DataFrame({"base": ["A", "C"], "count": [2, 1]})))
    np.testing.assert_allclose(p, [2 / 8, 2 / 8])


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (lambda X: np.ones(3), r"reward must return one number per object, shape \(2,\).*\(3,\)"),
        (lambda X: np.array([1.0, np.nan]), "reward must return finite numbers, got nan"),
        (lambda X: np.array([1.0, -2.0]), "reward must return numbers of at least 0, got -2.0"),
        (lambda X: np.zeros(2), "All rewards are zero; at least one must be positive"),
    ],
)
def test_bad_functions_are_named(reward, message):
    with pytest.raises(ValueError, match=message):
        RewardProportionalSampler(reward=reward).fit([[0], [1]])


def test_rewards_of_the_process_itself():
    X = all_rows([8, 8])
    sampler = RewardProportionalSampler(process="hypergrid").fit(X)
    np.testing.assert_allclose(
        np.exp(sampler.score_samples(X)), sampler.process_.rewards(X) / 16.64
    )
    uniform = sampler.fit(X, np.ones(64))
    np.testing.assert_allclose(np.exp(uniform.score_samples(X)), 1 / 64)


# Forms of X.


def test_dataframes_come_back_as_they_were():
    frame = pd.DataFrame(
        {
            "letter": pd.Categorical(["x", "y", "x"]),
            "number": [1, 2, 3],
            "flag": [True, False, True],
            "text": ["p", "q", "r"],
        }
    )
    sampler = RewardProportionalSampler().fit(frame, [1.0, 2.0, 3.0])
    drawn = sampler.sample(50, random_state=0)
    assert isinstance(drawn, pd.DataFrame)
    assert list(drawn.columns) == list(frame.columns)
    assert drawn.dtypes.astype(str).tolist() == frame.dtypes.astype(str).tolist()
    rows = set(map(tuple, frame.to_numpy().tolist()))
    assert set(map(tuple, drawn.to_numpy().tolist())) <= rows
    np.testing.assert_allclose(np.exp(sampler.score_samples(frame)), [1 / 6, 2 / 6, 3 / 6])


def test_polars_dataframes_come_back():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"a": ["x", "y"], "b": ["u", "v"]})
    drawn = RewardProportionalSampler().fit(frame, [1.0, 2.0]).sample(4, random_state=0)
    assert isinstance(drawn, pl.DataFrame)
    assert drawn.columns == ["a", "b"]


@pytest.mark.parametrize(
    ("X", "end"),
    [
        (np.array([["a", "b"], ["a", ""], ["", ""]]), ""),
        (np.array([["a", "b"], ["a", None], [None, None]], dtype=object), None),
        (np.array([[1.5, 2.5], [1.5, np.nan], [np.nan, np.nan]]), np.nan),
        (np.array([[3, 4], [3, -1], [-1, -1]]), -1),
    ],
)
def test_sequences_that_end_early(X, end):
    y = [1.0, 2.0, 5.0]
    sampler = RewardProportionalSampler(process="autoregressive_stop").fit(X, y)
    np.testing.assert_allclose(np.exp(sampler.score_samples(X)), np.array(y) / 8)
    drawn = sampler.sample(200, random_state=0)
    assert drawn.dtype == X.dtype
    ended = [value is end or value == end or value != value for value in drawn[:, 1]]
    assert 0.7 < np.mean(ended) < 1.0
    with pytest.raises(ValueError, match="Row 0 of X has a value after a missing one"):
        RewardProportionalSampler(process="autoregressive_stop").fit(X[:, ::-1][1:], y[1:])


def test_sets_of_one_or_several_sizes():
    X = all_sets(5, [2])
    sampler = RewardProportionalSampler(process="set").fit(X)
    assert (sampler.process_.max_size, sampler.process_.stop) == (2, False)
    assert (sampler.sample(50, random_state=0).sum(axis=1) == 2).all()
    sampler.fit(all_sets(5, [0, 2]))
    assert sampler.process_.stop
    assert set(sampler.sample(50, random_state=0).sum(axis=1)) == {0, 2}
    with pytest.raises(ValueError, match=r"Row 0 of X is no object of SetProcess\("):
        RewardProportionalSampler(process=SetProcess(1, stop=True)).fit(X)
    with pytest.raises(ValueError, match="Row 0 of X is no object of"):
        RewardProportionalSampler(process="set").fit([[0, 2], [1, 0]])
    with pytest.raises(ValueError, match="X must hold integers for this process, got 0.5"):
        RewardProportionalSampler(process="set").fit([[0, 0.5]])


@pytest.mark.parametrize(
    ("process", "message"),
    [
        (SetProcess(9), "max_size must be at most n_items = 3, got 9"),
        (SetProcess(n_items=2), "n_items is 2, but X has 3 columns"),
        (HypergridProcess(0), "side of HypergridProcess must be an integer of at least 1, got 0"),
        (HypergridProcess(4, n_dims=2), "n_dims is 2, but X has 3 columns"),
        (HypergridProcess(4, reward_levels=(1, 2)), "reward_levels must be three numbers"),
        (PrependAppendProcess(2, 5), "length is 5, but X has 3 columns"),
        (PrependAppendProcess(True, 3), "n_letters of PrependAppendProcess must be an integer"),
        (AutoregressiveProcess([2, 2]), "n_categories names 2 positions, but X has 3 columns"),
        (AutoregressiveProcess([2, 1.5, 2]), "n_categories of AutoregressiveProcess must be"),
    ],
)
def test_bad_parameters_of_processes_are_named(process, message):
    with pytest.raises(ValueError, match=message):
        RewardProportionalSampler(process=process).fit([[0, 1, 1], [1, 0, 1]])


def test_objects_outside_of_the_design_space():
    X = np.array([["a", "b"], ["b", "b"]])
    sampler = RewardProportionalSampler().fit(X, [1.0, 1.0])
    with pytest.raises(ValueError, match=r"Row 1 of X is no object .*\['z', 'b'\].*handle_unknown"):
        sampler.score_samples([["a", "b"], ["z", "b"]])
    sampler.set_params(handle_unknown="ignore")
    scores = sampler.score_samples([["a", "b"], ["z", "b"]])
    assert scores[0] == pytest.approx(np.log(0.5))
    assert np.isneginf(scores[1])


def test_bad_arguments_of_methods():
    sampler = RewardProportionalSampler().fit([[0, 1], [1, 1]])
    with pytest.raises(ValueError, match="n_samples must be an integer of at least 1, got 0"):
        sampler.sample(0)
    with pytest.raises(ValueError, match=r"states must have the shape \(n, 2\), got \(2,\)"):
        sampler.policy([0, 0])
    with pytest.raises(ValueError, match="states must hold integers from 0 to state_sizes - 1"):
        sampler.state_values([[0, 9]])
    with pytest.raises(AttributeError, match="value_net_ exists after solver='mlp' only"):
        sampler.value_net_  # noqa: B018
    with pytest.raises(AttributeError, match="values_ exists where all states were enumerated"):
        sampler.values_  # noqa: B018
    with pytest.raises(ValueError, match="The weights of all rows are zero"):
        sampler.score([[0, 1]], [0.0])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"objective": "tb", "solver": "exact"}, "solver='exact' evaluates a fixed policy"),
        ({"target": "mc", "exploration": 0.5}, "exploration must be 1, got 0.5"),
        (
            {"hidden_layer_sizes": (3, 0)},
            "hidden_layer_sizes must be integers of at least 1, got 0",
        ),
        ({"hidden_layer_sizes": ()}, "hidden_layer_sizes must name at least one layer"),
        ({"sample_weight": [1.0, -1.0]}, "sample_weight must not be negative, got -1.0"),
        ({"sample_weight": [0.0, 0.0]}, "(?i)sample.weight.*zero"),
    ],
)
def test_combinations_that_make_no_sense(params, message):
    weights = params.pop("sample_weight", None)
    with pytest.raises(ValueError, match=message):
        RewardProportionalSampler(**params).fit([[0], [1]], [1.0, 2.0], sample_weight=weights)


def test_score_is_weighted_by_the_scores():
    X, y = np.array([[0], [1], [2]]), np.array([1.0, 2.0, 5.0])
    sampler = RewardProportionalSampler().fit(X, y)
    log_p = np.log(y / 8)
    assert sampler.score(X) == pytest.approx(log_p.mean())
    assert sampler.score(X, y) == pytest.approx((y * log_p).sum() / 8)
    assert sampler.score(X, y, sample_weight=[1, 0, 0]) == pytest.approx(log_p[0])
    # The sampler's own distribution is the best one.
    other = RewardProportionalSampler().fit(X, np.ones(3))
    assert sampler.score(X, y) > other.score(X, y)


def test_pipeline_and_grid_search_with_weights():
    import sklearn

    rng = np.random.default_rng(0)
    X, y = rng.integers(3, size=(90, 2)), rng.random(90)
    with sklearn.config_context(enable_metadata_routing=True):
        step = RewardProportionalSampler().set_fit_request(sample_weight=True)
        step.set_score_request(sample_weight=True)
        pipeline = Pipeline([("same", FunctionTransformer()), ("sampler", step)])
        grid = {"sampler__reward_floor": [0.01, 0.2], "sampler__reward_exponent": [1.0, 2.0]}
        search = GridSearchCV(pipeline, grid, cv=3, error_score="raise")
        search.fit(X, y, sample_weight=rng.random(90))
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_["sampler"].sample(3).shape == (3, 2)


def test_exact_tables_that_are_too_large():
    X = np.zeros((1, 3), dtype=int)
    with pytest.raises(ValueError, match=r"solver='exact' enumerates .* there are 1024 states"):
        RewardProportionalSampler(
            process=HypergridProcess(8, n_dims=3), solver="exact", max_states=1000
        ).fit(X)


@pytest.mark.parametrize(
    "process",
    [SetProcess(3, n_items=5, stop=True), HypergridProcess(4, n_dims=2), MergedStrings(2, 3)],
    ids=str,
)
def test_pickled_tables_sample_the_same(process):
    _, X, y = example(process)
    sampler = RewardProportionalSampler(process=process).fit(X, y)
    loaded = pickle.loads(pickle.dumps(sampler))
    np.testing.assert_array_equal(loaded.sample(20, 0), sampler.sample(20, 0))
    np.testing.assert_array_equal(loaded.values_, sampler.values_)


def test_flows_without_multiplicity_would_be_wrong():
    """Two actions to the same string are two edges: with one of them the flows lose reward."""
    process = PrependAppendProcess(2, 3)
    table, _, y = example(process)
    assert evaluate_flows(table, y)[table.root] == pytest.approx(y.sum())
    merged = ExploredTable(MergedStrings(2, 3), 1000)
    merged.n_parents = table.n_parents[table.index(merged.states(np.arange(merged.n_states)))]
    order = table.index(merged.states(merged.terminal)) - table.terminal[0]
    assert evaluate_flows(merged, y[order])[merged.root] < 0.95 * y.sum()


def test_visits_of_a_policy_add_up_at_every_depth():
    table, _, y = example(SetProcess(3, n_items=6, stop=False))
    visits = visit_probabilities(table, TableSolution(table, y, None)._probabilities)
    for level in table.levels:
        assert visits[level].sum() == pytest.approx(1.0)


class TwoEnds(TreeProcess):
    """A tree whose node 3 cannot be reached."""

    def __init__(self):
        super().__init__([[1, 2], [], [], []])


def test_objects_that_no_path_leads_to_are_never_drawn():
    sampler = RewardProportionalSampler(process=TwoEnds(), reward=lambda X: X[:, 0])
    sampler.fit(np.array([[1], [3]]))
    assert set(sampler.sample(50, random_state=0).ravel()) == {1, 2}
    scores = sampler.score_samples([[2], [3]])
    assert np.exp(scores).tolist() == pytest.approx([2 / 3, 0])


@pytest.mark.parametrize(
    ("y", "exponent"),
    [
        ([1.0, 500.0], 400.0),
        ([0.1, 0.2], 5000.0),
        ([0.5, 0.5001], 1e4),
        ([1e308, 1e308], 1.0),
        ([1e-320, 2e-320], 1.0),
    ],
)
@pytest.mark.parametrize("process", ["autoregressive", "prepend_append", "set", "hypergrid"])
def test_rewards_beyond_the_range_of_float64(process, y, exponent):
    X = [[0, 1], [1, 0]]
    sampler = RewardProportionalSampler(process=process, reward_exponent=exponent).fit(X, y)
    logs = exponent * np.log(y)
    log_z = np.logaddexp(*logs)
    assert sampler.log_partition_ == pytest.approx(log_z, rel=1e-12)
    # Log-probabilities are right where the probability itself is no number of float64.
    np.testing.assert_allclose(sampler.score_samples(X), logs - log_z, rtol=1e-9, atol=1e-9)
    assert sampler.l1_distance() < 1e-12
    drawn = sampler.sample(400, random_state=0)
    share = (drawn[:, 0] == 1).mean()
    p = np.exp(logs[1] - log_z)
    assert abs(share - p) <= 4 * np.sqrt(p * (1 - p) / 400)
    root = sampler.process_.initial_state()[None]
    with np.errstate(over="ignore"):
        assert sampler.state_values(root)[0] == pytest.approx(np.exp(log_z), rel=1e-9)


def test_floors_beyond_the_range_of_float64():
    """Six unseen objects at the floor beside three of the table."""
    X, y = np.array([[0, 0], [1, 1], [2, 2]]), np.array([3e-4, 2e-4, 1e-4])
    sampler = RewardProportionalSampler(reward_floor=5e-5, reward_exponent=100.0).fit(X, y)
    logs = 100 * np.log(np.append(y, np.full(6, 5e-5)))
    log_z = np.logaddexp.reduce(logs)
    assert sampler.log_partition_ == pytest.approx(log_z)
    np.testing.assert_allclose(sampler.score_samples(X), logs[:3] - log_z)
    np.testing.assert_allclose(sampler.score_samples([[0, 1]]), logs[3] - log_z)


@pytest.mark.parametrize("process", [HypergridProcess(3000, n_dims=1), None], ids=str)
def test_branching_ratios_that_overflow_are_left_to_flows(process):
    """Two actions at each of many steps: g is 2 ** 3000 at the end."""
    if process is None:
        process = AutoregressiveProcess([1] * 500, stop=True)
    n_columns = len(process.state_sizes) - 1
    X = np.zeros((1, n_columns), dtype=int)
    sampler = RewardProportionalSampler(process=process, reward=lambda X: np.ones(len(X))).fit(X)
    assert sampler.rectification_ == "edge"
    n_objects = 3000 if n_columns == 1 else 501
    assert sampler.log_partition_ == pytest.approx(np.log(n_objects))
    assert sampler.l1_distance() < 1e-10
    with pytest.raises(ValueError, match=r"branching ratios up to e\*\*\d+.*rectification='edge'"):
        sampler.set_params(rectification="path").fit(X)


def test_values_of_prefixes_that_lead_to_nothing_are_zero():
    X = np.zeros((1, 400), dtype=int)
    sampler = RewardProportionalSampler(process=AutoregressiveProcess([20] * 400)).fit(X, [1.0])
    states = np.array([[2] * 400, [1] * 400, [0] * 400])
    np.testing.assert_array_equal(sampler.state_values(states), [0.0, np.inf, 1.0])


def test_large_weights_do_not_overflow():
    X, y = [[0], [0], [1]], [1e308, 5e307, 1e307]
    sampler = RewardProportionalSampler().fit(X, y, sample_weight=[1e308, 1e308, 1e308])
    np.testing.assert_allclose(np.exp(sampler.score_samples([[0], [1]])), np.array([75, 10]) / 85)


def test_score_does_not_depend_on_the_unit_of_y():
    sampler = RewardProportionalSampler(reward_exponent=2.0).fit([[0], [1]], [1.0, 3.0])
    expected = 0.1 * np.log(0.1) + 0.9 * np.log(0.9)
    for unit in (1e-200, 1.0, 1e200):
        assert sampler.score([[0], [1]], np.array([1.0, 3.0]) * unit) == pytest.approx(expected)


@pytest.mark.parametrize("states", [[["a", "b"]], np.zeros((0, 2)), [[0.5, 1.0]], [[None, 1]]])
@pytest.mark.parametrize("method", ["policy", "state_values"])
def test_states_of_a_wrong_type_are_named(method, states):
    sampler = RewardProportionalSampler().fit([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="states must hold integers .* of dtype"):
        getattr(sampler, method)(states)


def test_layer_sizes_are_no_booleans():
    with pytest.raises(ValueError, match="hidden_layer_sizes .* got True"):
        RewardProportionalSampler(hidden_layer_sizes=[True]).fit([[0, 1]])


@pytest.mark.parametrize(
    ("y", "found"),
    [(["a", "b"], r"<U1, such as \['a'\]"), ([1j, 1.0], r"complex128, such as \[1j\]")],
)
def test_scores_that_are_no_numbers_are_named(y, found):
    X = [[0], [1]]
    with pytest.raises(ValueError, match=f"y must hold real numbers, got {found}"):
        RewardProportionalSampler().fit(X, y)
    with pytest.raises(ValueError, match=f"y must hold real numbers, got {found}"):
        RewardProportionalSampler().fit(X).score(X, y)
    with pytest.raises(ValueError, match=f"reward must return real numbers, got {found}"):
        RewardProportionalSampler(reward=lambda X: y).fit(X)


@pytest.mark.parametrize("device", ["foo", "meta", 3, None])
@pytest.mark.parametrize("solver", ["exact", "mlp"])
def test_the_device_is_looked_at_by_every_solver(device, solver):
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match=f"device.*{device!r}"):
        RewardProportionalSampler(device=device, solver=solver).fit([[0], [1]])


@pytest.mark.parametrize(
    ("process", "X", "message"),
    [
        ("hypergrid", [[0, 2**40]], "side of HypergridProcess must be at most 16777216.*got 1099"),
        ("hypergrid", [[0.0, 1e300]], r"X must hold integers for this process, got 1e\+300"),
        ("set", [["a", 1]], "X must hold integers for this process; could not convert .*'a'"),
    ],
)
def test_columns_that_are_no_usable_integers(process, X, message):
    with pytest.raises(ValueError, match=message):
        RewardProportionalSampler(process=process).fit(X)


@pytest.mark.parametrize(
    ("process", "state"),
    [("autoregressive", [0, 2]), ("prepend_append", [0, 2]), ("set", [1, 1])],
)
def test_states_that_no_path_leads_to_are_named(process, state):
    sampler = RewardProportionalSampler(process=process).fit([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match=rf"no path leads to \[{state[0]}, {state[1]}\]"):
        sampler.policy([state])
