/* Resolving the blocks with experts: which they are, and the keys of experts, slots and routers. */
#include "spec/resolve.h"
#include "spec/routers.h"
#include "spec/tasks.h"

/* ---- blocks with experts --------------------------------------------------------------------- */

/* A key that selects blocks: a word such as last-N counts among `from`, in rising order; a list
 * names some of them. */
typedef struct picking {
    const char *const *keys; /* whom a clash may blame */
    const char *text;        /* the canonical one of value.c */
    bool *picked;            /* [blocks of the model] */
    const size_t *from;
    size_t count;
} picking;

static bool pick(const picking *p, size_t block) {
    for (size_t i = 0; i < p->count; i++)
        if (p->from[i] == block) return p->picked[block] = true;
    return false;
}

static void pick_listed(smoe_reading *reading, const picking *p) {
    size_t depth = reading->spec->model.depth;
    for (char *c = (char *)p->text + 1; *c && *c != ']';) {
        size_t block = strtoul(c, &c, 10);
        if (pick(p, block))
            ;
        else if (block < depth)
            clash(reading, p->keys, "block %zu has no experts: see model.moe.layers", block);
        else
            clash(reading, p->keys, "no block %zu: the model has blocks 0 to %zu", block,
                  depth - 1);
        while (*c == ',' || *c == ' ') c++;
    }
}

/* V-MoE's last-even-N are the last N of every second block, blocks 21 and 23 of 24 for N = 2. */
static void pick_blocks(smoe_reading *reading, const picking *p) {
    size_t all = p->count, half = all > 1 ? all / 2 : 1, n;
    if (*p->text == '[') {
        pick_listed(reading, p);
    } else if (sscanf(p->text, "every-%zu", &n) == 1) {
        if (n > all)
            clash(reading, p->keys, "every-%zu of %zu blocks selects none: use every-%zu at most",
                  n, all, all);
        for (size_t i = n - 1; i < all; i += n) pick(p, p->from[i]);
    } else if (sscanf(p->text, "last-even-%zu", &n) == 1) {
        size_t even = all / 2;
        if (n > even)
            clash(reading, p->keys, "last-even-%zu: of %zu blocks, %zu are even", n, all, even);
        for (size_t i = 0; i < n && i < even; i++) pick(p, p->from[2 * (even - i) - 1]);
    } else if (strcmp(p->text, "none")) {
        if (sscanf(p->text, "last-%zu", &n) != 1) n = !strcmp(p->text, "all") ? all : half;
        if (n > all)
            clash(reading, p->keys, "last-%zu of %zu blocks: use last-%zu at most, or last-half", n,
                  all, all);
        for (size_t i = 0; i < n && i < all; i++) pick(p, p->from[all - 1 - i]);
    }
}

void smoe_resolve_layers(smoe_reading *reading) {
    smoe_model_spec *model = &reading->spec->model;
    size_t all[SMOE_MAX_BLOCKS];
    if (!strcmp(model->moe.layers, "last-half")) {
        char fixed[32];
        snprintf(fixed, sizeof fixed, "last-%zu", model->depth > 1 ? model->depth / 2 : 1);
        smoe_resolve_set(reading, "model.moe.layers", fixed);
    }
    for (size_t i = 0; i < model->depth; i++) all[i] = i;
    pick_blocks(reading,
                &(picking){.keys = KEYS("model.moe.layers", "model.depth", "model.variant"),
                           .text = model->moe.layers,
                           .picked = model->moe.is_moe,
                           .from = all,
                           .count = model->depth});
    model->moe.layer_count = 0;
    for (size_t i = 0; i < model->depth; i++) model->moe.layer_count += model->moe.is_moe[i];
}

/* `router: random` stands for tokens-choice with random scores in every layer. */
void smoe_resolve_random(smoe_reading *reading) {
    smoe_model_spec *model = &reading->spec->model;
    size_t with[SMOE_MAX_BLOCKS], count = 0;
    if (!strcmp(model->moe.router, "random")) {
        smoe_resolve_set(reading, "model.moe.router", "tokens-choice");
        smoe_resolve_set(reading, "model.moe.random_layers", "all");
        smoe_resolve_origin(reading, "model.moe.random_layers")->kind = SMOE_FROM_FITTED;
    }
    for (size_t i = 0; i < model->depth; i++)
        if (model->moe.is_moe[i]) with[count++] = i;
    if (!count) return; /* a dense model */
    pick_blocks(reading, &(picking){.keys = KEYS("model.moe.random_layers", "model.moe.layers"),
                                    .text = model->moe.random.layers,
                                    .picked = model->moe.random.is_random,
                                    .from = with,
                                    .count = count});
}

