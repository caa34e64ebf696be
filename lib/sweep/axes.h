/* What a sweep varies: axes, from the section `sweep` of a spec, from overrides with lists, or from
 * the options of an ablation. */
#pragma once

#include "spec/spec.h"

/* One point of an axis: the values of the columns there, and the overrides for them. */
typedef struct smoe_point {
    char **value;  /* [columns of the axis] */
    char **assign; /* [overrides] */
    size_t overrides;
} smoe_point;

/* Columns that change together. */
typedef struct smoe_axis {
    char **column; /* "model.moe.experts" */
    size_t columns;
    smoe_point *point;
    size_t points;
} smoe_axis;

typedef struct smoe_axes {
    smoe_axis *axis;
    size_t count;
} smoe_axes;

/* Adds a point; everything is copied. */
void smoe_axis_add(smoe_axis *axis, const char *const *value, const char *const *assign,
                   size_t overrides);
/* The axes of keys of a spec's section `sweep` and of overrides with lists, key=a,b,c, which take
 * precedence; the seed comes last. `plain` [count] gets the other overrides (pointers), *plains of
 * them. */
int smoe_axes_of(smoe_axes *axes, const smoe_sweep_keys *keys, char *const *overrides, size_t count,
                 char **plain, size_t *plains, smoe_err *err) SMOE_MUST_CHECK;
/* Every combination of the points, the last axis fastest, as one axis; false: more than `most`. */
bool smoe_axes_product(smoe_axis *product, const smoe_axes *axes, size_t most);
void smoe_axes_free(smoe_axes *axes);
/* Frees what one axis holds. */
void smoe_axis_clear(smoe_axis *axis);

/* Routing ablations (Soft MoE paper, Table 3): one spec with its router replaced, over seeds. Runs
 * of one seed see the same data in the same order and start from the same weights outside the
 * routers, so they are compared seed by seed (compare/compare.h).
 * Axes "router" and "seed" from two lists with commas. `dense` is the spec without MoE
 * layers. `identity` gets as many slots per expert as its tokens need. SMOE_USAGE: an unknown or
 * repeated router or seed, or a spec without MoE layers. */
int smoe_ablate_axes(smoe_axes *axes, const smoe_spec *spec, const char *routers, const char *seeds,
                     smoe_err *err) SMOE_MUST_CHECK;
