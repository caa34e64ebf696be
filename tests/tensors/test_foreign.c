/*
 * Model files of other programs, written here according to their formats: arrays of the ViT and
 * big_vision code, pickles of PyTorch, Hugging Face's names. Element i of tensor NAME of smoe-
 * checkpoint(5) is value(NAME, i), wherever the file stores it; so every element of every layout is
 * checked.
 */
#include "raw_safetensors.h"
#include "scratch.h"
#include "store/implied.h"
#include "store/run.h"
#include "tensors/foreign.h"
#include "tensors/foreign_parts.h"
#include "zipfile.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { D = 8, HEADS = 2, EACH = D / HEADS, H = 12, BLOCKS = 2, P = 2, C = 3, T = 4, N = 5 };

static float value(const char *name, size_t i) {
    size_t sum = 0;
    for (const char *c = name; *c; c++) sum += (unsigned char)*c;
    return ((float)((7 * i + sum) % 255) - 127) / 64;
}

/* ---- the expected tensors -------------------------------------------------------------------- */

typedef struct expected {
    const char *name;
    int ndim;
    size_t dim[4];
} expected;

static const expected table[] = {
    {"patch_embed.proj.weight", 4, {D, C, P, P}},
    {"patch_embed.proj.bias", 1, {D}},
    {"cls_token", 3, {1, 1, D}},
    {"pos_embed", 3, {1, T + 1, D}},
    {"blocks.#.norm1.weight", 1, {D}},
    {"blocks.#.norm1.bias", 1, {D}},
    {"blocks.#.attn.qkv.weight", 2, {3 * D, D}},
    {"blocks.#.attn.qkv.bias", 1, {3 * D}},
    {"blocks.#.attn.proj.weight", 2, {D, D}},
    {"blocks.#.attn.proj.bias", 1, {D}},
    {"blocks.#.norm2.weight", 1, {D}},
    {"blocks.#.norm2.bias", 1, {D}},
    {"blocks.#.mlp.fc1.weight", 2, {H, D}},
    {"blocks.#.mlp.fc1.bias", 1, {H}},
    {"blocks.#.mlp.fc2.weight", 2, {D, H}},
    {"blocks.#.mlp.fc2.bias", 1, {D}},
    {"norm.weight", 1, {D}},
    {"norm.bias", 1, {D}},
    {"head.weight", 2, {N, D}},
    {"head.bias", 1, {N}},
};
enum { TABLE = sizeof table / sizeof *table };

static const char *numbered(char buf[96], const char *name, size_t block) {
    const char *hash = strchr(name, '#');
    if (hash)
        snprintf(buf, 96, "%.*s%zu%s", (int)(hash - name), name, block, hash + 1);
    else
        snprintf(buf, 96, "%s", name);
    return buf;
}

static void assert_tensor(const smoe_safetensors *file, const expected *want, const char *name) {
    const smoe_tensor *t = smoe_safetensors_find(file, name);
    if (!t) fail_msg("no tensor %s", name);
    assert_string_equal(t->type, "F32");
    assert_int_equal(t->ndim, want->ndim);
    for (int i = 0; i < want->ndim; i++) assert_int_equal(t->dim[i], want->dim[i]);
    for (size_t i = 0; i < t->size; i++) {
        float x;
        memcpy(&x, (const char *)t->data + i * sizeof x, sizeof x);
        if (x != value(name, i)) fail_msg("%s: element %zu is %g", name, i, (double)x);
    }
}

/* The file at `path`, opened as a user's argument is, has these tensors, and `more` others. */
static void assert_model(const char *path, size_t more) {
    smoe_safetensors *file;
    smoe_err err = {0};
    size_t count = 0;
    char name[96];
    if (smoe_run_model(&file, path, NULL, NULL, &err)) fail_msg("%s", err.text);
    for (size_t i = 0; i < TABLE; i++)
        for (size_t b = 0; b < (strchr(table[i].name, '#') ? BLOCKS : 1); b++, count++)
            assert_tensor(file, &table[i], numbered(name, table[i].name, b));
    assert_int_equal(smoe_safetensors_count(file), count + more);
    assert_string_equal(smoe_safetensors_path(file), path);
    smoe_safetensors_free(file);
}

/* ---- npz ------------------------------------------------------------------------------------- */

/* How the elements of an array of that code are derived from those of the tensor. */
typedef enum layout { SAME, CONV, MATRIX, QUERY, KEY, VALUE, OUT } layout;

static const struct {
    const char *array, *tensor;
    layout layout;
    int ndim;
    size_t dim[4];
} arrays[] = {
    {"embedding/kernel", "patch_embed.proj.weight", CONV, 4, {P, P, C, D}},
    {"embedding/bias", "patch_embed.proj.bias", SAME, 1, {D}},
    {"cls", "cls_token", SAME, 3, {1, 1, D}},
    {"Transformer/posembed_input/pos_embedding", "pos_embed", SAME, 3, {1, T + 1, D}},
    {"@LayerNorm_0/scale", "blocks.#.norm1.weight", SAME, 1, {D}},
    {"@LayerNorm_0/bias", "blocks.#.norm1.bias", SAME, 1, {D}},
    {"@MultiHeadDotProductAttention_1/query/kernel",
     "blocks.#.attn.qkv.weight",
     QUERY,
     3,
     {D, HEADS, EACH}},
    {"@MultiHeadDotProductAttention_1/key/kernel",
     "blocks.#.attn.qkv.weight",
     KEY,
     3,
     {D, HEADS, EACH}},
    {"@MultiHeadDotProductAttention_1/value/kernel",
     "blocks.#.attn.qkv.weight",
     VALUE,
     3,
     {D, HEADS, EACH}},
    {"@MultiHeadDotProductAttention_1/query/bias",
     "blocks.#.attn.qkv.bias",
     QUERY,
     2,
     {HEADS, EACH}},
    {"@MultiHeadDotProductAttention_1/key/bias", "blocks.#.attn.qkv.bias", KEY, 2, {HEADS, EACH}},
    {"@MultiHeadDotProductAttention_1/value/bias",
     "blocks.#.attn.qkv.bias",
     VALUE,
     2,
     {HEADS, EACH}},
    {"@MultiHeadDotProductAttention_1/out/kernel",
     "blocks.#.attn.proj.weight",
     OUT,
     3,
     {HEADS, EACH, D}},
    {"@MultiHeadDotProductAttention_1/out/bias", "blocks.#.attn.proj.bias", SAME, 1, {D}},
    {"@LayerNorm_2/scale", "blocks.#.norm2.weight", SAME, 1, {D}},
    {"@LayerNorm_2/bias", "blocks.#.norm2.bias", SAME, 1, {D}},
    {"@MlpBlock_3/Dense_0/kernel", "blocks.#.mlp.fc1.weight", MATRIX, 2, {D, H}},
    {"@MlpBlock_3/Dense_0/bias", "blocks.#.mlp.fc1.bias", SAME, 1, {H}},
    {"@MlpBlock_3/Dense_1/kernel", "blocks.#.mlp.fc2.weight", MATRIX, 2, {H, D}},
    {"@MlpBlock_3/Dense_1/bias", "blocks.#.mlp.fc2.bias", SAME, 1, {D}},
    {"Transformer/encoder_norm/scale", "norm.weight", SAME, 1, {D}},
    {"Transformer/encoder_norm/bias", "norm.bias", SAME, 1, {D}},
    {"head/kernel", "head.weight", MATRIX, 2, {D, N}},
    {"head/bias", "head.bias", SAME, 1, {N}},
};
enum { ARRAYS = sizeof arrays / sizeof *arrays };

/* Element i of array a of a block. */
static float array_value(size_t a, size_t block, size_t i) {
    char name[96];
    const size_t *dim = arrays[a].dim;
    size_t part = (size_t)arrays[a].layout - QUERY, from = i;
    numbered(name, arrays[a].tensor, block);
    switch (arrays[a].layout) {
    case SAME: break;
    case CONV: from = ((i % D * C + i / D % C) * P + i / (D * C * P)) * P + i / (D * C) % P; break;
    case MATRIX: from = i % dim[1] * dim[0] + i / dim[1]; break;
    case OUT: from = i % D * D + i / D; break; /* heads and their rows are one axis of D */
    default: from = arrays[a].ndim == 2 ? part * D + i : (part * D + i % D) * D + i / D;
    }
    return value(name, from);
}

/* How files differ: stacked blocks, prefixes of names, the order of elements, the format. */
typedef struct variant {
    const char *prefix;
    bool stacked, fortran, later, wide;
} variant;

