/*
 * Reading and writing specs: fixtures of invalid ones with their exact messages, the meaning of
 * every kind of scalar, overrides, round trips, and the man page against the schema table. What is
 * resolved from the values is in test_spec_resolve.c. Runs from the root of the tree.
 */
#include "approx.h"
#include "scratch.h"
#include "spec/schema.h"
#include "spec/sources.h"
#include "specs.h"
#include "unit.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIXTURES "tests/spec"

/* ---- fixtures -------------------------------------------------------------- */

/* "# overrides: a=b|c=d" in the first line gives the overrides. Returns their number; they point
 * into `line`. */
static size_t fixture_overrides(char *line, char *overrides[32]) {
    static const char mark[] = "# overrides: ";
    if (strncmp(line, mark, sizeof mark - 1)) return 0;
    size_t count = 0;
    char *rest = line + sizeof mark - 1;
    for (char *word; (word = strsep(&rest, "|")) && count < 32;) overrides[count++] = word;
    return count;
}

/* The names that a mark of a fixture stands for: @{KEY} are the choices of a key, @{SECTION.*} the
 * keys of a section, @{*} the sections, @{generated} the sources that need no path. */
static void print_names(FILE *out, const char *mark) {
    char type[SMOE_PROBLEM], section[SMOE_KEY_SIZE], before[SMOE_KEY_SIZE] = "";
    size_t length = strlen(mark);
    int count = 0, entry = smoe_schema_find(mark);
    if (entry >= 0) {
        fputs(smoe_schema_type(&smoe_schema[entry], type, sizeof type), out);
    } else if (!strcmp(mark, "generated")) {
        for (int i = 0; i < SMOE_SOURCES; i++)
            if (smoe_sources[i].generated)
                fprintf(out, "%s%s", count++ ? ", " : "", smoe_sources[i].name);
    } else {
        assert_true(length && mark[length - 1] == '*');
        snprintf(section, sizeof section, "%.*s", (int)length - 1, mark);
        for (int i = 0; i < (int)SMOE_SCHEMA_COUNT; i++) {
            const char *leaf = smoe_schema[i].key + length - 1;
            if (strncmp(smoe_schema[i].key, section, length - 1)) continue;
            if (strlen(before) == strcspn(leaf, ".") && !strncmp(before, leaf, strlen(before)))
                continue;
            snprintf(before, sizeof before, "%.*s", (int)strcspn(leaf, "."), leaf);
            fprintf(out, "%s%s", count++ ? ", " : "", before);
        }
        assert_true(count > 1);
        if (!*section) fputs(", sweep", out);
    }
}

/* The text of a fixture, with names of the tables in the place of marks. */
static char *with_names(char *text) {
    char *whole, mark[SMOE_KEY_SIZE];
    size_t size;
    FILE *out = open_memstream(&whole, &size);
    const char *c = text;
    for (const char *at; (at = strstr(c, "@{")); c = at + strcspn(at, "}") + 1) {
        snprintf(mark, sizeof mark, "%.*s", (int)strcspn(at, "}") - 2, at + 2);
        fwrite(c, 1, (size_t)(at - c), out);
        print_names(out, mark);
    }
    fputs(c, out);
    fclose(out);
    free(text);
    return whole;
}

static void check_fixture(const char *name) {
    char path[PATH_MAX], expected_path[PATH_MAX];
    snprintf(path, sizeof path, FIXTURES "/%s", name);
    snprintf(expected_path, sizeof expected_path, "%.*s.expected", (int)(strlen(path) - 5), path);
    char *text = scratch_read(path, NULL);
    char *expected = with_names(scratch_read(expected_path, NULL));
    char *line = strndup(text, strcspn(text, "\n")), *overrides[32];
    size_t count = fixture_overrides(line, overrides), lines = 0;
    smoe_err err;
    smoe_spec spec;
    if (!smoe_spec_parse(&spec, &(smoe_spec_text){.text = text, .label = name}, overrides, count,
                         &err))
        fail_msg("%s was accepted", name);
    assert_int_equal(err.code, SMOE_USAGE);
    size_t length = strlen(expected);
    assert_true(length && expected[length - 1] == '\n');
    expected[length - 1] = '\0';
    assert_string_equal(err.text, expected);
    for (const char *c = expected; c; c = strchr(c + 1, '\n')) lines++;
    assert_int_equal(err.lines, lines);
    smoe_spec_free(&spec);
    free(line);
    free(expected);
    free(text);
}

