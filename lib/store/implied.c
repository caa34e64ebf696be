/* The keys that follow from a file of weights and the files beside it; see implied.h. */
#include "store/implied.h"
#include "base/file.h"
#include "base/json.h"
#include "tensors/foreign.h"
#include "text/tokenizer.h"

#include <ctype.h>
#include <sys/stat.h>

/* ---- keys ------------------------------------------------------------------------------------ */

static const char GUESS[] = "";
static const char QUERIES[] = "the shape of its queries";

typedef struct implied_key {
    const char *key;
    char value[96];
    const char *from; /* what says it, for messages; NULL: the shapes; "": nothing, it is a guess */
} implied_key;

enum { IMPLIED = 32, HIGHEST = -1 /* the highest id of a text */ };
typedef struct implied {
    implied_key key[IMPLIED];
    size_t count;      /* 0: the file has no patch embedding, or a model with experts */
    const char *from;  /* of what is put now */
    smoe_err damaged;  /* a configuration that is there, and cannot be read */
    char other[160];   /* "CONFIGURATION: what it has that no model of this program has", or "" */
    char filter[96];   /* what says data.resize, if that is another filter */
    bool texts;        /* the file has a text tower */
    char text[160];    /* as `other`, of that tower */
    char grid[192];    /* "CONFIGURATION: images that are not square", or "" */
    char end[96];      /* "CONFIGURATION: at which token texts are pooled", or "" */
    json_int_t end_id; /* of that token, or HIGHEST */
} implied;

static implied_key *implied_find(implied *x, const char *key) {
    for (size_t i = 0; i < x->count; i++)
        if (!strcmp(x->key[i].key, key)) return &x->key[i];
    return NULL;
}

#define implied_put(x, key, ...) implied_put_from(x, (x)->from, key, __VA_ARGS__)
#define implied_put_from(x, from, key, ...) implied_set(x, from, key, smoe_text_format(__VA_ARGS__))
static void implied_set(implied *x, const char *from, const char *key, char *fresh) {
    SMOE_FREED char *value = fresh;
    implied_key *k = implied_find(x, key);
    if (k ? from == GUESS : x->count == IMPLIED) return;
    if (!k) k = &x->key[x->count++];
    *k = (implied_key){.key = key, .from = from};
    snprintf(k->value, sizeof k->value, "%s", value);
}

/* The configuration leaves the key as the shapes imply it; or, with GUESS, may change it, in words
 * that are not understood. */
static void put_from(implied *x, const char *key, const char *from) {
    implied_key *known = implied_find(x, key);
    if (known) known->from = from;
}

/* A number that is known. */
static void put_number(implied *x, const char *key, double number) {
    if (number > 0) implied_put(x, key, "%.9g", number);
}

static size_t implied_number(implied *x, const char *key) {
    return strtoull(implied_find(x, key)->value, NULL, 10);
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
    implied_put_from(x, side ? NULL : GUESS, "data.image_size", "%zu", side ? side * patch : 224);
    implied_put(x, "data.channels", "%zu", dim_of(file, "patch_embed.proj.weight", 1));
    implied_put(x, "model.variant", "none");
    implied_put(x, "model.width", "%zu", d);
    implied_put(x, "model.depth", "%zu", depth);
    implied_put(x, "model.mlp", "%zu", mlp);
    /* 64 numbers per head, except in the sizes that have 16 heads */
    bool wide = d == 1152 || d == 1280 || d == 1408 || d == 1664;
    size_t heads = wide ? 16 : d % 64 ? 1 : d / 64, known = dh ? d / dh : heads_of(file);
    implied_put_from(x,
                     dh      ? NULL
                     : known ? QUERIES
                             : GUESS,
                     "model.heads", "%zu", known ? known : heads);
    implied_put(x, "model.patch_size", "%zu", patch);
    bool map = smoe_safetensors_find(file, "attn_pool.latent");
    bool normed = smoe_safetensors_find(file, "fc_norm.weight");
    bool token = dim_of(file, "cls_token", 1);
    const char *pools = map ? "map" : normed ? "gap-norm" : token ? "token" : "gap";
    /* without a map the token may be pooled, or the patches */
    implied_put_from(x, map || !token ? NULL : GUESS, "model.head", "%s", pools);
    implied_put(x, "model.registers", "%zu",
                dim_of(file, "reg_token", 1) + (token && (map || normed)));
    x->texts = smoe_safetensors_find(file, "text.token_embedding.weight");
    bool learned = smoe_safetensors_find(file, "pos_embed"); /* rotary embeddings are not stored */
    implied_put_from(x, learned ? NULL : GUESS, "model.position", learned ? "learned" : "none");
    if (smoe_safetensors_find(file, "norm_pre.weight")) implied_put(x, "model.pre_norm", "true");
    if (dh) implied_put(x, "model.qk_norm", "true");
    implied_put(x, "model.moe", "{layers: none}");
}

