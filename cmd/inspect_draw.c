/* The pictures of smoe inspect; see inspect_draw.h. */
#include "inspect_draw.h"
#include "cmd.h"
#include "draw/figures.h"
#include "draw/report.h"

#include <stdlib.h>

/* Existing sheets are replaced, those of other images are removed. */
static int draw_overlays(const smoe_sample *samples, size_t count, const smoe_overlay_units *units,
                         const smoe_plot_size *size, bool *drawn, const smoe_options *options,
                         smoe_err *err) {
    const char *folder = options->out;
    smoe_frame tiles;
    smoe_overlays_frame(&tiles);
    int status = options->force ? smoe_overlays_remove(folder, err) : 0;
    if (!status)
        status = smoe_overlays_write(samples, count, units, folder, size, &tiles, drawn, err);
    char *path = status ? NULL : smoe_text_format("%s/overlays/tiles.csv", folder);
    if (!status) status = smoe_frame_csv(&tiles, path, err);
    smoe_frame_free(&tiles);
    free(path);
    return status;
}

int smoe_inspect_draw(const smoe_frame *frames, size_t tables, const smoe_sample *samples,
                      size_t count, const smoe_overlay_units *units, const smoe_origin *origin,
                      const smoe_options *options, smoe_err *err) {
    const smoe_report report = {.frames = frames,
                                .frame_count = tables,
                                .samples = samples,
                                .sample_count = count,
                                .origin = origin->fact,
                                .origin_count = origin->count};
    smoe_plot_size size;
    size_t scripts, drawn;
    bool sheets;
    int status = smoe_cmd_width(options, &size.width, err);
    if (!status) status = draw_overlays(samples, count, units, &size, &sheets, options, err);
    if (!status)
        status = smoe_figures_write(frames, tables, options->out, &size, &scripts, &drawn, err);
    if (!status && (drawn < scripts || !sheets))
        smoe_cmd_undrawn(options, options->out, "*.gp are the scripts of the figures");
    char *path = status ? NULL : smoe_text_format("%s/report.html", options->out);
    if (!status) status = smoe_report_write(&report, path, err);
    free(path);
    return status;
}
