/* A figure of lines with error bars in one panel, drawn from numbers: the figure of a sweep. */
#ifndef SMOE_CHART_H
#define SMOE_CHART_H

#include "base/base.h"

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
    double level;            /* a dashed line at this y, as level_title in the key */
    const char *level_title; /* NULL: none */
    bool share;              /* y, and so the bars, are from 0 to 1 */
    double width;            /* inches, for a paper (plot.h); 0: for a screen */
} smoe_chart;

/* Writes FOLDER/NAME.gp and, by running gnuplot on it in FOLDER, FOLDER/NAME.svg, and NAME.pdf for
 * a paper. *drawn says whether they came out: without gnuplot they do not, and the script is left
 * to be drawn elsewhere. */
int smoe_chart_write(const smoe_chart *chart, const char *folder, const char *name, bool *drawn,
                     smoe_err *err) SMOE_MUST_CHECK;

#endif
