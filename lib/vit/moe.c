/*
 * The MoE layer: a router fills the plan, the plan moves tokens to slots, experts compute, the plan
 * moves their outputs back; shared experts process every token. This file does not depend on the
 * type of a router.
 */
#include "math/rows.h"
#include "vit/expert_parallel.h"

/* Names are "blocks.3.mlp.experts" and so on. */
static void experts_init(smoe_mlp *mlp, const smoe_build *build, size_t block, const char *name,
                         smoe_mlp_form form) {
    char path[48];
    snprintf(path, sizeof path, "blocks.%zu.mlp.%s", block, name);
    form.path = path;
    form.dropout = build->model->moe.expert.dropout;
    form.site += smoe_build_site(build, block) + 1;
    smoe_mlp_init(mlp, build, &form);
}

static void group_init(smoe_moe *l, size_t block, const char *name, size_t first, size_t count,
                       size_t hidden) {
    smoe_expert_group *group = &l->experts[l->groups++];
    experts_init(&group->mlp, l->build, block, name,
                 (smoe_mlp_form){.experts = count, .hidden = hidden});
    group->begin = first;
    group->count = count;
}

void smoe_moe_init(smoe_moe *l, const smoe_build *build, size_t block) {
    const smoe_moe_spec *spec = &build->model->moe;
    size_t universal = spec->expert.universal, core = spec->experts - universal;
    char name[56];
    snprintf(name, sizeof name, "%sblocks.%zu.mlp.router", build->prefix, block);
    const smoe_router_place place = {.block = block, .site = build->site + block, .name = name};
    l->build = build;
    l->d = build->model->width;
    l->router = smoe_router_create(spec, build->params, &place, build->T, l->d);
    group_init(l, block, "experts", 0, core, smoe_moe_hidden(build->model));
    if (universal)
        group_init(l, block, "universal", core, universal, smoe_moe_universal(build->model));
    l->shares = spec->expert.shared > 0;
    if (l->shares) /* n experts that process every token are one MLP of n times the width */
        experts_init(&l->shared, build, block, "shared",
                     (smoe_mlp_form){.hidden = spec->expert.shared * smoe_moe_hidden(build->model),
                                     .abreast = spec->expert.shared,
                                     .site = SMOE_SHARED_SITE});
}

/* Where the scratch of the experts begins, at `first`: they need it only while the tokens are not
 * read. */
static void reserve_tokens(smoe_moe *l, size_t size, size_t first, const smoe_space *space) {
    size_t end = space->scratch->used;
    space->scratch->used = first;
    l->tokens = smoe_arena_take(space->scratch, size, sizeof(real));
    if (space->scratch->used < end) space->scratch->used = end;
}

void smoe_moe_reserve(smoe_moe *l, const smoe_space *space) {
    l->router->type->reserve(l->router, space->B, space->train, space->keep);
    size_t rows = l->router->plan.G * l->router->plan.S; /* at most */
    size_t R = space->B * l->router->image_tokens, size = R * l->d;
    smoe_arena *factors = space->scratch;
    size_t scratch = space->scratch->used;
    for (size_t k = 0; k < l->groups; k++) {
        smoe_expert_group *group = &l->experts[k];
        smoe_mlp_reserve(&group->mlp, rows / l->router->E * group->mlp.E,
                         l->exchange ? smoe_expert_parallel_processes(l) : 1, space);
        if (smoe_mlp_outer_arena(&group->mlp, space) == space->keep) factors = space->keep;
        if (k) group->first = smoe_arena_take(space->keep, group->count + 1, sizeof *group->first);
    }
    if (l->exchange) smoe_expert_parallel_reserve(l, rows, space);
    bool narrow = l->experts[0].mlp.narrow && !space->wide;
    l->again = narrow && space->train && !l->shares;
    if (l->again) reserve_tokens(l, size, scratch, space);
    l->rounded = NULL;
    if (l->router->plan.rounded && !narrow)
        l->rounded = smoe_arena_take(space->keep, size, sizeof(real));
    l->slots = smoe_moe_take_rows(l, space->keep, rows, space);
    l->out = smoe_moe_take_rows(l, space->keep, rows, space);
    l->places = NULL;
    if (space->train && l->experts[0].mlp.dropout > 0)
        l->places = smoe_arena_take(space->scratch, rows, sizeof *l->places);
    if (l->shares) smoe_mlp_reserve(&l->shared, R, 1, space);
    if (!space->train) return;
    l->dout = smoe_moe_take_rows(l, factors, rows, space);
    l->dslots = smoe_moe_take_rows(l, space->scratch, rows, space);
    if (l->shares) l->dshared = smoe_arena_take(space->scratch, size, sizeof(real));
}

