/*
 * The value of experts: precision with the experts of a layer replaced by their mean, and with each
 * replaced by its neighbour, after training. If precision does not fall, the experts have learnt
 * the same. If it falls with the mean, they have learnt different things; if it falls with
 * neighbours, the router sends tokens to the experts that fit them.
 */
#include "inspect/inspect_view.h"
#include "base/alloc.h"
#include "math/kernels.h"
#include "spec/metrics.h"
#include "train/evaluate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Element i of the new tensor of expert e of n, from = [n, size]. */
typedef real exchange(const real *from, size_t n, size_t size, size_t e, size_t i);

static real mean_of(const real *from, size_t n, size_t size, size_t e, size_t i) {
    (void)e;
    double sum = 0;
    for (size_t k = 0; k < n; k++) sum += (double)from[k * size + i];
    return (real)(sum / (double)n);
}

static real neighbour_of(const real *from, size_t n, size_t size, size_t e, size_t i) {
    return from[(e + 1) % n * size + i];
}

/* to [E, ...] = the tensor with its experts exchanged. */
static void exchange_fill(real *to, const smoe_params *params, size_t which, exchange *rule) {
    const smoe_param *p = &params->param[which];
    const smoe_bf16 *narrow = smoe_weight_bf16(params, which);
    size_t n = p->dim[0], size = p->size / n;
    real *wide = narrow ? smoe_alloc(p->size, sizeof *wide) : NULL;
    if (narrow) smoe_kernels_get()->row->widen(wide, narrow, p->size);
    const real *from = narrow ? wide : smoe_weight(params, which);
    for (size_t k = 0; k < p->size; k++) to[k] = rule(from, n, size, k / size, k % size);
    free(wide);
}

/* Whether the tensor belongs to the experts of the MoE layers from..l. */
static bool is_of_layers(const smoe_inspection *r, const smoe_param *p, size_t from, size_t l) {
    for (size_t k = from; k <= l; k++) {
        char prefix[64];
        int n = snprintf(prefix, sizeof prefix, "blocks.%zu.mlp.experts.",
                         smoe_model_moe_block(r->subject.model, k));
        if (!strncmp(p->name, prefix, (size_t)n)) return true;
    }
    return false;
}

/* Evaluates with the experts of layers from..l exchanged. During that time the parameter table
 * points to the exchanged weights. */
static int exchange_evaluate(const smoe_inspection *r, smoe_params *params, exchange *rule,
                             size_t from, size_t l, smoe_eval *eval, smoe_err *err) {
    const smoe_inspect_subject *s = &r->subject;
    smoe_param_place *before = params->place;
    smoe_param_place *place = smoe_alloc(params->count, sizeof *place);
    /* of which only the experts' are used */
    real *slab = calloc(params->size, sizeof *slab);
    int status = slab ? 0 : smoe_fail(err, SMOE_RUNTIME, "out of memory for other experts");
    for (size_t i = 0; i < params->count && !status; i++) {
        real *to = slab + params->param[i].offset;
        place[i] = (smoe_param_place){smoe_weight(params, i), smoe_weight_bf16(params, i)};
        if (!is_of_layers(r, &params->param[i], from, l)) continue;
        exchange_fill(to, params, i, rule);
        place[i] = (smoe_param_place){.values = to};
    }
    if (!status) {
        params->place = place;
        status = smoe_evaluate(s->model, s->spec, s->set, s->batch,
                               &(smoe_eval_options){.comm = r->comm}, eval, err);
        params->place = before;
    }
    free(slab);
    free(place);
    return status;
}

static void exchange_put(const smoe_inspection *r, smoe_frame *frame, size_t l, const char *experts,
                         const char *layers, const smoe_eval *eval) {
    smoe_inspect_put(r, frame, l, {"experts", .text = experts}, {"layers", .text = layers},
                     {smoe_metric_name(SMOE_METRIC_PRECISION), .number = eval->precision_at_1},
                     {"loss", .number = eval->loss});
}

/* Rows "own", one per layer, with which the other rows of the layer are compared. */
int smoe_fill_expert_value(const smoe_inspection *r, smoe_frame *frame, smoe_err *err) {
    static const struct {
        const char *name;
        exchange *rule;
    } rules[] = {{"mean", mean_of}, {"neighbour", neighbour_of}};
    smoe_params *params = smoe_model_params(r->subject.model);
    smoe_eval eval;
    if (!r->subject.exchange_experts) return 0;
    for (size_t l = 0; l < r->layers; l++) {
        exchange_put(r, frame, l, "own", "this", &r->eval);
        for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
            if (exchange_evaluate(r, params, rules[k].rule, l, l, &eval, err)) return -1;
            exchange_put(r, frame, l, rules[k].name, "this", &eval);
            if (l && exchange_evaluate(r, params, rules[k].rule, 0, l, &eval, err)) return -1;
            exchange_put(r, frame, l, rules[k].name, "up to", &eval);
        }
    }
    return 0;
}
