/*
 * webdataset: samples across shards, keys and suffixes, long names, captions and classes, splits by
 * name and by the last shards; what is refused, with its place; which samples may be left out, and
 * how many.
 */
#include "data/dataset_source.h"
#include "datafiles.h"
#include "scratch.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 8, BYTES = 3 * SIDE * SIDE };

static uint8_t *picture(unsigned seed, size_t *size) {
    uint8_t pixel[BYTES];
    datafiles_picture(pixel, SIDE, SIDE, 3, seed);
    return datafiles_png(pixel, SIDE, SIDE, 3, size);
}

typedef struct shards {
    scratch dir;
    char path[SCRATCH_PATH]; /* the pattern */
    smoe_spec spec;
} shards;

static void begin(shards *s, const char *pattern) {
    scratch_make(&s->dir);
    snprintf(s->path, sizeof s->path, "%s/%s", s->dir.dir, pattern);
    s->spec = datafiles_spec(SMOE_SOURCE_WEBDATASET, s->path, SIDE, 3);
    s->spec.train.loss = SMOE_LOSS_CONTRASTIVE;
}

static void write_shard(const shards *s, const char *name, const datafile *file, size_t count) {
    char path[SCRATCH_PATH];
    datafiles_archive(scratch_path(&s->dir, path, name), file, count);
}

static smoe_dataset *opened(const shards *s, const char *split) {
    smoe_dataset *set;
    smoe_err err = {0};
    if (smoe_dataset_open(&set, &s->spec, split, NULL, &err)) fail_msg("%s", err.text);
    datafiles_listed(&s->spec, split, set, NULL);
    return set;
}

static void assert_sample(const smoe_dataset *set, size_t i, unsigned seed, const char *caption,
                          size_t label, const char *key) {
    uint8_t wanted[BYTES];
    real pixels[BYTES], target[64];
    char buf[512];
    int64_t main_label;
    smoe_err err = {0};
    datafiles_picture(wanted, SIDE, SIDE, 3, seed);
    if (smoe_dataset_image(set, i, false, pixels, target, &main_label, &err))
        fail_msg("%s", err.text);
    for (size_t p = 0; p < SIDE * SIDE; p++)
        for (size_t c = 0; c < 3; c++)
            assert_true(pixels[c * SIDE * SIDE + p] == (real)(wanted[3 * p + c] / 127.5 - 1) ||
                        pixels[c * SIDE * SIDE + p] == (real)wanted[3 * p + c] / (real)127.5 - 1);
    assert_int_equal(main_label, label);
    assert_int_equal(smoe_dataset_caption(set, i, NULL, buf, sizeof buf, NULL), 0);
    assert_string_equal(buf, caption);
    assert_string_equal(smoe_dataset_image_name(set, i, buf, sizeof buf), key);
}

/* Two shards. A key contains a folder, suffixes have capitals and dots, other members are
 * ignored, a name is longer than the header's field, and a caption ends in a line break. */