static void group_cost(const smoe_moe *l, size_t k, const smoe_router_cost *x, smoe_costs *costs) {
    const smoe_router *r = l->router;
    const smoe_mlp *mlp = &l->experts[k].mlp;
    double share = (double)mlp->E / (double)r->E, rows = x->rows * share;
    smoe_cost_layer *layer =
        smoe_costs_add(costs, SMOE_PART_experts, smoe_mlp_macs(mlp, rows), 3, "%sblocks.%zu.mlp.%s",
                       l->build->prefix, r->block, k ? "universal" : "experts");
    layer->elementwise = smoe_mlp_elementwise(mlp, rows);
    double idle = (x->rows - x->used) * share;
    layer->idle_infer = 2 * smoe_mlp_macs(mlp, idle);
    layer->idle_train = 3 * layer->idle_infer;
    layer->idle_elementwise = smoe_mlp_elementwise(mlp, idle);
    layer->copies = (double)mlp->E;
    layer->used = fmin(x->used * share / (double)r->image_tokens, layer->copies);
}

void smoe_moe_cost(const smoe_moe *l, smoe_costs *costs) {
    const smoe_router *r = l->router;
    const char *prefix = l->build->prefix;
    const smoe_router_cost x = r->type->cost(r);
    smoe_cost_layer *layer = smoe_costs_add(costs, SMOE_PART_router, x.logits, 3,
                                            "%sblocks.%zu.mlp.router", prefix, r->block);
    layer->elementwise = x.elementwise;
    smoe_costs_add(costs, SMOE_PART_dispatch, x.mixing, x.dispatch, "%sblocks.%zu.mlp.dispatch",
                   prefix, r->block);
    for (size_t k = 0; k < l->groups; k++) group_cost(l, k, &x, costs);
    smoe_costs_add(costs, SMOE_PART_combine, x.mixing, x.combine, "%sblocks.%zu.mlp.combine",
                   prefix, r->block);
    if (!l->shares) return;
    double T = (double)r->image_tokens;
    layer = smoe_costs_add(costs, SMOE_PART_mlp, smoe_mlp_macs(&l->shared, T), 3,
                           "%sblocks.%zu.mlp.shared", prefix, r->block);
    layer->elementwise = smoe_mlp_elementwise(&l->shared, T);
}

/* Where the rows of each group begin. */
static void find_rows(smoe_moe *l) {
    size_t *all = l->router->plan.first_row;
    l->experts[0].first = all;
    for (size_t k = 1; k < l->groups; k++) {
        const smoe_expert_group *group = &l->experts[k];
        const size_t *from = all + group->begin;
        for (size_t e = 0; e <= group->count; e++) group->first[e] = from[e] - from[0];
    }
}

/* What keys the dropout of the experts' rows. */
static void find_places(smoe_moe *l, const smoe_pass *pass) {
    const smoe_plan *plan = &l->router->plan;
    for (size_t k = 0; k < l->groups && l->places && pass->train; k++)
        smoe_dropout_find(l->places + plan->first_row[l->experts[k].begin], plan,
                          l->experts[k].begin, l->experts[k].count, pass);
}

/* The rows of group k in a call, and in a buffer. */
static smoe_mlp_rows group_call(const smoe_moe *l, size_t k) {
    size_t row = l->router->plan.first_row[l->experts[k].begin];
    return (smoe_mlp_rows){.first = l->experts[k].first,
                           .places = l->places ? l->places + row : NULL};
}

static smoe_outputs group_rows(const smoe_moe *l, size_t k, void *buffer) {
    return smoe_moe_rows(l, buffer, l->router->plan.first_row[l->experts[k].begin]);
}

/* Passes in which the experts' rows are in BF16 round the dispatched and combined vectors
 * anyway. */
static const real *tokens_mixed(const smoe_moe *l, const real *x) {
    return l->rounded && !smoe_moe_narrow(l) ? l->rounded : x;
}

/* The outputs of the slots that the pass leaves out become zero; each image is a group. */
static void slots_leave_out(smoe_moe *l, const smoe_pass *pass) {
    for (size_t b = 0; b < pass->images; b++) {
        size_t slot = pass->without[b];
        if (slot == SIZE_MAX) continue;
        smoe_outputs out = smoe_moe_rows(l, l->out, slot * pass->images + b);
        if (out.at) memset(out.at, 0, l->d * sizeof *out.at);
        if (out.bf16) memset(out.bf16, 0, l->d * sizeof *out.bf16);
    }
}

