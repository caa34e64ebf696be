/*
 * Multi-head self-attention, one task per image and head, in cache (V-MoE B.2):
 *   A = softmax(Q K^T / sqrt(d/H)), over the tokens that one sees; O = A V, y = x0 + O Wo^T + bo.
 * Backward, with dO = dy Wo: dV = A^T dO, dS = A * (dO V^T - rowsum(A * dO V^T)),
 *   dQ = dS K / sqrt(d/H),  dK = dS^T Q / sqrt(d/H).
 * qk_norm passes each head's queries and keys through a LayerNorm first.
 */
#include "base/team.h"
#include "math/gemm.h"
#include "math/kernels.h"
#include "math/rows.h"
#include "vit/layer.h"

/* Rows of weights between two prefetches: as many as softmax takes at once. */
enum { PREFETCH_STEP = 4 };

void smoe_attention_init(smoe_attention *l, const smoe_build *build, size_t block) {
    const smoe_model_spec *spec = build->model;
    char path[48];
    l->build = build;
    l->d = spec->width;
    l->H = spec->heads;
    l->T = build->T;
    l->block = block;
    l->qk_norm = spec->qk_norm;
    snprintf(path, sizeof path, "blocks.%zu.attn.qkv", block);
    smoe_linear_init(&l->qkv, build, l->d, 3 * l->d, 3, path);
    for (int k = 0; k < 2 && l->qk_norm; k++) {
        snprintf(path, sizeof path, "blocks.%zu.attn.%c_norm", block, "qk"[k]);
        smoe_norm_heads_init(&l->norm[k], build, path);
    }
    snprintf(path, sizeof path, "blocks.%zu.attn.proj", block);
    smoe_linear_init(&l->proj, build, l->d, l->d, 1, path);
}

/* A thread's scratch: scores or their gradients and, of weights in BF16, a few rows widened. */
static size_t scores_size(const smoe_attention *l) {
    return (l->T + PREFETCH_STEP) * l->T;
}

void smoe_attention_reserve(smoe_attention *l, const smoe_space *space) {
    size_t R = space->B * l->T, d = l->d, pairs = l->T * l->T, threads = (size_t)space->threads;
    smoe_arena *keep = space->keep, *scratch = space->scratch;
    l->threads = space->threads;
    l->train = space->train;
    l->narrow = space->bf16 && !l->qk_norm && !l->build->seen && !l->build->padded;
    smoe_linear_reserve(&l->qkv, space);
    smoe_linear_reserve(&l->proj, space);
    l->rows = smoe_space_take(space, keep, R * 3 * d, l->narrow);
    l->heads = smoe_space_take(space, keep, R * d, l->narrow);
    l->weights = NULL;
    if (l->train || l->narrow)
        l->weights =
            smoe_space_take(space, keep, (l->train ? space->B * l->H : threads) * pairs, l->narrow);
    if (l->qk_norm) l->normed = smoe_arena_take(keep, R * 2 * d, sizeof(real));
    for (int k = 0; k < 2 && l->qk_norm; k++) smoe_norm_reserve(&l->norm[k], R, space);
    l->scores = smoe_arena_take(scratch, threads * scores_size(l), sizeof(real));
    if (!l->train) return;
    if (l->build->model->dropout > 0) {
        l->branch = smoe_arena_take(scratch, R * d, sizeof *l->branch);
        l->dropped = smoe_arena_take(keep, R * d, sizeof *l->dropped);
    }
    l->drows = smoe_space_take(space, scratch, R * 3 * d, l->narrow);
    l->dheads = smoe_space_take(space, scratch, R * d, l->narrow);
    if (l->narrow) l->dscores = smoe_arena_take(scratch, threads * pairs, sizeof *l->dscores);
    if (l->qk_norm) l->dnormed = smoe_arena_take(scratch, R * 2 * d, sizeof(real));
}

void smoe_attention_cost(const smoe_attention *l, smoe_costs *costs) {
    double pairs = (double)(l->T * l->T); /* scores, and weighted values */
    double macs = smoe_linear_macs(&l->qkv, l->T) + smoe_linear_macs(&l->proj, l->T);
    smoe_cost_layer *layer =
        smoe_costs_add(costs, SMOE_PART_attention, macs + 2 * pairs * (double)l->d, 3,
                       "%sblocks.%zu.attn", l->build->prefix, l->block);
    layer->flops_weights = 2 * macs;
    layer->elementwise = 4 * (double)l->H * pairs; /* softmaxes */
}

