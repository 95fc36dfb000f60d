"""Sums of functions of linear maps of points, and their gradients.

Threads take runs of points. The gradients of the weights, which are sums over points, are kept
apart for each thread.
"""

import numpy as np

from cython.parallel cimport prange


cdef extern from "_sum_kernel.h" nogil:
    enum:
        SKML_STRIP
        SKML_STRIDE
        SKML_SLACK
        SKML_MAX_DEGREE
        SKML_HARMONICS
        SKML_SPLINES

    ctypedef struct skml_sum:
        int kind
        int is_full
        Py_ssize_t n_points
        Py_ssize_t n_dims
        Py_ssize_t n_functions
        int n_intervals
        int degree
        double low
        double per_unit
        const double *polynomials

    void sum_functions_f32(
        const skml_sum *, Py_ssize_t, Py_ssize_t, const float *, const float *, const float *,
        const float *, float *, float *)
    void sum_functions_f64(
        const skml_sum *, Py_ssize_t, Py_ssize_t, const double *, const double *, const double *,
        const double *, double *, double *)
    void sum_gradients_f32(
        const skml_sum *, Py_ssize_t, Py_ssize_t, const float *, const float *, const float *,
        const float *, const float *, const float *, float *, float *, float *)
    void sum_gradients_f64(
        const skml_sum *, Py_ssize_t, Py_ssize_t, const double *, const double *, const double *,
        const double *, const double *, const double *, double *, double *, double *)


MAX_DEGREE = SKML_MAX_DEGREE

ctypedef fused real:
    float
    double


