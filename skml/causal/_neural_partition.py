"""Stage 2: a partition of the instrument that is learnt for tight bounds. Imports torch."""

import itertools

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from torch import nn

from skml.utils._torch import TorchStateMixin, as_tensor, local_seed, make_generator, resolve_device
from skml.utils._training import fit_loop, minibatches

from ._bound_widths import mean_width
from ._honest import Rows, manski_terms

_LEAST_MASS = 1e-4
_STEPS_PER_VALIDATION = 5


class PartitionNet(nn.Module):
    """Encoder of the instrument with two heads: logits of the cells, and a guess of the cell.

    Parameters
    ----------
    n_inputs : int
        Number of instruments.
    hidden_layer_sizes : tuple of int
        Widths of the encoder.
    n_cells : int
        Number of cells.
    """

    def __init__(self, n_inputs, hidden_layer_sizes, n_cells):
        super().__init__()
        sizes = [n_inputs, *hidden_layer_sizes]
        layers = []
        for narrow, wide in itertools.pairwise(sizes):
            layers += [nn.Linear(narrow, wide), nn.ReLU()]
        self.encoder = nn.Sequential(*layers)
        self.cells = nn.Linear(sizes[-1], n_cells)
        self.guess = nn.Linear(sizes[-1], n_cells)

    def forward(self, z):
        """Logits of the cells and of the guess, each (n, n_cells)."""
        code = self.encoder(z)
        return self.cells(code), self.guess(code)


def straight_through_cells(logits, temperature, generator):
    """Gumbel-softmax sample, one-hot in the forward pass and soft in the backward pass."""
    # Minus the logarithm of an exponential variable is a Gumbel variable.
    exponential = torch.empty(logits.shape).exponential_(generator=generator)
    # One row for each cell: along so short an axis torch's softmax takes many times as long.
    noisy = logits - exponential.log_().to(logits)
    soft = (noisy / temperature).t().contiguous().softmax(dim=0)
    numbers = torch.arange(len(soft), device=soft.device).unsqueeze(1)
    hard = (soft.argmax(dim=0) == numbers).to(soft)
    # The bracket is exactly zero, so that an empty cell has a mass of exactly zero.
    return (hard + (soft - soft.detach())).t()


