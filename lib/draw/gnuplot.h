/* gnuplot: scripts are always written; pictures are made from them if gnuplot is installed. */
#pragma once

#include "base/file.h"

/* Writes FOLDER/NAME.gp by `print` and, by running gnuplot on it in FOLDER, FOLDER/NAME.svg and,
 * with pdf, FOLDER/NAME.pdf. *drawn says whether they came out: without gnuplot they do not, and
 * the script is left to be drawn elsewhere. Pictures of an earlier script are removed. The script
 * draws PDF where the variable `pdf` exists. */
int smoe_gnuplot_draw(const char *folder, const char *name, smoe_file_printer *print,
                      const void *context, bool pdf, bool *drawn, smoe_err *err) SMOE_MUST_CHECK;

/* A picture that gnuplot wrote: if it is not complete, it is removed, and this fails. */
int smoe_gnuplot_check(const char *path, smoe_err *err) SMOE_MUST_CHECK;

/* Whether gnuplot did not end in SMOE_GNUPLOT_MOST seconds and was killed. Then no further figure
 * is drawn. */
enum { SMOE_GNUPLOT_MOST = 60 };
bool smoe_gnuplot_hung(void);

/* Removes the script NAME and its pictures. */
int smoe_gnuplot_remove(const char *folder, const char *name, smoe_err *err) SMOE_MUST_CHECK;

/* A string of gnuplot's language: quoted, on one line. */
void smoe_gnuplot_text(FILE *out, const char *bytes);

/* The words and place of a tick. gnuplot takes such words for a format of numbers. */
void smoe_gnuplot_tick(FILE *out, const char *bytes, double at);

/* The output of a script: NAME.svg of that size in pixels, 96 per inch, NAME.pdf where the variable
 * `pdf` exists; with pictures in the SVG itself. */
void smoe_gnuplot_terminal(FILE *out, const char *name, double width, double height, int font,
                           bool pictures);

/* For a picture of so many pixels: axes without marks that count them from below, above a share
 * `below` of the height. And a word in front of it, "left" or "center" of a place. */
void smoe_gnuplot_canvas(FILE *out, size_t width, size_t height, double below);
void smoe_gnuplot_label(FILE *out, const char *text, double x, double y, const char *how);