cdef class FunctionSum:
    """Basis functions and how they are summed.

    Parameters
    ----------
    n_first, n_second : int
        Numbers of cosines and of sines, or 1 and the number of B-splines.
    n_intervals : int
        Intervals of the grid of the B-splines; 0 for harmonics.
    low, per_unit : float
        Lower end of that grid, and its intervals per unit.
    polynomials : ndarray of shape (degree + 1, degree + 1), float64
        Pieces of the B-splines: row p holds the coefficients of u**p.
    """

    cdef skml_sum sum
    cdef Py_ssize_t n_first, n_second
    cdef const double[:, ::1] polynomials

    def __init__(
        self,
        Py_ssize_t n_first,
        Py_ssize_t n_second,
        int n_intervals=0,
        double low=0,
        double per_unit=0,
        const double[:, ::1] polynomials=None,
    ):
        self.n_first, self.n_second = n_first, n_second
        self.sum.n_functions = n_first + n_second
        if polynomials is None:
            if not 1 <= n_first == n_second:
                raise ValueError(f"harmonics come in pairs; got {n_first} and {n_second}")
            self.sum.kind = SKML_HARMONICS
            return
        degree = polynomials.shape[0] - 1
        if not 0 <= degree <= SKML_MAX_DEGREE or polynomials.shape[1] != degree + 1:
            raise ValueError(
                f"polynomials must be square, for degrees from 0 to {SKML_MAX_DEGREE}; got shape "
                f"({polynomials.shape[0]}, {polynomials.shape[1]})")
        if n_first != 1 or n_second != n_intervals + degree:
            raise ValueError(
                f"{n_intervals} intervals and degree {degree} make {n_intervals + degree} "
                f"B-splines beside one tanh; got {n_second} and {n_first}")
        self.polynomials = polynomials
        self.sum.kind = SKML_SPLINES
        self.sum.n_intervals, self.sum.degree = n_intervals, degree
        self.sum.low, self.sum.per_unit = low, per_unit
        self.sum.polynomials = &polynomials[0, 0]

    cdef skml_sum bind(
        self, Py_ssize_t d, Py_ssize_t n, Py_ssize_t n_first, Py_ssize_t n_second
    ) except *:
        # A copy, so that threads may share the object.
        cdef skml_sum sum = self.sum
        sum.n_dims, sum.n_points = d, n
        sum.is_full = n_first == d * d * self.n_first
        cdef Py_ssize_t n_groups = d * d if sum.is_full else d
        if n_first != n_groups * self.n_first or n_second != n_groups * self.n_second:
            raise ValueError(
                f"{d} linear maps with {self.n_first} and {self.n_second} functions do not fit "
                f"{n_first} and {n_second} weights")
        return sum

    def values(
        self,
        const real[:, ::1] first,
        const real[:, ::1] second,
        const real[::1] first_weight,
        const real[::1] second_weight,
        const real[::1] constant,
        real[:, ::1] target,
        int n_threads,
    ):
        """Evaluate the sums.

        Parameters
        ----------
        first, second : ndarray of shape (n_dims, n)
            cos(x) and sin(x) of the linear maps, or x and tanh(x).
        first_weight, second_weight : ndarray of shape (n_dims**2 * m,) or (n_dims * m,)
            Weights of m = `n_first` or `n_second` functions, flat.
        constant : ndarray of shape (n_dims,) or None
        target : ndarray of shape (n_dims, n)
            Receives the sums.
        n_threads : int
        """
        cdef Py_ssize_t d = first.shape[0], n = first.shape[1]
        cdef skml_sum sum = self.bind(d, n, first_weight.shape[0], second_weight.shape[0])
        cdef Py_ssize_t run = _run(n, n_threads)
        cdef int thread
        _check_length("second", second.shape[0], d)
        _check_length("second[0]", second.shape[1], n)
        _check_length("constant", d if constant is None else constant.shape[0], d)
        _check_length("target", target.shape[0], d)
        _check_length("target[0]", target.shape[1], n)
        if n == 0:
            return
        cdef real[::1] weight = _joined(self, first_weight, second_weight)
        cdef real[:, ::1] rows = _zeros(
            first, n_threads, sum.n_functions * SKML_STRIDE + SKML_SLACK)
        cdef const real *shift = NULL
        if constant is not None:
            shift = &constant[0]
        for thread in prange(
            n_threads, nogil=True, num_threads=n_threads, use_threads_if=n_threads > 1
        ):
            if real is float:
                sum_functions_f32(
                    &sum, thread * run, min((thread + 1) * run, n), &first[0, 0],
                    &second[0, 0], &weight[0], shift, &target[0, 0], &rows[thread, 0])
            else:
                sum_functions_f64(
                    &sum, thread * run, min((thread + 1) * run, n), &first[0, 0],
                    &second[0, 0], &weight[0], shift, &target[0, 0], &rows[thread, 0])

    def gradients(
        self,
        const real[:, ::1] first,
        const real[:, ::1] second,
        const real[::1] tau,
        const real[::1] omega,
        const real[::1] first_weight,
        const real[::1] second_weight,
        const real[:, ::1] gradient,
        real[::1] to_tau,
        real[::1] to_omega,
        real[::1] to_phase,
        real[::1] to_constant,
        real[::1] to_first,
        real[::1] to_second,
        int n_threads,
    ):
        """Turn the gradient with respect to the sums into those with respect to the arguments.

        Parameters
        ----------
        first, second, first_weight, second_weight :
            As for `values`.
        tau : ndarray of shape (n,)
            Where the linear maps, whose slopes are `omega`, were evaluated.
        omega : ndarray of shape (n_dims,)
        gradient : ndarray of shape (n_dims, n)
        to_tau : ndarray of shape (n,) or None
            Receives the gradient with respect to tau.
        to_omega, to_phase : ndarray of shape (n_dims,)
            Receive those with respect to slopes and constants of the linear maps.
        to_constant : ndarray of shape (n_dims,) or None
            Receives that with respect to the constants of the sums.
        to_first, to_second : ndarray
            Receive those with respect to the weights.
        n_threads : int
        """
        cdef Py_ssize_t d = first.shape[0], n = first.shape[1]
        cdef skml_sum sum = self.bind(d, n, first_weight.shape[0], second_weight.shape[0])
        cdef Py_ssize_t q, n_totals, run = _run(n, n_threads)
        cdef int thread
        _check_length("second", second.shape[0], d)
        _check_length("second[0]", second.shape[1], n)
        _check_length("tau", tau.shape[0], n)
        _check_length("omega", omega.shape[0], d)
        _check_length("gradient", gradient.shape[0], d)
        _check_length("gradient[0]", gradient.shape[1], n)
        _check_length("to_tau", n if to_tau is None else to_tau.shape[0], n)
        _check_length("to_omega", to_omega.shape[0], d)
        _check_length("to_phase", to_phase.shape[0], d)
        _check_length("to_constant", d if to_constant is None else to_constant.shape[0], d)
        _check_length("to_first", to_first.shape[0], first_weight.shape[0])
        _check_length("to_second", to_second.shape[0], second_weight.shape[0])
        n_totals = 3 * d + first_weight.shape[0] + second_weight.shape[0]
        cdef real[:, ::1] totals = _zeros(first, n_threads, n_totals)
        cdef real[:, ::1] rows = _zeros(
            first, n_threads, (2 * sum.n_functions + d) * SKML_STRIDE + SKML_SLACK)
        cdef real[::1] weight = _joined(self, first_weight, second_weight)
        cdef real *times = NULL if to_tau is None or n == 0 else &to_tau[0]
        for thread in prange(
            n_threads if n else 0, nogil=True, num_threads=n_threads, use_threads_if=n_threads > 1
        ):
            if real is float:
                sum_gradients_f32(
                    &sum, thread * run, min((thread + 1) * run, n), &first[0, 0],
                    &second[0, 0], &tau[0], &omega[0], &weight[0], &gradient[0, 0], times,
                    &totals[thread, 0], &rows[thread, 0])
            else:
                sum_gradients_f64(
                    &sum, thread * run, min((thread + 1) * run, n), &first[0, 0],
                    &second[0, 0], &tau[0], &omega[0], &weight[0], &gradient[0, 0], times,
                    &totals[thread, 0], &rows[thread, 0])
        for thread in range(1, n_threads):
            for q in range(n_totals):
                totals[0, q] += totals[thread, q]
        for q in range(d):
            to_omega[q] = totals[0, q]
            to_phase[q] = totals[0, d + q]
            if to_constant is not None:
                to_constant[q] = totals[0, 2 * d + q]
        _part(&totals[0, 3 * d], self.n_first, self.n_second, to_first, to_second)


