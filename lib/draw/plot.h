/*
 * A plot before it is drawn: panels with axes and marks, with all colours, names, ranges and ticks.
 * It is made once, from a table (figures.h) or from points, and drawn in two places
 * that make no further choices: gnuplot writes files (plot_gnuplot.c), and the page of the report
 * draws SVG (report_data.c, report_figure.js). Marks name rows and columns of the table instead of
 * copying its numbers.
 */
#pragma once

#include "base/file.h" /* what most files of this room use */
#include "base/frame.h"

/* ---- colours --------------------------------------------------------------------------------- */

/* By day, also for print, and by night, for the report on a dark screen. */
typedef struct smoe_colour {
    enum {
        SMOE_INK,     /* of the text */
        SMOE_SERIES,  /* number `at` of colours that are far apart */
        SMOE_ORDERED, /* the place `at`, 0 to 1, on a ramp: layers, choices */
        SMOE_BAND     /* number `at` of the shades of nested bands, the widest first */
    } kind;
    double at;
} smoe_colour;

enum {
    SMOE_COLOURS = 6,    /* of series; then they begin again */
    SMOE_COLOUR_TEXT = 8 /* bytes of "#1f6fb2" */
};

const char *smoe_colour_text(smoe_colour colour, bool night, char buf[SMOE_COLOUR_TEXT]);

/* The stops of a colour scale, from the least to the most; diverging: the middle one is neutral. */
enum { SMOE_SCALE_STOPS = 5 };
const char *smoe_scale_text(size_t stop, bool diverging, bool night, char buf[SMOE_COLOUR_TEXT]);

/* ---- plots ----------------------------------------------------------------------------------- */

enum {
    SMOE_PLOT_TEXT = 256, /* bytes of a title or an entry of the key */
    SMOE_PLOT_LIST = 4    /* names in a list, the last of which is NULL */
};

typedef struct smoe_plot_tick {
    double at;
    char text[SMOE_PLOT_TEXT];
} smoe_plot_tick;

typedef struct smoe_plot_axis {
    char label[SMOE_PLOT_TEXT];
    double low, high; /* its ends; low > high: it points downwards or to the left */
    double step;      /* ticks are at its multiples; of a logarithmic axis at powers of the base */
    int log;          /* the base of a logarithmic axis; 0: linear */
    smoe_plot_tick *tick;
    size_t ticks; /* words in place of numbers; 0: none */
} smoe_plot_axis;

/* Rows of the table: those from first to last that have what the first has in some columns. */
typedef struct smoe_plot_rows {
    size_t first, last;
    const char *same[SMOE_PLOT_LIST];
} smoe_plot_rows;

typedef enum smoe_mark_kind {
    SMOE_MARK_LINE,
    SMOE_MARK_STEPS,
    SMOE_MARK_HISTOGRAM, /* x is the middle of a bin */
    SMOE_MARK_BAND,      /* between two columns of y */
    SMOE_MARK_BAR,       /* as high as the columns of y together */
    SMOE_MARK_CELLS,     /* a cell at x and y, in the colour of z */
    SMOE_MARK_POINTS     /* numbers of its own, with error bars */
} smoe_mark_kind;

typedef struct smoe_plot_point {
    double x, y;   /* x is the first, by which points are sorted */
    double bar[2]; /* the ends of its bar; both y: none */
} smoe_plot_point;

typedef struct smoe_mark {
    smoe_mark_kind kind;
    char name[SMOE_PLOT_TEXT]; /* in the key; "": not there */
    smoe_colour colour;
    size_t dash; /* 0: a solid line */
    smoe_plot_rows rows;
    const char *x, *y[SMOE_PLOT_LIST], *z;
    const char *error;      /* column of half the length of bars; NULL: none */
    const char *each;       /* a line for each value of this column; NULL: one line */
    smoe_plot_point *point; /* POINTS */
    size_t points;
    bool share;  /* POINTS: their y are shares */
    bool joined; /* POINTS: by a line */
    bool bare;   /* POINTS: only that line, without symbols and bars */
} smoe_mark;

