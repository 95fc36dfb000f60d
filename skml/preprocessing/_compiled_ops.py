"""What the torch operations that run in our compiled code share."""

import torch
from torch import nn
from torch.autograd import forward_ad

# Steps that a thread must have to do to be worth being woken.
_STEPS_PER_THREAD = 2**18


def suits_compiled_code(*tensors):
    """Say whether compiled code can work on tensors.

    Parameters
    ----------
    *tensors : torch.Tensor
        The arguments of an operation.

    Returns
    -------
    bool
        True for ordinary tensors of the CPU, all float32 or all float64, whose gradients at most
        are wanted. False for tensors that only stand for numbers, as when torch.compile reads a
        model, and inside the transformations of torch.func and forward differentiation.
    """
    if (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        # There is no public way to ask these two; torch.autograd asks them in the same words.
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
    ):
        return False
    dtype = tensors[0].dtype
    return dtype in (torch.float32, torch.float64) and all(
        type(tensor) in (torch.Tensor, nn.Parameter) and tensor.is_cpu and tensor.dtype == dtype
        for tensor in tensors
    )


def gradients_in_torch(function, ctx, gradient, setting):
    """Gradients of an operation that may be differentiated again.

    Parameters
    ----------
    function : callable
        The operation in torch, called as ``function(setting, *saved)``.
    ctx : torch.autograd.function.FunctionCtx
        Its saved tensors (some may be None) are what the operation was applied to.
    gradient : torch.Tensor
        Gradient with respect to the result.
    setting : object
        First argument of the operation, which is no tensor.

    Returns
    -------
    tuple of torch.Tensor or None
        Gradients with respect to the arguments of the operation.
    """
    arguments = (setting, *ctx.saved_tensors)
    needed = [i for i, is_needed in enumerate(ctx.needs_input_grad) if is_needed]
    gradients = [None] * len(arguments)
    found = torch.autograd.grad(
        function(*arguments), [arguments[i] for i in needed], gradient, create_graph=True
    )
    for i, value in zip(needed, found, strict=True):
        gradients[i] = value
    return tuple(gradients)


def as_arrays(*tensors):
    """View tensors as arrays for a kernel; only those that are not contiguous are copied.

    Parameters
    ----------
    *tensors : torch.Tensor or None
        Tensors that `suits_compiled_code`; None stays None.

    Returns
    -------
    list of ndarray or None
        The arrays.
    """
    return [None if tensor is None else _as_array(tensor) for tensor in tensors]


def _as_array(tensor):
    # Small layers spend much of their time in calls like these: none is made without need.
    if tensor.requires_grad:
        tensor = tensor.detach()
    return (tensor if tensor.is_contiguous() else tensor.contiguous()).numpy()


def thread_count(n_values, work):
    """Number of threads for an operation, at most torch's own.

    Parameters
    ----------
    n_values : int
        Number of values that the operation makes.
    work : int
        Roughly how many steps it takes for each value.

    Returns
    -------
    int
        Number of threads.
    """
    return max(1, min(torch.get_num_threads(), n_values * work // _STEPS_PER_THREAD))
