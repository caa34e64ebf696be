/*
 * An encoder: an embedding of the input, a tower of blocks, and pooling, from B inputs to rows
 * [B,N]. It is one file (encoder_*.c) and one entry of towers.def. A model has the encoder of
 * images, and those that its task needs.
 */
#pragma once

#include "vit/tower.h"

/* The input of a model, for the images of the pass. */
typedef struct smoe_inputs {
    const real *pixels;     /* [B, channels, image, image] */
    const uint32_t *tokens; /* [B,T] of the captions, T = text.context; NULL: there are none */
    const size_t *lengths;  /* [B] tokens of each, at least 1; what follows is padding, any id */
} smoe_inputs;

typedef struct smoe_encoder smoe_encoder;

typedef struct smoe_encoder_type {
    size_t size; /* of its struct, which starts with smoe_encoder */
    /* Whether a model of this spec has it; NULL: every model. */
    bool (*wanted)(const smoe_spec *spec);
    /* Completes e->build, whose spec, params and site are given, and registers parameters: those of
     * the embedding come before number e->blocks of the table. N: classes of the data. */
    int (*init)(smoe_encoder *e, size_t N, smoe_err *err);
    void (*free)(smoe_encoder *e);
    void (*reserve)(smoe_encoder *e, const smoe_space *space);
    void (*cost)(const smoe_encoder *e, smoe_costs *costs);
    /* From the inputs to e->out. */
    void (*forward)(smoe_encoder *e, const smoe_inputs *in, const smoe_pass *pass);
    /* From the gradient of e->out. */
    void (*backward)(smoe_encoder *e, const real *dout, const smoe_inputs *in,
                     const smoe_pass *pass);
    const char *input, *output; /* the layers in front of the tower and behind it, in messages */
    /* From the name of a layer of a tower to its own; NULL: it is the same. */
    void (*rename)(char *name, size_t size);
} smoe_encoder_type;

struct smoe_encoder {
    const smoe_encoder_type *type;
    smoe_build build;
    smoe_tower tower;
    size_t N;        /* width of out */
    const real *out; /* [B,N] */
    /* Indices in the parameter table: the first of the embedding, the first after it, the end. */
    size_t first, blocks, end;
    /* Whether any of its parameters is trained, and whether any of its embedding is. An encoder
     * that is not trained runs as in evaluation, and keeps nothing for a backward pass. */
    bool trained, embed_trained;
};

typedef enum smoe_tower_number {
#define TOWER(number, ...) SMOE_TOWER_##number,
#include "vit/towers.def"
    SMOE_TOWERS
} smoe_tower_number;

#define TOWER(number, type, ...) extern const smoe_encoder_type type;
#include "vit/towers.def"

/* The pooled tokens [B,d] of the image encoder, and its width. */
const real *smoe_encoder_image_features(const smoe_encoder *e);
