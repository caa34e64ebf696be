/*
 * Evaluations of trained trials at other settings than they were trained with: k, capacity,
 * priority, group, random routers (V-MoE 4.2, E.1, E.4). A sweep's `evaluate` has the points; every
 * trial, once trained, is evaluated at each of them.
 *
 *   DIR/claims/CELL.evaluations.json   a list with the results of the finished points, in order,
 *                                      and checksums of the images, by split
 *   DIR/claims/CELL.evaluation-N.npy   the outcome of each image at point N, in the format of
 *                                      outcomes.npy of a run (compare/outcomes.h)
 */
#pragma once

#include "data/scan.h"
#include "sweep/sweep.h"

/* Checks that `key` may change for a trained model. If not, SMOE_USAGE is added to err, with
 * `before` before the key. */
int smoe_evaluations_check_key(const char *before, const char *key, smoe_err *err) SMOE_MUST_CHECK;

/* Every combination of `axes` becomes a point of the sweep. SMOE_USAGE, naming all of them: keys
 * that cannot change after training, and combinations that are no valid spec of a trial or need
 * other parameters than it has. */
int smoe_evaluations_plan(smoe_sweep *sweep, const smoe_sweep_keys *keys,
                          smoe_err *err) SMOE_MUST_CHECK;

/* Evaluates the latest checkpoint of trial i, or that of the sweep (sweep/sweep.h), at the points
 * that are not done yet. The caller holds the claim. SMOE_STOPPED after a request to stop the scan
 * of data, which is also checked between points. `begun` is called when a point begins; both may be
 * NULL. */
int smoe_evaluations_run(const smoe_sweep *sweep, size_t i, smoe_scan *scan,
                         void (*begun)(void *user, size_t done, size_t of), void *user,
                         smoe_err *err) SMOE_MUST_CHECK;

/* The results of trial i so far, {loss, precision_at_1, dropped, fewshot_K ...} each: a new array;
 * and, unless `images` is NULL, the checksums of the images by split: a new object. SMOE_DATA when
 * the file is damaged. */
int smoe_evaluations_read(json_t **list, json_t **images, const smoe_sweep *sweep, size_t i,
                          smoe_err *err) SMOE_MUST_CHECK;

/* Removes the results of trial i, which is then evaluated again. */
int smoe_evaluations_forget(const smoe_sweep *sweep, size_t i, smoe_err *err) SMOE_MUST_CHECK;

/* The file with what became of the images at a point, fresh. */
char *smoe_evaluations_outcomes(const smoe_sweep *sweep, size_t i, size_t point);

/* The columns and settings of such a sweep: a trial for each trial and point, without results. Free
 * it with smoe_sweep_free. */
void smoe_evaluations_cross(smoe_sweep *table, const smoe_sweep *sweep);

/* The points as a sweep for sweep/results.h: a trial for each trial and point, with the columns of
 * both. Free it with smoe_sweep_free. SMOE_DATA where results of a trial that is done are lost. */
int smoe_evaluations_table(smoe_sweep *table, const smoe_sweep *sweep,
                           smoe_err *err) SMOE_MUST_CHECK;
