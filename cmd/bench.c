/* smoe bench: how fast a spec trains and predicts on this machine, compared with the limits of the
 * machine; bench/bench.h describes the measurement. */
#include "cmd.h"
#include "heading.h"
#include "progress.h"
#include "base/threads.h"
#include "bench/bench.h"
#include "math/kernels.h"
#include "store/env.h"

#include <math.h>
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

/* ---- facts ----------------------------------------------------------------------------------- */

/* The two passes: what was not measured, training with the weights in a file, has NULL. */
static const char *const pass_name[] = {"infer", "train"};
static const smoe_bench_pass *bench_pass_of(const smoe_bench *b, int i) {
    return i == 0 ? &b->infer : trained(b) ? &b->train : NULL;
}

/* A number in the object `of`, or in an object of it: "mfu_fma:train". */
static void add_fact(smoe_result *result, const char *of, const char *key, double value) {
    char path[96];
    snprintf(path, sizeof path, "%s:%s", of, key);
    smoe_fact_number(result, path, value);
}

/* A member for each pass; null of one that was not measured. */
static void add_passes(smoe_result *result, const char *of, const smoe_bench *b, double train,
                       double infer) {
    add_fact(result, of, "train", trained(b) ? train : NAN);
    add_fact(result, of, "infer", infer);
}

/* Shares of the passes, and of training without the optimiser. */
static void add_share(smoe_result *result, const char *name, bool median, const smoe_bench *b,
                      share train, share infer, const share *layers) {
    char of[64];
    snprintf(of, sizeof of, "%s%s", name, median ? "_median" : "");
    add_passes(result, of, b, median ? train.median : train.best,
               median ? infer.median : infer.best);
    if (layers)
        add_fact(result, of, "train_without_optimizer",
                 !trained(b) ? NAN
                 : median    ? layers->median
                             : layers->best);
}

/* The peaks of the machine, and shares of them: of the best values, or of the medians. */
static void add_machine(smoe_result *result, const smoe_bench *b, bool median) {
    const smoe_machine *m = median ? &b->median : &b->best;
    const struct {
        const char *key, *path;
        double value;
    } peaks[] = {{"gemm_gflops", "median:gemm_gflops", m->gemm_gflops},
                 {"fma_gflops", "median:fma_gflops", m->fma_gflops},
                 {"matrix_gflops", "median:matrix_gflops", m->matrix_gflops},
                 {"memory_bytes_per_s", "median:memory_bytes_per_s", m->memory_bandwidth},
                 {"read_bytes_per_s", "median:read_bytes_per_s", m->read_bandwidth}};
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++)
        smoe_fact_number(result, median ? peaks[i].path : peaks[i].key, peaks[i].value);
    const share fma = layers_of_fma(b), units = layers_of_units(b);
    add_share(result, "mfu_gemm", median, b, of_gemm(b, &b->train), of_gemm(b, &b->infer), NULL);
    add_share(result, "mfu_fma", median, b, of_fma(b, &b->train), of_fma(b, &b->infer), &fma);
    add_share(result, "mfu_unit", median, b, of_units(b, &b->train), of_units(b, &b->infer),
              &units);
}

/* What each part of a pass takes, its limit, and what the threads do meanwhile; medians. */
static void add_breakdown(smoe_result *result, const smoe_bench *b, int i) {
    const smoe_bench_pass *pass = bench_pass_of(b, i);
    char of[64];
    for (int p = 0; p < SMOE_PART_COUNT && pass; p++) {
        bool memory;
        const char *part = smoe_part_name((smoe_part)p);
        double seconds = smoe_bench_limit(pass, (smoe_part)p, &b->median, &memory);
        snprintf(of, sizeof of, "breakdown:%s", pass_name[i]);
        add_fact(result, of, part, pass->part[p].median);
        if (!(seconds > 0)) continue;
        snprintf(of, sizeof of, "limits:%s:%s", pass_name[i], part);
        add_fact(result, of, "seconds", seconds);
        snprintf(of, sizeof of, "limits:%s:%s:bound_by", pass_name[i], part);
        smoe_fact_text(result, of, memory ? "memory" : "arithmetic");
    }
    for (size_t w = 0; w < SMOE_WORK_COUNT && pass; w++) {
        snprintf(of, sizeof of, "work:%s", pass_name[i]);
        add_fact(result, of, smoe_works[w].name, work_share(pass, smoe_works[w].work));
    }
    static const char *const objects[] = {"breakdown", "limits", "work"};
    for (size_t k = 0; k < 3 && !pass; k++) add_fact(result, objects[k], pass_name[i], NAN);
}

