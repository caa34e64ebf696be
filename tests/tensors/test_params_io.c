/* The parameter table in and out of safetensors files; against an independent script if python3
 * is available. */
#include "raw_safetensors.h"
#include "scratch.h"
#include "tensors/safetensors.h"
#include "tensors/params_io.h"
#include "tensors/init_map.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The table of the ViT that tests/interop/layout.py describes, written out here again. */
static void vit(smoe_params *p, bool token) {
    enum { D = 8, H = 12, N = 5 };
    if (token) smoe_params_add(p, smoe_param_constant(0), 3, (size_t[]){1, 1, D}, "cls_token");
    smoe_params_add(p, smoe_param_constant(0), 3, (size_t[]){1, 4 + token, D}, "pos_embed");
    smoe_params_add(p, smoe_param_normal(SMOE_PARAM_KERNEL, 0), 4, (size_t[]){D, 3, 2, 2},
                    "patch_embed.proj.weight");
    smoe_params_add(p, smoe_param_constant(0), 1, (size_t[]){D}, "patch_embed.proj.bias");
    for (int i = 0; i < 2; i++) {
        static const struct {
            const char *name;
            int ndim;
            size_t dim[2];
        } rows[] = {{"norm1.weight", 1, {D}},           {"norm1.bias", 1, {D}},
                    {"attn.qkv.weight", 2, {3 * D, D}}, {"attn.qkv.bias", 1, {3 * D}},
                    {"attn.proj.weight", 2, {D, D}},    {"attn.proj.bias", 1, {D}},
                    {"norm2.weight", 1, {D}},           {"norm2.bias", 1, {D}},
                    {"mlp.fc1.weight", 2, {H, D}},      {"mlp.fc1.bias", 1, {H}},
                    {"mlp.fc2.weight", 2, {D, H}},      {"mlp.fc2.bias", 1, {D}}};
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            smoe_params_add(p, smoe_param_constant(0), rows[r].ndim, rows[r].dim, "blocks.%d.%s", i,
                            rows[r].name);
    }
    smoe_params_add(p, smoe_param_constant(0), 1, (size_t[]){D}, "norm.weight");
    smoe_params_add(p, smoe_param_constant(0), 1, (size_t[]){D}, "norm.bias");
    smoe_params_add(p, smoe_param_normal(SMOE_PARAM_HEAD, 0), 2, (size_t[]){N, D}, "head.weight");
    smoe_params_add(p, smoe_param_constant(0), 1, (size_t[]){N}, "head.bias");
    smoe_err err = {0};
    assert_int_equal(smoe_params_allocate(p, 1, &err), 0);
}

static double pattern(const char *name, size_t i) {
    size_t sum = 7 * i;
    for (; *name; name++) sum += (unsigned char)*name;
    return ((double)(sum % 255) - 127) / 64;
}

static void fill_pattern(smoe_params *p) {
    for (size_t r = 0; r < p->count; r++)
        for (size_t i = 0; i < p->param[r].size; i++)
            p->w[p->param[r].offset + i] = (real)pattern(p->param[r].name, i);
}

static void assert_pattern(const smoe_params *p) {
    for (size_t r = 0; r < p->count; r++)
        for (size_t i = 0; i < p->param[r].size; i++)
            assert_true(p->w[p->param[r].offset + i] == (real)pattern(p->param[r].name, i));
}

/* A file with these parameters, open. */
static smoe_safetensors *written(const smoe_params *p, const scratch *folder) {
    char path[SCRATCH_PATH];
    smoe_err err = {0};
    smoe_tensor *t;
    smoe_safetensors *file;
    t = smoe_params_tensors(p, &(smoe_slab){.prefix = "", .values = p->w});
    scratch_path(folder, path, "p");
    assert_int_equal(smoe_safetensors_write(path, &(const smoe_content){t, p->count}, &err), 0);
    free(t);
    assert_int_equal(smoe_safetensors_open(&file, path, &err), 0);
    return file;
}

