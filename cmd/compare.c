/* smoe compare: what differs between runs, each against the first: settings, environment, the first
 * step whose records differ, metrics paired by step, and weights; as text, JSON and a page. */
#include "cmd.h"
#include "base/accents.h"
#include "math/stats.h"
#include "spec/sources.h"
#include "store/curves.h"
#include "store/model_file.h"
#include "store/run_compare.h"
#include "train/data_mark.h"
#include "train/evaluate.h"
#include "train/scores.h"

/* A run, a cell, or a checkpoint, which has only settings and weights. */
typedef struct side {
    const char *arg;
    char *metrics; /* the path; NULL: none */
    smoe_safetensors *file;
    json_t *spec, *env;
    smoe_curves curves;
    smoe_checkpoint state; /* of a run with records; images 0: unknown */
    json_t *settings;      /* the spec without what may differ within a group of seeds */
    size_t group;          /* the first side with these settings */
    double seed;
    char *left; /* why it does not count in the table of seeds; NULL: it counts */
} side;

static void side_free(side *x) {
    smoe_safetensors_free(x->file);
    free(x->metrics);
    free(x->left);
    json_decref(x->spec);
    json_decref(x->env);
    json_decref(x->settings);
    smoe_curves_free(&x->curves);
}

/* The environment, state and records of a run; missing files are left out. */
static int read_run(side *x, smoe_err *err) {
    smoe_err ignored;
    if (smoe_checkpoint_state(x->arg, &x->state, &ignored) <= 0) x->state = (smoe_checkpoint){0};
    x->metrics = smoe_text_format("%s/metrics.jsonl", x->arg);
    x->env = smoe_json_beside(x->metrics, "env.json", NULL);
    /* of the start of a run, and never the same */
    json_object_del(x->env, "argv");
    json_object_del(x->env, "cwd");
    json_object_del(x->env, "date");
    /* whole environments, of which their number is enough here */
    size_t resumes = json_array_size(json_object_get(x->env, "previous"));
    if (json_object_del(x->env, "previous") == 0)
        json_object_set_new(x->env, "resumes", json_integer((json_int_t)resumes));
    return smoe_curves_read(&x->curves, x->arg, true, err);
}

static int side_open(side *x, const char *arg, const smoe_options *options, smoe_err *err) {
    json_error_t error;
    x->arg = arg;
    if (smoe_cmd_model(&x->file, arg, options->which, options, err)) return -1;
    const char *text = smoe_safetensors_metadata(x->file, "smoe.spec");
    x->spec = text ? json_loads(text, 0, &error) : json_object();
    if (!x->spec)
        return smoe_fail(err, SMOE_DATA, "%s: its spec is not valid JSON: %s",
                         smoe_safetensors_path(x->file), error.text);
    x->settings = json_deep_copy(x->spec);
    x->seed = json_number_value(json_object_get(x->spec, "seed"));
    json_object_del(x->settings, "seed");
    json_object_del(x->settings, "name");
    return smoe_file_holds(arg, "metrics.jsonl") ? read_run(x, err) : 0;
}

/* Whether two runs have the same keys of data, as far as they decide the images of a split. */
static bool same_keys(const side *a, const side *b, const char *split) {
    json_auto_t *x = smoe_data_keys(a->spec, split), *y = smoe_data_keys(b->spec, split);
    return json_equal(x, y);
}

/* Which images of two runs are not the same, although the settings of their data are: "training",
 * "evaluation"; NULL: none, or that is not known. */
static const char *other_images(const side *a, const side *b) {
    const smoe_checkpoint *x = &a->state, *y = &b->state;
    const json_t *split = smoe_json_at(a->spec, "eval.split");
    const char *name = json_string_value(split);
    char how[96];
    if (!x->images || !y->images) return NULL;
    if (same_keys(a, b, "train") && smoe_data_differs(x, y, how, sizeof how) &&
        smoe_data_differs(y, x, how, sizeof how))
        return "training";
    bool same =
        name && json_equal(split, smoe_json_at(b->spec, "eval.split")) && same_keys(a, b, name);
    return same && smoe_data_tested_differs(x, y->tested) ? "evaluation" : NULL;
}

