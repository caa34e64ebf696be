/*
 * The spec: the description of a run, read from YAML and overrides. The type, default and help of
 * every key are one entry of the schema table (schema.def). This header has the resolved form,
 * which the rest of the program uses.
 */
#pragma once

#include "base/base.h"
#include "math/gelu.h"
#include "math/precision.h"
#include "spec/spec_sweep.h"

#include <jansson.h>

enum { SMOE_MAX_PROMPTS = 100, SMOE_PROMPT = 120 };
enum { SMOE_MAX_BLOCKS = 256, SMOE_MAX_SHOTS = 16, SMOE_MAX_GROUPS = 32, SMOE_PATTERN = 80 };

#define SMOE_WORD (-1.0) /* of a number that may be a word, as phi_std: it is the word */

typedef enum smoe_source { /* entries of spec/sources.def; sources.h says more */
#define SOURCE(name, source, ...) source,
#include "spec/sources.def"
} smoe_source;
/* Data of the few-shot evaluation. */
typedef enum smoe_fewshot_source {
    SMOE_FEWSHOT_TRAINED, /* those of data.source */
    SMOE_FEWSHOT_SOURCE   /* from here on as smoe_source counts */
} smoe_fewshot_source;
typedef enum smoe_order { SMOE_ORDER_SHUFFLED, SMOE_ORDER_FILE } smoe_order;
/* Where the objects of shapes lie: inside the image, or anywhere, with wrapping at its edges. */
typedef enum smoe_positions { SMOE_POSITIONS_INSIDE, SMOE_POSITIONS_UNIFORM } smoe_positions;
/* Which factors of the large object define the classes of shapes. */
typedef enum smoe_shape_classes {
    SMOE_CLASSES_SHAPE,
    SMOE_CLASSES_SHAPE_HUE,
    SMOE_CLASSES_SHAPE_BACKGROUND,
    SMOE_CLASSES_SHAPE_HUE_BACKGROUND
} smoe_shape_classes;
/* How the soft family makes weights of logits when it combines slots. */
typedef enum smoe_combine { SMOE_COMBINE_SOFTMAX, SMOE_COMBINE_ENTMAX } smoe_combine;
/* What is done with an image that cannot be used. */
typedef enum smoe_on_error { SMOE_ON_ERROR_STOP, SMOE_ON_ERROR_SKIP } smoe_on_error;
typedef enum smoe_fit_of_image {
    SMOE_IMAGE_CROP,   /* the central square */
    SMOE_IMAGE_SQUASH, /* all of it, its sides by different factors */
    SMOE_IMAGE_BORDER  /* all of it, in a black square */
} smoe_fit_of_image;
typedef enum smoe_resize { SMOE_RESIZE_BILINEAR, SMOE_RESIZE_BICUBIC } smoe_resize;
typedef enum smoe_orientation { SMOE_ORIENTATION_IGNORE, SMOE_ORIENTATION_APPLY } smoe_orientation;
typedef enum smoe_crop { SMOE_CROP_NONE, SMOE_CROP_PAD, SMOE_CROP_INCEPTION } smoe_crop;
typedef enum smoe_head {
    SMOE_HEAD_GAP,
    SMOE_HEAD_TOKEN,
    SMOE_HEAD_MAP,
    SMOE_HEAD_GAP_NORM
} smoe_head;
typedef enum smoe_position {
    SMOE_POSITION_LEARNED,
    SMOE_POSITION_SINCOS2D,
    SMOE_POSITION_NONE
} smoe_position;
typedef enum smoe_l2 { SMOE_L2_PAPER, SMOE_L2_VMOE } smoe_l2;
typedef enum smoe_priority {
    SMOE_PRIORITY_VANILLA,
    SMOE_PRIORITY_BPR,
    SMOE_PRIORITY_BPR_SUM,
    SMOE_PRIORITY_RANDOM,
    SMOE_PRIORITY_LEARNT,
    SMOE_PRIORITY_LEARNT_SIGMOID,
    SMOE_PRIORITY_PATCH_EXPERT
} smoe_priority;
/* The gates of choice routers; RELU cannot be chosen by a key: it belongs to a router. */
typedef enum smoe_gate_form { SMOE_GATE_SOFTMAX, SMOE_GATE_SIGMOID, SMOE_GATE_RELU } smoe_gate_form;
typedef enum smoe_balance_way {
    SMOE_BALANCE_LOSS,
    SMOE_BALANCE_BIAS,
    SMOE_BALANCE_NONE,
    SMOE_BALANCE_SUPERCLASS
} smoe_balance_way;
typedef enum smoe_random_scores { SMOE_SCORES_NORMAL, SMOE_SCORES_PERMUTED } smoe_random_scores;
typedef enum smoe_aux { SMOE_AUX_BATCH, SMOE_AUX_GROUP } smoe_aux;
typedef enum smoe_topk { SMOE_TOPK_AFTER, SMOE_TOPK_BEFORE } smoe_topk; /* the softmax */
typedef enum smoe_mix { SMOE_MIX_F32, SMOE_MIX_BF16 } smoe_mix;
typedef enum smoe_rounding { SMOE_ROUNDING_ROUND, SMOE_ROUNDING_CEIL } smoe_rounding;
typedef enum smoe_scale_form { SMOE_SCALE_PLAIN, SMOE_SCALE_EXP } smoe_scale_form;
typedef enum smoe_experts_init { SMOE_EXPERTS_INDEPENDENT, SMOE_EXPERTS_SHARED } smoe_experts_init;
typedef enum smoe_qk_form { SMOE_QK_TIMM, SMOE_QK_VMOE } smoe_qk_form;
typedef enum smoe_loss {
#define TASK(id, ...) SMOE_LOSS_##id,
#include "spec/tasks.def"
} smoe_loss;
/* Which token of a text is its embedding, or the mean of them all. */
typedef enum smoe_pool { SMOE_POOL_END, SMOE_POOL_FIRST, SMOE_POOL_MEAN, SMOE_POOL_LAST } smoe_pool;
/* What is done with a text before its tokens are looked up. */
typedef enum smoe_clean {
    SMOE_CLEAN_OWN, /* what the tokenizer does */
    SMOE_CLEAN_LOWER,
    SMOE_CLEAN_CANONICALIZE,
    SMOE_CLEAN_NONE
} smoe_clean;
typedef enum smoe_padding { SMOE_PADDING_MASKED, SMOE_PADDING_ATTENDED } smoe_padding;
typedef enum smoe_optimizer {
    SMOE_OPTIMIZER_ADAM,
    SMOE_OPTIMIZER_SGD,
    SMOE_OPTIMIZER_ADAFACTOR
} smoe_optimizer;
typedef enum smoe_moments {
    SMOE_MOMENTS_F32,
    SMOE_MOMENTS_BF16_FIRST,
    SMOE_MOMENTS_BF16
} smoe_moments;
typedef enum smoe_schedule {
    SMOE_SCHEDULE_CONSTANT,
    SMOE_SCHEDULE_LINEAR,
    SMOE_SCHEDULE_COSINE,
    SMOE_SCHEDULE_RSQRT
} smoe_schedule;

