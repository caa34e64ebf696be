/* smoe bench: how fast a spec trains and predicts on this machine, compared with the limits of the
 * machine; bench/bench.h describes the measurement. */
#include "cmd.h"
#include "heading.h"
#include "load.h"
#include "progress.h"
#include "table.h"
#include "base/file.h"
#include "base/threads.h"
#include "bench/bench.h"
#include "math/kernels.h"
#include "store/env.h"
#include "store/run.h"
#include "tensors/safetensors.h"
#include "base/json.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Shares of a limit, by the best values and by the medians of the rounds. */
typedef struct share {
    double best, median;
} share;

static share share_of(double work, const smoe_bench_time *time, double best, double median) {
    return (share){work / time->min / best, work / time->median / median};
}
static share of_gemm(const smoe_bench *b, const smoe_bench_pass *pass) {
    return share_of(pass->flops / 1e9, &pass->whole, b->best.gemm_gflops, b->median.gemm_gflops);
}
static share of_fma(const smoe_bench *b, const smoe_bench_pass *pass) {
    return share_of(pass->flops / 1e9, &pass->whole, b->best.fma_gflops, b->median.fma_gflops);
}
/* Of the time of a pass, what its products alone would take at the speed of their units. */
static share of_units(const smoe_bench *b, const smoe_bench_pass *pass) {
    return (share){smoe_bench_products(pass, &b->best, true) / pass->whole.min,
                   smoe_bench_products(pass, &b->median, true) / pass->whole.median};
}
/* The training step without the optimiser. */
static share layers_of_fma(const smoe_bench *b) {
    double flops = b->train.flops - b->train.part_flops[SMOE_PART_optimizer];
    return share_of(flops / 1e9, &b->train.layers, b->best.fma_gflops, b->median.fma_gflops);
}
static share layers_of_units(const smoe_bench *b) {
    return (share){smoe_bench_products(&b->train, &b->best, false) / b->train.layers.min,
                   smoe_bench_products(&b->train, &b->median, false) / b->train.layers.median};
}
/* What the shares of a pass are relative to. */
static const char *units_of(const smoe_bench_pass *pass) {
    return smoe_bench_unit(pass, SMOE_PART_mlp);
}
static share of_memory(const smoe_bench *b) {
    const smoe_bench_pass *x = &b->train;
    return share_of(x->part_bytes[SMOE_PART_optimizer], &x->part[SMOE_PART_optimizer],
                    b->best.memory_bandwidth, b->median.memory_bandwidth);
}

static bool trained(const smoe_bench *b) {
    return b->train.whole.min > 0;
}

/* The seconds per batch that memory traffic and arithmetic alone would take, with weights read from
 * a file. */
static double reading_s(const smoe_bench *b) {
    return b->weight_bytes / b->best.read_bandwidth;
}
static double arithmetic_s(const smoe_bench *b) {
    return b->infer.flops / b->best.fma_gflops / 1e9;
}

/* Of the threads' time in a pass, the share of one kind of work; medians. */
static double work_share(const smoe_bench_pass *pass, int work) {
    double sum = 0;
    for (size_t w = 0; w < SMOE_WORK_COUNT; w++) sum += pass->work[w].median;
    return pass->work[work].median / sum;
}

static json_t *time_json(const smoe_bench_time *t) {
    return json_pack("{s:f, s:f}", "min", t->min, "median", t->median);
}

static json_t *parts_json(const smoe_bench_pass *pass) {
    json_t *object = json_object();
    for (int p = 0; p < SMOE_PART_COUNT; p++)
        json_object_set_new(object, smoe_part_name((smoe_part)p), json_real(pass->part[p].median));
    return object;
}

static json_t *limits_json(const smoe_bench *b, const smoe_bench_pass *pass) {
    json_t *object = json_object();
    for (int p = 0; p < SMOE_PART_COUNT; p++) {
        bool memory;
        double seconds = smoe_bench_limit(pass, (smoe_part)p, &b->median, &memory);
        if (seconds > 0)
            json_object_set_new(object, smoe_part_name((smoe_part)p),
                                json_pack("{s:f, s:s}", "seconds", seconds, "bound_by",
                                          memory ? "memory" : "arithmetic"));
    }
    return object;
}

