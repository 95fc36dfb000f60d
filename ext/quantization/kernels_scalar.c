/* Portable kernels: any machine, any group size.  The reference for the others. */
#include "gemm.h"

#define INLINE static inline __attribute__((always_inline))

/* Values of one slice of a row; both formats round exactly as dequantising in float32 does. */
INLINE void decode_slice(const packed_weight *w, int64_t row, int64_t slice, float *out,
                         const int format, const int bits) {
    const int per_word = 32 / bits;
    const uint32_t *block = w->words + (row * w->n_blocks + slice / per_word) * LANES;
    const int shift = bits * (int)(slice % per_word);
    const uint32_t mask = (1u << bits) - 1;
    if (format == FORMAT_LUT) {
        const float *table = w->table + row * w->table_size;
        for (int l = 0; l < LANES; l++) out[l] = table[(block[l] >> shift) & mask];
        return;
    }
    const float *scale = w->scale + row * w->n_groups, *zero = w->zero + row * w->n_groups;
    for (int l = 0; l < LANES; l++) {
        /* The padding lies behind the last group: any finite value does. */
        const int64_t g = min64((slice * LANES + l) / w->group_size, w->n_groups - 1);
        out[l] = scale[g] * ((float)((block[l] >> shift) & mask) - zero[g]);
    }
}

INLINE void scalar_tile(const packed_weight *w, const int64_t rows[ROWS], const float *x,
                        int64_t first, int64_t last, float *sums, const int format,
                        const int bits, const int columns) {
    const int64_t per_word = 32 / bits;
    for (int r = 0; r < ROWS; r++) {
        float total[COLUMNS][LANES] = {{0}};
        for (int64_t slice = first * per_word; slice < last * per_word; slice++) {
            float values[LANES];
            decode_slice(w, rows[r], slice, values, format, bits);
            for (int c = 0; c < columns; c++) {
                const float *input = x + (slice * columns + c) * LANES;
                for (int l = 0; l < LANES; l++) total[c][l] += values[l] * input[l];
            }
        }
        for (int c = 0; c < columns; c++) {
            for (int half = LANES / 2; half > 0; half /= 2)
                for (int l = 0; l < half; l++) total[c][l] += total[c][l + half];
            sums[r * columns + c] += total[c][0];
        }
    }
}

INLINE void scalar_decode(const packed_weight *w, int64_t row, int64_t first, int64_t last,
                          float *out, const int format, const int bits) {
    const int64_t per_word = 32 / bits;
    for (int64_t slice = first * per_word; slice < last * per_word; slice++, out += LANES)
        decode_slice(w, row, slice, out, format, bits);
}

#define INSTANCE_ISA scalar
#define INSTANCE_TARGET
#include "instances.h"