static size_t header(char *out, const char *type, bool fortran, int ndim, const size_t *dim,
                     const variant *v) {
    char dict[160];
    size_t n =
        (size_t)snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': %s, 'shape': (", type,
                         fortran ? "True" : "False");
    for (int i = 0; i < ndim; i++)
        n += (size_t)snprintf(dict + n, sizeof dict - n, "%zu,%s", dim[i], i + 1 < ndim ? " " : "");
    n += (size_t)snprintf(dict + n, sizeof dict - n, "), }\n");
    size_t wide = v->later ? 4 : 2;
    memcpy(out, v->later ? "\x93NUMPY\x02\x00" : "\x93NUMPY\x01\x00", 8);
    zipfile_little((unsigned char *)out + 8, n, wide);
    memcpy(out + 8 + wide, dict, n);
    return 8 + wide + n;
}

static void add_array(zipfile *zip, const char *name, int ndim, const size_t *dim,
                      const float *values, const variant *v) {
    char member[200], *bytes = calloc(1, 1 << 16);
    size_t count = 1;
    for (int i = 0; i < ndim; i++) count *= dim[i];
    size_t n = header(bytes, v->wide ? "<f8" : "<f4", v->fortran, ndim, dim, v);
    for (size_t i = 0; i < count; i++) {
        size_t at = i, left = i, stride = 1;
        for (int axis = 0; v->fortran && axis < ndim; axis++) { /* the first axis varies fastest */
            size_t below = 1;
            for (int k = axis + 1; k < ndim; k++) below *= dim[k];
            at = axis ? at : 0;
            at += left / below * stride;
            left %= below;
            stride *= dim[axis];
        }
        memcpy(bytes + n + at * sizeof *values, &values[i], sizeof *values);
    }
    snprintf(member, sizeof member, "%s%s.npy", v->prefix, name);
    zipfile_add(zip, member, bytes, n + count * sizeof *values);
    free(bytes);
}

static void add_arrays(zipfile *zip, const variant *v) {
    float values[BLOCKS * 1024];
    for (size_t a = 0; a < ARRAYS; a++) {
        bool block = arrays[a].array[0] == '@';
        size_t size = 1, dim[5] = {BLOCKS};
        char name[160];
        for (int i = 0; i < arrays[a].ndim; i++) size *= dim[i + 1] = arrays[a].dim[i];
        for (size_t b = 0; b < (block ? BLOCKS : 1); b++) {
            float *at = values + (v->stacked ? b * size : 0);
            for (size_t i = 0; i < size; i++) at[i] = array_value(a, b, i);
            if (block)
                snprintf(name, sizeof name, "Transformer/encoderblock_%zu/%s", b,
                         arrays[a].array + 1);
            if (!block || !v->stacked)
                add_array(zip, block ? name : arrays[a].array, arrays[a].ndim, dim + 1, values, v);
        }
        if (!block || !v->stacked) continue;
        snprintf(name, sizeof name, "Transformer/encoderblock/%s", arrays[a].array + 1);
        add_array(zip, name, arrays[a].ndim + 1, dim, values, v);
    }
}

static const char *write_zip(const scratch *s, char path[SCRATCH_PATH], const char *name,
                             zipfile *zip) {
    zipfile_end(zip);
    scratch_path(s, path, name);
    scratch_write(path, zip->bytes, zip->size);
    zipfile_free(zip);
    return path;
}

/* The number of heads is an axis of the queries, and no other number is taken from a spec. */
static void assert_heads(const char *path) {
    smoe_safetensors *file;
    smoe_err err = {0};
    if (smoe_run_model(&file, path, NULL, NULL, &err)) fail_msg("%s", err.text);
    char *implied;
    assert_int_equal(smoe_implied_spec(&implied, file, &err), 0);
    assert_non_null(strstr(implied, "\n  heads: 2  # the shape of its queries\n"));
    free(implied);
    for (size_t heads = 1; heads <= 4; heads *= 2) {
        char *overrides[] = {smoe_text_format("model.heads=%zu", heads)};
        smoe_spec spec = {0};
        const smoe_spec_text text = {.text = "model: {width: 8}", .label = "test"};
        assert_int_equal(smoe_spec_parse(&spec, &text, overrides, 1, &err), 0);
        assert_int_equal(smoe_implied_check(&spec, file, true, &err), heads == HEADS ? 0 : -1);
        if (heads != HEADS)
            assert_non_null(strstr(err.text, "the shape of its queries says model.heads=2"));
        smoe_spec_free(&spec);
        free(overrides[0]);
        err = (smoe_err){0};
    }
    smoe_safetensors_free(file);
}

/* Of a type that weights do not have, beside a model. */
static void add_random_state(zipfile *zip) {
    char bytes[128] = {0};
    size_t n = header(bytes, "<u4", false, 1, (size_t[]){2}, &(const variant){.prefix = ""});
    zipfile_add(zip, "rng.npy", bytes, n + 2 * sizeof(uint32_t));
}

static void arrays_of_vit(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    static const variant variants[] = {{.prefix = ""},
                                       {.prefix = "opt/target/"},
                                       {.prefix = "params/img/", .stacked = true},
                                       {.prefix = "params/", .fortran = true, .later = true}};
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        zipfile zip = {0};
        const float more[] = {1, 2};
        add_arrays(&zip, &variants[i]);
        add_array(&zip, "pre_logits/bias", 1, (size_t[]){2}, more, &variants[i]);
        if (*variants[i].prefix) add_random_state(&zip);
        assert_model(write_zip(s, path, "vit.npz", &zip), 1);
        assert_heads(path);
    }
}

/* ---- pth ------------------------------------------------------------------------------------- */

typedef struct pickle {
    zipfile text; /* only its bytes are used */
    zipfile zip;
    size_t storages;
} pickle;

static void put(pickle *p, const char *bytes, size_t n) {
    zipfile_put(&p->text, bytes, n);
}
static void put_text(pickle *p, const char *text) {
    unsigned char length[4];
    zipfile_little(length, strlen(text), 4);
    put(p, "X", 1);
    zipfile_put(&p->text, length, 4);
    put(p, text, strlen(text));
}
static void put_number(pickle *p, size_t number) {
    unsigned char bytes[4];
    zipfile_little(bytes, number, 4);
    put(p, "J", 1);
    zipfile_put(&p->text, bytes, 4);
}
static void put_global(pickle *p, const char *module, const char *name) {
    put(p, "c", 1);
    put(p, module, strlen(module));
    put(p, "\n", 1);
    put(p, name, strlen(name));
    put(p, "\n", 1);
}

/* A tensor with that shape and strides on storage `key` of `elements` floats. */
static void put_tensor(pickle *p, const char *key, size_t elements, size_t offset, int ndim,
                       const size_t *dim, const size_t *stride) {
    put_global(p, "torch._utils", "_rebuild_tensor_v2");
    put(p, "((", 2);
    put_text(p, "storage");
    put_global(p, "torch", "FloatStorage");
    put_text(p, key);
    put_text(p, "cpu");
    put_number(p, elements);
    put(p, "tQ", 2);
    put_number(p, offset);
    put(p, "(", 1);
    for (int i = 0; i < ndim; i++) put_number(p, dim[i]);
    put(p, "t(", 2);
    for (int i = 0; i < ndim; i++) put_number(p, stride[i]);
    put(p, "t\x89", 2);
    put_global(p, "collections", "OrderedDict");
    put(p, ")RtR", 4);
}

static void add_storage(pickle *p, const char *key, const float *values, size_t count) {
    char member[64];
    snprintf(member, sizeof member, "archive/data/%s", key);
    zipfile_add(&p->zip, member, values, count * sizeof *values);
}

/* A tensor called `name` whose element i is value(from, first + i). If `turned`, a matrix is
 * stored transposed, with matching strides. */
static void put_weights(pickle *p, const char *name, const char *from, size_t first, int ndim,
                        const size_t *dim, bool turned) {
    float values[1024] = {0};
    char key[16];
    size_t count = 1, stride[4];
    for (int i = ndim; i-- > 0; count *= dim[i]) stride[i] = count;
    turned &= ndim == 2;
    for (size_t i = 0; i < count; i++)
        values[3 + (turned ? i % dim[1] * dim[0] + i / dim[1] : i)] = value(from, first + i);
    if (turned) stride[0] = 1, stride[1] = dim[0];
    snprintf(key, sizeof key, "%zu", p->storages++);
    add_storage(p, key, values, count + 3);
    put_text(p, name);
    put_tensor(p, key, count + 3, 3, ndim, dim, stride);
}

static const char *write_pickle(const scratch *s, char path[SCRATCH_PATH], pickle *p) {
    put(p, ".", 1);
    zipfile_add(&p->zip, "archive/data.pkl", p->text.bytes, p->text.size);
    zipfile_add(&p->zip, "archive/version", "3\n", 2);
    zipfile_free(&p->text);
    return write_zip(s, path, "model.pth", &p->zip);
}

