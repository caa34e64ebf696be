/* Super-classes from confusion, by average linkage; see superclasses.h. */
#include "train/superclasses.h"

/* Sets of classes, each at the place of its lowest class. */
typedef struct sets {
    size_t N, left; /* classes; sets */
    double *alike;  /* [N,N] sum over the pairs of two sets */
    size_t *size;   /* [N] classes of a set; 0: it is part of another one */
    uint32_t *of;   /* [N] the set of each class */
} sets;

typedef struct pair {
    size_t a, b; /* a < b */
    double alike;
    size_t size;
} pair;

static void sets_fill(sets *s, const smoe_prediction *prediction, size_t images) {
    size_t N = s->N;
    for (size_t i = 0; i < images; i++) s->size[prediction[i].label]++;
    for (size_t i = 0; i < images; i++) {
        size_t a = (size_t)prediction[i].label, b = prediction[i].top;
        double part = 0.5 / (double)s->size[a];
        s->alike[a * N + b] += part;
        s->alike[b * N + a] += part;
    }
    for (size_t c = 0; c < N; c++) {
        s->size[c] = 1;
        s->of[c] = (uint32_t)c;
    }
}

/* Whether x is to be merged before y. */
static bool pair_better(const pair *x, const pair *y) {
    if (!y->size || x->alike != y->alike) return !y->size || x->alike > y->alike;
    return x->size < y->size;
}

/* The pair to merge next, with at most `most` classes together; size 0: there is none. */
static pair sets_next(const sets *s, size_t most) {
    pair best = {0};
    for (size_t a = 0; a < s->N; a++)
        for (size_t b = a + 1; s->size[a] && b < s->N; b++) {
            pair x = {a, b, 0, s->size[a] + s->size[b]};
            if (!s->size[b] || x.size > most) continue;
            x.alike = s->alike[a * s->N + b] / (double)(s->size[a] * s->size[b]);
            if (pair_better(&x, &best)) best = x;
        }
    return best;
}

static void sets_merge(sets *s, const pair *x) {
    size_t N = s->N;
    for (size_t c = 0; c < N; c++) {
        s->alike[x->a * N + c] += s->alike[x->b * N + c];
        s->alike[c * N + x->a] = s->alike[x->a * N + c];
        if (s->of[c] == x->b) s->of[c] = (uint32_t)x->a;
    }
    s->size[x->a] = x->size;
    s->size[x->b] = 0;
    s->left--;
}

int smoe_superclasses(uint32_t *of, size_t E, size_t N, const smoe_prediction *prediction,
                      size_t images, smoe_err *err) {
    if (!E || E > N)
        return smoe_fail(err, SMOE_USAGE, "%zu super-classes of %zu classes: use 1 to %zu", E, N,
                         N);
    SMOE_FREED double *alike = smoe_alloc(N * N, sizeof *alike);
    SMOE_FREED size_t *size = smoe_alloc(N, sizeof *size);
    sets s = {.N = N, .left = N, .alike = alike, .size = size, .of = of};
    sets_fill(&s, prediction, images);
    for (size_t most = (N + E - 1) / E; s.left > E;) {
        pair x = sets_next(&s, most);
        if (x.size)
            sets_merge(&s, &x);
        else
            most++;
    }
    uint32_t count = 0;
    for (size_t c = 0; c < N; c++) /* a set comes before its other classes */
        of[c] = of[c] == c ? count++ : of[of[c]];
    return 0;
}
