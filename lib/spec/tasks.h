/* Tasks as specs and models see them: the entries of spec/tasks.def without the code, which is in
 * train/. */
#pragma once

#include "spec/spec.h"

enum {
    SMOE_TASKS = 0
#define TASK(...) +1
#include "spec/tasks.def"
};

/* Whether it compares images with captions, which needs a text tower, and not with classes. */
bool smoe_task_pairs(smoe_loss loss);

/* The initial bias of N classes, or of the pairs of N images; 0: pairs have none. */
double smoe_task_bias(smoe_loss loss, size_t N);
/* The initial factor of the cosines of pairs. */
double smoe_task_factor(smoe_loss loss);
