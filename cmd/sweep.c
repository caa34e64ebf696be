/* smoe sweep: a grid of runs from one spec, its section `sweep` and lists on the command line, and
 * evaluations of them, or of one existing run, at other settings (sweep/grid.h); trials.h runs the
 * trials. */
#include "trials.h"
#include "cmd.h"
#include "base/alloc.h"
#include "sweep/grid.h"

#include <string.h>

static int expand_spec(smoe_sweep *sweep, const char *file, char *const *assign, size_t count,
                       const smoe_options *options, smoe_err *err) {
    smoe_file_choice choice;
    if (smoe_cmd_choice(&choice, options, err)) return -1;
    const smoe_grid_options how = {.skip_invalid = options->skip_invalid,
                                   .referred = options->reference,
                                   .planned = options->dry_run,
                                   .init = options->init,
                                   .start = {.upcycle = options->upcycle,
                                             .moments = options->moments,
                                             .partial = options->partial,
                                             .choice = choice}};
    SMOE_FREED_BY(smoe_spec_text_free) smoe_spec_text text = {0};
    size_t skipped = 0;
    if (smoe_cmd_text(&text, file, options, err) ||
        smoe_grid_of_spec(sweep, &text, assign, count, &how, &skipped, err))
        return -1;
    if (skipped && !options->quiet)
        fprintf(stderr, "%zu combination%s no valid spec and skipped:\n%s\n", skipped,
                skipped == 1 ? " is" : "s are", err->text);
    return 0;
}

/* The overrides, of which those of --seeds are one. */
static int sweep_expand(smoe_sweep *sweep, const char *arg, const smoe_options *options,
                        smoe_err *err) {
    SMOE_FREED char *seeds = NULL;
    SMOE_FREED char **assign = smoe_alloc(options->overrides + 1, sizeof *assign);
    size_t count = 0;
    if (smoe_trials_seeds(&seeds, options, err)) return -1;
    if (seeds) assign[count++] = seeds;
    for (size_t i = 0; i < options->overrides; i++)
        if (strncmp(options->assign[i], "seed=", 5)) assign[count++] = options->assign[i];
    return smoe_trials_is_run(arg) ? smoe_grid_of_run(sweep, arg, assign, count, err)
                                   : expand_spec(sweep, arg, assign, count, options, err);
}

int cmd_sweep(const smoe_options *options, smoe_err *err) {
    static const smoe_trials_kind grid = {.suffix = "sweep", .expand = sweep_expand};
    return smoe_trials_command(&grid, options, err);
}
