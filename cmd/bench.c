/* smoe bench: how fast a spec trains and predicts on this machine, compared with the limits of the
 * machine; bench/bench.h describes the measurement. */
#include "cmd.h"
#include "progress.h"
#include "bench/bench.h"
#include "math/kernels.h"
#include "store/env.h"

#include <time.h>
#include <unistd.h>

/* Shares of a limit; NAN of a pass that was not measured. */
typedef struct shares {
    double gemm, fma;
    double unit; /* of the time, what the products alone would take at the speed of their units */
    double layers_fma, layers_unit; /* the same of a training step without the optimiser */
    double memory;                  /* of the optimiser */
} shares;

/* Numbers are those of the best round, or medians of the rounds. */
static shares shares_of(const smoe_bench *b, const smoe_bench_pass *x, bool median) {
    const smoe_machine *m = median ? &b->median : &b->best;
    const smoe_bench_time *update = &x->part[SMOE_PART_optimizer];
    double whole = median ? x->whole.median : x->whole.min;
    double layers = median ? x->layers.median : x->layers.min;
    double flops = x->flops - x->part_flops[SMOE_PART_optimizer];
    return (shares){.gemm = x->flops / 1e9 / whole / m->gemm_gflops,
                    .fma = x->flops / 1e9 / whole / m->fma_gflops,
                    .unit = smoe_bench_products(x, m, true) / whole,
                    .layers_fma = flops / 1e9 / layers / m->fma_gflops,
                    .layers_unit = smoe_bench_products(x, m, false) / layers,
                    .memory = x->part_bytes[SMOE_PART_optimizer] /
                              (median ? update->median : update->min) / m->memory_bandwidth};
}