static size_t each_fixture(const char *folder, void (*check)(const char *name)) {
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".yaml")) continue;
        check(entry->d_name);
        count++;
    }
    closedir(dir);
    return count;
}

static void bad_fixtures_say_exactly_this(void **state) {
    assert_true(each_fixture(FIXTURES, check_fixture) >= 40);
}

/* A spec that is written and read again is the same to the byte, as YAML, as JSON, and between
 * the two. */
static void check_round_trip(const char *name) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, FIXTURES "/good/%s", name);
    smoe_err err;
    smoe_spec first, again, from_json, commented;
    if (smoe_spec_read(&first, path, NULL, 0, &err)) fail_msg("%s: %s", name, err.text);
    char *yaml = specs_yaml(&first, false), *json = smoe_spec_json(&first),
         *full = specs_yaml(&first, true);
    assert_null(strchr(json, '\n'));
    again = specs_good(yaml, NULL, NULL, NULL);
    from_json = specs_good(json, NULL, NULL, NULL);
    commented = specs_good(full, NULL, NULL, NULL);
    smoe_spec *const copies[] = {&again, &from_json, &commented};
    for (size_t i = 0; i < 3; i++) {
        char *yaml_again = specs_yaml(copies[i], false), *json_again = smoe_spec_json(copies[i]);
        assert_string_equal(yaml_again, yaml);
        assert_string_equal(json_again, json);
        free(yaml_again);
        free(json_again);
        assert_memory_equal(copies[i]->model.moe.is_moe, first.model.moe.is_moe,
                            sizeof first.model.moe.is_moe);
        smoe_spec_free(copies[i]);
    }
    smoe_spec_free(&first);
    free(full);
    free(json);
    free(yaml);
}

static void good_fixtures_round_trip(void **state) {
    assert_true(each_fixture(FIXTURES "/good", check_round_trip) >= 7);
}

/* ---- values ---------------------------------------------------------------- */

/* The documented defaults, typed in a second time. */
static void documented_spec_is_read(void **state) {
    smoe_err err;
    smoe_spec s;
    assert_int_equal(smoe_spec_read(&s, FIXTURES "/good/documented.yaml", NULL, 0, &err), 0);
    assert_string_equal(s.name, "soft-cifar10");
    assert_int_equal(s.data.source, SMOE_SOURCE_FOLDER);
    assert_string_equal(s.data.path, "photos");
    assert_int_equal(s.data.augment.crop, SMOE_CROP_PAD);
    assert_int_equal(s.model.width, 384);
    assert_int_equal(s.model.depth, 12);
    assert_int_equal(s.model.mlp, 1536);
    assert_int_equal(s.model.heads, 6);
    assert_int_equal(s.model.moe.layer_count, 6);
    assert_true(!s.model.moe.is_moe[5] && s.model.moe.is_moe[6] && s.model.moe.is_moe[11]);
    assert_string_equal(s.model.moe.router, "soft");
    assert_int_equal(s.model.moe.choice.priority, SMOE_PRIORITY_BPR);
    assert_close(s.model.moe.balance.aux_weight, 0.01, 0);
    assert_close(s.train.optimizer.lr, 1e-3, 0);
    assert_close(s.train.optimizer.eps, 1e-8, 0);
    assert_close(s.train.optimizer.head_weight_decay, 3.0, 0);
    assert_int_equal(s.train.schedule.name, SMOE_SCHEDULE_RSQRT);
    assert_int_equal(s.train.schedule.cooldown.steps, 200);
    assert_int_equal(s.eval.fewshot.count, 3);
    assert_int_equal(s.eval.fewshot.shots[2], 10);
    smoe_spec_free(&s);
}