/* ---- logits ---------------------------------------------------------------------------------- */

/* Two models on the same images. */
typedef struct logits_apart {
    size_t images, agree; /* with the same top class */
    size_t right[2][2];   /* [a is right][b is right] */
    double most, rms;     /* differences of a logit */
    char where[256];      /* the image of the largest */
    char pixels[160];     /* keys of data by which the pixel values of an image differ, or "" */
} logits_apart;

typedef struct evaluated {
    smoe_loaded loaded;
    size_t images, classes;
    float *logits;               /* [images, classes] */
    smoe_prediction *prediction; /* [images] */
} evaluated;

static void evaluated_free(evaluated *s) {
    smoe_loaded_free(&s->loaded);
    free(s->logits);
    free(s->prediction);
}

static int collect_logits(void *user, const smoe_batch *batch, const real *logits, size_t classes,
                          smoe_err *err) {
    evaluated *s = user;
    const smoe_task *task = smoe_task_of(s->loaded.spec.train.loss);
    for (size_t b = 0; logits && b < batch->images; b++) {
        size_t image = (size_t)batch->index[b];
        const real *x = logits + b * classes, *target = batch->target + b * classes;
        for (size_t k = 0; k < classes; k++) s->logits[image * classes + k] = (float)x[k];
        s->prediction[image] = smoe_prediction_of(task, x, target, classes, batch->label[b]);
    }
    return logits ? 0
                  : smoe_fail(err, SMOE_USAGE,
                              "%s compares images with captions: without eval.zeroshot in its spec "
                              "it has no logits of classes",
                              s->loaded.path);
}

static int compute(evaluated *s, const char *arg, const smoe_options *options, smoe_err *err) {
    smoe_loaded *l = &s->loaded;
    smoe_eval result;
    if (smoe_load_spec(l, arg, options, err) || smoe_load_model(l, err)) return -1;
    s->images = smoe_dataset_images(l->set);
    s->classes = smoe_dataset_classes(l->set);
    s->logits = calloc(s->images * s->classes, sizeof *s->logits);
    if (!s->logits)
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for the logits of %zu images",
                         s->images);
    s->prediction = smoe_alloc(s->images, sizeof *s->prediction);
    int status =
        smoe_evaluate(l->model, &l->spec, l->set, l->batch,
                      &(smoe_eval_options){.sink = collect_logits, .user = s}, &result, err);
    if (status && err->code == SMOE_NONFINITE) smoe_fail_prefix(err, "%s", l->path);
    return status;
}

/* Whether two sets that have as many images draw the same ones, if they are generated. */
static bool same_drawing(const smoe_spec *a, const smoe_spec *b) {
    static const char *const keys[] = {"data.seed", "data.facts", "data.shapes"};
    json_auto_t *x = smoe_spec_object(a), *y = smoe_spec_object(b);
    bool same = true;
    for (size_t k = 0; k < SMOE_COUNT(keys) && smoe_sources[a->data.source].generated; k++)
        same = same && json_equal(smoe_json_at(x, keys[k]), smoe_json_at(y, keys[k]));
    return same;
}

