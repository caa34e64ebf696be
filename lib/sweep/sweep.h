/*
 * Sweeps: the trials of a grid of specs, fixed in a manifest and claimed by the processes that run
 * them. Leaves to others: running a trial (sweep/runner.h forks, sweep/trial_run.h trains), tables
 * (sweep/results.h).
 *
 *   DIR/cells.jsonl        the manifest: a first line about the sweep, then one line per trial
 *   DIR/CELL/              its run directory
 *   DIR/claims/CELL.claim  the process that has created it runs the trial (sweep/claim.h); trials
 *                          of processes that are gone are free again
 *   DIR/claims/CELL.json   the outcome, when the trial has ended
 *   DIR/claims/checkpoint/ the weights of a sweep of a run (smoe_kept_make)
 *
 * A sweep may evaluate its trained trials at other settings (sweep/evaluations.h). One over a run
 * that is there has that run as its only trial, and trains nothing.
 *
 * err must not be NULL where a function takes one: messages are built up in it.
 */
#pragma once

#include "base/file.h" /* with the next one, what most files of this room use */
#include "base/json.h"
#include "spec/spec.h"
#include "sweep/axes.h"
#include "sweep/claim.h"
#include "tensors/init_map.h"
#include "tensors/safetensors.h"

typedef enum smoe_trial_state {
    SMOE_TRIAL_OPEN,
    SMOE_TRIAL_DONE,
    SMOE_TRIAL_FAILED
} smoe_trial_state;

typedef struct smoe_trial {
    char *name;   /* "003-experts=8,seed=1" */
    char **value; /* [columns of the sweep] */
    char *spec;   /* resolved, as JSON with sorted keys and full digits */
    uint64_t hash;
    uint64_t meaning; /* of combinations: equal where they are the same, however written */
    char *outcomes;   /* of an evaluation: the file with what became of each image; else NULL */
    smoe_trial_state state; /* as last looked at */
    json_t *outcome; /* {"status", "result": {...}} or {"status", "code", "error"}, or NULL */
    bool sealed;     /* its file has a digest, which is right */
    bool left_out;   /* this process does not run it, see smoe_choose_trials */
} smoe_trial;

/* How trials take what they start from. */
typedef struct smoe_start {
    bool upcycle;            /* their experts start as copies of the dense MLP */
    bool moments;            /* the optimiser's moments start from there too */
    bool partial;            /* it may lack tensors, or have others */
    smoe_file_choice choice; /* of a file of another program */
} smoe_start;

typedef struct smoe_sweep {
    char *dir;  /* NULL before create or open */
    char *name; /* of the spec */
    char **column;
    size_t columns;
    size_t seed; /* the column that is the seed; SIZE_MAX: none */
    smoe_trial *trial;
    size_t trials;
    smoe_points evaluate; /* what each trained trial is evaluated at; points 0: nothing */
    char *run,
        *checkpoint; /* the run that is the only trial, and its weights; NULL: trials train */
    char *init;      /* what trials start from, see smoe_start_set; NULL: new weights */
    smoe_start start;
    smoe_sweep_figure figure; /* what the figures show */
    smoe_sweep_plan plan;     /* primary contrasts and margins, see below */
    char *reference;          /* what groups are compared with, see below; NULL: the first */
    bool sealed;              /* the manifest has a digest, which is right */
    size_t skipped;           /* combinations that are no valid spec */
    char *remarks;            /* lines on values of the spec that act in no trial, or NULL */
} smoe_sweep;

/* ---- trials ---------------------------------------------------------------------------------- */

/* Every combination, the last axis fastest, each resolved. Combinations that are no valid spec are
 * all named in err (SMOE_USAGE); with `skip` they are left out, and err has
 * their names although the call succeeds. Two that are the same are refused (SMOE_USAGE), and so is
 * an override, of a key that is swept or not, that has no effect in any trial; values of the spec's
 * file without effect are named in sweep->remarks. */
int smoe_sweep_expand(smoe_sweep *sweep, const smoe_spec_text *text, char *const *overrides,
                      size_t count, const smoe_sweep_keys *keys, bool skip,
                      smoe_err *err) SMOE_MUST_CHECK;

/* From a spec with its section `sweep`, or an existing run, and overrides. Overrides with lists,
 * key=a,b,c, are swept; each trained trial is evaluated at every value of evaluate.key=a,b,c. */
