"""The alternation of GANQ over panels of rows: S-step, T-step, best iterate of each row.

Symbols: W (rows, n) are the weights in processing order, H' = L L^T the preconditioned Gram
matrix in that order, T (rows, K) the tables, q (rows, n) the codes, and S the one-hot matrix of a
row's codes, so that the quantised row is T S.
"""

from dataclasses import dataclass

import numpy as np

from ._codebooks import sort_codebook, thresholds
from ._ganq import backsubstitute_block, normal_equations, solve_tables

# Columns of a tile of L, which is also the block of the S-step.
TILE = 64


def panel_rows(n_codes):
    """Rows that are worked on together; fixed, so that no row depends on how many there are.

    The normal equations of a panel take panel_rows * K^2 numbers, hence fewer rows for many codes.
    """
    return 256 if n_codes <= 32 else 64


@dataclass
class Alternated:
    """What the alternation found for the rows of a matrix.

    Attributes
    ----------
    codes : ndarray of shape (n_rows, n), dtype uint16
        Codes in processing order.
    table : ndarray of shape (n_rows, n_codes)
        Ascending tables.
    objective : ndarray of shape (n_rows,), dtype float64
        (W - T S) H (W - T S)^T of each row with the raw Gram matrix.
    n_iter : int
        Largest number of alternations that a panel ran.
    """

    codes: np.ndarray
    table: np.ndarray
    objective: np.ndarray
    n_iter: int


