/*
 * The parameter table in and out of safetensors: every row under its own name and exact shape.
 * Knows no tensor by name, but for the head's, whose first dimension is the classes.
 */
#include "train/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHAPE_TEXT = 192, NAME_TEXT = 128 };

/* "[3, 4]" */
static const char *shape_text(char buf[SHAPE_TEXT], int ndim, const size_t *dim) {
    size_t n = (size_t)snprintf(buf, SHAPE_TEXT, "[");
    for (int i = 0; i < ndim; i++)
        n += (size_t)snprintf(buf + n, SHAPE_TEXT - n, "%s%zu", i ? ", " : "", dim[i]);
    snprintf(buf + n, SHAPE_TEXT - n, "]");
    return buf;
}

static bool same_shape(const smoe_param *row, const smoe_tensor *t) {
    if (row->ndim != t->ndim) return false;
    for (int i = 0; i < row->ndim; i++)
        if (row->dim[i] != t->dim[i]) return false;
    return true;
}

/* What is wrong with the tensor of a row, appended to err; false when nothing is. */
static bool row_refused(const smoe_param *row, const smoe_tensor *t, const char *name,
                        const char *path, smoe_err *err) {
    char want[SHAPE_TEXT], have[SHAPE_TEXT];
    if (!same_shape(row, t)) {
        smoe_fail_more(err, SMOE_DATA, "%s: tensor %s: shape %s, expected %s", path, name,
                       shape_text(have, t->ndim, t->dim), shape_text(want, row->ndim, row->dim));
        return true;
    }
    if (t->dtype > SMOE_DTYPE_F64) {
        smoe_fail_more(err, SMOE_DATA, "%s: tensor %s: dtype %s, expected F32, F16, BF16 or F64",
                       path, name, t->type);
        return true;
    }
    return false;
}

/* Does any slab have a row of this name? */
static bool known(const smoe_params *params, const smoe_slab *slabs, size_t count,
                  const char *name) {
    for (size_t s = 0; s < count; s++) {
        size_t prefix = strlen(slabs[s].prefix);
        if (!strncmp(name, slabs[s].prefix, prefix) && smoe_params_find(params, name + prefix))
            return true;
    }
    return false;
}

static bool is_head(const char *name) {
    return !strncmp(name, "head.", 5);
}

/* Whether the file has the whole head, for as many classes. */
static bool head_fits(const smoe_params *params, const smoe_safetensors *file) {
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *row = &params->row[i];
        if (!is_head(row->name)) continue;
        const smoe_tensor *t = smoe_safetensors_find(file, row->name);
        if (!t || (row->ndim && t->ndim && t->dim[0] != row->dim[0])) return false;
    }
    return true;
}

/* What a row is filled from, NULL for nothing. Where missing tensors are allowed, a classifier that
 * is for another number of classes, or not whole, counts as missing with all its rows (`headless`):
 * that is what starting from another task's model means. */
static const smoe_tensor *source_of(const smoe_safetensors *file, const smoe_param *row,
                                    const char *name, bool headless) {
    return headless && is_head(row->name) ? NULL : smoe_safetensors_find(file, name);
}

/* Of a head that is left out, all but the number of classes must be right: anything else is a
 * mistake. */
static bool head_refused(const smoe_param *row, const smoe_tensor *t, const char *path,
                         smoe_err *err) {
    smoe_param as_many = *row;
    if (row->ndim && t->ndim) as_many.dim[0] = t->dim[0];
    return row_refused(&as_many, t, row->name, path, err);
}

/* Everything that keeps the file from being loaded, a line each. Returns 0 when there is nothing.
 */
static int file_check(const smoe_params *params, const smoe_slab *slabs, size_t count,
                      const smoe_safetensors *file, bool partial, smoe_err *found) {
    const char *path = smoe_safetensors_path(file);
    char name[NAME_TEXT], shape[SHAPE_TEXT];
    bool bad = false, headless = partial && !head_fits(params, file);
    for (size_t s = 0; s < count; s++)
        for (size_t i = 0; i < params->count; i++) {
            const smoe_param *row = &params->row[i];
            snprintf(name, sizeof name, "%s%s", slabs[s].prefix, row->name);
            const smoe_tensor *t = smoe_safetensors_find(file, name);
            if (t && !source_of(file, row, name, headless)) {
                bad |= head_refused(row, t, path, found);
            } else if (t) {
                bad |= row_refused(row, t, name, path, found);
            } else if (!partial) {
                smoe_fail_more(found, SMOE_DATA, "%s: tensor %s %s: missing", path, name,
                               shape_text(shape, row->ndim, row->dim));
                bad = true;
            }
        }
    for (size_t i = 0; !partial && i < smoe_safetensors_count(file); i++) {
        const smoe_tensor *t = smoe_safetensors_at(file, i);
        if (known(params, slabs, count, t->name)) continue;
        smoe_fail_more(found, SMOE_DATA,
                       "%s: tensor %.100s %s: unknown, the model has none of this name", path,
                       t->name, shape_text(shape, t->ndim, t->dim));
        bad = true;
    }
    return bad ? -1 : 0;
}

