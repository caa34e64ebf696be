/*
 * Model files of other programs as safetensors; see foreign.h. foreign_files.c reads their tensors
 * as pieces; foreign_names.c says which of them are the model's, and its table maps them to
 * tensors, or to parts of tensors, with the order of their axes. Layer scale, for
 * which this program has no tensors, is folded into those that it has. Pieces that are not in the
 * table keep their names and shapes.
 */
#include "tensors/foreign.h"
#include "tensors/foreign_parts.h"

enum { NAME = SMOE_FOREIGN_NAME, DIMS = SMOE_FOREIGN_DIMS, PARTS = SMOE_FOREIGN_PARTS };

typedef smoe_foreign_piece piece;
typedef smoe_foreign_rule rule;
typedef smoe_foreign_place place;

/* ---- pieces to tensors ----------------------------------------------------------------------- */

/* A tensor to be made, from consecutive pieces. */
typedef struct target {
    char name[NAME];
    const piece *part[PARTS];
    const rule *rule[PARTS]; /* NULL: as it is */
    const piece *scale;      /* NULL, or a factor for each row: the tensor is F32 then */
    int parts;
    int ndim;
    size_t dim[DIMS], size; /* bytes */
} target;

typedef struct targets {
    target *target;
    size_t count;
    piece *zero;  /* biases that the file lacks */
    bool changed; /* some piece is not a tensor as it is */
} targets;

static target *target_find(const targets *t, const char *name) {
    for (size_t i = t->count; i-- > 0;)
        if (!strcmp(t->target[i].name, name)) return &t->target[i];
    return NULL;
}

static target *target_of(targets *t, const char *name) {
    target *found = target_find(t, name);
    if (found) return found;
    found = &t->target[t->count++];
    snprintf(found->name, sizeof found->name, "%.*s", NAME - 1, name);
    return found;
}

static int assign_part(targets *all, const char *name, const piece *p, const rule *r,
                       smoe_err *err) {
    if (p->why) return smoe_fail(err, SMOE_DATA, "tensor %s: %s", p->name, p->why);
    target *t = target_of(all, name);
    int part = r ? r->part : 0;
    if (t->part[part])
        return smoe_fail(err, SMOE_DATA, "tensor %s: present twice, as %s and as %s", name,
                         t->part[part]->name, p->name);
    t->part[part] = p;
    t->rule[part] = r;
    t->parts = r && r->parts ? r->parts : 1;
    all->changed |= strcmp(name, p->name) != 0 || (r && (r->axes || r->parts));
    return 0;
}

static int assign(targets *all, const piece *p, const place *at, smoe_err *err) {
    char name[NAME];
    const char *rest = p->name;
    const rule *r = smoe_foreign_place_rule(at, &rest, name);
    if (!r) return assign_part(all, rest, p, NULL, err);
    all->changed |= !*r->to;
    for (; r && *r->to; r = smoe_foreign_rule_next(r, rest, name))
        if (assign_part(all, name, p, r, err)) return -1;
    return 0;
}

/* A slice of a piece, as a rule wants it. */
static piece view_of(const piece *p, const rule *r) {
    piece v = *p;
    if (!r || !r->slices) return v;
    v.dim[0] /= (size_t)r->slices;
    v.data += (size_t)r->slice * v.dim[0] * v.stride[0] * v.bytes;
    return v;
}

/* The order in which the axes of a piece are read, and the resulting shape; false if the piece does
 * not have the axes of its rule. */
static bool axes_of(const piece *p, const rule *r, int order[DIMS], int *ndim, size_t dim[DIMS]) {
    const char *axes = r ? r->axes : NULL;
    int axis = 0;
    *ndim = axes ? 1 : p->ndim;
    if (r && r->slices && (!p->ndim || p->dim[0] % (size_t)r->slices)) return false;
    piece v = view_of(p, r);
    for (int i = 0; !axes && i < p->ndim; i++) dim[order[i] = i] = v.dim[i];
    if (axes) dim[0] = 1;
    for (; axes && *axes; axes++) {
        if (*axes == ',') {
            dim[(*ndim)++] = 1;
            continue;
        }
        if (axis == p->ndim) return false;
        order[axis] = *axes - '0';
        if (order[axis] >= p->ndim) return false;
        dim[*ndim - 1] *= v.dim[order[axis++]];
    }
    return !axes || axis == p->ndim;
}

