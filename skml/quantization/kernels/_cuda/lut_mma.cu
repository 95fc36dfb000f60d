/* A tile of a product by tensor cores, from packed codes that never leave the registers.
 *
 * Compiled by NVRTC and linked into the kernel of _tensor_core.py, which has no other way to the
 * instruction; the lines that define SKML_BITS, SKML_TILES, SKML_BFLOAT16 and SKML_NAME stand
 * before this text.  It keeps to what C and C++ share: the tests compile it for the host as well,
 * with the few instructions below emulated, and run it.
 *
 * A warp multiplies 32 rows of the weight by 8 * SKML_TILES rows of X.  The instruction wants of
 * each thread, for two rows of the weight, levels of four inputs of its own choosing, as long as
 * the thread that holds X chooses alike.  So thread t of four decodes the words 4 t to 4 t + 3 of
 * a block of 16 as they come, four codes at a time, and X has been put into that order before.
 *
 * Sixteen levels of 16 bits are eight registers: four with the low bytes, four with the high ones.
 * Codes are the selectors of the instruction that picks bytes from two registers, so decoding
 * takes no memory at all: 8 picks for four codes of 4 bits, 4 for four of 3 bits, and one for two
 * codes of 1 or 2 bits, whose low and high bytes all lie in one or two registers.
 */
#ifdef SKML_ON_HOST
#include "cuda_on_host.h"
#else
#define DEVICE static __device__ __forceinline__
#define ENTRY extern "C" __device__

DEVICE int thread_index(void) { return threadIdx.x; }

DEVICE void wait_for_block(void) { __syncthreads(); }

DEVICE unsigned pick_bytes(unsigned low, unsigned high, unsigned selectors) {
    return __byte_perm(low, high, selectors);
}

DEVICE void load_words(unsigned *words, const unsigned *from) {
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(from));
}

DEVICE void load_pair(unsigned *pair, const unsigned *from) {
    asm("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(pair[0]), "=r"(pair[1]) : "l"(from));
}

/* sums (16 x 8) += a (16 x 16) b (16 x 8), spread over the warp. */
DEVICE void multiply_add(float *sums, const unsigned *a, const unsigned *b) {
#if SKML_BFLOAT16
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
#else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
#endif
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

#define CODES_PER_WORD (32 / SKML_BITS)
#define STEPS ((CODES_PER_WORD + 3) / 4) /* of four codes */
#define LEVELS (1 << SKML_BITS)
#define LEVEL_REGISTERS (SKML_BITS == 4 ? 8 : SKML_BITS == 3 ? 4 : SKML_BITS == 2 ? 2 : 1)
#define WARP_ROWS 32
#define ROWS_OF_THREAD 4
#define TILE_STRIDE 33 /* floats between columns of the result in shared memory */

/* Low bytes of all levels, then high bytes, four to a register. */
DEVICE void load_levels(unsigned *levels, const unsigned *table) {
#if SKML_BITS == 1
    levels[0] = pick_bytes(table[0], 0, 0x3120);
#else
#pragma unroll
    for (int quad = 0; quad < LEVELS / 4; quad++) {
        levels[quad] = pick_bytes(table[2 * quad], table[2 * quad + 1], 0x6420);
        levels[LEVELS / 4 + quad] = pick_bytes(table[2 * quad], table[2 * quad + 1], 0x7531);
    }
#endif
}

/* Levels of four codes of a word, two to a register, in the order that code_order() of
 * _tensor_core.py states. */
DEVICE void decode(unsigned *pairs, const unsigned *levels, unsigned word, int step) {
#if SKML_BITS == 4
    const unsigned codes = word >> (16 * step);
    /* Three bits pick from either half of the table, the fourth between the halves. */
    const unsigned inner = codes & 0x7777, outer = (codes >> 1 & 0x4444) | 0x3210;
    const unsigned low = pick_bytes(pick_bytes(levels[0], levels[1], inner),
                                    pick_bytes(levels[2], levels[3], inner), outer);
    const unsigned high = pick_bytes(pick_bytes(levels[4], levels[5], inner),
                                     pick_bytes(levels[6], levels[7], inner), outer);
    pairs[0] = pick_bytes(low, high, 0x5140);
    pairs[1] = pick_bytes(low, high, 0x7362);
#elif SKML_BITS == 3
    /* Twelve bits are spread to four times four. */
    const unsigned codes = word >> (12 * step);
    const unsigned twice = (codes & 0x3F) + (codes & 0xFC0) * 4;
    const unsigned spread = (twice & 0x0707) + (twice & 0x3838) * 2;
    const unsigned low = pick_bytes(levels[0], levels[1], spread);
    const unsigned high = pick_bytes(levels[2], levels[3], spread);
    pairs[0] = pick_bytes(low, high, 0x5140);
    pairs[1] = pick_bytes(low, high, 0x7362);
#elif SKML_BITS == 2
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int pair = 2 * step + i, code = pair < 4 ? pair : pair + 4;
        const unsigned codes = word >> (2 * code) & 0x0303;
        pairs[i] = pick_bytes(levels[0], levels[1], codes * 0x11 + 0x4040);
    }
#else
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int pair = 2 * step + i, code = pair < 8 ? pair : pair + 8;
        pairs[i] = pick_bytes(levels[0], 0, (word >> code & 0x0101) * 0x11 + 0x2020);
    }
#endif
}

