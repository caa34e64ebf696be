/* Weighted sums over groups, by seed and by image; see contrast.h. */
#include "compare/contrast.h"
#include "compare/outcomes.h"
#include "spec/metrics.h"

typedef struct contrast {
    const smoe_measures *m;
    const double *weight; /* [groups] */
    size_t metric;
    size_t groups; /* with a weight */
    size_t *of;    /* [seeds] a run of each seed that counts */
    double *value; /* [seeds] */
    size_t seeds;
} contrast;

static bool same_seed(const smoe_measures *m, size_t a, size_t b) {
    return m->seed == SIZE_MAX || !strcmp(m->setting[a][m->seed], m->setting[b][m->seed]);
}

/* NAN also of a run that contrasts leave out. */
static double contrast_value(const smoe_measures *m, size_t run, size_t metric) {
    return m->seen && m->seen[run] ? (double)NAN : m->value[run * m->metrics + metric];
}

static double contrast_value_of(const contrast *c, size_t run) {
    return contrast_value(c->m, run, c->metric);
}

/* A sum of terms that is smaller than this share of their sizes is 0: weights and sums are rounded,
 * so that rows that tie may leave the same 1e-17 for every seed, a difference beyond all doubt, or
 * for some images, a spread that proves them equivalent. */
static double without_rounding(double sum, double size) {
    return fabs(sum) <= 1e-12 * size ? 0 : sum;
}

/* The weighted sum over the runs with the seed of a given run; NAN if a group has no run with
 * it. */
static double contrast_sum_of(const contrast *c, size_t like) {
    const smoe_measures *m = c->m;
    double sum = 0, size = 0;
    size_t found = 0;
    for (size_t i = 0; i < m->runs; i++) {
        double weight = c->weight[m->group[i]];
        if (weight == 0 || !same_seed(m, i, like) || !isfinite(contrast_value_of(c, i))) continue;
        sum += weight * contrast_value_of(c, i);
        size += fabs(weight * contrast_value_of(c, i));
        found++;
    }
    return found == c->groups ? without_rounding(sum, size) : (double)NAN;
}

/* One value for each seed that all groups have. */
static void contrast_collect(contrast *c) {
    const smoe_measures *m = c->m;
    for (size_t i = 0; i < m->runs; i++) {
        bool known = c->weight[m->group[i]] == 0;
        for (size_t s = 0; s < c->seeds && !known; s++) known = same_seed(m, c->of[s], i);
        double sum = known ? NAN : contrast_sum_of(c, i);
        if (!isfinite(sum)) continue;
        c->of[c->seeds] = i;
        c->value[c->seeds++] = sum;
    }
}

/* The seed of a run among those that count; SIZE_MAX: none, or a group without weight. */
static size_t seed_of(const contrast *c, size_t run) {
    if (c->weight[c->m->group[run]] == 0) return SIZE_MAX;
    for (size_t s = 0; s < c->seeds; s++)
        if (same_seed(c->m, c->of[s], run)) return s;
    return SIZE_MAX;
}

static bool same_images(const smoe_measures *m, size_t a, size_t b) {
    return a == b || (m->images[a] && m->images[b] && !strcmp(m->images[a], m->images[b]));
}

static bool same_origin(const smoe_measures *m, size_t a, size_t b) {
    const char *x = m->images[a], *y = m->images[b];
    size_t length = x ? strcspn(x, "\n") : 0;
    return a == b || (x && y && !strncmp(x, y, length) && strcspn(y, "\n") == length);
}

/* Whether run i counts, and none before it that is the same in this respect. */
static bool is_first(const contrast *c, size_t i,
                     bool (*same)(const smoe_measures *m, size_t a, size_t b)) {
    bool first = seed_of(c, i) != SIZE_MAX;
    for (size_t k = 0; k < i && first; k++) first = seed_of(c, k) == SIZE_MAX || !same(c->m, k, i);
    return first;
}

/* Adds the outcomes of a run to d [2,seeds,images], made with the first run: their sums, then the
 * sums of their sizes. 1 done, 0 there are none, -1 with err. */
static int contrast_add_run(const contrast *c, size_t run, size_t seed, size_t column, double **d,
                            size_t *images, smoe_err *err) {
    SMOE_FREED float *outcome = NULL;
    if (c->m->outcomes[run] && smoe_outcomes_read(&outcome, images, c->m->outcomes[run], column,
                                                  contrast_value_of(c, run), err))
        return -1;
    if (!outcome) return 0;
    if (!*d) *d = smoe_alloc(2 * c->seeds * *images, sizeof **d);
    double weight = c->weight[c->m->group[run]], *sum = *d + seed * *images;
    double *size = sum + c->seeds * *images;
    for (size_t k = 0; k < *images; k++) {
        sum[k] += weight * (double)outcome[k];
        size[k] += fabs(weight * (double)outcome[k]);
    }
    return 1;
}

/* Adds the images of all runs that are tested on those of run `first`. As contrast_add_run. */
static int contrast_add_set(smoe_paired *paired, const contrast *c, size_t first, size_t column,
                            smoe_err *err) {
    size_t images = 0;
    int got = 1;
    SMOE_FREED double *d = NULL;
    SMOE_FREED bool *has = smoe_alloc(c->seeds, sizeof *has);
    for (size_t i = first; i < c->m->runs && got == 1; i++) {
        size_t seed = seed_of(c, i);
        if (seed == SIZE_MAX || !same_images(c->m, first, i)) continue;
        got = contrast_add_run(c, i, seed, column, &d, &images, err);
        has[seed] = true;
    }
    for (size_t s = 0; s < c->seeds; s++)
        if (!has[s] && got == 1) got = 0; /* its images differ from seed to seed, or are unknown */
    if (got != 1) return got;
    for (size_t k = 0; k < c->seeds * images; k++)
        d[k] = without_rounding(d[k], d[k + c->seeds * images]);
    smoe_stats_add_images(paired, d, c->seeds, images);
    return got;
}

