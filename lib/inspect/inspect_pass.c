/*
 * The pass of smoe inspect over a split; see inspect.h: it hands every image of every layer to the
 * counters. What is counted, and how it is used, is in the other files inspect_*.c.
 */
#include "inspect/inspect_view.h"
#include "draw/overlay.h"
#include "spec/routers.h"

static const smoe_counter *const counters[] = {
    &smoe_counter_means,        &smoe_counter_token_sums, &smoe_counter_dispatch_sums,
    &smoe_counter_combine_sums, &smoe_counter_experts,    &smoe_counter_choices,
    &smoe_counter_changes};
enum { COUNTERS = SMOE_COUNT(counters) };

/* ---- what the counters see ------------------------------------------------------------------- */

static int falling(const void *a, const void *b) {
    real x = *(const real *)a, y = *(const real *)b;
    return (x < y) - (x > y);
}

/* sums [n]: of the n weights `stride` apart, largest first. */
static void cumulate(double *sums, const real *w, size_t n, size_t stride, real *work) {
    enum { FEW = 64 }; /* for which qsort and its calls take longer */
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        real x = w[i * stride];
        size_t k = i;
        for (; n <= FEW && k && work[k - 1] < x; k--) work[k] = work[k - 1];
        work[k] = x;
    }
    if (n > FEW) qsort(work, n, sizeof *work, falling);
    for (size_t i = 0; i < n; i++) sums[i] = sum += (double)work[i];
}

static void see_dense(const smoe_inspection *r, const smoe_plan *plan, size_t b,
                      smoe_inspect_view *view) {
    size_t T = r->T, S = plan->S;
    view->disp = plan->dense.disp + b * T * S;
    view->comb = plan->dense.comb + b * T * S;
    for (size_t s = 0; s < S; s++)
        cumulate(view->disp_sums + s * T, view->disp + s, T, S, view->work);
    for (size_t t = 0; t < T; t++) {
        const real *comb = view->comb + t * S;
        cumulate(view->comb_sums + t * S, comb, S, 1, view->work);
        for (size_t e = 0; e < r->E; e++) {
            double sum = 0;
            for (size_t p = 0; p < plan->P; p++) sum += (double)comb[e * plan->P + p];
            view->weight[t * r->E + e] = sum;
        }
    }
}

static void see_sparse(const smoe_inspection *r, const smoe_plan *plan, size_t b,
                       smoe_inspect_view *view) {
    size_t first = b * r->T, group = first / plan->T;
    view->places = 0;
    memset(view->weight, 0, r->T * r->E * sizeof *view->weight);
    for (size_t t = 0; t < r->T; t++)
        for (int32_t i = plan->list.first[first + t]; i < plan->list.first[first + t + 1]; i++) {
            size_t slot = (size_t)plan->list.slot[i], in_group = slot - group * plan->S;
            real weight = plan->list.slot_weight[slot];
            smoe_sample_place place = {t, in_group / plan->P, in_group % plan->P, (float)weight};
            view->place[view->places++] = place;
            view->weight[t * r->E + place.expert] = fabs((double)weight);
        }
}

static void see(const smoe_inspection *r, const smoe_plan *plan, size_t l, size_t b,
                smoe_inspect_view *view) {
    view->layer = l;
    view->image = r->order[r->seen + b];
    view->label = smoe_dataset_label(r->subject.set, view->image);
    size_t unit = view->unit = plan->choices.unit, chooser = unit ? b * (r->T / unit) : 0;
    view->K = plan->choices.K;
    view->gate = plan->choices.gate ? plan->choices.gate + b * r->T * r->E : NULL;
    view->choice = plan->choices.choice ? plan->choices.choice + chooser * view->K : NULL;
    view->scores = plan->choices.scores ? plan->choices.scores + chooser * r->E : NULL;
    if (plan->sparse)
        see_sparse(r, plan, b, view);
    else
        see_dense(r, plan, b, view);
}

