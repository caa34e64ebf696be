/*
 * Reading safetensors; safetensors_write.c writes them. Everything is checked: in an accepted file
 * the tensors have unique names and cover the data exactly, in bounds, without holes or overlaps.
 * What the tensors mean is for params_io.c.
 */
#include "tensors/safetensors.h"
#include "tensors/safetensors_file.h"

#include <inttypes.h>
#include <sys/mman.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are read and written as they lie");
_Static_assert(sizeof(size_t) == 8, "offsets of the format are 64 bits");

static const uint64_t HEADER_MOST = 100 * 1000 * 1000; /* the reference reader's limit */

struct smoe_safetensors {
    char *path;
    char *note; /* see smoe_safetensors_note */
    void *map;  /* NULL: the bytes are borrowed */
    size_t map_size;
    const char *bytes; /* of the file */
    size_t size;
    json_t *header; /* owns the tensors' names; of a file that was made the metadata alone, and */
    smoe_alloc_pool names;
    smoe_arena arena; /* the data */
    smoe_tensor *tensor;
    size_t count;
    smoe_safetensors **part; /* that it was joined from, owned; then it has no bytes of its own */
    size_t parts;
    size_t rows, columns; /* see smoe_safetensors_set_grid */
};

/* The types of the format, those of smoe_dtype first and in its order; bits, because some take less
 * than a byte. */
static const struct {
    const char *name;
    unsigned bits;
} types[] = {
    {"F32", 32},    {"F16", 16},        {"BF16", 16},       {"F64", 64},    {"I64", 64},
    {"U8", 8},      {"BOOL", 8},        {"I8", 8},          {"I16", 16},    {"U16", 16},
    {"I32", 32},    {"U32", 32},        {"U64", 64},        {"C64", 64},    {"F8_E5M2", 8},
    {"F8_E4M3", 8}, {"F8_E5M2FNUZ", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E8M0", 8}, {"F6_E2M3", 6},
    {"F6_E3M2", 6}, {"F4", 4},
};
enum { TYPES = SMOE_COUNT(types) };

size_t smoe_dtype_bytes(smoe_dtype dtype) {
    return dtype < SMOE_DTYPE_OTHER ? types[dtype].bits / 8 : 0;
}

static smoe_dtype dtype_of(size_t type) {
    return type < SMOE_DTYPE_OTHER ? (smoe_dtype)type : SMOE_DTYPE_OTHER;
}

/* The place of a type, by its word; TYPES: it is none. */
static size_t type_of(const char *word) {
    size_t i = 0;
    while (i < TYPES && strcmp(types[i].name, word) != 0) i++;
    return i;
}

size_t smoe_type_bytes(const char *word) {
    size_t i = type_of(word);
    return i < TYPES ? types[i].bits / 8 : 0;
}

const char *smoe_type_remedy(const char *word) {
    size_t i = type_of(word);
    /* several narrow weights are often packed into a whole number of 32 bits */
    bool whole = *word == 'I' || *word == 'U';
    bool quantized = i < TYPES && types[i].bits <= (whole ? 32 : 8) && strcmp(word, "BOOL") != 0;
    return quantized ? "quantized weights need their scales: save them dequantized"
                     : "save tensor.float() instead";
}

const char *smoe_dtype_name(smoe_dtype dtype) {
    return dtype < SMOE_DTYPE_OTHER ? types[dtype].name : "";
}

/* The shape of an entry into t. */
static int shape_read(smoe_tensor *t, const json_t *shape, smoe_err *err) {
    size_t n = json_array_size(shape);
    if (!json_is_array(shape) || n > SMOE_TENSOR_DIMS)
        return smoe_fail(err, SMOE_DATA, "\"shape\" is not a list of up to %d numbers",
                         SMOE_TENSOR_DIMS);
    t->size = 1;
    t->ndim = (int)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *axis = json_array_get(shape, i);
        json_int_t dim = json_integer_value(axis);
        if (!json_is_integer(axis) || dim < 0)
            return smoe_fail(err, SMOE_DATA, "axis %zu of the shape is not a size", i);
        t->dim[i] = (size_t)dim;
        if (__builtin_mul_overflow(t->size, t->dim[i], &t->size))
            return smoe_fail(err, SMOE_DATA, "the shape overflows 64 bits");
    }
    return 0;
}

/* The bytes of an entry, relative to the first byte of data. */
typedef struct span {
    size_t begin, end;
    smoe_tensor tensor;
} span;

