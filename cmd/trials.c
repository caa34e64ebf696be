/* What is told about the trials of a sweep; see trials.h. */
#include "trials.h"
#include "cmd.h"
#include "compare/outcomes.h"
#include "compare/power.h"
#include "spec/schema.h"
#include "sweep/evaluations.h"
#include "sweep/trial.h"

#include <float.h>
#include <limits.h>
#include <unistd.h>

/* ---- the summary ----------------------------------------------------------------------------- */

int smoe_trials_summary(const smoe_results *r, const smoe_options *options, smoe_err *err) {
    static const char files[] =
        "results.csv summary.csv primary.csv differences.csv trends.csv evaluations.csv "
        "evaluations_summary.csv evaluations_differences.csv evaluations_trends.csv summary.md "
        "sweep.svg sweep.pdf evaluations.svg evaluations.pdf";
    smoe_result result = {0};
    smoe_results_add(&result, r, true);
    smoe_heading_list(&result, NULL, r->sweep->dir, files, NULL);
    return smoe_cmd_emit(&result, options, err);
}

/* ---- the status ------------------------------------------------------------------------------ */

/* RUNNING: another process has it; STOPPED: it has begun. */
enum { DONE, FAILED, RUNNING, STOPPED, WAITING, STATES };
static const char *const states[] = {"done", "failed", "running", "stopped", "waiting"};

static size_t state_of(const smoe_sweep *sweep, size_t i, const char *holder) {
    if (sweep->trial[i].state == SMOE_TRIAL_DONE) return DONE;
    if (holder) return RUNNING;
    if (sweep->trial[i].state == SMOE_TRIAL_FAILED) return FAILED;
    SMOE_FREED char *dir = smoe_trial_dir(sweep, i);
    return access(dir, F_OK) ? WAITING : STOPPED;
}

/* Why a trial failed; NULL if it has not. */
static const char *trial_error(const smoe_trial *trial) {
    return json_string_value(json_object_get(trial->outcome, "error"));
}

/* The last step that the metrics of a trial's run have, 0 where there is none. Of a long file only
 * the end is read. */
static void add_steps(smoe_frame *frame, const smoe_sweep *sweep, size_t i) {
    enum { END = 1 << 18 };
    SMOE_FREED char *dir = smoe_trial_dir(sweep, i);
    SMOE_FREED char *path = smoe_text_format("%s/metrics.jsonl", dir);
    SMOE_FREED_BY(smoe_records_free) smoe_records r = {.path = path, .tail = END};
    while (smoe_records_next(&r, NULL) > 0) continue; /* records may be damaged from some step on */
    json_auto_t *spec = json_loads(sweep->trial[i].spec, 0, NULL);
    json_int_t steps = json_integer_value(smoe_json_at(spec, "train.steps"));
    json_int_t step = (json_int_t)r.step; /* with train.patience fewer than all when it is done */
    if (!step && sweep->trial[i].state == SMOE_TRIAL_DONE) step = steps; /* packed, no records */
    char text[64];
    snprintf(text, sizeof text, "%lld of %lld", (long long)step, (long long)steps);
    smoe_frame_cells(frame, {NULL, .text = text, .heading = "steps"},
                     {"step", .number = step, .where = SMOE_IN_JSON},
                     {"steps", .number = steps, .where = SMOE_IN_JSON});
}

