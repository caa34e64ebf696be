/* Evaluation of a task that compares images with captions: its loss, retrieval over the whole split
 * and zero-shot classification; see evaluate.h.
 *
 * Zero-shot: the texts of a class are the templates of eval.zeroshot with its name in place of {}.
 * Their embeddings are normalised to length 1 and averaged, and the mean is normalised to length 1.
 * The logit of the class is that of a caption with this embedding. */
#include "train/evaluate.h"
#include "train/task.h"
#include "math/gemm.h"

typedef struct caption {
    size_t image;
    uint64_t key; /* of its words */
} caption;

/* An evaluation, and the results collected over the split, in data-set order. */
typedef struct gathered {
    smoe_model *model;
    const smoe_spec *spec;
    const smoe_dataset *set;
    smoe_tokenizer *tokenizer; /* owned */
    const smoe_eval_options *how;
    smoe_alloc_pool memory;
    size_t n, D, N, batch;
    size_t group;     /* images whose captions are compared in the loss: eval.batch_size */
    bool classified;  /* there are texts for classes */
    real *unit;       /* [n,D] images */
    real *own;        /* [batch,D] */
    size_t *captions; /* [n] how many the image has */
    caption *text;    /* [texts] those that this process has embedded, image by image */
    real *text_unit;  /* [texts,D] */
    size_t texts;
    uint32_t *tokens; /* [batch, context] of some of them */
    size_t *lengths;  /* [batch] */
    size_t waiting;   /* of these, not embedded yet: the last ones of `text` */
    uint64_t *place;  /* [n] of the image in the order of the evaluation */
    double *loss;     /* [n] */
    bool *correct;    /* [n] zero-shot */
    size_t *rank;     /* [n] */
    real *classes;    /* [N,D] */
    real *logits;     /* [batch,N] zero-shot */
} gathered;

static void gathered_free(gathered *g) {
    smoe_alloc_pool_free(&g->memory);
    free(g->text);
    free(g->text_unit);
    smoe_tokenizer_free(g->tokenizer);
}

static void gathered_open(gathered *g, size_t batch) {
    const smoe_spec *spec = g->spec;
    g->n = smoe_dataset_images(g->set);
    g->D = smoe_model_width(g->model);
    g->N = smoe_dataset_classes(g->set);
    g->batch = batch;
    g->group = spec->eval.batch_size;
    if (g->group > g->n) g->group = g->n;
    g->classified = spec->eval.zeroshot.count && g->N > 1;
    /* 0 where the images are evaluated by other processes. */
    smoe_alloc_pool *m = &g->memory;
    g->unit = smoe_alloc_in(m, g->n * g->D, sizeof *g->unit);
    g->own = smoe_alloc_in(m, batch * g->D, sizeof *g->own);
    g->captions = smoe_alloc_in(m, g->n, sizeof *g->captions);
    g->tokens = smoe_alloc_in(m, batch * spec->text.context, sizeof *g->tokens);
    g->lengths = smoe_alloc_in(m, batch, sizeof *g->lengths);
    g->place = smoe_alloc_in(m, g->n, sizeof *g->place);
    g->loss = smoe_alloc_in(m, g->n, sizeof *g->loss);
    g->correct = smoe_alloc_in(m, g->n, sizeof *g->correct);
    g->rank = smoe_alloc_in(m, g->n, sizeof *g->rank);
    g->logits = smoe_alloc_in(m, batch * g->N, sizeof *g->logits);
    g->classes = smoe_alloc_in(m, g->N * g->D, sizeof *g->classes);
}

/* FNV-1a of all tokens of caption `which` of an image: captions of the same words have the same
 * key. The given tokens may have been cut if they fill the context: then the caption is read
 * again. */
static int take_key(const gathered *g, const uint32_t *tokens, size_t length, size_t image,
                    size_t which, uint64_t *key, smoe_err *err) {
    uint32_t all[SMOE_CAPTION + 8];
    if (length == g->spec->text.context) {
        char text[SMOE_CAPTION];
        smoe_caption_choice choice = {.which = which};
        if (smoe_dataset_caption(g->set, image, &choice, text, sizeof text, err)) return -1;
        length = smoe_tokenizer_encode(g->tokenizer, all, SMOE_COUNT(all), text);
        tokens = all;
    }
    *key = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++) *key = (*key ^ tokens[i]) * UINT64_C(0x100000001b3);
    return 0;
}

