/*
 * The figures of smoe inspect: entries of figures.def, each of the table of its name. A figure
 * becomes a plot (plot.h), which gnuplot draws beside the tables and the report draws in its page.
 * And names in words, by words.def.
 */
#pragma once

#include "draw/plot.h"

typedef enum smoe_figure_kind {
    SMOE_FIGURE_LINES,
    SMOE_FIGURE_STEPS,
    SMOE_FIGURE_HISTOGRAM,
    SMOE_FIGURE_BANDS,
    SMOE_FIGURE_BARS,
    SMOE_FIGURE_HEAT
} smoe_figure_kind;

/* An entry of figures.def, which says what each field means. Lists end with the first NULL. */
typedef struct smoe_figure_entry {
    const char *name;
    smoe_figure_kind kind;
    const char *panel[SMOE_PLOT_LIST], *line[SMOE_PLOT_LIST], *y[SMOE_PLOT_LIST],
        *error[SMOE_PLOT_LIST];
    const char *x, *each, *colour;
    const char *x_name, *y_name, *group;
    const char *x_title, *y_title;
    bool zero, share, ratio, separate, around_zero, around_one;
} smoe_figure_entry;

/* The i-th entry; NULL past the last. */
const smoe_figure_entry *smoe_figure_at(size_t i);

/* The entry of that name, or NULL. */
const smoe_figure_entry *smoe_figure_find(const char *name);

/* The plot of an entry, without panels where its table is not there or has nothing to draw. Free it
 * in any case. */
void smoe_figure_plot(smoe_plot *plot, const smoe_figure_entry *entry, const smoe_frame *frames,
                      size_t count);

/* Draws every figure whose table has rows to draw, in a folder that must hold the frames' CSV
 * files, FOLDER/FRAME.csv; files of figures that are not drawn are removed. *scripts and *drawn
 * are the numbers of scripts and of drawings; fewer drawings: gnuplot is missing or failed. */
int smoe_figures_write(const smoe_frame *frames, size_t count, const char *folder, double width,
                       size_t *scripts, size_t *drawn, smoe_err *err) SMOE_MUST_CHECK;

/* ---- words ----------------------------------------------------------------------------------- */

/* The i-th entry of words.def, then of the metrics, its words in *shown; NULL past the last. */
const char *smoe_words_at(size_t i, const char **shown);

/* A name in words, by words.def, as a metric or with blanks for underscores; in buf where it must
 * be made. */
const char *smoe_words_of(const char *name, char *buf, size_t size);

/* A key of the spec in words: its entry, or its last part with blanks for underscores. */
const char *smoe_words_of_key(const char *key, char *buf, size_t size);
