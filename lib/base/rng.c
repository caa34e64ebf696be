/* Keyed random streams over Random123's Philox; see rng.h. */
#include "base/rng.h"

#include <math.h>
#include <Random123/philox.h>

smoe_rng smoe_rng_at(uint64_t seed, smoe_purpose purpose, uint32_t layer, uint64_t step,
                     uint64_t sample) {
    return (smoe_rng){.key = {seed, (uint64_t)purpose << 32 | layer},
                      .counter = {0, step, sample, 0}};
}

uint64_t smoe_rng_u64(smoe_rng *rng) {
    if (!rng->left) {
        philox4x64_ctr_t c = {{rng->counter[0], rng->counter[1], rng->counter[2], rng->counter[3]}};
        philox4x64_key_t k = {{rng->key[0], rng->key[1]}};
        philox4x64_ctr_t r = philox4x64(c, k);
        for (int i = 0; i < 4; i++) rng->block[i] = r.v[i];
        rng->counter[0]++;
        rng->left = 4;
    }
    return rng->block[4 - rng->left--];
}

double smoe_rng_uniform(smoe_rng *rng) {
    return (double)(smoe_rng_u64(rng) >> 11) * 0x1p-53;
}

uint64_t smoe_rng_below(smoe_rng *rng, uint64_t n) {
    uint64_t reject = -n % n, word; /* 2^64 mod n: words below it would favour small results */
    do word = smoe_rng_u64(rng);
    while (word < reject);
    return word % n;
}

double smoe_rng_normal(smoe_rng *rng) {
    if (rng->has_spare) {
        rng->has_spare = false;
        return rng->spare;
    }
    double x, y, r2;
    do {
        x = 2 * smoe_rng_uniform(rng) - 1;
        y = 2 * smoe_rng_uniform(rng) - 1;
        r2 = x * x + y * y;
    } while (r2 >= 1 || r2 == 0);
    double f = sqrt(-2 * log(r2) / r2);
    rng->spare = y * f;
    rng->has_spare = true;
    return x * f;
}

void smoe_rng_permutation(smoe_rng *rng, uint32_t *order, size_t n) {
    for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
    for (size_t i = n; i > 1; i--) {
        size_t j = smoe_rng_below(rng, i);
        uint32_t t = order[i - 1];
        order[i - 1] = order[j];
        order[j] = t;
    }
}

uint32_t smoe_rng_name(const char *name) {
    uint32_t hash = 2166136261u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}
