/* What routers share; see router.h. */
#include "route/router.h"

void smoe_router_add_state(smoe_router *r, size_t n, double value, const char *name) {
    r->counted = n ? n : 1;
    r->state =
        smoe_params_add(r->params, smoe_param_constant(value), n > 0, &n, "%s.%s", r->prefix, name);
    r->params->param[r->state].state = r->params->param[r->state].frozen = true;
}

smoe_router_cost smoe_router_dense_cost(const smoe_router *r) {
    double m = (double)r->image_tokens, S = (double)(r->E * r->P);
    int learnt = !r->plan.dense.disp_constant + !r->plan.dense.comb_constant;
    return (smoe_router_cost){.mixing = m * S * (double)r->d,
                              .dispatch = r->plan.dense.disp_constant ? 2 : 3,
                              .combine = r->plan.dense.comb_constant ? 2 : 3,
                              .rows = S,
                              .used = S,
                              .elementwise = 8 * m * S * learnt};
}

void smoe_router_noise(real *out, const real *in, size_t n, double std, smoe_rng *rng) {
    enum { PIECE = 256 };
    double z[PIECE];
    for (size_t j = 0; j < n; j += PIECE) {
        size_t count = n - j < PIECE ? n - j : PIECE;
        smoe_rng_normals(rng, z, count);
        for (size_t i = 0; i < count; i++) out[j + i] = (in ? in[j + i] : 0) + (real)(std * z[i]);
    }
}

void smoe_router_dealt_init(smoe_router *r) {
    r->plan.list.weight_constant = true;
}

void smoe_router_dealt_reserve(smoe_router *r, size_t B, bool train, smoe_arena *keep) {
    smoe_plan_reserve_sparse(&r->plan, B, r->T, r->E, r->P, train, keep);
}

void smoe_router_deal(smoe_router *r, const uint32_t *order, const smoe_pass *pass) {
    smoe_plan *plan = &r->plan;
    smoe_plan_begin(plan, pass->images * r->T);
    for (size_t g = 0; g < plan->G; g++)
        for (size_t e = 0; e < r->E; e++) {
            size_t buffer = g * r->E + e;
            int32_t used = 0;
            for (size_t t = e; t < r->T; t += r->E, used++) {
                size_t token = g * r->T + (order ? order[t] : t);
                plan->list.slot_token[buffer * r->P + (size_t)used] = (int32_t)token;
                plan->list.slot_weight[buffer * r->P + (size_t)used] = 1;
            }
            plan->list.used[buffer] = used;
        }
    smoe_plan_seal(plan);
}

smoe_router_cost smoe_router_dealt_cost(const smoe_router *r) {
    double m = (double)r->image_tokens;
    return (smoe_router_cost){.rows = m, .used = m};
}
