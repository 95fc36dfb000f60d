/* AVX2: a permutation reaches 8 levels, so 4 bits take two and a blend on bit 3.
 *
 * A slice of 16 inputs is two registers.  With 16 registers in all, a tile of 4 rows is worked off
 * by pairs of rows, and row by row beyond 4 columns.
 */
#include "gemm.h"

#ifdef HAVE_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma")))
#define INLINE TARGET static inline __attribute__((always_inline))
/* Rows of up to 8 KiB are fetched a tile ahead, since a stream per row would stop at each row's
 * end; longer ones 2 KiB ahead of themselves. */
#define LONG_ROW 128
#define PREFETCH_WORDS 512
#define PAIR 2

typedef struct {
    const float *table;
    __m256 entries[4];   /* LUT to 5 bits; UNIFORM to 4 bits: the group's levels */
    __m256 scale, zero;  /* UNIFORM from 5 bits on */
} levels;

INLINE void start_row(levels *l, const packed_weight *w, int64_t row, const int format,
                      const int bits) {
    if (format == FORMAT_UNIFORM) return;
    l->table = w->table + row * w->table_size;
    if (bits <= 5)
        for (int e = 0; e < (bits <= 3 ? 1 : 1 << (bits - 3)); e++)
            l->entries[e] = _mm256_loadu_ps(l->table + 8 * e);
}

INLINE void start_group(levels *l, const packed_weight *w, int64_t row, int64_t group,
                        const int bits) {
    /* The padding may begin a group that does not exist; its inputs are zeros. */
    const int64_t at = row * w->n_groups + min64(group, w->n_groups - 1);
    const __m256i counting = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i mask = _mm256_set1_epi32((1 << bits) - 1);
    l->scale = _mm256_set1_ps(w->scale[at]);
    l->zero = _mm256_set1_ps(w->zero[at]);
    if (bits <= 4)
        for (int e = 0; e < (bits <= 3 ? 1 : 2); e++) {
            const __m256i codes = _mm256_add_epi32(counting, _mm256_set1_epi32(8 * e));
            l->entries[e] = _mm256_mul_ps(
                l->scale,
                _mm256_sub_ps(_mm256_cvtepi32_ps(_mm256_and_si256(codes, mask)), l->zero));
        }
}

/* Bit `bit` of each lane chooses the second argument. */
INLINE __m256 choose(__m256 clear, __m256 set, __m256i words, const int bit) {
    return _mm256_blendv_ps(clear, set, _mm256_castsi256_ps(_mm256_slli_epi32(words, 31 - bit)));
}

INLINE __m256 decode_lanes(const levels *l, __m256i words, const int format, const int bits) {
    const __m256i mask = _mm256_set1_epi32((1 << bits) - 1);
    if (bits <= 3) return _mm256_permutevar8x32_ps(l->entries[0], words);
    if (bits == 4)
        return choose(_mm256_permutevar8x32_ps(l->entries[0], words),
                      _mm256_permutevar8x32_ps(l->entries[1], words), words, 3);
    if (format == FORMAT_UNIFORM)
        return _mm256_mul_ps(
            l->scale,
            _mm256_sub_ps(_mm256_cvtepi32_ps(_mm256_and_si256(words, mask)), l->zero));
    if (bits == 5) {
        const __m256 low = choose(_mm256_permutevar8x32_ps(l->entries[0], words),
                                  _mm256_permutevar8x32_ps(l->entries[1], words), words, 3);
        const __m256 high = choose(_mm256_permutevar8x32_ps(l->entries[2], words),
                                   _mm256_permutevar8x32_ps(l->entries[3], words), words, 3);
        return choose(low, high, words, 4);
    }
    return _mm256_i32gather_ps(l->table, _mm256_and_si256(words, mask), 4);
}

INLINE float sum_lanes(__m256 a) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

