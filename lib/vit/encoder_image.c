/* Images: patches, perhaps a norm, a tower, and a head with logits or, to compare with captions, an
 * embedding; see encoder.h. */
#include "vit/encoder.h"
#include "spec/tasks.h"

typedef struct image_encoder {
    smoe_encoder base;
    smoe_embed embed;
    smoe_head_layer head;
    smoe_norm norm;            /* with pre_norm, between embedding and tower */
    real *embedded;            /* [R,d] kept: its input; without it NULL */
    real *dembedded, *dstream; /* [R,d] gradients of that, and of the tower's stream */
} image_encoder;

static int image_init(smoe_encoder *e, size_t N, smoe_err *err) {
    image_encoder *x = (image_encoder *)e;
    const smoe_spec *spec = e->build.spec;
    (void)err;
    e->build.model = &spec->model;
    e->build.T = smoe_spec_tokens(spec);
    smoe_embed_init(&x->embed, &e->build);
    if (spec->model.pre_norm) smoe_norm_init(&x->norm, &e->build, spec->model.width, "norm_pre");
    e->blocks = e->build.params->count;
    smoe_tower_init(&e->tower, &e->build);
    smoe_head_init(&x->head, &e->build, smoe_task_pairs(spec->train.loss) ? spec->text.embed : N);
    e->N = x->head.N;
    return 0;
}

static void image_free(smoe_encoder *e) {
    smoe_tower_free(&e->tower);
    smoe_embed_free(&((image_encoder *)e)->embed);
}

/* The scratch of the embedding is free again for the tower, but its backward pass reads gradients
 * of the norm; tower and head need theirs together. */
static void image_reserve(smoe_encoder *e, const smoe_space *space) {
    image_encoder *x = (image_encoder *)e;
    size_t size = space->B * e->build.T * e->tower.d;
    if (space->train) x->dstream = smoe_arena_take(space->scratch, size, sizeof(real));
    if (e->build.model->pre_norm) {
        x->embedded = smoe_arena_take(space->keep, size, sizeof(real));
        smoe_norm_reserve(&x->norm, space->B * e->build.T, space);
        if (space->train) x->dembedded = smoe_arena_take(space->scratch, size, sizeof(real));
    }
    size_t scratch = space->scratch->used;
    smoe_embed_reserve(&x->embed, space);
    space->scratch->used = scratch;
    smoe_tower_reserve(&e->tower, space);
    smoe_head_reserve(&x->head, space);
    e->out = x->head.logits;
}

static void image_cost(const smoe_encoder *e, smoe_costs *costs) {
    const image_encoder *x = (const image_encoder *)e;
    size_t first = costs->count;
    smoe_embed_cost(&x->embed, costs);
    if (e->build.model->pre_norm) smoe_norm_cost(&x->norm, costs, e->build.T);
    if (!e->embed_trained) smoe_costs_forward_only(costs, first);
    smoe_tower_cost(&e->tower, costs);
    smoe_head_cost(&x->head, costs);
}

static void image_forward(smoe_encoder *e, const smoe_inputs *in, const smoe_pass *pass) {
    image_encoder *x = (image_encoder *)e;
    bool normed = e->build.model->pre_norm;
    smoe_embed_forward(&x->embed, normed ? x->embedded : e->tower.in, in->pixels, pass->images);
    if (normed)
        smoe_norm_forward(&x->norm, smoe_reals_out(e->tower.in), x->embedded,
                          pass->images * e->build.T);
    smoe_clock_lap(pass->clock, SMOE_PART_embed);
    smoe_tower_forward(&e->tower, pass);
    smoe_head_forward(&x->head, e->tower.out, pass);
    smoe_clock_lap(pass->clock, SMOE_PART_head);
}

static void image_backward(smoe_encoder *e, const real *dout, const smoe_inputs *in,
                           const smoe_pass *pass) {
    image_encoder *x = (image_encoder *)e;
    (void)in; /* the patches are kept */
    smoe_head_backward(&x->head, dout, e->tower.out, pass);
    smoe_tower_backward(&e->tower, x->dstream, x->head.dx, pass);
    real *dx = x->dstream;
    if (e->embed_trained && e->build.model->pre_norm) {
        size_t R = pass->images * e->build.T;
        memset(x->dembedded, 0, R * e->tower.d * sizeof(real));
        smoe_norm_backward(&x->norm, x->dembedded, x->dstream, x->embedded, R);
        dx = x->dembedded;
    }
    if (e->embed_trained) smoe_embed_backward(&x->embed, dx, pass->images);
    smoe_clock_lap(pass->clock, SMOE_PART_embed);
}

const real *smoe_encoder_image_features(const smoe_encoder *e) {
    return ((const image_encoder *)e)->head.features;
}

const smoe_encoder_type smoe_image_encoder = {.size = sizeof(image_encoder),
                                              .init = image_init,
                                              .free = image_free,
                                              .reserve = image_reserve,
                                              .cost = image_cost,
                                              .forward = image_forward,
                                              .backward = image_backward,
                                              .input = "patch_embed",
                                              .output = "head"};
