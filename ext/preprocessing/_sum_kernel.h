/* Sums of functions of linear maps of points, and their gradients.
 *
 * For each linear map in turn the basis functions of a strip are evaluated into `rows`, and added
 * to all outputs: no more than one linear map's functions are ever held. The file includes itself
 * once for each type. */
#ifndef SKML_SUM_KERNEL_H
#define SKML_SUM_KERNEL_H

#include "_strips.h"

#define SKML_MAX_DEGREE 10
#define SKML_PIECES 12  /* pieces of the highest degree, filled up to fours */

enum { SKML_HARMONICS, SKML_SPLINES };

/* The functions are, by `kind`,
 *     cos(x), cos(2 x), ..., sin(x), sin(2 x), ...; `first` and `second` hold cos(x) and sin(x); or
 *     tanh(x), then uniform B-splines; `first` and `second` hold x and tanh(x). */
typedef struct {
    int kind;
    int is_full;               /* outputs use all linear maps, or the one of their own number */
    ptrdiff_t n_points;        /* length of all rows that are not those of a strip */
    ptrdiff_t n_dims;          /* linear maps, and outputs */
    ptrdiff_t n_functions;
    int n_intervals;           /* of the grid proper, which `degree` intervals are added to on */
    int degree;                /* each side */
    double low;                /* lower end of the grid proper */
    double per_unit;           /* intervals per unit of x */
    const double *polynomials; /* [p * (degree + 1) + r]: coefficient of u**p of the r-th piece */
} skml_sum;

#define floor_f32 floorf
#define floor_f64 floor

#define SKML_KERNEL "_sum_kernel.h"
#include "_both_types.h"

#elif defined(REAL)

/* cos((m + 1) x) and sin((m + 1) x) from those of m x and of x, by angle addition. */
SKML_INLINE void FN(harmonic_rows)(
    const skml_sum *sum, const REAL *restrict cos_1, const REAL *restrict sin_1, ptrdiff_t width,
    REAL *rows)
{
    const ptrdiff_t n_harmonics = sum->n_functions / 2;
    REAL *sines = rows + n_harmonics * SKML_STRIDE;
    for (ptrdiff_t c = 0; c < width; ++c) {
        rows[c] = cos_1[c];
        sines[c] = sin_1[c];
    }
    for (ptrdiff_t m = 1; m < n_harmonics; ++m) {
        const REAL *restrict cos_m = rows + (m - 1) * SKML_STRIDE;
        const REAL *restrict sin_m = sines + (m - 1) * SKML_STRIDE;
        REAL *restrict cos_next = rows + m * SKML_STRIDE;
        REAL *restrict sin_next = sines + m * SKML_STRIDE;
#pragma omp simd
        for (ptrdiff_t c = 0; c < width; ++c) {
            cos_next[c] = cos_m[c] * cos_1[c] - sin_m[c] * sin_1[c];
            sin_next[c] = sin_m[c] * cos_1[c] + cos_m[c] * sin_1[c];
        }
    }
}

/* slope = sum_m m (gradient of sin(m x) * cos(m x) - gradient of cos(m x) * sin(m x)). */
SKML_INLINE void FN(harmonic_slope)(
    const skml_sum *sum, const REAL *rows, const REAL *gradients, ptrdiff_t width,
    REAL *restrict slope)
{
    const ptrdiff_t n_harmonics = sum->n_functions / 2;
    for (ptrdiff_t c = 0; c < width; ++c)
        slope[c] = 0;
    for (ptrdiff_t m = 0; m < n_harmonics; ++m) {
        const REAL *restrict cos_m = rows + m * SKML_STRIDE;
        const REAL *restrict sin_m = cos_m + n_harmonics * SKML_STRIDE;
        const REAL *restrict to_cos = gradients + m * SKML_STRIDE;
        const REAL *restrict to_sin = to_cos + n_harmonics * SKML_STRIDE;
        const REAL multiple = (REAL)(m + 1);
#pragma omp simd
        for (ptrdiff_t c = 0; c < width; ++c)
            slope[c] += multiple * (to_sin[c] * cos_m[c] - to_cos[c] * sin_m[c]);
    }
}

/* Where points lie: the number of their interval in the extended grid, from 0, and their position
 * u inside it. Points beyond the extended grid are held where no B-spline is reached; NaN keeps a
 * u of NaN. */
SKML_INLINE void FN(locate)(
    const skml_sum *sum, const REAL *restrict x, ptrdiff_t width, REAL *restrict interval,
    REAL *restrict u)
{
    const REAL low = (REAL)sum->low, per_unit = (REAL)sum->per_unit, degree = (REAL)sum->degree;
    const REAL beyond = (REAL)(sum->n_intervals + 2 * sum->degree);
    for (ptrdiff_t c = 0; c < width; ++c) {
        REAL position = (x[c] - low) * per_unit + degree;
        position = position < -1 ? -1 : position;
        position = position > beyond ? beyond : position;
        interval[c] = FN(floor)(position);
        u[c] = position - interval[c];
    }
}

