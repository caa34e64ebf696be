/*
 * The Vision Transformer: an embedding, a tower of blocks (tower.h) and a head. This file owns the
 * parameters and the memory of a pass.
 */
#include "vit/model.h"
#include "base/threads.h"
#include "spec/routers.h"
#include "vit/tower.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct smoe_model {
    smoe_spec spec; /* borrowed pieces of the caller's spec */
    smoe_params params;
    smoe_build build;
    smoe_embed embed;
    smoe_head_layer head;
    smoe_tower tower;
    size_t embed_rows; /* of the table */
    bool embed_trained;
    smoe_arena keep, scratch;
    smoe_space bound; /* what the buffers are for; B 0 before there are any */
    real *dstream;    /* [R,d] gradient of the tower's stream */
    void *held;
    void (*release)(void *held);
};

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
    smoe_tower_stop_at(&m->tower, row);
}

/* ---- making one ------------------------------------------------------------------------------ */

int smoe_model_create(smoe_model **model, const smoe_spec *spec, size_t classes, smoe_err *err) {
    smoe_model *m = *model = calloc(1, sizeof *m);
    if (!m) return smoe_fail(err, SMOE_RUNTIME, "out of memory for the model");
    m->spec = *spec;
    m->build = (smoe_build){.spec = &m->spec,
                            .model = &m->spec.model,
                            .params = &m->params,
                            .T = smoe_spec_tokens(spec)};
    if (smoe_embed_init(&m->embed, &m->build, err)) goto fail;
    m->embed_rows = m->params.count;
    if (smoe_tower_init(&m->tower, &m->build, err)) goto fail;
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
    smoe_tower_free(&m->tower);
    smoe_embed_free(&m->embed);
    smoe_params_free(&m->params);
    smoe_arena_free(&m->keep);
    smoe_arena_free(&m->scratch);
    if (m->release) m->release(m->held);
    free(m);
}

void smoe_model_hold(smoe_model *m, void *held, void (*release)(void *held)) {
    m->held = held;
    m->release = release;
}

void *smoe_model_held(const smoe_model *m) {
    return m->held;
}

smoe_params *smoe_model_params(smoe_model *m) {
    return &m->params;
}

/* ---- cost ------------------------------------------------------------------------------------ */

void smoe_model_cost(const smoe_model *m, smoe_costs *costs) {
    smoe_embed_cost(&m->embed, costs);
    smoe_tower_cost(&m->tower, costs);
    smoe_head_cost(&m->head, costs);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Scratch of the embedding is free again for the tower; that of tower and head lives together. */
static void reserve(smoe_model *m, const smoe_space *space) {
    size_t size = space->B * m->build.T * m->spec.model.width;
    if (space->train) m->dstream = smoe_arena_take(space->scratch, size, sizeof(real));
    size_t scratch = space->scratch->used;
    smoe_embed_reserve(&m->embed, space);
    space->scratch->used = scratch;
    smoe_tower_reserve(&m->tower, space);
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
    m->build.precision = smoe_spec_precision(&m->spec, pass->train);
    smoe_clock_start(pass->clock);
    smoe_embed_forward(&m->embed, m->tower.in, pixels, pass->images);
    smoe_clock_lap(pass->clock, SMOE_PART_embed);
    smoe_tower_forward(&m->tower, pass);
    smoe_head_forward(&m->head, m->tower.out, pass);
    smoe_clock_lap(pass->clock, SMOE_PART_head);
}

void smoe_model_backward(smoe_model *m, const real *dlogits, const smoe_pass *pass) {
    smoe_clock_start(pass->clock);
    smoe_head_backward(&m->head, dlogits, m->tower.out, pass);
    smoe_tower_backward(&m->tower, m->dstream, m->head.dx, pass);
    if (m->embed_trained) smoe_embed_backward(&m->embed, m->dstream, pass->images);
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
    return smoe_tower_aux(&m->tower);
}

void smoe_model_nonfinite(const smoe_model *m, const smoe_pass *pass, char *name, size_t size) {
    size_t n = pass->images * m->build.T * m->spec.model.width;
    if (!smoe_tower_finite(m->tower.in, n))
        snprintf(name, size, "patch_embed");
    else if (!smoe_tower_nonfinite(&m->tower, pass, name, size))
        snprintf(name, size, "%s",
                 smoe_tower_finite(m->head.logits, pass->images * m->head.N) ? "loss" : "head");
}

size_t smoe_model_moe_layers(const smoe_model *m) {
    return m->tower.moe_layers;
}
size_t smoe_model_moe_block(const smoe_model *m, size_t i) {
    return m->tower.moe[i];
}

const smoe_router *smoe_model_router(const smoe_model *m, size_t i) {
    return m->tower.blocks[m->tower.moe[i]].moe.router;
}

void smoe_model_randomise(smoe_model *m, const bool *random) {
    memcpy(m->spec.model.moe.is_random, random, m->tower.L * sizeof *random);
}

void smoe_model_watch(smoe_model *m, smoe_plan_watch *watch, void *user) {
    m->tower.watch = watch;
    m->tower.watch_user = user;
}
