/* Evaluating trained trials at other settings; see evaluations.h. */
#include "sweep/evaluations.h"
#include "bench/cost.h"
#include "sweep/trial.h"
#include "spec/routers.h"
#include "store/model_file.h"
#include "store/run.h"
#include "train/data_mark.h"
#include "train/fewshot.h"
#include "tensors/npy.h"
#include "train/routing.h"
#include "tensors/params_io.h"
#include "train/evaluate.h"

enum { MOST_POINTS = 10000, FILE_MOST = 1 << 24 };

/* ---- points ---------------------------------------------------------------------------------- */

/* Keys that affect how a trained model is used, or which images of generated data are drawn, but
 * neither parameters nor classes. All keys of eval may change as well. */
static const char usage[] =
    "model.moe.router model.moe.k model.moe.capacity model.moe.capacity_rounding "
    "model.moe.capacity_multiple_of model.moe.group_images model.moe.priority model.moe.skip_patch "
    "model.moe.topk model.moe.mix_precision model.moe.random_layers model.moe.random_scores "
    "data.shift data.facts.exponent data.facts.offset data.facts.noise data.facts.distractors "
    "data.shapes.size data.shapes.distractors";

/* "model.moe.router, k, ... data.facts.exponent, offset ...": a section is said once. */
int smoe_evaluations_check_key(const char *before, const char *key, smoe_err *err) {
    char can[512] = "", name[64], last[64] = "";
    if (!strncmp(key, "eval.", 5) || smoe_text_has_word(usage, ' ', key)) return 0;
    for (const char *rest = usage; smoe_text_next(&rest, ' ', name, sizeof name);) {
        size_t section = (size_t)(strrchr(name, '.') + 1 - name);
        smoe_text_list(can, sizeof can, "%s", name + (strncmp(name, last, section) ? 0 : section));
        strcpy(last, name);
    }
    return smoe_fail_more(err, SMOE_USAGE, "%s%s: cannot change after training; %s and eval.* can",
                          before, key, can);
}

static bool same_parameters(smoe_model *a, smoe_model *b) {
    const smoe_params *p = smoe_model_params(a), *q = smoe_model_params(b);
    bool same = p->count == q->count;
    for (size_t i = 0; same && i < p->count; i++)
        same = !strcmp(p->param[i].name, q->param[i].name) && p->param[i].size == q->param[i].size;
    return same;
}

static int parse_point(smoe_spec *spec, const smoe_trial *trial, const smoe_points *points,
                       size_t p, smoe_err *err) {
    const smoe_spec_text text = {
        .text = trial->spec, .label = trial->name, .trained = true, .of_cells = true};
    char **assign = smoe_alloc(points->columns + SMOE_AXES_MORE, sizeof *assign);
    size_t overrides = smoe_axes_assign(assign, points, p);
    int status = smoe_spec_parse(spec, &text, assign, overrides, err);
    smoe_texts_free(assign, overrides);
    return status;
}

/* What the points are in the trials so far. */
typedef struct checked {
    const smoe_points *columns;
    bool *acts;        /* the columns that have an effect */
    uint64_t *meaning; /* of the points: equal where they are the same, however written */
} checked;

/* Checks that the trial, whose model is given, can be evaluated at point p. Problems are added to
 * err. */
static int check_point(checked *c, const smoe_trial *trial, smoe_model *trained, size_t p,
                       smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    SMOE_FREED_BY(smoe_model_freed) smoe_model *model = NULL;
    const smoe_points *points = c->columns;
    smoe_err own = {0};
    int status = parse_point(&spec, trial, points, p, &own);
    for (size_t k = 0; !status && k < points->columns; k++)
        c->acts[k] |= smoe_spec_acts(&spec, points->column[k]);
    if (!status) {
        json_auto_t *json = smoe_spec_object(&spec);
        c->meaning[p] = 31 * c->meaning[p] + smoe_trial_meaning(json, &spec.model);
        status = smoe_model_create(&model, &spec, 2, &own);
    }
    if (!status && !same_parameters(trained, model))
        status = smoe_fail(&own, SMOE_USAGE, "needs other parameters than the trained ones");
    if (!status) return 0;
    return smoe_fail_more(err, own.code, "%s at %s=%s%s: %.*s", trial->name, points->column[0],
                          points->value[p][0], points->columns > 1 ? " ..." : "",
                          (int)strcspn(own.text, "\n"), own.text);
}

