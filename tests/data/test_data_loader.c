/* The laws of batches: the contents of batch t follow from (seed, t) alone. */
#include "base/clock.h"
#include "data/augment.h"
#include "data/dataset_source.h"
#include "datafiles.h"
#include "data/loader.h"
#include "unit.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDE = 8, PIXELS = 3 * SIDE * SIDE, CLASSES = 10 };

static smoe_dataset *open_shapes(smoe_spec *spec, const char *split, size_t limit) {
    smoe_dataset *set;
    smoe_err err = {0};
    *spec = datafiles_spec(SMOE_SOURCE_SHAPES, NULL, SIDE, 3);
    spec->data.limit = limit;
    if (smoe_dataset_open(&set, spec, split, NULL, &err)) fail_msg("%s", err.text);
    return set;
}

static smoe_loader *open_loader(const smoe_dataset *set, const smoe_spec *spec,
                                smoe_loader_options options) {
    smoe_loader *loader;
    smoe_err err = {0};
    if (smoe_loader_open(&loader, set, spec, &options, &err)) fail_msg("%s", err.text);
    return loader;
}

static smoe_batch next(smoe_loader *loader) {
    smoe_batch batch;
    smoe_err err = {0};
    if (smoe_loader_next(loader, &batch, &err) != 1) fail_msg("no batch: %s", err.text);
    return batch;
}

/* A checksum of every byte of a batch. */
static uint64_t fingerprint(const smoe_batch *b) {
    uint64_t hash = UINT64_C(14695981039346656037);
    const struct {
        const void *bytes;
        size_t size;
    } part[] = {{b->pixels, b->images * PIXELS * sizeof(real)},
                {b->target, b->images * CLASSES * sizeof(real)},
                {b->label, b->images * sizeof *b->label},
                {b->index, b->images * sizeof *b->index},
                {&b->epoch, sizeof b->epoch}};
    for (size_t k = 0; k < 5; k++)
        for (size_t i = 0; i < part[k].size; i++)
            hash = (hash ^ ((const uint8_t *)part[k].bytes)[i]) * UINT64_C(1099511628211);
    return hash;
}

/* ---- which images ---------------------------------------------------------------------------- */

/* 23 images in batches of 5: four batches per epoch, no image twice in an epoch, the short batch
 * dropped. The next epoch has another order, and other images are left out. */
static void test_epochs_are_permutations(void **state) {
    smoe_spec spec;
    smoe_dataset *set = open_shapes(&spec, "train", 23);
    smoe_loader *loader =
        open_loader(set, &spec, (smoe_loader_options){.batch_size = 5, .train = true, .seed = 7});
    uint64_t order[2][20];
    size_t seen[23] = {0};
    for (size_t epoch = 0; epoch < 12; epoch++) {
        bool taken[23] = {false};
        for (size_t t = 0; t < 4; t++) {
            smoe_batch b = next(loader);
            assert_int_equal(b.images, 5);
            assert_true(b.epoch == (double)(4 * epoch + t) / 4);
            for (size_t i = 0; i < 5; i++) {
                assert_in_range(b.index[i], 0, 22);
                assert_false(taken[b.index[i]]);
                taken[b.index[i]] = true;
                seen[b.index[i]]++;
                order[epoch % 2][5 * t + i] = b.index[i];
            }
        }
        if (epoch) assert_memory_not_equal(order[0], order[1], sizeof order[0]);
    }
    for (size_t i = 0; i < 23; i++) assert_in_range(seen[i], 6, 12);
    smoe_loader_free(loader);
    smoe_dataset_free(set);
}

/* Evaluation: every image once, in eval.order, with the short batch, then the end; repeated as
 * often as requested. */
