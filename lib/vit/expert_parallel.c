/* Expert parallelism: experts divided over processes; see expert_parallel.h. */
#include "vit/expert_parallel.h"
#include "math/rows.h"

enum { PARAMS = 4 }; /* of a group, consecutive, from weight[0] on */

/* Rows that the processes of a block send to the experts of this process, for one group. */
typedef struct remote {
    size_t most;      /* largest number from one process; those of process q begin at q * most */
    size_t *first;    /* [N, E+1] rows of each expert from each process; kept */
    void *x;          /* [N * most, d] inputs; kept; these as the rows of smoe_moe */
    void *y, *dy;     /* [N * most, d] outputs or gradients of inputs, gradients of outputs */
    uint64_t *places; /* [N * most] for dropout, kept; NULL: none */
} remote;

/* The exchange of a layer. */
struct smoe_exchange {
    smoe_expert_parallel *model;
    remote group[2];
};

static remote *remote_of(const smoe_moe *l, size_t k) {
    return &l->exchange->group[k];
}

static smoe_comm *block_of(const smoe_moe *l) {
    return &l->exchange->model->block;
}

size_t smoe_expert_parallel_processes(const smoe_moe *l) {
    return (size_t)block_of(l)->size;
}

static size_t own_rank(const smoe_moe *l) {
    return (size_t)block_of(l)->rank;
}

size_t smoe_expert_parallel_owner(const smoe_param *param, size_t n, size_t at, size_t *end) {
    size_t each = param->whole / param->dim[0], e = at / each;
    size_t s = ((e + 1) * n - 1) / param->dim[0], first;
    smoe_expert_parallel_range(param->dim[0], n, s, &first, end);
    *end *= each;
    return s;
}

size_t smoe_expert_parallel_sums(const smoe_expert_parallel *s) {
    return (size_t)s->block.size * s->levels + s->block_levels;
}

int smoe_expert_parallel_allocate(smoe_expert_parallel *s, const smoe_params *params,
                                  smoe_err *err) {
    size_t most = 1;
    for (size_t i = 0; i < params->count; i++)
        if (smoe_param_sharded(&params->param[i]) && params->param[i].dim[0] > most)
            most = params->param[i].dim[0];
    s->size = params->trained - params->shared;
    smoe_arena_take(&s->memory, smoe_expert_parallel_sums(s) * s->size, sizeof *s->sums);
    s->counts = smoe_alloc(4 * most, sizeof *s->counts); /* of two groups at most */
    if (smoe_arena_bind(&s->memory, err)) return smoe_fail_prefix(err, "gradients of experts");
    s->sums = (real *)s->memory.base;
    return 0;
}

void smoe_expert_parallel_free(smoe_expert_parallel *s) {
    smoe_arena_free(&s->memory);
    free(s->counts);
    s->sums = NULL;
    s->counts = NULL;
}

void smoe_expert_parallel_reserve(smoe_moe *l, size_t rows, const smoe_space *space) {
    size_t n = smoe_expert_parallel_processes(l);
    for (size_t k = 0; k < l->groups; k++) {
        const smoe_mlp *mlp = &l->experts[k].mlp;
        size_t most = rows / l->router->E * mlp->E;
        remote *r = remote_of(l, k);
        *r = (remote){.most = most};
        r->first = smoe_arena_take(space->keep, n * (mlp->E + 1), sizeof *r->first);
        r->x = smoe_moe_take_rows(l, space->keep, n * most, space);
        r->y = smoe_moe_take_rows(l, space->scratch, n * most, space);
        if (space->train) r->dy = smoe_moe_take_rows(l, space->scratch, n * most, space);
        if (space->train && mlp->dropout > 0)
            r->places = smoe_arena_take(space->keep, n * most, sizeof *r->places);
    }
}

/* ---- where rows are -------------------------------------------------------------------------- */

/* The rows [count+1] of this process's plan for the experts of group k that process s has. */
static const size_t *near_rows(const smoe_moe *l, size_t k, size_t s, size_t *count) {
    const smoe_expert_group *group = &l->experts[k];
    size_t begin, end;
    smoe_expert_parallel_range(group->count, smoe_expert_parallel_processes(l), s, &begin, &end);
    *count = end - begin;
    return l->router->plan.first_row + group->begin + begin;
}

/* The rows of each expert here that process q sent, from 0 on. */
static size_t *remote_first(const smoe_moe *l, size_t k, size_t q) {
    const smoe_expert_group *group = &l->experts[k];
    return remote_of(l, k)->first + q * (group->mlp.E + 1);
}

