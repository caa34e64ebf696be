/*
 * Gradients of whole small models against differences: every router of routers.def, found by
 * walking the table, in every configuration that it accepts; and specs drawn at random. The loss is
 * a random projection of the logits plus the weighted auxiliary losses; every parameter of the
 * table is checked. Steps that change a discrete choice are left out and must be rare.
 */
#include "base/threads.h"
#include "gradcheck.h"
#include "models.h"
#include "spec/routers.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SMOE_F64

#include "base/rng.h"

typedef struct subject {
    models_rig rig;
    real *p; /* [B,N] the projection */
} subject;

static double loss(void *user) {
    subject *s = user;
    models_rig *r = &s->rig;
    smoe_model_forward(r->model, r->image, &r->pass);
    double sum = smoe_model_losses(r->model).weighted;
    const real *logits = smoe_model_logits(r->model);
    for (size_t i = 0; i < r->B * r->N; i++) sum += s->p[i] * logits[i];
    return sum;
}

static uint64_t choices(void *user) {
    return gradcheck_model_mark(((subject *)user)->rig.model);
}

/* Two backward passes from dirty buffers add up: one pass adds half of the sum. */
static void backward(subject *s) {
    models_rig *r = &s->rig;
    smoe_pass other = r->pass;
    real *image = r->image;
    other.step++;
    r->image = calloc(r->B * r->pixels, sizeof *image);
    smoe_model_forward(r->model, r->image, &other);
    smoe_model_backward(r->model, s->p, &other);
    free(r->image);
    r->image = image;
    memset(r->params->g, 0, r->params->trained * sizeof(real));
    for (int i = 0; i < 2; i++) {
        smoe_model_forward(r->model, r->image, &r->pass);
        smoe_model_backward(r->model, s->p, &r->pass);
    }
    for (size_t i = 0; i < r->params->trained; i++) r->params->g[i] /= 2;
}

/* False if the spec is refused; a wrong gradient fails the test. */
static bool check_as(gradcheck c, const char *keys, size_t B) {
    subject s = {.p = NULL};
    if (!models_make(&s.rig, keys, B, true)) return false;
    s.p = calloc(B * s.rig.N, sizeof *s.p);
    assert_non_null(s.p);
    gradcheck_normal(s.p, B * s.rig.N, 23);
    backward(&s);
    c.loss = loss;
    c.choices = choices;
    c.user = &s;
    gradcheck_begin(&c);
    if (!gradcheck_params(&c, s.rig.params, 0)) fail_msg("%s: %s", keys, c.fault);
    if (20 * c.skipped > c.checked)
        fail_msg("%s: %zu of %zu steps flipped a choice", keys, c.skipped, c.checked + c.skipped);
    free(s.p);
    models_free(&s.rig);
    return true;
}

static bool check(const char *keys, size_t B, const char *may_vanish) {
    return check_as((gradcheck){.most = 6, .may_vanish = may_vanish}, keys, B);
}

/*
 * T is 4 (16 with patches of 2). Columns: keys in addition to the router's; images; tensors that
 * may have no gradient there. With one token every D is 1, so a router that learns only D has no
 * gradient, nor have queries and keys.
 */
static const struct configuration {
    const char *keys;
    size_t B;
    const char *may_vanish;
} configurations[] = {
    {"model.moe.slots_per_expert=2", 2, NULL},                                  /* S > T, P > 1 */
    {"model.moe.slots_per_expert=1 model.patch_size=2", 1, NULL},               /* S < T */
    {"model.moe.total_slots=6 model.moe.normalize=false", 2, NULL},             /* E < S */
    {"model.moe.slots_per_expert=2 model.moe.l2_eps=vmoe", 2, NULL},            /**/
    {"model.patch_size=8 model.moe.slots_per_expert=1", 3, ".router."},         /* T = 1 */
    {"model.patch_size=2 model.moe.slots_per_expert=6", 2, NULL},               /* S > T = 16 */
    {"model.moe.experts=1 model.moe.slots_per_expert=4 seed=4", 2, ".router."}, /* E = 1 */
    {"model.moe.layers=every-1 model.moe.slots_per_expert=2", 2, NULL},         /* two layers */
    {"model.moe.slots_per_expert=2 model.moe.expert_dropout=0.3", 2, NULL},     /**/
    {"model.moe.slots_per_expert=2 model.head=token", 2, NULL},                 /* T = 5 */
    {"model.moe.slots_per_expert=2 model.moe.scale_form=exp model.moe.scale_init=3", 2, NULL},
    {"model.moe.slots_per_expert=2 model.moe.soft_noise=0.7", 2, NULL}, /**/
    {"model.moe.capacity=1.5 model.moe.group_images=2 model.patch_size=2", 4, NULL},
};
enum { CONFIGURATIONS = sizeof configurations / sizeof *configurations };

