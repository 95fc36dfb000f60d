"""An encoding as one operation: both kinds of functions, LayerNorm and scale.

What a training step of a small layer costs is mostly what happens between operations, so that one
operation with one gradient is faster than one for each part.
"""

import numpy as np
import torch

from ._compiled_ops import as_arrays, gradients_in_torch, suits_compiled_code, thread_count
from ._encoding_norm import norm_in_torch
from ._function_sums import sum_gradients, sum_in_torch, sum_values
from ._norm_kernel import normalise, normalise_slope


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
    kernels = fourier.basis.kernel, spline.basis.kernel
    tensors = tau, *fourier.tensors(), *spline.tensors(), norm.weight, norm.bias, scale
    given = [tensor for tensor in tensors if tensor is not None]
    if None in kernels or not suits_compiled_code(*given):
        return None
    return CompiledEncoding.apply((fourier.basis, spline.basis, norm.eps), *tensors)


class CompiledEncoding(torch.autograd.Function):
    """LayerNorm and scale of two blocks of function sums, in compiled code.

    The tensors are tau, those of `function_sum` for either block, and those of the normalisation.
    """

    @staticmethod
    def forward(ctx, setting, tau, *tensors):
        ctx.save_for_backward(tau, *tensors)
        ctx.setting = fourier, spline, eps = setting
        vectors = tau.new_empty(len(tau), len(tensors[-2]))
        ctx.n_threads = n_threads = thread_count(vectors.numel(), fourier.n_functions)
        omega, phase, *_ = tensors
        ctx.upper_start = as_arrays(*fourier.start(phase, omega, tau))
        omega, phase = tensors[5:7]
        ctx.lower_start = as_arrays(*spline.start(phase, omega, tau))
        ctx.arrays = arrays = as_arrays(tau, *tensors)
        ctx.rows = np.empty(vectors.shape[::-1], dtype=arrays[0].dtype)
        _, upper, lower, norm = _parts(arrays)
        upper_rows, lower_rows = _blocks(ctx.rows, upper)
        sum_values(fourier.kernel, *ctx.upper_start, *upper[2:], upper_rows, n_threads)
        sum_values(spline.kernel, *ctx.lower_start, *lower[2:], lower_rows, n_threads)
        normalise(upper_rows, lower_rows, *norm, vectors.numpy(), eps, n_threads)
        return vectors

    @staticmethod
    def backward(ctx, gradient):
        if torch.is_grad_enabled():
            return gradients_in_torch(_encoding_in_torch, ctx, gradient, ctx.setting)
        fourier, spline, eps = ctx.setting
        n_threads = ctx.n_threads
        # Asked for, so that torch complains of tensors that have changed since.
        tensors = ctx.saved_tensors
        results = [None if tensor is None else tensor.new_empty(tensor.shape) for tensor in tensors]
        tau, upper, lower, norm = _parts(ctx.arrays)
        to_tau, to_upper, to_lower, to_norm = _parts(as_arrays(*results))
        upper_slopes, lower_slopes = _blocks(np.empty_like(ctx.rows), upper)
        normalise_slope(
            *_blocks(ctx.rows, upper),
            *norm,
            *as_arrays(gradient),
            upper_slopes,
            lower_slopes,
            *to_norm,
            eps,
            n_threads,
        )
        needs_tau = ctx.needs_input_grad[1]
        first_to_tau = np.empty_like(tau) if needs_tau else None
        for kernel, start, block, slopes, to_times, to_block in (
            (fourier.kernel, ctx.upper_start, upper, upper_slopes, first_to_tau, to_upper),
            (spline.kernel, ctx.lower_start, lower, lower_slopes, to_tau, to_lower),
        ):
            to_times = to_times if needs_tau else None
            omega, _, _, *weights = block
            sum_gradients(
                kernel, *start, tau, omega, *weights, slopes, to_times, *to_block, n_threads
            )
        if needs_tau:
            to_tau += first_to_tau
        else:
            results[0] = None
        return None, *results


def _parts(arrays):
    """Times, the five arrays of the first block and of the second, the three of the norm."""
    return arrays[0], arrays[1:6], arrays[6:11], arrays[11:]


def _blocks(rows, upper):
    n_upper = len(upper[0])
    return rows[:n_upper], rows[n_upper:]


def _encoding_in_torch(setting, tau, *tensors):
    *bases, eps = setting
    _, *blocks, norm = _parts((tau, *tensors))
    sums = [sum_in_torch(basis, tau, *block) for basis, block in zip(bases, blocks, strict=True)]
    return norm_in_torch(eps, *sums, *norm)
