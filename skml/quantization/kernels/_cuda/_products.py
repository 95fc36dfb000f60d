"""The public products for ``backend="cuda"``: arguments of any library in, its own arrays out."""

from contextlib import contextmanager, nullcontext

import numpy as np
from numba import cuda

from skml.quantization.kernels._arguments import check_bias, check_offsets, run_on_host

from ._arrays import send, wrap
from ._multiply import (
    add_bias,
    multiply,
    n_processors,
    nothing,
    run_dequantize,
    run_tensor_core,
)
from ._plan import KERNEL_ROWS, plan_tensor_core
from ._problems import device_problems, multiply_problems
from ._tensor_core import BITS, HALF_TYPES, arranged_size
from ._weights import device_weight

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def matmul(X, weight, bias, out):
    """``lut_matmul`` and ``uniform_matmul`` on the device."""
    if wrap(X) is not None:
        return device_matmul(X, weight.shape, lambda: device_weight(weight), bias, out)

    def compute(x, bias, target, stream):
        multiply(x.show(), device_weight(weight), bias, target.show(), stream)

    return _run_from_host(X, weight.shape, bias, out, compute)


def device_matmul(X, shape, get_weight, bias=None, out=None):
    """Product of an array on the device by the kernels that suit its type and size.

    Parameters
    ----------
    X : array on the device, shape (B, n)
    shape : tuple of (int, int)
        Shape of the weight.
    get_weight : callable
        Returns the DeviceWeight, on the device of X.
    bias : array of shape (m,) or None
    out : array of float32 on the device, shape (B, m), or None

    Returns
    -------
    array of the library of X, shape (B, m)
    """

    def compute(x, bias, target, stream):
        weight = get_weight()
        if x.shape[0] > KERNEL_ROWS and dense_product(x, weight, bias, target, stream):
            return
        multiply(x.cast("float32").show(), weight, bias, target.show(), stream)

    def compute_halves(x, bias, stream):
        weight = get_weight()
        return tensor_product(x, weight, bias, stream) if suits(x, weight) else None

    return _run(X, shape, bias, out, compute, compute_halves)


def suits(x, weight):
    """Whether tensor cores multiply this without rounding anything first."""
    return (
        x.shape[0] <= KERNEL_ROWS
        and x.dtype == weight.half_type
        and weight.halves is not None
        and weight.bits in BITS
        and weight.outliers is None
    )


def tensor_product(x, weight, bias, stream):
    """Product of up to 64 rows of halves in their own type, on tensor cores."""
    n_samples, m = x.shape[0], weight.shape[0]
    target = x.empty((n_samples, m), x.dtype)
    plan = plan_tensor_core(weight.shape, n_samples, weight.n_words, n_processors())
    size = arranged_size(weight.bits, plan.columns, weight.n_words)
    arranged = x.empty((size,), "int16")
    shown = target.show("uint16" if x.dtype == "bfloat16" else None)
    run_tensor_core(
        plan, x.cast(x.dtype).show("uint16"), arranged.show("uint16"), weight, bias,
        shown.reshape(1, n_samples, m), x.dtype, stream,
    )  # fmt: skip
    return target


def int8_matmul(X, weight, bias, out, act_bits, act_group):
    """``int8_matmul`` on the device: a grouped product of one problem."""

    def compute(x, bias, target, stream):
        problems = device_problems([weight])
        whole = problems.whole(x.shape[0])
        _run_problems(x, problems, whole, bias, target, stream, (act_bits, act_group))

    return _run(X, weight.shape, bias, out, compute)


