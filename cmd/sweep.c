/*
 * smoe sweep and smoe ablate: a grid of runs from one spec, its section `sweep` and lists on the
 * command line, or evaluations of one existing run at other settings (sweep/sweep.h); and a spec
 * with its router replaced, over seeds (sweep/axes.h). trials.h reports on them.
 */
#include "trials.h"
#include "cmd.h"
#include "base/clock.h"
#include "base/stop.h"
#include "compare/settings.h"
#include "sweep/axes.h"
#include "sweep/trial.h"
#include "sweep/sweep.h"
#include "sweep/runner.h"

#include <sys/stat.h>
#include <unistd.h>

/* ---- the cells of a spec --------------------------------------------------------------------- */

/* The other command, smoe ablate. */
static bool is_ablation(const smoe_options *options) {
    return !strcmp(options->command->name, "ablate");
}

/* A directory of a run, and not of a sweep. */
static bool is_run(const char *arg) {
    return !smoe_spec_is_input(arg) && smoe_file_holds(arg, "spec.yaml") &&
           !smoe_file_holds(arg, "cells.jsonl");
}

/* The overrides without that of the seed, and "seed=LIST" of it or of --seeds, fresh; NULL where
 * there is neither. */
static int part_seeds(char **seeds, char **assign, size_t *count, const smoe_options *options,
                      smoe_err *err) {
    const char *own = NULL;
    for (size_t i = 0; i < options->overrides; i++) {
        char *text = options->assign[i];
        if (strncmp(text, "seed=", 5)) {
            assign[(*count)++] = text;
            continue;
        }
        if (own) return smoe_fail(err, SMOE_USAGE, "override %s: %s sets the same key", text, own);
        own = text;
    }
    if (own && options->seeds)
        return smoe_fail(err, SMOE_USAGE, "--seeds %s and %s set the same key", options->seeds,
                         own);
    *seeds = options->seeds ? smoe_text_format("seed=%s", options->seeds) : smoe_alloc_text(own);
    return 0;
}

/* The trials of a spec, or of the directory of a run. `seeds` is "seed=LIST" or NULL; `assign` are
 * the other overrides [count], with room for one more. */
static int expand_sweep(smoe_sweep *sweep, const char *arg, const char *seeds, char **assign,
                        size_t count, const smoe_options *options, smoe_err *err) {
    smoe_grid_options how = {.skip_invalid = options->skip_invalid,
                             .referred = options->reference,
                             .planned = options->dry_run,
                             .join = options->resume || options->extend,
                             .init = options->init,
                             .start = {.upcycle = options->upcycle,
                                       .moments = options->moments,
                                       .partial = options->partial}};
    SMOE_FREED_BY(smoe_spec_text_free) smoe_spec_text text = {0};
    if (seeds) {
        memmove(assign + 1, assign, count++ * sizeof *assign);
        assign[0] = (char *)seeds;
    }
    if (is_run(arg)) return smoe_grid_of_run(sweep, arg, assign, count, err);
    if (smoe_cmd_choice(&how.start.choice, options, err) ||
        smoe_cmd_text(&text, arg, options, err) ||
        smoe_grid_of_spec(sweep, &text, assign, count, &how, err))
        return -1;
    if (sweep->skipped && !options->quiet)
        fprintf(stderr, "%zu combination%s not valid and skipped:\n%s\n", sweep->skipped,
                sweep->skipped == 1 ? " is" : "s are", err->text);
    return 0;
}

static int expand_ablation(smoe_sweep *sweep, const char *file, const char *seeds, char **assign,
                           size_t count, const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_text_free) smoe_spec_text text = {0};
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    SMOE_FREED_BY(smoe_spec_keys_clear) smoe_sweep_keys keys = {0};
    for (size_t i = 0; i < count; i++)
        if (!strncmp(assign[i], "model.moe.router=", 17))
            return smoe_fail(err, SMOE_USAGE, "override %s: choose the routers with --routers",
                             assign[i]);
    if (smoe_cmd_text(&text, file, options, err)) return -1;
    text.of_cells = true;
    if (smoe_spec_parse(&spec, &text, assign, count, err) ||
        smoe_ablate_axes(&keys, &spec, options->routers, seeds ? strchr(seeds, '=') + 1 : "0,1,2",
                         err))
        return -1;
    return smoe_sweep_expand(sweep, &text, assign, count, &keys, false, err);
}

