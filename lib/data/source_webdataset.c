/*
 * `webdataset`: samples in tar shards. The members of a sample have the same key, the path up to
 * the first dot of the file name; the rest, in lower case, is the kind of the member: jpg, jpeg,
 * png or webp, txt (caption), json (with a field that is the caption: data.caption), cls (class
 * number). Others are ignored. data.path is a pattern of shards:
 *   {split}     becomes train, test or val
 *   {00..12}    a number of each shard, in the width of its ends
 *   {a,b}       one of these texts
 * Without {split} the last data.holdout shards are test and val, the others train.
 *
 * Opening reads headers, captions' places and class numbers, and keeps some 50 bytes per sample; an
 * image is read when it is asked for, in any order. So a pass is shuffled as a whole by (seed,
 * epoch), as that of every source is, or through a buffer (data.shuffle_buffer), so that a shard is
 * read nearly from its start to its end; the data may be larger than the memory, and a resume needs
 * nothing but the step. With data.on_error: skip, every image is decoded once at the start, and
 * samples that cannot be used are left out, up to one of 100.
 */
#include "base/file.h"
#include "data/dataset_source.h"
#include "data/decode.h"
#include "data/tar.h"
#include "spec/tasks.h"
#include "text/tokenizer.h"

#include <jansson.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHARDS = 1000000,
    SUFFIX = 16,
    DIGITS = 9,
    CLASS_TEXT = 24,
    CLASSES = 10000000,
    JSON_BYTES = 1 << 20
};

typedef struct sample {
    uint32_t shard;
    uint64_t image, text; /* where they begin in it; 0: there is none. The text is txt or json */
    uint64_t image_size, text_size;
    char *key; /* owned */
} sample;

typedef struct store {
    char **shard; /* paths, owned */
    size_t shards;
    sample *sample;
    uint32_t *label; /* [samples], while they are listed */
    size_t samples, room;
    bool labelled; /* the first sample has a class, and so must all */
    bool captions; /* the task needs them */
    char *field;   /* of json, that has them; owned. NULL: txt has them */
    bool skip;     /* data.on_error */
    smoe_dataset *set;
    /* while a shard is read: */
    sample open;
    bool any, has_label, no_number; /* of the open sample */
    uint32_t open_label;
} store;

/* ---- shards ---------------------------------------------------------------------------------- */

static int add_shard(store *s, const char *path, smoe_err *err) {
    if (s->shards == SHARDS)
        return smoe_fail(err, SMOE_USAGE, "data.path: more than %d shards", SHARDS);
    char **more = realloc(s->shard, (s->shards + 1) * sizeof *more);
    if (more) s->shard = more;
    if (!more || !(s->shard[s->shards] = strdup(path)))
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for the names of shards");
    s->shards++;
    return 0;
}

static int expand(store *s, const char *pattern, smoe_err *err);

/* The pattern with {a,b} from `open` to `shut` replaced by each of these texts. */
static int expand_list(store *s, const char *pattern, const char *open, const char *shut,
                       smoe_err *err) {
    for (const char *item = open + 1; item <= shut;) {
        size_t length = strcspn(item, ",}");
        char *path = smoe_text_format("%.*s%.*s%s", (int)(open - pattern), pattern, (int)length,
                                      item, shut + 1);
        int status = path ? expand(s, path, err)
                          : smoe_fail(err, SMOE_RUNTIME, "out of memory for the names of shards");
        free(path);
        if (status) return -1;
        item += length + 1;
    }
    return 0;
}