/* Shapes of the parts and of the whole. */
static int shape(target *t, smoe_err *err) {
    t->size = 0;
    for (int k = 0; k < t->parts; k++) {
        const piece *p = t->part[k];
        int order[DIMS], ndim;
        size_t dim[DIMS] = {0};
        if (!p)
            return smoe_fail(err, SMOE_DATA, "tensor %s: part %d of %d is missing", t->name, k + 1,
                             t->parts);
        if (!axes_of(p, t->rule[k], order, &ndim, dim) || (t->parts > 1 && !ndim))
            return smoe_fail(err, SMOE_DATA, "tensor %s: it has %d ax%s", p->name, p->ndim,
                             p->ndim == 1 ? "is" : "es");
        bool same = !k || (ndim == t->ndim && p->bytes == t->part[0]->bytes &&
                           !strcmp(p->type, t->part[0]->type) &&
                           !memcmp(dim + 1, t->dim + 1, (DIMS - 1) * sizeof *dim));
        if (!same)
            return smoe_fail(err, SMOE_DATA, "tensor %s: shape or type differ from those of %s",
                             p->name, t->part[0]->name);
        if (k)
            t->dim[0] += dim[0];
        else
            memcpy(t->dim, dim, sizeof dim);
        t->ndim = ndim;
        size_t bytes = t->scale ? sizeof(float) : p->bytes;
        for (int i = 0; i < ndim; i++) bytes *= dim[i];
        t->size += bytes;
    }
    /* The scale and bias of SigLIP's logits are lists of one number. */
    if (t->ndim == 1 && t->dim[0] == 1 && !strncmp(t->name, "logit_", 6)) t->ndim = 0;
    return 0;
}

static int find_shapes(targets *all, smoe_err *err) {
    for (size_t i = 0; i < all->count; i++)
        if (shape(&all->target[i], err)) return -1;
    return 0;
}

/* The elements of a piece in the order of its axes; returns where the next ones go. */
static char *foreign_gather(char *out, const piece *p, const int order[DIMS], int axis,
                            const char *from) {
    if (axis == p->ndim) {
        memcpy(out, from, p->bytes);
        return out + p->bytes;
    }
    size_t n = p->dim[order[axis]], stride = p->stride[order[axis]] * p->bytes;
    if (axis == p->ndim - 1 && stride == p->bytes) {
        memcpy(out, from, n * p->bytes);
        return out + n * p->bytes;
    }
    for (size_t i = 0; i < n; i++) out = foreign_gather(out, p, order, axis + 1, from + i * stride);
    return out;
}

/* ---- what is folded, and what is 0 ----------------------------------------------------------- */

/* "blocks.3.attn.proj.weight" for "blocks.3.ls1.gamma": the tensor that takes its factors. */
static target *scaled_by(const targets *all, const char *gamma, const char *word) {
    char name[NAME];
    if (!smoe_foreign_renamed(name, gamma, "blocks.#.ls1.gamma", "blocks.#.attn.proj.") &&
        !smoe_foreign_renamed(name, gamma, "blocks.#.ls2.gamma", "blocks.#.mlp.fc2."))
        return NULL;
    strncat(name, word, NAME - 1 - strlen(name));
    return target_find(all, name);
}

/* SMOE_DATA if the elements of a piece are no weights. */
static int check_type(const piece *p, smoe_err *err) {
    for (smoe_dtype i = SMOE_DTYPE_F32; i <= SMOE_DTYPE_F64; i++)
        if (!strcmp(smoe_dtype_name(i), p->type)) return 0;
    return smoe_fail(err, SMOE_DATA, "tensor %s: dtype %s, expected F32, F16, BF16 or F64; %s",
                     p->name, p->type, smoe_type_remedy(p->type));
}

