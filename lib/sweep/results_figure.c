/* The figures of a sweep: a metric over a key or another metric, over two keys as cells, or over
 * the steps of training. */
#include "draw/plot.h"
#include "draw/figures.h"
#include "spec/metrics.h"
#include "store/curves.h"
#include "sweep/results.h"
#include "sweep/trial.h"

enum { MOST_BARS = 24 }; /* curves of more points have none */

typedef struct figure {
    smoe_alloc_pool memory;
    const smoe_results *r;
    const smoe_sweep *sweep;
    const smoe_measures *m;
    size_t x;        /* the column on the x axis; SIZE_MAX: a metric is */
    size_t x_metric; /* that one */
    size_t y;        /* the column on the y axis of cells; SIZE_MAX: a metric is there */
    size_t line;     /* the only column that tells lines apart; SIZE_MAX: see tells_apart */
    bool numbers;    /* places on the x axis are numbers */
    size_t metric;
    smoe_plot plot;
    smoe_panel *panel;                /* of the plot, the only one; its marks are the lines */
    char split[SMOE_METRIC_KEY];      /* the split of the evaluations; "": several splits */
    size_t *of;                       /* [lines] a group of each */
    double *weight;                   /* [groups] scratch */
    size_t references, *reference_of; /* groups that others are compared with; [lines] of each */
    double level;                     /* of the last of them */
    size_t seeds, least;              /* that the bars are over, at most and at least */
    size_t images; /* images that the intervals include; 0: intervals are over seeds alone */
} figure;

/* ---- names ----------------------------------------------------------------------------------- */

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

/* A metric that is a column or a name of the records. Returns words. */
static const char *metric_words(const figure *f, const char *name, char words[SMOE_METRIC_KEY]) {
    size_t number;
    smoe_metric m = smoe_metric_of_column(name, &number);
    if (m != SMOE_METRICS)
        smoe_metric_label(words, m, *f->split ? f->split : NULL, number);
    else if (!smoe_metric_say(name, words, SMOE_METRIC_KEY))
        snprintf(words, SMOE_METRIC_KEY, "%s", name);
    return words;
}

/* ---- values ---------------------------------------------------------------------------------- */

static const char *group_value(const figure *f, size_t group, size_t column) {
    return smoe_measures_setting(f->m, group, column);
}

/* The finite number that a group has in a column; NAN where it is a word. */
static double number_of(const figure *f, size_t group, size_t column) {
    const char *text = group_value(f, group, column);
    char *end;
    double x = strtod(text, &end);
    return end != text && !*end && isfinite(x) ? x : NAN;
}

static bool has_words(const figure *f, size_t column) {
    for (size_t g = 0; g < f->m->groups; g++)
        if (isnan(number_of(f, g, column))) return true;
    return false;
}

/* Whether the values of a column are numbers, and not all the same. */
static bool is_numeric(const figure *f, size_t column) {
    bool differ = false;
    for (size_t g = 1; g < f->m->groups; g++)
        differ |= number_of(f, g, column) != number_of(f, 0, column);
    return differ && !has_words(f, column);
}

/* The place of a group's value among those of a column: of numbers their order, else that of first
 * appearance. */
