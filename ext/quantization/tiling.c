/* The product by register tiles: codes are decoded in registers and never written out.
 *
 * Work items of 64 weight rows x 16 rows of X are spread over threads.  Inside an item the inputs
 * are taken in chunks, so that the chunk of X stays in the first-level cache while the rows pass.
 * Every sum is formed in an order that depends on neither the item nor the thread.
 */
#include <stdlib.h>
#include <string.h>

#include "gemm.h"
#include "tiling.h"

#define CHUNK_FLOATS 8192  /* of X: 32 KiB */

float *pack_inputs(const product *problem, int64_t *n_floats) {
    const int64_t n_slices = slices_of(problem->weight), n = problem->weight->n_inputs;
    *n_floats = problem->n_columns * n_slices * LANES;
    float *packed = aligned_floats(*n_floats);
    if (packed == NULL) return NULL;
    for (int64_t c0 = 0; c0 < problem->n_columns; c0 += COLUMNS) {
        const int64_t width = min64(COLUMNS, problem->n_columns - c0);
        float *group = packed + c0 * n_slices * LANES;
        for (int64_t c = 0; c < width; c++) {
            const float *row = problem->x + (c0 + c) * problem->x_stride;
            float *target = group + c * LANES;
            const int64_t whole = n / LANES, rest = n % LANES;
            for (int64_t s = 0; s < whole; s++)
                memcpy(target + s * width * LANES, row + s * LANES, LANES * sizeof(float));
            for (int64_t s = whole; s < n_slices; s++)
                memset(target + s * width * LANES, 0, LANES * sizeof(float));
            if (rest)
                memcpy(target + whole * width * LANES, row + whole * LANES, rest * sizeof(float));
        }
    }
    return packed;
}

static float outlier_sum(const packed_weight *w, int64_t row, const float *x, int64_t width) {
    float sum = 0;
    for (int64_t e = w->outlier_start[row]; e < w->outlier_start[row + 1]; e++) {
        const int64_t k = w->outlier_column[e];
        sum += w->outlier_value[e] * x[k / LANES * width * LANES + k % LANES];
    }
    return sum;
}

static void store(const product *problem, const float *x, const float *sums, int64_t row0,
                  int64_t n_rows, int64_t c0, int64_t width) {
    for (int64_t c = 0; c < width; c++) {
        float *y = problem->y + (c0 + c) * problem->y_stride + row0;
        for (int64_t i = 0; i < n_rows; i++) {
            float value = sums[i * width + c];
            if (problem->weight->outlier_start)
                value += outlier_sum(problem->weight, row0 + i, x + c * LANES, width);
            if (problem->bias) value += problem->bias[row0 + i];
            y[i] = value;
        }
    }
}

void multiply_item(const product *problem, int isa, const float *packed, int64_t row0,
                   int64_t column0) {
    const packed_weight *w = problem->weight;
    const int64_t row1 = min64(row0 + TILE_ROWS, w->n_rows);
    const int64_t column1 = min64(column0 + TILE_COLUMNS, problem->n_columns);
    const int64_t slices = slices_of(w), per_block = LANES * codes_per_word(w->bits);
    const int64_t widest = min64(COLUMNS, column1 - column0);
    const int64_t step = widest == 1 ? max64(w->n_blocks, 1)
                                     : max64(CHUNK_FLOATS / widest / per_block, 1);
    float sums[TILE_COLUMNS / COLUMNS][TILE_ROWS * COLUMNS];

    memset(sums, 0, sizeof(sums));
    for (int64_t first = 0; first < w->n_blocks; first += step) {
        const int64_t last = min64(first + step, w->n_blocks);
        for (int64_t c0 = column0; c0 < column1; c0 += COLUMNS) {
            const int64_t width = min64(COLUMNS, column1 - c0);
            const tile_kernel kernel = tile_kernel_for(isa, w, (int)width);
            float *group_sums = sums[(c0 - column0) / COLUMNS];
            for (int64_t i = row0; i < row1; i += ROWS) {
                /* Behind the last row the last one is computed again; its sums are not stored. */
                int64_t rows[ROWS];
                for (int r = 0; r < ROWS; r++) rows[r] = min64(i + r, row1 - 1);
                kernel(w, rows, packed + c0 * slices * LANES, first, last,
                       group_sums + (i - row0) * width);
            }
        }
    }
    for (int64_t c0 = column0; c0 < column1; c0 += COLUMNS)
        store(problem, packed + c0 * slices * LANES, sums[(c0 - column0) / COLUMNS], row0,
              row1 - row0, c0, min64(COLUMNS, column1 - c0));
}

int multiply(const product *problem, int isa, int n_threads) {
    int64_t n_floats;
    const int64_t row_items = (problem->weight->n_rows + TILE_ROWS - 1) / TILE_ROWS;
    const int64_t column_items = (problem->n_columns + TILE_COLUMNS - 1) / TILE_COLUMNS;
    if (row_items == 0 || column_items == 0) return 0;
    float *packed = pack_inputs(problem, &n_floats);
    if (packed == NULL) return -1;
#pragma omp parallel for schedule(static) num_threads(n_threads) if (n_threads > 1)
    for (int64_t item = 0; item < row_items * column_items; item++)
        multiply_item(problem, isa, packed, item / column_items * TILE_ROWS,
                      item % column_items * TILE_COLUMNS);
    free(packed);
    return 0;
}
