/* Losses in double, image by image; see loss.h. */
#include "train/loss.h"
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

bool smoe_loss_correct(const real *logits, const real *target, size_t N) {
    size_t best = 0;
    for (size_t c = 1; c < N; c++)
        if (logits[c] > logits[best]) best = c;
    return target[best] > 0;
}

void smoe_loss_batch(smoe_loss_sums *sums, real *dlogits, double *rows, const real *logits,
                     const real *target, size_t B, size_t N, smoe_loss kind, double smoothing) {
    double scale = 1 / (double)B;
    SMOE_SHARED(elementwise, B * N)
    for (size_t b = 0; b < B; b++) {
        real *dl = dlogits ? dlogits + b * N : NULL;
        const real *l = logits + b * N;
        const targets t = targets_of(target + b * N, N, smoothing);
        rows[b] = kind == SMOE_LOSS_SIGMOID ? sigmoid_row(dl, l, &t, N, scale)
                                            : softmax_row(dl, l, &t, N, scale);
    }
    for (size_t b = 0; b < B; b++) {
        sums->loss += rows[b];
        sums->correct += smoe_loss_correct(logits + b * N, target + b * N, N);
    }
}
