/* Benchmarks of a spec against the machine's limits; see bench.h. */
#include "bench/bench.h"
#include "base/process.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "math/blas.h"
#include "math/kernels.h"
#include "math/stats.h"
#include "math/tuning.h"
#include "spec/routers.h"
#include "tensors/params_io.h"
#include "train/step.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ---- limits of the machine ------------------------------------------------------------------- */

enum {
    SIDE = 1024, /* of the square matrices */
    FMA_ROUNDS = 2000000,
    MATRIX_ROUNDS = 20000,  /* of 32 x 32 x 32 */
    ARRAYS = 4,             /* weights, gradients and two moments */
    LENGTH = 16 << 20,      /* numbers of an array: together more than a cache holds for long */
    STRIDE = LENGTH + 1040, /* distance between arrays: if the low bits of addresses agree,
                             * processors mistake a load for a load of what was just stored, and
                             * wait */
    CHUNK = 1 << 15,        /* numbers of an array that a thread takes, as the optimiser does */
    WINDOW = 256 << 20,     /* bytes that one measurement reads, */
    PIECE = 1 << 16,        /* in such pieces */
};

int smoe_peaks_open(smoe_peaks *y, smoe_err *err) {
    size_t square = (size_t)SIDE * SIDE, slab = (size_t)ARRAYS * STRIDE;
    *y = (smoe_peaks){.threads = smoe_threads(),
                      .bytes = (double)((3 * square + slab) * sizeof(real))};
    /* With large pages: the peak is the best that the machine can do, not the default. */
    for (int bound = 0; bound < 2; bound++) {
        y->slab = smoe_arena_take(&y->arena, slab, sizeof(real));
        for (int i = 0; i < 3; i++) y->square[i] = smoe_arena_take(&y->arena, square, sizeof(real));
        if (!bound && smoe_arena_bind(&y->arena, err))
            return smoe_fail_prefix(err, "the buffers to measure the peak rates");
    }
    for (int i = 0; i < 3; i++)
        for (size_t j = 0; j < square; j++) y->square[i][j] = (real)(j % 7);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < slab; i++) y->slab[i] = 1;
    y->read = (const char *)y->slab;
    y->read_bytes = slab * sizeof(real);
    return 0;
}

void smoe_peaks_free(smoe_peaks *y) {
    smoe_arena_free(&y->arena);
}

static double product_gflops(smoe_peaks *y) {
    double start = smoe_now();
    smoe_blas_product(y->square[0], y->square[1], y->square[2], SIDE, y->threads);
    return 2e-9 * SIDE * SIDE * SIDE / smoe_since(start);
}

/* Of multiply-adds on registers, or of the matrix unit. */
static double unit_gflops(double (*peak)(size_t rounds), size_t rounds) {
    double flops = 0, start = smoe_now();
#pragma omp parallel reduction(+ : flops)
    flops += peak(rounds);
    return 1e-9 * flops / smoe_since(start);
}

static double memory_bandwidth(smoe_peaks *y) {
    double start = smoe_now();
#pragma omp parallel for schedule(static)
    for (size_t at = 0; at < LENGTH; at += CHUNK) {
        real *a = y->slab + at, *b = a + STRIDE, *c = b + STRIDE, *d = c + STRIDE;
        for (size_t i = 0; i < CHUNK; i++) {
            a[i] += 1;
            b[i] += 1;
            c[i] += 1;
            d[i] += 1;
        }
    }
    return 2.0 * ARRAYS * LENGTH * sizeof(real) / smoe_since(start);
}

