/* Dropout by random streams that are keyed; see layer.h. */
#include "base/rng.h"
#include "base/team.h"
#include "vit/layer.h"

void smoe_dropout(real *x, size_t size, double rate, uint32_t site, const smoe_pass *pass) {
    enum { RUN = 4096 }; /* elements of one stream */
    if (!pass->train || rate <= 0) return;
    real scale = (real)(1 / (1 - rate));
    SMOE_SHARED(elementwise, size)
    for (size_t r = 0; r < size; r += RUN) {
        smoe_rng rng = smoe_rng_at(pass->seed, SMOE_RNG_DROPOUT, site, pass->step, r / RUN);
        for (size_t i = r; i < size && i < r + RUN; i++)
            x[i] = smoe_rng_uniform(&rng) < rate ? 0 : x[i] * scale;
    }
}