/* One word of each of the thread's four rows times its part of X. */
DEVICE void multiply_word(float sums[2][SKML_TILES][4], unsigned levels[ROWS_OF_THREAD][LEVEL_REGISTERS],
                          const unsigned *words, const unsigned *x) {
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        unsigned b[SKML_TILES][2], a[2][4];
#pragma unroll
        for (int tile = 0; tile < SKML_TILES; tile++)
            load_pair(b[tile], x + (step * SKML_TILES + tile) * 64);
#pragma unroll
        for (int row = 0; row < ROWS_OF_THREAD; row++) {
            unsigned pairs[2];
            decode(pairs, levels[row], words[row], step);
            a[row / 2][row % 2] = pairs[0];
            a[row / 2][row % 2 + 2] = pairs[1];
        }
#pragma unroll
        for (int tile = 0; tile < SKML_TILES; tile++) {
            multiply_add(sums[0][tile], a[0], b[tile]);
            multiply_add(sums[1][tile], a[1], b[tile]);
        }
    }
}

/* Write the sums of one warp after the other to the tile, or add them to what is there.  The order
 * is fixed: the product is the same every time. */
DEVICE void combine(float *tile, float sums[2][SKML_TILES][4], int part, int k_parts) {
    const int lane = thread_index() % 32, row = lane / 4, column = lane % 4 * 2;
    for (int turn = 0; turn < k_parts; turn++) {
        if (part == turn) {
#pragma unroll
            for (int half = 0; half < 2; half++)
#pragma unroll
                for (int t = 0; t < SKML_TILES; t++)
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        float *to = tile + (8 * t + column + i % 2) * TILE_STRIDE + 16 * half + row +
                                    i / 2 * 8;
                        *to = turn == 0 ? sums[half][t][i] : *to + sums[half][t][i];
                    }
        }
        wait_for_block();
    }
}

/* The product of the rows from row0 on and the inputs of the blocks of words from block0 to block1.
 *
 * words    codes of the weight, n_words to a row
 * table    levels of 16 bits, LEVELS to a row
 * x        X in the order of the threads: (block, word of four, step, tile, lane, 4) of 16 bits
 * tile     shared memory for the result: (warps / k_parts, 8 * SKML_TILES, TILE_STRIDE) floats
 * k_parts  warps that share the inputs of the same rows
 *
 * Rows beyond m - 1 hold what row m - 1 holds.  The block may read the tile at once. */
ENTRY int SKML_NAME(unsigned long long words, unsigned long long table, unsigned long long x,
                    unsigned long long tile, int m, int n_words, int row0, int block0, int block1,
                    int k_parts) {
    const int warp = thread_index() / 32, lane = thread_index() % 32;
    const int part = warp % k_parts, group = warp / k_parts;
    float sums[2][SKML_TILES][4];
    unsigned levels[ROWS_OF_THREAD][LEVEL_REGISTERS], held[ROWS_OF_THREAD][4], ahead[ROWS_OF_THREAD][4];
    const unsigned *rows[ROWS_OF_THREAD];
#pragma unroll
    for (int i = 0; i < ROWS_OF_THREAD; i++) {
        int row = row0 + WARP_ROWS * group + lane / 4 + 8 * i;
        row = row < m ? row : m - 1;
        rows[i] = (const unsigned *)words + (long long)row * n_words + lane % 4 * 4;
        load_levels(levels[i], (const unsigned *)table + (long long)row * (LEVELS / 2));
    }
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int t = 0; t < SKML_TILES; t++)
#pragma unroll
            for (int i = 0; i < 4; i++) sums[half][t][i] = 0;
    int block = block0 + part;
    if (block < block1) {
#pragma unroll
        for (int i = 0; i < ROWS_OF_THREAD; i++) load_words(held[i], rows[i] + 16 * block);
    }
    for (; block < block1; block += k_parts) {
        /* The next codes are on their way while these are multiplied. */
        if (block + k_parts < block1) {
#pragma unroll
            for (int i = 0; i < ROWS_OF_THREAD; i++)
                load_words(ahead[i], rows[i] + 16 * (block + k_parts));
        }
#pragma unroll
        for (int w = 0; w < 4; w++) {
            const unsigned four[ROWS_OF_THREAD] = {held[0][w], held[1][w], held[2][w], held[3][w]};
            const long long at = (long long)(4 * block + w) * STEPS * SKML_TILES * 64 + 2 * lane;
            multiply_word(sums, levels, four, (const unsigned *)x + at);
        }
#pragma unroll
        for (int i = 0; i < ROWS_OF_THREAD; i++)
#pragma unroll
            for (int w = 0; w < 4; w++) held[i][w] = ahead[i][w];
    }
    combine((float *)tile + group * 8 * SKML_TILES * TILE_STRIDE, sums, part, k_parts);
    return 0;
}
