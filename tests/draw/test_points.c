/* Plots of points as gnuplot scripts: the height of the picture, its axes and lines. */
#include "draw/plot.h"
#include "scratch.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 6 };

/* The script of lines from (unit, 1) to (2 unit, 3), to be freed. The titles of the lines are
 * `title` and a digit; NULL: no titles. */
static char *script_of(const char *title, const char *label, int log_x, bool share, double unit) {
    SMOE_FREED_BY(smoe_plot_free) smoe_plot plot = {.name = "points", .title = "t"};
    smoe_panel *panel = smoe_plot_panel(&plot);
    for (size_t i = 0; i < LINES; i++) {
        smoe_mark *line = smoe_plot_points(panel);
        if (title) snprintf(line->name, sizeof line->name, "%s%zu", title, i);
        line->joined = !label;
        smoe_plot_add_point(line, unit, share ? 0.4 : 1, 0.5, share);
        smoe_plot_add_point(line, 2 * unit, share ? 0.6 : 3, share, share);
    }
    for (int place = 2; label && place; place--) smoe_plot_name(&panel->x, place, label);
    strcpy(panel->x.label, "x");
    strcpy(panel->y.label, "y");
    smoe_plot_fit(panel, log_x);
    scratch s;
    smoe_err err = {0};
    bool drawn;
    char path[SCRATCH_PATH];
    scratch_make(&s);
    assert_int_equal(smoe_plot_draw(&plot, s.dir, 0, &drawn, &err), 0);
    char *text = scratch_read(scratch_path(&s, path, "points.gp"), NULL);
    scratch_remove(&s);
    return text;
}

static void check_has(char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("not there: %s\nin: %s", part, text);
}

/* The picture is 580 pixels wide. In the key a letter takes 8 and an entry 72 more: four entries
 * of 7 letters fit a row, or one of 32. Rows are 20 pixels high, and the key adds 10. */
static void test_height(void **state) {
    static const struct {
        const char *title, *size;
    } cases[] = {{NULL, "size 580,402 "},
                 {"expert", "size 580,452 "},
                 {"router=experts-choice, lr=0.001", "size 580,532 "}};
    for (size_t i = 0; i < 3; i++) {
        char *text = script_of(cases[i].title, NULL, 0, false, 1);
        check_has(text, cases[i].size);
        free(text);
    }
}

/* The figure becomes wider for a name that is longer, 7.44 pixels per letter; of one that is too
 * long for the widest there is the beginning, which ends with a whole letter. */
static void test_names(void **state) {
    char name[241];
    memset(name, 'n', sizeof name - 1);
    name[99] = '\0';
    char *text = script_of(name, NULL, 0, false, 1);
    check_has(text, "size 798,");
    check_has(text, "nnn0'");
    free(text);
    name[99] = 'n';
    name[240] = '\0';
    memcpy(name + 119, "\xc3\xa9", 2);
    text = script_of(name, NULL, 0, false, 1);
    check_has(text, "size 960,");
    check_has(text, "nnn\xc3\xa9\xe2\x80\xa6'"); /* two bytes, one letter: not divided */
    free(text);
}

/* Lines with bars over numbers; points only over categories, whose names are ticks, slanted
 * where they have no room beside one another; a
 * logarithmic axis has space at its ends. */
static void test_axes(void **state) {
    char *text = script_of("a", NULL, 2, false, 1);
    check_has(text, "$line0 << END\n1 1 0.5 1.5\n2 3 3 3\nEND\n");
    check_has(text, "set logscale x 2\nset xrange [0.8333333333:2.4]\n"
                    "set xtics norotate ('1' 1, '2' 2)\n");
    check_has(text, "set yrange [0.5:3]\n");
    check_has(text, "$line0 using 1:2 with linespoints ");
    check_has(text, "$line0 using 1:2:3:4 with yerrorbars ");
    free(text);
    text = script_of("a", "it's", 0, false, 1);
    check_has(text, "set xrange [0.5:2.5]\nset xtics norotate ('it''s' 1, 'it''s' 2)\n");
    check_has(text, "$line0 using 1:2 with points ");
    free(text);
    text = script_of("a", "a name that is much too long for half of the picture", 0, false, 1);
    check_has(text, "set xtics rotate by 30 right ('a name");
    free(text);
}

/* Large numbers have words, with 2 and 5 between powers of ten where there are few of these; linear
 * axes have as many as have room. */
static void test_numbers(void **state) {
    char *text = script_of("a", NULL, 10, false, 8e6);
    check_has(text, "set xrange [6666666.667:19200000]\nset xtics norotate ('10 M' 10000000)\n");
    free(text);
    text = script_of("a", NULL, 0, false, 8e8);
    check_has(text, "set xtics norotate ('800 M' 800000000, '1 B' 1000000000, '1.2 B' 1200000000, "
                    "'1.4 B' 1400000000, '1.6 B' 1600000000)\n");
    check_has(text, "set ytics norotate ('0.5' 0.5, '1' 1, '1.5' 1.5, '2' 2, '2.5' 2.5, '3' 3)\n");
    free(text);
    text = script_of("a", NULL, 0, false, 1e5);
    check_has(text, "'100000' 100000, ");
    free(text);
}

/* Bars of shares end at 0 and 1, and so does the axis of shares that are all 1. */
static void test_shares(void **state) {
    char *text = script_of("a", NULL, 0, true, 1);
    check_has(text, "$line0 << END\n1 0.4 0 0.9\n2 0.6 0 1\nEND\n");
    check_has(text, "set yrange [0:1]\n");
    free(text);
    smoe_panel panel = {0};
    smoe_plot_add_point(smoe_plot_points(&panel), 1, 1, 0, true);
    smoe_plot_fit(&panel, 0);
    assert_true(panel.y.low < 1 && panel.y.high == 1);
    free(panel.mark->point);
    free(panel.mark);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_height), cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_axes), cmocka_unit_test(test_numbers),
                                       cmocka_unit_test(test_shares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