/* "evaluate.eval.split=val evaluate.model.moe.k=2" */
static char *describe_point(const smoe_points *columns, size_t p) {
    char *text = NULL;
    for (size_t k = 0; k < columns->columns; k++)
        smoe_text_add(&text, "%s" SMOE_EVALUATED "%s=%s", k ? " " : "", columns->column[k],
                      columns->value[p][k]);
    return text;
}

/* Each column must have an effect in some trial, and no point may occur twice. */
static int check_columns(const checked *c, smoe_err *err) {
    const smoe_points *columns = c->columns;
    int status = 0;
    for (size_t k = 0; k < columns->columns; k++)
        if (!c->acts[k])
            status = smoe_fail_more(err, SMOE_USAGE, SMOE_EVALUATED "%s: has no effect in any cell",
                                    columns->column[k]);
    for (size_t q = 0; !status && q < columns->points; q++)
        for (size_t p = 0; p < q; p++) {
            if (c->meaning[p] != c->meaning[q]) continue;
            SMOE_FREED char *a = describe_point(columns, p), *b = describe_point(columns, q);
            return smoe_fail(err, SMOE_USAGE, "%s and %s are the same: a value is given twice", a,
                             b);
        }
    return status;
}

static int check_points(const smoe_sweep *sweep, smoe_err *err) {
    const smoe_points *columns = &sweep->evaluate;
    SMOE_FREED bool *acts = smoe_alloc(columns->columns + 1, sizeof *acts);
    SMOE_FREED uint64_t *meaning = smoe_alloc(columns->points + 1, sizeof *meaning);
    checked c = {columns, acts, meaning};
    int status = 0;
    for (size_t i = 0; i < sweep->trials; i++) {
        const smoe_trial *trial = &sweep->trial[i];
        SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
        SMOE_FREED_BY(smoe_model_freed) smoe_model *model = NULL;
        smoe_err own = {0}; /* err keeps the problems of the trials before */
        if (smoe_trial_parse(&spec, trial, &own) || smoe_model_create(&model, &spec, 2, &own))
            return smoe_fail_found(err, &own);
        for (size_t p = 0; p < columns->points; p++)
            if (check_point(&c, trial, model, p, err)) status = -1;
    }
    return status ? status : check_columns(&c, err);
}

int smoe_evaluations_plan(smoe_sweep *sweep, const smoe_sweep_keys *keys, smoe_err *err) {
    int status = 0;
    *err = (smoe_err){0};
    for (size_t k = 0; k < keys->count; k++)
        if (smoe_evaluations_check_key(SMOE_EVALUATED, keys->key[k].key, err)) status = -1;
    if (status) return -1;
    if (!smoe_axes_product(&sweep->evaluate, keys, MOST_POINTS))
        return smoe_fail(err, SMOE_USAGE,
                         "more than %d evaluations of a cell; give fewer values under evaluate",
                         MOST_POINTS);
    return check_points(sweep, err);
}

/* ---- results on disk ------------------------------------------------------------------------- */

static char *results_path(const smoe_sweep *sweep, size_t i) {
    return smoe_text_format("%s/claims/%s.evaluations.json", sweep->dir, sweep->trial[i].name);
}

char *smoe_evaluations_outcomes(const smoe_sweep *sweep, size_t i, size_t point) {
    return smoe_text_format("%s/claims/%s.evaluation-%zu.npy", sweep->dir, sweep->trial[i].name,
                            point);
}

int smoe_evaluations_forget(const smoe_sweep *sweep, size_t i, smoe_err *err) {
    SMOE_FREED char *path = results_path(sweep, i);
    return smoe_file_remove(path, err);
}

