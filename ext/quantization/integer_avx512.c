/* AVX-512 with VNNI: one instruction multiplies 64 codes with 64 activations and adds by fours. */
#include "integer.h"

#ifdef HAVE_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")))
#define INLINE TARGET static inline __attribute__((always_inline))

INLINE __m512i four_codes(__m512i words, int shift, const int bits, const int strided) {
    const uint32_t mask = (1u << bits) - 1;
    if (bits == 8 && strided) return words;
    words = _mm512_srl_epi32(words, _mm_cvtsi32_si128(shift));
    if (strided) return _mm512_and_si512(words, _mm512_set1_epi32((int)(mask * 0x01010101u)));
    __m512i bytes = _mm512_and_si512(words, _mm512_set1_epi32((int)mask));
#pragma GCC unroll 4
    for (int t = 1; t < QUAD; t++) {
        const __m512i place = _mm512_set1_epi32((int)(mask << (8 * t)));
        const __m512i moved = _mm512_slli_epi32(words, t * (8 - bits));
        bytes = _mm512_ternarylogic_epi32(moved, place, bytes, 0xEA); /* moved & place | bytes */
    }
    return bytes;
}

INLINE void avx512_quads(const packed_weight *w, const integer_plan *plan,
                         const int64_t rows[ROWS], const integer_inputs *x, float *sums,
                         const int bits, const int strided, const int columns) {
    __m512 total[ROWS][INT_COLUMNS];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) total[r][c] = _mm512_setzero_ps();
    for (int64_t i = 0; i < plan->n_segments; i++) {
        const segment *s = &plan->segments[i];
        const int32_t *lane_sums = x->lane_sums + i * columns * LANES;
        __m512i dots[ROWS][INT_COLUMNS];
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
            for (int c = 0; c < columns; c++) dots[r][c] = _mm512_setzero_si512();
        for (int64_t q = s->first_quad; q < s->last_quad; q++) {
            const quad at = plan->quads[q];
            __m512i codes[ROWS];
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; r++) {
                const uint32_t *block = w->words + (rows[r] * w->n_blocks + at.block) * LANES;
                codes[r] = four_codes(_mm512_loadu_si512(block), at.shift, bits, strided);
            }
#pragma GCC unroll 4
            for (int c = 0; c < columns; c++) {
                const __m512i bytes =
                    _mm512_loadu_si512(x->values + (q * columns + c) * QUAD_BYTES);
#pragma GCC unroll 4
                for (int r = 0; r < ROWS; r++)
                    dots[r][c] = _mm512_dpbusd_epi32(dots[r][c], codes[r], bytes);
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; r++) {
            const float zero = w->zero[rows[r] * w->n_groups + s->group];
            const float scale = w->scale[rows[r] * w->n_groups + s->group];
            const int32_t whole = whole_zero(zero);
            const __m512 rest = _mm512_set1_ps(zero - (float)whole);
#pragma GCC unroll 4
            for (int c = 0; c < columns; c++) {
                const __m512i inputs = _mm512_loadu_si512(lane_sums + c * LANES);
                const __m512 both =
                    _mm512_set1_ps(scale * x->scale[s->act_group * columns + c]);
                __m512i dot = _mm512_sub_epi32(
                    dots[r][c], _mm512_mullo_epi32(inputs, _mm512_set1_epi32(whole)));
                const __m512 exact =
                    _mm512_fnmadd_ps(rest, _mm512_cvtepi32_ps(inputs), _mm512_cvtepi32_ps(dot));
                total[r][c] = _mm512_fmadd_ps(both, exact, total[r][c]);
            }
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) sums[r * columns + c] = _mm512_reduce_add_ps(total[r][c]);
}

#define INSTANCE_ISA avx512
#define INSTANCE_TARGET TARGET
#include "integer_instances.h"
#endif