/* The pattern with its first {A..B} or {a,b} replaced by each number or text, and so on. */
static int expand(store *s, const char *pattern, smoe_err *err) {
    const char *open = strchr(pattern, '{'), *shut = open ? strchr(open, '}') : NULL;
    if (!open) return add_shard(s, pattern, err);
    if (shut && memchr(open, ',', (size_t)(shut - open)))
        return expand_list(s, pattern, open, shut, err);
    size_t width = strspn(open + 1, "0123456789");
    const char *dots = open + 1 + width;
    size_t width_to = strncmp(dots, "..", 2) ? 0 : strspn(dots + 2, "0123456789");
    if (!shut || !width || width > DIGITS || !width_to || width_to > DIGITS ||
        dots + 2 + width_to != shut)
        return smoe_fail(
            err, SMOE_USAGE,
            "data.path: %s: expected {split}, numbers like {00..12} or a list like {a,b}", open);
    unsigned long from = strtoul(open + 1, NULL, 10), to = strtoul(dots + 2, NULL, 10);
    if (from > to || to - from >= SHARDS)
        return smoe_fail(err, SMOE_USAGE, "data.path: %s: not a range of shards", open);
    for (unsigned long n = from; n <= to; n++) {
        char *path = smoe_text_format("%.*s%0*lu%s", (int)(open - pattern), pattern, (int)width, n,
                                      shut + 1);
        int status = path ? expand(s, path, err)
                          : smoe_fail(err, SMOE_RUNTIME, "out of memory for the names of shards");
        free(path);
        if (status) return -1;
    }
    return 0;
}

/* The shards of the split, by {split} in the pattern or by data.holdout. */
static int list_shards(store *s, const smoe_dataset *set, const char *split, smoe_err *err) {
    static const char mark[] = "{split}";
    const char *named = strstr(set->path, mark);
    size_t held = (size_t)set->data.holdout;
    bool train = !strcmp(split, "train");
    char *path = named ? smoe_text_format("%.*s%s%s", (int)(named - set->path), set->path, split,
                                          named + sizeof mark - 1)
                       : strdup(set->path);
    int status = path ? expand(s, path, err) : smoe_fail(err, SMOE_RUNTIME, "out of memory");
    free(path);
    if (status || named) return status;
    if (!train && !held)
        return smoe_fail(err, SMOE_USAGE,
                         "data.path: %s has no {split}: add it, or set data.holdout to "
                         "the number of its last shards that are not for training",
                         set->path);
    if (held >= s->shards)
        return smoe_fail(err, SMOE_USAGE, "data.holdout: %zu of %zu shards leave none for training",
                         held, s->shards);
    for (size_t i = s->shards - held; train && i < s->shards; i++) free(s->shard[i]);
    for (size_t i = 0; !train && i < s->shards - held; i++) free(s->shard[i]);
    if (!train) memmove(s->shard, s->shard + s->shards - held, held * sizeof *s->shard);
    s->shards = train ? s->shards - held : held;
    return 0;
}

/* ---- samples --------------------------------------------------------------------------------- */

/* Handles a sample that cannot be used: it is counted, or reading stops. err has the reason without
 * the place. */
static int refuse(store *s, const sample *x, smoe_err *err) {
    smoe_fail_prefix(err, "%s: %s", s->shard[x->shard], x->key);
    if (!s->skip || err->code != SMOE_DATA) return -1;
    return smoe_dataset_leave_out(s->set, err, err);
}

/* The text of the field of a JSON object, borrowed from it. */
static const char *json_field(const json_t *object, const char *field, size_t *n) {
    const json_t *text = json_object_get(object, field);
    *n = json_string_length(text);
    return json_string_value(text);
}

/* Text that is not valid or has a zero byte is passed on as it is, up to that byte: a tokenizer
 * takes any bytes. */