/* Files of older versions lack checksums. */
int smoe_evaluations_read(json_t **list, json_t **images, const smoe_sweep *sweep, size_t i,
                          smoe_err *err) {
    SMOE_FREED char *path = results_path(sweep, i), *text = NULL;
    size_t size = 0;
    bool sealed;
    *list = NULL;
    if (images) *images = json_object();
    if (smoe_file_is_absent(path)) {
        *list = json_array();
        return 0;
    }
    if (smoe_file_read(path, FILE_MOST, &text, &size, err)) return -1;
    json_auto_t *object = smoe_sealed_parse(text, size, path, &sealed, err);
    if (!object) return -1;
    /* Older versions wrote the list alone. */
    json_t *found = json_is_array(object) ? object : json_object_get(object, "evaluations");
    if (!json_is_array(found) || json_array_size(found) > sweep->evaluate.points)
        return smoe_fail(err, SMOE_DATA,
                         "%s: has no results of evaluations; remove it to evaluate again", path);
    *list = json_incref(found);
    if (images) json_object_update(*images, json_object_get(object, "images"));
    return 0;
}

/* ---- evaluating ------------------------------------------------------------------------------ */

typedef struct stage { /* what the points of a trial share */
    const smoe_sweep *sweep;
    const smoe_trial *trial;
    smoe_scan *scan;
    smoe_safetensors *weights;
    smoe_dataset *set;
    char split[16];    /* of the set */
    bool data_changes; /* from point to point */
    json_t *images;    /* checksums of the images that were evaluated, by split, and of
                          eval.fewshot.data */
} stage;

/* The images of `key`, a split or the data of few-shot evaluations, must be those on which trials
 * with the same keys of data were evaluated. `what` they are, for the message. Without a mark they
 * are generated, or follow from those of the split. */
static int stage_check_images(const stage *s, const char *key, const char *what, uint64_t number,
                              smoe_err *err) {
    json_auto_t *own = json_loads(s->trial->spec, 0, NULL);
    json_auto_t *data = smoe_data_keys(own, s->split);
    json_auto_t *mark = json_integer((json_int_t)number);
    for (size_t k = 0; number && k < s->sweep->trials; k++) {
        const smoe_trial *trial = &s->sweep->trial[k];
        json_auto_t *list = NULL, *images = NULL, *spec = json_loads(trial->spec, 0, NULL);
        json_auto_t *its = smoe_data_keys(spec, s->split);
        if (!json_equal(data, its) || smoe_evaluations_read(&list, &images, s->sweep, k, NULL))
            continue;
        const json_t *then = json_object_get(images, key);
        if (then && !json_equal(then, mark))
            return smoe_fail(err, SMOE_DATA,
                             "%s: the images of %s are not those on which %s was evaluated; "
                             "restore the data, or begin another sweep with -o DIR",
                             s->trial->name, what, trial->name);
        if (then) break;
    }
    if (number) json_object_set(s->images, key, mark);
    return 0;
}

static int stage_open_fewshot(smoe_fewshot **fewshot, const stage *s, const smoe_spec *spec,
                              smoe_err *err) {
    if (smoe_fewshot_open(fewshot, spec, s->scan, err)) return -1;
    if (!*fewshot) return 0;
    bool own = spec->eval.fewshot.data.source >= SMOE_FEWSHOT_SOURCE;
    json_auto_t *json = smoe_spec_object(spec);
    json_auto_t *keys = own ? json_incref((json_t *)smoe_json_at(json, "eval.fewshot.data"))
                            : smoe_data_keys(json, "train");
    SMOE_FREED char *data = smoe_json_dump(keys, JSON_COMPACT);
    SMOE_FREED char *key = smoe_text_format("fewshot %s %s", spec->eval.split, data);
    return stage_check_images(s, key, own ? "eval.fewshot.data" : "few-shot evaluation",
                              smoe_fewshot_checksum(*fewshot), err);
}

static int stage_open_data(stage *s, const smoe_spec *spec, smoe_err *err) {
    if (s->set && !s->data_changes && !strcmp(s->split, spec->eval.split)) return 0;
    smoe_dataset_free(s->set);
    s->set = NULL;
    snprintf(s->split, sizeof s->split, "%s", spec->eval.split);
    if (smoe_dataset_open(&s->set, spec, spec->eval.split, s->scan, err)) return -1;
    SMOE_FREED char *what = smoe_text_format("split '%s'", s->split);
    if (smoe_model_file_align(s->set, s->weights, spec, err)) return -1;
    return stage_check_images(s, s->split, what, smoe_dataset_checksum(s->set), err);
}