/* Threads evaluate images in parallel; a counter receives them one after another, on any thread. */
static void watch(void *user, size_t l, const smoe_router *router) {
    smoe_inspection *r = user;
    const smoe_plan *plan = &router->plan;
    size_t images = plan->tokens / r->T;
    for (size_t from = 0; from < images; from += r->views) {
        size_t n = images - from < r->views ? images - from : r->views;
#pragma omp parallel for schedule(dynamic)
        for (size_t b = 0; b < n; b++) see(r, plan, l, from + b, &r->view[b]);
#pragma omp parallel for schedule(dynamic)
        for (size_t c = 0; c < COUNTERS; c++) {
            void *state = r->state[c * r->layers + l];
            if (!state || !counters[c]->image) continue;
            for (size_t b = 0; b < n; b++) counters[c]->image(state, r, &r->view[b]);
        }
        for (size_t b = 0; b < n; b++) smoe_samples_keep(r, l, &r->view[b]);
    }
    for (size_t c = 0; c < COUNTERS; c++) {
        void *state = r->state[c * r->layers + l];
        if (state && counters[c]->batch) counters[c]->batch(state, r, plan);
    }
}

static int pass_over(void *user, const smoe_batch *batch, const real *logits, size_t classes,
                     smoe_err *err) {
    (void)classes;
    smoe_inspection *r = user;
    smoe_samples_predict(r, batch, logits);
    r->seen += (size_t)r->comm->size * r->subject.batch;
    size_t done = r->seen < r->images ? r->seen : r->images;
    if (r->subject.stop && *r->subject.stop)
        return smoe_fail(err, SMOE_STOPPED, "stopped on request");
    if (r->subject.progress) r->subject.progress(r->subject.progress_user, done, r->images);
    return r->seen < r->enough ? 0 : smoe_fail(err, SMOE_STOPPED, "enough images");
}

/* ---- opening and closing --------------------------------------------------------------------- */

static unsigned what_routers_have(const smoe_model *model) {
    const smoe_router *router = smoe_model_router(model, 0);
    const smoe_router_entry *entry = smoe_router_find(router->spec->router);
    char name[64];
    snprintf(name, sizeof name, "%s.phi", router->prefix);
    /* Whether choices follow scores to which noise is added in training. With biases they follow
     * the weights of the gate and the biases, whose order is another. */
    bool biased =
        smoe_router_heeds(entry, "balance") && router->spec->balance.way == SMOE_BALANCE_BIAS;
    bool scores = router->plan.choices.scores && smoe_router_heeds(entry, "noise") && !biased;
    return (router->plan.sparse ? SMOE_INSPECT_SPARSE : SMOE_INSPECT_DENSE) |
           (router->plan.choices.gate ? SMOE_INSPECT_GATE : 0) |
           (scores ? SMOE_INSPECT_SCORES : 0) |
           (smoe_params_find(router->params, name) ? SMOE_INSPECT_PHI : 0);
}

/* As many images at a time as fit into the memory, at least one. */
static void open_views(smoe_inspection *r) {
    bool dense = r->has & SMOE_INSPECT_DENSE;
    size_t weights = r->T * r->E, sums = dense ? r->T * r->most_slots : 0,
           places = dense ? 0 : r->T * r->E;
    size_t bytes = (weights + 2 * sums) * sizeof(double) + places * sizeof(smoe_sample_place);
    r->views = (r->subject.memory ? r->subject.memory : (size_t)32 << 20) / bytes;
    if (r->views > r->subject.batch) r->views = r->subject.batch;
    if (!r->views) r->views = 1;
    smoe_alloc_pool *pool = &r->memory;
    r->view = smoe_alloc_in(pool, r->views, sizeof *r->view);
    for (size_t i = 0; i < r->views; i++) {
        smoe_inspect_view *v = &r->view[i];
        v->weight = smoe_alloc_in(pool, weights, sizeof *v->weight);
        v->disp_sums = smoe_alloc_in(pool, sums, sizeof *v->disp_sums);
        v->comb_sums = smoe_alloc_in(pool, sums, sizeof *v->comb_sums);
        v->place = smoe_alloc_in(pool, places, sizeof *v->place);
        v->work = smoe_alloc_in(pool, r->T > r->most_slots ? r->T : r->most_slots, sizeof *v->work);
    }
}

