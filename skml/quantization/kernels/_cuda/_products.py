"""The public products for ``backend="cuda"``: arguments of any library in, its own arrays out."""

from contextlib import contextmanager, nullcontext

import numpy as np
from numba import cuda

from skml.quantization.kernels._arguments import (
    check_bias,
    check_inputs,
    check_offsets,
    finish,
    prepare_output,
)
from skml.quantization.kernels._cuda._arrays import send, wrap
from skml.quantization.kernels._cuda._multiply import (
    add_bias,
    multiply,
    nothing,
    run_dequantize,
)
from skml.quantization.kernels._cuda._plan import KERNEL_ROWS
from skml.quantization.kernels._cuda._problems import device_problems, multiply_problems
from skml.quantization.kernels._cuda._weights import device_weight

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def matmul(X, weight, bias, out):
    """``lut_matmul`` and ``uniform_matmul`` on the device."""

    def compute(x, bias, target, stream):
        device = device_weight(weight)
        if x.shape[0] > KERNEL_ROWS and dense_product(x, device, bias, target, stream):
            return
        multiply(x.show(), device, bias, target.show(), stream)

    return _run(X, weight.shape, bias, out, compute)


def int8_matmul(X, weight, bias, out, act_bits, act_group):
    """``int8_matmul`` on the device: a grouped product of one problem."""

    def compute(x, bias, target, stream):
        problems = device_problems([weight])
        multiply_problems(
            x.show(), problems, problems.whole(x.shape[0]), bias, target.show(), _scratch(x),
            stream, (act_bits, act_group),
        )  # fmt: skip

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
        problems = device_problems(weights)
        multiply_problems(
            x.show(), problems, where.show(), bias, target.show(), _scratch(x), stream
        )

    return _run(X, weights[0].shape, None, out, compute)


def dense_product(x, weight, bias, target, stream):
    """Write the weight out and let cuBLAS multiply; False where x's library has no product."""
    dense = x.empty(weight.shape, "float32")
    run_dequantize(weight, dense.show(), stream)
    if not x.product(dense, target):
        return False
    if bias.size:
        add_bias(bias, target.show(), stream)
    return True


def _run(X, shape, bias, out, compute):
    """Check the arguments, call ``compute(x, bias, target, stream)``, return what was asked for."""
    m, n = shape
    x = wrap(X)
    if x is None:
        return _run_from_host(X, shape, bias, out, compute)
    _check_device_inputs(x, n)
    with _on_device(x.device):
        result_type = x.dtype if x.dtype in _FLOATS else "float32"
        given = None if out is None else _check_device_output(out, x, (x.shape[0], m))
        if x.shape[0] == 0 or m == 0:
            return out if out is not None else x.empty((x.shape[0], m), result_type).native
        target = x.empty((x.shape[0], m), "float32") if given is None else given
        compute(x.cast("float32"), _device_bias(bias, m), target, x.stream())
        return target.cast(result_type).native if given is None else out


def _run_from_host(X, shape, bias, out, compute):
    m, n = shape
    X, result_type = check_inputs(X, n)
    bias = check_bias(bias, m)
    target = prepare_output(out, X, m)
    if target.size:
        x = send(X, np.float32)
        result = x.empty(target.shape, "float32")
        compute(x, nothing() if bias is None else send(bias, np.float32).show(), result, 0)
        result.native.copy_to_host(target)
    return finish(target, out, result_type)


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


def _scratch(x):
    """Memory of the library of x, which lets it go when the caller does."""
    return lambda shape, dtype: x.empty(shape, dtype).show()


@contextmanager
def _on_device(index):
    with nullcontext() if index is None else cuda.gpus[index]:
        yield
