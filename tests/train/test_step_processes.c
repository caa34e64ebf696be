/* A step shared by processes, and the checkpoint after it, which they write together: the same bits
 * as in a single process, and as many bytes sent as predicted. Processes are forked and joined by
 * sockets. */
#include "base/threads.h"
#include "forked.h"
#include "models.h"
#include "scratch.h"
#include "store/checkpoint.h"
#include "train/step.h"
#include "data/loader.h"
#include "unit.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { IMAGES = 8, STEPS = 2 };

#define PIECES                                                                               \
    "train.shard_bytes=8000 train.pieces=8 train.batch_size=8 model.width=32 model.mlp=128 " \
    "model.dropout=0.1 "
#define FEW_ROWS "model.moe.experts=8 model.moe.slots_per_expert=1 "

typedef struct job {
    const char *keys, *dir; /* of the run */
    bool factors;           /* experts' gradients are not in memory (math/outer.h) */
    bool full;              /* every expert has as many rows as it can have */
} job;

static bool leaves_factors(const smoe_params *params) {
    size_t kernels = 0, left = 0;
    for (size_t i = 0; i < params->count; i++) {
        kernels += smoe_param_streams(&params->param[i]) && !params->param[i].frozen;
        left += params->param[i].outer != NULL;
    }
    return kernels && left == kernels;
}

/* Buffers of choice routers may not be full. Then slots and factors of gradients have fewer rows
 * than were foretold, and some messages none. */
static bool sent_as_foretold(const smoe_step *step, bool full) {
    smoe_comm *c = step->comm, counted = {.size = c->size, .rank = c->rank}, agreed = counted;
    smoe_sent *want = counted.sent;
    for (int i = 0; i < STEPS; i++) {
        smoe_step_expect(step->model, &step->spec->train, &counted);
        /* the trainer's two, not made here */
        for (int k = 0; k < 2; k++) (void)smoe_comm_agree(&agreed, 0, NULL, NULL);
    }
    want[SMOE_TRAFFIC_OTHER].bytes -= agreed.sent[SMOE_TRAFFIC_OTHER].bytes;
    want[SMOE_TRAFFIC_OTHER].messages -= agreed.sent[SMOE_TRAFFIC_OTHER].messages;
    static const int less[] = {SMOE_TRAFFIC_GRADIENTS, SMOE_TRAFFIC_SLOTS};
    for (int i = 0; !full && i < 2; i++) {
        smoe_sent *most = &want[less[i]];
        const smoe_sent *sent = &c->sent[less[i]];
        if (sent->bytes > most->bytes || sent->messages > most->messages) return false;
        *most = *sent;
    }
    return !memcmp(want, c->sent, sizeof c->sent);
}

static bool train(smoe_comm *comm, void *user) {
    const job *j = user;
    models_rig rig;
    smoe_step step;
    smoe_err err = {0};
    smoe_threads_set(1 + comm->rank % 2);
    if (!models_make(&rig, j->keys, IMAGES, true)) return false;
    /* that of the rig has its slabs already: experts can only be divided before */
    smoe_model *model;
    if (smoe_model_create(&model, &rig.spec, rig.N, &err)) return false;
    if (smoe_step_open(&step, model, &rig.spec, rig.N, comm, &err)) return false;
    smoe_params *params = smoe_model_params(model);
    smoe_params_init(params, 1);
    real *target = calloc(IMAGES * rig.N, sizeof *target);
    for (size_t b = 0; b < IMAGES; b++) target[b * rig.N + b % rig.N] = 1;
    size_t share = IMAGES / (size_t)comm->size, first = share * (size_t)comm->rank;
    smoe_batch batch = {.images = share,
                        .pixels = rig.image + first * rig.pixels,
                        .target = target + first * rig.N};
    bool good = !j->factors || leaves_factors(params);
    for (uint64_t i = 0; i < STEPS; i++)
        good = good && !smoe_step_run(&step, &batch, i, i, NULL, &err);
    good = good && sent_as_foretold(&step, j->full);
    const smoe_checkpoint_to to = {j->dir, 1, comm};
    const smoe_checkpoint at = {.step = STEPS, .best = -1};
    good = good && !smoe_checkpoint_write(&to, params, &rig.spec, &at, &err);
    smoe_step_free(&step);
    smoe_model_free(model);
    models_free(&rig);
    free(target);
    return good;
}

/* Every file of the one checkpoint is in the other one, with the same bytes, and there are
 * several. */
static void assert_same_files(const char *one, const char *other) {
    char a[2 * SCRATCH_PATH], b[2 * SCRATCH_PATH];
    enum { FEWEST = 6 };
    DIR *dir = opendir(one);
    assert_non_null(dir);
    assert_true(scratch_entries(one) >= FEWEST);
    assert_int_equal(scratch_entries(one), scratch_entries(other));
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(a, sizeof a, "%s/%s", one, entry->d_name);
        snprintf(b, sizeof b, "%s/%s", other, entry->d_name);
        scratch_assert_same(a, b);
    }
    closedir(dir);
}