static void put_model(pickle *p, const char *prefix) {
    for (size_t i = 0; i < TABLE; i++)
        for (size_t b = 0; b < (strchr(table[i].name, '#') ? BLOCKS : 1); b++) {
            char name[96], full[128];
            numbered(name, table[i].name, b);
            snprintf(full, sizeof full, "%s%s", prefix, name);
            put_weights(p, full, name, 0, table[i].ndim, table[i].dim, b == 1);
        }
}

/* A state dict, alone or beside other objects; an OrderedDict with its state, as modules save
 * it. */
static void pickles_of_tensors(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    pickle p = {0};
    put(&p, "\x80\x02}q\0(", 6);
    put_model(&p, "");
    put(&p, "u", 1);
    assert_model(write_pickle(s, path, &p), 0);
    p = (pickle){0};
    put(&p, "\x80\x02}(", 4);
    put_text(&p, "epoch");
    put_number(&p, 300);
    put_text(&p, "model");
    put_global(&p, "collections", "OrderedDict");
    put(&p, ")Rq\1(", 5);
    put_model(&p, "module.");
    put(&p, "u}", 2);
    put_text(&p, "_metadata");
    put(&p, "h\1sbu", 5);
    assert_model(write_pickle(s, path, &p), 0);
}

/* The pickles before the object in a file from before version 1.6: magic number, version, system. */
static const char LEGACY[] = "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
                             "\x80\2M\xe9\3.\x80\2}.";

/* The same storages as they follow the pickles there, in the order of their keys. */
static void old_file(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    pickle p = {0}, keys = {0};
    zipfile file = {0}, values = {0};
    put(&p, "\x80\x02}(", 4);
    put_text(&p, "state_dict");
    put(&p, "}(", 2);
    put_model(&p, "module.");
    put(&p, "uu.", 3);
    put(&keys, "\x80\x02](", 4);
    for (size_t i = p.storages; i-- > 0;) { /* from the last */
        char key[24];
        snprintf(key, sizeof key, "%zu", i);
        put_text(&keys, key);
    }
    put(&keys, "e.", 2);
    const unsigned char *at = p.zip.bytes;
    size_t start[128], length[128], count = 0;
    for (; count < p.storages; count++) { /* the members of the zip file, in its order */
        size_t letters = at[26] + 256U * at[27];
        length[count] = at[22] + 256U * at[23] + 65536U * at[24];
        start[count] = (size_t)(at - p.zip.bytes) + 30 + letters;
        at = p.zip.bytes + start[count] + length[count];
    }
    for (size_t i = count; i-- > 0;) {
        unsigned char elements[8];
        zipfile_little(elements, length[i] / sizeof(float), 8);
        zipfile_put(&values, elements, 8);
        zipfile_put(&values, p.zip.bytes + start[i], length[i]);
    }
    zipfile_put(&file, LEGACY, sizeof LEGACY - 1);
    zipfile_put(&file, p.text.bytes, p.text.size);
    zipfile_put(&file, keys.text.bytes, keys.text.size);
    zipfile_put(&file, values.bytes, values.size);
    scratch_path(s, path, "old.pth");
    scratch_write(path, file.bytes, file.size);
    assert_model(path, 0);
    scratch_write(path, file.bytes, file.size - 1);
    smoe_safetensors *none;
    smoe_err err = {0};
    assert_int_equal(smoe_safetensors_open(&none, path, &err), -1);
    assert_non_null(strstr(err.text, "storage 0: it goes past the end of the file"));
    zipfile_free(&p.text);
    zipfile_free(&p.zip);
    zipfile_free(&keys.text);
    zipfile_free(&file);
    zipfile_free(&values);
}

/* A module is a box with its parameters and modules, which are boxes again. */
static void whole_module(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    pickle p = {0};
    put(&p, "\x80\x02}(", 4);
    put_text(&p, "net");
    put_global(&p, "my.models", "ViT");
    put(&p, ")\x81}(", 4);
    put_text(&p, "training");
    put(&p, "\x88", 1);
    put_text(&p, "_parameters");
    put(&p, "}(", 2);
    for (size_t i = 0; i < TABLE; i++)
        for (size_t b = 0; b < BLOCKS && strchr(table[i].name, '#'); b++) {
            char name[96];
            numbered(name, table[i].name, b);
            put_weights(&p, name, name, 0, table[i].ndim, table[i].dim, false);
        }
    put(&p, "u", 1);
    put_text(&p, "_modules");
    put(&p, "}(", 2);
    for (size_t i = 0; i < TABLE; i++) {
        const char *name = table[i].name, *dot = strrchr(name, '.');
        char before[96];
        if (strchr(name, '#')) continue;
        if (!dot) { /* a box without a name of its own is no part of the name */
            put_text(&p, "_buffers");
            put(&p, "}(", 2);
            put_weights(&p, name, name, 0, table[i].ndim, table[i].dim, false);
            put(&p, "u", 1);
            continue;
        }
        snprintf(before, sizeof before, "%.*s", (int)(dot - name), name);
        put_text(&p, before);
        put_global(&p, "torch.nn", "Linear");
        put(&p, ")\x81}(", 4);
        put_text(&p, "_parameters");
        put(&p, "}(", 2);
        char other[96];
        put_text(&p, dot + 1);
        snprintf(other, sizeof other, "%s", name);
        put(&p, "0", 1); /* the key was for the eye alone */
        put_weights(&p, dot + 1, other, 0, table[i].ndim, table[i].dim, false);
        put(&p, "uub", 3);
    }
    put(&p, "uubu", 4);
    assert_model(write_pickle(s, path, &p), 0);
}

/* Which model of a file is read, and what is said of it. */
static void places(void **state) {
    static const struct {
        const char *path[3], *prefix[3]; /* of dictionaries with a model, each a text or NULL */
        const char *weights, *note;
        int chosen;
    } rows[] = {
        {{"state_dict"}, {"module._orig_mod."}, NULL, "weights of state_dict.module._orig_mod", 0},
        {{"model_state_dict"}, {""}, NULL, "weights of model_state_dict", 0},
        {{"state_dict", "state_dict_ema"},
         {"", ""},
         NULL,
         "weights of state_dict and not of state_dict_ema; --weights raw and --weights ema choose",
         0},
        {{"state_dict", "state_dict_ema"}, {"", ""}, "ema", "weights of state_dict_ema and not", 1},
        {{"model_ema", "model"}, {"", "module."}, "raw", "weights of model.module and not of", 1},
        {{"student", "teacher"},
         {"module.backbone.", "backbone."},
         NULL,
         "weights of teacher.backbone and not of student.module.backbone",
         1},
        {{"opt_state", "params"}, {"0.mu.", ""}, NULL, "weights of params and not of opt", 1},
        {{"opt_state", "opt"}, {"nu.", "target."}, NULL, "weights of opt.target and not of opt", 1},
    };
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pickle p = {0};
        smoe_safetensors *file;
        smoe_err err = {0};
        put(&p, "\x80\x02}(", 4);
        put_weights(&p, "best_acc1", "best", 0, 0, NULL, false); /* beside them */
        for (int k = 0; k < 3 && rows[i].path[k]; k++) {
            char name[96];
            put_text(&p, rows[i].path[k]);
            put(&p, "}(", 2);
            snprintf(name, sizeof name, "%spatch_embed.proj.weight", rows[i].prefix[k]);
            put_weights(&p, name, "x", (size_t)k, 4, (size_t[]){1, 1, 1, 1}, false);
            put_weights(&p, "head.weight", "y", (size_t)k, 2, (size_t[]){1, 1}, false);
            put(&p, "u", 1);
        }
        put(&p, "u", 1);
        write_pickle(s, path, &p);
        if (smoe_safetensors_peek(&file, path, rows[i].weights, &err)) fail_msg("%s", err.text);
        assert_non_null(strstr(smoe_safetensors_note(file), rows[i].note));
        const smoe_tensor *t = smoe_safetensors_find(file, "patch_embed.proj.weight");
        assert_non_null(t);
        assert_true(*(const float *)t->data == value("x", (size_t)rows[i].chosen));
        assert_int_equal(smoe_safetensors_count(file), 4); /* and two biases of 0 */
        smoe_safetensors_free(file);
        bool average = rows[i].path[1] && !strstr(rows[i].path[0], "opt");
        assert_int_equal(smoe_safetensors_peek(&file, path, "ema", &err), average ? 0 : -1);
        smoe_safetensors_free(file);
    }
}

/* ---- Hugging Face ---------------------------------------------------------------------------- */