/* l->out from l->slots. */
static void experts_forward(smoe_moe *l, const smoe_pass *pass) {
    for (size_t k = 0; k < l->groups; k++) {
        const smoe_mlp_rows rows = group_call(l, k);
        smoe_mlp_forward(&l->experts[k].mlp, group_rows(l, k, l->out),
                         smoe_written(group_rows(l, k, l->slots)), NULL, &rows, pass);
    }
}

/* l->dslots from l->dout. */
static void experts_backward(smoe_moe *l, const smoe_pass *pass) {
    for (size_t k = 0; k < l->groups; k++) {
        const smoe_mlp_rows rows = group_call(l, k);
        smoe_mlp_backward(&l->experts[k].mlp, group_rows(l, k, l->dslots),
                          smoe_written(group_rows(l, k, l->dout)),
                          smoe_written(group_rows(l, k, l->slots)), &rows, pass);
    }
}

void smoe_moe_forward(smoe_moe *l, real *y, const real *x, const real *residual,
                      const smoe_pass *pass) {
    smoe_plan *plan = &l->router->plan;
    plan->precision = l->build->precision;
    l->router->type->forward(l->router, x, pass);
    smoe_clock_lap(pass->clock, SMOE_PART_router);
    const real *tokens = tokens_mixed(l, x);
    smoe_outputs slots = smoe_moe_rows(l, l->slots, 0), out = smoe_moe_rows(l, l->out, 0);
    if (plan->rounded) smoe_plan_round(plan);
    if (tokens != x) smoe_rows_round(l->rounded, x, plan->tokens * l->d);
    smoe_plan_dispatch(plan, slots, tokens, l->d);
    smoe_clock_lap(pass->clock, SMOE_PART_dispatch);
    find_rows(l);
    find_places(l, pass);
    l->exchange ? smoe_expert_parallel_forward(l, pass) : experts_forward(l, pass);
    smoe_clock_lap(pass->clock, SMOE_PART_experts);
    if (pass->without && pass->without_block == l->router->block) slots_leave_out(l, pass);
    if (tokens != x) smoe_rows_round(out.at, out.at, plan->rows * l->d);
    smoe_plan_combine(plan, y, smoe_written(out), residual, l->d);
    smoe_clock_lap(pass->clock, SMOE_PART_combine);
    if (!l->shares) return;
    const smoe_mlp_rows rows = {.first = (const size_t[]){0, plan->tokens}};
    smoe_mlp_forward(&l->shared, smoe_reals_out(y), smoe_reals(x), y, &rows, pass);
    smoe_clock_lap(pass->clock, SMOE_PART_mlp);
}

static void shared_backward(smoe_moe *l, real *dx, const real *dy, const real *x,
                            const smoe_pass *pass) {
    size_t tokens = l->router->plan.tokens;
    const smoe_mlp_rows rows = {.first = (const size_t[]){0, tokens}};
    smoe_mlp_backward(&l->shared, smoe_reals_out(l->dshared), smoe_reals(dy), smoe_reals(x), &rows,
                      pass);
    smoe_rows_add(dx, l->dshared, tokens * l->d);
    smoe_clock_lap(pass->clock, SMOE_PART_mlp);
}

/* The derivative of rounding is taken to be 1: backward uses the rounded operands, and gradients
 * pass through rounding unchanged. */
void smoe_moe_experts_backward(smoe_moe *l, const real *dy, const smoe_pass *pass) {
    smoe_plan *plan = &l->router->plan;
    smoe_plan_combine_backward(plan, smoe_moe_rows(l, l->dout, 0), dy,
                               smoe_written(smoe_moe_rows(l, l->out, 0)), l->d);
    smoe_clock_lap(pass->clock, SMOE_PART_combine);
    find_places(l, pass);
    l->exchange ? smoe_expert_parallel_backward(l, pass) : experts_backward(l, pass);
    smoe_clock_lap(pass->clock, SMOE_PART_experts);
}

void smoe_moe_tokens_backward(smoe_moe *l, real *dx, const real *dy, const real *x,
                              const smoe_pass *pass) {
    smoe_plan *plan = &l->router->plan;
    smoe_plan_dispatch_backward(plan, dx, smoe_written(smoe_moe_rows(l, l->dslots, 0)),
                                tokens_mixed(l, x), l->d);
    smoe_clock_lap(pass->clock, SMOE_PART_dispatch);
    if (l->router->type->backward) l->router->type->backward(l->router, dx, x, pass);
    smoe_clock_lap(pass->clock, SMOE_PART_router);
    if (l->shares) shared_backward(l, dx, dy, x, pass);
}

void smoe_moe_free(smoe_moe *l) {
    free(l->router);
    free(l->exchange);
}
