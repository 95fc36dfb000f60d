/* Cutting the inputs into segments and quads, and rounding activations into that order. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "integer.h"
#include "tiling.h"

static int64_t next_bound(int64_t k, int64_t size, int64_t n) {
    return min64(n, (k / size + 1) * size);
}

/* Slice that byte t of a quad belongs to. */
static int64_t slice_of(const quad *q, int t, int bits, int strided) {
    const int step = strided ? 8 / bits : 1;
    const int64_t code = q->shift / bits + (int64_t)t * step;
    return code < 32 / bits ? q->block * codes_per_word(bits) + code : -1;
}

static int64_t add_quads(integer_plan *plan, const segment *s, int bits, int64_t n_quads) {
    const int64_t per_word = codes_per_word(bits);
    int64_t slice = s->first_input / LANES;
    const int64_t last_slice = (s->last_input + LANES - 1) / LANES;
    while (slice < last_slice) {
        const int64_t block = slice / per_word, code = slice % per_word;
        const int64_t block_end = min64((block + 1) * per_word, last_slice);
        if (plan->strided) {
            for (int part = 0; part < 8 / bits; part++)
                plan->quads[n_quads++] = (quad){(int32_t)block, (int32_t)(bits * part)};
            slice = (block + 1) * per_word;
        } else {
            plan->quads[n_quads++] = (quad){(int32_t)block, (int32_t)(bits * code)};
            slice = min64(slice + QUAD, block_end);
        }
    }
    return n_quads;
}

int make_plan(integer_plan *plan, const packed_weight *w, int64_t act_group) {
    const int64_t n = w->n_inputs, per_block = LANES * codes_per_word(w->bits);
    const int64_t group = w->n_groups == 1 ? n : w->group_size;
    plan->act_group = act_group < 0 ? n : act_group;
    plan->n_act_groups = (n + plan->act_group - 1) / plan->act_group;
    plan->strided = 8 % w->bits == 0 && (group >= n || group % per_block == 0) &&
                    (plan->act_group >= n || plan->act_group % per_block == 0);
    /* A bound of either group or of the longest segment begins a segment. */
    const int64_t most = n / group + n / plan->act_group + n / SEGMENT_INPUTS + 3;
    plan->segments = malloc((size_t)most * sizeof(segment));
    /* Each segment may end in a part of a quad at either end and at each block. */
    const int64_t most_quads = slices_of(w) / QUAD + w->n_blocks + 3 * most + 8;
    plan->quads = malloc((size_t)most_quads * sizeof(quad));
    if (plan->segments == NULL || plan->quads == NULL) {
        free_plan(plan);
        return -1;
    }
    plan->n_segments = plan->n_quads = 0;
    for (int64_t k = 0; k < n;) {
        segment *s = &plan->segments[plan->n_segments++];
        s->first_input = k;
        s->last_input = min64(next_bound(k, SEGMENT_INPUTS, n),
                              min64(next_bound(k, group, n), next_bound(k, plan->act_group, n)));
        s->group = k / group;
        s->act_group = k / plan->act_group;
        s->first_quad = plan->n_quads;
        s->last_quad = plan->n_quads = add_quads(plan, s, w->bits, plan->n_quads);
        k = s->last_input;
    }
    return 0;
}

void free_plan(integer_plan *plan) {
    free(plan->segments);
    free(plan->quads);
    plan->segments = NULL;
    plan->quads = NULL;
}

/* Symmetric rounding of one group of a row of X; returns its scale. */
static float round_group(const float *x, int64_t n, int act_bits, int8_t *rounded) {
    const float largest = (float)((1 << (act_bits - 1)) - 1);
    float bound = 0;
    int finite = 1;
    for (int64_t k = 0; k < n; k++) {
        finite &= isfinite(x[k]) != 0;
        bound = fmaxf(bound, fabsf(x[k]));
    }
    /* What is not a number stays none: its group spoils the sums, as it does in float. */
    const float scale = finite ? fmaxf(bound / largest, FLT_MIN) : NAN;
    for (int64_t k = 0; k < n; k++)
        rounded[k] = finite ? (int8_t)fmaxf(-largest, fminf(largest, rintf(x[k] / scale))) : 0;
    return scale;
}

/* Bytes of column c of a group of `width` columns, from its rounded row. */
static void scatter_bytes(integer_inputs *g, const integer_plan *plan, const packed_weight *w,
                          const int8_t *rounded, int64_t c, int64_t width) {
    for (int64_t i = 0; i < plan->n_segments; i++) {
        const segment *s = &plan->segments[i];
        int32_t *sums = g->lane_sums + (i * width + c) * LANES;
        memset(sums, 0, LANES * sizeof(int32_t));
        for (int64_t q = s->first_quad; q < s->last_quad; q++) {
            int8_t *bytes = g->values + (q * width + c) * QUAD_BYTES;
            memset(bytes, 0, QUAD_BYTES);
            for (int t = 0; t < QUAD; t++) {
                const int64_t slice = slice_of(&plan->quads[q], t, w->bits, plan->strided);
                /* A quad of neighbours may reach into the next segment; that one has its own. */
                const int64_t first = max64(slice * LANES, s->first_input);
                const int64_t last = min64((slice + 1) * LANES, s->last_input);
                if (slice < 0) continue;
                for (int64_t k = first; k < last; k++) {
                    bytes[(k % LANES) * QUAD + t] = rounded[k];
                    sums[k % LANES] += rounded[k];
                }
            }
        }
    }
}

int quantize_inputs(integer_inputs *groups, const product *problem, const integer_plan *plan,
                    int act_bits) {
    const packed_weight *w = problem->weight;
    const int64_t n = w->n_inputs, n_groups = (problem->n_columns + INT_COLUMNS - 1) / INT_COLUMNS;
    int8_t *rounded = malloc((size_t)n);
    int failed = rounded == NULL;
    memset(groups, 0, (size_t)n_groups * sizeof(integer_inputs));
    for (int64_t i = 0; i < n_groups && !failed; i++) {
        integer_inputs *g = &groups[i];
        const int64_t c0 = i * INT_COLUMNS, width = min64(INT_COLUMNS, problem->n_columns - c0);
        g->values = (int8_t *)aligned_floats(plan->n_quads * width * QUAD_BYTES / 4);
        g->lane_sums = (int32_t *)aligned_floats(plan->n_segments * width * LANES);
        g->scale = aligned_floats(plan->n_act_groups * width);
        failed = g->values == NULL || g->lane_sums == NULL || g->scale == NULL;
        for (int64_t c = 0; c < width && !failed; c++) {
            const float *x = problem->x + (c0 + c) * problem->x_stride;
            for (int64_t a = 0; a < plan->n_act_groups; a++) {
                const int64_t k0 = a * plan->act_group, size = min64(plan->act_group, n - k0);
                g->scale[a * width + c] = round_group(x + k0, size, act_bits, rounded + k0);
            }
            scatter_bytes(g, plan, w, rounded, c, width);
        }
    }
    free(rounded);
    if (failed) free_inputs(groups, n_groups);
    return failed ? -1 : 0;
}

void free_inputs(integer_inputs *groups, int64_t n_groups) {
    for (int64_t i = 0; i < n_groups; i++) {
        free(groups[i].values);
        free(groups[i].lane_sums);
        free(groups[i].scale);
    }
}