/* What the shares of a pass are relative to. */
static const char *units_of(const smoe_bench_pass *pass) {
    return smoe_bench_unit(pass, SMOE_PART_mlp);
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

/* The peaks of the machine, and shares of them by the passes and by training without the
 * optimiser. */
static void add_machine(smoe_result *result, const smoe_bench *b, bool median) {
    const smoe_machine *m = median ? &b->median : &b->best;
    const shares train = shares_of(b, &b->train, median), infer = shares_of(b, &b->infer, median);
    const struct {
        const char *key;
        double value;
    } peaks[] = {{"gemm_gflops", m->gemm_gflops},
                 {"fma_gflops", m->fma_gflops},
                 {"matrix_gflops", m->matrix_gflops},
                 {"memory_bytes_per_s", m->memory_bandwidth},
                 {"read_bytes_per_s", m->read_bandwidth}};
    const struct {
        const char *key;
        double train, infer, layers;
    } share[] = {{"gemm", train.gemm, infer.gemm, 0},
                 {"fma", train.fma, infer.fma, train.layers_fma},
                 {"unit", train.unit, infer.unit, train.layers_unit}};
    for (size_t i = 0; i < SMOE_COUNT(peaks); i++)
        smoe_cmd_number(result, peaks[i].value, "%s%s", median ? "median:" : "", peaks[i].key);
    for (size_t i = 0; i < SMOE_COUNT(share); i++) {
        const char *key = share[i].key, *suffix = median ? "_median" : "";
        smoe_cmd_number(result, share[i].train, "mfu_%s%s:train", key, suffix);
        smoe_cmd_number(result, share[i].infer, "mfu_%s%s:infer", key, suffix);
        if (i)
            smoe_cmd_number(result, share[i].layers, "mfu_%s%s:train_without_optimizer", key,
                            suffix);
    }
}

/* A pass: its times; then what each part takes, its limit, and what the threads do meanwhile. What
 * was not measured, training with the weights in a file, is null. */
static const char *const pass_name[] = {"infer", "train"};

static const smoe_bench_pass *bench_pass_of(const smoe_bench *b, int i) {
    return i == 0 ? &b->infer : trained(b) ? &b->train : NULL;
}

static void add_times(smoe_result *result, const smoe_bench *b, int i) {
    const smoe_bench_pass *pass = bench_pass_of(b, i);
    for (int processor = 0; processor < 2; processor++) {
        const char *unit = processor ? "processor_s" : "s";
        if (!pass) {
            smoe_cmd_number(result, NAN, "%s_%s", pass_name[i], unit);
            continue;
        }
        const smoe_bench_time *time = processor ? &pass->processor : &pass->whole;
        smoe_cmd_number(result, time->min, "%s_%s:min", pass_name[i], unit);
        smoe_cmd_number(result, time->median, "%s_%s:median", pass_name[i], unit);
    }
}

static void add_breakdown(smoe_result *result, const smoe_bench *b, int i) {
    const smoe_bench_pass *pass = bench_pass_of(b, i);
    const char *name = pass_name[i];
    for (int p = 0; p < SMOE_PART_COUNT && pass; p++) {
        bool memory;
        char path[96];
        const char *part = smoe_parts[p].name;
        double seconds = smoe_bench_limit(pass, (smoe_part)p, &b->median, &memory);
        smoe_cmd_number(result, pass->part[p].median, "breakdown:%s:%s", name, part);
        if (!(seconds > 0)) continue;
        smoe_cmd_number(result, seconds, "limits:%s:%s:seconds", name, part);
        snprintf(path, sizeof path, "limits:%s:%s:bound_by", name, part);
        smoe_fact_text(result, path, memory ? "memory" : "arithmetic");
    }
    for (size_t w = 0; w < SMOE_WORK_COUNT && pass; w++)
        smoe_cmd_number(result, work_share(pass, smoe_works[w].work), "work:%s:%s", name,
                        smoe_works[w].name);
    static const char *const objects[] = {"breakdown", "limits", "work"};
    for (size_t k = 0; k < 3 && !pass; k++) smoe_cmd_number(result, NAN, "%s:%s", objects[k], name);
}

static void add_facts(smoe_result *result, const smoe_bench *b) {
    const smoe_bench_pass *train = bench_pass_of(b, 1);
    double update = b->train.part[SMOE_PART_optimizer].min;
    smoe_result_facts(result, {"batch", .number = b->batch}, {"threads", .number = b->threads},
                      {smoe_metric_name(SMOE_METRIC_PARAMS), .number = b->params},
                      {"flops_train", .number = train ? train->flops : NAN},
                      {"flops_infer", .number = b->infer.flops});
    for (int i = 1; i >= 0; i--) add_times(result, b, i);
    for (int median = 0; median < 2; median++) add_machine(result, b, median);
    smoe_result_facts(result,
                      {"optimizer_bytes_per_s",
                       .number = train ? train->part_bytes[SMOE_PART_optimizer] / update : NAN},
                      {"data_s", .number = b->data_s > 0 ? b->data_s : NAN},
                      {"planned_bytes", .number = b->planned_bytes},
                      {"peak_rss_bytes", .number = b->peak_bytes});
    for (int i = 1; i >= 0; i--) add_breakdown(result, b, i);
    if (!(b->weight_bytes > 0)) {
        smoe_fact_number(result, "weights", NAN);
        return;
    }
    smoe_result_facts(result, {"weights:weight_bytes", .number = b->weight_bytes},
                      {"weights:read_s", .number = reading_s(b)},
                      {"weights:arithmetic_s", .number = arithmetic_s(b)});
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
    smoe_frame_cells(table, {ms[i], .number = 1e3 * seconds, .format = "%.2f"},
                     {percent[i], .number = 100 * seconds / whole, .format = "%.1f"},
                     {"of its bound", SMOE_TEXT_OF(limit > 0 && seconds > 0 ? text : NULL)});
}

static void add_parts(smoe_result *result, const smoe_bench *b) {
    smoe_frame *table = smoe_result_table(result, NULL, NULL);
    for (int p = 0; p < SMOE_PART_COUNT; p++) {
        if (bench_pass_of(b, trained(b))->part[p].median <= 0) continue;
        smoe_cell_text(table, "part", smoe_parts[p].name);
        if (trained(b)) add_part(table, b, 1, (smoe_part)p);
        add_part(table, b, 0, (smoe_part)p);
        smoe_frame_end(table);
    }
}

/* A pass as a line: time, rate, shares; best values, then medians. */
static void add_pass(smoe_result *result, const smoe_bench *b, const smoe_bench_pass *pass,
                     const char *name, const char *unit) {
    const shares best = shares_of(b, pass, false), usual = shares_of(b, pass, true);
    smoe_result_line(result, name,
                     "%.4f s per %s, %.0f images/s, %.0f GFLOP/s: %.0f%% of a large product, "
                     "%.0f%% of the %s",
                     pass->whole.min, unit, (double)b->batch / pass->whole.min,
                     pass->flops / pass->whole.min / 1e9, 100 * best.gemm, 100 * best.unit,
                     units_of(pass));
    smoe_result_line(result, "",
                     "(medians: %.4f s, %.0f%%, %.0f%%; processor time at least %.4f s)",
                     pass->whole.median, 100 * usual.gemm, 100 * usual.unit, pass->processor.min);
}

/* What the threads do, over all parts of the model; medians. */
static void add_work(smoe_result *result, const smoe_bench *b) {
    smoe_frame *table = smoe_result_table(result, NULL, NULL);
    for (size_t w = 0; w < SMOE_WORK_COUNT; w++) {
        int work = smoe_works[w].work;
        smoe_frame_put(table, {"threads", .text = smoe_works[w].name},
                       {"train %", .number = trained(b) ? 100 * work_share(&b->train, work) : NAN,
                        .format = "%.1f"},
                       {"infer %", .number = 100 * work_share(&b->infer, work), .format = "%.1f"});
    }
}

static void bench_add_lines(smoe_result *result, const smoe_bench *b) {
    const shares best = shares_of(b, &b->train, false), usual = shares_of(b, &b->train, true);
    char a[32], c[32];
    if (trained(b)) {
        add_pass(result, b, &b->train, "training", "step");
        smoe_result_line(result, "",
                         "without the optimizer %.0f%% of the %s (medians: %.0f%%), the optimizer "
                         "%.0f%% of memory (%.0f%%)",
                         100 * best.layers_unit, units_of(&b->train), 100 * usual.layers_unit,
                         100 * best.memory, 100 * usual.memory);
    }
    add_pass(result, b, &b->infer, "inference", "batch");
    smoe_result_line(result, "peaks",
                     "%.0f GFLOP/s large BLIS product (median %.0f), %.0f GFLOP/s multiply-adds "
                     "(%.0f), %d thread%s",
                     b->best.gemm_gflops, b->median.gemm_gflops, b->best.fma_gflops,
                     b->median.fma_gflops, b->threads, SMOE_S(b->threads));
    smoe_result_line(result, "", "%.0f GFLOP/s products in BF16, %s (%.0f)", b->best.matrix_gflops,
                     smoe_kernels_get()->matrix->unit, b->median.matrix_gflops);
    smoe_result_line(result, "", "%s/s of memory read and written (%s/s)",
                     smoe_text_si(a, sizeof a, b->best.memory_bandwidth, "B"),
                     smoe_text_si(c, sizeof c, b->median.memory_bandwidth, "B"));
    smoe_result_more(result, ", %s/s read alone (%s/s)",
                     smoe_text_si(a, sizeof a, b->best.read_bandwidth, "B"),
                     smoe_text_si(c, sizeof c, b->median.read_bandwidth, "B"));
    if (fmax(trained(b) ? best.unit : 0, shares_of(b, &b->infer, false).unit) > 1)
        smoe_result_line(result, "",
                         "below what the model reached: something else ran while they were "
                         "measured, so the shares mean nothing; repeat on an idle machine");
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

/* By which an existing table is recognised. */
static const char heading[] = "\n| case | images | training step, s |";

/* "best (median)" of a share of what the column names, or else of `other`. */
static void add_share(smoe_frame *table, const char *name, double best, double median,
                      const char *other) {
    bool named = strstr(name, other);
    SMOE_FREED char *text = smoe_text_format("%.0f%% (%.0f%%)%s%s", 100 * best, 100 * median,
                                             named ? "" : " of ", named ? "" : other);
    smoe_cell_text(table, name, isnan(best) ? "-" : text);
}

static void add_seconds(smoe_frame *table, const char *name, const smoe_bench_time *time) {
    SMOE_FREED char *text = smoe_text_format("%.4g (%.4g)", time->min, time->median);
    smoe_cell_text(table, name, time->min > 0 ? text : "-");
}

static void add_case(smoe_result *result, const char *name, const smoe_bench *b) {
    char peak[32], planned[32], date[SMOE_DATE_TEXT];
    json_auto_t *env = smoe_env_here(0, NULL);
    const char *cpu = json_string_value(json_object_get(env, "cpu"));
    const bool train = trained(b);
    const shares best = shares_of(b, &b->train, false), usual = shares_of(b, &b->train, true);
    smoe_result_line(result, NULL,
                     "smoe %s, %s, %d thread%s, %s. Shares are relative to the peak rates measured "
                     "between the rounds: best values, and medians in brackets.",
                     SMOE_VERSION, cpu ? cpu : "a processor", smoe_threads(),
                     SMOE_S(smoe_threads()), smoe_env_date(date, smoe_env_now()));
    smoe_frame *table = smoe_result_table(result, NULL, NULL);
    SMOE_FREED char *memory =
        smoe_text_format("%s, %s", smoe_text_si(peak, sizeof peak, b->peak_bytes, "B"),
                         smoe_text_si(planned, sizeof planned, b->planned_bytes, "B"));
    smoe_frame_cells(table, {"case", .text = name},
                     {"images", .number = b->batch, .format = "%.0f"});
    add_seconds(table, "training step, s", &b->train.whole);
    add_share(table, "of multiply-adds, without the optimizer", train ? best.layers_unit : NAN,
              usual.layers_unit, units_of(&b->train));
    add_share(table, "optimizer, of memory", train ? best.memory : NAN, usual.memory, "memory");
    add_seconds(table, "inference, s", &b->infer.whole);
    add_share(table, "of multiply-adds", shares_of(b, &b->infer, false).unit,
              shares_of(b, &b->infer, true).unit, units_of(&b->infer));
    smoe_frame_put(table, {"memory, peak and planned", .text = memory});
}

/* The text of the table in `path`, fresh, after a check that it is such a table; empty if there is
 * no file or an empty one. */
static int bench_read_table(const char *path, char **text, size_t *length, smoe_err *err) {
    enum { MOST = 1 << 20 };
    *text = NULL;
    *length = 0;
    if (access(path, F_OK)) return 0;
    if (smoe_file_read(path, MOST, text, length, err)) return -1;
    bool table = strlen(*text) == *length && strstr(*text, heading);
    if (table || !*length) return 0;
    free(*text);
    *text = NULL;
    return smoe_fail(err, SMOE_DATA, "%s: has no table written by --append", path);
}

/* Whether the last heading in `table` names the version, processor and threads that `fresh` begins
 * with; headings that were rewritten are not judged. */
static bool under_same_heading(const char *table, const char *fresh) {
    const char *date = strstr(fresh, ". Shares");
    const char *last = strncmp(table, "smoe ", 5) ? NULL : table;
    while (*date != ',') date--;
    for (const char *at = table; (at = strstr(at, "\nsmoe "));) last = ++at;
    return !last || !strncmp(last, fresh, (size_t)(date - fresh) + 1);
}

/* Adds the benchmark to the Markdown table in `path`, which is created if it does not exist. */
static int bench_append(const char *path, const char *name, const smoe_bench *b, smoe_err *err) {
    SMOE_FREED_BY(smoe_result_free) smoe_result result = {0};
    SMOE_FREED char *before = NULL, *text = NULL, *whole = NULL;
    size_t length, size;
    if (bench_read_table(path, &before, &length, err)) return -1;
    add_case(&result, name, b);
    FILE *out = smoe_alloc_stream(&text, &size);
    smoe_result_markdown(&result, out, 1);
    smoe_alloc_stream_close(out, &text);
    const char *row = strchr(strstr(text, "\n| ---") + 1, '\n') + 1;
    text[size - 1] = '\0'; /* the next row follows without an empty line */
    bool joins = length && under_same_heading(before, text);
    whole = smoe_text_format("%s%s%s", length ? before : "", length && !joins ? "\n" : "",
                             joins ? row : text);
    if (!length && smoe_file_make_parents(path, err)) return -1;
    return smoe_file_write(path, whole, strlen(whole), err);
}

/* What a case is called: the spec's name, and the other keys that were given. Fresh. */
static char *case_name(const smoe_spec *spec, const smoe_options *options) {
    char *name = smoe_text_format("%s", spec->name);
    for (size_t i = 0; i < options->overrides; i++)
        if (strncmp(options->assign[i], "name=", 5))
            smoe_text_add(&name, " %s", options->assign[i]);
    return name;
}

static int bench(const smoe_spec *spec, const smoe_safetensors *weights,
                 const smoe_options *options, smoe_err *err) {
    size_t classes, length, rounds = (size_t)options->rounds;
    const smoe_tensor *head = weights ? smoe_safetensors_find(weights, "head.weight") : NULL;
    if (rounds > SMOE_BENCH_MOST)
        return smoe_fail(err, SMOE_USAGE, "--rounds: at most %d", SMOE_BENCH_MOST);
    if (head && head->ndim == 2)
        classes = head->dim[0];
    else if (smoe_cmd_classes(spec, false, &classes, options->scan, err))
        return -1;
    SMOE_FREED char *table = NULL, *name = case_name(spec, options);
    if (options->append && (smoe_cmd_plain_name(options->append, err) ||
                            smoe_cmd_writable(options->append, true, err) ||
                            bench_read_table(options->append, &table, &length, err)))
        return -1;
    smoe_result out = {0};
    if (options->dry_run) {
        smoe_result_facts(&out, {"rounds", .number = rounds},
                          {"batch", .number = spec->train.batch_size});
        smoe_result_line(&out, NULL, "would time %zu round%s of %zu image%s", rounds,
                         SMOE_S(rounds), spec->train.batch_size, SMOE_S(spec->train.batch_size));
        return smoe_cmd_emit(&out, options, err);
    }
    if (!weights) smoe_heading_spec(&out, spec, options->scan);
    smoe_heading_print(&out, options);
    smoe_progress progress;
    smoe_progress_open(&progress, options, "passes", NULL);
    const volatile sig_atomic_t *stop;
    if (smoe_cmd_catch(&stop, options->scan, err)) return -1;
    smoe_bench result;
    int status = smoe_bench_run(
        &result, spec, classes,
        &(smoe_bench_options){rounds, weights, smoe_progress_count, &progress, stop}, err);
    smoe_progress_close(&progress);
    if (status) return -1;
    if (!weights && !*stop) result.data_s = smoe_bench_data(spec, options->scan);
    if (result.timed < result.rounds)
        status = smoe_fail(err, SMOE_STOPPED, "stopped on request after %zu of %zu passes%s",
                           result.timed, result.rounds,
                           options->append ? "; nothing is added to the table" : "");
    else if (options->append)
        status = bench_append(options->append, name, &result, err);
    add_facts(&out, &result);
    bench_add_lines(&out, &result);
    add_parts(&out, &result);
    add_work(&out, &result);
    return smoe_cmd_emit_anyway(&out, status, options, err);
}

int cmd_bench(const smoe_options *options, smoe_err *err) {
    /* of which a spec alone uses nothing but the spec */
    SMOE_FREED_BY(smoe_loaded_free) smoe_loaded loaded = {0};
    smoe_spec *spec = &loaded.spec;
    bool model = !smoe_spec_is_input(options->arg[0]) && smoe_run_is_model(options->arg[0]);
    loaded.trains = true;
    if (smoe_options_check(options, model ? "model" : "spec-file", err)) return -1;
    if (model ? smoe_load_spec(&loaded, options->arg[0], options, err)
              : smoe_cmd_spec(spec, options->arg[0], options, err))
        return -1;
    return options->print_config ? smoe_cmd_print_config(spec, err)
                                 : bench(spec, loaded.file, options, err);
}
