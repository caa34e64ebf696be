/*
 * Soft MoE routing (Soft MoE eq. 1-3, algorithms 1-2) and its two half-uniform ablations (3.5.2).
 *   z = X Phi,  L_ts = scale * f(x_t) * f(phi_s) * z_ts,  f(v) = 1/(|v| + 1e-6) or vmoe's
 *   1/sqrt(|v|^2 + 1e-6), scale a parameter s or exp(s);
 *   D = softmax of L over tokens,  C = softmax of L over slots.
 * With normalize: false, L = z. In training L gets N(0, soft_noise^2), which has no gradient.
 * soft-uniform sets C = 1/S, uniform-soft sets D = 1/T.
 * D and C are only weights; the tokens that are mixed are not normalised (plan.c).
 *
 * soft-temperatures has two learnt temperatures instead of the scale (MoE Jetpack, arXiv
 * 2406.04801): with c_ts the cosine of token t and slot s,
 *   D = softmax over tokens of c/t_D,  C = softmax over slots of c/t_C, or 1.5-entmax (combine).
 * The tensors hold ln t_D and ln t_C, so that both stay above 0.
 */
#include "route/router.h"
#include "math/gemm.h"
#include "math/kernels.h"
#include "spec/routers.h"

/* What both routers have: slot vectors Phi and the products of tokens with them. */
typedef struct smoe_soft {
    smoe_router base;
    bool normalize;    /* tokens and slot vectors have length one */
    size_t phi, scale; /* rows of the parameter table; scale only where there is one */
    real *unit;        /* [d,S] f(phi_s) phi_s */
    real *column;      /* [2,S] f(phi_s), and its slope */
    real *z;           /* [R,S] X unit, or X Phi */
    real *token;       /* [R,2] f(x_t) and its slope; 1 without `normalize` */
    real *dunit;       /* [d,S] */
    real *pull;        /* [R] sum over slots of dL z */
} smoe_soft;

enum { COLUMNS = 64 }; /* columns of Phi one task takes */

/* f = f(v) and slope with df/dv = -slope * v, from |v|^2. Zero maps to zero: slope 0 there. */
static void inverse_norm(double square, smoe_l2 kind, real *f, real *slope) {
    double v;
    if (kind == SMOE_L2_VMOE) {
        v = 1 / sqrt(square + 1e-6);
        *slope = (real)(v * v * v);
    } else {
        double norm = sqrt(square);
        v = 1 / (norm + 1e-6);
        *slope = norm > 0 ? (real)(v * v / norm) : 0;
    }
    *f = (real)v;
}

/* Normal numbers, not truncated at two deviations as in flax; the normalised columns of Phi hardly
 * change by that. */
static double phi_std(const smoe_router *r) {
    double fan_in = (double)r->E * (double)r->d;
    return r->spec->soft.phi_std == SMOE_WORD ? 1 / sqrt(fan_in) : r->spec->soft.phi_std;
}

/* What the tensor holds: the factor, or its logarithm. */
static double scale_start(const smoe_router *r) {
    double factor =
        r->spec->soft.scale_init == SMOE_WORD ? sqrt((double)r->d) : r->spec->soft.scale_init;
    return r->spec->soft.scale_form == SMOE_SCALE_EXP ? log(factor) : factor;
}

/* The factor of the logits. */
static real scale_of(const smoe_soft *soft) {
    const smoe_router *r = &soft->base;
    if (!r->spec->soft.normalize) return 1;
    real s = *smoe_weight(r->params, soft->scale);
    return r->spec->soft.scale_form == SMOE_SCALE_EXP ? (real)exp((double)s) : s;
}

/* Registers Phi. */
static void soft_phi_init(smoe_soft *soft, bool normalize) {
    smoe_router *r = &soft->base;
    const smoe_router_entry *entry = smoe_router_find(r->spec->router);
    r->plan.dense.disp_constant = !entry->learns_dispatch;
    r->plan.dense.comb_constant = !entry->learns_combine;
    soft->normalize = normalize;
    size_t dim[] = {r->d, r->E, r->P};
    soft->phi = smoe_params_add(r->params, smoe_param_normal(SMOE_PARAM_PLAIN, phi_std(r)), 3, dim,
                                "%s.phi", r->prefix);
}

static void soft_init(smoe_router *r) {
    smoe_soft *soft = (smoe_soft *)r;
    soft_phi_init(soft, r->spec->soft.normalize);
    if (r->spec->soft.normalize)
        soft->scale = smoe_params_add(r->params, smoe_param_constant(scale_start(r)), 0, NULL,
                                      "%s.scale", r->prefix);
}

