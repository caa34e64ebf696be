/* The learnt priority of a token; see score.h. */
#include "route/score.h"
#include "base/team.h"
#include "math/gemm.h"

#include <math.h>

void smoe_score_init(smoe_token_score *score, smoe_router *r, bool sigmoid) {
    const size_t dim[] = {1, r->d};
    double std = 1 / sqrt((double)r->d);
    score->sigmoid = sigmoid;
    score->weight =
        smoe_params_add(r->params, SMOE_PARAM_KERNEL, 0, std, 2, dim, "%s.score.weight", r->prefix);
    score->bias = smoe_params_add(r->params, SMOE_PARAM_PLAIN, sigmoid ? 0 : 1, 0, 1, dim,
                                  "%s.score.bias", r->prefix);
}

void smoe_score_reserve(smoe_token_score *score, size_t tokens, bool train, smoe_arena *keep) {
    score->s = smoe_arena_take(keep, tokens, sizeof *score->s);
    score->ds = train ? smoe_arena_take(keep, tokens, sizeof *score->ds) : NULL;
}

void smoe_score_forward(smoe_token_score *score, const smoe_router *r, const real *x,
                        size_t tokens) {
    smoe_product s = smoe_linear_product(score->s, x, smoe_weight(r->params, score->weight),
                                         smoe_weight(r->params, score->bias), tokens, 1, r->d);
    smoe_gemm(&s);
    for (size_t t = 0; t < tokens && score->sigmoid; t++)
        score->s[t] = (real)smoe_sigmoid((double)score->s[t]);
}

void smoe_score_backward(smoe_token_score *score, smoe_gate *gate, real *dx, const real *x) {
    smoe_router *r = &gate->base;
    smoe_plan *plan = &r->plan;
    size_t R = plan->tokens;
    double db = 0;
    SMOE_SHARED(routing, R * r->E)
    for (size_t t = 0; t < R; t++) {
        double s = (double)score->s[t], ds = 0;
        for (int32_t i = plan->first[t]; i < plan->first[t + 1]; i++) {
            size_t slot = (size_t)plan->slot[i], e = smoe_gate_expert(r, slot, t);
            ds += (double)gate->g[t * r->E + e] * (double)plan->dweight[slot];
            plan->dweight[slot] *= score->s[t];
        }
        score->ds[t] = (real)(score->sigmoid ? ds * s * (1 - s) : ds);
    }
    for (size_t t = 0; t < R; t++) db += (double)score->ds[t];
    real *dw = smoe_gradient(r->params, score->weight), *b = smoe_gradient(r->params, score->bias);
    if (b) *b += (real)db;
    smoe_product p = smoe_linear_dw_product(dw, score->ds, x, R, 1, r->d);
    if (dw) smoe_gemm(&p);
    p = smoe_linear_dx_product(dx, score->ds, smoe_weight(r->params, score->weight), R, 1, r->d);
    p.add = dx;
    p.ldadd = r->d;
    smoe_gemm(&p);
}
