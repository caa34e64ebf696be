/* Towers of blocks; see tower.h. */
#include "vit/tower.h"

static void build_blocks(smoe_tower *t) {
    const smoe_model_spec *spec = t->build->model;
    for (size_t i = 0; i < t->L; i++) {
        smoe_block *b = &t->blocks[i];
        uint32_t site = smoe_build_site(t->build, i);
        char path[64];
        snprintf(path, sizeof path, "blocks.%zu.norm1", i);
        smoe_norm_init(&b->norm1, t->build, spec->width, path);
        smoe_attention_init(&b->attention, t->build, i);
        snprintf(path, sizeof path, "blocks.%zu.norm2", i);
        smoe_norm_init(&b->norm2, t->build, spec->width, path);
        double rate = spec->drop_path * (t->L > 1 ? (double)i / (double)(t->L - 1) : 1);
        b->drop1 = (smoe_drop_path){rate, site, t->T * spec->width};
        b->drop2 = (smoe_drop_path){rate, site + 1, t->T * spec->width};
        b->is_moe = spec->moe.is_moe[i];
        snprintf(path, sizeof path, "blocks.%zu.mlp", i);
        if (!b->is_moe) {
            const smoe_mlp_form form = smoe_mlp_dense(spec, path, site + 1);
            smoe_mlp_init(&b->mlp, t->build, &form);
        } else {
            smoe_moe_init(&b->moe, t->build, i);
            t->moe[t->moe_layers++] = i;
        }
        b->params = t->build->params->count;
    }
}

void smoe_tower_init(smoe_tower *t, const smoe_build *build) {
    const smoe_model_spec *spec = build->model;
    *t = (smoe_tower){.build = build, .L = spec->depth, .d = spec->width, .T = build->T};
    t->blocks = smoe_alloc(t->L, sizeof *t->blocks);
    t->moe = smoe_alloc(t->L, sizeof *t->moe);
    build_blocks(t);
    t->normed = spec->head != SMOE_HEAD_GAP_NORM;
    if (t->normed) smoe_norm_init(&t->norm, build, t->d, "norm");
}

void smoe_tower_free(smoe_tower *t) {
    for (size_t i = 0; i < t->moe_layers; i++) smoe_moe_free(&t->blocks[t->moe[i]].moe);
    free(t->blocks);
    free(t->moe);
    t->blocks = NULL;
    t->moe = NULL;
    t->moe_layers = 0;
}

void smoe_tower_stop_at(smoe_tower *t, size_t first) {
    for (t->lowest = 0; t->lowest < t->L && first >= t->blocks[t->lowest].params; t->lowest++)
        continue;
}

/* ---- cost ------------------------------------------------------------------------------------ */

static void block_cost(const smoe_tower *t, size_t i, smoe_costs *costs) {
    const smoe_block *b = &t->blocks[i];
    double T = (double)t->T;
    smoe_norm_cost(&b->norm1, costs, t->T);
    smoe_attention_cost(&b->attention, costs);
    smoe_norm_cost(&b->norm2, costs, t->T);
    if (b->is_moe) {
        smoe_moe_cost(&b->moe, costs);
        return;
    }
    smoe_cost_layer *layer = smoe_costs_add(costs, SMOE_PART_mlp, smoe_mlp_macs(&b->mlp, T), 3,
                                            "%sblocks.%zu.mlp", t->build->prefix, i);
    layer->elementwise = smoe_mlp_elementwise(&b->mlp, T);
}

