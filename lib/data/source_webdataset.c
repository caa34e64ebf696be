/*
 * `webdataset`: samples in tar shards. The members of a sample have the same key, the path up to
 * the first dot of the file name; the rest, in lower case, is the kind of the member: jpg, jpeg,
 * jpe, jfif, png or webp, txt (captions, one per line), json (with a field that has captions or
 * classes: data.caption, data.label), cls (classes); or a table has the classes
 * (data.labels). Others are ignored; two of the same kind, as of two samples with one key, are an
 * error. data.path is a pattern of shards:
 *   {split}     becomes train, test or val
 *   {00..12}    a number of each shard, in the width of its ends
 *   {a,b}       one of these texts
 * Without {split} the last data.holdout shards are test and val, the others train.
 *
 * Opening reads headers, captions' places and class numbers, and keeps some 50 bytes per sample; an
 * image is read when it is asked for, in any order. So a pass is shuffled as a whole by (seed,
 * epoch), as that of every source is, or through a buffer (data.shuffle_buffer), so that a shard is
 * read nearly from its start to its end; the data may be larger than the memory, and a resume needs
 * nothing but the step. Where all images fit in data.cache_mb, each is kept once it was decoded.
 * With data.on_error: skip, every image is decoded once at the start, and samples that cannot be
 * used are left out, up to one of 100.
 */
#include "base/file.h"
#include "base/json.h"
#include "data/archive.h"
#include "data/dataset_source.h"
#include "data/labels.h"
#include "spec/tasks.h"
#include "text/tokenizer.h"

#include <ctype.h>
#include <unistd.h>

enum { SHARDS = 1000000, SUFFIX = 16, DIGITS = 9, CLASS_TEXT = 1 << 12, JSON_BYTES = 1 << 20 };

/* ---- classes --------------------------------------------------------------------------------- */

enum { MOST_CLASSES = 10000000 };

/* The classes of all samples, in the order in which these are read: numbers, or names, which become
 * numbers in the end. */
typedef struct classes {
    uint32_t *item; /* [count] of one sample after another */
    size_t count;
    json_t *names; /* {name: its number}, in the order in which they came; NULL: there is none */
    bool numbered; /* what came first was a number */
} classes;

static void classes_free(classes *l) {
    json_decref(l->names);
    free(l->item);
    *l = (classes){0};
}

static int classes_mixed(const classes *l, const char *what, smoe_err *err) {
    return smoe_fail(err, SMOE_DATA, "the class %s is not a %s, but others are", what,
                     l->numbered ? "number" : "name");
}

static int add_number(classes *l, const char *digits, smoe_err *err) {
    unsigned long long number = strtoull(digits, NULL, 10); /* the largest one if beyond 64 bits */
    if (l->names) return classes_mixed(l, digits, err);
    if (number >= MOST_CLASSES)
        return smoe_fail(err, SMOE_DATA, "class %.40s: the number of a class must be below %d",
                         digits, MOST_CLASSES);
    l->numbered = true;
    SMOE_APPEND(l->item, l->count) = (uint32_t)number;
    return 0;
}

/* Adds a class by its name, which must be printable. */
static int add_name(classes *l, const char *name, smoe_err *err) {
    if (l->numbered) return classes_mixed(l, name, err);
    if (!smoe_text_printable(name))
        return smoe_fail(err, SMOE_DATA, "the name of a class is not printable UTF-8");
    if (!l->names) l->names = json_object();
    json_t *number = json_object_get(l->names, name);
    if (!number) {
        number = json_integer((json_int_t)json_object_size(l->names));
        json_object_set_new(l->names, name, number);
    }
    SMOE_APPEND(l->item, l->count) = (uint32_t)json_integer_value(number);
    return 0;
}

static int no_class(smoe_err *err) {
    return smoe_fail(err, SMOE_DATA, "no class");
}

/* Adds the classes of a text: one number or several ("3", "0,2", "[0, 2]"), or one name or several
 * ("cat", "dog;bird"). */
