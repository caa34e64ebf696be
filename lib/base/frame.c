/* Tables of results; see frame.h. */
#include "base/frame.h"
#include "base/file.h"
#include "base/json.h"

#include <assert.h>

/* ---- making ---------------------------------------------------------------------------------- */

const char *smoe_frame_keep(smoe_frame *frame, const char *text) {
    return text ? smoe_alloc_text_in(&frame->kept, text) : NULL;
}

static void add_column(smoe_frame *frame, const smoe_column *given) {
    unsigned everywhere = frame->where ? frame->where : SMOE_IN_FILES | SMOE_IN_PRINT;
    smoe_column *column = &SMOE_APPEND(frame->column, frame->columns);
    *column = *given;
    if (!given->where) column->where = given->name ? everywhere : SMOE_IN_PRINT;
    column->name = smoe_frame_keep(frame, given->name ? given->name : given->heading);
    column->heading = smoe_frame_keep(frame, given->heading);
    column->path = smoe_frame_keep(frame, given->path);
}

void smoe_frame_init(smoe_frame *frame, const char *name, const char *title, const char *caption,
                     const char *columns) {
    char word[64];
    *frame = (smoe_frame){.name = name, .title = title, .caption = caption, .given = columns};
    while (columns && smoe_text_next(&columns, ' ', word, sizeof word)) {
        bool text = smoe_text_ends(word, "*");
        if (text) word[strlen(word) - 1] = '\0';
        add_column(frame, &(const smoe_column){.name = word, .words = text});
    }
}

void smoe_frame_free(smoe_frame *frame) {
    smoe_alloc_pool_free(&frame->kept);
    free(frame->column);
    free(frame->datum);
    free(frame->hide);
    *frame = (smoe_frame){0};
}

/* Remembers the first thing that is wrong with a row. */
static void frame_refuse(smoe_frame *frame, const char *problem, const char *column) {
    frame->failed = true;
    snprintf(frame->wrong, sizeof frame->wrong, "%s '%s'", problem, column);
}

/* The place of the next cell of a row; NULL if it cannot have this column. */
static smoe_datum *next_cell(smoe_frame *frame, const smoe_column *column) {
    const char *name = column->name ? column->name : column->heading;
    assert(name);
    if (frame->failed) return NULL;
    if (!frame->given && !frame->rows && frame->cells == frame->columns) add_column(frame, column);
    size_t c = frame->cells++, used = frame->rows * frame->columns + c;
    frame->datum = smoe_alloc_next(frame->datum, used, sizeof *frame->datum);
    if (c >= frame->columns || strcmp(frame->column[c].name, name) != 0)
        frame_refuse(frame, "a row has a cell for no column,", name);
    else if (frame->column[c].words != column->words)
        frame_refuse(frame, column->words ? "a row has text for" : "a row has no text for", name);
    return frame->failed ? NULL : &frame->datum[used];
}

smoe_column smoe_column_said(const smoe_column *given) {
    smoe_column column = *given;
    column.typed |= column.is_truth;
    if (column.is_truth) column.text = column.truth ? "true" : "false";
    column.words |= column.text != NULL;
    return column;
}

/* A text that repeats the one above it, such as the name of a run, is stored once. */
static void add_cell(smoe_frame *frame, const smoe_column *given) {
    const smoe_column column = smoe_column_said(given);
    smoe_datum *cell = next_cell(frame, &column);
    if (!cell) return;
    const char *text = column.text;
    const char *above = column.words && frame->rows ? (cell - frame->columns)->text : NULL;
    if (!column.words)
        cell->number = column.number;
    else
        cell->text = above && text && !strcmp(above, text) ? above : smoe_frame_keep(frame, text);
}

void smoe_frame_add(smoe_frame *frame, const smoe_column *cell, size_t cells) {
    for (size_t i = 0; i < cells; i++) add_cell(frame, &cell[i]);
}

void smoe_frame_end(smoe_frame *frame) {
    if (frame->cells < frame->columns && !frame->failed)
        frame_refuse(frame, "a row has no cell for", frame->column[frame->cells].name);
    frame->cells = 0;
    if (!frame->failed) frame->rows++;
}

void smoe_frame_end_shown(smoe_frame *frame, bool shown) {
    if (!shown) SMOE_APPEND(frame->hide, frame->hidden) = frame->rows;
    smoe_frame_end(frame);
}

int smoe_frame_check(const smoe_frame *frame, smoe_err *err) {
    if (!frame->failed) return 0;
    return smoe_fail(err, SMOE_RUNTIME, "the table %s: %s", frame->name, frame->wrong);
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
    assert(row < frame->rows && column < frame->columns && !frame->column[column].words);
    return frame->datum[row * frame->columns + column].number;
}