const char *smoe_zeroshot_prompt(char *buf, size_t size, const char *template, const char *name) {
    size_t used = 0;
    for (const char *c = template; *c && used + 1 < size; c++) {
        if (strncmp(c, "{}", 2)) {
            buf[used++] = *c;
            continue;
        }
        for (const char *n = name; *n && used + 1 < size; n++)
            buf[used++] = *n == '-' || *n == '_' ? ' ' : *n;
        c++;
    }
    buf[used] = '\0';
    return buf;
}

/* logits [B,N] of images [B,D] of length 1. */
static void zeroshot_logits(real *logits, const smoe_pairs *pairs, const real *images,
                            const real *classes, size_t B, size_t N) {
    real bias = (real)smoe_pairs_bias(pairs);
    smoe_product p = smoe_product_of(logits, smoe_matrix_of(images, B, pairs->D),
                                     smoe_transposed(smoe_matrix_of(classes, N, pairs->D)));
    p.to.alpha = (real)smoe_pairs_factor(pairs);
    smoe_gemm(p);
    for (size_t i = 0; i < B * N; i++) logits[i] += bias;
}

/* Embeds the first `count` texts into unit [count,D], of length 1. */
static void embed_texts(gathered *g, size_t count, real *unit) {
    smoe_pass pass = {.seed = g->spec->seed, .images = count};
    smoe_model_forward_texts(g->model, g->tokens, g->lengths, &pass);
    smoe_pairs_unit(unit, smoe_model_texts(g->model), count, g->D);
}

/* The texts of all classes, in every process. */
static void embed_classes(gathered *g) {
    const smoe_prompts *prompts = &g->spec->eval.zeroshot;
    size_t D = g->D, T = g->spec->text.context, each = prompts->count, all = g->N * each;
    SMOE_FREED double *sums = smoe_alloc(g->N * D, sizeof *sums);
    for (size_t from = 0, n; from < all; from += n) {
        n = all - from < g->batch ? all - from : g->batch;
        for (size_t i = 0; i < n; i++) {
            char text[SMOE_CAPTION];
            smoe_zeroshot_prompt(text, sizeof text, prompts->text[(from + i) % each],
                                 smoe_dataset_class_name(g->set, (from + i) / each));
            g->lengths[i] = smoe_tokenizer_encode(g->tokenizer, g->tokens + i * T, T, text);
        }
        embed_texts(g, n, g->own);
        for (size_t i = 0; i < n * D; i++)
            sums[(from + i / D) / each * D + i % D] += (double)g->own[i];
    }
    for (size_t i = 0; i < g->N * D; i++) g->classes[i] = (real)sums[i];
    smoe_pairs_unit(g->classes, g->classes, g->N, D);
}

/* Embeds the captions that wait. */
static int embed_waiting(gathered *g, smoe_err *err) {
    size_t from = g->texts - g->waiting, D = g->D;
    if (!g->waiting) return 0;
    embed_texts(g, g->waiting, g->text_unit + from * D);
    for (size_t k = 0; k < g->waiting * D; k++)
        if (!isfinite(g->text_unit[from * D + k]))
            return smoe_evaluate_nonfinite(g->model, g->text[from + k / D].image, "the loss", NAN,
                                           err);
    g->waiting = 0;
    return 0;
}

/* The captions of image b of a batch, which has the tokens of the first one; retrieval counts any
 * of them. */
static int take_captions(gathered *g, const smoe_batch *batch, size_t b, smoe_err *err) {
    size_t T = g->spec->text.context, image = (size_t)batch->index[b];
    for (size_t which = 0; which < batch->captions[b]; which++) {
        char text[SMOE_CAPTION];
        smoe_caption_choice choice = {.which = which};
        uint32_t *tokens = g->tokens + g->waiting * T;
        size_t length = batch->lengths[b];
        if (which == 0) {
            memcpy(tokens, batch->tokens + b * T, T * sizeof *tokens);
        } else {
            if (smoe_dataset_caption(g->set, image, &choice, text, sizeof text, err)) return -1;
            length = smoe_tokenizer_encode(g->tokenizer, tokens, T, text);
        }
        g->text_unit = smoe_alloc_next(g->text_unit, g->texts, g->D * sizeof *g->text_unit);
        caption *next = &SMOE_APPEND(g->text, g->texts);
        next->image = image;
        g->lengths[g->waiting++] = length;
        if (take_key(g, tokens, length, image, which, &next->key, err)) return -1;
        if (g->waiting == g->batch && embed_waiting(g, err)) return -1;
    }
    return 0;
}

