"""From the settings of an estimator to a trained network."""

import copy
import math
from contextlib import ExitStack
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import nn

from skml.utils._torch import local_seed, make_generator, resolve_device
from skml.utils._training import FitRecord, fit_loop

from ._empirical_ntk import evaluating, kernel_function
from ._gradient_steps import GradientStep, GroupedPoints, ResidualBalancer
from ._networks import CoordinateMLP
from ._reparameterized import BatchNormMLP, FourierReparameterizedMLP

FR_PARAMS = {"n_low": 128, "n_high": 128, "n_phases": 32, "alpha": 0.01}


@dataclass(frozen=True)
class TrainedNetwork:
    """What training leaves behind.

    Attributes
    ----------
    module : torch.nn.Module
        The network, with the best weights.
    record : FitRecord
        Curves and counters.
    balancer : ResidualBalancer or None
        Holds the last kernel's spectrum.
    source, settings
        What :func:`build_network` makes such a network from.
    """

    module: nn.Module
    record: FitRecord
    balancer: ResidualBalancer | None
    source: object
    settings: dict


def train_network(estimator, coordinates, targets):
    """Train a network as an `INRRegressor` with groups says.

    Parameters
    ----------
    estimator : INRRegressor
        Its parameters, `groups_` and `leftovers_` are read.
    coordinates : ndarray of shape (n_points, n_features)
        Coordinates in [-1, 1].
    targets : ndarray of shape (n_points, n_outputs)
        Scaled values.

    Returns
    -------
    TrainedNetwork
        The network and how it came about.
    """
    rng = check_random_state(estimator.random_state)
    device = resolve_device(estimator.device)
    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        stack.enter_context(local_seed(rng, device))
        step, settings = training_step(estimator, coordinates, targets, device, make_generator(rng))
        if estimator.module is None:
            # Only a module of the user's may draw while it is trained: other threads may go on.
            stack.pop_all().close()
            with torch.enable_grad():
                record = _run(estimator, step)
        else:
            record = _run(estimator, step)
    with local_seed(0, device):  # the initial weights are replaced
        module = _merged(step.module, step.points)
    module.eval()
    module.zero_grad(set_to_none=True)
    return TrainedNetwork(module, record, step.balancer, estimator.module, settings)


def training_step(estimator, coordinates, targets, device, generator):
    """Make the network and the step that trains it.

    Parameters
    ----------
    estimator, coordinates, targets
        As in :func:`train_network`.
    device : torch.device
        Where the network goes; its weights are drawn from torch's global generator.
    generator : torch.Generator
        Draws batches of groups.

    Returns
    -------
    step : GradientStep
        The step, which holds the network.
    settings : dict
        Arguments of the `CoordinateMLP`.
    """
    settings = _network_settings(estimator, *coordinates.shape, targets.shape[1])
    module = _trainable_network(estimator, settings).to(device)
    points = _grouped_points(estimator, module, coordinates, targets, device)
    optimizer = _optimizer(estimator, module)
    step = GradientStep(
        module.train(),
        module.forward_encoded if isinstance(module, CoordinateMLP) else module,
        points,
        balancer=_balancer(estimator, module, points),
        optimizer=optimizer,
        schedule=_schedule(estimator, optimizer),
        batch_groups=None if estimator.batch_groups is None else int(estimator.batch_groups),
        generator=generator,
    )
    return step, settings


def build_network(source, settings):
    """Make a network from the `module` of an estimator, or a built-in one from its settings."""
    if source is None:
        return CoordinateMLP(**settings)
    if isinstance(source, nn.Module):
        module = copy.deepcopy(source)
    else:
        module = source(settings["n_features"], settings["n_outputs"])
    if not isinstance(module, nn.Module) or not any(p.requires_grad for p in module.parameters()):
        raise ValueError(
            "module must be, or make, a torch.nn.Module with trainable parameters, got "
            f"{type(module).__name__}"
        )
    return module


def decibels(mean_squared_error):
    """Peak signal-to-noise ratio for values whose range is one."""
    with np.errstate(divide="ignore"):
        return -10 * np.log10(mean_squared_error)


def check_fr_params(fr_params):
    """Refuse what a Fourier basis cannot be made from.

    Parameters
    ----------
    fr_params : dict
        As in `INRRegressor`.
    """
    unknown = fr_params.keys() - FR_PARAMS.keys()
    if unknown:
        raise ValueError(f"fr_params may hold {sorted(FR_PARAMS)}, got {sorted(map(str, unknown))}")
    for name, value in (FR_PARAMS | fr_params).items():
        if name == "alpha":
            valid = isinstance(value, Real) and 1e-9 <= value <= 1e9
            expected = "a number from 1e-9 to 1e9"
        else:
            least = int(name == "n_phases")
            valid = isinstance(value, Integral) and value >= least
            expected = f"an integer of at least {least}"
        if not valid or isinstance(value, bool):
            raise ValueError(f"fr_params[{name!r}] must be {expected}, got {value!r}")
    if not any({**FR_PARAMS, **fr_params}[name] for name in ("n_low", "n_high")):
        raise ValueError("fr_params must have n_low + n_high > 0, got n_low=0 and n_high=0")


