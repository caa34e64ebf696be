/* Which tensors in a file are the model's, and the table of the names that other programs give to
 * them; see foreign_parts.h. */
#include "tensors/foreign.h"
#include "tensors/foreign_parts.h"

typedef smoe_foreign_rule rule;
typedef smoe_foreign_place place;
typedef smoe_foreign_piece piece;

#define SAME(name, ours) \
    { .from = name, .to = ours }
#define PART(name, ours, i, n) \
    { .from = name, .to = ours, .part = i, .parts = n }
#define AXES(name, ours, order) \
    { .from = name, .to = ours, .axes = order }
#define QKV(name, q, k, v, ours) \
    PART(name q, ours, 0, 3), PART(name k, ours, 1, 3), PART(name v, ours, 2, 3)

/* transformers: ViT, DeiT, BEiT and DINOv2, before version 5 and since, at `layer`. */
#define HF_BLOCK(layer)                                                              \
    SAME(layer "layernorm_before.*", "blocks.#.norm1.*"),                            \
        SAME(layer "norm1.*", "blocks.#.norm1.*"),                                   \
        QKV(layer, "attention.attention.query.*", "attention.attention.key.*",       \
            "attention.attention.value.*", "blocks.#.attn.qkv.*"),                   \
        QKV(layer, "attention.q_proj.*", "attention.k_proj.*", "attention.v_proj.*", \
            "blocks.#.attn.qkv.*"),                                                  \
        SAME(layer "attention.output.dense.*", "blocks.#.attn.proj.*"),              \
        SAME(layer "attention.o_proj.*", "blocks.#.attn.proj.*"),                    \
        SAME(layer "layer_scale1.lambda1", "blocks.#.ls1.gamma"),                    \
        SAME(layer "lambda_1", "blocks.#.ls1.gamma"),                                \
        SAME(layer "lambda_2", "blocks.#.ls2.gamma"),                                \
        SAME(layer "layernorm_after.*", "blocks.#.norm2.*"),                         \
        SAME(layer "norm2.*", "blocks.#.norm2.*"),                                   \
        SAME(layer "intermediate.dense.*", "blocks.#.mlp.fc1.*"),                    \
        SAME(layer "output.dense.*", "blocks.#.mlp.fc2.*"),                          \
        SAME(layer "mlp.fc1.*", "blocks.#.mlp.fc1.*"),                               \
        SAME(layer "mlp.fc2.*", "blocks.#.mlp.fc2.*"),                               \
        SAME(layer "layer_scale2.lambda1", "blocks.#.ls2.gamma")

/* The ViT and big_vision code, whose kernels are [in, out], with an axis of heads. */
#define FLAX(name, ours) \
    AXES(name "/kernel", ours ".weight", "1,0"), SAME(name "/bias", ours ".bias")
#define FLAX_NORM(name, ours) SAME(name "/scale", ours ".weight"), SAME(name "/bias", ours ".bias")
#define FLAX_HEADS(name, ours, i, n)                        \
    {name "/kernel", ours ".weight", "12,0", i, n, 0, 0}, { \
        name "/bias", ours ".bias", "01", i, n, 0, 0        \
    }
#define FLAX_OUT(name, ours) \
    AXES(name "/kernel", ours ".weight", "2,01"), SAME(name "/bias", ours ".bias")
#define FLAX_BLOCK "Transformer/encoderblock_#/"

/* A text tower has open_clip's names, here after "text.". */
#define TEXT(name) SAME(name, "text." name)
#define TEXT_BLOCK "text.transformer.resblocks.#."

