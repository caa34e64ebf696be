/*
 * bench/cost against the papers: every row of the tables in tests/reference, the values of a
 * separate implementation of the same formulas to the last digit, and experiments/paper.
 */
#include "approx.h"
#include "overrides.h"
#include "bench/cost.h"
#include "spec/routers.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 128, FIELDS = 16 };

static const char papers[] =
    "data: {source: image-folder, path: jft, image_size: 224, classes: 29593}\n"
    "model: {variant: S, patch_size: 16, moe: {layers: none}}\n"
    "train: {steps: 300000, batch_size: 4096}\n";

static size_t depth_of(const char *variant) {
    return *variant == 'H' ? 32 : *variant == 'L' ? 24 : 12;
}

/* ---- reference tables ------------------------------------------------------------------------ */

typedef struct table {
    size_t rows;
    char line[ROWS][256];
    char *field[ROWS][FIELDS];
} table;

/* Comma-separated, no quotes; the first line names the columns. */
static void read_table(table *t, const char *name) {
    char path[128];
    snprintf(path, sizeof path, "tests/reference/%s", name);
    FILE *in = fopen(path, "r");
    if (!in) fail_msg("%s: cannot be read; run from the top of the tree", path);
    t->rows = 0;
    assert_non_null(fgets(t->line[0], sizeof t->line[0], in));
    while (t->rows < ROWS && fgets(t->line[t->rows], sizeof t->line[0], in)) {
        size_t fields = 0;
        char *rest = t->line[t->rows];
        for (char *one; fields < FIELDS && (one = strsep(&rest, ",\n"));)
            t->field[t->rows][fields++] = one;
        t->rows++;
    }
    fclose(in);
}

static double number(const char *text) {
    return strtod(text, NULL);
}

/* The reference values have six significant digits; they must agree in all six. */
static void assert_digits(double value, const char *expected, const char *what, const char *row) {
    char digits[32], wanted[32];
    snprintf(digits, sizeof digits, "%.6g", value);
    snprintf(wanted, sizeof wanted, "%.6g", number(expected));
    if (strcmp(digits, wanted)) fail_msg("row %s: %s is %s, not %s", row, what, digits, wanted);
}

