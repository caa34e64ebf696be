/* The figure of a sweep; see results_figure.h. */
#include "sweep/results_figure.h"
#include "draw/chart.h"
#include "draw/words.h"
#include "spec/metrics.h"
#include "compare/contrast.h"
#include "sweep/evaluations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct plan {
    const smoe_results *r;
    size_t x;        /* the column on the x axis; SIZE_MAX: a metric is */
    size_t x_metric; /* that one */
    size_t line;     /* the only column that tells lines apart; SIZE_MAX: see tells_apart */
    bool numbers;    /* places on the x axis are numbers */
    size_t metric;
    smoe_chart figure;
    char split[SMOE_METRIC_KEY]; /* the split of the evaluations; "": several splits */
    char x_label[SMOE_METRIC_KEY], *y_label;
    char **title;                     /* [lines] */
    size_t *of;                       /* [lines] a group of each */
    double *weight;                   /* [groups] scratch */
    size_t references, *reference_of; /* groups that others are compared with; [lines] of each */
    size_t images; /* images that the intervals include; 0: intervals are over seeds alone */
} plan;

static const char *value_of(const plan *p, size_t group, size_t column) {
    return smoe_measures_setting(p->r->measured, group, column);
}

static bool number_of(const char *text, double *x) {
    char *end;
    *x = strtod(text, &end);
    return end != text && !*end && isfinite(*x);
}

/* Whether the values of a column are numbers, and not all the same. */
static bool is_numeric(const plan *p, size_t column) {
    double first, x;
    bool differ = false;
    for (size_t g = 0; g < p->r->measured->groups; g++) {
        if (!number_of(value_of(p, g, column), g ? &x : &first)) return false;
        if (g) differ |= x != first;
    }
    return differ;
}

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

/* Whether the column has a value that is not a number. */
static bool has_words(const plan *p, size_t column) {
    double x;
    for (size_t g = 0; g < p->r->measured->groups; g++)
        if (!number_of(value_of(p, g, column), &x)) return true;
    return false;
}

/* Whether lines differ in this column. */
static bool tells_apart(const plan *p, size_t column) {
    if (column == p->x || column == p->r->sweep->seed) return false;
    if (p->line != SIZE_MAX) return column == p->line;
    return p->x != SIZE_MAX || has_words(p, column);
}

static bool same_line(const plan *p, size_t a, size_t b) {
    for (size_t c = 0; c < p->r->sweep->columns; c++)
        if (tells_apart(p, c) && strcmp(value_of(p, a, c), value_of(p, b, c))) return false;
    return true;
}

/* A column in words: the key, and whether it was set for evaluations, or is that of the start. */
static const char *column_words(const char *column, char buf[SMOE_METRIC_KEY]) {
    size_t prefix = strlen(SMOE_EVALUATED);
    bool evaluated = !strncmp(column, SMOE_EVALUATED, prefix);
    const char *key = evaluated ? column + prefix : smoe_spec_started(column);
    char own[SMOE_METRIC_KEY];
    if (!key) return smoe_words_of_key(column, buf, SMOE_METRIC_KEY);
    snprintf(buf, SMOE_METRIC_KEY, "%s of the %s", smoe_words_of_key(key, own, sizeof own),
             evaluated ? "evaluation" : "start");
    return buf;
}

/* "soft, experts per token 2": what distinguishes a line; NULL where there is nothing. Without MoE
 * layers their settings are left out. */
static char *title_of(const plan *p, size_t group) {
    char *title = NULL;
    for (size_t c = 0; c < p->r->sweep->columns; c++)
        if (tells_apart(p, c) && !strcmp(p->r->sweep->column[c], "model.moe.layers") &&
            !strcmp(value_of(p, group, c), "none"))
            return strdup("dense");
    for (size_t c = 0; c < p->r->sweep->columns; c++) {
        if (!tells_apart(p, c)) continue;
        const char *key = p->r->sweep->column[c];
        bool router = !strcmp(key, "model.moe.router"); /* whose names speak for themselves */
        char buf[SMOE_METRIC_KEY];
        const char *words = router ? "" : column_words(key, buf);
        char *longer = smoe_text_format("%s%s%s%s%s", title ? title : "", title ? ", " : "", words,
                                        router ? "" : " ", value_of(p, group, c));
        free(title);
        title = longer;
    }
    return title;
}

/* The place of a category: the groups' order of first appearance. */
static double category(const plan *p, size_t group) {
    double place = 0;
    for (size_t g = 0; g < group; g++) {
        bool before = false;
        if (!strcmp(value_of(p, g, p->x), value_of(p, group, p->x))) return category(p, g);
        for (size_t e = 0; e < g; e++)
            before |= !strcmp(value_of(p, e, p->x), value_of(p, g, p->x));
        place += !before;
    }
    return place;
}

static int by_x(const void *a, const void *b) {
    return rising(&((const smoe_chart_point *)a)->x, &((const smoe_chart_point *)b)->x);
}

