/* Model files without a model in memory: initial values equal to those of a table in memory,
 * conversions element by element, refused files, and that a refusal leaves no file behind. And
 * models whose weights are used from the file. */
#include "base/bf16.h"
#include "models.h"
#include "scratch.h"
#include "store/model_file.h"
#include "tensors/params_io.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static smoe_safetensors *opened(const char *path) {
    smoe_safetensors *file;
    smoe_err err = {0};
    if (smoe_safetensors_open(&file, path, &err)) fail_msg("%s", err.text);
    return file;
}

/* Longer than a piece of the writer (2^20) and a stream of initial values (2^16). */
static const char keys[] = "model.moe.experts=1100 model.width=16 model.mlp=64";

static void test_initial(void **state) {
    char path[SCRATCH_PATH], narrow[SCRATCH_PATH];
    models_rig r;
    smoe_err err = {0};
    smoe_stored result;
    assert_true(models_make(&r, keys, 1, false));
    smoe_params_init(r.params, r.spec.seed);
    smoe_storage wide = {.type = SMOE_DTYPE_F32};
    scratch_path(*state, path, "wide");
    assert_int_equal(smoe_model_file_initial(path, r.params, &r.spec, &wide, &result, &err), 0);
    assert_int_equal(result.tensors, r.params->count);
    assert_int_equal(result.changed, 0);
    assert_true(result.bytes == 4.0 * (double)r.params->total);
    smoe_safetensors *file = opened(path);
    size_t largest = 0;
    for (size_t i = 0; i < r.params->count; i++) {
        const smoe_param *p = &r.params->param[i];
        assert_memory_equal(smoe_safetensors_find(file, p->name)->data, r.params->w + p->offset,
                            p->size * sizeof(float));
        if (p->size > largest) largest = p->size;
    }
    assert_true(largest > SMOE_TENSOR_PIECE);
    assert_string_equal(smoe_safetensors_metadata(file, "smoe.step"), "0");

    /* In BF16: each value is rounded; with `only`, just the named tensors. */
    smoe_storage some = {.type = SMOE_DTYPE_BF16, .only = ".experts."};
    scratch_path(*state, narrow, "narrow");
    assert_int_equal(smoe_model_file_initial(narrow, r.params, &r.spec, &some, &result, &err), 0);
    assert_int_equal(result.changed, 4); /* two weights, two biases of the one sparse block */
    smoe_safetensors *half = opened(narrow);
    for (size_t i = 0; i < r.params->count; i++) {
        const smoe_param *p = &r.params->param[i];
        const smoe_tensor *t = smoe_safetensors_find(half, p->name);
        const real *w = r.params->w + p->offset;
        assert_int_equal(t->dtype, p->stacked ? SMOE_DTYPE_BF16 : SMOE_DTYPE_F32);
        for (size_t j = 0; p->stacked && j < p->size; j++)
            assert_true(((const smoe_bf16 *)t->data)[j] == smoe_bf16_round(w[j]));
    }

    /* The same by conversion of the F32 file, metadata included: the same bytes. */
    char again[SCRATCH_PATH];
    scratch_path(*state, again, "again");
    assert_int_equal(smoe_model_file_convert(again, file, &some, &result, &err), 0);
    assert_int_equal(result.changed, 4);
    scratch_assert_same(narrow, again);
    smoe_safetensors_free(file);
    smoe_safetensors_free(half);
    models_free(&r);
}

