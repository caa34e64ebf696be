/*
 * Tables of the names that other programs give to tensors; see foreign_names.h.
 */
#include "tensors/foreign_names.h"

#include <stdio.h>
#include <string.h>

typedef smoe_foreign_rule rule;

#define FLAX(from, to)                             \
    {from "/kernel", to ".weight", "1,0", 0, 1}, { \
        from "/bias", to ".bias", NULL, 0, 1       \
    }
#define FLAX_NORM(from, to)                      \
    {from "/scale", to ".weight", NULL, 0, 1}, { \
        from "/bias", to ".bias", NULL, 0, 1     \
    }
#define FLAX_HEADS(from, to, part, parts)                  \
    {from "/kernel", to ".weight", "12,0", part, parts}, { \
        from "/bias", to ".bias", "01", part, parts        \
    }
#define FLAX_OUT(from, to)                          \
    {from "/kernel", to ".weight", "2,01", 0, 1}, { \
        from "/bias", to ".bias", NULL, 0, 1        \
    }
#define BLOCK "Transformer/encoderblock_#/"
static const rule flax[] = {
    {"embedding/kernel", "patch_embed.proj.weight", "3,2,0,1", 0, 1},
    {"embedding/bias", "patch_embed.proj.bias", NULL, 0, 1},
    {"cls", "cls_token", NULL, 0, 1},
    {"Transformer/posembed_input/pos_embedding", "pos_embed", NULL, 0, 1},
    {"pos_embedding", "pos_embed", NULL, 0, 1},
    FLAX_NORM(BLOCK "LayerNorm_0", "blocks.#.norm1"),
    FLAX_HEADS(BLOCK "MultiHeadDotProductAttention_?/query", "blocks.#.attn.qkv", 0, 3),
    FLAX_HEADS(BLOCK "MultiHeadDotProductAttention_?/key", "blocks.#.attn.qkv", 1, 3),
    FLAX_HEADS(BLOCK "MultiHeadDotProductAttention_?/value", "blocks.#.attn.qkv", 2, 3),
    FLAX_OUT(BLOCK "MultiHeadDotProductAttention_?/out", "blocks.#.attn.proj"),
    FLAX_NORM(BLOCK "LayerNorm_?", "blocks.#.norm2"),
    FLAX(BLOCK "MlpBlock_?/Dense_0", "blocks.#.mlp.fc1"),
    FLAX(BLOCK "MlpBlock_?/Dense_1", "blocks.#.mlp.fc2"),
    FLAX_NORM("Transformer/encoder_norm", "norm"),
    {"MAPHead_0/probe", "attn_pool.latent", NULL, 0, 1},
    FLAX_HEADS("MAPHead_0/MultiHeadDotProductAttention_0/query", "attn_pool.q", 0, 1),
    FLAX_HEADS("MAPHead_0/MultiHeadDotProductAttention_0/key", "attn_pool.kv", 0, 2),
    FLAX_HEADS("MAPHead_0/MultiHeadDotProductAttention_0/value", "attn_pool.kv", 1, 2),
    FLAX_OUT("MAPHead_0/MultiHeadDotProductAttention_0/out", "attn_pool.proj"),
    FLAX_NORM("MAPHead_0/LayerNorm_0", "attn_pool.norm"),
    FLAX("MAPHead_0/MlpBlock_0/Dense_0", "attn_pool.mlp.fc1"),
    FLAX("MAPHead_0/MlpBlock_0/Dense_1", "attn_pool.mlp.fc2"),
    FLAX("head", "head"),
};
#undef BLOCK

/* Hugging Face's names; smoe-convert(1) writes them by the same table. */
#define BOTH(from, to, part, parts)                      \
    {from ".weight", to ".weight", NULL, part, parts}, { \
        from ".bias", to ".bias", NULL, part, parts      \
    }
