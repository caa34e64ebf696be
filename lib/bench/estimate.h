/*
 * What training would cost on this machine: parameters, FLOPs and memory according to bench/cost.h,
 * and the time of the steps, measured if that is quick. Dry runs must be fast: models that do
 * not fit into memory get no time, the time of large ones is estimated from the rate of a
 * reference, and after some seconds of measurements the last measured rate is used.
 */
#ifndef SMOE_ESTIMATE_H
#define SMOE_ESTIMATE_H

#include "bench/cost.h"

typedef struct smoe_estimate {
    double params, flops, bytes; /* flops: of the whole training */
    double slots;                /* of the last MoE layer; 0: there is none */
    double seconds;              /* of all steps; NAN: it does not fit */
    bool measured;               /* else from the FLOPs and a rate */
    bool fits;                   /* into the memory of this machine */
} smoe_estimate;

/* All zero at first. */
typedef struct smoe_estimator {
    double memory;          /* bytes of this machine */
    double spent;           /* seconds, on measuring */
    double reference, last; /* FLOP/s: of the reference, and of the last spec measured */
} smoe_estimator;

/* The estimate for a spec whose cost is given. */
int smoe_estimate_make(smoe_estimate *estimate, smoe_estimator *estimator, const smoe_spec *spec,
                       size_t classes, const smoe_cost *cost, smoe_err *err) SMOE_MUST_CHECK;

/* The memory that this process may use, in bytes: that of the machine, or of its control group. */
double smoe_estimate_memory(void);

#endif
