/* The live table of a sweep; see live.h. */
#include "live.h"
#include "cmd.h"
#include "progress.h"
#include "base/clock.h"
#include "sweep/choose.h"

#include <math.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const double redraw_after = 0.2; /* seconds */

static void erase(smoe_live *live) {
    if (live->drawn) fprintf(stderr, "\033[%zuA\r\033[J", live->drawn);
    live->drawn = 0;
}

static double result_number(const smoe_trial *trial, smoe_metric metric) {
    const json_t *number =
        json_object_get(json_object_get(trial->outcome, "result"), smoe_metrics[metric].column);
    return json_is_number(number) ? json_number_value(number) : NAN;
}

enum { NUMBER_TEXT = 24 };

/* A number that was measured, or a dash. */
static const char *number_text(char buf[NUMBER_TEXT], int digits, double number) {
    snprintf(buf, NUMBER_TEXT, isfinite(number) ? "%.*f" : "-", digits, number);
    return buf;
}

/* The longest name, and no more than a line has room for. */
static int name_width(const smoe_live *live, int width) {
    size_t longest = 0;
    for (size_t i = 0; i < live->sweep->trials; i++) {
        size_t length = strlen(live->sweep->trial[i].name);
        if (length > longest) longest = length;
    }
    return longest < (size_t)width ? (int)longest : width;
}

static void draw_trial(const smoe_trial *trial, const smoe_runner_trial *c, int name, int width) {
    char line[400], left[32], test[40] = "", a[NUMBER_TEXT], b[NUMBER_TEXT];
    if (!isnan(c->test_precision)) snprintf(test, sizeof test, "  test %.3f", c->test_precision);
    if (trial->state == SMOE_TRIAL_DONE)
        snprintf(line, sizeof line, "%-*s  done     top-1 accuracy %s  loss %s", name, trial->name,
                 number_text(a, 4, result_number(trial, SMOE_METRIC_PRECISION)),
                 number_text(b, 4, result_number(trial, SMOE_METRIC_LOSS)));
    else if (trial->state == SMOE_TRIAL_FAILED)
        snprintf(line, sizeof line, "%-*s  failed", name, trial->name);
    else if (c->running && c->evaluations)
        snprintf(line, sizeof line, "%-*s  running  evaluation %zu/%zu", name, trial->name,
                 c->evaluation, c->evaluations);
    else if (c->running && !c->steps)
        snprintf(line, sizeof line, "%-*s  starting", name, trial->name);
    else if (c->running)
        snprintf(line, sizeof line,
                 "%-*s  running  step %llu/%llu  loss %.4f  accuracy %.3f%s  %s left", name,
                 trial->name, (unsigned long long)c->step, (unsigned long long)c->steps, c->loss,
                 c->precision, test, smoe_cmd_time(left, sizeof left, c->seconds_left));
    else
        snprintf(line, sizeof line, "%-*s  waiting", name, trial->name);
    fprintf(stderr, "%.*s\n", width - 1, line);
}

static void count_states(const smoe_live *live, size_t *done, size_t *failed) {
    *done = *failed = 0;
    for (size_t i = 0; i < live->sweep->trials; i++) {
        if (live->sweep->trial[i].left_out) continue;
        *done += live->sweep->trial[i].state == SMOE_TRIAL_DONE;
        *failed += live->sweep->trial[i].state == SMOE_TRIAL_FAILED;
    }
}

/* Seconds until the last trial ends: what the running ones have left, and a mean trial for each
 * that waits, over as many at once as may run. Without `trial` running ones count as waiting. NAN
 * before a trial is done. */
