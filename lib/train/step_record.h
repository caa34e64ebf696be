/* Which metrics the record of a training step has: those of the step, and the routing of each MoE
 * layer. */
#ifndef SMOE_STEP_RECORD_H
#define SMOE_STEP_RECORD_H

#include "train/step.h"

#include <jansson.h>

/* Adds the metrics of the last step, whose routing was measured. rate: the learning rate; waited_s:
 * how long the loader was waited for. */
void smoe_step_record(json_t *record, const smoe_step *step, double rate, double images_per_s,
                      double waited_s);

#endif
