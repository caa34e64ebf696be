/*
 * Images Choice: one choice for a whole image (Mobile V-MoEs, arXiv 2309.04354). The gate sees the
 * mean of the image's tokens, and all of them go to the experts it chooses. Everything else is
 * Tokens Choice with images instead of tokens: a buffer holds round(K images C / E) whole images.
 *   balance superclass   in place of the loss of balance, the gate learns to choose the expert that
 *                        is the super-class of the image: mean over the images of the batch of
 *                        -sum_e q_e log p_e, where q_e is the sum of the targets of the classes in
 *                        super-class e, p = softmax(W x), or sigmoids divided by their sum
 */
#include "base/team.h"
#include "route/tokens.h"

typedef struct smoe_images {
    smoe_tokens tokens;
    double *log_p, *q; /* [images,E]; NULL: no super-classes */
    double *losses;    /* [images] */
} smoe_images;

static void images_init(smoe_router *r) {
    ((smoe_tokens *)r)->gate.unit = r->image_tokens;
    smoe_tokens_init(r);
}

static void images_reserve(smoe_router *r, size_t B, bool train, smoe_arena *keep) {
    smoe_images *self = (smoe_images *)r;
    bool learns = train && r->spec->balance.way == SMOE_BALANCE_SUPERCLASS;
    smoe_tokens_reserve(r, B, train, keep);
    self->log_p = learns ? smoe_arena_take(keep, B * r->E, sizeof *self->log_p) : NULL;
    self->q = learns ? smoe_arena_take(keep, B * r->E, sizeof *self->q) : NULL;
    self->losses = learns ? smoe_arena_take(keep, B, sizeof *self->losses) : NULL;
}

/* The gate has one row per image. */
static smoe_router_cost images_cost(const smoe_router *r) {
    smoe_router_cost x = smoe_tokens_cost(r);
    x.logits /= (double)r->image_tokens;
    return x;
}

static bool learns_superclasses(const smoe_router *r, const smoe_pass *pass) {
    return pass->train && pass->targets && r->spec->balance.way == SMOE_BALANCE_SUPERCLASS;
}

/* log p [E] of logits without noise: the log-softmax of z, or of log sigmoid(z). */
static void log_shares(double *log_p, const real *z, size_t E, smoe_gate_form form) {
    double most = -INFINITY, sum = 0;
    for (size_t e = 0; e < E; e++) {
        double x = (double)z[e];
        log_p[e] = form == SMOE_GATE_SIGMOID ? fmin(x, 0) - log1p(exp(-fabs(x))) : x;
        most = fmax(most, log_p[e]);
    }
    for (size_t e = 0; e < E; e++) sum += exp(log_p[e] - most);
    for (size_t e = 0; e < E; e++) log_p[e] -= most + log(sum);
}

static void sum_targets(double *q, const smoe_moe_spec *spec, const real *target, size_t N) {
    memset(q, 0, spec->experts * sizeof *q);
    for (size_t c = 0; c < N; c++) q[smoe_moe_superclass(spec, c, N)] += (double)target[c];
}

static void images_forward(smoe_router *r, const real *x, const smoe_pass *pass) {
    smoe_images *self = (smoe_images *)r;
    const smoe_gate *gate = &self->tokens.gate;
    size_t E = r->E, N = pass->classes;
    double sum = 0;
    smoe_tokens_forward(r, x, pass);
    if (!learns_superclasses(r, pass)) return;
    SMOE_SHARED(routing, pass->images * (E + N))
    for (size_t b = 0; b < pass->images; b++) {
        double *log_p = self->log_p + b * E, *q = self->q + b * E, loss = 0;
        log_shares(log_p, gate->z + b * E, E, gate->form);
        sum_targets(q, r->spec, pass->targets + b * N, N);
        for (size_t e = 0; e < E; e++)
            if (q[e] > 0) loss -= q[e] * log_p[e];
        self->losses[b] = loss;
    }
    for (size_t b = 0; b < pass->images; b++) sum += self->losses[b];
    r->plan.losses.aux = sum / (double)smoe_pass_whole(pass);
    r->plan.losses.weighted += r->spec->balance.aux_weight * r->plan.losses.aux;
}

/* dz_e = sum(q) p_e - q_e; of sigmoids divided by their sum, that times 1 - sigmoid(z_e). */
static void superclass_backward(smoe_images *self, const smoe_pass *pass) {
    smoe_gate *gate = &self->tokens.gate;
    const smoe_router *r = &gate->base;
    size_t E = r->E;
    double scale = r->spec->balance.aux_weight / (double)smoe_pass_whole(pass);
    SMOE_SHARED(routing, pass->images * E)
    for (size_t b = 0; b < pass->images; b++) {
        const double *log_p = self->log_p + b * E, *q = self->q + b * E;
        double mass = 0;
        for (size_t e = 0; e < E; e++) mass += q[e];
        for (size_t e = 0; e < E; e++) {
            double slope = scale * (mass * exp(log_p[e]) - q[e]);
            if (gate->form == SMOE_GATE_SIGMOID) slope *= smoe_sigmoid(-(double)gate->z[b * E + e]);
            gate->dz[b * E + e] += (real)slope;
        }
    }
}

static void images_backward(smoe_router *r, real *dx, const real *x, const smoe_pass *pass) {
    smoe_images *self = (smoe_images *)r;
    smoe_tokens_balance_backward(r, pass);
    if (learns_superclasses(r, pass)) superclass_backward(self, pass);
    smoe_gate_backward(&self->tokens.gate, dx, x, pass);
}

const smoe_router_type smoe_router_images_choice = {
    .size = sizeof(smoe_images),
    .init = images_init,
    .reserve = images_reserve,
    .cost = images_cost,
    .forward = images_forward,
    .backward = images_backward,
    .settle = smoe_tokens_settle,
};
