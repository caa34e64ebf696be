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
#include <sys/resource.h>

enum { SIDE = 1024 /* of the yardstick's square matrices */, FMA_ROUNDS = 2000000 };

typedef struct bencher {
    const smoe_spec *spec;
    smoe_model *model;
    smoe_params *params;
    size_t B, N, step;
    real *pixels, *target, *dlogits; /* one batch */
    double *rows;
    real *square[3]; /* of the yardstick product */
    double *seconds; /* [rounds] */
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

static void conclude(smoe_bench *b, const smoe_cost *cost) {
    double B = (double)b->batch;
    b->params = cost->params;
    b->flops_train = B * cost->products_train_per_image;
    b->flops_infer = B * cost->products_infer_per_image;
    b->planned_bytes = cost->bytes.weights + cost->bytes.gradients + cost->bytes.optimizer +
                       cost->bytes.activations;
    b->mfu_gemm_train = b->flops_train / b->train.min / 1e9 / b->gemm_gflops;
    b->mfu_fma_train = b->flops_train / b->train.min / 1e9 / b->fma_gflops;
    b->mfu_gemm_infer = b->flops_infer / b->infer.min / 1e9 / b->gemm_gflops;
    b->mfu_fma_infer = b->flops_infer / b->infer.min / 1e9 / b->fma_gflops;
    /* The norm reads the gradients; Adam reads and writes weights, gradients and two moments. */
    b->optimizer_bandwidth =
        9 * sizeof(real) * cost->params / b->train_parts.seconds[SMOE_PART_optimizer];
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    b->peak_rss_bytes = 1024.0 * (double)usage.ru_maxrss;
}

int smoe_bench_run(smoe_bench *bench, const smoe_spec *spec, size_t classes, size_t rounds,
                   void (*progress)(void *, size_t, size_t), void *user, smoe_err *err) {
    bencher x = {.spec = spec, .B = spec->train.batch_size, .N = classes, .out = bench};
    watcher w = {progress, user, 0, 2 * rounds};
    smoe_cost cost = {0};
    int status = -1;
    *bench = (smoe_bench){.batch = x.B, .threads = smoe_threads()};
    if (smoe_cost_estimate(&cost, spec, classes, NULL, err)) goto out;
    if (smoe_model_create(&x.model, spec, classes, err)) goto out;
    x.params = smoe_model_params(x.model);
    if (allocate(&x, rounds, err)) goto out;
    if (smoe_params_allocate(x.params, 1, err) || smoe_model_reserve(x.model, x.B, false, err))
        goto out;
    smoe_params_init(x.params, spec->seed);
    time_rounds(&x, infer, rounds, &bench->infer, &bench->infer_parts, &w);
    if (smoe_params_allocate(x.params, smoe_optim_slabs(&spec->train), err) ||
        smoe_model_reserve(x.model, x.B, true, err))
        goto out;
    time_rounds(&x, train, rounds, &bench->train, &bench->train_parts, &w);
    conclude(bench, &cost);
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
