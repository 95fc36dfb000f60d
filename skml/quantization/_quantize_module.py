"""Quantise the linear and convolutional layers of a torch module."""

import contextlib
import copy
import re
import warnings
from collections import Counter

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.base import clone
from torch import nn
from torch.nn.utils import parametrize

from skml.utils._progress import progress

from ._base import BaseWeightQuantizer, relative_error
from ._calibration import (
    accumulate_grams,
    as_batches,
    call_with,
    group_by_input,
    trace_layers,
    unfolding,
)
from ._lut_conv import LUTConv2d
from ._lut_linear import LUTLinear
from ._weights import LUTWeight


def quantize_module(
    module,
    quantizer,
    X,
    *,
    modules=None,
    bits=None,
    sequential=True,
    inplace=False,
    verbose=0,
):
    """Replace the linear and convolutional layers of a torch module by packed ones.

    Parameters
    ----------
    module : torch.nn.Module
        A network on the CPU.
    quantizer : BaseWeightQuantizer
        How weights are quantised; it is cloned for every layer. Its grid, if it has one, must
        span the row (``group_size=None``).
    X : tensor, ndarray or iterable of batches
        Calibration inputs. A batch is a tensor or array, a tuple of positional arguments or a
        dict of keyword arguments of the module. Float arrays become float32 tensors.
    modules : list of str or None, default=None
        Names of the layers to quantise; None means all.
    bits : int or dict of str to int or None, default=None
        Bits for all layers, or rules: regular expressions that are searched in the layer's
        name, with the bits to use, None to leave the layer alone. The first match counts.
        Without a match, and for None, the bits of the quantizer are used.
    sequential : bool, default=True
        Whether a layer is calibrated with the layers before it quantised already, which takes
        one pass over X for each distinct input. Otherwise one pass over the original network
        serves all, and the layers are quantised side by side under
        :func:`joblib.parallel_config` (``n_jobs``, or the backend "dask").
    inplace : bool, default=False
        Whether the module itself is changed. Otherwise a copy is.
    verbose : int, default=0
        0 is silent, 1 shows the progress over the layers.

    Returns
    -------
    torch.nn.Module
        The module, with :class:`LUTLinear` in place of its layers, in the mode (training or
        not) that it had. Its ``quantization_report_`` is a list with a dict for each quantised
        layer, in order: "name", "shape", "bits", "error" (the relative layer error on its
        calibration inputs), "bits_per_weight" and "n_samples" (input vectors seen).

    Warns
    -----
    UserWarning
        Once, with the names of all weights of two and more dimensions that were left alone
        without a rule that says so: of embeddings, attention layers that use their weights
        directly, experts in one tensor, layers that X does not reach, tied weights.

    See Also
    --------
    LUTLinear : The packed layer.
    QuantizedEstimator : The same for scikit-learn estimators and skorch nets.

    Notes
    -----
    Layers that get the same tensor (query, key and value; gate and up) share one Gram matrix. A
    convolution is a linear layer on unfolded patches.

    References
    ----------
    .. [1] P. Zhao, X. Yuan. "GANQ: GPU-Adaptive Non-Uniform Quantization for Large Language
       Models." ICML 2025. https://arxiv.org/abs/2501.12956

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from skml.quantization import GANQQuantizer, quantize_module
    >>> generator = torch.Generator().manual_seed(0)
    >>> X = torch.randn(200, 16, generator=generator)
    >>> network = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    >>> packed = quantize_module(network, GANQQuantizer(), X, bits={"2": 3})
    >>> [(layer["name"], layer["bits"]) for layer in packed.quantization_report_]
    [('0', 4), ('2', 3)]
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, got {type(module).__name__}.")
    batches = as_batches(X)
    return _quantize(
        module, quantizer, batches, call_with, modules, bits, sequential, inplace, verbose
    )


def quantize_skorch_net(net, quantizer, X):
    """Quantise a copy of a fitted skorch net.

    Returns
    -------
    net : skorch.NeuralNet
        The copy, without its optimizer.
    weights : list of LUTWeight
        Packed weights in order.
    errors : list of float
        Relative layer errors.
    """
    net = copy.deepcopy(net)
    data = net.get_iterator(net.get_dataset(X), training=False)
    batches = [batch[0] if isinstance(batch, (tuple, list)) else batch for batch in data]

    def run(module, batch):
        del module  # the net's own, which `infer` calls as the net is used to
        net.infer(batch)

    if isinstance(net.module_, (nn.Linear, nn.Conv2d)):
        raise TypeError(
            "The module of the net is a single layer, which cannot be replaced inside the net: "
            "wrap it, for instance in torch.nn.Sequential."
        )
    _quantize(net.module_, quantizer, batches, run, None, None, True, True, 0)
    # The optimizer holds the dense weights; a net that only predicts needs none.
    for name in list(vars(net)):
        if name in {f"{prefix}_" for prefix in net._optimizers}:
            vars(net)[name] = None
    report = net.module_.quantization_report_
    packed = dict(net.module_.named_modules())
    weights = [_packed_weight(packed[layer["name"]]) for layer in report]
    return net, weights, [layer["error"] for layer in report]


def _packed_weight(layer):
    return getattr(layer, "linear", layer).weight


def _quantize(module, quantizer, batches, run, modules, bits, sequential, inplace, verbose):
    if not isinstance(quantizer, BaseWeightQuantizer):
        raise TypeError(f"quantizer must be a BaseWeightQuantizer, got {type(quantizer).__name__}.")
    if getattr(quantizer, "group_size", None) is not None:
        raise ValueError(
            f"quantizer.group_size must be None, got {quantizer.group_size}: a packed layer has "
            "one table per row."
        )
    _refuse_other_devices(module)
    rules = _Rules(bits, quantizer.bits)
    module = module if inplace else copy.deepcopy(module)
    candidates = _candidates(module)
    wanted = _select(candidates, modules, module)
    rules.check_used([name for name, _ in module.named_modules()])
    layers = {name: layer for name, layer in wanted.items() if rules(name) is not None}

    report = []
    modes = {name: layer.training for name, layer in layers.items()}

    def matrices(group):
        return [(_matrix(layers[name]), rules(name)) for name in group]

    def insert(group, n_samples, results):
        nonlocal module
        for name, (weight, error) in zip(group, results, strict=True):
            packed = _packed_layer(layers[name], weight)
            packed.train(modes[name])
            module = _replace(module, name, packed)
            report.append(_entry(name, weight, error, n_samples))

    with _evaluation(module):
        calls = trace_layers(module, layers, batches, run)
        groups = group_by_input(calls, layers)
        if sequential:
            for group in progress(groups, "Quantising layers", verbose):
                leader = group[0]
                grams = accumulate_grams(
                    module, {leader: layers[leader]}, batches, run, calls[leader]
                )
                if leader in grams:  # else routing has changed: no input came any more
                    results = _quantize_matrices(quantizer, *grams[leader], matrices(group))
                    insert(group, grams[leader][1], results)
        else:
            leaders = {group[0]: layers[group[0]] for group in groups}
            grams = accumulate_grams(module, leaders, batches, run)
            groups = [group for group in groups if group[0] in grams]
            jobs = (
                delayed(_quantize_matrices)(quantizer, *grams[group[0]], matrices(group))
                for group in progress(groups, "Quantising layers", verbose)
            )
            for group, results in zip(groups, Parallel()(jobs), strict=True):
                insert(group, grams[group[0]][1], results)
    _warn_about_the_rest(module, rules, modules)
    module.quantization_report_ = report
    return module


class _Rules:
    """Bits of each layer by its name."""

    def __init__(self, bits, default):
        self.default = default
        self.patterns = []
        if isinstance(bits, dict):
            self.patterns = [(re.compile(pattern), value) for pattern, value in bits.items()]
        elif bits is not None:
            self.default = bits
        for value in (self.default, *(value for _, value in self.patterns)):
            is_int = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            if not (value is None or (is_int and 1 <= value <= 8)):
                raise ValueError(f"bits must be integers from 1 to 8 or None, got {value!r}.")

    def __call__(self, name):
        for pattern, value in self.patterns:
            if pattern.search(name):
                return value
        return self.default

    def check_used(self, names):
        for pattern, _ in self.patterns:
            if not any(pattern.search(name) for name in names):
                raise ValueError(
                    f"The rule {pattern.pattern!r} in bits matches none of the modules {names}."
                )


def _candidates(module):
    """Layers that can be replaced, by name."""
    uses = Counter(
        id(parameter) for child in module.modules() for parameter in child.parameters(recurse=False)
    )
    return {
        name: child
        for name, child in module.named_modules()
        if _can_be_packed(child) and uses[id(child.weight)] == 1
    }


def _can_be_packed(layer):
    if parametrize.is_parametrized(layer):
        return False
    if isinstance(layer, nn.Linear):
        return type(layer).forward is nn.Linear.forward
    if isinstance(layer, nn.Conv2d):
        uneven = layer.padding == "same" and any(
            dilation * (size - 1) % 2
            for size, dilation in zip(layer.kernel_size, layer.dilation, strict=True)
        )
        plain = layer.groups == 1 and layer.padding_mode == "zeros" and not uneven
        return plain and type(layer).forward is nn.Conv2d.forward
    return False


def _select(candidates, modules, module):
    if modules is None:
        return candidates
    known = dict(module.named_modules())
    for name in modules:
        if name not in candidates:
            what = f"a {type(known[name]).__name__}" if name in known else "no module"
            raise ValueError(
                f"modules names {name!r}, which is {what} and cannot be quantised; the layers that "
                f"can be are {list(candidates)}."
            )
    return {name: candidates[name] for name in candidates if name in set(modules)}


def _matrix(layer):
    W = layer.weight.detach().float().numpy().reshape(layer.weight.shape[0], -1)
    return np.ascontiguousarray(W)


def _quantize_matrices(quantizer, gram, n_samples, matrices):
    """Table and relative error of each matrix, all of which have the same inputs."""
    fitted = clone(quantizer)._fit_gram(gram, n_samples)
    results = []
    for W, bits in matrices:
        weight = _as_table(fitted.set_params(bits=bits).quantize(W))
        error = relative_error(W.astype(np.float64), weight.dequantize(), fitted.gram_)
        results.append((weight, error))
    return results


def _packed_layer(layer, weight):
    packed = LUTLinear.from_weight(weight, layer.bias)
    return LUTConv2d(packed, unfolding(layer)) if isinstance(layer, nn.Conv2d) else packed


def _entry(name, weight, error, n_samples):
    return {
        "name": name,
        "shape": weight.shape,
        "bits": weight.bits,
        "error": error,
        "bits_per_weight": weight.bits_per_weight,
        "n_samples": n_samples,
    }


def _as_table(weight):
    """A uniform grid over the whole row, written as a table."""
    if isinstance(weight, LUTWeight):
        return weight
    levels = np.arange(2**weight.bits, dtype=weight.scale.dtype)
    codebook = weight.scale * (levels - weight.zero)
    return LUTWeight.from_codes(
        weight.unpack(), codebook, outliers=weight.outliers, info=weight.info
    )


def _replace(module, name, layer):
    if name == "":
        return layer
    parent_name, _, child = name.rpartition(".")
    parent = module.get_submodule(parent_name)
    setattr(parent, child, layer)
    if isinstance(parent, nn.TransformerEncoderLayer):
        # Its fused inference path reads dense weights; without this mark it is not taken.
        parent.activation_relu_or_gelu = 0
    return module


def _warn_about_the_rest(module, rules, modules):
    packed = tuple(
        f"{name}." if name else ""
        for name, child in module.named_modules()
        if isinstance(child, LUTLinear)
    )
    left = []
    for name, parameter in module.named_parameters():
        owner = name.rpartition(".")[0]
        if parameter.dim() < 2 or name.startswith(packed):
            continue
        if rules(owner) is None or (modules is not None and owner not in modules):
            continue
        left.append(name)
    if left:
        warnings.warn(
            f"{len(left)} weights were left as they are: {', '.join(left)}. They belong to no "
            "linear or convolutional layer that X reaches, are tied, or are read directly by "
            "their module.",
            UserWarning,
            stacklevel=4,
        )


def _refuse_other_devices(module):
    devices = {str(parameter.device) for parameter in module.parameters()} - {"cpu"}
    if devices:
        raise ValueError(
            f"module must be on the CPU, where packed layers compute; it is on {sorted(devices)}: "
            "use module.cpu()."
        )


@contextlib.contextmanager
def _evaluation(module):
    modes = {child: child.training for child in module.modules()}
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for child, mode in modes.items():
            child.training = mode