static int compare_logits(logits_apart *o, const evaluated *a, const evaluated *b, smoe_err *err) {
    bool same = a->images == b->images && a->classes == b->classes;
    bool known = a->loaded.spec.data.source == b->loaded.spec.data.source;
    if (same && known) same = same_drawing(&a->loaded.spec, &b->loaded.spec);
    for (size_t i = 0; same && i < a->images; i++)
        same = a->prediction[i].label == b->prediction[i].label &&
               (!known ||
                smoe_dataset_contents(a->loaded.set, i) == smoe_dataset_contents(b->loaded.set, i));
    for (size_t k = 0; same && k < a->classes; k++)
        same = smoe_accents_same(smoe_dataset_class_name(a->loaded.set, k),
                                 smoe_dataset_class_name(b->loaded.set, k));
    if (!same)
        return smoe_fail(err, SMOE_DATA,
                         "%s and %s are not evaluated on the same images and classes",
                         a->loaded.path, b->loaded.path);
    double squares = 0;
    size_t worst = 0;
    o->images = a->images;
    smoe_spec_pixels_apart(&a->loaded.spec, &b->loaded.spec, o->pixels, sizeof o->pixels);
    for (size_t i = 0; i < a->images; i++) {
        const smoe_prediction *x = &a->prediction[i], *y = &b->prediction[i];
        o->agree += x->top == y->top;
        o->right[x->correct][y->correct]++;
        for (size_t k = i * a->classes; k < (i + 1) * a->classes; k++) {
            double d = fabs((double)a->logits[k] - (double)b->logits[k]);
            squares += d * d;
            if (d > o->most) worst = i;
            o->most = fmax(o->most, d);
        }
    }
    o->rms = sqrt(squares / (double)(a->images * a->classes));
    smoe_dataset_image_name(a->loaded.set, worst, o->where, sizeof o->where);
    return 0;
}

/* Evaluates both, each with its own spec, on eval.split. SMOE_DATA where images or classes of the
 * two are not the same. */
static int compare_outputs(logits_apart *o, const char *a, const char *b,
                           const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(evaluated_free) evaluated x = {0};
    SMOE_FREED_BY(evaluated_free) evaluated y = {0};
    *o = (logits_apart){0};
    if (compute(&x, a, options, err) || compute(&y, b, options, err)) return -1;
    return compare_logits(o, &x, &y, err);
}

/* ---- two of them ----------------------------------------------------------------------------- */

/* After a table of what differs was filled: of several pairs, its name and title say which. */
static void end_table(smoe_result *result, smoe_frame *frame, const char *b, size_t number,
                      bool known) {
    char text[400];
    if (!frame->rows && known) smoe_result_line(result, frame->name, "the same");
    if (!number) return;
    snprintf(text, sizeof text, "%s%zu", frame->name, number);
    frame->name = smoe_frame_keep(frame, text);
    snprintf(text, sizeof text, "%s, %s", frame->title, b);
    frame->title = smoe_frame_keep(frame, text);
}

/* The table of what differs between two objects, the second one that of `b`; without rows and not
 * printed if one of them is NULL: then that is not known. */
static void add_differences(smoe_result *result, const char *name, const char *title,
                            const json_t *own, const side *b, const json_t *other, size_t number) {
    bool known = own && other;
    smoe_frame *frame = smoe_result_frame(result, name, known);
    smoe_runs_compare_json(frame, name, title, own, other);
    end_table(result, frame, b->arg, number, known);
}

