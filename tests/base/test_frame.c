/* Frames: values written are read back, in memory, as CSV and as JSON. Also the frames of smoe
 * inspect. */
#include "scratch.h"
#include "base/file.h"
#include "base/frame.h"
#include "inspect/inspect.h"
#include "base/json.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char columns[] = "run* size share";

static void fill(smoe_frame *frame) {
    smoe_frame_init(frame, "sizes", "Sizes", "How large.", columns);
    smoe_frame_put(frame, {"run", .text = "a, b"}, {"size", .number = 3}, {"share", .number = 0.1});
    smoe_frame_put(frame, {"run", .text = "a, b"}, {"size", .number = -1e300},
                   {"share", .number = NAN});
    smoe_frame_put(frame, {"run", .text = "say \"c\"\n"}, {"size", .number = INFINITY},
                   {"share", .number = 1.0 / 3});
}

static void cells_come_back(void **state) {
    smoe_frame frame;
    fill(&frame);
    assert_false(frame.failed);
    assert_int_equal(frame.rows, 3);
    assert_int_equal(frame.columns, 3);
    assert_int_equal(smoe_frame_find(&frame, "run"), 0);
    assert_int_equal(smoe_frame_find(&frame, "share"), 2);
    assert_true(smoe_frame_find(&frame, "runs") == SIZE_MAX);
    assert_string_equal(smoe_frame_text_at(&frame, 1, 0), "a, b");
    assert_ptr_equal(smoe_frame_text_at(&frame, 0, 0), smoe_frame_text_at(&frame, 1, 0));
    assert_string_equal(smoe_frame_text_at(&frame, 2, 0), "say \"c\"\n");
    assert_true(smoe_frame_number_at(&frame, 0, 2) == 0.1);
    assert_true(isnan(smoe_frame_number_at(&frame, 1, 2)));
    smoe_frame_free(&frame);
}

/* As many digits as necessary; an empty field where there is no number; quotes around fields
 * with commas, quotes or line ends. */
static void csv(void **state) {
    char buf[SCRATCH_PATH];
    const char *path = scratch_path(*state, buf, "sizes.csv");
    smoe_frame frame;
    smoe_err err = {0};
    fill(&frame);
    assert_int_equal(smoe_frame_csv(&frame, path, &err), 0);
    char *text = scratch_read(path, NULL);
    assert_string_equal(text, "run,size,share\n"
                              "\"a, b\",3,0.1\n"
                              "\"a, b\",-1e+300,\n"
                              "\"say \"\"c\"\"\n\",,0.3333333333333333\n");
    free(text);
    smoe_frame_free(&frame);
}

static void json(void **state) {
    smoe_frame frame;
    fill(&frame);
    json_t *object = smoe_frame_json(&frame);
    char *text = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text,
                        "{\"caption\":\"How large.\",\"columns\":[\"run\",\"size\",\"share\"],"
                        "\"rows\":[[\"a, b\",3,0.10000000000000001],"
                        "[\"a, b\",-1.0000000000000001e300,null],"
                        "[\"say \\\"c\\\"\\n\",null,0.33333333333333331]],"
                        "\"title\":\"Sizes\"}");
    free(text);
    json_decref(object);
    smoe_frame_free(&frame);
}

/* Bytes that are not UTF-8 are replaced by U+FFFD; the row keeps its length. */
static void json_of_other_bytes(void **state) {
    smoe_frame frame;
    smoe_frame_init(&frame, "sizes", "Sizes", "How large.", columns);
    smoe_frame_put(&frame, {"run", .text = "b\xff\xfe"}, {"size", .number = 1},
                   {"share", .number = 2});
    json_t *object = smoe_frame_json(&frame);
    json_t *row = json_array_get(json_object_get(object, "rows"), 0);
    assert_int_equal(json_array_size(row), 3);
    assert_string_equal(json_string_value(json_array_get(row, 0)), "b\xEF\xBF\xBD\xEF\xBF\xBD");
    json_decref(object);
    smoe_frame_free(&frame);
}

/* Cells that come with their columns; more rows than the first allocation holds. */
static void columns_of_the_first_row(void **state) {
    smoe_frame frame;
    smoe_frame_init(&frame, "many", NULL, NULL, NULL);
    for (size_t i = 0; i < 1000; i++) {
        char name[24];
        snprintf(name, sizeof name, "%zu", i / 3);
        smoe_cell_number(&frame, "i", (double)i);
        smoe_cell_text(&frame, "name", name, .none = "nothing");
        smoe_frame_end(&frame);
    }
    assert_int_equal(frame.rows, 1000);
    assert_int_equal(frame.columns, 2);
    for (size_t i = 0; i < 1000; i++) {
        assert_true(smoe_frame_number_at(&frame, i, 0) == (double)i);
        assert_int_equal(atoi(smoe_frame_text_at(&frame, i, 1)), i / 3);
    }
    smoe_frame_free(&frame);
}

/* A row that does not match its table by name and kind is never put. The table is then not
 * written, and the message says what is wrong. Later rows change nothing. */