typedef struct smoe_panel {
    char title[SMOE_PLOT_TEXT];
    size_t row;   /* the first one of the table */
    double block; /* the transformer block it is about; NAN: none */
    smoe_plot_axis x, y;
    smoe_mark *mark;
    size_t marks;
    bool square;  /* cells are as high as wide */
    size_t group; /* cells that belong together, along both axes; 0: none */
} smoe_panel;

/* The colours of cells: five, evenly below and above the middle. */
typedef struct smoe_plot_scale {
    char label[SMOE_PLOT_TEXT];
    double low, middle, high;
    bool diverging;
} smoe_plot_scale;

typedef struct smoe_plot {
    const char *name;        /* of its files */
    const char *title;       /* borrowed */
    const smoe_frame *table; /* NULL: its marks have numbers of their own */
    smoe_panel *panel;
    size_t panels;
    smoe_plot_scale scale;
    const char *x_name, *y_name; /* columns that name the cells' columns and rows; NULL: none */
    const char *section;         /* of the page: "layer", "across" or "training" */
} smoe_plot;

/* Fresh panels and marks, empty. smoe_plot_free frees them. */
smoe_panel *smoe_plot_panel(smoe_plot *plot);
smoe_mark *smoe_plot_mark(smoe_panel *panel);
smoe_plot_tick *smoe_plot_add_tick(smoe_plot_axis *axis);
void smoe_plot_free(smoe_plot *plot);

/* Points that no table has. A fresh mark for them, joined by a line, in the next colour. */
smoe_mark *smoe_plot_points(smoe_panel *panel);
/* Adds a point; `half` is half the length of its bar (0, NAN: none), which of a share does not
 * leave 0 to 1. */
void smoe_plot_add_point(smoe_mark *mark, double x, double y, double half, bool share);
/* The name of a place of an axis, if it has none yet; by their places. */
void smoe_plot_name(smoe_plot_axis *axis, double at, const char *name);
/* Axes with room around the outermost points and bars, so that they are not on the frame. `log`:
 * the base of that of x; 0: linear. Places with names have a unit each. */
void smoe_plot_fit(smoe_panel *panel, int log);
/* After that: a dashed line at this height, from one end of the x axis to the other: the
 * reference. */
void smoe_plot_level(smoe_panel *panel, double height);

/* The marks that the key names, each name once, in their order: the i-th; NULL past the last. */
const smoe_mark *smoe_plot_entry(const smoe_plot *plot, size_t i);

/* Whether rows a and b agree in every column of a list that ends with NULL. */
bool smoe_plot_agree(const smoe_frame *frame, const char *const *list, size_t a, size_t b);
/* Whether row r is one of the rows. */
bool smoe_plot_has(const smoe_plot *plot, const smoe_plot_rows *rows, size_t r);

/* Sets an axis to numbers from low to high, and its ticks; with `wide`, its ends are ticks. */
void smoe_plot_range(smoe_plot_axis *axis, double low, double high, bool whole, bool wide);

/* The same for shares: the axis does not leave 0 to 1. */
void smoe_plot_range_share(smoe_plot_axis *axis, double low, double high);

/* The same for a logarithmic axis of a base, with room around its ends. */
void smoe_plot_range_log(smoe_plot_axis *axis, double low, double high, int base);

/* The value of the scale at a stop of the palette. */
double smoe_plot_stop(const smoe_plot_scale *scale, size_t stop);

/* Letters and lengths that all pictures of gnuplot have, in pixels. */
enum {
    SMOE_PLOT_INCH = 96,
    SMOE_PLOT_SCREEN_FONT = 12,
    SMOE_PLOT_PAPER_FONT = 10 /* 7.5 points */
};

/* Writes FOLDER/NAME.gp and has gnuplot make FOLDER/NAME.svg of it. `width` in inches is for a
 * paper: then without a title, and also as NAME.pdf; 0: for a screen. *drawn says whether they came
 * out: without gnuplot they do not, and the script is left to be run elsewhere. It reads the table
 * as NAME.csv beside it. */
int smoe_plot_draw(const smoe_plot *plot, const char *folder, double width, bool *drawn,
                   smoe_err *err) SMOE_MUST_CHECK;