static const struct {
    const char *name, *tensor;
    size_t first; /* row of the tensor */
    int ndim;
    size_t dim[4];
} hugging_face[] = {
    {"vit.embeddings.cls_token", "cls_token", 0, 3, {1, 1, D}},
    {"vit.embeddings.position_embeddings", "pos_embed", 0, 3, {1, T + 1, D}},
    {"vit.embeddings.patch_embeddings.projection.weight",
     "patch_embed.proj.weight",
     0,
     4,
     {D, C, P, P}},
    {"vit.embeddings.patch_embeddings.projection.bias", "patch_embed.proj.bias", 0, 1, {D}},
    {"@layernorm_before.weight", "blocks.#.norm1.weight", 0, 1, {D}},
    {"@layernorm_before.bias", "blocks.#.norm1.bias", 0, 1, {D}},
    {"@attention.attention.query.weight", "blocks.#.attn.qkv.weight", 0, 2, {D, D}},
    {"@attention.attention.key.weight", "blocks.#.attn.qkv.weight", D, 2, {D, D}},
    {"@attention.attention.value.weight", "blocks.#.attn.qkv.weight", 2 * D, 2, {D, D}},
    {"@attention.attention.query.bias", "blocks.#.attn.qkv.bias", 0, 1, {D}},
    {"@attention.attention.key.bias", "blocks.#.attn.qkv.bias", D, 1, {D}},
    {"@attention.attention.value.bias", "blocks.#.attn.qkv.bias", 2 * D, 1, {D}},
    {"@attention.output.dense.weight", "blocks.#.attn.proj.weight", 0, 2, {D, D}},
    {"@attention.output.dense.bias", "blocks.#.attn.proj.bias", 0, 1, {D}},
    {"@layernorm_after.weight", "blocks.#.norm2.weight", 0, 1, {D}},
    {"@layernorm_after.bias", "blocks.#.norm2.bias", 0, 1, {D}},
    {"@intermediate.dense.weight", "blocks.#.mlp.fc1.weight", 0, 2, {H, D}},
    {"@intermediate.dense.bias", "blocks.#.mlp.fc1.bias", 0, 1, {H}},
    {"@output.dense.weight", "blocks.#.mlp.fc2.weight", 0, 2, {D, H}},
    {"@output.dense.bias", "blocks.#.mlp.fc2.bias", 0, 1, {D}},
    {"vit.layernorm.weight", "norm.weight", 0, 1, {D}},
    {"vit.layernorm.bias", "norm.bias", 0, 1, {D}},
    {"classifier.weight", "head.weight", 0, 2, {N, D}},
    {"classifier.bias", "head.bias", 0, 1, {N}},
};
enum { NAMES = sizeof hugging_face / sizeof *hugging_face };

static const char *hf_name(char buf[128], size_t i, size_t block, const char *prefix) {
    const char *name = hugging_face[i].name;
    if (*name == '@')
        snprintf(buf, 128, "%sencoder.layer.%zu.%s", prefix, block, name + 1);
    else
        snprintf(buf, 128, "%s%s", *name == 'v' ? prefix : "", name + (*name == 'v' ? 4 : 0));
    return buf;
}

/* In safetensors, whose metadata are kept, and as a .pth file. */
static void names_of_hugging_face(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH], names[NAMES * BLOCKS][128], tensor[96];
    smoe_tensor tensors[NAMES * BLOCKS] = {0};
    static float values[NAMES * BLOCKS][256];
    size_t count = 0;
    pickle p = {0};
    smoe_err err;
    put(&p, "\x80\x02}(", 4);
    for (size_t i = 0; i < NAMES; i++)
        for (size_t b = 0; b < (*hugging_face[i].name == '@' ? BLOCKS : 1); b++, count++) {
            smoe_tensor *t = &tensors[count];
            numbered(tensor, hugging_face[i].tensor, b);
            *t = (smoe_tensor){.name = hf_name(names[count], i, b, "vit."),
                               .ndim = hugging_face[i].ndim,
                               .size = 1,
                               .data = values[count]};
            for (int k = 0; k < t->ndim; k++) t->size *= t->dim[k] = hugging_face[i].dim[k];
            size_t row = t->size / t->dim[0], first = hugging_face[i].first * row;
            for (size_t k = 0; k < t->size; k++) values[count][k] = value(tensor, first + k);
            put_weights(&p, t->name, tensor, first, t->ndim, t->dim, false);
        }
    put(&p, "u", 1);
    assert_model(write_pickle(s, path, &p), 0);
    const smoe_pair pair = {"smoe.spec", "{}"};
    scratch_path(s, path, "hf.safetensors");
    assert_int_equal(
        smoe_safetensors_write(path, &(const smoe_content){tensors, count, &pair, 1}, &err), 0);
    assert_model(path, 0);
    smoe_safetensors *file;
    assert_int_equal(smoe_safetensors_open(&file, path, &err), 0);
    assert_string_equal(smoe_safetensors_metadata(file, "smoe.spec"), "{}");
    smoe_safetensors_free(file);
}

/* open_clip's name of a tensor, and the name used here. */
static const char *const open_clip[][2] = {
    {"token_embedding.weight", "text.token_embedding.weight"},
    {"positional_embedding", "text.positional_embedding"},
    {"transformer.resblocks.11.ln_1.weight", "text.transformer.resblocks.11.ln_1.weight"},
    {"transformer.resblocks.0.ln_1.bias", "text.transformer.resblocks.0.ln_1.bias"},
    {"transformer.resblocks.0.ln_2.weight", "text.transformer.resblocks.0.ln_2.weight"},
    {"transformer.resblocks.0.attn.in_proj_weight",
     "text.transformer.resblocks.0.attn.in_proj_weight"},
    {"transformer.resblocks.0.attn.out_proj.bias",
     "text.transformer.resblocks.0.attn.out_proj.bias"},
    {"transformer.resblocks.0.mlp.c_fc.weight", "text.transformer.resblocks.0.mlp.c_fc.weight"},
    {"transformer.resblocks.0.mlp.c_proj.bias", "text.transformer.resblocks.0.mlp.c_proj.bias"},
    {"ln_final.weight", "text.ln_final.weight"},
    {"text_projection", "text.text_projection"},
    {"logit_scale", "logit_scale"},
    {"visual.trunk.patch_embed.proj.weight", "patch_embed.proj.weight"},
    {"visual.trunk.patch_embed.proj.bias", "patch_embed.proj.bias"},
    {"visual.trunk.blocks.3.attn.qkv.weight", "blocks.3.attn.qkv.weight"},
    {"visual.trunk.fc_norm.weight", "fc_norm.weight"},
    {"visual.head.proj.weight", "head.proj.weight"},
    {"visual.ln_pre.weight", "norm_pre.weight"},
    {"visual.other.weight", "visual.other.weight"},
};

static void names_of_open_clip(void **state) {
    enum { COUNT = sizeof open_clip / sizeof *open_clip };
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    float values[COUNT];
    smoe_tensor tensors[COUNT];
    smoe_safetensors *file;
    smoe_err err;
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = (float)(i + 1);
        tensors[i] = (smoe_tensor){
            .name = open_clip[i][0], .ndim = 1, .dim = {1}, .size = 1, .data = &values[i]};
    }
    scratch_path(s, path, "clip.safetensors");
    assert_int_equal(smoe_safetensors_write(path, &(const smoe_content){tensors, COUNT}, &err), 0);
    assert_int_equal(smoe_safetensors_open(&file, path, &err), 0);
    assert_int_equal(smoe_safetensors_count(file), COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        const smoe_tensor *t = smoe_safetensors_find(file, open_clip[i][1]);
        if (!t) fail_msg("%s is not %s", open_clip[i][0], open_clip[i][1]);
        real x;
        assert_true(smoe_tensor_convert(&x, t, 0, 1) && x == values[i]);
        assert_int_equal(t->ndim, strcmp(t->name, "logit_scale") != 0); /* a number in a list */
    }
    smoe_safetensors_free(file);
}

/* open_clip's projection of images has no bias unless asked for: here it is 0. */
static void projection_without_bias(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    const float values[] = {1, 2, 3, 4, 5, 6};
    const smoe_tensor tensors[] = {
        {.name = "visual.trunk.fc_norm.bias", .ndim = 1, .dim = {2}, .size = 2, .data = values},
        {.name = "visual.head.proj.weight", .ndim = 2, .dim = {3, 2}, .size = 6, .data = values}};
    smoe_safetensors *file;
    smoe_err err;
    scratch_path(s, path, "clip.safetensors");
    assert_int_equal(smoe_safetensors_write(path, &(const smoe_content){tensors, 2}, &err), 0);
    assert_int_equal(smoe_safetensors_open(&file, path, &err), 0);
    const smoe_tensor *t = smoe_safetensors_find(file, "head.proj.bias");
    assert_non_null(t);
    assert_true(t->ndim == 1 && t->dim[0] == 3);
    for (size_t i = 0; i < 3; i++) assert_true(((const float *)t->data)[i] == 0);
    smoe_safetensors_free(file);
}

