/* Learning rates and weight decay; see schedule.h. */
#include "train/schedule.h"

static double schedule_decayed(const smoe_train_spec *spec, double t) {
    double W = (double)spec->schedule.warmup.steps, steps = (double)spec->steps;
    double start = (double)spec->schedule.start;
    switch (spec->schedule.name) {
    case SMOE_SCHEDULE_LINEAR: return (steps - t + start) / (steps - W);
    case SMOE_SCHEDULE_COSINE: return (1 + cos(M_PI * (t - W) / (steps - W + start))) / 2;
    case SMOE_SCHEDULE_RSQRT: return 1 / sqrt(1 + (t - W) / (double)spec->schedule.timescale);
    case SMOE_SCHEDULE_CONSTANT: break;
    }
    return 1;
}

double smoe_schedule_rate(const smoe_train_spec *spec, size_t step) {
    double peak = spec->optimizer.lr, W = (double)spec->schedule.warmup.steps;
    double t = (double)(step + spec->schedule.start);
    if (spec->schedule.name == SMOE_SCHEDULE_CONSTANT) return peak;
    size_t cooldown =
        spec->schedule.name == SMOE_SCHEDULE_RSQRT ? spec->schedule.cooldown.steps : 0;
    double share = 1;
    if (cooldown && step + cooldown >= spec->steps) {
        share = (double)(spec->steps - step) / (double)cooldown;
        t = (double)(spec->steps - cooldown);
    }
    if (t <= W && W > 0) return peak * share * t / W;
    return peak * share * schedule_decayed(spec, t);
}

double smoe_schedule_rate_of(const smoe_train_spec *spec, const smoe_param *p, size_t step) {
    if (p->rule.until && step >= p->rule.until) return 0;
    return smoe_schedule_rate(spec, step) * p->rule.lr;
}

double smoe_schedule_decay(const smoe_train_spec *spec, const smoe_param *p) {
    if (p->rule.decay >= 0) return p->rule.decay;
    switch (p->group) {
    case SMOE_PARAM_KERNEL: return spec->optimizer.weight_decay;
    case SMOE_PARAM_HEAD: return spec->optimizer.head_weight_decay;
    case SMOE_PARAM_PLAIN: break;
    }
    return 0;
}
