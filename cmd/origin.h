/* The provenance of a page: which command made it, when, with which program and machine, from which
 * runs with which seeds and specs. */
#pragma once

#include "opt.h"
#include "draw/report.h"
#include "spec/spec.h"

typedef struct smoe_origin {
    smoe_report_fact *fact; /* [count]; terms and texts are owned */
    size_t count;
} smoe_origin;

/* Command, date, version and machine. Free in any case. */
void smoe_origin_open(smoe_origin *origin, const smoe_options *options);
void smoe_origin_free(smoe_origin *origin);

/* A model: its run and seed, when, where and by which program the run was started, if `env`, its
 * env.json, is not NULL, and the spec as YAML. */
void smoe_origin_model(smoe_origin *origin, const char *run, const smoe_spec *spec,
                       const json_t *env);

/* Adds a fact; the text is taken over. */
void smoe_origin_add(smoe_origin *origin, const char *term, char *text, bool folded);
