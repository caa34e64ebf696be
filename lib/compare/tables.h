/* Contrasts as tables, in files and in Markdown. smoe-sweep(1) says what the columns are. */
#ifndef SMOE_TABLES_H
#define SMOE_TABLES_H

#include "base/frame.h"
#include "compare/compare.h"
#include "compare/primary.h"
#include "compare/trend.h"

#include <stdio.h>

/* Everything that runs are compared by. */
typedef struct smoe_contrasts {
    smoe_comparison compared;
    smoe_trends trends;
    smoe_primary_result *primary; /* [primaries] owned */
    size_t primaries;
    bool planned; /* there are primary contrasts: all others are exploratory */
} smoe_contrasts;

void smoe_contrasts_free(smoe_contrasts *contrasts);

/* A row per contrast. */
void smoe_tables_differences(smoe_frame *frame, const smoe_comparison *comparison);
void smoe_tables_trends(smoe_frame *frame, const smoe_trends *trends);
void smoe_tables_primary(smoe_frame *frame, const smoe_primary_result *primary, size_t count);

/* All of them, with headings of this level ("##"). */
void smoe_tables_markdown(FILE *out, const smoe_contrasts *contrasts, const char *level);

/* "+0.084 +- 0.027", the second half the interval; without it of a single pair. Returns buf. */
const char *smoe_tables_paired(char *buf, size_t size, const smoe_paired *paired);

#endif
