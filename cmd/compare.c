/* smoe compare: what differs between runs, each against the first: settings, environment, the first
 * step whose records differ, metrics paired by step, and weights; as text, JSON and a page. */
#include "cmd.h"
#include "compare_more.h"
#include "compare_page.h"
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
    /* whole environments, of which their number is enough here */
    size_t resumes = json_array_size(json_object_get(x->env, "previous"));
    if (json_object_del(x->env, "previous") == 0)
        json_object_set_new(x->env, "resumes", json_integer((json_int_t)resumes));
    free(env);
    return status;
}

static int side_open(side *x, const char *arg, const smoe_options *options, smoe_err *err) {
    char *text = NULL;
    x->arg = arg;
    smoe_file_choice choice;
    int status = smoe_cmd_choice(&choice, options, err);
    if (!status)
        status = smoe_run_model(arg, options->which, &choice, &x->model, &text, &x->file, err);
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

static void put_first(FILE *out, const comparison *c) {
    const smoe_run_difference *d = &c->first;
    if (!d->any) {
        fprintf(out, "all %zu are the same, except for times", d->records);
        return;
    }
    const double near = 1e6; /* ulps; further apart, their number says nothing */
    if (d->records) fprintf(out, "the first %zu are the same; ", d->records);
    fprintf(out, "at step %llu%s ", (unsigned long long)d->step,
            d->records ? "" : ", the first one,");
    if (!*d->metric)
        fputs("only one of the runs has a record", out);
    else if (isnan(d->ulps))
        fprintf(out, "they differ in %s", d->metric);
    else if (d->ulps <= near)
        fprintf(out, "they differ in %s: %.17g and %.17g, %.3g ulps apart", d->metric, d->a, d->b,
                d->ulps);
    else
        fprintf(out, "they differ in %s: %.6g and %.6g", d->metric, d->a, d->b);
}

static void put_weights(FILE *out, const comparison *c) {
    const smoe_weights_difference *w = &c->weights;
    fprintf(out, "%zu of %zu tensors are the same", w->equal, w->tensors);
    if (w->alone) fprintf(out, ", %zu in only one model or of different shapes", w->alone);
    if (w->distance > 0)
        fprintf(out, "; the largest difference is %.6g, in %s", w->distance, w->most);
}

static void put_outputs(FILE *out, const comparison *c) {
    const smoe_logits_apart *o = &c->outputs;
    fprintf(out,
            "of %zu images %zu have the same top class; right: both %zu, only a %zu, only b %zu, "
            "none %zu\nlogits: differ by %.6g (root mean square), at most by %.6g, of %s",
            o->images, o->agree, o->right[1][1], o->right[1][0], o->right[0][1], o->right[0][0],
            o->rms, o->most, o->where);
}

static int print_comparison(const comparison *c, bool bold, smoe_err *err) {
    smoe_cmd_print(stdout, "a: %s\nb: %s\n\n", c->a->arg, c->b->arg);
    if (print_section(&c->settings, bold, err)) return -1;
    if (c->a->env && c->b->env && print_section(&c->environment, bold, err)) return -1;
    if (c->records) {
        fputs("records: ", stdout);
        put_first(stdout, c);
        fputs("\n\n", stdout);
    }
    if (c->records && print_section(&c->metrics, bold, err)) return -1;
    fputs("weights: ", stdout);
    put_weights(stdout, c);
    putchar('\n');
    if (!c->evaluated) return 0;
    fputs("outputs: ", stdout);
    put_outputs(stdout, c);
    putchar('\n');
    return 0;
}

/* ---- as a page ------------------------------------------------------------------------------- */

/* What one of the functions above writes, as fresh text; NULL when out of memory. */
static char *sentence(void (*put)(FILE *, const comparison *), const comparison *c) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    put(out, c);
    return smoe_file_text(out, &text);
}

