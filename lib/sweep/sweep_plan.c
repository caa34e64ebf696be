/* The plan of a sweep; see sweep.h. */
#include "sweep/sweep.h"
#include "compare/compare.h"
#include "compare/settings.h"
#include "compare/primary.h"
#include "spec/schema.h"
#include "sweep/evaluations.h"

/* Checks a contrast against the combinations of the trials, or of trials and points. */
static int check_primary(const smoe_sweep *sweep, smoe_primary *primary, const char *equivalence,
                         const char *from, smoe_err *err) {
    SMOE_FREED_BY(smoe_sweep_free) smoe_sweep evaluated = {0};
    const smoe_sweep *all = smoe_primary_is_evaluated(primary) ? &evaluated : sweep;
    if (all == &evaluated) smoe_evaluations_cross(&evaluated, sweep);
    SMOE_FREED char *const **value = smoe_alloc(all->trials, sizeof *value);
    smoe_combinations r = {.prefix = "",
                           .column = all->column,
                           .columns = all->columns,
                           .seed = all->seed,
                           .value = value};
    for (size_t i = 0; i < all->trials; i++) (void)smoe_combinations_add(&r, all->trial[i].value);
    return smoe_primary_check(primary, equivalence, &r, from, err);
}

/* The number of contrasts of all sweeps together. */
static int check_family(const smoe_sweep_plan *plan, smoe_err *err) {
    double family;
    if (!plan->family || (smoe_value_number(plan->family, true, &family) && family >= 1 &&
                          family >= (double)plan->primaries))
        return 0;
    return smoe_fail(err, SMOE_USAGE,
                     "%s: '%s' is not a number of contrasts; the sweep itself has %zu",
                     plan->family_from, plan->family, plan->primaries);
}

int smoe_sweep_set_plan(smoe_sweep *sweep, smoe_sweep_plan *plan, smoe_err *err) {
    smoe_err own, found = {0};
    sweep->plan = *plan;
    *plan = (smoe_sweep_plan){0};
    plan = &sweep->plan;
    if (plan->equivalence && smoe_margin_check(plan->equivalence, plan->equivalence_from, &own))
        smoe_fail_more(&found, own.code, "%s", own.text);
    if (check_family(plan, &own)) smoe_fail_more(&found, own.code, "%s", own.text);
    for (size_t i = 0; i < plan->primaries; i++)
        if (check_primary(sweep, &plan->primary[i], plan->equivalence, plan->primary[i].from, &own))
            smoe_fail_more(&found, own.code, "%s", own.text);
    return smoe_fail_found(err, &found);
}

bool smoe_sweep_seen(const smoe_sweep_plan *plan, const char *seed) {
    return smoe_text_has_word(plan->seen, ',', seed);
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
    const smoe_points *points = &sweep->evaluate;
    SMOE_FREED char *const **trial = smoe_alloc(sweep->trials + 1, sizeof *trial);
    for (size_t i = 0; i < sweep->trials; i++) trial[i] = sweep->trial[i].value;
    const smoe_combinations tables[] = {
        {"", sweep->column, sweep->columns, sweep->seed, trial, sweep->trials},
        {SMOE_EVALUATED, points->column, points->columns, SIZE_MAX, (char *const **)points->value,
         points->points}};
    if (smoe_compare_check(tables, text, from, err)) return -1;
    smoe_text_set(&sweep->reference, text);
    return 0;
}
