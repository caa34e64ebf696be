/*
 * The manifest of a sweep as text, written and read; see sweep.h for what it is and sweep_folder.c
 * for the folder in which it lies.
 */
#include "sweep/sweep.h"
#include "base/digest.h"
#include "base/json.h"
#include "compare/primary.h"
#include "sweep/trial.h"

#include <inttypes.h>

enum { MANIFEST_MOST = 1 << 30 };

/* The digest of the whole manifest is in its first line. */
static const char MARK[] = "\"xxh3\":\"";

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *texts_json(char *const *text, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(list, json_string(text[i]));
    return list;
}

static json_t *plan_json(smoe_sweep_plan plan) {
    json_t *list = json_array();
    for (size_t i = 0; i < plan.primaries; i++) {
        json_t *primary = json_object();
        for (size_t part = 0; part < SMOE_PRIMARY_PARTS; part++) {
            const char *text = *smoe_spec_primary_text(&plan.primary[i], part);
            if (text) json_object_set_new(primary, smoe_primary_part[part], json_string(text));
        }
        json_array_append_new(list, primary);
    }
    return json_pack("{s:o, s:s*, s:s*, s:s*}", "primary", list, "family", plan.family,
                     "equivalence", plan.equivalence, "seen", plan.seen);
}

static json_t *truth_json(bool truth) {
    return truth ? json_true() : NULL;
}

static json_t *path_json(const char *path) {
    return path ? smoe_json_text(path) : NULL;
}

/* The first line, without what is not there. */
static json_t *header_json(const smoe_sweep *sweep) {
    const smoe_sweep_figure *f = &sweep->figure;
    const smoe_start *start = &sweep->start;
    const smoe_file_choice *choice = &start->choice;
    const smoe_sweep_plan *plan = &sweep->plan;
    const smoe_points *axis = &sweep->evaluate;
    json_t *points = axis->points ? json_array() : NULL;
    for (size_t p = 0; p < axis->points; p++)
        json_array_append_new(points, texts_json(axis->value[p], axis->columns));
    json_t *evaluate = points ? json_pack("{s:o, s:o}", "columns",
                                          texts_json(axis->column, axis->columns), "points", points)
                              : NULL;
    json_t *grid = choice->rows
                       ? json_pack("[I, I]", (json_int_t)choice->rows, (json_int_t)choice->columns)
                       : NULL;
    json_t *figure = f->x || f->y || f->line || f->title
                         ? json_pack("{s:s?, s:s?, s:s?, s:s*}", "x", f->x, "y", f->y, "line",
                                     f->line, "title", f->title)
                         : NULL;
    bool planned = plan->primaries || plan->equivalence || plan->seen;
    return json_pack("{s:o, s:I, s:o, s:o*, s:o*, s:s*, s:o*, s:o*, s:o*, s:o*, s:s*, s:o*, s:o*, "
                     "s:s*, s:o*, s:s}",
                     "sweep", smoe_json_text(sweep->name), "cells", (json_int_t)sweep->trials,
                     "columns", texts_json(sweep->column, sweep->columns), "evaluate", evaluate,
                     "run", path_json(sweep->run), "checkpoint", sweep->checkpoint, "init",
                     path_json(sweep->init), "upcycle",
                     sweep->init ? json_boolean(start->upcycle) : NULL, "moments",
                     truth_json(start->moments), "partial", truth_json(start->partial), "weights",
                     choice->weights, "grid", grid, "figure", figure, "reference", sweep->reference,
                     "plan", planned ? plan_json(*plan) : NULL, "xxh3", SMOE_DIGEST_ZEROS);
}

static json_t *trial_json(const smoe_sweep *sweep, const smoe_trial *trial) {
    char hash[17], values[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, trial->hash);
    snprintf(values, sizeof values, "%016" PRIx64, smoe_trial_hash_values(sweep, trial));
    json_t *set = json_object();
    for (size_t c = 0; c < sweep->columns; c++)
        json_object_set_new(set, sweep->column[c], json_string(trial->value[c]));
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "cell", trial->name, "hash", hash, "set_hash",
                     values, "set", set, "spec", json_loads(trial->spec, 0, NULL));
}