/* Embeds a batch and keeps the results that are needed. */
static int take_batch(gathered *g, const smoe_batch *batch, smoe_err *err) {
    size_t B = batch->images, D = g->D, N = g->N;
    smoe_pass pass = {.seed = g->spec->seed, .images = B, .first = batch->first};
    smoe_model_forward(g->model, batch->pixels, &pass);
    smoe_pairs_unit(g->own, smoe_model_logits(g->model), B, D);
    if (g->classified)
        zeroshot_logits(g->logits, smoe_model_pairs(g->model), g->own, g->classes, B, N);
    for (size_t b = 0; b < B; b++) {
        size_t i = (size_t)batch->index[b];
        for (size_t c = 0; c < D; c++)
            if (!isfinite(g->own[b * D + c]))
                return smoe_evaluate_nonfinite(g->model, i, "the loss", NAN, err);
        memcpy(g->unit + i * D, g->own + b * D, D * sizeof *g->unit);
        g->place[i] = batch->first + b;
        g->captions[i] = batch->captions[b];
        g->correct[i] =
            g->classified && smoe_task_correct(g->logits + b * N, batch->target + b * N, N);
        if (take_captions(g, batch, b, err)) return -1;
    }
    return embed_waiting(g, err);
}

/* Evaluates the batches of this process. */
static int take_batches(gathered *g, smoe_loader *loader, smoe_err *err) {
    const smoe_eval_options *how = g->how;
    const real *logits = g->classified ? g->logits : NULL;
    smoe_batch batch;
    int more;
    while ((more = smoe_loader_next(loader, &batch, err)) > 0)
        if (take_batch(g, &batch, err) ||
            (how->sink && how->sink(how->user, &batch, logits, g->N, err)))
            return -1;
    return more;
}

/* Gives every process what the others have evaluated, and fills the captions of all images. */
static void gathered_join(gathered *g, smoe_retrieval *r) {
    smoe_comm *comm = g->how->comm;
    size_t D = g->D, *first = smoe_alloc_in(&g->memory, g->n + 1, sizeof *first);
    smoe_comm_join(comm, g->unit, g->n * D * sizeof *g->unit);
    smoe_comm_join(comm, g->captions, g->n * sizeof *g->captions);
    smoe_comm_join(comm, g->place, g->n * sizeof *g->place);
    smoe_comm_join(comm, g->correct, g->n * sizeof *g->correct);
    for (size_t i = 0; i < g->n; i++) first[i + 1] = first[i] + g->captions[i];
    size_t all = first[g->n];
    real *unit = smoe_alloc_in(&g->memory, all * D, sizeof *unit);
    uint64_t *key = smoe_alloc_in(&g->memory, all, sizeof *key);
    for (size_t k = 0, which = 0; k < g->texts; k++) {
        size_t image = g->text[k].image;
        which = k && g->text[k - 1].image == image ? which + 1 : 0;
        memcpy(unit + (first[image] + which) * D, g->text_unit + k * D, D * sizeof *unit);
        key[first[image] + which] = g->text[k].key;
    }
    smoe_comm_join(comm, unit, all * D * sizeof *unit);
    smoe_comm_join(comm, key, all * sizeof *key);
    *r = (smoe_retrieval){g->n, all, D, g->unit, unit, first, key};
}

/* The loss of each image: it and its first caption among those of eval.batch_size consecutive
 * images of the evaluation. So it depends neither on the memory of the passes nor on the
 * processes. */