/* A row of the status; its state is counted, and why the trial failed is a line after the table. */
static int add_status(smoe_frame *frame, size_t count[STATES], const smoe_sweep *sweep, size_t i,
                      smoe_err *err) {
    const smoe_trial *trial = &sweep->trial[i];
    const json_t *p = json_object_get(json_object_get(trial->outcome, "result"),
                                      smoe_metrics[SMOE_METRIC_PRECISION].column);
    const json_t *code = json_object_get(trial->outcome, "code");
    SMOE_FREED char *holder = smoe_trial_holder(sweep, i);
    const size_t at = state_of(sweep, i, holder);
    const char *state = states[at];
    bool running = at == RUNNING, failed = at == FAILED;
    SMOE_FREED char *by = running ? smoe_text_format("%s: %s", state, holder) : NULL;
    count[at]++;
    smoe_frame_cells(
        frame, {"cell", .text = trial->name}, {"state", .text = state, .where = SMOE_IN_JSON},
        {NULL, .text = by ? by : state, .heading = "state"},
        {"holder", SMOE_TEXT_OF(running ? holder : NULL), .where = SMOE_IN_JSON, .optional = true});
    add_steps(frame, sweep, i);
    smoe_cell_number(frame, NULL, p ? json_number_value(p) : NAN, .heading = "top-1 accuracy",
                     .format = "%.4f");
    if (sweep->evaluate.points) {
        json_auto_t *list = NULL;
        if (smoe_evaluations_read(&list, NULL, sweep, i, err)) return -1;
        SMOE_FREED char *text =
            smoe_text_format("%zu of %zu", json_array_size(list), sweep->evaluate.points);
        smoe_frame_cells(frame, {NULL, .text = text, .heading = "evaluations"},
                         {"evaluations", .number = json_array_size(list), .where = SMOE_IN_JSON});
    }
    smoe_frame_put(frame,
                   {"code", .number = failed && code ? json_number_value(code) : NAN,
                    .where = SMOE_IN_JSON, .optional = true},
                   {"error", SMOE_TEXT_OF(failed ? trial_error(trial) : NULL),
                    .where = SMOE_IN_JSON, .optional = true});
    return 0;
}

int smoe_trials_status(smoe_result *result, const smoe_sweep *sweep, smoe_err *err) {
    smoe_frame *frame = smoe_result_table(result, "", NULL);
    size_t count[STATES] = {0};
    char text[160] = "";
    for (size_t i = 0; i < sweep->trials; i++)
        if (add_status(frame, count, sweep, i, err)) return -1;
    for (size_t k = 0; k < STATES; k++)
        if (count[k]) smoe_text_list(text, sizeof text, "%zu %s", count[k], states[k]);
    smoe_result_line(result, NULL, "%zu cell%s: %s", sweep->trials, SMOE_S(sweep->trials), text);
    for (size_t i = 0; i < sweep->trials; i++) {
        const char *why = trial_error(&sweep->trial[i]);
        if (why && sweep->trial[i].state == SMOE_TRIAL_FAILED)
            smoe_result_line(result, NULL, "%s: %.*s", sweep->trial[i].name,
                             (int)strcspn(why, "\n"), why);
    }
    return 0;
}

/* ---- the estimate ---------------------------------------------------------------------------- */

/* The cost of a trial, and where `e` is not NULL an estimate of its time. */
static int estimate_trial(smoe_cost *cost, smoe_estimate *e, smoe_estimator *by,
                          const smoe_trial *trial, const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    size_t classes;
    if (smoe_trial_parse(&spec, trial, err)) return -1;
    if (options->classes) spec.data.classes = (size_t)options->classes;
    if (smoe_cmd_classes(&spec, true, &classes, options->scan, err) ||
        smoe_cost_estimate(cost, &spec, classes, err))
        return -1;
    return e ? smoe_estimate_make(e, by, &spec, classes, cost, err) : 0;
}

/* Trials that differ in the seed alone cost the same: measured once. */
static size_t like(const smoe_sweep *sweep, const size_t *chosen, size_t i) {
    for (size_t k = 0; k < i; k++) {
        const smoe_trial *a = &sweep->trial[chosen[k]], *b = &sweep->trial[chosen[i]];
        bool same = true;
        for (size_t c = 0; c < sweep->columns; c++)
            same &= c == sweep->seed || !strcmp(a->value[c], b->value[c]);
        if (same) return k;
    }
    return i;
}

/* What is too large for this machine, alone or beside others. */
static void add_memory(smoe_result *result, const smoe_estimate *all, size_t trials, size_t jobs,
                       double memory) {
    char a[32], b[32];
    size_t large = 0;
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < trials; i++) {
        large += !all[i].fits;
        least = fmin(least, all[i].bytes);
        if (all[i].fits) most = fmax(most, all[i].bytes);
    }
    smoe_text_si(a, sizeof a, memory, "B");
    if (large)
        smoe_result_line(result, NULL,
                         "%zu of %zu cell%s too large: this machine has %s of memory, the smallest "
                         "cell needs %s",
                         large, trials, SMOE_S(trials), a, smoe_text_si(b, sizeof b, least, "B"));
    if (jobs > 1 && (double)jobs * most > memory)
        smoe_result_line(result, NULL,
                         "%zu cells at once may not fit: this machine has %s of memory, they need "
                         "up to %s",
                         jobs, a, smoe_text_si(b, sizeof b, (double)jobs * most, "B"));
}

