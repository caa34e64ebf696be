/* Tasks: losses in double, image by image; see task.h. */
#include "train/task.h"
#include "base/team.h"

#include <math.h>

/* The targets of an image, keep * t_c + floor each, and their sum, which smoothing leaves alone. */
typedef struct targets {
    const real *t;
    double keep, floor, mass;
} targets;

static targets targets_of(const real *t, size_t N, double smoothing) {
    targets x = {.t = t, .keep = 1 - smoothing};
    for (size_t c = 0; c < N; c++) x.mass += (double)t[c];
    x.floor = smoothing * x.mass / (double)N;
    return x;
}

static double smoothed(const targets *x, size_t c) {
    return x->keep * (double)x->t[c] + x->floor;
}

/* With p = softmax(l) and t the targets' sum: d/dl = t p - target. */
static double softmax_row(real *dl, const real *l, const targets *x, size_t N, double scale) {
    double top = (double)l[0], sum = 0, picked = 0;
    for (size_t c = 1; c < N; c++) top = (double)l[c] > top ? (double)l[c] : top;
    for (size_t c = 0; c < N; c++) {
        double t = smoothed(x, c);
        sum += exp((double)l[c] - top);
        if (t != 0) picked += t * ((double)l[c] - top);
    }
    for (size_t c = 0; dl && c < N; c++)
        dl[c] = (real)(scale * (x->mass * exp((double)l[c] - top) / sum - smoothed(x, c)));
    return x->mass * log(sum) - picked;
}

static double sigmoid_row(real *dl, const real *l, const targets *y, size_t N, double scale) {
    double loss = 0;
    for (size_t c = 0; c < N; c++) {
        double x = (double)l[c], t = smoothed(y, c), e = exp(-fabs(x));
        loss += (x > 0 ? x : 0) + log1p(e) - t * x;
        if (dl) dl[c] = (real)(scale * ((x > 0 ? 1 : e) / (1 + e) - t));
    }
    return loss;
}

bool smoe_task_correct(const real *logits, const real *target, size_t N) {
    size_t best = 0;
    for (size_t c = 1; c < N; c++)
        if (logits[c] > logits[best]) best = c;
    return target[best] > 0;
}

/* Loss of one image [N], with its gradient times `scale` in dl (may be NULL). */
typedef double image_loss(real *dl, const real *l, const targets *t, size_t N, double scale);

static void by_image(image_loss *image, smoe_task_sums *sums, real *dlogits, double *rows,
                     const real *logits, const real *target, size_t B, size_t N, size_t whole,
                     double smoothing) {
    double scale = 1 / (double)whole;
    SMOE_SHARED(elementwise, B * N)
    for (size_t b = 0; b < B; b++) {
        const targets t = targets_of(target + b * N, N, smoothing);
        rows[b] = image(dlogits ? dlogits + b * N : NULL, logits + b * N, &t, N, scale);
    }
    for (size_t b = 0; b < B; b++) {
        sums->loss += rows[b];
        sums->correct += smoe_task_correct(logits + b * N, target + b * N, N);
    }
}

static void softmax_batch(smoe_task_sums *sums, real *dlogits, double *rows, const real *logits,
                          const real *target, size_t B, size_t N, size_t whole, double smoothing) {
    by_image(softmax_row, sums, dlogits, rows, logits, target, B, N, whole, smoothing);
}

static void sigmoid_batch(smoe_task_sums *sums, real *dlogits, double *rows, const real *logits,
                          const real *target, size_t B, size_t N, size_t whole, double smoothing) {
    by_image(sigmoid_row, sums, dlogits, rows, logits, target, B, N, whole, smoothing);
}

static double softmax_probability(const real *l, size_t N, size_t c) {
    double sum = 0;
    for (size_t i = 0; i < N; i++) sum += exp((double)l[i] - (double)l[c]);
    return 1 / sum;
}

static double sigmoid_probability(const real *l, size_t N, size_t c) {
    (void)N;
    return 1 / (1 + exp(-(double)l[c]));
}

const smoe_task *smoe_task_of(smoe_loss loss) {
    static const smoe_task tasks[] = {
        [SMOE_LOSS_SOFTMAX] = {.batch = softmax_batch, .probability = softmax_probability},
        [SMOE_LOSS_SIGMOID] = {.multi = true,
                               .batch = sigmoid_batch,
                               .probability = sigmoid_probability},
    };
    return &tasks[loss];
}
