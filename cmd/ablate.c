/* smoe ablate: a spec with its router replaced, over seeds, which are compared seed by seed. It
 * is a sweep over sweep/ablate.h's axes; trials.h runs it. */
#include "trials.h"
#include "cmd.h"
#include "base/alloc.h"
#include "sweep/ablate.h"

#include <string.h>

/* The overrides of all settings: without the seeds, which the axes have, as they have the
 * routers. */
static int common(char **assign, size_t *count, const smoe_options *options, smoe_err *err) {
    *count = 0;
    for (size_t i = 0; i < options->overrides; i++) {
        char *text = options->assign[i];
        if (!strncmp(text, "model.moe.router=", 17))
            return smoe_fail(err, SMOE_USAGE, "override %s: choose the routers with --routers",
                             text);
        if (strncmp(text, "seed=", 5)) assign[(*count)++] = text;
    }
    return 0;
}

static int ablate_expand(smoe_sweep *sweep, const char *file, const smoe_options *options,
                         smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_text_free) smoe_spec_text text = {0};
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    SMOE_FREED_BY(smoe_axes_free) smoe_axes axes = {0};
    size_t skipped, count = 0;
    SMOE_FREED char *seeds = NULL;
    SMOE_FREED char **assign = smoe_alloc(options->overrides + 1, sizeof *assign);
    if (common(assign, &count, options, err) || smoe_trials_seeds(&seeds, options, err) ||
        smoe_cmd_text(&text, file, options, err))
        return -1;
    text.of_cells = true;
    if (smoe_spec_parse_text(&spec, &text, assign, count, err) ||
        smoe_ablate_axes(&axes, &spec, options->routers, seeds ? strchr(seeds, '=') + 1 : "0,1,2",
                         err))
        return -1;
    return smoe_sweep_expand(sweep, &text, assign, count, &axes, false, &skipped, err);
}

/* An existing folder must hold an ablation, not another kind of sweep. */
static int ablate_check(const smoe_sweep *sweep, smoe_err *err) {
    if (sweep->columns == 2 && sweep->seed == 1) return 0;
    return smoe_fail(err, SMOE_USAGE, "%s: a sweep, not an ablation; use smoe sweep", sweep->dir);
}

int cmd_ablate(const smoe_options *options, smoe_err *err) {
    static const smoe_trials_kind ablation = {.suffix = "ablate",
                                              .expand = ablate_expand,
                                              .check = ablate_check,
                                              .reference = "router=soft"};
    return smoe_trials_command(&ablation, options, err);
}
