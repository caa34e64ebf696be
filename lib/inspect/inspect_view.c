/* What analyses ask of the run they belong to; see inspect_view.h. */
#include "inspect/inspect_view.h"

double smoe_inspect_block(const smoe_inspection *r, size_t l) {
    return (double)smoe_model_moe_block(r->subject.model, l);
}

size_t smoe_inspect_slots_per_expert(const smoe_inspection *r, size_t l) {
    return smoe_model_router(r->subject.model, l)->P;
}

size_t smoe_inspect_slots(const smoe_inspection *r, size_t l) {
    return r->E * smoe_inspect_slots_per_expert(r, l);
}

double smoe_inspect_token_row(const smoe_inspection *r, size_t token) {
    return token < r->first_patch ? NAN : (double)((token - r->first_patch) / r->side);
}

double smoe_inspect_token_column(const smoe_inspection *r, size_t token) {
    return token < r->first_patch ? NAN : (double)((token - r->first_patch) % r->side);
}

void *smoe_inspect_state(const smoe_inspection *r, const smoe_counter *counter, size_t l) {
    size_t c = 0;
    while (r->counter[c] != counter) c++;
    return r->state[c * r->layers + l];
}

static void *add_counted(smoe_inspection *r, smoe_counted counted, size_t size) {
    if (!counted.at) counted.at = smoe_alloc_in(&r->memory, counted.n, size);
    SMOE_APPEND(r->counted, r->counteds) = counted;
    return counted.at;
}

uint64_t *smoe_inspect_counts(smoe_inspection *r, uint64_t *at, size_t n) {
    return add_counted(r, (smoe_counted){SMOE_COUNTS, at, n}, sizeof *at);
}

smoe_exact *smoe_inspect_exact(smoe_inspection *r, smoe_exact *at, size_t n) {
    return add_counted(r, (smoe_counted){SMOE_EXACT, at, n}, sizeof *at);
}

double *smoe_inspect_largest(smoe_inspection *r, double *at, size_t n) {
    return add_counted(r, (smoe_counted){SMOE_LARGEST, at, n}, sizeof *at);
}
