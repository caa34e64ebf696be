/*
 * Slot correlation (Soft MoE appendix H): inner products of the slot vectors, columns of Phi
 * [d,E,P], each made of length one. Slots of one expert are next to each other.
 */
#include "inspect/inspect_view.h"
#include "base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_SLOTS = 128 }; /* of the table of single pairs; means are over all of them */

/* Fresh [S,d]: the slot vectors of layer l, of length one; a zero vector stays zero. NULL: no
 * memory. */
static double *unit_slots(const smoe_inspection *r, size_t l) {
    const smoe_router *router = smoe_model_router(r->subject.model, l);
    size_t S = r->S, d = router->d;
    char name[64];
    snprintf(name, sizeof name, "%s.phi", router->prefix);
    const smoe_param *param = smoe_params_find(router->params, name);
    const real *phi = smoe_weight(router->params, (size_t)(param - router->params->param));
    double *unit = smoe_alloc(S * d, sizeof *unit);
    for (size_t s = 0; s < S; s++) {
        double square = 0;
        for (size_t i = 0; i < d; i++) square += (double)phi[i * S + s] * (double)phi[i * S + s];
        for (size_t i = 0; i < d; i++)
            unit[s * d + i] = square > 0 ? (double)phi[i * S + s] / sqrt(square) : 0;
    }
    return unit;
}

static double inner(const double *a, const double *b, size_t d) {
    double sum = 0;
    for (size_t i = 0; i < d; i++) sum += a[i] * b[i];
    return sum;
}

void smoe_fill_slot_correlation(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    size_t slots = r->S < MOST_SLOTS ? r->S : MOST_SLOTS;
    size_t d = smoe_model_router(r->subject.model, l)->d;
    SMOE_FREED double *unit = unit_slots(r, l);
    for (size_t a = 0; a < slots; a++)
        for (size_t b = 0; b < slots; b++) {
            smoe_inspect_put(r, frame, l, {"slot", .number = (double)a},
                             {"other", .number = (double)b},
                             {"cosine", .number = inner(unit + a * d, unit + b * d, d)});
        }
}

/* Of the pairs of slot a with every later one: their number, sum and sum of squares, [2] within its
 * expert and across. */
typedef struct pairs {
    double count[2], sum[2], square[2];
} pairs;

static void count_pairs(pairs *p, const double *unit, size_t a, const smoe_inspection *r,
                        size_t d) {
    for (size_t b = a + 1; b < r->S; b++) {
        double cosine = inner(unit + a * d, unit + b * d, d);
        bool across = a / r->P != b / r->P;
        p->count[across]++;
        p->sum[across] += cosine;
        p->square[across] += cosine * cosine;
    }
}

void smoe_fill_slot_alignment(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    size_t d = smoe_model_router(r->subject.model, l)->d;
    SMOE_FREED double *unit = unit_slots(r, l);
    pairs *of = smoe_alloc(r->S, sizeof *of), all = {0};
#pragma omp parallel for schedule(dynamic)
    for (size_t a = 0; a < r->S; a++) count_pairs(&of[a], unit, a, r, d);
    for (size_t a = 0; a < r->S; a++)
        for (size_t k = 0; k < 2; k++) {
            all.count[k] += of[a].count[k];
            all.sum[k] += of[a].sum[k];
            all.square[k] += of[a].square[k];
        }
    double mean[2], rms[2];
    for (size_t k = 0; k < 2; k++) { /* 0/0, no such pair, is NAN */
        mean[k] = all.sum[k] / all.count[k];
        rms[k] = sqrt(all.square[k] / all.count[k]);
    }
    smoe_inspect_put(r, frame, l, {"slots", .number = (double)r->S},
                     {"within_mean", .number = mean[0]}, {"within_rms", .number = rms[0]},
                     {"across_mean", .number = mean[1]}, {"across_rms", .number = rms[1]});
    free(of);
}
