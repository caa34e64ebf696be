/*
 * A learning rate from one short run (Smith, 2017, arXiv:1506.01186): the rate grows exponentially
 * from step to step until the loss grows. The trainer runs it; this file computes the rates and the
 * result.
 */
#pragma once

#include "spec/spec.h"

enum { SMOE_FIND_DECADES = 7, SMOE_FIND_STEPS = 20 * SMOE_FIND_DECADES }; /* from 1e-6 to 10 */

typedef struct smoe_find_rate {
    smoe_spec *spec;
    double given;                                        /* the rate of the spec */
    double rate[SMOE_FIND_STEPS], loss[SMOE_FIND_STEPS]; /* and the running mean of the loss */
    double mean, least;
    size_t steps;
} smoe_find_rate;

/* Turns `spec` into that of a short run without evaluations and checkpoints. Borrows it. */
void smoe_find_rate_begin(smoe_find_rate *find, smoe_spec *spec);

/* After a step of the run: the rate of the next one; or the run ends, as its loss has grown. */
void smoe_find_rate_step(smoe_find_rate *find, double loss);

/* The rate at which the running mean of the loss had fallen half of the way to its minimum, to one
 * digit; NAN if there were too few steps. */
double smoe_find_rate_result(const smoe_find_rate *find);
