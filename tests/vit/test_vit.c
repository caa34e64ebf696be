/*
 * The forward pass of whole dense models, written again as loops in double, tensor by tensor of the
 * parameter table by its checkpoint name: patches, positions, class token, LayerNorms, attention
 * with and without qk_norm, MLPs, pooling by mean, token and attention, dropout at its places. (The
 * MoE layer is written out in test_plan.c.) Of the model's own code only its tensors and random
 * numbers are used.
 */
#include "base/rng.h"
#include "approx.h"
#include "models.h"
#include "vit/layer.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T_MOST = 17, D_MOST = 16, H_MOST = 64 };
typedef double rows[T_MOST][D_MOST];

/* Sizes of the present model, and where its tensors are. */
typedef struct net {
    const models_rig *r;
    size_t T, d, H, h;
    size_t image; /* index in the batch */
} net;

static const real *tensor(const net *n, const char *prefix, const char *name) {
    char full[96];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const smoe_param *p = smoe_params_find(n->r->params, full);
    if (!p) fail_msg("no tensor %s", full);
    return n->r->params->w + p->offset;
}

/* out [o] = W x + b */
static void linear(const net *n, const char *prefix, const char *name, double *out, const double *x,
                   size_t o, size_t i) {
    char full[96];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const real *w = tensor(n, full, ".weight"), *b = tensor(n, full, ".bias");
    for (size_t j = 0; j < o; j++) {
        out[j] = (double)b[j];
        for (size_t k = 0; k < i; k++) out[j] += (double)w[j * i + k] * x[k];
    }
}

static void norm(const net *n, const char *prefix, const char *name, double *out, const double *x,
                 size_t size) {
    char full[96];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const real *w = tensor(n, full, ".weight"), *b = tensor(n, full, ".bias");
    double mean = 0, var = 0;
    for (size_t i = 0; i < size; i++) mean += x[i] / (double)size;
    for (size_t i = 0; i < size; i++) var += (x[i] - mean) * (x[i] - mean) / (double)size;
    for (size_t i = 0; i < size; i++)
        out[i] = (x[i] - mean) / sqrt(var + 1e-6) * (double)w[i] + (double)b[i];
}

