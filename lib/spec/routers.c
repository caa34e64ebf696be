/* The table of routers, and functions that read it; see routers.h. */
#include "spec/routers.h"

#define ROUTER(name, type, family, learns_dispatch, learns_combine, summary, keys) \
    {name, summary, keys, SMOE_FAMILY_##family, learns_dispatch, learns_combine},
const smoe_router_entry smoe_routers[SMOE_ROUTERS] = {
#include "spec/routers.def"
};

const smoe_router_entry *smoe_router_find(const char *name) {
    for (size_t i = 0; i < SMOE_ROUTERS; i++)
        if (!strcmp(smoe_routers[i].name, name)) return &smoe_routers[i];
    return NULL;
}

bool smoe_router_heeds(const smoe_router_entry *router, const char *key) {
    static const char all[] = "layers router mix_precision expert_dropout expert_mlp "
                              "universal_experts universal_mlp shared_experts";
    return !router || smoe_text_has_word(all, ' ', key) ||
           smoe_text_has_word(router->keys, ' ', key);
}

bool smoe_router_gated(const smoe_router_entry *router) {
    return router && router->family != SMOE_FAMILY_SOFT && router->family != SMOE_FAMILY_FIXED;
}

bool smoe_router_counts_experts(const smoe_router_entry *router) {
    return smoe_router_gated(router) && router->family != SMOE_FAMILY_EXPERTS_CHOICE;
}

bool smoe_moe_chooses(const smoe_moe_spec *moe) {
    return smoe_moe_choices(moe, 0) > 0;
}

size_t smoe_moe_eval_batch(const smoe_spec *spec, size_t most) {
    const smoe_moe_spec *moe = &spec->model.moe;
    size_t batch = spec->eval.batch_size, group = moe->choice.group_images;
    if (!smoe_moe_chooses(moe)) return batch < most ? batch : most;
    batch = batch > group ? batch - batch % group : group;
    return batch <= most ? batch : (most + group - 1) / group * group;
}

size_t smoe_moe_choices(const smoe_moe_spec *moe, size_t block) {
    const smoe_router_entry *router = smoe_router_find(moe->router);
    if (!router) return 0;
    if (router->family == SMOE_FAMILY_TOKENS_CHOICE || router->family == SMOE_FAMILY_IMAGES_CHOICE)
        return smoe_moe_k(moe, block);
    return router->family == SMOE_FAMILY_EXPERTS_CHOICE;
}

bool smoe_moe_drops_nothing(const smoe_moe_spec *moe) {
    return moe->layer_count && !smoe_router_gated(smoe_router_find(moe->router));
}

/* Half to even is the default rounding mode, which nearbyint follows. */
size_t smoe_moe_slots_per_expert(const smoe_moe_spec *moe, size_t block, size_t tokens) {
    if (moe->slots_per_expert) return moe->slots_per_expert;
    if (moe->total_slots) return moe->total_slots / moe->experts;
    const smoe_router_entry *router = smoe_router_find(moe->router);
    if (router && router->family == SMOE_FAMILY_FIXED)
        return (tokens + moe->experts - 1) / moe->experts;
    double slots = nearbyint((double)tokens * smoe_moe_ratio(moe, block) / (double)moe->experts);
    return slots < 1 ? 1 : (size_t)slots;
}

size_t smoe_moe_places(const smoe_moe_spec *moe, size_t block, size_t tokens, size_t image_tokens) {
    const smoe_router_entry *router = smoe_router_find(moe->router);
    size_t places;
    switch (router ? router->family : SMOE_FAMILY_SOFT) {
    case SMOE_FAMILY_FIXED: return (tokens + moe->experts - 1) / moe->experts;
    case SMOE_FAMILY_TOKENS_CHOICE:
        return smoe_moe_capacity(moe, block, tokens, smoe_moe_k(moe, block));
    case SMOE_FAMILY_IMAGES_CHOICE:
        return image_tokens *
               smoe_moe_capacity(moe, block, tokens / image_tokens, smoe_moe_k(moe, block));
    case SMOE_FAMILY_THRESHOLD: return tokens;
    case SMOE_FAMILY_EXPERTS_CHOICE:
        places = smoe_moe_capacity(moe, block, tokens, 1);
        return places < tokens ? places : tokens;
    case SMOE_FAMILY_SOFT: break;
    }
    return smoe_moe_slots_per_expert(moe, block, tokens);
}

smoe_moe_shape smoe_moe_shape_of(const smoe_moe_spec *moe, size_t block, size_t image_tokens) {
    size_t K = smoe_moe_choices(moe, block), images = K ? moe->choice.group_images : 1;
    smoe_moe_shape x = {.images = images,
                        .T = images * image_tokens,
                        .E = moe->experts,
                        .K = K,
                        .capacity = smoe_moe_ratio(moe, block)};
    x.P = smoe_moe_places(moe, block, x.T, image_tokens);
    x.S = x.E * x.P;
    return x;
}