class NeuralPartition(TorchStateMixin, BaseEstimator):
    """Cells of the instrument that minimise the mean width of the bounds.

    Parameters
    ----------
    n_cells, balance_weight, guidance_weight, temperature, hidden_layer_sizes, learning_rate, \
max_iter, batch_size, n_iter_no_change, n_init, device, random_state, verbose
        As in :class:`skml.causal.CATEBounder`.
    """

    _torch_modules = {"net_": "_build_net"}

    def __init__(
        self,
        n_cells,
        *,
        balance_weight=1.0,
        guidance_weight=1.0,
        temperature=1.0,
        hidden_layer_sizes=(32, 32),
        learning_rate=0.03,
        max_iter=300,
        batch_size=None,
        n_iter_no_change=50,
        n_init=1,
        device="cpu",
        random_state=None,
        verbose=0,
    ):
        self.n_cells = n_cells
        self.balance_weight = balance_weight
        self.guidance_weight = guidance_weight
        self.temperature = temperature
        self.hidden_layer_sizes = hidden_layer_sizes
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.n_iter_no_change = n_iter_no_change
        self.n_init = n_init
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, training, validation):
        """Learn the cells; of several starts the one with the least honest width is kept.

        Parameters
        ----------
        training, validation : PartitionData
            The second chooses the step and the start.

        Returns
        -------
        self : object
            Itself.
        """
        rng = check_random_state(self.random_state)
        Z, weight = training.instrument, training.weight
        self.centre_ = np.average(Z, axis=0, weights=weight)
        spread = np.sqrt(np.average((Z - self.centre_) ** 2, axis=0, weights=weight))
        self.scale_ = np.where(spread > 0, spread, 1.0)
        starts = [self._fit_once(training, validation, rng) for _ in range(self.n_init)]
        self.honest_widths_ = [
            start[2] if self.n_init == 1 else self._honest_width(start[0], validation)
            for start in starts
        ]
        self.net_, self.record_, _ = starts[int(np.argmin(self.honest_widths_))]
        return self

    def predict(self, Z):
        """Cells (n,) of the rows of Z: the greatest logit, without noise."""
        return self._cells_of(self.net_, Z)

    def _fit_once(self, training, validation, rng):
        device = resolve_device(self.device)
        generator = make_generator(rng)
        with local_seed(rng):
            net = self._build_net().to(device)
        train, valid = self._tensors(training, device), self._tensors(validation, device)
        # The parameters are few and small: what a step costs is the number of calls.
        fused = device.type in ("cpu", "cuda")
        optimizer = torch.optim.Adam(net.parameters(), lr=self.learning_rate, fused=fused)
        batches = _endless_batches(len(training.y), self.batch_size, generator)
        state = {"value": np.inf}

        def step(iteration):
            optimizer.zero_grad()
            tables, z, x_weight, z_weight = train
            rows = next(batches)
            if len(rows) < len(x_weight):
                tables, x_weight = tables[:, rows], x_weight[rows]
            logits, guess = net(z)
            cells = straight_through_cells(logits, self.temperature, generator)
            loss = self._loss(tables, cells, guess, x_weight, z_weight)
            loss.backward()
            optimizer.step()
            return loss.item()

        @torch.no_grad()
        def validate(iteration):
            if iteration % _STEPS_PER_VALIDATION == 0 or iteration == self.max_iter - 1:
                tables, z, x_weight, z_weight = valid
                logits, guess = net(z)
                cells = nn.functional.one_hot(logits.argmax(dim=1), self.n_cells).to(z)
                state["value"] = self._loss(tables, cells, guess, x_weight, z_weight).item()
            return state["value"]

        record = fit_loop(
            step,
            max_iter=self.max_iter,
            validate=validate,
            modules=[net],
            n_iter_no_change=self.n_iter_no_change,
            verbose=self.verbose,
            desc="partition",
        )
        return net, record, record.best_value

    def _loss(self, tables, cells, guess, x_weight, z_weight):
        tightness = mean_width(tables, cells, x_weight, z_weight)
        share = cells.t() * (z_weight / z_weight.sum())
        balance = -torch.log(share.sum(dim=1) + _LEAST_MASS).mean()
        guidance = -(share * guess.t().contiguous().log_softmax(dim=0)).sum()
        return tightness + self.balance_weight * balance + self.guidance_weight * guidance

    def _honest_width(self, net, data):
        cell = self._cells_of(net, data.instrument)
        onehot = np.eye(self.n_cells)[cell] * data.weight[:, None]
        mass = onehot.sum(axis=0)
        with np.errstate(invalid="ignore"):
            cells = data.tables.astype(np.float64) @ (onehot / mass)
        rows = Rows(cell, data.treatment, data.y, data.weight)
        lower, upper, *_ = manski_terms(tuple(cells), rows)
        return float(np.average(upper - lower, weights=data.weight))

    def _cells_of(self, net, Z):
        scaled = (Z - self.centre_) / self.scale_
        device = next(net.parameters()).device
        with torch.no_grad():
            logits, _ = net(as_tensor(scaled, device=device))
        return logits.argmax(dim=1).cpu().numpy().astype(np.intp)

    def _tensors(self, data, device):
        scaled = (data.instrument - self.centre_) / self.scale_
        weight = as_tensor(data.weight, device=device)
        tables = torch.from_numpy(data.tables).to(device=device, dtype=torch.float32)
        return tables, as_tensor(scaled, device=device), weight, weight

    def _build_net(self):
        return PartitionNet(len(self.centre_), tuple(self.hidden_layer_sizes), self.n_cells)


def _endless_batches(n_samples, batch_size, generator):
    if batch_size is None or batch_size >= n_samples:
        rows = torch.arange(n_samples)
        while True:
            yield rows
    while True:
        yield from minibatches(n_samples, batch_size, generator)
