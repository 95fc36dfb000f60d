/* Normalisation over the components of each point, from rows of points to one vector per point.
 * The file includes itself once for each type. */
#ifndef SKML_NORM_KERNEL_H
#define SKML_NORM_KERNEL_H

#include "_strips.h"

#define sqrt_f32 sqrtf
#define sqrt_f64 sqrt

#define SKML_KERNEL "_norm_kernel.h"
#include "_both_types.h"

#elif defined(REAL)

/* Row i of two blocks of rows, the first of which has `split` rows. */
SKML_INLINE const REAL *FN(row_of)(
    const REAL *upper, const REAL *lower, ptrdiff_t split, ptrdiff_t stride, ptrdiff_t i)
{
    return i < split ? upper + i * stride : lower + (i - split) * stride;
}

/* The mean of each point, and 1 / sqrt(variance + eps). */
SKML_INLINE void FN(moments_strip)(
    const REAL *upper, const REAL *lower, ptrdiff_t split, ptrdiff_t stride, ptrdiff_t d,
    ptrdiff_t width, double eps, REAL *restrict mean, REAL *restrict inverse)
{
    for (ptrdiff_t c = 0; c < width; ++c)
        mean[c] = inverse[c] = 0;
    for (ptrdiff_t i = 0; i < d; ++i) {
        const REAL *restrict row = FN(row_of)(upper, lower, split, stride, i);
        for (ptrdiff_t c = 0; c < width; ++c)
            mean[c] += row[c];
    }
    for (ptrdiff_t c = 0; c < width; ++c)
        mean[c] /= (REAL)d;
    for (ptrdiff_t i = 0; i < d; ++i) {
        const REAL *restrict row = FN(row_of)(upper, lower, split, stride, i);
        for (ptrdiff_t c = 0; c < width; ++c)
            inverse[c] += (row[c] - mean[c]) * (row[c] - mean[c]);
    }
    for (ptrdiff_t c = 0; c < width; ++c)
        inverse[c] = 1 / FN(sqrt)(inverse[c] / (REAL)d + (REAL)eps);
}

/* vectors[c, i] = scale_i (weight_i (rows[i, c] - mean_c) / sqrt(variance_c + eps) + bias_i);
 * scale may be NULL. */
SKML_CLONES static void FN(norm_strip)(
    const REAL *upper, const REAL *lower, ptrdiff_t split, ptrdiff_t stride, ptrdiff_t d,
    ptrdiff_t width, const REAL *weight, const REAL *bias, const REAL *scale, double eps,
    REAL *vectors)
{
    REAL mean[SKML_STRIP], inverse[SKML_STRIP];
    FN(moments_strip)(upper, lower, split, stride, d, width, eps, mean, inverse);
    for (ptrdiff_t i = 0; i < d; ++i) {
        const REAL *restrict row = FN(row_of)(upper, lower, split, stride, i);
        REAL *restrict vector = vectors + i;
        const REAL s = scale == NULL ? 1 : scale[i], w = s * weight[i], b = s * bias[i];
        for (ptrdiff_t c = 0; c < width; ++c)
            vector[c * d] = (row[c] - mean[c]) * inverse[c] * w + b;
    }
}

/* Gradients: with respect to the rows, and this strip's part of those with respect to scale *
 * weight and scale * bias. With y the normalised point and h = scale * weight * gradient,
 *     slope = (h - mean(h) - y mean(h y)) / sqrt(variance + eps). */
SKML_CLONES static void FN(norm_slope_strip)(
    const REAL *upper, const REAL *lower, ptrdiff_t split, ptrdiff_t stride, ptrdiff_t d,
    ptrdiff_t width, const REAL *weight, const REAL *scale, double eps, const REAL *gradient,
    REAL *to_upper, REAL *to_lower, REAL *to_weight, REAL *to_bias)
{
    REAL mean[SKML_STRIP], inverse[SKML_STRIP], first[SKML_STRIP], second[SKML_STRIP];
    FN(moments_strip)(upper, lower, split, stride, d, width, eps, mean, inverse);
    for (ptrdiff_t c = 0; c < width; ++c)
        first[c] = second[c] = 0;
    for (ptrdiff_t i = 0; i < d; ++i) {
        const REAL *restrict row = FN(row_of)(upper, lower, split, stride, i);
        const REAL *restrict vector = gradient + i;
        REAL *restrict slope = (REAL *)FN(row_of)(to_upper, to_lower, split, stride, i);
        const REAL w = (scale == NULL ? 1 : scale[i]) * weight[i];
        REAL with_normalised = 0, alone = 0;
        for (ptrdiff_t c = 0; c < width; ++c)
            slope[c] = vector[c * d];
        for (ptrdiff_t c = 0; c < width; ++c) {
            const REAL normalised = (row[c] - mean[c]) * inverse[c];
            alone += slope[c];
            with_normalised += slope[c] * normalised;
            slope[c] *= w;
            first[c] += slope[c];
            second[c] += slope[c] * normalised;
        }
        to_weight[i] += with_normalised;
        to_bias[i] += alone;
    }
    for (ptrdiff_t c = 0; c < width; ++c) {
        first[c] /= (REAL)d;
        second[c] /= (REAL)d;
    }
    for (ptrdiff_t i = 0; i < d; ++i) {
        const REAL *restrict row = FN(row_of)(upper, lower, split, stride, i);
        REAL *restrict slope = (REAL *)FN(row_of)(to_upper, to_lower, split, stride, i);
        for (ptrdiff_t c = 0; c < width; ++c) {
            const REAL normalised = (row[c] - mean[c]) * inverse[c];
            slope[c] = (slope[c] - first[c] - normalised * second[c]) * inverse[c];
        }
    }
}

#endif