static int read_caption(const store *s, const sample *x, char *buf, size_t size, smoe_err *err) {
    uint8_t *bytes;
    size_t n = (size_t)x->text_size;
    json_error_t bad;
    json_t *object = NULL;
    if (!s->field && n > size - 1) n = size - 1;
    if (smoe_tar_read(&bytes, s->shard[x->shard], x->text, n, err)) return -1;
    const char *text = (char *)bytes;
    if (s->field) {
        object = json_loadb(text, n, 0, &bad);
        text = json_field(object, s->field, &n);
        char shown[2 * sizeof bad.text];
        if (!text && !object)
            smoe_fail(err, SMOE_DATA, "json: %s", smoe_text_shown(bad.text, shown, sizeof shown));
        if (!text && object) smoe_fail(err, SMOE_DATA, "json: no text %s", s->field);
    }
    if (text) {
        if (n > size - 1) n = size - 1;
        while (n && isspace((unsigned char)text[n - 1])) n--;
        memcpy(buf, text, n);
        buf[n] = '\0';
    }
    json_decref(object);
    free(bytes);
    return text ? 0 : -1;
}

/* Checks the sample that ends here; 0 if it can be used. */
static int complaint(const store *s, smoe_err *err) {
    const sample *x = &s->open;
    if (!x->image) return smoe_fail(err, SMOE_DATA, "no image (jpg, jpeg, png, webp)");
    if (x->image_size > SMOE_MOST_IMAGE_BYTES)
        return smoe_fail(err, SMOE_DATA, "the image is too large");
    if (s->no_number) return smoe_fail(err, SMOE_DATA, "no class number (cls)");
    if (s->captions && !x->text)
        return smoe_fail(err, SMOE_DATA, "no caption (%s)", s->field ? "json" : "txt");
    if (s->captions && s->field) {
        char caption[SMOE_CAPTION];
        if (x->text_size > JSON_BYTES) return smoe_fail(err, SMOE_DATA, "the json is too large");
        if (read_caption(s, x, caption, sizeof caption, err)) return -1;
    }
    if (s->samples && s->has_label != s->labelled)
        return smoe_fail(err, SMOE_DATA,
                         s->labelled ? "no class (cls), although other samples have one"
                                     : "a class (cls), although other samples have none");
    return 0;
}

static int end_sample(store *s, smoe_err *err) {
    smoe_err mine = {0};
    if (!s->any) return 0;
    s->any = false;
    if (complaint(s, &mine)) {
        int status = refuse(s, &s->open, &mine);
        if (status && err) *err = mine;
        free(s->open.key);
        return status;
    }
    if (s->samples == s->room) {
        size_t room = s->room ? 2 * s->room : 1024;
        sample *more = realloc(s->sample, room * sizeof *more);
        if (more) s->sample = more;
        uint32_t *labels = realloc(s->label, room * sizeof *labels);
        if (labels) s->label = labels;
        if (!more || !labels) {
            free(s->open.key);
            return smoe_fail(err, SMOE_RUNTIME, "out of memory for %zu samples", room);
        }
        s->room = room;
    }
    if (!s->samples) s->labelled = s->has_label;
    s->label[s->samples] = s->open_label;
    s->sample[s->samples++] = s->open;
    return 0;
}

/* A class that is not a number is reported for its sample. */
static int read_class(store *s, const smoe_tar_member *m, smoe_err *err) {
    uint8_t *bytes;
    char *end;
    s->has_label = true;
    s->no_number = m->size >= CLASS_TEXT;
    if (s->no_number) return 0;
    if (smoe_tar_read(&bytes, s->shard[s->open.shard], m->at, (size_t)m->size, err)) return -1;
    unsigned long number = strtoul((char *)bytes, &end, 10);
    while (isspace((unsigned char)*end)) end++;
    s->no_number = !isdigit(*bytes) || *end || number >= CLASSES;
    s->open_label = s->no_number ? 0 : (uint32_t)number;
    free(bytes);
    return 0;
}

