"""A network of equivariant layers and non-linearities that commute with the group."""

from math import sqrt

import torch
from torch import nn
from torch.nn import functional

from ._admissible import resolve_nonlinearity
from ._architecture import lifted_spec, plan_hidden_layers, resolve_input_power
from ._basis import check_dimension
from ._groups import get_group
from ._linear import EquivariantLinear, as_array_function


class EquivariantNetwork(nn.Module):
    r"""Network between tensors that commutes with a group or quantum group.

    Parameters
    ----------
    group : str
        Name of the group, as in :func:`equivariant_basis`; not a unitary one.
    n : int
        Dimension of the base space.
    order_in, order_out : int
        Orders of the tensors.
    n_channels_in, n_channels_out : int, default=1
        Numbers of channels.
    hidden_layer_sizes : sequence, default=(32,)
        For each hidden layer a list of (order, channels), or a number of channels of order 0 and
        of `order_in` ("matmul": of order 2 in place of `order_in`).
    input_power : int or "auto", default="auto"
        The first layer sees the tensor powers of the input up to this one. "auto": 1, or 2 if
        nothing leads to the output otherwise.
    nonlinearity : {"auto", "gated", "pointwise", "matmul", "identity"}, default="auto"
        What is done between layers, as in :class:`QuantumGroupEquivariantRegressor`.
    method : {"auto", "dense", "factorized"}, default="auto"
        As in :class:`EquivariantLinear`.

    Attributes
    ----------
    layers : torch.nn.ModuleList of EquivariantLinear
        The linear layers, one more than there are hidden layers.

    Raises
    ------
    ValueError
        If there is no equivariant map to the output, or a non-linearity is not equivariant.

    See Also
    --------
    EquivariantLinear : One layer.

    Notes
    -----
    The paper describes the linear layers; the non-linearities are this library's own. Each is
    a sum of diagrams of powers of its input, or multiplies by a function of invariants:

    - numbers (order 0): SiLU;
    - pointwise: SiLU of each entry where the squares are diagrams of the group ("S", and "S+" on
      order 1), tanh where only odd powers are ("H", and "H+" on order 1);
    - gated: a tensor times the sigmoid of a number that is learnt beside it;
    - matmul: A + A B / sqrt(n) of two learnt tensors of order 2.

    References
    ----------
    .. [1] E. Pearce-Crump. "Compact matrix quantum group equivariant neural networks." ICML 2025.
       https://arxiv.org/abs/2311.06358

    Examples
    --------
    >>> import torch
    >>> from skml.equivariant import EquivariantNetwork
    >>> network = EquivariantNetwork("S", 5, 1, 0, hidden_layer_sizes=(8,))
    >>> x = torch.randn(3, 1, 5)
    >>> bool(torch.allclose(network(x), network(x.flip(-1)), atol=1e-5))
    True
    """

    def __init__(
        self,
        group,
        n,
        order_in,
        order_out,
        *,
        n_channels_in=1,
        n_channels_out=1,
        hidden_layer_sizes=(32,),
        input_power="auto",
        nonlinearity="auto",
        method="auto",
    ):
        super().__init__()
        self.group, self.n = get_group(group, real_only=True).name, check_dimension(n)
        self.order_in, self.order_out = order_in, order_out
        self.n_channels_in = n_channels_in
        self.input_power = resolve_input_power(self.group, order_in, order_out, input_power)
        spec = lifted_spec(order_in, n_channels_in, self.input_power)
        hidden = plan_hidden_layers(
            self.group, spec, hidden_layer_sizes, order_in, order_out, nonlinearity
        )
        self.hidden = [
            [(*entry, resolve_nonlinearity(self.group, nonlinearity, entry[0])) for entry in layer]
            for layer in hidden
        ]
        self.layers = nn.ModuleList()
        for layer in self.hidden:
            wanted = [part for entry in layer for part in _linear_outputs(*entry)]
            self.layers.append(EquivariantLinear(self.group, n, spec, wanted, method=method))
            spec = [(order, channels) for order, channels, _ in layer]
        self.layers.append(
            EquivariantLinear(self.group, n, spec, [(order_out, n_channels_out)], method=method)
        )

    def forward(self, x):
        """Apply the network.

        Parameters
        ----------
        x : torch.Tensor of shape (n_samples, n_channels_in) + (n,) * order_in
            The tensors.

        Returns
        -------
        torch.Tensor of shape (n_samples, n_channels_out) + (n,) * order_out
            The outputs.
        """
        tensors = self.lift(x)
        for layer, entries in zip(self.layers, self.hidden, strict=False):
            parts = layer(tensors)
            parts = iter([parts] if isinstance(parts, torch.Tensor) else parts)
            tensors = [_activate(kind, parts, self.n) for _, _, kind in entries]
        return self.layers[-1](tensors)

    def lift(self, x):
        """Form the tensor powers that the first layer sees.

        Parameters
        ----------
        x : torch.Tensor of shape (n_samples, n_channels_in) + (n,) * order_in
            The tensors.

        Returns
        -------
        list of torch.Tensor
            For each power p a tensor of shape (n_samples, n_channels_in**p) + (n,) * (order_in p).
        """
        powers, flat = [x], x.reshape(*x.shape[:2], -1)
        for power in range(2, self.input_power + 1):
            last = powers[-1].reshape(len(x), -1, self.n ** (self.order_in * (power - 1)))
            product = torch.einsum("zci,zdj->zcdij", last, flat)
            powers.append(
                product.reshape(
                    len(x), last.shape[1] * flat.shape[1], *[self.n] * (self.order_in * power)
                )
            )
        return powers

    def _linear_layers(self):
        return list(self.layers)

    def _equivariant_map(self):
        shape = (self.n_channels_in, *[self.n] * self.order_in)
        return as_array_function(self, shape), self.n, self.order_in, self.order_out


def _linear_outputs(order, channels, kind):
    """What the linear layer must give, for one tensor after the non-linearity."""
    if kind == "gated":
        return [(order, channels), (0, channels)]
    if kind == "matmul":
        return [(order, channels), (order, channels)]
    return [(order, channels)]


def _activate(kind, parts, n):
    tensor = next(parts)
    if kind == "any":
        return functional.silu(tensor)
    if kind == "odd":
        return torch.tanh(tensor)
    if kind == "gated":
        gate = torch.sigmoid(next(parts))
        return tensor * gate.reshape(*gate.shape, *[1] * (tensor.ndim - 2))
    if kind == "matmul":
        return tensor + tensor @ next(parts) / sqrt(n)
    return tensor
