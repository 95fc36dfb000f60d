/* Gradients of Y = X W^T: for X through decoded panels, for the levels by bucket sums. */
#include <stdlib.h>
#include <string.h>

#include "gemm.h"
#include "tiling.h"

#define PANEL_ROWS 64
#define PANEL_INPUTS 1024

static void add_outlier_gradient(const packed_weight *w, const float *dy, float *dx) {
    for (int64_t i = 0; i < w->n_rows; i++)
        for (int64_t e = w->outlier_start[i]; e < w->outlier_start[i + 1]; e++)
            dx[w->outlier_column[e]] += w->outlier_value[e] * dy[i];
}

/* dX[:, chunk] = dY W[:, chunk]: chunks of inputs are independent, so threads share nothing. */
int multiply_transposed(const packed_weight *w, const float *dy, int64_t n_columns, float *dx,
                        int isa, int n_threads, sgemm_function sgemm) {
    const int64_t per_block = LANES * codes_per_word(w->bits);
    const int64_t panel_blocks = min64(max64(PANEL_INPUTS / per_block, 1), w->n_blocks);
    const int64_t n_chunks = (w->n_blocks + panel_blocks - 1) / panel_blocks;
    const int64_t panel_size = PANEL_ROWS * panel_blocks * per_block;
    const decode_kernel decode = decode_kernel_for(isa, w);
    float *scratch = aligned_floats(panel_size * n_threads);
    if (scratch == NULL) return -1;
    memset(dx, 0, (size_t)(n_columns * w->n_inputs) * sizeof(float));
#pragma omp parallel for schedule(static) num_threads(n_threads) if (n_threads > 1)
    for (int64_t strip = 0; strip < n_threads; strip++) {
        float *panel = scratch + strip * panel_size;
        char plain = 'N';
        float one = 1.0f;
        int columns = (int)n_columns, dy_stride = (int)w->n_rows, dx_stride = (int)w->n_inputs;
        int panel_stride = (int)(panel_blocks * per_block);
        const int64_t last_chunk = n_chunks * (strip + 1) / n_threads;
        for (int64_t chunk = n_chunks * strip / n_threads; chunk < last_chunk; chunk++) {
            const int64_t first = chunk * panel_blocks;
            const int64_t last = min64(first + panel_blocks, w->n_blocks);
            int n_inputs = (int)(min64(last * per_block, w->n_inputs) - first * per_block);
            for (int64_t row0 = 0; row0 < w->n_rows; row0 += PANEL_ROWS) {
                int n_rows = (int)min64(PANEL_ROWS, w->n_rows - row0);
                for (int64_t r = 0; r < n_rows; r++)
                    decode(w, row0 + r, first, last, panel + r * panel_stride);
                sgemm(&plain, &plain, &n_inputs, &columns, &n_rows, &one, panel, &panel_stride,
                      (float *)dy + row0, &dy_stride, &one, dx + first * per_block, &dx_stride);
            }
        }
    }
    free(scratch);
    if (w->outlier_start)
        for (int64_t c = 0; c < n_columns; c++)
            add_outlier_gradient(w, dy + c * w->n_rows, dx + c * w->n_inputs);
    return 0;
}

/* Sums of the weights' gradients over the inputs of each code. */
static void add_to_buckets(const packed_weight *w, int64_t row, int64_t first_slice,
                           const float *gradient, int64_t n_inputs, double *sums) {
    const int64_t per_word = codes_per_word(w->bits);
    const uint32_t *words = w->words + row * w->n_blocks * LANES;
    const uint32_t mask = (1u << w->bits) - 1;
    for (int64_t k = 0; k < n_inputs; k += LANES) {
        const int64_t slice = first_slice + k / LANES;
        const uint32_t *block = words + slice / per_word * LANES;
        const int shift = w->bits * (int)(slice % per_word);
        const int64_t width = min64(LANES, n_inputs - k);
        for (int64_t l = 0; l < width; l++) sums[(block[l] >> shift) & mask] += gradient[k + l];
    }
}

/* d_levels[i, q] = sum of (dY^T X)[i, j] over the inputs j of code q. */
int level_gradient(const packed_weight *w, const float *dy, const float *x, int64_t n_columns,
                   float *d_levels, int n_threads, sgemm_function sgemm) {
    const int64_t n_levels = (int64_t)1 << w->bits;
    const int64_t n_panels = (w->n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
    const int64_t panel_inputs = min64(PANEL_INPUTS, w->n_inputs);
    const int64_t panel_size = PANEL_ROWS * PANEL_INPUTS;
    float *scratch = aligned_floats(panel_size * n_threads);
    double *buckets = malloc((size_t)(PANEL_ROWS * n_levels * n_threads) * sizeof(double));
    const int failed = scratch == NULL || buckets == NULL;
    if (failed) goto done;
#pragma omp parallel for schedule(static) num_threads(n_threads) if (n_threads > 1)
    for (int64_t strip = 0; strip < n_threads; strip++) {
        float *panel = scratch + strip * panel_size;
        double *sums = buckets + strip * PANEL_ROWS * n_levels;
        char plain = 'N', transposed = 'T';
        float one = 1.0f, none = 0.0f;
        int columns = (int)n_columns, dy_stride = (int)w->n_rows, x_stride = (int)w->n_inputs;
        int panel_stride = (int)panel_inputs;
        for (int64_t p = n_panels * strip / n_threads; p < n_panels * (strip + 1) / n_threads; p++) {
            const int64_t row0 = p * PANEL_ROWS;
            int n_rows = (int)min64(PANEL_ROWS, w->n_rows - row0);
            memset(sums, 0, (size_t)(n_rows * n_levels) * sizeof(double));
            for (int64_t k0 = 0; k0 < w->n_inputs; k0 += PANEL_INPUTS) {
                int n_inputs = (int)min64(PANEL_INPUTS, w->n_inputs - k0);
                sgemm(&plain, &transposed, &n_inputs, &n_rows, &columns, &one, (float *)x + k0,
                      &x_stride, (float *)dy + row0, &dy_stride, &none, panel, &panel_stride);
                for (int64_t r = 0; r < n_rows; r++)
                    add_to_buckets(w, row0 + r, k0 / LANES, panel + r * panel_stride, n_inputs,
                                   sums + r * n_levels);
            }
            for (int64_t e = 0; e < n_rows * n_levels; e++)
                d_levels[row0 * n_levels + e] = (float)sums[e];
        }
    }
done:
    free(scratch);
    free(buckets);
    return failed ? -1 : 0;
}