/* The clock of the head has the time of the last norm, whose entry counts its parameters alone. */
void smoe_tower_cost(const smoe_tower *t, smoe_costs *costs) {
    for (size_t i = 0; i < t->L; i++) {
        size_t first = costs->count;
        block_cost(t, i, costs);
        if (i < t->lowest) smoe_costs_forward_only(costs, first);
    }
    if (t->normed) smoe_norm_cost(&t->norm, costs, 0);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* *stream: the last state of the residual stream. Scratch is free again after each layer; in
 * inference, the kept buffers of a block are free again too. */
static void reserve_block(const smoe_tower *t, smoe_block *b, real **stream,
                          const smoe_space *space) {
    size_t R = space->B * t->T, d = t->d;
    size_t scratch = space->scratch->used, keep = space->keep->used;
    b->in = *stream;
    smoe_norm_reserve(&b->norm1, R, space);
    smoe_attention_reserve(&b->attention, space);
    b->normed1 = smoe_space_take(space, space->keep, R * d, b->attention.narrow);
    b->middle = space->train ? smoe_arena_take(space->keep, R * d, sizeof(real)) : *stream;
    space->scratch->used = scratch;
    if (!space->train) space->keep->used = keep;
    smoe_norm_reserve(&b->norm2, R, space);
    if (b->is_moe)
        smoe_moe_reserve(&b->moe, space);
    else
        smoe_mlp_reserve(&b->mlp, R, 1, space);
    b->normed2 = b->is_moe && b->moe.again
                     ? b->moe.tokens
                     : smoe_space_take(space, space->keep, R * d, !b->is_moe && b->mlp.narrow);
    b->out = space->train ? smoe_arena_take(space->keep, R * d, sizeof(real)) : *stream;
    space->scratch->used = scratch;
    if (!space->train) space->keep->used = keep;
    *stream = b->out;
}

void smoe_tower_reserve(smoe_tower *t, const smoe_space *space) {
    size_t R = space->B * t->T, size = R * t->d;
    if (space->train) t->dbranch = smoe_arena_take(space->scratch, size, sizeof(real));
    if (space->train && t->build->model->drop_path > 0)
        t->dscaled = smoe_arena_take(space->scratch, size, sizeof(real));
    real *stream = t->in = smoe_arena_take(space->keep, size, sizeof(real));
    for (size_t i = 0; i < t->L; i++) reserve_block(t, &t->blocks[i], &stream, space);
    t->out = stream;
    if (!t->normed) return;
    t->out = smoe_arena_take(space->keep, size, sizeof(real));
    smoe_norm_reserve(&t->norm, R, space);
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* The rows that attention, and the second part of a block, read in this pass; a router's are in
 * F32. */
static smoe_outputs attention_rows(const smoe_block *b) {
    return smoe_outputs_of(b->normed1, smoe_attention_narrow(&b->attention));
}
static smoe_outputs mlp_rows(const smoe_block *b) {
    return smoe_outputs_of(b->normed2, !b->is_moe && smoe_mlp_narrow(&b->mlp));
}

void smoe_tower_forward(smoe_tower *t, const smoe_pass *pass) {
    size_t R = pass->images * t->T, layer = 0;
    for (size_t i = 0; i < t->L; i++) {
        smoe_block *b = &t->blocks[i];
        smoe_outputs normed = attention_rows(b);
        smoe_norm_forward(&b->norm1, normed, b->in, R);
        smoe_clock_lap(pass->clock, SMOE_PART_norm);
        smoe_attention_forward(&b->attention, b->middle, smoe_written(normed), b->in, pass);
        smoe_drop_path_forward(&b->drop1, b->middle, b->in, pass);
        smoe_clock_lap(pass->clock, SMOE_PART_attention);
        normed = mlp_rows(b);
        smoe_norm_forward(&b->norm2, normed, b->middle, R);
        smoe_clock_lap(pass->clock, SMOE_PART_norm);
        if (b->is_moe) {
            smoe_moe_forward(&b->moe, b->out, normed.at, b->middle, pass);
            if (t->watch) t->watch(t->watch_user, layer, b->moe.router);
            layer++;
        } else {
            const smoe_mlp_rows rows = {.first = (const size_t[]){0, R}};
            smoe_mlp_forward(&b->mlp, smoe_reals_out(b->out), smoe_written(normed), b->middle,
                             &rows, pass);
            smoe_clock_lap(pass->clock, SMOE_PART_mlp);
        }
        smoe_drop_path_forward(&b->drop2, b->out, b->middle, pass);
    }
    if (t->normed) smoe_norm_forward(&t->norm, smoe_reals_out(t->out), t->blocks[t->L - 1].out, R);
}

/* The tokens of a layer that does not keep them are computed again. */
static void moe_backward(smoe_block *b, real *dx, const real *dy, size_t R, const smoe_pass *pass) {
    smoe_moe_experts_backward(&b->moe, dy, pass);
    if (b->moe.again) smoe_norm_forward(&b->norm2, mlp_rows(b), b->middle, R);
    smoe_clock_lap(pass->clock, SMOE_PART_norm);
    smoe_moe_tokens_backward(&b->moe, dx, dy, b->normed2, pass);
}

void smoe_tower_backward(smoe_tower *t, real *dx, const real *dout, const smoe_pass *pass) {
    size_t R = pass->images * t->T;
    real *branch = t->dbranch;
    if (t->normed) {
        memset(dx, 0, R * t->d * sizeof *dx);
        smoe_norm_backward(&t->norm, dx, dout, t->blocks[t->L - 1].out, R);
    } else {
        memcpy(dx, dout, R * t->d * sizeof *dx);
    }
    smoe_clock_lap(pass->clock, SMOE_PART_head);
    for (size_t i = t->L; i-- > t->lowest;) {
        smoe_block *b = &t->blocks[i];
        const real *dy = smoe_drop_path_backward(&b->drop2, t->dscaled, dx, pass);
        if (b->is_moe) {
            moe_backward(b, branch, dy, R, pass);
        } else {
            const smoe_mlp_rows rows = {.first = (const size_t[]){0, R}};
            smoe_mlp_backward(&b->mlp, smoe_reals_out(branch), smoe_reals(dy),
                              smoe_written(mlp_rows(b)), &rows, pass);
            smoe_clock_lap(pass->clock, SMOE_PART_mlp);
        }
        smoe_norm_backward(&b->norm2, dx, branch, b->middle, R);
        smoe_clock_lap(pass->clock, SMOE_PART_norm);
        dy = smoe_drop_path_backward(&b->drop1, t->dscaled, dx, pass);
        smoe_attention_backward(&b->attention, branch, dy, smoe_written(attention_rows(b)), pass);
        smoe_clock_lap(pass->clock, SMOE_PART_attention);
        smoe_norm_backward(&b->norm1, dx, branch, b->in, R);
        smoe_clock_lap(pass->clock, SMOE_PART_norm);
    }
}

/* ---- what others may look at ----------------------------------------------------------------- */

bool smoe_tower_finite(const real *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

bool smoe_tower_nonfinite(const smoe_tower *t, const smoe_pass *pass, char *name, size_t size) {
    size_t n = pass->images * t->T * t->d;
    for (size_t i = 0; i < t->L; i++) {
        const smoe_block *b = &t->blocks[i];
        bool attention = smoe_tower_finite(b->middle, n);
        if (attention && smoe_tower_finite(b->out, n)) continue;
        snprintf(name, size, "%sblocks.%zu.%s", t->build->prefix, i, attention ? "mlp" : "attn");
        return true;
    }
    return false;
}
