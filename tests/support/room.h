/* What tests of run directories work in: a temporary folder, a run in it that is not there yet, and parameters whose every value
 * says of which step it is. Setup and teardown are cmocka's; *state is the room. Every failure fails the test that asked, but of
 * what returns a status. */
#ifndef SMOE_TEST_ROOM_H
#define SMOE_TEST_ROOM_H

#include "scratch.h"
#include "store/run.h"

enum { ROOM_BIG = 20000 }; /* elements of the large tensor: a checkpoint takes several writes */

typedef struct room {
    scratch scratch;
    char run[SCRATCH_PATH]; /* SCRATCH/a/run, which is not there */
    smoe_spec spec;
    smoe_params params; /* big.weight and scale */
    smoe_err err;
} room;

int room_setup(void **state);
int room_teardown(void **state);

/* ---- files of the run ---- */

/* Its text, to be freed. */
char *room_read(const room *r, const char *name);
void room_write(const room *r, const char *name, const char *text);
bool room_has(const room *r, const char *name);
void room_assert_file(const room *r, const char *name, const char *want);

/* ---- the run ---- */

smoe_run *room_opened(room *r, smoe_run_mode mode);
void room_closed(room *r, smoe_run *run, const char *status);
/* A record with a step and a loss. */
int room_record(smoe_run *run, int step, double loss, smoe_err *err);

/* ---- checkpoints ---- */

/* The parameters anew, with that many slabs: weights, gradients, and one or two moments. */
void room_params(smoe_params *params, int slabs);
/* Every element of every slab a function of slab, place and step; and whether it is that of the step. */
void room_fill(const smoe_params *params, uint64_t step);
bool room_filled(const smoe_params *params, uint64_t step);
/* Fills for the step and writes its checkpoint; best_step 0: there is no best one. */
int room_checkpoint(room *r, smoe_run *run, uint64_t step, uint64_t best_step, size_t keep);
/* Clears the parameters, restores, and says which step it was; the values must be that step's. */
uint64_t room_restored(room *r, smoe_run *run);
/* The steps that have a checkpoint, as "1 3 4". */
void room_assert_kept(const room *r, const char *want);

#endif
