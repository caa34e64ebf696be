/*
 * Hash routing, a control: the expert of a token follows only from its position in the image. Each
 * block has a random permutation of the positions, which are assigned to the experts in turn, so
 * loads differ by one token at most. Nothing is learnt, and the weight is 1 (Roller et al., Hash
 * Layers: they hash words; images have positions instead). The permutation depends only on the
 * block, so a model need not store it.
 */
#include "route/router.h"

typedef struct hash_router {
    smoe_router base;
    uint32_t *order; /* [T] positions; number i goes to expert i mod E */
} hash_router;

static void hash_reserve(smoe_router *r, size_t B, bool train, smoe_arena *keep) {
    hash_router *self = (hash_router *)r;
    smoe_router_dealt_reserve(r, B, train, keep);
    self->order = smoe_arena_take(keep, r->T, sizeof *self->order);
}

static void hash_forward(smoe_router *r, const real *x, const smoe_pass *pass) {
    (void)x;
    hash_router *self = (hash_router *)r;
    smoe_rng rng = smoe_rng_at(0, SMOE_RNG_HASH, (uint32_t)r->site, 0, 0);
    smoe_rng_permutation(&rng, self->order, r->T);
    smoe_router_deal(r, self->order, pass);
}

const smoe_router_type smoe_router_hash = {
    .size = sizeof(hash_router),
    .init = smoe_router_dealt_init,
    .reserve = hash_reserve,
    .cost = smoe_router_dealt_cost,
    .forward = hash_forward,
};
