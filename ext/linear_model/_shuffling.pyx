"""Epochs over permuted rows, the objective, and the losses one by one."""

import numpy as np

from libc.stddef cimport size_t
from libc.stdlib cimport free, malloc


cdef extern from "_shuffling_kernel.h" nogil:
    enum:
        SKML_N_LOSSES

    ctypedef struct skml_epoch:
        int loss
        double parameter
        double alpha
        double gamma
        int fit_intercept
        Py_ssize_t n
        Py_ssize_t batch
        double n_batches
        const Py_ssize_t *order
        const double *y
        const double *weight
        double *theta
        const double *start
        double *steps

    int skml_best_instructions()
    double skml_dense_epoch_double(int, const skml_epoch *, const double *, Py_ssize_t)
    double skml_dense_epoch_float(int, const skml_epoch *, const float *, Py_ssize_t)
    double skml_sparse_epoch_double(
        int, const skml_epoch *, const double *, const int *, const int *, Py_ssize_t)
    double skml_sparse_epoch_float(
        int, const skml_epoch *, const float *, const int *, const int *, Py_ssize_t)
    double skml_dense_loss_double(int, const skml_epoch *, const double *, Py_ssize_t)
    double skml_dense_loss_float(int, const skml_epoch *, const float *, Py_ssize_t)
    double skml_sparse_loss_double(
        int, const skml_epoch *, const double *, const int *, const int *, Py_ssize_t)
    double skml_sparse_loss_float(
        int, const skml_epoch *, const float *, const int *, const int *, Py_ssize_t)
    double skml_loss_value(int, double, double, double)
    double skml_loss_slope(int, double, double, double)
    double skml_loss_curvature(int, double, double, double)


# Position in this tuple is the number of the loss in _shuffling_loss.h.
LOSS_CODES = {
    name: code
    for code, name in enumerate((
        "squared_error",
        "huber",
        "log_loss",
        "squared_hinge",
        "modified_huber",
        "poisson",
        "gamma",
        "exponential",
        "power",
    ))
}
INSTRUCTION_SETS = ("portable", "avx2", "avx512")
cdef int BEST = skml_best_instructions()
best_instructions = INSTRUCTION_SETS[BEST]


ctypedef fused real:
    float
    double


