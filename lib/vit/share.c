/* Experts divided over processes; see share.h. */
#include "vit/share.h"
#include "base/alloc.h"
#include "base/team.h"

#include <stdlib.h>
#include <string.h>

enum { PARAMS = 4 }; /* of a group */

static size_t processes(const smoe_moe *l) {
    return (size_t)l->share->block.size;
}

static size_t own(const smoe_moe *l) {
    return (size_t)l->share->block.rank;
}

size_t smoe_share_owner(const smoe_param *param, size_t n, size_t at, size_t *end) {
    size_t each = param->whole / param->dim[0], e = at / each;
    size_t s = ((e + 1) * n - 1) / param->dim[0], first;
    smoe_share_range(param->dim[0], n, s, &first, end);
    *end *= each;
    return s;
}

static void params_of(const smoe_mlp *l, size_t param[PARAMS]) {
    const size_t all[PARAMS] = {l->fc1, l->fc1_bias, l->fc2, l->fc2_bias};
    memcpy(param, all, sizeof all);
}

void smoe_share_divide(smoe_moe *l, smoe_share *share) {
    l->share = share;
    for (size_t k = 0; k < l->groups; k++) {
        smoe_expert_group *group = &l->experts[k];
        smoe_mlp *mlp = &group->mlp;
        size_t first, end, param[PARAMS];
        smoe_share_range(group->count, processes(l), own(l), &first, &end);
        params_of(mlp, param);
        for (size_t i = 0; i < PARAMS; i++) {
            size_t each = mlp->params->param[param[i]].whole / group->count;
            smoe_params_divide(mlp->params, param[i], first * each, (end - first) * each);
        }
        mlp->E = end - first;
        mlp->origins = processes(l);
        mlp->first_expert = group->begin + first;
    }
}

size_t smoe_share_sums(const smoe_share *s) {
    return (size_t)s->block.size * s->levels + s->block_levels;
}

int smoe_share_allocate(smoe_share *s, const smoe_params *params, smoe_err *err) {
    size_t most = 1;
    for (size_t i = 0; i < params->count; i++)
        if (smoe_param_divided(&params->param[i]) && params->param[i].dim[0] > most)
            most = params->param[i].dim[0];
    s->size = params->trained - params->shared;
    smoe_arena arena = {0};
    smoe_arena_take(&arena, smoe_share_sums(s) * s->size, sizeof *s->sums);
    s->counts = smoe_alloc(4 * most, sizeof *s->counts); /* of two groups at most */
    if (smoe_arena_bind(&arena, err)) return smoe_fail_prefix(err, "gradients of experts");
    s->sums = (real *)arena.base;
    return 0;
}

void smoe_share_free(smoe_share *s) {
    smoe_arena arena = {.base = (char *)s->sums,
                        .size = smoe_share_sums(s) * s->size * sizeof *s->sums};
    if (s->sums) smoe_arena_free(&arena);
    free(s->counts);
    s->sums = NULL;
    s->counts = NULL;
}

void smoe_share_reserve(smoe_moe *l, size_t k, size_t most, const smoe_space *space) {
    smoe_expert_group *group = &l->experts[k];
    smoe_far *far = &group->far;
    size_t n = processes(l), rows = n * most;
    far->most = most;
    far->places = NULL;
    far->first = smoe_arena_take(space->keep, n * (group->mlp.E + 1), sizeof *far->first);
    far->x = smoe_moe_take_rows(l, space->keep, rows, space);
    far->y = smoe_moe_take_rows(l, space->scratch, rows, space);
    if (!space->train) return;
    far->dy = smoe_moe_take_rows(l, space->scratch, rows, space);
    if (group->mlp.dropout > 0)
        far->places = smoe_arena_take(space->keep, n * most, sizeof *far->places);
}

/* ---- where rows are -------------------------------------------------------------------------- */

/* Rows of the experts of group k that process s has, among the rows of this process's plan. */
static size_t near_rows(const smoe_moe *l, size_t k, size_t s, size_t *first) {
    const smoe_expert_group *group = &l->experts[k];
    const size_t *row = l->router->plan.first_row + group->begin;
    size_t begin, end;
    smoe_share_range(group->count, processes(l), s, &begin, &end);
    *first = row[begin];
    return row[end] - row[begin];
}

/* The rows of each expert here that process q sent, from 0 on. */
static size_t *far_first(const smoe_moe *l, size_t k, size_t q) {
    const smoe_expert_group *group = &l->experts[k];
    return group->far.first + q * (group->mlp.E + 1);
}

