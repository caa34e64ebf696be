/* The figure of a sweep. */
#include "sweep/results_figure.h"
#include "sweep/results.h"
#include "sweep/results_plan.h"
#include "base/alloc.h"
#include "compare/contrast.h"
#include "sweep/evaluations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int rising(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bool smoe_results_powers(double *value, size_t n) {
    size_t distinct = 1;
    qsort(value, n, sizeof *value, rising);
    if (!n || value[0] <= 0) return false;
    for (size_t i = 1; i < n; i++) {
        if (value[i] == value[i - 1]) continue;
        if (value[i] < 1.4 * value[i - 1]) return false;
        distinct++;
    }
    return distinct > 2;
}

static int by_x(const void *a, const void *b) {
    return rising(&((const smoe_chart_point *)a)->x, &((const smoe_chart_point *)b)->x);
}

/* Where a group stands on the x axis, if that is a number. */
static double figure_place_of(const smoe_results_plan *p, size_t group) {
    double x = NAN;
    if (p->x == SIZE_MAX) return smoe_measures_stats(p->r->measured, group, p->x_metric).mean;
    if (p->numbers) smoe_results_number(smoe_results_value(p, group, p->x), &x);
    return x;
}

/* A group by itself is a contrast too, over all its seeds: its bar is the interval over seeds and
 * images. */
static int add_point(smoe_results_plan *p, size_t group, smoe_err *err) {
    smoe_paired s = {0};
    smoe_measures all = *p->r->measured;
    all.seen = NULL;
    for (size_t g = 0; g < p->r->measured->groups; g++) p->weight[g] = g == group;
    if (smoe_contrast_measure(&s, &all, p->weight, p->metric, err)) return -1;
    smoe_chart_point point = {.x = figure_place_of(p, group), .y = s.mean, .error = s.half};
    if (p->numbers && !isfinite(point.x)) return 0; /* not measured yet */
    size_t l = smoe_results_line(p, group);
    if (!p->numbers) {
        point.x = smoe_results_rank(p, group, p->x);
        point.label = smoe_results_value(p, group, p->x);
    }
    if (smoe_comparison_refers(&p->r->contrasts.compared, group)) {
        p->references++;
        p->reference_of[l]++;
        p->figure.level = s.mean;
    }
    if (s.images) p->images = s.images;
    smoe_results_add_point(&p->figure.line[l], point);
    return 0;
}

static size_t column_of(const smoe_sweep *sweep, const char *name) {
    for (size_t c = 0; name && c < sweep->columns; c++)
        if (!strcmp(sweep->column[c], name)) return c;
    return SIZE_MAX;
}

static bool choose_x(smoe_results_plan *p, const char *wish) {
    const smoe_sweep *sweep = p->r->sweep;
    p->x = column_of(sweep, wish);
    p->x_metric = wish ? smoe_measures_metric(p->r->measured, wish) : SIZE_MAX;
    if (p->x != SIZE_MAX) {
        p->numbers = smoe_results_is_numeric(p, p->x);
        return true;
    }
    if (p->x_metric != SIZE_MAX) return p->numbers = true;
    for (size_t c = p->r->x_from; c < sweep->columns && !p->numbers; c++) {
        if (c == sweep->seed) continue;
        if (p->x == SIZE_MAX) p->x = c;
        p->numbers = smoe_results_is_numeric(p, c);
        if (p->numbers) p->x = c;
    }
    return p->x != SIZE_MAX;
}

/* The label, with a description of the bars if there are any: "test top-1 accuracy (95% interval, 3
 * seeds, 2000 images)". */
static char *y_label_of(const smoe_results_plan *p) {
    char buf[SMOE_METRIC_KEY];
    const char *label = smoe_results_say(p, p->r->measured->metric[p->metric], buf), *most = "";
    size_t seeds = 0;
    for (size_t g = 0; g < p->r->measured->groups; g++) {
        size_t n = smoe_measures_stats(p->r->measured, g, p->metric).n;
        if (g && n != seeds) most = "up to ";
        if (n > seeds) seeds = n;
    }
    if (seeds < 2) return smoe_alloc_text(label);
    if (!p->images) return smoe_text_format("%s (95%% interval, %s%zu seeds)", label, most, seeds);
    return smoe_text_format("%s (95%% interval, %s%zu seeds, %zu images)", label, most, seeds,
                            p->images);
}

/* A single reference is drawn as a dashed line at its height; a line of references is named in the
 * key. */
static void mark_reference(smoe_results_plan *p) {
    if (p->references == 1 && p->r->measured->groups > 1) {
        p->figure.level_title = "reference";
        return;
    }
    for (size_t l = 0; l < p->figure.lines && p->figure.lines > 1; l++) {
        if (!p->reference_of[l] || p->reference_of[l] < p->figure.line[l].points) continue;
        smoe_text_add(&p->title[l], " (reference)");
        p->figure.line[l].title = p->title[l];
    }
}

