/*
 * Routers with nothing to learn (Soft MoE 3.5.2, appendix A).
 *   uniform   D = 1/T, C = 1/S: every slot is the mean token, every token gets the mean slot.
 *   identity  token t goes to expert t mod E, slot floor(t/E), weight 1: no mixing. An expert
 *             has ceil(T/E) slots, regardless of the spec.
 */
#include "route/router.h"

static void init_uniform(smoe_router *r) {
    r->plan.dense.disp_constant = r->plan.dense.comb_constant = true;
}

static void reserve_uniform(smoe_router *r, size_t B, bool train, smoe_arena *keep) {
    (void)train; /* constant weights have no gradients */
    smoe_plan_reserve_dense(&r->plan, B, r->T, r->E, r->P, false, keep);
}

static void forward_uniform(smoe_router *r, const real *x, const smoe_pass *pass) {
    (void)x;
    smoe_plan *plan = &r->plan;
    smoe_plan_begin(plan, pass->images * r->T);
    size_t n = plan->tokens * plan->S;
    SMOE_SHARED(routing, n)
    for (size_t i = 0; i < n; i++) {
        plan->dense.disp[i] = 1 / (real)plan->T;
        plan->dense.comb[i] = 1 / (real)plan->S;
    }
}

static void forward_identity(smoe_router *r, const real *x, const smoe_pass *pass) {
    (void)x;
    smoe_router_deal(r, NULL, pass);
}

const smoe_router_type smoe_router_uniform = {
    .size = sizeof(smoe_router),
    .init = init_uniform,
    .reserve = reserve_uniform,
    .cost = smoe_router_dense_cost,
    .forward = forward_uniform,
};
const smoe_router_type smoe_router_identity = {
    .size = sizeof(smoe_router),
    .init = smoe_router_dealt_init,
    .reserve = smoe_router_dealt_reserve,
    .cost = smoe_router_dealt_cost,
    .forward = forward_identity,
};