/* "infer_s" or "infer_processor_s": its least value and its median. */
static void add_time(smoe_result *result, int i, const char *unit, const smoe_bench_pass *pass,
                     const smoe_bench_time *time) {
    char of[32];
    snprintf(of, sizeof of, "%s_%s", pass_name[i], unit);
    if (!pass) {
        smoe_fact_number(result, of, NAN);
        return;
    }
    add_fact(result, of, "min", time->min);
    add_fact(result, of, "median", time->median);
}

static void add_facts(smoe_result *result, const smoe_bench *b) {
    const smoe_bench_pass *train = bench_pass_of(b, 1);
    double update = b->train.part[SMOE_PART_optimizer].min;
    smoe_fact_number(result, "batch", (double)b->batch);
    smoe_fact_number(result, "threads", b->threads);
    smoe_fact_number(result, smoe_metric_name(SMOE_METRIC_PARAMS), b->params);
    smoe_fact_number(result, "flops_train", train ? train->flops : NAN);
    smoe_fact_number(result, "flops_infer", b->infer.flops);
    for (int i = 1; i >= 0; i--) {
        add_time(result, i, "s", bench_pass_of(b, i), i ? &b->train.whole : &b->infer.whole);
        add_time(result, i, "processor_s", bench_pass_of(b, i),
                 i ? &b->train.processor : &b->infer.processor);
    }
    add_machine(result, b, false);
    add_machine(result, b, true);
    smoe_fact_number(result, "optimizer_bytes_per_s",
                     train ? train->part_bytes[SMOE_PART_optimizer] / update : NAN);
    smoe_fact_number(result, "data_s", b->data_s > 0 ? b->data_s : NAN);
    smoe_fact_number(result, "planned_bytes", b->planned_bytes);
    smoe_fact_number(result, "peak_rss_bytes", b->peak_bytes);
    for (int i = 1; i >= 0; i--) add_breakdown(result, b, i);
    if (b->weight_bytes > 0) {
        add_fact(result, "weights", "weight_bytes", b->weight_bytes);
        add_fact(result, "weights", "read_s", reading_s(b));
        add_fact(result, "weights", "arithmetic_s", arithmetic_s(b));
    } else {
        smoe_fact_number(result, "weights", NAN);
    }
}

/* ---- for people ------------------------------------------------------------------------------ */

/* One part of one pass: its time, its share of the time, and its share of the limit; medians. */
static void add_part(smoe_frame *table, const smoe_bench *b, int i, smoe_part p) {
    static const char *const ms[] = {"infer ms", "train ms"}, *const percent[] = {"infer %",
                                                                                  "train %"};
    const smoe_bench_pass *pass = bench_pass_of(b, i);
    double seconds = pass->part[p].median, whole = 0;
    for (int k = 0; k < SMOE_PART_COUNT; k++) whole += pass->part[k].median;
    bool memory;
    double limit = smoe_bench_limit(pass, p, &b->median, &memory);
    char text[64];
    snprintf(text, sizeof text, "%.0f%% of %s", 100 * limit / seconds,
             memory ? "memory" : smoe_bench_unit(pass, p));
    smoe_cell_number(table, ms[i], 1e3 * seconds, .format = "%.2f");
    smoe_cell_number(table, percent[i], 100 * seconds / whole, .format = "%.1f");
    smoe_cell_text(table, "of its bound", limit > 0 && seconds > 0 ? text : NULL);
}

static void add_parts(smoe_result *result, const smoe_bench *b) {
    smoe_frame *table = smoe_result_table(result, NULL, NULL);
    for (int p = 0; p < SMOE_PART_COUNT; p++) {
        if (bench_pass_of(b, trained(b))->part[p].median <= 0) continue;
        smoe_cell_text(table, "part", smoe_part_name((smoe_part)p));
        if (trained(b)) add_part(table, b, 1, (smoe_part)p);
        add_part(table, b, 0, (smoe_part)p);
        smoe_frame_end(table);
    }
}

