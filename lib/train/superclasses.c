/* Super-classes from confusion, by average linkage; see superclasses.h. */
#include "train/superclasses.h"

typedef struct pair {
    size_t a, b; /* a < b */
    double alike;
    size_t size; /* 0: there is none */
} pair;

/* Sets of classes, each at the place of its lowest class. */
typedef struct sets {
    size_t N, left; /* classes; sets */
    size_t most;    /* classes that two sets may have together */
    double *alike;  /* [N,N] sum over the pairs of two sets */
    size_t *size;   /* [N] classes of a set; 0: it is part of another one */
    pair *best;     /* [N] of a set and the later ones, the pair to merge first; where b is a, that
                       pair is gone, and none is better than it was */
    uint32_t *of;   /* [N] the set of each class */
} sets;

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

/* Whether x is to be merged before y, which comes after it if they are equal. */
static bool pair_better(const pair *x, const pair *y) {
    if (!y->size || x->alike != y->alike) return !y->size || x->alike > y->alike;
    if (x->size != y->size) return x->size < y->size;
    return x->a < y->a || (x->a == y->a && x->b < y->b);
}

static void sets_offer(sets *s, size_t a, size_t b) {
    pair x = {a, b, 0, s->size[a] + s->size[b]};
    if (!s->size[b] || x.size > s->most) return;
    x.alike = s->alike[a * s->N + b] / (double)(s->size[a] * s->size[b]);
    if (pair_better(&x, &s->best[a])) s->best[a] = x;
}

static void sets_look(sets *s, size_t a) {
    s->best[a] = (pair){0};
    for (size_t b = a + 1; s->size[a] && b < s->N; b++) sets_offer(s, a, b);
}

/* The pair to merge next; size 0: there is none. */
static pair sets_next(sets *s) {
    for (;;) {
        pair best = {0};
        for (size_t a = 0; a < s->N; a++)
            if (s->best[a].size && pair_better(&s->best[a], &best)) best = s->best[a];
        if (!best.size || best.b > best.a) return best;
        sets_look(s, best.a);
    }
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
    s->best[x->b] = (pair){0};
    sets_look(s, x->a);
    for (size_t c = 0; c < x->b; c++) { /* later sets form no pair with these two */
        pair *was = &s->best[c];
        if (c != x->a && (was->b == x->a || was->b == x->b)) was->b = c;
        if (c < x->a && s->size[c]) sets_offer(s, c, x->a);
    }
}

int smoe_superclasses(uint32_t *of, size_t E, size_t N, const smoe_prediction *prediction,
                      size_t images, smoe_err *err) {
    if (!E || E > N)
        return smoe_fail(err, SMOE_USAGE, "%zu super-classes of %zu classes: use 1 to %zu", E, N,
                         N);
    SMOE_FREED double *alike = smoe_alloc(N * N, sizeof *alike);
    SMOE_FREED size_t *size = smoe_alloc(N, sizeof *size);
    SMOE_FREED pair *best = smoe_alloc(N, sizeof *best);
    sets s = {.N = N, .left = N, .most = (N + E - 1) / E};
    s.alike = alike;
    s.size = size;
    s.best = best;
    s.of = of;
    sets_fill(&s, prediction, images);
    for (size_t c = 0; c < N; c++) sets_look(&s, c);
    while (s.left > E) {
        pair x = sets_next(&s);
        if (x.size) {
            sets_merge(&s, &x);
            continue;
        }
        s.most++;
        for (size_t c = 0; c < N; c++) sets_look(&s, c);
    }
    uint32_t count = 0;
    for (size_t c = 0; c < N; c++) /* a set comes before its other classes */
        of[c] = of[c] == c ? count++ : of[of[c]];
    return 0;
}
