/*
 * The parameter table in and out of safetensors: every parameter under its own name and exact
 * shape, or from what a file has in its place (tensors/init_map.h).
 */
#include "tensors/foreign.h"
#include "tensors/params_io.h"

/* Whether any slab has a parameter of this name. */
static bool known(const smoe_params *params, const smoe_slab *slabs, size_t count,
                  const char *name) {
    for (size_t s = 0; s < count; s++) {
        size_t prefix = strlen(slabs[s].prefix);
        if (strncmp(name, slabs[s].prefix, prefix)) continue;
        const smoe_params *table = smoe_slab_table(&slabs[s], params);
        const smoe_param *param = smoe_params_find(table, name + prefix);
        if (param && smoe_slab_has(&slabs[s], param)) return true;
    }
    return false;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* A size of the model that is a dimension of the tensors whose names end so. If such a size
 * differs, most tensors do, and a message about the size is clearer than a list of tensors. */
typedef struct model_size {
    const char *ending;
    int ndim, axis;
    const char *size, *other;
} model_size;
static const model_size sizes[] = {
    {"norm1.weight", 1, 0, "width", "the spec says"},
    {"mlp.fc1.bias", 1, 0, "mlp", "the spec says"},
    {"experts.fc1.bias", 2, 1, "mlp", "the spec says"},
    {"experts.fc1.bias", 2, 0, "experts", "the spec says"},
    {"router.phi", 3, 2, "slots_per_expert", "the spec says"},
    {"patch_embed.proj.weight", 4, 2, "patch_size", "the spec says"},
    {"patch_embed.proj.weight", 4, 1, "channels", "the spec says"},
    {"head.bias", 1, 0, "classes", "the data has"},
};

/* What can be done with a file whose head does not fit. */
static const char other_head[] =
    "; smoe train --init starts from it with a new head, and with train.steps=1 "
    "train.optimizer.lr=0 eval.fewshot.shots=[10] it measures the features of the file";

/* 1 + the largest I of the names blocks.I... */
static size_t blocks_of(const char *name, size_t blocks) {
    unsigned long block;
    bool numbered = !strncmp(name, "blocks.", 7) && sscanf(name + 7, "%lu", &block) == 1;
    return numbered && block >= blocks ? block + 1 : blocks;
}

/* A line for each size that differs. */
static void sizes_check(const smoe_init_map *from, smoe_err *found) {
    const smoe_params *params = from->params;
    const char *path = smoe_safetensors_path(from->file);
    size_t here = 0, there = 0;
    for (size_t k = 0; k < SMOE_COUNT(sizes); k++) {
        const model_size *s = &sizes[k];
        for (size_t i = 0; i < params->count; i++) {
            const smoe_param *param = &params->param[i];
            const smoe_tensor *t = smoe_text_ends(param->name, s->ending)
                                       ? smoe_safetensors_find(from->file, param->name)
                                       : NULL;
            if (from->headless && !strncmp(param->name, "head.", 5)) continue;
            if (!smoe_fit_whole(from->fit) &&
                !smoe_init_map_source(from, param, param->name).tensor)
                continue; /* it is given anew */
            if (!t || t->ndim != s->ndim || param->ndim != s->ndim) continue;
            if (t->dim[s->axis] == param->dim[s->axis]) continue;
            smoe_fail_more(found, SMOE_DATA, "%s: %s %zu, %s %zu%s", path, s->size, t->dim[s->axis],
                           s->other, param->dim[s->axis],
                           strcmp(s->size, "classes") != 0 ? "" : other_head);
            break;
        }
    }
    for (size_t i = 0; i < params->count; i++) here = blocks_of(params->param[i].name, here);
    for (size_t i = 0; i < smoe_safetensors_count(from->file); i++)
        there = blocks_of(smoe_safetensors_at(from->file, i)->name, there);
    if (here != there && there && from->fit != SMOE_FIT_PARTIAL)
        smoe_fail_more(found, SMOE_DATA, "%s: depth %zu, the spec says %zu%s", path, there, here,
                       from->fit == SMOE_FIT_INIT ? "; --partial takes the blocks that both have"
                                                  : "");
    SMOE_FREED char *word = smoe_shell_word(path);
    if (found->code && !smoe_fit_whole(from->fit))
        smoe_fail_more(found, SMOE_DATA, "`smoe eval %s --print-config` prints a spec that fits it",
                       word);
}

/* ---- loading --------------------------------------------------------------------------------- */

/* A line for each reason why the file cannot be loaded. */
static int file_check(const smoe_init_map *from, const smoe_slab *slabs, size_t count,
                      smoe_err *err) {
    const smoe_params *params = from->params;
    const char *path = smoe_safetensors_path(from->file);
    char name[SMOE_TENSOR_NAME], shape[SMOE_SHAPE_TEXT];
    bool exact = smoe_fit_whole(from->fit), weights = count && !*slabs[0].prefix;
    size_t copied = 0;
    smoe_err found = {0};
    if (exact && smoe_foreign_check(from->file, err)) return -1;
    sizes_check(from, &found);
    if (found.code) return smoe_fail_found(err, &found);
    for (size_t s = 0; s < count; s++) {
        const smoe_params *table = smoe_slab_table(&slabs[s], params);
        for (size_t i = 0; i < table->count; i++) {
            const smoe_param *param = &table->param[i];
            if (!smoe_slab_has(&slabs[s], param)) continue;
            snprintf(name, sizeof name, "%s%s", slabs[s].prefix, param->name);
            smoe_init_source source = smoe_init_map_source(from, param, name);
            (void)smoe_init_map_check(from, param, name, source, &found);
            copied += source.way == SMOE_WAY_COPIED;
            if (!source.tensor && exact)
                smoe_fail_more(&found, SMOE_DATA, "%s: tensor %s %s: missing%s", path, name,
                               smoe_shape_text(shape, param->ndim, param->dim),
                               strcmp(name, "head.weight") != 0 ? "" : other_head);
        }
    }
    if (from->fit == SMOE_FIT_UPCYCLE && weights && !copied)
        smoe_fail_more(&found, SMOE_DATA,
                       "%s: no dense MLP that experts of this model replace (model.moe.layers)",
                       path);
    for (size_t i = 0; exact && i < smoe_safetensors_count(from->file); i++) {
        const smoe_tensor *t = smoe_safetensors_at(from->file, i);
        if (known(params, slabs, count, t->name)) continue;
        if (smoe_init_map_composed(from, t->name)) continue;
        smoe_fail_more(&found, SMOE_DATA,
                       "%s: tensor %.100s %s: unknown, the model has none of this name", path,
                       t->name, smoe_shape_text(shape, t->ndim, t->dim));
    }
    bool whole = from->fit == SMOE_FIT_INIT || from->fit == SMOE_FIT_UPCYCLE;
    if (!found.code && whole && weights) smoe_init_map_lacks(from, &found);
    return smoe_fail_found(err, &found);
}

/* The elements of parameter `i` of a slab that are here: [*first, *end) of the whole tensor. */
static void find_part(const smoe_params *params, const smoe_slab *slab, size_t i, size_t *first,
                      size_t *end) {
    const void *base = slab->narrow ? (const void *)slab->narrow : slab->values;
    const smoe_param *param = &smoe_slab_table(slab, params)->param[i];
    *first = param->from;
    *end = param->from + param->size;
    if (params->reader) params->reader->here(params->reader->user, base, i, first, end);
}

/* Elements first .. end of a parameter, to where the slab has them; what the file does not have as
 * it is, is made as a whole first. */
static int fill_part(const smoe_init_map *from, const smoe_slab *slab, const smoe_param *param,
                     smoe_init_source source, size_t first, size_t end, smoe_err *err) {
    size_t count = end - first, at = param->offset + first - param->from;
    bool same = source.way == SMOE_WAY_SAME;
    smoe_param all = *param;
    all.size = all.whole;
    all.from = 0;
    if (slab->narrow && same) {
        (void)smoe_tensor_store(slab->narrow + at, SMOE_DTYPE_BF16, source.tensor, first, count);
        return 0;
    }
    if (slab->values && same) {
        smoe_init_map_part(slab->values + at, source.tensor, first, count);
        return 0;
    }
    if (slab->values && count == all.whole) {
        smoe_init_map_fill(slab->values + at, from, &all, source);
        return 0;
    }
    SMOE_FREED real *whole = malloc(all.whole * sizeof *whole);
    if (!whole) return smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", param->name);
    smoe_init_map_fill(whole, from, &all, source);
    for (size_t k = 0; k < count; k++) {
        if (slab->values) slab->values[at + k] = whole[first + k];
        if (slab->narrow) slab->narrow[at + k] = smoe_bf16_round((float)whole[first + k]);
    }
    return 0;
}

size_t smoe_params_moments(const smoe_params *params, smoe_slab slabs[2]) {
    size_t count = 0;
    if (params->m || params->m_bf16)
        slabs[count++] = (smoe_slab){"m.", params->m, params->m_bf16, NULL};
    if (params->v || params->v_bf16)
        slabs[count++] = (smoe_slab){"v.", params->v, params->v_bf16, NULL};
    if (params->second)
        slabs[count++] = (smoe_slab){"v.", params->second->w, .table = params->second};
    return count;
}

int smoe_params_load_slabs(const smoe_params *params, const smoe_slab *slabs, size_t count,
                           const smoe_safetensors *file, smoe_fit fit, size_t *loaded,
                           smoe_err *err) {
    size_t filled = 0;
    smoe_init_map from = smoe_init_map_of(params, file, fit, count ? slabs[0].prefix : "");
    if (file_check(&from, slabs, count, err)) return -1;
    for (size_t s = 0; s < count; s++) {
        const smoe_params *table = smoe_slab_table(&slabs[s], params);
        for (size_t i = 0; i < table->count; i++) {
            char name[SMOE_TENSOR_NAME];
            const smoe_param *param = &table->param[i];
            if (!smoe_slab_has(&slabs[s], param)) continue;
            snprintf(name, sizeof name, "%s%s", slabs[s].prefix, param->name);
            smoe_init_source source = smoe_init_map_source(&from, param, name);
            if (!source.tensor) continue;
            filled++;
            if (!slabs[s].values && !slabs[s].narrow) continue;
            size_t first, end;
            find_part(params, &slabs[s], i, &first, &end);
            if (first < end && fill_part(&from, &slabs[s], param, source, first, end, err))
                return -1;
        }
    }
    if (loaded) *loaded = filled;
    return 0;
}

int smoe_params_load(smoe_params *params, const smoe_safetensors *file, smoe_fit fit,
                     size_t *loaded, smoe_err *err) {
    smoe_slab weights = {.prefix = "", .values = params->w};
    return smoe_params_load_slabs(params, &weights, 1, file, fit, loaded, err);
}

int smoe_params_check(const smoe_params *params, const smoe_safetensors *file, smoe_fit fit,
                      smoe_err *err) {
    size_t matches = 0;
    smoe_slab weights = {.prefix = ""};
    if (smoe_params_load_slabs(params, &weights, 1, file, fit, &matches, err)) return -1;
    if (matches) return 0;
    return smoe_fail(err, SMOE_DATA, "%s: has no tensor of this model",
                     smoe_safetensors_path(file));
}

/* Whether the elements of a tensor are aligned: in a file, data may start at any byte. */
static bool aligned(const smoe_tensor *t) {
    return (uintptr_t)t->data % smoe_dtype_bytes(t->dtype) == 0;
}

/* The place of a parameter in the file, if it can be used from there; nothing if it must be
 * copied. */
static smoe_param_place params_io_place_of(const smoe_param *param, smoe_init_source source) {
    const smoe_tensor *t = source.tensor;
    if (source.way != SMOE_WAY_SAME) return (smoe_param_place){0};
    smoe_param_place place = {0};
    if (t->dtype == SMOE_DTYPE_REAL && aligned(t)) place.values = t->data;
    if (t->dtype == SMOE_DTYPE_BF16 && aligned(t) && smoe_param_streams(param))
        place.narrow = t->data;
    return place;
}

/* Looks up every parameter, and gives memory to those that must be copied; the first call only
 * counts that memory. */
static void places_find(const smoe_init_map *from, smoe_param_place *places, smoe_arena *copies) {
    const smoe_params *params = from->params;
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *param = &params->param[i];
        smoe_init_source source = smoe_init_map_source(from, param, param->name);
        places[i] = params_io_place_of(param, source);
        if (places[i].values || places[i].narrow) continue;
        real *copy = smoe_arena_take(copies, param->size, sizeof(real));
        if (copy) smoe_init_map_fill(copy, from, param, source);
        places[i].values = copy;
    }
}