/* A pass as a line: time, rate, shares; best values, then medians. */
static void add_pass(smoe_result *result, const smoe_bench *b, const smoe_bench_pass *pass,
                     const char *name, const char *unit) {
    share gemm = of_gemm(b, pass), units = of_units(b, pass);
    smoe_result_line(result, name,
                     "%.4f s per %s, %.0f images/s, %.0f GFLOP/s: %.0f%% of a large product, "
                     "%.0f%% of the %s",
                     pass->whole.min, unit, (double)b->batch / pass->whole.min,
                     pass->flops / pass->whole.min / 1e9, 100 * gemm.best, 100 * units.best,
                     units_of(pass));
    smoe_result_line(
        result, "", "(medians: %.4f s, %.0f%%, %.0f%%; processor time at least %.4f s)",
        pass->whole.median, 100 * gemm.median, 100 * units.median, pass->processor.min);
}

/* What the threads do, over all parts of the model; medians. */
static void add_work(smoe_result *result, const smoe_bench *b) {
    smoe_frame *table = smoe_result_table(result, NULL, NULL);
    for (size_t w = 0; w < SMOE_WORK_COUNT; w++) {
        int work = smoe_works[w].work;
        smoe_cell_text(table, "threads", smoe_works[w].name);
        smoe_cell_number(table, "train %", trained(b) ? 100 * work_share(&b->train, work) : NAN,
                         .format = "%.1f");
        smoe_cell_number(table, "infer %", 100 * work_share(&b->infer, work), .format = "%.1f");
        smoe_frame_end(table);
    }
}

static void add_lines(smoe_result *result, const smoe_bench *b) {
    char a[32], c[32];
    if (trained(b)) {
        share layers = layers_of_units(b), memory = of_memory(b);
        add_pass(result, b, &b->train, "training", "step");
        smoe_result_line(result, "",
                         "without the optimizer %.0f%% of the %s (medians: %.0f%%), the optimizer "
                         "%.0f%% of memory (%.0f%%)",
                         100 * layers.best, units_of(&b->train), 100 * layers.median,
                         100 * memory.best, 100 * memory.median);
    }
    add_pass(result, b, &b->infer, "inference", "batch");
    smoe_result_line(result, "peaks",
                     "%.0f GFLOP/s large BLIS product (median %.0f), %.0f GFLOP/s multiply-adds "
                     "(%.0f), %d threads",
                     b->best.gemm_gflops, b->median.gemm_gflops, b->best.fma_gflops,
                     b->median.fma_gflops, b->threads);
    smoe_result_line(result, "", "%.0f GFLOP/s products in BF16, %s (%.0f)", b->best.matrix_gflops,
                     smoe_kernels_get()->matrix->unit, b->median.matrix_gflops);
    smoe_result_line(result, "", "%s/s of memory read and written (%s/s)",
                     smoe_text_si(a, sizeof a, b->best.memory_bandwidth, "B"),
                     smoe_text_si(c, sizeof c, b->median.memory_bandwidth, "B"));
    smoe_result_more(result, ", %s/s read alone (%s/s)",
                     smoe_text_si(a, sizeof a, b->best.read_bandwidth, "B"),
                     smoe_text_si(c, sizeof c, b->median.read_bandwidth, "B"));
    if (b->data_s > 0)
        smoe_result_line(result, "data",
                         "%.2f ms of processor time per batch, %.1f%% of that of a step",
                         1e3 * b->data_s, 100 * b->data_s / b->train.whole.min / b->threads);
    if (b->weight_bytes > 0)
        smoe_result_line(result, "weights",
                         "%s of the file, read by a plain loop at %s/s: %.4f s per batch; "
                         "multiply-adds alone %.4f s: bound by %s",
                         smoe_text_si(a, sizeof a, b->weight_bytes, "B"),
                         smoe_text_si(c, sizeof c, b->best.read_bandwidth, "B"), reading_s(b),
                         arithmetic_s(b), reading_s(b) > arithmetic_s(b) ? "memory" : "arithmetic");
    smoe_result_line(result, "memory", "%s peak, %s planned",
                     smoe_text_si(a, sizeof a, b->peak_bytes, "B"),
                     smoe_text_si(c, sizeof c, b->planned_bytes, "B"));
}