/* A register tile of n_rows x columns; both are constants, of a product of at most 8. */
INLINE void tile_of(const packed_weight *w, const int64_t *rows, const float *x, int64_t first,
                    int64_t last, float *sums, const int format, const int bits,
                    const int n_rows, const int columns) {
    const int per_word = 32 / bits;
    const int64_t group_slices = (w->group_size + LANES - 1) / LANES;
    const int64_t ahead = w->n_blocks <= LONG_ROW ? n_rows * w->n_blocks * LANES : PREFETCH_WORDS;
    const uint32_t *source[PAIR];
    levels row_levels[PAIR];
    /* One column alone would wait for its own sums: its halves are added apart. */
    const int chains = columns == 1 ? 2 : 1;
    __m256 total[2][PAIR][COLUMNS];
    int64_t slice = first * per_word, group = slice / group_slices, change = slice;

#pragma GCC unroll 2
    for (int r = 0; r < n_rows; r++) {
        source[r] = w->words + rows[r] * w->n_blocks * LANES;
        start_row(&row_levels[r], w, rows[r], format, bits);
#pragma GCC unroll 8
        for (int c = 0; c < columns; c++)
            total[0][r][c] = total[1][r][c] = _mm256_setzero_ps();
    }
    x += slice * columns * LANES;
    for (int64_t b = first; b < last; b++) {
        __m256i words[2][PAIR];
#pragma GCC unroll 2
        for (int r = 0; r < n_rows; r++) {
            const uint32_t *block = source[r] + b * LANES;
            words[0][r] = _mm256_loadu_si256((const __m256i *)block);
            words[1][r] = _mm256_loadu_si256((const __m256i *)(block + 8));
            _mm_prefetch((const char *)(block + ahead), _MM_HINT_T1);
        }
        for (int j = 0; j < per_word; j++, slice++, x += columns * LANES) {
            if (format == FORMAT_UNIFORM && slice == change) {
#pragma GCC unroll 2
                for (int r = 0; r < n_rows; r++) start_group(&row_levels[r], w, rows[r], group, bits);
                group++;
                change = group * group_slices;
            }
#pragma GCC unroll 2
            for (int h = 0; h < 2; h++) {
                const int chain = chains == 2 ? h : 0;
                __m256 values[PAIR];
#pragma GCC unroll 2
                for (int r = 0; r < n_rows; r++) {
                    values[r] = decode_lanes(&row_levels[r], words[h][r], format, bits);
                    words[h][r] = _mm256_srli_epi32(words[h][r], bits);
                }
#pragma GCC unroll 8
                for (int c = 0; c < columns; c++) {
                    const __m256 input = _mm256_loadu_ps(x + c * LANES + 8 * h);
#pragma GCC unroll 2
                    for (int r = 0; r < n_rows; r++)
                        total[chain][r][c] =
                            _mm256_fmadd_ps(values[r], input, total[chain][r][c]);
                }
            }
        }
    }
#pragma GCC unroll 2
    for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 8
        for (int c = 0; c < columns; c++)
            sums[r * columns + c] += sum_lanes(_mm256_add_ps(total[0][r][c], total[1][r][c]));
}

INLINE void avx2_tile(const packed_weight *w, const int64_t rows[ROWS], const float *x,
                      int64_t first, int64_t last, float *sums, const int format, const int bits,
                      const int columns) {
    const int n_rows = columns <= 4 ? PAIR : 1;
    for (int r = 0; r < ROWS; r += n_rows)
        tile_of(w, rows + r, x, first, last, sums + r * columns, format, bits, n_rows, columns);
}

INLINE void avx2_decode(const packed_weight *w, int64_t row, int64_t first, int64_t last,
                        float *out, const int format, const int bits) {
    const int per_word = 32 / bits;
    const int64_t group_slices = (w->group_size + LANES - 1) / LANES;
    const uint32_t *source = w->words + row * w->n_blocks * LANES;
    int64_t slice = first * per_word, group = slice / group_slices, change = slice;
    levels row_levels;
    start_row(&row_levels, w, row, format, bits);
    for (int64_t b = first; b < last; b++) {
        __m256i words[2];
        for (int h = 0; h < 2; h++)
            words[h] = _mm256_loadu_si256((const __m256i *)(source + b * LANES + 8 * h));
        for (int j = 0; j < per_word; j++, slice++, out += LANES) {
            if (format == FORMAT_UNIFORM && slice == change) {
                start_group(&row_levels, w, row, group, bits);
                group++;
                change = group * group_slices;
            }
            for (int h = 0; h < 2; h++) {
                _mm256_storeu_ps(out + 8 * h, decode_lanes(&row_levels, words[h], format, bits));
                words[h] = _mm256_srli_epi32(words[h], bits);
            }
        }
    }
}

#define INSTANCE_ISA avx2
#define INSTANCE_TARGET TARGET
#include "instances.h"
#endif