static int add_text(classes *l, const char *text, smoe_err *err) {
    static const char numbers[] = "0123456789,;|[] \t\r\n";
    SMOE_FREED char *own = smoe_alloc_text(text);
    char *rest = NULL;
    bool numeric = strspn(own, numbers) == strlen(own);
    const char *between = numeric ? numbers + strlen("0123456789") : ";|";
    size_t before = l->count;
    int status = 0;
    for (char *word = strtok_r(own, between, &rest); word && !status;
         word = strtok_r(NULL, between, &rest)) {
        if (numeric)
            status = add_number(l, word, err);
        else if (*smoe_labels_trimmed(word))
            status = add_name(l, smoe_labels_trimmed(word), err);
    }
    return status || l->count > before ? status : no_class(err);
}

/* The same of JSON: a number, a text that is the name of one class, or a list of them. */
static int add_json(classes *l, const json_t *value, smoe_err *err) {
    size_t before = l->count;
    int status = 0;
    SMOE_FREED char *number = json_is_integer(value) ? smoe_json_dump(value, 0) : NULL;
    if (number && json_integer_value(value) >= 0) return add_number(l, number, err);
    if (json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value))
        return add_name(l, json_string_value(value), err);
    for (size_t i = 0; i < json_array_size(value) && !status; i++) {
        const json_t *item = json_array_get(value, i);
        status = json_is_array(item) ? no_class(err) : add_json(l, item, err);
    }
    if (!json_is_array(value)) {
        SMOE_FREED char *text = smoe_json_dump(value, 0);
        return smoe_fail(err, SMOE_DATA,
                         "%.40s is no class: write a whole number from 0, or a name", text);
    }
    return status || l->count > before ? status : no_class(err);
}

/* Keeps each of the items from number `from` on only once. */
static void classes_once(classes *l, size_t from) {
    size_t kept = from;
    for (size_t i = from; i < l->count; i++) {
        size_t k = from;
        while (k < kept && l->item[k] != l->item[i]) k++;
        if (k == kept) l->item[kept++] = l->item[i];
    }
    l->count = kept;
}

/* Names become numbers in the order of the alphabet, and the set gets them as its classes; numbers
 * are classes from 0 to the largest one. */
static void classes_settle(classes *l, smoe_dataset *set) {
    size_t named = json_object_size(l->names), k = 0, most = 0;
    const char *key;
    json_t *unused;
    for (size_t i = 0; i < l->count; i++) most = l->item[i] > most ? l->item[i] : most;
    if (!named) {
        smoe_dataset_name_classes(set, NULL, most + 1);
        return;
    }
    SMOE_FREED const char **name = smoe_alloc(named, sizeof *name);
    SMOE_FREED uint32_t *to = smoe_alloc(named, sizeof *to);
    json_object_foreach(l->names, key, unused) {
        name[k++] = key;
    }
    (void)smoe_texts_sort(name, named);
    k = 0;
    json_object_foreach(l->names, key, unused) {
        to[k++] = (uint32_t)smoe_texts_find(name, named, key);
    }
    for (size_t i = 0; i < l->count; i++) l->item[i] = to[l->item[i]];
    smoe_dataset_name_classes(set, name, named);
}

/* ---- what a split has ---------------------------------------------------------------------- */

typedef struct sample {
    uint32_t shard;
    uint64_t image, text; /* where they begin in it; 0: there is none. The text is txt or json */
    uint64_t image_size, text_size;
    size_t class_at; /* where its classes begin in the list; they end where the next ones begin */
    char *key;       /* owned */
} sample;

typedef struct store {
    char **shard; /* paths, owned */
    int *fd;      /* [shards] or -1, see smoe_place_open; NULL before they are read */
    size_t shards;
    sample *sample;
    size_t samples;
    classes list;
    smoe_labels *labels;     /* data.labels, or NULL */
    const char *label_field; /* of json with the classes, "": json itself; NULL: cls has them */
    bool labelled;           /* the first sample has a class, and so must all */
    bool captions;           /* the task needs them */
    char *field;             /* the field of json with captions; owned; NULL: txt has them */
    bool skip;               /* data.on_error */
    smoe_dataset *set;
    /* while a shard is read: */
    sample open;      /* without a key: there is none */
    char *image_name; /* of the open sample, for the table; owned */
    bool has_label;
    const char *twice; /* what the open sample has more than once; NULL: nothing */
    smoe_err no_class; /* what is wrong with the class of the open sample */
} store;

