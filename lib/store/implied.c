/* The keys that follow from a file of weights and the files beside it; see implied.h. */
#include "store/implied.h"
#include "base/json.h"
#include "tensors/foreign.h"

#include <ctype.h>

/* ---- keys ------------------------------------------------------------------------------------ */

static const char GUESS[] = "";
static const char QUERIES[] = "the shape of its queries";

typedef struct implied_key {
    const char *key;
    char value[96];
    const char *from; /* what says it, for messages; NULL: the shapes; "": nothing, it is a guess */
} implied_key;

enum { IMPLIED = 32 };
typedef struct implied {
    implied_key key[IMPLIED];
    size_t count;    /* 0: the file has no patch embedding, or a model with experts */
    char other[160]; /* "CONFIGURATION: what it has that no model of this program has", or "" */
    char filter[96]; /* what says data.resize, if that is another filter */
    bool texts;      /* the file has a text tower */
    char text[160];  /* as `other`, of that tower */
} implied;

static implied_key *implied_find(implied *x, const char *key) {
    for (size_t i = 0; i < x->count; i++)
        if (!strcmp(x->key[i].key, key)) return &x->key[i];
    return NULL;
}

#define implied_put(x, from, key, ...) implied_set(x, from, key, smoe_text_format(__VA_ARGS__))
static void implied_set(implied *x, const char *from, const char *key, char *fresh) {
    SMOE_FREED char *value = fresh;
    implied_key *k = implied_find(x, key);
    if (k ? from == GUESS : x->count == IMPLIED) return;
    if (!k) k = &x->key[x->count++];
    *k = (implied_key){.key = key, .from = from};
    snprintf(k->value, sizeof k->value, "%s", value);
}

/* The configuration leaves the key as the shapes imply it. */
static void put_known(implied *x, const char *from, const char *key) {
    implied_key *known = implied_find(x, key);
    if (known) known->from = from;
}

