/*
 * Routers with nothing to learn.
 *   uniform   D = 1/T, C = 1/S: every slot is the mean token, every token gets the mean slot (Soft
 *             MoE 3.5.2).
 *   identity  token t goes to expert t mod E, slot floor(t/E), weight 1: no mixing (Soft MoE,
 *             appendix A). An expert has ceil(T/E) slots, regardless of the spec.
 *   hash      the same of token order[t]: the expert of a token follows only from its position in
 *             the image. Each block has a random permutation of the positions, so loads differ by
 *             one token at most (Roller et al., Hash Layers: they hash words; images have positions
 *             instead). It depends only on the block, so a model need not store it.
 */
#include "route/router.h"

static void init_uniform(smoe_router *r) {
    r->plan.dense.disp_constant = r->plan.dense.comb_constant = true;
}

static void reserve_uniform(smoe_router *r, size_t B, bool train, smoe_arena *keep) {
    (void)train; /* constant weights have no gradients */
    smoe_plan_reserve(&r->plan, false, B, false, keep);
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

const smoe_router_type smoe_router_uniform = {
    .size = sizeof(smoe_router),
    .init = init_uniform,
    .reserve = reserve_uniform,
    .cost = smoe_router_dense_cost,
    .forward = forward_uniform,
};

/* ---- tokens that are dealt to the experts in turn -------------------------------------------- */

typedef struct dealing_router {
    smoe_router base;
    uint32_t *order; /* [T] number i goes to expert i mod E; NULL: as the tokens come */
} dealing_router;

static void init_dealing(smoe_router *r) {
    r->plan.list.weight_constant = true;
}

extern const smoe_router_type smoe_router_hash;

static void reserve_dealing(smoe_router *r, size_t B, bool train, smoe_arena *keep) {
    dealing_router *self = (dealing_router *)r;
    smoe_plan_reserve(&r->plan, true, B, train, keep);
    if (r->type == &smoe_router_hash)
        self->order = smoe_arena_take(keep, r->T, sizeof *self->order);
}

/* Each token has a row. */
static smoe_router_cost cost_dealing(const smoe_router *r) {
    double m = (double)r->image_tokens;
    return (smoe_router_cost){.rows = m, .used = m};
}

static void forward_dealing(smoe_router *r, const real *x, const smoe_pass *pass) {
    (void)x;
    uint32_t *order = ((dealing_router *)r)->order;
    smoe_rng rng = smoe_rng_at(0, SMOE_RNG_HASH, (uint32_t)r->site, 0, 0);
    if (order) smoe_rng_permutation(&rng, order, r->T);
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

#define DEALING                                                                           \
    {                                                                                     \
        .size = sizeof(dealing_router), .init = init_dealing, .reserve = reserve_dealing, \
        .cost = cost_dealing, .forward = forward_dealing                                  \
    }
const smoe_router_type smoe_router_identity = DEALING, smoe_router_hash = DEALING;