static json_t *work_json(const smoe_bench_pass *pass) {
    json_t *object = json_object();
    for (size_t w = 0; w < SMOE_WORK_COUNT; w++)
        json_object_set_new(object, smoe_works[w].name,
                            json_real(work_share(pass, smoe_works[w].work)));
    return object;
}

/* {"train": ..., "infer": ...} with one number of each share; training is null if there was
 * none. */
static json_t *both_json(const smoe_bench *b, double train, double infer) {
    return json_pack("{s:o, s:f}", "train", trained(b) ? json_real(train) : json_null(), "infer",
                     infer);
}

/* The share of a pass and, for training, of the step without the optimiser. */
static json_t *share_json(const smoe_bench *b, bool median, const share pass[2], share layers) {
    json_t *object = median ? both_json(b, pass[0].median, pass[1].median)
                            : both_json(b, pass[0].best, pass[1].best);
    json_object_set_new(object, "train_without_optimizer",
                        trained(b) ? json_real(median ? layers.median : layers.best) : json_null());
    return object;
}

/* The same shares, as bests and as medians. */
static void add_shares(json_t *object, const smoe_bench *b, bool median) {
    share gemm[] = {of_gemm(b, &b->train), of_gemm(b, &b->infer)};
    share fma[] = {of_fma(b, &b->train), of_fma(b, &b->infer)};
    share units[] = {of_units(b, &b->train), of_units(b, &b->infer)};
    json_object_set_new(object, median ? "mfu_gemm_median" : "mfu_gemm",
                        median ? both_json(b, gemm[0].median, gemm[1].median)
                               : both_json(b, gemm[0].best, gemm[1].best));
    json_object_set_new(object, median ? "mfu_fma_median" : "mfu_fma",
                        share_json(b, median, fma, layers_of_fma(b)));
    json_object_set_new(object, median ? "mfu_unit_median" : "mfu_unit",
                        share_json(b, median, units, layers_of_units(b)));
}

static json_t *machine_json(const smoe_machine *machine) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "gemm_gflops", machine->gemm_gflops, "fma_gflops",
                     machine->fma_gflops, "matrix_gflops", machine->matrix_gflops,
                     "memory_bytes_per_s", machine->memory_bandwidth, "read_bytes_per_s",
                     machine->read_bandwidth);
}

/* Quantities that were not measured are null: training, if the weights are in a file; reading the
 * file otherwise. */
static json_t *bench_json(const smoe_bench *b) {
    json_t *object =
        json_pack("{s:I, s:i, s:o, s:o, s:f, s:o, s:o}", "batch", (json_int_t)b->batch, "threads",
                  b->threads, "params", smoe_json_of_number(b->params), "flops_train",
                  trained(b) ? json_real(b->train.flops) : json_null(), "flops_infer",
                  b->infer.flops, "train_s", trained(b) ? time_json(&b->train.whole) : json_null(),
                  "infer_s", time_json(&b->infer.whole));
    json_object_update_new(object, machine_json(&b->best));
    add_shares(object, b, false);
    json_object_set_new(object, "median", machine_json(&b->median));
    add_shares(object, b, true);
    double update = b->train.part[SMOE_PART_optimizer].min;
    json_object_set_new(object, "optimizer_bytes_per_s",
                        trained(b) ? json_real(b->train.part_bytes[SMOE_PART_optimizer] / update)
                                   : json_null());
    json_object_set_new(object, "data_s", b->data_s > 0 ? json_real(b->data_s) : json_null());
    json_object_set_new(object, "planned_bytes", smoe_json_of_number(b->planned_bytes));
    json_object_set_new(object, "peak_rss_bytes", smoe_json_of_number(b->peak_bytes));
    json_object_set_new(object, "breakdown",
                        json_pack("{s:o, s:o}", "train",
                                  trained(b) ? parts_json(&b->train) : json_null(), "infer",
                                  parts_json(&b->infer)));
    json_object_set_new(object, "limits",
                        json_pack("{s:o, s:o}", "train",
                                  trained(b) ? limits_json(b, &b->train) : json_null(), "infer",
                                  limits_json(b, &b->infer)));
    json_object_set_new(object, "work",
                        json_pack("{s:o, s:o}", "train",
                                  trained(b) ? work_json(&b->train) : json_null(), "infer",
                                  work_json(&b->infer)));
    json_object_set_new(object, "weights",
                        b->weight_bytes > 0
                            ? json_pack("{s:o, s:f, s:f}", "weight_bytes",
                                        smoe_json_of_number(b->weight_bytes), "read_s",
                                        reading_s(b), "arithmetic_s", arithmetic_s(b))
                            : json_null());
    return object;
}

