/* Factors of gradients over several processes; see outer_grad.h. */
#include "train/outer_grad.h"
#include "train/optim.h"

/* Whether parameter i has gradients, and is among those that are sharded, or among the others. */
static bool param_is_of(const smoe_params *params, size_t i, bool sharded) {
    const smoe_param *param = &params->param[i];
    return !param->frozen && (param->offset >= params->shared) == sharded;
}

size_t smoe_outer_grad_between(const smoe_params *params, bool sharded, size_t *i, size_t *first) {
    size_t size = 0;
    for (; *i < params->count; ++*i) {
        const smoe_param *param = &params->param[*i];
        if (!param_is_of(params, *i, sharded)) continue;
        if (param->outer && size) break;
        if (param->outer) continue;
        if (!size) *first = param->offset;
        size = smoe_param_end(param) - *first;
    }
    return size;
}

/* The next parameter from *i on whose gradient is left as factors; *i becomes the number after it.
 * NULL after the last one. */
static const smoe_param *next_outer(const smoe_params *params, bool sharded, size_t *i) {
    while (*i < params->count) {
        size_t at = (*i)++;
        if (param_is_of(params, at, sharded) && params->param[at].outer) return &params->param[at];
    }
    return NULL;
}

/* Sizes of the factors of a parameter in each of R processes. */
typedef struct sizes {
    size_t passes, rows, out, in, E; /* rows of a pass, of all experts */
} sizes;

static sizes sizes_of(const smoe_param *param, const smoe_comm *comm) {
    size_t out = param->dim[1], in = param->dim[2];
    return (sizes){param->outer->kept.passes / (size_t)comm->size, param->outer->kept.rows, out, in,
                   param->size / (out * in)};
}

/* The bytes of one process's numbers of rows. */
static size_t first_bytes(const sizes *s) {
    return s->passes * (s->E + 1) * sizeof(size_t);
}

/* ---- to all ---------------------------------------------------------------------------------- */

void smoe_outer_grad_collect(const smoe_params *params, smoe_comm *comm) {
    const smoe_param *param;
    for (size_t i = 0; (param = next_outer(params, true, &i));) {
        const smoe_outer_passes *kept = &param->outer->kept;
        sizes s = sizes_of(param, comm);
        size_t bytes = s.passes * s.rows * sizeof(real);
        smoe_comm_collect(comm, kept->dy, bytes * s.out, SMOE_TRAFFIC_GRADIENTS);
        smoe_comm_collect(comm, kept->x, bytes * s.in, SMOE_TRAFFIC_GRADIENTS);
        smoe_comm_collect(comm, kept->first, first_bytes(&s), SMOE_TRAFFIC_GRADIENTS);
    }
}

/* ---- to the processes that need them --------------------------------------------------------- */

/* Experts of a parameter. */
typedef struct experts {
    size_t begin, end;
} experts;

/* Those that have elements in the range of a process. */
static experts experts_of(const smoe_params *params, const smoe_param *param, int rank, int size) {
    size_t first, end, each = param->dim[1] * param->dim[2];
    smoe_optim_range(params, rank, size, &first, &end);
    if (first < param->offset) first = param->offset;
    if (end > param->offset + param->size) end = param->offset + param->size;
    if (first >= end) return (experts){0, 0};
    return (experts){(first - param->offset) / each, (end - param->offset + each - 1) / each};
}

/* Rows of a factor: of these experts in one pass. */
typedef struct rows {
    real *at;
    size_t bytes;
} rows;

/* Where they are; without a link, all buffers count as full. */
static rows outer_grad_rows_of(const sizes *s, const smoe_comm *comm, const smoe_outer_passes *kept,
                               real *factor, size_t width, size_t pass, experts e) {
    size_t bytes = width * sizeof *factor;
    if (!comm->link) return (rows){NULL, (e.end - e.begin) * (s->rows / s->E) * bytes};
    const size_t *first = kept->first + pass * (s->E + 1);
    size_t begin = first[e.begin];
    return (rows){factor + (pass * s->rows + begin) * width, (first[e.end] - begin) * bytes};
}

/* Both factors of one parameter, with one other process. */
static void factors_exchange(const smoe_params *params, const smoe_param *param, smoe_comm *comm,
                             int other) {
    const smoe_outer_passes *kept = &param->outer->kept;
    sizes s = sizes_of(param, comm);
    experts theirs = experts_of(params, param, other, comm->size);
    experts mine = experts_of(params, param, comm->rank, comm->size);
    real *factor[] = {kept->dy, kept->x};
    const size_t width[] = {s.out, s.in};
    for (size_t i = 0; i < s.passes; i++)
        for (int k = 0; k < 2; k++) {
            size_t own = (size_t)comm->rank * s.passes + i, away = (size_t)other * s.passes + i;
            rows out = outer_grad_rows_of(&s, comm, kept, factor[k], width[k], own, theirs);
            rows in = outer_grad_rows_of(&s, comm, kept, factor[k], width[k], away, mine);
            smoe_comm_exchange(comm, SMOE_TRAFFIC_GRADIENTS, other, out.at, out.bytes, in.at,
                               in.bytes);
        }
}

void smoe_outer_grad_scatter(const smoe_params *params, smoe_comm *comm) {
    const smoe_param *param;
    for (size_t i = 0; (param = next_outer(params, false, &i));) {
        sizes s = sizes_of(param, comm);
        smoe_comm_collect(comm, param->outer->kept.first, first_bytes(&s), SMOE_TRAFFIC_GRADIENTS);
        for (int bit = 1; bit < comm->size; bit++)
            factors_exchange(params, param, comm, comm->rank ^ bit);
    }
}