/* A block without a bias that another block has is damaged, and not one whose bias is 0. */
static void bias_of_one_block(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    const float x[] = {1, 2, 3, 4};
    const smoe_tensor tensors[] = {
        {.name = "net.patch_embed.proj.weight",
         .ndim = 4,
         .dim = {1, 1, 1, 1},
         .size = 1,
         .data = x},
        {.name = "net.blocks.0.attn.proj.bias", .ndim = 1, .dim = {2}, .size = 2, .data = x},
        {.name = "net.blocks.0.attn.proj.weight", .ndim = 2, .dim = {2, 2}, .size = 4, .data = x},
        {.name = "net.blocks.11.attn.proj.weight", .ndim = 2, .dim = {2, 2}, .size = 4, .data = x},
        {.name = "net.blocks.11.mlp.fc2.weight", .ndim = 2, .dim = {2, 2}, .size = 4, .data = x}};
    smoe_safetensors *file;
    smoe_err err;
    scratch_path(s, path, "biases.safetensors");
    assert_int_equal(smoe_safetensors_write(path, &(const smoe_content){tensors, 5}, &err), 0);
    assert_int_equal(smoe_safetensors_open(&file, path, &err), 0);
    assert_null(smoe_safetensors_find(file, "blocks.11.attn.proj.bias"));
    assert_non_null(smoe_safetensors_find(file, "blocks.11.mlp.fc2.bias"));
    assert_string_equal(smoe_safetensors_note(file),
                        "weights of net; 2 biases that it lacks are 0");
    smoe_safetensors_free(file);
}

/* Names of the table that no other test has; some of a file with its parts. */
static void names_of_others(void **state) {
    static const char *const rows[][2] = {
        {"layers.11.attention.k_proj.weight", "blocks.11.attn.qkv.weight"},
        {"layers.0.attention.o_proj.bias", "blocks.0.attn.proj.bias"},
        {"layers.0.mlp.fc1.weight", "blocks.0.mlp.fc1.weight"},
        {"embeddings.distillation_token", "reg_token"},
        {"encoder.layer.2.layer_scale2.lambda1", "blocks.2.ls2.gamma"},
        {"encoder.layer.2.norm2.weight", "blocks.2.norm2.weight"},
        {"encoder.layers.3.self_attn.v_proj.bias", "blocks.3.attn.qkv.bias"},
        {"encoder.layers.3.layer_norm1.weight", "blocks.3.norm1.weight"},
        {"pre_layrnorm.bias", "norm_pre.bias"},
        {"post_layernorm.bias", "norm.bias"},
        {"head.mlp.fc2.weight", "attn_pool.mlp.fc2.weight"},
        {"text_model.encoder.layers.3.self_attn.q_proj.bias",
         "text.transformer.resblocks.3.attn.in_proj_bias"},
        {"text_model.head.bias", "text.text_projection_bias"},
        {"visual.transformer.resblocks.7.attn.in_proj_weight", "blocks.7.attn.qkv.weight"},
        {"visual.ln_post.weight", "norm.weight"},
        {"encoder.layers.encoder_layer_5.mlp.3.bias", "blocks.5.mlp.fc2.bias"},
        {"heads.head.weight", "head.weight"},
    };
    char to[SMOE_FOREIGN_NAME];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!smoe_foreign_rule_of(rows[i][0], to)) fail_msg("no rule for %s", rows[i][0]);
        assert_string_equal(to, rows[i][1]);
    }
    assert_null(smoe_foreign_rule_of("blocks.0.attn.qkv.weight", to));
    assert_null(smoe_foreign_rule_of("layers.0.mlp.fc1.gamma", to));
}

