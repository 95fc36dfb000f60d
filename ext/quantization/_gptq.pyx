"""The column loop of GPTQ inside one block of columns."""
cimport cython
from cython.parallel cimport prange

from libc.stdint cimport int32_t, uint8_t

cdef extern from "_lanes.h" nogil:
    void gptq_row_f32(
        float*, const float*, ptrdiff_t, ptrdiff_t, const float*, const float*,
        const int32_t*, int, uint8_t*, float*)
    void gptq_row_f64(
        double*, const double*, ptrdiff_t, ptrdiff_t, const double*, const double*,
        const int32_t*, int, uint8_t*, double*)


def quantize_block(
    cython.floating[:, :] weights,
    const cython.floating[:, ::1] triangle,
    const cython.floating[:, ::1] scale,
    const cython.floating[:, ::1] zero,
    const int32_t[::1] group,
    int max_code,
    uint8_t[:, :] codes,
    cython.floating[:, :] errors,
    int n_threads=1,
):
    """Quantise a block of columns in order, with error feedback inside the block.

    Parameters
    ----------
    weights : array (n_rows, width)
        Weights with the feedback of all columns before the block; overwritten.
    triangle : array (width, width)
        Diagonal block of the upper Cholesky factor U of the inverse Gram matrix.
    scale, zero : array (n_rows, n_groups)
        Grids: code q stands for scale (q - zero).
    group : int32 array (width,)
        Group of each column.
    max_code : int
        The largest code.
    codes, errors : array (n_rows, width)
        Results: codes, and (w - w~) / U[j, j], to be spread over the later blocks.
    """
    cdef ptrdiff_t n_rows = codes.shape[0], width = codes.shape[1], i
    if n_rows == 0 or width == 0:
        return
    for i in prange(n_rows, nogil=True, schedule="static", num_threads=n_threads):
        if cython.floating is float:
            gptq_row_f32(
                &weights[i, 0], &triangle[0, 0], triangle.shape[1], width, &scale[i, 0],
                &zero[i, 0], &group[0], max_code, &codes[i, 0], &errors[i, 0])
        else:
            gptq_row_f64(
                &weights[i, 0], &triangle[0, 0], triangle.shape[1], width, &scale[i, 0],
                &zero[i, 0], &group[0], max_code, &codes[i, 0], &errors[i, 0])
