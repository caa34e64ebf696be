/* The figure of a sweep; see results_figure.h. */
#include "study/results_figure.h"
#include "draw/gnuplot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct plan {
    const smoe_results *r;
    size_t x;     /* the column on the x axis */
    bool numbers; /* its values are numbers */
    size_t metric;
    smoe_figure figure;
    char **title; /* [lines] */
    size_t *of;   /* [lines] a group of each */
} plan;

static const char *value_of(const plan *p, size_t group, size_t column) {
    return p->r->sweep->cell[p->r->first[group]].value[column];
}

static bool number_of(const char *text, double *x) {
    char *end;
    *x = strtod(text, &end);
    return end != text && !*end && isfinite(*x);
}

/* Are a column's values numbers, and not all the same? */
static bool is_numeric(const plan *p, size_t column) {
    double first, x;
    bool differ = false;
    for (size_t g = 0; g < p->r->groups; g++) {
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

static bool same_line(const plan *p, size_t a, size_t b) {
    for (size_t c = 0; c < p->r->sweep->columns; c++)
        if (c != p->x && c != p->r->sweep->seed && strcmp(value_of(p, a, c), value_of(p, b, c)))
            return false;
    return true;
}

/* "router=soft, k=2": what distinguishes a line; NULL where there is nothing. */
static char *title_of(const plan *p, size_t group) {
    char *title = NULL;
    for (size_t c = 0; c < p->r->sweep->columns; c++) {
        if (c == p->x || c == p->r->sweep->seed) continue;
        const char *dot = strrchr(p->r->sweep->column[c], '.');
        char *longer =
            smoe_text_format("%s%s%s=%s", title ? title : "", title ? ", " : "",
                             dot ? dot + 1 : p->r->sweep->column[c], value_of(p, group, c));
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
    return rising(&((const smoe_figure_point *)a)->x, &((const smoe_figure_point *)b)->x);
}

static int add_point(plan *p, size_t group) {
    size_t l = 0;
    smoe_figure *f = &p->figure;
    while (l < f->lines && !same_line(p, p->of[l], group)) l++;
    if (l == f->lines) {
        f->line[l].point = calloc(p->r->groups, sizeof *f->line[l].point);
        if (!f->line[l].point) return -1;
        f->line[l].title = p->title[l] = title_of(p, group);
        p->of[l] = group;
        f->lines++;
    }
    smoe_stats s = smoe_results_stats(p->r, group, p->metric);
    const char *text = value_of(p, group, p->x);
    smoe_figure_point *point = &f->line[l].point[f->line[l].points++];
    *point = (smoe_figure_point){.y = s.mean, .error = s.sd};
    if (p->numbers)
        number_of(text, &point->x);
    else
        *point =
            (smoe_figure_point){.x = category(p, group), .y = s.mean, .error = s.sd, .label = text};
    return 0;
}

static bool choose_x(plan *p) {
    const smoe_sweep *sweep = p->r->sweep;
    p->x = SIZE_MAX;
    for (size_t c = 0; c < sweep->columns && !p->numbers; c++) {
        if (c == sweep->seed) continue;
        if (p->x == SIZE_MAX) p->x = c;
        p->numbers = is_numeric(p, c);
        if (p->numbers) p->x = c;
    }
    return p->x != SIZE_MAX;
}

int smoe_results_figure(const smoe_results *r, bool *drawn, smoe_err *err) {
    plan p = {.r = r, .metric = smoe_results_metric(r, "precision_at_1")};
    size_t n = r->groups;
    *drawn = true;
    if (p.metric == SIZE_MAX) p.metric = smoe_results_metric(r, "train_loss");
    if (p.metric == SIZE_MAX || !choose_x(&p)) return 0;
    double *x = calloc(n + 1, sizeof *x);
    p.figure.line = calloc(n + 1, sizeof *p.figure.line);
    p.title = calloc(n + 1, sizeof *p.title);
    p.of = calloc(n + 1, sizeof *p.of);
    int status = x && p.figure.line && p.title && p.of ? 0 : -1;
    for (size_t g = 0; g < n && !status; g++) {
        status = add_point(&p, g);
        if (p.numbers) number_of(value_of(&p, g, p.x), &x[g]);
    }
    if (status) smoe_fail(err, SMOE_RUNTIME, "out of memory for a figure");
    for (size_t l = 0; l < p.figure.lines && !status; l++) {
        smoe_figure_line *line = &p.figure.line[l];
        if (line->point) qsort(line->point, line->points, sizeof *line->point, by_x);
    }
    p.figure.title = r->sweep->name;
    p.figure.x_label = r->sweep->column[p.x];
    p.figure.y_label = r->metric[p.metric];
    p.figure.log_x = p.numbers && x && smoe_results_powers(x, n);
    if (!status) status = smoe_figure_write(&p.figure, r->sweep->dir, "sweep", drawn, err);
    for (size_t l = 0; l < p.figure.lines; l++) {
        free(p.figure.line[l].point);
        free(p.title[l]);
    }
    free(p.figure.line);
    free(p.title);
    free(p.of);
    free(x);
    return status;
}
