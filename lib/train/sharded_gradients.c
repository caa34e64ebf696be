/* Sums and squares of the gradients of several processes; see sharded.h. */
#include "train/optim.h"
#include "train/sharded.h"

#include <sys/param.h>

enum { UNIT = SMOE_OPTIM_UNIT };

/* Whether a parameter has gradients, and is among those that are sharded, or among the others. */
static bool param_is_of(const smoe_params *params, const smoe_param *param, bool sharded) {
    return !param->frozen && (param->offset >= params->shared) == sharded;
}

/* ---- gradients in memory --------------------------------------------------------------------- */

/* The next ones without a gap, from parameter *i on, of the tensors that are sharded or of the
 * others; returns their number. *i starts at 0. */
static size_t gradients_next(const smoe_params *params, bool sharded, size_t *i, size_t *first) {
    size_t size = 0;
    for (; *i < params->count; ++*i) {
        const smoe_param *param = &params->param[*i];
        if (!param_is_of(params, param, sharded)) continue;
        if (param->outer && size) break;
        if (param->outer) continue;
        if (!size) *first = param->offset;
        size = smoe_param_end(param) - *first;
    }
    return size;
}

/* ---- factors --------------------------------------------------------------------------------- */

/* Those of a parameter. */
typedef struct factors {
    const smoe_param *param;
    const size_t *first;
    real *at[2];            /* dy, x */
    size_t width[2];        /* out, in */
    size_t passes, rows, E; /* of each process; rows of a pass, of all experts */
} factors;

/* The next parameter from *i on whose gradient is left as factors; false after the last one. */
static bool factors_next(factors *f, const smoe_params *params, bool sharded, size_t *i,
                         const smoe_comm *comm) {
    for (; *i < params->count; ++*i) {
        const smoe_param *param = &params->param[*i];
        if (!param_is_of(params, param, sharded) || !param->outer) continue;
        const smoe_outer_passes *kept = &param->outer->kept;
        size_t out = param->dim[1], in = param->dim[2];
        *f = (factors){param,
                       kept->first,
                       {kept->dy, kept->x},
                       {out, in},
                       kept->passes / (size_t)comm->size,
                       kept->rows,
                       param->size / (out * in)};
        ++*i;
        return true;
    }
    return false;
}

/* Each process gets the numbers of rows of all processes. */
static void rows_collect(const factors *f, smoe_comm *comm) {
    smoe_comm_collect(comm, (void *)f->first, f->passes * (f->E + 1) * sizeof *f->first);
}

/* The experts of a parameter that have elements in the range of a process. */
static smoe_stretch experts_of(const smoe_params *params, const smoe_param *param, int rank,
                               int size) {
    size_t first, end, each = param->dim[1] * param->dim[2];
    smoe_optim_range(params, rank, size, &first, &end);
    if (first < param->offset) first = param->offset;
    if (end > param->offset + param->size) end = param->offset + param->size;
    if (first >= end) return (smoe_stretch){0, 0};
    return (smoe_stretch){(first - param->offset) / each, (end - param->offset + each - 1) / each};
}

/* The rows of a factor of these experts in one pass, and their bytes; without a link, all buffers
 * count as full. */
static real *rows_of(const factors *f, int k, const smoe_comm *comm, size_t pass, smoe_stretch e,
                     size_t *bytes) {
    size_t row = f->width[k] * sizeof(real);
    *bytes = (e.end - e.first) * (f->rows / f->E) * row;
    if (!comm->link) return NULL;
    const size_t *first = f->first + pass * (f->E + 1);
    *bytes = (first[e.end] - first[e.first]) * row;
    return f->at[k] + (pass * f->rows + first[e.first]) * f->width[k];
}

/* Both factors, with one other process. */
static void factors_exchange(const smoe_params *params, const factors *f, smoe_comm *comm,
                             int other) {
    smoe_stretch theirs = experts_of(params, f->param, other, comm->size);
    smoe_stretch mine = experts_of(params, f->param, comm->rank, comm->size);
    for (size_t i = 0; i < f->passes; i++)
        for (int k = 0; k < 2; k++) {
            size_t own = (size_t)comm->rank * f->passes + i, away = (size_t)other * f->passes + i;
            size_t sent, received;
            real *out = rows_of(f, k, comm, own, theirs, &sent);
            real *in = rows_of(f, k, comm, away, mine, &received);
            smoe_comm_exchange(comm, SMOE_TRAFFIC_GRADIENTS, other, out, sent, in, received);
        }
}

