/*
 * The parameter table in and out of safetensors: every row under its own name and exact shape, or
 * from what a file has in its place (store/init_map.h).
 */
#include "store/init_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_TEXT = 128 };

/* Does any slab have a row of this name? */
static bool known(const smoe_params *params, const smoe_slab *slabs, size_t count,
                  const char *name) {
    for (size_t s = 0; s < count; s++) {
        size_t prefix = strlen(slabs[s].prefix);
        if (strncmp(name, slabs[s].prefix, prefix)) continue;
        const smoe_param *row = smoe_params_find(params, name + prefix);
        if (row && smoe_slab_has(&slabs[s], row)) return true;
    }
    return false;
}

/* Everything that keeps the file from being loaded, a line each. Returns 0 when there is nothing.
 */
static int file_check(const smoe_init_map *from, const smoe_slab *slabs, size_t count,
                      smoe_err *found) {
    const smoe_params *params = from->params;
    const char *path = smoe_safetensors_path(from->file);
    char name[NAME_TEXT], shape[SMOE_SHAPE_TEXT];
    bool bad = false, exact = from->fit == SMOE_FIT_EXACT;
    size_t copied = 0;
    for (size_t s = 0; s < count; s++)
        for (size_t i = 0; i < params->count; i++) {
            const smoe_param *row = &params->row[i];
            if (!smoe_slab_has(&slabs[s], row)) continue;
            snprintf(name, sizeof name, "%s%s", slabs[s].prefix, row->name);
            smoe_init_source source = smoe_init_map_source(from, row, name);
            bad |= smoe_init_map_refused(from, row, name, source, found);
            copied += source.way == SMOE_WAY_COPIED;
            if (source.tensor || !exact) continue;
            smoe_fail_more(found, SMOE_DATA, "%s: tensor %s %s: missing", path, name,
                           smoe_shape_text(shape, row->ndim, row->dim));
            bad = true;
        }
    if (from->fit == SMOE_FIT_UPCYCLE && !copied) {
        smoe_fail_more(found, SMOE_DATA, "%s: no dense MLP that experts of this model replace",
                       path);
        bad = true;
    }
    for (size_t i = 0; exact && i < smoe_safetensors_count(from->file); i++) {
        const smoe_tensor *t = smoe_safetensors_at(from->file, i);
        if (known(params, slabs, count, t->name)) continue;
        smoe_fail_more(found, SMOE_DATA,
                       "%s: tensor %.100s %s: unknown, the model has none of this name", path,
                       t->name, smoe_shape_text(shape, t->ndim, t->dim));
        bad = true;
    }
    return bad ? -1 : 0;
}

int smoe_params_load_slabs(const smoe_params *params, const smoe_slab *slabs, size_t count,
                           const smoe_safetensors *file, smoe_fit fit, size_t *loaded,
                           smoe_err *err) {
    smoe_err found = {0};
    size_t filled = 0;
    smoe_init_map from = smoe_init_map_of(params, file, fit);
    if (file_check(&from, slabs, count, &found)) {
        if (err) *err = found;
        return -1;
    }
    for (size_t s = 0; s < count; s++)
        for (size_t i = 0; i < params->count; i++) {
            char name[NAME_TEXT];
            const smoe_param *row = &params->row[i];
            if (!smoe_slab_has(&slabs[s], row)) continue;
            snprintf(name, sizeof name, "%s%s", slabs[s].prefix, row->name);
            smoe_init_source source = smoe_init_map_source(&from, row, name);
            if (!source.tensor) continue;
            if (slabs[s].values) smoe_init_map_fill(slabs[s].values + row->offset, row, source);
            if (slabs[s].narrow) /* moments, which fit exactly */
                (void)smoe_tensor_store(slabs[s].narrow + row->offset, SMOE_DTYPE_BF16,
                                        source.tensor, 0, row->size);
            filled++;
        }
    if (loaded) *loaded = filled;
    return 0;
}

int smoe_params_load(smoe_params *params, const smoe_safetensors *file, smoe_fit fit,
                     size_t *loaded, smoe_err *err) {
    smoe_slab weights = {.prefix = "", .values = params->w};
    return smoe_params_load_slabs(params, &weights, 1, file, fit, loaded, err);
}