/* The square of the sum of two standard deviations. */
static double with_deviation(double variance, double other) {
    return variance + other + 2 * sqrt(variance * other);
}

/* Adds the images of all runs whose images come from where those of run `first` do. Their sets may
 * be of the same images, in another size or number: whatever they share, the deviation of the sum
 * is at most the sum of theirs. */
static int contrast_add_origin(smoe_paired *paired, const contrast *c, size_t first, size_t column,
                               smoe_err *err) {
    smoe_paired all = {.n = paired->n};
    int got = 1;
    for (size_t i = first; i < c->m->runs && got == 1; i++) {
        smoe_paired set = {.n = paired->n};
        if (!is_first(c, i, same_images) || !same_origin(c->m, first, i)) continue;
        got = contrast_add_set(&set, c, i, column, err);
        all.images += set.images;
        all.rest_var = with_deviation(all.rest_var, set.rest_var);
        all.images_var = with_deviation(all.images_var, set.images_var);
    }
    if (got == 1) smoe_stats_add_variances(paired, all.images, all.rest_var, all.images_var);
    return got;
}

/* Runs of one set of images are crossed with them; sets of other origins are independent. */
static int add_images(smoe_paired *paired, const contrast *c, smoe_err *err) {
    int column = smoe_outcomes_column(c->m->metric[c->metric]), got = 1;
    smoe_paired with = *paired;
    if (column < 0 || c->seeds < 2) return 0;
    for (size_t i = 0; i < c->m->runs && got == 1; i++)
        if (is_first(c, i, same_origin))
            got = contrast_add_origin(&with, c, i, (size_t)column, err);
    if (got == 1) *paired = with;
    return got < 0 ? -1 : 0;
}

int smoe_contrast_measure(smoe_paired *paired, const smoe_measures *m, const double *weight,
                          size_t metric, smoe_err *err) {
    SMOE_FREED size_t *of = smoe_alloc(m->runs + 1, sizeof *of);
    SMOE_FREED double *value = smoe_alloc(m->runs + 1, sizeof *value);
    contrast c = {.m = m, .weight = weight, .metric = metric, .of = of, .value = value};
    for (size_t g = 0; g < m->groups; g++) c.groups += weight[g] != 0;
    contrast_collect(&c);
    *paired = smoe_stats_paired(value, c.seeds);
    return add_images(paired, &c, err);
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

bool smoe_contrast_has(const smoe_measures *m, size_t group, size_t metric) {
    for (size_t i = 0; i < m->runs; i++)
        if (m->group[i] == group && isfinite(contrast_value(m, i, metric))) return true;
    return false;
}

/* ---- trends ---------------------------------------------------------------------------------- */

/* The slope over the line that a group begins, if it begins one. */
static int trend_add(smoe_trends *trends, size_t group, size_t column, size_t metric,
                     smoe_err *err) {
    const smoe_measures *m = trends->of;
    SMOE_FREED bool *member = smoe_alloc(m->groups + 1, sizeof *member);
    SMOE_FREED double *x = smoe_alloc(m->groups + 1, sizeof *x);
    SMOE_FREED double *weight = smoe_alloc(m->groups + 1, sizeof *weight);
    SMOE_FREED const char **line = smoe_alloc(m->columns, sizeof *line);
    smoe_trend t = {.group = group, .column = column, .metric = metric};
    line[column] = "*"; /* the others are those of the group */
    for (size_t g = 0; g < m->groups; g++) {
        if (!smoe_combinations_fit(&m->own, g, line, group)) continue;
        if (g < group || !smoe_settings_number(smoe_measures_setting(m, g, column), &x[g]))
            return 0;
        member[g] = smoe_contrast_has(m, g, metric);
        t.groups += member[g];
    }
    if (!smoe_contrast_slope(weight, member, x, m->groups)) return 0;
    if (smoe_contrast_measure(&t.paired, m, weight, metric, err)) return -1;
    t.time = smoe_metric_is_time(smoe_metric_of_column(m->metric[metric], NULL));
    t.p = smoe_stats_p(&t.paired, t.paired.mean);
    if (t.paired.n) trends->trend[trends->count++] = t;
    return 0;
}

int smoe_trends_make(smoe_trends *trends, const smoe_measures *m, smoe_err *err) {
    *trends = (smoe_trends){.of = m};
    if (m->seed == SIZE_MAX) return 0;
    trends->trend = smoe_alloc(m->groups * m->metrics * m->columns + 1, sizeof *trends->trend);
    for (size_t i = 0; i < m->metrics; i++) {
        if (!smoe_metric_is_shown(m->metric[i], true) || smoe_measures_zero(m, i)) continue;
        for (size_t c = 0; c < m->columns; c++)
            for (size_t g = 0; g < m->groups && c != m->seed; g++)
                if (trend_add(trends, g, c, i, err)) return -1;
    }
    return 0;
}

void smoe_trends_free(smoe_trends *trends) {
    free(trends->trend);
    *trends = (smoe_trends){0};
}

const char *smoe_trend_direction(const smoe_trend *t) {
    if (t->time) return SMOE_MEASURES_TIME;
    if (!t->paired.distinguishable) return "not distinguishable";
    return t->paired.mean > 0 ? "rising" : "falling";
}

const char *smoe_trend_setting(const smoe_trends *trends, const smoe_trend *t, size_t column) {
    return column == t->column ? "*" : smoe_measures_setting(trends->of, t->group, column);
}