static int span_read(span *s, const json_t *offsets, unsigned bits, size_t data_size,
                     smoe_err *err) {
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < 0)
        return smoe_fail(err, SMOE_DATA, "\"data_offsets\" is not a pair of offsets");
    s->begin = (size_t)json_integer_value(begin);
    s->end = (size_t)json_integer_value(end);
    if (s->end < s->begin)
        return smoe_fail(err, SMOE_DATA, "offsets [%zu, %zu] are reversed", s->begin, s->end);
    if (s->end > data_size)
        return smoe_fail(err, SMOE_DATA,
                         "offsets [%zu, %zu] go past the end, the data has %zu bytes", s->begin,
                         s->end, data_size);
    size_t need;
    if (__builtin_mul_overflow(s->tensor.size, (size_t)bits, &need) || need % 8 ||
        need / 8 != s->end - s->begin)
        return smoe_fail(err, SMOE_DATA,
                         "%zu elements of %s do not make the %zu bytes of [%zu, %zu]",
                         s->tensor.size, s->tensor.type, s->end - s->begin, s->begin, s->end);
    return 0;
}

/* One entry of the header. */
static int entry_read(span *s, const char *key, const json_t *value, size_t data_size,
                      smoe_err *err) {
    s->tensor.name = key;
    if (!smoe_text_printable(key))
        return smoe_fail(err, SMOE_DATA, "unprintable characters in the name");
    const char *type = json_string_value(json_object_get(value, "dtype"));
    if (!type) return smoe_fail(err, SMOE_DATA, "no \"dtype\"");
    size_t i = type_of(type);
    if (i == TYPES) return smoe_fail(err, SMOE_DATA, "unknown dtype %.120s", type);
    s->tensor.dtype = dtype_of(i);
    s->tensor.type = types[i].name;
    if (shape_read(&s->tensor, json_object_get(value, "shape"), err)) return -1;
    return span_read(s, json_object_get(value, "data_offsets"), types[i].bits, data_size, err);
}

static void metadata_check(const json_t *metadata, const char *path, smoe_err *err) {
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        smoe_fail_more(err, SMOE_DATA, "%s: %s is not an object", path, SMOE_SAFETENSORS_METADATA);
    json_object_foreach((json_t *)metadata, key, value) {
        if (!json_is_string(value))
            smoe_fail_more(err, SMOE_DATA, "%s: %s: the value of %.120s is not a string", path,
                           SMOE_SAFETENSORS_METADATA, key);
    }
}

/* By offset; at the same offset an empty tensor comes first. Names make the order total. */
static int span_compare(const void *a, const void *b) {
    const span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->tensor.name, y->tensor.name);
}

/* The sorted spans must tile [0, data_size). */
static int tiling_check(const span *spans, size_t count, size_t data_size, const char *path,
                        smoe_err *err) {
    size_t end = 0;
    for (size_t i = 0; i < count; i++) {
        const span *s = &spans[i];
        if (s->begin > end)
            return smoe_fail(err, SMOE_DATA,
                             "%s: a hole: no tensor owns data bytes [%zu, %zu], before tensor "
                             "%.120s",
                             path, end, s->begin, s->tensor.name);
        if (s->begin < end)
            return smoe_fail(err, SMOE_DATA,
                             "%s: tensor %.120s at [%zu, %zu] overlaps tensor %.120s", path,
                             s->tensor.name, s->begin, s->end, spans[i - 1].tensor.name);
        end = s->end;
    }
    if (end == data_size) return 0;
    return smoe_fail(err, SMOE_DATA,
                     "%s: %zu bytes follow the last tensor, which ends at data byte %zu", path,
                     data_size - end, end);
}

/* The parsed header into file->tensor; data: the bytes after the header. */
static int header_read(smoe_safetensors *file, const char *data, size_t data_size, smoe_err *err) {
    size_t room = json_object_size(file->header), count = 0;
    SMOE_FREED span *spans = smoe_alloc(room, sizeof *spans);
    file->tensor = smoe_alloc(room, sizeof *file->tensor);
    const char *key;
    json_t *value;
    smoe_err found = {0}, why;
    json_object_foreach(file->header, key, value) {
        if (!strcmp(key, SMOE_SAFETENSORS_METADATA))
            metadata_check(value, file->path, &found);
        else if (entry_read(&spans[count++], key, value, data_size, &why))
            smoe_fail_more(&found, SMOE_DATA, "%s: tensor %.120s: %s", file->path, key, why.text);
    }
    if (smoe_fail_found(err, &found)) return -1;
    qsort(spans, count, sizeof *spans, span_compare);
    if (tiling_check(spans, count, data_size, file->path, err)) return -1;
    for (size_t i = 0; i < count; i++) {
        file->tensor[i] = spans[i].tensor;
        file->tensor[i].data = data + spans[i].begin;
    }
    file->count = count;
    return 0;
}