/* ---- experts and slots ----------------------------------------------------------------------- */

/* One of slots_per_expert and total_slots counts: the one set closer to the user. Set equally
 * close, they must agree. */
static void resolve_slots(smoe_reading *reading) {
    static const char *const each = "model.moe.slots_per_expert", *const all =
                                                                      "model.moe.total_slots";
    smoe_moe_spec *moe = &reading->spec->model.moe;
    if (!moe->total_slots || !moe->slots_per_expert) return;
    if (!smoe_resolve_given(reading, each)) {
        moe->slots_per_expert = 0;
        smoe_resolve_origin(reading, each)->kind = SMOE_FROM_FITTED;
    } else if (smoe_resolve_gives_way(reading, each, all, SMOE_FROM_FITTED)) {
        moe->slots_per_expert = 0;
    } else if (smoe_resolve_gives_way(reading, all, each, SMOE_FROM_FITTED)) {
        moe->total_slots = 0;
    }
}

static void check_slots(smoe_reading *reading) {
    smoe_moe_spec *moe = &reading->spec->model.moe;
    size_t P = moe->slots_per_expert, S = moe->total_slots, E = moe->experts;
    if (S % E) {
        size_t down = S / E * E;
        clash(reading, KEYS("model.moe.total_slots", "model.moe.experts"),
              "%zu slot%s cannot be shared equally by %zu experts: use a multiple such as %zu", S,
              SMOE_S(S), E, down ? down : E);
    } else if (P && S && P * E != S)
        clash(reading,
              KEYS("model.moe.total_slots", "model.moe.slots_per_expert", "model.moe.experts"),
              "experts times slots_per_expert is %zu, not %zu: give slots_per_expert or "
              "total_slots, and 0 for the other",
              P * E, S);
}

/* The largest K of the MoE layers. */
static size_t most_choices(const smoe_spec *spec) {
    size_t most = 0;
    for (size_t i = 0; i < spec->model.depth; i++) {
        size_t choices = spec->model.moe.is_moe[i] ? smoe_moe_k(&spec->model.moe, i) : 0;
        if (choices > most) most = choices;
    }
    return most;
}

/* Super-classes are what a gate for whole images can be taught, by a task that has classes. */
static void check_superclasses(smoe_reading *reading, const smoe_router_entry *router) {
    const smoe_moe_spec *moe = &reading->spec->model.moe;
    const smoe_indices *list = &moe->balance.superclasses;
    if (moe->balance.way != SMOE_BALANCE_SUPERCLASS) return;
    if (smoe_router_heeds(router, "balance") && router->family != SMOE_FAMILY_IMAGES_CHOICE)
        clash(reading, KEYS("model.moe.balance", "model.moe.router"),
              "router %s chooses for each token, which has no super-class: use router "
              "images-choice, or balance loss",
              moe->router);
    if (smoe_task_pairs(reading->spec->train.loss))
        clash(reading, KEYS("model.moe.balance", "train.loss"),
              "captions have no super-classes: use balance loss, or train.loss softmax");
    for (size_t c = 0; c < list->count; c++) {
        if (list->item[c] < moe->experts) continue;
        clash(reading, KEYS("model.moe.superclasses", "model.moe.experts"),
              "class %zu has super-class %u, but %zu experts have only 0 to %zu", c, list->item[c],
              moe->experts, moe->experts - 1);
        return;
    }
}

