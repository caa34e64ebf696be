/*
 * gnuplot: scripts are kept, and made into SVG where gnuplot is installed. Figures of lines with
 * error bars, whose scripts have their data in them; figures.h draws from tables.
 */
#ifndef SMOE_GNUPLOT_H
#define SMOE_GNUPLOT_H

#include "base/base.h"

#include <stdio.h>

typedef struct smoe_figure_point {
    double x, y;
    double error;      /* half the length of the bar; NAN or 0: none */
    const char *label; /* on the x axis, for categories; NULL: the number */
} smoe_figure_point;

typedef struct smoe_figure_line {
    const char *title; /* NULL: not in the key */
    smoe_figure_point *point;
    size_t points;
} smoe_figure_line;

typedef struct smoe_figure {
    const char *title, *x_label, *y_label; /* plain text */
    bool log_x;
    smoe_figure_line *line;
    size_t lines;
} smoe_figure;

/* Writes FOLDER/NAME.gp and, by running gnuplot on it in FOLDER, FOLDER/NAME.svg. *drawn says
 * whether the SVG came out: without gnuplot it does not, and the script is left to be drawn
 * elsewhere. */
int smoe_figure_write(const smoe_figure *figure, const char *folder, const char *name, bool *drawn,
                      smoe_err *err) SMOE_MUST_CHECK;

/* The same for a script already written: FOLDER/NAME.gp and, where gnuplot makes it, NAME.svg. */
int smoe_gnuplot_draw(const char *folder, const char *name, const char *script, size_t size,
                      bool *drawn, smoe_err *err) SMOE_MUST_CHECK;

/* A string of gnuplot's language: quoted, on one line. */
void smoe_gnuplot_text(FILE *out, const char *text);

#endif
