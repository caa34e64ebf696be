/*
 * Starting from another model's file: positions of another grid against interpolation by hand and
 * against a law, experts as copies of a dense MLP, and files that are neither.
 */
#include "approx.h"
#include "scratch.h"
#include "tensors/init_map.h"
#include "tensors/params_io.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- positions ------------------------------------------------------------------------------- */

/* Positions [1,to,d] filled from [1,from,d], in single precision as in a file; before that, each
 * is 7. The model has a class token if `to` is a square and 1. */
static void resized(real *out, const float *values, size_t to, size_t from, size_t d) {
    static const char empty[] = "\2\0\0\0\0\0\0\0{}";
    smoe_params p = {0};
    smoe_safetensors *file;
    smoe_err err;
    assert_int_equal(smoe_safetensors_parse(&file, empty, sizeof empty - 1, "empty", &err), 0);
    if (to == 10) smoe_params_add(&p, smoe_param_constant(0), 3, (size_t[]){1, 1, d}, "cls_token");
    smoe_tensor t = {.name = "pos_embed",
                     .dtype = SMOE_DTYPE_F32,
                     .ndim = 3,
                     .dim = {1, from, d},
                     .size = from * d,
                     .data = values};
    smoe_params_add(&p, smoe_param_constant(0), 3, (size_t[]){1, to, d}, "pos_embed");
    const smoe_init_map map = {.params = &p, .file = file};
    for (size_t i = 0; i < to * d; i++) out[i] = 7;
    smoe_init_map_fill(out, &map, smoe_params_find(&p, "pos_embed"),
                       (smoe_init_source){&t, SMOE_WAY_RESIZED});
    smoe_safetensors_free(file);
    smoe_params_free(&p);
}

/* Two by two patches of two numbers become three by three: corners are kept, edges are means of
 * two, the centre is the mean of four. A class token's position comes first. */
static void by_hand(void **state) {
    static const float two[] = {1, 10, 3, 20, 5, 40, 11, 90};
    static const real three[] = {1, 10, 2, 15, 3, 20, 3, 25, 5, 40, 7, 55, 5, 40, 8, 65, 11, 90};
    real out[2 * 10];
    resized(out, two, 9, 4, 2);
    assert_memory_equal(out, three, sizeof three);
    float with_token[2 + 8] = {-1, -2};
    memcpy(with_token + 2, two, sizeof two);
    resized(out, with_token, 10, 5, 2);
    assert_true(out[0] == -1 && out[1] == -2);
    assert_memory_equal(out + 2, three, sizeof three);
    resized(out, with_token, 9, 5, 2);
    assert_memory_equal(out, three, sizeof three);
    resized(out, two, 10, 4, 2);
    assert_true(out[0] == 0 && out[1] == 0);
    assert_memory_equal(out + 2, three, sizeof three);
    /* in the other direction: only the corners; one patch becomes the centre, of an odd and of
     * an even grid */
    float back[18];
    for (size_t i = 0; i < 18; i++) back[i] = (float)three[i];
    resized(out, back, 4, 9, 2);
    for (size_t i = 0; i < 8; i++) assert_true(out[i] == (real)two[i]);
    resized(out, back, 1, 9, 2);
    assert_true(out[0] == 5 && out[1] == 40);
    resized(out, two, 1, 4, 2);
    assert_true(out[0] == 5 && out[1] == 40);
}

/* A linear function a + b row + c column, measured from corner to corner, stays the same on
 * every grid. Rounding: of the four numbers whose mean is the result, and of the result, half an
 * ulp of floats below 8 each. */
static void planes_stay_planes(void **state) {
    enum { MOST = 15, D = 300 };
    static float in[MOST * MOST * D];
    static real out[MOST * MOST * D];
    for (size_t from = 2; from <= MOST; from += 3)
        for (size_t to = 2; to <= MOST; to++) {
            for (size_t p = 0; p < from * from; p++)
                for (size_t i = 0; i < D; i++) {
                    double y = (double)(p / from) / (double)(from - 1),
                           x = (double)(p % from) / (double)(from - 1);
                    in[p * D + i] = (float)(1 + (double)i / D - 2 * y + 3 * x);
                }
            resized(out, in, to * to, from * from, D);
            for (size_t p = 0; p < to * to; p++)
                for (size_t i = 0; i < D; i++) {
                    double y = (double)(p / to) / (double)(to - 1),
                           x = (double)(p % to) / (double)(to - 1);
                    assert_close(out[p * D + i], 1 + (double)i / D - 2 * y + 3 * x, 5e-7);
                }
        }
}

