"""Low-bit matrix products over packed codes: the bridge between numpy and the C kernels.

`PackedMatrix` keeps the arrays of a weight alive and hands their addresses to C; the functions
check nothing but what keeps memory safe, and run without the GIL.
"""
import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from scipy.linalg.cython_blas cimport sgemm

cdef extern from "gemm.h":
    enum:
        FORMAT_LUT
        FORMAT_UNIFORM
        ISA_SCALAR
        ISA_AVX2
        ISA_AVX512

    ctypedef struct packed_weight:
        int format
        int bits
        int64_t n_rows
        int64_t n_inputs
        int64_t n_blocks
        const uint32_t *words
        const float *table
        int64_t table_size
        const float *scale
        const float *zero
        int64_t n_groups
        int64_t group_size
        const int64_t *outlier_start
        const int32_t *outlier_column
        const float *outlier_value

    ctypedef struct product:
        const packed_weight *weight
        const float *x
        int64_t x_stride
        int64_t n_columns
        const float *bias
        float *y
        int64_t y_stride

    ctypedef void (*sgemm_function)(
        char *, char *, int *, int *, int *, float *, float *, int *, float *, int *,
        float *, float *, int *) noexcept nogil

    int64_t blocks_for(int64_t n_inputs, int bits) nogil
    void pack_rows(const uint8_t *codes, int64_t n_rows, int64_t n_inputs, int bits,
                   uint32_t *words) nogil
    void unpack_rows(const uint32_t *words, int64_t n_rows, int64_t n_inputs, int bits,
                     uint8_t *codes) nogil
    int isa_supported(int isa) nogil
    int isa_for(int isa, const packed_weight *weight) nogil
    int64_t dense_from(int isa) nogil
    int multiply(const product *problem, int isa, int n_threads) nogil
    int multiply_dense(const product *problem, int isa, int n_threads, sgemm_function) nogil
    int multiply_transposed(const packed_weight *weight, const float *dy, int64_t n_columns,
                            float *dx, int isa, int n_threads, sgemm_function) nogil
    int level_gradient(const packed_weight *weight, const float *dy, const float *x,
                       int64_t n_columns, float *d_levels, int n_threads, sgemm_function) nogil
    int dequantize_rows(const packed_weight *weight, int isa, int n_threads, float *out) nogil

cdef extern from "integer.h":
    int multiply_integer(const product *problem, int act_bits, int64_t act_group, int isa,
                         int n_threads) nogil

cdef extern from "grouped.h":
    ctypedef struct grouped_problem:
        product product
        int isa
        int act_bits
        int64_t act_group

    int multiply_grouped(const grouped_problem *problems, int64_t n, int n_threads) nogil

cdef extern from *:
    """
    #ifdef _OPENMP
    #include <omp.h>
    static int openmp_threads(void) { return omp_get_max_threads(); }
    static const int has_openmp = 1;
    #else
    static int openmp_threads(void) { return 1; }
    static const int has_openmp = 0;
    #endif
    """
    int openmp_threads()
    const int has_openmp

ISAS = {"scalar": ISA_SCALAR, "avx2": ISA_AVX2, "avx512": ISA_AVX512}


def supported(str name):
    """Whether this machine runs the kernels of a name in `ISAS`."""
    return bool(isa_supported(ISAS[name]))


def dense_rows(str name):
    """Rows of X from which the kernels of a name leave the product to BLAS."""
    return dense_from(ISAS[name])


def default_threads():
    """Threads that OpenMP would use, as its variables and threadpoolctl have set it."""
    return openmp_threads()


def built_with_openmp():
    """Whether the kernels can use more than one thread."""
    return bool(has_openmp)


def words_per_row(int64_t n_inputs, int bits):
    """Words of 32 bits that hold a row, whole blocks of 16."""
    return 16 * blocks_for(n_inputs, bits)


