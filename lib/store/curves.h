/*
 * The numbers of a run over its steps, read from its records while it may still be training, for
 * `smoe watch`, `smoe serve` and comparisons. Lists of a record are left out. And the runs in
 * folders that are read again and again, with their status: files that have not changed are not
 * read again.
 */
#pragma once

#include "base/base.h"

#include <time.h>

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

/* Reads DIR/metrics.jsonl; with `progress` also epoch and wall_s, which every record has. Release
 * with smoe_curves_free in any case. */
int smoe_curves_read(smoe_curves *curves, const char *dir, bool progress,
                     smoe_err *err) SMOE_MUST_CHECK;
void smoe_curves_free(smoe_curves *curves);

/* The curve of that name, or NULL. */
const smoe_curve *smoe_curves_find(const smoe_curves *curves, const char *name);

/* The word of DIR/STATUS, or "killed" where it says running and no process has the run; "waiting"
 * without such a file. */
void smoe_curves_status(const char *dir, char buf[16]);

/* A run, and its numbers when its files were read. */
typedef struct smoe_followed {
    char *dir;
    char status[16]; /* that of smoe_curves_status, or "lost" */
    char *problem;   /* why it is lost: it cannot be read; or NULL */
    double steps;    /* train.steps; NAN where the spec cannot be read */
    smoe_curves curves;
    struct {
        uint64_t inode;
        int64_t size;
        struct timespec changed; /* its st_ctim: a copy or a move may keep st_mtim */
    } file[2];                   /* metrics.jsonl, spec.yaml */
} smoe_followed;

typedef struct smoe_follow {
    smoe_followed *run;
    size_t runs;
} smoe_follow;

/* The current runs of folders, by name: a folder itself, or the runs and the cells of sweeps in it.
 * Files that have not changed since the last call are not read again. A run that cannot be read, or
 * a folder that is neither, is lost; if `strict`, an error. Among several folders, those that are
 * there and are neither are left out, unless all are. `follow` begins as {0}. */
int smoe_follow_read(smoe_follow *follow, char *const *dir, size_t dirs, bool strict,
                     smoe_err *err) SMOE_MUST_CHECK;
void smoe_follow_free(smoe_follow *follow);
