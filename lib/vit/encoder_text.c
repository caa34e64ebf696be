/*
 * Texts: tokens, a tower without experts, one vector of it, a projection; see encoder.h. With
 * normed tokens x [T,W] of a text of n tokens and P [W,D]:
 *   out = pool(x) P [+ b],  pool: x_{n-1} (end), x_0 (first), the mean of x_0 .. x_{n-1},
 *   or x_{T-1} (last)
 * A token attends to the n tokens of its text or, if causal, to those of them up to itself. No
 * token attends to padding, and padding is not pooled, so it has no gradient; where padding is
 * attended (text.padding), every text has T tokens but for end and mean. There are no experts,
 * because their routers would also route padding. Names and layouts of the parameters are those of
 * open_clip's text tower.
 */
#include "vit/encoder.h"
#include "text/tokenizer.h"
#include "math/gemm.h"
#include "math/kernels.h"
#include "spec/tasks.h"

typedef struct text_encoder {
    smoe_encoder base;
    smoe_model_spec model;   /* sizes of the tower */
    size_t token, position;  /* rows of the tables of ids and places: [vocabulary,W], [T,W] */
    size_t projection, bias; /* rows of P and b */
    bool biased;
    size_t *seen;                        /* [T] of a causal tower, else NULL; owned */
    real *features, *embedded;           /* [B,W], [B,N] kept */
    real *dfeatures, *dnormed, *dstream; /* [B,W], [R,W], [R,W] */
} text_encoder;