bool smoe_attention_narrow(const smoe_attention *l) {
    return l->narrow && l->build->precision == SMOE_PRECISION_BF16;
}

/* A buffer, in the type that this pass keeps, from element `at` on. */
static smoe_outputs buffer_at(const smoe_attention *l, void *buffer, size_t at) {
    return smoe_outputs_from(smoe_outputs_of(buffer, smoe_attention_narrow(l)), at);
}

/* ---- one head of one image ------------------------------------------------------------------- */

/* The first element of a task's head in rows of that width. */
static size_t head_place(const smoe_attention *l, size_t task, size_t width) {
    return task / l->H * l->T * width + task % l->H * (l->d / l->H);
}

/* Its queries, keys and values [T,d/H]. */
typedef struct head {
    smoe_matrix q, k, v;
} head;

/* T rows of the numbers of one head. */
static smoe_matrix head_rows(const smoe_attention *l, smoe_values of, size_t ld) {
    return smoe_matrix_rows((smoe_rows){of, ld}, l->T, l->d / l->H);
}

static head head_of(const smoe_attention *l, size_t task) {
    size_t d = l->d, ld = l->qk_norm ? 2 * d : 3 * d;
    smoe_values rows = smoe_written(buffer_at(l, l->rows, head_place(l, task, 3 * d))), q = rows;
    if (l->qk_norm) q = (smoe_values){.at = l->normed + head_place(l, task, ld)};
    return (head){head_rows(l, q, ld), head_rows(l, smoe_values_from(q, d), ld),
                  head_rows(l, smoe_values_from(rows, 2 * d), 3 * d)};
}

/* Prefetches rows i .. i+n of a head, whose distance is too large for the hardware prefetcher; not
 * in BF16. */
static void head_prefetch(const smoe_attention *l, const head *x, size_t i, size_t n) {
    const smoe_matrix *all[] = {&x->q, &x->k, &x->v};
    for (size_t row = i; row < i + n && x->v.of.at; row++)
        for (size_t j = 0; j < l->d / l->H; j += SMOE_LINE)
            for (int k = 0; k < 3; k++)
                __builtin_prefetch(all[k]->of.at + row * all[k]->row + j, 0, 2);
}

/* c = scale A B */
static void head_product(const smoe_attention *l, smoe_outputs c, size_t ldc, smoe_matrix a,
                         smoe_matrix b, double scale) {
    smoe_product p = smoe_product_to(c, ldc, a, b);
    p.to.alpha = (real)scale;
    p.precision = l->build->precision;
    smoe_gemm_serial(p);
}

static double head_scale(const smoe_attention *l) {
    return 1 / sqrt((double)(l->d / l->H));
}

/* Weights of rows i .. i+n of a head from their scores, for an image with `length` tokens. Tokens
 * that are not seen have weight 0, and their scores have no gradient. */
static void head_softmax(const smoe_attention *l, real *weights, size_t i, size_t n,
                         size_t length) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    const size_t *seen = l->build->seen;
    size_t T = l->T;
    if (!seen && length == T) {
        kern->softmax(weights + i * T, n, T, T);
        return;
    }
    for (size_t t = i; t < i + n; t++) {
        size_t m = seen && seen[t] < length ? seen[t] : length;
        kern->softmax(weights + t * T, 1, m, T);
        memset(weights + t * T + m, 0, (T - m) * sizeof *weights);
    }
}

/* Whether all of a head is computed by one kernel: few tokens, all seen, in single precision. */
static bool head_is_small(const smoe_attention *l, size_t length) {
    size_t lanes = smoe_kernels_get()->attention->lanes, width = l->d / l->H;
    return l->T <= SMOE_HEAD_TOKENS && width <= SMOE_HEAD_WIDTH && width % lanes == 0 &&
           l->build->precision == SMOE_PRECISION_F32 && !l->build->seen && length == l->T;
}