static void every_router_in_every_configuration(void **state) {
    for (size_t i = 0; i < SMOE_ROUTERS; i++) {
        size_t accepted = 0;
        for (size_t c = 0; c < CONFIGURATIONS; c++) {
            char keys[256];
            snprintf(keys, sizeof keys, "model.moe.router=%s %s", smoe_routers[i].name,
                     configurations[c].keys);
            accepted += check(keys, configurations[c].B, configurations[c].may_vanish);
        }
        if (accepted < CONFIGURATIONS - 2)
            fail_msg("%s accepts only %zu configurations", smoe_routers[i].name, accepted);
    }
}

#define TOKENS "model.moe.router=tokens-choice model.patch_size=2 model.moe.aux_weight=2 "

static void tokens_choice(void **state) {
    static const char *const keys[] = {
        TOKENS "model.moe.k=1 model.moe.priority=vanilla",
        TOKENS "model.moe.k=1 model.moe.priority=bpr model.moe.skip_patch=0.6",
        TOKENS "model.moe.k=2 model.moe.priority=bpr-sum model.moe.capacity=0.6",
        TOKENS "model.moe.k=2 model.moe.priority=vanilla model.moe.group_images=2",
        TOKENS "model.moe.k=2 model.moe.noise=0",
        TOKENS "model.moe.k=2 model.moe.aux_weight=0 model.moe.noise=3",
        TOKENS "model.moe.k=3 model.moe.noise=0.5",
        TOKENS "model.moe.layers=[0,1] model.moe.k=[1,2] model.moe.capacity=[1.5,0.6]",
        TOKENS "model.moe.k=2 model.moe.topk=before",
        TOKENS "model.moe.k=2 model.moe.topk=before model.moe.aux_weight=0 model.moe.capacity=0.6",
        TOKENS "model.moe.k=1 model.moe.priority=random model.moe.capacity=0.6",
        TOKENS "model.moe.k=2 model.moe.z_weight=0.3",
        TOKENS "model.moe.k=2 model.moe.priority=learnt model.moe.capacity=0.6",
        TOKENS "model.moe.k=2 model.moe.priority=learnt-sigmoid model.moe.skip_patch=0.7 "
               "model.moe.renormalize=true",
        TOKENS "model.moe.k=2 model.moe.priority=patch-expert model.moe.capacity=0.6",
        TOKENS "model.moe.k=2 model.moe.group_images=1 model.moe.aux_over=batch",
        TOKENS "model.moe.k=1 model.moe.gate=sigmoid",
        TOKENS "model.moe.k=2 model.moe.gate=sigmoid model.moe.renormalize=true "
               "model.moe.capacity=0.6 model.moe.z_weight=0.3 model.moe.noise=0.5",
        TOKENS "model.moe.k=2 model.moe.gate=sigmoid model.moe.balance=none model.moe.noise=2",
        TOKENS "model.moe.k=2 model.moe.renormalize=true model.moe.balance=bias",
        TOKENS "model.moe.k=2 model.moe.gate=sigmoid model.moe.balance=bias "
               "model.moe.layers=every-1 model.moe.z_weight=0.3",
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) assert_true(check(keys[i], 2, NULL));
}

#define IMAGES "model.moe.router=images-choice model.moe.balance=superclass model.moe.aux_weight=2 "

static void forms_of_other_routers(void **state) {
    static const char *const keys[] = {
        IMAGES "model.patch_size=2",
        IMAGES "model.moe.superclasses=[2,0,1,1,2] model.moe.k=2 model.moe.z_weight=0.3",
        IMAGES "model.moe.gate=sigmoid model.moe.capacity=0.6 model.moe.layers=every-1",
        "model.moe.router=soft-temperatures model.moe.combine=entmax model.moe.slots_per_expert=2 "
        "model.patch_size=2",
        "model.moe.router=soft-temperatures model.moe.combine=entmax "
        "model.moe.temperature_init=0.05 model.moe.slots_per_expert=4",
        "model.moe.router=experts-choice model.moe.renormalize=true model.moe.capacity=1.5 "
        "model.moe.z_weight=0.3 model.patch_size=2",
        "model.moe.router=experts-choice-sinkhorn model.moe.renormalize=true "
        "model.moe.capacity=2 model.moe.group_images=2 model.patch_size=2",
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) assert_true(check(keys[i], 2, NULL));
}

/* A group that the batch fills only partly: 4 images per group, 3 in the pass. */
static void short_last_group(void **state) {
    assert_true(check(TOKENS "model.moe.k=2 model.moe.group_images=4", 3, NULL));
    assert_true(check("model.moe.router=experts-choice model.moe.group_images=2 "
                      "model.moe.z_weight=0.3",
                      3, NULL));
}

