/*
 * ReMoE (arXiv 2412.14711): a token goes to each expert whose gate is open, g = ReLU(W x) > 0, with
 * weight g. Buffers hold all tokens. How many gates are open is kept at K of E by
 *   L1   sum over experts of f_e g_te, the mean over the tokens of the batch, times lambda; f_e =
 *        E/(K T) times the tokens of the image that e has, a constant (balance: none: f_e = 1)
 *   lambda, a state, is multiplied after each step by l1_factor where more than K/E of the gates of
 *        the batch were open, and divided by it where fewer; between 1e-12 and 1e12
 */
#include "base/team.h"
#include "route/gate.h"

typedef struct remoe_router {
    smoe_gate gate;
    double *load; /* [B,E] f of each image */
    double *sums; /* [B] of f g of each image */
} remoe_router;

static void remoe_init(smoe_router *r) {
    remoe_router *self = (remoe_router *)r;
    smoe_gate_init(&self->gate);
    self->gate.form = SMOE_GATE_RELU;
    smoe_router_add_state(r, 0, r->spec->choice.l1_init, "l1");
}

static void remoe_reserve(smoe_router *r, size_t B, bool train, smoe_arena *keep) {
    remoe_router *self = (remoe_router *)r;
    smoe_gate_reserve(&self->gate, B, train, false, keep);
    smoe_plan_reserve(&r->plan, true, B, train, keep);
    self->load = smoe_arena_take(keep, B * r->E, sizeof *self->load);
    self->sums = smoe_arena_take(keep, B, sizeof *self->sums);
    r->counts = smoe_arena_take(keep, r->counted, sizeof *r->counts);
}

static double target(const smoe_router *r) {
    return (double)smoe_moe_k(r->spec, r->block);
}

/* Once the gates are as sparse as they should be; at first about half of them are open. */
static smoe_router_cost remoe_cost(const smoe_router *r) {
    double m = (double)r->image_tokens, rows = m * target(r);
    return (smoe_router_cost){
        .logits = m * (double)r->d * (double)r->E, .rows = rows, .used = rows};
}

/* The placements of image b, and its sum of f g. */
static double remoe_place(remoe_router *self, size_t b) {
    smoe_router *r = &self->gate.base;
    smoe_plan *plan = &r->plan;
    size_t E = r->E, T = r->T;
    double sum = 0;
    for (size_t e = 0; e < E; e++) {
        size_t buffer = b * E + e, used = 0;
        double open = 0;
        for (size_t t = b * T; t < (b + 1) * T; t++) {
            real g = self->gate.g[t * E + e];
            if (!(g > 0)) continue;
            plan->list.slot_token[buffer * r->P + used] = (int32_t)t;
            plan->list.slot_weight[buffer * r->P + used++] = g;
            open += (double)g;
        }
        plan->list.used[buffer] = (int32_t)used;
        double *f = &self->load[buffer];
        *f = 1;
        if (r->spec->balance.way == SMOE_BALANCE_LOSS)
            *f = (double)E * (double)used / (target(r) * (double)T);
        sum += *f * open;
    }
    return sum;
}

static double lambda(const smoe_router *r) {
    return (double)*smoe_weight(r->params, r->state);
}

static void remoe_forward(smoe_router *r, const real *x, const smoe_pass *pass) {
    remoe_router *self = (remoe_router *)r;
    smoe_plan *plan = &r->plan;
    smoe_plan_begin(plan, pass->images * r->T);
    smoe_gate_forward(&self->gate, x, 0, pass);
    double sum = 0;
    SMOE_SHARED(routing, plan->tokens * r->E)
    for (size_t b = 0; b < plan->G; b++) self->sums[b] = remoe_place(self, b);
    for (size_t b = 0; b < plan->G; b++) sum += self->sums[b];
    for (size_t buffer = 0; buffer < plan->G * r->E; buffer++)
        plan->choices.chosen[buffer % r->E] += (size_t)plan->list.used[buffer];
    smoe_plan_seal(plan);
    r->counts[0] = (double)plan->list.placed;
    if (!pass->train) return;
    plan->losses.aux = sum / smoe_gate_batch((const smoe_gate *)r, pass);
    plan->losses.weighted = lambda(r) * plan->losses.aux;
}

static void remoe_backward(smoe_router *r, real *dx, const real *x, const smoe_pass *pass) {
    remoe_router *self = (remoe_router *)r;
    size_t R = r->plan.tokens, E = r->E;
    double scale = pass->train ? lambda(r) / smoe_gate_batch((const smoe_gate *)r, pass) : 0;
    SMOE_SHARED(routing, R * E)
    for (size_t t = 0; t < R; t++)
        for (size_t e = 0; e < E; e++) {
            bool open = self->gate.g[t * E + e] > 0;
            self->gate.dz[t * E + e] = open ? (real)(scale * self->load[t / r->T * E + e]) : 0;
        }
    smoe_gate_backward(&self->gate, dx, x, pass);
}

/* If the gates never become that sparse, lambda would grow to infinity, so it is limited. */
static void remoe_settle(smoe_router *r, const double *open, const smoe_pass *pass) {
    const double least = 1e-12, most = 1e12;
    real *weight = r->params->w + r->params->param[r->state].offset;
    double above = *open - target(r) * smoe_gate_batch((const smoe_gate *)r, pass),
           next = (double)*weight;
    if (above > 0) next *= r->spec->choice.l1_factor;
    if (above < 0) next /= r->spec->choice.l1_factor;
    *weight = (real)fmin(fmax(next, least), most);
}

const smoe_router_type smoe_router_remoe = {
    .size = sizeof(remoe_router),
    .init = remoe_init,
    .reserve = remoe_reserve,
    .cost = remoe_cost,
    .forward = remoe_forward,
    .backward = remoe_backward,
    .settle = remoe_settle,
};
