/* The order of the images of a split, in training and in evaluations. */
#include "base/alloc.h"
#include "base/rng.h"
#include "data/dataset_source.h"

#include <stdlib.h>

void smoe_dataset_shuffle(const smoe_dataset *set, smoe_rng *rng, uint32_t *order) {
    size_t n = set->images, buffer = set->data.shuffle_buffer;
    if (!set->parts || !buffer || buffer >= n) {
        smoe_rng_permutation(rng, order, n);
        return;
    }
    uint32_t *part = smoe_alloc(set->parts, sizeof *part);
    smoe_rng_permutation(rng, part, set->parts);
    size_t filled = 0;
    for (size_t p = 0; p < set->parts; p++)
        for (size_t i = set->part_at[part[p]]; i < set->part_at[part[p] + 1]; i++)
            order[filled++] = (uint32_t)i;
    free(part);
    for (size_t i = 0; i < n; i++) { /* the buffer is order[i .. i + buffer) */
        size_t j = i + smoe_rng_below(rng, buffer < n - i ? buffer : n - i);
        uint32_t drawn = order[j];
        order[j] = order[i];
        order[i] = drawn;
    }
}

void smoe_dataset_order(uint32_t *order, size_t n, const smoe_spec *spec) {
    smoe_rng rng = smoe_rng_at(spec->data.seed, SMOE_RNG_ORDER, 0, 0, 0);
    if (spec->eval.order == SMOE_ORDER_SHUFFLED)
        smoe_rng_permutation(&rng, order, n);
    else
        for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
}
