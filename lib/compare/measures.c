/* Tables of measurements; see measures.h. */
#include "compare/measures.h"
#include "base/alloc.h"

#include <math.h>

static bool same_group(const smoe_measures *m, size_t a, size_t b) {
    for (size_t c = 0; c < m->columns; c++)
        if (c != m->seed && strcmp(m->setting[a][c], m->setting[b][c])) return false;
    return true;
}

void smoe_measures_open(smoe_measures *m) {
    m->group = smoe_alloc(m->runs + 1, sizeof *m->group);
    m->first = smoe_alloc(m->runs + 1, sizeof *m->first);
    m->outcomes = smoe_alloc(m->runs + 1, sizeof *m->outcomes);
    m->images = smoe_alloc(m->runs + 1, sizeof *m->images);
    m->value = smoe_alloc(m->runs * m->metrics + 1, sizeof *m->value);
    for (size_t i = 0; i < m->runs * m->metrics; i++) m->value[i] = NAN;
    for (size_t i = 0; i < m->runs; i++) {
        size_t g = 0;
        while (g < m->groups && !same_group(m, m->first[g], i)) g++;
        if (g == m->groups) m->first[m->groups++] = i;
        m->group[i] = g;
    }
}

void smoe_measures_free(smoe_measures *m) {
    for (size_t i = 0; i < m->runs; i++) {
        if (m->outcomes) free(m->outcomes[i]);
        if (m->images) free(m->images[i]);
    }
    free(m->outcomes);
    free(m->images);
    free(m->seen);
    free(m->metric);
    free(m->value);
    free(m->group);
    free(m->first);
    *m = (smoe_measures){0};
}

size_t smoe_measures_metric(const smoe_measures *m, const char *name) {
    for (size_t i = 0; i < m->metrics; i++)
        if (!strcmp(m->metric[i], name)) return i;
    return SIZE_MAX;
}

const char *smoe_measures_setting(const smoe_measures *m, size_t group, size_t column) {
    return m->setting[m->first[group]][column];
}

smoe_stats smoe_measures_stats(const smoe_measures *m, size_t group, size_t metric) {
    SMOE_FREED double *value = smoe_alloc(m->runs + 1, sizeof *value);
    size_t n = 0;
    if (metric == SIZE_MAX) return (smoe_stats){.mean = NAN, .sd = NAN};
    for (size_t i = 0; i < m->runs; i++)
        if (m->group[i] == group) value[n++] = m->value[i * m->metrics + metric];
    return smoe_stats_of(value, n);
}

bool smoe_measures_zero(const smoe_measures *m, size_t metric) {
    for (size_t i = 0; i < m->runs; i++)
        if (fabs(m->value[i * m->metrics + metric]) > 0) return false;
    return true;
}
