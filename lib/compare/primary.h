/*
 * Primary contrasts: the hypotheses, stated before any run. A primary contrast has
 *   row, reference   settings, "KEY=VALUE,KEY=VALUE". Every group that has the first is compared
 *                    with the one that has the second and is the same in all keys that the second
 *                    does not name; KEY=* there lets the two differ. Groups without such a
 *                    counterpart are left out
 *   trend, where     the slope of the measure against log2 of a key, over groups that have the
 *                    settings `where` and are the same in all keys but those it names with "*"
 * Every seed has the mean over what else differs (compare/contrast.h). `expect` says what is
 * tested, at 5% after Holm's correction over the family:
 *   higher, lower, different (of row - reference), rising, falling (of a trend)
 *                    that there is no difference, on both sides; significant the other way: refuted
 *   equivalent       that it is not within -+margin, by two one-sided tests; an interval that is
 *                    wholly outside: refuted
 * A key that begins with "evaluate." makes it a contrast of the evaluations.
 */
#pragma once

#include "compare/measures.h"
#include "compare/settings.h"
#include "spec/spec.h"

typedef enum smoe_finding {
    SMOE_OPEN, /* the data do not decide it */
    SMOE_CONFIRMED,
    SMOE_REFUTED
} smoe_finding;

typedef struct smoe_primary_result {
    const smoe_primary *asked;
    size_t groups; /* that have a counterpart, or that the trend goes over */
    smoe_paired paired;
    double margin;      /* of expect: equivalent; else NAN */
    double p, adjusted; /* of what is tested; adjusted by Holm's method */
    smoe_finding finding;
} smoe_primary_result;

/* Whether it is a contrast of the evaluations. */
bool smoe_primary_is_evaluated(const smoe_primary *primary);

/* Fills in the measure and the margin if the spec leaves them out, and checks the contrast against
 * the combinations of the sweep. SMOE_USAGE: parts that are missing or cannot be used together,
 * keys that are not swept, settings that fit no group or several. `from` is for messages. */
int smoe_primary_check(smoe_primary *primary, const char *equivalence,
                       const smoe_combinations *combinations, const char *from,
                       smoe_err *err) SMOE_MUST_CHECK;

/* The results of the plan's contrasts, in their order, in a fresh array of plan->primaries; NULL
 * where there are none. `evaluations` may be NULL: then nothing is known of them. */
int smoe_primary_decide(smoe_primary_result **results, const smoe_sweep_plan *plan,
                        const smoe_measures *trials, const smoe_measures *evaluations,
                        smoe_err *err) SMOE_MUST_CHECK;

/* "model.moe.router=soft - model.moe.router=dense", or "slope over model.moe.experts, SETTINGS";
 * fresh. */
char *smoe_primary_name(const smoe_primary *primary);
/* The same in words, "soft, lr 1e-3 - dense, lr 3e-3"; fresh. */
char *smoe_primary_words(const smoe_primary *primary);
