/* Tables of text; see table.h. */
#include "table.h"
#include "base/base.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

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

size_t smoe_table_room(FILE *out) {
    struct winsize size;
    int fd = fileno(out);
    return isatty(fd) && !ioctl(fd, TIOCGWINSZ, &size) ? size.ws_col : 0;
}

void smoe_table_wrap(FILE *out, const char *text, size_t at) {
    enum { LEAST = 20 }; /* columns that are worth breaking for */
    size_t columns = smoe_table_room(out), used = at;
    bool breaks = columns >= at + LEAST, first = true;
    for (; *text; first = false) {
        size_t length = strcspn(text, " ");
        if (!first && breaks && used + 1 + length > columns) {
            fprintf(out, "\n%*s", (int)at, "");
            used = at;
        } else if (!first) {
            fputc(' ', out);
            used++;
        }
        fprintf(out, "%.*s", (int)length, text);
        used += length;
        text += length + (text[length] == ' ');
    }
    fputc('\n', out);
}

/* The first `keys` columns, and those from `from` to below `to`. */
static void print_part(const smoe_table *table, const size_t *width, size_t keys, size_t from,
                       size_t to, FILE *out, bool bold) {
    for (size_t row = 0; row < table->cells; row += table->columns) {
        if (!row && bold) fputs("\033[1m", out);
        for (size_t column = 0; column < to; column = column + 1 == keys ? from : column + 1) {
            const char *cell = table->cell[row + column];
            int pad = (int)(width[column] - smoe_text_letters(cell));
            if (column)
                fprintf(out, "  %*s%s", pad, "", cell);
            else
                fprintf(out, "%s%*s", cell, table->columns > 1 ? pad : 0, "");
        }
        if (!row && bold) fputs("\033[0m", out);
        fputc('\n', out);
    }
}

/* The columns that every part of the table begins with, and their width. */
static size_t repeated(const smoe_table *table, const size_t *width, size_t room, size_t *used) {
    size_t keys = table->keys ? table->keys : 1;
    *used = width[0];
    for (size_t i = 1; i < keys; i++) *used += 2 + width[i];
    if (!room || 3 * *used <= 2 * room) return keys;
    *used = width[0];
    return 1;
}

int smoe_table_print(const smoe_table *table, FILE *out, bool bold, smoe_err *err) {
    if (table->failed) return smoe_fail(err, SMOE_RUNTIME, "out of memory for a table");
    size_t *width = calloc(table->columns, sizeof *width), room = smoe_table_room(out);
    if (!width) return smoe_fail(err, SMOE_RUNTIME, "out of memory for a table");
    for (size_t i = 0; i < table->cells; i++) {
        size_t length = smoe_text_letters(table->cell[i]);
        if (length > width[i % table->columns]) width[i % table->columns] = length;
    }
    size_t base, keys = repeated(table, width, room, &base), from = keys, to;
    do {
        size_t used = base;
        for (to = from; to < table->columns; to++) {
            used += 2 + width[to];
            if (room && used > room && to > from) break;
        }
        if (from > keys) fputc('\n', out);
        print_part(table, width, keys, from, to, out, bold);
        from = to;
    } while (to < table->columns);
    free(width);
    return 0;
}

void smoe_table_free(smoe_table *table) {
    for (size_t i = 0; i < table->cells; i++) free(table->cell[i]);
    free(table->cell);
    table->cell = NULL;
    table->cells = table->room = 0;
}
