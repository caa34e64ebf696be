/*
 * Each layer's backward against differences of its own forward: its parameters and its input. The
 * loss is a random projection of the output. Buffers, overwritten gradients and outputs start as
 * NaN, so that reads before writes are detected; gradients that are added to start at 7.
 */
#include "base/threads.h"
#include "gradcheck.h"
#include "models.h"
#include "spec/routers.h"
#include "vit/tower.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SMOE_F64

static const real BASE = 7;

typedef struct rig rig;
struct rig {
    smoe_spec spec;
    smoe_params params;
    smoe_build build;
    smoe_arena keep, scratch;
    smoe_pass pass;
    size_t R, in, out; /* rows; numbers per input and output */
    real *x, *dx, *x0, *y, *p;
    const real *result; /* y, unless the layer owns its output */
    bool dx_adds, no_dx;
    void (*reserve)(rig *r, const smoe_space *space);
    void (*forward)(rig *r);
    void (*backward)(rig *r);
    const size_t *first; /* rows of experts */
    smoe_norm norm;
    smoe_linear linear;
    smoe_embed embed;
    smoe_attention attention;
    smoe_mlp mlp;
    smoe_moe moe;
    smoe_head_layer head;
    smoe_tower tower;
};

static real *numbers(size_t n, uint64_t seed) {
    real *x = calloc(n + 1, sizeof *x);
    assert_non_null(x);
    if (seed) gradcheck_normal(x, n, seed);
    return x;
}

static void begin(rig *r, const char *keys) {
    *r = (rig){.pass = {.train = true, .seed = 5, .step = 2, .images = 2}};
    assert_true(models_spec(&r->spec, keys));
    r->build = (smoe_build){.spec = &r->spec,
                            .model = &r->spec.model,
                            .params = &r->params,
                            .T = smoe_spec_tokens(&r->spec)};
    r->R = r->pass.images * r->build.T;
    r->in = r->out = r->R * r->spec.model.width;
}

static void rubbish(real *x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = (real)NAN;
}

static double loss(void *user) {
    rig *r = user;
    double sum = 0;
    r->forward(r);
    for (size_t i = 0; i < r->out; i++) sum += r->p[i] * r->result[i];
    if (r->moe.router) sum += r->moe.router->plan.losses.weighted;
    return sum;
}

static uint64_t choices(void *user) {
    rig *r = user;
    return r->moe.router ? gradcheck_plan_mark(0, &r->moe.router->plan) : 0;
}

static void bind(rig *r) {
    smoe_err err;
    smoe_space space = {.keep = &r->keep,
                        .scratch = &r->scratch,
                        .B = r->pass.images,
                        .train = true,
                        .threads = smoe_threads(),
                        .wide = true};
    r->reserve(r, &space);
    if (smoe_arena_bind(&r->keep, &err) || smoe_arena_bind(&r->scratch, &err))
        fail_msg("%s", err.text);
    r->reserve(r, &space);
    memset(r->keep.base, 0xff, r->keep.size); /* NaN as real, huge as counts */
    memset(r->scratch.base, 0xff, r->scratch.size);
    r->x = numbers(r->in, 11);
    r->x0 = numbers(r->out, 12);
    r->p = numbers(r->out, 13);
    r->y = numbers(r->out, 0);
    r->dx = numbers(r->in, 0);
    rubbish(r->y, r->out);
    if (!r->result) r->result = r->y;
}

static void end(rig *r) {
    free(r->x);
    free(r->x0);
    free(r->p);
    free(r->y);
    free(r->dx);
    smoe_arena_free(&r->keep);
    smoe_arena_free(&r->scratch);
    smoe_params_free(&r->params);
    smoe_spec_free(&r->spec);
}

/* The layer is initialised; everything after that is here. */
static void check(rig *r, const char *what, const char *may_vanish) {
    gradcheck_scatter(&r->params, 9, 0.25, BASE);
    bind(r);
    gradcheck c = {
        .loss = loss, .choices = choices, .user = r, .most = 12, .may_vanish = may_vanish};
    gradcheck_begin(&c);
    for (size_t i = 0; i < r->in; i++) r->dx[i] = r->dx_adds ? BASE : (real)NAN;
    memset(r->scratch.base, 0xff, r->scratch.size); /* scratch does not survive a call */
    r->backward(r);
    for (size_t i = 0; r->dx_adds && i < r->in; i++) r->dx[i] -= BASE;
    if (!gradcheck_params(&c, &r->params, BASE)) fail_msg("%s: %s", what, c.fault);
    if (!r->no_dx && !gradcheck_array(&c, "x", r->x, r->dx, r->in))
        fail_msg("%s: %s", what, c.fault);
    if (10 * c.skipped > c.checked) fail_msg("%s: %zu steps flipped a choice", what, c.skipped);
    end(r);
}

