"""Runs of a torch module over calibration batches, and what its layers get to see."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class _Reached(Exception):
    """Raised by a hook once nothing of the rest of a forward pass is of interest."""


@dataclass
class LayerCalls:
    """How a layer was called over the calibration batches.

    Attributes
    ----------
    per_batch : list of int
        Number of calls in each batch.
    inputs : list of tuple
        Identity of the input tensor of each call.
    """

    per_batch: list
    inputs: list = field(default_factory=list)


def as_batches(X):
    """Turn the calibration inputs into a list of batches.

    Parameters
    ----------
    X : tensor, ndarray or iterable of batches
        A batch is a tensor or array, a tuple of positional arguments, or a dict of keyword
        arguments.

    Returns
    -------
    list
        The batches, with tensors in place of arrays.
    """
    if isinstance(X, (torch.Tensor, np.ndarray, dict, tuple)):
        X = [X]
    batches = [_as_tensors(batch) for batch in X]
    if not batches:
        raise ValueError("X holds no calibration batch.")
    return batches


def _as_tensors(value):
    if isinstance(value, dict) or hasattr(value, "items"):
        return {key: _as_tensors(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(_as_tensors(item) for item in value)
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(np.ascontiguousarray(value))
        return value.float() if value.is_floating_point() else value
    return value


def call_with(module, batch):
    """Call a module with a batch of :func:`as_batches`."""
    if isinstance(batch, dict):
        return module(**batch)
    return module(*batch) if isinstance(batch, tuple) else module(batch)


def trace_layers(module, layers, batches, run):
    """Record the order in which layers are called, and which of them share their inputs.

    Parameters
    ----------
    module : torch.nn.Module
        The network.
    layers : dict of str to torch.nn.Module
        The layers to watch.
    batches : list
        Calibration batches.
    run : callable
        ``run(module, batch)``.

    Returns
    -------
    dict of str to LayerCalls
        The layers that were called, in the order of their first call.
    """
    calls, held = {}, []

    def watch(name, number):
        def hook(layer, args):
            record = calls.setdefault(name, LayerCalls([0] * len(batches)))
            record.per_batch[number] += 1
            tensor = args[0]
            # Held until the pass ends, so that no address is used twice.
            held.append(tensor)
            place = (number, tensor.data_ptr(), tuple(tensor.shape), tensor.stride())
            record.inputs.append((*place, tensor._version))

        return hook

    for number, batch in enumerate(batches):
        handles = [
            layer.register_forward_pre_hook(watch(name, number)) for name, layer in layers.items()
        ]
        try:
            run(module, batch)
        finally:
            for handle in handles:
                handle.remove()
            held.clear()
    return calls


def group_by_input(calls, layers):
    """Group layers whose calls all got the same tensors, in order of first call."""
    groups = {}
    for name, record in calls.items():
        key = (*record.inputs, unfolding(layers[name]))
        groups.setdefault(key, []).append(name)
    return list(groups.values())


def accumulate_grams(module, leaders, batches, run, calls=None):
    """Add up the Gram matrices of the inputs of layers over all batches.

    Parameters
    ----------
    module : torch.nn.Module
        The network.
    leaders : dict of str to torch.nn.Module
        The layers.
    batches : list
        Calibration batches.
    run : callable
        ``run(module, batch)``.
    calls : LayerCalls or None
        Known calls of the only layer: a pass then stops at the last of them.

    Returns
    -------
    dict of str to (ndarray of shape (n_inputs, n_inputs), int)
        Gram matrix in float64 and number of input vectors, for the layers that were called.
    """
    grams = {name: _GramSum() for name in leaders}

    def watch(name, remaining):
        def hook(layer, args):
            nonlocal remaining
            grams[name].add(input_rows(layer, args[0].detach()))
            if remaining is not None:
                remaining -= 1
                if remaining == 0:
                    raise _Reached

        return hook

    for number, batch in enumerate(batches):
        remaining = None if calls is None else calls.per_batch[number]
        if remaining == 0:
            continue
        handles = [
            layer.register_forward_pre_hook(watch(name, remaining))
            for name, layer in leaders.items()
        ]
        try:
            run(module, batch)
        except _Reached:
            pass
        finally:
            for handle in handles:
                handle.remove()
    return {name: gram.result() for name, gram in grams.items() if gram.count}


class _GramSum:
    """Sum of x x^T over rows that come in small numbers; products are made of many at a time."""

    def __init__(self):
        self.count = 0
        self.total = 0.0
        self.waiting = []

    def add(self, rows):
        # A copy: the layer's input may be overwritten before the product is made.
        self.waiting.append(rows.double() if rows.dtype != torch.float64 else rows.clone())
        self.count += len(rows)
        if sum(map(len, self.waiting)) >= max(1024, rows.shape[1]):
            self._flush()

    def result(self):
        if self.waiting:
            self._flush()
        return self.total.numpy(), self.count

    def _flush(self):
        rows = torch.cat(self.waiting)
        self.total = self.total + rows.T @ rows
        self.waiting = []


def unfolding(layer):
    """How a layer arranges its inputs before the product; None for a linear layer."""
    if isinstance(layer, nn.Conv2d):
        return layer.kernel_size, layer.dilation, _padding(layer), layer.stride
    return None


def _padding(layer):
    if layer.padding == "valid":
        return (0, 0)
    if layer.padding == "same":
        # Uneven padding is refused before.
        pairs = zip(layer.kernel_size, layer.dilation, strict=True)
        return tuple(dilation * (size - 1) // 2 for size, dilation in pairs)
    return layer.padding


def input_rows(layer, tensor):
    """Input vectors of a layer, one per row."""
    how = unfolding(layer)
    if how is None:
        return tensor.reshape(-1, tensor.shape[-1])
    tensor = tensor.unsqueeze(0) if tensor.dim() == 3 else tensor
    columns = F.unfold(tensor, *how)
    return columns.transpose(1, 2).reshape(-1, columns.shape[1])
