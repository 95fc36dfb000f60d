"""The equivariant linear layer between sums of tensor powers."""

from math import sqrt

import numpy as np
import torch
from torch import nn

from ._basis import basis_labels, check_dimension
from ._dense_maps import KernelTable
from ._factorization import DiagramProduct, split_diagram
from ._groups import get_group, no_map_message
from ._partitions import as_blocks, check_order
from ._product_cost import prefers_dense

_METHODS = ("auto", "dense", "factorized")
_MOST_CHOICES = 256


class EquivariantLinear(nn.Module):
    r"""Linear layer that commutes with a group or quantum group.

    It maps several tensors with channels to several tensors with channels, and mixes orders.

    Parameters
    ----------
    group : str
        Name of the group, as in :func:`equivariant_basis`.
    n : int
        Dimension of the base space.
    in_spec, out_spec : list of tuple of (int, int)
        Order and number of channels of each tensor that goes in and comes out.
    bias : bool, default=True
        Whether to add an invariant tensor to each output channel. There may be none: a vector has
        no bias under "O".
    method : {"auto", "dense", "factorized"}, default="auto"
        "dense" forms the matrix, "factorized" works on the diagrams, and "auto" takes what it
        expects to be faster for the size of the batch.
    colors_in, colors_out : list of str or None, default=None
        For "U" and "U+": the colours of the indices of each tensor, as in
        :func:`equivariant_basis`.

    Attributes
    ----------
    n_parameters : int
        Number of trainable numbers.

    Raises
    ------
    ValueError
        If an argument has no meaning, or an output can get nothing from any input.

    See Also
    --------
    equivariant_basis : The maps that the layer combines.
    QuantumGroupEquivariantRegressor : Networks of such layers.

    Notes
    -----
    With a basis :math:`C(k, l)` of partitions and the number s of blocks that have only upper
    points,

    .. math::

        y_{o} = \sum_c \sum_{\pi \in C(k, l)} W_{\pi o c} n^{-s(\pi)/2} T_\pi x_c
              + \sum_{\sigma \in C(0, l)} \beta_{\sigma o} T_\sigma,

    summed over the inputs. The factors keep the sums over many entries from outweighing the rest.
    The weights are drawn from :math:`N(0, 1/\sum D c_{in})` over the inputs, the bias is zero.
    Because the bias lies in :math:`\mathrm{Hom}(1, u^{\otimes l})`, it is equivariant too.

    References
    ----------
    .. [1] E. Pearce-Crump. "Compact matrix quantum group equivariant neural networks." ICML 2025.
       https://arxiv.org/abs/2311.06358
    .. [2] H. Maron, H. Ben-Hamu, N. Shamir, Y. Lipman. "Invariant and equivariant graph networks."
       ICLR 2019. https://arxiv.org/abs/1812.09902

    Examples
    --------
    From a matrix and a vector, two channels each, to a number and a matrix:

    >>> import torch
    >>> from skml.equivariant import EquivariantLinear
    >>> layer = EquivariantLinear("S+", 4, [(2, 2), (1, 2)], [(0, 1), (2, 3)])
    >>> scalars, matrices = layer([torch.ones(5, 2, 4, 4), torch.ones(5, 2, 4)])
    >>> tuple(scalars.shape), tuple(matrices.shape), layer.n_parameters
    ((5, 1), (5, 3, 4, 4), 127)
    """

    def __init__(
        self,
        group,
        n,
        in_spec,
        out_spec,
        *,
        bias=True,
        method="auto",
        colors_in=None,
        colors_out=None,
    ):
        super().__init__()
        if method not in _METHODS:
            raise ValueError(f"method must be one of {_METHODS}, got {method!r}.")
        self.group, self.n = get_group(group).name, check_dimension(n)
        self.in_spec, self.out_spec = (
            _check_spec(in_spec, "in_spec"),
            _check_spec(out_spec, "out_spec"),
        )
        self.method = method
        self.colors_in = _check_colors(colors_in, self.in_spec, "colors_in")
        self.colors_out = _check_colors(colors_out, self.out_spec, "colors_out")
        self.paths = nn.ModuleDict()
        for i, (k, c_in) in enumerate(self.in_spec):
            for j, (l, c_out) in enumerate(self.out_spec):
                labels = self._labels(k, l, self.colors_in[i], self.colors_out[j])
                if len(labels):
                    self.paths[f"{i}_{j}"] = _Path(labels, self.n, k, c_in, c_out)
        self.biases = nn.ParameterDict()
        for j, (l, c_out) in enumerate(self.out_spec):
            labels = self._labels(0, l, None, self.colors_out[j])
            if bias and len(labels):
                self.biases[str(j)] = nn.Parameter(torch.zeros(len(labels), c_out))
            if not len(labels) * bias and not self._paths_to(j):
                k = self.in_spec[0][0]
                raise ValueError(
                    no_map_message(self.group, k, l) + f": nothing in in_spec={self.in_spec} "
                    f"leads to entry {j} of out_spec={self.out_spec}."
                )
        self._bias_products = {
            j: DiagramProduct(
                self._labels(0, self.out_spec[int(j)][0], None, self.colors_out[int(j)]), self.n, 0
            )
            for j in self.biases
        }
        self.reset_parameters()

    def reset_parameters(self):
        """Draw the weights from torch's global generator, and set the biases to zero."""
        for j in range(len(self.out_spec)):
            paths = self._paths_to(j)
            fan_in = sum(path.weight.shape[0] * path.weight.shape[2] for _, path in paths)
            for _, path in paths:
                nn.init.normal_(path.weight, std=1 / sqrt(fan_in))
        for bias in self.biases.values():
            nn.init.zeros_(bias)

    @property
    def n_parameters(self):
        """Number of trainable numbers."""
        return sum(parameter.numel() for parameter in self.parameters())

    def partitions(self, i=0, j=0):
        """Get the diagrams between an input and an output.

        Parameters
        ----------
        i, j : int, default=0
            Numbers of the entries of `in_spec` and `out_spec`.

        Returns
        -------
        list of tuple
            Partitions in the order of the weights, as from :func:`equivariant_basis`.
        """
        if f"{i}_{j}" not in self.paths:
            return []
        return [as_blocks(row) for row in self.paths[f"{i}_{j}"].labels.tolist()]

    def dense_weight(self, i=0, j=0):
        """Form the matrix between an input and an output.

        Parameters
        ----------
        i, j : int, default=0
            Numbers of the entries of `in_spec` and `out_spec`.

        Returns
        -------
        torch.Tensor of shape (c_out, n**l, c_in, n**k)
            The matrix, zero where there is no map.
        """
        if f"{i}_{j}" in self.paths:
            return self.paths[f"{i}_{j}"].matrix()
        (k, c_in), (l, c_out) = self.in_spec[i], self.out_spec[j]
        return torch.zeros(c_out, self.n**l, c_in, self.n**k)

    def forward(self, inputs):
        """Apply the layer.

        Parameters
        ----------
        inputs : torch.Tensor or list of torch.Tensor
            For each entry (k, c) of `in_spec` a tensor of shape (n_samples, c) + (n,) * k. A
            tensor alone stands for a list of one.

        Returns
        -------
        torch.Tensor or list of torch.Tensor
            For each entry (l, c) of `out_spec` a tensor of shape (n_samples, c) + (n,) * l; the
            tensor alone if there is one entry.
        """
        flat = self._flat_inputs(inputs)
        outputs = []
        for j, (l, c_out) in enumerate(self.out_spec):
            total = None
            for i, path in self._paths_to(j):
                part = path(flat[i], self.method)
                total = part if total is None else total + part
            if str(j) in self.biases:
                one = flat[0].new_ones(1, 1, 1)
                bias = self._bias_products[str(j)](one, self.biases[str(j)].unsqueeze(-1))
                total = bias.expand(len(flat[0]), -1, -1) if total is None else total + bias
            outputs.append(total.reshape(len(flat[0]), c_out, *[self.n] * l))
        return outputs[0] if len(outputs) == 1 else outputs

    def extra_repr(self):
        """Describe the layer in a line.

        Returns
        -------
        str
            The arguments.
        """
        return (
            f"{self.group!r}, n={self.n}, in_spec={self.in_spec}, out_spec={self.out_spec}, "
            f"bias={bool(self.biases)}, method={self.method!r}"
        )

    def _linear_layers(self):
        return [self]

    def _equivariant_map(self):
        if len(self.in_spec) != 1 or len(self.out_spec) != 1:
            raise ValueError(
                "equivariance_error takes a layer with one input and one output, got "
                f"in_spec={self.in_spec} and out_spec={self.out_spec}."
            )
        (k, channels), (l, _) = self.in_spec[0], self.out_spec[0]
        return as_array_function(self, (channels, *[self.n] * k)), self.n, k, l

    def _labels(self, order_in, order_out, colors_in, colors_out):
        return basis_labels(
            self.group, self.n, order_in, order_out, colors_in=colors_in, colors_out=colors_out
        )

    def _paths_to(self, j):
        pairs = ((i, f"{i}_{j}") for i in range(len(self.in_spec)))
        return [(i, self.paths[name]) for i, name in pairs if name in self.paths]

    def _flat_inputs(self, inputs):
        inputs = inputs if isinstance(inputs, list | tuple) else [inputs]
        if not all(isinstance(tensor, torch.Tensor) for tensor in inputs):
            types = [type(tensor).__name__ for tensor in inputs]
            raise TypeError(f"inputs must be a torch.Tensor or a list of them, got {types}.")
        expected = [(c, *[self.n] * k) for k, c in self.in_spec]
        shapes = [tuple(tensor.shape) for tensor in inputs]
        if [shape[1:] for shape in shapes] != expected or len({s[0] for s in shapes}) != 1:
            wanted = ", ".join(str(("n_samples", *shape)) for shape in expected)
            raise ValueError(
                f"inputs must hold {len(expected)} tensors of shape {wanted}, got {shapes}."
            )
        return [tensor.flatten(2) if tensor.ndim > 2 else tensor.unsqueeze(2) for tensor in inputs]