/* ---- sums ------------------------------------------------------------------------------------ */

void smoe_sharded_gradients_shared(smoe_params *params, smoe_comm *comm, real *block) {
    factors f;
    for (size_t i = 0, at, n; (n = gradients_next(params, false, &i, &at));)
        smoe_comm_scatter_sum(comm, params->g, params->shared, UNIT, (smoe_stretch){at, at + n},
                              block);
    for (size_t i = 0; factors_next(&f, params, false, &i, comm);) {
        rows_collect(&f, comm);
        for (int bit = 1; bit < comm->size; bit++)
            factors_exchange(params, &f, comm, comm->rank ^ bit);
    }
}

void smoe_sharded_gradients_sum(smoe_sharded_gradients *p, real *block) {
    smoe_params *params = p->params;
    factors f;
    if (p->same.size == 1) return;
    for (size_t i = 0, first, n; (n = gradients_next(params, true, &i, &first));) {
        real *g = params->g ? params->g + first : NULL;
        smoe_comm_scatter_sum(&p->same, g, n, UNIT, (smoe_stretch){0, n}, block);
        smoe_comm_gather(&p->same, g, n * sizeof *g, UNIT * sizeof *g, SMOE_TRAFFIC_GRADIENTS);
    }
    for (size_t i = 0; factors_next(&f, params, true, &i, &p->same);) {
        for (int k = 0; k < 2; k++)
            smoe_comm_collect(&p->same, f.at[k], f.passes * f.rows * f.width[k] * sizeof(real));
        rows_collect(&f, &p->same);
    }
}

/* ---- units ----------------------------------------------------------------------------------- */

/* The walk over all units of the whole slab, in parts that one process has each. */
typedef struct walk {
    size_t param, next, begin; /* the next part: element `next` of a parameter that begins here */
    size_t unit, at, count;    /* the part: elements at .. at + count of the unit, */
    int owner;                 /* of this process, */
    size_t from;               /* in whose slab they are here */
    int home;                  /* the process that has the first element of the unit */
} walk;

static const walk walk_start = {.unit = SIZE_MAX};

/* The process whose range has element `at` of the parameters that are not sharded, and where that
 * range ends. `guess` is tried first. */
static int range_owner(const smoe_sharded_gradients *p, size_t at, int guess, size_t *end) {
    for (int i = 0; i <= p->comm->size; i++) {
        int rank = i ? i - 1 : guess;
        size_t first;
        smoe_optim_range(p->params, rank, p->comm->size, &first, end);
        if (at >= first && at < *end) return rank;
    }
    return 0; /* not reached: the ranges are a partition */
}

static bool part_next(const smoe_sharded_gradients *p, walk *w) {
    for (; w->param < p->params->count; w->param++, w->next = 0) {
        const smoe_param *param = &p->params->param[w->param];
        if (param->frozen) continue;
        if (w->next < param->whole) break;
        w->begin = smoe_param_end(&(smoe_param){.offset = w->begin, .size = param->whole});
    }
    if (w->param == p->params->count) return false;
    const smoe_param *param = &p->params->param[w->param];
    size_t first = w->next, unit = (w->begin + first) / UNIT, end = 0;
    if (smoe_param_sharded(param)) {
        /* of the processes that have it, a block each: in turn, unit by unit */
        size_t owner = smoe_expert_parallel_owner(param, p->shards, first, &end);
        w->owner = (int)(owner + p->shards * (unit % (size_t)p->same.size));
    } else {
        w->owner = range_owner(p, param->offset + first, w->owner, &end);
        end = MIN(end - param->offset, param->whole);
    }
    w->next = MIN(end, (unit + 1) * UNIT - w->begin);
    if (unit != w->unit) w->home = w->owner;
    w->unit = unit;
    w->at = (w->begin + first) % UNIT;
    w->count = w->next - first;
    w->from = param->offset + first - param->from;
    return true;
}

