/*
 * Which patches serve the slots that matter for a caption: how much the similarity of an image and
 * its caption falls when the output of one slot counts as zero, and which patches that slot is made
 * of. Every slot of every layer is a pass of the image, so only images that are kept are analysed.
 */
#include "inspect/inspect_view.h"
#include "math/stats.h"

enum { SLOTS = 8, PATCHES = 4 }; /* rows of an image in a layer: the slots that matter most */

typedef struct captions {
    smoe_alloc_pool memory;
    smoe_tokenizer *tokenizer;
    size_t D, batch, an_image;
    uint32_t *tokens; /* [text.context] */
    real *pixels;     /* [batch, an image] copies of it */
    real *text;       /* [D], of length 1 */
    real *unit;       /* [batch,D] */
    size_t *slot;     /* [batch] */
    double *without;  /* [S] the similarity without the slot; 0: another process measures it */
    double *score;    /* [S] or [T] by which slots or patches are ranked: */
    size_t *slots, *patches; /* [S], [T] */
    char caption[SMOE_CAPTION];
} captions;

static int captions_open(captions *c, const smoe_inspection *r, smoe_err *err) {
    const smoe_data_spec *data = &r->subject.spec->data;
    *c = (captions){.D = smoe_model_width(r->subject.model),
                    .batch = r->subject.batch,
                    .an_image = data->channels * data->image_size * data->image_size};
    smoe_alloc_pool *pool = &c->memory;
    if (smoe_tokenizer_open(&c->tokenizer, r->subject.spec, err)) return -1;
    c->tokens = smoe_alloc_in(pool, r->subject.spec->text.context, sizeof *c->tokens);
    c->pixels = smoe_alloc_in(pool, c->batch * c->an_image, sizeof *c->pixels);
    c->text = smoe_alloc_in(pool, c->D, sizeof *c->text);
    c->unit = smoe_alloc_in(pool, c->batch * c->D, sizeof *c->unit);
    c->slot = smoe_alloc_in(pool, c->batch, sizeof *c->slot);
    c->without = smoe_alloc_in(pool, r->most_slots, sizeof *c->without);
    c->score = smoe_alloc_in(pool, r->most_slots > r->T ? r->most_slots : r->T, sizeof *c->score);
    c->slots = smoe_alloc_in(pool, r->most_slots, sizeof *c->slots);
    c->patches = smoe_alloc_in(pool, r->T, sizeof *c->patches);
    return 0;
}

/* The image, as often as it fits, and its caption, embedded. */
static int captions_load(captions *c, const smoe_inspection *r, size_t image, smoe_err *err) {
    const smoe_inspect_subject *s = &r->subject;
    if (smoe_dataset_image(s->set, image, false, c->pixels, NULL, NULL, err) ||
        smoe_dataset_caption(s->set, image, NULL, c->caption, sizeof c->caption, err))
        return -1;
    for (size_t b = 1; b < c->batch; b++)
        memcpy(c->pixels + b * c->an_image, c->pixels, c->an_image * sizeof(real));
    size_t length =
        smoe_tokenizer_encode(c->tokenizer, c->tokens, s->spec->text.context, c->caption);
    smoe_pass pass = {.seed = s->spec->seed, .images = 1};
    smoe_model_forward_texts(s->model, c->tokens, &length, &pass);
    smoe_pairs_unit(c->text, smoe_model_texts(s->model), 1, c->D);
    return 0;
}

/* The cosines of caption and image without c->slot of that block, for `count` of them. */
static void captions_compare(captions *c, const smoe_inspection *r, size_t block, size_t count,
                             double *cosine) {
    smoe_pass pass = {
        .seed = r->subject.spec->seed, .images = count, .without = c->slot, .without_block = block};
    smoe_model_forward(r->subject.model, c->pixels, &pass);
    smoe_pairs_unit(c->unit, smoe_model_logits(r->subject.model), count, c->D);
    for (size_t b = 0; b < count; b++) {
        cosine[b] = 0;
        for (size_t k = 0; k < c->D; k++)
            cosine[b] += (double)c->unit[b * c->D + k] * (double)c->text[k];
    }
}

static void put_slot(captions *c, const smoe_inspection *r, smoe_frame *frame, size_t l,
                     const smoe_sample *sample, size_t place, double whole) {
    const smoe_sample_layer *layer = &sample->layer[l];
    size_t slot = c->slots[place];
    size_t first = r->first_patch, patches = r->T - first;
    for (size_t p = 0; p < patches; p++)
        c->score[p] = (double)layer->dispatch[(first + p) * layer->S + slot];
    smoe_stats_best(c->patches, PATCHES, c->score, patches);
    for (size_t k = 0; k < PATCHES && k < patches; k++)
        smoe_inspect_put(
            r, frame, l, {"image", .number = sample->image}, {"caption", .text = c->caption},
            {"similarity", .number = whole}, {"rank", .number = (double)place + 1},
            {"slot", .number = slot}, {"expert", .number = (double)(slot / layer->P)},
            {"fall", .number = whole - c->without[slot]}, {"patch", .number = (double)k + 1},
            {"row", .number = smoe_inspect_token_row(r, first + c->patches[k])},
            {"column", .number = smoe_inspect_token_column(r, first + c->patches[k])},
            {"dispatch", .number = c->score[c->patches[k]]});
}

/* The processes divide the passes. */
static void put_layer(captions *c, const smoe_inspection *r, smoe_frame *frame, size_t l,
                      const smoe_sample *sample) {
    size_t block = smoe_model_moe_block(r->subject.model, l), S = smoe_inspect_slots(r, l);
    double whole;
    c->slot[0] = SIZE_MAX;
    captions_compare(c, r, block, 1, &whole);
    memset(c->without, 0, S * sizeof *c->without);
    for (size_t from = 0, n, pass = 0; from < S; from += n, pass++) {
        n = S - from < c->batch ? S - from : c->batch;
        if (pass % (size_t)r->comm->size != (size_t)r->comm->rank) continue;
        for (size_t b = 0; b < n; b++) c->slot[b] = from + b;
        captions_compare(c, r, block, n, c->without + from);
    }
    smoe_comm_join(r->comm, c->without, S * sizeof *c->without);
    for (size_t s = 0; s < S; s++) c->score[s] = -c->without[s];
    smoe_stats_best(c->slots, SLOTS, c->score, S);
    for (size_t k = 0; k < SLOTS && k < S; k++) put_slot(c, r, frame, l, sample, k, whole);
}

/* Nothing if images are not compared with captions. */
int smoe_fill_caption_slots(const smoe_inspection *r, smoe_frame *frame, smoe_err *err) {
    captions c = {0};
    if (!smoe_model_pairs(r->subject.model) || !r->subject.images) return 0;
    int status = captions_open(&c, r, err);
    for (size_t i = 0; i < r->subject.images && !status; i++) {
        status = captions_load(&c, r, r->subject.image[i], err);
        if (smoe_comm_agree(r->comm, status, NULL, err)) status = -1;
        for (size_t l = 0; l < r->layers && !status; l++) put_layer(&c, r, frame, l, &r->sample[i]);
    }
    smoe_tokenizer_free(c.tokenizer);
    smoe_alloc_pool_free(&c.memory);
    return status;
}
