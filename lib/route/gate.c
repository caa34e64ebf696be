/* The gate of the choice routers; see gate.h. */
#include "route/gate.h"
#include "base/team.h"
#include "math/gemm.h"
#include "math/kernels.h"
#include "spec/routers.h"

#include <math.h>
#include <string.h>

void smoe_gate_init(smoe_gate *gate) {
    smoe_router *r = &gate->base;
    size_t dim[] = {r->E, r->d};
    /* The initialisation of a layer in flax, but without truncation at two standard deviations. */
    double std = r->spec->gate_std == SMOE_WORD ? 1 / sqrt((double)r->d) : r->spec->gate_std;
    gate->weight =
        smoe_params_add(r->params, SMOE_PARAM_KERNEL, 0, std, 2, dim, "%s.weight", r->prefix);
}

void smoe_gate_reserve(smoe_gate *gate, size_t B, bool train, bool noise, smoe_arena *keep) {
    smoe_router *r = &gate->base;
    size_t n = B * r->image_tokens * r->E;
    gate->z = smoe_arena_take(keep, n, sizeof(real));
    gate->noisy = noise ? smoe_arena_take(keep, n, sizeof(real)) : gate->z;
    gate->g = smoe_arena_take(keep, n, sizeof(real));
    r->plan.gate = gate->g;
    gate->dz = train ? smoe_arena_take(keep, n, sizeof(real)) : NULL;
}

smoe_router_cost smoe_gate_cost(const smoe_gate *gate, const smoe_cost_options *options,
                                size_t most) {
    const smoe_router *r = &gate->base;
    smoe_moe_shape x = smoe_moe_shape_of(r->spec, r->block, r->image_tokens);
    double m = (double)r->image_tokens, d = (double)r->d, E = (double)x.E;
    double exact = (double)x.K * x.capacity * (double)x.T / E;
    double places = E * (options->unrounded ? exact : (double)x.P);
    smoe_router_cost cost = {
        .logits = m * d * E, .dispatch = 2, .combine = 3, .rows = places / (double)x.images};
    cost.used = fmin(cost.rows, m * (double)most);
    if (options->einsum) {
        cost.mixing = m * places * d;
        cost.elementwise = 4 * m * places;
    }
    return cost;
}

double smoe_gate_noise(const smoe_gate *gate, const smoe_pass *pass) {
    return pass->train ? gate->base.spec->noise / (double)gate->base.E : 0;
}

/* z = W x; or, of a random router, standard normal numbers keyed by block, image and token, so that
 * every expert is as likely as any other (V-MoE E.1). */
static void fill_logits(smoe_gate *gate, const real *x, const smoe_pass *pass) {
    smoe_router *r = &gate->base;
    size_t R = pass->images * r->image_tokens, E = r->E;
    if (pass->train || !r->spec->is_random[r->block]) {
        smoe_product z =
            smoe_linear_product(gate->z, x, smoe_weight(r->params, gate->weight), NULL, R, E, r->d);
        smoe_gemm(&z);
        return;
    }
    SMOE_SHARED(routing, R * E)
    for (size_t t = 0; t < R; t++) {
        smoe_rng rng = smoe_rng_at(pass->seed, SMOE_RNG_SCORES, (uint32_t)r->site,
                                   pass->first + t / r->image_tokens, t % r->image_tokens);
        smoe_router_noise(gate->z + t * E, NULL, E, 1, &rng);
    }
}

void smoe_gate_forward(smoe_gate *gate, const real *x, double std, const smoe_pass *pass) {
    smoe_router *r = &gate->base;
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t R = pass->images * r->image_tokens, E = r->E;
    fill_logits(gate, x, pass);
    SMOE_SHARED(routing, R * E)
    for (size_t t = 0; t < R; t++) {
        const real *from = gate->z + t * E;
        real *noisy = gate->noisy + t * E, *g = gate->g + t * E;
        if (std > 0) {
            smoe_rng rng = smoe_rng_at(pass->seed, SMOE_RNG_NOISE, (uint32_t)r->site, pass->step,
                                       pass->first * r->image_tokens + t);
            smoe_router_noise(noisy, from, E, std, &rng);
        } else if (noisy != from) {
            memcpy(noisy, from, E * sizeof *g);
        }
        memcpy(g, noisy, E * sizeof *g);
        kern->softmax(g, 1, E, E);
    }
}

void smoe_gate_backward(smoe_gate *gate, real *dx, const real *x) {
    smoe_router *r = &gate->base;
    const smoe_plan *plan = &r->plan;
    size_t R = plan->tokens, E = r->E;
    /* Only the weights of placements have a gradient: with s = sum of g dg over those of a token,
     * dz_e = g_e (dg_e - s). */
    SMOE_SHARED(routing, R * E)
    for (size_t t = 0; t < R; t++) {
        const real *g = gate->g + t * E;
        real *dz = gate->dz + t * E, sum = 0;
        for (int32_t i = plan->first[t]; i < plan->first[t + 1]; i++) {
            size_t slot = (size_t)plan->slot[i], e = slot / r->P - t / r->T * E;
            sum += g[e] * plan->dweight[slot];
            dz[e] += g[e] * plan->dweight[slot];
        }
        for (size_t e = 0; e < E; e++) dz[e] -= g[e] * sum;
    }
    real *dw = smoe_gradient(r->params, gate->weight);
    smoe_product p = smoe_linear_dw_product(dw, gate->dz, x, R, E, r->d);
    if (dw) smoe_gemm(&p);
    p = smoe_linear_dx_product(dx, gate->dz, smoe_weight(r->params, gate->weight), R, E, r->d);
    p.add = dx;
    p.ldadd = r->d;
    smoe_gemm(&p);
}

int smoe_ranked_compare(const void *a, const void *b) {
    const smoe_ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static bool before(smoe_ranked x, smoe_ranked y) {
    return smoe_ranked_compare(&x, &y) < 0;
}

static void swap(smoe_ranked *x, smoe_ranked *y) {
    smoe_ranked t = *x;
    *x = *y;
    *y = t;
}

void smoe_ranked_select(smoe_ranked *list, size_t n, size_t k) {
    size_t low = 0, high = n; /* the k-th best lies in [low, high) */
    while (k > low && k < high && high - low > 1) {
        swap(&list[low + (high - low) / 2], &list[high - 1]);
        smoe_ranked pivot = list[high - 1];
        size_t end = low;
        for (size_t i = low; i + 1 < high; i++)
            if (before(list[i], pivot)) swap(&list[i], &list[end++]);
        swap(&list[end], &list[high - 1]);
        if (end == k) return;
        if (end < k)
            low = end + 1;
        else
            high = end;
    }
}
