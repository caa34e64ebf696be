/* Optimisers; see optim.h for the formulas. */
#include "train/optim.h"
#include "train/schedule.h"
#include "base/rng.h"
#include "spec/parts.h"
#include "math/outer.h"

enum {
    CHUNK = SMOE_OPTIM_UNIT, /* elements of one task of the norm, where gradients are in memory */
    SHARE = 1 << 11 /* least elements of a tensor per thread: few, so that shares are equal */
};

static bool is_adafactor(const smoe_train_spec *spec) {
    return spec->optimizer.name == SMOE_OPTIMIZER_ADAFACTOR;
}

/* How each of the two moments is stored, if it exists. */
static smoe_moment moment_of(const smoe_train_spec *spec, int which) {
    smoe_optimizer name = spec->optimizer.name;
    bool still = name == SMOE_OPTIMIZER_SGD && !(spec->optimizer.momentum > 0);
    if (which == 0 ? still : name != SMOE_OPTIMIZER_ADAM) return SMOE_MOMENT_NONE;
    smoe_moments from = which == 0 ? SMOE_MOMENTS_BF16_FIRST : SMOE_MOMENTS_BF16;
    return spec->optimizer.moments >= from ? SMOE_MOMENT_BF16 : SMOE_MOMENT_REAL;
}

int smoe_optim_allocate(smoe_params *params, const smoe_train_spec *spec, smoe_err *err) {
    params->passes = smoe_optim_outer(spec) ? spec->pieces : 0;
    if (smoe_params_allocate(params, 2, err)) return -1;
    if (spec->ema > 0 && smoe_params_allocate_average(params, err)) return -1;
    if (is_adafactor(spec) && smoe_adafactor_allocate(params, err)) return -1;
    return smoe_params_allocate_moments(params, moment_of(spec, 0), moment_of(spec, 1), err);
}

/* Adafactor needs gradients in memory. Sums over pieces have the same bits either way only if the
 * products of the pieces have operands in F32. */
bool smoe_optim_outer(const smoe_train_spec *spec) {
    return !is_adafactor(spec) && (spec->pieces == 1 || spec->precision == SMOE_PRECISION_F32);
}

double smoe_optim_bytes(const smoe_params *params, const smoe_train_spec *spec) {
    static const size_t bytes[] = {
        [SMOE_MOMENT_REAL] = sizeof(real), [SMOE_MOMENT_BF16] = sizeof(smoe_bf16)};
    double each = (double)(bytes[moment_of(spec, 0)] + bytes[moment_of(spec, 1)]);
    double factors = is_adafactor(spec) ? sizeof(real) * smoe_adafactor_numbers(params) : 0;
    return each * (double)smoe_params_trained(params) + factors;
}

/* The sum of `count` parts, each by one thread, added in their order. */
static double optim_sum_of(size_t count, double (*part)(size_t i, const void *context),
                           const void *context) {
    enum { GROUP = 256 }; /* parts that are in memory at a time */
    double total = 0, sums[GROUP];
    for (size_t base = 0; base < count; base += GROUP) {
        size_t n = count - base < GROUP ? count - base : GROUP;
        SMOE_SHARED(optimizer, n * CHUNK)
        for (size_t i = 0; i < n; i++) sums[i] = part(base + i, context);
        for (size_t i = 0; i < n; i++) total += sums[i];
    }
    return total;
}

/* Gradients without a gap. */
typedef struct stretch {
    const smoe_params *params;
    size_t first, size;
} stretch;

/* Whether the norm is computed from the factors alone. The order of a sum over several passes is
 * that of gradients in memory, on which all numbers of processes agree. */
static bool by_factors(const smoe_param *p) {
    return p->outer && !p->outer->kept.passes;
}

