/* The table of figures, and the gnuplot scripts that come of it. */
#include "draw/figures.h"
#include "sample_tables.h"
#include "scratch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- the table ------------------------------------------------------------------------------- */

/* Columns of every table of smoe inspect, text columns ending in '$'. */
static const struct {
    const char *name, *columns;
} frames[] = {
#define FRAME(name, needs, per, title, columns, caption) {#name, columns},
#include "inspect/inspect.def"
#undef FRAME
};

/* Is the word, with `$` or without, in the list? */
static bool has(const char *list, const char *word) {
    char one[64];
    for (size_t i = 0; smoe_figure_word(list, i, one, sizeof one); i++) {
        one[strcspn(one, "$")] = '\0';
        if (!strcmp(one, word)) return true;
    }
    return false;
}

static void check_columns(const smoe_figure_row *row, const char *columns, const char *list) {
    char word[64];
    for (size_t i = 0; smoe_figure_word(list, i, word, sizeof word); i++)
        if (!has(columns, word)) fail_msg("%s: %s has no column %s", row->name, row->frame, word);
}

static void test_table(void **state) {
    (void)state;
    size_t count = 0;
    for (const smoe_figure_row *row; (row = smoe_figure_row_at(count)); count++) {
        const char *columns = NULL;
        for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
            if (!strcmp(frames[i].name, row->frame)) columns = frames[i].columns;
        if (!columns) fail_msg("%s: there is no table %s", row->name, row->frame);
        const char *lists[] = {row->panel, row->x, row->y, row->z, row->x_name, row->y_name};
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
            check_columns(row, columns, lists[i]);
        if (row->kind == SMOE_FIGURE_BANDS)
            check_columns(row, columns, "p0.5 p2.5 p5 p10 p20 p80 p90 p95 p97.5 p99.5");
        assert_true(*row->x_title && (*row->y_title || *row->panel));
        assert_true(!strncmp(row->panel, "run", 3) || !strncmp(row->z, "run", 3));
        for (size_t i = 0; i < count; i++)
            assert_string_not_equal(row->name, smoe_figure_row_at(i)->name);
    }
    assert_true(count > 10);
    assert_null(smoe_figure_row_at(count + 1));
}

static void test_words(void **state) {
    (void)state;
    char buf[4];
    assert_string_equal(smoe_figure_word(" ab  c", 0, buf, sizeof buf), "ab");
    assert_string_equal(smoe_figure_word(" ab  c", 1, buf, sizeof buf), "c");
    assert_string_equal(smoe_figure_word("abcdef", 0, buf, sizeof buf), "abc");
    assert_null(smoe_figure_word(" ab  c", 2, buf, sizeof buf));
    assert_null(smoe_figure_word("", 0, buf, sizeof buf));
    assert_string_equal(smoe_figure_kind_name(SMOE_FIGURE_LINES), "lines");
    assert_string_equal(smoe_figure_kind_name(SMOE_FIGURE_CUMULATIVE), "cumulative");
    assert_string_equal(smoe_figure_kind_name(SMOE_FIGURE_HEAT), "heat");
}

/* ---- scripts --------------------------------------------------------------------------------- */

static void write_all(const sample_tables *d, const scratch *s, size_t *scripts, size_t *done) {
    smoe_err err = {0};
    char path[SCRATCH_PATH], name[64];
    for (size_t i = 0; i < SAMPLE_FRAMES; i++) {
        snprintf(name, sizeof name, "%s.csv", d->frame[i].name);
        assert_int_equal(smoe_frame_csv(&d->frame[i], scratch_path(s, path, name), &err), 0);
    }
    assert_int_equal(smoe_figures_write(d->frame, SAMPLE_FRAMES, s->dir, scripts, done, &err), 0);
}

static void check_has(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("not there: %s\nin: %s", part, text);
}

/* The lines that matter of scripts, as someone would write them by hand from the rows: the soft run
 * fills rows 0 to 3 of combine_expert (2 ranks, blocks 1 and 3), the other run rows 4 to 7. */