static void samples_across_shards(void **state) {
    shards s;
    size_t size[3];
    uint8_t *png[3];
    char long_name[300], long_text[300], key[290];
    for (unsigned i = 0; i < 3; i++) png[i] = picture(i, &size[i]);
    snprintf(key, sizeof key, "folder/%0250d", 7);
    snprintf(long_name, sizeof long_name, "%s.PNG", key);
    snprintf(long_text, sizeof long_text, "%s.txt", key);
    const datafile first[] = {
        {"a/001.png", png[0], size[0]}, {"a/001.txt", "one\n", 4},
        {"a/001.cls", "2\n", 2},        {"a/001.seg.png", png[2], size[2]},
        {"__info__.json", "{}", 2},     {"a/002.txt", "two", 3},
        {"a/002.json", "{}", 2},        {"a/002.cls", "0", 1},
        {"a/002.jpg", png[1], size[1]}, {"folder/", "", 0},
    };
    begin(&s, "{split}-{08..10}.tar");
    write_shard(&s, "train-08.tar", first, 10);
    write_shard(&s, "train-09.tar", first, 5);
    const datafile last[] = {
        {long_name, png[2], size[2]}, {long_text, "caf\xc3\xa9", 5}, {"folder/.cls", "1", 1}};
    write_shard(&s, "train-10.tar", last, 2);
    datafiles_refused(&s.spec, "train", SMOE_DATA, "train-10.tar", "0007: no class (cls)", NULL);
    s.spec.data.on_error = SMOE_ON_ERROR_SKIP; /* one of four is too many to leave out */
    datafiles_refused(&s.spec, "train", SMOE_DATA, "1 of 4 images cannot be used", NULL);
    s.spec.data.on_error = SMOE_ON_ERROR_STOP;
    char *name = strdup(long_name);
    strcpy(strrchr(name, '.'), ".cls");
    const datafile right[] = {last[0], last[1], {name, "1", 1}};
    write_shard(&s, "train-10.tar", right, 3);
    smoe_dataset *set = opened(&s, "train");
    assert_int_equal(smoe_dataset_images(set), 4);
    assert_int_equal(smoe_dataset_classes(set), 3);
    assert_sample(set, 0, 0, "one", 2, "a/001");
    assert_sample(set, 1, 1, "two", 0, "a/002");
    assert_sample(set, 2, 0, "one", 2, "a/001");
    assert_sample(set, 3, 2, "caf\xc3\xa9", 1, key);
    smoe_dataset_free(set);
    datafiles_refused(&s.spec, "test", SMOE_DATA, "test-08.tar", "No such file", NULL);
    free(name);
    for (unsigned i = 0; i < 3; i++) free(png[i]);
    scratch_remove(&s.dir);
}

/* Samples that follow one another with the same key would become one: each is refused. */
static void keys_twice(void **state) {
    shards s;
    size_t size;
    uint8_t *png = picture(3, &size);
    const datafile twice[] = {{"a.png", png, size}, {"a.txt", "one", 3}, {"a.cls", "0", 1},
                              {"a.png", png, size}, {"a.txt", "two", 3}, {"a.cls", "1", 1}};
    static const char *const found[] = {"image", "caption (txt)", "class (cls)"};
    begin(&s, "{split}.tar");
    for (size_t i = 0; i < 3; i++) {
        char wanted[80];
        const datafile file[] = {twice[0], twice[1], twice[2], twice[3 + i]};
        write_shard(&s, "train.tar", file, 4);
        snprintf(wanted, sizeof wanted, "train.tar: a: a second %s; the key of each sample",
                 found[i]);
        datafiles_refused(&s.spec, "train", SMOE_DATA, wanted, NULL);
    }
    const datafile jpeg[] = {twice[0], twice[1], twice[2], {"a.jpg", png, size}};
    write_shard(&s, "train.tar", jpeg, 4);
    datafiles_refused(&s.spec, "train", SMOE_DATA, "a second image", NULL);
    s.spec.data.on_error = SMOE_ON_ERROR_SKIP;
    write_shard(&s, "train.tar", twice, 6);
    datafiles_refused(&s.spec, "train", SMOE_DATA, "1 of 1 images cannot be used", NULL);
    free(png);
    scratch_remove(&s.dir);
}

/* Without {split} the last shards are test and val; without classes there is a single class. */
static void held_out_shards(void **state) {
    shards s;
    char path[SCRATCH_PATH];
    size_t size;
    uint8_t *png = picture(3, &size);
    begin(&s, "s{0..2}.tar");
    for (int i = 0; i < 3; i++) {
        char key[16], text[16], shard[24];
        snprintf(key, sizeof key, "%d.png", i);
        snprintf(text, sizeof text, "%d.txt", i);
        snprintf(shard, sizeof shard, "s%d.tar", i);
        const datafile file[] = {{key, png, size}, {text, key, 1}};
        write_shard(&s, shard, file, 2);
    }
    datafiles_refused(&s.spec, "test", SMOE_USAGE, "has no {split}", "data.holdout", NULL);
    s.spec.data.holdout = 3;
    datafiles_refused(&s.spec, "train", SMOE_USAGE, "data.holdout: 3 of 3 shards", NULL);
    s.spec.data.holdout = 1;
    smoe_dataset *train = opened(&s, "train"), *test = opened(&s, "test");
    assert_int_equal(smoe_dataset_images(train), 2);
    assert_int_equal(smoe_dataset_images(test), 1);
    assert_int_equal(smoe_dataset_classes(test), 1);
    assert_sample(train, 1, 3, "1", 0, "1");
    assert_sample(test, 0, 3, "2", 0, "2");
    smoe_dataset_free(train);
    smoe_dataset_free(test);
    scratch_write(scratch_path(&s.dir, path, "s1.tar"), "", 0); /* a shard without samples */
    train = opened(&s, "train");
    assert_int_equal(smoe_dataset_images(train), 1);
    assert_sample(train, 0, 3, "0", 0, "0");
    smoe_dataset_free(train);
    free(png);
    scratch_remove(&s.dir);
}

