/* What the parts of the low-bit matrix product share: the packed weight and the kernel types.
 *
 * A row of codes is cut into blocks of 16 words of 32 bits.  Code j of lane l in block b sits in
 * bits [N j, N j + N) of word l and belongs to input k = 16 (b J + j) + l, with N bits a code and
 * J = 32 / N codes a word.  So a register of 16 words, shifted right by N j, holds the codes of 16
 * consecutive inputs, one "slice", in its low bits.  Rows are padded with code 0 and inputs with
 * 0.0 to whole blocks.
 */
#ifndef SKML_GEMM_H
#define SKML_GEMM_H

#include <stdint.h>

#define LANES 16         /* words in a block, inputs in a slice */
#define ROWS 4           /* weight rows of a register tile */
#define COLUMNS 8        /* rows of X (columns of X^T) of a register tile, at most */
#define TILE_ROWS 64     /* weight rows of a work item */
#define TILE_COLUMNS 16  /* rows of X of a work item */

#define MAX_BITS 8

enum { FORMAT_LUT = 0, FORMAT_UNIFORM = 1, N_FORMATS = 2 };
enum { ISA_SCALAR = 0, ISA_AVX2 = 1, ISA_AVX512 = 2, N_ISAS = 3 };

/* A weight matrix (n_rows, n_inputs); all arrays are owned by the caller. */
typedef struct {
    int format;
    int bits;
    int64_t n_rows;
    int64_t n_inputs;
    int64_t n_blocks;          /* per row */
    const uint32_t *words;     /* (n_rows, 16 n_blocks) */
    const float *table;        /* LUT: (n_rows, table_size), entry e mod 2^bits at e */
    int64_t table_size;        /* max(16, 2^bits) */
    const float *scale;        /* UNIFORM: (n_rows, n_groups), W = scale (code - zero) */
    const float *zero;
    int64_t n_groups;
    int64_t group_size;        /* inputs */
    const int64_t *outlier_start;   /* CSR that is added, or NULL */
    const int32_t *outlier_column;
    const float *outlier_value;
} packed_weight;

/* sums[r * n_columns + c] += W[rows[r], chunk] . X[c, chunk] for the blocks [first, last).
 * x holds [slice][column][lane] from slice 0 on, and zeros behind the last input. */
typedef void (*tile_kernel)(const packed_weight *weight, const int64_t rows[ROWS], const float *x,
                            int64_t first, int64_t last, float *sums);

/* out[k - 16 J first] = W[row, k] for the blocks [first, last). */
typedef void (*decode_kernel)(const packed_weight *weight, int64_t row, int64_t first,
                              int64_t last, float *out);

/* Fortran's sgemm: C = alpha op(A) op(B) + beta C, column-major. */
typedef void (*sgemm_function)(char *, char *, int *, int *, int *, float *, float *, int *,
                               float *, int *, float *, float *, int *);

/* One product Y = X W^T + bias. */
typedef struct {
    const packed_weight *weight;
    const float *x;            /* (n_columns, n_inputs), rows x_stride floats apart */
    int64_t x_stride;
    int64_t n_columns;
    const float *bias;         /* (n_rows,) or NULL */
    float *y;                  /* (n_columns, n_rows), rows y_stride floats apart */
    int64_t y_stride;
} product;

static inline int64_t codes_per_word(int bits) { return 32 / bits; }
static inline int64_t slices_of(const packed_weight *w) {
    return w->n_blocks * codes_per_word(w->bits);
}
static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

/* packing.c */
int64_t blocks_for(int64_t n_inputs, int bits);
void pack_rows(const uint8_t *codes, int64_t n_rows, int64_t n_inputs, int bits, uint32_t *words);
void unpack_rows(const uint32_t *words, int64_t n_rows, int64_t n_inputs, int bits,
                 uint8_t *codes);

/* dispatch.c: what the machine runs, and the kernel for a weight. */
int isa_supported(int isa);
int isa_for(int isa, const packed_weight *weight);
tile_kernel tile_kernel_for(int isa, const packed_weight *weight, int n_columns);
decode_kernel decode_kernel_for(int isa, const packed_weight *weight);
int64_t dense_from(int isa);

/* kernels_ISA.c: [format][bits - 1], and for tiles [columns - 1]. */
extern const tile_kernel scalar_tiles[N_FORMATS][MAX_BITS][COLUMNS];
extern const decode_kernel scalar_decoders[N_FORMATS][MAX_BITS];
#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_X86 1
extern const tile_kernel avx2_tiles[N_FORMATS][MAX_BITS][COLUMNS];
extern const decode_kernel avx2_decoders[N_FORMATS][MAX_BITS];
extern const tile_kernel avx512_tiles[N_FORMATS][MAX_BITS][COLUMNS];
extern const decode_kernel avx512_decoders[N_FORMATS][MAX_BITS];
#endif

/* tiling.c; 0 on success, -1 when memory runs out. */
int multiply(const product *problem, int isa, int n_threads);

/* decode.c; 0 on success, -1 when memory runs out. */
int multiply_dense(const product *problem, int isa, int n_threads, sgemm_function sgemm);
void add_outliers_and_bias(const product *problem, int64_t first_row, int64_t last_row,
                           int64_t first_column, int64_t last_column);
int dequantize_rows(const packed_weight *weight, int isa, int n_threads, float *out);

/* backward.c; dense row-major arrays; 0 on success, -1 when memory runs out. */
int multiply_transposed(const packed_weight *weight, const float *dy, int64_t n_columns, float *dx,
                        int isa, int n_threads, sgemm_function sgemm);
int level_gradient(const packed_weight *weight, const float *dy, const float *x,
                   int64_t n_columns, float *d_levels, int n_threads, sgemm_function sgemm);

#endif
