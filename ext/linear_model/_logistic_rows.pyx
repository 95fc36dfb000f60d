"""Log-loss, probabilities and entropies of rows, each in one pass."""
from libc.math cimport exp, fabs, log, log1p


def evaluate_scores(
    const double[:, ::1] scores,
    const double[:, ::1] indicator,
    const double[::1] weight,
    double[:, ::1] probability,
    double[:, ::1] residual,
):
    """Fill in probabilities and residuals of scores; return the weighted log-loss.

    Parameters
    ----------
    scores : float64 array of shape (n_samples, n_scores)
        One score per class; with two classes that of the second, the other being 0.
    indicator : float64 array of shape (n_samples, n_scores)
        1 where the row is of the class.
    weight : float64 array of shape (n_samples,)
        Weights of the rows.
    probability, residual : float64 arrays of shape (n_samples, n_scores)
        Output; the residual is indicator - probability.

    Returns
    -------
    loss : float
        Weighted sum of the log-loss.
    """
    cdef Py_ssize_t n = scores.shape[0], n_scores = scores.shape[1], i, k
    cdef double loss = 0.0, f, small, top, total, own
    with nogil:
        if n_scores == 1:
            for i in range(n):
                f = scores[i, 0]
                # exp of a number that is not positive never overflows.
                small = exp(-fabs(f))
                probability[i, 0] = (1.0 if f >= 0.0 else small) / (1.0 + small)
                residual[i, 0] = indicator[i, 0] - probability[i, 0]
                loss += weight[i] * (log1p(small) + max(f, 0.0) - indicator[i, 0] * f)
        else:
            for i in range(n):
                top = scores[i, 0]
                for k in range(1, n_scores):
                    top = max(top, scores[i, k])
                total = 0.0
                own = 0.0
                for k in range(n_scores):
                    probability[i, k] = exp(scores[i, k] - top)
                    total += probability[i, k]
                    own += indicator[i, k] * (scores[i, k] - top)
                for k in range(n_scores):
                    probability[i, k] /= total
                    residual[i, k] = indicator[i, k] - probability[i, k]
                loss += weight[i] * (log(total) - own)
    return loss


def dual_entropy(
    const double[:, ::1] indicator,
    const double[:, ::1] residual,
    const double[::1] weight,
    double share,
):
    """Weighted entropy of the probabilities, moved towards the true classes.

    Parameters
    ----------
    indicator, residual : float64 arrays of shape (n_samples, n_scores)
        Classes, and classes minus probabilities.
    weight : float64 array of shape (n_samples,)
        Weights of the rows.
    share : float
        Share of the residual that is kept, in [0, 1]; 1 leaves the probabilities as they are.

    Returns
    -------
    entropy : float
        Weighted sum.
    """
    cdef Py_ssize_t n = residual.shape[0], n_scores = residual.shape[1], i, k
    cdef double total = 0.0, moved, row
    with nogil:
        for i in range(n):
            row = 0.0
            for k in range(n_scores):
                moved = indicator[i, k] - share * residual[i, k]
                row += _entropy(moved)
                if n_scores == 1:
                    row += _entropy(1.0 - moved)
            total += weight[i] * row
    return total


cdef inline double _entropy(double p) noexcept nogil:
    # Rounding may leave the unit interval by a hair; 0 log 0 is 0.
    if p <= 0.0 or p >= 1.0:
        return 0.0
    return -p * log(p)