static void evaluate_along(smoe_order order) {
    smoe_spec spec;
    smoe_dataset *set = open_shapes(&spec, "test", 23);
    uint32_t image[23];
    spec.eval.order = order;
    smoe_dataset_order(image, 23, &spec);
    spec.data.augment.flip = true; /* no augmentation in evaluation */
    spec.data.augment.randaugment.n = 2;
    spec.data.augment.randaugment.m = 9;
    spec.data.augment.crop = SMOE_CROP_INCEPTION;
    spec.data.augment.mixup = 1;
    smoe_loader *loader = open_loader(set, &spec, (smoe_loader_options){.batch_size = 10});
    real pixels[PIXELS], target[CLASSES];
    uint64_t at = 0;
    for (int t = 0; t < 3; t++) {
        smoe_batch b = next(loader);
        assert_int_equal(b.images, t < 2 ? 10 : 3);
        for (size_t i = 0; i < b.images; i++, at++) {
            int64_t label;
            assert_int_equal(
                smoe_dataset_image(set, image[at], false, pixels, target, &label, NULL), 0);
            assert_int_equal(b.index[i], image[at]);
            assert_int_equal(b.label[i], label);
            assert_memory_equal(b.pixels + i * PIXELS, pixels, sizeof pixels);
            assert_memory_equal(b.target + i * CLASSES, target, sizeof target);
        }
    }
    smoe_batch b;
    smoe_err err = {0};
    for (int i = 0; i < 3; i++) assert_int_equal(smoe_loader_next(loader, &b, &err), 0);
    smoe_loader_free(loader);
    smoe_dataset_free(set);
}

static void test_evaluation(void **state) {
    evaluate_along(SMOE_ORDER_SHUFFLED);
    evaluate_along(SMOE_ORDER_FILE);
}

/* A permutation that depends on data.seed only; with `file` the order of the files. */
static void test_order_of_evaluations(void **state) {
    enum { N = 100 };
    uint32_t order[3][N];
    for (size_t k = 0; k < 3; k++) {
        bool taken[N] = {false};
        smoe_spec spec = {.seed = k, .data.seed = k / 2};
        smoe_dataset_order(order[k], N, &spec);
        for (size_t i = 0; i < N; i++) {
            assert_true(order[k][i] < N && !taken[order[k][i]]);
            taken[order[k][i]] = true;
        }
    }
    assert_memory_equal(order[0], order[1], sizeof *order);
    assert_memory_not_equal(order[0], order[2], sizeof *order);
    smoe_dataset_order(order[0], N, &(smoe_spec){.eval.order = SMOE_ORDER_FILE});
    for (size_t i = 0; i < N; i++) assert_int_equal(order[0][i], i);
}

/* The calls report some waiting time, and no more than the caller measures. */
static void test_waited(void **state) {
    smoe_spec spec;
    smoe_dataset *set = open_shapes(&spec, "train", 23);
    smoe_loader *loader =
        open_loader(set, &spec, (smoe_loader_options){.batch_size = 5, .train = true, .seed = 7});
    double seen = 0, before = 0;
    for (int t = 0; t < 20; t++) {
        double start = smoe_now();
        (void)next(loader);
        seen += smoe_now() - start;
        double waited = smoe_loader_waited(loader);
        assert_true(waited > before && waited < seen);
        before = waited;
    }
    smoe_loader_free(loader);
    smoe_dataset_free(set);
}

/* Endless data: images 0, 1, 2 ... one after another, never twice, even beyond the nominal size. */
static void test_endless(void **state) {
    smoe_spec spec;
    smoe_dataset *set = open_shapes(&spec, "train", 0);
    assert_true(smoe_dataset_endless(set));
    assert_int_equal(smoe_dataset_images(set), 50000);
    smoe_loader *loader = open_loader(
        set, &spec,
        (smoe_loader_options){
            .batch_size = 64, .train = true, .multi = true, .seed = 7, .first_step = 1000});
    for (uint64_t t = 1000; t < 1003; t++) {
        smoe_batch b = next(loader);
        assert_true(b.epoch == (double)t / 781); /* 50000 / 64 */
        for (size_t i = 0; i < 64; i++) assert_int_equal(b.index[i], t * 64 + i);
    }
    smoe_loader_free(loader);
    smoe_dataset_free(set);
}

static void test_batch_larger_than_the_data(void **state) {
    smoe_spec spec;
    smoe_dataset *set = open_shapes(&spec, "train", 23);
    smoe_loader *loader;
    smoe_err err = {0};
    smoe_loader_options options = {.batch_size = 24, .train = true};
    assert_int_equal(smoe_loader_open(&loader, set, &spec, &options, &err), -1);
    assert_null(loader);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_non_null(strstr(err.text, "train.batch_size: 24"));
    assert_non_null(strstr(err.text, "23 images"));
    smoe_dataset_free(set);
}

