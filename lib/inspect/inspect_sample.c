/* The images of a split that are kept completely, with their routing in every MoE layer; see
 * draw/sample.h. Of them a file (--dump-routing). */
#include "inspect/inspect_view.h"
#include "tensors/npy.h"
#include "train/task.h"

/* Memory for a layer. There are at most as many placements as pairs of a token and an expert. */
static void open_layer(smoe_sample_layer *layer, smoe_inspection *r, size_t l) {
    bool dense = r->has & SMOE_INSPECT_DENSE, gate = r->has & SMOE_INSPECT_GATE;
    *layer = (smoe_sample_layer){.block = smoe_model_moe_block(r->subject.model, l),
                                 .E = r->E,
                                 .P = smoe_inspect_slots_per_expert(r, l),
                                 .S = smoe_inspect_slots(r, l)};
    smoe_alloc_pool *pool = &r->memory;
    if (dense) layer->dispatch = smoe_alloc_in(pool, r->T * layer->S, sizeof *layer->dispatch);
    if (dense) layer->combine = smoe_alloc_in(pool, r->T * layer->S, sizeof *layer->combine);
    if (!dense) layer->place = smoe_alloc_in(pool, r->T * r->E, sizeof *layer->place);
    if (gate) layer->gate = smoe_alloc_in(pool, r->T * r->E, sizeof *layer->gate);
}

static int open_sample(smoe_sample *s, smoe_inspection *r, size_t image, smoe_err *err) {
    const smoe_inspect_subject *subject = &r->subject;
    const smoe_data_spec *data = &subject->spec->data;
    size_t pixels = data->channels * data->image_size * data->image_size;
    char name[SMOE_IMAGE_NAME];
    *s = (smoe_sample){.image = image,
                       .channels = data->channels,
                       .size = data->image_size,
                       .side = r->side,
                       .T = r->T,
                       .first_patch = r->first_patch,
                       .layers = r->layers};
    SMOE_FREED real *image_pixels = smoe_alloc(pixels, sizeof *image_pixels);
    smoe_alloc_pool *pool = &r->memory;
    s->pixels = smoe_alloc_in(pool, pixels, sizeof *s->pixels);
    s->run = smoe_alloc_text_in(pool, subject->run);
    s->name =
        smoe_alloc_text_in(pool, smoe_dataset_image_name(subject->set, image, name, sizeof name));
    s->label = smoe_alloc_text_in(
        pool, smoe_dataset_class_name(subject->set, smoe_dataset_label(subject->set, image)));
    s->layer = smoe_alloc_in(pool, r->layers, sizeof *s->layer);
    for (size_t l = 0; l < r->layers; l++) open_layer(&s->layer[l], r, l);
    if (smoe_dataset_image(subject->set, image, false, image_pixels, NULL, NULL, err)) return -1;
    for (size_t i = 0; i < pixels; i++)
        s->pixels[i] = (float)smoe_image_shown(data, i / (s->size * s->size), image_pixels[i]);
    return 0;
}

int smoe_samples_open(smoe_inspection *r, smoe_err *err) {
    r->sample = smoe_alloc_in(&r->memory, r->subject.images, sizeof *r->sample);
    r->predicted = smoe_alloc_in(&r->memory, r->subject.images, sizeof *r->predicted);
    for (size_t i = 0; i < r->subject.images; i++)
        if (open_sample(&r->sample[i], r, r->subject.image[i], err)) return -1;
    return 0;
}

void smoe_samples_keep(smoe_inspection *r, size_t l, const smoe_inspect_view *view) {
    for (size_t i = 0; i < r->subject.images; i++) {
        if (r->subject.image[i] != view->image) continue;
        smoe_sample_layer *layer = &r->sample[i].layer[l];
        for (size_t k = 0; layer->dispatch && k < r->T * layer->S; k++) {
            layer->dispatch[k] = (float)view->disp[k];
            layer->combine[k] = (float)view->comb[k];
        }
        for (size_t k = 0; layer->gate && k < r->T * r->E; k++)
            layer->gate[k] = (float)view->gate[k];
        if (!layer->place) continue;
        layer->places = view->places;
        memcpy(layer->place, view->place, view->places * sizeof *view->place);
    }
}

void smoe_samples_predict(smoe_inspection *r, const smoe_batch *batch, const real *logits) {
    const smoe_task *task = smoe_task_of(r->subject.spec->train.loss);
    for (size_t i = 0; i < r->subject.images; i++)
        for (size_t b = 0; b < batch->images; b++) {
            if (r->sample[i].image != batch->index[b]) continue;
            const real *logit = logits + b * r->N;
            size_t top = smoe_task_top(logit, r->N);
            r->predicted[i] = (smoe_predicted){top, smoe_task_probability(task, logit, r->N, top)};
        }
}

