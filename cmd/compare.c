/* smoe compare: what differs between runs, each against the first: settings, environment, the first
 * step whose records differ, metrics paired by step, and weights. */
#include "cmd.h"
#include "compare_more.h"
#include "table.h"
#include "base/file.h"
#include "store/run.h"
#include "store/run_compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
static int read_spec(side *x, const char *text, smoe_err *err) {
    json_error_t error;
    x->spec = text ? json_loads(text, 0, &error) : json_object();
    return x->spec ? 0
                   : smoe_fail(err, SMOE_DATA, "%s: its spec is not valid JSON: %s", x->model,
                               error.text);
}

/* The environment and records of a run; missing files are left out. */
static int read_run(side *x, smoe_err *err) {
    char *env = smoe_text_format("%s/env.json", x->arg);
    x->metrics = smoe_text_format("%s/metrics.jsonl", x->arg);
    int status = env && x->metrics ? 0 : smoe_fail(err, SMOE_RUNTIME, "out of memory");
    if (!status) x->env = json_load_file(env, 0, NULL);
    /* of the start of a run, and never the same */
    json_object_del(x->env, "argv");
    json_object_del(x->env, "cwd");
    json_object_del(x->env, "date");
    free(env);
    return status;
}

static int side_open(side *x, const char *arg, const smoe_options *options, smoe_err *err) {
    char *text = NULL;
    x->arg = arg;
    int status = smoe_run_model(arg, options->which, &x->model, &text, &x->file, err);
    if (!status) smoe_cmd_unverified(x->file, options);
    if (!status) status = read_spec(x, text, err);
    free(text);
    if (!status && smoe_file_holds(arg, "metrics.jsonl")) status = read_run(x, err);
    return status;
}

/* ---- two of them ----------------------------------------------------------------------------- */

typedef struct comparison {
    const side *a, *b;
    smoe_frame settings, environment, metrics;
    smoe_run_difference first;
    smoe_weights_difference weights;
    bool records, evaluated; /* whether first and metrics, and outputs, are known */
    smoe_logits_apart outputs;
} comparison;

static int compare(comparison *c, const side *a, const side *b, smoe_err *err) {
    *c = (comparison){.a = a, .b = b, .records = a->metrics && b->metrics};
    smoe_runs_compare_json(&c->settings, "settings", "Settings", a->spec, b->spec);
    smoe_runs_compare_json(&c->environment, "environment", "Environment", a->env, b->env);
    if (c->records &&
        smoe_runs_compare_records(&c->first, &c->metrics, a->metrics, b->metrics, err))
        return -1;
    smoe_runs_compare_weights(&c->weights, a->file, b->file);
    if (smoe_frame_check(&c->settings, err) || smoe_frame_check(&c->environment, err)) return -1;
    return c->records ? smoe_frame_check(&c->metrics, err) : 0;
}

static void comparison_free(comparison *c) {
    smoe_frame_free(&c->settings);
    smoe_frame_free(&c->environment);
    smoe_frame_free(&c->metrics);
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static json_t *first_json(const comparison *c) {
    const smoe_run_difference *d = &c->first;
    if (!c->records) return json_null();
    if (!d->any) return json_pack("{s:b, s:I}", "same", 1, "records", (json_int_t)d->records);
    return json_pack("{s:b, s:I, s:I, s:s, s:o, s:o, s:o}", "same", 0, "records",
                     (json_int_t)d->records, "step", (json_int_t)d->step, "metric", d->metric, "a",
                     smoe_run_number(d->a), "b", smoe_run_number(d->b), "ulps",
                     smoe_run_number(d->ulps));
}

static json_t *outputs_json(const smoe_logits_apart *o) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:s}", "images",
                     (json_int_t)o->images, "agree", (json_int_t)o->agree, "both_right",
                     (json_int_t)o->right[1][1], "a_right", (json_int_t)o->right[1][0], "b_right",
                     (json_int_t)o->right[0][1], "none_right", (json_int_t)o->right[0][0], "most",
                     smoe_run_number(o->most), "rms", smoe_run_number(o->rms), "where", o->where);
}

static json_t *comparison_json(const comparison *c) {
    const smoe_weights_difference *w = &c->weights;
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:{s:I, s:I, s:I, s:s, s:o}}", "a",
                     c->a->arg, "b", c->b->arg, "settings", smoe_frame_json(&c->settings),
                     "environment", smoe_frame_json(&c->environment), "records", first_json(c),
                     "metrics", c->records ? smoe_frame_json(&c->metrics) : json_null(), "outputs",
                     c->evaluated ? outputs_json(&c->outputs) : json_null(), "weights", "tensors",
                     (json_int_t)w->tensors, "equal", (json_int_t)w->equal, "unmatched",
                     (json_int_t)w->alone, "most", w->most, "distance",
                     smoe_run_number(w->distance));
}

/* ---- as text --------------------------------------------------------------------------------- */