static void open_counters(smoe_inspection *r) {
    r->state = smoe_alloc_in(&r->memory, COUNTERS * r->layers, sizeof *r->state);
    for (size_t i = 0; i < COUNTERS * r->layers; i++) {
        const smoe_counter *counter = counters[i / r->layers];
        if ((counter->needs & r->has) != counter->needs) continue;
        r->state[i] = smoe_alloc_in(&r->memory, 1, counter->size);
        counter->open(r->state[i], r, i % r->layers);
    }
}

static int pass_check(const smoe_inspect_subject *s, smoe_err *err) {
    size_t images = smoe_dataset_images(s->set);
    if (!smoe_model_moe_layers(s->model))
        return smoe_fail(err, SMOE_USAGE, "%s has no MoE layer", s->checkpoint);
    bool classified = s->spec->eval.zeroshot.count && smoe_dataset_classes(s->set) > 1;
    if (smoe_model_pairs(s->model) && !classified)
        return smoe_fail(err, SMOE_USAGE,
                         "%s compares images with captions: give texts for its classes, as with "
                         "'eval.zeroshot=a photo of a {}'",
                         s->checkpoint);
    for (size_t i = 0; i < s->images; i++)
        if (s->image[i] >= images)
            return smoe_fail(err, SMOE_USAGE, "no image %zu: the split %s has images 0 to %zu",
                             s->image[i], s->spec->eval.split, images - 1);
    return 0;
}

static void open_all(smoe_inspection **out, const smoe_inspect_subject *s) {
    *out = NULL;
    smoe_inspection *r = *out = smoe_alloc(1, sizeof *r);
    const smoe_router *router = smoe_model_router(s->model, 0);
    *r = (smoe_inspection){.subject = *s,
                           .has = what_routers_have(s->model),
                           .layers = smoe_model_moe_layers(s->model),
                           .T = smoe_spec_tokens(s->spec),
                           .E = router->E,
                           .N = smoe_dataset_classes(s->set),
                           .side = s->spec->data.image_size / s->spec->model.patch_size,
                           .images = smoe_dataset_images(s->set),
                           .enough = SIZE_MAX};
    for (size_t l = 0; l < r->layers; l++)
        if (smoe_inspect_slots(r, l) > r->most_slots) r->most_slots = smoe_inspect_slots(r, l);
    r->first_patch = r->T - r->side * r->side;
    r->counter = counters;
    r->alone = smoe_comm_alone;
    r->comm = s->comm ? s->comm : &r->alone;
    r->seen = (size_t)r->comm->rank * s->batch;
    r->order = smoe_alloc_in(&r->memory, r->images, sizeof *r->order);
    smoe_dataset_order(r->order, r->images, s->spec);
    open_views(r);
    open_counters(r);
}

static int pass(smoe_inspection *r, smoe_err *err) {
    const smoe_inspect_subject *s = &r->subject;
    if (smoe_samples_open(r, err)) return -1;
    smoe_model_watch(s->model, watch, r);
    int status = smoe_evaluate(s->model, s->spec, s->set, s->batch,
                               &(smoe_eval_options){.comm = r->comm, .sink = pass_over, .user = r},
                               &r->eval, err);
    smoe_model_watch(s->model, NULL, NULL);
    return status;
}

int smoe_inspect_run(smoe_inspection **out, const smoe_inspect_subject *s, smoe_err *err) {
    *out = NULL;
    if (pass_check(s, err)) return -1;
    open_all(out, s);
    smoe_inspection *r = *out;
    if (pass(r, err)) return -1;
    for (size_t i = 0; i < r->counteds; i++) { /* what the processes have counted: each gets all */
        const smoe_counted *c = &r->counted[i];
        if (c->kind == SMOE_COUNTS) smoe_comm_sum_counts(r->comm, c->at, c->n);
        if (c->kind == SMOE_EXACT) smoe_comm_sum_exact(r->comm, c->at, c->n);
        if (c->kind == SMOE_LARGEST) smoe_comm_largest(r->comm, c->at, c->n);
    }
    smoe_samples_close(r);
    return 0;
}

