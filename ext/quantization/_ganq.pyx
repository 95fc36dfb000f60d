"""The two steps of GANQ over a panel of rows: back-substitution and the normal equations.

Everything is in the coordinates of the processing order (the last column goes first).  The lower
triangular factor L of the Gram matrix comes in tiles of columns: ``tiles[t, u, c]`` is
``L[u, t * width + c]``.  A tile is contiguous, so it stays in the second-level cache while all
rows of a panel pass over it.
"""
cimport cython
from cython.parallel cimport prange

from libc.math cimport sqrt
from libc.stdint cimport uint8_t, uint16_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

cdef extern from "_lanes.h" nogil:
    void backsub_row_f32(
        const float*, const uint8_t*, float*, const float*, ptrdiff_t, ptrdiff_t,
        const float*, const float*, int, const uint16_t*, uint16_t*, float*, float*)
    void backsub_row_f64(
        const double*, const uint8_t*, double*, const double*, ptrdiff_t, ptrdiff_t,
        const double*, const double*, int, const uint16_t*, uint16_t*, double*, double*)
    void bucket_tile_f32(
        const float*, ptrdiff_t, ptrdiff_t, ptrdiff_t, const uint16_t*, float*)
    void bucket_tile_f64(
        const double*, ptrdiff_t, ptrdiff_t, ptrdiff_t, const uint16_t*, double*)
    void normal_tile_f32(
        const float*, const float*, ptrdiff_t, int, double*, double*)
    void normal_tile_f64(
        const double*, const double*, ptrdiff_t, int, double*, double*)


def backsubstitute_block(
    const cython.floating[:, :] weights,
    kept,
    cython.floating[:, ::1] residual,
    const cython.floating[:, ::1] triangle,
    const cython.floating[:, ::1] table,
    const cython.floating[:, ::1] limits,
    const uint16_t[:, ::1] first,
    uint16_t[:, :] codes,
    cython.floating[:, :] errors,
    cython.floating[:, :] g,
    int n_threads=1,
):
    """Choose the codes of one block of columns, last column first.

    Parameters
    ----------
    weights : array (n_rows, width)
    kept : uint8 array (n_rows, width) or None
        True where the weight is stored exactly: a code, but no error.
    residual : array (at least n_rows, at least width)
        Sum of e_u L[u, j] over the columns behind the block; overwritten.
    triangle : array (width, at least width)
        The diagonal block of L.
    table, limits : array (n_rows, n_codes)
        Ascending table entries; thresholds between neighbouring distinct ones, then infinity.
    first : uint16 array (n_rows, n_codes + 1)
        Lowest code of the entry above a number of thresholds.
    codes, errors, g : array (n_rows, width)
        Results: codes, W - T S and the block's columns of (W - T S) L.
    """
    cdef ptrdiff_t n_rows = codes.shape[0], width = codes.shape[1], i
    cdef int n_limits = <int> limits.shape[1]
    cdef ptrdiff_t stride = triangle.shape[1]
    cdef const uint8_t[:, :] kept_view
    cdef bint has_kept = kept is not None
    if n_rows == 0 or width == 0:
        return
    if has_kept:
        kept_view = kept
    for i in prange(n_rows, nogil=True, schedule="static", num_threads=n_threads):
        if cython.floating is float:
            backsub_row_f32(
                &weights[i, 0], &kept_view[i, 0] if has_kept else NULL, &residual[i, 0],
                &triangle[0, 0], stride, width, &table[i, 0], &limits[i, 0], n_limits,
                &first[i, 0], &codes[i, 0], &errors[i, 0], &g[i, 0])
        else:
            backsub_row_f64(
                &weights[i, 0], &kept_view[i, 0] if has_kept else NULL, &residual[i, 0],
                &triangle[0, 0], stride, width, &table[i, 0], &limits[i, 0], n_limits,
                &first[i, 0], &codes[i, 0], &errors[i, 0], &g[i, 0])


