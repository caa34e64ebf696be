/*
 * Initial values of training and which tensors it changes: initial values of Phi, scale, gates,
 * experts and of q, k and v measured; train.optimizer.groups from the spec to the last bit of a
 * frozen tensor; runs of older versions, which had no groups.
 */
#include "approx.h"
#include "gradcheck.h"
#include "models.h"
#include "train/optim.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- initial values -------------------------------------------------------------------------- */

#define WIDE                                                                  \
    "model.width=32 model.heads=4 model.moe.layers=[1] model.moe.experts=16 " \
    "model.moe.slots_per_expert=3 "

typedef struct started {
    smoe_spec spec;
    smoe_model *model;
    smoe_params *params;
} started;

static void start(started *s, const char *keys) {
    smoe_err err = {0};
    assert_true(models_spec(&s->spec, keys));
    if (smoe_model_create(&s->model, &s->spec, 5, &err)) fail_msg("%s", err.text);
    s->params = smoe_model_params(s->model);
    assert_int_equal(smoe_params_allocate(s->params, 1, &err), 0);
    smoe_params_init(s->params, s->spec.seed);
}

static void finish(started *s) {
    smoe_model_free(s->model);
    smoe_spec_free(&s->spec);
}

static const real *values(const started *s, const char *name, size_t *size) {
    const smoe_param *param = smoe_params_find(s->params, name);
    if (!param) fail_msg("no %s", name);
    *size = param->size;
    return s->params->w + param->offset;
}

/* The standard deviation of n normal numbers has a standard error of 1/sqrt(2n) of itself, their
 * mean one of std/sqrt(n): five of these are allowed. */
static void assert_std(const char *keys, const char *name, double std) {
    started s;
    start(&s, keys);
    size_t n;
    const real *w = values(&s, name, &n);
    double sum = 0, square = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)w[i];
        square += (double)w[i] * (double)w[i];
    }
    assert_close(sqrt(square / (double)n), std, 5 * std / sqrt(2 * (double)n));
    assert_close(sum / (double)n, 0, 5 * std / sqrt((double)n));
    finish(&s);
}

static void deviations(void **state) {
    static const char phi[] = "blocks.1.mlp.router.phi", gate[] = "blocks.1.mlp.router.weight";
    assert_std(WIDE, phi, 1 / sqrt(16 * 32));
    assert_std(WIDE "model.moe.slots_per_expert=1", phi, 1 / sqrt(16 * 32)); /* P does not matter */
    assert_std(WIDE "model.moe.phi_std=0.25", phi, 0.25);
    assert_std(WIDE "model.moe.router=tokens-choice", gate, 1 / sqrt(32));
    assert_std(WIDE "model.moe.router=experts-choice model.moe.gate_std=0.02", gate, 0.02);
    /* Glorot over [d,d] each; over [3d,d] it would be 1/sqrt(2d), over [2d,d] sqrt(2/3d). */
    assert_std(WIDE, "blocks.0.attn.qkv.weight", 1 / sqrt(32));
    assert_std(WIDE "model.head=map", "attn_pool.kv.weight", 1 / sqrt(32));
    assert_std(WIDE, "blocks.0.attn.proj.weight", 1 / sqrt(32));
}

static void assert_scale(const char *keys, double right) {
    started s;
    size_t n;
    start(&s, keys);
    assert_close(*values(&s, "blocks.1.mlp.router.scale", &n), right, 1e-7 * right);
    assert_int_equal(n, 1);
    finish(&s);
}

static void scales(void **state) {
    assert_scale(WIDE, 1);
    assert_scale(WIDE "model.moe.scale_init=2.5", 2.5);
    assert_scale(WIDE "model.moe.scale_init=sqrt_d", sqrt(32));
    assert_scale(WIDE "model.moe.scale_init=10 model.moe.scale_form=exp", log(10));
    assert_scale(WIDE "model.moe.scale_init=sqrt_d model.moe.scale_form=exp", log(32) / 2);
}