/* Such a head; in inference its weights are scratch. */
static smoe_attention_head head_small(const smoe_attention *l, size_t task, real *weights) {
    head x = head_of(l, task);
    smoe_attention_head small = {.T = l->T,
                                 .d = l->d / l->H,
                                 .q = x.q.of.at,
                                 .k = x.k.of.at,
                                 .v = x.v.of.at,
                                 .ldq = x.q.row,
                                 .ldv = x.v.row,
                                 .ldo = l->d,
                                 .scale = (real)head_scale(l),
                                 .weights = weights};
    size_t at = head_place(l, task, l->d);
    small.out = (real *)l->heads + at;
    if (!l->train) return small;
    real *drows = (real *)l->drows + head_place(l, task, x.v.row);
    small.dout = (const real *)l->dheads + at;
    small.dq = l->qk_norm ? l->dnormed + head_place(l, task, x.q.row) : drows;
    small.dk = small.dq + l->d;
    small.dv = drows + 2 * l->d;
    return small;
}

/* `next` is the head that this thread is likely to get after this one. `room` is for scores that do
 * not become the weights where they are. */
static void attention_head_forward(const smoe_attention *l, size_t task, size_t next, real *room,
                                   smoe_outputs weights, const smoe_pass *pass) {
    size_t T = l->T, length = smoe_pass_length(pass, task / l->H, T);
    real *scores = smoe_outputs_room(weights, 0, room);
    if (head_is_small(l, length)) {
        smoe_attention_head small = head_small(l, task, scores);
        if (l->train) scores += (next - task) * T * T;
        smoe_attention_head after = head_small(l, next, scores);
        smoe_kernels_get()->attention->forward(&small, &after);
        return;
    }
    head x = head_of(l, task), after = head_of(l, next);
    head_product(l, smoe_reals_out(scores), T, x.q, smoe_transposed(x.k), head_scale(l));
    for (size_t i = 0, n; i < T; i += n) {
        n = T - i < PREFETCH_STEP ? T - i : PREFETCH_STEP;
        head_softmax(l, scores, i, n, length);
        smoe_outputs_write(weights, i * T, n * T, scores + i * T);
        head_prefetch(l, &after, i, n);
    }
    head_product(l, buffer_at(l, l->heads, head_place(l, task, l->d)), l->d,
                 smoe_matrix_rows((smoe_rows){smoe_written(weights), T}, T, T), x.v, 1);
}

/* With scores Z = scale Q K^T and weights W = softmax(Z) of an output O = W V: dV = W^T dO,  dW =
 * dO V^T,  dZ = softmax backwards of dW,  dQ = scale dZ K,  dK = scale dZ^T Q. dZ is computed in
 * room, which is also that of some rows of weights. */
static void attention_head_backward(const smoe_attention *l, size_t task, size_t next, real *room,
                                    smoe_outputs dz) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t T = l->T, d = l->d;
    if (head_is_small(l, T)) {
        real *weights = l->weights;
        smoe_attention_head small = head_small(l, task, weights + task * T * T),
                            after = head_small(l, next, weights + next * T * T);
        smoe_kernels_get()->attention->backward(&small, &after, room);
        return;
    }
    head x = head_of(l, task);
    smoe_values weights = smoe_written(buffer_at(l, l->weights, task * T * T));
    smoe_matrix w = smoe_matrix_rows((smoe_rows){weights, T}, T, T);
    smoe_matrix dout =
        head_rows(l, smoe_written(buffer_at(l, l->dheads, head_place(l, task, d))), d);
    smoe_outputs drows = buffer_at(l, l->drows, head_place(l, task, 3 * d)), dq = drows;
    if (l->qk_norm) dq.at = l->dnormed + head_place(l, task, x.q.row);
    head_product(l, smoe_outputs_from(drows, 2 * d), 3 * d, smoe_transposed(w), dout, 1);
    head_product(l, smoe_reals_out(room), T, dout, smoe_transposed(x.v), 1);
    for (size_t i = 0, n; i < T; i += n) {
        n = T - i < PREFETCH_STEP ? T - i : PREFETCH_STEP;
        kern->softmax_backward(room + i * T, smoe_values_read(weights, i * T, n * T, room + T * T),
                               n, T, T);
        smoe_outputs_write(dz, i * T, n * T, room + i * T);
    }
    w.of = smoe_written(dz);
    head_product(l, dq, x.q.row, w, x.k, head_scale(l));
    head_product(l, smoe_outputs_from(dq, d), x.k.row, smoe_transposed(w), x.q, head_scale(l));
}