def _network_settings(estimator, n_points, n_features, n_outputs):
    n_frequencies = estimator.n_frequencies
    if n_frequencies == "auto":
        side = n_points ** (1 / n_features)
        # The root of an exact power must not fall below the whole number that it is.
        n_frequencies = max(1, math.floor(math.log2(side / 2) + 1e-9))
    return {
        "n_features": n_features,
        "n_outputs": n_outputs,
        "architecture": estimator.architecture,
        "hidden_width": estimator.hidden_width,
        "n_hidden_layers": estimator.n_hidden_layers,
        "n_frequencies": n_frequencies,
        "first_omega_0": float(estimator.first_omega_0),
        "hidden_omega_0": float(estimator.hidden_omega_0),
        "first_bias_range": estimator.first_bias_range,
    }


def _trainable_network(estimator, settings):
    if estimator.training == "fr":
        return FourierReparameterizedMLP(**settings, **FR_PARAMS | (estimator.fr_params or {}))
    if estimator.training == "bn":
        return BatchNormMLP(**settings)
    return build_network(estimator.module, settings)


def _grouped_points(estimator, module, coordinates, targets, device):
    groups, leftovers = estimator.groups_, estimator.leftovers_
    order = np.concatenate([groups.ravel(), leftovers])
    like = next(module.parameters())
    coordinates = torch.from_numpy(coordinates[order]).to(like)
    targets = torch.from_numpy(targets[order]).to(like)
    inputs = module.encode(coordinates) if isinstance(module, CoordinateMLP) else coordinates
    with torch.no_grad(), evaluating(module):
        try:
            shape = tuple(module(coordinates[:2]).shape)
        except (AttributeError, RuntimeError) as error:
            raise ValueError(
                f"module cannot take coordinates of shape {tuple(coordinates[:2].shape)} to a "
                f"tensor: {error}"
            ) from error
    if shape != tuple(targets[:2].shape):
        raise ValueError(
            f"module must map coordinates of shape {tuple(coordinates[:2].shape)} to values of "
            f"shape {tuple(targets[:2].shape)}; it returned shape {shape}"
        )
    return GroupedPoints(inputs, coordinates, targets, *groups.shape)


def _balancer(estimator, module, points):
    if estimator.training != "iga":
        return None
    reference = estimator.balance_reference
    if reference == "auto":
        reference = "end" if estimator.optimizer == "adam" else "start"
    return ResidualBalancer(
        kernel_function(module, points.coordinates[:2]),
        n_balanced=int(estimator.n_balanced),
        start=int(estimator.balance_start),
        reference=reference,
        sampling=estimator.sampling,
        update_interval=estimator.update_interval,
    )


def _optimizer(estimator, module):
    learning_rate = estimator.learning_rate
    if learning_rate == "auto":
        is_relu = estimator.module is None and estimator.architecture.startswith("relu")
        learning_rate = 5e-3 if is_relu else 1e-3
    parameters = [p for p in module.parameters() if p.requires_grad]
    if estimator.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=learning_rate)
    return torch.optim.Adam(parameters, lr=learning_rate, fused=True)


def _schedule(estimator, optimizer):
    decay, at = estimator.lr_decay, estimator.lr_decay_at
    if at is None:
        factor = lambda step: 1.0  # noqa: E731
    elif at == "exponential":
        factor = lambda step: decay ** (step / estimator.max_iter)  # noqa: E731
    else:
        factor = lambda step: decay if step >= at else 1.0  # noqa: E731
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def _run(estimator, step):
    every, last = step.steps_per_epoch, estimator.max_iter - 1
    known = [math.inf]

    def validate(iteration):
        # The loss of a batch says too little: the whole one is computed once an epoch.
        if iteration == 0 or iteration == last or (iteration + 1) % every == 0:
            known[0] = float(step.full_loss())
        return known[0]

    def describe(loss, best):
        return {"psnr": f"{decibels(loss):.2f} dB", "best": f"{decibels(best):.2f} dB"}

    return fit_loop(
        step,
        max_iter=estimator.max_iter,
        validate=validate if every > 1 else None,
        modules=(step.module,),
        tol=estimator.tol,
        n_iter_no_change=estimator.n_iter_no_change,
        verbose=estimator.verbose,
        desc=type(estimator).__name__,
        describe=describe,
    )


def _merged(module, points):
    if isinstance(module, FourierReparameterizedMLP):
        return module.merged()
    if isinstance(module, BatchNormMLP):
        return module.merged(points.inputs)
    return module
