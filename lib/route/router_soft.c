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

typedef struct smoe_soft {
    smoe_router base;
    bool warm;         /* two temperatures */
    bool normalize;    /* tokens and slot vectors have length one */
    size_t phi, scale; /* rows of the parameter table; scale only where there is one */
    size_t log_t[2];   /* rows of ln t_D and ln t_C, with two temperatures */
    real *unit;        /* [d,S] f(phi_s) phi_s */
    real *column;      /* [2,S] f(phi_s), and its slope */
    real *z;           /* [R,S] X unit, or X Phi */
    real *token;       /* [R,2] f(x_t) and its slope; 1 without `normalize` */
    real *dunit;       /* [d,S] */
    real *pull;        /* [R] sum over slots of dL z, L in units of the factor of dispatch */
    double *sums; /* [R,2] sums of dL L of a token, for dispatch and for combine; temperatures */
} smoe_soft;

/* The factors of the cosines in the logits of dispatch and of combine. */
typedef struct factors {
    real to_slots, to_tokens;
} factors;

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

/* 1/t of a side. */
static real warmth(const smoe_soft *soft, size_t side) {
    return (real)exp(-(double)*smoe_weight(soft->base.params, soft->log_t[side]));
}

static factors factors_of(const smoe_soft *soft) {
    const smoe_router *r = &soft->base;
    if (soft->warm) return (factors){warmth(soft, 0), warmth(soft, 1)};
    if (!soft->normalize) return (factors){1, 1};
    real s = *smoe_weight(r->params, soft->scale);
    if (r->spec->soft.scale_form == SMOE_SCALE_EXP) s = (real)exp((double)s);
    return (factors){s, s};
}

/* Registers Phi. */
static void phi_init(smoe_soft *soft) {
    smoe_router *r = &soft->base;
    const smoe_router_entry *entry = smoe_router_find(r->spec->router);
    r->plan.dense.disp_constant = !entry->learns_dispatch;
    r->plan.dense.comb_constant = !entry->learns_combine;
    soft->normalize = soft->warm || r->spec->soft.normalize;
    size_t dim[] = {r->d, r->E, r->P};
    soft->phi = smoe_params_add(r->params, smoe_param_normal(SMOE_PARAM_PLAIN, phi_std(r)), 3, dim,
                                "%s.phi", r->prefix);
}

static void soft_init(smoe_router *r) {
    smoe_soft *soft = (smoe_soft *)r;
    phi_init(soft);
    if (soft->normalize)
        soft->scale = smoe_params_add(r->params, smoe_param_constant(scale_start(r)), 0, NULL,
                                      "%s.scale", r->prefix);
}

static void temperatures_init(smoe_router *r) {
    static const char *const side[] = {"dispatch", "combine"};
    smoe_soft *soft = (smoe_soft *)r;
    double start = log(r->spec->soft.temperature_init);
    soft->warm = true;
    phi_init(soft);
    for (size_t i = 0; i < 2; i++)
        soft->log_t[i] = smoe_params_add(r->params, smoe_param_constant(start), 0, NULL,
                                         "%s.log_%s_temperature", r->prefix, side[i]);
}