/* Reads a window; in a file another one each time, so that no cache holds it already. */
static double read_bandwidth(smoe_peaks *y) {
    size_t count = y->read_bytes < WINDOW ? y->read_bytes : WINDOW;
    size_t pieces = count / SMOE_STREAMS / PIECE, stride = pieces * PIECE;
    if (y->window + count > y->read_bytes) y->window = 0;
    const char *from = y->read + y->window;
    uint32_t all = 0;
    double start = smoe_now();
#pragma omp parallel for schedule(static) reduction(^ : all)
    for (size_t i = 0; i < pieces; i++)
        all ^= smoe_kernels_get()->gemm->read_streams(from + i * PIECE, stride, PIECE);
    double seconds = smoe_since(start);
    y->window += count;
    y->bits ^= all;
    return (double)(SMOE_STREAMS * stride) / seconds;
}

smoe_machine smoe_peaks_measure(smoe_peaks *y) {
    const smoe_kernels *kern = smoe_kernels_get();
    return (smoe_machine){.gemm_gflops = product_gflops(y),
                          .fma_gflops = unit_gflops(kern->gemm->peak, FMA_ROUNDS),
                          .matrix_gflops = unit_gflops(kern->matrix->peak, MATRIX_ROUNDS),
                          .memory_bandwidth = memory_bandwidth(y),
                          .read_bandwidth = read_bandwidth(y)};
}

/* ---- times of a spec ------------------------------------------------------------------------- */

/* The times of a pass: its parts, the work of the threads, then these. */
enum { WORK = SMOE_PART_COUNT, WHOLE = WORK + SMOE_WORK_COUNT, LAYERS, PROCESSOR, SERIES };

typedef struct bencher {
    smoe_alloc_pool memory;
    const smoe_spec *spec;
    smoe_model *model;
    smoe_params *params;
    size_t B, N, done;
    real *pixels, *target; /* one batch */
    uint32_t *tokens;      /* of captions, where the task has them */
    size_t *lengths;
    smoe_step step;
    smoe_peaks peaks;
    size_t rounds;
    double *seconds;       /* [SERIES, rounds] of one kind of pass */
    smoe_machine *machine; /* [2*rounds], before every pass of both kinds */
    size_t measured;
    const smoe_bench_options *options;
    smoe_bench *out;
} bencher;

/* Random texts of the greatest length. */
static int allocate_texts(bencher *x, smoe_err *err) {
    size_t T = x->spec->text.context, vocabulary;
    if (!smoe_model_pairs(x->model)) return 0;
    if (smoe_tokenizer_vocabulary(&vocabulary, x->spec, err)) return -1;
    x->tokens = smoe_alloc_in(&x->memory, x->B * T, sizeof *x->tokens);
    x->lengths = smoe_alloc_in(&x->memory, x->B, sizeof *x->lengths);
    smoe_rng rng = smoe_rng_at(x->spec->seed, SMOE_RNG_TEST, 1, 0, 0);
    for (size_t i = 0; i < x->B * T; i++) x->tokens[i] = (uint32_t)smoe_rng_below(&rng, vocabulary);
    for (size_t b = 0; b < x->B; b++) x->lengths[b] = T;
    return 0;
}

static int allocate(bencher *x, smoe_err *err) {
    if (allocate_texts(x, err)) return -1;
    size_t image = x->spec->data.channels * x->spec->data.image_size * x->spec->data.image_size;
    x->pixels = malloc(x->B * image * sizeof(real));
    x->target = smoe_alloc_in(&x->memory, x->B * x->N, sizeof(real));
    x->seconds = smoe_alloc_in(&x->memory, SERIES * x->rounds, sizeof(double));
    x->machine = smoe_alloc_in(&x->memory, 2 * x->rounds, sizeof *x->machine);
    if (!x->pixels)
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for a batch of %zu images", x->B);
    smoe_rng rng = smoe_rng_at(x->spec->seed, SMOE_RNG_TEST, 0, 0, 0);
    for (size_t i = 0; i < x->B * image; i++) x->pixels[i] = (real)(2 * smoe_rng_uniform(&rng) - 1);
    for (size_t b = 0; b < x->B; b++) x->target[b * x->N + smoe_rng_below(&rng, x->N)] = 1;
    return smoe_peaks_open(&x->peaks, err);
}

