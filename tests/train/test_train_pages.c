/*
 * smoe-checkpoint(5), smoe-model(7), smoe-run(5) and smoe-routers(7) against the program: every
 * tensor of every kind of model with its shape, its initial values and its weight decay, every key
 * of a record and of env.json, every router with its summary and its keys. A new tensor, metric or
 * router that the pages do not mention fails here.
 */
#include "scratch.h"
#include "spec/routers.h"
#include "spec/schema.h"
#include "store/env.h"
#include "train/trainer.h"
#include "unit.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A page as plain text: escaped minus signs of roff are replaced. */
static char *page(const char *name) {
    char path[SCRATCH_PATH];
    snprintf(path, sizeof path, "%s", __FILE__);
    char *slash = strrchr(path, '/');
    snprintf(slash ? slash : path, 64, "%s/../../man/%s", slash ? "" : ".", name);
    char *text = scratch_read(path, NULL), *to = text;
    for (const char *from = text; *from; from++)
        if (*from != '\\') *to++ = *from;
    *to = '\0';
    return text;
}

/* Whether the word stands by itself on a line set in bold, whatever else is on the line. */
static bool in_bold(const char *text, const char *word) {
    size_t n = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at++) {
        const char *line = at;
        while (line > text && line[-1] != '\n') line--;
        if (!strncmp(line, ".B", 2) && strchr(" \"", at[-1]) && strchr(" \"\n", at[n])) return true;
    }
    return false;
}

/* "blocks.11.mlp" as "blocks.I.mlp" */
static void with_letter(char out[128], const char *name) {
    size_t n = 0;
    if (!strncmp(name, "blocks.", 7)) {
        n = (size_t)sprintf(out, "blocks.I");
        name += 7 + strspn(name + 7, "0123456789");
    }
    snprintf(out + n, 128 - n, "%s", name);
}

/* ---- tensors ---- */

/* Different sizes for all letters, so that a shape in letters has only one meaning. */
enum { D = 24, HEADS = 2, H = 36, E = 5, P = 3, N = 7, CHANNELS = 3, PATCH = 4, T = 16 };
enum { U = 2, HU = 20, HS = 2 * H }; /* universal experts, their width; that of two shared */