static double seconds_left(const smoe_live *live, const smoe_runner_trial *trial) {
    double spent = 0, left = 0;
    size_t done = 0, waiting = 0, running = 0, most = live->jobs;
    for (size_t i = 0; i < live->sweep->trials; i++) {
        const smoe_trial *t = &live->sweep->trial[i];
        double seconds = result_number(t, SMOE_METRIC_SECONDS);
        bool ended = t->state == SMOE_TRIAL_DONE || t->state == SMOE_TRIAL_FAILED;
        if (t->state == SMOE_TRIAL_DONE && isfinite(seconds)) {
            spent += seconds;
            done++;
        }
        bool runs = trial && trial[i].running;
        if (runs && trial[i].steps) left += fmax(0, trial[i].seconds_left);
        running += runs;
        waiting += !runs && !ended && !t->left_out;
    }
    if (!done || !(running + waiting)) return NAN;
    if (most > running + waiting) most = running + waiting;
    return (left + (double)waiting * spent / (double)done) / (double)most;
}

/* ", about 1:20 left"; nothing where that is not known. */
static const char *left_text(char buf[48], const smoe_live *live, const smoe_runner_trial *trial) {
    char left[32];
    double seconds = seconds_left(live, trial);
    *buf = '\0';
    if (isfinite(seconds))
        snprintf(buf, 48, ", about %s left", smoe_cmd_time(left, sizeof left, seconds));
    return buf;
}

/* All trials where they fit, else those that run. */
static void live_draw(smoe_live *live, const smoe_runner_trial *trial) {
    struct winsize size;
    bool known = !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col && size.ws_row;
    int width = known ? size.ws_col : 80;
    int name = name_width(live, width);
    size_t height = known ? size.ws_row : 24, done, failed;
    bool all = live->sweep->trials + 2 <= height;
    erase(live);
    for (size_t i = 0; i < live->sweep->trials && live->drawn + 2 < height; i++) {
        if (!trial[i].running && (!all || live->sweep->trial[i].left_out)) continue;
        draw_trial(&live->sweep->trial[i], &trial[i], name, width);
        live->drawn++;
    }
    count_states(live, &done, &failed);
    char line[120], about[48];
    snprintf(line, sizeof line, "%zu of %zu cells done, %zu failed%s", done,
             smoe_choose_count(live->sweep), failed, left_text(about, live, trial));
    fprintf(stderr, "%.*s\n", width - 1, line);
    live->drawn++;
    live->last = smoe_now();
}

static void on_show(void *user, const smoe_runner_trial *trial, bool last) {
    smoe_live *live = user;
    bool due = last || smoe_now() - live->last >= redraw_after;
    if (live->lines && live->terminal && due) live_draw(live, trial);
}

static void on_say(void *user, const char *text) {
    smoe_live *live = user;
    if (live->quiet) return;
    erase(live);
    fprintf(stderr, "%s\n", text);
    live->last = 0;
}

static void on_ended(void *user, size_t i) {
    smoe_live *live = user;
    const smoe_trial *trial = &live->sweep->trial[i];
    char text[600], about[48], a[NUMBER_TEXT], b[NUMBER_TEXT];
    size_t done, failed;
    live->last = 0;
    if (live->terminal && live->lines) return;
    count_states(live, &done, &failed);
    if (trial->state == SMOE_TRIAL_DONE)
        snprintf(text, sizeof text, "%s: top-1 accuracy %s, %s s (%zu of %zu done%s)", trial->name,
                 number_text(a, 4, result_number(trial, SMOE_METRIC_PRECISION)),
                 number_text(b, 1, result_number(trial, SMOE_METRIC_SECONDS)), done,
                 smoe_choose_count(live->sweep), left_text(about, live, NULL));
    else if (trial->state == SMOE_TRIAL_FAILED)
        snprintf(text, sizeof text, "%s: failed", trial->name);
    else
        snprintf(text, sizeof text, "%s: stopped", trial->name);
    on_say(live, text);
}

void smoe_live_open(smoe_live *live, const smoe_sweep *sweep, const smoe_options *options) {
    const char *term = getenv("TERM");
    *live =
        (smoe_live){.sweep = sweep,
                    .jobs = (size_t)options->jobs,
                    .quiet = options->quiet,
                    .lines = !options->quiet && !options->no_progress,
                    .terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb"),
                    .observer = {.user = live, .show = on_show, .ended = on_ended, .say = on_say}};
}
