/* The figure of a metric over two keys of a sweep, as cells; see results_plan.h. */
#include "sweep/results_plan.h"
#include "draw/figures.h"

#include <stdlib.h>
#include <string.h>

size_t smoe_results_cells_key(const smoe_sweep *sweep, const char *text, const char **colour) {
    *colour = NULL;
    if (!text) return SIZE_MAX;
    size_t length = strcspn(text, ":"), c = 0;
    if (text[length]) *colour = text + length + 1;
    while (c < sweep->columns &&
           !(strlen(sweep->column[c]) == length && !strncmp(sweep->column[c], text, length)))
        c++;
    return c < sweep->columns ? c : SIZE_MAX;
}

/* A row for a group: its panel, its place in it, and the mean of the metric. */
static void add_cell(smoe_frame *frame, const smoe_results_plan *p, size_t group,
                     const char *panel) {
    const smoe_sweep *sweep = p->r->sweep;
    smoe_cell_text(frame, "run", panel);
    smoe_cell_number(frame, "column", smoe_results_rank(p, group, p->x));
    smoe_cell_number(frame, "row", smoe_results_rank(p, group, p->y));
    smoe_cell_text(frame, sweep->column[p->x], smoe_results_value(p, group, p->x));
    smoe_cell_text(frame, sweep->column[p->y], smoe_results_value(p, group, p->y));
    smoe_cell_number(frame, p->r->measured->metric[p->metric],
                     smoe_measures_stats(p->r->measured, group, p->metric).mean);
    smoe_frame_end(frame);
}

/* The groups of a panel after one another. Whether there is anything to tell panels apart. */
static bool add_cells(smoe_frame *frame, smoe_results_plan *p) {
    for (size_t g = 0; g < p->r->measured->groups; g++) smoe_results_line(p, g);
    for (size_t l = 0; l < p->figure.lines; l++)
        for (size_t g = 0; g < p->r->measured->groups; g++)
            if (smoe_results_line(p, g) == l) add_cell(frame, p, g, p->title[l] ? p->title[l] : "");
    return p->figure.lines && p->title[0];
}

int smoe_results_cells_draw(smoe_results_plan *p, const char *name, bool *drawn, smoe_err *err) {
    const smoe_sweep *sweep = p->r->sweep;
    char label[2][SMOE_METRIC_KEY], *table = smoe_text_format("%s_cells", name);
    SMOE_FREED char *path = smoe_text_format("%s/%s.csv", sweep->dir, table);
    smoe_figure_entry entry = {.name = table,
                               .kind = SMOE_FIGURE_HEAT,
                               .x = "column",
                               .y = {"row"},
                               .colour = p->r->measured->metric[p->metric],
                               .x_name = sweep->column[p->x],
                               .y_name = sweep->column[p->y],
                               .x_title = smoe_results_words(sweep->column[p->x], label[0]),
                               .y_title = smoe_results_words(sweep->column[p->y], label[1])};
    SMOE_FREED_BY(smoe_plot_free) smoe_plot plot = {0};
    SMOE_FREED_BY(smoe_frame_free) smoe_frame frame = {0};
    smoe_frame_init(&frame, table, p->figure.title, NULL, NULL);
    if (add_cells(&frame, p)) entry.panel[0] = "run";
    int status = smoe_frame_check(&frame, err);
    if (!status) status = smoe_frame_csv(&frame, path, err);
    if (!status) smoe_figure_plot(&plot, &entry, &frame, 1);
    plot.name = name;
    smoe_results_say(p, entry.colour, plot.scale.label);
    if (!status)
        status = smoe_plot_draw(&plot, sweep->dir, &(smoe_plot_size){p->figure.width}, drawn, err);
    free(table);
    return status;
}