static void store_free(store *s) {
    smoe_texts_free(s->shard, s->shards);
    for (size_t i = 0; s->fd && i < s->shards; i++)
        if (s->fd[i] >= 0) close(s->fd[i]);
    free(s->fd);
    for (size_t i = 0; i < s->samples; i++) free(s->sample[i].key);
    free(s->open.key);
    free(s->image_name);
    classes_free(&s->list);
    smoe_labels_free(s->labels);
    free(s->field);
    free(s->sample);
}

/* ---- shards ---------------------------------------------------------------------------------- */

static int add_shard(store *s, const char *path, smoe_err *err) {
    if (s->shards == SHARDS)
        return smoe_fail(err, SMOE_USAGE, "data.path: more than %d shards", SHARDS);
    SMOE_APPEND(s->shard, s->shards) = smoe_alloc_text(path);
    return 0;
}

/* The pattern with its first {A..B} or {a,b} replaced by each number or text, and so on. */
static int webdataset_expand(store *s, const char *pattern, smoe_err *err) {
    const char *open = strchr(pattern, '{'), *shut = open ? strchr(open, '}') : NULL;
    if (!open) return add_shard(s, pattern, err);
    bool list = shut && memchr(open, ',', (size_t)(shut - open));
    char low[DIGITS + 1], high[DIGITS + 1];
    int length = 0, status = 0;
    if (!shut || (!list && (sscanf(open, "{%9[0-9]..%9[0-9]}%n", low, high, &length) != 2 ||
                            open + length != shut + 1)))
        return smoe_fail(
            err, SMOE_USAGE,
            "data.path: %s: expected {split}, numbers like {00..12} or a list like {a,b}", open);
    unsigned long from = list ? 0 : strtoul(low, NULL, 10), to = list ? 0 : strtoul(high, NULL, 10);
    if (from > to || to - from >= SHARDS)
        return smoe_fail(err, SMOE_USAGE, "data.path: %s: not a range of shards", open);
    for (const char *item = open + 1; item <= shut && from <= to && !status;) {
        size_t letters = strcspn(item, ",}");
        SMOE_FREED char *one = list ? smoe_alloc_part(item, letters)
                                    : smoe_text_format("%0*lu", (int)strlen(low), from++);
        SMOE_FREED char *path =
            smoe_text_format("%.*s%s%s", (int)(open - pattern), pattern, one, shut + 1);
        status = webdataset_expand(s, path, err);
        if (list) item += letters + 1;
    }
    return status;
}

/* The shards of the split, by {split} in the pattern or by data.holdout. */
static int list_shards(store *s, const smoe_dataset *set, const char *split, smoe_err *err) {
    static const char mark[] = "{split}";
    const char *named = strstr(set->path, mark);
    size_t held = (size_t)set->data.holdout;
    bool train = !strcmp(split, "train");
    SMOE_FREED char *path = named ? smoe_text_format("%.*s%s%s", (int)(named - set->path),
                                                     set->path, split, named + sizeof mark - 1)
                                  : smoe_alloc_text(set->path);
    int status = webdataset_expand(s, path, err);
    if (status || named) return status;
    if (s->shards == 1 && smoe_file_is_folder(s->shard[0]))
        return smoe_fail(
            err, SMOE_USAGE,
            "data.path: %s is a folder: write the pattern of its shards, as "
            "NAME-{split}.tar, or as NAME-{00..09}.tar with data.holdout=N, the number "
            "of shards to hold out",
            set->path);
    if (!train && !held)
        return smoe_fail(err, SMOE_USAGE,
                         "data.path: %s has no {split}: add it, or set data.holdout to the number "
                         "of its last shards that are held out of training",
                         set->path);
    if (held >= s->shards)
        return smoe_fail(err, SMOE_USAGE,
                         "data.holdout: %zu of %zu shard%s held out, none left to train%s", held,
                         s->shards, SMOE_S(s->shards),
                         s->shards == 1 ? ": divide the images over two tars or more" : "");
    size_t all = s->shards;
    s->shards = 0;
    for (size_t i = 0; i < all; i++)
        if (train == (i < all - held))
            s->shard[s->shards++] = s->shard[i];
        else
            free(s->shard[i]);
    return 0;
}

