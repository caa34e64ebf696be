/*
 * Soft MoE with two learnt temperatures (MoE Jetpack, arXiv 2406.04801): with c_ts the cosine of
 * token t and slot s,
 *   D = softmax over tokens of c/t_D,  C = softmax over slots of c/t_C, or 1.5-entmax (combine).
 * The tensors hold ln t_D and ln t_C, so that both stay above 0. What is mixed are the tokens
 * themselves, as in Soft MoE.
 */
#include "base/team.h"
#include "math/kernels.h"
#include "route/soft.h"

#include <math.h>

typedef struct temperatures_router {
    smoe_soft soft;
    size_t dispatch, combine; /* rows of the logarithms */
    double *sums;             /* [R,2] sums of dL c of a token, for dispatch and for combine */
} temperatures_router;

static void temperatures_init(smoe_router *r) {
    temperatures_router *self = (temperatures_router *)r;
    double start = log(r->spec->temperature_init);
    smoe_soft_init(&self->soft, true);
    self->dispatch = smoe_params_add(r->params, SMOE_PARAM_PLAIN, start, 0, 0, NULL,
                                     "%s.log_dispatch_temperature", r->prefix);
    self->combine = smoe_params_add(r->params, SMOE_PARAM_PLAIN, start, 0, 0, NULL,
                                    "%s.log_combine_temperature", r->prefix);
}

static void temperatures_reserve(smoe_router *r, size_t B, bool train, smoe_arena *keep) {
    temperatures_router *self = (temperatures_router *)r;
    smoe_soft_reserve(r, B, train, keep);
    if (train) self->sums = smoe_arena_take(keep, 2 * B * r->T, sizeof *self->sums);
}

/* 1/t */
static real factor(const smoe_router *r, size_t row) {
    return (real)exp(-(double)*smoe_weight(r->params, row));
}

/*
 * x [n] becomes its 1.5-entmax, p_i = max(x_i/2 - tau, 0)^2 with the tau for which they sum to 1
 * (B. Peters, V. Niculae, A. Martins, arXiv 1905.05702). The sum falls with tau and is convex, so
 * Newton's steps from the left, where the largest x alone gives 1 or more, rise to it and end.
 */
static void entmax(real *x, size_t n) {
    enum { STEPS = 100 }; /* at most; a few are enough */
    double top = -INFINITY;
    for (size_t i = 0; i < n; i++) top = fmax(top, (double)x[i] / 2);
    double tau = top - 1, before = -INFINITY;
    for (size_t step = 0; step < STEPS && tau > before; step++) {
        double sum = 0, slope = 0;
        for (size_t i = 0; i < n; i++) {
            double above = fmax((double)x[i] / 2 - tau, 0);
            sum += above * above;
            slope += 2 * above;
        }
        before = tau;
        tau += (sum - 1) / slope;
    }
    for (size_t i = 0; i < n; i++) {
        double above = fmax((double)x[i] / 2 - tau, 0);
        x[i] = (real)(above * above);
    }
}

/* With s = sqrt(p): dx = s (dp - q), q = sum s dp / sum s. dp [n] becomes dx. */
static void entmax_backward(real *dp, const real *p, size_t n) {
    double along = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        double s = sqrt((double)p[i]);
        along += s * (double)dp[i];
        sum += s;
    }
    for (size_t i = 0; i < n; i++)
        dp[i] = (real)(sqrt((double)p[i]) * ((double)dp[i] - along / sum));
}

static bool has_zeros(const smoe_router *r) {
    return r->spec->combine == SMOE_COMBINE_ENTMAX;
}

