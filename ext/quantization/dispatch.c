/* Which kernels this machine runs, asked once at run time; a weight's kernel from the tables. */
#include "gemm.h"
#include "integer.h"

int isa_supported(int isa) {
#ifdef HAVE_X86
    __builtin_cpu_init();
    if (isa == ISA_AVX2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (isa == ISA_AVX512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#endif
    return isa == ISA_SCALAR;
}

/* Group bounds inside a slice of 16 inputs are left to the portable kernels. */
int isa_for(int isa, const packed_weight *weight) {
    const int split = weight->format == FORMAT_UNIFORM && weight->n_groups > 1 &&
                      weight->group_size % LANES != 0;
    return split ? ISA_SCALAR : isa;
}

tile_kernel tile_kernel_for(int isa, const packed_weight *weight, int n_columns) {
    const int format = weight->format, bits = weight->bits - 1, columns = n_columns - 1;
#ifdef HAVE_X86
    if (isa == ISA_AVX512) return avx512_tiles[format][bits][columns];
    if (isa == ISA_AVX2) return avx2_tiles[format][bits][columns];
#endif
    return scalar_tiles[format][bits][columns];
}

decode_kernel decode_kernel_for(int isa, const packed_weight *weight) {
    const int format = weight->format, bits = weight->bits - 1;
#ifdef HAVE_X86
    if (isa == ISA_AVX512) return avx512_decoders[format][bits];
    if (isa == ISA_AVX2) return avx2_decoders[format][bits];
#endif
    return scalar_decoders[format][bits];
}

integer_kernel integer_kernel_for(int isa, const packed_weight *weight, int strided,
                                  int n_columns) {
    const int bits = weight->bits - 1, columns = n_columns - 1;
#ifdef HAVE_X86
    if (isa == ISA_AVX512 && __builtin_cpu_supports("avx512vnni"))
        return avx512_integer[strided][bits][columns];
    if (isa != ISA_SCALAR) return avx2_integer[strided][bits][columns];
#endif
    return scalar_integer[strided][bits][columns];
}

/* Rows of X from which decoding panels for BLAS is faster (measured). */
int64_t dense_from(int isa) {
    return isa == ISA_AVX512 ? 33 : isa == ISA_AVX2 ? 17 : 5;
}