/* ---- configurations -------------------------------------------------------------------------- */

static const char *text_at(const json_t *json, const char *path) {
    return json_string_value(smoe_json_at(json, path));
}

static double number_at(const json_t *json, const char *path) {
    return json_number_value(smoe_json_at(json, path));
}

static bool true_at(const json_t *json, const char *path) {
    return json_is_true(smoe_json_at(json, path));
}

/* A word, and those of others, separated by blanks, that mean it. */
typedef struct meaning {
    const char *word, *others;
} meaning;

/* The word that another one means; NULL: it is none of a list that ends with NULL. */
static const char *meant_by(const meaning *list, const char *other) {
    while (list->word && !(other && smoe_text_has_word(list->others, ' ', other))) list++;
    return list->word;
}

static void put_other(implied *x, const char *what, const char *value) {
    snprintf(x->other, sizeof x->other, "%s beside it says %s%.60s", x->from, what, value);
}

/* The values of model.gelu for other programs' names of it. */
static const meaning gelus[] = {
    {"erf", "gelu gelu_erf gelu_python"},
    {"quick", "quick_gelu"},
    {"tanh", "gelu_new gelu_fast gelu_tanh gelu_accurate gelu_python_tanh gelu_pytorch_tanh"},
    {NULL, NULL}};

static void put_gelu(implied *x, const char *name) {
    const char *gelu = meant_by(gelus, name);
    if (gelu) implied_put(x, "model.gelu", "%s", gelu);
    if (name && !gelu) put_other(x, "that its MLPs have the function ", name);
}

/* A text tower: 0 and NULL are not known. Its function is that of the image tower, which is there
 * already. */
static void put_text(implied *x, double heads, double eps, const char *function) {
    const implied_key *image = implied_find(x, "model.gelu");
    const char *gelu = meant_by(gelus, function);
    if (!x->texts) return;
    put_number(x, "text.heads", heads);
    put_number(x, "text.norm_eps", eps);
    if (function && (!gelu || (image && strcmp(gelu, image->value) != 0)))
        snprintf(x->text, sizeof x->text,
                 "%s beside it says that the MLPs of its text tower have the function %.40s%s",
                 x->from, function, gelu ? ", and those of images another" : "");
}

/* Without a causal mask there is none of the padding either. */
static void put_text_mask(implied *x, bool causal, const char *pool) {
    if (!x->texts || !pool) return;
    implied_put(x, "text.causal", causal ? "true" : "false");
    implied_put(x, "text.pool", "%s", pool);
    if (!causal) implied_put(x, "text.padding", "attended");
}

/* The token of the padding, where texts attend to it. */
static void put_pad(implied *x, const json_t *said) {
    if (x->texts && json_is_integer(said))
        implied_put(x, "text.pad_id", "%" JSON_INTEGER_FORMAT, json_integer_value(said));
}

/* The token at which a text is pooled, if that is the first one with an id, or the highest id. */
static void put_end(implied *x, json_int_t id) {
    SMOE_FREED char *at = id == HIGHEST ? smoe_alloc_text("the highest id in a text")
                                        : smoe_text_format("token %" JSON_INTEGER_FORMAT, id);
    x->end_id = id;
    snprintf(x->end, sizeof x->end, "%s beside it says that texts are pooled at %s", x->from, at);
}

/* The side of an image: a number, or the last two of an array. If they differ, the grid of learned
 * positions is no square, though their number may be one. */
static void put_side(implied *x, const json_t *said) {
    size_t n = json_array_size(said), patch = implied_number(x, "model.patch_size");
    size_t wide = (size_t)json_integer_value(n > 1 ? json_array_get(said, n - 1) : said);
    size_t high = n > 1 ? (size_t)json_integer_value(json_array_get(said, n - 2)) : wide;
    if (high != wide && implied_find(x, "model.position")->from != GUESS)
        snprintf(x->grid, sizeof x->grid,
                 "%s beside it says that its images have %zu x %zu pixels, so its positions are "
                 "not of a square: give --grid %zux%zu",
                 x->from, high, wide, high / patch, wide / patch);
    if (high == wide && implied_find(x, "data.image_size")->from == GUESS)
        put_number(x, "data.image_size", (double)wide);
}