/* ---- the live table -------------------------------------------------------------------------- */

/* The progress on stderr: on a terminal a table that is redrawn, elsewhere one line per finished
 * trial. */
typedef struct sweep_live {
    const smoe_sweep *sweep;
    const smoe_options *options;
    bool table;   /* on the terminal */
    size_t drawn; /* lines of it that are there */
    double last;  /* when it was drawn */
} sweep_live;

static const double redraw_after = 0.2; /* seconds */

static void erase(sweep_live *live) {
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

static void draw_trial(const smoe_trial *trial, const smoe_runner_trial *c, int name, int width) {
    char text[200], left[32], test[40] = "", a[NUMBER_TEXT], b[NUMBER_TEXT];
    const smoe_train_status *at = &c->train;
    if (!isnan(c->test_precision)) snprintf(test, sizeof test, "  test %.3f", c->test_precision);
    if (trial->state == SMOE_TRIAL_DONE)
        snprintf(text, sizeof text, "done     top-1 accuracy %s  loss %s",
                 number_text(a, 4, result_number(trial, SMOE_METRIC_PRECISION)),
                 number_text(b, 4, result_number(trial, SMOE_METRIC_LOSS)));
    else if (trial->state == SMOE_TRIAL_FAILED || !c->running)
        strcpy(text, trial->state == SMOE_TRIAL_FAILED ? "failed" : "waiting");
    else if (c->read)
        snprintf(text, sizeof text,
                 c->to_read ? "reading  %zu of %zu images" : "reading  %zu files found", c->read,
                 c->to_read);
    else if (c->evaluations)
        snprintf(text, sizeof text, "running  evaluation %zu/%zu", c->evaluation, c->evaluations);
    else if (!at->steps)
        strcpy(text, "starting");
    else
        snprintf(text, sizeof text, "running  step %llu/%llu  loss %.4f  accuracy %.3f%s  %s left",
                 (unsigned long long)at->step, (unsigned long long)at->steps, at->loss,
                 at->precision, test, smoe_cmd_time(left, sizeof left, at->seconds_left));
    SMOE_FREED char *line = smoe_text_format("%-*s  %s", name, trial->name, text);
    fprintf(stderr, "%.*s\n", width - 1, line);
}

/* Seconds until the last trial ends: what the running ones have left, and a mean trial for each
 * that waits, over as many at once as may run. Without `trial` running ones count as waiting. NAN
 * before a trial is done. */
static double seconds_left(const sweep_live *live, const smoe_runner_trial *trial) {
    double spent = 0, left = 0;
    size_t done = 0, waiting = 0, running = 0, most = (size_t)live->options->jobs;
    for (size_t i = 0; i < live->sweep->trials; i++) {
        const smoe_trial *t = &live->sweep->trial[i];
        double seconds = result_number(t, SMOE_METRIC_SECONDS);
        bool ended = t->state == SMOE_TRIAL_DONE || t->state == SMOE_TRIAL_FAILED;
        if (t->state == SMOE_TRIAL_DONE && isfinite(seconds)) {
            spent += seconds;
            done++;
        }
        bool runs = trial && trial[i].running;
        if (runs && trial[i].train.steps) left += fmax(0, trial[i].train.seconds_left);
        running += runs;
        waiting += !runs && !ended && !t->left_out;
    }
    if (!done || !(running + waiting)) return NAN;
    if (most > running + waiting) most = running + waiting;
    return (left + (double)waiting * spent / (double)done) / (double)most;
}

/* ", about 1 min 20 s left"; nothing where that is not known. */
static const char *left_text(char buf[48], const sweep_live *live, const smoe_runner_trial *trial) {
    char left[32];
    double seconds = seconds_left(live, trial);
    *buf = '\0';
    if (isfinite(seconds))
        snprintf(buf, 48, ", about %s left", smoe_cmd_time(left, sizeof left, seconds));
    return buf;
}

/* All trials where they fit, else those that run. */
static void live_draw(sweep_live *live, const smoe_runner_trial *trial) {
    const smoe_screen screen = smoe_cmd_screen(stderr);
    int width = screen.columns ? (int)screen.columns : 80, name = 0;
    size_t height = screen.rows ? screen.rows : 24;
    bool all = live->sweep->trials + 2 <= height;
    for (size_t i = 0; i < live->sweep->trials; i++) {
        int length = (int)strlen(live->sweep->trial[i].name);
        if (length > name) name = length < width ? length : width;
    }
    erase(live);
    for (size_t i = 0; i < live->sweep->trials && live->drawn + 2 < height; i++) {
        if (!trial[i].running && (!all || live->sweep->trial[i].left_out)) continue;
        draw_trial(&live->sweep->trial[i], &trial[i], name, width);
        live->drawn++;
    }
    char line[120], about[48];
    snprintf(line, sizeof line, "%zu of %zu cell%s done, %zu failed%s",
             smoe_trial_count(live->sweep, SMOE_TRIAL_DONE, false), smoe_choose_count(live->sweep),
             SMOE_S(smoe_choose_count(live->sweep)),
             smoe_trial_count(live->sweep, SMOE_TRIAL_FAILED, false),
             left_text(about, live, trial));
    fprintf(stderr, "%.*s\n", width - 1, line);
    live->drawn++;
    live->last = smoe_now();
}

static void on_show(void *user, const smoe_runner_trial *trial, bool last) {
    sweep_live *live = user;
    bool due = last || smoe_now() - live->last >= redraw_after;
    if (live->table && due) live_draw(live, trial);
}

static void sweep_on_say(void *user, const char *text) {
    sweep_live *live = user;
    if (live->options->quiet) return;
    erase(live);
    fprintf(stderr, "%s\n", text);
    live->last = 0;
}

static void sweep_on_ended(void *user, size_t i) {
    sweep_live *live = user;
    const smoe_trial *trial = &live->sweep->trial[i];
    char text[600], about[48], a[NUMBER_TEXT], b[NUMBER_TEXT];
    live->last = 0;
    if (live->table) return;
    if (trial->state == SMOE_TRIAL_DONE)
        snprintf(text, sizeof text, "%s: top-1 accuracy %s, %s s (%zu of %zu done%s)", trial->name,
                 number_text(a, 4, result_number(trial, SMOE_METRIC_PRECISION)),
                 number_text(b, 1, result_number(trial, SMOE_METRIC_SECONDS)),
                 smoe_trial_count(live->sweep, SMOE_TRIAL_DONE, false),
                 smoe_choose_count(live->sweep), left_text(about, live, NULL));
    else if (trial->state == SMOE_TRIAL_FAILED)
        snprintf(text, sizeof text, "%s: failed", trial->name);
    else
        snprintf(text, sizeof text, "%s: stopped", trial->name);
    sweep_on_say(live, text);
}

/* ---- running the cells ----------------------------------------------------------------------- */

/* The data and model of the first trial, the number of trials, the folder. */
static int say_heading(const smoe_sweep *sweep, const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    size_t open = 0;
    if (options->quiet || options->json || sweep->run || !sweep->trials) return 0;
    for (size_t i = 0; i < sweep->trials; i++)
        open += sweep->trial[i].state != SMOE_TRIAL_DONE && !sweep->trial[i].left_out;
    if (!open) return 0;
    if (smoe_trial_parse(&spec, sweep->trial, err)) return -1;
    smoe_result lines = {0};
    smoe_heading_spec(&lines, &spec, options->scan);
    smoe_result_line(&lines, "sweep", "%s, %zu cell%s, %zu to run%s", sweep->dir, sweep->trials,
                     SMOE_S(sweep->trials), open,
                     sweep->trials > 1 ? "; data and model are those of the first cell" : "");
    smoe_heading_print(&lines, options);
    return 0;
}

static int run_trials(smoe_sweep *sweep, const smoe_options *options, smoe_err *err) {
    bool shows = !options->quiet && !options->no_progress;
    sweep_live live = {
        .sweep = sweep, .options = options, .table = shows && smoe_cmd_screen(stderr).redraws};
    const smoe_runner_observer observer = {
        .user = &live, .show = on_show, .ended = sweep_on_ended, .say = sweep_on_say};
    const volatile sig_atomic_t *stop;
    if (smoe_cmd_catch(&stop, NULL, err) || say_heading(sweep, options, err)) return -1;
    const smoe_runner_options how = {.jobs = (size_t)options->jobs,
                                     .retry_failed = options->retry_failed,
                                     .fail_fast = options->fail_fast,
                                     .stop = stop,
                                     .save = smoe_save_request(),
                                     .scan = options->scan,
                                     .argc = options->argc,
                                     .argv = options->argv,
                                     .observer = &observer};
    return smoe_runner_run(sweep, &how, err);
}

static int sweep_draw(const smoe_results *results, const smoe_options *options, smoe_err *err) {
    bool drawn;
    if (smoe_results_draw(results, &drawn, err)) return -1;
    if (!drawn)
        smoe_cmd_undrawn(options, results->sweep->dir, "*.gp are the scripts of the figures");
    return 0;
}

/* ---- what the command is to do --------------------------------------------------------------- */

/* What is done with the sweep, once it is open. */
typedef int sweep_action(smoe_sweep *sweep, const smoe_options *options, smoe_err *err);
static sweep_action run_and_report, print_status, sweep_pack;

static sweep_action *action_of(const smoe_options *options) {
    return options->dry_run  ? smoe_trials_estimate
           : options->pack   ? sweep_pack
           : options->power  ? smoe_trials_power
           : options->tune   ? smoe_trials_tune
           : options->status ? print_status
           : options->slurm  ? smoe_trials_slurm
                             : run_and_report;
}

/* The file of --slurm or --pack replaces that of an earlier call, and no other one: --force would
 * replace the sweep. */
static int sweep_check_file(const smoe_options *options, smoe_err *err) {
    const char *path = options->pack ? options->pack : options->slurm;
    struct stat there;
    if (!path || lstat(path, &there) || !S_ISREG(there.st_mode))
        return smoe_cmd_target(path, options, err);
    SMOE_FREED char *text = NULL;
    size_t size;
    if (options->pack
            ? smoe_sweep_is_packed(path)
            : !smoe_file_read(path, 1 << 20, &text, &size, NULL) && !strncmp(text, "#!", 2))
        return 0;
    return smoe_fail(err, SMOE_USAGE, "%s exists already, and is no %s; choose another name", path,
                     options->pack ? "packed sweep" : "script");
}

/* Options for a folder that has a sweep, or for a spec. */
static int sweep_check_place(const smoe_options *options, const char *arg, bool folder,
                             smoe_err *err) {
    sweep_action *action = action_of(options);
    if (options->extend && folder)
        return smoe_fail(err, SMOE_USAGE,
                         "%s is a folder; --extend needs the spec with all values, and -o %s", arg,
                         arg);
    SMOE_FREED char *word = smoe_shell_word(arg);
    bool run = !folder && is_run(arg);
    if (run && options->status)
        return smoe_fail(err, SMOE_USAGE,
                         "%s is a run, not a sweep; `smoe watch --once %s` shows its state", arg,
                         word);
    if (run && options->resume && !options->overrides)
        return smoe_fail(err, SMOE_USAGE, "%s is a run; `smoe train --resume %s` continues it", arg,
                         word);
    if (options->status && !folder)
        return smoe_fail(err, SMOE_USAGE,
                         "%s is not a folder; --status needs the folder of a sweep", arg);
    if ((options->resume || options->pack || options->tune || options->power) &&
        smoe_cmd_missing_folder(arg))
        return smoe_fail(err, SMOE_USAGE,
                         "%s: there is no such sweep; `smoe %s SPEC.yaml%s -o %s` starts one", arg,
                         options->command->name, is_ablation(options) ? "" : " KEY=A,B", word);
    bool begins = !options->resume && (action == run_and_report || action == smoe_trials_slurm);
    if (folder && begins && !smoe_file_holds(arg, "cells.jsonl") && smoe_cmd_no_model(arg, err))
        return -1;
    if (folder && begins)
        return smoe_fail(err, SMOE_USAGE,
                         "%s is a folder; --resume continues a sweep, --status shows its state; a "
                         "new one needs a spec, which smoe data --suggest prints for a folder of "
                         "images",
                         arg);
    if (folder && options->overrides)
        return smoe_fail(err, SMOE_USAGE,
                         "'%s': the cells of an existing sweep are fixed; SPEC.yaml with all "
                         "values, --extend and -o %s adds cells",
                         options->assign[0], arg);
    if (folder && options->args && options->out)
        return smoe_fail(err, SMOE_USAGE, "%s is the sweep; -o %s cannot be used with it", arg,
                         options->out);
    return 0;
}

static int sweep_check(const smoe_options *options, const char *arg, bool folder, smoe_err *err) {
    if (!arg) {
        smoe_fail(err, SMOE_USAGE, "SPEC.yaml is missing (or --resume DIR, --status DIR)");
        return smoe_cmd_taken(options, err);
    }
    const char *state = folder ? "folder" : is_run(arg) ? "run" : NULL;
    if (smoe_options_check(options, state, err) || sweep_check_file(options, err)) return -1;
    return sweep_check_place(options, arg, folder, err);
}

/* The figure of "X:Y", two metrics of which lower or higher numbers are better. */
static int set_front(smoe_sweep_figure *figure, const char *front, smoe_err *err) {
    size_t length = strcspn(front, ":");
    free(figure->x);
    free(figure->y);
    figure->x = smoe_alloc_part(front, length);
    figure->y = smoe_alloc_text(front + length + (front[length] == ':'));
    figure->front = true;
    const char *const axis[] = {figure->x, figure->y};
    char known[1000] = "";
    for (size_t m = 0; m < SMOE_METRICS; m++)
        if (smoe_metrics[m].column && smoe_metrics[m].better)
            smoe_text_list(known, sizeof known, "%s", smoe_metrics[m].column);
    for (size_t i = 0; i < 2; i++) {
        smoe_metric metric = smoe_metric_of_column(axis[i], NULL);
        if (metric == SMOE_METRICS || !smoe_metrics[metric].better)
            return smoe_fail(err, SMOE_USAGE,
                             "--front %s: '%s' is not a measured column for which lower or higher "
                             "is better; as in %s:%s; these are: %s",
                             front, axis[i], smoe_metrics[SMOE_METRIC_FLOPS_INFER_COMPUTED].column,
                             smoe_metrics[SMOE_METRIC_PRECISION].column, known);
    }
    if (!strcmp(figure->x, figure->y))
        return smoe_fail(err, SMOE_USAGE, "--front %s: X and Y are the same column; name two",
                         front);
    return 0;
}

/* The cells, figure and reference of the command line take precedence over the spec and the
 * manifest; `standard`: where nobody names a reference, an ablation has the row of soft routers. */
static int set_wishes(smoe_sweep *sweep, bool standard, const smoe_options *options,
                      smoe_err *err) {
    const char *const wish[] = {options->x, options->y, options->line};
    char **const text[] = {&sweep->figure.x, &sweep->figure.y, &sweep->figure.line};
    smoe_err ignored;
    for (size_t i = 0; i < 3; i++)
        if (wish[i]) smoe_text_set(text[i], wish[i]);
    if (options->front && set_front(&sweep->figure, options->front, err)) return -1;
    if (smoe_cmd_width(options, &sweep->figure.width, err)) return -1;
    if (smoe_results_check(sweep, err)) return -1;
    if (options->cells && smoe_choose_trials(sweep, options->cells, err)) return -1;
    if (options->equivalence) {
        if (smoe_margin_check(options->equivalence, "--equivalence", err)) return -1;
        smoe_text_set(&sweep->plan.equivalence, options->equivalence);
    }
    if (options->all_seeds) smoe_text_set(&sweep->plan.seen, NULL);
    if (options->reference) return smoe_sweep_refer(sweep, options->reference, "--reference", err);
    if (standard && is_ablation(options) && !sweep->reference)
        (void)!smoe_sweep_refer(sweep, "router=soft", "", &ignored);
    return 0;
}

static int open_folder(smoe_sweep *sweep, const char *dir, const smoe_options *options,
                       smoe_err *err) {
    SMOE_FREED char *claims = smoe_text_format("%s/claims", dir);
    if (smoe_sweep_open(sweep, dir, err) || smoe_file_sweep(dir, SMOE_FILE_GONE_OR_OLD, err) ||
        (!access(claims, F_OK) && smoe_file_sweep(claims, SMOE_FILE_GONE_OR_OLD, err)))
        return -1;
    if (is_ablation(options) && (sweep->columns != 2 || sweep->seed != 1))
        return smoe_fail(err, SMOE_USAGE, "%s: a sweep, not an ablation; use smoe sweep", dir);
    return set_wishes(sweep, true, options, err);
}

/* The sweep as it is now that no other process writes into its folder. */
static int take_turn(smoe_claim *turn, smoe_sweep *sweep, const smoe_options *options,
                     smoe_err *err) {
    SMOE_FREED char *dir = smoe_alloc_text(sweep->dir);
    if (smoe_sweep_turn(turn, dir, err)) return -1;
    smoe_sweep_free(sweep);
    return open_folder(sweep, dir, options, err);
}

/* Writes and prints the results, also those of other processes; prints them even if they cannot be
 * written. */
static int sweep_report(smoe_sweep *sweep, const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_claim_release) smoe_claim turn = {0};
    SMOE_FREED_BY(smoe_results_free) smoe_results results = {0};
    smoe_err ignored = {0};
    if (take_turn(&turn, sweep, options, err) || smoe_results_make(&results, sweep, err)) return -1;
    int status = smoe_results_write(&results, err) || sweep_draw(&results, options, err) ? -1 : 0;
    smoe_claim_release(&turn); /* who reads what is printed may be slow */
    int printed = smoe_trials_summary(&results, options, status ? &ignored : err);
    SMOE_FREED char *word = smoe_shell_word(sweep->dir);
    return !status ? printed
                   : smoe_fail_more(err, err->code, "`smoe %s --resume %s` writes its tables",
                                    options->command->name, word);
}

