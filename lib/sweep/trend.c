/* Slopes over rows; see trend.h. The fit is in contrast.c: a slope is a weighted sum as well. */
#include "sweep/trend.h"
#include "sweep/contrast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool smoe_trend_number(const char *text, double *x) {
    char *end;
    *x = strtod(text, &end);
    return end != text && !*end && isfinite(*x) && *x > 0;
}

static const char *value_of(const smoe_results *r, size_t group, size_t column) {
    return r->sweep->trial[r->first[group]].value[column];
}

/* Do two rows differ in no column but this and the seed? */
static bool on_a_line(const smoe_results *r, size_t a, size_t b, size_t column) {
    for (size_t c = 0; c < r->sweep->columns; c++)
        if (c != column && c != r->sweep->seed && strcmp(value_of(r, a, c), value_of(r, b, c)))
            return false;
    return true;
}

typedef struct scratch {
    bool *member; /* [groups] each */
    double *x, *weight;
} scratch;

/* The slope over the line that a group begins, if it begins one. */
static int add(smoe_results *r, const scratch *s, size_t group, size_t column, size_t metric,
               smoe_err *err) {
    smoe_trend t = {.group = group, .column = column, .metric = metric};
    for (size_t g = 0; g < r->groups; g++) {
        bool line = on_a_line(r, g, group, column);
        if (line && g < group) return 0;
        if (line && !smoe_trend_number(value_of(r, g, column), &s->x[g])) return 0;
        s->member[g] = line && smoe_contrast_has(r, g, metric);
        t.rows += s->member[g];
    }
    if (!smoe_contrast_slope(s->weight, s->member, s->x, r->groups)) return 0;
    if (smoe_contrast_measure(&t.paired, r, s->weight, metric, err)) return -1;
    t.p = smoe_stats_p(&t.paired, t.paired.mean);
    if (t.paired.n) r->trend[r->trends++] = t;
    return 0;
}

int smoe_results_follow(smoe_results *r, smoe_err *err) {
    const smoe_sweep *sweep = r->sweep;
    if (sweep->seed == SIZE_MAX) return 0;
    scratch s = {.member = calloc(r->groups + 1, sizeof *s.member),
                 .x = calloc(r->groups + 1, sizeof *s.x),
                 .weight = calloc(r->groups + 1, sizeof *s.weight)};
    r->trend = calloc(r->groups * r->metrics * sweep->columns + 1, sizeof *r->trend);
    int status = s.member && s.x && s.weight && r->trend ? 0 : -1;
    if (status) smoe_fail(err, SMOE_RUNTIME, "out of memory for the trends");
    for (size_t m = 0; m < r->metrics; m++)
        for (size_t c = 0; c < sweep->columns && smoe_results_shown(r->metric[m], true); c++)
            for (size_t g = 0; g < r->groups && c != sweep->seed && !status; g++)
                status = add(r, &s, g, c, m, err);
    free(s.member);
    free(s.x);
    free(s.weight);
    return status;
}
