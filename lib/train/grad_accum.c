/* Sums over the pieces of a batch; see grad_accum.h. */
#include "train/grad_accum.h"
#include "math/rows.h"

int smoe_grad_accum_open(smoe_grad_accum *pieces, const smoe_params *params, size_t count,
                         smoe_err *err) {
    *pieces = (smoe_grad_accum){.size = params->shared};
    for (size_t levels = smoe_rows_levels(count); pieces->levels < levels; pieces->levels++) {
        smoe_arena arena = {0};
        smoe_arena_take(&arena, pieces->size, sizeof(real));
        if (smoe_arena_bind(&arena, err)) return smoe_fail_prefix(err, "gradients of pieces");
        pieces->slab[pieces->levels] = (real *)arena.base;
    }
    return 0;
}

void smoe_grad_accum_free(smoe_grad_accum *pieces) {
    for (size_t i = 0; i < pieces->levels; i++) {
        smoe_arena arena = {.base = (char *)pieces->slab[i], .size = pieces->size * sizeof(real)};
        smoe_arena_free(&arena);
    }
    *pieces = (smoe_grad_accum){0};
}

/* Adds y [size] to the gradients, except those that are left as outer products. */
static void add_gradients(smoe_params *params, const real *y, size_t size) {
    size_t begin = 0;
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *p = &params->param[i];
        if (!p->outer || p->offset >= size) continue;
        smoe_rows_add(params->g + begin, y + begin, p->offset - begin);
        begin = smoe_param_end(p);
    }
    if (begin < size) smoe_rows_add(params->g + begin, y + begin, size - begin);
}

void smoe_grad_accum_clear(smoe_params *params) {
    for (size_t i = 0; i < params->count; i++) smoe_params_clear(params, i);
}

/* As in a binary counter: a sum that is stored at a level is the left neighbour. */
void smoe_grad_accum_add(smoe_grad_accum *pieces, smoe_params *params, size_t i) {
    size_t level = 0;
    for (; i >> level & 1; level++) add_gradients(params, pieces->slab[level], pieces->size);
    if (level == pieces->levels) return;
    if (pieces->size == params->trained)
        SMOE_SWAP(params->g, pieces->slab[level]);
    else
        memcpy(pieces->slab[level], params->g, pieces->size * sizeof(real));
    smoe_grad_accum_clear(params);
}

void smoe_grad_accum_sum(double *x, size_t count, size_t n) {
    for (size_t stride = 1; stride < count; stride *= 2)
        for (size_t i = 0; i < count; i += 2 * stride)
            for (size_t k = 0; k < n; k++) x[i * n + k] += x[(i + stride) * n + k];
}
