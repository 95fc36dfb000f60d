/* Loops over rows, once for each type of the features and each instruction set.
 *
 * _shuffling_kernel.h includes this file with REAL (float or double), NAME(x) and TARGET (a
 * function attribute) defined. Coefficients and sums are double throughout: what float features
 * save is memory traffic.
 *
 * theta holds the d coefficients and then the intercept, which is not penalised.
 */

SKML_INLINE TARGET double NAME(dot)(const REAL *restrict x, const double *restrict w, Py_ssize_t d) {
    double sum = 0;
    Py_ssize_t j;
#pragma omp simd reduction(+ : sum)
    for (j = 0; j < d; j++)
        sum += x[j] * w[j];
    return sum;
}

/* x.w, and x.v in `other`: the second product costs little beside the first. */
SKML_INLINE TARGET double NAME(dots)(const REAL *restrict x, const double *restrict w,
                                     const double *restrict v, double *other, Py_ssize_t d) {
    double sum = 0, second = 0;
    Py_ssize_t j;
#pragma omp simd reduction(+ : sum, second)
    for (j = 0; j < d; j++) {
        sum += x[j] * w[j];
        second += x[j] * v[j];
    }
    *other = second;
    return sum;
}

SKML_INLINE TARGET double NAME(sparse_dot)(const REAL *data, const int *indices, int start, int stop,
                                           const double *w) {
    double sum = 0;
    int j;
#pragma omp simd reduction(+ : sum)
    for (j = start; j < stop; j++)
        sum += data[j] * w[indices[j]];
    return sum;
}

SKML_INLINE TARGET void NAME(shrink_and_add)(double *restrict w, double shrink, double c,
                                             const REAL *restrict x, Py_ssize_t d) {
    Py_ssize_t j;
#pragma omp simd
    for (j = 0; j < d; j++)
        w[j] = shrink * w[j] + c * x[j];
}

/* Rows come in random order, which the hardware cannot foresee; the order is known, so we tell. A
 * core has few reads under way at a time and waits where one more is asked for, hence two halves
 * (0 and 1) with work between them. */
SKML_INLINE TARGET void NAME(fetch)(const REAL *x, Py_ssize_t d, int half) {
    const Py_ssize_t bytes = d * (Py_ssize_t)sizeof(REAL);
    /* The rest of a long row is a stream. */
    const Py_ssize_t stop = bytes < SKML_FETCH_BYTES ? bytes : SKML_FETCH_BYTES;
    const Py_ssize_t middle = stop / 128 * 64;
    const char *line = (const char *)x + (half ? middle : 0);
    const char *end = (const char *)x + (half ? stop : middle);
    for (; line < end; line += 64)
        __builtin_prefetch(line);
}

/* Sum with the rounding errors of its additions kept apart, so that it does not depend on the order
 * of the rows: an objective is compared with that of another order. */
SKML_INLINE TARGET void NAME(add)(double *sum, double *error, double value) {
    const double before = *sum, after = before + value;
    *error += fabs(before) >= fabs(value) ? (before - after) + value : (value - after) + before;
    *sum = after;
}

/* An infinite sum has NaN for an error. */
SKML_INLINE TARGET double NAME(total)(double sum, double error) {
    return isfinite(error) ? sum + error : sum;
}

/* One epoch over dense rows: for each batch B in order,
 *     theta <- theta - gamma (m / n) sum_{i in B} grad f_i(theta),    m = ceil(n / batch size).
 * All slopes of a batch are taken before theta moves. Returns the sum of the weighted losses at the
 * start of the epoch, for which each row is in the cache anyway. */
