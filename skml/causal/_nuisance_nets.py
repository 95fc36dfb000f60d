"""The built-in nuisances: small networks that evaluate grids of (x, z) pairs. Imports torch."""

import copy
import itertools

import numpy as np
import skorch
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from skorch.dataset import Dataset
from skorch.helper import predefined_split
from torch import nn

from skml.utils._torch import TorchStateMixin, as_tensor, to_numpy
from skml.utils._training import fit_net, make_net

_LEARNING_RATE = 1e-3
_BATCH_SIZE = 128
_PATIENCE = 10
# Hidden values of a block of pairs; they stay in the second cache from layer to layer.
_VALUES_AT_ONCE = 2**17


class PairNet(nn.Module):
    """Multi-layer perceptron of [x, z] whose first layer is a sum of a part of x and one of z.

    Parameters
    ----------
    n_x, n_z : int
        Numbers of columns; `n_z` may be 0.
    hidden_layer_sizes : tuple of int
        Widths of the hidden layers.
    n_outputs : int
        Number of outputs.
    """

    def __init__(self, n_x, n_z, hidden_layer_sizes, n_outputs):
        super().__init__()
        sizes = [*hidden_layer_sizes, n_outputs]
        self.n_x = n_x
        self.from_x = nn.Linear(n_x, sizes[0])
        self.from_z = nn.Linear(n_z, sizes[0], bias=False) if n_z else None
        layers = []
        for narrow, wide in itertools.pairwise(sizes):
            layers += [nn.ReLU(), nn.Linear(narrow, wide)]
        self.rest = nn.Sequential(*layers)

    def forward(self, pairs):
        """Outputs of rows [x, z]."""
        hidden = self.from_x(pairs[:, : self.n_x])
        if self.from_z is not None:
            hidden = hidden + self.from_z(pairs[:, self.n_x :])
        return self.rest(hidden)

    def grid(self, x, from_z):
        """Outputs (n_outputs, n_x, n_z) of all pairs, z by its part of the first layer."""
        hidden = self.rest[:-1](self.from_x(x)[:, None] + from_z)
        last = self.rest[-1]
        # Few outputs of many pairs: the product with the long rows takes a third of the time.
        outputs = torch.addmm(last.bias[:, None], last.weight, hidden.flatten(0, 1).t())
        return outputs.unflatten(1, hidden.shape[:2])


class ClassLoss(nn.Module):
    """Weighted cross-entropy; a target row is [class, weight]."""

    def forward(self, output, target):
        losses = nn.functional.cross_entropy(output, target[:, 0].long(), reduction="none")
        return (losses * target[:, 1]).mean()


class ArmLoss(nn.Module):
    """Weighted squared error of the head of the observed arm; a row is [outcome, arm, weight]."""

    def forward(self, output, target):
        outcome, arm, weight = target.T
        predicted = torch.where(arm > 0, output[:, 1], output[:, 0])
        return (weight * (predicted - outcome) ** 2).mean()


class MomentLoss(nn.Module):
    """Weighted squared error of all heads; a row is [targets, weight]."""

    def forward(self, output, target):
        return (target[:, -1:] * (output - target[:, :-1]) ** 2).mean()


_LOSSES = {"classes": ClassLoss, "arms": ArmLoss, "moments": MomentLoss}