/* gamma * (x W^T + b): the factors of layer scale become part of the layer before it. */
static int fold_scale(targets *all, FILE *note, smoe_err *err) {
    static const char *const words[] = {"weight", "bias"};
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++)
        for (size_t k = 0; k < 2; k++) {
            const target *gamma = &all->target[i];
            target *t = scaled_by(all, gamma->name, words[k]);
            if (t && (gamma->ndim != 1 || t->parts != 1 || gamma->dim[0] != t->dim[0]))
                return smoe_fail(err, SMOE_DATA, "tensor %s: its shape does not fit %s",
                                 gamma->part[0]->name, t->name);
            if (t && (check_type(gamma->part[0], err) || check_type(t->part[0], err))) return -1;
            if (t) t->scale = gamma->part[0];
        }
    for (size_t i = 0; i < all->count; i++)
        if (!scaled_by(all, all->target[i].name, "weight")) {
            if (kept < i) all->target[kept] = all->target[i];
            kept++;
        }
    if (kept == all->count) return 0;
    all->count = kept;
    all->changed = true;
    fputs("; layer scale is folded into attn.proj and mlp.fc2", note);
    return find_shapes(all, err);
}

/* Whether this is the weight of a linear layer of the model, and the name of its bias. One with a
 * single axis is a norm's, which is another function without its bias. */
static bool is_linear(const target *t, char bias[NAME]) {
    static const char *const layer[] = {"patch_embed.proj.*",  "head.*",
                                        "head.proj.*",         "attn_pool.q.*",
                                        "attn_pool.kv.*",      "attn_pool.proj.*",
                                        "blocks.#.attn.qkv.*", "blocks.#.attn.proj.*",
                                        "blocks.#.mlp.fc1.*",  "blocks.#.mlp.fc2.*"};
    size_t k = 0;
    while (k < SMOE_COUNT(layer) && !smoe_foreign_renamed(bias, t->name, layer[k], layer[k])) k++;
    if (k == SMOE_COUNT(layer) || t->ndim < 2 || !smoe_text_ends(bias, ".weight")) return false;
    strcpy(bias + strlen(bias) - strlen("weight"), "bias");
    return true;
}

static const char zero[sizeof(double)]; /* an element */

/* Keys without a bias beside queries and values with one, as in BEiT, EVA. Returns their number. */
static size_t add_key_biases(targets *all) {
    enum { KEY = 1 };
    size_t added = 0;
    for (size_t i = 0; i < all->count; i++) {
        target *t = &all->target[i];
        const piece *query = t->part[0];
        if (t->parts != PARTS || t->part[KEY] || !query || !t->part[KEY + 1] ||
            !strstr(t->name, "qkv.bias"))
            continue;
        piece *p = &all->zero[added++];
        *p = *query;
        p->data = zero;
        memset(p->stride, 0, sizeof p->stride);
        t->part[KEY] = p;
        t->rule[KEY] = t->rule[0];
    }
    return added;
}

/* Whether some block has this tensor of "blocks.N.": another one that lacks it is damaged. */
static bool other_has(const targets *all, size_t count, const char *name) {
    char same[NAME], unused[NAME];
    size_t before = strlen("blocks."), digits = strspn(name + before, "0123456789");
    if (strncmp(name, "blocks.", before) != 0) return false;
    snprintf(same, sizeof same, "blocks.#%s", name + before + digits);
    for (size_t i = 0; i < count; i++)
        if (smoe_foreign_renamed(unused, all->target[i].name, same, "")) return true;
    return false;
}

