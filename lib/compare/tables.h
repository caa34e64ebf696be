/* Contrasts as tables of a result. smoe-sweep(1) says what the columns are. */
#pragma once

#include "base/result.h"
#include "compare/compare.h"
#include "compare/primary.h"
#include "compare/contrast.h"

/* Everything that runs are compared by. */
typedef struct smoe_contrasts {
    smoe_comparison compared;
    smoe_trends trends;
    smoe_primary_result *primary; /* [primaries] owned */
    size_t primaries;
    bool planned;     /* there are primary contrasts: all others are exploratory */
    const char *seen; /* "0,1": seeds that are left out (measures.h); NULL: none. Borrowed */
} smoe_contrasts;

void smoe_contrasts_free(smoe_contrasts *contrasts);

/* Adds the tables primary, differences and trends, one row per contrast, and which groups are not
 * compared. `prefix` comes before their names. Of more than a dozen groups, only the rows of
 * precision, loss and the metric `first` are on the screen. */
void smoe_tables_contrasts(smoe_result *result, const smoe_contrasts *contrasts, const char *prefix,
                           size_t first);

/* Cells of the swept keys, all but the seed: in JSON within the object `within`, which may be NULL.
 * value [columns]; NULL: the row is of all values of that key. */
void smoe_tables_keys(smoe_frame *frame, const smoe_measures *measures, const char *within,
                      const char *const *value);
