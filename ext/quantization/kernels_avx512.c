/* AVX-512: a table of 16 levels is one register, and one permutation decodes 16 weights.
 *
 * The permutation reads only the low 4 bits of a lane, so codes of up to 4 bits need no mask: the
 * table repeats itself for narrower ones.  Uniform codes of up to 4 bits go the same way, through
 * a table that is made anew for each group.
 */
#include "gemm.h"

#ifdef HAVE_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")))
#define INLINE TARGET static inline __attribute__((always_inline))
/* Rows of up to 8 KiB are fetched a tile ahead, since a stream per row would stop at each row's
 * end; longer ones 2 KiB ahead of themselves. */
#define LONG_ROW 128
#define PREFETCH_WORDS 512

/* What decoding a row needs; the constant format and width decide which members live. */
typedef struct {
    const float *table;
    __m512 entries[4];   /* LUT to 6 bits; UNIFORM to 4 bits: the group's levels */
    __m512 scale, zero;  /* UNIFORM from 5 bits on */
} levels;

INLINE void start_row(levels *l, const packed_weight *w, int64_t row, const int format,
                      const int bits) {
    if (format == FORMAT_UNIFORM) return;
    l->table = w->table + row * w->table_size;
    if (bits <= 6)
        for (int e = 0; e < (bits <= 4 ? 1 : 1 << (bits - 4)); e++)
            l->entries[e] = _mm512_loadu_ps(l->table + 16 * e);
}

INLINE void start_group(levels *l, const packed_weight *w, int64_t row, int64_t group,
                        const int bits) {
    const __m512 counting = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    /* The padding may begin a group that does not exist; its inputs are zeros. */
    const int64_t at = row * w->n_groups + min64(group, w->n_groups - 1);
    l->scale = _mm512_set1_ps(w->scale[at]);
    l->zero = _mm512_set1_ps(w->zero[at]);
    if (bits <= 4) {
        /* Codes of fewer bits meet set bits above them: the levels repeat. */
        const __m512 codes = _mm512_permutexvar_ps(
            _mm512_and_epi32(_mm512_cvtps_epi32(counting), _mm512_set1_epi32((1 << bits) - 1)),
            counting);
        l->entries[0] = _mm512_mul_ps(l->scale, _mm512_sub_ps(codes, l->zero));
    }
}

INLINE __m512 decode_lanes(const levels *l, __m512i words, const int format, const int bits) {
    const __m512i mask = _mm512_set1_epi32((1 << bits) - 1);
    if (bits <= 4) return _mm512_permutexvar_ps(words, l->entries[0]);
    if (format == FORMAT_UNIFORM)
        return _mm512_mul_ps(
            l->scale,
            _mm512_sub_ps(_mm512_cvtepi32_ps(_mm512_and_epi32(words, mask)), l->zero));
    if (bits == 5) return _mm512_permutex2var_ps(l->entries[0], words, l->entries[1]);
    if (bits == 6) {
        const __mmask16 high = _mm512_test_epi32_mask(words, _mm512_set1_epi32(32));
        const __m512 below = _mm512_permutex2var_ps(l->entries[0], words, l->entries[1]);
        return _mm512_mask_blend_ps(
            high, below, _mm512_permutex2var_ps(l->entries[2], words, l->entries[3]));
    }
    return _mm512_i32gather_ps(_mm512_and_epi32(words, mask), l->table, 4);
}

/* The sums over the lanes of four registers. */
INLINE __m128 sum_four(__m512 a, __m512 b, __m512 c, __m512 d) {
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512d low = _mm512_castps_pd(ab), high = _mm512_castps_pd(cd);
    const __m512 all = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(low, high)),
                                     _mm512_castpd_ps(_mm512_unpackhi_pd(low, high)));
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

