/* The loops of _shuffling_rows.h for float and double, and for each instruction set; which one
 * runs is decided when it is called. */
#ifndef SKML_SHUFFLING_KERNEL_H
#define SKML_SHUFFLING_KERNEL_H

#include <Python.h>

#include "_shuffling_loss.h"

typedef struct {
    int loss;
    double parameter;
    double alpha;
    double gamma;
    int fit_intercept;
    Py_ssize_t n;         /* rows */
    Py_ssize_t batch;     /* rows of a batch */
    double n_batches;     /* ceil(n / batch) */
    const Py_ssize_t *order;
    const double *y;
    const double *weight; /* NULL: all are 1 */
    double *theta;        /* d coefficients and the intercept */
    const double *start;  /* a copy of theta before the epoch; NULL: the losses there do not count */
    double *steps;        /* room for one batch */
} skml_epoch;

/* Far enough ahead for a read from memory, near enough to stay in the first cache. */
#define SKML_FETCH_AHEAD 8
#define SKML_FETCH_BYTES 2048
#define SKML_SPARSE_AHEAD 6

#if !defined(__GNUC__)
#define __builtin_prefetch(address) ((void)(address))
#endif

#define TARGET
#define REAL double
#define NAME(x) skml_##x##_double_portable
#include "_shuffling_rows.h"
#undef REAL
#undef NAME
#define REAL float
#define NAME(x) skml_##x##_float_portable
#include "_shuffling_rows.h"
#undef REAL
#undef NAME
#undef TARGET

#if defined(__GNUC__) && defined(__x86_64__)
#define SKML_X86 1
#define TARGET __attribute__((target("avx2,fma")))
#define REAL double
#define NAME(x) skml_##x##_double_avx2
#include "_shuffling_rows.h"
#undef REAL
#undef NAME
#define REAL float
#define NAME(x) skml_##x##_float_avx2
#include "_shuffling_rows.h"
#undef REAL
#undef NAME
#undef TARGET
#define TARGET __attribute__((target("avx2,fma,avx512f,avx512vl,prefer-vector-width=512")))
#define REAL double
#define NAME(x) skml_##x##_double_avx512
#include "_shuffling_rows.h"
#undef REAL
#undef NAME
#define REAL float
#define NAME(x) skml_##x##_float_avx512
#include "_shuffling_rows.h"
#undef REAL
#undef NAME
#undef TARGET
#endif

/* 0 portable, 1 AVX2, 2 AVX-512: the best that this processor has */
static int skml_best_instructions(void) {
#ifdef SKML_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
        return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return 1;
#endif
    return 0;
}

#ifdef SKML_X86
#define SKML_DISPATCH(level, name, arguments)                                                      \
    do {                                                                                           \
        if ((level) == 2)                                                                          \
            return name##_avx512 arguments;                                                        \
        if ((level) == 1)                                                                          \
            return name##_avx2 arguments;                                                          \
        return name##_portable arguments;                                                          \
    } while (0)
#else
#define SKML_DISPATCH(level, name, arguments) return name##_portable arguments
#endif

#define SKML_ENTRIES(REAL)                                                                         \
    static double skml_dense_epoch_##REAL(int level, const skml_epoch *e, const REAL *X,           \
                                          Py_ssize_t d) {                                          \
        SKML_DISPATCH(level, skml_run_dense_##REAL, (e, X, d));                                    \
    }                                                                                              \
    static double skml_sparse_epoch_##REAL(int level, const skml_epoch *e, const REAL *data,       \
                                           const int *indices, const int *indptr, Py_ssize_t d) {  \
        SKML_DISPATCH(level, skml_run_sparse_##REAL, (e, data, indices, indptr, d));               \
    }                                                                                              \
    static double skml_dense_loss_##REAL(int level, const skml_epoch *e, const REAL *X,            \
                                         Py_ssize_t d) {                                           \
        SKML_DISPATCH(level, skml_sum_dense_##REAL, (e, X, d));                                    \
    }                                                                                              \
    static double skml_sparse_loss_##REAL(int level, const skml_epoch *e, const REAL *data,        \
                                          const int *indices, const int *indptr, Py_ssize_t d) {   \
        SKML_DISPATCH(level, skml_sum_sparse_##REAL, (e, data, indices, indptr, d));               \
    }

SKML_ENTRIES(double)
SKML_ENTRIES(float)

#endif