static void assert_refused(const char *path, const char *const *words) {
    smoe_safetensors *file;
    smoe_err err = {0};
    assert_int_equal(smoe_safetensors_open(&file, path, &err), -1);
    assert_null(file);
    assert_int_equal(err.code, SMOE_DATA);
    for (; *words; words++)
        if (!strstr(err.text, *words)) fail_msg("no '%s' in: %s", *words, err.text);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The pooling of SigLIP has its projections in one matrix; CLIP's class token is one row; layer
 * scale, here in F16, is folded; linear layers without biases get some. */
static void parts_and_factors(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    const float in[] = {1, 2, 3}, one[] = {7, 8}, weight[] = {1, 2, 3, 4}, bias[] = {5, 6};
    const uint16_t gamma[] = {0x4000, 0x3800}; /* 2, 0.5 */
    const smoe_tensor tensors[] = {
        {.name = "backbone.embeddings.patch_embedding.weight",
         .ndim = 4,
         .dim = {1, 1, 1, 1},
         .size = 1,
         .data = one},
        {.name = "backbone.embeddings.class_embedding",
         .ndim = 1,
         .dim = {2},
         .size = 2,
         .data = one},
        {.name = "backbone.head.attention.in_proj_bias",
         .ndim = 1,
         .dim = {3},
         .size = 3,
         .data = in},
        {.name = "backbone.encoder.layer.0.layer_scale1.lambda1",
         .dtype = SMOE_DTYPE_F16,
         .ndim = 1,
         .dim = {2},
         .size = 2,
         .data = gamma},
        {.name = "backbone.encoder.layer.0.attention.o_proj.weight",
         .ndim = 2,
         .dim = {2, 2},
         .size = 4,
         .data = weight},
        {.name = "backbone.encoder.layer.0.attention.o_proj.bias",
         .ndim = 1,
         .dim = {2},
         .size = 2,
         .data = bias},
        {.name = "classifier.weight", .ndim = 2, .dim = {2, 1}, .size = 2, .data = one},
    };
    static const struct {
        const char *name;
        int ndim;
        size_t size;
        float want[4];
    } wanted[] = {{"patch_embed.proj.weight", 4, 1, {7}},
                  {"patch_embed.proj.bias", 1, 1, {0}},
                  {"cls_token", 3, 2, {7, 8}},
                  {"attn_pool.q.bias", 1, 1, {1}},
                  {"attn_pool.kv.bias", 1, 2, {2, 3}},
                  {"blocks.0.attn.proj.bias", 1, 2, {10, 3}},
                  {"head.weight", 2, 2, {7, 8}},
                  {"head.bias", 1, 2, {0, 0}},
                  {"blocks.0.attn.proj.weight", 2, 4, {2, 4, 1.5F, 2}}};
    enum { COUNT = sizeof wanted / sizeof *wanted };
    smoe_safetensors *file;
    smoe_err err;
    scratch_path(s, path, "parts.safetensors");
    assert_int_equal(
        smoe_safetensors_write(
            path, &(const smoe_content){tensors, sizeof tensors / sizeof *tensors}, &err),
        0);
    assert_int_equal(smoe_safetensors_open(&file, path, &err), 0);
    assert_string_equal(smoe_safetensors_note(file),
                        "weights of backbone; 2 biases that it lacks are 0; layer scale is "
                        "folded into attn.proj and mlp.fc2");
    assert_int_equal(smoe_safetensors_count(file), COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        const smoe_tensor *t = smoe_safetensors_find(file, wanted[i].name);
        if (!t) fail_msg("no %s", wanted[i].name);
        assert_int_equal(t->ndim, wanted[i].ndim);
        assert_int_equal(t->size, wanted[i].size);
        assert_memory_equal(t->data, wanted[i].want, t->size * sizeof(float));
    }
    smoe_safetensors_free(file);
    /* Factors that are whole numbers, or that scale such, are none. */
    const int64_t whole[4] = {1, 1, 1, 1};
    for (size_t i = 3; i < 5; i++) {
        smoe_tensor other[sizeof tensors / sizeof *tensors];
        memcpy(other, tensors, sizeof tensors);
        other[i].dtype = SMOE_DTYPE_I64;
        other[i].data = whole;
        assert_int_equal(
            smoe_safetensors_write(
                path, &(const smoe_content){other, sizeof tensors / sizeof *tensors}, &err),
            0);
        assert_refused(path,
                       WORDS("parts.safetensors: tensor ", tensors[i].name,
                             ": dtype I64, expected F32, F16, BF16 or F64; save tensor.float()"));
    }
}

/* A file of tensors without elements to speak of: names, and the sizes of one or two axes. */
typedef struct stub {
    const char *name;
    size_t dim[2];
} stub;

static smoe_safetensors *stubs_open(const scratch *s, const stub *stubs, size_t count) {
    enum { MOST = 8 };
    static const float zeros[64];
    smoe_tensor tensors[MOST];
    char path[SCRATCH_PATH];
    smoe_safetensors *file;
    smoe_err err = {0};
    assert_true(count <= MOST);
    for (size_t i = 0; i < count; i++) {
        const size_t *dim = stubs[i].dim;
        tensors[i] = (smoe_tensor){.name = stubs[i].name,
                                   .ndim = dim[1] ? 2 : 1,
                                   .dim = {dim[0], dim[1]},
                                   .size = dim[0] * (dim[1] ? dim[1] : 1),
                                   .data = zeros};
    }
    scratch_path(s, path, "stubs.safetensors");
    assert_int_equal(smoe_safetensors_write(path, &(const smoe_content){tensors, count}, &err), 0);
    if (smoe_safetensors_open(&file, path, &err)) fail_msg("%s", err.text);
    return file;
}

/* SiglipForImageClassification does not use the pooling of its model; that of CLIP classifies what
 * no model here has; BEiT's keys have no bias; a token for masks is not used. */
static void settled(void **state) {
    static const stub siglip[] = {{"vision_model.embeddings.patch_embedding.weight", {2, 2}},
                                  {"vision_model.head.probe", {2, 2}},
                                  {"classifier.weight", {2, 2}}};
    static const stub clip[] = {{"vision_model.embeddings.patch_embedding.weight", {2, 2}},
                                {"vision_model.embeddings.class_embedding", {2}},
                                {"classifier.weight", {2, 2}}};
    static const stub beit[] = {
        {"beit.embeddings.patch_embeddings.projection.weight", {2, 2}},
        {"beit.embeddings.mask_token", {1, 2}},
        {"beit.encoder.layer.0.lambda_1", {2}},
        {"beit.encoder.layer.0.attention.attention.query.bias", {2}},
        {"beit.encoder.layer.0.attention.attention.value.bias", {2}},
    };
    smoe_safetensors *file = stubs_open(*state, siglip, 3);
    assert_null(smoe_safetensors_find(file, "attn_pool.latent"));
    assert_non_null(smoe_safetensors_find(file, "head.weight"));
    assert_non_null(strstr(smoe_safetensors_note(file), "does not use the pooling by attention"));
    smoe_safetensors_free(file);
    file = stubs_open(*state, clip, 3);
    assert_null(smoe_safetensors_find(file, "head.weight"));
    smoe_err err = {0};
    assert_int_equal(smoe_foreign_check(file, &err), -1);
    assert_non_null(strstr(err.text, "tensor classifier.weight: a classifier of the mean of "));
    smoe_safetensors_free(file);
    file = stubs_open(*state, beit, 5);
    const smoe_tensor *bias = smoe_safetensors_find(file, "blocks.0.attn.qkv.bias");
    assert_true(bias && bias->dim[0] == 6);
    assert_non_null(smoe_safetensors_find(file, "blocks.0.ls1.gamma"));
    assert_null(smoe_safetensors_find(file, "embeddings.mask_token"));
    smoe_safetensors_free(file);
}

/* Each function that no model here has is one line, whatever number of tensors it has. */
static void lacks(void **state) {
    static const struct {
        stub tensor[3];
        const char *word;
    } rows[] = {
        {{{"blocks.0.attn.relative_position_bias_table", {2}},
          {"blocks.1.attn.relative_position_bias_table", {2}}},
         "relative positions, as in BEiT"},
        {{{"blocks.0.attn.rel_pos.mlp.fc1.bias", {2}}}, "relative positions"},
        {{{"blocks.0.mlp.w12.weight", {2, 2}}}, "gated MLPs"},
        {{{"blocks.0.mlp.fc1.weight", {4, 2}}, {"blocks.0.mlp.fc2.weight", {2, 2}}}, "gated MLPs"},
        {{{"blocks.0.norm1.weight", {2}}}, "RMSNorm"},
        {{{"blocks.0.norm1.weight", {2}}, {"blocks.0.norm1.bias", {2}}, {"head.weight", {2, 4}}},
         "the class token and the mean of patches"},
        {{{"head_dist.weight", {2, 2}}}, "a second head"},
        {{{"patch_embed.proj.weight", {2, 2}}}, "NaFlex"},
        {{{"rope.freqs", {2}}}, "rotary positions"},
        {{{"blocks.0.attns.0.proj.bias", {2}}}, "several attentions"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t count = 0;
        while (count < 3 && rows[i].tensor[count].name) count++;
        smoe_safetensors *file = stubs_open(*state, rows[i].tensor, count);
        smoe_err err = {0};
        assert_int_equal(smoe_foreign_check(file, &err), -1);
        assert_int_equal(err.code, SMOE_DATA);
        if (!strstr(err.text, rows[i].word)) fail_msg("no '%s' in %s", rows[i].word, err.text);
        assert_null(strchr(err.text, '\n'));
        smoe_safetensors_free(file);
    }
    static const stub plain[] = {
        {"blocks.0.norm1.weight", {2}}, {"blocks.0.norm1.bias", {2}}, {"head.weight", {2, 2}}};
    smoe_safetensors *file = stubs_open(*state, plain, 3);
    assert_int_equal(smoe_foreign_check(file, NULL), 0);
    smoe_safetensors_free(file);
}

/* The parts of qkv may lie in several files. */
static void parts_in_shards(void **state) {
    const scratch *s = *state;
    static const char *const names[] = {"query", "key", "value"};
    char path[SCRATCH_PATH], index[1024] = "{\"weight_map\": {", name[4][96];
    const float value[] = {1, 2, 3, 4};
    smoe_safetensors *file;
    smoe_err err = {0};
    for (size_t i = 0; i < 4; i++) {
        if (i < 3)
            snprintf(name[i], sizeof name[i], "vit.encoder.layer.0.attention.attention.%s.bias",
                     names[i]);
        else
            snprintf(name[i], sizeof name[i], "vit.embeddings.patch_embeddings.projection.weight");
        const smoe_tensor t = {
            .name = name[i], .ndim = 1, .dim = {1}, .size = 1, .data = &value[i]};
        char own[32];
        snprintf(own, sizeof own, "%zu.safetensors", i);
        assert_int_equal(
            smoe_safetensors_write(scratch_path(s, path, own), &(const smoe_content){&t, 1}, &err),
            0);
        size_t at = strlen(index);
        snprintf(index + at, sizeof index - at, "%s\"%s\": \"%s\"", i ? ", " : "", name[i], own);
    }
    strcat(index, "}}");
    scratch_path(s, path, "m.safetensors.index.json");
    scratch_write(path, index, strlen(index));
    if (smoe_safetensors_open(&file, path, &err)) fail_msg("%s", err.text);
    const smoe_tensor *t = smoe_safetensors_find(file, "blocks.0.attn.qkv.bias");
    assert_true(t && t->size == 3);
    assert_memory_equal(t->data, value, 3 * sizeof *value);
    smoe_safetensors_free(file);
}

/* Thousands of tensors beside a model, as in a detector, take a second, and not minutes. */
static void many_others(void **state) {
    enum { OTHERS = 4000 };
    const scratch *s = *state;
    static char name[OTHERS + 1][48];
    static smoe_tensor tensors[OTHERS + 1];
    char path[SCRATCH_PATH];
    const float x = 1;
    smoe_safetensors *file;
    smoe_err err = {0};
    for (size_t i = 0; i <= OTHERS; i++) {
        snprintf(name[i], sizeof name[i], i ? "neck.%zu.w" : "backbone.patch_embed.proj.weight", i);
        tensors[i] = (smoe_tensor){
            .name = name[i], .ndim = i ? 1 : 4, .dim = {1, 1, 1, 1}, .size = 1, .data = &x};
    }
    scratch_path(s, path, "many.safetensors");
    assert_int_equal(smoe_safetensors_write(path, &(const smoe_content){tensors, OTHERS + 1}, &err),
                     0);
    clock_t began = clock();
    if (smoe_safetensors_open(&file, path, &err)) fail_msg("%s", err.text);
    assert_true(clock() - began < 20 * CLOCKS_PER_SEC);
    assert_int_equal(smoe_safetensors_count(file), OTHERS + 2); /* and a bias of zeros */
    assert_non_null(smoe_safetensors_find(file, "patch_embed.proj.weight"));
    smoe_safetensors_free(file);
}

/* The sum of an index counts tensors of all types. */
static void sizes_in_shards(void **state) {
    const scratch *s = *state;
    static const char index[] =
        "{\"metadata\": {\"total_size\": 12}, \"weight_map\": {\"w\": \"a.safetensors\", "
        "\"ids\": \"a.safetensors\"}}";
    char path[SCRATCH_PATH];
    const char data[12] = {0};
    size_t size;
    smoe_safetensors *file;
    smoe_err err = {0};
    char *bytes =
        raw_safetensors_file("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                             "\"ids\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
                             data, sizeof data, &size);
    scratch_write(scratch_path(s, path, "a.safetensors"), bytes, size);
    free(bytes);
    scratch_write(scratch_path(s, path, "a.safetensors.index.json"), index, sizeof index - 1);
    if (smoe_safetensors_open(&file, path, &err)) fail_msg("%s", err.text);
    assert_int_equal(smoe_safetensors_count(file), 2);
    smoe_safetensors_free(file);
}

/* An index of files of PyTorch, in which the parts of qkv lie apart. */
static void pickles_in_shards(void **state) {
    const scratch *s = *state;
    static const char *const names[] = {"query", "key", "value"};
    char path[SCRATCH_PATH], own[SCRATCH_PATH], name[96], index[1024] = "{\"weight_map\": {";
    const float value[] = {1, 2, 3};
    smoe_safetensors *file;
    smoe_err err = {0};
    for (size_t i = 0; i < 3; i++) {
        pickle p = {0};
        char bin[16];
        snprintf(name, sizeof name, "encoder.layer.0.attention.attention.%s.bias", names[i]);
        snprintf(bin, sizeof bin, "%zu.bin", i);
        add_storage(&p, "0", &value[i], 1);
        put(&p, "\x80\x02}(", 4);
        put_text(&p, name);
        put_tensor(&p, "0", 1, 0, 1, (size_t[]){1}, (size_t[]){1});
        put(&p, "u", 1);
        assert_int_equal(rename(write_pickle(s, path, &p), scratch_path(s, own, bin)), 0);
        size_t at = strlen(index);
        snprintf(index + at, sizeof index - at, "%s\"%s\": \"%s\"", i ? ", " : "", name, bin);
    }
    strcat(index, "}}");
    scratch_path(s, path, "pytorch_model.bin.index.json");
    scratch_write(path, index, strlen(index));
    path[strlen(path) - strlen(".index.json")] = '\0';
    if (smoe_safetensors_open(&file, path, &err)) fail_msg("%s", err.text);
    const smoe_tensor *t = smoe_safetensors_find(file, "blocks.0.attn.qkv.bias");
    assert_true(t && t->size == 3);
    assert_memory_equal(t->data, value, sizeof value);
    smoe_safetensors_free(file);
}

/* JAX writes bfloat16 as elements of two bytes without a meaning. */
static void arrays_of_jax(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH], bytes[128];
    zipfile zip = {0};
    const uint16_t x[] = {0x3f80, 0xc000};
    size_t n = header(bytes, "<V2", false, 1, (size_t[]){2}, &(const variant){.prefix = ""});
    memcpy(bytes + n, x, sizeof x);
    zipfile_add(&zip, "head/bias.npy", bytes, n + sizeof x);
    smoe_safetensors *file;
    smoe_err err;
    assert_int_equal(smoe_safetensors_open(&file, write_zip(s, path, "j.npz", &zip), &err), 0);
    const smoe_tensor *t = smoe_safetensors_find(file, "head.bias");
    assert_string_equal(t->type, "BF16");
    assert_memory_equal(t->data, x, sizeof x);
    smoe_safetensors_free(file);
}

/* ---- files that are refused ------------------------------------------------------------------ */

static void hostile_arrays(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH], bytes[256];
    static const struct {
        const char *dict, *word;
    } rows[] = {
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", "save array.astype('<f4')"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", "tensor x: the type of its"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
         "tensor x: the type"},
        {"{'descr': '<f4', 'shape': (2,), }", "x.npy: not an array that can be read: its shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "its shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2", "its shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "x.npy: 8 bytes of elements"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 2), }",
         "8 bytes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2), }", "its shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
         "its shape"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        zipfile zip = {0};
        size_t n = strlen(rows[i].dict);
        memcpy(bytes, "\x93NUMPY\x01\x00", 8);
        zipfile_little((unsigned char *)bytes + 8, n, 2);
        memcpy(bytes + 10, rows[i].dict, n);
        memset(bytes + 10 + n, 0, 8);
        zipfile_add(&zip, "x.npy", bytes, 10 + n + 8);
        assert_refused(write_zip(s, path, "bad.npz", &zip), WORDS("bad.npz: ", rows[i].word));
    }
    zipfile zip = {0};
    zipfile_add(&zip, "x.npy", "\x93NUMPY\x01\x00\xff\xff", 10);
    assert_refused(write_zip(s, path, "bad.npz", &zip), WORDS("x.npy: ", "it does not begin"));
    zipfile_add(&zip, "x.npy", "\x93NUMPY\x01\x00\xff\xff  ", 12);
    assert_refused(write_zip(s, path, "bad.npz", &zip),
                   WORDS("x.npy: ", "the length of its header"));
    zipfile_add(&zip, "readme.txt", "hello", 5);
    assert_refused(write_zip(s, path, "bad.npz", &zip),
                   WORDS("bad.npz: a zip file, but neither of arrays"));
    /* Layouts: an axis too few, a missing part, a part that occurs twice. */
    const variant plain = {.prefix = ""};
    const float values[64] = {0};
    add_array(&zip, "head/kernel", 1, (size_t[]){8}, values, &plain);
    assert_refused(write_zip(s, path, "bad.npz", &zip), WORDS("head/kernel: it has 1 axis"));
    add_array(&zip, "Transformer/encoderblock_0/MultiHeadDotProductAttention_1/key/bias", 2,
              (size_t[]){2, 4}, values, &plain);
    assert_refused(write_zip(s, path, "bad.npz", &zip),
                   WORDS("tensor blocks.0.attn.qkv.bias: part 1 of 3 is missing"));
    add_array(&zip, "params/embedding/kernel", 4, (size_t[]){1, 1, 1, 1}, values, &plain);
    add_array(&zip, "head/bias", 1, (size_t[]){8}, values, &plain);
    add_array(&zip, "params/head/bias", 1, (size_t[]){8}, values, &plain);
    assert_refused(write_zip(s, path, "bad.npz", &zip), WORDS("tensor head.bias: present twice"));
    add_array(&zip, "opt/0/1/embedding/kernel", 4, (size_t[]){1, 1, 1, 1}, values, &plain);
    assert_refused(write_zip(s, path, "bad.npz", &zip),
                   WORDS("bad.npz: opt/0/1/: the state of an optimiser"));
    /* A truncated file, and a damaged one. */
    add_arrays(&zip, &plain);
    const size_t listed = zip.size; /* the list of its members begins here */
    zipfile_end(&zip);
    scratch_path(s, path, "bad.npz");
    scratch_write(path, zip.bytes, zip.size / 2);
    assert_refused(path, WORDS("bad.npz"));
    scratch_write(path, zip.bytes, listed);
    assert_refused(path, WORDS("bad.npz: damaged: the list of its files, ", "it may be cut off"));
    scratch_write(path, zip.bytes, zip.size - 1); /* in the list */
    assert_refused(path, WORDS("bad.npz: damaged: the list of its files, "));
    /* Without the first bytes of its second member, which must not be left out */
    enum { LOST = 10 };
    unsigned char *second = memmem(zip.bytes + 4, zip.size - 4, "PK\3\4", 4);
    memmove(second, second + LOST, zip.size - LOST - (size_t)(second - zip.bytes));
    scratch_write(path, zip.bytes, zip.size - LOST);
    assert_refused(path, WORDS("bad.npz: damaged: "));
    zipfile_free(&zip);
    add_arrays(&zip, &plain);
    zipfile_end(&zip);
    zip.bytes[300] ^= 1;
    scratch_write(path, zip.bytes, zip.size);
    assert_refused(path, WORDS("bad.npz: ", "damaged"));
    zipfile_free(&zip);
}

