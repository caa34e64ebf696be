/* smoe watch: runs while they train, with plots, in a terminal; elsewhere once, as a table. */
#include "cmd.h"
#include "base/clock.h"
#include "base/stop.h"
#include "store/curves.h"
#include "store/run_files.h"

#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

/* SMOOTH: points of a running mean. */
enum { COLOURS = 12, LABEL = 9, PLOT_ROWS = 12, LIST_ROWS = 12, SMOOTH = 20 };

typedef struct watch_job {
    smoe_follow of;
    char *const *dir; /* as they were given */
    size_t dirs;
    bool live, colour, braille, keys;
    bool help, log, smooth; /* pressed: what is shown */
} watch_job;

static volatile sig_atomic_t ended;

static void watch_on_signal(int number) {
    (void)number;
    ended = 1;
}

/* ---- plots ----------------------------------------------------------------------------------- */

/* A grid of dots, 2 by 4 in each character; of a character the colour is the last run's. */
typedef struct canvas {
    size_t columns, rows;
    uint8_t *dots, *colour; /* [rows, columns] */
} canvas;

static void set_dot(canvas *c, size_t x, size_t y, uint8_t colour) {
    static const uint8_t bit[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    size_t at = y / 4 * c->columns + x / 2;
    c->dots[at] |= bit[y % 4][x % 2];
    c->colour[at] = colour;
}

typedef struct range {
    double low, high, last; /* of values, or of their logarithms; the greatest step */
    bool log;
} range;

/* Where a value is on the axis; NAN: nowhere. */
static double level(const range *r, double value) {
    return !r->log ? value : value > 0 ? log10(value) : (double)NAN;
}

static range watch_range_of(const watch_job *job, const char *name) {
    range r = {INFINITY, -INFINITY, 0, job->log};
    for (size_t i = 0; i < job->of.runs; i++) {
        const smoe_curve *c = smoe_curves_find(&job->of.run[i].curves, name);
        for (size_t k = 0; c && k < c->points; k++) {
            double value = level(&r, c->value[k]);
            if (!isfinite(value)) continue;
            r.low = fmin(r.low, value);
            r.high = fmax(r.high, value);
            r.last = fmax(r.last, c->step[k]);
        }
    }
    if (r.low == r.high) {
        double half = r.low ? fabs(r.low) / 2 : 0.5;
        r.low -= half;
        r.high += half;
    }
    return r;
}

static void draw_curve(canvas *c, const smoe_curve *curve, const range *r, bool smooth,
                       uint8_t colour) {
    double width = (double)(2 * c->columns - 1), height = (double)(4 * c->rows - 1);
    double x0 = NAN, y0 = NAN, mean = NAN;
    for (size_t k = 0, seen = 0; k < curve->points; k++) {
        double x = r->last > 0 ? curve->step[k] / r->last * width : 0,
               at = level(r, curve->value[k]);
        if (smooth && isfinite(at) && seen++)
            at = mean + (at - mean) / (double)(seen < SMOOTH ? seen : SMOOTH);
        if (isfinite(at)) mean = at;
        double y = height - (at - r->low) / (r->high - r->low) * height;
        bool joined = isfinite(y0) && isfinite(y);
        size_t pieces = joined ? (size_t)fmax(fabs(x - x0), fabs(y - y0)) + 1 : 1;
        for (size_t i = 1; i <= pieces && isfinite(y); i++) {
            double part = (double)i / (double)pieces;
            double u = joined ? x0 + part * (x - x0) : x, v = joined ? y0 + part * (y - y0) : y;
            set_dot(c, (size_t)lround(u), (size_t)lround(v), colour);
        }
        x0 = x;
        y0 = y;
    }
}

/* Six colours of the terminal, and the same ones bright. */
static void begin_colour(size_t run) {
    size_t colour = run % COLOURS, half = COLOURS / 2;
    printf("\033[%c%zum", colour < half ? '3' : '9', colour % half + 1);
}

static void print_cell(const watch_job *job, uint8_t dots, uint8_t colour) {
    if (!dots) {
        putchar(' ');
        return;
    }
    if (job->colour) begin_colour(colour);
    /* U+2800 and the dots, in UTF-8 */
    if (job->braille)
        printf("%c%c%c", 0xe2, 0xa0 | dots >> 6, 0x80 | (dots & 0x3f));
    else
        putchar('*');
    if (job->colour) fputs("\033[0m", stdout);
}

static void print_canvas(const watch_job *job, const canvas *c, const range *r) {
    for (size_t y = 0; y < c->rows; y++) {
        double at = y ? r->low : r->high;
        if (!y || y + 1 == c->rows)
            printf("%*.4g |", LABEL - 2, r->log ? pow(10, at) : at);
        else
            printf("%*s|", LABEL - 1, "");
        for (size_t x = 0; x < c->columns; x++)
            print_cell(job, c->dots[y * c->columns + x], c->colour[y * c->columns + x]);
        putchar('\n');
    }
    char end[32];
    snprintf(end, sizeof end, "step %.0f", r->last);
    printf("%*s0%*s\n", LABEL, "", (int)c->columns - 1, end);
}

static void plot(const watch_job *job, const char *name, size_t columns, size_t rows) {
    range r = watch_range_of(job, name);
    if (!(r.high > r.low)) return; /* there is nothing yet */
    SMOE_FREED uint8_t *dots = smoe_alloc(columns * rows, 1);
    SMOE_FREED uint8_t *colour = smoe_alloc(columns * rows, 1);
    canvas c = {.columns = columns, .rows = rows, .dots = dots, .colour = colour};
    for (size_t i = 0; i < job->of.runs; i++) {
        const smoe_curve *curve = smoe_curves_find(&job->of.run[i].curves, name);
        if (curve) draw_curve(&c, curve, &r, job->smooth, (uint8_t)(i % COLOURS));
    }
    printf("%*s%s%s%s\n", LABEL, "", name, r.log ? " (logarithmic)" : "",
           job->smooth ? " (running mean)" : "");
    print_canvas(job, &c, &r);
}

/* The names of the runs in their colours, as many as a line has room for. */
static void print_legend(const watch_job *job, size_t columns) {
    size_t used = 0, shown = 0;
    if (!job->colour || job->of.runs < 2) return;
    for (; shown < job->of.runs && shown < COLOURS; shown++) {
        char name[256];
        smoe_text_shown(basename(job->of.run[shown].dir), name, sizeof name);
        if (used + smoe_text_letters(name) + 2 > columns) break;
        begin_colour(shown);
        printf("%s\033[0m  ", name);
        used += smoe_text_letters(name) + 2;
    }
    puts(shown == job->of.runs ? "" : job->of.runs > COLOURS ? "... (colours repeat)" : "...");
}

/* ---- the table ------------------------------------------------------------------------------- */

static double last_of(const smoe_followed *w, smoe_metric metric) {
    const smoe_curve *c = smoe_curves_find(&w->curves, smoe_metrics[metric].name);
    return c && c->points ? c->value[c->points - 1] : NAN;
}

/* The end of a path, of at most so many characters, fresh. */
static char *short_name(const char *path, size_t most) {
    const char *at = path;
    size_t letters = smoe_text_letters(path);
    if (letters <= most) return smoe_alloc_text(path);
    for (letters += 3; letters > most; letters--) /* bytes behind the first of a character too */
        do at++;
        while ((*at & 0xc0) == 0x80);
    return smoe_text_format("...%s", at);
}

static void watch_add_run(smoe_frame *table, const smoe_followed *w, size_t room) {
    SMOE_FREED char *name = short_name(w->dir, room);
    char left[32] = "", step[48];
    const double total = w->steps;
    double done = w->curves.step, seconds = (total - done) / done * w->curves.wall_s;
    bool going = !strcmp(w->status, "running") && done > 0 && isfinite(total);
    snprintf(step, sizeof step, isfinite(total) ? "%.0f/%.0f" : "%.0f", done, total);
    smoe_frame_put(table, {"run", .text = name}, {"state", .text = w->status},
                   {"step", .text = step},
                   {"loss", .number = last_of(w, SMOE_METRIC_TRAIN_LOSS), .format = "%.4f"},
                   {"test loss", .number = last_of(w, SMOE_METRIC_LOSS), .format = "%.4f"},
                   {"test top-1", .number = last_of(w, SMOE_METRIC_PRECISION), .format = "%.4f"},
                   {"images/s", .number = last_of(w, SMOE_METRIC_IMAGES_PER_S), .format = "%.0f"},
                   {"left", SMOE_TEXT_OF(going ? smoe_cmd_time(left, sizeof left, seconds) : NULL),
                    .none = ""});
}

/* Cells of sweeps of which only the outcomes are there, as smoe sweep --pack keeps them. */
static size_t packed_cells(const watch_job *job) {
    size_t cells = 0;
    for (size_t i = 0; i < job->dirs; i++) {
        SMOE_FREED char **names =
            smoe_file_holds(job->dir[i], "cells.jsonl") ? smoe_file_names(job->dir[i]) : NULL;
        for (char **name = names; name && *name; name++) {
            SMOE_FREED char *cell = smoe_text_format("%s/%s", job->dir[i], *name);
            cells +=
                smoe_file_holds(cell, SMOE_RUN_OUTCOMES) && !smoe_file_holds(cell, "metrics.jsonl");
        }
    }
    return cells;
}

/* The runs as a table. Those that go on come first, where not all have room. */
static void watch_add_runs(smoe_result *result, const watch_job *job, size_t columns) {
    smoe_frame *table = smoe_result_table(result, NULL, NULL);
    enum { FIXED = 34, LEAST = 12 }; /* beside a name in a row of the live table; of a name */
    size_t most = job->live ? LIST_ROWS : SIZE_MAX, shown = 0, room = SIZE_MAX;
    if (job->live && columns) room = columns > FIXED + LEAST ? columns - FIXED : LEAST;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < job->of.runs; i++) {
            bool going = !strcmp(job->of.run[i].status, "running");
            bool turn = job->of.runs <= most ? !pass : going != (pass == 1);
            if (!turn || shown == most) continue;
            watch_add_run(table, &job->of.run[i], room);
            shown++;
        }
    size_t packed = job->of.runs ? 0 : packed_cells(job);
    if (packed)
        smoe_result_line(result, NULL,
                         "%zu cell%s finished, and packed without %s; smoe sweep --status shows "
                         "the results",
                         packed, packed == 1 ? " is" : "s are",
                         packed == 1 ? "its run" : "their runs");
    else if (!job->of.runs)
        smoe_result_line(result, NULL, "no run has begun");
    if (shown < job->of.runs)
        smoe_result_line(result, NULL, "... and %zu more runs", job->of.runs - shown);
}

