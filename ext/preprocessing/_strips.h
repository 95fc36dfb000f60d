/* What the kernels over strips of points share.
 *
 * Quantities of points are rows, and points run along them. A strip is a run of at most SKML_STRIP
 * neighbouring points, so that what is held of them stays in the first cache; the compiler turns
 * the loops over its points into vector code, for the vector unit that is found at run time. */
#ifndef SKML_STRIPS_H
#define SKML_STRIPS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "_clones.h"

#define SKML_STRIP 256
/* Rows of one strip are kept this far apart: a power of two would put them all into the same few
 * sets of the cache. */
#define SKML_STRIDE (SKML_STRIP + 16)

/* Vectors that lie across two lines of the cache take twice as long to read: the rows of strips
 * start on lines. Room for them must be longer by SKML_SLACK numbers. */
#define SKML_LINE 64
#define SKML_SLACK SKML_LINE
#define SKML_ALIGNED(pointer) \
    ((void *)(((uintptr_t)(pointer) + SKML_LINE - 1) / SKML_LINE * SKML_LINE))

#endif
