/* What the figures of a sweep share; see results_plan.h. */
#include "sweep/results_plan.h"
#include "base/alloc.h"
#include "draw/words.h"
#include "sweep/evaluations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *smoe_results_value(const smoe_results_plan *p, size_t group, size_t column) {
    return smoe_measures_setting(p->r->measured, group, column);
}

bool smoe_results_number(const char *text, double *x) {
    char *end;
    *x = strtod(text, &end);
    return end != text && !*end && isfinite(*x);
}

bool smoe_results_is_numeric(const smoe_results_plan *p, size_t column) {
    double first, x;
    bool differ = false;
    for (size_t g = 0; g < p->r->measured->groups; g++) {
        if (!smoe_results_number(smoe_results_value(p, g, column), g ? &x : &first)) return false;
        if (g) differ |= x != first;
    }
    return differ;
}

/* Whether the column has a value that is not a number. */
static bool has_words(const smoe_results_plan *p, size_t column) {
    double x;
    for (size_t g = 0; g < p->r->measured->groups; g++)
        if (!smoe_results_number(smoe_results_value(p, g, column), &x)) return true;
    return false;
}

/* Whether lines differ in this column. */
static bool tells_apart(const smoe_results_plan *p, size_t column) {
    if (column == p->x || column == p->y || column == p->r->sweep->seed) return false;
    if (p->line != SIZE_MAX) return column == p->line;
    return p->x != SIZE_MAX || has_words(p, column);
}

static bool same_line(const smoe_results_plan *p, size_t a, size_t b) {
    for (size_t c = 0; c < p->r->sweep->columns; c++)
        if (tells_apart(p, c) && strcmp(smoe_results_value(p, a, c), smoe_results_value(p, b, c)))
            return false;
    return true;
}

const char *smoe_results_words(const char *column, char buf[SMOE_METRIC_KEY]) {
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
static char *title_of(const smoe_results_plan *p, size_t group) {
    char *title = NULL;
    for (size_t c = 0; c < p->r->sweep->columns; c++)
        if (tells_apart(p, c) && !strcmp(p->r->sweep->column[c], "model.moe.layers") &&
            !strcmp(smoe_results_value(p, group, c), "none"))
            return smoe_alloc_text("dense");
    for (size_t c = 0; c < p->r->sweep->columns; c++) {
        if (!tells_apart(p, c)) continue;
        const char *key = p->r->sweep->column[c];
        bool router = !strcmp(key, "model.moe.router"); /* whose names speak for themselves */
        char buf[SMOE_METRIC_KEY];
        const char *words = router ? "" : smoe_results_words(key, buf);
        smoe_text_add(&title, "%s%s%s%s", title ? ", " : "", words, router ? "" : " ",
                      smoe_results_value(p, group, c));
    }
    return title;
}

double smoe_results_rank(const smoe_results_plan *p, size_t group, size_t column) {
    bool numbers = smoe_results_is_numeric(p, column), before;
    const char *own = smoe_results_value(p, group, column);
    double place = 0, x, y;
    for (size_t g = 0, e; g < p->r->measured->groups; g++) {
        for (e = 0;
             e < g && strcmp(smoe_results_value(p, e, column), smoe_results_value(p, g, column));)
            e++;
        if (e < g) continue;
        if (!numbers && !strcmp(smoe_results_value(p, g, column), own)) return place;
        before = !numbers || (smoe_results_number(smoe_results_value(p, g, column), &x) &&
                              smoe_results_number(own, &y) && x < y);
        place += before;
    }
    return place;
}

size_t smoe_results_line(smoe_results_plan *p, size_t group) {
    smoe_chart *f = &p->figure;
    size_t l = 0;
    while (l < f->lines && !same_line(p, p->of[l], group)) l++;
    if (l < f->lines) return l;
    f->line[l].title = p->title[l] = title_of(p, group);
    p->of[l] = group;
    return f->lines++;
}

void smoe_results_add_point(smoe_chart_line *line, smoe_chart_point point) {
    line->point = smoe_alloc_next(line->point, line->points, sizeof point);
    line->point[line->points++] = point;
}

void smoe_results_split(const smoe_sweep *sweep, size_t i, char split[SMOE_METRIC_KEY]) {
    json_auto_t *spec = json_loads(sweep->trial[i].spec, 0, NULL);
    const char *own = json_string_value(json_object_get(json_object_get(spec, "eval"), "split"));
    for (size_t c = 0; c < sweep->columns; c++)
        if (!strcmp(sweep->column[c], SMOE_EVALUATED "eval.split")) own = sweep->trial[i].value[c];
    snprintf(split, SMOE_METRIC_KEY, "%s", own ? own : "");
}

/* The split that all trials are evaluated on. */
static void find_split(smoe_results_plan *p) {
    for (size_t i = 0; i < p->r->sweep->trials; i++) {
        char split[SMOE_METRIC_KEY];
        smoe_results_split(p->r->sweep, i, split);
        if (i && strcmp(p->split, split)) *split = '\0';
        memcpy(p->split, split, sizeof split);
        if (!*split) return;
    }
}

const char *smoe_results_say(const smoe_results_plan *p, const char *name,
                             char words[SMOE_METRIC_KEY]) {
    size_t number;
    smoe_metric m = smoe_metric_of_column(name, &number);
    if (m != SMOE_METRICS)
        smoe_metric_label(words, m, *p->split ? p->split : NULL, number);
    else if (!smoe_metric_say(name, words, SMOE_METRIC_KEY))
        snprintf(words, SMOE_METRIC_KEY, "%s", name);
    return words;
}

smoe_results_plan smoe_results_plan_open(const smoe_results *r) {
    size_t room = r->measured->groups + 1;
    smoe_results_plan p = {
        .r = r, .x = SIZE_MAX, .x_metric = SIZE_MAX, .y = SIZE_MAX, .line = SIZE_MAX};
    p.figure.title = r->sweep->figure.title ? r->sweep->figure.title : r->sweep->name;
    p.figure.width = r->sweep->figure.width;
    p.figure.line = smoe_alloc(room, sizeof *p.figure.line);
    p.title = smoe_alloc(room, sizeof *p.title);
    p.of = smoe_alloc(room, sizeof *p.of);
    p.reference_of = smoe_alloc(room, sizeof *p.reference_of);
    p.weight = smoe_alloc(room, sizeof *p.weight);
    find_split(&p);
    return p;
}

void smoe_results_plan_free(smoe_results_plan *p) {
    for (size_t l = 0; l < p->figure.lines; l++) {
        free(p->figure.line[l].point);
        free(p->title[l]);
    }
    free(p->figure.line);
    free(p->title);
    free(p->y_label);
    free(p->of);
    free(p->reference_of);
    free(p->weight);
}