static void gathered_losses(gathered *g, const smoe_retrieval *r) {
    size_t n = g->n, D = g->D, G = g->group;
    SMOE_FREED_BY(smoe_alloc_pool_free) smoe_alloc_pool m = {0};
    size_t *image = smoe_alloc_in(&m, n, sizeof *image);
    real *unit[2] = {smoe_alloc_in(&m, G * D, sizeof(real)),
                     smoe_alloc_in(&m, G * D, sizeof(real))};
    real *logits = smoe_alloc_in(&m, G * G, sizeof *logits);
    real *target = smoe_alloc_in(&m, G * G, sizeof *target);
    double *rows = smoe_alloc_in(&m, G, sizeof *rows);
    for (size_t i = 0; i < n; i++) image[g->place[i]] = i;
    for (size_t from = 0, B; from < n; from += B) {
        smoe_task_sums sums = {0};
        B = n - from < G ? n - from : G;
        memset(target, 0, B * B * sizeof *target);
        for (size_t b = 0; b < B; b++) {
            size_t i = image[from + b];
            target[b * B + b] = 1;
            memcpy(unit[0] + b * D, r->image + i * D, D * sizeof(real));
            memcpy(unit[1] + b * D, r->caption + r->first[i] * D, D * sizeof(real));
        }
        zeroshot_logits(logits, smoe_model_pairs(g->model), unit[0], unit[1], B, B);
        smoe_task_measure(smoe_task_of(g->spec->train.loss), &sums, NULL, rows,
                          &(const smoe_task_batch){
                              .logits = logits, .target = target, .B = B, .N = B, .whole = B});
        for (size_t b = 0; b < B; b++) g->loss[image[from + b]] = rows[b];
    }
}

static void gathered_retrieve(gathered *g, const smoe_retrieval *r, smoe_eval *result) {
    SMOE_FREED size_t *rank = smoe_alloc(r->captions, sizeof *rank);
    smoe_retrieval_rank(rank, r, true);
    smoe_retrieval_recall(result->image_recall, rank, r->captions);
    smoe_retrieval_rank(g->rank, r, false);
    smoe_retrieval_recall(result->text_recall, g->rank, r->images);
}

/* The results of the split, from those of its images. */
static void gathered_conclude(gathered *g, smoe_eval *result) {
    size_t n = g->n, correct = 0;
    float *outcomes = g->how->outcomes;
    double sum = 0;
    smoe_retrieval all;
    gathered_join(g, &all);
    gathered_losses(g, &all);
    gathered_retrieve(g, &all, result);
    for (size_t i = 0; i < n; i++) {
        bool right = g->classified ? g->correct[i] : g->rank[i] == 0;
        correct += right;
        sum += g->loss[i];
        if (!outcomes) continue;
        outcomes[2 * i] = right;
        outcomes[2 * i + 1] = (float)g->loss[i];
    }
    result->images = n;
    result->loss = sum / (double)n;
    result->precision_at_1 = (double)correct / (double)n;
    result->infer_s = NAN; /* texts are embedded too */
    result->retrieval = true;
}

int smoe_evaluate_pairs(smoe_model *model, const smoe_spec *spec, const smoe_dataset *set,
                        size_t batch_size, const smoe_eval_options *options, smoe_eval *result,
                        smoe_err *err) {
    smoe_comm *comm = options->comm;
    smoe_loader_options loading = {.batch_size = batch_size,
                                   .seed = spec->seed,
                                   .part = (size_t)comm->rank,
                                   .parts = (size_t)comm->size};
    SMOE_FREED_BY(smoe_loader_freed) smoe_loader *loader = NULL;
    SMOE_FREED_BY(gathered_free)
    gathered g = {.model = model, .spec = spec, .set = set, .how = options};
    double start = smoe_now();
    gathered_open(&g, batch_size);
    int status = smoe_tokenizer_open(&g.tokenizer, spec, err);
    if (!status && g.classified) embed_classes(&g);
    loading.tokenizer = g.tokenizer;
    if (!status) status = smoe_loader_open(&loader, set, spec, &loading, err);
    if (smoe_comm_agree(comm, status, NULL, err)) return -1;
    status = take_batches(&g, loader, err);
    smoe_model_serve(model);
    if (smoe_comm_agree(comm, status, NULL, err)) return -1;
    if (!g.n) return smoe_fail(err, SMOE_DATA, "no images to evaluate");
    gathered_conclude(&g, result);
    result->seconds = smoe_since(start);
    return 0;
}
