"""From a Gram matrix that may be singular to a Cholesky factor that exists."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky

PRECONDITIONERS = ("damping", "diagonal_dominance", "plain_first", "none")


@dataclass
class Factor:
    """A preconditioned Gram matrix in processing order, as its Cholesky factor.

    Attributes
    ----------
    order : ndarray of shape (n,), dtype intp
        ``order[k]`` is the column of the weights that stands at place k. The last place is
        processed first.
    lower : ndarray of shape (n, n), dtype float64
        L with L L^T = H' in that order.
    added : ndarray of shape (n,), dtype float64
        What was added to the diagonal of the raw Gram matrix, in that order; for dead inputs
        all of it.
    dead : ndarray of shape (n,), dtype bool
        Inputs that were always zero, in the order of the weights' columns.
    damping : float
        Mean of what was added to the diagonal over the mean of the diagonal.
    """

    order: np.ndarray
    lower: np.ndarray
    added: np.ndarray
    dead: np.ndarray
    damping: float


def revive_dead_inputs(gram):
    """Give inputs that were always zero a unit on the diagonal.

    Returns
    -------
    gram : ndarray of shape (n, n)
        A copy; the identity where all inputs are dead.
    dead : ndarray of shape (n,), dtype bool
        The dead inputs.
    """
    gram = gram.copy()
    diagonal = np.einsum("ii->i", gram)
    dead = diagonal == 0
    diagonal[dead] = 1.0
    return gram, dead


def factorize(gram, *, preconditioner="damping", damping=0.01, column_order="activation"):
    """Order the columns, precondition the Gram matrix and factor it.

    Parameters
    ----------
    gram : ndarray of shape (n, n), dtype float64
        Raw Gram matrix.
    preconditioner : {"damping", "diagonal_dominance", "plain_first", "none"}
        What is added to the diagonal.
    damping : float
        For "damping": first value tried, in units of the mean of the diagonal.
    column_order : {"activation", "original"}
        "activation" puts the columns with the largest diagonal last, where processing starts.

    Returns
    -------
    Factor
        Order, factor and what was added.
    """
    gram, dead = revive_dead_inputs(gram)
    diagonal = np.diag(gram)
    order = np.arange(len(gram))
    if column_order == "activation":
        order = np.argsort(diagonal, kind="stable")
        gram = gram[np.ix_(order, order)]
    lower, offset = _precondition(gram, preconditioner, damping)
    mean = float(diagonal.mean())
    added = offset + dead[order]
    return Factor(order, lower, added, dead, float(offset.mean()) / mean)


def _precondition(gram, preconditioner, damping):
    n = len(gram)
    nothing = np.zeros(n)
    if preconditioner == "damping":
        return damped_cholesky(gram, damping)
    if preconditioner in ("none", "plain_first"):
        lower = try_cholesky(gram)
        if lower is not None:
            return lower, nothing
        if preconditioner == "none":
            raise LinAlgError(
                f"The Gram matrix of the {n} inputs is singular, and preconditioner='none' leaves "
                "it as it is: set preconditioner='damping' (or 'diagonal_dominance'), or fit on "
                "more samples."
            )
    offset = dominance_offset(gram)
    return cholesky(gram + np.diag(offset), lower=True, check_finite=False), offset


def damped_cholesky(gram, damping):
    """Add ``damping`` times the mean diagonal, doubled until the factor exists.

    Returns
    -------
    lower : ndarray of shape (n, n)
        The factor.
    offset : ndarray of shape (n,)
        What was added to the diagonal.
    """
    n = len(gram)
    mean = float(np.diag(gram).mean())
    share = damping
    while True:
        offset = np.full(n, share * mean)
        lower = try_cholesky(gram + np.diag(offset))
        if lower is not None:
            return lower, offset
        share = max(2 * share, n * np.finfo(np.float64).eps)


def dominance_offset(gram):
    """Smallest additions to the diagonal that make the matrix diagonally dominant.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Symmetric with a positive diagonal.

    Returns
    -------
    ndarray of shape (n,)
        ``max(sum_u |H_ju| - 2 H_jj, 1e-8)``, the floor in units of the mean diagonal, so that
        the scale of the inputs does not matter.
    """
    diagonal = np.diag(gram)
    return np.maximum(np.abs(gram).sum(axis=1) - 2 * diagonal, 1e-8 * diagonal.mean())


def try_cholesky(matrix):
    """Lower Cholesky factor, or None where the matrix is not safely positive definite.

    A pivot that is pure rounding error passes LAPACK's test for positive definiteness; the
    division by it in the back-substitution would not be a number to rely on.
    """
    try:
        lower = cholesky(matrix, lower=True, check_finite=False)
    except LinAlgError:
        return None
    pivots = np.diag(lower)
    floor = len(matrix) * np.finfo(np.float64).eps * np.diag(matrix).max()
    return lower if (pivots**2).min() > floor else None