def grouped_matmul(X, weights, offsets, out):
    """``grouped_matmul`` on the device; offsets that lie there are taken as they are."""
    known = wrap(offsets)
    if known is None:
        offsets = check_offsets(offsets, len(weights), len(X))
    elif known.shape != (len(weights) + 1,) or known.dtype not in ("int32", "int64"):
        raise ValueError(
            f"offsets must be {len(weights) + 1} integers, one more than weights, got "
            f"{known.dtype} of shape {known.shape}."
        )

    def compute(x, bias, target, stream):
        where = send(offsets, np.int64) if known is None else known.cast("int64")
        _run_problems(x, device_problems(weights), where.show(), bias, target, stream)

    return _run(X, weights[0].shape, None, out, compute)


def _run_problems(x, problems, offsets, bias, target, stream, rounding=None):
    def scratch(shape, dtype):
        return x.empty(shape, dtype).show()

    inputs = x.cast("float32").show()
    multiply_problems(inputs, problems, offsets, bias, target.show(), scratch, stream, rounding)


def dense_product(x, weight, bias, target, stream):
    """Write the weight out and let cuBLAS multiply; False where x's library has no product."""
    dense = x.empty(weight.shape, "float32")
    if not dense.has_product:
        return False
    run_dequantize(weight, dense.show(), stream)
    x.cast("float32").product(dense, target)
    if bias.size:
        add_bias(bias, target.show(), stream)
    return True


def _run(X, shape, bias, out, compute, compute_halves=None):
    """Check the arguments, compute, and return what was asked for.

    ``compute(x, bias, target, stream)`` fills a target in float32. ``compute_halves(x, bias,
    stream)`` is asked first where the result has 16 bits; it returns None if it has no way.
    """
    m, n = shape
    x = wrap(X)
    if x is None:
        return _run_from_host(X, shape, bias, out, compute)
    _check_device_inputs(x, n)
    with on_device(x.device):
        result_type = x.dtype if x.dtype in _FLOATS else "float32"
        given = None if out is None else _check_device_output(out, x, (x.shape[0], m))
        if x.shape[0] == 0 or m == 0:
            return out if out is not None else x.empty((x.shape[0], m), result_type).native
        bias, stream = _device_bias(bias, m), x.stream()
        if compute_halves is not None and given is None and x.dtype in HALF_TYPES:
            target = compute_halves(x, bias, stream)
            if target is not None:
                return target.native
        target = x.empty((x.shape[0], m), "float32") if given is None else given
        compute(x, bias, target, stream)
        return target.cast(result_type).native if given is None else out


def _run_from_host(X, shape, bias, out, compute):
    def compute_on_device(X, bias, target):
        if target.size:
            x = send(X, np.float32)
            result = x.empty(target.shape, "float32")
            compute(x, nothing() if bias is None else send(bias, np.float32).show(), result, 0)
            result.native.copy_to_host(target)

    return run_on_host(X, shape, bias, out, compute_on_device)


def _check_device_inputs(x, n):
    if len(x.shape) != 2 or not x.dtype.startswith(("float", "bfloat", "int", "uint", "bool")):
        raise ValueError(
            f"X must be a real 2-D array (n_samples, {n}), got {len(x.shape)}-D {x.dtype}."
        )
    if x.shape[1] != n:
        raise ValueError(f"X has {x.shape[1]} columns, but the weight has {n} inputs.")


def _check_device_output(out, x, shape):
    given = wrap(out)
    if given is None or given.device != x.device:
        raise ValueError("out must lie on the device of X.")
    if given.shape != shape or given.dtype != "float32" or not given.show().is_c_contiguous():
        raise ValueError(
            f"out must be a C-ordered float32 array of shape {shape}, got {given.dtype} of shape "
            f"{given.shape}."
        )
    return given


def _device_bias(bias, m):
    if bias is None:
        return nothing()
    known = wrap(bias)
    if known is None:
        return send(check_bias(bias, m), np.float32).show()
    if known.shape != (m,):
        raise ValueError(f"bias must have shape ({m},), got {known.shape}.")
    return known.cast("float32").show()


@contextmanager
def on_device(index):
    """Make a device current for a while; None leaves the one that is."""
    with nullcontext() if index is None else cuda.gpus[index]:
        yield