static int take_member(void *user, const smoe_tar_member *m, smoe_err *err) {
    store *s = user;
    const char *slash = strrchr(m->name, '/'), *base = slash ? slash + 1 : m->name;
    const char *dot = strchr(base, '.');
    char suffix[SUFFIX];
    size_t length = dot ? (size_t)(dot - m->name) : 0, n = 0;
    if (!dot || dot == base || !strncmp(base, "__", 2)) return 0;
    for (const char *c = dot + 1; *c && n + 1 < sizeof suffix; c++)
        suffix[n++] = (char)tolower((unsigned char)*c);
    suffix[n] = '\0';
    if (!s->any || strlen(s->open.key) != length || strncmp(s->open.key, m->name, length)) {
        if (end_sample(s, err)) return -1;
        s->open = (sample){.shard = s->open.shard, .key = strndup(m->name, length)};
        if (!s->open.key) return smoe_fail(err, SMOE_RUNTIME, "out of memory for samples");
        s->any = true;
        s->has_label = s->no_number = false;
        s->open_label = 0;
    }
    if (!strcmp(suffix, "jpg") || !strcmp(suffix, "jpeg") || !strcmp(suffix, "png") ||
        !strcmp(suffix, "webp")) {
        s->open.image = m->at;
        s->open.image_size = m->size;
    } else if (!strcmp(suffix, s->field ? "json" : "txt")) {
        s->open.text = m->at;
        s->open.text_size = m->size;
    } else if (!strcmp(suffix, "cls")) {
        return read_class(s, m, err);
    }
    return 0;
}

static int read_shards(store *s, smoe_err *err) {
    for (size_t i = 0; i < s->shards; i++) {
        s->open.shard = (uint32_t)i;
        if (smoe_tar_index(s->shard[i], take_member, s, err)) return -1;
        if (end_sample(s, err)) return -1;
    }
    return 0;
}

/* ---- the source ------------------------------------------------------------------------------ */

static int decode(const smoe_dataset *set, const sample *x, smoe_rng *crop, smoe_image *out,
                  smoe_image *work, smoe_err *err) {
    const store *s = set->store;
    uint8_t *bytes;
    if (smoe_tar_read(&bytes, s->shard[x->shard], x->image, (size_t)x->image_size, err)) return -1;
    int status = smoe_decode_fit(out, &set->data, bytes, (size_t)x->image_size, crop, work, err);
    free(bytes);
    return status;
}

/* data.on_error: skip. Decodes every image, and keeps the samples whose image can be. */
static int sift(smoe_dataset *set, store *s, smoe_err *err) {
    smoe_image image = {0}, work = {0};
    size_t kept = 0, all = s->samples;
    int status = 0;
    for (size_t i = 0; !status && i < all; i++) {
        smoe_err mine = {0};
        if (!decode(set, &s->sample[i], NULL, &image, &work, &mine)) {
            sample swap = s->sample[kept];
            s->label[kept] = s->label[i];
            s->sample[kept++] = s->sample[i];
            s->sample[i] = swap; /* its key is freed with the others */
            continue;
        }
        status = refuse(s, &s->sample[i], &mine);
        if (status && err) *err = mine;
    }
    smoe_image_free(&image);
    smoe_image_free(&work);
    if (!status) set->images = kept;
    return status;
}

/* data.limit: the same number of each class, as of other sources. */
static int limit(smoe_dataset *set, store *s, size_t classes, smoe_err *err) {
    if (!set->data.limit || set->data.limit >= set->images) return 0;
    bool *keep = calloc(set->images, sizeof *keep);
    if (!keep) return smoe_fail(err, SMOE_RUNTIME, "out of memory for samples");
    int status = smoe_dataset_select(keep, s->label, set->images, classes, set->data.limit, err);
    size_t kept = 0;
    for (size_t i = 0; !status && i < set->images; i++) {
        if (!keep[i]) continue;
        sample swap = s->sample[kept];
        s->label[kept] = s->label[i];
        s->sample[kept++] = s->sample[i];
        s->sample[i] = swap;
    }
    if (!status) set->images = kept;
    free(keep);
    return status;
}

