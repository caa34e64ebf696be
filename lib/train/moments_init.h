/*
 * Optimiser state of another run: a run that starts from its weights may start with its moments too
 * (train --init --moments), so that the first updates are not larger than its last ones. Experts
 * that are copies of a dense MLP get copies of its moments. Tensors correspond as for the weights
 * (tensors/init_map.h); a tensor without moments in the file starts with zeros.
 */
#pragma once

#include "base/param.h"
#include "spec/spec.h"
#include "tensors/init_map.h"
#include "tensors/safetensors.h"

/* Whether a run of the spec can have moments from the checkpoint of `model`, the file of the
 * weights: it must be one of smoe, of the same optimiser, and not be upcycled with Adafactor, whose
 * second moments are means over a whole matrix, else SMOE_USAGE. */
int smoe_moments_init_check(const smoe_safetensors *model, const smoe_spec *spec, smoe_fit fit,
                            smoe_err *err) SMOE_MUST_CHECK;

/* The same, and opens the state beside `model`; SMOE_DATA if it is that of other weights. */
int smoe_moments_init_open(smoe_safetensors **state, const smoe_safetensors *model,
                           const smoe_spec *spec, smoe_fit fit, smoe_err *err) SMOE_MUST_CHECK;

/* Fills the moments, which are allocated, and params->carried; *text, fresh, is a line that says
 * how many came from the file. */
int smoe_moments_init_load(smoe_params *params, const smoe_safetensors *state, smoe_fit fit,
                           char **text, smoe_err *err) SMOE_MUST_CHECK;
