/* The live table of a sweep; see live.h. */
#include "live.h"
#include "progress.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

static const double redraw_after = 0.2; /* seconds */

int smoe_live_open(smoe_live *live, const smoe_sweep *sweep, const smoe_options *options,
                   smoe_err *err) {
    const char *term = getenv("TERM");
    *live = (smoe_live){.sweep = sweep,
                        .quiet = options->quiet,
                        .lines = !options->quiet && !options->no_progress,
                        .terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb")};
    live->trial = mmap(NULL, sweep->trials * sizeof *live->trial, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (live->trial != MAP_FAILED) return 0;
    live->trial = NULL;
    return smoe_fail_errno(err, SMOE_RUNTIME, "cannot allocate the memory shared by the cells");
}

static void on_step(void *user, const smoe_step *step) {
    smoe_live_trial *trial = user;
    trial->step = step->step;
    trial->steps = step->steps;
    trial->loss = step->loss;
    trial->precision = step->precision;
    trial->left = step->seconds_left;
}

static void on_eval(void *user, uint64_t step, const char *split, const smoe_eval *eval) {
    (void)step, (void)split;
    ((smoe_live_trial *)user)->test_precision = eval->precision_at_1;
}

smoe_observer smoe_live_observer(smoe_live *live, size_t trial) {
    return (smoe_observer){.user = &live->trial[trial], .step = on_step, .eval = on_eval};
}

void smoe_live_evaluated(void *user, size_t done, size_t of) {
    smoe_live_trial *trial = user;
    trial->evaluation = done + 1;
    trial->evaluations = of;
}

void smoe_live_set(smoe_live *live, size_t trial, smoe_live_state state) {
    live->trial[trial].state = state;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void erase(smoe_live *live) {
    if (live->drawn) fprintf(stderr, "\033[%zuA\r\033[J", live->drawn);
    live->drawn = 0;
}

static double result_number(const smoe_trial *trial, const char *name) {
    return json_number_value(json_object_get(json_object_get(trial->outcome, "result"), name));
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

static void draw_trial(const smoe_live *live, size_t i, int name, int width) {
    const smoe_live_trial *c = &live->trial[i];
    const smoe_trial *trial = &live->sweep->trial[i];
    char line[400], left[32];
    if (trial->state == SMOE_TRIAL_DONE)
        snprintf(line, sizeof line, "%-*s  done     precision@1 %.4f  loss %.4f", name, trial->name,
                 result_number(trial, "precision_at_1"), result_number(trial, "test_loss"));
    else if (trial->state == SMOE_TRIAL_FAILED)
        snprintf(line, sizeof line, "%-*s  failed", name, trial->name);
    else if (c->state == SMOE_LIVE_RUNNING && c->evaluations)
        snprintf(line, sizeof line, "%-*s  running  evaluation %zu/%zu", name, trial->name,
                 c->evaluation, c->evaluations);
    else if (c->state == SMOE_LIVE_RUNNING && !c->steps)
        snprintf(line, sizeof line, "%-*s  starting", name, trial->name);
    else if (c->state == SMOE_LIVE_RUNNING)
        snprintf(line, sizeof line,
                 "%-*s  running  step %llu/%llu  loss %.4f  precision %.3f  test %.3f  %s left",
                 name, trial->name, (unsigned long long)c->step, (unsigned long long)c->steps,
                 c->loss, c->precision, c->test_precision,
                 smoe_progress_time(left, sizeof left, c->left));
    else
        snprintf(line, sizeof line, "%-*s  waiting", name, trial->name);
    fprintf(stderr, "%.*s\n", width - 1, line);
}

static void count_states(const smoe_live *live, size_t *done, size_t *failed) {
    *done = *failed = 0;
    for (size_t i = 0; i < live->sweep->trials; i++) {
        *done += live->sweep->trial[i].state == SMOE_TRIAL_DONE;
        *failed += live->sweep->trial[i].state == SMOE_TRIAL_FAILED;
    }
}

/* All trials where they fit, else those that run. */
static void draw(smoe_live *live) {
    struct winsize size;
    bool known = !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col && size.ws_row;
    int width = known ? size.ws_col : 80;
    int name = name_width(live, width);
    size_t height = known ? size.ws_row : 24, done, failed;
    bool all = live->sweep->trials + 2 <= height;
    erase(live);
    for (size_t i = 0; i < live->sweep->trials && live->drawn + 2 < height; i++) {
        if (!all && live->trial[i].state != SMOE_LIVE_RUNNING) continue;
        draw_trial(live, i, name, width);
        live->drawn++;
    }
    count_states(live, &done, &failed);
    char line[80];
    snprintf(line, sizeof line, "%zu of %zu cells done, %zu failed", done, live->sweep->trials,
             failed);
    fprintf(stderr, "%.*s\n", width - 1, line);
    live->drawn++;
    live->last = smoe_now();
}

void smoe_live_show(smoe_live *live) {
    if (live->lines && live->terminal && smoe_now() - live->last >= redraw_after) draw(live);
}

void smoe_live_say(smoe_live *live, const char *text) {
    if (live->quiet) return;
    erase(live);
    fprintf(stderr, "%s\n", text);
    live->last = 0;
}

void smoe_live_end(smoe_live *live, size_t i) {
    const smoe_trial *trial = &live->sweep->trial[i];
    char text[600];
    size_t done, failed;
    live->trial[i].state = SMOE_LIVE_ENDED;
    live->last = 0;
    if (live->terminal && live->lines) return;
    count_states(live, &done, &failed);
    if (trial->state == SMOE_TRIAL_DONE)
        snprintf(text, sizeof text, "%s: precision@1 %.4f, %.1f s (%zu of %zu done)", trial->name,
                 result_number(trial, "precision_at_1"), result_number(trial, "seconds"), done,
                 live->sweep->trials);
    else if (trial->state == SMOE_TRIAL_FAILED)
        snprintf(text, sizeof text, "%s: failed", trial->name);
    else
        snprintf(text, sizeof text, "%s: stopped", trial->name);
    smoe_live_say(live, text);
}

void smoe_live_close(smoe_live *live) {
    if (live->trial && live->lines && live->terminal) draw(live);
    if (live->trial) munmap(live->trial, live->sweep->trials * sizeof *live->trial);
    live->trial = NULL;
}
