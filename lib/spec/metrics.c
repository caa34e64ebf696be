/* The table of metrics and its names; see metrics.h. */
#include "spec/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const smoe_metric_entry smoe_metrics[SMOE_METRICS] = {
#define METRIC(number, ...) [SMOE_METRIC_##number] = {__VA_ARGS__},
#include "spec/metrics.def"
};

/* In names and labels of the table, "test" stands for the split. */
enum { SPLIT = sizeof "test" - 1, SPLIT_ROOM = sizeof((smoe_metric_place *)0)->split };

/* ---- patterns: a capital stands for a number ------------------------------------------------- */

static void metrics_put(char *text, size_t size, const char *pattern, size_t number) {
    const char *letter = pattern + strcspn(pattern, "IK");
    if (*letter)
        snprintf(text, size, "%.*s%zu%s", (int)(letter - pattern), pattern, number, letter + 1);
    else
        snprintf(text, size, "%s", pattern);
}

static bool metrics_matches(const char *pattern, const char *text, size_t *number) {
    size_t before = strcspn(pattern, "IK"), digits;
    *number = 0;
    if (!pattern[before]) return !strcmp(pattern, text);
    if (strncmp(pattern, text, before)) return false;
    digits = strspn(text + before, "0123456789");
    *number = strtoul(text + before, NULL, 10);
    return digits && !strcmp(pattern + before + 1, text + before + digits);
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *smoe_metric_key(char key[SMOE_METRIC_KEY], smoe_metric metric, const char *split,
                            size_t number) {
    const smoe_metric_entry *entry = &smoe_metrics[metric];
    if (entry->scope == SMOE_OF_SPLIT) {
        int length =
            snprintf(key, SPLIT_ROOM, "%s", strcmp(split, "train") ? split : "train_split");
        metrics_put(key + length, SMOE_METRIC_KEY - (size_t)length, entry->name + SPLIT, number);
    } else {
        metrics_put(key, SMOE_METRIC_KEY, entry->name, number);
    }
    return key;
}

bool smoe_metric_read(smoe_metric_place *place, const char *key) {
    size_t prefix = strcspn(key, "/");
    *place = (smoe_metric_place){0};
    for (size_t m = 0; m < SMOE_METRICS; m++) {
        const smoe_metric_entry *entry = &smoe_metrics[m];
        bool split = entry->scope == SMOE_OF_SPLIT;
        if (!entry->name) continue;
        if (!metrics_matches(entry->name + (split ? SPLIT : 0), key + (split ? prefix : 0),
                             &place->number))
            continue;
        if (split && (!strncmp(key, "train/", prefix + 1) || prefix >= SPLIT_ROOM)) continue;
        place->metric = (smoe_metric)m;
        if (split) memcpy(place->split, key, prefix);
        return true;
    }
    return false;
}

const char *smoe_metric_name(smoe_metric metric) {
    const smoe_metric_entry *entry = &smoe_metrics[metric];
    const char *slash = entry->name ? strrchr(entry->name, '/') : NULL;
    return !entry->name ? entry->column : slash ? slash + 1 : entry->name;
}

const char *smoe_metric_column(char column[SMOE_METRIC_KEY], smoe_metric metric, size_t number) {
    metrics_put(column, SMOE_METRIC_KEY, smoe_metrics[metric].column, number);
    return column;
}

smoe_metric smoe_metric_of_column(const char *column, size_t *number) {
    size_t ignored, m = 0;
    while (m < SMOE_METRICS &&
           !(smoe_metrics[m].column &&
             metrics_matches(smoe_metrics[m].column, column, number ? number : &ignored)))
        m++;
    return (smoe_metric)m;
}

const char *smoe_metric_label(char label[SMOE_METRIC_KEY], smoe_metric metric, const char *split,
                              size_t number) {
    char text[SMOE_METRIC_KEY];
    metrics_put(text, sizeof text, smoe_metrics[metric].label, number);
    const char *at = strstr(text, "test ");
    if (at)
        snprintf(label, SMOE_METRIC_KEY, "%.*s%.16s%s", (int)(at - text), text, split ? split : "",
                 at + SPLIT + !split);
    else
        snprintf(label, SMOE_METRIC_KEY, "%s", text);
    return label;
}

/* The name in tables of a metric of a step, an evaluation or a layer; NULL for others, and for
 * few-shot accuracies, which have many names. */
static const char *name_in_tables(smoe_metric metric) {
    const smoe_metric_entry *entry = &smoe_metrics[metric];
    if (entry->scope == SMOE_OF_RUN || entry->scope == SMOE_OF_RECORD) return NULL;
    if (entry->scope == SMOE_OF_LAYER) return smoe_metric_name(metric);
    return strchr(entry->name, 'K') ? NULL : entry->name;
}

const char *smoe_metric_say(const char *name, char *buf, size_t size) {
    smoe_metric_place at;
    char label[SMOE_METRIC_KEY];
    const char *slash = strchr(name, '/');
    for (size_t m = 0; m < SMOE_METRICS; m++) {
        if (smoe_metrics[m].scope != SMOE_OF_LAYER) continue;
        if (strcmp(name, smoe_metric_name((smoe_metric)m))) continue;
        snprintf(buf, size, "%s", smoe_metrics[m].label);
        return buf;
    }
    if (!slash || !smoe_metric_read(&at, name)) return NULL;
    snprintf(buf, size, "%s", smoe_metric_label(label, at.metric, at.split, at.number));
    return buf;
}

const char *smoe_metric_words(size_t i, const char **words) {
    for (size_t m = 0; m < SMOE_METRICS; m++) {
        const char *name = name_in_tables((smoe_metric)m);
        if (!name || i--) continue;
        *words = smoe_metrics[m].label;
        return name;
    }
    return NULL;
}

bool smoe_metric_is_share(const char *name) {
    smoe_metric_place place = {.metric = smoe_metric_of_column(name, NULL)};
    if (place.metric == SMOE_METRICS && !smoe_metric_read(&place, name)) return false;
    const char *unit = smoe_metrics[place.metric].unit;
    return unit && !strcmp(unit, SMOE_UNIT_SHARE);
}

bool smoe_metric_is_time(smoe_metric m) {
    const char *unit = m < SMOE_METRICS ? smoe_metrics[m].unit : NULL;
    return unit && (!strcmp(unit, "s") || !strcmp(unit, "1/s"));
}

bool smoe_metric_is_shown(const char *column, bool brief) {
    smoe_metric m = smoe_metric_of_column(column, NULL);
    return m < SMOE_METRICS &&
           smoe_metrics[m].shown >= (brief ? SMOE_SHOWN_SCREEN : SMOE_SHOWN_SUMMARY);
}
