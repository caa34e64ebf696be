/* Parameters from another model's file, and in words what is taken of it; see init_map.h. Knows by
 * name the head, whose first dimension is the classes, the positions, the tokens before patches,
 * the experts and the slots. */
#include "tensors/init_map.h"

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
    bool fits = !params->headless && head_fits(params, file, prefix);
    return (smoe_init_map){.params = params,
                           .file = file,
                           .fit = fit,
                           .headless = !smoe_fit_whole(fit) && !fits,
                           .order = smoe_fit_whole(fit) ? NULL : params->head_order};
}

/* Moments of columns, which Adafactor has, are those of all classes. */
static bool is_ordered(const smoe_init_map *from, const smoe_param *param) {
    return from->order && is_head(param->name) && !smoe_text_ends(param->name, ".columns");
}

/* Its classes are the first axis; the moments of its rows are one row [1,N]. */
static void order_rows(real *out, const smoe_init_map *from, const smoe_param *param,
                       const smoe_tensor *t) {
    size_t N = param->dim[0] > 1 ? param->dim[0] : param->dim[1], n = param->size / N;
    for (size_t k = 0; k < N; k++) (void)smoe_tensor_convert(out + k * n, t, from->order[k] * n, n);
}

/* ---- positions ------------------------------------------------------------------------------- */

/* A grid of patches, and the positions before it, of a class token and registers. */
typedef struct grid {
    size_t before, rows, columns; /* rows 0: it is none */
} grid;

/* That of the model, which is a square, is known from its own class token. */
static grid grid_here(const smoe_init_map *from, const smoe_param *param) {
    size_t token = smoe_params_find(from->params, "cls_token") != NULL;
    size_t side = (size_t)llround(sqrt((double)(param->dim[1] - token)));
    return (grid){token, side, side};
}

/* Tokens [1,n,d] of a file before its patches; 0: none. */
static size_t tokens_there(const smoe_init_map *from, const char *name, size_t d) {
    const smoe_tensor *t = smoe_safetensors_find(from->file, name);
    bool fits = t && t->dtype <= SMOE_DTYPE_F64 && t->ndim == 3 && t->dim[0] == 1 && t->dim[2] == d;
    return fits ? t->dim[1] : 0;
}

/* That of a file: as the user says it, or a square. The positions before it are for all tokens
 * that are there, for the class token alone, or there are none. Files of smoe have none for
 * registers: 16 with 7 registers are 4x4, not 3x3 and 7. Where a file has a class token and
 * no registers, a square of positions without one for that token is a grid that is not known: 9
 * are 3x3, or 2x4 and one; unless they are as many as the model has patches. */
static grid grid_there(const smoe_init_map *from, const smoe_param *param, const smoe_tensor *t) {
    size_t rows, columns, n = t->dim[1], d = t->dim[2], here = grid_here(from, param).rows;
    size_t token = tokens_there(from, "cls_token", d), more = tokens_there(from, "reg_token", d);
    bool own = smoe_safetensors_metadata(from->file, "smoe.spec");
    const size_t before[] = {own ? token : token + more, 1, 0};
    smoe_safetensors_grid(from->file, &rows, &columns);
    for (size_t i = 0; i < 3; i++) {
        if (before[i] >= n || (i < 2 && before[i] == before[2])) continue;
        size_t patches = n - before[i], side = (size_t)llround(sqrt((double)patches));
        if (rows && rows * columns == patches) return (grid){before[i], rows, columns};
        if (rows || side * side != patches) continue;
        if (token && !more && !before[i] && side != here) break;
        return (grid){before[i], side, side};
    }
    return (grid){0, 0, 0};
}

/* Whether these are position embeddings [1,T,d] that must be resized. */
static bool resizes(const smoe_init_map *from, const smoe_param *param, const smoe_tensor *t) {
    if (strcmp(param->name, "pos_embed") != 0 || t->ndim != 3 || t->dim[0] != 1 ||
        t->dim[2] != param->dim[2])
        return false;
    grid there = grid_there(from, param, t), here = grid_here(from, param);
    return there.rows && (there.before != here.before || there.rows != here.rows ||
                          there.columns != here.columns);
}

/* Place i of `to`, on a line of `from` places: a fraction `share` of the way from place `at` to the
 * next. The ends are aligned; a single place is the middle. */
