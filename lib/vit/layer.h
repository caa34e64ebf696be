/*
 * The layers of the Vision Transformer, each with five functions:
 *   init      registers parameters; spec/resolve.c has found every error of shapes
 *   reserve   names every buffer it uses; runs once to count and once to bind
 *   cost      adds its entries to the table of costs (vit/costs.h)
 *   forward   from x to y; neither allocates nor fails
 *   backward  from the gradient of y: adds to the parameters' gradients (overwrites fresh ones, and
 *             leaves outer products unmaterialised, base/param.h) and makes dx, as each layer says
 * Activations are rows: [R, width], R = B*T, the tokens of an image together; x, y, dx, dy [R,d]
 * unless stated otherwise. `parts` are sums of fixed pieces of rows (math/rows.h), and a buffer
 * named dNAME is the gradient of NAME; both are scratch.
 */
#pragma once

#include "base/param.h"
#include "base/threads.h"
#include "comm/comm.h"
#include "route/router.h"
#include "spec/spec.h"
#include "vit/costs.h"

/* The data that layers are built from, borrowed for their lifetime. */
typedef struct smoe_build {
    const smoe_spec *spec;
    const smoe_model_spec *model; /* sizes of this tower and its head */
    smoe_params *params;
    /* Of a model with several towers each has a prefix of its own for the names of its parameters,
     * "" or "text.", and numbers of its own for the random streams of its L blocks and its head:
     * site .. site + L. */
    char prefix[16];
    size_t site;
    size_t T;           /* tokens per image, class token included */
    const size_t *seen; /* [T] token t attends to the first seen[t] tokens; NULL: to all of them */
    bool padded;        /* passes have a length per image */
    smoe_precision precision; /* of the current pass: the model sets it */
} smoe_build;

/* Each kind of draw has two random streams in a block of the tower, one for attention and the next
 * for the MLP; this is the first. */
static inline uint32_t smoe_build_site(const smoe_build *build, size_t block) {
    return 2 * (uint32_t)(build->site + block);
}
/* Added to the stream of a block's MLP: that of its shared experts. */
#define SMOE_SHARED_SITE (UINT32_C(1) << 31)

/* The memory from which layers take their buffers. */
typedef struct smoe_space {
    smoe_arena *keep;    /* lives from forward to backward */
    smoe_arena *scratch; /* free again when the call returns */
    size_t B;            /* images at most */
    bool train;
    int threads; /* of the passes: some scratch is allocated per thread */
    bool bf16;   /* some passes have the precision BF16: they store operands of products in BF16 */
    bool wide;   /* some passes have another precision */
} smoe_space;

/* A buffer for passes of every precision: `narrow`, it is in BF16 in those that are BF16
 * (smoe_outputs_of). */
static inline void *smoe_space_take(const smoe_space *space, smoe_arena *arena, size_t elements,
                                    bool narrow) {
    bool small = narrow && !space->wide;
    return smoe_arena_take(arena, elements, small ? sizeof(smoe_bf16) : sizeof(real));
}

/* ---- norm: LayerNorm ------------------------------------------------------------------------- */
typedef struct smoe_norm {
    smoe_params *params;
    size_t weight, bias, n;
    size_t H; /* norms of a row, with the same weights: heads of queries or keys; else 1 */
    bool biased;
    real eps;
    real *stats; /* [R,H,2] kept */
    real *zeros; /* [n] stand for a bias; NULL: there is one */
    real *parts;
} smoe_norm;
void smoe_norm_init(smoe_norm *l, const smoe_build *build, size_t n, const char *prefix);
void smoe_norm_reserve(smoe_norm *l, size_t R, const smoe_space *space);
/* For R rows per image; reads x and writes y, and backward reads two arrays and adds to a third. */
void smoe_norm_cost(const smoe_norm *l, smoe_costs *costs, size_t R);
/* y [R,n] = (x - mean)/sqrt(variance + epsilon) * weight + bias, by rows. */
void smoe_norm_forward(const smoe_norm *l, smoe_outputs y, const real *x, size_t R);
/* Adds to dx. */
void smoe_norm_backward(const smoe_norm *l, real *dx, const real *dy, const real *x, size_t R);
/* qk_norm: queries or keys [R,d], head by head, n = d/H. Rows of y are ldy numbers apart, those of
 * x ldx. dx, with rows as far apart as those of x, is overwritten. */
