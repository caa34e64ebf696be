/* Tables of text for people: cells are added row by row, the first row is the heading; columns are
 * aligned when printed. */
#ifndef SMOE_TABLE_H
#define SMOE_TABLE_H

#include "base/base.h"

#include <stdio.h>

typedef struct smoe_table {
    size_t columns; /* set by the caller */
    size_t keys;    /* the first columns, which tell rows apart; 0 counts as 1 */
    size_t cells, room;
    char **cell;
    bool failed; /* out of memory; reported when printed */
} smoe_table;

/* Adds the next cell. */
void smoe_table_add(smoe_table *table, const char *fmt, ...) SMOE_PRINTF(2, 3);

/* The columns of a terminal; 0: it is none, and lines may have any length. */
size_t smoe_table_room(FILE *out);

/* Text that begins at column `at` and goes on there, broken between words where the terminal ends;
 * and the end of the line. */
void smoe_table_wrap(FILE *out, const char *text, size_t at);

/* The first column to the left, the others to the right, two spaces between; the heading in bold
 * where `bold` is set. On a terminal that is narrower, columns that have no room follow below,
 * after the keys once more, or after the first column where the keys take most of the room. */
int smoe_table_print(const smoe_table *table, FILE *out, bool bold, smoe_err *err) SMOE_MUST_CHECK;

void smoe_table_free(smoe_table *table);

#endif
