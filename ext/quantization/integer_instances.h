/* One function per width, order of the quads and number of columns, and the table of them.
 *
 * Define INSTANCE_ISA, INSTANCE_TARGET and an always-inlined function INSTANCE_ISA##_quads that
 * takes bits, strided and columns as its last arguments.
 */
#define JOIN_(a, b, c, d) a##_integer_##b##_##c##_##d
#define JOIN(a, b, c, d) JOIN_(a, b, c, d)
#define CALL_(isa, what) isa##_##what
#define CALL(isa, what) CALL_(isa, what)

#define KERNEL(strided, bits, columns)                                                          \
    INSTANCE_TARGET static void JOIN(INSTANCE_ISA, strided, bits, columns)(                     \
        const packed_weight *w, const integer_plan *plan, const int64_t rows[ROWS],             \
        const integer_inputs *x, float *sums) {                                                 \
        CALL(INSTANCE_ISA, quads)(w, plan, rows, x, sums, bits, strided, columns);              \
    }
#define KERNELS(strided, bits)                                                                  \
    KERNEL(strided, bits, 1) KERNEL(strided, bits, 2)                                           \
    KERNEL(strided, bits, 3) KERNEL(strided, bits, 4)
KERNELS(0, 1) KERNELS(0, 2) KERNELS(0, 3) KERNELS(0, 4)
KERNELS(0, 5) KERNELS(0, 6) KERNELS(0, 7) KERNELS(0, 8)
KERNELS(1, 1) KERNELS(1, 2) KERNELS(1, 4) KERNELS(1, 8)

#define NAMES(strided, bits)                                                                    \
    {JOIN(INSTANCE_ISA, strided, bits, 1), JOIN(INSTANCE_ISA, strided, bits, 2),                \
     JOIN(INSTANCE_ISA, strided, bits, 3), JOIN(INSTANCE_ISA, strided, bits, 4)}
const integer_kernel CALL(INSTANCE_ISA, integer)[2][MAX_BITS][INT_COLUMNS] = {
    {NAMES(0, 1), NAMES(0, 2), NAMES(0, 3), NAMES(0, 4), NAMES(0, 5), NAMES(0, 6), NAMES(0, 7),
     NAMES(0, 8)},
    {NAMES(1, 1), NAMES(1, 2), {0}, NAMES(1, 4), {0}, {0}, {0}, NAMES(1, 8)}};
