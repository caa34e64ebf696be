/*
 * smoe inspect as a whole: models whose tables are known in advance, the same bits for any number
 * of threads and any batches, further evaluations, metrics recorded in training, and invalid
 * requests.
 */
#include "approx.h"
#include "inspect_fixture.h"
#include "scratch.h"
#include "base/rng.h"
#include "base/threads.h"
#include "train/trainer.h"
#include "data/loader.h"
#include "train/evaluate.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 24 };

/* Every row of a column has this value. */
static void column_is(const inspect_fixture *x, const char *name, const char *column, double right,
                      double tolerance) {
    const smoe_frame *frame = inspect_fixture_frame(x, name);
    for (size_t r = 0; r < frame->rows; r++)
        assert_close(inspect_fixture_number(frame, r, column), right, tolerance);
}

/* ---- models whose tables are known ----------------------------------------------------------- */

/* D = 1/T, C = 1/S with T = 16 and S = 4: all are exact in single precision. */
static void uniform(void **state) {
    inspect_fixture x;
    inspect_fixture_make(&x, "model.moe.router=uniform model.moe.experts=2", IMAGES, 5);
    const double T = 16, S = 4, CLOSE = 1e-12;
    column_is(&x, "routing", "dispatch_max", 1 / T, 0);
    column_is(&x, "routing", "combine_max", 1 / S, 0);
    column_is(&x, "routing", "tokens_per_slot", T, CLOSE);
    column_is(&x, "routing", "slots_per_token", S, CLOSE);
    assert_true(isnan(inspect_fixture_number(inspect_fixture_frame(&x, "routing"), 0, "scale")));
    column_is(&x, "token_weight", "mean", S / T, 0);
    column_is(&x, "token_weight", "largest", S / T, 0);
    column_is(&x, "token_weight", "light", 0, 0);
    column_is(&x, "token_weight", "heavy", 0, 0);
    column_is(&x, "dispatch_token_sum", "share", 1, 0);
    column_is(&x, "dispatch_token_sum", "tokens", IMAGES * T, 0);
    column_is(&x, "combine_expert", "weight", 0.5, 0);
    column_is(&x, "combine_expert", "times_least", 1, 0);
    const smoe_frame *classes = inspect_fixture_frame(&x, "class_expert");
    for (size_t r = 0; r < classes->rows; r++) { /* a class may have no image */
        bool some = false;
        for (size_t i = 0; i < IMAGES; i++)
            some = some || (double)smoe_dataset_label(x.set, i) ==
                               inspect_fixture_number(classes, r, "class");
        double lift = inspect_fixture_number(classes, r, "lift");
        assert_true(some ? lift == 1 : isnan(lift));
    }
    column_is(&x, "position_expert", "lift", 1, 0);
    column_is(&x, "expert_information", "bits", 0, CLOSE);
    column_is(&x, "expert_information", "by_chance", 0, CLOSE);
    column_is(&x, "expert_information", "expert_entropy", 1, CLOSE);
    const smoe_frame *bands = inspect_fixture_frame(&x, "dispatch_bands");
    for (size_t r = 0; r < bands->rows; r++) {
        double sum = inspect_fixture_number(bands, r, "rank") / T;
        assert_close(inspect_fixture_number(bands, r, "mean"), sum, 0);
        assert_close(inspect_fixture_number(bands, r, "p0.5"), sum, 0.0005 + 1e-12);
        assert_close(inspect_fixture_number(bands, r, "p99.5"), sum, 0.0005 + 1e-12);
    }
    const smoe_frame *fractions = inspect_fixture_frame(&x, "tokens_to_fraction");
    for (size_t r = 0; r < fractions->rows; r++)
        assert_close(inspect_fixture_number(fractions, r, "tokens"),
                     ceil(inspect_fixture_number(fractions, r, "fraction") * T), 0);
    /* uniform has no slot vectors, no placements and no gate */
    static const char *const absent[] = {"slot_correlation", "slot_alignment", "processed_times",
                                         "expert_load",      "gate_weights",   "router_value",
                                         "noise_decisions"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        assert_int_equal(smoe_frames_find(x.frame, x.frames, absent[i])->rows, 0);
    inspect_fixture_free(&x);
}

/* Each slot has all its weight in one token, and each token all of its weight in one slot: Phi
 * is so large that softmax is an arg max. */
static void one_hot(void **state) {
    inspect_fixture x;
    inspect_fixture_open(&x, "model.moe.router=soft model.moe.normalize=false", IMAGES, 5);
    for (size_t l = 0; l < 2; l++) {
        size_t size;
        real *phi = inspect_fixture_tensor(
            &x, l ? "blocks.1.mlp.router.phi" : "blocks.0.mlp.router.phi", &size);
        for (size_t i = 0; i < size; i++) phi[i] *= 1e6f;
    }
    inspect_fixture_run(&x);
    column_is(&x, "routing", "dispatch_max", 1, 0);
    column_is(&x, "routing", "combine_max", 1, 0);
    column_is(&x, "routing", "tokens_per_slot", 1, 0);
    column_is(&x, "routing", "slots_per_token", 1, 0);
    column_is(&x, "dispatch_bands", "mean", 1, 0);
    column_is(&x, "dispatch_bands", "p0.5", 1, 0);
    column_is(&x, "combine_bands", "p99.5", 1, 0);
    column_is(&x, "tokens_to_fraction", "tokens", 1, 0);
    /* a token's sum is the number of slots that chose it */
    const smoe_frame *sums = inspect_fixture_frame(&x, "dispatch_token_sum");
    double weight = 0, bin = 0.01 * 6 / 16;
    for (size_t r = 0; r < sums->rows; r++) {
        double slots = rint(inspect_fixture_number(sums, r, "sum"));
        assert_close(inspect_fixture_number(sums, r, "sum"), slots, bin);
        weight += slots * inspect_fixture_number(sums, r, "tokens");
    }
    assert_close(weight, 2 * IMAGES * 6, 0); /* layers, images, slots */
    inspect_fixture_free(&x);
}

/* A gate that opens where the first element of a token is above `least`, image by image. Returns the
 * share of dropped tokens; a slot has one token, however many images fill none. */
static double few_are_placed(double least) {
    inspect_fixture x;
    inspect_fixture_open(&x, "model.moe.router=remoe", IMAGES, 1);
    size_t size;
    real *gate = inspect_fixture_tensor(&x, "blocks.0.mlp.router.weight", &size);
    memset(gate, 0, size * sizeof *gate);
    gate[0] = 1;
    inspect_fixture_tensor(&x, "blocks.0.norm2.weight", NULL)[0] = 1;
    inspect_fixture_tensor(&x, "blocks.0.norm2.bias", NULL)[0] = (real)-least;
    inspect_fixture_run(&x);
    const smoe_frame *routing = inspect_fixture_frame(&x, "routing");
    double dropped = inspect_fixture_number(routing, 0, "dropped");
    double right = dropped < 1 ? 1 : 0;
    assert_close(inspect_fixture_number(routing, 0, "dispatch_max"), right, 0);
    assert_close(inspect_fixture_number(routing, 0, "tokens_per_slot"), right, 0);
    inspect_fixture_free(&x);
    return dropped;
}

static void images_without_placements(void **state) {
    bool few = false; /* fewer placements than images, and some */
    for (double least = 0; least < 4; least += 0.1) {
        double placed = (1 - few_are_placed(least)) * IMAGES * 16;
        few |= placed > 0.5 && placed < IMAGES - 0.5;
    }
    assert_true(few);
}

/* Token t goes to expert t mod 4, and the position determines the expert: 2 bits of 4. */
static void identity(void **state) {
    inspect_fixture x;
    inspect_fixture_make(
        &x, "model.moe.router=identity model.moe.experts=4 model.moe.slots_per_expert=4", IMAGES,
        5);
    column_is(&x, "routing", "dispatch_max", 1, 0);
    column_is(&x, "routing", "combine_max", 1, 0);
    column_is(&x, "routing", "dropped", 0, 0);
    column_is(&x, "processed_times", "experts", 1, 0);
    column_is(&x, "processed_times", "share", 1, 0);
    column_is(&x, "experts_per_image", "experts", 4, 0);
    column_is(&x, "experts_per_image", "images", IMAGES, 0);
    column_is(&x, "expert_load", "placed", IMAGES * 4, 0);
    column_is(&x, "expert_load", "share", 0.25, 0);
    column_is(&x, "dropped_by_position", "dropped", 0, 0);
    const smoe_frame *information = inspect_fixture_frame(&x, "expert_information");
    const smoe_frame *positions = inspect_fixture_frame(&x, "position_expert");
    for (size_t r = 0; r < information->rows; r++)
        assert_close(inspect_fixture_number(information, r, "bits"), r % 2 ? 2 : 0, 1e-12);
    for (size_t r = 0; r < positions->rows; r++) {
        bool home = fmod(inspect_fixture_number(positions, r, "position"), 4) ==
                    inspect_fixture_number(positions, r, "expert");
        assert_close(inspect_fixture_number(positions, r, "weight"), home, 0);
        assert_close(inspect_fixture_number(positions, r, "lift"), home ? 4 : 0, 0);
        if (!home) continue; /* positions of an expert are consecutive */
        double rank = inspect_fixture_number(positions, r, "position_rank");
        assert_close(floor((rank - 1) / 4) + 1, inspect_fixture_number(positions, r, "expert_rank"),
                     0);
    }
    inspect_fixture_free(&x);
}

/* ---- the same bits --------------------------------------------------------------------------- */

/* Every bit of every table. */
static void same_frames(const inspect_fixture *a, const inspect_fixture *b) {
    for (size_t i = 0; i < a->frames; i++) {
        const smoe_frame *one = &a->frame[i], *other = &b->frame[i];
        assert_int_equal(one->rows, other->rows);
        for (size_t k = 0; k < one->rows * one->columns; k++)
            if (one->column[k % one->columns].words)
                assert_string_equal(one->datum[k].text, other->datum[k].text);
            else
                assert_memory_equal(&one->datum[k].number, &other->datum[k].number, sizeof(double));
    }
}

static void threads_do_not_matter(void **state) {
    static const char *const kinds[] = {"model.moe.router=soft",
                                        "model.moe.router=tokens-choice model.moe.group_images=4",
                                        "model.moe.router=experts-choice"};
    int before = smoe_threads();
    for (size_t k = 0; k < 3; k++) {
        inspect_fixture one, three;
        smoe_threads_set(1);
        inspect_fixture_make(&one, kinds[k], IMAGES, 8);
        smoe_threads_set(3);
        inspect_fixture_make(&three, kinds[k], IMAGES, 8);
        same_frames(&one, &three);
        inspect_fixture_free(&one);
        inspect_fixture_free(&three);
    }
    smoe_threads_set(before);
}

/* Soft routing processes one image at a time. */
static void batches_do_not_matter_in_soft_routing(void **state) {
    inspect_fixture one, seven, all;
    inspect_fixture_make(&one, "model.moe.router=soft", IMAGES, 3);
    inspect_fixture_make(&seven, "model.moe.router=soft", IMAGES, 7);
    inspect_fixture_make(&all, "model.moe.router=soft", IMAGES, IMAGES);
    same_frames(&one, &seven);
    same_frames(&one, &all);
    inspect_fixture_free(&one);
    inspect_fixture_free(&seven);
    inspect_fixture_free(&all);
}

/* ---- further evaluations --------------------------------------------------------------------- */

typedef struct logits {
    real *all; /* [images,N] */
} logits;

static int keep(void *user, const smoe_batch *batch, const real *logit, size_t classes,
                smoe_err *err) {
    (void)err;
    logits *l = user;
    for (size_t b = 0; b < batch->images; b++)
        memcpy(l->all + batch->index[b] * classes, logit + b * classes, classes * sizeof *logit);
    return 0;
}

/* The largest change of a logit of the image at place `at` of the evaluation; all changes are
 * added to *sum. Its companions are drawn here, from all other images. The image keeps its place
 * in its group of four; batches have ten images, so that their last group has two. */
static double change_among(const inspect_fixture *x, const uint32_t *order, size_t at, size_t round,
                           const real *before, double *sum) {
    size_t image = order[at], place = at % 10 % 4, size = at % 10 < 8 ? 4 : 2;
    real pixels[4 * 64], target[10];
    double change = 0;
    int64_t label;
    smoe_err err;
    smoe_rng rng = smoe_rng_at(x->spec.seed, SMOE_RNG_ANALYSIS, 2, round, image);
    for (size_t i = 0; i < size; i++) {
        size_t others[IMAGES], n = 0;
        for (size_t k = 0; k < IMAGES; k++)
            if (k != image) others[n++] = k;
        size_t sample_tables = others[smoe_rng_below(&rng, n)];
        assert_int_equal(smoe_dataset_image(x->set, i == place ? image : sample_tables, false,
                                            pixels + i * 64, target, &label, &err),
                         0);
    }
    smoe_model_forward(x->model, pixels, &(smoe_pass){.images = size});
    for (size_t c = 0; c < x->N; c++) {
        double after = (double)smoe_model_logits(x->model)[place * x->N + c];
        double off = fabs(after - (double)before[image * x->N + c]);
        change = fmax(change, off);
        *sum += off;
    }
    return change;
}

/* In the soft family images do not interact. In groups they do; the logits they are compared
 * with are those of the evaluation. */
static void companions(void **state) {
    inspect_fixture x;
    inspect_fixture_make(&x, "model.moe.router=soft", IMAGES, 8);
    column_is(&x, "companions", "largest_change", 0, 0);
    column_is(&x, "companions", "changed_predictions", 0, 0);
    column_is(&x, "companions", "group", 2, 0); /* group_images: 1 */
    inspect_fixture_free(&x);
    inspect_fixture_make(
        &x, "model.moe.router=tokens-choice model.moe.capacity=0.5 model.moe.group_images=4",
        IMAGES, 10);
    const smoe_frame *frame = inspect_fixture_frame(&x, "companions");
    assert_true(inspect_fixture_number(frame, 0, "group") == 4);
    assert_true(inspect_fixture_number(frame, 0, "images") == 16);
    double largest = inspect_fixture_number(frame, 0, "largest_change");
    assert_true(largest > 1e-3 && inspect_fixture_number(frame, 0, "mean_change") > 0);
    assert_true(inspect_fixture_number(frame, 0, "mean_change") < largest);
    logits l = {.all = calloc(IMAGES * x.N, sizeof *l.all)};
    uint32_t order[IMAGES];
    smoe_dataset_order(order, IMAGES, &x.spec);
    smoe_eval eval;
    smoe_err err;
    double squares = 0, change = 0, sum = 0;
    assert_int_equal(smoe_evaluate(x.model, &x.spec, x.set, 10,
                                   &(smoe_eval_options){.sink = keep, .user = &l}, &eval, &err),
                     0);
    for (size_t i = 0; i < 16; i++)
        for (size_t c = 0; c < x.N; c++)
            squares += pow((double)l.all[order[i * IMAGES / 16] * x.N + c], 2);
    /* The same logits; their squares are summed in a different order. */
    assert_close(inspect_fixture_number(frame, 0, "logit_rms"), sqrt(squares / (16 * (double)x.N)),
                 1e-12);
    for (size_t i = 0; i < 16 * 4; i++)
        change = fmax(change, change_among(&x, order, i / 4 * IMAGES / 16, 1 + i % 4, l.all, &sum));
    assert_close(largest, change, 0);
    assert_close(inspect_fixture_number(frame, 0, "mean_change"), sum / (16 * 4 * (double)x.N),
                 1e-12);
    free(l.all);
    inspect_fixture_free(&x);
}

/* A model of that spec with the weights of x, evaluated. */
static smoe_eval evaluate_like(const inspect_fixture *x, const char *keys) {
    inspect_fixture y;
    smoe_eval eval;
    smoe_err err = {0};
    inspect_fixture_open(&y, keys, x->images, x->batch);
    if (smoe_model_reserve(y.model, y.batch, false, &err)) fail_msg("%s", err.text);
    if (smoe_evaluate(y.model, &y.spec, y.set, y.batch, NULL, &eval, &err))
        fail_msg("%s", err.text);
    inspect_fixture_free(&y);
    return eval;
}

#define CHOICE                                                             \
    "model.depth=3 model.moe.layers=[1,2] model.moe.router=tokens-choice " \
    "model.moe.group_images=2 "

static void value_of_routers(void **state) {
    static const char *const keys[] = {
        CHOICE, CHOICE "model.moe.random_layers=[1]", CHOICE "model.moe.random_layers=[1]",
        CHOICE, CHOICE "model.moe.random_layers=[2]", CHOICE "model.moe.random_layers=all"};
    static const char *const random[] = {"none", "this", "up to"};
    inspect_fixture x;
    inspect_fixture_open(&x, CHOICE, IMAGES, 8);
    x.random_routers = true;
    inspect_fixture_run(&x);
    const smoe_frame *frame = inspect_fixture_frame(&x, "router_value");
    assert_int_equal(frame->rows, 6);
    for (size_t i = 0; i < 6; i++) {
        smoe_eval eval = evaluate_like(&x, keys[i]);
        assert_true(inspect_fixture_number(frame, i, "block") == (double)(1 + i / 3));
        assert_string_equal(smoe_frame_text_at(frame, i, smoe_frame_find(frame, "random")),
                            random[i % 3]);
        assert_true(inspect_fixture_number(frame, i, "precision_at_1") == eval.precision_at_1);
        assert_true(inspect_fixture_number(frame, i, "loss") == eval.loss);
        if (i % 3) assert_true(eval.loss != inspect_fixture_number(frame, 0, "loss"));
    }
    double loss = inspect_fixture_number(inspect_fixture_frame(&x, "runs"), 0, "loss");
    assert_true(loss == inspect_fixture_number(frame, 0, "loss"));
    smoe_eval after; /* the routers are unchanged */
    smoe_err err;
    assert_int_equal(smoe_evaluate(x.model, &x.spec, x.set, x.batch, NULL, &after, &err), 0);
    assert_true(after.loss == loss);
    inspect_fixture_free(&x);
}

/* ---- experts --------------------------------------------------------------------------------- */

/* Exchanges the E experts of a tensor by hand, and back. own [size] are the original ones. */
static void exchange(inspect_fixture *x, const char *tensor, size_t E, real *own, int rule) {
    size_t size;
    real *w = inspect_fixture_tensor(x, tensor, &size);
    if (rule == 0) memcpy(own, w, size * sizeof *own);
    for (size_t i = 0; i < size; i++) {
        size_t e = i / (size / E), at = i % (size / E);
        double sum = 0;
        for (size_t k = 0; k < E; k++) sum += (double)own[k * (size / E) + at];
        w[i] = rule == 0   ? (real)(sum / (double)E)
               : rule == 1 ? own[(e + 1) % E * (size / E) + at]
                           : own[i];
    }
}

/* The last `universal` experts have tensors of their own, and another width. */
static void check_exchange(const char *keys, size_t universal) {
    static const char *const part[] = {
        "experts.fc1.weight",   "experts.fc1.bias",   "experts.fc2.weight",   "experts.fc2.bias",
        "universal.fc1.weight", "universal.fc1.bias", "universal.fc2.weight", "universal.fc2.bias"};
    static const char *const name[] = {"mean", "neighbour"};
    inspect_fixture x;
    inspect_fixture_open(&x, keys, IMAGES, 8);
    x.exchange_experts = true;
    inspect_fixture_run(&x);
    const smoe_frame *frame = inspect_fixture_frame(&x, "expert_value");
    assert_int_equal(frame->rows, 2 * 5); /* layers; own, two rules for one layer and all to it */
    smoe_err err;
    smoe_eval eval;
    for (size_t l = 0; l < 2; l++) {
        real *own[8];
        char tensor[64];
        for (int rule = 0; rule < 3; rule++) {
            for (size_t p = 0; p < (universal ? 8 : 4); p++) {
                size_t size;
                snprintf(tensor, sizeof tensor, "blocks.%zu.mlp.%s", l, part[p]);
                inspect_fixture_tensor(&x, tensor, &size);
                if (rule == 0) own[p] = malloc(size * sizeof *own[p]);
                exchange(&x, tensor, p < 4 ? x.E - universal : universal, own[p], rule);
                if (rule == 2) free(own[p]);
            }
            assert_int_equal(smoe_evaluate(x.model, &x.spec, x.set, x.batch, NULL, &eval, &err), 0);
            size_t row = l * 5 + (rule == 2 ? 0 : 1 + 2 * (size_t)rule);
            assert_true(inspect_fixture_number(frame, row, "block") == (double)l);
            assert_string_equal(smoe_frame_text_at(frame, row, smoe_frame_find(frame, "experts")),
                                rule == 2 ? "own" : name[rule]);
            assert_true(inspect_fixture_number(frame, row, "loss") == eval.loss);
            if (rule < 2) /* for the first layer, "up to" is the same as alone */
                assert_true((inspect_fixture_number(frame, row + 1, "loss") == eval.loss) == !l);
        }
        assert_true(inspect_fixture_number(frame, l * 5, "loss") !=
                    inspect_fixture_number(frame, l * 5 + 1, "loss"));
    }
    inspect_fixture_free(&x);
}

static void experts_are_exchanged(void **state) {
    check_exchange("model.moe.router=soft", 0);
    check_exchange("model.moe.router=soft model.moe.experts=5 model.moe.universal_experts=2"
                   " model.moe.universal_mlp=8",
                   2);
}

/* ---- runs, and their history ----------------------------------------------------------------- */

static void runs(void **state) {
    inspect_fixture x;
    inspect_fixture_make(
        &x,
        "model.moe.router=experts-choice model.moe.capacity=1.5 model.moe.group_images=2"
        " model.head=token model.registers=2",
        IMAGES, 8);
    static const struct {
        const char *column;
        double right;
    } numbers[] = {{"images", IMAGES}, {"classes", 10},          {"image_tokens", 19},
                   {"side", 4},        {"class_token", 1},       {"layers", 2},
                   {"experts", 3},     {"slots_per_expert", 19}, /* 2 * 19 * 1.5 / 3 */
                   {"group_images", 2}};
    const smoe_frame *frame = inspect_fixture_frame(&x, "runs");
    assert_int_equal(frame->rows, 1);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        assert_close(inspect_fixture_number(frame, 0, numbers[i].column), numbers[i].right, 0);
    assert_true(inspect_fixture_number(frame, 0, "parameters") == (double)x.params->total);
    assert_string_equal(smoe_frame_text_at(frame, 0, smoe_frame_find(frame, "router")),
                        "experts-choice");
    inspect_fixture_free(&x);
}

static void records_of_training(void **state) {
    char buf[SCRATCH_PATH];
    static const char text[] =
        "{\"step\": 5, \"wall_s\": 1.5, \"train/loss\": 2.5, \"blocks.1/router/dropped\": 0.25}\n"
        "{\"step\": 10, \"test/loss\": 2.25, \"test/precision_at_1\": null, "
        "\"test/dropped\": 0.5, "
        "\"blocks.1/router/dropped\": 0.5,"
        " \"blocks.1/router/chosen\": [1, 2], \"other/router/x\": 3}\n"
        "{\"step\": 11, \"train/lo"; /* unfinished line */
    static const struct {
        double step, block;
        const char *metric;
        double value;
    } right[] = {{5, NAN, "train/loss", 2.5},
                 {5, 1, "dropped", 0.25},
                 {10, NAN, "test/loss", 2.25},
                 {10, 1, "test/dropped", 0.5}};
    const char *path = scratch_path(*state, buf, "metrics.jsonl");
    inspect_fixture x;
    smoe_err err = {0};
    scratch_write(path, text, strlen(text));
    inspect_fixture_open(&x, "model.moe.router=soft", 4, 4);
    x.metrics = path;
    inspect_fixture_run(&x);
    const smoe_frame *frame = inspect_fixture_frame(&x, "over_steps");
    assert_int_equal(frame->rows, 4);
    for (size_t r = 0; r < 4; r++) {
        double block = inspect_fixture_number(frame, r, "block");
        assert_close(inspect_fixture_number(frame, r, "step"), right[r].step, 0);
        assert_true(block == right[r].block || (isnan(block) && isnan(right[r].block)));
        assert_string_equal(smoe_frame_text_at(frame, r, smoe_frame_find(frame, "metric")),
                            right[r].metric);
        assert_close(inspect_fixture_number(frame, r, "value"), right[r].value, 0);
    }
    scratch_write(path, "{\"step\":1}\nnonsense\n", 20);
    assert_int_equal(smoe_inspect_fill(x.inspection, x.frame, &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
    assert_non_null(strstr(err.text, "metrics.jsonl:2: not a record with a step"));
    inspect_fixture_free(&x);
}

/* Evaluations of another split are distinguished from those of test; older runs call any split
 * test. */
static void records_of_a_split(void **state) {
    char buf[SCRATCH_PATH];
    static const char text[] =
        "{\"step\": 5, \"val/loss\": 2.5, \"blocks.1/router/dropped\": 0.25, "
        "\"val/fewshot_5\": 0.5, \"val/fewshot_5_sd\": 0.1}\n"
        "{\"step\": 5, \"train_split/loss\": 1.5}\n";
    static const char *const right[] = {"val/loss", "val/dropped", "val/fewshot_5",
                                        "train_split/loss"};
    inspect_fixture x;
    inspect_fixture_open(&x, "model.moe.router=soft", 4, 4);
    x.metrics = scratch_path(*state, buf, "metrics.jsonl");
    scratch_write(x.metrics, text, sizeof text - 1);
    inspect_fixture_run(&x);
    const smoe_frame *frame = inspect_fixture_frame(&x, "over_steps");
    size_t column = smoe_frame_find(frame, "metric");
    assert_int_equal(frame->rows, 4);
    for (size_t r = 0; r < 4; r++)
        assert_string_equal(smoe_frame_text_at(frame, r, column), right[r]);
    x.metrics = "tests/store/old-run/metrics.jsonl";
    inspect_fixture_run(&x);
    frame = inspect_fixture_frame(&x, "over_steps");
    assert_int_equal(frame->rows, 4 * 5 + 2 * 3);
    assert_string_equal(smoe_frame_text_at(frame, 10, column), "test/loss");
    assert_close(inspect_fixture_number(frame, 10, "value"), 2.3031672067868754, 0);
    inspect_fixture_free(&x);
}

/* The numbers of a layer are the layer's metrics, except the lists of evaluations. */
static void means_are_metrics(void **state) {
    inspect_fixture x;
    inspect_fixture_make(&x, "model.moe.router=soft", 4, 4);
    const smoe_frame *frame = inspect_fixture_frame(&x, "routing");
    size_t c = 2; /* after run and block */
    for (size_t m = 0; m < SMOE_METRICS; m++) {
        if (smoe_metrics[m].scope != SMOE_OF_LAYER) continue;
        if (m == SMOE_METRIC_CHOSEN || m == SMOE_METRIC_PLACED || m == SMOE_METRIC_LOST) continue;
        assert_true(c < frame->columns);
        assert_string_equal(frame->column[c++].name, smoe_metric_name((smoe_metric)m));
    }
    assert_int_equal(c, frame->columns);
    inspect_fixture_free(&x);
}

/* ---- invalid requests ------------------------------------------------------------------------ */

static void refused(const char *keys, size_t image, const char *message) {
    inspect_fixture x;
    smoe_inspection *inspection;
    smoe_err err = {0};
    inspect_fixture_open(&x, keys, 4, 4);
    if (smoe_model_reserve(x.model, 4, false, &err)) fail_msg("%s", err.text);
    smoe_inspect_subject subject = {.run = "mine",
                                    .checkpoint = "mine.safetensors",
                                    .spec = &x.spec,
                                    .set = x.set,
                                    .model = x.model,
                                    .batch = 4,
                                    .image = &image,
                                    .images = 1};
    assert_int_equal(smoe_inspect_run(&inspection, &subject, &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_string_equal(err.text, message);
    smoe_inspect_free(inspection);
    inspect_fixture_free(&x);
}

static void refusals(void **state) {
    refused("model.moe.layers=none", 0, "mine.safetensors has no MoE layer");
    refused("model.moe.router=soft", 4, "no image 4: the split test has images 0 to 3");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform),
        cmocka_unit_test(one_hot),
        cmocka_unit_test(images_without_placements),
        cmocka_unit_test(identity),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(batches_do_not_matter_in_soft_routing),
        cmocka_unit_test(companions),
        cmocka_unit_test(value_of_routers),
        cmocka_unit_test(experts_are_exchanged),
        cmocka_unit_test(runs),
        unit_test_with(records_of_training, scratch),
        unit_test_with(records_of_a_split, scratch),
        cmocka_unit_test(means_are_metrics),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
