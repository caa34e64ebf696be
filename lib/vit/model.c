/*
 * The Vision Transformer: embed, L blocks of x += attention(norm(x)); x += ffn(norm(x)), head; ffn
 * is an MLP or an MoE layer. This file owns the residual stream and the memory of a pass. In
 * training every state of the stream is kept; in inference there is one, changed in place, and
 * blocks share their buffers.
 */
#include "vit/model.h"
#include "base/threads.h"
#include "vit/layer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct block {
    smoe_norm norm1, norm2;
    smoe_attention attention;
    bool is_moe;
    smoe_mlp mlp;
    smoe_moe moe;
    real *normed1, *normed2; /* [R,d] kept */
    real *in, *middle, *out; /* [R,d] the stream before, between and after */
} block;

struct smoe_model {
    smoe_spec spec; /* borrowed pieces of the caller's spec */
    smoe_params params;
    smoe_build build;
    smoe_embed embed;
    smoe_head_layer head;
    block *blocks;
    size_t L, *moe; /* moe: block numbers of the MoE layers */
    size_t moe_layers;
    smoe_arena keep, scratch;
    smoe_space bound;                 /* what the buffers are for; B 0 before there are any */
    real *stream, *dstream, *dbranch; /* [R,d] */
    smoe_plan_watch *watch;
    void *watch_user;
};

static int build_blocks(smoe_model *m, smoe_err *err) {
    const smoe_model_spec *spec = &m->spec.model;
    for (size_t i = 0; i < m->L; i++) {
        block *b = &m->blocks[i];
        char path[48];
        snprintf(path, sizeof path, "blocks.%zu.norm1", i);
        smoe_norm_init(&b->norm1, &m->build, spec->width, path);
        smoe_attention_init(&b->attention, &m->build, i);
        snprintf(path, sizeof path, "blocks.%zu.norm2", i);
        smoe_norm_init(&b->norm2, &m->build, spec->width, path);
        b->is_moe = spec->moe.is_moe[i];
        snprintf(path, sizeof path, "blocks.%zu.mlp", i);
        if (!b->is_moe) {
            smoe_mlp_init(&b->mlp, &m->build, 0, path, 2 * (uint32_t)i + 1);
            continue;
        }
        if (smoe_moe_init(&b->moe, &m->build, i, err)) return -1;
        m->moe[m->moe_layers++] = i;
    }
    return 0;
}

int smoe_model_create(smoe_model **model, const smoe_spec *spec, size_t classes, smoe_err *err) {
    smoe_model *m = *model = calloc(1, sizeof *m);
    if (!m) return smoe_fail(err, SMOE_RUNTIME, "out of memory for the model");
    m->spec = *spec;
    m->L = spec->model.depth;
    m->blocks = calloc(m->L, sizeof *m->blocks);
    m->moe = calloc(m->L, sizeof *m->moe);
    m->build = (smoe_build){.spec = &m->spec, .params = &m->params, .T = smoe_spec_tokens(spec)};
    if (!m->blocks || !m->moe) {
        smoe_fail(err, SMOE_RUNTIME, "out of memory for %zu blocks", m->L);
        goto fail;
    }
    if (smoe_embed_init(&m->embed, &m->build, err) || build_blocks(m, err)) goto fail;
    smoe_head_init(&m->head, &m->build, classes);
    if (m->params.failed) {
        smoe_fail(err, SMOE_RUNTIME, "out of memory for the parameter table");
        goto fail;
    }
    return 0;
fail:
    smoe_model_free(m);
    *model = NULL;
    return -1;
}

void smoe_model_free(smoe_model *m) {
    if (!m) return;
    for (size_t i = 0; m->blocks && i < m->L; i++) smoe_moe_free(&m->blocks[i].moe);
    smoe_embed_free(&m->embed);
    smoe_params_free(&m->params);
    smoe_arena_free(&m->keep);
    smoe_arena_free(&m->scratch);
    free(m->blocks);
    free(m->moe);
    free(m);
}