const real *smoe_optim_gradients(const smoe_params *params, size_t at, size_t n, real *room) {
    bool copied = false;
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *p = &params->param[i];
        if (!p->outer || p->offset >= at + n || p->offset + p->size <= at) continue;
        size_t first = p->offset > at ? p->offset : at, end = p->offset + p->size;
        if (end > at + n) end = at + n;
        if (!copied && (first > at || end < at + n)) memcpy(room, params->g + at, n * sizeof *room);
        copied = true;
        smoe_outer_read(room + (first - at), p, first - p->offset, end - first);
    }
    return copied ? room : params->g + at;
}

void smoe_optim_range(const smoe_params *params, int rank, int size, size_t *first, size_t *end) {
    const smoe_comm one = {.size = size, .rank = rank};
    smoe_comm_range(&one, (params->shared + SMOE_OPTIM_UNIT - 1) / SMOE_OPTIM_UNIT, first, end);
    *first *= SMOE_OPTIM_UNIT;
    *end *= SMOE_OPTIM_UNIT;
    if (*first > params->shared) *first = params->shared;
    if (*end > params->shared) *end = params->shared;
}

double smoe_optim_unit_square(const real *g, size_t n) {
    return smoe_kernels_get()->row->dot_double(g, g, n);
}

static double chunk_square(size_t i, const void *context) {
    const stretch *s = context;
    real *room = smoe_thread_room(SMOE_ROOM_GRADIENTS, CHUNK * sizeof *room);
    size_t left = s->size - i * CHUNK, n = left < CHUNK ? left : CHUNK;
    return smoe_optim_unit_square(smoe_optim_gradients(s->params, s->first + i * CHUNK, n, room),
                                  n);
}

static double expert_square(size_t e, const void *param) {
    return smoe_outer_square(param, e);
}

double smoe_optim_square(const smoe_params *params, size_t first, size_t end) {
    double total = 0;
    while (first < end) {
        const smoe_param *param = &params->param[first];
        if (param->frozen) {
            first++;
            continue;
        }
        if (by_factors(param)) {
            total += optim_sum_of(param->dim[0], expert_square, param);
            first++;
            continue;
        }
        size_t to = param->offset; /* parameters that are not frozen follow one another */
        for (; first < end && !by_factors(&params->param[first]); first++)
            if (!params->param[first].frozen) to = smoe_param_end(&params->param[first]);
        stretch s = {params, param->offset, to - param->offset};
        total += optim_sum_of((s.size + CHUNK - 1) / CHUNK, chunk_square, &s);
    }
    return total;
}

void smoe_optim_unit_squares(double *square, const smoe_params *params, size_t first, size_t end) {
    stretch s = {params, 0, params->trained};
    SMOE_SHARED(optimizer, (end - first) * CHUNK)
    for (size_t i = first; i < end; i++) square[i - first] = chunk_square(i, &s);
}

double smoe_optim_norm(const smoe_params *params) {
    return sqrt(smoe_optim_square(params, 0, params->count));
}

static void sgd_update(real *restrict w, real *restrict g, real *restrict m, size_t n,
                       real momentum, const smoe_adam_constants *k) {
    const real clip = k->clip, rate = k->rate, decay = k->decay;
    const bool leave = k->leave;
    for (size_t i = 0; i < n; i++) {
        real move = clip * g[i];
        if (m) move = m[i] = momentum * m[i] + move;
        w[i] -= rate * (move + decay * w[i]);
        if (!leave) g[i] = 0;
    }
}

/* The ranges of memory that an update of n elements at `at` changes. */
static smoe_prefetch_ranges changed_ranges(const smoe_params *params, size_t at, size_t n) {
    smoe_prefetch_ranges prefetch_ranges = {.at = {(const char *)(params->w + at)},
                                            .bytes = {n * sizeof(real)}};
    const real *moment[] = {params->m, params->v};
    const smoe_bf16 *narrow[] = {params->m_bf16, params->v_bf16};
    for (size_t i = 0; i < 2; i++) {
        if (moment[i]) prefetch_ranges.at[i + 1] = (const char *)(moment[i] + at);
        if (narrow[i]) prefetch_ranges.at[i + 1] = (const char *)(narrow[i] + at);
        prefetch_ranges.bytes[i + 1] = moment[i]   ? n * sizeof(real)
                                       : narrow[i] ? n * sizeof(smoe_bf16)
                                                   : 0;
    }
    return prefetch_ranges;
}

