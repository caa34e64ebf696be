/* What an update depends on besides gradients: the learning rate of a step, and the weight decay of
 * a parameter. */
#pragma once

#include "base/param.h"
#include "spec/spec.h"

/*
 * Learning rate of the step after `step` finished ones (step < steps). With t = step + 1:
 *   constant  peak
 *   others    peak t/W during warm-up (t <= W), then
 *   linear    peak (steps - step)/(steps - W)
 *   cosine    peak (1 + cos(pi (t - W)/(steps - W + 1)))/2
 *   rsqrt     peak / sqrt(1 + (t - W)/timescale), and over the last c steps the value reached
 *             there times (steps - step)/c, which would be 0 one step after the end
 */
double smoe_schedule_rate(const smoe_train_spec *spec, size_t step);

/* The rate of a parameter: 0 after the steps in which its group is trained. */
double smoe_schedule_rate_of(const smoe_train_spec *spec, const smoe_param *param, size_t step);

/* The weight decay of a parameter: that of its group, or else of its kind (kernels and the head's
 * kernel; biases and norms have none). */
double smoe_schedule_decay(const smoe_train_spec *spec, const smoe_param *param);
