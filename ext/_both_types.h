/* Includes the file SKML_KERNEL once for float and once for double, as the type REAL. */
#define REAL float
#define SUFFIX f32
#include SKML_KERNEL
#undef REAL
#undef SUFFIX

#define REAL double
#define SUFFIX f64
#include SKML_KERNEL
#undef REAL
#undef SUFFIX

#undef SKML_KERNEL