static size_t letter_value(const char *word, size_t length) {
    static const struct {
        const char *word;
        size_t value;
    } rows[] = {{"d", D},         {"2d", 2 * D},
                {"3d", 3 * D},    {"d/heads", D / HEADS},
                {"h", H},         {"E", E},
                {"U", U},         {"hu", HU},
                {"hs", HS},       {"P", P},
                {"N", N},         {"T", T},
                {"T+1", T + 1},   {"channels", CHANNELS},
                {"patch", PATCH}, {"1", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strlen(rows[i].word) == length && !strncmp(rows[i].word, word, length))
            return rows[i].value;
    fail_msg("smoe-checkpoint(5): no size %.*s", (int)length, word);
    return 0;
}

/* Whether "[d, 2d] ..." denotes this shape. */
static bool shape_matches(const char *at, const smoe_param *p) {
    if (*at++ != '[') return false;
    int i = 0;
    while (*at != ']') {
        size_t length = strcspn(at, ",]");
        if (i >= p->ndim || letter_value(at, length) != p->dim[i++]) return false;
        at += length;
        at += strspn(at, ", ");
    }
    return i == p->ndim;
}

/* The line of the page that starts with the name must state its shape there or, as for
 * pos_embed, at the start of the next line. */
static void assert_documented(const char *text, const smoe_param *p) {
    char name[128], start[132];
    with_letter(name, p->name);
    snprintf(start, sizeof start, "\n%s ", name);
    const char *line = strstr(text, start);
    if (!line) {
        fail_msg("smoe-checkpoint(5) does not have %s", name);
        return; /* never reached; for the compiler */
    }
    const char *next = strchr(line + 1, '\n') + 1;
    const char *shape = strchr(line, '['), *other = next + strspn(next, " ");
    if (!shape_matches(shape, p) && !shape_matches(other, p))
        fail_msg("smoe-checkpoint(5): %s has another shape", p->name);
}

/* What a page must state about a tensor. */
typedef void tensor_check(const char *text, const smoe_param *p);

static void check_model(const char *text, tensor_check *check, const char *model, size_t least) {
    smoe_err err = {0};
    smoe_spec spec = {0};
    smoe_model *m;
    char yaml[512];
    snprintf(yaml, sizeof yaml,
             "data: {source: shapes, image_size: %d}\n"
             "model: {width: %d, depth: 2, mlp: %d, heads: %d, patch_size: %d, %s}\n",
             4 * PATCH, D, H, HEADS, PATCH, model);
    if (smoe_spec_parse(&spec, &(smoe_spec_text){.text = yaml, .label = "test"}, NULL, 0, &err))
        fail_msg("%s", err.text);
    if (smoe_model_create(&m, &spec, N, &err)) fail_msg("%s", err.text);
    const smoe_params *params = smoe_model_params(m);
    assert_true(params->count >= least);
    for (size_t i = 0; i < params->count; i++) check(text, &params->param[i]);
    smoe_model_free(m);
    smoe_spec_free(&spec);
}

static void check_tensors(const char *name, tensor_check *check) {
    char *text = page(name);
    /* two blocks of 12 tensors, and 7 around them */
    check_model(text, check, "head: gap, moe: {layers: none}", 31);
    check_model(text, check, "head: token, qk_norm: true, moe: {layers: none}", 40);
    check_model(text, check, "head: map, position: sincos2d, moe: {layers: none}", 43);
    check_model(text, check, "head: map, qk_norm: true, qk_norm_form: vmoe, moe: {layers: none}",
                43);
    for (size_t i = 0; i < SMOE_ROUTERS; i++) {
        char model[128];
        snprintf(model, sizeof model,
                 "moe: {layers: [1], experts: %d, slots_per_expert: %d, router: %s}", E,
                 smoe_routers[i].family == SMOE_FAMILY_FIXED ? 4 : P, smoe_routers[i].name);
        check_model(text, check, model, 31);
    }
    char model[160];
    snprintf(model, sizeof model,
             "moe: {layers: [1], router: uniform, experts: %d, universal_experts: %d, "
             "universal_mlp: %d, "
             "shared_experts: %d}",
             E + U, U, HU, HS / H);
    check_model(text, check, "moe: {layers: [1], experts: 5, router: tokens-choice, balance: bias}",
                33);
    check_model(text, check, model, 39); /* 8 more, no router */
    free(text);
}

static void test_tensors(void **state) {
    check_tensors("smoe-checkpoint.5", assert_documented);
}

/* The variance of "normal 0.02", "normal sqrt(2/(in+out))" ... for a tensor of this shape; 0 for
 * a constant; -1 if the page has another expression. */
static double variance_of(const char *text, const smoe_param *p) {
    double out = p->ndim > 1 ? (double)p->dim[p->ndim - 2] : 1, in = 1;
    if (p->ndim) in = (double)p->dim[p->ndim - 1];
    if (p->ndim == 4) in = CHANNELS * PATCH * PATCH; /* a convolution is linear in a patch */
    const struct {
        const char *text;
        double value;
    } rows[] = {{"0 ", 0},
                {"1 ", 0},
                {"1e-8 ", 0},
                {"ln 0.5 ", 0},
                {"normal 0.02 ", 0.02 * 0.02},
                {"normal sqrt(1/d) ", 1.0 / D},
                {"normal sqrt(1/(E*d)) ", 1 / (out * D)}, /* phi has E there */
                {"normal sqrt(1/in) ", 1 / in},
                {"normal sqrt(2/(d+h)) ", 2.0 / (D + H)},
                {"normal sqrt(2/(in+out)) ", 2 / (in + out)}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strncmp(text, rows[i].text, strlen(rows[i].text))) return rows[i].value;
    return -1;
}

/* The line of the page that starts with the name continues with the initial values and the group
 * of weight decay. */
static bool mean_matches(const char *at, double mean) {
    if (!strncmp(at, "ln 0.5 ", 7)) return mean == log(0.5);
    if (!strncmp(at, "1e-8 ", 5)) return mean == 1e-8;
    return mean == (*at == '1');
}

static bool initial_matches(const char *at, const smoe_param *p) {
    static const char *const groups[] = {
        [SMOE_PARAM_PLAIN] = " none", [SMOE_PARAM_KERNEL] = " kernel", [SMOE_PARAM_HEAD] = " head"};
    const char *group = groups[p->group], *end = at + strcspn(at, "\n") - strlen(group);
    double off = variance_of(at, p) - p->std * p->std; /* p->std is rounded several times */
    return fabs(off) < 1e-15 && mean_matches(at, p->mean) && end > at &&
           !strncmp(end, group, strlen(group));
}

static void assert_initial(const char *text, const smoe_param *p) {
    char name[128], start[132];
    with_letter(name, p->name);
    snprintf(start, sizeof start, "\n%s ", name);
    const char *line = strstr(text, start);
    if (!line) fail_msg("smoe-model(7) does not have %s", name);
    line += strlen(start);
    if (!initial_matches(line + strspn(line, " "), p))
        fail_msg("smoe-model(7): %s starts otherwise, or has another decay", p->name);
}

static void test_initial_weights(void **state) {
    check_tensors("smoe-model.7", assert_initial);
}

static void test_initial_checker(void **state) {
    smoe_param p = {.ndim = 2, .dim = {3, 5}, .std = 0.5, .group = SMOE_PARAM_KERNEL};
    assert_true(initial_matches("normal sqrt(2/(in+out))  kernel\n", &p));
    assert_false(initial_matches("normal sqrt(2/(in+out))  head\n", &p));
    assert_false(initial_matches("normal sqrt(1/in)  kernel\n", &p));
    assert_false(initial_matches("normal sqrt(1/out)  kernel\n", &p));
    assert_false(initial_matches("0  kernel\n", &p));
    p = (smoe_param){.ndim = 1, .dim = {3}, .mean = 1};
    assert_true(initial_matches("1  none\n", &p));
    assert_false(initial_matches("0  none\n", &p));
}

/* The check itself: it must refuse a shape that the page does not state. */
static void test_shape_checker(void **state) {
    smoe_param p = {.ndim = 2, .dim = {3 * D, D}};
    assert_true(shape_matches("[3d, d]  (x)", &p));
    assert_false(shape_matches("[d, 3d]", &p));
    assert_false(shape_matches("[3d]", &p));
    assert_false(shape_matches("[3d, d, d]", &p));
    assert_false(shape_matches("3d, d", &p));
    p.ndim = 0;
    assert_true(shape_matches("[]", &p));
}

/* ---- metrics and env.json ---- */

static void assert_keys(const char *text, const json_t *object, const char *what) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        char name[128];
        with_letter(name, key);
        if (!in_bold(text, name)) fail_msg("smoe-run(5) does not have %s of %s", name, what);
    }
}

