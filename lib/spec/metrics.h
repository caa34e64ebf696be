/*
 * The table of metrics: their names in the records of trainer, evaluation and few-shot, their
 * columns in the results of sweeps, and their labels in figures. A name always means the same
 * statistic; the context tells what it is computed over: the training batch or split of the record,
 * the layer. Adding one: an entry of metrics.def, its paragraph in the man page, and the place that
 * computes it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef enum smoe_metric {
#define METRIC(number, ...) SMOE_METRIC_##number,
#include "spec/metrics.def"
    SMOE_METRICS
} smoe_metric;

typedef enum smoe_metric_scope {
    SMOE_OF_RUN,
    SMOE_OF_RECORD,
    SMOE_OF_STEP,
    SMOE_OF_SPLIT,
    SMOE_OF_LAYER
} smoe_metric_scope;

typedef enum smoe_metric_layers { SMOE_LAYERS_APART, SMOE_LAYERS_MAX } smoe_metric_layers;

typedef enum smoe_metric_better { SMOE_NEITHER, SMOE_LOWER, SMOE_HIGHER } smoe_metric_better;

typedef enum smoe_metric_shown {
    SMOE_SHOWN_NOT,
    SMOE_SHOWN_SUMMARY,
    SMOE_SHOWN_SCREEN
} smoe_metric_shown;

#define SMOE_UNIT_SHARE "share" /* from 0 to 1 of a whole */

typedef struct smoe_metric_entry {
    const char *name;   /* in records; NULL: it is not recorded */
    const char *column; /* in results of sweeps; NULL: not there */
    const char *label, *unit;
    smoe_metric_scope scope;
    smoe_metric_layers layers;
    smoe_metric_better better;
    smoe_metric_shown shown;
} smoe_metric_entry;

extern const smoe_metric_entry smoe_metrics[SMOE_METRICS];

enum { SMOE_METRIC_KEY = 96 }; /* room for a key of a record, a column or a label */

/* A key of a record taken apart. */
typedef struct smoe_metric_place {
    smoe_metric metric;
    char split[16]; /* SPLIT: what the key begins with, "test" */
    size_t number;  /* of the block or of shots, where there is one */
} smoe_metric_place;

/* The key of a record. split: of an evaluation, may be NULL for others; number: see above. The
 * split train has the prefix train_split, as train/... are of the batches. Returns key. */
const char *smoe_metric_key(char key[SMOE_METRIC_KEY], smoe_metric metric, const char *split,
                            size_t number);
/* False: no key of a metric. */
bool smoe_metric_read(smoe_metric_place *place, const char *key);

/* The last part of its name, which is its name in other tables and in JSON; its column if it is not
 * recorded. */
const char *smoe_metric_name(smoe_metric metric);

/* Its column in results, number of shots included. Returns column. */
const char *smoe_metric_column(char column[SMOE_METRIC_KEY], smoe_metric metric, size_t number);
/*
 * The metric with that column of results, and its number of shots (may be NULL); SMOE_METRICS:
 * none.
 */
smoe_metric smoe_metric_of_column(const char *column, size_t *number);

/* Whether the metric with that column, or with that key of a record, is a share from 0 to 1. */
bool smoe_metric_is_share(const char *name);
/* Whether it is a time or a rate, which depends on what else the machine did. */
bool smoe_metric_is_time(smoe_metric metric);
/* Whether the column is in the summary; with `brief`, in the summary on the screen. */
bool smoe_metric_is_shown(const char *column, bool brief);

/* Its label in figures, if evaluations are of this split; NULL: of several splits. Returns
 * label. */
const char *smoe_metric_label(char label[SMOE_METRIC_KEY], smoe_metric metric, const char *split,
                              size_t number);

/* The label of a name in tables about training and layers (a key of a record, or a metric of a
 * layer), in buf; NULL if it is neither. */
const char *smoe_metric_say(const char *name, char *buf, size_t size);
/* The i-th of those names, evaluations being of the split test, its words in *words; NULL past the
 * last. */
const char *smoe_metric_words(size_t i, const char **words);
