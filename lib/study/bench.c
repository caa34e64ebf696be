/* Benchmarks of a spec against the machine's limits; see bench.h. */
#include "study/bench.h"
#include "base/rng.h"
#include "base/threads.h"
#include "data/data.h"
#include "study/cost.h"
#include "study/yardstick.h"
#include "train/loss.h"
#include "train/optim.h"
#include "vit/model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct bencher {
    const smoe_spec *spec;
    smoe_model *model;
    smoe_params *params;
    size_t B, N, step;
    real *pixels, *target, *dlogits; /* one batch */
    double *rows;
    double *seconds; /* [rounds] */
    smoe_yardstick machine;
    smoe_bench *out;
} bencher;

static int allocate(bencher *x, size_t rounds, smoe_err *err) {
    size_t image = x->spec->data.channels * x->spec->data.image_size * x->spec->data.image_size;
    x->pixels = malloc(x->B * image * sizeof(real));
    x->target = calloc(x->B * x->N, sizeof(real));
    x->dlogits = malloc(x->B * x->N * sizeof(real));
    x->rows = malloc(x->B * sizeof(double));
    x->seconds = malloc(rounds * sizeof(double));
    if (!x->pixels || !x->target || !x->dlogits || !x->rows || !x->seconds)
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for a batch of %zu images", x->B);
    smoe_rng rng = smoe_rng_at(x->spec->seed, SMOE_RNG_TEST, 0, 0, 0);
    for (size_t i = 0; i < x->B * image; i++) x->pixels[i] = (real)(2 * smoe_rng_uniform(&rng) - 1);
    for (size_t b = 0; b < x->B; b++) x->target[b * x->N + smoe_rng_below(&rng, x->N)] = 1;
    return smoe_yardstick_open(&x->machine, err);
}

static double infer(bencher *x, smoe_clock *clock) {
    smoe_pass pass = {.images = x->B, .clock = clock};
    double start = smoe_now();
    smoe_model_forward(x->model, x->pixels, &pass);
    return smoe_now() - start;
}

