/* Classes by texts; see zeroshot.h. */
#include "train/zeroshot.h"
#include "base/alloc.h"
#include "math/gemm.h"

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

/* Texts that pass through the model together: `count` of at most `room`. */
typedef struct texts {
    uint32_t *tokens; /* [room, context] */
    size_t *lengths, count, room, context;
    real *unit; /* [room,D] */
} texts;

/* Embeds the texts, of which the first is number `first`, and adds them to their classes. */
static void texts_embed(texts *x, smoe_model *model, const smoe_spec *spec, double *sums,
                        size_t first) {
    size_t D = smoe_model_width(model), templates = spec->eval.zeroshot.count;
    smoe_pass pass = {.seed = spec->seed, .images = x->count};
    smoe_model_forward_texts(model, x->tokens, x->lengths, &pass);
    smoe_pairs_unit(x->unit, smoe_model_texts(model), x->count, D);
    for (size_t i = 0; i < x->count; i++) {
        double *sum = sums + (first + i) / templates * D;
        for (size_t k = 0; k < D; k++) sum[k] += (double)x->unit[i * D + k];
    }
    x->count = 0;
}

real *smoe_zeroshot_classes(smoe_model *model, const smoe_spec *spec, const smoe_dataset *set,
                            const smoe_tokenizer *tokenizer, size_t batch) {
    const smoe_prompts *prompts = &spec->eval.zeroshot;
    size_t N = smoe_dataset_classes(set), D = smoe_model_width(model), all = N * prompts->count;
    texts x = {.room = batch, .context = spec->text.context};
    SMOE_FREED_BY(smoe_alloc_pool_free) smoe_alloc_pool m = {0};
    double *sums = smoe_alloc_in(&m, N * D, sizeof *sums);
    real *classes = smoe_alloc(N * D, sizeof *classes);
    x.tokens = smoe_alloc_in(&m, batch * x.context, sizeof *x.tokens);
    x.lengths = smoe_alloc_in(&m, batch, sizeof *x.lengths);
    x.unit = smoe_alloc_in(&m, batch * D, sizeof *x.unit);
    for (size_t i = 0, first = 0; i < all; i++) {
        char text[SMOE_CAPTION];
        smoe_zeroshot_prompt(text, sizeof text, prompts->text[i % prompts->count],
                             smoe_dataset_class_name(set, i / prompts->count));
        x.lengths[x.count] =
            smoe_tokenizer_encode(tokenizer, x.tokens + x.count * x.context, x.context, text);
        if (++x.count < x.room && i + 1 < all) continue;
        texts_embed(&x, model, spec, sums, first);
        first = i + 1;
    }
    for (size_t i = 0; i < N * D; i++) classes[i] = (real)sums[i];
    smoe_pairs_unit(classes, classes, N, D);
    return classes;
}

void smoe_zeroshot_logits(real *logits, const smoe_pairs *pairs, const real *images,
                          const real *classes, size_t B, size_t N) {
    real bias = (real)smoe_pairs_bias(pairs);
    smoe_product p = smoe_linear_product(logits, images, classes, NULL, B, N, pairs->D);
    p.alpha = (real)smoe_pairs_factor(pairs);
    smoe_gemm(&p);
    for (size_t i = 0; i < B * N; i++) logits[i] += bias;
}