static void soft_reserve(smoe_router *r, size_t B, bool train, smoe_arena *keep) {
    smoe_soft *soft = (smoe_soft *)r;
    size_t R = B * r->T, S = r->E * r->P;
    smoe_plan_reserve_dense(&r->plan, B, r->T, r->E, r->P, train, keep);
    soft->z = smoe_arena_take(keep, R * S, sizeof(real));
    soft->token = smoe_arena_take(keep, 2 * R, sizeof(real));
    soft->unit = smoe_arena_take(keep, r->d * S, sizeof(real));
    soft->column = smoe_arena_take(keep, 2 * S, sizeof(real));
    soft->dunit = train ? smoe_arena_take(keep, r->d * S, sizeof(real)) : NULL;
    soft->pull = train ? smoe_arena_take(keep, R, sizeof(real)) : NULL;
}

/* unit = Phi with columns of length (nearly) one; their f and slopes in `column`. */
static void normalise_phi(smoe_soft *soft, const real *phi) {
    const smoe_router *r = &soft->base;
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t S = r->E * r->P, d = r->d;
    real *f = soft->column, *slope = f + S;
    SMOE_SHARED(routing, S * d)
    for (size_t s0 = 0; s0 < S; s0 += COLUMNS) {
        size_t n = S - s0 < COLUMNS ? S - s0 : COLUMNS;
        double square[COLUMNS] = {0};
        kern->column_dot_double(square, phi + s0, phi + s0, d, n, S);
        for (size_t s = 0; s < n; s++)
            inverse_norm(square[s], r->spec->soft.l2_eps, &f[s0 + s], &slope[s0 + s]);
        for (size_t i = 0; i < d; i++)
            for (size_t s = s0; s < s0 + n; s++) soft->unit[i * S + s] = f[s] * phi[i * S + s];
    }
}

/* Begins the plan of a pass, and fills z and token: the cosine of token t and slot s is
 * token[2t] z[t,s]. */
static void soft_cosines(smoe_soft *soft, const real *x, const smoe_pass *pass) {
    smoe_router *r = &soft->base;
    smoe_plan *plan = &r->plan;
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    smoe_plan_begin(plan, pass->images * r->T);
    size_t R = plan->tokens, S = plan->S, d = r->d;
    const real *phi = smoe_weight(r->params, soft->phi), *columns = phi;
    if (soft->normalize) {
        normalise_phi(soft, phi);
        columns = soft->unit;
    }
    smoe_gemm(smoe_product_of(soft->z, smoe_matrix_of(x, R, d), smoe_matrix_of(columns, d, S)));
    SMOE_SHARED(routing, R * d)
    for (size_t t = 0; t < R; t++) {
        soft->token[2 * t] = 1;
        if (soft->normalize)
            inverse_norm(kern->dot_double(x + t * d, x + t * d, d), r->spec->soft.l2_eps,
                         &soft->token[2 * t], &soft->token[2 * t + 1]);
    }
}

/* L of one image from its z, with its noise, and D and C from L. */
static void soft_weigh(const smoe_soft *soft, size_t g, real scale, const smoe_pass *pass) {
    const smoe_router *r = &soft->base;
    const smoe_plan *plan = &r->plan;
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t S = plan->S, T = plan->T, at = g * T * S;
    real *disp = plan->dense.disp + at, *comb = plan->dense.comb + at;
    for (size_t t = 0; t < T; t++)
        kern->scale(comb + t * S, scale * soft->token[2 * (g * T + t)], soft->z + at + t * S, S);
    for (size_t t = 0; t < T && pass->train && r->spec->soft.noise > 0; t++) {
        smoe_rng rng = smoe_rng_at(pass->seed, SMOE_RNG_NOISE, (uint32_t)r->site, pass->step,
                                   (pass->first + g) * T + t);
        smoe_router_noise(comb + t * S, comb + t * S, S, r->spec->soft.noise, &rng);
    }
    if (plan->dense.disp_constant)
        for (size_t i = 0; i < T * S; i++) disp[i] = 1 / (real)T;
    else
        kern->column_softmax(disp, comb, T, S);
    if (plan->dense.comb_constant)
        for (size_t i = 0; i < T * S; i++) comb[i] = 1 / (real)S;
    else
        kern->softmax(comb, T, S, S);
}

