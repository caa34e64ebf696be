/* How upcycling changes the function of a model; see upcycle.h. */
#include "train/upcycle.h"
#include "spec/routers.h"
#include "tensors/init_map.h"
#include "tensors/params_io.h"

static bool is_copied(const smoe_init_map *from, const smoe_param *param) {
    return smoe_init_map_source(from, param, param->name).way == SMOE_WAY_COPIED;
}

void smoe_upcycle_noise(smoe_params *params, const smoe_safetensors *file, uint64_t seed,
                        double share) {
    enum { RUN = SMOE_PARAM_RUN };
    smoe_init_map from = smoe_init_map_of(params, file, SMOE_FIT_UPCYCLE, "");
    SMOE_FREED real *noise = smoe_alloc(RUN, sizeof *noise);
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *param = &params->param[i];
        if (!is_copied(&from, param) || param->group != SMOE_PARAM_KERNEL) continue;
        real *w = params->w + param->offset;
        double square = 0;
        size_t one = param->whole / param->dim[0]; /* all copies are equal: take the first here */
        for (size_t j = 0; j < param->whole; j++) square += (double)w[j % one] * (double)w[j % one];
        smoe_param drawn = *param; /* with the stream of the tensor's initial values */
        drawn.alike = false;
        drawn.mean = 0;
        drawn.std = share * sqrt(square / (double)param->whole);
        for (size_t first = 0; first < param->size; first += RUN) {
            size_t left = param->size - first, n = left < RUN ? left : RUN;
            smoe_param_initial(noise, &drawn, seed, param->from + first, n);
            for (size_t j = 0; j < n; j++) w[first + j] += noise[j];
        }
    }
}

/* ---- the dense model ------------------------------------------------------------------------- */

typedef struct comparison {
    const smoe_spec *spec;
    smoe_model *model, *dense;
    bool copied[SMOE_MAX_BLOCKS]; /* blocks whose experts are copies */
    size_t classes;
    smoe_likeness_images by;
    void (*say)(const void *user, const char *line);
    const void *user;
} comparison;

#define compare_say(c, ...) compare_say_fresh(c, smoe_text_format(__VA_ARGS__))
static void compare_say_fresh(const comparison *c, char *fresh) {
    SMOE_FREED char *line = fresh;
    c->say(c->user, line);
}

static void find_copied(comparison *c, const smoe_safetensors *file) {
    const smoe_params *params = smoe_model_params(c->model);
    smoe_init_map from = smoe_init_map_of(params, file, SMOE_FIT_UPCYCLE, "");
    for (size_t i = 0; i < c->spec->model.depth; i++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%zu.mlp.experts.fc1.weight", i);
        const smoe_param *param = smoe_params_find(params, name);
        c->copied[i] = param && is_copied(&from, param);
    }
}

/* The numbers of the layers that stay. */
static void series_thin(smoe_series *series, const smoe_moe_spec *moe, const bool *copied,
                        size_t depth) {
    size_t layer = 0, kept = 0;
    for (size_t i = 0; series->listed && i < depth; i++) {
        if (!moe->is_moe[i]) continue;
        if (!copied[i]) series->item[kept++] = series->item[layer];
        layer++;
    }
    series->listed = kept;
}

/* The model of the file: blocks of copies are dense, all others as they are. */
static int open_dense(comparison *c, const smoe_safetensors *file, smoe_err *err) {
    smoe_spec spec = *c->spec; /* its texts stay the other's */
    smoe_moe_spec *moe = &spec.model.moe;
    series_thin(&moe->choice.k, &c->spec->model.moe, c->copied, spec.model.depth);
    series_thin(&moe->choice.capacity, &c->spec->model.moe, c->copied, spec.model.depth);
    for (size_t i = 0; i < spec.model.depth; i++)
        if (c->copied[i]) {
            moe->is_moe[i] = false;
            moe->layer_count--;
        }
    if (smoe_model_create(&c->dense, &spec, c->classes, err)) return -1;
    smoe_params *params = smoe_model_params(c->dense);
    if (smoe_params_allocate(params, 1, err)) return -1;
    params->head_order = smoe_model_params(c->model)->head_order;
    smoe_params_init(params, spec.seed); /* as in the new model, if the file has none */
    if (smoe_params_load(params, file, SMOE_FIT_PARTIAL, NULL, err)) return -1;
    return smoe_model_reserve(c->dense, c->by.batch, false, err);
}