/* ---- tables and files ------------------------------------------------------------------------ */

enum { W = 2, H = 3, T = 9 };

/* A block, dense or with E experts, after positions of T tokens. */
static void table(smoe_params *p, size_t tokens, size_t E) {
    smoe_err err = {0};
    size_t dim1[] = {E, H, W}, dim2[] = {E, W, H}, dense = E == 0;
    const char *infix = E ? "experts." : "";
    smoe_params_add(p, smoe_param_constant(7), 3, (size_t[]){1, tokens, W}, "pos_embed");
    int ndim = E ? 3 : 2;
    smoe_params_add(p, (smoe_param_kind){SMOE_PARAM_KERNEL, 7, 0}, ndim, dim1 + dense,
                    "blocks.3.mlp.%sfc1.weight", infix);
    smoe_params_add(p, smoe_param_constant(7), ndim - 1, dim1 + dense, "blocks.3.mlp.%sfc1.bias",
                    infix);
    smoe_params_add(p, (smoe_param_kind){SMOE_PARAM_KERNEL, 7, 0}, ndim, dim2 + dense,
                    "blocks.3.mlp.%sfc2.weight", infix);
    smoe_params_add(p, smoe_param_constant(7), ndim - 1, dim2 + dense, "blocks.3.mlp.%sfc2.bias",
                    infix);
    for (size_t i = 1; E && i < p->count; i++) p->param[i].stacked = true;
    if (E)
        smoe_params_add(p, smoe_param_constant(7), 2, (size_t[]){W, E}, "blocks.3.mlp.router.phi");
    assert_int_equal(smoe_params_allocate(p, 1, &err), 0);
    smoe_params_init(p, 0);
}

static void fill(smoe_params *p, int start) {
    for (size_t i = 0; i < p->count; i++)
        for (size_t j = 0; j < p->param[i].size; j++)
            p->w[p->param[i].offset + j] = (real)(start++);
}

static smoe_safetensors *file_of(const scratch *dir, const smoe_params *p) {
    char path[SCRATCH_PATH];
    smoe_err err = {0};
    smoe_tensor *t;
    smoe_safetensors *file;
    scratch_path(dir, path, "f");
    t = smoe_params_tensors(p, &(smoe_slab){.prefix = "", .values = p->w});
    assert_int_equal(smoe_safetensors_write(path, &(const smoe_content){t, p->count}, &err), 0);
    assert_int_equal(smoe_safetensors_open(&file, path, &err), 0);
    free(t);
    return file;
}

static void assert_text(const smoe_params *p, const smoe_safetensors *file, smoe_fit fit,
                        const char *start, const char *rest) {
    char want[512];
    char *text = smoe_init_map_text(p, file, fit);
    snprintf(want, sizeof want, "%s start from %s%s", start, smoe_safetensors_path(file), rest);
    assert_string_equal(text, want);
    free(text);
}

