/*
 * Groups of runs compared with a reference, seed by seed and image by image (compare/contrast.h):
 * which group is the reference of which, and the differences.
 *
 * A reference is a list of settings, "KEY=VALUE,KEY=VALUE": a group is compared with the group that
 * has these and its own values in all other columns; KEY=* lets the two differ in a column, if that
 * still leaves only one group. In a pool, every seed has one difference: the mean over the groups
 * of the pool that have results; so settings do not increase the number of seeds. Without settings
 * the reference is given by the values of the first run.
 */
#pragma once

#include "compare/measures.h"
#include "compare/settings.h"

/* A group and its reference, seed by seed and image by image. */
typedef struct smoe_difference {
    size_t group; /* of a pool, the first one */
    size_t metric;
    /* The mean over all groups that have the same as `group` where the reference has a value, each
     * with its own reference, of every seed. */
    bool pooled;
    smoe_paired paired; /* group - reference, with a 95% interval */
    double p;           /* that there is no difference; NAN below two seeds */
    double margin;      /* within which the two count as equivalent; NAN: none was given */
    bool time;          /* of a metric that is a time, which gets no verdict */
    bool equivalent;    /* within it, by two one-sided tests at 5% */
} smoe_difference;

typedef struct smoe_compare_options {
    const char *reference;   /* settings; NULL: see above */
    const char *equivalence; /* margins (compare/settings.h), or NULL */
    size_t from; /* without settings, the columns from this one on are those of the reference */
} smoe_compare_options;

typedef struct smoe_comparison {
    const smoe_measures *of; /* borrowed, as the options' texts are */
    smoe_compare_options options;
    smoe_settings settings; /* of the options, */
    /* and what the reference of a group has in each column: a value, "*", anything, or NULL, the
     * group's own. NULL: nothing is compared. */
    const char **reference;
    const char **pool; /* what is wanted so that only columns with a value there are compared */
    smoe_difference *difference; /* by metric, a pool behind its groups; without pairs: none */
    size_t differences;
} smoe_comparison;

/* SMOE_USAGE: columns that neither of the tables has, values that nothing in it has, or settings
 * that leave nothing in it with a counterpart. `from` says where they were given, for messages
 * ("--reference"). */
int smoe_compare_check(const smoe_combinations tables[2], const char *settings, const char *from,
                       smoe_err *err) SMOE_MUST_CHECK;

/* Without seeds and without settings there is nothing to compare. Free in any case. */
int smoe_comparison_make(smoe_comparison *comparison, const smoe_measures *measures,
                         const smoe_compare_options *options, smoe_err *err) SMOE_MUST_CHECK;
void smoe_comparison_free(smoe_comparison *comparison);

/* The settings that the references of all groups have in common, "model.moe.router=soft
 * model.moe.k=1"; fresh. */
char *smoe_comparison_reference(const smoe_comparison *comparison);
/* Whether a group is what others are compared with. */
bool smoe_comparison_refers(const smoe_comparison *comparison, size_t group);

/* Why a group is not compared and what would help, "not compared: VALUE, VALUE (no row of the
 * reference with KEY=VALUE); --reference ... compares it"; fresh. NULL where it is, or is the
 * reference itself. */
char *smoe_comparison_missing(const smoe_comparison *comparison, size_t group);

/*
 * The value of the group of a difference in a column; NULL for a pool whose groups may differ in
 * it.
 */
const char *smoe_difference_setting(const smoe_comparison *comparison,
                                    const smoe_difference *difference, size_t column);
/* "distinguishable" or "not distinguishable"; with a margin "equivalent within +-0.01", "different"
 * or "not decided"; of a time SMOE_MEASURES_TIME. Returns buf. */
const char *smoe_difference_verdict(char *buf, size_t size, const smoe_difference *difference);