static void check_router(smoe_reading *reading) {
    const smoe_spec *spec = reading->spec;
    const smoe_moe_spec *moe = &spec->model.moe;
    const smoe_router_entry *router = smoe_router_find(moe->router);
    size_t T = smoe_spec_tokens(spec), choices = smoe_moe_choices(moe, 0);
    bool gates = smoe_router_heeds(router, "gate");
    if (smoe_router_counts_experts(router) && most_choices(spec) > moe->experts)
        clash(reading, KEYS("model.moe.k", "model.moe.experts"),
              "a token cannot choose %zu of %zu expert%s: use k of %zu at most", most_choices(spec),
              moe->experts, SMOE_S(moe->experts), moe->experts);
    if (router->family == SMOE_FAMILY_THRESHOLD && moe->balance.way == SMOE_BALANCE_BIAS)
        clash(reading, KEYS("model.moe.balance", "model.moe.router"),
              "router %s has no biases: use loss or none", moe->router);
    check_superclasses(reading, router);
    if (gates && smoe_moe_renormalizes(moe) && moe->choice.priority == SMOE_PRIORITY_BPR_SUM)
        clash(reading,
              KEYS("model.moe.priority",
                   moe->choice.renormalize ? "model.moe.renormalize" : "model.moe.topk"),
              "with %s, the K weights of every token sum to 1: use priority bpr, or %s",
              moe->choice.renormalize ? "renormalize" : "topk before",
              moe->choice.renormalize ? "renormalize false" : "topk after");
    bool learnt = moe->choice.priority == SMOE_PRIORITY_LEARNT ||
                  moe->choice.priority == SMOE_PRIORITY_LEARNT_SIGMOID;
    if (learnt && router->family == SMOE_FAMILY_IMAGES_CHOICE)
        clash(reading, KEYS("model.moe.priority", "model.moe.router"),
              "router %s has no learnt priority: use tokens-choice, or priority bpr", moe->router);
    if (gates && moe->choice.gate == SMOE_GATE_SIGMOID && moe->choice.topk == SMOE_TOPK_BEFORE)
        clash(
            reading, KEYS("model.moe.topk", "model.moe.gate"),
            "topk before is a softmax over the chosen experts: use renormalize with gate sigmoid");
    if (!choices && strcmp(moe->random.layers, "none"))
        clash(
            reading, KEYS("model.moe.random_layers", "model.moe.router"),
            "router %s makes no choices that could be random; use tokens-choice or experts-choice",
            moe->router);
    size_t piece = spec->train.batch_size / spec->train.pieces;
    if (choices && !reading->trained && piece % moe->choice.group_images)
        clash(reading, KEYS("model.moe.group_images", "train.batch_size", "train.pieces"),
              "groups of %zu images do not divide the %s of %zu: use groups that divide it, "
              "or a multiple of %zu images",
              moe->choice.group_images, spec->train.pieces > 1 ? "pieces" : "batch", piece,
              moe->choice.group_images);
    if (moe->expert.universal >= moe->experts)
        clash(reading, KEYS("model.moe.universal_experts", "model.moe.experts"),
              "%zu universal experts of %zu leave no other: use at most %zu", moe->expert.universal,
              moe->experts, moe->experts - 1);
    size_t P = smoe_moe_slots_per_expert(moe, 0, T), E = moe->experts;
    if (router->family == SMOE_FAMILY_FIXED && P && P * E < T)
        clash(reading, KEYS("model.moe.router", "model.moe.slots_per_expert", "model.moe.experts"),
              "%s needs one slot for each of %zu tokens, but experts times slots_per_expert is "
              "%zu: use %zu slots_per_expert",
              moe->router, T, P * E, (T + E - 1) / E);
}

/* The default group is adapted to divide the pieces of a batch; a given group is only checked. */
static void fit_group(smoe_reading *reading) {
    smoe_spec *spec = reading->spec;
    size_t *group = &spec->model.moe.choice.group_images;
    size_t piece = spec->train.batch_size / spec->train.pieces;
    if (smoe_resolve_given(reading, "model.moe.group_images") || piece % *group == 0) return;
    while (piece % *group) --*group;
    smoe_resolve_origin(reading, "model.moe.group_images")->kind = SMOE_FROM_FITTED;
}

void smoe_resolve_moe(smoe_reading *reading) {
    smoe_moe_spec *moe = &reading->spec->model.moe;
    fit_group(reading);
    resolve_slots(reading);
    if (!moe->layer_count) return; /* a dense model: the keys of experts do not matter */
    smoe_resolve_series(reading, "model.moe.k", &moe->choice.k, "model.moe.layers",
                        moe->layer_count);
    smoe_resolve_series(reading, "model.moe.capacity", &moe->choice.capacity, "model.moe.layers",
                        moe->layer_count);
    check_slots(reading);
    check_router(reading);
}
