/* Fixture for tests of run directories: a temporary folder, the path of a run in it that does
 * not exist yet, and parameters whose values depend on the step. Setup and teardown are
 * cmocka's; *state is the fixture. Every failure fails the calling test, except in functions
 * that return a status. */
#pragma once

#include "scratch.h"
#include "store/run.h"

enum {
    RUN_FOLDER_BIG = 20000
}; /* elements of the large tensor: a checkpoint takes several writes */

typedef struct run_folder {
    scratch scratch;
    char run[SCRATCH_PATH]; /* SCRATCH/a/run, which does not exist */
    smoe_spec spec;
    smoe_params params; /* big.weight and scale */
    smoe_err err;
} run_folder;

int run_folder_setup(void **state);
int run_folder_teardown(void **state);

/* ---- files of the run ---- */

/* The text of a file, to be freed. */
char *run_folder_read(const run_folder *r, const char *name);
void run_folder_write(const run_folder *r, const char *name, const char *text);
bool run_folder_has(const run_folder *r, const char *name);
void run_folder_assert_file(const run_folder *r, const char *name, const char *want);

/* ---- the run ---- */

smoe_run *run_folder_opened(run_folder *r, smoe_run_mode mode);
void run_folder_closed(run_folder *r, smoe_run *run, const char *status);
/* A record with a step and a loss. */
int run_folder_record(smoe_run *run, int step, double loss, smoe_err *err);

/* ---- checkpoints ---- */

/* Allocates the parameters again, with that many slabs: weights, gradients, and one or two
 * moments. */
void run_folder_params(smoe_params *params, int slabs);
/* Sets every element of every slab to a function of slab, place and step; checks that it has the
 * value of the step. */
void run_folder_fill(const smoe_params *params, uint64_t step);
bool run_folder_filled(const smoe_params *params, uint64_t step);
/* A checkpoint of the slabs as they are; the result of smoe_run_checkpoint. */
int run_folder_save(run_folder *r, smoe_run *run, const smoe_checkpoint *at, size_t keep);
/* Fills for the step and writes its checkpoint; best_step 0: there is no best one. */
int run_folder_checkpoint(run_folder *r, smoe_run *run, uint64_t step, uint64_t best_step,
                          size_t keep);
/* Clears the parameters and restores. Returns the step; the values must be those of the step. */
uint64_t run_folder_restored(run_folder *r, smoe_run *run);
/* The steps that have a checkpoint, e.g. "1 3 4". */
void run_folder_assert_kept(const run_folder *r, const char *want);