static void add_records(smoe_result *result, const smoe_run_difference *d) {
    const double near = 1e6; /* ulps; further apart, their number says nothing */
    smoe_result_facts(result, {"records:same", SMOE_TRUTH_OF(!d->any)},
                      {"records:records", .number = d->records});
    if (!d->any) {
        smoe_result_line(result, "records", "all %zu are the same, except for times", d->records);
        return;
    }
    smoe_result_facts(result, {"records:step", .number = d->step},
                      {"records:metric", .text = d->metric}, {"records:a", .number = d->a},
                      {"records:b", .number = d->b}, {"records:ulps", .number = d->ulps});
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

static void add_class_names(smoe_result *result, const char *before, const smoe_safetensors *file) {
    enum { SHOWN = 6 };
    SMOE_FREED char *text = smoe_model_file_names(file, NULL);
    json_auto_t *names = json_loads(text, 0, NULL);
    size_t count = json_array_size(names);
    smoe_result_more(result, "%s", before);
    for (size_t i = 0; i < count && i < SHOWN; i++)
        smoe_result_more(result, "%s%s", i ? ", " : "",
                         json_string_value(json_array_get(names, i)));
    if (count > SHOWN) smoe_result_more(result, " and %zu more", count - SHOWN);
}

static void add_weights(smoe_result *result, const smoe_weights_difference *w,
                        const smoe_safetensors *a, const smoe_safetensors *b) {
    smoe_result_facts(result, {"weights:tensors", .number = w->tensors},
                      {"weights:equal", .number = w->equal},
                      {"weights:unmatched", .number = w->alone}, {"weights:most", .text = w->most},
                      {"weights:distance", .number = w->distance});
    smoe_result_line(result, "weights", "%zu of %zu tensors are the same", w->equal, w->tensors);
    if (w->alone)
        smoe_result_more(result, ", %zu in only one model or of different shapes", w->alone);
    if (w->distance > 0)
        smoe_result_more(result, "; the largest difference is %.6g, in %s", w->distance, w->most);
    smoe_result_facts(result, {"weights:same_classes", SMOE_TRUTH_OF(!w->other_classes)});
    if (!w->other_classes) return;
    smoe_result_line(result, "classes", "%s", "");
    add_class_names(result, "heads are not compared, because their classes differ: ", a);
    add_class_names(result, "; ", b);
}

static void add_outputs(smoe_result *result, const logits_apart *o) {
    smoe_result_facts(
        result, {"outputs:images", .number = o->images}, {"outputs:agree", .number = o->agree},
        {"outputs:both_right", .number = o->right[1][1]},
        {"outputs:a_right", .number = o->right[1][0]},
        {"outputs:b_right", .number = o->right[0][1]},
        {"outputs:none_right", .number = o->right[0][0]}, {"outputs:most", .number = o->most},
        {"outputs:rms", .number = o->rms}, {"outputs:where", .text = o->where});
    smoe_result_line(result, "outputs",
                     "of %zu images %zu have the same top class; right: both %zu, only a %zu, only "
                     "b %zu, none %zu",
                     o->images, o->agree, o->right[1][1], o->right[1][0], o->right[0][1],
                     o->right[0][0]);
    smoe_result_line(result, "logits", "differ by %.6g (root mean square), at most by %.6g, of %s",
                     o->rms, o->most, o->where);
    if (*o->pixels)
        smoe_result_line(result, "pixels",
                         "each model gets those of its own spec; the two differ in %s", o->pixels);
}

/* Compares b, the argument of this number, with the first; number 0: there are only two. */
static int compare(smoe_result *result, const side *a, const side *b, size_t number,
                   const smoe_options *options, smoe_err *err) {
    smoe_run_difference first;
    smoe_weights_difference weights;
    logits_apart outputs;
    bool records = a->metrics && b->metrics;
    const side *bare = !json_object_size(a->spec) ? a : !json_object_size(b->spec) ? b : NULL;
    if (records && smoe_runs_compare_records(&first, a->metrics, b->metrics, err)) return -1;
    smoe_runs_compare_weights(&weights, a->file, b->file);
    if (options->outputs && compare_outputs(&outputs, a->arg, b->arg, options, err)) return -1;
    smoe_result_facts(result, {"a", .text = a->arg, .heading = "a"},
                      {"b", .text = b->arg, .heading = "b"});
    if (bare) {
        smoe_fact_number(result, "settings", NAN);
        smoe_result_line(result, "settings", "unknown: %s has no spec",
                         smoe_safetensors_path(bare->file));
    } else {
        add_differences(result, "settings", "Settings", a->spec, b, b->spec, number);
    }
    add_differences(result, "environment", "Environment", a->env, b, b->env, number);
    const char *images = other_images(a, b);
    if (images)
        smoe_result_line(result, "images",
                         "those of %s are not the same, although the keys of data are", images);
    if (records) {
        add_records(result, &first);
        smoe_frame *frame = smoe_result_frame(result, "metrics", true);
        smoe_runs_compare_metrics(frame, &a->curves, &b->curves);
        end_table(result, frame, b->arg, number, true);
    } else {
        smoe_result_facts(result, {"records", .number = NAN}, {"metrics", .number = NAN});
    }
    if (options->outputs)
        add_outputs(result, &outputs);
    else
        smoe_fact_number(result, "outputs", NAN);
    add_weights(result, &weights, a->file, b->file);
    return 0;
}

/* ---- seeds ----------------------------------------------------------------------------------- */

/* Sets why sides do not count: a run that has not ended has its last values at another step than
 * the others, and one with other images would be compared by them. */
static void leave_out(side *x, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char word[16];
        const char *images = NULL;
        if (!x[i].metrics) continue;
        smoe_curves_status(x[i].arg, word);
        for (size_t k = 0; k < i && !images; k++)
            if (!x[k].left && (images = other_images(&x[k], &x[i])))
                x[i].left =
                    smoe_text_format("its images of %s are not those of %s", images, x[k].arg);
        double steps = json_number_value(smoe_json_at(x[i].spec, "train.steps"));
        bool ended =
            !strcmp(word, "done") || (!strcmp(word, "waiting") && x[i].curves.step >= steps);
        if (ended) continue;
        free(x[i].left);
        x[i].left = smoe_text_format("it has not ended: its last record is of step %g of %g",
                                     x[i].curves.step, steps);
    }
}

