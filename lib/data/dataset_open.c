/* Opening data sets: the table of sources; see dataset.h. What each source reads is in its own
 * source_*.c. */
#include "base/alloc.h"
#include "data/dataset_source.h"
#include "spec/sources.h"
#include "spec/tasks.h"

static const smoe_source_type *const types[SMOE_SOURCES] = {
#define SOURCE(name, source, type, ...) [source] = &type,
#include "spec/sources.def"
#undef SOURCE
};

static int check_request(const smoe_spec *spec, const char *split, smoe_err *err) {
    const smoe_data_spec *data = &spec->data;
    if (strcmp(split, "train") && strcmp(split, "test") && strcmp(split, "val"))
        return smoe_fail(err, SMOE_USAGE, "data: no split '%s' (train, test, val)", split);
    if (data->channels != 1 && data->channels != 3)
        return smoe_fail(err, SMOE_USAGE, "data.channels: %zu, must be 1 or 3", data->channels);
    if (data->image_size < 1 || data->image_size > 4096)
        return smoe_fail(err, SMOE_USAGE, "data.image_size: %zu, must be 1 .. 4096",
                         data->image_size);
    return 0;
}

/* N: the number in the data, or data.classes if that is larger. */
static int settle_classes(smoe_dataset *set, size_t wanted, bool captions, smoe_err *err) {
    const char *where = set->path ? set->path : set->name;
    if (wanted && wanted < set->named)
        return smoe_fail(err, SMOE_USAGE, "data.classes: %zu, but %s has %zu classes", wanted,
                         where, set->named);
    set->classes = wanted ? wanted : set->named;
    if (set->classes < 2 && !captions)
        smoe_dataset_remark_on(
            set, "%s has one class only: every model is right, so loss and accuracy tell nothing",
            where);
    return 0;
}

int smoe_dataset_open(smoe_dataset **out, const smoe_spec *spec, const char *split, smoe_err *err) {
    return smoe_dataset_open_as(out, spec, split, false, err);
}

int smoe_dataset_open_as(smoe_dataset **out, const smoe_spec *spec, const char *split, bool survey,
                         smoe_err *err) {
    *out = NULL;
    smoe_source source = spec->data.source;
    if (check_request(spec, split, err)) return -1;
    smoe_dataset *set = smoe_alloc(1, sizeof *set);
    set->type = types[source];
    set->name = smoe_sources[source].name;
    set->size = spec->data.image_size;
    set->channels = spec->data.channels;
    set->cache_bytes = spec->data.cache_mb << 20;
    set->native = !strcmp(split, "train") && spec->data.augment.crop == SMOE_CROP_INCEPTION;
    set->tolerant = survey;
    set->data = spec->data;
    bool train = !strcmp(split, "train");
    set->seed = train ? spec->seed : spec->data.seed;
    if (train && set->data.train_limit) set->data.limit = set->data.train_limit;
    snprintf(set->split, sizeof set->split, "%s", split);
    bool captions = smoe_task_pairs(spec->train.loss);
    if (set->type->open(set, spec, split, err) || smoe_dataset_exclude(set, spec, err) ||
        settle_classes(set, spec->data.classes, captions, err)) {
        smoe_dataset_free(set);
        return -1;
    }
    *out = set;
    return 0;
}

void smoe_dataset_free(smoe_dataset *set) {
    if (!set) return;
    if (set->type->close) set->type->close(set);
    smoe_arena_free(&set->pixels);
    smoe_alloc_pool_free(&set->memory);
    free(set->path);
    free(set);
}
