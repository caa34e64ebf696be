/* The table of tasks, and what they share: losses in double, image by image; see task.h. */
#include "train/task.h"
#include "base/team.h"
#include "spec/tasks.h"

static smoe_targets targets_of(const real *t, size_t N, double smoothing) {
    smoe_targets x = {.t = t, .keep = 1 - smoothing};
    for (size_t c = 0; c < N; c++) x.mass += (double)t[c];
    x.floor = smoothing * x.mass / (double)N;
    return x;
}

bool smoe_task_correct(const real *logits, const real *target, size_t N) {
    size_t best = 0;
    for (size_t c = 1; c < N; c++)
        if (logits[c] > logits[best]) best = c;
    return target[best] > 0;
}

void smoe_task_by_image(smoe_task_image_loss *image, smoe_task_sums *sums, real *dlogits,
                        double *losses, const real *logits, const real *target, size_t B, size_t N,
                        size_t whole, double smoothing) {
    double scale = 1 / (double)whole;
    SMOE_SHARED(elementwise, B * N)
    for (size_t b = 0; b < B; b++) {
        const smoe_targets t = targets_of(target + b * N, N, smoothing);
        losses[b] = image(dlogits ? dlogits + b * N : NULL, logits + b * N, &t, N, scale);
    }
    for (size_t b = 0; b < B; b++) {
        sums->loss += losses[b];
        sums->correct += smoe_task_correct(logits + b * N, target + b * N, N);
    }
}

const smoe_task *smoe_task_of(smoe_loss loss) {
#define TASK(id, name, task, ...) extern const smoe_task task;
#include "spec/tasks.def"
#undef TASK
    static const smoe_task *const tasks[SMOE_TASKS] = {
#define TASK(id, name, task, ...) [SMOE_LOSS_##id] = &task,
#include "spec/tasks.def"
#undef TASK
    };
    return tasks[loss];
}
