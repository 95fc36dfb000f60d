"""Moments of observed cells, and standardised columns, in as few passes over X as possible.

X is read block by block in the order in which it lies in memory; a cell is missing if it is NaN
or hidden by a mask.
"""
import numpy as np

from libc.stdint cimport uint8_t

cdef enum:
    ROWS = 32
    COLUMNS = 128


def observed_moments(
    const double[:, :] X,
    const uint8_t[:, :] hidden,
    const double[::1] weight,
):
    """Weighted mean and variance of the observed cells of each column.

    Parameters
    ----------
    X : float64 array of shape (n_samples, n_features)
        Values, with NaN.
    hidden : uint8 array of shape (n_samples, n_features) or None
        Nonzero for further missing cells.
    weight : float64 array of shape (n_samples,) or None
        Weights of the rows; None: 1.

    Returns
    -------
    mean, variance, missing : float64 arrays of shape (n_features,)
        Both are 0 for a column without an observed cell; `missing` is the weight of its
        missing cells.
    """
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], j
    sums = np.zeros(d)
    missing = np.zeros(d)
    centre = np.zeros(d)
    drift = np.zeros(d)
    cdef double[::1] total = sums, lost = missing, mean = centre
    cdef double[::1] error = drift
    cdef double whole = 0.0
    if n == 0 or d == 0:
        return centre, sums, missing
    with nogil:
        _accumulate(X, hidden, weight, mean, total, lost, error, False)
        # Summed in the order of the missing cells, so that a column of these alone has the same sum.
        for j in range(n):
            whole += 1.0 if weight is None else weight[j]
        for j in range(d):
            if lost[j] < whole:
                mean[j] = total[j] / (whole - lost[j])
            total[j] = 0.0
        _accumulate(X, hidden, weight, mean, total, lost, error, True)
        for j in range(d):
            if lost[j] < whole:
                # The rounding of the mean must not pass for variance of a constant column.
                error[j] /= whole - lost[j]
                mean[j] += error[j]
                total[j] = max(total[j] / (whole - lost[j]) - error[j] * error[j], 0.0)
    return centre, sums, missing


def standardised_columns(
    const double[:, :] X,
    const double[::1] fill,
    const double[::1] centre,
    const double[::1] scale,
):
    """Return ((X with NaN replaced by fill) - centre) / scale in Fortran order."""
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], i, j, row, column, end, last
    out = np.empty((d, n))
    cdef double[:, ::1] Z = out
    cdef double x, inverse
    with nogil:
        row = 0
        while row < n:
            end = min(row + ROWS, n)
            column = 0
            while column < d:
                last = min(column + COLUMNS, d)
                for j in range(column, last):
                    inverse = 1.0 / scale[j]
                    for i in range(row, end):
                        x = X[i, j]
                        if x != x:
                            x = fill[j]
                        Z[j, i] = (x - centre[j]) * inverse
                column = last
            row = end
    return out.T


cdef void _accumulate(
    const double[:, :] X,
    const uint8_t[:, :] hidden,
    const double[::1] weight,
    const double[::1] mean,
    double[::1] total,
    double[::1] lost,
    double[::1] error,
    bint squares,
) noexcept nogil:
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1]
    cdef Py_ssize_t step = X.strides[1] // sizeof(double), i, row, column, end, last
    cdef double w = 1.0
    row = 0
    while row < n:
        end = min(row + ROWS, n)
        column = 0
        while column < d:
            last = min(column + COLUMNS, d)
            for i in range(row, end):
                if weight is not None:
                    w = weight[i]
                if hidden is not None:
                    _add_masked_row(
                        X, hidden, mean, total, lost, error, squares, w, i, column, last
                    )
                elif step == 1:
                    _add_row(
                        &X[i, column], 1, &mean[column], &total[column],
                        &lost[column], &error[column], squares, w, last - column,
                    )
                else:
                    _add_row(
                        &X[i, column], step, &mean[column], &total[column],
                        &lost[column], &error[column], squares, w, last - column,
                    )
            column = last
        row = end


cdef inline void _add_row(
    const double* x,
    Py_ssize_t step,
    const double* mean,
    double* total,
    double* lost,
    double* error,
    bint squares,
    double w,
    Py_ssize_t count,
) noexcept nogil:
    """Add one row to the sums, or to the squares of the distance from the mean."""
    cdef Py_ssize_t j
    cdef double value, distance
    if squares:
        for j in range(count):
            value = x[j * step]
            distance = value - mean[j] if value == value else 0.0
            error[j] += w * distance
            total[j] += w * distance * distance
    else:
        for j in range(count):
            value = x[j * step]
            lost[j] += 0.0 if value == value else w
            total[j] += w * (value if value == value else 0.0)


cdef void _add_masked_row(
    const double[:, :] X,
    const uint8_t[:, :] hidden,
    const double[::1] mean,
    double[::1] total,
    double[::1] lost,
    double[::1] error,
    bint squares,
    double w,
    Py_ssize_t i,
    Py_ssize_t column,
    Py_ssize_t last,
) noexcept nogil:
    cdef Py_ssize_t j
    cdef double value
    for j in range(column, last):
        value = X[i, j]
        if hidden[i, j] or value != value:
            if not squares:
                lost[j] += w
        elif squares:
            error[j] += w * (value - mean[j])
            total[j] += w * (value - mean[j]) * (value - mean[j])
        else:
            total[j] += w * value
