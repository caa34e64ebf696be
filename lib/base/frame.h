/*
 * Frames: tables of results with a name, a title and a caption, to be written to files and drawn as
 * figures. Columns hold numbers or text. A row is added as a whole, with its cells named by their
 * columns, and every row is checked against the columns. A wrong row, or a lack of memory, is
 * remembered and reported when the frame is written.
 */
#ifndef SMOE_FRAME_H
#define SMOE_FRAME_H

#include "base/base.h"

#include <jansson.h>

typedef union smoe_datum {
    double number;    /* NAN: none */
    const char *text; /* belongs to the frame */
} smoe_datum;

typedef struct smoe_column {
    const char *name;
    bool text; /* else numbers */
} smoe_column;

/* A cell of a row that is being put: with text for a column of text, else a number. */
typedef struct smoe_frame_cell {
    const char *column;
    double number; /* NAN: none */
    const char *text;
} smoe_frame_cell;

typedef struct smoe_frame {
    const char *name;    /* "dispatch_bands": of its file, and of its member in JSON; borrowed */
    const char *title;   /* for a heading; borrowed */
    const char *caption; /* a sentence: what is measured, and where the papers show it; borrowed */
    smoe_column *column; /* [columns] */
    size_t columns, rows;
    smoe_datum *datum; /* [rows,columns] */
    size_t room;       /* rows there is memory for */
    char **kept;       /* [texts] what columns and text cells point to */
    size_t texts, text_room;
    bool failed;    /* out of memory, or a wrong row: nothing more is added */
    char wrong[96]; /* what is wrong with the first wrong row; "" where memory ran out */
} smoe_frame;

/* An empty frame. `columns` ends with one without a name; NULL: they are added one by one. The
 * frame's name, title and caption must outlive it. */
void smoe_frame_init(smoe_frame *frame, const char *name, const char *title, const char *caption,
                     const smoe_column *columns);
void smoe_frame_column(smoe_frame *frame, const char *name, bool text); /* before the first row */
void smoe_frame_free(smoe_frame *frame);

/* Adds a row. Every column has one cell, in any order; text is copied. A cell that is missing, is
 * given twice, has no column or is of the other kind makes the frame fail. */
void smoe_frame_row(smoe_frame *frame, const smoe_frame_cell *cell, size_t cells);
/* The same with the cells written out:
 * smoe_frame_put(f, {"run", .text = name}, {"block", .number = 3}). */
#define smoe_frame_put(frame, ...)                                \
    smoe_frame_row(frame, (const smoe_frame_cell[]){__VA_ARGS__}, \
                   sizeof((const smoe_frame_cell[]){__VA_ARGS__}) / sizeof(smoe_frame_cell))

/* A row of columns that are known at run time only, made cell by cell and then put, which frees it.
 * Texts must live until then. */
typedef struct smoe_frame_cells {
    smoe_frame_cell *cell; /* NULL: out of memory */
    size_t cells, room;
} smoe_frame_cells;
smoe_frame_cells smoe_frame_cells_open(smoe_frame *frame);
void smoe_frame_cells_number(smoe_frame_cells *row, const char *column, double number);
void smoe_frame_cells_text(smoe_frame_cells *row, const char *column, const char *text);
void smoe_frame_cells_put(smoe_frame_cells *row, smoe_frame *frame);

/* SMOE_RUNTIME where the frame has failed, saying why. */
int smoe_frame_check(const smoe_frame *frame, smoe_err *err) SMOE_MUST_CHECK;

/* The frame with that name, or NULL. */
const smoe_frame *smoe_frames_find(const smoe_frame *frames, size_t count, const char *name);

/* The column with that name, or SIZE_MAX. */
size_t smoe_frame_find(const smoe_frame *frame, const char *name);
double smoe_frame_number_at(const smoe_frame *frame, size_t row, size_t column);
const char *smoe_frame_text_at(const smoe_frame *frame, size_t row, size_t column);

/* Writes comma-separated values to a file that is complete or absent: a heading, then the rows.
 * Numbers give the same double when read again; NAN and infinities are empty; text is quoted where
 * necessary. */
int smoe_frame_csv(const smoe_frame *frame, const char *path, smoe_err *err) SMOE_MUST_CHECK;

/* {"title", "caption", "columns": [names], "rows": [[cells]]}, null for values that are not
 * numbers; NULL when out of memory. */
json_t *smoe_frame_json(const smoe_frame *frame);

#endif
