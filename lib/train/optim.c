/* Optimisers; see optim.h for the formulas. */
#include "train/optim.h"
#include "train/adafactor.h"
#include "train/schedule.h"
#include "base/rng.h"
#include "spec/parts.h"
#include "math/outer.h"
#include "math/kernels.h"

#include <math.h>
#include <string.h>

enum {
    CHUNK = SMOE_OPTIM_UNIT, /* elements of one task of the norm, where gradients are in memory */
    SHARE = 1 << 11 /* least elements of a tensor per thread: few, so that shares are equal */
};

static bool adafactor(const smoe_train_spec *spec) {
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
    if (adafactor(spec) && smoe_adafactor_allocate(params, err)) return -1;
    return smoe_params_allocate_moments(params, moment_of(spec, 0), moment_of(spec, 1), err);
}

/* Adafactor needs gradients in memory. Sums over pieces have the same bits either way only if the
 * products of the pieces have operands in F32. */
bool smoe_optim_outer(const smoe_train_spec *spec) {
    return !adafactor(spec) && (spec->pieces == 1 || spec->precision == SMOE_PRECISION_F32);
}

double smoe_optim_bytes(const smoe_params *params, const smoe_train_spec *spec) {
    static const size_t bytes[] = {
        [SMOE_MOMENT_REAL] = sizeof(real), [SMOE_MOMENT_BF16] = sizeof(smoe_bf16)};
    double each = (double)(bytes[moment_of(spec, 0)] + bytes[moment_of(spec, 1)]);
    double factors = adafactor(spec) ? sizeof(real) * smoe_adafactor_numbers(params) : 0;
    return each * (double)smoe_params_trained(params) + factors;
}

/* The sum of `count` parts, each by one thread, added in their order. */
static double sum_of(size_t count, double (*part)(size_t i, const void *context),
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
    return p->outer && !p->kept.passes;
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
            total += sum_of(param->dim[0], expert_square, param);
            first++;
            continue;
        }
        size_t to = param->offset; /* parameters that are not frozen follow one another */
        for (; first < end && !by_factors(&params->param[first]); first++)
            if (!params->param[first].frozen) to = smoe_param_end(&params->param[first]);
        stretch s = {params, param->offset, to - param->offset};
        total += sum_of((s.size + CHUNK - 1) / CHUNK, chunk_square, &s);
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

static void sgd(real *restrict w, real *restrict g, real *restrict m, size_t n, real clip,
                real momentum, real rate, real decay, bool leave) {
    for (size_t i = 0; i < n; i++) {
        real move = clip * g[i];
        if (m) move = m[i] = momentum * m[i] + move;
        w[i] -= rate * (move + decay * w[i]);
        if (!leave) g[i] = 0;
    }
}

/* Elements at .. at+n of the slabs, moments in `real`. */
static void update(real *w, real *g, real *m, real *v, size_t n, const smoe_train_spec *spec,
                   const smoe_adam_constants *k) {
    if (spec->optimizer.name == SMOE_OPTIMIZER_ADAM)
        smoe_kernels_get()->row->adam(w, g, m, v, n, k);
    else
        sgd(w, g, m, n, k->clip, (real)spec->optimizer.momentum, k->rate, k->decay, k->leave);
}

/* The same with moments in BF16: through a few thousand bytes that stay in the L1. Element
 * at + i is number first + i of those that `key` rounds. */
static void update_narrow(const smoe_params *params, size_t at, real *g, size_t n, uint32_t key,
                          size_t first, const smoe_train_spec *spec, const smoe_adam_constants *k) {
    enum { PIECE = 1024 };
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    real m[PIECE], v[PIECE];
    for (size_t i = 0; i < n; i += PIECE) {
        size_t count = n - i < PIECE ? n - i : PIECE;
        smoe_bf16 *m_bf16 = params->m_bf16 + at + i;
        smoe_bf16 *v_bf16 = params->v_bf16 ? params->v_bf16 + at + i : NULL;
        kern->widen(m, m_bf16, count);
        if (v_bf16) kern->widen(v, v_bf16, count);
        update(params->w + at + i, g + i, m, params->v ? params->v + at + i : v, count, spec, k);
        kern->narrow(m_bf16, m, count);
        if (v_bf16) kern->narrow_random(v_bf16, v, count, key, first + i);
    }
}

