/* The gate of the choice routers; see gate.h. */
#include "route/gate.h"
#include "math/gemm.h"
#include "math/kernels.h"
#include "spec/routers.h"

void smoe_gate_init(smoe_gate *gate) {
    smoe_router *r = &gate->base;
    if (!gate->unit) gate->unit = 1;
    size_t dim[] = {r->E, r->d};
    /* The initialisation of a layer in flax, but without truncation at two standard deviations. */
    double std =
        r->spec->choice.gate_std == SMOE_WORD ? 1 / sqrt((double)r->d) : r->spec->choice.gate_std;
    gate->weight = smoe_params_add(r->params, smoe_param_normal(SMOE_PARAM_KERNEL, std), 2, dim,
                                   "%s.weight", r->prefix);
}

void smoe_gate_reserve(smoe_gate *gate, size_t B, bool train, bool noise, smoe_arena *keep) {
    smoe_router *r = &gate->base;
    size_t tokens = B * r->image_tokens, R = tokens / gate->unit, n = R * r->E;
    gate->z = smoe_arena_take(keep, n, sizeof(real));
    gate->noisy = noise ? smoe_arena_take(keep, n, sizeof(real)) : gate->z;
    gate->g = smoe_arena_take(keep, n, sizeof(real));
    r->plan.choices.gate = gate->g;
    r->plan.choices.scores = gate->z;
    r->plan.choices.unit = gate->unit;
    gate->dz = train ? smoe_arena_take(keep, n, sizeof(real)) : NULL;
    bool z_loss = r->spec->balance.z_weight > 0 &&
                  smoe_router_heeds(smoe_router_find(r->spec->router), "z_weight");
    gate->lse = train && z_loss ? smoe_arena_take(keep, R, sizeof(double)) : NULL;
    if (gate->unit == 1) return;
    gate->mean = smoe_arena_take(keep, R * r->d, sizeof(real));
    gate->dmean = train ? smoe_arena_take(keep, R * r->d, sizeof(real)) : NULL;
    r->plan.choices.gate = gate->spread = smoe_arena_take(keep, tokens * r->E, sizeof(real));
}

smoe_router_cost smoe_gate_cost(const smoe_gate *gate, double most) {
    const smoe_router *r = &gate->base;
    smoe_moe_shape x = smoe_moe_shape_of(r->spec, r->block, r->image_tokens);
    double m = (double)r->image_tokens, rows = (double)(x.E * x.P) / (double)x.images;
    return (smoe_router_cost){
        .logits = m * (double)(r->d * x.E), .rows = rows, .used = fmin(rows, m * most)};
}

double smoe_gate_noise(const smoe_gate *gate, const smoe_pass *pass) {
    return pass->train ? gate->base.spec->choice.noise / (double)gate->base.E : 0;
}

static void permute(real *z, size_t E, smoe_rng *rng) {
    for (size_t e = E; e > 1; e--) {
        size_t other = smoe_rng_below(rng, e);
        SMOE_SWAP(z[e - 1], z[other]);
    }
}

/* z = W x; or, of a random router, standard normal numbers keyed by block, image and token, so that
 * every expert is as likely as any other; or W x in a random order of the experts, which keeps the
 * distribution of the weights (V-MoE E.1 has both). */
static void fill_logits(smoe_gate *gate, const real *x, const smoe_pass *pass) {
    smoe_router *r = &gate->base;
    size_t R = smoe_gate_tokens(gate, pass), E = r->E, each = r->image_tokens / gate->unit;
    bool random = !pass->train && r->spec->random.is_random[r->block];
    bool permuted = r->spec->random.scores == SMOE_SCORES_PERMUTED;
    smoe_matrix w = smoe_matrix_of(smoe_weight(r->params, gate->weight), E, r->d);
    if (!random || permuted)
        smoe_gemm(smoe_product_of(gate->z, smoe_matrix_of(x, R, r->d), smoe_transposed(w)));
    if (!random) return;
    SMOE_SHARED(routing, R * E)
    for (size_t t = 0; t < R; t++) {
        smoe_rng rng = smoe_rng_at(pass->seed, SMOE_RNG_SCORES, (uint32_t)r->site,
                                   pass->first + t / each, t % each);
        if (permuted)
            permute(gate->z + t * E, E, &rng);
        else
            smoe_router_noise(gate->z + t * E, NULL, E, 1, &rng);
    }
}

double smoe_sigmoid(double z) {
    double e = exp(-fabs(z));
    return (z < 0 ? e : 1) / (1 + e);
}

