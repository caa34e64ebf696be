/* See compare_more.h. */
#include "compare_more.h"
#include "load.h"
#include "base/alloc.h"
#include "math/stats.h"
#include "store/curves.h"
#include "store/run_compare.h"
#include "train/trainer.h"
#include "data/loader.h"
#include "train/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- seeds ----------------------------------------------------------------------------------- */

/* A run with its group: the spec without what may differ within one. */
typedef struct member {
    const smoe_compared *run;
    json_t *settings;
    size_t group; /* number of the first run of the group */
    double seed;
    smoe_curves curves;
} member;

static int member_open(member *m, size_t count, const smoe_compared *run, smoe_err *err) {
    for (size_t i = 0; i < count; i++) {
        m[i].run = &run[i];
        m[i].group = i;
        m[i].settings = json_deep_copy(run[i].spec);
        m[i].seed = json_number_value(json_object_get(run[i].spec, "seed"));
        json_object_del(m[i].settings, "seed");
        json_object_del(m[i].settings, "name");
        for (size_t k = 0; k < i && m[i].group == i; k++)
            if (json_equal(m[i].settings, m[k].settings)) m[i].group = m[k].group;
        if (run[i].records && smoe_curves_read(&m[i].curves, run[i].arg, err)) return -1;
    }
    return 0;
}

/* The last value of a metric in the run of a group with that seed; NAN: there is none. */
static double last_value(const member *m, size_t count, size_t group, double seed,
                         const char *name) {
    double value = NAN;
    for (size_t i = 0; i < count; i++) {
        bool wanted = m[i].group == group && m[i].seed == seed;
        const smoe_curve *c = wanted ? smoe_curves_find(&m[i].curves, name) : NULL;
        if (c && c->points) value = c->value[c->points - 1];
    }
    return value;
}

static void add_metric(smoe_frame *frame, const member *m, size_t count, size_t group,
                       const char *name) {
    double *difference = smoe_alloc(count, sizeof *difference), a = 0, b = 0;
    size_t seeds = 0;
    for (size_t i = 0; i < count; i++) {
        if (m[i].group != 0) continue;
        double x = last_value(m, count, 0, m[i].seed, name);
        double y = last_value(m, count, group, m[i].seed, name);
        if (!isfinite(x) || !isfinite(y)) continue;
        difference[seeds++] = y - x;
        a += x;
        b += y;
    }
    smoe_paired p = smoe_stats_paired(difference, seeds);
    free(difference);
    if (seeds < 2) return;
    smoe_frame_put(frame, {"a", .text = m[0].run->arg}, {"b", .text = m[group].run->arg},
                   {"metric", .text = name}, {"seeds", .number = (double)seeds},
                   {"mean_a", .number = a / (double)seeds}, {"mean_b", .number = b / (double)seeds},
                   {"difference", .number = p.mean}, {"half_interval", .number = p.half},
                   {"distinguishable", .text = p.distinguishable ? "yes" : "no"});
}

int smoe_compare_seeds(smoe_frame *frame, const smoe_compared *run, size_t count, smoe_err *err) {
    static const smoe_column columns[] = {{"a", true},
                                          {"b", true},
                                          {"metric", true},
                                          {"seeds", false},
                                          {"mean_a", false},
                                          {"mean_b", false},
                                          {"difference", false},
                                          {"half_interval", false},
                                          {"distinguishable", true},
                                          {0}};
    smoe_frame_init(frame, "seeds", "Seeds", "last values of groups of runs, paired by seed",
                    columns);
    SMOE_FREED member *m = smoe_alloc(count, sizeof *m);
    int status = member_open(m, count, run, err);
    for (size_t g = 1; g < count && !status; g++) {
        if (m[g].group != g) continue;
        for (size_t k = 0; k < m[0].curves.count && !status; k++)
            if (!smoe_record_of_clock(m[0].curves.curve[k].name))
                add_metric(frame, m, count, g, m[0].curves.curve[k].name);
    }
    for (size_t i = 0; i < count; i++) {
        json_decref(m[i].settings);
        smoe_curves_free(&m[i].curves);
    }
    return status ? -1 : smoe_frame_check(frame, err);
}

/* ---- logits ---------------------------------------------------------------------------------- */

typedef struct outputs {
    smoe_loaded loaded;
    size_t images, classes;
    float *logits;  /* [images, classes] */
    int64_t *label; /* [images] */
} outputs;

static int compare_more_collect(void *user, const smoe_batch *batch, const real *logits,
                                size_t classes, smoe_err *err) {
    outputs *s = user;
    for (size_t b = 0; logits && b < batch->images; b++) {
        size_t image = (size_t)batch->index[b];
        for (size_t k = 0; k < classes; k++)
            s->logits[image * classes + k] = (float)logits[b * classes + k];
        s->label[image] = batch->label[b];
    }
    return logits ? 0 : smoe_fail(err, SMOE_USAGE, "%s has no logits of classes", s->loaded.path);
}

static int compute(outputs *s, const char *arg, const smoe_options *options, smoe_err *err) {
    smoe_loaded *l = &s->loaded;
    smoe_eval result;
    if (smoe_load_spec(l, arg, options, err) || smoe_load_model(l, err)) return -1;
    s->images = smoe_dataset_images(l->set);
    s->classes = smoe_dataset_classes(l->set);
    s->logits = calloc(s->images * s->classes, sizeof *s->logits);
    if (!s->logits)
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for the logits of %zu images",
                         s->images);
    s->label = smoe_alloc(s->images, sizeof *s->label);
    return smoe_evaluate(l->model, &l->spec, l->set, l->batch,
                         &(smoe_eval_options){.sink = compare_more_collect, .user = s}, &result,
                         err);
}

static size_t top_of(const outputs *s, size_t image) {
    const float *x = s->logits + image * s->classes;
    size_t top = 0;
    for (size_t k = 1; k < s->classes; k++)
        if (x[k] > x[top]) top = k;
    return top;
}

static int compare_logits(smoe_logits_apart *o, const outputs *a, const outputs *b, smoe_err *err) {
    bool same = a->images == b->images && a->classes == b->classes;
    for (size_t i = 0; same && i < a->images; i++) same = a->label[i] == b->label[i];
    for (size_t k = 0; same && k < a->classes; k++)
        same = !strcmp(smoe_dataset_class_name(a->loaded.set, k),
                       smoe_dataset_class_name(b->loaded.set, k));
    if (!same)
        return smoe_fail(err, SMOE_DATA,
                         "%s and %s are not evaluated on the same images and classes",
                         a->loaded.path, b->loaded.path);
    double squares = 0;
    size_t worst = 0;
    o->images = a->images;
    for (size_t i = 0; i < a->images; i++) {
        size_t x = top_of(a, i), y = top_of(b, i), label = (size_t)a->label[i];
        o->agree += x == y;
        o->right[x == label][y == label]++;
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

int smoe_compare_outputs(smoe_logits_apart *o, const char *a, const char *b,
                         const smoe_options *options, smoe_err *err) {
    outputs x = {0}, y = {0};
    *o = (smoe_logits_apart){0};
    int status = compute(&x, a, options, err);
    if (!status) status = compute(&y, b, options, err);
    if (!status) status = compare_logits(o, &x, &y, err);
    smoe_loaded_free(&x.loaded);
    smoe_loaded_free(&y.loaded);
    free(x.logits);
    free(x.label);
    free(y.logits);
    free(y.label);
    return status;
}
