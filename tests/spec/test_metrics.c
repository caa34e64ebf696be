/* The table of metrics: names and keys in both directions, labels, and the man pages that repeat
 * it. */
#include "scratch.h"
#include "spec/metrics.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void rows_are_whole(void **state) {
    for (size_t m = 0; m < SMOE_METRICS; m++) {
        const smoe_metric_entry *entry = &smoe_metrics[m];
        assert_true(entry->label && (entry->name || entry->column));
        assert_true((entry->scope == SMOE_OF_RUN) == !entry->name);
        assert_true(entry->layers == SMOE_LAYERS_APART || entry->scope == SMOE_OF_LAYER);
        assert_true(entry->shown == SMOE_SHOWN_NOT || entry->column);
        if (entry->scope == SMOE_OF_SPLIT) assert_memory_equal(entry->name, "test/", 5);
        if (entry->scope == SMOE_OF_LAYER) assert_memory_equal(entry->name, "blocks.I/router/", 16);
        for (size_t k = 0; k < m; k++) {
            const smoe_metric_entry *other = &smoe_metrics[k];
            if (entry->name && other->name) assert_string_not_equal(entry->name, other->name);
            if (entry->column && other->column)
                assert_string_not_equal(entry->column, other->column);
        }
    }
}

/* Every key is read back as the metric, split and layer it was made of; every column belongs to
 * its metric. */
static void names_there_and_back(void **state) {
    static const char *const splits[][2] = {
        {"test", "test"}, {"val", "val"}, {"train", "train_split"}};
    static const size_t numbers[] = {0, 5, 10, 123};
    char text[SMOE_METRIC_KEY];
    for (size_t m = 0; m < SMOE_METRICS; m++)
        for (size_t i = 0; i < 12; i++) {
            const smoe_metric_entry *entry = &smoe_metrics[m];
            const char *const *split = splits[i % 3];
            size_t number = numbers[i / 3], found = SIZE_MAX;
            smoe_metric_place at;
            if (entry->column) {
                smoe_metric_column(text, (smoe_metric)m, number);
                assert_int_equal(smoe_metric_of_column(text, &found), m);
                assert_int_equal(found, strchr(entry->column, 'K') ? number : 0);
            }
            if (!entry->name) continue;
            smoe_metric_key(text, (smoe_metric)m, split[0], number);
            assert_true(smoe_metric_read(&at, text));
            assert_int_equal(at.metric, m);
            assert_int_equal(at.number, strpbrk(entry->name, "IK") ? number : 0);
            assert_string_equal(at.split, entry->scope == SMOE_OF_SPLIT ? split[1] : "");
        }
}