/* What a trial is evaluated at, once it is trained. */
static void add_points(smoe_result *result, const smoe_sweep *sweep) {
    const smoe_points *axis = &sweep->evaluate;
    if (!axis->points) return;
    smoe_result_line(result, NULL, "%s%zu evaluation%s%s:", sweep->run ? "" : "then ", axis->points,
                     SMOE_S(axis->points), sweep->run ? "" : " of each cell");
    for (size_t p = 0; p < axis->points; p++) {
        smoe_result_line(result, NULL, " ");
        for (size_t c = 0; c < axis->columns; c++)
            smoe_result_more(result, " %s=%s", axis->column[c], axis->value[p][c]);
    }
}

static void add_estimate(smoe_frame *frame, const smoe_sweep *sweep, size_t i,
                         const smoe_estimate *e, bool slots) {
    const smoe_trial *trial = &sweep->trial[i];
    char text[48], path[160];
    smoe_cell_text(frame, "cell", trial->name);
    for (size_t c = 0; c < sweep->columns; c++) {
        snprintf(path, sizeof path, "set:%s", sweep->column[c]);
        smoe_cell_text(frame, sweep->column[c], trial->value[c], .path = path,
                       .typed = !smoe_spec_holds_text(sweep->column[c]), .where = SMOE_IN_JSON);
    }
    smoe_frame_put(frame, {"slots", .number = slots ? e->slots : (double)NAN},
                   {"params", .number = e->params, .heading = "parameters", .format = ""},
                   {"flops_train", .number = e->flops, .heading = "training", .format = "FLOP"},
                   {"bytes", .number = e->bytes, .heading = "memory", .format = "B"},
                   {"seconds", .number = e->seconds, .where = SMOE_IN_JSON},
                   {"measured", SMOE_TRUTH_OF(e->measured), .where = SMOE_IN_JSON},
                   {"fits", SMOE_TRUTH_OF(e->fits), .where = SMOE_IN_JSON},
                   {NULL, .text = smoe_cmd_estimate_text(text, sizeof text, e), .heading = "time"});
}

/* The sum of all; of parameters and memory the largest. */
static void add_sum(smoe_result *result, const smoe_estimate *all, size_t trials) {
    smoe_estimate sum = {.measured = true, .fits = true};
    char params[32], flops[32], bytes[32], time[48];
    for (size_t i = 0; i < trials; i++) {
        sum.params = fmax(sum.params, all[i].params);
        sum.bytes = fmax(sum.bytes, all[i].bytes);
        sum.flops += all[i].flops;
        sum.seconds += all[i].seconds;
        sum.measured &= all[i].measured;
        sum.fits &= all[i].fits;
    }
    smoe_result_line(result, NULL,
                     "all: at most %s parameters and %s of memory; %s of training, %s",
                     smoe_text_si(params, sizeof params, sum.params, ""),
                     smoe_text_si(bytes, sizeof bytes, sum.bytes, "B"),
                     smoe_text_si(flops, sizeof flops, sum.flops, "FLOP"),
                     smoe_cmd_estimate_text(time, sizeof time, &sum));
}