static void test_scripts(void **state) {
    static const struct {
        const char *file, *part;
    } parts[] = {
        {"combine_expert.gp", "set output 'combine_expert.svg'"},
        {"combine_expert.gp", "set title 'a, <b>&\"c\"''d'\n"},
        {"combine_expert.gp", "plot [0:1][0:1] NaN with linespoints pt 7 ps 0.5 lw 2 lc rgb "
                              "'#3f2c73' title 'block 1', "},
        {"combine_expert.gp", "plot 'combine_expert.csv' every ::0::1 using "
                              "(column(\"rank\")):(column(\"times_mean\")) with linespoints pt 7 "
                              "ps 0.5 lw 2 lc rgb '#3f2c73' notitle"},
        {"combine_expert.gp", "'combine_expert.csv' every ::6::7 using (column(\"rank\"))"},
        {"combine_expert.gp", "set xrange [1:2]\nset xtics 1\n"},
        {"dispatch_bands.gp", "'dispatch_bands.csv' every ::4::7 using "
                              "(column(\"rank\")):(column(\"p0.5\")):(column(\"p99.5\")) "
                              "with filledcurves"},
        {"slot_correlation.gp",
         "every ::16::31 using (column(\"other\")):(column(\"slot\")):(column(\"other\") - 0.5)"},
        {"slot_correlation.gp", "set cbrange [-1:1]"},
        {"expert_load.gp", "plot 'expert_load.csv' every ::0::1 using "
                           "(column(\"expert\")):(column(\"placed\") + column(\"lost\"))"},
        {"class_expert.gp", "set ytics ('cat' 2, 'dog' 1)"},
        {"class_expert.gp", "set cblabel 'times the expert''s mean weight'\n"},
        {"class_expert.gp", ":(column(\"lift\")) with boxxyerror"},
        {"class_expert.gp", "set xtics ('0' 1, '1' 2)"},
        /* block 3 is alone in rows 4 and 5, block 1 lies among rows of the loss */
        {"over_steps.gp", "every ::4::5 using (column(\"step\")):(column(\"value\"))"},
        {"over_steps.gp", "every ::0::2 using (strcol(\"metric\") eq 'dispatch_max' && "
                          "column(\"block\") == 1 && 1 ? column(\"step\")"},
        {"over_steps.gp", "every ::1::3 using (strcol(\"metric\") eq 'loss' && "
                          "strcol(\"block\") eq '' && 1 ? column(\"step\") : NaN)"},
        {"over_steps.gp", "set ylabel 'largest dispatch weight'"},
        {"over_steps.gp", "title 'choice, whole model'"},
    };
    scratch s;
    size_t scripts, done;
    char path[SCRATCH_PATH];
    scratch_make(&s);
    write_all(*state, &s, &scripts, &done);
    assert_int_equal(scripts, 6); /* all tables but runs and routing */
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *text = scratch_read(scratch_path(&s, path, parts[i].file), NULL);
        check_has(text, parts[i].part);
        free(text);
    }
    scratch_remove(&s);
}

/* The script of one table, which is freed. */
static char *script_of(smoe_frame *f, const scratch *s) {
    smoe_err err = {0};
    size_t scripts, done;
    char file[64], path[SCRATCH_PATH];
    snprintf(file, sizeof file, "%s.csv", f->name);
    assert_int_equal(smoe_frame_csv(f, scratch_path(s, path, file), &err), 0);
    assert_int_equal(smoe_figures_write(f, 1, s->dir, &scripts, &done, &err), 0);
    assert_int_equal(scripts, 1);
    snprintf(file, sizeof file, "%s.gp", f->name);
    smoe_frame_free(f);
    return scratch_read(scratch_path(s, path, file), NULL);
}

/* The script of what it takes to reach 11 fractions in 4 slots: of the first always 2 tokens, of the
 * others twice the fraction's place and twice a token more. */
static char *cumulative_script(const scratch *s) {
    smoe_frame f;
    smoe_frame_init(&f, "tokens_to_fraction", "t", "c", "run$ block slot expert fraction tokens");
    for (size_t slot = 0; slot < 4; slot++)
        for (size_t i = 1; i <= 11; i++) {
            double tokens = i == 1 ? 2 : 2 * (double)i + (slot < 2);
            smoe_frame_text(&f, "a");
            smoe_frame_numbers(&f, (double[]){1, (double)slot, 0, (double)i / 16, tokens}, 5);
        }
    return script_of(&f, s);
}

/* Steps from 0 at the least of all numbers to 1 at the largest; of equal values there is one. */
static void test_cumulative(void **state) {
    (void)state;
    scratch s;
    scratch_make(&s);
    char *text = cumulative_script(&s);
    check_has(text, "$share0 << EOD\ntokens,share\n2,0\n2,1\n23,1\nEOD\n");
    check_has(text, "$share1 << EOD\ntokens,share\n2,0\n4,0.5\n5,1\n23,1\nEOD\n");
    check_has(text, "plot $share0 using 1:2 with steps lw 2");
    check_has(text, "set yrange [0:1]\n");
    /* in the key, the 11 lines have 11 colours, from the first to the last of the ramp */
    const char *line = strstr(text, "\nplot ");
    char colour[11][8];
    for (size_t i = 0; i < 11; i++) {
        assert_non_null(line = strstr(line + 1, "'#"));
        snprintf(colour[i], sizeof colour[i], "%.7s", line + 1);
        for (size_t k = 0; k < i; k++) assert_string_not_equal(colour[i], colour[k]);
    }
    assert_string_equal(colour[0], "#3f2c73");
    assert_string_equal(colour[10], "#bda428");
    free(text);
    scratch_remove(&s);
}

