/* The progress line; see progress.h. */
#include "progress.h"
#include "cmd.h"
#include "base/clock.h"

#include <time.h>

static const double redraw_after = 0.1; /* seconds between two states of the line on a terminal */
static const double line_after = 10.0;  /* seconds between two plain lines elsewhere; */
static const double first_after = 2.0;  /* before the first one, which tells how long it takes */
static const double first_shown = 0.5;  /* before the line on a terminal, of data that is read */

static int terminal_width(void) {
    size_t columns = smoe_cmd_screen(stderr).columns;
    return columns ? (int)columns : 80;
}

/* The pieces, each preceded by two spaces but the first, as many as fit into `width`. */
static void progress_join(char *line, size_t size, int width, char piece[][64], size_t pieces) {
    size_t used = 0;
    line[0] = '\0';
    for (size_t i = 0; i < pieces; i++) {
        size_t need = strlen(piece[i]) + (i ? 2 : 0);
        if (used + need >= size || (i && used + need > (size_t)width)) return;
        used += (size_t)snprintf(line + used, size - used, "%s%s", i ? "  " : "", piece[i]);
    }
}

/* Shows a line. On a terminal it replaces the last one and is cut before it would wrap; elsewhere
 * it is a new line. */
static void progress_show(smoe_progress *p, const char *line) {
    if (p->terminal)
        fprintf(stderr, "\r%s%.*s%s\033[K", p->color ? "\033[36m" : "", terminal_width() - 1, line,
                p->color ? "\033[0m" : "");
    else
        fprintf(stderr, "%s\n", line);
    p->shown = p->terminal;
    p->last = smoe_now();
}

void smoe_progress_close(smoe_progress *p) {
    if (p->shown) fputs("\r\033[K", stderr);
    p->shown = false;
}

/* A line that stays. */
static void progress_say(smoe_progress *p, const char *line) {
    smoe_progress_close(p);
    fprintf(stderr, "%s\n", line);
}

static bool due(const smoe_progress *p) {
    return p->lines && smoe_now() - p->last >= (p->terminal ? redraw_after : line_after);
}

static void on_begin(void *user, const smoe_train_begin *begin) {
    smoe_progress *p = user;
    SMOE_FREED_BY(smoe_result_free) smoe_result lines = {0};
    const smoe_paper paper = {.columns = p->terminal ? (size_t)terminal_width() : 0, .labels = 10};
    if (p->options->quiet || p->options->json) return;
    smoe_heading_data(&lines, begin->spec, begin->train, begin->test);
    smoe_heading_model(&lines, begin->spec, begin->model);
    /* where weights come from elsewhere, too */
    if (p->options->init || begin->spec->train.optimizer.groups.count)
        smoe_heading_optimizer(&lines, begin->spec, begin->model);
    if (begin->step < begin->spec->train.steps)
        smoe_result_line(&lines, "run", "%s, steps %llu to %zu", begin->dir,
                         (unsigned long long)begin->step + 1, begin->spec->train.steps);
    else
        smoe_result_line(&lines, "run", "%s, all %zu step%s done", begin->dir,
                         begin->spec->train.steps, SMOE_S(begin->spec->train.steps));
    smoe_result_print(&lines, stderr, &paper);
}

static void progress_on_step(void *user, const smoe_train_status *step) {
    smoe_progress *p = user;
    if (p->find) smoe_find_rate_step(p->find, step->loss);
    if (!due(p) && !(p->lines && p->terminal && step->step == step->steps)) return;
    char piece[9][64], left[32], line[512], clock[16];
    size_t n = 0;
    time_t end = time(NULL) + (time_t)step->seconds_left;
    struct tm tm;
    localtime_r(&end, &tm);
    strftime(clock, sizeof clock, "%H:%M", &tm);
    if (p->stop && *p->stop) snprintf(piece[n++], 64, "stopping");
    if (step->state) snprintf(piece[n++], 64, "%s", step->state);
    snprintf(piece[n++], 64, "step %llu/%llu", (unsigned long long)step->step,
             (unsigned long long)step->steps);
    snprintf(piece[n++], 64, "loss %.4g", step->loss);
    snprintf(piece[n++], 64, "accuracy %.3f", step->precision);
    snprintf(piece[n++], 64, "%s left", smoe_cmd_time(left, sizeof left, step->seconds_left));
    snprintf(piece[n++], 64, "%.4g images/s", step->images_per_s);
    snprintf(piece[n++], 64, "ends %s", clock);
    snprintf(piece[n++], 64, "lr %.3g", step->lr);
    progress_join(line, sizeof line, p->terminal ? terminal_width() - 1 : (int)sizeof line, piece,
                  n);
    progress_show(p, line);
}

static void on_eval(void *user, uint64_t step, const char *split, const smoe_eval *eval) {
    smoe_progress *p = user;
    if (p->options->quiet) return;
    char line[256], loss[32];
    snprintf(line, sizeof line, "step %llu: %s loss %s, top-1 accuracy %.4f (%zu image%s)",
             (unsigned long long)step, split, smoe_cmd_loss(loss, sizeof loss, eval->loss),
             eval->precision_at_1, eval->images, SMOE_S(eval->images));
    progress_say(p, line);
}

static void on_note(void *user, const char *text) {
    smoe_progress *p = user;
    if (p->options->verbose && !p->options->quiet) progress_say(p, text);
}

static void on_say(void *user, const char *text) {
    smoe_progress *p = user;
    if (!p->options->quiet) progress_say(p, text);
}

/* "120 of 2000 images". */
static void progress_count(smoe_progress *p, size_t done, size_t all, const char *what) {
    if (!due(p)) return;
    char line[64], of[32] = "";
    if (all) snprintf(of, sizeof of, " of %zu", all);
    snprintf(line, sizeof line, "%zu%s %s", done, of, what);
    progress_show(p, line);
}

void smoe_progress_count(void *progress, size_t done, size_t all) {
    smoe_progress *p = progress;
    progress_count(p, done, all, p->what);
}

/* Data that is read quickly is not worth a line. */
static void on_scan(void *user, size_t done, size_t all, const char *what) {
    smoe_progress *p = user;
    if (done) {
        progress_count(p, done, all, what);
        return;
    }
    smoe_progress_close(p);
    p->last = smoe_now() + (p->terminal ? first_shown - redraw_after : first_after - line_after);
}

void smoe_progress_open(smoe_progress *p, const smoe_options *options, const char *what,
                        const volatile sig_atomic_t *stop) {
    *p = (smoe_progress){.options = options,
                         .lines = !options->quiet && !options->no_progress,
                         .terminal = smoe_cmd_screen(stderr).redraws,
                         .color = smoe_cmd_color(options, stderr),
                         .last = smoe_now() - line_after + first_after,
                         .what = what,
                         .stop = stop};
    p->scan = (smoe_scan){.show = on_scan, .user = p};
    p->observer = (smoe_observer){.user = p,
                                  .begin = on_begin,
                                  .step = progress_on_step,
                                  .eval = on_eval,
                                  .note = on_note,
                                  .say = on_say};
}
