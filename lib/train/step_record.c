/* The metrics of a step; see step_record.h. */
#include "train/step_record.h"
#include "spec/routers.h"
#include "store/run.h"

static void metric_set(json_t *r, smoe_metric metric, double value) {
    smoe_run_metric(r, metric, NULL, 0, value);
}

static void add_router_metrics(const smoe_step *s, json_t *r) {
    for (size_t i = 0; smoe_model_routes(s->model) && i < smoe_model_moe_layers(s->model); i++) {
        const smoe_plan *plan = &smoe_model_router(s->model, i)->plan;
        const smoe_plan_stats stats = s->stats[i];
        const struct {
            smoe_metric metric;
            double value;
            bool wanted;
        } statistic[] = {
            {SMOE_METRIC_DISPATCH_MAX, stats.dispatch_max, !plan->sparse},
            {SMOE_METRIC_COMBINE_MAX, stats.combine_max, !plan->sparse},
            {SMOE_METRIC_TOKENS_PER_SLOT, stats.tokens_per_slot, !plan->sparse},
            {SMOE_METRIC_SLOTS_PER_TOKEN, stats.slots_per_token, !plan->sparse},
            {SMOE_METRIC_SCALE, stats.scale, stats.scale != 0},
            {SMOE_METRIC_DROPPED, stats.dropped, plan->sparse},
        };
        size_t block = smoe_model_moe_block(s->model, i);
        for (size_t k = 0; k < sizeof statistic / sizeof *statistic; k++)
            if (statistic[k].wanted)
                smoe_run_metric(r, statistic[k].metric, NULL, block, statistic[k].value);
    }
}

/* Whether there is an auxiliary loss; it may be 0. */
static bool step_balances(const smoe_step *s) {
    const smoe_router_entry *router = smoe_router_find(s->spec->model.moe.router);
    return smoe_model_routes(s->model) && smoe_router_counts_experts(router) &&
           (s->spec->model.moe.balance == SMOE_BALANCE_LOSS ||
            s->spec->model.moe.balance == SMOE_BALANCE_SUPERCLASS ||
            router->family == SMOE_FAMILY_THRESHOLD);
}

static bool has_z_loss(const smoe_step *s) {
    const smoe_moe_spec *moe = &s->spec->model.moe;
    return smoe_model_routes(s->model) && moe->z_weight > 0 &&
           smoe_router_heeds(smoe_router_find(moe->router), "z_weight");
}

void smoe_step_record(json_t *r, const smoe_step *s, double rate, double images_per_s,
                      double waited_s) {
    metric_set(r, SMOE_METRIC_TRAIN_LOSS, s->loss);
    metric_set(r, SMOE_METRIC_TRAIN_PRECISION, s->precision);
    metric_set(r, SMOE_METRIC_LR, rate);
    metric_set(r, SMOE_METRIC_GRADIENT_NORM, s->norm);
    metric_set(r, SMOE_METRIC_IMAGES_PER_S, images_per_s);
    metric_set(r, SMOE_METRIC_WAITED_S, waited_s);
    if (step_balances(s)) metric_set(r, SMOE_METRIC_AUX_LOSS, s->aux);
    if (has_z_loss(s)) metric_set(r, SMOE_METRIC_Z_LOSS, s->z);
    add_router_metrics(s, r);
}
