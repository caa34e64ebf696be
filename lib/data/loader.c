/*
 * The batch loader: threads of its own prepare the next batches while the caller computes.
 *
 * Batch t is made by the thread that takes ticket t, in place t mod PLACES of a ring; the caller
 * receives tickets in order. The content of batch t depends only on (seed, t):
 *   epoch         e = t / (n/B)
 *   images        places [r*B, (r+1)*B) of the order SHUFFLE(seed, e), r = t mod (n/B)
 *   endless data  images t*B .. t*B + B-1, in order: what they show is drawn independently
 *   evaluation    places [t*B, (t+1)*B) of smoe_dataset_order
 *   augmentation  of image i: stream AUGMENT(seed, e, i)
 *   caption       of several of image i: stream CAPTION(seed, e, i)
 *   mixup         stream MIXUP(seed, t), one lambda per batch, image b mixed with b+1 (the last
 *                 of a piece with its first)
 *   CutMix        stream CUTMIX(seed, t), one box per batch and the same neighbours; where mixup is
 *                 on too, its first number says which of the two the batch gets
 * Leaves to others: the data set, decoding, what an augmentation does.
 */
#include "base/clock.h"
#include "data/augment.h"
#include "data/dataset_source.h"
#include "data/loader.h"

#include <pthread.h>

/* Two threads hide decoding behind computing; with three places both work while the caller holds
 * one. */
enum { THREADS = 2, PLACES = 3 };

typedef struct place {
    bool ready;
    int status; /* 1 a batch, 0 past the end, -1 failed */
    smoe_batch batch;
    real *pixels, *target;
    uint32_t *tokens;
    size_t *lengths, *captions;
    int64_t *label;
    uint64_t *index;
    smoe_err err;
} place;

struct smoe_loader {
    smoe_arena memory;
    const smoe_dataset *set;
    smoe_data_spec data; /* augment; path is not used */
    smoe_image_scale scale;
    smoe_loader_options options;
    size_t context;      /* text.context */
    size_t per_epoch;    /* batches of a pass */
    size_t first, share; /* places of a batch that are made here: its images first .. first+share */
    size_t stride, phase; /* evaluation: batch t made here is number t*stride + phase of the pass */
    size_t images;        /* of a pass, n */
    uint32_t *order;      /* [n] of an evaluation */
    pthread_t thread[THREADS];
    size_t threads; /* started */
    double waited;  /* the caller's alone */

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t filled, emptied;
    uint64_t next, taken; /* next ticket to hand out; tickets received by the caller */
    bool stop;
    place place[PLACES];
};

/* The data that a thread keeps between batches. */
typedef struct worker {
    smoe_image image, work;
    uint32_t *order; /* [n], of epoch `epoch` */
    uint64_t epoch;
    real *first; /* mixing: the first image and target of the batch, [pixels + N] */
} worker;

/* ---- one batch ------------------------------------------------------------------------------- */

static size_t image_elements(const smoe_dataset *set) {
    return set->channels * set->size * set->size;
}

static void order_epoch(const smoe_loader *l, worker *w, uint64_t epoch) {
    if (w->order && w->epoch == epoch) return;
    if (!w->order) w->order = smoe_alloc(l->set->images, sizeof *w->order);
    smoe_rng rng = smoe_rng_at(l->options.seed, SMOE_RNG_SHUFFLE, 0, epoch, 0);
    smoe_dataset_shuffle(l->set, &rng, w->order);
    w->epoch = epoch;
}

/* The images of batch t: fills index[] and returns their number, 0 past the end; *epoch is their
 * epoch. */
static size_t choose_images(const smoe_loader *l, worker *w, uint64_t t, uint64_t *index,
                            uint64_t *epoch) {
    size_t B = l->options.batch_size, at = (size_t)(t % l->per_epoch) * B + l->first;
    size_t images = l->share, rest = l->images - at;
    const uint32_t *order = l->order;
    *epoch = t / l->per_epoch;
    if (!l->options.train)
        images = *epoch ? 0 : rest < B ? rest : B;
    else if (!l->set->endless)
        order_epoch(l, w, *epoch), order = w->order;
    for (size_t b = 0; b < images; b++) index[b] = order ? order[at + b] : t * B + l->first + b;
    return images;
}

static int make_image(const smoe_loader *l, worker *w, uint64_t epoch, uint64_t i, real *pixels,
                      smoe_err *err) {
    smoe_rng rng = smoe_rng_at(l->options.seed, SMOE_RNG_AUGMENT, 0, epoch, i);
    if (smoe_dataset_picture(l->set, i, &l->data, l->options.train ? &rng : NULL, &w->image,
                             &w->work, err))
        return -1;
    smoe_image_pixels(pixels, &w->image, &l->scale);
    return 0;
}

/* x[b] = lambda x[b] + (1 - lambda) x[b+1] over rows of `width`; keeps a copy of the first for the
 * last. */