/* What JSON has of a run: the last value of all that is recorded. */
static void add_last(smoe_result *result, const smoe_followed *w) {
    smoe_result_facts(result, {"run", .text = w->dir}, {"status", .text = w->status},
                      {"step", .number = w->curves.step}, {"steps", .number = w->steps},
                      {smoe_metrics[SMOE_METRIC_WALL_S].name, .number = w->curves.wall_s});
    smoe_result *last = smoe_result_object(result, "last");
    for (size_t k = 0; k < w->curves.count; k++) {
        const smoe_curve *c = &w->curves.curve[k];
        if (c->points) smoe_fact_number(last, c->name, c->value[c->points - 1], .plain = true);
    }
}

static int watch_print(const watch_job *job, const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_result_free) smoe_result result = {0};
    smoe_paper paper = smoe_cmd_paper(options, stdout);
    paper.cut = job->live;
    smoe_result_list(&result, "");
    for (size_t i = 0; i < job->of.runs; i++)
        add_last(smoe_result_part(&result, ""), &job->of.run[i]);
    watch_add_runs(&result, job, paper.columns);
    if (options->json) return smoe_cmd_json(smoe_result_json(&result), err);
    smoe_result_print(&result, stdout, &paper);
    return 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* In a terminal with plots below. */
static int watch_show(const watch_job *job, const smoe_options *options, smoe_err *err) {
    const char *const usual[] = {smoe_metrics[SMOE_METRIC_TRAIN_LOSS].name,
                                 smoe_metrics[SMOE_METRIC_PRECISION].name};
    const smoe_screen screen = smoe_cmd_screen(stdout);
    bool known = screen.columns > 40 && screen.rows;
    size_t columns = (known ? screen.columns : 80) - LABEL - 1;
    size_t table = 4; /* heading, legend and keys; of further runs a line below an empty one */
    table += job->of.runs <= LIST_ROWS ? job->of.runs : LIST_ROWS + 2;
    size_t plots = options->metric ? 1 : 2, height = known ? screen.rows : 40;
    size_t each = height > table + plots * 5 ? (height - table) / plots - 2 : 3;
    if (each > PLOT_ROWS) each = PLOT_ROWS;
    if (job->live) fputs("\033[H\033[J", stdout);
    if (watch_print(job, options, err)) return -1;
    for (size_t i = 0; i < plots && (job->live || options->metric); i++)
        plot(job, options->metric ? options->metric : usual[i], columns, each);
    if (job->live || options->metric) print_legend(job, columns + LABEL);
    if (job->keys)
        puts(job->help ? "q: quit (runs continue)   l: logarithmic axes   s: smooth   ?: hide this"
                       : "?: keys");
    return smoe_cmd_flush(err);
}

