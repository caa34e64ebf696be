/*
 * The routing of one image, kept completely for pictures: the image, and for every MoE layer the
 * dispatch and combine weights or the placements. Filled by inspect/, drawn here.
 */
#pragma once

#include "base/base.h"

/* One placement of a sparse router. */
typedef struct smoe_sample_place {
    size_t token;  /* of the image, 0 .. T-1 */
    size_t expert; /* 0 .. E-1 */
    size_t slot;   /* position in the expert's buffer, 0 .. P-1; the buffer is the group's */
    float weight;  /* of the expert's output in the token's */
} smoe_sample_place;

typedef struct smoe_sample_layer {
    size_t block;   /* number of the transformer block */
    size_t E, P, S; /* experts, slots of an expert, S = E*P */
    /* [T,S] of dense routers: weight of token t in slot s; of slot s in token t. Else NULL. */
    float *dispatch, *combine;
    /* [places] of sparse routers, by token, then expert; a token without one was dropped. Else
     * NULL. */
    smoe_sample_place *place;
    size_t places;
    float *gate; /* [T,E] g, the softmax over experts that choices are made by, or NULL */
} smoe_sample_layer;

typedef struct smoe_sample {
    char *run;                   /* the run it is from, as in the column `run` of the frames */
    size_t image;                /* which image of the split, in data-set order */
    char *name;                  /* its file, or "shapes/test/17" */
    char *label, *prediction;    /* names of its class and of the class it was given */
    double probability;          /* of the prediction: softmax, or sigmoid with that loss */
    size_t channels, size, side; /* 1 or 3; pixels along an edge; patches along an edge */
    float *pixels;               /* [channels, size, size] in [-1, 1] */
    size_t T;                    /* tokens */
    size_t first_patch;          /* the token of patch 0, behind class token and registers */
    smoe_sample_layer *layer;    /* [layers] the MoE layers in order */
    size_t layers;
} smoe_sample;
