/* Tasks as specs and models see them: the rows of spec/tasks.def without the code, which is in
 * train/. */
#ifndef SMOE_SPEC_TASKS_H
#define SMOE_SPEC_TASKS_H

#include "spec/spec.h"

enum {
    SMOE_TASKS = 0
#define TASK(...) +1
#include "spec/tasks.def"
#undef TASK
};

/* With which the bias of a classifier of N classes starts. */
double smoe_task_head_bias(smoe_loss loss, size_t N);

#endif