/* Values of channels, one for each or one for all, as (value + add)/by. */
static void put_pixels(implied *x, const char *key, const json_t *said, double add, double by) {
    double v[3];
    for (size_t i = 0; i < 3; i++)
        v[i] = (json_number_value(json_is_array(said) ? json_array_get(said, i) : said) + add) / by;
    if (json_array_size(said) == 3)
        implied_put(x, key, "[%.8g, %.8g, %.8g]", v[0], v[1], v[2]);
    else if (json_is_number(said) ||
             (json_array_size(said) == 1 && implied_number(x, "data.channels") == 1))
        implied_put(x, key, "%.8g", v[0]);
}

static const char *const filters[] = {"nearest", "lanczos", "bilinear",
                                      "bicubic", "box",     "hamming"}; /* by Pillow's numbers */

/* Bicubic and bilinear are the filters here. */
static void put_filter(implied *x, const char *name) {
    static const meaning likes[] = {
        {"bilinear", "nearest bilinear box hamming"}, {"bicubic", "lanczos bicubic"}, {NULL, NULL}};
    const char *like = meant_by(likes, name);
    if (!like) return;
    snprintf(x->filter, sizeof x->filter, "%s says %s, which smoe lacks", x->from, name);
    implied_put_from(x, strcmp(name, like) ? x->filter : x->from, "data.resize", "%s", like);
}

/* How images become squares, where that is not by cropping. */
static void put_fit(implied *x, const char *name) {
    if (name && !strcmp(name, "squash")) implied_put(x, "data.fit", "squash");
    if (name && !strcmp(name, "longest")) implied_put(x, "data.fit", "border");
    if (name && !strcmp(name, "border"))
        implied_put_from(x, "config.json, with the colour of its mean", "data.fit", "border");
}

/* What timm and open_clip say about pixels in the same words. */
static void put_pictures(implied *x, const json_t *data) {
    put_pixels(x, "data.mean", smoe_json_at(data, "mean"), 0, 1);
    put_pixels(x, "data.std", smoe_json_at(data, "std"), 0, 1);
    put_filter(x, text_at(data, "interpolation"));
}

/* With the digits that it takes: smoe_box_share rounds the quotient by it down. */
static void put_share(implied *x, double share) {
    if (share >= 0.1 && share < 1)
        implied_put(x, "data.crop_pct", "%.*g", smoe_text_digits(share, 1), share);
}

/* ---- configurations of transformers ---------------------------------------------------------- */

/* What classes of transformers, by their types, have where a configuration says nothing. */
typedef struct hf_tower {
    const char *types;
    double width, heads, eps;
    const char *gelu;
    const char *pool; /* of texts: "end" of a causal tower, "last" of one without a mask */
} hf_tower;

static const hf_tower hf_towers[] = {
    {"clip_vision_model", 768, 12, 1e-5, "quick_gelu", NULL},
    {"clip_text_model", 512, 8, 1e-5, "quick_gelu", "end"},
    {"siglip_vision_model", 768, 12, 1e-6, "gelu_pytorch_tanh", NULL},
    {"siglip_text_model", 768, 12, 1e-6, "gelu_pytorch_tanh", "last"},
    {"vit deit ijepa", 768, 12, 1e-12, "gelu", NULL},
    {"vit_msn dinov2 dinov2_with_registers", 768, 12, 1e-6, "gelu", NULL},
};

/* The tower "vision" or "text" of a model with several; or the only one, which is "vision". */
static hf_tower hf_tower_of(const json_t *config, const char *part) {
    char name[64];
    const char *whole = text_at(config, "model_type");
    snprintf(name, sizeof name, "%s_config", part);
    const json_t *own = json_object_get(config, name);
    if (!json_is_object(own)) own = *part == 'v' ? config : NULL;
    const char *type = text_at(own, "model_type"), *gelu = text_at(own, "hidden_act");
    snprintf(name, sizeof name, "%.30s_%s_model", whole ? whole : "", part);
    hf_tower x = {0};
    for (size_t i = 0; i < SMOE_COUNT(hf_towers); i++)
        if ((type && smoe_text_has_word(hf_towers[i].types, ' ', type)) ||
            !strcmp(name, hf_towers[i].types))
            x = hf_towers[i];
    const json_t *width = smoe_json_at(own, "hidden_size"),
                 *heads = smoe_json_at(own, "num_attention_heads"),
                 *eps = smoe_json_at(own, "layer_norm_eps");
    if (json_is_integer(width)) x.width = json_number_value(width);
    if (json_is_integer(heads)) x.heads = json_number_value(heads);
    if (json_is_number(eps)) x.eps = json_number_value(eps);
    if (gelu) x.gelu = gelu;
    return x;
}

