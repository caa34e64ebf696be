/* Sums over processes and agreement among them, by exchanges between two; see comm.h. */
#include "comm/comm.h"
#include "math/rows.h"

#include <assert.h>
#include <sys/param.h>
#include <zlib.h>

const smoe_comm smoe_comm_alone = {.size = 1};

smoe_comm smoe_comm_part(smoe_comm *all, int first, int stride, int size) {
    smoe_comm part = *all;
    part.all = all;
    part.first = first;
    part.stride = stride;
    part.size = size;
    part.rank = (all->rank - first) / stride;
    return part;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Bytes of one message of numbers to be summed, and of other things to be joined. */
enum { SUM_MOST = 256 * sizeof(double), JOIN_MOST = 1 << 14 };

/* A place in x, which is NULL where things are only counted. */
static void *place_at(void *x, size_t bytes) {
    return x ? (char *)x + bytes : NULL;
}

/* x = x and `in`, both of `bytes`. */
typedef void merge(void *x, const void *in, size_t bytes);

/* At each level of the tree two processes merge what both have, in messages of at most `most`
 * bytes. Both get the same bits if the order of the two does not matter to the merge. */
static void merge_levels(smoe_comm *c, void *x, size_t bytes, size_t most, merge *rule) {
    double in[JOIN_MOST / sizeof(double)]; /* aligned for all kinds of numbers */
    assert(powerof2(c->size) && most <= sizeof in);
    for (int bit = 1; bit < c->size; bit *= 2)
        for (size_t i = 0; i < bytes; i += most) {
            size_t n = bytes - i < most ? bytes - i : most;
            smoe_comm_exchange(c, SMOE_TRAFFIC_OTHER, c->rank ^ bit, place_at(x, i), n, in, n);
            if (c->link) rule(place_at(x, i), in, n);
        }
}

static void add_numbers(void *x, const void *in, size_t bytes) {
    double *sum = x;
    const double *term = in;
    for (size_t i = 0; i < bytes / sizeof *sum; i++) sum[i] += term[i];
}

static void add_counts(void *x, const void *in, size_t bytes) {
    uint64_t *sum = x;
    const uint64_t *term = in;
    for (size_t i = 0; i < bytes / sizeof *sum; i++) sum[i] += term[i];
}

static void add_exact(void *x, const void *in, size_t bytes) {
    smoe_exact *sum = x;
    const smoe_exact *term = in;
    for (size_t i = 0; i < bytes / sizeof *sum; i++) smoe_exact_add(&sum[i], term[i]);
}

static void keep_larger(void *x, const void *in, size_t bytes) {
    double *own = x;
    const double *other = in;
    for (size_t i = 0; i < bytes / sizeof *own; i++)
        if (other[i] > own[i]) own[i] = other[i];
}

static void or_bytes(void *x, const void *in, size_t bytes) {
    unsigned char *own = x;
    const unsigned char *other = in;
    for (size_t i = 0; i < bytes; i++) own[i] |= other[i];
}

void smoe_comm_sum(smoe_comm *c, double *x, size_t n) {
    merge_levels(c, x, n * sizeof *x, SUM_MOST, add_numbers);
}

void smoe_comm_sum_counts(smoe_comm *c, uint64_t *x, size_t n) {
    merge_levels(c, x, n * sizeof *x, JOIN_MOST, add_counts);
}

void smoe_comm_sum_exact(smoe_comm *c, smoe_exact *x, size_t n) {
    merge_levels(c, x, n * sizeof *x, JOIN_MOST, add_exact);
}

void smoe_comm_largest(smoe_comm *c, double *x, size_t n) {
    merge_levels(c, x, n * sizeof *x, JOIN_MOST, keep_larger);
}

void smoe_comm_join(smoe_comm *c, void *x, size_t bytes) {
    merge_levels(c, x, bytes, JOIN_MOST, or_bytes);
}

/* At each level, starting with neighbours, two processes that have the same units divide them. */
typedef struct half {
    int other;
    size_t first, end;           /* what stays here */
    size_t away_first, away_end; /* what the other one keeps */
} half;

enum { DIVISIONS = CHAR_BIT * sizeof(int) };

/* How n units are divided, level by level; returns the number of levels. */
static size_t divisions_of(half division[DIVISIONS], const smoe_comm *c, size_t n) {
    size_t first = 0, end = n, count = 0;
    assert(powerof2(c->size));
    for (int bit = 1; bit < c->size; bit *= 2) {
        size_t middle = first + (end - first) / 2;
        half lower = {c->rank ^ bit, first, middle, middle, end};
        half upper = {c->rank ^ bit, middle, end, first, middle};
        division[count] = c->rank & bit ? upper : lower;
        first = division[count].first;
        end = division[count++].end;
    }
    return count;
}

void smoe_comm_range(const smoe_comm *c, size_t n, size_t *first, size_t *end) {
    half division[DIVISIONS];
    size_t count = divisions_of(division, c, n);
    *first = count ? division[count - 1].first : 0;
    *end = count ? division[count - 1].end : n;
}

/* The elements of `part` in units first .. end. */
static smoe_stretch stretch_clip(smoe_stretch part, size_t first, size_t end, size_t unit) {
    part.first = MAX(part.first, first * unit);
    part.end = MAX(MIN(part.end, end * unit), part.first);
    return part;
}

/* Sends the part that the other process keeps, and adds the part that it sends, block by block. */
static void sum_half(smoe_comm *c, real *x, const half *h, size_t unit, smoe_stretch part,
                     real *block) {
    smoe_stretch stays = stretch_clip(part, h->first, h->end, unit);
    smoe_stretch goes = stretch_clip(part, h->away_first, h->away_end, unit);
    size_t keep = stays.first, keep_end = stays.end, away = goes.first, away_end = goes.end;
    while (keep < keep_end || away < away_end) {
        size_t in = MIN(keep_end - keep, (size_t)SMOE_COMM_BLOCK);
        size_t out = MIN(away_end - away, (size_t)SMOE_COMM_BLOCK);
        smoe_comm_exchange(c, SMOE_TRAFFIC_GRADIENTS, h->other, place_at(x, away * sizeof *x),
                           out * sizeof *x, block, in * sizeof *x);
        if (c->link) smoe_rows_add(x + keep, block, in);
        keep += in;
        away += out;
    }
}

void smoe_comm_scatter_sum(smoe_comm *c, real *x, size_t size, size_t unit, smoe_stretch part,
                           real *block) {
    half division[DIVISIONS];
    size_t count = divisions_of(division, c, (size + unit - 1) / unit);
    assert(part.end <= size);
    for (size_t i = 0; i < count; i++) sum_half(c, x, &division[i], unit, part, block);
}

/* The reverse of a sum's exchanges: the last division is exchanged first. */
void smoe_comm_gather(smoe_comm *c, void *x, size_t bytes, size_t unit, smoe_traffic kind) {
    half division[DIVISIONS];
    for (size_t i = divisions_of(division, c, (bytes + unit - 1) / unit); i--;) {
        const half *h = &division[i];
        size_t own = MIN(h->first * unit, bytes), own_end = MIN(h->end * unit, bytes);
        size_t away = MIN(h->away_first * unit, bytes), away_end = MIN(h->away_end * unit, bytes);
        smoe_comm_exchange(c, kind, h->other, place_at(x, own), own_end - own, place_at(x, away),
                           away_end - away);
    }
}

/* At each level two processes exchange the parts of their neighbours. */
void smoe_comm_collect(smoe_comm *c, void *x, size_t part) {
    assert(powerof2(c->size));
    for (int bit = 1; bit < c->size; bit *= 2) {
        size_t own = (size_t)(c->rank & -bit), away = own ^ (size_t)bit, bytes = (size_t)bit * part;
        smoe_comm_exchange(c, SMOE_TRAFFIC_GRADIENTS, c->rank ^ bit, place_at(x, own * part), bytes,
                           place_at(x, away * part), bytes);
    }
}

/* ---- agreement ------------------------------------------------------------------------------- */

/* From process 0 down the tree in which r has the children r + 2^k above its highest bit; any R. */
void smoe_comm_broadcast(smoe_comm *c, void *x, size_t bytes) {
    for (int bit = 1; bit < c->size; bit *= 2) {
        if (c->rank < bit && c->rank + bit < c->size)
            smoe_comm_exchange(c, SMOE_TRAFFIC_OTHER, c->rank + bit, x, bytes, NULL, 0);
        else if (c->rank >= bit && c->rank < 2 * bit)
            smoe_comm_exchange(c, SMOE_TRAFFIC_OTHER, c->rank - bit, NULL, 0, x, bytes);
    }
}

typedef struct vote {
    int32_t failed, first; /* how many; the lowest of them */
    uint32_t flags;
} vote;

static void vote_join(void *x, const void *in, size_t bytes) {
    vote *v = x;
    const vote *other = in;
    (void)bytes;
    if (other->failed && (!v->failed || other->first < v->first)) v->first = other->first;
    v->failed += other->failed;
    v->flags |= other->flags;
}

/* For any R: up the tree of the broadcast, then down again. */
static void count_votes(smoe_comm *c, vote *v) {
    int top = 1;
    while (2 * top < c->size) top *= 2;
    for (int bit = top; bit; bit /= 2) {
        vote in;
        if (c->rank < bit && c->rank + bit < c->size) {
            smoe_comm_exchange(c, SMOE_TRAFFIC_OTHER, c->rank + bit, NULL, 0, &in, sizeof in);
            vote_join(v, &in, sizeof in);
        } else if (c->rank >= bit && c->rank < 2 * bit) {
            smoe_comm_exchange(c, SMOE_TRAFFIC_OTHER, c->rank - bit, v, sizeof *v, NULL, 0);
        }
    }
    smoe_comm_broadcast(c, v, sizeof *v);
}

/* The message of the first process that failed, sent by way of process 0. */
static void share_message(smoe_comm *c, const vote *v, smoe_err *message) {
    if (v->first && c->rank == v->first)
        smoe_comm_exchange(c, SMOE_TRAFFIC_OTHER, 0, message, sizeof *message, NULL, 0);
    if (v->first && !c->rank)
        smoe_comm_exchange(c, SMOE_TRAFFIC_OTHER, v->first, NULL, 0, message, sizeof *message);
    smoe_comm_broadcast(c, message, sizeof *message);
}

int smoe_comm_agree(smoe_comm *c, int status, unsigned *flags, smoe_err *err) {
    if (c->size == 1) return status;
    vote v = {.failed = status != 0, .first = c->rank, .flags = flags ? *flags : 0};
    if (powerof2(c->size)) /* half as many consecutive messages */
        merge_levels(c, &v, sizeof v, JOIN_MOST, vote_join);
    else
        count_votes(c, &v);
    if (flags) *flags = v.flags;
    if (!v.failed) return 0;
    smoe_err message = {0};
    if (status && err) message = *err;
    if (status && v.failed < c->size)
        smoe_fail_prefix(&message, "process %d of %d on %s", c->rank, c->size, c->host);
    share_message(c, &v, &message);
    if (err) *err = message;
    c->agreed = true;
    return -1;
}

/* Gets the bytes of process 0; whether they differ from those here. */
static bool differs_from_first(smoe_comm *c, void *first, const void *own, size_t size) {
    memcpy(first, own, size);
    smoe_comm_broadcast(c, first, size);
    return memcmp(first, own, size);
}

int smoe_comm_same(smoe_comm *c, const char *what, const void *bytes, size_t size, smoe_err *err) {
    uint64_t own[2] = {size, crc32_z(0, bytes, size)}, first[2];
    int status = 0;
    if (differs_from_first(c, first, own, sizeof own))
        status = smoe_fail(err, SMOE_USAGE, "another %s than process 0 has", what);
    return smoe_comm_agree(c, status, NULL, err);
}

int smoe_comm_alike(smoe_comm *c, const char *what, const char *text, const char *remedy,
                    smoe_err *err) {
    char own[SMOE_COMM_TEXT] = "", first[SMOE_COMM_TEXT];
    int status = 0;
    snprintf(own, sizeof own, "%s", text);
    if (differs_from_first(c, first, own, sizeof own))
        status = smoe_fail(err, SMOE_USAGE, "%s %s, but process 0 has %.*s; %s", what, own,
                           SMOE_COMM_TEXT - 1, first, remedy);
    return smoe_comm_agree(c, status, NULL, err);
}
