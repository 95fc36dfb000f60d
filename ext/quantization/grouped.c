/* Many products at once, of weights in any format: the experts of a mixture.
 *
 * The tiles of all problems go into one list, the most expensive first, and each thread takes the
 * next one when it is free.  Which thread computes a tile does not change its result.
 */
#include <stdlib.h>
#include <string.h>

#include "grouped.h"
#include "integer.h"
#include "tiling.h"

typedef struct {
    double cost;
    int64_t problem, row0, column0;
} work_item;

/* What a problem's tiles read beside its weight. */
typedef struct {
    int rounded;
    float *packed;
    integer_plan plan;
    integer_inputs *groups;
} prepared;

static int64_t column_groups(const product *p) { return (p->n_columns + INT_COLUMNS - 1) / INT_COLUMNS; }

static int prepare(prepared *ready, const grouped_problem *g) {
    int64_t n_floats;
    memset(ready, 0, sizeof(*ready));
    if (g->product.n_columns == 0 || g->product.weight->n_rows == 0) return 0;
    if (!g->act_bits) {
        ready->packed = pack_inputs(&g->product, &n_floats);
        return ready->packed == NULL ? -1 : 0;
    }
    if (make_plan(&ready->plan, g->product.weight, g->act_group)) return -1;
    ready->groups = malloc((size_t)column_groups(&g->product) * sizeof(integer_inputs));
    if (ready->groups == NULL ||
        quantize_inputs(ready->groups, &g->product, &ready->plan, g->act_bits)) {
        free(ready->groups);
        ready->groups = NULL;
        return -1;
    }
    ready->rounded = 1;
    return 0;
}

static void release(prepared *ready, const grouped_problem *g) {
    free(ready->packed);
    free_plan(&ready->plan);
    if (ready->groups) free_inputs(ready->groups, column_groups(&g->product));
    free(ready->groups);
}

/* In units of one fused multiply-add of 16 lanes (measured): decoding costs about two of them a
 * slice, a quad of bytes replaces four. */
static double cost_of(const grouped_problem *g, int64_t n_rows, int64_t n_columns) {
    const double slices = (double)(n_rows * slices_of(g->product.weight));
    return g->act_bits ? slices * (0.75 + 0.25 * (double)n_columns)
                       : slices * (2.0 + (double)n_columns);
}

static int by_cost(const void *a, const void *b) {
    const work_item *first = a, *second = b;
    return (first->cost < second->cost) - (first->cost > second->cost);
}

static work_item *list_items(const grouped_problem *problems, int64_t n, int64_t *n_items) {
    int64_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        const product *p = &problems[i].product;
        most += ((p->weight->n_rows + TILE_ROWS - 1) / TILE_ROWS) *
                ((p->n_columns + TILE_COLUMNS - 1) / TILE_COLUMNS);
    }
    work_item *items = malloc((size_t)max64(most, 1) * sizeof(work_item)), *next = items;
    *n_items = most;
    if (items == NULL) return NULL;
    for (int64_t i = 0; i < n; i++) {
        const product *p = &problems[i].product;
        for (int64_t row0 = 0; row0 < p->weight->n_rows; row0 += TILE_ROWS)
            for (int64_t column0 = 0; column0 < p->n_columns; column0 += TILE_COLUMNS)
                *next++ = (work_item){cost_of(&problems[i], min64(TILE_ROWS, p->weight->n_rows - row0),
                                              min64(TILE_COLUMNS, p->n_columns - column0)),
                                      i, row0, column0};
    }
    qsort(items, (size_t)most, sizeof(work_item), by_cost);
    return items;
}

int multiply_grouped(const grouped_problem *problems, int64_t n, int n_threads) {
    int64_t n_items = 0;
    int failed = 0;
    work_item *items = list_items(problems, n, &n_items);
    prepared *ready = calloc((size_t)max64(n, 1), sizeof(prepared));
    if (items == NULL || ready == NULL) {
        free(items);
        free(ready);
        return -1;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(n_threads) reduction(| : failed) if (n_threads > 1)
    for (int64_t i = 0; i < n; i++) failed |= prepare(&ready[i], &problems[i]) != 0;
    if (!failed) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(n_threads) if (n_threads > 1)
        for (int64_t i = 0; i < n_items; i++) {
            const work_item *item = &items[i];
            const grouped_problem *g = &problems[item->problem];
            const prepared *input = &ready[item->problem];
            if (input->rounded)
                multiply_integer_item(&g->product, &input->plan, input->groups, g->isa, item->row0,
                                      item->column0);
            else
                multiply_item(&g->product, g->isa, input->packed, item->row0, item->column0);
        }
    }
    for (int64_t i = 0; i < n; i++) release(&ready[i], &problems[i]);
    free(items);
    free(ready);
    return failed ? -1 : 0;
}
