/* Work items of a product, for those who schedule them. */
#ifndef SKML_TILING_H
#define SKML_TILING_H

#include <stdlib.h>

#include "gemm.h"

/* Uninitialised, on a cache line; at least one line, so that NULL always means no memory. */
static inline float *aligned_floats(int64_t n) {
    const size_t bytes = ((size_t)max64(n, 1) * sizeof(float) + 63) / 64 * 64;
    return (float *)aligned_alloc(64, bytes);
}

/* X in the order of the kernels, groups of up to COLUMNS columns: [slice][column][lane]. */
float *pack_inputs(const product *problem, int64_t *n_floats);

/* Y[column0 : column0 + 16, row0 : row0 + 64]. */
void multiply_item(const product *problem, int isa, const float *packed, int64_t row0,
                   int64_t column0);

#endif
