/* A single router with its own tokens: for tests of its decisions. Must not be copied, since the
 * router points into it. Every failure fails the calling test. */
#pragma once

#include "route/router.h"

typedef struct router_fixture {
    smoe_spec spec;
    smoe_params params;
    smoe_router *router;
    smoe_plan *plan; /* the router's */
    smoe_arena keep;
    size_t B, d;
    real *x; /* [B*T,d] normal numbers, T per image */
    smoe_pass pass;
} router_fixture;

/* models_base with `keys` (see models.h), T tokens per image, B images, reserved for training
 * and evaluation; weights scattered. False if the spec is refused. */
bool router_fixture_make(router_fixture *r, const char *keys, size_t T, size_t B) SMOE_MUST_CHECK;
void router_fixture_free(router_fixture *r);

/* The same with E experts whose logits are x [B*T,E]: the weight is the identity. */
void router_fixture_logits(router_fixture *r, const char *keys, size_t T, size_t B, size_t E,
                           const double *x);

/* Asserts the tokens in the buffer of expert e, in order: "013". */
void router_fixture_buffer(const router_fixture *r, size_t e, const char *tokens);

/* Binds the buffers again, for the current number of threads, filled with garbage. */
void router_fixture_reserve(router_fixture *r);

/* A forward pass over the first `images` images. */
void router_fixture_pass(router_fixture *r, size_t images, bool train);

/* The tensor `name` of the router, as blocks.1.mlp.router.NAME. */
real *router_fixture_tensor(router_fixture *r, const char *name);

/* A hash of everything in a plan: any changed bit changes it. */
uint64_t router_fixture_bits(const smoe_plan *plan);