/* The ranges to prefetch while the gradients of the n elements at `at` are computed as sums of
 * `terms` products, so that the update finds them in the cache. Adam's update takes about as long
 * as ADAM terms and prefetches as well, SMOE_ADAM_PREFETCH elements ahead. So the first *early of
 * these elements are prefetched here and the others there, in proportion to both times, which
 * keeps memory evenly busy. Other optimisers do not prefetch, so here it is all n elements. */
static smoe_prefetch_ranges prefetch_ranges_of(const smoe_params *params, size_t at, size_t n,
                                               size_t terms, size_t *early) {
    enum { ADAM = 100 };
    if (!params->m || !params->v) return changed_ranges(params, at, n);
    *early = n * terms / (terms + ADAM) / SMOE_LINE * SMOE_LINE;
    return changed_ranges(params, at + SMOE_ADAM_PREFETCH, *early);
}

/* The quantities that all elements of a parameter share in an update. */
typedef struct update {
    const smoe_params *params;
    const smoe_param *param;
    const smoe_train_spec *spec;
    smoe_adam_constants k;
    uint32_t key; /* of rounding by chance */
} update;

static smoe_adam_constants constants_of(const smoe_train_spec *spec, double t, double clip) {
    /* The corrections use the betas rounded to `real`, like the moments: rounding changes 1 - 0.999
     * by a relative 1e-5. */
    double beta1 = (double)(real)spec->optimizer.beta1, beta2 = (double)(real)spec->optimizer.beta2;
    return (smoe_adam_constants){
        .clip = (real)clip,
        .beta1 = (real)beta1,
        .beta2 = (real)beta2,
        .correct1 = (real)(1 / (1 - pow(beta1, t))),
        .correct2 = (real)(1 / (1 - pow(beta2, t))),
        .eps = (real)spec->optimizer.eps,
    };
}

static update update_of(const smoe_params *params, const smoe_param *p, const smoe_train_spec *spec,
                        size_t step, const smoe_adam_constants *all) {
    /* The key has no seed: runs with different seeds may round in the same way. */
    smoe_rng rng = smoe_rng_at(0, SMOE_RNG_ROUNDING, smoe_rng_name(p->name), step, 0);
    update u = {params, p, spec, *all, (uint32_t)smoe_rng_u64(&rng)};
    u.k.rate = (real)smoe_schedule_rate_of(spec, p, step);
    u.k.decay = (real)smoe_schedule_decay(spec, p);
    u.k.leave = smoe_param_streams(p);
    return u;
}

/* n elements, moments in `real`. */
static void update_real(const update *u, real *w, real *g, real *m, real *v, size_t n) {
    const smoe_adam_constants *k = &u->k;
    if (u->spec->optimizer.name == SMOE_OPTIMIZER_ADAM)
        smoe_kernels_get()->row->adam(w, g, m, v, n, k);
    else
        sgd_update(w, g, m, n, (real)u->spec->optimizer.momentum, k);
}

/* The n elements from element j of the parameter on, with gradients g. Moments in BF16 pass through
 * a few thousand bytes that stay in the L1. */
