"""Default networks: classifiers and generators for images and for vectors."""

import copy
import math

import torch
from torch import nn

from skml.utils._torch_classifiers import evaluation_mode

# Convolutions of few channels are a fifth faster on a CPU with the channels last in memory.
_FORMAT = torch.channels_last
_STUDENT_WIDTH = 12


def default_classifier(input_shape, n_classes, width=16):
    """Build a small classifier with batch normalisation.

    Parameters
    ----------
    input_shape : tuple of int
        (n_features,) or (n_channels, height, width).
    n_classes : int
        Number of logits.
    width : int
        Channels of the first of three convolutions; each next has twice as many. Hidden units
        of vectors are four times as many.

    Returns
    -------
    torch.nn.Sequential
        It ends in a linear layer.
    """
    if len(input_shape) == 1:
        hidden = 4 * width
        # The first layer keeps mean and variance of the features, which is what batch
        # normalisation tells about the data without having seen a weight.
        return nn.Sequential(
            nn.BatchNorm1d(input_shape[0], affine=False),
            *_dense(input_shape[0], hidden, nn.ReLU()),
            *_dense(hidden, hidden, nn.ReLU()),
            nn.Linear(hidden, n_classes),
        )
    channels, *size = input_shape
    size = [math.ceil(math.ceil(side / 2) / 2) for side in size]
    layers = [
        *_convolution(channels, width, nn.ReLU()),
        *_convolution(width, 2 * width, nn.ReLU(), stride=2),
        *_convolution(2 * width, 4 * width, nn.ReLU(), stride=2),
    ]
    if max(size) > 4:
        size = [min(side, 4) for side in size]
        layers.append(nn.AdaptiveAvgPool2d(size))
    layers += [nn.Flatten(), nn.Linear(4 * width * math.prod(size), n_classes)]
    return nn.Sequential(*layers).to(memory_format=_FORMAT)


def default_generator(latent_dim, input_shape, width=32):
    """Build a generator whose output lies in [0, 1].

    Parameters
    ----------
    latent_dim : int
        Length of the latent vector.
    input_shape : tuple of int
        Shape of a sample: (n_features,) or (n_channels, height, width).
    width : int
        Channels of the last hidden layer of an image generator. Hidden units of vectors are
        four times as many.

    Returns
    -------
    torch.nn.Sequential
        Maps (n, latent_dim) to (n, *input_shape).
    """
    if len(input_shape) == 1:
        hidden = 4 * width
        return nn.Sequential(
            *_dense(latent_dim, hidden, nn.LeakyReLU(0.2)),
            *_dense(hidden, hidden, nn.LeakyReLU(0.2)),
            nn.Linear(hidden, input_shape[0]),
            nn.Sigmoid(),
        )
    channels, height, breadth = input_shape
    small = (math.ceil(height / 4), math.ceil(breadth / 4))
    middle = (math.ceil(height / 2), math.ceil(breadth / 2))
    return nn.Sequential(
        nn.Linear(latent_dim, 2 * width * math.prod(small)),
        nn.Unflatten(1, (2 * width, *small)),
        nn.BatchNorm2d(2 * width),
        nn.Upsample(size=middle),
        *_convolution(2 * width, 2 * width, nn.LeakyReLU(0.2)),
        nn.Upsample(size=(height, breadth)),
        *_convolution(2 * width, width, nn.LeakyReLU(0.2)),
        nn.Conv2d(width, channels, 3, padding=1),
        nn.Sigmoid(),
    ).to(memory_format=_FORMAT)


def build_network(network, make_default, *arguments):
    """A network from what a parameter holds: None, a module to copy, or a callable to ask."""
    if network is None:
        return make_default(*arguments)
    if isinstance(network, nn.Module):
        return copy.deepcopy(network)
    built = network(*arguments)
    if not isinstance(built, nn.Module):
        raise TypeError(
            f"{getattr(network, '__name__', network)!s} must return a torch.nn.Module, got "
            f"{type(built).__name__}."
        )
    return built


def build_student(student, input_shape, n_classes):
    """The student from the parameter of that name; see :func:`build_network`.

    Raises
    ------
    ValueError
        If it does not give one logit for each class of a sample.
    """

    def default(input_shape, n_classes):
        return default_classifier(input_shape, n_classes, _STUDENT_WIDTH)

    network = build_network(student, default, input_shape, n_classes)
    seen = probe(network, input_shape, "student")
    if seen != (2, n_classes):
        raise ValueError(
            f"student must give {n_classes} logits for each sample, as the teacher does, got "
            f"the output shape {seen} for 2 samples."
        )
    return network


def build_generator(generator, latent_dim, input_shape):
    """The generator from the parameter of that name; see :func:`build_network`.

    Raises
    ------
    ValueError
        If it does not give one value for each feature of a sample.
    """
    network = build_network(generator, default_generator, latent_dim, input_shape)
    seen = probe(network, (latent_dim,), "generator")
    n_features = math.prod(input_shape)
    if math.prod(seen) != 2 * n_features:
        raise ValueError(
            f"generator must give {n_features} values for each latent vector, the "
            f"shape of a sample being {input_shape}, got the output shape {seen} for 2."
        )
    return network


def probe(network, shape, name):
    """Output shape of a network for two samples of a shape, or a ValueError that names it."""
    # On a copy: a pass may set state, and the network may be somebody else's.
    network = copy.deepcopy(network)
    dtype = weight_dtype(network)
    if dtype != torch.float32:
        raise ValueError(
            f"{name} must have weights of torch.float32, the type of the samples, got {dtype}. "
            "Convert it by its method float()."
        )
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    try:
        with evaluation_mode(network), torch.no_grad():
            return tuple(network(torch.zeros(2, *shape, device=device)).shape)
    except (RuntimeError, ValueError, IndexError) as error:
        raise ValueError(f"{name} does not take samples of the shape {shape}: {error}") from error


def weight_dtype(network):
    """Type of the first floating-point weight, torch.float32 if there is none."""
    dtypes = (p.dtype for p in network.parameters() if p.is_floating_point())
    return next(dtypes, torch.float32)


def reset_parameters(module):
    """Draw the weights of a network anew, in place."""
    for part in module.modules():
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()


def _dense(n_inputs, n_outputs, activation):
    return nn.Linear(n_inputs, n_outputs), nn.BatchNorm1d(n_outputs), activation


def _convolution(n_inputs, n_outputs, activation, stride=1):
    convolution = nn.Conv2d(n_inputs, n_outputs, 3, stride=stride, padding=1, bias=False)
    return convolution, nn.BatchNorm2d(n_outputs), activation
