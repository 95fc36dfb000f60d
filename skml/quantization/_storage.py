"""Quantised weights in files: ``.safetensors`` or ``.npz``, nothing pickled."""

import json
from pathlib import Path

import numpy as np
from scipy import sparse

from skml.utils._optional import import_optional

from ._packing import from_planes, pack_codes, to_planes

_OUTLIERS = ("indptr", "indices", "data")
_SETTINGS = ("bits", "group_size", "act_bits", "act_group")


def save_arrays(path, weight):
    """Write a weight; the suffix of ``path`` chooses the format."""
    path = Path(path)
    arrays = to_planes(weight.unpack(), weight.bits)
    arrays |= {name: np.asarray(getattr(weight, name)) for name in weight._level_names}
    if weight.outliers is not None:
        arrays |= {f"outliers.{name}": getattr(weight.outliers, name) for name in _OUTLIERS}
    header = {"format": type(weight).__name__, "shape": weight.shape}
    header |= {name: getattr(weight, name) for name in _SETTINGS if hasattr(weight, name)}
    text = json.dumps(header)
    if _suffix(path) == ".npz":
        with open(path, "wb") as file:
            np.savez(file, header=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)
    else:
        module = import_optional(
            "safetensors.numpy", extra="torch", needed_by="saving a weight as .safetensors"
        )
        module.save_file(arrays, path, metadata={"skml": text})


def load_arrays(path, cls):
    """Read a weight of class ``cls``."""
    path = Path(path)
    if _suffix(path) == ".npz":
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        text = arrays.pop("header", np.empty(0, dtype=np.uint8)).tobytes().decode()
    else:
        module = import_optional(
            "safetensors", extra="torch", needed_by="loading a weight from .safetensors"
        )
        with module.safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get("skml", "")
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    if not text:
        raise ValueError(f"{path} was not written by LUTWeight.save or UniformWeight.save.")
    header = json.loads(text)
    if header.pop("format") != cls.__name__:
        raise ValueError(f"{path} does not hold a {cls.__name__}.")
    shape = tuple(header.pop("shape"))
    codes = pack_codes(from_planes(arrays, header["bits"], shape), header["bits"])
    outliers = None
    if "outliers.data" in arrays:
        parts = [arrays[f"outliers.{name}"] for name in reversed(_OUTLIERS)]
        outliers = sparse.csr_array(tuple(parts), shape=shape)
    levels = {name: arrays[name] for name in cls._level_names}
    return cls(codes=codes, shape=shape, outliers=outliers, **levels, **header)


def _suffix(path):
    if path.suffix not in (".npz", ".safetensors"):
        raise ValueError(f"path must end in .npz or .safetensors, got {str(path)!r}.")
    return path.suffix
