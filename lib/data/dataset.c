/*
 * Opening data sets and reading from them: the table of sources and what all sources share. What
 * each source reads is in its own source_*.c; batches are made in loader.c.
 */
#include "data/dataset.h"
#include "data/augment.h"
#include "data/dataset_source.h"
#include "spec/sources.h"
#include "base/rng.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
static int settle_classes(smoe_dataset *set, size_t wanted, smoe_err *err) {
    const char *where = set->path ? set->path : set->name;
    if (wanted && wanted < set->named)
        return smoe_fail(err, SMOE_USAGE, "data.classes: %zu, but %s has %zu classes", wanted,
                         where, set->named);
    set->classes = wanted ? wanted : set->named;
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
    smoe_dataset *set = calloc(1, sizeof *set);
    if (!set) return smoe_fail(err, SMOE_RUNTIME, "out of memory opening the data");
    set->type = types[source];
    set->name = smoe_sources[source].name;
    set->size = spec->data.image_size;
    set->channels = spec->data.channels;
    set->cache_bytes = spec->data.cache_mb << 20;
    set->native = !strcmp(split, "train") && spec->data.augment.crop == SMOE_CROP_INCEPTION;
    set->tolerant = survey;
    set->data = spec->data;
    set->seed = strcmp(split, "train") ? spec->data.seed : spec->seed;
    snprintf(set->split, sizeof set->split, "%s", split);
    if (set->type->open(set, spec, split, err) || settle_classes(set, spec->data.classes, err)) {
        smoe_dataset_free(set);
        return -1;
    }
    *out = set;
    return 0;
}

void smoe_dataset_free(smoe_dataset *set) {
    if (!set) return;
    if (set->type->close) set->type->close(set);
    for (size_t i = 0; set->class_name && i < set->named; i++) free(set->class_name[i]);
    free(set->class_name);
    free(set->label);
    free(set->more);
    free(set->more_at);
    free(set->part_at);
    for (size_t i = 0; set->left && i < SMOE_LEFT; i++) free(set->left[i]);
    free(set->left);
    free(set->path);
    free(set);
}

size_t smoe_dataset_images(const smoe_dataset *set) {
    return set->images;
}

bool smoe_dataset_endless(const smoe_dataset *set) {
    return set->endless;
}

size_t smoe_dataset_classes(const smoe_dataset *set) {
    return set->classes;
}

const char *smoe_dataset_class_name(const smoe_dataset *set, size_t label) {
    return label < set->named ? set->class_name[label] : "(unnamed)";
}

const char *smoe_dataset_image_name(const smoe_dataset *set, size_t i, char *buf, size_t size) {
    set->type->image_name(set, i, buf, size);
    return buf;
}

size_t smoe_dataset_label(const smoe_dataset *set, size_t i) {
    return set->type->label(set, i, NULL);
}

size_t smoe_dataset_left_out(const smoe_dataset *set) {
    return set->left_out;
}

const char *smoe_dataset_left(const smoe_dataset *set, size_t i) {
    return set->left[i];
}

const smoe_others *smoe_dataset_others(const smoe_dataset *set) {
    return &set->others;
}

static int compare_endings(const void *x, const void *y) {
    return strcmp(((const smoe_ending *)x)->text, ((const smoe_ending *)y)->text);
}

void smoe_dataset_count_other(smoe_others *others, const char *name) {
    const char *slash = strrchr(name, '/'), *dot = strrchr(slash ? slash : name, '.');
    smoe_ending key = {0};
    if (dot && strlen(dot) < sizeof key.text) smoe_text_shown(dot, key.text, sizeof key.text);
    for (char *c = key.text; *c; c++) *c = (char)tolower((unsigned char)*c);
    size_t n = others->endings;
    smoe_ending *at = bsearch(&key, others->ending, n, sizeof key, compare_endings);
    if (!at && n + 1 >= SMOE_ENDINGS) { /* the last place is for "" */
        key.text[0] = '\0';
        at = bsearch(&key, others->ending, n, sizeof key, compare_endings);
    }
    if (!at) {
        others->ending[others->endings++] = key;
        qsort(others->ending, others->endings, sizeof key, compare_endings);
        at = bsearch(&key, others->ending, others->endings, sizeof key, compare_endings);
    }
    if (at) at->count++;
    others->files++;
}

