/*
 * Model files of other programs as safetensors; see foreign.h. foreign_files.c reads their tensors
 * as pieces. A table of foreign_names.c maps pieces to tensors, or to parts of tensors, with the
 * order of their axes. Pieces that are not in the table keep their names and shapes.
 */
#include "tensors/foreign.h"
#include "tensors/foreign_files.h"
#include "tensors/foreign_names.h"
#include "base/json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = SMOE_FOREIGN_NAME, DIMS = SMOE_FOREIGN_DIMS, PARTS = SMOE_FOREIGN_PARTS };

typedef smoe_foreign_piece piece;
typedef smoe_foreign_rule rule;

/* ---- pieces to tensors ----------------------------------------------------------------------- */

/* A tensor to be made, from consecutive pieces. */
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

static int assign(targets *all, const piece *p, const smoe_foreign_rules *rules, smoe_err *err) {
    char number[16] = "", name[NAME];
    size_t i = 0;
    while (i < rules->count && !smoe_foreign_matches(rules->rule[i].from, p->name, number)) i++;
    const rule *r = i < rules->count ? &rules->rule[i] : NULL;
    if (r)
        smoe_foreign_fill_in(name, r->to, number);
    else
        snprintf(name, sizeof name, "%s", p->name);
    target *t = target_of(all, name);
    int part = r ? r->part : 0;
    if (t->part[part])
        return smoe_fail(err, SMOE_DATA, "tensor %s: present twice, as %s and as %s", name,
                         t->part[part]->name, p->name);
    t->part[part] = p;
    t->rule[part] = r;
    t->parts = r ? r->parts : 1;
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
static int serialise(void **made, size_t *size, const smoe_foreign_file *f, targets *all,
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

static int make(void **made, size_t *size, const smoe_foreign_file *f,
                const smoe_foreign_rules *rules, const smoe_pair *pairs, size_t pair_count,
                smoe_err *err) {
    targets all = {.target = calloc(f->pieces + 1, sizeof *all.target)};
    int status = all.target ? 0 : smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", f->path);
    for (size_t i = 0; !status && i < f->pieces; i++)
        status = assign(&all, &f->piece[i], rules, err);
    for (size_t i = 0; !status && i < all.count; i++) status = shape(&all.target[i], err);
    if (status && all.target) smoe_fail_prefix(err, "%s", f->path);
    if (!status) status = serialise(made, size, f, &all, pairs, pair_count, err);
    free(all.target);
    return status;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* big_vision stacks the blocks of a scan: "encoderblock/..." with an axis of depth in front. */
static int unstack(smoe_foreign_file *f, smoe_err *err) {
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
            if (smoe_foreign_add(f, &one, err)) return smoe_fail_prefix(err, "%s", f->path);
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
    return smoe_foreign_matches("transformer.resblocks.#.ln_1.weight", name, number) ||
           !strncmp(name, "visual.trunk.", strlen("visual.trunk."));
}

/* open_clip's projection of images has a bias only if asked for; without one it is 0. */
static int add_projection_bias(smoe_foreign_file *f, smoe_err *err) {
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
    return smoe_foreign_add(f, &p, err);
}

/* From the names of timm, Hugging Face or open_clip. */
static int make_named(void **made, size_t *size, smoe_foreign_file *f, const smoe_pair *pairs,
                      size_t count, smoe_err *err) {
    bool clip = false;
    for (size_t i = 0; i < f->pieces; i++) clip |= is_open_clip(f->piece[i].name);
    for (size_t i = 0; clip && i < f->pieces; i++) strip_prefix(&f->piece[i]);
    if (clip && add_projection_bias(f, err)) return smoe_fail_prefix(err, "%s", f->path);
    if (clip) return make(made, size, f, &smoe_foreign_open_clip, pairs, count, err);
    return make(made, size, f, &smoe_foreign_hugging_face, pairs, count, err);
}

bool smoe_foreign_begins(const void *bytes, size_t size) {
    return size >= 4 && (!memcmp(bytes, "PK\3\4", 4) || smoe_foreign_is_legacy(bytes));
}

int smoe_foreign_convert(void **made, size_t *made_size, const void *bytes, size_t size,
                         const char *path, smoe_err *err) {
    smoe_foreign_file f = {.path = path};
    bool arrays;
    int status = smoe_foreign_read(&f, &arrays, bytes, size, err);
    if (!status && arrays) {
        for (size_t i = 0; i < f.pieces; i++) strip_prefix(&f.piece[i]);
        status = unstack(&f, err);
        if (!status) status = make(made, made_size, &f, &smoe_foreign_flax, NULL, 0, err);
    } else if (!status) {
        status = make_named(made, made_size, &f, NULL, 0, err);
    }
    smoe_foreign_file_free(&f);
    return status;
}

int smoe_foreign_rename(void **made, size_t *made_size, const smoe_safetensors *file,
                        smoe_err *err) {
    static const char query[] = "vit.encoder.layer.#.attention.attention.query.weight";
    smoe_foreign_file f = {.path = smoe_safetensors_path(file), .held = SIZE_MAX};
    smoe_pair *pairs = NULL;
    size_t count = smoe_safetensors_count(file), pair_count = 0, whole = 0, bare = 0, clip = 0;
    int status = 0;
    char number[16];
    for (size_t i = 0; i < count; i++) {
        whole += smoe_foreign_matches(query, smoe_safetensors_at(file, i)->name, number);
        bare += smoe_foreign_matches(query + strlen("vit."), smoe_safetensors_at(file, i)->name,
                                     number);
        clip += is_open_clip(smoe_safetensors_at(file, i)->name);
    }
    if (!whole && !bare && !clip) return 0;
    for (size_t i = 0; !status && i < count; i++)
        status = smoe_foreign_add_tensor(&f, smoe_safetensors_at(file, i),
                                         bare && !whole ? "vit." : "", err);
    if (!status) status = smoe_safetensors_pairs(file, &pairs, &pair_count, err);
    if (!status) status = make_named(made, made_size, &f, pairs, pair_count, err);
    free(pairs);
    smoe_foreign_file_free(&f);
    return status ? -1 : 1;
}

/* ---- to the names of others ------------------------------------------------------------------ */

/* Adds the tensors that a tensor becomes, with their names in `name`; returns their number. */
static size_t split(smoe_tensor *out, char (*name)[NAME], const smoe_tensor *t) {
    size_t count = 0;
    char number[16] = "";
    for (size_t i = 0; i < smoe_foreign_hugging_face.count; i++) {
        const rule *r = &smoe_foreign_hugging_face.rule[i];
        if (!smoe_foreign_matches(r->to, t->name, number) ||
            (r->parts > 1 && (!t->ndim || t->dim[0] % 3)))
            continue;
        smoe_tensor *part = &out[count];
        size_t bytes = smoe_dtype_bytes(t->dtype);
        *part = *t;
        smoe_foreign_fill_in(name[count], r->from, number);
        part->name = name[count++];
        if (r->parts == 1) continue;
        part->dim[0] /= (size_t)r->parts;
        part->size /= (size_t)r->parts;
        part->data = (const char *)t->data + (size_t)r->part * part->size * bytes;
    }
    return count;
}

int smoe_foreign_tensors(smoe_tensor **tensors, size_t *count, const smoe_safetensors *file,
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
    if (other && !smoe_safetensors_find(file, "cls_token"))
        smoe_fail_more(&found, SMOE_USAGE,
                       "%s: Hugging Face's ViT has a class token, and this model has none "
                       "(model.head: token)",
                       smoe_safetensors_path(file));
    if (!found.code) return 0;
    free(block);
    *tensors = NULL;
    if (err) *err = found;
    return -1;
}