static int infer(bencher *x, smoe_clock *clock, smoe_err *err) {
    (void)err;
    smoe_pass pass = {.images = x->B, .clock = clock};
    const smoe_inputs in = {x->pixels, x->tokens, x->lengths};
    if (smoe_model_pairs(x->model))
        smoe_model_forward_pairs(x->model, &in, &pass);
    else
        smoe_model_forward(x->model, x->pixels, &pass);
    return 0;
}

static int bench_train(bencher *x, smoe_clock *clock, smoe_err *err) {
    smoe_batch batch = {.images = x->B,
                        .pixels = x->pixels,
                        .target = x->target,
                        .tokens = x->tokens,
                        .lengths = x->lengths};
    size_t done = x->done++;
    return smoe_step_run(&x->step, &batch, done, done, clock, err);
}

static smoe_bench_time bench_time_of(double *seconds, size_t rounds) {
    double median = smoe_stats_median(seconds, rounds);
    return (smoe_bench_time){seconds[0], median};
}

static double processor_time(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

static bool asked_to_stop(const bencher *x) {
    return x->options->stop && *x->options->stop;
}

static int time_rounds(bencher *x, int (*pass)(bencher *, smoe_clock *, smoe_err *),
                       smoe_bench_pass *out, smoe_err *err) {
    double *series[SERIES];
    size_t i = 0;
    for (size_t r = 0; r < SERIES; r++) series[r] = x->seconds + r * x->rounds;
    for (; i < x->rounds && !asked_to_stop(x); i++) {
        smoe_clock parts = {0};
        smoe_worked worked;
        x->machine[x->measured++] = smoe_peaks_measure(&x->peaks); /* which empties the caches */
        if (pass(x, NULL, err)) return -1;
        double start = smoe_now(), spent = processor_time();
        smoe_team_watch(&worked);
        int status = pass(x, &parts, err);
        smoe_team_watched();
        if (status) return -1;
        series[PROCESSOR][i] = processor_time() - spent;
        series[WHOLE][i] = smoe_since(start);
        series[LAYERS][i] = fmax(series[WHOLE][i] - parts.seconds[SMOE_PART_optimizer], 1e-9);
        for (size_t p = 0; p < SMOE_PART_COUNT; p++) series[p][i] = parts.seconds[p];
        for (size_t k = 0; k < SMOE_WORK_COUNT; k++) series[WORK + k][i] = worked.seconds[k];
        x->out->timed++;
        if (x->options->progress)
            x->options->progress(x->options->user, x->out->timed, x->out->rounds);
    }
    if (!i) return 0;
    for (size_t p = 0; p < SMOE_PART_COUNT; p++) out->part[p] = bench_time_of(series[p], i);
    for (size_t k = 0; k < SMOE_WORK_COUNT; k++) out->work[k] = bench_time_of(series[WORK + k], i);
    out->whole = bench_time_of(series[WHOLE], i);
    out->layers = bench_time_of(series[LAYERS], i);
    out->processor = bench_time_of(series[PROCESSOR], i);
    return 0;
}

/* Products of routers' logits, of the head and of the optimiser have operands in F32 always. */
static bool by_matrix_unit(const smoe_bench_pass *pass, smoe_part part) {
    return pass->precision != SMOE_PRECISION_F32 && part != SMOE_PART_router &&
           part != SMOE_PART_head && part != SMOE_PART_optimizer;
}

const char *smoe_bench_unit(const smoe_bench_pass *pass, smoe_part part) {
    return by_matrix_unit(pass, part) ? smoe_kernels_get()->matrix->unit : "multiply-adds";
}

/* The seconds that the products of a part take at least; a split operand costs three products. */
static double products_of(const smoe_bench_pass *pass, smoe_part part,
                          const smoe_machine *machine) {
    double rate = machine->fma_gflops;
    if (by_matrix_unit(pass, part))
        rate = machine->matrix_gflops / (pass->precision == SMOE_PRECISION_BF16X3 ? 3 : 1);
    return pass->part_flops[part] / rate / 1e9;
}

double smoe_bench_products(const smoe_bench_pass *pass, const smoe_machine *machine,
                           bool optimizer) {
    double seconds = 0;
    for (int p = 0; p < SMOE_PART_COUNT; p++)
        if (optimizer || p != SMOE_PART_optimizer)
            seconds += products_of(pass, (smoe_part)p, machine);
    return seconds;
}

double smoe_bench_limit(const smoe_bench_pass *pass, smoe_part part, const smoe_machine *machine,
                        bool *memory) {
    double compute = products_of(pass, part, machine);
    double moving = pass->part_read[part] / machine->read_bandwidth +
                    pass->part_bytes[part] / machine->memory_bandwidth;
    *memory = moving > compute;
    return *memory ? moving : compute;
}

/* The products of a pass, without those of places that no token can take, and the least data that
 * it must move. Weights are read once forward and once for the gradient of the input. If they are
 * trained, their gradient is written, unless it is factored, and also read first unless it belongs
 * to an expert. The optimiser reads the written gradients twice, once for their norm, sets those
 * outside experts to zero, and reads and writes trained weights and moments. */
static void count_work(smoe_bench *b, const smoe_cost *cost) {
    smoe_bench_pass *train = &b->train, *infer = &b->infer;
    double B = (double)b->batch;
    double stored = b->weight_bytes > 0 ? b->weight_bytes / cost->params : sizeof(real);
    double product = 0; /* of a step, for the gradients of the experts' weights */
    infer->flops = B * cost->products_infer_computed_per_image;
    train->flops = B * cost->products_train_computed_per_image;
    for (size_t i = 0; i < cost->layers; i++) {
        const smoe_cost_layer *layer = &cost->layer[i];
        smoe_part part = layer->part;
        bool expert = part == SMOE_PART_experts;
        double trained = sizeof(real) * (layer->params - layer->frozen);
        infer->part_flops[part] += B * (layer->flops_infer - layer->idle_infer);
        train->part_flops[part] += B * (layer->flops_train - layer->idle_train);
        infer->part_read[part] += stored * layer->params;
        train->part_read[part] += (layer->forward_only ? 1 : 2) * sizeof(real) * layer->params;
        infer->part_bytes[part] += B * layer->moved_infer;
        train->part_bytes[part] += B * layer->moved_train + (expert ? 1 : 2) * trained;
        train->part_bytes[SMOE_PART_optimizer] += (expert ? 2 : 3) * trained;
        if (expert)
            product += B * (1 - layer->frozen_share) * (layer->flops_infer - layer->idle_infer);
    }
    train->part_bytes[SMOE_PART_experts] -= sizeof(real) * cost->params_outer;
    train->part_bytes[SMOE_PART_optimizer] += 2 * (cost->bytes.optimizer + cost->bytes.gradients);
    if (!(cost->params_outer > 0)) return;
    /* the optimiser does this one of the experts' three products */
    train->part_flops[SMOE_PART_experts] -= product;
    train->part_flops[SMOE_PART_optimizer] += product;
}

/* The best value and the median of the limit at `offset` bytes in a smoe_machine. */
static void conclude_limit(bencher *x, size_t offset) {
    double *sorted = x->seconds; /* of which the times have been taken */
    for (size_t i = 0; i < x->measured; i++)
        memcpy(&sorted[i], (const char *)&x->machine[i] + offset, sizeof *sorted);
    double median = smoe_stats_median(sorted, x->measured);
    memcpy((char *)&x->out->best + offset, &sorted[x->measured - 1], sizeof *sorted);
    memcpy((char *)&x->out->median + offset, &median, sizeof median);
}

/* Inference with initial weights, or with those of a file, used directly from the file. */
static int bench_inference(bencher *x, const smoe_safetensors *weights, smoe_err *err) {
    smoe_bench *b = x->out;
    if (weights ? smoe_params_map(x->params, weights, err)
                : smoe_params_allocate(x->params, 1, err))
        return -1;
    b->planned_bytes = (double)smoe_model_measure(x->model, x->B, false);
    if (smoe_model_reserve(x->model, x->B, false, err)) return -1;
    if (!weights) smoe_params_init(x->params, x->spec->seed);
    const void *first = NULL;
    for (size_t i = 0; weights && i < smoe_safetensors_count(weights); i++) {
        const smoe_tensor *t = smoe_safetensors_at(weights, i);
        b->weight_bytes += (double)(t->size * smoe_dtype_bytes(t->dtype));
        if (!i) first = t->data;
    }
    b->planned_bytes += b->weight_bytes;
    if (first && b->weight_bytes >= SMOE_STREAMS * PIECE) { /* measures reading with these bytes */
        x->peaks.read = first;
        x->peaks.read_bytes = (size_t)b->weight_bytes;
    }
    return time_rounds(x, infer, &b->infer, err);
}

static int bench_training(bencher *x, const smoe_cost *cost, smoe_err *err) {
    if (asked_to_stop(x)) return 0;
    if (smoe_step_open(&x->step, x->model, x->spec, x->N, NULL, err)) return -1;
    x->step.unchecked = true;
    if (time_rounds(x, bench_train, &x->out->train, err)) return -1;
    x->out->planned_bytes = smoe_cost_bytes_sum(&cost->bytes);
    return 0;
}

double smoe_bench_data(const smoe_spec *spec, smoe_scan *scan) {
    enum { FIRST = 4, MOST = 1000 }; /* batches: what is prepared ahead; enough */
    const double enough = 0.3;
    SMOE_FREED_BY(smoe_dataset_freed) smoe_dataset *set = NULL;
    SMOE_FREED_BY(smoe_loader_freed) smoe_loader *loader = NULL;
    smoe_batch batch;
    smoe_err ignored = {0};
    smoe_loader_options options = {
        .batch_size = spec->train.batch_size, .train = true, .seed = spec->seed};
    size_t made = 0;
    double start = 0, spent = 0;
    if (smoe_dataset_open(&set, spec, "train", scan, &ignored) ||
        smoe_loader_open(&loader, set, spec, &options, &ignored))
        return 0;
    for (; made < MOST && spent < enough; made++) {
        if (smoe_loader_next(loader, &batch, &ignored) != 1) return 0;
        if (made == FIRST) start = processor_time();
        if (made > FIRST) spent = processor_time() - start;
    }
    return spent / (double)(made - 1 - FIRST);
}

static void bencher_free(bencher *x) {
    smoe_model_free(x->model);
    smoe_peaks_free(&x->peaks);
    free(x->pixels);
    smoe_step_free(&x->step);
    smoe_alloc_pool_free(&x->memory);
}

int smoe_bench_run(smoe_bench *bench, const smoe_spec *spec, size_t classes,
                   const smoe_bench_options *options, smoe_err *err) {
    const smoe_safetensors *weights = options->weights;
    SMOE_FREED_BY(bencher_free)
    bencher x = {.spec = spec,
                 .B = spec->train.batch_size,
                 .N = classes,
                 .rounds = options->rounds,
                 .options = options,
                 .out = bench};
    SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
    *bench = (smoe_bench){.batch = x.B,
                          .rounds = weights ? options->rounds : 2 * options->rounds,
                          .threads = smoe_threads()};
    bench->train.precision = smoe_spec_precision(spec, true);
    bench->infer.precision = smoe_spec_precision(spec, false);
    if (smoe_cost_estimate(&cost, spec, classes, err) ||
        smoe_model_create(&x.model, spec, classes, err))
        return -1;
    x.params = smoe_model_params(x.model);
    if (allocate(&x, err) || bench_inference(&x, weights, err) ||
        (!weights && bench_training(&x, &cost, err)))
        return -1;
    /* Peak memory of the process so far, without the buffers for measuring the machine's peaks;
     * read before any data is opened. */
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    bench->peak_bytes = 1024.0 * (double)usage.ru_maxrss - x.peaks.bytes;
    if (!bench->timed)
        return smoe_fail(err, SMOE_STOPPED, "stopped on request before a pass was timed");
    for (size_t at = 0; at < sizeof(smoe_machine); at += sizeof(double)) conclude_limit(&x, at);
    bench->params = cost.params;
    count_work(bench, &cost);
    return 0;
}

/* ---- estimates ------------------------------------------------------------------------------- */

/* A spec is measured if a step has at most this many FLOPs and this much memory, and if all
 * measurements so far have taken at most this time. So a dry run takes only a few seconds, even on
 * slow machines. */
static const double most_flops = 1e11, most_bytes = 1e9, most_seconds = 5;

double smoe_estimate_memory(void) {
    static const char *const limits[] = {"/sys/fs/cgroup/memory.max",
                                         "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE), limit;
    char text[64];
    for (size_t i = 0; i < SMOE_COUNT(limits); i++)
        if (sscanf(smoe_process_read(limits[i], text, sizeof text), "%lf", &limit) == 1)
            memory = fmin(memory, limit);
    return memory;
}

static int estimate_measure(double *rate, smoe_estimator *by, const smoe_spec *spec, size_t classes,
                            smoe_bench *bench, smoe_err *err) {
    double start = smoe_now();
    if (smoe_bench_run(bench, spec, classes, &(smoe_bench_options){.rounds = 1}, err)) return -1;
    by->spent += smoe_since(start);
    *rate = bench->train.flops / bench->train.whole.min;
    return 0;
}

/* The reference for specs that are too large to be measured: training of one wide block. */
static int measure_reference(smoe_estimator *by, smoe_err *err) {
    static const char text[] =
        "data: {image_size: 64, classes: 10}\n"
        "model: {width: 768, depth: 1, mlp: 3072, heads: 12, moe: {layers: none}}\n"
        "train: {batch_size: 4}\n";
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    smoe_bench bench;
    if (smoe_spec_parse(
            &spec, &(smoe_spec_text){.text = text, .length = sizeof text - 1, .label = "reference"},
            NULL, 0, err))
        return -1;
    return estimate_measure(&by->reference, by, &spec, 10, &bench, err);
}

int smoe_estimate_make(smoe_estimate *e, smoe_estimator *by, const smoe_spec *spec, size_t classes,
                       const smoe_cost *cost, smoe_err *err) {
    double images = (double)spec->train.batch_size, steps = (double)spec->train.steps;
    double step = cost->flops_train_per_image * images;
    if (!by->memory) by->memory = smoe_estimate_memory();
    *e = (smoe_estimate){.params = cost->params,
                         .flops = step * steps,
                         .bytes = smoe_cost_bytes_sum(&cost->bytes),
                         .seconds = NAN};
    for (size_t i = 0; i < spec->model.depth; i++)
        if (spec->model.moe.is_moe[i])
            e->slots = (double)smoe_moe_shape_of(&spec->model.moe, i, smoe_spec_tokens(spec)).S;
    e->fits = e->bytes <= by->memory;
    if (!e->fits) return 0;
    bool small = step <= most_flops && e->bytes <= most_bytes && e->bytes <= by->memory / 2;
    if (small && by->spent < most_seconds) {
        smoe_bench bench;
        if (estimate_measure(&by->last, by, spec, classes, &bench, err)) return -1;
        e->measured = true;
        e->seconds = bench.train.whole.min * steps;
        return 0;
    }
    if (!small && !by->reference && measure_reference(by, err)) return -1;
    e->seconds = cost->products_train_computed_per_image * images * steps /
                 (small ? by->last : by->reference);
    return 0;
}
