/* Writes out one function per format, width and number of columns, and the table of them.
 *
 * Define INSTANCE_ISA (a prefix), INSTANCE_TARGET (function attributes) and two always-inlined
 * functions INSTANCE_ISA##_tile and INSTANCE_ISA##_decode that take format, bits (and columns) as
 * their last arguments; the compiler specialises them for each instance.
 */
#define JOIN_(a, b, c, d, e) a##_##b##_##c##_##d##_##e
#define JOIN(a, b, c, d, e) JOIN_(a, b, c, d, e)
#define CALL_(isa, what) isa##_##what
#define CALL(isa, what) CALL_(isa, what)

#define TILE(format, bits, columns)                                                             \
    INSTANCE_TARGET static void JOIN(INSTANCE_ISA, tile, format, bits, columns)(                \
        const packed_weight *w, const int64_t rows[ROWS], const float *x, int64_t first,        \
        int64_t last, float *sums) {                                                            \
        CALL(INSTANCE_ISA, tile)(w, rows, x, first, last, sums, format, bits, columns);         \
    }
#define DECODER(format, bits)                                                                   \
    INSTANCE_TARGET static void JOIN(INSTANCE_ISA, decode, format, bits, row)(                  \
        const packed_weight *w, int64_t row, int64_t first, int64_t last, float *out) {         \
        CALL(INSTANCE_ISA, decode)(w, row, first, last, out, format, bits);                     \
    }
#define FUNCTIONS(format, bits)                                                                 \
    TILE(format, bits, 1) TILE(format, bits, 2) TILE(format, bits, 3) TILE(format, bits, 4)     \
    TILE(format, bits, 5) TILE(format, bits, 6) TILE(format, bits, 7) TILE(format, bits, 8)     \
    DECODER(format, bits)
#define ALL_FUNCTIONS(format)                                                                   \
    FUNCTIONS(format, 1) FUNCTIONS(format, 2) FUNCTIONS(format, 3) FUNCTIONS(format, 4)         \
    FUNCTIONS(format, 5) FUNCTIONS(format, 6) FUNCTIONS(format, 7) FUNCTIONS(format, 8)

ALL_FUNCTIONS(FORMAT_LUT)
ALL_FUNCTIONS(FORMAT_UNIFORM)

#define TILE_NAMES(format, bits)                                                                \
    {JOIN(INSTANCE_ISA, tile, format, bits, 1), JOIN(INSTANCE_ISA, tile, format, bits, 2),      \
     JOIN(INSTANCE_ISA, tile, format, bits, 3), JOIN(INSTANCE_ISA, tile, format, bits, 4),      \
     JOIN(INSTANCE_ISA, tile, format, bits, 5), JOIN(INSTANCE_ISA, tile, format, bits, 6),      \
     JOIN(INSTANCE_ISA, tile, format, bits, 7), JOIN(INSTANCE_ISA, tile, format, bits, 8)}
#define DECODER_NAME(format, bits) JOIN(INSTANCE_ISA, decode, format, bits, row)
#define EACH_WIDTH(name, format)                                                                \
    {name(format, 1), name(format, 2), name(format, 3), name(format, 4),                        \
     name(format, 5), name(format, 6), name(format, 7), name(format, 8)}

const tile_kernel CALL(INSTANCE_ISA, tiles)[N_FORMATS][MAX_BITS][COLUMNS] = {
    EACH_WIDTH(TILE_NAMES, FORMAT_LUT), EACH_WIDTH(TILE_NAMES, FORMAT_UNIFORM)};
const decode_kernel CALL(INSTANCE_ISA, decoders)[N_FORMATS][MAX_BITS] = {
    EACH_WIDTH(DECODER_NAME, FORMAT_LUT), EACH_WIDTH(DECODER_NAME, FORMAT_UNIFORM)};