def pack(const uint8_t[:, ::1] codes, int bits):
    """Words (n_rows, words_per_row) of codes that lie below 2**bits."""
    cdef int64_t m = codes.shape[0], n = codes.shape[1]
    words = aligned_empty((m, words_per_row(n, bits)), np.uint32)
    cdef uint32_t[:, ::1] out = words
    if m and n:
        with nogil:
            pack_rows(&codes[0, 0], m, n, bits, &out[0, 0])
    return words


def unpack(const uint32_t[:, ::1] words, int bits, int64_t n_inputs):
    """Codes (n_rows, n_inputs) of packed words."""
    cdef int64_t m = words.shape[0]
    if words.shape[1] != 16 * blocks_for(n_inputs, bits):
        raise ValueError("the words do not hold rows of this length")
    codes = np.empty((m, n_inputs), dtype=np.uint8)
    cdef uint8_t[:, ::1] out = codes
    if m and n_inputs:
        with nogil:
            unpack_rows(&words[0, 0], m, n_inputs, bits, &out[0, 0])
    return codes


def aligned_empty(shape, dtype):
    """Uninitialised C-ordered array that starts on a cache line."""
    dtype = np.dtype(dtype)
    n_bytes = int(np.prod(shape)) * dtype.itemsize
    raw = np.empty(n_bytes + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start:start + n_bytes].view(dtype).reshape(shape)