/* The points that no other dominates, as a line of their own. */
static void add_front(smoe_results_plan *p) {
    const smoe_measures *m = p->r->measured;
    smoe_chart_line *line = &p->figure.line[p->figure.lines];
    line->title = p->title[p->figure.lines] = smoe_alloc_text("front");
    for (size_t g = 0; g < m->groups; g++) {
        smoe_chart_point point = {.x = figure_place_of(p, g),
                                  .y = smoe_measures_stats(m, g, p->metric).mean};
        if (smoe_results_on_front(p->r, g, p->x_metric, p->metric))
            smoe_results_add_point(line, point);
    }
    p->figure.lines++;
}

/* Points by x within lines; title, labels, whether the axis is logarithmic. Lines over categories
 * stand beside each other, so that their bars can be told apart. */
static void figure_finish(smoe_results_plan *p, double *x) {
    const double beside = fmin(0.08, 0.6 / (double)(p->figure.lines + 1));
    size_t n = 0;
    for (size_t l = 0; l < p->figure.lines; l++) {
        smoe_chart_line *line = &p->figure.line[l];
        qsort(line->point, line->points, sizeof *line->point, by_x);
        for (size_t i = 0; i < line->points; i++) {
            x[n++] = line->point[i].x;
            if (!p->numbers)
                line->point[i].x += ((double)l - (double)(p->figure.lines - 1) / 2) * beside;
        }
    }
    const smoe_sweep *sweep = p->r->sweep;
    p->figure.x_label = p->x == SIZE_MAX
                            ? smoe_results_say(p, p->r->measured->metric[p->x_metric], p->x_label)
                            : smoe_results_words(sweep->column[p->x], p->x_label);
    p->figure.y_label = p->y_label;
    p->figure.share = smoe_metric_is_share(p->r->measured->metric[p->metric]);
    if (!p->numbers) return;
    /* Measured quantities such as FLOPs get a logarithmic axis where the largest is several times
     * the smallest. */
    bool powers = smoe_results_powers(x, n), metric = p->x == SIZE_MAX;
    if (metric && n && x[0] > 0 && x[n - 1] > 3 * x[0])
        p->figure.log_x = 10;
    else if (powers)
        p->figure.log_x = 2;
}

/* ---- the figure ------------------------------------------------------------------------------ */

/* Points of the groups over a column or a metric. */
static int draw_points(smoe_results_plan *p, const smoe_sweep_figure *wish, const char *name,
                       bool *drawn, smoe_err *err) {
    size_t n = p->r->measured->groups;
    int status = 0;
    for (size_t g = 0; g < n && !status; g++) status = add_point(p, g, err);
    if (status) return status;
    p->y_label = y_label_of(p);
    mark_reference(p);
    if (wish->front && p->x == SIZE_MAX) add_front(p);
    double *x = smoe_alloc(2 * n + 1, sizeof *x); /* of all lines, and of the front */
    figure_finish(p, x);
    free(x);
    return smoe_chart_write(&p->figure, p->r->sweep->dir, name, drawn, err);
}

/*
 * DIR/NAME.gp and .svg: `y`, precision_at_1 unless it is given (the loss where there is none),
 * against `x`, a column or a metric, with the 95% interval of each mean (compare/contrast.h) as
 * bars.
 *   x     not given: the first column from x_from on whose values are numbers, at least two; else
 *         the first column from there, its values side by side
 *   line  the column that tells lines apart. Not given: all but x; where x is a metric, all
 *         columns whose values are no numbers
 * A name that these results do not have counts as not given. Nothing is drawn where no trial is
 * done or nothing but the seed is swept. *drawn is false when a script was left that gnuplot has
 * not drawn.
 */
static int figure_draw(const smoe_results *r, const smoe_sweep_figure *wish, const char *name,
                       bool *drawn, smoe_err *err) {
    const char *colour;
    smoe_results_plan p = smoe_results_plan_open(r);
    int status = 0;
    *drawn = true;
    p.y = smoe_results_cells_key(r->sweep, wish->y, &colour);
    p.metric = smoe_results_first(r, p.y == SIZE_MAX ? wish->y : colour);
    bool cells = p.y != SIZE_MAX;
    if (p.metric != SIZE_MAX && choose_x(&p, wish->x)) {
        p.line = cells ? SIZE_MAX : column_of(r->sweep, wish->line);
        if (!cells || p.x != SIZE_MAX)
            status = cells ? smoe_results_cells_draw(&p, name, drawn, err)
                           : draw_points(&p, wish, name, drawn, err);
    }
    smoe_results_plan_free(&p);
    return status;
}