int smoe_params_open(smoe_safetensors **file, const smoe_params *params, const char *path,
                     smoe_fit fit, smoe_err *err) {
    size_t matches = 0;
    smoe_slab weights = {.prefix = ""};
    if (smoe_safetensors_open(file, path, err)) return -1;
    int status = smoe_params_load_slabs(params, &weights, 1, *file, fit, &matches, err);
    if (!status && !matches)
        status = smoe_fail(err, SMOE_DATA, "%s: has no tensor of this model", path);
    if (!status) return 0;
    smoe_safetensors_free(*file);
    *file = NULL;
    return -1;
}

/* Whether a tensor's elements lie as the machine reads them: a file may start data at any byte. */
static bool aligned(const smoe_tensor *t) {
    return (uintptr_t)t->data % smoe_dtype_bytes(t->dtype) == 0;
}

/* Where the file itself serves as the memory of a row; nothing where it has to be copied. */
static smoe_param_place place_of(const smoe_param *row, const smoe_tensor *t) {
    smoe_dtype own = sizeof(real) == sizeof(double) ? SMOE_DTYPE_F64 : SMOE_DTYPE_F32;
    smoe_param_place place = {0};
    if (t->dtype == own && aligned(t)) place.values = t->data;
    if (t->dtype == SMOE_DTYPE_BF16 && aligned(t) && smoe_param_streams(row))
        place.narrow = t->data;
    return place;
}

/* Looks every row up; those to be copied get their memory, which is there on the second time. */
static void places_find(const smoe_params *params, const smoe_safetensors *file,
                        smoe_param_place *places, smoe_arena *copies) {
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *row = &params->row[i];
        const smoe_tensor *t = smoe_safetensors_find(file, row->name);
        places[i] = place_of(row, t);
        if (places[i].values || places[i].narrow) continue;
        real *copy = smoe_arena_take(copies, row->size, sizeof(real));
        if (copy) smoe_init_map_fill(copy, row, (smoe_init_source){t, SMOE_WAY_SAME});
        places[i].values = copy;
    }
}

int smoe_params_map(smoe_params *params, const smoe_safetensors *file, smoe_err *err) {
    smoe_slab weights = {.prefix = ""};
    smoe_err found = {0};
    if (params->failed)
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for the parameter table");
    smoe_init_map from = smoe_init_map_of(params, file, SMOE_FIT_EXACT);
    if (file_check(&from, &weights, 1, &found)) {
        if (err) *err = found;
        return -1;
    }
    smoe_param_place *places = calloc(params->count + 1, sizeof *places);
    if (!places)
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for %zu parameters", params->count);
    smoe_arena copies = {0};
    places_find(params, file, places, &copies);
    if (smoe_arena_bind(&copies, err)) {
        free(places);
        return smoe_fail_prefix(err, "%s", smoe_safetensors_path(file));
    }
    places_find(params, file, places, &copies);
    params->place = places;
    params->copies = copies;
    return 0;
}

int smoe_params_tensors(const smoe_params *params, const smoe_slab *slab, smoe_tensor **tensors,
                        smoe_err *err) {
    /* One block: the tensors, then their names. */
    size_t letters = 0, prefix_length = strlen(slab->prefix);
    for (size_t i = 0; i < params->count; i++)
        letters += prefix_length + strlen(params->row[i].name) + 1;
    smoe_tensor *block = malloc(params->count * sizeof *block + letters + 1);
    if (!block) return smoe_fail(err, SMOE_RUNTIME, "out of memory for %zu names", params->count);
    char *name = (char *)(block + params->count);
    smoe_dtype own = sizeof(real) == sizeof(double) ? SMOE_DTYPE_F64 : SMOE_DTYPE_F32;
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *row = &params->row[i];
        smoe_tensor *t = &block[i];
        *t = (smoe_tensor){.name = name, .dtype = own, .ndim = row->ndim, .size = row->size};
        if (slab->values) t->data = slab->values + row->offset;
        if (slab->narrow) {
            t->dtype = SMOE_DTYPE_BF16;
            t->data = slab->narrow + row->offset;
        }
        memcpy(t->dim, row->dim, (size_t)row->ndim * sizeof *row->dim);
        name += sprintf(name, "%s%s", slab->prefix, row->name) + 1;
    }
    *tensors = block;
    return 0;
}