/*
 * Specs drawn at random: one value of each line, of which those that a router does not use are
 * ignored, and 1 to 3 images. Up to 199 tokens, and widths that are no multiple of a vector. A
 * buffer that another one overlaps, a sum that ends too early or a pair of keys that nobody tried
 * shows here. Many tokens make more steps change a choice, and norms of few numbers curve more,
 * hence steps of 1e-6; their rounding, about 1e-9, allows a tolerance of 1e-5 of 1e-4.
 */
static const char *const drawn[] = {
    "data.channels=1 data.channels=3",
    "data.image_size=3 data.image_size=6 data.image_size=7 data.image_size=10 data.image_size=14",
    "model.width=12 model.width=20 model.width=24 model.width=36",
    "model.heads=1 model.heads=2 model.heads=4",
    "model.depth=1 model.depth=2 model.depth=3",
    "model.mlp=5 model.mlp=16 model.mlp=33",
    "model.head=gap model.head=token model.head=map model.head=gap-norm",
    "model.registers=0 model.registers=2",
    "model.position=learned model.position=sincos2d model.position=none",
    "model.pre_norm=false model.pre_norm=true",
    "model.norm_eps=1e-6 model.norm_eps=0.01",
    "model.gelu=erf model.gelu=tanh model.gelu=quick",
    "model.qk_norm=false model.qk_norm=true",
    "model.qk_norm_form=timm model.qk_norm_form=vmoe",
    "model.dropout=0 model.dropout=0.2",
    "model.drop_path=0 model.drop_path=0.3",
    "model.moe.layers=none model.moe.layers=all model.moe.layers=last-1",
    "model.moe.experts=3 model.moe.experts=8 model.moe.experts=17",
    "model.moe.capacity=0.6 model.moe.capacity=1.5",
    "model.moe.group_images=1 model.moe.group_images=2",
    "model.moe.k=1 model.moe.k=2",
    "model.moe.aux_weight=0 model.moe.aux_weight=2",
    "model.moe.z_weight=0 model.moe.z_weight=0.3",
    "model.moe.priority=bpr model.moe.priority=vanilla model.moe.priority=patch-expert",
    "model.moe.universal_experts=0 model.moe.universal_experts=2",
    "model.moe.universal_mlp=7",
    "model.moe.shared_experts=0 model.moe.shared_experts=1",
    "model.moe.expert_dropout=0 model.moe.expert_dropout=0.3",
};

/* One of the words of a text. */
static void draw_word(char *keys, size_t size, const char *words, smoe_rng *rng) {
    size_t count = 1, used = strlen(keys);
    for (const char *c = words; *c; c++) count += *c == ' ';
    for (size_t skip = smoe_rng_below(rng, count); skip; skip--) words = strchr(words, ' ') + 1;
    snprintf(keys + used, size - used, " %.*s", (int)strcspn(words, " "), words);
}

static void drawn_specs(void **state) {
    const gradcheck how = {
        .step = 1e-6, .tolerance = 1e-5, .least = 1e-4, .most = 1, .may_vanish = ""};
    for (size_t i = 0; i < 2 * SMOE_ROUTERS; i++) {
        char keys[1024];
        smoe_rng rng = smoe_rng_at(i, SMOE_RNG_TEST, 0, 0, 0);
        snprintf(keys, sizeof keys, "model.patch_size=1 model.moe.router=%s",
                 smoe_routers[i % SMOE_ROUTERS].name);
        for (size_t k = 0; k < sizeof drawn / sizeof *drawn; k++)
            draw_word(keys, sizeof keys, drawn[k], &rng);
        assert_true(check_as(how, keys, 1 + smoe_rng_below(&rng, 3)));
    }
}

/* The auxiliary loss must have an effect where it is used, otherwise the checks above say
 * nothing about it. */
static void auxiliary_loss_is_seen(void **state) {
    subject s = {.p = NULL};
    assert_true(models_make(&s.rig, TOKENS "model.moe.k=2", 2, true));
    s.p = calloc(2 * s.rig.N, sizeof *s.p);
    backward(&s);
    gradcheck c = {.loss = loss, .choices = choices, .user = &s};
    gradcheck_begin(&c);
    const smoe_param *w = smoe_params_find(s.rig.params, "blocks.1.mlp.router.weight");
    assert_non_null(w);
    /* The projection is zero, so the whole gradient is that of the auxiliary loss. */
    if (!gradcheck_array(&c, w->name, s.rig.params->w + w->offset, s.rig.params->g + w->offset,
                         w->size))
        fail_msg("%s", c.fault);
    free(s.p);
    models_free(&s.rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_router_in_every_configuration),
    cmocka_unit_test(tokens_choice),
    cmocka_unit_test(forms_of_other_routers),
    cmocka_unit_test(short_last_group),
    cmocka_unit_test(drawn_specs),
    cmocka_unit_test(auxiliary_loss_is_seen),
};

#else /* the laws of the other tests run in single precision */

static const struct CMUnitTest tests[] = {cmocka_unit_test(gradcheck_skipped)};

#endif

int main(void) {
    smoe_threads_set(1); /* models are too small to share */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
