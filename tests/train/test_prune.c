/* Laws of models with fewer experts: all of them change nothing, one that nothing uses is not
 * missed, of equal experts any will do, and their mean is each of them. */
#include "approx.h"
#include "overrides.h"
#include "scratch.h"
#include "store/model_file.h"
#include "tensors/params_io.h"
#include "train/evaluate.h"
#include "train/prune.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { E = 4, IMAGES = 24, BATCH = 10, UNUSED = 2 };

static const char text[] =
    "data: {source: shapes, image_size: 8, test_size: 40}\n"
    "model: {variant: none, width: 8, depth: 3, mlp: 12, heads: 2, patch_size: 4,\n"
    "  moe: {layers: last-2, experts: 4}}\n";

typedef struct pruning {
    scratch folder;
    char path[SCRATCH_PATH];
    smoe_spec spec, fewer;
    smoe_dataset *set;
    smoe_safetensors *file;
    smoe_model *from, *to;
    smoe_pruned pruned;
    smoe_err err;
} pruning;

static real *weights(smoe_params *params, const char *name) {
    const smoe_param *param = smoe_params_find(params, name);
    assert_non_null(param);
    return params->w + param->offset;
}

/* Initial weights, changed by `change`, in a file, and the model of it. */
static void begin(pruning *k, const char *override, void (*change)(smoe_params *params)) {
    overrides list = {0};
    smoe_model *model;
    *k = (pruning){0};
    if (override) overrides_set(&list, "%s", override);
    overrides_parse(&k->spec, text, &list);
    scratch_make(&k->folder);
    scratch_path(&k->folder, k->path, "model.safetensors");
    assert_int_equal(smoe_dataset_open(&k->set, &k->spec, "test", NULL, &k->err), 0);
    size_t classes = smoe_dataset_classes(k->set);
    assert_int_equal(smoe_model_create(&model, &k->spec, classes, &k->err), 0);
    smoe_params *params = smoe_model_params(model);
    assert_int_equal(smoe_params_allocate(params, 1, &k->err), 0);
    smoe_params_init(params, 3);
    const smoe_param *head = smoe_params_find(params, "head.weight"); /* which starts at zero */
    for (size_t i = 0; i < head->size; i++)
        params->w[head->offset + i] = (real)(i * i % 7) / 7 - (real)0.4;
    if (change) change(params);
    assert_int_equal(smoe_model_file_write(k->path, params, &k->spec, 0, NULL, NULL, &k->err), 0);
    smoe_model_free(model);
    assert_int_equal(smoe_safetensors_open(&k->file, k->path, &k->err), 0);
    assert_int_equal(smoe_model_create(&k->from, &k->spec, classes, &k->err), 0);
    assert_int_equal(smoe_params_map(smoe_model_params(k->from), k->file, &k->err), 0);
    assert_int_equal(smoe_model_reserve(k->from, BATCH, false, &k->err), 0);
}

static int fewer_of(smoe_spec *fewer, const smoe_spec *spec, size_t experts, smoe_err *err) {
    char *json = smoe_spec_json(spec);
    int status = smoe_prune_spec(fewer, spec, json, experts, err);
    free(json);
    return status;
}

static void prune(pruning *k, size_t experts) {
    if (fewer_of(&k->fewer, &k->spec, experts, &k->err)) fail_msg("%s", k->err.text);
    assert_int_equal(smoe_model_create(&k->to, &k->fewer, smoe_dataset_classes(k->set), &k->err),
                     0);
    if (smoe_prune(&k->pruned, k->to, experts, &(smoe_model_source){k->from, &k->spec, k->file},
                   &(smoe_likeness_images){k->set, IMAGES, BATCH}, &k->err))
        fail_msg("%s", k->err.text);
    assert_int_equal(k->pruned.likeness.images, IMAGES);
    assert_true(k->pruned.likeness.spread > 0);
}

static void end(pruning *k) {
    smoe_pruned_free(&k->pruned);
    smoe_model_free(k->to);
    smoe_model_free(k->from);
    smoe_safetensors_free(k->file);
    smoe_dataset_free(k->set);
    smoe_spec_free(&k->fewer);
    smoe_spec_free(&k->spec);
    scratch_remove(&k->folder);
}

