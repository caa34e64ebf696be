/*
 * Files of ONNX; see onnx.h. The numbers of fields are those of onnx.proto.
 */
#include "tensors/onnx.h"
#include "base/file.h"
#include "base/protobuf.h"

enum { IR_VERSION = 9, OPSET = 20 };                 /* with LayerNormalization and Gelu */
enum { FLOAT = 1, INT64 = 7 };                       /* types of elements */
enum { AS_FLOAT = 1, AS_INT, AS_TEXT, AS_INTS = 7 }; /* types of attributes */

struct smoe_onnx {
    smoe_message graph;
    char **name; /* of each value */
    size_t values;
};

/* ---- values ---------------------------------------------------------------------------------- */

/* With a name of its own, or a number where that is NULL. */
static smoe_onnx_value value_new(smoe_onnx *x, const char *name) {
    x->name = smoe_alloc_next(x->name, x->values, sizeof *x->name);
    x->name[x->values] = name ? smoe_alloc_text(name) : smoe_text_format("%zu", x->values);
    return x->values++;
}

smoe_onnx *smoe_onnx_new(void) {
    smoe_onnx *x = smoe_alloc(1, sizeof *x);
    (void)value_new(x, ""); /* none */
    return x;
}

void smoe_onnx_free(smoe_onnx *x) {
    if (!x) return;
    for (size_t i = 0; i < x->values; i++) free(x->name[i]);
    free(x->name);
    free(x->graph.bytes);
    free(x);
}

/* ValueInfoProto {name, type {tensor_type {type of elements, shape {dim {number or name}}}}} */
static void put_info(smoe_onnx *x, unsigned field, const char *name, const char *rows, int ndim,
                     const size_t *dim) {
    smoe_message info = {0}, type = {0}, tensor = {0}, shape = {0}, axis = {0};
    for (int i = 0; i < ndim; i++) {
        if (i)
            smoe_message_number(&axis, 1, dim[i]);
        else
            smoe_message_text(&axis, 2, rows);
        smoe_message_inner(&shape, 1, &axis);
    }
    smoe_message_number(&tensor, 1, FLOAT);
    smoe_message_inner(&tensor, 2, &shape);
    smoe_message_inner(&type, 1, &tensor);
    smoe_message_text(&info, 1, name);
    smoe_message_inner(&info, 2, &type);
    smoe_message_inner(&x->graph, field, &info);
}

smoe_onnx_value smoe_onnx_input(smoe_onnx *x, const char *name, const char *rows, int ndim,
                                const size_t *dim) {
    put_info(x, 11, name, rows, ndim, dim);
    return value_new(x, name);
}

/* TensorProto {dims, type, name, data} */
static smoe_onnx_value put_constant(smoe_onnx *x, const char *name, int type, const void *data,
                                    size_t bytes, int ndim, const size_t *dim) {
    smoe_onnx_value value = value_new(x, name);
    smoe_message tensor = {0};
    for (int i = 0; i < ndim; i++) smoe_message_number(&tensor, 1, dim[i]);
    smoe_message_number(&tensor, 2, type);
    smoe_message_text(&tensor, 8, x->name[value]);
    smoe_message_bytes(&tensor, 9, data, bytes);
    smoe_message_inner(&x->graph, 5, &tensor);
    return value;
}

smoe_onnx_value smoe_onnx_tensor(smoe_onnx *x, const smoe_tensor *t, int ndim, const size_t *dim) {
    SMOE_FREED float *values = smoe_alloc(t->size, sizeof *values);
    (void)smoe_tensor_store(values, SMOE_DTYPE_F32, t, 0, t->size);
    return put_constant(x, t->name, FLOAT, values, t->size * sizeof *values, ndim ? ndim : t->ndim,
                        ndim ? dim : t->dim);
}

smoe_onnx_value smoe_onnx_floats(smoe_onnx *x, const float *values, int ndim, const size_t *dim) {
    size_t bytes = sizeof *values;
    for (int i = 0; i < ndim; i++) bytes *= dim[i];
    return put_constant(x, NULL, FLOAT, values, bytes, ndim, dim);
}

