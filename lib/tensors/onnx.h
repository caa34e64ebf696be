/*
 * Files of ONNX: a graph of operators is put together node by node and written as the protocol
 * buffer that the format is, of which few messages are needed. The graph of a model is in
 * vit/graph.c.
 */
#pragma once

#include "tensors/safetensors.h"

typedef struct smoe_onnx smoe_onnx;

/* A value of the graph: an input, a constant, or the result of a node. 0: none. */
typedef size_t smoe_onnx_value;

enum { SMOE_ONNX_INPUTS = 4, SMOE_ONNX_DIMS = 5 };

/* The attributes that are given (not 0 or NULL) are written. */
typedef struct smoe_onnx_node {
    const char *op;
    smoe_onnx_value in[SMOE_ONNX_INPUTS]; /* those before the first 0 */
    const char *whole;                    /* the name of an attribute that is a whole number, */
    int64_t number;                       /* this one */
    const char *list;                     /* of one that is a list of them, */
    int64_t item[SMOE_ONNX_DIMS];         /* of which there are */
    size_t items;
    double epsilon;
    const char *approximate;
} smoe_onnx_node;

/* Free with smoe_onnx_free. */
smoe_onnx *smoe_onnx_new(void);
void smoe_onnx_free(smoe_onnx *onnx);

/* The input and the output of the graph, F32; their first axis has any length, called `rows`. */
smoe_onnx_value smoe_onnx_input(smoe_onnx *onnx, const char *name, const char *rows, int ndim,
                                const size_t *dim);
void smoe_onnx_output(smoe_onnx *onnx, smoe_onnx_value value, const char *name, const char *rows,
                      size_t width);

smoe_onnx_value smoe_onnx_put(smoe_onnx *onnx, const smoe_onnx_node *node);

/* Constants: a tensor of weights as F32, with its own shape (ndim 0) or another one of as many
 * elements; floats; a list of whole numbers. */
smoe_onnx_value smoe_onnx_tensor(smoe_onnx *onnx, const smoe_tensor *tensor, int ndim,
                                 const size_t *dim);
smoe_onnx_value smoe_onnx_floats(smoe_onnx *onnx, const float *values, int ndim, const size_t *dim);
smoe_onnx_value smoe_onnx_list(smoe_onnx *onnx, const int64_t *values, size_t count);

/* Writes the file; *bytes: its size. SMOE_USAGE where it has more than a protocol buffer can. */
int smoe_onnx_write(smoe_onnx *onnx, const char *path, const smoe_pair *metadata, size_t pairs,
                    size_t *bytes, smoe_err *err) SMOE_MUST_CHECK;
