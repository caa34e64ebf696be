/* The section `sweep` of a spec; what spec.h is for the others. */
#pragma once

#include "base/base.h"

/* One swept key and its values, as an override would give them. */
typedef struct smoe_sweep_key {
    char *key;
    char **value; /* [count] */
    size_t count;
    bool zip; /* of sweep.zip: these keys change together */
} smoe_sweep_key;

typedef struct smoe_sweep_keys {
    smoe_sweep_key *key; /* in file order */
    size_t count;
    size_t slots; /* of an ablation: those per expert of fixed routers; 0: as the spec says */
} smoe_sweep_keys;

/* One more key, without values; its name is copied. */
smoe_sweep_key *smoe_spec_keys_add(smoe_sweep_keys *keys, const char *name, bool zip);
/* Whether a value is there already. */
bool smoe_spec_keys_have(const smoe_sweep_key *key, const char *value);
void smoe_spec_keys_clear(smoe_sweep_keys *keys);

/* The figure of a sweep: columns of its results, and its title; NULL: the default. */
typedef struct smoe_sweep_figure {
    char *x, *y, *line, *title; /* a point's place; what tells lines apart */
    /* No keys, set by the program: */
    double width; /* inches, for a paper; 0: for a screen */
    bool front;   /* x and y are metrics; groups that others dominate in both are told apart */
} smoe_sweep_figure;

void smoe_spec_figure_clear(smoe_sweep_figure *figure);

/* A contrast that was stated before any cell ran: one setting and its reference, or a trend. Every
 * part is the text of the spec; see compare/primary.h. */
typedef struct smoe_primary {
    char *row, *reference; /* settings */
    char *trend, *where;   /* a swept key; settings, or NULL */
    char *measure;         /* NULL: precision_at_1 */
    char *expect;
    char *margin; /* of expect: equivalent; NULL: that of the plan */
    char *from;   /* where a file says it, for messages; NULL: it is of a ledger */
} smoe_primary;

/* The contrasts and margins of a sweep. */
typedef struct smoe_sweep_plan {
    smoe_primary *primary; /* [primaries] */
    size_t primaries;
    char *family;      /* how many contrasts there are in all, with those of other sweeps; NULL */
    char *equivalence; /* margins, "0.01" or "METRIC=0.01,METRIC=0.1"; NULL: none */
    char *seen;        /* "0,1": seeds whose results were known before the others ran; NULL: none */
    char *family_from, *equivalence_from; /* as `from` of a contrast */
} smoe_sweep_plan;

void smoe_spec_sweep_plan_clear(smoe_sweep_plan *plan);

/* The parts of a primary contrast by name, and where each is kept: NULL behind the last. */
enum { SMOE_PRIMARY_PARTS = 7 };
extern const char *const smoe_primary_part[SMOE_PRIMARY_PARTS + 1];
char **smoe_spec_primary_text(smoe_primary *primary, size_t part);

/* The prefix of a key of an evaluation, next to the keys of the trials. */
#define SMOE_EVALUATED "evaluate."
/* The prefix of a swept key of the sweep that cells start from. */
#define SMOE_STARTED "start."
/* The key behind that prefix, or NULL where there is none. */
const char *smoe_spec_started(const char *key);
/* Whether a column of a sweep, with or without such a prefix, has names or paths, which mean what
 * they say even if they look like numbers or lists. */
bool smoe_spec_holds_text(const char *column);

/* The section `sweep`, which only smoe sweep uses; not part of a resolved spec. */
typedef struct smoe_sweep_spec {
    smoe_sweep_keys train;    /* sweep.grid, sweep.zip and sweep.seeds (key "seed") */
    smoe_sweep_keys evaluate; /* sweep.evaluate.grid and .zip */
    smoe_sweep_figure figure;
    smoe_sweep_plan plan;
    /* "KEY=VALUE,KEY=VALUE", what groups of trials are compared with; NULL: the first. */
    char *reference;
    char *reference_from; /* as `from` of a contrast */
    bool seen;
    bool bad; /* it has errors */
} smoe_sweep_spec;
