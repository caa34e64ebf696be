/* Tables of results; see frame.h. */
#include "base/frame.h"
#include "base/file.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ---------------------------------------------------------------------------------- */

void smoe_frame_init(smoe_frame *frame, const char *name, const char *title, const char *caption,
                     const char *columns) {
    *frame = (smoe_frame){.name = name, .title = title, .caption = caption};
    for (const char *at = columns ? columns : ""; *(at += strspn(at, " "));) {
        size_t n = strcspn(at, " ");
        bool text = at[n - 1] == '$';
        char *word = strndup(at, text ? n - 1 : n);
        if (word)
            smoe_frame_column(frame, word, text);
        else
            frame->failed = true;
        free(word);
        at += n;
    }
}

/* Room for one more of `size` bytes in a list of *room; the list stays as it is on failure. */
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

void smoe_frame_column(smoe_frame *frame, const char *name, bool text) {
    assert(!frame->data);
    char *copy = strdup(name);
    smoe_column *column = realloc(frame->column, (frame->columns + 1) * sizeof *column);
    if (column) frame->column = column;
    if (!column || !copy) {
        frame->failed = true;
        free(copy);
        return;
    }
    frame->column[frame->columns++] = (smoe_column){copy, text};
}

void smoe_frame_free(smoe_frame *frame) {
    for (size_t c = 0; c < frame->columns; c++) free(frame->column[c].name);
    for (size_t i = 0; i < frame->texts; i++) free(frame->kept[i]);
    free(frame->column);
    free(frame->kept);
    free(frame->datum);
    *frame = (smoe_frame){0};
}

static void add(smoe_frame *frame, bool text, smoe_datum datum) {
    (void)text; /* where assertions are left out */
    if (frame->failed) return;
    assert(frame->columns && frame->column[frame->data % frame->columns].text == text);
    frame->datum = grown(frame, frame->datum, frame->data, &frame->room, sizeof *frame->datum);
    if (frame->failed) return;
    frame->datum[frame->data++] = datum;
    frame->rows = frame->data / frame->columns;
}

void smoe_frame_number(smoe_frame *frame, double number) {
    add(frame, false, (smoe_datum){.number = number});
}

void smoe_frame_numbers(smoe_frame *frame, const double *number, size_t count) {
    for (size_t i = 0; i < count; i++) smoe_frame_number(frame, number[i]);
}

/* A text that repeats the one above it, as names of runs do, is kept once. */
void smoe_frame_text(smoe_frame *frame, const char *text) {
    if (frame->failed) return;
    const char *above = frame->rows ? frame->datum[frame->data - frame->columns].text : NULL;
    if (above && frame->column[frame->data % frame->columns].text && !strcmp(above, text)) {
        add(frame, true, (smoe_datum){.text = above});
        return;
    }
    frame->kept = grown(frame, frame->kept, frame->texts, &frame->text_room, sizeof *frame->kept);
    if (frame->failed) return;
    char *copy = strdup(text);
    frame->failed = !copy;
    if (!copy) return;
    frame->kept[frame->texts++] = copy;
    add(frame, true, (smoe_datum){.text = copy});
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
    if (frame->failed) return smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", path);
    return smoe_file_print(path, put_rows, frame, err);
}

json_t *smoe_number_json(double x) {
    if (!isfinite(x)) return json_null();
    return x == rint(x) && fabs(x) < 0x1p53 ? json_integer((json_int_t)x) : json_real(x);
}

/* JSON is UTF-8. A text that is not is replaced, never left out: the row would lack a cell. */
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
                                                             : smoe_number_json(datum.number));
        }
        json_array_append_new(rows, row);
    }
    return json_pack("{s:s, s:s, s:o, s:o}", "title", frame->title, "caption", frame->caption,
                     "columns", columns, "rows", rows);
}
