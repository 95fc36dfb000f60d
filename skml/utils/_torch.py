"""Devices, seeds, tensors and saved state for the torch methods.

This module imports torch; nothing in `skml` imports it before a torch name is asked for.
"""

import contextlib
import threading
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load as safetensors_load
from safetensors.torch import save as safetensors_save
from sklearn.utils import check_random_state

_MAX_SEED = np.iinfo(np.int32).max
# All threads of the process draw from the same global generator, so they seed it one at a time.
_GLOBAL_GENERATOR = threading.RLock()


def resolve_device(device):
    """Turn the `device` parameter of an estimator into a torch device.

    Parameters
    ----------
    device : str or torch.device
        ``"auto"`` for the first accelerator that there is, else the CPU; otherwise any string
        that torch knows, such as ``"cpu"`` or ``"cuda:1"``.

    Returns
    -------
    torch.device
        The device.

    Raises
    ------
    ValueError
        If torch does not know the string, there is no such device here, or it is "meta".
    """
    if isinstance(device, str) and device == "auto":
        return _first_accelerator() or torch.device("cpu")
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"device must be 'auto', 'cpu' or another torch device string, got {device!r}."
        ) from error
    if resolved.type == "cpu":
        return resolved
    if resolved.type == "meta":
        raise ValueError(
            f"device={device!r} holds shapes without numbers, so nothing can be computed there."
        )
    backend = getattr(torch, resolved.type, None)
    is_available = getattr(backend, "is_available", None) or (
        torch.backends.mps.is_available if resolved.type == "mps" else None
    )
    if is_available is None or not is_available():
        raise ValueError(f"device={device!r}, but torch finds no {resolved.type} device here.")
    n_devices = getattr(backend, "device_count", lambda: 1)()
    if resolved.index is not None and resolved.index >= n_devices:
        raise ValueError(
            f"device={device!r}, but there are only {n_devices} {resolved.type} devices."
        )
    return resolved


def _first_accelerator():
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return None


def draw_seed(random_state):
    """Draw an int seed from what scikit-learn accepts as `random_state`."""
    return int(check_random_state(random_state).randint(_MAX_SEED))


def make_generator(random_state, device="cpu"):
    """Make a torch generator from what scikit-learn accepts as `random_state`.

    Parameters
    ----------
    random_state : int, RandomState instance or None
        As in scikit-learn; a RandomState advances by one draw.
    device : str or torch.device
        Where the generator draws. The CPU is the device to choose for draws that shall be the
        same on every machine.

    Returns
    -------
    torch.Generator
        A new generator.
    """
    return torch.Generator(device=device).manual_seed(draw_seed(random_state))


@contextlib.contextmanager
def local_seed(random_state, device="cpu", *, n_threads=None):
    """Seed torch inside a block, and leave the process as it was found.

    Weight initialisation and dropout draw from torch's global generator and take no other. In
    this block it is seeded; afterwards its state, the number of threads and the grad mode are
    what they were. The generator belongs to the process, so only one thread at a time is inside
    such a block; blocks may be nested. Do not wait in it for another thread that needs one.

    Parameters
    ----------
    random_state : int, RandomState instance or None
        As in scikit-learn.
    device : str or torch.device
        The accelerator whose generator is seeded as well; that of the CPU always is.
    n_threads : int or None
        Number of intra-operation threads inside the block; None leaves it.

    Yields
    ------
    seed : int
        The seed that was set.
    """
    seed = draw_seed(random_state)
    device = torch.device(device)
    devices = [device] if device.type not in {"cpu", "meta", "mps"} else []
    kwargs = {"device_type": device.type} if devices else {}
    with _GLOBAL_GENERATOR, torch.random.fork_rng(devices=devices, **kwargs):
        before = torch.get_num_threads()
        grad_enabled = torch.is_grad_enabled()
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed all devices
        if devices:
            backend = getattr(torch, device.type)
            with backend.device(device):
                backend.manual_seed(seed)
        try:
            if n_threads is not None:
                torch.set_num_threads(n_threads)
            yield seed
        finally:
            torch.set_grad_enabled(grad_enabled)
            if torch.get_num_threads() != before:
                torch.set_num_threads(before)


