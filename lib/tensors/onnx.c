/*
 * Files of ONNX; see onnx.h. A protocol buffer is a sequence of fields: a key, which is the number
 * of the field and how its value is stored, then the value. Messages within messages are stored as
 * bytes behind their length, so each is put together in memory first. The numbers are those of
 * onnx.proto.
 */
#include "tensors/onnx.h"
#include "base/alloc.h"
#include "base/file.h"

enum { IR_VERSION = 9, OPSET = 20 };                 /* with LayerNormalization and Gelu */
enum { FLOAT = 1, INT64 = 7 };                       /* types of elements */
enum { AS_FLOAT = 1, AS_INT, AS_TEXT, AS_INTS = 7 }; /* types of attributes */

/* A message that is being put together. */
typedef struct message {
    FILE *out;
    char *bytes;
    size_t size;
} message;

struct smoe_onnx {
    message graph;
    char **name; /* of each value */
    size_t values;
};

static void onnx_begin(message *m) {
    m->out = smoe_alloc_stream(&m->bytes, &m->size);
}

static void put_varint(message *m, uint64_t x) {
    for (; x > 0x7f; x >>= 7) putc((int)(x & 0x7f) | 0x80, m->out);
    putc((int)x, m->out);
}

static void onnx_put_number(message *m, unsigned field, int64_t x) {
    put_varint(m, field << 3);
    put_varint(m, (uint64_t)x);
}

static void put_bytes(message *m, unsigned field, const void *bytes, size_t size) {
    put_varint(m, field << 3 | 2);
    put_varint(m, size);
    (void)fwrite(bytes, 1, size, m->out);
}

static void onnx_put_text(message *m, unsigned field, const char *text) {
    put_bytes(m, field, text, strlen(text));
}

static void put_float(message *m, unsigned field, float x) {
    put_varint(m, field << 3 | 5);
    (void)fwrite(&x, sizeof x, 1, m->out);
}

/* Ends `inner` and puts it into m. */
static void put_message(message *m, unsigned field, message *inner) {
    smoe_alloc_stream_close(inner->out, &inner->bytes);
    put_bytes(m, field, inner->bytes, inner->size);
    free(inner->bytes);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* With a name of its own, or a number where that is NULL. */
static smoe_onnx_value value_new(smoe_onnx *x, const char *name) {
    x->name = smoe_alloc_next(x->name, x->values, sizeof *x->name);
    x->name[x->values] = name ? smoe_alloc_text(name) : smoe_text_format("%zu", x->values);
    return x->values++;
}

smoe_onnx *smoe_onnx_new(void) {
    smoe_onnx *x = smoe_alloc(1, sizeof *x);
    onnx_begin(&x->graph);
    (void)value_new(x, ""); /* none */
    return x;
}

void smoe_onnx_free(smoe_onnx *x) {
    if (!x) return;
    for (size_t i = 0; i < x->values; i++) free(x->name[i]);
    free(x->name);
    if (x->graph.out) smoe_alloc_stream_close(x->graph.out, &x->graph.bytes);
    free(x->graph.bytes);
    free(x);
}

/* ValueInfoProto {name, type {tensor_type {type of elements, shape {dim {number or name}}}}} */
static void put_info(smoe_onnx *x, unsigned field, const char *name, const char *rows, int ndim,
                     const size_t *dim) {
    message info, type, tensor, shape, axis;
    onnx_begin(&info);
    onnx_begin(&type);
    onnx_begin(&tensor);
    onnx_begin(&shape);
    for (int i = 0; i < ndim; i++) {
        onnx_begin(&axis);
        if (i)
            onnx_put_number(&axis, 1, (int64_t)dim[i]);
        else
            onnx_put_text(&axis, 2, rows);
        put_message(&shape, 1, &axis);
    }
    onnx_put_number(&tensor, 1, FLOAT);
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    onnx_put_text(&info, 1, name);
    put_message(&info, 2, &type);
    put_message(&x->graph, field, &info);
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
    message tensor;
    onnx_begin(&tensor);
    for (int i = 0; i < ndim; i++) onnx_put_number(&tensor, 1, (int64_t)dim[i]);
    onnx_put_number(&tensor, 2, type);
    onnx_put_text(&tensor, 8, x->name[value]);
    put_bytes(&tensor, 9, data, bytes);
    put_message(&x->graph, 5, &tensor);
    return value;
}

smoe_onnx_value smoe_onnx_tensor(smoe_onnx *x, const smoe_tensor *t, int ndim, const size_t *dim) {
    float *values = smoe_alloc(t->size, sizeof *values);
    (void)smoe_tensor_store(values, SMOE_DTYPE_F32, t, 0, t->size);
    smoe_onnx_value value = put_constant(x, t->name, FLOAT, values, t->size * sizeof *values,
                                         ndim ? ndim : t->ndim, ndim ? dim : t->dim);
    free(values);
    return value;
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
static void begin_attribute(message *m, const char *name, int type) {
    onnx_begin(m);
    onnx_put_text(m, 1, name);
    onnx_put_number(m, 20, type);
}

static void put_attributes(message *node, const smoe_onnx_node *n) {
    message m;
    if (n->whole) {
        begin_attribute(&m, n->whole, AS_INT);
        onnx_put_number(&m, 3, n->number);
        put_message(node, 5, &m);
    }
    if (n->list) {
        begin_attribute(&m, n->list, AS_INTS);
        for (size_t i = 0; i < n->items; i++) onnx_put_number(&m, 8, n->item[i]);
        put_message(node, 5, &m);
    }
    if (n->epsilon > 0) {
        begin_attribute(&m, "epsilon", AS_FLOAT);
        put_float(&m, 2, (float)n->epsilon);
        put_message(node, 5, &m);
    }
    if (n->approximate) {
        begin_attribute(&m, "approximate", AS_TEXT);
        onnx_put_text(&m, 4, n->approximate);
        put_message(node, 5, &m);
    }
}

/* NodeProto {inputs, outputs, operator, attributes} with one output. */
static void put_node(smoe_onnx *x, const smoe_onnx_node *n, const char *output) {
    message node;
    onnx_begin(&node);
    for (size_t i = 0; i < SMOE_ONNX_INPUTS && n->in[i]; i++)
        onnx_put_text(&node, 1, x->name[n->in[i]]);
    onnx_put_text(&node, 2, output);
    onnx_put_text(&node, 4, n->op);
    put_attributes(&node, n);
    put_message(&x->graph, 1, &node);
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
    message model, opset, pair;
    onnx_begin(&model);
    onnx_begin(&opset);
    onnx_put_text(&x->graph, 2, "smoe");
    onnx_put_number(&model, 1, IR_VERSION);
    onnx_put_text(&model, 2, "smoe");
    onnx_put_text(&model, 3, SMOE_VERSION);
    onnx_put_number(&opset, 2, OPSET);
    put_message(&model, 8, &opset);
    for (size_t i = 0; i < pairs; i++) {
        onnx_begin(&pair);
        onnx_put_text(&pair, 1, metadata[i].key);
        onnx_put_text(&pair, 2, metadata[i].value);
        put_message(&model, 14, &pair);
    }
    put_message(&model, 7, &x->graph);
    x->graph = (message){0};
    smoe_alloc_stream_close(model.out, &model.bytes);
    *bytes = model.size;
    int status = *bytes <= most ? smoe_file_write(path, model.bytes, model.size, err)
                                : smoe_fail(err, SMOE_USAGE,
                                            "%s: %zu bytes, and a file of ONNX has at most %zu",
                                            path, *bytes, most);
    free(model.bytes);
    return status;
}
