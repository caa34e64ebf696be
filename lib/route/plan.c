/* Dispatch and combine, forward and backward, for dense and sparse plans; see plan.h. */
#include "route/plan.h"
#include "spec/parts.h"
#include "math/gemm.h"
#include "math/kernels.h"
#include "math/rows.h"

static void reserve_dense(smoe_plan *plan, bool train, smoe_arena *keep) {
    smoe_plan_dense *dense = &plan->dense;
    size_t n = plan->G * plan->T * plan->S;
    dense->disp = smoe_arena_take(keep, n, sizeof(real));
    dense->comb = smoe_arena_take(keep, n, sizeof(real));
    dense->mixed_disp = plan->rounded ? smoe_arena_take(keep, n, sizeof(real)) : dense->disp;
    dense->mixed_comb = plan->rounded ? smoe_arena_take(keep, n, sizeof(real)) : dense->comb;
    dense->dcomb = train ? smoe_arena_take(keep, n, sizeof(real)) : NULL;
    dense->ddisp = train && !dense->disp_constant ? smoe_arena_take(keep, n, sizeof(real)) : NULL;
}

static void reserve_list(smoe_plan *plan, bool train, smoe_arena *keep) {
    smoe_plan_list *list = &plan->list;
    size_t n = plan->G * plan->S;
    list->slot_token = smoe_arena_take(keep, n, sizeof *list->slot_token);
    list->slot_weight = smoe_arena_take(keep, n, sizeof(real));
    list->used = smoe_arena_take(keep, plan->G * plan->E, sizeof *list->used);
    list->first = smoe_arena_take(keep, plan->G * plan->T + 2, sizeof *list->first);
    list->slot = smoe_arena_take(keep, n, sizeof *list->slot);
    list->row = smoe_arena_take(keep, n, sizeof *list->row);
    plan->choices.chosen = smoe_arena_take(keep, plan->E, sizeof *plan->choices.chosen);
    plan->choices.lost = smoe_arena_take(keep, plan->E, sizeof *plan->choices.lost);
    list->dweight = train ? smoe_arena_take(keep, n, sizeof(real)) : NULL;
}

void smoe_plan_reserve(smoe_plan *plan, bool sparse, size_t G, bool train, smoe_arena *keep) {
    plan->sparse = sparse;
    plan->G = G;
    plan->first_row = smoe_arena_take(keep, plan->E + 1, sizeof *plan->first_row);
    (sparse ? reserve_list : reserve_dense)(plan, train, keep);
}

void smoe_plan_begin(smoe_plan *plan, size_t tokens) {
    plan->tokens = tokens;
    plan->G = (tokens + plan->T - 1) / plan->T;
    plan->losses = (smoe_plan_losses){0};
    plan->choices.dropped = 0;
    if (plan->sparse) {
        memset(plan->choices.chosen, 0, plan->E * sizeof *plan->choices.chosen);
        memset(plan->choices.lost, 0, plan->E * sizeof *plan->choices.lost);
        return;
    }
    for (size_t e = 0; e <= plan->E; e++) plan->first_row[e] = e * plan->P * plan->G;
    plan->rows = plan->first_row[plan->E];
}

bool smoe_plan_slot(const smoe_plan *plan, size_t slot, size_t *row, size_t *place) {
    const smoe_plan_list *list = &plan->list;
    size_t g = slot / plan->S, s = slot % plan->S, e = s / plan->P;
    if (!plan->sparse) {
        *row = s * plan->G + g;
        *place = slot;
        return true;
    }
    if (s % plan->P >= (size_t)list->used[g * plan->E + e]) return false;
    *row = (size_t)list->row[slot];
    *place = (size_t)list->slot_token[slot] * plan->E + e;
    return true;
}

size_t smoe_plan_places(const smoe_plan *plan) {
    return plan->sparse ? plan->tokens * plan->E : plan->G * plan->S;
}

void smoe_plan_seal(smoe_plan *plan) {
    smoe_plan_list *list = &plan->list;
    size_t row = 0;
    for (size_t e = 0; e < plan->E; e++) {
        plan->first_row[e] = row;
        for (size_t g = 0; g < plan->G; g++) {
            size_t slot = (g * plan->E + e) * plan->P, used = (size_t)list->used[g * plan->E + e];
            for (size_t p = 0; p < used; p++) list->row[slot + p] = (int32_t)row++;
        }
    }
    plan->first_row[plan->E] = plan->rows = list->placed = row;

    /* Counting sort by token. The count of token i is at i+2 and its start at i+1; filling moves
     * each start to its end, which is the start of the next token. */
    int32_t *first = list->first;
    memset(first, 0, (plan->tokens + 2) * sizeof *first);
    size_t buffers = plan->G * plan->E;
    for (size_t b = 0; b < buffers; b++)
        for (size_t p = 0; p < (size_t)list->used[b]; p++)
            first[list->slot_token[b * plan->P + p] + 2]++;
    for (size_t i = 0; i < plan->tokens; i++) {
        if (!first[i + 2]) plan->choices.dropped++;
        first[i + 2] += first[i + 1];
    }
    for (size_t b = 0; b < buffers; b++)
        for (size_t p = 0; p < (size_t)list->used[b]; p++) {
            size_t slot = b * plan->P + p;
            list->slot[first[list->slot_token[slot] + 1]++] = (int32_t)slot;
        }
}