/* Large tensors are converted in parallel pieces. */
static void row_fill(real *out, const smoe_tensor *t) {
    enum { PIECE = 1 << 18 };
    size_t pieces = (t->size + PIECE - 1) / PIECE;
#pragma omp parallel for schedule(static) if (pieces > 1)
    for (size_t p = 0; p < pieces; p++) {
        size_t first = p * PIECE, left = t->size - first;
        (void)smoe_tensor_convert(out + first, t, first, left < PIECE ? left : PIECE);
    }
}

int smoe_params_load_slabs(const smoe_params *params, const smoe_slab *slabs, size_t count,
                           const smoe_safetensors *file, bool partial, size_t *loaded,
                           smoe_err *err) {
    smoe_err found = {0};
    size_t filled = 0;
    bool headless = partial && !head_fits(params, file);
    if (file_check(params, slabs, count, file, partial, &found)) {
        if (err) *err = found;
        return -1;
    }
    for (size_t s = 0; s < count; s++)
        for (size_t i = 0; i < params->count; i++) {
            char name[NAME_TEXT];
            snprintf(name, sizeof name, "%s%s", slabs[s].prefix, params->row[i].name);
            const smoe_tensor *t = source_of(file, &params->row[i], name, headless);
            if (!t) continue;
            if (slabs[s].values) row_fill(slabs[s].values + params->row[i].offset, t);
            if (slabs[s].narrow)
                (void)smoe_tensor_store(slabs[s].narrow + params->row[i].offset, SMOE_DTYPE_BF16, t,
                                        0, t->size);
            filled++;
        }
    if (loaded) *loaded = filled;
    return 0;
}

int smoe_params_load(smoe_params *params, const smoe_safetensors *file, bool partial,
                     size_t *loaded, smoe_err *err) {
    smoe_slab weights = {.prefix = "", .values = params->w};
    return smoe_params_load_slabs(params, &weights, 1, file, partial, loaded, err);
}

/* ---- what a partial load takes, in words ----------------------------------------------------- */

/* A name with a number in it, "blocks.3.norm1.bias": the letters before and behind the number,
 * which is `length` digits at `at`. */
static bool numbered(const char *name, size_t *at, size_t *length) {
    const char *dot = strchr(name, '.');
    *at = dot ? (size_t)(dot + 1 - name) : 0;
    *length = dot ? strspn(dot + 1, "0123456789") : 0;
    return *length && name[*at + *length] == '.';
}

/* Whether two names differ in their numbers alone. */
static bool alike(const char *a, const char *b) {
    size_t at, length, other, digits;
    return numbered(a, &at, &length) && numbered(b, &other, &digits) && at == other &&
           !strncmp(a, b, at) && !strcmp(a + at + length, b + other + digits);
}

/* "WHATnorm.bias, blocks.{2,3}.mlp.fc1.weight and 4 more": the names, those alike as one; nothing
 * where there are none. The list is used up. */
static void names_put(FILE *out, const char *what, const char **name, size_t count) {
    enum { SHOWN = 8 };
    size_t left = count, at = 0, length = 0;
    for (size_t i = 0, groups = 0; i < count && groups < SHOWN; i++) {
        const char *first = name[i];
        if (!first) continue;
        fprintf(out, "%s", groups++ ? ", " : what);
        left--;
        size_t members = 0;
        for (size_t j = i + 1; j < count; j++) {
            if (!name[j] || !alike(first, name[j])) continue;
            if (!members++ && numbered(first, &at, &length))
                fprintf(out, "%.*s{%.*s", (int)at, first, (int)length, first + at);
            numbered(name[j], &at, &length);
            fprintf(out, ",%.*s", (int)length, name[j] + at);
            name[j] = NULL;
            left--;
        }
        if (members && numbered(first, &at, &length))
            fprintf(out, "}%s", first + at + length);
        else
            fputs(first, out);
    }
    if (left) fprintf(out, " and %zu more", left);
}

char *smoe_params_partial_text(const smoe_params *params, const smoe_safetensors *file) {
    const char *path = smoe_safetensors_path(file);
    size_t tensors = smoe_safetensors_count(file), fresh = 0, unused = 0, size = 0;
    bool headless = !head_fits(params, file);
    const char **name = calloc(params->count + tensors + 1, sizeof *name);
    char *text = NULL;
    FILE *out = name ? open_memstream(&text, &size) : NULL;
    if (!out) {
        free(name);
        return NULL;
    }
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *row = &params->row[i];
        if (!source_of(file, row, row->name, headless)) name[fresh++] = row->name;
    }
    fprintf(out, "%zu of %zu tensors start from %s", params->count - fresh, params->count, path);
    names_put(out, "; fresh: ", name, fresh);
    for (size_t i = 0; i < tensors; i++) {
        const char *there = smoe_safetensors_at(file, i)->name;
        const smoe_param *row = smoe_params_find(params, there);
        if (!row || !source_of(file, row, there, headless)) name[unused++] = there;
    }
    names_put(out, "; unused in it: ", name, unused);
    bool failed = fclose(out);
    free(name);
    if (!failed) return text;
    free(text);
    return NULL;
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
        if (copy) row_fill(copy, t);
        places[i].values = copy;
    }
}

int smoe_params_map(smoe_params *params, const smoe_safetensors *file, smoe_err *err) {
    smoe_slab weights = {.prefix = ""};
    smoe_err found = {0};
    if (params->failed)
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for the parameter table");
    if (file_check(params, &weights, 1, file, false, &found)) {
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