SKML_INLINE TARGET double NAME(dense_epoch)(int loss, const skml_epoch *e, const REAL *X, Py_ssize_t d) {
    const Py_ssize_t n = e->n, batch = e->batch;
    const double unit = e->gamma * e->n_batches / n;
    double *w = e->theta;
    double b = e->theta[d], total, z, z_start = 0, value, losses = 0, error = 0;
    Py_ssize_t start, stop, k, row, ahead;

    for (start = 0; start < n; start = stop) {
        stop = start + batch < n ? start + batch : n;
        total = 0;
        for (k = start; k < stop; k++) {
            const int fetches = k + SKML_FETCH_AHEAD < n;
            ahead = fetches ? e->order[k + SKML_FETCH_AHEAD] : 0;
            if (fetches) {
                NAME(fetch)(X + ahead * d, d, 0);
                __builtin_prefetch(e->y + ahead);
            }
            row = e->order[k];
            const REAL *x = X + row * d;
            const double weight = e->weight ? e->weight[row] : 1;
            z = e->start ? NAME(dots)(x, w, e->start, &z_start, d) : NAME(dot)(x, w, d);
            if (fetches)
                NAME(fetch)(X + ahead * d, d, 1);
            if (e->start) {
                value = skml_loss_value(loss, e->parameter, z_start + e->start[d], e->y[row]);
                NAME(add)(&losses, &error, weight * value);
            }
            const double slope = weight * skml_loss_slope(loss, e->parameter, z + b, e->y[row]);
            e->steps[k - start] = -unit * slope;
            total -= unit * slope;
        }
        double shrink = 1 - unit * (stop - start) * e->alpha;
        for (k = start; k < stop; k++) {
            NAME(shrink_and_add)(w, shrink, e->steps[k - start], X + e->order[k] * d, d);
            shrink = 1;
        }
        if (e->fit_intercept)
            b += total;
    }
    e->theta[d] = b;
    return NAME(total)(losses, error);
}

/* The same over CSR rows, in which no column may occur twice. The coefficients are scale * w, so
 * that the shrinkage is one product. */
SKML_INLINE TARGET double NAME(sparse_epoch)(int loss, const skml_epoch *e, const REAL *data,
                                             const int *indices, const int *indptr, Py_ssize_t d) {
    const Py_ssize_t n = e->n, batch = e->batch;
    const double unit = e->gamma * e->n_batches / n;
    double *w = e->theta;
    double b = e->theta[d], scale = 1, total, sum, losses = 0, error = 0;
    Py_ssize_t start, stop, k, row, ahead;
    int j;

    for (start = 0; start < n; start = stop) {
        stop = start + batch < n ? start + batch : n;
        total = 0;
        for (k = start; k < stop; k++) {
            if (k + SKML_SPARSE_AHEAD < n) {
                ahead = e->order[k + SKML_SPARSE_AHEAD];
                /* The processor follows a stream by itself once it has begun. */
                __builtin_prefetch(data + indptr[ahead]);
                __builtin_prefetch(indices + indptr[ahead]);
                __builtin_prefetch(e->y + ahead);
            }
            row = e->order[k];
            const double weight = e->weight ? e->weight[row] : 1;
            if (e->start) {
                sum = NAME(sparse_dot)(data, indices, indptr[row], indptr[row + 1], e->start);
                double value = skml_loss_value(loss, e->parameter, sum + e->start[d], e->y[row]);
                NAME(add)(&losses, &error, weight * value);
            }
            sum = NAME(sparse_dot)(data, indices, indptr[row], indptr[row + 1], w);
            const double slope =
                weight * skml_loss_slope(loss, e->parameter, scale * sum + b, e->y[row]);
            e->steps[k - start] = -unit * slope;
            total -= unit * slope;
        }
        scale *= 1 - unit * (stop - start) * e->alpha;
        if (!(fabs(scale) > 1e-6 && fabs(scale) < 1e6)) { /* also when it is 0 or NaN */
            for (j = 0; j < d; j++)
                w[j] *= scale;
            scale = 1;
        }
        for (k = start; k < stop; k++) {
            row = e->order[k];
            const double c = e->steps[k - start] / scale;
            if (c != 0) {
                const int end = indptr[row + 1];
#pragma omp simd /* no column occurs twice in a row */
                for (j = indptr[row]; j < end; j++)
                    w[indices[j]] += c * data[j];
            }
        }
        if (e->fit_intercept)
            b += total;
    }
    for (j = 0; j < d; j++)
        w[j] *= scale;
    e->theta[d] = b;
    return NAME(total)(losses, error);
}