/* How a sweep goes on that was stopped, or of which cells were killed or failed. */
static void add_remedy(const smoe_sweep *sweep, const smoe_options *options, smoe_err *err) {
    SMOE_FREED char *word = smoe_shell_word(sweep->dir);
    if (err->code != SMOE_STOPPED && err->code != SMOE_PARTIAL) return;
    smoe_fail_more(err, err->code,
                   smoe_trial_count(sweep, SMOE_TRIAL_FAILED, false)
                       ? "`smoe %s --resume %s --retry-failed` runs them again"
                       : "`smoe %s --resume %s` continues",
                   options->command->name, word);
}

/* Runs the trials and reports, also if the sweep failed or was stopped. */
static int run_and_report(smoe_sweep *sweep, const smoe_options *options, smoe_err *err) {
    smoe_err ran = {0};
    int status = run_trials(sweep, options, &ran);
    if (!smoe_file_holds(sweep->dir, "cells.jsonl"))
        return smoe_fail(err, SMOE_RUNTIME,
                         "%s: its cells.jsonl is no longer there: the folder was moved or removed "
                         "during the sweep; nothing more is written here",
                         sweep->dir);
    add_remedy(sweep, options, &ran);
    if (sweep_report(sweep, options, err)) status = -1;
    if (status && ran.code) *err = ran;
    return status;
}