static int evaluation_cost(json_t *result, const smoe_spec *spec, size_t classes, smoe_err *err) {
    SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
    if (smoe_cost_estimate(&cost, spec, classes, err)) return -1;
    json_object_set_new(result, smoe_metrics[SMOE_METRIC_FLOPS_INFER].column,
                        smoe_run_number(cost.flops_infer_per_image));
    json_object_set_new(result, smoe_metrics[SMOE_METRIC_FLOPS_INFER_COMPUTED].column,
                        smoe_run_number(cost.flops_infer_computed_per_image));
    return 0;
}

/* The columns of the metrics that training would record. */
static void set_columns(json_t *result, json_t *record) {
    char column[SMOE_METRIC_KEY];
    smoe_metric_place at;
    const char *key;
    json_t *value;
    json_object_foreach(record, key, value) {
        if (!smoe_metric_read(&at, key) || !smoe_metrics[at.metric].column) continue;
        if (at.metric == SMOE_METRIC_LOSS) at.metric = SMOE_METRIC_EVALUATION_LOSS;
        json_object_set(result, smoe_metric_column(column, at.metric, at.number), value);
    }
}

/* Measures point p; the outcomes of its images go to `path`. */
static int evaluations_evaluate(stage *s, size_t p, const char *path, json_t *result,
                                smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    SMOE_FREED_BY(smoe_model_freed) smoe_model *model = NULL;
    SMOE_FREED_BY(smoe_routing_free) smoe_routing routing = {0};
    SMOE_FREED_BY(smoe_fewshot_freed) smoe_fewshot *fewshot = NULL;
    smoe_eval eval;
    if (parse_point(&spec, s->trial, &s->sweep->evaluate, p, err) || stage_open_data(s, &spec, err))
        return -1;
    size_t images = smoe_dataset_images(s->set);
    size_t batch = smoe_moe_eval_batch(&spec, images);
    SMOE_FREED float *outcomes = smoe_alloc(2 * images, sizeof *outcomes);
    if (smoe_model_create(&model, &spec, smoe_dataset_classes(s->set), err) ||
        smoe_params_allocate(smoe_model_params(model), 1, err) ||
        smoe_params_load(smoe_model_params(model), s->weights, SMOE_FIT_EXACT, NULL, err) ||
        smoe_model_reserve(model, batch, false, err))
        return -1;
    smoe_routing_open(&routing, model);
    int status = smoe_evaluate(model, &spec, s->set, batch,
                               &(smoe_eval_options){.outcomes = outcomes}, &eval, err);
    smoe_routing_stop(&routing);
    if (status) return -1;
    double dropped = smoe_moe_drops_nothing(&spec.model.moe) ? 0 : smoe_routing_dropped(&routing);
    json_auto_t *record = json_object();
    smoe_eval_record(&eval, spec.eval.split, record);
    if (isfinite(dropped))
        smoe_run_metric(record, SMOE_METRIC_TEST_DROPPED, spec.eval.split, 0, dropped);
    if (smoe_npy_write(path, "<f4", outcomes, 2, (const size_t[]){images, 2}, err) ||
        stage_open_fewshot(&fewshot, s, &spec, err) ||
        (fewshot && smoe_fewshot_record(fewshot, model, batch, NULL, record, NULL, err)))
        return -1;
    set_columns(result, record);
    return evaluation_cost(result, &spec, smoe_dataset_classes(s->set), err);
}

int smoe_evaluations_run(const smoe_sweep *sweep, size_t i, smoe_scan *scan,
                         void (*begun)(void *user, size_t done, size_t of), void *user,
                         smoe_err *err) {
    stage s = {.sweep = sweep, .trial = &sweep->trial[i], .scan = scan};
    json_auto_t *list = NULL;
    SMOE_FREED char *results = results_path(sweep, i);
    size_t points = sweep->evaluate.points;
    for (size_t c = 0; c < sweep->evaluate.columns; c++)
        s.data_changes |= !strncmp(sweep->evaluate.column[c], "data.", 5);
    int status = smoe_evaluations_read(&list, &s.images, sweep, i, err);
    SMOE_FREED char *dir = smoe_trial_dir(sweep, i);
    SMOE_FREED char *model = sweep->run ? smoe_kept_model(sweep) : NULL;
    if (!status && json_array_size(list) < points)
        status = model ? smoe_safetensors_open(&s.weights, model, err)
                       : smoe_run_model(&s.weights, dir, "latest", NULL, err);
    while (!status && json_array_size(list) < points) {
        size_t done = json_array_size(list);
        json_auto_t *result = json_object();
        SMOE_FREED char *path = smoe_evaluations_outcomes(sweep, i, done);
        if (begun) begun(user, done, points);
        if (smoe_scan_asked(scan, NULL))
            status =
                smoe_fail(err, SMOE_STOPPED, "stopped on request after %zu of %zu evaluation%s",
                          done, points, SMOE_S(points));
        else
            status = evaluations_evaluate(&s, done, path, result, err);
        if (status) break;
        json_array_append(list, result);
        json_auto_t *whole = json_pack("{s:O, s:O}", "evaluations", list, "images", s.images);
        status = smoe_sealed_write(results, whole, err);
    }
    smoe_safetensors_free(s.weights);
    smoe_dataset_free(s.set);
    json_decref(s.images);
    return status;
}

