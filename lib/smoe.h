/*
 * libsmoe: everything a program of its own needs. From a spec to a trained model in four calls:
 *
 *     smoe_spec spec = {0};
 *     smoe_err err = {0};
 *     if (smoe_spec_read(&spec, "spec.yaml", NULL, 0, &err)) ...       err.text says what is wrong
 *     smoe_train_options how = {.dir = "run", .mode = SMOE_RUN_NEW};
 *     smoe_train_result result;
 *     if (smoe_train(&spec, &how, &result, &err)) ...
 *     smoe_spec_free(&spec);
 *
 * Build with `cc prog.c $(pkg-config --cflags --libs smoe)`. The headers name their own rules;
 * base/base.h has the letters and the status rule that all of them follow.
 *
 * What the program `smoe` sees to, and a program of yours has to: every thread needs 2 MB of stack
 * for the packed sides of products (the default of 8 MB will do; OMP_STACKSIZE and ulimit -s may
 * have made it less); smoe_threads_set, where OpenMP's own choice is not right; smoe_blas_start
 * (math/blas.h) before few-shot evaluation; SIGCHLD not ignored where figures are drawn.
 */
#ifndef SMOE_H
#define SMOE_H

#ifdef __cplusplus
extern "C" {
#endif

#include "base/base.h"
#include "base/param.h"
#include "base/threads.h"
#include "spec/spec.h"
#include "spec/routers.h"
#include "spec/sources.h"
#include "data/data.h"
#include "route/plan.h"
#include "route/router.h"
#include "vit/model.h"
#include "store/run.h"
#include "store/model_file.h"
#include "store/safetensors.h"
#include "store/npy.h"
#include "train/trainer.h"
#include "bench/cost.h"
#include "bench/estimate.h"
#include "inspect/inspect.h"

#ifdef __cplusplus
}
#endif

#endif
