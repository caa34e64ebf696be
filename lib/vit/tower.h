/*
 * A tower: a stack of L blocks, x += attention(norm(x)); x += ffn(norm(x)), where ffn is an MLP or
 * an MoE layer, and a norm after the last. A model is an embedding, a tower and a head; another
 * tower needs only another smoe_build, with sizes, tokens and the tokens that each token sees. The
 * tower owns the residual stream: in training every state of it is kept; in inference there is one
 * state, changed in place, and blocks share their buffers.
 */
#pragma once

#include "vit/layer.h"

typedef struct smoe_block {
    smoe_norm norm1, norm2;
    smoe_drop_path drop1, drop2;
    smoe_attention attention;
    bool is_moe;
    union {
        smoe_mlp mlp;
        smoe_moe moe;
    };
    void *normed1, *normed2; /* [R,d] kept: what the norms write, in the type that the next reads */
    real *in, *middle, *out; /* [R,d] the residual stream before, between and after its two parts */
    size_t params;           /* tensors of the table, up to the end of this block */
} smoe_block;

typedef void smoe_tower_watch(void *user, size_t i, const smoe_router *router);

typedef struct smoe_tower {
    const smoe_build *build;
    size_t L, d, T;
    smoe_block *blocks; /* [L] owned */
    size_t *moe;        /* block numbers of the MoE layers, owned */
    size_t moe_layers;
    size_t lowest; /* block that backward ends with; L: none */
    bool normed;   /* the last norm is here; else head: gap-norm has it after the mean */
    smoe_norm norm;
    real *in;  /* [R,d] what the embedding writes */
    real *out; /* [R,d] kept: the stream, normed where `normed`, for the head */
    real *dbranch,
        *dscaled; /* [R,d] the branch's scaled gradient with stochastic depth; NULL without it */
    smoe_tower_watch *watch; /* called after the forward pass of each MoE layer, or NULL */
    void *watch_user;
} smoe_tower;

void smoe_tower_init(smoe_tower *t, const smoe_build *build);
void smoe_tower_free(smoe_tower *t);
void smoe_tower_reserve(smoe_tower *t, const smoe_space *space);
void smoe_tower_cost(const smoe_tower *t, smoe_costs *costs);

/* From t->in to t->out. */
void smoe_tower_forward(smoe_tower *t, const smoe_pass *pass);
/* dx [R,d], overwritten, is the gradient of t->in or, if the first blocks are not trained, of the
 * input of the first trained block; dout [R,d] is that of t->out. */
void smoe_tower_backward(smoe_tower *t, real *dx, const real *dout, const smoe_pass *pass);

/* Tells the tower that parameter `first` of the table is the first trained one: backward ends with
 * its block. */
void smoe_tower_stop_at(smoe_tower *t, size_t first);

/* Writes to `name` the first layer ("blocks.3.attn", "blocks.3.mlp") whose output in the last
 * training pass holds a value that is not finite; false when none does. */
bool smoe_tower_nonfinite(const smoe_tower *t, const smoe_pass *pass, char *name, size_t size);
/* Whether n numbers are finite. */
bool smoe_tower_finite(const real *x, size_t n);
