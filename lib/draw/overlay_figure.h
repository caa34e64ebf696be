/* A sheet of overlays as a figure: its PNG with names above the tiles and a bar of shades, drawn by
 * gnuplot. Only for overlay.c. */
#ifndef SMOE_OVERLAY_FIGURE_H
#define SMOE_OVERLAY_FIGURE_H

#include "draw/plot.h"

enum { SMOE_OVERLAY_NAME = 32 }; /* bytes of the name of a tile */

/* Pixels of the PNG: tiles are `tile` wide and high, `gap` apart, with `above` over each row. */
typedef struct smoe_overlay_sheet {
    size_t width, height, across, tile, gap, above, tiles;
    char (*name)[SMOE_OVERLAY_NAME]; /* [tiles] */
    const char *bar;                 /* what the shades mean; NULL: no bar */
    bool stretched;                  /* they go from the least to the largest weight */
} smoe_overlay_sheet;

/* The pixels above a row of tiles that its names need, of a sheet that is so wide. */
size_t smoe_overlay_above(size_t width, const smoe_plot_size *size);

/* So many tiles side by side that their names, of at most so many letters, are apart. */
size_t smoe_overlay_across(size_t letters, const smoe_plot_size *size);

/* FOLDER/NAME.gp and .svg, and .pdf for a paper, from FOLDER/NAME-large.png; see
 * smoe_gnuplot_draw. */
int smoe_overlay_figure(const smoe_overlay_sheet *sheet, const char *folder, const char *name,
                        const smoe_plot_size *size, bool *drawn, smoe_err *err) SMOE_MUST_CHECK;

#endif