#define LAYER "vit.encoder.layer.#."
static const rule hugging_face[] = {
    {"vit.embeddings.cls_token", "cls_token", NULL, 0, 1},
    {"vit.embeddings.position_embeddings", "pos_embed", NULL, 0, 1},
    BOTH("vit.embeddings.patch_embeddings.projection", "patch_embed.proj", 0, 1),
    BOTH(LAYER "layernorm_before", "blocks.#.norm1", 0, 1),
    BOTH(LAYER "attention.attention.query", "blocks.#.attn.qkv", 0, 3),
    BOTH(LAYER "attention.attention.key", "blocks.#.attn.qkv", 1, 3),
    BOTH(LAYER "attention.attention.value", "blocks.#.attn.qkv", 2, 3),
    BOTH(LAYER "attention.output.dense", "blocks.#.attn.proj", 0, 1),
    BOTH(LAYER "layernorm_after", "blocks.#.norm2", 0, 1),
    BOTH(LAYER "intermediate.dense", "blocks.#.mlp.fc1", 0, 1),
    BOTH(LAYER "output.dense", "blocks.#.mlp.fc2", 0, 1),
    BOTH("vit.layernorm", "norm", 0, 1),
    BOTH("classifier", "head", 0, 1),
};
#undef LAYER

/* open_clip's names of a text tower, where they have no "text." in front. Those of an image tower
 * from timm lose "visual.trunk." (strip_prefix in foreign.c). */
#define TEXT(name) \
    { name, "text." name, NULL, 0, 1 }
#define BLOCK "transformer.resblocks.#."
static const rule open_clip[] = {
    TEXT("token_embedding.weight"),
    TEXT("positional_embedding"),
    TEXT("text_projection"),
    TEXT("ln_final.weight"),
    TEXT("ln_final.bias"),
    TEXT(BLOCK "ln_1.weight"),
    TEXT(BLOCK "ln_1.bias"),
    TEXT(BLOCK "ln_2.weight"),
    TEXT(BLOCK "ln_2.bias"),
    TEXT(BLOCK "attn.in_proj_weight"),
    TEXT(BLOCK "attn.in_proj_bias"),
    TEXT(BLOCK "attn.out_proj.weight"),
    TEXT(BLOCK "attn.out_proj.bias"),
    TEXT(BLOCK "mlp.c_fc.weight"),
    TEXT(BLOCK "mlp.c_fc.bias"),
    TEXT(BLOCK "mlp.c_proj.weight"),
    TEXT(BLOCK "mlp.c_proj.bias"),
    {"visual.head.proj.weight", "head.proj.weight", NULL, 0, 1},
    {"visual.head.proj.bias", "head.proj.bias", NULL, 0, 1},
};
#undef BLOCK
#undef TEXT

const smoe_foreign_rules smoe_foreign_flax = {flax, sizeof flax / sizeof *flax};
const smoe_foreign_rules smoe_foreign_hugging_face = {hugging_face,
                                                      sizeof hugging_face / sizeof *hugging_face};
const smoe_foreign_rules smoe_foreign_open_clip = {open_clip, sizeof open_clip / sizeof *open_clip};

bool smoe_foreign_matches(const char *pattern, const char *name, char number[16]) {
    for (; *pattern; pattern++) {
        size_t digits = strspn(name, "0123456789");
        if (*pattern == '#') {
            if (!digits || digits > 6) return false;
            snprintf(number, 16, "%.*s", (int)digits, name);
            name += digits;
        } else if (*pattern == '?' ? !digits : *pattern != *name) {
            return false;
        } else {
            name++;
        }
    }
    return !*name;
}

void smoe_foreign_fill_in(char out[SMOE_FOREIGN_NAME], const char *pattern, const char *number) {
    const char *hash = strchr(pattern, '#');
    if (hash)
        snprintf(out, SMOE_FOREIGN_NAME, "%.*s%s%s", (int)(hash - pattern), pattern, number,
                 hash + 1);
    else
        snprintf(out, SMOE_FOREIGN_NAME, "%s", pattern);
}