static double gelu(const net *n, double x) {
    if (n->r->spec.model.gelu == SMOE_GELU_ERF) return x * erfc(-x / sqrt(2)) / 2;
    if (n->r->spec.model.gelu == SMOE_GELU_QUICK) return x / (1 + exp(-1.702 * x));
    return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/* In training each value of x [size], a row of a matrix, is kept with probability 1 - rate and
 * divided by that. The row has its own stream of random numbers. */
static void drop(const net *n, size_t site, double *x, size_t row, size_t size) {
    double rate = n->r->spec.model.dropout;
    const smoe_pass *pass = &n->r->pass;
    if (!pass->train || rate <= 0) return;
    smoe_rng rng = smoe_rng_at(pass->seed, SMOE_RNG_DROPOUT, (uint32_t)site, pass->step, row);
    for (size_t i = 0; i < size; i++) x[i] *= smoe_rng_uniform(&rng) < rate ? 0 : 1 / (1 - rate);
}

/* y += mlp(x), the MLP of block b or, after the last block, of the pool; x is row `row` of the
 * batch */
static void add_mlp(const net *n, const char *prefix, size_t b, size_t row, double *y,
                    const double *x) {
    double hidden[H_MOST], out[D_MOST];
    linear(n, prefix, "mlp.fc1", hidden, x, n->h, n->d);
    for (size_t i = 0; i < n->h; i++) hidden[i] = gelu(n, hidden[i]);
    drop(n, 2 * b + 1, hidden, row, n->h);
    linear(n, prefix, "mlp.fc2", out, hidden, n->d, n->h);
    for (size_t i = 0; i < n->d; i++) y[i] += out[i];
}

/* out [dh] = sum over tokens of softmax(q . k / sqrt dh) v */
static void attend(const net *n, double *out, const double *q, double k[][D_MOST],
                   double v[][D_MOST], size_t column) {
    size_t dh = n->d / n->H;
    double weight[T_MOST], sum = 0;
    for (size_t t = 0; t < n->T; t++) {
        weight[t] = 0;
        for (size_t i = 0; i < dh; i++) weight[t] += q[column + i] * k[t][column + i];
        sum += weight[t] = exp(weight[t] / sqrt((double)dh));
    }
    for (size_t i = 0; i < dh; i++) {
        out[column + i] = 0;
        for (size_t t = 0; t < n->T; t++) out[column + i] += weight[t] / sum * v[t][column + i];
    }
}

static void block(const net *n, size_t b, rows x) {
    rows q, k, v;
    char prefix[32];
    size_t d = n->d, dh = d / n->H;
    snprintf(prefix, sizeof prefix, "blocks.%zu.", b);
    for (size_t t = 0; t < n->T; t++) {
        double normed[D_MOST], qkv[3 * D_MOST];
        norm(n, prefix, "norm1", normed, x[t], d);
        linear(n, prefix, "attn.qkv", qkv, normed, 3 * d, d);
        memcpy(q[t], qkv, d * sizeof *qkv);
        memcpy(k[t], qkv + d, d * sizeof *qkv);
        memcpy(v[t], qkv + 2 * d, d * sizeof *qkv);
        for (size_t c = 0; c < d && n->r->spec.model.qk_norm; c += dh) {
            norm(n, prefix, "attn.q_norm", q[t] + c, qkv + c, dh);
            norm(n, prefix, "attn.k_norm", k[t] + c, qkv + d + c, dh);
        }
    }
    for (size_t t = 0; t < n->T; t++) {
        double heads[D_MOST], out[D_MOST], normed[D_MOST];
        for (size_t c = 0; c < d; c += dh) attend(n, heads, q[t], k, v, c);
        linear(n, prefix, "attn.proj", out, heads, d, d);
        drop(n, 2 * b, out, n->image * n->T + t, d);
        for (size_t i = 0; i < d; i++) x[t][i] += out[i];
        norm(n, prefix, "norm2", normed, x[t], d);
        add_mlp(n, prefix, b, n->image * n->T + t, x[t], normed);
    }
}

/* Position of patch (row, column): its quarters are sin and cos of the column times w, and of
 * the row times w. */
static double position_of(const net *n, size_t row, size_t column, size_t i) {
    size_t quarter = n->d / 4;
    double w = pow(10000, -(double)(i % quarter) / (double)(quarter - 1));
    double angle = (double)(i / quarter < 2 ? column : row) * w;
    return i / quarter % 2 ? cos(angle) : sin(angle);
}

static void embed(const net *n, rows x, const real *pixels) {
    const smoe_spec *spec = &n->r->spec;
    size_t size = spec->data.image_size, patch = spec->model.patch_size, side = size / patch;
    size_t in = spec->data.channels * patch * patch, token = spec->model.head == SMOE_HEAD_TOKEN;
    bool learned = spec->model.position == SMOE_POSITION_LEARNED;
    const real *position = learned ? tensor(n, "", "pos_embed") : NULL;
    for (size_t p = 0; p < side * side; p++) {
        double cut[256];
        size_t row = p / side, column = p % side;
        for (size_t i = 0; i < in; i++) {
            size_t c = i / patch / patch, y = row * patch + i / patch % patch;
            cut[i] = (double)pixels[(c * size + y) * size + column * patch + i % patch];
        }
        linear(n, "patch_embed.", "proj", x[p + token], cut, n->d, in);
        for (size_t i = 0; i < n->d; i++)
            x[p + token][i] +=
                learned ? (double)position[(p + token) * n->d + i] : position_of(n, row, column, i);
    }
    for (size_t i = 0; token && i < n->d; i++)
        x[0][i] = (double)tensor(n, "", "cls_token")[i] + (learned ? (double)position[i] : 0);
}

static void pool(const net *n, double *features, rows x) {
    size_t d = n->d;
    rows normed, k, v;
    if (n->r->spec.model.head == SMOE_HEAD_GAP_NORM) {
        double mean[D_MOST] = {0};
        for (size_t t = 0; t < n->T; t++)
            for (size_t i = 0; i < d; i++) mean[i] += x[t][i] / (double)n->T;
        norm(n, "", "fc_norm", features, mean, d);
        return;
    }
    for (size_t t = 0; t < n->T; t++) norm(n, "", "norm", normed[t], x[t], d);
    for (size_t i = 0; i < d; i++) {
        features[i] = n->r->spec.model.head == SMOE_HEAD_TOKEN ? normed[0][i] : 0;
        for (size_t t = 0; t < n->T && n->r->spec.model.head == SMOE_HEAD_GAP; t++)
            features[i] += normed[t][i] / (double)n->T;
    }
    if (n->r->spec.model.head != SMOE_HEAD_MAP) return;
    double latent[D_MOST], q[D_MOST], heads[D_MOST], kv[2 * D_MOST], after[D_MOST];
    for (size_t i = 0; i < d; i++) latent[i] = (double)tensor(n, "", "attn_pool.latent")[i];
    linear(n, "attn_pool.", "q", q, latent, d, d);
    for (size_t t = 0; t < n->T; t++) {
        linear(n, "attn_pool.", "kv", kv, normed[t], 2 * d, d);
        memcpy(k[t], kv, d * sizeof *kv);
        memcpy(v[t], kv + d, d * sizeof *kv);
    }
    for (size_t c = 0; c < d; c += d / n->H) attend(n, heads, q, k, v, c);
    linear(n, "attn_pool.", "proj", features, heads, d, d);
    norm(n, "attn_pool.", "norm", after, features, d);
    add_mlp(n, "attn_pool.", n->r->spec.model.depth, n->image, features, after);
}

/* Several dozen roundings of numbers up to about ten. */
static const double CLOSE = 1e-4;

static void written_out(const char *keys, bool train) {
    models_rig r;
    char all[256];
    snprintf(all, sizeof all, "model.moe.layers=none %s", keys);
    if (!models_make(&r, all, 3, train)) fail_msg("%s was refused", all);
    net n = {
        &r, smoe_spec_tokens(&r.spec), r.spec.model.width, r.spec.model.heads, r.spec.model.mlp, 0};
    assert_true(n.T <= T_MOST && n.d <= D_MOST && n.h <= H_MOST);
    smoe_model_forward(r.model, r.image, &r.pass);
    for (size_t b = 0; b < 3; b++) {
        n.image = b;
        rows x;
        double features[D_MOST], logits[8];
        embed(&n, x, r.image + b * r.pixels);
        for (size_t i = 0; i < r.spec.model.depth; i++) block(&n, i, x);
        pool(&n, features, x);
        linear(&n, "", "head", logits, features, r.N, n.d);
        for (size_t i = 0; i < n.d; i++)
            assert_close(smoe_model_features(r.model)[b * n.d + i], features[i], CLOSE);
        for (size_t i = 0; i < r.N; i++)
            assert_close(smoe_model_logits(r.model)[b * r.N + i], logits[i], CLOSE);
    }
    models_free(&r);
}

static void dense_models(void **state) {
    static const char *const keys[] = {
        "",
        "model.patch_size=2 data.channels=3 model.width=16 model.heads=4 model.depth=3",
        "model.head=token model.patch_size=2 model.gelu=tanh",
        "model.head=map model.patch_size=2 model.gelu=quick",
        "model.head=map model.mlp=40",
        "model.head=gap-norm model.patch_size=2",
        "model.head=map model.gelu=tanh model.qk_norm=true model.patch_size=2",
        "model.position=sincos2d model.patch_size=2 model.width=12 model.heads=3",
        "model.position=sincos2d model.head=token model.qk_norm=true model.heads=1",
        "model.patch_size=8", /* one token */
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) written_out(keys[i], false);
}

/* After attention's projection and after GELU, only in training. */
static void dropout(void **state) {
    static const char *const keys[] = {"model.dropout=0.4",
                                       "model.dropout=0.2 model.head=map model.patch_size=2"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        written_out(keys[i], true);
        written_out(keys[i], false);
    }
}

/* Masks of one array are drawn anew all along it, and at each step: half of the places agree by
 * chance, 2048 of 4096 with a standard deviation of 32; six of these are allowed. */
static void masks_do_not_repeat(void **state) {
    enum { HALF = 4096 };
    static real a[2 * HALF], b[2 * HALF];
    static bool dropped[2 * HALF];
    for (size_t i = 0; i < 2 * HALF; i++) a[i] = b[i] = 1;
    smoe_dropout_forward(a, dropped, NULL, 2, HALF, 0.5, 3, &(smoe_pass){.step = 1, .images = 2});
    for (size_t i = 0; i < 2 * HALF; i++) assert_int_equal(dropped[i], a[i] == 0);
    smoe_dropout_forward(b, dropped, NULL, 2, HALF, 0.5, 3, &(smoe_pass){.step = 2, .images = 2});
    size_t along = 0, by_step = 0;
    for (size_t i = 0; i < HALF; i++) {
        assert_true(a[i] == 0 || a[i] == 2);
        along += a[i] == a[HALF + i];
        by_step += a[i] == b[i];
    }
    assert_in_range(along, 2048 - 192, 2048 + 192);
    assert_in_range(by_step, 2048 - 192, 2048 + 192);
}

/* An image's rows are x unchanged, or x plus twice what was added; half of them are unchanged,
 * by image, site and step. */
static void branches_are_dropped(void **state) {
    enum { B = 4096, N = 3 };
    static real x[B * N], y[3][B * N], scaled[B * N];
    const smoe_pass passes[] = {{.train = true, .step = 1, .images = B},
                                {.train = true, .step = 2, .images = B}};
    const smoe_drop_path site[] = {{.rate = 0.5, .site = 6, .n = N},
                                   {.rate = 0.5, .site = 7, .n = N}};
    size_t dropped = 0, agree[2] = {0};
    for (size_t i = 0; i < B * N; i++) {
        x[i] = (real)(i % 11);
        y[0][i] = y[1][i] = y[2][i] = x[i] + 1;
    }
    smoe_drop_path_forward(&site[0], y[0], x, &passes[0]);
    smoe_drop_path_forward(&site[0], y[1], x, &passes[1]);
    smoe_drop_path_forward(&site[1], y[2], x, &passes[0]);
    assert_ptr_equal(smoe_drop_path_backward(&site[0], scaled, x, &passes[0]), scaled);
    for (size_t b = 0; b < B; b++) {
        real added = y[0][b * N] - x[b * N];
        assert_true(added == 0 || added == 2);
        for (size_t i = b * N; i < (b + 1) * N; i++) {
            assert_true(y[0][i] == x[i] + added);
            assert_true(scaled[i] == added * x[i]);
        }
        dropped += added == 0;
        for (size_t k = 0; k < 2; k++) agree[k] += y[k + 1][b * N] == y[0][b * N];
    }
    /* 2048 with a standard deviation of 32; six of these are allowed */
    assert_in_range(dropped, 2048 - 192, 2048 + 192);
    for (size_t k = 0; k < 2; k++) assert_in_range(agree[k], 2048 - 192, 2048 + 192);
    const smoe_pass evaluation = {.step = 1, .images = B};
    smoe_drop_path_forward(&site[0], x, y[0], &evaluation);
    assert_true(x[1] == 1);
    assert_ptr_equal(smoe_drop_path_backward(&site[0], scaled, x, &evaluation), x);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(dense_models), cmocka_unit_test(dropout),
                                       cmocka_unit_test(masks_do_not_repeat),
                                       cmocka_unit_test(branches_are_dropped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