/* ---- norm, linear ---------------------------------------------------------------------------- */

static void norm_reserve(rig *r, const smoe_space *space) {
    smoe_norm_reserve(&r->norm, r->R, space);
}
static void norm_forward(rig *r) {
    smoe_norm_forward(&r->norm, smoe_reals_out(r->y), r->x, r->R);
}
static void norm_backward(rig *r) {
    smoe_norm_backward(&r->norm, r->dx, r->p, r->x, r->R);
}

static void norm(void **state) {
    static const char *const widths[] = {"model.width=8", "model.width=18", "model.width=34"};
    for (size_t i = 0; i < 3; i++) {
        rig r;
        begin(&r, widths[i]);
        r.reserve = norm_reserve, r.forward = norm_forward, r.backward = norm_backward;
        r.dx_adds = true;
        smoe_norm_init(&r.norm, &r.build, r.spec.model.width, "norm");
        check(&r, widths[i], NULL);
    }
}

enum { LINEAR_OUT = 5 };

static void linear_reserve(rig *r, const smoe_space *space) {
    smoe_linear_reserve(&r->linear, space);
}
static void linear_forward(rig *r) {
    smoe_linear_forward(&r->linear, smoe_reals_out(r->y), smoe_reals(r->x), r->x0, r->R);
}
static void linear_forward_in_place(rig *r) {
    memcpy(r->y, r->x0, r->out * sizeof *r->y);
    smoe_linear_forward(&r->linear, smoe_reals_out(r->y), smoe_reals(r->x), r->y, r->R);
}
static void linear_backward(rig *r) {
    smoe_linear_backward(&r->linear, smoe_reals_out(r->dx), smoe_reals(r->p), smoe_reals(r->x),
                         r->R);
}

static void linear(void **state) {
    for (int in_place = 0; in_place < 2; in_place++) {
        rig r;
        begin(&r, "");
        r.reserve = linear_reserve, r.backward = linear_backward;
        r.forward = in_place ? linear_forward_in_place : linear_forward;
        r.out = r.R * LINEAR_OUT;
        smoe_linear_init(&r.linear, &r.build, r.spec.model.width, LINEAR_OUT, 1, "linear");
        check(&r, "linear", NULL);
    }
}

/* ---- embed ----------------------------------------------------------------------------------- */

static void embed_reserve(rig *r, const smoe_space *space) {
    smoe_embed_reserve(&r->embed, space);
}
static void embed_forward(rig *r) {
    smoe_embed_forward(&r->embed, r->y, r->x, r->pass.images);
}
static void embed_backward(rig *r) {
    smoe_embed_backward(&r->embed, r->p, r->pass.images);
}

static void embed(void **state) {
    static const char *const keys[] = {
        "model.head=gap data.channels=3", "model.head=token",
        "model.head=gap model.position=sincos2d",
        "model.head=token model.position=sincos2d model.patch_size=2"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        rig r;
        begin(&r, keys[i]);
        r.reserve = embed_reserve, r.forward = embed_forward, r.backward = embed_backward;
        r.no_dx = true;
        r.in = r.pass.images * r.spec.data.channels * 64;
        smoe_embed_init(&r.embed, &r.build);
        check(&r, keys[i], NULL);
        smoe_embed_free(&r.embed);
    }
}

/* ---- attention ------------------------------------------------------------------------------- */

static void attention_reserve(rig *r, const smoe_space *space) {
    smoe_attention_reserve(&r->attention, space);
}
static void attention_forward(rig *r) {
    smoe_attention_forward(&r->attention, r->y, smoe_reals(r->x), r->x0, &r->pass);
}
static void attention_backward(rig *r) {
    smoe_attention_backward(&r->attention, r->dx, r->p, smoe_reals(r->x), &r->pass);
}

static void attention(void **state) {
    static const char *const keys[] = {"model.heads=1",
                                       "model.heads=4",
                                       "model.qk_norm=true",
                                       "model.dropout=0.3",
                                       "model.qk_norm=true model.dropout=0.3 model.patch_size=2",
                                       "model.head=token"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        rig r;
        begin(&r, keys[i]);
        r.reserve = attention_reserve, r.forward = attention_forward;
        r.backward = attention_backward;
        smoe_attention_init(&r.attention, &r.build, 1);
        check(&r, keys[i], "k_norm.bias"); /* adds the same to all scores of a query */
    }
}

