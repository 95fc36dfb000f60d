"""The exact sampler over a table of all states."""

import numpy as np

from ._exact import (
    branching_ratios,
    edge_weights,
    evaluate_flows,
    evaluate_values,
    normalised,
    visit_probabilities,
)
from ._rewards import LARGEST_LOG, log_unit, out_of_unit
from ._rollouts import choose


class TableSolution:
    """Values or flows of all states, and what follows from them.

    Parameters
    ----------
    table : StateTable
        All states.
    rewards : ndarray of shape (n_terminals,)
        R(x), in the order of ``table.terminal`` and in the unit of `log_unit`.
    log_g : ndarray of shape (n_states,) or None
        Branching ratios where they do not depend on the path: values V = F g are computed from
        rectified rewards R g. None: flows.
    log_unit : float, default=0.0
        Logarithm of the unit.
    log_rewards : ndarray of shape (n_terminals,) or None, default=None
        Logarithms of R(x) in no unit, which are finite where `rewards` vanish. None: of `rewards`.
    """

    def __init__(self, table, rewards, log_g, *, log_unit=0.0, log_rewards=None):
        self.table, self.process, self.rewards = table, table.process, rewards
        if not rewards.max() > 0:
            raise ValueError("All rewards are zero; at least one must be positive.")
        self.by_edge, self._log_unit = log_g is None, log_unit
        if self.by_edge:
            self._values = evaluate_flows(table, rewards)
        else:
            self._values = evaluate_values(table, rewards * np.exp(log_g[table.terminal]))
        self._log_rewards = log_rewards
        self.log_partition = float(np.log(self._values[table.root])) + log_unit

    @property
    def values(self):
        """V(s) of all states; F(s) if rectified by edge."""
        return out_of_unit(self._values, self._log_unit)

    def _probabilities(self, block):
        children, weights = edge_weights(self.table, block, self._values, share=self.by_edge)
        return children, normalised(weights, children >= 0)

    def policy(self, states):
        """Probabilities of the actions, shape (n, n_actions); zeros for objects."""
        return self._probabilities(self.table.index(states))[1]

    def state_values(self, states):
        """V(s); F(s) if rectified by edge."""
        return out_of_unit(self._values[self.table.index(states)], self._log_unit)

    def log_probability(self, objects):
        """log R(x) - log Z."""
        indices = self.table.find(self.process.terminals(objects))
        rows = np.searchsorted(self.table.terminal, indices)
        if self._log_rewards is None:
            with np.errstate(divide="ignore"):
                log_rewards = np.log(self.rewards[rows]) + self._log_unit
        else:
            log_rewards = self._log_rewards[rows]
        # No path leads to what is not in the table.
        log_rewards = np.where(indices >= 0, log_rewards, -np.inf)
        return log_rewards - np.log(self.rewards.sum()) - self._log_unit

    def sample(self, n_samples, rng):
        """Let all paths advance together, with one look at each state that any of them is in."""
        at = np.full(n_samples, self.table.root)
        going = np.arange(n_samples)
        numbers = np.empty(self.table.n_states, dtype=np.int64)
        while len(going):
            is_visited = np.zeros(self.table.n_states, dtype=bool)
            is_visited[at[going]] = True
            visited = np.flatnonzero(is_visited)
            numbers[visited] = np.arange(len(visited))
            rows = numbers[at[going]]
            children, probabilities = self._probabilities(visited)
            reached = children[rows, choose(probabilities, rng, rows)]
            at[going] = reached
            going = going[self.table.n_children[reached] > 0]
        return self.process.objects(self.table.states(at))

    def distribution(self):
        """All objects, the probabilities that following the policy gives them, and R(x) / Z."""
        p = visit_probabilities(self.table, self._probabilities)[self.table.terminal]
        objects = self.process.objects(self.table.states(self.table.terminal))
        return objects, p, self.rewards / self.rewards.sum()


def solve_exactly(table, model, scores, rectification):
    """Evaluate the uniform policy of a table of states.

    Parameters
    ----------
    table : StateTable
        All states.
    model : RewardModel
        What turns scores into rewards.
    scores : ndarray of shape (n_terminals,)
        Scores of objects, in the order of ``table.terminal``.
    rectification : {"path", "edge", "auto"}
        Whether rewards are multiplied by g, or steps by A / B; "auto" takes the first where it
        applies.

    Returns
    -------
    TableSolution
        The exact sampler.
    """
    log_g = None if rectification == "edge" else _usable_ratios(table, rectification)
    log_rewards = model.log_rewards(scores)
    unit = log_unit(float(log_rewards.max()))
    rewards = model.rewards(scores, unit)
    return TableSolution(table, rewards, log_g, log_unit=unit, log_rewards=log_rewards)


def _usable_ratios(table, rectification):
    """Logarithms of g; None where flows must do."""
    log_g, conflict = branching_ratios(table)
    if conflict is not None:
        if rectification == "path":
            raise_path_dependence(table.process, *conflict)
        return None
    if log_g.max() > LARGEST_LOG:
        if rectification == "path":
            raise ValueError(
                f"rectification='path' multiplies rewards by branching ratios up to "
                f"e**{log_g.max():.0f}, which float64 cannot hold beside 1; use "
                "rectification='edge' or 'auto'."
            )
        return None
    return log_g


def raise_path_dependence(process, state, first, second):
    """Explain why rectification by path is impossible, by one state."""
    raise ValueError(
        f"rectification='path' needs a branching ratio that is the same for all paths to a state, "
        f"but {type(process).__name__} has g = {first:.6g} and g = {second:.6g} for the state "
        f"{state}; use rectification='edge' or 'auto'."
    )
