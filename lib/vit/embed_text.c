/* Token ids to rows: the vector of the token plus that of its position; see layer.h. */
#include "base/team.h"
#include "math/kernels.h"
#include "vit/layer.h"

#include <string.h>

enum { COLUMNS = 16 }; /* columns that one task of the backward pass adds up: a cache line of F32 */

void smoe_text_embed_init(smoe_text_embed *l, const smoe_build *build, size_t vocabulary) {
    *l = (smoe_text_embed){
        .build = build, .vocabulary = vocabulary, .d = build->model->width, .T = build->T};
    size_t table[] = {vocabulary, l->d}, places[] = {l->T, l->d};
    l->token = smoe_params_add(build->params, SMOE_PARAM_PLAIN, 0, 0.02, 2, table,
                               "%stoken_embedding.weight", build->prefix);
    l->position = smoe_params_add(build->params, SMOE_PARAM_PLAIN, 0, 0.01, 2, places,
                                  "%spositional_embedding", build->prefix);
}

void smoe_text_embed_cost(const smoe_text_embed *l, smoe_costs *costs) {
    smoe_costs_add(costs, SMOE_PART_embed, 0, 0, "%stoken_embedding", l->build->prefix);
    smoe_costs_add(costs, SMOE_PART_embed, 0, 0, "%spositional_embedding", l->build->prefix);
}

void smoe_text_embed_forward(const smoe_text_embed *l, real *x, const uint32_t *tokens, size_t B) {
    const smoe_params *params = l->build->params;
    const real *table = smoe_weight(params, l->token), *place = smoe_weight(params, l->position);
    size_t d = l->d, T = l->T;
    SMOE_SHARED(elementwise, B * T * d)
    for (size_t row = 0; row < B * T; row++) {
        const real *token = table + tokens[row] * d, *at = place + row % T * d;
        for (size_t i = 0; i < d; i++) x[row * d + i] = token[i] + at[i];
    }
}

/* A task adds up its columns of all rows, so the order of each sum does not depend on threads. */
void smoe_text_embed_backward(const smoe_text_embed *l, const real *dx, const uint32_t *tokens,
                              const size_t *lengths, size_t B) {
    const smoe_params *params = l->build->params;
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    real *dtable = smoe_gradient(params, l->token), *dplace = smoe_gradient(params, l->position);
    size_t d = l->d, T = l->T, tasks = (d + COLUMNS - 1) / COLUMNS;
    SMOE_SHARED(elementwise, B * T * d)
    for (size_t task = 0; task < tasks; task++) {
        size_t at = task * COLUMNS, n = d - at < COLUMNS ? d - at : COLUMNS;
        for (size_t b = 0; b < B; b++)
            for (size_t t = 0; t < (lengths ? lengths[b] : T); t++) {
                const real *from = dx + (b * T + t) * d + at;
                if (dtable) kern->add(dtable + tokens[b * T + t] * d + at, from, n);
                if (dplace) kern->add(dplace + t * d + at, from, n);
            }
    }
}
