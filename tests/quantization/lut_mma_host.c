/* Shared library for ctypes: one block of lut_mma.cu on the host. */
#define SKML_ON_HOST
#define SKML_NAME multiply_tile
#include "lut_mma.cu"

static struct {
    unsigned long long words, table, x, tile;
    int m, n_words, row0, block0, block1, k_parts;
} task;

static void one_thread(void) {
    multiply_tile(task.words, task.table, task.x, task.tile, task.m, task.n_words, task.row0,
                  task.block0, task.block1, task.k_parts);
    finished[current_thread] = 1;
}

void run_tile(const void *words, const void *table, const void *x, void *tile, int m, int n_words,
              int row0, int block0, int block1, int k_parts, int warps) {
    task.words = (uintptr_t)words;
    task.table = (uintptr_t)table;
    task.x = (uintptr_t)x;
    task.tile = (uintptr_t)tile;
    task.m = m;
    task.n_words = n_words;
    task.row0 = row0;
    task.block0 = block0;
    task.block1 = block1;
    task.k_parts = k_parts;
    run_block(32 * warps, one_thread);
}