static void soft_reserve(smoe_router *r, size_t B, bool train, smoe_arena *keep) {
    smoe_soft *soft = (smoe_soft *)r;
    size_t R = B * r->T, S = r->E * r->P;
    smoe_plan_reserve(&r->plan, false, B, train, keep);
    soft->z = smoe_arena_take(keep, R * S, sizeof(real));
    soft->token = smoe_arena_take(keep, 2 * R, sizeof(real));
    soft->unit = smoe_arena_take(keep, r->d * S, sizeof(real));
    soft->column = smoe_arena_take(keep, 2 * S, sizeof(real));
    soft->dunit = train ? smoe_arena_take(keep, r->d * S, sizeof(real)) : NULL;
    soft->pull = train ? smoe_arena_take(keep, R, sizeof(real)) : NULL;
    if (train && soft->warm) soft->sums = smoe_arena_take(keep, 2 * R, sizeof *soft->sums);
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

static bool has_zeros(const smoe_soft *soft) {
    return soft->warm && soft->base.spec->soft.combine == SMOE_COMBINE_ENTMAX;
}

/* The logits of one image from its z. */
static void scale_logits(const smoe_soft *soft, real *logits, size_t g, real factor) {
    size_t S = soft->base.plan.S, T = soft->base.plan.T;
    for (size_t t = 0; t < T; t++)
        smoe_kernels_get()->row->scale(logits + t * S, factor * soft->token[2 * (g * T + t)],
                                       soft->z + (g * T + t) * S, S);
}

/* L of one image with its noise, and D and C from L. */
static void soft_weigh(const smoe_soft *soft, size_t g, factors f, const smoe_pass *pass) {
    const smoe_router *r = &soft->base;
    const smoe_plan *plan = &r->plan;
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t S = plan->S, T = plan->T, at = g * T * S;
    real *disp = plan->dense.disp + at, *comb = plan->dense.comb + at;
    bool noise = pass->train && !soft->warm && r->spec->soft.noise > 0;
    scale_logits(soft, comb, g, f.to_slots);
    for (size_t t = 0; t < T && noise; t++) {
        smoe_rng rng = smoe_rng_at(pass->seed, SMOE_RNG_NOISE, (uint32_t)r->site, pass->step,
                                   (pass->first + g) * T + t);
        smoe_router_noise(comb + t * S, comb + t * S, S, r->spec->soft.noise, &rng);
    }
    if (plan->dense.disp_constant)
        for (size_t i = 0; i < T * S; i++) disp[i] = 1 / (real)T;
    else
        kern->column_softmax(disp, comb, T, S);
    if (soft->warm) scale_logits(soft, comb, g, f.to_tokens);
    if (plan->dense.comb_constant)
        for (size_t i = 0; i < T * S; i++) comb[i] = 1 / (real)S;
    else if (!has_zeros(soft))
        kern->softmax(comb, T, S, S);
    for (size_t t = 0; t < T && has_zeros(soft); t++) entmax(comb + t * S, S);
}

static void soft_forward(smoe_router *r, const real *x, const smoe_pass *pass) {
    smoe_soft *soft = (smoe_soft *)r;
    soft_cosines(soft, x, pass);
    factors f = factors_of(soft);
    if (soft->normalize && !soft->warm) r->plan.dense.scale = (double)f.to_slots;
    SMOE_SHARED(routing, r->plan.tokens * r->plan.S)
    for (size_t g = 0; g < r->plan.G; g++) soft_weigh(soft, g, f, pass);
}

/*
 * dL = softmax backwards of D (columns) and C (rows), in dcomb. Then, with q_t = sum_s dL_ts z_ts:
 * dscale = sum_t f(x_t) q_t,  dx_t gets scale q_t df/dx = -scale q_t slope_t x_t,  dz = scale f dL.
 * With temperatures, L = c/t of a side has d L/d ln t = -L, so that d ln t = -sum dL L; and the
 * gradient of c is the sum over both sides of dL/t: dcomb has the part of C, in units of 1/t_D,
 * before D adds its own.
 */
static void logits_backward(smoe_soft *soft, size_t g, factors f) {
    const smoe_plan *plan = &soft->base.plan;
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t S = plan->S, T = plan->T, at = g * T * S;
    real *dl = plan->dense.dcomb + at;
    if (plan->dense.comb_constant)
        memset(dl, 0, T * S * sizeof *dl);
    else if (!has_zeros(soft))
        kern->softmax_backward(dl, plan->dense.comb + at, T, S, S);
    for (size_t t = 0; t < T && has_zeros(soft); t++)
        entmax_backward(dl + t * S, plan->dense.comb + at + t * S, S);
    for (size_t t = g * T; t < (g + 1) * T && soft->warm; t++) {
        real *row = plan->dense.dcomb + t * S, *z = soft->z + t * S;
        soft->sums[2 * t + 1] = (double)(soft->token[2 * t] * f.to_tokens * kern->dot(row, z, S));
        kern->scale(row, f.to_tokens / f.to_slots, row, S);
        soft->sums[2 * t] = (double)kern->dot(row, z, S);
    }
    if (!plan->dense.disp_constant)
        kern->column_softmax_backward(dl, plan->dense.disp + at, plan->dense.ddisp + at, T, S);
    for (size_t t = g * T; t < (g + 1) * T && soft->normalize; t++) {
        real *row = plan->dense.dcomb + t * S, factor = f.to_slots * soft->token[2 * t];
        soft->pull[t] = kern->dot(row, soft->z + t * S, S);
        if (soft->warm)
            soft->sums[2 * t] = (double)factor * ((double)soft->pull[t] - soft->sums[2 * t]);
        kern->scale(row, factor, row, S);
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

/* To the factor of the logits. */
static void scale_backward(const smoe_soft *soft, real scale) {
    const smoe_router *r = &soft->base;
    real *ds = smoe_gradient(r->params, soft->scale);
    double dscale = 0;
    for (size_t t = 0; t < r->plan.tokens; t++)
        dscale += (double)soft->token[2 * t] * (double)soft->pull[t];
    if (r->spec->soft.scale_form == SMOE_SCALE_EXP)
        dscale *= (double)scale; /* d exp(s) = exp(s) ds */
    if (ds) *ds += (real)dscale;
}

static void soft_backward(smoe_router *r, real *dx, const real *x, const smoe_pass *pass) {
    (void)pass;
    smoe_soft *soft = (smoe_soft *)r;
    factors f = factors_of(soft);
    SMOE_SHARED(routing, r->plan.tokens * r->plan.S)
    for (size_t g = 0; g < r->plan.G; g++) logits_backward(soft, g, f);
    soft_cosines_backward(soft, dx, x, f.to_slots);
    if (soft->normalize && !soft->warm) scale_backward(soft, f.to_slots);
    for (size_t side = 0; side < 2 && soft->warm; side++) {
        real *dt = smoe_gradient(r->params, soft->log_t[side]);
        double sum = 0;
        for (size_t t = 0; t < r->plan.tokens; t++) sum += soft->sums[2 * t + side];
        if (dt) *dt -= (real)sum;
    }
}

static smoe_router_cost soft_cost(const smoe_router *r) {
    smoe_router_cost x = smoe_router_dense_cost(r);
    x.logits = x.mixing; /* [T,d] x [d,S] */
    return x;
}

#define SOFT(begin)                                                                           \
    {                                                                                         \
        .size = sizeof(smoe_soft), .init = begin, .reserve = soft_reserve, .cost = soft_cost, \
        .forward = soft_forward, .backward = soft_backward                                    \
    }
const smoe_router_type smoe_router_soft = SOFT(soft_init),
                       smoe_router_temperatures = SOFT(temperatures_init);
