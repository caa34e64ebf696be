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

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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
    if (l->qk_norm) {
        snprintf(path, sizeof path, "blocks.%zu.attn.q_norm", block);
        smoe_qk_norm_init(&l->q_norm, build, path);
        snprintf(path, sizeof path, "blocks.%zu.attn.k_norm", block);
        smoe_qk_norm_init(&l->k_norm, build, path);
    }
    snprintf(path, sizeof path, "blocks.%zu.attn.proj", block);
    smoe_linear_init(&l->proj, build, l->d, l->d, 1, path);
}

/* A thread's scratch: scores, and the weights of a few rows. */
static size_t scores_size(const smoe_attention *l) {
    return (l->T + PREFETCH_STEP) * l->T;
}

static void reserve_narrow(smoe_attention *l, const smoe_space *space) {
    size_t R = space->B * l->T, pairs = l->T * l->T, threads = (size_t)space->threads;
    size_t tables = space->train ? space->B * l->H : threads, size = sizeof(smoe_bf16);
    l->rows_bf16 = smoe_arena_take(space->keep, R * 3 * l->d, size);
    l->heads_bf16 = smoe_arena_take(space->keep, R * l->d, size);
    l->weights_bf16 = smoe_arena_take(space->keep, tables * pairs, size);
    l->scores = smoe_arena_take(space->scratch, threads * scores_size(l), sizeof(real));
    if (!space->train) return;
    l->drows_bf16 = smoe_arena_take(space->scratch, R * 3 * l->d, size);
    l->dheads_bf16 = smoe_arena_take(space->scratch, R * l->d, size);
    l->dscores_bf16 = smoe_arena_take(space->scratch, threads * pairs, size);
}

void smoe_attention_reserve(smoe_attention *l, const smoe_space *space) {
    size_t R = space->B * l->T, pairs = l->T * l->T;
    smoe_arena *keep = space->keep, *scratch = space->scratch;
    l->threads = space->threads;
    l->train = space->train;
    if (l->build->model->dropout > 0) l->branch = smoe_arena_take(scratch, R * l->d, sizeof(real));
    smoe_linear_reserve(&l->qkv, space);
    smoe_linear_reserve(&l->proj, space);
    l->narrow = space->bf16 && !l->qk_norm && !l->build->seen && !l->build->padded;
    if (l->narrow) reserve_narrow(l, space);
    if (l->narrow && !space->wide) return;
    l->rows = smoe_arena_take(keep, R * 3 * l->d, sizeof(real));
    l->heads = smoe_arena_take(keep, R * l->d, sizeof(real));
    if (l->qk_norm) {
        l->normed = smoe_arena_take(keep, R * 2 * l->d, sizeof(real));
        smoe_qk_norm_reserve(&l->q_norm, R, space);
        smoe_qk_norm_reserve(&l->k_norm, R, space);
    }
    size_t tables = l->train ? space->B * l->H : (size_t)l->threads;
    l->weights = smoe_arena_take(keep, tables * pairs, sizeof(real));
    if (!l->train) return;
    l->drows = smoe_arena_take(scratch, R * 3 * l->d, sizeof(real));
    l->dheads = smoe_arena_take(scratch, R * l->d, sizeof(real));
    l->dweights = smoe_arena_take(scratch, (size_t)l->threads * pairs, sizeof(real));
    if (l->qk_norm) l->dnormed = smoe_arena_take(scratch, R * 2 * l->d, sizeof(real));
}

void smoe_attention_cost(const smoe_attention *l, smoe_costs *costs) {
    double pairs = (double)(l->T * l->T); /* scores, and weighted values */
    double macs = smoe_linear_macs(&l->qkv, l->T) + smoe_linear_macs(&l->proj, l->T);
    smoe_cost_layer *layer =
        smoe_costs_add(costs, SMOE_PART_attention, macs + 2 * pairs * (double)l->d, 3,
                       "%sblocks.%zu.attn", l->build->prefix, l->block);
    layer->elementwise = 4 * (double)l->H * pairs; /* softmaxes */
}

/* The places of one head of one image: queries and keys have row stride ld, values 3d. */
typedef struct head {
    const real *q, *k, *v;
    size_t ld, row, column; /* first row of the image; first column of the head */
} head;

static head head_of(const smoe_attention *l, size_t task) {
    head x = {.row = task / l->H * l->T, .column = task % l->H * (l->d / l->H)};
    const real *rows = l->rows + x.row * 3 * l->d + x.column;
    x.ld = l->qk_norm ? 2 * l->d : 3 * l->d;
    x.q = l->qk_norm ? l->normed + x.row * x.ld + x.column : rows;
    x.k = x.q + l->d;
    x.v = rows + 2 * l->d;
    return x;
}