static const rule table[] = {
    /* Hugging Face's ViT; the first names of each tensor are those that smoe-convert(1) writes. */
    SAME("embeddings.cls_token", "cls_token"),
    SAME("embeddings.position_embeddings", "pos_embed"),
    SAME("embeddings.patch_embeddings.projection.*", "patch_embed.proj.*"),
    HF_BLOCK("encoder.layer.#."),
    SAME("layernorm.*", "norm.*"),
    SAME("classifier.*", "head.*"),
    SAME("pooler.layernorm.*", "fc_norm.*"),
    HF_BLOCK("layers.#."),
    SAME("embeddings.distillation_token", "reg_token"),
    SAME("embeddings.register_tokens", "reg_token"),
    SAME("cls_classifier.*", "head.*"),
    SAME("distillation_classifier.*", "head_dist.*"),

    /* Its CLIP and SigLIP: images, then texts. */
    AXES("embeddings.class_embedding", "cls_token", ",,0"),
    SAME("embeddings.patch_embedding.*", "patch_embed.proj.*"),
    AXES("embeddings.position_embedding.weight", "pos_embed", ",0,1"),
    SAME("pre_layrnorm.*", "norm_pre.*"),
    SAME("encoder.layers.#.layer_norm1.*", "blocks.#.norm1.*"),
    QKV("encoder.layers.#.self_attn.", "q_proj.*", "k_proj.*", "v_proj.*", "blocks.#.attn.qkv.*"),
    SAME("encoder.layers.#.self_attn.out_proj.*", "blocks.#.attn.proj.*"),
    SAME("encoder.layers.#.layer_norm2.*", "blocks.#.norm2.*"),
    SAME("encoder.layers.#.mlp.fc1.*", "blocks.#.mlp.fc1.*"),
    SAME("encoder.layers.#.mlp.fc2.*", "blocks.#.mlp.fc2.*"),
    SAME("post_layernorm.*", "norm.*"),
    SAME("head.probe", "attn_pool.latent"),
    {"head.attention.in_proj_*", "attn_pool.q.*", NULL, 0, 1, 0, 3},
    {"head.attention.in_proj_*", "attn_pool.kv.*", NULL, 0, 2, 1, 3},
    {"head.attention.in_proj_*", "attn_pool.kv.*", NULL, 1, 2, 2, 3},
    SAME("head.attention.out_proj.*", "attn_pool.proj.*"),
    SAME("head.layernorm.*", "attn_pool.norm.*"),
    SAME("head.mlp.fc1.*", "attn_pool.mlp.fc1.*"),
    SAME("head.mlp.fc2.*", "attn_pool.mlp.fc2.*"),
    SAME("visual_projection.*", "head.proj.*"),
    SAME("text_model.embeddings.token_embedding.weight", "text.token_embedding.weight"),
    SAME("text_model.embeddings.position_embedding.weight", "text.positional_embedding"),
    SAME("text_model.encoder.layers.#.layer_norm1.*", TEXT_BLOCK "ln_1.*"),
    QKV("text_model.encoder.layers.#.self_attn.", "q_proj.*", "k_proj.*", "v_proj.*",
        TEXT_BLOCK "attn.in_proj_*"),
    SAME("text_model.encoder.layers.#.self_attn.out_proj.*", TEXT_BLOCK "attn.out_proj.*"),
    SAME("text_model.encoder.layers.#.layer_norm2.*", TEXT_BLOCK "ln_2.*"),
    SAME("text_model.encoder.layers.#.mlp.fc1.*", TEXT_BLOCK "mlp.c_fc.*"),
    SAME("text_model.encoder.layers.#.mlp.fc2.*", TEXT_BLOCK "mlp.c_proj.*"),
    SAME("text_model.final_layer_norm.*", "text.ln_final.*"),
    AXES("text_model.head.weight", "text.text_projection", "1,0"),
    SAME("text_model.head.bias", "text.text_projection_bias"),
    AXES("text_projection.weight", "text.text_projection", "1,0"),
    SAME("text_projection.bias", "text.text_projection_bias"),

    /* open_clip and OpenAI's CLIP. */
    SAME("visual.conv1.*", "patch_embed.proj.*"),
    AXES("visual.class_embedding", "cls_token", ",,0"),
    AXES("visual.positional_embedding", "pos_embed", ",0,1"),
    SAME("visual.ln_pre.*", "norm_pre.*"),
    SAME("visual.transformer.resblocks.#.ln_1.*", "blocks.#.norm1.*"),
    SAME("visual.transformer.resblocks.#.attn.in_proj_*", "blocks.#.attn.qkv.*"),
    SAME("visual.transformer.resblocks.#.attn.out_proj.*", "blocks.#.attn.proj.*"),
    SAME("visual.transformer.resblocks.#.ls_1.gamma", "blocks.#.ls1.gamma"),
    SAME("visual.transformer.resblocks.#.ln_2.*", "blocks.#.norm2.*"),
    SAME("visual.transformer.resblocks.#.mlp.c_fc.*", "blocks.#.mlp.fc1.*"),
    SAME("visual.transformer.resblocks.#.mlp.c_proj.*", "blocks.#.mlp.fc2.*"),
    SAME("visual.transformer.resblocks.#.ls_2.gamma", "blocks.#.ls2.gamma"),
    SAME("visual.ln_post.*", "norm.*"),
    AXES("visual.proj", "head.proj.weight", "1,0"),
    SAME("visual.head.proj.*", "head.proj.*"),
    TEXT("token_embedding.weight"),
    TEXT("positional_embedding"),
    TEXT("text_projection"),
    TEXT("ln_final.*"),
    TEXT("transformer.resblocks.#.ln_1.*"),
    TEXT("transformer.resblocks.#.ln_2.*"),
    TEXT("transformer.resblocks.#.attn.in_proj_*"),
    TEXT("transformer.resblocks.#.attn.out_proj.*"),
    TEXT("transformer.resblocks.#.mlp.c_fc.*"),
    TEXT("transformer.resblocks.#.mlp.c_proj.*"),
    AXES("text.text_projection.weight", "text.text_projection", "1,0"),
    SAME("text.text_projection.bias", "text.text_projection_bias"),

    /* timm, older timm and Facebook's DeiT and DINOv2: only what is called otherwise here. */
    SAME("patch_embed.proj.*", "patch_embed.proj.*"),
    SAME("dist_token", "reg_token"),
    SAME("register_tokens", "reg_token"),
    SAME("blocks.#.gamma_1", "blocks.#.ls1.gamma"),
    SAME("blocks.#.gamma_2", "blocks.#.ls2.gamma"),
    PART("blocks.#.attn.q_bias", "blocks.#.attn.qkv.bias", 0, 3),
    PART("blocks.#.attn.v_bias", "blocks.#.attn.qkv.bias", 2, 3),

    /* What evaluation does not use. */
    SAME("embeddings.mask_token", ""),
    SAME("mask_token", ""),
    SAME("loss.*", ""),
    SAME("loss_fn.*", ""),
    SAME("criterion.*", ""),
    SAME("embeddings.position_ids", ""),
    SAME("text_model.embeddings.position_ids", ""),

    /* torchvision. */
    SAME("conv_proj.*", "patch_embed.proj.*"),
    SAME("class_token", "cls_token"),
    SAME("encoder.pos_embedding", "pos_embed"),
    SAME("encoder.layers.encoder_layer_#.ln_1.*", "blocks.#.norm1.*"),
    SAME("encoder.layers.encoder_layer_#.self_attention.in_proj_*", "blocks.#.attn.qkv.*"),
    SAME("encoder.layers.encoder_layer_#.self_attention.out_proj.*", "blocks.#.attn.proj.*"),
    SAME("encoder.layers.encoder_layer_#.ln_2.*", "blocks.#.norm2.*"),
    SAME("encoder.layers.encoder_layer_#.mlp.linear_1.*", "blocks.#.mlp.fc1.*"),
    SAME("encoder.layers.encoder_layer_#.mlp.linear_2.*", "blocks.#.mlp.fc2.*"),
    SAME("encoder.layers.encoder_layer_#.mlp.0.*", "blocks.#.mlp.fc1.*"),
    SAME("encoder.layers.encoder_layer_#.mlp.3.*", "blocks.#.mlp.fc2.*"),
    SAME("encoder.ln.*", "norm.*"),
    SAME("heads.head.*", "head.*"),

    /* The ViT and big_vision code. */
    AXES("embedding/kernel", "patch_embed.proj.weight", "3,2,0,1"),
    SAME("embedding/bias", "patch_embed.proj.bias"),
    SAME("cls", "cls_token"),
    SAME("Transformer/posembed_input/pos_embedding", "pos_embed"),
    SAME("pos_embedding", "pos_embed"),
    FLAX_NORM(FLAX_BLOCK "LayerNorm_0", "blocks.#.norm1"),
    FLAX_HEADS(FLAX_BLOCK "MultiHeadDotProductAttention_?/query", "blocks.#.attn.qkv", 0, 3),
    FLAX_HEADS(FLAX_BLOCK "MultiHeadDotProductAttention_?/key", "blocks.#.attn.qkv", 1, 3),
    FLAX_HEADS(FLAX_BLOCK "MultiHeadDotProductAttention_?/value", "blocks.#.attn.qkv", 2, 3),
    FLAX_OUT(FLAX_BLOCK "MultiHeadDotProductAttention_?/out", "blocks.#.attn.proj"),
    FLAX_NORM(FLAX_BLOCK "LayerNorm_?", "blocks.#.norm2"),
    FLAX(FLAX_BLOCK "MlpBlock_?/Dense_0", "blocks.#.mlp.fc1"),
    FLAX(FLAX_BLOCK "MlpBlock_?/Dense_1", "blocks.#.mlp.fc2"),
    FLAX_NORM("Transformer/encoder_norm", "norm"),
    SAME("MAPHead_0/probe", "attn_pool.latent"),
    FLAX_HEADS("MAPHead_0/MultiHeadDotProductAttention_0/query", "attn_pool.q", 0, 1),
    FLAX_HEADS("MAPHead_0/MultiHeadDotProductAttention_0/key", "attn_pool.kv", 0, 2),
    FLAX_HEADS("MAPHead_0/MultiHeadDotProductAttention_0/value", "attn_pool.kv", 1, 2),
    FLAX_OUT("MAPHead_0/MultiHeadDotProductAttention_0/out", "attn_pool.proj"),
    FLAX_NORM("MAPHead_0/LayerNorm_0", "attn_pool.norm"),
    FLAX("MAPHead_0/MlpBlock_0/Dense_0", "attn_pool.mlp.fc1"),
    FLAX("MAPHead_0/MlpBlock_0/Dense_1", "attn_pool.mlp.fc2"),
    FLAX("head", "head"),
};
static const rule *const end = table + SMOE_COUNT(table);
static const char last_of_vit[] = "classifier.*"; /* where the names of Hugging Face's ViT end */