/* The length at the front of the file, checked against it. */
static int length_read(uint64_t *length, const char *bytes, size_t size, const char *path,
                       smoe_err *err) {
    if (size < SMOE_SAFETENSORS_LENGTH)
        return smoe_fail(err, SMOE_DATA, "%s: %zu bytes are too few for a safetensors file", path,
                         size);
    memcpy(length, bytes, SMOE_SAFETENSORS_LENGTH);
    if (*length > HEADER_MOST)
        return smoe_fail(err, SMOE_DATA,
                         "%s: offset 0: a header of %" PRIu64 " bytes, more than the %" PRIu64
                         " allowed; not a safetensors file?",
                         path, *length, HEADER_MOST);
    if (*length > size - SMOE_SAFETENSORS_LENGTH)
        return smoe_fail(err, SMOE_DATA,
                         "%s: offset 0: a header of %" PRIu64
                         " bytes goes past the end of the file (%zu bytes)",
                         path, *length, size);
    if (!*length || bytes[SMOE_SAFETENSORS_LENGTH] != '{')
        return smoe_fail(err, SMOE_DATA, "%s: offset %d: the header does not start with '{'", path,
                         SMOE_SAFETENSORS_LENGTH);
    return 0;
}

int smoe_safetensors_parse(smoe_safetensors **result, const void *bytes, size_t size,
                           const char *path, smoe_err *err) {
    *result = NULL;
    uint64_t length = 0;
    if (length_read(&length, bytes, size, path, err)) return -1;
    SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *file = smoe_alloc(1, sizeof *file);
    const char *header = (const char *)bytes + SMOE_SAFETENSORS_LENGTH;
    file->path = smoe_alloc_text(path);
    file->bytes = bytes;
    file->size = size;
    json_error_t bad;
    file->header = json_loadb(header, length, JSON_REJECT_DUPLICATES, &bad);
    if (!file->header)
        return smoe_fail(err, SMOE_DATA, "%s: offset %d: bad header: %s", path,
                         SMOE_SAFETENSORS_LENGTH + bad.position, bad.text);
    if (header_read(file, header + length, size - SMOE_SAFETENSORS_LENGTH - length, err)) return -1;
    *result = file;
    file = NULL; /* it is the caller's */
    return 0;
}

smoe_safetensors *smoe_safetensors_join(const char *path, smoe_safetensors *const *part,
                                        size_t parts) {
    smoe_safetensors *file = smoe_alloc(1, sizeof *file);
    file->path = smoe_alloc_text(path);
    file->header = json_incref(part[0]->header);
    file->part = smoe_alloc(parts, sizeof *file->part);
    for (size_t i = 0; i < parts; i++) {
        size_t all = file->count + part[i]->count;
        file->tensor = smoe_alloc_more(file->tensor, all, sizeof *file->tensor);
        memcpy(file->tensor + file->count, part[i]->tensor, part[i]->count * sizeof *file->tensor);
        file->count = all;
        file->part[i] = part[i];
    }
    file->parts = parts;
    return file;
}

int smoe_safetensors_make(smoe_safetensors **result, const char *path, const smoe_content *content,
                          smoe_arena *arena, const char *note, smoe_err *err) {
    const smoe_tensor *tensors = content->tensor;
    SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *file = smoe_alloc(1, sizeof *file);
    file->path = smoe_alloc_text(path);
    file->note = smoe_alloc_text(note);
    file->arena = *arena;
    file->header = json_pack("{s:{}}", SMOE_SAFETENSORS_METADATA);
    file->tensor = smoe_alloc(content->count, sizeof *file->tensor);
    for (size_t i = 0; i < content->pairs; i++)
        json_object_set_new(json_object_get(file->header, SMOE_SAFETENSORS_METADATA),
                            content->pair[i].key, json_string(content->pair[i].value));
    for (size_t i = 0; i < content->count; i++) {
        smoe_tensor *t = &file->tensor[file->count++];
        size_t type = type_of(tensors[i].type);
        *t = tensors[i];
        t->name = smoe_alloc_text_in(&file->names, t->name);
        t->dtype = dtype_of(type);
        t->type = types[type].name;
        t->size = 1;
        for (int k = 0; k < t->ndim; k++) t->size *= t->dim[k];
        if (!smoe_text_printable(t->name))
            return smoe_fail(err, SMOE_DATA,
                             "%s: tensor %.120s: unprintable characters in the name", path,
                             t->name);
    }
    *result = file;
    file = NULL; /* it is the caller's */
    return 0;
}