/* The sweep of a spec, or of a run that is evaluated. */
static int sweep_open_spec(smoe_sweep *sweep, const char *arg, const smoe_options *options,
                           smoe_err *err) {
    sweep_action *action = action_of(options);
    const char *suffix = is_ablation(options) ? "ablate" : "sweep";
    SMOE_FREED char *seeds = NULL;
    SMOE_FREED char **assign = smoe_alloc(options->overrides + 1, sizeof *assign);
    size_t count = 0;
    if (part_seeds(&seeds, assign, &count, options, err) ||
        (is_ablation(options) ? expand_ablation : expand_sweep)(sweep, arg, seeds, assign, count,
                                                                options, err))
        return -1;
    if (sweep->remarks && !options->quiet) smoe_cmd_print(stderr, "%s", sweep->remarks);
    SMOE_FREED char *dir = options->out ? smoe_alloc_text(options->out)
                                        : smoe_text_format("runs/%s-%s", sweep->name,
                                                           sweep->run ? "evaluate" : suffix);
    if (smoe_cmd_folder(dir, err)) return -1;
    /* A folder that is there takes over only a reference that somebody named. */
    bool there = smoe_file_holds(dir, "cells.jsonl");
    if ((options->resume || options->extend) && smoe_sweep_match(sweep, dir, options->extend, err))
        return -1;
    if (set_wishes(sweep, !there, options, err)) return -1;
    smoe_cmd_planned(dir, there, options);
    if (action == smoe_trials_estimate) return 0;
    if (action == smoe_trials_power || action == sweep_pack) {
        smoe_sweep_free(sweep);
        return open_folder(sweep, dir, options, err);
    }
    if ((options->force && smoe_sweep_remove(dir, err)) ||
        (options->extend && smoe_start_check(sweep, dir, err)) ||
        (options->extend ? smoe_sweep_extend(sweep, dir, err)
                         : smoe_sweep_create(sweep, dir, options->resume || options->force, err)))
        return -1;
    /* The manifest of an existing sweep may have another figure or reference. */
    return set_wishes(sweep, true, options, err);
}