typedef struct smoe_grid_options {
    bool skip_invalid; /* leave out combinations that are no valid spec: err has their names then,
                          although the call succeeds */
    bool referred;     /* the caller sets a reference, and that of the spec is ignored */
    bool planned;      /* nothing will run, so keys start.KEY need no init */
    bool join;         /* the sweep may exist: what its trials started from is not checked */
    const char *init;  /* what the trials start from (smoe_start_set); NULL: new weights */
    smoe_start start;
} smoe_grid_options;

/* The trials of a spec. SMOE_USAGE: a combination is no valid spec (without skip_invalid), or
 * nothing is swept. */
int smoe_grid_of_spec(smoe_sweep *sweep, const smoe_spec_text *text, char *const *overrides,
                      size_t count, const smoe_grid_options *options,
                      smoe_err *err) SMOE_MUST_CHECK;

/* A sweep with one trial, the existing run in DIR, evaluated at the lists. */
int smoe_grid_of_run(smoe_sweep *sweep, const char *dir, char *const *overrides, size_t count,
                     smoe_err *err) SMOE_MUST_CHECK;

/* ---- folders --------------------------------------------------------------------------------- */

/* Makes DIR (SMOE_USAGE if it exists) and writes the manifest. With `join`, an existing DIR is used
 * if it has the same manifest; another one is refused, and the message says what differs. Here and
 * below, a DIR that is empty, or has only the remains of a sweep that ended before its manifest was
 * complete, counts as missing. A DIR with other files and no sweep is refused (SMOE_USAGE). */
int smoe_sweep_create(smoe_sweep *sweep, const char *dir, bool join, smoe_err *err) SMOE_MUST_CHECK;

/* Adds the trials of a sweep to the one in DIR. Existing trials keep their names and outcomes, and
 * must be among the new ones with the same keys and specs (SMOE_USAGE says what differs); the
 * others follow them. Processes that work on DIR meanwhile finish the trials that they know. A DIR
 * in which nothing has begun gets all trials. */