def normal_equations(
    const uint16_t[:, ::1] labels,
    const cython.floating[:, ::1] g,
    const cython.floating[:, :, ::1] tiles,
    double[:, :, ::1] normal,
    double[:, ::1] right,
    int n_threads=1,
):
    """Add up A = (S L)(S L)^T and b = g (S L)^T for every row, without forming S or S L.

    Parameters
    ----------
    labels : uint16 array (n_rows, n)
        Codes; n_codes marks a column that is left out.
    g : array (n_rows, n_tiles * width)
        The row's target in the factored space, zero behind column n.
    tiles : array (n_tiles, n, width)
    normal : float64 array (n_rows, n_codes, n_codes), zero
        On return the lower halves of A.
    right : float64 array (n_rows, n_codes), zero
        On return b.
    """
    cdef ptrdiff_t n_rows = labels.shape[0], n = labels.shape[1]
    cdef ptrdiff_t n_tiles = tiles.shape[0], width = tiles.shape[2]
    cdef int n_codes = <int> right.shape[1]
    cdef ptrdiff_t t, i
    cdef size_t size = (n_codes + 1) * width * sizeof(cython.floating)
    cdef cython.floating* sums = NULL
    cdef int failed = 0
    if n_rows == 0 or n == 0:
        return
    for t in range(n_tiles):
        for i in prange(n_rows, nogil=True, schedule="static", num_threads=n_threads):
            sums = <cython.floating*> malloc(size)
            if sums == NULL:
                failed += 1
            else:
                memset(sums, 0, size)
                if cython.floating is float:
                    bucket_tile_f32(&tiles[t, 0, 0], width, t * width, n, &labels[i, 0], sums)
                    normal_tile_f32(
                        sums, &g[i, t * width], width, n_codes, &normal[i, 0, 0], &right[i, 0])
                else:
                    bucket_tile_f64(&tiles[t, 0, 0], width, t * width, n, &labels[i, 0], sums)
                    normal_tile_f64(
                        sums, &g[i, t * width], width, n_codes, &normal[i, 0, 0], &right[i, 0])
                free(sums)
        if failed:
            raise MemoryError(f"no memory for the code sums of a tile of {n_codes} codes")


def solve_tables(
    double[:, :, ::1] normal,
    double[:, ::1] right,
    double precision,
    uint8_t[::1] solved,
    int n_threads=1,
):
    """Solve A x = b for every row by Cholesky factorisation, codes that no column uses left out.

    Parameters
    ----------
    normal : float64 array (n_rows, n_codes, n_codes)
        Lower halves of A, positive semidefinite; overwritten where `solved`.
    right : float64 array (n_rows, n_codes)
        b; replaced by x, with 0 for a code whose row of A is zero.
    precision : float
        Pivots below this share of the largest diagonal entry make the row unsolved.
    solved : uint8 array (n_rows,)
        On return 0 where A is too close to singular; A and b are then as they were.
    """
    cdef ptrdiff_t n_rows = right.shape[0], i
    cdef int n_codes = <int> right.shape[1]
    if n_rows == 0:
        return
    for i in prange(n_rows, nogil=True, schedule="static", num_threads=n_threads):
        solved[i] = _solve_row(&normal[i, 0, 0], &right[i, 0], n_codes, precision)


cdef uint8_t _solve_row(double* A, double* b, int n, double precision) noexcept nogil:
    cdef double largest = 0, total
    cdef int a, c, k
    # The factor goes to the upper half, row k of L^T to row k, so that A survives a failure but
    # for its diagonal, which is kept behind.
    cdef double* diagonal = <double*> malloc(n * sizeof(double))
    if diagonal == NULL:
        return 0
    for a in range(n):
        diagonal[a] = A[a * n + a]
        largest = max(largest, diagonal[a])
    for a in range(n):
        for c in range(a):
            if diagonal[c] == 0:
                A[c * n + a] = 0
                continue
            total = A[a * n + c]
            for k in range(c):
                total = total - A[k * n + a] * A[k * n + c]
            A[c * n + a] = total / A[c * n + c]
        if diagonal[a] == 0:
            continue
        total = diagonal[a]
        for k in range(a):
            total = total - A[k * n + a] * A[k * n + a]
        if not total > precision * largest:
            for c in range(n):
                A[c * n + c] = diagonal[c]
            free(diagonal)
            return 0
        A[a * n + a] = sqrt(total)
    for a in range(n):
        if diagonal[a] == 0:
            b[a] = 0
            continue
        total = b[a]
        for k in range(a):
            total = total - A[k * n + a] * b[k]
        b[a] = total / A[a * n + a]
    for a in range(n - 1, -1, -1):
        if diagonal[a] == 0:
            continue
        total = b[a]
        for k in range(a + 1, n):
            total = total - A[a * n + k] * b[k]
        b[a] = total / A[a * n + a]
    free(diagonal)
    return 1
