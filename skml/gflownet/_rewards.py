"""Rewards of objects: looked up, predicted or computed; and a memory of those that were asked."""

import numpy as np

from ._row_keys import RowKeys


class RewardModel:
    """R(x) = max(score of x, floor) ** exponent for integer objects.

    Parameters
    ----------
    sizes : tuple of int or None
        Number of values of each column of the objects, beside -1; None: not known.
    table : tuple of (ndarray, ndarray) or None
        Distinct objects and their scores.
    function : callable or None
        ``function(objects)`` for those that are not in the table; None: they score 0.
    floor, exponent : float
        See above.
    """

    def __init__(self, sizes, *, table=None, function=None, floor=0.0, exponent=1.0):
        self._keys = RowKeys(None if sizes is None else tuple(size + 1 for size in sizes))
        self._function = function
        self.floor, self.exponent = floor, exponent
        self.table = table
        self._fill()

    def _fill(self):
        self._scores = {}
        if self.table is not None:
            objects, scores = self.table
            self._scores = dict(zip(self._keys.keys(objects + 1), scores.tolist(), strict=True))

    def __getstate__(self):
        return {key: value for key, value in vars(self).items() if key != "_scores"}

    def __setstate__(self, state):
        vars(self).update(state)
        self._fill()

    def __call__(self, objects):
        """Rewards of objects, shape (n,)."""
        if self.table is None:
            scores = np.zeros(len(objects)) if self._function is None else self._function(objects)
        else:
            found = map(self._scores.get, self._keys.keys(objects + 1))
            scores = np.array([np.nan if score is None else score for score in found])
            unknown = np.isnan(scores)
            if unknown.any():
                scores[unknown] = (
                    0.0 if self._function is None else self._function(objects[unknown])
                )
        return self.finish(scores)

    def finish(self, scores):
        """Apply floor and exponent."""
        with np.errstate(over="ignore"):
            rewards = np.maximum(scores, self.floor) ** self.exponent
            total = np.sum(rewards)
        if not np.isfinite(total):
            raise ValueError(
                f"Scores up to {np.max(scores):.6g}, raised to reward_exponent={self.exponent}, "
                "overflow; divide the scores by their largest."
            )
        return rewards

    @property
    def largest(self):
        """Largest reward of the table, NaN if rewards are computed."""
        if self.table is None or self._function is not None:
            return np.nan
        return float(self.finish(self.table[1].max()))


def checked_scores(scores, n_objects, source):
    """Validate what a user's function or regressor has returned."""
    scores = np.asarray(scores, dtype=np.float64)
    if scores.shape != (n_objects,):
        raise ValueError(
            f"{source} must return one number per object, shape ({n_objects},); "
            f"got an array of shape {scores.shape}."
        )
    if not np.isfinite(scores).all():
        raise ValueError(
            f"{source} must return finite numbers; got {scores[~np.isfinite(scores)][0]}."
        )
    if (scores < 0).any():
        raise ValueError(f"{source} must return numbers of at least 0; got {scores.min()}.")
    return scores


class CalledScores:
    """Scores by a user's function of objects as the user writes them."""

    def __init__(self, function, encoder):
        self.function, self.encoder = function, encoder

    def __call__(self, objects):
        scores = self.function(self.encoder.decode(objects))
        return checked_scores(scores, len(objects), "reward")


class PredictedScores:
    """Scores by a fitted regressor; what it predicts below zero is zero."""

    def __init__(self, regressor, encoder):
        self.regressor, self.encoder = regressor, encoder

    def __call__(self, objects):
        scores = np.asarray(self.regressor.predict(self.encoder.decode(objects)))
        scores = np.maximum(scores.reshape(len(objects), -1)[:, 0], 0.0)
        return checked_scores(scores, len(objects), "reward_estimator.predict")


class ProcessScores:
    """Scores that belong to a process."""

    def __init__(self, process):
        self.process = process

    def __call__(self, objects):
        scores = self.process.rewards(objects)
        return checked_scores(scores, len(objects), f"{type(self.process).__name__}.rewards")


class RewardMemory:
    """Rewards of the objects that training has visited; asks for each object once.

    Parameters
    ----------
    process : Process
        The process.
    model : RewardModel
        What is asked.
    relative_floor : float
        Rewards below this share of the largest are raised to it, so that they have a logarithm.

    Attributes
    ----------
    n_calls : int
        Number of rewards that were needed; one per path, whether known already or not.
    n_evaluations : int
        Number of distinct objects that were asked for.
    """

    def __init__(self, process, model, relative_floor):
        self._process, self._model = process, model
        self._keys = RowKeys(process.state_sizes)
        self._relative_floor = relative_floor
        self._rewards, self._states, self._first_calls = {}, [], []
        self._largest = 0.0 if np.isnan(model.largest) else model.largest
        self.n_calls = 0

    def __getstate__(self):
        # Arrays are small and every format can hold them; the dict is made again from them.
        state = {k: v for k, v in vars(self).items() if k not in ("_rewards", "_states")}
        rewards = np.array(list(self._rewards.values()))
        return {**state, "_first_calls": self.first_calls, "arrays": (self.states, rewards)}

    def __setstate__(self, state):
        states, rewards = state.pop("arrays")
        vars(self).update(state)
        self._states = [states] if len(states) else []
        self._first_calls = [self._first_calls]
        self._rewards = dict(zip(self._keys.keys(states), rewards.tolist(), strict=True))

    @property
    def n_evaluations(self):
        return len(self._rewards)

    @property
    def states(self):
        """States of the visited objects in the order of the first visit."""
        n_entries = len(self._process.state_sizes)
        return np.concatenate([np.empty((0, n_entries), dtype=np.int64), *self._states])

    @property
    def rewards(self):
        """Their rewards."""
        return self._clip(np.array(list(self._rewards.values())))

    @property
    def first_calls(self):
        """Value of `n_calls` at the first visit of each."""
        return np.concatenate([np.empty(0, dtype=np.int64), *self._first_calls])

    @property
    def smallest(self):
        """What rewards are raised to."""
        return self._relative_floor * self._largest

    def ask(self, states, *, count="all"):
        """Rewards of objects, given by their states.

        Parameters
        ----------
        states : ndarray of shape (n, n_entries)
            States of objects.
        count : {"all", "new"}
            Whether objects that are known count as calls.

        Returns
        -------
        ndarray of shape (n,)
            Rewards.
        """
        keys = self._keys.keys(states)
        fresh = {}
        for row, key in enumerate(keys):
            if key not in self._rewards:
                fresh.setdefault(key, row)
        before = self.n_calls
        self.n_calls += len(keys) if count == "all" else len(fresh)
        if fresh:
            rows = np.fromiter(fresh.values(), dtype=np.int64)
            new_states = states[rows]
            rewards = self._model(self._process.objects(new_states))
            self._rewards.update(zip(fresh, rewards.tolist(), strict=True))
            self._states.append(np.array(new_states))
            numbers = rows if count == "all" else np.arange(len(rows))
            self._first_calls.append(before + 1 + numbers)
            self._largest = max(self._largest, float(rewards.max()))
        return self._clip(np.array([self._rewards[key] for key in keys]))

    def recall(self, states):
        """Rewards of those objects that are known, NaN for the others."""
        found = map(self._rewards.get, self._keys.keys(states))
        return self._clip(np.array([np.nan if reward is None else reward for reward in found]))

    def _clip(self, rewards):
        return np.maximum(rewards, self.smallest)  # NaN stays