static void train(const char *dir, const char *router) {
    smoe_err err = {0};
    smoe_spec spec = {0};
    char yaml[1024];
    snprintf(yaml, sizeof yaml,
             "data: {source: shapes, image_size: 16, limit: 8}\n"
             "model: {width: 8, depth: 2, mlp: 8, heads: 2, patch_size: 4,\n"
             "  moe: {layers: [1], experts: 4, slots_per_expert: 4, group_images: 4, router: %s}}\n"
             "train: {steps: 1, batch_size: 4}\n"
             "eval: {batch_size: 4}\n",
             router);
    if (smoe_spec_parse(&spec, &(smoe_spec_text){.text = yaml, .label = "test"}, NULL, 0, &err))
        fail_msg("%s", err.text);
    char *argv[] = {"test"};
    smoe_train_options options = {
        .dir = dir, .mode = SMOE_RUN_FORCE, .env = smoe_env_here(1, argv)};
    smoe_train_result result;
    if (smoe_train(&spec, &options, &result, &err)) fail_msg("%s", err.text);
    smoe_spec_free(&spec);
}

static void test_keys(void **state) {
    scratch s;
    scratch_make(&s);
    char *text = page("smoe-run.5"), path[SCRATCH_PATH];
    static const char *const routers[] = {"soft", "tokens-choice"};
    for (int i = 0; i < 2; i++) {
        train(scratch_path(&s, path, "run"), routers[i]);
        char *metrics = scratch_read(scratch_path(&s, path, "run/metrics.jsonl"), NULL),
             *rest = metrics;
        size_t records = 0;
        for (char *line; (line = strsep(&rest, "\n")) && *line; records++) {
            json_t *record = json_loads(line, 0, NULL);
            assert_keys(text, record, "metrics.jsonl");
            json_decref(record);
        }
        assert_int_equal(records, 2); /* of training and of evaluation */
        free(metrics);
        char *env = scratch_read(scratch_path(&s, path, "run/env.json"), NULL);
        json_t *object = json_loads(env, 0, NULL);
        assert_true(json_object_size(object) > 10);
        assert_keys(text, object, "env.json");
        json_decref(object);
        free(env);
    }
    free(text);
    scratch_remove(&s);
}