smoe_params *smoe_model_params(smoe_model *m) {
    return &m->params;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Scratch is free again after each layer; in inference, so are a block's kept buffers. */
static void reserve_block(smoe_model *m, block *b, const smoe_space *space) {
    size_t R = space->B * m->build.T, d = m->spec.model.width;
    size_t scratch = space->scratch->used, keep = space->keep->used;
    b->in = m->stream;
    b->normed1 = smoe_arena_take(space->keep, R * d, sizeof(real));
    smoe_norm_reserve(&b->norm1, R, space);
    smoe_attention_reserve(&b->attention, space);
    b->middle = space->train ? smoe_arena_take(space->keep, R * d, sizeof(real)) : m->stream;
    space->scratch->used = scratch;
    if (!space->train) space->keep->used = keep;
    b->normed2 = smoe_arena_take(space->keep, R * d, sizeof(real));
    smoe_norm_reserve(&b->norm2, R, space);
    if (b->is_moe)
        smoe_moe_reserve(&b->moe, space);
    else
        smoe_mlp_reserve(&b->mlp, R, space);
    b->out = space->train ? smoe_arena_take(space->keep, R * d, sizeof(real)) : m->stream;
    space->scratch->used = scratch;
    if (!space->train) space->keep->used = keep;
    m->stream = b->out;
}

static void reserve(smoe_model *m, const smoe_space *space) {
    size_t size = space->B * m->build.T * m->spec.model.width;
    if (space->train) {
        m->dstream = smoe_arena_take(space->scratch, size, sizeof(real));
        m->dbranch = smoe_arena_take(space->scratch, size, sizeof(real));
    }
    size_t scratch = space->scratch->used;
    smoe_embed_reserve(&m->embed, space);
    space->scratch->used = scratch;
    m->stream = smoe_arena_take(space->keep, size, sizeof(real));
    for (size_t i = 0; i < m->L; i++) reserve_block(m, &m->blocks[i], space);
    smoe_head_reserve(&m->head, space);
}

/* Every buffer to its place in the arenas. */
static void bind(smoe_model *m) {
    m->keep.used = m->scratch.used = 0;
    reserve(m, &m->bound);
}

size_t smoe_model_measure(smoe_model *m, size_t B, bool train) {
    smoe_arena keep = {0}, scratch = {0};
    smoe_space space = {&keep, &scratch, B, train, smoe_threads()};
    reserve(m, &space);
    if (m->bound.B) bind(m);
    return keep.peak == SIZE_MAX || scratch.peak == SIZE_MAX ? SIZE_MAX : keep.peak + scratch.peak;
}

int smoe_model_reserve(smoe_model *m, size_t B, bool train, smoe_err *err) {
    smoe_arena_free(&m->keep);
    smoe_arena_free(&m->scratch);
    smoe_space space = {&m->keep, &m->scratch, B, train, smoe_threads()};
    m->bound.B = 0;
    reserve(m, &space);
    if (smoe_arena_bind(&m->keep, err) || smoe_arena_bind(&m->scratch, err))
        return smoe_fail_prefix(err, "activations of %zu images", B);
    m->bound = space;
    bind(m);
    return 0;
}

/* ---- passes ---------------------------------------------------------------------------------- */

void smoe_model_forward(smoe_model *m, const real *pixels, const smoe_pass *pass) {
    size_t R = pass->images * m->build.T, layer = 0;
    m->build.precision = smoe_spec_precision(&m->spec, pass->train);
    smoe_clock_start(pass->clock);
    smoe_embed_forward(&m->embed, m->blocks[0].in, pixels, pass->images);
    smoe_clock_lap(pass->clock, SMOE_PART_embed);
    for (size_t i = 0; i < m->L; i++) {
        block *b = &m->blocks[i];
        smoe_norm_forward(&b->norm1, b->normed1, b->in, R);
        smoe_clock_lap(pass->clock, SMOE_PART_norm);
        smoe_attention_forward(&b->attention, b->middle, b->normed1, b->in, pass);
        smoe_clock_lap(pass->clock, SMOE_PART_attention);
        smoe_norm_forward(&b->norm2, b->normed2, b->middle, R);
        smoe_clock_lap(pass->clock, SMOE_PART_norm);
        if (b->is_moe) {
            smoe_moe_forward(&b->moe, b->out, b->normed2, b->middle, pass);
            if (m->watch) m->watch(m->watch_user, layer, b->moe.router);
            layer++;
        } else {
            const size_t rows[] = {0, R};
            smoe_mlp_forward(&b->mlp, b->out, b->normed2, b->middle, rows, pass);
            smoe_clock_lap(pass->clock, SMOE_PART_mlp);
        }
    }
    smoe_head_forward(&m->head, m->blocks[m->L - 1].out, pass);
    smoe_clock_lap(pass->clock, SMOE_PART_head);
}

void smoe_model_backward(smoe_model *m, const real *dlogits, const smoe_pass *pass) {
    size_t R = pass->images * m->build.T;
    real *dx = m->dstream, *branch = m->dbranch;
    smoe_clock_start(pass->clock);
    smoe_head_backward(&m->head, dx, dlogits, m->blocks[m->L - 1].out, pass);
    smoe_clock_lap(pass->clock, SMOE_PART_head);
    for (size_t i = m->L; i-- > 0;) {
        block *b = &m->blocks[i];
        if (b->is_moe) {
            smoe_moe_backward(&b->moe, branch, dx, b->normed2, pass);
        } else {
            const size_t rows[] = {0, R};
            smoe_mlp_backward(&b->mlp, branch, dx, b->normed2, rows, pass);
            smoe_clock_lap(pass->clock, SMOE_PART_mlp);
        }
        smoe_norm_backward(&b->norm2, dx, branch, b->middle, R);
        smoe_clock_lap(pass->clock, SMOE_PART_norm);
        smoe_attention_backward(&b->attention, branch, dx, b->normed1, pass);
        smoe_clock_lap(pass->clock, SMOE_PART_attention);
        smoe_norm_backward(&b->norm1, dx, branch, b->in, R);
        smoe_clock_lap(pass->clock, SMOE_PART_norm);
    }
    smoe_embed_backward(&m->embed, dx, pass->images);
    smoe_clock_lap(pass->clock, SMOE_PART_embed);
}

/* ---- what others may look at ----------------------------------------------------------------- */

const real *smoe_model_logits(const smoe_model *m) {
    return m->head.logits;
}
const real *smoe_model_features(const smoe_model *m) {
    return m->head.features;
}

double smoe_model_aux(const smoe_model *m) {
    double sum = 0;
    for (size_t i = 0; i < m->moe_layers; i++) sum += m->blocks[m->moe[i]].moe.router->plan.aux;
    return sum;
}

static bool finite_rows(const real *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

void smoe_model_nonfinite(const smoe_model *m, const smoe_pass *pass, char *name, size_t size) {
    size_t n = pass->images * m->build.T * m->spec.model.width;
    if (!finite_rows(m->blocks[0].in, n)) {
        snprintf(name, size, "patch_embed");
        return;
    }
    for (size_t i = 0; i < m->L; i++) {
        const block *b = &m->blocks[i];
        bool attention = finite_rows(b->middle, n);
        if (attention && finite_rows(b->out, n)) continue;
        snprintf(name, size, "blocks.%zu.%s", i, attention ? "mlp" : "attn");
        return;
    }
    bool head = finite_rows(m->head.logits, pass->images * m->head.N);
    snprintf(name, size, "%s", head ? "loss" : "head");
}

size_t smoe_model_moe_layers(const smoe_model *m) {
    return m->moe_layers;
}
size_t smoe_model_moe_block(const smoe_model *m, size_t i) {
    return m->moe[i];
}

const smoe_router *smoe_model_router(const smoe_model *m, size_t i) {
    return m->blocks[m->moe[i]].moe.router;
}

void smoe_model_randomise(smoe_model *m, const bool *random) {
    memcpy(m->spec.model.moe.is_random, random, m->L * sizeof *random);
}

void smoe_model_watch(smoe_model *m, smoe_plan_watch *watch, void *user) {
    m->watch = watch;
    m->watch_user = user;
}