void smoe_sharded_gradients_open(smoe_sharded_gradients *p, smoe_params *params,
                                 const smoe_expert_parallel *experts, smoe_comm *comm) {
    int n = experts->block.size, rank = comm->rank;
    size_t R = (size_t)comm->size, moved = 0;
    walk w = walk_start;
    *p = (smoe_sharded_gradients){.params = params, .comm = comm, .shards = (size_t)n};
    p->same = smoe_comm_part(comm, rank % n, n, comm->size / n);
    p->in = smoe_alloc_in(&p->memory, R, sizeof *p->in);
    p->out = smoe_alloc_in(&p->memory, R, sizeof *p->out);
    p->parts = smoe_alloc_in(&p->memory, 2 * R, sizeof(real *));
    p->unit = smoe_alloc_in(&p->memory, UNIT, sizeof *p->unit);
    while (part_next(p, &w)) {
        if (w.home == w.owner || (w.home != rank && w.owner != rank)) continue;
        *(w.home == rank ? &p->in[w.owner] : &p->out[w.home]) += w.count;
        moved += w.count;
    }
    p->whole = w.begin;
    p->buffer = smoe_alloc_in(&p->memory, moved, sizeof *p->buffer);
}

void smoe_sharded_gradients_free(smoe_sharded_gradients *p) {
    smoe_alloc_pool_free(&p->memory);
    *p = (smoe_sharded_gradients){0};
}

size_t smoe_sharded_gradients_units(const smoe_sharded_gradients *p) {
    return (p->whole + UNIT - 1) / UNIT;
}

/* Sends the parts of units that begin elsewhere, and receives those of units that begin here:
 * p->parts then has the places of the latter. */
static void exchange_parts(const smoe_sharded_gradients *p) {
    int R = p->comm->size, rank = p->comm->rank;
    real **in = p->parts, **out = in + R, *next = p->buffer;
    for (int r = 0; r < R; next += p->in[r++]) in[r] = next;
    for (int r = 0; r < R; next += p->out[r++]) out[r] = next;
    for (walk w = walk_start; p->comm->link && part_next(p, &w);) {
        if (w.owner != rank || w.home == rank) continue;
        const real *g = smoe_optim_gradients(p->params, w.from, w.count, out[w.home]);
        if (g != out[w.home]) memcpy(out[w.home], g, w.count * sizeof *g);
        out[w.home] += w.count;
    }
    for (int bit = 1; bit < R; bit++) {
        int other = rank ^ bit;
        const real *first = p->comm->link ? out[other] - p->out[other] : NULL;
        smoe_comm_exchange(p->comm, SMOE_TRAFFIC_GRADIENTS, other, first,
                           p->out[other] * sizeof *first, in[other], p->in[other] * sizeof *first);
    }
}

void smoe_sharded_gradients_squares(smoe_sharded_gradients *p, double *square) {
    size_t n = smoe_sharded_gradients_units(p);
    exchange_parts(p);
    if (p->comm->link) memset(square, 0, n * sizeof *square);
    for (walk w = walk_start; p->comm->link && part_next(p, &w);) {
        size_t size = MIN((size_t)UNIT, p->whole - w.unit * UNIT), end = w.at + w.count;
        real *to = p->unit + w.at;
        if (w.home != p->comm->rank) continue;
        const real *from = p->parts[w.owner];
        if (!w.at) memset(p->unit, 0, UNIT * sizeof *to); /* between parameters there are zeros */
        if (w.owner == p->comm->rank)
            from = smoe_optim_gradients(p->params, w.from, w.count, to);
        else
            p->parts[w.owner] += w.count;
        if (w.count == size) {
            square[w.unit] = smoe_optim_unit_square(from, size);
            continue;
        }
        if (from != to) memcpy(to, from, w.count * sizeof *to);
        if (end + 16 > size) /* the last part, or nearly: parameters begin at multiples of 16 */
            square[w.unit] = smoe_optim_unit_square(p->unit, size);
    }
    smoe_comm_join(p->comm, square, n * sizeof *square);
}