/* ---- the same bits --------------------------------------------------------------------------- */

/* A loader that starts at step s gives the batches that one from step 0 gives there, with
 * everything switched on, in finite and endless data, within an epoch and across its end. OpenMP
 * threads change nothing; another seed changes everything. */
static void test_resume(void **state) {
    enum { STEPS = 14 };
    for (size_t limit = 0; limit < 40; limit += 23) {
        smoe_spec spec;
        smoe_dataset *set = open_shapes(&spec, "train", limit);
        spec.data.augment.crop = limit ? SMOE_CROP_PAD : SMOE_CROP_INCEPTION;
        spec.data.augment.flip = true;
        spec.data.augment.randaugment.n = 2;
        spec.data.augment.randaugment.m = 9;
        spec.data.augment.mixup = .4;
        smoe_loader_options options = {.batch_size = 5, .train = true, .multi = true, .seed = 7};
        uint64_t hash[STEPS];
        smoe_loader *loader = open_loader(set, &spec, options);
        for (int t = 0; t < STEPS; t++) {
            smoe_batch b = next(loader);
            hash[t] = fingerprint(&b);
            for (int s = 0; s < t; s++) assert_true(hash[s] != hash[t]);
        }
        smoe_loader_free(loader);
        int threads = omp_get_max_threads();
        for (int s = 0; s < STEPS; s++) {
            omp_set_num_threads(1 + s % 3);
            options.first_step = (uint64_t)s;
            loader = open_loader(set, &spec, options);
            for (int t = s; t < STEPS; t++) {
                smoe_batch b = next(loader);
                assert_true(fingerprint(&b) == hash[t]);
            }
            smoe_loader_free(loader);
        }
        omp_set_num_threads(threads);
        options = (smoe_loader_options){.batch_size = 5, .train = true, .multi = true, .seed = 8};
        loader = open_loader(set, &spec, options);
        smoe_batch b = next(loader);
        assert_true(fingerprint(&b) != hash[0]);
        smoe_loader_free(loader);
        smoe_dataset_free(set);
    }
}

/* An image is augmented anew in each epoch: of twelve epochs it is flipped in some and not in
 * others (all alike by chance: once in 2048, and the streams are fixed). */
static void test_augmented_anew(void **state) {
    smoe_spec spec;
    smoe_dataset *set = open_shapes(&spec, "train", 10);
    real plain[10][PIXELS], target[CLASSES];
    size_t as_it_is[10] = {0};
    int64_t label;
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(smoe_dataset_image(set, i, false, plain[i], target, &label, NULL), 0);
    spec.data.augment.flip = true;
    smoe_loader *loader =
        open_loader(set, &spec, (smoe_loader_options){.batch_size = 5, .train = true, .seed = 7});
    for (int t = 0; t < 24; t++) {
        smoe_batch b = next(loader);
        for (size_t k = 0; k < 5; k++)
            as_it_is[b.index[k]] +=
                !memcmp(b.pixels + k * PIXELS, plain[b.index[k]], sizeof *plain);
    }
    for (size_t i = 0; i < 10; i++) assert_in_range(as_it_is[i], 1, 11);
    smoe_loader_free(loader);
    smoe_dataset_free(set);
}

/* A batch does not change until the next call, whatever the threads do meanwhile. */
static void test_batch_lives_until_the_next_call(void **state) {
    smoe_spec spec;
    smoe_dataset *set = open_shapes(&spec, "train", 0);
    smoe_loader *loader =
        open_loader(set, &spec, (smoe_loader_options){.batch_size = 4, .train = true, .seed = 7});
    for (int t = 0; t < 50; t++) {
        smoe_batch b = next(loader);
        uint64_t before = fingerprint(&b);
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL); /* the threads fill all free places */
        assert_true(fingerprint(&b) == before);
    }
    smoe_loader_free(loader);
    smoe_dataset_free(set);
}

