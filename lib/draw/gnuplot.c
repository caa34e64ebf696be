/* Figures through gnuplot; see gnuplot.h. Only its script language is relied on, version 5 and up.
 */
#include "draw/gnuplot.h"
#include "base/file.h"

#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    WIDTH = 720,  /* of a chart, in pixels */
    BESIDE = 120, /* of that beside the axes, which the key is no wider than */
    HEIGHT = 480
};

/* A single-quoted string of gnuplot: nothing is special but the quote, which is doubled. */
void smoe_gnuplot_text(FILE *out, const char *text) {
    fputc('\'', out);
    for (const char *c = text ? text : ""; *c; c++) {
        if (*c == '\'') fputc('\'', out);
        fputc((unsigned char)*c < ' ' ? ' ' : *c, out);
    }
    fputc('\'', out);
}

size_t smoe_gnuplot_key_columns(size_t longest, size_t width) {
    enum { LETTER = 8, SAMPLE = 70 }; /* pixels of a letter, and of what is beside the words */
    size_t columns = width / (longest * LETTER + SAMPLE);
    return columns ? columns : 1;
}

/* Room for a key of one row is in HEIGHT; more rows make a chart higher, so that the lines keep
 * theirs. */
static size_t height_of(const smoe_chart *chart) {
    size_t entries = 0, longest = 0;
    for (size_t i = 0; i < chart->lines; i++) {
        size_t length = chart->line[i].title ? strlen(chart->line[i].title) : 0;
        entries += length > 0;
        if (length > longest) longest = length;
    }
    size_t columns = smoe_gnuplot_key_columns(longest, WIDTH - BESIDE);
    size_t rows = (entries + columns - 1) / columns;
    return HEIGHT + (rows > 1 ? rows - 1 : 0) * SMOE_KEY_ROW;
}

static void put_data(FILE *out, const smoe_chart *chart) {
    for (size_t i = 0; i < chart->lines; i++) {
        fprintf(out, "$line%zu << END\n", i);
        for (size_t k = 0; k < chart->line[i].points; k++) {
            const smoe_chart_point *p = &chart->line[i].point[k];
            if (!isfinite(p->x) || !isfinite(p->y)) continue;
            fprintf(out, "%.10g %.10g %.10g\n", p->x, p->y, isfinite(p->error) ? p->error : 0);
        }
        fputs("END\n", out);
    }
}

/* The names of categories, each where a point has it. Are there any? */
static bool put_ticks(FILE *out, const smoe_chart *chart) {
    bool some = false;
    for (size_t i = 0; i < chart->lines; i++)
        for (size_t k = 0; k < chart->line[i].points; k++) {
            const smoe_chart_point *p = &chart->line[i].point[k];
            if (!p->label) continue;
            fputs(some ? ", " : "set xtics rotate by -30 (", out);
            smoe_gnuplot_text(out, p->label);
            fprintf(out, " %.10g",
                    nearbyint(p->x)); /* beside others, it is off by less than half */
            some = true;
        }
    if (some) fputs(")\n", out);
    return some;
}

/* Both ranges, with room around the outermost points and bars, which would else lie on the frame.
 */
static void put_ranges(FILE *out, const smoe_chart *chart) {
    double x[2] = {INFINITY, -INFINITY}, y[2] = {INFINITY, -INFINITY};
    for (size_t i = 0; i < chart->lines; i++)
        for (size_t k = 0; k < chart->line[i].points; k++) {
            const smoe_chart_point *p = &chart->line[i].point[k];
            double bar = isfinite(p->error) ? p->error : 0;
            if (!isfinite(p->x) || !isfinite(p->y)) continue;
            x[0] = fmin(x[0], p->x);
            x[1] = fmax(x[1], p->x);
            y[0] = fmin(y[0], p->y - bar);
            y[1] = fmax(y[1], p->y + bar);
        }
    if (!(x[0] <= x[1])) return; /* nothing to see */
    double wide = x[1] > x[0] ? (x[1] - x[0]) / 20 : 1, high = (y[1] - y[0]) / 20;
    if (high <= 0) high = fmax(fabs(y[1]) / 20, 1e-3);
    if (chart->log_x)
        fprintf(out, "set xrange [%.10g:%.10g]\n", x[0] / 1.2, x[1] * 1.2);
    else
        fprintf(out, "set xrange [%.10g:%.10g]\n", x[0] - wide, x[1] + wide);
    fprintf(out, "set yrange [%.10g:%.10g]\n", y[0] - high, y[1] + high);
}

