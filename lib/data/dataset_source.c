/* What sources share; see dataset_source.h. */
#include "data/dataset_source.h"
#include "base/accents.h"

#include <ctype.h>
#include <search.h>

const char *const smoe_split_name[] = {"train", "test", "val"};

static int compare_endings(const void *x, const void *y) {
    return strcmp(((const smoe_ending *)x)->text, ((const smoe_ending *)y)->text);
}

void smoe_dataset_count_other(smoe_others *others, const char *name) {
    const char *slash = strrchr(name, '/'), *dot = strrchr(slash ? slash : name, '.');
    smoe_ending key = {0};
    if (dot && strlen(dot) < sizeof key.text) smoe_text_shown(dot, key.text, sizeof key.text);
    for (char *c = key.text; *c; c++) *c = (char)tolower((unsigned char)*c);
    size_t n = others->endings;
    /* The last place is for "". */
    if (n + 1 >= SMOE_ENDINGS && !lfind(&key, others->ending, &n, sizeof key, compare_endings))
        key.text[0] = '\0';
    smoe_ending *at = lsearch(&key, others->ending, &others->endings, sizeof key, compare_endings);
    at->count++;
    qsort(others->ending, others->endings, sizeof key, compare_endings);
    others->files++;
}

const char *smoe_dataset_others_text(const smoe_others *others, char *buf, size_t size) {
    *buf = '\0';
    for (const smoe_ending *e = others->ending; e < others->ending + others->endings; e++)
        smoe_text_list(buf, size, "%zu %s", e->count, *e->text ? e->text : "others");
    return buf;
}

void smoe_dataset_remark(smoe_dataset *set, char *fresh) {
    enum { MOST = 20 };
    SMOE_FREED char *text = fresh;
    if (set->report.remarks == MOST) return;
    if (!set->report.remark)
        set->report.remark = smoe_alloc_in(&set->memory, MOST, sizeof *set->report.remark);
    set->report.remark[set->report.remarks++] = smoe_alloc_text_in(&set->memory, text);
}

void smoe_dataset_remark_unclosed(smoe_dataset *set, size_t tars, const char *first) {
    SMOE_FREED char *more = smoe_text_format(" and %zu more", tars - 1);
    smoe_dataset_remark_on(set,
                           "%s%s: no empty blocks at the end of the tar: some programs write none, "
                           "but one that was cut off between two files has none either",
                           first, tars > 1 ? more : "");
}

void smoe_dataset_give_labels(smoe_dataset *set, size_t n, const uint32_t *class,
                              const size_t *at) {
    bool several = false;
    set->label = smoe_alloc_in(&set->memory, n, sizeof *set->label);
    for (size_t i = 0; i < n; i++) {
        several |= at[i + 1] - at[i] > 1;
        if (at[i] < at[i + 1]) set->label[i] = class[at[i]];
    }
    if (!several) return;
    set->more_at = smoe_alloc_in(&set->memory, n + 1, sizeof *at);
    set->more = smoe_alloc_in(&set->memory, at[n], sizeof *class);
    memcpy(set->more_at, at, (n + 1) * sizeof *at);
    memcpy(set->more, class, at[n] * sizeof *class);
}

void smoe_dataset_leave_out(smoe_dataset *set, const smoe_err *why) {
    if (!set->report.left)
        set->report.left = smoe_alloc_in(&set->memory, SMOE_LEFT, sizeof *set->report.left);
    if (set->report.left_out < SMOE_LEFT)
        set->report.left[set->report.left_out] = smoe_alloc_text_in(&set->memory, why->text);
    set->report.left_out++;
}

int smoe_dataset_refuse(smoe_dataset *set, const smoe_err *why, smoe_err *err) {
    if (set->data.on_error == SMOE_ON_ERROR_SKIP) return smoe_dataset_leave_out(set, why), 0;
    if (err) *err = *why;
    return -1;
}

void smoe_dataset_generate(smoe_dataset *set, size_t nominal, size_t tested) {
    size_t limit = set->data.limit, test_size = set->data.test_size;
    size_t all = set->train ? SIZE_MAX : test_size ? test_size : tested;
    set->endless = set->train && !limit;
    set->images = set->endless ? nominal : limit && limit < all ? limit : all;
}

uint32_t smoe_dataset_stream(const smoe_dataset *set) {
    return set->train ? 1 : !strcmp(set->split, "test") ? 2 : 3;
}

void smoe_dataset_generated_name(const smoe_dataset *set, uint64_t i, char *buf, size_t size) {
    snprintf(buf, size, "%s/%s/%llu", set->name, set->split, (unsigned long long)i);
}

int smoe_dataset_painted(const smoe_dataset *set, uint64_t i, smoe_rng *crop, smoe_image *out,
                         smoe_image *work, smoe_image_header *header, smoe_err *err) {
    (void)header;
    if (!crop) return set->type->paint(set, i, out, work, err);
    SMOE_FREED_BY(smoe_image_free) smoe_image whole = {0};
    if (set->type->paint(set, i, &whole, work, err)) return -1;
    return smoe_image_fit(out, set->size, &whole, crop, set->data.resize, err);
}

size_t smoe_dataset_draw_label(const smoe_dataset *set, uint64_t i, size_t n) {
    smoe_rng rng = smoe_rng_at(set->seed, SMOE_RNG_LABELS, smoe_dataset_stream(set), 0, i);
    return (size_t)smoe_rng_below(&rng, n);
}

/* Two names that look the same may be a mistake. */
static void remark_on_accents(smoe_dataset *set) {
    for (size_t k = 0; k < set->named; k++) {
        SMOE_FREED char *same = smoe_accents_form(set->class_name[k], true);
        if (!same || !strcmp(same, set->class_name[k])) continue;
        if (smoe_texts_find((const char *const *)set->class_name, set->named, same) < SIZE_MAX)
            smoe_dataset_remark_on(set,
                                   "two classes are named %s: the accents of one are characters of "
                                   "their own; to make them one class, write both the same way",
                                   same);
    }
}

void smoe_dataset_name_classes(smoe_dataset *set, const char *const *name, size_t count) {
    set->named = count;
    set->class_name = smoe_alloc_in(&set->memory, count, sizeof *set->class_name);
    for (size_t i = 0; i < count; i++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        set->class_name[i] = smoe_alloc_text_in(&set->memory, name ? name[i] : number);
    }
    remark_on_accents(set);
}

/* quota[k] = the number of images taken from class k, out of count[k]: one of each class in turn,
 * until the limit. */
static void share_limit(size_t *quota, const size_t *count, size_t classes, size_t limit) {
    while (limit) {
        size_t open = 0, least = SIZE_MAX;
        for (size_t k = 0; k < classes; k++) {
            size_t left = count[k] - quota[k];
            open += left > 0;
            if (left && left < least) least = left;
        }
        if (!open) return;
        size_t each = limit / open < least ? limit / open : least;
        if (!each) each = 1; /* the rest, one to the first ones */
        for (size_t k = 0; k < classes && limit; k++) {
            if (count[k] == quota[k]) continue;
            quota[k] += each;
            limit -= each;
        }
    }
}

void smoe_dataset_select(bool *keep, const uint32_t *label, size_t n, size_t classes,
                         size_t limit) {
    size_t *count = smoe_alloc(2 * classes, sizeof *count), *quota = count + classes;
    for (size_t i = 0; i < n; i++) count[label[i]]++;
    share_limit(quota, count, classes, limit ? limit : n);
    for (size_t i = 0; i < n; i++) {
        keep[i] = quota[label[i]] > 0;
        quota[label[i]] -= keep[i];
    }
    free(count);
}