/* --status runs nothing and changes no table; a reference or a figure that is asked for is printed
 * or drawn from the results so far. */
static int print_status(smoe_sweep *sweep, const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_results_free) smoe_results results = {0};
    SMOE_FREED_BY(smoe_result_free) smoe_result result = {0};
    SMOE_FREED_BY(smoe_claim_release) smoe_claim turn = {0};
    bool figure =
        options->x || options->y || options->line || options->front || options->figure_width;
    bool contrasts = options->reference || options->equivalence || options->all_seeds;
    if (figure && take_turn(&turn, sweep, options, err)) return -1;
    if (smoe_trials_status(&result, sweep, err) ||
        ((figure || contrasts) && smoe_results_make(&results, sweep, err)))
        return -1;
    if (contrasts) smoe_results_add(&result, &results, false);
    if (figure && sweep_draw(&results, options, err)) return -1;
    smoe_claim_release(&turn);
    if (figure)
        smoe_heading_list(&result, NULL, sweep->dir,
                          "sweep.svg sweep.pdf evaluations.svg evaluations.pdf curves.csv", NULL);
    return smoe_cmd_emit(&result, options, err);
}

static int sweep_pack(smoe_sweep *sweep, const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_result_free) smoe_result result = {0};
    if (smoe_sweep_pack(sweep, options->pack, err)) return -1;
    smoe_result_line(&result, NULL, "%s: %zu of %zu cells", options->pack,
                     smoe_trial_count(sweep, SMOE_TRIAL_DONE, false), sweep->trials);
    return options->quiet ? 0 : smoe_cmd_emit(&result, options, err);
}

/* SPEC.yaml, or a folder with --resume or --status. SMOE_STOPPED after a first SIGINT or SIGTERM,
 * once every running trial has a checkpoint; SMOE_PARTIAL names the failed trials. */
int cmd_sweep(const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_sweep_free) smoe_sweep sweep = {0};
    SMOE_FREED_BY(smoe_datasets_close)
    smoe_datasets kept = {0}; /* mostly cells have the same data */
    bool going_on =
        options->resume || options->status || options->power || options->tune || options->pack;
    const char *arg = options->args ? options->arg[0] : going_on ? options->out : NULL;
    bool input = options->args && smoe_spec_is_input(arg);
    bool folder = arg && !input && smoe_file_is_folder(arg) && !is_run(arg);
    options->scan->kept = &kept;
    if (sweep_check(options, arg, folder, err) ||
        (folder ? open_folder : sweep_open_spec)(&sweep, arg, options, err))
        return -1;
    return action_of(options)(&sweep, options, err);
}
