/* Tables of text; see table.h. */
#include "table.h"
#include "base/base.h"

#include <stdarg.h>
#include <stdlib.h>

void smoe_table_add(smoe_table *table, const char *fmt, ...) {
    if (table->cells == table->room) {
        size_t room = table->room ? 2 * table->room : 64;
        char **cell = realloc(table->cell, room * sizeof *cell);
        if (!cell) {
            table->failed = true;
            return;
        }
        table->cell = cell;
        table->room = room;
    }
    va_list args;
    va_start(args, fmt);
    char *text = NULL;
    int length = vasprintf(&text, fmt, args);
    va_end(args);
    size_t room = length < 0 ? 0 : (size_t)length + 8;
    char *shown = room ? malloc(room) : NULL; /* a name in it may have control characters */
    if (shown)
        table->cell[table->cells++] = (char *)smoe_text_shown(text, shown, room);
    else
        table->failed = true;
    if (length >= 0) free(text);
}

/* The number of characters, not of bytes. */
static int letters(const char *text) {
    int n = 0;
    for (; *text; text++) n += (*text & 0xc0) != 0x80;
    return n;
}

int smoe_table_print(const smoe_table *table, FILE *out, bool bold, smoe_err *err) {
    if (table->failed) return smoe_fail(err, SMOE_RUNTIME, "out of memory for a table");
    int *width = calloc(table->columns, sizeof *width);
    if (!width) return smoe_fail(err, SMOE_RUNTIME, "out of memory for a table");
    for (size_t i = 0; i < table->cells; i++) {
        int length = letters(table->cell[i]);
        if (length > width[i % table->columns]) width[i % table->columns] = length;
    }
    for (size_t i = 0; i < table->cells; i++) {
        size_t column = i % table->columns;
        if (!i && bold) fputs("\033[1m", out);
        int pad = width[column] - letters(table->cell[i]);
        if (!column)
            fprintf(out, "%s%*s", table->cell[i], table->columns > 1 ? pad : 0, "");
        else
            fprintf(out, "  %*s%s", pad, "", table->cell[i]);
        if (i + 1 == table->columns && bold) fputs("\033[0m", out);
        if (column + 1 == table->columns) fputc('\n', out);
    }
    free(width);
    return 0;
}

void smoe_table_free(smoe_table *table) {
    for (size_t i = 0; i < table->cells; i++) free(table->cell[i]);
    free(table->cell);
    table->cell = NULL;
    table->cells = table->room = 0;
}
