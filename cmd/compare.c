/* smoe compare: what differs between runs, each against the first: settings, environment, the first
 * step whose records differ, metrics paired by step, and weights; as text, JSON and a page. */
#include "cmd.h"
#include "compare_more.h"
#include "heading.h"
#include "origin.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "spec/metrics.h"
#include "store/curves.h"
#include "store/model_file.h"
#include "store/run.h"
#include "store/run_compare.h"

#include <math.h>
#include <stdlib.h>

/* A run, a cell, or a checkpoint, which has only settings and weights. */
typedef struct side {
    const char *arg;
    char *model, *metrics; /* paths; NULL: none */
    smoe_safetensors *file;
    json_t *spec, *env;
} side;

static void side_free(side *x) {
    smoe_safetensors_free(x->file);
    free(x->model);
    free(x->metrics);
    json_decref(x->spec);
    json_decref(x->env);
}

/* The spec in the file of the model. */
static int compare_read_spec(side *x, const char *text, smoe_err *err) {
    json_error_t error;
    x->spec = text ? json_loads(text, 0, &error) : json_object();
    return x->spec ? 0
                   : smoe_fail(err, SMOE_DATA, "%s: its spec is not valid JSON: %s", x->model,
                               error.text);
}

/* The environment and records of a run; missing files are left out. */
static void read_run(side *x) {
    SMOE_FREED char *env = smoe_text_format("%s/env.json", x->arg);
    x->metrics = smoe_text_format("%s/metrics.jsonl", x->arg);
    x->env = smoe_json_read(env);
    /* of the start of a run, and never the same */
    json_object_del(x->env, "argv");
    json_object_del(x->env, "cwd");
    json_object_del(x->env, "date");
    /* whole environments, of which their number is enough here */
    size_t resumes = json_array_size(json_object_get(x->env, "previous"));
    if (json_object_del(x->env, "previous") == 0)
        json_object_set_new(x->env, "resumes", json_integer((json_int_t)resumes));
}

static int side_open(side *x, const char *arg, const smoe_options *options, smoe_err *err) {
    SMOE_FREED char *text = NULL;
    x->arg = arg;
    if (smoe_cmd_model(&x->model, &text, &x->file, arg, options->which, options, err) ||
        compare_read_spec(x, text, err))
        return -1;
    if (smoe_file_holds(arg, "metrics.jsonl")) read_run(x);
    return 0;
}

/* ---- two of them ----------------------------------------------------------------------------- */

typedef struct comparison {
    smoe_frame settings, environment, metrics;
} comparison;

static void comparison_free(comparison *c) {
    smoe_frame_free(&c->settings);
    smoe_frame_free(&c->environment);
    smoe_frame_free(&c->metrics);
}

/* A table of what differs; of several pairs, its name and title say which. */
static void add_table(smoe_result *result, const char *key, smoe_frame *frame, const char *b,
                      size_t number, bool printed) {
    char text[400];
    if (!frame->rows && printed) smoe_result_line(result, frame->name, "the same");
    smoe_result_frame(result, key, frame, printed);
    if (!number) return;
    snprintf(text, sizeof text, "%s%zu", frame->name, number);
    frame->name = smoe_frame_keep(frame, text);
    snprintf(text, sizeof text, "%s, %s", frame->title, b);
    frame->title = smoe_frame_keep(frame, text);
}

/* Where the records of two runs differ first. */
static void add_records(smoe_result *result, const smoe_run_difference *d) {
    const double near = 1e6; /* ulps; further apart, their number says nothing */
    smoe_fact_truth(result, "records:same", !d->any);
    smoe_fact_number(result, "records:records", (double)d->records);
    if (!d->any) {
        smoe_result_line(result, "records", "all %zu are the same, except for times", d->records);
        return;
    }
    smoe_fact_number(result, "records:step", (double)d->step);
    smoe_fact_text(result, "records:metric", d->metric);
    smoe_fact_number(result, "records:a", d->a);
    smoe_fact_number(result, "records:b", d->b);
    smoe_fact_number(result, "records:ulps", d->ulps);
    smoe_result_line(result, "records", "%s", "");
    if (d->records) smoe_result_more(result, "the first %zu are the same; ", d->records);
    smoe_result_more(result, "at step %llu%s ", (unsigned long long)d->step,
                     d->records ? "" : ", the first one,");
    if (!*d->metric)
        smoe_result_more(result, "only one of the runs has a record");
    else if (isnan(d->ulps))
        smoe_result_more(result, "they differ in %s", d->metric);
    else if (d->ulps <= near)
        smoe_result_more(result, "they differ in %s: %.17g and %.17g, %.3g ulps apart", d->metric,
                         d->a, d->b, d->ulps);
    else
        smoe_result_more(result, "they differ in %s: %.6g and %.6g", d->metric, d->a, d->b);
}

