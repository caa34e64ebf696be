/*
 * Contrasts: weighted sums over the groups of runs, seed by seed and, where the outcomes of the
 * test images are there, image by image. A difference of two groups has the weights 1 and -1; of a
 * pool of groups, each with its reference, 1/k and -1/k, so that every seed has one value, the mean
 * over the other settings; a trend those of a slope; a group by itself the weight 1. The weights of
 * several groups sum to 0. Trends themselves, of all metrics and settings, are below.
 *
 * Runs of one seed see the same data in the same order and start from the same weights in the
 * tensors that they share, and groups are tested on the same images, or pools of groups on several
 * sets of images: what seeds and images have in common drops out.
 */
#pragma once

#include "compare/measures.h"

/*
 * Measures sum_g weight[g] metric[g]; groups with weight 0 do not count. A seed counts when every
 * group has a value of it. The interval is over seeds and images (smoe_stats_add_images) where the
 * metric is known image by image, every run has outcomes, and all seeds have the same images;
 * groups with images of their own add what these add. Else it is over seeds alone. Without a seed
 * column there is one seed. SMOE_DATA: outcomes that are of something else.
 */
int smoe_contrast_measure(smoe_paired *paired, const smoe_measures *measures, const double *weight,
                          size_t metric, smoe_err *err) SMOE_MUST_CHECK;

/* The weights of the slope, by least squares over the groups with member[g], of a metric against
 * log2 of x[g] > 0: its change for each doubling. False where fewer than three x differ. [groups]
 * each. */
bool smoe_contrast_slope(double *weight, const bool *member, const double *x, size_t groups);

/* Whether some run of the group that contrasts do not leave out has the metric. */
bool smoe_contrast_has(const smoe_measures *measures, size_t group, size_t metric);

/* ---- trends: how metrics change with the numbers of a setting, per doubling ------------------ */

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
