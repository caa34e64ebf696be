/*
 * A model as a graph of ONNX: images as they are after data.mean and data.std, [images, channels,
 * side, side], to logits [images, N], with the weights of a file. Dense models and those of the
 * soft family are matrix products, norms and softmax; routers that sort tokens into buffers are
 * not. Computes what the forward passes of this room do, in F32.
 */
#ifndef SMOE_VIT_GRAPH_H
#define SMOE_VIT_GRAPH_H

#include "spec/spec.h"
#include "tensors/safetensors.h"

/* Writes the file at path; `spec` is that of the weights. *bytes: its size. SMOE_USAGE with the
 * reason for a model that has no such graph; with a NULL path only that, and whether the weights
 * fit, is checked. */
int smoe_graph_write(const char *path, const smoe_spec *spec, const smoe_safetensors *weights,
                     size_t *bytes, smoe_err *err) SMOE_MUST_CHECK;

#endif
