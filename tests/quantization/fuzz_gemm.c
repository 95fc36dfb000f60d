/* Random shapes through every kernel, for a build with AddressSanitizer and UBSan.
 *
 * Each array is allocated at its exact size, so that one read or write too far is reported. What
 * lies behind the inputs is NaN and outputs begin as NaN. Results are compared with a plain loop in
 * double over decoded weights.
 *
 *     fuzz_gemm ROUNDS SEED
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gemm.h"
#include "grouped.h"
#include "integer.h"

static uint64_t state;

static uint32_t draw(void) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state >> 33);
}
static int64_t below(int64_t n) { return (int64_t)(draw() % (uint32_t)n); }
static float uniform(void) { return (float)(draw() % 20001) / 10000.0f - 1.0f; }

static float *random_floats(int64_t n) {
    float *a = malloc((size_t)max64(n, 1) * sizeof(float));
    for (int64_t i = 0; i < n; i++) a[i] = uniform();
    return a;
}

/* A row-major A is a column-major A^T, which is all that the callers use. */
static void sgemm(char *ta, char *tb, int *m, int *n, int *k, float *alpha, float *a, int *lda,
                  float *b, int *ldb, float *beta, float *c, int *ldc) {
    for (int j = 0; j < *n; j++)
        for (int i = 0; i < *m; i++) {
            double sum = 0;
            for (int l = 0; l < *k; l++)
                sum += (double)(*ta == 'T' ? a[l + (int64_t)i * *lda] : a[i + (int64_t)l * *lda]) *
                       (*tb == 'T' ? b[j + (int64_t)l * *ldb] : b[l + (int64_t)j * *ldb]);
            float *to = &c[i + (int64_t)j * *ldc];
            *to = (float)(*alpha * sum + (*beta == 0 ? 0 : *beta * *to));
        }
}

typedef struct {
    packed_weight w;
    uint8_t *codes;
    double *dense;
    void *owned[8];
} weight_case;

static weight_case make_weight(int64_t m, int64_t n, int format) {
    weight_case c;
    packed_weight *w = &c.w;
    memset(&c, 0, sizeof(c));
    w->format = format;
    w->bits = 1 + (int)below(8);
    w->n_rows = m;
    w->n_inputs = n;
    w->n_blocks = blocks_for(n, w->bits);
    c.codes = malloc((size_t)(m * n));
    for (int64_t i = 0; i < m * n; i++) c.codes[i] = (uint8_t)below(1 << w->bits);
    uint32_t *words = malloc((size_t)(m * w->n_blocks * LANES) * sizeof(uint32_t));
    pack_rows(c.codes, m, n, w->bits, words);
    uint8_t *back = malloc((size_t)(m * n));
    unpack_rows(words, m, n, w->bits, back);
    if (memcmp(back, c.codes, (size_t)(m * n))) exit(2);
    free(back);
    w->words = words;
    c.owned[0] = words;
    w->n_groups = 1;
    w->group_size = n;
    w->table_size = max64(16, 1 << w->bits);
    if (format == FORMAT_LUT) {
        float *table = random_floats(m * w->table_size);
        for (int64_t i = 0; i < m; i++)
            for (int64_t e = 0; e < w->table_size; e++)
                table[i * w->table_size + e] = table[i * w->table_size + e % (1 << w->bits)];
        w->table = table;
        c.owned[1] = table;
    } else {
        static const int64_t sizes[] = {0, 16, 32, 64, 128, 7, 50, 1000};
        const int64_t size = sizes[below(8)];
        if (size) {
            w->group_size = size;
            w->n_groups = (n + size - 1) / size;
        }
        float *scale = random_floats(m * w->n_groups), *zero = random_floats(m * w->n_groups);
        for (int64_t i = 0; i < m * w->n_groups; i++) zero[i] *= (float)(1 << w->bits);
        w->scale = scale;
        w->zero = zero;
        c.owned[2] = scale;
        c.owned[3] = zero;
    }
    c.dense = malloc((size_t)(m * n) * sizeof(double));
    for (int64_t i = 0; i < m; i++)
        for (int64_t k = 0; k < n; k++) {
            const int64_t g = i * w->n_groups + k / w->group_size;
            const uint8_t code = c.codes[i * n + k];
            c.dense[i * n + k] = format == FORMAT_LUT
                                     ? w->table[i * w->table_size + code]
                                     : (double)w->scale[g] * ((double)code - w->zero[g]);
        }
    if (below(2)) {
        const int64_t per_row = below(4);
        int64_t *start = malloc((size_t)(m + 1) * sizeof(int64_t));
        int32_t *column = malloc((size_t)max64(m * per_row, 1) * sizeof(int32_t));
        float *value = random_floats(m * per_row);
        for (int64_t i = 0; i <= m; i++) start[i] = i * per_row;
        for (int64_t e = 0; e < m * per_row; e++) {
            column[e] = (int32_t)below(n);
            c.dense[e / per_row * n + column[e]] += value[e];
        }
        w->outlier_start = start;
        w->outlier_column = column;
        w->outlier_value = value;
        c.owned[4] = start;
        c.owned[5] = column;
        c.owned[6] = value;
    }
    return c;
}

