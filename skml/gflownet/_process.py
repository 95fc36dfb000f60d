"""What a generative process is: states, the actions between them, and the objects at the end."""

import inspect
from abc import ABC, abstractmethod

import numpy as np
from sklearn.base import BaseEstimator, clone

from skml.utils import extend_tags


class Process(BaseEstimator, ABC):
    """How objects are built, one action at a time: the base class of all processes.

    States and actions form a directed acyclic multigraph. A state is a row of integers; an edge
    is a pair (state, action), so that two actions from one state to the same state are two edges.
    Objects are the states without actions. To use a process of one's own, derive a class, define
    `n_actions`, `state_sizes`, `actions`, `step` and `parents`, and pass an instance to
    :class:`RewardProportionalSampler`.

    Attributes
    ----------
    path_invariant : bool or None
        Whether the branching ratio of a state (the product of A(s) / B(s') along a path, with A
        the number of actions at a state and B the number of edges into it) is the same for
        all paths to it. None: not known; the sampler finds out by itself.

    See Also
    --------
    AutoregressiveProcess : Sequences, letter by letter.
    SetProcess : Sets, item by item.

    References
    ----------
    .. [1] H. He, E. Bengio, Q. Cai, L. Pan. "Random policy evaluation uncovers policies of
       generative flow networks." ICML 2025. https://arxiv.org/abs/2406.02213

    Examples
    --------
    A coin that is flipped until it shows tails, at most three times:

    >>> import numpy as np
    >>> from skml.gflownet import Process, RewardProportionalSampler
    >>> class Flips(Process):  # state: number of heads, whether it is over
    ...     n_actions = 2
    ...     state_sizes = (4, 2)
    ...
    ...     def actions(self, states):
    ...         goes_on = states[:, 1] == 0
    ...         return np.column_stack([goes_on & (states[:, 0] < 3), goes_on])
    ...
    ...     def step(self, states, actions):
    ...         return states + np.column_stack([actions == 0, actions == 1])
    ...
    ...     def parents(self, states):
    ...         rows = np.flatnonzero((states[:, 1] == 1) | (states[:, 0] > 0))
    ...         actions = states[rows, 1]
    ...         change = np.column_stack([actions == 0, actions == 1])
    ...         return rows, states[rows] - change, actions
    >>> sampler = RewardProportionalSampler(process=Flips(), reward=lambda X: 1.0 + X[:, 0])
    >>> X = [[0, 1], [1, 1], [2, 1], [3, 1]]
    >>> np.exp(sampler.fit(X).score_samples(X)).round(3)
    array([0.1, 0.2, 0.3, 0.4])
    """

    path_invariant = None

    @property
    @abstractmethod
    def n_actions(self):
        """Number of actions that any state may have; actions are numbered from 0."""

    @property
    @abstractmethod
    def state_sizes(self):
        """For each entry of a state the number of its values, which are 0, ..., size - 1."""

    @abstractmethod
    def actions(self, states):
        """Tell which actions there are.

        Parameters
        ----------
        states : ndarray of shape (n, n_entries)
            States.

        Returns
        -------
        ndarray of shape (n, n_actions), dtype bool
            Whether the state has the action. A state without any is an object.
        """

    @abstractmethod
    def step(self, states, actions):
        """Follow one edge from each state.

        Parameters
        ----------
        states : ndarray of shape (n, n_entries)
            States that are no objects.
        actions : ndarray of shape (n,)
            One action of each.

        Returns
        -------
        ndarray of shape (n, n_entries)
            Where they lead.
        """

    @abstractmethod
    def parents(self, states):
        """List the edges into states.

        Parameters
        ----------
        states : ndarray of shape (n, n_entries)
            States.

        Returns
        -------
        rows : ndarray of shape (n_edges,)
            Row of `states` that the edge leads to.
        parents : ndarray of shape (n_edges, n_entries)
            Where the edge comes from.
        actions : ndarray of shape (n_edges,)
            The action.
        """

    def initial_state(self):
        """Give the state in which every object begins.

        Returns
        -------
        ndarray of shape (n_entries,)
            All zeros, unless a class says otherwise.
        """
        return np.zeros(len(self.state_sizes), dtype=np.int64)

    def objects(self, states):
        """Read the objects off their states.

        Parameters
        ----------
        states : ndarray of shape (n, n_entries)
            States without actions.

        Returns
        -------
        ndarray of shape (n, n_features)
            Integers; the states themselves, unless a class says otherwise.
        """
        return states

    def terminals(self, objects):
        """Find the states of objects, the inverse of `objects`.

        Parameters
        ----------
        objects : ndarray of shape (n, n_features)
            Objects.

        Returns
        -------
        ndarray of shape (n, n_entries)
            Their states.
        """
        return objects

    def rewards(self, objects):
        """Give the rewards that belong to the process itself, if there are any.

        Parameters
        ----------
        objects : ndarray of shape (n, n_features)
            Objects.

        Returns
        -------
        ndarray of shape (n,) or None
            None: the process has no rewards of its own.
        """
        return None

    def n_parents(self, states):
        """Count the edges into states.

        Parameters
        ----------
        states : ndarray of shape (n, n_entries)
            States.

        Returns
        -------
        ndarray of shape (n,)
            B(s); zero for the initial state.
        """
        return np.bincount(self.parents(states)[0], minlength=len(states))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        return extend_tags(tags, x_y_estimator=False, input_kind="states")