static double train(bencher *x, smoe_clock *clock) {
    smoe_pass pass = {
        .train = true, .seed = x->spec->seed, .step = x->step, .images = x->B, .clock = clock};
    smoe_loss_sums sums = {0};
    double start = smoe_now();
    smoe_model_forward(x->model, x->pixels, &pass);
    smoe_loss_batch(&sums, x->dlogits, x->rows, smoe_model_logits(x->model), x->target, x->B, x->N,
                    x->spec->train.loss);
    smoe_clock_lap(clock, SMOE_PART_loss);
    smoe_model_backward(x->model, x->dlogits, &pass);
    smoe_optim_step(x->params, &x->spec->train, x->step++, smoe_optim_norm(x->params));
    smoe_clock_lap(clock, SMOE_PART_optimizer);
    return smoe_now() - start;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct watcher {
    void (*progress)(void *user, size_t done, size_t of);
    void *user;
    size_t done, of;
} watcher;

static void time_rounds(bencher *x, double (*pass)(bencher *, smoe_clock *), size_t rounds,
                        smoe_bench_time *time, smoe_clock *parts, watcher *w) {
    pass(x, NULL);
    for (size_t i = 0; i < rounds; i++) {
        smoe_yardstick_measure(&x->machine);
        x->seconds[i] = pass(x, parts);
        if (w->progress) w->progress(w->user, ++w->done, w->of);
    }
    for (size_t p = 0; p < SMOE_PART_COUNT; p++) parts->seconds[p] /= (double)rounds;
    qsort(x->seconds, rounds, sizeof *x->seconds, ascending);
    *time = (smoe_bench_time){x->seconds[0], x->seconds[rounds / 2]};
}

static const smoe_part part_of[SMOE_COST_KINDS] = {
    [SMOE_COST_EMBEDDING] = SMOE_PART_embed,     [SMOE_COST_NORM] = SMOE_PART_norm,
    [SMOE_COST_ATTENTION] = SMOE_PART_attention, [SMOE_COST_MLP] = SMOE_PART_mlp,
    [SMOE_COST_ROUTER] = SMOE_PART_router,       [SMOE_COST_DISPATCH] = SMOE_PART_dispatch,
    [SMOE_COST_EXPERTS] = SMOE_PART_experts,     [SMOE_COST_COMBINE] = SMOE_PART_combine,
    [SMOE_COST_HEAD] = SMOE_PART_head,
};

/* What a part cannot be faster than: its products at the speed of multiply-adds, or what has to pass through memory. */
static smoe_bench_limit limit_of(const smoe_bench *b, double flops, double bytes) {
    double compute = flops / b->fma_gflops / 1e9, memory = bytes / b->memory_bandwidth;
    return (smoe_bench_limit){compute > memory ? compute : memory, memory > compute};
}

/* Bytes a pass moves at least. Weights are read once forward and once for the gradient of the input; their gradient
 * is written, and read before where it is not an expert's; a norm reads and writes its rows, and its backward pass reads
 * two arrays and adds to a third; the optimiser reads the gradients twice, once for their norm, writes zeros where they are
 * not experts', and reads and writes weights and moments. */
static void count_bytes(double train[SMOE_PART_COUNT], double infer[SMOE_PART_COUNT],
                        const smoe_bench *b, const smoe_spec *spec, const smoe_cost *cost) {
    double stored = b->weight_bytes > 0 ? b->weight_bytes / cost->params : sizeof(real);
    double side = (double)(spec->data.image_size / spec->model.patch_size);
    double rows =
        (double)spec->train.batch_size * (side * side + (spec->model.head == SMOE_HEAD_TOKEN));
    double norms =
        2.0 * (double)spec->model.depth * rows * (double)spec->model.width * sizeof(real);
    for (size_t i = 0; i < cost->layers; i++) {
        smoe_part part = part_of[cost->layer[i].kind];
        double weights = sizeof(real) * cost->layer[i].params;
        train[part] += (part == SMOE_PART_experts ? 3 : 4) * weights;
        infer[part_of[cost->layer[i].kind]] += stored * cost->layer[i].params;
    }
    infer[SMOE_PART_norm] += 2 * norms;
    train[SMOE_PART_norm] += 6 * norms;
    train[SMOE_PART_optimizer] = 2 * (cost->bytes.weights + cost->bytes.optimizer) +
                                 2 * cost->bytes.gradients +
                                 sizeof(real) * (cost->params - cost->params_expert);
}

static void set_limits(smoe_bench *b, const smoe_spec *spec, const smoe_cost *cost) {
    double train_flops[SMOE_PART_COUNT] = {0}, infer_flops[SMOE_PART_COUNT] = {0};
    double train_bytes[SMOE_PART_COUNT] = {0}, infer_bytes[SMOE_PART_COUNT] = {0};
    count_bytes(train_bytes, infer_bytes, b, spec, cost);
    for (size_t i = 0; i < cost->layers; i++) {
        smoe_part part = part_of[cost->layer[i].kind];
        train_flops[part] += (double)b->batch * cost->layer[i].flops_train;
        infer_flops[part] += (double)b->batch * cost->layer[i].flops_infer;
    }
    for (size_t p = 0; p < SMOE_PART_COUNT; p++) {
        b->train_limit[p] = limit_of(b, train_flops[p], train_bytes[p]);
        b->infer_limit[p] = limit_of(b, infer_flops[p], infer_bytes[p]);
    }
    if (b->train.min > 0)
        b->optimizer_bandwidth =
            train_bytes[SMOE_PART_optimizer] / b->train_parts.seconds[SMOE_PART_optimizer];
}

static void conclude_training(smoe_bench *b, const smoe_cost *cost) {
    double layers = b->train.min - b->train_parts.seconds[SMOE_PART_optimizer];
    b->flops_train = (double)b->batch * cost->products_train_per_image;
    b->planned_bytes = cost->bytes.weights + cost->bytes.gradients + cost->bytes.optimizer +
                       cost->bytes.activations;
    b->mfu_gemm_train = b->flops_train / b->train.min / 1e9 / b->gemm_gflops;
    b->mfu_fma_train = b->flops_train / b->train.min / 1e9 / b->fma_gflops;
    b->mfu_fma_layers = b->flops_train / layers / 1e9 / b->fma_gflops;
}

static void conclude(smoe_bench *b, const smoe_yardstick *machine, const smoe_cost *cost) {
    b->gemm_gflops = machine->gemm_gflops;
    b->fma_gflops = machine->fma_gflops;
    b->memory_bandwidth = machine->memory_bandwidth;
    b->read_bandwidth = machine->read_bandwidth;
    b->params = cost->params;
    b->flops_infer = (double)b->batch * cost->products_infer_per_image;
    b->mfu_gemm_infer = b->flops_infer / b->infer.min / 1e9 / b->gemm_gflops;
    b->mfu_fma_infer = b->flops_infer / b->infer.min / 1e9 / b->fma_gflops;
}

/* Inference with initial weights, or with those of a file, which stay in it. */
static int bench_inference(bencher *x, const smoe_safetensors *weights, size_t rounds, watcher *w,
                           smoe_err *err) {
    smoe_bench *b = x->out;
    if (weights ? smoe_params_map(x->params, weights, err)
                : smoe_params_allocate(x->params, 1, err))
        return -1;
    b->planned_bytes = (double)smoe_model_measure(x->model, x->B, false);
    if (smoe_model_reserve(x->model, x->B, false, err)) return -1;
    if (!weights) smoe_params_init(x->params, x->spec->seed);
    for (size_t i = 0; weights && i < smoe_safetensors_count(weights); i++) {
        const smoe_tensor *t = smoe_safetensors_at(weights, i);
        b->weight_bytes += (double)(t->size * smoe_dtype_bytes(t->dtype));
        if (!i) x->machine.file = t->data;
    }
    b->planned_bytes += b->weight_bytes;
    x->machine.file_bytes = (size_t)b->weight_bytes;
    time_rounds(x, infer, rounds, &b->infer, &b->infer_parts, w);
    return 0;
}

static int bench_training(bencher *x, size_t rounds, watcher *w, smoe_err *err) {
    if (smoe_optim_allocate(x->params, &x->spec->train, err) ||
        smoe_model_reserve(x->model, x->B, true, err))
        return -1;
    time_rounds(x, train, rounds, &x->out->train, &x->out->train_parts, w);
    return 0;
}

static double processor_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The peak of the process so far, without the yardsticks: before any data are opened. */
static void note_peak(smoe_bench *b, const smoe_yardstick *machine) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    b->peak_rss_bytes = 1024.0 * (double)usage.ru_maxrss - machine->bytes;
}