static void soft_forward(smoe_router *r, const real *x, const smoe_pass *pass) {
    smoe_soft *soft = (smoe_soft *)r;
    soft_cosines(soft, x, pass);
    real scale = scale_of(soft);
    if (r->spec->soft.normalize) r->plan.dense.scale = (double)scale;
    SMOE_SHARED(routing, r->plan.tokens * r->plan.S)
    for (size_t g = 0; g < r->plan.G; g++) soft_weigh(soft, g, scale, pass);
}

/*
 * dL = softmax backwards of D (columns) and C (rows), in dcomb. Then, with q_t = sum_s dL_ts z_ts:
 * dscale = sum_t f(x_t) q_t,  dx_t gets scale q_t df/dx = -scale q_t slope_t x_t,  dz = scale f dL.
 */
static void logits_backward(smoe_soft *soft, size_t g, real scale) {
    const smoe_router *r = &soft->base;
    const smoe_plan *plan = &r->plan;
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t S = plan->S, T = plan->T, at = g * T * S;
    real *dl = plan->dense.dcomb + at;
    if (plan->dense.comb_constant)
        memset(dl, 0, T * S * sizeof *dl);
    else
        kern->softmax_backward(dl, plan->dense.comb + at, T, S, S);
    if (!plan->dense.disp_constant)
        kern->column_softmax_backward(dl, plan->dense.disp + at, plan->dense.ddisp + at, T, S);
    if (!r->spec->soft.normalize) return;
    for (size_t t = g * T; t < (g + 1) * T; t++) {
        real *row = plan->dense.dcomb + t * S;
        soft->pull[t] = kern->dot(row, soft->z + t * S, S);
        kern->scale(row, scale * soft->token[2 * t], row, S);
    }
}

/* dPhi_s += f_s dunit_s - slope_s (phi_s . dunit_s) phi_s. */
static void phi_backward(smoe_soft *soft, real *dphi, const real *phi) {
    const smoe_router *r = &soft->base;
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t S = r->E * r->P, d = r->d;
    const real *f = soft->column, *slope = f + S;
    SMOE_SHARED(routing, S * d)
    for (size_t s0 = 0; s0 < S; s0 += COLUMNS) {
        size_t n = S - s0 < COLUMNS ? S - s0 : COLUMNS;
        double along[COLUMNS] = {0};
        kern->column_dot_double(along, phi + s0, soft->dunit + s0, d, n, S);
        for (size_t i = 0; i < d; i++)
            for (size_t s = s0; s < s0 + n; s++)
                dphi[i * S + s] +=
                    f[s] * soft->dunit[i * S + s] - slope[s] * (real)along[s - s0] * phi[i * S + s];
    }
}

/* With dcomb of the plan = dz [R,S] and, where normalised, pull_t = sum_s dL_ts z_ts of logits
 * L = scale * cosine: adds to dx [R,d] and to the gradient of Phi. */
static void soft_cosines_backward(smoe_soft *soft, real *dx, const real *x, real scale) {
    const smoe_router *r = &soft->base;
    const smoe_plan *plan = &r->plan;
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t R = plan->tokens, S = plan->S, d = r->d;
    bool normalize = soft->normalize;
    const real *phi = smoe_weight(r->params, soft->phi);
    real *dphi = smoe_gradient(r->params, soft->phi);
    smoe_matrix columns = smoe_matrix_of(normalize ? soft->unit : phi, d, S);
    smoe_matrix dz = smoe_matrix_of(plan->dense.dcomb, R, S);
    smoe_matrix xt = smoe_transposed(smoe_matrix_of(x, R, d));
    smoe_gemm(smoe_product_added(dx, dz, smoe_transposed(columns)));
    if (dphi)
        smoe_gemm(normalize ? smoe_product_of(soft->dunit, xt, dz)
                            : smoe_product_added(dphi, xt, dz));
    if (!normalize) return;
    SMOE_SHARED(routing, R * d)
    for (size_t t = 0; t < R; t++)
        kern->axpy(dx + t * d, -scale * soft->pull[t] * soft->token[2 * t + 1], x + t * d, d);
    if (dphi) phi_backward(soft, dphi, phi);
}

static void soft_backward(smoe_router *r, real *dx, const real *x, const smoe_pass *pass) {
    (void)pass;
    smoe_soft *soft = (smoe_soft *)r;
    const smoe_plan *plan = &r->plan;
    real *ds = soft->normalize ? smoe_gradient(r->params, soft->scale) : NULL;
    real scale = scale_of(soft);
    SMOE_SHARED(routing, plan->tokens * plan->S)
    for (size_t g = 0; g < plan->G; g++) logits_backward(soft, g, scale);
    soft_cosines_backward(soft, dx, x, scale);
    if (!ds) return;
    double dscale = 0;
    for (size_t t = 0; t < plan->tokens; t++)
        dscale += (double)soft->token[2 * t] * (double)soft->pull[t];
    if (r->spec->soft.scale_form == SMOE_SCALE_EXP)
        dscale *= (double)scale; /* d exp(s) = exp(s) ds */
    *ds += (real)dscale;
}

