/* Slopes over groups; see trend.h. The fit is in contrast.c: a slope is a weighted sum as well. */
#include "compare/trend.h"
#include "base/alloc.h"
#include "compare/contrast.h"
#include "compare/settings.h"
#include "spec/metrics.h"

/* Whether two groups differ in no column but this one and the seed. */
static bool on_a_line(const smoe_measures *m, size_t a, size_t b, size_t column) {
    for (size_t c = 0; c < m->columns; c++)
        if (c != column && c != m->seed &&
            strcmp(smoe_measures_setting(m, a, c), smoe_measures_setting(m, b, c)))
            return false;
    return true;
}

typedef struct scratch {
    bool *member; /* [groups] each */
    double *x, *weight;
} scratch;

/* The slope over the line that a group begins, if it begins one. */
static int trend_add(smoe_trends *trends, const scratch *s, size_t group, size_t column,
                     size_t metric, smoe_err *err) {
    const smoe_measures *m = trends->of;
    smoe_trend t = {.group = group, .column = column, .metric = metric};
    for (size_t g = 0; g < m->groups; g++) {
        bool line = on_a_line(m, g, group, column);
        if (line && g < group) return 0;
        if (line && !smoe_settings_number(smoe_measures_setting(m, g, column), &s->x[g])) return 0;
        s->member[g] = line && smoe_contrast_has(m, g, metric);
        t.groups += s->member[g];
    }
    if (!smoe_contrast_slope(s->weight, s->member, s->x, m->groups)) return 0;
    if (smoe_contrast_measure(&t.paired, m, s->weight, metric, err)) return -1;
    t.time = smoe_metric_is_time(smoe_metric_of_column(m->metric[metric], NULL));
    t.p = smoe_stats_p(&t.paired, t.paired.mean);
    if (t.paired.n) trends->trend[trends->count++] = t;
    return 0;
}

int smoe_trends_make(smoe_trends *trends, const smoe_measures *m, smoe_err *err) {
    *trends = (smoe_trends){.of = m};
    if (m->seed == SIZE_MAX) return 0;
    scratch s = {.member = smoe_alloc(m->groups + 1, sizeof *s.member),
                 .x = smoe_alloc(m->groups + 1, sizeof *s.x),
                 .weight = smoe_alloc(m->groups + 1, sizeof *s.weight)};
    trends->trend = smoe_alloc(m->groups * m->metrics * m->columns + 1, sizeof *trends->trend);
    int status = 0;
    for (size_t i = 0; i < m->metrics; i++)
        for (size_t c = 0; c < m->columns && smoe_metric_is_shown(m->metric[i], true) &&
                           !smoe_measures_zero(m, i);
             c++)
            for (size_t g = 0; g < m->groups && c != m->seed && !status; g++)
                status = trend_add(trends, &s, g, c, i, err);
    free(s.member);
    free(s.x);
    free(s.weight);
    return status;
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
