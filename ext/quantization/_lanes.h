/* Row loops of the weight quantizers, for float and double, with run-time choice of the vector
 * width: one build serves every CPU, and the compiler writes the vector code.  The file includes
 * itself once for each type. */
#ifndef SKML_LANES_H
#define SKML_LANES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "_clones.h"

#define SKML_TILE 64

#define round_even_f32 rintf
#define round_even_f64 rint

#define SKML_KERNEL "_lanes.h"
#include "_both_types.h"

#elif defined(REAL)

/* Back-substitution over one block of columns of one row, last column first.
 *
 * `residual` holds, for each column, the sum over the columns behind the block of e_u L[u, j]; it
 * is updated in place.  On return g_j = residual_j + e_j L[j, j], column j of (W - T S) L.
 * `limits` are `n_limits` thresholds between neighbouring distinct table entries, padded with
 * infinity; `first` maps the number of thresholds below a value to the lowest code of the entry.
 * Kept columns (`kept` may be NULL) get a code and no error. */
SKML_CLONES static void FN(backsub_row)(
    const REAL* restrict weight, const uint8_t* kept, REAL* restrict residual,
    const REAL* restrict factor, ptrdiff_t stride, ptrdiff_t width,
    const REAL* restrict table, const REAL* restrict limits, int n_limits,
    const uint16_t* first, uint16_t* code, REAL* restrict error, REAL* restrict g)
{
    for (ptrdiff_t j = width - 1; j >= 0; --j) {
        const REAL* row = factor + j * stride;
        const int is_kept = kept != NULL && kept[j];
        const REAL target = is_kept ? weight[j] : weight[j] + residual[j] / row[j];
        int below = 0;
        for (int k = 0; k < n_limits; ++k)
            below += target > limits[k];
        const uint16_t chosen = first[below];
        const REAL e = is_kept ? (REAL)0 : weight[j] - table[chosen];
        code[j] = chosen;
        error[j] = e;
        g[j] = residual[j] + e * row[j];
        for (ptrdiff_t c = 0; c < j; ++c)
            residual[c] += e * row[c];
    }
}

/* Rows of one tile of the factor, added up by code: sums[q_u] += tile[u], for u in [from, n). */
SKML_CLONES static void FN(bucket_tile)(
    const REAL* restrict tile, ptrdiff_t width, ptrdiff_t from, ptrdiff_t n,
    const uint16_t* restrict label, REAL* restrict sums)
{
    if (width == SKML_TILE) {
        for (ptrdiff_t u = from; u < n; ++u) {
            const REAL* restrict source = tile + u * SKML_TILE;
            REAL* restrict sink = sums + (ptrdiff_t)label[u] * SKML_TILE;
            for (int c = 0; c < SKML_TILE; ++c)
                sink[c] += source[c];
        }
        return;
    }
    for (ptrdiff_t u = from; u < n; ++u) {
        const REAL* restrict source = tile + u * width;
        REAL* restrict sink = sums + (ptrdiff_t)label[u] * width;
        for (ptrdiff_t c = 0; c < width; ++c)
            sink[c] += source[c];
    }
}

/* normal += sums sums^T (lower half) and right += sums g, over one tile. */
SKML_CLONES static void FN(normal_tile)(
    const REAL* restrict sums, const REAL* restrict g, ptrdiff_t width, int n_codes,
    double* restrict normal, double* restrict right)
{
    for (int a = 0; a < n_codes; ++a) {
        const REAL* p = sums + a * width;
        REAL total = 0;
#pragma omp simd reduction(+ : total)
        for (ptrdiff_t c = 0; c < width; ++c)
            total += p[c] * g[c];
        right[a] += (double)total;
        for (int b = 0; b <= a; ++b) {
            const REAL* q = sums + b * width;
            total = 0;
#pragma omp simd reduction(+ : total)
            for (ptrdiff_t c = 0; c < width; ++c)
                total += p[c] * q[c];
            normal[a * n_codes + b] += (double)total;
        }
    }
}

/* GPTQ over one block of columns of one row, first column first: round to the uniform grid of
 * the column's group, then spread the error over the columns to the right inside the block. */
SKML_CLONES static void FN(gptq_row)(
    REAL* restrict weight, const REAL* restrict factor, ptrdiff_t stride, ptrdiff_t width,
    const REAL* scale, const REAL* zero, const int32_t* group, int max_code,
    uint8_t* code, REAL* restrict error)
{
    for (ptrdiff_t j = 0; j < width; ++j) {
        const REAL* row = factor + j * stride;
        const REAL s = scale[group[j]], z = zero[group[j]];
        REAL level = FN(round_even)(weight[j] / s + z);
        level = level < 0 ? 0 : (level > max_code ? (REAL)max_code : level);
        const REAL e = (weight[j] - s * (level - z)) / row[j];
        code[j] = (uint8_t)level;
        error[j] = e;
        for (ptrdiff_t c = j + 1; c < width; ++c)
            weight[c] -= e * row[c];
    }
}

#endif