/* data.caption: json.FIELD, whether or not there is txt; a list in the pattern. */
static void captions_in_json(void **state) {
    static const struct {
        const char *json, *what;
    } bad[] = {{"{\"words\": \"x\"", "a/1: json: "},
               {"[\"words\"]", "a/1: json: no text in its field words"},
               {"{\"Words\": \"x\"}", "a/1: json: no text in its field words"},
               {"{\"words\": null}", "a/1: json: no text in its field words"},
               {"{\"words\": {\"words\": \"x\"}}", "a/1: json: no text in its field words"},
               {"{\"words\": \"a\\u0000b\"}", "a/1: json: "},
               {"", "a/1: json: "}};
    shards s;
    size_t size;
    uint8_t *png = picture(4, &size);
    static const char one[] = "{\"url\": 3, \"words\": \"caf\\u00e9 \\\"x\\\"\\n\"}";
    static const char two[] = "{\"words\": \"\"}";
    begin(&s, "{first,b}-{1..1}.tar");
    s.spec.data.caption = "json.words";
    const datafile a[] = {
        {"a/1.png", png, size}, {"a/1.json", one, sizeof one - 1}, {"a/1.txt", "no", 2}};
    const datafile b[] = {{"2.JSON", two, sizeof two - 1}, {"2.png", png, size}};
    write_shard(&s, "first-1.tar", a, 3);
    write_shard(&s, "b-1.tar", b, 2);
    smoe_dataset *set = opened(&s, "train");
    assert_int_equal(smoe_dataset_images(set), 2);
    assert_sample(set, 0, 4, "caf\xc3\xa9 \"x\"", 0, "a/1");
    assert_sample(set, 1, 4, "", 0, "2");
    smoe_dataset_free(set);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const datafile file[] = {{"a/1.png", png, size},
                                 {"a/1.json", bad[i].json, strlen(bad[i].json)}};
        write_shard(&s, "first-1.tar", file, 2);
        datafiles_refused(&s.spec, "train", SMOE_DATA, "first-1.tar", bad[i].what, NULL);
    }
    const datafile none[] = {{"a/1.png", png, size}, {"a/1.txt", "no", 2}};
    write_shard(&s, "first-1.tar", none, 2);
    datafiles_refused(&s.spec, "train", SMOE_DATA, "a/1: no caption (json)", NULL);
    s.spec.train.loss = SMOE_LOSS_SOFTMAX; /* which needs no captions */
    smoe_dataset_free(opened(&s, "train"));
    free(png);
    scratch_remove(&s.dir);
}

/* The classes of one sample, in their order, as a text. */
static const char *classes_of(const smoe_dataset *set, size_t i) {
    static char text[64];
    size_t class[8], n = smoe_dataset_all_labels(set, i, class, 8), used = 0;
    for (size_t k = 0; k < n; k++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", k ? " " : "",
                                 smoe_dataset_class_name(set, class[k]));
    return text;
}

/* cls: numbers and names, one and several, with blanks around them; a field of json, or all of it;
 * a table beside the shards. The first class is the main one, and a class counts once. */