/* The defaults and the example differ only in what the example is about. */
static void defaults_are_documented(void **state) {
    smoe_spec s = specs_good("{}", NULL, NULL, NULL);
    char *overrides[] = {"name=unnamed", "data.source=shapes", "data.path=null",
                         "data.augment.crop=none", "eval.fewshot.shots=[]"};
    smoe_spec c;
    smoe_err err;
    assert_int_equal(smoe_spec_read(&c, FIXTURES "/good/documented.yaml", overrides, 5, &err), 0);
    char *of_s = specs_yaml(&s, false), *of_c = specs_yaml(&c, false);
    assert_string_equal(of_s, of_c);
    free(of_s);
    free(of_c);
    smoe_spec_free(&s);
    smoe_spec_free(&c);
}

static void scalars_are_typed_by_the_schema(void **state) {
    static const struct {
        const char *text;
        double value;
    } reals[] = {{"1e-4", 1e-4},     {"1E-4", 1e-4}, {"\"1e-4\"", 1e-4}, {".5", 0.5},  {"2.", 2},
                 {"1_0.2_5", 10.25}, {"1e+2", 100},  {"-0", 0},          {"0.1", 0.1}, {"010", 10}};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        char text[80];
        snprintf(text, sizeof text, "train: {optimizer: {lr: %s}}", reals[i].text);
        smoe_spec s = specs_good(text, NULL, NULL, NULL);
        assert_true(s.train.optimizer.lr == reals[i].value && !signbit(s.train.optimizer.lr));
        smoe_spec_free(&s);
    }
    static const struct {
        const char *text;
        size_t value;
    } sizes[] = {{"1_000", 1000}, {"010", 10}, {"3e5", 300000}, {"'7'", 7}, {"1_000_000", 1000000}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char text[80];
        snprintf(text, sizeof text, "data: {limit: %s}", sizes[i].text);
        smoe_spec s = specs_good(text, NULL, NULL, NULL);
        assert_int_equal(s.data.limit, sizes[i].value);
        smoe_spec_free(&s);
    }
    specs_wrong("data: {limit: 1_}", NULL,
                "t:1:15: data.limit: expected a whole number, found '1_'");
    static const struct {
        const char *text;
        bool value;
    } truths[] = {{"on", true},  {"Off", false}, {"YES", true},
                  {"no", false}, {"True", true}, {"'false'", false}};
    for (size_t i = 0; i < sizeof truths / sizeof *truths; i++) {
        char text[80];
        snprintf(text, sizeof text, "model: {qk_norm: %s}", truths[i].text);
        smoe_spec s = specs_good(text, NULL, NULL, NULL);
        assert_int_equal(s.model.qk_norm, truths[i].value);
        smoe_spec_free(&s);
    }
    smoe_spec s =
        specs_good("name: 1e-4\ndata: {path: off}\nseed: 9007199254740992", NULL, NULL, NULL);
    assert_string_equal(s.name, "1e-4");
    assert_string_equal(s.data.path, "off");
    assert_true(s.seed == 9007199254740992u);
    smoe_spec_free(&s);
}

/* Text that YAML could take for another type is preserved in both forms. */
static void names_and_paths_survive_writing(void **state) {
    static const char *const names[] = {
        "null", "true", "~",  "1e5", "a: b",  "#x",  "- a", "\"q\"", "back\\slash", "caf\xc3\xa9",
        "[1]",  "{a}",  "on", "-",   " lead", "a b", "x,y", "!t",    "&a"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *quoted = json_pack("{s:s,s:{s:s}}", "name", names[i], "data", "path", names[i]);
        char *text = json_dumps(quoted, 0);
        smoe_spec s = specs_good(text, NULL, NULL, NULL);
        assert_string_equal(s.name, names[i]);
        char *yaml = specs_yaml(&s, false), *json = smoe_spec_json(&s);
        smoe_spec a = specs_good(yaml, NULL, NULL, NULL), b = specs_good(json, NULL, NULL, NULL);
        assert_string_equal(a.name, names[i]);
        assert_string_equal(a.data.path, names[i]);
        assert_string_equal(b.name, names[i]);
        assert_string_equal(b.data.path, names[i]);
        smoe_spec_free(&a);
        smoe_spec_free(&b);
        smoe_spec_free(&s);
        free(json);
        free(yaml);
        free(text);
        json_decref(quoted);
    }
}