cdef class Rows:
    """Targets, weights and the loss, with what an epoch over the rows needs.

    Parameters
    ----------
    y : ndarray of shape (n,), float64
    weight : ndarray of shape (n,), float64, or None
    loss : int
        One of the values of `LOSS_CODES`.
    parameter : float
        Epsilon of "huber", exponent of "power".
    alpha : float
        Price of half the squared norm of the coefficients.
    batch : int
        Rows of a batch.
    fit_intercept : bool
    instructions : str or None
        One of `INSTRUCTION_SETS` at or below `best_instructions`, which None stands for.
    """

    cdef skml_epoch epoch_
    cdef int level
    cdef const double[::1] y
    cdef const double[::1] weight

    def __init__(
        self,
        const double[::1] y,
        const double[::1] weight,
        int loss,
        double parameter,
        double alpha,
        Py_ssize_t batch=1,
        bint fit_intercept=True,
        instructions=None,
    ):
        cdef Py_ssize_t n = y.shape[0]
        if not 0 <= loss < SKML_N_LOSSES:
            raise ValueError(f"loss must be one of {LOSS_CODES}, got {loss}")
        if n < 1 or not 1 <= batch <= n:
            raise ValueError(f"batch must be from 1 to the {n} rows, got {batch}")
        if weight is not None and weight.shape[0] != n:
            raise ValueError(f"weight must have {n} entries, got {weight.shape[0]}")
        self.level = BEST if instructions is None else INSTRUCTION_SETS.index(instructions)
        if self.level > BEST:
            raise ValueError(f"this processor has no {instructions}")
        self.y = y
        self.weight = weight
        self.epoch_.loss = loss
        self.epoch_.parameter = parameter
        self.epoch_.alpha = alpha
        self.epoch_.fit_intercept = fit_intercept
        self.epoch_.n = n
        self.epoch_.batch = batch
        self.epoch_.n_batches = (n + batch - 1) // batch
        self.epoch_.y = &y[0]
        self.epoch_.weight = NULL if weight is None else &weight[0]

    cdef skml_epoch _bind(self, double[::1] theta, Py_ssize_t d, Py_ssize_t rows) except *:
        # A copy, so that several threads may share the rows, each with a theta of its own.
        cdef skml_epoch bound = self.epoch_
        if theta.shape[0] != d + 1:
            raise ValueError(f"theta must have {d + 1} entries, got {theta.shape[0]}")
        if rows != bound.n:
            raise ValueError(f"X must have {bound.n} rows, got {rows}")
        bound.theta = &theta[0]
        return bound

    cdef void _bind_start(self, skml_epoch *bound, const double[::1] start, Py_ssize_t d) except *:
        bound.start = NULL
        if start is not None:
            if start.shape[0] != d + 1:
                raise ValueError(f"start must have {d + 1} entries, got {start.shape[0]}")
            bound.start = &start[0]

    cdef void _bind_order(self, skml_epoch *bound, const Py_ssize_t[::1] order, double gamma) except *:
        cdef Py_ssize_t i
        if order.shape[0] != bound.n:
            raise ValueError(f"order must have {bound.n} entries, got {order.shape[0]}")
        for i in range(bound.n):
            if not 0 <= order[i] < bound.n:
                raise ValueError(f"order must hold row numbers, got {order[i]}")
        bound.order = &order[0]
        bound.gamma = gamma
        bound.steps = <double *> malloc(<size_t> bound.batch * sizeof(double))
        if bound.steps == NULL:
            raise MemoryError

    def dense_epoch(
        self,
        const real[:, ::1] X,
        double[::1] theta,
        const Py_ssize_t[::1] order,
        double gamma,
        const double[::1] start=None,
    ):
        """Go through the rows of X once in the given order; theta changes in place.

        Returns the sum over the rows of weight times loss at `start`, 0 without one.
        """
        cdef Py_ssize_t d = X.shape[1]
        cdef skml_epoch bound = self._bind(theta, d, X.shape[0])
        cdef int level = self.level
        cdef double total
        self._bind_start(&bound, start, d)
        self._bind_order(&bound, order, gamma)
        cdef const real *x = &X[0, 0]
        with nogil:
            if real is double:
                total = skml_dense_epoch_double(level, &bound, x, d)
            else:
                total = skml_dense_epoch_float(level, &bound, x, d)
            free(bound.steps)
        return total

    def sparse_epoch(
        self,
        const real[::1] data,
        const int[::1] indices,
        const int[::1] indptr,
        double[::1] theta,
        const Py_ssize_t[::1] order,
        double gamma,
        const double[::1] start=None,
    ):
        """Go through the rows of a CSR matrix once, as `dense_epoch` does."""
        cdef Py_ssize_t d = theta.shape[0] - 1
        cdef skml_epoch bound = self._bind(theta, d, indptr.shape[0] - 1)
        cdef int level = self.level
        cdef double total
        self._bind_start(&bound, start, d)
        self._bind_order(&bound, order, gamma)
        cdef const real *values = &data[0] if data.shape[0] else NULL
        cdef const int *columns = &indices[0] if indices.shape[0] else NULL
        with nogil:
            if real is double:
                total = skml_sparse_epoch_double(level, &bound, values, columns, &indptr[0], d)
            else:
                total = skml_sparse_epoch_float(level, &bound, values, columns, &indptr[0], d)
            free(bound.steps)
        return total

    def dense_loss(self, const real[:, ::1] X, double[::1] theta):
        """Return the sum over the rows of weight times loss."""
        cdef Py_ssize_t d = X.shape[1]
        cdef skml_epoch bound = self._bind(theta, d, X.shape[0])
        cdef int level = self.level
        cdef double total
        cdef const real *x = &X[0, 0]
        with nogil:
            if real is double:
                total = skml_dense_loss_double(level, &bound, x, d)
            else:
                total = skml_dense_loss_float(level, &bound, x, d)
        return total

    def sparse_loss(
        self,
        const real[::1] data,
        const int[::1] indices,
        const int[::1] indptr,
        double[::1] theta,
    ):
        """Return the sum over the rows of a CSR matrix of weight times loss."""
        cdef Py_ssize_t d = theta.shape[0] - 1
        cdef skml_epoch bound = self._bind(theta, d, indptr.shape[0] - 1)
        cdef int level = self.level
        cdef double total
        cdef const real *values = &data[0] if data.shape[0] else NULL
        cdef const int *columns = &indices[0] if indices.shape[0] else NULL
        with nogil:
            if real is double:
                total = skml_sparse_loss_double(level, &bound, values, columns, &indptr[0], d)
            else:
                total = skml_sparse_loss_float(level, &bound, values, columns, &indptr[0], d)
        return total


def pointwise(int loss, double parameter, const double[::1] z, const double[::1] y):
    """Return f, f' and f'' for each pair of a linear predictor and a target."""
    cdef Py_ssize_t i, n = z.shape[0]
    values, slopes, curvatures = np.empty(n), np.empty(n), np.empty(n)
    cdef double[::1] value = values, slope = slopes, curvature = curvatures
    if y.shape[0] != n:
        raise ValueError(f"y must have {n} entries, got {y.shape[0]}")
    with nogil:
        for i in range(n):
            value[i] = skml_loss_value(loss, parameter, z[i], y[i])
            slope[i] = skml_loss_slope(loss, parameter, z[i], y[i])
            curvature[i] = skml_loss_curvature(loss, parameter, z[i], y[i])
    return values, slopes, curvatures