/* ---- the layer ------------------------------------------------------------------------------- */

static uint32_t attention_site(const smoe_attention *l) {
    return smoe_build_site(l->build, l->block);
}

/* The head that a thread is likely to get after this one. */
static size_t next_task(const smoe_attention *l, size_t task, size_t tasks) {
    return task + (size_t)l->threads < tasks ? task + (size_t)l->threads : task;
}

/* Computes l->heads, the outputs of the heads before the projection. */
static void heads_forward(smoe_attention *l, smoe_values x, const smoe_pass *pass) {
    size_t R = pass->images * l->T, tasks = pass->images * l->H, pairs = l->T * l->T, d = l->d;
    smoe_outputs rows = buffer_at(l, l->rows, 0);
    smoe_linear_forward(&l->qkv, rows, x, NULL, R);
    for (size_t k = 0; k < 2 && l->qk_norm; k++)
        smoe_norm_heads_forward(&l->norm[k], smoe_reals_out(l->normed + k * d), 2 * d,
                                rows.at + k * d, 3 * d, R);
    SMOE_SHARED_BY(attention, smoe_team_for(tasks * pairs, l->threads), schedule(dynamic, 1))
    for (size_t task = 0; task < tasks; task++) {
        real *scores = l->scores + smoe_thread() * scores_size(l);
        smoe_outputs weights = {.at = scores};
        if (l->weights)
            weights = buffer_at(l, l->weights, (l->train ? task : smoe_thread()) * pairs);
        attention_head_forward(l, task, next_task(l, task, tasks), scores, weights, pass);
    }
}

void smoe_attention_forward(smoe_attention *l, real *y, smoe_values x, const real *x0,
                            const smoe_pass *pass) {
    size_t R = pass->images * l->T;
    double dropout = l->build->model->dropout;
    heads_forward(l, x, pass);
    smoe_values heads = smoe_written(buffer_at(l, l->heads, 0));
    if (!pass->train || dropout <= 0) {
        smoe_linear_forward(&l->proj, smoe_reals_out(y), heads, x0, R);
        return;
    }
    smoe_linear_forward(&l->proj, smoe_reals_out(l->branch), heads, NULL, R);
    smoe_dropout_forward(l->branch, l->dropped, NULL, R, l->d, dropout, attention_site(l), pass);
    if (y != x0) memcpy(y, x0, R * l->d * sizeof *y);
    smoe_rows_add(y, l->branch, R * l->d);
}

void smoe_attention_backward(smoe_attention *l, real *dx, const real *dy, smoe_values x,
                             const smoe_pass *pass) {
    size_t R = pass->images * l->T, tasks = pass->images * l->H, pairs = l->T * l->T, d = l->d;
    double dropout = l->build->model->dropout;
    smoe_outputs rows = buffer_at(l, l->rows, 0), drows = buffer_at(l, l->drows, 0);
    if (dropout > 0) {
        memcpy(l->branch, dy, R * d * sizeof *dy);
        smoe_dropout_backward(l->branch, l->dropped, R, d, dropout);
        dy = l->branch;
    }
    smoe_linear_backward(&l->proj, buffer_at(l, l->dheads, 0), smoe_reals(dy),
                         smoe_written(buffer_at(l, l->heads, 0)), R);
    SMOE_SHARED_BY(attention, smoe_team_for(tasks * pairs, l->threads), schedule(dynamic, 1))
    for (size_t task = 0; task < tasks; task++) {
        real *room = l->scores + smoe_thread() * scores_size(l);
        smoe_outputs dz = smoe_reals_out(room);
        if (smoe_attention_narrow(l))
            dz = (smoe_outputs){.bf16 = l->dscores + smoe_thread() * pairs};
        attention_head_backward(l, task, next_task(l, task, tasks), room, dz);
    }
    for (size_t k = 0; k < 2 && l->qk_norm; k++)
        smoe_norm_heads_backward(&l->norm[k], drows.at + k * d, l->dnormed + k * d, 2 * d,
                                 rows.at + k * d, 3 * d, R);
    smoe_linear_backward(&l->qkv, smoe_reals_out(dx), smoe_written(drows), x, R);
}