static void all_experts_change_nothing(void **state) {
    static const char *const routers[] = {
        "model.moe.router=soft", "model.moe.router=soft-uniform", "model.moe.router=tokens-choice",
        "model.moe.router=experts-choice",
        "model.moe={layers: last-2, experts: 4, slots_per_expert: 0, capacity: [1, 3]}"};
    for (size_t r = 0; r < sizeof routers / sizeof *routers; r++) {
        pruning k;
        begin(&k, routers[r], NULL);
        prune(&k, E);
        const smoe_params *params = smoe_model_params(k.to);
        assert_int_equal(params->count, smoe_safetensors_count(k.file));
        for (size_t i = 0; i < params->count; i++) {
            const smoe_param *to = &params->param[i];
            const smoe_tensor *tensor = smoe_safetensors_find(k.file, to->name);
            assert_non_null(tensor);
            assert_memory_equal(params->w + to->offset, tensor->data, to->whole * sizeof(float));
        }
        assert_true(k.pruned.likeness.largest == 0);
        assert_int_equal(k.pruned.likeness.same, IMAGES);
        end(&k);
    }
}

/* The first element of every token is 1, and the logit of the unused expert -10^4. */
static void disuse(smoe_params *params) {
    for (int block = 1; block < 3; block++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%d.norm2.weight", block);
        weights(params, name)[0] = 0;
        snprintf(name, sizeof name, "blocks.%d.norm2.bias", block);
        weights(params, name)[0] = 1;
        snprintf(name, sizeof name, "blocks.%d.mlp.router.phi", block);
        weights(params, name)[UNUSED] = -1e4F; /* [d,E,1] */
    }
}

static void an_unused_expert_is_not_missed(void **state) {
    pruning k;
    begin(&k, "model.moe.normalize=false", disuse);
    prune(&k, E - 1);
    assert_int_equal(k.pruned.layers, 2);
    for (size_t layer = 0; layer < 2; layer++) {
        const double *share = k.pruned.share + layer * E;
        const size_t *kept = k.pruned.kept + layer * (E - 1);
        assert_true(share[UNUSED] == 0);
        assert_close(share[0] + share[1] + share[3], 1, 1e-12);
        assert_true(kept[0] == 0 && kept[1] == 1 && kept[2] == 3);
    }
    assert_true(k.pruned.likeness.preserved);
    end(&k);
    begin(&k, "model.moe.normalize=false", disuse);
    prune(&k, E - 2); /* one that is used is */
    assert_false(k.pruned.likeness.preserved);
    end(&k);
}

/* All experts of a layer as the first one. */
static void equal(smoe_params *params) {
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *p = &params->param[i];
        size_t one = p->whole / (p->ndim ? p->dim[0] : 1);
        if (strstr(p->name, ".experts."))
            for (size_t j = one; j < p->whole; j++)
                params->w[p->offset + j] = params->w[p->offset + j % one];
    }
}

static void equal_experts_can_be_replaced(void **state) {
    pruning k;
    begin(&k, "model.moe.router=uniform", equal); /* every slot is the mean of all tokens */
    prune(&k, 2);
    for (size_t e = 0; e < E; e++) assert_close(k.pruned.share[e], 0.25, 1e-12);
    assert_true(k.pruned.kept[0] == 0 && k.pruned.kept[1] == 1); /* of equals the first */
    assert_true(k.pruned.likeness.preserved);
    end(&k);
    begin(&k, "model.moe.router=identity", equal); /* a slot is a token: an MLP for all */
    prune(&k, 0);
    assert_int_equal(smoe_model_moe_layers(k.to), 0);
    assert_true(k.pruned.likeness.preserved);
    end(&k);
    begin(&k, "model.moe.router=identity", NULL);
    prune(&k, 0);
    assert_false(k.pruned.likeness.preserved);
    end(&k);
}