static void mix_rows(real *x, size_t rows, size_t width, real lambda, real *first) {
    memcpy(first, x, width * sizeof *x);
    for (size_t b = 0; b < rows; b++) {
        const real *other = b + 1 < rows ? x + (b + 1) * width : first;
        real *own = x + b * width;
        for (size_t k = 0; k < width; k++) own[k] = lambda * own[k] + (1 - lambda) * other[k];
    }
}

/* The box of every image gets the pixels of the next one; keeps a copy of the first for the
 * last. */
static void cut_rows(const smoe_dataset *set, real *x, size_t rows, const smoe_cut *box,
                     real *first) {
    size_t width = image_elements(set), size = set->size, n = box->right - box->left;
    memcpy(first, x, width * sizeof *x);
    for (size_t b = 0; b < rows; b++) {
        const real *other = b + 1 < rows ? x + (b + 1) * width : first;
        for (size_t c = 0; c < set->channels; c++)
            for (size_t y = box->top; y < box->bottom; y++) {
                size_t at = (c * size + y) * size + box->left;
                memcpy(x + b * width + at, other + at, n * sizeof *x);
            }
    }
}

/* Mixup or CutMix, of which one at least is on. */
static void mix_batch(const smoe_loader *l, worker *w, uint64_t t, place *p) {
    size_t width = image_elements(l->set), N = l->set->classes;
    size_t B = l->options.piece ? l->options.piece : l->share;
    double mixup = l->data.augment.mixup, cutmix = l->data.augment.cutmix;
    if (!w->first) w->first = smoe_alloc(width + N, sizeof *w->first);
    smoe_rng mix = smoe_rng_at(l->options.seed, SMOE_RNG_MIXUP, 0, t, 0);
    smoe_rng cut = smoe_rng_at(l->options.seed, SMOE_RNG_CUTMIX, 0, t, 0);
    real lambda;
    if (cutmix > 0 && (!(mixup > 0) || smoe_rng_below(&cut, 2))) {
        smoe_cut box = smoe_cutmix_cut(&cut, cutmix, l->set->size);
        double area = (double)((box.right - box.left) * (box.bottom - box.top));
        lambda = (real)(1 - area / (double)(l->set->size * l->set->size));
        for (size_t b = 0; b < l->share; b += B)
            cut_rows(l->set, p->pixels + b * width, B, &box, w->first);
    } else {
        lambda = (real)smoe_mixup_lambda(&mix, mixup);
        for (size_t b = 0; b < l->share; b += B)
            mix_rows(p->pixels + b * width, B, width, lambda, w->first);
    }
    for (size_t b = 0; b < l->share; b += B) mix_rows(p->target + b * N, B, N, lambda, w->first);
}

static int make_text(const smoe_loader *l, place *p, uint64_t epoch, size_t b) {
    char caption[SMOE_CAPTION];
    smoe_rng rng = smoe_rng_at(l->options.seed, SMOE_RNG_CAPTION, 0, epoch, p->index[b]);
    smoe_caption_choice choice = {.draw = l->options.train ? &rng : NULL};
    if (smoe_dataset_caption(l->set, (size_t)p->index[b], &choice, caption, sizeof caption,
                             &p->err))
        return -1;
    p->captions[b] = choice.count;
    p->lengths[b] = smoe_tokenizer_encode(l->options.tokenizer, p->tokens + b * l->context,
                                          l->context, caption);
    return 0;
}