/* What '#' and '*' stand for in a name. */
typedef struct matched {
    char number[8], word[8];
} matched;

static bool foreign_names_matches(const char *pattern, const char *name, matched *x) {
    *x = (matched){0};
    for (; *pattern; pattern++) {
        if (*pattern == '#') {
            size_t digits = strspn(name, "0123456789");
            if (!digits || digits >= sizeof x->number) return false;
            memcpy(x->number, name, digits);
            name += digits;
        } else if (*pattern == '*') {
            if (strcmp(name, "weight") != 0 && strcmp(name, "bias") != 0) return false;
            strcpy(x->word, name);
            name += strlen(name);
        } else if (*pattern == '?' ? *name < '0' || *name > '9' : *pattern != *name) {
            return false;
        } else {
            name++;
        }
    }
    return !*name;
}

static void fill_in(char out[SMOE_FOREIGN_NAME], const char *pattern, const matched *x) {
    size_t n = 0;
    for (; *pattern && n + sizeof x->word < SMOE_FOREIGN_NAME; pattern++) {
        const char *put = *pattern == '#' ? x->number : *pattern == '*' ? x->word : NULL;
        if (put)
            n += (size_t)sprintf(out + n, "%s", put);
        else
            out[n++] = *pattern;
    }
    out[n] = '\0';
}