void smoe_norm_heads_init(smoe_norm *l, const smoe_build *build, const char *prefix);
void smoe_norm_heads_forward(const smoe_norm *l, smoe_outputs y, size_t ldy, const real *x,
                             size_t ldx, size_t R);
void smoe_norm_heads_backward(const smoe_norm *l, real *dx, const real *dy, size_t lddy,
                              const real *x, size_t ldx, size_t R);

/* ---- linear: Y = X W^T + b, W [out,in] ------------------------------------------------------- */
typedef struct smoe_linear {
    smoe_params *params;
    const smoe_precision *precision;
    size_t weight, bias, in, out;
    real *parts;
} smoe_linear;
/* Weights start normal with std sqrt(2/(in + out/kernels)): the variance of Glorot's uniform
 * distribution for each of the `kernels` kernels side by side. Biases start at 0. */
void smoe_linear_init(smoe_linear *l, const smoe_build *build, size_t in, size_t out,
                      size_t kernels, const char *prefix);
void smoe_linear_reserve(smoe_linear *l, const smoe_space *space);
/* Multiply-adds of R rows forward, for the cost entry of the layer that it is a part of. */
double smoe_linear_macs(const smoe_linear *l, size_t R);
/* y [R,out] = residual + x W^T + b; residual may be NULL, or y itself. */
void smoe_linear_forward(const smoe_linear *l, smoe_outputs y, smoe_values x, const real *residual,
                         size_t R);
/* dx [R,in] is overwritten; with two NULLs it is not needed. */
void smoe_linear_backward(const smoe_linear *l, smoe_outputs dx, smoe_values dy, smoe_values x,
                          size_t R);

/* ---- dropout --------------------------------------------------------------------------------- */
/* In training x [rows,width] becomes 0 with probability `rate`, which dropped [rows,width] keeps,
 * and is scaled by 1/(1 - rate) otherwise. A row has a random stream, keyed by (seed, site, step)
 * and its place in the whole batch: a part of a batch draws what it would have drawn in the whole.
 * place [rows]; NULL: every image has the same number of rows, in their order. */
void smoe_dropout_forward(real *x, bool *dropped, const uint64_t *place, size_t rows, size_t width,
                          double rate, uint32_t site, const smoe_pass *pass);
/* The gradient dx [rows,width] of the result becomes that of x. */
void smoe_dropout_backward(real *dx, const bool *dropped, size_t rows, size_t width, double rate);
/* The places of the slots of `count` experts of a plan from `first` on; `place` is that of their
 * first row. */
void smoe_dropout_find(uint64_t *place, const smoe_plan *plan, size_t first, size_t count,
                       const smoe_pass *pass);

/* ---- stochastic depth (drop path) ------------------------------------------------------------ */
/* One branch of a block, in training: y = x + s_b branch(x) for image b, s_b 0 with probability
 * `rate` and 1/(1 - rate) otherwise, keyed by (seed, site, step, b). */
typedef struct smoe_drop_path {
    double rate;
    uint32_t site;
    size_t n; /* numbers of an image, T*d */
} smoe_drop_path;
/* y [B,n] = x + s (y - x): y was x + branch(x), undivided. Nothing where rate is 0 or in
 * evaluation.
 */