/* All pieces of the B-splines (or, if `derivative`, their slopes by x) at the positions u. Horner's
 * rule, four coefficients in a pass; missing ones of the highest powers are zero. */
SKML_INLINE void FN(evaluate_pieces)(
    const skml_sum *sum, int derivative, const REAL *restrict u, ptrdiff_t width,
    REAL pieces[][SKML_STRIP])
{
    const int k = sum->degree, n_passes = (k + 4 - derivative) / 4;
    for (int r = 0; r <= k; ++r) {
        REAL *restrict value = pieces[r];
        for (ptrdiff_t c = 0; c < width; ++c)
            value[c] = 0;
        for (int pass = n_passes - 1; pass >= 0; --pass) {
            REAL a[4];
            for (int q = 0; q < 4; ++q) {
                const int p = 4 * pass + q + derivative;
                const double coefficient = p <= k ? sum->polynomials[p * (k + 1) + r] : 0;
                a[q] = (REAL)(derivative ? p * coefficient * sum->per_unit : coefficient);
            }
            const REAL a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];
            for (ptrdiff_t c = 0; c < width; ++c)
                value[c] = (((value[c] * u[c] + a3) * u[c] + a2) * u[c] + a1) * u[c] + a0;
        }
    }
}

/* B-spline m is piece r where the interval is m + k - r, and zero elsewhere. This finds its value
 * from pieces 4 * pass, ..., 4 * pass + 3, for which `where` tells the intervals. */
SKML_INLINE void FN(places)(const skml_sum *sum, int m, int pass, REAL *where)
{
    for (int q = 0; q < 4; ++q) {
        const int r = 4 * pass + q;
        where[q] = r <= sum->degree ? (REAL)(m + sum->degree - r) : -2; /* -2: nowhere */
    }
}

SKML_INLINE void FN(spline_rows)(
    const skml_sum *sum, const REAL *x, const REAL *tanhs, ptrdiff_t width, REAL *rows)
{
    const int n_splines = sum->n_intervals + sum->degree, n_passes = sum->degree / 4 + 1;
    REAL interval[SKML_STRIP], u[SKML_STRIP], pieces[SKML_PIECES][SKML_STRIP], where[4];
    FN(locate)(sum, x, width, interval, u);
    FN(evaluate_pieces)(sum, 0, u, width, pieces);
    for (ptrdiff_t c = 0; c < width; ++c)
        rows[c] = tanhs[c];
    for (int m = 0; m < n_splines; ++m) {
        REAL *restrict row = rows + (1 + m) * SKML_STRIDE;
        for (ptrdiff_t c = 0; c < width; ++c)
            row[c] = 0;
        for (int pass = 0; pass < n_passes; ++pass) {
            FN(places)(sum, m, pass, where);
            const REAL i0 = where[0], i1 = where[1], i2 = where[2], i3 = where[3];
            const REAL *restrict p0 = pieces[4 * pass], *restrict p1 = pieces[4 * pass + 1];
            const REAL *restrict p2 = pieces[4 * pass + 2], *restrict p3 = pieces[4 * pass + 3];
            for (ptrdiff_t c = 0; c < width; ++c) {
                REAL value = row[c];
                value = interval[c] == i0 ? p0[c] : value;
                value = interval[c] == i1 ? p1[c] : value;
                value = interval[c] == i2 ? p2[c] : value;
                row[c] = interval[c] == i3 ? p3[c] : value;
            }
        }
    }
}

/* slope = gradient of tanh(x) * (1 - tanh(x)**2) + sum_m gradient of B_m(x) * B_m'(x). */
SKML_INLINE void FN(spline_slope)(
    const skml_sum *sum, const REAL *x, const REAL *restrict tanhs, const REAL *gradients,
    ptrdiff_t width, REAL *restrict slope)
{
    const int n_splines = sum->n_intervals + sum->degree, n_passes = sum->degree / 4 + 1;
    REAL interval[SKML_STRIP], u[SKML_STRIP], pieces[SKML_PIECES][SKML_STRIP], where[4];
    FN(locate)(sum, x, width, interval, u);
    FN(evaluate_pieces)(sum, 1, u, width, pieces);
    for (ptrdiff_t c = 0; c < width; ++c)
        slope[c] = gradients[c] * (1 - tanhs[c] * tanhs[c]);
    for (int m = 0; m < n_splines; ++m) {
        const REAL *restrict to_row = gradients + (1 + m) * SKML_STRIDE;
        for (int pass = 0; pass < n_passes; ++pass) {
            FN(places)(sum, m, pass, where);
            const REAL i0 = where[0], i1 = where[1], i2 = where[2], i3 = where[3];
            const REAL *restrict p0 = pieces[4 * pass], *restrict p1 = pieces[4 * pass + 1];
            const REAL *restrict p2 = pieces[4 * pass + 2], *restrict p3 = pieces[4 * pass + 3];
            for (ptrdiff_t c = 0; c < width; ++c) {
                REAL value = 0;
                value = interval[c] == i0 ? p0[c] : value;
                value = interval[c] == i1 ? p1[c] : value;
                value = interval[c] == i2 ? p2[c] : value;
                value = interval[c] == i3 ? p3[c] : value;
                slope[c] += to_row[c] * value;
            }
        }
    }
}

