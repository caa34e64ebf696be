/*
 * The numbers of a run over its steps, read from its records while it may still go on: what
 * `smoe watch` and `smoe serve` show. Lists of a record are left out.
 */
#ifndef SMOE_CURVES_H
#define SMOE_CURVES_H

#include "base/base.h"

typedef struct smoe_curve {
    char *name;           /* of the metric; of a layer in an evaluation with the split before it */
    double *step, *value; /* [points] */
    size_t points;
} smoe_curve;

typedef struct smoe_curves {
    smoe_curve *curve;
    size_t count;
    double step, wall_s; /* of the last record; 0 without any */
} smoe_curves;

/* Reads DIR/metrics.jsonl. Release with smoe_curves_free in any case. */
int smoe_curves_read(smoe_curves *curves, const char *dir, smoe_err *err) SMOE_MUST_CHECK;
void smoe_curves_free(smoe_curves *curves);

/* The curve of that name, or NULL. */
const smoe_curve *smoe_curves_find(const smoe_curves *curves, const char *name);

/* The runs of a folder: itself, or those in it and the cells of sweeps in it, by name; fresh paths,
 * each freed by the caller, as the list is. A folder that is neither is SMOE_DATA. */
int smoe_curves_runs(char ***runs, size_t *count, const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* The word of DIR/STATUS ("running"), or "killed" where it says running and no process has the run;
 * "waiting" without such a file. */
const char *smoe_curves_status(const char *dir, char buf[16]);

#endif