/* Where a group stands on the x axis, if that is a number. */
static double place_of(const plan *p, size_t group) {
    double x = NAN;
    if (p->x == SIZE_MAX) return smoe_measures_stats(p->r->measured, group, p->x_metric).mean;
    if (p->numbers) number_of(value_of(p, group, p->x), &x);
    return x;
}

/* A group by itself is a contrast too, over all its seeds: its bar is the interval over seeds and
 * images. */
static int add_point(plan *p, size_t group, smoe_err *err) {
    size_t l = 0;
    smoe_chart *f = &p->figure;
    smoe_paired s = {0};
    smoe_measures all = *p->r->measured;
    all.seen = NULL;
    for (size_t g = 0; g < p->r->measured->groups; g++) p->weight[g] = g == group;
    if (smoe_contrast_measure(&s, &all, p->weight, p->metric, err)) return -1;
    smoe_chart_point point = {.x = place_of(p, group), .y = s.mean, .error = s.half};
    if (p->numbers && !isfinite(point.x)) return 0; /* not measured yet */
    while (l < f->lines && !same_line(p, p->of[l], group)) l++;
    if (l == f->lines) {
        f->line[l].point = calloc(p->r->measured->groups, sizeof *f->line[l].point);
        if (!f->line[l].point) return smoe_fail(err, SMOE_RUNTIME, "out of memory for a figure");
        f->line[l].title = p->title[l] = title_of(p, group);
        p->of[l] = group;
        f->lines++;
    }
    if (!p->numbers) {
        point.x = category(p, group);
        point.label = value_of(p, group, p->x);
    }
    if (smoe_comparison_refers(&p->r->contrasts.compared, group)) {
        p->references++;
        p->reference_of[l]++;
        p->figure.level = s.mean;
    }
    if (s.images) p->images = s.images;
    f->line[l].point[f->line[l].points++] = point;
    return 0;
}

static size_t column_of(const smoe_sweep *sweep, const char *name) {
    for (size_t c = 0; name && c < sweep->columns; c++)
        if (!strcmp(sweep->column[c], name)) return c;
    return SIZE_MAX;
}

static bool choose_x(plan *p, const char *wish) {
    const smoe_sweep *sweep = p->r->sweep;
    p->x = column_of(sweep, wish);
    p->x_metric = wish ? smoe_measures_metric(p->r->measured, wish) : SIZE_MAX;
    if (p->x != SIZE_MAX) {
        p->numbers = is_numeric(p, p->x);
        return true;
    }
    if (p->x_metric != SIZE_MAX) return p->numbers = true;
    for (size_t c = p->r->x_from; c < sweep->columns && !p->numbers; c++) {
        if (c == sweep->seed) continue;
        if (p->x == SIZE_MAX) p->x = c;
        p->numbers = is_numeric(p, c);
        if (p->numbers) p->x = c;
    }
    return p->x != SIZE_MAX;
}

/* The split that all trials are evaluated on. */
static void find_split(plan *p) {
    const smoe_sweep *sweep = p->r->sweep;
    for (size_t i = 0; i < sweep->trials; i++) {
        json_t *spec = json_loads(sweep->trial[i].spec, 0, NULL);
        const char *split =
            json_string_value(json_object_get(json_object_get(spec, "eval"), "split"));
        for (size_t c = 0; c < sweep->columns; c++)
            if (!strcmp(sweep->column[c], SMOE_EVALUATED "eval.split"))
                split = sweep->trial[i].value[c];
        if (i && split && strcmp(p->split, split)) split = NULL;
        snprintf(p->split, sizeof p->split, "%s", split ? split : "");
        json_decref(spec);
        if (!*p->split) return;
    }
}

static const char *label_of(const plan *p, size_t metric, char buf[SMOE_METRIC_KEY]) {
    size_t number;
    smoe_metric m = smoe_metric_of_column(p->r->measured->metric[metric], &number);
    if (m == SMOE_METRICS) return p->r->measured->metric[metric];
    return smoe_metric_label(buf, m, *p->split ? p->split : NULL, number);
}

/* The label, with a description of the bars if there are any: "test precision@1 (95% interval, 3
 * seeds, 2000 images)". */
static char *y_label_of(const plan *p) {
    char buf[SMOE_METRIC_KEY];
    const char *label = label_of(p, p->metric, buf), *most = "";
    size_t seeds = 0;
    for (size_t g = 0; g < p->r->measured->groups; g++) {
        size_t n = smoe_measures_stats(p->r->measured, g, p->metric).n;
        if (g && n != seeds) most = "up to ";
        if (n > seeds) seeds = n;
    }
    if (seeds < 2) return strdup(label);
    if (!p->images) return smoe_text_format("%s (95%% interval, %s%zu seeds)", label, most, seeds);
    return smoe_text_format("%s (95%% interval, %s%zu seeds, %zu images)", label, most, seeds,
                            p->images);
}

/* A single reference is drawn as a dashed line at its height; a line of references is named in the
 * key. */