bool smoe_foreign_renamed(char out[SMOE_FOREIGN_NAME], const char *name, const char *from,
                          const char *to) {
    matched x;
    bool fits = foreign_names_matches(from, name, &x);
    if (fits) fill_in(out, to, &x);
    return fits;
}

static const rule *rule_from(const rule *r, const char *name, char to[SMOE_FOREIGN_NAME]) {
    while (r < end && !smoe_foreign_renamed(to, name, r->from, r->to)) r++;
    return r < end ? r : NULL;
}

/* What parts of names mean. */
static const struct {
    const char *lack, *parts;
} lacks[] = {
    {"relative positions, as in BEiT", "relative_position"},
    {"relative positions", "rel_pos"},
    {"rotary positions, as in EVA and DINOv3", "rope freqs"},
    {"gated MLPs (SwiGLU)", "mlp.w12. mlp.weights_in. mlp.fc1_g. mlp.w1. gate_proj."},
    {"norms within attention and MLPs", "attn.norm. mlp.norm."},
    {"several attentions and MLPs in parallel", ".attns."},
    {"attention and MLP in parallel", ".mlp_out_proj. .mlp_out."},
    {"differential attention", ".lambda_q"},
    {"a convolutional network before the patches", "patch_embed.backbone. patch_embed.conv"},
    {"the neck of SAM", "neck."},
    {"patches of any number, as in NaFlex", "embeds.proj."},
    {"a second head, of DeiT's distillation, whose logits are averaged with the first's",
     "head_dist."},
    {"a classifier of the mean of patches without the last norm, as CLIPForImageClassification",
     "classifier.weight"},
};