/* Linear layers without a bias have one of zeros here. */
static void add_biases(targets *all, size_t added, FILE *note) {
    size_t count = all->count;
    for (size_t i = 0; i < count; i++) {
        const target *t = &all->target[i];
        char name[NAME];
        if (!is_linear(t, name) || target_find(all, name) || other_has(all, count, name)) continue;
        piece *p = &all->zero[added++];
        *p = (piece){.type = t->part[0]->type, .bytes = t->part[0]->bytes, .ndim = 1, .data = zero};
        p->dim[0] = t->dim[0]; /* the same element, with a stride of 0 */
        target *bias = target_of(all, name);
        bias->part[0] = p;
        bias->parts = bias->ndim = 1;
        bias->dim[0] = t->dim[0];
        bias->size = t->dim[0] * p->bytes;
    }
    if (!added) return;
    all->changed = true;
    fprintf(note, added == 1 ? "; a bias that it lacks is 0" : "; %zu biases that it lacks are 0",
            added);
}

/* ---- classifiers of Hugging Face's CLIP and SigLIP -------------------- */

/* A classifier beside "vision_model." takes the mean of the patches, and not what the model pools:
 * of SigLIP after the last norm, of CLIP before it, which no model here does. */
static void settle_classifier(targets *all, const place *at, FILE *note) {
    const target *head = target_find(all, "head.weight");
    size_t kept = 0;
    if (!head || !smoe_text_ends(at->prefix, "vision_model.") ||
        strcmp(head->part[0]->name, "classifier.weight") != 0)
        return;
    if (target_find(all, "cls_token")) {
        for (size_t i = 0; i < all->count; i++) {
            target *t = &all->target[i];
            if (!strncmp(t->name, "head.", 5)) memcpy(t->name, t->part[0]->name, NAME);
        }
        return;
    }
    for (size_t i = 0; i < all->count; i++)
        if (strncmp(all->target[i].name, "attn_pool.", 10) != 0)
            all->target[kept++] = all->target[i];
    if (kept < all->count) fputs("; its classifier does not use the pooling by attention", note);
    all->count = kept;
}

/* ---- safetensors in memory ------------------------------------------------------------------- */

static void fill_parts(const target *t, char *out) {
    for (int k = 0; k < t->parts; k++) {
        int order[DIMS], ndim;
        size_t dim[DIMS], size = 1;
        const piece p = view_of(t->part[k], t->rule[k]);
        for (int i = 0; i < p.ndim; i++) size *= p.dim[i];
        if (axes_of(t->part[k], t->rule[k], order, &ndim, dim) && size)
            out = foreign_gather(out, &p, order, 0, p.data);
    }
}

/* Floats of elements of a type that holds weights. */
static void to_floats(float *out, const char *type, const void *data, size_t count) {
    smoe_tensor t = {.dtype = SMOE_DTYPE_F32, .size = count, .data = data};
    while (t.dtype < SMOE_DTYPE_F64 && strcmp(smoe_dtype_name(t.dtype), type) != 0) t.dtype++;
    (void)smoe_tensor_store(out, SMOE_DTYPE_F32, &t, 0, count);
}

static void foreign_fill(const target *t, char *out) {
    if (!t->scale || !t->size) {
        fill_parts(t, out);
        return;
    }
    const piece *g = t->scale;
    size_t count = t->size / sizeof(float), rows = t->dim[0];
    size_t bytes = count * t->part[0]->bytes, most = rows * g->bytes;
    SMOE_FREED char *own = smoe_alloc(bytes > most ? bytes : most, 1);
    SMOE_FREED float *gamma = smoe_alloc(rows, sizeof *gamma);
    float *to = (float *)out;
    static const int order[DIMS] = {0};
    (void)foreign_gather(own, g, order, 0, g->data);
    to_floats(gamma, g->type, own, rows);
    fill_parts(t, own);
    to_floats(to, t->part[0]->type, own, count);
    for (size_t i = 0; i < count; i++) to[i] *= gamma[i / (count / rows)];
}