static void free_weight(weight_case *c) {
    for (int i = 0; i < 8; i++) free(c->owned[i]);
    free(c->codes);
    free(c->dense);
}

static void poison(float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = NAN;
}

static void compare(const char *what, const weight_case *c, const product *p, const float *x,
                    double allowed) {
    const packed_weight *w = &c->w;
    double largest = 1, worst = 0;
    for (int64_t b = 0; b < p->n_columns; b++)
        for (int64_t i = 0; i < w->n_rows; i++) {
            double sum = p->bias ? p->bias[i] : 0, size = 0;
            for (int64_t k = 0; k < w->n_inputs; k++) {
                const double term = c->dense[i * w->n_inputs + k] * x[b * p->x_stride + k];
                sum += term;
                size += fabs(term);
            }
            const double error = fabs(sum - p->y[b * p->y_stride + i]);
            largest = size > largest ? size : largest;
            if (!(error <= worst)) worst = error; /* NaN gets through */
        }
    if (!(worst <= allowed * largest)) {
        fprintf(stderr, "%s: error %g of %g, format %d, bits %d, m %ld, n %ld, B %ld\n", what,
                worst, largest, w->format, w->bits, (long)w->n_rows, (long)w->n_inputs,
                (long)p->n_columns);
        exit(1);
    }
}

static void one_round(void) {
    static const int64_t edges[] = {1, 15, 16, 17, 127, 128, 129, 159, 160, 161, 511, 513, 1000};
    const int64_t m = 1 + below(below(4) ? 12 : 150);
    const int64_t n = below(2) ? edges[below(13)] : 1 + below(700);
    const int64_t columns = 1 + below(below(3) ? 9 : 40);
    weight_case c = make_weight(m, n, (int)below(2));
    const int64_t gap = below(3);
    /* The last row ends where its last input does; gaps between rows are NaN. */
    float *x = random_floats((columns - 1) * (n + gap) + n);
    for (int64_t b = 0; b + 1 < columns; b++) poison(x + b * (n + gap) + n, gap);
    float *bias = below(2) ? random_floats(m) : NULL;
    float *y = malloc((size_t)(columns * m) * sizeof(float));
    product p = {&c.w, x, n + gap, columns, bias, y, m};
    for (int isa = 0; isa < N_ISAS; isa++) {
        if (!isa_supported(isa)) continue;
        const int used = isa_for(isa, &c.w), threads = 1 + (int)below(3);
        poison(y, columns * m);
        if (multiply(&p, used, threads)) exit(3);
        compare("tiles", &c, &p, x, 1e-6);
        poison(y, columns * m);
        if (multiply_dense(&p, used, threads, sgemm)) exit(3);
        compare("panels", &c, &p, x, 1e-6);
        float *dense = malloc((size_t)(m * n) * sizeof(float));
        if (dequantize_rows(&c.w, used, threads, dense)) exit(3);
        free(dense);

        float *dx = malloc((size_t)(columns * n) * sizeof(float));
        if (multiply_transposed(&c.w, y, columns, dx, used, threads, sgemm)) exit(3);
        free(dx);
        float *flat = random_floats(columns * n);
        float *levels = malloc((size_t)(m << c.w.bits) * sizeof(float));
        if (level_gradient(&c.w, y, flat, columns, levels, threads, sgemm)) exit(3);
        free(levels);
        free(flat);

        const int64_t act_group = below(2) ? -1 : 16 * (1 + below(12));
        if (c.w.format == FORMAT_UNIFORM) {
            poison(y, columns * m);
            if (multiply_integer(&p, 8, act_group, isa, threads)) exit(3);
            compare("integers", &c, &p, x, 1.0 / 127);
        }
        weight_case d = make_weight(m, n, (int)below(2));
        poison(y, columns * m);
        const int64_t cut = below(columns + 1);
        grouped_problem two[2] = {{p, used, 0, -1}, {p, isa_for(isa, &d.w), 0, -1}};
        two[0].product.n_columns = cut;
        two[1].product.weight = &d.w;
        two[1].product.x += cut * p.x_stride;
        two[1].product.y += cut * m;
        two[1].product.n_columns = columns - cut;
        if (d.w.format == FORMAT_UNIFORM && below(2)) {
            two[1].act_bits = 8;
            two[1].isa = isa;
        }
        if (multiply_grouped(two, 2, threads)) exit(3);
        compare("first group", &c, &two[0].product, x, 1e-6);
        compare("second group", &d, &two[1].product, two[1].product.x, 1.0 / 127);
        free_weight(&d);
    }
    free(y);
    free(bias);
    free(x);
    free_weight(&c);
}

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 100;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    for (int i = 0; i < rounds; i++) one_round();
    printf("%d rounds, every kernel of this machine\n", rounds);
    return 0;
}
