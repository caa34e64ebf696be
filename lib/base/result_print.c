/* Results for people: as text and in Markdown; see result.h. */
#include "base/result.h"

/* ---- tables ---------------------------------------------------------------------------------- */

/* The cells of a frame that are printed, as text; the first row is the heading. */
typedef struct grid {
    char **cell; /* [rows,columns] */
    const smoe_column **column;
    size_t rows, columns, keys;
} grid;

/* A copy without control characters. */
static char *shown_copy(const char *text) {
    size_t size = strlen(text) + 9;
    char *copy = smoe_alloc(size, 1);
    smoe_text_shown(text, copy, size);
    return copy;
}

static bool has_values(const smoe_frame *frame, size_t c) {
    bool some = !frame->rows;
    for (size_t r = 0; r < frame->rows && !some; r++) {
        smoe_datum datum = frame->datum[r * frame->columns + c];
        some = frame->column[c].words ? datum.text != NULL : !isnan(datum.number);
    }
    return some;
}

static grid grid_of(const smoe_frame *frame, unsigned where) {
    char number[64];
    const size_t *hide = frame->hide, *end = hide + (where == SMOE_IN_TEXT ? frame->hidden : 0);
    grid g = {.column = smoe_alloc(frame->columns, sizeof *g.column)};
    SMOE_FREED size_t *from = smoe_alloc(frame->columns, sizeof *from);
    for (size_t c = 0; c < frame->columns; c++) {
        if (!(frame->column[c].where & where) || !has_values(frame, c)) continue;
        g.keys += c < frame->keys;
        from[g.columns] = c;
        g.column[g.columns++] = &frame->column[c];
    }
    g.cell = smoe_alloc((frame->rows + 1) * g.columns, sizeof *g.cell);
    for (size_t r = 0; r < frame->rows + 1; r++) {
        if (r && hide < end && *hide == r - 1) {
            hide++;
            continue;
        }
        for (size_t c = 0; c < g.columns; c++) {
            const smoe_column *column = g.column[c];
            const char *text = column->heading ? column->heading : column->name;
            if (r)
                text = smoe_column_print(number, sizeof number, column,
                                         frame->datum[(r - 1) * frame->columns + from[c]]);
            g.cell[g.rows * g.columns + c] = shown_copy(text);
        }
        g.rows++;
    }
    return g;
}

static void grid_free(grid *g) {
    for (size_t i = 0; i < g->rows * g->columns; i++) free(g->cell[i]);
    free(g->cell);
    free(g->column);
}

/* The first `keys` columns, and those from `from` to below `to`. */
static void print_part(const grid *g, const size_t *width, size_t keys, size_t from, size_t to,
                       FILE *out, bool bold) {
    for (size_t row = 0; row < g->rows; row++) {
        if (!row && bold) fputs("\033[1m", out);
        for (size_t column = 0; column < to; column = column + 1 == keys ? from : column + 1) {
            const char *cell = g->cell[row * g->columns + column];
            int pad = (int)(width[column] - smoe_text_letters(cell));
            if (column)
                fprintf(out, "  %*s%s", pad, "", cell);
            else
                fprintf(out, "%s%*s", cell, g->columns > 1 ? pad : 0, "");
        }
        if (!row && bold) fputs("\033[0m", out);
        fputc('\n', out);
    }
}

/* The columns that every part of the table begins with, and their width. */
static size_t repeated(const grid *g, const size_t *width, size_t room, size_t *used) {
    size_t keys = g->keys ? g->keys : 1;
    *used = width[0];
    for (size_t i = 1; i < keys; i++) *used += 2 + width[i];
    if (!room || 3 * *used <= 2 * room) return keys;
    *used = width[0];
    return 1;
}

void smoe_frame_print(const smoe_frame *frame, FILE *out, const smoe_paper *paper) {
    SMOE_FREED_BY(grid_free) grid g = grid_of(frame, SMOE_IN_TEXT);
    if (!g.columns) return; /* no row has said which there are, or none has a value */
    size_t *width = smoe_alloc(g.columns, sizeof *width), room = paper->columns;
    for (size_t i = 0; i < g.rows * g.columns; i++) {
        size_t length = smoe_text_letters(g.cell[i]);
        if (length > width[i % g.columns]) width[i % g.columns] = length;
    }
    size_t base, keys = repeated(&g, width, room, &base), from = keys, to;
    do {
        size_t used = base;
        for (to = from; to < g.columns; to++) {
            used += 2 + width[to];
            if (room && used > room && to > from) break;
        }
        if (from > keys) fputc('\n', out);
        print_part(&g, width, keys, from, to, out, paper->bold);
        from = to;
    } while (to < g.columns && !paper->cut);
    free(width);
}

/* ---- text ------------------------------------------------------------------------------------ */

