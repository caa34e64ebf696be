/* The table of tasks for specs; see tasks.h. */
#include "spec/tasks.h"

#include <math.h>

enum compared { CLASSES, PAIRS };

bool smoe_task_pairs(smoe_loss loss) {
    static const enum compared of[SMOE_TASKS] = {
#define TASK(id, name, task, compared, ...) [SMOE_LOSS_##id] = compared,
#include "spec/tasks.def"
#undef TASK
    };
    return of[loss] == PAIRS;
}

double smoe_task_bias(smoe_loss loss, size_t N) {
    const double bias[SMOE_TASKS] = {
#define TASK(id, name, task, compared, bias, ...) [SMOE_LOSS_##id] = bias,
#include "spec/tasks.def"
#undef TASK
    };
    return bias[loss];
}

double smoe_task_factor(smoe_loss loss) {
    static const double factor[SMOE_TASKS] = {
#define TASK(id, name, task, compared, bias, factor, help) [SMOE_LOSS_##id] = factor,
#include "spec/tasks.def"
#undef TASK
    };
    return factor[loss];
}