/* The last value of a metric in the run of a group with that seed; NAN: there is none. */
static double last_value(const side *x, size_t count, size_t group, double seed, const char *name) {
    double value = NAN;
    for (size_t i = 0; i < count; i++) {
        bool wanted = x[i].group == group && x[i].seed == seed && !x[i].left;
        const smoe_curve *c = wanted ? smoe_curves_find(&x[i].curves, name) : NULL;
        if (c && c->points) value = c->value[c->points - 1];
    }
    return value;
}

static void compare_add_metric(smoe_frame *frame, const side *x, size_t count, size_t group,
                               const char *name) {
    SMOE_FREED double *difference = smoe_alloc(count, sizeof *difference);
    double a = 0, b = 0;
    size_t seeds = 0;
    for (size_t i = 0; i < count; i++) {
        if (x[i].group != 0) continue;
        size_t first = 0; /* with this seed: runs that have the same are one pair */
        while (x[first].group != 0 || x[first].seed != x[i].seed) first++;
        if (first < i) continue;
        double own = last_value(x, count, 0, x[i].seed, name);
        double other = last_value(x, count, group, x[i].seed, name);
        if (!isfinite(own) || !isfinite(other)) continue;
        difference[seeds++] = other - own;
        a += own;
        b += other;
    }
    smoe_paired p = smoe_stats_paired(difference, seeds);
    if (seeds < 2) return;
    smoe_frame_put(frame, {"a", .text = x[0].arg}, {"b", .text = x[group].arg},
                   {"metric", .text = name}, {"seeds", .number = seeds},
                   {"mean_a", .number = a / (double)seeds}, {"mean_b", .number = b / (double)seeds},
                   {"difference", .number = p.mean}, {"half_interval", .number = p.half},
                   {"distinguishable", .text = p.distinguishable ? "yes" : "no"});
}

/* A row for each metric of two groups with two seeds or more in common: last values, and their
 * difference paired by seed. A group are runs with the same settings but for seed and name; each is
 * compared with that of the first argument. A line for each member of a group that does not
 * count. */
static void compare_seeds(smoe_result *result, side *x, size_t count) {
    smoe_frame *frame = smoe_result_frame(result, "seeds", true);
    smoe_frame_init(frame, "seeds", "Seeds", "last values of groups of runs, paired by seed",
                    "a* b* metric* seeds mean_a mean_b difference half_interval distinguishable*");
    for (size_t i = 0; i < count; i++)
        while (!json_equal(x[i].settings, x[x[i].group].settings)) x[i].group++;
    leave_out(x, count);
    for (size_t i = 0; i < count; i++) {
        bool mates = false; /* fewer than four runs have no table */
        for (size_t k = 0; k < count && count > 3; k++)
            mates |= x[k].group == x[i].group && x[k].seed != x[i].seed;
        if (mates && x[i].left)
            smoe_result_line(result, "seeds", "%s does not count: %s", x[i].arg, x[i].left);
    }
    for (size_t g = 1; g < count; g++)
        for (size_t k = 0; x[g].group == g && k < x[0].curves.count; k++) {
            const char *name = x[0].curves.curve[k].name;
            /* what says how far or how fast training was, says not what came of it */
            if (!smoe_record_of_clock(name) && strcmp(name, smoe_metrics[SMOE_METRIC_EPOCH].name))
                compare_add_metric(frame, x, count, g, name);
        }
}