/* ---- samples --------------------------------------------------------------------------------- */

/* Names the sample in a message. Returns -1. */
static int at_sample(const store *s, const sample *x, smoe_err *err) {
    return smoe_fail_prefix(err, "%s: %s", s->shard[x->shard], x->key);
}

static int read_place(const store *s, uint8_t **bytes, size_t shard, uint64_t at, size_t size,
                      smoe_err *err) {
    return smoe_place_read(bytes, s->fd[shard], s->shard[shard], at, size, err);
}

/* A text of a caption, borrowed. */
typedef struct words {
    const char *text;
    size_t length;
} words;

/* Line `which` of the lines of a text that are not empty; *count: how many there are. A text
 * without any is one empty caption. */
static words webdataset_line_of(const char *text, size_t length, size_t which, size_t *count) {
    words found = {text, 0};
    const char *end = text + length;
    *count = 0;
    for (const char *at = text; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        words line = {at, (size_t)((stop ? stop : end) - at)};
        while (line.length && isspace((unsigned char)at[line.length - 1])) line.length--;
        if (line.length && (*count)++ == which) found = line;
        at = stop ? stop + 1 : end;
    }
    if (!*count) *count = 1;
    return found;
}

/* Text `which` of a field of a JSON object that is a text or a list of texts; NULL if it is
 * neither. */
static words field_of(const json_t *object, const char *field, size_t which, size_t *count) {
    const json_t *value = json_object_get(object, field), *text = value;
    *count = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t k = 0; k < *count && json_is_array(value); k++)
        if (!json_is_string(text = json_array_get(value, k)) || k == which) break;
    words found = {json_string_value(text), json_string_length(text)};
    while (found.length && isspace((unsigned char)found.text[found.length - 1])) found.length--;
    return found;
}

/* Text that is not valid is passed on as it is: a tokenizer takes any bytes. A zero byte, as in
 * UTF-16, would end it. */
static int read_caption(const store *s, const sample *x, smoe_caption_choice *choice, char *buf,
                        size_t size, smoe_err *err) {
    SMOE_FREED uint8_t *bytes = NULL;
    size_t n = x->text_size < JSON_BYTES ? (size_t)x->text_size : JSON_BYTES;
    json_error_t bad;
    if (read_place(s, &bytes, x->shard, x->text, n, err)) return -1;
    const uint8_t *zero = s->field ? NULL : memchr(bytes, 0, n);
    if (zero)
        return smoe_fail(err, SMOE_DATA,
                         "byte %zu is zero, so it is no text in UTF-8 (txt); iconv -f UTF-16 "
                         "-t UTF-8 converts it if it is in UTF-16",
                         (size_t)(zero - bytes));
    json_auto_t *object = s->field ? json_loadb((char *)bytes, n, 0, &bad) : NULL;
    words found = {0};
    for (bool drawn = !choice->draw;; drawn = true) {
        found = s->field ? field_of(object, s->field, choice->which, &choice->count)
                         : webdataset_line_of((char *)bytes, n, choice->which, &choice->count);
        if (drawn || !found.text) break;
        choice->which = choice->count > 1 ? smoe_rng_below(choice->draw, choice->count) : 0;
    }
    if (s->field && !object) return smoe_fail(err, SMOE_DATA, "json: %s", bad.text);
    if (!found.text) return smoe_fail(err, SMOE_DATA, "json: no text in its field %s", s->field);
    if (found.length > size - 1) found.length = size - 1;
    memcpy(buf, found.text, found.length);
    buf[found.length] = '\0';
    return 0;
}