/* ROWS x columns (at most 4: 16 sums in registers) of a group of `width` columns. */
INLINE void tile_of(const packed_weight *w, const int64_t rows[ROWS], const float *x,
                    int64_t first, int64_t last, float *sums, const int format, const int bits,
                    const int columns, const int width) {
    const int per_word = 32 / bits;
    const int64_t group_slices = (w->group_size + LANES - 1) / LANES;
    const int64_t ahead = w->n_blocks <= LONG_ROW ? ROWS * w->n_blocks * LANES : PREFETCH_WORDS;
    const uint32_t *source[ROWS];
    levels row_levels[ROWS];
    __m512 total[ROWS][4];
    int64_t slice = first * per_word, group = slice / group_slices, change = slice;

#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
        source[r] = w->words + rows[r] * w->n_blocks * LANES;
        start_row(&row_levels[r], w, rows[r], format, bits);
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) total[r][c] = _mm512_setzero_ps();
    }
    x += slice * width * LANES;
    for (int64_t b = first; b < last; b++) {
        __m512i words[ROWS];
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; r++) {
            words[r] = _mm512_loadu_si512(source[r] + b * LANES);
            _mm_prefetch((const char *)(source[r] + b * LANES + ahead), _MM_HINT_T1);
        }
        for (int j = 0; j < per_word; j++, slice++, x += width * LANES) {
            __m512 values[ROWS];
            if (format == FORMAT_UNIFORM && slice == change) {
#pragma GCC unroll 4
                for (int r = 0; r < ROWS; r++)
                    start_group(&row_levels[r], w, rows[r], group, bits);
                group++;
                change = group * group_slices;
            }
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; r++) {
                values[r] = decode_lanes(&row_levels[r], words[r], format, bits);
                words[r] = _mm512_srli_epi32(words[r], bits);
            }
#pragma GCC unroll 4
            for (int c = 0; c < columns; c++) {
                const __m512 input = _mm512_loadu_ps(x + c * LANES);
#pragma GCC unroll 4
                for (int r = 0; r < ROWS; r++)
                    total[r][c] = _mm512_fmadd_ps(values[r], input, total[r][c]);
            }
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
        float *row_sums = sums + r * width;
        if (columns == 4) {
            const __m128 four = sum_four(total[r][0], total[r][1], total[r][2], total[r][3]);
            _mm_storeu_ps(row_sums, _mm_add_ps(_mm_loadu_ps(row_sums), four));
            continue;
        }
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) row_sums[c] += _mm512_reduce_add_ps(total[r][c]);
    }
}

INLINE void avx512_tile(const packed_weight *w, const int64_t rows[ROWS], const float *x,
                        int64_t first, int64_t last, float *sums, const int format,
                        const int bits, const int columns) {
    const int left = columns <= 4 ? columns : 4;
    tile_of(w, rows, x, first, last, sums, format, bits, left, columns);
    if (columns > 4)
        tile_of(w, rows, x + 4 * LANES, first, last, sums + 4, format, bits, columns - 4, columns);
}

INLINE void avx512_decode(const packed_weight *w, int64_t row, int64_t first, int64_t last,
                          float *out, const int format, const int bits) {
    const int per_word = 32 / bits;
    const int64_t group_slices = (w->group_size + LANES - 1) / LANES;
    const uint32_t *source = w->words + row * w->n_blocks * LANES;
    int64_t slice = first * per_word, group = slice / group_slices, change = slice;
    levels row_levels;
    start_row(&row_levels, w, row, format, bits);
    for (int64_t b = first; b < last; b++) {
        __m512i words = _mm512_loadu_si512(source + b * LANES);
        for (int j = 0; j < per_word; j++, slice++, out += LANES) {
            if (format == FORMAT_UNIFORM && slice == change) {
                start_group(&row_levels, w, row, group, bits);
                group++;
                change = group * group_slices;
            }
            _mm512_storeu_ps(out, decode_lanes(&row_levels, words, format, bits));
            words = _mm512_srli_epi32(words, bits);
        }
    }
}

#define INSTANCE_ISA avx512
#define INSTANCE_TARGET TARGET
#include "instances.h"
#endif
