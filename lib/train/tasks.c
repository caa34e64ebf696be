/* The table of tasks; see task.h. */
#include "spec/tasks.h"
#include "train/task.h"

const smoe_task *smoe_task_of(smoe_loss loss) {
#define TASK(id, name, task, ...) extern const smoe_task task;
#include "spec/tasks.def"
    static const smoe_task *const tasks[SMOE_TASKS] = {
#define TASK(id, name, task, ...) [SMOE_LOSS_##id] = &task,
#include "spec/tasks.def"
    };
    return tasks[loss];
}