static void test_params_round_trip(void **state) {
    smoe_err err = {0};
    smoe_params p = {0}, q = {0};
    vit(&p, true);
    vit(&q, true);
    fill_pattern(&p);
    smoe_tensor *t;
    t = smoe_params_tensors(&p, &(smoe_slab){.prefix = "m.", .values = p.w});
    assert_string_equal(t[p.count - 1].name, "m.head.bias");
    assert_ptr_equal(t[1].data, p.w + p.param[1].offset); /* no copy */
    free(t);
    smoe_safetensors *file = written(&p, *state);
    size_t loaded = 0;
    assert_int_equal(smoe_params_load(&q, file, SMOE_FIT_EXACT, &loaded, &err), 0);
    assert_int_equal(loaded, q.count);
    assert_memory_equal(p.w, q.w, p.size * sizeof *p.w);
    smoe_safetensors_free(file);
    smoe_params_free(&p);
    smoe_params_free(&q);
}

/* Of a slab, elements 3 to 9 of every tensor are here. */
static void here(void *user, const void *slab, size_t i, size_t *first, size_t *end) {
    const smoe_params *p = user;
    assert_ptr_equal(slab, p->w);
    *first = p->param[i].size < 3 ? p->param[i].size : 3;
    *end = p->param[i].size < 9 ? p->param[i].size : 9;
}

/* A process reads what it has of each tensor, also where positions are resized, and leaves the
 * rest alone. */
static void test_params_parts(void **state) {
    smoe_err err = {0};
    smoe_params p = {0}, q = {0}, whole = {0};
    vit(&p, false);
    vit(&q, true);
    vit(&whole, true);
    fill_pattern(&p);
    smoe_safetensors *file = written(&p, *state);
    assert_int_equal(smoe_params_load(&whole, file, SMOE_FIT_PARTIAL, NULL, &err), 0);
    smoe_part_reader reader = {.here = here, .user = &q};
    q.reader = &reader;
    if (smoe_params_load(&q, file, SMOE_FIT_PARTIAL, NULL, &err)) fail_msg("%s", err.text);
    for (size_t r = 0; r < q.count; r++)
        for (size_t i = 0; i < q.param[r].size; i++) {
            size_t at = q.param[r].offset + i;
            assert_true(q.w[at] == (i >= 3 && i < 9 ? whole.w[at] : 0));
        }
    smoe_safetensors_free(file);
    smoe_params_free(&p);
    smoe_params_free(&q);
    smoe_params_free(&whole);
}

/* A table of three tensors, and files that fail to match it in every way. */
static void small(smoe_params *p) {
    smoe_params_add(p, smoe_param_constant(7), 2, (size_t[]){2, 1}, "w");
    smoe_params_add(p, smoe_param_constant(7), 0, NULL, "s");
    smoe_params_add(p, smoe_param_constant(7), 1, (size_t[]){2}, "b");
    smoe_err err = {0};
    assert_int_equal(smoe_params_allocate(p, 1, &err), 0);
    smoe_params_init(p, 0);
}

static int load_small(smoe_params *p, const char *header, const void *data, size_t bytes,
                      smoe_fit fit, size_t *loaded, smoe_err *err) {
    size_t size;
    char *file_bytes = raw_safetensors_file(header, data, bytes, &size);
    smoe_safetensors *file;
    if (smoe_safetensors_parse(&file, file_bytes, size, "f", err)) fail_msg("%s", err->text);
    int status = smoe_params_load(p, file, fit, loaded, err);
    smoe_safetensors_free(file);
    free(file_bytes);
    return status;
}