#define SKML_EIGHT_PRODUCTS                                                                        \
    ((w[0] * s0[c] + w[1] * s1[c] + w[2] * s2[c] + w[3] * s3[c])                                   \
     + (w[4] * s4[c] + w[5] * s5[c] + w[6] * s6[c] + w[7] * s7[c]))

/* target = [target if `goes_on`] + sum_r weight[r * step] * source[r * stride + c], n > 0 sources */
SKML_INLINE void FN(weighted_sum)(
    int goes_on, const REAL *weight, ptrdiff_t step, const REAL *source, ptrdiff_t stride,
    ptrdiff_t n, ptrdiff_t width, REAL *restrict target)
{
    ptrdiff_t r = 0;
    for (; n - r >= 8; r += 8) {
        const REAL *restrict s0 = source + r * stride;
        const REAL *restrict s1 = s0 + stride, *restrict s2 = s1 + stride;
        const REAL *restrict s3 = s2 + stride, *restrict s4 = s3 + stride;
        const REAL *restrict s5 = s4 + stride, *restrict s6 = s5 + stride;
        const REAL *restrict s7 = s6 + stride;
        REAL w[8];
        for (int q = 0; q < 8; ++q)
            w[q] = weight[(r + q) * step];
        if (goes_on || r)
            for (ptrdiff_t c = 0; c < width; ++c)
                target[c] += SKML_EIGHT_PRODUCTS;
        else
            for (ptrdiff_t c = 0; c < width; ++c)
                target[c] = SKML_EIGHT_PRODUCTS;
    }
    for (; r < n; ++r) {
        const REAL w = weight[r * step];
        const REAL *restrict s = source + r * stride;
        if (goes_on || r)
            for (ptrdiff_t c = 0; c < width; ++c)
                target[c] += w * s[c];
        else
            for (ptrdiff_t c = 0; c < width; ++c)
                target[c] = w * s[c];
    }
}

#undef SKML_EIGHT_PRODUCTS

/* total[r] += sum_c row[c] * source[r * stride + c], for n sources. */
SKML_INLINE void FN(add_products)(
    const REAL *restrict row, const REAL *source, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t width,
    REAL *total)
{
    ptrdiff_t r = 0;
    for (; n - r >= 5; r += 5) {
        const REAL *restrict s0 = source + r * stride;
        const REAL *restrict s1 = s0 + stride, *restrict s2 = s1 + stride;
        const REAL *restrict s3 = s2 + stride, *restrict s4 = s3 + stride;
        REAL t0 = 0, t1 = 0, t2 = 0, t3 = 0, t4 = 0;
        for (ptrdiff_t c = 0; c < width; ++c) {
            t0 += row[c] * s0[c];
            t1 += row[c] * s1[c];
            t2 += row[c] * s2[c];
            t3 += row[c] * s3[c];
            t4 += row[c] * s4[c];
        }
        total[r] += t0;
        total[r + 1] += t1;
        total[r + 2] += t2;
        total[r + 3] += t3;
        total[r + 4] += t4;
    }
    for (; n - r >= 2; r += 2) {
        const REAL *restrict s0 = source + r * stride, *restrict s1 = s0 + stride;
        REAL t0 = 0, t1 = 0;
        for (ptrdiff_t c = 0; c < width; ++c) {
            t0 += row[c] * s0[c];
            t1 += row[c] * s1[c];
        }
        total[r] += t0;
        total[r + 1] += t1;
    }
    if (r < n) {
        const REAL *restrict s0 = source + r * stride;
        REAL t0 = 0;
        for (ptrdiff_t c = 0; c < width; ++c)
            t0 += row[c] * s0[c];
        total[r] += t0;
    }
}

SKML_INLINE void FN(add_up)(const REAL *row, ptrdiff_t width, REAL *total)
{
    REAL t = 0;
    for (ptrdiff_t c = 0; c < width; ++c)
        t += row[c];
    *total += t;
}