static bool has_utf8(void) {
    const char *text = getenv("LC_ALL");
    if (!text || !*text) text = getenv("LC_CTYPE");
    if (!text || !*text) text = getenv("LANG");
    return text && (strstr(text, "UTF-8") || strstr(text, "utf8"));
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Keys are read at once and not shown, where the terminal is this process's to change: *before is
 * its state, to be restored. */
static bool take_keys(struct termios *before) {
    if (tcgetpgrp(STDIN_FILENO) != getpgrp() || tcgetattr(STDIN_FILENO, before)) return false;
    struct termios now = *before;
    now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    return !tcsetattr(STDIN_FILENO, TCSANOW, &now);
}

/* Waits for a second, or until a key is pressed. */
static void pause_for_key(watch_job *job) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char key = '\0';
    const double end = smoe_now() + 1;
    for (double left = 1; left > 0 && !ended && !key; left = end - smoe_now()) {
        if (poll(&input, job->keys, (int)ceil(1000 * left)) <= 0) continue;
        if (read(STDIN_FILENO, &key, 1) != 1) job->keys = false; /* the terminal is gone */
    }
    if (key == 'q' || key == 'Q') ended = 1;
    job->help ^= key == '?';
    job->log ^= key == 'l' || key == 'L';
    job->smooth ^= key == 's' || key == 'S';
}