smoe_onnx_value smoe_onnx_list(smoe_onnx *x, const int64_t *values, size_t count) {
    return put_constant(x, NULL, INT64, values, count * sizeof *values, 1, &count);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* AttributeProto {name, type, its value}, of which the value comes next. */
static void begin_attribute(smoe_message *m, const char *name, int type) {
    smoe_message_text(m, 1, name);
    smoe_message_number(m, 20, type);
}

static void put_attributes(smoe_message *node, const smoe_onnx_node *n) {
    smoe_message m = {0};
    if (n->whole) {
        begin_attribute(&m, n->whole, AS_INT);
        smoe_message_number(&m, 3, n->number);
        smoe_message_inner(node, 5, &m);
    }
    if (n->list) {
        begin_attribute(&m, n->list, AS_INTS);
        for (size_t i = 0; i < n->items; i++) smoe_message_number(&m, 8, n->item[i]);
        smoe_message_inner(node, 5, &m);
    }
    if (n->epsilon > 0) {
        begin_attribute(&m, "epsilon", AS_FLOAT);
        smoe_message_float(&m, 2, (float)n->epsilon);
        smoe_message_inner(node, 5, &m);
    }
    if (n->approximate) {
        begin_attribute(&m, "approximate", AS_TEXT);
        smoe_message_text(&m, 4, n->approximate);
        smoe_message_inner(node, 5, &m);
    }
}

/* NodeProto {inputs, outputs, operator, attributes} with one output. */
static void put_node(smoe_onnx *x, const smoe_onnx_node *n, const char *output) {
    smoe_message node = {0};
    for (size_t i = 0; i < SMOE_ONNX_INPUTS && n->in[i]; i++)
        smoe_message_text(&node, 1, x->name[n->in[i]]);
    smoe_message_text(&node, 2, output);
    smoe_message_text(&node, 4, n->op);
    put_attributes(&node, n);
    smoe_message_inner(&x->graph, 1, &node);
}

smoe_onnx_value smoe_onnx_put(smoe_onnx *x, const smoe_onnx_node *node) {
    smoe_onnx_value value = value_new(x, NULL);
    put_node(x, node, x->name[value]);
    return value;
}

void smoe_onnx_output(smoe_onnx *x, smoe_onnx_value value, const char *name, const char *rows,
                      size_t width) {
    put_node(x, &(smoe_onnx_node){.op = "Identity", .in = {value}}, name);
    put_info(x, 12, name, rows, 2, (const size_t[]){0, width});
}

/* ModelProto {version of the format, producer, graph, operators, metadata} */
int smoe_onnx_write(smoe_onnx *x, const char *path, const smoe_pair *metadata, size_t pairs,
                    size_t *bytes, smoe_err *err) {
    const size_t most = INT32_MAX;
    smoe_message model = {0}, opset = {0}, pair = {0};
    smoe_message_text(&x->graph, 2, "smoe");
    smoe_message_number(&model, 1, IR_VERSION);
    smoe_message_text(&model, 2, "smoe");
    smoe_message_text(&model, 3, SMOE_VERSION);
    smoe_message_number(&opset, 2, OPSET);
    smoe_message_inner(&model, 8, &opset);
    for (size_t i = 0; i < pairs; i++) {
        smoe_message_text(&pair, 1, metadata[i].key);
        smoe_message_text(&pair, 2, metadata[i].value);
        smoe_message_inner(&model, 14, &pair);
    }
    smoe_message_inner(&model, 7, &x->graph);
    *bytes = model.size;
    int status = *bytes <= most ? smoe_file_write(path, model.bytes, model.size, err)
                                : smoe_fail(err, SMOE_USAGE,
                                            "%s: %zu bytes, and a file of ONNX has at most %zu",
                                            path, *bytes, most);
    free(model.bytes);
    return status;
}
