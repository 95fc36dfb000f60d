/* Widths of Manski bounds from tables, and their gradients, row by row.
 *
 * What a step of the partition costs is to read the tables. The gradient of a row's width is
 * known as soon as the width is, so both are found while the row is in the first cache. The file
 * includes itself once for each type. */
#ifndef SKML_WIDTH_KERNEL_H
#define SKML_WIDTH_KERNEL_H

#include <math.h>
#include <stddef.h>

#include "_clones.h"

#define SKML_TABLES 3 /* pi, m1, m0 */

/* Vectors that lie across two lines of the cache take twice as long to read: the averages and the
 * gradients of a cell start on a line. */
#define SKML_LINE 64
#if defined(__GNUC__)
#define SKML_ON_LINE(pointer) __builtin_assume_aligned(pointer, SKML_LINE)
#define SKML_FETCH(pointer) __builtin_prefetch(pointer, 0, 2) /* into the second cache */
#else
#define SKML_ON_LINE(pointer) (pointer)
#define SKML_FETCH(pointer) ((void)(pointer))
#endif
#define SKML_BLOCK 64 /* instruments between two requests to the memory */

/* The width is 1 plus the least, over the cells, of each of these sums of a cell's quantities:
 * m1 - pi, m0 + pi, -m0 and -m1. */
static const int SKML_TERMS[4][SKML_TABLES] = {{-1, 1, 0}, {1, 0, 1}, {0, 0, -1}, {0, -1, 0}};

#define SKML_KERNEL "_width_kernel.h"
#include "_both_types.h"

#elif defined(REAL)

/* quantities[l, t] = sum_z averages[l, z] table_t[z], for four cells. */
SKML_INLINE void FN(four_averages)(
    const REAL *restrict pi, const REAL *restrict m1, const REAL *restrict m0, ptrdiff_t n_z,
    const REAL *restrict averages, ptrdiff_t stride, REAL *restrict quantities)
{
    const REAL *restrict w0 = SKML_ON_LINE(averages), *restrict w1 = SKML_ON_LINE(w0 + stride);
    const REAL *restrict w2 = SKML_ON_LINE(w1 + stride), *restrict w3 = SKML_ON_LINE(w2 + stride);
    REAL p0 = 0, p1 = 0, p2 = 0, p3 = 0, a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0,
         b3 = 0;
#pragma omp simd reduction(+ : p0, p1, p2, p3, a0, a1, a2, a3, b0, b1, b2, b3)
    for (ptrdiff_t z = 0; z < n_z; ++z) {
        p0 += w0[z] * pi[z], a0 += w0[z] * m1[z], b0 += w0[z] * m0[z];
        p1 += w1[z] * pi[z], a1 += w1[z] * m1[z], b1 += w1[z] * m0[z];
        p2 += w2[z] * pi[z], a2 += w2[z] * m1[z], b2 += w2[z] * m0[z];
        p3 += w3[z] * pi[z], a3 += w3[z] * m1[z], b3 += w3[z] * m0[z];
    }
    quantities[0] = p0, quantities[1] = a0, quantities[2] = b0;
    quantities[3] = p1, quantities[4] = a1, quantities[5] = b1;
    quantities[6] = p2, quantities[7] = a2, quantities[8] = b2;
    quantities[9] = p3, quantities[10] = a3, quantities[11] = b3;
}

/* Ask for a piece of the three rows that come next, while this row is worked on: the memory would
 * else have nothing to do. */
SKML_INLINE void FN(fetch_tables)(
    const REAL *next, ptrdiff_t table, ptrdiff_t start, ptrdiff_t stop)
{
    for (ptrdiff_t z = start; z < stop; z += SKML_LINE / sizeof(REAL))
        for (int t = 0; t < SKML_TABLES; ++t)
            SKML_FETCH(next + t * table + z);
}