static void classes_of_samples(void **state) {
    static const struct {
        const char *label, *table, *member[3], *class[3];
        size_t classes;
    } good[] = {
        {"cls", NULL, {"2", " 0\r\n", "1"}, {"2", "0", "1"}, 3},
        {"cls", NULL, {"0,2", "[3, 1]", "3;3"}, {"0 2", "3 1", "3"}, 4},
        {"cls",
         NULL,
         {"dog", "tench, a fish ", "cat; dog|cat"},
         {"dog", "tench, a fish", "cat dog"},
         3},
        {"json", NULL, {"[1, 0]", "2", "[0]"}, {"1 0", "2", "0"}, 3},
        {"json.tags",
         NULL,
         {"{\"tags\": [\"b\", \"a\"]}", "{\"tags\": \"a\"}", "{\"tags\": [\"c\"]}"},
         {"b a", "a", "c"},
         3},
        {"cls",
         "name,labels\n0.png,x;y\na/1,z\n2.png,x\n9.png,w\n",
         {"5", "6", "7"},
         {"x y", "z", "x"},
         4},
    };
    static const struct {
        const char *label, *member, *what;
    } bad[] = {
        {"cls", ",", "a/1: no class (cls)"},
        {"cls", "cat", "a/1: the class cat is not a number, but others are (cls)"},
        {"cls", "10000000", "a/1: class 10000000: the number of a class must be below 10000000"},
        {"json", "[[0]]", "a/1: no class (json)"},
        {"json", "2.0", "a/1: 2.0 is no class: write a whole number from 0, or a name (json)"},
        {"json", "[1, null]", "a/1: null is no class"},
        {"json", "-1", "a/1: -1 is no class"},
        {"json", "{", "a/1: line 1: string or '}' expected near end of file (json)"},
        {"cls", "18446744073709551617", "a/1: class 18446744073709551617: the number of a class"},
        {"json", "9223372036854775807", "a/1: class 9223372036854775807: the number of a class"},
        {"json", "18446744073709551616",
         "a/1: line 1: too big integer near '18446744073709551616' (json)"},
        {"json.tags", "{\"tags\": 1, \"id\": 18446744073709551616}", "a/1: line 1: too big"},
        {"json.tags", "{}", "a/1: no tags (json)"}};
    shards s;
    size_t size;
    uint8_t *png = picture(4, &size);
    char table[SCRATCH_PATH];
    begin(&s, "{split}-{0..0}.tar");
    s.spec.train.loss = SMOE_LOSS_SIGMOID;
    for (size_t k = 0; k < sizeof good / sizeof *good + sizeof bad / sizeof *bad; k++) {
        size_t b = k - sizeof good / sizeof *good;
        bool fails = k >= sizeof good / sizeof *good;
        s.spec.data.label = (char *)(fails ? bad[b].label : good[k].label);
        const char *kind = *s.spec.data.label == 'c' ? "cls" : "json";
        char name[3][12];
        datafile file[6];
        for (int i = 0; i < 3; i++) {
            static const char *const image[] = {"0.png", "a/1.png", "2.png"};
            const char *text = !fails ? good[k].member[i] : i == 1 ? bad[b].member : "0";
            if (fails && i != 1 && strchr(bad[b].label, '.')) text = "{\"tags\": 0}";
            snprintf(name[i], sizeof name[i], "%.*s%s", (int)strlen(image[i]) - 3, image[i], kind);
            file[2 * i] = (datafile){image[i], png, size};
            file[2 * i + 1] = (datafile){name[i], text, strlen(text)};
        }
        write_shard(&s, "train-0.tar", file, 6);
        s.spec.data.labels = NULL;
        if (!fails && good[k].table) {
            scratch_write(scratch_path(&s.dir, table, "t.csv"), good[k].table,
                          strlen(good[k].table));
            s.spec.data.labels = table;
        }
        if (fails) {
            datafiles_refused(&s.spec, "train", SMOE_DATA, bad[b].what, NULL);
            continue;
        }
        smoe_dataset *set = opened(&s, "train");
        assert_int_equal(smoe_dataset_classes(set), good[k].classes);
        for (size_t i = 0; i < 3; i++) assert_string_equal(classes_of(set, i), good[k].class[i]);
        real target[8], pixels[BYTES];
        int64_t label;
        assert_int_equal(smoe_dataset_image(set, 0, true, pixels, target, &label, NULL), 0);
        real sum = 0;
        for (size_t c = 0; c < good[k].classes; c++) sum += target[c];
        assert_true(sum == (strchr(good[k].class[0], ' ') ? 2 : 1) && target[label] == 1);
        smoe_dataset_free(set);
    }
    /* Names of another split are those of train, in its order; others are refused. */
    s.spec.data.label = "cls";
    const datafile a[] = {
        {"1.png", png, size}, {"1.cls", "dog", 3}, {"2.png", png, size}, {"2.cls", "ape", 3}};
    write_shard(&s, "train-0.tar", a, 4);
    write_shard(&s, "test-0.tar", a, 2);
    smoe_dataset *set = opened(&s, "test");
    assert_int_equal(smoe_dataset_classes(set), 2);
    assert_int_equal(smoe_dataset_label(set, 0), 1);
    smoe_dataset_free(set);
    const datafile wolf[] = {{"1.png", png, size}, {"1.cls", "wolf", 4}};
    write_shard(&s, "test-0.tar", wolf, 2);
    datafiles_refused(&s.spec, "test", SMOE_DATA, "test: the class wolf is not one of train", NULL);
    free(png);
    scratch_remove(&s.dir);
}

