/*
 * Routers: from tokens to a plan. A router is one file (router_*.c) and one row of routers.def; no
 * other code depends on its type. It computes the weights of the plan and, in the backward pass,
 * the gradient of its own logits; dispatch and combine are in plan.c.
 */
#ifndef SMOE_ROUTER_H
#define SMOE_ROUTER_H

#include "base/base.h"
#include "base/clock.h"
#include "base/param.h"
#include "base/rng.h"
#include "route/plan.h"
#include "spec/spec.h"

/* The context of a pass, passed unchanged from the trainer to every layer and router. */
typedef struct smoe_pass {
    bool train;    /* noise, dropout and auxiliary losses are on */
    uint64_t seed; /* of the run */
    uint64_t step; /* keys every random stream of the pass */
    size_t images; /* B of this pass, at most what was reserved */
    size_t first;  /* evaluation: number of its first image, keys the scores of random routers */
    smoe_clock *clock; /* NULL: no measurement */
} smoe_pass;

typedef struct smoe_router smoe_router;

typedef struct smoe_router_type {
    size_t size; /* of its struct, which starts with smoe_router */
    /* Sets T and P, checks the spec, registers parameters named r->prefix + ".x". */
    int (*init)(smoe_router *r, smoe_err *err);
    /* Names its buffers and reserves its plan for up to B images. */
    void (*reserve)(smoe_router *r, size_t B, bool train, smoe_arena *keep);
    /* x [tokens,d] -> r->plan. */
    void (*forward)(smoe_router *r, const real *x, const smoe_pass *pass);
    /* From the gradients in r->plan and of the auxiliary loss: adds to dx [tokens,d] and to the
     * parameters' gradients. NULL: nothing to learn. */
    void (*backward)(smoe_router *r, real *dx, const real *x, const smoe_pass *pass);
} smoe_router_type;

struct smoe_router {
    const smoe_router_type *type;
    const smoe_moe_spec *spec;
    smoe_params *params;
    size_t block;        /* which block it sits in: keys its random streams */
    char prefix[40];     /* "blocks.3.mlp.router" */
    size_t image_tokens; /* tokens of an image */
    size_t d, E;
    size_t T, P; /* tokens of a full group; slots of an expert and group */
    smoe_plan plan;
};

/* Creates the router that spec->router names; NULL and err (SMOE_USAGE) if its spec is invalid. */
smoe_router *smoe_router_create(const smoe_moe_spec *spec, smoe_params *params, size_t block,
                                size_t image_tokens, size_t d, smoe_err *err);
void smoe_router_free(smoe_router *router);

/* out [n] = in (NULL: 0) + std * standard normal numbers of the stream; out may be in. */
void smoe_router_noise(real *out, const real *in, size_t n, double std, smoe_rng *rng);

#endif
