/* smoe ablate: a spec with its router replaced, over seeds, and the rows compared seed by seed. It is a
 * sweep over study/ablate.h's axes; cells.h runs it. */
#include "cells.h"
#include "cmd.h"
#include "study/ablate.h"

static int expand(smoe_sweep *sweep, const char *file, const smoe_options *options, smoe_err *err) {
    smoe_spec_text text;
    smoe_spec spec = {0};
    smoe_axes axes = {0};
    size_t skipped;
    int status = smoe_spec_text_read(&text, file, err);
    if (!status)
        status = smoe_spec_parse(&spec, text.text, text.length, text.label, text.folder,
                                 options->override, options->overrides, err);
    if (!status) status = smoe_ablate_axes(&axes, &spec, options->routers, options->seeds, err);
    if (!status)
        status = smoe_sweep_expand(sweep, &text, options->override, options->overrides, &axes,
                                   false, &skipped, err);
    smoe_axes_free(&axes);
    smoe_spec_free(&spec);
    smoe_spec_text_free(&text);
    return status;
}

/* A folder that is there must hold an ablation, not any sweep. */
static int check(const smoe_sweep *sweep, smoe_err *err) {
    if (sweep->columns == 2 && sweep->seed == 1) return 0;
    return smoe_fail(err, SMOE_USAGE, "%s: a sweep, but no ablation; it is for smoe sweep",
                     sweep->dir);
}

int cmd_ablate(const smoe_options *options, smoe_err *err) {
    static const smoe_cells_kind ablation = {
        .suffix = "ablate", .expand = expand, .check = check, .reference = "router=soft"};
    return smoe_cells_command(&ablation, options, err);
}
