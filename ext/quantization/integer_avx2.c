/* AVX2: products of bytes by way of 16 bits.
 *
 * maddubs saturates at 16 bits, which codes of up to 7 bits cannot reach (2 * 127 * 127); 8-bit
 * codes are widened first.
 */
#include "integer.h"

#ifdef HAVE_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma")))
#define INLINE TARGET static inline __attribute__((always_inline))

INLINE __m256i four_codes(__m256i words, int shift, const int bits, const int strided) {
    const uint32_t mask = (1u << bits) - 1;
    if (bits == 8 && strided) return words;
    words = _mm256_srl_epi32(words, _mm_cvtsi32_si128(shift));
    if (strided) return _mm256_and_si256(words, _mm256_set1_epi32((int)(mask * 0x01010101u)));
    __m256i bytes = _mm256_and_si256(words, _mm256_set1_epi32((int)mask));
#pragma GCC unroll 4
    for (int t = 1; t < QUAD; t++) {
        const __m256i place = _mm256_set1_epi32((int)(mask << (8 * t)));
        const __m256i moved = _mm256_slli_epi32(words, t * (8 - bits));
        bytes = _mm256_or_si256(bytes, _mm256_and_si256(moved, place));
    }
    return bytes;
}

INLINE __m256i add_dots(__m256i sums, __m256i codes, __m256i bytes, const int bits) {
    if (bits < 8) {
        const __m256i pairs = _mm256_maddubs_epi16(codes, bytes);
        return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    const __m256i even = _mm256_madd_epi16(
        _mm256_and_si256(codes, _mm256_set1_epi16(255)),
        _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8));
    const __m256i odd =
        _mm256_madd_epi16(_mm256_srli_epi16(codes, 8), _mm256_srai_epi16(bytes, 8));
    return _mm256_add_epi32(sums, _mm256_add_epi32(even, odd));
}

INLINE float sum_lanes(__m256 a) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

/* One row, one half of the lanes: few enough registers for 4 columns. */
INLINE void half_of_row(const packed_weight *w, const integer_plan *plan, int64_t row, int half,
                        const integer_inputs *x, __m256 total[INT_COLUMNS], const int bits,
                        const int strided, const int columns) {
    const uint32_t *words = w->words + row * w->n_blocks * LANES + 8 * half;
    for (int64_t i = 0; i < plan->n_segments; i++) {
        const segment *s = &plan->segments[i];
        const int32_t *lane_sums = x->lane_sums + i * columns * LANES + 8 * half;
        const float zero = w->zero[row * w->n_groups + s->group];
        const float scale = w->scale[row * w->n_groups + s->group];
        const int32_t whole = whole_zero(zero);
        const __m256 rest = _mm256_set1_ps(zero - (float)whole);
        __m256i dots[INT_COLUMNS];
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) dots[c] = _mm256_setzero_si256();
        for (int64_t q = s->first_quad; q < s->last_quad; q++) {
            const quad at = plan->quads[q];
            const __m256i block =
                _mm256_loadu_si256((const __m256i *)(words + (int64_t)at.block * LANES));
            const __m256i codes = four_codes(block, at.shift, bits, strided);
            const int8_t *bytes = x->values + q * columns * QUAD_BYTES + 32 * half;
#pragma GCC unroll 4
            for (int c = 0; c < columns; c++)
                dots[c] = add_dots(
                    dots[c], codes,
                    _mm256_loadu_si256((const __m256i *)(bytes + c * QUAD_BYTES)), bits);
        }
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) {
            const __m256i inputs =
                _mm256_loadu_si256((const __m256i *)(lane_sums + c * LANES));
            const __m256 both = _mm256_set1_ps(scale * x->scale[s->act_group * columns + c]);
            const __m256i dot = _mm256_sub_epi32(
                dots[c], _mm256_mullo_epi32(inputs, _mm256_set1_epi32(whole)));
            const __m256 exact =
                _mm256_fnmadd_ps(rest, _mm256_cvtepi32_ps(inputs), _mm256_cvtepi32_ps(dot));
            total[c] = _mm256_fmadd_ps(both, exact, total[c]);
        }
    }
}

INLINE void avx2_quads(const packed_weight *w, const integer_plan *plan,
                       const int64_t rows[ROWS], const integer_inputs *x, float *sums,
                       const int bits, const int strided, const int columns) {
    for (int r = 0; r < ROWS; r++) {
        __m256 total[INT_COLUMNS];
        for (int c = 0; c < columns; c++) total[c] = _mm256_setzero_ps();
        half_of_row(w, plan, rows[r], 0, x, total, bits, strided, columns);
        half_of_row(w, plan, rows[r], 1, x, total, bits, strided, columns);
        for (int c = 0; c < columns; c++) sums[r * columns + c] = sum_lanes(total[c]);
    }
}

#define INSTANCE_ISA avx2
#define INSTANCE_TARGET TARGET
#include "integer_instances.h"
#endif