/* ---- the figures of a sweep ------------------------------------------------------------------ */

static bool is_set(const smoe_sweep *sweep, const char *name) {
    size_t prefix = strlen(SMOE_EVALUATED);
    for (size_t c = 0; c < sweep->evaluate.columns && !strncmp(name, SMOE_EVALUATED, prefix); c++)
        if (!strcmp(name + prefix, sweep->evaluate.column[c])) return true;
    return column_of(sweep, name) != SIZE_MAX;
}

static int check_axis(const smoe_sweep *sweep, const char *axis, const char *name, bool may_set,
                      bool may_measure, smoe_err *err) {
    char known[1000];
    size_t used = 0;
    if (!name || (may_set && is_set(sweep, name)) || (may_measure && smoe_metric_is_measured(name)))
        return 0;
    for (size_t m = 0; m < SMOE_METRICS; m++)
        if (smoe_metrics[m].column)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "",
                                     smoe_metrics[m].column);
    return smoe_fail(err, SMOE_USAGE, "the figure's %s: '%s' is not %s%s%s", axis, name,
                     may_set ? "a swept key" : "measured; what is: ",
                     may_set && may_measure ? ", nor measured; what is: " : "",
                     may_measure ? known : "");
}

/* Metrics over steps, separated by commas: columns, or names of records. */
static int check_curves(const char *text, smoe_err *err) {
    char *copy = smoe_alloc_text(text), *rest = copy, *name;
    smoe_metric_place place;
    int status = 0;
    while (!status && (name = strsep(&rest, ",")))
        if (!smoe_metric_is_measured(name) && !smoe_metric_read(&place, name))
            status = smoe_fail(err, SMOE_USAGE,
                               "the figure's y: '%s' is neither measured nor recorded during "
                               "training; smoe-run(5) lists what is",
                               name);
    free(copy);
    return status;
}

/* The key of "KEY:METRIC" or of "KEY", and the metric. */
static int check_cells(const smoe_sweep *sweep, const char *text, bool *cells, smoe_err *err) {
    char *key = smoe_alloc_text(text), *colour = key ? strchr(key, ':') : NULL;
    if (colour) *colour++ = '\0';
    *cells = key && is_set(sweep, key);
    int status = *cells ? check_axis(sweep, "colour", colour, false, true, err) : 0;
    free(key);
    return status;
}

int smoe_results_check(const smoe_sweep *sweep, smoe_err *err) {
    const smoe_sweep_figure *wish = &sweep->figure;
    bool cells;
    if (smoe_results_over_steps(wish)) return check_curves(wish->y, err);
    if (check_cells(sweep, wish->y, &cells, err)) return -1;
    if (check_axis(sweep, "x", wish->x, true, !cells, err)) return -1;
    if (!cells && check_axis(sweep, "y", wish->y, false, true, err)) return -1;
    return check_axis(sweep, "line", wish->line, true, false, err);
}

static bool knows(const smoe_results *r, const char *name, bool metrics, bool columns) {
    if (!name || !r->measured->metrics) return true;
    if (columns && column_of(r->sweep, name) != SIZE_MAX) return true;
    if (metrics && smoe_measures_metric(r->measured, name) != SIZE_MAX) return true;
    return r->evaluations && knows(r->evaluations, name, metrics, columns);
}

int smoe_results_draw(const smoe_results *r, bool *drawn, smoe_err *err) {
    const smoe_sweep_figure *wish = &r->sweep->figure;
    const char *colour;
    bool also = true;
    *drawn = false;
    if (smoe_results_over_steps(wish)) {
        SMOE_FREED_BY(smoe_results_plan_free) smoe_results_plan p = smoe_results_plan_open(r);
        const char *precision = smoe_metrics[SMOE_METRIC_PRECISION].column;
        return smoe_results_curves_draw(&p, wish->y ? wish->y : precision, drawn, err);
    }
    bool cells = smoe_results_cells_key(r->evaluations ? r->evaluations->sweep : r->sweep, wish->y,
                                        &colour) != SIZE_MAX;
    if (!knows(r, wish->x, true, true) || !knows(r, cells ? colour : wish->y, true, false) ||
        !knows(r, wish->line, false, true))
        return smoe_fail(err, SMOE_USAGE,
                         "%s: the figure cannot have x %s, y %s, line %s: x is a column of "
                         "results.csv or evaluations.csv, y a measured one, line one that is set",
                         r->sweep->dir, wish->x ? wish->x : "(any)", wish->y ? wish->y : "(any)",
                         wish->line ? wish->line : "(any)");
    if (figure_draw(r, wish, "sweep", drawn, err)) return -1;
    if (r->evaluations && figure_draw(r->evaluations, wish, "evaluations", &also, err)) return -1;
    *drawn = *drawn && also;
    return 0;
}