/* The tensors in memory, as a file. */
static int made_of(smoe_safetensors **made, const smoe_foreign_file *f, const targets *all,
                   const smoe_pair *pairs, size_t count, char *note, smoe_err *err) {
    SMOE_FREED smoe_tensor *tensor = smoe_alloc(all->count, sizeof *tensor);
    smoe_arena arena = {0};
    for (size_t i = 0; i < all->count; i++) (void)smoe_arena_take(&arena, all->target[i].size, 1);
    if (smoe_arena_bind(&arena, err)) return smoe_fail_prefix(err, "%s", f->path);
    for (size_t i = 0; i < all->count; i++) {
        const target *t = &all->target[i];
        char *out = smoe_arena_take(&arena, t->size, 1);
        foreign_fill(t, out);
        tensor[i] = (smoe_tensor){.name = t->name,
                                  .type = t->scale ? "F32" : t->part[0]->type,
                                  .ndim = t->ndim,
                                  .data = out};
        memcpy(tensor[i].dim, t->dim, sizeof tensor[i].dim);
    }
    return smoe_safetensors_make(
        made, f->path, &(const smoe_content){tensor, all->count, pairs, count}, &arena, note, err);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* big_vision stacks the blocks of a scan: "encoderblock/..." with an axis of depth in front. */
static int unstack(smoe_foreign_file *f, smoe_err *err) {
    static const char stacked[] = "Transformer/encoderblock/";
    size_t count = f->pieces, kept = 0;
    for (size_t i = 0; i < count; i++) {
        piece p = f->piece[i];
        const char *at = strstr(p.name, stacked);
        if (!at || !p.ndim) continue;
        piece one = p;
        one.ndim--;
        memmove(one.dim, one.dim + 1, (DIMS - 1) * sizeof *one.dim);
        memmove(one.stride, one.stride + 1, (DIMS - 1) * sizeof *one.stride);
        for (size_t k = 0; k < p.dim[0]; k++) {
            snprintf(one.name, sizeof one.name, "%.*sTransformer/encoderblock_%zu/%.100s",
                     (int)(at - p.name), p.name, k, at + sizeof stacked - 1);
            one.data = p.data + k * p.stride[0] * p.bytes;
            if (smoe_foreign_add(f, &one, err)) return -1;
        }
        f->piece[i].type = NULL; /* replaced */
    }
    for (size_t i = 0; i < f->pieces; i++)
        if (f->piece[i].type) f->piece[kept++] = f->piece[i];
    f->pieces = kept;
    return 0;
}

/* All pieces as tensors, each as it is. */
static int keep_pieces(targets *all, const smoe_foreign_file *f, smoe_err *err) {
    all->target = smoe_alloc(f->pieces + 1, sizeof *all->target);
    for (size_t i = 0; i < f->pieces; i++)
        if (assign_part(all, f->piece[i].name, &f->piece[i], NULL, err)) return -1;
    return find_shapes(all, err);
}

/* All pieces of the model as tensors. */
static int map_pieces(targets *all, const smoe_foreign_file *f, const place *at, FILE *note,
                      smoe_err *err) {
    all->target = smoe_alloc(2 * PARTS * f->pieces + 1, sizeof *all->target);
    all->zero = smoe_alloc(PARTS * f->pieces + 1, sizeof *all->zero);
    for (size_t i = 0; i < f->pieces; i++)
        if (smoe_foreign_place_other(at, f, &f->piece[i]))
            all->changed = true;
        else if (assign(all, &f->piece[i], at, err))
            return -1;
    settle_classifier(all, at, note);
    size_t added = add_key_biases(all);
    if (find_shapes(all, err)) return -1;
    add_biases(all, added, note);
    return fold_scale(all, note, err);
}

/* 1: made; 0: all tensors are as they are, and need not be made (never if `always`). */
static int foreign_make(smoe_safetensors **made, smoe_foreign_file *f, const char *weights,
                        bool always, const smoe_pair *pairs, size_t pair_count, smoe_err *err) {
    targets all = {.changed = always};
    place at;
    SMOE_FREED char *text = NULL;
    size_t letters = 0;
    FILE *note = smoe_alloc_stream(&text, &letters);
    int status = unstack(f, err);
    if (!status) status = smoe_foreign_place_of(&at, f, weights, note, err);
    if (!status) status = map_pieces(&all, f, &at, note, err);
    if (status) smoe_fail_prefix(err, "%s", f->path);
    smoe_alloc_stream_close(note, &text);
    char *said = *text ? text + (strncmp(text, "; ", 2) ? 0 : 2) : NULL;
    if (!status && all.changed)
        status = made_of(made, f, &all, pairs, pair_count, said, err) ? -1 : 1;
    free(all.target);
    free(all.zero);
    return status;
}

bool smoe_foreign_begins(const void *bytes, size_t size) {
    bool zip = size >= 4 && (!memcmp(bytes, "PK\3\4", 4) || !memcmp(bytes, "PK\5\6", 4));
    return zip || (size >= 4 && smoe_foreign_is_legacy(bytes));
}

int smoe_foreign_open(smoe_safetensors **made, const void *bytes, size_t size, const char *path,
                      const char *weights, bool own, smoe_err *err) {
    SMOE_FREED_BY(smoe_foreign_file_free) smoe_foreign_file f = {.path = path};
    targets all = {0};
    *made = NULL;
    if (smoe_foreign_read(&f, bytes, size, err)) return -1;
    if (!own) return foreign_make(made, &f, weights, true, NULL, 0, err) < 0 ? -1 : 0;
    int status = keep_pieces(&all, &f, err);
    if (status) smoe_fail_prefix(err, "%s", path);
    if (!status) status = made_of(made, &f, &all, NULL, 0, NULL, err);
    free(all.target);
    return status;
}

/* Moments of an optimiser have the names of its tensors; other types and longer names than pieces
 * may have are those of another kind of file. */
static bool may_rename(const smoe_safetensors *file) {
    if (smoe_safetensors_metadata(file, "smoe.optimizer_steps")) return false;
    for (size_t i = 0; i < smoe_safetensors_count(file); i++) {
        const smoe_tensor *t = smoe_safetensors_at(file, i);
        if (!smoe_type_bytes(t->type) || strlen(t->name) >= NAME) return false;
    }
    return true;
}

int smoe_foreign_rename(smoe_safetensors **made, const smoe_safetensors *file, const char *weights,
                        smoe_err *err) {
    SMOE_FREED_BY(smoe_foreign_file_free)
    smoe_foreign_file f = {.path = smoe_safetensors_path(file), .held = SIZE_MAX};
    SMOE_FREED smoe_pair *pairs = NULL;
    *made = NULL;
    if (!may_rename(file)) return 0;
    for (size_t i = 0; i < smoe_safetensors_count(file); i++)
        if (smoe_foreign_add_tensor(&f, smoe_safetensors_at(file, i), err)) return -1;
    size_t count = smoe_safetensors_pairs(file, &pairs);
    return foreign_make(made, &f, weights, false, pairs, count, err);
}

/* ---- what no model here has -------------------- */

static void lack_say(smoe_err *err, const smoe_safetensors *file, const char *tensor,
                     const char *lack) {
    smoe_fail_more(err, SMOE_DATA, "%s: tensor %.100s: %s: no model of this program has that",
                   smoe_safetensors_path(file), tensor, lack);
}

/* Whether an earlier tensor means the same. */
static bool lack_said(const smoe_safetensors *file, size_t before, const char *lack) {
    for (size_t i = 0; i < before; i++) {
        const char *other = smoe_foreign_lack(smoe_safetensors_at(file, i)->name);
        if (other && !strcmp(other, lack)) return true;
    }
    return false;
}

int smoe_foreign_check(const smoe_safetensors *file, smoe_err *err) {
    const smoe_tensor *norm = smoe_safetensors_find(file, "blocks.0.norm1.weight");
    const smoe_tensor *head = smoe_safetensors_find(file, "head.weight");
    const smoe_tensor *patch = smoe_safetensors_find(file, "patch_embed.proj.weight");
    const smoe_tensor *in = smoe_safetensors_find(file, "blocks.0.mlp.fc1.weight");
    const smoe_tensor *out = smoe_safetensors_find(file, "blocks.0.mlp.fc2.weight");
    size_t biases = 0, experts = 0;
    smoe_err found = {0};
    for (size_t i = 0; i < smoe_safetensors_count(file); i++) {
        const char *name = smoe_safetensors_at(file, i)->name, *lack = smoe_foreign_lack(name);
        if (lack && !lack_said(file, i, lack)) lack_say(&found, file, name, lack);
        if (smoe_text_has_part(name, "/Moe/Mlp/ /Moe/Router/") && !experts++) /* by Flax */
            smoe_fail_more(&found, SMOE_DATA,
                           "%s: tensor %.100s: experts of files of V-MoE are not read",
                           smoe_safetensors_path(file), name);
        biases += smoe_text_ends(name, "norm1.bias") || smoe_text_ends(name, "norm2.bias");
    }
    if (norm && !biases) lack_say(&found, file, norm->name, "a norm without a bias, as RMSNorm");
    if (in && out && in->ndim == 2 && out->ndim == 2 && in->dim[0] == 2 * out->dim[1])
        lack_say(&found, file, in->name, "gated MLPs (SwiGLU)");
    if (patch && patch->ndim == 2)
        lack_say(&found, file, patch->name, "patches of any number, as in NaFlex");
    if (norm && head && head->ndim == 2 && head->dim[1] == 2 * norm->dim[0])
        lack_say(&found, file, head->name,
                 "a classifier of the class token and the mean of patches, as of DINOv2");
    return smoe_fail_found(err, &found);
}

/* ---- to the names of others ------------------------------------------------------------------ */

/* Adds the tensors that a tensor becomes, with their names in `name`; returns their number. */
static size_t split(smoe_tensor *out, char (*name)[NAME], const smoe_tensor *t) {
    size_t count = 0;
    for (const rule *r = NULL; (r = smoe_foreign_hf_next(r, t->name, name[count]));) {
        smoe_tensor *part = &out[count];
        *part = *t;
        part->name = name[count++];
        if (!r->parts) continue;
        if (!t->ndim || t->dim[0] % (size_t)r->parts) return 0;
        part->dim[0] /= (size_t)r->parts;
        part->size /= (size_t)r->parts;
        part->data =
            (const char *)t->data + (size_t)r->part * part->size * smoe_dtype_bytes(t->dtype);
    }
    return count;
}

int smoe_foreign_tensors(smoe_tensor **tensors, size_t *count, const smoe_safetensors *file,
                         bool other, smoe_err *err) {
    size_t all = smoe_safetensors_count(file), room = other ? PARTS * all : all;
    /* One block: the tensors, then their names. */
    smoe_tensor *block = smoe_alloc(room + 1, sizeof *block + (other ? NAME : 0));
    char(*name)[NAME] = (void *)(block + room + 1);
    *count = 0;
    *tensors = block;
    const char *without = NULL;
    size_t lacks = 0;
    for (size_t i = 0; i < all; i++) {
        const smoe_tensor *t = smoe_safetensors_at(file, i);
        size_t parts = 1;
        if (other)
            parts = split(block + *count, name + *count, t);
        else
            block[*count] = *t;
        if (!parts && !lacks++) without = t->name;
        *count += parts;
    }
    if (lacks)
        return smoe_fail(err, SMOE_USAGE,
                         "%s: Hugging Face's ViT has no tensor for %.100s%s; it has only dense "
                         "blocks, a class token and a last norm",
                         smoe_safetensors_path(file), without, lacks > 1 ? " and others" : "");
    static const char *const has[][3] = {
        {"cls_token", "a class token", "model.head: token"},
        {"pos_embed", "learned positions", "model.position: learned"}};
    for (size_t i = 0; other && i < SMOE_COUNT(has); i++)
        if (!smoe_safetensors_find(file, has[i][0]))
            return smoe_fail(err, SMOE_USAGE,
                             "%s: Hugging Face's ViT has %s, and this model has none (%s)",
                             smoe_safetensors_path(file), has[i][1], has[i][2]);
    return 0;
}
