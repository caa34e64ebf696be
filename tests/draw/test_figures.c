/* The table of figures, the plots that come of it, and their gnuplot scripts. */
#include "draw/figures.h"
#include "inspect/inspect.h"
#include "approx.h"
#include "sample_tables.h"
#include "scratch.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the table ------------------------------------------------------------------------------- */

static void check_columns(const smoe_figure_entry *entry, const smoe_frame *frame,
                          const char *const *list) {
    for (; *list; list++)
        if (smoe_frame_find(frame, *list) == SIZE_MAX)
            fail_msg("%s has no column %s", entry->name, *list);
}

/* Every entry names an existing table and existing columns. */
static void test_table(void **state) {
    static const char *const percentiles[] = {"p0.5", "p2.5", "p5",    "p10",   "p20", "p80",
                                              "p90",  "p95",  "p97.5", "p99.5", NULL};
    smoe_frame *frames;
    size_t count = 0, tables;
    smoe_frames_open(&frames, &tables);
    const smoe_frame *runs = smoe_frames_find(frames, tables, "runs");
    for (const smoe_figure_entry *entry; (entry = smoe_figure_at(count)); count++) {
        const smoe_frame *frame = smoe_frames_find(frames, tables, entry->name);
        if (!frame) fail_msg("there is no table %s", entry->name);
        const char *const one[] = {entry->x, entry->each, entry->colour, entry->x_name,
                                   entry->y_name};
        for (size_t i = 0; i < sizeof one / sizeof *one; i++)
            if (one[i]) check_columns(entry, frame, (const char *const[]){one[i], NULL});
        check_columns(entry, frame, entry->panel);
        check_columns(entry, frame, entry->line);
        check_columns(entry, frame, entry->y);
        for (size_t i = 0; i < SMOE_PLOT_LIST; i++)
            if (entry->error[i]) {
                check_columns(entry, frame, (const char *const[]){entry->error[i], NULL});
                assert_non_null(entry->y[i]);
            }
        if (entry->kind == SMOE_FIGURE_BANDS) check_columns(entry, frame, percentiles);
        if (entry->group) check_columns(entry, runs, (const char *const[]){entry->group, NULL});
        assert_true(entry->x && entry->y[0] && entry->x_title &&
                    (entry->y_title || entry->panel[0]));
        assert_true((entry->kind == SMOE_FIGURE_HEAT) == (entry->colour != NULL));
        assert_true(!strcmp(entry->panel[0], "run") || !strcmp(entry->line[0], "run"));
        for (size_t i = 0; i < count; i++)
            assert_string_not_equal(entry->name, smoe_figure_at(i)->name);
    }
    assert_true(count > 10);
    assert_null(smoe_figure_at(count + 1));
    smoe_frames_free(frames, tables);
}

/* ---- plots ----------------------------------------------------------------------------------- */

static void plot_of(smoe_plot *plot, const sample_tables *d, const char *name) {
    for (size_t i = 0; smoe_figure_at(i); i++)
        if (!strcmp(smoe_figure_at(i)->name, name)) {
            smoe_figure_plot(plot, smoe_figure_at(i), d->frame, SAMPLE_FRAMES);
            return;
        }
    fail_msg("no figure %s", name);
}

/* Of two runs: a panel for each run, a line for each block with one entry in the key; both
 * panels have an axis from 1 to 2 times the least. */
static void test_lines(void **state) {
    smoe_plot plot;
    plot_of(&plot, *state, "combine_expert");
    assert_int_equal(plot.panels, 2);
    for (size_t p = 0; p < 2; p++) {
        const smoe_panel *panel = &plot.panel[p];
        assert_string_equal(panel->title, p ? "choice" : SAMPLE_RUN);
        assert_int_equal(panel->marks, 2);
        assert_string_equal(panel->mark[1].name, "block 3");
        assert_string_equal(panel->mark[1].y[0], "times_least");
        /* the soft run fills rows 0 to 3, two for each block; then the other run */
        assert_int_equal(panel->mark[1].rows.first, 4 * p + 2);
        assert_int_equal(panel->mark[1].rows.last, 4 * p + 3);
        assert_null(panel->mark[1].rows.same[0]);
        assert_true(panel->x.low == 1 && panel->x.high == 2 && panel->x.step == 1);
        assert_true(panel->y.low == 0 && panel->y.high == 2 && !panel->y.log);
    }
    assert_string_equal(smoe_plot_entry(&plot, 0)->name, "block 1");
    assert_string_equal(smoe_plot_entry(&plot, 1)->name, "block 3");
    assert_null(smoe_plot_entry(&plot, 2));
    smoe_plot_free(&plot);
}

