/* Opening data sets: the table of sources; see dataset.h. What each source reads is in its own
 * source_*.c. */
#include "base/json.h"
#include "data/dataset_source.h"
#include "spec/schema.h"
#include "spec/sources.h"
#include "spec/tasks.h"

static const smoe_source_type *const types[SMOE_SOURCES] = {
#define SOURCE(name, source, type, ...) [source] = &type,
#include "spec/sources.def"
};

/* N: the number in the data, or data.classes if that is larger. */
static int settle_classes(smoe_dataset *set, const smoe_spec *spec, smoe_err *err) {
    const size_t wanted = spec->data.classes;
    const char *where = set->path ? set->path : set->name;
    if (wanted && wanted < set->named)
        return smoe_fail(err, SMOE_USAGE, "data.classes: %zu, but %s has %zu class%s", wanted,
                         where, set->named, SMOE_ES(set->named));
    set->classes = wanted ? wanted : set->named;
    /* a trained model may have more classes, and an evaluation on one of them means something */
    if (set->classes < 2 && !spec->trained && !smoe_task_pairs(spec->train.loss))
        smoe_dataset_remark_on(
            set, "%s has only one class: every model is right, so loss and accuracy mean nothing",
            where);
    return 0;
}

static void remark_on_several(smoe_dataset *set, smoe_loss loss) {
    if (loss == SMOE_LOSS_SOFTMAX && smoe_dataset_multi(set))
        smoe_dataset_remark_on(set,
                               "%s has images with several classes: train.loss softmax uses only "
                               "the first class of each, train.loss=sigmoid all of them",
                               set->path);
}

/* Texts of classes need their names. */
static void remark_on_zeroshot(smoe_dataset *set, const smoe_spec *spec) {
    const smoe_prompts *prompts = &spec->eval.zeroshot;
    const char *where = set->path ? set->path : set->name;
    if (!prompts->count || strcmp(set->split, spec->eval.split) != 0) return;
    if (set->classes < 2)
        smoe_dataset_remark_on(set,
                               "eval.zeroshot has no effect, because %s has no classes: top-1 "
                               "accuracy is the text recall at 1",
                               where);
    else if (!smoe_dataset_has_names(set))
        smoe_dataset_remark_on(set,
                               "eval.zeroshot: the classes of %s are numbers without names, so the "
                               "texts of classes contain these numbers; names in its cls files or "
                               "in a table (data.labels) make texts that mean something",
                               where);
}

/* ---- sets that are opened again -------------------------------------------------------------- */

enum { KEPT = sizeof((smoe_datasets *)0)->set / sizeof(smoe_dataset *) };

/* Everything in a spec on which a set of files depends. */
static char *text_of_data(const smoe_spec *spec, const char *split, smoe_opening purpose) {
    static const char *const paths[] = {"data.path", "data.labels", "data.exclude"};
    json_auto_t *all =
        json_pack("[s, i, s*, i]", split, (int)purpose, spec->eval.split, (int)spec->train.loss);
    for (size_t i = 0; i < SMOE_COUNT(paths); i++) {
        SMOE_FREED char *path = NULL;
        if (!smoe_spec_path(spec, paths[i], &path, NULL))
            json_array_append_new(all, json_string(path));
    }
    for (int i = 0; i < SMOE_SCHEMA_COUNT; i++) {
        if (!smoe_schema_within(i, "data")) continue;
        json_t *value = smoe_value_json(spec, &smoe_schema[i]);
        json_array_append_new(all, value ? value : json_null());
    }
    return smoe_json_dump(all, 0);
}

static smoe_dataset *take_kept(smoe_datasets *kept, const char *text) {
    smoe_dataset *set = NULL;
    for (size_t i = 0; i < KEPT; i++) {
        if (set) kept->set[i - 1] = kept->set[i];
        if (!set && kept->set[i] && !strcmp(kept->set[i]->opened_for, text)) set = kept->set[i];
    }
    if (set) kept->set[KEPT - 1] = NULL;
    return set;
}

static void close_set(smoe_dataset *set) {
    if (!set) return;
    if (set->type->close) set->type->close(set);
    smoe_arena_free(&set->pixels);
    smoe_dataset_room_free(set);
    smoe_alloc_pool_free(&set->memory);
    free(set->opened_for);
    free(set->path);
    free(set);
}

void smoe_dataset_free(smoe_dataset *set) {
    if (!set || !set->keeper) {
        close_set(set);
        return;
    }
    smoe_dataset **kept = set->keeper->set;
    close_set(kept[KEPT - 1]);
    memmove(kept + 1, kept, (KEPT - 1) * sizeof *kept);
    kept[0] = set;
}

