/* The table of tasks for specs; see tasks.h. */
#include "spec/tasks.h"

enum bias { NONE, CHANCE };

static const struct {
    enum { CLASSES, PAIRS } compared;
    bool chance;
    double factor;
} tasks[SMOE_TASKS] = {
#define TASK(id, name, task, compared, bias, factor, help) \
    [SMOE_LOSS_##id] = {compared, (bias) == CHANCE, factor},
#include "spec/tasks.def"
};

bool smoe_task_pairs(smoe_loss loss) {
    return tasks[loss].compared == PAIRS;
}

double smoe_task_bias(smoe_loss loss, size_t N) {
    return tasks[loss].chance ? -log((double)N) : 0;
}

double smoe_task_factor(smoe_loss loss) {
    return tasks[loss].factor;
}