int smoe_trials_estimate(smoe_sweep *sweep, const smoe_options *options, smoe_err *err) {
    SMOE_FREED size_t *chosen = smoe_alloc(sweep->trials, sizeof *chosen);
    SMOE_FREED smoe_estimate *all = smoe_alloc(sweep->trials, sizeof *all);
    size_t trials = 0; /* a run that is there is not trained */
    for (size_t i = 0; i < sweep->trials && !sweep->run; i++)
        if (!sweep->trial[i].left_out) chosen[trials++] = i;
    smoe_estimator by = {0};
    SMOE_FREED_BY(smoe_result_free) smoe_result result = {0};
    smoe_frame *frame = smoe_result_table(&result, "", NULL);
    bool slots = false; /* differ */
    double some = 0;
    for (size_t i = 0; i < trials; i++) {
        SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
        size_t twin = like(sweep, chosen, i);
        if (twin < i)
            all[i] = all[twin];
        else if (estimate_trial(&cost, &all[i], &by, &sweep->trial[chosen[i]], options, err))
            return -1;
        slots |= some && all[i].slots && all[i].slots != some;
        if (all[i].slots) some = all[i].slots;
    }
    for (size_t i = 0; i < trials; i++) add_estimate(frame, sweep, chosen[i], &all[i], slots);
    if (trials) add_sum(&result, all, trials);
    if (slots && smoe_sweep_column(sweep, "model.moe.experts") < SIZE_MAX &&
        smoe_sweep_column(sweep, "model.moe.slots_per_expert") == SIZE_MAX &&
        smoe_sweep_column(sweep, "model.moe.total_slots") == SIZE_MAX)
        smoe_result_line(&result, NULL,
                         "more experts have more slots here, and so more FLOPs; with "
                         "model.moe.total_slots=N all cells have the same number");
    if (trials) add_memory(&result, all, trials, (size_t)options->jobs, by.memory);
    add_points(&result, sweep);
    return smoe_cmd_emit(&result, options, err);
}

/* ---- the number of seeds --------------------------------------------------------------------- */

enum { MOST_DIFFERENCES = 16 };

typedef struct power {
    double difference[MOST_DIFFERENCES];
    size_t differences;
    smoe_result *result;
    smoe_frame *table;
    size_t alike; /* contrasts without any variance */
} power;

/* Whether every seed and every image has the same outcome: that says nothing of the variance. */
static bool nothing_differs(const smoe_paired *p) {
    return !(p->seeds_var > 0) && !(p->images && p->images_var > 0);
}

/* The number of seeds, or why no number of seeds is enough. */
static void trials_add_seeds(power *w, smoe_frame *needs, const smoe_paired *p, double difference,
                             double chance, const char *key, const char *heading) {
    bool unknown = nothing_differs(p);
    size_t n = unknown ? 0 : smoe_power_seeds(p, difference, chance);
    smoe_paired alone = *p; /* as if there were infinitely many images */
    char text[32];
    alone.images_var = 0;
    if (unknown)
        snprintf(text, sizeof text, "unknown");
    else if (n)
        snprintf(text, sizeof text, "%zu", n);
    else if (smoe_power_seeds(&alone, difference, chance))
        snprintf(text, sizeof text, "more images");
    else
        snprintf(text, sizeof text, "over %d", SMOE_POWER_MOST);
    smoe_cell_text(w->table, NULL, text, .heading = heading);
    smoe_cell_number(needs, key, n ? (double)n : NAN);
}

/* A line, and an object, per difference. */
static void add_contrast(power *w, const char *name, const char *measure, const smoe_paired *p) {
    if (p->n < 2) return;
    double seed = sqrt(p->seeds_var * (double)p->n), images = sqrt(p->images_var);
    if (nothing_differs(p)) {
        seed = images = NAN;
        w->alike++;
    }
    smoe_result *part = smoe_result_part(w->result, "");
    smoe_result_facts(part, {"contrast", .text = name}, {"measure", .text = measure},
                      {"n", .number = p->n}, {"images", .number = p->images},
                      {"seed_sd", .number = seed}, {"images_sd", .number = images});
    smoe_frame *needs = smoe_result_records(part, "needs");
    for (size_t i = 0; i < w->differences; i++) {
        smoe_frame_cells(w->table, {"contrast", .text = i ? "" : name},
                         {"measure", .text = i ? "" : measure},
                         {"sd of seeds", .number = seed, .format = "%.3g"},
                         {"sd of images", .number = p->images ? images : NAN, .format = "%.3g"},
                         {"seeds now", .number = p->n}, {"difference", .number = w->difference[i]});
        smoe_cell_number(needs, "difference", w->difference[i]);
        trials_add_seeds(w, needs, p, w->difference[i], 0.8, "seeds_80", "seeds for 80%");
        trials_add_seeds(w, needs, p, w->difference[i], 0.9, "seeds_90", "for 90%");
        smoe_frame_end(w->table);
        smoe_frame_end(needs);
    }
}

