"""How the weights of an equivariant network are found."""

import numpy as np
import torch
from scipy import linalg

from skml.utils._training import FitRecord, fit_loop, minibatches

_DESIGN_ENTRIES = 2**23


def l2_penalty(module):
    """Sum of the squared weights; biases are free."""
    return sum(
        path.weight.square().sum() for layer in module.layers for path in layer.paths.values()
    )


def train_minibatches(
    module, x, target, weight, loss, *, alpha, learning_rate, max_epochs, batch_size, tol,
    n_iter_no_change, generator, verbose,
):  # fmt: skip
    """Minimise the mean loss plus alpha / (2 n) times the squared weights by Adam.

    Parameters
    ----------
    module : EquivariantNetwork
        The network, changed in place.
    x, target, weight : torch.Tensor
        Inputs, targets and weights of the rows.
    loss : callable
        ``loss(outputs, target)`` gives a loss for each row.
    alpha, learning_rate, max_epochs, batch_size, tol, n_iter_no_change, verbose
        As in the estimators, the batch size as a number.
    generator : torch.Generator
        Draws the batches.

    Returns
    -------
    FitRecord
        The loss of each epoch, averaged over its batches.
    """
    optimizer = torch.optim.Adam(module.parameters(), lr=learning_rate)
    total_weight = weight.sum()

    def epoch(_):
        total = torch.zeros((), dtype=x.dtype, device=x.device)
        for rows in minibatches(len(x), batch_size, generator):
            rows = rows.to(x.device)
            batch_weight = weight[rows]
            mass = batch_weight.sum()
            if mass == 0:
                continue
            optimizer.zero_grad()
            losses = loss(module(x[rows]), target[rows])
            value = (losses * batch_weight).sum() / mass
            (value + alpha / 2 * l2_penalty(module) / total_weight).backward()
            optimizer.step()
            total += value.detach() * mass
        return total / total_weight

    return fit_loop(
        epoch,
        max_iter=max_epochs,
        modules=[module],
        tol=tol,
        n_iter_no_change=n_iter_no_change,
        verbose=verbose,
        desc="fit",
    )


def train_convex(module, x, target, weight, loss, *, alpha, max_epochs, tol):
    """Minimise the same by L-BFGS over all rows, for a network without hidden layers.

    Returns
    -------
    FitRecord
        The loss of each step of the line searches.
    """
    record = FitRecord()
    total_weight = weight.sum()
    optimizer = torch.optim.LBFGS(
        module.parameters(),
        max_iter=max_epochs,
        tolerance_grad=1e-3 * tol,
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )

    def closure():
        optimizer.zero_grad()
        value = (loss(module(x), target) * weight).sum() / total_weight
        penalised = value + alpha / 2 * l2_penalty(module) / total_weight
        penalised.backward()
        if not record.loss_curve:
            _check_no_overflow([value, *(p.grad for p in module.parameters())], x)
        record.loss_curve.append(float(value.detach()))
        return penalised

    optimizer.step(closure)
    _check_no_overflow(module.parameters(), x)
    record.n_iter = max(int(optimizer.state[next(module.parameters())]["n_iter"]), 1)
    return record


