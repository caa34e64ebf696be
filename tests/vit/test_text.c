/*
 * The text tower and the similarities of pairs. In any flavour: padding changes nothing; later
 * tokens change nothing if the tower is causal, and something if it is not; threads change no bit.
 * In double precision: gradients of whole models with two towers against differences, and of one
 * with a frozen image tower.
 */
#include "approx.h"
#include "base/threads.h"
#include "gradcheck.h"
#include "models.h"
#include "train/task.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 4, T = 6, VOCABULARY = 11 };
#define SIZES "text.context=6 text.vocabulary=258 text.width=8 text.depth=2 text.heads=2 "
#define PAIRS "train.loss=contrastive " SIZES

static const size_t lengths[B] = {6, 2, 4, 3};

typedef struct subject {
    models_rig rig;
    uint32_t tokens[B * T];
    real target[B * B], dlogits[B * B];
    double rows[B];
    smoe_loss loss;
} subject;

/* Ids that occur twice, in a text and across texts; padding has its own id. */
static void make(subject *s, const char *keys) {
    memset(s, 0, sizeof *s);
    assert_true(models_make(&s->rig, keys, B, true));
    s->loss = s->rig.spec.train.loss;
    for (size_t i = 0; i < B * T; i++)
        s->tokens[i] = i % T < lengths[i / T] ? (uint32_t)(i * i % VOCABULARY) : VOCABULARY;
    for (size_t b = 0; b < B; b++) s->target[b * B + b] = 1;
}

static smoe_task_sums forward(subject *s) {
    const smoe_inputs in = {s->rig.image, s->tokens, lengths};
    smoe_task_sums sums = {0};
    smoe_model_forward_pairs(s->rig.model, &in, &s->rig.pass);
    smoe_task_measure(smoe_task_of(s->loss), &sums, s->dlogits, s->rows,
                      &(const smoe_task_batch){.logits = smoe_model_pairs(s->rig.model)->logits,
                                               .target = s->target,
                                               .B = B,
                                               .N = B,
                                               .whole = B});
    return sums;
}

static void backward(subject *s) {
    smoe_model_compare_backward(s->rig.model, s->dlogits, B, true);
    smoe_model_backward(s->rig.model, NULL, &s->rig.pass);
}

/* ---- laws ------------------------------------------------------------------------------------ */

static void embed(subject *s, real *out) {
    size_t D = smoe_model_width(s->rig.model);
    smoe_model_forward_texts(s->rig.model, s->tokens, lengths, &s->rig.pass);
    memcpy(out, smoe_model_texts(s->rig.model), B * D * sizeof *out);
}

/* Whatever padding contains: the same bits. */
static void padding_is_not_seen(void **state) {
    static const char *const keys[] = {PAIRS, PAIRS "text.causal=false",
                                       PAIRS "text.pool=mean text.causal=false",
                                       PAIRS "text.pool=first text.causal=false"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        subject s;
        real before[B * 8], after[B * 8];
        make(&s, keys[k]);
        embed(&s, before);
        for (size_t i = 0; i < B * T; i++)
            if (i % T >= lengths[i / T]) s.tokens[i] = 200 + (uint32_t)i;
        embed(&s, after);
        assert_memory_equal(before, after, sizeof before);
        models_free(&s.rig);
    }
}

/* The end token's vector: in a causal tower it does not depend on the padding behind it. */
static void causal_or_not(void **state) {
    for (int causal = 0; causal < 2; causal++) {
        subject s;
        real before[B * 8], after[B * 8];
        make(&s, causal ? PAIRS "text.padding=attended"
                        : PAIRS "text.padding=attended text.causal=false");
        embed(&s, before);
        s.tokens[(B - 1) * T + lengths[B - 1]] = 77;
        embed(&s, after);
        assert_memory_equal(before, after, (B - 1) * 8 * sizeof *before);
        const size_t last = (B - 1) * 8;
        assert_int_equal(!memcmp(before + last, after + last, 8 * sizeof *before), causal);
        models_free(&s.rig);
    }
}

