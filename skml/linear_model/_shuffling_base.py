"""What the shuffling classifier and regressor have in common."""

import copy
import warnings
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from ._shuffling_losses import CLASSIFICATION_LOSSES, make_loss
from ._shuffling_orders import NAMED_ORDERS, Orders, check_horizon
from ._shuffling_problem import Problem
from ._shuffling_steps import LEARNING_RATES, make_rule
from ._shuffling_training import Training, Watch, train

__all__ = ["SHARED_CONSTRAINTS", "BaseShufflingSGD", "Stream", "Target"]

_MAX_SEED = np.iinfo(np.int32).max
# Rules that start again with each `fit`, also a warm one; the others count all epochs.
_MADE_FOR_ONE_FIT = ("auto", "log", "theory")
_ATTRIBUTES_OF_A_SETTING = (
    "validation_curve_",
    "gradient_bound_",
    "individual_gradient_bound_",
    "smoothness_",
    "variance_",
    "n_certificate_updates_",
)

SHARED_CONSTRAINTS = {
    "alpha": [Interval(Real, 0, None, closed="left")],
    "fit_intercept": ["boolean"],
    "order": [StrOptions(set(NAMED_ORDERS)), "array-like", callable],
    "batch_size": [Interval(Integral, 1, None, closed="left")],
    "learning_rate": [StrOptions(set(LEARNING_RATES))],
    "eta0": [Interval(Real, 0, None, closed="neither"), None],
    "power_t": [Interval(Real, None, None, closed="neither")],
    "offset": [Interval(Real, 0, None, closed="left")],
    "mu": [Interval(Real, 0, None, closed="neither"), None],
    "horizon": [Interval(Integral, 1, None, closed="left"), None],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0, None, closed="left"), None],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    "early_stopping": ["boolean"],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "average": ["boolean"],
    "variance": ["array-like", None],
    "delta": [Interval(Real, 0, 1, closed="right")],
    "warm_start": ["boolean"],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


@dataclass
class Target:
    """One linear predictor's target: values, or -1 and 1, and the weights of the rows."""

    y: np.ndarray
    weight: np.ndarray | None


@dataclass
class Stream:
    """What a predictor carries from one call of `partial_fit`, or of a warm `fit`, to the next."""

    training: Training
    rule: object = None
    rng: np.random.RandomState | None = None


