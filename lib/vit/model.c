/*
 * The Vision Transformer: embed, L blocks of x += attention(norm(x)); x += ffn(norm(x)), head; ffn
 * is an MLP or an MoE layer. This file owns the residual stream and the memory of a pass. In
 * training every state of the stream is kept; in inference there is one, changed in place, and
 * blocks share their buffers.
 */
#include "vit/model.h"
#include "base/threads.h"
#include "spec/routers.h"
#include "vit/layer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct block {
    smoe_norm norm1, norm2;
    smoe_drop_path drop1, drop2;
    smoe_attention attention;
    bool is_moe;
    smoe_mlp mlp;
    smoe_moe moe;
    real *normed1, *normed2; /* [R,d] kept */
    real *in, *middle, *out; /* [R,d] the stream before, between and after */
    size_t rows;             /* of the table, up to the end of this block */
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
    size_t embed_rows; /* of the table */
    size_t lowest;     /* block that backward ends with; L: none */
    bool embed_trained;
    smoe_arena keep, scratch;
    smoe_space bound;                 /* what the buffers are for; B 0 before there are any */
    real *stream, *dstream, *dbranch; /* [R,d] */
    real *dscaled;                    /* [R,d] of stochastic depth, NULL without it */
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
        double rate = spec->drop_path * (m->L > 1 ? (double)i / (double)(m->L - 1) : 1);
        b->drop1 = (smoe_drop_path){rate, 2 * (uint32_t)i, m->build.T * spec->width};
        b->drop2 = (smoe_drop_path){rate, 2 * (uint32_t)i + 1, m->build.T * spec->width};
        b->is_moe = spec->moe.is_moe[i];
        snprintf(path, sizeof path, "blocks.%zu.mlp", i);
        if (!b->is_moe) {
            smoe_mlp_init(&b->mlp, &m->build, 0, path, 2 * (uint32_t)i + 1);
        } else {
            if (smoe_moe_init(&b->moe, &m->build, i, err)) return -1;
            m->moe[m->moe_layers++] = i;
        }
        b->rows = m->params.count;
    }
    return 0;
}

/* ---- groups of parameters -------------------------------------------------------------------- */

static bool matches_row(const smoe_group *group, const smoe_params *params) {
    for (size_t i = 0; i < params->count; i++)
        if (smoe_group_matches(group, params->row[i].name)) return true;
    return false;
}

/* Whether the pattern has a meaning with another router, or with other blocks that have experts: so
 * one spec serves the rows of an ablation. */
static bool matches_other(const smoe_group *group, const smoe_spec *spec) {
    bool found = false;
    for (size_t i = 0; i <= SMOE_ROUTERS && !found; i++) {
        smoe_spec other = *spec;
        smoe_model *model = NULL;
        smoe_moe_spec *moe = &other.model.moe;
        other.train.optimizer.groups.count = 0;
        moe->router = (char *)smoe_routers[i % SMOE_ROUTERS].name;
        moe->normalize = true;
        for (size_t b = 0; b < other.model.depth; b++) moe->is_moe[b] = i < SMOE_ROUTERS;
        if (!smoe_model_create(&model, &other, 2, NULL)) found = matches_row(group, &model->params);
        smoe_model_free(model);
    }
    return found;
}

static int apply_groups(smoe_model *m, smoe_err *err) {
    const smoe_groups *groups = &m->spec.train.optimizer.groups;
    smoe_params *params = &m->params;
    for (size_t k = 0; k < groups->count; k++) {
        const smoe_group *group = &groups->row[k];
        if (matches_row(group, params) || matches_other(group, &m->spec)) continue;
        char place[256];
        return smoe_fail(err, SMOE_USAGE, "%s: train.optimizer.groups: no tensor matches \"%s\"",
                         smoe_group_place(&m->spec, group, place, sizeof place), group->match);
    }
    for (size_t i = 0; i < params->count; i++) {
        smoe_param *row = &params->row[i];
        size_t k = 0;
        while (k < groups->count && !smoe_group_matches(&groups->row[k], row->name)) k++;
        if (k == groups->count) continue;
        row->lr = groups->row[k].lr;
        row->decay = groups->row[k].decay;
        row->frozen = groups->row[k].frozen;
    }
    smoe_params_place(params);
    if (smoe_params_trained(params)) return 0;
    return smoe_fail(err, SMOE_USAGE,
                     "train.optimizer.groups: all tensors are frozen, nothing is trained");
}