static void any_number_of_processes_comes_to_the_same(void **state) {
    static const char *const keys[] = {
        PIECES "model.moe.router=soft",
        PIECES "model.moe.router=tokens-choice model.moe.capacity=0.5",
        PIECES "model.moe.router=images-choice model.moe.balance=superclass",
        PIECES "model.moe.router=tokens-choice model.moe.k=2 model.moe.aux_over=batch "
               "model.moe.aux_weight=1 model.moe.layers=all model.moe.expert_dropout=0.1",
        PIECES FEW_ROWS "model.moe.router=tokens-choice model.moe.aux_over=batch "
                        "model.moe.aux_weight=1 model.moe.layers=all train.experts_over=all",
        PIECES "model.moe.router=experts-choice train.optimizer.moments=bf16",
        PIECES "train.optimizer.name=sgd train.optimizer.clip=0.01",
        PIECES "train.optimizer.name=adafactor train.ema=0.9",
        PIECES "model.moe.router=soft train.experts_over=2 model.moe.expert_dropout=0.1",
        PIECES "model.moe.router=soft train.experts_over=all train.optimizer.clip=0.01",
        PIECES "model.moe.router=soft train.experts_over=2 train.optimizer.moments=bf16 "
               "train.ema=0.9",
        PIECES "train.optimizer.name=sgd train.experts_over=all",
        PIECES FEW_ROWS "train.optimizer.clip=0.01",
        PIECES FEW_ROWS "model.moe.layers=last-2 train.optimizer.name=sgd",
        PIECES FEW_ROWS "train.optimizer.moments=bf16 train.ema=0.9",
        PIECES FEW_ROWS "train.experts_over=2 train.optimizer.clip=0.01",
        PIECES FEW_ROWS "train.experts_over=all model.moe.expert_dropout=0.1",
        PIECES "model.moe.experts=6 model.moe.slots_per_expert=1 train.experts_over=4",
        PIECES "model.moe.experts=3 model.moe.slots_per_expert=1",
        PIECES "model.moe.router=soft train.precision=bf16 train.experts_over=all",
    };
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        char first[SCRATCH_PATH] = "";
        /* eight processes: several blocks of those that have all experts together */
        int most = strstr(keys[k], FEW_ROWS "train.experts_over=2") ? FORKED_MOST : 4;
        for (int size = 1; size <= most; size *= 2) {
            char name[64], dir[SCRATCH_PATH], made[SCRATCH_PATH];
            snprintf(name, sizeof name, "%zu-by-%d", k, size);
            job j = {keys[k], scratch_path(*state, dir, name),
                     strstr(keys[k], "slots_per_expert=1"), !strstr(keys[k], "choice")};
            assert_int_equal(mkdir(dir, 0777), 0);
            if (!forked_run(size, train, &j)) fail_msg("%d processes: %s", size, keys[k]);
            snprintf(name, sizeof name, "%zu-by-%d/ckpt/step_%08d", k, size, STEPS);
            scratch_path(*state, made, name);
            if (size == 1)
                memcpy(first, made, sizeof first);
            else
                assert_same_files(first, made);
        }
    }
}

/* All but the experts' kernels are frozen, so that process 0 has them in its range, as factors. The
 * last norm is zero, so the loss is finite; targets of 1000 times head weights of 3e38 are not. */
static bool names_the_gradient(smoe_comm *comm, void *user) {
    models_rig rig;
    smoe_step step;
    smoe_model *model;
    smoe_err err = {0};
    if (!models_make(&rig, user, IMAGES, true)) return false;
    if (smoe_model_create(&model, &rig.spec, rig.N, &err)) return false;
    smoe_params *params = smoe_model_params(model);
    for (size_t i = 0; i < params->count; i++)
        params->param[i].frozen = !smoe_param_streams(&params->param[i]);
    smoe_params_place(params);
    if (smoe_step_open(&step, model, &rig.spec, rig.N, comm, &err)) return false;
    smoe_params_init(params, 1);
    const smoe_param *norm = smoe_params_find(params, "norm.weight");
    const smoe_param *head = smoe_params_find(params, "head.weight");
    for (size_t i = 0; i < norm->size; i++) params->w[norm->offset + i] = 0;
    for (size_t i = 0; i < head->size; i++) params->w[head->offset + i] = (real)3e38;
    real *target = calloc(IMAGES * rig.N, sizeof *target);
    for (size_t b = 0; b < IMAGES; b++) target[b * rig.N] = 1000;
    smoe_batch batch = {
        .images = IMAGES / (size_t)comm->size, .pixels = rig.image, .target = target};
    bool good = leaves_factors(params);
    good = good && smoe_step_run(&step, &batch, 0, 0, NULL, &err) == -1;
    good =
        good && err.code == SMOE_NONFINITE && !isfinite(step.last.norm) && isfinite(step.last.loss);
    good = good && strstr(err.text, "gradient is not finite: parameter blocks.1.mlp.experts.fc");
    smoe_step_free(&step);
    smoe_model_free(model);
    models_free(&rig);
    free(target);
    return good;
}

static void a_gradient_in_factors_that_is_not_finite_is_named(void **state) {
    char keys[] = PIECES FEW_ROWS;
    for (int size = 1; size <= 4; size *= 2)
        assert_true(forked_run(size, names_the_gradient, keys));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        unit_test_with(any_number_of_processes_comes_to_the_same, scratch),
        cmocka_unit_test(a_gradient_in_factors_that_is_not_finite_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
