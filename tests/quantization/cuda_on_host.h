/* The instructions of lut_mma.cu on the host, for one block of threads that take turns.
 *
 * Each thread of the block is a context of its own.  It runs until it waits for the block or its
 * warp, then the next one does; so a race would show as the same wrong result every time. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define DEVICE static inline
#define ENTRY
#define MAX_THREADS 256
#define STACK_BYTES (64 * 1024)

static int current_thread, n_threads;
static ucontext_t contexts[MAX_THREADS], scheduler;
static int finished[MAX_THREADS], barriers[MAX_THREADS];

static void next_turn(void) { swapcontext(&contexts[current_thread], &scheduler); }

static int thread_index(void) { return current_thread; }

/* Wait until each of the threads from `first` on has come to as many barriers as this one. */
static void wait_for(int *counts, int first, int count) {
    const int mine = ++counts[current_thread];
    for (int i = first; i < first + count; i++)
        while (!finished[i] && counts[i] < mine) next_turn();
}

static void wait_for_block(void) { wait_for(barriers, 0, n_threads); }

static unsigned pick_bytes(unsigned low, unsigned high, unsigned selectors) {
    const uint64_t both = (uint64_t)high << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; i++)
        result |= (unsigned)(both >> 8 * (selectors >> 4 * i & 7) & 255) << 8 * i;
    return result;
}

static void check_aligned(const void *from, size_t size) {
    if ((uintptr_t)from % size) {
        fprintf(stderr, "load of %zu bytes from %p\n", size, from);
        exit(2);
    }
}

static void load_words(unsigned *words, const unsigned *from) {
    check_aligned(from, 16);
    memcpy(words, from, 16);
}

static void load_pair(unsigned *pair, const unsigned *from) {
    check_aligned(from, 8);
    memcpy(pair, from, 8);
}

static float to_float(unsigned bits) {
#if SKML_BFLOAT16
    const unsigned wide = bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
#else
    const unsigned sign = bits >> 15 & 1, exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent ? (1024 + fraction) / 1024.0 : fraction / 512.0;
    for (int e = (int)exponent; e > 15; e--) value *= 2;
    for (int e = (int)exponent; e < 15; e++) value /= 2;
    return (float)(sign ? -value : value);
#endif
}

/* Operands of the warps, as each thread passes them. */
static unsigned operands[MAX_THREADS][6];
static int products[MAX_THREADS];

static void wait_for_warp(void) { wait_for(products, current_thread / 32 * 32, 32); }

static float element(unsigned pair, int which) { return to_float(which ? pair >> 16 : pair & 65535); }

/* PTX, "Matrix fragments for mma.m16n8k16": where the elements of a and b lie. */
static void multiply_add(float *sums, const unsigned *a, const unsigned *b) {
    memcpy(operands[current_thread], a, 16);
    memcpy(operands[current_thread] + 4, b, 8);
    wait_for_warp();
    const int first = current_thread / 32 * 32, lane = current_thread % 32;
    for (int i = 0; i < 4; i++) {
        const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        for (int k = 0; k < 16; k++) {
            const int owner = k % 8 / 2, upper = k / 8;
            const unsigned *left = operands[first + row % 8 * 4 + owner];
            const unsigned *right = operands[first + column * 4 + owner];
            sums[i] += element(left[row / 8 + 2 * upper], k % 2) *
                       element(right[4 + upper], k % 2);
        }
    }
    wait_for_warp();
}

/* Run a block of threads to its end. */
static void run_block(int threads, void (*function)(void)) {
    static char stacks[MAX_THREADS][STACK_BYTES];
    n_threads = threads;
    for (int i = 0; i < threads; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stacks[i];
        contexts[i].uc_stack.ss_size = STACK_BYTES;
        contexts[i].uc_link = &scheduler;
        finished[i] = barriers[i] = products[i] = 0;
        makecontext(&contexts[i], function, 0);
    }
    for (int alive = threads; alive;) {
        for (current_thread = 0; current_thread < threads; current_thread++)
            if (!finished[current_thread]) swapcontext(&scheduler, &contexts[current_thread]);
        alive = 0;
        for (int i = 0; i < threads; i++) alive += !finished[i];
    }
}