/* Lines of txt, and a list in json: one drawn from a stream, or that with a number. */
static void several_captions(void **state) {
    shards s;
    size_t size;
    uint8_t *png = picture(4, &size);
    char buf[64];
    begin(&s, "{split}.tar");
    for (int json = 0; json < 2; json++) {
        const char *text =
            json ? "{\"c\": [\"one\", \"two\\n\", \"three\"]}" : "one\n\ntwo \r\nthree";
        const datafile file[] = {{"1.png", png, size},
                                 {json ? "1.json" : "1.txt", text, strlen(text)}};
        s.spec.data.caption = json ? "json.c" : "txt";
        write_shard(&s, "train.tar", file, 2);
        smoe_dataset *set = opened(&s, "train");
        assert_sample(set, 0, 4, "one", 0, "1");
        static const char *const expected[] = {"one", "two", "three"};
        for (size_t k = 0; k < 3; k++) {
            smoe_caption_choice choice = {.which = k};
            assert_int_equal(smoe_dataset_caption(set, 0, &choice, buf, sizeof buf, NULL), 0);
            assert_string_equal(buf, expected[k]);
            assert_int_equal(choice.count, 3);
        }
        size_t seen[3] = {0};
        for (uint64_t epoch = 0; epoch < 300; epoch++) { /* 100 of each, deviation 8 */
            smoe_rng rng = smoe_rng_at(1, SMOE_RNG_CAPTION, 0, epoch, 0);
            smoe_caption_choice choice = {.draw = &rng};
            assert_int_equal(smoe_dataset_caption(set, 0, &choice, buf, sizeof buf, NULL), 0);
            assert_string_equal(buf, expected[choice.which]);
            seen[choice.which]++;
        }
        for (size_t k = 0; k < 3; k++) assert_in_range(seen[k], 60, 140);
        smoe_dataset_free(set);
    }
    const char *const bad[] = {"{\"c\": []}", "{\"c\": [\"a\", 3]}"};
    for (size_t k = 0; k < 2; k++) {
        const datafile file[] = {{"1.png", png, size}, {"1.json", bad[k], strlen(bad[k])}};
        write_shard(&s, "train.tar", file, 2);
        datafiles_refused(&s.spec, "train", SMOE_DATA, "1: json: no text in its field c", NULL);
    }
    free(png);
    scratch_remove(&s.dir);
}

/* data.shuffle_buffer: a pass has every sample once, shards come one after another in an order
 * of their own, and a sample comes at most a buffer earlier than in that sequence. A buffer of one
 * changes nothing within a shard. */