/* The names of the classes in a model file, for people. */
static void add_class_names(smoe_result *result, const char *before, const smoe_safetensors *file) {
    enum { SHOWN = 6 };
    json_auto_t *names = json_loads(smoe_safetensors_metadata(file, SMOE_CLASS_NAMES), 0, NULL);
    size_t count = json_array_size(names);
    smoe_result_more(result, "%s", before);
    for (size_t i = 0; i < count && i < SHOWN; i++)
        smoe_result_more(result, "%s%s", i ? ", " : "",
                         json_string_value(json_array_get(names, i)));
    if (count > SHOWN) smoe_result_more(result, " and %zu more", count - SHOWN);
}

static void add_weights(smoe_result *result, const smoe_weights_difference *w,
                        const smoe_safetensors *a, const smoe_safetensors *b) {
    smoe_fact_number(result, "weights:tensors", (double)w->tensors);
    smoe_fact_number(result, "weights:equal", (double)w->equal);
    smoe_fact_number(result, "weights:unmatched", (double)w->alone);
    smoe_fact_text(result, "weights:most", w->most);
    smoe_fact_number(result, "weights:distance", w->distance);
    smoe_result_line(result, "weights", "%zu of %zu tensors are the same", w->equal, w->tensors);
    if (w->alone)
        smoe_result_more(result, ", %zu in only one model or of different shapes", w->alone);
    if (w->distance > 0)
        smoe_result_more(result, "; the largest difference is %.6g, in %s", w->distance, w->most);
    smoe_fact_truth(result, "weights:same_classes", !w->other_classes);
    if (!w->other_classes) return;
    smoe_result_line(result, "classes", "%s", "");
    add_class_names(result, "heads are not compared, for their classes differ: ", a);
    add_class_names(result, "; ", b);
}

static void add_outputs(smoe_result *result, const smoe_logits_apart *o) {
    smoe_fact_number(result, "outputs:images", (double)o->images);
    smoe_fact_number(result, "outputs:agree", (double)o->agree);
    smoe_fact_number(result, "outputs:both_right", (double)o->right[1][1]);
    smoe_fact_number(result, "outputs:a_right", (double)o->right[1][0]);
    smoe_fact_number(result, "outputs:b_right", (double)o->right[0][1]);
    smoe_fact_number(result, "outputs:none_right", (double)o->right[0][0]);
    smoe_fact_number(result, "outputs:most", o->most);
    smoe_fact_number(result, "outputs:rms", o->rms);
    smoe_fact_text(result, "outputs:where", o->where);
    smoe_result_line(result, "outputs",
                     "of %zu images %zu have the same top class; right: both %zu, only a %zu, only "
                     "b %zu, none %zu",
                     o->images, o->agree, o->right[1][1], o->right[1][0], o->right[0][1],
                     o->right[0][0]);
    smoe_result_line(result, "logits", "differ by %.6g (root mean square), at most by %.6g, of %s",
                     o->rms, o->most, o->where);
}

/* Compares b, the argument of this number, with the first; number 0: there are only two. */
static int compare(smoe_result *result, comparison *c, const side *a, const side *b, size_t number,
                   const smoe_options *options, smoe_err *err) {
    smoe_run_difference first;
    smoe_weights_difference weights;
    smoe_logits_apart outputs;
    bool records = a->metrics && b->metrics;
    smoe_runs_compare_json(&c->settings, "settings", "Settings", a->spec, b->spec);
    smoe_runs_compare_json(&c->environment, "environment", "Environment", a->env, b->env);
    if (records && smoe_runs_compare_records(&first, &c->metrics, a->metrics, b->metrics, err))
        return -1;
    smoe_runs_compare_weights(&weights, a->file, b->file);
    if (options->outputs && smoe_compare_outputs(&outputs, a->arg, b->arg, options, err)) return -1;
    smoe_fact_text(result, "a", a->arg, .heading = "a");
    smoe_fact_text(result, "b", b->arg, .heading = "b");
    add_table(result, "settings", &c->settings, b->arg, number, true);
    add_table(result, "environment", &c->environment, b->arg, number, a->env && b->env);
    if (records) {
        add_records(result, &first);
        add_table(result, "metrics", &c->metrics, b->arg, number, true);
    } else {
        smoe_fact_number(result, "records", NAN);
        smoe_fact_number(result, "metrics", NAN);
    }
    if (options->outputs)
        add_outputs(result, &outputs);
    else
        smoe_fact_number(result, "outputs", NAN);
    add_weights(result, &weights, a->file, b->file);
    return 0;
}

/* ---- the page -------------------------------------------------------------------------------- */

