/* Benchmarks of a spec against the machine's limits; see bench.h. */
#include "study/bench.h"
#include "base/rng.h"
#include "base/threads.h"
#include "math/blas.h"
#include "math/kernels.h"
#include "study/cost.h"
#include "train/loss.h"
#include "train/optim.h"
#include "vit/model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum {
    SIDE = 1024, /* of the yardstick's square matrices */
    FMA_ROUNDS = 2000000,
    WINDOW = 256 << 20 /* bytes of weights that one measurement reads */
};

typedef struct bencher {
    const smoe_spec *spec;
    smoe_model *model;
    smoe_params *params;
    size_t B, N, step;
    real *pixels, *target, *dlogits; /* one batch */
    double *rows;
    real *square[3];     /* of the yardstick product */
    const char *weights; /* the first byte of those in a file; NULL: in memory */
    size_t window;       /* where in them the next measurement reads */
    uint64_t sum;        /* of what it read, so that the compiler keeps the loop */
    double *seconds;     /* [rounds] */
    smoe_bench *out;
} bencher;

static int allocate(bencher *x, size_t rounds, smoe_err *err) {
    size_t image = x->spec->data.channels * x->spec->data.image_size * x->spec->data.image_size;
    x->pixels = malloc(x->B * image * sizeof(real));
    x->target = calloc(x->B * x->N, sizeof(real));
    x->dlogits = malloc(x->B * x->N * sizeof(real));
    x->rows = malloc(x->B * sizeof(double));
    x->seconds = malloc(rounds * sizeof(double));
    for (int i = 0; i < 3; i++) x->square[i] = calloc((size_t)SIDE * SIDE, sizeof(real));
    if (!x->pixels || !x->target || !x->dlogits || !x->rows || !x->seconds || !x->square[0] ||
        !x->square[1] || !x->square[2])
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for a batch of %zu images", x->B);
    smoe_rng rng = smoe_rng_at(x->spec->seed, SMOE_RNG_TEST, 0, 0, 0);
    for (size_t i = 0; i < x->B * image; i++) x->pixels[i] = (real)(2 * smoe_rng_uniform(&rng) - 1);
    for (size_t b = 0; b < x->B; b++) x->target[b * x->N + smoe_rng_below(&rng, x->N)] = 1;
    for (size_t i = 0; i < (size_t)SIDE * SIDE; i++)
        x->square[1][i] = x->square[2][i] = (real)smoe_rng_uniform(&rng);
    return 0;
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

/* Reads a window of the weights, another one each time, so that no cache serves it twice. */
static void measure_reading(bencher *x) {
    enum { STEP = 4 * sizeof(uint64_t) };
    size_t size = (size_t)x->out->weight_bytes, count = size < WINDOW ? size : WINDOW;
    if (x->window + count > size) x->window = 0;
    const char *from = x->weights + x->window;
    uint64_t sum = 0;
    double start = smoe_now();
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (size_t i = 0; i < count / STEP; i++) {
        uint64_t word[4];
        memcpy(word, from + i * STEP, sizeof word);
        sum += word[0] + word[1] + word[2] + word[3];
    }
    double rate = (double)count / (smoe_now() - start);
    x->window += count;
    x->sum += sum;
    if (rate > x->out->read_bandwidth) x->out->read_bandwidth = rate;
}

/* The limits, measured once between two timed passes; the best so far stays. */
static void measure_limits(bencher *x) {
    double start = smoe_now();
    smoe_blas_product(x->square[0], x->square[1], x->square[2], SIDE, SIDE, SIDE, x->out->threads);
    double rate = 2e-9 * SIDE * SIDE * SIDE / (smoe_now() - start);
    if (rate > x->out->gemm_gflops) x->out->gemm_gflops = rate;

    double flops = 0;
    start = smoe_now();
#pragma omp parallel reduction(+ : flops)
    flops += smoe_kernels_get()->gemm->peak(FMA_ROUNDS);
    rate = 1e-9 * flops / (smoe_now() - start);
    if (rate > x->out->fma_gflops) x->out->fma_gflops = rate;
    if (x->weights) measure_reading(x);
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
        measure_limits(x);
        x->seconds[i] = pass(x, parts);
        if (w->progress) w->progress(w->user, ++w->done, w->of);
    }
    for (size_t p = 0; p < SMOE_PART_COUNT; p++) parts->seconds[p] /= (double)rounds;
    qsort(x->seconds, rounds, sizeof *x->seconds, ascending);
    *time = (smoe_bench_time){x->seconds[0], x->seconds[rounds / 2]};
}

static void conclude_training(smoe_bench *b, const smoe_cost *cost) {
    b->flops_train = (double)b->batch * cost->products_train_per_image;
    b->planned_bytes = cost->bytes.weights + cost->bytes.gradients + cost->bytes.optimizer +
                       cost->bytes.activations;
    b->mfu_gemm_train = b->flops_train / b->train.min / 1e9 / b->gemm_gflops;
    b->mfu_fma_train = b->flops_train / b->train.min / 1e9 / b->fma_gflops;
    /* The norm reads the gradients; Adam reads and writes weights, gradients and two moments. */
    b->optimizer_bandwidth =
        9 * sizeof(real) * cost->params / b->train_parts.seconds[SMOE_PART_optimizer];
}

static void conclude(smoe_bench *b, const smoe_cost *cost) {
    b->params = cost->params;
    b->flops_infer = (double)b->batch * cost->products_infer_per_image;
    b->mfu_gemm_infer = b->flops_infer / b->infer.min / 1e9 / b->gemm_gflops;
    b->mfu_fma_infer = b->flops_infer / b->infer.min / 1e9 / b->fma_gflops;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    b->peak_rss_bytes = 1024.0 * (double)usage.ru_maxrss;
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
        if (!i) x->weights = t->data;
    }
    b->planned_bytes += b->weight_bytes;
    time_rounds(x, infer, rounds, &b->infer, &b->infer_parts, w);
    return 0;
}

static int bench_training(bencher *x, size_t rounds, watcher *w, smoe_err *err) {
    if (smoe_params_allocate(x->params, smoe_optim_slabs(&x->spec->train), err) ||
        smoe_model_reserve(x->model, x->B, true, err))
        return -1;
    time_rounds(x, train, rounds, &x->out->train, &x->out->train_parts, w);
    return 0;
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
    conclude(bench, &cost);
    if (!weights) conclude_training(bench, &cost);
    status = 0;
out:
    smoe_cost_free(&cost);
    smoe_model_free(x.model);
    for (int i = 0; i < 3; i++) free(x.square[i]);
    free(x.pixels);
    free(x.target);
    free(x.dlogits);
    free(x.rows);
    free(x.seconds);
    return status;
}