def as_tensor(array, *, dtype=torch.float32, device="cpu"):
    """Copy an array-like into a tensor that does not share memory with it.

    Parameters
    ----------
    array : array-like or torch.Tensor
        Also read-only, of any byte order or stride.
    dtype : torch.dtype or None
        None keeps the type.
    device : str or torch.device
        Where the tensor goes.

    Returns
    -------
    torch.Tensor
        A contiguous tensor.
    """
    if isinstance(array, torch.Tensor):
        return array.detach().to(device=device, dtype=dtype, copy=True).contiguous()
    array = np.array(array, order="C")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return torch.from_numpy(array).to(device=device, dtype=dtype)


def to_numpy(tensor):
    """Copy a tensor from wherever it is into a numpy array."""
    return tensor.detach().cpu().numpy().copy()


def module_to_bytes(module):
    """Serialise parameters and buffers of a module in the safetensors format.

    Parameters
    ----------
    module : torch.nn.Module
        Tied weights are written once for each of their names.

    Returns
    -------
    bytes
        Holds numbers, never code.
    """
    tensors = {}
    for name, value in module.state_dict().items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(
                f"{type(module).__name__} has the extra state {name!r} of type "
                f"{type(value).__name__}; only tensors can be saved."
            )
        tensors[name] = value.detach().cpu().clone().contiguous()
    return safetensors_save(tensors)


def load_module_bytes(module, data):
    """Load what :func:`module_to_bytes` gave into a module of the same architecture.

    Returns
    -------
    torch.nn.Module
        The module, on the device where it was.
    """
    module.load_state_dict(safetensors_load(bytes(data)))
    return module


def save_module(module, path):
    """Write parameters and buffers of a module to a ``.safetensors`` file."""
    Path(path).write_bytes(module_to_bytes(module))


def load_module(module, path):
    """Read a ``.safetensors`` file into a module of the same architecture, and return it."""
    return load_module_bytes(module, Path(path).read_bytes())


class TorchStateMixin:
    """Pickle, copy and skops support for an estimator that holds torch modules.

    The pickled state holds each module as a numpy array of safetensors bytes, so that pickle,
    joblib and skops store plain numbers, and a model trained on an accelerator loads on the
    CPU. On loading the estimator rebuilds the architecture and reads the weights. A class lists
    its modules and says how to build them::

        _torch_modules = {"module_": "_build_module"}

        def _build_module(self):  # from the parameters and the other fitted attributes
            return make_mlp(self.n_features_in_, self.hidden_layer_sizes)

    An attribute may hold a skorch net too; its builder returns an initialised net, whose history
    is restored. Fitted attributes that are tensors should be kept as numpy arrays.
    """

    _torch_modules = {}

    def __getstate__(self):
        state = dict(super().__getstate__())
        for name in self._torch_modules:
            if state.get(name) is not None:
                state[name] = _pack(state[name])
        return state

    def __setstate__(self, state):
        packed = {key: state[key] for key in self._torch_modules if state.get(key) is not None}
        rest = {key: value for key, value in state.items() if key not in packed}
        super().__setstate__(rest)
        for name, content in packed.items():
            # Initialisation draws numbers that the loaded weights then replace.
            with local_seed(0):
                built = getattr(self, self._torch_modules[name])()
            setattr(self, name, _unpack(built, content))


def _pack(value):
    module = getattr(value, "module_", value)
    content = {
        "weights": np.frombuffer(module_to_bytes(module), dtype=np.uint8).copy(),
        "training": bool(module.training),
    }
    if module is not value:  # a skorch net
        content["history"] = list(value.history)
    return content


def _unpack(built, content):
    module = getattr(built, "module_", built)
    load_module_bytes(module, content["weights"].tobytes())
    module.train(content["training"])
    if module is not built:
        built.history.extend(content["history"])
    return built
