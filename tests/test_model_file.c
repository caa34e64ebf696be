/* Model files that need no model: initial values equal to those of a table in memory, conversions
 * element by element, what is refused, and that a refusal leaves nothing behind. */
#include "base/bf16.h"
#include "models.h"
#include "scratch.h"
#include "train/model_file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static smoe_safetensors *opened(const char *path) {
    smoe_safetensors *file;
    smoe_err err = {0};
    if (smoe_safetensors_open(&file, path, &err)) fail_msg("%s", err.text);
    return file;
}

/* Wider than a piece of the writer (2^20) and than a stream of initial values (2^16). */
static const char keys[] = "model.moe.experts=1100 model.width=16 model.mlp=64";

static void test_initial(void **state) {
    char path[SCRATCH_PATH], narrow[SCRATCH_PATH];
    models_rig r;
    smoe_err err = {0};
    smoe_stored stored;
    assert_true(models_make(&r, keys, 1, false));
    smoe_params_init(r.params, r.spec.seed);
    smoe_storage wide = {.type = SMOE_DTYPE_F32};
    scratch_path(*state, path, "wide");
    assert_int_equal(smoe_model_file_initial(path, r.params, &r.spec, &wide, &stored, &err), 0);
    assert_int_equal(stored.tensors, r.params->count);
    assert_int_equal(stored.changed, 0);
    assert_true(stored.bytes == 4.0 * (double)r.params->total);
    smoe_safetensors *file = opened(path);
    size_t largest = 0;
    for (size_t i = 0; i < r.params->count; i++) {
        const smoe_param *p = &r.params->row[i];
        assert_memory_equal(smoe_safetensors_find(file, p->name)->data, r.params->w + p->offset,
                            p->size * sizeof(float));
        if (p->size > largest) largest = p->size;
    }
    assert_true(largest > SMOE_TENSOR_PIECE);
    assert_string_equal(smoe_safetensors_metadata(file, "smoe.step"), "0");

    /* In BF16: each value rounded; the others named by `only` alone. */
    smoe_storage some = {.type = SMOE_DTYPE_BF16, .only = ".experts."};
    scratch_path(*state, narrow, "narrow");
    assert_int_equal(smoe_model_file_initial(narrow, r.params, &r.spec, &some, &stored, &err), 0);
    assert_int_equal(stored.changed, 4); /* two weights, two biases of the one sparse block */
    smoe_safetensors *half = opened(narrow);
    for (size_t i = 0; i < r.params->count; i++) {
        const smoe_param *p = &r.params->row[i];
        const smoe_tensor *t = smoe_safetensors_find(half, p->name);
        const real *w = r.params->w + p->offset;
        assert_int_equal(t->dtype, p->expert ? SMOE_DTYPE_BF16 : SMOE_DTYPE_F32);
        for (size_t j = 0; p->expert && j < p->size; j++)
            assert_true(((const smoe_bf16 *)t->data)[j] == smoe_bf16_round(w[j]));
    }

    /* The same by conversion of the wide file, metadata included: the same bytes. */
    char again[SCRATCH_PATH];
    scratch_path(*state, again, "again");
    assert_int_equal(smoe_model_file_convert(again, file, &some, &stored, &err), 0);
    assert_int_equal(stored.changed, 4);
    size_t a, b;
    char *x = scratch_read(narrow, &a), *y = scratch_read(again, &b);
    assert_int_equal(a, b);
    assert_memory_equal(x, y, a);
    free(x);
    free(y);
    smoe_safetensors_free(file);
    smoe_safetensors_free(half);
    models_free(&r);
}

/* Every type to every type and back where nothing is lost. */
static void test_there_and_back(void **state) {
    static const float values[] = {0, -0.0f, 1, -1.5f, 0.125f, 3, INFINITY, NAN};
    enum { N = sizeof values / sizeof *values };
    static const smoe_dtype types[] = {SMOE_DTYPE_BF16, SMOE_DTYPE_F16, SMOE_DTYPE_F32};
    char path[SCRATCH_PATH], other[SCRATCH_PATH], back[SCRATCH_PATH];
    smoe_err err = {0};
    smoe_stored stored;
    smoe_tensor t = {.name = "x",
                     .dtype = SMOE_DTYPE_F32,
                     .ndim = 2,
                     .dim = {2, N / 2},
                     .size = N,
                     .data = values};
    smoe_pair pairs[] = {{"b", "1"}, {"a", "2"}};
    scratch_path(*state, path, "first");
    assert_int_equal(smoe_safetensors_write(path, &t, 1, pairs, 2, &err), 0);
    smoe_safetensors *first = opened(path);
    for (size_t i = 0; i < 3; i++) {
        smoe_storage to = {.type = types[i]}, from = {.type = SMOE_DTYPE_F32};
        assert_int_equal(smoe_model_file_convert(scratch_path(*state, other, "other"), first, &to,
                                                 &stored, &err),
                         0);
        smoe_safetensors *narrow = opened(other);
        const smoe_tensor *x = smoe_safetensors_find(narrow, "x");
        assert_int_equal(x->dtype, types[i]);
        assert_int_equal(x->ndim, 2);
        assert_string_equal(smoe_safetensors_metadata(narrow, "a"), "2");
        assert_int_equal(smoe_model_file_convert(scratch_path(*state, back, "back"), narrow, &from,
                                                 &stored, &err),
                         0);
        smoe_safetensors_free(narrow);
        size_t a, b;
        char *p = scratch_read(path, &a), *q = scratch_read(back, &b);
        assert_int_equal(a, b);
        assert_memory_equal(p, q, a);
        free(p);
        free(q);
    }
    smoe_safetensors_free(first);
}

static void refused(void **state, const smoe_tensor *t, smoe_dtype type, const char *message) {
    char path[SCRATCH_PATH], out[SCRATCH_PATH];
    smoe_err err = {0};
    smoe_stored stored;
    smoe_storage storage = {.type = type};
    scratch_path(*state, path, "bad");
    assert_int_equal(smoe_safetensors_write(path, t, 1, NULL, 0, &err), 0);
    smoe_safetensors *file = opened(path);
    scratch_path(*state, out, "out");
    assert_int_equal(smoe_model_file_convert(out, file, &storage, &stored, &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
    if (!strstr(err.text, message)) fail_msg("%s", err.text);
    assert_int_equal(scratch_entries(((const scratch *)*state)->dir), 1);
    smoe_safetensors_free(file);
}

static void test_refusals(void **state) {
    enum { N = SMOE_TENSOR_PIECE + 100000 };
    float *x = calloc(N, sizeof *x);
    smoe_tensor t = {
        .name = "big", .dtype = SMOE_DTYPE_F32, .ndim = 1, .dim = {N}, .size = N, .data = x};
    x[SMOE_TENSOR_PIECE + 70000] = 1e5f; /* in the second piece, in the second run of it */
    x[SMOE_TENSOR_PIECE + 80000] = 1e5f;
    refused(state, &t, SMOE_DTYPE_F16,
            "bad: tensor big: element 1118576 is beyond what F16 can hold");
    x[7] = 3.4e38f;
    refused(state, &t, SMOE_DTYPE_BF16, "bad: tensor big: element 7 is beyond what BF16 can hold");
    const int64_t whole[] = {1, 2};
    t = (smoe_tensor){
        .name = "n", .dtype = SMOE_DTYPE_I64, .ndim = 1, .dim = {2}, .size = 2, .data = whole};
    refused(state, &t, SMOE_DTYPE_BF16, "bad: tensor n: dtype I64, expected F32, F16, BF16 or F64");
    free(x);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_initial),
        TEST(test_there_and_back),
        TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
