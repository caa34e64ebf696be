/* Dropout and stochastic depth, with keyed random streams; see layer.h. */
#include "base/rng.h"
#include "base/team.h"
#include "math/kernels.h"
#include "vit/layer.h"

static void dropout_row(real *x, const bool *dropped, size_t width, real scale) {
    for (size_t i = 0; i < width; i++) x[i] = dropped[i] ? 0 : x[i] * scale;
}

void smoe_dropout_forward(real *x, bool *dropped, const uint64_t *place, size_t rows, size_t width,
                          double rate, uint32_t site, const smoe_pass *pass) {
    size_t before = pass->first * (rows / pass->images);
    real scale = (real)(1 / (1 - rate));
    SMOE_SHARED(elementwise, rows * width)
    for (size_t r = 0; r < rows; r++) {
        smoe_rng rng = smoe_rng_at(pass->seed, SMOE_RNG_DROPOUT, site, pass->step,
                                   place ? place[r] : before + r);
        smoe_rng_below_share(&rng, dropped + r * width, width, rate);
        dropout_row(x + r * width, dropped + r * width, width, scale);
    }
}

void smoe_dropout_backward(real *dx, const bool *dropped, size_t rows, size_t width, double rate) {
    real scale = (real)(1 / (1 - rate));
    SMOE_SHARED(elementwise, rows * width)
    for (size_t r = 0; r < rows; r++)
        dropout_row(dx + r * width, dropped + r * width, width, scale);
}

void smoe_dropout_find(uint64_t *places, const smoe_plan *plan, size_t first, size_t count,
                       const smoe_pass *pass) {
    size_t each = count * plan->P, before = pass->first * (smoe_plan_places(plan) / pass->images);
    SMOE_SHARED(elementwise, plan->G * each)
    for (size_t i = 0; i < plan->G * each; i++) {
        size_t slot = i / each * plan->S + first * plan->P + i % each, row, place;
        if (smoe_plan_slot(plan, slot, &row, &place))
            places[row - plan->first_row[first]] = before + place;
    }
}

/* ---- stochastic depth ------------------------------------------------------------------------ */

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
