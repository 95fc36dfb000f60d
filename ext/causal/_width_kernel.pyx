"""Mean width of Manski bounds from tables of nuisances, and its gradient, in one pass."""

import numpy as np

from cython.parallel cimport prange


cdef extern from "_width_kernel.h" nogil:
    enum:
        SKML_TABLES
        SKML_LINE

    double sum_widths_f32(
        const float *, Py_ssize_t, Py_ssize_t, const float *, Py_ssize_t, Py_ssize_t,
        const unsigned char *, const float *, Py_ssize_t, Py_ssize_t, float *, float *)
    double sum_widths_f64(
        const double *, Py_ssize_t, Py_ssize_t, const double *, Py_ssize_t, Py_ssize_t,
        const unsigned char *, const double *, Py_ssize_t, Py_ssize_t, double *, double *)


ctypedef fused real:
    float
    double

# Rows are summed in runs, and runs in their order, so that the result does not depend on the
# number of threads.
MOST_RUNS = 8
LEAST_ROWS = 64


def sum_widths(
    const real[:, :, ::1] tables,
    const real[:, ::1] averages,
    const unsigned char[::1] empty,
    const real[::1] weight,
    real[:, ::1] slope,
    int n_threads,
):
    """Sum the weighted widths of the bounds of all rows.

    Parameters
    ----------
    tables : ndarray of shape (3, n_x, n_z)
        pi, m1 and m0 of all pairs, the outcome in [0, 1].
    averages : ndarray of shape (n_cells, n_z)
        Weights of the instruments in the average of each cell.
    empty : ndarray of uint8 of shape (n_cells,)
        Not 0 for cells that take no part in the extremes.
    weight : ndarray of shape (n_x,)
        Weights of the rows.
    slope : ndarray of shape (n_cells, n_z) or None
        Receives the gradient with respect to the averages. Cells that attain an extreme together
        share it.
    n_threads : int

    Returns
    -------
    float
        The sum; NaN if a quantity of a cell that is not empty is.
    """
    cdef Py_ssize_t n_x = tables.shape[1], n_z = tables.shape[2], n_cells = averages.shape[0]
    if tables.shape[0] != SKML_TABLES or n_x == 0 or n_z == 0:
        raise ValueError(
            "tables must have shape (3, n_x, n_z), not empty; got "
            f"({tables.shape[0]}, {n_x}, {n_z})")
    if averages.shape[1] != n_z or empty.shape[0] != n_cells or weight.shape[0] != n_x:
        raise ValueError(
            f"averages, empty and weight must fit {n_x} rows and {n_z} instruments; got "
            f"{averages.shape[1]} instruments, {empty.shape[0]} of {n_cells} cells and "
            f"{weight.shape[0]} rows")
    if slope is not None and (slope.shape[0] != n_cells or slope.shape[1] != n_z):
        raise ValueError(f"slope must have shape ({n_cells}, {n_z})")
    cdef Py_ssize_t n_runs = max(1, min(MOST_RUNS, n_x // LEAST_ROWS)), n_groups = (n_cells + 3) // 4
    dtype = np.float32 if real is float else np.float64
    cdef Py_ssize_t run, stride = (n_z + SKML_LINE - 1) // SKML_LINE * SKML_LINE
    cdef double[::1] totals = np.empty(n_runs)
    cdef real[:, ::1] room = np.empty((n_runs, 8 * SKML_TABLES * n_groups), dtype=dtype)
    cdef real[:, ::1] weights = _on_lines(4 * n_groups, stride, dtype)
    cdef real[:, ::1] slopes = None
    cdef unsigned char[::1] skipped = np.ones(4 * n_groups, dtype=np.uint8)
    cdef real *own = NULL
    weights[:n_cells, :n_z] = averages
    skipped[:n_cells] = empty
    if slope is not None:
        slopes = _on_lines(n_runs * 4 * n_groups, stride, dtype)
    for run in prange(n_runs, nogil=True, num_threads=n_threads, use_threads_if=n_threads > 1):
        own = NULL if slopes is None else &slopes[run * 4 * n_groups, 0]
        if real is float:
            totals[run] = sum_widths_f32(
                &tables[0, 0, 0], n_x, n_z, &weights[0, 0], stride, n_groups, &skipped[0],
                &weight[0], run * n_x // n_runs, (run + 1) * n_x // n_runs, &room[run, 0], own)
        else:
            totals[run] = sum_widths_f64(
                &tables[0, 0, 0], n_x, n_z, &weights[0, 0], stride, n_groups, &skipped[0],
                &weight[0], run * n_x // n_runs, (run + 1) * n_x // n_runs, &room[run, 0], own)
    if slope is not None:
        parts = np.asarray(slopes).reshape(n_runs, 4 * n_groups, stride)
        np.sum(parts[:, :n_cells, :n_z], axis=0, out=np.asarray(slope))
    return float(np.sum(totals))


def _on_lines(n_rows, stride, dtype):
    """Zeros, each row of which starts on a line of the cache."""
    n_items = n_rows * stride
    zeros = np.zeros(n_items + SKML_LINE, dtype=dtype)
    start = -zeros.ctypes.data % SKML_LINE // zeros.itemsize
    return zeros[start : start + n_items].reshape(n_rows, stride)