/* The ranges of memory that an update of n elements at `at` changes. */
static smoe_prefetch_ranges changed(const smoe_params *params, size_t at, size_t n) {
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
    if (!params->m || !params->v) return changed(params, at, n);
    *early = n * terms / (terms + ADAM) / SMOE_LINE * SMOE_LINE;
    return changed(params, at + SMOE_ADAM_PREFETCH, *early);
}

/* Adam or SGD: element by element, of elements first .. end of the slabs. */
static void step_elements(smoe_params *params, const smoe_train_spec *spec, size_t step,
                          double clip, size_t first, size_t end) {
    double t = (double)(step + params->carried) + 1;
    /* The corrections use the betas rounded to `real`, like the moments: rounding changes 1 - 0.999
     * by a relative 1e-5. */
    double beta1 = (double)(real)spec->optimizer.beta1, beta2 = (double)(real)spec->optimizer.beta2;
    double rate = smoe_schedule_rate(spec, step);
    smoe_adam_constants all = {
        .clip = (real)clip,
        .beta1 = (real)beta1,
        .beta2 = (real)beta2,
        .correct1 = (real)(1 / (1 - pow(beta1, t))),
        .correct2 = (real)(1 / (1 - pow(beta2, t))),
        .eps = (real)spec->optimizer.eps,
    };
    SMOE_TEAM(optimizer, smoe_team_for(params->size, smoe_threads()))
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *p = &params->param[i];
        smoe_adam_constants k = all;
        if (p->frozen || p->offset >= end || p->offset + p->size <= first) continue;
        size_t from = p->offset < first ? first - p->offset : 0;
        size_t to = p->offset + p->size > end ? end - p->offset : p->size;
        k.rate = p->until && step >= p->until ? 0 : (real)(rate * p->lr);
        k.decay = (real)smoe_schedule_decay(spec, p);
        k.leave = smoe_param_streams(p);
        /* The key has no seed: runs with different seeds may round in the same way. */
        smoe_rng rng = smoe_rng_at(0, SMOE_RNG_ROUNDING, smoe_rng_name(p->name), step, 0);
        uint32_t key = (uint32_t)smoe_rng_u64(&rng);
        size_t size = p->outer ? smoe_outer_step(p) : SHARE;
#pragma omp for schedule(static) nowait
        for (size_t step_at = from / size * size; step_at < to; step_at += size) {
            size_t j = step_at < from ? from : step_at, at = p->offset + j;
            size_t n = (to - step_at < size ? to : step_at + size) - j;
            real *g = params->g + at;
            if (p->outer) { /* computed whole, even if the range has only a part of it */
                size_t terms = smoe_outer_terms(p, step_at);
                smoe_prefetch_ranges next = prefetch_ranges_of(params, at, n, terms, &k.early);
                real *made =
                    smoe_thread_room(SMOE_ROOM_GRADIENTS, SMOE_FACTORS_STEP * sizeof *made);
                smoe_outer_write(made, p, step_at, &next);
                g = made + (j - step_at);
            }
            if (params->m_bf16)
                update_narrow(params, at, g, n, key, p->from + j, spec, &k);
            else
                update(params->w + at, g, params->m ? params->m + at : NULL,
                       params->v ? params->v + at : NULL, n, spec, &k);
        }
    }
}

bool smoe_optim_shards(const smoe_train_spec *spec) {
    return !adafactor(spec);
}

void smoe_optim_step(smoe_params *params, const smoe_train_spec *spec, size_t step, double norm) {
    smoe_optim_step_range(params, spec, step, norm, 0, params->trained);
}

void smoe_optim_step_range(smoe_params *params, const smoe_train_spec *spec, size_t step,
                           double norm, size_t first, size_t end) {
    double most = spec->optimizer.clip, clip = most > 0 && norm > most ? most / norm : 1;
    if (adafactor(spec))
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