static void through_a_buffer(void **state) {
    enum { SHARDS = 5, EACH = 40, ALL = SHARDS * EACH };
    shards s;
    size_t size;
    uint8_t *png = picture(4, &size);
    static char name[EACH][2][8];
    static datafile file[2 * EACH];
    begin(&s, "{0..4}.tar");
    for (size_t i = 0; i < EACH; i++) {
        snprintf(name[i][0], sizeof name[i][0], "%zu.png", i);
        snprintf(name[i][1], sizeof name[i][1], "%zu.txt", i);
        file[2 * i] = (datafile){name[i][0], png, size};
        file[2 * i + 1] = (datafile){name[i][1], "x", 1};
    }
    for (size_t p = 0; p < SHARDS; p++) {
        char shard[8];
        snprintf(shard, sizeof shard, "%zu.tar", p);
        write_shard(&s, shard, file, 2 * EACH);
    }
    static const size_t buffers[] = {1, 16, ALL};
    for (size_t k = 0; k < 3; k++) {
        s.spec.data.shuffle_buffer = buffers[k];
        smoe_dataset *set = opened(&s, "train");
        uint32_t order[2][ALL], first[2][SHARDS];
        for (size_t epoch = 0; epoch < 2; epoch++) {
            bool seen[ALL] = {false};
            smoe_rng rng = smoe_rng_at(3, SMOE_RNG_SHUFFLE, 0, epoch, 0);
            smoe_dataset_shuffle(set, &rng, order[epoch]);
            size_t shards_seen = 0, moved = 0, begun[SHARDS];
            for (size_t i = 0; i < ALL; i++) {
                uint32_t image = order[epoch][i], p = image / EACH;
                assert_in_range(image, 0, ALL - 1);
                assert_false(seen[image]);
                seen[image] = true;
                size_t q = 0;
                while (q < shards_seen && first[epoch][q] != p) q++;
                if (q == shards_seen) {
                    first[epoch][shards_seen] = p;
                    begun[shards_seen++] = i;
                }
                if (i && order[epoch][i] != order[epoch][i - 1] + 1) moved++;
            }
            for (size_t q = 0; buffers[k] == 1 && q < SHARDS; q++)
                assert_int_equal(begun[q], q * EACH);
            if (buffers[k] == 1) assert_in_range(moved, 1, SHARDS - 1);
            if (buffers[k] > 1) assert_in_range(moved, ALL / 2, ALL);
            /* the place of an image in the sequence of shards, against its place in the pass */
            for (size_t i = 0; buffers[k] == 16 && i < ALL; i++) {
                size_t q = 0;
                while (first[epoch][q] != order[epoch][i] / EACH) q++;
                assert_true(q * EACH + order[epoch][i] % EACH < i + buffers[k]);
            }
        }
        assert_memory_not_equal(order[0], order[1], sizeof order[0]);
        smoe_dataset_free(set);
    }
    free(png);
    scratch_remove(&s.dir);
}

static void bad_patterns(void **state) {
    static const char *const patterns[] = {"a{1..}.tar", "{split}{b..c}.tar", "a{3..1}.tar",
                                           "a{1..2.tar", "a{0..999999999}.tar"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        shards s;
        begin(&s, patterns[i]);
        datafiles_refused(&s.spec, "train", SMOE_USAGE, "data.path: {", NULL);
        scratch_remove(&s.dir);
    }
}

/* A pax header that is damaged, before a tar: its name is not what the header of ustar says. */
static void damaged_pax(const shards *s, const char *path, const char *tar, size_t n) {
    static const char *const records[] = {"90 path=b.png\n", "14 path:b.png\n"};
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        char *bytes = calloc(1, 1024 + n);
        unsigned sum = 0;
        memcpy(bytes, tar, 512);
        snprintf(bytes + 124, 12, "%011o", (unsigned)strlen(records[i]));
        bytes[156] = 'x';
        memset(bytes + 148, ' ', 8);
        for (int k = 0; k < 512; k++) sum += (unsigned char)bytes[k];
        snprintf(bytes + 148, 8, "%06o", sum);
        memcpy(bytes + 512, records[i], strlen(records[i]));
        memcpy(bytes + 1024, tar, n);
        scratch_write(path, bytes, 1024 + n);
        datafiles_refused(&s->spec, "train", SMOE_DATA, "at byte 0: a pax header is damaged", NULL);
        free(bytes);
    }
}

