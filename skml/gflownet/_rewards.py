"""Rewards of objects: looked up, predicted or computed; and a memory of those that were asked."""

import numpy as np

from ._row_keys import RowKeys

# Logarithms of rewards within this are kept as they are; e**±300 leaves room for sums and products.
LARGEST_LOG = 300.0


class RewardModel:
    """R(x) = max(score of x, floor) ** exponent for integer objects.

    Large exponents take rewards out of the range of float64. So there are their logarithms, and
    rewards that are counted in a unit.

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

    def scores(self, objects):
        """Scores of objects, shape (n,), none below the floor."""
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
        return np.maximum(scores, self.floor)

    def log_rewards(self, scores):
        """Logarithms of the rewards that go with scores; -inf for a reward of zero."""
        with np.errstate(divide="ignore"):
            return self.exponent * np.log(scores)

    def rewards(self, scores, log_unit=0.0):
        """Rewards that go with scores, in a unit given by its logarithm."""
        with np.errstate(over="ignore"):
            if log_unit == 0:
                return scores**self.exponent
            return np.exp(self.log_rewards(scores) - log_unit)

    @property
    def largest(self):
        """Largest score of the table, 0 if scores are computed."""
        if self.table is None or self._function is not None:
            return 0.0
        return max(float(self.table[1].max()), self.floor)


def log_unit(log_largest):
    """Logarithm of a unit in which numbers up to the given one do not leave float64: 0 if it can.

    Parameters
    ----------
    log_largest : float
        Logarithm of the largest number; -inf where all are zero.
    """
    return 0.0 if abs(log_largest) <= LARGEST_LOG or log_largest == -np.inf else log_largest


def out_of_unit(values, log_of_unit):
    """Numbers that were counted in a unit as they are: infinite or zero where float64 ends.

    Parameters
    ----------
    values : ndarray
        Numbers of at least 0.
    log_of_unit : float or ndarray
        Logarithm of the unit.
    """
    if np.all(log_of_unit == 0):
        return values
    with np.errstate(divide="ignore", over="ignore"):
        return np.exp(np.log(values) + log_of_unit)


def checked_scores(scores, n_objects, source):
    """Validate what a user's function or regressor has returned."""
    scores = as_numbers(scores, source, "return")
    if scores.shape != (n_objects,):
        raise ValueError(
            f"{source} must return one number per object, shape ({n_objects},), "
            f"got an array of shape {scores.shape}."
        )
    if not np.isfinite(scores).all():
        raise ValueError(
            f"{source} must return finite numbers, got {scores[~np.isfinite(scores)][0]}."
        )
    if (scores < 0).any():
        raise ValueError(f"{source} must return numbers of at least 0, got {scores.min()}.")
    return scores


def as_numbers(values, source, verb="hold"):
    """Turn array-likes of numbers into float64, and refuse others by name."""
    kind = np.asarray(values).dtype
    try:
        if kind.kind == "c":
            raise TypeError
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        first = np.asarray(values, dtype=object).ravel()[:1].tolist()
        raise ValueError(
            f"{source} must {verb} real numbers, got {kind}, such as {first}."
        ) from None


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
    log_unit : float
        Logarithm of the unit that `ask` and `recall` count rewards in.
    n_calls : int
        Number of rewards that were needed; one per path, whether known already or not.
    n_evaluations : int
        Number of distinct objects that were asked for.
    """

    def __init__(self, process, model, relative_floor):
        self._process, self._model = process, model
        self._keys = RowKeys(process.state_sizes)
        self._relative_floor = relative_floor
        self._scores, self._states, self._first_calls = {}, [], []
        self._largest = model.largest
        self.log_unit = log_unit(float(model.log_rewards(self._largest)))
        self.n_calls = 0

    def __getstate__(self):
        # Arrays are small and every format can hold them; the dict is made again from them.
        state = {k: v for k, v in vars(self).items() if k not in ("_scores", "_states")}
        scores = np.array(list(self._scores.values()))
        return {**state, "_first_calls": self.first_calls, "arrays": (self.states, scores)}

    def __setstate__(self, state):
        states, scores = state.pop("arrays")
        vars(self).update(state)
        self._states = [states] if len(states) else []
        self._first_calls = [self._first_calls]
        self._scores = dict(zip(self._keys.keys(states), scores.tolist(), strict=True))

    @property
    def n_evaluations(self):
        return len(self._scores)

    @property
    def has_rewards(self):
        """Whether any reward is positive."""
        return self._largest > 0

    @property
    def states(self):
        """States of the visited objects in the order of the first visit."""
        n_entries = len(self._process.state_sizes)
        return np.concatenate([np.empty((0, n_entries), dtype=np.int64), *self._states])

    @property
    def rewards(self):
        """Their rewards, in no unit: zero or infinite beyond the range of float64."""
        scores = np.array(list(self._scores.values()))
        return out_of_unit(self._rewards_of(scores), self.log_unit)

    @property
    def first_calls(self):
        """Value of `n_calls` at the first visit of each."""
        return np.concatenate([np.empty(0, dtype=np.int64), *self._first_calls])

    def visit(self, states, *, count="all"):
        """Ask for the scores of those objects, given by their states, that are not known.

        Parameters
        ----------
        states : ndarray of shape (n, n_entries)
            States of objects.
        count : {"all", "new"}
            Whether objects that are known count as calls.
        """
        keys = self._keys.keys(states)
        fresh = {}
        for row, key in enumerate(keys):
            if key not in self._scores:
                fresh.setdefault(key, row)
        before = self.n_calls
        self.n_calls += len(keys) if count == "all" else len(fresh)
        if fresh:
            rows = np.fromiter(fresh.values(), dtype=np.int64)
            self._remember(fresh, states[rows])
            numbers = rows if count == "all" else np.arange(len(rows))
            self._first_calls.append(before + 1 + numbers)

    def _remember(self, keys, states):
        scores = self._model.scores(self._process.objects(states))
        self._scores.update(zip(keys, scores.tolist(), strict=True))
        self._states.append(np.array(states))
        if not self.has_rewards:
            self.log_unit = log_unit(float(self._model.log_rewards(scores.max())))
        self._largest = max(self._largest, float(scores.max()))

    def ask(self, states, *, count="all"):
        """Visit objects, and return their rewards in the unit of the memory, shape (n,)."""
        self.visit(states, count=count)
        return self.recall(states)

    def recall(self, states):
        """Rewards of those objects that are known, in the unit of the memory; NaN for others."""
        return self._rewards_of(self._scores_of(states))

    def recall_logs(self, states):
        """Logarithms of the rewards of those objects that are known, NaN for others."""
        logs = self._model.log_rewards(self._scores_of(states))
        with np.errstate(divide="ignore"):
            log_floor = np.log(self._relative_floor)
        return np.maximum(logs, self._model.log_rewards(self._largest) + log_floor)

    def _scores_of(self, states):
        found = map(self._scores.get, self._keys.keys(states))
        return np.array([np.nan if score is None else score for score in found])

    def _rewards_of(self, scores):
        rewards = self._model.rewards(scores, self.log_unit)
        if np.isinf(rewards).any():
            raise ValueError(
                f"With reward_exponent={self._model.exponent} the scores up to {self._largest:.6g} "
                "have rewards that are too far above those of the first batch for values learnt by "
                "regression. Lower reward_exponent."
            )
        largest = self._model.rewards(self._largest, self.log_unit)
        return np.maximum(rewards, self._relative_floor * largest)  # NaN stays
