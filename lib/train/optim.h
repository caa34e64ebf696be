/*
 * Optimisers: Adam, SGD with momentum and Adafactor over the parameter table, decoupled weight
 * decay times the learning rate, clipping by the global norm. Leaves to others: the learning rate
 * and the weight decay (schedule.h).
 */
#pragma once

#include "base/param.h"
#include "comm/comm.h"
#include "spec/spec.h"

/* Allocates weights, gradients, and the moments in the form that the optimiser needs. From here on
 * there must be train.pieces backward passes per update, because gradients of experts with few rows
 * are left as outer products (base/param.h). */
int smoe_optim_allocate(smoe_params *params, const smoe_train_spec *spec,
                        smoe_err *err) SMOE_MUST_CHECK;

/* One update of the moving average e of all weights w with decay b (train.ema), from the number of
 * updates done so far, t - 1: e += (1 - b)/(1 - b^t) (w - e). That is the average from 0,
 * e' = b e' + (1 - b) w, divided by 1 - b^t, the sum of its weights: after the first update it is w
 * itself, without a share of the initial values (V B.4: debiased). */
void smoe_optim_average(smoe_params *params, double decay, uint64_t updates);

/* Bytes of the moments of a table, which need not have slabs: 8 per trained parameter with Adam, 6
 * and 4 with moments in BF16; with Adafactor half of that, plus the factors. */
double smoe_optim_bytes(const smoe_params *params, const smoe_train_spec *spec);

/* Whether gradients may be left as outer products (base/param.h). */
bool smoe_optim_outer(const smoe_train_spec *spec);

/* Sum of the squares of the gradients of parameters first .. end of the table, in double, in an
 * order that does not depend on threads; and the norm of them all. */
double smoe_optim_square(const smoe_params *params, size_t first, size_t end);
double smoe_optim_norm(const smoe_params *params);

/* For processes that share the table in units of SMOE_OPTIM_UNIT elements of its slabs. Writes the
 * sums of squares of units first .. end to square [end - first]. The sum over all units, in their
 * order, is the square of the norm above, if there are several passes per update. */
enum { SMOE_OPTIM_UNIT = 1 << 15 };
void smoe_optim_unit_squares(double *square, const smoe_params *params, size_t first, size_t end);
/* The elements [*first, *end) of the slabs, tensors that are divided excepted, whose gradients
 * process `rank` of `size` sums, and which it updates: its range of the units. */
void smoe_optim_range(const smoe_params *params, int rank, int size, size_t *first, size_t *end);
/* Of one unit, of n elements. */
double smoe_optim_unit_square(const real *g, size_t n);

/* The gradients of the elements at .. at + n of the slabs: in the slab, or in room [n], where outer
 * products are computed. */
const real *smoe_optim_gradients(const smoe_params *params, size_t at, size_t n, real *room);

/* One update from the gradients, scaled by min(1, clip/norm); leaves them zero, or fresh
 * (base/param.h). `step`: updates done so far. Moments in BF16 are updated as `real` and rounded:
 * the first, which changes by a tenth of itself (V B.3), to nearest; the second, which changes by a
 * thousandth, less than half of BF16's last bit, up or down by chance so that its expectation is
 * right. Rounded to nearest it would stand still: never fall, and rise only to gradients far above
 * it. The chance is keyed by (parameter, step, place). */
void smoe_optim_step(smoe_params *params, const smoe_train_spec *spec, size_t step, double norm);

/* Whether a part of the elements can be updated without the others. If so, updates only elements
 * first .. end of the slabs, else all of them. */
bool smoe_optim_shards(const smoe_train_spec *spec);
void smoe_optim_step_range(smoe_params *params, const smoe_train_spec *spec, size_t step,
                           double norm, size_t first, size_t end);

/* ---- Adafactor, for optim.c; the equations are in adafactor.c -------------------------------- */

/* The second moments as params->second; and their number. */
int smoe_adafactor_allocate(smoe_params *params, smoe_err *err) SMOE_MUST_CHECK;
double smoe_adafactor_numbers(const smoe_params *params);

/* One update from the gradients, which it leaves zero or as they are (smoe_param_streams). */
void smoe_adafactor_step(smoe_params *params, const smoe_train_spec *spec, size_t step,
                         double clip);
