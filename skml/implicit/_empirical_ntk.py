"""The empirical neural tangent kernel, without per-sample Jacobians where layers allow it."""

import math
from contextlib import contextmanager
from numbers import Integral

import torch
from torch import nn

from ._balancing import as_real_tensor
from ._networks import CoordinateMLP

# Numbers in the gradients that the Jacobian route holds at a time (256 MiB in float32).
_JACOBIAN_NUMBERS = 2**26


def empirical_ntk(module, X, *, chunk_size=None):
    """Compute the empirical neural tangent kernel of a network.

    Parameters
    ----------
    module : torch.nn.Module
        Maps (n, n_features) to (n, n_outputs), each row for itself.
    X : array-like or torch.Tensor of shape (n, n_features)
        Inputs, as the module takes them.
    chunk_size : int or None, default=None
        Number of points whose gradients are held at a time, where the layer-wise form does not
        apply. None: as many as fit into 256 MiB.

    Returns
    -------
    ndarray or torch.Tensor of shape (n, n)
        The kernel, of the kind of X and in the type of the weights.

    Raises
    ------
    ValueError
        If X is not 2-D or not finite, or no parameter of the module is trainable.
    TypeError
        If `module` is no module, or X is sparse or does not hold real numbers.

    See Also
    --------
    balancing_matrix : Turns the kernel into the matrix that balances training.

    Notes
    -----
    The kernel is that of the sum of the outputs,

    .. math:: K_{ij} = \\langle \\nabla_\\theta g(x_i), \\nabla_\\theta g(x_j) \\rangle, \\qquad
       g(x) = \\frac{1}{\\sqrt C} \\sum_{c=1}^{C} f_c(x)

    over all trainable parameters. Where all of these are weights and biases of linear layers that
    are used once, with inputs A_l and back-propagated deltas D_l of all points,

    .. math:: K = \\sum_l (A_l A_l^T + 1) \\odot (D_l D_l^T)

    which takes one forward and one backward pass and n × width numbers. For other modules the
    gradients of single points come from `torch.func`, in chunks. The layer-wise form is compared
    with the true gradient of one point before it is relied on.

    References
    ----------
    .. [1] A. Jacot, F. Gabriel, C. Hongler. "Neural tangent kernel: convergence and
       generalization in neural networks." NeurIPS 2018.
    .. [2] M. Mohamadi, W. Bae, D. Sutherland. "A fast, well-founded approximation to the
       empirical neural tangent kernel." ICML 2023.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skml.implicit import empirical_ntk
    >>> linear = torch.nn.Linear(1, 1)
    >>> empirical_ntk(linear, np.array([[0.0], [1.0], [2.0]]))
    array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 3., 5.]], dtype=float32)
    """
    if chunk_size is not None and (
        not isinstance(chunk_size, Integral) or isinstance(chunk_size, bool) or chunk_size < 1
    ):
        raise ValueError(f"chunk_size must be None or an integer of at least 1, got {chunk_size!r}")
    if not isinstance(module, nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, got {type(module).__name__}")
    is_tensor = isinstance(X, torch.Tensor)
    trainable = [p for p in module.parameters() if p.requires_grad]
    if not trainable:
        raise ValueError(f"{type(module).__name__} has no trainable parameters, so no kernel")
    inputs = as_real_tensor(X, "X").detach().to(trainable[0])
    if inputs.ndim != 2 or len(inputs) == 0:
        raise ValueError(
            f"X must have the shape (n, n_features) with n > 0, got {tuple(inputs.shape)}"
        )
    if not torch.isfinite(inputs).all():
        raise ValueError("X must be finite in the type of the weights; it holds NaN or infinity")
    kernel = kernel_function(module, inputs, chunk_size=chunk_size)(inputs)
    return kernel if is_tensor else kernel.cpu().numpy()


def kernel_function(module, X, *, chunk_size=None):
    """The quickest of the ways to compute the kernel that is right for a module.

    Parameters
    ----------
    module : torch.nn.Module
        The network.
    X : torch.Tensor of shape (n, n_features)
        Points, on the first of which the layer-wise form is tried.
    chunk_size : int or None
        As in :func:`empirical_ntk`.

    Returns
    -------
    callable
        ``kernel(X)``, which reads the weights that the module has when it is called.
    """
    if type(module) is CoordinateMLP:
        return lambda X: layerwise_kernel(*_recorded_layers(module, X))

    def jacobian_kernel(X):
        with evaluating(module):
            return _kernel_in_chunks(module, X, chunk_size)

    def hooked_kernel(X):
        with evaluating(module):
            return layerwise_kernel(*_hooked_layers(module, X))

    if _all_in_linear_layers(module):
        with evaluating(module):
            # Beside a second point, so that a module which mixes rows is seen to do so.
            layers = _hooked_layers(module, X[:2])
            if layers is not None and _agrees_with_gradient(module, X[:1], layers):
                return hooked_kernel
    return jacobian_kernel


def layerwise_kernel(layers, outputs):
    """Sum over layers of (A A^T + 1) * (D D^T).

    Parameters
    ----------
    layers : list of tuple
        For each linear layer its input A, its linear map z, a factor of z, and the layer.
    outputs : torch.Tensor of shape (n, n_outputs)
        The outputs of the network, with their graph.

    Returns
    -------
    torch.Tensor of shape (n, n)
        The kernel.
    """
    n, n_outputs = outputs.shape
    scalar = outputs.sum() / math.sqrt(n_outputs)
    deltas = torch.autograd.grad(scalar, [z for _, z, _, _ in layers], allow_unused=True)
    kernel = torch.zeros(n, n, dtype=outputs.dtype, device=outputs.device)
    for (inputs, _, factor, layer), delta in zip(layers, deltas, strict=True):
        if delta is None:
            continue
        inputs = inputs.detach()
        has_bias = layer.bias is not None and layer.bias.requires_grad
        products = torch.full_like(kernel, float(has_bias))
        if layer.weight.requires_grad:
            products.addmm_(inputs, inputs.T)
        kernel.addcmul_(products, (factor * delta) @ (factor * delta).T)
    return kernel


def _recorded_layers(module, X):
    with torch.enable_grad():
        records = []
        outputs = module.forward_encoded(module.encode(X), records)
    layers = [
        (inputs, z, omega, layer)
        for (inputs, z, omega), layer in zip(records, module.layers, strict=True)
        if z.requires_grad
    ]
    return layers, outputs


def _all_in_linear_layers(module):
    """Whether each trainable parameter is weight or bias of exactly one linear layer."""
    owned = [
        id(parameter)
        for layer in module.modules()
        if type(layer) is nn.Linear
        for parameter in layer.parameters(recurse=False)
        if parameter.requires_grad
    ]
    every = {id(parameter) for parameter in module.parameters() if parameter.requires_grad}
    return len(owned) == len(set(owned)) and set(owned) == every


def _hooked_layers(module, X):
    """Inputs and linear maps of the trainable linear layers; None if one is not used once."""
    layers, handles = [], []

    def record(layer, args, output):
        # A zero of its own is what the outputs are differentiated by: whatever an activation
        # does in place afterwards does not touch it.
        zero = torch.zeros_like(output, requires_grad=True)
        layers.append((args[0], zero, 1.0, layer))
        return output + zero

    expected = [
        layer
        for layer in module.modules()
        if type(layer) is nn.Linear and any(p.requires_grad for p in layer.parameters())
    ]
    try:
        handles = [layer.register_forward_hook(record) for layer in expected]
        with torch.enable_grad():
            outputs = module(X)
    finally:
        for handle in handles:
            handle.remove()
    used = [id(layer) for *_, layer in layers]
    is_plain = all(inputs.ndim == 2 for inputs, *_ in layers) and outputs.ndim == 2
    if not is_plain or sorted(used) != sorted(id(layer) for layer in expected):
        return None
    return layers, outputs


def _agrees_with_gradient(module, X, layers):
    """Whether the layer-wise kernel of the first point is the square of its true gradient."""
    kernel = layerwise_kernel(*layers)[0, 0].item()
    parameters = [p for p in module.parameters() if p.requires_grad]
    with torch.enable_grad():
        outputs = module(X)
        scalar = outputs.sum() / math.sqrt(outputs.shape[1])
        gradients = torch.autograd.grad(scalar, parameters, allow_unused=True)
    expected = sum(float(g.double().square().sum()) for g in gradients if g is not None)
    return abs(kernel - expected) <= 1e-3 * abs(expected)


def _kernel_in_chunks(module, X, chunk_size):
    """Products of the gradients of single points, blocks of points at a time."""
    n_numbers = sum(p.numel() for p in module.parameters() if p.requires_grad)
    size = chunk_size or max(1, _JACOBIAN_NUMBERS // (2 * n_numbers))
    chunks = X.split(size)
    kernel = X.new_empty(len(X), len(X))
    for i, rows in enumerate(chunks):
        left = _gradients(module, rows)
        for j, columns in enumerate(chunks[: i + 1]):
            right = left if i == j else _gradients(module, columns)
            block = left @ right.T
            at_row, at_column = slice(i * size, (i + 1) * size), slice(j * size, (j + 1) * size)
            kernel[at_row, at_column] = block
            kernel[at_column, at_row] = block.T
    return kernel


def _gradients(module, X):
    """Gradients of g at each point, (n, number of trainable parameters)."""
    named = dict(module.named_parameters())
    trainable = {name: p.detach() for name, p in named.items() if p.requires_grad}
    frozen = {name: p.detach() for name, p in named.items() if not p.requires_grad}
    frozen |= {name: buffer.detach() for name, buffer in module.named_buffers()}

    def scalar(parameters, x):
        outputs = torch.func.functional_call(module, (parameters, frozen), (x.unsqueeze(0),))
        return outputs.sum() / math.sqrt(outputs.shape[-1])

    per_point = torch.func.vmap(torch.func.grad(scalar), in_dims=(None, 0))(trainable, X)
    return torch.cat([gradient.flatten(1) for gradient in per_point.values()], dim=1)


@contextmanager
def evaluating(module):
    """Evaluation mode: points are looked at one by one, without statistics of a batch."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training
