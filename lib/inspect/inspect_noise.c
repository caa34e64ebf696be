/*
 * What the noise of the gate changes: compares the best experts of each token, or of each image
 * where images choose, with the noise of training added to the scores, and without it (V-MoE
 * section 2.3). Everything is a count, hence exact.
 */
#include "inspect/inspect_view.h"
#include "math/stats.h"

/* Standard deviations that are tried, times 1/E; 1 is what the paper trains with. */
static const double levels[] = {0.5, 1, 2, 4};
enum { LEVELS = SMOE_COUNT(levels) };

typedef struct changes {
    uint64_t choosers; /* tokens or images */
    uint64_t *changed; /* [LEVELS, best] those of whose best 1, 2 ... experts a level changes any */
    uint64_t *lost;    /* [LEVELS, best] how many of these experts it replaces, over all of them */
    double *score, *noisy, *normal; /* [E] */
    size_t *order, *other;          /* [E] experts by score, and by noisy score */
    size_t best, layer;
} changes;

static void changes_open(void *state, smoe_inspection *r, size_t l) {
    (void)l;
    changes *c = state;
    smoe_alloc_pool *pool = &r->memory;
    c->best = smoe_inspect_best(r);
    smoe_inspect_counts(r, &c->choosers, 1);
    c->changed = smoe_inspect_counts(r, NULL, LEVELS * c->best);
    c->lost = smoe_inspect_counts(r, NULL, LEVELS * c->best);
    c->score = smoe_alloc_in(pool, 3 * r->E, sizeof *c->score);
    c->order = smoe_alloc_in(pool, 2 * r->E, sizeof *c->order);
    c->noisy = c->score + r->E;
    c->normal = c->noisy + r->E;
    c->other = c->order + r->E;
}

static void noise_compare(changes *c, size_t level) {
    for (size_t k = 1; k <= c->best; k++) {
        size_t lost = 0;
        for (size_t i = 0; i < k; i++) {
            bool among = false;
            for (size_t j = 0; j < k; j++) among |= c->other[j] == c->order[i];
            lost += !among;
        }
        c->changed[level * c->best + k - 1] += lost > 0;
        c->lost[level * c->best + k - 1] += lost;
    }
}

static void changes_image(void *state, const smoe_inspection *r, const smoe_inspect_view *view) {
    changes *c = state;
    if (!view->scores) return;
    for (size_t t = 0; t < r->T; t += view->unit) {
        const real *scores = view->scores + t / view->unit * r->E;
        /* The same normal numbers at each level, so that levels are compared on the same draws. */
        smoe_rng rng = smoe_rng_at(r->subject.spec->seed, SMOE_RNG_ANALYSIS, SMOE_DRAWS_NOISE,
                                   (uint64_t)view->layer, view->image * r->T + t);
        smoe_rng_normals(&rng, c->normal, r->E);
        for (size_t e = 0; e < r->E; e++) c->score[e] = (double)scores[e];
        smoe_stats_best(c->order, c->best, c->score, r->E);
        for (size_t level = 0; level < LEVELS; level++) {
            for (size_t e = 0; e < r->E; e++)
                c->noisy[e] = c->score[e] + levels[level] / (double)r->E * c->normal[e];
            smoe_stats_best(c->other, c->best, c->noisy, r->E);
            noise_compare(c, level);
        }
        c->choosers++;
    }
}

const smoe_counter smoe_counter_changes = {.needs = SMOE_INSPECT_SCORES,
                                           .size = sizeof(changes),
                                           .open = changes_open,
                                           .image = changes_image};

void smoe_fill_noise_decisions(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    const changes *c = smoe_inspect_state(r, &smoe_counter_changes, l);
    for (size_t i = 0; c->choosers && i < LEVELS * c->best; i++) {
        size_t k = i % c->best + 1;
        smoe_inspect_put(
            r, frame, l, {"noise", .number = levels[i / c->best]}, {"choices", .number = k},
            {"tokens_changed", .number = (double)c->changed[i] / (double)c->choosers},
            {"choices_changed", .number = (double)c->lost[i] / (double)(k * c->choosers)});
    }
}
