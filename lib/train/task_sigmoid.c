/* Classes independent of one another: sum_c log(1 + e^l_c) - t_c l_c; see task.h. */
#include "train/task.h"

static double sigmoid_image_loss(real *dl, const real *l, const smoe_targets *y, size_t N,
                                 double scale) {
    double loss = 0;
    for (size_t c = 0; c < N; c++) {
        double x = (double)l[c], t = smoe_target(y, c), e = exp(-fabs(x));
        loss += (x > 0 ? x : 0) + log1p(e) - t * x;
        if (dl) dl[c] = (real)(scale * ((x > 0 ? 1 : e) / (1 + e) - t));
    }
    return loss;
}

const smoe_task smoe_task_sigmoid = {.multi = true, .image = sigmoid_image_loss};