/* Old configurations of CLIP have the end token 2 by mistake: transformers then pools as OpenAI's
 * models do, at the highest id. */
static void put_hf_end(implied *x, const json_t *config) {
    enum { OLD = 2, CLIP = 49407 };
    const json_t *said = smoe_json_at(config, "text_config.eos_token_id");
    json_int_t id = json_is_integer(said) ? json_integer_value(said) : CLIP;
    put_end(x, id == OLD ? HIGHEST : id);
}

static void put_hugging_face(implied *x, const json_t *config) {
    const hf_tower image = hf_tower_of(config, "vision"), text = hf_tower_of(config, "text");
    if (image.width != (double)implied_number(x, "model.width")) return;
    put_pad(x, smoe_json_at(config, "text_config.pad_token_id"));
    if (text.pool && !strcmp(text.pool, "end")) put_hf_end(x, config);
    const json_t *vision = json_object_get(config, "vision_config");
    if (vision) config = vision;
    put_side(x, smoe_json_at(config, "image_size"));
    put_number(x, "model.norm_eps", image.eps);
    put_number(x, "model.heads", image.heads);
    put_gelu(x, image.gelu);
    put_from(x, "model.head", x->from); /* names tell it there */
    put_text(x, text.heads, text.eps, text.gelu);
    put_text_mask(x, text.pool && !strcmp(text.pool, "end"), text.pool);
    if (smoe_json_at(config, "rope_theta")) put_other(x, "that its positions are rotary", "");
}

/* ---- configurations of timm and open_clip ---------------------------------------------------- */

/* Models of timm that have the tensors of a plain Vision Transformer but are none, by parts of
 * their names. */
static const meaning timm_others[] = {
    {"ResPostBlock: norms behind attention and MLPs", "_rpn_"},
    {"norms behind attention and MLPs", "eva02_enormous"},
    {"rotary positions",
     "eva02_ _rope_ dinov3 _pe_core_ _pe_lang_ _pe_spatial_ _lingbot _sapiens2"},
    {"that it pools registers too", "test_vit3"}};

/* Keys that follow from such parts. */
static const struct {
    const char *key, *value, *parts;
} timm_names[] = {
    {"model.gelu", "quick", "quickgelu"},
    {"model.gelu", "tanh",
     "so400m_patch16_siglip giantopt_patch16_siglip base_patch32_siglip large_patch16_siglip_512 "
     "large_patch16_siglip_gap_512"},
    {"model.heads", "16", "vit_giantopt_ vit_base_patch16_gap_"}};

/* What the name of a timm model says about its norms, GELU and heads, which shapes do not show. */
static void put_timm_name(implied *x, const char *name) {
    static const char *const known[] = {"vit_", "deit", "flexivit", "eva", "beit"};
    bool here = false, clip = strstr(name, "vit_") && strstr(name, "_clip_");
    for (size_t i = 0; i < SMOE_COUNT(timm_others) && !*x->other; i++)
        if (smoe_text_has_part(name, timm_others[i].others))
            put_other(x, "of its model: ", timm_others[i].word);
    for (size_t i = 0; i < SMOE_COUNT(known); i++)
        here |= !strncmp(name, known[i], strlen(known[i]));
    if (!here) return;
    implied_put(x, "model.norm_eps", clip ? "1e-05" : "1e-06");
    implied_put(x, "model.gelu", "erf");
    put_from(x, "model.heads", x->from);
    for (size_t i = 0; i < SMOE_COUNT(timm_names); i++)
        if (smoe_text_has_part(name, timm_names[i].parts))
            implied_put(x, timm_names[i].key, "%s", timm_names[i].value);
}

/* Which tokens timm pools. */
static void put_pool(implied *x, const char *pool) {
    const char *head = implied_find(x, "model.head")->value;
    bool token = !strcmp(head, "token"), mean = !strncmp(head, "gap", 3);
    if (!strcmp(pool, "avg") && token) {
        implied_put(x, "model.head", "gap");
        implied_put(x, "model.registers", "%zu", implied_number(x, "model.registers") + 1);
    } else if (strcmp(pool, token ? "token" : mean ? "avg" : "map") != 0) {
        put_other(x, "that it pools by ", *pool ? pool : "nothing");
    } else {
        put_from(x, "model.head", x->from);
    }
}

