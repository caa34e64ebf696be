/* A step shared by processes: the same bits as in a single process, and as many bytes sent as
 * predicted. Processes are forked and joined by sockets. */
#include "base/threads.h"
#include "forked.h"
#include "models.h"
#include "tensors/safetensors.h"
#include "train/step.h"
#include "data/loader.h"
#include "tensors/params_io.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <cmocka.h>

enum { IMAGES = 8, STEPS = 2 };

typedef struct job {
    const char *keys;
    int fd[2]; /* where each process writes the checksum of its final state */
} job;

/* All weights and, gathered, all moments, as a checkpoint has them. */
static uint32_t sum_of(smoe_step *step, smoe_params *params) {
    const smoe_slab slab[] = {{.prefix = "", .values = params->w},
                              {.prefix = "m.", .values = params->m, .narrow = params->m_bf16},
                              {.prefix = "v.", .values = params->v, .narrow = params->v_bf16}};
    uint32_t sums[3] = {0};
    for (size_t i = 0; i < 3 && !step->comm->rank; i++) {
        smoe_tensor *tensors = NULL;
        if (!slab[i].values && !slab[i].narrow) continue;
        if (smoe_params_tensors(params, &slab[i], &tensors, NULL) ||
            smoe_tensors_crc32(tensors, params->count, &sums[i], NULL))
            return 0;
        free(tensors);
    }
    if (step->share && !step->comm->rank) smoe_divided_dismiss(&step->divided);
    if (step->share && step->comm->rank) smoe_divided_serve(&step->divided);
    smoe_comm_broadcast(step->comm, sums, sizeof sums);
    return (uint32_t)crc32_z(0, (const Bytef *)sums, sizeof sums);
}

static bool sent_as_foretold(const smoe_step *step) {
    smoe_sent want[SMOE_TRAFFICS] = {{0}}, agreed = {0};
    smoe_comm *c = step->comm;
    for (int i = 0; i < STEPS; i++) {
        if (smoe_step_expect(step->model, &step->spec->train, c, want, NULL)) return false;
        smoe_comm_expect_agree(c, &agreed); /* the trainer's two, not made here */
        smoe_comm_expect_agree(c, &agreed);
    }
    want[SMOE_TRAFFIC_OTHER].bytes -= agreed.bytes;
    want[SMOE_TRAFFIC_OTHER].messages -= agreed.messages;
    return !memcmp(want, c->sent, sizeof want);
}

static bool train(smoe_comm *comm, void *user) {
    const job *j = user;
    models_rig rig;
    smoe_step step;
    smoe_err err = {0};
    const smoe_step_options options = {.comm = comm};
    smoe_threads_set(1 + comm->rank % 2);
    if (!models_make(&rig, j->keys, IMAGES, true)) return false;
    /* that of the rig has its slabs already: experts can only be divided before */
    smoe_model *model;
    if (smoe_model_create(&model, &rig.spec, rig.N, &err)) return false;
    if (smoe_step_open(&step, model, &rig.spec, rig.N, &options, &err)) return false;
    smoe_params *params = smoe_model_params(model);
    smoe_params_init(params, 1);
    real *target = calloc(IMAGES * rig.N, sizeof *target);
    for (size_t b = 0; b < IMAGES; b++) target[b * rig.N + b % rig.N] = 1;
    size_t share = IMAGES / (size_t)comm->size, first = share * (size_t)comm->rank;
    smoe_batch batch = {.images = share,
                        .pixels = rig.image + first * rig.pixels,
                        .target = target + first * rig.N};
    bool good = true;
    for (uint64_t i = 0; i < STEPS; i++)
        good = good && !smoe_step_run(&step, &batch, i, i, NULL, &err);
    good = good && sent_as_foretold(&step);
    smoe_step_gather_moments(&step);
    uint32_t crc = sum_of(&step, params);
    good = good && write(j->fd[1], &crc, sizeof crc) == sizeof crc;
    smoe_step_free(&step);
    smoe_model_free(model);
    models_free(&rig);
    free(target);
    return good;
}

static void any_number_of_processes_comes_to_the_same(void **state) {
    (void)state;
#define PIECES "train.pieces=8 train.batch_size=8 model.width=32 model.mlp=128 model.dropout=0.1 "
#define FEW_ROWS "model.moe.experts=8 model.moe.slots_per_expert=1 "
    static const char *const keys[] = {
        PIECES "model.moe.router=soft",
        PIECES "model.moe.router=tokens-choice model.moe.capacity=0.5",
        PIECES "model.moe.router=experts-choice train.optimizer.moments=bf16",
        PIECES "train.optimizer.name=sgd train.optimizer.clip=0.01",
        PIECES "train.optimizer.name=adafactor",
        PIECES "model.moe.router=soft train.experts_over=2 model.moe.expert_dropout=0.1",
        PIECES "model.moe.router=soft train.experts_over=all train.optimizer.clip=0.01",
        PIECES "model.moe.router=soft train.experts_over=2 train.optimizer.moments=bf16",
        PIECES "train.optimizer.name=sgd train.experts_over=all",
        /* gradients as outer products where one process has an expert alone (math/outer.h) */
        PIECES FEW_ROWS,
        PIECES FEW_ROWS "train.experts_over=2 train.optimizer.clip=0.01",
        PIECES FEW_ROWS "train.experts_over=all model.moe.expert_dropout=0.1",
    };
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        uint32_t one = 0;
        for (int size = 1; size <= 4; size *= 2) {
            job j = {.keys = keys[k]};
            assert_int_equal(pipe(j.fd), 0);
            if (!forked_run(size, train, &j)) fail_msg("%d processes: %s", size, keys[k]);
            for (int r = 0; r < size; r++) {
                uint32_t crc;
                assert_int_equal(read(j.fd[0], &crc, sizeof crc), sizeof crc);
                if (size == 1) one = crc;
                assert_int_equal(crc, one);
            }
            close(j.fd[0]);
            close(j.fd[1]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_processes_comes_to_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
