/*
 * Similarities of B images and B texts, from their embeddings u and v [B,D]:
 *   p = u/|u|, q = v/|v|,  L = a p q^T + c   with a = exp(logit_scale), c = logit_bias or 0
 * Backward, with dL [B,B]:  dp = a dL q,  dq = a dL^T p,  d logit_scale = sum dL (L - c),
 *   dc = sum dL,  du = (dp - p (p . dp)) / |u|.
 * A length below EPS counts as EPS, as in open_clip.
 */
#include "base/team.h"
#include "math/gemm.h"
#include "math/kernels.h"
#include "spec/tasks.h"
#include "vit/layer.h"

static const double EPS = 1e-12,
                    LARGEST = 4.605170185988092; /* log 100: CLIP's bound of the scale */

void smoe_pairs_init(smoe_pairs *l, smoe_params *params, const smoe_spec *spec, size_t D) {
    smoe_loss loss = spec->train.loss;
    double bias = smoe_task_bias(loss, spec->train.batch_size);
    *l = (smoe_pairs){.params = params, .D = D, .biased = smoe_task_bias(loss, 2) != 0};
    l->scale = smoe_params_add(params, smoe_param_constant(log(smoe_task_factor(loss))), 0, NULL,
                               "logit_scale");
    if (l->biased)
        l->bias = smoe_params_add(params, smoe_param_constant(bias), 0, NULL, "logit_bias");
}

void smoe_pairs_reserve(smoe_pairs *l, const smoe_space *space) {
    size_t B = space->B;
    l->logits = smoe_arena_take(space->keep, B * B, sizeof(real));
    for (int k = 0; k < 2; k++) {
        l->unit[k] = smoe_arena_take(space->keep, B * l->D, sizeof(real));
        l->length[k] = smoe_arena_take(space->keep, B, sizeof(double));
        if (space->train) l->d[k] = smoe_arena_take(space->keep, B * l->D, sizeof(real));
    }
    if (space->train) l->sums = smoe_arena_take(space->keep, 2 * B, sizeof(double));
}

void smoe_pairs_cost(const smoe_pairs *l, smoe_costs *costs, size_t B) {
    smoe_costs_add(costs, SMOE_PART_head, (double)B * (double)l->D, 3, "logit_scale")
        ->flops_weights = 0; /* both factors are embeddings */
    if (l->biased) smoe_costs_add(costs, SMOE_PART_head, 0, 0, "logit_bias");
}

static void unit_row(real *unit, double *length, const real *x, size_t D) {
    double norm = sqrt(smoe_kernels_get()->row->dot_double(x, x, D));
    *length = norm > EPS ? norm : EPS;
    for (size_t i = 0; i < D; i++) unit[i] = (real)((double)x[i] / *length);
}

void smoe_pairs_unit(real *unit, const real *x, size_t B, size_t D) {
    double ignored;
    for (size_t b = 0; b < B; b++) unit_row(unit + b * D, &ignored, x + b * D, D);
}

double smoe_pairs_factor(const smoe_pairs *l) {
    return exp((double)*smoe_weight(l->params, l->scale));
}

double smoe_pairs_bias(const smoe_pairs *l) {
    return l->biased ? (double)*smoe_weight(l->params, l->bias) : 0;
}

void smoe_pairs_forward(smoe_pairs *l, const real *images, const real *texts, size_t B) {
    const real *from[] = {images, texts};
    size_t D = l->D;
    for (int k = 0; k < 2; k++) {
        SMOE_SHARED(elementwise, B * D)
        for (size_t b = 0; b < B; b++)
            unit_row(l->unit[k] + b * D, l->length[k] + b, from[k] + b * D, D);
    }
    smoe_product p = smoe_product_of(l->logits, smoe_matrix_of(l->unit[0], B, D),
                                     smoe_transposed(smoe_matrix_of(l->unit[1], B, D)));
    p.to.alpha = (real)smoe_pairs_factor(l);
    smoe_gemm(p);
    real bias = (real)smoe_pairs_bias(l);
    for (size_t i = 0; l->biased && i < B * B; i++) l->logits[i] += bias;
}

/* dp becomes du. */
static void unit_backward(real *dp, const real *p, double length, size_t D) {
    double along = smoe_kernels_get()->row->dot_double(p, dp, D);
    for (size_t i = 0; i < D; i++) dp[i] = (real)(((double)dp[i] - (double)p[i] * along) / length);
}

void smoe_pairs_backward(smoe_pairs *l, const real *dlogits, size_t B, bool learns) {
    size_t D = l->D;
    double bias = smoe_pairs_bias(l), scaled = 0, shifted = 0;
    SMOE_SHARED(elementwise, B * B)
    for (size_t b = 0; b < B; b++) {
        double sum[2] = {0};
        for (size_t i = b * B; i < (b + 1) * B; i++) {
            sum[0] += (double)dlogits[i] * ((double)l->logits[i] - bias);
            sum[1] += (double)dlogits[i];
        }
        memcpy(l->sums + 2 * b, sum, sizeof sum);
    }
    for (size_t b = 0; b < B; b++) {
        scaled += l->sums[2 * b];
        shifted += l->sums[2 * b + 1];
    }
    real *dscale = smoe_gradient(l->params, l->scale);
    real *dbias = l->biased ? smoe_gradient(l->params, l->bias) : NULL;
    if (dscale && learns) *dscale += (real)scaled;
    if (dbias && learns) *dbias += (real)shifted;
    smoe_matrix dL = smoe_matrix_of(dlogits, B, B);
    for (int k = 0; k < 2; k++) {
        smoe_product p = smoe_product_of(l->d[k], k ? smoe_transposed(dL) : dL,
                                         smoe_matrix_of(l->unit[!k], B, D));
        p.to.alpha = (real)smoe_pairs_factor(l);
        smoe_gemm(p);
        SMOE_SHARED(elementwise, B * D)
        for (size_t b = 0; b < B; b++)
            unit_backward(l->d[k] + b * D, l->unit[k] + b * D, l->length[k][b], D);
    }
}

void smoe_pairs_bound(const smoe_pairs *l) {
    real *scale = l->params->w + l->params->param[l->scale].offset;
    if (*scale > (real)LARGEST) *scale = (real)LARGEST;
}
