/*
 * gnuplot: scripts are kept, and made into SVG where gnuplot is installed. Figures of lines with
 * error bars, whose scripts have their data in them; figures.h draws from tables.
 */
#ifndef SMOE_GNUPLOT_H
#define SMOE_GNUPLOT_H

#include "base/file.h"

typedef struct smoe_chart_point {
    double x, y;
    double error;      /* half the length of the bar; NAN or 0: none */
    const char *label; /* on the x axis, for categories; NULL: the number */
} smoe_chart_point;

typedef struct smoe_chart_line {
    const char *title; /* NULL: not in the key */
    smoe_chart_point *point;
    size_t points;
} smoe_chart_line;

typedef struct smoe_chart {
    const char *title, *x_label, *y_label; /* plain text */
    int log_x;                             /* base of a logarithmic axis, 2 or 10; 0: linear */
    smoe_chart_line *line;
    size_t lines;
} smoe_chart;

/* Writes FOLDER/NAME.gp and, by running gnuplot on it in FOLDER, FOLDER/NAME.svg. *drawn says
 * whether the SVG came out: without gnuplot it does not, and the script is left to be drawn
 * elsewhere. */
int smoe_chart_write(const smoe_chart *chart, const char *folder, const char *name, bool *drawn,
                     smoe_err *err) SMOE_MUST_CHECK;

/* The same for a script that `print` writes: FOLDER/NAME.gp and, where gnuplot makes it, NAME.svg.
 */
int smoe_gnuplot_draw(const char *folder, const char *name, smoe_file_printer *print,
                      const void *context, bool *drawn, smoe_err *err) SMOE_MUST_CHECK;

/* The columns of a key whose longest entry has that many letters, in a picture or a part of one
 * that is `width` pixels wide, about as gnuplot finds them; at least 1. A row is SMOE_KEY_ROW
 * high. */
enum { SMOE_KEY_ROW = 20 };
size_t smoe_gnuplot_key_columns(size_t longest, size_t width);

/* A string of gnuplot's language: quoted, on one line. */
void smoe_gnuplot_text(FILE *out, const char *text);

#endif
