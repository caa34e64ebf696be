/*
 * Routers: from tokens to a plan. A router is a type in a file router_*.c, which similar routers
 * may share, and an entry of routers.def; no other code depends on its type. It computes the
 * weights of the plan and, in the backward pass, the gradient of its own logits; dispatch and
 * combine are in plan.c.
 */
#pragma once

#include "base/param.h"
#include "base/rng.h"
#include "route/plan.h"
#include "spec/parts.h"
#include "spec/spec.h"

/* The context of a pass, passed unchanged from the trainer to every layer and router. */
typedef struct smoe_pass {
    bool train;    /* noise, dropout and auxiliary losses are on */
    uint64_t seed; /* of the run */
    uint64_t step; /* keys every random stream of the pass */
    size_t images; /* B of this pass, at most what was reserved */
    size_t first;  /* number of its first image in the whole batch or, at evaluation, in the data */
    size_t whole;  /* training: number of images of the whole batch; 0: the pass has all of them.
                      The groups of choice routers must lie within the images of a pass */
    /* [images] number of tokens of each, at least 1. The rows after them are padding: finite
     * numbers that no token attends to. Attention and pooling ignore padding; MoE layers route it
     * like tokens. NULL: no padding. */
    const size_t *lengths;
    /* Evaluation, with dense routing: [images] a slot of each in the MoE layer of that block, whose
     * output counts as zero; SIZE_MAX: none of them. NULL: no such layer. */
    const size_t *without;
    size_t without_block;
    bool summed; /* the routers' `sums` are those of the whole batch already */
    /* Training for classes: the targets of the task, [images, classes], from which routers may
     * learn too. NULL: there are none. */
    const real *targets;
    size_t classes;
    smoe_clock *clock; /* NULL: no measurement */
} smoe_pass;

static inline size_t smoe_pass_whole(const smoe_pass *pass) {
    return pass->whole ? pass->whole : pass->images;
}

/* The number of tokens of an image, of T, that are not padding. */
static inline size_t smoe_pass_length(const smoe_pass *pass, size_t image, size_t T) {
    return pass->lengths ? pass->lengths[image] : T;
}

typedef struct smoe_router smoe_router;

/* The cost of routing an image. Choice routers gather and scatter tokens, without products. */
typedef struct smoe_router_cost {
    double logits;         /* multiply-adds forward, for logits from tokens and parameters */
    double mixing;         /* multiply-adds forward of dispatch, and of combine */
    int dispatch, combine; /* how often a training step does each of these */
    double rows;           /* that the experts process */
    double used;           /* the number of these rows that can be filled */
    double elementwise;    /* FLOPs forward beside the products */
} smoe_router_cost;

typedef struct smoe_router_type {
    size_t size; /* of its struct, which starts with smoe_router */
    /* Registers parameters named r->prefix + ".x". */
    void (*init)(smoe_router *r);
    /* Names its buffers and reserves its plan for up to B images. */
    void (*reserve)(smoe_router *r, size_t B, bool train, smoe_arena *keep);
    smoe_router_cost (*cost)(const smoe_router *r);
    /* x [tokens,d] -> r->plan. */
    void (*forward)(smoe_router *r, const real *x, const smoe_pass *pass);
    /* From the gradients in r->plan and of the auxiliary loss: adds to dx [tokens,d] and to the
     * parameters' gradients. NULL: nothing to learn. */
    void (*backward)(smoe_router *r, real *dx, const real *x, const smoe_pass *pass);
    /* After an update: sets the router's state from the sums of `counts` over the batch. NULL: it
     * has none. */
    void (*settle)(smoe_router *r, const double *counts, const smoe_pass *pass);
} smoe_router_type;

struct smoe_router {
    const smoe_router_type *type;
    const smoe_moe_spec *spec;
    smoe_params *params;
    size_t block, site;  /* see smoe_router_place */
    char prefix[56];     /* of its parameters' names */
    size_t image_tokens; /* tokens of an image */
    size_t d, E;
    size_t T, P, K; /* tokens of a full group; slots of an expert and group; choices of a token */
    smoe_plan plan;
    size_t state; /* row of its state, a parameter that `settle` sets; where `counted` is not 0: */
    size_t counted; /* elements of the state */
    double *counts; /* [counted] of the last training pass, numbers that add up exactly */
    /* [summed] the sums over tokens that a loss over the whole batch depends on. A training pass
     * over all of the batch fills them. If the passes are parts of it, the trainer adds up those of
     * all parts and runs the parts again, with pass->summed. */
    double *sums;
    size_t summed;
};

typedef struct smoe_router_place {
    size_t block;     /* the block of this router, as the spec counts them */
    size_t site;      /* number of this block among those of all towers: keys random streams */
    const char *name; /* "blocks.3.mlp.router", of its parameters */
} smoe_router_place;

/* Creates the router with the name spec->router, of a resolved spec; it is freed by free(3). */
smoe_router *smoe_router_create(const smoe_moe_spec *spec, smoe_params *params,
                                const smoe_router_place *place, size_t image_tokens, size_t d);

/* Registers a state of n elements, or with n = 0 of a number without an axis, that start at
 * `value`; its name is PREFIX.NAME. */
void smoe_router_add_state(smoe_router *r, size_t n, double value, const char *name);

/* The cost of a dense plan without the logits, which a router adds: each learnt side has a softmax
 * and a product whose weights have a gradient. */
smoe_router_cost smoe_router_dense_cost(const smoe_router *r);

/* out [n] = in (NULL: 0) + std * standard normal numbers of the stream; out may be in. */
void smoe_router_noise(real *out, const real *in, size_t n, double std, smoe_rng *rng);
