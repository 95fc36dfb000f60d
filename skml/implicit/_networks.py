"""Networks from coordinates to values: ReLU, ReLU on a positional encoding, SIREN, FINER."""

import itertools
import math
from numbers import Integral, Real

import torch
from torch import nn
from torch.nn import functional as F

ARCHITECTURES = ("siren", "relu", "relu_pe", "finer")
_SINES = ("siren", "finer")


class CoordinateMLP(nn.Module):
    """A multilayer perceptron from coordinates in [-1, 1] to values.

    Parameters
    ----------
    n_features : int
        Number of coordinates.
    n_outputs : int, default=1
        Number of values (channels).
    architecture : {"siren", "relu", "relu_pe", "finer"}, default="siren"
        Activation, initial weights, and for "relu_pe" the positional encoding in front.
    hidden_width : int, default=256
        Width of the hidden layers.
    n_hidden_layers : int, default=2
        Number of hidden layers between the first and the output layer.
    n_frequencies : int, default=6
        Number of octaves of the positional encoding; for "relu_pe" only.
    first_omega_0, hidden_omega_0 : float, default=30.0
        Frequency factors of the first and of the hidden layers; for sines only.
    first_bias_range : float or None, default=None
        The biases of the first layer start uniformly in plus or minus this; None: as in
        `torch.nn.Linear`. For "finer", which reaches high frequencies where they are large.

    Attributes
    ----------
    layers : torch.nn.ModuleList
        The linear layers, the output layer last.
    omegas : tuple of float
        Factor of each layer's linear map; 1 for ReLU and for the output.

    See Also
    --------
    INRRegressor : The estimator that trains such a network.

    Notes
    -----
    With u = W h + b the layers compute

    - ReLU: max(0, u);
    - SIREN: sin(omega u);
    - FINER: sin(omega (abs(u) + 1) u), where the factor abs(u) + 1 counts as constant when the
      network is trained.

    "relu_pe" puts x, sin(2^i pi x_j) and cos(2^i pi x_j), i = 0, ..., L - 1, before the first
    layer. A sine network starts with W uniform in ±1/n_features in the first layer and in
    ±sqrt(6 / fan_in) / omega in the others; the output layer of ReLU networks in
    ±sqrt(6 / hidden_width).

    References
    ----------
    .. [1] V. Sitzmann, J. Martel, A. Bergman, D. Lindell, G. Wetzstein. "Implicit neural
       representations with periodic activation functions." NeurIPS 2020.
    .. [2] Z. Liu, H. Zhu, Q. Zhang, J. Fu, W. Deng, Z. Ma, Y. Guo, X. Cao. "FINER: flexible
       spectral-bias tuning in implicit neural representation by variable-periodic activation
       functions." CVPR 2024.

    Examples
    --------
    >>> import torch
    >>> from skml.implicit import CoordinateMLP
    >>> network = CoordinateMLP(2, 3, architecture="relu_pe", hidden_width=64)
    >>> network(torch.zeros(5, 2)).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        n_features,
        n_outputs=1,
        *,
        architecture="siren",
        hidden_width=256,
        n_hidden_layers=2,
        n_frequencies=6,
        first_omega_0=30.0,
        hidden_omega_0=30.0,
        first_bias_range=None,
    ):
        super().__init__()
        if architecture not in ARCHITECTURES:
            raise ValueError(f"architecture must be one of {ARCHITECTURES}, got {architecture!r}")
        _check_integer("n_features", n_features, 1)
        _check_integer("n_outputs", n_outputs, 1)
        _check_integer("hidden_width", hidden_width, 1)
        _check_integer("n_hidden_layers", n_hidden_layers, 0)
        _check_integer("n_frequencies", n_frequencies, 0)
        _check_real("first_omega_0", first_omega_0, above=0)
        _check_real("hidden_omega_0", hidden_omega_0, above=0)
        if first_bias_range is not None:
            _check_real("first_bias_range", first_bias_range, at_least=0)
        self.n_features = n_features
        self.n_outputs = n_outputs
        self.architecture = architecture
        self.hidden_width = hidden_width
        self.n_hidden_layers = n_hidden_layers
        self.n_frequencies = n_frequencies
        self.first_omega_0 = first_omega_0
        self.hidden_omega_0 = hidden_omega_0
        self.first_bias_range = first_bias_range
        n_encoded = n_features * (1 + 2 * n_frequencies * (architecture == "relu_pe"))
        widths = [n_encoded, *[hidden_width] * (n_hidden_layers + 1), n_outputs]
        self.layers = nn.ModuleList(
            nn.Linear(n_in, n_out) for n_in, n_out in itertools.pairwise(widths)
        )
        self.omegas = (1.0,) * (n_hidden_layers + 2)
        if architecture in _SINES:
            self.omegas = (first_omega_0, *[hidden_omega_0] * n_hidden_layers, 1.0)
        self._init_weights()

    def forward(self, x):
        """Compute the values at coordinates.

        Parameters
        ----------
        x : torch.Tensor of shape (n_points, n_features)
            Coordinates in [-1, 1].

        Returns
        -------
        torch.Tensor of shape (n_points, n_outputs)
            The values.
        """
        return self.forward_encoded(self.encode(x))

    def encode(self, x):
        """Put the positional encoding of "relu_pe" before the first layer.

        It has no weights, so that a training loop need compute it only once.

        Parameters
        ----------
        x : torch.Tensor of shape (n_points, n_features)
            Coordinates.

        Returns
        -------
        torch.Tensor of shape (n_points, n_encoded)
            The coordinates, followed by their sines and cosines; `x` itself for the others.
        """
        if self.architecture != "relu_pe":
            return x
        octaves = math.pi * 2.0 ** torch.arange(self.n_frequencies, device=x.device, dtype=x.dtype)
        angles = (x.unsqueeze(1) * octaves.unsqueeze(1)).flatten(1)
        return torch.cat([x, angles.sin(), angles.cos()], dim=1)

    def forward_encoded(self, encoded, records=None, *, exact_derivative=False):
        """Compute the values from encoded coordinates.

        Parameters
        ----------
        encoded : torch.Tensor of shape (n_points, n_encoded)
            What `encode` returns.
        records : list or None, default=None
            Gets, for each layer, its input h, z = omega (W h + b), and omega.
        exact_derivative : bool, default=False
            Whether autograd shall see the factor abs(u) + 1 of FINER, as the derivative by the
            coordinates needs; training does not.

        Returns
        -------
        torch.Tensor of shape (n_points, n_outputs)
            The values.
        """
        hidden, last = encoded, len(self.layers) - 1
        for k, (layer, omega) in enumerate(zip(self.layers, self.omegas, strict=True)):
            weight, bias = layer.weight, layer.bias
            if omega != 1.0:
                # Scaling the few weights spares two passes over all activations.
                weight, bias = omega * weight, omega * bias
            z = F.linear(hidden, weight, bias)
            if records is not None:
                records.append((hidden, z, omega))
            hidden = z if k == last else self._activate(k, z, exact_derivative)
        return hidden

    def _activate(self, k, z, exact_derivative=False):
        if self.architecture not in _SINES:
            return F.relu(z)
        if self.architecture == "finer":
            factor = (z if exact_derivative else z.detach()).abs() / self.omegas[k] + 1
            z = factor * z
        return torch.sin(z)

    @torch.no_grad()
    def _init_weights(self):
        is_sine = self.architecture in _SINES
        bound = math.sqrt(6 / self.hidden_width)
        if is_sine:
            bound /= self.hidden_omega_0
            self.layers[0].weight.uniform_(-1 / self.n_features, 1 / self.n_features)
            for layer in self.layers[1:-1]:
                layer.weight.uniform_(-bound, bound)
        self.layers[-1].weight.uniform_(-bound, bound)
        if self.first_bias_range is not None:
            self.layers[0].bias.uniform_(-self.first_bias_range, self.first_bias_range)

    def _settings(self):
        """The constructor's arguments."""
        return {
            "n_features": self.n_features,
            "n_outputs": self.n_outputs,
            "architecture": self.architecture,
            "hidden_width": self.hidden_width,
            "n_hidden_layers": self.n_hidden_layers,
            "n_frequencies": self.n_frequencies,
            "first_omega_0": self.first_omega_0,
            "hidden_omega_0": self.hidden_omega_0,
            "first_bias_range": self.first_bias_range,
        }


def _check_integer(name, value, least):
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")


def _check_real(name, value, *, above=-math.inf, at_least=-math.inf):
    if not isinstance(value, Real) or not (above < value < math.inf and value >= at_least):
        expected = f"above {above}" if above > at_least else f"of at least {at_least}"
        raise ValueError(f"{name} must be a finite number {expected}, got {value!r}")