static void reals_come_back_to_the_bit(void **state) {
    static const double numbers[] = {0.1,        1.0 / 3,  1e-8, 0.30000000000000004,
                                     123456.789, 4.9e-300, 1e-3};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char assign[80];
        snprintf(assign, sizeof assign, "train.optimizer.lr=%.17g", numbers[i]);
        if (numbers[i] > 1000)
            snprintf(assign, sizeof assign, "train.optimizer.clip=%.17g", numbers[i]);
        smoe_spec s = specs_good("{}", assign, NULL, NULL);
        double *value = numbers[i] > 1000 ? &s.train.optimizer.clip : &s.train.optimizer.lr;
        assert_true(*value == numbers[i]);
        char *yaml = specs_yaml(&s, false), *json = smoe_spec_json(&s);
        smoe_spec a = specs_good(yaml, NULL, NULL, NULL), b = specs_good(json, NULL, NULL, NULL);
        assert_memory_equal(&a.train.optimizer, &s.train.optimizer, sizeof s.train.optimizer);
        assert_memory_equal(&b.train.optimizer, &s.train.optimizer, sizeof s.train.optimizer);
        smoe_spec_free(&a);
        smoe_spec_free(&b);
        smoe_spec_free(&s);
        free(yaml);
        free(json);
    }
}

/* Sets the value and what is written of it; false where the entry does not take it. */
static bool comes_back(const smoe_schema_entry *entry, const char *text) {
    char problem[SMOE_PROBLEM];
    smoe_spec first = {0}, second = {0};
    if (smoe_value_set(&first, entry, text, true, problem)) return false;
    char *written = smoe_value_yaml(&first, entry);
    json_t *json = smoe_value_json(&first, entry);
    assert_non_null(written);
    assert_non_null(json);
    if (smoe_value_set(&second, entry, written, true, problem))
        fail_msg("%s: %s is written as %s, which %s", entry->key, text, written, problem);
    char *again = smoe_value_yaml(&second, entry);
    json_t *json_again = smoe_value_json(&second, entry);
    assert_string_equal(written, again);
    if (!json_equal(json, json_again))
        fail_msg("%s: %s is another number in JSON", entry->key, text);
    json_decref(json);
    json_decref(json_again);
    free(written);
    free(again);
    return true;
}

/* Whole numbers whose shortest form as a real has an exponent, the largest of 16, 32 and 53 bits,
 * and reals that need one to 17 digits. */
static void numbers_of_every_key_come_back(void **state) {
    static const char *const numbers[] = {"0",
                                          "1",
                                          "2",
                                          "10",
                                          "100",
                                          "1100",
                                          "65535",
                                          "65536",
                                          "1200000",
                                          "4294967295",
                                          "9e15",
                                          "0.1",
                                          "0.5",
                                          "1e-7",
                                          "1e5",
                                          "1e20",
                                          "2.5e-9",
                                          "123.25",
                                          "0.30000000000000004",
                                          "-1",
                                          "-0.75"};
    size_t entries = 0;
    for (size_t e = 0; e < SMOE_SCHEMA_COUNT; e++) {
        smoe_kind kind = smoe_schema[e].kind;
        if (kind != SMOE_KIND_SIZE && kind != SMOE_KIND_REAL && kind != SMOE_KIND_WORD_REAL &&
            kind != SMOE_KIND_SIZES && kind != SMOE_KIND_REALS)
            continue;
        size_t taken = 0;
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            taken += comes_back(&smoe_schema[e], numbers[i]);
        if (!taken) fail_msg("%s takes none of the numbers", smoe_schema[e].key);
        entries++;
    }
    assert_true(entries > 80);
}

