/* smoe bench: how fast a spec trains and answers on this machine, and how near that is to what the
 * machine can do; study/bench.h says how it is measured. */
#include "cmd.h"
#include "load.h"
#include "progress.h"
#include "table.h"
#include "base/file.h"
#include "base/threads.h"
#include "study/bench.h"
#include "train/env.h"
#include "train/run.h"
#include "train/safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static json_t *time_json(const smoe_bench_time *t) {
    return json_pack("{s:f, s:f}", "min", t->min, "median", t->median);
}

static json_t *parts_json(const smoe_clock *parts) {
    json_t *object = json_object();
    for (int p = 0; p < SMOE_PART_COUNT; p++)
        json_object_set_new(object, smoe_part_name((smoe_part)p), json_real(parts->seconds[p]));
    return object;
}

/* Seconds of a batch that memory and arithmetic alone would take, with weights out of a file. */
static double reading_s(const smoe_bench *b) {
    return b->weight_bytes / b->read_bandwidth;
}
static double arithmetic_s(const smoe_bench *b) {
    return b->flops_infer / b->fma_gflops / 1e9;
}

static json_t *limits_json(const smoe_bench_limit *limit) {
    json_t *object = json_object();
    for (int p = 0; p < SMOE_PART_COUNT; p++)
        if (limit[p].seconds > 0)
            json_object_set_new(object, smoe_part_name((smoe_part)p),
                                json_pack("{s:f, s:s}", "seconds", limit[p].seconds, "bound_by",
                                          limit[p].memory ? "memory" : "arithmetic"));
    return object;
}

/* What was not measured is null: training, where the weights are in a file; the file, elsewhere. */
static json_t *bench_json(const smoe_bench *b) {
    bool file = b->weight_bytes > 0;
    double none = file ? NAN : 0; /* makes null of a number of the training */
    json_t *limits =
        !file ? json_null()
              : json_pack("{s:I, s:f, s:f, s:f}", "weight_bytes", (json_int_t)b->weight_bytes,
                          "read_bytes_per_s", b->read_bandwidth, "read_s", reading_s(b),
                          "arithmetic_s", arithmetic_s(b));
    return json_pack(
        "{s:I, s:i, s:I, s:o, s:f, s:o, s:o, s:f, s:f, s:f, s:{s:o, s:f}, s:{s:o, s:f, s:o}, s:o, "
        "s:o, "
        "s:I, s:I, s:{s:o, s:o}, s:{s:o, s:o}, s:o}",
        "batch", (json_int_t)b->batch, "threads", b->threads, "params", (json_int_t)b->params,
        "flops_train", smoe_run_number(b->flops_train + none), "flops_infer", b->flops_infer,
        "train_s", file ? json_null() : time_json(&b->train), "infer_s", time_json(&b->infer),
        "gemm_gflops", b->gemm_gflops, "fma_gflops", b->fma_gflops, "memory_bytes_per_s",
        b->memory_bandwidth, "mfu_gemm", "train", smoe_run_number(b->mfu_gemm_train + none),
        "infer", b->mfu_gemm_infer, "mfu_fma", "train", smoe_run_number(b->mfu_fma_train + none),
        "infer", b->mfu_fma_infer, "train_without_optimizer",
        smoe_run_number(b->mfu_fma_layers + none), "optimizer_bytes_per_s",
        smoe_run_number(b->optimizer_bandwidth + none), "data_s",
        b->data_s > 0 ? json_real(b->data_s) : json_null(), "planned_bytes",
        (json_int_t)b->planned_bytes, "peak_rss_bytes", (json_int_t)b->peak_rss_bytes, "breakdown",
        "train", file ? json_null() : parts_json(&b->train_parts), "infer",
        parts_json(&b->infer_parts), "limits", "train",
        file ? json_null() : limits_json(b->train_limit), "infer", limits_json(b->infer_limit),
        "weights", limits);
}

