/*
 * What a model file without a spec says of its model: the keys that follow from the shapes of its
 * tensors, and those that a configuration beside it has (config.json and preprocessor_config.json
 * of Hugging Face and timm, open_clip_config.json). The latter matters where shapes are silent: the
 * epsilon of norms, GELU, heads.
 */
#ifndef SMOE_IMPLIED_H
#define SMOE_IMPLIED_H

#include "spec/spec.h"
#include "tensors/safetensors.h"

/* The keys as a spec in YAML with comments, for data of an image folder: fresh; NULL if there is
 * none. */
char *smoe_implied_spec(const smoe_safetensors *file);

/* SMOE_USAGE if the configuration beside a file says something else of its function than the spec;
 * the message has the values to write. SMOE_DATA if it says something that no model of this program
 * does. `pooled`: whether the head counts, which training may replace. */
int smoe_implied_check(const smoe_spec *spec, const smoe_safetensors *file, bool pooled,
                       smoe_err *err) SMOE_MUST_CHECK;

/* SMOE_DATA if the file, without a spec, is none of a model of this program, as far as is known. */
int smoe_implied_refuse(const smoe_safetensors *file, smoe_err *err) SMOE_MUST_CHECK;

/* A line for the user where the spec has another mean or standard deviation of pixels than the
 * configuration, or where a file of another program does not say what its tensors do not: fresh;
 * NULL: nothing. */
char *smoe_implied_remark(const smoe_spec *spec, const smoe_safetensors *file);

#endif
