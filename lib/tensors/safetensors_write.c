/* Writing safetensors; see safetensors.h. Files get a digest of all their bytes. */
#include "tensors/safetensors.h"
#include "tensors/safetensors_file.h"

#include <zlib.h>

enum { ALIGN = 64 }; /* the header ends at a multiple of this many bytes */

/* Larger elements first keeps every tensor aligned to its own type. */
static int write_order(const void *a, const void *b) {
    const smoe_tensor *x = *(const smoe_tensor *const *)a, *y = *(const smoe_tensor *const *)b;
    size_t p = smoe_dtype_bytes(x->dtype), q = smoe_dtype_bytes(y->dtype);
    return p != q ? (p > q ? -1 : 1) : strcmp(x->name, y->name);
}

/* The tensors in the order of writing, fresh. */
static const smoe_tensor **ordered(const smoe_tensor *tensors, size_t count) {
    const smoe_tensor **order = smoe_alloc(count, sizeof *order);
    for (size_t i = 0; i < count; i++) order[i] = &tensors[i];
    qsort(order, count, sizeof *order, write_order);
    return order;
}

/* `crc` of what is before the tensor, with its bytes after it: in parallel pieces, put together in
 * their order. */
static uLong tensor_crc(uLong crc, const smoe_tensor *t) {
    enum { PIECE = 1 << 20, PIECES = 64 };
    const unsigned char *data = t->data;
    size_t bytes = t->size * smoe_dtype_bytes(t->dtype);
    for (size_t first = 0; first < bytes; first += (size_t)PIECES * PIECE) {
        uLong part[PIECES];
        uInt size[PIECES];
        size_t pieces = (bytes - first + PIECE - 1) / PIECE;
        if (pieces > PIECES) pieces = PIECES;
#pragma omp parallel for schedule(static) if (pieces > 1)
        for (size_t p = 0; p < pieces; p++) {
            size_t begin = first + p * PIECE, left = bytes - begin;
            size[p] = (uInt)(left < PIECE ? left : PIECE);
            part[p] = crc32(0, data + begin, size[p]);
        }
        for (size_t p = 0; p < pieces; p++) crc = crc32_combine(crc, part[p], size[p]);
    }
    return crc;
}

static void *piece_room(void) {
    return smoe_alloc(SMOE_TENSOR_PIECE, sizeof(double));
}

/* The same of a tensor that is not in memory. */
static int source_crc(uLong *crc, const smoe_tensor *t, smoe_err *err) {
    size_t bytes = smoe_dtype_bytes(t->dtype);
    SMOE_FREED void *piece = piece_room();
    for (size_t first = 0; first < t->size; first += SMOE_TENSOR_PIECE) {
        size_t left = t->size - first, count = left < SMOE_TENSOR_PIECE ? left : SMOE_TENSOR_PIECE;
        if (t->source(t->user, t, first, count, piece, err)) return -1;
        *crc = crc32_z(*crc, piece, count * bytes);
    }
    return 0;
}

int smoe_tensors_crc32(const smoe_tensor *tensors, size_t count, uint32_t *crc, smoe_err *err) {
    SMOE_FREED const smoe_tensor **order = ordered(tensors, count);
    uLong sum = 0;
    for (size_t i = 0; i < count; i++)
        if (!order[i]->source)
            sum = tensor_crc(sum, order[i]);
        else if (source_crc(&sum, order[i], err))
            return -1;
    *crc = (uint32_t)sum;
    return 0;
}