/* One pass: each part's time, its share, and how near it is to what it cannot be faster than. */
typedef struct pass {
    const char *name;
    const smoe_clock *parts;
    const smoe_bench_limit *limit;
} pass;

static void add_part(smoe_table *table, const pass *x, smoe_part p) {
    double seconds = x->parts->seconds[p], whole = 0;
    for (int i = 0; i < SMOE_PART_COUNT; i++) whole += x->parts->seconds[i];
    smoe_table_add(table, "%.2f", 1e3 * seconds);
    smoe_table_add(table, "%.1f", 100 * seconds / whole);
    if (x->limit[p].seconds > 0 && seconds > 0)
        smoe_table_add(table, "%.0f%% of %s", 100 * x->limit[p].seconds / seconds,
                       x->limit[p].memory ? "memory" : "multiply-adds");
    else
        smoe_table_add(table, "-");
}

static int print_parts(const smoe_bench *b, bool bold, smoe_err *err) {
    const pass passes[] = {{"infer", &b->infer_parts, b->infer_limit},
                           {"train", &b->train_parts, b->train_limit}};
    size_t count = b->train.min > 0 ? 2 : 1;
    smoe_table table = {.columns = 1 + 3 * count};
    smoe_table_add(&table, "part");
    for (size_t i = count; i-- > 0;) {
        smoe_table_add(&table, "%s ms", passes[i].name);
        smoe_table_add(&table, "%s %%", passes[i].name);
        smoe_table_add(&table, "of its limit");
    }
    for (int p = 0; p < SMOE_PART_COUNT; p++) {
        if (passes[count - 1].parts->seconds[p] <= 0) continue;
        smoe_table_add(&table, "%s", smoe_part_name((smoe_part)p));
        for (size_t i = count; i-- > 0;) add_part(&table, &passes[i], (smoe_part)p);
    }
    int status = smoe_table_print(&table, stdout, bold, err);
    smoe_table_free(&table);
    return status;
}

static int print_bench(const smoe_bench *b, bool bold, smoe_err *err) {
    char a[32], c[32];
    if (b->train.min > 0)
        printf("training   %.4f s a step (median %.4f), %.0f images/s, %.0f GFLOP/s: %.0f%% of a "
               "large product, %.0f%% of the multiply-adds (%.0f%% without the optimizer)\n",
               b->train.min, b->train.median, (double)b->batch / b->train.min,
               b->flops_train / b->train.min / 1e9, 100 * b->mfu_gemm_train, 100 * b->mfu_fma_train,
               100 * b->mfu_fma_layers);
    printf(
        "inference  %.4f s a batch (median %.4f), %.0f images/s, %.0f GFLOP/s: %.0f%% and %.0f%%\n",
        b->infer.min, b->infer.median, (double)b->batch / b->infer.min,
        b->flops_infer / b->infer.min / 1e9, 100 * b->mfu_gemm_infer, 100 * b->mfu_fma_infer);
    printf("limits     %.0f GFLOP/s large BLIS product, %.0f GFLOP/s multiply-adds, %s/s of memory "
           "read and written, %d threads\n",
           b->gemm_gflops, b->fma_gflops, smoe_text_si(a, sizeof a, b->memory_bandwidth, "B"),
           b->threads);
    if (b->data_s > 0)
        printf("data       %.2f ms of processor time a batch, beside the step: %.1f%% of its\n",
               1e3 * b->data_s, 100 * b->data_s / b->train.min / b->threads);
    if (b->weight_bytes > 0)
        printf(
            "weights    %s of the file, read plainly at %s/s: %.4f s a batch; multiply-adds alone "
            "%.4f s: bound by %s\n",
            smoe_text_si(a, sizeof a, b->weight_bytes, "B"),
            smoe_text_si(c, sizeof c, b->read_bandwidth, "B"), reading_s(b), arithmetic_s(b),
            reading_s(b) > arithmetic_s(b) ? "memory" : "arithmetic");
    printf("memory     %s peak, %s planned\n\n", smoe_text_si(a, sizeof a, b->peak_rss_bytes, "B"),
           smoe_text_si(c, sizeof c, b->planned_bytes, "B"));
    return print_parts(b, bold, err);
}