/* ---- a table of benchmarks ------------------------------------------------------------------- */

/* The heading by which an existing table is recognised; a row has these columns. */
static const char columns[] =
    "\n| case | images | training step, s | of multiply-adds, without the optimizer "
    "| optimizer, of memory | inference, s | of multiply-adds | memory, peak and planned |\n"
    "|---|---|---|---|---|---|---|---|\n";

static void add_heading(FILE *out) {
    json_auto_t *env = smoe_env_here(0, NULL);
    const char *cpu = json_string_value(json_object_get(env, "cpu"));
    char date[SMOE_DATE_TEXT];
    fprintf(out,
            "smoe %s, %s, %d threads, %s. Shares are relative to the peak rates measured between "
            "the rounds: of the best values, and in brackets of the medians.\n"
            "%s",
            SMOE_VERSION, cpu ? cpu : "a processor", smoe_threads(),
            smoe_env_date(date, smoe_env_now()), columns);
}

static void bench_add_line(FILE *out, const char *name, const smoe_bench *b) {
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
    SMOE_FREED char *text = NULL;
    size_t length;
    return path ? read_table(path, &text, &length, err) : 0;
}

/* Adds the benchmark to the Markdown table in `path`, which is created if it does not exist. */
static int bench_append(const char *path, const char *name, const smoe_bench *b, smoe_err *err) {
    SMOE_FREED char *before = NULL, *text = NULL;
    size_t length, size;
    if (read_table(path, &before, &length, err)) return -1;
    FILE *out = smoe_alloc_stream(&text, &size);
    if (length)
        fwrite(before, 1, length, out);
    else
        add_heading(out);
    bench_add_line(out, name, b);
    smoe_alloc_stream_close(out, &text);
    int status = length ? 0 : smoe_file_make_parents(path, err);
    if (!status) status = smoe_file_write(path, text, size, err);
    return status;
}

static void bench_show(void *progress, size_t done, size_t of) {
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
    smoe_result out = {0};
    if (options->dry_run) {
        smoe_fact_number(&out, "rounds", (double)rounds);
        smoe_fact_number(&out, "batch", (double)spec->train.batch_size);
        smoe_result_line(&out, NULL, "would time %zu round%s of %zu image%s", rounds,
                         SMOE_S(rounds), spec->train.batch_size, SMOE_S(spec->train.batch_size));
        return smoe_cmd_emit(&out, options, err);
    }
    if (!weights) smoe_heading_spec(&out, spec);
    smoe_heading_print(&out, options);
    smoe_progress progress;
    smoe_progress_open(&progress, options, stderr, NULL);
    smoe_bench result;
    int status =
        smoe_bench_run(&result, spec, classes, weights, rounds, bench_show, &progress, err);
    smoe_progress_close(&progress);
    if (status) return -1;
    if (options->append && bench_append(options->append, spec->name, &result, err)) return -1;
    add_facts(&out, &result);
    add_lines(&out, &result);
    add_parts(&out, &result);
    add_work(&out, &result);
    return smoe_cmd_emit(&out, options, err);
}

int cmd_bench(const smoe_options *options, smoe_err *err) {
    /* of which a spec alone uses nothing but the spec */
    SMOE_FREED_BY(smoe_loaded_free) smoe_loaded loaded = {0};
    smoe_spec *spec = &loaded.spec;
    bool model = smoe_run_is_model(options->arg[0]);
    loaded.trains = true;
    if (smoe_options_check(options, model ? "model" : "spec-file", err)) return -1;
    int status = model ? smoe_load_spec(&loaded, options->arg[0], options, err)
                       : smoe_cmd_spec(spec, options->arg[0], options, err);
    if (!status)
        status = options->print_config ? smoe_cmd_print_config(spec, err)
                                       : bench(spec, loaded.file, options, err);
    return status;
}