/* "model.moe.experts=8,model.moe.capacity=all - REFERENCE"; fresh. */
static char *difference_name(const smoe_results *r, const smoe_difference *d,
                             const char *reference) {
    char *name = NULL;
    for (size_t c = 0; c < r->sweep->columns; c++) {
        const char *value = smoe_difference_setting(&r->contrasts.compared, d, c);
        if (c == r->sweep->seed) continue;
        smoe_text_add(&name, "%s%s=%s", name ? "," : "", r->sweep->column[c],
                      value ? value : "all");
    }
    smoe_text_add(&name, " - %s", reference);
    return name;
}

static void add_differences(power *w, const smoe_results *r) {
    SMOE_FREED char *reference = smoe_comparison_reference(&r->contrasts.compared);
    for (size_t i = 0; i < r->contrasts.compared.differences; i++) {
        const smoe_difference *d = &r->contrasts.compared.difference[i];
        const char *metric = r->measured->metric[d->metric];
        if (smoe_outcomes_column(metric) < 0) continue;
        SMOE_FREED char *name = difference_name(r, d, reference);
        add_contrast(w, name, metric, &d->paired);
    }
}

int smoe_trials_power(smoe_sweep *sweep, const smoe_options *options, smoe_err *err) {
    static const smoe_option_range positive = {
        DBL_MIN, DBL_MAX, .expected = "up to 16 positive numbers separated by commas"};
    SMOE_FREED_BY(smoe_results_free) smoe_results results = {0};
    SMOE_FREED_BY(smoe_result_free) smoe_result result = {0};
    power w = {.result = &result, .table = smoe_result_table(&result, NULL, NULL)};
    const char *text = *options->power ? options->power : "0.005,0.01,0.02,0.05";
    if (smoe_option_numbers(w.difference, MOST_DIFFERENCES, &w.differences, "power", text,
                            &positive, err) ||
        smoe_results_make(&results, sweep, err))
        return -1;
    for (size_t i = 0; i < results.contrasts.primaries; i++) {
        const smoe_primary_result *primary = &results.contrasts.primary[i];
        SMOE_FREED char *name = smoe_primary_name(primary->asked);
        add_contrast(&w, name, primary->asked->measure, &primary->paired);
    }
    if (!results.contrasts.primaries) { /* the differences in precision and loss */
        add_differences(&w, &results);
        if (results.evaluations) add_differences(&w, results.evaluations);
    }
    if (!w.table->rows)
        return smoe_fail(err, SMOE_USAGE,
                         "%s: no contrast has two seeds yet, so the variance is unknown%s",
                         sweep->dir,
                         results.contrasts.seen ? "; --all-seeds takes the seeds that were seen "
                                                  "before others were added"
                                                : "");
    if (w.alike)
        smoe_result_line(&result, NULL,
                         "%zu contrast%s: no outcome differs, so the variance is unknown", w.alike,
                         SMOE_S(w.alike));
    return smoe_cmd_emit(&result, options, err);
}

/* ---- the best value of a key ----------------------------------------------------------------- */

/* A row of the table: the best of the groups that differ from group `first` in the key alone.
 * Returns false if none of them has results, and adds nothing. */