int smoe_inspect_some(smoe_inspection **out, const smoe_inspect_subject *s, smoe_err *err) {
    smoe_inspect_subject own = *s;
    own.image = NULL;
    *out = NULL;
    if (own.images > smoe_dataset_images(s->set)) own.images = smoe_dataset_images(s->set);
    open_all(out, &own);
    smoe_inspection *r = *out;
    r->enough = own.images;
    r->kept = smoe_alloc_in(&r->memory, own.images, sizeof *r->kept);
    for (size_t i = 0; i < own.images; i++) r->kept[i] = r->order[i];
    r->subject.image = r->kept;
    if (pass(r, err) && (r->seen < r->enough || err->code != SMOE_STOPPED)) return -1;
    smoe_samples_close(r);
    return 0;
}

void smoe_inspect_free(smoe_inspection *r) {
    if (!r) return;
    smoe_alloc_pool_free(&r->memory);
    free(r->counted);
    free(r);
}

const smoe_sample *smoe_inspect_samples(const smoe_inspection *r, size_t *count) {
    *count = r->subject.images;
    return r->sample;
}

/* ---- tables, by inspect.def ------------------------------------------------------------------ */

static const struct entry {
    const char *name, *title, *caption, *columns;
    unsigned needs;
    smoe_fill_layer *of_layer; /* one of the two */
    smoe_fill_run *of_run;
} entries[] = {
#define FRAME(frame, need, per, ...) \
    {.name = #frame, .needs = SMOE_INSPECT_##need, .of_##per = smoe_fill_##frame, __VA_ARGS__},
#include "inspect/inspect.def"
};

enum { ENTRIES = SMOE_COUNT(entries) };

void smoe_frames_open(smoe_frame **frames, size_t *count) {
    *count = ENTRIES;
    *frames = smoe_alloc(ENTRIES, sizeof **frames);
    for (size_t i = 0; i < ENTRIES; i++)
        smoe_frame_init(&(*frames)[i], entries[i].name, entries[i].title, entries[i].caption,
                        entries[i].columns);
}

void smoe_frames_free(smoe_frame *frames, size_t count) {
    for (size_t i = 0; frames && i < count; i++) smoe_frame_free(&frames[i]);
    free(frames);
}

/* The first process makes the tables of layers alone. Those of runs may need further passes, which
 * the processes share. */
int smoe_inspect_fill(smoe_inspection *r, smoe_frame *frames, smoe_err *err) {
    for (size_t i = 0; i < ENTRIES; i++) {
        if ((entries[i].needs & r->has) != entries[i].needs) continue;
        for (size_t l = 0; entries[i].of_layer && !r->comm->rank && l < r->layers; l++)
            entries[i].of_layer(r, &frames[i], l);
        if (entries[i].of_run && entries[i].of_run(r, &frames[i], err)) return -1;
        if (smoe_frame_check(&frames[i], err)) return -1;
    }
    return 0;
}

/* ---- overlays of a few images as pictures of a run's events ---------------------------------- */

enum { IMAGES = 4 };

static int events_put(smoe_run *run, const smoe_sample *sample, size_t layer, smoe_err *err) {
    char tag[64];
    SMOE_FREED uint8_t *png = NULL;
    size_t size, width, height;
    snprintf(tag, sizeof tag, "blocks.%zu/overlays/image%zu", sample->layer[layer].block,
             sample->image);
    if (smoe_overlay_encode(&png, &size, &width, &height, sample, layer, err)) return -1;
    return smoe_run_picture(run, tag, width, height, png, size, err);
}

int smoe_inspect_events(smoe_run *run, smoe_model *model, const smoe_spec *spec,
                        const smoe_dataset *set, size_t batch, smoe_err *err) {
    smoe_inspection *inspection = NULL;
    size_t count = 0;
    if (!smoe_model_moe_layers(model) || smoe_model_pairs(model)) return 0;
    const smoe_inspect_subject subject = {.run = spec->name,
                                          .checkpoint = spec->name,
                                          .spec = spec,
                                          .set = set,
                                          .model = model,
                                          .batch = batch,
                                          .images = IMAGES};
    int status = smoe_inspect_some(&inspection, &subject, err);
    const smoe_sample *sample = status ? NULL : smoe_inspect_samples(inspection, &count);
    for (size_t i = 0; i < count && !status; i++)
        for (size_t l = 0; l < sample[i].layers && !status; l++)
            status = events_put(run, &sample[i], l, err);
    smoe_inspect_free(inspection);
    return status;
}
