/* Results: what is added once is in the text, in JSON, in Markdown and in files, each in its own
 * form, and only where it says. */
#include "scratch.h"
#include "base/json.h"
#include "base/result.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static void add_run(smoe_frame *frame, const char *run, const char *experts, double p, size_t n) {
    smoe_cell_text(frame, "experts", experts, .path = "set:experts", .none = "all", .typed = true,
                   .optional = true);
    smoe_cell_text(frame, "run", run);
    smoe_cell_number(frame, "p", p, .format = "%.2f");
    smoe_cell_number(frame, "bytes", 1e3 * (double)n, .heading = "memory", .format = "B");
    smoe_cell_number(frame, "n", (double)n, .where = SMOE_IN_FILES);
    smoe_cell_number(frame, NULL, NAN, .heading = "never");
    smoe_frame_cells(frame, {"good", SMOE_TRUTH_OF(n > 1), .where = SMOE_IN_JSON});
}

static void fill(smoe_result *result) {
    smoe_fact_text(result, "dir", "a\tb", .heading = "folder");
    smoe_fact_number(result, "loss", 0.25, .heading = "the loss", .format = "%.4f");
    smoe_fact_number(result, "bytes:weights", 7);
    smoe_fact_number(result, "bytes:all", NAN);
    smoe_fact_number(result, "left", NAN, .optional = true, .heading = "left out");
    smoe_result_facts(result, {"same", SMOE_TRUTH_OF(true)});
    smoe_result_numbers(result, "list", (const double[]){1, 2, NAN}, 3);
    smoe_result_list(result, "empty");
    smoe_result *object = smoe_result_object(result, "object");
    smoe_fact_number(object, "a:b", 1, .heading = "not printed");
    smoe_fact_number(object, "a:b", 2, .plain = true);
    smoe_result_line(object, "neither", "this");
    (void)smoe_result_object(object, "none");
    smoe_result_line(result, "", "more of it");
    smoe_frame *frame = smoe_result_table(result, "runs", "runs");
    frame->title = "Runs";
    frame->caption = "What ran.";
    add_run(frame, "a", "4", 0.5, 2);
    smoe_frame_end(frame);
    add_run(frame, "b, c", NULL, NAN, 1);
    smoe_frame_end(frame);
    add_run(frame, "d", "x", 1, 1);
    smoe_frame_end_shown(frame, false);
    (void)smoe_result_table(result, "none", "none");
    for (int i = 0; i < 2; i++) {
        smoe_result *part = smoe_result_part(result, i ? NULL : "parts");
        part->title = "A part";
        smoe_fact_number(part, "part", i);
        smoe_result_line(part, NULL, "Of %d.", i);
    }
}

static void as_text(void **state) {
    smoe_result result = {0};
    const smoe_paper paper = {0};
    char *text = NULL;
    size_t size;
    fill(&result);
    FILE *out = open_memstream(&text, &size);
    smoe_result_print(&result, out, &paper);
    fclose(out);
    assert_string_equal(text, "folder    a?b\n"
                              "the loss  0.2500\n"
                              "          more of it\n"
                              "\n"
                              "Runs:\n"
                              "experts   run     p  memory\n"
                              "4           a  0.50    2 kB\n"
                              "all      b, c     -    1 kB\n"
                              "... and 1 more row (runs.csv)\n"
                              "\n"
                              "A part:\n"
                              "Of 0.\n"
                              "\n"
                              "A part:\n"
                              "Of 1.\n");
    free(text);
    smoe_result_free(&result);
}

static void as_json(void **state) {
    smoe_result result = {0};
    fill(&result);
    json_t *object = smoe_result_json(&result);
    char *text = smoe_json_dump(object, 0);
    assert_string_equal(text,
                        "{\"dir\":\"a\\tb\",\"loss\":0.25,\"bytes\":{\"weights\":7,\"all\":null},"
                        "\"same\":true,\"list\":[1,2,null],\"empty\":[],"
                        "\"object\":{\"a\":{\"b\":1},\"a:b\":2,\"none\":{}},\"runs\":["
                        "{\"set\":{\"experts\":4},\"run\":\"a\",\"p\":0.5,\"bytes\":2000,\"n\":2,"
                        "\"good\":true},"
                        "{\"run\":\"b, c\",\"p\":null,\"bytes\":1000,\"n\":1,\"good\":false},"
                        "{\"set\":{\"experts\":\"x\"},\"run\":\"d\",\"p\":1,\"bytes\":1000,\"n\":1,"
                        "\"good\":false}],\"parts\":[{\"part\":0}],\"part\":1}");
    free(text);
    json_decref(object);
    smoe_result_free(&result);
}

/* A list is the whole of the JSON: of a table, or of parts. */
static void as_a_list(void **state) {
    for (int parts = 0; parts < 2; parts++) {
        smoe_result result = {0};
        smoe_frame *frame = smoe_result_table(&result, parts ? NULL : "", NULL);
        if (parts) smoe_fact_number(smoe_result_part(&result, ""), "a", 1);
        smoe_cell_number(frame, "a", 1);
        smoe_frame_end(frame);
        json_t *list = smoe_result_json(&result);
        char *text = smoe_json_dump(list, 0);
        assert_string_equal(text, "[{\"a\":1}]");
        free(text);
        json_decref(list);
        smoe_result_free(&result);
    }
    smoe_result empty = {0};
    smoe_result_list(&empty, "");
    json_t *list = smoe_result_json(&empty);
    assert_true(json_is_array(list) && !json_array_size(list));
    json_decref(list);
    smoe_result_free(&empty);
}

