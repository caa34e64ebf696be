/* Retrieval and zero-shot classification: ranks and recalls by hand, the texts of classes. */
#include "approx.h"
#include "base/threads.h"
#include "train/retrieval.h"
#include "train/evaluate.h"
#include "unit.h"

#include <string.h>

/* One caption of each image, which has the same number. */
static void ranks_of(size_t *rank, const real *image, const real *caption, const uint64_t *key,
                     size_t n, size_t D) {
    size_t first[16];
    for (size_t i = 0; i <= n; i++) first[i] = i;
    const smoe_retrieval r = {n, n, D, image, caption, first, key};
    smoe_retrieval_rank(rank, &r, false);
}

/*
 * Queries are unit vectors in the plane at 0, 90, 10 and 180 degrees; items are at 0, 80, 30, 170
 * degrees, and items 1 and 3 have the same text. For every query but 2 its own item is the nearest:
 * item 0 is at 10 degrees from query 2, its own at 20.
 */
static void ranks_by_hand(void **state) {
    const real queries[] = {1, 0, 0, 1, 0.984808f, 0.173648f, -1, 0};
    const real items[] = {1, 0, 0.173648f, 0.984808f, 0.866025f, 0.5f, -0.984808f, 0.173648f};
    const uint64_t key[] = {5, 7, 6, 7};
    size_t rank[4];
    double recall[SMOE_RECALLS];
    ranks_of(rank, queries, items, key, 4, 2);
    const size_t right[] = {0, 0, 1, 0};
    assert_memory_equal(rank, right, sizeof right);
    smoe_retrieval_recall(recall, rank, 4);
    assert_close(recall[0], 0.75, 0);
    assert_close(recall[1], 1, 0);
}

/* All items equal: the lower index is nearer. With twelve queries, recall at 1, 5 and 10 is
 * 1/12, 5/12, 10/12. */
static void ties_go_to_the_first(void **state) {
    enum { N = 12 };
    real same[N];
    uint64_t key[N];
    size_t rank[N];
    double recall[SMOE_RECALLS];
    for (size_t i = 0; i < N; i++) {
        same[i] = 1;
        key[i] = i;
    }
    ranks_of(rank, same, same, key, N, 1);
    for (size_t i = 0; i < N; i++) assert_int_equal(rank[i], i);
    smoe_retrieval_recall(recall, rank, N);
    for (size_t k = 0; k < SMOE_RECALLS; k++)
        assert_close(recall[k], (double)smoe_recall_at[k] / N, 1e-12);
    memset(key, 0, sizeof key); /* any of them is correct */
    ranks_of(rank, same, same, key, N, 1);
    for (size_t i = 0; i < N; i++) assert_int_equal(rank[i], 0);
}

/*
 * Images at 0, 90 and 180 degrees; captions: two of image 0 at 80 and 20, one of image 1 at 70, and
 * two of image 2 at 85 and 130, the first of them with the words of the caption at 20 degrees.
 *   image 0: nearest its own at 20: rank 0. image 1: 85 and 80 are nearer than its own at 70: rank
 *   2. image 2: its own at 130: rank 0.
 *   caption at 80: images in the order 1, 0, 2, its own is 0: rank 1. At 20: image 0, rank 0. At 70:
 *   image 1, rank 0. At 85: order 1, 0, 2; as its words are also image 0's, rank 1. At 130: order 1,
 *   2, 0: rank 1.
 */
static void any_of_several_captions(void **state) {
    const real image[] = {1, 0, 0, 1, -1, 0};
    const real caption[] = {0.173648f, 0.984808f, 0.939693f, 0.342020f,  0.342020f,
                            0.939693f, 0.087156f, 0.996195f, -0.642788f, 0.766044f};
    const uint64_t key[] = {1, 2, 3, 2, 4};
    const size_t first[] = {0, 2, 3, 5}, images[] = {0, 2, 0}, captions[] = {1, 0, 0, 1, 1};
    const smoe_retrieval r = {3, 5, 2, image, caption, first, key};
    size_t rank[5];
    smoe_retrieval_rank(rank, &r, false);
    assert_memory_equal(rank, images, sizeof images);
    smoe_retrieval_rank(rank, &r, true);
    assert_memory_equal(rank, captions, sizeof captions);
}

static void texts_of_classes(void **state) {
    char buf[24];
    assert_string_equal(smoe_zeroshot_prompt(buf, sizeof buf, "a {}, a {}", "red-ring_2"),
                        "a red ring 2, a red rin");
    assert_string_equal(smoe_zeroshot_prompt(buf, sizeof buf, "{} { }", "x"), "x { }");
}

int main(void) {
    smoe_threads_set(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_by_hand),
        cmocka_unit_test(ties_go_to_the_first),
        cmocka_unit_test(any_of_several_captions),
        cmocka_unit_test(texts_of_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