/* A number for every MoE layer, or channel: one for all of them, or a list with one for each, in
 * their order. */
typedef struct smoe_series {
    double item[SMOE_MAX_BLOCKS];
    size_t listed; /* length of the list; 0: item[0] is used for all */
} smoe_series;
static inline double smoe_series_at(const smoe_series *series, size_t i) {
    return series->item[series->listed ? i % series->listed : 0];
}
static inline bool smoe_series_differ(const smoe_series *a, const smoe_series *b, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (smoe_series_at(a, i) != smoe_series_at(b, i)) return true;
    return false;
}

/* A list of any length. */
typedef struct smoe_indices {
    uint32_t *item;
    size_t count;
} smoe_indices;

typedef struct smoe_data_spec {
    smoe_source source;
    char *path; /* resolved against the spec's folder or SMOE_DATA when opened; may be NULL (shapes)
                 */
    size_t image_size, channels;
    smoe_series mean, std; /* of the channels, on the scale to 1 */
    size_t limit;          /* images of a split, 0 all */
    size_t train_limit;    /* images for training, 0: limit */
    size_t classes;        /* 0: as many as the data has */
    size_t test_size; /* generated images of the splits test and val; 0: the source's own number */
    char *labels;     /* a table of the labels of image-folder, found as path is; or NULL */
    char *exclude;    /* a list of names of images that are not used, found as path is; or NULL */
    /* For test and val: the number of shards of webdataset, or the share of each class of
     * image-folder; 0: the data has these splits. */
    double holdout;
    smoe_on_error on_error;
    smoe_orientation orientation; /* of JPEGs with EXIF data */
    smoe_fit_of_image fit;
    smoe_resize resize;
    double crop_pct;
    bool shift;    /* images are moved, each by pixels of its own, in all splits */
    char *caption; /* of webdataset: txt, or json.FIELD */
    char *label;   /* of webdataset: cls, json or json.FIELD */
    size_t shuffle_buffer;
    uint64_t seed; /* of generated test images, and of the order of evaluations */
    struct {
        smoe_positions positions;
        double size;        /* factor of all radii */
        size_t distractors; /* small objects of an image, at most; 0: none, else at least one */
        smoe_shape_classes classes;
    } shapes;
    struct {
        size_t entities, classes, cells, distractors, bits;
        double noise, exponent, offset;
    } facts;
    size_t cache_mb; /* decoded images kept in memory, at most; beyond it they are decoded again */
    struct {
        smoe_crop crop;
        bool flip;
        struct {
            size_t n, m;
        } randaugment;
        double mixup, cutmix;
    } augment;
} smoe_data_spec;

