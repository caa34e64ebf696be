/*
 * The Vision Transformer: the encoder of images and, where images are compared with captions, that
 * of texts (encoder.h), and their similarities. This file owns the parameters and the memory of a
 * pass.
 */
#include "vit/model.h"
#include "math/rows.h"
#include "spec/routers.h"
#include "spec/tasks.h"

static const smoe_encoder_type *const types[SMOE_TOWERS] = {
#define TOWER(number, type, ...) [SMOE_TOWER_##number] = &type,
#include "vit/towers.def"
};

struct smoe_model {
    smoe_spec spec; /* its strings are borrowed from the caller's spec */
    smoe_params params;
    smoe_encoder *encoder[SMOE_TOWERS]; /* owned; NULL: the task asks for none */
    bool paired;                        /* images are compared with texts */
    smoe_pairs pairs;
    smoe_inputs in; /* of the last pass */
    smoe_arena keep, scratch;
    smoe_space bound;             /* the sizes that the buffers were reserved for; B is 0 before */
    smoe_expert_parallel experts; /* the block has one process where they are not sharded */
    void *held;
    void (*release)(void *held);
};

static smoe_encoder *image_of(const smoe_model *m) {
    return m->encoder[SMOE_TOWER_IMAGE];
}

/* Whose rows are compared with those of images. */
static smoe_encoder *text_of(const smoe_model *m) {
    return m->encoder[SMOE_TOWER_TEXT];
}

/* ---- groups of parameters -------------------------------------------------------------------- */

static bool matches_row(const smoe_group *group, const smoe_params *params) {
    for (size_t i = 0; i < params->count; i++)
        if (smoe_group_matches(group, params->param[i].name)) return true;
    return false;
}

/* Whether the pattern would match with another router, or with experts in other blocks, so that one
 * spec can be used for all settings of an ablation. */
static bool matches_other(const smoe_group *group, const smoe_spec *spec) {
    bool found = false;
    for (size_t i = 0; i <= SMOE_ROUTERS && !found; i++) {
        smoe_spec other = *spec;
        smoe_model *model = NULL;
        smoe_moe_spec *moe = &other.model.moe;
        other.train.optimizer.groups.count = 0;
        moe->router = (char *)smoe_routers[i % SMOE_ROUTERS].name;
        moe->soft.normalize = true;
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
        const smoe_group *group = &groups->group[k];
        if (matches_row(group, params) || matches_other(group, &m->spec)) continue;
        char place[256];
        return smoe_fail(err, SMOE_USAGE,
                         "%s: train.optimizer.groups: no tensor matches \"%s\"; smoe-checkpoint(5) "
                         "lists their names",
                         smoe_group_place(&m->spec, group, place, sizeof place), group->match);
    }
    for (size_t i = 0; i < params->count; i++) {
        smoe_param *param = &params->param[i];
        size_t k = 0;
        while (k < groups->count && !smoe_group_matches(&groups->group[k], param->name)) k++;
        if (k == groups->count) continue;
        const smoe_group *group = &groups->group[k];
        param->rule = (smoe_param_rule){group->lr, group->decay, group->until};
        param->frozen = param->state || group->frozen;
    }
    smoe_params_place(params);
    if (smoe_params_trained(params)) return 0;
    return smoe_fail(err, SMOE_USAGE,
                     "train.optimizer.groups: all tensors are frozen, nothing is trained");
}

/* How far back gradients must be computed: the parameters of an encoder are in the order of its
 * pass, and the first trained one belongs to its embedding, a block or the head. */
static void find_lowest(const smoe_model *m, smoe_encoder *e) {
    size_t row = e->first;
    while (row < e->end && m->params.param[row].frozen) row++;
    e->trained = row < e->end;
    e->embed_trained = row < e->blocks;
    smoe_tower_stop_at(&e->tower, row);
}

/* ---- making one ------------------------------------------------------------------------------ */

/* *site: the first number that no encoder uses for its random streams. */
static int create_encoder(smoe_model *m, smoe_tower_number number, size_t classes, size_t *site,
                          smoe_err *err) {
    const smoe_encoder_type *type = types[number];
    if (type->wanted && !type->wanted(&m->spec)) return 0;
    smoe_encoder *e = m->encoder[number] = smoe_alloc(1, type->size);
    e->type = type;
    e->first = m->params.count;
    e->build = (smoe_build){.spec = &m->spec, .params = &m->params, .site = *site};
    if (type->init(e, classes, err)) return -1;
    e->end = m->params.count;
    *site += e->tower.L + 1;
    return 0;
}