/* Members of an object that was recorded. */
static void of_a_record(void **state) {
    smoe_result result = {0};
    json_t *record = json_pack("{s:[i, i], s:s}", "counts", 1, 2, "of", "tokens");
    smoe_result_members(&result, record);
    json_t *object = smoe_result_json(&result);
    assert_true(json_equal(object, record));
    json_decref(object);
    json_decref(record);
    smoe_result_free(&result);
}

static void as_markdown(void **state) {
    smoe_result result = {.title = "All"};
    char *text = NULL;
    size_t size;
    fill(&result);
    FILE *out = open_memstream(&text, &size);
    smoe_result_markdown(&result, out, 1);
    fclose(out);
    assert_string_equal(text, "# All\n\nmore of it\n\n"
                              "## Runs\n\nWhat ran.\n\n"
                              "| experts | run | p | memory |\n"
                              "| --- | --- | ---: | ---: |\n"
                              "| 4 | a | 0.50 | 2 kB |\n"
                              "| all | b, c | - | 1 kB |\n"
                              "| x | d | 1.00 | 1 kB |\n\n"
                              "## A part\n\nOf 0.\n\n"
                              "## A part\n\nOf 1.\n\n");
    free(text);
    smoe_result_free(&result);
}

/* Titles and cells are texts, whatever Markdown and HTML would take them for. */
static void no_markup(void **state) {
    smoe_result result = {.title = "<img src=x> `a` *b*\n# c & d"};
    char *text = NULL;
    size_t size;
    smoe_frame *frame = smoe_result_table(&result, "t", "T");
    smoe_cell_text(frame, "a|b", "[x](y) \\ [8, 9]");
    smoe_cell_text(frame, "n", "|");
    smoe_frame_end(frame);
    FILE *out = open_memstream(&text, &size);
    smoe_result_markdown(&result, out, 1);
    fclose(out);
    assert_string_equal(text, "# &lt;img src=x> \\`a\\` \\*b\\*?# c &amp; d\n\n"
                              "| a\\|b | n |\n| --- | --- |\n"
                              "| [x]\\(y) \\\\ [8, 9] | \\| |\n\n");
    free(text);
    smoe_result_free(&result);
}

/* A file per table; where there are no rows, an earlier file is removed. */
static void as_files(void **state) {
    smoe_result result = {0};
    smoe_err err = {0};
    char path[SCRATCH_PATH], none[SCRATCH_PATH];
    scratch_path(*state, none, "none.csv");
    scratch_write(none, "a\n", 2);
    fill(&result);
    assert_int_equal(smoe_result_check(&result, &err), 0);
    assert_int_equal(smoe_result_csv(&result, *state, &err), 0);
    char *text = scratch_read(scratch_path(*state, path, "runs.csv"), NULL);
    assert_string_equal(text, "experts,run,p,bytes,n\n"
                              "4,a,0.5,2000,2\n"
                              ",\"b, c\",,1000,1\n"
                              "x,d,1,1000,1\n");
    free(text);
    assert_int_equal(access(none, F_OK), -1);
    smoe_result_free(&result);
}

/* The last columns of a table that is too wide follow below, after its key. */
static void on_a_narrow_terminal(void **state) {
    const smoe_paper paper = {.columns = 20};
    smoe_frame frame;
    char *text = NULL;
    size_t size;
    smoe_frame_init(&frame, "wide", NULL, NULL, NULL);
    smoe_cell_text(&frame, "layer", "attention");
    smoe_cell_number(&frame, "a number", 1.5);
    smoe_cell_number(&frame, "another", 20);
    smoe_frame_end(&frame);
    FILE *out = open_memstream(&text, &size);
    smoe_frame_print(&frame, out, &paper);
    smoe_paper_wrap(out, "words that are broken here", 0, &paper);
    fclose(out);
    assert_string_equal(text, "layer      a number\n"
                              "attention       1.5\n"
                              "\n"
                              "layer      another\n"
                              "attention       20\n"
                              "words that are\n"
                              "broken here\n");
    free(text);
    smoe_frame_free(&frame);
}

/* A table that no row has begun, and one whose cells are all empty. */
static void of_nothing(void **state) {
    const smoe_paper paper = {0};
    smoe_frame frame;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    smoe_frame_init(&frame, "nothing", NULL, NULL, NULL);
    smoe_frame_print(&frame, out, &paper);
    smoe_cell_number(&frame, "a number", NAN);
    smoe_frame_end(&frame);
    smoe_frame_print(&frame, out, &paper);
    fclose(out);
    assert_string_equal(text, "");
    free(text);
    smoe_frame_free(&frame);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_text),         cmocka_unit_test(as_json),
        cmocka_unit_test(as_a_list),       cmocka_unit_test(of_a_record),
        cmocka_unit_test(as_markdown),     cmocka_unit_test(no_markup),
        unit_test_with(as_files, scratch), cmocka_unit_test(on_a_narrow_terminal),
        cmocka_unit_test(of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