class IndexedProcess(Process):
    """A process whose states are numbered, so that tables need no look-up of states.

    A subclass provides `n_states`, `_object_sizes`, `_index`, `_states_at`, `_depths`,
    `_child_indices` and `_log_branching`. Indices are used only where `n_states` is small.
    """

    # Whether the values of a column are numbered 0, 1, ... by the sampler, or are numbers.
    _has_categories = False
    _shared_alphabet = False

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        # What a method is for does not change with the process.
        for name, member in vars(cls).items():
            if not name.startswith("_") and member.__doc__ is None:
                member.__doc__ = inspect.getdoc(getattr(IndexedProcess, name))

    @property
    @abstractmethod
    def n_states(self):
        """Number of states, a Python int of any size."""

    def _configured(self, n_values, objects):
        """The process with what was left to the data filled in."""
        return self

    def _can_be_built(self, states):
        """Whether paths lead to states whose entries are in range."""
        return np.ones(len(states), dtype=bool)

    def _with(self, **params):
        """The same process, of the same class, with other parameters."""
        return clone(self).set_params(**params)

    def _step_counts(self, states):
        """Number of steps from the initial state to each of the given ones."""
        return np.count_nonzero(states, axis=1)


def keeps_structure(process):
    """Whether a process is one of ours, up to what does not concern its graph.

    What is known of the graph in closed form does not hold for a subclass with other actions.
    """
    if not isinstance(process, IndexedProcess):
        return False

    def definer(name):
        return next(cls for cls in type(process).__mro__ if name in vars(cls))

    own = definer("_child_indices")
    return all(definer(name) is own for name in ("actions", "step", "parents", "n_parents"))


def check_count(process, name, value, low=1):
    """Validate an integer parameter of a process."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise ValueError(
            f"{name} of {type(process).__name__} must be an integer of at least {low}, "
            f"got {value!r}."
        )
    return int(value)


def mixed_radix(digits, sizes):
    """Numbers of rows of digits, the last one running fastest."""
    number = np.zeros(len(digits), dtype=np.int64)
    for column, size in zip(np.asarray(digits).T, sizes, strict=True):
        number = number * size + column
    return number


def digits_of(numbers, sizes):
    """Inverse of :func:`mixed_radix`."""
    digits = np.empty((len(numbers), len(sizes)), dtype=np.int64)
    for column in range(len(sizes) - 1, -1, -1):
        numbers, digits[:, column] = np.divmod(numbers, sizes[column])
    return digits
