/* Parameters from another model's file; see init_map.h. Knows by name the head, whose first
 * dimension is the classes, the positions, the experts and the slots. */
#include "tensors/init_map.h"
#include "base/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *smoe_shape_text(char buf[SMOE_SHAPE_TEXT], int ndim, const size_t *dim) {
    size_t n = (size_t)snprintf(buf, SMOE_SHAPE_TEXT, "[");
    for (int i = 0; i < ndim; i++)
        n += (size_t)snprintf(buf + n, SMOE_SHAPE_TEXT - n, "%s%zu", i ? ", " : "", dim[i]);
    snprintf(buf + n, SMOE_SHAPE_TEXT - n, "]");
    return buf;
}

/* ---- the head -------------------------------------------------------------------------------- */

static bool is_head(const char *name) {
    return !strncmp(name, "head.", 5);
}

/* Whether the file has the whole head, for as many classes. */
static bool head_fits(const smoe_params *params, const smoe_safetensors *file, const char *prefix) {
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *param = &params->param[i];
        if (!is_head(param->name)) continue;
        char name[SMOE_TENSOR_NAME];
        snprintf(name, sizeof name, "%s%s", prefix, param->name);
        const smoe_tensor *t = smoe_safetensors_find(file, name);
        if (!t || (param->ndim && t->ndim && t->dim[0] != param->dim[0])) return false;
    }
    return true;
}

smoe_init_map smoe_init_map_of(const smoe_params *params, const smoe_safetensors *file,
                               smoe_fit fit, const char *prefix) {
    return (smoe_init_map){.params = params,
                           .file = file,
                           .fit = fit,
                           .headless = !smoe_fit_whole(fit) && !head_fits(params, file, prefix)};
}

/* ---- positions ------------------------------------------------------------------------------- */

/* A square of patches, with or without a class token before it. */
typedef struct grid {
    size_t token, side; /* side 0: it is none */
} grid;

static grid grid_of(size_t tokens) {
    for (size_t token = 0; token <= 1 && token < tokens; token++) {
        size_t side = (size_t)llround(sqrt((double)(tokens - token)));
        if (side * side == tokens - token) return (grid){token, side};
    }
    return (grid){0, 0};
}

/* Whether these are the position embeddings [1,T,d] of another grid. */
static bool resizes(const smoe_param *param, const smoe_tensor *t) {
    return !strcmp(param->name, "pos_embed") && t->ndim == 3 && t->dim[0] == 1 &&
           t->dim[1] != param->dim[1] && t->dim[2] == param->dim[2] && grid_of(t->dim[1]).side &&
           grid_of(param->dim[1]).side;
}

/* Place i of `to`, on a line of `from` places: a fraction `share` of the way from place `at` to the
 * next. The ends are aligned; a single place is the middle. */
typedef struct place {
    size_t at;
    double share;
} place;

static place place_of(size_t i, size_t to, size_t from) {
    size_t parts = to - 1, steps = i * (from - 1);
    if (to < 2) {
        parts = 2;
        steps = from - 1;
    }
    return (place){steps / parts, (double)(steps % parts) / (double)parts};
}

/* The place of a patch in another grid: between four patches. */
static void interpolate(real *out, const smoe_tensor *t, size_t d, grid from, place y, place x) {
    enum { RUN = 256 };
    size_t right = x.share > 0, below = y.share > 0 ? from.side : 0;
    size_t corner = from.token + y.at * from.side + x.at;
    size_t patch[] = {corner, corner + right, corner + below, corner + below + right};
    for (size_t i = 0; i < d; i += RUN) {
        size_t n = d - i < RUN ? d - i : RUN;
        real value[4][RUN];
        for (int q = 0; q < 4; q++) (void)smoe_tensor_convert(value[q], t, patch[q] * d + i, n);
        for (size_t j = 0; j < n; j++) {
            double upper = (double)value[0][j], lower = (double)value[2][j];
            upper += x.share * ((double)value[1][j] - upper);
            lower += x.share * ((double)value[3][j] - lower);
            out[i + j] = (real)(upper + y.share * (lower - upper));
        }
    }
}