void smoe_drop_path_forward(const smoe_drop_path *l, real *y, const real *x, const smoe_pass *pass);
/* The gradient of the branch's output: s dy, in `scaled` [B,n]; dy itself where rate is 0. */
const real *smoe_drop_path_backward(const smoe_drop_path *l, real *scaled, const real *dy,
                                    const smoe_pass *pass);

/* ---- embed: pixels to tokens ----------------------------------------------------------------- */
typedef struct smoe_embed {
    const smoe_build *build;
    size_t weight, bias, position, token, registers; /* the last three where they are parameters */
    size_t side, patch, channels, d, T;              /* side: patches along an image's edge */
    size_t before; /* tokens before the patches: class token and registers */
    bool has_token, learned;
    real *fixed;   /* [T - registers, d] positions that are not learned; owned */
    real *patches; /* [R, channels*patch*patch] kept; rows of other tokens are zero */
    real *sums;    /* [T,d] */
} smoe_embed;
void smoe_embed_init(smoe_embed *l, const smoe_build *build);
void smoe_embed_reserve(smoe_embed *l, const smoe_space *space);
void smoe_embed_cost(const smoe_embed *l, smoe_costs *costs);
/* x [R,d] = patches of pixels [B, channels, side*patch, side*patch] times W^T + bias + positions;
 * before them, of each image, a class token with its position, and registers without. */
void smoe_embed_forward(smoe_embed *l, real *x, const real *pixels, size_t B);
void smoe_embed_backward(smoe_embed *l, const real *dx, size_t B);
void smoe_embed_free(smoe_embed *l);
/* Positions [side*side,d] of sincos2d: for patch (row, column) the four quarters of the width are
 * sin and cos of column*w and of row*w, w = 10000^(-i/(d/4 - 1)). */
void smoe_embed_sincos2d(real *out, size_t side, size_t d);

/* ---- attention: multi-head self-attention (V B.2) -------------------------------------------- */
typedef struct smoe_attention {
    const smoe_build *build;
    smoe_linear qkv, proj;
    bool qk_norm;
    smoe_norm norm[2]; /* of queries, and of keys */
    size_t d, H, T, block;
    int threads;
    bool train;
    bool narrow;   /* in passes in BF16 the buffers without a type are in BF16 */
    void *rows;    /* [R,3d] queries, keys, values kept */
    real *normed;  /* [R,2d] queries and keys after qk_norm, kept */
    void *heads;   /* [R,d] the heads' outputs, kept */
    void *weights; /* [B,H,T,T] kept; in inference [threads,T,T], or NULL: they are in `scores` */
    real *branch;  /* [R,d] what dropout works on, scratch */
    bool *dropped; /* [R,d] what it dropped, kept */
    void *drows, *dheads;
    real *dnormed;
    real *scores;       /* [threads][T,T] and a few rows more */
    smoe_bf16 *dscores; /* [threads,T,T] */
} smoe_attention;
void smoe_attention_init(smoe_attention *l, const smoe_build *build, size_t block);
void smoe_attention_reserve(smoe_attention *l, const smoe_space *space);
void smoe_attention_cost(const smoe_attention *l, smoe_costs *costs);
/* Whether the next pass keeps operands of products in BF16. x may be in BF16 then, and only
 * then. */
bool smoe_attention_narrow(const smoe_attention *l);
/* y = x0 + attention(x); y may be x0. */
void smoe_attention_forward(smoe_attention *l, real *y, smoe_values x, const real *x0,
                            const smoe_pass *pass);
/* dx [R,d] overwritten with the gradient of x; x0's is dy itself. */
void smoe_attention_backward(smoe_attention *l, real *dx, const real *dy, smoe_values x,
                             const smoe_pass *pass);