/* As a softmax of log sigmoid(z), which is finite even if all sigmoids are 0. */
void smoe_sigmoid_shares(double *p, const real *z, const int32_t *which, size_t n) {
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++) {
        double x = (double)z[which ? (size_t)which[i] : i];
        p[i] = fmin(x, 0) - log1p(exp(-fabs(x)));
        most = fmax(most, p[i]);
    }
    for (size_t i = 0; i < n; i++) sum += p[i] = exp(p[i] - most);
    for (size_t i = 0; i < n; i++) p[i] /= sum;
}

static void sigmoids(real *g, const real *z, size_t E) {
    for (size_t e = 0; e < E; e++) g[e] = (real)smoe_sigmoid((double)z[e]);
}

static double log_sum_exp(const real *z, size_t E) {
    double most = (double)z[0], sum = 0;
    for (size_t e = 1; e < E; e++) most = fmax(most, (double)z[e]);
    for (size_t e = 0; e < E; e++) sum += exp((double)z[e] - most);
    return most + log(sum);
}

double smoe_gate_batch(const smoe_gate *gate, const smoe_pass *pass) {
    const smoe_router *r = &gate->base;
    return (double)(smoe_pass_whole(pass) * r->image_tokens / gate->unit);
}

static void z_forward(smoe_gate *gate, const smoe_pass *pass) {
    smoe_router *r = &gate->base;
    size_t R = smoe_gate_tokens(gate, pass), E = r->E;
    double sum = 0;
    SMOE_SHARED(routing, R * E)
    for (size_t t = 0; t < R; t++) gate->lse[t] = log_sum_exp(gate->noisy + t * E, E);
    for (size_t t = 0; t < R; t++) sum += gate->lse[t] * gate->lse[t];
    r->plan.losses.z = sum / smoe_gate_batch(gate, pass);
    r->plan.losses.weighted += r->spec->balance.z_weight * r->plan.losses.z;
}

/* d lse^2 / dz_e = 2 lse softmax(z)_e. */
static void z_backward(smoe_gate *gate, size_t t, double scale) {
    size_t E = gate->base.E;
    const real *z = gate->noisy + t * E;
    double lse = gate->lse[t];
    for (size_t e = 0; e < E; e++)
        gate->dz[t * E + e] += (real)(scale * lse * exp((double)z[e] - lse));
}

/* The mean of each unit's tokens. */
static void fill_means(smoe_gate *gate, const real *x, size_t R) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t d = gate->base.d, unit = gate->unit;
    SMOE_SHARED(routing, R * unit * d)
    for (size_t u = 0; u < R; u++) {
        real *mean = gate->mean + u * d;
        memset(mean, 0, d * sizeof *mean);
        kern->column_sum(mean, x + u * unit * d, unit, d);
        kern->scale(mean, 1 / (real)unit, mean, d);
    }
}

/* z plus its noise. */
static void fill_noisy(smoe_gate *gate, size_t t, double std, const smoe_pass *pass) {
    const smoe_router *r = &gate->base;
    const real *from = gate->z + t * r->E;
    real *noisy = gate->noisy + t * r->E;
    if (std > 0) {
        smoe_rng rng = smoe_rng_at(pass->seed, SMOE_RNG_NOISE, (uint32_t)r->site, pass->step,
                                   pass->first * r->image_tokens / gate->unit + t);
        smoe_router_noise(noisy, from, r->E, std, &rng);
    } else if (noisy != from) {
        memcpy(noisy, from, r->E * sizeof *noisy);
    }
}

void smoe_gate_forward(smoe_gate *gate, const real *x, double std, const smoe_pass *pass) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t R = smoe_gate_tokens(gate, pass), E = gate->base.E;
    if (gate->unit > 1) fill_means(gate, x, R);
    fill_logits(gate, gate->unit > 1 ? gate->mean : x, pass);
    SMOE_SHARED(routing, R * E)
    for (size_t t = 0; t < R; t++) {
        fill_noisy(gate, t, std, pass);
        const real *z = gate->noisy + t * E;
        real *g = gate->g + t * E;
        switch (gate->form) {
        case SMOE_GATE_SOFTMAX:
            memcpy(g, z, E * sizeof *g);
            kern->softmax(g, 1, E, E);
            break;
        case SMOE_GATE_SIGMOID: sigmoids(g, z, E); break;
        case SMOE_GATE_RELU:
            for (size_t e = 0; e < E; e++) g[e] = z[e] > 0 ? z[e] : 0;
            break;
        }
    }
    if (gate->lse && pass->train) z_forward(gate, pass);
}

void smoe_gate_spread(smoe_gate *gate) {
    size_t E = gate->base.E, tokens = gate->base.plan.tokens;
    for (size_t t = 0; gate->unit > 1 && t < tokens; t++)
        memcpy(gate->spread + t * E, gate->g + t / gate->unit * E, E * sizeof(real));
}