/* Closing never hangs: before the first batch, in the middle, at the end. */
static void test_closing_at_any_moment(void **state) {
    smoe_spec spec;
    smoe_dataset *set = open_shapes(&spec, "test", 12);
    for (int taken = 0; taken < 60; taken++) {
        smoe_loader *loader = open_loader(
            set, &spec, (smoe_loader_options){.batch_size = 3, .train = taken % 2, .seed = 1});
        smoe_batch b;
        for (int i = 0; i < taken / 6; i++)
            if (smoe_loader_next(loader, &b, NULL) != 1) break;
        smoe_loader_free(loader);
    }
    smoe_loader_free(NULL);
    smoe_dataset_free(set);
    smoe_dataset_free(NULL);
}

/* ---- mixup ----------------------------------------------------------------------------------- */

/* Every image of a batch is lambda times itself plus 1 - lambda times its neighbour, pixels and
 * targets alike. */
static void test_mixup(void **state) {
    smoe_spec spec;
    smoe_dataset *set = open_shapes(&spec, "train", 20);
    smoe_loader_options options = {.batch_size = 6, .train = true, .seed = 3};
    smoe_loader *plain = open_loader(set, &spec, options);
    spec.data.augment.mixup = .8;
    smoe_loader *mixed = open_loader(set, &spec, options);
    for (uint64_t t = 0; t < 9; t++) {
        smoe_batch a = next(plain), b = next(mixed);
        smoe_rng rng = smoe_rng_at(3, SMOE_RNG_MIXUP, 0, t, 0);
        real lambda = (real)smoe_mixup_lambda(&rng, .8);
        for (size_t i = 0; i < 6; i++) {
            size_t other = (i + 1) % 6;
            assert_int_equal(a.label[i], b.label[i]);
            for (size_t k = 0; k < PIXELS; k++)
                assert_true(b.pixels[i * PIXELS + k] ==
                            lambda * a.pixels[i * PIXELS + k] +
                                (1 - lambda) * a.pixels[other * PIXELS + k]);
            real sum = 0;
            for (size_t k = 0; k < CLASSES; k++) sum += b.target[i * CLASSES + k];
            assert_true(fabs((double)sum - 1) < 1e-6);
            if (a.label[i] != a.label[other])
                assert_true(b.target[i * CLASSES + (size_t)a.label[i]] == lambda);
        }
    }
    smoe_loader_free(plain);
    smoe_loader_free(mixed);
    smoe_dataset_free(set);
}

/* The larger of X and 1 - X for X ~ Beta(a, a). Mean 1/2 + E|X - 1/2|: for a = 1 (uniform) 3/4, for
 * a = 1/2 (arcsine) 1/2 + 1/pi, and for a = 2 (density 6x(1-x)) 1/2 + 3/16. */
static void test_mixup_lambda(void **state) {
    static const double cases[][2] = {{1, .75}, {.5, .8183098861837907}, {2, .6875}};
    enum { DRAWS = 20000 };
    for (size_t k = 0; k < 3; k++) {
        double sum = 0;
        for (uint64_t i = 0; i < DRAWS; i++) {
            smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, k, i);
            double lambda = smoe_mixup_lambda(&rng, cases[k][0]);
            assert_true(lambda >= .5 && lambda <= 1);
            sum += lambda;
        }
        /* the standard deviation of lambda is below .17, that of this mean below .0012 */
        assert_true(fabs(sum / DRAWS - cases[k][1]) < .005);
    }
    smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 9, 0);
    for (int i = 0; i < 100; i++) { /* where the gamma variates underflow */
        double lambda = smoe_mixup_lambda(&rng, 1e-5);
        assert_true(lambda >= .5 && lambda <= 1);
    }
}

/* Whether image i of `b` equals that of `a` except in the box, which has its neighbour's pixels,
 * and targets are mixed by the box's area. */