/* The experts of a layer, and what they have of their own. */
typedef struct smoe_expert_spec {
    size_t mlp;           /* hidden width of an expert; 0: that of a dense MLP */
    size_t universal;     /* how many of the experts, the last ones, have another width: */
    size_t universal_mlp; /* this; 0: the same */
    size_t shared;        /* beside the others; they process every token */
    double dropout;
    smoe_experts_init init;
} smoe_expert_spec;

/* Soft MoE and its relatives. */
typedef struct smoe_soft_spec {
    bool normalize;
    smoe_l2 l2_eps;
    double noise;      /* std of the noise of logits, training only */
    double phi_std;    /* SMOE_WORD: lecun */
    double scale_init; /* SMOE_WORD: sqrt_d */
    smoe_scale_form scale_form;
    double temperature_init; /* of soft-temperatures, and */
    smoe_combine combine;
} smoe_soft_spec;

/* Routers by which tokens choose experts, or experts tokens: gates, and buffers. */
typedef struct smoe_choice_spec {
    smoe_series k, capacity; /* see smoe_moe_k and smoe_moe_ratio */
    smoe_topk topk;
    smoe_gate_form gate;
    double gate_std;  /* SMOE_WORD: lecun */
    double noise;     /* of the gates' scores, training only */
    bool renormalize; /* the weights of the chosen experts sum to 1; see smoe_moe_renormalizes */
    smoe_rounding capacity_rounding;
    size_t capacity_multiple_of;
    size_t group_images;
    smoe_priority priority;
    double skip_patch;
    size_t transport_steps;    /* of the routers that solve a transport problem */
    double l1_init, l1_factor; /* of remoe: the weight of its L1 term at first; what changes it */
} smoe_choice_spec;

/* How the load of experts is balanced. */
typedef struct smoe_balance_spec {
    smoe_balance_way way;
    double rate;                 /* of the biases */
    smoe_indices superclasses;   /* of each class; see smoe_moe_superclass */
    double aux_weight, z_weight; /* of losses */
    smoe_aux aux_over;           /* the tokens whose sums the auxiliary loss balances */
} smoe_balance_spec;

/* Layers whose scores are noise at evaluation. */
typedef struct smoe_random_spec {
    char *layers;                    /* as written, as those of MoE */
    bool is_random[SMOE_MAX_BLOCKS]; /* resolved */
    smoe_random_scores scores;
} smoe_random_spec;

typedef struct smoe_moe_spec {
    char *layers;                 /* as written: none, all, last-N, last-even-N, every-N, a list */
    bool is_moe[SMOE_MAX_BLOCKS]; /* resolved */
    size_t layer_count;           /* how many of is_moe are set */
    char *router;                 /* a name of spec/routers.def; `random` is resolved */
    size_t experts;
    size_t slots_per_expert; /* P; 0 only where total_slots or capacity decides */
    size_t total_slots;      /* 0, or S = E*P */
    smoe_mix mix_precision;
    smoe_expert_spec expert;
    smoe_soft_spec soft;
    smoe_choice_spec choice;
    smoe_balance_spec balance;
    smoe_random_spec random;
} smoe_moe_spec;

typedef struct smoe_model_spec {
    char *variant;
    size_t width, depth, mlp, heads; /* resolved: the variant's, unless given */
    size_t patch_size;
    smoe_head head;
    size_t registers; /* tokens between a class token and the patches */
    smoe_position position;
    bool pre_norm;
    double norm_eps;
    smoe_gelu gelu;
    bool qk_norm;
    smoe_qk_form qk_norm_form;
    double dropout;   /* of attention's output and MLPs' hidden layers, training only */
    double drop_path; /* of the last block's branches, training only */
    smoe_moe_spec moe;
} smoe_model_spec;

