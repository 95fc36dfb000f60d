"""The estimator side of learnt time encodings: a layer per column, trained with a linear head."""

import warnings
from numbers import Integral, Real

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_y,
    check_consistent_length,
    check_is_fitted,
)
from torch import nn

from skml.utils import restores_on_error
from skml.utils._torch import (
    TorchStateMixin,
    draw_seed,
    local_seed,
    make_generator,
    resolve_device,
)
from skml.utils._training import fit_loop, minibatches
from skml.utils._weights import validated_weight

from ._time_columns import read_times
from ._time_scale import frequency_range, time_scale
from ._time_targets import encode_target

# Rows encoded at a time: what the layer holds for them stays in the cache.
_CHUNK = 8192
_VECTOR = 64
_OUTSIDE_TOLERANCE = 0.01


class BaseTimeEncoder(TorchStateMixin, TransformerMixin, BaseEstimator):
    """Base of the transformers that learn an encoding of time together with a linear head.

    A subclass has the parameters below among others, and defines ``_make_module(first, last,
    origin, unit)``, which makes the layer of a column, and ``_name_prefix``.
    """

    _torch_modules = {"modules_": "_build_modules", "head_": "_build_head"}
    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "omega_range": [StrOptions({"auto"}), "array-like"],
        "time_unit": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither"), None],
        "task": [StrOptions({"auto", "regression", "classification"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "validation_fraction": [Interval(Real, 0, 1, closed="left")],
        "dtype": [StrOptions({"float32", "float64"})],
        "random_state": ["random_state"],
        "device": "no_validation",  # by resolve_device
        "verbose": ["verbose"],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    @restores_on_error
    def fit(self, X, y, sample_weight=None):
        """Train the encoding and a linear head to predict y.

        Parameters
        ----------
        X : {array-like, DataFrame} of shape (n_samples, n_columns)
            Times: numbers, dates (with or without time zone) or durations, each column of one
            kind. Dates and durations count in seconds.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Target values: numbers or classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0, in the loss. Rows of weight 0 still count for the range
            and the gaps of the times.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        columns, dtype = read_times(self, X, reset=True)
        y = _check_y(y, multi_output=True, estimator=self)
        check_consistent_length(columns[0].values, y)
        sample_weight = self._check_weights(sample_weight, columns)
        target = encode_target(y, self.task, sample_weight)
        self._set_target_attributes(target)
        self._set_time_attributes(columns, dtype)
        self._train(self._scaled(columns), target, sample_weight)
        return self

    def transform(self, X):
        """Encode times.

        Parameters
        ----------
        X : {array-like, DataFrame} of shape (n_samples, n_columns)
            Times, of the kinds seen in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_columns * n_components)
            The encodings of the columns, side by side. The type is that of X if it is float32
            or float64, float64 for other numbers, `dtype` for dates and durations.

        Warns
        -----
        UserWarning
            If more than one row in a hundred lies outside the range of times seen in `fit`.
        """
        check_is_fitted(self)
        columns, dtype = read_times(self, X, reset=False)
        self._check_kinds(columns)
        n_samples, width = len(columns[0].values), self.n_components
        encoded = np.empty((n_samples, len(columns) * width), dtype=dtype or self.dtype)
        target = torch.from_numpy(encoded)
        with torch.inference_mode():
            for j, (column, module) in enumerate(zip(columns, self.modules_, strict=True)):
                times = column.since(self._references[j])
                self._warn_outside(j, times)
                for start in range(0, n_samples, _CHUNK):
                    rows = slice(start, start + _CHUNK)
                    tau = (times[rows] - self.time_origin_[j]) / self.time_unit_[j]
                    target[rows, j * width : (j + 1) * width] = _encode_padded(module, tau)
        return encoded

    def get_feature_names_out(self, input_features=None):
        """Name the output columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns; None: `feature_names_in_`, or x0, x1, ...

        Returns
        -------
        ndarray of shape (n_columns * n_components,), dtype object
            Names such as ``lete_x0_3``.
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        return np.asarray(
            [f"{self._name_prefix}_{name}_{i}" for name in names for i in range(self.n_components)],
            dtype=object,
        )

    @property
    def omega_(self):
        """Learnt frequencies, ndarray of shape (n_columns, n_components).

        In radians per unit of X (per second for dates and durations).
        """
        check_is_fitted(self, "modules_")
        omega = [module.omega.detach().double().cpu().numpy() for module in self.modules_]
        return np.array(omega) / self.time_unit_[:, None]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check_weights(self, sample_weight, columns):
        weight = validated_weight(sample_weight, columns[0].values)
        return None if weight is None else weight / weight.max()

    def _check_kinds(self, columns):
        for j, (column, kind) in enumerate(zip(columns, self.time_kinds_, strict=True)):
            if column.kind != kind:
                names = getattr(self, "feature_names_in_", range(len(columns)))
                raise ValueError(
                    f"Column {names[j]!r} of X held {kind} in fit and holds {column.kind} now."
                )

    def _warn_outside(self, j, times):
        low, high = self.time_range_[j]
        share = np.mean((times < low) | (times > high))
        if share > _OUTSIDE_TOLERANCE:
            names = getattr(self, "feature_names_in_", range(self.n_features_in_))
            warnings.warn(
                f"{share:.1%} of the times in column {names[j]!r} lie outside the range seen in "
                "fit; the learnt functions extrapolate there.",
                UserWarning,
                stacklevel=4,  # past set_output, to the caller of transform
            )

    def _set_target_attributes(self, target):
        for name in ("classes_", "target_mean_", "target_scale_"):
            vars(self).pop(name, None)
        if target.is_classification:
            self.classes_ = target.classes if len(target.classes) > 1 else target.classes[0]
        else:
            self.target_mean_, self.target_scale_ = target.means, target.scales
        self._n_head_outputs = target.n_head_outputs

    def _set_time_attributes(self, columns, dtype):
        self.time_kinds_ = [column.kind for column in columns]
        self._references = [column.first() for column in columns]
        times = [
            column.since(reference)
            for column, reference in zip(columns, self._references, strict=True)
        ]
        self.time_range_ = np.array([(column.min(), column.max()) for column in times])
        scales = [time_scale(column, self.time_unit) for column in times]
        self.time_origin_, self.time_unit_ = np.array(scales).T.copy()
        self._omega_ranges = [
            frequency_range((column - origin) / unit, self._check_omega_range())
            for column, (origin, unit) in zip(times, scales, strict=True)
        ]

    def _check_omega_range(self):
        if isinstance(self.omega_range, str):
            return self.omega_range
        omegas = np.asarray(self.omega_range, dtype=np.float64)
        if omegas.shape != (2,) or not (np.isfinite(omegas).all() and (omegas > 0).all()):
            raise ValueError(
                "omega_range must be 'auto' or two positive numbers, the first and the last "
                f"initial frequency, got {self.omega_range!r}"
            )
        return omegas

    def _scaled(self, columns):
        """The times of all columns, scaled, ndarray of shape (n_columns, n_samples)."""
        times = [
            column.since(reference)
            for column, reference in zip(columns, self._references, strict=True)
        ]
        return (np.array(times) - self.time_origin_[:, None]) / self.time_unit_[:, None]

    def _build_modules(self):
        settings = zip(self._omega_ranges, self.time_origin_, self.time_unit_, strict=True)
        modules = [
            self._make_module((first, last), float(origin), float(unit))
            for (first, last), origin, unit in settings
        ]
        return nn.ModuleList(modules).to(getattr(torch, self.dtype))

    def _build_head(self):
        n_inputs = len(self._omega_ranges) * self.n_components
        return nn.Linear(n_inputs, self._n_head_outputs, dtype=getattr(torch, self.dtype))

    def _train(self, tau, target, sample_weight):
        device = resolve_device(self.device)
        rng = check_random_state(self.random_state)
        train, held_out = self._split(tau.shape[1], rng)
        with local_seed(rng, device):
            modules, head = self._build_modules().to(device), self._build_head().to(device)
            self.modules_, self.head_ = modules, head
            self.omega_init_ = self.omega_
            record = self._run_steps(
                _Rows(tau, target, sample_weight, train, head.weight),
                _Rows(tau, target, sample_weight, held_out, head.weight),
                draw_seed(rng),
            )
        for module in (modules, head):
            module.requires_grad_(True).eval()
            module.zero_grad(set_to_none=True)
        self.loss_curve_, self.n_iter_ = record.loss_curve, record.n_iter
        if len(held_out):
            self.validation_curve_ = record.validation_curve
        else:
            vars(self).pop("validation_curve_", None)

    def _split(self, n_samples, rng):
        """Numbers of the rows to train on, and of those that are held out."""
        if not self.validation_fraction:
            return np.arange(n_samples), np.arange(0)
        n_held_out = max(1, round(self.validation_fraction * n_samples))
        if n_held_out >= n_samples:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} leaves no row to train on of "
                f"the {n_samples} samples"
            )
        order = rng.permutation(n_samples)
        return np.sort(order[n_held_out:]), np.sort(order[:n_held_out])

    def _run_steps(self, train, held_out, seed):
        """Adam with the learning rate falling along a cosine to zero."""
        parameters = [*self.modules_.parameters(), *self.head_.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=self.learning_rate, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.max_iter)
        batches = self._batches(len(train), make_generator(seed))

        def step(_):
            optimizer.zero_grad()
            loss = self._loss(train, next(batches))
            loss.backward()
            optimizer.step()
            schedule.step()
            return loss.detach()

        @torch.no_grad()
        def validate(_):
            return self._loss(held_out, slice(None))

        # The loss of one small batch says little: without held-out rows all steps are made then.
        is_monitored = len(held_out) or self._is_full_batch(len(train))
        return fit_loop(
            step,
            max_iter=self.max_iter,
            validate=validate if len(held_out) else None,
            modules=(self.modules_, self.head_) if is_monitored else (),
            tol=self.tol,
            n_iter_no_change=self.n_iter_no_change if is_monitored else None,
            verbose=self.verbose,
            desc=type(self).__name__,
        )

    def _is_full_batch(self, n_samples):
        return self.batch_size is None or self.batch_size >= n_samples

    def _batches(self, n_samples, generator):
        while True:
            if self._is_full_batch(n_samples):
                yield slice(None)
            else:
                yield from minibatches(n_samples, self.batch_size, generator)

    def _loss(self, data, rows):
        tau = data.tau[:, rows]
        encoded = [module.encode(column) for module, column in zip(self.modules_, tau, strict=True)]
        outputs = self.head_(torch.cat(encoded, dim=1) if len(encoded) > 1 else encoded[0])
        weights = None if data.weights is None else data.weights[rows]
        return data.loss(outputs, data.targets[rows], weights)


def _encode_padded(module, tau):
    """Encode scaled times in a number that is a multiple of what vector units take at once.

    The remainder of an array goes through other instructions, which round in another way; then
    the encoding of a time would depend on its place among the others.
    """
    n_padded = -len(tau) % _VECTOR
    padded = torch.from_numpy(np.pad(tau, (0, n_padded))).to(next(module.parameters()))
    return module.encode(padded)[: len(tau)]


class _Rows:
    """Some rows of the training data as tensors."""

    def __init__(self, tau, target, sample_weight, rows, like):
        self.tau = torch.from_numpy(tau[:, rows]).to(like)
        self.targets = target.tensor(rows, like)
        self.weights = None
        if sample_weight is not None:
            self.weights = torch.from_numpy(sample_weight[rows]).to(like)
        self.loss = target.loss

    def __len__(self):
        return len(self.targets)