/* Damage is reported with shard and byte. Skipping does not excuse it: what follows is unknown. */
static void damaged_shards(void **state) {
    shards s;
    char path[SCRATCH_PATH];
    size_t size, n;
    uint8_t *png = picture(4, &size);
    const datafile file[] = {{"a.png", png, size}, {"a.txt", "x", 1}};
    begin(&s, "{split}.tar");
    write_shard(&s, "train.tar", file, 2);
    char *whole = scratch_read(scratch_path(&s.dir, path, "train.tar"), &n);
    static const struct {
        size_t at, cut;
        char byte;
        const char *what;
    } damages[] = {
        {0, 0, '!', "at byte 0: not a tar header"},
        {124, 0, '9', "at byte 0: not a tar header"},
        {0, 100, 0, "at byte 0: the archive ends in a header"},
        {0, 600, 0, "at byte 0: the archive ends in a member"},
    };
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        char *bytes = malloc(n);
        memcpy(bytes, whole, n);
        if (damages[i].byte) bytes[damages[i].at] = damages[i].byte;
        scratch_write(path, bytes, damages[i].cut ? damages[i].cut : n);
        s.spec.data.on_error = (smoe_on_error)(i % 2);
        datafiles_refused(&s.spec, "train", SMOE_DATA, "train.tar", damages[i].what, NULL);
        free(bytes);
    }
    s.spec.data.on_error = SMOE_ON_ERROR_STOP;
    damaged_pax(&s, path, whole, n);
    const datafile none[] = {{"a.txt", "x", 1}}, empty[] = {{"a.png", png, size}};
    write_shard(&s, "train.tar", none, 1);
    datafiles_refused(&s.spec, "train", SMOE_DATA,
                      "train.tar: a: no image (jpg, jpeg, jpe, jfif, png, webp)", NULL);
    write_shard(&s, "train.tar", empty, 1);
    datafiles_refused(&s.spec, "train", SMOE_DATA, "train.tar: a: no caption (txt)", NULL);
    const datafile wide[] = {{"a.png", png, size},
                             {"a.txt",
                              "\xff\xfe"
                              "a\0b\0",
                              6}};
    char caption[256];
    write_shard(&s, "train.tar", wide, 2);
    smoe_dataset *set = opened(&s, "train");
    smoe_err err = {0};
    assert_int_equal(smoe_dataset_caption(set, 0, NULL, caption, sizeof caption, &err), -1);
    assert_non_null(strstr(err.text, "a: byte 3 is zero, so it is no text in UTF-8 (txt)"));
    smoe_dataset_free(set);
    s.spec.data.on_error = SMOE_ON_ERROR_SKIP;
    datafiles_refused(&s.spec, "train", SMOE_DATA, "a: byte 3 is zero", NULL);
    s.spec.data.on_error = SMOE_ON_ERROR_STOP;
    s.spec.train.loss = SMOE_LOSS_SOFTMAX; /* which needs no captions */
    smoe_dataset_free(opened(&s, "train"));
    const datafile word[] = {{"a.png", png, size}, {"a.cls", " \n", 2}};
    write_shard(&s, "train.tar", word, 2);
    datafiles_refused(&s.spec, "train", SMOE_DATA, "a: no class (cls)", NULL);
    const datafile zero[] = {{"a.png", png, size}, {"a.cls", "ca\0t", 4}};
    write_shard(&s, "train.tar", zero, 2);
    datafiles_refused(&s.spec, "train", SMOE_DATA, "a: byte 2 is zero, so it is no text (cls)",
                      NULL);
    uint8_t *gzip = datafiles_gzip(whole, n, &size);
    scratch_write(path, gzip, size);
    datafiles_refused(&s.spec, "train", SMOE_DATA, "train.tar: at byte 0: gzip data", "gunzip",
                      NULL);
    free(gzip);
    scratch_write(path, "version https://git-lfs.github.com/spec/v1\n", 43);
    datafiles_refused(&s.spec, "train", SMOE_DATA, "train.tar: a Git LFS pointer", NULL);
    free(whole);
    free(png);
    scratch_remove(&s.dir);
}