/* How far back gradients have to go: the table is in the order of the model, and its first row that
 * is trained is the embedding's, a block's or the head's. */
static void find_lowest(smoe_model *m) {
    size_t row = 0;
    while (m->params.row[row].frozen) row++;
    m->embed_trained = row < m->embed_rows;
    for (m->lowest = 0; m->lowest < m->L && row >= m->blocks[m->lowest].rows; m->lowest++) continue;
}

/* ---- making one ------------------------------------------------------------------------------ */

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
    if (smoe_embed_init(&m->embed, &m->build, err)) goto fail;
    m->embed_rows = m->params.count;
    if (build_blocks(m, err)) goto fail;
    smoe_head_init(&m->head, &m->build, classes);
    if (m->params.failed) {
        smoe_fail(err, SMOE_RUNTIME, "out of memory for the parameter table");
        goto fail;
    }
    if (apply_groups(m, err)) goto fail;
    find_lowest(m);
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
        if (m->spec.model.drop_path > 0)
            m->dscaled = smoe_arena_take(space->scratch, size, sizeof(real));
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

/* Between training steps there are evaluations. */
static smoe_space space_of(const smoe_model *m, smoe_arena *keep, smoe_arena *scratch, size_t B,
                           bool train) {
    smoe_precision eval = smoe_spec_precision(&m->spec, false);
    smoe_precision other = train ? smoe_spec_precision(&m->spec, true) : eval;
    return (smoe_space){.keep = keep,
                        .scratch = scratch,
                        .B = B,
                        .train = train,
                        .threads = smoe_threads(),
                        .bf16 = eval == SMOE_PRECISION_BF16 || other == SMOE_PRECISION_BF16,
                        .wide = eval != SMOE_PRECISION_BF16 || other != SMOE_PRECISION_BF16};
}

size_t smoe_model_measure(smoe_model *m, size_t B, bool train) {
    smoe_arena keep = {0}, scratch = {0};
    smoe_space space = space_of(m, &keep, &scratch, B, train);
    reserve(m, &space);
    if (m->bound.B) bind(m);
    return keep.peak == SIZE_MAX || scratch.peak == SIZE_MAX ? SIZE_MAX : keep.peak + scratch.peak;
}

int smoe_model_reserve(smoe_model *m, size_t B, bool train, smoe_err *err) {
    smoe_arena_free(&m->keep);
    smoe_arena_free(&m->scratch);
    smoe_space space = space_of(m, &m->keep, &m->scratch, B, train);
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
        smoe_drop_path_forward(&b->drop1, b->middle, b->in, pass);
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
        smoe_drop_path_forward(&b->drop2, b->out, b->middle, pass);
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
    for (size_t i = m->L; i-- > m->lowest;) {
        block *b = &m->blocks[i];
        const real *dy = smoe_drop_path_backward(&b->drop2, m->dscaled, dx, pass);
        if (b->is_moe) {
            smoe_moe_backward(&b->moe, branch, dy, b->normed2, pass);
        } else {
            const size_t rows[] = {0, R};
            smoe_mlp_backward(&b->mlp, branch, dy, b->normed2, rows, pass);
            smoe_clock_lap(pass->clock, SMOE_PART_mlp);
        }
        smoe_norm_backward(&b->norm2, dx, branch, b->middle, R);
        smoe_clock_lap(pass->clock, SMOE_PART_norm);
        dy = smoe_drop_path_backward(&b->drop1, m->dscaled, dx, pass);
        smoe_attention_backward(&b->attention, branch, dy, b->normed1, pass);
        smoe_clock_lap(pass->clock, SMOE_PART_attention);
        smoe_norm_backward(&b->norm1, dx, branch, b->in, R);
        smoe_clock_lap(pass->clock, SMOE_PART_norm);
    }
    if (m->embed_trained) smoe_embed_backward(&m->embed, dx, pass->images);
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
