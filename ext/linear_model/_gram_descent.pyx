"""Coordinate descent for a quadratic with one threshold per coordinate, on its Gram matrix.

It minimises  1/2 x'Gx - c'x + sum_j t_j |x_j|  over x, where any t_j may be zero. The gradient
g = c - Gx of all coordinates is kept up to date, so a coordinate that stays at zero costs one
comparison, and the duality gap of a sweep costs no more than a few passes over vectors.
"""
from libc.math cimport fabs


def descend(
    const double[:, ::1] gram,
    const double[::1] target,
    const double[::1] threshold,
    double[::1] coef,
    double[::1] gradient,
    double norm,
    double tol,
    int max_sweeps,
    int patience,
):
    """Sweep over the coordinates until the problem is solved or the signs have settled.

    Parameters
    ----------
    gram : float64 array of shape (capacity, capacity)
        G in its upper left corner; symmetric and positive semi-definite.
    target, threshold : float64 arrays of shape (k,)
        c and t, t >= 0.
    coef, gradient : float64 arrays of shape (k,)
        x and c - Gx; both are changed in place.
    norm : float
        <y, y> if the quadratic is a sum of squares 1/2 <y - Zx, y - Zx>; the duality gap is then
        the measure of convergence. Negative: the violation of the conditions of a solution is,
        with -norm for the size of the objective.
    tol : float
        Bound on the measure.
    max_sweeps : int
        Most sweeps of this run.
    patience : int
        The run also ends when this many sweeps or more were made and the last one changed
        no sign, so that the caller may solve the linear system of the support.

    Returns
    -------
    converged : bool
        Whether the measure is within the bound; False after `max_sweeps`, or where `patience`
        ended the run.
    sweeps : int
        Sweeps made.
    measure : float
        Duality gap, or violation of the conditions of a solution.
    """
    cdef int sweep = 0
    cdef bint converged = False, flipped
    cdef double measure = 0.0
    with nogil:
        if norm >= 0:
            measure = _gap(gram, target, threshold, coef, gradient, norm)
            converged = measure <= tol
        while not converged and sweep < max_sweeps:
            flipped = _sweep(gram, threshold, coef, gradient)
            sweep += 1
            if norm >= 0:
                measure = _gap(gram, target, threshold, coef, gradient, norm)
            else:
                measure = _violation(gram, threshold, coef, gradient, -norm)
            converged = measure <= tol
            if sweep >= patience and not flipped:
                break
    return converged, sweep, measure


cdef bint _sweep(
    const double[:, ::1] gram,
    const double[::1] threshold,
    double[::1] coef,
    double[::1] gradient,
) noexcept nogil:
    """Minimise over each coordinate in turn; return whether a sign changed."""
    cdef bint flipped = False
    cdef Py_ssize_t k = coef.shape[0], j, i
    cdef double curvature, old, new, pull, change
    cdef const double* row
    cdef double* g = &gradient[0]
    for j in range(k):
        curvature = gram[j, j]
        old = coef[j]
        if old == 0.0 and fabs(g[j]) <= threshold[j]:
            continue
        if curvature <= 0.0:
            # A constant column says nothing, whatever its threshold is.
            continue
        pull = g[j] + curvature * old
        if pull > threshold[j]:
            new = (pull - threshold[j]) / curvature
        elif pull < -threshold[j]:
            new = (pull + threshold[j]) / curvature
        else:
            new = 0.0
        change = new - old
        if change == 0.0:
            continue
        if (new > 0.0) != (old > 0.0) or (new < 0.0) != (old < 0.0):
            flipped = True
        coef[j] = new
        row = &gram[j, 0]
        for i in range(k):
            g[i] -= change * row[i]
    return flipped


cdef double _violation(
    const double[:, ::1] gram,
    const double[::1] threshold,
    const double[::1] coef,
    const double[::1] gradient,
    double size,
) noexcept nogil:
    """Lack of complementarity, and the excess of the gradient in parts of its bound."""
    cdef Py_ssize_t k = coef.shape[0], j
    cdef double slack = 0.0, ratio = 1.0
    for j in range(k):
        if gram[j, j] <= 0.0:
            continue
        slack += fabs(threshold[j] * fabs(coef[j]) - gradient[j] * coef[j])
        if threshold[j] == 0.0:
            slack += gradient[j] * gradient[j] / gram[j, j]
        elif fabs(gradient[j]) > ratio * threshold[j]:
            ratio = fabs(gradient[j]) / threshold[j]
    return slack + (ratio - 1.0) * size


cdef double _gap(
    const double[:, ::1] gram,
    const double[::1] target,
    const double[::1] threshold,
    const double[::1] coef,
    const double[::1] gradient,
    double norm,
) noexcept nogil:
    """Duality gap; the dual point is the residual, scaled to be feasible."""
    cdef Py_ssize_t k = coef.shape[0], j
    cdef double fitted = 0.0, left = 0.0, charge = 0.0, ratio = 0.0, free = 0.0
    for j in range(k):
        fitted += target[j] * coef[j]
        left += gradient[j] * coef[j]
        if threshold[j] > 0.0:
            charge += threshold[j] * fabs(coef[j])
            if fabs(gradient[j]) > ratio * threshold[j]:
                ratio = fabs(gradient[j]) / threshold[j]
        elif gram[j, j] > 0.0:
            free += fabs(coef[j] * gradient[j])
            free += 0.5 * gradient[j] * gradient[j] / gram[j, j]
    return _gap_of(norm, norm - fitted, norm - fitted - left, charge, ratio) + free


cdef double _gap_of(
    double norm, double y_residual, double residual, double charge, double ratio
) noexcept nogil:
    cdef double scale
    if residual < 0.0:
        residual = 0.0
    # The best multiple of the residual, kept within |Z'(scale * residual)| <= threshold.
    if fabs(y_residual) * ratio >= residual:
        scale = 1.0 / ratio if ratio > 0.0 else 0.0
        if y_residual < 0.0:
            scale = -scale
    else:
        scale = y_residual / residual
    return 0.5 * residual + charge - scale * y_residual + 0.5 * scale * scale * residual


def duality_gap(double norm, double y_residual, double residual, double charge, double ratio):
    """Duality gap of a Lasso problem from its scalar products.

    Parameters
    ----------
    norm, y_residual, residual : float
        <y, y>, <y, r> and <r, r> with r the residual.
    charge : float
        sum_j t_j |x_j|.
    ratio : float
        Largest |<z_j, r>| / t_j over the penalised columns.

    Returns
    -------
    gap : float
        Primal value minus the value of the scaled residual in the dual.
    """
    return _gap_of(norm, y_residual, residual, charge, ratio)