static int mark_reference(plan *p) {
    if (p->references == 1 && p->r->measured->groups > 1) {
        p->figure.level_title = "reference";
        return 0;
    }
    for (size_t l = 0; l < p->figure.lines && p->figure.lines > 1; l++) {
        if (!p->reference_of[l] || p->reference_of[l] < p->figure.line[l].points) continue;
        char *longer = smoe_text_format("%s (reference)", p->title[l] ? p->title[l] : "");
        if (!longer) return -1;
        free(p->title[l]);
        p->figure.line[l].title = p->title[l] = longer;
    }
    return 0;
}

/* The points that no other dominates, as a line of their own. */
static int add_front(plan *p, smoe_err *err) {
    const smoe_measures *m = p->r->measured;
    smoe_chart_line *line = &p->figure.line[p->figure.lines];
    line->title = p->title[p->figure.lines] = strdup("front");
    line->point = calloc(m->groups + 1, sizeof *line->point);
    if (!line->title || !line->point)
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for a figure");
    for (size_t g = 0; g < m->groups; g++) {
        smoe_chart_point point = {.x = place_of(p, g),
                                  .y = smoe_measures_stats(m, g, p->metric).mean};
        if (smoe_results_on_front(p->r, g, p->x_metric, p->metric))
            line->point[line->points++] = point;
    }
    p->figure.lines++;
    return 0;
}

/* Points by x within lines; title, labels, whether the axis is logarithmic. Lines over categories
 * stand beside each other, so that their bars can be told apart. */
static void finish(plan *p, double *x) {
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
    p->figure.title = sweep->figure.title ? sweep->figure.title : sweep->name;
    p->figure.width = sweep->figure.width;
    p->figure.x_label = p->x == SIZE_MAX ? label_of(p, p->x_metric, p->x_label)
                                         : column_words(sweep->column[p->x], p->x_label);
    p->figure.y_label = p->y_label;
    if (!p->numbers) return;
    /* Measured quantities such as FLOPs get a logarithmic axis where the largest is several times
     * the smallest. */
    bool powers = smoe_results_powers(x, n), metric = p->x == SIZE_MAX;
    if (metric && n && x[0] > 0 && x[n - 1] > 3 * x[0])
        p->figure.log_x = 10;
    else if (powers)
        p->figure.log_x = 2;
}

int smoe_results_figure(const smoe_results *r, const smoe_sweep_figure *wish, const char *name,
                        bool *drawn, smoe_err *err) {
    plan p = {.r = r, .metric = smoe_results_first(r, wish->y)};
    size_t n = r->measured->groups;
    *drawn = true;
    if (p.metric == SIZE_MAX || !choose_x(&p, wish->x)) return 0;
    p.line = column_of(r->sweep, wish->line);
    find_split(&p);
    double *x = calloc(2 * n + 1, sizeof *x); /* of all lines, and of the front */
    p.figure.line = calloc(n + 1, sizeof *p.figure.line);
    p.title = calloc(n + 1, sizeof *p.title);
    p.of = calloc(n + 1, sizeof *p.of);
    p.reference_of = calloc(n + 1, sizeof *p.reference_of);
    p.weight = calloc(n + 1, sizeof *p.weight);
    bool there = x && p.figure.line && p.title && p.of && p.reference_of && p.weight;
    int status = there ? 0 : -1;
    if (status) smoe_fail(err, SMOE_RUNTIME, "out of memory for a figure");
    for (size_t g = 0; g < n && !status; g++) status = add_point(&p, g, err);
    if (!status && (!(p.y_label = y_label_of(&p)) || mark_reference(&p)))
        status = smoe_fail(err, SMOE_RUNTIME, "out of memory for a figure");
    if (!status && wish->front && p.x == SIZE_MAX) status = add_front(&p, err);
    if (!status) {
        finish(&p, x);
        status = smoe_chart_write(&p.figure, r->sweep->dir, name, drawn, err);
    }
    for (size_t l = 0; l < p.figure.lines; l++) {
        free(p.figure.line[l].point);
        free(p.title[l]);
    }
    free(p.figure.line);
    free(p.title);
    free(p.y_label);
    free(p.of);
    free(p.reference_of);
    free(p.weight);
    free(x);
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

int smoe_results_check(const smoe_sweep *sweep, smoe_err *err) {
    const smoe_sweep_figure *wish = &sweep->figure;
    if (check_axis(sweep, "x", wish->x, true, true, err)) return -1;
    if (check_axis(sweep, "y", wish->y, false, true, err)) return -1;
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
    bool also = true;
    *drawn = false;
    if (!knows(r, wish->x, true, true) || !knows(r, wish->y, true, false) ||
        !knows(r, wish->line, false, true))
        return smoe_fail(err, SMOE_USAGE,
                         "%s: the figure cannot have x %s, y %s, line %s: x is a column of "
                         "results.csv or evaluations.csv, y a measured one, line one that is set",
                         r->sweep->dir, wish->x ? wish->x : "(any)", wish->y ? wish->y : "(any)",
                         wish->line ? wish->line : "(any)");
    if (smoe_results_figure(r, wish, "sweep", drawn, err)) return -1;
    if (r->evaluations && smoe_results_figure(r->evaluations, wish, "evaluations", &also, err))
        return -1;
    *drawn = *drawn && also;
    return 0;
}