int cmd_watch(const smoe_options *options, smoe_err *err) {
    watch_job job = {.dir = options->arg, .dirs = options->args};
    job.colour = smoe_cmd_color(options, stdout);
    job.braille = has_utf8();
    job.live = !options->once && !options->json && smoe_cmd_screen(stdout).redraws;
    struct termios before;
    const bool taken = job.keys = job.live && take_keys(&before);
    smoe_stop_words(NULL);
    signal(SIGINT, watch_on_signal);
    signal(SIGTERM, watch_on_signal);
    int status = smoe_follow_read(&job.of, options->arg, options->args, true, err);
    bool known = !options->metric || job.live; /* in a terminal it may still be recorded */
    for (size_t i = 0; i < job.of.runs && !known; i++)
        known = smoe_curves_find(&job.of.run[i].curves, options->metric);
    if (!status && !known)
        status = smoe_fail(
            err, SMOE_USAGE,
            "--metric %s: no run has recorded it; smoe watch --json lists what is recorded",
            options->metric);
    while (!status && !ended) {
        status = watch_show(&job, options, err);
        bool going = false;
        for (size_t i = 0; i < job.of.runs; i++) going |= !strcmp(job.of.run[i].status, "running");
        if (status || !job.live || !going) break;
        pause_for_key(&job);
        if (!ended) status = smoe_follow_read(&job.of, options->arg, options->args, false, err);
    }
    if (taken) (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    smoe_follow_free(&job.of);
    return status;
}