/* Whether an argument of a model of timm is absent or one of these names, of which timm ignores
 * case and underscores. */
static bool timm_plain(const json_t *args, const char *key, const char *plain) {
    const json_t *said = json_object_get(args, key);
    const char *name = json_string_value(said);
    char bare[64];
    size_t n = 0;
    if (!said || json_is_null(said) || (name && !*name)) return true;
    for (; name && *name && n + 1 < sizeof bare; name++)
        if (*name != '_') bare[n++] = (char)tolower((unsigned char)*name);
    bare[n] = '\0';
    return n && smoe_text_has_word(plain, ' ', bare);
}

/* The arguments that timm makes a model with, beyond those that shapes show. */
static void put_timm_args(implied *x, const json_t *args) {
    const char *gelu = text_at(args, "act_layer"), *norm = text_at(args, "norm_layer");
    const char *block = text_at(args, "block_fn");
    put_number(x, "model.heads", (double)json_integer_value(smoe_json_at(args, "num_heads")));
    if (json_integer_value(smoe_json_at(args, "num_heads")) <= 0 &&
        smoe_json_at(args, "embed_dim") && !implied_find(x, "model.qk_norm"))
        put_from(x, "model.heads", GUESS); /* those of that name, whatever its width */
    if (gelu && *gelu) put_gelu(x, gelu);
    if (!timm_plain(args, "mlp_layer", "mlp")) put_from(x, "model.gelu", GUESS);
    if (norm && *norm) implied_put(x, "model.norm_eps", "1e-06"); /* timm's own classes */
    if (!timm_plain(args, "norm_layer", "layernorm layernormfp32") ||
        !timm_plain(args, "block_fn", "block"))
        put_from(x, "model.norm_eps", GUESS);
    if (block && !strncmp(block, "ResPost", 7)) put_other(x, "that its blocks are ", block);
    if (true_at(args, "use_rot_pos_emb")) put_other(x, "that its positions are rotary", "");
    if (true_at(args, "use_post_norm"))
        put_other(x, "that it has norms behind attention and MLPs", "");
    if (true_at(args, "pool_include_prefix") && implied_number(x, "model.registers") &&
        strcmp(implied_find(x, "model.head")->value, "token") != 0)
        put_other(x, "that it pools registers too", "");
}

static void put_timm(implied *x, const json_t *config) {
    const char *name = text_at(config, "architecture"), *pool = text_at(config, "global_pool");
    const json_t *data = json_object_get(config, "pretrained_cfg");
    const json_t *size = smoe_json_at(config, "model_args.img_size");
    const char *mode = text_at(data, "crop_mode");
    if (!name) return;
    put_timm_name(x, name);
    if (pool) put_pool(x, pool);
    put_timm_args(x, json_object_get(config, "model_args"));
    put_side(x, size && !json_is_null(size) ? size : smoe_json_at(data, "input_size"));
    put_pictures(x, data);
    put_fit(x, mode);
    if (!mode || strcmp(mode, "border") != 0) put_share(x, number_at(data, "crop_pct"));
}

/* What open_clip says of a tower of its own, of images or texts. */
static double clip_eps(const json_t *tower) {
    return smoe_json_at(tower, "norm_kwargs.eps") ? number_at(tower, "norm_kwargs.eps") : 1e-5;
}

static const char *clip_gelu(const json_t *model, const json_t *tower) {
    const char *form = text_at(tower, "act_kwargs.approximate");
    if (true_at(model, "quick_gelu")) return "quick_gelu";
    return form && !strcmp(form, "tanh") ? "gelu_tanh" : "gelu";
}

static void put_clip_text(implied *x, const json_t *model) {
    static const meaning pools[] = {
        {"end", "argmax eos"}, {"last", "last"}, {"first", "first"}, {NULL, NULL}};
    const json_t *text = json_object_get(model, "text_cfg");
    const json_t *heads = json_object_get(text, "heads"), *end = json_object_get(text, "eos_id");
    const char *pool = text_at(text, "pool_type");
    if (!text || json_object_get(text, "hf_model_name")) return;
    put_text(x, heads ? (double)json_integer_value(heads) : 8, clip_eps(text),
             clip_gelu(model, text));
    put_pad(x, json_object_get(text, "pad_id"));
    put_text_mask(x, !true_at(text, "no_causal_mask"), meant_by(pools, pool ? pool : "argmax"));
    if (!pool || !strcmp(pool, "argmax")) put_end(x, HIGHEST);
    if (pool && !strcmp(pool, "eos")) put_end(x, end ? json_integer_value(end) : 2);
}