static smoe_router_cost soft_cost(const smoe_router *r) {
    smoe_router_cost x = smoe_router_dense_cost(r);
    x.logits = x.mixing; /* [T,d] x [d,S] */
    return x;
}

const smoe_router_type smoe_router_soft = {
    .size = sizeof(smoe_soft),
    .init = soft_init,
    .reserve = soft_reserve,
    .cost = soft_cost,
    .forward = soft_forward,
    .backward = soft_backward,
};

/* ---- two temperatures ------------------------------------------------------------------------ */

typedef struct temperatures_router {
    smoe_soft soft;
    size_t dispatch, combine; /* rows of the logarithms */
    double *sums;             /* [R,2] sums of dL c of a token, for dispatch and for combine */
} temperatures_router;

static void temperatures_init(smoe_router *r) {
    temperatures_router *self = (temperatures_router *)r;
    double start = log(r->spec->soft.temperature_init);
    soft_phi_init(&self->soft, true);
    self->dispatch = smoe_params_add(r->params, smoe_param_constant(start), 0, NULL,
                                     "%s.log_dispatch_temperature", r->prefix);
    self->combine = smoe_params_add(r->params, smoe_param_constant(start), 0, NULL,
                                    "%s.log_combine_temperature", r->prefix);
}

static void temperatures_reserve(smoe_router *r, size_t B, bool train, smoe_arena *keep) {
    temperatures_router *self = (temperatures_router *)r;
    soft_reserve(r, B, train, keep);
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
    return r->spec->soft.combine == SMOE_COMBINE_ENTMAX;
}

static void temperatures_forward(smoe_router *r, const real *x, const smoe_pass *pass) {
    temperatures_router *self = (temperatures_router *)r;
    smoe_soft *soft = &self->soft;
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    soft_cosines(soft, x, pass);
    const smoe_plan *plan = &r->plan;
    size_t T = plan->T, S = plan->S;
    real to_slots = factor(r, self->dispatch), to_tokens = factor(r, self->combine);
    SMOE_SHARED(routing, plan->tokens * S)
    for (size_t g = 0; g < plan->G; g++) {
        real *disp = plan->dense.disp + g * T * S, *comb = plan->dense.comb + g * T * S;
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
 * sides, then dcomb that of z = c/f, for soft_cosines_backward with scale 1.
 */
static void temperatures_logits_backward(temperatures_router *self, size_t g, real to_slots,
                                         real to_tokens) {
    smoe_soft *soft = &self->soft;
    const smoe_plan *plan = &soft->base.plan;
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t T = plan->T, S = plan->S, at = g * T * S;
    real *dc = plan->dense.dcomb + at;
    if (!has_zeros(&soft->base)) kern->softmax_backward(dc, plan->dense.comb + at, T, S, S);
    for (size_t t = 0; t < T && has_zeros(&soft->base); t++)
        entmax_backward(dc + t * S, plan->dense.comb + at + t * S, S);
    for (size_t t = g * T; t < (g + 1) * T; t++) {
        real *row = plan->dense.dcomb + t * S;
        self->sums[2 * t + 1] =
            (double)(soft->token[2 * t] * to_tokens * kern->dot(row, soft->z + t * S, S));
        kern->scale(row, to_tokens / to_slots, row, S);
    }
    /* dcomb has the part of C, in units of 1/to_slots; D adds its own. */
    for (size_t t = g * T; t < (g + 1) * T; t++)
        self->sums[2 * t] = (double)kern->dot(plan->dense.dcomb + t * S, soft->z + t * S, S);
    kern->column_softmax_backward(dc, plan->dense.disp + at, plan->dense.ddisp + at, T, S);
    for (size_t t = g * T; t < (g + 1) * T; t++) {
        real *row = plan->dense.dcomb + t * S, f = soft->token[2 * t];
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
    for (size_t g = 0; g < plan->G; g++) temperatures_logits_backward(self, g, to_slots, to_tokens);
    soft_cosines_backward(&self->soft, dx, x, 1);
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
    .cost = soft_cost,
    .forward = temperatures_forward,
    .backward = temperatures_backward,
};
