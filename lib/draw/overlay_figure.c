/* Sheets of overlays as figures; see overlay_figure.h. */
#include "draw/overlay_figure.h"
#include "draw/gnuplot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BAR = 5 }; /* heights of a letter for the bar of shades and its words */

typedef struct script {
    const smoe_overlay_sheet *sheet;
    const char *name; /* without its folder */
    double scale;     /* pixels of the figure per pixel of the PNG */
    int font;
} script;

static double scale_of(size_t width, const smoe_plot_size *size) {
    return size->width > 0 ? size->width * SMOE_PLOT_INCH / (double)width : 1;
}

static int font_of(const smoe_plot_size *size) {
    return size->width > 0 ? SMOE_PLOT_PAPER_FONT : SMOE_PLOT_SCREEN_FONT;
}

size_t smoe_overlay_above(size_t width, const smoe_plot_size *size) {
    return (size_t)ceil(1.7 * font_of(size) / scale_of(width, size));
}

size_t smoe_overlay_across(size_t letters, const smoe_plot_size *size) {
    const double letter = 0.6 * SMOE_PLOT_PAPER_FONT; /* a usual width */
    double fit = size->width * SMOE_PLOT_INCH / ((double)(letters + 2) * letter);
    if (size->width <= 0) return SIZE_MAX; /* tiles of a screen are wide enough */
    return fit < 1 ? 1 : (size_t)fit;
}

/* Names of tiles, in the middle above them; gnuplot counts pixels from below. */
static void put_names(FILE *out, const smoe_overlay_sheet *s) {
    for (size_t i = 0; i < s->tiles; i++) {
        double left = (double)(s->gap + i % s->across * (s->tile + s->gap));
        double top = (double)(s->above + i / s->across * (s->tile + s->above));
        fputs("set label ", out);
        smoe_gnuplot_text(out, s->name[i]);
        fprintf(out, " at first %.10g,%.10g center front\n", left + (double)s->tile / 2,
                (double)s->height - top + (double)s->above * 0.42);
    }
}

/* From the darkest shade of a white patch (overlay.c) to white. */
static void put_bar(FILE *out, const script *x, double all) {
    fprintf(out,
            "set palette defined (0 '#1c1e21', 1 '#ffffff')\nset cbrange [0:1]\n"
            "set colorbox horizontal user origin 0.3,%.4f size 0.4,%.4f border\n"
            "set cbtics %s scale 0.3 offset 0,0.4\nset cblabel ",
            3.5 * x->font / all, 0.7 * x->font / all,
            x->sheet->stretched ? "('least' 0, 'largest' 1)" : "0.5");
    smoe_gnuplot_text(out, x->sheet->bar);
    fputs(" offset 0,0.5\n", out);
}

static int overlay_put_script(FILE *out, const void *context, smoe_err *err) {
    const script *x = context;
    const smoe_overlay_sheet *s = x->sheet;
    double width = (double)s->width * x->scale, height = (double)s->height * x->scale;
    double below = s->bar ? BAR * x->font : 0, all = height + below;
    (void)err;
    fprintf(out,
            "# Draws %s.svg from %s-large.png: gnuplot %s.gp; %s.pdf: gnuplot -e pdf=1 %s.gp\n",
            x->name, x->name, x->name, x->name, x->name);
    fprintf(out,
            "if (exists('pdf')) {\n"
            "    set terminal pdfcairo size %.3fin,%.3fin font 'sans,%.4g' fontscale 1 noenhanced\n"
            "    set output '%s.pdf'\n"
            "} else {\n"
            "    set terminal svg size %.0f,%.0f font 'sans,%d' noenhanced standalone background "
            "'#ffffff'\n"
            "    set output '%s.svg'\n"
            "}\n",
            width / SMOE_PLOT_INCH, all / SMOE_PLOT_INCH, x->font * 72.0 / SMOE_PLOT_INCH, x->name,
            width, all, x->font, x->name);
    fprintf(out,
            "unset border\nunset tics\nunset key\n"
            "set lmargin at screen 0\nset rmargin at screen 1\n"
            "set bmargin at screen %.4f\nset tmargin at screen 1\n"
            "set xrange [0:%zu]\nset yrange [0:%zu]\n",
            below / all, s->width, s->height);
    put_names(out, s);
    if (s->bar) put_bar(out, x, all);
    fprintf(out, "plot '%s-large.png' binary filetype=png origin=(0.5,0.5) with rgbimage%s\n",
            x->name, s->bar ? ", NaN with points palette" : "");
    return 0;
}

int smoe_overlay_figure(const smoe_overlay_sheet *sheet, const char *folder, const char *name,
                        const smoe_plot_size *size, bool *drawn, smoe_err *err) {
    const char *slash = strrchr(name, '/');
    const script x = {.sheet = sheet,
                      .name = slash ? slash + 1 : name,
                      .scale = scale_of(sheet->width, size),
                      .font = font_of(size)};
    char *inner = smoe_text_format("%s/%.*s", folder, slash ? (int)(slash - name) : 0, name);
    int status =
        smoe_gnuplot_draw(inner, x.name, overlay_put_script, &x, size->width > 0, drawn, err);
    free(inner);
    return status;
}