/* The configuration may change the key, in words that are not understood. */
static void put_unknown(implied *x, const char *key) {
    implied_key *known = implied_find(x, key);
    if (known) known->from = GUESS;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static size_t dim_of(const smoe_safetensors *file, const char *name, int axis) {
    const smoe_tensor *t = smoe_safetensors_find(file, name);
    return t && axis < t->ndim ? t->dim[axis] : 0;
}

static size_t depth_of(const smoe_safetensors *file) {
    size_t depth = 0;
    for (;; depth++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%zu.norm1.weight", depth);
        if (!smoe_safetensors_find(file, name)) return depth;
    }
}

/* The side of the square of patches, by the positions before it; 0: none. */
static size_t implied_side_of(const smoe_safetensors *file) {
    size_t n = dim_of(file, "pos_embed", 1), token = dim_of(file, "cls_token", 1);
    const size_t before[] = {token + dim_of(file, "reg_token", 1), token, 0};
    for (size_t i = 0; i < 3; i++) {
        size_t side = n > before[i] ? (size_t)llround(sqrt((double)(n - before[i]))) : 0;
        if (side && side * side == n - before[i]) return side;
    }
    return 0;
}

/* The heads that a file shows in the shape of its queries; 0: it does not. */
static size_t heads_of(const smoe_safetensors *file) {
    size_t heads = 0;
    for (const char *at = smoe_safetensors_note(file); at; at = strchr(at, SMOE_FOREIGN_HEADS[0]))
        if (sscanf(at++, SMOE_FOREIGN_HEADS, &heads) == 1) return heads;
    return 0;
}

static void put_shapes(implied *x, const smoe_safetensors *file) {
    size_t d = dim_of(file, "patch_embed.proj.weight", 0), depth = depth_of(file);
    size_t patch = dim_of(file, "patch_embed.proj.weight", 2), side = implied_side_of(file);
    size_t dh = dim_of(file, "blocks.0.attn.q_norm.weight", 0);
    size_t mlp = dim_of(file, "blocks.0.mlp.fc1.weight", 0);
    if (!d || !depth || !mlp || !patch) return;
    implied_put(x, side ? NULL : GUESS, "data.image_size", "%zu", side ? side * patch : 224);
    implied_put(x, NULL, "data.channels", "%zu", dim_of(file, "patch_embed.proj.weight", 1));
    implied_put(x, NULL, "model.variant", "none");
    implied_put(x, NULL, "model.width", "%zu", d);
    implied_put(x, NULL, "model.depth", "%zu", depth);
    implied_put(x, NULL, "model.mlp", "%zu", mlp);
    /* 64 numbers per head, except in the sizes that have 16 heads */
    bool wide = d == 1152 || d == 1280 || d == 1408 || d == 1664;
    size_t heads = wide ? 16 : d % 64 ? 1 : d / 64, known = heads_of(file);
    if (dh) implied_put(x, NULL, "model.heads", "%zu", d / dh);
    if (!dh) implied_put(x, known ? QUERIES : GUESS, "model.heads", "%zu", known ? known : heads);
    implied_put(x, NULL, "model.patch_size", "%zu", patch);
    bool map = smoe_safetensors_find(file, "attn_pool.latent");
    bool normed = smoe_safetensors_find(file, "fc_norm.weight");
    bool token = dim_of(file, "cls_token", 1);
    bool pools = map || !token; /* else the token may be pooled, or the patches */
    implied_put(x, pools ? NULL : GUESS, "model.head", "%s",
                map      ? "map"
                : normed ? "gap-norm"
                : token  ? "token"
                         : "gap");
    implied_put(x, NULL, "model.registers", "%zu",
                dim_of(file, "reg_token", 1) + (token && (map || normed)));
    x->texts = smoe_safetensors_find(file, "text.token_embedding.weight");
    bool learned = smoe_safetensors_find(file, "pos_embed"); /* rotary embeddings are not stored */
    implied_put(x, learned ? NULL : GUESS, "model.position", "%s", learned ? "learned" : "none");
    if (smoe_safetensors_find(file, "norm_pre.weight"))
        implied_put(x, NULL, "model.pre_norm", "true");
    if (dh) implied_put(x, NULL, "model.qk_norm", "true");
    implied_put(x, NULL, "model.moe", "{layers: none}");
}

/* ---- configurations -------------------------------------------------------------------------- */

static void put_other(implied *x, const char *from, const char *what, const char *value) {
    snprintf(x->other, sizeof x->other, "%s beside it says %s%.60s", from, what, value);
}

/* The value of model.gelu for another program's name of it; NULL: it is another function. */
static const char *gelu_of(const char *name) {
    static const struct {
        const char *name, *gelu;
    } gelus[] = {{"gelu", "erf"},
                 {"gelu_erf", "erf"},
                 {"gelu_python", "erf"},
                 {"quick_gelu", "quick"},
                 {"gelu_new", "tanh"},
                 {"gelu_fast", "tanh"},
                 {"gelu_tanh", "tanh"},
                 {"gelu_accurate", "tanh"},
                 {"gelu_python_tanh", "tanh"},
                 {"gelu_pytorch_tanh", "tanh"}};
    for (size_t i = 0; i < SMOE_COUNT(gelus); i++)
        if (!strcmp(name, gelus[i].name)) return gelus[i].gelu;
    return NULL;
}

static void put_gelu(implied *x, const char *from, const char *name) {
    const char *gelu = name ? gelu_of(name) : NULL;
    if (gelu) implied_put(x, from, "model.gelu", "%s", gelu);
    if (name && !gelu) put_other(x, from, "that its MLPs have the function ", name);
}

/* A text tower: 0 and NULL are not known. Its function is that of the image tower, which is there
 * already. */
static void put_text(implied *x, const char *from, json_int_t heads, double eps,
                     const char *function) {
    const implied_key *image = implied_find(x, "model.gelu");
    const char *gelu = function ? gelu_of(function) : NULL;
    if (!x->texts) return;
    if (heads > 0) implied_put(x, from, "text.heads", "%" JSON_INTEGER_FORMAT, heads);
    if (eps > 0) implied_put(x, from, "text.norm_eps", "%.9g", eps);
    if (function && (!gelu || (image && strcmp(gelu, image->value) != 0)))
        snprintf(x->text, sizeof x->text,
                 "%s beside it says that the MLPs of its text tower have the function %.40s%s",
                 from, function, gelu ? ", and those of images another" : "");
}

/* Without a causal mask there is none of the padding either. */
static void put_text_mask(implied *x, const char *from, bool causal, const char *pool) {
    if (!x->texts) return;
    implied_put(x, from, "text.causal", causal ? "true" : "false");
    implied_put(x, from, "text.pool", "%s", pool);
    if (!causal) implied_put(x, from, "text.padding", "attended");
}

/* The token of the padding, where texts attend to it. */
static void put_pad(implied *x, const char *from, const json_t *said) {
    if (x->texts && json_is_integer(said))
        implied_put(x, from, "text.pad_id", "%" JSON_INTEGER_FORMAT, json_integer_value(said));
}

/* The side of an image: a number, or the last two of an array, if they are equal. */
static void put_side(implied *x, const char *from, const json_t *said) {
    size_t n = json_array_size(said);
    const json_t *last = n > 1 ? json_array_get(said, n - 1) : said;
    json_int_t side = json_integer_value(last);
    bool square = n < 2 || json_integer_value(json_array_get(said, n - 2)) == side;
    if (side > 0 && square && implied_find(x, "data.image_size")->from == GUESS)
        implied_put(x, from, "data.image_size", "%" JSON_INTEGER_FORMAT, side);
}

/* Values of channels, one for each or one for all, as (value + add)/by. */
static void put_pixels(implied *x, const char *from, const char *key, const json_t *said,
                       double add, double by) {
    double v[3];
    bool grey = !strcmp(implied_find(x, "data.channels")->value, "1");
    for (size_t i = 0; i < 3; i++)
        v[i] = (json_number_value(json_is_array(said) ? json_array_get(said, i) : said) + add) / by;
    if (json_array_size(said) == 3)
        implied_put(x, from, key, "[%.8g, %.8g, %.8g]", v[0], v[1], v[2]);
    if (json_is_number(said) || (grey && json_array_size(said) == 1))
        implied_put(x, from, key, "%.8g", v[0]);
}

static const char *const filters[] = {"nearest", "lanczos", "bilinear",
                                      "bicubic", "box",     "hamming"}; /* by Pillow's numbers */

/* Bicubic and bilinear are the filters here. */
static void put_filter(implied *x, const char *from, const char *name) {
    for (size_t i = 0; name && i < SMOE_COUNT(filters); i++) {
        if (strcmp(name, filters[i]) != 0) continue;
        bool here = !strncmp(name, "bi", 2), sharp = i == 1 || i == 3;
        snprintf(x->filter, sizeof x->filter, "%s says %s, which smoe lacks", from, name);
        implied_put(x, here ? from : x->filter, "data.resize", sharp ? "bicubic" : "bilinear");
    }
}

/* How images become squares, where that is not by cropping. */
static void put_fit(implied *x, const char *from, const char *name) {
    if (name && !strcmp(name, "squash")) implied_put(x, from, "data.fit", "squash");
    if (name && !strcmp(name, "longest")) implied_put(x, from, "data.fit", "border");
    if (name && !strcmp(name, "border"))
        implied_put(x, "config.json, with the colour of its mean", "data.fit", "border");
}

/* What timm and open_clip say about pixels in the same words. */
static void put_pictures(implied *x, const char *from, const json_t *data) {
    put_pixels(x, from, "data.mean", json_object_get(data, "mean"), 0, 1);
    put_pixels(x, from, "data.std", json_object_get(data, "std"), 0, 1);
    put_filter(x, from, json_string_value(json_object_get(data, "interpolation")));
}

/* With the digits that it takes: smoe_box_share rounds the quotient by it down. */
static void put_share(implied *x, const char *from, double share) {
    if (share >= 0.1 && share < 1)
        implied_put(x, from, "data.crop_pct", "%.*g", smoe_text_digits(share, 1), share);
}

/* The share of a side of `whole` pixels that `crop` of them are, for which the quotient is no less
 * than `whole`. */
static double share_of(double crop, double whole) {
    double share = crop / whole;
    return crop / share < whole ? nextafter(share, 0) : share;
}

/* ---- configurations of transformers ---------------------------------------------------------- */

/* What the classes of transformers have where a configuration says nothing. */
typedef struct hf_tower {
    const char *type;
    json_int_t width, heads;
    double eps;
    const char *gelu;
    const char *pool; /* of texts: "end" of a causal tower, "last" of one without a mask */
} hf_tower;

static const hf_tower hf_towers[] = {
    {"clip_vision_model", 768, 12, 1e-5, "quick_gelu", NULL},
    {"clip_text_model", 512, 8, 1e-5, "quick_gelu", "end"},
    {"siglip_vision_model", 768, 12, 1e-6, "gelu_pytorch_tanh", NULL},
    {"siglip_text_model", 768, 12, 1e-6, "gelu_pytorch_tanh", "last"},
    {"vit", 768, 12, 1e-12, "gelu", NULL},
    {"deit", 768, 12, 1e-12, "gelu", NULL},
    {"ijepa", 768, 12, 1e-12, "gelu", NULL},
    {"vit_msn", 768, 12, 1e-6, "gelu", NULL},
    {"dinov2", 768, 12, 1e-6, "gelu", NULL},
    {"dinov2_with_registers", 768, 12, 1e-6, "gelu", NULL},
};

/* The tower "vision" or "text" of a model with several; or the only one, which is "vision". */
static hf_tower hf_tower_of(const json_t *config, const char *part) {
    char name[64];
    const char *whole = json_string_value(json_object_get(config, "model_type"));
    snprintf(name, sizeof name, "%s_config", part);
    const json_t *own = json_object_get(config, name);
    if (!json_is_object(own)) own = *part == 'v' ? config : NULL;
    const char *type = json_string_value(json_object_get(own, "model_type"));
    snprintf(name, sizeof name, "%.30s_%s_model", whole ? whole : "", part);
    hf_tower x = {0};
    for (size_t i = 0; i < SMOE_COUNT(hf_towers); i++)
        if ((type && !strcmp(type, hf_towers[i].type)) || !strcmp(name, hf_towers[i].type))
            x = hf_towers[i];
    const json_t *width = json_object_get(own, "hidden_size"),
                 *heads = json_object_get(own, "num_attention_heads"),
                 *eps = json_object_get(own, "layer_norm_eps"),
                 *gelu = json_object_get(own, "hidden_act");
    if (json_is_integer(width)) x.width = json_integer_value(width);
    if (json_is_integer(heads)) x.heads = json_integer_value(heads);
    if (json_is_number(eps)) x.eps = json_number_value(eps);
    if (json_is_string(gelu)) x.gelu = json_string_value(gelu);
    return x;
}

static void put_hugging_face(implied *x, const json_t *config, const char *from) {
    const hf_tower image = hf_tower_of(config, "vision"), text = hf_tower_of(config, "text");
    const implied_key *width = implied_find(x, "model.width");
    if (image.width <= 0 || (size_t)image.width != strtoull(width->value, NULL, 10)) return;
    put_pad(x, from, smoe_json_at(config, "text_config.pad_token_id"));
    const json_t *vision = json_object_get(config, "vision_config");
    if (vision) config = vision;
    put_side(x, from, json_object_get(config, "image_size"));
    if (image.eps > 0) implied_put(x, from, "model.norm_eps", "%.9g", image.eps);
    if (image.heads > 0) implied_put(x, from, "model.heads", "%" JSON_INTEGER_FORMAT, image.heads);
    put_gelu(x, from, image.gelu);
    put_known(x, from, "model.head"); /* names tell it there */
    put_text(x, from, text.heads, text.eps, text.gelu);
    if (text.pool) put_text_mask(x, from, !strcmp(text.pool, "end"), text.pool);
    if (json_object_get(config, "rope_theta"))
        put_other(x, from, "that its positions are rotary", "");
}

/* ---- configurations of timm and open_clip ---------------------------------------------------- */

/* Models of timm that have the tensors of a plain Vision Transformer but are none. */
static const struct {
    const char *part, *what;
} timm_others[] = {
    {"_rpn_", "ResPostBlock: norms behind attention and MLPs"},
    {"eva02_enormous", "norms behind attention and MLPs"},
    {"eva02_", "rotary positions"},
    {"_rope_", "rotary positions"},
    {"dinov3", "rotary positions"},
    {"_pe_core_", "rotary positions"},
    {"_pe_lang_", "rotary positions"},
    {"_pe_spatial_", "rotary positions"},
    {"_lingbot", "rotary positions"},
    {"_sapiens2", "rotary positions"},
    {"test_vit3", "that it pools registers too"},
};

/* What the name of a timm model says about its norms, GELU and heads, which shapes do not show. */
static void put_timm_name(implied *x, const char *name, const char *from) {
    static const char *const known[] = {"vit_", "deit", "flexivit", "eva", "beit"};
    static const char *const tanh[] = {"so400m_patch16_siglip", "giantopt_patch16_siglip",
                                       "base_patch32_siglip", "large_patch16_siglip_512",
                                       "large_patch16_siglip_gap_512"};
    static const struct {
        const char *part, *heads;
    } heads[] = {{"vit_giantopt_", "16"}, {"vit_base_patch16_gap_", "16"}};
    bool here = false;
    for (size_t i = 0; i < SMOE_COUNT(timm_others) && !*x->other; i++)
        if (strstr(name, timm_others[i].part))
            put_other(x, from, "of its model: ", timm_others[i].what);
    for (size_t i = 0; i < SMOE_COUNT(known); i++)
        here |= !strncmp(name, known[i], strlen(known[i]));
    if (!here) return;
    implied_put(x, from, "model.norm_eps",
                strstr(name, "vit_") && strstr(name, "_clip_") ? "1e-05" : "1e-06");
    implied_put(x, from, "model.gelu", strstr(name, "quickgelu") ? "quick" : "erf");
    for (size_t i = 0; i < SMOE_COUNT(tanh); i++)
        if (strstr(name, tanh[i])) implied_put(x, from, "model.gelu", "tanh");
    put_known(x, from, "model.heads");
    for (size_t i = 0; i < SMOE_COUNT(heads); i++)
        if (strstr(name, heads[i].part)) implied_put(x, from, "model.heads", "%s", heads[i].heads);
}

/* Which tokens timm pools. */
static void put_pool(implied *x, const char *pool, const char *from) {
    const implied_key *key = implied_find(x, "model.head"),
                      *more = implied_find(x, "model.registers");
    if (!key || !more) return;
    const char *head = key->value;
    bool token = !strcmp(head, "token"), mean = !strncmp(head, "gap", 3);
    size_t registers = strtoull(more->value, NULL, 10);
    if (!strcmp(pool, "avg") && token) {
        implied_put(x, from, "model.head", "gap");
        implied_put(x, from, "model.registers", "%zu", registers + 1);
    } else if (strcmp(pool, token ? "token" : mean ? "avg" : "map") != 0) {
        put_other(x, from, "that it pools by ", *pool ? pool : "nothing");
    } else {
        put_known(x, from, "model.head");
    }
}

/* Whether an argument of a model of timm is absent or one of these names, of which timm ignores
 * case and underscores. */
static bool timm_plain(const json_t *args, const char *key, const char *const *plain) {
    const json_t *said = json_object_get(args, key);
    const char *name = json_string_value(said);
    char bare[64];
    size_t n = 0;
    if (!said || json_is_null(said) || (name && !*name)) return true;
    for (; name && *name && n + 1 < sizeof bare; name++)
        if (*name != '_') bare[n++] = (char)tolower((unsigned char)*name);
    bare[n] = '\0';
    for (; *plain; plain++)
        if (!strcmp(bare, *plain)) return true;
    return false;
}

/* The arguments that timm makes a model with, beyond those that shapes show. */
static void put_timm_args(implied *x, const json_t *args, const char *from) {
    static const char *const norms[] = {"layernorm", "layernormfp32", NULL};
    static const char *const mlps[] = {"mlp", NULL}, *const blocks[] = {"block", NULL};
    static const struct {
        const char *key, *what;
    } others[] = {{"use_rot_pos_emb", "that its positions are rotary"},
                  {"use_post_norm", "that it has norms behind attention and MLPs"}};
    const char *gelu = json_string_value(json_object_get(args, "act_layer"));
    const char *norm = json_string_value(json_object_get(args, "norm_layer"));
    const char *block = json_string_value(json_object_get(args, "block_fn"));
    const implied_key *head = implied_find(x, "model.head");
    json_int_t heads = json_integer_value(json_object_get(args, "num_heads"));
    if (heads > 0)
        implied_put(x, from, "model.heads", "%" JSON_INTEGER_FORMAT, heads);
    else if (json_object_get(args, "embed_dim") && !implied_find(x, "model.qk_norm"))
        put_unknown(x, "model.heads"); /* those of that name, whatever its width */
    put_side(x, from, json_object_get(args, "img_size"));
    if (gelu && *gelu) put_gelu(x, from, gelu);
    if (!timm_plain(args, "mlp_layer", mlps)) put_unknown(x, "model.gelu");
    if (norm && *norm) implied_put(x, from, "model.norm_eps", "1e-06"); /* timm's own classes */
    if (!timm_plain(args, "norm_layer", norms) || !timm_plain(args, "block_fn", blocks))
        put_unknown(x, "model.norm_eps");
    if (block && !strncmp(block, "ResPost", 7)) put_other(x, from, "that its blocks are ", block);
    for (size_t i = 0; i < SMOE_COUNT(others); i++)
        if (json_is_true(json_object_get(args, others[i].key)))
            put_other(x, from, others[i].what, "");
    if (json_is_true(json_object_get(args, "pool_include_prefix")) &&
        strcmp(head->value, "token") != 0 &&
        strcmp(implied_find(x, "model.registers")->value, "0") != 0)
        put_other(x, from, "that it pools registers too", "");
}

static void put_timm(implied *x, const json_t *config, const char *from) {
    const char *name = json_string_value(json_object_get(config, "architecture"));
    const char *pool = json_string_value(json_object_get(config, "global_pool"));
    const json_t *data = json_object_get(config, "pretrained_cfg");
    if (!name) return;
    put_timm_name(x, name, from);
    if (pool) put_pool(x, pool, from);
    put_timm_args(x, json_object_get(config, "model_args"), from);
    put_side(x, from, json_object_get(data, "input_size"));
    put_pictures(x, from, data);
    const char *mode = json_string_value(json_object_get(data, "crop_mode"));
    put_fit(x, from, mode);
    if (!mode || strcmp(mode, "border") != 0)
        put_share(x, from, json_number_value(json_object_get(data, "crop_pct")));
}

/* What open_clip says of a tower of its own, of images or texts. */
static double clip_eps(const json_t *tower) {
    const json_t *eps = smoe_json_at(tower, "norm_kwargs.eps");
    return eps ? json_number_value(eps) : 1e-5;
}

static const char *clip_gelu(const json_t *model, const json_t *tower) {
    const char *form = json_string_value(smoe_json_at(tower, "act_kwargs.approximate"));
    if (json_is_true(json_object_get(model, "quick_gelu"))) return "quick_gelu";
    return form && !strcmp(form, "tanh") ? "gelu_tanh" : "gelu";
}

static void put_clip_text(implied *x, const json_t *model, const char *from) {
    static const struct {
        const char *theirs, *ours;
    } pools[] = {{"argmax", "end"}, {"eos", "end"}, {"last", "last"}, {"first", "first"}};
    const json_t *text = json_object_get(model, "text_cfg");
    const json_t *heads = json_object_get(text, "heads");
    const char *pool = json_string_value(json_object_get(text, "pool_type"));
    bool causal = !json_is_true(json_object_get(text, "no_causal_mask"));
    if (!text || json_object_get(text, "hf_model_name")) return;
    put_text(x, from, heads ? json_integer_value(heads) : 8, clip_eps(text),
             clip_gelu(model, text));
    put_pad(x, from, json_object_get(text, "pad_id"));
    if (!pool) pool = "argmax";
    for (size_t i = 0; i < SMOE_COUNT(pools); i++)
        if (!strcmp(pool, pools[i].theirs)) put_text_mask(x, from, causal, pools[i].ours);
}

static void put_open_clip(implied *x, const json_t *config, const char *from) {
    const json_t *model = json_object_get(config, "model_cfg");
    const json_t *vision = json_object_get(model, "vision_cfg");
    const json_t *data = json_object_get(config, "preprocess_cfg");
    const char *timm = json_string_value(json_object_get(vision, "timm_model_name"));
    const char *pool = json_string_value(json_object_get(vision, "pool_type"));
    if (!vision) return;
    if (timm) {
        put_timm_name(x, timm, from);
    } else {
        json_int_t width = json_integer_value(json_object_get(vision, "width"));
        json_int_t each = json_integer_value(json_object_get(vision, "head_width"));
        if (!each) each = 64;
        if (width > 0) implied_put(x, from, "model.heads", "%" JSON_INTEGER_FORMAT, width / each);
        implied_put(x, from, "model.norm_eps", "%.9g", clip_eps(vision));
        put_gelu(x, from, clip_gelu(model, vision));
        put_known(x, from, "model.head");
        if (pool && strcmp(pool, "tok") != 0) put_other(x, from, "that it pools by ", pool);
    }
    put_clip_text(x, model, from);
    put_pictures(x, from, data);
    put_fit(x, from, json_string_value(json_object_get(data, "resize_mode")));
}

/* ---- configurations of preprocessing --------------------------------------------------------- */

/* transformers computes (x f + o - mean)/std from a byte x: f is 1/255, or another factor, or 1
 * without do_rescale; o is 0, or -1 with rescale_offset; without do_normalize, mean is 0 and std 1.
 * Here it is (x/255 - m)/s, so m = (mean - o)/(255 f) and s = std/(255 f). */
static void put_normalized(implied *x, const json_t *config, const char *from) {
    const json_t *mean = json_object_get(config, "image_mean"),
                 *std = json_object_get(config, "image_std");
    json_auto_t *zero = json_real(0), *one = json_real(1);
    double factor = json_number_value(json_object_get(config, "rescale_factor"));
    bool whole = json_is_false(json_object_get(config, "do_rescale"));
    bool offset = !whole && json_is_true(json_object_get(config, "rescale_offset"));
    double by = whole ? 255 : factor > 0 ? 255 * factor : 1;
    if (json_is_false(json_object_get(config, "do_normalize"))) mean = zero, std = one;
    put_pixels(x, from, "data.mean", mean, offset, by);
    put_pixels(x, from, "data.std", std, 0, by);
}

/* A size is {"height", "width"} or {"shortest_edge"}; in older files a number, which stands for a
 * square except with CLIP and BiT. A crop takes the centre of what was resized. */
static void put_sizes(implied *x, const json_t *config, const char *from) {
    const json_t *size = json_object_get(config, "size"),
                 *crop = json_object_get(config, "crop_size");
    const json_t *crops = json_object_get(config, "do_center_crop");
    const char *type = json_string_value(json_object_get(config, "image_processor_type"));
    if (!type) type = json_string_value(json_object_get(config, "feature_extractor_type"));
    const json_t *edge = json_object_get(size, "shortest_edge"),
                 *high = json_object_get(size, "height");
    bool shorter = type && (strstr(type, "CLIP") || !strncmp(type, "Bit", 3));
    if (json_is_integer(size)) edge = shorter ? size : NULL, high = shorter ? NULL : size;
    if (json_is_object(crop)) crop = json_object_get(crop, "height");
    if (crops && !json_is_true(crops)) crop = NULL;
    double whole = json_number_value(high ? high : edge);
    if (high) put_fit(x, from, "squash");
    if (whole > 0) put_share(x, from, share_of(json_number_value(crop), whole));
}

static void put_processor(implied *x, const json_t *config, const char *from) {
    const json_t *filter = json_object_get(config, "resample");
    json_int_t number = json_is_integer(filter) ? json_integer_value(filter) : -1;
    put_filter(x, from,
               number >= 0 && number < (json_int_t)SMOE_COUNT(filters) ? filters[number] : NULL);
    put_sizes(x, config, from);
    put_normalized(x, config, from);
}

static const struct {
    const char *file;
    void (*put)(implied *x, const json_t *config, const char *from);
} configurations[] = {{"config.json", put_hugging_face},
                      {"config.json", put_timm},
                      {"preprocessor_config.json", put_processor},
                      {"open_clip_config.json", put_open_clip}};

static void implied_of(implied *x, const smoe_safetensors *file) {
    const char *path = smoe_safetensors_path(file);
    *x = (implied){.count = 0};
    put_shapes(x, file);
    if (!x->count) return;
    for (size_t i = 0; i < SMOE_COUNT(configurations); i++) {
        json_auto_t *json = smoe_json_beside(path, configurations[i].file);
        if (json) configurations[i].put(x, json, configurations[i].file);
    }
    implied_put(x, GUESS, "model.norm_eps", "%s",
                implied_find(x, "model.pre_norm") ? "1e-05" : "1e-06"); /* CLIP */
    /* flax computes it so, unless told otherwise */
    implied_put(x, GUESS, "model.gelu", smoe_text_ends(path, ".npz") ? "tanh" : "erf");
    implied_put(x, GUESS, "data.mean", "0.5");
    implied_put(x, GUESS, "data.std", "0.5");
}

/* ---- as a spec ------------------------------------------------------------------------------- */

/* The keys of a section, each on a line. */
static void section_put(FILE *out, const implied *x, const char *section) {
    size_t letters = strlen(section);
    fprintf(out, "%.*s:\n", (int)letters - 1, section);
    if (*section == 'd') fprintf(out, "  source: image-folder\n  path: PATH  # of your images\n");
    for (size_t i = 0; i < x->count; i++) {
        const implied_key *k = &x->key[i];
        const char *from = k->from;
        if (strncmp(k->key, section, letters) != 0) continue;
        fprintf(out, "  %s: %s%s%s\n", k->key + letters, k->value,
                !from   ? ""
                : *from ? "  # "
                        : "  # a guess: not in the file",
                from ? from : "");
    }
}

char *smoe_implied_spec(const smoe_safetensors *file) {
    implied x;
    char *text = NULL;
    size_t size;
    implied_of(&x, file);
    FILE *out = x.count ? smoe_alloc_stream(&text, &size) : NULL;
    if (!out) return NULL;
    section_put(out, &x, "data.");
    section_put(out, &x, "model.");
    smoe_alloc_stream_close(out, &text);
    return text;
}

/* ---- against a spec -------------------------------------------------------------------------- */

/* A key of a spec as text: "1e-06", "true", "token", "[0.5,0.4,0.4]". */
static void implied_value_of(char value[96], const smoe_spec *spec, const json_t *json,
                             const char *key) {
    const json_t *at = smoe_json_at(json, key);
    SMOE_FREED char *list = json_is_array(at) ? smoe_json_dump(at, 0) : NULL;
    if (list || json_is_string(at))
        snprintf(value, 96, "%s", list ? list : json_string_value(at));
    else if (!strcmp(key, "text.heads")) /* 0 is that of the image tower */
        snprintf(value, 96, "%zu", smoe_spec_text_tower(spec).heads);
    else if (json_is_boolean(at))
        snprintf(value, 96, "%s", json_is_true(at) ? "true" : "false");
    else
        snprintf(value, 96, "%.9g", json_number_value(at));
}

/* What tensors do not show of a model of this program must be as its own spec has it. */
static void put_own(implied *x, const smoe_safetensors *file) {
    static const char *const keys[] = {"model.heads",      "model.norm_eps",       "model.gelu",
                                       "model.moe.l2_eps", "model.moe.scale_form", "model.moe.gate",
                                       "text.causal",      "model.moe.combine",    "text.pool",
                                       "text.padding",     "text.pad_id",          "text.norm_eps",
                                       "data.mean",        "text.heads",           "data.std"};
    const smoe_spec_text carried = {
        .text = smoe_safetensors_metadata(file, "smoe.spec"), .label = "its spec", .trained = true};
    SMOE_FREED_BY(smoe_spec_free) smoe_spec own = {0};
    smoe_err ignored;
    char value[96];
    *x = (implied){.count = 0};
    if (!carried.text || smoe_spec_parse(&own, &carried, NULL, 0, &ignored)) return;
    json_auto_t *json = smoe_spec_object(&own);
    for (size_t i = 0; i < SMOE_COUNT(keys); i++) {
        implied_value_of(value, &own, json, keys[i]);
        if (smoe_spec_acts(&own, keys[i])) implied_put(x, "its own spec has", keys[i], "%s", value);
    }
}

/* What the file's own spec says or, of a file of another program, what is beside it; returns
 * whether it is the former. */
static bool implied_said(implied *x, const smoe_safetensors *file) {
    bool own = smoe_safetensors_metadata(file, "smoe.version");
    if (own)
        put_own(x, file);
    else
        implied_of(x, file);
    return own;
}

static int refuse_other(const char *other, const char *path, smoe_err *err) {
    if (!*other) return 0;
    return smoe_fail(err, SMOE_DATA, "%s: %s: no model of this program has that", path, other);
}

int smoe_implied_check(const smoe_spec *spec, const smoe_safetensors *file, bool pooled,
                       smoe_err *err) {
    const char *path = smoe_safetensors_path(file);
    implied x;
    smoe_err found = {0};
    bool own = implied_said(&x, file);
    if (refuse_other(x.other, path, err)) return -1;
    if (smoe_spec_acts(spec, "text.heads") && refuse_other(x.text, path, err)) return -1;
    json_auto_t *json = smoe_spec_object(spec);
    for (size_t i = 0; i < x.count; i++) {
        const implied_key *k = &x.key[i];
        char value[96];
        bool head = !strcmp(k->key, "model.head") || !strcmp(k->key, "model.registers");
        if (!k->from || !*k->from || !strncmp(k->key, "data.", 5) || (head && !pooled)) continue;
        implied_value_of(value, spec, json, k->key);
        if (strcmp(value, k->value) != 0 && smoe_spec_acts(spec, k->key))
            smoe_fail_more(
                &found, SMOE_USAGE, "%s: %s%s %s=%s, and the spec has %s%s", path, k->from,
                own                  ? ""
                : k->from == QUERIES ? " says"
                                     : " beside it says",
                k->key, k->value, value, own ? "; --partial takes the weights all the same" : "");
    }
    return smoe_fail_found(err, &found);
}

int smoe_implied_refuse(const smoe_safetensors *file, smoe_err *err) {
    const char *path = smoe_safetensors_path(file);
    implied x;
    if (smoe_foreign_check(file, err)) return -1;
    implied_of(&x, file);
    if (refuse_other(x.other, path, err)) return -1;
    if (smoe_safetensors_find(file, "patch_embed.proj.weight") || !smoe_safetensors_count(file))
        return 0;
    return smoe_fail(err, SMOE_DATA,
                     "%s: no patch embedding under a name that is known, so no Vision Transformer "
                     "that can be read; its first tensor is %.100s",
                     path, smoe_safetensors_at(file, 0)->name);
}

static bool pixels_differ(const implied_key *k, const smoe_series *series, size_t channels) {
    if (!k || !k->from || !*k->from) return false;
    json_auto_t *value = json_loads(k->value, JSON_DECODE_ANY, NULL);
    for (size_t i = 0; i < channels; i++) {
        const json_t *v = json_is_array(value) ? json_array_get(value, i) : value;
        if (fabs(json_number_value(v) - smoe_series_at(series, i)) > 1e-6) return true;
    }
    return false;
}

/* The keys of the model that are guesses, in a line; NULL: there are none. Of a text tower, shapes
 * show none of these keys. */
static char *guesses(implied *x, const smoe_spec *spec, const char *path) {
    static const char *const texts[] = {"text.heads",  "text.causal", "text.padding",
                                        "text.pad_id", "text.pool",   "text.norm_eps"};
    char *text = NULL;
    size_t size, open = 0;
    bool pixels = false; /* are known */
    FILE *out = smoe_alloc_stream(&text, &size);
    fprintf(out, "%s: taken from the spec, because the file does not contain it:", path);
    for (size_t i = 0; i < x->count; i++) {
        if (x->key[i].from == GUESS && !strncmp(x->key[i].key, "model.", 6))
            fprintf(out, "%s %s", open++ ? "," : "", x->key[i].key);
        pixels |= x->key[i].from && *x->key[i].from && !strcmp(x->key[i].key, "data.mean");
    }
    for (size_t i = 0; x->texts && i < SMOE_COUNT(texts); i++)
        if (!implied_find(x, texts[i]) && smoe_spec_acts(spec, texts[i]))
            fprintf(out, "%s %s", open++ ? "," : "", texts[i]);
    fprintf(out, ", the order of norms, rotary positions%s", pixels ? "" : ", data.mean, data.std");
    smoe_alloc_stream_close(out, &text);
    if (open) return text;
    free(text);
    return NULL;
}

char *smoe_implied_remark(const smoe_spec *spec, const smoe_safetensors *file) {
    implied x;
    const char *path = smoe_safetensors_path(file);
    bool own = implied_said(&x, file);
    size_t channels = spec->data.channels;
    if (!x.count) return NULL;
    const implied_key *mean = implied_find(&x, "data.mean"), *std = implied_find(&x, "data.std");
    if (pixels_differ(mean, &spec->data.mean, channels) ||
        pixels_differ(std, &spec->data.std, channels))
        return smoe_text_format(
            "%s: trained with other pixel values: %s%s 'data.mean=%s' 'data.std=%s'", path,
            mean->from, own ? "" : " beside it says", mean->value, std->value);
    return guesses(&x, spec, path);
}
