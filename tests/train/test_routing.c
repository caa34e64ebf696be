/*
 * Counts of routing over several passes: those that follow from sizes alone, since much too small
 * buffers are full whatever the weights are, and those that the soft family leaves out.
 */
#include "approx.h"
#include "models.h"
#include "train/routing.h"
#include "unit.h"

#include <math.h>
#include <string.h>

#define BOTH "model.moe.layers=all model.moe.experts=2 "

static void pass(models_rig *rig, size_t images) {
    rig->pass.images = images;
    smoe_model_forward(rig->model, rig->image, &rig->pass);
}

static double number(const json_t *record, const char *key) {
    const json_t *value = json_object_get(record, key);
    if (!json_is_number(value)) fail_msg("no number %s", key);
    return json_number_value(value);
}

static size_t sum(const json_t *record, const char *key, size_t experts) {
    const json_t *list = json_object_get(record, key);
    size_t total = 0;
    assert_int_equal(json_array_size(list), experts);
    for (size_t e = 0; e < experts; e++)
        total += (size_t)json_integer_value(json_array_get(list, e));
    return total;
}

/*
 * Groups of one image with 4 tokens, K = 2 of 2 experts, C = 0.25: Be = round(2 4 0.25 / 2) = 1.
 * Every token chooses both experts, so an image makes 8 choices, 4 for each expert, of which 1 is
 * placed. With bpr first choices come first, and the two experts may take the same token or
 * different ones: 2 or 3 of 4 tokens are dropped. 3 + 2 images: 40 choices per layer, 10 placed, 30
 * lost.
 */
static void choices_are_counted(void **state) {
    models_rig rig;
    smoe_routing routing;
    assert_true(models_make(&rig,
                            BOTH "model.moe.router=tokens-choice model.moe.k=2 "
                                 "model.moe.capacity=0.25",
                            3, false));
    pass(&rig, 3); /* not counting yet */
    smoe_routing_open(&routing, rig.model);
    pass(&rig, 3);
    pass(&rig, 2);
    smoe_routing_stop(&routing);
    pass(&rig, 3); /* no longer counting */
    json_t *record = json_object();
    smoe_routing_record(&routing, "test", record);
    assert_int_equal(sum(record, "blocks.0/router/chosen", 2), 40);
    assert_int_equal(sum(record, "blocks.1/router/placed", 2), 10);
    assert_int_equal(sum(record, "blocks.1/router/lost", 2), 30);
    double a = number(record, "blocks.0/router/dropped"),
           b = number(record, "blocks.1/router/dropped");
    assert_true(a >= 0.5 && a <= 0.75 && b >= 0.5 && b <= 0.75);
    assert_close(number(record, "test/dropped"), a > b ? a : b, 0);
    assert_close(smoe_routing_dropped(&routing), a > b ? a : b, 0);
    assert_close(a * 20, rint(a * 20), 1e-12); /* of 20 tokens */
    json_decref(record);
    smoe_routing_free(&routing);
    models_free(&rig);
}

/* Identity drops no token and makes no choices; the soft family has no tokens to drop. */
static void routers_without_choices(void **state) {
    models_rig rig;
    smoe_routing routing;
    json_t *record = json_object();
    assert_true(
        models_make(&rig, BOTH "model.moe.router=identity model.moe.slots_per_expert=2", 2, false));
    smoe_routing_open(&routing, rig.model);
    pass(&rig, 2);
    smoe_routing_record(&routing, "test", record);
    assert_close(number(record, "test/dropped"), 0, 0);
    assert_int_equal(json_object_size(record), 3);
    smoe_routing_free(&routing);
    models_free(&rig);
    json_object_clear(record);
    assert_true(models_make(&rig, BOTH "model.moe.router=soft", 2, false));
    smoe_routing_open(&routing, rig.model);
    pass(&rig, 2);
    smoe_routing_record(&routing, "test", record);
    assert_int_equal(json_object_size(record), 0);
    assert_true(isnan(smoe_routing_dropped(&routing)));
    json_decref(record);
    smoe_routing_free(&routing);
    models_free(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(choices_are_counted),
                                       cmocka_unit_test(routers_without_choices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
