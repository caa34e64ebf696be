/* smoe verify: checks that files are unchanged since they were written. Runs and checkpoints are
 * checked by store/verify.h; sweeps by that and by the readers of sweep/; an archive of data is
 * read from its beginning to its end. */
#include "cmd.h"
#include "data/archive.h"
#include "spec/schema.h"
#include "tensors/npy.h"
#include "tensors/shards.h"
#include "store/verify.h"
#include "compare/outcomes.h"
#include "sweep/evaluations.h"
#include "sweep/results.h"
#include "sweep/trial.h"

#include <limits.h>
#include <unistd.h>

typedef struct shown {
    const smoe_options *options;
    smoe_frame *list; /* of --json */
    const volatile sig_atomic_t *stop;
} shown;

static bool asked_to_stop(const smoe_verifier *v) {
    return *((const shown *)v->user)->stop;
}

static smoe_scan *scan_of(const smoe_verifier *v) {
    return ((const shown *)v->user)->options->scan;
}

/* Verifying takes long, so lines are printed as they come. */
static void line(void *user, const char *path, const char *found, bool good) {
    const shown *s = user;
    char name[PATH_MAX];
    smoe_frame_put(s->list, {"path", .text = path}, {"good", SMOE_TRUTH_OF(good)},
                   {"found", .text = found});
    if (!s->options->json && (!good || !s->options->quiet))
        smoe_cmd_print(stdout, "%-4s %s: %s\n", good ? "ok" : "BAD",
                       smoe_text_shown(path, name, sizeof name), found);
}

/* ---- sweeps ---------------------------------------------------------------------------------- */

/* What became of the images at the first `points`. Evaluations of older versions have none of it;
 * if one point has it, all must. */
static int check_outcomes(const smoe_sweep *sweep, size_t i, size_t points, smoe_err *err) {
    size_t there = 0, lost = 0;
    for (size_t p = 0; p < points; p++) {
        bool sealed;
        SMOE_FREED char *path = smoe_evaluations_outcomes(sweep, i, p);
        bool held = !access(path, F_OK);
        if (held && smoe_npy_verify(path, &sealed, err)) return -1;
        there += held;
        lost += !held;
    }
    if (!there || !lost) return 0;
    return smoe_fail(err, SMOE_DATA, "the images of %zu of %zu evaluations are lost", lost, points);
}

/* 1: claimed; 0: another process runs the cell; -1. A claim that was left long ago, on another
 * machine or before this one was started, is watched for its lease, and then taken over. */
static int claim_cell(const smoe_sweep *sweep, size_t i, smoe_claim *claim, const smoe_scan *scan,
                      smoe_err *err) {
    enum { LEASE = 3600 }; /* it is not renewed: whoever takes it over computes the same */
    smoe_claim_seen seen = {0};
    for (;;) {
        int got = smoe_trial_claim(sweep, i, claim, LEASE, &seen, err);
        SMOE_FREED char *holder = got ? NULL : smoe_trial_holder(sweep, i);
        if (!got && holder) smoe_fail(err, SMOE_RUNTIME, "%s runs this cell", holder);
        bool decided = got || holder;
        if (decided) return got;
        if (smoe_scan_asked(scan, err)) return -1;
        sleep(1);
    }
}

static void verify_evaluations(smoe_verifier *v, smoe_sweep *sweep, size_t i) {
    json_auto_t *list = NULL;
    smoe_err err = {0};
    const char *name = sweep->trial[i].name;
    size_t want = sweep->evaluate.points;
    int status = smoe_evaluations_read(&list, NULL, sweep, i, &err);
    size_t have = json_array_size(list);
    if (!status) status = check_outcomes(sweep, i, have, &err);
    bool lost = status || have < want;
    if (lost && v->repair) {
        /* again at the points whose results are lost; at all of them where one is damaged. A
         * process that runs the cell has its claim, and evaluates it itself */
        SMOE_FREED_BY(smoe_claim_release) smoe_claim claim = {0};
        bool done = claim_cell(sweep, i, &claim, scan_of(v), &err) == 1 &&
                    !(status && smoe_evaluations_forget(sweep, i, &err)) &&
                    !smoe_evaluations_run(sweep, i, scan_of(v), NULL, NULL, &err);
        if (done)
            smoe_verify_say(v, name, true, "evaluated again");
        else if (err.code != SMOE_STOPPED)
            smoe_verify_blame(v, name, &err);
    } else if (status) {
        smoe_verify_blame(v, name, &err);
    } else {
        smoe_verify_say(v, name, !lost, "%zu of %zu evaluation%s", have, want, SMOE_S(want));
    }
}