/* Prefetches rows i .. i+n of a head, whose distance is too large for the hardware prefetcher. */
static void prefetch(const smoe_attention *l, size_t task, size_t i, size_t n) {
    head x = head_of(l, task);
    for (size_t row = i; row < i + n; row++)
        for (size_t j = 0; j < l->d / l->H; j += SMOE_LINE) {
            __builtin_prefetch(x.q + row * x.ld + j, 0, 2);
            __builtin_prefetch(x.k + row * x.ld + j, 0, 2);
            __builtin_prefetch(x.v + row * 3 * l->d + j, 0, 2);
        }
}

/* Weights of rows i .. i+n of a head from their scores, for an image with `tokens` tokens. Tokens
 * that are not seen have weight 0, and their scores have no gradient. */
static void softmax(const smoe_attention *l, real *weights, size_t i, size_t n, size_t length) {
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

/* `next` is the head that this thread is likely to get after this one. */
static void head_forward(const smoe_attention *l, size_t task, size_t next, real *weights,
                         const smoe_pass *pass) {
    head x = head_of(l, task);
    size_t T = l->T, d = l->d, dh = d / l->H, length = smoe_pass_length(pass, task / l->H, T);
    smoe_product scores = smoe_product_of(weights, T, T, T, dh, smoe_matrix_of(x.q, x.ld),
                                          smoe_transposed(x.k, x.ld));
    scores.alpha = (real)(1 / sqrt((double)dh));
    scores.precision = l->build->precision;
    smoe_gemm_serial(&scores);
    for (size_t i = 0, n; i < T; i += n) {
        n = T - i < PREFETCH_STEP ? T - i : PREFETCH_STEP;
        softmax(l, weights, i, n, length);
        prefetch(l, next, i, n);
    }
    smoe_product out = smoe_product_of(l->heads + x.row * d + x.column, d, T, dh, T,
                                       smoe_matrix_of(weights, T), smoe_matrix_of(x.v, 3 * d));
    out.precision = l->build->precision;
    smoe_gemm_serial(&out);
}

/* With scores Z = scale Q K^T and weights W = softmax(Z) of an output O = W V: dV = W^T dO,  dW =
 * dO V^T,  dZ = softmax backwards of dW,  dQ = scale dZ K,  dK = scale dZ^T Q. */
static void head_backward(const smoe_attention *l, size_t task, real *dz) {
    head x = head_of(l, task);
    size_t T = l->T, d = l->d, dh = d / l->H;
    const real *weights = l->weights + task * T * T, *dout = l->dheads + x.row * d + x.column;
    real *drows = l->drows + x.row * 3 * d + x.column, *dv = drows + 2 * d;
    real *dq = l->qk_norm ? l->dnormed + x.row * x.ld + x.column : drows, *dk = dq + d;
    real scale = (real)(1 / sqrt((double)dh));
    smoe_product p =
        smoe_product_of(dv, 3 * d, T, dh, T, smoe_transposed(weights, T), smoe_matrix_of(dout, d));
    p.precision = l->build->precision;
    smoe_gemm_serial(&p);
    p = smoe_product_of(dz, T, T, T, dh, smoe_matrix_of(dout, d), smoe_transposed(x.v, 3 * d));
    p.precision = l->build->precision;
    smoe_gemm_serial(&p);
    smoe_kernels_get()->row->softmax_backward(dz, weights, T, T, T);
    p = smoe_product_of(dq, x.ld, T, dh, T, smoe_matrix_of(dz, T), smoe_matrix_of(x.k, x.ld));
    p.alpha = scale;
    p.precision = l->build->precision;
    smoe_gemm_serial(&p);
    p = smoe_product_of(dk, x.ld, T, dh, T, smoe_transposed(dz, T), smoe_matrix_of(x.q, x.ld));
    p.alpha = scale;
    p.precision = l->build->precision;
    smoe_gemm_serial(&p);
}

/* ---- the same with BF16 buffers ------------------------------------------------- */

/* C [m,n] = A [m,k] B [k,n] in BF16; the layouts are those of smoe_matrix. */
typedef struct strided {
    const smoe_bf16 *at;
    size_t row, col;
} strided;

static smoe_product product_of(size_t m, size_t n, size_t k, strided a, strided b) {
    return (smoe_product){.m = m,
                          .n = n,
                          .k = k,
                          .a_bf16 = a.at,
                          .a_row = a.row,
                          .a_col = a.col,
                          .b_bf16 = b.at,
                          .b_row = b.row,
                          .b_col = b.col,
                          .alpha = 1,
                          .precision = SMOE_PRECISION_BF16};
}

/* First row of a task's image times width, and the column of its head. */
static size_t place_of(const smoe_attention *l, size_t task, size_t width) {
    return task / l->H * l->T * width + task % l->H * (l->d / l->H);
}

static void narrow_forward(const smoe_attention *l, size_t task, real *scores, smoe_bf16 *weights) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t T = l->T, d = l->d, dh = d / l->H, ld = 3 * d;
    const smoe_bf16 *q = l->rows_bf16 + place_of(l, task, ld), *k = q + d, *v = k + d;
    smoe_product z = product_of(T, T, dh, (strided){q, ld, 1}, (strided){k, 1, ld});
    z.c = scores;
    z.ldc = T;
    z.alpha = (real)(1 / sqrt((double)dh));
    smoe_gemm_serial(&z);
    for (size_t i = 0, n; i < T; i += n) {
        n = T - i < PREFETCH_STEP ? T - i : PREFETCH_STEP;
        kern->softmax(scores + i * T, n, T, T);
        kern->narrow(weights + i * T, scores + i * T, n * T);
    }
    smoe_product out = product_of(T, dh, T, (strided){weights, T, 1}, (strided){v, ld, 1});
    out.c_bf16 = l->heads_bf16 + place_of(l, task, d);
    out.ldc = d;
    smoe_gemm_serial(&out);
}