static void resize(real *out, const smoe_param *param, const smoe_tensor *t) {
    size_t d = param->dim[2];
    grid to = grid_of(param->dim[1]), from = grid_of(t->dim[1]);
    if (to.token && from.token) (void)smoe_tensor_convert(out, t, 0, d);
    out += to.token * d;
    for (size_t y = 0; y < to.side; y++)
        for (size_t x = 0; x < to.side; x++, out += d)
            interpolate(out, t, d, from, place_of(y, to.side, from.side),
                        place_of(x, to.side, from.side));
}

bool smoe_init_map_resized(const smoe_params *params, const smoe_safetensors *file, size_t *there,
                           size_t *here) {
    const smoe_param *param = smoe_params_find(params, "pos_embed");
    const smoe_tensor *t = param ? smoe_safetensors_find(file, param->name) : NULL;
    if (!t || !resizes(param, t)) return false;
    *there = grid_of(t->dim[1]).side;
    *here = grid_of(param->dim[1]).side;
    return true;
}

/* ---- experts --------------------------------------------------------------------------------- */

/* The tensor of the dense MLP in the place of experts: "blocks.3.mlp.fc1.bias" for
 * "blocks.3.mlp.experts.fc1.bias". */
static const smoe_tensor *dense_of(const smoe_init_map *from, const smoe_param *param,
                                   const char *name) {
    static const char experts[] = "experts.";
    char dense[SMOE_TENSOR_NAME];
    const char *at = param->stacked ? strstr(name, experts) : NULL;
    if (!at) return NULL;
    snprintf(dense, sizeof dense, "%.*s%s", (int)(at - name), name, at + sizeof experts - 1);
    return smoe_safetensors_find(from->file, dense);
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* Whether the slot vectors [d,E,P] have another number of slots per expert. They are then
 * initialised, because no slot of the file corresponds to a slot of the model. */
static bool other_slots(const smoe_param *param, const smoe_tensor *t) {
    static const char ending[] = ".router.phi";
    size_t letters = strlen(param->name), least = sizeof ending - 1;
    return letters > least && !strcmp(param->name + letters - least, ending) && t->ndim == 3 &&
           t->dim[0] == param->dim[0] && t->dim[1] == param->dim[1] && t->dim[2] != param->dim[2];
}

/* ---- sources of parameters ------------------------------------------------------------------- */

smoe_init_source smoe_init_map_source(const smoe_init_map *from, const smoe_param *param,
                                      const char *name) {
    if (from->headless && is_head(param->name)) return (smoe_init_source){0};
    const smoe_tensor *t = smoe_safetensors_find(from->file, name);
    const smoe_tensor *dense =
        from->fit == SMOE_FIT_UPCYCLE && !t ? dense_of(from, param, name) : NULL;
    if (dense) return (smoe_init_source){dense, SMOE_WAY_COPIED};
    if (!t || (!smoe_fit_whole(from->fit) && other_slots(param, t))) return (smoe_init_source){0};
    bool resized = from->fit != SMOE_FIT_EXACT && resizes(param, t);
    return (smoe_init_source){t, resized ? SMOE_WAY_RESIZED : SMOE_WAY_SAME};
}

static bool same_shape(const smoe_tensor *t, int ndim, const size_t *dim) {
    if (t->ndim != ndim) return false;
    for (int i = 0; i < ndim; i++)
        if (t->dim[i] != dim[i]) return false;
    return true;
}

bool smoe_init_map_refused(const smoe_init_map *from, const smoe_param *param, const char *name,
                           smoe_init_source source, smoe_err *err) {
    const smoe_tensor *t = source.tensor;
    const char *path = smoe_safetensors_path(from->file);
    char want[SMOE_SHAPE_TEXT], have[SMOE_SHAPE_TEXT];
    size_t dim[SMOE_PARAM_DIMS], axis = source.way == SMOE_WAY_COPIED; /* experts are no axis */
    memcpy(dim, param->dim, sizeof dim);
    if (!t && from->headless && is_head(param->name)) {
        t = smoe_safetensors_find(from->file, name);
        if (t && param->ndim && t->ndim) dim[0] = t->dim[0];
    }
    if (!t) return false;
    if (source.way == SMOE_WAY_RESIZED) dim[1] = t->dim[1];
    int ndim = param->ndim - (int)axis;
    if (!same_shape(t, ndim, dim + axis)) {
        smoe_fail_more(err, SMOE_DATA, "%s: tensor %s: shape %s, expected %s", path, t->name,
                       smoe_shape_text(have, t->ndim, t->dim),
                       smoe_shape_text(want, ndim, dim + axis));
        return true;
    }
    if (t->dtype > SMOE_DTYPE_F64) {
        smoe_fail_more(err, SMOE_DATA, "%s: tensor %s: dtype %s, expected F32, F16, BF16 or F64",
                       path, t->name, t->type);
        return true;
    }
    return false;
}

/* Large tensors are converted in parallel pieces. */
static void convert(real *out, const smoe_tensor *t, size_t first, size_t count) {
    enum { PIECE = 1 << 18 };
    size_t pieces = (count + PIECE - 1) / PIECE;
#pragma omp parallel for schedule(static) if (pieces > 1)
    for (size_t p = 0; p < pieces; p++) {
        size_t at = p * PIECE, left = count - at;
        (void)smoe_tensor_convert(out + at, t, first + at, left < PIECE ? left : PIECE);
    }
}

void smoe_init_map_part(real *out, smoe_init_source source, size_t first, size_t count) {
    convert(out, source.tensor, first, count);
}

void smoe_init_map_fill(real *out, const smoe_param *param, smoe_init_source source) {
    const smoe_tensor *t = source.tensor;
    if (source.way == SMOE_WAY_RESIZED)
        resize(out, param, t);
    else
        for (size_t at = 0; at < param->size; at += t->size) convert(out + at, t, 0, t->size);
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

/* Whether two names differ only in their numbers. */
static bool alike(const char *a, const char *b) {
    size_t at, length, other, digits;
    return numbered(a, &at, &length) && numbered(b, &other, &digits) && at == other &&
           !strncmp(a, b, at) && !strcmp(a + at + length, b + other + digits);
}

/* "WHATnorm.bias, blocks.{2,3}.mlp.fc1.weight and 4 more": the names, with similar ones combined;
 * nothing if there are none. The list is consumed. */
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

/* Parameters that are taken from the file in the same way. */
static void params_put(FILE *out, const char *what, const smoe_params *params,
                       const smoe_init_source *source, smoe_way way, const char **name) {
    size_t count = 0;
    for (size_t i = 0; i < params->count; i++)
        if (source[i].way == way) name[count++] = params->param[i].name;
    names_put(out, what, name, count);
}

/* The tensors of the file that are not used for any parameter. */
static void unused_put(FILE *out, const smoe_init_map *from, const smoe_init_source *source,
                       const char **name) {
    size_t count = 0;
    for (size_t i = 0; i < smoe_safetensors_count(from->file); i++) {
        const smoe_tensor *t = smoe_safetensors_at(from->file, i);
        size_t param = 0;
        while (param < from->params->count && source[param].tensor != t) param++;
        if (param == from->params->count) name[count++] = t->name;
    }
    names_put(out, "; not used: ", name, count);
}

char *smoe_init_map_text(const smoe_params *params, const smoe_safetensors *file, smoe_fit fit) {
    smoe_init_map from = smoe_init_map_of(params, file, fit, "");
    size_t names = params->count + smoe_safetensors_count(file), taken = 0, size = 0;
    const char **name = calloc(names + 1, sizeof *name);
    smoe_init_source *source = calloc(params->count + 1, sizeof *source);
    char *text = NULL;
    FILE *out = name && source ? open_memstream(&text, &size) : NULL;
    if (out) {
        for (size_t i = 0; i < params->count; i++) {
            source[i] = smoe_init_map_source(&from, &params->param[i], params->param[i].name);
            taken += source[i].tensor != NULL;
        }
        fprintf(out, "%zu of %zu tensors start from %s", taken, params->count,
                smoe_safetensors_path(file));
        params_put(out, "; resized: ", params, source, SMOE_WAY_RESIZED, name);
        params_put(out, "; copied into each expert: ", params, source, SMOE_WAY_COPIED, name);
        params_put(out, "; initialised: ", params, source, SMOE_WAY_FRESH, name);
        unused_put(out, &from, source, name);
        smoe_file_text(out, &text);
    }
    free(name);
    free(source);
    return text;
}