/* Batches of the spec's data, augmented, until enough time went by to be measured. */
static void time_data(bencher *x) {
    enum { FIRST = 4, MOST = 1000 }; /* batches: what is prepared ahead; enough */
    const double enough = 0.3;
    smoe_dataset *set = NULL;
    smoe_loader *loader = NULL;
    smoe_batch batch;
    smoe_err ignored = {0};
    smoe_loader_options options = {.batch_size = x->B, .train = true, .seed = x->spec->seed};
    size_t made = 0;
    double start = 0, spent = 0;
    if (smoe_dataset_open(&set, x->spec, "train", &ignored) ||
        smoe_loader_open(&loader, set, x->spec, &options, &ignored))
        goto out;
    for (; made < MOST && spent < enough; made++) {
        if (smoe_loader_next(loader, &batch, &ignored) != 1) goto out;
        if (made == FIRST) start = processor_time();
        if (made > FIRST) spent = processor_time() - start;
    }
    x->out->data_s = spent / (double)(made - 1 - FIRST);
out:
    smoe_loader_free(loader);
    smoe_dataset_free(set);
}

int smoe_bench_run(smoe_bench *bench, const smoe_spec *spec, size_t classes,
                   const smoe_safetensors *weights, size_t rounds,
                   void (*progress)(void *, size_t, size_t), void *user, smoe_err *err) {
    bencher x = {.spec = spec, .B = spec->train.batch_size, .N = classes, .out = bench};
    watcher w = {progress, user, 0, weights ? rounds : 2 * rounds};
    smoe_cost cost = {0};
    int status = -1;
    *bench = (smoe_bench){.batch = x.B, .threads = smoe_threads()};
    if (smoe_cost_estimate(&cost, spec, classes, NULL, err)) goto out;
    if (smoe_model_create(&x.model, spec, classes, err)) goto out;
    x.params = smoe_model_params(x.model);
    if (allocate(&x, rounds, err)) goto out;
    if (bench_inference(&x, weights, rounds, &w, err)) goto out;
    if (!weights && bench_training(&x, rounds, &w, err)) goto out;
    note_peak(bench, &x.machine);
    if (!weights) time_data(&x);
    conclude(bench, &x.machine, &cost);
    if (!weights) conclude_training(bench, &cost);
    set_limits(bench, spec, &cost);
    status = 0;
out:
    smoe_cost_free(&cost);
    smoe_model_free(x.model);
    smoe_yardstick_free(&x.machine);
    free(x.pixels);
    free(x.target);
    free(x.dlogits);
    free(x.rows);
    free(x.seconds);
    return status;
}