/* Quantities with one number: the axis ends 5% from it, or a thousandth where that is more. */
static void test_point(void **state) {
    (void)state;
    scratch s;
    smoe_frame f;
    scratch_make(&s);
    smoe_frame_init(&f, "over_steps", "t", "c", "run$ step block metric$ value");
    for (size_t i = 0; i < 2; i++) {
        smoe_frame_text(&f, "a");
        smoe_frame_numbers(&f, (double[]){10, NAN}, 2);
        smoe_frame_text(&f, i ? "test/dropped" : "test/loss");
        smoe_frame_number(&f, i ? 0 : 5);
    }
    char *text = script_of(&f, &s);
    check_has(text, "set yrange [4.75:5.25]\n");
    check_has(text, "set yrange [-0.001:0.001]\n");
    free(text);
    scratch_remove(&s);
}

/* The script of a correlation of 65 slots, 4225 cells, one of them without a number or not. */
static char *large_script(const scratch *s, bool hole) {
    smoe_frame f;
    smoe_frame_init(&f, "slot_correlation", "t", "c", "run$ block slot other cosine");
    for (size_t i = 0; i < 65 * 65; i++) {
        double slot = (double)(i / 65), other = (double)(i % 65);
        smoe_frame_text(&f, "a");
        smoe_frame_numbers(
            &f, (double[]){1, slot, other, hole && i == 70 ? NAN : cos(slot - other)}, 4);
    }
    return script_of(&f, s);
}

/* Many cells are one image where every cell has a number, else boxes. */
static void test_large(void **state) {
    (void)state;
    scratch s;
    scratch_make(&s);
    char *image = large_script(&s, false), *boxes = large_script(&s, true);
    check_has(image,
              "(column(\"slot\") * 65 + column(\"other\")):(column(\"cosine\")) smooth unique");
    check_has(image, "plot $grid using (int($1) % 65):(int($1) / 65):2 with image");
    assert_null(strstr(image, "boxxyerror"));
    assert_null(strstr(boxes, "with image"));
    check_has(boxes, "boxxyerror");
    free(image);
    free(boxes);
    scratch_remove(&s);
}

/* gnuplot draws every script, and has nothing to say about any. */
static void test_gnuplot(void **state) {
    if (system("command -v gnuplot >/dev/null 2>&1")) {
        print_message("gnuplot is not here: nothing was drawn\n");
        skip();
    }
    scratch s;
    size_t scripts, done;
    char path[SCRATCH_PATH], command[SCRATCH_PATH + 100];
    scratch_make(&s);
    write_all(*state, &s, &scripts, &done);
    assert_int_equal(done, scripts);
    snprintf(command, sizeof command, "cd %s && for f in *.gp; do gnuplot $f; done >said 2>&1",
             s.dir);
    assert_int_equal(system(command), 0);
    char *said = scratch_read(scratch_path(&s, path, "said"), NULL);
    assert_string_equal(said, "");
    free(said);
    char *svg = scratch_read(scratch_path(&s, path, "combine_expert.svg"), NULL);
    check_has(svg, "<svg");
    check_has(svg, "a, &lt;b>&amp;"); /* the run, escaped */
    check_has(svg, "block 3");
    free(svg);
    /* another table in their place: its own figure is large, those of the others go */
    free(large_script(&s, false));
    assert_int_equal(access(scratch_path(&s, path, "combine_expert.svg"), F_OK), -1);
    assert_int_equal(access(scratch_path(&s, path, "combine_expert.gp"), F_OK), -1);
    svg = scratch_read(scratch_path(&s, path, "slot_correlation.svg"), NULL);
    check_has(svg, "<image");
    free(svg);
    snprintf(command, sizeof command, "cd %s && gnuplot slot_correlation.gp >said 2>&1", s.dir);
    assert_int_equal(system(command), 0);
    said = scratch_read(scratch_path(&s, path, "said"), NULL);
    assert_string_equal(said, "");
    free(said);
    scratch_remove(&s);
}

/* Without gnuplot the scripts are there and nothing else. */
static void test_without(void **state) {
    scratch s;
    size_t scripts, done;
    char path[SCRATCH_PATH], *before = strdup(getenv("PATH"));
    scratch_make(&s);
    setenv("PATH", s.dir, 1);
    write_all(*state, &s, &scripts, &done);
    setenv("PATH", before, 1);
    free(before);
    assert_int_equal(scripts, 6);
    assert_int_equal(done, 0);
    assert_int_equal(access(scratch_path(&s, path, "class_expert.gp"), F_OK), 0);
    assert_int_equal(access(scratch_path(&s, path, "class_expert.svg"), F_OK), -1);
    scratch_remove(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_words),
        cmocka_unit_test_setup_teardown(test_scripts, sample_tables_setup, sample_tables_teardown),
        cmocka_unit_test(test_cumulative),
        cmocka_unit_test(test_point),
        cmocka_unit_test(test_large),
        cmocka_unit_test_setup_teardown(test_gnuplot, sample_tables_setup, sample_tables_teardown),
        cmocka_unit_test_setup_teardown(test_without, sample_tables_setup, sample_tables_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
