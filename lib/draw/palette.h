/*
 * The colours of figures, defined once: by day, also for print, and by night, for the report on
 * a dark screen. In the order of lib/draw, each file using only those before it: palette, words,
 * page_part, page, png; gnuplot, plot, plot_gnuplot; chart; figures_rows, figures;
 * overlay, report_data, report.
 */
#ifndef SMOE_PALETTE_H
#define SMOE_PALETTE_H

#include "base/base.h"

typedef struct smoe_colour {
    enum {
        SMOE_INK,     /* of the text */
        SMOE_SERIES,  /* number `at` of colours that are far apart */
        SMOE_ORDERED, /* the place `at`, 0 to 1, on a ramp: layers, choices */
        SMOE_BAND     /* number `at` of the shades of nested bands, the widest first */
    } kind;
    double at;
} smoe_colour;

enum { SMOE_COLOUR_TEXT = 8 }; /* bytes of "#1f6fb2" */

const char *smoe_colour_text(smoe_colour colour, bool night, char buf[SMOE_COLOUR_TEXT]);

/* The stops of a colour scale, from the least to the most; diverging: the middle one is neutral. */
enum { SMOE_SCALE_STOPS = 5 };
const char *smoe_scale_text(size_t stop, bool diverging, bool night, char buf[SMOE_COLOUR_TEXT]);

#endif
