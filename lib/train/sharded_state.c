/*
 * Reading tensors that other processes have; see sharded.h.
 *
 * All processes read in rounds. In a round each says to all others what it wants, or that it wants
 * nothing, and they send each other what they have of it. A process that has nothing to read takes
 * part until nobody wants anything.
 */
#include "train/optim.h"
#include "train/sharded.h"

/* The slabs of a table in a fixed order. */
enum { W, AVERAGE, M, V, M_BF16, V_BF16, SECOND, SLABS };

typedef struct request {
    int64_t slab; /* negative: nothing */
    uint64_t param, first, count;
} request;

static const request nothing = {.slab = -1};

static const char *slab_at(const smoe_params *params, int64_t number) {
    switch (number) {
    case W: return (const char *)params->w;
    case AVERAGE: return (const char *)params->average;
    case M: return (const char *)params->m;
    case V: return (const char *)params->v;
    case M_BF16: return (const char *)params->m_bf16;
    case V_BF16: return (const char *)params->v_bf16;
    default: return params->second ? (const char *)params->second->w : NULL;
    }
}

static int64_t states_number_of(const smoe_params *params, const void *slab) {
    int64_t number = 0;
    while (number < SLABS - 1 && slab_at(params, number) != slab) number++;
    return number;
}

static const smoe_param *param_of(const smoe_sharded_state *s, int64_t slab, uint64_t i) {
    return slab == SECOND ? &s->params->second->param[i] : &s->params->param[i];
}

/* Whether every process has those moments in its own range. */
static bool in_ranges(const smoe_sharded_state *s, int64_t slab) {
    return s->moments && slab >= M && slab <= V_BF16;
}

/* The elements of a tensor that process `owner` sends to `asker` when that one makes the request.
 * Experts come from the same block. */
static smoe_stretch part_of(const smoe_sharded_state *s, const request *r, int owner, int asker) {
    smoe_stretch part = {0, 0};
    if (r->slab < 0) return part;
    const smoe_param *p = param_of(s, r->slab, r->param);
    int shards = (int)s->shards;
    if (smoe_param_sharded(p)) {
        size_t each = p->whole / p->dim[0];
        if (owner / shards != asker / shards) return part;
        smoe_expert_parallel_range(p->dim[0], s->shards, (size_t)(owner % shards), &part.first,
                                   &part.end);
        part.first *= each;
        part.end *= each;
    } else if (in_ranges(s, r->slab)) {
        smoe_optim_range(s->params, owner, s->comm->size, &part.first, &part.end);
        part.first -= part.first < p->offset ? part.first : p->offset;
        part.end -= part.end < p->offset ? part.end : p->offset;
    }
    size_t end = r->first + r->count;
    if (part.first < r->first) part.first = r->first;
    if (part.end > end) part.end = end;
    return part.first < part.end ? part : (smoe_stretch){0, 0};
}

static size_t states_bytes_of(const request *r, size_t count) {
    bool narrow = r->slab == M_BF16 || r->slab == V_BF16;
    return count * (narrow ? sizeof(smoe_bf16) : sizeof(real));
}

/* Where element `at` of the tensor is in this process. */
static const char *place_here(const smoe_sharded_state *s, const request *r, size_t at) {
    const smoe_param *p = param_of(s, r->slab, r->param);
    return slab_at(s->params, r->slab) + states_bytes_of(r, p->offset + at - p->from);
}

/* Returns whether any process wanted something. */
static bool take_round(const smoe_sharded_state *s, const request *own, char *out) {
    int rank = s->comm->rank;
    bool wanted = own->slab >= 0;
    smoe_stretch mine = part_of(s, own, rank, rank);
    if (out && mine.end)
        memcpy(out + states_bytes_of(own, mine.first - own->first), place_here(s, own, mine.first),
               states_bytes_of(own, mine.end - mine.first));
    for (int bit = 1; bit < s->comm->size; bit++) {
        request theirs;
        int other = rank ^ bit;
        smoe_comm_exchange(s->comm, SMOE_TRAFFIC_OTHER, other, own, sizeof *own, &theirs,
                           sizeof theirs);
        wanted = wanted || theirs.slab >= 0;
        smoe_stretch give = part_of(s, &theirs, rank, other), take = part_of(s, own, other, rank);
        smoe_comm_exchange(s->comm, SMOE_TRAFFIC_OTHER, other,
                           give.end ? place_here(s, &theirs, give.first) : NULL,
                           states_bytes_of(&theirs, give.end - give.first),
                           take.end ? out + states_bytes_of(own, take.first - own->first) : NULL,
                           states_bytes_of(own, take.end - take.first));
    }
    return wanted;
}

static bool spread_away(void *user, const void *slab, size_t i) {
    const smoe_sharded_state *s = user;
    int64_t number = states_number_of(s->params, slab);
    const smoe_param *p = param_of(s, number, i);
    return smoe_param_sharded(p) || (in_ranges(s, number) && !p->frozen);
}

static void spread_read(void *user, const void *slab, size_t i, size_t first, size_t count,
                        void *out) {
    const smoe_sharded_state *s = user;
    const request r = {states_number_of(s->params, slab), i, first, count};
    (void)take_round(s, &r, out);
}

static void spread_finish(void *user) {
    const smoe_sharded_state *s = user;
    while (take_round(s, &nothing, NULL)) continue;
}

static void spread_here(void *user, const void *slab, size_t i, size_t *first, size_t *end) {
    const smoe_sharded_state *s = user;
    int64_t number = states_number_of(s->params, slab);
    const request all = {number, i, 0, param_of(s, number, i)->whole};
    int rank = s->comm->rank;
    smoe_stretch part = {0, all.count};
    if (spread_away(user, slab, i)) part = part_of(s, &all, rank, rank);
    *first = part.first;
    *end = part.end;
}

void smoe_sharded_state_open(smoe_sharded_state *s, const smoe_params *params, smoe_comm *comm,
                             size_t shards, bool moments) {
    *s = (smoe_sharded_state){.params = params, .comm = comm, .shards = shards, .moments = moments};
    s->reader = (smoe_part_reader){spread_away, spread_read, spread_finish, spread_here, s};
}