/* Fills a place with batch t. Returns its status. */
static int make_batch(const smoe_loader *l, worker *w, uint64_t t, place *p) {
    size_t width = image_elements(l->set), N = l->set->classes;
    uint64_t epoch;
    size_t images = choose_images(l, w, t, p->index, &epoch);
    if (!images) return 0;
    p->batch = (smoe_batch){.images = images,
                            .pixels = p->pixels,
                            .target = p->target,
                            .label = p->label,
                            .index = p->index,
                            .tokens = p->tokens,
                            .lengths = p->lengths,
                            .captions = p->captions,
                            .first = l->options.train ? 0 : (size_t)t * l->share,
                            .epoch = (double)t / (double)l->per_epoch};
    for (size_t b = 0; b < images; b++) {
        if (make_image(l, w, epoch, p->index[b], p->pixels + b * width, &p->err)) return -1;
        if (l->options.tokenizer && make_text(l, p, epoch, b)) return -1;
        p->label[b] = smoe_dataset_target(l->set, p->index[b], l->options.multi, p->target + b * N);
    }
    bool mixed = l->data.augment.mixup > 0 || l->data.augment.cutmix > 0;
    if (l->options.train && mixed) mix_batch(l, w, t, p);
    return 1;
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *loader_work(void *argument) {
    smoe_loader *l = argument;
    worker w = {0};
    bool more = true;
    pthread_mutex_lock(&l->lock);
    while (more) {
        /* the caller holds ticket taken-1: its place becomes free when it asks for the next */
        while (!l->stop && l->next >= l->taken + PLACES - 1)
            pthread_cond_wait(&l->emptied, &l->lock);
        if (l->stop) break;
        uint64_t ticket = l->next++;
        pthread_mutex_unlock(&l->lock);

        place *p = &l->place[ticket % PLACES];
        uint64_t t = l->options.first_step + ticket * l->stride + l->phase;
        int status = make_batch(l, &w, t, p);

        pthread_mutex_lock(&l->lock);
        p->status = status;
        p->ready = true;
        more = status > 0;
        pthread_cond_signal(&l->filled);
    }
    pthread_mutex_unlock(&l->lock);
    smoe_image_free(&w.image);
    smoe_image_free(&w.work);
    free(w.order);
    free(w.first);
    return NULL;
}

int smoe_loader_next(smoe_loader *l, smoe_batch *batch, smoe_err *err) {
    double start = smoe_now();
    pthread_mutex_lock(&l->lock);
    place *p = &l->place[l->taken % PLACES];
    while (!p->ready) pthread_cond_wait(&l->filled, &l->lock);
    if (p->status > 0) { /* an end or a failure stays in its place, and is returned again */
        p->ready = false;
        l->taken++;
        pthread_cond_broadcast(&l->emptied);
    }
    pthread_mutex_unlock(&l->lock);
    l->waited += smoe_now() - start;
    if (p->status > 0) *batch = p->batch;
    if (p->status < 0 && err) *err = p->err;
    return p->status;
}

double smoe_loader_waited(const smoe_loader *l) {
    return l->waited;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int check_options(const smoe_dataset *set, const smoe_loader_options *o, smoe_err *err) {
    if (!o->batch_size) return smoe_fail(err, SMOE_USAGE, "a batch size of 0");
    if (o->train && set->images < o->batch_size)
        return smoe_fail(err, SMOE_USAGE,
                         "train.batch_size: %zu, but the split %s of %s has only %zu image%s",
                         o->batch_size, set->split, set->path ? set->path : set->name, set->images,
                         SMOE_S(set->images));
    if (set->images > UINT32_MAX)
        return smoe_fail(err, SMOE_USAGE, "%zu images are more than can be shuffled", set->images);
    return 0;
}

/* Takes the memory of the places, or counts it. */
static void take_places(smoe_loader *l) {
    size_t B = l->share, width = image_elements(l->set), N = l->set->classes;
    size_t texts = l->options.tokenizer ? B : 0;
    for (int k = 0; k < PLACES; k++) {
        place *p = &l->place[k];
        p->pixels = smoe_arena_take(&l->memory, B * width, sizeof *p->pixels);
        p->target = smoe_arena_take(&l->memory, B * N, sizeof *p->target);
        p->label = smoe_arena_take(&l->memory, B, sizeof *p->label);
        p->index = smoe_arena_take(&l->memory, B, sizeof *p->index);
        p->tokens = smoe_arena_take(&l->memory, texts * l->context, sizeof *p->tokens);
        p->lengths = smoe_arena_take(&l->memory, texts, sizeof *p->lengths);
        p->captions = smoe_arena_take(&l->memory, texts, sizeof *p->captions);
    }
}

static void order_evaluation(smoe_loader *l, const smoe_spec *spec) {
    if (l->options.train) return;
    l->order = smoe_alloc(l->images, sizeof *l->order);
    if (l->options.only)
        memcpy(l->order, l->options.only, l->images * sizeof *l->order);
    else
        smoe_dataset_order(l->order, l->images, spec);
}

int smoe_loader_open(smoe_loader **out, const smoe_dataset *set, const smoe_spec *spec,
                     const smoe_loader_options *options, smoe_err *err) {
    *out = NULL;
    if (check_options(set, options, err)) return -1;
    SMOE_FREED_BY(smoe_loader_freed) smoe_loader *l = smoe_alloc(1, sizeof *l);
    size_t B = options->batch_size, parts = options->parts ? options->parts : 1;
    l->set = set;
    l->data = spec->data;
    smoe_image_scale_make(&l->scale, &l->data);
    l->context = spec->text.context;
    l->options = *options;
    l->share = options->train ? B / parts : B;
    l->first = options->train ? options->part * l->share : 0;
    l->stride = options->train ? 1 : parts;
    l->phase = options->train ? 0 : options->part;
    l->images = options->only ? options->images : set->images;
    l->per_epoch = options->train ? l->images / B : (l->images + B - 1) / B;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->filled, NULL);
    pthread_cond_init(&l->emptied, NULL);
    order_evaluation(l, spec);
    take_places(l);
    if (smoe_arena_bind(&l->memory, err))
        return smoe_fail_prefix(err, "batches of %zu images", l->share);
    take_places(l);
    int code = 0;
    while (l->threads < THREADS &&
           !(code = pthread_create(&l->thread[l->threads], NULL, loader_work, l)))
        l->threads++;
    if (code)
        return smoe_fail(err, SMOE_RUNTIME, "cannot start a loader thread: %s", strerror(code));
    *out = l;
    l = NULL; /* it is the caller's */
    return 0;
}

void smoe_loader_free(smoe_loader *l) {
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->emptied);
    pthread_mutex_unlock(&l->lock);
    for (size_t k = 0; k < l->threads; k++) pthread_join(l->thread[k], NULL);
    smoe_arena_free(&l->memory);
    free(l->order);
    pthread_cond_destroy(&l->emptied);
    pthread_cond_destroy(&l->filled);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
