/* Soups against sums by hand: the file is the mean of its members; a greedy soup is the mean of
 * the members that were kept. */
#include "data/dataset.h"
#include "scratch.h"
#include "store/model_file.h"
#include "train/soup.h"
#include "vit/model.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 3 };

typedef struct soup_fixture {
    scratch folder;
    char path[MEMBERS][SCRATCH_PATH];
    smoe_soup_member member[MEMBERS];
    smoe_spec spec;
    smoe_dataset *set;
    smoe_err err;
} soup_fixture;

static const char text[] =
    "{data: {source: shapes, image_size: 8, test_size: 40},"
    " model: {variant: none, width: 8, depth: 1, mlp: 12, heads: 2, patch_size: 4,"
    "  moe: {layers: last-1, experts: 3}}}";

/* Initial weights from three seeds. */
static int soup_setup(void **state) {
    soup_fixture *k = calloc(1, sizeof *k);
    scratch_make(&k->folder);
    assert_int_equal(smoe_spec_parse(&k->spec, &(smoe_spec_text){.text = text, .label = "soup"},
                                     NULL, 0, &k->err),
                     0);
    assert_int_equal(smoe_dataset_open(&k->set, &k->spec, "test", NULL, &k->err), 0);
    for (int i = 0; i < MEMBERS; i++) {
        smoe_model *model;
        smoe_stored stored;
        smoe_storage storage = {.type = SMOE_DTYPE_F32};
        char name[] = "0.safetensors";
        name[0] = (char)('0' + i);
        scratch_path(&k->folder, k->path[i], name);
        k->spec.seed = (uint64_t)i;
        assert_int_equal(smoe_model_create(&model, &k->spec, 10, &k->err), 0);
        assert_int_equal(smoe_model_file_initial(k->path[i], smoe_model_params(model), &k->spec,
                                                 &storage, &stored, &k->err),
                         0);
        smoe_model_free(model);
        k->member[i].path = k->path[i];
    }
    *state = k;
    return 0;
}

static int soup_teardown(void **state) {
    soup_fixture *k = *state;
    smoe_dataset_free(k->set);
    smoe_spec_free(&k->spec);
    scratch_remove(&k->folder);
    free(k);
    return 0;
}

/* Every element of the file is the mean over the included members. */
static void assert_means(const soup_fixture *k, const char *out) {
    smoe_safetensors *soup, *file[MEMBERS];
    smoe_err err;
    size_t in = 0;
    assert_int_equal(smoe_safetensors_open(&soup, out, &err), 0);
    for (int i = 0; i < MEMBERS; i++)
        if (k->member[i].in)
            assert_int_equal(smoe_safetensors_open(&file[in++], k->member[i].path, &err), 0);
    assert_true(in > 0);
    for (size_t t = 0; t < smoe_safetensors_count(soup); t++) {
        const smoe_tensor *mean = smoe_safetensors_at(soup, t);
        for (size_t j = 0; j < mean->size; j++) {
            double sum = 0;
            real value;
            for (size_t i = 0; i < in; i++) {
                const smoe_tensor *one = smoe_safetensors_find(file[i], mean->name);
                assert_true(smoe_tensor_convert(&value, one, j, 1));
                sum += (double)value;
            }
            assert_true(smoe_tensor_convert(&value, mean, j, 1));
            assert_true(value == (real)(sum / (double)in));
        }
    }
    for (size_t i = 0; i < in; i++) smoe_safetensors_free(file[i]);
    smoe_safetensors_free(soup);
}

static void uniform_is_the_mean(void **state) {
    soup_fixture *k = *state;
    char out[SCRATCH_PATH];
    smoe_eval soup;
    scratch_path(&k->folder, out, "soup.safetensors");
    smoe_soup_options options = {.out = out};
    assert_int_equal(smoe_soup_make(k->member, MEMBERS, &k->spec, k->set, &options, &soup, &k->err),
                     0);
    assert_means(k, out);
    for (int i = 0; i < MEMBERS; i++) {
        assert_true(k->member[i].in);
        assert_string_equal(k->member[i].path, k->path[i]); /* as given */
    }
    assert_true(k->member[0].with.loss == k->member[0].alone.loss);
    assert_true(soup.loss == k->member[2].with.loss);
    /* The experts of the first member match themselves; those of other seeds do not match. */
    assert_true(k->member[0].aligned == 1);
    assert_true(fabs(k->member[0].cosine - 1) < 1e-6);
    assert_true(k->member[1].cosine < 0.5);
}

static void greedy_keeps_what_does_not_harm(void **state) {
    soup_fixture *k = *state;
    char out[SCRATCH_PATH];
    smoe_eval soup;
    scratch_path(&k->folder, out, "soup.safetensors");
    smoe_soup_options options = {.greedy = true, .out = out};
    assert_int_equal(smoe_soup_make(k->member, MEMBERS, &k->spec, k->set, &options, &soup, &k->err),
                     0);
    assert_means(k, out);
    assert_true(k->member[0].in);
    double best = k->member[0].alone.precision_at_1;
    for (int i = 0; i < MEMBERS; i++) {
        const smoe_soup_member *m = &k->member[i];
        assert_true(i == 0 || m->alone.precision_at_1 <= m[-1].alone.precision_at_1);
        assert_int_equal(m->in, m->with.precision_at_1 >= best);
        if (m->in) best = m->with.precision_at_1;
    }
    assert_true(soup.precision_at_1 == best);
}

static void unrelated_models_are_refused(void **state) {
    soup_fixture *k = *state;
    smoe_eval soup;
    smoe_soup_options options = {0};
    k->spec.model.mlp = 16;
    assert_int_equal(smoe_soup_make(k->member, MEMBERS, &k->spec, k->set, &options, &soup, &k->err),
                     -1);
    assert_int_equal(k->err.code, SMOE_DATA);
    assert_non_null(strstr(k->err.text, "0.safetensors: mlp 12, the spec says 16"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        unit_test_with(uniform_is_the_mean, soup),
        unit_test_with(greedy_keeps_what_does_not_harm, soup),
        unit_test_with(unrelated_models_are_refused, soup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
