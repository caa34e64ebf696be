/* Adafactor, one of the optimisers of optim.h; the equations are in adafactor.c. */
#ifndef SMOE_ADAFACTOR_H
#define SMOE_ADAFACTOR_H

#include "base/param.h"
#include "spec/spec.h"

/* The second moments as params->second; and their number. */
int smoe_adafactor_allocate(smoe_params *params, smoe_err *err) SMOE_MUST_CHECK;
double smoe_adafactor_numbers(const smoe_params *params);

/* One update from the gradients, which it leaves zero or as they are (smoe_param_streams). */
void smoe_adafactor_step(smoe_params *params, const smoe_train_spec *spec, size_t step,
                         double clip);

#endif