static double figure_rank_of(const figure *f, size_t group, size_t column) {
    bool numbers = is_numeric(f, column);
    double place = 0;
    for (size_t g = 0, e; g < f->m->groups; g++) {
        const char *value = group_value(f, g, column);
        for (e = 0; e < g && strcmp(group_value(f, e, column), value);) e++;
        if (e < g) continue;
        if (!numbers && !strcmp(value, group_value(f, group, column))) break;
        place += !numbers || number_of(f, g, column) < number_of(f, group, column);
    }
    return place;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static bool tells_apart(const figure *f, size_t column) {
    if (column == f->x || column == f->y || column == f->sweep->seed) return false;
    if (f->line != SIZE_MAX) return column == f->line;
    return f->x != SIZE_MAX || has_words(f, column);
}

static bool same_line(const figure *f, size_t a, size_t b) {
    for (size_t c = 0; c < f->sweep->columns; c++)
        if (tells_apart(f, c) && strcmp(group_value(f, a, c), group_value(f, b, c))) return false;
    return true;
}

static const char model_router[] = "model.moe.router";

/* What a key tells lines apart by, for a group; "" if it does not. */
static const char *value_apart(const figure *f, size_t group, const char *key) {
    size_t column = smoe_sweep_column(f->sweep, key);
    return column == SIZE_MAX || !tells_apart(f, column) ? "" : group_value(f, group, column);
}

static bool is_dense(const figure *f, size_t group) {
    return !strcmp(value_apart(f, group, "model.moe.layers"), "none");
}

/* Whether both are dense, or neither, and of one router. */
static bool same_kind(const figure *f, size_t a, size_t b) {
    const char *router = value_apart(f, a, model_router);
    return is_dense(f, a) == is_dense(f, b) &&
           (is_dense(f, a) || !strcmp(router, value_apart(f, b, model_router)));
}

/* What all lines of a kind share is not in their names. */
static bool is_named(const figure *f, size_t column, size_t group) {
    const char *key = f->sweep->column[column], *value = group_value(f, group, column);
    bool dense = is_dense(f, group), routers = false, among = false;
    if (!tells_apart(f, column) || (dense && !strncmp(key, "model.moe.", 10))) return false;
    for (size_t g = 0; g < f->m->groups; g++) {
        bool same = same_kind(f, g, group);
        routers |= !same && !is_dense(f, g); /* there are several */
        among |= same && strcmp(group_value(f, g, column), value);
    }
    if (!strcmp(key, model_router)) return routers;
    return among || (!dense && !routers && !strcmp(key, "model.moe.layers"));
}

/* "dense", "soft, experts per token 2": what distinguishes a line; "" where there is nothing. */
static void name_line(const figure *f, size_t group, char name[SMOE_PLOT_TEXT]) {
    char buf[SMOE_METRIC_KEY];
    if (is_dense(f, group)) strcpy(name, "dense");
    for (size_t c = 0; c < f->sweep->columns; c++) {
        if (!is_named(f, c, group)) continue;
        const char *key = f->sweep->column[c];
        bool router = !strcmp(key, model_router); /* whose names speak for themselves */
        smoe_text_list(name, SMOE_PLOT_TEXT, "%s%s%s", router ? "" : column_words(key, buf),
                       router ? "" : " ", group_value(f, group, c));
    }
}

/* The line of a group, which is added if there is none yet. */
static size_t figure_line_of(figure *f, size_t group) {
    size_t l = 0;
    while (l < f->panel->marks && !same_line(f, f->of[l], group)) l++;
    if (l < f->panel->marks) return l;
    smoe_mark *line = smoe_plot_points(f->panel);
    name_line(f, group, line->name);
    line->joined = f->numbers;
    f->of[l] = group;
    return l;
}

/* ---- a figure -------------------------------------------------------------------------------- */

/* With room for a line per group, and one more; free it in any case. */
static figure figure_open(const smoe_results *r) {
    const smoe_sweep *sweep = r->sweep;
    size_t room = r->measured->groups + 1;
    figure f = {.r = r,
                .sweep = sweep,
                .m = r->measured,
                .x = SIZE_MAX,
                .x_metric = SIZE_MAX,
                .y = SIZE_MAX,
                .line = SIZE_MAX,
                .least = SIZE_MAX,
                .plot = {.title = sweep->figure.title ? sweep->figure.title : sweep->name}};
    f.panel = smoe_plot_panel(&f.plot);
    f.of = smoe_alloc_in(&f.memory, room, sizeof *f.of);
    f.reference_of = smoe_alloc_in(&f.memory, room, sizeof *f.reference_of);
    f.weight = smoe_alloc_in(&f.memory, room, sizeof *f.weight);
    for (size_t i = 0; i < sweep->trials && (!i || *f.split); i++) {
        char split[SMOE_METRIC_KEY];
        smoe_results_split(sweep, i, split);
        if (i && strcmp(f.split, split)) *split = '\0';
        memcpy(f.split, split, sizeof split);
    }
    return f;
}

static void figure_free(figure *f) {
    smoe_plot_free(&f->plot);
    smoe_alloc_pool_free(&f->memory);
}

/* ---- points over a column or a metric -------------------------------------------------------- */

bool smoe_results_powers(double *value, size_t n) {
    size_t distinct = 1;
    qsort(value, n, sizeof *value, smoe_stats_rising);
    if (!n || value[0] <= 0) return false;
    for (size_t i = 1; i < n; i++) {
        if (value[i] == value[i - 1]) continue;
        if (value[i] < 1.4 * value[i - 1]) return false;
        distinct++;
    }
    return distinct > 2;
}

/* What the numbers of a metric are multiplied by on the x axis: exaFLOPs of small models become
 * FLOPs. */
static double factor_of_x(const figure *f) {
    smoe_metric metric = smoe_metric_of_column(f->m->metric[f->x_metric], NULL);
    return metric == SMOE_METRIC_TRAIN_EXAFLOP ? 1e18 : 1;
}

/* Where a group stands on the x axis, if that is a number. */
static double place_of_group(const figure *f, size_t group) {
    if (f->x == SIZE_MAX)
        return factor_of_x(f) * smoe_measures_stats(f->m, group, f->x_metric).mean;
    return f->numbers ? number_of(f, group, f->x) : NAN;
}

static void figure_see_seeds(figure *f, size_t seeds) {
    if (seeds > f->seeds) f->seeds = seeds;
    if (seeds < f->least) f->least = seeds;
}

/* A group by itself is a contrast too, over all its seeds: its bar is the interval over seeds and
 * images. */
static int add_point(figure *f, size_t group, smoe_err *err) {
    smoe_paired s = {0};
    smoe_measures all = *f->m;
    all.seen = NULL;
    for (size_t g = 0; g < all.groups; g++) f->weight[g] = g == group;
    if (smoe_contrast_measure(&s, &all, f->weight, f->metric, err)) return -1;
    figure_see_seeds(f, smoe_measures_stats(f->m, group, f->metric).n);
    double x = f->numbers ? place_of_group(f, group) : figure_rank_of(f, group, f->x);
    if (!isfinite(x)) return 0; /* not measured yet */
    size_t l = figure_line_of(f, group);
    if (!f->numbers) smoe_plot_name(&f->panel->x, x, group_value(f, group, f->x));
    if (smoe_comparison_refers(&f->r->contrasts.compared, group)) {
        f->references++;
        f->reference_of[l]++;
        f->level = s.mean;
    }
    if (s.images) f->images = s.images;
    smoe_plot_add_point(&f->panel->mark[l], x, s.mean, s.half,
                        smoe_metric_is_share(f->m->metric[f->metric]));
    return 0;
}

static bool choose_x(figure *f, const char *wish) {
    f->x = smoe_sweep_column(f->sweep, wish);
    f->x_metric = wish ? smoe_measures_metric(f->m, wish) : SIZE_MAX;
    if (f->x != SIZE_MAX) {
        f->numbers = is_numeric(f, f->x);
        return true;
    }
    if (f->x_metric != SIZE_MAX) return f->numbers = true;
    size_t from = f->r->trained < f->sweep->columns ? f->r->trained : 0; /* keys of evaluations */
    for (size_t c = from; c < f->sweep->columns && !f->numbers; c++) {
        if (c == f->sweep->seed) continue;
        f->numbers = is_numeric(f, c);
        if (f->x == SIZE_MAX || f->numbers) f->x = c;
    }
    return f->x != SIZE_MAX;
}

/* The label of y, with a description of the bars if there are any: "test top-1 accuracy (95%
 * interval, 3 seeds, 2000 images)". */
static void label_y(const figure *f, const char *metric) {
    char words[SMOE_METRIC_KEY], images[32] = "";
    if (f->images) snprintf(images, sizeof images, ", %zu images", f->images);
    snprintf(f->panel->y.label, SMOE_PLOT_TEXT,
             f->seeds < 2 ? "%s" : "%s (95%% interval, %s%zu seeds%s)",
             metric_words(f, metric, words), f->least < f->seeds ? "up to " : "", f->seeds, images);
}

/* A single reference is drawn as a dashed line at its height; a line of references is named in the
 * key. */
static bool has_level(const figure *f) {
    return f->references == 1 && f->m->groups > 1;
}

/* Sorts points by x within lines; the base of the axis, 0 where it is linear. Lines over categories
 * stand beside each other, so that their bars can be told apart. */
static int order_points(const figure *f) {
    const smoe_panel *panel = f->panel;
    const double beside = fmin(0.08, 0.6 / (double)(panel->marks + 1));
    /* of all lines, and of the front */
    SMOE_FREED double *x = smoe_alloc(2 * f->m->groups + 1, sizeof *x);
    size_t n = 0;
    for (size_t l = 0; l < panel->marks; l++) {
        const smoe_mark *line = &panel->mark[l];
        if (line->points) qsort(line->point, line->points, sizeof *line->point, smoe_stats_rising);
        for (size_t i = 0; i < line->points; i++) {
            x[n++] = line->point[i].x;
            if (!f->numbers)
                line->point[i].x += ((double)l - (double)(panel->marks - 1) / 2) * beside;
        }
    }
    if (!f->numbers) return 0;
    /* Measured quantities such as FLOPs get a logarithmic axis where the largest is several times
     * the smallest. */
    bool powers = smoe_results_powers(x, n);
    if (f->x == SIZE_MAX) return n && x[0] > 0 && x[n - 1] > 3 * x[0] ? 10 : 0;
    return !powers ? 0 : x[0] < 1. / 64 ? 10 : 2; /* 0.0005 and not 0.000488281 */
}

static int figure_plot(figure *f, const char *name, int log, bool *drawn, smoe_err *err) {
    f->plot.name = name;
    smoe_plot_fit(f->panel, log);
    if (has_level(f)) smoe_plot_level(f->panel, f->level);
    return smoe_plot_draw(&f->plot, f->sweep->dir, f->sweep->figure.width, drawn, err);
}

static int draw_points(figure *f, const char *name, bool *drawn, smoe_err *err) {
    for (size_t g = 0; g < f->m->groups; g++)
        if (add_point(f, g, err)) return -1;
    for (size_t l = 0; l < f->panel->marks && f->panel->marks > 1 && !has_level(f); l++) {
        smoe_mark *line = &f->panel->mark[l];
        size_t used = strlen(line->name);
        if (f->reference_of[l] && f->reference_of[l] == line->points)
            snprintf(line->name + used, sizeof line->name - used, " (reference)");
    }
    if (f->sweep->figure.front && f->x == SIZE_MAX) { /* the points that no other dominates */
        smoe_mark *line = smoe_plot_points(f->panel);
        strcpy(line->name, "front");
        for (size_t g = 0; g < f->m->groups; g++)
            if (smoe_results_on_front(f->r, g, f->x_metric, f->metric))
                smoe_plot_add_point(line, place_of_group(f, g),
                                    smoe_measures_stats(f->m, g, f->metric).mean, 0,
                                    smoe_metric_is_share(f->m->metric[f->metric]));
    }
    int log = order_points(f);
    char *label = f->panel->x.label, buf[SMOE_METRIC_KEY];
    snprintf(label, SMOE_PLOT_TEXT, "%s",
             f->x != SIZE_MAX      ? column_words(f->sweep->column[f->x], buf)
             : factor_of_x(f) == 1 ? metric_words(f, f->m->metric[f->x_metric], buf)
                                   : "training FLOPs");
    label_y(f, f->m->metric[f->metric]);
    return figure_plot(f, name, log, drawn, err);
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* The column that "KEY" or "KEY:METRIC" names, SIZE_MAX where there is none; the metric's name, or
 * NULL, in *colour. */
static size_t cells_key(const smoe_sweep *sweep, const char *text, const char **colour) {
    SMOE_FREED char *key = text ? smoe_alloc_part(text, strcspn(text, ":")) : NULL;
    *colour = key && text[strlen(key)] ? text + strlen(key) + 1 : NULL;
    return smoe_sweep_column(sweep, key);
}

/* The metric as colours over x and y, a panel for what else differs: DIR/NAME.gp, .svg, and the
 * numbers in DIR/NAME_cells.csv. */
static int draw_cells(figure *f, const char *name, bool *drawn, smoe_err *err) {
    char label[2][SMOE_METRIC_KEY];
    SMOE_FREED char *table = smoe_text_format("%s_cells", name);
    SMOE_FREED char *path = smoe_text_format("%s/%s.csv", f->sweep->dir, table);
    const char *x = f->sweep->column[f->x], *y = f->sweep->column[f->y];
    smoe_figure_entry entry = {.name = table,
                               .kind = SMOE_FIGURE_HEAT,
                               .x = "column",
                               .y = {"row"},
                               .colour = f->m->metric[f->metric],
                               .x_name = x,
                               .y_name = y,
                               .x_title = column_words(x, label[0]),
                               .y_title = column_words(y, label[1])};
    SMOE_FREED_BY(smoe_plot_free) smoe_plot plot = {0};
    SMOE_FREED_BY(smoe_frame_free) smoe_frame frame = {0};
    smoe_frame_init(&frame, table, f->plot.title, NULL, NULL);
    for (size_t g = 0; g < f->m->groups; g++) figure_line_of(f, g);
    for (size_t l = 0; l < f->panel->marks; l++)
        for (size_t g = 0; g < f->m->groups; g++)
            if (figure_line_of(f, g) == l)
                smoe_frame_put(&frame, {"run", .text = f->panel->mark[l].name},
                               {"column", .number = figure_rank_of(f, g, f->x)},
                               {"row", .number = figure_rank_of(f, g, f->y)},
                               {x, .text = group_value(f, g, f->x)},
                               {y, .text = group_value(f, g, f->y)},
                               {f->m->metric[f->metric],
                                .number = smoe_measures_stats(f->m, g, f->metric).mean});
    if (f->panel->marks && *f->panel->mark->name) entry.panel[0] = "run";
    if (smoe_frame_check(&frame, err) || smoe_frame_csv(&frame, path, err)) return -1;
    smoe_figure_plot(&plot, &entry, &frame, 1);
    plot.name = name;
    metric_words(f, entry.colour, plot.scale.label);
    return smoe_plot_draw(&plot, f->sweep->dir, f->sweep->figure.width, drawn, err);
}

/*
 * DIR/NAME.gp and .svg: `y`, precision_at_1 unless it is given (the loss where there is none),
 * against `x`, a column or a metric, with the 95% interval of each mean (compare/contrast.h) as
 * bars.
 *   x     not given: the first column whose values are numbers, at least two; else the first
 *         column, its values side by side; of evaluations, of their own columns
 *   line  the column that tells lines apart. Not given, or not enough because a line would have two
 *         points at one x: all but x; where x is a metric, all columns whose values are no numbers
 * A name that these results do not have counts as not given. Nothing is drawn if no trial is done,
 * or if only the seed is swept. *drawn is false when a script was left that gnuplot has not drawn.
 */
static int figure_draw(const smoe_results *r, const smoe_sweep_figure *wish, const char *name,
                       bool *drawn, smoe_err *err) {
    const char *colour;
    SMOE_FREED_BY(figure_free) figure f = figure_open(r);
    *drawn = true;
    f.y = cells_key(r->sweep, wish->y, &colour);
    bool cells = f.y != SIZE_MAX;
    f.metric = smoe_results_first(r, cells ? colour : wish->y);
    if (f.metric == SIZE_MAX || !choose_x(&f, wish->x) || (cells && f.x == SIZE_MAX)) return 0;
    if (cells) return draw_cells(&f, name, drawn, err);
    f.line = smoe_sweep_column(r->sweep, wish->line);
    bool shared = false; /* two groups of one line are at the same place of the x axis */
    for (size_t b = 0; f.x != SIZE_MAX && b < f.m->groups; b++)
        for (size_t a = 0; a < b; a++)
            shared |=
                same_line(&f, a, b) && !strcmp(group_value(&f, a, f.x), group_value(&f, b, f.x));
    if (shared) f.line = SIZE_MAX;
    return draw_points(&f, name, drawn, err);
}

/* ---- curves over the steps of training ------------------------------------------------------- */

/* The values of a metric in the records of a trial: a column of results, or a name of the records;
 * NULL where there are none. */
static const smoe_curve *curve_of(const smoe_sweep *sweep, size_t i, const smoe_curves *records,
                                  const char *name) {
    char split[SMOE_METRIC_KEY], key[SMOE_METRIC_KEY];
    size_t number;
    smoe_metric m = smoe_metric_of_column(name, &number);
    if (m == SMOE_METRICS || !smoe_metrics[m].name) return smoe_curves_find(&records[i], name);
    smoe_results_split(sweep, i, split);
    return smoe_curves_find(&records[i], smoe_metric_key(key, m, split, number));
}

static double value_at_step(const smoe_curve *curve, double step) {
    for (size_t k = 0; curve && k < curve->points; k++)
        if (curve->step[k] == step) return curve->value[k];
    return NAN;
}

/* The steps at which some of n curves, of which some may be NULL, have a point, rising; fresh. */
static double *steps_of(size_t *steps, const smoe_curve *const *curve, size_t n) {
    double *step = NULL;
    size_t all = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; curve[i] && k < curve[i]->points; k++)
            SMOE_APPEND(step, all) = curve[i]->step[k];
    if (all) qsort(step, all, sizeof *step, smoe_stats_rising);
    *steps = 0;
    for (size_t k = 0; k < all; k++)
        if (!*steps || step[k] != step[*steps - 1]) step[(*steps)++] = step[k];
    return step;
}

/* DIR/curves.csv: a row for each trial and step of some of the metrics. SMOE_USAGE: no trial has
 * records of one of them. */
static int write_curves(const figure *f, const smoe_curves *records, char *const *name,
                        size_t names, smoe_err *err) {
    const smoe_sweep *sweep = f->sweep;
    const char *cost = smoe_metrics[SMOE_METRIC_FLOPS_TRAIN].column;
    size_t flops = smoe_measures_metric(f->m, cost), steps;
    SMOE_FREED_BY(smoe_result_free) smoe_result result = {0};
    SMOE_FREED const smoe_curve **curve = smoe_alloc(names, sizeof *curve);
    SMOE_FREED bool *known = smoe_alloc(names, sizeof *known);
    smoe_frame *frame = smoe_result_table(&result, NULL, "curves");
    for (size_t i = 0; i < sweep->trials; i++) {
        for (size_t n = 0; n < names; n++) {
            curve[n] = curve_of(sweep, i, records, name[n]);
            known[n] |= curve[n] && curve[n]->points;
        }
        SMOE_FREED double *step = steps_of(&steps, curve, names);
        for (size_t k = 0; k < steps; k++) {
            for (size_t c = 0; c < sweep->columns; c++)
                smoe_cell_text(frame, sweep->column[c], sweep->trial[i].value[c]);
            smoe_frame_cells(
                frame,
                {cost, .number = flops == SIZE_MAX ? NAN : f->m->value[i * f->m->metrics + flops]},
                {smoe_metrics[SMOE_METRIC_STEP].name, .number = step[k]});
            for (size_t n = 0; n < names; n++)
                smoe_cell_number(frame, name[n], value_at_step(curve[n], step[k]));
            smoe_frame_end(frame);
        }
    }
    for (size_t n = 0; n < names; n++)
        if (!known[n])
            return smoe_fail(err, SMOE_USAGE,
                             "%s: no cell has records of '%s' during training (packed sweeps have "
                             "none); names are those of metrics.csv in the folder of a cell",
                             sweep->dir, name[n]);
    if (smoe_result_check(&result, err)) return -1;
    return smoe_result_csv(&result, sweep->dir, err);
}

/* The mean over the trials of a group at each step that some of them have: one that failed or
 * stopped early does not cut off the others. */
static void add_curve(figure *f, size_t group, const smoe_curves *records, const char *name) {
    const smoe_sweep *sweep = f->sweep;
    SMOE_FREED const smoe_curve **curve = smoe_alloc(sweep->trials, sizeof *curve);
    SMOE_FREED double *value = smoe_alloc(sweep->trials, sizeof *value);
    size_t n = 0, steps;
    for (size_t i = 0; i < sweep->trials; i++)
        if (f->m->group[i] == group && (curve[n] = curve_of(sweep, i, records, name))) n++;
    SMOE_FREED double *step = steps_of(&steps, curve, n);
    for (size_t k = 0, l = steps ? figure_line_of(f, group) : 0; k < steps; k++) {
        for (size_t i = 0; i < n; i++) value[i] = value_at_step(curve[i], step[k]);
        smoe_paired s = smoe_stats_paired(value, n);
        double half = steps > MOST_BARS ? NAN : s.half;
        if (isfinite(s.mean))
            smoe_plot_add_point(&f->panel->mark[l], step[k], s.mean, half,
                                smoe_metric_is_share(name));
        if (isfinite(half)) figure_see_seeds(f, s.n);
    }
}

/* The metrics of the figure's y, separated by commas, over the steps of each trial; the first one
 * as DIR/sweep.gp and .svg, means over seeds. */
static int draw_curves(figure *f, bool *drawn, smoe_err *err) {
    const smoe_sweep *sweep = f->sweep;
    const char *text =
        sweep->figure.y ? sweep->figure.y : smoe_metrics[SMOE_METRIC_PRECISION].column;
    SMOE_FREED smoe_curves *records = smoe_alloc(sweep->trials, sizeof *records);
    SMOE_FREED char *copy = smoe_alloc_text(text), **name = NULL;
    char *rest = copy;
    size_t names = 0;
    int status = 0;
    do {
        SMOE_APPEND(name, names) = strsep(&rest, ",");
    } while (rest);
    f->x = sweep->columns; /* none of them: all tell lines apart */
    f->numbers = true;
    for (size_t i = 0; i < sweep->trials && !status; i++) {
        SMOE_FREED char *dir = smoe_trial_dir(sweep, i);
        if (smoe_file_holds(dir, "metrics.jsonl"))
            status = smoe_curves_read(&records[i], dir, false, err);
    }
    if (!status) status = write_curves(f, records, name, names, err);
    for (size_t g = 0; g < f->m->groups && !status; g++) add_curve(f, g, records, name[0]);
    snprintf(f->panel->x.label, SMOE_PLOT_TEXT, "%s", smoe_metrics[SMOE_METRIC_STEP].label);
    label_y(f, name[0]);
    if (!status) status = figure_plot(f, "sweep", 0, drawn, err);
    for (size_t i = 0; i < sweep->trials; i++) smoe_curves_free(&records[i]);
    return status;
}

/* ---- the figures of a sweep ------------------------------------------------------------------ */

static bool knows(const smoe_results *r, const char *name, bool metrics, bool columns) {
    if (!name || !r->measured->metrics) return true;
    if (columns && smoe_sweep_column(r->sweep, name) != SIZE_MAX) return true;
    if (metrics && smoe_measures_metric(r->measured, name) != SIZE_MAX) return true;
    return r->evaluations && knows(r->evaluations, name, metrics, columns);
}

int smoe_results_draw(const smoe_results *r, bool *drawn, smoe_err *err) {
    const smoe_sweep_figure *wish = &r->sweep->figure;
    const char *colour;
    bool also = true;
    *drawn = false;
    if (smoe_results_over_steps(wish)) {
        SMOE_FREED_BY(figure_free) figure f = figure_open(r);
        return draw_curves(&f, drawn, err);
    }
    bool cells =
        cells_key(r->evaluations ? r->evaluations->sweep : r->sweep, wish->y, &colour) != SIZE_MAX;
    if (!knows(r, wish->x, true, true) || !knows(r, cells ? colour : wish->y, true, false) ||
        !knows(r, wish->line, false, true))
        return smoe_fail(err, SMOE_USAGE,
                         "%s: the figure cannot have x %s, y %s, line %s: x must be a column of "
                         "results.csv or evaluations.csv, y a measured one, line a swept key",
                         r->sweep->dir, wish->x ? wish->x : "(default)",
                         wish->y ? wish->y : "(default)", wish->line ? wish->line : "(default)");
    if (figure_draw(r, wish, "sweep", drawn, err)) return -1;
    if (r->evaluations && figure_draw(r->evaluations, wish, "evaluations", &also, err)) return -1;
    *drawn = *drawn && also;
    return 0;
}
