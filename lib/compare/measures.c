/* Tables of measurements; see measures.h. */
#include "compare/measures.h"

void smoe_measures_open(smoe_measures *m) {
    m->group = smoe_alloc(m->runs + 1, sizeof *m->group);
    m->outcomes = smoe_alloc(m->runs + 1, sizeof *m->outcomes);
    m->images = smoe_alloc(m->runs + 1, sizeof *m->images);
    m->value = smoe_alloc(m->runs * m->metrics + 1, sizeof *m->value);
    for (size_t i = 0; i < m->runs * m->metrics; i++) m->value[i] = NAN;
    m->own = (smoe_combinations){.prefix = "",
                                 .column = m->column,
                                 .columns = m->columns,
                                 .seed = m->seed,
                                 .value = smoe_alloc(m->runs + 1, sizeof *m->own.value)};
    for (size_t i = 0; i < m->runs; i++)
        m->group[i] = smoe_combinations_add(&m->own, m->setting[i]);
    m->groups = m->own.count;
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
    free((void *)m->own.value);
    *m = (smoe_measures){0};
}

size_t smoe_measures_metric(const smoe_measures *m, const char *name) {
    for (size_t i = 0; i < m->metrics; i++)
        if (!strcmp(m->metric[i], name)) return i;
    return SIZE_MAX;
}

const char *smoe_measures_setting(const smoe_measures *m, size_t group, size_t column) {
    return m->own.value[group][column];
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
