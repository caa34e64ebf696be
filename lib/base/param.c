/* The parameter table and its slabs; see param.h. */
#include "base/param.h"
#include "base/rng.h"

#include <stdarg.h>

/* The next place of the slabs. */
static void param_put(smoe_params *params, smoe_param *param) {
    param->offset = params->size;
    params->size = smoe_param_end(param);
}

size_t smoe_params_add(smoe_params *params, smoe_param_kind kind, int ndim, const size_t *dim,
                       const char *fmt, ...) {
    params->param = smoe_alloc_next(params->param, params->count, sizeof *params->param);
    smoe_param *p = &params->param[params->count];
    *p = (smoe_param){.ndim = ndim,
                      .size = 1,
                      .group = kind.group,
                      .mean = kind.mean,
                      .std = kind.std,
                      .rule = {.lr = 1, .decay = -1}};
    for (int i = 0; i < ndim; i++) p->size *= p->dim[i] = dim[i];
    p->whole = p->size;
    va_list args;
    va_start(args, fmt);
    vsnprintf(p->name, sizeof p->name, fmt, args);
    va_end(args);
    params->total += p->size;
    param_put(params, p);
    params->trained = params->shared = params->size;
    return params->count++;
}

void smoe_params_place(smoe_params *params) {
    enum { SHARED, DIVIDED, FROZEN, KINDS };
    params->size = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        for (size_t i = 0; i < params->count; i++) {
            smoe_param *p = &params->param[i];
            int own = p->frozen ? FROZEN : smoe_param_sharded(p) ? DIVIDED : SHARED;
            if (own == kind) param_put(params, p);
        }
        if (kind == SHARED) params->shared = params->size;
        if (kind == DIVIDED) params->trained = params->size;
    }
}

void smoe_params_shard(smoe_params *params, size_t i, size_t from, size_t size) {
    smoe_param *p = &params->param[i];
    params->total -= p->size - size;
    p->from = from;
    p->size = size;
}

static int slab(void **where, const smoe_params *params, size_t size, size_t elem, smoe_err *err) {
    smoe_arena arena = {0};
    smoe_arena_take(&arena, size, elem);
    if (smoe_arena_bind(&arena, err)) return smoe_fail_prefix(err, "%zu parameters", params->total);
    *where = arena.base;
    return 0;
}

int smoe_params_allocate(smoe_params *params, int slabs, smoe_err *err) {
    real **all[] = {&params->w, &params->g, &params->m, &params->v};
    for (int i = 0; i < slabs; i++)
        if (!*all[i] &&
            slab((void **)all[i], params, i ? params->trained : params->size, sizeof(real), err))
            return -1;
    return 0;
}

int smoe_params_allocate_moments(smoe_params *params, smoe_moment first, smoe_moment second,
                                 smoe_err *err) {
    const smoe_moment kind[] = {first, second};
    real **wide[] = {&params->m, &params->v};
    smoe_bf16 **narrow[] = {&params->m_bf16, &params->v_bf16};
    for (int i = 0; i < 2; i++) {
        bool is_wide = kind[i] == SMOE_MOMENT_REAL;
        void **where = is_wide ? (void **)wide[i] : (void **)narrow[i];
        if (kind[i] != SMOE_MOMENT_NONE && !*where &&
            slab(where, params, params->trained, is_wide ? sizeof(real) : sizeof(smoe_bf16), err))
            return -1;
    }
    return 0;
}

int smoe_params_allocate_average(smoe_params *params, smoe_err *err) {
    return slab((void **)&params->average, params, params->size, sizeof(real), err);
}

void smoe_params_exchange_average(smoe_params *params) {
    SMOE_SWAP(params->w, params->average);
}

/* out [end - first] = values `first` to `end` of the streams of a parameter. */
static void param_draw(real *out, const smoe_param *p, uint64_t seed, size_t first, size_t end) {
    enum { RUN = SMOE_PARAM_RUN, PIECE = 256 };
    uint32_t name = smoe_rng_name(p->name);
#pragma omp parallel for schedule(static)
    for (size_t r = first / RUN; r < (end + RUN - 1) / RUN; r++) {
        smoe_rng rng = smoe_rng_at(seed, SMOE_RNG_INIT, name, r, 0);
        size_t stop = end < (r + 1) * RUN ? end : (r + 1) * RUN;
        double z[PIECE] = {0};
        for (size_t j = r * RUN; j < stop; j += PIECE) {
            size_t n = stop - j < PIECE ? stop - j : PIECE;
            if (p->std > 0) smoe_rng_normals(&rng, z, n);
            for (size_t i = j < first ? first - j : 0; i < n; i++)
                out[j + i - first] = (real)(p->mean + p->std * z[i]);
        }
    }
}

void smoe_param_initial(real *out, const smoe_param *p, uint64_t seed, size_t first, size_t count) {
    size_t period = p->alike ? p->whole / p->dim[0] : p->whole;
    for (size_t done = 0, n; done < count; done += n) {
        size_t at = (first + done) % period, left = count - done;
        n = period - at < left ? period - at : left;
        param_draw(out + done, p, seed, at, at + n);
    }
}

void smoe_params_init(smoe_params *params, uint64_t seed) {
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *p = &params->param[i];
        smoe_param_initial(params->w + p->offset, p, seed, p->from, p->size);
    }
}

size_t smoe_params_counted(const smoe_params *params) {
    size_t sum = 0;
    for (size_t i = 0; i < params->count; i++)
        if (params->param[i].state) sum += params->param[i].size;
    return sum;
}

size_t smoe_params_trained(const smoe_params *params) {
    size_t sum = params->total;
    for (size_t i = 0; i < params->count; i++)
        if (params->param[i].frozen) sum -= params->param[i].size;
    return sum;
}

size_t smoe_params_gradients(const smoe_params *params) {
    size_t sum = smoe_params_trained(params);
    for (size_t i = 0; i < params->count; i++)
        if (params->param[i].outer) sum -= params->param[i].size;
    return sum;
}

const smoe_param *smoe_params_find(const smoe_params *params, const char *name) {
    for (size_t i = 0; i < params->count; i++)
        if (!strcmp(params->param[i].name, name)) return &params->param[i];
    return NULL;
}

void smoe_params_clear(smoe_params *params, size_t i) {
    smoe_param *p = &params->param[i];
    if (p->frozen) return;
    p->fresh = smoe_param_streams(p);
    if (!p->fresh) memset(params->g + p->offset, 0, p->size * sizeof(real));
}

static void slab_free(void *base, size_t size, size_t elem) {
    smoe_arena arena = {.base = base, .size = size * elem};
    smoe_arena_free(&arena);
}

void smoe_params_free(smoe_params *params) {
    real *all[] = {params->w, params->g, params->m, params->v};
    for (int i = 0; i < 4; i++) slab_free(all[i], i ? params->trained : params->size, sizeof(real));
    if (params->second) smoe_params_free(params->second);
    free(params->second);
    slab_free(params->average, params->size, sizeof(real));
    slab_free(params->m_bf16, params->trained, sizeof(smoe_bf16));
    slab_free(params->v_bf16, params->trained, sizeof(smoe_bf16));
    smoe_arena_free(&params->copies);
    free(params->place);
    free(params->param);
    *params = (smoe_params){0};
}