class _Path(nn.Module):
    """The weights of one space of maps, with what multiplying by them needs."""

    def __init__(self, labels, n, order_in, channels_in, channels_out):
        super().__init__()
        self.labels, self.n, self.order_in = labels, n, order_in
        self.order_out = labels.shape[1] - order_in
        self.weight = nn.Parameter(torch.empty(len(labels), channels_out, channels_in))
        ended = [len(split_diagram(row, order_in)[0].ending) for row in labels.tolist()]
        # No buffer, which a change of the module's type to single precision would round.
        self.scales = torch.from_numpy(float(n) ** (-np.array(ended) / 2))
        self.product = DiagramProduct(labels, n, order_in)
        self.kernels = KernelTable(labels, n, order_in)
        self._cached, self._choices = None, {}

    def forward(self, x, method):
        if method == "auto":
            training = torch.is_grad_enabled() and (x.requires_grad or self.weight.requires_grad)
            method = self._faster_method(len(x), training)
        if method == "factorized":
            return self.product(x, self._scaled_weight())
        matrix = self._cached_matrix()
        c_out, size_out = matrix.shape[:2]
        flat = x.flatten(1) @ matrix.reshape(c_out * size_out, -1).T
        return flat.reshape(len(x), c_out, size_out)

    def _faster_method(self, n_samples, training):
        # Remembered, because it takes as long as a small product.
        method = self._choices.get((n_samples, training))
        if method is None:
            c_out, c_in = self.weight.shape[1:]
            is_dense = prefers_dense(self.product, n_samples, c_out, c_in, training=training)
            method = "dense" if is_dense else "factorized"
            if len(self._choices) < _MOST_CHOICES:
                self._choices[n_samples, training] = method
        return method

    def matrix(self):
        return self.kernels.matrix(self._scaled_weight())

    def _scaled_weight(self):
        scales = self.scales.to(device=self.weight.device, dtype=self.weight.dtype)
        return self.weight * scales[:, None, None]

    def _cached_matrix(self):
        """The matrix; without gradients it is kept until the weights change."""
        if torch.is_grad_enabled() and self.weight.requires_grad:
            return self.matrix()
        weight = self.weight
        key = (id(weight), weight._version, weight.dtype, weight.device, weight.data_ptr())
        cached = self._cached
        if cached is None or cached[0] != key:
            cached = (key, self.matrix().detach())
            self._cached = cached
        return cached[1]

    def __getstate__(self):
        return {**self.__dict__, "_cached": None}  # it can be made again