SKML_INLINE void FN(function_rows)(
    const skml_sum *sum, const REAL *first, const REAL *second, ptrdiff_t width, REAL *rows)
{
    if (sum->kind == SKML_HARMONICS)
        FN(harmonic_rows)(sum, first, second, width, rows);
    else
        FN(spline_rows)(sum, first, second, width, rows);
}

/* Outputs of the points from `start` to `stop`:
 *     target[j] = constant[j] + sum_i sum_r weight[j, i, r] f_r(x_i),
 * with i = j alone and weight[j, r] unless is_full. `rows` has room for n_functions rows of a
 * strip. */
SKML_CLONES static void FN(sum_functions)(
    const skml_sum *sum, ptrdiff_t start, ptrdiff_t stop, const REAL *first, const REAL *second,
    const REAL *weight, const REAL *constant, REAL *target, REAL *rows)
{
    const ptrdiff_t n = sum->n_points, d = sum->n_dims, n_functions = sum->n_functions;
    rows = SKML_ALIGNED(rows);
    for (; start < stop; start += SKML_STRIP) {
        const ptrdiff_t width = stop - start < SKML_STRIP ? stop - start : SKML_STRIP;
        for (ptrdiff_t j = 0; j < d; ++j)
            for (ptrdiff_t c = 0; c < width; ++c)
                target[j * n + start + c] = constant == NULL ? 0 : constant[j];
        for (ptrdiff_t i = 0; i < d; ++i) {
            const ptrdiff_t from = sum->is_full ? 0 : i, to = sum->is_full ? d : i + 1;
            FN(function_rows)(sum, first + i * n + start, second + i * n + start, width, rows);
            for (ptrdiff_t j = from; j < to; ++j)
                FN(weighted_sum)(
                    1, weight + (sum->is_full ? j * d + i : i) * n_functions, 1, rows, SKML_STRIDE,
                    n_functions, width, target + j * n + start);
        }
    }
}

/* Gradients from those of the outputs of the points from `start` to `stop`. What they add to the
 * gradients with respect to omega, phase, constant and the weights is added to `totals`, in this
 * order; to_tau may be NULL. `rows` has room for 2 n_functions + n_dims rows of a strip. */
SKML_CLONES static void FN(sum_gradients)(
    const skml_sum *sum, ptrdiff_t start, ptrdiff_t stop, const REAL *first, const REAL *second,
    const REAL *tau, const REAL *omega, const REAL *weight, const REAL *gradient, REAL *to_tau,
    REAL *totals, REAL *rows)
{
    const ptrdiff_t n = sum->n_points, d = sum->n_dims, n_functions = sum->n_functions;
    REAL *to_weight = totals + 3 * d, *to_rows, *to_sums, slope[SKML_STRIP];
    rows = SKML_ALIGNED(rows);
    to_rows = rows + n_functions * SKML_STRIDE;
    to_sums = to_rows + n_functions * SKML_STRIDE;
    for (; start < stop; start += SKML_STRIP) {
        const ptrdiff_t width = stop - start < SKML_STRIP ? stop - start : SKML_STRIP;
        for (ptrdiff_t j = 0; j < d; ++j)
            for (ptrdiff_t c = 0; c < width; ++c)
                to_sums[j * SKML_STRIDE + c] = gradient[j * n + start + c];
        for (ptrdiff_t i = 0; i < d; ++i) {
            const ptrdiff_t here = i * n + start;
            const ptrdiff_t from = sum->is_full ? 0 : i, to = sum->is_full ? d : i + 1;
            const ptrdiff_t step = sum->is_full ? d * n_functions : n_functions;
            FN(function_rows)(sum, first + here, second + here, width, rows);
            for (ptrdiff_t j = from; j < to; ++j)
                FN(add_products)(
                    to_sums + j * SKML_STRIDE, rows, SKML_STRIDE, n_functions, width,
                    to_weight + (sum->is_full ? j * d + i : i) * n_functions);
            for (ptrdiff_t r = 0; r < n_functions; ++r)
                FN(weighted_sum)(
                    0, weight + i * n_functions + r, step, to_sums + from * SKML_STRIDE,
                    SKML_STRIDE, to - from, width, to_rows + r * SKML_STRIDE);
            if (sum->kind == SKML_HARMONICS)
                FN(harmonic_slope)(sum, rows, to_rows, width, slope);
            else
                FN(spline_slope)(sum, first + here, second + here, to_rows, width, slope);
            FN(add_products)(slope, tau + start, n, 1, width, totals + i);
            FN(add_up)(slope, width, totals + d + i);
            FN(add_up)(to_sums + i * SKML_STRIDE, width, totals + 2 * d + i);
            if (to_tau != NULL)
                FN(weighted_sum)(i > 0, omega + i, 1, slope, 0, 1, width, to_tau + start);
        }
    }
}

#endif
