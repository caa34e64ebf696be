/*
 * Optimisers and schedules: Adam and SGD with momentum over the parameter table, decoupled weight
 * decay times the learning rate (kernels and the head's kernel; nothing on biases and norms),
 * clipping by the global norm.
 */
#ifndef SMOE_OPTIM_H
#define SMOE_OPTIM_H

#include "base/base.h"
#include "base/param.h"
#include "spec/spec.h"

/* Slabs the optimiser needs (see smoe_params_allocate). */
int smoe_optim_slabs(const smoe_train_spec *spec);

/*
 * Learning rate of the step after `step` finished ones (step < steps). With t = step + 1:
 *   constant  peak
 *   others    peak t/W during warm-up (t <= W), then
 *   linear    peak (steps - step)/(steps - W)
 *   cosine    peak (1 + cos(pi (t - W)/(steps - W + 1)))/2
 *   rsqrt     peak / sqrt(1 + (t - W)/timescale), and over the last c steps the value reached there
 * times (steps - step)/c, which would be 0 one step after the end
 */
double smoe_schedule_rate(const smoe_train_spec *spec, size_t step);

/* Norm of all gradients, in double, in an order that does not depend on threads. */
double smoe_optim_norm(const smoe_params *params);

/* One update from the gradients, scaled by min(1, clip/norm); leaves them zero. `step`: updates
 * done so far. */
void smoe_optim_step(smoe_params *params, const smoe_train_spec *spec, size_t step, double norm);

#endif
