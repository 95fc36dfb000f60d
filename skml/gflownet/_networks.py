"""Networks over states; this module imports torch."""

import itertools

import numpy as np
import torch
from torch import nn

from skml.utils._torch import load_module_bytes, local_seed, module_to_bytes, resolve_device

_WIDEST_ONE_HOT = 512


class StateNetwork(nn.Module):
    """Multilayer perceptron over one-hot states, with leaky rectifiers.

    Parameters
    ----------
    state_sizes : tuple of int
        Number of values of each entry of a state.
    hidden_layer_sizes : tuple of int
        Widths of the hidden layers.
    n_outputs : int
        Number of outputs.
    """

    def __init__(self, state_sizes, hidden_layer_sizes, n_outputs):
        super().__init__()
        offsets = np.concatenate([[0], np.cumsum(state_sizes)])
        self.register_buffer("offsets", torch.from_numpy(offsets[:-1].copy()), persistent=False)
        n_inputs, width = int(offsets[-1]), hidden_layer_sizes[0]
        self.weight = nn.Parameter(torch.empty(n_inputs, width))
        # Exactly one input of each entry is on, so the fan-in is the number of entries.
        self.bias = nn.Parameter(torch.empty(width))
        bound = len(state_sizes) ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)
        layers = [nn.LeakyReLU()]
        for size, following in itertools.pairwise(hidden_layer_sizes):
            layers += [nn.Linear(size, following), nn.LeakyReLU()]
        layers.append(nn.Linear(hidden_layer_sizes[-1], n_outputs))
        self.layers = nn.Sequential(*layers)

    def forward(self, states):
        """Map integer states (n, n_entries) to outputs (n, n_outputs)."""
        inputs = states + self.offsets
        if torch.is_grad_enabled() and len(self.weight) <= _WIDEST_ONE_HOT:
            # The gradient of a gather adds up row by row; that of a product is faster.
            one_hot = self.weight.new_zeros(len(states), len(self.weight))
            first = one_hot.scatter_(1, inputs, 1.0) @ self.weight
        else:
            first = nn.functional.embedding_bag(inputs, self.weight, mode="sum")
        return self.layers(first + self.bias)


class NetworkHolder:
    """An object with a network, pickled as plain numbers."""

    def _make_network(self, n_outputs):
        sizes = self.process.state_sizes
        if self.module is None:
            return StateNetwork(sizes, self.hidden_layer_sizes, n_outputs)
        network = self.module(sizes, n_outputs)
        if not isinstance(network, nn.Module) or not any(True for _ in network.parameters()):
            raise ValueError(
                "module(state_sizes, n_outputs) must make a torch.nn.Module with parameters, got "
                f"{type(network).__name__}."
            )
        root = torch.from_numpy(self.process.initial_state()[None])
        with torch.no_grad():
            shape = tuple(network(root).shape)
        if shape != (1, n_outputs):
            raise ValueError(
                f"module must map integer states of shape {tuple(root.shape)} to outputs of shape "
                f"(1, {n_outputs}); it returned shape {shape}."
            )
        return network

    def __getstate__(self):
        weights = np.frombuffer(module_to_bytes(self.network), dtype=np.uint8).copy()
        state = {**vars(self), "network": weights, "device": str(self.device)}
        state.pop("target_network", None)  # of use in training only
        return state

    def __setstate__(self, state):
        vars(self).update(state)
        try:
            self.device = resolve_device(state["device"])
        except ValueError:  # trained on an accelerator that is not here
            self.device = torch.device("cpu")
        with local_seed(0):  # the initial weights are replaced
            self.network = self._build()
        load_module_bytes(self.network, state["network"].tobytes())
        self.network.to(self.device).eval()
