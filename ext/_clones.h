/* Loops of plain C for several vector units and types.
 *
 * A function marked SKML_CLONES is compiled for each of some vector units, and the one that fits
 * the processor is chosen at run time. A file of functions for the type REAL is included once for
 * each type by _both_types.h, with a SUFFIX that FN appends to names. */
#ifndef SKML_CLONES_H
#define SKML_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__gnu_linux__)
#define SKML_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SKML_CLONES
#endif

#if defined(__GNUC__)
#define SKML_INLINE static inline __attribute__((always_inline)) /* into every clone */
#else
#define SKML_INLINE static inline
#endif

#define SKML_JOIN_(a, b) a##_##b
#define SKML_JOIN(a, b) SKML_JOIN_(a, b)
#define FN(name) SKML_JOIN(name, SUFFIX)

#endif
