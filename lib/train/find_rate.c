/* The rates of a learning-rate finder; see find_rate.h. */
#include "train/find_rate.h"

static const double lowest = 1e-6;
static const double memory = 0.8; /* of the running mean of losses, per step */
static const double grown = 1.2;  /* times the loss at small rates: the run ends */
static const double fallen = 0.5; /* share of the fall of the loss at the suggested rate */
enum { FIRST = 20 };              /* steps at small rates */

void smoe_find_rate_begin(smoe_find_rate *find, smoe_spec *spec) {
    smoe_train_spec *train = &spec->train;
    *find = (smoe_find_rate){.spec = spec, .given = train->optimizer.lr, .least = INFINITY};
    train->optimizer.lr = lowest;
    train->schedule.name = SMOE_SCHEDULE_CONSTANT;
    train->steps = SMOE_FIND_STEPS + 1; /* never reached, so no checkpoint is written */
    train->log_every = 1;
    train->eval_every = train->patience = train->checkpoint_every = train->keep_every = 0;
    train->checkpoint_minutes = 0;
}

void smoe_find_rate_step(smoe_find_rate *find, double loss) {
    smoe_train_spec *train = &find->spec->train;
    size_t i = find->steps++;
    find->mean += (1 - memory) * (loss - find->mean);
    find->rate[i] = train->optimizer.lr;
    find->loss[i] = find->mean / (1 - pow(memory, (double)find->steps));
    if (i >= FIRST) find->least = fmin(find->least, find->loss[i]);
    if (find->steps == SMOE_FIND_STEPS || (i > FIRST && find->loss[i] > grown * find->loss[FIRST]))
        train->steps = find->steps;
    train->optimizer.lr =
        lowest * pow(10, (double)find->steps * SMOE_FIND_DECADES / (SMOE_FIND_STEPS - 1));
}

double smoe_find_rate_result(const smoe_find_rate *find) {
    char digit[32];
    size_t i = FIRST;
    if (find->steps <= FIRST) return NAN;
    double level = find->loss[FIRST] + fallen * (find->least - find->loss[FIRST]);
    while (find->loss[i] > level) i++; /* to the least one at most */
    snprintf(digit, sizeof digit, "%.0e", find->rate[i]);
    return strtod(digit, NULL);
}
