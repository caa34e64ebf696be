/*
 * Routers as specs and costs see them: the entries of spec/routers.def without the code, which is
 * in route/. Everything that depends on the router is read from its entry; no code compares its
 * name.
 */
#pragma once

#include "spec/spec.h"

/* How experts get their inputs. */
typedef enum smoe_router_family {
    SMOE_FAMILY_SOFT,          /* an expert has P slots, each a mix of all tokens of an image */
    SMOE_FAMILY_FIXED,         /* tokens go to experts by a fixed rule, each into its own slot */
    SMOE_FAMILY_TOKENS_CHOICE, /* a token chooses K experts, whose buffers are of fixed size */
    SMOE_FAMILY_IMAGES_CHOICE, /* the same for whole images, whose tokens stay together */
    SMOE_FAMILY_THRESHOLD,     /* a token goes to any number of experts; buffers hold all tokens */
    SMOE_FAMILY_EXPERTS_CHOICE /* an expert chooses as many tokens as its buffer holds */
} smoe_router_family;

typedef struct smoe_router_entry {
    const char *name, *summary, *keys;
    smoe_router_family family;
    bool learns_dispatch, learns_combine; /* weights of slots that are a softmax of logits */
} smoe_router_entry;

enum {
    SMOE_ROUTERS = 0
#define ROUTER(...) +1
#include "spec/routers.def"
};

extern const smoe_router_entry smoe_routers[SMOE_ROUTERS];

/* The entry of that name; NULL where there is none, as for `dense`. */
const smoe_router_entry *smoe_router_find(const char *name);

/* Whether a key of model.moe, given without that prefix, concerns MoE layers with this router. true
 * for NULL, a dense model. */
bool smoe_router_heeds(const smoe_router_entry *router, const char *key);

/* Whether tokens or images choose experts, or experts choose tokens, for buffers of limited size.
 */
bool smoe_moe_chooses(const smoe_moe_spec *moe);

/* Images of an evaluation batch: eval.batch_size, but no more than `most` images need. With a
 * choice router a batch has whole groups, at least one, so that groups depend neither on
 * eval.batch_size nor on `most`. */
size_t smoe_moe_eval_batch(const smoe_spec *spec, size_t most);

/* Whether placements follow from a gate's weights of tokens and experts. */
bool smoe_router_gated(const smoe_router_entry *router);

/* Whether K experts of a token, or of an image, are asked for. */
bool smoe_router_counts_experts(const smoe_router_entry *router);

/* The number of choices per token that determines the size of buffers in that block: K for tokens-
 * choice and images-choice, 1 for experts-choice, 0 for other routers. */
size_t smoe_moe_choices(const smoe_moe_spec *moe, size_t block);

/* Whether the model has MoE layers whose router processes every token by construction, so that the
 * share of dropped tokens is 0. */
bool smoe_moe_drops_nothing(const smoe_moe_spec *moe);

/* P of the soft family and of fixed routers in a block for a group of `tokens` tokens:
 * slots_per_expert, or total_slots/E. If both are 0, round(tokens * capacity / E), at least 1, or
 * for fixed routers the number that the tokens need, ceil(tokens / E). */
size_t smoe_moe_slots_per_expert(const smoe_moe_spec *moe, size_t block, size_t tokens);

/* P for a group of `tokens` tokens, of images with `image_tokens` each, in an MoE layer: slots of
 * an expert or, with a choice router, places of its buffer. This is smoe_moe_capacity, except that
 * an expert that chooses takes each token at most once, and that a fixed router has as many slots
 * as its tokens need, regardless of the spec. */
size_t smoe_moe_places(const smoe_moe_spec *moe, size_t block, size_t tokens, size_t image_tokens);

/* The sizes for a full group of tokens in the MoE layer of a block. */
typedef struct smoe_moe_shape {
    size_t images, T; /* of the group: images, tokens */
    size_t E, P, S;   /* experts; slots or places of each; S = E*P, the most rows of a group */
    size_t K;         /* choices of a token that buffers are for; 0: there are no choices */
    double capacity;  /* C, as requested */
} smoe_moe_shape;
smoe_moe_shape smoe_moe_shape_of(const smoe_moe_spec *moe, size_t block, size_t image_tokens);