/* Every type to every type and back, where this loses nothing. */
static void test_there_and_back(void **state) {
    static const float values[] = {0, -0.0f, 1, -1.5f, 0.125f, 3, INFINITY, NAN};
    enum { N = sizeof values / sizeof *values };
    static const smoe_dtype types[] = {SMOE_DTYPE_BF16, SMOE_DTYPE_F16, SMOE_DTYPE_F32};
    char path[SCRATCH_PATH], other[SCRATCH_PATH], back[SCRATCH_PATH];
    smoe_err err = {0};
    smoe_stored result;
    smoe_tensor t = {.name = "x",
                     .dtype = SMOE_DTYPE_F32,
                     .ndim = 2,
                     .dim = {2, N / 2},
                     .size = N,
                     .data = values};
    smoe_pair pairs[] = {{"b", "1"}, {"a", "2"}};
    scratch_path(*state, path, "first");
    assert_int_equal(smoe_safetensors_write(path, &(const smoe_content){&t, 1, pairs, 2}, &err), 0);
    smoe_safetensors *first = opened(path);
    for (size_t i = 0; i < 3; i++) {
        smoe_storage to = {.type = types[i]}, from = {.type = SMOE_DTYPE_F32};
        assert_int_equal(smoe_model_file_convert(scratch_path(*state, other, "other"), first, &to,
                                                 &result, &err),
                         0);
        smoe_safetensors *narrow = opened(other);
        const smoe_tensor *x = smoe_safetensors_find(narrow, "x");
        assert_int_equal(x->dtype, types[i]);
        assert_int_equal(x->ndim, 2);
        assert_string_equal(smoe_safetensors_metadata(narrow, "a"), "2");
        assert_int_equal(smoe_model_file_convert(scratch_path(*state, back, "back"), narrow, &from,
                                                 &result, &err),
                         0);
        smoe_safetensors_free(narrow);
        scratch_assert_same(path, back);
    }
    smoe_safetensors_free(first);
}

static void refused(void **state, const smoe_tensor *t, smoe_dtype type, const char *message) {
    char path[SCRATCH_PATH], out[SCRATCH_PATH];
    smoe_err err = {0};
    smoe_stored result;
    smoe_storage storage = {.type = type};
    scratch_path(*state, path, "bad");
    assert_int_equal(smoe_safetensors_write(path, &(const smoe_content){t, 1}, &err), 0);
    smoe_safetensors *file = opened(path);
    scratch_path(*state, out, "out");
    assert_int_equal(smoe_model_file_convert(out, file, &storage, &result, &err), -1);
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
    refused(
        state, &t, SMOE_DTYPE_BF16,
        "bad: tensor n: dtype I64, expected F32, F16, BF16 or F64; save tensor.float() instead");
    t.dtype = SMOE_DTYPE_U8; /* as the packed weights of a quantized model */
    refused(state, &t, SMOE_DTYPE_BF16,
            "bad: tensor n: dtype U8, expected F32, F16, BF16 or F64; quantized weights need their "
            "scales: save them dequantized");
    free(x);
}

/* ---- weights used from the file -------------------------------------------------------------- */

/* The weights of r as a file of this storage type, with the data shifted by `shift` bytes. */
static smoe_safetensors *stored(void **state, const models_rig *r, smoe_dtype type,
                                const char *only, size_t shift) {
    char wide[SCRATCH_PATH], path[SCRATCH_PATH];
    smoe_err err = {0};
    smoe_stored result;
    smoe_storage storage = {.type = type, .only = only};
    scratch_path(*state, wide, "wide");
    scratch_path(*state, path, "stored");
    assert_int_equal(smoe_model_file_write(wide, r->params, &r->spec, 0, "[\"a\"]", NULL, &err), 0);
    smoe_safetensors *file = opened(wide);
    assert_int_equal(smoe_model_file_convert(path, file, &storage, &result, &err), 0);
    smoe_safetensors_free(file);
    size_t size;
    uint64_t length;
    char *bytes = scratch_read(path, &size), *moved = malloc(size + shift);
    memcpy(&length, bytes, 8);
    memcpy(moved, bytes, 8 + length);
    memset(moved + 8 + length, ' ', shift); /* a longer header */
    memcpy(moved + 8 + length + shift, bytes + 8 + length, size - 8 - length);
    length += shift;
    memcpy(moved, &length, 8);
    scratch_write(path, moved, size + shift);
    free(bytes);
    free(moved);
    /* The digest does not include the blanks. */
    if (smoe_safetensors_peek(&file, path, NULL, &err)) fail_msg("%s", err.text);
    return file;
}

/* A model that uses a file gives the bits of one that loaded it; also which tensors stay in the
 * file. */
