"""Points of a grid, built by steps along the axes."""

import numpy as np

from ._process import IndexedProcess, check_count

_LARGEST_SIDE = 2**24


class HypergridProcess(IndexedProcess):
    """Points of the grid {0, ..., side - 1} ** n_dims, reached from the origin.

    An action adds one to a coordinate; the last one stops, which makes the point an object. The
    ratio of branchings depends on the path, so the values are rectified edge by edge. A state
    holds the coordinates, and 1 in a last entry when it is over.

    Parameters
    ----------
    side : int or None, default=None
        Number of points along an axis. None: one more than the largest entry of X.
    n_dims : int or None, default=None
        Number of coordinates. None: the number of columns of X.
    reward_levels : tuple of (float, float, float), default=(0.01, 0.5, 2.0)
        R0, R1 and R2 of the reward below, which is used where there is neither y nor `reward`.

    Attributes
    ----------
    path_invariant : bool
        False, but for one dimension.

    See Also
    --------
    SetProcess : Sets of items.

    Notes
    -----
    The process's own reward is R0 + R1 * prod_i [0.25 < u_i] + R2 * prod_i [0.3 < u_i < 0.4],
    u_i = abs(x_i / (side - 1) - 0.5), which has a mode near each corner [1]_.

    References
    ----------
    .. [1] E. Bengio, M. Jain, M. Korablyov, D. Precup, Y. Bengio. "Flow network based generative
       models for non-iterative diverse candidate generation." NeurIPS 2021.
       https://arxiv.org/abs/2106.04399

    Examples
    --------
    >>> from skml.gflownet import HypergridProcess
    >>> process = HypergridProcess(8, n_dims=2)
    >>> process.rewards([[0, 0], [1, 6], [3, 3]]).round(2)
    array([0.51, 2.51, 0.01])
    """

    def __init__(self, side=None, *, n_dims=None, reward_levels=(0.01, 0.5, 2.0)):
        self.side = side
        self.n_dims = n_dims
        self.reward_levels = reward_levels

    def _configured(self, n_values, objects):
        side = int(objects.max()) + 1 if self.side is None else self.side
        n_dims = objects.shape[1] if self.n_dims is None else self.n_dims
        check_count(self, "side", side)
        if side > _LARGEST_SIDE:
            raise ValueError(
                f"side of {type(self).__name__} must be at most {_LARGEST_SIDE}, since every value "
                f"of a coordinate is an input of the network, got {side}."
            )
        check_count(self, "n_dims", n_dims)
        if n_dims != objects.shape[1]:
            raise ValueError(f"n_dims is {n_dims}, but X has {objects.shape[1]} columns.")
        if len(self.reward_levels) != 3 or min(self.reward_levels) < 0:
            raise ValueError(
                f"reward_levels must be three numbers of at least 0, got {self.reward_levels!r}."
            )
        return self._with(side=int(side), n_dims=int(n_dims))

    @property
    def path_invariant(self):
        """Whether g is the same for all paths: in one dimension only."""
        return None if self.n_dims is None else self.n_dims == 1 or self.side == 1

    @property
    def n_actions(self):
        return self.n_dims + 1

    @property
    def state_sizes(self):
        return (self.side,) * self.n_dims + (2,)

    def actions(self, states):
        available = np.ones((len(states), self.n_actions), dtype=bool)
        available[:, :-1] = states[:, :-1] < self.side - 1
        available[states[:, -1] == 1] = False
        return available

    def step(self, states, actions):
        states = np.array(states)
        states[np.arange(len(states)), actions] += 1
        return states

    def parents(self, states):
        over = states[:, -1] == 1
        removable = np.column_stack([(states[:, :-1] > 0) & ~over[:, None], over])
        rows, actions = np.nonzero(removable)
        parents = np.array(states[rows])
        parents[np.arange(len(rows)), actions] -= 1
        return rows, parents, actions

    def n_parents(self, states):
        return np.where(states[:, -1] == 1, 1, np.count_nonzero(states[:, :-1], axis=1))

    def _step_counts(self, states):
        return states.sum(axis=1)

    def objects(self, states):
        return states[:, :-1]

    def terminals(self, objects):
        return np.column_stack([objects, np.ones(len(objects), dtype=objects.dtype)])

    def rewards(self, objects):
        objects = np.asarray(objects)
        background, plateau, mode = self.reward_levels
        u = np.abs(objects / max(self.side - 1, 1) - 0.5)
        on_plateau = (u > 0.25).all(axis=1)
        in_mode = ((u > 0.3) & (u < 0.4)).all(axis=1)
        return background + plateau * on_plateau + mode * in_mode

    @property
    def n_states(self):
        return 2 * self.side**self.n_dims

    @property
    def _object_sizes(self):
        return (self.side,) * self.n_dims

    def _strides(self):
        return self.side ** np.arange(self.n_dims - 1, -1, -1)

    def _index(self, states):
        return states[:, :-1] @ self._strides() + states[:, -1] * self.side**self.n_dims

    def _states_at(self, indices):
        over, number = np.divmod(indices, self.side**self.n_dims)
        coordinates = number[:, None] // self._strides() % self.side
        return np.column_stack([coordinates, over])

    def _depths(self, indices):
        return self._states_at(indices).sum(axis=1)

    def _child_indices(self, indices):
        states = self._states_at(indices)
        steps = np.append(self._strides(), self.side**self.n_dims)
        return np.where(self.actions(states), indices[:, None] + steps, -1)

    def _log_branching(self, states):
        """Logarithm of g(s) on a line, which is a tree: two actions at each point but the last."""
        place, over = states[:, :-1].sum(axis=1), states[:, -1] == 1
        return np.log(2.0) * (place + (over & (place < self.side - 1)))