/* Only the placed weights of a token have a gradient, dg. With s = sum of g dg over them:
 *   softmax  dz_e = g_e (dg_e - s)
 *   sigmoid  dz = dg g (1 - g); where g is divided by its sum over the chosen experts,
 *            dz_e = g_e (dg_e - s) (1 - sigmoid(z_e))
 *   ReLU     dz = dg: the placements are those of experts whose gate is open */
static void placements_backward(smoe_gate *gate, size_t u) {
    const smoe_router *r = &gate->base;
    const smoe_plan *plan = &r->plan;
    size_t E = r->E;
    const real *g = gate->g + u * E, *z = gate->noisy + u * E;
    real *dz = gate->dz + u * E, sum = 0;
    double along, all = 0;
    for (size_t t = u * gate->unit; t < (u + 1) * gate->unit; t++)
        for (int32_t i = plan->list.first[t]; i < plan->list.first[t + 1]; i++) {
            size_t slot = (size_t)plan->list.slot[i], e = smoe_gate_expert(r, slot, t);
            real dg = plan->list.dweight[slot];
            switch (gate->form) {
            case SMOE_GATE_SOFTMAX:
                sum += g[e] * dg;
                dz[e] += g[e] * dg;
                break;
            case SMOE_GATE_SIGMOID:
                along = (double)g[e] * (double)dg;
                all += along;
                dz[e] += (real)(along * smoe_sigmoid(-(double)z[e]));
                break;
            case SMOE_GATE_RELU: dz[e] += dg; break;
            }
        }
    for (size_t e = 0; e < E && gate->form == SMOE_GATE_SOFTMAX; e++) dz[e] -= g[e] * sum;
    for (size_t e = 0; e < E && gate->form == SMOE_GATE_SIGMOID && gate->chosen; e++)
        if (g[e] > 0) dz[e] -= (real)((double)g[e] * all * smoe_sigmoid(-(double)z[e]));
}

/* dx of each token of a unit gets its share of the gradient of the mean. */
static void gate_spread_backward(const smoe_gate *gate, real *dx, size_t R) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t d = gate->base.d, unit = gate->unit;
    SMOE_SHARED(routing, R * unit * d)
    for (size_t t = 0; t < R * unit; t++)
        kern->axpy(dx + t * d, 1 / (real)unit, gate->dmean + t / unit * d, d);
}

void smoe_gate_backward(smoe_gate *gate, real *dx, const real *x, const smoe_pass *pass) {
    smoe_router *r = &gate->base;
    size_t R = smoe_gate_tokens(gate, pass), E = r->E;
    double scale = 2 * r->spec->balance.z_weight / smoe_gate_batch(gate, pass);
    SMOE_SHARED(routing, R * gate->unit * E)
    for (size_t u = 0; u < R; u++) {
        if (gate->lse && pass->train) z_backward(gate, u, scale);
        placements_backward(gate, u);
    }
    bool whole = gate->unit > 1;
    real *dw = smoe_gradient(r->params, gate->weight);
    smoe_matrix from = smoe_matrix_of(whole ? gate->mean : x, R, r->d);
    smoe_matrix dz = smoe_matrix_of(gate->dz, R, E);
    smoe_matrix w = smoe_matrix_of(smoe_weight(r->params, gate->weight), E, r->d);
    if (dw) smoe_gemm(smoe_product_added(dw, smoe_transposed(dz), from));
    smoe_gemm(whole ? smoe_product_of(gate->dmean, dz, w) : smoe_product_added(dx, dz, w));
    if (whole) gate_spread_backward(gate, dx, R);
}

int smoe_ranked_compare(const void *a, const void *b) {
    const smoe_ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static bool before(smoe_ranked x, smoe_ranked y) {
    return smoe_ranked_compare(&x, &y) < 0;
}

void smoe_ranked_select(smoe_ranked *list, size_t n, size_t k) {
    size_t low = 0, high = n; /* the k-th best lies in [low, high) */
    while (k > low && k < high && high - low > 1) {
        SMOE_SWAP(list[low + (high - low) / 2], list[high - 1]);
        smoe_ranked pivot = list[high - 1];
        size_t end = low;
        for (size_t i = low; i + 1 < high; i++) {
            if (!before(list[i], pivot)) continue;
            SMOE_SWAP(list[i], list[end]);
            end++;
        }
        SMOE_SWAP(list[end], list[high - 1]);
        if (end == k) return;
        if (end < k)
            low = end + 1;
        else
            high = end;
    }
}
