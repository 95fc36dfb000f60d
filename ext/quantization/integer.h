/* Products with activations rounded to 8 or 4 bits: 8-bit multiplications, 32-bit sums.
 *
 * The inputs are cut into segments that share the weight's scale and zero and the activations'
 * scale, short enough that no sum of 32 bits overflows.  Inside a segment four slices at a time, a
 * "quad", are multiplied: byte t of lane l holds the code of input 16 slice_t + l.  The bytes of X
 * are laid out to match; where a quad covers inputs outside its segment they are zero, so any
 * group size works.
 *
 * Where whole blocks lie in a segment and codes do not cross bytes (1, 2, 4, 8 bits), a quad takes
 * every (8 / bits)-th slice, and one shift and one mask bring four codes to their bytes.
 * Otherwise its slices are neighbours, and each code is moved to its byte.
 */
#ifndef SKML_INTEGER_H
#define SKML_INTEGER_H

#include "gemm.h"

#define INT_COLUMNS 4  /* rows of X of a register tile */
#define QUAD 4
#define QUAD_BYTES (LANES * QUAD)
#define SEGMENT_INPUTS 4096

typedef struct {
    int64_t first_input, last_input;
    int64_t first_quad, last_quad;
    int64_t group;      /* of the weight */
    int64_t act_group;
} segment;

typedef struct {
    int32_t block;
    int32_t shift;      /* right shift of the words that brings the first code to bit 0 */
} quad;

/* How the inputs of one weight are cut, for one size of activation groups. */
typedef struct {
    int strided;
    int64_t n_segments, n_quads, n_act_groups, act_group;
    segment *segments;
    quad *quads;
} integer_plan;

/* Activations of up to 4 rows of X. */
typedef struct {
    int8_t *values;     /* [quad][column][lane][t] */
    int32_t *lane_sums; /* [segment][column][lane] */
    float *scale;       /* [act_group][column] */
} integer_inputs;

/* sums[r * n_columns + c] = sum over segments of scale_w scale_x (codes - zero) . x. */
typedef void (*integer_kernel)(const packed_weight *weight, const integer_plan *plan,
                               const int64_t rows[ROWS], const integer_inputs *x, float *sums);

/* integer_plan.c */
int make_plan(integer_plan *plan, const packed_weight *weight, int64_t act_group);
void free_plan(integer_plan *plan);
int quantize_inputs(integer_inputs *groups, const product *problem, const integer_plan *plan,
                    int act_bits);
void free_inputs(integer_inputs *groups, int64_t n_groups);

/* integer_ISA.c: [strided][bits - 1][columns - 1]; strided only for bits that divide 8. */
extern const integer_kernel scalar_integer[2][MAX_BITS][INT_COLUMNS];
#ifdef HAVE_X86
extern const integer_kernel avx2_integer[2][MAX_BITS][INT_COLUMNS];
extern const integer_kernel avx512_integer[2][MAX_BITS][INT_COLUMNS];
#endif

/* dispatch.c: AVX-512 without the dot products of VNNI takes the kernels of AVX2. */
integer_kernel integer_kernel_for(int isa, const packed_weight *weight, int strided,
                                  int n_columns);

/* integer.c */
void multiply_integer_item(const product *problem, const integer_plan *plan,
                           const integer_inputs *groups, int isa, int64_t row0, int64_t column0);
int multiply_integer(const product *problem, int act_bits, int64_t act_group, int isa,
                     int n_threads);

/* The zero of a group as a whole number, which is subtracted exactly, and the rest. */
static inline int32_t whole_zero(float zero) {
    const float bounded = zero < -32768.0f ? -32768.0f : zero > 32767.0f ? 32767.0f : zero;
    return (int32_t)(bounded + (bounded < 0 ? -0.5f : 0.5f));
}

#endif
