/* See gradcheck.h. */
#include "gradcheck.h"
#include "unit.h"

#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double preset(double x, double otherwise) {
    return x > 0 ? x : otherwise;
}

static uint64_t mark_of(gradcheck *c) {
    return c->choices ? c->choices(c->user) : 0;
}

void gradcheck_begin(gradcheck *c) {
    c->loss(c->user);
    c->mark = mark_of(c);
}

/* The difference quotient along v; false if either step changes a discrete choice. */
static bool quotient(gradcheck *c, double *slope, real *x, const double *v, size_t n, double h) {
    real *kept = malloc(n * sizeof *kept);
    double side[2];
    bool same = true;
    assert_non_null(kept);
    memcpy(kept, x, n * sizeof *x);
    for (int s = 0; s < 2; s++) {
        for (size_t i = 0; i < n; i++) x[i] = (real)((double)kept[i] + (s ? -h : h) * v[i]);
        side[s] = c->loss(c->user);
        same = same && mark_of(c) == c->mark;
    }
    memcpy(x, kept, n * sizeof *x);
    free(kept);
    *slope = (side[0] - side[1]) / (2 * h);
    if (!same) c->skipped++;
    return same;
}

static bool wrong(gradcheck *c, const char *fmt, ...) SMOE_PRINTF(2, 3);
static bool wrong(gradcheck *c, const char *fmt, ...) {
    if (c->fault[0]) return false;
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->fault, sizeof c->fault, fmt, args);
    va_end(args);
    return false;
}

/* Compares one quotient with the gradient. Written so that NaN on either side is a fault. */
static bool agree(gradcheck *c, const char *name, const char *where, double claimed, double slope,
                  double scale) {
    c->checked++;
    if (fabs(claimed - slope) <= preset(c->tolerance, 1e-6) * scale) return true;
    return wrong(c, "%s%s: gradient %.12g, differences say %.12g (scale %.3g)", name, where,
                 claimed, slope, scale);
}

static bool elements(gradcheck *c, const char *name, real *x, const real *g, size_t n,
                     double scale) {
    size_t most = c->most ? c->most : 16, count = n < most ? n : most;
    double h = preset(c->step, 1e-5), one = 1, slope;
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        size_t at = i * n / count + (n / count) / 2 * (i % 2);
        char where[32];
        snprintf(where, sizeof where, "[%zu]", at);
        if (quotient(c, &slope, x + at, &one, 1, h))
            good &= agree(c, name, where, (double)g[at], slope, scale);
    }
    return good;
}

/* A direction of length one: the slope along it is about |g| / sqrt(n). */
static bool direction(gradcheck *c, const char *name, real *x, const real *g, size_t n,
                      double scale) {
    double *v = malloc(n * sizeof *v), claimed = 0, length = 0, slope;
    bool good = true;
    assert_non_null(v);
    smoe_rng rng = smoe_rng_at(n, SMOE_RNG_TEST, smoe_rng_name(name), 0, 0);
    for (size_t i = 0; i < n; i++) {
        v[i] = smoe_rng_normal(&rng);
        length += v[i] * v[i];
    }
    for (size_t i = 0; i < n; i++) {
        v[i] /= sqrt(length);
        claimed += v[i] * (double)g[i];
    }
    if (quotient(c, &slope, x, v, n, preset(c->step, 1e-5)))
        good = agree(c, name, " along a direction", claimed, slope, scale);
    free(v);
    return good;
}

bool gradcheck_array(gradcheck *c, const char *name, real *x, const real *g, size_t n) {
    double largest = 0, least = preset(c->least, 1e-5);
    for (size_t i = 0; i < n; i++) {
        if (!isfinite((double)g[i])) return wrong(c, "%s[%zu]: gradient %g", name, i, (double)g[i]);
        largest = fmax(largest, fabs((double)g[i]));
    }
    bool good = true;
    if (largest < least) {
        if (!c->may_vanish || !strstr(name, c->may_vanish))
            return wrong(c, "%s: vacuous, no gradient above %g", name, largest);
        /* Differences that are only rounding, four of the loss's last bits: by default 1e-9 for
         * a loss of 10, and more for a larger one. */
        largest = 100 * least * fmax(1, fabs(c->loss(c->user)) / 10);
    }
    good &= elements(c, name, x, g, n, largest);
    good &= direction(c, name, x, g, n, largest);
    return good;
}

bool gradcheck_params(gradcheck *c, smoe_params *params, real base) {
    bool good = true;
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *p = &params->param[i];
        if (p->state) continue; /* has no gradient */
        real *g = malloc(p->size * sizeof *g);
        assert_non_null(g);
        for (size_t j = 0; j < p->size; j++) g[j] = params->g[p->offset + j] - base;
        good &= gradcheck_array(c, p->name, params->w + p->offset, g, p->size);
        free(g);
    }
    return good;
}

void gradcheck_scatter(smoe_params *params, uint64_t seed, double spread, real base) {
    smoe_err err;
    if (smoe_params_allocate(params, 2, &err)) fail_msg("%s", err.text);
    smoe_params_init(params, seed);
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *p = &params->param[i];
        smoe_rng rng = smoe_rng_at(seed, SMOE_RNG_TEST, smoe_rng_name(p->name), 1, 0);
        for (size_t j = 0; j < p->size; j++) {
            params->w[p->offset + j] += (real)(spread * smoe_rng_normal(&rng));
            if (!p->frozen) params->g[p->offset + j] = base;
        }
    }
}

void gradcheck_normal(real *x, size_t n, uint64_t seed) {
    smoe_rng rng = smoe_rng_at(seed, SMOE_RNG_TEST, 0, 0, 0);
    for (size_t i = 0; i < n; i++) x[i] = (real)smoe_rng_normal(&rng);
}

static uint64_t mix(uint64_t mark, const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++) mark = (mark ^ at[i]) * 1099511628211u; /* FNV-1a */
    return mark;
}

uint64_t gradcheck_plan_mark(uint64_t mark, const smoe_plan *plan) {
    if (!plan->sparse) return mark;
    for (size_t b = 0; b < plan->G * plan->E; b++) {
        size_t used = (size_t)plan->list.used[b];
        mark = mix(mark, &used, sizeof used);
        mark = mix(mark, plan->list.slot_token + b * plan->P, used * sizeof *plan->list.slot_token);
    }
    return mark;
}

uint64_t gradcheck_model_mark(const smoe_model *model) {
    uint64_t mark = 0;
    for (size_t i = 0; i < smoe_model_moe_layers(model); i++)
        mark = gradcheck_plan_mark(mark, &smoe_model_router(model, i)->plan);
    return mark;
}

void gradcheck_skipped(void **state) {
    puts("gradients are compared in double precision, FLAVOUR=f64");
    skip();
}