/* Rows of block 1 are mixed with those of the loss; with several runs, a block has its own
 * panel. */
static void test_rows_between_others(void **state) {
    smoe_plot plot;
    const sample_tables *d = *state;
    plot_of(&plot, d, "over_steps");
    assert_int_equal(plot.panels, 3);
    static const char *const labels[] = {"largest dispatch weight, block 1", "loss",
                                         "largest dispatch weight, block 3"};
    for (size_t p = 0; p < 3; p++) {
        const smoe_panel *panel = &plot.panel[p];
        assert_string_equal(panel->title, labels[p]);
        assert_string_equal(panel->y.label, "");
        assert_int_equal(panel->marks, 2);
        for (size_t m = 0; m < 2; m++) {
            size_t rows = 0;
            for (size_t r = 0; r < plot.table->rows; r++)
                rows += smoe_plot_has(&plot, &panel->mark[m].rows, r);
            assert_int_equal(rows, 2);
            assert_string_equal(panel->mark[m].name, m ? "choice" : SAMPLE_RUN);
        }
    }
    /* 1/20 to 1/10 for the loss, 1/4 to 1/2 for the weights: each panel has its own axis */
    assert_true(plot.panel[1].y.high < 0.2 && plot.panel[0].y.high > 0.4);
    smoe_plot_free(&plot);
}

/* Of 14 runs no two lines have the same colour and dashes; the axis of accuracies that are all 1
 * ends there. */
static void test_many_runs(void **state) {
    enum { RUNS = 14 };
    smoe_frame f;
    smoe_plot plot;
    sample_tables_init(&f, "over_steps");
    for (size_t i = 0; i < 2 * RUNS; i++) {
        char run[2] = {(char)('a' + i / 2), '\0'};
        smoe_frame_put(&f, {"run", .text = run}, {"step", .number = (double)(i % 2)},
                       {"block", .number = NAN}, {"metric", .text = "precision_at_1"},
                       {"value", .number = 1});
    }
    smoe_figure_plot(&plot, smoe_figure_find("over_steps"), &f, 1);
    const smoe_panel *panel = plot.panel;
    assert_int_equal(panel->marks, RUNS);
    for (size_t m = 0; m < RUNS; m++)
        for (size_t k = 0; k < m; k++) {
            char a[SMOE_COLOUR_TEXT], b[SMOE_COLOUR_TEXT];
            smoe_colour_text(panel->mark[m].colour, false, a);
            smoe_colour_text(panel->mark[k].colour, false, b);
            assert_true(strcmp(a, b) || panel->mark[m].dash != panel->mark[k].dash);
        }
    assert_true(panel->y.low < 1 && panel->y.high == 1);
    smoe_plot_free(&plot);
    smoe_frame_free(&f);
}

/* A lift of 1 is neutral, however large the largest value is. */
static void test_scale(void **state) {
    smoe_plot plot;
    plot_of(&plot, *state, "class_expert");
    assert_string_equal(plot.scale.label, "times the expert's mean weight");
    plot.scale.high = 9;
    const double stops[SMOE_SCALE_STOPS] = {0, 0.5, 1, 5, 9};
    for (size_t i = 0; i < SMOE_SCALE_STOPS; i++)
        assert_true(smoe_plot_stop(&plot.scale, i) == stops[i]);
    char colour[SMOE_COLOUR_TEXT];
    assert_string_equal(smoe_scale_text(2, true, false, colour), "#f7f6f3");
    /* ranks downwards, labelled by name: the second class is the first row */
    const smoe_panel *panel = &plot.panel[0];
    assert_true(panel->y.low == 2.5 && panel->y.high == 0.5);
    assert_int_equal(panel->y.ticks, 2);
    assert_string_equal(panel->y.tick[0].text, "dog");
    assert_string_equal(panel->y.tick[1].text, "cat");
    assert_true(panel->y.tick[0].at == 1);
    smoe_plot_free(&plot);
}