/* Two images and texts in the plane: cosines by hand, factor 1/0.07 and bias 0; with the sigmoid
 * factor 10 and bias -log 2. */
static void similarities_by_hand(void **state) {
    const real images[] = {3, 4, 0, -2}, texts[] = {5, 0, 0, 0.5f};
    const double cosine[] = {0.6, 0.8, 0, -1};
    for (int sigmoid = 0; sigmoid < 2; sigmoid++) {
        models_rig r;
        assert_true(models_make(
            &r, sigmoid ? "train.loss=contrastive-sigmoid train.batch_size=2 " SIZES : PAIRS, 2,
            true));
        smoe_params params = {0};
        smoe_pairs pairs;
        smoe_arena keep = {0}, scratch = {0};
        smoe_space space = {
            .keep = &keep, .scratch = &scratch, .B = 2, .train = true, .threads = 1};
        smoe_pairs_init(&pairs, &params, &r.spec, 2);
        assert_int_equal(smoe_params_allocate(&params, 2, NULL), 0);
        smoe_params_init(&params, 0);
        smoe_pairs_reserve(&pairs, &space);
        assert_int_equal(smoe_arena_bind(&keep, NULL), 0);
        smoe_pairs_reserve(&pairs, &space);
        smoe_pairs_forward(&pairs, images, texts, 2);
        for (size_t i = 0; i < 4; i++)
            assert_close(pairs.logits[i], sigmoid ? 10 * cosine[i] - log(2) : cosine[i] / 0.07,
                         2e-6);
        /* the factor is at most 100, which exp(log(100)) may exceed by a rounding */
        params.w[params.param[pairs.scale].offset] = 5;
        smoe_pairs_bound(&pairs);
        assert_close(smoe_pairs_factor(&pairs), 100, 1e-4);
        smoe_arena_free(&keep);
        smoe_params_free(&params);
        models_free(&r);
    }
}

/* Every tensor of the tower, with open_clip's names and shapes. */
static void names_and_shapes(void **state) {
    static const struct {
        const char *name;
        int ndim;
        size_t dim[2];
    } right[] = {
        {"text.token_embedding.weight", 2, {258, 8}},
        {"text.positional_embedding", 2, {6, 8}},
        {"text.transformer.resblocks.0.ln_1.weight", 1, {8}},
        {"text.transformer.resblocks.0.attn.in_proj_weight", 2, {24, 8}},
        {"text.transformer.resblocks.0.attn.in_proj_bias", 1, {24}},
        {"text.transformer.resblocks.0.attn.out_proj.weight", 2, {8, 8}},
        {"text.transformer.resblocks.0.attn.out_proj.bias", 1, {8}},
        {"text.transformer.resblocks.1.ln_2.bias", 1, {8}},
        {"text.transformer.resblocks.1.mlp.c_fc.weight", 2, {32, 8}},
        {"text.transformer.resblocks.1.mlp.c_fc.bias", 1, {32}},
        {"text.transformer.resblocks.1.mlp.c_proj.weight", 2, {8, 32}},
        {"text.transformer.resblocks.1.mlp.c_proj.bias", 1, {8}},
        {"text.ln_final.weight", 1, {8}},
        {"text.ln_final.bias", 1, {8}},
        {"text.text_projection", 2, {8, 5}},
        {"head.proj.weight", 2, {5, 8}},
        {"logit_scale", 0, {0}},
        {"logit_bias", 0, {0}},
    };
    models_rig r;
    size_t text = 0;
    assert_true(models_make(&r, "train.loss=contrastive-sigmoid text.embed=5 " SIZES, B, false));
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        const smoe_param *p = smoe_params_find(r.params, right[i].name);
        if (!p) fail_msg("no %s", right[i].name);
        assert_int_equal(p->ndim, right[i].ndim);
        for (int k = 0; k < p->ndim; k++) assert_int_equal(p->dim[k], right[i].dim[k]);
    }
    for (size_t i = 0; i < r.params->count; i++)
        text += !strncmp(r.params->param[i].name, "text.", 5);
    assert_int_equal(text, 2 + 2 * 12 + 2 + 1);
    models_free(&r);
}

