/*
 * Frames: tables of results with a name, a title and a caption, to be written to files and drawn as
 * figures. Columns hold numbers or text; rows are added cell by cell. Lack of memory is remembered
 * and reported when the frame is written.
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
    char *name;
    bool text;
} smoe_column;

typedef struct smoe_frame {
    const char *name;     /* "dispatch_bands": of its file, and of its member in JSON; borrowed */
    const char *title;    /* for a heading; borrowed */
    const char *caption;  /* a sentence: what is measured, and where the papers show it; borrowed */
    smoe_column *column;  /* [columns] */
    size_t columns, rows; /* rows: complete ones */
    smoe_datum *datum;    /* [rows,columns] */
    size_t data, room;    /* cells held, cells there is memory for */
    char **kept;          /* [texts] what the text cells point to */
    size_t texts, text_room;
    bool failed; /* out of memory */
} smoe_frame;

/* An empty frame. `columns`: names separated by blanks; a name that ends in '$' is a text column
 * (the '$' is not part of the name); NULL or "": columns are added one by one. The strings must
 * outlive the frame. */
void smoe_frame_init(smoe_frame *frame, const char *name, const char *title, const char *caption,
                     const char *columns);
void smoe_frame_column(smoe_frame *frame, const char *name, bool text); /* before the first row */
void smoe_frame_free(smoe_frame *frame);

/* The next cell of the row that is being filled; its column must be of that kind. Text is copied.
 */
void smoe_frame_number(smoe_frame *frame, double number);
void smoe_frame_text(smoe_frame *frame, const char *text);
/* Several cells at once. */
void smoe_frame_numbers(smoe_frame *frame, const double *number, size_t count);

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

/* A number in JSON: whole numbers as integers, as long as a double represents them exactly; null
 * for NAN and infinities. NULL when out of memory. */
json_t *smoe_number_json(double x);

/* {"title", "caption", "columns": [names], "rows": [[cells]]}, null for values that are not
 * numbers; NULL when out of memory. */
json_t *smoe_frame_json(const smoe_frame *frame);

#endif
