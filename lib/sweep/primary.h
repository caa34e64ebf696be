/*
 * What a sweep is to show, said before any trial runs: primary contrasts, and margins within which
 * settings count as equivalent. They stand in the manifest and cannot change once it is written.
 *
 * A primary contrast is one of
 *   row, reference   settings, "KEY=VALUE,KEY=VALUE". Every row that has the first is compared with
 *                    the one that has the second and is the same in all keys that the second does
 *                    not name; KEY=* there lets the two differ. Rows without such a counterpart are
 *                    left out
 *   trend, where     the slope of the measure against log2 of a swept key, over rows that have the
 *                    settings `where` and are the same in all keys but those it names with "*"
 * Over what else is swept every seed has the mean (sweep/contrast.h). `expect` says what is tested,
 * at 5% after Holm's correction over the family:
 *   higher, lower, different (of row - reference), rising, falling (of a trend)
 *                    that there is no difference, on both sides; significant the other way: refuted
 *   equivalent       that it is not within -+margin, by two one-sided tests; an interval that is
 *                    wholly outside: refuted
 * A key that begins with "evaluate." makes it a contrast of the evaluations.
 */
#ifndef SMOE_PRIMARY_H
#define SMOE_PRIMARY_H

#include "sweep/results.h"

/* The margin of a metric in a text "0.01" (of shares: precision, dropped, few-shot accuracies) or
 * "METRIC=0.01,METRIC=0.1"; NAN: none. `text` may be NULL. */
double smoe_equivalence_margin(const char *text, const char *metric);

/* Gives the plan another text of margins, for differences that are no primary contrasts; `from` is
 * who wants it. SMOE_USAGE: no positive numbers, or metrics that nobody measures. */
int smoe_equivalence_set(smoe_sweep *sweep, const char *text, const char *from,
                         smoe_err *err) SMOE_MUST_CHECK;

/* Takes the plan over from a spec and checks it against the trials and the evaluations. SMOE_USAGE,
 * with the number of the contrast: parts that are missing or do not go together, keys that are not
 * swept, settings that no row or several could have. */
int smoe_primary_plan(smoe_sweep *sweep, smoe_sweep_plan *plan, smoe_err *err) SMOE_MUST_CHECK;

/* Are two plans' primary contrasts the same? */
bool smoe_primary_same(const smoe_sweep_plan *a, const smoe_sweep_plan *b);

/* For results.c: fills primary. */
int smoe_results_decide(smoe_results *results, smoe_err *err) SMOE_MUST_CHECK;

/* "model.moe.router=soft - model.moe.router=dense", or "slope over model.moe.experts, SETTINGS";
 * fresh, NULL when out of memory. */
char *smoe_primary_name(const smoe_primary *primary);

#endif