/* Checks the sample that ends here; 0 if it can be used. */
static int complaint(const store *s, smoe_err *err) {
    const sample *x = &s->open;
    if (s->twice)
        return smoe_fail(err, SMOE_DATA, "a second %s; the key of each sample must be its own",
                         s->twice);
    if (!x->image) return smoe_fail(err, SMOE_DATA, "no image (jpg, jpeg, jpe, jfif, png, webp)");
    if (x->image_size > SMOE_MOST_IMAGE_BYTES)
        return smoe_fail(err, SMOE_DATA, "the image has %llu bytes, at most %d are accepted",
                         (unsigned long long)x->image_size, SMOE_MOST_IMAGE_BYTES);
    if (s->no_class.code) {
        const char *where = s->labels ? "data.labels" : s->label_field ? "json" : "cls";
        return smoe_fail(err, s->no_class.code, "%s (%s)", s->no_class.text, where);
    }
    if (s->captions && !x->text)
        return smoe_fail(err, SMOE_DATA, "no caption (%s)", s->field ? "json" : "txt");
    if (s->captions && (s->field || s->skip)) {
        char caption[SMOE_CAPTION];
        if (s->field && x->text_size > JSON_BYTES)
            return smoe_fail(err, SMOE_DATA, "the json has %llu bytes, at most %d are accepted",
                             (unsigned long long)x->text_size, (int)JSON_BYTES);
        smoe_caption_choice last = {.which = SIZE_MAX};
        if (read_caption(s, x, &last, caption, sizeof caption, err)) return -1;
    }
    if (s->samples && s->has_label != s->labelled)
        return smoe_fail(err, SMOE_DATA,
                         s->labelled ? "no class (cls), although other samples have one"
                                     : "a class (cls), although other samples have none");
    return 0;
}

/* The classes of the sample that ends here, of the table. */
static void webdataset_look_up(store *s) {
    size_t n = 0;
    uint32_t row = s->image_name ? smoe_labels_find(s->labels, s->image_name) : 0;
    const char *const *name = row ? smoe_labels_classes(s->labels, row) : NULL;
    if (row) n = s->labels->row[row - 1].count;
    s->has_label = true;
    if (!row) smoe_fail(&s->no_class, SMOE_DATA, "no row");
    for (size_t k = 0; k < n && !s->no_class.code; k++)
        if (add_name(&s->list, name[k], &s->no_class)) return;
}

static int end_sample(store *s, smoe_err *err) {
    smoe_err mine = {0};
    if (!s->open.key) return 0;
    if (s->labels) webdataset_look_up(s);
    smoe_text_set(&s->image_name, NULL);
    if (complaint(s, &mine)) {
        int status = at_sample(s, &s->open, &mine);
        if (s->skip && mine.code == SMOE_DATA) status = 0;
        if (status && err) *err = mine;
        if (!status && s->set) smoe_dataset_leave_out(s->set, &mine); /* else another split does */
        smoe_text_set(&s->open.key, NULL);
        s->list.count = s->open.class_at;
        return status;
    }
    classes_once(&s->list, s->open.class_at);
    if (!s->samples) s->labelled = s->has_label;
    SMOE_APPEND(s->sample, s->samples) = s->open;
    s->open.key = NULL;
    return 0;
}

/* What is wrong with a class is reported for its sample. */
static int read_class(store *s, const smoe_member *m, smoe_err *err) {
    SMOE_FREED uint8_t *bytes = NULL;
    smoe_err *why = &s->no_class;
    if (s->has_label) s->twice = s->label_field ? "class (json)" : "class (cls)";
    s->has_label = true;
    if (m->size >= (s->label_field ? (size_t)JSON_BYTES : CLASS_TEXT))
        return smoe_fail(why, SMOE_DATA, "too long for a class"), 0;
    if (read_place(s, &bytes, s->open.shard, m->at, (size_t)m->size, err)) return -1;
    if (!s->label_field && strlen((char *)bytes) != m->size) {
        smoe_fail(why, SMOE_DATA, "byte %zu is zero, so it is no text", strlen((char *)bytes));
    } else if (!s->label_field) {
        (void)!add_text(&s->list, (char *)bytes, why);
    } else {
        json_error_t bad;
        json_auto_t *object = json_loadb((char *)bytes, (size_t)m->size, JSON_DECODE_ANY, &bad);
        const json_t *value = *s->label_field ? json_object_get(object, s->label_field) : object;
        if (value)
            (void)!add_json(&s->list, value, why);
        else if (object)
            smoe_fail(why, SMOE_DATA, "no %s", s->label_field);
        else
            smoe_fail(why, SMOE_DATA, "line %d: %s", bad.line, bad.text);
    }
    return 0;
}

