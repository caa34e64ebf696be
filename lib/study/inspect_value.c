/*
 * What further evaluations tell: how much a model loses when routers act at random (V-MoE E.1), and how much the answer to an
 * image depends on the images it is evaluated with (0 in soft routing, where every image is a group of its own).
 */
#include "study/inspect_view.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the value of routers --------------------------------------------------------------------- */

static int evaluate(const smoe_inspection *r, const bool *random, smoe_eval *eval, smoe_err *err) {
    const smoe_inspect_subject *s = &r->subject;
    smoe_model_randomise(s->model, random);
    int status = smoe_evaluate(s->model, s->spec, s->set, s->batch, NULL, NULL, eval, err);
    smoe_model_randomise(s->model, s->spec->model.moe.is_random);
    return status;
}

static void value_row(const smoe_inspection *r, smoe_frame *frame, size_t l, const char *random,
                      const smoe_eval *eval) {
    smoe_inspect_row(r, frame, l);
    smoe_frame_text(frame, random);
    smoe_frame_numbers(frame, (const double[]){eval->precision_at_1, eval->loss}, 2);
}

/* Rows "none", for each layer, so that each has what it is to be compared with. */
int smoe_fill_router_value(const smoe_inspection *r, smoe_frame *frame, smoe_err *err) {
    bool up_to[SMOE_MAX_BLOCKS] = {false};
    smoe_eval eval;
    if (!r->subject.random_routers) return 0;
    for (size_t l = 0; l < r->layers; l++) {
        size_t block = smoe_model_moe_block(r->subject.model, l);
        bool this[SMOE_MAX_BLOCKS] = {false};
        this[block] = up_to[block] = true;
        value_row(r, frame, l, "none", &r->eval);
        if (evaluate(r, this, &eval, err)) return -1;
        value_row(r, frame, l, "this", &eval);
        if (l && evaluate(r, up_to, &eval, err)) return -1;
        value_row(r, frame, l, "up to", &eval);
    }
    return 0;
}

/* ---- companions ------------------------------------------------------------------------------- */

enum { SAMPLE = 16, ROUNDS = 4 };
enum { COMPANIONS = 2 }; /* keys the random streams, beside those of inspect_experts.c */

typedef struct company {
    size_t group;       /* images at once: group_images, at least two and at most a batch */
    size_t first, size; /* the images of the target's group, in data-set order */
    real *pixels;       /* [size, an image] */
    real *target;       /* [N] not looked at */
    real *before;       /* [N] logits among its own companions */
    size_t image_size;
    double largest, sum, squares, compared, changed, rounds;
} company;

static int load(const smoe_inspection *r, company *c, size_t place, size_t image, smoe_err *err) {
    int64_t label;
    return smoe_dataset_image(r->subject.set, image, false, c->pixels + place * c->image_size,
                              c->target, &label, err);
}

static const real *logits_of(const smoe_inspection *r, const company *c, size_t place) {
    smoe_pass pass = {.seed = r->subject.spec->seed, .images = c->size, .first = c->first};
    smoe_model_forward(r->subject.model, c->pixels, &pass);
    return smoe_model_logits(r->subject.model) + place * r->N;
}

static size_t best(const real *logit, size_t N) {
    size_t at = 0;
    for (size_t i = 1; i < N; i++)
        if (logit[i] > logit[at]) at = i;
    return at;
}

static void compare(const smoe_inspection *r, company *c, const real *after) {
    for (size_t i = 0; i < r->N; i++) {
        double change = fabs((double)after[i] - (double)c->before[i]);
        c->largest = fmax(c->largest, change);
        c->sum += change;
        c->squares += (double)c->before[i] * (double)c->before[i];
    }
    c->compared += (double)r->N;
    c->changed += best(after, r->N) != best(c->before, r->N);
    c->rounds++;
}

/* The image among those it is evaluated with, then among others, drawn from the rest of the split. */
static int meet(const smoe_inspection *r, company *c, size_t image, smoe_err *err) {
    size_t batch = r->subject.batch, start = image / batch * batch;
    c->first = start + (image - start) / c->group * c->group;
    c->size = c->group;
    if (c->size > start + batch - c->first) c->size = start + batch - c->first;
    if (c->size > r->images - c->first) c->size = r->images - c->first;
    size_t place = image - c->first;
    for (size_t i = 0; i < c->size; i++)
        if (load(r, c, i, c->first + i, err)) return -1;
    memcpy(c->before, logits_of(r, c, place), r->N * sizeof *c->before);
    for (size_t round = 0; round < ROUNDS; round++) {
        smoe_rng rng =
            smoe_rng_at(r->subject.spec->seed, SMOE_RNG_ANALYSIS, COMPANIONS, round, image);
        for (size_t i = 0; i < c->size; i++) {
            size_t other = smoe_rng_below(&rng, r->images - 1);
            if (i != place && load(r, c, i, other + (other >= image), err)) return -1;
        }
        compare(r, c, logits_of(r, c, place));
    }
    return 0;
}

int smoe_fill_companions(const smoe_inspection *r, smoe_frame *frame, smoe_err *err) {
    const smoe_data_spec *data = &r->subject.spec->data;
    size_t group = r->subject.spec->model.moe.group_images;
    size_t sample = r->images < SAMPLE ? r->images : SAMPLE;
    company c = {.image_size = data->channels * data->image_size * data->image_size};
    int status = -1;
    if (r->subject.batch < 2) return 0; /* no companions */
    if (group < 2) group = 2;
    c.group = group < r->subject.batch ? group : r->subject.batch;
    c.pixels = calloc(c.group * c.image_size, sizeof *c.pixels);
    c.target = calloc(r->N, sizeof *c.target);
    c.before = calloc(r->N, sizeof *c.before);
    if (!c.pixels || !c.target || !c.before) {
        smoe_fail(err, SMOE_RUNTIME, "out of memory for companions");
        goto out;
    }
    for (size_t i = 0; i < sample; i++)
        if (meet(r, &c, i * r->images / sample, err)) goto out;
    const double number[] = {(double)c.group,
                             (double)sample,
                             ROUNDS,
                             c.largest,
                             c.sum / c.compared,
                             c.changed / c.rounds,
                             sqrt(c.squares / c.compared)};
    smoe_frame_text(frame, r->subject.run);
    smoe_frame_numbers(frame, number, sizeof number / sizeof *number);
    status = 0;
out:
    free(c.pixels);
    free(c.target);
    free(c.before);
    return status;
}
