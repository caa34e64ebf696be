/*
 * A model for the functions of the public header, from a file and a spec that are open already.
 */
#pragma once

#include "spec/spec.h"
#include "tensors/safetensors.h"
#include "vit/model.h"

/* As smoe_model_load. The model takes over spec and file, also where it fails: they are empty then.
 */
int smoe_model_of(smoe_model **model, smoe_spec *spec, smoe_safetensors **file,
                  smoe_err *err) SMOE_MUST_CHECK;