/* slope[l, z] += sum_t coefficient[l, t] table_t[z], for four cells. */
SKML_INLINE void FN(add_to_four)(
    const REAL *restrict pi, const REAL *restrict m1, const REAL *restrict m0, ptrdiff_t start,
    ptrdiff_t stop, const REAL *restrict coefficient, REAL *slope, ptrdiff_t stride)
{
    REAL *restrict s0 = SKML_ON_LINE(slope), *restrict s1 = SKML_ON_LINE(s0 + stride);
    REAL *restrict s2 = SKML_ON_LINE(s1 + stride), *restrict s3 = SKML_ON_LINE(s2 + stride);
    const REAL *restrict c = coefficient;
#pragma omp simd
    for (ptrdiff_t z = start; z < stop; ++z) {
        s0[z] += c[0] * pi[z] + c[1] * m1[z] + c[2] * m0[z];
        s1[z] += c[3] * pi[z] + c[4] * m1[z] + c[5] * m0[z];
        s2[z] += c[6] * pi[z] + c[7] * m1[z] + c[8] * m0[z];
        s3[z] += c[9] * pi[z] + c[10] * m1[z] + c[11] * m0[z];
    }
}

/* The least of a sum of the quantities over the cells that are not empty; NaN if one is. Adds the
 * gradient, times `weight`, to `coefficient`, shared by the cells that attain the least. */
SKML_INLINE REAL FN(least_term)(
    const int *signs, const REAL *quantities, const unsigned char *empty, ptrdiff_t n_cells,
    REAL weight, REAL *coefficient)
{
    REAL least = INFINITY;
    int n_least = 0;
    for (ptrdiff_t l = 0; l < n_cells; ++l) {
        const REAL *q = quantities + SKML_TABLES * l;
        const REAL value = signs[0] * q[0] + signs[1] * q[1] + signs[2] * q[2];
        if (empty[l])
            continue;
        if (isnan(value))
            return value;
        n_least = value < least ? 1 : n_least + (value == least);
        least = value < least ? value : least;
    }
    for (ptrdiff_t l = 0; l < n_cells; ++l) {
        const REAL *q = quantities + SKML_TABLES * l;
        const REAL value = signs[0] * q[0] + signs[1] * q[1] + signs[2] * q[2];
        if (empty[l] || value != least)
            continue;
        for (int t = 0; t < SKML_TABLES; ++t)
            coefficient[SKML_TABLES * l + t] += signs[t] * weight / n_least;
    }
    return least;
}

/* Sum of weight times width of the rows from `start` to `stop`. The gradient with respect to the
 * averages is added to `slope`, if that is not NULL. Both hold n_groups times four cells, at
 * distances of `stride`; cells that are there to fill a group up are empty. `room` is for 24
 * numbers in each group. */
SKML_CLONES static double FN(sum_widths)(
    const REAL *tables, ptrdiff_t n_x, ptrdiff_t n_z, const REAL *averages, ptrdiff_t stride,
    ptrdiff_t n_groups, const unsigned char *empty, const REAL *weight, ptrdiff_t start,
    ptrdiff_t stop, REAL *room, REAL *slope)
{
    const ptrdiff_t group = 4 * SKML_TABLES;
    REAL *quantities = room, *coefficient = room + n_groups * group;
    double total = 0;
    for (ptrdiff_t x = start; x < stop; ++x) {
        const REAL *pi = tables + x * n_z, *m1 = pi + n_x * n_z, *m0 = m1 + n_x * n_z;
        double width = 1;
        for (ptrdiff_t g = 0; g < n_groups; ++g)
            FN(four_averages)(
                pi, m1, m0, n_z, averages + 4 * g * stride, stride, quantities + g * group);
        for (ptrdiff_t q = 0; q < n_groups * group; ++q)
            coefficient[q] = 0;
        for (int term = 0; term < 4; ++term)
            width += FN(least_term)(
                SKML_TERMS[term], quantities, empty, 4 * n_groups, weight[x], coefficient);
        total += weight[x] * width;
        for (ptrdiff_t z = 0; slope != NULL && z < n_z; z += SKML_BLOCK) {
            const ptrdiff_t end = z + SKML_BLOCK < n_z ? z + SKML_BLOCK : n_z;
            if (x + 1 < stop)
                FN(fetch_tables)(pi + n_z, n_x * n_z, z, end);
            for (ptrdiff_t g = 0; g < n_groups; ++g)
                FN(add_to_four)(
                    pi, m1, m0, z, end, coefficient + g * group, slope + 4 * g * stride, stride);
        }
    }
    return total;
}

#endif