static void copies(void **state) {
    enum { E = 5 };
    smoe_params dense = {0}, moe = {0};
    smoe_err err = {0};
    size_t loaded = 0;
    table(&dense, T, 0);
    fill(&dense, 100);
    table(&moe, T, E);
    smoe_safetensors *file = file_of(*state, &dense);
    assert_int_equal(smoe_params_load(&moe, file, SMOE_FIT_UPCYCLE, &loaded, &err), 0);
    assert_int_equal(loaded, 5);
    for (size_t i = 0; i < dense.count; i++)
        for (size_t e = 0; e < (i ? E : 1); e++) {
            size_t n = dense.param[i].size;
            assert_memory_equal(moe.w + moe.param[i].offset + e * n,
                                dense.w + dense.param[i].offset, n * sizeof(real));
        }
    assert_true(moe.w[moe.param[5].offset] == 7);
    assert_text(&moe, file, SMOE_FIT_UPCYCLE, "5 of 6 tensors",
                "; copied into each expert: blocks.3.mlp.experts.fc1.weight, "
                "blocks.3.mlp.experts.fc1.bias, blocks.3.mlp.experts.fc2.weight, "
                "blocks.3.mlp.experts.fc2.bias; initialised: blocks.3.mlp.router.phi");
    /* only on request */
    assert_text(&moe, file, SMOE_FIT_PARTIAL, "1 of 6 tensors",
                "; initialised: blocks.3.mlp.experts.fc1.weight, blocks.3.mlp.experts.fc1.bias, "
                "blocks.3.mlp.experts.fc2.weight, blocks.3.mlp.experts.fc2.bias, "
                "blocks.3.mlp.router.phi; not used from the file: blocks.3.mlp.fc1.bias, "
                "blocks.3.mlp.fc1.weight, blocks.3.mlp.fc2.bias, blocks.3.mlp.fc2.weight");
    smoe_safetensors_free(file);
    /* experts in the file are used as they are, and nothing is left to copy; nor is there in a
     * dense model */
    fill(&moe, 5000);
    file = file_of(*state, &moe);
    smoe_params_init(&moe, 0);
    assert_int_equal(smoe_params_load(&moe, file, SMOE_FIT_UPCYCLE, NULL, &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
    assert_non_null(strstr(err.text, "no dense MLP that experts of this model replace"));
    assert_true(moe.w[0] == 7);
    assert_int_equal(smoe_params_load(&moe, file, SMOE_FIT_PARTIAL, NULL, &err), 0);
    assert_true(moe.w[0] == 5000);
    err = (smoe_err){0};
    assert_int_equal(smoe_params_load(&dense, file, SMOE_FIT_UPCYCLE, NULL, &err), -1);
    smoe_safetensors_free(file);
    smoe_params_free(&dense);
    smoe_params_free(&moe);
}

static void refused(void **state) {
    smoe_params dense = {0}, moe = {0};
    smoe_err err = {0};
    table(&dense, T + 3, 0);
    table(&moe, T, 2);
    /* the file's fc1.weight has one more row, which falls into the padding */
    dense.param[1].dim[0] = H + 1;
    dense.param[1].size = dense.param[1].whole += W;
    smoe_safetensors *file = file_of(*state, &dense);
    dense.param[1].size = dense.param[1].whole -= W;
    assert_int_equal(smoe_params_load(&moe, file, SMOE_FIT_UPCYCLE, NULL, &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
    assert_int_equal(err.lines, 2);
    assert_non_null(strstr(err.text, "tensor pos_embed: 12 positions, perhaps of a grid"));
    assert_non_null(
        strstr(err.text, "tensor blocks.3.mlp.fc1.weight: shape [4, 2], expected [3, 2]"));
    for (size_t i = 0; i < moe.param[1].size; i++) assert_true(moe.w[moe.param[1].offset + i] == 7);
    smoe_safetensors_free(file);
    smoe_params_free(&dense);
    smoe_params_free(&moe);
}

/* Another grid: resized if the file may differ, otherwise refused; with another width it is
 * never resized. */
static void another_grid(void **state) {
    smoe_params small = {0}, large = {0};
    smoe_err err = {0};
    table(&small, 4, 0);
    fill(&small, 1);
    table(&large, T, 0);
    smoe_safetensors *file = file_of(*state, &small);
    assert_int_equal(smoe_params_load(&large, file, SMOE_FIT_EXACT, NULL, &err), -1);
    assert_non_null(strstr(err.text, "tensor pos_embed: shape [1, 4, 2], expected [1, 9, 2]"));
    assert_int_equal(smoe_params_load(&large, file, SMOE_FIT_PARTIAL, NULL, &err), 0);
    static const real want[] = {1, 2, 2, 3, 3, 4, 3, 4, 4, 5, 5, 6, 5, 6, 6, 7, 7, 8};
    assert_memory_equal(large.w, want, sizeof want);
    assert_text(&large, file, SMOE_FIT_PARTIAL, "5 of 5 tensors", "; resized: pos_embed");
    char *text = smoe_init_map_resized(&large, file);
    assert_string_equal(text, "positions resized from 2x2 patches to 3x3");
    free(text);
    assert_null(smoe_init_map_resized(&small, file));
    memset(large.w, 0, sizeof want);
    assert_int_equal(smoe_params_load(&large, file, SMOE_FIT_RESIZED, NULL, &err), 0);
    assert_memory_equal(large.w, want, sizeof want);
    smoe_safetensors_free(file);
    small.param[0].dim[1] = 2;
    small.param[0].dim[2] = 4;
    file = file_of(*state, &small);
    err = (smoe_err){0};
    assert_int_equal(smoe_params_load(&large, file, SMOE_FIT_PARTIAL, NULL, &err), -1);
    assert_non_null(
        strstr(err.text, "tensor pos_embed: 2 positions, perhaps of a grid that is not square"));
    smoe_safetensors_free(file);
    smoe_params_free(&small);
    smoe_params_free(&large);
}

/* A file with a class token, two registers and positions of all, of 2x2 patches. A model without a
 * class token has three registers; one with it has two; and a grid that is not square must be given. */
static void registers(void **state) {
    enum { R = 2 };
    smoe_params file_has = {0}, pools = {0}, token = {0};
    smoe_err err = {0};
    size_t one[] = {1, 1, W}, two[] = {1, R, W}, three[] = {1, R + 1, W};
    smoe_params_add(&file_has, smoe_param_constant(7), 3, one, "cls_token");
    smoe_params_add(&file_has, smoe_param_constant(7), 3, two, "reg_token");
    smoe_params_add(&file_has, smoe_param_constant(7), 3, (size_t[]){1, 1 + R + 4, W}, "pos_embed");
    smoe_params_add(&pools, smoe_param_constant(7), 3, three, "reg_token");
    smoe_params_add(&pools, smoe_param_constant(7), 3, (size_t[]){1, 4, W}, "pos_embed");
    smoe_params_add(&token, smoe_param_constant(7), 3, one, "cls_token");
    smoe_params_add(&token, smoe_param_constant(7), 3, two, "reg_token");
    smoe_params_add(&token, smoe_param_constant(7), 3, (size_t[]){1, 5, W}, "pos_embed");
    assert_int_equal(smoe_params_allocate(&file_has, 1, &err), 0);
    assert_int_equal(smoe_params_allocate(&pools, 1, &err), 0);
    assert_int_equal(smoe_params_allocate(&token, 1, &err), 0);

    for (size_t i = 0; i < 3; i++) { /* tokens from 10 on, positions from 100 on */
        const smoe_param *p = &file_has.param[i];
        static const real from[] = {10, 20, 100};
        for (size_t k = 0; k < p->size; k++) file_has.w[p->offset + k] = from[i] + (real)k;
    }
    smoe_safetensors *file = file_of(*state, &file_has);
    if (smoe_params_load(&pools, file, SMOE_FIT_INIT, NULL, &err)) fail_msg("%s", err.text);
    static const real all[] = {110, 112, 122, 124, 126, 128},
                      patches[] = {106, 107, 108, 109, 110, 111, 112, 113};
    assert_memory_equal(pools.w + pools.param[0].offset, all, sizeof all);
    assert_memory_equal(pools.w + pools.param[1].offset, patches, sizeof patches);
    if (smoe_params_load(&token, file, SMOE_FIT_RESIZED, NULL, &err)) fail_msg("%s", err.text);
    static const real own[] = {10, 11}, more[] = {122, 124, 126, 128}, first[] = {100, 101, 106};
    assert_memory_equal(token.w + token.param[0].offset, own, sizeof own);
    assert_memory_equal(token.w + token.param[1].offset, more, sizeof more);
    assert_memory_equal(token.w + token.param[2].offset, first, sizeof first);
    smoe_safetensors_set_grid(file, 1, 6);
    assert_int_equal(smoe_params_load(&token, file, SMOE_FIT_RESIZED, NULL, &err), 0);
    static const real line[] = {100, 101, 102}; /* six patches in a row, after the class token */
    assert_memory_equal(token.w + token.param[2].offset, line, sizeof line);
    smoe_safetensors_free(file);
    smoe_params_free(&file_has);
    smoe_params_free(&pools);
    smoe_params_free(&token);
}

/* The second head of DeiT's distillation is left out where training starts, but not in an
 * evaluation, for which logits of both heads would count. */
static void second_head(void **state) {
    smoe_params there = {0}, here = {0};
    smoe_err err = {0};
    const size_t dim[] = {3, W};
    smoe_params_add(&there, smoe_param_constant(7), 2, dim, "head.weight");
    smoe_params_add(&there, smoe_param_constant(7), 2, dim, "head_dist.weight");
    smoe_params_add(&here, smoe_param_constant(7), 2, dim, "head.weight");
    assert_int_equal(smoe_params_allocate(&there, 1, &err), 0);
    assert_int_equal(smoe_params_allocate(&here, 1, &err), 0);
    smoe_safetensors *file = file_of(*state, &there);
    if (smoe_params_load(&here, file, SMOE_FIT_INIT, NULL, &err)) fail_msg("%s", err.text);
    assert_int_equal(smoe_params_load(&here, file, SMOE_FIT_RESIZED, NULL, &err), -1);
    assert_non_null(strstr(err.text, "a second head"));
    smoe_safetensors_free(file);
    smoe_params_free(&there);
    smoe_params_free(&here);
}

/* Rows of the head in the order of the data's classes, also of moments, but not of the moments of
 * columns; nothing else, and not where everything is taken as it is. */
static void ordered_head(void **state) {
    enum { N = 3 };
    static const uint32_t order[N] = {2, 0, 1};
    static const char *const name[] = {"head.weight", "head.bias", "head.weight.rows",
                                       "head.weight.columns", "norm.weight"};
    const size_t dim[][2] = {{N, W}, {N}, {1, N}, {1, N}, {N}};
    smoe_params there = {0}, here = {0};
    smoe_err err = {0};
    for (size_t i = 0; i < SMOE_COUNT(name); i++) {
        int ndim = dim[i][1] ? 2 : 1;
        smoe_params_add(&there, smoe_param_constant(0), ndim, dim[i], "%s", name[i]);
        smoe_params_add(&here, smoe_param_constant(0), ndim, dim[i], "%s", name[i]);
    }
    assert_int_equal(smoe_params_allocate(&there, 1, &err), 0);
    assert_int_equal(smoe_params_allocate(&here, 1, &err), 0);
    for (size_t i = 0; i < there.size; i++) there.w[i] = (real)i;
    smoe_safetensors *file = file_of(*state, &there);
    here.head_order = order;
    for (int whole = 0; whole < 2; whole++) {
        smoe_fit fit = whole ? SMOE_FIT_RESIZED : SMOE_FIT_INIT;
        if (smoe_params_load(&here, file, fit, NULL, &err)) fail_msg("%s", err.text);
        for (size_t i = 0; i < SMOE_COUNT(name); i++) {
            const smoe_param *p = &here.param[i];
            for (size_t k = 0; k < p->size; k++) {
                size_t n = i ? 1 : W, row = i < 3 && !whole ? order[k / n] : k / n;
                assert_true(here.w[p->offset + k] == there.w[p->offset + row * n + k % n]);
            }
        }
    }
    SMOE_FREED char *text = smoe_init_map_text(&here, file, SMOE_FIT_INIT);
    assert_non_null(strstr(text, "; in the order of the data's classes: head.weight, head.bias"));
    smoe_safetensors_free(file);
    smoe_params_free(&there);
    smoe_params_free(&here);
}

#define TEST(name) unit_test_with(name, scratch)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(planes_stay_planes),
        TEST(copies),
        TEST(registers),
        TEST(second_head),
        TEST(ordered_head),
        TEST(refused),
        TEST(another_grid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
