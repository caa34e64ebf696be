/* The pictures of smoe inspect; see inspect_draw.h. */
#include "inspect_draw.h"
#include "cmd.h"
#include "draw/figures.h"
#include "draw/report.h"

#include <stdlib.h>
#include <string.h>

/* Existing sheets are replaced, those of other images are removed. */
static int draw_overlays(const smoe_sample *samples, size_t count, const smoe_overlay_units *units,
                         const smoe_options *options, smoe_err *err) {
    const char *folder = options->out;
    smoe_frame tiles;
    smoe_overlays_frame(&tiles);
    int status = options->force ? smoe_overlays_remove(folder, err) : 0;
    if (!status) status = smoe_overlays_write(samples, count, units, folder, &tiles, err);
    char *path = status ? NULL : smoe_text_format("%s/overlays/tiles.csv", folder);
    if (!status)
        status = path ? smoe_frame_csv(&tiles, path, err)
                      : smoe_fail(err, SMOE_RUNTIME, "out of memory");
    smoe_frame_free(&tiles);
    free(path);
    return status;
}

int smoe_inspect_width(const smoe_options *options, double *inches, smoe_err *err) {
    static const struct {
        const char *name;
        double inches;
    } units[] = {{"in", 1}, {"cm", 1 / 2.54}, {"mm", 0.1 / 2.54}};
    const char *text = options->figure_width;
    char *unit;
    *inches = 0;
    if (!text) return 0;
    double number = strtod(text, &unit);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(unit, units[i].name)) *inches = number * units[i].inches;
    if (*inches >= 2 && *inches <= 40) return 0;
    return smoe_fail(err, SMOE_USAGE,
                     "--figure-width: '%s' is not a width from 2in to 40in; say 3.25in, 8.2cm or "
                     "82mm",
                     text);
}

int smoe_inspect_draw(const smoe_frame *frames, size_t tables, const smoe_sample *samples,
                      size_t count, const smoe_overlay_units *units, const smoe_options *options,
                      smoe_err *err) {
    const smoe_report report = {frames, tables, samples, count};
    smoe_plot_size size;
    size_t scripts, drawn;
    int status = smoe_inspect_width(options, &size.width, err);
    if (!status) status = draw_overlays(samples, count, units, options, err);
    if (!status)
        status = smoe_figures_write(frames, tables, options->out, &size, &scripts, &drawn, err);
    if (!status && drawn < scripts && !options->quiet)
        smoe_cmd_print(stderr, "gnuplot is not installed; %s/*.gp are the scripts of the figures\n",
                       options->out);
    char *path = status ? NULL : smoe_text_format("%s/report.html", options->out);
    if (!status)
        status = path ? smoe_report_write(&report, path, err)
                      : smoe_fail(err, SMOE_RUNTIME, "out of memory");
    free(path);
    return status;
}
