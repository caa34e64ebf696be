/* The page of smoe compare; see compare_page.h. */
#include "compare_page.h"
#include "cmd.h"
#include "heading.h"
#include "base/file.h"
#include "spec/metrics.h"
#include "store/curves.h"
#include "store/run_compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 32, TITLE = 400, TABLES = 3 /* of a pair */ };

/* ---- curves ---------------------------------------------------------------------------------- */

void smoe_compare_curves(smoe_frame *frame) {
    static const smoe_column columns[] = {{"run", true},    {"step", false},  {"block", false},
                                          {"metric", true}, {"value", false}, {0}};
    smoe_frame_init(frame, "over_steps", "During training",
                    "Records of training and evaluations; quantities of the whole model have no "
                    "block",
                    columns);
}

int smoe_compare_add_curves(smoe_frame *frame, const char *run, smoe_err *err) {
    smoe_curves curves = {0};
    int status = smoe_curves_read(&curves, run, err);
    for (size_t i = 0; i < curves.count && !status; i++) {
        const smoe_curve *c = &curves.curve[i];
        smoe_metric_place at;
        if (smoe_record_of_clock(c->name) || !smoe_metric_read(&at, c->name)) continue;
        bool layer = smoe_metrics[at.metric].scope == SMOE_OF_LAYER;
        if (!layer && !smoe_metrics[at.metric].column) continue;
        for (size_t k = 0; k < c->points; k++)
            smoe_frame_put(frame, {"run", .text = run}, {"step", .number = c->step[k]},
                           {"block", .number = layer ? (double)at.number : NAN},
                           {"metric", .text = layer ? smoe_metric_name(at.metric) : c->name},
                           {"value", .number = c->value[k]});
    }
    smoe_curves_free(&curves);
    return status;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The tables of the page, with names and titles that tell pairs apart; borrowed otherwise. */
typedef struct tables {
    smoe_frame *frame;
    size_t count;
    char (*name)[NAME], (*title)[TITLE];
    smoe_report_fact *found; /* texts are borrowed */
    size_t found_count;
} tables;

static void add_table(tables *t, const smoe_frame *frame, const char *b, size_t number,
                      bool several) {
    if (!frame || !frame->rows) return;
    size_t i = t->count++;
    t->frame[i] = *frame;
    if (!several) return;
    snprintf(t->name[i], NAME, "%s%zu", frame->name, number);
    snprintf(t->title[i], TITLE, "%s: %s", frame->title, b);
    t->frame[i].name = t->name[i];
    t->frame[i].title = t->title[i];
}

static void add_sentence(tables *t, const char *term, const char *text) {
    if (text) t->found[t->found_count++] = (smoe_report_fact){term, text, false};
}

static int collect(tables *t, const smoe_compare_pair *pair, size_t pairs, const smoe_frame *seeds,
                   const smoe_frame *curves, smoe_err *err) {
    size_t most = TABLES * pairs + 2;
    t->frame = calloc(most, sizeof *t->frame);
    t->name = calloc(most, sizeof *t->name);
    t->title = calloc(most, sizeof *t->title);
    t->found = calloc(4 * pairs, sizeof *t->found);
    if (!t->frame || !t->name || !t->title || !t->found)
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for the page");
    for (size_t i = 0; i < pairs; i++) {
        const smoe_compare_pair *p = &pair[i];
        if (pairs > 1) add_sentence(t, "Against", p->b);
        add_sentence(t, "Records", p->records);
        add_sentence(t, "Weights", p->weights);
        add_sentence(t, "Outputs", p->outputs);
        add_table(t, p->settings, p->b, i + 1, pairs > 1);
        add_table(t, p->environment, p->b, i + 1, pairs > 1);
        add_table(t, p->metrics, p->b, i + 1, pairs > 1);
    }
    add_table(t, seeds, NULL, 0, false);
    add_table(t, curves, NULL, 0, false);
    return 0;
}

static int write_tables(const tables *t, const char *folder, smoe_err *err) {
    int status = 0;
    for (size_t i = 0; i < t->count && !status; i++) {
        char *path = smoe_text_format("%s/%s.csv", folder, t->frame[i].name);
        status = path ? smoe_file_make_parents(path, err)
                      : smoe_fail(err, SMOE_RUNTIME, "out of memory");
        if (!status) status = smoe_frame_csv(&t->frame[i], path, err);
        free(path);
    }
    return status;
}

/* ---- the page -------------------------------------------------------------------------------- */

static char *page_path(const smoe_options *options) {
    return smoe_text_format("%s/compare.html", options->out);
}

int smoe_compare_page_check(const smoe_options *options, smoe_err *err) {
    if (!options->out) return 0;
    char *path = page_path(options);
    int status =
        path ? smoe_cmd_target(path, options, err) : smoe_fail(err, SMOE_RUNTIME, "out of memory");
    free(path);
    return status;
}

static void say_files(const tables *t, const smoe_options *options) {
    char many[48];
    snprintf(many, sizeof many, "%zu tables", t->count);
    smoe_heading_files(options, options->out, (const char *const[]){"compare.html"}, 1, many);
}

int smoe_compare_page(const char *const *arg, const smoe_compare_pair *pair, size_t pairs,
                      const smoe_frame *seeds, const smoe_frame *curves, const smoe_origin *origin,
                      const smoe_options *options, smoe_err *err) {
    tables t = {0};
    char *path = page_path(options);
    char *title = pairs > 1 ? smoe_text_format("%s and %zu others", arg[0], pairs)
                            : smoe_text_format("%s and %s", arg[0], arg[1]);
    int status = path && title ? smoe_origin_check(origin, err)
                               : smoe_fail(err, SMOE_RUNTIME, "out of memory");
    if (!status) status = collect(&t, pair, pairs, seeds, curves, err);
    if (!status) status = write_tables(&t, options->out, err);
    const smoe_report report = {.frames = t.frame,
                                .frame_count = t.count,
                                .command = "smoe compare",
                                .title = title,
                                .lead = pairs > 1 ? "What differs between each and the first, a."
                                                  : "What differs between a, the first, and b.",
                                .found = t.found,
                                .found_count = t.found_count,
                                .origin = origin->fact,
                                .origin_count = origin->count};
    if (!status) status = smoe_file_make_parents(path, err);
    if (!status) status = smoe_report_write(&report, path, err);
    if (!status) say_files(&t, options);
    free(t.frame);
    free(t.name);
    free(t.title);
    free(t.found);
    free(title);
    free(path);
    return status;
}