/* ---- routers ---- */

static size_t moe_key(const char *name, size_t length) {
    char key[128];
    snprintf(key, sizeof key, "model.moe.%.*s", (int)length, name);
    return (size_t)smoe_schema_find(key);
}

/* The words of a line ".BR a ", " b" must be keys of model.moe that the router uses; returns
 * their number. */
static size_t assert_moe_keys(const char *line, const smoe_router_entry *router) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    size_t count = 0, length;
    assert_true(!strncmp(line, ".BR ", 4));
    for (line += 4; *line != '\n'; line += length ? length : 1) {
        length = strspn(line, letters);
        if (!length) continue;
        if (moe_key(line, length) >= SMOE_SCHEMA_COUNT)
            fail_msg("smoe-routers(7), %s: no key %.*s", router->name, (int)length, line);
        char key[64];
        snprintf(key, sizeof key, "%.*s", (int)length, line);
        if (!smoe_router_heeds(router, key))
            fail_msg("smoe-routers(7), %s: routers.def has no key %s", router->name, key);
        count++;
    }
    return count;
}

/* Headings are exactly the entries of routers.def in their order; each begins with its summary
 * and ends with its keys. */
static void test_routers(void **state) {
    char *text = page("smoe-routers.7"), *at = strstr(text, "\n.SH ROUTERS\n");
    assert_non_null(at);
    size_t i = 0;
    for (const char *end = strstr(at + 1, "\n.SH "); (at = strstr(at + 1, "\n.SS ")) && at < end;
         i++) {
        if (i == SMOE_ROUTERS) fail_msg("smoe-routers(7): %.30s is no router", at + 1);
        const char *name = smoe_routers[i].name, *summary = smoe_routers[i].summary;
        char heading[64];
        snprintf(heading, sizeof heading, "\n.SS %s\n", name);
        if (strncmp(at, heading, strlen(heading)))
            fail_msg("smoe-routers(7): %.30s stands where %s should", at + 1, name);
        if (strncasecmp(at + strlen(heading), summary, strlen(summary)))
            fail_msg("smoe-routers(7): %s does not begin with: %s", name, summary);
        const char *keys = strstr(at, "\nKeys:\n"), *next = strstr(at + 1, "\n.S");
        if (!keys || keys > next)
            fail_msg("smoe-routers(7): %s does not end with a line Keys: and its keys", name);
        size_t words = 1;
        for (const char *c = smoe_routers[i].keys; *c; c++) words += *c == ' ';
        assert_int_equal(assert_moe_keys(keys + strlen("\nKeys:\n"), &smoe_routers[i]), words);
    }
    assert_int_equal(i, SMOE_ROUTERS);
    for (size_t row = 0; row < SMOE_SCHEMA_COUNT; row++) {
        const char *key = smoe_schema[row].key, *moe = "model.moe.";
        if (strncmp(key, moe, strlen(moe))) continue;
        if (!in_bold(text, key) && !in_bold(text, key + strlen(moe)))
            fail_msg("smoe-routers(7) does not have %s", key);
    }
    free(text);
}

/* The check of words itself. */
static void test_bold_checker(void **state) {
    assert_true(in_bold("x\n.BR a \", \" b \", \" c .\n", "b"));
    assert_true(in_bold("\n.B a/b\n", "a/b"));
    assert_false(in_bold("\n.B a/b\n", "a"));
    assert_false(in_bold("\n.B a/b\n", "b"));
    assert_false(in_bold("\n.I b\nb\n b \n", "b"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shape_checker),   cmocka_unit_test(test_bold_checker),
        cmocka_unit_test(test_tensors),         cmocka_unit_test(test_initial_checker),
        cmocka_unit_test(test_initial_weights), cmocka_unit_test(test_keys),
        cmocka_unit_test(test_routers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
