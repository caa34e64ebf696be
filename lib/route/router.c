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