void smoe_paper_wrap(FILE *out, const char *text, size_t at, const smoe_paper *paper) {
    enum { LEAST = 20 }; /* columns that are worth breaking for */
    size_t columns = paper->columns, used = at;
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

/* The label of a line; NULL: of none, or of an item that is no line. */
static const char *label_of(const smoe_item *item) {
    if (item->kind == SMOE_ITEM_LINE) return item->key;
    bool fact = item->kind == SMOE_ITEM_FACT && item->fact.where & SMOE_IN_TEXT;
    bool none = item->fact.words ? !item->datum.text : isnan(item->datum.number);
    return fact && !none ? item->fact.heading : NULL;
}

/* The width of the labels of a result. */
static size_t labels_width(const smoe_result *result) {
    size_t width = 0;
    for (size_t i = 0; i < result->items; i++) {
        const char *label = label_of(&result->item[i]);
        size_t length = label ? smoe_text_letters(label) : 0;
        if (length > width) width = length;
    }
    return width;
}

static void print_line(const smoe_item *item, size_t width, FILE *out, const smoe_paper *paper) {
    char number[64];
    const char *label = label_of(item);
    const char *text = item->kind == SMOE_ITEM_LINE
                           ? item->text
                           : smoe_column_print(number, sizeof number, &item->fact, item->datum);
    SMOE_FREED char *shown = shown_copy(text);
    if (label) fprintf(out, "%s%*s", label, (int)(width + 2 - smoe_text_letters(label)), "");
    smoe_paper_wrap(out, shown, label ? width + 2 : 0, paper);
}

static void print_title(const char *title, FILE *out, const smoe_paper *paper) {
    SMOE_FREED char *line = smoe_text_format("%s:", title);
    smoe_paper_wrap(out, line, 0, paper);
}

static void print_table(const smoe_frame *frame, FILE *out, const smoe_paper *paper) {
    if (frame->title) print_title(frame->title, out, paper);
    smoe_frame_print(frame, out, paper);
    if (frame->hidden && frame->name)
        fprintf(out, "... and %zu more row%s (%s.csv)\n", frame->hidden, SMOE_S(frame->hidden),
                frame->name);
}

static bool is_printed(const smoe_frame *frame, unsigned where) {
    bool some = false;
    for (size_t c = 0; c < frame->columns; c++) some |= (frame->column[c].where & where) != 0;
    return some && frame->rows;
}

/* What was printed last: between lines and tables, and around parts, there is an empty line. */
typedef enum printed { NOTHING, A_LINE, A_TABLE, A_PART } printed;

static void print_items(const smoe_result *result, FILE *out, const smoe_paper *paper,
                        printed *last) {
    size_t width = labels_width(result);
    if (width < paper->labels) width = paper->labels;
    if (*last) *last = A_PART;
    if (result->title) {
        if (*last) fputc('\n', out);
        print_title(result->title, out, paper);
        *last = A_LINE;
    }
    for (size_t i = 0; i < result->items; i++) {
        const smoe_item *item = &result->item[i];
        const smoe_frame *frame = item->printed ? item->table : NULL;
        bool line = item->kind == SMOE_ITEM_LINE || label_of(item);
        if (item->kind == SMOE_ITEM_OBJECT) continue;
        if (item->part) print_items(item->part, out, paper, last);
        if (item->part && *last) *last = A_PART;
        if (!(frame && is_printed(frame, SMOE_IN_TEXT)) && !line) continue;
        if (*last && (frame || *last != A_LINE)) fputc('\n', out);
        if (frame)
            print_table(frame, out, paper);
        else
            print_line(item, width, out, paper);
        *last = frame ? A_TABLE : A_LINE;
    }
}

void smoe_result_print(const smoe_result *result, FILE *out, const smoe_paper *paper) {
    printed last = NOTHING;
    print_items(result, out, paper, &last);
}

/* ---- Markdown -------------------------------------------------------------------------------- */

/* A text that is no markup, neither of Markdown nor of HTML. */
static void print_put_text(const char *text, FILE *out) {
    SMOE_FREED char *shown = shown_copy(text);
    for (const char *c = shown; *c; c++)
        if (*c == '<')
            fputs("&lt;", out);
        else if (*c == '&')
            fputs("&amp;", out);
        else
            fprintf(out,
                    strchr("\\`*|", *c) || (*c == '(' && c > shown && c[-1] == ']') ? "\\%c" : "%c",
                    *c);
}

static void put_table(const smoe_frame *frame, FILE *out) {
    SMOE_FREED_BY(grid_free) grid g = grid_of(frame, SMOE_IN_MARKDOWN);
    for (size_t row = 0; row < g.rows; row++) {
        fputc('|', out);
        for (size_t c = 0; c < g.columns; c++) {
            fputc(' ', out);
            print_put_text(g.cell[row * g.columns + c], out);
            fputs(" |", out);
        }
        for (size_t c = 0; c < g.columns && !row; c++)
            fputs(c ? g.column[c]->words ? " --- |" : " ---: |" : "\n| --- |", out);
        fputc('\n', out);
    }
}

/* A paragraph, or a heading. */
static void put_block(const char *text, FILE *out, int level) {
    if (level) fprintf(out, "%.*s ", level, "######");
    print_put_text(text, out);
    fputs("\n\n", out);
}

void smoe_result_markdown(const smoe_result *result, FILE *out, int level) {
    if (result->title) put_block(result->title, out, level++);
    for (size_t i = 0; i < result->items; i++) {
        const smoe_item *item = &result->item[i];
        const smoe_frame *frame = item->table;
        if (item->kind == SMOE_ITEM_PART) smoe_result_markdown(item->part, out, level);
        if (item->kind == SMOE_ITEM_LINE) put_block(item->text, out, 0);
        if (!frame || !is_printed(frame, SMOE_IN_MARKDOWN)) continue;
        if (frame->title) put_block(frame->title, out, level);
        if (frame->caption) put_block(frame->caption, out, 0);
        put_table(frame, out);
        fputc('\n', out);
    }
}