class BaseShufflingSGD(BaseEstimator):
    """Validation, training and fitted state of the shuffling estimators."""

    def _loss(self):
        return make_loss(
            self.loss,
            huber_epsilon=getattr(self, "huber_epsilon", 0.1),
            power=getattr(self, "power", 4.0),
        )

    def _validate(self, X, y, *, reset=True, numeric):
        return validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            y_numeric=numeric,
            reset=reset,
        )

    def _check_settings(self):
        if self.variance is not None:
            variance = np.asarray(self.variance, dtype=np.float64)
            if variance.shape != (2,) or not np.all(np.isfinite(variance)) or variance.min() < 0:
                raise ValueError(
                    "variance must be a pair (A, sigma) of non-negative numbers, got "
                    f"{self.variance!r}"
                )

    # ----- training ------------------------------------------------------------------------

    def _fit_targets(self, X, targets, coef_init, intercept_init):
        """Train one predictor for each target, from the start to the end."""
        self._check_settings()
        starts = self._starts(len(targets), X.shape[1], coef_init, intercept_init)
        rng = check_random_state(self.random_state)
        rngs = [rng]
        if len(targets) > 1:
            seeds = rng.randint(_MAX_SEED, size=len(targets))
            rngs = [np.random.RandomState(seed) for seed in seeds]
        X = _canonical(X)
        streams = Parallel(n_jobs=getattr(self, "n_jobs", None), prefer="threads")(
            delayed(_train_target)(self, X, target, Stream(Training(*start), rng=rng))
            for target, start, rng in zip(targets, starts, rngs, strict=True)
        )
        for stream in streams:
            # A generator that the user handed over is theirs to continue.
            stream.rng = None
        self._store(X, streams)
        for stream in streams:
            stream.rule = None  # made for the epochs of this call
        self._warn_if_unfinished(streams)
        return self

    def _fit_chunk(self, X, targets):
        """Train each predictor for one epoch over a chunk of a stream."""
        self._check_settings()
        if self.early_stopping:
            raise ValueError(
                "early_stopping must be False in partial_fit: a stream has no held-out rows"
            )
        streams = copy.deepcopy(getattr(self, "_streams", None))
        if streams is None:
            streams = [Stream(Training(np.zeros(X.shape[1] + 1))) for _ in targets]
        if streams[0].rng is None:
            rng = check_random_state(self.random_state)
            for stream in streams:
                stream.rng = np.random.RandomState(rng.randint(_MAX_SEED))
        for stream in streams:
            # Only this chunk's; a stream may have no end.
            stream.training.curve, stream.training.steps = [], []
            stream.training.best = None
        X = _canonical(X)
        streams = Parallel(n_jobs=getattr(self, "n_jobs", None), prefer="threads")(
            delayed(_train_target)(self, X, target, stream, streaming=True)
            for target, stream in zip(targets, streams, strict=True)
        )
        self._store(X, streams)
        return self

    def _starts(self, n_targets, n_features, coef_init, intercept_init):
        """Arguments of `Training`: the coefficients to start from, and the epochs behind them."""
        warm = getattr(self, "_streams", None) if self.warm_start else None
        if warm is not None and (
            len(warm) != n_targets or len(warm[0].training.theta) != n_features + 1
        ):
            raise ValueError(
                f"warm_start=True needs data like before, {len(warm)} predictors of "
                f"{len(warm[0].training.theta) - 1} features, got {n_targets} of {n_features}"
            )
        thetas = np.zeros((n_targets, n_features + 1))
        epochs = [0] * n_targets
        if warm is not None:
            thetas[:] = [stream.training.theta for stream in warm]
            epochs = [stream.training.epoch for stream in warm]
        for name, given, part in (
            ("coef_init", coef_init, np.s_[:, :-1]),
            ("intercept_init", intercept_init, np.s_[:, -1]),
        ):
            if given is None:
                continue
            values = np.asarray(given, dtype=np.float64)
            shape = thetas[part].shape
            if values.size != np.prod(shape):
                raise ValueError(f"{name} must have shape {shape}, got {values.shape}")
            if not np.all(np.isfinite(values)):
                raise ValueError(f"{name} must be finite, got {given!r}")
            thetas[part] = values.reshape(shape)
        return list(zip(thetas, epochs, strict=True))

    # ----- fitted state --------------------------------------------------------------------

    def _store(self, X, streams):
        trainings = [stream.training for stream in streams]
        self._streams = streams
        thetas = np.array([self._result(training) for training in trainings])
        # Float features get float coefficients, as in scikit-learn; the stream keeps the digits.
        self.coef_ = np.ascontiguousarray(thetas[:, :-1], dtype=X.dtype)
        self.intercept_ = np.ascontiguousarray(thetas[:, -1], dtype=X.dtype)
        self.t_ = max(training.epoch for training in trainings)
        self.n_iter_ = max(len(training.curve) for training in trainings)
        self.n_rejected_ = sum(training.n_rejected for training in trainings)
        several = len(streams) > 1
        self.objective_curve_ = _one_or_all([training.curve for training in trainings], several)
        self.step_sizes_ = _one_or_all([training.steps for training in trainings], several)
        for name in _ATTRIBUTES_OF_A_SETTING:
            vars(self).pop(name, None)
        if self.early_stopping:
            self.validation_curve_ = _one_or_all(
                [training.validation_curve for training in trainings], several
            )
        if self.learning_rate == "theory":
            certificates = [stream.rule.certificate for stream in streams]
            self.gradient_bound_ = _one_or_all([c.gradient_bound for c in certificates], several)
            self.individual_gradient_bound_ = _one_or_all(
                [c.individual_gradient_bound for c in certificates], several
            )
            self.smoothness_ = _one_or_all([c.smoothness for c in certificates], several)
            self.variance_ = _one_or_all([(c.A, c.sigma) for c in certificates], several)
            self.n_certificate_updates_ = sum(stream.rule.n_updates for stream in streams)

    def _result(self, training):
        if training.best is not None:
            return training.best
        if self.average and training.n_averaged:
            return training.mean
        return training.theta

    def _warn_if_unfinished(self, streams):
        trainings = [stream.training for stream in streams]
        if self.tol is not None and not all(t.converged or t.diverged for t in trainings):
            warnings.warn(
                f"max_iter={self.max_iter} epochs ended before the improvement fell below "
                f"tol={self.tol} for n_iter_no_change={self.n_iter_no_change} epochs: increase "
                "max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        worst = max(trainings, key=lambda t: t.n_rejected / max(len(t.steps), 1))
        if 2 * worst.n_rejected > len(worst.steps):
            warnings.warn(
                f"{worst.n_rejected} of {len(worst.steps)} epochs were undone because they made "
                "the objective worse than at the start: scale the features, or give a smaller "
                "eta0.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _train_target(params, X, target, stream, streaming=False):
    """Train one predictor on the rows that have weight."""
    y, weight = target.y, target.weight
    if weight is not None and not weight.all():
        kept = np.flatnonzero(weight)
        if len(kept) == 0:
            raise ValueError("sample_weight and class_weight leave no row with a positive weight")
        X, y, weight = X[kept], y[kept], weight[kept]
    watch = None
    if not streaming:
        if params.early_stopping:
            held_out, (X, y, weight) = _split(params, X, y, weight, stream.rng)
            watch = Watch(params.tol, params.n_iter_no_change, _make_problem(params, *held_out))
        elif params.tol is not None:
            watch = Watch(params.tol, params.n_iter_no_change)
    problem = _make_problem(params, X, y, weight)
    training = stream.training
    orders = Orders(params.order, problem.n_samples, stream.rng)
    n_epochs = 1 if streaming else params.max_iter
    check_horizon(orders, training.epoch + n_epochs)
    if stream.rule is None:
        stream.rule = make_rule(
            params,
            problem,
            training.theta,
            lambda: orders(training.epoch + 1),
            streaming=streaming,
        )
    before = 0
    if params.learning_rate in _MADE_FOR_ONE_FIT and not streaming:
        before, training.epoch = training.epoch, 0
    train(
        training,
        problem,
        lambda t: orders(before + t),
        stream.rule,
        n_epochs,
        watch=watch,
        verbose=params.verbose,
    )
    training.epoch += before
    return stream


def _make_problem(params, X, y, weight):
    batch_size = params.batch_size
    if batch_size > X.shape[0]:
        warnings.warn(
            f"batch_size={batch_size} is more than the {X.shape[0]} rows: one batch of all rows "
            "is used",
            UserWarning,
            stacklevel=2,
        )
        batch_size = X.shape[0]
    return Problem(
        X,
        y,
        weight,
        params._loss(),
        alpha=float(params.alpha),
        fit_intercept=params.fit_intercept,
        batch_size=batch_size,
    )


def _split(params, X, y, weight, rng):
    """Held-out rows, and the others."""
    stratify = params.loss in CLASSIFICATION_LOSSES
    splitter = StratifiedShuffleSplit if stratify else ShuffleSplit
    try:
        kept, held_out = next(
            splitter(1, test_size=params.validation_fraction, random_state=rng).split(y, y)
        )
    except ValueError as error:
        raise ValueError(
            f"validation_fraction={params.validation_fraction} of {len(y)} rows cannot be held "
            f"out: {error}"
        ) from error
    return tuple(
        (X[rows], y[rows], None if weight is None else weight[rows]) for rows in (held_out, kept)
    )


def _canonical(X):
    """Bring a CSR matrix into the form that the kernel reads: int32, no column twice in a row."""
    if not sparse.issparse(X):
        return X
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    if X.indices.dtype != np.int32 or X.indptr.dtype != np.int32:
        greatest = np.iinfo(np.int32).max
        if max(X.nnz, X.shape[1]) > greatest:
            raise ValueError(
                f"X has {X.nnz} stored values and {X.shape[1]} columns, sparse matrices may have "
                f"{greatest}: pass the rows in chunks to partial_fit"
            )
        indices, indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        X = sparse.csr_matrix((X.data, indices, indptr), shape=X.shape)
    return X


def _one_or_all(values, several):
    if not several:
        return values[0]
    return values if isinstance(values[0], list) else np.array(values)
