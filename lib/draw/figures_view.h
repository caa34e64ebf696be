/*
 * A figure being drawn: what figures.c, which lays it out, shares with those that know its rows
 * (figures_rows.c), its marks (figures_kinds.c), and its axes and heat maps (figures_axes.c).
 */
#ifndef SMOE_FIGURES_VIEW_H
#define SMOE_FIGURES_VIEW_H

#include "draw/figures.h"

#include <stdio.h>

enum {
    SMOE_DRAWING_NAME = 64,  /* bytes of a column name */
    SMOE_DRAWING_LABEL = 256 /* bytes of a title */
};

/* Rows that belong together. */
typedef struct smoe_span {
    size_t first, last; /* rows in between may belong to other panels or lines */
    bool whole;         /* true: all rows from first to last belong to it */
} smoe_span;

/* A mark is what the key has an entry for: a line, a band, bars of one colour; of every line of the
 * panels, which differ in z, there is one for each of the columns of y, or as many as the kind
 * says. */
typedef struct smoe_drawing {
    const struct smoe_mark_kind *kind;
    const smoe_frame *f;
    const smoe_figure_row *row;
    const char *z;        /* of the row; without `run` where there is one only */
    smoe_span *panel;     /* [panels] */
    size_t *line;         /* [lines] rows of the frame that begin them */
    size_t panels, lines; /* lines: at least 1 */
    size_t each;          /* marks of a line */
    double *value;        /* [rows of the frame] room for those of a mark */
} smoe_drawing;

typedef struct smoe_mark_kind {
    const char *name;
    const char *style; /* of lines, after `with` */
    size_t marks;      /* of a line; 0: those of its columns of y */
    /* Data that the table does not hold as they are drawn, ahead of the plot; NULL: none. */
    void (*put_block)(FILE *out, const smoe_drawing *d, const smoe_span *rows, size_t m);
    /* Columns of data for mark m, then how it is drawn, then its entry in the key ("": none). */
    void (*put_data)(FILE *out, const smoe_drawing *d, const smoe_span *rows, size_t m);
    void (*put_style)(FILE *out, const smoe_drawing *d, size_t m);
    void (*entry)(const smoe_drawing *d, size_t m, char text[SMOE_DRAWING_LABEL]);
} smoe_mark_kind;

/* By smoe_figure_kind. */
extern const smoe_mark_kind smoe_mark_kinds[];

/* ---- rows ------------------------------------------------------------------------------------ */

/* Do two rows agree in a column; in every column of a list? */
bool smoe_cells_agree(const smoe_frame *f, size_t column, size_t a, size_t b);
bool smoe_rows_agree(const smoe_frame *f, const char *list, size_t a, size_t b);

/* A number of the frame by the name of its column. */
double smoe_drawing_number(const smoe_drawing *d, size_t row, const char *column);

/* Fill d->panel, which has room for as many as rows; then d->line. */
void smoe_drawing_find_panels(smoe_drawing *d);
void smoe_drawing_find_lines(smoe_drawing *d);

/* The k-th column of y, in buf; NULL past the last. */
const char *smoe_drawing_y(const smoe_drawing *d, size_t k, char buf[SMOE_DRAWING_NAME]);

/* Is row r one of the panel that begins at row `panel`, and of the line that begins at `line`? */
bool smoe_drawing_has(const smoe_drawing *d, size_t panel, size_t line, size_t r);

/* The rows of a panel that have something for mark m; false where there are none. */
bool smoe_drawing_rows(const smoe_drawing *d, const smoe_span *panel, size_t m, smoe_span *rows);

/* The least and the largest number of some columns in a panel, or in all (NULL); both 0 where there
 * is none. Returns whether all are whole. */
bool smoe_drawing_range(const smoe_drawing *d, const char *list, const smoe_span *p, double *low,
                        double *high);

/* ---- into a script --------------------------------------------------------------------------- */

/* The file, its rows, and X, which is no number in rows of others: gnuplot leaves those out. */
void smoe_drawing_put_rows(FILE *out, const smoe_drawing *d, const smoe_span *rows);

/* What sets the rows of a list of columns apart, in words: "soft, block 3". Of a long name of a run
 * its last `most` bytes. */
void smoe_drawing_say_row(const smoe_frame *f, const char *list, size_t row, size_t most,
                          char text[SMOE_DRAWING_LABEL]);

/* Ranges and ticks of a panel that is no heat map. */
void smoe_drawing_put_axes(FILE *out, const smoe_drawing *d, const smoe_span *p);

/* Axes and cells of a heat map. All panels have one scale, from 0 unless all cells are nearly
 * alike: then what differs would not be seen. */
void smoe_drawing_put_heat(FILE *out, const smoe_drawing *d, const smoe_span *p);

#endif