/* ---- the table ------------------------------------------------------------------------------- */

void smoe_evaluations_cross(smoe_sweep *table, const smoe_sweep *sweep) {
    const smoe_points *axis = &sweep->evaluate;
    size_t columns = sweep->columns + axis->columns;
    *table = (smoe_sweep){.seed = sweep->seed,
                          .column = smoe_alloc(columns + 1, sizeof *table->column),
                          .trial = smoe_alloc(sweep->trials * axis->points, sizeof *table->trial)};
    for (; table->columns < columns; table->columns++) {
        size_t c = table->columns;
        table->column[c] = c < sweep->columns ? smoe_alloc_text(sweep->column[c])
                                              : smoe_text_format(SMOE_EVALUATED "%s",
                                                                 axis->column[c - sweep->columns]);
    }
    for (size_t n = 0; n < sweep->trials * axis->points; n++) {
        const smoe_trial *trial = &sweep->trial[n / axis->points];
        char *const *point = axis->value[n % axis->points];
        smoe_trial *to = &table->trial[table->trials++];
        to->name = smoe_alloc_text(trial->name);
        to->value = smoe_alloc(columns + 1, sizeof *to->value);
        for (size_t c = 0; c < columns; c++)
            to->value[c] =
                smoe_alloc_text(c < sweep->columns ? trial->value[c] : point[c - sweep->columns]);
    }
}

int smoe_evaluations_table(smoe_sweep *table, const smoe_sweep *sweep, smoe_err *err) {
    int status = 0;
    smoe_evaluations_cross(table, sweep);
    table->dir = smoe_alloc_text(sweep->dir);
    table->name = smoe_text_format("%s, evaluated", sweep->name);
    table->figure = (smoe_sweep_figure){.x = smoe_alloc_text(sweep->figure.x),
                                        .y = smoe_alloc_text(sweep->figure.y),
                                        .width = sweep->figure.width,
                                        .front = sweep->figure.front};
    table->reference = smoe_alloc_text(sweep->reference);
    table->plan.equivalence = smoe_alloc_text(sweep->plan.equivalence);
    table->plan.seen = smoe_alloc_text(sweep->plan.seen);
    for (size_t i = 0; i < sweep->trials && !status; i++) {
        json_auto_t *list = NULL;
        status = smoe_evaluations_read(&list, NULL, sweep, i, err);
        if (!status && sweep->trial[i].state == SMOE_TRIAL_DONE &&
            json_array_size(list) < sweep->evaluate.points)
            status = smoe_fail(err, SMOE_DATA,
                               "%s: %zu of %zu evaluations are there, and the cell is done; `smoe "
                               "verify %s --repair` computes the others again",
                               sweep->trial[i].name, json_array_size(list), sweep->evaluate.points,
                               sweep->dir);
        for (size_t p = 0; p < sweep->evaluate.points && !status; p++) {
            smoe_trial *to = &table->trial[i * sweep->evaluate.points + p];
            json_t *result = json_array_get(list, p);
            bool failed = sweep->trial[i].state == SMOE_TRIAL_FAILED;
            to->state = result ? SMOE_TRIAL_DONE : failed ? SMOE_TRIAL_FAILED : SMOE_TRIAL_OPEN;
            to->outcomes = smoe_evaluations_outcomes(sweep, i, p);
            to->spec = smoe_alloc_text(sweep->trial[i].spec);
            if (result) to->outcome = json_pack("{s:s, s:O}", "status", "done", "result", result);
        }
    }
    return status;
}