static bool text_wanted(const smoe_spec *spec) {
    return smoe_task_pairs(spec->train.loss);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* A part of a layer's name here, and its name in open_clip. */
static const char *const names[][2] = {
    {"text.blocks.", "text.transformer.resblocks."},
    {".norm1", ".ln_1"},
    {".norm2", ".ln_2"},
    {".attn.qkv.", ".attn.in_proj_"},
    {".attn.proj", ".attn.out_proj"},
    {".mlp.fc1", ".mlp.c_fc"},
    {".mlp.fc2", ".mlp.c_proj"},
    {"text.norm", "text.ln_final"},
};

static void rename_layer(char *name, size_t size) {
    char before[96];
    for (size_t i = 0; i < SMOE_COUNT(names); i++) {
        snprintf(before, sizeof before, "%s", name);
        const char *at = strstr(before, names[i][0]);
        if (at)
            snprintf(name, size, "%.*s%s%s", (int)(at - before), before, names[i][1],
                     at + strlen(names[i][0]));
    }
}

/* ---- making one ------------------------------------------------------------------------------ */

static int text_init(smoe_encoder *e, size_t N, smoe_err *err) {
    text_encoder *x = (text_encoder *)e;
    const smoe_spec *spec = e->build.spec;
    smoe_params *params = e->build.params;
    size_t vocabulary, T = spec->text.context;
    (void)N;
    if (smoe_tokenizer_vocabulary(&vocabulary, spec, err)) return -1;
    x->model = smoe_spec_text_tower(spec);
    e->N = smoe_spec_embed(spec);
    e->build.model = &x->model;
    e->build.T = T;
    e->build.padded = spec->text.padding == SMOE_PADDING_MASKED;
    snprintf(e->build.prefix, sizeof e->build.prefix, "text.");
    if (spec->text.causal) {
        e->build.seen = x->seen = smoe_alloc(T, sizeof *x->seen);
        for (size_t t = 0; t < T; t++) x->seen[t] = t + 1;
    }
    size_t table[] = {vocabulary, x->model.width}, places[] = {T, x->model.width};
    x->token = smoe_params_add(params, smoe_param_normal(SMOE_PARAM_PLAIN, 0.02), 2, table,
                               "text.token_embedding.weight");
    x->position = smoe_params_add(params, smoe_param_normal(SMOE_PARAM_PLAIN, 0.01), 2, places,
                                  "text.positional_embedding");
    e->blocks = params->count;
    smoe_tower_init(&e->tower, &e->build);
    for (size_t i = e->first; i < params->count; i++)
        rename_layer(params->param[i].name, sizeof params->param[i].name);
    size_t dim[] = {x->model.width, e->N};
    x->projection = smoe_params_add(
        params, smoe_param_normal(SMOE_PARAM_KERNEL, 1 / sqrt((double)x->model.width)), 2, dim,
        "text.text_projection");
    x->biased = spec->text.bias;
    if (x->biased)
        x->bias =
            smoe_params_add(params, smoe_param_constant(0), 1, &e->N, "text.text_projection_bias");
    return 0;
}

static void text_free(smoe_encoder *e) {
    smoe_tower_free(&e->tower);
    free(((text_encoder *)e)->seen);
}

static void text_reserve(smoe_encoder *e, const smoe_space *space) {
    text_encoder *x = (text_encoder *)e;
    size_t B = space->B, W = e->tower.d, R = B * e->build.T;
    x->features = smoe_arena_take(space->keep, B * W, sizeof(real));
    e->out = x->embedded = smoe_arena_take(space->keep, B * e->N, sizeof(real));
    if (space->train) {
        x->dfeatures = smoe_arena_take(space->scratch, B * W, sizeof(real));
        x->dnormed = smoe_arena_take(space->scratch, R * W, sizeof(real));
        x->dstream = smoe_arena_take(space->scratch, R * W, sizeof(real));
    }
    smoe_tower_reserve(&e->tower, space);
}

static void text_cost(const smoe_encoder *e, smoe_costs *costs) {
    size_t first = costs->count;
    smoe_costs_add(costs, SMOE_PART_embed, 0, 0, "text.token_embedding");
    smoe_costs_add(costs, SMOE_PART_embed, 0, 0, "text.positional_embedding");
    smoe_tower_cost(&e->tower, costs);
    for (size_t i = first; i < costs->count; i++) {
        smoe_cost_layer *layer = &costs->layer[i];
        rename_layer(layer->name, sizeof layer->name);
        smoe_costs_count(costs, layer);
    }
    smoe_costs_add(costs, SMOE_PART_head, (double)e->tower.d * (double)e->N, 3,
                   "text.text_projection");
    if (((const text_encoder *)e)->biased)
        smoe_costs_add(costs, SMOE_PART_head, 0, 0, "text.text_projection_bias");
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* x [R,W] = the vector of each token plus that of its position. */
static void embed_tokens(const text_encoder *l, real *x, const uint32_t *tokens, size_t B) {
    const smoe_params *params = l->base.build.params;
    const real *table = smoe_weight(params, l->token), *place = smoe_weight(params, l->position);
    size_t d = l->model.width, T = l->base.build.T;
    SMOE_SHARED(elementwise, B * T * d)
    for (size_t row = 0; row < B * T; row++) {
        const real *token = table + tokens[row] * d, *at = place + row % T * d;
        for (size_t i = 0; i < d; i++) x[row * d + i] = token[i] + at[i];
    }
}

/* From the first lengths[b] tokens of each text; NULL: from all. A task adds up its columns of all
 * rows, so the order of each sum does not depend on threads. */
static void embed_tokens_backward(const text_encoder *l, const real *dx, const uint32_t *tokens,
                                  const size_t *lengths, size_t B) {
    enum { COLUMNS = 16 }; /* of a task: a cache line of F32 */
    const smoe_params *params = l->base.build.params;
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    real *dtable = smoe_gradient(params, l->token), *dplace = smoe_gradient(params, l->position);
    size_t d = l->model.width, T = l->base.build.T, tasks = (d + COLUMNS - 1) / COLUMNS;
    SMOE_SHARED(elementwise, B * T * d)
    for (size_t task = 0; task < tasks; task++) {
        size_t at = task * COLUMNS, n = d - at < COLUMNS ? d - at : COLUMNS;
        for (size_t b = 0; b < B; b++)
            for (size_t t = 0; t < (lengths ? lengths[b] : T); t++) {
                const real *from = dx + (b * T + t) * d + at;
                if (dtable) kern->add(dtable + tokens[b * T + t] * d + at, from, n);
                if (dplace) kern->add(dplace + t * d + at, from, n);
            }
    }
}

/* The share of row t of a text of n tokens, padded to T, in its pooled vector. */
static real share_of(smoe_pool pool, size_t t, size_t n, size_t T) {
    switch (pool) {
    case SMOE_POOL_END: return t == n - 1;
    case SMOE_POOL_FIRST: return t == 0;
    case SMOE_POOL_MEAN: return t < n ? 1 / (real)n : 0;
    case SMOE_POOL_LAST: return t == T - 1;
    }
    return 0;
}

static void pool_tokens(const text_encoder *x, const size_t *lengths, size_t B) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t T = x->base.build.T, W = x->base.tower.d;
    smoe_pool pool = x->base.build.spec->text.pool;
    SMOE_SHARED(elementwise, B * T * W)
    for (size_t b = 0; b < B; b++) {
        real *out = x->features + b * W;
        memset(out, 0, W * sizeof *out);
        for (size_t t = 0; t < T; t++) {
            real share = share_of(pool, t, lengths[b], T);
            if (share > 0) kern->axpy(out, share, x->base.tower.out + (b * T + t) * W, W);
        }
    }
}

/* A pass with the number of tokens of each text that take part in attention; NULL: all. */
static smoe_pass encoder_text_pass_of(const smoe_encoder *e, const smoe_inputs *in,
                                      const smoe_pass *pass) {
    smoe_pass own = *pass;
    own.lengths = e->build.padded ? in->lengths : NULL;
    return own;
}

static void text_forward(smoe_encoder *e, const smoe_inputs *in, const smoe_pass *pass) {
    text_encoder *x = (text_encoder *)e;
    size_t B = pass->images, W = e->tower.d;
    const smoe_pass own = encoder_text_pass_of(e, in, pass);
    embed_tokens(x, e->tower.in, in->tokens, B);
    smoe_clock_lap(pass->clock, SMOE_PART_embed);
    smoe_tower_forward(&e->tower, &own);
    pool_tokens(x, in->lengths, B);
    smoe_matrix projection = smoe_matrix_of(smoe_weight(e->build.params, x->projection), W, e->N);
    smoe_gemm(smoe_product_of(x->embedded, smoe_matrix_of(x->features, B, W), projection));
    for (size_t b = 0; x->biased && b < B; b++)
        smoe_kernels_get()->row->axpy(x->embedded + b * e->N, 1,
                                      smoe_weight(e->build.params, x->bias), e->N);
    smoe_clock_lap(pass->clock, SMOE_PART_head);
}

/* out = f P + b: df = dout P^T, dP += f^T dout, db += the rows of dout. */
static void project_backward(const text_encoder *x, const real *dout, size_t B) {
    const smoe_params *params = x->base.build.params;
    size_t W = x->base.tower.d, N = x->base.N;
    real *dweight = smoe_gradient(params, x->projection);
    smoe_matrix f = smoe_matrix_of(x->features, B, W), d = smoe_matrix_of(dout, B, N);
    smoe_matrix projection = smoe_matrix_of(smoe_weight(params, x->projection), W, N);
    if (dweight) smoe_gemm(smoe_product_added(dweight, smoe_transposed(f), d));
    real *dbias = x->biased ? smoe_gradient(params, x->bias) : NULL;
    for (size_t b = 0; dbias && b < B; b++)
        smoe_kernels_get()->row->axpy(dbias, 1, dout + b * N, N);
    smoe_gemm(smoe_product_of(x->dfeatures, d, smoe_transposed(projection)));
}

static void text_backward(smoe_encoder *e, const real *dout, const smoe_inputs *in,
                          const smoe_pass *pass) {
    text_encoder *x = (text_encoder *)e;
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t B = pass->images, T = e->build.T, W = e->tower.d;
    smoe_pool pool = e->build.spec->text.pool;
    const smoe_pass own = encoder_text_pass_of(e, in, pass);
    smoe_clock_start(pass->clock);
    project_backward(x, dout, B);
    SMOE_SHARED(elementwise, B * T * W)
    for (size_t row = 0; row < B * T; row++)
        kern->scale(x->dnormed + row * W, share_of(pool, row % T, in->lengths[row / T], T),
                    x->dfeatures + row / T * W, W);
    smoe_tower_backward(&e->tower, x->dstream, x->dnormed, &own);
    if (e->embed_trained) embed_tokens_backward(x, x->dstream, in->tokens, own.lengths, B);
    smoe_clock_lap(pass->clock, SMOE_PART_embed);
}

const smoe_encoder_type smoe_text_encoder = {.size = sizeof(text_encoder),
                                             .wanted = text_wanted,
                                             .init = text_init,
                                             .free = text_free,
                                             .reserve = text_reserve,
                                             .cost = text_cost,
                                             .forward = text_forward,
                                             .backward = text_backward,
                                             .input = "text.token_embedding",
                                             .output = "text.text_projection",
                                             .rename = rename_layer};