/* Damaged pickles, those without tensors, and those that would run programs. */
static void hostile_pickles(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    static const struct {
        const char *bytes;
        size_t size;
        const char *word;
    } rows[] = {
#define ROW(bytes, word) {bytes, sizeof bytes - 1, word}
        ROW("\x80\x02"
            "cposix\nsystem\nX\5\0\0\0touchtR",
            "offset 2: posix system could run a program"),
        ROW("\x80\x02"
            "cbuiltins\neval\n",
            "builtins eval could run a program"),
        ROW("\x80\x04\x8c\2os\x8c\6system\x93.", "os system could run a program"),
        ROW("\x80\x02"
            "cargparse\nNamespace\n)\x81.",
            "there are no tensors in it"),
        ROW("\x80\x02]q\0h\0a.", "there are no tensors in it"),
        ROW("\x80\x02}q\0X\1\0\0\0mh\0s.", "there are no tensors in it"),
        ROW("\x80\x02.", "it ends without a value"),
        ROW("\x80\x02\x30", "nothing to remove"),
        ROW("\x80\x02\x94", "nothing to put into the memo"),
        ROW("\x80\x02}u", "items without their mark"),
        ROW("\x80\x02(u", "items without a dictionary"),
        ROW("\x80\x02}(Nu", "a key without a value"),
        ROW("\x80\x02h\7", "the memo has nothing there"),
        ROW("\x80\x02Nr\xff\xff\xff\xff", "a memo number beyond the size"),
        ROW("\x80\x02X\xff\xff\xff\xff", "the pickle ends in the middle"),
        ROW("\x80\x02\x8a\x09", "the pickle ends in the middle"),
        ROW("\x80\x02\x87", "a tuple of more values than there are"),
        ROW("\x80\x02NQ", "what it refers to is not a storage"),
        ROW("\x80\x02(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
            "7NK\1)tQ",
            "storage 7: a part of another"),
        ROW("\x80\x02NNR", "calls something that is not a function"),
        ROW("\x80\x02Nb", "sets the state of something that is not an object"),
        ROW("\x80\x02N\x93", "a name that is not a text"),
        ROW("\x80\x02i", "instruction 0x69"),
        ROW("\x80\x02"
            "ctorch._utils\n_rebuild_tensor_v2\n(NK\0))tR",
            "a tensor whose storage"),
        ROW("\x80\x02"
            "ctorch._utils\n_rebuild_parameter\n(NtR",
            "a parameter that is not a tensor"),
#undef ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pickle p = {0};
        put(&p, rows[i].bytes, rows[i].size);
        assert_refused(write_pickle(s, path, &p),
                       WORDS("model.pth: archive/data.pkl: ", rows[i].word));
    }
    /* Views beyond their storage, or of no storage. */
    static const struct {
        const char *key;
        size_t offset, dim[2], stride[2];
        const char *word;
    } views[] = {
        {"0", 0, {2, 5}, {5, 1}, "goes beyond its elements; the file has 8"},
        {"0", 7, {2, 1}, {1, 1}, "goes beyond"},
        {"0", 0, {2, 2}, {0x7fffffff, 1}, "goes beyond"},
        {"0", 0, {0x7fffffff, 0x7fffffff}, {0, 0}, "the tensors have more elements than the file"},
        {"0", 0, {500, 500}, {0, 0}, "save tensor.clone() of views"},
        {"1", 0, {2, 2}, {2, 1}, "data/1, are not in the file"},
        {"../0", 0, {2, 2}, {2, 1}, "data/../0, are not in the file"},
    };
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        pickle p = {0};
        const float values[8] = {0};
        add_storage(&p, "0", values, 8);
        put(&p, "\x80\x02}(", 4);
        put_text(&p, "weight");
        put_tensor(&p, views[i].key, 8, views[i].offset, 2, views[i].dim, views[i].stride);
        put(&p, "u", 1);
        assert_refused(write_pickle(s, path, &p), WORDS("tensor weight: ", views[i].word));
    }
    /* Elements of a machine that is big-endian, as torch.save writes them there. */
    for (int big = 0; big < 2; big++) {
        pickle p = {0};
        put(&p, "\x80\x02}(", 4);
        put_model(&p, "");
        put(&p, "u", 1);
        zipfile_add(&p.zip, "archive/byteorder", big ? "big" : "little", big ? 3 : 6);
        write_pickle(s, path, &p);
        if (big)
            assert_refused(path, WORDS("model.pth: archive/byteorder: its numbers are big-endian"));
        else
            assert_model(path, 0);
    }
    /* From before version 1.6: an end in a pickle, and in a storage. */
    scratch_path(s, path, "old.pth");
    scratch_write(path, LEGACY, sizeof LEGACY - 1);
    assert_refused(path, WORDS("old.pth: pickle 4 of 5, at offset 25: offset 0: the pickle ends"));
}