static size_t far_rows(const smoe_moe *l, size_t k, size_t q) {
    return far_first(l, k, q)[l->experts[k].mlp.E];
}

/* ---- what travels ---------------------------------------------------------------------------- */

static void exchange(smoe_moe *l, size_t other, const void *out, size_t out_bytes, void *in,
                     size_t in_bytes) {
    smoe_comm_exchange(&l->share->block, SMOE_TRAFFIC_SLOTS, (int)other, out, out_bytes, in,
                       in_bytes);
}

/* How many rows the experts of `other` get from here, and those here from `other`. With `idle`
 * there are none from here. */
static void exchange_counts(smoe_moe *l, size_t other, bool idle) {
    uint64_t *out = l->share->counts, *in = out;
    size_t sent = 0, received = 0;
    for (size_t k = 0; k < l->groups; k++) {
        const smoe_expert_group *group = &l->experts[k];
        const size_t *row = l->router->plan.first_row + group->begin;
        size_t begin, end;
        smoe_share_range(group->count, processes(l), other, &begin, &end);
        for (size_t e = begin; e < end; e++) out[sent++] = idle ? 0 : row[e + 1] - row[e];
        received += group->mlp.E;
    }
    in += sent;
    exchange(l, other, out, sent * sizeof *out, in, received * sizeof *in);
    for (size_t k = 0; k < l->groups; k++) {
        size_t *first = far_first(l, k, other);
        first[0] = 0;
        for (size_t e = 0; e < l->experts[k].mlp.E; e++) first[e + 1] = first[e] + *in++;
    }
}

/* The bytes of a row that experts read or write. */
static size_t row_bytes(const smoe_moe *l, bool narrow) {
    return l->d * (narrow ? sizeof(smoe_bf16) : sizeof(real));
}

/* Begins to exchange rows of group k, of `bytes` each, with process `other`: sends it those in
 * `near`, which has the rows of this process's plan in their order, and receives those in `far`.
 * Returns the number of the exchange, for smoe_comm_end. */
static uint64_t rows_out(smoe_moe *l, size_t k, size_t other, const void *near, void *far,
                         size_t bytes, bool idle) {
    size_t first = 0, rows = idle ? 0 : near_rows(l, k, other, &first);
    size_t most = l->experts[k].far.most;
    return smoe_comm_begin(&l->share->block, SMOE_TRAFFIC_SLOTS, (int)other,
                           (const char *)near + first * bytes, rows * bytes,
                           (char *)far + other * most * bytes, far_rows(l, k, other) * bytes);
}