static void test_params_faults_in_one_pass(void **state) {
    static const char zeros[64];
    smoe_params p = {0};
    small(&p);
    smoe_err err = {0};
    static const char header[] =
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
        "\"s\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[8,16]},"
        "\"fc_norm.weight\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[16,28]}}";
    assert_int_equal(load_small(&p, header, zeros, 28, SMOE_FIT_EXACT, NULL, &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
    assert_int_equal(err.lines, 4);
    assert_string_equal(err.text,
                        "f: tensor w: shape [1, 2], expected [2, 1]\n"
                        "f: tensor s: dtype I64, expected F32, F16, BF16 or F64; save "
                        "tensor.float() instead\n"
                        "f: tensor b [2]: missing\n"
                        "f: tensor fc_norm.weight [3]: unknown, the model has none of this name");
    /* partial allows missing and unknown tensors, and nothing else */
    size_t loaded = 99;
    assert_int_equal(load_small(&p, header, zeros, 28, SMOE_FIT_PARTIAL, &loaded, &err), -1);
    assert_int_equal(err.lines, 2);
    for (size_t r = 0; r < p.count; r++)
        for (size_t i = 0; i < p.param[r].size; i++) assert_true(p.w[p.param[r].offset + i] == 7);
    smoe_params_free(&p);
}

static void test_params_partial_and_types(void **state) {
    smoe_params p = {0};
    small(&p);
    smoe_err err = {0};
    size_t loaded = 0;
    /* b: BF16 1 and -2; x: not ours; w: missing; s: F64 0.5 */
    assert_int_equal(load_small(&p,
                                "{\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"
                                "\"s\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[4,12]},"
                                "\"x\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[12,13]}}",
                                "\x80\x3f\x00\xc0\0\0\0\0\0\0\xe0\x3f\x01", 13, SMOE_FIT_PARTIAL,
                                &loaded, &err),
                     0);
    assert_int_equal(loaded, 2);
    const real *b = p.w + smoe_params_find(&p, "b")->offset;
    assert_true(b[0] == 1 && b[1] == -2);
    assert_true(p.w[smoe_params_find(&p, "s")->offset] == (real)0.5);
    assert_true(p.w[smoe_params_find(&p, "w")->offset] == 7);
    smoe_params_free(&p);
}

/* Starting from another task: the classifier of three classes is not loaded, the norm is. */
static void test_params_another_head(void **state) {
    smoe_params p = {0};
    size_t w[] = {2, 1};
    smoe_params_add(&p, (smoe_param_kind){SMOE_PARAM_HEAD, 7, 0}, 2, w, "head.weight");
    smoe_params_add(&p, smoe_param_constant(7), 1, w, "norm.bias");
    smoe_err err = {0};
    assert_int_equal(smoe_params_allocate(&p, 1, &err), 0);
    smoe_params_init(&p, 0);
    const char *header =
        "{\"head.weight\":{\"dtype\":\"BF16\",\"shape\":[3,1],\"data_offsets\":[0,6]},"
        "\"norm.bias\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[6,10]}}";
    const char *data = "\x80\x3f\x80\x3f\x80\x3f\x80\x3f\x00\xc0"; /* 1 1 1, 1 -2 */
    size_t loaded = 99;
    assert_int_equal(load_small(&p, header, data, 10, SMOE_FIT_EXACT, &loaded, &err), -1);
    assert_string_equal(err.text, "f: tensor head.weight: shape [3, 1], expected [2, 1]");
    assert_int_equal(load_small(&p, header, data, 10, SMOE_FIT_PARTIAL, &loaded, &err), 0);
    assert_int_equal(loaded, 1);
    const real *head = p.w + p.param[0].offset, *norm = p.w + p.param[1].offset;
    assert_true(head[0] == 7 && head[1] == 7);
    assert_true(norm[0] == 1 && norm[1] == -2);
    smoe_params_free(&p);
}

/* A head is loaded as a whole or not at all; one with another width is an error. */
static void test_params_whole_head(void **state) {
    smoe_params p = {0};
    smoe_params_add(&p, (smoe_param_kind){SMOE_PARAM_HEAD, 7, 0}, 2, (size_t[]){2, 1},
                    "head.weight");
    smoe_params_add(&p, smoe_param_constant(7), 1, (size_t[]){2}, "head.bias");
    smoe_params_add(&p, smoe_param_constant(7), 1, (size_t[]){2}, "norm.bias");
    smoe_err err = {0};
    assert_int_equal(smoe_params_allocate(&p, 1, &err), 0);
    static const char zeros[64];
#define NORM "{\"norm.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
#define BIAS ",\"head.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}"
#define WEIGHT(shape, end) \
    ",\"head.weight\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[16," end "]}"
    static const struct {
        const char *header;
        size_t bytes, loaded;
        const char *fault;
    } rows[] = {
        {NORM BIAS WEIGHT("[2,1]", "24") "}", 24, 3, NULL},
        {NORM BIAS WEIGHT("[3,1]", "28") "}", 28, 1, NULL}, /* with a bias that would fit */
        {NORM BIAS "}", 16, 1, NULL},
        {NORM "}", 8, 1, NULL},
        {NORM BIAS WEIGHT("[3,2]", "40") "}", 40, 0, "shape [3, 2], expected [3, 1]"},
        {NORM BIAS WEIGHT("[2,2]", "32") "}", 32, 0, "shape [2, 2], expected [2, 1]"},
        {NORM BIAS WEIGHT("[2]", "24") "}", 24, 0, "shape [2], expected [2, 1]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t loaded = 0;
        smoe_params_init(&p, 0);
        int status =
            load_small(&p, rows[i].header, zeros, rows[i].bytes, SMOE_FIT_PARTIAL, &loaded, &err);
        assert_int_equal(status, rows[i].fault ? -1 : 0);
        if (rows[i].fault && !strstr(err.text, rows[i].fault)) fail_msg("%s", err.text);
        if (rows[i].fault) continue;
        assert_int_equal(loaded, rows[i].loaded);
        assert_true(p.w[p.param[0].offset] == (loaded == 3 ? 0 : 7));
        assert_true(p.w[p.param[1].offset] == (loaded == 3 ? 0 : 7));
        assert_true(p.w[p.param[2].offset] == 0);
    }
    smoe_params_free(&p);
}

/* The summary of a partial load: names that differ only in their number are grouped. */
static void test_params_partial_text(void **state) {
    smoe_params p = {0};
    smoe_err err = {0};
    vit(&p, false);
    smoe_tensor *all;
    all = smoe_params_tensors(&p, &(smoe_slab){.prefix = "", .values = p.w});
    /* all but pos_embed and the norms of the blocks, and two tensors that the model does not
     * have */
    smoe_tensor some[40];
    size_t count = 0;
    for (size_t i = 0; i < p.count; i++)
        if (strcmp(all[i].name, "pos_embed") && !strstr(all[i].name, ".norm"))
            some[count++] = all[i];
    for (int i = 0; i < 2; i++) {
        some[count] = all[p.count - 1];
        some[count++].name = i ? "blocks.11.extra" : "blocks.3.extra";
    }
    char path[SCRATCH_PATH], want[1024];
    scratch_path(*state, path, "f");
    assert_int_equal(smoe_safetensors_write(path, &(const smoe_content){some, count}, &err), 0);
    smoe_safetensors *file;
    assert_int_equal(smoe_safetensors_open(&file, path, &err), 0);
    char *text = smoe_init_map_text(&p, file, SMOE_FIT_PARTIAL);
    snprintf(want, sizeof want,
             "%zu of %zu tensors start from %s; initialised: pos_embed, blocks.{0,1}.norm1.weight, "
             "blocks.{0,1}.norm1.bias, blocks.{0,1}.norm2.weight, blocks.{0,1}.norm2.bias; not "
             "used from the file: blocks.{11,3}.extra",
             p.count - 9, p.count, path);
    assert_string_equal(text, want);
    free(text);
    smoe_safetensors_free(file);
    /* a head of other classes is named on both sides; long lists are shortened */
    some[0] = all[p.count - 1];
    some[0].dim[0] = some[0].size = 4;
    some[1] = all[p.count - 3];
    assert_int_equal(smoe_safetensors_write(path, &(const smoe_content){some, 2}, &err), 0);
    assert_int_equal(smoe_safetensors_open(&file, path, &err), 0);
    text = smoe_init_map_text(&p, file, SMOE_FIT_PARTIAL);
    assert_non_null(strstr(
        text, "blocks.{0,1}.attn.proj.weight and 17 more; not used from the file: head.bias"));
    free(text);
    smoe_safetensors_free(file);
    free(all);
    smoe_params_free(&p);
}

/* ---- an independent implementation ---- */

/* Runs tests/interop/layout.py; true if there is a python3 to run it. Its failure fails the
 * test. */
static bool layout(const char *verb, const char *a, const char *b) {
    char script[SCRATCH_PATH];
    snprintf(script, sizeof script, "%s", __FILE__);
    char *slash = strrchr(script, '/');
    snprintf(slash ? slash + 1 : script, 64, "../interop/layout.py");
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        execlp("python3", "python3", "-B", script, verb, a, b, (char *)NULL);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 127) {
        print_message(
            "no python3 here: the independent safetensors reader and writer is not run\n");
        return false;
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    return true;
}

static void test_reads_files_of_others(void **state) {
    const scratch *s = *state;
    if (!layout("write", s->dir, NULL)) skip();
    static const struct {
        const char *name;
        bool token;
    } rows[] = {{"token_f32", true}, {"gap_bf16", false}, {"gap_f16", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[SCRATCH_PATH], name[64];
        smoe_params p = {0};
        smoe_err err = {0};
        smoe_safetensors *file;
        snprintf(name, sizeof name, "%s.safetensors", rows[i].name);
        vit(&p, rows[i].token);
        if (smoe_safetensors_open(&file, scratch_path(s, path, name), &err))
            fail_msg("%s", err.text);
        if (smoe_params_load(&p, file, SMOE_FIT_EXACT, NULL, &err)) fail_msg("%s", err.text);
        assert_pattern(&p);
        assert_string_equal(smoe_safetensors_metadata(file, "format"), "pt");
        smoe_params_free(&p);
        /* the other model does not fit, and the message says why */
        vit(&p, !rows[i].token);
        assert_int_equal(smoe_params_load(&p, file, SMOE_FIT_EXACT, NULL, &err), -1);
        assert_int_equal(err.code, SMOE_DATA);
        assert_non_null(strstr(err.text, "tensor pos_embed: shape"));
        assert_non_null(strstr(err.text, rows[i].token ? "cls_token [1, 1, 8]: unknown"
                                                       : "cls_token [1, 1, 8]: missing"));
        smoe_params_free(&p);
        smoe_safetensors_free(file);
    }
}

static void test_others_read_our_files(void **state) {
    char path[SCRATCH_PATH];
    smoe_err err = {0};
    smoe_params p = {0};
    vit(&p, true);
    fill_pattern(&p);
    smoe_tensor *t;
    t = smoe_params_tensors(&p, &(smoe_slab){.prefix = "", .values = p.w});
    smoe_pair pairs[] = {{"format", "pt"},
                         {"smoe.version", SMOE_VERSION},
                         {"smoe.step", "12"},
                         {"smoe.spec", "{\"seed\":0}"}};
    scratch_path(*state, path, "model.safetensors");
    assert_int_equal(
        smoe_safetensors_write(path, &(const smoe_content){t, p.count, pairs, 4}, &err), 0);
    free(t);
    smoe_params_free(&p);
    if (!layout("check", path, "12")) skip();
}

#define TEST(name) unit_test_with(name, scratch)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_params_parts),
        TEST(test_params_round_trip),
        TEST(test_params_faults_in_one_pass),
        TEST(test_params_partial_and_types),
        TEST(test_params_another_head),
        TEST(test_params_whole_head),
        TEST(test_params_partial_text),
        TEST(test_reads_files_of_others),
        TEST(test_others_read_our_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
