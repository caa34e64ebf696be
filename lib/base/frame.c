/* Tables of results; see frame.h. */
#include "base/frame.h"
#include "base/file.h"
#include "base/json.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ---------------------------------------------------------------------------------- */

/* Makes room for one more element of `size` bytes in a list with room for *room. On failure the
 * list does not change. */
static void *grown(smoe_frame *frame, void *list, size_t count, size_t *room, size_t size) {
    if (count < *room) return list;
    size_t more = *room ? 2 * *room : 16;
    void *larger = realloc(list, more * size);
    if (!larger) {
        frame->failed = true;
        return list;
    }
    *room = more;
    return larger;
}

/* A copy that lives as long as the frame; NULL when out of memory. */
static const char *keep(smoe_frame *frame, const char *text) {
    frame->kept = grown(frame, frame->kept, frame->texts, &frame->text_room, sizeof *frame->kept);
    char *copy = frame->failed ? NULL : strdup(text);
    if (copy)
        frame->kept[frame->texts++] = copy;
    else
        frame->failed = true;
    return copy;
}

void smoe_frame_init(smoe_frame *frame, const char *name, const char *title, const char *caption,
                     const smoe_column *columns) {
    *frame = (smoe_frame){.name = name, .title = title, .caption = caption};
    for (; columns && columns->name; columns++)
        smoe_frame_column(frame, columns->name, columns->text);
}

void smoe_frame_column(smoe_frame *frame, const char *name, bool text) {
    assert(!frame->rows);
    const char *copy = keep(frame, name);
    smoe_column *column = realloc(frame->column, (frame->columns + 1) * sizeof *column);
    if (column) frame->column = column;
    frame->failed |= !column;
    if (!frame->failed) frame->column[frame->columns++] = (smoe_column){copy, text};
}

void smoe_frame_free(smoe_frame *frame) {
    for (size_t i = 0; i < frame->texts; i++) free(frame->kept[i]);
    free(frame->column);
    free(frame->kept);
    free(frame->datum);
    *frame = (smoe_frame){0};
}

/* Remembers the first thing that is wrong with a row. */
static void refuse(smoe_frame *frame, const char *problem, const char *column) {
    frame->failed = true;
    snprintf(frame->wrong, sizeof frame->wrong, "%s '%s'", problem, column);
}

/* The column of a cell, usually the one at its own position; SIZE_MAX if the cell is wrong. */
static size_t column_of(smoe_frame *frame, const smoe_frame_cell *cell, size_t place) {
    size_t c = place;
    if (c >= frame->columns || strcmp(frame->column[c].name, cell->column))
        c = smoe_frame_find(frame, cell->column);
    if (c == SIZE_MAX) {
        refuse(frame, "a row has a cell for no column,", cell->column);
    } else if (frame->column[c].text != (cell->text != NULL)) {
        refuse(frame, frame->column[c].text ? "a row has no text for" : "a row has text for",
               cell->column);
        c = SIZE_MAX;
    }
    return c;
}

/* Stores the cells of a row at their columns, in new memory after the last row; seen [columns]
 * marks those that are present. A text that repeats the one above it, such as the name of a run, is
 * stored once. */
static void place_cells(smoe_frame *frame, bool *seen, const smoe_frame_cell *cell, size_t cells) {
    smoe_datum *row = frame->datum + frame->rows * frame->columns;
    for (size_t i = 0; i < cells && !frame->failed; i++) {
        size_t c = column_of(frame, &cell[i], i);
        if (c == SIZE_MAX) return;
        if (seen[c]) refuse(frame, "a row has two cells for", cell[i].column);
        seen[c] = true;
        const char *above = cell[i].text && frame->rows ? (row - frame->columns)[c].text : NULL;
        if (!cell[i].text)
            row[c].number = cell[i].number;
        else
            row[c].text = above && !strcmp(above, cell[i].text) ? above : keep(frame, cell[i].text);
    }
    for (size_t c = 0; c < frame->columns && !frame->failed; c++)
        if (!seen[c]) refuse(frame, "a row has no cell for", frame->column[c].name);
}

void smoe_frame_row(smoe_frame *frame, const smoe_frame_cell *cell, size_t cells) {
    if (frame->failed) return;
    bool *seen = calloc(frame->columns + 1, sizeof *seen);
    frame->failed = !seen;
    frame->datum = grown(frame, frame->datum, frame->rows, &frame->room,
                         frame->columns * sizeof *frame->datum);
    if (!frame->failed) place_cells(frame, seen, cell, cells);
    if (!frame->failed) frame->rows++;
    free(seen);
}

