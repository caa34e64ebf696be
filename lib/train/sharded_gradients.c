/* The parameter table of several processes; see sharded_gradients.h. */
#include "train/sharded_gradients.h"
#include "train/outer_grad.h"
#include "train/optim.h"

enum { UNIT = SMOE_OPTIM_UNIT };

/* ---- which units are where ------------------------------------------------------------------- */

static size_t shares_smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

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

/* Parts are counted, and stored where there is memory for them. */
static void part_put(smoe_unit_part *list, size_t *count, smoe_unit_part part) {
    if (list) list[*count] = part;
    ++*count;
}

/* The walk over all parts of all units: those of units that begin here, and those sent away. */
typedef struct walk {
    smoe_sharded_gradients *parts;
    size_t at; /* in the whole slab */
    size_t unit;
    int home, guess;
} walk;

static void part_found(walk *w, const smoe_param *param, size_t first, size_t count, int owner) {
    smoe_sharded_gradients *p = w->parts;
    size_t at = w->at + first, unit = at / UNIT;
    int rank = p->comm->rank;
    if (unit != w->unit) w->home = owner;
    w->unit = unit;
    smoe_unit_part part = {.unit = unit, .at = at % UNIT, .count = count, .process = owner};
    if (owner == rank) part.from = param->offset + first - param->from;
    if (w->home == rank) {
        if (owner != rank) {
            part.from = p->in[owner];
            p->in[owner] += count;
        }
        part_put(p->units, &p->count, part);
    } else if (owner == rank) {
        part.process = w->home;
        p->out[w->home] += count;
        part_put(p->sent, &p->sent_count, part);
    }
}

static void find_parts(smoe_sharded_gradients *p) {
    walk w = {.parts = p, .unit = SIZE_MAX};
    p->count = p->sent_count = 0;
    memset(p->in, 0, (size_t)p->comm->size * sizeof *p->in);
    memset(p->out, 0, (size_t)p->comm->size * sizeof *p->out);
    for (size_t i = 0; i < p->params->count; i++) {
        const smoe_param *param = &p->params->param[i];
        if (param->frozen) continue;
        for (size_t first = 0, end = 0; first < param->whole; first = end) {
            int owner;
            if (smoe_param_sharded(param)) {
                /* of the processes that have it, a block each: in turn, unit by unit */
                size_t turn = (w.at + first) / UNIT % (size_t)p->same.size;
                owner = (int)(smoe_expert_parallel_owner(param, p->shards, first, &end) +
                              p->shards * turn);
            } else {
                owner = w.guess = range_owner(p, param->offset + first, w.guess, &end);
                end = shares_smaller(end - param->offset, param->whole);
            }
            end = shares_smaller(end, (w.at + first) / UNIT * UNIT + UNIT - w.at);
            part_found(&w, param, first, end - first, owner);
        }
        smoe_param all = {.offset = w.at, .size = param->whole};
        w.at = smoe_param_end(&all);
    }
    p->whole = w.at;
}

/* ---- opening --------------------------------------------------------------------------------- */

void smoe_sharded_gradients_open(smoe_sharded_gradients *p, smoe_params *params,
                                 const smoe_expert_parallel *experts, smoe_comm *comm) {
    int n = experts->block.size;
    size_t R = (size_t)comm->size, moved = 0;
    *p = (smoe_sharded_gradients){.params = params, .comm = comm, .shards = (size_t)n};
    p->same = smoe_comm_part(comm, comm->rank % n, n, comm->size / n);
    p->in = smoe_alloc_in(&p->memory, R, sizeof *p->in);
    p->out = smoe_alloc_in(&p->memory, R, sizeof *p->out);
    p->unit = smoe_alloc_in(&p->memory, UNIT, sizeof *p->unit);
    find_parts(p); /* counts them */
    p->units = smoe_alloc_in(&p->memory, p->count, sizeof *p->units);
    p->sent = smoe_alloc_in(&p->memory, p->sent_count, sizeof *p->sent);
    for (size_t r = 0; r < R; r++) moved += p->in[r] + p->out[r];
    p->buffer = smoe_alloc_in(&p->memory, moved, sizeof *p->buffer);
    find_parts(p);
}