/* ---- mlp ------------------------------------------------------------------------------------- */

static void mlp_reserve(rig *r, const smoe_space *space) {
    smoe_mlp_reserve(&r->mlp, r->R, 1, space);
}
static void mlp_forward(rig *r) {
    smoe_mlp_forward(&r->mlp, smoe_reals_out(r->y), smoe_reals(r->x), r->x0,
                     &(smoe_mlp_rows){.first = r->first}, &r->pass);
}
static void mlp_backward(rig *r) {
    smoe_mlp_backward(&r->mlp, smoe_reals_out(r->dx), smoe_reals(r->p), smoe_reals(r->x),
                      &(smoe_mlp_rows){.first = r->first}, &r->pass);
}

static void mlps(size_t experts, const size_t *first) {
    static const char *const keys[] = {"model.gelu=erf", "model.gelu=tanh", "model.gelu=quick",
                                       "model.dropout=0.4 model.moe.expert_dropout=0.4"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        rig r;
        begin(&r, keys[i]);
        r.reserve = mlp_reserve, r.forward = mlp_forward, r.backward = mlp_backward;
        r.first = first;
        const smoe_moe_spec *moe = &r.spec.model.moe;
        smoe_mlp_form form = smoe_mlp_dense(&r.spec.model, "mlp", 3);
        form.experts = experts;
        if (experts) form.dropout = moe->expert.dropout;
        smoe_mlp_init(&r.mlp, &r.build, &form);
        check(&r, keys[i], NULL);
    }
}

static void dense_mlp(void **state) {
    mlps(0, (const size_t[]){0, 8});
}

/* Rows of very different numbers, an expert without rows; and more experts than parts of a sum. */
static void experts(void **state) {
    mlps(4, (const size_t[]){0, 1, 1, 6, 8});
    size_t first[21];
    for (size_t e = 0; e <= 20; e++) first[e] = e * 2 / 5;
    mlps(20, first);
}

/* ---- moe ------------------------------------------------------------------------------------- */

static void moe_reserve(rig *r, const smoe_space *space) {
    smoe_moe_reserve(&r->moe, space);
}
static void moe_forward(rig *r) {
    smoe_moe_forward(&r->moe, r->y, r->x, r->x0, &r->pass);
}
static void moe_backward(rig *r) {
    smoe_moe_experts_backward(&r->moe, r->p, &r->pass);
    smoe_moe_tokens_backward(&r->moe, r->dx, r->p, r->x, &r->pass);
}

/* Every router of routers.def; with 2 experts of 3 slots for T = 4, and with 5 experts. */
static void moe(void **state) {
    static const char *const sizes[] = {
        "model.moe.experts=2 model.moe.slots_per_expert=3",
        "model.moe.experts=5 model.moe.slots_per_expert=1",
        "model.moe.slots_per_expert=2 model.moe.expert_dropout=0.3 model.moe.aux_weight=3",
        "model.moe.slots_per_expert=2 model.moe.shared_experts=2 model.moe.expert_mlp=3 "
        "model.moe.expert_dropout=0.3",
        "model.moe.experts=5 model.moe.slots_per_expert=1 model.moe.universal_experts=2 "
        "model.moe.universal_mlp=9 model.moe.shared_experts=1 model.moe.expert_dropout=0.3",
    };
    for (size_t i = 0; i < SMOE_ROUTERS; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            rig r;
            char keys[320];
            snprintf(keys, sizeof keys, "model.moe.router=%s %s", smoe_routers[i].name, sizes[k]);
            begin(&r, keys);
            r.reserve = moe_reserve, r.forward = moe_forward, r.backward = moe_backward;
            smoe_moe_init(&r.moe, &r.build, 1);
            check(&r, keys, NULL);
            smoe_moe_free(&r.moe);
        }
}

/* Gradients of the layer's parameters and of x in one newly allocated array. */
static real *moe_gradients(const char *keys, size_t *n) {
    rig r;
    begin(&r, keys);
    r.reserve = moe_reserve, r.forward = moe_forward, r.backward = moe_backward;
    smoe_moe_init(&r.moe, &r.build, 1);
    gradcheck_scatter(&r.params, 9, 0.25, 0);
    bind(&r);
    r.forward(&r);
    r.backward(&r);
    *n = r.params.size + r.in;
    real *g = numbers(*n, 0);
    memcpy(g, r.params.g, r.params.size * sizeof *g);
    memcpy(g + r.params.size, r.dx, r.in * sizeof *g);
    smoe_moe_free(&r.moe);
    end(&r);
    return g;
}

