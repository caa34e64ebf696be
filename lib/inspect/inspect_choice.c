/*
 * Analyses of sparse routing: how many experts process a token, which are dropped and where, the
 * load of the experts, the weights of the best choices, and how many experts an image uses (V-MoE
 * section 5, appendices D and E; Soft MoE appendix B). Everything is a count, hence exact.
 */
#include "inspect/inspect_view.h"

enum { WEIGHT_BINS = 101 }; /* gate weights to the next hundredth, the last for all above */

typedef struct choices {
    uint64_t images;
    uint64_t *processed; /* [E+1] tokens by the number of experts that process them */
    uint64_t *used;      /* [E+1] images by the number of experts that have tokens of them */
    uint64_t *selected;  /* [E+1] images by the number of experts that their tokens chose */
    uint64_t *dropped;   /* [T] images whose token at this position is dropped */
    uint64_t *placed, *chosen, *lost; /* [E] */
    uint64_t *weight; /* [best, WEIGHT_BINS] tokens by the weight of their best experts */
    bool *seen;       /* [E] experts of the image at hand */
    double *taken;    /* [E] the gate's weights of a token, the best removed one by one */
    size_t best;
} choices;

size_t smoe_inspect_best(const smoe_inspection *r) {
    const smoe_model_spec *model = &r->subject.spec->model;
    size_t best = 2;
    for (size_t i = 0; i < model->depth; i++) {
        size_t k = model->moe.is_moe[i] ? smoe_moe_k(&model->moe, i) : 0;
        if (k > best) best = k;
    }
    return best < r->E ? best : r->E;
}

static void choices_open(void *state, smoe_inspection *r, size_t l) {
    (void)l;
    choices *c = state;
    c->best = smoe_inspect_best(r);
    smoe_inspect_counts(r, &c->images, 1);
    c->processed = smoe_inspect_counts(r, NULL, r->E + 1);
    c->used = smoe_inspect_counts(r, NULL, r->E + 1);
    c->selected = smoe_inspect_counts(r, NULL, r->E + 1);
    c->dropped = smoe_inspect_counts(r, NULL, r->T);
    c->placed = smoe_inspect_counts(r, NULL, r->E);
    c->chosen = smoe_inspect_counts(r, NULL, r->E);
    c->lost = smoe_inspect_counts(r, NULL, r->E);
    c->weight = smoe_inspect_counts(r, NULL, c->best * WEIGHT_BINS);
    c->seen = smoe_alloc_in(&r->memory, r->E, sizeof *c->seen);
    c->taken = smoe_alloc_in(&r->memory, r->E, sizeof *c->taken);
}

static void count_weights(choices *c, size_t E, const real *gate) {
    for (size_t e = 0; e < E; e++) c->taken[e] = (double)gate[e];
    for (size_t k = 0; k < c->best; k++) {
        size_t best = 0;
        for (size_t e = 1; e < E; e++)
            if (c->taken[e] > c->taken[best]) best = e;
        double bin = fmin(rint(c->taken[best] * (WEIGHT_BINS - 1)), WEIGHT_BINS - 1);
        c->weight[k * WEIGHT_BINS + (size_t)bin]++;
        c->taken[best] = -1;
    }
}

/* Whether or not there was a place for them. */
static void count_selected(choices *c, const smoe_inspection *r, const smoe_inspect_view *view) {
    size_t count = 0, all = r->T / view->unit * view->K;
    for (size_t e = 0; e < r->E; e++) c->seen[e] = false;
    for (size_t i = 0; i < all; i++) {
        if (view->choice[i] < 0) continue;
        bool *seen = &c->seen[view->choice[i]];
        count += !*seen;
        *seen = true;
    }
    c->selected[count]++;
}

