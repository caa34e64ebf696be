/* One class per image: -sum_c t_c log p_c with p = softmax(l); see task.h. */
#include "train/task.h"

/* With p = softmax(l) and t the targets' sum: d/dl = t p - target. */
static double softmax_image_loss(real *dl, const real *l, const smoe_targets *x, size_t N,
                                 double scale) {
    double top = (double)l[0], sum = 0, picked = 0;
    for (size_t c = 1; c < N; c++) top = (double)l[c] > top ? (double)l[c] : top;
    for (size_t c = 0; c < N; c++) {
        double t = smoe_target(x, c);
        sum += exp((double)l[c] - top);
        if (t != 0) picked += t * ((double)l[c] - top);
    }
    for (size_t c = 0; dl && c < N; c++)
        dl[c] = (real)(scale * (x->mass * exp((double)l[c] - top) / sum - smoe_target(x, c)));
    return x->mass * log(sum) - picked;
}

const smoe_task smoe_task_softmax = {.image = softmax_image_loss};
