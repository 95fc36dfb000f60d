/* Portable integer kernels. */
#include "integer.h"

#define INLINE static inline __attribute__((always_inline))

INLINE uint32_t four_codes(uint32_t word, int shift, const int bits, const int strided) {
    const uint32_t mask = (1u << bits) - 1;
    uint32_t bytes = 0;
    for (int t = 0; t < QUAD; t++) {
        const int at = shift + t * (strided ? 8 : bits);
        if (at < 32) bytes |= ((word >> at) & mask) << (8 * t);
    }
    return bytes;
}

INLINE void scalar_quads(const packed_weight *w, const integer_plan *plan,
                         const int64_t rows[ROWS], const integer_inputs *x, float *sums,
                         const int bits, const int strided, const int columns) {
    for (int r = 0; r < ROWS; r++) {
        const uint32_t *words = w->words + rows[r] * w->n_blocks * LANES;
        double total[INT_COLUMNS] = {0};
        for (int64_t i = 0; i < plan->n_segments; i++) {
            const segment *s = &plan->segments[i];
            const float zero = w->zero[rows[r] * w->n_groups + s->group];
            const float scale = w->scale[rows[r] * w->n_groups + s->group];
            const int32_t whole = whole_zero(zero);
            int64_t dots[INT_COLUMNS] = {0};
            for (int64_t q = s->first_quad; q < s->last_quad; q++)
                for (int l = 0; l < LANES; l++) {
                    const uint32_t codes = four_codes(words[plan->quads[q].block * LANES + l],
                                                      plan->quads[q].shift, bits, strided);
                    for (int c = 0; c < columns; c++) {
                        const int8_t *bytes =
                            x->values + ((q * columns + c) * LANES + l) * QUAD;
                        int32_t dot = 0;
                        for (int t = 0; t < QUAD; t++)
                            dot += (int32_t)((codes >> (8 * t)) & 255) * bytes[t];
                        dots[c] += dot;
                    }
                }
            for (int c = 0; c < columns; c++) {
                int64_t inputs = 0;
                for (int l = 0; l < LANES; l++)
                    inputs += x->lane_sums[(i * columns + c) * LANES + l];
                const double dot = (double)(dots[c] - whole * inputs) -
                                   (double)(zero - (float)whole) * (double)inputs;
                total[c] += dot * ((double)scale * x->scale[s->act_group * columns + c]);
            }
        }
        for (int c = 0; c < columns; c++) sums[r * columns + c] = (float)total[c];
    }
}

#define INSTANCE_ISA scalar
#define INSTANCE_TARGET
#include "integer_instances.h"
