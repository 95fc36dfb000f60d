"""The weights of a grouped product, one after the other in the memory of the device."""

from functools import cached_property
from weakref import WeakKeyDictionary, ref

import numpy as np
from numba import cuda

from skml.quantization._weights import LUTWeight

from . import _epilogue
from ._arrays import current_device
from ._grouped import TILE_COLUMNS, grouped
from ._intrinsics import SIMULATED, WARP
from ._multiply import n_processors
from ._rounding import round_inputs
from ._tiles import LUT, THREADS, TILE_ROWS, UNIFORM

_BLOCKS_PER_PROCESSOR = 2


class DeviceProblems:
    """Weights of one shape, in one array each of codes, levels and zeros.

    Parameters
    ----------
    weights : list of LUTWeight or UniformWeight
        The weights, none with rows of different number.
    """

    def __init__(self, weights):
        self.shape = weights[0].shape
        m, n = self.shape
        words, levels, zeros, table = [], [], [], []
        n_words = n_levels = 0
        for weight in weights:
            if isinstance(weight, LUTWeight):
                kind, level, zero = LUT, weight.codebook, weight.codebook
                group_size, n_groups, act_bits, act_group = n, 1, 0, n
            else:
                kind, level, zero = UNIFORM, weight.scale, weight.zero
                group_size, n_groups = weight.group_size or n, weight.n_groups
                act_bits = weight.act_bits or 0
                act_group = n if weight.act_group == -1 else weight.act_group
            words.append(np.asarray(weight.codes).reshape(-1))
            levels.append(np.asarray(level, dtype=np.float32).reshape(-1))
            zeros.append(np.asarray(zero, dtype=np.float32).reshape(-1))
            table.append(
                (n_words, n_levels, weight.bits, kind, group_size, n_groups,
                 weight.codes.shape[1], act_bits, act_group)
            )  # fmt: skip
            n_words, n_levels = n_words + words[-1].size, n_levels + levels[-1].size
        self.words, self.levels, self.zeros = (
            cuda.to_device(np.concatenate(parts)) for parts in (words, levels, zeros)
        )
        self.outliers = _join_outliers([weight._kernel_outliers() for weight in weights], m)
        self._table = np.array(table, dtype=np.int64)
        self._tables = {}

    def table(self, rounding=None):
        """Table of the problems, and the largest number of groups of rounded inputs.

        Parameters
        ----------
        rounding : tuple of (int, int) or None
            Bits and group of the inputs of every problem; None takes the weights' own.

        Returns
        -------
        tuple of (device array of int64 (n_problems, 9), int)
            The number is 0 if no problem rounds its inputs.
        """
        if rounding not in self._tables:
            table, n = self._table.copy(), self.shape[1]
            if rounding is not None:
                bits, group = rounding
                table[:, -2:] = bits, n if group == -1 else group
            groups = [-(-n // row[-1]) for row in table.tolist() if row[-2]]
            self._tables[rounding] = cuda.to_device(table), max(groups, default=0)
        return self._tables[rounding]

    @cached_property
    def one_problem(self):
        """Offsets of a single problem by its number of rows."""
        return {}

    def whole(self, n_samples):
        """Offsets on the device that give all rows to one problem."""
        if n_samples not in self.one_problem:
            bounds = np.array([0, n_samples], dtype=np.int64)
            self.one_problem[n_samples] = cuda.to_device(bounds)
        return self.one_problem[n_samples]


def _join_outliers(parts, m):
    """Row bounds (n_problems, m + 1), columns and values of all sparse parts; None if empty."""
    nothing = np.zeros(m + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)
    parts = [nothing if part is None else part for part in parts]
    sizes = [part[2].size for part in parts]
    if not sum(sizes):
        return None
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    bounds = np.stack([part[0] + start for part, start in zip(parts, starts, strict=True)])
    columns, values = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    return tuple(cuda.to_device(array) for array in (bounds, columns, values))


_known = WeakKeyDictionary()


def device_problems(weights):
    """The weights on the current device; kept as long as the first of them lives.

    Parameters
    ----------
    weights : sequence of LUTWeight or UniformWeight

    Returns
    -------
    DeviceProblems
    """
    device = current_device()
    entries = _known.setdefault(weights[0], [])
    for known_device, members, problems in entries:
        if known_device == device and len(members) == len(weights):
            if all(member() is weight for member, weight in zip(members, weights, strict=True)):
                return problems
    problems = DeviceProblems(weights)
    entries.append((device, [ref(weight) for weight in weights], problems))
    return problems


def multiply_problems(x, problems, offsets, bias, out, scratch, stream, rounding=None):
    """Compute all products: out[rows of i] = x[rows of i] @ weight_i.T + bias.

    Parameters
    ----------
    x : device array of float32, shape (B, n)
    problems : DeviceProblems
    offsets : device array of int64, shape (n_problems + 1,)
    bias : device array of float32, shape (m,); empty for none
    out : device array of float32, shape (B, m)
    scratch : callable
        ``(shape, dtype) -> device array`` for rounded inputs.
    stream : stream of numba
    rounding : tuple of (int, int) or None
        See ``DeviceProblems.table``.
    """
    n_samples, n = x.shape
    table, n_groups = problems.table(rounding)
    n_quads = -(-n // 4)
    rounded = scratch((n_samples if n_groups else 1, 4 * n_quads), "int8")
    act_scales = scratch((n_samples if n_groups else 1, max(n_groups, 1)), "float32")
    if n_groups:
        round_inputs()[(n_samples, n_groups), WARP, stream](table, offsets, x, rounded, act_scales)
    tiles = -(-problems.shape[0] // TILE_ROWS) * (-(-n_samples // TILE_COLUMNS) + table.shape[0])
    blocks = min(tiles, 3 if SIMULATED else _BLOCKS_PER_PROCESSOR * n_processors())
    grouped()[blocks, THREADS, stream](
        table, offsets, problems.words, problems.levels, problems.zeros, x,
        rounded.view(np.uint32), act_scales, bias, out,
    )  # fmt: skip
    if problems.outliers is not None:
        grid = (-(-problems.shape[0] // (_epilogue.THREADS // WARP)), n_samples)
        _epilogue.add_grouped_outliers()[grid, _epilogue.THREADS, stream](
            offsets, *problems.outliers, x, out
        )
