/*
 * Resolving: sizes of the variant, defaults that depend on other keys, and checks between keys; the
 * blocks with experts are in resolve_moe.c. Each message names the key that was set closest to the
 * user, and a value that would be valid.
 */
#include "spec/resolve.h"
#include "spec/routers.h"
#include "spec/sources.h"
#include "spec/tasks.h"

int smoe_reading_presets(smoe_reading *reading) {
    for (size_t i = 0; i < SMOE_SCHEMA_COUNT; i++) {
        const smoe_schema_entry *entry = &smoe_schema[i];
        char problem[SMOE_PROBLEM];
        bool variant = !strcmp(entry->preset, "variant's"), empty = !strcmp(entry->preset, "[]");
        if (variant || empty) continue; /* zero until resolved */
        if (smoe_value_set(reading->spec, entry, entry->preset, true, problem))
            return smoe_fail(reading->err, SMOE_RUNTIME, "default of %s: %s", entry->key, problem);
    }
    return 0;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* A size is the variant's, unless it is given as close to the user as the variant. */
static void take_size(smoe_reading *reading, const char *key, size_t *size, size_t named) {
    smoe_provenance *origin = smoe_resolve_origin(reading, key);
    bool replaced = smoe_resolve_gives_way(reading, key, "model.variant", SMOE_FROM_VARIANT);
    if (smoe_resolve_given(reading, key)) return;
    *size = named;
    if (!replaced) *origin = (smoe_provenance){.kind = SMOE_FROM_VARIANT};
}

static void resolve_sizes(smoe_reading *reading) {
    static const char *const keys[] = {"model.width", "model.depth", "model.mlp", "model.heads"};
    smoe_model_spec *model = &reading->spec->model;
    size_t *const sizes[] = {&model->width, &model->depth, &model->mlp, &model->heads};
    size_t set = 0;
    for (size_t i = 0; i < 4; i++) set += smoe_resolve_given(reading, keys[i]);
    /* With all four sizes and no variant, the variant is none, and not the default with other
     * sizes. */
    if (set == 4 && !smoe_resolve_given(reading, "model.variant"))
        smoe_resolve_set(reading, "model.variant", "none");
    const smoe_variant *variant = smoe_variant_find(model->variant), none = {0};
    const smoe_variant *named = variant ? variant : &none;
    const size_t of_named[] = {named->width, named->depth, named->mlp, named->heads};
    for (size_t i = 0; i < 4; i++) {
        if (variant) take_size(reading, keys[i], sizes[i], of_named[i]);
        if (!*sizes[i]) {
            clash(reading, KEYS("model.variant", keys[i]), "without a variant, %s must be given",
                  keys[i]);
            reading->bad[smoe_resolve_entry(keys[i])] = true;
            *sizes[i] = 1; /* any size, so that the checks below do not divide by zero */
        }
    }
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void check_channels(smoe_reading *reading, const char *key, const smoe_series *series) {
    smoe_resolve_series(reading, key, series, "data.channels", reading->spec->data.channels);
}

/* For few-shot data, `none` for all channels means the numbers of data; no other number is below
 * 0. */
static void check_fewshot(smoe_reading *reading, const char *key, const smoe_series *series,
                          double none) {
    size_t n = series->listed ? series->listed : 1, given = 0, absent = 0;
    check_channels(reading, key, series);
    for (size_t i = 0; i < n; i++) {
        given += series->item[i] > none && series->item[i] >= 0;
        absent += series->item[i] == none;
    }
    if (given < n && absent < n)
        clash(reading, KEYS(key),
              "%g stands for the value of data; give it for all channels or for none", none);
}

static void check_model(smoe_reading *reading) {
    const smoe_spec *spec = reading->spec;
    const smoe_model_spec *model = &spec->model;
    check_channels(reading, "data.mean", &spec->data.mean);
    check_channels(reading, "data.std", &spec->data.std);
    check_fewshot(reading, "eval.fewshot.data.mean", &spec->eval.fewshot.data.mean, -1);
    check_fewshot(reading, "eval.fewshot.data.std", &spec->eval.fewshot.data.std, 0);
    if (spec->data.channels == 2)
        clash(reading, KEYS("data.channels"), "must be 1 (grey) or 3 (colour), found 2");
    if (spec->data.image_size % model->patch_size)
        clash(reading, KEYS("model.patch_size", "data.image_size"),
              "patches of %zu do not divide an image of %zu: use patches that divide it, or an "
              "image that is a multiple of %zu",
              model->patch_size, spec->data.image_size, model->patch_size);
    if (model->width % model->heads)
        clash(reading, KEYS("model.heads", "model.width", "model.variant"),
              "%zu heads do not divide the width %zu: use a number that does, or a width that is "
              "a multiple of %zu",
              model->heads, model->width, model->heads);
    if (model->position == SMOE_POSITION_SINCOS2D && model->width % 4)
        clash(reading, KEYS("model.position", "model.width"),
              "sincos2d needs a width that is a multiple of 4, found %zu", model->width);
}

/* At most, for the MLPs of a block that a token passes through. */
static double widest_mlp(const smoe_model_spec *model) {
    double expert = (double)smoe_moe_hidden(model), dense = (double)model->mlp;
    if (!model->moe.layer_count) return dense;
    double shared = (double)model->moe.expert.shared * expert;
    return fmax(dense, fmax(expert, (double)smoe_moe_universal(model)) + shared);
}

/* Sizes are counted in 64 bits. Models far larger than any memory are refused, so that no product
 * of sizes overflows; the sum is a generous bound. */
static void check_size(smoe_reading *reading) {
    const double most = 0x1p58;
    const smoe_spec *spec = reading->spec;
    const smoe_model_spec *model = &spec->model;
    const smoe_moe_spec *moe = &model->moe;
    double d = (double)model->width, L = (double)model->depth;
    double T = (double)smoe_spec_tokens(spec), E = moe->layer_count ? (double)moe->experts : 1;
    double h = widest_mlp(model);
    double S = 1;
    for (size_t i = 0; i < model->depth; i++) {
        if (!moe->is_moe[i]) continue;
        double P = (double)smoe_moe_slots_per_expert(moe, i, (size_t)T);
        S = fmax(S, fmax(E * P, T * (double)smoe_moe_k(moe, i) * smoe_moe_ratio(moe, i) + E));
    }
    size_t asked = smoe_moe_eval_batch(spec, SIZE_MAX);
    double B = (double)(spec->train.batch_size > asked ? spec->train.batch_size : asked);
    double numbers =
        L * (4 * d * d + 2 * E * d * h + d * S) +
        L * B * ((T + S) * (16 * d + 4 * h + 4 * E) + T * (2 * (double)model->heads * T + 4 * S));
    if (numbers > most)
        clash(reading, KEYS("model.width", "model.moe.experts", "train.batch_size"),
              "the model and the activations of a batch are about %.1e numbers; at most %.1e are "
              "possible",
              numbers, most);
}

/* Checks the keys of a generated source, used as data or for the few-shot evaluation. */
static void check_facts(smoe_reading *reading) {
    const smoe_data_spec *data = &reading->spec->data;
    size_t cells = data->facts.cells, edge = 1, shots = reading->spec->eval.fewshot.data.source;
    if (data->source != SMOE_SOURCE_FACTS && shots != SMOE_FEWSHOT_SOURCE + SMOE_SOURCE_FACTS)
        return;
    while ((edge + 1) * (edge + 1) <= cells) edge++;
    if (edge * edge != cells)
        clash(reading, KEYS("data.facts.cells"), "%zu cells do not form a square: use %zu or %zu",
              cells, edge * edge, (edge + 1) * (edge + 1));
    else if (data->image_size % edge)
        clash(reading, KEYS("data.facts.cells", "data.image_size"),
              "%zu cells along an edge do not divide an image of %zu: use another number, "
              "or an image that is a multiple of %zu",
              edge, data->image_size, edge);
    if (data->facts.distractors >= cells)
        clash(reading, KEYS("data.facts.distractors", "data.facts.cells"),
              "%zu distractor%s and the marked cell do not fit into %zu cell%s: use %zu at most",
              data->facts.distractors, SMOE_S(data->facts.distractors), cells, SMOE_S(cells),
              cells - 1);
    if (data->facts.classes > data->facts.entities)
        clash(reading, KEYS("data.facts.classes", "data.facts.entities"),
              "%zu entities cannot form %zu classes: use %zu at most", data->facts.entities,
              data->facts.classes, data->facts.entities);
    if (data->facts.entities > UINT64_C(1) << data->facts.bits)
        clash(reading, KEYS("data.facts.bits", "data.facts.entities"),
              "the %llu codes of %zu bit%s are too few for %zu entities: use more bits",
              1ULL << data->facts.bits, data->facts.bits, SMOE_S(data->facts.bits),
              data->facts.entities);
}

static const char *generated_names(char *names, size_t size) {
    *names = '\0';
    for (size_t i = 0; i < SMOE_SOURCES; i++)
        if (smoe_sources[i].generated) smoe_text_list(names, size, "%s", smoe_sources[i].name);
    return names;
}

/* A spec without a path may still be costed, as long as it says how many classes there are. */
static void check_data(smoe_reading *reading) {
    const smoe_data_spec *data = &reading->spec->data;
    const smoe_fewshot_spec *fewshot = &reading->spec->eval.fewshot;
    size_t other = fewshot->data.source;
    bool folder = data->source == SMOE_SOURCE_FOLDER;
    bool shards = data->source == SMOE_SOURCE_WEBDATASET;
    if (folder && data->holdout >= 1)
        clash(reading, KEYS("data.holdout", "data.source"),
              "image-folder holds out a share of the images, below 1 (0.1: one of ten), found %g",
              data->holdout);
    if (strcmp(data->caption, "txt") && !smoe_spec_caption_field(reading->spec))
        clash(reading, KEYS("data.caption"), "expected txt or json.FIELD, found %s", data->caption);
    if (strcmp(data->label, "cls") && !smoe_spec_label_field(reading->spec))
        clash(reading, KEYS("data.label"), "expected cls, json or json.FIELD, found %s",
              data->label);
    if (shards && data->holdout != floor(data->holdout))
        clash(reading, KEYS("data.holdout", "data.source"),
              "webdataset holds out whole shards, so data.holdout is a whole number, 0 with a path "
              "that has {split}; found %g",
              data->holdout);
    if (other >= SMOE_FEWSHOT_SOURCE && !smoe_sources[other - SMOE_FEWSHOT_SOURCE].generated &&
        !fewshot->data.path)
        clash(reading, KEYS("eval.fewshot.data.source", "eval.fewshot.data.path"),
              "eval.fewshot.data.path must say where this data is (a folder or archive)");
    if (smoe_sources[data->source].generated || data->path || data->classes) return;
    char names[128];
    clash(reading, KEYS("data.source", "data.path"),
          "data.path must say where the data is (a folder or archive); only generated data (%s) "
          "needs none (or give data.classes, or --classes N, to cost a model without its data)",
          generated_names(names, sizeof names));
}

/* Checks the keys that a text tower needs, and those that are not used without one. */
static void check_text(smoe_reading *reading) {
    const smoe_spec *spec = reading->spec;
    const smoe_data_spec *data = &spec->data;
    if (!smoe_task_pairs(spec->train.loss)) {
        if (spec->eval.zeroshot.count)
            clash(reading, KEYS("eval.zeroshot", "train.loss"),
                  "zero-shot classification needs a text tower: use train.loss contrastive");
        return;
    }
    if (!spec->text.tokenizer)
        clash(reading, KEYS("text.tokenizer"), "expected bytes, or the path of a tokenizer's file");
    if (spec->text.pool == SMOE_POOL_LAST && spec->text.padding == SMOE_PADDING_MASKED)
        clash(reading, KEYS("text.pool", "text.padding"),
              "the last place of a short text is padding: use padding attended, or pool end");
    if (spec->text.pool == SMOE_POOL_FIRST && spec->text.causal && !reading->trained)
        clash(reading, KEYS("text.pool", "text.causal"),
              "in a causal tower the first token is the same for all texts: use causal false, or "
              "pool end");
    const smoe_model_spec text = smoe_spec_text_tower(spec);
    if (text.width % text.heads)
        clash(reading, KEYS("text.heads", "text.width"),
              "%zu heads do not divide the width %zu of the text tower: use a number that does, or "
              "a width that is a multiple of %zu",
              text.heads, text.width, text.heads);
    if (!smoe_sources[data->source].captions)
        clash(reading, KEYS("train.loss", "data.source"),
              "it compares images with captions, but %s has none", smoe_sources[data->source].name);
    if (data->augment.mixup > 0 || data->augment.cutmix > 0)
        clash(reading, KEYS("data.augment.mixup", "data.augment.cutmix", "train.loss"),
              "a mixed image has no caption: use 0 with train.loss contrastive");
    if (spec->train.label_smoothing > 0)
        clash(reading, KEYS("train.label_smoothing", "train.loss"),
              "contrastive losses have no classes to smooth: use 0");
    bool moved = data->shift || data->augment.flip || data->augment.randaugment.n ||
                 data->augment.crop == SMOE_CROP_INCEPTION;
    if (smoe_sources[data->source].generated && moved)
        clash(
            reading,
            KEYS("data.shift", "data.augment.flip", "data.augment.crop",
                 "data.augment.randaugment.n"),
            "captions of %s describe the places and kinds of objects, which shifts, flips, random "
            "crops and RandAugment change: switch them off, or use crop pad",
            smoe_sources[data->source].name);
}

/* A share becomes a number of steps. A default is at most 1/part of a short run. The same holds for
 * a number in the file if an override, for a trial, made the run so short that it does not fit
 * (`tight`); a contradiction within one place stays an error. */
static void resolve_span(smoe_reading *reading, const char *key, smoe_span *span, size_t part,
                         bool tight) {
    size_t steps = reading->spec->train.steps;
    smoe_provenance *origin = smoe_resolve_origin(reading, key);
    if (span->share > 0) span->steps = (size_t)llround(span->share * (double)steps);
    bool trial = tight && origin->kind == SMOE_FROM_FILE && span->share == 0 &&
                 smoe_resolve_origin(reading, "train.steps")->kind == SMOE_FROM_OVERRIDE;
    if ((smoe_resolve_given(reading, key) && !trial) || span->steps <= steps / part) return;
    span->steps = steps / part;
    origin->kind = trial ? SMOE_FROM_SHORTENED : SMOE_FROM_FITTED;
}

/* Of train.steps and train.flops one is given. An override of one takes the place of the other one
 * in the file. Steps that follow from FLOPs come from a second reading (bench/cost.h). */
static void resolve_steps(smoe_reading *reading) {
    smoe_train_spec *train = &reading->spec->train;
    smoe_provenance *steps = smoe_resolve_origin(reading, "train.steps");
    smoe_provenance *flops = smoe_resolve_origin(reading, "train.flops");
    if (!(train->flops > 0)) return;
    if (smoe_resolve_given(reading, "train.steps") && steps->kind == flops->kind)
        clash(reading, KEYS("train.steps", "train.flops"),
              "both say how long to train; give one of them");
    if (reading->steps) train->steps = reading->steps;
    if (reading->steps || steps->kind > flops->kind) train->flops = 0;
}

/* The test images must not choose the step, because they are to measure the result. */
static void check_patience(smoe_reading *reading) {
    const smoe_spec *spec = reading->spec;
    if (spec->train.patience && !reading->trained && strcmp(spec->eval.split, "val") != 0)
        clash(reading, KEYS("train.patience", "eval.split"),
              "early stopping needs images that are held out of training: set eval.split=val");
}

static void resolve_schedule(smoe_reading *reading) {
    static const char warmup_key[] = "train.schedule.warmup";
    static const char cooldown_key[] = "train.schedule.cooldown";
    size_t steps = reading->spec->train.steps;
    if (reading->spec->train.flops > 0) return; /* the steps are not known yet */
    smoe_span *warmup = &reading->spec->train.schedule.warmup;
    smoe_span *cooldown = &reading->spec->train.schedule.cooldown;
    smoe_schedule name = reading->spec->train.schedule.name;
    bool used = name != SMOE_SCHEDULE_CONSTANT && !reading->trained;
    bool cools = name == SMOE_SCHEDULE_RSQRT;
    for (int tight = 0; tight <= 1; tight++) {
        resolve_span(reading, warmup_key, warmup, 10, tight);
        resolve_span(reading, cooldown_key, cooldown, 5, tight);
        if (!used || warmup->steps + (cools ? cooldown->steps : 0) <= steps) return;
    }
    if (!cools) {
        clash(reading, KEYS(warmup_key, "train.steps"),
              "%zu steps of warm-up do not fit in train.steps %zu: shorten it, as with "
              "train.schedule.warmup=%zu, or train longer",
              warmup->steps, steps, steps / 10);
        return;
    }
    clash(reading, KEYS(warmup_key, cooldown_key, "train.steps"),
          "%zu steps of warm-up and %zu of cooldown do not fit in train.steps %zu: shorten them, "
          "as with train.schedule.warmup=%zu train.schedule.cooldown=%zu, or train longer",
          warmup->steps, cooldown->steps, steps, steps / 10, steps / 5);
}

/* Before groups are fitted to the pieces. */
static void check_pieces(smoe_reading *reading) {
    smoe_train_spec *train = &reading->spec->train;
    size_t G = train->pieces, B = train->batch_size;
    if (!(G & (G - 1)) && B % G == 0) return;
    if (G & (G - 1))
        clash(reading, KEYS("train.pieces"), "must be a power of two, found %zu", G);
    else
        clash(reading, KEYS("train.pieces", "train.batch_size"),
              "%zu pieces do not divide a batch of %zu images", G, B);
    train->pieces = 1; /* so that the checks below assume whole pieces */
}

/* Blocks of neighbouring processes divide the experts, and processes are a power of two. */
static void check_experts_over(smoe_reading *reading) {
    double over = reading->spec->train.experts_over;
    int power;
    if (over != SMOE_WORD && frexp(over, &power) != 0.5)
        clash(reading, KEYS("train.experts_over"), "must be all or a power of two, found %g", over);
}

void smoe_reading_resolve(smoe_reading *reading) {
    resolve_sizes(reading);
    smoe_resolve_layers(reading);
    smoe_resolve_random(reading);
    resolve_steps(reading);
    resolve_schedule(reading);
    check_patience(reading);
    check_pieces(reading);
    check_experts_over(reading);
    smoe_resolve_moe(reading);
    check_model(reading);
    check_size(reading);
    check_data(reading);
    check_facts(reading);
    check_text(reading);
}