/* The run in the folder of a cell has the settings of the cell: another one may have replaced it,
 * or it was trained further. */
static void verify_settings(smoe_verifier *v, const smoe_sweep *sweep, size_t i, const char *dir) {
    SMOE_FREED char *path = smoe_text_format("%s/spec.yaml", dir),
                    *differ = smoe_trial_differs(sweep, i);
    char key[SMOE_KEY_SIZE];
    for (const char *names = differ ? differ : ""; smoe_text_next(&names, ' ', key, sizeof key);)
        smoe_verify_say(v, path, false, "%s is not that of this cell: %s", key,
                        strcmp(key, "train.steps") ? "it is another run"
                                                   : "it was trained further");
}

static void verify_trial(smoe_verifier *v, smoe_sweep *sweep, size_t i) {
    const smoe_trial *trial = &sweep->trial[i];
    SMOE_FREED char *dir = smoe_trial_dir(sweep, i);
    smoe_err err = {0};
    int status = smoe_trial_look(sweep, i, &err);
    bool done = trial->state == SMOE_TRIAL_DONE;
    if (status)
        smoe_verify_blame(v, trial->name, &err);
    else if (trial->outcome)
        smoe_verify_say(v, trial->name, true, "%s, %s", done ? "done" : "failed",
                        trial->sealed ? "unchanged" : "without a digest; contents not checked");
    /* what smoe sweep --pack leaves of a run: the outcomes of its images */
    SMOE_FREED char *path = smoe_trial_outcomes(sweep, i);
    SMOE_FREED float *outcome = NULL;
    size_t images = 0;
    smoe_err ignored;
    bool packed = done && !smoe_file_holds(dir, "metrics.jsonl") &&
                  !smoe_outcomes_read(&outcome, &images, path, 0, NAN, &ignored) && outcome;
    if (packed)
        smoe_verify_say(v, dir, true, "packed: the outcomes of its images, without the run");
    else if (smoe_file_is_folder(dir)) {
        smoe_verify_run(v, dir);
        verify_settings(v, sweep, i, dir);
    } else if (done)
        smoe_verify_say(v, dir, false, "this cell is done, but has no run directory");
    if (sweep->evaluate.points && done) verify_evaluations(v, sweep, i);
}

/* The tables are computed from the other files, so they can be computed again. */
static void repair_tables(smoe_verifier *v, smoe_sweep *sweep, const char *dir) {
    SMOE_FREED_BY(smoe_results_free) smoe_results results = {0};
    smoe_err err = {0};
    int status = smoe_results_make(&results, sweep, &err);
    if (!status) status = smoe_results_write(&results, &err);
    if (status)
        smoe_verify_blame(v, dir, &err);
    else
        smoe_verify_say(v, dir, true, "tables computed again");
}

static void verify_sweep(smoe_verifier *v, const char *dir) {
    SMOE_FREED_BY(smoe_sweep_free) smoe_sweep sweep = {0};
    smoe_err err = {0};
    SMOE_FREED char *claims = smoe_text_format("%s/claims", dir);
    smoe_verify_left(v, dir, SMOE_FILE_GONE_OR_OLD);
    smoe_verify_left(v, claims, SMOE_FILE_GONE_OR_OLD);
    if (smoe_sweep_read(&sweep, dir, &err)) {
        smoe_verify_blame(v, dir, &err);
    } else {
        smoe_verify_say(v, dir, true, "the ledger of %zu cell%s, %s", sweep.trials,
                        SMOE_S(sweep.trials),
                        sweep.sealed ? "unchanged" : "its first line not verified");
        /* the checkpoint of a sweep of a run, which may have gone on since */
        SMOE_FREED char *model = sweep.run ? smoe_kept_model(&sweep) : NULL;
        if (model && strcmp(model, sweep.checkpoint) != 0) smoe_verify_file(v, model);
        for (size_t i = 0; i < sweep.trials && !asked_to_stop(v); i++) verify_trial(v, &sweep, i);
        if (v->repair && !v->bad && !asked_to_stop(v)) repair_tables(v, &sweep, dir);
    }
}