static void what_cannot_be_carried_is_refused(void **state) {
    specs_wrong("{}", "data.path=\xff",
                "override data.path=?: data.path: expected printable UTF-8 text, found '?'");
    specs_wrong("{}", "name=a\nb",
                "override name=a?b: name: expected printable UTF-8 text, found 'a?b'");
    specs_wrong("name: \"\\x85\"", NULL, "t:1:7: name: expected printable UTF-8 text, found '?'");
    specs_wrong("name: ok\nseed: \xff", NULL, "t:2:7: not YAML: invalid leading UTF-8 octet");
    specs_wrong(
        "name: .hidden", NULL,
        "t:1:7: name: expected 1 to 200 bytes without '/' and not starting with '.' (it names "
        "folders), "
        "found '.hidden'");
}

/* ---- overrides ------------------------------------------------------------- */

static void overrides_apply_in_order(void **state) {
    smoe_spec s = specs_good("train: {steps: 5}", "train.steps=600", "train.steps=700",
                             "data.augment={randaugment: {n: 2, m: 9}, flip: on}");
    assert_int_equal(s.train.steps, 700);
    assert_int_equal(s.data.augment.randaugment.n, 2);
    assert_int_equal(s.data.augment.randaugment.m, 9);
    assert_true(s.data.augment.flip);
    assert_int_equal(s.data.augment.crop, SMOE_CROP_NONE);
    smoe_spec_free(&s);
    s = specs_good("eval: {fewshot: {shots: [1, 2, 3]}}", "eval.fewshot.shots=[10,5]",
                   "model.moe.layers=[5,4]", "data={source: idx, path: /z, classes: 2}");
    assert_int_equal(s.eval.fewshot.count, 2);
    assert_int_equal(s.eval.fewshot.shots[0], 5);
    assert_string_equal(s.model.moe.layers, "[4, 5]");
    assert_string_equal(s.data.path, "/z");
    smoe_spec_free(&s);
    s = specs_good("data: {source: idx, path: x}", "data.path=/a b: c #[x]=y", NULL, NULL);
    assert_string_equal(s.data.path, "/a b: c #[x]=y");
    smoe_spec_free(&s);
    s = specs_good("eval: {fewshot: {shots: [1, 2, 3]}}\ndata: {path: x}", "eval.fewshot.shots=10",
                   "data.path=", NULL);
    assert_int_equal(s.eval.fewshot.count, 1);
    assert_null(s.data.path);
    smoe_spec_free(&s);
}

/* A mistake in a file remains one, even if an override replaces the value. */
static void an_override_does_not_excuse_the_file(void **state) {
    specs_wrong("train: {steps: ten}", "train.steps=10",
                "t:1:16: train.steps: expected a whole number, found 'ten'");
}

static void the_closest_to_the_user_is_blamed(void **state) {
    specs_wrong("model: {patch_size: 4}", "data.image_size=30",
                "override data.image_size=30: data.image_size: patches of 4 do not divide an image "
                "of 30: use patches that divide it, or an image that is a multiple of 4");
    specs_wrong("data: {image_size: 30}", NULL,
                "t:1:20: data.image_size: patches of 4 do not divide an image of 30: use patches "
                "that divide it, or an image that is a multiple of 4");
}

/* ---- limits ---------------------------------------------------------------- */

