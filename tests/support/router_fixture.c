/* See router_fixture.h. */
#include "router_fixture.h"
#include "gradcheck.h"
#include "models.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void router_fixture_reserve(router_fixture *r) {
    smoe_err err;
    smoe_arena_free(&r->keep);
    r->router->type->reserve(r->router, r->B, true, &r->keep);
    if (smoe_arena_bind(&r->keep, &err)) fail_msg("%s", err.text);
    r->router->type->reserve(r->router, r->B, true, &r->keep);
    memset(r->keep.base, 0xff, r->keep.size); /* NaN as real, huge as counts */
}

bool router_fixture_make(router_fixture *r, const char *keys, size_t T, size_t B) {
    *r = (router_fixture){.B = B};
    if (!models_spec(&r->spec, keys)) return false;
    r->d = r->spec.model.width;
    const smoe_router_place place = {.block = 1, .site = 1, .name = "blocks.1.mlp.router"};
    r->router = smoe_router_create(&r->spec.model.moe, &r->params, &place, T, r->d);
    r->plan = &r->router->plan;
    gradcheck_scatter(&r->params, 21, 0.5, 0);
    router_fixture_reserve(r);
    r->x = calloc(B * T * r->d, sizeof *r->x);
    assert_non_null(r->x);
    gradcheck_normal(r->x, B * T * r->d, 31);
    r->pass = (smoe_pass){.seed = 8, .step = 4};
    return true;
}

void router_fixture_free(router_fixture *r) {
    free(r->router);
    smoe_params_free(&r->params);
    smoe_arena_free(&r->keep);
    smoe_spec_free(&r->spec);
    free(r->x);
}

void router_fixture_pass(router_fixture *r, size_t images, bool train) {
    r->pass.images = images;
    r->pass.train = train;
    r->router->type->forward(r->router, r->x, &r->pass);
}

real *router_fixture_tensor(router_fixture *r, const char *name) {
    char full[80];
    snprintf(full, sizeof full, "blocks.1.mlp.router.%s", name);
    const smoe_param *p = smoe_params_find(&r->params, full);
    if (!p) fail_msg("no tensor %s", full);
    return r->params.w + p->offset;
}

static uint64_t mix(uint64_t mark, const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++) mark = (mark ^ at[i]) * 1099511628211u; /* FNV-1a */
    return mark;
}

uint64_t router_fixture_bits(const smoe_plan *plan) {
    uint64_t mark = gradcheck_plan_mark(1, plan);
    if (!plan->sparse) {
        size_t bytes = plan->tokens * plan->S * sizeof(real);
        return mix(mix(mark, plan->dense.disp, bytes), plan->dense.comb, bytes);
    }
    for (size_t b = 0; b < plan->G * plan->E; b++)
        mark = mix(mark, plan->list.slot_weight + b * plan->P,
                   (size_t)plan->list.used[b] * sizeof(real));
    mark = mix(mark, plan->list.first, (plan->tokens + 1) * sizeof *plan->list.first);
    mark = mix(mark, plan->list.slot, plan->list.placed * sizeof *plan->list.slot);
    return mix(mark, &plan->losses.aux, sizeof plan->losses.aux);
}

void router_fixture_logits(router_fixture *r, const char *keys, size_t T, size_t B, size_t E,
                           const double *x) {
    assert_true(router_fixture_make(r, keys, T, B));
    real *w = router_fixture_tensor(r, "weight");
    for (size_t i = 0; i < E * r->d; i++) w[i] = i / r->d == i % r->d;
    memset(r->x, 0, B * T * r->d * sizeof *r->x);
    for (size_t t = 0; t < B * T; t++)
        for (size_t e = 0; e < E; e++) r->x[t * r->d + e] = (real)x[t * E + e];
}

void router_fixture_buffer(const router_fixture *r, size_t e, const char *tokens) {
    assert_int_equal(r->plan->list.used[e], strlen(tokens));
    for (size_t p = 0; tokens[p]; p++)
        assert_int_equal(r->plan->list.slot_token[e * r->plan->P + p], tokens[p] - '0');
}
