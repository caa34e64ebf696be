/* Estimates of training; see estimate.h. */
#include "bench/estimate.h"
#include "base/clock.h"
#include "bench/bench.h"
#include "spec/routers.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

/* A spec is measured if a step has at most this many FLOPs and this much memory, and if all
 * measurements so far have taken at most this time. So a dry run takes only a few seconds, even on
 * slow machines. */
static const double most_flops = 1e11, most_bytes = 1e9, most_seconds = 5;

double smoe_estimate_memory(void) {
    static const char *const limits[] = {"/sys/fs/cgroup/memory.max",
                                         "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE), limit;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        FILE *in = fopen(limits[i], "re");
        if (in && fscanf(in, "%lf", &limit) == 1 && limit < memory) memory = limit;
        if (in) fclose(in);
    }
    return memory;
}

/* FLOP/s of the products of a training step. */
static int estimate_measure(double *rate, smoe_estimator *by, const smoe_spec *spec, size_t classes,
                            smoe_bench *bench, smoe_err *err) {
    double start = smoe_now();
    if (smoe_bench_run(bench, spec, classes, NULL, 1, NULL, NULL, err)) return -1;
    by->spent += smoe_now() - start;
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
    if (smoe_spec_parse(&spec, text, sizeof text - 1, "reference", NULL, NULL, 0, err)) return -1;
    return estimate_measure(&by->reference, by, &spec, 10, &bench, err);
}

int smoe_estimate_make(smoe_estimate *e, smoe_estimator *by, const smoe_spec *spec, size_t classes,
                       const smoe_cost *cost, smoe_err *err) {
    double images = (double)spec->train.batch_size, steps = (double)spec->train.steps;
    double step = cost->flops_train_per_image * images;
    if (!by->memory) by->memory = smoe_estimate_memory();
    *e = (smoe_estimate){.params = cost->params,
                         .flops = step * steps,
                         .bytes = smoe_cost_bytes(cost),
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
    e->seconds =
        cost->products_train_per_image * images * steps / (small ? by->last : by->reference);
    return 0;
}