/* Tensors of a kind that is not read are named if they are of the model; elsewhere they do not
 * matter. With torch.expand a stride is 0. */
static void rare_tensors(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    static const struct {
        const char *module, *name, *why;
    } rows[] = {
        {"torch._utils", "_rebuild_sparse_tensor", "it is sparse; save tensor.to_dense()"},
        {"torch._utils", "_rebuild_qtensor", "it is quantized; save tensor.dequantize()"},
        {"torch._utils", "_rebuild_tensor_v3", "if they are quantized and have scales"},
        {"torch._utils", "_rebuild_meta_tensor_no_storage", "it has no elements (device meta)"},
        {"torch._utils", "_rebuild_nested_tensor", "it is not a plain tensor"},
        {"torch._tensor", "_rebuild_from_type_v2", "save tensor.as_subclass(torch.Tensor)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int beside = 0; beside < 2; beside++) {
            pickle p = {0};
            put(&p, "\x80\x02}(", 4);
            put_text(&p, beside ? "rest" : "model");
            put(&p, "}(", 2);
            put_text(&p, "weight");
            put_global(&p, rows[i].module, rows[i].name);
            put(&p, ")Ru", 3);
            if (beside) put_model(&p, "");
            put(&p, "u", 1);
            write_pickle(s, path, &p);
            if (beside)
                assert_model(path, 0);
            else
                assert_refused(path, WORDS("model.pth: tensor weight: ", rows[i].why));
        }
    static const struct {
        const char *type, *metadata, *why;
    } elements[] = {{"ComplexDoubleStorage", "", "it has elements of a rare type"},
                    {"FloatStorage", "}X\3\0\0\0neg\x88s", "it is a conj or neg view"}};
    for (size_t i = 0; i < 2; i++) {
        pickle p = {0};
        put(&p, "\x80\x02}(", 4);
        put_text(&p, "weight");
        put_global(&p, "torch._utils", "_rebuild_tensor_v2");
        put(&p, "((", 2);
        put_text(&p, "storage");
        put_global(&p, "torch", elements[i].type);
        put_text(&p, "0");
        put(&p, "tQK\0))\x89}", 8);
        put(&p, elements[i].metadata, i ? 11 : 0);
        put(&p, "tRu", 3);
        assert_refused(write_pickle(s, path, &p), WORDS("tensor weight: ", elements[i].why));
    }
    pickle p = {0};
    smoe_safetensors *file;
    smoe_err err;
    add_storage(&p, "0", (const float[]){1, 2, 3}, 3);
    put(&p, "\x80\x02}(", 4);
    put_text(&p, "weight");
    put_tensor(&p, "0", 3, 0, 2, (size_t[]){3, 4}, (size_t[]){1, 0});
    put(&p, "u", 1);
    if (smoe_safetensors_open(&file, write_pickle(s, path, &p), &err)) fail_msg("%s", err.text);
    const smoe_tensor *t = smoe_safetensors_find(file, "weight");
    assert_int_equal(t->size, 12);
    for (size_t i = 0; i < 12; i++) assert_true(((const float *)t->data)[i] == (float)(1 + i / 4));
    smoe_safetensors_free(file);
}

/* What Git leaves in the place of a large file that it has not fetched. */
static void pointer_of_git_lfs(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    static const char text[] = "version https://git-lfs.github.com/spec/v1\noid sha256:00\n";
    scratch_path(s, path, "vit.safetensors");
    scratch_write(path, text, sizeof text - 1);
    assert_refused(path, WORDS("vit.safetensors: a Git LFS pointer, not the file: `git lfs pull`"));
}

/* A thousand views of one storage have more elements than the file. */
static void small_files_stay_small(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH], name[16];
    pickle p = {0};
    static const float values[4096];
    add_storage(&p, "0", values, 4096);
    put(&p, "\x80\x02}(", 4);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "t%d", i);
        put_text(&p, name);
        put_tensor(&p, "0", 4096, 0, 1, (size_t[]){4096}, (size_t[]){1});
    }
    put(&p, "u", 1);
    assert_refused(write_pickle(s, path, &p),
                   WORDS("the tensors have more elements than the file"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_of_vit),
        cmocka_unit_test(pickles_of_tensors),
        cmocka_unit_test(names_of_hugging_face),
        cmocka_unit_test(names_of_open_clip),
        cmocka_unit_test(projection_without_bias),
        cmocka_unit_test(bias_of_one_block),
        cmocka_unit_test(hostile_arrays),
        cmocka_unit_test(hostile_pickles),
        cmocka_unit_test(rare_tensors),
        cmocka_unit_test(small_files_stay_small),
        cmocka_unit_test(old_file),
        cmocka_unit_test(whole_module),
        cmocka_unit_test(places),
        cmocka_unit_test(names_of_others),
        cmocka_unit_test(parts_and_factors),
        cmocka_unit_test(settled),
        cmocka_unit_test(lacks),
        cmocka_unit_test(parts_in_shards),
        cmocka_unit_test(many_others),
        cmocka_unit_test(sizes_in_shards),
        cmocka_unit_test(pickles_in_shards),
        cmocka_unit_test(arrays_of_jax),
        cmocka_unit_test(pointer_of_git_lfs),
    };
    struct CMUnitTest all[sizeof tests / sizeof *tests];
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        all[i] = tests[i];
        all[i].setup_func = scratch_setup;
        all[i].teardown_func = scratch_teardown;
    }
    return cmocka_run_group_tests(all, NULL, NULL);
}