/* With mix_precision bf16 differences show the steps of rounding, not slopes. Its gradients,
 * which treat rounding as having slope 1, equal those without it up to roundings of at most
 * 2^-8, several per product. */
static void moe_in_bf16(void **state) {
    for (size_t i = 0; i < SMOE_ROUTERS; i++) {
        char keys[200];
        size_t n;
        double dot = 0, a2 = 0, b2 = 0;
        snprintf(keys, sizeof keys,
                 "model.moe.router=%s model.moe.slots_per_expert=2 model.moe.mix_precision=bf16",
                 smoe_routers[i].name);
        real *b = moe_gradients(keys, &n);
        *strstr(keys, " model.moe.mix_precision") = 0;
        real *a = moe_gradients(keys, &n);
        for (size_t k = 0; k < n; k++) {
            dot += a[k] * b[k];
            a2 += a[k] * a[k];
            b2 += b[k] * b[k];
        }
        double cosine = dot / sqrt(a2 * b2), far = sqrt(a2 - 2 * dot + b2) / sqrt(a2);
        if (!(cosine > 0.9999 && far > 1e-5 && far < 3. / 256))
            fail_msg("%s: cosine %.7f, distance %.7f", smoe_routers[i].name, cosine, far);
        free(a);
        free(b);
    }
}

/* ---- head ------------------------------------------------------------------------------------ */

static void head_reserve(rig *r, const smoe_space *space) {
    smoe_head_reserve(&r->head, space);
    r->result = r->head.logits;
}
static void head_forward(rig *r) {
    smoe_head_forward(&r->head, r->x, &r->pass);
}
static void head_backward(rig *r) {
    smoe_head_backward(&r->head, r->p, r->x, &r->pass);
    memcpy(r->dx, r->head.dx, r->in * sizeof *r->dx);
}

static void head(void **state) {
    static const char *const keys[] = {"model.head=gap", "model.head=token", "model.head=map",
                                       "model.head=map model.dropout=0.3 model.heads=4"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        rig r;
        begin(&r, keys[i]);
        r.reserve = head_reserve, r.forward = head_forward, r.backward = head_backward;
        r.out = r.pass.images * 5;
        smoe_head_init(&r.head, &r.build, 5);
        check(&r, keys[i], NULL);
    }
}

/* ---- which tokens see which ------------------------------------------------------------------ */

static const size_t causal[] = {1, 2, 3, 4, 5, 6}, window[] = {2, 2, 4, 4};

static void masks(void **state) {
    static const char *const keys[] = {"", "model.qk_norm=true model.heads=4 model.dropout=0.3"};
    for (size_t i = 0; i < 4; i++) {
        rig r;
        begin(&r, keys[i / 2]);
        r.build.seen = i % 2 ? window : causal;
        r.reserve = attention_reserve, r.forward = attention_forward;
        r.backward = attention_backward;
        smoe_attention_init(&r.attention, &r.build, 1);
        check(&r, i % 2 ? "attention to a window" : "causal attention",
              "k_norm.bias"); /* adds the same to all scores of a row */
    }
}

/* Attention for the first T tokens of one image; the output goes to y. */
static void attend(real *y, size_t T, const size_t *seen) {
    rig r;
    begin(&r, "");
    r.pass = (smoe_pass){.images = 1};
    r.build.T = r.R = T;
    r.build.seen = seen;
    r.in = r.out = T * r.spec.model.width;
    r.reserve = attention_reserve;
    smoe_attention_init(&r.attention, &r.build, 1);
    gradcheck_scatter(&r.params, 9, 0.5, BASE);
    bind(&r);
    attention_forward(&r);
    memcpy(y, r.y, r.out * sizeof *y);
    end(&r);
}

/* A token that sees only tokens up to itself equals the last token of an image that ends there;
 * the first sees only itself. Without the mask all but the last have other results. */