void smoe_datasets_close(smoe_datasets *kept) {
    for (size_t i = 0; i < KEPT; i++) close_set(kept->set[i]);
    *kept = (smoe_datasets){0};
}

/* ---- opening --------------------------------------------------------------------------------- */

int smoe_dataset_open(smoe_dataset **out, const smoe_spec *spec, const char *split, smoe_scan *scan,
                      smoe_err *err) {
    return smoe_dataset_open_as(out, spec, split, SMOE_OPEN_USE, scan, err);
}

int smoe_dataset_list(smoe_dataset **out, const smoe_spec *spec, const char *split, smoe_scan *scan,
                      smoe_err *err) {
    return smoe_dataset_open_as(out, spec, split, SMOE_OPEN_LIST, scan, err);
}

/* Each name in data.exclude must be an image of this split or of another one, like each row of a
 * table of labels. This is checked when training images are opened, because a run may be evaluated
 * on other data; but not with data.on_error skip, which would decode all splits. */
static int check_excluded(const smoe_dataset *set, const smoe_spec *spec, smoe_err *err) {
    const char *name = smoe_dataset_unseen(set, NULL);
    char own[SMOE_IMAGE_NAME];
    smoe_spec all = *spec;
    if (!name || !set->train || spec->data.on_error == SMOE_ON_ERROR_SKIP) return 0;
    all.data.exclude = NULL;
    all.data.limit = all.data.train_limit = 0;
    for (size_t k = 0; k < SMOE_SPLITS && name; k++) {
        SMOE_FREED_BY(smoe_dataset_freed) smoe_dataset *other = NULL;
        smoe_err why = {0};
        if (!smoe_dataset_list(&other, &all, smoe_split_name[k], set->scan, &why))
            name = smoe_dataset_unseen(set, other);
        if (why.code == SMOE_STOPPED) return smoe_scan_asked(set->scan, err);
    }
    if (!name) return 0;
    return smoe_fail(err, SMOE_DATA, "%s: no image %.200s in %s, where names are like %.200s",
                     spec->data.exclude, name, set->path,
                     smoe_dataset_image_name(set, 0, own, sizeof own));
}

int smoe_dataset_open_as(smoe_dataset **out, const smoe_spec *spec, const char *split,
                         smoe_opening purpose, smoe_scan *scan, smoe_err *err) {
    *out = NULL;
    smoe_source source = spec->data.source;
    if (strcmp(split, "train") && strcmp(split, "test") && strcmp(split, "val"))
        return smoe_fail(err, SMOE_USAGE, "data: no split '%s' (train, test, val)", split);
    bool keeps = scan && scan->kept && purpose != SMOE_OPEN_SURVEY;
    smoe_datasets *keeper = keeps && !smoe_sources[source].generated ? scan->kept : NULL;
    SMOE_FREED char *text = keeper ? text_of_data(spec, split, purpose) : NULL;
    smoe_dataset *set = keeper ? take_kept(keeper, text) : NULL;
    if (set) {
        set->data = spec->data; /* equal, but for the memory of its texts */
        return *out = set, 0;
    }
    set = smoe_alloc(1, sizeof *set);
    set->type = types[source];
    set->name = smoe_sources[source].name;
    set->size = spec->data.image_size;
    set->channels = spec->data.channels;
    set->cache_bytes = spec->data.cache_mb << 20;
    snprintf(set->split, sizeof set->split, "%s", split);
    set->train = !strcmp(split, "train");
    set->native = set->train && spec->data.augment.crop == SMOE_CROP_INCEPTION;
    set->tolerant = purpose == SMOE_OPEN_SURVEY;
    set->listed = purpose == SMOE_OPEN_LIST && spec->data.on_error != SMOE_ON_ERROR_SKIP;
    set->data = spec->data;
    set->seed = set->train ? spec->seed : spec->data.seed;
    if (set->train && set->data.train_limit) set->data.limit = set->data.train_limit;
    set->scan = scan;
    smoe_scan_begin(scan);
    int bad = set->type->open(set, spec, err) || smoe_dataset_exclude(set, spec, err) ||
              check_excluded(set, spec, err) || settle_classes(set, spec, err);
    if (!bad) remark_on_several(set, spec->train.loss);
    if (!bad) remark_on_zeroshot(set, spec);
    set->scan = NULL;
    if (smoe_scan_end(scan, bad)) {
        close_set(set);
        return -1;
    }
    set->keeper = keeper;
    set->opened_for = text;
    text = NULL;
    *out = set;
    return 0;
}