/* A colour and a shape for each line; none is pale on white. */
static void put_style(FILE *out, size_t line) {
    static const char *const colour[] = {"#14548c", "#c0392b", "#2e7d32", "#8e44ad",
                                         "#d35400", "#00838f", "#5d4037", "#222222"};
    static const int shape[] = {7, 5, 9, 13, 11, 15, 6, 4, 8, 12, 10};
    fprintf(out, "linecolor rgb '%s' pointtype %d ", colour[line % 8], shape[line % 11]);
}

typedef struct named_chart {
    const smoe_chart *chart;
    const char *name;
} named_chart;

static int put_script(FILE *out, const void *context, smoe_err *err) {
    const named_chart *named = context;
    const smoe_chart *chart = named->chart;
    const char *name = named->name;
    (void)err;
    fprintf(out, "# Draws %s.svg: gnuplot %s.gp\n", name, name);
    put_data(out, chart);
    fprintf(out,
            "set terminal svg size %d,%zu font 'sans,13' noenhanced background 'white'\n"
            "set output ",
            WIDTH, height_of(chart));
    char file[300];
    snprintf(file, sizeof file, "%s.svg", name);
    smoe_gnuplot_text(out, file);
    fputs("\nset title ", out);
    smoe_gnuplot_text(out, chart->title);
    fputs("\nset xlabel ", out);
    smoe_gnuplot_text(out, chart->x_label);
    fputs("\nset ylabel ", out);
    smoe_gnuplot_text(out, chart->y_label);
    /* else the first entry of several rows touches the label of the axis */
    fputs("\nset grid\nset key below height 1\nset format '%g'\n", out);
    if (chart->log_x) fprintf(out, "set logscale x %d\n", chart->log_x);
    put_ranges(out, chart);
    bool categories = put_ticks(out, chart);
    fputs("plot", out);
    for (size_t i = 0; i < chart->lines; i++) {
        if (i) fputs(", \\\n    ", out);
        fprintf(out, " $line%zu using 1:2 with %s ", i, categories ? "points" : "linespoints");
        put_style(out, i);
        if (chart->line[i].title) {
            fputs("title ", out);
            smoe_gnuplot_text(out, chart->line[i].title);
        } else {
            fputs("notitle", out);
        }
        fprintf(out, ", \\\n     $line%zu using 1:2:3 with yerrorbars ", i);
        put_style(out, i);
        fputs("notitle", out);
    }
    fputc('\n', out);
    return 0;
}

/* gnuplot NAME.gp in the folder, silently. Whether it succeeded. */
static bool run(const char *folder, const char *script) {
    char *argv[] = {(char[]){"gnuplot"}, (char *)script, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;
    if (posix_spawn_file_actions_init(&actions)) return false;
    bool ready = !posix_spawn_file_actions_addchdir_np(&actions, folder) &&
                 !posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0) &&
                 !posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1, 0) &&
                 !posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", 1, 0);
    if (ready && !posix_spawnp(&child, "gnuplot", &actions, NULL, argv, environ))
        while (waitpid(child, &status, 0) < 0)
            if (errno != EINTR) break;
    posix_spawn_file_actions_destroy(&actions);
    return !status;
}

int smoe_gnuplot_draw(const char *folder, const char *name, smoe_file_printer *print,
                      const void *context, bool *drawn, smoe_err *err) {
    char *path = smoe_text_format("%s/%s.gp", folder, name);
    char *image = smoe_text_format("%s/%s.svg", folder, name);
    int status = -1;
    *drawn = false;
    if (!path || !image)
        smoe_fail(err, SMOE_RUNTIME, "%s/%s.gp: out of memory", folder, name);
    else
        status = smoe_file_print(path, print, context, err);
    if (!status) status = smoe_file_remove(image, err); /* an older one is of other data */
    if (!status) *drawn = run(folder, strrchr(path, '/') + 1) && !access(image, F_OK);
    free(path);
    free(image);
    return status;
}

int smoe_chart_write(const smoe_chart *chart, const char *folder, const char *name, bool *drawn,
                     smoe_err *err) {
    const named_chart named = {chart, name};
    return smoe_gnuplot_draw(folder, name, put_script, &named, drawn, err);
}