static double error_percent(double value, const char *printed) {
    return 100 * fabs(value / number(printed) - 1);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median and worst of the errors, as stated to two decimals. */
static void assert_errors(double *error, size_t count, double median, double worst) {
    qsort(error, count, sizeof *error, by_size);
    double middle = (error[(count - 1) / 2] + error[count / 2]) / 2;
    assert_true(fabs(middle - median) < 0.0051);
    assert_true(error[count - 1] < worst + 0.005);
    assert_true(error[count - 1] > worst - 0.005);
}

/* ---- the papers' tables ---------------------------------------------------------------------- */

static void set_soft(overrides *list, const char *variant, const char *router,
                     const char *experts) {
    overrides_set(list, "model.moe.router=%s", router);
    overrides_set(list, "model.moe.layers=last-%zu", depth_of(variant) / 2);
    overrides_set(list, "model.moe.experts=%s", experts);
}

/* Soft MoE Tables 1 and 2: parameters, GFLOP per image, half of the training exaFLOPs. */
static void soft_moe_long_runs(void **state) {
    table t;
    double gflop_error[ROWS], exaflop_error[ROWS];
    size_t count = 0;
    read_table(&t, "soft_moe_long_runs.csv");
    assert_int_equal(t.rows, 8 + 17);
    for (size_t i = 0; i < t.rows; i++) {
        char **f = t.field[i];
        smoe_cost cost;
        overrides list = {0};
        overrides_set(&list, "model.variant=%s", f[2]);
        overrides_set(&list, "model.patch_size=%s", f[3]);
        overrides_set(&list, "train.steps=%s", f[5]);
        if (number(f[4]) > 0) set_soft(&list, f[2], "soft", f[4]);
        overrides_cost(&cost, papers, &list);

        double millions = cost.params / 1e6, unit = number(f[6]), images = 4096 * number(f[5]);
        assert_digits(millions, f[10], "params", f[1]);
        assert_digits(cost.flops_infer_per_image / 1e9, f[11], "GFLOP", f[1]);
        assert_digits(cost.products_infer_per_image / 1e9, f[12], "GFLOP of products", f[1]);
        assert_digits(cost.train_exaflop / 2, f[13], "exaFLOP", f[1]);
        assert_digits(cost.products_train_per_image * images / 2e18, f[14], "exaFLOP of products",
                      f[1]);
        /* The paper truncates the parameters, but rounds those of ViT H/14 (668.67 to 669M). */
        bool rounded = *f[2] == 'H' && number(f[4]) == 0;
        assert_close(number(f[7]), unit * floor(millions / unit + (rounded ? 0.5 : 0)), 1e-9);
        if (number(f[0]) == 2) {
            gflop_error[count] = error_percent(cost.flops_infer_per_image / 1e9, f[8]);
            exaflop_error[count++] = error_percent(cost.train_exaflop / 2, f[9]);
        }
        smoe_cost_free(&cost);
    }
    assert_errors(gflop_error, count, 0.06, 0.47);
    assert_errors(exaflop_error, count, 0.11, 0.30);
}

/* What the papers' programs compute in another way than this one. */
typedef struct program {
    bool one_hot;    /* choice routers dispatch and combine by one-hot products (S Table 9) */
    bool unrounded;  /* their buffers are K C tokens / E, not rounded (V Table 7) */
    bool pre_logits; /* a d x d layer before the head, as in V-MoE's models */
} program;

static void add_work(smoe_cost *cost, double macs, int times, double elementwise, double params) {
    double before = cost->flops_train_per_image;
    cost->params += params;
    cost->products_infer_per_image += 2 * macs;
    cost->products_train_per_image += 2 * macs * times;
    cost->flops_infer_per_image += 2 * macs + elementwise;
    cost->flops_train_per_image += 2 * macs * times + 4 * elementwise + params;
    cost->train_exaflop *= cost->flops_train_per_image / before;
}

/* The cost in such a program. */
static void cost_of(smoe_cost *cost, const char *text, const overrides *list, const program *by) {
    smoe_spec spec;
    overrides_parse(&spec, text, list);
    overrides_cost(cost, text, list);
    const smoe_moe_spec *moe = &spec.model.moe;
    double m = (double)smoe_spec_tokens(&spec), d = (double)spec.model.width;
    double h = (double)spec.model.mlp;
    for (size_t i = 0; i < spec.model.depth; i++) {
        if (!moe->is_moe[i] || !strstr(moe->router, "choice")) continue;
        smoe_moe_shape x = smoe_moe_shape_of(moe, i, smoe_spec_tokens(&spec));
        double places = (double)(x.E * x.P), exact = (double)(x.K * x.T) * smoe_moe_ratio(moe, i);
        if (by->unrounded) {
            double rows = (exact - places) / (double)x.images;
            add_work(cost, 2 * rows * d * h, 3, 9 * h * rows, 0);
            places = exact;
        }
        if (!by->one_hot) continue;
        add_work(cost, m * places * d, 2, 4 * m * places, 0);
        add_work(cost, m * places * d, 3, 0, 0);
    }
    if (by->pre_logits) add_work(cost, d * d, 3, 0, d * d + d);
    smoe_spec_free(&spec);
}

/* Soft MoE Table 9: 107 runs of 300k steps, of which seven are known not to match the count. */
static void soft_moe_pareto(void **state) {
    static const program einsum = {.one_hot = true};
    table t;
    double error[ROWS];
    size_t count = 0;
    read_table(&t, "soft_moe_pareto.csv");
    assert_int_equal(t.rows, 107);
    for (size_t i = 0; i < t.rows; i++) {
        char **f = t.field[i];
        smoe_cost cost;
        overrides list = {0};
        overrides_set(&list, "model.variant=%s", f[1]);
        overrides_set(&list, "model.patch_size=%s", f[2]);
        if (strcmp(f[3], "dense")) {
            double side = 224 / number(f[2]);
            set_soft(&list, f[1], f[3], f[4]);
            overrides_set(&list, "model.moe.group_images=%.0f", number(f[5]) / (side * side));
            if (number(f[6]) > 0) overrides_set(&list, "model.moe.k=%s", f[6]);
            if (number(f[7]) > 0) overrides_set(&list, "model.moe.capacity=%s", f[7]);
        }
        cost_of(&cost, papers, &list, &einsum);
        double products = cost.products_train_per_image * 4096 * 300e3;
        assert_digits(cost.train_exaflop / 2, f[9], "exaFLOP", f[0]);
        assert_digits(products / 2e18, f[10], "exaFLOP of products", f[0]);
        double off = error_percent(cost.train_exaflop / 2, f[8]);
        if (number(f[11]) > 0)
            assert_true(off > 3.7); /* 3.8 to 12.5: more than twice the worst of the others */
        else
            error[count++] = off;
        smoe_cost_free(&cost);
    }
    assert_int_equal(count, 100);
    assert_errors(error, count, 0.16, 1.43);
}

static const char vmoe[] =
    "data: {source: image-folder, path: jft, image_size: 224, classes: 18291}\n"
    "model:\n"
    "  head: token\n"
    "  moe: {layers: none, router: tokens-choice, experts: 32, capacity: 1.05}\n"
    "train: {steps: 1, batch_size: 8, schedule: {name: constant}}\n";

/* A row of V-MoE Table 7; "last n" are the last n even blocks. */
static void set_vmoe(overrides *list, char *const *f, bool *pre_logits) {
    bool large = !strcmp(f[1], "15B");
    *pre_logits = !large;
    overrides_set(list, "model.variant=%s", large ? "H" : f[1]);
    overrides_set(list, "model.patch_size=%s", f[2]);
    if (*f[1] == 'S') { /* wider and shallower than the S of the later paper */
        overrides_set(list, "model.width=512");
        overrides_set(list, "model.depth=8");
        overrides_set(list, "model.mlp=2048");
        overrides_set(list, "model.heads=8");
    }
    if (large) { /* different classes, no class token, no layer before the head */
        overrides_set(list, "model.width=1408");
        overrides_set(list, "model.depth=48");
        overrides_set(list, "model.mlp=6400");
        overrides_set(list, "model.heads=16");
        overrides_set(list, "model.head=gap");
        overrides_set(list, "data.classes=29593");
    }
    if (!strcmp(f[3], "every")) overrides_set(list, "model.moe.layers=every-2");
    if (!strcmp(f[3], "last")) overrides_set(list, "model.moe.layers=last-even-%s", f[4]);
    if (number(f[5]) > 0) overrides_set(list, "model.moe.k=%s", f[5]);
}

/* V-MoE Table 7: parameters of all 25 models, the full exaFLOPs of the 24 with epochs. */
static void vmoe_models(void **state) {
    table t;
    double error[ROWS], all[ROWS];
    size_t count = 0, models = 0;
    read_table(&t, "vmoe_models.csv");
    assert_int_equal(t.rows, 25);
    for (size_t i = 0; i < t.rows; i++) {
        char **f = t.field[i];
        program options = {.unrounded = true};
        smoe_cost cost;
        overrides list = {0};
        set_vmoe(&list, f, &options.pre_logits);
        cost_of(&cost, vmoe, &list, &options);
        assert_digits(cost.params / 1e6, f[9], "params", f[0]);
        assert_close(round(cost.params / 1e5) / 10, number(f[7]), 1e-9);
        double images = 303e6 * number(f[6]);
        if (images > 0) {
            double exaflop = cost.flops_train_per_image * images / 1e18;
            double off = error_percent(exaflop, f[8]);
            assert_digits(exaflop, f[10], "exaFLOP", f[0]);
            assert_digits(cost.products_train_per_image * images / 1e18, f[11],
                          "exaFLOP of products", f[0]);
            all[models++] = off;
            if (number(f[12]) > 0)
                assert_true(off > 0.55); /* rows 2 (0.58) and 21 (2.06) */
            else
                error[count++] = off;
        }
        smoe_cost_free(&cost);
    }
    assert_int_equal(count, 22);
    assert_errors(all, models, 0.18, 2.06);
    assert_errors(error, count, 0.15, 0.43);
}

static double vmoe_inference_flops(const table *models, size_t row, const char *k, const char *c) {
    program options = {.unrounded = true};
    smoe_cost cost;
    overrides list = {0};
    set_vmoe(&list, models->field[row - 1], &options.pre_logits);
    if (number(k) > 0) {
        overrides_set(&list, "model.moe.k=%s", k);
        overrides_set(&list, "model.moe.capacity=%s", c);
    }
    cost_of(&cost, vmoe, &list, &options);
    double flops = cost.flops_infer_per_image;
    smoe_cost_free(&cost);
    return flops;
}

/* V-MoE Tables 9 and 10: inference as a percentage of that of ViT-H/14; Table 10 varies K and C. */
static void vmoe_inference(void **state) {
    static table models, t;
    read_table(&models, "vmoe_models.csv");
    read_table(&t, "vmoe_inference.csv");
    assert_int_equal(t.rows, 5 + 6);
    double whole = vmoe_inference_flops(&models, 22, "0", "0");
    for (size_t i = 0; i < t.rows; i++) {
        char **f = t.field[i];
        double flops = vmoe_inference_flops(&models, (size_t)number(f[2]), f[3], f[4]);
        double percent = 100 * flops / whole, off = error_percent(percent, f[5]);
        if (number(f[0]) == 9) {
            assert_digits(percent, f[6], "percentage", f[1]);
            assert_true(off < 0.105);
        } else if (number(f[7]) > 0) {
            assert_true(off >
                        0.6); /* the every-2 rows print 100.0 where the count is 101.7, 100.7 */
        } else {
            assert_true(off < 0.305);
        }
    }
}

/* Soft MoE, section 3.5.1: S/16 with 4096 slots in the last two blocks, with 2 to 4096 experts. */
static void soft_moe_experts_sweep(void **state) {
    static const struct {
        const char *experts;
        double printed, unit;
    } ends[] = {
        {"2", 38e6, 1e6},
        {"4096", 9.7e9, 1e8},
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        smoe_cost cost;
        overrides list = {0};
        overrides_set(&list, "model.moe.layers=last-2");
        overrides_set(&list, "model.moe.router=soft");
        overrides_set(&list, "model.moe.experts=%s", ends[i].experts);
        overrides_set(&list, "model.moe.total_slots=4096");
        overrides_cost(&cost, papers, &list);
        assert_close(floor(cost.params / ends[i].unit) * ends[i].unit, ends[i].printed, 1);
        smoe_cost_free(&cost);
    }
}

/* ---- experiments/paper ----------------------------------------------------------------------- */

static char *read_text(const char *path) {
    char *text = calloc(1, 1 << 16);
    FILE *in = fopen(path, "r");
    if (!in) fail_msg("%s: cannot be read", path);
    assert_in_range(fread(text, 1, (1 << 16) - 1, in), 1, (1 << 16) - 2);
    fclose(in);
    return text;
}

static void assert_says(const char *path, const char *text, const char *line) {
    if (!strstr(text, line)) fail_msg("%s does not say: %s", path, line);
}

/* The specs of Table 2 are valid, and their comments and the README state their cost. */
static void paper_specs_say_what_they_cost(void **state) {
    static const char *const names[] = {
        "vit-s16", "soft-s16-128e", "soft-s14-256e", "vit-b16",       "soft-b16-128e",
        "vit-l16", "soft-l16-128e", "vit-h14",       "soft-h14-128e", "soft-h14-256e"};
    char *readme = read_text("experiments/paper/README.md");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[96], line[256];
        smoe_spec spec;
        smoe_cost cost;
        smoe_err err = {0};
        snprintf(path, sizeof path, "experiments/paper/%s.yaml", names[i]);
        if (smoe_spec_read(&spec, path, NULL, 0, &err)) fail_msg("%s", err.text);
        assert_string_equal(spec.name, names[i]);
        if (smoe_cost_estimate(&cost, &spec, 0, &err)) fail_msg("%s", err.text);
        double millions = cost.params / 1e6, gflop = cost.flops_infer_per_image / 1e9;
        char *text = read_text(path);
        snprintf(line, sizeof line,
                 "# smoe cost: %.1fM parameters, %.2f GFLOP/img, %.1f training exaFLOP, half of "
                 "which is %.1f.",
                 millions, gflop, cost.train_exaflop, cost.train_exaflop / 2);
        assert_says(path, text, line);
        snprintf(line, sizeof line, "| `%s` | %zuM | %.1fM | ", names[i],
                 spec.train.steps / 1000000, millions);
        assert_says("README.md", readme, line);
        snprintf(line, sizeof line, " | %.1fM | %.2f | ", cost.params_active / 1e6, gflop);
        assert_says("README.md", readme, line);
        snprintf(line, sizeof line, " | %.1f | %.1f | ", cost.train_exaflop,
                 cost.train_exaflop / 2);
        assert_says("README.md", readme, line);
        free(text);
        smoe_cost_free(&cost);
        smoe_spec_free(&spec);
    }
    free(readme);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(soft_moe_long_runs),     cmocka_unit_test(soft_moe_pareto),
        cmocka_unit_test(soft_moe_experts_sweep), cmocka_unit_test(vmoe_models),
        cmocka_unit_test(vmoe_inference),         cmocka_unit_test(paper_specs_say_what_they_cost),
    };
    return cmocka_run_group_tests_name("cost_papers", tests, NULL, NULL);
}