/* The text tower of tasks that compare images with captions, and what both embed into. */
typedef struct smoe_text_tower_spec {
    size_t width, depth, heads; /* 0: as the image tower; see smoe_spec_text_tower */
    size_t context;             /* tokens of a text, at most */
    size_t embed;      /* D; 0: that of the image's features, which have no projection then */
    char *tokenizer;   /* "bytes" */
    size_t vocabulary; /* 0: what the tokenizer says */
    smoe_clean clean;
    bool bias; /* of the projection */
    bool causal;
    smoe_pool pool;
    smoe_padding padding;
    size_t pad_id;
    double norm_eps;
} smoe_text_tower_spec;

/* Tensors whose names match a pattern, and how they are trained. */
typedef struct smoe_group {
    char match[SMOE_PATTERN]; /* fnmatch(3) without flags */
    double lr;                /* factor of the rate */
    double decay;             /* weight decay; negative: that of the tensor's kind */
    size_t until;             /* the step from which it is kept as it is; 0: never */
    bool frozen;              /* not trained at all */
    size_t line, column;      /* of the pattern, in the file or the override */
} smoe_group;

/* Whether a tensor of that name is of the group. */
bool smoe_group_matches(const smoe_group *group, const char *name);

typedef struct smoe_groups {
    smoe_group group[SMOE_MAX_GROUPS]; /* the first that matches counts */
    size_t count;
} smoe_groups;

/* A part of the training: a number of steps, which follows from `share` where that is not 0. */
typedef struct smoe_span {
    size_t steps;
    double share; /* of train.steps, as it was given; 0: a number of steps was */
} smoe_span;

typedef struct smoe_train_spec {
    size_t steps, batch_size;
    double flops;  /* of the training, instead of steps; 0: steps are given */
    size_t pieces; /* G: of batch_size/G images each; the gradient is their sum in a fixed tree */
    double experts_over; /* processes that divide the experts; SMOE_WORD: all of them */
    smoe_loss loss;
    double label_smoothing;
    smoe_precision precision;
    double ema; /* decay of the moving average of the weights; 0: there is none */
    struct {
        smoe_optimizer name;
        double lr, beta1, beta2, eps, momentum, weight_decay, head_weight_decay, clip;
        smoe_moments moments;
        smoe_groups groups;
    } optimizer;
    struct {
        smoe_schedule name;
        smoe_span warmup, cooldown;
        size_t timescale, start;
    } schedule;
    size_t log_every, eval_every, patience, checkpoint_every, keep, keep_every;
    bool tensorboard; /* records are written as event files too */
    double checkpoint_minutes;
    size_t shard_bytes;
} smoe_train_spec;

typedef struct smoe_fewshot_spec {
    size_t shots[SMOE_MAX_SHOTS], count; /* empty: no few-shot evaluation */
    size_t seeds;
    struct {
        smoe_fewshot_source source;
        char *path, *labels;
        size_t limit;
        double holdout;
        smoe_series mean, std; /* -1 and 0: those of the data of the model */
    } data;                    /* another data set than the one trained on */
} smoe_fewshot_spec;

/* Templates of the texts that stand for a class in zero-shot classification: its name replaces each
 * {} of them. */
typedef struct smoe_prompts {
    char text[SMOE_MAX_PROMPTS][SMOE_PROMPT];
    size_t count;
} smoe_prompts;

/* As in training, or one of smoe_precision: these follow in their order. */
typedef enum smoe_eval_precision {
    SMOE_EVAL_PRECISION_TRAINED,
    SMOE_EVAL_PRECISION_F32,
    SMOE_EVAL_PRECISION_BF16X3,
    SMOE_EVAL_PRECISION_BF16
} smoe_eval_precision;

typedef struct smoe_eval_spec {
    char *split;
    size_t batch_size;
    smoe_order order;
    smoe_eval_precision precision;
    smoe_fewshot_spec fewshot;
    smoe_prompts zeroshot;
} smoe_eval_spec;

struct smoe_spec {
    char *name;
    uint64_t seed;
    smoe_data_spec data;
    smoe_model_spec model;
    smoe_text_tower_spec text;
    smoe_train_spec train;
    smoe_eval_spec eval;
    smoe_sweep_spec sweep;
    const char *profile; /* that it was read with, a name of profiles.def, or NULL */
    bool trained;        /* of a model that is only evaluated: see smoe_spec_text */
    char *file;          /* the file it came from, or what stands for it in messages */
    char *folder;        /* of relative data.paths in the spec; NULL: the current folder */
    struct smoe_provenance *origin; /* where each value came from, by entry of the schema */
};