void smoe_sharded_gradients_free(smoe_sharded_gradients *p) {
    smoe_alloc_pool_free(&p->memory);
    *p = (smoe_sharded_gradients){0};
}

/* ---- sums and squares ------------------------------------------------------------------------ */

size_t smoe_sharded_gradients_units(const smoe_sharded_gradients *p) {
    return (p->whole + UNIT - 1) / UNIT;
}

void smoe_sharded_gradients_sum(smoe_sharded_gradients *p, real *block) {
    smoe_params *params = p->params;
    if (p->same.size == 1) return;
    for (size_t i = 0, first, n; (n = smoe_outer_grad_between(params, true, &i, &first));) {
        real *g = params->g ? params->g + first : NULL;
        smoe_comm_scatter_sum(&p->same, g, n, UNIT, (smoe_stretch){0, n}, block);
        smoe_comm_gather(&p->same, g, n * sizeof *g, UNIT * sizeof *g, SMOE_TRAFFIC_GRADIENTS);
    }
    smoe_outer_grad_collect(params, &p->same);
}

/* Where the parts from that process begin in the buffer. */
static size_t begin_of(const smoe_sharded_gradients *p, int process) {
    size_t begin = 0;
    for (int r = 0; r < process; r++) begin += p->in[r];
    return begin;
}

static void copy_gradients(const smoe_sharded_gradients *p, size_t at, size_t n, real *to) {
    const real *from = smoe_optim_gradients(p->params, at, n, to);
    if (from != to) memcpy(to, from, n * sizeof *to);
}

static void exchange_parts(smoe_sharded_gradients *p) {
    int R = p->comm->size;
    size_t received = 0;
    for (int r = 0; r < R; r++) received += p->in[r];
    real *out = p->buffer + received;
    for (int bit = 1; bit < R; bit++) {
        int other = p->comm->rank ^ bit;
        real *to = out;
        for (size_t i = 0; i < p->sent_count; i++) {
            const smoe_unit_part *part = &p->sent[i];
            if (part->process != other || !p->comm->link) continue;
            copy_gradients(p, part->from, part->count, to);
            to += part->count;
        }
        smoe_comm_exchange(p->comm, SMOE_TRAFFIC_GRADIENTS, other, out, p->out[other] * sizeof *out,
                           p->buffer + begin_of(p, other), p->in[other] * sizeof *out);
    }
}

/* Elements of a part that is here, in place or in `room`, or was received. */
static const real *values_of(const smoe_sharded_gradients *p, const smoe_unit_part *part,
                             real *room) {
    if (part->process == p->comm->rank)
        return smoe_optim_gradients(p->params, part->from, part->count, room);
    return p->buffer + begin_of(p, part->process) + part->from;
}

/* Fills the unit of part i, and returns the number of the part after it. */
static size_t unit_assemble(smoe_sharded_gradients *p, size_t i, const real **values) {
    const smoe_unit_part *part = &p->units[i];
    size_t unit = part->unit, size = shares_smaller(UNIT, p->whole - unit * UNIT);
    if (part->count == size) {
        *values = values_of(p, part, p->unit);
        return i + 1;
    }
    memset(p->unit, 0, UNIT * sizeof *p->unit); /* between parameters there are zeros */
    for (; i < p->count && p->units[i].unit == unit; i++) {
        real *to = p->unit + p->units[i].at;
        const real *from = values_of(p, &p->units[i], to);
        if (from != to) memcpy(to, from, p->units[i].count * sizeof *to);
    }
    *values = p->unit;
    return i;
}

void smoe_sharded_gradients_squares(smoe_sharded_gradients *p, double *square) {
    size_t n = smoe_sharded_gradients_units(p);
    exchange_parts(p);
    if (p->comm->link) memset(square, 0, n * sizeof *square);
    for (size_t i = 0; i < p->count && p->comm->link;) {
        const real *values;
        size_t unit = p->units[i].unit;
        i = unit_assemble(p, i, &values);
        square[unit] = smoe_optim_unit_square(values, shares_smaller(UNIT, p->whole - unit * UNIT));
    }
    smoe_comm_join(p->comm, square, n * sizeof *square);
}