cdef class PackedMatrix:
    """A weight for the kernels: packed words and a table per row, or scale and zero per group.

    Parameters
    ----------
    words : uint32 array (n_rows, words_per_row(n_inputs, bits))
    n_inputs, bits : int
    table : float32 array (n_rows, max(16, 2**bits)) or None
    scale, zero : float32 arrays (n_rows, n_groups) or None
    group_size : int
        Inputs that share a scale and a zero.
    outliers : tuple of (int64 indptr, int32 indices, float32 data) or None
        Sparse rows that are added.
    """
    cdef packed_weight weight
    cdef object kept

    def __init__(self, const uint32_t[:, ::1] words, int64_t n_inputs, int bits, *,
                 const float[:, ::1] table=None, const float[:, ::1] scale=None,
                 const float[:, ::1] zero=None, int64_t group_size=0, outliers=None):
        cdef packed_weight *w = &self.weight
        cdef int64_t m = words.shape[0]
        cdef const int64_t[::1] start
        cdef const int32_t[::1] column
        cdef const float[::1] value
        if not 1 <= bits <= 8 or words.shape[1] != 16 * blocks_for(n_inputs, bits):
            raise ValueError("the words do not hold rows of this length")
        w.bits = bits
        w.n_rows = m
        w.n_inputs = n_inputs
        w.n_blocks = blocks_for(n_inputs, bits)
        w.words = &words[0, 0] if words.size else NULL
        w.format = FORMAT_LUT if table is not None else FORMAT_UNIFORM
        w.table = w.scale = w.zero = NULL
        w.table_size = max(16, 1 << bits)
        w.group_size = n_inputs
        w.n_groups = 1
        if table is not None:
            if table.shape[0] != m or table.shape[1] != w.table_size:
                raise ValueError("the table does not fit the words")
            w.table = &table[0, 0] if m else NULL
        else:
            if group_size < 1 or scale.shape[0] != m or zero.shape[0] != m or (
                    scale.shape[1] != (n_inputs + group_size - 1) // group_size
                    or zero.shape[1] != scale.shape[1]):
                raise ValueError("scale and zero do not fit the words")
            w.group_size = group_size
            w.n_groups = scale.shape[1]
            w.scale = &scale[0, 0] if m else NULL
            w.zero = &zero[0, 0] if m else NULL
        w.outlier_start = NULL
        w.outlier_column = NULL
        w.outlier_value = NULL
        if outliers is not None and outliers[2].size:
            start, column, value = outliers
            if start.shape[0] != m + 1 or start[0] != 0 or start[m] > column.shape[0] or (
                    column.shape[0] != value.shape[0]):
                raise ValueError("the outliers do not fit the words")
            w.outlier_start = &start[0]
            w.outlier_column = &column[0]
            w.outlier_value = &value[0]
        self.kept = (words.base, table.base if table is not None else None,
                     (scale.base, zero.base) if scale is not None else None, outliers)

    def isa_used(self, str name):
        """The kernels that run when ``name`` is asked for."""
        cdef int isa = isa_for(ISAS[name], &self.weight)
        return next(key for key, value in ISAS.items() if value == isa)

    def dense_from(self, str name):
        """Rows of X from which panels are decoded for BLAS."""
        return dense_from(isa_for(ISAS[name], &self.weight))

    def matmul(self, const float[:, :] X, float[:, ::1] out, const float[::1] bias,
               str isa, int n_threads, bint dense):
        """Write X W^T + bias to ``out``; rows of X are contiguous."""
        cdef product p
        cdef int status, used = self.usable(isa)
        if not self.describe(&p, X, out, bias):
            return
        n_threads = max(n_threads, 1)
        with nogil:
            if dense:
                status = multiply_dense(&p, used, n_threads, <sgemm_function> sgemm)
            else:
                status = multiply(&p, used, n_threads)
        if status:
            raise MemoryError("no memory for the scratch of a product")

    def integer_matmul(self, const float[:, :] X, float[:, ::1] out, const float[::1] bias,
                       int act_bits, int64_t act_group, str isa, int n_threads):
        """As matmul, with the inputs rounded to ``act_bits`` bits per row or group of it."""
        cdef product p
        cdef int status
        if not isa_supported(ISAS[isa]):
            raise RuntimeError(f"this machine does not run {isa}")
        self.check_rounding(act_bits, act_group)
        if not self.describe(&p, X, out, bias):
            return
        cdef int used = ISAS[isa]
        n_threads = max(n_threads, 1)
        with nogil:
            status = multiply_integer(&p, act_bits, act_group, used, n_threads)
        if status:
            raise MemoryError("no memory for the scratch of a product")

    cdef int usable(self, str isa) except -1:
        cdef int used = isa_for(ISAS[isa], &self.weight)
        if not isa_supported(used):
            raise RuntimeError(f"this machine does not run {isa}")
        return used

    cdef int check_rounding(self, int act_bits, int64_t act_group) except -1:
        if self.weight.format != FORMAT_UNIFORM or not 2 <= act_bits <= 8 or act_group == 0:
            raise ValueError("rounded inputs need a uniform weight, 2 to 8 bits and a group")
        return 0

    cdef bint describe(self, product *p, const float[:, :] X, float[:, ::1] out,
                       const float[::1] bias) except *:
        """Fill in a product; False if there is nothing to compute."""
        if X.shape[1] != self.weight.n_inputs or out.shape[0] != X.shape[0] or (
                out.shape[1] != self.weight.n_rows
                or (bias is not None and bias.shape[0] != self.weight.n_rows)):
            raise ValueError("the arrays do not fit the weight")
        p.weight = &self.weight
        p.n_columns = X.shape[0]
        if X.shape[0] == 0 or self.weight.n_rows == 0:
            return False
        if X.shape[1] > 1 and X.strides[1] != sizeof(float) or X.strides[0] % sizeof(float):
            raise ValueError("rows of X must be contiguous")
        p.x = &X[0, 0]
        p.x_stride = max(X.strides[0] // <int64_t> sizeof(float), X.shape[1])
        p.bias = &bias[0] if bias is not None else NULL
        p.y = &out[0, 0]
        p.y_stride = self.weight.n_rows
        return True

    def dequantize(self, str isa, int n_threads):
        """The codes' part of the weight in float32, without outliers."""
        cdef int status = 0, used = isa_for(ISAS[isa], &self.weight)
        dense = np.empty((self.weight.n_rows, self.weight.n_inputs), dtype=np.float32)
        cdef float[:, ::1] out = dense
        n_threads = max(n_threads, 1)
        if dense.size:
            with nogil:
                status = dequantize_rows(&self.weight, used, n_threads, &out[0, 0])
        if status:
            raise MemoryError("no memory for the scratch of dequantising")
        return dense

    def matmul_transposed(self, const float[:, ::1] dY, str isa, int n_threads):
        """The product dY W, the gradient of X."""
        cdef int64_t n_samples = dY.shape[0]
        cdef int status = 0, used = isa_for(ISAS[isa], &self.weight)
        if dY.shape[1] != self.weight.n_rows:
            raise ValueError("the gradient does not fit the weight")
        gradient = np.zeros((n_samples, self.weight.n_inputs), dtype=np.float32)
        cdef float[:, ::1] out = gradient
        n_threads = max(n_threads, 1)
        if dY.size:
            with nogil:
                status = multiply_transposed(&self.weight, &dY[0, 0], n_samples, &out[0, 0], used,
                                             n_threads, <sgemm_function> sgemm)
        if status:
            raise MemoryError("no memory for the scratch of a gradient")
        return gradient

    def level_gradient(self, const float[:, ::1] dY, const float[:, ::1] X, int n_threads):
        """Gradient of the table (n_rows, 2**bits): dY^T X summed over the inputs of each code."""
        cdef int status = 0
        if dY.shape[1] != self.weight.n_rows or X.shape[1] != self.weight.n_inputs or (
                X.shape[0] != dY.shape[0]):
            raise ValueError("the gradient does not fit the weight")
        gradient = np.zeros((self.weight.n_rows, 1 << self.weight.bits), dtype=np.float32)
        cdef float[:, ::1] out = gradient
        n_threads = max(n_threads, 1)
        if dY.size:
            with nogil:
                status = level_gradient(&self.weight, &dY[0, 0], &X[0, 0], X.shape[0],
                                        &out[0, 0], n_threads, <sgemm_function> sgemm)
        if status:
            raise MemoryError("no memory for the scratch of a gradient")
        return gradient


def grouped_matmul(const float[:, :] X, list matrices, list rounding, const int64_t[::1] offsets,
                   float[:, ::1] out, str isa, int n_threads):
    """Write ``X[offsets[i]:offsets[i + 1]] W_i^T`` to the same rows of ``out``.

    ``rounding`` holds ``(act_bits, act_group)`` for each matrix, with 0 bits for none.
    """
    cdef int64_t i, first, last, n = len(matrices)
    cdef int status
    cdef PackedMatrix matrix
    cdef grouped_problem *problem
    if offsets.shape[0] != n + 1 or len(rounding) != n or not isa_supported(ISAS[isa]):
        raise ValueError("one more offset than matrices is needed")
    cdef grouped_problem *problems = <grouped_problem *> calloc(max(n, 1), sizeof(grouped_problem))
    if problems == NULL:
        raise MemoryError("no memory for the list of problems")
    try:
        for i in range(n):
            matrix, problem = matrices[i], &problems[i]
            first, last = offsets[i], offsets[i + 1]
            if not 0 <= first <= last <= X.shape[0]:
                raise ValueError("offsets must ascend within the rows of X")
            problem.act_bits, problem.act_group = rounding[i]
            if problem.act_bits:
                matrix.check_rounding(problem.act_bits, problem.act_group)
                problem.isa = ISAS[isa]
            else:
                problem.isa = isa_for(ISAS[isa], &matrix.weight)
            matrix.describe(&problem.product, X[first:last], out[first:last], None)
        n_threads = max(n_threads, 1)
        with nogil:
            status = multiply_grouped(problems, n, n_threads)
    finally:
        free(problems)
    if status:
        raise MemoryError("no memory for the scratch of the products")