const char *smoe_dataset_others_text(const smoe_dataset *set, char *buf, size_t size) {
    const smoe_others *others = &set->others;
    size_t used = (size_t)snprintf(
        buf, size,
        "%zu files are no .jpg, .jpeg, .png or .webp, and are passed over: ", others->files);
    for (size_t k = 0; k < others->endings && used < size; k++) {
        const smoe_ending *e = &others->ending[k];
        used += (size_t)snprintf(buf + used, size - used, "%s%zu %s", k ? ", " : "", e->count,
                                 *e->text ? e->text : "others");
    }
    return buf;
}

size_t smoe_dataset_turned(const smoe_dataset *set) {
    return set->turned;
}

size_t smoe_dataset_all_labels(const smoe_dataset *set, size_t i, size_t *class, size_t most) {
    size_t count = set->more ? set->more_at[i + 1] - set->more_at[i] : 0;
    for (size_t k = 0; k < count && k < most; k++) class[k] = set->more[set->more_at[i] + k];
    if (count) return count;
    if (most) *class = smoe_dataset_label(set, i);
    return 1;
}

int smoe_dataset_caption(const smoe_dataset *set, size_t i, char *buf, size_t size, smoe_err *err) {
    return set->type->caption(set, i, buf, size, err);
}

int smoe_dataset_shuffle(const smoe_dataset *set, smoe_rng *rng, uint32_t *order, smoe_err *err) {
    size_t n = set->images, buffer = set->data.shuffle_buffer;
    if (!set->parts || !buffer || buffer >= n) {
        smoe_rng_permutation(rng, order, n);
        return 0;
    }
    uint32_t *part = malloc(set->parts * sizeof *part);
    if (!part) return smoe_fail(err, SMOE_RUNTIME, "out of memory for the order of images");
    smoe_rng_permutation(rng, part, set->parts);
    size_t filled = 0;
    for (size_t p = 0; p < set->parts; p++)
        for (size_t i = set->part_at[part[p]]; i < set->part_at[part[p] + 1]; i++)
            order[filled++] = (uint32_t)i;
    free(part);
    for (size_t i = 0; i < n; i++) { /* the buffer is order[i .. i + buffer) */
        size_t j = i + smoe_rng_below(rng, buffer < n - i ? buffer : n - i);
        uint32_t drawn = order[j];
        order[j] = order[i];
        order[i] = drawn;
    }
    return 0;
}

void smoe_dataset_order(uint32_t *order, size_t n, const smoe_spec *spec) {
    smoe_rng rng = smoe_rng_at(spec->data.seed, SMOE_RNG_ORDER, 0, 0, 0);
    if (spec->eval.order == SMOE_ORDER_SHUFFLED)
        smoe_rng_permutation(&rng, order, n);
    else
        for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
}

int smoe_dataset_image(const smoe_dataset *set, size_t i, bool multi, real *pixels, real *target,
                       int64_t *label, smoe_err *err) {
    smoe_image image = {0}, work = {0};
    int status = set->type->image(set, i, NULL, &image, &work, err);
    if (!status) {
        smoe_image_pixels(pixels, &image, &set->data);
        *label = smoe_dataset_target(set, i, multi, target);
    }
    smoe_image_free(&image);
    smoe_image_free(&work);
    return status;
}

int smoe_dataset_picture(const smoe_dataset *set, size_t i, const smoe_data_spec *data,
                         const smoe_rng *augmentation, smoe_image *out, smoe_image *work,
                         smoe_err *err) {
    smoe_rng rng = augmentation ? *augmentation : (smoe_rng){0};
    bool box = augmentation && data->augment.crop == SMOE_CROP_INCEPTION;
    if (set->type->image(set, i, box ? &rng : NULL, out, work, err)) return -1;
    return augmentation ? smoe_augment(data, out, work, &rng, err) : 0;
}

/* ---- what the sources and the loader share --------------------------------------------------- */

int64_t smoe_dataset_target(const smoe_dataset *set, uint64_t i, bool multi, real *target) {
    for (size_t k = 0; k < set->classes; k++) target[k] = 0;
    size_t label = set->type->label(set, i, multi ? target : NULL);
    target[label] = 1;
    return (int64_t)label;
}

size_t smoe_dataset_table_label(const smoe_dataset *set, uint64_t i, real *multi) {
    for (size_t k = set->more ? set->more_at[i] : 0; multi && set->more && k < set->more_at[i + 1];
         k++)
        multi[set->more[k]] = 1;
    return set->label[i];
}

