/* smoe sweep: a grid of runs from one spec, its section `sweep` and lists on the command line; cells.h
 * runs what comes of it. */
#include "cells.h"
#include "cmd.h"

#include <stdlib.h>

/* The cells of SPEC.yaml and the overrides. */
static int expand(smoe_sweep *sweep, const char *file, const smoe_options *options, smoe_err *err) {
    smoe_spec spec, base = {0};
    smoe_err own = {0};
    smoe_axes axes = {0};
    size_t plains = 0, skipped = 0;
    char **plain = calloc(options->overrides + 1, sizeof *plain);
    if (!plain) return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    /* What is wrong with the spec by itself may be right in every cell; mistakes in its section
     * `sweep`, or no spec at all, are not. */
    int status = smoe_spec_read(&spec, file, NULL, 0, err);
    if (status && !spec.sweep.bad && err->code == SMOE_USAGE && spec.origin) status = 0;
    if (!status)
        status = smoe_axes_of(&axes, &spec.sweep.train, options->override, options->overrides,
                              plain, &plains, err);
    if (!status && !axes.count) {
        status = smoe_spec_read(&base, file, plain, plains, err);
        if (!status)
            status = smoe_fail(err, SMOE_USAGE,
                               "%s: nothing is swept: give it a section sweep, or key=a,b,c", file);
    } else if (!status) {
        status = smoe_sweep_expand(sweep, file, plain, plains, &axes, options->skip_invalid,
                                   &skipped, err);
        /* What every cell has is said once. */
        if (status && skipped && !sweep->cells && smoe_spec_read(&base, file, plain, plains, &own))
            *err = own;
        else if (status && skipped)
            smoe_fail_more(err, SMOE_USAGE,
                           "%zu combinations are no valid spec; --skip-invalid leaves them out",
                           skipped);
        else if (skipped && !options->quiet)
            fprintf(stderr, "%zu combinations are no valid spec and skipped:\n%s\n", skipped,
                    err->text);
    }
    smoe_spec_free(&base);
    smoe_spec_free(&spec);
    smoe_axes_free(&axes);
    free(plain);
    return status;
}

int cmd_sweep(const smoe_options *options, smoe_err *err) {
    static const smoe_cells_kind grid = {
        .suffix = "sweep", .expand = expand, .report = smoe_cells_summary};
    return smoe_cells_command(&grid, options, err);
}
