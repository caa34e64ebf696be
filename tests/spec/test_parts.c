/* The table of parts and kinds of work: every number has its own name, and the names are those
 * that `smoe bench` and `smoe cost` have always used. */
#include "spec/parts.h"
#include "unit.h"

#include <string.h>

static void parts(void **state) {
    static const char *const names[] = {"embed",  "norm",     "attention", "mlp",
                                        "router", "dispatch", "experts",   "combine",
                                        "head",   "loss",     "optimizer"};
    assert_int_equal(SMOE_PART_COUNT, sizeof names / sizeof *names);
    for (int p = 0; p < SMOE_PART_COUNT; p++) assert_string_equal(smoe_parts[p].name, names[p]);
    assert_string_equal(smoe_parts[SMOE_PART_embed].kind, "embedding");
    assert_string_equal(smoe_parts[SMOE_PART_head].kind, "head");
    assert_null(smoe_parts[SMOE_PART_loss].kind); /* not a layer */
}

static void names_of_work(void **state) {
    static const char *const names[] = {"products",  "attention", "routing", "elementwise",
                                        "optimizer", "alone",     "waiting"};
    unsigned seen = 0;
    assert_int_equal(SMOE_WORK_COUNT, sizeof names / sizeof *names);
    for (int w = 0; w < SMOE_WORK_COUNT; w++) {
        assert_string_equal(smoe_works[w].name, names[w]);
        assert_in_range(smoe_works[w].work, 0, SMOE_WORK_COUNT - 1);
        seen |= 1u << smoe_works[w].work;
    }
    assert_int_equal(seen, (1u << SMOE_WORK_COUNT) - 1);
    assert_int_equal(smoe_works[0].work, SMOE_WORK_products);
    assert_int_equal(smoe_works[6].work, SMOE_WORK_waiting);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts), cmocka_unit_test(names_of_work)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