int smoe_dataset_leave_out(smoe_dataset *set, const smoe_err *why, smoe_err *err) {
    if (!set->left) set->left = calloc(SMOE_LEFT, sizeof *set->left);
    char **text = set->left && set->left_out < SMOE_LEFT ? &set->left[set->left_out] : NULL;
    if (text) *text = strdup(why->text);
    if (!set->left || (text && !*text))
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for what is left out");
    set->left_out++;
    return 0;
}

int smoe_dataset_check_left_out(const smoe_dataset *set, smoe_err *err) {
    if (set->tolerant && set->images) return 0;
    if (set->left_out * SMOE_LEFT_MOST <= set->left_out + set->images) return 0;
    return smoe_fail(err, SMOE_DATA,
                     "%s: %zu of %zu images cannot be used, more than one of %d: %s", set->path,
                     set->left_out, set->left_out + set->images, SMOE_LEFT_MOST, set->left[0]);
}

void smoe_dataset_generate(smoe_dataset *set, const smoe_spec *spec, size_t nominal,
                           size_t tested) {
    size_t limit = spec->data.limit, test_size = spec->data.test_size;
    bool train = !strcmp(set->split, "train");
    size_t all = train ? SIZE_MAX : test_size ? test_size : tested;
    set->endless = train && !limit;
    set->images = set->endless ? nominal : limit && limit < all ? limit : all;
}

uint32_t smoe_dataset_stream(const smoe_dataset *set) {
    return !strcmp(set->split, "train") ? 1 : !strcmp(set->split, "test") ? 2 : 3;
}

void smoe_dataset_generated_name(const smoe_dataset *set, uint64_t i, char *buf, size_t size) {
    snprintf(buf, size, "%s/%s/%llu", set->name, set->split, (unsigned long long)i);
}

int smoe_dataset_painted(const smoe_dataset *set, uint64_t i, smoe_paint *paint, smoe_rng *crop,
                         smoe_image *out, smoe_image *work, smoe_err *err) {
    if (!crop) return paint(set, i, out, work, err);
    smoe_image whole = {0};
    int status = paint(set, i, &whole, work, err);
    if (!status) status = smoe_image_fit(out, set->size, &whole, crop, err);
    smoe_image_free(&whole);
    return status;
}

size_t smoe_dataset_draw_label(const smoe_dataset *set, uint64_t i, size_t n) {
    smoe_rng rng = smoe_rng_at(set->seed, SMOE_RNG_LABELS, smoe_dataset_stream(set), 0, i);
    return (size_t)smoe_rng_below(&rng, n);
}

int smoe_dataset_name_classes(smoe_dataset *set, const char *const *name, size_t count,
                              smoe_err *err) {
    set->named = count;
    set->class_name = calloc(count, sizeof *set->class_name);
    bool failed = !set->class_name;
    for (size_t i = 0; !failed && i < count; i++) {
        set->class_name[i] = name ? strdup(name[i]) : smoe_text_format("%zu", i);
        failed = !set->class_name[i];
    }
    return failed ? smoe_fail(err, SMOE_RUNTIME, "out of memory for the names of classes") : 0;
}

/* quota[k] = the number of images taken from class k, out of count[k]: one of each class in turn,
 * until the limit. */
static void share_limit(size_t *quota, const size_t *count, size_t classes, size_t limit) {
    bool some = true;
    while (limit && some) {
        some = false;
        size_t open = 0, least = SIZE_MAX;
        for (size_t k = 0; k < classes; k++) {
            size_t left = count[k] - quota[k];
            if (!left) continue;
            open++;
            if (left < least) least = left;
        }
        if (!open) return;
        size_t each = limit / open < least ? limit / open : least;
        for (size_t k = 0; k < classes && limit;
             k++) { /* each 0: the rest, one to the first ones */
            size_t left = count[k] - quota[k], take = each ? each : 1;
            if (!left) continue;
            quota[k] += take;
            limit -= take;
            some = true;
        }
    }
}

int smoe_dataset_select(bool *keep, const uint32_t *label, size_t n, size_t classes, size_t limit,
                        smoe_err *err) {
    size_t *count = calloc(2 * (classes ? classes : 1), sizeof *count), *quota = count + classes;
    if (!count) return smoe_fail(err, SMOE_RUNTIME, "out of memory for data.limit");
    for (size_t i = 0; i < n; i++) count[label[i]]++;
    share_limit(quota, count, classes, limit ? limit : n);
    for (size_t i = 0; i < n; i++) {
        keep[i] = quota[label[i]] > 0;
        quota[label[i]] -= keep[i];
    }
    free(count);
    return 0;
}