/* ---- compared with open_clip ----------------------------------------------------------------- */

/* The formula of tests/interop/text_reference.py. */
static real formula(const char *name, bool one, size_t i) {
    unsigned letters = 0;
    for (const char *c = name; *c; c++) letters += (unsigned char)*c;
    return (real)(float)(one + sin(1.3 * (double)i + letters) / 3);
}

#define UNMASKED PAIRS "text.embed=5 text.causal=false text.padding=attended "
enum { END = 257, START = 256 };
static const double clip_right[] = {
#include "../interop/text_expected.def"
};
static const uint32_t clip_tokens[B * T] = {START, 7, 3, 9,   1, END, START, 7,   END, 0, 0,   0,
                                            START, 2, 2, END, 0, 0,   START, 100, 7,   3, END, 0};
static const size_t clip_lengths[B] = {6, 3, 4, 5};

static void set_by_formula(models_rig *r) {
    for (size_t i = 0; i < r->params->count; i++) {
        const smoe_param *p = &r->params->param[i];
        bool one = strstr(p->name, "ln_") && strstr(p->name, "weight");
        if (strncmp(p->name, "text.", 5)) continue;
        for (size_t k = 0; k < p->size; k++) r->params->w[p->offset + k] = formula(p->name, one, k);
    }
}

/* Embeddings and similarities equal those of open_clip for the same weights, to 1e-5: sums in
 * another order, over 8 and 32 numbers of about 1, there in single precision. */
static void as_open_clip(void **state) {
    enum { D = 5 };
    const double *right = clip_right;
    models_rig r;
    assert_true(models_make(&r, PAIRS "text.embed=5", B, true));
    set_by_formula(&r);
    smoe_model_forward_texts(r.model, clip_tokens, clip_lengths, &r.pass);
    const real *texts = smoe_model_texts(r.model);
    for (size_t i = 0; i < B * D; i++) assert_close(texts[i], right[i], 1e-5);
    real images[B * D];
    for (size_t i = 0; i < B * D; i++) images[i] = formula("images", false, i);
    r.params->w[smoe_params_find(r.params, "logit_scale")->offset] = (real)1.5;
    smoe_pairs pairs = *smoe_model_pairs(r.model);
    smoe_pairs_forward(&pairs, images, texts, B);
    for (size_t i = 0; i < B * B; i++) assert_close(pairs.logits[i], right[B * D + i], 1e-5);
    models_free(&r);
}

/* Towers without a mask, which attend to padding, pooled in three places. */
static void as_open_clip_without_mask(void **state) {
    enum { D = 5 };
    static const char *const keys[] = {UNMASKED "text.pool=end", UNMASKED "text.pool=first",
                                       UNMASKED "text.pool=last"};
    for (size_t k = 0; k < 3; k++) {
        models_rig r;
        assert_true(models_make(&r, keys[k], B, true));
        set_by_formula(&r);
        smoe_model_forward_texts(r.model, clip_tokens, clip_lengths, &r.pass);
        const real *texts = smoe_model_texts(r.model);
        for (size_t i = 0; i < B * D; i++)
            assert_close(texts[i], clip_right[B * D + B * B + k * B * D + i], 1e-5);
        models_free(&r);
    }
}

/* A step's gradients, with one thread and with three. */
static void same_bits(void **state) {
    real *first = NULL;
    for (int threads = 1; threads <= 3; threads += 2) {
        subject s;
        smoe_threads_set(threads);
        make(&s, PAIRS);
        forward(&s);
        backward(&s);
        size_t size = s.rig.params->trained * sizeof(real);
        if (first) assert_memory_equal(first, s.rig.params->g, size);
        if (!first) memcpy(first = malloc(size), s.rig.params->g, size);
        models_free(&s.rig);
    }
    free(first);
    smoe_threads_set(1);
}

