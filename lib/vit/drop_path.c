/* Stochastic depth with keyed random numbers; see layer.h. */
#include "base/rng.h"
#include "base/team.h"
#include "math/kernels.h"
#include "vit/layer.h"

#include <string.h>

static bool is_on(const smoe_drop_path *l, const smoe_pass *pass) {
    return pass->train && l->rate > 0;
}

static real drop_path_share(const smoe_drop_path *l, size_t image, const smoe_pass *pass) {
    smoe_rng rng =
        smoe_rng_at(pass->seed, SMOE_RNG_DROP_PATH, l->site, pass->step, pass->first + image);
    return smoe_rng_uniform(&rng) < l->rate ? 0 : (real)(1 / (1 - l->rate));
}

void smoe_drop_path_forward(const smoe_drop_path *l, real *y, const real *x,
                            const smoe_pass *pass) {
    if (!is_on(l, pass)) return;
    SMOE_SHARED(elementwise, pass->images * l->n)
    for (size_t b = 0; b < pass->images; b++) {
        real s = drop_path_share(l, b, pass), *to = y + b * l->n;
        const real *from = x + b * l->n;
        if (s > 0)
            for (size_t i = 0; i < l->n; i++) to[i] = from[i] + s * (to[i] - from[i]);
        else
            memcpy(to, from, l->n * sizeof *to);
    }
}

const real *smoe_drop_path_backward(const smoe_drop_path *l, real *scaled, const real *dy,
                                    const smoe_pass *pass) {
    if (!is_on(l, pass)) return dy;
    SMOE_SHARED(elementwise, pass->images * l->n)
    for (size_t b = 0; b < pass->images; b++)
        smoe_kernels_get()->row->scale(scaled + b * l->n, drop_path_share(l, b, pass),
                                       dy + b * l->n, l->n);
    return scaled;
}
