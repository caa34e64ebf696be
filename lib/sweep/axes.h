/* What a sweep varies: keys, from the section `sweep` of a spec, from overrides with lists, or from
 * the options of an ablation; and the combinations of their values. */
#pragma once

#include "spec/spec.h"

/* Combinations of values, one of each column. */
typedef struct smoe_points {
    char **column; /* "model.moe.experts" */
    size_t columns;
    char ***value; /* [points][columns] */
    size_t points;
    size_t slots; /* as those of the keys */
} smoe_points;

/* The keys of a spec's section `sweep` and of overrides with lists, key=a,b,c, which take
 * precedence: those of the grid, then of zip, then the others; the seed comes last. `plain` [count]
 * gets the other overrides (pointers), *plains of them. */
int smoe_axes_of(smoe_sweep_keys *keys, const smoe_sweep_keys *section, char *const *overrides,
                 size_t count, char **plain, size_t *plains, smoe_err *err) SMOE_MUST_CHECK;
/* Every combination, the last key fastest; false: more than `most`. */
bool smoe_axes_product(smoe_points *product, const smoe_sweep_keys *keys, size_t most);
/* The overrides of combination p, fresh; there is room for SMOE_AXES_MORE more than columns. Keys
 * of what trials start from change nothing in the spec of a trial. Returns how many there are. */
enum { SMOE_AXES_MORE = 2 };
size_t smoe_axes_assign(char **assign, const smoe_points *points, size_t p);
void smoe_points_free(smoe_points *points);

/* The column of an ablation, which is no key. */
#define SMOE_ABLATED "router"

/* Routing ablations (Soft MoE paper, Table 3): one spec with its router replaced, over seeds. Runs
 * of one seed see the same data in the same order and start from the same weights outside the
 * routers, so they are compared seed by seed (compare/compare.h).
 * Keys SMOE_ABLATED and "seed" from two lists with commas. `dense` is the spec without MoE
 * layers. `identity` gets as many slots per expert as its tokens need. SMOE_USAGE: an unknown or
 * repeated router or seed, or a spec without MoE layers. */
int smoe_ablate_axes(smoe_sweep_keys *keys, const smoe_spec *spec, const char *routers,
                     const char *seeds, smoe_err *err) SMOE_MUST_CHECK;
