/* The innermost loops of the histogram engine, and the number of threads.
 *
 * A bin holds pairs of doubles, so that one 16-byte addition updates two sums: (gradient, weight)
 * and, for weighted rows, (number of rows, unused).  The vector type is an extension of gcc and
 * clang that compiles for every architecture.
 */
#ifndef SKML_HIST_KERNELS_H
#define SKML_HIST_KERNELS_H

#include <stdint.h>

#ifdef _OPENMP
#include <omp.h>
static inline int skml_max_threads(void) { return omp_get_max_threads(); }
#else
static inline int skml_max_threads(void) { return 1; }
#endif

typedef double skml_pair __attribute__((vector_size(16)));

/* Two features at a time, so that rows and gradients are loaded once for both.  Without `rows`
 * the rows are first, first + 1, ... */
static inline void skml_add_unit(
    const uint8_t *a, const uint8_t *b, const int32_t *rows, int64_t first, const float *gradient,
    int64_t n, double *hist_a, double *hist_b)
{
    skml_pair *ha = (skml_pair *) hist_a, *hb = (skml_pair *) hist_b;
    if (rows == 0) {
        a += first;
        b += first;
        for (int64_t k = 0; k < n; k++) {
            skml_pair g = {gradient[k], 1.0};
            ha[a[k]] += g;
            hb[b[k]] += g;
        }
        return;
    }
    for (int64_t k = 0; k < n; k++) {
        int64_t i = rows[k];
        skml_pair g = {gradient[k], 1.0};
        ha[a[i]] += g;
        hb[b[i]] += g;
    }
}

static inline void skml_add_unit_one(
    const uint8_t *a, const int32_t *rows, int64_t first, const float *gradient, int64_t n,
    double *hist)
{
    skml_pair *h = (skml_pair *) hist;
    for (int64_t k = 0; k < n; k++) {
        int64_t i = rows == 0 ? first + k : rows[k];
        skml_pair g = {gradient[k], 1.0};
        h[a[i]] += g;
    }
}

/* `gradient` holds w g and w in turn. */
static inline void skml_add_weighted(
    const uint8_t *a, const int32_t *rows, int64_t first, const float *gradient, int64_t n,
    double *hist)
{
    const skml_pair one = {1.0, 0.0};
    skml_pair *h = (skml_pair *) hist;
    for (int64_t k = 0; k < n; k++) {
        int64_t i = rows == 0 ? first + k : rows[k];
        skml_pair g = {gradient[2 * k], gradient[2 * k + 1]};
        h[2 * a[i]] += g;
        h[2 * a[i] + 1] += one;
    }
}

#endif
