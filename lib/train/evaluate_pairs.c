/* Evaluation of a task that compares images with captions: its loss, retrieval over the whole split
 * and zero-shot classification; see trainer.h. */
#include "train/evaluate.h"
#include "train/retrieval.h"
#include "train/task.h"
#include "train/zeroshot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The results collected over the split, in data-set order. */
typedef struct gathered {
    size_t n, D, N, batch;
    bool classified; /* there are texts for classes */
    real *unit[2];   /* [n,D] images, captions */
    uint64_t *key;   /* [n] of the caption's tokens */
    double *loss;    /* [n] */
    bool *correct;   /* [n] zero-shot */
    size_t *rank;    /* [n] */
    real *classes;   /* [N,D] */
    real *logits;    /* [batch,N] zero-shot */
    real *target;    /* [batch,batch] captions belong to their images */
    double *rows;    /* [batch] */
} gathered;

static void gathered_free(gathered *g) {
    free(g->unit[0]);
    free(g->unit[1]);
    free(g->key);
    free(g->loss);
    free(g->correct);
    free(g->rank);
    free(g->classes);
    free(g->logits);
    free(g->target);
    free(g->rows);
}

static int gathered_open(gathered *g, smoe_model *model, const smoe_spec *spec,
                         const smoe_dataset *set, size_t batch, smoe_err *err) {
    *g = (gathered){.n = smoe_dataset_images(set),
                    .D = smoe_model_width(model),
                    .N = smoe_dataset_classes(set),
                    .batch = batch};
    g->classified = spec->eval.zeroshot.count && g->N > 1;
    size_t room = g->n + 1;
    g->unit[0] = malloc(room * g->D * sizeof(real));
    g->unit[1] = malloc(room * g->D * sizeof(real));
    g->key = malloc(room * sizeof *g->key);
    g->loss = calloc(room, sizeof *g->loss);
    g->correct = calloc(room, sizeof *g->correct);
    g->rank = calloc(room, sizeof *g->rank);
    g->logits = malloc(batch * g->N * sizeof *g->logits);
    g->target = malloc(batch * batch * sizeof *g->target);
    g->rows = calloc(batch, sizeof *g->rows);
    if (g->unit[0] && g->unit[1] && g->key && g->loss && g->correct && g->rank && g->logits &&
        g->target && g->rows)
        return 0;
    return smoe_fail(err, SMOE_RUNTIME, "out of memory for an evaluation");
}

/* FNV-1a of the tokens: captions of the same words have the same key. */
static uint64_t key_of(const uint32_t *tokens, size_t length) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++) hash = (hash ^ tokens[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Embeds a batch and keeps the results that are needed. */
static int take_batch(gathered *g, smoe_model *model, const smoe_spec *spec,
                      const smoe_batch *batch, size_t first, smoe_err *err) {
    size_t B = batch->images, D = g->D, T = spec->text.context;
    const smoe_inputs in = {batch->pixels, batch->tokens, batch->lengths};
    const smoe_pairs *pairs = smoe_model_pairs(model);
    smoe_pass pass = {.seed = spec->seed, .images = B, .first = first};
    smoe_task_sums sums = {0};
    memset(g->target, 0, B * B * sizeof *g->target);
    for (size_t b = 0; b < B; b++) g->target[b * B + b] = 1;
    smoe_model_forward_pairs(model, &in, &pass);
    smoe_task_of(spec->train.loss)
        ->batch(&sums, NULL, g->rows, pairs->logits, g->target, B, B, B, 0);
    if (g->classified) smoe_zeroshot_logits(g->logits, pairs, pairs->unit[0], g->classes, B, g->N);
    for (size_t b = 0; b < B; b++) {
        size_t i = (size_t)batch->index[b];
        if (!isfinite(g->rows[b])) return smoe_evaluate_nonfinite(model, i, g->rows[b], err);
        for (int k = 0; k < 2; k++)
            memcpy(g->unit[k] + i * D, pairs->unit[k] + b * D, D * sizeof(real));
        g->key[i] = key_of(batch->tokens + b * T, batch->lengths[b]);
        g->loss[i] = g->rows[b];
        g->correct[i] = g->classified &&
                        smoe_task_correct(g->logits + b * g->N, batch->target + b * g->N, g->N);
    }
    return 0;
}

/* The results of the split, from those of its images. */
static int conclude(gathered *g, float *outcomes, smoe_eval *result, smoe_err *err) {
    size_t n = g->n, correct = 0;
    double sum = 0;
    for (int k = 1; k >= 0; k--) { /* queries: captions, then images, whose ranks stay */
        if (smoe_retrieval_rank(g->rank, g->unit[k], g->unit[1 - k], g->key, n, g->D, err))
            return -1;
        smoe_retrieval_recall(k ? result->image_recall : result->text_recall, g->rank, n);
    }
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
    result->retrieval = true;
    return 0;
}

int smoe_evaluate_pairs(smoe_model *model, const smoe_spec *spec, const smoe_dataset *set,
                        size_t batch_size, float *outcomes, smoe_eval_sink *sink, void *user,
                        smoe_eval *result, smoe_err *err) {
    smoe_loader_options options = {.batch_size = batch_size, .seed = spec->seed};
    smoe_tokenizer *tokenizer = NULL;
    smoe_loader *loader = NULL;
    smoe_batch batch;
    gathered g = {0};
    double start = smoe_now();
    size_t images = 0;
    int status = -1, more = -1;
    *result = (smoe_eval){0};
    if (smoe_tokenizer_open(&tokenizer, spec, err) ||
        gathered_open(&g, model, spec, set, batch_size, err))
        goto out;
    if (g.classified &&
        smoe_zeroshot_classes(&g.classes, model, spec, set, tokenizer, batch_size, err))
        goto out;
    options.tokenizer = tokenizer;
    if (smoe_loader_open(&loader, set, spec, &options, err)) goto out;
    while ((more = smoe_loader_next(loader, &batch, err)) > 0) {
        if (take_batch(&g, model, spec, &batch, images, err)) goto out;
        images += batch.images;
        if (sink && sink(user, &batch, g.classified ? g.logits : NULL, g.N, err)) goto out;
    }
    if (more < 0) goto out;
    status = images ? conclude(&g, outcomes, result, err)
                    : smoe_fail(err, SMOE_DATA, "no images to evaluate");
    result->seconds = smoe_now() - start;
out:
    smoe_loader_free(loader);
    smoe_tokenizer_free(tokenizer);
    gathered_free(&g);
    return status;
}
