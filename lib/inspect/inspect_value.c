/*
 * Analyses by further evaluations: how much a model loses when routers choose at random (V-MoE
 * E.1); with other experts; and how much the logits of an image depend on the images evaluated with
 * it (0 in soft routing, where every image is a separate group).
 */
#include "inspect/inspect_view.h"
#include "math/kernels.h"
#include "spec/routers.h"
#include "train/task.h"

/* A row with what an evaluation gave, after the cells that say of which model it is. */
#define value_put(r, frame, l, eval, ...)                                                         \
    smoe_inspect_put(r, frame, l, __VA_ARGS__,                                                    \
                     {smoe_metric_name(SMOE_METRIC_PRECISION), .number = (eval)->precision_at_1}, \
                     {"loss", .number = (eval)->loss})

/* ---- the value of routers -------------------------------------------------------------------- */

static int value_evaluate(const smoe_inspection *r, const bool *random, smoe_eval *eval,
                          smoe_err *err) {
    const smoe_inspect_subject *s = &r->subject;
    smoe_model_randomise(s->model, random);
    int status = smoe_evaluate(s->model, s->spec, s->set, s->batch,
                               &(smoe_eval_options){.comm = r->comm}, eval, err);
    smoe_model_randomise(s->model, s->spec->model.moe.random.is_random);
    return status;
}

/* Rows "none", one per layer, with which the other rows of the layer are compared. */
int smoe_fill_router_value(const smoe_inspection *r, smoe_frame *frame, smoe_err *err) {
    bool up_to[SMOE_MAX_BLOCKS] = {false};
    smoe_eval eval;
    if (!r->subject.random_routers) return 0;
    for (size_t l = 0; l < r->layers; l++) {
        size_t block = smoe_model_moe_block(r->subject.model, l);
        bool this[SMOE_MAX_BLOCKS] = {false};
        this[block] = up_to[block] = true;
        value_put(r, frame, l, &r->eval, {"random", .text = "none"});
        if (value_evaluate(r, this, &eval, err)) return -1;
        value_put(r, frame, l, &eval, {"random", .text = "this"});
        if (l && value_evaluate(r, up_to, &eval, err)) return -1;
        value_put(r, frame, l, &eval, {"random", .text = "up to"});
    }
    return 0;
}

/* ---- the value of experts -------------------------------------------------------------------- */

/* Precision with the experts of a layer replaced by their mean, and with each replaced by its
 * neighbour, after training. If precision does not fall, the experts have learnt the same. If it
 * falls with the mean, they have learnt different things; if it falls with neighbours, the router
 * sends tokens to the experts that fit them. */

/* to [E, ...] = the tensor with its experts exchanged: by their mean, or each by its neighbour. */
static void exchange_fill(real *to, const smoe_params *params, size_t which, bool mean) {
    const smoe_param *p = &params->param[which];
    const smoe_bf16 *narrow = smoe_weight_bf16(params, which);
    size_t n = p->dim[0], size = p->size / n;
    SMOE_FREED real *wide = narrow ? smoe_alloc(p->size, sizeof *wide) : NULL;
    if (narrow) smoe_kernels_get()->row->widen(wide, narrow, p->size);
    const real *from = narrow ? wide : smoe_weight(params, which);
    for (size_t k = 0; k < p->size; k++) {
        double sum = 0;
        for (size_t e = 0; mean && e < n; e++) sum += (double)from[e * size + k % size];
        to[k] = mean ? (real)(sum / (double)n) : from[(k / size + 1) % n * size + k % size];
    }
}

/* Whether the tensor belongs to the experts of the MoE layers from..l. Universal experts are a
 * tensor of their own, and are exchanged among themselves. */
static bool is_of_layers(const smoe_inspection *r, const smoe_param *p, size_t from, size_t l) {
    static const char *const group[] = {"experts", "universal"};
    for (size_t k = 2 * from; k < 2 * (l + 1); k++) {
        char prefix[64];
        int n = snprintf(prefix, sizeof prefix, "blocks.%zu.mlp.%s.",
                         smoe_model_moe_block(r->subject.model, k / 2), group[k % 2]);
        if (!strncmp(p->name, prefix, (size_t)n)) return true;
    }
    return false;
}

/* Evaluates with the experts of layers from..l exchanged. During that time the parameter table
 * points to the exchanged weights. */
static int exchange_evaluate(const smoe_inspection *r, bool mean, size_t from, size_t l,
                             smoe_eval *eval, smoe_err *err) {
    const smoe_inspect_subject *s = &r->subject;
    smoe_params *params = smoe_model_params(s->model);
    smoe_param_place *before = params->place;
    SMOE_FREED smoe_param_place *place = smoe_alloc(params->count, sizeof *place);
    /* of which only the experts' are used */
    real *slab = calloc(params->size, sizeof *slab);
    if (!slab) return smoe_fail(err, SMOE_RUNTIME, "out of memory for other experts");
    for (size_t i = 0; i < params->count; i++) {
        real *to = slab + params->param[i].offset;
        place[i] = (smoe_param_place){smoe_weight(params, i), smoe_weight_bf16(params, i)};
        if (!is_of_layers(r, &params->param[i], from, l)) continue;
        exchange_fill(to, params, i, mean);
        place[i] = (smoe_param_place){.values = to};
    }
    params->place = place;
    int status = smoe_evaluate(s->model, s->spec, s->set, s->batch,
                               &(smoe_eval_options){.comm = r->comm}, eval, err);
    params->place = before;
    free(slab);
    return status;
}

