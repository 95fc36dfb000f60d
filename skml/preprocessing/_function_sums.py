"""Sums of learnable functions of linear maps of time, with gradients."""

import torch

from ._compiled_ops import as_arrays, gradients_in_torch, suits_compiled_code, thread_count


def function_sum(basis, tau, omega, phase, constant, first_weight, second_weight):
    """Sum weighted functions of linear maps of time.

    Parameters
    ----------
    basis : HarmonicBasis or SplineBasis
        The functions f_r.
    tau : torch.Tensor of shape (n,)
        Scaled times.
    omega, phase : torch.Tensor of shape (n_dims,)
        Slopes and constants of the linear maps x_i = omega_i tau + phase_i.
    constant : torch.Tensor of shape (n_dims,) or None
        What is added to each output; None: nothing.
    first_weight, second_weight : torch.Tensor
        What the basis joins to weights of shape (n_dims, n_dims, n_functions; output, input,
        function), or (n_dims, n_functions) if each output has its own linear map alone.

    Returns
    -------
    torch.Tensor of shape (n_dims, n)
        Output j is sum_i sum_r weight[j, i, r] f_r(x_i) + constant_j.
    """
    arguments = basis, tau, omega, phase, constant, first_weight, second_weight
    tensors = [argument for argument in arguments[1:] if argument is not None]
    if suits_compiled_code(*tensors) and basis.kernel is not None:
        return CompiledSum.apply(*arguments)
    return sum_in_torch(*arguments)


def sum_in_torch(basis, tau, omega, phase, constant, *weights):
    functions = basis.functions(torch.addcmul(phase.unsqueeze(-1), omega.unsqueeze(-1), tau))
    weight = basis.join(*weights)
    if weight.ndim == 3:
        sums = weight.flatten(1) @ functions.flatten(0, 1)
    else:
        sums = (weight.unsqueeze(1) @ functions).squeeze(1)
    return sums if constant is None else sums + constant.unsqueeze(-1)


class CompiledSum(torch.autograd.Function):
    """`function_sum` in compiled code.

    The functions are never stored: the gradient evaluates them once more, which is faster than to
    fetch them from memory.
    """

    @staticmethod
    def forward(ctx, basis, tau, omega, phase, constant, *weights):
        ctx.save_for_backward(tau, omega, phase, constant, *weights)
        ctx.basis = basis
        ctx.start = start = basis.start(phase, omega, tau)
        sums = tau.new_empty(start[0].shape)
        arrays = as_arrays(*start, constant, *weights, sums)
        sum_values(basis.kernel, *arrays, thread_count(sums.numel(), basis.n_functions))
        return sums

    @staticmethod
    def backward(ctx, gradient):
        if torch.is_grad_enabled():
            return gradients_in_torch(sum_in_torch, ctx, gradient, ctx.basis)
        tensors = ctx.saved_tensors
        results = [None if tensor is None else tensor.new_empty(tensor.shape) for tensor in tensors]
        if not ctx.needs_input_grad[1]:
            results[0] = None
        tau, omega, _, _, *weights = tensors
        arrays = as_arrays(*ctx.start, tau, omega, *weights, gradient, *results)
        n_threads = thread_count(gradient.numel(), ctx.basis.n_functions)
        sum_gradients(ctx.basis.kernel, *arrays, n_threads)
        return None, *results


def sum_values(kernel, first, second, constant, first_weight, second_weight, sums, n_threads):
    """Write the sums (n_dims, n) of the arrays of `function_sum`, from ``basis.start``."""
    # The kernel takes weights flat: it knows their shape by their number.
    weights = first_weight.reshape(-1), second_weight.reshape(-1)
    kernel.values(first, second, *weights, constant, sums, n_threads)


def sum_gradients(
    kernel,
    first,
    second,
    tau,
    omega,
    first_weight,
    second_weight,
    gradient,
    to_tau,
    to_omega,
    to_phase,
    to_constant,
    to_first_weight,
    to_second_weight,
    n_threads,
):
    """Write the gradients of the arrays of `function_sum`, from that of the sums."""
    kernel.gradients(
        first,
        second,
        tau,
        omega,
        first_weight.reshape(-1),
        second_weight.reshape(-1),
        gradient,
        to_tau,
        to_omega,
        to_phase,
        to_constant,
        to_first_weight.reshape(-1),
        to_second_weight.reshape(-1),
        n_threads,
    )
