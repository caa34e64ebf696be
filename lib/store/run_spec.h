/* Which keys of a spec may change when a run is resumed: those that cannot change the weights of a
 * step. */
#ifndef SMOE_RUN_SPEC_H
#define SMOE_RUN_SPEC_H

#include "spec/spec.h"

/* Gets a line for each key that has changed and may, unless others must not; may be NULL. */
typedef void smoe_run_spec_note(void *user, const char *text);

/* Compares the spec of a run with the one that is to continue it. SMOE_USAGE: a line for each key
 * that must not differ, beginning with `dir`. Keys without effect in both specs may differ. */
int smoe_run_spec_check(const char *dir, const smoe_spec *old, const smoe_spec *now,
                        smoe_run_spec_note *note, void *user, smoe_err *err) SMOE_MUST_CHECK;

/* Writes the spec of a run. */
int smoe_run_spec_write(const char *path, const smoe_spec *spec, smoe_err *err) SMOE_MUST_CHECK;

#endif