/* Rows "own", one per layer, with which the other rows of the layer are compared. */
int smoe_fill_expert_value(const smoe_inspection *r, smoe_frame *frame, smoe_err *err) {
    smoe_eval eval;
    if (!r->subject.exchange_experts) return 0;
    for (size_t l = 0; l < r->layers; l++) {
        value_put(r, frame, l, &r->eval, {"experts", .text = "own"}, {"layers", .text = "this"});
        for (int mean = 1; mean >= 0; mean--) {
            const char *experts = mean ? "mean" : "neighbour";
            if (exchange_evaluate(r, mean, l, l, &eval, err)) return -1;
            value_put(r, frame, l, &eval, {"experts", .text = experts}, {"layers", .text = "this"});
            if (l && exchange_evaluate(r, mean, 0, l, &eval, err)) return -1;
            value_put(r, frame, l, &eval, {"experts", .text = experts},
                      {"layers", .text = "up to"});
        }
    }
    return 0;
}

/* ---- companions ------------------------------------------------------------------------------ */

enum { SAMPLE = 16, ROUNDS = 4 };

/* An image at its place in the evaluation, the places of its group there, and what other companions
 * did to its logits. */
typedef struct target {
    size_t image, place, first, size;
    double largest, sum, squares, changed;
} target;

typedef struct company {
    size_t an_image;
    real *pixels; /* [a group, an image] */
    real *before; /* [N] logits among an image's own companions */
} company;

/* `group`: the images of a full group, which a choice router sees together; at least two. */
static target target_at(const smoe_inspection *r, size_t place, size_t group) {
    size_t batch = r->subject.batch, start = place / batch * batch;
    size_t end = start + batch < r->images ? start + batch : r->images;
    size_t first = start + (place - start) / group * group;
    return (target){.image = r->order[place],
                    .place = place,
                    .first = first,
                    .size = end - first < group ? end - first : group};
}

/* The group of a target: in round 0 its own, later others, drawn from the rest of the split. */
static int load_group(const smoe_inspection *r, const company *c, const target *t, size_t round,
                      smoe_err *err) {
    smoe_rng rng = smoe_rng_at(r->subject.spec->seed, SMOE_RNG_ANALYSIS, SMOE_DRAWS_COMPANIONS,
                               round, t->image);
    for (size_t i = 0; i < t->size; i++) {
        size_t image = r->order[t->first + i], other = smoe_rng_below(&rng, r->images - 1);
        if (round && image != t->image) image = other + (other >= t->image);
        if (smoe_dataset_image(r->subject.set, image, false, c->pixels + i * c->an_image, NULL,
                               NULL, err))
            return -1;
    }
    return 0;
}

static void value_compare(target *t, const real *before, const real *after, size_t N) {
    for (size_t i = 0; i < N; i++) {
        double change = fabs((double)after[i] - (double)before[i]);
        t->largest = fmax(t->largest, change);
        t->sum += change;
        t->squares += (double)before[i] * (double)before[i];
    }
    t->changed += smoe_task_top(after, N) != smoe_task_top(before, N);
}

static int value_meet(const smoe_inspection *r, const company *c, target *t, smoe_err *err) {
    smoe_pass pass = {.seed = r->subject.spec->seed, .images = t->size, .first = t->first};
    for (size_t round = 0; round <= ROUNDS; round++) {
        if (load_group(r, c, t, round, err)) return -1;
        smoe_model_forward(r->subject.model, c->pixels, &pass);
        const real *logit = smoe_model_logits(r->subject.model) + (t->place - t->first) * r->N;
        if (round)
            value_compare(t, c->before, logit, r->N);
        else
            memcpy(c->before, logit, r->N * sizeof *logit);
    }
    return 0;
}

int smoe_fill_companions(const smoe_inspection *r, smoe_frame *frame, smoe_err *err) {
    const smoe_data_spec *data = &r->subject.spec->data;
    size_t group = r->layers ? smoe_moe_shape_of(&r->subject.spec->model.moe, 0, r->T).images : 1;
    size_t batch = r->subject.batch, targets = r->images < SAMPLE ? r->images : SAMPLE;
    if (batch < 2 || r->images < 2) return 0;         /* no companions */
    if (smoe_model_pairs(r->subject.model)) return 0; /* an image has an embedding, no logits */
    if (group < 2) group = 2;
    if (group > batch) group = batch;
    size_t an_image = data->channels * data->image_size * data->image_size;
    SMOE_FREED real *pixels = smoe_alloc(group * an_image, sizeof *pixels);
    SMOE_FREED real *before = smoe_alloc(r->N, sizeof *before);
    const company c = {an_image, pixels, before};
    target one[SAMPLE] = {0}, all = {0};
    int status = 0;
    for (size_t i = 0; i < targets && !status; i++) { /* the processes divide them */
        if (i % (size_t)r->comm->size != (size_t)r->comm->rank) continue;
        one[i] = target_at(r, i * r->images / targets, group);
        status = value_meet(r, &c, &one[i], err);
    }
    if (smoe_comm_agree(r->comm, status, NULL, err)) return -1;
    smoe_comm_join(r->comm, one, sizeof one);
    for (size_t i = 0; i < targets; i++) {
        all.largest = fmax(all.largest, one[i].largest);
        all.sum += one[i].sum;
        all.squares += one[i].squares;
        all.changed += one[i].changed;
    }
    double rounds = (double)(targets * ROUNDS), compared = rounds * (double)r->N;
    smoe_frame_put(frame, {"run", .text = r->subject.run}, {"group", .number = group},
                   {"images", .number = targets}, {"rounds", .number = ROUNDS},
                   {"largest_change", .number = all.largest},
                   {"mean_change", .number = all.sum / compared},
                   {"changed_predictions", .number = all.changed / rounds},
                   {"logit_rms", .number = sqrt(all.squares / compared)});
    return 0;
}
