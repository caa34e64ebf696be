/* See models.h. */
#include "models.h"
#include "gradcheck.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char models_base[] =
    "seed: 3\n"
    "data: {source: shapes, image_size: 8, channels: 1, classes: 5}\n"
    "model:\n"
    "  {width: 8, depth: 2, mlp: 6, heads: 2, patch_size: 4,\n"
    "   moe: {layers: last-1, experts: 3, slots_per_expert: 0, group_images: 1}}\n"
    "train: {steps: 10, batch_size: 4, schedule: {name: constant}}\n";

bool models_spec(smoe_spec *spec, const char *keys) {
    char *list[OVERRIDES], *copy = strdup(keys), *rest = NULL;
    size_t count = 0;
    smoe_err err = {0};
    assert_non_null(copy);
    for (char *key = strtok_r(copy, " ", &rest); key; key = strtok_r(NULL, " ", &rest)) {
        assert_true(count < OVERRIDES);
        list[count++] = key;
    }
    const smoe_spec_text base = {.text = models_base,
                                 .label = "small",
                                 .of_cells = true}; /* lists of keys serve several routers */
    int status = smoe_spec_parse(spec, &base, list, count, &err);
    free(copy);
    if (!status) return true;
    assert_int_equal(err.code, SMOE_USAGE);
    smoe_spec_free(spec);
    return false;
}

bool models_make(models_rig *rig, const char *keys, size_t B, bool train) {
    smoe_err err = {0};
    *rig = (models_rig){.B = B};
    if (!models_spec(&rig->spec, keys)) return false;
    rig->N = rig->spec.data.classes;
    if (smoe_model_create(&rig->model, &rig->spec, rig->N, &err)) fail_msg("%s", err.text);
    rig->params = smoe_model_params(rig->model);
    gradcheck_scatter(rig->params, rig->spec.seed, 0.25, 0);
    if (smoe_model_reserve(rig->model, B, train, &err)) fail_msg("%s", err.text);
    rig->pixels = rig->spec.data.channels * rig->spec.data.image_size * rig->spec.data.image_size;
    rig->image = calloc(B * rig->pixels, sizeof *rig->image);
    assert_non_null(rig->image);
    gradcheck_normal(rig->image, B * rig->pixels, 17);
    rig->pass = (smoe_pass){.train = train, .seed = rig->spec.seed, .step = 7, .images = B};
    rig->targets = calloc(B * rig->N, sizeof *rig->targets);
    assert_non_null(rig->targets);
    for (size_t i = 0; i < B * rig->N; i++)
        rig->targets[i] = (real)(2 * (1 + i % rig->N)) / (real)(rig->N * (rig->N + 1));
    rig->pass.targets = rig->targets;
    rig->pass.classes = rig->N;
    return true;
}

void models_free(models_rig *rig) {
    smoe_model_free(rig->model);
    smoe_spec_free(&rig->spec);
    free(rig->image);
    free(rig->targets);
}