static char *manifest_text(const smoe_sweep *sweep, size_t *size) {
    char *text = NULL;
    FILE *out = smoe_alloc_stream(&text, size);
    for (size_t i = 0; i <= sweep->trials; i++) {
        json_auto_t *line = i ? trial_json(sweep, &sweep->trial[i - 1]) : header_json(sweep);
        json_dumpf(line, out, JSON_COMPACT | JSON_REAL_PRECISION(17));
        fputc('\n', out);
    }
    smoe_alloc_stream_close(out, &text);
    smoe_digest_seal(text, *size, strcspn(text, "\n"), MARK);
    return text;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Whether first lines agree in some members, or lack the same. */
static bool members_same(const json_t *a, const json_t *b, const char *const *key) {
    for (; *key; key++) {
        json_t *x = json_object_get(a, *key), *y = json_object_get(b, *key);
        if (x != y && !json_equal(x, y)) return false;
    }
    return true;
}

int smoe_manifest_compare_settings(const smoe_sweep *was, const smoe_sweep *is, smoe_err *err) {
    static const char *const columns[] = {"columns", NULL};
    static const char *const started[] = {"init",    "upcycle", "moments", "partial",
                                          "weights", "grid",    NULL};
    static const char *const evaluated[] = {"evaluate", "checkpoint", NULL};
    static const char *const stated[] = {"primary", "family", NULL};
    json_auto_t *a = header_json(was), *b = header_json(is);
    json_auto_t *plan = plan_json(was->plan), *new_plan = plan_json(is->plan);
    const smoe_start *start = &was->start;
    const char *weights = start->choice.weights;
    if (!members_same(a, b, columns))
        return smoe_fail(err, SMOE_USAGE,
                         "%s: is another sweep: the keys it sweeps are different (one with a "
                         "single value is not swept); -o DIR chooses another folder",
                         was->dir);
    if (!members_same(plan, new_plan, stated))
        return smoe_fail(err, SMOE_USAGE,
                         "%s: sweep.primary has changed since this sweep began, with %zu primary "
                         "contrasts; -o DIR chooses another folder",
                         was->dir, was->plan.primaries);
    if (!members_same(a, b, started))
        return smoe_fail(
            err, SMOE_USAGE,
            "%s: is another sweep: its cells start from %s%s%s%s%s%s; -o DIR chooses another "
            "folder",
            was->dir, was->init ? was->init : "new weights", start->upcycle ? ", upcycled" : "",
            start->moments ? ", with its moments" : "", start->partial ? ", a part of it" : "",
            weights ? ", its weights " : "", weights ? weights : "");
    if (!members_same(a, b, evaluated))
        return smoe_fail(
            err, SMOE_USAGE,
            "%s: is another sweep: its evaluations are different; -o DIR chooses another folder",
            was->dir);
    return 0;
}

/* Whether a trial is one of the sweep, probably the one at `place`: a sweep that was extended has
 * the new ones at its end, with numbers that continue. */
static bool among(const smoe_sweep *sweep, const smoe_trial *trial, size_t place) {
    static const char digits[] = "0123456789";
    const char *values = trial->name + strspn(trial->name, digits);
    for (size_t k = 0; k < sweep->trials; k++) {
        const smoe_trial *was = &sweep->trial[(place + k) % sweep->trials];
        if (!strcmp(was->name + strspn(was->name, digits), values) && smoe_trial_same(was, trial))
            return true;
    }
    return false;
}

enum { DIFFERENCES = 400 };

static void manifest_difference(void *user, const char *key, const json_t *was, const json_t *is) {
    SMOE_FREED char *old = smoe_json_dump(was, 0);
    SMOE_FREED char *now = smoe_json_dump(is, 0);
    smoe_text_list(user, DIFFERENCES, "%s=%.80s (was %.80s)", key, now ? now : "absent",
                   old ? old : "absent");
}

int smoe_manifest_compare(const smoe_sweep *was, const smoe_sweep *is, smoe_err *err) {
    if (was->trials != is->trials)
        return smoe_fail(err, SMOE_USAGE,
                         "%s: is another sweep: it has %zu cell%s, the spec now makes %zu; "
                         "--extend adds cells to it, -o DIR chooses another folder",
                         was->dir, was->trials, SMOE_S(was->trials), is->trials);
    for (size_t i = 0; i < is->trials; i++) {
        if (among(was, &is->trial[i], i)) continue;
        char text[DIFFERENCES] = ""; /* the keys that differ, as many as there is room for */
        json_auto_t *old = json_loads(was->trial[i].spec, 0, NULL);
        json_auto_t *now = json_loads(is->trial[i].spec, 0, NULL);
        smoe_json_compare(old, now, manifest_difference, text);
        return smoe_fail(err, SMOE_USAGE,
                         "%s: is another sweep: cell %s has %s; -o DIR chooses another folder",
                         was->dir, is->trial[i].name, *text ? text : "another name");
    }
    return smoe_manifest_compare_settings(was, is, err);
}

int smoe_manifest_write(const smoe_sweep *sweep, const char *dir, smoe_err *err) {
    const char *const models[] = {sweep->run, sweep->checkpoint, sweep->init};
    for (size_t i = 0; i < SMOE_COUNT(models); i++)
        if (models[i] && !smoe_text_printable(models[i]))
            return smoe_fail(err, SMOE_USAGE,
                             "%s: a path that is not printable UTF-8; the sweep could not name it",
                             models[i]);
    SMOE_FREED char *path = smoe_text_format("%s/cells.jsonl", dir);
    size_t size = 0;
    SMOE_FREED char *text = manifest_text(sweep, &size);
    return smoe_file_write(path, text, size, err);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A copy of a text in an object; NULL where there is none. */
static char *manifest_text_of(const json_t *object, const char *key) {
    return smoe_alloc_text(json_string_value(json_object_get(object, key)));
}

/* How trials take what they start from. */
static void read_start(smoe_start *start, const json_t *line) {
    const char *weights = json_string_value(json_object_get(line, "weights"));
    const json_t *grid = json_object_get(line, "grid");
    json_int_t rows = json_integer_value(json_array_get(grid, 0));
    json_int_t columns = json_integer_value(json_array_get(grid, 1));
    start->upcycle = json_is_true(json_object_get(line, "upcycle"));
    start->moments = json_is_true(json_object_get(line, "moments"));
    start->partial = json_is_true(json_object_get(line, "partial"));
    if (weights) start->choice.weights = strcmp(weights, "ema") ? "raw" : "ema";
    if (rows > 0 && columns > 0) {
        start->choice.rows = (size_t)rows;
        start->choice.columns = (size_t)columns;
    }
}

/* The texts of a list, fresh; NULL, and none, where one is no text. */
static char **read_texts(const json_t *list, size_t *count) {
    char **text = smoe_alloc(json_array_size(list) + 1, sizeof *text);
    for (*count = 0; *count < json_array_size(list); ++*count)
        if (!(text[*count] = smoe_alloc_text(json_string_value(json_array_get(list, *count)))))
            break;
    if (*count == json_array_size(list)) return text;
    smoe_texts_free(text, *count);
    *count = 0;
    return NULL;
}

static int manifest_read_evaluate(smoe_points *points, const json_t *evaluate) {
    const json_t *list = json_object_get(evaluate, "points");
    size_t count = 0;
    if (!evaluate) return 0;
    points->column = read_texts(json_object_get(evaluate, "columns"), &points->columns);
    points->value = smoe_alloc(json_array_size(list) + 1, sizeof *points->value);
    for (; points->columns && points->points < json_array_size(list); points->points++) {
        char **value = read_texts(json_array_get(list, points->points), &count);
        if (count != points->columns) return smoe_texts_free(value, count), -1;
        points->value[points->points] = value;
    }
    return points->columns ? 0 : -1;
}

static int read_plan(smoe_sweep_plan *plan, const json_t *object) {
    const json_t *list = json_object_get(object, "primary");
    plan->primary = smoe_alloc(json_array_size(list) + 1, sizeof *plan->primary);
    for (; plan->primaries < json_array_size(list); plan->primaries++)
        for (size_t part = 0; part < SMOE_PRIMARY_PARTS; part++)
            *smoe_spec_primary_text(&plan->primary[plan->primaries], part) =
                manifest_text_of(json_array_get(list, plan->primaries), smoe_primary_part[part]);
    for (size_t i = 0; i < plan->primaries; i++) {
        const smoe_primary *p = &plan->primary[i];
        if (!p->measure || !p->expect || !(p->trend || (p->row && p->reference))) return -1;
    }
    plan->family = manifest_text_of(object, "family");
    plan->equivalence = manifest_text_of(object, "equivalence");
    plan->seen = manifest_text_of(object, "seen");
    return 0;
}

static int manifest_read_header(smoe_sweep *sweep, const json_t *line) {
    const json_t *columns = json_object_get(line, "columns");
    const char *name = json_string_value(json_object_get(line, "sweep"));
    json_int_t trials = json_integer_value(json_object_get(line, "cells"));
    if (!name || !json_is_array(columns) || trials < 1 || trials > MANIFEST_MOST / 16) return -1;
    sweep->name = smoe_alloc_text(name);
    sweep->trial = smoe_alloc((size_t)trials, sizeof *sweep->trial);
    sweep->column = read_texts(columns, &sweep->columns);
    if (!sweep->column) return -1;
    sweep->seed = smoe_sweep_column(sweep, "seed");
    const json_t *figure = json_object_get(line, "figure");
    sweep->figure = (smoe_sweep_figure){.x = manifest_text_of(figure, "x"),
                                        .y = manifest_text_of(figure, "y"),
                                        .line = manifest_text_of(figure, "line"),
                                        .title = manifest_text_of(figure, "title")};
    sweep->run = manifest_text_of(line, "run");
    sweep->checkpoint = manifest_text_of(line, "checkpoint");
    sweep->init = manifest_text_of(line, "init");
    sweep->reference = manifest_text_of(line, "reference");
    if (read_plan(&sweep->plan, json_object_get(line, "plan")) || !sweep->run != !sweep->checkpoint)
        return -1;
    read_start(&sweep->start, line);
    return manifest_read_evaluate(&sweep->evaluate, json_object_get(line, "evaluate"));
}

/* A trial must have the hashes of its spec and of its settings; early manifests have no hash of
 * settings. */
static int read_trial(smoe_sweep *sweep, const json_t *line) {
    smoe_trial *trial = &sweep->trial[sweep->trials++];
    const char *name = json_string_value(json_object_get(line, "cell"));
    const char *hash = json_string_value(json_object_get(line, "hash"));
    trial->value = smoe_alloc(sweep->columns + 1, sizeof *trial->value);
    if (!name || !*name || strchr(name, '/') || *name == '.' || !hash) return -1;
    trial->name = smoe_alloc_text(name);
    for (size_t c = 0; c < sweep->columns; c++) {
        const char *value =
            json_string_value(json_object_get(json_object_get(line, "set"), sweep->column[c]));
        if (!value) return -1;
        trial->value[c] = smoe_alloc_text(value);
    }
    if (smoe_trial_set_spec(trial, json_object_get(line, "spec"))) return -1;
    const char *values = json_string_value(json_object_get(line, "set_hash"));
    if (values && smoe_trial_hash_values(sweep, trial) != strtoull(values, NULL, 16)) return -1;
    return trial->hash == strtoull(hash, NULL, 16) ? 0 : -1;
}

static int read_manifest(smoe_sweep *sweep, const char *path, char *text, smoe_err *err) {
    char *rest = text, *piece;
    size_t number = 0, trials = 0;
    while ((piece = strsep(&rest, "\n")) && *piece) {
        json_auto_t *line = json_loads(piece, 0, NULL);
        int bad = !number                  ? manifest_read_header(sweep, line)
                  : sweep->trials < trials ? read_trial(sweep, line)
                                           : -1;
        if (!number++) trials = (size_t)json_integer_value(json_object_get(line, "cells"));
        if (bad)
            return smoe_fail(err, SMOE_DATA,
                             "%s:%zu: not a line of a sweep, or changed since it was written", path,
                             number);
    }
    if (number && sweep->trials == trials) return 0;
    return smoe_fail(err, SMOE_DATA, "%s: has %zu cell%s, its first line says %zu", path,
                     sweep->trials, SMOE_S(sweep->trials), trials);
}

int smoe_manifest_read(smoe_sweep *sweep, const char *path, smoe_err *err) {
    SMOE_FREED char *text = NULL;
    size_t size = 0;
    if (smoe_file_read(path, MANIFEST_MOST, &text, &size, err)) return -1;
    smoe_seal seal = smoe_digest_sealed(text, size, strcspn(text, "\n"), MARK);
    sweep->sealed = seal == SMOE_SEAL_RIGHT;
    if (read_manifest(sweep, path, text, err)) return -1;
    if (seal == SMOE_SEAL_WRONG)
        return smoe_fail(err, SMOE_DATA, "%s: changed since it was written: its digest is another",
                         path);
    return 0;
}