/* ---- the routing ----------------------------------------------------------------------------- */

static double weights_combined(const smoe_plan *plan, size_t token) {
    double sum = 0;
    if (plan->sparse)
        for (int32_t i = plan->list.first[token]; i < plan->list.first[token + 1]; i++)
            sum += (double)plan->list.slot_weight[plan->list.slot[i]];
    else
        for (size_t s = 0; s < plan->S; s++) sum += (double)plan->dense.comb[token * plan->S + s];
    return sum;
}

/* Equal experts compute the same as the MLP if the combine weights of a token sum to 1 and its
 * slots hold no other token. */
static void compare_watch(void *user, size_t i, const smoe_router *router) {
    const comparison *c = user;
    const smoe_plan *plan = &router->plan;
    size_t block = smoe_model_moe_block(c->model, i);
    smoe_plan_stats stats;
    double sum = 0;
    if (!c->copied[block]) return;
    smoe_plan_measure(plan, &stats);
    for (size_t t = 0; t < plan->tokens; t++)
        sum += weights_combined(plan, t) / (double)plan->tokens;
    SMOE_FREED char *more =
        plan->sparse
            ? smoe_text_format("%.3f of the tokens are dropped (1 and 0 preserve the function)",
                               stats.dropped)
            : smoe_text_format("a slot mixes %.1f tokens (1 and 1 preserve the function)",
                               stats.tokens_per_slot);
    compare_say(c, "upcycled block %zu: the combine weights of a token sum to %.3f on average, %s",
                block, sum, more);
}

/* What makes the combine weights of a token sum to 1; NULL: they do, or nothing does. */
static const char *sum_to_one(const smoe_moe_spec *moe) {
    if (!strcmp(moe->router, "tokens-choice"))
        return smoe_moe_renormalizes(moe) ? NULL : "model.moe.topk=before";
    bool heeds = smoe_router_heeds(smoe_router_find(moe->router), "renormalize");
    return heeds && !moe->choice.renormalize ? "model.moe.renormalize=true" : NULL;
}

int smoe_upcycle_compare(const smoe_model_source *upcycled, const smoe_dataset *set, size_t batch,
                         void (*line)(const void *user, const char *line), const void *user,
                         smoe_err *err) {
    enum { MOST = 64 };
    const smoe_spec *spec = upcycled->spec;
    size_t all = smoe_dataset_images(set), images = batch < MOST ? batch : MOST;
    if (images > all) images = all;
    comparison c = {.spec = spec,
                    .model = upcycled->model,
                    .classes = smoe_dataset_classes(set),
                    .by = {set, images, images},
                    .say = line,
                    .user = user};
    find_copied(&c, upcycled->file);
    SMOE_FREED real *before = smoe_alloc(2 * images * c.classes, sizeof *before);
    real *after = before + images * c.classes;
    int status = open_dense(&c, upcycled->file, err);
    if (!status) status = smoe_likeness_logits(before, c.dense, spec, &c.by, err);
    smoe_model_free(c.dense);
    if (status) return -1;
    smoe_model_watch(c.model, compare_watch, &c);
    status = smoe_likeness_logits(after, c.model, spec, &c.by, err);
    smoe_model_watch(c.model, NULL, NULL);
    if (status) return -1;
    char text[320];
    smoe_likeness likeness = smoe_likeness_of(before, after, images, c.classes);
    smoe_likeness_text(text, sizeof text, &likeness);
    const char *key = sum_to_one(&spec->model.moe);
    if (likeness.preserved || !smoe_moe_chooses(&spec->model.moe))
        compare_say(&c, "upcycled: %s", text);
    else
        compare_say(&c, "upcycled: %s; %s%sa larger capacity drops fewer tokens", text,
                    key ? key : "", key ? " makes weights sum to 1, " : "");
    return 0;
}
