/* smoe bench: how fast a spec trains and answers on this machine, and how near that is to what the
 * machine can do; study/bench.h says how it is measured. */
#include "cmd.h"
#include "progress.h"
#include "table.h"
#include "study/bench.h"

static json_t *time_json(const smoe_bench_time *t) {
    return json_pack("{s:f, s:f}", "min", t->min, "median", t->median);
}

static json_t *parts_json(const smoe_clock *parts) {
    json_t *object = json_object();
    for (int p = 0; p < SMOE_PART_COUNT; p++)
        json_object_set_new(object, smoe_part_name((smoe_part)p), json_real(parts->seconds[p]));
    return object;
}

static json_t *bench_json(const smoe_bench *b) {
    return json_pack(
        "{s:I, s:i, s:f, s:f, s:f, s:o, s:o, s:f, s:f, s:{s:f, s:f}, s:{s:f, s:f}, s:f, s:f, s:f, "
        "s:{s:o, s:o}}",
        "batch", (json_int_t)b->batch, "threads", b->threads, "params", b->params, "flops_train",
        b->flops_train, "flops_infer", b->flops_infer, "train_s", time_json(&b->train), "infer_s",
        time_json(&b->infer), "gemm_gflops", b->gemm_gflops, "fma_gflops", b->fma_gflops,
        "mfu_gemm", "train", b->mfu_gemm_train, "infer", b->mfu_gemm_infer, "mfu_fma", "train",
        b->mfu_fma_train, "infer", b->mfu_fma_infer, "optimizer_bytes_per_s",
        b->optimizer_bandwidth, "planned_bytes", b->planned_bytes, "peak_rss_bytes",
        b->peak_rss_bytes, "breakdown", "train", parts_json(&b->train_parts), "infer",
        parts_json(&b->infer_parts));
}

static int print_parts(const smoe_bench *b, bool bold, smoe_err *err) {
    smoe_table table = {.columns = 4};
    smoe_table_add(&table, "part");
    smoe_table_add(&table, "train ms");
    smoe_table_add(&table, "infer ms");
    smoe_table_add(&table, "train %%");
    double whole = 0;
    for (int p = 0; p < SMOE_PART_COUNT; p++) whole += b->train_parts.seconds[p];
    for (int p = 0; p < SMOE_PART_COUNT; p++) {
        double train = b->train_parts.seconds[p];
        if (train <= 0) continue;
        smoe_table_add(&table, "%s", smoe_part_name((smoe_part)p));
        smoe_table_add(&table, "%.2f", 1e3 * train);
        smoe_table_add(&table, "%.2f", 1e3 * b->infer_parts.seconds[p]);
        smoe_table_add(&table, "%.1f", 100 * train / whole);
    }
    int status = smoe_table_print(&table, stdout, bold, err);
    smoe_table_free(&table);
    return status;
}

static int print_bench(const smoe_bench *b, bool bold, smoe_err *err) {
    char a[32], c[32];
    printf("training   %.4f s a step (median %.4f), %.0f images/s, %.0f GFLOP/s: %.0f%% of a large "
           "product, %.0f%% of the multiply-adds\n",
           b->train.min, b->train.median, (double)b->batch / b->train.min,
           b->flops_train / b->train.min / 1e9, 100 * b->mfu_gemm_train, 100 * b->mfu_fma_train);
    printf(
        "inference  %.4f s a batch (median %.4f), %.0f images/s, %.0f GFLOP/s: %.0f%% and %.0f%%\n",
        b->infer.min, b->infer.median, (double)b->batch / b->infer.min,
        b->flops_infer / b->infer.min / 1e9, 100 * b->mfu_gemm_infer, 100 * b->mfu_fma_infer);
    printf("limits     %.0f GFLOP/s large BLIS product, %.0f GFLOP/s multiply-adds, %d threads\n",
           b->gemm_gflops, b->fma_gflops, b->threads);
    printf("memory     %s peak, %s planned\n\n", smoe_text_si(a, sizeof a, b->peak_rss_bytes, "B"),
           smoe_text_si(c, sizeof c, b->planned_bytes, "B"));
    return print_parts(b, bold, err);
}

static void show(void *progress, size_t done, size_t of) {
    smoe_progress_count(progress, done, of, "passes");
}

static int bench(const smoe_spec *spec, const smoe_options *options, smoe_err *err) {
    size_t classes, rounds = options->rounds ? (size_t)options->rounds : 10;
    if (rounds > SMOE_BENCH_MOST)
        return smoe_fail(err, SMOE_USAGE, "--rounds: at most %d", SMOE_BENCH_MOST);
    if (smoe_cmd_classes(spec, (size_t)options->classes, false, &classes, err)) return -1;
    if (options->dry_run) {
        printf("would time %zu rounds of %zu images\n", rounds, spec->train.batch_size);
        return 0;
    }
    smoe_progress progress;
    smoe_progress_open(&progress, options, stderr, NULL);
    smoe_bench result;
    int status = smoe_bench_run(&result, spec, classes, rounds, show, &progress, err);
    smoe_progress_close(&progress);
    if (status) return -1;
    if (options->json) return smoe_cmd_json(bench_json(&result), err);
    return print_bench(&result, smoe_cmd_color(options, stdout), err);
}

int cmd_bench(const smoe_options *options, smoe_err *err) {
    smoe_spec spec = {0};
    int status = smoe_spec_read(&spec, options->arg[0], options->override, options->overrides, err);
    if (!status)
        status =
            options->print_config ? smoe_cmd_print_config(&spec, err) : bench(&spec, options, err);
    smoe_spec_free(&spec);
    return status;
}
