"""From the parameters of a sampler and its data to fitted attributes: enumerate, or train."""

import numpy as np

from skml.utils._optional import import_optional

from ._branching import find_path_dependence
from ._process import keeps_structure
from ._sequences import AutoregressiveProcess
from ._state_table import TooManyStates, make_table
from ._table_solution import raise_path_dependence, solve_exactly
from ._trie import TrieSolution


def solve(sampler, table):
    """Find the policy by the solver that applies.

    Parameters
    ----------
    sampler : RewardProportionalSampler
        Its parameters are read.
    table : ScoreTable
        The process and its rewards.

    Returns
    -------
    dict
        Fitted attributes, the solution among them.
    """
    if sampler.objective == "rpe" and sampler.solver != "mlp":
        try:
            return _enumerate(sampler, table)
        except TooManyStates as error:
            if sampler.solver == "exact":
                raise ValueError(
                    f"solver='exact' enumerates the states, but there are {error}; raise "
                    "max_states or use solver='mlp'."
                ) from None
    return _train(sampler, table)


def _enumerate(sampler, table):
    process, model = table.process, table.reward_model
    is_tree = keeps_structure(process) and isinstance(process, AutoregressiveProcess)
    if is_tree and table.is_complete:
        by_edge = sampler.rectification == "edge"
        solution = TrieSolution(process, model, sampler.max_states, by_edge)
        n_states, n_rewards = solution.n_nodes, len(solution.objects)
    else:
        states = make_table(process, sampler.max_states)
        scores = model.scores(process.objects(states.states(states.terminal)))
        solution = solve_exactly(states, model, scores, sampler.rectification)
        n_states, n_rewards = states.n_states, len(scores)
    return {
        "_solution": solution,
        "solver_": "exact",
        "rectification_": "edge" if solution.by_edge else "path",
        "n_states_": n_states,
        "n_reward_calls_": n_rewards,
        "n_reward_evaluations_": n_rewards,
        "n_iter_": 0,
        "loss_curve_": [],
        "history_": {},
    }


def _train(sampler, table):
    import_optional("torch", extra="torch", needed_by="solver='mlp'")
    from ._network_solution import train

    process, rectification = table.process, None
    if sampler.objective == "rpe":
        rectification = _choose_rectification(process, sampler.rectification)
    solution, record, memory, n_calls = train(
        process,
        table.reward_model,
        objective=sampler.objective,
        by_edge=rectification == "edge",
        options=sampler.get_params(deep=False),
        random_state=sampler.random_state,
    )
    return {
        "_solution": solution,
        "solver_": "mlp",
        "rectification_": rectification,
        "n_states_": process.n_states if keeps_structure(process) else None,
        "n_reward_calls_": n_calls[-1],
        "n_reward_evaluations_": memory.n_evaluations,
        "n_iter_": record.n_iter,
        "loss_curve_": record.loss_curve,
        "history_": {
            "objects": process.objects(memory.states),
            "rewards": memory.rewards,
            "reward_calls": memory.first_calls,
            "step_reward_calls": np.array(n_calls),
        },
    }


def _choose_rectification(process, rectification):
    if rectification == "edge":
        return "edge"
    conflict = find_path_dependence(process, np.random.default_rng(0))
    if conflict is None:
        return "path"
    if rectification == "path":
        raise_path_dependence(process, *conflict)
    return "edge"
