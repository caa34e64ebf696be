/*
 * Frames: tables of results with a name, a title and a caption, to be written to files, printed and
 * drawn as figures. Columns hold numbers or text, and say where and how they are shown. Every row
 * is checked against the columns. A wrong row is remembered and reported when the frame is written.
 *
 * A cell is written with its column. If the columns were not given before, the first row makes
 * them, and those after it must have the same. So a column is written once:
 *     smoe_frame_put(frame, {"metric", .text = name}, {"p", .number = p, .format = "%.2g"});
 */
#pragma once

#include "base/base.h"

#include <jansson.h>

typedef union smoe_datum {
    double number;    /* NAN: none */
    const char *text; /* belongs to the frame; NULL: none */
} smoe_datum;

/* Where a column is. Printed is what is for people: on the screen and in Markdown. */
enum {
    SMOE_IN_CSV = 1,
    SMOE_IN_JSON = 2,
    SMOE_IN_FILES = SMOE_IN_CSV | SMOE_IN_JSON,
    SMOE_IN_TEXT = 4,
    SMOE_IN_MARKDOWN = 8,
    SMOE_IN_PRINT = SMOE_IN_TEXT | SMOE_IN_MARKDOWN
};

/* A column, a cell with its column, or a single fact (base/result.h). */
typedef struct smoe_column {
    const char *name;     /* NULL: it is only printed */
    double number;        /* the value of a cell or a fact; NAN: none */
    const char *text;     /* or this one; for a text that may be NULL, none, see SMOE_TEXT_OF */
    bool words;           /* it is of text and not of numbers; also where it has a text */
    unsigned where;       /* 0: everywhere */
    const char *heading;  /* where it is printed; NULL: its name */
    const char *format;   /* of printed numbers: printf's, or a unit ("FLOP", "B", "") for numbers
                            with a prefix; NULL: "%.6g"; borrowed */
    const char *none;     /* printed where there is no value; NULL: "-"; borrowed */
    const char *path;     /* in JSON, with the objects around it: "bytes:weights"; NULL: its name */
    bool plain;           /* a name from outside: a ":" in it is a character like others */
    bool typed;           /* text that JSON has as the number or boolean that it says */
    bool optional;        /* JSON leaves it out where there is no value; else it is null */
    bool truth, is_truth; /* the value is `truth`, and not `text` */
} smoe_column;
/* Members of a cell or a fact: a text that may be NULL; a truth. */
#define SMOE_TEXT_OF(...) .words = true, .text = __VA_ARGS__
#define SMOE_TRUTH_OF(...) .is_truth = true, .truth = __VA_ARGS__

typedef struct smoe_frame {
    const char *name;    /* "dispatch_bands": of its file, and of its member in JSON; borrowed */
    const char *title;   /* for a heading; borrowed */
    const char *caption; /* a sentence: what is measured, and where the papers show it; borrowed */
    smoe_column *column; /* [columns] */
    size_t columns, rows;
    bool given;        /* the columns, before the first row */
    unsigned where;    /* of columns that say nothing; 0: everywhere */
    smoe_datum *datum; /* [rows,columns] */
    size_t cells;      /* of the row that is being added cell by cell */
    size_t keys;       /* the first columns that tell rows apart, repeated where a printed table is
                          broken; 0 counts as 1 */
    size_t hidden;     /* rows that are not on the screen */
    size_t *hide;      /* [hidden] which, in order */
    smoe_alloc_pool kept; /* what columns and text cells point to */
    bool failed;          /* a wrong row: nothing more is added */
    char wrong[96];       /* what is wrong with it */
} smoe_frame;

/* An empty frame with columns of these names, "run* block loss"; those with a * behind hold text.
 * NULL: they come with the cells. The frame's name, title and caption must outlive it, or be given
 * to smoe_frame_keep. */
void smoe_frame_init(smoe_frame *frame, const char *name, const char *title, const char *caption,
                     const char *columns);
void smoe_frame_free(smoe_frame *frame);

/* A copy that lives as long as the frame; of NULL NULL. */
const char *smoe_frame_keep(smoe_frame *frame, const char *text);

/* Adds the next cells of a row, in the order of the columns; text is copied. A cell that is
 * missing, has no column or is of the other kind makes the frame fail. */
void smoe_frame_add(smoe_frame *frame, const smoe_column *cell, size_t cells);
#define smoe_frame_cells(frame, ...)                          \
    smoe_frame_add(frame, (const smoe_column[]){__VA_ARGS__}, \
                   sizeof((const smoe_column[]){__VA_ARGS__}) / sizeof(smoe_column))
#define smoe_cell_number(frame, label, ...) smoe_frame_cells(frame, {label, .number = __VA_ARGS__})
#define smoe_cell_text(frame, label, ...) \
    smoe_frame_cells(frame, {label, SMOE_TEXT_OF(__VA_ARGS__)})
/* The row is complete. The same after its last cells, or all of them. And one that may not be on
 * the screen. */
void smoe_frame_end(smoe_frame *frame);
#define smoe_frame_put(frame, ...) (smoe_frame_cells(frame, __VA_ARGS__), smoe_frame_end(frame))
void smoe_frame_end_shown(smoe_frame *frame, bool shown);

/* SMOE_RUNTIME where the frame has failed, saying why. */
int smoe_frame_check(const smoe_frame *frame, smoe_err *err) SMOE_MUST_CHECK;

/* The frame with that name, or NULL. */
const smoe_frame *smoe_frames_find(const smoe_frame *frames, size_t count, const char *name);

/* The column with that name, or SIZE_MAX. */
size_t smoe_frame_find(const smoe_frame *frame, const char *name);
double smoe_frame_number_at(const smoe_frame *frame, size_t row, size_t column);
const char *smoe_frame_text_at(const smoe_frame *frame, size_t row, size_t column);

/* What a table is printed on. */
typedef struct smoe_paper {
    size_t columns; /* of a terminal, in which text is broken; 0: any */
    bool bold;      /* headings */
    bool cut;       /* columns of a table that have no room are left out */
    size_t labels;  /* least width of the column of labels */
} smoe_paper;

/* A table as text: the first column to the left, the others to the right, two spaces between. Where
 * columns have no room they follow below, after the keys once more, or after the first column where
 * the keys take most of the room. Columns without a value are left out. */
void smoe_frame_print(const smoe_frame *frame, FILE *out, const smoe_paper *paper);

/* Writes comma-separated values to a file that is complete or absent, and makes the folders above
 * it: a heading, then the rows.
 * Numbers give the same double when read again; NAN and infinities are empty; text is quoted where
 * necessary. */
int smoe_frame_csv(const smoe_frame *frame, const char *path, smoe_err *err) SMOE_MUST_CHECK;

/* {"title", "caption", "columns": [names], "rows": [[cells]]}, null for values that are not
 * numbers; NULL of a frame that has failed. */
json_t *smoe_frame_json(const smoe_frame *frame);
/* An object per row, [{"name": value}]. */
json_t *smoe_frame_records(const smoe_frame *frame);

/* A column whose value, if it is a truth, is the text for it. */
smoe_column smoe_column_said(const smoe_column *column);
/* A value as it is printed: the text itself, or the number in buf. */
const char *smoe_column_print(char *buf, size_t size, const smoe_column *column, smoe_datum datum);
/* Sets the member that the column is in JSON, in objects that are made where they are missing. */
void smoe_column_set(json_t *object, const smoe_column *column, smoe_datum datum);