def as_array_function(module, shape):
    """Make a function of 2-D arrays from a module that maps one tensor to one tensor.

    Parameters
    ----------
    module : torch.nn.Module
        The module.
    shape : tuple of int
        Shape of a sample: channels and indices.

    Returns
    -------
    callable
        It gives an ndarray of shape (n_samples, n_outputs).
    """

    def function(X):
        like = next(module.parameters())
        with torch.no_grad():
            tensor = torch.from_numpy(np.ascontiguousarray(X)).to(like)
            result = module(tensor.reshape(len(X), *shape))
        return result.reshape(len(X), -1).cpu().numpy()

    return function


def _check_spec(spec, name):
    try:
        pairs = [(order, channels) for order, channels in spec]
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be a list of pairs (order, channels), got {spec!r}."
        ) from None
    if not pairs:
        raise ValueError(f"{name} must hold at least one pair (order, channels), got {spec!r}.")
    for order, channels in pairs:
        check_order(order, f"an order in {name}")
        if check_order(channels, f"a number of channels in {name}") == 0:
            raise ValueError(f"{name} must have at least one channel per entry, got {spec!r}.")
    return [(int(order), int(channels)) for order, channels in pairs]


def _check_colors(colors, spec, name):
    if colors is None:
        return [None] * len(spec)
    if not isinstance(colors, list | tuple) or len(colors) != len(spec):
        raise ValueError(
            f"{name} must be a list of a string for each of the {len(spec)} entries, "
            f"got {colors!r}."
        )
    return list(colors)