const char *smoe_foreign_lack(const char *name) {
    for (size_t i = 0; i < SMOE_COUNT(lacks); i++)
        if (smoe_text_has_part(name, lacks[i].parts)) return lacks[i].lack;
    return NULL;
}

const rule *smoe_foreign_rule_of(const char *name, char to[SMOE_FOREIGN_NAME]) {
    return rule_from(table, name, to);
}

const rule *smoe_foreign_rule_next(const rule *r, const char *name, char to[SMOE_FOREIGN_NAME]) {
    bool same = r + 1 < end && !strcmp(r[1].from, r->from);
    return same ? rule_from(r + 1, name, to) : NULL;
}

/* The classifier alone is not inside "vit.". */
const rule *smoe_foreign_hf_next(const rule *r, const char *name, char from[SMOE_FOREIGN_NAME]) {
    char inner[SMOE_FOREIGN_NAME];
    bool last = r && r->part + 1 >= r->parts;
    for (r = r ? r + 1 : table; !last; r++) {
        last = !strcmp(r->from, last_of_vit);
        if (!smoe_foreign_renamed(inner, name, r->to, r->from)) continue;
        snprintf(from, SMOE_FOREIGN_NAME, "%s%.150s", last ? "" : "vit.", inner);
        return r;
    }
    return NULL;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* The place of the model whose patch embedding the piece is; false if it is none. Parts of names
 * end with a dot or a slash. */
static bool anchored(place *at, const piece *p) {
    for (const char *rest = p->name; *rest; rest += strcspn(rest, "./"), rest += *rest != 0) {
        char to[SMOE_FOREIGN_NAME];
        if (!smoe_foreign_rule_of(rest, to) || strcmp(to, "patch_embed.proj.weight")) continue;
        memcpy(at->where, p->where, sizeof at->where);
        snprintf(at->prefix, sizeof at->prefix, "%.*s", (int)(rest - p->name), p->name);
        return true;
    }
    return false;
}

static bool same(const place *a, const place *b) {
    return !strcmp(a->where, b->where) && !strcmp(a->prefix, b->prefix);
}

static bool says(const place *at, const char *word) {
    return strstr(at->where, word) || strstr(at->prefix, word);
}

static bool is_within(const place *at, const char *word) {
    return smoe_text_has_word(at->where, '.', word) || smoe_text_has_word(at->prefix, '.', word) ||
           smoe_text_has_word(at->prefix, '/', word);
}

/* Whether these are moments, which have the names of the weights in training states of JAX. Older
 * Flax keeps the weights in "opt/target/". */
static bool is_of_optimizer(const place *at) {
    static const char *const word[] = {"opt", "opt_state", "opt_states", "optimizer", "mu", "nu"};
    size_t i = 0;
    while (i < SMOE_COUNT(word) && !is_within(at, word[i])) i++;
    return i < SMOE_COUNT(word) && !is_within(at, "target");
}

static int foreign_names_rank_of(const place *at, const char *weights) {
    bool average = says(at, "ema") || says(at, "teacher");
    if (is_of_optimizer(at)) return 0;
    if (weights) return average == !strcmp(weights, "ema");
    return says(at, "student") ? 1 : average ? 2 : 3;
}

static void place_put(FILE *out, const char *before, const place *at) {
    size_t letters = strlen(at->prefix);
    if (letters && strchr("./", at->prefix[letters - 1])) letters--;
    fprintf(out, "%s%s%s%.*s", before, at->where, *at->where && letters ? "." : "", (int)letters,
            at->prefix);
}

/* The dictionary with most tensors. */
static void most_tensors(place *at, const smoe_foreign_file *f) {
    size_t most = 0;
    for (size_t i = 0; i < f->pieces; i++) {
        const char *where = f->piece[i].where;
        size_t there = 0;
        if (most && !strcmp(where, at->where)) continue;
        for (size_t k = 0; k < f->pieces; k++) there += !strcmp(where, f->piece[k].where);
        if (there <= most) continue;
        most = there;
        memcpy(at->where, where, sizeof at->where);
    }
}

/* The axis of heads of the first block's queries; 0: they have none. */
static size_t heads_of_queries(const place *at, const smoe_foreign_file *f) {
    for (size_t i = 0; i < f->pieces; i++) {
        const piece *p = &f->piece[i];
        const char *name = p->name;
        char to[SMOE_FOREIGN_NAME];
        const rule *r = p->ndim == 3 && !smoe_foreign_place_other(at, f, p)
                            ? smoe_foreign_place_rule(at, &name, to)
                            : NULL;
        if (r && r->axes && !strcmp(to, "blocks.0.attn.qkv.weight")) return p->dim[1];
    }
    return 0;
}

int smoe_foreign_place_of(place *chosen, smoe_foreign_file *f, const char *weights, FILE *note,
                          smoe_err *err) {
    size_t others = 0;
    place at;
    *chosen = (place){{0}, {0}};
    for (size_t i = 0; i < f->pieces; i++)
        if (anchored(&at, &f->piece[i])) SMOE_APPEND(f->model, f->models) = at;
    const bool found = f->models;
    for (size_t i = 0; i < f->models; i++)
        if (!i ||
            foreign_names_rank_of(&f->model[i], weights) > foreign_names_rank_of(chosen, weights))
            *chosen = f->model[i];
    if (weights && (!found || !foreign_names_rank_of(chosen, weights)))
        return smoe_fail(err, SMOE_USAGE, "it has no %s weights, which --weights %s asks for",
                         !strcmp(weights, "ema") ? "averaged" : "raw", weights);
    if (found && !foreign_names_rank_of(chosen, weights))
        return smoe_fail(
            err, SMOE_DATA, "%s%s%s: the state of an optimiser; the weights are not in the file",
            chosen->where, *chosen->where && *chosen->prefix ? "." : "", chosen->prefix);
    if (!found) most_tensors(chosen, f);
    if (*chosen->where || *chosen->prefix) place_put(note, "weights of ", chosen);
    for (size_t i = 0; i < f->models; i++)
        if (!same(&f->model[i], chosen))
            place_put(note, others++ ? ", " : " and not of ", &f->model[i]);
    if (others) fputs("; --weights raw and --weights ema choose", note);
    size_t heads = heads_of_queries(chosen, f);
    if (heads) fprintf(note, "; " SMOE_FOREIGN_HEADS, heads);
    return 0;
}

bool smoe_foreign_place_other(const place *at, const smoe_foreign_file *f, const piece *p) {
    if (strcmp(p->where, at->where) != 0) return true;
    if (!strncmp(p->name, at->prefix, strlen(at->prefix))) return false;
    if (p->why) return true;
    for (size_t i = 0; i < f->models; i++) {
        const place *other = &f->model[i];
        if (!strcmp(other->where, at->where) && !same(other, at) && *other->prefix &&
            !strncmp(p->name, other->prefix, strlen(other->prefix)))
            return true;
    }
    return false;
}

const smoe_foreign_rule *smoe_foreign_place_rule(const place *at, const char **name,
                                                 char to[SMOE_FOREIGN_NAME]) {
    size_t whole = strlen(at->prefix);
    for (size_t n = whole + 1; n-- > 0;) {
        bool begins = !n || strchr("./", at->prefix[n - 1]);
        if (!begins || strncmp(*name, at->prefix, n) != 0) continue;
        const smoe_foreign_rule *r = smoe_foreign_rule_of(*name + n, to);
        if (r) {
            *name += n;
            return r;
        }
    }
    if (!strncmp(*name, at->prefix, whole)) *name += whole;
    return NULL;
}