/* Locked: the image tower has no gradients, stores nothing for backward, and has no dropout. */
#define LOCKED                                                                                    \
    PAIRS "model.dropout=0.4 "                                                                    \
          "train.optimizer.groups=[{\"match\":\"text.*\"},{\"match\":\"logit_*\"},{\"match\":\"*" \
          "\",\"frozen\":true}]"

static void locked_image_tower(void **state) {
    subject open, locked;
    make(&open, PAIRS "model.dropout=0.4");
    make(&locked, LOCKED);
    assert_true(smoe_model_routes(open.rig.model));
    assert_false(smoe_model_routes(locked.rig.model));
    assert_true(smoe_model_measure(locked.rig.model, B, true) <
                smoe_model_measure(open.rig.model, B, true));
    smoe_pass evaluation = locked.rig.pass;
    evaluation.train = false;
    forward(&locked);
    backward(&locked);
    real trained[B * 8], evaluated[B * 8];
    memcpy(trained, smoe_model_logits(locked.rig.model), sizeof trained);
    smoe_model_forward(locked.rig.model, locked.rig.image, &evaluation);
    memcpy(evaluated, smoe_model_logits(locked.rig.model), sizeof evaluated);
    assert_memory_equal(trained, evaluated, sizeof trained);
    models_free(&open.rig);
    models_free(&locked.rig);
}

/* ---- gradients ------------------------------------------------------------------------------- */

#ifdef SMOE_F64

static double loss(void *user) {
    subject *s = user;
    return forward(s).loss / B + smoe_model_losses(s->rig.model).weighted;
}

static uint64_t choices(void *user) {
    return gradcheck_model_mark(((subject *)user)->rig.model);
}

/* Two passes over the same inputs add up. Small models have cosines near 1 and a factor of 14: a
 * factor of 2 keeps losses away from 0. */
static void check(const char *keys) {
    subject s;
    make(&s, keys);
    s.rig.params->w[smoe_params_find(s.rig.params, "logit_scale")->offset] = log(2);
    for (int i = 0; i < 2; i++) {
        forward(&s);
        backward(&s);
    }
    for (size_t i = 0; i < s.rig.params->trained; i++) s.rig.params->g[i] /= 2;
    gradcheck c = {.loss = loss, .choices = choices, .user = &s, .most = 12, .least = 1e-7};
    gradcheck_begin(&c);
    const smoe_params *params = s.rig.params;
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *p = &params->param[i];
        if (!p->frozen &&
            !gradcheck_array(&c, p->name, params->w + p->offset, params->g + p->offset, p->size))
            fail_msg("%s: %s", keys, c.fault);
    }
    models_free(&s.rig);
}

static void gradients(void **state) {
    static const char *const keys[] = {
        PAIRS,
        PAIRS "text.causal=false text.pool=mean",
        PAIRS "text.causal=false text.pool=first",
        PAIRS "text.pool=mean text.embed=5 model.dropout=0.2",
        PAIRS "text.embed=3 model.head=map model.gelu=quick",
        PAIRS "text.embed=3 text.embed_bias=true",
        PAIRS "text.causal=false text.padding=attended text.pool=last",
        PAIRS "text.causal=false text.padding=attended text.pool=mean",
        PAIRS "text.padding=attended text.pool=last",
        PAIRS "text.width=12 text.heads=3 text.norm_eps=1e-3 model.head=token",
        PAIRS "model.moe.router=tokens-choice model.moe.aux_weight=2",
        "train.loss=contrastive-sigmoid " SIZES,
        "train.loss=contrastive-sigmoid text.embed=6 text.causal=false " SIZES,
        LOCKED,
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) check(keys[i]);
}

#else
#define gradients gradcheck_skipped

#endif

int main(void) {
    smoe_threads_set(1); /* models are too small to share */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(padding_is_not_seen),
        cmocka_unit_test(causal_or_not),
        cmocka_unit_test(similarities_by_hand),
        cmocka_unit_test(names_and_shapes),
        cmocka_unit_test(as_open_clip),
        cmocka_unit_test(as_open_clip_without_mask),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(locked_image_tower),
        cmocka_unit_test(gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
