/* Codes of one byte each into words of 32 bits and back. */
#include <string.h>

#include "gemm.h"

int64_t blocks_for(int64_t n_inputs, int bits) {
    const int64_t per_block = LANES * codes_per_word(bits);
    return (n_inputs + per_block - 1) / per_block;
}

void pack_rows(const uint8_t *codes, int64_t n_rows, int64_t n_inputs, int bits,
               uint32_t *words) {
    const int64_t per_word = codes_per_word(bits), n_blocks = blocks_for(n_inputs, bits);
    memset(words, 0, (size_t)(n_rows * n_blocks * LANES) * sizeof(uint32_t));
    for (int64_t i = 0; i < n_rows; i++) {
        const uint8_t *row = codes + i * n_inputs;
        uint32_t *target = words + i * n_blocks * LANES;
        for (int64_t first = 0, slice = 0; first < n_inputs; first += LANES, slice++) {
            const int64_t width = min64(LANES, n_inputs - first);
            const int shift = bits * (int)(slice % per_word);
            uint32_t *block = target + slice / per_word * LANES;
            for (int64_t l = 0; l < width; l++) block[l] |= (uint32_t)row[first + l] << shift;
        }
    }
}

void unpack_rows(const uint32_t *words, int64_t n_rows, int64_t n_inputs, int bits,
                 uint8_t *codes) {
    const int64_t per_word = codes_per_word(bits), n_blocks = blocks_for(n_inputs, bits);
    const uint32_t mask = (1u << bits) - 1;
    for (int64_t i = 0; i < n_rows; i++) {
        const uint32_t *source = words + i * n_blocks * LANES;
        uint8_t *row = codes + i * n_inputs;
        for (int64_t first = 0, slice = 0; first < n_inputs; first += LANES, slice++) {
            const int64_t width = min64(LANES, n_inputs - first);
            const int shift = bits * (int)(slice % per_word);
            const uint32_t *block = source + slice / per_word * LANES;
            for (int64_t l = 0; l < width; l++) row[first + l] = (block[l] >> shift) & mask;
        }
    }
}
