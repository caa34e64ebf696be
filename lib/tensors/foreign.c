/*
 * Model files of other programs as safetensors; see foreign.h. Every tensor of such a file is a
 * piece: a view with strides. A table maps pieces to tensors, or to parts of tensors, with the
 * order of their axes. Pieces that are not in the table keep their names and shapes.
 */
#include "tensors/foreign.h"
#include "base/frame.h"
#include "tensors/pickle.h"

#include <archive.h>
#include <archive_entry.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = SMOE_PICKLE_TEXT, DIMS = SMOE_TENSOR_DIMS };

typedef struct piece {
    char name[NAME];
    const char *type; /* as safetensors calls it */
    size_t bytes;     /* of an element */
    int ndim;
    size_t dim[DIMS], stride[DIMS]; /* in elements */
    const char *data;
} piece;

typedef struct member {
    char *name;
    char *bytes;
    size_t size;
} member;

typedef struct foreign {
    const char *path;
    member *member;
    piece *piece;
    size_t members, pieces, room;
    size_t held, used; /* bytes of all members, and of the pieces */
} foreign;

static void foreign_free(foreign *f) {
    for (size_t i = 0; i < f->members; i++) {
        free(f->member[i].name);
        free(f->member[i].bytes);
    }
    free(f->member);
    free(f->piece);
}

static int no_memory(const foreign *f, smoe_err *err) {
    return smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", f->path);
}

/* Without a limit, many views of the same bytes could add up to any size. */
static int piece_add(foreign *f, const piece *p, smoe_err *err) {
    enum { OFTEN = 4, MOST = 1 << 14 };
    size_t bytes = p->bytes;
    bool wide = false;
    for (int i = 0; i < p->ndim; i++) wide |= __builtin_mul_overflow(bytes, p->dim[i], &bytes);
    if (wide || __builtin_add_overflow(f->used, bytes, &f->used) || f->used / OFTEN > f->held)
        return smoe_fail(err, SMOE_DATA, "tensor %s: the tensors have more elements than the file",
                         p->name);
    if (f->pieces == MOST) return smoe_fail(err, SMOE_DATA, "more than %d tensors", MOST);
    if (f->pieces == f->room) {
        size_t room = 2 * f->room + 64;
        piece *more = realloc(f->piece, room * sizeof *more);
        if (!more) return no_memory(f, err);
        f->piece = more;
        f->room = room;
    }
    f->piece[f->pieces++] = *p;
    return 0;
}

/* ---- zip ------------------------------------------------------------------------------------- */

static int member_read(struct archive *zip, member *m, smoe_err *err) {
    size_t room = 0;
    for (;;) {
        if (m->size == room) {
            room = 2 * room + (1 << 16);
            char *more = realloc(m->bytes, room);
            if (!more) return smoe_fail(err, SMOE_RUNTIME, "out of memory for %zu bytes", room);
            m->bytes = more;
        }
        la_ssize_t n = archive_read_data(zip, m->bytes + m->size, room - m->size);
        if (n < 0) return smoe_fail(err, SMOE_DATA, "damaged: %s", archive_error_string(zip));
        if (!n) return 0;
        m->size += (size_t)n;
    }
}

static int next_member(foreign *f, struct archive *zip, const char *name, smoe_err *err) {
    char *own = strdup(name ? name : "");
    member *more = realloc(f->member, (f->members + 1) * sizeof *more);
    if (more) f->member = more;
    if (!own || !more) {
        free(own);
        return no_memory(f, err);
    }
    member *m = &f->member[f->members++];
    *m = (member){.name = own};
    if (member_read(zip, m, err)) return smoe_fail_prefix(err, "%s: %.200s", f->path, m->name);
    f->held += m->size;
    return 0;
}

static int unzip(foreign *f, const void *bytes, size_t size, smoe_err *err) {
    struct archive *zip = archive_read_new();
    struct archive_entry *entry;
    int status = -1, found = ARCHIVE_OK;
    if (!zip) return no_memory(f, err);
    if (archive_read_support_format_zip(zip) != ARCHIVE_OK ||
        archive_read_open_memory(zip, bytes, size) != ARCHIVE_OK) {
        smoe_fail(err, SMOE_DATA, "%s: not a zip file: %s", f->path, archive_error_string(zip));
        goto out;
    }
    while ((found = archive_read_next_header(zip, &entry)) == ARCHIVE_OK)
        if (next_member(f, zip, archive_entry_pathname(entry), err)) goto out;
    if (found != ARCHIVE_EOF) {
        smoe_fail(err, SMOE_DATA, "%s: damaged: %s", f->path, archive_error_string(zip));
        goto out;
    }
    status = 0;
out:
    archive_read_free(zip);
    return status;
}

