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

/* Rows come in random order, which the hardware cannot foresee; the order is known, so we tell. */
SKML_INLINE TARGET void NAME(fetch)(const REAL *x, Py_ssize_t d) {
    const char *line = (const char *)x, *end = (const char *)(x + d);
    if (end > line + SKML_FETCH_BYTES)
        end = line + SKML_FETCH_BYTES; /* the rest of a long row is a stream */
    for (; line < end; line += 64)
        __builtin_prefetch(line);
}

/* One epoch over dense rows: for each batch B in order,
 *     theta <- theta - gamma (m / n) sum_{i in B} grad f_i(theta),    m = ceil(n / batch size).
 * All slopes of a batch are taken before theta moves. */
SKML_INLINE TARGET void NAME(dense_epoch)(int loss, const skml_epoch *e, const REAL *X, Py_ssize_t d) {
    const Py_ssize_t n = e->n, batch = e->batch;
    const double unit = e->gamma * e->n_batches / n;
    double *w = e->theta;
    double b = e->theta[d], total;
    Py_ssize_t start, stop, k, row, ahead;

    for (start = 0; start < n; start = stop) {
        stop = start + batch < n ? start + batch : n;
        total = 0;
        for (k = start; k < stop; k++) {
            if (k + SKML_FETCH_AHEAD < n) {
                ahead = e->order[k + SKML_FETCH_AHEAD];
                NAME(fetch)(X + ahead * d, d);
                __builtin_prefetch(e->y + ahead);
            }
            row = e->order[k];
            double slope = skml_loss_slope(loss, e->parameter, NAME(dot)(X + row * d, w, d) + b, e->y[row]);
            if (e->weight)
                slope *= e->weight[row];
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
}

/* The same over CSR rows, in which no column may occur twice. The coefficients are scale * w, so that the shrinkage is one product. */
SKML_INLINE TARGET void NAME(sparse_epoch)(int loss, const skml_epoch *e, const REAL *data,
                                           const int *indices, const int *indptr, Py_ssize_t d) {
    const Py_ssize_t n = e->n, batch = e->batch;
    const double unit = e->gamma * e->n_batches / n;
    double *w = e->theta;
    double b = e->theta[d], scale = 1, total, sum;
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
            sum = NAME(sparse_dot)(data, indices, indptr[row], indptr[row + 1], w);
            double slope = skml_loss_slope(loss, e->parameter, scale * sum + b, e->y[row]);
            if (e->weight)
                slope *= e->weight[row];
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
}

/* Sum of s_i f_i without the penalty, in file order */
SKML_INLINE TARGET double NAME(dense_loss)(int loss, const skml_epoch *e, const REAL *X, Py_ssize_t d) {
    double total = 0;
    Py_ssize_t i;
    for (i = 0; i < e->n; i++) {
        double z = NAME(dot)(X + i * d, e->theta, d) + e->theta[d];
        double value = skml_loss_value(loss, e->parameter, z, e->y[i]);
        total += e->weight ? e->weight[i] * value : value;
    }
    return total;
}

SKML_INLINE TARGET double NAME(sparse_loss)(int loss, const skml_epoch *e, const REAL *data,
                                            const int *indices, const int *indptr, Py_ssize_t d) {
    double total = 0, z, value;
    Py_ssize_t i;
    for (i = 0; i < e->n; i++) {
        z = NAME(sparse_dot)(data, indices, indptr[i], indptr[i + 1], e->theta) + e->theta[d];
        value = skml_loss_value(loss, e->parameter, z, e->y[i]);
        total += e->weight ? e->weight[i] * value : value;
    }
    return total;
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

static TARGET void NAME(run_dense)(const skml_epoch *e, const REAL *X, Py_ssize_t d) {
#define CALL(loss) NAME(dense_epoch)(loss, e, X, d)
    EACH_LOSS(CALL)
#undef CALL
}

static TARGET void NAME(run_sparse)(const skml_epoch *e, const REAL *data, const int *indices,
                                    const int *indptr, Py_ssize_t d) {
#define CALL(loss) NAME(sparse_epoch)(loss, e, data, indices, indptr, d)
    EACH_LOSS(CALL)
#undef CALL
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