/*
 * Reads FILE ("-": standard input) and applies `overrides` ("model.moe.experts=32") in order. *spec
 * is filled with every key resolved and cross-checked (patch divides image, heads divide width,
 * slots divide by experts ...). On failure returns -1 with every error of the spec in err, one per
 * line, in the form FILE:LINE:COL: key: problem (overrides: "override KEY=VALUE: key: problem"),
 * code SMOE_USAGE. Free with smoe_spec_free in any case.
 */
int smoe_spec_read(smoe_spec *spec, const char *file, char *const *overrides, size_t count,
                   smoe_err *err) SMOE_MUST_CHECK;

/* The text of a spec before parsing, YAML (or JSON, which is YAML), with its label for messages and
 * its folder for relative data paths. A file is read once, even if it is then parsed several times
 * with different overrides. */
typedef struct smoe_spec_text {
    const char *text;
    size_t length;     /* 0: up to the NUL */
    const char *label; /* FILE, or <stdin>; NULL: "spec" */
    const char
        *folder; /* of the file, as it is now, whatever becomes of links and of the current folder;
                     NULL of standard input */
    const char *profile; /* a name of profiles.def, whose values stand before the text's, or NULL;
                            the caller's */
    size_t steps; /* instead of train.flops, once they are known (bench/cost.h); 0: they are not */
    struct smoe_scan *scan; /* of the data that is listed to know them, or NULL */
    bool trained; /* the spec of a model that is only evaluated: the keys of `train` are not checked
                      against others. Groups need not divide the batch, nor warm-up and cooldown fit
                      into the steps */
    bool of_cells; /* one of several specs: the caller judges overrides without effect, which are no
                    * errors here */
} smoe_spec_text;

/* "-": a spec is read from standard input, also where a file or folder has that name. */
bool smoe_spec_is_input(const char *file);

/* FILE, or standard input. SMOE_USAGE where there is none. Free in any case. */
int smoe_spec_text_read(smoe_spec_text *text, const char *file, smoe_err *err) SMOE_MUST_CHECK;
void smoe_spec_text_free(smoe_spec_text *text);

/* Profiles: sets of keys with the values of the papers, or of their authors' public code; entries
 * of profiles.def. */
typedef struct smoe_profile_entry {
    const char *profile, *key, *value, *source;
} smoe_profile_entry;
enum {
    SMOE_PROFILES = 0
#define PROFILE(...) +1
#include "spec/profiles.def"
};
extern const smoe_profile_entry smoe_profiles[SMOE_PROFILES];

/* Parses such a text. */
int smoe_spec_parse(smoe_spec *spec, const smoe_spec_text *from, char *const *overrides,
                    size_t count, smoe_err *err) SMOE_MUST_CHECK;

/* Whether a value of this key can change anything with the other values of the spec; see
 * rules.def. */
bool smoe_spec_acts(const smoe_spec *spec, const char *key);

/* Sets list to the keys of data that differ between two specs and give models other pixel values of
 * the same image, as "data.mean, data.orientation"; "": none does. Returns list. */
const char *smoe_spec_pixels_apart(const smoe_spec *a, const smoe_spec *b, char *list, size_t size);

/* A value that was given and has no effect. */
enum { SMOE_IDLE_TEXT = 160 };
typedef struct smoe_idle {
    const char *key;
    char why[SMOE_IDLE_TEXT]; /* "it needs ...", "router soft does not use it" */
    bool overridden;          /* given as an override; else in the file: */
    size_t line, column;
} smoe_idle;

/* The first such value from number `from` on, 0 being the first; returns the number to continue
 * with, or 0 if there is none. For a resolved spec, which states every key, and for that of a
 * trained model, only overrides count. Overrides without effect are mistakes, found when a spec is
 * read: they are met here only with smoe_spec_text.of_cells. What the file says of MoE layers does
 * not count if an override, model.moe.layers=none, leaves them out. */
size_t smoe_spec_idle(const smoe_spec *spec, size_t from, smoe_idle *idle);

/* For a spec that an older version of a run or a sweep wrote, and that is trained further: missing
 * keys get the meaning they had then. Before train.optimizer.groups existed, Phi had the weight
 * decay of kernels, and keeps it here. (Initial values no longer matter.) */
void smoe_spec_continue(smoe_spec *spec);

/* Whether a part of the training that the file gives was made shorter, because an override of
 * train.steps leaves no room for it. */