/* The records of a run over the steps, for the figure over_steps of the page. */
static int add_curves(smoe_frame *frame, const char *run, smoe_err *err) {
    SMOE_FREED_BY(smoe_curves_free) smoe_curves curves = {0};
    if (smoe_curves_read(&curves, run, err)) return -1;
    for (size_t i = 0; i < curves.count; i++) {
        const smoe_curve *c = &curves.curve[i];
        smoe_metric_place at;
        if (smoe_record_of_clock(c->name) || !smoe_metric_read(&at, c->name)) continue;
        bool layer = smoe_metrics[at.metric].scope == SMOE_OF_LAYER;
        if (!layer && !smoe_metrics[at.metric].column) continue;
        for (size_t k = 0; k < c->points; k++) {
            smoe_cell_text(frame, "run", run);
            smoe_cell_number(frame, "step", c->step[k]);
            smoe_cell_number(frame, "block", layer ? (double)at.number : NAN);
            smoe_cell_text(frame, "metric", layer ? smoe_metric_name(at.metric) : c->name);
            smoe_cell_number(frame, "value", c->value[k]);
            smoe_frame_end(frame);
        }
    }
    return 0;
}

static char *page_path(const smoe_options *options) {
    return options->out ? smoe_text_format("%s/compare.html", options->out) : NULL;
}

/* -o: compare.html and a file per table. */
static int write_page(smoe_result *result, const side *sides, const smoe_options *options,
                      smoe_err *err) {
    size_t pairs = options->args - 1;
    smoe_frame *curves = smoe_result_table(result, NULL, "over_steps");
    SMOE_FREED_BY(smoe_origin_free) smoe_origin origin = {0};
    SMOE_FREED char *path = page_path(options);
    SMOE_FREED char *title = pairs > 1
                                 ? smoe_text_format("%s and %zu others", options->arg[0], pairs)
                                 : smoe_text_format("%s and %s", options->arg[0], options->arg[1]);
    curves->where = SMOE_IN_CSV;
    curves->title = "During training";
    curves->caption = "Records of training and evaluations; quantities of the whole model have no "
                      "block";
    smoe_origin_open(&origin, options);
    for (size_t i = 0; i <= pairs; i++) {
        smoe_origin_add(&origin, sides[i].arg, json_dumps(sides[i].spec, JSON_INDENT(1)), true);
        if (sides[i].metrics && add_curves(curves, sides[i].arg, err)) return -1;
    }
    const smoe_report report = {.command = "smoe compare",
                                .title = title,
                                .lead = pairs > 1 ? "What differs between each and the first, a."
                                                  : "What differs between a, the first, and b.",
                                .origin = origin.fact,
                                .origin_count = origin.count};
    if (smoe_result_check(result, err) || smoe_file_make_parents(path, err) ||
        smoe_result_csv(result, options->out, err))
        return -1;
    return smoe_report_result(&report, result, path, err);
}

/* Groups that differ in the seed alone, where some of the arguments form them. */
static int group(smoe_frame *frame, const side *sides, size_t count, smoe_err *err) {
    SMOE_FREED smoe_compared *run = smoe_alloc(count, sizeof *run);
    for (size_t i = 0; i < count; i++)
        run[i] = (smoe_compared){sides[i].arg, sides[i].spec, sides[i].metrics != NULL};
    return smoe_compare_seeds(frame, run, count, err);
}

int cmd_compare(const smoe_options *options, smoe_err *err) {
    SMOE_FREED side *sides = smoe_alloc(options->args, sizeof *sides);
    SMOE_FREED comparison *c = smoe_alloc(options->args, sizeof *c);
    SMOE_FREED_BY(smoe_result_free) smoe_result result = {0};
    SMOE_FREED_BY(smoe_frame_free) smoe_frame seeds = {0};
    SMOE_FREED char *page = page_path(options);
    int status = smoe_cmd_target(page, options, err);
    for (size_t i = 0; i < options->args && !status; i++)
        status = side_open(&sides[i], options->arg[i], options, err);
    for (size_t i = 1; i < options->args && !status; i++)
        status = compare(smoe_result_part(&result, "comparisons"), &c[i], &sides[0], &sides[i],
                         options->args > 2 ? i : 0, options, err);
    if (!status) status = group(&seeds, sides, options->args, err);
    if (!status) smoe_result_frame(&result, "seeds", &seeds, true);
    if (!status && options->out) status = write_page(&result, sides, options, err);
    if (!status) status = smoe_cmd_emit(&result, options, err);
    if (!status && options->out)
        smoe_heading_files(options, options->out, (const char *const[]){"compare.html"}, 1,
                           "its tables");
    for (size_t i = 0; i < options->args; i++) {
        comparison_free(&c[i]);
        side_free(&sides[i]);
    }
    return status;
}
