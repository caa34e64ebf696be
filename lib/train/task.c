/* What tasks share: losses in double, image by image; see task.h. */
#include "train/task.h"
#include "base/team.h"

static smoe_targets targets_of(const real *t, size_t N, double smoothing) {
    smoe_targets x = {.t = t, .keep = 1 - smoothing};
    for (size_t c = 0; c < N; c++) x.mass += (double)t[c];
    x.floor = smoothing * x.mass / (double)N;
    return x;
}

size_t smoe_task_top(const real *logits, size_t N) {
    size_t top = 0;
    for (size_t c = 1; c < N; c++)
        if (logits[c] > logits[top]) top = c;
    return top;
}

bool smoe_task_correct(const real *logits, const real *target, size_t N) {
    return target[smoe_task_top(logits, N)] > 0;
}

double smoe_task_probability(const smoe_task *task, const real *l, size_t N, size_t c) {
    double sum = 0;
    if (task->multi) return 1 / (1 + exp(-(double)l[c]));
    for (size_t i = 0; i < N; i++) sum += exp((double)l[i] - (double)l[c]);
    return 1 / sum;
}

void smoe_task_measure(const smoe_task *task, smoe_task_sums *sums, real *dlogits, double *losses,
                       const smoe_task_batch *x) {
    const size_t B = x->B, N = x->N;
    const double scale = 1 / (double)x->whole;
    if (task->batch) {
        task->batch(sums, dlogits, losses, x);
        return;
    }
    SMOE_SHARED(elementwise, B * N)
    for (size_t b = 0; b < B; b++) {
        const smoe_targets t = targets_of(x->target + b * N, N, x->smoothing);
        losses[b] = task->image(dlogits ? dlogits + b * N : NULL, x->logits + b * N, &t, N, scale);
    }
    for (size_t b = 0; b < B; b++) {
        sums->loss += losses[b];
        sums->correct += smoe_task_correct(x->logits + b * N, x->target + b * N, N);
    }
}