bool smoe_spec_shortened(const smoe_spec *spec, const char *key);

/* The place where a group was given: "FILE:LINE:COLUMN", "override" or the name of the spec.
 * Returns buf. */
const char *smoe_group_place(const smoe_spec *spec, const smoe_group *group, char *buf,
                             size_t size);

/* Writes the resolved spec as YAML, every key, valid input again with the same meaning (numbers
 * with full round-trip digits). Its first line has the number of keys, so that a file which was cut
 * is refused. With `origins`, instead of this line, a comment after each key says where its value
 * came from (default, variant, file:line, override). Returns -1 when the stream reports an
 * error. */
#define SMOE_SPEC_RESOLVED "# resolved: "
int smoe_spec_write_yaml(const smoe_spec *spec, FILE *out, bool origins);

/* The same as JSON; the caller owns it. smoe_spec_json is its text. */
json_t *smoe_spec_object(const smoe_spec *spec);

/* The key of the schema that a word probably means: the whole key, or the end of one after a
 * dot, with '-' or '_'; of several keys the one in `train`, or else the shortest. NULL if there is
 * none. */
const char *smoe_spec_key_called(const char *word);
/* The key whose last part is the nearest to a word that is misspelt; NULL: none is near. */
const char *smoe_spec_key_near(const char *word);

/* The words of this program for a name from another program (rules.def), or NULL. */
const char *smoe_spec_elsewhere(const char *word);

/* Whether this is a key of the schema, or a section; SMOE_USAGE names the nearest. */
int smoe_spec_check_key(const char *key, smoe_err *err) SMOE_MUST_CHECK;

void smoe_spec_free(smoe_spec *spec);

/* ---- derived quantities, each written once --------------------------------------------------- */

/* The precision of products in training, or outside of it. */
smoe_precision smoe_spec_precision(const smoe_spec *spec, bool train);

/* Tokens of an image as the blocks see them: (image/patch)^2, plus one with a class token. */
size_t smoe_spec_tokens(const smoe_spec *spec);

/* The sizes of the text tower, as those of a model without experts. */
smoe_model_spec smoe_spec_text_tower(const smoe_spec *spec);
/* D of what images and texts are embedded into. */
size_t smoe_spec_embed(const smoe_spec *spec);

/* Hidden width of an expert, and of a universal one. */
size_t smoe_moe_hidden(const smoe_model_spec *model);
size_t smoe_moe_universal(const smoe_model_spec *model);

/* Whether the weights of a token's K choices are made to sum to 1. */
bool smoe_moe_renormalizes(const smoe_moe_spec *moe);

/* K and C of the MoE layer in a block. */
size_t smoe_moe_k(const smoe_moe_spec *moe, size_t block);
double smoe_moe_ratio(const smoe_moe_spec *moe, size_t block);
/* The super-class of a class of N: as listed, or of E equal parts of the list of classes the one
 * that it lies in (rounded down). */
size_t smoe_moe_superclass(const smoe_moe_spec *moe, size_t label, size_t N);

/* The buffer Be of one expert of a block for a group of `tokens` tokens and `choices` choices per
 * token (K for tokens-choice, 1 for experts-choice): round(choices*tokens*C/E), half to even, at
 * least 1, then the multiple. */
size_t smoe_moe_capacity(const smoe_moe_spec *moe, size_t block, size_t tokens, size_t choices);

/* Full path of what a key such as data.path names: as given, relative to the spec's folder, or
 * found in SMOE_DATA. *path is a fresh string. SMOE_DATA-code failure names every place tried. */
int smoe_spec_path(const smoe_spec *spec, const char *key, char **path,
                   smoe_err *err) SMOE_MUST_CHECK;

/* The field of json that data.caption names, borrowed; NULL: captions are txt. */
const char *smoe_spec_caption_field(const smoe_spec *spec);
/* That of data.label, "" where all of the json is meant; NULL: classes are cls. */
const char *smoe_spec_label_field(const smoe_spec *spec);
/* Whether text.tokenizer is a file. */
bool smoe_spec_tokenizer_in_file(const smoe_spec *spec);

/* The spec as the few-shot evaluation opens its data with: a shallow copy whose data section names
 * eval.fewshot.data, where that is given, without augmentation. data.path and data.labels are
 * fresh (NULL: none) and the caller's to free; everything else belongs to `spec`. */
int smoe_spec_fewshot_data(const smoe_spec *spec, smoe_spec *view, smoe_err *err) SMOE_MUST_CHECK;
