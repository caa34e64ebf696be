/* Quantities that follow from a resolved spec; see spec.h. */
#include "spec/spec.h"

smoe_precision smoe_spec_precision(const smoe_spec *spec, bool train) {
    if (train || spec->eval.precision == SMOE_EVAL_PRECISION_TRAINED) return spec->train.precision;
    return (smoe_precision)(spec->eval.precision - SMOE_EVAL_PRECISION_F32);
}

size_t smoe_spec_tokens(const smoe_spec *spec) {
    size_t side = spec->data.image_size / spec->model.patch_size;
    return side * side + (spec->model.head == SMOE_HEAD_TOKEN) + spec->model.registers;
}

smoe_model_spec smoe_spec_text_tower(const smoe_spec *spec) {
    const smoe_text_tower_spec *text = &spec->text;
    smoe_model_spec model = spec->model;
    if (text->width) model.width = text->width;
    if (text->depth) model.depth = text->depth;
    if (text->heads) model.heads = text->heads;
    model.mlp = 4 * model.width;
    model.qk_norm = false;
    model.head = SMOE_HEAD_GAP; /* text.pool says what is pooled */
    model.registers = 0;
    model.norm_eps = text->norm_eps;
    model.drop_path = 0;
    model.moe.layer_count = 0;
    memset(model.moe.is_moe, 0, sizeof model.moe.is_moe);
    return model;
}

size_t smoe_spec_embed(const smoe_spec *spec) {
    return spec->text.embed ? spec->text.embed : spec->model.width;
}

static double spec_number_of(const smoe_moe_spec *moe, const smoe_series *series, size_t block) {
    size_t layer = 0;
    for (size_t i = 0; i < block; i++) layer += moe->is_moe[i];
    return smoe_series_at(series, layer);
}

size_t smoe_moe_hidden(const smoe_model_spec *model) {
    return model->moe.expert.mlp ? model->moe.expert.mlp : model->mlp;
}

size_t smoe_moe_universal(const smoe_model_spec *model) {
    return model->moe.expert.universal_mlp ? model->moe.expert.universal_mlp
                                           : smoe_moe_hidden(model);
}

bool smoe_moe_renormalizes(const smoe_moe_spec *moe) {
    return moe->choice.renormalize || moe->choice.topk == SMOE_TOPK_BEFORE;
}

size_t smoe_moe_k(const smoe_moe_spec *moe, size_t block) {
    return (size_t)spec_number_of(moe, &moe->choice.k, block);
}

double smoe_moe_ratio(const smoe_moe_spec *moe, size_t block) {
    return spec_number_of(moe, &moe->choice.capacity, block);
}

size_t smoe_moe_superclass(const smoe_moe_spec *moe, size_t label, size_t N) {
    return moe->balance.superclasses.count ? moe->balance.superclasses.item[label]
                                           : label * moe->experts / N;
}

size_t smoe_moe_capacity(const smoe_moe_spec *moe, size_t block, size_t tokens, size_t choices) {
    double C = smoe_moe_ratio(moe, block);
    double places = (double)choices * (double)tokens * C / (double)moe->experts;
    bool up = moe->choice.capacity_rounding == SMOE_ROUNDING_CEIL;
    /* Half to even is the default rounding mode, which nearbyint follows. */
    size_t buffer = (size_t)fmax(1, up ? ceil(places) : nearbyint(places));
    size_t unit = moe->choice.capacity_multiple_of;
    return (buffer + unit - 1) / unit * unit;
}