static bool is_cut(const smoe_batch *a, const smoe_batch *b, size_t i, const smoe_cut *box,
                   size_t side) {
    size_t other = (i + 1) % 6, area = (box->right - box->left) * (box->bottom - box->top);
    real keep = (real)(1 - (double)area / (double)(side * side));
    for (size_t k = 0; k < PIXELS; k++) {
        size_t x = k % side, y = k / side % side;
        bool in = x >= box->left && x < box->right && y >= box->top && y < box->bottom;
        if (b->pixels[i * PIXELS + k] != a->pixels[(in ? other : i) * PIXELS + k]) return false;
    }
    for (size_t k = 0; k < CLASSES; k++)
        if (b->target[i * CLASSES + k] !=
            keep * a->target[i * CLASSES + k] + (1 - keep) * a->target[other * CLASSES + k])
            return false;
    return true;
}

static void test_cutmix(void **state) {
    smoe_spec spec;
    smoe_dataset *set = open_shapes(&spec, "train", 20);
    smoe_loader_options options = {.batch_size = 6, .train = true, .seed = 3};
    smoe_loader *plain = open_loader(set, &spec, options);
    spec.data.augment.cutmix = 1;
    smoe_loader *cut = open_loader(set, &spec, options);
    spec.data.augment.mixup = .8;
    smoe_loader *either = open_loader(set, &spec, options);
    size_t cuts = 0, boxes = 0, side = spec.data.image_size;
    enum { BATCHES = 60 };
    for (uint64_t t = 0; t < BATCHES; t++) {
        smoe_batch a = next(plain), b = next(cut), c = next(either);
        smoe_rng rng = smoe_rng_at(3, SMOE_RNG_CUTMIX, 0, t, 0), again = rng;
        smoe_rng mix = smoe_rng_at(3, SMOE_RNG_MIXUP, 0, t, 0);
        smoe_cut box = smoe_cutmix_cut(&rng, 1, side);
        bool chosen = smoe_rng_below(&again, 2);
        smoe_cut second = smoe_cutmix_cut(&again, 1, side);
        real lambda = (real)smoe_mixup_lambda(&mix, .8);
        boxes += box.right > box.left && box.bottom > box.top;
        cuts += chosen;
        for (size_t i = 0; i < 6; i++) {
            assert_int_equal(a.label[i], b.label[i]);
            assert_true(is_cut(&a, &b, i, &box, side));
            if (chosen) assert_true(is_cut(&a, &c, i, &second, side));
            for (size_t k = 0; k < PIXELS && !chosen; k++)
                assert_true(c.pixels[i * PIXELS + k] ==
                            lambda * a.pixels[i * PIXELS + k] +
                                (1 - lambda) * a.pixels[(i + 1) % 6 * PIXELS + k]);
        }
    }
    assert_in_range(cuts, 30 - 23, 30 + 23); /* six standard deviations of sqrt(60)/2 */
    assert_true(boxes > BATCHES / 2);
    smoe_loader_free(plain);
    smoe_loader_free(cut);
    smoe_loader_free(either);
    smoe_dataset_free(set);
}

/* Beta(1, 1) is uniform, hence also s^2, the relative area of the box before it is clipped. With
 * a uniform centre a side of s keeps s - s^2/4 on average; the mean area is E(s - s^2/4)^2 = 1/2
 * - 1/5 + 1/48 = 0.3208. */
static void test_cutmix_box(void **state) {
    enum { DRAWS = 20000, WIDE = 1000 };
    double sum = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 20, i);
        smoe_cut box = smoe_cutmix_cut(&rng, 1, WIDE);
        assert_true(box.left <= box.right && box.right <= WIDE);
        assert_true(box.top <= box.bottom && box.bottom <= WIDE);
        sum += (double)((box.right - box.left) * (box.bottom - box.top)) / ((double)WIDE * WIDE);
    }
    /* the mean's standard deviation is below .3/sqrt(20000) = .0022; sides are whole pixels */
    assert_true(fabs(sum / DRAWS - .3208) < .01);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epochs_are_permutations),
        cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_order_of_evaluations),
        cmocka_unit_test(test_waited),
        cmocka_unit_test(test_endless),
        cmocka_unit_test(test_batch_larger_than_the_data),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_augmented_anew),
        cmocka_unit_test(test_batch_lives_until_the_next_call),
        cmocka_unit_test(test_closing_at_any_moment),
        cmocka_unit_test(test_mixup),
        cmocka_unit_test(test_mixup_lambda),
        cmocka_unit_test(test_cutmix),
        cmocka_unit_test(test_cutmix_box),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