/* The same factor in both forms gives the same logits. */
static void forms_agree_forward(void **state) {
    static const char *const keys[] = {"model.moe.slots_per_expert=2 model.moe.scale_init=3",
                                       "model.moe.slots_per_expert=2 model.moe.scale_init=3 "
                                       "model.moe.scale_form=exp"};
    double logits[2][10];
    for (int i = 0; i < 2; i++) {
        models_rig r;
        assert_true(models_make(&r, keys[i], 2, false));
        const smoe_param *scale = smoe_params_find(r.params, "blocks.1.mlp.router.scale");
        r.params->w[scale->offset] = i ? (real)log(3) : 3; /* not scattered */
        r.pass.train = false;
        smoe_model_forward(r.model, r.image, &r.pass);
        for (size_t k = 0; k < 10; k++) logits[i][k] = (double)smoe_model_logits(r.model)[k];
        models_free(&r);
    }
    for (size_t k = 0; k < 10; k++) assert_close(logits[1][k], logits[0][k], 1e-5);
}

/* Shared experts are copies of the first one, which is the same as among independent ones. With
 * 16 experts of 41 * 32 numbers, experts begin at any place in a stream. */
static void shared_experts(void **state) {
    static const char *const names[] = {"blocks.1.mlp.experts.fc1.weight",
                                        "blocks.1.mlp.experts.fc2.weight"};
    started shared, apart;
    start(&shared, WIDE "model.mlp=41 model.moe.experts_init=shared");
    start(&apart, WIDE "model.mlp=41");
    for (int i = 0; i < 2; i++) {
        size_t n, m, one;
        const real *a = values(&shared, names[i], &n), *b = values(&apart, names[i], &m);
        one = n / 16;
        assert_int_equal(one, 41 * 32);
        for (size_t e = 0; e < 16; e++) {
            assert_memory_equal(a + e * one, b, one * sizeof *a);
            if (e) assert_true(memcmp(b + e * one, b, one * sizeof *b) != 0);
        }
    }
    finish(&shared);
    finish(&apart);
}

/* Pieces of an initial tensor equal those of the whole, also across several streams. */
static void shared_pieces(void **state) {
    enum { ONE = SMOE_PARAM_RUN + SMOE_PARAM_RUN / 2, ALL = 3 * ONE };
    smoe_param p = {.name = "x",
                    .ndim = 2,
                    .dim = {3, ONE},
                    .size = ALL,
                    .whole = ALL,
                    .std = 1,
                    .alike = true};
    real *whole = calloc(ALL, sizeof *whole), *pieces = calloc(ALL, sizeof *pieces);
    assert_true(whole && pieces);
    smoe_param_initial(whole, &p, 7, 0, ALL);
    for (size_t first = 0; first < ALL; first += SMOE_PARAM_RUN) {
        size_t left = ALL - first;
        smoe_param_initial(pieces + first, &p, 7, first,
                           left < SMOE_PARAM_RUN ? left : SMOE_PARAM_RUN);
    }
    assert_memory_equal(whole, pieces, ALL * sizeof *whole);
    for (size_t e = 1; e < 3; e++) assert_memory_equal(whole + e * ONE, whole, ONE * sizeof *whole);
    free(whole);
    free(pieces);
}

/* ---- groups ---------------------------------------------------------------------------------- */

#define GROUPS(list) "train.optimizer.groups=[" list "]"
#define SOFT "model.moe.slots_per_expert=2 "

static void first_group_counts(void **state) {
    started s;
    start(&s, SOFT GROUPS("{\"match\":\"*.phi\",\"lr\":2},"
                          "{\"match\":\"blocks.1.*\",\"decay\":0.5},"
                          "{\"match\":\"head.?ias\",\"frozen\":true}"));
    for (size_t i = 0; i < s.params->count; i++) {
        const smoe_param *p = &s.params->param[i];
        bool phi = strstr(p->name, ".phi"), block = !strncmp(p->name, "blocks.1.", 9);
        assert_true(p->rule.lr == (phi ? 2 : 1));
        assert_true(p->rule.decay == (block && !phi ? 0.5 : -1));
        assert_true(p->frozen == !strcmp(p->name, "head.bias"));
        if (phi) assert_int_equal(p->group, SMOE_PARAM_PLAIN);
    }
    finish(&s);
}

