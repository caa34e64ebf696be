/* Dropout with keyed random streams; see layer.h. */
#include "base/rng.h"
#include "base/team.h"
#include "vit/layer.h"

static void drop_row(real *x, size_t width, double rate, uint32_t site, size_t place,
                     const smoe_pass *pass) {
    smoe_rng rng = smoe_rng_at(pass->seed, SMOE_RNG_DROPOUT, site, pass->step, place);
    real scale = (real)(1 / (1 - rate));
    for (size_t i = 0; i < width; i++) x[i] = smoe_rng_uniform(&rng) < rate ? 0 : x[i] * scale;
}

void smoe_dropout(real *x, size_t rows, size_t width, double rate, uint32_t site,
                  const smoe_pass *pass) {
    if (!pass->train || rate <= 0) return;
    size_t before = pass->first * (rows / pass->images);
    SMOE_SHARED(elementwise, rows * width)
    for (size_t r = 0; r < rows; r++) drop_row(x + r * width, width, rate, site, before + r, pass);
}

/* Slot i of `count` experts of the plan from `first` on: its row among theirs, and its place in the
 * whole batch. False where it is empty. */
static bool slot_at(const smoe_plan *plan, size_t first, size_t count, size_t i, size_t before,
                    size_t *row, size_t *place) {
    size_t each = count * plan->P, slot = i / each * plan->S + first * plan->P + i % each;
    if (!smoe_plan_slot(plan, slot, row, place)) return false;
    *row -= plan->first_row[first];
    *place += before;
    return true;
}

void smoe_dropout_find(uint64_t *places, const smoe_plan *plan, size_t first, size_t count,
                       const smoe_pass *pass) {
    size_t slots = plan->G * count * plan->P,
           before = pass->first * (smoe_plan_places(plan) / pass->images);
    SMOE_SHARED(elementwise, slots)
    for (size_t i = 0; i < slots; i++) {
        size_t row, place;
        if (slot_at(plan, first, count, i, before, &row, &place)) places[row] = place;
    }
}

void smoe_dropout_places(real *x, const uint64_t *place, size_t rows, size_t width, double rate,
                         uint32_t site, const smoe_pass *pass) {
    if (!pass->train || rate <= 0) return;
    SMOE_SHARED(elementwise, rows * width)
    for (size_t r = 0; r < rows; r++)
        drop_row(x + r * width, width, rate, site, (size_t)place[r], pass);
}