static bool tune_row(smoe_frame *table, const smoe_results *r, size_t first, size_t key) {
    const smoe_measures *m = r->measured;
    size_t precision = smoe_measures_metric(m, smoe_metrics[SMOE_METRIC_PRECISION].column),
           tried = 0, best = first;
    size_t loss = smoe_measures_metric(m, smoe_metrics[SMOE_METRIC_LOSS].column);
    if (loss == SIZE_MAX)
        loss = smoe_measures_metric(m, smoe_metrics[SMOE_METRIC_EVALUATION_LOSS].column);
    SMOE_FREED const char **line = smoe_alloc(m->columns, sizeof *line);
    double low = INFINITY, high = -INFINITY, own = NAN, value;
    line[key] = "*";
    for (size_t g = 0; g < m->groups; g++) {
        if (!smoe_combinations_fit(&m->own, g, line, first)) continue;
        double mean = smoe_measures_stats(m, g, precision).mean;
        double more = smoe_stats_apart(mean, smoe_measures_stats(m, best, precision).mean);
        if (!isfinite(mean)) continue;
        if (!(more <= 0) || /* NAN: the best has no results yet */
            (more == 0 &&
             smoe_measures_stats(m, g, loss).mean < smoe_measures_stats(m, best, loss).mean))
            best = g;
        tried++;
        if (smoe_settings_number(smoe_measures_setting(m, g, key), &value))
            low = fmin(low, value), high = fmax(high, value);
    }
    if (!tried) return false;
    smoe_settings_number(smoe_measures_setting(m, best, key), &own);
    for (size_t c = 0; c < m->columns; c++)
        if (c != m->seed && c != key)
            smoe_cell_text(table, m->column[c], smoe_measures_setting(m, first, c));
    smoe_frame_put(table, {m->column[key], SMOE_TEXT_OF(smoe_measures_setting(m, best, key))},
                   {smoe_metrics[SMOE_METRIC_PRECISION].column,
                    .number = smoe_measures_stats(m, best, precision).mean},
                   {"n", .number = (double)smoe_measures_stats(m, best, precision).n},
                   {"tried", .number = tried},
                   {"at", .text = tried < 2     ? ""
                                  : own == low  ? "lowest"
                                  : own == high ? "highest"
                                                : ""});
    return true;
}

static bool tune_trained(const smoe_column *column) {
    return strncmp(column->name, SMOE_EVALUATED, strlen(SMOE_EVALUATED)) != 0;
}

/* Whether an earlier row trains the same: rows may differ in keys of evaluations alone. */
static bool tune_repeats(const smoe_frame *table, size_t row) {
    bool same = false;
    for (size_t earlier = 0; earlier < row && !same; earlier++) {
        same = true;
        for (size_t c = 0; table->column[c].words && same; c++)
            same =
                !tune_trained(&table->column[c]) ||
                !strcmp(smoe_frame_text_at(table, earlier, c), smoe_frame_text_at(table, row, c));
    }
    return same;
}

/* The rows as they are written in a spec: the settings and the values that were found, once. */
static void tune_zip(smoe_result *result, const smoe_frame *table) {
    smoe_result_line(result, NULL,
                     "the section sweep.zip of a spec that trains with these values:");
    for (size_t c = 0; table->column[c].words; c++) {
        const char *key = table->column[c].name;
        if (!tune_trained(&table->column[c])) continue;
        smoe_result_line(result, NULL, "  %s: [", key);
        for (size_t r = 0; r < table->rows; r++) {
            const char *value = smoe_frame_text_at(table, r, c);
            SMOE_FREED char *quoted = smoe_spec_holds_text(key) ? smoe_value_quoted(value) : NULL;
            if (!tune_repeats(table, r))
                smoe_result_more(result, "%s%s", r ? ", " : "", quoted ? quoted : value);
        }
        smoe_result_more(result, "]");
    }
}