/* Sum of s_i f_i without the penalty, in file order */
SKML_INLINE TARGET double NAME(dense_loss)(int loss, const skml_epoch *e, const REAL *X, Py_ssize_t d) {
    double losses = 0, error = 0;
    Py_ssize_t i;
    for (i = 0; i < e->n; i++) {
        double z = NAME(dot)(X + i * d, e->theta, d) + e->theta[d];
        double value = skml_loss_value(loss, e->parameter, z, e->y[i]);
        NAME(add)(&losses, &error, e->weight ? e->weight[i] * value : value);
    }
    return NAME(total)(losses, error);
}

SKML_INLINE TARGET double NAME(sparse_loss)(int loss, const skml_epoch *e, const REAL *data,
                                            const int *indices, const int *indptr, Py_ssize_t d) {
    double losses = 0, error = 0, z, value;
    Py_ssize_t i;
    for (i = 0; i < e->n; i++) {
        z = NAME(sparse_dot)(data, indices, indptr[i], indptr[i + 1], e->theta) + e->theta[d];
        value = skml_loss_value(loss, e->parameter, z, e->y[i]);
        NAME(add)(&losses, &error, e->weight ? e->weight[i] * value : value);
    }
    return NAME(total)(losses, error);
}

/* One case for each loss, so that each gets its own loop. */
#define EACH_LOSS(CALL)                                                                            \
    switch (e->loss) {                                                                             \
    case SKML_SQUARED_ERROR: CALL(SKML_SQUARED_ERROR); break;                                      \
    case SKML_HUBER: CALL(SKML_HUBER); break;                                                      \
    case SKML_LOG_LOSS: CALL(SKML_LOG_LOSS); break;                                                \
    case SKML_SQUARED_HINGE: CALL(SKML_SQUARED_HINGE); break;                                      \
    case SKML_MODIFIED_HUBER: CALL(SKML_MODIFIED_HUBER); break;                                    \
    case SKML_POISSON: CALL(SKML_POISSON); break;                                                  \
    case SKML_GAMMA: CALL(SKML_GAMMA); break;                                                      \
    case SKML_EXPONENTIAL: CALL(SKML_EXPONENTIAL); break;                                          \
    default: CALL(SKML_POWER); break;                                                              \
    }

static TARGET double NAME(run_dense)(const skml_epoch *e, const REAL *X, Py_ssize_t d) {
    double total = 0;
#define CALL(loss) total = NAME(dense_epoch)(loss, e, X, d)
    EACH_LOSS(CALL)
#undef CALL
    return total;
}

static TARGET double NAME(run_sparse)(const skml_epoch *e, const REAL *data, const int *indices,
                                      const int *indptr, Py_ssize_t d) {
    double total = 0;
#define CALL(loss) total = NAME(sparse_epoch)(loss, e, data, indices, indptr, d)
    EACH_LOSS(CALL)
#undef CALL
    return total;
}

static TARGET double NAME(sum_dense)(const skml_epoch *e, const REAL *X, Py_ssize_t d) {
    double total = 0;
#define CALL(loss) total = NAME(dense_loss)(loss, e, X, d)
    EACH_LOSS(CALL)
#undef CALL
    return total;
}

static TARGET double NAME(sum_sparse)(const skml_epoch *e, const REAL *data, const int *indices,
                                      const int *indptr, Py_ssize_t d) {
    double total = 0;
#define CALL(loss) total = NAME(sparse_loss)(loss, e, data, indices, indptr, d)
    EACH_LOSS(CALL)
#undef CALL
    return total;
}

#undef EACH_LOSS
