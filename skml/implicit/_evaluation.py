"""Values and derivatives of a trained network at any number of points."""

import copy

import torch

from ._networks import CoordinateMLP

# Points evaluated at a time.
_CHUNK = 2**14


def evaluate(module, coordinates):
    """Outputs of a network.

    Parameters
    ----------
    module : torch.nn.Module
        The network. A `CoordinateMLP` is evaluated in float64: in float32 a product of matrices
        rounds a row by how many others there are.
    coordinates : ndarray of shape (n_points, n_features)
        Coordinates in [-1, 1].

    Returns
    -------
    ndarray of shape (n_points, n_outputs), dtype float64
        The outputs.
    """
    module, weight = _evaluation_copy(module)
    with torch.inference_mode():
        outputs = [
            module(x.to(weight)).to(device="cpu", dtype=torch.float64)
            for x in torch.from_numpy(coordinates).split(_CHUNK)
        ]
        return torch.cat(outputs).numpy()


def derivative(module, coordinates):
    """Derivatives of the outputs by the coordinates.

    Parameters
    ----------
    module : torch.nn.Module
        The network.
    coordinates : ndarray of shape (n_points, n_features)
        Coordinates in [-1, 1].

    Returns
    -------
    ndarray of shape (n_points, n_outputs, n_features), dtype float64
        The true derivatives, also through what counts as constant in training.
    """
    module, weight = _evaluation_copy(module)
    parts = []
    with torch.enable_grad():
        for x in torch.from_numpy(coordinates).split(_CHUNK):
            x = x.to(weight).requires_grad_(True)
            if isinstance(module, CoordinateMLP):
                outputs = module.forward_encoded(module.encode(x), exact_derivative=True)
            else:
                outputs = module(x)
            columns = [
                torch.autograd.grad(column.sum(), x, retain_graph=True)[0]
                for column in outputs.unbind(dim=1)
            ]
            parts.append(torch.stack(columns, dim=1).to(device="cpu", dtype=torch.float64))
    return torch.cat(parts).numpy()


def _evaluation_copy(module):
    module = copy.deepcopy(module).eval()
    weight = next(module.parameters())
    if isinstance(module, CoordinateMLP):
        module = module.to("cpu" if weight.device.type == "mps" else weight.device).double()
        weight = next(module.parameters())
    return module, weight