void smoe_plan_round(smoe_plan *plan) {
    smoe_plan_dense *dense = &plan->dense;
    smoe_plan_list *list = &plan->list;
    if (!plan->sparse) {
        smoe_rows_round(dense->mixed_disp, dense->disp, plan->tokens * plan->S);
        smoe_rows_round(dense->mixed_comb, dense->comb, plan->tokens * plan->S);
        return;
    }
    for (size_t i = 0; i < list->placed; i++) {
        real *weight = &list->slot_weight[list->slot[i]];
        smoe_rows_round(weight, weight, 1);
    }
}

/* ---- the products of dense plans, one per group ---------------------------------------------- */

/* slots [S,d] = weights^T tokens */
static void to_slots(const smoe_plan *plan, const real *weights, smoe_outputs slots,
                     const real *tokens, size_t d) {
    size_t T = plan->T, S = plan->S;
    smoe_product p =
        smoe_product_to(slots, plan->G * d, smoe_transposed(smoe_matrix_of(weights, T, S)),
                        smoe_matrix_of(tokens, T, d));
    p.precision = plan->precision;
    smoe_gemm_batch(plan->G, p, T * S, T * d, d);
}

/* tokens [T,d] = residual + weights slots */
static void to_tokens(const smoe_plan *plan, const real *weights, real *tokens, smoe_values slots,
                      const real *residual, size_t d) {
    size_t T = plan->T, S = plan->S;
    smoe_product p = smoe_product_of(tokens, smoe_matrix_of(weights, T, S),
                                     smoe_matrix_rows((smoe_rows){slots, plan->G * d}, S, d));
    p.to.add = residual;
    p.precision = plan->precision;
    smoe_gemm_batch(plan->G, p, T * S, d, T * d);
}

/* dweights [T,S] = tokens slots^T */
static void to_weights(const smoe_plan *plan, real *dweights, const real *tokens, smoe_values slots,
                       size_t d) {
    size_t T = plan->T, S = plan->S;
    smoe_matrix rows = smoe_matrix_rows((smoe_rows){slots, plan->G * d}, S, d);
    smoe_product p = smoe_product_of(dweights, smoe_matrix_of(tokens, T, d), smoe_transposed(rows));
    p.precision = plan->precision;
    smoe_gemm_batch(plan->G, p, T * d, d, T * S);
}

/* ---- the rows of sparse plans, of n numbers ----------------------------------------------------
 * Rows in BF16 are widened or rounded in parts. */

enum { PART = 512 };

static size_t plan_part_of(size_t n, size_t i) {
    return n - i < PART ? n - i : PART;
}

/* y = a x */
static void scale_row(smoe_outputs y, real a, const real *x, size_t n) {
    real part[PART];
    for (size_t i = 0; i < n; i += PART) {
        real *to = smoe_outputs_room(y, i, part);
        smoe_kernels_get()->row->scale(to, a, x + i, plan_part_of(n, i));
        smoe_outputs_write(y, i, plan_part_of(n, i), to);
    }
}

/* y += a x */
static void plan_add_row(real *y, real a, smoe_values x, size_t n) {
    real part[PART];
    for (size_t i = 0; i < n; i += PART)
        smoe_kernels_get()->row->axpy(y + i, a, smoe_values_read(x, i, plan_part_of(n, i), part),
                                      plan_part_of(n, i));
}

static real dot_row(const real *y, smoe_values x, size_t n) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    real part[PART], sum = 0;
    if (x.at) return kern->dot(y, x.at, n);
    for (size_t i = 0; i < n; i += PART) {
        kern->widen(part, x.bf16 + i, plan_part_of(n, i));
        sum += kern->dot(y + i, part, plan_part_of(n, i));
    }
    return sum;
}

/* ---- dispatch and combine -------------------------------------------------------------------- */

void smoe_plan_dispatch(const smoe_plan *plan, smoe_outputs slots, const real *x, size_t d) {
    const smoe_plan_list *list = &plan->list;
    if (!plan->sparse) {
        to_slots(plan, plan->dense.mixed_disp, slots, x, d);
        return;
    }
    SMOE_SHARED(routing, list->placed * d)
    for (size_t i = 0; i < list->placed; i++) {
        size_t slot = (size_t)list->slot[i];
        scale_row(smoe_outputs_from(slots, (size_t)list->row[slot] * d), 1,
                  x + (size_t)list->slot_token[slot] * d, d);
    }
}

void smoe_plan_combine(const smoe_plan *plan, real *y, smoe_values out, const real *residual,
                       size_t d) {
    const smoe_plan_list *list = &plan->list;
    if (!plan->sparse) {
        to_tokens(plan, plan->dense.mixed_comb, y, out, residual, d);
        return;
    }
    SMOE_SHARED(routing, plan->tokens * d)
    for (size_t t = 0; t < plan->tokens; t++) {
        memcpy(y + t * d, residual + t * d, d * sizeof *y);
        for (int32_t i = list->first[t]; i < list->first[t + 1]; i++) {
            size_t slot = (size_t)list->slot[i];
            plan_add_row(y + t * d, list->slot_weight[slot],
                         smoe_values_from(out, (size_t)list->row[slot] * d), d);
        }
    }
}