static void update_elements(const update *u, size_t j, real *g, size_t n) {
    enum { PIECE = 1024 };
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    const smoe_params *params = u->params;
    size_t at = u->param->offset + j;
    real *w = params->w + at, *m = params->m ? params->m + at : NULL;
    real *v = params->v ? params->v + at : NULL;
    if (!params->m_bf16) {
        update_real(u, w, g, m, v, n);
        return;
    }
    real wide_m[PIECE], wide_v[PIECE];
    for (size_t i = 0; i < n; i += PIECE) {
        size_t count = n - i < PIECE ? n - i : PIECE;
        smoe_bf16 *m_bf16 = params->m_bf16 + at + i;
        smoe_bf16 *v_bf16 = params->v_bf16 ? params->v_bf16 + at + i : NULL;
        kern->widen(wide_m, m_bf16, count);
        if (v_bf16) kern->widen(wide_v, v_bf16, count);
        update_real(u, w + i, g + i, wide_m, v ? v + i : wide_v, count);
        kern->narrow(m_bf16, wide_m, count);
        if (v_bf16) kern->narrow_random(v_bf16, wide_v, count, u->key, u->param->from + j + i);
    }
}

/* The elements j .. j + n of a gradient that is an outer product, in its step that begins at
 * `step`, which is computed whole. */
static void update_outer(update *u, size_t step, size_t j, size_t n) {
    real *made = smoe_thread_room(SMOE_ROOM_GRADIENTS, SMOE_FACTORS_STEP * sizeof *made);
    smoe_prefetch_ranges next = prefetch_ranges_of(u->params, u->param->offset + j, n,
                                                   smoe_outer_terms(u->param, step), &u->k.early);
    smoe_outer_write(made, u->param, step, &next);
    update_elements(u, j, made + (j - step), n);
}

/* Adam or SGD: element by element, of elements first .. end of the slabs. */
static void step_elements(smoe_params *params, const smoe_train_spec *spec, size_t step,
                          double clip, size_t first, size_t end) {
    const smoe_adam_constants all = constants_of(spec, (double)(step + params->carried) + 1, clip);
    SMOE_TEAM(optimizer, smoe_team_for(params->size, smoe_threads()))
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *p = &params->param[i];
        if (p->frozen || p->offset >= end || p->offset + p->size <= first) continue;
        size_t from = p->offset < first ? first - p->offset : 0;
        size_t to = p->offset + p->size > end ? end - p->offset : p->size;
        size_t size = p->outer ? smoe_outer_step(p) : SHARE;
        update u = update_of(params, p, spec, step, &all);
#pragma omp for schedule(static) nowait
        for (size_t at = from / size * size; at < to; at += size) {
            size_t j = at < from ? from : at, n = (to - at < size ? to : at + size) - j;
            if (p->outer)
                update_outer(&u, at, j, n);
            else
                update_elements(&u, j, params->g + p->offset + j, n);
        }
    }
}

bool smoe_optim_shards(const smoe_train_spec *spec) {
    return !is_adafactor(spec);
}

void smoe_optim_step(smoe_params *params, const smoe_train_spec *spec, size_t step, double norm) {
    smoe_optim_step_range(params, spec, step, norm, 0, params->trained);
}

void smoe_optim_step_range(smoe_params *params, const smoe_train_spec *spec, size_t step,
                           double norm, size_t first, size_t end) {
    double most = spec->optimizer.clip, clip = most > 0 && norm > most ? most / norm : 1;
    if (is_adafactor(spec))
        smoe_adafactor_step(params, spec, step, clip);
    else
        step_elements(params, spec, step, clip, first, end);
    for (size_t i = 0; i < params->count; i++) {
        smoe_param *p = &params->param[i];
        p->fresh = smoe_param_streams(p) && !p->frozen;
    }
}

void smoe_optim_average(smoe_params *params, double decay, uint64_t updates) {
    /* -expm1(t log b) is 1 - b^t without cancellation where b is close to 1. */
    double weight = (1 - decay) / -expm1((double)(updates + 1) * log(decay));
    real share = (real)weight;
    const real *w = params->w;
    real *average = params->average;
    SMOE_SHARED(optimizer, params->size)
    for (size_t i = 0; i < params->size; i++) average[i] += share * (w[i] - average[i]);
}
