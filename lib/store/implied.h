/*
 * What a model file without a spec says about its model: the keys that follow from the shapes of
 * its tensors, and those that a configuration beside it has (config.json and
 * preprocessor_config.json of Hugging Face and timm, open_clip_config.json). The latter have what
 * shapes do not show: the epsilon of norms, GELU, heads.
 */
#pragma once

#include "spec/spec.h"
#include "tensors/safetensors.h"

/* *text: the keys as a spec in YAML with comments, for data of an image folder: fresh; NULL if
 * there is none. SMOE_DATA if a configuration beside the file cannot be read. */
int smoe_implied_spec(char **text, const smoe_safetensors *file, smoe_err *err) SMOE_MUST_CHECK;

/* SMOE_USAGE if the configuration beside a file, or its own spec, contradicts the spec; the message
 * has the values to write. SMOE_DATA if it asks for something that this program does not have.
 * `pooled`: whether the head, which training may replace, matters. */
int smoe_implied_check(const smoe_spec *spec, const smoe_safetensors *file, bool pooled,
                       smoe_err *err) SMOE_MUST_CHECK;

/* SMOE_DATA if a file without a spec is not one of a model of this program, as far as can be
 * seen. */
int smoe_implied_refuse(const smoe_safetensors *file, smoe_err *err) SMOE_MUST_CHECK;

/* A line for the user if the spec prepares pixels in another way (mean, standard deviation,
 * orientation, squares) than the configuration or the file's own spec, or if nothing beside a file
 * of another program says what its tensors do not show; fresh; NULL: nothing to say. */
char *smoe_implied_remark(const smoe_spec *spec, const smoe_safetensors *file);