static bool ends(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* ---- npz ------------------------------------------------------------------------------------- */

static const struct {
    const char *descr, *word;
    size_t bytes;
} types[] = {{"<f4", "F32", 4}, {"<f2", "F16", 2}, {"|V2", "BF16", 2},
             {"<f8", "F64", 8}, {"<i8", "I64", 8}, {"<i4", "I32", 4},
             {"|u1", "U8", 1},  {"|i1", "I8", 1},  {"|b1", "BOOL", 1}};

/* The value behind a key of the dictionary of an .npy header, or NULL. */
static const char *header_value(const char *header, const char *key) {
    const char *at = strstr(header, key);
    return at ? at + strlen(key) + strspn(at + strlen(key), " ") : NULL;
}

/* "(3, 4)", "(3,)", "()" */
static bool read_shape(const char *text, piece *p) {
    if (!text || *text++ != '(') return false;
    for (p->ndim = 0; *text != ')'; p->ndim++) {
        size_t digits = strspn(text, "0123456789");
        if (p->ndim == DIMS || !digits || digits > 18) return false;
        p->dim[p->ndim] = strtoull(text, NULL, 10);
        text += digits;
        if (*text != ',' && *text != ')') return false;
        text += *text == ',';
        text += strspn(text, " ");
    }
    return true;
}

/* Strides of the order C, or Fortran's, and the number of elements; false where it overflows. */
static bool set_strides(piece *p, bool fortran, size_t *count) {
    *count = 1;
    for (int i = 0; i < p->ndim; i++) {
        int axis = fortran ? i : p->ndim - 1 - i;
        p->stride[axis] = *count;
        if (__builtin_mul_overflow(*count, p->dim[axis], count)) return false;
    }
    return true;
}

static int bad_npy(smoe_err *err, const char *what) {
    return smoe_fail(err, SMOE_DATA, "not an array that can be read: %s", what);
}

static int npy_read(foreign *f, const member *m, smoe_err *err) {
    enum { MAGIC = 8, LONGEST = 1 << 12 };
    char header[LONGEST];
    piece p = {0};
    size_t wide, length = 0, count;
    if (m->size < MAGIC + 4 || memcmp(m->bytes, "\x93NUMPY", 6))
        return bad_npy(err, "it does not begin as .npy files do");
    wide = m->bytes[6] == 1 ? 2 : 4; /* of format 1, and 2 and 3 */
    for (size_t i = 0; i < wide; i++) length |= (size_t)(unsigned char)m->bytes[MAGIC + i] << 8 * i;
    size_t from = MAGIC + wide + length;
    if (length >= LONGEST || from > m->size) return bad_npy(err, "the length of its header");
    memcpy(header, m->bytes + MAGIC + wide, length);
    header[length] = '\0';
    const char *type = header_value(header, "'descr':");
    const char *order = header_value(header, "'fortran_order':");
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (*type == '\'' && !strncmp(type + 1, types[i].descr, 3) && type[4] == '\'') {
            p.type = types[i].word;
            p.bytes = types[i].bytes;
        }
    if (!p.type) return bad_npy(err, "the type of its elements");
    if (!order || (strncmp(order, "False", 5) && strncmp(order, "True", 4)) ||
        !read_shape(header_value(header, "'shape':"), &p))
        return bad_npy(err, "its shape");
    if (!set_strides(&p, *order == 'T', &count) || count > (m->size - from) / p.bytes ||
        count * p.bytes != m->size - from)
        return smoe_fail(err, SMOE_DATA, "%zu bytes of elements do not fit its shape",
                         m->size - from);
    p.data = m->bytes + from;
    snprintf(p.name, sizeof p.name, "%.*s", (int)(strlen(m->name) - 4), m->name);
    return piece_add(f, &p, err);
}

static int npz_read(foreign *f, smoe_err *err) {
    /* What members hold is freed with f. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    for (size_t i = 0; i < f->members; i++) {
        const member *m = &f->member[i];
        if (strlen(m->name) >= NAME)
            return smoe_fail(err, SMOE_DATA, "%s: %.200s: a name that is too long", f->path,
                             m->name);
        if (npy_read(f, m, err)) return smoe_fail_prefix(err, "%s: %s", f->path, m->name);
    }
    return 0;
}

/* ---- pth ------------------------------------------------------------------------------------- */

/* A tensor of the pickle that is the last member found in `user`. */
typedef struct pth {
    foreign *f;
    const char *folder; /* what comes before "data.pkl" */
    int letters;
} pth;

static const member *storage_of(const pth *x, const char *key) {
    char name[2 * NAME];
    snprintf(name, sizeof name, "%.*sdata/%s", x->letters, x->folder, key);
    for (size_t i = 0; i < x->f->members; i++)
        if (!strcmp(x->f->member[i].name, name)) return &x->f->member[i];
    return NULL;
}

static int add_tensor(void *user, const smoe_pickle_tensor *t, smoe_err *err) {
    const pth *x = user;
    const member *m = storage_of(x, t->storage);
    char shown[NAME];
    piece p = {.type = t->type, .bytes = t->bytes, .ndim = t->ndim};
    if (!m)
        return smoe_fail(err, SMOE_DATA, "tensor %s: its elements, data/%.40s, are not in the file",
                         smoe_text_shown(t->name, shown, sizeof shown), t->storage);
    size_t last = t->offset, count = 1;
    bool beyond = false;
    for (int i = 0; i < t->ndim; i++) {
        size_t reach;
        p.dim[i] = t->dim[i];
        p.stride[i] = t->stride[i];
        beyond |= __builtin_mul_overflow(count, t->dim[i], &count);
        if (!t->dim[i]) continue;
        beyond |= __builtin_mul_overflow(t->dim[i] - 1, t->stride[i], &reach);
        beyond |= __builtin_add_overflow(last, reach, &last);
    }
    size_t there = m->size / t->bytes;
    if (beyond || count > there || (count && last >= there))
        return smoe_fail(err, SMOE_DATA, "tensor %s: goes beyond its elements; the file has %zu",
                         smoe_text_shown(t->name, shown, sizeof shown), there);
    p.data = m->bytes + (count ? t->offset * t->bytes : 0);
    snprintf(p.name, sizeof p.name, "%s", strncmp(t->name, "module.", 7) ? t->name : t->name + 7);
    return piece_add(x->f, &p, err);
}

/* Nothing in a pickle is executed. A user who trusts the file can convert it with the program that
 * wrote it. */
static int say_conversion(const foreign *f, smoe_err *err) {
    return smoe_fail_more(
        err, SMOE_DATA,
        "%s: only dictionaries of tensors are read, and nothing is executed; a file that you trust "
        "is converted by: python3 -c \"import sys, torch; from safetensors.torch import save_file; "
        "d = torch.load(sys.argv[1], map_location='cpu', weights_only=False); d = d.get('model', "
        "d.get('state_dict', d)); save_file({k: v.contiguous() for k, v in d.items() if "
        "torch.is_tensor(v)}, sys.argv[2])\" %s weights.safetensors",
        f->path, f->path);
}

static int pth_read(foreign *f, const member *pickle, smoe_err *err) {
    pth x = {f, pickle->name, (int)(strlen(pickle->name) - strlen("data.pkl"))};
    smoe_err found = {0};
    if (!smoe_pickle_each(pickle->bytes, pickle->size, add_tensor, &x, &found)) return 0;
    smoe_fail_prefix(&found, "%s: %.200s", f->path, pickle->name);
    if (found.code == SMOE_DATA) say_conversion(f, &found);
    if (err) *err = found;
    return -1;
}

/* ---- names and layouts ----------------------------------------------------------------------- */

/* From one name to another; '#' is the number of a block, '?' any digit. The axes of the new tensor
 * are separated by commas, each the axes of the old one that are merged in it; NULL: as they are.
 * As part `part` of `parts`, one after the other on the first axis. */
typedef struct rule {
    const char *from, *to, *axes;
    int part, parts;
} rule;

#define FLAX(from, to)                             \
    {from "/kernel", to ".weight", "1,0", 0, 1}, { \
        from "/bias", to ".bias", NULL, 0, 1       \
    }
#define FLAX_NORM(from, to)                      \
    {from "/scale", to ".weight", NULL, 0, 1}, { \
        from "/bias", to ".bias", NULL, 0, 1     \
    }
#define FLAX_HEADS(from, to, part, parts)                  \
    {from "/kernel", to ".weight", "12,0", part, parts}, { \
        from "/bias", to ".bias", "01", part, parts        \
    }
#define FLAX_OUT(from, to)                          \
    {from "/kernel", to ".weight", "2,01", 0, 1}, { \
        from "/bias", to ".bias", NULL, 0, 1        \
    }
#define BLOCK "Transformer/encoderblock_#/"
static const rule flax[] = {
    {"embedding/kernel", "patch_embed.proj.weight", "3,2,0,1", 0, 1},
    {"embedding/bias", "patch_embed.proj.bias", NULL, 0, 1},
    {"cls", "cls_token", NULL, 0, 1},
    {"Transformer/posembed_input/pos_embedding", "pos_embed", NULL, 0, 1},
    {"pos_embedding", "pos_embed", NULL, 0, 1},
    FLAX_NORM(BLOCK "LayerNorm_0", "blocks.#.norm1"),
    FLAX_HEADS(BLOCK "MultiHeadDotProductAttention_?/query", "blocks.#.attn.qkv", 0, 3),
    FLAX_HEADS(BLOCK "MultiHeadDotProductAttention_?/key", "blocks.#.attn.qkv", 1, 3),
    FLAX_HEADS(BLOCK "MultiHeadDotProductAttention_?/value", "blocks.#.attn.qkv", 2, 3),
    FLAX_OUT(BLOCK "MultiHeadDotProductAttention_?/out", "blocks.#.attn.proj"),
    FLAX_NORM(BLOCK "LayerNorm_?", "blocks.#.norm2"),
    FLAX(BLOCK "MlpBlock_?/Dense_0", "blocks.#.mlp.fc1"),
    FLAX(BLOCK "MlpBlock_?/Dense_1", "blocks.#.mlp.fc2"),
    FLAX_NORM("Transformer/encoder_norm", "norm"),
    {"MAPHead_0/probe", "attn_pool.latent", NULL, 0, 1},
    FLAX_HEADS("MAPHead_0/MultiHeadDotProductAttention_0/query", "attn_pool.q", 0, 1),
    FLAX_HEADS("MAPHead_0/MultiHeadDotProductAttention_0/key", "attn_pool.kv", 0, 2),
    FLAX_HEADS("MAPHead_0/MultiHeadDotProductAttention_0/value", "attn_pool.kv", 1, 2),
    FLAX_OUT("MAPHead_0/MultiHeadDotProductAttention_0/out", "attn_pool.proj"),
    FLAX_NORM("MAPHead_0/LayerNorm_0", "attn_pool.norm"),
    FLAX("MAPHead_0/MlpBlock_0/Dense_0", "attn_pool.mlp.fc1"),
    FLAX("MAPHead_0/MlpBlock_0/Dense_1", "attn_pool.mlp.fc2"),
    FLAX("head", "head"),
};
#undef BLOCK

/* Hugging Face's names; smoe-convert(1) writes them by the same table. */
#define BOTH(from, to, part, parts)                      \
    {from ".weight", to ".weight", NULL, part, parts}, { \
        from ".bias", to ".bias", NULL, part, parts      \
    }
#define LAYER "vit.encoder.layer.#."
static const rule hugging_face[] = {
    {"vit.embeddings.cls_token", "cls_token", NULL, 0, 1},
    {"vit.embeddings.position_embeddings", "pos_embed", NULL, 0, 1},
    BOTH("vit.embeddings.patch_embeddings.projection", "patch_embed.proj", 0, 1),
    BOTH(LAYER "layernorm_before", "blocks.#.norm1", 0, 1),
    BOTH(LAYER "attention.attention.query", "blocks.#.attn.qkv", 0, 3),
    BOTH(LAYER "attention.attention.key", "blocks.#.attn.qkv", 1, 3),
    BOTH(LAYER "attention.attention.value", "blocks.#.attn.qkv", 2, 3),
    BOTH(LAYER "attention.output.dense", "blocks.#.attn.proj", 0, 1),
    BOTH(LAYER "layernorm_after", "blocks.#.norm2", 0, 1),
    BOTH(LAYER "intermediate.dense", "blocks.#.mlp.fc1", 0, 1),
    BOTH(LAYER "output.dense", "blocks.#.mlp.fc2", 0, 1),
    BOTH("vit.layernorm", "norm", 0, 1),
    BOTH("classifier", "head", 0, 1),
};
#undef LAYER

/* open_clip's names of a text tower, where they have no "text." in front. Those of an image tower
 * from timm lose "visual.trunk." (strip_prefix). */
#define TEXT(name) \
    { name, "text." name, NULL, 0, 1 }
#define BLOCK "transformer.resblocks.#."
static const rule open_clip[] = {
    TEXT("token_embedding.weight"),
    TEXT("positional_embedding"),
    TEXT("text_projection"),
    TEXT("ln_final.weight"),
    TEXT("ln_final.bias"),
    TEXT(BLOCK "ln_1.weight"),
    TEXT(BLOCK "ln_1.bias"),
    TEXT(BLOCK "ln_2.weight"),
    TEXT(BLOCK "ln_2.bias"),
    TEXT(BLOCK "attn.in_proj_weight"),
    TEXT(BLOCK "attn.in_proj_bias"),
    TEXT(BLOCK "attn.out_proj.weight"),
    TEXT(BLOCK "attn.out_proj.bias"),
    TEXT(BLOCK "mlp.c_fc.weight"),
    TEXT(BLOCK "mlp.c_fc.bias"),
    TEXT(BLOCK "mlp.c_proj.weight"),
    TEXT(BLOCK "mlp.c_proj.bias"),
    {"visual.head.proj.weight", "head.proj.weight", NULL, 0, 1},
    {"visual.head.proj.bias", "head.proj.bias", NULL, 0, 1},
};
#undef BLOCK
#undef TEXT
enum {
    CLIP_RULES = sizeof open_clip / sizeof *open_clip,
    FLAX_RULES = sizeof flax / sizeof *flax,
    HF_RULES = sizeof hugging_face / sizeof *hugging_face
};

/* Whether a name matches a pattern; `number` gets the digits of '#'. */
static bool matches(const char *pattern, const char *name, char number[16]) {
    for (; *pattern; pattern++) {
        size_t digits = strspn(name, "0123456789");
        if (*pattern == '#') {
            if (!digits || digits > 6) return false;
            snprintf(number, 16, "%.*s", (int)digits, name);
            name += digits;
        } else if (*pattern == '?' ? !digits : *pattern != *name) {
            return false;
        } else {
            name++;
        }
    }
    return !*name;
}

/* A pattern with the number in its place. */
static void fill_in(char out[NAME], const char *pattern, const char *number) {
    const char *hash = strchr(pattern, '#');
    if (hash)
        snprintf(out, NAME, "%.*s%s%s", (int)(hash - pattern), pattern, number, hash + 1);
    else
        snprintf(out, NAME, "%s", pattern);
}

/* A tensor to be made, from consecutive pieces. */
enum { PARTS = 3 };
typedef struct target {
    char name[NAME];
    const piece *part[PARTS];
    const rule *rule[PARTS]; /* NULL: as it is */
    int parts;
    int ndim;
    size_t dim[DIMS], size; /* bytes */
} target;

typedef struct targets {
    target *target;
    size_t count;
} targets;

static target *target_of(targets *t, const char *name) {
    for (size_t i = t->count; i-- > 0;)
        if (!strcmp(t->target[i].name, name)) return &t->target[i];
    target *fresh = &t->target[t->count++];
    snprintf(fresh->name, sizeof fresh->name, "%s", name);
    return fresh;
}

static int assign(targets *all, const piece *p, const rule *rules, size_t count, smoe_err *err) {
    char number[16] = "", name[NAME];
    size_t i = 0;
    while (i < count && !matches(rules[i].from, p->name, number)) i++;
    if (i < count)
        fill_in(name, rules[i].to, number);
    else
        snprintf(name, sizeof name, "%s", p->name);
    target *t = target_of(all, name);
    int part = i < count ? rules[i].part : 0;
    if (t->part[part])
        return smoe_fail(err, SMOE_DATA, "tensor %s: present twice, as %s and as %s", name,
                         t->part[part]->name, p->name);
    t->part[part] = p;
    t->rule[part] = i < count ? &rules[i] : NULL;
    t->parts = i < count ? rules[i].parts : 1;
    return 0;
}

/* The order in which the axes of a piece are read, and the resulting shape; false if the piece does
 * not have the axes of its rule. */
static bool axes_of(const piece *p, const rule *r, int order[DIMS], int *ndim, size_t dim[DIMS]) {
    const char *axes = r ? r->axes : NULL;
    int axis = 0;
    *ndim = axes ? 1 : p->ndim;
    for (int i = 0; !axes && i < p->ndim; i++) dim[order[i] = i] = p->dim[i];
    if (axes) dim[0] = 1;
    for (; axes && *axes; axes++) {
        if (*axes == ',') {
            dim[(*ndim)++] = 1;
            continue;
        }
        if (axis == p->ndim) return false;
        order[axis] = *axes - '0';
        if (order[axis] >= p->ndim) return false;
        dim[*ndim - 1] *= p->dim[order[axis++]];
    }
    return !axes || axis == p->ndim;
}

/* Shapes of the parts and of the whole. */
static int shape(target *t, smoe_err *err) {
    for (int k = 0; k < t->parts; k++) {
        const piece *p = t->part[k];
        int order[DIMS], ndim;
        size_t dim[DIMS] = {0}, bytes;
        if (!p)
            return smoe_fail(err, SMOE_DATA, "tensor %s: part %d of %d is missing", t->name, k + 1,
                             t->parts);
        if (!axes_of(p, t->rule[k], order, &ndim, dim) || (t->parts > 1 && !ndim))
            return smoe_fail(err, SMOE_DATA, "tensor %s: it has %d axes", p->name, p->ndim);
        bool same = !k || (ndim == t->ndim && p->bytes == t->part[0]->bytes &&
                           !strcmp(p->type, t->part[0]->type));
        for (int i = 1; k && same && i < ndim; i++) same = dim[i] == t->dim[i];
        if (!same)
            return smoe_fail(err, SMOE_DATA, "tensor %s: shape or type differ from those of %s",
                             p->name, t->part[0]->name);
        if (k)
            t->dim[0] += dim[0];
        else
            memcpy(t->dim, dim, sizeof dim);
        t->ndim = ndim;
        bytes = p->bytes;
        for (int i = 0; i < p->ndim; i++) bytes *= p->dim[i];
        t->size += bytes;
    }
    return 0;
}

/* The elements of a piece in the order of its axes; returns where the next ones go. */
static char *gather(char *out, const piece *p, const int order[DIMS], int axis, const char *from) {
    if (axis == p->ndim) {
        memcpy(out, from, p->bytes);
        return out + p->bytes;
    }
    size_t n = p->dim[order[axis]], stride = p->stride[order[axis]] * p->bytes;
    if (axis == p->ndim - 1 && stride == p->bytes) {
        memcpy(out, from, n * p->bytes);
        return out + n * p->bytes;
    }
    for (size_t i = 0; i < n; i++) out = gather(out, p, order, axis + 1, from + i * stride);
    return out;
}

/* ---- safetensors in memory ------------------------------------------------------------------- */

static void fill(const target *t, char *out) {
    for (int k = 0; k < t->parts; k++) {
        int order[DIMS], ndim;
        size_t dim[DIMS], size = 1;
        const piece *p = t->part[k];
        for (int i = 0; i < p->ndim; i++) size *= p->dim[i];
        if (axes_of(p, t->rule[k], order, &ndim, dim) && size)
            out = gather(out, p, order, 0, p->data);
    }
}

static char *header_of(const targets *all, const smoe_pair *pairs, size_t count) {
    json_t *header = json_object(), *metadata = json_object();
    size_t at = 0;
    for (size_t i = 0; i < count; i++)
        json_object_set_new(metadata, pairs[i].key, json_string(pairs[i].value));
    if (count)
        json_object_set_new(header, "__metadata__", metadata);
    else
        json_decref(metadata);
    for (size_t i = 0; i < all->count; i++) {
        const target *t = &all->target[i];
        json_t *dims = json_array();
        for (int k = 0; k < t->ndim; k++)
            json_array_append_new(dims, json_integer((json_int_t)t->dim[k]));
        json_object_set_new(header, t->name,
                            json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->part[0]->type, "shape",
                                      dims, "data_offsets", (json_int_t)at,
                                      (json_int_t)at + (json_int_t)t->size));
        at += t->size;
    }
    char *text = smoe_json_whole(header, JSON_COMPACT);
    json_decref(header);
    return text;
}

/* Padded so that data begins where a line of the cache does. */
static int serialise(void **made, size_t *size, const foreign *f, targets *all,
                     const smoe_pair *pairs, size_t count, smoe_err *err) {
    enum { LENGTH = 8, ALIGN = 64 };
    size_t data = 0;
    char *text = header_of(all, pairs, count);
    if (!text) return smoe_fail(err, SMOE_DATA, "%s: names that are not UTF-8", f->path);
    for (size_t i = 0; i < all->count; i++) data += all->target[i].size;
    size_t letters = strlen(text), begin = (LENGTH + letters + ALIGN - 1) / ALIGN * ALIGN;
    smoe_arena arena = {0};
    smoe_arena_take(&arena, begin + data, 1);
    if (smoe_arena_bind(&arena, err)) {
        free(text);
        return smoe_fail_prefix(err, "%s", f->path);
    }
    char *out = arena.base;
    uint64_t length = begin - LENGTH;
    memcpy(out, &length, LENGTH);
    memset(out + LENGTH, ' ', length);
    memcpy(out + LENGTH, text, letters);
    free(text);
    out += begin;
    for (size_t i = 0; i < all->count; i++) {
        fill(&all->target[i], out);
        out += all->target[i].size;
    }
    *made = arena.base;
    *size = begin + data;
    return 0;
}

void smoe_foreign_free(void *made, size_t size) {
    smoe_arena arena = {.base = made, .size = size};
    smoe_arena_free(&arena);
}

static int make(void **made, size_t *size, const foreign *f, const rule *rules, size_t count,
                const smoe_pair *pairs, size_t pair_count, smoe_err *err) {
    targets all = {.target = calloc(f->pieces + 1, sizeof *all.target)};
    int status = all.target ? 0 : no_memory(f, err);
    for (size_t i = 0; !status && i < f->pieces; i++)
        status = assign(&all, &f->piece[i], rules, count, err);
    for (size_t i = 0; !status && i < all.count; i++) status = shape(&all.target[i], err);
    if (status && all.target) smoe_fail_prefix(err, "%s", f->path);
    if (!status) status = serialise(made, size, f, &all, pairs, pair_count, err);
    free(all.target);
    return status;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* big_vision stacks the blocks of a scan: "encoderblock/..." with an axis of depth in front. */
static int unstack(foreign *f, smoe_err *err) {
    static const char stacked[] = "Transformer/encoderblock/";
    size_t count = f->pieces, kept = 0;
    for (size_t i = 0; i < count; i++) {
        piece p = f->piece[i];
        if (strncmp(p.name, stacked, sizeof stacked - 1) || !p.ndim) continue;
        piece one = p;
        one.ndim--;
        memmove(one.dim, one.dim + 1, (DIMS - 1) * sizeof *one.dim);
        memmove(one.stride, one.stride + 1, (DIMS - 1) * sizeof *one.stride);
        for (size_t k = 0; k < p.dim[0]; k++) {
            snprintf(one.name, sizeof one.name, "Transformer/encoderblock_%zu/%.100s", k,
                     p.name + sizeof stacked - 1);
            one.data = p.data + k * p.stride[0] * p.bytes;
            if (piece_add(f, &one, err)) return smoe_fail_prefix(err, "%s", f->path);
        }
        f->piece[i].type = NULL; /* replaced */
    }
    for (size_t i = 0; i < f->pieces; i++)
        if (f->piece[i].type) f->piece[kept++] = f->piece[i];
    f->pieces = kept;
    return 0;
}

/* The prefixes of names in files of the ViT and big_vision code, and of open_clip. */
static void strip_prefix(piece *p) {
    static const char *const prefixes[] = {"opt/target/", "target/", "params/img/", "params/",
                                           "visual.trunk."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t letters = strlen(prefixes[i]);
        if (strncmp(p->name, prefixes[i], letters)) continue;
        memmove(p->name, p->name + letters, strlen(p->name + letters) + 1);
        return;
    }
}

/* Whether a name is one of a model of open_clip that this program calls otherwise. */
static bool is_open_clip(const char *name) {
    char number[16];
    return matches("transformer.resblocks.#.ln_1.weight", name, number) ||
           !strncmp(name, "visual.trunk.", strlen("visual.trunk."));
}

/* open_clip's projection of images has a bias only if asked for; without one it is 0. */
static int add_projection_bias(foreign *f, smoe_err *err) {
    static const char weight[] = "visual.head.proj.weight", bias[] = "visual.head.proj.bias";
    static const char zero[sizeof(double)];
    const piece *found = NULL;
    for (size_t i = 0; i < f->pieces; i++) {
        if (!strcmp(f->piece[i].name, bias)) return 0;
        if (!strcmp(f->piece[i].name, weight) && f->piece[i].ndim == 2) found = &f->piece[i];
    }
    if (!found) return 0;
    piece p = {.type = found->type, .bytes = found->bytes, .ndim = 1, .data = zero};
    p.dim[0] = found->dim[0]; /* the same element, with a stride of 0 */
    memcpy(p.name, bias, sizeof bias);
    return piece_add(f, &p, err);
}

/* From the names of timm, Hugging Face or open_clip. */
static int make_named(void **made, size_t *size, foreign *f, const smoe_pair *pairs, size_t count,
                      smoe_err *err) {
    bool clip = false;
    for (size_t i = 0; i < f->pieces; i++) clip |= is_open_clip(f->piece[i].name);
    for (size_t i = 0; clip && i < f->pieces; i++) strip_prefix(&f->piece[i]);
    if (clip && add_projection_bias(f, err)) return smoe_fail_prefix(err, "%s", f->path);
    if (clip) return make(made, size, f, open_clip, CLIP_RULES, pairs, count, err);
    return make(made, size, f, hugging_face, HF_RULES, pairs, count, err);
}

static const char LEGACY[] = "\x80\x02\x8a\x0a"; /* PyTorch's magic number before it used zip */

bool smoe_foreign_begins(const void *bytes, size_t size) {
    return size >= 4 && (!memcmp(bytes, "PK\3\4", 4) || !memcmp(bytes, LEGACY, 4));
}

static int read_zip(foreign *f, void **made, size_t *made_size, const void *bytes, size_t size,
                    smoe_err *err) {
    const member *pickle = NULL;
    bool arrays = true;
    if (unzip(f, bytes, size, err)) return -1;
    for (size_t i = 0; i < f->members; i++) {
        const char *name = f->member[i].name;
        arrays &= ends(name, ".npy");
        if (ends(name, "/data.pkl") || !strcmp(name, "data.pkl")) pickle = &f->member[i];
    }
    if (pickle) {
        if (pth_read(f, pickle, err)) return -1;
        return make_named(made, made_size, f, NULL, 0, err);
    }
    if (!arrays || !f->members)
        return smoe_fail(err, SMOE_DATA,
                         "%s: a zip file, but neither of arrays (.npz) nor from PyTorch (.pth)",
                         f->path);
    if (npz_read(f, err)) return -1;
    for (size_t i = 0; i < f->pieces; i++) strip_prefix(&f->piece[i]);
    if (unstack(f, err)) return -1;
    return make(made, made_size, f, flax, FLAX_RULES, NULL, 0, err);
}

int smoe_foreign_convert(void **made, size_t *made_size, const void *bytes, size_t size,
                         const char *path, smoe_err *err) {
    foreign f = {.path = path};
    if (!memcmp(bytes, LEGACY, 4)) {
        smoe_err found = {0};
        smoe_fail(&found, SMOE_DATA, "%s: a PyTorch file from before version 1.6", path);
        say_conversion(&f, &found);
        if (err) *err = found;
        return -1;
    }
    int status = read_zip(&f, made, made_size, bytes, size, err);
    foreign_free(&f);
    return status;
}

/* The piece for a tensor of a safetensors file. */
static int add_named(foreign *f, const smoe_tensor *t, const char *prefix, smoe_err *err) {
    piece p = {
        .type = t->type, .bytes = smoe_dtype_bytes(t->dtype), .ndim = t->ndim, .data = t->data};
    char shown[NAME];
    size_t elements;
    if (!p.bytes || strlen(prefix) + strlen(t->name) >= NAME)
        return smoe_fail(err, SMOE_DATA, "%s: tensor %s: type %s, or its name is too long", f->path,
                         smoe_text_shown(t->name, shown, sizeof shown), t->type);
    memcpy(p.dim, t->dim, sizeof p.dim);
    snprintf(p.name, sizeof p.name, "%s%s", prefix, t->name);
    (void)set_strides(&p, false, &elements);
    return piece_add(f, &p, err) ? smoe_fail_prefix(err, "%s", f->path) : 0;
}

int smoe_foreign_rename(void **made, size_t *made_size, const smoe_safetensors *file,
                        smoe_err *err) {
    static const char query[] = "vit.encoder.layer.#.attention.attention.query.weight";
    foreign f = {.path = smoe_safetensors_path(file), .held = SIZE_MAX};
    smoe_pair *pairs = NULL;
    size_t count = smoe_safetensors_count(file), pair_count = 0, whole = 0, bare = 0, clip = 0;
    int status = 0;
    char number[16];
    for (size_t i = 0; i < count; i++) {
        whole += matches(query, smoe_safetensors_at(file, i)->name, number);
        bare += matches(query + strlen("vit."), smoe_safetensors_at(file, i)->name, number);
        clip += is_open_clip(smoe_safetensors_at(file, i)->name);
    }
    if (!whole && !bare && !clip) return 0;
    for (size_t i = 0; !status && i < count; i++)
        status = add_named(&f, smoe_safetensors_at(file, i), bare && !whole ? "vit." : "", err);
    if (!status) status = smoe_safetensors_pairs(file, &pairs, &pair_count, err);
    if (!status) status = make_named(made, made_size, &f, pairs, pair_count, err);
    free(pairs);
    foreign_free(&f);
    return status ? -1 : 1;
}

/* ---- to the names of others ------------------------------------------------------------------ */

/* Adds the tensors that a tensor becomes, with their names in `letters`; returns their number. */
static size_t split(smoe_tensor *out, char (*name)[NAME], const smoe_tensor *t) {
    size_t count = 0;
    char number[16] = "";
    for (size_t i = 0; i < HF_RULES; i++) {
        const rule *r = &hugging_face[i];
        if (!matches(r->to, t->name, number) || (r->parts > 1 && (!t->ndim || t->dim[0] % 3)))
            continue;
        smoe_tensor *part = &out[count];
        size_t bytes = smoe_dtype_bytes(t->dtype);
        *part = *t;
        fill_in(name[count], r->from, number);
        part->name = name[count++];
        if (r->parts == 1) continue;
        part->dim[0] /= (size_t)r->parts;
        part->size /= (size_t)r->parts;
        part->data = (const char *)t->data + (size_t)r->part * part->size * bytes;
    }
    return count;
}

int smoe_foreign_names(smoe_tensor **tensors, size_t *count, const smoe_safetensors *file,
                       bool other, smoe_err *err) {
    size_t all = smoe_safetensors_count(file), room = other ? PARTS * all : all;
    /* One block: the tensors, then their names. */
    smoe_tensor *block = malloc((room + 1) * (sizeof *block + (other ? NAME : 0)));
    char(*name)[NAME] = (void *)(block + room + 1);
    smoe_err found = {0};
    *count = 0;
    *tensors = block;
    if (!block) return smoe_fail(err, SMOE_RUNTIME, "out of memory for %zu tensors", all);
    for (size_t i = 0; i < all; i++) {
        const smoe_tensor *t = smoe_safetensors_at(file, i);
        char shown[NAME];
        size_t parts = 1;
        if (other)
            parts = split(block + *count, name + *count, t);
        else
            block[*count] = *t;
        if (!parts)
            smoe_fail_more(&found, SMOE_USAGE,
                           "%s: tensor %s: Hugging Face's ViT has no such tensor",
                           smoe_safetensors_path(file), smoe_text_shown(t->name, shown, NAME));
        *count += parts;
    }
    if (!found.code) return 0;
    free(block);
    *tensors = NULL;
    if (err) *err = found;
    return -1;
}
