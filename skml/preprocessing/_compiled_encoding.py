"""An encoding as one operation: both kinds of functions, LayerNorm and scale.

What a training step of a small layer costs is mostly what happens between operations, so that one
operation with one gradient is faster than one for each part.
"""

import numpy as np
import torch

from ._compiled_ops import as_arrays, gradients_in_torch, suits_compiled_code
from ._encoding_norm import norm_gradients, norm_in_torch, norm_values
from ._function_sums import sum_gradients, sum_in_torch, sum_values


def compiled_encoding(fourier, spline, norm, scale, tau):
    """Encode scaled times in compiled code, if it can.

    Parameters
    ----------
    fourier, spline : FourierFunctions and SplineFunctions
        The functions.
    norm : torch.nn.LayerNorm
        The normalisation.
    scale : torch.Tensor of shape (n_components,) or None
        Factors of the normalised components.
    tau : torch.Tensor of shape (n,)
        Scaled times.

    Returns
    -------
    torch.Tensor of shape (n, n_components) or None
        The vectors; None if it is left to the parts to make them.
    """
    bases = fourier.basis, spline.basis
    tensors = tau, *fourier.tensors(), *spline.tensors(), norm.weight, norm.bias, scale
    given = [tensor for tensor in tensors if tensor is not None]
    if suits_compiled_code(*given) and all(basis.kernel is not None for basis in bases):
        return CompiledEncoding.apply((*bases, norm.eps), *tensors)
    return None


class CompiledEncoding(torch.autograd.Function):
    """LayerNorm and scale of two blocks of function sums, in compiled code.

    The tensors are tau, those of `function_sum` for either block, and those of the normalisation.
    """

    @staticmethod
    def forward(ctx, setting, tau, *tensors):
        *bases, eps = setting
        ctx.save_for_backward(tau, *tensors)
        ctx.setting = setting
        ctx.arrays = arrays = as_arrays(tau, *tensors)
        starts = [
            basis.start(phase.unsqueeze(-1), omega.unsqueeze(-1), tau)
            for basis, (omega, phase) in zip(bases, (tensors[:2], tensors[5:7]), strict=True)
        ]
        ctx.starts = as_arrays(*starts)
        vectors = tau.new_empty(len(tau), len(tensors[-2]))
        ctx.rows = np.empty(vectors.shape[::-1], dtype=arrays[0].dtype)
        _, *blocks, norm = _parts(arrays)
        blocks_of_rows = _blocks(ctx.rows, blocks)
        for basis, start, block, sums in zip(
            bases, ctx.starts, blocks, blocks_of_rows, strict=True
        ):
            sum_values(basis, start, *block[2:], sums)
        norm_values(eps, *blocks_of_rows, *norm, *as_arrays(vectors))
        return vectors

    @staticmethod
    def backward(ctx, gradient):
        if torch.is_grad_enabled():
            return gradients_in_torch(_encoding_in_torch, ctx, gradient, ctx.setting)
        *bases, eps = ctx.setting
        # Asked for, so that torch complains of tensors that have changed since.
        tensors = ctx.saved_tensors
        results = [None if tensor is None else tensor.new_empty(tensor.shape) for tensor in tensors]
        results[0] = None
        tau, *blocks, norm = _parts(ctx.arrays)
        _, *to_blocks, to_norm = _parts(as_arrays(*results))
        blocks_of_rows = _blocks(ctx.rows, blocks)
        blocks_of_slopes = _blocks(np.empty_like(ctx.rows), blocks)
        norm_gradients(
            eps, *blocks_of_rows, *norm, *as_arrays(gradient), *blocks_of_slopes, *to_norm
        )
        to_tau = [None, None]
        if ctx.needs_input_grad[1]:
            to_tau = [tensors[0].new_empty(len(tau)) for _ in bases]
        for basis, start, block, slopes, to_times, to_block in zip(
            bases, ctx.starts, blocks, blocks_of_slopes, as_arrays(*to_tau), to_blocks, strict=True
        ):
            omega, _, _, *weights = block
            sum_gradients(basis, start, tau, omega, *weights, slopes, to_times, *to_block)
        if ctx.needs_input_grad[1]:
            results[0] = to_tau[0] + to_tau[1]
        return None, *results


def _parts(arrays):
    """Times, the five arrays of the first block and of the second, the three of the norm."""
    return arrays[0], arrays[1:6], arrays[6:11], arrays[11:]


def _blocks(rows, blocks):
    n_upper = len(blocks[0][0])
    return rows[:n_upper], rows[n_upper:]


def _encoding_in_torch(setting, tau, *tensors):
    *bases, eps = setting
    _, *blocks, norm = _parts((tau, *tensors))
    sums = [sum_in_torch(basis, tau, *block) for basis, block in zip(bases, blocks, strict=True)]
    return norm_in_torch(eps, *sums, *norm)
