/*
 * The MoE layer: a router decides, the plan moves tokens to slots, experts work, the plan moves
 * their outputs back. Knows no router by type.
 */
#include "math/rows.h"
#include "vit/layer.h"

#include <math.h>
#include <stdio.h>

int smoe_moe_init(smoe_moe *l, const smoe_build *build, size_t block, smoe_err *err) {
    const smoe_model_spec *spec = build->model;
    l->d = spec->width;
    l->router = smoe_router_create(&spec->moe, build->params, block, build->T, l->d, err);
    if (!l->router) return smoe_fail_prefix(err, "block %zu", block);
    char path[32];
    snprintf(path, sizeof path, "blocks.%zu.mlp", block);
    smoe_mlp_init(&l->experts, build, spec->moe.experts, path, 2 * (uint32_t)block + 1);
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
    const smoe_router_cost x = r->type->cost(r, costs->options);
    smoe_cost_layer *row =
        smoe_costs_add(costs, SMOE_PART_router, x.logits, 3, "blocks.%zu.mlp.router", r->block);
    row->elementwise = x.elementwise;
    smoe_costs_add(costs, SMOE_PART_dispatch, x.mixing, x.dispatch, "blocks.%zu.mlp.dispatch",
                   r->block);
    row = smoe_costs_add(costs, SMOE_PART_experts, smoe_mlp_macs(&l->experts, x.rows), 3,
                         "blocks.%zu.mlp.experts", r->block);
    row->elementwise = smoe_mlp_elementwise(&l->experts, x.rows);
    row->copies = (double)r->E;
    row->used = fmin(x.used / (double)r->image_tokens, row->copies);
    smoe_costs_add(costs, SMOE_PART_combine, x.mixing, x.combine, "blocks.%zu.mlp.combine",
                   r->block);
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

/* Rounding has slope 1: the products take what they took, and what comes of them goes on as it
 * is. */
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
