/* A model as an ONNX graph; see model.h. */
#include "spec/routers.h"
#include "spec/tasks.h"
#include "store/model_file.h"
#include "tensors/onnx.h"
#include "tensors/params_io.h"
#include "vit/layer.h"
#include "vit/model.h"

typedef smoe_onnx_value value;

typedef struct graph {
    smoe_onnx *onnx;
    const smoe_model_spec *model;
    const smoe_safetensors *weights;
    size_t T; /* tokens of an image */
    smoe_alloc_pool *paths;
} graph;

/* "FOO" of these inputs, with attributes. */
#define NODE(g, ...) smoe_onnx_put((g)->onnx, &(smoe_onnx_node){__VA_ARGS__})
#define AXES(...)                          \
    .list = "perm", .item = {__VA_ARGS__}, \
    .items = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)
#define LIST(g, ...)                                    \
    smoe_onnx_list((g)->onnx, (int64_t[]){__VA_ARGS__}, \
                   sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static value of_two(const graph *g, const char *op, value a, value b) {
    return NODE(g, .op = op, .in = {a, b});
}

static value scalar(const graph *g, double x) {
    const float number = (float)x;
    return smoe_onnx_floats(g->onnx, &number, 0, NULL);
}

/* "PATH.NAME" */
static const char *within(const graph *g, const char *path, const char *name) {
    SMOE_FREED char *whole = smoe_text_format("%s.%s", path, name);
    return smoe_alloc_text_in(g->paths, whole);
}

/* The tensor "PATH.NAME", or NULL. */
static const smoe_tensor *graph_find(const graph *g, const char *path, const char *name) {
    return smoe_safetensors_find(g->weights, within(g, path, name));
}

static value weight(const graph *g, const char *path, const char *name) {
    return smoe_onnx_tensor(g->onnx, graph_find(g, path, name), 0, NULL);
}

static value graph_norm(const graph *g, value x, const char *path) {
    value bias = graph_find(g, path, "bias") ? weight(g, path, "bias") : 0;
    return NODE(g, .op = "LayerNormalization", .in = {x, weight(g, path, "weight"), bias},
                .whole = "axis", .number = -1, .epsilon = g->model->norm_eps);
}

/* x W^T + b */
static value linear(const graph *g, value x, const char *path) {
    value w = NODE(g, .op = "Transpose", .in = {weight(g, path, "weight")}, AXES(1, 0));
    return of_two(g, "Add", of_two(g, "MatMul", x, w), weight(g, path, "bias"));
}

static value graph_gelu(const graph *g, value x) {
    if (g->model->gelu == SMOE_GELU_QUICK) {
        value gate = NODE(g, .op = "Sigmoid", .in = {of_two(g, "Mul", x, scalar(g, 1.702))});
        return of_two(g, "Mul", x, gate);
    }
    bool tanh = g->model->gelu == SMOE_GELU_TANH;
    return NODE(g, .op = "Gelu", .in = {x}, .approximate = tanh ? "tanh" : "none");
}

static value mlp(const graph *g, value x, const char *path) {
    return linear(g, graph_gelu(g, linear(g, x, within(g, path, "fc1"))), within(g, path, "fc2"));
}

static value graph_softmax(const graph *g, value x, int64_t axis) {
    return NODE(g, .op = "Softmax", .in = {x}, .whole = "axis", .number = axis);
}

static value join(const graph *g, value a, value b, int64_t axis) {
    return NODE(g, .op = "Concat", .in = {a, b}, .whole = "axis", .number = axis);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Rows [B,T,parts*d] as [parts,B,H,T,d/H]. */
static value heads(const graph *g, value x, size_t parts) {
    int64_t H = (int64_t)g->model->heads, dh = (int64_t)(g->model->width / g->model->heads);
    x = of_two(g, "Reshape", x, LIST(g, 0, 0, (int64_t)parts, H, dh));
    return NODE(g, .op = "Transpose", .in = {x}, AXES(2, 0, 3, 1, 4));
}

static value part(const graph *g, value x, int64_t i, int64_t axis) {
    return NODE(g, .op = "Gather", .in = {x, LIST(g, i)}, .whole = "axis", .number = axis);
}

/* Of heads [1,B,H,T,d/H] to [B,T,d]. */
static value attend(const graph *g, value q, value k, value v, const char *path) {
    size_t dh = g->model->width / g->model->heads;
    const char *q_norm = within(g, path, "q_norm"), *k_norm = within(g, path, "k_norm");
    if (graph_find(g, q_norm, "weight")) q = graph_norm(g, q, q_norm);
    if (graph_find(g, k_norm, "weight")) k = graph_norm(g, k, k_norm);
    q = of_two(g, "Mul", q, scalar(g, 1 / sqrt((double)dh)));
    k = NODE(g, .op = "Transpose", .in = {k}, AXES(0, 1, 2, 4, 3));
    value a = graph_softmax(g, of_two(g, "MatMul", q, k), -1);
    value x = NODE(g, .op = "Transpose", .in = {of_two(g, "MatMul", a, v)}, AXES(0, 1, 3, 2, 4));
    return of_two(g, "Reshape", NODE(g, .op = "Squeeze", .in = {x, LIST(g, 0)}),
                  LIST(g, 0, 0, (int64_t)g->model->width));
}

static value attention(const graph *g, value x, const char *path) {
    value all = heads(g, linear(g, x, within(g, path, "qkv")), 3);
    value y = attend(g, part(g, all, 0, 0), part(g, all, 1, 0), part(g, all, 2, 0), path);
    return linear(g, y, within(g, path, "proj"));
}

/* ---- Soft MoE -------------------------------------------------------------------------------- */

/* x / |x| along an axis, as in router_soft.c. */
static value unit(const graph *g, value x, int64_t axis) {
    bool vmoe = g->model->moe.soft.l2_eps == SMOE_L2_VMOE;
    value length = of_two(g, vmoe ? "ReduceSumSquare" : "ReduceL2", x, LIST(g, axis));
    length = of_two(g, "Add", length, scalar(g, 1e-6));
    return of_two(g, "Div", x, vmoe ? NODE(g, .op = "Sqrt", .in = {length}) : length);
}

/* [rows,columns] of the same number. */
static value constant(const graph *g, size_t rows, size_t columns, double x) {
    SMOE_FREED float *values = smoe_alloc(rows * columns, sizeof *values);
    for (size_t i = 0; i < rows * columns; i++) values[i] = (float)x;
    return smoe_onnx_floats(g->onnx, values, 2, (const size_t[]){rows, columns});
}

/* Dispatch as [S,T] and combine weights as [T,S], of each image unless they are constant. */
static void weights_of(const graph *g, value x, const char *router, size_t S, value *dispatch,
                       value *combine) {
    const smoe_moe_spec *moe = &g->model->moe;
    const smoe_router_entry *entry = smoe_router_find(moe->router);
    const smoe_tensor *phi = graph_find(g, router, "phi");
    value to_slots = 0, to_tokens = 0;
    if (phi) {
        value columns = smoe_onnx_tensor(g->onnx, phi, 2, (const size_t[]){phi->dim[0], S});
        bool warm = graph_find(g, router, "log_dispatch_temperature"),
             scaled = graph_find(g, router, "scale");
        if (warm || scaled) columns = unit(g, columns, 0);
        value scale = scaled ? weight(g, router, "scale") : 0;
        if (scaled && moe->soft.scale_form == SMOE_SCALE_EXP)
            scale = NODE(g, .op = "Exp", .in = {scale});
        if (scaled) columns = of_two(g, "Mul", columns, scale);
        to_slots = to_tokens = of_two(g, "MatMul", warm || scaled ? unit(g, x, -1) : x, columns);
        if (warm) {
            value d = NODE(g, .op = "Exp", .in = {weight(g, router, "log_dispatch_temperature")});
            value c = NODE(g, .op = "Exp", .in = {weight(g, router, "log_combine_temperature")});
            to_slots = of_two(g, "Div", to_slots, d);
            to_tokens = of_two(g, "Div", to_tokens, c);
        }
    }
    *dispatch = entry->learns_dispatch ? NODE(g, .op = "Transpose",
                                              .in = {graph_softmax(g, to_slots, 1)}, AXES(0, 2, 1))
                                       : constant(g, S, g->T, 1 / (double)g->T);
    *combine = entry->learns_combine ? graph_softmax(g, to_tokens, 2)
                                     : constant(g, g->T, S, 1 / (double)S);
}

/* One of the two layers of `count` experts: x [E,rows,n]. */
static value experts_linear(const graph *g, value x, const char *path, const char *layer) {
    const char *name = within(g, path, layer);
    const smoe_tensor *bias = graph_find(g, name, "bias");
    value w = NODE(g, .op = "Transpose", .in = {weight(g, name, "weight")}, AXES(0, 2, 1));
    value b = smoe_onnx_tensor(g->onnx, bias, 3, (const size_t[]){bias->dim[0], 1, bias->dim[1]});
    return of_two(g, "Add", of_two(g, "MatMul", x, w), b);
}

/* The experts [first, first + count) of slots [E,rows,d]. */
static value experts(const graph *g, value slots, const char *path, size_t first, size_t count) {
    value x =
        NODE(g, .op = "Slice",
             .in = {slots, LIST(g, (int64_t)first), LIST(g, (int64_t)(first + count)), LIST(g, 0)});
    return experts_linear(g, graph_gelu(g, experts_linear(g, x, path, "fc1")), path, "fc2");
}

/* [B,S,d] as [E,B*P,d], and back. */
static value to_experts(const graph *g, value x, int64_t E, int64_t P, int64_t d) {
    x = of_two(g, "Reshape", x, LIST(g, 0, E, P, d));
    x = NODE(g, .op = "Transpose", .in = {x}, AXES(1, 0, 2, 3));
    return of_two(g, "Reshape", x, LIST(g, E, -1, d));
}

static value from_experts(const graph *g, value x, int64_t E, int64_t P, int64_t d) {
    x = of_two(g, "Reshape", x, LIST(g, E, -1, P, d));
    x = NODE(g, .op = "Transpose", .in = {x}, AXES(1, 0, 2, 3));
    return of_two(g, "Reshape", x, LIST(g, 0, E * P, d));
}

static value moe(const graph *g, value x, const char *path, size_t block) {
    const smoe_moe_spec *spec = &g->model->moe;
    const smoe_moe_shape shape = smoe_moe_shape_of(spec, block, g->T);
    int64_t E = (int64_t)shape.E, P = (int64_t)shape.P, d = (int64_t)g->model->width;
    size_t universal = spec->expert.universal, core = shape.E - universal;
    value dispatch, combine;
    weights_of(g, x, within(g, path, "router"), shape.S, &dispatch, &combine);
    value slots = to_experts(g, of_two(g, "MatMul", dispatch, x), E, P, d);
    value out = experts(g, slots, within(g, path, "experts"), 0, core);
    if (universal)
        out = join(g, out, experts(g, slots, within(g, path, "universal"), core, universal), 0);
    value y = of_two(g, "MatMul", combine, from_experts(g, out, E, P, d));
    if (spec->expert.shared) y = of_two(g, "Add", y, mlp(g, x, within(g, path, "shared")));
    return y;
}

/* ---- the model ------------------------------------------------------------------------------- */

static value graph_block(const graph *g, value x, size_t i) {
    char block[32];
    snprintf(block, sizeof block, "blocks.%zu", i);
    value y = attention(g, graph_norm(g, x, within(g, block, "norm1")), within(g, block, "attn"));
    x = of_two(g, "Add", x, y);
    y = graph_norm(g, x, within(g, block, "norm2"));
    const char *path = within(g, block, "mlp");
    return of_two(g, "Add", x, g->model->moe.is_moe[i] ? moe(g, y, path, i) : mlp(g, y, path));
}

/* A class token and registers [1,n,d], for each image of x. */
static value before_patches(const graph *g, value x, value tokens, int64_t d) {
    value images = NODE(g, .op = "Shape", .in = {x}, .whole = "end", .number = 1);
    value shape = NODE(g, .op = "Concat", .in = {images, LIST(g, 1, d)}, .whole = "axis");
    return of_two(g, "Expand", tokens, shape);
}

static value slice(const graph *g, value x, size_t first) {
    return NODE(g, .op = "Slice",
                .in = {x, LIST(g, (int64_t)first), LIST(g, INT64_MAX), LIST(g, 1)});
}

/* Pixels to the input of the first block. */
static value embed(const graph *g, value pixels) {
    const smoe_model_spec *m = g->model;
    int64_t d = (int64_t)m->width, p = (int64_t)m->patch_size;
    value x = NODE(g, .op = "Conv",
                   .in = {pixels, weight(g, "patch_embed.proj", "weight"),
                          weight(g, "patch_embed.proj", "bias")},
                   .list = "strides", .item = {p, p}, .items = 2);
    x = of_two(g, "Reshape", x, LIST(g, 0, d, -1));
    x = NODE(g, .op = "Transpose", .in = {x}, AXES(0, 2, 1));
    const smoe_tensor *learned = smoe_safetensors_find(g->weights, "pos_embed");
    const smoe_tensor *token = smoe_safetensors_find(g->weights, "cls_token");
    const smoe_tensor *registers = smoe_safetensors_find(g->weights, "reg_token");
    size_t patches = g->T - (token != NULL) - m->registers;
    value position = learned ? smoe_onnx_tensor(g->onnx, learned, 0, NULL) : 0;
    if (m->position == SMOE_POSITION_SINCOS2D) {
        SMOE_FREED real *fixed = smoe_alloc(patches * m->width, sizeof *fixed);
        SMOE_FREED float *values = smoe_alloc(patches * m->width, sizeof *values);
        smoe_embed_sincos2d(fixed, (size_t)llround(sqrt((double)patches)), m->width);
        for (size_t i = 0; i < patches * m->width; i++) values[i] = (float)fixed[i];
        position = smoe_onnx_floats(g->onnx, values, 2, (const size_t[]){patches, m->width});
    }
    if (position) x = of_two(g, "Add", x, learned && token ? slice(g, position, 1) : position);
    if (registers)
        x = join(g, before_patches(g, x, smoe_onnx_tensor(g->onnx, registers, 0, NULL), d), x, 1);
    if (token) {
        value first = smoe_onnx_tensor(g->onnx, token, 0, NULL);
        if (learned) first = of_two(g, "Add", first, part(g, position, 0, 1));
        x = join(g, before_patches(g, x, first, d), x, 1);
    }
    return m->pre_norm ? graph_norm(g, x, "norm_pre") : x;
}

/* One learnt query attends to the tokens [B,T,d], of which registers are left out: [B,1,d]. */
static value pool(const graph *g, value x) {
    static const char path[] = "attn_pool";
    value q = heads(g, linear(g, weight(g, path, "latent"), "attn_pool.q"), 1);
    value kv = heads(g, linear(g, x, "attn_pool.kv"), 2);
    x = linear(g, attend(g, q, part(g, kv, 0, 0), part(g, kv, 1, 0), path), "attn_pool.proj");
    return of_two(g, "Add", x, mlp(g, graph_norm(g, x, "attn_pool.norm"), "attn_pool.mlp"));
}

static value head(const graph *g, value x) {
    const smoe_model_spec *m = g->model;
    bool after = m->head == SMOE_HEAD_GAP_NORM;
    if (!after) x = graph_norm(g, x, "norm");
    if (m->head == SMOE_HEAD_TOKEN) {
        x = part(g, x, 0, 1);
    } else {
        if (m->registers) x = slice(g, x, m->registers);
        x = m->head == SMOE_HEAD_MAP ? pool(g, x) : of_two(g, "ReduceMean", x, LIST(g, 1));
    }
    x = of_two(g, "Reshape", x, LIST(g, 0, (int64_t)m->width));
    return linear(g, after ? graph_norm(g, x, "fc_norm") : x, "head");
}

static int graph_check(const smoe_spec *spec, smoe_err *err) {
    const smoe_moe_spec *m = &spec->model.moe;
    const smoe_router_entry *entry = m->layer_count ? smoe_router_find(m->router) : NULL;
    if (smoe_task_pairs(spec->train.loss))
        return smoe_fail(err, SMOE_USAGE,
                         "ONNX can be written only for models that classify, not for two towers");
    if (entry && entry->family != SMOE_FAMILY_SOFT)
        return smoe_fail(err, SMOE_USAGE,
                         "ONNX can be written only for dense models and the soft family: router %s "
                         "sorts tokens into buffers",
                         m->router);
    if (entry && smoe_router_heeds(entry, "combine") && m->soft.combine == SMOE_COMBINE_ENTMAX)
        return smoe_fail(err, SMOE_USAGE,
                         "ONNX has no operator for model.moe.combine=entmax, which sorts");
    if (entry && m->mix_precision == SMOE_MIX_BF16)
        return smoe_fail(err, SMOE_USAGE,
                         "ONNX is computed in F32, and model.moe.mix_precision is bf16");
    return 0;
}

static void put_model(graph *g, const smoe_spec *spec, size_t classes) {
    const smoe_data_spec *data = &spec->data;
    const size_t dim[] = {0, data->channels, data->image_size, data->image_size};
    value x = embed(g, smoe_onnx_input(g->onnx, "pixels", "images", 4, dim));
    for (size_t i = 0; i < g->model->depth; i++) x = graph_block(g, x, i);
    smoe_onnx_output(g->onnx, head(g, x), "logits", "images", classes);
}

/* The weights as the parameters of the model, where a file has them in another form: a class token
 * without a position, one that is pooled with the patches, other sizes of grids. They borrow from
 * the table. */
static int graph_fit(smoe_safetensors **fitted, smoe_params *params, const smoe_safetensors *from,
                     smoe_err *err) {
    SMOE_FREED smoe_pair *pair = NULL;
    SMOE_FREED smoe_tensor *tensors = NULL;
    if (smoe_params_allocate(params, 1, err) ||
        smoe_params_load(params, from, SMOE_FIT_RESIZED, NULL, err))
        return -1;
    tensors = smoe_params_tensors(params, &(smoe_slab){.prefix = "", .values = params->w});
    for (size_t i = 0; i < params->count; i++) tensors[i].type = smoe_dtype_name(tensors[i].dtype);
    size_t pairs = smoe_safetensors_pairs(from, &pair);
    return smoe_safetensors_make(fitted, smoe_safetensors_path(from),
                                 &(const smoe_content){tensors, params->count, pair, pairs},
                                 &(smoe_arena){0}, NULL, err);
}

int smoe_graph_write(const char *path, const smoe_spec *spec, const smoe_safetensors *weights,
                     size_t *bytes, smoe_err *err) {
    const smoe_tensor *classifier = smoe_safetensors_find(weights, "head.bias");
    size_t classes = classifier ? classifier->size : 1, kept = 0;
    SMOE_FREED smoe_pair *pair = NULL;
    SMOE_FREED_BY(smoe_model_freed) smoe_model *model = NULL;
    SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *fitted = NULL;
    if (graph_check(spec, err) || smoe_model_create(&model, spec, classes, err)) return -1;
    smoe_params *params = smoe_model_params(model);
    if (smoe_params_check(params, weights, SMOE_FIT_EXACT, NULL) &&
        graph_fit(&fitted, params, weights, err))
        return -1;
    if (!path) return 0;
    SMOE_FREED char *json = smoe_spec_json(spec), *names = smoe_model_file_names(weights, NULL);
    size_t pairs = smoe_safetensors_pairs(weights, &pair);
    for (size_t i = 0; i < pairs; i++) /* without what is of that file: digest and spec */
        if (!strstr(pair[i].key, "xxh3") && strcmp(pair[i].key, "smoe.spec") != 0 &&
            strcmp(pair[i].key, SMOE_CLASS_NAMES) != 0)
            pair[kept++] = pair[i];
    pair = smoe_alloc_more(pair, kept + 2, sizeof *pair);
    pair[kept++] = (smoe_pair){"smoe.spec", json};
    if (names) pair[kept++] = (smoe_pair){SMOE_CLASS_NAMES, names};
    SMOE_FREED_BY(smoe_alloc_pool_free) smoe_alloc_pool paths = {0};
    graph g = {.paths = &paths,
               .model = &spec->model,
               .weights = fitted ? fitted : weights,
               .onnx = smoe_onnx_new(),
               .T = smoe_spec_tokens(spec)};
    put_model(&g, spec, classes);
    int status = smoe_onnx_write(g.onnx, path, pair, kept, bytes, err);
    smoe_onnx_free(g.onnx);
    return status;
}