static size_t remote_rows(const smoe_moe *l, size_t k, size_t q) {
    return remote_first(l, k, q)[l->experts[k].mlp.E];
}

/* ---- what travels ---------------------------------------------------------------------------- */

/* How many rows the experts of `other` get from here, and those here from `other`. */
static void exchange_counts(smoe_moe *l, size_t other) {
    uint64_t *out = l->exchange->model->counts, *in = out;
    size_t sent = 0, received = 0;
    for (size_t k = 0; k < l->groups; k++) {
        size_t count;
        const size_t *row = near_rows(l, k, other, &count);
        for (size_t e = 0; e < count; e++) out[sent++] = row[e + 1] - row[e];
        received += l->experts[k].mlp.E;
    }
    in += sent;
    smoe_comm_exchange(block_of(l), SMOE_TRAFFIC_SLOTS, (int)other, out, sent * sizeof *out, in,
                       received * sizeof *in);
    for (size_t k = 0; k < l->groups; k++) {
        size_t *first = remote_first(l, k, other);
        first[0] = 0;
        for (size_t e = 0; e < l->experts[k].mlp.E; e++) first[e + 1] = first[e] + *in++;
    }
}

/* The bytes of a row that experts read or write. */
static size_t row_bytes(const smoe_moe *l, bool narrow) {
    return l->d * (narrow ? sizeof(smoe_bf16) : sizeof(real));
}

/* Begins to exchange rows of group k, of `bytes` each, with process `other`. In `local` are those
 * of this process's plan in their order, in `away` those from the others. Outwards, rows of `local`
 * go to the experts of the other process; back, their results return. Returns the number of the
 * exchange, for smoe_comm_end. */
static uint64_t rows_exchange(smoe_moe *l, size_t k, size_t other, void *local, void *away,
                              size_t bytes, bool back) {
    size_t count;
    const size_t *row = near_rows(l, k, other, &count);
    char *here = (char *)local + row[0] * bytes;
    char *there = (char *)away + other * remote_of(l, k)->most * bytes;
    size_t here_bytes = (row[count] - row[0]) * bytes;
    size_t there_bytes = remote_rows(l, k, other) * bytes;
    if (back) return smoe_comm_begin(block_of(l), (int)other, there, there_bytes, here, here_bytes);
    return smoe_comm_begin(block_of(l), (int)other, here, here_bytes, there, there_bytes);
}

