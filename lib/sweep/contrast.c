/* Weighted sums over rows, by seed and by image; see contrast.h. */
#include "sweep/contrast.h"
#include "sweep/outcomes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct contrast {
    const smoe_results *r;
    const double *weight; /* [groups] */
    size_t metric;
    size_t rows;   /* with a weight */
    size_t *of;    /* [seeds] a trial of each seed that counts */
    double *value; /* [seeds] */
    size_t seeds;
} contrast;

static bool same_seed(const smoe_sweep *sweep, size_t a, size_t b) {
    return sweep->seed == SIZE_MAX ||
           !strcmp(sweep->trial[a].value[sweep->seed], sweep->trial[b].value[sweep->seed]);
}

static double value_of(const contrast *c, size_t trial) {
    return c->r->value[trial * c->r->metrics + c->metric];
}

/* The weighted sum over the trials with the seed of one; NAN where a row has none of it. */
static double sum_of(const contrast *c, size_t like) {
    const smoe_results *r = c->r;
    double sum = 0;
    size_t found = 0;
    for (size_t i = 0; i < r->sweep->trials; i++) {
        double weight = c->weight[r->group[i]];
        if (weight == 0 || !same_seed(r->sweep, i, like) || !isfinite(value_of(c, i))) continue;
        sum += weight * value_of(c, i);
        found++;
    }
    return found == c->rows ? sum : NAN;
}

/* One value for each seed that all rows have. */
static void collect(contrast *c) {
    const smoe_results *r = c->r;
    for (size_t i = 0; i < r->sweep->trials; i++) {
        bool known = c->weight[r->group[i]] == 0;
        for (size_t s = 0; s < c->seeds && !known; s++) known = same_seed(r->sweep, c->of[s], i);
        double sum = known ? NAN : sum_of(c, i);
        if (!isfinite(sum)) continue;
        c->of[c->seeds] = i;
        c->value[c->seeds++] = sum;
    }
}

/* The seed of a trial among those that count; SIZE_MAX: none, or a row without weight. */
static size_t seed_of(const contrast *c, size_t trial) {
    if (c->weight[c->r->group[trial]] == 0) return SIZE_MAX;
    for (size_t s = 0; s < c->seeds; s++)
        if (same_seed(c->r->sweep, c->of[s], trial)) return s;
    return SIZE_MAX;
}

/* Adds a trial's outcomes to d [seeds,images], made with the first trial. 1 done, 0 there are none,
 * -1 with err. */
static int add_trial(const contrast *c, size_t trial, size_t seed, int column, double **d,
                     size_t *images, smoe_err *err) {
    float *outcome;
    if (smoe_outcomes_read(&outcome, images, c->r->sweep, trial, column, value_of(c, trial), err))
        return -1;
    if (!outcome) return 0;
    if (!*d) *d = calloc(c->seeds * *images, sizeof **d);
    double weight = c->weight[c->r->group[trial]];
    for (size_t k = 0; k < *images && *d; k++)
        (*d)[seed * *images + k] += weight * (double)outcome[2 * k + (size_t)column];
    free(outcome);
    return *d ? 1 : smoe_fail(err, SMOE_RUNTIME, "out of memory for %zu images", *images);
}

/* Have all trials the same test images? */
static bool images_are_shared(const contrast *c) {
    for (size_t i = 0; i < c->r->sweep->trials; i++)
        if (seed_of(c, i) != SIZE_MAX && i != c->of[0] &&
            !smoe_outcomes_alike(c->r->sweep, c->of[0], i))
            return false;
    return true;
}

static int add_images(smoe_paired *paired, const contrast *c, smoe_err *err) {
    int column = smoe_outcomes_column(c->r->metric[c->metric]), got = 1;
    size_t images = 0;
    double *d = NULL;
    if (column < 0 || c->seeds < 2 || !images_are_shared(c)) return 0;
    for (size_t i = 0; i < c->r->sweep->trials && got == 1; i++) {
        size_t seed = seed_of(c, i);
        if (seed != SIZE_MAX) got = add_trial(c, i, seed, column, &d, &images, err);
    }
    if (got == 1) smoe_stats_add_images(paired, d, c->seeds, images);
    free(d);
    return got < 0 ? -1 : 0;
}

int smoe_contrast_measure(smoe_paired *paired, const smoe_results *r, const double *weight,
                          size_t metric, smoe_err *err) {
    contrast c = {.r = r,
                  .weight = weight,
                  .metric = metric,
                  .of = calloc(r->sweep->trials + 1, sizeof *c.of),
                  .value = calloc(r->sweep->trials + 1, sizeof *c.value)};
    int status = c.of && c.value ? 0 : -1;
    if (status) smoe_fail(err, SMOE_RUNTIME, "out of memory for a difference");
    for (size_t g = 0; g < r->groups; g++) c.rows += weight[g] != 0;
    if (!status) {
        collect(&c);
        *paired = smoe_stats_paired(c.value, c.seeds);
        status = add_images(paired, &c, err);
    }
    free(c.of);
    free(c.value);
    return status;
}

bool smoe_contrast_slope(double *weight, const bool *member, const double *x, size_t groups) {
    double mean = 0, squares = 0;
    size_t n = 0, distinct = 0;
    for (size_t g = 0; g < groups; g++) {
        bool before = false;
        weight[g] = 0;
        if (!member[g]) continue;
        for (size_t k = 0; k < g; k++) before |= member[k] && x[k] == x[g];
        distinct += !before;
        mean += log2(x[g]);
        n++;
    }
    if (distinct < 3) return false;
    mean /= (double)n;
    for (size_t g = 0; g < groups; g++)
        if (member[g]) squares += (log2(x[g]) - mean) * (log2(x[g]) - mean);
    for (size_t g = 0; g < groups; g++)
        if (member[g]) weight[g] = (log2(x[g]) - mean) / squares;
    return true;
}

bool smoe_contrast_has(const smoe_results *r, size_t group, size_t metric) {
    for (size_t i = 0; i < r->sweep->trials; i++)
        if (r->group[i] == group && isfinite(r->value[i * r->metrics + metric])) return true;
    return false;
}