/* One process has evaluated the image; in the others all of this is zero. */
static void sample_join(const smoe_inspection *r, smoe_sample_layer *layer) {
    size_t pairs = r->T * r->E;
    if (layer->dispatch) {
        smoe_comm_join(r->comm, layer->dispatch, r->T * layer->S * sizeof *layer->dispatch);
        smoe_comm_join(r->comm, layer->combine, r->T * layer->S * sizeof *layer->combine);
    }
    if (layer->gate) smoe_comm_join(r->comm, layer->gate, pairs * sizeof *layer->gate);
    if (!layer->place) return;
    smoe_comm_join(r->comm, layer->place, pairs * sizeof *layer->place);
    smoe_comm_join(r->comm, &layer->places, sizeof layer->places);
}

void smoe_samples_close(smoe_inspection *r) {
    smoe_comm_join(r->comm, r->predicted, r->subject.images * sizeof *r->predicted);
    for (size_t i = 0; i < r->subject.images; i++)
        for (size_t l = 0; l < r->layers; l++) sample_join(r, &r->sample[i].layer[l]);
    for (size_t i = 0; i < r->subject.images; i++) {
        const char *name = smoe_dataset_class_name(r->subject.set, r->predicted[i].top);
        r->sample[i].prediction = smoe_alloc_text_in(&r->memory, name);
        r->sample[i].probability = r->predicted[i].probability;
    }
}

/* ---- as a file ------------------------------------------------------------------------------- */

/* The rows [T,S] of a layer in rows of `columns`, which may be longer. */
static void dump_rows(float *out, const float *w, size_t T, size_t S, size_t columns) {
    for (size_t t = 0; t < T; t++) memcpy(out + t * columns, w + t * S, S * sizeof *w);
}

/* [images, layers, 2, T, S]: dispatch, then combine weights; zeros after the slots of a layer that
 * has fewer than others. */
static int dump_dense(const smoe_inspection *r, const char *path, smoe_err *err) {
    size_t n = r->T * r->most_slots;
    const size_t dim[] = {r->subject.images, r->layers, 2, r->T, r->most_slots};
    float *all = calloc(dim[0] * dim[1] * 2 * n + 1, sizeof *all), *at = all;
    if (!all) return smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", path);
    for (size_t i = 0; i < r->subject.images; i++)
        for (size_t l = 0; l < r->layers; l++, at += 2 * n) {
            const smoe_sample_layer *layer = &r->sample[i].layer[l];
            dump_rows(at, layer->dispatch, r->T, layer->S, r->most_slots);
            dump_rows(at + n, layer->combine, r->T, layer->S, r->most_slots);
        }
    int status = smoe_npy_write(path, "<f4", all, 5, dim, err);
    free(all);
    return status;
}

enum { PLACE_COLUMNS = 6 };

/* [placements, 6]: image, block, token, expert, slot of the expert's buffer, weight. */
static int dump_sparse(const smoe_inspection *r, const char *path, smoe_err *err) {
    size_t dim[] = {0, PLACE_COLUMNS};
    for (size_t i = 0; i < r->subject.images; i++)
        for (size_t l = 0; l < r->layers; l++) dim[0] += r->sample[i].layer[l].places;
    SMOE_FREED double *all = smoe_alloc(dim[0] * PLACE_COLUMNS + 1, sizeof *all);
    double *at = all;
    for (size_t i = 0; i < r->subject.images; i++)
        for (size_t l = 0; l < r->layers; l++) {
            const smoe_sample_layer *layer = &r->sample[i].layer[l];
            for (size_t k = 0; k < layer->places; k++, at += PLACE_COLUMNS) {
                const smoe_sample_place *place = &layer->place[k];
                const double row[] = {(double)r->sample[i].image, (double)layer->block,
                                      (double)place->token,       (double)place->expert,
                                      (double)place->slot,        (double)place->weight};
                memcpy(at, row, sizeof row);
            }
        }
    return smoe_npy_write(path, "<f8", all, 2, dim, err);
}

int smoe_inspect_dump(const smoe_inspection *r, const char *path, smoe_err *err) {
    return r->has & SMOE_INSPECT_DENSE ? dump_dense(r, path, err) : dump_sparse(r, path, err);
}
