/* A spec whose number of steps follows from a budget of training FLOPs. */
#ifndef SMOE_BUDGET_H
#define SMOE_BUDGET_H

#include "spec/spec.h"

/* As smoe_spec_parse_text. Where train.flops is given, train.steps becomes the number of whole
 * steps that it allows, and train.flops 0, so that the resolved spec has steps alone. The number of
 * classes is read from the data where the spec does not give it. SMOE_USAGE: less than one step. */
int smoe_budget_parse(smoe_spec *spec, const smoe_spec_text *text, char *const *overrides,
                      size_t count, smoe_err *err) SMOE_MUST_CHECK;

#endif