@torch.no_grad()
def solve_linear(module, x, target, weight, *, alpha):
    """Solve a network without hidden layers for squared loss, in closed form.

    It minimises the weighted sum of squared errors plus alpha times the squared weights; where
    that leaves several solutions, the least of them is taken.

    Parameters
    ----------
    module : EquivariantNetwork
        The network, changed in place.
    x, weight : torch.Tensor
        Inputs and weights of the rows.
    target : torch.Tensor of shape (n_samples, channels) + (n,) * order_out
        Targets.
    alpha : float
        Penalty.

    Returns
    -------
    FitRecord
        One iteration with the mean squared error, halved.
    """
    layer = module.layers[0]
    paths = [layer.paths[name] for name in layer.paths]
    inputs = [int(name.partition("_")[0]) for name in layer.paths]
    bias = _bias_columns(layer, x)
    channels = target.shape[1]
    n_weights = sum(path.weight[:, 0].numel() for path in paths)
    n_columns = n_weights + bias.shape[1]
    rows_at_once = max(1, _DESIGN_ENTRIES // max(1, n_columns * bias.shape[0]))
    gram = torch.zeros(n_columns, n_columns, dtype=torch.float64)
    moment = torch.zeros(n_columns, channels, dtype=torch.float64)
    square = 0.0
    # A power of two, which does not round: in this unit the squares of y do not overflow.
    unit = float(2.0 ** (np.frexp(float(target.abs().max()))[1] - 1))
    for start in range(0, len(x), rows_at_once):
        rows = slice(start, start + rows_at_once)
        design = _design(module, paths, inputs, bias, x[rows])
        wanted = (target[rows] / unit).reshape(len(design), channels, -1).transpose(1, 2)
        scaled = (design * weight[rows, None, None]).reshape(-1, n_columns).double().cpu()
        gram += design.reshape(-1, n_columns).double().cpu().T @ scaled
        moment += scaled.T @ wanted.reshape(-1, channels).double().cpu()
        square += float((wanted.double().square() * weight[rows, None, None].double()).sum())
    _check_no_overflow([gram, moment], x)
    penalty = np.full(n_columns, float(alpha))
    penalty[n_weights:] = 0.0
    solution = _solve(gram.numpy(), moment.numpy(), penalty)
    _write(layer, paths, solution * unit, x)
    residual = square - 2 * np.sum(moment.numpy() * solution)
    residual += np.sum(solution * (gram.numpy() @ solution))
    size = float(weight.sum()) * target[0].numel()
    loss = float(max(residual, 0.0) / (2 * size)) * unit * unit
    return FitRecord(loss_curve=[loss], n_iter=1)


def _check_no_overflow(tensors, x):
    if not all(tensor.isfinite().all() for tensor in tensors):
        raise ValueError(
            "the squares of X or of its tensor powers overflow, so that there is no linear fit; "
            f"the largest entry of X is {float(x.abs().max()):.3g}. Scale X down."
        )


def _bias_columns(layer, x):
    """Invariant tensors as columns (n**l, D0)."""
    size = layer.n ** layer.out_spec[0][0]
    if "0" not in layer.biases:
        return x.new_zeros(size, 0)
    n_terms = len(layer.biases["0"])
    unit = torch.eye(n_terms, dtype=x.dtype, device=x.device)[:, :, None]
    return layer._bias_products["0"](x.new_ones(1, 1, 1), unit)[0].T


def _design(module, paths, inputs, bias, x):
    """What each coefficient contributes: (n_samples, n**l, n_coefficients)."""
    lifted = [tensor.reshape(*tensor.shape[:2], -1) for tensor in module.lift(x)]
    columns = []
    for i, path in zip(inputs, paths, strict=True):
        n_terms, _, c_in = path.weight.shape
        unit = torch.eye(n_terms * c_in, dtype=x.dtype, device=x.device)
        unit = unit.reshape(n_terms * c_in, n_terms, c_in).transpose(0, 1)
        scales = path.scales.to(unit)[:, None, None]
        columns.append(path.product(lifted[i], unit * scales).transpose(1, 2))
    columns.append(bias.expand(len(x), -1, -1))
    return torch.cat(columns, dim=2)


def _solve(gram, moment, penalty):
    system = gram + np.diag(penalty)
    # Columns of equal size, so that the cut-off means the same for each.
    size = np.sqrt(np.diagonal(system))
    size[size == 0] = 1.0
    values, vectors = linalg.eigh(system / np.outer(size, size))
    cut = values.max(initial=0.0) * len(values) * np.finfo(np.float64).eps
    inverse = np.where(values > cut, 1 / np.where(values > cut, values, 1.0), 0.0)
    return (vectors * inverse) @ (vectors.T @ (moment / size[:, None])) / size[:, None]


def _write(layer, paths, solution, x):
    """Copy the coefficients (n_coefficients, channels_out) into the parameters."""
    solution = torch.from_numpy(solution).to(x)
    start = 0
    for path in paths:
        n_terms, c_out, c_in = path.weight.shape
        part = solution[start : start + n_terms * c_in].reshape(n_terms, c_in, c_out)
        path.weight.copy_(part.transpose(1, 2))
        start += n_terms * c_in
    if "0" in layer.biases:
        layer.biases["0"].copy_(solution[start:])
