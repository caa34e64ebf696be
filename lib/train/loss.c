/* Losses in double, image by image; see loss.h. */
#include "train/loss.h"
#include "base/team.h"

#include <math.h>

/* With p = softmax(l) and t the targets' sum: d/dl = t p - target. */
static double softmax_row(real *dl, const real *l, const real *target, size_t N, double scale) {
    double top = (double)l[0], sum = 0, mass = 0, picked = 0;
    for (size_t c = 1; c < N; c++) top = (double)l[c] > top ? (double)l[c] : top;
    for (size_t c = 0; c < N; c++) {
        sum += exp((double)l[c] - top);
        mass += (double)target[c];
        if (target[c] != 0) picked += (double)target[c] * ((double)l[c] - top);
    }
    for (size_t c = 0; dl && c < N; c++)
        dl[c] = (real)(scale * (mass * exp((double)l[c] - top) / sum - (double)target[c]));
    return mass * log(sum) - picked;
}

static double sigmoid_row(real *dl, const real *l, const real *target, size_t N, double scale) {
    double loss = 0;
    for (size_t c = 0; c < N; c++) {
        double x = (double)l[c], t = (double)target[c], e = exp(-fabs(x));
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
                     const real *target, size_t B, size_t N, smoe_loss kind) {
    double scale = 1 / (double)B;
    SMOE_SHARED(elementwise, B * N)
    for (size_t b = 0; b < B; b++) {
        real *dl = dlogits ? dlogits + b * N : NULL;
        const real *l = logits + b * N, *t = target + b * N;
        rows[b] = kind == SMOE_LOSS_SIGMOID ? sigmoid_row(dl, l, t, N, scale)
                                            : softmax_row(dl, l, t, N, scale);
    }
    for (size_t b = 0; b < B; b++) {
        sums->loss += rows[b];
        sums->correct += smoe_loss_correct(logits + b * N, target + b * N, N);
    }
}