/* One part of one pass: its time, its share of the time, and its share of the limit; medians. */
static void add_part(smoe_table *table, const smoe_bench *b, const smoe_bench_pass *pass,
                     smoe_part p) {
    double seconds = pass->part[p].median, whole = 0;
    for (int i = 0; i < SMOE_PART_COUNT; i++) whole += pass->part[i].median;
    bool memory;
    double limit = smoe_bench_limit(pass, p, &b->median, &memory);
    smoe_table_add(table, "%.2f", 1e3 * seconds);
    smoe_table_add(table, "%.1f", 100 * seconds / whole);
    if (limit > 0 && seconds > 0)
        smoe_table_add(table, "%.0f%% of %s", 100 * limit / seconds,
                       memory ? "memory" : smoe_bench_unit(pass, p));
    else
        smoe_table_add(table, "-");
}

static int print_parts(const smoe_bench *b, bool bold, smoe_err *err) {
    const smoe_bench_pass *passes[] = {&b->infer, &b->train};
    static const char *const names[] = {"infer", "train"};
    size_t count = trained(b) ? 2 : 1;
    smoe_table table = {.columns = 1 + 3 * count};
    smoe_table_add(&table, "part");
    for (size_t i = count; i-- > 0;) {
        smoe_table_add(&table, "%s ms", names[i]);
        smoe_table_add(&table, "%s %%", names[i]);
        smoe_table_add(&table, "of its bound");
    }
    for (int p = 0; p < SMOE_PART_COUNT; p++) {
        if (passes[count - 1]->part[p].median <= 0) continue;
        smoe_table_add(&table, "%s", smoe_part_name((smoe_part)p));
        for (size_t i = count; i-- > 0;) add_part(&table, b, passes[i], (smoe_part)p);
    }
    int status = smoe_table_print(&table, stdout, bold, err);
    smoe_table_free(&table);
    return status;
}

/* A pass as a line: time, rate, shares; best values, then medians. */
static void print_pass(const smoe_bench *b, const smoe_bench_pass *pass, const char *name,
                       const char *unit) {
    share gemm = of_gemm(b, pass), units = of_units(b, pass);
    printf("%-10s %.4f s per %s, %.0f images/s, %.0f GFLOP/s: %.0f%% of a large product, %.0f%% of "
           "the %s\n"
           "           (medians: %.4f s, %.0f%%, %.0f%%)\n",
           name, pass->whole.min, unit, (double)b->batch / pass->whole.min,
           pass->flops / pass->whole.min / 1e9, 100 * gemm.best, 100 * units.best, units_of(pass),
           pass->whole.median, 100 * gemm.median, 100 * units.median);
}

/* What the threads do, over all parts of the model; medians. */
static int print_work(const smoe_bench *b, bool bold, smoe_err *err) {
    smoe_table table = {.columns = trained(b) ? 3 : 2};
    smoe_table_add(&table, "threads");
    if (trained(b)) smoe_table_add(&table, "train %%");
    smoe_table_add(&table, "infer %%");
    for (size_t w = 0; w < SMOE_WORK_COUNT; w++) {
        smoe_table_add(&table, "%s", smoe_works[w].name);
        if (trained(b))
            smoe_table_add(&table, "%.1f", 100 * work_share(&b->train, smoe_works[w].work));
        smoe_table_add(&table, "%.1f", 100 * work_share(&b->infer, smoe_works[w].work));
    }
    int status = smoe_table_print(&table, stdout, bold, err);
    smoe_table_free(&table);
    return status;
}

