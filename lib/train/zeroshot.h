/*
 * Zero-shot classification: the texts of a class are the templates of eval.zeroshot with its name
 * in place of {}. Their embeddings are normalised to length 1 and averaged, and the mean is
 * normalised to length 1. The logit of the class is that of a caption with this embedding.
 */
#ifndef SMOE_ZEROSHOT_H
#define SMOE_ZEROSHOT_H

#include "data/dataset.h"
#include "text/tokenizer.h"
#include "vit/model.h"

/* classes [N,D] of the data set's classes, fresh, the caller's to free. The model is reserved for
 * `batch` texts. */
real *smoe_zeroshot_classes(smoe_model *model, const smoe_spec *spec, const smoe_dataset *set,
                            const smoe_tokenizer *tokenizer, size_t batch);

/* logits [B,N] of images [B,D] of length 1. */
void smoe_zeroshot_logits(real *logits, const smoe_pairs *pairs, const real *images,
                          const real *classes, size_t B, size_t N);

/* The template with the name in each place {}, in which '-' and '_' are blanks. Cut to what fits;
 * returns buf. */
const char *smoe_zeroshot_prompt(char *buf, size_t size, const char *template, const char *name);

#endif