int smoe_sweep_extend(smoe_sweep *sweep, const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* Makes the sweep what smoe_sweep_create with `join`, or smoe_sweep_extend, would make of it in
 * DIR, where nothing is changed: trials that are there have their old names. SMOE_USAGE as there.
 */
int smoe_sweep_match(smoe_sweep *sweep, const char *dir, bool extend,
                     smoe_err *err) SMOE_MUST_CHECK;

/* Reads the manifest of DIR and looks at every trial. SMOE_USAGE: no sweep there; SMOE_DATA:
 * damaged, or a symbolic link in the folder or in one of its own folders, which would lead out of
 * the sweep. */
int smoe_sweep_open(smoe_sweep *sweep, const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* The manifest alone, without a look at the trials, which all count as open. */
int smoe_sweep_read(smoe_sweep *sweep, const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* Waits until this process alone writes tables and figures into the folder of a sweep, or changes
 * its manifest, and until smoe_claim_release. Tables of a sweep that is opened afterwards have all
 * that other processes have finished or added. */
int smoe_sweep_turn(smoe_claim *turn, const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* Removes what a sweep wrote into DIR: its trials' run directories, claims, results and figures,
 * then the manifest, of which a temporary file stays until the next smoe_sweep_create: a removal
 * that was killed can be repeated. Other files stay. If DIR does not exist, nothing happens.
 * SMOE_USAGE: it holds no sweep; SMOE_RUNTIME: another process runs one of the trials. */
int smoe_sweep_remove(const char *dir, smoe_err *err) SMOE_MUST_CHECK;

void smoe_sweep_free(smoe_sweep *sweep);

/* The column of a key, which may be NULL; SIZE_MAX: none. */
size_t smoe_sweep_column(const smoe_sweep *sweep, const char *key);

/* Packs a sweep into one small file, whole or not at all: a tar.gz with the manifest and, for each
 * finished trial, its result and which test images it got right: the data for its tables, without
 * weights. Unpacked, it is a sweep that smoe_sweep_open reads; trials that are not done can be run
 * there. The same sweep gives the same bytes. Outcomes are kept as booleans: intervals of precision
 * stay over seeds and images, those of the loss become intervals over seeds. SMOE_DATA: outcomes
 * that are damaged; SMOE_RUNTIME: the file cannot be written. */
int smoe_sweep_pack(const smoe_sweep *sweep, const char *path, smoe_err *err) SMOE_MUST_CHECK;

/* Whether a file is a packed sweep. */
bool smoe_sweep_is_packed(const char *path);

/* ---- what trials start from ------------------------------------------------------------------ */

/* The trials of a sweep with `init` start from one model for all of them, or from the trial of
 * another sweep that has the same settings, as far as that sweep varies them. A swept key
 * "start.KEY" is the value of KEY that the start has, where the trial itself has another. */

/* Sets sweep->init to the absolute path of `init`, a run, a checkpoint, a file, the folder of a
 * sweep, or NULL, and checks that every trial has a start there (SMOE_USAGE names the first that
 * has none, or more than one, or a key "start.KEY" that nothing varies; SMOE_DATA where `init`
 * cannot be read). */
int smoe_start_set(smoe_sweep *sweep, const char *init, const smoe_start *how,
                   smoe_err *err) SMOE_MUST_CHECK;

/* Checks, before any trial runs, that the trials can start there: SMOE_DATA names the first whose
 * model has other shapes than the file; with `moments` SMOE_USAGE if one cannot have those. Trials
 * that the sweep in `dir` already has are not checked; NULL: all are new. */
int smoe_start_check(const smoe_sweep *sweep, const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* The model that trial i starts from, fresh: a path for smoe_run_locate. NULL with err. */
char *smoe_start_of(const smoe_sweep *sweep, size_t i, smoe_err *err);

/* How a trial of that spec takes the tensors of the model. */
smoe_fit smoe_start_fit(const smoe_sweep *sweep, const smoe_spec *spec);

/* ---- the checkpoint of a sweep of a run ------------------------------------------------------ */

/* A run that still trains deletes its checkpoints, so a sweep that evaluates it keeps one of its
 * own, DIR/claims/checkpoint: hard links to the files of the model, or copies of them where links
 * cannot be made, as on another file system. */

/* The name of the folder in DIR/claims. */
#define SMOE_KEPT "checkpoint"

/* Sets sweep->checkpoint to the latest one of sweep->run. SMOE_DATA where it has none. */
int smoe_kept_find(smoe_sweep *sweep, smoe_err *err) SMOE_MUST_CHECK;

/* Keeps sweep->checkpoint in the folder DIR/claims, which is there. If the run has deleted it, the
 * latest one takes its place, in the sweep too. */
int smoe_kept_make(smoe_sweep *sweep, const char *claims, smoe_err *err) SMOE_MUST_CHECK;

/* The file to evaluate, fresh: the run's own where none is kept, as earlier versions did. */
char *smoe_kept_model(const smoe_sweep *sweep);

/* ---- the plan -------------------------------------------------------------------------------- */

/* It is stated before any trial runs: primary contrasts, the reference, and margins within which
 * settings count as equivalent. The primary contrasts are in the manifest and cannot change once it
 * is written. */

/* Takes the plan over from a spec and checks it against the trials and the evaluations. SMOE_USAGE,
 * with all problems and their places; see compare/primary.h. */
int smoe_sweep_set_plan(smoe_sweep *sweep, smoe_sweep_plan *plan, smoe_err *err) SMOE_MUST_CHECK;

/* Sets the reference of the sweep to a copy of `settings`; `from` names its source in messages
 * ("--reference"). SMOE_USAGE: see smoe_compare_check. */
int smoe_sweep_refer(smoe_sweep *sweep, const char *settings, const char *from,
                     smoe_err *err) SMOE_MUST_CHECK;

/* Adds seeds, as "0,1", to those whose results were known before the others ran; NULL: none.
 * Contrasts use only the others, as soon as one of those has a result. Returns whether a seed was
 * new. */
bool smoe_sweep_see(smoe_sweep_plan *plan, const char *seeds);
/* Whether a seed is one of them. */
bool smoe_sweep_seen(const smoe_sweep_plan *plan, const char *seed);

/* ---- the manifest as a file ------------------------------------------------------------------ */

/* Writes the manifest of a sweep into its folder, in place of one that is there. */
int smoe_manifest_write(const smoe_sweep *sweep, const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* Reads it, into a sweep of zeros; SMOE_DATA names the line. The caller frees the sweep. */
int smoe_manifest_read(smoe_sweep *sweep, const char *path, smoe_err *err) SMOE_MUST_CHECK;

/* SMOE_USAGE says what differs between two sweeps that should be the same. The second function
 * compares only keys, plans, evaluations and the models that trials start from. */
int smoe_manifest_compare(const smoe_sweep *was, const smoe_sweep *is,
                          smoe_err *err) SMOE_MUST_CHECK;
int smoe_manifest_compare_settings(const smoe_sweep *was, const smoe_sweep *is,
                                   smoe_err *err) SMOE_MUST_CHECK;