static void narrow_backward(const smoe_attention *l, size_t task, real *dz, smoe_bf16 *dz_bf16) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t T = l->T, d = l->d, dh = d / l->H, ld = 3 * d;
    const smoe_bf16 *q = l->rows_bf16 + place_of(l, task, ld), *k = q + d, *v = k + d;
    const smoe_bf16 *weights = l->weights_bf16 + task * T * T;
    const smoe_bf16 *dout = l->dheads_bf16 + place_of(l, task, d);
    smoe_bf16 *dq = l->drows_bf16 + place_of(l, task, ld);
    real *wide = dz + T * T;
    smoe_product dv = product_of(T, dh, T, (strided){weights, 1, T}, (strided){dout, d, 1});
    smoe_product dw = product_of(T, T, dh, (strided){dout, d, 1}, (strided){v, 1, ld});
    smoe_product to_q = product_of(T, dh, T, (strided){dz_bf16, T, 1}, (strided){k, ld, 1});
    smoe_product to_k = product_of(T, dh, T, (strided){dz_bf16, 1, T}, (strided){q, ld, 1});
    to_q.alpha = to_k.alpha = (real)(1 / sqrt((double)dh));
    to_q.c_bf16 = dq;
    to_k.c_bf16 = dq + d;
    dv.c_bf16 = dq + 2 * d;
    dv.ldc = to_q.ldc = to_k.ldc = ld;
    dw.c = dz;
    dw.ldc = T;
    smoe_gemm_serial(&dv);
    smoe_gemm_serial(&dw);
    for (size_t i = 0, n; i < T; i += n) {
        n = T - i < PREFETCH_STEP ? T - i : PREFETCH_STEP;
        kern->widen(wide, weights + i * T, n * T);
        kern->softmax_backward(dz + i * T, wide, n, T, T);
        kern->narrow(dz_bf16 + i * T, dz + i * T, n * T);
    }
    smoe_gemm_serial(&to_q);
    smoe_gemm_serial(&to_k);
}

bool smoe_attention_narrow(const smoe_attention *l) {
    return l->narrow && l->build->precision == SMOE_PRECISION_BF16;
}

static void heads_forward_narrow(smoe_attention *l, smoe_values x, size_t images) {
    size_t R = images * l->T, tasks = images * l->H, pairs = l->T * l->T;
    smoe_linear_forward_values(&l->qkv, (smoe_outputs){.bf16 = l->rows_bf16}, x, NULL, R);
    SMOE_SHARED_BY(attention, smoe_team_for(tasks * pairs, l->threads), schedule(dynamic, 1))
    for (size_t task = 0; task < tasks; task++)
        narrow_forward(l, task, l->scores + smoe_thread() * scores_size(l),
                       l->weights_bf16 + (l->train ? task : smoe_thread()) * pairs);
}

