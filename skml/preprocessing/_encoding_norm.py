"""LayerNorm of encodings whose components are rows: short vectors, many of them."""

import torch

from ._compiled_ops import as_arrays, gradients_in_torch, suits_compiled_code, thread_count
from ._norm_kernel import normalise, normalise_slope

# Sweeps over the components: what work a value is, for the number of threads.
_STEPS = 4


def normalised_vectors(upper, lower, norm, scale):
    """Apply LayerNorm and a scale to vectors that are the columns of two arrays.

    Parameters
    ----------
    upper, lower : torch.Tensor of shape (n_upper, n) and (n_lower, n)
        The first and the other components, each of all points.
    norm : torch.nn.LayerNorm
        The normalisation, with weight and bias.
    scale : torch.Tensor of shape (n_components,) or None
        Factors of the normalised components.

    Returns
    -------
    torch.Tensor of shape (n, n_components)
        The vectors.
    """
    tensors = [upper, lower, norm.weight, norm.bias] + ([] if scale is None else [scale])
    if suits_compiled_code(*tensors):
        return CompiledNorm.apply(norm.eps, upper, lower, norm.weight, norm.bias, scale)
    return norm_in_torch(norm.eps, upper, lower, norm.weight, norm.bias, scale)


def norm_in_torch(eps, upper, lower, weight, bias, scale):
    if scale is not None:
        weight, bias = weight * scale, bias * scale
    rows = torch.cat((upper, lower))
    centred = rows - rows.mean(dim=0)
    normalised = centred * (centred.square().mean(dim=0) + eps).rsqrt()
    return torch.addcmul(bias.unsqueeze(-1), normalised, weight.unsqueeze(-1)).T


class CompiledNorm(torch.autograd.Function):
    """`normalised_vectors` in compiled code."""

    @staticmethod
    def forward(ctx, eps, upper, lower, weight, bias, scale):
        ctx.save_for_backward(upper, lower, weight, bias, scale)
        ctx.eps = eps
        vectors = upper.new_empty(upper.shape[1], len(weight))
        arrays = as_arrays(upper, lower, weight, bias, scale, vectors)
        normalise(*arrays, eps, thread_count(vectors.numel(), _STEPS))
        return vectors

    @staticmethod
    def backward(ctx, gradient):
        if torch.is_grad_enabled():
            return gradients_in_torch(norm_in_torch, ctx, gradient, ctx.eps)
        tensors = ctx.saved_tensors
        results = [None if tensor is None else tensor.new_empty(tensor.shape) for tensor in tensors]
        arrays = as_arrays(*tensors, gradient, *results)
        normalise_slope(*arrays, ctx.eps, thread_count(gradient.numel(), _STEPS))
        return None, *results