/* ---- a table of benchmarks -------------------------------------------------------------------- */

static void add_heading(FILE *out) {
    json_t *env = smoe_env_json(0, NULL, NULL, NULL, smoe_threads());
    const char *cpu = json_string_value(json_object_get(env, "cpu"));
    char date[SMOE_DATE_TEXT];
    fprintf(
        out,
        "smoe %s, %s, %d threads, %s. Shares are of what the machine did between the rounds.\n\n"
        "| case | images | training step, s | of multiply-adds, without the optimizer | optimizer, "
        "of memory | inference, s | of multiply-adds | memory, peak and planned |\n"
        "|---|---|---|---|---|---|---|---|\n",
        SMOE_VERSION, cpu ? cpu : "a processor", smoe_threads(),
        smoe_env_date(date, (long long)time(NULL)));
    json_decref(env);
}

static void add_row(FILE *out, const char *name, const smoe_bench *b) {
    char peak[32], planned[32];
    fprintf(out, "| %s | %zu | ", name, b->batch);
    if (b->train.min > 0)
        fprintf(out, "%.4g | %.0f%% | %.0f%% | ", b->train.min, 100 * b->mfu_fma_layers,
                100 * b->optimizer_bandwidth / b->memory_bandwidth);
    else
        fprintf(out, "- | - | - | ");
    fprintf(out, "%.4g | %.0f%% | %s, %s |\n", b->infer.min, 100 * b->mfu_fma_infer,
            smoe_text_si(peak, sizeof peak, b->peak_rss_bytes, "B"),
            smoe_text_si(planned, sizeof planned, b->planned_bytes, "B"));
}

/* Adds the benchmark to the Markdown table in `path`, which is made when it is not there. */
static int append(const char *path, const char *name, const smoe_bench *b, smoe_err *err) {
    enum { MOST = 1 << 20 };
    char *before = NULL, *text = NULL;
    size_t length = 0, size;
    bool fresh = access(path, F_OK);
    if (!fresh && smoe_file_read(path, MOST, &before, &length, err)) return -1;
    FILE *out = open_memstream(&text, &size);
    int status = -1;
    if (!out) {
        smoe_fail(err, SMOE_RUNTIME, "out of memory for %s", path);
        goto end;
    }
    if (length) fwrite(before, 1, length, out);
    if (fresh) add_heading(out);
    add_row(out, name, b);
    if (fclose(out))
        smoe_fail(err, SMOE_RUNTIME, "out of memory for %s", path);
    else if (!fresh || !smoe_file_make_parents(path, err))
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
    size_t classes, rounds = options->rounds ? (size_t)options->rounds : 10;
    const smoe_tensor *head = weights ? smoe_safetensors_find(weights, "head.weight") : NULL;
    if (rounds > SMOE_BENCH_MOST)
        return smoe_fail(err, SMOE_USAGE, "--rounds: at most %d", SMOE_BENCH_MOST);
    if (head && head->ndim == 2)
        classes = head->dim[0];
    else if (smoe_cmd_classes(spec, (size_t)options->classes, false, &classes, err))
        return -1;
    if (options->dry_run) {
        printf("would time %zu rounds of %zu images\n", rounds, spec->train.batch_size);
        return 0;
    }
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
    int status =
        model ? smoe_load_spec(&loaded, options->arg[0], options, err)
              : smoe_spec_read(spec, options->arg[0], options->override, options->overrides, err);
    if (!status && model) status = smoe_safetensors_open(&loaded.file, loaded.path, err);
    if (!status)
        status = options->print_config ? smoe_cmd_print_config(spec, err)
                                       : bench(spec, loaded.file, options, err);
    smoe_loaded_free(&loaded);
    return status;
}
