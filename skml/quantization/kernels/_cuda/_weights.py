"""Packed weights on the device."""

from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from numba import cuda

from skml.quantization._weights import LUTWeight

from ._arrays import current_device
from ._tiles import LUT, UNIFORM


class DeviceWeight:
    """What the kernels read of one weight, as numba arrays.

    Parameters
    ----------
    shape : tuple of (int, int)
        Rows and inputs.
    bits : int
        Bits of a code.
    words : device array of uint32, flat
        Packed codes.
    levels : device array of float32, shape (m, 2**bits) or (m, n_groups)
        Tables, or scales.
    zeros : device array of float32, shape (m, n_groups), or None
        Zeros of the groups; None with tables.
    group_size : int
        Inputs that share scale and zero.
    halves : device array of uint16, shape (m, 2**bits), or None
        The tables in a type of 16 bits.
    half_type : {"float16", "bfloat16", None}
        That type.
    outliers : tuple of three device arrays, or None
        Sparse part: row bounds, columns, values.
    """

    def __init__(
        self, shape, bits, words, levels, zeros=None, group_size=0, halves=None, half_type=None,
        outliers=None,
    ):  # fmt: skip
        self.shape, self.bits, self.words = shape, bits, words
        self.levels, self.zeros, self.group_size = levels, zeros, group_size
        self.halves, self.half_type, self.outliers = halves, half_type, outliers

    @property
    def n_words(self):
        """Words of a row."""
        return self.words.shape[0] // self.shape[0]

    @property
    def kind(self):
        """LUT or UNIFORM, as the tiles tell them apart."""
        return LUT if self.zeros is None else UNIFORM

    @cached_property
    def flat_levels(self):
        """``levels`` and ``zeros`` in one dimension; without zeros the levels twice."""
        levels = self.levels.reshape(-1)
        return levels, levels if self.zeros is None else self.zeros.reshape(-1)


_known = WeakKeyDictionary()


def device_weight(weight):
    """The weight on the current device; the copy is kept as long as the weight lives.

    Parameters
    ----------
    weight : LUTWeight or UniformWeight

    Returns
    -------
    DeviceWeight
    """
    copies = _known.setdefault(weight, {})
    device = current_device()
    if device not in copies:
        copies[device] = _send(weight)
    return copies[device]


def _send(weight):
    m, _ = weight.shape
    words = cuda.to_device(np.ascontiguousarray(weight.codes).reshape(-1))
    outliers = weight._kernel_outliers()
    if outliers is not None:
        outliers = tuple(cuda.to_device(part) for part in outliers) if outliers[2].size else None
    common = {"outliers": outliers}
    if isinstance(weight, LUTWeight):
        table, source = np.asarray(weight.codebook), weight.codebook.dtype
    elif weight.n_groups == 1:
        # A row that shares scale and zero has but 2**bits levels: that is a table.
        codes = np.arange(2**weight.bits)
        table = weight.scale.astype(np.float64) * (codes - weight.zero.astype(np.float64))
        source = weight.scale.dtype
    else:
        scale, zero = (
            cuda.to_device(np.ascontiguousarray(part, dtype=np.float32))
            for part in (weight.scale, weight.zero)
        )
        return DeviceWeight(
            weight.shape, weight.bits, words, scale, zero, weight.group_size, **common
        )
    if source == np.float16:
        halves = np.ascontiguousarray(table, dtype=np.float16).reshape(m, -1)
        common["halves"] = cuda.to_device(halves.view(np.uint16))
        common["half_type"] = "float16"
    levels = cuda.to_device(np.ascontiguousarray(table, dtype=np.float32))
    return DeviceWeight(weight.shape, weight.bits, words, levels, **common)
