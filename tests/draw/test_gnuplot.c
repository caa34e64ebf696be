/* Charts as scripts of gnuplot: the picture's height. */
#include "draw/gnuplot.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { LINES = 6 };

/* Has the script of a chart, whose lines all have that title, a picture of that size? */
static void check_size(const char *title, const char *size) {
    smoe_chart_point point[2] = {{.x = 1, .y = 1}, {.x = 2, .y = 3}};
    smoe_chart_line line[LINES];
    for (size_t i = 0; i < LINES; i++) line[i] = (smoe_chart_line){title, point, 2};
    const smoe_chart chart = {"t", "x", "y", 0, line, LINES};
    scratch s;
    smoe_err err = {0};
    bool sample_tables;
    char path[SCRATCH_PATH];
    scratch_make(&s);
    assert_int_equal(smoe_chart_write(&chart, s.dir, "chart", &sample_tables, &err), 0);
    char *text = scratch_read(scratch_path(&s, path, "chart.gp"), NULL);
    if (!strstr(text, size)) fail_msg("not there: %s\nin: %s", size, text);
    free(text);
    scratch_remove(&s);
}

/* Of 600 pixels a row of the key takes 8 a letter and 70 an entry: four of "experts", one of 31
 * letters. Rows after the first add 20 pixels each. */
static void test_height(void **state) {
    (void)state;
    check_size(NULL, "size 720,480 ");
    check_size("experts", "size 720,500 ");
    check_size("router=experts-choice, lr=0.001", "size 720,580 ");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_height)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