static void wrong_rows(void **state) {
    static const smoe_column run = {"run", .text = "a"}, size = {"size", .number = 1},
                             share = {"share", .number = 2};
    const struct {
        const char *message;
        smoe_column cell[4];
        size_t cells;
    } rows[] = {
        {"the table sizes: a row has no cell for 'share'", {run, size}, 2},
        {"the table sizes: a row has a cell for no column, 'share'", {run, share}, 2},
        {"the table sizes: a row has a cell for no column, 'sise'",
         {run, {"sise", .number = 1}, share},
         3},
        {"the table sizes: a row has a cell for no column, 'share'", {run, size, share, share}, 4},
        {"the table sizes: a row has text for 'size'", {run, {"size", .text = "1"}, share}, 3},
        {"the table sizes: a row has no text for 'run'", {{"run", .number = 1}, size, share}, 3},
    };
    char buf[SCRATCH_PATH];
    const char *path = scratch_path(*state, buf, "sizes.csv");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        smoe_frame frame;
        smoe_err err = {0};
        fill(&frame);
        assert_int_equal(smoe_frame_check(&frame, &err), 0);
        smoe_frame_add(&frame, rows[i].cell, rows[i].cells);
        smoe_frame_end(&frame);
        smoe_frame_put(&frame, run, size, share);
        assert_int_equal(frame.rows, 3);
        assert_int_equal(smoe_frame_csv(&frame, path, &err), -1);
        assert_int_equal(err.code, SMOE_RUNTIME);
        assert_string_equal(err.text, rows[i].message);
        assert_int_equal(access(path, F_OK), -1);
        smoe_frame_free(&frame);
    }
}

/* A row cell by cell is put like any other; one with other columns than the first is wrong. */
static void cell_by_cell(void **state) {
    static const char *const wrong[] = {
        "the table sizes: a row has a cell for no column, 'side'",
        "the table sizes: a row has text for 'share'",
        "the table sizes: a row has no cell for 'share'",
    };
    for (size_t i = 0; i < 3; i++) {
        smoe_frame frame;
        smoe_err err = {0};
        fill(&frame);
        for (size_t row = 0; row < 2; row++) {
            smoe_cell_text(&frame, "run", "d");
            smoe_cell_number(&frame, "size", 7);
            if (!row)
                smoe_cell_number(&frame, "share", 0.25);
            else if (i == 0)
                smoe_cell_number(&frame, "side", 0.25);
            else if (i == 1)
                smoe_cell_text(&frame, "share", "0.25");
            smoe_frame_end(&frame);
        }
        assert_int_equal(frame.rows, 4);
        assert_string_equal(smoe_frame_text_at(&frame, 3, 0), "d");
        assert_true(smoe_frame_number_at(&frame, 3, 1) == 7);
        assert_true(smoe_frame_number_at(&frame, 3, 2) == 0.25);
        assert_int_equal(smoe_frame_check(&frame, &err), -1);
        assert_string_equal(err.text, wrong[i]);
        smoe_frame_free(&frame);
    }
}

/* An empty frame has a heading. */
static void empty(void **state) {
    char buf[SCRATCH_PATH];
    const char *path = scratch_path(*state, buf, "empty.csv");
    smoe_frame frame;
    smoe_err err = {0};
    smoe_frame_init(&frame, "empty", "", "", "a b*");
    assert_int_equal(smoe_frame_csv(&frame, path, &err), 0);
    char *text = scratch_read(path, NULL);
    assert_string_equal(text, "a,b\n");
    free(text);
    smoe_frame_free(&frame);
}

/* Integers are printed as such as long as a double represents them exactly; they never overflow. */
static void numbers(void **state) {
    const struct {
        double x;
        const char *text;
    } cases[] = {{3, "3"},         {-0.5, "-0.5"}, {0x1p52, "4503599627370496"},
                 {0x1p80, "1e24"}, {NAN, "null"},  {INFINITY, "null"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *number = smoe_json_of_number(cases[i].x);
        char *text = json_dumps(number, JSON_ENCODE_ANY | JSON_REAL_PRECISION(1));
        assert_string_equal(text, cases[i].text);
        free(text);
        json_decref(number);
    }
}

/* Each frame of smoe inspect describes itself, names each column once, and begins with the run. */
static void frames_of_inspect(void **state) {
    smoe_frame *frames;
    size_t count;
    smoe_frames_open(&frames, &count);
    assert_true(count > 10);
    for (size_t i = 0; i < count; i++) {
        const smoe_frame *f = &frames[i];
        assert_false(f->failed);
        assert_ptr_equal(smoe_frames_find(frames, count, f->name), f);
        assert_true(strlen(f->title) > 3 && strlen(f->caption) > 10 && f->columns > 2);
        assert_string_equal(f->column[0].name, "run");
        assert_true(f->column[0].words);
        for (size_t c = 0; c < f->columns; c++)
            assert_int_equal(smoe_frame_find(f, f->column[c].name), c);
    }
    assert_null(smoe_frames_find(frames, count, "nothing"));
    smoe_frames_free(frames, count);
}

/* ---- what a function prints ------------------------------------------------------------------ */

static int print_half(FILE *out, const void *context, smoe_err *err) {
    fprintf(out, "%g\n", 0.5);
    return context ? smoe_fail(err, SMOE_DATA, "%s", (const char *)context) : 0;
}

/* A file is either complete or unchanged; the printer's own error is passed on. */
static void printed(void **state) {
    smoe_err err = {0};
    char path[SCRATCH_PATH];
    scratch_path(*state, path, "printed");
    assert_int_equal(smoe_file_print(path, print_half, NULL, &err), 0);
    assert_int_equal(smoe_file_print(path, print_half, "no more", &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
    char *text = scratch_read(path, NULL);
    assert_string_equal(text, "0.5\n");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_come_back),
        unit_test_with(csv, scratch),
        cmocka_unit_test(json),
        cmocka_unit_test(numbers),
        cmocka_unit_test(json_of_other_bytes),
        cmocka_unit_test(columns_of_the_first_row),
        cmocka_unit_test(cell_by_cell),
        unit_test_with(wrong_rows, scratch),
        unit_test_with(empty, scratch),
        cmocka_unit_test(frames_of_inspect),
        unit_test_with(printed, scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