static int write_page(const comparison *c, size_t pairs, const side *sides, const smoe_frame *seeds,
                      const smoe_options *options, smoe_err *err) {
    smoe_compare_pair *pair = calloc(pairs + 1, sizeof *pair);
    char *(*text)[3] = calloc(pairs + 1, sizeof *text);
    smoe_frame curves;
    smoe_origin origin;
    int status = pair && text ? 0 : smoe_fail(err, SMOE_RUNTIME, "out of memory for the page");
    smoe_compare_curves(&curves);
    smoe_origin_open(&origin, options);
    for (size_t i = 0; i <= pairs && !status; i++) {
        json_t *spec = sides[i].spec;
        smoe_origin_add(&origin, sides[i].arg, json_dumps(spec, JSON_INDENT(1)), true);
        if (sides[i].metrics) status = smoe_compare_add_curves(&curves, sides[i].arg, err);
    }
    for (size_t i = 0; i < pairs && !status; i++) {
        bool enough = !c[i].records || (text[i][0] = sentence(put_first, &c[i]));
        enough &= (text[i][1] = sentence(put_weights, &c[i])) != NULL;
        enough &= !c[i].evaluated || (text[i][2] = sentence(put_outputs, &c[i]));
        if (!enough) status = smoe_fail(err, SMOE_RUNTIME, "out of memory for the page");
        pair[i] = (smoe_compare_pair){.b = c[i].b->arg,
                                      .settings = &c[i].settings,
                                      .environment = &c[i].environment,
                                      .metrics = &c[i].metrics,
                                      .records = text[i][0],
                                      .weights = text[i][1],
                                      .outputs = text[i][2]};
    }
    if (!status) status = smoe_frame_check(&curves, err);
    if (!status)
        status = smoe_compare_page((const char *const *)options->arg, pair, pairs, seeds, &curves,
                                   &origin, options, err);
    for (size_t i = 0; text && i < pairs; i++)
        for (size_t k = 0; k < 3; k++) free(text[i][k]);
    free(text);
    free(pair);
    smoe_frame_free(&curves);
    smoe_origin_free(&origin);
    return status;
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

/* One pair: compared, and printed or added to the list. */
static int compare_pair(comparison *c, const side *a, const side *b, bool first, json_t *list,
                        const smoe_options *options, smoe_err *err) {
    int status = compare(c, a, b, err);
    c->evaluated = !status && options->outputs;
    if (c->evaluated) status = smoe_compare_outputs(&c->outputs, a->arg, b->arg, options, err);
    if (!status && options->json)
        json_array_append_new(list, comparison_json(c));
    else if (!status) {
        if (!first) putchar('\n');
        status = print_comparison(c, smoe_cmd_color(options, stdout), err);
    }
    return status;
}

int cmd_compare(const smoe_options *options, smoe_err *err) {
    side *sides = calloc(options->args, sizeof *sides);
    comparison *c = calloc(options->args, sizeof *c);
    json_t *list = json_array();
    int status = smoe_compare_page_check(options, err);
    if (!sides || !c || !list) {
        free(sides);
        free(c);
        json_decref(list);
        return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    }
    for (size_t i = 0; i < options->args && !status; i++)
        status = side_open(&sides[i], options->arg[i], options, err);
    for (size_t i = 1; i < options->args && !status; i++)
        status = compare_pair(&c[i], &sides[0], &sides[i], i == 1, list, options, err);
    smoe_frame seeds = {0};
    if (!status) status = group(&seeds, sides, options->args, err);
    if (!status && options->json)
        status = smoe_cmd_json(
            json_pack("{s:O, s:o}", "comparisons", list, "seeds", smoe_frame_json(&seeds)), err);
    else if (!status && seeds.rows) {
        puts("\nseeds");
        status = print_frame(&seeds, smoe_cmd_color(options, stdout), err);
    }
    if (!status && options->out)
        status = write_page(c + 1, options->args - 1, sides, &seeds, options, err);
    smoe_frame_free(&seeds);
    for (size_t i = 0; i < options->args; i++) {
        comparison_free(&c[i]);
        side_free(&sides[i]);
    }
    free(sides);
    free(c);
    json_decref(list);
    return status;
}