int smoe_params_map(smoe_params *params, const smoe_safetensors *file, smoe_err *err) {
    smoe_slab weights = {.prefix = ""};
    smoe_init_map from = smoe_init_map_of(params, file, SMOE_FIT_RESIZED, "");
    if (file_check(&from, &weights, 1, err)) return -1;
    smoe_param_place *places = smoe_alloc(params->count, sizeof *places);
    smoe_arena copies = {0};
    places_find(&from, places, &copies);
    if (smoe_arena_bind(&copies, err)) {
        free(places);
        return smoe_fail_prefix(err, "%s", smoe_safetensors_path(file));
    }
    places_find(&from, places, &copies);
    params->place = places;
    params->copies = copies;
    return 0;
}

/* Where a tensor comes from of which other processes have parts. */
typedef struct away_source {
    const smoe_part_reader *reader;
    const void *slab;
    size_t i;
} away_source;

static int read_away(const void *user, const smoe_tensor *tensor, size_t first, size_t count,
                     void *out, smoe_err *err) {
    const away_source *from = user;
    (void)tensor;
    (void)err;
    from->reader->read(from->reader->user, from->slab, from->i, first, count, out);
    return 0;
}

smoe_tensor *smoe_params_tensors(const smoe_params *params, const smoe_slab *slab) {
    /* One block: the tensors, where they come from, then their names. */
    size_t letters = 0, prefix_length = strlen(slab->prefix), n = params->count;
    for (size_t i = 0; i < n; i++) letters += prefix_length + strlen(params->param[i].name) + 1;
    smoe_tensor *block = smoe_alloc(n * (sizeof *block + sizeof(away_source)) + letters + 1, 1);
    away_source *from = (away_source *)(block + n);
    char *name = (char *)(from + n);
    for (size_t i = 0; i < n; i++) {
        const smoe_param *param = &params->param[i];
        smoe_tensor *t = &block[i];
        *t = (smoe_tensor){
            .name = name, .dtype = SMOE_DTYPE_REAL, .ndim = param->ndim, .size = param->whole};
        if (slab->values) t->data = slab->values + param->offset;
        if (slab->narrow) {
            t->dtype = SMOE_DTYPE_BF16;
            t->data = slab->narrow + param->offset;
        }
        const void *base = slab->narrow ? (const void *)slab->narrow : slab->values;
        const smoe_part_reader *reader = params->reader;
        if (base && reader && reader->away(reader->user, base, i)) {
            from[i] = (away_source){reader, base, i};
            t->source = read_away;
            t->user = &from[i];
        }
        memcpy(t->dim, param->dim, (size_t)param->ndim * sizeof *param->dim);
        name += sprintf(name, "%s%s", slab->prefix, param->name) + 1;
    }
    return block;
}