static void same_logits(const models_rig *r, const smoe_safetensors *file, size_t in_file) {
    smoe_model *loaded, *mapped;
    smoe_err err = {0};
    assert_int_equal(smoe_model_create(&loaded, &r->spec, r->N, &err), 0);
    assert_int_equal(smoe_model_create(&mapped, &r->spec, r->N, &err), 0);
    smoe_params *p = smoe_model_params(loaded), *q = smoe_model_params(mapped);
    assert_int_equal(smoe_params_allocate(p, 1, &err), 0);
    assert_int_equal(smoe_params_load(p, file, SMOE_FIT_EXACT, NULL, &err), 0);
    assert_int_equal(smoe_params_map(q, file, &err), 0);
    size_t found = 0;
    for (size_t i = 0; i < q->count; i++) {
        const void *data = smoe_safetensors_find(file, q->param[i].name)->data;
        const real *values = smoe_weight(q, i);
        assert_true(!values == !!smoe_weight_bf16(q, i));
        if (values == data || smoe_weight_bf16(q, i) == data)
            found++;
        else
            assert_memory_equal(values, p->w + p->param[i].offset, p->param[i].size * sizeof(real));
    }
    assert_int_equal(found, in_file);
    assert_null(q->w);
    assert_int_equal(smoe_model_reserve(loaded, r->B, false, &err), 0);
    assert_int_equal(smoe_model_reserve(mapped, r->B, false, &err), 0);
    smoe_pass pass = {.images = r->B};
    smoe_model_forward(loaded, r->image, &pass);
    smoe_model_forward(mapped, r->image, &pass);
    assert_memory_equal(smoe_model_logits(loaded), smoe_model_logits(mapped),
                        r->B * r->N * sizeof(real));
    assert_true(fabs((double)*smoe_model_logits(mapped)) > 0);
    smoe_model_free(loaded);
    smoe_model_free(mapped);
}

static void test_mapped(void **state) {
    static const char *const routers[] = {
        "model.moe.router=soft",
        "model.moe.router=soft-uniform",
        "model.moe.router=uniform-soft",
        "model.moe.router=identity model.moe.experts=4",
        "model.moe.router=tokens-choice model.head=map",
        "model.moe.router=experts-choice model.head=token model.qk_norm=true"};
    for (size_t i = 0; i < sizeof routers / sizeof *routers; i++) {
        models_rig r;
        assert_true(models_make(&r, routers[i], 3, false));
        const struct {
            smoe_dtype type;
            const char *only;
            size_t shift, in_file;
        } rows[] = {
            {SMOE_DTYPE_F32, NULL, 0, r.params->count},     /* all of it unchanged */
            {SMOE_DTYPE_F32, NULL, 4, r.params->count},     /* data at a multiple of 4 only */
            {SMOE_DTYPE_F32, NULL, 1, 0},                   /* not aligned: copies */
            {SMOE_DTYPE_F16, NULL, 0, 0},                   /* converted */
            {SMOE_DTYPE_BF16, NULL, 0, 2},                  /* the two kernels of the experts */
            {SMOE_DTYPE_BF16, NULL, 1, 0},                  /* not these either */
            {SMOE_DTYPE_BF16, ".experts.fc1.weight", 2, 1}, /* the others are not aligned */
            {SMOE_DTYPE_BF16, ".experts.fc1.weight", 0, r.params->count}, /* all are */
        };
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            smoe_safetensors *file = stored(state, &r, rows[k].type, rows[k].only, rows[k].shift);
            same_logits(&r, file, rows[k].in_file);
            smoe_safetensors_free(file);
        }
        models_free(&r);
    }
}

/* Files that smoe_params_load refuses are refused here too, and the table then has no memory. */
static void test_mapped_refusals(void **state) {
    models_rig r;
    smoe_err load = {0}, map = {0};
    assert_true(models_make(&r, "", 1, false));
    smoe_safetensors *file = stored(state, &r, SMOE_DTYPE_BF16, NULL, 0);
    models_free(&r);
    assert_true(models_make(&r, "model.width=16 model.qk_norm=true", 1, false));
    assert_int_equal(smoe_params_load(r.params, file, SMOE_FIT_EXACT, NULL, &load), -1);
    assert_int_equal(smoe_params_map(r.params, file, &map), -1);
    assert_int_equal(map.code, SMOE_DATA);
    assert_string_equal(map.text, load.text);
    assert_null(r.params->place);
    smoe_safetensors_free(file);
    models_free(&r);
}

#define TEST(name) unit_test_with(name, scratch)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_initial), TEST(test_there_and_back),  TEST(test_refusals),
        TEST(test_mapped),  TEST(test_mapped_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
