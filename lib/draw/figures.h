/*
 * The figures of smoe inspect: rows of figures.def, each drawn from one table as an SVG by gnuplot.
 * The script is kept beside the table and reads it (of CUMULATIVE, it holds the steps), so that it
 * can be changed and run by hand; the report draws the same rows for itself.
 */
#ifndef SMOE_FIGURES_H
#define SMOE_FIGURES_H

#include "base/frame.h"

typedef enum smoe_figure_kind {
    SMOE_FIGURE_LINES,
    SMOE_FIGURE_STEPS,
    SMOE_FIGURE_HISTOGRAM,
    SMOE_FIGURE_CUMULATIVE,
    SMOE_FIGURE_BANDS,
    SMOE_FIGURE_BARS,
    SMOE_FIGURE_HEAT
} smoe_figure_kind;

enum { SMOE_FIGURE_SIGNED = 1, SMOE_FIGURE_STACKED = 2, SMOE_FIGURE_ZERO = 4 };

/* A row of figures.def, which says what each field means; "" where there is none. */
typedef struct smoe_figure_row {
    const char *name;
    smoe_figure_kind kind;
    const char *frame, *panel, *x, *y, *z, *x_name, *y_name, *x_title, *y_title;
    int flags;
} smoe_figure_row;

/* The i-th row; NULL past the last. */
const smoe_figure_row *smoe_figure_row_at(size_t i);

/* "lines", "heat" ... */
const char *smoe_figure_kind_name(smoe_figure_kind kind);

/* The i-th of the names in a list with blanks between ("bits by_chance"), copied to buf and
 * returned; NULL past the last. */
const char *smoe_figure_word(const char *list, size_t i, char *buf, size_t size);

/* The i-th row of words.def, then of the metrics, its words in *shown; NULL past the last. */
const char *smoe_figure_words(size_t i, const char **shown);

/* A name in words, by words.def, as a metric or with blanks for underscores; in buf where it must
 * be made. */
const char *smoe_figure_say(const char *name, char *buf, size_t size);

/* Writes FOLDER/NAME.gp for every row whose frame has rows to draw, and has gnuplot make
 * FOLDER/NAME.svg of it; both go where there is nothing to draw. FOLDER must hold the frames' CSV
 * files, FOLDER/FRAME.csv. *scripts and *drawn: how many of each came out; fewer drawn than
 * scripts: gnuplot is missing or failed. */
int smoe_figures_write(const smoe_frame *frames, size_t count, const char *folder, size_t *scripts,
                       size_t *drawn, smoe_err *err) SMOE_MUST_CHECK;

#endif