def tile_factor(lower, width=TILE, dtype=np.float32):
    """Store a lower triangular matrix as contiguous tiles of `width` columns.

    Returns
    -------
    ndarray of shape (n_tiles, n, width)
        ``tiles[t, u, c]`` is ``lower[u, t * width + c]``, zero behind the last column.
    """
    n = len(lower)
    n_tiles = -(-n // width)
    tiles = np.zeros((n_tiles, n, width), dtype=dtype)
    for t in range(n_tiles):
        block = lower[:, t * width : (t + 1) * width]
        tiles[t, :, : block.shape[1]] = block
    return tiles


def alternate(W, table, tiles, added, *, kept=None, max_iter=10, n_threads=1):
    """Run the alternation on every row and keep the best iterate of each.

    Parameters
    ----------
    W : ndarray of shape (n_rows, n)
        Weights in processing order, in the dtype of `tiles`.
    table : ndarray of shape (n_rows, n_codes)
        Tables to start from.
    tiles : ndarray of shape (n_tiles, n, width)
        The factor L, from :func:`tile_factor`.
    added : ndarray of shape (n,), dtype float64
        What the preconditioner added to the diagonal of the raw Gram matrix.
    kept : ndarray of shape (n_rows, n), dtype uint8, or None, default=None
        True where the weight is stored exactly.
    max_iter : int
        Number of alternations; a panel whose codes no longer change stops before.
    n_threads : int
        OpenMP threads of the row loops.

    Returns
    -------
    Alternated
        Codes, tables and objective.
    """
    n_rows, n = W.shape
    rows = panel_rows(table.shape[1])
    found = Alternated(np.empty((n_rows, n), np.uint16), np.empty_like(table), np.empty(n_rows), 0)
    for start in range(0, n_rows, rows):
        part = slice(start, start + rows)
        panel_kept = None if kept is None else np.ascontiguousarray(kept[part])
        panel = _Panel(W[part], tiles, added, panel_kept, rows, n_threads)
        n_iter = panel.run(table[part], max_iter)
        found.table[part], found.codes[part] = sort_codebook(panel.best_table, panel.best_codes)
        found.objective[part] = panel.best_objective
        found.n_iter = max(found.n_iter, n_iter)
    return found


class _Panel:
    """A panel of rows and the scratch that the two steps share.

    Matrix products are made on `capacity` rows whatever the panel holds: BLAS chooses its code
    path by the shape, and a row must come out the same in any company.
    """

    def __init__(self, W, tiles, added, kept, capacity, n_threads):
        self.W, self.tiles, self.added, self.kept = W, tiles, added, kept
        self.n_threads = n_threads
        n_tiles, n, width = tiles.shape
        dtype = tiles.dtype
        self.errors = np.zeros((capacity, n), dtype=dtype)
        self.g = np.zeros((len(W), n_tiles * width), dtype=dtype)
        self.codes = np.zeros((len(W), n), dtype=np.uint16)
        self.residual = np.zeros((capacity, width), dtype=dtype)

    def run(self, table, max_iter):
        self.best_objective = np.full(len(self.W), np.inf)
        self.best_table, self.best_codes = table.copy(), self.codes.copy()
        previous = None
        for iteration in range(1, max_iter + 1):
            table = np.sort(table, axis=1)
            self.choose_codes(table)
            if previous is not None and np.array_equal(previous, self.codes):
                # The T-step of these codes has been taken: nothing can change any more.
                return iteration
            previous = self.codes.copy()
            table, objective = self.fit_table(table)
            better = objective < self.best_objective
            self.best_objective[better] = objective[better]
            self.best_table[better] = table[better]
            self.best_codes[better] = self.codes[better]
        return max_iter

    def choose_codes(self, table):
        """S-step: back-substitution from the last column to the first, in blocks of a tile."""
        n = self.W.shape[1]
        width = self.tiles.shape[2]
        table = np.ascontiguousarray(table)
        limits, first = thresholds(table)
        for t in reversed(range(len(self.tiles))):
            begin, end = t * width, min((t + 1) * width, n)
            # The share of all columns behind the block, in one product.
            np.matmul(self.errors[:, end:], self.tiles[t, end:], out=self.residual)
            backsubstitute_block(
                self.W[:, begin:end],
                None if self.kept is None else self.kept[:, begin:end],
                self.residual,
                self.tiles[t, begin:end],
                table,
                limits,
                first,
                self.codes[:, begin:end],
                self.errors[: len(self.W), begin:end],
                self.g[:, begin:end],
                self.n_threads,
            )

    def fit_table(self, table):
        """T-step: least squares for the tables, given the codes.

        Solved for the change of the table, with right-hand side (W - T S) L L^T S^T: in float32
        that loses no digits to cancellation, and the least-norm change leaves a code that no
        column uses where it is.
        """
        n_rows, n_codes = table.shape
        labels = self.codes
        if self.kept is not None:
            labels = np.where(self.kept, np.uint16(n_codes), self.codes)
        A = np.zeros((n_rows, n_codes, n_codes))
        b = np.zeros((n_rows, n_codes))
        normal_equations(labels, self.g, self.tiles, A, b, self.n_threads)
        precision = n_codes * np.finfo(table.dtype).eps
        change = solve_least_norm(A.copy(), b.copy(), precision, self.n_threads)
        A += np.tril(A, -1).transpose(0, 2, 1)
        # Rounded first: the objective is that of the table that is kept.
        new_table = (table + change).astype(table.dtype)
        change = new_table.astype(np.float64) - table
        return new_table, self._objective(labels, A, b, change)

    def _objective(self, labels, A, b, change):
        """(W - T S) H (W - T S)^T with the raw H = H' - diag(added), after the change of T."""
        errors = self.errors[: len(self.W)].astype(np.float64)
        squares = np.einsum("ij,ij->i", self.g, self.g, dtype=np.float64)
        squares += np.einsum("ik,ikl,il->i", change, A, change) - 2 * np.einsum(
            "ik,ik->i", change, b
        )
        padded = np.concatenate([change, np.zeros((len(change), 1))], axis=1)
        errors -= np.take_along_axis(padded, labels.astype(np.intp), axis=1)
        return squares - np.einsum("ij,j->i", errors**2, self.added)


def solve_least_norm(A, b, precision, n_threads=1):
    """Least-norm solutions of A x = b for a stack of positive semidefinite matrices.

    A code that no column uses has a row of zeros in A and the solution 0. Without these rows A is
    positive definite, so that Cholesky factors give A^+ b. Where rounding leaves that in doubt,
    the pseudo-inverse itself is computed.

    Parameters
    ----------
    A : ndarray of shape (n_rows, n_codes, n_codes), dtype float64
        Lower halves; overwritten.
    b : ndarray of shape (n_rows, n_codes), dtype float64
        Right-hand sides; overwritten.
    precision : float
        Relative precision of A: eigenvalues and pivots below it are rounding errors.
    n_threads : int
        OpenMP threads.

    Returns
    -------
    ndarray of shape (n_rows, n_codes)
        A^+ b.
    """
    solved = np.empty(len(b), dtype=np.uint8)
    solve_tables(A, b, precision, solved, n_threads)
    for i in np.flatnonzero(solved == 0):
        symmetric = np.tril(A[i]) + np.tril(A[i], -1).T
        b[i] = np.linalg.pinv(symmetric, rcond=precision, hermitian=True) @ b[i]
    return b