static void choices_image(void *state, const smoe_inspection *r, const smoe_inspect_view *view) {
    choices *c = state;
    size_t at = 0, used = 0;
    for (size_t e = 0; e < r->E; e++) c->seen[e] = false;
    for (size_t t = 0; t < r->T; t++) {
        size_t first = at;
        for (; at < view->places && view->place[at].token == t; at++) {
            size_t e = view->place[at].expert;
            c->placed[e]++;
            used += !c->seen[e];
            c->seen[e] = true;
        }
        c->processed[at - first]++;
        c->dropped[t] += at == first;
        if (view->gate) count_weights(c, r->E, view->gate + t * r->E);
    }
    c->used[used]++;
    c->images++;
    if (view->choice) count_selected(c, r, view);
}

static void choices_batch(void *state, const smoe_inspection *r, const smoe_plan *plan) {
    choices *c = state;
    for (size_t e = 0; e < r->E; e++) {
        c->chosen[e] += plan->choices.chosen[e];
        c->lost[e] += plan->choices.lost[e];
    }
}

const smoe_counter smoe_counter_choices = {.needs = SMOE_INSPECT_SPARSE,
                                           .size = sizeof(choices),
                                           .open = choices_open,
                                           .image = choices_image,
                                           .batch = choices_batch};

/* ---- tables ---------------------------------------------------------------------------------- */

/* A row for each number of experts 0 .. n that occurs: how many tokens or images (`of`) have it,
 * and their share. */
static void fill_counts(const smoe_inspection *r, smoe_frame *frame, size_t l, const char *of,
                        const uint64_t *count, size_t n, double all) {
    for (size_t i = 0; i <= n; i++) {
        if (!count[i]) continue;
        smoe_inspect_put(r, frame, l, {"experts", .number = i}, {of, .number = count[i]},
                         {"share", .number = (double)count[i] / all});
    }
}

void smoe_fill_processed_times(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    const choices *c = smoe_inspect_state(r, &smoe_counter_choices, l);
    fill_counts(r, frame, l, "tokens", c->processed, r->E, (double)(c->images * r->T));
}

void smoe_fill_experts_per_image(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    const choices *c = smoe_inspect_state(r, &smoe_counter_choices, l);
    fill_counts(r, frame, l, "images", c->used, r->E, (double)c->images);
}

void smoe_fill_experts_selected(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    const choices *c = smoe_inspect_state(r, &smoe_counter_choices, l);
    fill_counts(r, frame, l, "images", c->selected, r->E, (double)c->images);
}

/* A router without a gate places tokens by a rule; there are no choices to count. */
void smoe_fill_expert_load(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    bool gate = r->has & SMOE_INSPECT_GATE;
    const choices *c = smoe_inspect_state(r, &smoe_counter_choices, l);
    uint64_t all = 0;
    for (size_t e = 0; e < r->E; e++) all += c->placed[e];
    for (size_t e = 0; e < r->E; e++)
        smoe_inspect_put(r, frame, l, {"expert", .number = e},
                         {"chosen", .number = gate ? (double)c->chosen[e] : NAN},
                         {"placed", .number = c->placed[e]},
                         {"lost", .number = gate ? (double)c->lost[e] : NAN},
                         {"share", .number = (double)c->placed[e] / (double)all});
}

void smoe_fill_dropped_by_position(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    const choices *c = smoe_inspect_state(r, &smoe_counter_choices, l);
    for (size_t t = 0; t < r->T; t++)
        smoe_inspect_put(r, frame, l, {"position", .number = t},
                         {"row", .number = smoe_inspect_token_row(r, t)},
                         {"column", .number = smoe_inspect_token_column(r, t)},
                         {"dropped", .number = (double)c->dropped[t] / (double)c->images});
}

void smoe_fill_gate_weights(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    const choices *c = smoe_inspect_state(r, &smoe_counter_choices, l);
    for (size_t i = 0; i < c->best * WEIGHT_BINS; i++) {
        if (!c->weight[i]) continue;
        smoe_inspect_put(r, frame, l, {"choice", .number = (double)(i / WEIGHT_BINS) + 1},
                         {"weight", .number = (double)(i % WEIGHT_BINS) / (WEIGHT_BINS - 1)},
                         {"tokens", .number = c->weight[i]},
                         {"share", .number = (double)c->weight[i] / (double)(c->images * r->T)});
    }
}