static void put_open_clip(implied *x, const json_t *config) {
    const json_t *model = json_object_get(config, "model_cfg");
    const json_t *vision = json_object_get(model, "vision_cfg");
    const json_t *data = json_object_get(config, "preprocess_cfg");
    const char *timm = text_at(vision, "timm_model_name"), *pool = text_at(vision, "pool_type");
    if (!vision) return;
    if (timm) {
        put_timm_name(x, timm);
    } else {
        json_int_t width = json_integer_value(json_object_get(vision, "width"));
        json_int_t each = json_integer_value(json_object_get(vision, "head_width"));
        if (width > 0) put_number(x, "model.heads", (double)(width / (each ? each : 64)));
        implied_put(x, "model.norm_eps", "%.9g", clip_eps(vision));
        put_gelu(x, clip_gelu(model, vision));
        put_from(x, "model.head", x->from);
        if (pool && strcmp(pool, "tok") != 0) put_other(x, "that it pools by ", pool);
    }
    put_clip_text(x, model);
    put_pictures(x, data);
    put_fit(x, text_at(data, "resize_mode"));
}

/* ---- configurations of preprocessing --------------------------------------------------------- */

/* transformers computes (x f + o - mean)/std from a byte x: f is 1/255, or another factor, or 1
 * without do_rescale; o is 0, or -1 with rescale_offset; without do_normalize, mean is 0 and std 1.
 * Here it is (x/255 - m)/s, so m = (mean - o)/(255 f) and s = std/(255 f). */
static void put_normalized(implied *x, const json_t *config) {
    json_auto_t *zero = json_real(0), *one = json_real(1);
    double factor = number_at(config, "rescale_factor");
    bool whole = json_is_false(smoe_json_at(config, "do_rescale"));
    bool offset = !whole && true_at(config, "rescale_offset");
    bool plain = json_is_false(smoe_json_at(config, "do_normalize"));
    double by = whole ? 255 : factor > 0 ? 255 * factor : 1;
    put_pixels(x, "data.mean", plain ? zero : smoe_json_at(config, "image_mean"), offset, by);
    put_pixels(x, "data.std", plain ? one : smoe_json_at(config, "image_std"), 0, by);
}

/* A size is {"height", "width"} or {"shortest_edge"}; in older files a number, which stands for a
 * square except with CLIP and BiT. A crop takes the centre of what was resized; the share is one
 * for which the quotient is no less than the whole side. */
static void put_sizes(implied *x, const json_t *config) {
    const json_t *size = smoe_json_at(config, "size"), *crop = smoe_json_at(config, "crop_size");
    const json_t *crops = smoe_json_at(config, "do_center_crop");
    const json_t *edge = smoe_json_at(size, "shortest_edge"), *high = smoe_json_at(size, "height");
    const char *type = text_at(config, "image_processor_type");
    if (!type) type = text_at(config, "feature_extractor_type");
    bool shorter = type && (strstr(type, "CLIP") || !strncmp(type, "Bit", 3));
    if (json_is_integer(size)) edge = shorter ? size : NULL, high = shorter ? NULL : size;
    if (json_is_object(crop)) crop = smoe_json_at(crop, "height");
    if (crops && !json_is_true(crops)) crop = NULL;
    double whole = json_number_value(high ? high : edge), side = json_number_value(crop);
    double share = side / whole;
    if (high) put_fit(x, "squash");
    if (whole > 0) put_share(x, side / share < whole ? nextafter(share, 0) : share);
}

static void put_processor(implied *x, const json_t *config) {
    const json_t *filter = smoe_json_at(config, "resample");
    size_t number = json_is_integer(filter) ? (size_t)json_integer_value(filter) : SIZE_MAX;
    put_filter(x, number < SMOE_COUNT(filters) ? filters[number] : NULL);
    put_sizes(x, config);
    put_normalized(x, config);
}

static const struct {
    const char *file;
    void (*put)(implied *x, const json_t *config);
} configurations[] = {{"config.json", put_hugging_face},
                      {"config.json", put_timm},
                      {"preprocessor_config.json", put_processor},
                      {"open_clip_config.json", put_open_clip}};

