"""Normalisation of encodings, from components by points to points by components."""

import numpy as np

from cython.parallel cimport prange


cdef extern from "_norm_kernel.h" nogil:
    enum:
        SKML_STRIP

    void norm_strip_f32(
        const float *, const float *, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const float *,
        const float *, const float *, double, float *)
    void norm_strip_f64(
        const double *, const double *, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const double *,
        const double *, const double *, double, double *)
    void norm_slope_strip_f32(
        const float *, const float *, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const float *,
        const float *, double, const float *, float *, float *, float *, float *)
    void norm_slope_strip_f64(
        const double *, const double *, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const double *,
        const double *, double, const double *, double *, double *, double *, double *)


ctypedef fused real:
    float
    double


def normalise(
    const real[:, ::1] upper,
    const real[:, ::1] lower,
    const real[::1] weight,
    const real[::1] bias,
    const real[::1] scale,
    real[:, ::1] vectors,
    double eps,
    int n_threads,
):
    """Normalise each column of two blocks of rows, then weight, shift and scale it, and write it as a vector.

    Parameters
    ----------
    upper, lower : ndarray of shape (d_upper, n) and (d_lower, n)
        d = d_upper + d_lower rows.
    weight, bias : ndarray of shape (d,)
    scale : ndarray of shape (d,) or None
    vectors : ndarray of shape (n, d)
        Receives the result.
    eps : float
        Added to the variances.
    n_threads : int
    """
    cdef Py_ssize_t split = upper.shape[0], d = split + lower.shape[0], n = upper.shape[1]
    cdef Py_ssize_t strip, start, width, n_strips = (n + SKML_STRIP - 1) // SKML_STRIP
    cdef const real *factor = NULL
    if scale is not None:
        factor = &scale[0]
    _check_shapes(upper, lower, weight, bias, scale, vectors)
    for strip in prange(n_strips, nogil=True, num_threads=n_threads, use_threads_if=n_threads > 1):
        start = strip * SKML_STRIP
        width = min(SKML_STRIP, n - start)
        if real is float:
            norm_strip_f32(
                &upper[0, start], &lower[0, start], split, n, d, width, &weight[0], &bias[0],
                factor, eps, &vectors[start, 0])
        else:
            norm_strip_f64(
                &upper[0, start], &lower[0, start], split, n, d, width, &weight[0], &bias[0],
                factor, eps, &vectors[start, 0])


def normalise_slope(
    const real[:, ::1] upper,
    const real[:, ::1] lower,
    const real[::1] weight,
    const real[::1] bias,
    const real[::1] scale,
    const real[:, ::1] gradient,
    real[:, ::1] to_upper,
    real[:, ::1] to_lower,
    real[::1] to_weight,
    real[::1] to_bias,
    real[::1] to_scale,
    double eps,
    int n_threads,
):
    """Turn the gradient with respect to the vectors into those with respect to the arguments.

    Parameters
    ----------
    upper, lower, weight, bias, scale :
        The arguments of `normalise`.
    gradient : ndarray of shape (n, d)
    to_upper, to_lower : ndarray of the shapes of upper and lower
        Receive the gradients with respect to the rows.
    to_weight, to_bias, to_scale : ndarray of shape (d,)
        Receive those with respect to weight, bias and scale (None if there is no scale).
    eps : float
    n_threads : int
    """
    cdef Py_ssize_t split = upper.shape[0], d = split + lower.shape[0], n = upper.shape[1]
    cdef Py_ssize_t n_strips = (n + SKML_STRIP - 1) // SKML_STRIP
    cdef Py_ssize_t i, first, last, start, width, strip
    cdef int thread
    cdef real factor
    cdef const real *factors = NULL
    if scale is not None:
        factors = &scale[0]
    _check_shapes(upper, lower, weight, bias, scale, gradient)
    if (
        to_upper.shape[0] != split
        or to_lower.shape[0] != d - split
        or to_upper.shape[1] != n
        or to_lower.shape[1] != n
    ):
        raise ValueError(f"to_upper and to_lower must hold {split} and {d - split} rows of {n}")
    if (to_scale is None) != (scale is None):
        raise ValueError("to_scale and scale must both be given, or neither")
    if (
        to_weight.shape[0] != d
        or to_bias.shape[0] != d
        or (to_scale is not None and to_scale.shape[0] != d)
    ):
        raise ValueError(f"to_weight, to_bias and to_scale must have {d} entries")
    cdef real[:, :, ::1] parts = np.zeros(
        (n_threads, 2, d), dtype=np.float32 if real is float else np.float64)
    for thread in prange(
        n_threads, nogil=True, num_threads=n_threads, use_threads_if=n_threads > 1
    ):
        first = thread * n_strips // n_threads
        last = (thread + 1) * n_strips // n_threads
        for strip in range(first, last):
            start = strip * SKML_STRIP
            width = min(SKML_STRIP, n - start)
            if real is float:
                norm_slope_strip_f32(
                    &upper[0, start], &lower[0, start], split, n, d, width, &weight[0], factors,
                    eps, &gradient[start, 0], &to_upper[0, start], &to_lower[0, start],
                    &parts[thread, 0, 0], &parts[thread, 1, 0])
            else:
                norm_slope_strip_f64(
                    &upper[0, start], &lower[0, start], split, n, d, width, &weight[0], factors,
                    eps, &gradient[start, 0], &to_upper[0, start], &to_lower[0, start],
                    &parts[thread, 0, 0], &parts[thread, 1, 0])
    for i in range(d):
        for thread in range(1, n_threads):
            parts[0, 0, i] += parts[thread, 0, i]
            parts[0, 1, i] += parts[thread, 1, i]
        factor = 1 if scale is None else scale[i]
        to_weight[i] = parts[0, 0, i] * factor
        to_bias[i] = parts[0, 1, i] * factor
        if to_scale is not None:
            to_scale[i] = parts[0, 0, i] * weight[i] + parts[0, 1, i] * bias[i]


cdef int _check_shapes(
    const real[:, ::1] upper,
    const real[:, ::1] lower,
    const real[::1] weight,
    const real[::1] bias,
    const real[::1] scale,
    const real[:, ::1] vectors,
) except -1:
    cdef Py_ssize_t split = upper.shape[0], d = split + lower.shape[0], n = upper.shape[1]
    if lower.shape[1] != n:
        raise ValueError(f"upper and lower must be of one length; got {n} and {lower.shape[1]}")
    if weight.shape[0] != d or bias.shape[0] != d or (scale is not None and scale.shape[0] != d):
        raise ValueError(f"weight, bias and scale must have {d} entries")
    if vectors.shape[0] != n or vectors.shape[1] != d:
        raise ValueError(
            f"vectors must have shape ({n}, {d}); got ({vectors.shape[0]}, {vectors.shape[1]})")
    return 0