static void causal_rows_are_those_of_prefixes(void **state) {
    enum { T = 4, D = 8 };
    real masked[T * D], all[T * D], prefix[T * D];
    attend(masked, T, causal);
    attend(all, T, NULL);
    for (size_t t = 0; t < T; t++) {
        double apart = 0, changed = 0;
        attend(prefix, t + 1, NULL);
        for (size_t i = t * D; i < (t + 1) * D; i++) {
            apart = fmax(apart, fabs(masked[i] - prefix[i]));
            changed = fmax(changed, fabs(masked[i] - all[i]));
        }
        if (!(apart < 1e-12)) fail_msg("token %zu: %g", t, apart);
        assert_true(t == T - 1 ? changed < 1e-12 : changed > 1e-3);
    }
}

/* ---- images of several lengths --------------------------------------------------------------- */

static const size_t lengths[] = {2, 3}; /* of 4 tokens; the rest is padding */

static void padding(void **state) {
    static const char *const keys[] = {"", "model.qk_norm=true model.heads=4 model.dropout=0.3"};
    for (size_t i = 0; i < 4; i++) {
        rig r;
        begin(&r, keys[i / 2]);
        r.pass.lengths = lengths;
        r.build.seen = i % 2 ? causal : NULL;
        r.reserve = attention_reserve, r.forward = attention_forward;
        r.backward = attention_backward;
        smoe_attention_init(&r.attention, &r.build, 1);
        check(&r, i % 2 ? "causal attention with padding" : "attention with padding",
              "k_norm.bias");
    }
}

static void padded_head(void **state) {
    static const char *const keys[] = {"model.head=gap", "model.head=map"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        rig r;
        begin(&r, keys[i]);
        r.pass.lengths = lengths;
        r.reserve = head_reserve, r.forward = head_forward, r.backward = head_backward;
        r.out = r.pass.images * 5;
        smoe_head_init(&r.head, &r.build, 5);
        check(&r, keys[i], NULL);
    }
}

/* The result of attention or a head for images of T tokens; tokens beyond their lengths are 1e3. */
static void padded(real *y, const char *keys, size_t images, size_t T, const size_t *length,
                   const size_t *seen, const real *x) {
    rig r;
    begin(&r, keys);
    bool head = *keys;
    r.pass = (smoe_pass){.images = images, .lengths = length};
    r.build.T = T;
    r.build.seen = seen;
    r.R = images * T;
    size_t d = r.spec.model.width;
    r.in = r.R * d;
    r.out = head ? images * 5 : r.in;
    r.reserve = head ? head_reserve : attention_reserve;
    if (head)
        smoe_head_init(&r.head, &r.build, 5);
    else
        smoe_attention_init(&r.attention, &r.build, 1);
    gradcheck_scatter(&r.params, 9, 0.5, BASE);
    bind(&r);
    memset(r.x0, 0, r.out * sizeof *r.x0);
    memcpy(r.x, x, r.in * sizeof *r.x);
    for (size_t row = 0; row < r.R; row++)
        for (size_t i = 0; length && row % T >= length[row / T] && i < d; i++)
            r.x[row * d + i] = 1e3;
    (head ? head_forward : attention_forward)(&r);
    memcpy(y, r.result, r.out * sizeof *y);
    end(&r);
}

/* An image followed by padding equals the image without: its tokens after attention, with a mask
 * too, and its logits. The first has 2 tokens, the second 3, the third all. */
static void padding_changes_nothing(void **state) {
    enum { B = 3, T = 4, D = 8 };
    static const size_t length[B] = {2, 3, 4};
    static const char *const keys[] = {"", "", "model.head=gap", "model.head=map"};
    real x[B * T * D], y[B * T * D], alone[T * D];
    gradcheck_normal(x, B * T * D, 17);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const size_t *seen = k == 1 ? causal : NULL;
        padded(y, keys[k], B, T, length, seen, x);
        for (size_t b = 0; b < B; b++) {
            size_t n = *keys[k] ? 5 : length[b] * D, stride = *keys[k] ? 5 : T * D;
            padded(alone, keys[k], 1, length[b], NULL, seen, x + b * T * D);
            for (size_t i = 0; i < n; i++)
                if (!(fabs(y[b * stride + i] - alone[i]) < 1e-11)) /* sums of 4 terms in double */
                    fail_msg("%s image %zu: %g for %g", keys[k], b, y[b * stride + i], alone[i]);
        }
    }
}

/* ---- another tower --------------------------------------------------------------------------- */

static void tower_reserve(rig *r, const smoe_space *space) {
    smoe_tower_reserve(&r->tower, space);
    r->result = r->tower.out;
}
static void tower_forward(rig *r) {
    memcpy(r->tower.in, r->x, r->in * sizeof *r->x);
    smoe_tower_forward(&r->tower, &r->pass);
}
static void tower_backward(rig *r) {
    smoe_tower_backward(&r->tower, r->dx, r->p, &r->pass);
}

