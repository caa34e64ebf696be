/* Runs that are looked at again: what has not changed is kept, what was replaced is read. */
#include "store/curves.h"
#include "scratch.h"
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The records of a run with one loss, of always the same size and time. */
static void write_records(const char *path, int loss) {
    const struct timespec then[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    char text[64];
    int n = snprintf(text, sizeof text, "{\"step\":1,\"wall_s\":1,\"train/loss\":%d}\n", loss);
    scratch_write(path, text, (size_t)n);
    assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
}

static double loss_of(smoe_follow *follow, const scratch *s) {
    char dir[SCRATCH_PATH], *dirs[] = {(char *)scratch_path(s, dir, "")};
    smoe_err err;
    assert_int_equal(smoe_follow_read(follow, dirs, 1, true, &err), 0);
    const smoe_curve *curve = smoe_curves_find(&follow->run->curves, "train/loss");
    assert_non_null(curve);
    assert_int_equal(curve->points, 1);
    return curve->value[0];
}

/* By another file, by the bytes of another one, and by files that were moved there. */
static void a_replaced_run_is_read(void **state) {
    const scratch *s = *state;
    char records[SCRATCH_PATH], other[SCRATCH_PATH];
    smoe_follow follow = {0};
    scratch_path(s, records, "metrics.jsonl");
    scratch_path(s, other, "other");
    write_records(records, 1);
    assert_float_equal(loss_of(&follow, s), 1, 0);
    const double *kept = follow.run->curves.curve->value;
    assert_float_equal(loss_of(&follow, s), 1, 0);
    assert_ptr_equal(follow.run->curves.curve->value, kept);
    write_records(other, 2);
    assert_int_equal(rename(other, records), 0);
    assert_float_equal(loss_of(&follow, s), 2, 0);
    write_records(records, 3);
    assert_float_equal(loss_of(&follow, s), 3, 0);
    smoe_follow_free(&follow);
}

int main(void) {
    const struct CMUnitTest tests[] = {unit_test_with(a_replaced_run_is_read, scratch)};
    return cmocka_run_group_tests_name("curves", tests, NULL, NULL);
}
