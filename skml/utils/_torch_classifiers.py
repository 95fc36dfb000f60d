"""Torch classifiers as functions of their input: logits, evaluation mode, features.

This module imports torch.
"""

import contextlib
import copy

import torch
from torch import nn

_LEAST_PROBABILITY = 1e-30


@contextlib.contextmanager
def evaluation_mode(module):
    """Put a module into evaluation mode inside a block, and each part back afterwards.

    Parameters
    ----------
    module : torch.nn.Module
        Parts may be in different modes, as a frozen batch normalisation in a training network.
    """
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


class LogitModule(nn.Module):
    """A classifier whose output is logits, one column for each class, whatever it was before.

    Parameters
    ----------
    module : torch.nn.Module
        The network.
    output : {"logits", "probabilities"}, default="logits"
        What the network gives. A single column (or none) is that of the second of two classes.
    """

    def __init__(self, module, output="logits"):
        super().__init__()
        self.module = module
        self.output = output

    def forward(self, x):
        """Logits (n, n_classes) of a batch."""
        out = self.module(x)
        if isinstance(out, tuple):  # as in skorch, the first output is the prediction
            out = out[0]
        single = out.ndim == 1 or out.shape[1] == 1
        if single:
            out = out.reshape(-1, 1)
        if self.output == "probabilities":
            if single:
                out = torch.cat([1 - out, out], dim=1)
            return out.clamp_min(_LEAST_PROBABILITY).log()
        if single:
            out = torch.cat([torch.zeros_like(out), out], dim=1)
        return out


def logit_module(classifier, *, needed_by):
    """Make the logits of a torch classifier: a bare module or an initialised skorch net.

    Parameters
    ----------
    classifier : torch.nn.Module or skorch.NeuralNet
        A bare module is taken to give logits. A net's criterion says what its module gives:
        logits under `CrossEntropyLoss` and `BCEWithLogitsLoss`, probabilities under `NLLLoss`
        (skorch takes the logarithm) and `BCELoss`.
    needed_by : str
        Opens the message of the TypeError.

    Returns
    -------
    LogitModule
        Shares the classifier's own module.

    Raises
    ------
    TypeError
        If there is no torch module, or the criterion is another.
    """
    if isinstance(classifier, nn.Module):
        return LogitModule(classifier)
    module = getattr(classifier, "module_", None)
    criterion = getattr(classifier, "criterion_", None)
    if not isinstance(module, nn.Module):
        raise TypeError(
            f"{needed_by} must be a torch module or a skorch net, because its gradients are "
            f"needed, got {type(classifier).__name__}."
        )
    if isinstance(criterion, (nn.CrossEntropyLoss, nn.BCEWithLogitsLoss)):
        return LogitModule(module)
    if isinstance(criterion, (nn.NLLLoss, nn.BCELoss)):
        return LogitModule(module, output="probabilities")
    raise TypeError(
        f"{needed_by} is a skorch net with the criterion {type(criterion).__name__}, which does "
        "not say whether its module gives logits or probabilities. Use CrossEntropyLoss, "
        "NLLLoss, BCEWithLogitsLoss or BCELoss, or give the bare module that returns logits."
    )


def frozen_copy(module, device):
    """Copy a module for gradients with respect to its input alone, in evaluation mode."""
    return copy.deepcopy(module).to(device).requires_grad_(False).eval()


class PenultimateFeatures:
    """What enters the last linear layer of a network; a context manager.

    Parameters
    ----------
    module : torch.nn.Module
        The network. Of all its `nn.Linear` the one that runs last in a forward pass counts.

    Raises
    ------
    ValueError
        On entering, if there is no linear layer.
    """

    def __init__(self, module):
        self._linear = [part for part in module.modules() if isinstance(part, nn.Linear)]
        self._handles, self._last = [], None

    def __enter__(self):
        if not self._linear:
            raise ValueError("module must contain an nn.Linear, whose input is the feature.")
        self._handles = [layer.register_forward_pre_hook(self._remember) for layer in self._linear]
        return self

    def __exit__(self, *exception):
        for handle in self._handles:
            handle.remove()
        self._handles, self._last = [], None

    def _remember(self, layer, inputs):
        self._last = inputs[0]

    def take(self):
        """Features (n, n_features) of the last forward pass."""
        features, self._last = self._last, None
        return features.flatten(1)
