/*
 * Gradients against central differences, (L(x + h v) - L(x - h v)) / 2h, element by element and
 * along random directions through whole arrays. Meant for the f64 flavour: with |L| near 10 and h =
 * 1e-5, rounding contributes about 1e-10 and truncation h^2 L'''/6 as much, so that the tolerance
 * of 1e-6 of an array's largest gradient leaves room for curvature and none for a wrong formula.
 */
#pragma once

#include "base/param.h"
#include "route/plan.h"
#include "vit/model.h"

typedef struct gradcheck {
    double (*loss)(void *user); /* at the present point, computed anew */
    uint64_t (*choices)(
        void *user); /* hash of the discrete choices behind the last loss, or NULL */
    void *user;
    double step, tolerance;  /* 0: 1e-5 and 1e-6 */
    double least;            /* an array whose largest gradient is below it fails; 0: 1e-5 */
    size_t most;             /* number of elements checked per array, evenly spread; 0: 16 */
    const char *may_vanish;  /* arrays named so may have none, if the loss agrees */
    uint64_t mark;           /* hash of the choices at the point itself */
    size_t checked, skipped; /* differences taken; steps that changed a choice */
    char fault[256];         /* the first thing found wrong */
} gradcheck;

/* Computes the mark of the point; to be called before the first array. */
void gradcheck_begin(gradcheck *c);

/* Whether g is the gradient of the loss by x, n elements; if not, `fault` says why. x is
 * unchanged afterwards. */
bool gradcheck_array(gradcheck *c, const char *name, real *x, const real *g, size_t n);

/* The same for every parameter of a table. base: the value of all gradients before backward. */
bool gradcheck_params(gradcheck *c, smoe_params *params, real base);

/* Weights and gradients of a table: the weights are scattered about their initial values (the
 * head's kernel starts at zero, where everything before it would have no gradient), the
 * gradients are `base`. */
void gradcheck_scatter(smoe_params *params, uint64_t seed, double spread, real base);

/* Normal numbers, for inputs and projections; `seed` names the stream. */
void gradcheck_normal(real *x, size_t n, uint64_t seed);

/* Hashes the decisions of a plan (which token is in which slot, which are dropped) into a mark. */
uint64_t gradcheck_plan_mark(uint64_t mark, const smoe_plan *plan);
/* The same for all MoE layers of a model. */
uint64_t gradcheck_model_mark(const smoe_model *model);

/* Stands for tests of gradients in single precision, in which they cannot be checked. */
void gradcheck_skipped(void **state);
