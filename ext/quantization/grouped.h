#ifndef SKML_GROUPED_H
#define SKML_GROUPED_H

#include "gemm.h"

typedef struct {
    product product;
    int isa;
    int act_bits;       /* 0: inputs stay in float */
    int64_t act_group;  /* -1: the whole row */
} grouped_problem;

/* 0 on success, -1 when memory runs out. */
int multiply_grouped(const grouped_problem *problems, int64_t n, int n_threads);

#endif
