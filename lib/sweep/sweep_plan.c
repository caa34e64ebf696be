/* The plan of a sweep; see sweep_plan.h. */
#include "sweep/sweep_plan.h"
#include "compare/compare.h"
#include "compare/settings.h"
#include "compare/primary.h"

/* The combinations of the trials, or of trials and points, without the seed. */
static void sweep_plan_combine(smoe_combinations *r, char ***flat, const smoe_sweep *sweep,
                               bool evaluated) {
    const smoe_axis *axis = &sweep->evaluate;
    size_t points = evaluated ? axis->points : 1, later = evaluated ? axis->columns : 0;
    size_t columns = sweep->columns + later, most = sweep->trials * points;
    char **column = smoe_alloc(columns + 1, sizeof *column);
    char *const **value = smoe_alloc(most + 1, sizeof *value);
    *flat = smoe_alloc(most * columns + 1, sizeof **flat);
    *r = (smoe_combinations){
        .prefix = "", .column = column, .columns = columns, .seed = sweep->seed, .value = value};
    for (size_t c = 0; c < columns; c++)
        column[c] = c < sweep->columns
                        ? smoe_alloc_text(sweep->column[c])
                        : smoe_text_format(SMOE_EVALUATED "%s", axis->column[c - sweep->columns]);
    for (size_t n = 0; n < most; n++) {
        char **own = *flat + r->count * columns;
        for (size_t c = 0; c < columns; c++)
            own[c] = c < sweep->columns ? sweep->trial[n / points].value[c]
                                        : axis->point[n % points].value[c - sweep->columns];
        (void)smoe_combinations_add(r, own);
    }
}

static void combine_free(smoe_combinations *r, char **flat) {
    smoe_texts_free((char **)r->column, r->columns);
    free((void *)r->value);
    free(flat);
}

static int check_primary(const smoe_sweep *sweep, smoe_primary *primary, const char *equivalence,
                         const char *from, smoe_err *err) {
    smoe_combinations all;
    char **flat;
    sweep_plan_combine(&all, &flat, sweep, smoe_primary_is_evaluated(primary));
    int status = smoe_primary_check(primary, equivalence, &all, from, err);
    combine_free(&all, flat);
    return status;
}

int smoe_sweep_set_plan(smoe_sweep *sweep, smoe_sweep_plan *plan, smoe_err *err) {
    char from[64], *end;
    sweep->plan = *plan;
    *plan = (smoe_sweep_plan){0};
    plan = &sweep->plan;
    if (plan->equivalence && smoe_margin_check(plan->equivalence, "sweep.equivalence", err))
        return -1;
    unsigned long long family = plan->family ? strtoull(plan->family, &end, 10) : plan->primaries;
    if (plan->family && (*end || *plan->family == '-' || family < plan->primaries || !family))
        return smoe_fail(
            err, SMOE_USAGE,
            "sweep.family: '%s' is not a number of contrasts; the sweep itself has %zu",
            plan->family, plan->primaries);
    if (plan->seen && plan->seen[strspn(plan->seen, "0123456789,")])
        return smoe_fail(err, SMOE_USAGE, "sweep.seen: '%s' is not a list of seeds", plan->seen);
    for (size_t i = 0; i < plan->primaries; i++) {
        snprintf(from, sizeof from, "sweep.primary, contrast %zu", i + 1);
        if (check_primary(sweep, &plan->primary[i], plan->equivalence, from, err)) return -1;
    }
    return 0;
}

bool smoe_sweep_seen(const smoe_sweep_plan *plan, const char *seed) {
    size_t length = strlen(seed);
    for (const char *at = plan->seen; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (!strncmp(at, seed, length) && (!at[length] || at[length] == ',')) return true;
    }
    return false;
}

bool smoe_sweep_see(smoe_sweep_plan *plan, const char *seeds) {
    SMOE_FREED char *copy = smoe_alloc_text(seeds);
    bool new = false;
    for (char *rest = copy, *seed; (seed = strsep(&rest, ","));) {
        if (!*seed || smoe_sweep_seen(plan, seed)) continue;
        smoe_text_add(&plan->seen, "%s%s", plan->seen ? "," : "", seed);
        new = true;
    }
    return new;
}

int smoe_sweep_refer(smoe_sweep *sweep, const char *text, const char *from, smoe_err *err) {
    size_t points = sweep->evaluate.points;
    SMOE_FREED char *const **trial = smoe_alloc(sweep->trials + 1, sizeof *trial);
    SMOE_FREED char *const **point = smoe_alloc(points + 1, sizeof *point);
    for (size_t i = 0; i < sweep->trials; i++) trial[i] = sweep->trial[i].value;
    for (size_t p = 0; p < points; p++) point[p] = sweep->evaluate.point[p].value;
    const smoe_combinations tables[] = {
        {"", sweep->column, sweep->columns, sweep->seed, trial, sweep->trials},
        {SMOE_EVALUATED, sweep->evaluate.column, sweep->evaluate.columns, SIZE_MAX, point, points}};
    if (smoe_compare_check(tables, text, from, err)) return -1;
    char *copy = smoe_alloc_text(text);
    free(sweep->reference);
    sweep->reference = copy;
    return 0;
}

int smoe_sweep_set_equivalence(smoe_sweep *sweep, const char *text, const char *from,
                               smoe_err *err) {
    if (smoe_margin_check(text, from, err)) return -1;
    char *copy = smoe_alloc_text(text);
    free(sweep->plan.equivalence);
    sweep->plan.equivalence = copy;
    return 0;
}
