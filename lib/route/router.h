/*
 * Routers: from tokens to a plan. One file each (router_*.c) and one row in routers.def; nothing else
 * knows a router by type. A router computes weights and takes the gradient of its own logits.
 */
#ifndef SMOE_ROUTER_H
#define SMOE_ROUTER_H

#include "base/base.h"
#include "base/param.h"
#include "route/plan.h"
#include "spec/spec.h"

/* What a forward or backward pass is for; handed down unchanged from model to router. */
typedef struct smoe_pass {
    bool train;     /* noise, dropout and auxiliary losses are on */
    uint64_t seed;  /* of the run */
    uint64_t step;  /* keys every random stream of the pass */
    size_t images;  /* B of this pass, at most what was reserved */
} smoe_pass;

typedef struct smoe_router smoe_router;

typedef struct smoe_router_type {
    const char *name, *summary;
    bool grouped; /* routes group_images images together; otherwise each image is a group */
    bool choice;  /* counts choices and drops; has auxiliary metrics */
    size_t size;  /* of its struct, which starts with smoe_router */
    /* Validates against the spec, sets r->P, registers parameters under r->prefix. */
    int (*init)(smoe_router *r, smoe_params *params, smoe_err *err);
    /* Names every buffer for G groups (called twice: count, then bind); sets up the plan. */
    void (*reserve)(smoe_router *r, size_t G, bool train, smoe_arena *keep, smoe_arena *scratch);
    /* x [G*T, d] -> r->plan. */
    void (*forward)(smoe_router *r, const real *x, const smoe_pass *pass);
    /* From the gradients in r->plan: adds to dx [G*T, d] and to the parameters' gradients. aux_scale: weight of the auxiliary loss. */
    void (*backward)(smoe_router *r, real *dx, const real *x, const smoe_pass *pass);
} smoe_router_type;

struct smoe_router {
    const smoe_router_type *type;
    const smoe_moe_spec *spec;
    size_t block;             /* number of the block, keys random streams */
    char prefix[40];          /* "blocks.3.mlp.router" */
    size_t T, d, E, P;        /* T tokens of a full group */
    smoe_params *params;      /* slabs are looked up here at run time */
    smoe_plan plan;
};

/* The types of routers.def, in its order. */
extern const smoe_router_type *const smoe_router_types[];
extern const size_t smoe_router_type_count;
const smoe_router_type *smoe_router_type_find(const char *name);

#endif