/* Where the samples of each shard begin. */
static int mark_parts(smoe_dataset *set, const store *s, smoe_err *err) {
    set->part_at = malloc((s->shards + 1) * sizeof *set->part_at);
    if (!set->part_at) return smoe_fail(err, SMOE_RUNTIME, "out of memory for the data");
    for (size_t i = 0; i < set->images; i++)
        if (!i || s->sample[i].shard != s->sample[i - 1].shard) set->part_at[set->parts++] = i;
    set->part_at[set->parts] = set->images;
    return 0;
}

static int webdataset_open(smoe_dataset *set, const smoe_spec *spec, const char *split,
                           smoe_err *err) {
    store *s = set->store = calloc(1, sizeof *s);
    if (!s) return smoe_fail(err, SMOE_RUNTIME, "out of memory for the data");
    s->set = set;
    s->skip = spec->data.on_error == SMOE_ON_ERROR_SKIP;
    s->captions = smoe_task_pairs(spec->train.loss);
    const char *field = smoe_spec_caption_field(spec);
    if (field && !(s->field = strdup(field)))
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for the data");
    if (smoe_spec_data_path(spec, &set->path, err) || list_shards(s, set, split, err) ||
        read_shards(s, err))
        return -1;
    set->images = s->samples;
    if (s->skip && sift(set, s, err)) return -1;
    if (smoe_dataset_check_left_out(set, err)) return -1;
    if (!set->images) return smoe_fail(err, SMOE_DATA, "%s: no samples", set->path);
    size_t classes = 1;
    for (size_t i = 0; i < set->images; i++)
        if (s->label[i] >= classes) classes = (size_t)s->label[i] + 1;
    if (limit(set, s, classes, err) || mark_parts(set, s, err)) return -1;
    set->label = s->label;
    s->label = NULL;
    return smoe_dataset_name_classes(set, NULL, classes, err);
}

static int webdataset_header(const smoe_dataset *set, uint64_t i, smoe_image_header *header,
                             smoe_err *err) {
    const store *s = set->store;
    const sample *x = &s->sample[i];
    size_t size = (size_t)x->image_size;
    uint8_t *bytes;
    if (smoe_tar_read(&bytes, s->shard[x->shard], x->image, size, err)) return -1;
    int status = smoe_decode_header(header, bytes, size, err);
    free(bytes);
    return status;
}

static int webdataset_image(const smoe_dataset *set, uint64_t i, smoe_rng *crop, smoe_image *out,
                            smoe_image *work, smoe_err *err) {
    const store *s = set->store;
    const sample *x = &s->sample[i];
    if (!decode(set, x, crop, out, work, err)) return 0;
    return smoe_fail_prefix(err, "%s: %s", s->shard[x->shard], x->key);
}

static int webdataset_caption(const smoe_dataset *set, uint64_t i, char *buf, size_t size,
                              smoe_err *err) {
    const store *s = set->store;
    const sample *x = &s->sample[i];
    if (!read_caption(s, x, buf, size, err)) return 0;
    return smoe_fail_prefix(err, "%s: %s", s->shard[x->shard], x->key);
}

static void webdataset_name(const smoe_dataset *set, uint64_t i, char *buf, size_t size) {
    smoe_text_shown(((const store *)set->store)->sample[i].key, buf, size);
}

static void webdataset_close(smoe_dataset *set) {
    store *s = set->store;
    if (!s) return;
    for (size_t i = 0; i < s->shards; i++) free(s->shard[i]);
    for (size_t i = 0; i < s->samples; i++) free(s->sample[i].key);
    if (s->any) free(s->open.key);
    free(s->field);
    free(s->shard);
    free(s->sample);
    free(s->label);
    free(s);
}

const smoe_source_type smoe_source_webdataset = {
    .open = webdataset_open,
    .image = webdataset_image,
    .header = webdataset_header,
    .label = smoe_dataset_table_label,
    .caption = webdataset_caption,
    .image_name = webdataset_name,
    .close = webdataset_close,
};
