/* Trends: how metrics change with the numbers of a setting, per doubling. */
#ifndef SMOE_TREND_H
#define SMOE_TREND_H

#include "compare/measures.h"

typedef struct smoe_trend {
    size_t group; /* the first group; the others have other values in `column` */
    size_t column, metric;
    size_t groups;
    smoe_paired paired; /* the slope */
    double p;           /* that there is none */
    bool time;          /* of a time or a rate, which gets no verdict */
} smoe_trend;

typedef struct smoe_trends {
    const smoe_measures *of; /* borrowed */
    smoe_trend *trend;       /* [count], by metric */
    size_t count;
} smoe_trends;

/* A slope for each metric that people look at first and each set of groups that differ in one
 * column alone, of three or more positive numbers. Groups without any result are left out. There is
 * none where there are no seeds. Free in any case. */
int smoe_trends_make(smoe_trends *trends, const smoe_measures *measures,
                     smoe_err *err) SMOE_MUST_CHECK;
void smoe_trends_free(smoe_trends *trends);

/* "rising", "falling", "not distinguishable"; of a time SMOE_MEASURES_TIME. */
const char *smoe_trend_direction(const smoe_trend *trend);
/* What the groups of a trend have in a column, "*" in the one that it goes over. */
const char *smoe_trend_setting(const smoe_trends *trends, const smoe_trend *trend, size_t column);

#endif
