/* Keyed random streams over Random123's Philox; see rng.h. */
#include "base/rng.h"

#include <Random123/philox.h>

smoe_rng smoe_rng_at(uint64_t seed, smoe_purpose purpose, uint32_t layer, uint64_t step,
                     uint64_t sample) {
    return (smoe_rng){.key = {seed, (uint64_t)purpose << 32 | layer},
                      .counter = {0, step, sample, 0}};
}

static inline philox4x64_ctr_t rng_next_block(smoe_rng *rng) {
    philox4x64_ctr_t c = {{rng->counter[0]++, rng->counter[1], rng->counter[2], rng->counter[3]}};
    philox4x64_key_t k = {{rng->key[0], rng->key[1]}};
    return philox4x64(c, k);
}

static inline uint64_t rng_next(smoe_rng *rng) {
    if (!rng->left) {
        philox4x64_ctr_t r = rng_next_block(rng);
        for (int i = 0; i < 4; i++) rng->block[i] = r.v[i];
        rng->left = 4;
    }
    return rng->block[4 - rng->left--];
}

static inline double to_uniform(uint64_t word) {
    return (double)(int64_t)(word >> 11) * 0x1p-53;
}

uint64_t smoe_rng_u64(smoe_rng *rng) {
    return rng_next(rng);
}

double smoe_rng_uniform(smoe_rng *rng) {
    return to_uniform(rng_next(rng));
}

void smoe_rng_below_share(smoe_rng *rng, bool *below, size_t n, double share) {
    uint64_t limit = (uint64_t)ceil(share * 0x1p53); /* the product is exact, as in to_uniform */
    size_t i = 0;
    for (; i < n && rng->left; i++) below[i] = rng_next(rng) >> 11 < limit;
    for (; i + 4 <= n; i += 4) {
        philox4x64_ctr_t r = rng_next_block(rng);
        for (int k = 0; k < 4; k++) below[i + k] = r.v[k] >> 11 < limit;
    }
    for (; i < n; i++) below[i] = rng_next(rng) >> 11 < limit;
}

uint64_t smoe_rng_below(smoe_rng *rng, uint64_t n) {
    uint64_t reject = -n % n, word; /* 2^64 mod n: words below it would favour small results */
    do word = smoe_rng_u64(rng);
    while (word < reject);
    return word % n;
}

/*
 * ln x for a normal number x > 0: x = 2^k m, 1/sqrt 2 <= m < sqrt 2, ln m = 2 artanh(s), s = (m -
 * 1)/(m + 1), by its series to s^21, |s| < 0.1716 (remainder below 1e-18). Our own because loops
 * over it become vectors, which those over the C library's do not, and because it is the same on
 * every machine.
 */
static inline double natural_log(double x) {
    const uint64_t one = 0x3ff0000000000000, low = 0x3fe6a09e667f3bcd; /* 1 and 1/sqrt 2 */
    const uint64_t fraction = 0x000fffffffffffff, two52 = 0x4330000000000000;
    union {
        double x;
        uint64_t bits;
    } in = {.x = x}, m, k;
    uint64_t moved = in.bits + (one - low);
    m.bits = (moved & fraction) + low;
    k.bits = moved >> 52 | two52;
    k.x -= 0x1p52 + 1023;
    double s = (m.x - 1) / (m.x + 1), z = s * s, sum = 1.0 / 21;
    sum = sum * z + 1.0 / 19;
    sum = sum * z + 1.0 / 17;
    sum = sum * z + 1.0 / 15;
    sum = sum * z + 1.0 / 13;
    sum = sum * z + 1.0 / 11;
    sum = sum * z + 1.0 / 9;
    sum = sum * z + 1.0 / 7;
    sum = sum * z + 1.0 / 5;
    sum = sum * z + 1.0 / 3;
    return k.x * 0.69314718055994530942 + (2 * s + 2 * s * (z * sum));
}

enum { PAIRS = 64 };

/* Points (x, y) in the unit circle, without its middle, and r2 = x^2 + y^2. */
typedef struct points {
    double x[PAIRS], y[PAIRS], r2[PAIRS];
    size_t found;
} points;

/* The polar method's next candidate, which is taken if it lies in the circle. */
static inline void consider(points *p, uint64_t first, uint64_t second) {
    double x = 2 * to_uniform(first) - 1, y = 2 * to_uniform(second) - 1, r2 = x * x + y * y;
    p->x[p->found] = x;
    p->y[p->found] = y;
    p->r2[p->found] = r2;
    p->found += (r2 < 1) & (r2 != 0);
}

/* `wanted` <= PAIRS points; takes no more words of the stream than these points need. */
static void find_points(points *p, size_t wanted, smoe_rng *rng) {
    p->found = 0;
    while (p->found < wanted) {
        size_t blocks = rng->left ? 0 : (wanted - p->found) / 2;
        for (size_t i = 0; i < blocks; i++) {
            philox4x64_ctr_t r = rng_next_block(rng);
            consider(p, r.v[0], r.v[1]);
            consider(p, r.v[2], r.v[3]);
        }
        if (blocks) continue;
        uint64_t first = rng_next(rng), second = rng_next(rng);
        consider(p, first, second);
    }
}

double smoe_rng_normal(smoe_rng *rng) {
    double z;
    smoe_rng_normals(rng, &z, 1);
    return z;
}

void smoe_rng_normals(smoe_rng *rng, double *out, size_t n) {
    points p;
    double f[PAIRS];
    if (n && rng->has_spare) {
        rng->has_spare = false;
        *out++ = rng->spare;
        n--;
    }
    while (n) {
        size_t pairs = n / 2 + n % 2;
        if (pairs > PAIRS) pairs = PAIRS;
        find_points(&p, pairs, rng);
#pragma omp simd
        for (size_t i = 0; i < pairs; i++) f[i] = -2 * natural_log(p.r2[i]) / p.r2[i];
        for (size_t i = 0; i < pairs; i++) {
            double scale = sqrt(f[i]);
            out[2 * i] = p.x[i] * scale;
            if (2 * i + 1 < n) {
                out[2 * i + 1] = p.y[i] * scale;
            } else {
                rng->spare = p.y[i] * scale;
                rng->has_spare = true;
            }
        }
        size_t written = 2 * pairs < n ? 2 * pairs : n;
        out += written;
        n -= written;
    }
}

void smoe_rng_permutation(smoe_rng *rng, uint32_t *order, size_t n) {
    for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
    for (size_t i = n; i > 1; i--) {
        size_t j = smoe_rng_below(rng, i);
        SMOE_SWAP(order[i - 1], order[j]);
    }
}

uint32_t smoe_rng_name(const char *name) {
    uint32_t hash = 2166136261u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}