/* A list of super-classes has a number for each class of the data. */
static int model_check_superclasses(const smoe_spec *spec, size_t classes, smoe_err *err) {
    size_t listed = spec->model.moe.balance.superclasses.count;
    if (!listed || listed == classes || !smoe_spec_acts(spec, "model.moe.superclasses")) return 0;
    return smoe_fail(err, SMOE_USAGE,
                     "model.moe.superclasses: %zu number%s for %zu classes: give one for each",
                     listed, SMOE_S(listed), classes);
}

int smoe_model_create(smoe_model **model, const smoe_spec *spec, size_t classes, smoe_err *err) {
    SMOE_FREED_BY(smoe_model_freed) smoe_model *m = smoe_alloc(1, sizeof *m);
    size_t site = 0;
    *model = NULL;
    if (model_check_superclasses(spec, classes, err)) return -1;
    m->spec = *spec;
    m->experts.block = smoe_comm_alone;
    m->paired = smoe_task_pairs(spec->train.loss);
    for (int i = 0; i < SMOE_TOWERS; i++)
        if (create_encoder(m, (smoe_tower_number)i, classes, &site, err)) return -1;
    if (m->paired) smoe_pairs_init(&m->pairs, &m->params, &m->spec, image_of(m)->N);
    if (apply_groups(m, err)) return -1;
    for (int i = 0; i < SMOE_TOWERS; i++)
        if (m->encoder[i]) find_lowest(m, m->encoder[i]);
    *model = m;
    m = NULL; /* it is the caller's */
    return 0;
}