/* ---- mlp: E two-layer MLPs, each on its own rows; the dense MLP is E = 1 --------------------- */
typedef struct smoe_mlp {
    smoe_params *params;
    const smoe_precision *precision;
    size_t weight[2], bias[2]; /* rows of fc1 and fc2; consecutive, from weight[0] on */
    size_t E, d, h;
    smoe_outer_gradient outer[2]; /* of both kernels, where gradients are left so */
    smoe_gelu gelu;
    double dropout;
    uint32_t site;
    bool slopes;            /* `hidden` becomes the slopes of GELU, and `active` is kept */
    bool narrow;            /* in passes in BF16 the buffers of the hidden layer are in BF16 */
    size_t pitch;           /* in that case, numbers from one of their rows to the next; else h */
    void *hidden;           /* [rows,h] before GELU, kept; without training it is `active` */
    void *active, *dactive; /* [rows,h]; kept where they are factors */
    bool *dropped;          /* [rows,h] of `active`, kept; NULL: without dropout */
    real *parts;
    /* Without training: scratch of the fused pass over both layers, one piece per thread. */
    real *panels;
    int threads;
} smoe_mlp;
/* The rows of a call. */
typedef struct smoe_mlp_rows {
    const size_t *first; /* [E+1] expert e has rows first[e] .. first[e+1] of x and of y */
    const uint64_t
        *places;        /* keys of each row's dropout (smoe_dropout_find); NULL: rows are tokens */
    size_t kept;        /* the first row of this call in the layer's buffers */
    size_t from, count; /* the experts that work; count 0: all */
} smoe_mlp_rows;
/* What an mlp is made of. */
typedef struct smoe_mlp_form {
    const char *path; /* of its tensors, PATH.fc1.weight */
    size_t experts;   /* E, whose weights are [E,h,d]; 0: a dense MLP, [h,d] */
    size_t hidden;    /* h */
    size_t abreast;   /* of how many MLPs, of width h/abreast, it is the sum; 0: 1 */
    double dropout;   /* of the hidden layer */
    uint32_t site;    /* keys its dropout */
} smoe_mlp_form;
/* The dense MLP of a model. */
smoe_mlp_form smoe_mlp_dense(const smoe_model_spec *model, const char *path, uint32_t site);
void smoe_mlp_init(smoe_mlp *l, const smoe_build *build, const smoe_mlp_form *form);
/* rows: the largest number of a call, of all experts together; each expert has at most its equal
 * share. `calls`: how many of them are between forward and backward at a time. */
void smoe_mlp_reserve(smoe_mlp *l, size_t rows, size_t calls, const smoe_space *space);
/* Multiply-adds forward, and FLOPs of biases and GELU, for `rows` rows per image. */
double smoe_mlp_macs(const smoe_mlp *l, double rows);
double smoe_mlp_elementwise(const smoe_mlp *l, double rows);
/* The arena for the buffer that is passed as dy to the backward pass of an mlp (after reserve): dy
 * may be kept as a factor of an outer-product gradient. */
static inline smoe_arena *smoe_mlp_outer_arena(const smoe_mlp *l, const smoe_space *space) {
    const smoe_param *p = &l->params->param[l->weight[0]];
    return p->outer && !p->outer->kept.passes ? space->keep : space->scratch;
}
/* Whether the next pass keeps operands of products in BF16. x, y, dx and dy may be in BF16 then,
 * and only then. */
static inline bool smoe_mlp_narrow(const smoe_mlp *l) {
    return l->narrow && *l->precision == SMOE_PRECISION_BF16;
}
/* y [rows,d] = residual + mlp(x); residual may be NULL or y. */
void smoe_mlp_forward(const smoe_mlp *l, smoe_outputs y, smoe_values x, const real *residual,
                      const smoe_mlp_rows *rows, const smoe_pass *pass);
/* dx [rows,d] overwritten. */
void smoe_mlp_backward(const smoe_mlp *l, smoe_outputs dx, smoe_values dy, smoe_values x,
                       const smoe_mlp_rows *rows, const smoe_pass *pass);
/* The same in two calls: the first one may be made for some experts at a time, the second one works
 * on all experts. dx is neither dy nor x. */
