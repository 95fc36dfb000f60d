/* Which kernels this machine runs, asked once at run time; a weight's kernel from the tables. */
#include "gemm.h"

int isa_supported(int isa) {
    return isa == ISA_SCALAR;
}

/* Group bounds inside a slice of 16 inputs are left to the portable kernels. */
int isa_for(int isa, const packed_weight *weight) {
    const int split = weight->format == FORMAT_UNIFORM && weight->n_groups > 1 &&
                      weight->group_size % LANES != 0;
    return split ? ISA_SCALAR : isa;
}

tile_kernel tile_kernel_for(int isa, const packed_weight *weight, int n_columns) {
    return scalar_tiles[weight->format][weight->bits - 1][n_columns - 1];
}

decode_kernel decode_kernel_for(int isa, const packed_weight *weight) {
    return scalar_decoders[weight->format];
}

/* Rows of X from which decoding panels for BLAS is faster (measured). */
int64_t dense_from(int isa) {
    return isa == ISA_AVX512 ? 33 : isa == ISA_AVX2 ? 17 : 5;
}
