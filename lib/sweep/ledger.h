/* What sweep.c and ledger.c share about cells. */
#ifndef SMOE_LEDGER_H
#define SMOE_LEDGER_H

#include "sweep/sweep.h"

/* The spec of a cell, in its stored form, and its hash; -1 when out of memory. */
int smoe_cell_set_spec(smoe_cell *cell, const json_t *spec);

/* Of what is set in a cell, key by key. */
uint64_t smoe_cell_hash_values(const smoe_sweep *sweep, const smoe_cell *cell);

#endif
