"""X, y and the process of a sampler, validated and in the form that the solvers need."""

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    column_or_1d,
    validate_data,
)

from ._encoding import ObjectEncoder
from ._hypergrid import HypergridProcess
from ._process import IndexedProcess
from ._rewards import (
    CalledScores,
    PredictedScores,
    ProcessScores,
    RewardModel,
    as_numbers,
)
from ._row_keys import RowKeys
from ._sequences import AutoregressiveProcess, PrependAppendProcess
from ._sets import SetProcess

PROCESSES = {
    "autoregressive": AutoregressiveProcess,
    "autoregressive_stop": lambda: AutoregressiveProcess(stop=True),
    "prepend_append": PrependAppendProcess,
    "set": SetProcess,
    "hypergrid": HypergridProcess,
}


class ScoreTable:
    """X, y and the process in the form that the solvers need.

    Attributes
    ----------
    process : Process
        With all sizes.
    encoder : ObjectEncoder
        From X to integers and back.
    reward_model : RewardModel
        Rewards of objects.
    values : list of ndarray
        Values of the columns.
    is_complete : bool
        Whether all objects that are not in the table have the same reward.
    """

    def __init__(self, sampler, X, y, sample_weight):
        given = X
        finite = finiteness(sampler.process)
        X = validate_data(sampler, X, dtype=None, ensure_all_finite=finite)
        y = None if y is None else checked_y(y, len(X))
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if (weights < 0).any():
            raise ValueError(f"sample_weight must not be negative, got {weights.min()}.")
        if not weights.any():
            raise ValueError("sample_weight is zero for all rows; at least one must be positive.")
        counted = weights > 0
        X, weights = X[counted], weights[counted]
        y = None if y is None else y[counted]
        process = sampler.process
        process = PROCESSES[process]() if isinstance(process, str) else process
        learn = getattr(process, "_has_categories", False)
        explicit = getattr(process, "n_categories", None), getattr(process, "n_letters", None)
        self.encoder = ObjectEncoder(
            learn=learn and explicit == (None, None),
            shared=getattr(process, "_shared_alphabet", False),
            may_end=may_end(process),
        ).fit(X, given)
        objects, _ = self.encoder.encode(X)
        n_values = [len(c) for c in self.encoder.categories] if self.encoder.categories else None
        if isinstance(process, IndexedProcess):
            process = process._configured(n_values, objects)
        self.process = process
        valid = are_objects(process, objects, np.zeros(len(objects), dtype=bool))
        if not valid.all():
            row = int(np.argmax(~valid))
            raise ValueError(
                f"Row {row} of X is no object of {process}: {np.asarray(X)[row].tolist()}."
            )
        self.values = self.encoder.categories or self._values(objects)
        self._make_model(sampler, objects, y, weights)

    def _values(self, objects):
        if isinstance(self.process, IndexedProcess):
            return [np.arange(size) for size in self.process._object_sizes]
        return [np.unique(column) for column in objects.T]

    def _make_model(self, sampler, objects, y, weights):
        process, function, table = self.process, None, None
        if sampler.reward is not None:
            function = CalledScores(sampler.reward, self.encoder)
        elif y is None and process.rewards(objects) is not None:
            function = ProcessScores(process)
        else:
            table = _averaged(objects, np.ones(len(objects)) if y is None else y, weights)
            if sampler.missing_reward == "estimator":
                regressor = clone(sampler.reward_estimator)
                regressor.fit(self.encoder.decode(table[0]), table[1])
                function = PredictedScores(regressor, self.encoder)
        self.is_complete = function is None
        # Nothing bounds the integers of a process that is not ours.
        sizes = process._object_sizes if isinstance(process, IndexedProcess) else None
        self.reward_model = RewardModel(
            sizes,
            table=table,
            function=function,
            floor=sampler.reward_floor,
            exponent=sampler.reward_exponent,
        )


def may_end(process):
    """Whether objects of a process, given by name or as an instance, may end before full length."""
    return process == "autoregressive_stop" or bool(
        isinstance(process, AutoregressiveProcess) and process.stop
    )


def finiteness(process):
    """What `ensure_all_finite` of scikit-learn's validation is for a process."""
    return "allow-nan" if may_end(process) else True


def checked_y(y, n_samples):
    """Scores as float64 of shape (n_samples,), none of them negative."""
    y = check_array(as_numbers(y, "y"), ensure_2d=False, input_name="y")
    y = column_or_1d(y, warn=True)
    if len(y) != n_samples:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {n_samples} rows of X, "
            f"{len(y)} of y."
        )
    if (y < 0).any():
        raise ValueError(f"y must hold scores of at least 0, got {y.min()}.")
    return y


def are_objects(process, objects, unknown):
    """Whether rows are objects of the process, apart from those that are unknown anyway."""
    is_object = np.zeros(len(objects), dtype=bool)
    rows = np.flatnonzero(~unknown)
    states = process.terminals(objects[rows])
    inside = ((states >= 0) & (states < np.array(process.state_sizes))).all(axis=1)
    rows, states = rows[inside], states[inside]
    if len(rows):
        is_object[rows] = ~process.actions(states).any(axis=1)
    if isinstance(process, IndexedProcess):
        is_object[rows] &= process._can_be_built(states)
    return is_object


def _averaged(objects, y, weights):
    """Distinct rows and the weighted means of their scores."""
    keys = RowKeys(tuple(objects.max(axis=0) + 2))
    first, inverse = keys.unique(objects + 1)
    weights = weights / weights.max()
    # Shares of one, which overflow neither as a sum nor times a score.
    shares = weights / np.bincount(inverse, weights=weights)[inverse]
    return objects[first], np.bincount(inverse, weights=shares * y)