/* ---- the page -------------------------------------------------------------------------------- */

/* The records of a run over the steps, for the figure over_steps of the page. */
static void add_curves(smoe_frame *frame, const side *x) {
    for (size_t i = 0; i < x->curves.count; i++) {
        const smoe_curve *c = &x->curves.curve[i];
        smoe_metric_place at;
        if (smoe_record_of_clock(c->name) || !smoe_metric_read(&at, c->name)) continue;
        bool layer = smoe_metrics[at.metric].scope == SMOE_OF_LAYER;
        if (!layer && !smoe_metrics[at.metric].column) continue;
        for (size_t k = 0; k < c->points; k++) {
            smoe_frame_put(frame, {"run", .text = x->arg}, {"step", .number = c->step[k]},
                           {"block", .number = layer ? (double)at.number : NAN},
                           {"metric", .text = layer ? smoe_metric_name(at.metric) : c->name},
                           {"value", .number = c->value[k]});
        }
    }
}

/* -o: compare.html and a file per table. */
static int write_page(smoe_result *result, const side *sides, const smoe_options *options,
                      smoe_err *err) {
    size_t pairs = options->args - 1;
    smoe_frame *curves = smoe_result_table(result, NULL, "over_steps");
    SMOE_FREED_BY(smoe_origin_free) smoe_origin origin = {0};
    SMOE_FREED char *path = smoe_text_format("%s/compare.html", options->out);
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
        add_curves(curves, &sides[i]);
    }
    const smoe_report report = {.command = "smoe compare",
                                .title = title,
                                .lead = pairs > 1 ? "What differs between each and the first, a."
                                                  : "What differs between a, the first, and b.",
                                .origin = origin.fact,
                                .origin_count = origin.count};
    /* tables of an earlier comparison that this one has not */
    static const char tables[] = "^((settings|environment|metrics)[0-9]*|seeds|over_steps)\\.csv$";
    if (smoe_result_check(result, err) || smoe_file_make_parents(path, err) ||
        (options->force && smoe_file_remove_named(options->out, tables, err)) ||
        smoe_result_csv(result, options->out, err))
        return -1;
    return smoe_report_result(&report, result, path, err);
}

int cmd_compare(const smoe_options *options, smoe_err *err) {
    SMOE_FREED side *sides = smoe_alloc(options->args, sizeof *sides);
    SMOE_FREED_BY(smoe_result_free) smoe_result result = {0};
    int status = smoe_cmd_no_run(options, err);
    if (!status) status = smoe_cmd_hold(options, err);
    if (!status)
        status = smoe_cmd_targets("compare.html settings.csv environment.csv metrics.csv seeds.csv "
                                  "over_steps.csv",
                                  options, err);
    for (size_t i = 0; i < options->args && !status; i++)
        status = side_open(&sides[i], options->arg[i], options, err);
    for (size_t i = 1; i < options->args && !status; i++)
        status = compare(smoe_result_part(&result, "comparisons"), &sides[0], &sides[i],
                         options->args > 2 ? i : 0, options, err);
    if (!status) compare_seeds(&result, sides, options->args);
    if (!status)
        status = smoe_cmd_emit_anyway(
            &result, options->out ? write_page(&result, sides, options, err) : 0, options, err);
    if (!status && options->out)
        smoe_heading_files(options, options->out, "compare.html", "its tables");
    for (size_t i = 0; i < options->args; i++) side_free(&sides[i]);
    return status;
}
