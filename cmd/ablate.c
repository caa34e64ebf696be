/* smoe ablate: a spec with its router replaced, over seeds, and the rows compared seed by seed. It is a
 * sweep over study/ablate.h's axes; cells.h runs it. */
#include "cells.h"
#include "cmd.h"
#include "study/ablate.h"

#include <string.h>

/* What every row sets for itself cannot be set for all of them. */
static int check_overrides(const smoe_options *options, smoe_err *err) {
    static const char *const own[][2] = {{"seed=", "--seeds"}, {"model.moe.router=", "--routers"}};
    for (size_t i = 0; i < options->overrides; i++)
        for (size_t k = 0; k < 2; k++)
            if (!strncmp(options->override[i], own[k][0], strlen(own[k][0])))
                return smoe_fail(err, SMOE_USAGE, "override %s: %s says what the rows have",
                                 options->override[i], own[k][1]);
    return 0;
}

static int expand(smoe_sweep *sweep, const char *file, const smoe_options *options, smoe_err *err) {
    smoe_spec_text text;
    smoe_spec spec = {0};
    smoe_axes axes = {0};
    size_t skipped;
    if (check_overrides(options, err)) return -1;
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