const char *smoe_frame_text_at(const smoe_frame *frame, size_t row, size_t column) {
    assert(row < frame->rows && column < frame->columns && frame->column[column].words);
    return frame->datum[row * frame->columns + column].text;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Names of runs may be any bytes; a table is UTF-8. */
static void frame_put_text(FILE *out, const char *bytes) {
    SMOE_FREED char *text = smoe_text_utf8(bytes);
    bool quoted = strpbrk(text, ",\"\r\n");
    if (quoted) fputc('"', out);
    for (const char *c = text; *c; c++) {
        if (*c == '"') fputc('"', out);
        fputc(*c, out);
    }
    if (quoted) fputc('"', out);
}

static int put_rows(FILE *out, const void *context, smoe_err *err) {
    const smoe_frame *frame = context;
    (void)err;
    for (size_t r = 0; r < frame->rows + 1; r++) { /* the first is the heading */
        const char *comma = "";
        for (size_t c = 0; c < frame->columns; c++) {
            const smoe_column *column = &frame->column[c];
            if (!(column->where & SMOE_IN_CSV)) continue;
            fputs(comma, out);
            comma = ",";
            const smoe_datum *datum = r ? &frame->datum[(r - 1) * frame->columns + c] : NULL;
            if (!datum)
                frame_put_text(out, column->name);
            else if (column->words)
                frame_put_text(out, datum->text ? datum->text : "");
            else if (isfinite(datum->number))
                fprintf(out, "%.*g", smoe_text_digits(datum->number, 15), datum->number);
        }
        fputc('\n', out);
    }
    return 0;
}

int smoe_frame_csv(const smoe_frame *frame, const char *path, smoe_err *err) {
    if (smoe_frame_check(frame, err) || smoe_file_make_parents(path, err)) return -1;
    return smoe_file_print(path, put_rows, frame, err);
}

/* ---- for people ------------------------------------------------------------------------------ */

const char *smoe_column_print(char *buf, size_t size, const smoe_column *column, smoe_datum datum) {
    const char *none = column->none ? column->none : "-", *format = column->format;
    if (column->words) return datum.text ? datum.text : none;
    if (isnan(datum.number)) return none;
    if (format && !strchr(format, '%'))
        return datum.number > 0 ? smoe_text_si(buf, size, datum.number, format) : none;
    snprintf(buf, size, format ? format : "%.6g", datum.number);
    return buf;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* A value in JSON, or NULL where it is left out. */
static json_t *column_json(const smoe_column *column, smoe_datum datum) {
    bool none = column->words ? !datum.text : !isfinite(datum.number);
    if (none) return column->optional ? NULL : json_null();
    if (!column->words) return smoe_json_of_number(datum.number);
    return column->typed ? smoe_json_of_text(datum.text) : smoe_json_text(datum.text);
}

void smoe_column_set(json_t *object, const smoe_column *column, smoe_datum datum) {
    json_t *value = column_json(column, datum);
    if (value && column->plain)
        json_object_set_new(object, column->name, value);
    else if (value)
        smoe_json_put(object, column->path ? column->path : column->name, ':', value);
}

json_t *smoe_frame_records(const smoe_frame *frame) {
    if (frame->failed) return NULL;
    json_t *list = json_array();
    for (size_t r = 0; r < frame->rows; r++) {
        json_t *row = json_object();
        for (size_t c = 0; c < frame->columns; c++)
            if (frame->column[c].where & SMOE_IN_JSON)
                smoe_column_set(row, &frame->column[c], frame->datum[r * frame->columns + c]);
        json_array_append_new(list, row);
    }
    return list;
}

json_t *smoe_frame_json(const smoe_frame *frame) {
    if (frame->failed) return NULL;
    json_t *columns = json_array(), *rows = json_array();
    for (size_t r = 0; r < frame->rows + 1; r++) { /* the first is the heading */
        json_t *row = r ? json_array() : columns;
        for (size_t c = 0; c < frame->columns; c++) {
            smoe_column column = frame->column[c];
            column.optional = false;
            if (column.where & SMOE_IN_JSON)
                json_array_append_new(
                    row, r ? column_json(&column, frame->datum[(r - 1) * frame->columns + c])
                           : json_string(column.name));
        }
        if (r) json_array_append_new(rows, row);
    }
    return json_pack("{s:s, s:s, s:o, s:o}", "title", frame->title, "caption", frame->caption,
                     "columns", columns, "rows", rows);
}
