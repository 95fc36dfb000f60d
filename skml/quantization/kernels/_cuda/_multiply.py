"""Launches: one product of arrays that lie on the device."""

import numpy as np
from numba import cuda

from . import _dense, _epilogue
from ._arrays import current_device, workspace
from ._gemv import WARPS, lut_gemv, uniform_gemv, widest
from ._intrinsics import SIMULATED, WARP
from ._plan import plan_gemv, plan_small_batch
from ._small_batch import small_batch
from ._tensor_core import (
    ARRANGE_THREADS,
    arrange_inputs,
    tensor_core,
)
from ._tensor_core import THREADS as TENSOR_THREADS
from ._tiles import LUT
from ._tiles import THREADS as TILE_THREADS

_nothing = {}


def n_processors():
    """Processors of the current device; the simulator has few, so that grids stay small."""
    return 2 if SIMULATED else cuda.get_current_device().MULTIPROCESSOR_COUNT


def nothing():
    """An empty array, which stands for no bias."""
    device = current_device()
    if device not in _nothing:
        _nothing[device] = cuda.to_device(np.empty(0, dtype=np.float32))
    return _nothing[device]


def multiply(x, weight, bias, out, stream, pairs="auto"):
    """Compute out = x @ weight.T + bias in float32, whatever the number of rows of x.

    Parameters
    ----------
    x : device array of float32, shape (B, n)
    weight : DeviceWeight
    bias : device array of float32, shape (m,); empty for none
    out : device array of float32, shape (B, m)
    stream : stream of numba
        Where the kernels are put.
    pairs : {"auto", None, "float", "half"}
        See ``plan_gemv``.
    """
    if x.shape[0] <= widest(weight.bits):
        plan = plan_gemv(
            weight.bits,
            weight.kind,
            weight.shape,
            x.shape[0],
            weight.n_words,
            n_processors(),
            pairs,
        )
        run_gemv(plan, x, weight, bias, out, stream)
    else:
        plan = plan_small_batch(weight.shape, x.shape[0], weight.n_words, n_processors())
        run_small_batch(plan, x, weight, bias, out, stream)
    if weight.outliers is not None:
        grid = (-(-weight.shape[0] // (_epilogue.THREADS // WARP)), x.shape[0])
        kernel = _epilogue.add_outliers()
        kernel[grid, _epilogue.THREADS, stream](*weight.outliers, x, out)


def run_gemv(plan, x, weight, bias, out, stream):
    """Launch the kernels that give a warp whole rows of the weight."""
    sizes = (weight.shape[1], weight.n_words, plan.split_blocks)
    target, plan_bias = _target(plan, bias, out, stream)
    launch = plan.grid, WARPS * WARP, stream
    if weight.kind == LUT:
        kernel = lut_gemv(weight.bits, plan.columns, plan.pairs)
        kernel[launch](weight.words, weight.levels, x, plan_bias, target, *sizes)
    else:
        kernel = uniform_gemv(weight.bits, plan.columns, weight.group_size % 16 == 0)
        kernel[launch](
            weight.words, weight.levels, weight.zeros, x, plan_bias, target, *sizes,
            weight.group_size,
        )  # fmt: skip
    _add_splits(plan, target, bias, out, stream)


def run_small_batch(plan, x, weight, bias, out, stream):
    """Launch the kernel that multiplies decoded tiles."""
    target, plan_bias = _target(plan, bias, out, stream)
    kernel = small_batch(weight.bits, weight.kind, plan.columns)
    kernel[plan.grid, TILE_THREADS, stream](
        weight.words, *weight.flat_levels, x, plan_bias, target, weight.shape[1], weight.n_words,
        plan.split_blocks, *_groups(weight),
    )  # fmt: skip
    _add_splits(plan, target, bias, out, stream)


def run_tensor_core(plan, x, arranged, weight, bias, out, out_type, stream):
    """Launch the kernels that multiply levels of 16 bits on tensor cores.

    Parameters
    ----------
    plan : Plan
    x : device array of uint16, shape (B, n)
        Inputs in the type of the weight's ``halves``.
    arranged : device array of uint16, flat
        Room for the inputs in another order, ``arranged_size`` of them.
    weight : DeviceWeight
    bias : device array of float32, shape (m,); empty for none
    out : device array, shape (1, B, m)
        The result in ``out_type``, see ``writer``.
    """
    bits, tiles = weight.bits, plan.columns
    blocks = -(-arranged.size // (4 * ARRANGE_THREADS))
    arrange_inputs(bits, tiles)[blocks, ARRANGE_THREADS, stream](x, arranged, weight.shape[1])
    target, target_type, target_bias = out, out_type, bias
    if plan.splits > 1:
        target = workspace(stream, (plan.splits, *out.shape[1:]))
        target_type, target_bias = "float32", nothing()
    kernel = tensor_core(bits, tiles, weight.half_type, plan.k_parts, target_type)
    kernel[plan.grid, TENSOR_THREADS, stream](
        weight.words, weight.halves, arranged, target_bias, target, weight.n_words,
        plan.split_blocks,
    )  # fmt: skip
    if plan.splits > 1:
        _launch_add_splits(target, bias, out, out_type, stream)


def run_dequantize(weight, dense, stream):
    """Write the weight, outliers included, to ``dense`` (m, n)."""
    m, n = weight.shape
    kernel = _dense.dequantize(weight.bits, weight.kind)
    kernel[(-(-n // _dense.THREADS), m), _dense.THREADS, stream](
        weight.words, *weight.flat_levels, dense, weight.n_words, *_groups(weight)
    )
    if weight.outliers is not None:
        _dense.scatter_outliers()[m, _dense.THREADS, stream](*weight.outliers, dense)


def add_bias(bias, out, stream):
    """Add the bias to a product that lies in ``out``."""
    whole = out.reshape(1, *out.shape)
    _launch_add_splits(whole, bias, whole, "float32", stream)


def _target(plan, bias, out, stream):
    """Where the kernel writes, and the bias that it adds: none to one of several parts."""
    if plan.splits == 1:
        return out.reshape(1, *out.shape), bias
    return workspace(stream, (plan.splits, *out.shape)), nothing()


def _add_splits(plan, target, bias, out, stream):
    if plan.splits > 1:
        _launch_add_splits(target, bias, out.reshape(1, *out.shape), "float32", stream)


def _launch_add_splits(partial, bias, out, out_type, stream):
    grid = (-(-out.shape[2] // _epilogue.THREADS), out.shape[1])
    kernel = _epilogue.add_splits(out_type)
    kernel[grid, _epilogue.THREADS, stream](partial, bias, out)


def _groups(weight):
    return weight.group_size or weight.shape[1], weight.levels.shape[1]
