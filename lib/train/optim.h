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

/* Weights, gradients, and the moments as the optimiser has them. From here on there must be one
 * backward pass for each update: where experts have few rows, what gradients are the product of
 * stands for them (base/param.h). */
int smoe_optim_allocate(smoe_params *params, const smoe_train_spec *spec,
                        smoe_err *err) SMOE_MUST_CHECK;

/* Bytes of moments for each parameter: 8 with Adam, 6 and 4 with some in BF16. */
size_t smoe_optim_bytes(const smoe_train_spec *spec);

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

/* Sum of the squares of the gradients of rows first .. end of the table, in double, in an order
 * that does not depend on threads; and the norm of them all. */
double smoe_optim_square(const smoe_params *params, size_t first, size_t end);
double smoe_optim_norm(const smoe_params *params);

/* One update from the gradients, scaled by min(1, clip/norm); leaves them zero, or fresh
 * (base/param.h). `step`: updates done so far. Moments in BF16 are updated as `real` and rounded:
 * the first, which changes by a tenth of itself (V B.3), to nearest; the second, which changes by a
 * thousandth, less than half of BF16's last bit, up or down by chance so that its expectation is
 * right. Rounded to nearest it would stand still: never fall, and rise only to gradients far above
 * it. The chance is keyed by (parameter, step, place). */
void smoe_optim_step(smoe_params *params, const smoe_train_spec *spec, size_t step, double norm);

#endif
