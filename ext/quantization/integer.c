/* The product with rounded activations, in the same work items as the one in float. */
#include <stdlib.h>

#include "integer.h"
#include "tiling.h"

void multiply_integer_item(const product *problem, const integer_plan *plan,
                           const integer_inputs *groups, int isa, int64_t row0, int64_t column0) {
    const packed_weight *w = problem->weight;
    const int64_t row1 = min64(row0 + TILE_ROWS, w->n_rows);
    const int64_t column1 = min64(column0 + TILE_COLUMNS, problem->n_columns);
    for (int64_t c0 = column0; c0 < column1; c0 += INT_COLUMNS) {
        const int64_t width = min64(INT_COLUMNS, column1 - c0);
        const integer_kernel kernel = integer_kernel_for(isa, w, plan->strided, (int)width);
        for (int64_t i = row0; i < row1; i += ROWS) {
            float sums[ROWS * INT_COLUMNS];
            int64_t rows[ROWS];
            for (int r = 0; r < ROWS; r++) rows[r] = min64(i + r, row1 - 1);
            kernel(w, plan, rows, &groups[c0 / INT_COLUMNS], sums);
            for (int64_t c = 0; c < width; c++)
                for (int64_t r = 0; r < min64(ROWS, row1 - i); r++)
                    problem->y[(c0 + c) * problem->y_stride + i + r] = sums[r * width + c];
        }
    }
    /* Outliers multiply the inputs as they came. */
    add_outliers_and_bias(problem, row0, row1, column0, column1);
}

int multiply_integer(const product *problem, int act_bits, int64_t act_group, int isa,
                     int n_threads) {
    const int64_t row_items = (problem->weight->n_rows + TILE_ROWS - 1) / TILE_ROWS;
    const int64_t column_items = (problem->n_columns + TILE_COLUMNS - 1) / TILE_COLUMNS;
    const int64_t n_groups = (problem->n_columns + INT_COLUMNS - 1) / INT_COLUMNS;
    integer_plan plan;
    if (row_items == 0 || column_items == 0) return 0;
    if (make_plan(&plan, problem->weight, act_group)) return -1;
    integer_inputs *groups = malloc((size_t)n_groups * sizeof(integer_inputs));
    if (groups == NULL || quantize_inputs(groups, problem, &plan, act_bits)) {
        free(groups);
        free_plan(&plan);
        return -1;
    }
#pragma omp parallel for schedule(static) num_threads(n_threads) if (n_threads > 1)
    for (int64_t item = 0; item < row_items * column_items; item++)
        multiply_integer_item(problem, &plan, groups, isa, item / column_items * TILE_ROWS,
                              item % column_items * TILE_COLUMNS);
    free_inputs(groups, n_groups);
    free(groups);
    free_plan(&plan);
    return 0;
}
