"""Trajectories of a policy, as flat arrays of edges."""

from dataclasses import dataclass, fields

import numpy as np

_MAX_STEPS = 100_000


@dataclass
class Trajectories:
    """Edges of several paths from the root to objects, in the order of the steps.

    Attributes
    ----------
    states, next_states : ndarray of shape (n_edges, n_entries)
        Where an edge begins and ends.
    actions : ndarray of shape (n_edges,)
        Which action it is.
    path : ndarray of shape (n_edges,)
        Number of its path.
    step : ndarray of shape (n_edges,)
        Number of edges of the path before it.
    n_children : ndarray of shape (n_edges,)
        A of the state where it begins.
    is_last : ndarray of shape (n_edges,), dtype bool
        Whether it ends in an object.
    """

    states: np.ndarray
    next_states: np.ndarray
    actions: np.ndarray
    path: np.ndarray
    step: np.ndarray
    n_children: np.ndarray
    is_last: np.ndarray

    @property
    def n_paths(self):
        """Number of paths."""
        return int(np.count_nonzero(self.is_last))

    @property
    def objects_states(self):
        """State of the object of each path, in the order of the paths."""
        return self.next_states[self.last_edges]

    @property
    def last_edges(self):
        """Number of the last edge of each path."""
        last = np.flatnonzero(self.is_last)
        return last[np.argsort(self.path[last], kind="stable")]

    def compact(self, dtype):
        """The same in a smaller type of integers, to be kept."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("states", "next_states"):
            values[name] = values[name].astype(dtype)
        return Trajectories(**values)

    def split(self, size):
        """Pieces of `size` paths each."""
        number = self.path // size
        for piece in range(int(number.max()) + 1):
            rows = number == piece
            values = {field.name: getattr(self, field.name)[rows] for field in fields(self)}
            values["path"] = values["path"] - piece * size
            yield Trajectories(**values)


def join(parts):
    """Put trajectories together; their paths are numbered on."""
    offsets = np.cumsum([0, *(part.n_paths for part in parts)])
    values = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(Trajectories)
    }
    values["path"] = np.concatenate(
        [part.path + offset for part, offset in zip(parts, offsets, strict=False)]
    )
    for name in ("states", "next_states"):
        values[name] = values[name].astype(np.int64)
    return Trajectories(**values)


def roll_out(process, n_paths, rng, probabilities=None):
    """Follow a policy from the root until every path has reached an object.

    Parameters
    ----------
    process : Process
        The process.
    n_paths : int
        Number of paths.
    rng : numpy.random.Generator
        Draws the actions.
    probabilities : callable or None
        ``probabilities(states, available)`` gives the probabilities of the actions. None: all that
        are available are equally probable.

    Returns
    -------
    Trajectories
        The edges of all paths.
    """
    states = np.repeat(process.initial_state()[None], n_paths, axis=0)
    paths, steps, step = np.arange(n_paths), [], 0
    available = process.actions(states)
    while len(paths):
        if not available.any(axis=1).all():
            raise ValueError(f"the initial state of {type(process).__name__} has no actions.")
        weights = available if probabilities is None else probabilities(states, available)
        actions = choose(weights, rng)
        following = process.step(states, actions)
        next_available = process.actions(following)
        is_last = ~next_available.any(axis=1)
        steps.append(
            (
                states,
                following,
                actions,
                paths,
                np.full(len(paths), step),
                np.count_nonzero(available, axis=1),
                is_last,
            )
        )
        states, paths, available = following[~is_last], paths[~is_last], next_available[~is_last]
        step += 1
        if step > _MAX_STEPS:
            raise ValueError(f"a path of {type(process).__name__} has not ended in {step} steps.")
    return Trajectories(*(np.concatenate(column) for column in zip(*steps, strict=True)))


def choose(weights, rng, rows=None):
    """Draw one column per row in proportion to its weights.

    The cumulative weights are inverted in float64, so that what has no weight is never drawn.

    Parameters
    ----------
    weights : ndarray of shape (n_rows, n_columns)
        Weights of at least 0.
    rng : numpy.random.Generator
        Draws the numbers.
    rows : ndarray of shape (n,) or None
        Draw from these rows. None: once from each.

    Returns
    -------
    ndarray of shape (n,)
        Columns.
    """
    # Column by column, so that many rows need no table of their own.
    cumulative = np.ascontiguousarray(np.cumsum(weights, axis=1, dtype=np.float64).T)
    total = cumulative[-1] if rows is None else cumulative[-1, rows]
    # Rounding may bring a threshold up to the total itself.
    threshold = np.minimum(rng.random(len(total)) * total, np.nextafter(total, 0.0))
    chosen = np.zeros(len(total), dtype=np.int64)
    for column in cumulative[:-1]:
        chosen += (column if rows is None else column[rows]) <= threshold
    return chosen