void smoe_mlp_backward_input(const smoe_mlp *l, smoe_outputs dx, smoe_values dy,
                             const smoe_mlp_rows *rows, const smoe_pass *pass);
void smoe_mlp_backward_weights(const smoe_mlp *l, smoe_values dy, smoe_values x,
                               const smoe_mlp_rows *rows, const smoe_pass *pass);

/* ---- moe: router, dispatch, experts, combine ------------------------------------------------- */
/* Consecutive experts of one width: their MLPs and where their rows begin. */
typedef struct smoe_expert_group {
    smoe_mlp mlp;
    size_t begin, count; /* the first expert of the group and their number, in all processes */
    size_t *first;       /* [count+1] rows, counted from the first of the group; kept */
} smoe_expert_group;

typedef struct smoe_moe {
    const smoe_build *build;
    smoe_router *router;
    smoe_expert_group experts[2]; /* all; or the core ones, then the universal ones */
    size_t groups;                /* number of groups */
    smoe_mlp shared;              /* the shared experts, side by side as one MLP */
    bool shares;                  /* there are shared experts */
    /* The exchange between dispatch and experts, and between experts and combine, if other
     * processes have some of the experts (vit/expert_parallel.h); owned. NULL: this process has
     * all. */
    struct smoe_exchange *exchange;
    uint64_t *places; /* [rows] what keys the dropout of the experts' rows; or NULL */
    size_t d;
    real *rounded; /* [R,d] the tokens rounded to BF16, kept; NULL where no pass needs them */
    /* In `real` or, in passes in which the experts are narrow, in BF16 (smoe_moe_rows): */
    void *slots; /* [rows,d] the experts' inputs, kept */
    void *out;   /* [rows,d] their outputs, kept; rounded as the tokens */
    void *dslots, *dout;
    real *dshared; /* [R,d] */
    /* The tokens x are not kept. They are in `tokens` [R,d], which the experts overwrite: the
     * caller writes them there before forward and, the same numbers, before
     * smoe_moe_tokens_backward. */
    bool again;
    real *tokens;
} smoe_moe;
/* Whether the next pass keeps the rows of experts in BF16. */
static inline bool smoe_moe_narrow(const smoe_moe *l) {
    return smoe_mlp_narrow(&l->experts[0].mlp);
}
/* One of their buffers from row `row` on, as this pass uses it. */
static inline smoe_outputs smoe_moe_rows(const smoe_moe *l, void *buffer, size_t row) {
    return smoe_outputs_from(smoe_outputs_of(buffer, smoe_moe_narrow(l)), row * l->d);
}
/* Takes memory for one: after the experts are reserved. */
static inline void *smoe_moe_take_rows(const smoe_moe *l, smoe_arena *arena, size_t rows,
                                       const smoe_space *space) {
    return smoe_space_take(space, arena, rows * l->d, l->experts[0].mlp.narrow);
}
void smoe_moe_init(smoe_moe *l, const smoe_build *build, size_t block);
void smoe_moe_reserve(smoe_moe *l, const smoe_space *space);
void smoe_moe_cost(const smoe_moe *l, smoe_costs *costs);
/* y = residual + combine(experts(dispatch(x))) + shared(x); residual may be y. */
void smoe_moe_forward(smoe_moe *l, real *y, const real *x, const real *residual,
                      const smoe_pass *pass);
/* Backward has two parts: from dy to the gradients of the experts, and from these to dx, which is
 * overwritten and contains the gradient of the auxiliary loss. */
void smoe_moe_experts_backward(smoe_moe *l, const real *dy, const smoe_pass *pass);
void smoe_moe_tokens_backward(smoe_moe *l, real *dx, const real *dy, const real *x,
                              const smoe_pass *pass);
void smoe_moe_free(smoe_moe *l);

