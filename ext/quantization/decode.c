/* Panels of the weight in float32: for large batches, where a dense product by BLAS is as fast,
 * and for dequantising. */
#include <stdlib.h>
#include <string.h>

#include "gemm.h"
#include "tiling.h"

#define PANEL_ROWS 64
#define PANEL_INPUTS 2048

int dequantize_rows(const packed_weight *w, int isa, int n_threads, float *out) {
    const int64_t padded = slices_of(w) * LANES;
    const decode_kernel decode = decode_kernel_for(isa, w);
    float *scratch = aligned_floats(padded * n_threads);
    if (scratch == NULL) return -1;
#pragma omp parallel for schedule(static) num_threads(n_threads) if (n_threads > 1)
    for (int64_t strip = 0; strip < n_threads; strip++) {
        float *buffer = scratch + strip * padded;
        const int64_t last = w->n_rows * (strip + 1) / n_threads;
        for (int64_t i = w->n_rows * strip / n_threads; i < last; i++) {
            decode(w, i, 0, w->n_blocks, buffer);
            memcpy(out + i * w->n_inputs, buffer, (size_t)w->n_inputs * sizeof(float));
        }
    }
    free(scratch);
    return 0;
}

void add_outliers_and_bias(const product *problem, int64_t first_row, int64_t last_row,
                           int64_t first_column, int64_t last_column) {
    const packed_weight *w = problem->weight;
    if (w->outlier_start == NULL && problem->bias == NULL) return;
    for (int64_t c = first_column; c < last_column; c++) {
        const float *x = problem->x + c * problem->x_stride;
        float *y = problem->y + c * problem->y_stride;
        for (int64_t i = first_row; i < last_row; i++) {
            float sum = 0;
            if (w->outlier_start)
                for (int64_t e = w->outlier_start[i]; e < w->outlier_start[i + 1]; e++)
                    sum += w->outlier_value[e] * x[w->outlier_column[e]];
            y[i] += sum + (problem->bias ? problem->bias[i] : 0.0f);
        }
    }
}

static void multiply_panel(const product *problem, decode_kernel decode, int64_t row0,
                           float *panel, int64_t panel_blocks, sgemm_function sgemm) {
    const packed_weight *w = problem->weight;
    const int64_t per_block = LANES * codes_per_word(w->bits);
    char transposed = 'T', plain = 'N';
    float one = 1.0f, beta = 0.0f;
    int n_rows = (int)min64(PANEL_ROWS, w->n_rows - row0);
    int n_columns = (int)problem->n_columns;
    int x_stride = (int)problem->x_stride, y_stride = (int)problem->y_stride;
    int panel_stride = (int)(panel_blocks * per_block);
    for (int64_t first = 0; first < w->n_blocks; first += panel_blocks) {
        const int64_t last = min64(first + panel_blocks, w->n_blocks);
        int n_inputs = (int)(min64(last * per_block, w->n_inputs) - first * per_block);
        for (int64_t r = 0; r < n_rows; r++)
            decode(w, row0 + r, first, last, panel + r * panel_stride);
        sgemm(&transposed, &plain, &n_rows, &n_columns, &n_inputs, &one, panel, &panel_stride,
              (float *)problem->x + first * per_block, &x_stride, &beta, problem->y + row0,
              &y_stride);
        beta = 1.0f;
    }
    add_outliers_and_bias(problem, row0, row0 + n_rows, 0, n_columns);
}

int multiply_dense(const product *problem, int isa, int n_threads, sgemm_function sgemm) {
    const packed_weight *w = problem->weight;
    const int64_t per_block = LANES * codes_per_word(w->bits);
    const int64_t panel_blocks = min64(max64(PANEL_INPUTS / per_block, 1), w->n_blocks);
    const int64_t panel_size = PANEL_ROWS * panel_blocks * per_block;
    const int64_t n_panels = (w->n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
    const decode_kernel decode = decode_kernel_for(isa, w);
    if (n_panels == 0 || problem->n_columns == 0) return 0;
    float *scratch = aligned_floats(panel_size * n_threads);
    if (scratch == NULL) return -1;
#pragma omp parallel for schedule(static) num_threads(n_threads) if (n_threads > 1)
    for (int64_t strip = 0; strip < n_threads; strip++)
        for (int64_t p = n_panels * strip / n_threads; p < n_panels * (strip + 1) / n_threads; p++)
            multiply_panel(problem, decode, p * PANEL_ROWS, scratch + strip * panel_size,
                           panel_blocks, sgemm);
    free(scratch);
    return 0;
}