/* NULL, and x->damaged if it is there: a pipe or a folder of that name is none. */
static json_t *configuration(implied *x, const char *path) {
    SMOE_FREED char *beside = smoe_file_beside(path, x->from);
    struct stat there;
    return !stat(beside, &there) && S_ISREG(there.st_mode) ? smoe_json_read(beside, &x->damaged)
                                                           : NULL;
}

static void implied_of(implied *x, const smoe_safetensors *file) {
    const char *path = smoe_safetensors_path(file);
    *x = (implied){.count = 0};
    put_shapes(x, file);
    if (!x->count) return;
    for (size_t i = 0; i < SMOE_COUNT(configurations); i++) {
        x->from = configurations[i].file;
        json_auto_t *json = configuration(x, path);
        if (json) configurations[i].put(x, json);
    }
    x->from = GUESS;
    implied_put(x, "model.norm_eps",
                implied_find(x, "model.pre_norm") ? "1e-05" : "1e-06"); /* CLIP */
    /* flax computes it so, unless told otherwise */
    implied_put(x, "model.gelu", smoe_text_ends(path, ".npz") ? "tanh" : "erf");
    implied_put(x, "data.mean", "0.5");
    implied_put(x, "data.std", "0.5");
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

int smoe_implied_spec(char **text, const smoe_safetensors *file, smoe_err *err) {
    implied x;
    size_t size;
    *text = NULL;
    implied_of(&x, file);
    if (smoe_fail_found(err, &x.damaged)) return -1;
    if (!x.count) return 0;
    FILE *out = smoe_alloc_stream(text, &size);
    section_put(out, &x, "data.");
    section_put(out, &x, "model.");
    smoe_alloc_stream_close(out, text);
    return 0;
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
    static const char *const keys[] = {"model.heads",
                                       "model.norm_eps",
                                       "model.gelu",
                                       "model.position",
                                       "model.moe.l2_eps",
                                       "model.moe.scale_form",
                                       "model.moe.combine",
                                       "model.moe.gate",
                                       "model.moe.renormalize",
                                       "model.moe.transport_steps",
                                       "text.heads",
                                       "text.norm_eps",
                                       "text.causal",
                                       "text.clean",
                                       "text.padding",
                                       "text.pad_id",
                                       "text.pool",
                                       "data.mean",
                                       "data.std",
                                       "data.orientation",
                                       "data.fit",
                                       "data.resize",
                                       "data.crop_pct"};
    const smoe_spec_text carried = {
        .text = smoe_safetensors_metadata(file, "smoe.spec"), .label = "its spec", .trained = true};
    SMOE_FREED_BY(smoe_spec_free) smoe_spec own = {0};
    smoe_err ignored;
    char value[96];
    *x = (implied){.from = "its own spec has"};
    if (!carried.text || smoe_spec_parse(&own, &carried, NULL, 0, &ignored)) return;
    json_auto_t *json = smoe_spec_object(&own);
    for (size_t i = 0; i < SMOE_COUNT(keys); i++) {
        implied_value_of(value, &own, json, keys[i]);
        if (smoe_spec_acts(&own, keys[i])) implied_put(x, keys[i], "%s", value);
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

/* Where texts are pooled at their end token, it must be that of the file. A tokenizer that cannot
 * be opened is an error where texts are read. */
static void check_end(smoe_err *found, const implied *x, const smoe_spec *spec, const char *path) {
    smoe_tokenizer *t;
    smoe_err ignored;
    if (!*x->end || !x->texts || !smoe_spec_acts(spec, "text.pool") ||
        spec->text.pool != SMOE_POOL_END || smoe_tokenizer_open(&t, spec, &ignored))
        return;
    bool last = t->end + 1 == t->vocabulary && t->pad <= t->end;
    if (x->end_id == HIGHEST ? !last : x->end_id != (json_int_t)t->end)
        smoe_fail_more(found, SMOE_USAGE,
                       "%s: %s, and with text.tokenizer=%s and text.pad_id=%zu a text ends with "
                       "token %zu%s: take the tokenizer of the file",
                       path, x->end, spec->text.tokenizer, spec->text.pad_id, (size_t)t->end,
                       x->end_id == HIGHEST ? ", which may not be its highest" : "");
    smoe_tokenizer_free(t);
}

/* A grid that is not square must be given. */
static int refuse_grid(const implied *x, const smoe_safetensors *file, smoe_err *err) {
    size_t rows, columns;
    smoe_safetensors_grid(file, &rows, &columns);
    if (!*x->grid || rows) return 0;
    return smoe_fail(err, SMOE_USAGE, "%s: %s", smoe_safetensors_path(file), x->grid);
}

int smoe_implied_check(const smoe_spec *spec, const smoe_safetensors *file, bool pooled,
                       smoe_err *err) {
    const char *path = smoe_safetensors_path(file);
    implied x;
    smoe_err found = {0};
    bool own = implied_said(&x, file);
    if (smoe_fail_found(err, &x.damaged)) return -1;
    if (refuse_other(x.other, path, err) || refuse_grid(&x, file, err)) return -1;
    if (smoe_spec_acts(spec, "text.heads") && refuse_other(x.text, path, err)) return -1;
    json_auto_t *json = smoe_spec_object(spec);
    for (size_t i = 0; i < x.count; i++) {
        const implied_key *k = &x.key[i];
        char value[96];
        bool head = !strcmp(k->key, "model.head") || !strcmp(k->key, "model.registers");
        if (!k->from || !*k->from || !strncmp(k->key, "data.", 5) || (head && !pooled)) continue;
        implied_value_of(value, spec, json, k->key);
        if (strcmp(value, k->value) != 0 && smoe_spec_acts(spec, k->key))
            smoe_fail_more(&found, SMOE_USAGE, "%s: %s%s %s=%s, and the spec has %s%s", path,
                           k->from,
                           own                  ? ""
                           : k->from == QUERIES ? " says"
                                                : " beside it says",
                           k->key, k->value, value,
                           !own     ? ""
                           : pooled ? "; without --spec its own is used"
                                    : "; --partial takes the weights all the same");
    }
    check_end(&found, &x, spec, path);
    return smoe_fail_found(err, &found);
}

int smoe_implied_refuse(const smoe_safetensors *file, smoe_err *err) {
    const char *path = smoe_safetensors_path(file);
    implied x;
    if (smoe_foreign_check(file, err)) return -1;
    implied_of(&x, file);
    if (smoe_fail_found(err, &x.damaged)) return -1;
    if (refuse_other(x.other, path, err) || refuse_grid(&x, file, err)) return -1;
    bool patches = smoe_safetensors_find(file, "patch_embed.proj.weight");
    if ((patches && depth_of(file)) || !smoe_safetensors_count(file)) return 0;
    return smoe_fail(err, SMOE_DATA,
                     "%s: no %s under a name that is known, so no Vision Transformer that can be "
                     "read; its first tensor is %.100s",
                     path, patches ? "blocks" : "patch embedding",
                     smoe_safetensors_at(file, 0)->name);
}

/* Whether the spec has another value than the one that is said: a number, one per channel, or a
 * word. A filter that this program lacks has no right replacement. */
static bool said_differs(const implied *x, const implied_key *k, const smoe_spec *spec,
                         const json_t *json) {
    char value[96];
    const smoe_series *series = !strcmp(k->key, "data.mean")  ? &spec->data.mean
                                : !strcmp(k->key, "data.std") ? &spec->data.std
                                                              : NULL;
    if (!k->from || !*k->from || k->from == x->filter || !smoe_spec_acts(spec, k->key))
        return false;
    implied_value_of(value, spec, json, k->key);
    if (!series) return strcmp(value, k->value) != 0;
    json_auto_t *said = json_loads(k->value, JSON_DECODE_ANY, NULL);
    for (size_t i = 0; i < spec->data.channels; i++) {
        const json_t *v = json_is_array(said) ? json_array_get(said, i) : said;
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
    static const char *const pixels[] = {"data.mean", "data.std",    "data.orientation",
                                         "data.fit",  "data.resize", "data.crop_pct"};
    implied x;
    char *text = NULL;
    const char *path = smoe_safetensors_path(file);
    bool own = implied_said(&x, file);
    if (!x.count) return NULL;
    json_auto_t *json = smoe_spec_object(spec);
    for (size_t i = 0; i < SMOE_COUNT(pixels); i++) {
        const implied_key *k = implied_find(&x, pixels[i]);
        if (!k || !said_differs(&x, k, spec, json)) continue;
        if (!text)
            smoe_text_add(&text, "%s: trained with other pixel values: %.*s%s", path,
                          (int)strcspn(k->from, ","), k->from, own ? "" : " beside it says");
        smoe_text_add(&text, " '%s=%s'", k->key, k->value);
    }
    return text ? text : guesses(&x, spec, path);
}