static int print_bench(const smoe_bench *b, bool bold, smoe_err *err) {
    char a[32], c[32];
    if (trained(b)) {
        share layers = layers_of_units(b), memory = of_memory(b);
        print_pass(b, &b->train, "training", "step");
        printf("           without the optimizer %.0f%% of the %s (medians: %.0f%%), the optimizer "
               "%.0f%% of memory (%.0f%%)\n",
               100 * layers.best, units_of(&b->train), 100 * layers.median, 100 * memory.best,
               100 * memory.median);
    }
    print_pass(b, &b->infer, "inference", "batch");
    printf("peaks      %.0f GFLOP/s large BLIS product (median %.0f), %.0f GFLOP/s multiply-adds "
           "(%.0f), %d threads\n",
           b->best.gemm_gflops, b->median.gemm_gflops, b->best.fma_gflops, b->median.fma_gflops,
           b->threads);
    printf("           %.0f GFLOP/s products in BF16, %s (%.0f)\n", b->best.matrix_gflops,
           smoe_kernels_get()->matrix->unit, b->median.matrix_gflops);
    printf("           %s/s of memory read and written (%s/s)",
           smoe_text_si(a, sizeof a, b->best.memory_bandwidth, "B"),
           smoe_text_si(c, sizeof c, b->median.memory_bandwidth, "B"));
    printf(", %s/s read alone (%s/s)\n", smoe_text_si(a, sizeof a, b->best.read_bandwidth, "B"),
           smoe_text_si(c, sizeof c, b->median.read_bandwidth, "B"));
    if (b->data_s > 0)
        printf("data       %.2f ms of processor time per batch, %.1f%% of that of a step\n",
               1e3 * b->data_s, 100 * b->data_s / b->train.whole.min / b->threads);
    if (b->weight_bytes > 0)
        printf("weights    %s of the file, read by a plain loop at %s/s: %.4f s per batch; "
               "multiply-adds alone %.4f s: bound by %s\n",
               smoe_text_si(a, sizeof a, b->weight_bytes, "B"),
               smoe_text_si(c, sizeof c, b->best.read_bandwidth, "B"), reading_s(b),
               arithmetic_s(b), reading_s(b) > arithmetic_s(b) ? "memory" : "arithmetic");
    printf("memory     %s peak, %s planned\n\n", smoe_text_si(a, sizeof a, b->peak_bytes, "B"),
           smoe_text_si(c, sizeof c, b->planned_bytes, "B"));
    if (print_parts(b, bold, err)) return -1;
    printf("\n");
    return print_work(b, bold, err);
}

/* ---- a table of benchmarks ------------------------------------------------------------------- */

/* The heading by which an existing table is recognised; a row has these columns. */
static const char columns[] =
    "\n| case | images | training step, s | of multiply-adds, without the optimizer "
    "| optimizer, of memory | inference, s | of multiply-adds | memory, peak and planned |\n"
    "|---|---|---|---|---|---|---|---|\n";

static void add_heading(FILE *out) {
    json_t *env = smoe_env_json(0, NULL, NULL, NULL, smoe_threads());
    const char *cpu = json_string_value(json_object_get(env, "cpu"));
    char date[SMOE_DATE_TEXT];
    fprintf(out,
            "smoe %s, %s, %d threads, %s. Shares are relative to the peak rates measured between "
            "the rounds: of the best values, and in brackets of the medians.\n"
            "%s",
            SMOE_VERSION, cpu ? cpu : "a processor", smoe_threads(),
            smoe_env_date(date, smoe_env_now()), columns);
    json_decref(env);
}

static void add_line(FILE *out, const char *name, const smoe_bench *b) {
    char peak[32], planned[32];
    share layers = layers_of_units(b), memory = of_memory(b);
    share infer = of_units(b, &b->infer);
    fprintf(out, "| %s | %zu | ", name, b->batch);
    if (trained(b))
        fprintf(out, "%.4g (%.4g) | %.0f%% (%.0f%%) | %.0f%% (%.0f%%) | ", b->train.whole.min,
                b->train.whole.median, 100 * layers.best, 100 * layers.median, 100 * memory.best,
                100 * memory.median);
    else
        fprintf(out, "- | - | - | ");
    fprintf(out, "%.4g (%.4g) | %.0f%% (%.0f%%) | %s, %s |\n", b->infer.whole.min,
            b->infer.whole.median, 100 * infer.best, 100 * infer.median,
            smoe_text_si(peak, sizeof peak, b->peak_bytes, "B"),
            smoe_text_si(planned, sizeof planned, b->planned_bytes, "B"));
}