static int take_member(void *user, const smoe_member *m, smoe_err *err) {
    store *s = user;
    const char *base = basename(m->name), *dot = strchr(base, '.');
    char suffix[SUFFIX];
    size_t length = dot ? (size_t)(dot - m->name) : 0, n = 0;
    if (!dot || dot == base || !strncmp(base, "__", 2)) return 0;
    for (const char *c = dot + 1; *c && n + 1 < sizeof suffix; c++)
        suffix[n++] = (char)tolower((unsigned char)*c);
    suffix[n] = '\0';
    if (!s->open.key || strlen(s->open.key) != length || strncmp(s->open.key, m->name, length)) {
        if (end_sample(s, err)) return -1;
        s->open = (sample){.shard = s->open.shard,
                           .class_at = s->list.count,
                           .key = smoe_alloc_part(m->name, length)};
        s->has_label = false;
        s->twice = NULL;
        s->no_class = (smoe_err){0};
    }
    if (!strchr(suffix, '.') && smoe_decode_is_image(dot)) {
        if (s->open.image) s->twice = "image";
        s->open.image = m->at;
        s->open.image_size = m->size;
        smoe_text_set(&s->image_name, m->name);
    }
    if (!strcmp(suffix, s->field ? "json" : "txt")) {
        if (s->open.text) s->twice = s->field ? "caption (json)" : "caption (txt)";
        s->open.text = m->at;
        s->open.text_size = m->size;
    }
    if (!s->labels && !strcmp(suffix, s->label_field ? "json" : "cls"))
        return read_class(s, m, err);
    return 0;
}

static int read_shards(store *s, smoe_scan *scan, smoe_err *err) {
    size_t unclosed = 0, first = 0;
    const smoe_visitor to = {take_member, s, scan, &unclosed};
    s->fd = smoe_alloc(s->shards, sizeof *s->fd);
    for (size_t i = 0; i < s->shards; i++) s->fd[i] = smoe_place_open(s->shard[i], i);
    for (size_t i = 0; i < s->shards; i++) {
        s->open.shard = (uint32_t)i;
        if (smoe_walk_tar(s->shard[i], 0, UINT64_MAX, &to, err)) return -1;
        if (!unclosed) first = i + 1;
        if (end_sample(s, err)) return -1;
    }
    if (s->set && unclosed) smoe_dataset_remark_unclosed(s->set, unclosed, s->shard[first]);
    return 0;
}

/* ---- the source ------------------------------------------------------------------------------ */

/* data.limit: the same number of each class, as of other sources. */
static void webdataset_limit(smoe_dataset *set) {
    if (!set->data.limit || set->data.limit >= set->images) return;
    SMOE_FREED bool *keep = smoe_alloc(set->images, sizeof *keep);
    SMOE_FREED uint32_t *label = smoe_alloc(set->images, sizeof *label);
    for (size_t i = 0; i < set->images; i++) label[i] = set->label[smoe_dataset_place(set, i)];
    smoe_dataset_select(keep, label, set->images, set->named, set->data.limit);
    smoe_dataset_keep(set, keep);
}

/* Where the samples of each shard begin. */
static void mark_parts(smoe_dataset *set, const store *s) {
    set->part_at = smoe_alloc_in(&set->memory, s->shards + 1, sizeof *set->part_at);
    for (size_t i = 0; i < set->images; i++)
        if (!i || s->sample[i].shard != s->sample[i - 1].shard) set->part_at[set->parts++] = i;
    set->part_at[set->parts] = set->images;
}

/* If classes have names, those of train are used, so that classes have the same numbers in every
 * split. */