cdef Py_ssize_t _run(Py_ssize_t n, int n_threads) noexcept:
    """Points of a thread: a whole number of strips."""
    cdef Py_ssize_t points = SKML_STRIP * n_threads
    return (n + points - 1) // points * SKML_STRIP


cdef real[:, ::1] _zeros(const real[:, ::1] like, Py_ssize_t n_rows, Py_ssize_t n_columns):
    return np.zeros((n_rows, n_columns), dtype=np.float32 if real is float else np.float64)


cdef real[::1] _joined(FunctionSum self, const real[::1] first, const real[::1] second):
    """The weights of all functions of a linear map side by side."""
    cdef Py_ssize_t q, r, n_first = self.n_first, n_second = self.n_second
    cdef real[::1] joined = np.empty(
        first.shape[0] + second.shape[0], dtype=np.float32 if real is float else np.float64)
    for q in range(first.shape[0] // n_first):
        for r in range(n_first):
            joined[q * (n_first + n_second) + r] = first[q * n_first + r]
        for r in range(n_second):
            joined[q * (n_first + n_second) + n_first + r] = second[q * n_second + r]
    return joined


cdef void _part(
    const real *joined,
    Py_ssize_t n_first,
    Py_ssize_t n_second,
    real[::1] first,
    real[::1] second,
) noexcept:
    """Undo `_joined`."""
    cdef Py_ssize_t q, r
    for q in range(first.shape[0] // n_first):
        for r in range(n_first):
            first[q * n_first + r] = joined[q * (n_first + n_second) + r]
        for r in range(n_second):
            second[q * n_second + r] = joined[q * (n_first + n_second) + n_first + r]


cdef int _check_length(str name, Py_ssize_t length, Py_ssize_t expected) except -1:
    if length != expected:
        raise ValueError(f"{name} must have length {expected}; got {length}")
    return 0