/* Stacked bars: the tallest is the sum and is drawn first; 2, and at most 2 of two experts. */
static void test_bars(void **state) {
    smoe_plot plot;
    plot_of(&plot, *state, "expert_load");
    assert_int_equal(plot.panels, 2);
    const smoe_mark *mark = plot.panel[0].mark;
    assert_int_equal(plot.panel[0].marks, 2);
    assert_string_equal(mark[0].y[0], "placed");
    assert_string_equal(mark[0].y[1], "lost");
    assert_string_equal(mark[0].name, "lost");
    assert_string_equal(mark[1].y[0], "placed");
    assert_null(mark[1].y[1]);
    assert_true(plot.panel[0].y.high == 4 && plot.panel[0].x.low == -0.5);
    smoe_plot_free(&plot);
}

/* The slots of one expert are drawn together, as many as the table of runs says. */
static void test_groups(void **state) {
    const sample_tables *d = *state;
    smoe_frame frames[2] = {*sample_tables_frame(d, "slot_correlation")};
    smoe_frame_init(&frames[1], "runs", "t", "c", "run* slots_per_expert");
    smoe_frame_put(&frames[1], {"run", .text = SAMPLE_RUN}, {"slots_per_expert", .number = 2});
    for (size_t i = 0; smoe_figure_at(i); i++) {
        smoe_plot plot;
        smoe_figure_plot(&plot, smoe_figure_at(i), frames, 2);
        assert_int_equal(plot.panels, strcmp(plot.name, "slot_correlation") ? 0 : 2);
        for (size_t p = 0; p < plot.panels; p++) assert_int_equal(plot.panel[p].group, 2);
        smoe_plot_free(&plot);
    }
    smoe_frame_free(&frames[1]);
}

/* Axes end at round numbers, or not; a single point gets 5% around it, or a thousandth, and a whole
 * number at least a half, without ticks between whole numbers; logarithmic axes have space. */
static void test_ranges(void **state) {
    smoe_plot_axis axis = {0};
    smoe_plot_range(&axis, 0.03, 0.47, false, true);
    assert_true(axis.step == 0.1 && axis.low == 0);
    assert_close(axis.high, 0.5, 1e-12);
    smoe_plot_range(&axis, 0.03, 0.47, false, false);
    assert_true(axis.low == 0.03 && axis.high == 0.47);
    smoe_plot_range(&axis, 1, 3, true, false);
    assert_true(axis.step == 1);
    smoe_plot_range(&axis, 5, 5, true, false);
    assert_true(axis.low == 4.5 && axis.high == 5.5 && axis.step == 1);
    smoe_plot_range(&axis, 5, 5, false, false);
    assert_true(axis.low == 4.75 && axis.high == 5.25);
    smoe_plot_range(&axis, 0, 0, false, false);
    assert_true(axis.low == -0.001 && axis.high == 0.001);
    smoe_plot_range_share(&axis, 1, 1);
    assert_true(axis.low < 1 && axis.high == 1);
    smoe_plot_range_share(&axis, 0, 0);
    assert_true(axis.low == 0 && axis.high > 0);
    smoe_plot_range_log(&axis, 1, 64, 2);
    assert_true(axis.log == 2 && axis.low < 1 && axis.high > 64 && axis.high < 128);
}

/* The colour ramp has its ends; as many lines as it has colours get exactly these; otherwise
 * colours in between. */
static void test_colours(void **state) {
    char text[12][SMOE_COLOUR_TEXT];
    for (size_t i = 0; i < 12; i++) {
        smoe_colour_text((smoe_colour){SMOE_ORDERED, (double)i / 11}, false, text[i]);
        for (size_t k = 0; k < i; k++) assert_string_not_equal(text[i], text[k]);
    }
    assert_string_equal(text[0], "#3f2c73");
    assert_string_equal(text[11], "#bda428");
    smoe_colour_text((smoe_colour){SMOE_ORDERED, 1.0 / 7}, false, text[0]);
    assert_string_equal(text[0], "#3f4b8c");
    smoe_colour_text((smoe_colour){SMOE_SERIES, 7}, true, text[0]); /* the second, dark theme */
    assert_string_equal(text[0], "#ee8d52");
}

/* ---- scripts --------------------------------------------------------------------------------- */

static void write_all(const sample_tables *d, const scratch *s, size_t *scripts, size_t *done) {
    smoe_err err = {0};
    char path[SCRATCH_PATH], name[64];
    for (size_t i = 0; i < SAMPLE_FRAMES; i++) {
        snprintf(name, sizeof name, "%s.csv", d->frame[i].name);
        assert_int_equal(smoe_frame_csv(&d->frame[i], scratch_path(s, path, name), &err), 0);
    }
    assert_int_equal(smoe_figures_write(d->frame, SAMPLE_FRAMES, s->dir, 0, scripts, done, &err),
                     0);
}

