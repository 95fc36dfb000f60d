"""Arrays that come in and go out of the kernels."""

import numpy as np


def check_inputs(X, n_inputs):
    """Inputs in float32 with contiguous rows, and the type of the result.

    Returns
    -------
    tuple of (ndarray of float32, numpy.dtype)
    """
    if hasattr(X, "detach"):  # a tensor that requires gradients does not convert by itself
        X = X.detach()
    X = np.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ValueError(
            f"X must be a real 2-D array (n_samples, {n_inputs}), got {X.ndim}-D {X.dtype}."
        )
    if X.shape[1] != n_inputs:
        raise ValueError(f"X has {X.shape[1]} columns, but the weight has {n_inputs} inputs.")
    result_type = np.dtype(np.float64 if X.dtype == np.float64 else np.float32)
    with np.errstate(over="ignore"):  # beyond float32 is infinite there
        X = X.astype(np.float32, copy=False)
    bad_rows = X.shape[1] > 1 and X.strides[1] != X.itemsize
    bad_step = X.shape[0] > 1 and (
        X.strides[0] < X.shape[1] * X.itemsize or X.strides[0] % X.itemsize
    )
    if bad_rows or bad_step or not X.flags.aligned:
        X = np.ascontiguousarray(X)
    return X, result_type


def check_bias(bias, n_rows):
    """Bias in float32, or None."""
    if bias is None:
        return None
    if hasattr(bias, "detach"):
        bias = bias.detach()
    bias = np.ascontiguousarray(bias, dtype=np.float32)
    if bias.shape != (n_rows,):
        raise ValueError(f"bias must have shape ({n_rows},), got {bias.shape}.")
    return bias


def check_offsets(offsets, n_problems, n_samples):
    """Offsets of grouped products as int64: from 0 to the number of rows, ascending."""
    offsets = np.asarray(offsets)
    if offsets.shape != (n_problems + 1,) or offsets.dtype.kind not in "iu":
        raise ValueError(
            f"offsets must be {n_problems + 1} integers, one more than weights, got "
            f"{offsets.dtype} of shape {offsets.shape}."
        )
    if offsets[0] != 0 or offsets[-1] != n_samples or (np.diff(offsets) < 0).any():
        raise ValueError(
            f"offsets must ascend from 0 to the {n_samples} rows of X, got {offsets.tolist()}."
        )
    return np.ascontiguousarray(offsets, dtype=np.int64)


def prepare_output(out, X, n_rows):
    """Array that the kernels write to: ``out`` itself, or a new one."""
    shape = (len(X), n_rows)
    if out is None:
        return np.empty(shape, dtype=np.float32)
    target = np.asarray(out)
    if target.shape != shape or target.dtype != np.float32 or not target.flags.c_contiguous:
        raise ValueError(
            f"out must be a C-ordered float32 array of shape {shape}, got {target.dtype} of shape "
            f"{target.shape}."
        )
    if not target.flags.writeable:
        raise ValueError("out must be writeable.")
    if np.may_share_memory(target, X):
        raise ValueError("out must not overlap X.")
    return target


def run_on_host(X, shape, bias, out, compute):
    """Check the arguments of a product, compute it, and return what was asked for.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_inputs)
    shape : tuple of (int, int)
        Shape of the weight, (n_rows, n_inputs).
    bias : array-like of shape (n_rows,) or None
    out : ndarray of float32 or None
    compute : callable
        ``compute(X, bias, target)`` fills the target, all three in float32; bias may be None.

    Returns
    -------
    ndarray of shape (n_samples, n_rows)
        ``out`` if given, else the result in the type of X.
    """
    n_rows, n_inputs = shape
    X, result_type = check_inputs(X, n_inputs)
    bias = check_bias(bias, n_rows)
    target = prepare_output(out, X, n_rows)
    compute(X, bias, target)
    return finish(target, out, result_type)


def finish(target, out, result_type):
    """What the caller gets: ``out`` if given, else the result in the type of X."""
    return target.astype(result_type, copy=False) if out is None else out