/* The text of the table in `path`, fresh, after a check that it is such a table; empty if there is
 * no file or an empty one. */
static int read_table(const char *path, char **text, size_t *length, smoe_err *err) {
    enum { MOST = 1 << 20 };
    *text = NULL;
    *length = 0;
    if (access(path, F_OK)) return 0;
    if (smoe_file_read(path, MOST, text, length, err)) return -1;
    bool table = strlen(*text) == *length && strstr(*text, columns);
    if (table || !*length) return 0;
    free(*text);
    *text = NULL;
    return smoe_fail(err, SMOE_DATA, "%s: has no table written by --append", path);
}

static int check_table(const char *path, smoe_err *err) {
    char *text = NULL;
    size_t length;
    int status = path ? read_table(path, &text, &length, err) : 0;
    free(text);
    return status;
}

/* Adds the benchmark to the Markdown table in `path`, which is created if it does not exist. */
static int append(const char *path, const char *name, const smoe_bench *b, smoe_err *err) {
    char *before, *text = NULL;
    size_t length, size;
    if (read_table(path, &before, &length, err)) return -1;
    FILE *out = open_memstream(&text, &size);
    int status = -1;
    if (!out) {
        smoe_fail(err, SMOE_RUNTIME, "out of memory for %s", path);
        goto end;
    }
    if (length)
        fwrite(before, 1, length, out);
    else
        add_heading(out);
    add_line(out, name, b);
    if (fclose(out))
        smoe_fail(err, SMOE_RUNTIME, "out of memory for %s", path);
    else if (length || !smoe_file_make_parents(path, err))
        status = smoe_file_write(path, text, size, err);
end:
    free(before);
    free(text);
    return status;
}

static void show(void *progress, size_t done, size_t of) {
    smoe_progress_count(progress, done, of, "passes");
}

static int bench(const smoe_spec *spec, const smoe_safetensors *weights,
                 const smoe_options *options, smoe_err *err) {
    size_t classes, rounds = (size_t)options->rounds;
    const smoe_tensor *head = weights ? smoe_safetensors_find(weights, "head.weight") : NULL;
    if (rounds > SMOE_BENCH_MOST)
        return smoe_fail(err, SMOE_USAGE, "--rounds: at most %d", SMOE_BENCH_MOST);
    if (head && head->ndim == 2)
        classes = head->dim[0];
    else if (smoe_cmd_classes(spec, 0, false, &classes, err))
        return -1;
    if (check_table(options->append, err)) return -1;
    if (options->dry_run && options->json)
        return smoe_cmd_json(json_pack("{s:I, s:I}", "rounds", (json_int_t)rounds, "batch",
                                       (json_int_t)spec->train.batch_size),
                             err);
    if (options->dry_run) {
        printf("would time %zu round%s of %zu image%s\n", rounds, rounds == 1 ? "" : "s",
               spec->train.batch_size, spec->train.batch_size == 1 ? "" : "s");
        return 0;
    }
    if (!options->quiet && !options->json && !weights) smoe_heading_spec(stderr, spec);
    smoe_progress progress;
    smoe_progress_open(&progress, options, stderr, NULL);
    smoe_bench result;
    int status = smoe_bench_run(&result, spec, classes, weights, rounds, show, &progress, err);
    smoe_progress_close(&progress);
    if (status) return -1;
    if (options->append && append(options->append, spec->name, &result, err)) return -1;
    if (options->json) return smoe_cmd_json(bench_json(&result), err);
    return print_bench(&result, smoe_cmd_color(options, stdout), err);
}

int cmd_bench(const smoe_options *options, smoe_err *err) {
    smoe_loaded loaded = {0}; /* of which a spec alone uses nothing but the spec */
    smoe_spec *spec = &loaded.spec;
    bool model = smoe_run_is_model(options->arg[0]);
    loaded.trains = true;
    if (smoe_options_check(options, model ? "model" : "spec-file", err)) return -1;
    int status = model ? smoe_load_spec(&loaded, options->arg[0], options, err)
                       : smoe_cmd_spec(spec, options->arg[0], options, err);
    if (!status)
        status = options->print_config ? smoe_cmd_print_config(spec, err)
                                       : bench(spec, loaded.file, options, err);
    smoe_loaded_free(&loaded);
    return status;
}