static json_t *entry_make(const smoe_tensor *t, size_t begin, size_t end) {
    json_t *shape = json_array();
    for (int i = 0; i < t->ndim; i++)
        json_array_append_new(shape, json_integer((json_int_t)t->dim[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", smoe_dtype_name(t->dtype), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)end);
}

/* The header as text, metadata first, tensors in their order; fresh, NULL where a name is given
 * twice or is no UTF-8. */
static char *header_make(const smoe_tensor *const *order, size_t count, const smoe_pair *metadata,
                         size_t pairs) {
    json_auto_t *header = json_object();
    json_t *inner = pairs ? json_object() : NULL;
    int bad = 0;
    for (size_t i = 0; i < pairs; i++)
        bad |= json_object_set_new(inner, metadata[i].key, json_string(metadata[i].value));
    if (pairs) json_object_set_new(header, SMOE_SAFETENSORS_METADATA, inner);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t end = at + order[i]->size * smoe_dtype_bytes(order[i]->dtype);
        bad |= json_object_get(header, order[i]->name) != NULL;
        bad |= json_object_set_new(header, order[i]->name, entry_make(order[i], at, end));
        at = end;
    }
    return bad ? NULL : json_dumps(header, JSON_COMPACT);
}

/* A file being written, and the digest of what was put so far; NULL: it gets none. */
typedef struct output {
    smoe_file file;
    smoe_digest *digest;
} output;

static int output_put(output *out, const void *bytes, size_t size, smoe_err *err) {
    if (out->digest) smoe_digest_add(out->digest, bytes, size);
    return smoe_file_put(&out->file, bytes, size, err);
}

static int header_put(output *out, const char *header, smoe_err *err) {
    static const char spaces[ALIGN + 1] =
        "                                                                ";
    size_t size = strlen(header),
           padding = (ALIGN - (SMOE_SAFETENSORS_LENGTH + size) % ALIGN) % ALIGN;
    uint64_t length = size + padding;
    if (output_put(out, &length, SMOE_SAFETENSORS_LENGTH, err)) return -1;
    if (output_put(out, header, size, err)) return -1;
    return output_put(out, spaces, padding, err);
}

/* Writes the digest to its place in the header. */
static int digest_put(output *out, const char *header, smoe_err *err) {
    char text[SMOE_DIGEST_DIGITS + 1];
    const char *at = smoe_safetensors_digits(header, strlen(header));
    if (!out->digest || !at) return 0;
    smoe_digest_text(out->digest, text);
    return smoe_file_patch(&out->file, SMOE_SAFETENSORS_LENGTH + (size_t)(at - header), text,
                           SMOE_DIGEST_DIGITS, err);
}

/* The bytes of one tensor, from memory or from its source a piece at a time. */
static int tensor_put(output *out, const smoe_tensor *t, smoe_err *err) {
    size_t bytes = smoe_dtype_bytes(t->dtype);
    if (!t->source) return output_put(out, t->data, t->size * bytes, err);
    SMOE_FREED void *piece = piece_room();
    for (size_t first = 0; first < t->size; first += SMOE_TENSOR_PIECE) {
        size_t left = t->size - first, count = left < SMOE_TENSOR_PIECE ? left : SMOE_TENSOR_PIECE;
        if (t->source(t->user, t, first, count, piece, err)) {
            smoe_file_abandon(&out->file);
            return -1;
        }
        if (output_put(out, piece, count * bytes, err)) return -1;
    }
    return 0;
}

int smoe_safetensors_write(const char *path, const smoe_content *content, smoe_err *err) {
    output out = {.digest = NULL};
    size_t count = content->count, pairs = content->pairs;
    if (smoe_file_create(&out.file, path, err)) return -1;
    SMOE_FREED const smoe_tensor **order = ordered(content->tensor, count);
    SMOE_FREED smoe_pair *all = smoe_alloc(pairs + 2, sizeof *all);
    if (pairs) memcpy(all, content->pair, pairs * sizeof *all);
    if (out.file.temporary) { /* what is no file cannot be patched */
        out.digest = smoe_digest_new();
        all[pairs++] = (smoe_pair){SMOE_SAFETENSORS_HAS, SMOE_SAFETENSORS_DIGEST};
        all[pairs++] = (smoe_pair){SMOE_SAFETENSORS_DIGEST, SMOE_DIGEST_ZEROS};
    }
    SMOE_FREED char *header = header_make(order, count, all, pairs);
    int status = header ? header_put(&out, header, err) : -1;
    if (!header) smoe_file_abandon(&out.file);
    if (!header)
        smoe_fail(err, SMOE_RUNTIME,
                  "%s: cannot create the header: a name that is duplicate or not UTF-8", path);
    for (size_t i = 0; i < count && !status; i++) status = tensor_put(&out, order[i], err);
    if (!status) status = digest_put(&out, header, err);
    if (!status) status = smoe_file_commit(&out.file, err);
    smoe_digest_free(out.digest);
    return status;
}