/* ---- archives -------------------------------------------------------------------------------- */

static int read_member(void *user, const smoe_member *member, smoe_err *err) {
    size_t *files = user;
    if (member->folder) return 0;
    if (smoe_member_skim(member, err)) return -1;
    ++*files;
    return 0;
}

static void verify_archive(smoe_verifier *v, const char *path) {
    size_t files = 0;
    smoe_err err = {0};
    int status = smoe_walk(path, &(smoe_visitor){read_member, &files, scan_of(v)}, &err);
    if (status && err.code != SMOE_STOPPED)
        smoe_verify_blame(v, path, &err);
    else if (!status)
        smoe_verify_say(v, path, true, "%zu file%s, read to the end", files, SMOE_S(files));
}

/* ---- the command ----------------------------------------------------------------------------- */

/* A folder without anything of a run, a sweep or a checkpoint, such as that of a report. */
static bool is_other(const char *path) {
    static const char *const names[] = {"cells.jsonl", "spec.yaml", "ckpt", "STATUS",
                                        "metrics.jsonl"};
    for (size_t i = 0; i < SMOE_COUNT(names); i++)
        if (smoe_file_holds(path, names[i])) return false;
    return smoe_file_is_folder(path) && !smoe_shards_held(path, "model.safetensors");
}

static void verify(smoe_verifier *v, const char *path) {
    smoe_place_kind kind;
    smoe_err err = {0};
    bool folder = smoe_file_is_folder(path);
    if (folder && smoe_file_holds(path, "cells.jsonl"))
        verify_sweep(v, path);
    else if (folder && !smoe_run_is_folder(path) && smoe_shards_held(path, "model.safetensors"))
        smoe_verify_checkpoint(v, path);
    else if (folder && (smoe_file_holds(path, "spec.yaml") || smoe_file_holds(path, "ckpt")))
        smoe_verify_run(v, path);
    else if (folder)
        smoe_verify_say(v, path, false, "neither a run, a sweep nor a checkpoint");
    else if (smoe_run_is_model(path)) /* zip files of weights are no archives of images */
        smoe_verify_file(v, path);
    else if (smoe_place_kind_of(&kind, path, &err))
        smoe_verify_blame(v, path, &err);
    else if (kind == SMOE_PLACE_ARCHIVE)
        verify_archive(v, path);
    else
        smoe_verify_file(v, path);
}

int cmd_verify(const smoe_options *options, smoe_err *err) {
    smoe_result result = {0};
    shown s = {.options = options, .list = smoe_result_records(&result, "")};
    smoe_verifier v = {.line = line, .user = &s, .repair = options->repair};
    if (smoe_cmd_catch(&s.stop, options->scan, err)) return -1;
    size_t others = 0;
    for (size_t i = 0; i < options->args; i++) others += is_other(options->arg[i]);
    for (size_t i = 0; i < options->args && !*s.stop; i++)
        if (others == options->args || !is_other(options->arg[i]))
            verify(&v, options->arg[i]);
        else if (!options->quiet)
            smoe_cmd_print(stderr, "%s: left out: neither a run, a sweep nor a checkpoint\n",
                           options->arg[i]);
    bool stopped = *s.stop;
    if (!v.bad && !stopped && !options->quiet)
        smoe_result_line(&result, NULL, "%zu checked, nothing is damaged or missing", v.looked);
    if (smoe_cmd_emit(&result, options, err)) return -1;
    if (stopped)
        return smoe_fail(err, SMOE_STOPPED,
                         "stopped on request: %zu checked, %zu of them damaged or missing",
                         v.looked, v.bad);
    if (!v.bad) return 0;
    if (v.failed == v.bad)
        return smoe_fail(err, SMOE_RUNTIME, "%zu of %zu could not be read or repaired", v.bad,
                         v.looked);
    return smoe_fail(err, SMOE_DATA, "%zu of %zu are damaged or missing", v.bad, v.looked);
}