static void absurd_input_is_refused(void **state) {
    enum { MIB = 1 << 20 };
    smoe_err err;
    smoe_spec spec;
    char *text = malloc(MIB + 1);
    memset(text, ' ', MIB + 1);
    memcpy(text, "{}", 2);
    assert_int_equal(smoe_spec_parse(&spec,
                                     &(smoe_spec_text){.text = text, .length = MIB, .label = "t"},
                                     NULL, 0, &err),
                     0);
    smoe_spec_free(&spec);
    assert_int_equal(
        smoe_spec_parse(&spec, &(smoe_spec_text){.text = text, .length = MIB + 1, .label = "t"},
                        NULL, 0, &err),
        -1);
    assert_string_equal(err.text, "t: larger than 1 MiB, so not a spec");
    smoe_spec_free(&spec);
    memset(text, '[', MIB);
    assert_int_equal(smoe_spec_parse(&spec,
                                     &(smoe_spec_text){.text = text, .length = MIB, .label = "t"},
                                     NULL, 0, &err),
                     -1);
    smoe_spec_free(&spec);
    free(text);
    assert_int_equal(smoe_spec_read(&spec, "no/such.yaml", NULL, 0, &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_string_equal(err.text, "no/such.yaml: cannot be opened: No such file or directory");
    smoe_spec_free(&spec);
    assert_int_equal(smoe_spec_read(&spec, "tests", NULL, 0, &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_string_equal(err.text, "tests: cannot be read: Is a directory");
    smoe_spec_free(&spec);
}

/* ---- the table ------------------------------------------------------------- */

/* Writers open a section once, so its rows must stand together, and a section's name is never a
 * key too. */
static void rows_of_a_section_stand_together(void **state) {
    for (int i = 0; i < SMOE_SCHEMA_COUNT; i++) {
        assert_int_equal(smoe_schema_find(smoe_schema[i].key), i);
        assert_int_equal(smoe_schema_section(smoe_schema[i].key), -1);
        char section[SMOE_KEY_SIZE];
        snprintf(section, sizeof section, "%s", smoe_schema[i].key);
        size_t levels = 1;
        for (char *dot; (dot = strrchr(section, '.')); levels++) {
            *dot = '\0';
            int first = smoe_schema_section(section);
            for (int j = first; j <= i; j++)
                if (!smoe_schema_within(j, section))
                    fail_msg("%s stands apart from its section", smoe_schema[i].key);
        }
        assert_true(levels < 16); /* lists and mappings are read as deep as that (node.c) */
    }
}

/* Choices are in the order of the enum: the last one has the highest number. */
static void choices_follow_their_enums(void **state) {
    smoe_spec s =
        specs_good("data: {source: idx, path: x, augment: {crop: inception}}\n"
                   "model: {head: map, position: sincos2d, gelu: tanh,\n"
                   "        moe: {l2_eps: vmoe, capacity_rounding: ceil, priority: bpr-sum}}\n"
                   "train: {loss: sigmoid, optimizer: {name: sgd}, schedule: {name: cosine}}\n",
                   NULL, NULL, NULL);
    assert_int_equal(s.data.source, SMOE_SOURCE_IDX);
    assert_int_equal(s.data.augment.crop, SMOE_CROP_INCEPTION);
    assert_int_equal(s.model.head, SMOE_HEAD_MAP);
    assert_int_equal(s.model.position, SMOE_POSITION_SINCOS2D);
    assert_int_equal(s.model.gelu, SMOE_GELU_TANH);
    assert_int_equal(s.model.moe.soft.l2_eps, SMOE_L2_VMOE);
    assert_int_equal(s.model.moe.choice.capacity_rounding, SMOE_ROUNDING_CEIL);
    assert_int_equal(s.model.moe.choice.priority, SMOE_PRIORITY_BPR_SUM);
    assert_int_equal(s.train.loss, SMOE_LOSS_SIGMOID);
    assert_int_equal(s.train.optimizer.name, SMOE_OPTIMIZER_SGD);
    assert_int_equal(s.train.schedule.name, SMOE_SCHEDULE_COSINE);
    smoe_spec_free(&s);
    static const struct {
        const char *name;
        int value;
    } middle[] = {{"image-folder", SMOE_SOURCE_FOLDER},
                  {"cifar10", SMOE_SOURCE_CIFAR10},
                  {"cifar100", SMOE_SOURCE_CIFAR100},
                  {"cifar100-coarse", SMOE_SOURCE_CIFAR100_COARSE}};
    for (size_t i = 0; i < 4; i++) {
        char assign[64];
        snprintf(assign, sizeof assign, "data.source=%s", middle[i].name);
        s = specs_good("data: {path: x}", assign, NULL, NULL);
        assert_int_equal(s.data.source, middle[i].value);
        smoe_spec_free(&s);
    }
    s = specs_good(
        "train: {schedule: {name: linear}}\ndata: {augment: {crop: pad}}\nmodel: {head: token}",
        NULL, NULL, NULL);
    assert_int_equal(s.train.schedule.name, SMOE_SCHEDULE_LINEAR);
    assert_int_equal(s.data.augment.crop, SMOE_CROP_PAD);
    assert_int_equal(s.model.head, SMOE_HEAD_TOKEN);
    smoe_spec_free(&s);
}

/* ---- the man page ---------------------------------------------------------- */

/* An entry of the page: ".TP", then ".BR key " " [default] type" as one line of alternating
 * fonts, without escaped minus signs. */
static void unescape(char *text) {
    char *to = text;
    for (const char *c = text; *c; c++)
        if (*c != '\\') *to++ = *c;
    *to = '\0';
}

static void the_man_page_is_the_table(void **state) {
    char *page = scratch_read("man/smoe-spec.5", NULL);
    size_t entries = 0;
    unescape(page);
    for (size_t i = 0; i < SMOE_SCHEMA_COUNT; i++) {
        const smoe_schema_entry *k = &smoe_schema[i];
        char type[256];
        assert_true(strlen(k->help) > 3);
        char *entry = smoe_text_format("\n.TP\n.BR %s \" [%s]  %s\"\n", k->key, k->preset,
                                       smoe_schema_type(k, type, sizeof type));
        if (!strstr(page, entry)) fail_msg("smoe-spec.5 lacks the entry%s", entry);
        free(entry);
    }
    /* conversely: no entry beyond those of the table */
    for (const char *c = page; (c = strstr(c, "\n.TP\n.BR ")); c++) entries++;
    assert_int_equal(entries, SMOE_SCHEMA_COUNT);
    free(page);
}

/* A resolved spec that ends early, wherever, is refused: the keys behind would be the defaults. */
static void a_cut_spec_is_refused(void **state) {
    smoe_spec first, again;
    smoe_err err = {0};
    static const char *const given = "train: {steps: 12345, batch_size: 8}";
    assert_int_equal(
        smoe_spec_parse(&first, &(smoe_spec_text){.text = given, .label = "t"}, NULL, 0, &err), 0);
    char *yaml = specs_yaml(&first, false);
    size_t size = strlen(yaml), lines = 0;
    assert_int_equal(smoe_spec_parse(&again,
                                     &(smoe_spec_text){.text = yaml, .length = size, .label = "t"},
                                     NULL, 0, &err),
                     0);
    smoe_spec_free(&again);
    for (size_t cut = size - 1; cut; cut--) {
        if (yaml[cut - 1] != '\n' && cut + 40 < size) continue;
        lines++;
        assert_int_equal(
            smoe_spec_parse(&again, &(smoe_spec_text){.text = yaml, .length = cut, .label = "t"},
                            NULL, 0, &err),
            -1);
        assert_int_equal(err.code, SMOE_USAGE);
        smoe_spec_free(&again);
    }
    assert_true(lines > SMOE_SCHEMA_COUNT);
    free(yaml);
    smoe_spec_free(&first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_fixtures_say_exactly_this),
        cmocka_unit_test(good_fixtures_round_trip),
        cmocka_unit_test(a_cut_spec_is_refused),
        cmocka_unit_test(documented_spec_is_read),
        cmocka_unit_test(defaults_are_documented),
        cmocka_unit_test(scalars_are_typed_by_the_schema),
        cmocka_unit_test(names_and_paths_survive_writing),
        cmocka_unit_test(reals_come_back_to_the_bit),
        cmocka_unit_test(numbers_of_every_key_come_back),
        cmocka_unit_test(what_cannot_be_carried_is_refused),
        cmocka_unit_test(overrides_apply_in_order),
        cmocka_unit_test(an_override_does_not_excuse_the_file),
        cmocka_unit_test(the_closest_to_the_user_is_blamed),
        cmocka_unit_test(absurd_input_is_refused),
        cmocka_unit_test(rows_of_a_section_stand_together),
        cmocka_unit_test(choices_follow_their_enums),
        cmocka_unit_test(the_man_page_is_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