class NuisanceNet(TorchStateMixin, BaseEstimator):
    """Network over [x, z], trained by skorch, that predicts rows and grids.

    Parameters
    ----------
    loss : {"classes", "arms", "moments"}
        Probabilities of classes; the outcome of each treatment arm; means of several targets.
    n_z : int
        How many of the last columns of the input are the instrument.
    hidden_layer_sizes : tuple of int
        Widths of the hidden layers.
    max_epochs : int
        Most passes over the rows.
    device : str
        Torch device.
    random_state : int, RandomState instance or None
        Seed of weights and batches.
    """

    _torch_modules = {"net_": "_build_net"}

    def __init__(
        self, loss, n_z, hidden_layer_sizes, *, max_epochs=100, device="cpu", random_state=None
    ):
        self.loss = loss
        self.n_z = n_z
        self.hidden_layer_sizes = hidden_layer_sizes
        self.max_epochs = max_epochs
        self.device = device
        self.random_state = random_state

    def fit(self, pairs, targets, weight, validation=None):
        """Train with early stopping.

        Parameters
        ----------
        pairs : ndarray of shape (n, n_x + n_z)
            Rows [x, z].
        targets : ndarray of shape (n, n_targets)
            As the loss reads them, without the weight.
        weight : ndarray of shape (n,)
            Weights of the rows.
        validation : tuple of (pairs, targets, weight) or None
            Rows for early stopping.

        Returns
        -------
        self : object
            Itself.
        """
        rng = check_random_state(self.random_state)
        self.centre_ = np.average(pairs, axis=0, weights=weight)
        spread = np.sqrt(np.average((pairs - self.centre_) ** 2, axis=0, weights=weight))
        self.scale_ = np.where(spread > 0, spread, 1.0)
        self.n_outputs_ = 2
        if self.loss == "classes":
            self.n_outputs_ = max(2, int(targets[:, 0].max()) + 1)
        elif self.loss == "moments":
            self.n_outputs_ = targets.shape[1]
        parts = [(pairs, targets, weight)]
        if validation is not None and len(validation[0]):
            parts.append(validation)
        arrays = [self._arrays(*part) for part in parts]
        split = {}
        if len(arrays) > 1:
            split = {"train_split": predefined_split(Dataset(*arrays[1]))}
        net = self._make_net(rng, has_validation=len(arrays) > 1, **split)
        self.net_ = fit_net(net, *arrays[0], random_state=rng)
        # The held-out rows are not part of the model.
        self.net_.train_split = None
        return self

    def predict_proba(self, pairs):
        """Class probabilities (n, n_classes) of rows [x, z], or the means of other losses."""
        module = self._module(torch.float64)
        with torch.no_grad():
            output = module(self._tensor(pairs, slice(None), torch.float64))
            return to_numpy(self._finish(output, dim=1))

    def predict_grid(self, X, Z, dtype=np.float64):
        """Outputs (n_x, n_z, n_outputs) of all pairs of a row of X and a row of Z."""
        precision = torch.float32 if dtype == np.float32 else torch.float64
        module = self._module(precision)
        x = self._tensor(X, slice(None, -self.n_z), precision)
        z = self._tensor(Z, slice(-self.n_z, None), precision)
        step = max(1, _VALUES_AT_ONCE // (len(z) * max(self.hidden_layer_sizes)))
        grid = np.empty((self.n_outputs_, len(x), len(z)), dtype=dtype)
        with torch.no_grad():
            from_z = module.from_z(z)
            for start in range(0, len(x), step):
                part = slice(start, start + step)
                output = self._finish(module.grid(x[part], from_z), dim=0)
                grid[:, part] = output.cpu().numpy()
        return np.moveaxis(grid, 0, -1)

    def _finish(self, output, dim):
        if self.loss != "classes":
            return output
        if self.n_outputs_ > 2:
            return output.softmax(dim=dim)
        # The same for two classes, many times as fast as torch's softmax of so short an axis.
        first, second = output.unbind(dim)
        margin = second - first
        return torch.stack([(-margin).sigmoid(), margin.sigmoid()], dim=dim)

    def _module(self, precision):
        # Single precision would make a prediction depend on the other rows of the call.
        module = self.net_.module_
        return module if precision == torch.float32 else copy.deepcopy(module).double()

    def _tensor(self, array, columns, precision):
        scaled = (array - self.centre_[columns]) / self.scale_[columns]
        return as_tensor(scaled, dtype=precision, device=self.net_.device)

    def _arrays(self, pairs, targets, weight):
        scaled = (pairs - self.centre_) / self.scale_
        weight = weight / weight.mean()
        return scaled.astype(np.float32), np.column_stack([targets, weight]).astype(np.float32)

    def _make_net(self, rng, *, has_validation=True, **split):
        return make_net(
            skorch.NeuralNet,
            PairNet,
            criterion=_LOSSES[self.loss],
            module__n_x=len(self.centre_) - self.n_z,
            module__n_z=self.n_z,
            module__hidden_layer_sizes=tuple(self.hidden_layer_sizes),
            module__n_outputs=self.n_outputs_,
            random_state=rng,
            device=self.device,
            max_epochs=self.max_epochs,
            learning_rate=_LEARNING_RATE,
            batch_size=_BATCH_SIZE,
            optimizer=torch.optim.AdamW,
            # Only says which loss to watch; the rows themselves are given.
            validation_fraction=0.5 if has_validation else 0.0,
            n_iter_no_change=_PATIENCE,
            **({"train_split": None} | split),
        )

    def _build_net(self):
        return self._make_net(0).initialize()


class CovariateNet(BaseEstimator):
    """A :class:`NuisanceNet` of the covariates alone, with the interface of an estimator.

    Parameters
    ----------
    loss : {"classes", "moments"}
        Whether the target is a class or a number.
    hidden_layer_sizes, max_epochs, device, random_state
        As in :class:`NuisanceNet`.
    """

    def __init__(
        self, loss, hidden_layer_sizes, *, max_epochs=100, device="cpu", random_state=None
    ):
        self.loss = loss
        self.hidden_layer_sizes = hidden_layer_sizes
        self.max_epochs = max_epochs
        self.device = device
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        """Train on two thirds of the rows; the others stop the training."""
        weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
        order = check_random_state(self.random_state).permutation(len(X))
        is_held = np.zeros(len(X), dtype=bool)
        is_held[order[: len(X) // 3]] = True
        targets = np.asarray(y, dtype=np.float64)
        if self.loss == "classes":
            self.classes_, first, codes = np.unique(y, return_index=True, return_inverse=True)
            targets = codes.astype(np.float64)
            # The training rows decide the number of outputs, so they hold one row of each class.
            is_held[first] = False
        targets = targets[:, None]
        held, kept = np.flatnonzero(is_held), np.flatnonzero(~is_held)
        self.net_ = NuisanceNet(
            self.loss,
            0,
            self.hidden_layer_sizes,
            max_epochs=self.max_epochs,
            device=self.device,
            random_state=self.random_state,
        )
        self.net_.fit(X[kept], targets[kept], weight[kept], (X[held], targets[held], weight[held]))
        return self

    def predict_proba(self, X):
        """Class probabilities (n, n_classes)."""
        return self.net_.predict_proba(X)

    def predict(self, X):
        """Means (n,)."""
        return self.net_.predict_proba(X)[:, 0]


def fit_propensity_net(train, valid, **params):
    """Network for P(A = 1 | x, z)."""
    net = NuisanceNet("classes", train.instrument.shape[1], **params)
    return net.fit(*_propensity_arrays(train), _propensity_arrays(valid))


def fit_outcome_net(train, valid, **params):
    """Network with one head per arm for E[Y | x, a, z]."""
    net = NuisanceNet("arms", train.instrument.shape[1], **params)
    return net.fit(*_outcome_arrays(train), _outcome_arrays(valid))


def _propensity_arrays(data):
    return np.hstack([data.X, data.instrument]), data.treatment[:, None], data.weight


def _outcome_arrays(data):
    targets = np.column_stack([data.y, data.treatment])
    return np.hstack([data.X, data.instrument]), targets, data.weight