static void refused(const char *keys, const char *message) {
    smoe_err err = {0};
    smoe_spec spec;
    smoe_model *model;
    assert_true(models_spec(&spec, keys));
    assert_int_equal(smoe_model_create(&model, &spec, 5, &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_string_equal(err.text, message);
    smoe_spec_free(&spec);
}

/* One spec serves all rows of an ablation, but a pattern that matches in no row is refused. */
static void patterns_match_somewhere(void **state) {
    static const char *const routers[] = {
        "model.moe.router=uniform ", "model.moe.router=tokens-choice ", "model.moe.layers=none ",
        "model.moe.layers=all model.moe.normalize=false "};
    for (size_t i = 0; i < 4; i++) {
        char keys[400];
        started s;
        snprintf(keys, sizeof keys,
                 "%s" SOFT GROUPS("{\"match\":\"*.router.scale\",\"lr\":2},"
                                  "{\"match\":\"*.mlp.fc1.*\",\"lr\":2}"),
                 routers[i]);
        start(&s, keys);
        finish(&s);
    }
    refused(SOFT GROUPS("{\"match\":\"*.fi\"}"), "override: train.optimizer.groups: no tensor "
                                                 "matches \"*.fi\"; smoe-checkpoint(5) lists their "
                                                 "names");
    refused(SOFT GROUPS("{\"match\":\"cls_token\"}"), /* of another head */
            "override: train.optimizer.groups: no tensor matches \"cls_token\"; "
            "smoe-checkpoint(5) lists their names");
    refused(SOFT GROUPS("{\"match\":\"*\",\"frozen\":true}"),
            "train.optimizer.groups: all tensors are frozen, nothing is trained");
}

/* A step of a model with all kinds of tensors, as it is and with some frozen. */
typedef struct stepped {
    models_rig r;
    real *before; /* [params->size] weights */
    double norm;
} stepped;

static void take_step(stepped *s, const char *keys) {
    smoe_err err = {0};
    smoe_train_spec *train = &s->r.spec.train;
    real dlogits[4 * 5];
    assert_true(models_make(&s->r, keys, 4, true));
    smoe_params *params = s->r.params;
    assert_int_equal(smoe_optim_allocate(params, train, &err), 0);
    memset(params->g, 0, params->trained * sizeof(real));
    s->before = calloc(params->size, sizeof(real));
    memcpy(s->before, params->w, params->size * sizeof(real));
    gradcheck_normal(dlogits, 4 * 5, 5);
    smoe_model_forward(s->r.model, s->r.image, &s->r.pass);
    smoe_model_backward(s->r.model, dlogits, &s->r.pass);
    s->norm = smoe_optim_norm(params);
}

/* Trained tensors have the gradients and, without clipping, the steps that they have when all
 * are trained, to the bit; frozen tensors keep their bits, and have no gradients and no moments. */
static void frozen(const char *keys, const char *pattern) {
    stepped all, some;
    char more[600];
    snprintf(more, sizeof more,
             "%s train.optimizer.clip=0 train.optimizer.groups=[{\"match\":\"%s\","
             "\"frozen\":true}]",
             keys, pattern);
    take_step(&some, more);
    *strstr(more, " train.optimizer.groups") = '\0';
    take_step(&all, more);
    double square = 0;
    size_t trained = 0, count = all.r.params->count;
    for (size_t i = 0; i < count; i++) {
        const smoe_param *p = &some.r.params->param[i], *q = &all.r.params->param[i];
        assert_string_equal(p->name, q->name);
        assert_memory_equal(some.before + p->offset, all.before + q->offset,
                            p->size * sizeof(real));
        if (p->frozen) {
            assert_true(p->offset >= some.r.params->trained);
            continue;
        }
        trained += p->size;
        square += smoe_optim_square(all.r.params, i, i + 1);
        if (!q->outer && memcmp(some.r.params->g + p->offset, all.r.params->g + q->offset,
                                p->size * sizeof(real)))
            fail_msg("%s, %s frozen: %s has another gradient", keys, pattern, p->name);
    }
    assert_true(trained < all.r.params->total && trained == smoe_params_trained(some.r.params));
    assert_close(some.norm, sqrt(square), 1e-5 * some.norm); /* the same terms, grouped otherwise */
    smoe_optim_step(some.r.params, &some.r.spec.train, 0, some.norm);
    smoe_optim_step(all.r.params, &all.r.spec.train, 0, all.norm);
    for (size_t i = 0; i < count; i++) {
        const smoe_param *p = &some.r.params->param[i], *q = &all.r.params->param[i];
        const real *right = p->frozen ? all.before : all.r.params->w;
        if (memcmp(some.r.params->w + p->offset, right + q->offset, p->size * sizeof(real)))
            fail_msg("%s, %s frozen: %s is elsewhere", keys, pattern, p->name);
    }
    free(all.before);
    free(some.before);
    models_free(&all.r);
    models_free(&some.r);
}

static void frozen_tensors(void **state) {
    static const char *const keys[] = {
        SOFT "model.head=map model.qk_norm=true model.qk_norm_form=vmoe",
        SOFT "model.moe.normalize=false model.head=token model.qk_norm=true",
        "model.moe.router=tokens-choice model.patch_size=2",
        "model.moe.router=experts-choice model.patch_size=2",
        "model.moe.router=identity model.position=sincos2d",
    };
    static const char *const patterns[] = {
        "*.weight", "*.bias",   "*.router.*", "*.experts.*", "*.fc1.*", "*norm*",      "*.attn.*",
        "*embed*",  "blocks.*", "head.*",     "blocks.1*",   "[bpc]*",  "*.fc2.weight"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
            if (strstr(keys[k], "identity") && strstr(patterns[i], "router")) continue;
            frozen(keys[k], patterns[i]);
        }
}

/* ---- older runs ------------------------------------------------------------------------------ */

/* The spec written by a version without groups: Phi had the decay of kernels, and keeps it. */
static void older_specs(void **state) {
    smoe_spec spec;
    assert_true(models_spec(&spec, SOFT "train.optimizer.weight_decay=0.07"));
    smoe_spec_continue(&spec);
    assert_int_equal(spec.train.optimizer.groups.count, 1);
    smoe_model *model;
    smoe_err err;
    assert_int_equal(smoe_model_create(&model, &spec, 5, &err), 0);
    const smoe_params *params = smoe_model_params(model);
    for (size_t i = 0; i < params->count; i++)
        assert_true(params->param[i].rule.decay ==
                    (strstr(params->param[i].name, ".phi") ? 0.07 : -1));
    smoe_model_free(model);
    smoe_spec_free(&spec);
    assert_true(models_spec(&spec, SOFT "train.optimizer.weight_decay=0"));
    smoe_spec_continue(&spec);
    assert_int_equal(spec.train.optimizer.groups.count, 0);
    smoe_spec_free(&spec);
    assert_true(models_spec(&spec, SOFT "train.optimizer.groups=[]")); /* as users have it now */
    smoe_spec_continue(&spec);
    assert_int_equal(spec.train.optimizer.groups.count, 0);
    smoe_spec_free(&spec);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deviations),
        cmocka_unit_test(scales),
        cmocka_unit_test(forms_agree_forward),
        cmocka_unit_test(shared_experts),
        cmocka_unit_test(shared_pieces),
        cmocka_unit_test(first_group_counts),
        cmocka_unit_test(patterns_match_somewhere),
        cmocka_unit_test(frozen_tensors),
        cmocka_unit_test(older_specs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