/* There is room for one cell more than there are columns, so that an extra cell is detected. */
smoe_frame_cells smoe_frame_cells_open(smoe_frame *frame) {
    smoe_frame_cells row = {.room = frame->columns + 1};
    row.cell = calloc(row.room, sizeof *row.cell);
    frame->failed |= !row.cell;
    return row;
}

void smoe_frame_cells_number(smoe_frame_cells *row, const char *column, double number) {
    if (row->cell && row->cells < row->room)
        row->cell[row->cells++] = (smoe_frame_cell){column, .number = number};
}

void smoe_frame_cells_text(smoe_frame_cells *row, const char *column, const char *text) {
    if (row->cell && row->cells < row->room)
        row->cell[row->cells++] = (smoe_frame_cell){column, .text = text};
}

void smoe_frame_cells_put(smoe_frame_cells *row, smoe_frame *frame) {
    smoe_frame_row(frame, row->cell, row->cells);
    free(row->cell);
    *row = (smoe_frame_cells){0};
}

int smoe_frame_check(const smoe_frame *frame, smoe_err *err) {
    if (!frame->failed) return 0;
    return smoe_fail(err, SMOE_RUNTIME, "the table %s: %s", frame->name,
                     *frame->wrong ? frame->wrong : "out of memory");
}

/* ---- reading --------------------------------------------------------------------------------- */

const smoe_frame *smoe_frames_find(const smoe_frame *frames, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (!strcmp(frames[i].name, name)) return &frames[i];
    return NULL;
}

size_t smoe_frame_find(const smoe_frame *frame, const char *name) {
    for (size_t c = 0; c < frame->columns; c++)
        if (!strcmp(frame->column[c].name, name)) return c;
    return SIZE_MAX;
}

double smoe_frame_number_at(const smoe_frame *frame, size_t row, size_t column) {
    assert(row < frame->rows && column < frame->columns && !frame->column[column].text);
    return frame->datum[row * frame->columns + column].number;
}

const char *smoe_frame_text_at(const smoe_frame *frame, size_t row, size_t column) {
    assert(row < frame->rows && column < frame->columns && frame->column[column].text);
    return frame->datum[row * frame->columns + column].text;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_text(FILE *out, const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

/* With the fewest digits, from 15 on, that give the same double again. */
static void put_number(FILE *out, double x) {
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x) break;
    }
    fputs(text, out);
}

static int put_rows(FILE *out, const void *context, smoe_err *err) {
    const smoe_frame *frame = context;
    (void)err;
    for (size_t c = 0; c < frame->columns; c++) {
        if (c) fputc(',', out);
        put_text(out, frame->column[c].name);
    }
    fputc('\n', out);
    for (size_t i = 0; i < frame->rows * frame->columns; i++) {
        size_t c = i % frame->columns;
        smoe_datum datum = frame->datum[i];
        if (c) fputc(',', out);
        if (frame->column[c].text)
            put_text(out, datum.text);
        else if (isfinite(datum.number))
            put_number(out, datum.number);
        if (c + 1 == frame->columns) fputc('\n', out);
    }
    return 0;
}

int smoe_frame_csv(const smoe_frame *frame, const char *path, smoe_err *err) {
    if (smoe_frame_check(frame, err)) return -1;
    return smoe_file_print(path, put_rows, frame, err);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* JSON is UTF-8. Text that is not valid UTF-8 is replaced and never left out, because the row would
 * then lack a cell. */
static json_t *text_json(const char *text) {
    char shown[256];
    json_t *exact = json_string(text);
    return exact ? exact : json_string(smoe_text_shown(text, shown, sizeof shown));
}

json_t *smoe_frame_json(const smoe_frame *frame) {
    if (frame->failed) return NULL;
    json_t *columns = json_array(), *rows = json_array();
    for (size_t c = 0; c < frame->columns; c++)
        json_array_append_new(columns, json_string(frame->column[c].name));
    for (size_t r = 0; r < frame->rows; r++) {
        json_t *row = json_array();
        for (size_t c = 0; c < frame->columns; c++) {
            smoe_datum datum = frame->datum[r * frame->columns + c];
            json_array_append_new(row, frame->column[c].text ? text_json(datum.text)
                                                             : smoe_json_of_number(datum.number));
        }
        json_array_append_new(rows, row);
    }
    return json_pack("{s:s, s:s, s:o, s:o}", "title", frame->title, "caption", frame->caption,
                     "columns", columns, "rows", rows);
}