static void temperatures_forward(smoe_router *r, const real *x, const smoe_pass *pass) {
    temperatures_router *self = (temperatures_router *)r;
    smoe_soft *soft = &self->soft;
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    smoe_soft_cosines(soft, x, pass);
    const smoe_plan *plan = &r->plan;
    size_t T = plan->T, S = plan->S;
    real to_slots = factor(r, self->dispatch), to_tokens = factor(r, self->combine);
    SMOE_SHARED(routing, plan->tokens * S)
    for (size_t g = 0; g < plan->G; g++) {
        real *disp = plan->disp + g * T * S, *comb = plan->comb + g * T * S;
        const real *z = soft->z + g * T * S, *token = soft->token + 2 * g * T;
        for (size_t t = 0; t < T; t++)
            kern->scale(comb + t * S, to_slots * token[2 * t], z + t * S, S);
        kern->column_softmax(disp, comb, T, S);
        for (size_t t = 0; t < T; t++)
            kern->scale(comb + t * S, to_tokens * token[2 * t], z + t * S, S);
        if (!has_zeros(r)) kern->softmax(comb, T, S, S);
        for (size_t t = 0; t < T && has_zeros(r); t++) entmax(comb + t * S, S);
    }
}

/*
 * With L the logits of a side, d/d ln t of L = c/t is -L, so that d ln t = -sum dL L; and the
 * gradient of c is the sum over both sides of dL/t. Buffers: ddisp and dcomb become the dL of their
 * sides, then dcomb that of z = c/f, for smoe_soft_cosines_backward with scale 1.
 */
static void logits_backward(temperatures_router *self, size_t g, real to_slots, real to_tokens) {
    smoe_soft *soft = &self->soft;
    const smoe_plan *plan = &soft->base.plan;
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t T = plan->T, S = plan->S, at = g * T * S;
    real *dc = plan->dcomb + at;
    if (!has_zeros(&soft->base)) kern->softmax_backward(dc, plan->comb + at, T, S, S);
    for (size_t t = 0; t < T && has_zeros(&soft->base); t++)
        entmax_backward(dc + t * S, plan->comb + at + t * S, S);
    for (size_t t = g * T; t < (g + 1) * T; t++) {
        real *row = plan->dcomb + t * S;
        self->sums[2 * t + 1] =
            (double)(soft->token[2 * t] * to_tokens * kern->dot(row, soft->z + t * S, S));
        kern->scale(row, to_tokens / to_slots, row, S);
    }
    /* dcomb has the part of C, in units of 1/to_slots; D adds its own. */
    for (size_t t = g * T; t < (g + 1) * T; t++)
        self->sums[2 * t] = (double)kern->dot(plan->dcomb + t * S, soft->z + t * S, S);
    kern->column_softmax_backward(dc, plan->disp + at, plan->ddisp + at, T, S);
    for (size_t t = g * T; t < (g + 1) * T; t++) {
        real *row = plan->dcomb + t * S, f = soft->token[2 * t];
        double both = (double)kern->dot(row, soft->z + t * S, S);
        self->sums[2 * t] = (double)(f * to_slots) * (both - self->sums[2 * t]);
        soft->pull[t] = (real)both * to_slots;
        kern->scale(row, to_slots * f, row, S);
    }
}

static void temperatures_backward(smoe_router *r, real *dx, const real *x, const smoe_pass *pass) {
    (void)pass;
    temperatures_router *self = (temperatures_router *)r;
    const smoe_plan *plan = &r->plan;
    real to_slots = factor(r, self->dispatch), to_tokens = factor(r, self->combine);
    SMOE_SHARED(routing, plan->tokens * plan->S)
    for (size_t g = 0; g < plan->G; g++) logits_backward(self, g, to_slots, to_tokens);
    smoe_soft_cosines_backward(&self->soft, dx, x, 1);
    real *dt[] = {smoe_gradient(r->params, self->dispatch),
                  smoe_gradient(r->params, self->combine)};
    for (size_t side = 0; side < 2; side++) {
        double sum = 0;
        for (size_t t = 0; t < plan->tokens; t++) sum += self->sums[2 * t + side];
        if (dt[side]) *dt[side] -= (real)sum;
    }
}

const smoe_router_type smoe_router_temperatures = {
    .size = sizeof(temperatures_router),
    .init = temperatures_init,
    .reserve = temperatures_reserve,
    .cost = smoe_soft_cost,
    .forward = temperatures_forward,
    .backward = temperatures_backward,
};