typedef struct place {
    size_t at;
    double share;
} place;

static place init_map_place_of(size_t i, size_t to, size_t from) {
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
    size_t right = x.share > 0, below = y.share > 0 ? from.columns : 0;
    size_t corner = from.before + y.at * from.columns + x.at;
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

static void resize(real *out, const smoe_init_map *map, const smoe_param *param,
                   const smoe_tensor *t) {
    size_t d = param->dim[2];
    grid to = grid_here(map, param), from = grid_there(map, param, t);
    if (to.before) memset(out, 0, d * sizeof *out);
    if (to.before && from.before) (void)smoe_tensor_convert(out, t, 0, d);
    out += to.before * d;
    for (size_t y = 0; y < to.rows; y++)
        for (size_t x = 0; x < to.columns; x++, out += d)
            interpolate(out, t, d, from, init_map_place_of(y, to.rows, from.rows),
                        init_map_place_of(x, to.columns, from.columns));
}

char *smoe_init_map_resized(const smoe_params *params, const smoe_safetensors *file) {
    const smoe_init_map from = {.params = params, .file = file, .fit = SMOE_FIT_RESIZED};
    const smoe_param *param = smoe_params_find(params, "pos_embed");
    const smoe_tensor *t = param ? smoe_safetensors_find(file, param->name) : NULL;
    if (!t || !resizes(&from, param, t)) return NULL;
    grid there = grid_there(&from, param, t), here = grid_here(&from, param);
    if (there.rows == here.rows && there.columns == here.columns) return NULL;
    return smoe_text_format("positions resized from %zux%zu patches to %zux%zu", there.rows,
                            there.columns, here.rows, here.columns);
}

/* ---- registers ------------------------------------------------------------------------------- */

/* The tokens of a file that are registers here: its own, and, in a model without a class token,
 * that one, which takes part in attention alone. Their positions, where the file has some, are
 * added to them. */
typedef struct registers {
    const smoe_tensor *token, *more, *position; /* NULL: none; position of all of them */
    size_t skip;                                /* positions before that of the first */
} registers;

static registers registers_of(const smoe_init_map *from, const smoe_param *param) {
    size_t d = param->dim[2], before = 0;
    const smoe_param *position = smoe_params_find(from->params, "pos_embed");
    bool token = tokens_there(from, "cls_token", d) == 1;
    registers r = {0};
    if (token && !smoe_params_find(from->params, "cls_token"))
        r.token = smoe_safetensors_find(from->file, "cls_token");
    if (tokens_there(from, "reg_token", d)) r.more = smoe_safetensors_find(from->file, "reg_token");
    const smoe_tensor *t = position ? smoe_safetensors_find(from->file, "pos_embed") : NULL;
    if (t && t->ndim == 3 && t->dim[2] == d) before = grid_there(from, position, t).before;
    r.skip = token && !r.token;
    if (before > r.skip) r.position = t;
    return r;
}

/* Whether a parameter is registers whose number the file has, but not as they are. */
static bool composes(const smoe_init_map *from, const smoe_param *param) {
    if (from->fit == SMOE_FIT_EXACT || strcmp(param->name, "reg_token") != 0) return false;
    registers r = registers_of(from, param);
    size_t count = (r.token != NULL) + (r.more ? r.more->dim[1] : 0);
    return count == param->dim[1] && (r.token || r.position);
}

static void compose(real *out, const smoe_init_map *from, const smoe_param *param) {
    registers r = registers_of(from, param);
    size_t d = param->dim[2], positions = 0;
    if (r.token) (void)smoe_tensor_convert(out, r.token, 0, d);
    if (r.more) (void)smoe_tensor_convert(out + (r.token ? d : 0), r.more, 0, r.more->size);
    if (r.position) {
        const smoe_param *position = smoe_params_find(from->params, "pos_embed");
        positions = grid_there(from, position, r.position).before - r.skip;
    }
    for (size_t i = 0; i < positions * d; i++) {
        real x;
        (void)smoe_tensor_convert(&x, r.position, r.skip * d + i, 1);
        out[i] += x;
    }
}

bool smoe_init_map_composed(const smoe_init_map *from, const char *name) {
    const smoe_param *param = smoe_params_find(from->params, "reg_token");
    bool token = !strcmp(name, "cls_token") && !smoe_params_find(from->params, "cls_token");
    return param && (token || !strcmp(name, "reg_token")) && composes(from, param);
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
    return smoe_text_ends(param->name, ".router.phi") && t->ndim == 3 &&
           t->dim[0] == param->dim[0] && t->dim[1] == param->dim[1] && t->dim[2] != param->dim[2];
}

/* ---- sources of parameters ------------------------------------------------------------------- */

smoe_init_source smoe_init_map_source(const smoe_init_map *from, const smoe_param *param,
                                      const char *name) {
    if (from->headless && is_head(param->name)) return (smoe_init_source){0};
    const smoe_tensor *t = smoe_safetensors_find(from->file, name);
    if (composes(from, param))
        return (smoe_init_source){t ? t : smoe_safetensors_find(from->file, "cls_token"),
                                  SMOE_WAY_TOKENS};
    const smoe_tensor *dense =
        from->fit == SMOE_FIT_UPCYCLE && !t ? dense_of(from, param, name) : NULL;
    if (dense) return (smoe_init_source){dense, SMOE_WAY_COPIED};
    if (!t || (!smoe_fit_whole(from->fit) && other_slots(param, t))) return (smoe_init_source){0};
    if (is_ordered(from, param)) return (smoe_init_source){t, SMOE_WAY_ORDERED};
    bool resized = from->fit != SMOE_FIT_EXACT && resizes(from, param, t);
    return (smoe_init_source){t, resized ? SMOE_WAY_RESIZED : SMOE_WAY_SAME};
}

int smoe_init_map_check(const smoe_init_map *from, const smoe_param *param, const char *name,
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
    if (!t || source.way == SMOE_WAY_TOKENS) return 0;
    if (source.way == SMOE_WAY_RESIZED) dim[1] = t->dim[1];
    int ndim = param->ndim - (int)axis;
    if (!strcmp(param->name, "pos_embed") && from->fit != SMOE_FIT_EXACT && t->ndim == 3 &&
        source.way != SMOE_WAY_RESIZED) {
        size_t rows, columns;
        smoe_safetensors_grid(from->file, &rows, &columns);
        if (rows && !grid_there(from, param, t).rows)
            return smoe_fail_more(err, SMOE_DATA,
                                  "%s: tensor %s: %zu positions are not %zux%zu patches", path,
                                  t->name, t->dim[1], rows, columns);
        if (!rows && t->dim[1] != param->dim[1])
            return smoe_fail_more(
                err, SMOE_DATA,
                "%s: tensor %s: %zu positions, perhaps of a grid that is not square; "
                "give it with --grid ROWSxCOLUMNS, as in --grid 14x14",
                path, t->name, t->dim[1]);
    }
    if (t->ndim != ndim || memcmp(t->dim, dim + axis, (size_t)ndim * sizeof *dim) != 0)
        return smoe_fail_more(err, SMOE_DATA, "%s: tensor %s: shape %s, expected %s", path, t->name,
                              smoe_shape_text(have, t->ndim, t->dim),
                              smoe_shape_text(want, ndim, dim + axis));
    if (t->dtype > SMOE_DTYPE_F64)
        return smoe_fail_more(err, SMOE_DATA,
                              "%s: tensor %s: dtype %s, expected F32, F16, BF16 or F64; %s", path,
                              t->name, t->type, smoe_type_remedy(t->type));
    return 0;
}

/* Large tensors are converted in parallel pieces. */
void smoe_init_map_part(real *out, const smoe_tensor *t, size_t first, size_t count) {
    enum { PIECE = 1 << 18 };
    size_t pieces = (count + PIECE - 1) / PIECE;
#pragma omp parallel for schedule(static) if (pieces > 1)
    for (size_t p = 0; p < pieces; p++) {
        size_t at = p * PIECE, left = count - at;
        (void)smoe_tensor_convert(out + at, t, first + at, left < PIECE ? left : PIECE);
    }
}

void smoe_init_map_fill(real *out, const smoe_init_map *from, const smoe_param *param,
                        smoe_init_source source) {
    const smoe_tensor *t = source.tensor;
    if (source.way == SMOE_WAY_RESIZED)
        resize(out, from, param, t);
    else if (source.way == SMOE_WAY_ORDERED)
        order_rows(out, from, param, t);
    else if (source.way == SMOE_WAY_TOKENS)
        compose(out, from, param);
    else
        for (size_t at = 0; at < param->size; at += t->size)
            smoe_init_map_part(out + at, t, 0, t->size);
}

/* ---- in words -------------------------------------------------------------------------------- */

/* A name with a number in it, "blocks.3.norm1.bias": the letters before and behind the number,
 * which is `length` digits at `at`. */
static bool init_text_numbered(const char *name, size_t *at, size_t *length) {
    const char *dot = strchr(name, '.');
    *at = dot ? (size_t)(dot + 1 - name) : 0;
    *length = dot ? strspn(dot + 1, "0123456789") : 0;
    return *length && name[*at + *length] == '.';
}

/* Whether two names differ only in their numbers. */
static bool alike(const char *a, const char *b) {
    size_t at, length, other, digits;
    return init_text_numbered(a, &at, &length) && init_text_numbered(b, &other, &digits) &&
           at == other && !strncmp(a, b, at) && !strcmp(a + at + length, b + other + digits);
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
            if (!members++ && init_text_numbered(first, &at, &length))
                fprintf(out, "%.*s{%.*s", (int)at, first, (int)length, first + at);
            init_text_numbered(name[j], &at, &length);
            fprintf(out, ",%.*s", (int)length, name[j] + at);
            name[j] = NULL;
            left--;
        }
        if (members && init_text_numbered(first, &at, &length))
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

/* The tensors of the file that are not used for any parameter, but for those that may be left out;
 * `may` NULL: none may. */
static void unused_put(FILE *out, const smoe_init_map *from, const smoe_init_source *source,
                       const char **name,
                       bool (*may)(const smoe_init_map *from, const char *name)) {
    size_t count = 0;
    for (size_t i = 0; i < smoe_safetensors_count(from->file); i++) {
        const smoe_tensor *t = smoe_safetensors_at(from->file, i);
        size_t param = 0;
        while (param < from->params->count && source[param].tensor != t) param++;
        if (param == from->params->count && !(may && may(from, t->name)) &&
            !smoe_init_map_composed(from, t->name))
            name[count++] = t->name;
    }
    names_put(out, "; not used from the file: ", name, count);
}

/* ---- sources --------------------------------------------------------------------------------- */

/* The sources of all parameters, and room for names. */
typedef struct sources {
    smoe_init_source *source;
    const char **name;
} sources;

static void sources_free(sources *s) {
    free(s->source);
    free(s->name);
}

static sources sources_of(const smoe_init_map *from) {
    size_t n = from->params->count, names = n + smoe_safetensors_count(from->file);
    sources s = {smoe_alloc(n, sizeof *s.source), smoe_alloc(names, sizeof *s.name)};
    for (size_t i = 0; i < n; i++)
        s.source[i] =
            smoe_init_map_source(from, &from->params->param[i], from->params->param[i].name);
    return s;
}

char *smoe_init_map_text(const smoe_params *params, const smoe_safetensors *file, smoe_fit fit) {
    smoe_init_map from = smoe_init_map_of(params, file, fit, "");
    SMOE_FREED_BY(sources_free) sources s = sources_of(&from);
    size_t taken = 0, size = 0;
    char *text = NULL;
    FILE *out = smoe_alloc_stream(&text, &size);
    for (size_t i = 0; i < params->count; i++) taken += s.source[i].tensor != NULL;
    fprintf(out, "%zu of %zu tensors start from %s", taken, params->count,
            smoe_safetensors_path(file));
    params_put(out, "; resized: ", params, s.source, SMOE_WAY_RESIZED, s.name);
    params_put(out, "; in the order of the data's classes: ", params, s.source, SMOE_WAY_ORDERED,
               s.name);
    params_put(out, "; copied into each expert: ", params, s.source, SMOE_WAY_COPIED, s.name);
    params_put(out, "; initialised: ", params, s.source, SMOE_WAY_FRESH, s.name);
    unused_put(out, &from, s.source, s.name, NULL);
    return smoe_alloc_stream_close(out, &text);
}

/* ---- whether it is the whole model ----------------------------------------------------------- */

/* Parts of a model by the beginnings of their names. */
static bool begins(const char *name, const char *const *part) {
    while (*part && strncmp(name, *part, strlen(*part)) != 0) part++;
    return *part;
}
#define BEGINS(name, ...) begins(name, (const char *const[]){__VA_ARGS__, NULL})

/* Routers are exchanged; new slots have new vectors. */
static bool is_router(const char *name) {
    return strstr(name, ".mlp.router.");
}

static bool is_pooling(const char *name) {
    return BEGINS(name, "norm.", "fc_norm.", "attn_pool.");
}

/* Whether a tensor of the file begins with these letters. */
static bool file_begins(const smoe_init_map *from, const char *letters, size_t count) {
    for (size_t i = 0; i < smoe_safetensors_count(from->file); i++)
        if (!strncmp(smoe_safetensors_at(from->file, i)->name, letters, count)) return true;
    return false;
}

/* What follows the last block belongs to the head: with a new head it is new too, but only as a
 * whole. A part of which file and model both have tensors must be complete. */
static bool pooling_is_new(const smoe_init_map *from, const char *name) {
    size_t part = strcspn(name, ".") + 1, here = 0;
    for (size_t i = 0; i < from->params->count; i++)
        here += !strncmp(from->params->param[i].name, name, part);
    return from->headless && !(here && file_begins(from, name, part));
}

static bool may_miss(const smoe_init_map *from, const char *name) {
    if (is_router(name) || BEGINS(name, "head.", "logit_")) return true;
    if (is_pooling(name)) return pooling_is_new(from, name);
    /* an image model gets a text tower */
    return !strncmp(name, "text.", 5) && !file_begins(from, "text.", 5);
}

static bool may_leave(const smoe_init_map *from, const char *name) {
    if (is_router(name)) return true;
    if (is_pooling(name)) return pooling_is_new(from, name);
    if (!strncmp(name, "text.", 5)) return !smoe_params_find(from->params, "logit_scale");
    return !BEGINS(name, "blocks.", "patch_embed.", "cls_token", "reg_token", "pos_embed",
                   "norm_pre.");
}

/* Whether the file has a tensor with that in its name. */
static bool file_has(const smoe_init_map *from, const char *text) {
    for (size_t i = 0; i < smoe_safetensors_count(from->file); i++)
        if (strstr(smoe_safetensors_at(from->file, i)->name, text)) return true;
    return false;
}

void smoe_init_map_lacks(const smoe_init_map *from, smoe_err *err) {
    const smoe_params *params = from->params;
    SMOE_FREED_BY(sources_free) sources s = sources_of(from);
    size_t missing = 0, size = 0;
    static const char of_experts[] = ".mlp.experts.", of_dense[] = ".mlp.fc1.";
    bool experts = false, dense = false; /* are missing, and there in the other form */
    SMOE_FREED char *text = NULL;
    FILE *out = smoe_alloc_stream(&text, &size);
    for (size_t i = 0; i < params->count; i++) {
        const char *name = params->param[i].name;
        if (s.source[i].tensor || may_miss(from, name)) continue;
        s.name[missing++] = name;
        experts |= strstr(name, of_experts) != NULL;
        dense |= strstr(name, of_dense) != NULL;
    }
    experts &= file_has(from, of_dense);
    dense &= file_has(from, of_experts);
    bool token = file_has(from, "cls_token") && !smoe_params_find(params, "cls_token");
    const smoe_tensor *more = smoe_safetensors_find(from->file, "reg_token");
    char tokens[80] = "";
    if (more && more->ndim == 3 && !smoe_params_find(params, "reg_token"))
        snprintf(tokens, sizeof tokens,
                 "model.registers=%zu has registers or a distillation token; ", more->dim[1]);
    names_put(out, "; missing: ", s.name, missing);
    unused_put(out, from, s.source, s.name, may_leave);
    smoe_alloc_stream_close(out, &text);
    if (!*text) return;
    smoe_fail_more(
        err, SMOE_DATA, "%s: differs from the model of the spec before the head: %s. %s%s%s",
        smoe_safetensors_path(from->file), text + strspn(text, "; "),
        token ? "model.head=token has a class token; " : "", tokens,
        from->fit == SMOE_FIT_UPCYCLE
            ? missing ? "--upcycle makes experts from an MLP, but no shared or universal ones"
                      : "with --upcycle nothing else may be left out"
        : experts ? "--upcycle makes experts from a dense MLP, --partial starts from "
                    "the parts in common"
        : dense   ? "smoe convert --experts mean makes an MLP of experts, --partial "
                    "starts from the parts in common"
                  : "--partial starts from the parts in common");
}