static void the_mean_is_weighted(void **state) {
    pruning k;
    begin(&k, NULL, NULL);
    prune(&k, 0);
    const smoe_tensor *experts = smoe_safetensors_find(k.file, "blocks.2.mlp.experts.fc2.weight");
    const real *mean = weights(smoe_model_params(k.to), "blocks.2.mlp.fc2.weight");
    size_t one = experts->size / E;
    for (size_t i = 0; i < one; i++) {
        double sum = 0;
        for (size_t e = 0; e < E; e++) {
            real w;
            assert_true(smoe_tensor_convert(&w, experts, e * one + i, 1));
            sum += k.pruned.share[E + e] * (double)w;
        }
        assert_close((double)mean[i], sum, 1e-7);
    }
    end(&k);
}

static int keep_logits(void *user, const smoe_batch *batch, const real *logits, size_t classes,
                       smoe_err *err) {
    (void)err;
    memcpy((real *)user + batch->first * classes, logits, batch->images * classes * sizeof *logits);
    return 0;
}

/* Images that lie evenly over a split are in the order of its classes, or of its files: groups of
 * choice routers are formed over a permutation of them, which for all images is that of an
 * evaluation. */
static void groups_are_those_of_an_evaluation(void **state) {
    enum { ALL = 40, CLASSES = 10 };
    pruning k;
    real alike[ALL * CLASSES], evaluated[ALL * CLASSES];
    smoe_eval eval;
    begin(&k, "model.moe={router: tokens-choice, experts: 4, priority: random, capacity: 0.5}",
          NULL);
    assert_int_equal(smoe_likeness_logits(alike, k.from, &k.spec,
                                          &(smoe_likeness_images){k.set, ALL, BATCH}, &k.err),
                     0);
    const smoe_eval_options options = {.sink = keep_logits, .user = evaluated};
    assert_int_equal(smoe_evaluate(k.from, &k.spec, k.set, BATCH, &options, &eval, &k.err), 0);
    assert_memory_equal(alike, evaluated, sizeof alike);
    end(&k);
}

/* What has a number per expert has one of a single expert too. */
static void one_expert_keeps_its_bias(void **state) {
    pruning k;
    begin(&k, "model.moe={layers: last-2, experts: 4, router: tokens-choice, balance: bias}", NULL);
    prune(&k, 1);
    const smoe_param *bias = smoe_params_find(smoe_model_params(k.to), "blocks.1.mlp.router.bias");
    assert_int_equal(bias->ndim, 1);
    assert_int_equal(bias->dim[0], 1);
    end(&k);
}

static void what_cannot_be_pruned(void **state) {
    static const struct {
        const char *override;
        size_t experts;
        const char *says;
    } cases[] = {{"model.moe.layers=none", 2, "the model has no experts"},
                 {"seed=1", E + 1, "--experts 5: the model has 4 experts"},
                 {"model.moe.universal_experts=1", 2, "universal experts"},
                 {"model.moe.shared_experts=1", 0, "shared experts"},
                 {"model.moe.router=identity", 2, "identity"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        overrides list = {0};
        smoe_spec spec, fewer = {0};
        smoe_err err;
        overrides_set(&list, "%s", cases[i].override);
        if (strstr(cases[i].override, "universal"))
            overrides_set(&list, "model.moe.router=experts-choice");
        overrides_parse(&spec, text, &list);
        assert_int_equal(fewer_of(&fewer, &spec, cases[i].experts, &err), -1);
        assert_int_equal(err.code, SMOE_USAGE);
        if (!strstr(err.text, cases[i].says)) fail_msg("%s", err.text);
        smoe_spec_free(&fewer);
        smoe_spec_free(&spec);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_experts_change_nothing),
        cmocka_unit_test(an_unused_expert_is_not_missed),
        cmocka_unit_test(equal_experts_can_be_replaced),
        cmocka_unit_test(the_mean_is_weighted),
        cmocka_unit_test(groups_are_those_of_an_evaluation),
        cmocka_unit_test(one_expert_keeps_its_bias),
        cmocka_unit_test(what_cannot_be_pruned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