static void heads_backward_narrow(smoe_attention *l, real *dx, const real *dy, smoe_values x,
                                  size_t images) {
    size_t R = images * l->T, tasks = images * l->H, pairs = l->T * l->T;
    smoe_linear_backward_values(&l->proj, (smoe_outputs){.bf16 = l->dheads_bf16},
                                (smoe_values){.at = dy}, (smoe_values){.bf16 = l->heads_bf16}, R);
    SMOE_SHARED_BY(attention, smoe_team_for(tasks * pairs, l->threads), schedule(dynamic, 1))
    for (size_t task = 0; task < tasks; task++)
        narrow_backward(l, task, l->scores + smoe_thread() * scores_size(l),
                        l->dscores_bf16 + smoe_thread() * pairs);
    smoe_linear_backward_values(&l->qkv, (smoe_outputs){.at = dx},
                                (smoe_values){.bf16 = l->drows_bf16}, x, R);
}

/* ---------------------------------------------------------------------------------------------- */

static uint32_t site(const smoe_attention *l) {
    return smoe_build_site(l->build, l->block);
}

/* Computes l->heads, the outputs of the heads before the projection. */
static void heads_forward(smoe_attention *l, const real *x, const smoe_pass *pass) {
    size_t R = pass->images * l->T, tasks = pass->images * l->H, pairs = l->T * l->T;
    smoe_linear_forward(&l->qkv, l->rows, x, NULL, R);
    if (l->qk_norm) {
        smoe_qk_norm_forward(&l->q_norm, l->normed, 2 * l->d, l->rows, 3 * l->d, R);
        smoe_qk_norm_forward(&l->k_norm, l->normed + l->d, 2 * l->d, l->rows + l->d, 3 * l->d, R);
    }
    SMOE_SHARED_BY(attention, smoe_team_for(tasks * pairs, l->threads), schedule(dynamic, 1))
    for (size_t task = 0; task < tasks; task++) {
        size_t next = task + (size_t)l->threads < tasks ? task + (size_t)l->threads : task;
        head_forward(l, task, next, l->weights + (l->train ? task : smoe_thread()) * pairs, pass);
    }
}

void smoe_attention_forward(smoe_attention *l, real *y, smoe_values x, const real *x0,
                            const smoe_pass *pass) {
    size_t R = pass->images * l->T;
    double dropout = l->build->model->dropout;
    bool narrow = smoe_attention_narrow(l);
    assert(!narrow || !pass->lengths); /* lengths per image are for buffers in F32 */
    if (narrow)
        heads_forward_narrow(l, x, pass->images);
    else
        heads_forward(l, x.at, pass);
    smoe_values heads = {.at = narrow ? NULL : l->heads, .bf16 = narrow ? l->heads_bf16 : NULL};
    if (!pass->train || dropout <= 0) {
        smoe_linear_forward_values(&l->proj, (smoe_outputs){.at = y}, heads, x0, R);
        return;
    }
    smoe_linear_forward_values(&l->proj, (smoe_outputs){.at = l->branch}, heads, NULL, R);
    smoe_dropout(l->branch, R, l->d, dropout, site(l), pass);
    if (y != x0) memcpy(y, x0, R * l->d * sizeof *y);
    smoe_rows_add(y, l->branch, R * l->d);
}

void smoe_attention_backward(smoe_attention *l, real *dx, const real *dy, smoe_values x,
                             const smoe_pass *pass) {
    size_t R = pass->images * l->T, tasks = pass->images * l->H, pairs = l->T * l->T;
    double dropout = l->build->model->dropout;
    if (dropout > 0) {
        memcpy(l->branch, dy, R * l->d * sizeof *dy);
        smoe_dropout(l->branch, R, l->d, dropout, site(l), pass);
        dy = l->branch;
    }
    if (smoe_attention_narrow(l)) {
        heads_backward_narrow(l, dx, dy, x, pass->images);
        return;
    }
    smoe_linear_backward(&l->proj, l->dheads, dy, l->heads, R);
    SMOE_SHARED_BY(attention, smoe_team_for(tasks * pairs, l->threads), schedule(dynamic, 1))
    for (size_t task = 0; task < tasks; task++)
        head_backward(l, task, l->dweights + smoe_thread() * pairs);
    if (l->qk_norm) {
        smoe_qk_norm_backward(&l->q_norm, l->drows, l->dnormed, 2 * l->d, l->rows, 3 * l->d, R);
        smoe_qk_norm_backward(&l->k_norm, l->drows + l->d, l->dnormed + l->d, 2 * l->d,
                              l->rows + l->d, 3 * l->d, R);
    }
    smoe_linear_backward(&l->qkv, dx, l->drows, x.at, R);
}