/* The reverse, for results of experts. */
static uint64_t rows_back(smoe_moe *l, size_t k, size_t other, void *near, const void *far,
                          bool idle) {
    size_t first = 0, rows = idle ? 0 : near_rows(l, k, other, &first);
    size_t most = l->experts[k].far.most, bytes = row_bytes(l, smoe_moe_narrow(l));
    return smoe_comm_begin(&l->share->block, SMOE_TRAFFIC_SLOTS, (int)other,
                           (const char *)far + other * most * bytes, far_rows(l, k, other) * bytes,
                           (char *)near + first * bytes, rows * bytes);
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* Rows travel while others are computed. In turn n-1 .. 1 a process works on the rows of process
 * own ^ turn, which in the same turn works on its rows. Meanwhile those of the next turn arrive and
 * the results of the turn before go back. The own rows come in two parts, of half the experts each:
 * before all turns, while the first rows arrive, and after them, while the last results go back. */

/* The experts of group k that are here, and rows of process q: where they are. */
typedef struct work {
    smoe_mlp mlp;
    const size_t *first;
    smoe_outputs x, y, dy, dx;
} work;

static work work_of(smoe_moe *l, size_t k, size_t q) {
    const smoe_expert_group *group = &l->experts[k];
    const smoe_far *far = &group->far;
    size_t at = q * far->most, first;
    work w = {.mlp = smoe_mlp_at(&group->mlp, q * far->most), .first = far_first(l, k, q)};
    w.mlp.ahead = ((ptrdiff_t)q - (ptrdiff_t)own(l)) * (ptrdiff_t)l->share->pieces;
    if (q == own(l)) {
        (void)near_rows(l, k, q, &first);
        w.x = smoe_moe_rows(l, l->slots, first);
        w.y = smoe_moe_rows(l, l->out, first);
        if (l->dout) w.dy = smoe_moe_rows(l, l->dout, first);
        if (l->dslots) w.dx = smoe_moe_rows(l, l->dslots, first);
        return w;
    }
    w.mlp.plan = NULL;
    if (far->places) w.mlp.places = far->places + q * far->most;
    w.x = smoe_moe_rows(l, far->x, at);
    w.y = w.dx = smoe_moe_rows(l, far->y, at);
    if (far->dy) w.dy = smoe_moe_rows(l, far->dy, at);
    return w;
}

/* Rows of this process's own plan for its own experts. */
static void count_own(smoe_moe *l, size_t k) {
    const smoe_expert_group *group = &l->experts[k];
    const size_t *row = l->router->plan.first_row + group->mlp.first_expert;
    size_t *first = far_first(l, k, own(l));
    for (size_t e = 0; e <= group->mlp.E; e++) first[e] = row[e] - row[0];
}

/* Inputs of experts, and the places that key their dropout. */
static uint64_t inputs_out(smoe_moe *l, size_t k, size_t other, bool drops, bool idle) {
    const smoe_far *far = &l->experts[k].far;
    uint64_t number =
        rows_out(l, k, other, l->slots, far->x, row_bytes(l, smoe_moe_narrow(l)), idle);
    return drops ? rows_out(l, k, other, l->places, far->places, sizeof *l->places, false) : number;
}

/* Experts from .. end of those here. */
static smoe_mlp part_of(smoe_mlp mlp, size_t from, size_t end) {
    mlp.from = from;
    mlp.E = end - from;
    return mlp;
}

/* The outputs of experts from .. end for rows of process q. */
static void outputs(smoe_moe *l, size_t k, size_t q, size_t from, size_t end,
                    const smoe_pass *pass) {
    work w = work_of(l, k, q);
    smoe_mlp part = part_of(w.mlp, from, end);
    if (part.E) smoe_mlp_forward(&part, w.y, smoe_written(w.x), NULL, w.first, pass);
}

static void forward(smoe_moe *l, const smoe_pass *pass, bool idle) {
    size_t n = processes(l);
    for (size_t turn = 1; turn < n; turn++) exchange_counts(l, own(l) ^ turn, idle);
    for (size_t k = 0; k < l->groups; k++) {
        const smoe_expert_group *group = &l->experts[k];
        size_t E = group->mlp.E;
        bool drops = pass->train && group->far.places;
        uint64_t next, back = 0;
        if (drops) {
            size_t at = l->router->plan.first_row[group->begin];
            smoe_dropout_find(l->places + at, &l->router->plan, group->begin, group->count, pass);
        }
        next = inputs_out(l, k, own(l) ^ (n - 1), drops, idle);
        if (!idle) {
            count_own(l, k);
            outputs(l, k, own(l), 0, E / 2, pass);
        }
        for (size_t turn = n - 1; turn; turn--) {
            size_t q = own(l) ^ turn;
            smoe_comm_end(&l->share->block, next);
            if (turn > 1) next = inputs_out(l, k, own(l) ^ (turn - 1), drops, idle);
            outputs(l, k, q, 0, E, pass);
            back = rows_back(l, k, q, l->out, group->far.y, idle);
        }
        if (!idle) outputs(l, k, own(l), E / 2, E, pass);
        smoe_comm_end(&l->share->block, back);
    }
}

void smoe_share_forward(smoe_moe *l, const smoe_pass *pass) {
    forward(l, pass, false);
}

bool smoe_share_goes_on(smoe_share *s, bool own) {
    unsigned flags = own;
    (void)smoe_comm_agree(&s->block, 0, &flags, NULL);
    return flags;
}

void smoe_share_serve(smoe_moe *l, const smoe_pass *pass) {
    forward(l, pass, true);
}

/* ---- gradients ------------------------------------------------------------------------------- */

static void add(real *restrict x, const real *restrict y, size_t n) {
    SMOE_SHARED(optimizer, n)
    for (size_t i = 0; i < n; i++) x[i] += y[i];
}

/* Of one parameter: the gradient of piece i of the process of this turn is in g. As in a binary
 * counter, a sum that waits at a level is that of the neighbour. After turn 0, the last one, the
 * sum of the block is in g. In the order own ^ turn processes have the same neighbours as in their
 * own order, but may have changed sides: the order of two terms does not matter. */
static void add_piece(const smoe_share *s, real *g, size_t at, size_t n, size_t turn, size_t i) {
    real *pieces = s->sums + at + turn * s->levels * s->size;
    real *block = s->sums + at + (size_t)s->block.size * s->levels * s->size;
    size_t level = 0, before = (size_t)s->block.size - 1 - turn;
    for (; i >> level & 1; level++) add(g, pieces + level * s->size, n);
    if (level < s->levels) {
        memcpy(pieces + level * s->size, g, n * sizeof *g);
        return;
    }
    for (level = 0; before >> level & 1; level++) add(g, block + level * s->size, n);
    if (level < s->block_levels) memcpy(block + level * s->size, g, n * sizeof *g);
}

/* Each process's rows start with gradients of 0. */
static void clear(smoe_params *params, const size_t param[PARAMS]) {
    for (size_t k = 0; k < PARAMS; k++) {
        smoe_param *p = &params->param[param[k]];
        if (p->frozen) continue;
        p->fresh = smoe_param_streams(p);
        if (!p->fresh) memset(params->g + p->offset, 0, p->size * sizeof(real));
    }
}

static uint64_t gradients_out(smoe_moe *l, size_t k, size_t other) {
    size_t bytes = row_bytes(l, smoe_moe_narrow(l));
    return rows_out(l, k, other, l->dout, l->experts[k].far.dy, bytes, false);
}

/* The gradients of the inputs of experts from .. end. */
static void inputs_backward(const work *w, size_t from, size_t end, const smoe_pass *pass) {
    smoe_mlp part = part_of(w->mlp, from, end);
    if (part.E) smoe_mlp_backward_input(&part, w->dx, smoe_written(w->dy), w->first, pass);
}

/* The gradients of the weights of all experts here, from the rows of the process of this turn.
 * Those of the inputs come before. */
static void weights_backward(smoe_moe *l, work *w, size_t turn, const size_t param[PARAMS],
                             const smoe_pass *pass) {
    const smoe_share *s = l->share;
    smoe_params *params = l->build->params;
    size_t piece = pass->first / pass->images % s->pieces;
    clear(params, param);
    smoe_mlp_backward_weights(&w->mlp, smoe_written(w->dy), smoe_written(w->x), w->first, pass);
    for (size_t i = 0; i < PARAMS; i++) {
        const smoe_param *p = &params->param[param[i]];
        if (p->frozen || p->outer) continue;
        add_piece(s, params->g + p->offset, p->offset - params->shared, p->size, turn, piece);
    }
}

void smoe_share_backward(smoe_moe *l, const smoe_pass *pass) {
    size_t n = processes(l), param[PARAMS];
    for (size_t k = 0; k < l->groups; k++) {
        const smoe_expert_group *group = &l->experts[k];
        size_t E = group->mlp.E;
        uint64_t next = gradients_out(l, k, own(l) ^ (n - 1)), back = 0;
        work mine = work_of(l, k, own(l));
        params_of(&group->mlp, param);
        inputs_backward(&mine, 0, E / 2, pass);
        for (size_t turn = n - 1; turn; turn--) {
            size_t q = own(l) ^ turn;
            work w = work_of(l, k, q);
            smoe_comm_end(&l->share->block, next);
            if (turn > 1) next = gradients_out(l, k, own(l) ^ (turn - 1));
            inputs_backward(&w, 0, E, pass);
            back = rows_back(l, k, q, l->dslots, group->far.y, false);
            weights_backward(l, &w, turn, param, pass);
        }
        inputs_backward(&mine, E / 2, E, pass);
        weights_backward(l, &mine, 0, param, pass);
        smoe_comm_end(&l->share->block, back);
    }
}

/* ---- what will be sent ----------------------------------------------------------------------- */

static void expect(smoe_sent *sent, size_t bytes, size_t times) {
    if (!bytes) return;
    sent->bytes += bytes * times;
    sent->messages += times;
}

void smoe_share_expect(const smoe_moe *l, size_t forwards, smoe_sent *sent) {
    bool narrow = l->experts[0].mlp.narrow &&
                  smoe_spec_precision(l->build->spec, true) == SMOE_PRECISION_BF16;
    size_t n = processes(l), pieces = l->share->pieces, row = row_bytes(l, narrow);
    size_t passes = forwards * pieces, ways = passes + pieces; /* forward and backward */
    for (size_t bit = 1; bit < n; bit++) {
        size_t experts = 0;
        for (size_t k = 0; k < l->groups; k++) {
            const smoe_expert_group *group = &l->experts[k];
            size_t first, end, each = group->far.most / group->mlp.E;
            smoe_share_range(group->count, n, own(l) ^ bit, &first, &end);
            experts += end - first;
            expect(sent, (end - first) * each * row, ways);
            expect(sent, group->far.most * row, ways);
            if (group->mlp.dropout > 0)
                expect(sent, (end - first) * each * sizeof(uint64_t), passes);
        }
        expect(sent, experts * sizeof(uint64_t), passes);
    }
}