static void check_has(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("not there: %s\nin: %s", part, text);
}

/* The essential lines of scripts, as one would write them by hand from the rows: the soft run
 * fills rows 0 to 3 of combine_expert (2 ranks, blocks 1 and 3), the other run rows 4 to 7. */
static void test_scripts(void **state) {
    static const struct {
        const char *file, *part;
    } parts[] = {
        {"combine_expert.gp", "set output 'combine_expert.svg'"},
        {"combine_expert.gp", "set output 'combine_expert.pdf'"},
        {"combine_expert.gp", "set title 'a, <b>&\"c\"''d'\n"},
        {"combine_expert.gp",
         "plot [0:1][0:1] NaN with linespoints lw 2 lc rgb '#3f2c73' pt 7 ps 0.4 "
         "title 'block 1', "},
        {"combine_expert.gp", "plot 'combine_expert.csv' every ::0::1 using "
                              "(column(\"rank\")):(column(\"times_least\")) with linespoints lw 2 "
                              "lc rgb '#3f2c73' pt 7 ps 0.4 notitle"},
        {"combine_expert.gp", "'combine_expert.csv' every ::6::7 using (column(\"rank\"))"},
        {"combine_expert.gp", "set xrange [1:2]\nset xtics norotate ('1' 1, '2' 2)\n"},
        {"dispatch_bands.gp", "'dispatch_bands.csv' every ::4::7 using "
                              "(column(\"rank\")):(column(\"p0.5\")):(column(\"p99.5\")) "
                              "with filledcurves"},
        {"dispatch_bands.gp", "set yrange [0:1]\n"},
        {"slot_correlation.gp",
         "every ::16::31 using (column(\"other\")):(column(\"slot\")):(column(\"other\") - 0.5)"},
        {"slot_correlation.gp", "set cbrange [-1:1]"},
        {"expert_load.gp", "plot 'expert_load.csv' every ::0::1 using "
                           "(column(\"expert\")):(column(\"placed\") + column(\"lost\"))"},
        {"class_expert.gp", "set ytics norotate ('dog' 1, 'cat' 2)"},
        {"class_expert.gp", "set cblabel 'times the expert''s mean weight' offset"},
        {"class_expert.gp", ":(column(\"lift\")) with boxxyerror"},
        {"class_expert.gp", "set xtics norotate ('0' 1, '1' 2)"},
        {"class_expert.gp", "set palette defined (0 '#14548c', 0.5 '#7aaad0', 1 '#f7f6f3', "},
        /* block 3 has rows 4 and 5 to itself, block 1 shares its rows with the loss */
        {"over_steps.gp", "every ::4::5 using (column(\"step\")):(column(\"value\"))"},
        {"over_steps.gp", "every ::0::2 using (strcol(\"metric\") eq 'dispatch_max' && "
                          "column(\"block\") == 1 ? column(\"step\") : NaN)"},
        {"over_steps.gp", "every ::1::3 using (strcol(\"metric\") eq 'loss' && "
                          "strcol(\"block\") eq '' ? column(\"step\") : NaN)"},
        {"over_steps.gp", "set title 'largest dispatch weight, block 1'"},
        {"over_steps.gp", "title 'choice'"},
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

/* The script of one table, to be freed. */
static char *script_of(smoe_frame *f, const scratch *s) {
    smoe_err err = {0};
    size_t scripts, done;
    char file[64], path[SCRATCH_PATH];
    snprintf(file, sizeof file, "%s.csv", f->name);
    assert_int_equal(smoe_frame_csv(f, scratch_path(s, path, file), &err), 0);
    assert_int_equal(smoe_figures_write(f, 1, s->dir, 0, &scripts, &done, &err), 0);
    assert_int_equal(scripts, 1);
    snprintf(file, sizeof file, "%s.gp", f->name);
    smoe_frame_free(f);
    return scratch_read(scratch_path(s, path, file), NULL);
}

/* Slots are separate lines in the script, with a blank line between. */
static void test_slots(void **state) {
    scratch s;
    smoe_frame f;
    scratch_make(&s);
    sample_tables_init(&f, "tokens_to_fraction");
    for (size_t slot = 0; slot < 3; slot++)
        for (size_t i = 1; i <= 2; i++)
            smoe_frame_put(&f, {"run", .text = "a"}, {"block", .number = 1},
                           {"slot", .number = (double)slot}, {"expert", .number = 0},
                           {"fraction", .number = (double)i / 4},
                           {"tokens", .number = (double)(i + 2 * slot)});
    char *text = script_of(&f, &s);
    check_has(text, "$line0 << END\ntokens,fraction\n1,0.25\n2,0.5\n\n3,0.25\n4,0.5\n\n5,0.25\n"
                    "6,0.5\nEND\n");
    check_has(text, "plot $line0 using 1:2 with lines");
    check_has(text, "set xrange [1:6]\n");
    free(text);
    scratch_remove(&s);
}

/* A value with a standard deviation has bars, in the colour of its line. */
static void test_bars_of_error(void **state) {
    scratch s;
    smoe_frame f;
    scratch_make(&s);
    sample_tables_init(&f, "expert_information");
    for (size_t block = 1; block <= 2; block++)
        smoe_frame_put(&f, {"run", .text = "a"}, {"block", .number = (double)block},
                       {"about", .text = "class"}, {"bits", .number = 1},
                       {"by_chance", .number = 0.5}, {"chance_sd", .number = 0.125},
                       {"expert_entropy", .number = 2});
    char *text = script_of(&f, &s);
    check_has(text, "using (column(\"block\")):(column(\"by_chance\")):(column(\"chance_sd\")) "
                    "with yerrorbars lw 1 lc rgb '#1f6fb2' pt 7 ps 0.4 notitle");
    assert_null(strstr(text, "(column(\"bits\")):(column"));
    free(text);
    scratch_remove(&s);
}

/* For a paper: of the requested width, panels below one another where they would be too narrow,
 * no title, and the same as PDF. */
static void test_paper(void **state) {
    static const struct {
        double width;
        const char *size;
    } cases[] = {{3.25, "size 312,"}, {6.75, "size 648,"}};
    const sample_tables *d = *state;
    scratch s;
    smoe_err err = {0};
    size_t scripts, done;
    char path[SCRATCH_PATH];
    scratch_make(&s);
    write_all(d, &s, &scripts, &done);
    for (size_t i = 0; i < 2; i++) {
        double width = cases[i].width;
        assert_int_equal(
            smoe_figures_write(d->frame, SAMPLE_FRAMES, s.dir, width, &scripts, &done, &err), 0);
        char *text = scratch_read(scratch_path(&s, path, "combine_expert.gp"), NULL);
        check_has(text, cases[i].size);
        check_has(text, "set multiplot\n");
        check_has(text, i ? "set origin 0.5000," : "set origin 0.0000,0.0000\n");
        free(text);
        if (!system("command -v gnuplot >/dev/null 2>&1")) assert_int_equal(done, scripts);
        if (done) assert_int_equal(access(scratch_path(&s, path, "combine_expert.pdf"), F_OK), 0);
    }
    scratch_remove(&s);
}

/* The script of a correlation of 65 slots, 4225 cells, with or without one cell that has no
 * number. */
static char *large_script(const scratch *s, bool hole) {
    smoe_frame f;
    sample_tables_init(&f, "slot_correlation");
    for (size_t i = 0; i < 65 * 65; i++) {
        double slot = (double)(i / 65), other = (double)(i % 65);
        smoe_frame_put(&f, {"run", .text = "a"}, {"block", .number = 1}, {"slot", .number = slot},
                       {"other", .number = other},
                       {"cosine", .number = hole && i == 70 ? NAN : cos(slot - other)});
    }
    return script_of(&f, s);
}

/* Many cells are one image if every cell has a number, otherwise boxes. */
static void test_large(void **state) {
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

/* gnuplot draws every script without a message. */
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
    /* another table instead: its figure is a large one, those of the previous tables are removed */
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

/* Without gnuplot there are only the scripts. */
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
        unit_test_with(test_lines, sample_tables),
        unit_test_with(test_rows_between_others, sample_tables),
        cmocka_unit_test(test_many_runs),
        unit_test_with(test_scale, sample_tables),
        unit_test_with(test_bars, sample_tables),
        unit_test_with(test_groups, sample_tables),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_colours),
        unit_test_with(test_scripts, sample_tables),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_bars_of_error),
        unit_test_with(test_paper, sample_tables),
        cmocka_unit_test(test_large),
        unit_test_with(test_gnuplot, sample_tables),
        unit_test_with(test_without, sample_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
