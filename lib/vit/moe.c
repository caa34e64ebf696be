/*
 * The MoE layer: a router fills the plan, the plan moves tokens to slots, experts compute, the plan
 * moves their outputs back. This file does not depend on the type of a router.
 */
#include "math/rows.h"
#include "vit/layer.h"

#include <math.h>
#include <stdio.h>

int smoe_moe_init(smoe_moe *l, const smoe_build *build, size_t block, smoe_err *err) {
    const smoe_model_spec *spec = build->model;
    char name[56];
    snprintf(name, sizeof name, "%sblocks.%zu.mlp.router", build->prefix, block);
    const smoe_router_place place = {.block = block, .site = build->site + block, .name = name};
    l->build = build;
    l->d = spec->width;
    l->router = smoe_router_create(&spec->moe, build->params, &place, build->T, l->d, err);
    if (!l->router) return smoe_fail_prefix(err, "block %zu", block);
    char path[32];
    snprintf(path, sizeof path, "blocks.%zu.mlp", block);
    smoe_mlp_init(&l->experts, build, spec->moe.experts, path, smoe_build_site(build, block) + 1);
    l->experts.plan = &l->router->plan;
    return 0;
}

void smoe_moe_reserve(smoe_moe *l, const smoe_space *space) {
    l->router->type->reserve(l->router, space->B, space->train, space->keep);
    size_t rows = smoe_plan_most_rows(&l->router->plan);
    size_t size = space->B * l->router->image_tokens * l->d;
    l->rounded = NULL;
    if (l->router->plan.rounded) l->rounded = smoe_arena_take(space->keep, size, sizeof(real));
    l->slots = smoe_arena_take(space->keep, rows * l->d, sizeof(real));
    l->out = smoe_arena_take(space->keep, rows * l->d, sizeof(real));
    smoe_mlp_reserve(&l->experts, rows, space);
    if (!space->train) return;
    l->dout = smoe_arena_take(smoe_mlp_outer_arena(&l->experts, space), rows * l->d, sizeof(real));
    l->dslots = smoe_arena_take(space->scratch, rows * l->d, sizeof(real));
}

void smoe_moe_cost(const smoe_moe *l, smoe_costs *costs) {
    const smoe_router *r = l->router;
    const char *prefix = l->build->prefix;
    const smoe_router_cost x = r->type->cost(r, costs->options);
    smoe_cost_layer *layer = smoe_costs_add(costs, SMOE_PART_router, x.logits, 3,
                                            "%sblocks.%zu.mlp.router", prefix, r->block);
    layer->elementwise = x.elementwise;
    smoe_costs_add(costs, SMOE_PART_dispatch, x.mixing, x.dispatch, "%sblocks.%zu.mlp.dispatch",
                   prefix, r->block);
    layer = smoe_costs_add(costs, SMOE_PART_experts, smoe_mlp_macs(&l->experts, x.rows), 3,
                           "%sblocks.%zu.mlp.experts", prefix, r->block);
    layer->elementwise = smoe_mlp_elementwise(&l->experts, x.rows);
    layer->copies = (double)r->E;
    layer->used = fmin(x.used / (double)r->image_tokens, layer->copies);
    smoe_costs_add(costs, SMOE_PART_combine, x.mixing, x.combine, "%sblocks.%zu.mlp.combine",
                   prefix, r->block);
}

void smoe_moe_forward(smoe_moe *l, real *y, const real *x, const real *residual,
                      const smoe_pass *pass) {
    smoe_plan *plan = &l->router->plan;
    plan->precision = *l->experts.precision;
    l->router->type->forward(l->router, x, pass);
    smoe_clock_lap(pass->clock, SMOE_PART_router);
    if (l->rounded) {
        smoe_plan_round(plan);
        smoe_rows_round(l->rounded, x, plan->tokens * l->d);
    }
    smoe_plan_dispatch(plan, l->slots, l->rounded ? l->rounded : x, l->d);
    smoe_clock_lap(pass->clock, SMOE_PART_dispatch);
    smoe_mlp_forward(&l->experts, l->out, l->slots, NULL, plan->first_row, pass);
    smoe_clock_lap(pass->clock, SMOE_PART_experts);
    if (l->rounded) smoe_rows_round(l->out, l->out, plan->rows * l->d);
    smoe_plan_combine(plan, y, l->out, residual, l->d);
    smoe_clock_lap(pass->clock, SMOE_PART_combine);
}

/* The derivative of rounding is taken to be 1: backward uses the rounded operands, and gradients
 * pass through rounding unchanged. */
void smoe_moe_backward(smoe_moe *l, real *dx, const real *dy, const real *x,
                       const smoe_pass *pass) {
    smoe_plan *plan = &l->router->plan;
    smoe_plan_combine_backward(plan, l->dout, dy, l->out, l->d);
    smoe_clock_lap(pass->clock, SMOE_PART_combine);
    smoe_mlp_backward(&l->experts, l->dslots, l->dout, l->slots, plan->first_row, pass);
    smoe_clock_lap(pass->clock, SMOE_PART_experts);
    smoe_plan_dispatch_backward(plan, dx, l->dslots, l->rounded ? l->rounded : x, l->d);
    smoe_clock_lap(pass->clock, SMOE_PART_dispatch);
    if (l->router->type->backward) l->router->type->backward(l->router, dx, x, pass);
    smoe_clock_lap(pass->clock, SMOE_PART_router);
}

void smoe_moe_free(smoe_moe *l) {
    smoe_router_free(l->router);
}
