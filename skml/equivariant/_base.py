"""What the equivariant regressor and classifier share: input, network, training, state."""

import copy
from numbers import Integral, Real

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from skml.utils._torch import TorchStateMixin, local_seed, make_generator, resolve_device, to_numpy
from skml.utils._weights import validated_weight

from ._basis import invariant_tensors
from ._groups import REAL_GROUPS
from ._network import EquivariantNetwork
from ._tensor_input import infer_dimension, invariant_location_scale
from ._training import solve_linear, train_convex, train_minibatches

_PREDICT_ENTRIES = 2**22


class BaseEquivariantNetwork(TorchStateMixin, BaseEstimator):
    """Base of the estimators that train an `EquivariantNetwork`.

    A subclass defines ``_loss(outputs, target)``, a loss for each row, and ``_has_closed_form``.
    """

    _torch_modules = {"module_": "_build_module"}
    _parameter_constraints: dict = {
        "group": [StrOptions(set(REAL_GROUPS))],
        "order_in": [Interval(Integral, 1, None, closed="left")],
        "order_out": [Interval(Integral, 0, None, closed="left")],
        "n_channels_in": [Interval(Integral, 1, None, closed="left")],
        "hidden_layer_sizes": ["array-like"],
        "input_power": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "nonlinearity": [StrOptions({"auto", "gated", "pointwise", "matmul", "identity"})],
        "method": [StrOptions({"auto", "dense", "factorized"})],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "device": "no_validation",  # by resolve_device
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        group="S",
        *,
        order_in=1,
        order_out=0,
        n_channels_in=1,
        hidden_layer_sizes=(32,),
        input_power="auto",
        nonlinearity="auto",
        method="auto",
        alpha=1e-4,
        learning_rate=1e-3,
        max_epochs=200,
        batch_size="auto",
        tol=1e-4,
        n_iter_no_change=10,
        device="cpu",
        random_state=None,
        verbose=0,
    ):
        self.group = group
        self.order_in = order_in
        self.order_out = order_out
        self.n_channels_in = n_channels_in
        self.hidden_layer_sizes = hidden_layer_sizes
        self.input_power = input_power
        self.nonlinearity = nonlinearity
        self.method = method
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @property
    def n_parameters_(self):
        """Number of trainable numbers."""
        check_is_fitted(self, "module_")
        return sum(parameter.numel() for parameter in self.module_.parameters())

    @property
    def partitions_(self):
        """For each layer, a dict from (order in, order out) to the partitions of its maps."""
        check_is_fitted(self, "module_")
        return [
            {
                (k, l): layer.partitions(i, j)
                for i, (k, _) in enumerate(layer.in_spec)
                for j, (l, _) in enumerate(layer.out_spec)
                if layer.partitions(i, j)
            }
            for layer in self.module_.layers
        ]

    def _weight_and_dimension(self, X, sample_weight):
        """Weights of the rows, and n."""
        n = infer_dimension(
            X.shape[1],
            self.order_in,
            self.n_channels_in,
            order_name="order_in",
            channels_name="n_channels_in",
        )
        weight = validated_weight(sample_weight, X)
        weight = np.ones(len(X), dtype=X.dtype) if weight is None else weight.astype(X.dtype)
        return weight, n

    @property
    def _is_linear(self):
        return len(self.hidden_layer_sizes) == 0

    def _location_scale(self, flat, order, n, weight):
        """Offset and scale of tensors (n_samples, channels, n**order); none for a linear model."""
        if self._is_linear:
            return np.zeros(flat.shape[1:], dtype=flat.dtype), np.ones(flat.shape[1], flat.dtype)
        invariants = invariant_tensors(self.group, n, int(order), flat.dtype)
        offset, scale = invariant_location_scale(flat, invariants, weight)
        return offset, scale.astype(flat.dtype)

    def _train(self, X, target, weight, n, n_channels_out):
        """Build and train the network; target is a tensor (n_samples, ...)."""
        device, rng = resolve_device(self.device), check_random_state(self.random_state)
        self.n_ = n
        self._architecture = {
            "group": self.group,
            "n": n,
            "order_in": int(self.order_in),
            "order_out": int(self.order_out),
            "n_channels_in": int(self.n_channels_in),
            "n_channels_out": n_channels_out,
            "hidden_layer_sizes": copy.deepcopy(list(self.hidden_layer_sizes)),
            "input_power": self.input_power,
            "nonlinearity": self.nonlinearity,
            "method": self.method,
        }
        self._dtype = X.dtype.name
        tensors = self._tensors(X)
        self.input_offset_, self.input_scale_ = self._location_scale(
            tensors.reshape(*tensors.shape[:2], -1), self.order_in, n, weight
        )
        with local_seed(rng, device):
            module = self._build_module().to(device)
        x = torch.from_numpy(self._scaled(tensors)).to(device)
        target, weight = target.to(device), torch.from_numpy(weight).to(device)
        record = self._minimise(module, x, target, weight, make_generator(rng))
        self.module_ = module
        self.loss_curve_, self.n_iter_ = record.loss_curve, record.n_iter

    def _minimise(self, module, x, target, weight, generator):
        if self._is_linear and self._has_closed_form:
            return solve_linear(module, x, target, weight, alpha=self.alpha)
        if self._is_linear:
            return train_convex(
                module,
                x,
                target,
                weight,
                self._loss,
                alpha=self.alpha,
                max_epochs=self.max_epochs,
                tol=self.tol,
            )
        return train_minibatches(
            module,
            x,
            target,
            weight,
            self._loss,
            alpha=self.alpha,
            learning_rate=self.learning_rate,
            max_epochs=self.max_epochs,
            batch_size=min(200, len(x)) if self.batch_size == "auto" else self.batch_size,
            tol=self.tol,
            n_iter_no_change=self.n_iter_no_change,
            generator=generator,
            verbose=self.verbose,
        )

    def _build_module(self):
        return EquivariantNetwork(**self._architecture).to(getattr(torch, self._dtype))

    def _tensors(self, X):
        shape = [self._architecture["n"]] * self._architecture["order_in"]
        return X.reshape(len(X), self._architecture["n_channels_in"], *shape)

    def _scaled(self, tensors):
        scale = self.input_scale_.reshape(-1, *[1] * (tensors.ndim - 2))
        offset = self.input_offset_.reshape(tensors.shape[1:])
        return np.ascontiguousarray((tensors - offset) / scale)

    def _outputs(self, X):
        """Outputs of the network, ndarray of shape (n_samples, channels, n**order_out)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        tensors = self._tensors(X.astype(self._dtype, copy=False))
        widest = max(
            channels * self.n_**order
            for layer in self.module_.layers
            for order, channels in layer.in_spec + layer.out_spec
        )
        step = max(1, _PREDICT_ENTRIES // widest)
        device = next(self.module_.parameters()).device
        parts = []
        with torch.no_grad():
            for start in range(0, len(X), step):
                x = torch.from_numpy(self._scaled(tensors[start : start + step])).to(device)
                outputs = self.module_(x)
                parts.append(to_numpy(outputs.reshape(*outputs.shape[:2], -1)))
        return np.concatenate(parts)

    def _linear_layers(self):
        return self.module_._linear_layers()
