/* What analyses ask of the run they belong to; see inspect_view.h. */
#include "inspect/inspect_view.h"

#include <math.h>

double smoe_inspect_block(const smoe_inspection *r, size_t l) {
    return (double)smoe_model_moe_block(r->subject.model, l);
}

double smoe_inspect_token_row(const smoe_inspection *r, size_t token) {
    return token < r->first_patch ? NAN : (double)((token - r->first_patch) / r->side);
}

double smoe_inspect_token_column(const smoe_inspection *r, size_t token) {
    return token < r->first_patch ? NAN : (double)((token - r->first_patch) % r->side);
}

void *smoe_inspect_state(const smoe_inspection *r, smoe_counter_id counter, size_t l) {
    return r->state[counter * r->layers + l];
}
