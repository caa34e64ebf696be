/* What specs know of tasks; see tasks.h. */
#include "spec/tasks.h"

#include <math.h>

double smoe_task_head_bias(smoe_loss loss, size_t N) {
    const double bias[SMOE_TASKS] = {
#define TASK(id, name, task, bias, help) [SMOE_LOSS_##id] = bias,
#include "spec/tasks.def"
#undef TASK
    };
    return bias[loss];
}