int smoe_trials_tune(smoe_sweep *sweep, const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_results_free) smoe_results results = {0};
    SMOE_FREED_BY(smoe_result_free) smoe_result result = {0};
    if (smoe_results_make(&results, sweep, err)) return -1;
    const smoe_results *r = results.evaluations ? results.evaluations : &results;
    const smoe_measures *m = r->measured;
    size_t key = smoe_sweep_column(r->sweep, options->tune);
    if (key == SIZE_MAX || key == m->seed) {
        char keys[2000] = "";
        for (size_t c = 0; c < r->sweep->columns; c++)
            if (c != m->seed) smoe_text_list(keys, sizeof keys, "%s", r->sweep->column[c]);
        return smoe_fail(err, SMOE_USAGE, "--tune %s: is not one of the swept keys: %s",
                         options->tune, *keys ? keys : "only seed is swept");
    }
    if (smoe_measures_metric(m, smoe_metrics[SMOE_METRIC_PRECISION].column) == SIZE_MAX)
        return smoe_fail(err, SMOE_USAGE, "%s: no cell has a %s yet", sweep->dir,
                         smoe_metrics[SMOE_METRIC_PRECISION].column);
    smoe_frame *table = smoe_result_table(&result, "tuned", NULL);
    size_t empty = 0; /* rows without results */
    for (size_t g = 0; g < m->groups; g++) {
        SMOE_FREED const char **line = smoe_alloc(m->columns, sizeof *line);
        char split[SMOE_METRIC_KEY] = ""; /* that the group is measured on */
        size_t run = 0;
        while (run < m->runs && m->group[run] != g) run++;
        if (run < m->runs) smoe_results_split(r->sweep, run, split);
        bool seen = strcmp(split, "val") != 0;
        line[key] = "*";
        for (size_t k = 0; k < g && !seen; k++) seen = smoe_combinations_fit(&m->own, k, line, g);
        if (!seen) empty += !tune_row(table, r, g, key);
    }
    if (!table->rows)
        return smoe_fail(err, SMOE_USAGE,
                         "%s: no results on the split val; tune on images held out of training: "
                         "eval.split=val, or sweep.evaluate with eval.split of val and test",
                         sweep->dir);
    if (empty)
        smoe_result_line(&result, NULL, "%zu row%s without results yet %s left out", empty,
                         SMOE_S(empty), empty > 1 ? "are" : "is");
    if (table->rows > 1) tune_zip(&result, table);
    return smoe_cmd_emit(&result, options, err);
}

/* ---- a job array of Slurm -------------------------------------------------------------------- */

/* The number of cells that are not done, and the megabytes of the largest. */
static int slurm_measure(size_t *open, double *megabytes, const smoe_sweep *sweep,
                         const smoe_options *options, smoe_err *err) {
    /* the program, its libraries and what the loader keeps, for which there is no formula */
    static const double rest = 1 << 30, margin = 1.2;
    double most = 0;
    *open = 0;
    for (size_t i = 0; i < sweep->trials; i++) {
        SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
        if (sweep->trial[i].state == SMOE_TRIAL_DONE) continue;
        if (estimate_trial(&cost, NULL, NULL, &sweep->trial[i], options, err)) return -1;
        most = fmax(most, smoe_cost_bytes_sum(&cost.bytes));
        ++*open;
    }
    *megabytes = ceil((margin * most + rest) / (1 << 20));
    return 0;
}

int smoe_trials_slurm(smoe_sweep *sweep, const smoe_options *options, smoe_err *err) {
    char path[PATH_MAX] = "", dir[PATH_MAX];
    size_t open;
    double megabytes;
    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0 || !realpath(sweep->dir, dir))
        return smoe_fail_errno(err, SMOE_RUNTIME,
                               "%s: cannot find the path of the program or of %s", options->slurm,
                               sweep->dir);
    if (slurm_measure(&open, &megabytes, sweep, options, err)) return -1;
    if (!open)
        return smoe_fail(err, SMOE_USAGE, "%s: every cell is done, there is no work for a job",
                         sweep->dir);
    SMOE_FREED char *name = smoe_shell_word(sweep->name), *word = smoe_shell_word(options->slurm);
    SMOE_FREED char *program = smoe_shell_word(path), *folder = smoe_shell_word(dir);
    SMOE_FREED char *script = smoe_text_format(
        "#!/bin/sh\n"
        "# Each task of this array takes cells of the sweep until none is left. sbatch's own\n"
        "# options, such as --time, --partition and --array=1-N with fewer tasks, go before\n"
        "# the name of this file.\n"
        "#SBATCH --job-name=%s\n"
        "#SBATCH --array=1-%zu\n"
        "#SBATCH --ntasks=1\n"
        "#SBATCH --cpus-per-task=%d\n"
        "#SBATCH --mem=%.0fM\n"
        "#SBATCH --signal=USR1@120\n"
        "exec srun --ntasks=1 %s sweep --resume --no-progress -q %s\n",
        name, open, smoe_threads(), megabytes, program, folder);
    if (smoe_file_write(options->slurm, script, strlen(script), err)) return -1;
    if (!options->quiet)
        smoe_cmd_print(stdout, "%s: %zu cell%s of %.0f MB at most; sbatch %s\n", options->slurm,
                       open, SMOE_S(open), megabytes, word);
    return 0;
}