/* Of rows that experts read or write. */
static uint64_t values_exchange(smoe_moe *l, size_t k, size_t other, void *local, void *away,
                                bool back) {
    return rows_exchange(l, k, other, local, away, row_bytes(l, smoe_moe_narrow(l)), back);
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* Rows travel while others are computed. In turn n-1 .. 1 a process works on the rows of process
 * own ^ turn, which in the same turn works on its rows. Meanwhile those of the next turn arrive and
 * the results of the turn before go back. The own rows come in two parts, of half the experts each:
 * before all turns, while the first rows arrive, and after them, while the last results go back. */

/* The rows of process q for those experts of group k that this process has: where they are, and the
 * pass that they belong to. */
typedef struct work {
    smoe_mlp_rows rows;
    smoe_pass pass;
    smoe_outputs x, y, dy, dx;
} work;

static work work_of(smoe_moe *l, size_t k, size_t q, const smoe_pass *pass) {
    const remote *r = remote_of(l, k);
    size_t at = q * r->most, count;
    work w = {.rows = {.first = remote_first(l, k, q), .kept = at}, .pass = *pass};
    w.pass.first += (q - own_rank(l)) * l->exchange->model->pieces * pass->images;
    if (q == own_rank(l)) {
        size_t first = near_rows(l, k, q, &count)[0];
        if (l->places) w.rows.places = l->places + first;
        w.x = smoe_moe_rows(l, l->slots, first);
        w.y = smoe_moe_rows(l, l->out, first);
        if (l->dout) w.dy = smoe_moe_rows(l, l->dout, first);
        if (l->dslots) w.dx = smoe_moe_rows(l, l->dslots, first);
        return w;
    }
    if (r->places) w.rows.places = r->places + at;
    w.x = smoe_moe_rows(l, r->x, at);
    w.y = w.dx = smoe_moe_rows(l, r->y, at);
    if (r->dy) w.dy = smoe_moe_rows(l, r->dy, at);
    return w;
}

/* Rows of this process's own plan for its own experts. */
static void count_own(smoe_moe *l, size_t k) {
    size_t count, *first = remote_first(l, k, own_rank(l));
    const size_t *row = near_rows(l, k, own_rank(l), &count);
    for (size_t e = 0; e <= count; e++) first[e] = row[e] - row[0];
}

/* Inputs of experts, and the places that key their dropout. */
static uint64_t inputs_out(smoe_moe *l, size_t k, size_t other, bool drops) {
    const remote *r = remote_of(l, k);
    uint64_t number = values_exchange(l, k, other, l->slots, r->x, false);
    return drops ? rows_exchange(l, k, other, l->places, r->places, sizeof *l->places, false)
                 : number;
}

/* The outputs of experts from .. end of those here for rows of process q. */
static void outputs_forward(smoe_moe *l, size_t k, size_t q, size_t from, size_t end,
                            const smoe_pass *pass) {
    work w = work_of(l, k, q, pass);
    w.rows.from = from;
    w.rows.count = end - from;
    if (from == end || !remote_rows(l, k, q)) return;
    smoe_mlp_forward(&l->experts[k].mlp, w.y, smoe_written(w.x), NULL, &w.rows, &w.pass);
}

void smoe_expert_parallel_forward(smoe_moe *l, const smoe_pass *pass) {
    size_t n = smoe_expert_parallel_processes(l);
    for (size_t turn = 1; turn < n; turn++) exchange_counts(l, own_rank(l) ^ turn);
    for (size_t k = 0; k < l->groups; k++) {
        const remote *r = remote_of(l, k);
        size_t E = l->experts[k].mlp.E;
        bool drops = pass->train && r->places;
        uint64_t next, back = 0;
        next = inputs_out(l, k, own_rank(l) ^ (n - 1), drops);
        count_own(l, k);
        outputs_forward(l, k, own_rank(l), 0, E / 2, pass);
        for (size_t turn = n - 1; turn; turn--) {
            size_t q = own_rank(l) ^ turn;
            smoe_comm_end(block_of(l), next);
            if (turn > 1) next = inputs_out(l, k, own_rank(l) ^ (turn - 1), drops);
            outputs_forward(l, k, q, 0, E, pass);
            back = values_exchange(l, k, q, l->out, r->y, true);
        }
        outputs_forward(l, k, own_rank(l), E / 2, E, pass);
        smoe_comm_end(block_of(l), back);
    }
}

bool smoe_expert_parallel_goes_on(smoe_expert_parallel *s, bool own) {
    unsigned flags = own;
    (void)smoe_comm_agree(&s->block, 0, &flags, NULL);
    return flags;
}

void smoe_expert_parallel_serve(smoe_moe *l, const smoe_pass *pass) {
    smoe_plan *plan = &l->router->plan; /* without rows */
    memset(plan->first_row, 0, (plan->E + 1) * sizeof *plan->first_row);
    smoe_expert_parallel_forward(l, pass);
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* Of one parameter: the gradient of piece i of the process of this turn is in g. As in a binary
 * counter, a sum that waits at a level is that of the neighbour. After turn 0, the last one, the
 * sum of the block is in g. In the order own ^ turn processes have the same neighbours as in their
 * own order, but may have changed sides: the order of two terms does not matter. */
static void gradients_add_piece(const smoe_expert_parallel *s, real *g, size_t at, size_t n,
                                size_t turn, size_t i) {
    real *pieces = s->sums + at + turn * s->levels * s->size;
    real *block = s->sums + at + (size_t)s->block.size * s->levels * s->size;
    size_t level = 0, before = (size_t)s->block.size - 1 - turn;
    for (; i >> level & 1; level++) smoe_rows_add(g, pieces + level * s->size, n);
    if (level < s->levels) {
        memcpy(pieces + level * s->size, g, n * sizeof *g);
        return;
    }
    for (level = 0; before >> level & 1; level++) smoe_rows_add(g, block + level * s->size, n);
    if (level < s->block_levels) memcpy(block + level * s->size, g, n * sizeof *g);
}

/* The gradients of the inputs of experts from .. end. */
static void inputs_backward(const smoe_mlp *l, work *w, size_t from, size_t end) {
    w->rows.from = from;
    w->rows.count = end - from;
    if (from < end) smoe_mlp_backward_input(l, w->dx, smoe_written(w->dy), &w->rows, &w->pass);
}

/* The gradients of the weights of all experts here, from the rows of the process of this turn.
 * Those of the inputs come before. */
static void weights_backward(const smoe_mlp *l, const smoe_expert_parallel *s, work *w,
                             size_t turn) {
    smoe_params *params = l->params;
    size_t piece = w->pass.first / w->pass.images % s->pieces;
    for (size_t i = 0; i < PARAMS; i++) smoe_params_clear(params, l->weight[0] + i);
    w->rows.from = w->rows.count = 0;
    smoe_mlp_backward_weights(l, smoe_written(w->dy), smoe_written(w->x), &w->rows, &w->pass);
    for (size_t i = 0; i < PARAMS; i++) {
        const smoe_param *p = &params->param[l->weight[0] + i];
        if (p->frozen || p->outer) continue;
        gradients_add_piece(s, params->g + p->offset, p->offset - params->shared, p->size, turn,
                            piece);
    }
}

void smoe_expert_parallel_backward(smoe_moe *l, const smoe_pass *pass) {
    const smoe_expert_parallel *s = l->exchange->model;
    size_t n = smoe_expert_parallel_processes(l);
    for (size_t k = 0; k < l->groups; k++) {
        const smoe_mlp *mlp = &l->experts[k].mlp;
        const remote *r = remote_of(l, k);
        size_t E = mlp->E;
        uint64_t next = values_exchange(l, k, own_rank(l) ^ (n - 1), l->dout, r->dy, false);
        uint64_t back = 0;
        work mine = work_of(l, k, own_rank(l), pass);
        inputs_backward(mlp, &mine, 0, E / 2);
        for (size_t turn = n - 1; turn; turn--) {
            size_t q = own_rank(l) ^ turn;
            work w = work_of(l, k, q, pass);
            smoe_comm_end(block_of(l), next);
            if (turn > 1)
                next = values_exchange(l, k, own_rank(l) ^ (turn - 1), l->dout, r->dy, false);
            inputs_backward(mlp, &w, 0, E);
            back = values_exchange(l, k, q, l->dslots, r->y, true);
            weights_backward(mlp, s, &w, turn);
        }
        inputs_backward(mlp, &mine, E / 2, E);
        weights_backward(mlp, s, &mine, 0);
        smoe_comm_end(block_of(l), back);
    }
}

/* ---- dividing -------------------------------------------------------------------------------- */

void smoe_expert_parallel_shard(smoe_moe *l, smoe_expert_parallel *experts) {
    l->exchange = smoe_alloc(1, sizeof *l->exchange);
    l->exchange->model = experts;
    for (size_t k = 0; k < l->groups; k++) {
        smoe_expert_group *group = &l->experts[k];
        smoe_mlp *mlp = &group->mlp;
        size_t first, end;
        smoe_expert_parallel_range(group->count, smoe_expert_parallel_processes(l), own_rank(l),
                                   &first, &end);
        for (size_t i = mlp->weight[0]; i < mlp->weight[0] + PARAMS; i++) {
            size_t each = mlp->params->param[i].whole / group->count;
            smoe_params_shard(mlp->params, i, first * each, (end - first) * each);
        }
        mlp->E = end - first;
    }
}

/* ---- what will be sent ----------------------------------------------------------------------- */

static void sent_add(smoe_sent *sent, size_t bytes, size_t times) {
    if (!bytes) return;
    sent->bytes += bytes * times;
    sent->messages += times;
}

void smoe_expert_parallel_expect(const smoe_moe *l, size_t forwards, smoe_sent *sent) {
    bool narrow = l->experts[0].mlp.narrow &&
                  smoe_spec_precision(l->build->spec, true) == SMOE_PRECISION_BF16;
    size_t n = smoe_expert_parallel_processes(l), pieces = l->exchange->model->pieces,
           row = row_bytes(l, narrow);
    size_t passes = forwards * pieces, ways = passes + pieces; /* forward and backward */
    for (size_t bit = 1; bit < n; bit++) {
        size_t experts = 0;
        for (size_t k = 0; k < l->groups; k++) {
            const smoe_expert_group *group = &l->experts[k];
            size_t first, end, most = remote_of(l, k)->most, each = most / group->mlp.E;
            smoe_expert_parallel_range(group->count, n, own_rank(l) ^ bit, &first, &end);
            experts += end - first;
            sent_add(sent, (end - first) * each * row, ways);
            sent_add(sent, most * row, ways);
            if (group->mlp.dropout > 0)
                sent_add(sent, (end - first) * each * sizeof(uint64_t), passes);
        }
        sent_add(sent, experts * sizeof(uint64_t), passes);
    }
}