/* With other sizes than the spec's model, causal, with experts in its middle block. */
static void tower(void **state) {
    rig r;
    begin(&r, "model.moe.router=soft model.moe.slots_per_expert=2");
    smoe_model_spec text = r.spec.model;
    text.width = 12;
    text.depth = 3;
    text.heads = 3;
    memset(text.moe.is_moe, 0, sizeof text.moe.is_moe);
    text.moe.is_moe[1] = true;
    r.build.model = &text;
    r.build.T = 6;
    r.build.seen = causal;
    r.R = r.pass.images * r.build.T;
    r.in = r.out = r.R * text.width;
    r.reserve = tower_reserve, r.forward = tower_forward, r.backward = tower_backward;
    smoe_tower_init(&r.tower, &r.build);
    assert_int_equal(r.tower.moe_layers, 1);
    check(&r, "tower", NULL);
    smoe_tower_free(&r.tower);
}

enum { TOWER_OUT = 256 };

/* Two towers in one table, in which all names differ. y: the output of the second tower, whose
 * sites for random streams begin at 0 or, with `below`, after those of the first. */
static void second_tower(real *y, const char *keys, bool below) {
    rig r;
    smoe_tower first = {0};
    begin(&r, keys);
    smoe_tower_init(&first, &r.build);
    size_t rows = r.params.count;
    smoe_tower_free(&first);
    r.build.site = below ? r.spec.model.depth + 1 : 0;
    strcpy(r.build.prefix, "text.");
    r.reserve = tower_reserve;
    smoe_tower_init(&r.tower, &r.build);
    assert_int_equal(r.params.count, 2 * rows);
    for (size_t i = 0; i < rows; i++) {
        char name[96];
        snprintf(name, sizeof name, "text.%s", r.params.param[i].name);
        assert_string_equal(r.params.param[rows + i].name, name);
    }
    gradcheck_scatter(&r.params, 9, 0.25, BASE);
    bind(&r);
    tower_forward(&r);
    assert_true(r.out <= TOWER_OUT);
    memcpy(y, r.result, r.out * sizeof *y);
    smoe_tower_free(&r.tower);
    end(&r);
}

/* Each kind of draw separately: with the sites of the first tower the second would draw the same
 * numbers; with sites after them it does not. Without draws the sites change nothing. */
static void two_towers(void **state) {
    static const char *const keys[] = {
        "model.moe.router=soft model.moe.slots_per_expert=2",
        "model.dropout=0.3 model.moe.layers=none",
        "model.drop_path=0.5 model.moe.layers=none",
        "model.moe.router=soft model.moe.slots_per_expert=2 model.moe.expert_dropout=0.3",
        "model.moe.router=soft model.moe.slots_per_expert=2 model.moe.soft_noise=0.5",
        "model.moe.router=experts-choice model.moe.noise=3",
        "model.moe.router=tokens-choice model.moe.noise=3",
        "model.moe.router=tokens-choice model.moe.k=1 model.moe.capacity=0.5 "
        "model.moe.priority=random",
    };
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        real same[TOWER_OUT] = {0}, other[TOWER_OUT] = {0};
        second_tower(same, keys[k], false);
        second_tower(other, keys[k], true);
        double apart = 0;
        for (size_t i = 0; i < TOWER_OUT; i++) apart = fmax(apart, fabs(same[i] - other[i]));
        if (k ? !(apart > 1e-3) : apart != 0) fail_msg("%s: %g apart", keys[k], apart);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(norm),
    cmocka_unit_test(linear),
    cmocka_unit_test(embed),
    cmocka_unit_test(masks),
    cmocka_unit_test(causal_rows_are_those_of_prefixes),
    cmocka_unit_test(padding),
    cmocka_unit_test(padded_head),
    cmocka_unit_test(padding_changes_nothing),
    cmocka_unit_test(tower),
    cmocka_unit_test(two_towers),
    cmocka_unit_test(attention),
    cmocka_unit_test(dense_mlp),
    cmocka_unit_test(experts),
    cmocka_unit_test(moe),
    cmocka_unit_test(moe_in_bf16),
    cmocka_unit_test(head),
};

#else /* the laws of the other tests run in single precision */

static const struct CMUnitTest tests[] = {cmocka_unit_test(gradcheck_skipped)};

#endif

int main(void) {
    smoe_threads_set(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