void smoe_safetensors_own(smoe_safetensors *file, void *map, size_t size) {
    file->map = map;
    file->map_size = size;
}

void smoe_safetensors_set_grid(smoe_safetensors *file, size_t rows, size_t columns) {
    file->rows = rows;
    file->columns = columns;
}

void smoe_safetensors_grid(const smoe_safetensors *file, size_t *rows, size_t *columns) {
    *rows = file->rows;
    *columns = file->columns;
}

const char *smoe_safetensors_note(const smoe_safetensors *file) {
    return file->note;
}

const char *smoe_safetensors_digits(const char *header, size_t size) {
    static const char before[] = "\"" SMOE_SAFETENSORS_DIGEST "\":\"";
    const char *at = memmem(header, size, before, sizeof before - 1);
    if (at) at += sizeof before - 1;
    return at && size - (size_t)(at - header) > SMOE_DIGEST_DIGITS ? at : NULL;
}

bool smoe_safetensors_has_digest(const smoe_safetensors *file) {
    for (size_t i = 1; i < file->parts; i++)
        if (!smoe_safetensors_has_digest(file->part[i])) return false;
    return smoe_safetensors_metadata(file, SMOE_SAFETENSORS_DIGEST) ||
           smoe_safetensors_metadata(file, SMOE_SAFETENSORS_HAS);
}

int smoe_safetensors_verify(const smoe_safetensors *file, smoe_err *err) {
    for (size_t i = 0; i < file->parts; i++)
        if (smoe_safetensors_verify(file->part[i], err)) return -1;
    if (file->parts) return 0;
    const char *want = smoe_safetensors_metadata(file, SMOE_SAFETENSORS_DIGEST);
    if (!smoe_safetensors_has_digest(file)) return 0;
    if (!want) want = "absent";
    const char *at = smoe_safetensors_digits(file->bytes, file->size);
    char have[SMOE_DIGEST_DIGITS + 1] = "";
    const char *named = smoe_safetensors_metadata(file, SMOE_SAFETENSORS_HAS);
    if (at && named && !strcmp(named, SMOE_SAFETENSORS_DIGEST) &&
        strlen(want) == SMOE_DIGEST_DIGITS && !memcmp(at, want, SMOE_DIGEST_DIGITS))
        smoe_digest_without(file->bytes, file->size, at, have);
    if (!strcmp(have, want)) return 0;
    return smoe_fail(
        err, SMOE_DATA,
        "%s: changed since it was written: its digest is %s, %s in its metadata says %.120s; "
        "damaged, or changed by another program, which should have removed %s and %s",
        file->path, *have ? have : "not where smoe puts it", SMOE_SAFETENSORS_DIGEST, want,
        SMOE_SAFETENSORS_DIGEST, SMOE_SAFETENSORS_HAS);
}

size_t smoe_safetensors_count(const smoe_safetensors *file) {
    return file->count;
}

const smoe_tensor *smoe_safetensors_at(const smoe_safetensors *file, size_t i) {
    return &file->tensor[i];
}

const smoe_tensor *smoe_safetensors_find(const smoe_safetensors *file, const char *name) {
    for (size_t i = 0; i < file->count; i++)
        if (!strcmp(file->tensor[i].name, name)) return &file->tensor[i];
    return NULL;
}

const char *smoe_safetensors_metadata(const smoe_safetensors *file, const char *key) {
    return json_string_value(
        json_object_get(json_object_get(file->header, SMOE_SAFETENSORS_METADATA), key));
}

size_t smoe_safetensors_pairs(const smoe_safetensors *file, smoe_pair **pairs) {
    json_t *metadata = json_object_get(file->header, SMOE_SAFETENSORS_METADATA), *value;
    const char *key;
    size_t count = 0;
    *pairs = smoe_alloc(json_object_size(metadata), sizeof **pairs);
    json_object_foreach(metadata, key, value) {
        if (strcmp(key, SMOE_SAFETENSORS_DIGEST) && strcmp(key, SMOE_SAFETENSORS_HAS))
            (*pairs)[count++] = (smoe_pair){key, json_string_value(value)};
    }
    return count;
}

const char *smoe_safetensors_path(const smoe_safetensors *file) {
    return file->path;
}

void smoe_safetensors_free(smoe_safetensors *file) {
    if (!file) return;
    for (size_t i = 0; i < file->parts; i++) smoe_safetensors_free(file->part[i]);
    free(file->part);
    json_decref(file->header);
    if (file->map) munmap(file->map, file->map_size);
    smoe_arena_free(&file->arena);
    smoe_alloc_pool_free(&file->names);
    free(file->tensor);
    free(file->note);
    free(file->path);
    free(file);
}