static int adopt_names(store *s, smoe_err *err) {
    const char *name;
    json_t *unused;
    SMOE_FREED_BY(store_free) store train = {.label_field = s->label_field, .skip = true};
    if (list_shards(&train, s->set, "train", err) || read_shards(&train, s->set->scan, err))
        return -1;
    json_object_foreach(s->list.names, name, unused) {
        if (!json_object_get(train.list.names, name))
            return smoe_fail(err, SMOE_DATA, "%s: %s: the class %s is not one of train",
                             s->set->path, s->set->split, name);
    }
    json_object_update_missing(s->list.names, train.list.names);
    return 0;
}

static void webdataset_give_labels(smoe_dataset *set, const store *s) {
    SMOE_FREED size_t *at = smoe_alloc(s->samples + 1, sizeof *at);
    for (size_t i = 0; i < s->samples; i++) at[i] = s->sample[i].class_at;
    at[s->samples] = s->list.count;
    smoe_dataset_give_labels(set, s->samples, s->list.item, at);
}

static int read_table(store *s, const smoe_spec *spec, smoe_err *err) {
    int status = smoe_labels_open(&s->labels, spec, err);
    for (size_t k = 0; s->labels && k < s->labels->classes && !status; k++)
        status = add_name(&s->list, s->labels->all[k], err);
    s->list.count = 0; /* only the names */
    return status;
}

static int webdataset_open(smoe_dataset *set, const smoe_spec *spec, smoe_err *err) {
    store *s = set->store = smoe_alloc_in(&set->memory, 1, sizeof *s);
    s->set = set;
    s->skip = spec->data.on_error == SMOE_ON_ERROR_SKIP;
    s->captions = smoe_task_pairs(spec->train.loss);
    s->label_field = smoe_spec_label_field(spec);
    s->field = smoe_alloc_text(smoe_spec_caption_field(spec));
    if (smoe_spec_path(spec, "data.path", &set->path, err) || read_table(s, spec, err) ||
        list_shards(s, set, set->split, err) || read_shards(s, set->scan, err))
        return -1;
    set->images = s->samples;
    mark_parts(set, s);
    if (!set->native && smoe_dataset_room(set, set->images, true, err)) return -1;
    if (s->skip && (smoe_dataset_exclude(set, spec, err) || smoe_dataset_sift(set, err))) return -1;
    if (!set->images) return smoe_fail(err, SMOE_DATA, "%s: no samples", set->path);
    if (!s->labels && s->list.names && !set->train && adopt_names(s, err)) return -1;
    classes_settle(&s->list, set);
    webdataset_give_labels(set, s);
    webdataset_limit(set);
    classes_free(&s->list);
    return 0;
}

static int webdataset_image(const smoe_dataset *set, uint64_t i, smoe_rng *crop, smoe_image *out,
                            smoe_image *work, smoe_image_header *header, smoe_err *err) {
    const store *s = set->store;
    const sample *x = &s->sample[i];
    size_t size = (size_t)x->image_size;
    SMOE_FREED uint8_t *bytes = NULL;
    if (read_place(s, &bytes, x->shard, x->image, size, err) ||
        smoe_decode_fit(out, &set->data, bytes, size, crop, work, header, err))
        return at_sample(s, x, err);
    return 0;
}

static int webdataset_caption(const smoe_dataset *set, uint64_t i, smoe_caption_choice *choice,
                              char *buf, size_t size, smoe_err *err) {
    const store *s = set->store;
    const sample *x = &s->sample[i];
    return read_caption(s, x, choice, buf, size, err) ? at_sample(s, x, err) : 0;
}

static uint64_t webdataset_contents(const smoe_dataset *set, uint64_t i) {
    const sample *x = &((const store *)set->store)->sample[i];
    return x->image_size + x->text_size;
}

static void webdataset_name(const smoe_dataset *set, uint64_t i, char *buf, size_t size) {
    smoe_text_shown(((const store *)set->store)->sample[i].key, buf, size);
}

static void webdataset_close(smoe_dataset *set) {
    if (set->store) store_free(set->store);
}

const smoe_source_type smoe_source_webdataset = {
    .open = webdataset_open,
    .image = webdataset_image,
    .caption = webdataset_caption,
    .contents = webdataset_contents,
    .image_name = webdataset_name,
    .close = webdataset_close,
    .files = true,
};