/* A frame as a table; numbers with the digits that matter. */
static int print_frame(const smoe_frame *frame, bool bold, smoe_err *err) {
    smoe_table table = {.columns = frame->columns};
    for (size_t k = 0; k < frame->columns; k++) smoe_table_add(&table, "%s", frame->column[k].name);
    for (size_t r = 0; r < frame->rows; r++)
        for (size_t k = 0; k < frame->columns; k++) {
            if (frame->column[k].text)
                smoe_table_add(&table, "%s", smoe_frame_text_at(frame, r, k));
            else if (isnan(smoe_frame_number_at(frame, r, k)))
                smoe_table_add(&table, "-");
            else
                smoe_table_add(&table, "%.6g", smoe_frame_number_at(frame, r, k));
        }
    int status = smoe_table_print(&table, stdout, bold, err);
    smoe_table_free(&table);
    return status;
}

static int print_section(const smoe_frame *frame, bool bold, smoe_err *err) {
    if (!frame->rows) {
        printf("%s: the same\n\n", frame->name);
        return 0;
    }
    printf("%s\n", frame->name);
    if (print_frame(frame, bold, err)) return -1;
    putchar('\n');
    return 0;
}

static void print_first(const smoe_run_difference *d) {
    if (!d->any) {
        printf("records: all %zu are the same, except for times\n\n", d->records);
        return;
    }
    printf("records: the first %zu are the same; ", d->records);
    if (!*d->metric)
        printf("at step %llu only one of the runs has a record\n\n", (unsigned long long)d->step);
    else if (isnan(d->ulps))
        printf("at step %llu they differ in %s\n\n", (unsigned long long)d->step, d->metric);
    else
        printf("at step %llu they differ in %s: %.17g and %.17g, %.3g ulps apart\n\n",
               (unsigned long long)d->step, d->metric, d->a, d->b, d->ulps);
}

static void print_outputs(const smoe_logits_apart *o) {
    printf(
        "outputs: of %zu images %zu have the same top class; right: both %zu, only a %zu, only b "
        "%zu, none %zu\n",
        o->images, o->agree, o->right[1][1], o->right[1][0], o->right[0][1], o->right[0][0]);
    printf("logits: differ by %.6g (root mean square), at most by %.6g, of %s\n", o->rms, o->most,
           o->where);
}

static int print_comparison(const comparison *c, bool bold, smoe_err *err) {
    const smoe_weights_difference *w = &c->weights;
    smoe_cmd_print(stdout, "a: %s\nb: %s\n\n", c->a->arg, c->b->arg);
    if (print_section(&c->settings, bold, err)) return -1;
    if (c->a->env && c->b->env && print_section(&c->environment, bold, err)) return -1;
    if (c->records) print_first(&c->first);
    if (c->records && print_section(&c->metrics, bold, err)) return -1;
    printf("weights: %zu of %zu tensors are the same", w->equal, w->tensors);
    if (w->alone) printf(", %zu in only one model or of different shapes", w->alone);
    if (w->distance > 0) printf("; the largest difference is %.6g, in %s", w->distance, w->most);
    putchar('\n');
    if (c->evaluated) print_outputs(&c->outputs);
    return 0;
}

/* Groups that differ in the seed alone, where some of the arguments form them. */
static int group(smoe_frame *frame, const side *sides, size_t count, smoe_err *err) {
    smoe_compared *run = calloc(count, sizeof *run);
    if (!run) return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    for (size_t i = 0; i < count; i++)
        run[i] = (smoe_compared){sides[i].arg, sides[i].spec, sides[i].metrics != NULL};
    int status = smoe_compare_seeds(frame, run, count, err);
    free(run);
    return status;
}

int cmd_compare(const smoe_options *options, smoe_err *err) {
    side *sides = calloc(options->args, sizeof *sides);
    json_t *list = json_array();
    int status = 0;
    if (!sides || !list) {
        free(sides);
        json_decref(list);
        return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    }
    for (size_t i = 0; i < options->args && !status; i++)
        status = side_open(&sides[i], options->arg[i], options, err);
    for (size_t i = 1; i < options->args && !status; i++) {
        comparison c;
        status = compare(&c, &sides[0], &sides[i], err);
        c.evaluated = !status && options->outputs;
        if (c.evaluated)
            status = smoe_compare_outputs(&c.outputs, sides[0].arg, sides[i].arg, options, err);
        if (!status && options->json)
            json_array_append_new(list, comparison_json(&c));
        else if (!status) {
            if (i > 1) putchar('\n');
            status = print_comparison(&c, smoe_cmd_color(options, stdout), err);
        }
        comparison_free(&c);
    }
    smoe_frame seeds = {0};
    if (!status) status = group(&seeds, sides, options->args, err);
    if (!status && options->json)
        status = smoe_cmd_json(
            json_pack("{s:O, s:o}", "comparisons", list, "seeds", smoe_frame_json(&seeds)), err);
    else if (!status && seeds.rows) {
        puts("\nseeds");
        status = print_frame(&seeds, smoe_cmd_color(options, stdout), err);
    }
    smoe_frame_free(&seeds);
    for (size_t i = 0; i < options->args; i++) side_free(&sides[i]);
    free(sides);
    json_decref(list);
    return status;
}