void smoe_plan_combine_backward(smoe_plan *plan, smoe_outputs dout, const real *dy, smoe_values out,
                                size_t d) {
    smoe_plan_dense *dense = &plan->dense;
    smoe_plan_list *list = &plan->list;
    if (!plan->sparse) {
        to_slots(plan, dense->mixed_comb, dout, dy, d);
        if (!dense->comb_constant) to_weights(plan, dense->dcomb, dy, out, d);
        return;
    }
    SMOE_SHARED(routing, list->placed * d)
    for (size_t i = 0; i < list->placed; i++) {
        size_t slot = (size_t)list->slot[i], row = (size_t)list->row[slot];
        const real *g = dy + (size_t)list->slot_token[slot] * d;
        scale_row(smoe_outputs_from(dout, row * d), list->slot_weight[slot], g, d);
        if (!list->weight_constant)
            list->dweight[slot] = dot_row(g, smoe_values_from(out, row * d), d);
    }
}

void smoe_plan_dispatch_backward(smoe_plan *plan, real *dx, smoe_values dslots, const real *x,
                                 size_t d) {
    smoe_plan_dense *dense = &plan->dense;
    smoe_plan_list *list = &plan->list;
    if (!plan->sparse) {
        to_tokens(plan, dense->mixed_disp, dx, dslots, NULL, d);
        if (!dense->disp_constant) to_weights(plan, dense->ddisp, x, dslots, d);
        return;
    }
    SMOE_SHARED(routing, plan->tokens * d)
    for (size_t t = 0; t < plan->tokens; t++) {
        memset(dx + t * d, 0, d * sizeof *dx);
        for (int32_t i = list->first[t]; i < list->first[t + 1]; i++)
            plan_add_row(dx + t * d, 1,
                         smoe_values_from(dslots, (size_t)list->row[list->slot[i]] * d), d);
    }
}

/* ---- statistics ------------------------------------------------------------------------------ */

/* Statistics of weights that are added one by one: the largest, and exp of the entropy of the
 * weights divided by their sum; of absolute values, since a learnt priority may be negative. */
typedef struct spread {
    double sum, wlogw, most;
} spread;

static void spread_add(spread *s, double weight) {
    weight = fabs(weight);
    s->sum += weight;
    if (weight > 0) s->wlogw += weight * log(weight);
    if (weight > s->most) s->most = weight;
}

static double effective(const spread *s) {
    return s->sum > 0 ? exp(log(s->sum) - s->wlogw / s->sum) : 0;
}

/* The same for n weights, `stride` apart. */
static spread spread_of(const real *w, size_t n, size_t stride) {
    spread s = {0};
    for (size_t i = 0; i < n; i++) spread_add(&s, (double)w[i * stride]);
    return s;
}

static void measure_sparse(const smoe_plan *plan, smoe_plan_stats *stats) {
    const smoe_plan_list *list = &plan->list;
    double combine = 0, slots = 0;
    for (size_t t = 0; t < plan->tokens; t++) {
        spread token = {0};
        for (int32_t i = list->first[t]; i < list->first[t + 1]; i++)
            spread_add(&token, (double)list->slot_weight[list->slot[i]]);
        combine += token.most;
        slots += effective(&token);
    }
    stats->dispatch_max = stats->tokens_per_slot = list->placed ? 1 : 0;
    stats->combine_max = combine / (double)plan->tokens;
    stats->slots_per_token = slots / (double)plan->tokens;
    stats->dropped = (double)plan->choices.dropped / (double)plan->tokens;
}

void smoe_plan_measure(const smoe_plan *plan, smoe_plan_stats *stats) {
    const smoe_plan_dense *dense = &plan->dense;
    *stats = (smoe_plan_stats){.scale = smoe_plan_scale(plan)};
    if (plan->sparse) {
        measure_sparse(plan, stats);
        return;
    }
    for (size_t g = 0; g < plan->G; g++) {
        const real *disp = dense->disp + g * plan->T * plan->S;
        const real *comb = dense->comb + g * plan->T * plan->S;
        for (size_t s = 0; s < plan->S; s++) {
            const spread slot = spread_of(disp + s, plan->T, plan->S);
            stats->dispatch_max += slot.most;
            stats->tokens_per_slot += effective(&slot);
        }
        for (size_t t = 0; t < plan->T; t++) {
            const spread token = spread_of(comb + t * plan->S, plan->S, 1);
            stats->combine_max += token.most;
            stats->slots_per_token += effective(&token);
        }
    }
    double slots = (double)(plan->G * plan->S), tokens = (double)plan->tokens;
    stats->dispatch_max /= slots;
    stats->tokens_per_slot /= slots;
    stats->combine_max /= tokens;
    stats->slots_per_token /= tokens;
}