/* ---- head: pooling, classifier --------------------------------------------------- */
/* Attention pooling: one learnt query attends to all tokens, then x + mlp(norm(x)). */
typedef struct smoe_attention_pool {
    size_t latent;
    smoe_linear query, keys, proj;
    bool qk_norm;
    smoe_norm q_norm, k_norm;
    smoe_mlp mlp;
    real *q, *kv, *weights, *heads, *normed; /* [d], [R,2d], [B,H,T], [B,d], [B,d] kept */
    real *q_normed, *k_normed;               /* [d], [R,d] kept */
    real *dkv, *dk_normed, *dweights, *dheads;
    real *dq;               /* [B,d] for the single query of each image */
    real *dq_sum, *dlatent; /* [d] */
} smoe_attention_pool;

typedef struct smoe_head_layer {
    const smoe_build *build;
    smoe_build exact; /* the same space; the head's products have operands in F32 in every pass */
    smoe_linear classifier;
    bool classifies; /* false: logits are the features */
    size_t d, T, N, H;
    size_t first;               /* token that pooling begins with: registers are left out */
    smoe_norm norm;             /* of the pooled tokens; with attention pooling before its mlp */
    smoe_attention_pool map;    /* of head: map */
    real *pooled, *dpooled;     /* [B,d] before the norm, kept; their gradient */
    real *features, *dfeatures; /* [B,d] kept; their gradient */
    real *dx;                   /* [R,d] */
    real *logits;               /* [B,N] kept */
} smoe_head_layer;
/* N classes. For a task that compares images with captions, N is the width of the embedding, whose
 * projection is called head.proj, or 0 if the features themselves are the embedding. */
void smoe_head_init(smoe_head_layer *l, const smoe_build *build, size_t N);
void smoe_head_reserve(smoe_head_layer *l, const smoe_space *space);
void smoe_head_cost(const smoe_head_layer *l, smoe_costs *costs);
/* l->logits [B,N] = pool(x) W^T + bias, where l->features [B,d] are the pooled tokens. */
void smoe_head_forward(smoe_head_layer *l, const real *x, const smoe_pass *pass);
/* l->dx [R,d] is the gradient of x. */
void smoe_head_backward(smoe_head_layer *l, const real *dlogits, const real *x,
                        const smoe_pass *pass);

/* ---- pairs: similarities of images and texts ------------------------------------------------- */
typedef struct smoe_pairs {
    smoe_params *params;
    size_t scale, bias, D; /* rows: logit_scale; logit_bias, where the loss has one */
    bool biased;
    real *logits;      /* [B,B] kept: image b with text c */
    real *unit[2];     /* [B,D] kept: embeddings of length 1, of images and of texts */
    double *length[2]; /* [B] kept: lengths of the embeddings before */
    real *d[2];        /* [B,D] gradients of the embeddings */
    double *sums;      /* [B,2] */
} smoe_pairs;
void smoe_pairs_init(smoe_pairs *l, smoe_params *params, const smoe_spec *spec, size_t D);
void smoe_pairs_reserve(smoe_pairs *l, const smoe_space *space);
/* For batches of B. */
void smoe_pairs_cost(const smoe_pairs *l, smoe_costs *costs, size_t B);
/* From embeddings [B,D] to l->logits. */
void smoe_pairs_forward(smoe_pairs *l, const real *images, const real *texts, size_t B);
/* To l->d, and where it `learns` to the gradients of scale and bias. */
void smoe_pairs_backward(smoe_pairs *l, const real *dlogits, size_t B, bool learns);
/* After an update: the factor of the cosines is at most 100. */
void smoe_pairs_bound(const smoe_pairs *l);
/* The factor of the cosines, and the bias. */
double smoe_pairs_factor(const smoe_pairs *l);
double smoe_pairs_bias(const smoe_pairs *l);
/* unit [B,D]: rows of x divided by their lengths. */
void smoe_pairs_unit(real *unit, const real *x, size_t B, size_t D);