/* A tar that is cut between two members is read, and differs from a whole one in what follows the
 * last member: two empty blocks. */
static void cut_between_members(void **state) {
    shards s;
    char path[SCRATCH_PATH];
    size_t size, n;
    uint8_t *png = picture(4, &size);
    const datafile file[] = {
        {"a.png", png, size}, {"a.cls", "0", 1}, {"b.png", png, size}, {"b.cls", "1", 1}};
    size_t first = 3 * 512 + (size + 511) / 512 * 512; /* two headers and the contents of a */
    begin(&s, "{split}.tar");
    s.spec.train.loss = SMOE_LOSS_SOFTMAX;
    write_shard(&s, "train.tar", file, 4);
    char *whole = scratch_read(scratch_path(&s.dir, path, "train.tar"), &n);
    const size_t sizes[] = {first, 2 * first, 2 * first + 1024, n};
    for (size_t k = 0; k < 4; k++) {
        scratch_write(path, whole, sizes[k]);
        smoe_dataset *set = opened(&s, "train");
        const smoe_dataset_report *found = smoe_dataset_found(set);
        assert_int_equal(smoe_dataset_images(set), k ? 2 : 1);
        bool said = false;
        for (size_t i = 0; i < found->remarks; i++)
            said |= strstr(found->remark[i], "train.tar: no empty blocks at the") != NULL;
        assert_int_equal(said, k < 2);
        smoe_dataset_free(set);
    }
    free(whole);
    free(png);
    scratch_remove(&s.dir);
}

/* One of a hundred may be left out: here image 7 of 100, and of 99. */
static void what_is_left_out(void **state) {
    enum { MANY = 100 };
    shards s;
    size_t size;
    uint8_t *png = picture(5, &size);
    static char name[MANY][2][12];
    static datafile file[2 * MANY];
    begin(&s, "{split}.tar");
    for (size_t i = 0; i < MANY; i++) {
        snprintf(name[i][0], sizeof name[i][0], "%03zu.png", i);
        snprintf(name[i][1], sizeof name[i][1], "%03zu.txt", i);
        file[2 * i] = (datafile){name[i][0], png, i == 7 ? size - 20 : size};
        file[2 * i + 1] = (datafile){name[i][1], name[i][0], 3};
    }
    write_shard(&s, "train.tar", file, 2 * MANY);
    smoe_dataset *set = opened(&s, "train"); /* stop: at the first use */
    real pixels[BYTES], target[1];
    int64_t label;
    smoe_err err = {0};
    assert_int_equal(smoe_dataset_image(set, 7, false, pixels, target, &label, &err), -1);
    assert_non_null(strstr(err.text, "train.tar: 007: "));
    assert_int_equal(smoe_dataset_found(set)->left_out, 0);
    smoe_dataset_free(set);
    s.spec.data.on_error = SMOE_ON_ERROR_SKIP;
    set = opened(&s, "train");
    assert_int_equal(smoe_dataset_images(set), MANY - 1);
    assert_int_equal(smoe_dataset_found(set)->left_out, 1);
    assert_non_null(strstr(smoe_dataset_found(set)->left[0], "train.tar: 007: "));
    assert_sample(set, 7, 5, "008", 0, "008");
    smoe_dataset_free(set);
    write_shard(&s, "train.tar", file, 2 * MANY - 2);
    datafiles_refused(&s.spec, "train", SMOE_DATA, "1 of 99 images cannot be used", "007", NULL);
    free(png);
    scratch_remove(&s.dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_across_shards), cmocka_unit_test(keys_twice),
        cmocka_unit_test(held_out_shards),       cmocka_unit_test(captions_in_json),
        cmocka_unit_test(through_a_buffer),      cmocka_unit_test(bad_patterns),
        cmocka_unit_test(damaged_shards),        cmocka_unit_test(cut_between_members),
        cmocka_unit_test(what_is_left_out),      cmocka_unit_test(classes_of_samples),
        cmocka_unit_test(several_captions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