static void names_as_they_are_written(void **state) {
    char text[SMOE_METRIC_KEY];
    static const struct {
        smoe_metric metric;
        const char *split;
        size_t number;
        const char *key;
    } rows[] = {{SMOE_METRIC_TRAIN_LOSS, NULL, 0, "train/loss"},
                {SMOE_METRIC_LOSS, "test", 0, "test/loss"},
                {SMOE_METRIC_LOSS, "val", 0, "val/loss"},
                {SMOE_METRIC_PRECISION, "train", 0, "train_split/precision_at_1"},
                {SMOE_METRIC_FEWSHOT_L2, "val", 10, "val/fewshot_10_l2"},
                {SMOE_METRIC_DISPATCH_MAX, NULL, 11, "blocks.11/router/dispatch_max"},
                {SMOE_METRIC_WALL_S, NULL, 0, "wall_s"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(smoe_metric_key(text, rows[i].metric, rows[i].split, rows[i].number),
                            rows[i].key);
    static const char *const none[] = {"loss",
                                       "val",
                                       "val/",
                                       "train/dropped",
                                       "test/lr",
                                       "test/fewshot_",
                                       "test/fewshot_x",
                                       "test/fewshot_5_",
                                       "blocks./router/dropped",
                                       "blocks.1/router/",
                                       "blocks.1/router/dropped2",
                                       "other/router/dropped",
                                       "wall_s2",
                                       "a_split_of_seventeen/loss"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        smoe_metric_place at;
        if (smoe_metric_read(&at, none[i])) fail_msg("'%s' was read", none[i]);
    }
    assert_string_equal(smoe_metric_name(SMOE_METRIC_PRECISION), "precision_at_1");
    assert_string_equal(smoe_metric_name(SMOE_METRIC_DROPPED), "dropped");
    assert_string_equal(smoe_metric_name(SMOE_METRIC_STEP_S), "step_s");
    assert_string_equal(smoe_metric_name(SMOE_METRIC_WALL_S), "wall_s");
    assert_int_equal(smoe_metric_of_column("precision", NULL), SMOE_METRICS);
    assert_int_equal(smoe_metric_of_column("fewshot_", NULL), SMOE_METRICS);
}

static void labels_name_the_split(void **state) {
    char text[SMOE_METRIC_KEY];
    static const struct {
        smoe_metric metric;
        const char *split;
        size_t number;
        const char *label;
    } rows[] = {{SMOE_METRIC_LOSS, "test", 0, "test loss"},
                {SMOE_METRIC_LOSS, "val", 0, "val loss"},
                {SMOE_METRIC_PRECISION, NULL, 0, "top-1 accuracy"},
                {SMOE_METRIC_BEST_PRECISION, "val", 0, "best val top-1 accuracy"},
                {SMOE_METRIC_FEWSHOT, "test", 10, "test 10-shot accuracy"},
                {SMOE_METRIC_TRAIN_LOSS, "val", 0, "training loss"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(smoe_metric_label(text, rows[i].metric, rows[i].split, rows[i].number),
                            rows[i].label);
    static const char *const said[][2] = {{"dispatch_max", "largest dispatch weight"},
                                          {"dropped", "share of tokens dropped"},
                                          {"val/dropped", "share of val tokens dropped"},
                                          {"train/loss", "training loss"},
                                          {"test/loss", "test loss"}};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        assert_string_equal(smoe_metric_say(said[i][0], text, sizeof text), said[i][1]);
    assert_null(smoe_metric_say("loss", text, sizeof text)); /* the split is not given */
    assert_null(smoe_metric_say("block", text, sizeof text));
    const char *name, *words;
    size_t i = 0;
    for (; (name = smoe_metric_words(i, &words)); i++)
        assert_string_equal(smoe_metric_say(name, text, sizeof text) ? "said" : name, "said");
    assert_true(i > 10);
}

/* ---- man pages ------------------------------------------------------------------------------- */

/* The section METRICS of a page, without roff macros. */
static char *section(const char *path) {
    char *page = scratch_read(path, NULL), *from = strstr(page, "\n.SH METRICS\n"), *to = page;
    assert_non_null(from);
    char *end = strstr(from + 1, "\n.SH ");
    assert_non_null(end);
    for (const char *c = from; c <= end; c++)
        if (*c != '\\') *to++ = *c;
    *to = '\0';
    return page;
}

static size_t entries(const char *text) {
    size_t count = 0;
    for (const char *c = text; (c = strstr(c, "\n.TP\n")); c++) count++;
    return count;
}

/* The name has an entry, with words of its own. */
static void assert_entry(const char *text, const char *name) {
    char entry[200];
    snprintf(entry, sizeof entry, "\n.TP\n.B %s\n", name);
    const char *at = strstr(text, entry), *words = at ? at + strlen(entry) : "";
    if (!at) fail_msg("the page lacks the entry%s", entry);
    if (!*words || *words == '\n' || !strncmp(words, ".TP", 3))
        fail_msg("the entry%s has no words", entry);
}

static void the_man_pages_are_the_table(void **state) {
    char *run = section("man/smoe-run.5"), *sweep = section("man/smoe-sweep.1");
    size_t recorded = 0, columns = 0;
    for (size_t m = 0; m < SMOE_METRICS; m++) {
        const smoe_metric_entry *entry = &smoe_metrics[m];
        if (entry->name) assert_entry(run, entry->name);
        if (entry->column) assert_entry(sweep, entry->column);
        recorded += entry->name != NULL;
        columns += entry->column != NULL;
    }
    assert_int_equal(entries(run), recorded); /* conversely: no entry beyond those of the table */
    assert_int_equal(entries(sweep), columns);
    free(run);
    free(sweep);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_whole),
        cmocka_unit_test(names_there_and_back),
        cmocka_unit_test(names_as_they_are_written),
        cmocka_unit_test(labels_name_the_split),
        cmocka_unit_test(the_man_pages_are_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