void smoe_model_free(smoe_model *m) {
    if (!m) return;
    for (int i = 0; i < SMOE_TOWERS; i++) {
        if (m->encoder[i]) m->encoder[i]->type->free(m->encoder[i]);
        free(m->encoder[i]);
    }
    smoe_expert_parallel_free(&m->experts);
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

/* ---- experts in several processes ------------------------------------------------------------ */

static smoe_moe *moe_at(const smoe_model *m, size_t i) {
    const smoe_tower *tower = &image_of(m)->tower;
    return &tower->blocks[tower->moe[i]].moe;
}

void smoe_model_shard(smoe_model *m, smoe_comm *comm, double over, size_t pieces) {
    size_t n = (size_t)comm->size, layers = smoe_model_moe_layers(m);
    if (!image_of(m) || !layers) return;
    if (over != SMOE_WORD && (size_t)over < n) n = (size_t)over;
    for (size_t i = 0; i < layers; i++)
        for (size_t k = 0; k < moe_at(m, i)->groups; k++)
            while (n > moe_at(m, i)->experts[k].count) n /= 2;
    if (n < 2) return;
    smoe_expert_parallel *s = &m->experts;
    s->block = smoe_comm_part(comm, comm->rank / (int)n * (int)n, 1, (int)n);
    s->pieces = pieces;
    s->levels = smoe_rows_levels(pieces);
    s->block_levels = smoe_rows_levels(n);
    for (size_t i = 0; i < layers; i++) smoe_expert_parallel_shard(moe_at(m, i), s);
    smoe_params_place(&m->params);
}

smoe_expert_parallel *smoe_model_expert_parallel(smoe_model *m) {
    return m->experts.block.size > 1 ? &m->experts : NULL;
}

void smoe_model_serve(smoe_model *m) {
    const smoe_pass pass = {.images = 1};
    smoe_encoder *e = image_of(m);
    if (!smoe_model_expert_parallel(m)) return;
    e->build.precision = smoe_spec_precision(&m->spec, false);
    while (smoe_expert_parallel_goes_on(&m->experts, false))
        for (size_t i = 0; i < smoe_model_moe_layers(m); i++)
            smoe_expert_parallel_serve(moe_at(m, i), &pass);
}

void smoe_model_expect(const smoe_model *m, size_t forwards, smoe_sent *sent) {
    for (size_t i = 0; m->experts.block.size > 1 && i < smoe_model_moe_layers(m); i++)
        smoe_expert_parallel_expect(moe_at(m, i), forwards, sent);
}

/* ---- cost ------------------------------------------------------------------------------------ */

/* What lies before the first trained parameter has only a forward pass. */
void smoe_model_cost(const smoe_model *m, smoe_costs *costs) {
    for (int i = 0; i < SMOE_TOWERS; i++) {
        const smoe_encoder *e = m->encoder[i];
        size_t first = costs->count;
        if (e) e->type->cost(e, costs);
        if (e && !e->trained) smoe_costs_forward_only(costs, first);
    }
    if (m->paired) smoe_pairs_cost(&m->pairs, costs, m->spec.train.batch_size);
    smoe_costs_freeze(costs);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Encoders compute one after another, so they share their scratch. */
static void model_reserve(smoe_model *m, const smoe_space *space) {
    size_t scratch = space->scratch->used;
    for (int i = 0; i < SMOE_TOWERS; i++) {
        smoe_encoder *e = m->encoder[i];
        smoe_space own = *space;
        if (!e) continue;
        own.train = space->train && e->trained;
        space->scratch->used = scratch;
        e->type->reserve(e, &own);
    }
    if (!m->paired) return;
    smoe_space pairs = *space; /* in training, of all pieces of a batch */
    if (space->train && pairs.B < m->spec.train.batch_size) pairs.B = m->spec.train.batch_size;
    smoe_pairs_reserve(&m->pairs, &pairs);
}

/* Gives every buffer its place in the arenas. */
static void model_bind(smoe_model *m) {
    m->keep.used = m->scratch.used = 0;
    model_reserve(m, &m->bound);
}

/* Evaluations take place between training steps. */
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
    model_reserve(m, &space);
    if (m->bound.B) model_bind(m);
    return keep.peak == SIZE_MAX || scratch.peak == SIZE_MAX ? SIZE_MAX : keep.peak + scratch.peak;
}

int smoe_model_reserve(smoe_model *m, size_t B, bool train, smoe_err *err) {
    smoe_arena_free(&m->keep);
    smoe_arena_free(&m->scratch);
    smoe_space space = space_of(m, &m->keep, &m->scratch, B, train);
    m->bound.B = 0;
    model_reserve(m, &space);
    if (smoe_arena_bind(&m->keep, err) || smoe_arena_bind(&m->scratch, err))
        return smoe_fail_prefix(err, "activations of %zu images", B);
    m->bound = space;
    model_bind(m);
    return 0;
}

/* ---- passes ---------------------------------------------------------------------------------- */

static void model_encode(smoe_model *m, smoe_encoder *e, const smoe_pass *pass) {
    smoe_pass own = *pass;
    own.train = pass->train && e->trained;
    e->build.precision = smoe_spec_precision(&m->spec, pass->train);
    smoe_clock_start(pass->clock);
    e->type->forward(e, &m->in, &own);
}

void smoe_model_forward(smoe_model *m, const real *pixels, const smoe_pass *pass) {
    m->in.pixels = pixels;
    if (m->experts.block.size > 1 && !pass->train)
        (void)smoe_expert_parallel_goes_on(&m->experts, true);
    model_encode(m, image_of(m), pass);
}

void smoe_model_forward_texts(smoe_model *m, const uint32_t *tokens, const size_t *lengths,
                              const smoe_pass *pass) {
    m->in.tokens = tokens;
    m->in.lengths = lengths;
    model_encode(m, text_of(m), pass);
}

void smoe_model_embed_pairs(smoe_model *m, const smoe_inputs *in, const smoe_pass *pass) {
    smoe_model_forward(m, in->pixels, pass);
    smoe_model_forward_texts(m, in->tokens, in->lengths, pass);
}

const real *smoe_model_compare(smoe_model *m, const real *images, const real *texts, size_t B) {
    smoe_pairs_forward(&m->pairs, images, texts, B);
    return m->pairs.logits;
}

void smoe_model_forward_pairs(smoe_model *m, const smoe_inputs *in, const smoe_pass *pass) {
    smoe_model_embed_pairs(m, in, pass);
    smoe_model_compare(m, smoe_model_logits(m), smoe_model_texts(m), pass->images);
    smoe_clock_lap(pass->clock, SMOE_PART_head);
}

void smoe_model_compare_backward(smoe_model *m, const real *dlogits, size_t B, bool learns) {
    smoe_pairs_backward(&m->pairs, dlogits, B, learns);
}

void smoe_model_backward(smoe_model *m, const real *dlogits, const smoe_pass *pass) {
    smoe_clock_start(pass->clock);
    for (int i = 0; i < SMOE_TOWERS; i++) {
        smoe_encoder *e = m->encoder[i];
        if (!e || !e->trained) continue;
        const real *dout =
            m->paired ? m->pairs.d[i != SMOE_TOWER_IMAGE] + pass->first * m->pairs.D : dlogits;
        e->type->backward(e, dout, &m->in, pass);
    }
}

void smoe_model_bound(smoe_model *m) {
    if (m->paired) smoe_pairs_bound(&m->pairs);
}

/* ---- what others may look at ----------------------------------------------------------------- */

const real *smoe_model_logits(const smoe_model *m) {
    return image_of(m)->out;
}
const real *smoe_model_features(const smoe_model *m) {
    return smoe_encoder_image_features(image_of(m));
}
const real *smoe_model_texts(const smoe_model *m) {
    return text_of(m)->out;
}
const smoe_pairs *smoe_model_pairs(const smoe_model *m) {
    return m->paired ? &m->pairs : NULL;
}
size_t smoe_model_width(const smoe_model *m) {
    return image_of(m)->N;
}

smoe_plan_losses smoe_model_losses(const smoe_model *m) {
    smoe_plan_losses sum = {0};
    for (size_t i = 0; i < smoe_model_moe_layers(m); i++) {
        const smoe_plan_losses *x = &smoe_model_router(m, i)->plan.losses;
        sum.aux += x->aux;
        sum.z += x->z;
        sum.weighted += x->weighted;
    }
    return sum;
}

void smoe_model_counts(const smoe_model *m, double *counts) {
    for (size_t i = 0; smoe_model_routes(m) && i < smoe_model_moe_layers(m); i++) {
        const smoe_router *r = smoe_model_router(m, i);
        for (size_t e = 0; e < r->counted; e++) *counts++ = r->counts[e];
    }
}

void smoe_model_settle(smoe_model *m, const double *counts, const smoe_pass *pass) {
    for (size_t i = 0; smoe_model_routes(m) && i < smoe_model_moe_layers(m); i++) {
        smoe_router *r = moe_at(m, i)->router;
        if (r->counted) r->type->settle(r, counts, pass);
        counts += r->counted;
    }
}

size_t smoe_model_summed(const smoe_model *m) {
    size_t sum = 0;
    for (size_t i = 0; i < smoe_model_moe_layers(m); i++) sum += smoe_model_router(m, i)->summed;
    return sum;
}

void smoe_model_sums(const smoe_model *m, double *sums, bool set) {
    for (size_t i = 0; i < smoe_model_moe_layers(m); i++) {
        const smoe_router *r = smoe_model_router(m, i);
        memcpy(set ? r->sums : sums, set ? sums : r->sums, r->summed * sizeof *sums);
        sums += r->summed;
    }
}

/* Writes to `name` the first layer of an encoder whose output in the last training pass has a value
 * that is not finite; false: there is none. */
static bool model_nonfinite_in(const smoe_encoder *e, const smoe_pass *pass, char *name,
                               size_t size) {
    if (!smoe_tower_finite(e->tower.in, pass->images * e->build.T * e->tower.d)) {
        snprintf(name, size, "%s", e->type->input);
    } else if (smoe_tower_nonfinite(&e->tower, pass, name, size)) {
        if (e->type->rename) e->type->rename(name, size);
    } else {
        if (smoe_tower_finite(e->out, pass->images * e->N)) return false;
        snprintf(name, size, "%s", e->type->output);
    }
    return true;
}

void smoe_model_nonfinite(const smoe_model *m, const smoe_pass *pass, char *name, size_t size) {
    snprintf(name, size, "loss");
    for (int i = 0; i < SMOE_TOWERS; i++) {
        const smoe_encoder *e = m->encoder[i];
        if (e && e->trained && model_nonfinite_in(e, pass, name, size)) return;
    }
}

size_t smoe_model_moe_layers(const smoe_model *m) {
    return image_of(m)->tower.moe_layers;
}
size_t smoe_model_moe_block(const smoe_model *m, size_t i) {
    return image_of(m)->tower.moe[i];
}

const smoe_router *smoe_model_router(const smoe_model *m, size_t i) {
    return moe_at(m, i)->router;
}

bool smoe_model_routes(const smoe_model *m) {
    return image_of(m)->trained && image_of(m)->tower.moe_layers;
}

void smoe_model_randomise(smoe_model *m, const bool *random) {
    memcpy(m->spec.model.moe.random.is_random, random, image_of(m)->tower.L * sizeof *random);
}

void smoe_model_watch(smoe_model *m, smoe_tower_watch *watch, void *user) {
    image_of(m)->tower.watch = watch;
    image_of(m)->tower.watch_user = user;
}
